#include "echo.h"

static ncclResult_t init(size_t n_ranks, size_t n_nodes,
                         ncclDebugLogger_t logger, void **context)
{
    say = logger;
    *context = &say;
    SAY("v2 init %d: ranks %zu nodes %zu", ++n_inits, n_ranks, n_nodes);
    return ncclSuccess;
}

static ncclResult_t ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int collnet, int nvls, int n_pipe_ops, int *algo,
                        int *proto, int *n_channels)
{
    SAY("v2 ask: context %d coll %d bytes %zu collnet %d nvls %d pipe %d "
        "algo %d proto %d channels %d",
        context == &say, coll, n_bytes, collnet, nvls, n_pipe_ops, *algo,
        *proto, *n_channels);
    *algo = NCCL_ALGO_RING;
    *proto = NCCL_PROTO_SIMPLE;
    *n_channels = 4;
    return ncclSuccess;
}

static ncclResult_t destroy(void *context)
{
    SAY("v2 destroy: context %d", context == &say);
    return ncclSuccess;
}

EXPORT const ncclTuner_v2_t ncclTunerPlugin_v2 = {
    .name = "echo", .init = init, .getCollInfo = ask, .destroy = destroy};
