/*
 * profiler_events.c - what NCCL tells its profiler, and in which order
 *
 * Left out are point-to-point calls, copy engines, network proxies, kernel
 * launches, and the replays of CUDA graphs; addresses of buffers and streams
 * are NULL, and warps are 0.
 */
#include "base/names.h"
#include "plugins/profiler_parts.h"

enum {
    /* of a collective, as the bits above it bring it along */
    BELOW_COLL = NCCL_PROFILE_PROXY_OP | NCCL_PROFILE_PROXY_STEP |
                 NCCL_PROFILE_KERNEL_CH | NCCL_PROFILE_NET_PLUGIN,
    ANY_COLL = NCCL_PROFILE_COLL | BELOW_COLL,
    ANY_GROUP = NCCL_PROFILE_GROUP | NCCL_PROFILE_P2P | ANY_COLL,
    ANY_COLL_API = NCCL_PROFILE_COLL_API | ANY_COLL,
    ANY_GROUP_API = NCCL_PROFILE_GROUP_API | NCCL_PROFILE_P2P_API |
                    NCCL_PROFILE_COLL_API | NCCL_PROFILE_KERNEL_LAUNCH |
                    ANY_GROUP,
};

/* ---- calls ---- */

static void start_group_api(struct mock_listener *l, bool in_group,
                            bool captured)
{
    ncclProfilerEvent_t what = {.type.v5 = NCCL_PROFILE_GROUP_API};

    if ((l->mask & ANY_GROUP_API) == 0 || l->in_group_api)
        return;
    what.groupApi.graphCaptured = captured;
    what.groupApi.groupDepth = in_group ? 2 : 1;
    mock_profiler_start(l, &l->group_api, &what);
    l->in_group_api = true;
    if (l->group_api != NULL)
        mock_profiler_state(l, l->group_api, NCCL_PROFILE_GROUP_START_STOP,
                            NULL);
}

static void report_coll_api(struct mock_listener *l,
                            const struct mock_call *call, size_t share_bytes,
                            bool captured)
{
    ncclProfilerEvent_t what = {.type.v5 = NCCL_PROFILE_COLL_API,
                                .parentObj = l->group_api};

    if ((l->mask & ANY_COLL_API) == 0)
        return;
    what.collApi.func = mock_coll_in_messages(call->coll);
    what.collApi.count = share_bytes / call->element_size;
    what.collApi.datatype =
        mock_type_in_messages(ncclFuncAllReduce, call->element_size, call->fp8);
    what.collApi.root = call->root;
    what.collApi.graphCaptured = captured;
    mock_profiler_start(l, &l->coll_api, &what);
    if (l->coll_api != NULL) /* and NCCL keeps it for calls without any */
        mock_profiler_stop(l, l->coll_api);
}

void mock_hear_call(struct mock_listener *l, const struct mock_call *call,
                    size_t share_bytes, bool in_group, bool captured,
                    struct mock_heard *heard_ret)
{
    if (!mock_profiler_listens(l->profiler))
        return;
    l->mask = mock_profiler_mask(l->profiler);
    start_group_api(l, in_group, captured);
    report_coll_api(l, call, share_bytes, captured);
    heard_ret->mask = l->mask;
    heard_ret->coll_api = l->coll_api;
}

void mock_hear_group_end(const struct mock_listener *l)
{
    if (l->group_api != NULL)
        mock_profiler_state(l, l->group_api, NCCL_PROFILE_GROUP_END_START,
                            NULL);
}

void mock_hear_group_over(struct mock_listener *l)
{
    if (l->group_api != NULL)
        mock_profiler_stop(l, l->group_api);
    l->group_api = NULL;
    l->in_group_api = false;
}

/* ---- launches ---- */

/* The mask of the first that has one is that of the Group. */
static void *start_group(const struct mock_listener *l,
                         const struct mock_launched *launched, size_t n)
{
    const ncclProfilerEvent_t what = {.type.v5 = NCCL_PROFILE_GROUP};
    void *event = NULL;
    int mask = 0;

    for (size_t i = 0; i < n && mask == 0; i++)
        mask = launched[i].heard->mask;
    if ((mask & ANY_GROUP) != 0)
        mock_profiler_start(l, &event, &what);
    return event;
}

static void start_coll(const struct mock_listener *l,
                       const struct mock_launched *launched, void *group)
{
    const struct mock_call *call = launched->call;
    const struct mock_outcome *outcome = launched->outcome;
    const char *type =
        mock_type_in_messages(call->coll, call->element_size, call->fp8);
    ncclProfilerEvent_t what = {.type.v5 = NCCL_PROFILE_COLL,
                                .parentObj = launched->heard->coll_api,
                                .rank = l->rank};
    bool in_bytes =
        call->coll == ncclFuncAllGather || call->coll == ncclFuncBroadcast;

    if ((launched->heard->mask & ANY_COLL) == 0 ||
        (group == NULL && mock_profiler_needs_group(l->profiler)))
        return;
    what.coll.seqNumber = l->n_done[call->coll];
    what.coll.func = mock_coll_in_messages(call->coll);
    what.coll.count =
        launched->share_bytes / (in_bytes ? 1 : call->element_size);
    what.coll.root = call->root;
    what.coll.datatype = type;
    what.coll.nChannels =
        launched->counts_channels ? (uint8_t)outcome->n_channels : 0;
    what.coll.algo = mock_algo_in_messages(outcome->algo);
    what.coll.proto = mock_proto_in_messages(outcome->proto);
    what.coll.parentGroup = group;
    mock_profiler_start(l, &launched->heard->coll, &what);
}

void mock_hear_launch(struct mock_listener *l,
                      const struct mock_launched *launched, size_t n)
{
    void *group;

    if (!mock_profiler_listens(l->profiler))
        return;
    group = start_group(l, launched, n);
    for (size_t i = 0; i < n; i++) {
        start_coll(l, &launched[i], group);
        l->n_done[launched[i].call->coll]++;
    }
    for (size_t i = 0; i < n; i++)
        if (launched[i].heard->coll != NULL)
            mock_profiler_stop(l, launched[i].heard->coll);
    if (group != NULL)
        mock_profiler_stop(l, group);
}

/* ---- kernels ---- */

void mock_hear_kernel_begin(const struct mock_listener *l,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void **handles_ret)
{
    bool is_heard = outcome->is_timed && mock_profiler_listens(l->profiler);

    for (int c = 0; c < outcome->n_channels; c++) {
        ncclProfilerEvent_t what = {.type.v5 = NCCL_PROFILE_KERNEL_CH,
                                    .parentObj = outcome->event};

        handles_ret[c] = NULL;
        if (!is_heard || times[c].stop_ns == 0)
            continue;
        what.kernelCh.channelId = (uint8_t)(outcome->first_channel + c);
        what.kernelCh.pTimer = times[c].start_ns;
        mock_profiler_start(l, &handles_ret[c], &what);
    }
}

void mock_hear_kernel_end(const struct mock_listener *l,
                          const struct mock_outcome *outcome,
                          const struct mock_channel_time *times,
                          void *const *handles)
{
    if (!outcome->is_timed || !mock_profiler_listens(l->profiler))
        return;
    for (int c = 0; c < outcome->n_channels; c++) {
        ncclProfilerStateArgs_t args = {.kernelCh = {times[c].stop_ns}};

        if (handles[c] == NULL)
            continue;
        mock_profiler_state(l, handles[c], NCCL_PROFILE_KERNEL_CH_STOP, &args);
        mock_profiler_stop(l, handles[c]);
    }
}
