/*
 * all_versions.c - a library with a tuner of every version, which decides
 * nothing; with N_CHANNELS, a macro of the build, it has a fault: it sets the
 * channel count all the same
 */
#include "nccl_tuner_abi.h"

#ifdef N_CHANNELS
#define NAME                   "one"
#define SET_CHANNELS(channels) (*(channels) = N_CHANNELS)
#else
#define NAME "all"
#define SET_CHANNELS(channels)
#endif

static ncclResult_t init(size_t n_ranks, size_t n_nodes,
                         ncclDebugLogger_t logger, void **context)
{
    *context = NULL;
    return ncclSuccess;
}

static ncclResult_t init_v5(void **context, uint64_t comm_id, size_t n_ranks,
                            size_t n_nodes, ncclDebugLogger_t logger,
                            ncclNvlDomainInfo_v5_t *domains,
                            ncclTunerConstants_v5_t *constants)
{
    return init(n_ranks, n_nodes, logger, context);
}

static ncclResult_t init_v7(void **context, uint64_t comm_id, size_t n_ranks,
                            size_t n_nodes, ncclDebugLogger_t logger,
                            ncclNvlDomainInfo_v5_t *domains,
                            ncclTunerConstants_v7_t *constants)
{
    return init(n_ranks, n_nodes, logger, context);
}

static ncclResult_t ask_v2(void *context, ncclFunc_t coll, size_t n_bytes,
                           int collnet, int nvls, int n_pipe_ops, int *algo,
                           int *proto, int *n_channels)
{
    SET_CHANNELS(n_channels);
    return ncclSuccess;
}

static ncclResult_t ask_v3(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algos,
                           int n_protos, int *n_channels)
{
    SET_CHANNELS(n_channels);
    return ncclSuccess;
}

static ncclResult_t ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int n_pipe_ops, float **table, int n_algos,
                        int n_protos, int reg_buff, int *n_channels)
{
    SET_CHANNELS(n_channels);
    return ncclSuccess;
}

static ncclResult_t finalize(void *context)
{
    return ncclSuccess;
}

#define TUNER(version, init, ask)                                              \
    __attribute__((visibility("default")))                                     \
    const ncclTuner_v##version##_t ncclTunerPlugin_v##version = {              \
        NAME, init, ask, finalize}
TUNER(2, init, ask_v2);
TUNER(3, init, ask_v3);
TUNER(4, init, ask);
TUNER(5, init_v5, ask);
__attribute__((visibility("default")))
const ncclTuner_v6_t ncclTunerPlugin_v6 = {NAME, init_v5, ask, finalize, NULL};
__attribute__((visibility("default")))
const ncclTuner_v7_t ncclTunerPlugin_v7 = {NAME, init_v7, ask, finalize, NULL};

/* It is in a net plugin, too, which begins with a name. */
__attribute__((visibility("default"))) const char *const ncclNetPlugin_v8 =
    NAME;
