/* profiler_abi.c - NCCL's profiler ABI, for a plugin that learns, and for a
 * trace of a job
 *
 * On a rank a collective begins when the first of its channels does.  That is
 * all that learning asks for; a trace has when the last channel ended, too. */
#define _GNU_SOURCE /* syscall() */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agree/process_lock.h"
#include "core/dtype.h"
#include "core/names.h"
#include "core/text.h"
#include "nccl_profiler_abi.h"
#include "plugin/online/clock.h"
#include "plugin/online/profile.h"
#include "plugin/online/recorder.h"

enum {
    /* Collectives that are timed, launched and have not begun: a host is up to
     * 1024 launches, CUDA's queue, ahead of its GPU. */
    N_FLIGHTS = 1024,
    /* Events of phases of v7 are left out: in the kernels on which a tuner
     * decides they do not tell waiting from moving. */
    EVENTS = NCCL_PROFILE_COLL | NCCL_PROFILE_KERNEL_CH | NCCL_PROFILE_CE_COLL,
    /* Groups in which a learner looks for a capture between the times that it
     * asks for: an event of the host that costs nothing on the GPU. */
    WATCHED_GROUPS = 1 << 16,
    N_NCCLS = 8, /* in a process: PyTorch's, JAX's and the like */
};

/* An NCCL that this process has loaded. */
struct nccl {
    int *mask; /* of the events that it asks for; NULL: none is here */
    int n_profiles;
    int n_wants;               /* communicators that need times */
    int n_learners;            /* profiles with an observer */
    _Atomic unsigned n_groups; /* that were looked at for a capture */
};

/* The kind of a handle, in its lowest bits; the others are a pointer or a
 * number. NCCL keeps handles of calls beyond their end. */
enum handle {
    HANDLE_FLIGHT, /* a pointer to a struct flight */
    HANDLE_RECORD, /* a collective, or a channel of one, by recorder.h */
    HANDLE_GROUP,  /* an ncclGroup: its number, 0 for a call alone */
    HANDLE_CALL,   /* of NCCL's API: see profile_start_call() */
    HANDLE_BITS = 3,
};

/* A collective under way. */
struct flight {
    struct stp_profile *profile;
    uint64_t record; /* in the trace; 0: none */
    uint32_t token;
    uint8_t n_channels;
    bool is_used;     /* until it has begun */
    bool wants_end;   /* the observer asks how long it takes */
    uint8_t n_ended;  /* channels */
    uint64_t host_ns; /* of the launch; 0: not known */
    uint64_t end_ns;  /* the latest of them */
};

struct stp_profile {
    struct stp_profile *next; /* in the list of those that no tuner took yet */
    struct nccl *nccl;        /* that made it */
    pid_t pid;                /* of the process in which that was */
    long thread;              /* likewise */
    _Atomic int n_users;      /* NCCL's context and ours */
    uint64_t comm_id;
    size_t n_ranks;
    int rank;
    bool is_recorded;          /* stp_recorder_open() */
    _Atomic bool needs_record; /* the trace has room */
    _Atomic bool is_wanted;
    _Atomic uint64_t n_symmetric; /* of stp_profile_others() */
    _Atomic uint64_t n_copied;
    pthread_mutex_t lock;                       /* of the members below */
    struct stp_observer *observer;              /* NULL: times are of no use */
    bool has_clock;                             /* the host's is the job's */
    uint64_t next_number[NCCL_NUM_TUNED_FUNCS]; /* number of each function */
    unsigned n_launches;
    struct flight *flights; /* a ring of N_FLIGHTS; with an observer */
};

static struct {
    struct stp_process_lock lock;
    struct nccl nccls[N_NCCLS];
    _Atomic bool saw_graph;
    struct stp_profile *waiting; /* profiles that no tuner took yet */
} process;

static void profile_lock(void)
{
    if (stp_process_lock(&process.lock)) {
        memset(process.nccls, 0, sizeof(process.nccls));
        process.waiting = NULL;
    }
}

static void profile_unlock(void)
{
    pthread_mutex_unlock(&process.lock.mutex);
}

/* Thread-local variables would need the dynamic linker, a library more. */
static long profile_thread(void)
{
    return syscall(SYS_gettid);
}

/* Takes 'profile' off the list; if it is NULL, the profile that this thread
 * made for 'comm_id'.  NULL if it is not there. */
static struct stp_profile *profile_take_off(const struct stp_profile *profile,
                                            uint64_t comm_id)
{
    struct stp_profile **link;
    struct stp_profile *found = NULL;

    profile_lock();
    for (link = &process.waiting; *link != NULL; link = &(*link)->next)
        if (profile != NULL ? *link == profile
                            : (*link)->comm_id == comm_id &&
                                  (*link)->thread == profile_thread()) {
            found = *link;
            *link = found->next;
            break;
        }
    profile_unlock();
    return found;
}

/* ---- handles ---- */

static void *handle_make(enum handle kind, uint64_t number)
{
    return (void *)(uintptr_t)(number << HANDLE_BITS | kind);
}

static bool handle_is(const void *handle, enum handle kind)
{
    return ((uintptr_t)handle & ((1 << HANDLE_BITS) - 1)) == (uintptr_t)kind;
}

/* Returns the number in a handle, or 0 if the handle is of another kind. */
static uint64_t handle_number(const void *handle, enum handle kind)
{
    return handle_is(handle, kind) ? (uintptr_t)handle >> HANDLE_BITS : 0;
}

/* ---- the tuner's side ---- */

struct stp_profile *stp_profile_take(uint64_t comm_id)
{
    struct stp_profile *profile = profile_take_off(NULL, comm_id);

    if (profile != NULL)
        atomic_fetch_add(&profile->n_users, 1);
    return profile;
}

void stp_profile_release(struct stp_profile *profile)
{
    if (profile == NULL || atomic_fetch_sub(&profile->n_users, 1) != 1)
        return;
    profile_lock();
    if (--profile->nccl->n_profiles == 0)
        profile->nccl->mask = NULL; /* it may be unloaded */
    profile_unlock();
    pthread_mutex_destroy(&profile->lock);
    free(profile->flights);
    free(profile);
}

/* Sets an NCCL's activation mask, which any thread reads. Under the lock. */
static void profile_set_mask(const struct nccl *nccl)
{
    int mask = nccl->n_wants > 0 ? EVENTS : 0;

    if (nccl->n_learners > 0 && nccl->n_groups < WATCHED_GROUPS)
        mask |= NCCL_PROFILE_GROUP_API;
    if (nccl->mask != NULL)
        __atomic_store_n(nccl->mask, mask, __ATOMIC_RELAXED);
}

void stp_profile_attach(struct stp_profile *profile,
                        struct stp_observer *observer, bool has_clock)
{
    int change;

    pthread_mutex_lock(&profile->lock);
    change = -(profile->observer != NULL);
    profile->has_clock = has_clock;
    if (profile->flights == NULL && observer != NULL)
        profile->flights = calloc(N_FLIGHTS, sizeof(*profile->flights));
    profile->observer = profile->flights != NULL ? observer : NULL;
    change += profile->observer != NULL;
    pthread_mutex_unlock(&profile->lock);
    profile_lock();
    if (profile->nccl->n_learners == 0)
        profile->nccl->n_groups = 0;
    profile->nccl->n_learners += change;
    profile_set_mask(profile->nccl);
    profile_unlock();
}

/* Sets one of the reasons for which a profile needs times. */
static void profile_set_want(struct nccl *nccl, _Atomic bool *want,
                             bool is_wanted)
{
    if (atomic_load_explicit(want, memory_order_relaxed) == is_wanted ||
        atomic_exchange(want, is_wanted) == is_wanted)
        return;
    profile_lock();
    nccl->n_wants += is_wanted ? 1 : -1;
    profile_set_mask(nccl);
    profile_unlock();
}

void stp_profile_want(struct stp_profile *profile, bool is_wanted)
{
    profile_set_want(profile->nccl, &profile->is_wanted, is_wanted);
}

int stp_profile_rank(const struct stp_profile *profile)
{
    return profile->rank;
}

bool stp_profile_take_graph(void)
{
    return atomic_exchange(&process.saw_graph, false);
}

struct stp_profile_others stp_profile_others(struct stp_profile *profile)
{
    return (struct stp_profile_others){atomic_load(&profile->n_symmetric),
                                       atomic_load(&profile->n_copied)};
}

/* ---- launches ---- */

/* Finds the type of a name such as "ncclBfloat16"; -1 if it is not known. */
static int profile_type(const char *datatype)
{
    /* in the order of the enum */
    static const char *const names[STP_N_TYPES] = {
        "Int8",    "Uint8",    "Int32",      "Uint32",
        "Int64",   "Uint64",   "Float16",    "Float32",
        "Float64", "Bfloat16", "Float8e4m3", "Float8e5m2"};

    if (datatype == NULL || strncmp(datatype, "nccl", 4) != 0)
        return -1;
    return stp_find_word(names, STP_N_TYPES, datatype + 4,
                         strlen(datatype + 4));
}

/* Reads the launch of a Coll or a CeColl, which begin alike. */
static bool profile_read_launch(const struct stp_profile *p,
                                const ncclProfilerEvent_t *event,
                                struct stp_launch *launch)
{
    const char *func = event->coll.func;
    int coll = func == NULL
                   ? -1
                   : stp_from_any_case(func, strlen(func), stp_coll_from_name);

    const int type = profile_type(event->coll.datatype);

    if (coll < 0 || type < 0)
        return false;
    launch->coll = coll;
    launch->n_bytes = event->coll.count * stp_type_size(type);
    if (coll == ncclFuncAllGather || coll == ncclFuncReduceScatter)
        launch->n_bytes *= p->n_ranks; /* as a tuner counts */
    return true;
}

/* ---- events ---- */

enum { CALL_GRAPH_BITS = 1, CALL_TYPE_BITS = 5 };

/* A group that is captured is the last one that is looked at. */
static void profile_start_group(struct nccl *nccl, bool is_captured)
{
    const unsigned step = is_captured ? WATCHED_GROUPS : 1;

    if (is_captured)
        atomic_store(&process.saw_graph, true);
    if (atomic_load_explicit(&nccl->n_groups, memory_order_relaxed) >=
            WATCHED_GROUPS ||
        atomic_fetch_add(&nccl->n_groups, step) + step < WATCHED_GROUPS)
        return;
    profile_lock();
    profile_set_mask(nccl);
    profile_unlock();
}

/* Packs into a call's handle the facts that its launches lack: its group, its
 * type plus 1, as launches of some functions count bytes, and whether a graph
 * captures it. */
static void *profile_start_call(const ncclProfilerEvent_t *event)
{
    const uint64_t group = handle_number(event->parentObj, HANDLE_GROUP);
    const int type = profile_type(event->collApi.datatype);

    if (event->collApi.graphCaptured)
        atomic_store(&process.saw_graph, true);
    if (!stp_recorder_wants())
        return NULL;
    return handle_make(HANDLE_CALL,
                       (group << CALL_TYPE_BITS | (uint64_t)(type + 1))
                               << CALL_GRAPH_BITS |
                           event->collApi.graphCaptured);
}

static uint64_t profile_record(struct stp_profile *p,
                               const ncclProfilerEvent_t *event,
                               const struct stp_launch *launch,
                               unsigned n_channels)
{
    const uint64_t call = handle_number(event->parentObj, HANDLE_CALL);
    const uint64_t typed = call >> CALL_GRAPH_BITS;
    struct stp_traced_launch recorded = {
        .comm_id = p->comm_id,
        .n_ranks = p->n_ranks,
        .group = typed >> CALL_TYPE_BITS,
        .is_graph = (call & 1) != 0,
        .coll = launch->coll,
        .n_bytes = launch->n_bytes,
        .type = (int)(typed & ((1 << CALL_TYPE_BITS) - 1)) - 1,
        .n_channels = n_channels,
    };

    if (recorded.type < 0 && stp_coll_reduces(launch->coll))
        recorded.type = profile_type(event->coll.datatype);
    if (!stp_recorder_wants())
        profile_set_want(p->nccl, &p->needs_record, false);
    return stp_recorder_launched(&recorded);
}

static void *profile_start_collective(struct stp_profile *p,
                                      const ncclProfilerEvent_t *event)
{
    /* A kernel for symmetric windows runs it: no tuner decided on that. */
    const bool is_symmetric =
        event->coll.proto != NULL && event->coll.proto[0] == '\0';
    struct flight *flight = NULL;
    struct stp_launch launch;
    uint64_t record = 0;
    uint32_t token;

    if (!profile_read_launch(p, event, &launch))
        return NULL;
    if (p->is_recorded)
        record = profile_record(p, event, &launch, event->coll.nChannels);
    if (is_symmetric)
        atomic_fetch_add(&p->n_symmetric, 1);

    /* The learner needs times of launches that NCCL counts: it does not count
     * those of CUDA graphs, and nobody asked about them.  The oldest flight
     * makes room: it began, or its event was lost. */
    pthread_mutex_lock(&p->lock);
    if (p->observer != NULL && event->coll.nChannels > 0 && !is_symmetric &&
        event->coll.seqNumber >= p->next_number[launch.coll]) {
        p->next_number[launch.coll] = event->coll.seqNumber + 1;
        if (stp_observer_launched(p->observer, &launch, &token)) {
            flight = &p->flights[p->n_launches++ % N_FLIGHTS];
            *flight = (struct flight){
                .profile = p,
                .record = record,
                .token = token,
                .n_channels = event->coll.nChannels,
                .is_used = true,
                .wants_end =
                    record == 0 && stp_observer_is_sampling(p->observer),
                .host_ns = p->has_clock ? stp_now_ns() : 0,
            };
        }
    }
    pthread_mutex_unlock(&p->lock);
    if (flight != NULL)
        return flight;
    return record != 0 ? handle_make(HANDLE_RECORD, record) : NULL;
}

static void *profile_start_channel(const ncclProfilerEvent_t *event)
{
    void *parent = event->parentObj;
    const uint64_t begin_ns = event->kernelCh.pTimer;
    uint64_t record = handle_number(parent, HANDLE_RECORD);
    bool wants_end = false;

    if (parent != NULL && handle_is(parent, HANDLE_FLIGHT)) {
        struct flight *f = parent;

        pthread_mutex_lock(&f->profile->lock);
        if (f->is_used && f->profile->observer != NULL)
            stp_observer_took(f->profile->observer, f->token, f->n_channels,
                              f->host_ns, begin_ns);
        f->is_used = false;
        record = f->record;
        wants_end = f->wants_end;
        pthread_mutex_unlock(&f->profile->lock);
    }
    if (wants_end)
        return parent;
    if (record == 0)
        return NULL;
    stp_recorder_began(record, begin_ns);
    return handle_make(HANDLE_RECORD, record);
}

static ncclResult_t profile_start(struct stp_profile *p, void **handle,
                                  uint64_t type,
                                  const ncclProfilerEvent_t *event)
{
    struct stp_launch launch;

    *handle = NULL;
    if (p == NULL)
        return ncclSuccess;
    switch (type) {
    case NCCL_PROFILE_GROUP:
        *handle = handle_make(HANDLE_GROUP, 0); /* of NCCL 2.27 */
        break;
    case NCCL_PROFILE_GROUP_API:
        profile_start_group(p->nccl, event->groupApi.graphCaptured);
        /* A group is numbered for its calls, whichever communicator is told. */
        if (stp_recorder_wants())
            *handle = handle_make(HANDLE_GROUP, event->groupApi.groupDepth > 1
                                                    ? stp_recorder_new_group()
                                                    : 0);
        break;
    case NCCL_PROFILE_COLL_API:
        *handle = profile_start_call(event);
        break;
    case NCCL_PROFILE_COLL:
        *handle = profile_start_collective(p, event);
        break;
    case NCCL_PROFILE_KERNEL_CH:
        *handle = profile_start_channel(event);
        break;
    case NCCL_PROFILE_CE_COLL:
        /* Copy engines have no kernel to time: nothing is learned of them. */
        if (!profile_read_launch(p, event, &launch))
            break;
        atomic_fetch_add(&p->n_copied, 1);
        if (p->is_recorded)
            profile_record(p, event, &launch, 0);
        break;
    default:
        break;
    }
    return ncclSuccess;
}

static ncclResult_t profile_start_v4(void *context, void **handle,
                                     const ncclProfilerEvent_t *event)
{
    return profile_start(context, handle, event->type.v4, event);
}

static ncclResult_t profile_start_v5(void *context, void **handle,
                                     const ncclProfilerEvent_t *event)
{
    return profile_start(context, handle, event->type.v5, event);
}

static ncclResult_t profile_stop(void *event)
{
    return ncclSuccess;
}

/* A channel of the collective ended; it has when all did. */
static void profile_end_channel(struct flight *f, uint64_t end_ns)
{
    struct stp_profile *p = f->profile;

    pthread_mutex_lock(&p->lock);
    if (end_ns > f->end_ns)
        f->end_ns = end_ns;
    if (f->wants_end && ++f->n_ended == f->n_channels) {
        f->wants_end = false;
        if (p->observer != NULL)
            stp_observer_ended(p->observer, f->token, f->end_ns);
    }
    pthread_mutex_unlock(&p->lock);
}

static ncclResult_t profile_record_state(void *event, int state,
                                         const void *args)
{
    const ncclProfilerStateArgs_t *told = args;
    const uint64_t record = handle_number(event, HANDLE_RECORD);

    if (state != NCCL_PROFILE_KERNEL_CH_STOP || told == NULL)
        return ncclSuccess;
    if (record != 0)
        stp_recorder_ended(record, told->kernelCh.pTimer);
    else if (event != NULL && handle_is(event, HANDLE_FLIGHT))
        profile_end_channel(event, told->kernelCh.pTimer);
    return ncclSuccess;
}

/* ---- life ---- */

/* The NCCL that has this mask, with a profile more; NULL: there are too many.
 * Under the lock. */
static struct nccl *profile_find_nccl(int *mask)
{
    struct nccl *found = NULL;

    for (size_t i = N_NCCLS; i-- > 0 && (found == NULL || found->mask != mask);)
        if (process.nccls[i].mask == NULL || process.nccls[i].mask == mask)
            found = &process.nccls[i];
    if (found != NULL && found->mask == NULL)
        *found = (struct nccl){.mask = mask};
    if (found != NULL)
        found->n_profiles++;
    return found;
}

static ncclResult_t profile_init_v5(void **context, uint64_t comm_id, int *mask,
                                    const char *name, int n_nodes, int n_ranks,
                                    int rank, ncclDebugLogger_t log)
{
    struct stp_profile *p = calloc(1, sizeof(*p));

    profile_lock();
    if (p != NULL && (p->nccl = profile_find_nccl(mask)) != NULL)
        profile_set_mask(p->nccl);
    profile_unlock();
    if (p == NULL || p->nccl == NULL) {
        free(p);
        return ncclSystemError; /* NCCL goes on without */
    }
    atomic_init(&p->n_users, 1);
    p->comm_id = comm_id;
    p->n_ranks = (size_t)n_ranks;
    p->rank = rank;
    pthread_mutex_init(&p->lock, NULL);
    p->is_recorded = stp_recorder_open(comm_id, rank, log);
    profile_set_want(p->nccl, &p->needs_record, p->is_recorded);
    p->pid = getpid();
    p->thread = profile_thread();
    *context = p;
    profile_lock();
    p->next = process.waiting;
    process.waiting = p;
    profile_unlock();
    return ncclSuccess;
}

static ncclResult_t profile_init_v4(void **context, int *mask, const char *name,
                                    uint64_t comm_id, int n_nodes, int n_ranks,
                                    int rank, ncclDebugLogger_t log)
{
    return profile_init_v5(context, comm_id, mask, name, n_nodes, n_ranks, rank,
                           log);
}

static ncclResult_t profile_finalize(void *context)
{
    struct stp_profile *p = context;

    if (context == NULL || p->pid != getpid())
        return ncclSuccess; /* a child has nothing of its parent's */
    profile_take_off(p, 0);
    profile_set_want(p->nccl, &p->needs_record, false);
    if (p->is_recorded)
        stp_recorder_close();
    stp_profile_release(p);
    return ncclSuccess;
}

#define EXPORT __attribute__((visibility("default"))) extern

EXPORT const ncclProfiler_v4_t ncclProfiler_v4;
EXPORT const ncclProfiler_v5_t ncclProfiler_v5;
EXPORT const ncclProfiler_v5_t ncclProfiler_v6;
EXPORT const ncclProfiler_v5_t ncclProfiler_v7;

const ncclProfiler_v4_t ncclProfiler_v4 = {
    STP_TUNER_NAME, profile_init_v4,      profile_start_v4,
    profile_stop,   profile_record_state, profile_finalize};
const ncclProfiler_v5_t ncclProfiler_v5 = {
    STP_TUNER_NAME, profile_init_v5,      profile_start_v5,
    profile_stop,   profile_record_state, profile_finalize};
const ncclProfiler_v5_t ncclProfiler_v6 = {
    STP_TUNER_NAME, profile_init_v5,      profile_start_v5,
    profile_stop,   profile_record_state, profile_finalize};
const ncclProfiler_v5_t ncclProfiler_v7 = {
    STP_TUNER_NAME, profile_init_v5,      profile_start_v5,
    profile_stop,   profile_record_state, profile_finalize};
