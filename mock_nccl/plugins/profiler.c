#include "plugins/profiler.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/names.h"
#include "plugins/plugin_open.h"

enum { OLDEST = 4, OLDEST_EVER = 1 }; /* supported, and looked for by NCCL */

enum status { FAILED = -1, READY, LOADED };

struct mock_profiler {
    const struct mock_profiler_rules *rules; /* NULL: no search for profilers */
    const char *plugin;                      /* NCCL_PROFILER_PLUGIN */
    const char *net;                         /* NCCL_NET_PLUGIN, or NULL */
    int mask; /* mask of the process; profilers write it at any time */

    pthread_mutex_t lock; /* protects status, n_refs and library */
    enum status status;   /* FAILED is final for the process */
    int n_refs;
    void *library;
    int version;
    _Atomic(const void *) symbol; /* NULL: no profiler is loaded */
    atomic_bool is_wired; /* NCCL has set all functions: for older versions than
                             the newest only after an init */
};

/* ---- life ---- */

ncclResult_t mock_profiler_create(const struct mock_version *version,
                                  const char *plugin, const char *net,
                                  struct mock_profiler **profiler_ret)
{
    struct mock_profiler *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return mock_fail_memory();
    p->plugin = plugin;
    p->net = net;
    if (plugin != NULL && version->profiler.newest != 0)
        p->rules = &version->profiler;
    pthread_mutex_init(&p->lock, NULL);
    *profiler_ret = p;
    return ncclSuccess;
}

void mock_profiler_destroy(struct mock_profiler *p)
{
    if (p == NULL)
        return;
    if (p->library != NULL) /* as at the end of the process */
        dlclose(p->library);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* ---- loading ---- */

/* Looks for a profiler in the library; none before version 4 is used. */
static bool profiler_find(struct mock_profiler *p)
{
    const struct mock_loader_rules *rules = &p->rules->loader;

    for (int v = p->rules->newest; v >= OLDEST_EVER; v--) {
        char symbol[32];
        struct mock_line_words words = {.name = symbol, .version = v};
        const ncclProfiler_v5_t *any; /* all versions begin with the name */

        snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", v);
        any = dlsym(p->library, symbol);
        if (any == NULL) {
            words.why = dlerror();
            mock_log_line(rules, MOCK_LINE_DLSYM, &words);
            mock_log_line(rules, MOCK_LINE_NO_SYMBOL, &words);
        } else if (v >= OLDEST) {
            words.name = any->name;
            p->version = v;
            atomic_store(&p->symbol, any);
            atomic_store(&p->is_wired, v == p->rules->newest);
            mock_log_line(rules, MOCK_LINE_USING, &words);
            return true;
        }
    }
    return false;
}

static bool profiler_load(struct mock_profiler *p)
{
    const struct mock_loader_rules *rules = &p->rules->loader;
    bool searches = mock_plugin_open(rules, p->plugin, NULL, &p->library);
    bool is_net = searches && p->library == NULL && p->net != NULL &&
                  rules->net != MOCK_NET_NEVER;
    bool found;

    if (is_net)
        p->library = mock_plugin_open_net(rules, p->net);
    if (p->library == NULL)
        return false;
    found = profiler_find(p);
    if (!is_net)
        MOCK_LOG_LINE(rules, found ? MOCK_LINE_LOADED : MOCK_LINE_UNSUPPORTED,
                      .name = mock_plugin_path(p->library));
    if (!found) {
        dlclose(p->library);
        p->library = NULL;
    }
    return found;
}

static void profiler_release(struct mock_profiler *p)
{
    const ncclProfiler_v5_t *any;

    pthread_mutex_lock(&p->lock);
    if (--p->n_refs == 0) {
        any = atomic_exchange(&p->symbol, NULL);
        if (any != NULL)
            MOCK_LOG_LINE(&p->rules->loader, MOCK_LINE_CLOSING,
                          .name = any->name);
        dlclose(p->library);
        p->library = NULL;
        p->status = READY;
    }
    pthread_mutex_unlock(&p->lock);
}

/* ---- its functions ---- */

static bool profiler_is_active(const struct mock_profiler *p)
{
    return p != NULL && atomic_load(&p->symbol) != NULL &&
           atomic_load(&p->is_wired);
}

static int profiler_mask(const struct mock_profiler *p)
{
    return profiler_is_active(p) ? __atomic_load_n(&p->mask, __ATOMIC_RELAXED)
                                 : 0;
}

/* Members that a version does not set contain whatever the stack contains. */
static void profiler_forget(ncclProfilerEvent_t *event, size_t from)
{
    memset((char *)event + from, 0xa5, sizeof(*event) - from);
}

static void profiler_start_v4(const ncclProfiler_v4_t *profiler, void *context,
                              void **event,
                              const ncclProfilerEvent_t *event_info)
{
    ncclProfilerEvent_t old;

    if (event_info->type.v5 > UINT8_MAX)
        return;
    memset(&old, 0xa5, sizeof(old));
    old.type.v4 = (uint8_t)event_info->type.v5;
    old.parentObj = event_info->parentObj;
    old.rank = event_info->rank;
    if (event_info->type.v5 == NCCL_PROFILE_COLL) {
        old.coll = event_info->coll;
        old.parentObj = event_info->coll.parentGroup;
        profiler_forget(&old, offsetof(ncclProfilerEvent_t, coll.parentGroup));
    } else if (event_info->type.v5 == NCCL_PROFILE_KERNEL_CH) {
        old.kernelCh = event_info->kernelCh;
    }
    profiler->startEvent(context, event, &old);
}

static void profiler_start(const struct mock_listener *l, void **event,
                           const ncclProfilerEvent_t *event_info)
{
    const void *symbol = atomic_load(&l->profiler->symbol);
    const ncclProfiler_v5_t *v5 = symbol;
    ncclProfilerEvent_t told = *event_info;

    if (l->profiler->version < 7)
        profiler_forget(&told,
                        offsetof(ncclProfilerEvent_t, coll.kernelVariant));
    if (l->profiler->version == 4)
        profiler_start_v4(symbol, l->context, event, event_info);
    else
        v5->startEvent(l->context, event, &told);
}

/* v4 and v5 differ only in their init. */
static void profiler_stop(const struct mock_listener *l, void *event)
{
    const ncclProfiler_v5_t *v5 = atomic_load(&l->profiler->symbol);

    v5->stopEvent(event);
}

static void profiler_state(const struct mock_listener *l, void *event,
                           int state, const ncclProfilerStateArgs_t *args)
{
    const ncclProfiler_v5_t *v5 = atomic_load(&l->profiler->symbol);

    if (l->profiler->version > 4 || state == NCCL_PROFILE_KERNEL_CH_STOP)
        v5->recordEventState(event, state, args);
}

/* ---- joining and leaving ---- */

/* The mask that an init has set. From 2.31 on NCCL removes the phases of
 * kernels from the mask of older profilers, and adds their channels to that of
 * newer ones. */
static void profiler_take_mask(struct mock_profiler *p)
{
    /* in NCCL's order, without KernelPhase, which is behind KernelCh */
    static const char *const names[] = {
        "Group",     "Coll",         "P2p",       "ProxyOp",  "ProxyStep",
        "ProxyCtrl", "KernelCh",     "NetPlugin", "GroupApi", "CollApi",
        "P2pApi",    "KernelLaunch", "CeColl",    "CeSync",   "CeBatch"};
    int mask = __atomic_load_n(&p->mask, __ATOMIC_RELAXED);
    bool has_phases =
        p->rules->newest >= 7 && (mask & NCCL_PROFILE_KERNEL_PHASE) != 0;
    char enabled[256] = "";
    size_t used = 0;

    if (has_phases && p->version < 7) {
        mask &= ~NCCL_PROFILE_KERNEL_PHASE;
        has_phases = false;
    } else if (has_phases && (mask & NCCL_PROFILE_KERNEL_CH) == 0) {
        mask |= NCCL_PROFILE_KERNEL_CH;
        MOCK_INFO(NCCL_INIT,
                  "Profiler: enabling ncclProfileKernelCh implicitly (plugin "
                  "set ncclProfileKernelPhase, which requires it)");
    }
    if (mask != __atomic_load_n(&p->mask, __ATOMIC_RELAXED))
        __atomic_store_n(&p->mask, mask, __ATOMIC_RELAXED);
    if (!p->rules->lists_mask || mask == 0)
        return;
    for (size_t i = 0; i < MOCK_N_OF(names); i++)
        if ((mask & (1 << i)) != 0)
            used += (size_t)snprintf(
                enabled + used, sizeof(enabled) - used, "%s %s", names[i],
                has_phases && 1 << i == NCCL_PROFILE_KERNEL_CH ? "KernelPhase "
                                                               : "");
    MOCK_INFO(NCCL_INIT, "Profiler event mask: 0x%x (%d) - Enabled: %s",
              (unsigned)mask, mask, enabled);
}

void mock_listener_join(struct mock_listener *l, struct mock_profiler *p,
                        uint64_t comm_id, int n_ranks, int n_nodes, int rank)
{
    const ncclProfiler_v4_t *v4;
    const ncclProfiler_v5_t *v5;
    ncclResult_t rc;

    l->rank = rank;
    if (p->rules == NULL)
        return;
    l->profiler = p;
    pthread_mutex_lock(&p->lock);
    if (p->status == READY)
        p->status = profiler_load(p) ? LOADED : FAILED;
    if (p->status == LOADED)
        p->n_refs++;
    pthread_mutex_unlock(&p->lock);
    v4 = atomic_load(&p->symbol);
    v5 = (const void *)v4;
    if (v4 == NULL)
        return;
    rc = p->version == 4 ? v4->init(&l->context, &p->mask, NULL, comm_id,
                                    n_nodes, n_ranks, rank, mock_log)
                         : v5->init(&l->context, comm_id, &p->mask, NULL,
                                    n_nodes, n_ranks, rank, mock_log);
    if (rc == ncclSuccess) {
        atomic_store(&p->is_wired, true);
    } else if (p->rules->failure == MOCK_PROFILER_UNLOADED) {
        MOCK_WARN("Profiler init failed with error (%d). Continue without "
                  "profiler.",
                  (int)rc);
        atomic_store(&p->symbol, NULL);
    } else {
        if (p->rules->failure == MOCK_PROFILER_RELEASED)
            profiler_release(p);
        MOCK_INFO(NCCL_INIT,
                  "Profiler init failed with error '%d': %s. Continue without "
                  "profiler.",
                  (int)rc, strerror(errno));
    }
    profiler_take_mask(p);
}

/* 2.27 finalizes a NULL context, too; without a profiler it crashes before. */
void mock_listener_leave(struct mock_listener *l)
{
    struct mock_profiler *p = l->profiler;
    const ncclProfiler_v5_t *v5;

    if (p == NULL)
        return;
    v5 = atomic_load(&p->symbol);
    if (profiler_is_active(p) &&
        (l->context != NULL || p->rules->failure == MOCK_PROFILER_UNLOADED))
        v5->finalize(l->context);
    profiler_release(p);
    l->profiler = NULL;
}

/* ---- events ---- */

/* Omitted are point-to-point calls, network proxies, kernel launches, the parts
 * of what copy engines run, and symmetric kernels in CUDA graphs; addresses of
 * buffers and streams are NULL, and warps are 0. */

enum {
    /* a bit of an event enables the events above it */
    BELOW_COLL = NCCL_PROFILE_PROXY_OP | NCCL_PROFILE_PROXY_STEP |
                 NCCL_PROFILE_KERNEL_CH | NCCL_PROFILE_NET_PLUGIN,
    ANY_COLL = NCCL_PROFILE_COLL | BELOW_COLL,
    ANY_GROUP = NCCL_PROFILE_GROUP | NCCL_PROFILE_P2P | ANY_COLL,
    ANY_COPY =
        NCCL_PROFILE_CE_COLL | NCCL_PROFILE_CE_SYNC | NCCL_PROFILE_CE_BATCH,
    ANY_COLL_API = NCCL_PROFILE_COLL_API | ANY_COLL | ANY_COPY,
    ANY_GROUP_API = NCCL_PROFILE_GROUP_API | NCCL_PROFILE_P2P_API |
                    NCCL_PROFILE_COLL_API | NCCL_PROFILE_KERNEL_LAUNCH |
                    ANY_GROUP | ANY_COPY,
};

/* ---- calls ---- */

void mock_profile_call(struct mock_listener *l, const struct mock_call *call,
                       size_t share_bytes, bool in_group, bool captured,
                       struct mock_profiled_call *profiled_ret)
{
    const ncclProfilerEvent_t group = {
        .type.v5 = NCCL_PROFILE_GROUP_API,
        .groupApi = {.graphCaptured = captured,
                     .groupDepth = in_group ? 2 : 1}};
    ncclProfilerEvent_t coll = {.type.v5 = NCCL_PROFILE_COLL_API};

    if (!profiler_is_active(l->profiler))
        return;
    l->mask = profiler_mask(l->profiler);
    if (l->profiler->rules->newest < 6)
        l->mask &= ~ANY_COPY; /* bits that NCCL does not know */
    if ((l->mask & ANY_GROUP_API) != 0 && !l->in_group_api) {
        profiler_start(l, &l->group_api, &group);
        l->in_group_api = true;
        if (l->group_api != NULL)
            profiler_state(l, l->group_api, NCCL_PROFILE_GROUP_START_STOP,
                           NULL);
    }
    if ((l->mask & ANY_COLL_API) != 0) {
        coll.parentObj = l->group_api;
        coll.collApi.func = mock_coll_in_messages(call->coll);
        coll.collApi.count = share_bytes / call->element_size;
        coll.collApi.datatype = mock_type_in_messages(
            ncclFuncAllReduce, call->element_size, call->fp8);
        coll.collApi.root = call->root;
        coll.collApi.graphCaptured = captured;
        profiler_start(l, &l->coll_api, &coll);
        if (l->coll_api != NULL) /* NCCL keeps the handle for calls without */
            profiler_stop(l, l->coll_api);
    }
    profiled_ret->mask =
        call->coll == ncclFuncBroadcast && l->profiler->rules->omits_broadcasts
            ? 0
            : l->mask;
    profiled_ret->coll_api = l->coll_api;
}

bool mock_profile_is_timed(const struct mock_profiled_call *profiled)
{
    return (profiled->mask & NCCL_PROFILE_KERNEL_CH) != 0;
}

bool mock_profile_has_symmetric(const struct mock_listener *l)
{
    return l->profiler != NULL && l->profiler->rules->newest >= 7;
}

void mock_profile_group_end(const struct mock_listener *l)
{
    if (l->group_api != NULL)
        profiler_state(l, l->group_api, NCCL_PROFILE_GROUP_END_START, NULL);
}

void mock_profile_group_stop(struct mock_listener *l)
{
    if (l->group_api != NULL)
        profiler_stop(l, l->group_api);
    l->group_api = NULL;
    l->in_group_api = false;
}

/* ---- launches ---- */

static void profiler_start_coll(const struct mock_listener *l,
                                struct mock_launched *launched,
                                const struct mock_outcome *outcome, void *group)
{
    const struct mock_call *call = &launched->call;
    const char *type =
        mock_type_in_messages(call->coll, call->element_size, call->fp8);
    ncclProfilerEvent_t event_info = {.type.v5 = NCCL_PROFILE_COLL,
                                      .parentObj = launched->profiled.coll_api,
                                      .rank = l->rank};
    bool in_bytes =
        call->coll == ncclFuncAllGather || call->coll == ncclFuncBroadcast;

    if ((launched->profiled.mask & ANY_COLL) == 0 ||
        (group == NULL && l->profiler->rules->needs_group))
        return;
    event_info.coll.seqNumber = l->n_done[call->coll];
    event_info.coll.func = mock_coll_in_messages(call->coll);
    event_info.coll.count =
        launched->share_bytes / (in_bytes ? 1 : call->element_size);
    event_info.coll.root = call->root;
    event_info.coll.datatype = type;
    event_info.coll.nChannels =
        launched->counts_channels ? (uint8_t)outcome->n_channels : 0;
    event_info.coll.algo = mock_algo_in_messages(outcome->algo);
    event_info.coll.proto = mock_proto_in_messages(outcome->proto);
    if (launched->kernel != NULL) { /* "AllGather_LL" */
        event_info.coll.algo = strchr(launched->kernel, '_') + 1;
        event_info.coll.proto = "";
        event_info.coll.kernelVariant = launched->kernel;
        event_info.coll.isSymColl = true;
    }
    event_info.coll.parentGroup = group;
    profiler_start(l, &launched->profiled.coll, &event_info);
}

void mock_profile_launch(struct mock_listener *l,
                         struct mock_launched *launched, size_t n,
                         struct mock_outcome *outcomes)
{
    const ncclProfilerEvent_t event_info = {.type.v5 = NCCL_PROFILE_GROUP};
    void *group = NULL;
    int mask = 0;

    if (!profiler_is_active(l->profiler))
        return;
    /* the Group event has the first mask that is not 0 */
    for (size_t i = 0; i < n && mask == 0; i++)
        mask = launched[i].profiled.mask;
    if ((mask & ANY_GROUP) != 0)
        profiler_start(l, &group, &event_info);
    for (size_t i = 0; i < n; i++) {
        struct mock_outcome *outcome = &outcomes[launched[i].number];
        struct mock_profiled_call *profiled = &launched[i].profiled;

        profiler_start_coll(l, &launched[i], outcome, group);
        /* replays count only if all ranks are sure to report them */
        l->n_done[launched[i].call.coll] +=
            !launched[i].is_replay ||
            (mock_profile_is_timed(profiled) &&
             (group != NULL || (profiled->coll_api != NULL &&
                                !l->profiler->rules->needs_group)));
        outcome->event = profiled->coll;
        outcome->is_timed = mock_profile_is_timed(profiled);
        outcome->has_phases = l->profiler->version >= 7 &&
                              (profiled->mask & NCCL_PROFILE_KERNEL_PHASE) != 0;
    }
    for (size_t i = 0; i < n; i++)
        if (launched[i].profiled.coll != NULL)
            profiler_stop(l, launched[i].profiled.coll);
    if (group != NULL)
        profiler_stop(l, group);
}

void mock_profile_copy(struct mock_listener *l,
                       const struct mock_launched *launched)
{
    const struct mock_call *call = &launched->call;
    ncclProfilerEvent_t event_info = {.type.v5 = NCCL_PROFILE_CE_COLL,
                                      .parentObj = launched->profiled.coll_api,
                                      .rank = l->rank};
    void *event = NULL;

    if (!profiler_is_active(l->profiler) || l->profiler->version < 6 ||
        (profiler_mask(l->profiler) & ANY_COPY) == 0)
        return;
    event_info.ceColl.seqNumber = l->n_copied;
    event_info.ceColl.ceSeqNum = (uint32_t)l->n_copied++;
    event_info.ceColl.func = mock_coll_in_messages(call->coll);
    event_info.ceColl.count = launched->share_bytes;
    event_info.ceColl.datatype = mock_type_in_messages(call->coll, 1, false);
    event_info.ceColl.syncStrategy = "MC";
    profiler_start(l, &event, &event_info);
    if (event != NULL)
        profiler_stop(l, event);
}

/* ---- kernels ---- */

void mock_profile_kernel_start(const struct mock_listener *l,
                               const struct mock_outcome *outcome,
                               const struct mock_channel_time *times,
                               void **handles_ret)
{
    bool is_profiled = outcome->is_timed && profiler_is_active(l->profiler);

    for (int c = 0; c < outcome->n_channels; c++) {
        ncclProfilerEvent_t event_info = {.type.v5 = NCCL_PROFILE_KERNEL_CH,
                                          .parentObj = outcome->event};

        handles_ret[c] = NULL;
        if (!is_profiled || times[c].stop_ns == 0)
            continue;
        event_info.kernelCh.channelId = (uint8_t)(outcome->first_channel + c);
        event_info.kernelCh.pTimer = times[c].start_ns;
        profiler_start(l, &handles_ret[c], &event_info);
    }
}

/* NCCL leaves out phases that take no time. */
static void profiler_report_phases(const struct mock_listener *l, void *channel,
                                   int number,
                                   const struct mock_channel_time *time)
{
    static const char *const names[] = {"initial_sync", "compute",
                                        "final_sync"};
    const uint64_t ns[] = {
        time->start_ns, time->moves_ns != 0 ? time->moves_ns : time->start_ns,
        time->moved_ns != 0 ? time->moved_ns : time->stop_ns, time->stop_ns};

    for (uint8_t i = 0; i < 3; i++) {
        ncclProfilerEvent_t event_info = {.type.v5 = NCCL_PROFILE_KERNEL_PHASE,
                                          .parentObj = channel};
        const ncclProfilerStateArgs_t args = {.kernelCh = {ns[i + 1]}};
        void *event = NULL;

        if (ns[i] == ns[i + 1])
            continue;
        event_info.kernelPhase.channelId = (uint8_t)number;
        event_info.kernelPhase.phaseId = i;
        event_info.kernelPhase.phaseName = names[i];
        event_info.kernelPhase.pTimer = ns[i];
        profiler_start(l, &event, &event_info);
        if (event == NULL)
            continue;
        profiler_state(l, event, NCCL_PROFILE_KERNEL_PHASE_STOP, &args);
        profiler_stop(l, event);
    }
}

void mock_profile_kernel_stop(const struct mock_listener *l,
                              const struct mock_outcome *outcome,
                              const struct mock_channel_time *times,
                              void *const *handles)
{
    if (!outcome->is_timed || !profiler_is_active(l->profiler))
        return;
    for (int c = 0; c < outcome->n_channels; c++) {
        ncclProfilerStateArgs_t args = {.kernelCh = {times[c].stop_ns}};

        if (times[c].stop_ns != 0 && outcome->has_phases)
            profiler_report_phases(l, handles[c], outcome->first_channel + c,
                                   &times[c]);
        if (handles[c] == NULL)
            continue;
        profiler_state(l, handles[c], NCCL_PROFILE_KERNEL_CH_STOP, &args);
        profiler_stop(l, handles[c]);
    }
}
