/* A profiler of versions 4 to 6, and a tuner that says when it comes and goes.
 */
#include "listener.h"

static ncclResult_t join_v5(void **context, uint64_t comm_id, int *mask,
                            const char *name, int n_nodes, int n_ranks,
                            int rank, ncclDebugLogger_t log)
{
    return join(context, mask, name, comm_id, n_nodes, n_ranks, rank, log);
}

static ncclResult_t start_v5(void *context, void **event,
                             const ncclProfilerEvent_t *e)
{
    return start(context, event, e, (int)e->type.v5, 1);
}

extern const ncclProfiler_v4_t ncclProfiler_v4;
extern const ncclProfiler_v5_t ncclProfiler_v5;
extern const ncclProfiler_v5_t ncclProfiler_v6;
EXPORT const ncclProfiler_v4_t ncclProfiler_v4 = {"listener", join,  start_v4,
                                                  stop,       state, leave};
EXPORT const ncclProfiler_v5_t ncclProfiler_v5 = {"listener", join_v5, start_v5,
                                                  stop,       state,   leave};
EXPORT const ncclProfiler_v5_t ncclProfiler_v6 = {"listener", join_v5, start_v5,
                                                  stop,       state,   leave};

static ncclResult_t tuner_init(void **context, uint64_t comm_id, size_t n_ranks,
                               size_t n_nodes, ncclDebugLogger_t log,
                               ncclNvlDomainInfo_v5_t *domains,
                               ncclTunerConstants_v5_t *constants)
{
    (void)context, (void)comm_id, (void)n_ranks, (void)n_nodes;
    (void)domains, (void)constants;
    listener_log = log;
    SAY("tuner init");
    return ncclSuccess;
}

static ncclResult_t tuner_ask(void *context, ncclFunc_t coll, size_t n_bytes,
                              int n_pipe_ops, float **table, int n_algos,
                              int n_protos, int reg_buff, int *n_channels)
{
    (void)context, (void)coll, (void)n_bytes, (void)n_pipe_ops, (void)table;
    (void)n_algos, (void)n_protos, (void)reg_buff, (void)n_channels;
    SAY("tuner asked");
    return ncclSuccess;
}

static ncclResult_t tuner_finalize(void *context)
{
    (void)context;
    SAY("tuner finalize");
    return ncclSuccess;
}

extern const ncclTuner_v5_t ncclTunerPlugin_v5;
EXPORT const ncclTuner_v5_t ncclTunerPlugin_v5 = {"listener", tuner_init,
                                                  tuner_ask, tuner_finalize};
