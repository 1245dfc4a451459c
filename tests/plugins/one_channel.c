/*
 * one_channel.c - the planted fault of the tests: a tuner that decides nothing,
 * and sets the channels to 1 all the same
 */
#include "nccl_tuner_abi.h"

static ncclResult_t init(size_t n_ranks, size_t n_nodes, ncclDebugLogger_t log,
                         void **context)
{
    (void)n_ranks;
    (void)n_nodes;
    (void)log;
    *context = NULL;
    return ncclSuccess;
}

static ncclResult_t init_v5(void **context, uint64_t comm_id, size_t n_ranks,
                            size_t n_nodes, ncclDebugLogger_t log,
                            ncclNvlDomainInfo_v5_t *nvl,
                            ncclTunerConstants_v5_t *constants)
{
    (void)comm_id;
    (void)nvl;
    (void)constants;
    return init(n_ranks, n_nodes, log, context);
}

static ncclResult_t ask_v2(void *context, ncclFunc_t coll, size_t n_bytes,
                           int collnet, int nvls, int n_pipe_ops, int *algo,
                           int *proto, int *n_channels)
{
    (void)context;
    (void)coll;
    (void)n_bytes;
    (void)collnet;
    (void)nvls;
    (void)n_pipe_ops;
    (void)algo;
    (void)proto;
    *n_channels = 1;
    return ncclSuccess;
}

static ncclResult_t ask_v3(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algo,
                           int n_proto, int *n_channels)
{
    (void)context;
    (void)coll;
    (void)n_bytes;
    (void)n_pipe_ops;
    (void)table;
    (void)n_algo;
    (void)n_proto;
    *n_channels = 1;
    return ncclSuccess;
}

static ncclResult_t ask_v4(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algo,
                           int n_proto, int reg_buff, int *n_channels)
{
    (void)reg_buff;
    return ask_v3(context, coll, n_bytes, n_pipe_ops, table, n_algo, n_proto,
                  n_channels);
}

static ncclResult_t finalize(void *context)
{
    (void)context;
    return ncclSuccess;
}

#define EXPORT __attribute__((visibility("default"))) extern

EXPORT const ncclTuner_v2_t ncclTunerPlugin_v2;
EXPORT const ncclTuner_v3_t ncclTunerPlugin_v3;
EXPORT const ncclTuner_v4_t ncclTunerPlugin_v4;
EXPORT const ncclTuner_v5_t ncclTunerPlugin_v5;
EXPORT const ncclTuner_v6_t ncclTunerPlugin_v6;

const ncclTuner_v2_t ncclTunerPlugin_v2 = {"one", init, ask_v2, finalize};
const ncclTuner_v3_t ncclTunerPlugin_v3 = {"one", init, ask_v3, finalize};
const ncclTuner_v4_t ncclTunerPlugin_v4 = {"one", init, ask_v4, finalize};
const ncclTuner_v5_t ncclTunerPlugin_v5 = {"one", init_v5, ask_v4, finalize};
const ncclTuner_v6_t ncclTunerPlugin_v6 = {"one", init_v5, ask_v4, finalize,
                                           NULL};
