/*
 * planted.h - what tuners with one planted fault share: everything that is
 * right about them
 *
 * A plugin includes this, writes what is wrong about it, and ends with
 * PLANTED_TUNER(name, init, ask, finalize).
 */
#ifndef TEST_PLANTED_H
#define TEST_PLANTED_H

#include <stdlib.h>

#include "nccl_tuner_abi.h"

/* A communicator. */
struct planted {
    size_t n_ranks;
    ncclDebugLogger_t log;
    long long number; /* these two are whatever the plugin likes */
    char text[512];
};

/* A call of getCollInfo. */
struct planted_call {
    ncclFunc_t coll;
    size_t n_bytes;
    int n_pipe_ops;
    int reg_buff;
    int n_algos;
    float (*table)[NCCL_NUM_PROTOCOLS];
    int *n_channels;
};

/* Makes the pair the cheapest, unless NCCL has ruled it out. */
static inline int planted_take(const struct planted_call *call, int algo,
                               int proto, int n_channels)
{
    if (!(call->table[algo][proto] >= 0))
        return 0;
    call->table[algo][proto] = 0;
    if (n_channels != 0)
        *call->n_channels = n_channels;
    return 1;
}

/* A decision by nothing but what all ranks see. */
static inline void planted_decide(const struct planted_call *call)
{
    if (call->coll == ncclFuncAllReduce && call->n_bytes <= 65536 &&
        planted_take(call, NCCL_ALGO_TREE, NCCL_PROTO_LL, 4))
        return;
    planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8);
}

/* One of two decisions that both are legal, and differ. */
static inline void planted_choose(const struct planted_call *call, int second)
{
    if (second)
        planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0);
    else
        planted_decide(call);
}

static inline ncclResult_t planted_init(struct planted *self)
{
    (void)self;
    return ncclSuccess;
}

static inline ncclResult_t planted_ask(struct planted *self,
                                       const struct planted_call *call)
{
    (void)self;
    planted_decide(call);
    return ncclSuccess;
}

static inline void planted_finalize(struct planted *self)
{
    free(self);
}

/* Init, getCollInfo and finalize of the plugin, with the types above. */
#define PLANTED_TUNER(NAME, INIT, ASK, FINALIZE)                               \
    static ncclResult_t init_v5(                                               \
        void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes,      \
        ncclDebugLogger_t log, ncclNvlDomainInfo_v5_t *nvl,                    \
        ncclTunerConstants_v5_t *constants)                                    \
    {                                                                          \
        struct planted *self = calloc(1, sizeof(*self));                       \
                                                                               \
        (void)comm_id;                                                         \
        (void)n_nodes;                                                         \
        (void)nvl;                                                             \
        (void)constants;                                                       \
        if (self == NULL)                                                      \
            return ncclSystemError;                                            \
        self->n_ranks = n_ranks;                                               \
        self->log = log;                                                       \
        *context = self;                                                       \
        return INIT(self);                                                     \
    }                                                                          \
    static ncclResult_t ask_v5(void *context, ncclFunc_t coll, size_t n_bytes, \
                               int n_pipe_ops, float **table, int n_algos,     \
                               int n_protos, int reg_buff, int *n_channels)    \
    {                                                                          \
        const struct planted_call call = {                                     \
            coll,       n_bytes, n_pipe_ops,                                   \
            reg_buff,   n_algos, (float(*)[NCCL_NUM_PROTOCOLS])table,          \
            n_channels,                                                        \
        };                                                                     \
                                                                               \
        (void)n_protos;                                                        \
        return ASK(context, &call);                                            \
    }                                                                          \
    static ncclResult_t finalize_v5(void *context)                             \
    {                                                                          \
        if (context != NULL)                                                   \
            FINALIZE(context);                                                 \
        return ncclSuccess;                                                    \
    }                                                                          \
    __attribute__((visibility(                                                 \
        "default"))) extern const ncclTuner_v5_t ncclTunerPlugin_v5;           \
    const ncclTuner_v5_t ncclTunerPlugin_v5 = {NAME, init_v5, ask_v5,          \
                                               finalize_v5}

#endif /* TEST_PLANTED_H */
