#include "echo.h"

static ncclResult_t init(void **context, uint64_t comm_id, size_t n_ranks,
                         size_t n_nodes, ncclDebugLogger_t logger,
                         ncclNvlDomainInfo_v5_t *domains,
                         ncclTunerConstants_v5_t *constants)
{
    say = logger;
    *context = &say;
    SAY("v6 init %d: id %llu ranks %zu nodes %zu domains %d of %d to %d "
        "ring/ll base %g",
        ++n_inits, (unsigned long long)comm_id, n_ranks, n_nodes,
        domains->nNvlDomains, domains->minRanksPerNvlDomain,
        domains->maxRanksPerNvlDomain,
        constants->baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_LL]);
    return ncclSuccess;
}

static ncclResult_t ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int n_pipe_ops, float **table, int n_algos,
                        int n_protos, int reg_buff, int *n_channels)
{
    float *flat = (float *)table;

    SAY("v6 ask: context %d coll %d bytes %zu pipe %d ring/ll %.3f algos %d "
        "protos %d reg %d channels %d",
        context == &say, coll, n_bytes, n_pipe_ops,
        (double)flat[NCCL_ALGO_RING * n_protos], n_algos, n_protos, reg_buff,
        *n_channels);
    flat[NCCL_ALGO_RING * n_protos + NCCL_PROTO_SIMPLE] = 0;
    *n_channels = 4;
    return ncclSuccess;
}

static ncclResult_t finalize(void *context)
{
    SAY("v6 finalize: context %d", context == &say);
    return ncclSuccess;
}

static ncclResult_t chunk(void *context, ncclFunc_t coll, size_t n_bytes,
                          int algo, int proto, int n_channels, size_t *size)
{
    SAY("v6 chunk: context %d coll %d bytes %zu algo %d proto %d channels %d "
        "size %zu",
        context == &say, coll, n_bytes, algo, proto, n_channels, *size);
    *size = 65536;
    return ncclSuccess;
}

EXPORT const ncclTuner_v6_t ncclTunerPlugin_v6 = {.name = "echo",
                                                  .init = init,
                                                  .getCollInfo = ask,
                                                  .finalize = finalize,
                                                  .getChunkSize = chunk};
