#include "device/cuda/cuda_plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "device/arm_tuner.h"
#include "nccl_profiler_abi.h"

#define EXPORT __attribute__((visibility("default")))

/* The events of a profiler's version; versions differ in init() alone. */
struct plugin_events {
    ncclResult_t (*start)(void *context, void **event,
                          const ncclProfilerEvent_t *what);
    ncclResult_t (*stop)(void *event);
    ncclResult_t (*record)(void *event, int state, const void *args);
    ncclResult_t (*finalize)(void *context);
};

/* A rank of a communicator, with what NCCL gives a tuner that begins there. */
struct plugin_comm {
    struct plugin_comm *next;
    uint64_t id;
    size_t n_ranks;
    size_t n_nodes;
    ncclDebugLogger_t log;
    ncclNvlDomainInfo_v5_t domains;
    ncclTunerConstants_v5_t constants;
    void *arm;           /* the context of stp_arm_tuner */
    void *inner;         /* the context of the tuner under test */
    ncclResult_t result; /* of its init() */
    pthread_t thread;    /* that runs it anew */
    bool has_thread;
};

static struct {
    /* set before the first communicator */
    ncclTuner_v6_t inner; /* the tuner under test, as v6; all NULL: none */
    ncclResult_t (*init_v4)(size_t n_ranks, size_t n_nodes,
                            ncclDebugLogger_t log, void **context);
    ncclResult_t (*ask_v3)(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algo,
                           int n_proto, int *n_channels);
    const ncclProfiler_v5_t *profiler_v5; /* its profiler: what it decided */
    const ncclProfiler_v4_t *profiler_v4;

    struct plugin_events events; /* of that; every handle is one of its */
    atomic_bool has_tuner;
    atomic_bool asks_inner; /* the plugin arm is selected */
    _Atomic(int *) mask;    /* NCCL's; NULL without a profiler */
    atomic_bool listens;
    int mask_before; /* of the listening */

    pthread_mutex_t lock; /* of the events, and of the members below */
    struct plugin_comm *comms;
    uint64_t n_reloads;
    int rank;
    struct stp_question question;
    struct stp_device_run run;
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the tuner ---- */

static ncclResult_t plugin_adapt_init(void **context, uint64_t comm_id,
                                      size_t n_ranks, size_t n_nodes,
                                      ncclDebugLogger_t log,
                                      ncclNvlDomainInfo_v5_t *domains,
                                      ncclTunerConstants_v5_t *constants)
{
    return plugin.init_v4(n_ranks, n_nodes, log, context);
}

static ncclResult_t plugin_adapt_ask(void *context, ncclFunc_t coll,
                                     size_t n_bytes, int n_pipe_ops,
                                     float **table, int n_algo, int n_proto,
                                     int reg_buff, int *n_channels)
{
    return plugin.ask_v3(context, coll, n_bytes, n_pipe_ops, table, n_algo,
                         n_proto, n_channels);
}

static void *plugin_context(const struct plugin_comm *comm,
                            const ncclTuner_v6_t *tuner)
{
    return tuner == &stp_arm_tuner ? comm->arm : comm->inner;
}

static ncclResult_t plugin_ask(void *context, ncclFunc_t coll, size_t n_bytes,
                               int n_pipe_ops, float **table, int n_algo,
                               int n_proto, int reg_buff, int *n_channels)
{
    const struct plugin_comm *comm = context;
    const ncclTuner_v6_t *tuner =
        atomic_load(&plugin.asks_inner) ? &plugin.inner : &stp_arm_tuner;

    if (atomic_load(&plugin.listens)) {
        const float *cost = (const float *)table;
        struct stp_question q = {n_bytes, n_pipe_ops, reg_buff, {{0}}};

        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                q.cost[a][p] = a < n_algo && p < n_proto
                                   ? cost[a * n_proto + p]
                                   : NCCL_ALGO_PROTO_IGNORE;
        pthread_mutex_lock(&plugin.lock);
        plugin.question = q;
        pthread_mutex_unlock(&plugin.lock);
    }
    return tuner->getCollInfo != NULL
               ? tuner->getCollInfo(plugin_context(comm, tuner), coll, n_bytes,
                                    n_pipe_ops, table, n_algo, n_proto,
                                    reg_buff, n_channels)
               : ncclSuccess;
}

/* The tuner under test gets a copy of the constants: NCCL's own choice must
 * stay its own.  One that starts over is in another communicator. */
static void *plugin_begin_comm(void *user)
{
    struct plugin_comm *comm = user;
    ncclTunerConstants_v5_t constants = comm->constants;

    comm->inner = NULL;
    comm->result =
        plugin.inner.init != NULL
            ? plugin.inner.init(&comm->inner, comm->id + plugin.n_reloads,
                                comm->n_ranks, comm->n_nodes, comm->log,
                                &comm->domains, &constants)
            : ncclSuccess;
    return NULL;
}

static ncclResult_t plugin_end_comm(const struct plugin_comm *comm)
{
    return plugin.inner.finalize != NULL && comm->result == ncclSuccess
               ? plugin.inner.finalize(comm->inner)
               : ncclSuccess;
}

static ncclResult_t plugin_init_v5(void **context, uint64_t comm_id,
                                   size_t n_ranks, size_t n_nodes,
                                   ncclDebugLogger_t log,
                                   ncclNvlDomainInfo_v5_t *domains,
                                   ncclTunerConstants_v5_t *constants)
{
    struct plugin_comm *comm = malloc(sizeof(*comm));
    ncclResult_t result;

    if (comm == NULL)
        return ncclSystemError; /* NCCL goes on without */
    *comm = (struct plugin_comm){.id = comm_id,
                                 .n_ranks = n_ranks,
                                 .n_nodes = n_nodes,
                                 .log = log,
                                 .domains = {1, (int)n_ranks, (int)n_ranks}};
    if (domains != NULL)
        comm->domains = *domains;
    if (constants != NULL)
        comm->constants = *constants;
    plugin_begin_comm(comm);
    result = comm->result;
    if (result == ncclSuccess) {
        result = stp_arm_tuner.init(&comm->arm, comm_id, n_ranks, n_nodes, log,
                                    domains, constants);
        if (result != ncclSuccess)
            plugin_end_comm(comm);
    }
    if (result != ncclSuccess) {
        free(comm);
        return result;
    }
    pthread_mutex_lock(&plugin.lock);
    comm->next = plugin.comms;
    plugin.comms = comm;
    pthread_mutex_unlock(&plugin.lock);
    atomic_store(&plugin.has_tuner, true);
    *context = comm;
    return ncclSuccess;
}

static ncclResult_t plugin_init_v4(size_t n_ranks, size_t n_nodes,
                                   ncclDebugLogger_t log, void **context)
{
    return plugin_init_v5(context, 0, n_ranks, n_nodes, log, NULL, NULL);
}

static ncclResult_t plugin_ask_v3(void *context, ncclFunc_t coll,
                                  size_t n_bytes, int n_pipe_ops, float **table,
                                  int n_algo, int n_proto, int *n_channels)
{
    return plugin_ask(context, coll, n_bytes, n_pipe_ops, table, n_algo,
                      n_proto, 0, n_channels);
}

static ncclResult_t plugin_ask_chunk(void *context, ncclFunc_t coll,
                                     size_t n_bytes, int algo, int proto,
                                     int n_channels, size_t *chunk_bytes)
{
    const struct plugin_comm *comm = context;
    const ncclTuner_v6_t *tuner =
        atomic_load(&plugin.asks_inner) ? &plugin.inner : &stp_arm_tuner;

    return tuner->getChunkSize != NULL
               ? tuner->getChunkSize(plugin_context(comm, tuner), coll, n_bytes,
                                     algo, proto, n_channels, chunk_bytes)
               : ncclSuccess;
}

static ncclResult_t plugin_tuner_finalize(void *context)
{
    const struct plugin_comm *comm = context;
    struct plugin_comm **at = &plugin.comms;
    const ncclResult_t inner = plugin_end_comm(comm);
    const ncclResult_t result = stp_arm_tuner.finalize(comm->arm);

    pthread_mutex_lock(&plugin.lock);
    while (*at != context)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&plugin.lock);
    free(context);
    return inner != ncclSuccess ? inner : result;
}

extern const ncclTuner_v3_t ncclTunerPlugin_v3;
extern const ncclTuner_v4_t ncclTunerPlugin_v4;
extern const ncclTuner_v5_t ncclTunerPlugin_v5;
extern const ncclTuner_v6_t ncclTunerPlugin_v6;

EXPORT const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    "steptune-bench", plugin_init_v4, plugin_ask_v3, plugin_tuner_finalize};
EXPORT const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    "steptune-bench", plugin_init_v4, plugin_ask, plugin_tuner_finalize};
EXPORT const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    "steptune-bench", plugin_init_v5, plugin_ask, plugin_tuner_finalize};
EXPORT const ncclTuner_v6_t ncclTunerPlugin_v6 = {
    "steptune-bench", plugin_init_v5, plugin_ask, plugin_tuner_finalize,
    plugin_ask_chunk};

/* ---- the profiler ---- */

/* The profiler's context of a communicator. */
struct plugin_profile {
    int rank;
    void *inner; /* the context of the profiler under test; NULL: it has none */
};

/* Makes a profile with the rank's number, so that events need not be asked, and
 * 'inner' of the profiler under test, whose events are these. */
static ncclResult_t plugin_profiler_init(void **context, int *mask, int rank,
                                         void *inner,
                                         const struct plugin_events *events)
{
    struct plugin_profile *mine = malloc(sizeof(*mine));

    if (mine == NULL)
        return ncclSystemError; /* NCCL goes on without */
    *mine = (struct plugin_profile){rank, inner};
    *context = mine;
    pthread_mutex_lock(&plugin.lock);
    plugin.events = *events;
    pthread_mutex_unlock(&plugin.lock);
    atomic_store(&plugin.mask, mask);
    return ncclSuccess;
}

/* A profiler's events, if it has this version. */
#define PROFILER_EVENTS(p)                                                     \
    ((p) != NULL                                                               \
         ? (struct plugin_events){(p)->startEvent, (p)->stopEvent,             \
                                  (p)->recordEventState, (p)->finalize}        \
         : (struct plugin_events){0})

static ncclResult_t plugin_init_profiler_v4(void **context, int *mask,
                                            const char *name, uint64_t comm_id,
                                            int n_nodes, int n_ranks, int rank,
                                            ncclDebugLogger_t log)
{
    const ncclProfiler_v4_t *p = plugin.profiler_v4;
    const struct plugin_events events = PROFILER_EVENTS(p);
    void *inner = NULL;

    if (p != NULL && p->init(&inner, mask, name, comm_id, n_nodes, n_ranks,
                             rank, log) != ncclSuccess)
        inner = NULL;
    return plugin_profiler_init(context, mask, rank, inner, &events);
}

static ncclResult_t plugin_init_profiler_v5(void **context, uint64_t comm_id,
                                            int *mask, const char *name,
                                            int n_nodes, int n_ranks, int rank,
                                            ncclDebugLogger_t log)
{
    const ncclProfiler_v5_t *p = plugin.profiler_v5;
    const struct plugin_events events = PROFILER_EVENTS(p);
    void *inner = NULL;

    if (p != NULL && p->init(&inner, comm_id, mask, name, n_nodes, n_ranks,
                             rank, log) != ncclSuccess)
        inner = NULL;
    return plugin_profiler_init(context, mask, rank, inner, &events);
}

/* -1 for NULL and an unknown word. */
static int plugin_number(const char *word,
                         int (*from_name)(const char *, size_t))
{
    return word != NULL ? stp_from_any_case(word, strlen(word), from_name) : -1;
}

/* The profiler under test is told nothing of collectives that another arm
 * decided; what follows one has a parent of its own if it took that. */
static ncclResult_t plugin_start(void *context, void **event,
                                 const ncclProfilerEvent_t *descriptor,
                                 uint64_t type)
{
    const uint64_t parts = NCCL_PROFILE_KERNEL_CH | NCCL_PROFILE_KERNEL_PHASE;
    const struct plugin_profile *profile = context;

    *event = NULL;
    if (type == NCCL_PROFILE_COLL && atomic_load(&plugin.listens)) {
        pthread_mutex_lock(&plugin.lock);
        if (profile != NULL && profile->rank == plugin.rank) {
            plugin.run.algo =
                plugin_number(descriptor->coll.algo, stp_algo_from_name);
            plugin.run.proto =
                plugin_number(descriptor->coll.proto, stp_proto_from_name);
            plugin.run.n_channels = descriptor->coll.nChannels;
        }
        pthread_mutex_unlock(&plugin.lock);
    }
    return profile != NULL && profile->inner != NULL &&
                   ((type & parts) != 0 ? descriptor->parentObj != NULL
                                        : atomic_load(&plugin.asks_inner))
               ? plugin.events.start(profile->inner, event, descriptor)
               : ncclSuccess;
}

static ncclResult_t plugin_start_v4(void *context, void **event,
                                    const ncclProfilerEvent_t *descriptor)
{
    return plugin_start(context, event, descriptor, descriptor->type.v4);
}

static ncclResult_t plugin_start_v5(void *context, void **event,
                                    const ncclProfilerEvent_t *descriptor)
{
    return plugin_start(context, event, descriptor, descriptor->type.v5);
}

static ncclResult_t plugin_stop(void *event)
{
    return event != NULL ? plugin.events.stop(event) : ncclSuccess;
}

static ncclResult_t plugin_state(void *event, int state, const void *args)
{
    return event != NULL ? plugin.events.record(event, state, args)
                         : ncclSuccess;
}

static ncclResult_t plugin_profiler_end(void *context)
{
    struct plugin_profile *profile = context;

    if (profile != NULL && profile->inner != NULL)
        plugin.events.finalize(profile->inner);
    free(profile);
    return ncclSuccess;
}

extern const ncclProfiler_v4_t ncclProfiler_v4;
extern const ncclProfiler_v5_t ncclProfiler_v5;

EXPORT const ncclProfiler_v4_t ncclProfiler_v4 = {
    "steptune-bench", plugin_init_profiler_v4, plugin_start_v4, plugin_stop,
    plugin_state,     plugin_profiler_end};
EXPORT const ncclProfiler_v5_t ncclProfiler_v5 = {
    "steptune-bench", plugin_init_profiler_v5, plugin_start_v5, plugin_stop,
    plugin_state,     plugin_profiler_end};

/* ---- our own side ---- */

/* Takes the newest of its versions, as v6. */
static enum stp_status plugin_open_inner(const char *path,
                                         struct stp_error *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const ncclTuner_v6_t *v6;
    const ncclTuner_v5_t *v5;
    const ncclTuner_v4_t *v4;
    const ncclTuner_v3_t *v3;

    if (library == NULL)
        return stp_fail(err, STP_ERR_DEVICE, "%s", dlerror());
    plugin.profiler_v5 = dlsym(library, "ncclProfiler_v5");
    plugin.profiler_v4 = dlsym(library, "ncclProfiler_v4");
    if ((v6 = dlsym(library, "ncclTunerPlugin_v6")) != NULL) {
        plugin.inner = *v6;
    } else if ((v5 = dlsym(library, "ncclTunerPlugin_v5")) != NULL) {
        plugin.inner = (ncclTuner_v6_t){v5->name, v5->init, v5->getCollInfo,
                                        v5->finalize, NULL};
    } else if ((v4 = dlsym(library, "ncclTunerPlugin_v4")) != NULL) {
        plugin.init_v4 = v4->init;
        plugin.inner = (ncclTuner_v6_t){v4->name, plugin_adapt_init,
                                        v4->getCollInfo, v4->destroy, NULL};
    } else if ((v3 = dlsym(library, "ncclTunerPlugin_v3")) != NULL) {
        plugin.init_v4 = v3->init;
        plugin.ask_v3 = v3->getCollInfo;
        plugin.inner = (ncclTuner_v6_t){v3->name, plugin_adapt_init,
                                        plugin_adapt_ask, v3->destroy, NULL};
    } else {
        dlclose(library);
        return stp_fail(err, STP_ERR_DEVICE,
                        "'%s' exports no ncclTunerPlugin_v3 to _v6", path);
    }
    return STP_OK;
}

enum stp_status stp_cuda_plugin_begin(const char *inner, int nccl,
                                      char replaced_ret[128],
                                      struct stp_error *err)
{
    /* the versions of NCCL that know an interface of tuners more */
    static const int since[] = {22100, 22200, 22400, 22800, 23000, 23206};
    const char *before = getenv("NCCL_TUNER_PLUGIN");
    int newest = 1;
    Dl_info self;

    if (inner != NULL)
        STP_TRY(plugin_open_inner(inner, err));
    if (dladdr(&ncclTunerPlugin_v5, &self) == 0)
        return stp_fail(err, STP_ERR_DEVICE, "cannot find this module");
    if (before == NULL || strcmp(before, self.dli_fname) == 0)
        before = "";
    snprintf(replaced_ret, 128, "%s", before);
    for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++)
        newest += nccl >= since[i];
    STP_TRY(stp_arm_tuner_begin(before, newest, err));
    if (setenv("NCCL_TUNER_PLUGIN", self.dli_fname, 1) != 0 ||
        setenv("NCCL_PROFILER_PLUGIN", self.dli_fname, 1) != 0)
        return stp_fail(err, STP_ERR_DEVICE, "cannot set NCCL_TUNER_PLUGIN");
    return STP_OK;
}

/* Ranks may wait in init() until others are there, too: each has a thread. */
enum stp_status stp_cuda_plugin_reload(struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (struct plugin_comm *c = plugin.comms; c != NULL; c = c->next)
        plugin_end_comm(c);
    plugin.n_reloads++;
    for (struct plugin_comm *c = plugin.comms; c != NULL; c = c->next) {
        c->has_thread =
            pthread_create(&c->thread, NULL, plugin_begin_comm, c) == 0;
        if (!c->has_thread)
            plugin_begin_comm(c);
    }
    for (struct plugin_comm *c = plugin.comms; c != NULL; c = c->next) {
        if (c->has_thread)
            pthread_join(c->thread, NULL);
        if (c->result != ncclSuccess)
            status = stp_fail(err, STP_ERR_DEVICE,
                              "the tuner plugin's init() returned %d when it "
                              "started over, expected 0",
                              (int)c->result);
    }
    return status;
}

bool stp_cuda_plugin_has_tuner(void)
{
    return atomic_load(&plugin.has_tuner);
}

void stp_cuda_plugin_select(const struct stp_arm *arm)
{
    stp_arm_tuner_set(arm);
    atomic_store(&plugin.asks_inner, arm->kind == STP_ARM_PLUGIN);
}

/* The profiler under test switches its own events on and off in the same mask:
 * ours goes only where it did not ask for it, too. */
static void plugin_enable_events(bool on)
{
    int *mask = atomic_load(&plugin.mask);
    int ours = NCCL_PROFILE_COLL;

    if (atomic_exchange(&plugin.listens, on) == on || mask == NULL)
        return;
    if (on)
        plugin.mask_before =
            __atomic_fetch_or(mask, NCCL_PROFILE_COLL, __ATOMIC_RELAXED);
    else if ((plugin.mask_before & NCCL_PROFILE_COLL) == 0)
        __atomic_compare_exchange_n(mask, &ours, 0, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

void stp_cuda_plugin_listen(int rank)
{
    pthread_mutex_lock(&plugin.lock);
    plugin.rank = rank;
    plugin.question = (struct stp_question){0};
    plugin.run = (struct stp_device_run){.algo = -1, .proto = -1};
    pthread_mutex_unlock(&plugin.lock);
    plugin_enable_events(true);
}

void stp_cuda_plugin_heard(struct stp_device_run *run_ret,
                           struct stp_question *question_ret)
{
    plugin_enable_events(false);
    pthread_mutex_lock(&plugin.lock);
    *run_ret = plugin.run;
    *question_ret = plugin.question;
    pthread_mutex_unlock(&plugin.lock);
}
