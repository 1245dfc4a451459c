/*
 * listener.c - a profiler of versions 4 to 7 that logs each event as a line,
 * and a tuner that logs its calls; with LISTENER_V4, a macro of the build, only
 * a profiler of version 4
 *
 * The handle of an event is its number.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "listener_control.h"

#define EXPORT __attribute__((visibility("default")))

extern struct listener_control listener_control;
EXPORT struct listener_control listener_control;

static ncclDebugLogger_t listener_log;

#define SAY(...)                                                               \
    __atomic_load_n(&listener_log, __ATOMIC_RELAXED)(                          \
        NCCL_LOG_INFO, NCCL_PROFILE, "", 0, __VA_ARGS__)

static const char *or_none(const char *text)
{
    return text != NULL ? text : "-";
}

static ncclResult_t join(void **context, int *mask, const char *name,
                         uint64_t comm_id, int n_nodes, int n_ranks, int rank,
                         ncclDebugLogger_t log)
{
    struct listener_control *c = &listener_control;

    __atomic_store_n(&listener_log, log, __ATOMIC_RELAXED);
    *context = (void *)(uintptr_t)(1000 + rank);
    __atomic_store_n(mask, c->mask, __ATOMIC_RELAXED);
    __atomic_store_n(&c->nccl_mask, mask, __ATOMIC_RELAXED);
    SAY("init %s id %" PRIu64 " nodes %d rank %d of %d", or_none(name), comm_id,
        n_nodes, rank, n_ranks);
    return __atomic_fetch_sub(&c->fails, 1, __ATOMIC_RELAXED) > 0
               ? ncclSystemError
               : ncclSuccess;
}

/* Mock NCCL fills members that its version does not have with the byte 0xa5. */
static int is_unset(const void *member)
{
    return (uintptr_t)member == UINTPTR_MAX / 0xff * 0xa5;
}

static void describe(int type, const ncclProfilerEvent_t *e, char *text,
                     size_t size, int version)
{
    text[0] = '\0';
    if (type == NCCL_PROFILE_GROUP_API)
        snprintf(text, size, " depth %d captured %d", e->groupApi.groupDepth,
                 e->groupApi.graphCaptured);
    if (type == NCCL_PROFILE_COLL_API)
        snprintf(text, size, " %s %zu %s root %d captured %d", e->collApi.func,
                 e->collApi.count, e->collApi.datatype, e->collApi.root,
                 e->collApi.graphCaptured);
    if (type == NCCL_PROFILE_COLL)
        snprintf(text, size, " %s %zu %s root %d %s/%s on %d number %" PRIu64,
                 e->coll.func, e->coll.count, e->coll.datatype, e->coll.root,
                 e->coll.algo, e->coll.proto, e->coll.nChannels,
                 e->coll.seqNumber);
    if (type == NCCL_PROFILE_COLL && version >= 5)
        snprintf(text + strlen(text), size - strlen(text), " in %zu",
                 (size_t)(uintptr_t)e->coll.parentGroup);
    if (type == NCCL_PROFILE_COLL && version >= 7 &&
        (e->coll.kernelVariant != NULL || e->coll.isSymColl))
        snprintf(text + strlen(text), size - strlen(text), " by %s%s",
                 e->coll.kernelVariant != NULL ? e->coll.kernelVariant : "none",
                 e->coll.isSymColl ? " of windows" : "");
    if (type == NCCL_PROFILE_COLL && version < 5 &&
        !is_unset(e->coll.parentGroup))
        snprintf(text, size, " with a group, which v4 does not tell of");
    if (type == NCCL_PROFILE_COLL && version < 7 &&
        !is_unset(e->coll.kernelVariant))
        snprintf(text, size, " with a kernel, which v%d does not tell of",
                 version);
    if (type == NCCL_PROFILE_KERNEL_PHASE)
        snprintf(text, size, " channel %d phase %d %s at %" PRIu64,
                 e->kernelPhase.channelId, e->kernelPhase.phaseId,
                 e->kernelPhase.phaseName, e->kernelPhase.pTimer);
    if (type == NCCL_PROFILE_CE_COLL)
        snprintf(text, size, " %s %zu %s by %s number %u", e->ceColl.func,
                 e->ceColl.count, e->ceColl.datatype, e->ceColl.syncStrategy,
                 e->ceColl.ceSeqNum);
    if (type == NCCL_PROFILE_KERNEL_CH)
        snprintf(text, size, " channel %d at %" PRIu64, e->kernelCh.channelId,
                 e->kernelCh.pTimer);
}

static const char *name_of(int type)
{
    switch (type) {
    case NCCL_PROFILE_GROUP_API:
        return "GroupApi";
    case NCCL_PROFILE_COLL_API:
        return "CollApi";
    case NCCL_PROFILE_GROUP:
        return "Group";
    case NCCL_PROFILE_COLL:
        return "Coll";
    case NCCL_PROFILE_KERNEL_CH:
        return "KernelCh";
    case NCCL_PROFILE_KERNEL_PHASE:
        return "KernelPhase";
    case NCCL_PROFILE_CE_COLL:
        return "CeColl";
    default:
        return "?";
    }
}

static ncclResult_t start(const void *context, void **event,
                          const ncclProfilerEvent_t *e, int type, int version)
{
    char text[256];
    uintptr_t number = 0;

    if ((listener_control.followed & type) != 0)
        number =
            __atomic_add_fetch(&listener_control.events, 1, __ATOMIC_RELAXED);
    *event = (void *)number;
    describe(type, e, text, sizeof(text), version);
    SAY("%zu start %zu %s of %zu rank %d%s", (size_t)(uintptr_t)context,
        (size_t)number, name_of(type), (size_t)(uintptr_t)e->parentObj, e->rank,
        text);
    return ncclSuccess;
}

static ncclResult_t start_v4(void *context, void **event,
                             const ncclProfilerEvent_t *e)
{
    return start(context, event, e, e->type.v4, 4);
}

static ncclResult_t stop(void *event)
{
    SAY("stop %zu", (size_t)(uintptr_t)event);
    return ncclSuccess;
}

static ncclResult_t state(void *event, int what, const void *args)
{
    const ncclProfilerStateArgs_t *a = args;

    if (a != NULL)
        SAY("state %zu %d at %" PRIu64, (size_t)(uintptr_t)event, what,
            a->kernelCh.pTimer);
    else
        SAY("state %zu %d", (size_t)(uintptr_t)event, what);
    return ncclSuccess;
}

static ncclResult_t leave(void *context)
{
    SAY("finalize %zu", (size_t)(uintptr_t)context);
    return ncclSuccess;
}

#ifdef LISTENER_V4
EXPORT const ncclProfiler_v4_t ncclProfiler_v4 = {
    "listener_v4", join, start_v4, stop, state, leave};
#else
static ncclResult_t join_v5(void **context, uint64_t comm_id, int *mask,
                            const char *name, int n_nodes, int n_ranks,
                            int rank, ncclDebugLogger_t log)
{
    return join(context, mask, name, comm_id, n_nodes, n_ranks, rank, log);
}

static ncclResult_t start_v5(void *context, void **event,
                             const ncclProfilerEvent_t *e)
{
    return start(context, event, e, (int)e->type.v5, 5);
}

static ncclResult_t start_v7(void *context, void **event,
                             const ncclProfilerEvent_t *e)
{
    return start(context, event, e, (int)e->type.v5, 7);
}

EXPORT const ncclProfiler_v4_t ncclProfiler_v4 = {"listener", join,  start_v4,
                                                  stop,       state, leave};
EXPORT const ncclProfiler_v5_t ncclProfiler_v5 = {"listener", join_v5, start_v5,
                                                  stop,       state,   leave};
EXPORT const ncclProfiler_v5_t ncclProfiler_v6 = {"listener", join_v5, start_v5,
                                                  stop,       state,   leave};
EXPORT const ncclProfiler_v5_t ncclProfiler_v7 = {"listener", join_v5, start_v7,
                                                  stop,       state,   leave};

static ncclResult_t tuner_init(void **context, uint64_t comm_id, size_t n_ranks,
                               size_t n_nodes, ncclDebugLogger_t log,
                               ncclNvlDomainInfo_v5_t *domains,
                               ncclTunerConstants_v5_t *constants)
{
    listener_log = log;
    SAY("tuner init");
    return ncclSuccess;
}

static ncclResult_t tuner_ask(void *context, ncclFunc_t coll, size_t n_bytes,
                              int n_pipe_ops, float **table, int n_algos,
                              int n_protos, int reg_buff, int *n_channels)
{
    SAY("tuner asked");
    return ncclSuccess;
}

static ncclResult_t tuner_finalize(void *context)
{
    SAY("tuner finalize");
    return ncclSuccess;
}

EXPORT const ncclTuner_v5_t ncclTunerPlugin_v5 = {"listener", tuner_init,
                                                  tuner_ask, tuner_finalize};
#endif
