/* A v4 tuner whose init fails, and whose finalize logs its call. */
#include "nccl_tuner_abi.h"

static ncclDebugLogger_t say;

static ncclResult_t init(size_t n_ranks, size_t n_nodes,
                         ncclDebugLogger_t logger, void **context)
{
    say = logger;
    return ncclInvalidUsage;
}

static ncclResult_t ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int n_pipe_ops, float **table, int n_algos,
                        int n_protos, int reg_buff, int *n_channels)
{
    return ncclSuccess;
}

static ncclResult_t destroy(void *context)
{
    say(NCCL_LOG_INFO, NCCL_TUNING, __FILE__, __LINE__, "destroy: context %s",
        context == NULL ? "NULL" : "set");
    return ncclSuccess;
}

__attribute__((visibility("default")))
const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    .name = "init fails", .init = init, .getCollInfo = ask, .destroy = destroy};
