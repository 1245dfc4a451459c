/* Every tuner version in one library; none decides anything. */
#include "nccl_tuner_abi.h"

#define EXPORT __attribute__((visibility("default")))

static ncclResult_t init(size_t n_ranks, size_t n_nodes,
                         ncclDebugLogger_t logger, void **context)
{
    (void)n_ranks, (void)n_nodes, (void)logger, (void)context;
    return ncclSuccess;
}

static ncclResult_t init_v5(void **context, uint64_t comm_id, size_t n_ranks,
                            size_t n_nodes, ncclDebugLogger_t logger,
                            ncclNvlDomainInfo_v5_t *domains,
                            ncclTunerConstants_v5_t *constants)
{
    (void)comm_id, (void)domains, (void)constants;
    return init(n_ranks, n_nodes, logger, context);
}

static ncclResult_t ask_v2(void *context, ncclFunc_t coll, size_t n_bytes,
                           int collnet, int nvls, int n_pipe_ops, int *algo,
                           int *proto, int *n_channels)
{
    (void)context, (void)coll, (void)n_bytes, (void)collnet, (void)nvls;
    (void)n_pipe_ops, (void)algo, (void)proto, (void)n_channels;
    return ncclSuccess;
}

static ncclResult_t ask_v3(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algos,
                           int n_protos, int *n_channels)
{
    (void)context, (void)coll, (void)n_bytes, (void)n_pipe_ops, (void)table;
    (void)n_algos, (void)n_protos, (void)n_channels;
    return ncclSuccess;
}

static ncclResult_t ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int n_pipe_ops, float **table, int n_algos,
                        int n_protos, int reg_buff, int *n_channels)
{
    (void)reg_buff;
    return ask_v3(context, coll, n_bytes, n_pipe_ops, table, n_algos, n_protos,
                  n_channels);
}

static ncclResult_t finalize(void *context)
{
    (void)context;
    return ncclSuccess;
}

EXPORT const ncclTuner_v2_t ncclTunerPlugin_v2 = {
    .name = "all", .init = init, .getCollInfo = ask_v2, .destroy = finalize};
EXPORT const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    .name = "all", .init = init, .getCollInfo = ask_v3, .destroy = finalize};
EXPORT const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    .name = "all", .init = init, .getCollInfo = ask, .destroy = finalize};
EXPORT const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    .name = "all", .init = init_v5, .getCollInfo = ask, .finalize = finalize};
EXPORT const ncclTuner_v6_t ncclTunerPlugin_v6 = {
    .name = "all", .init = init_v5, .getCollInfo = ask, .finalize = finalize};
