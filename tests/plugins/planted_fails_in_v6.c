/* planted_fails_in_v6.c - has a v6 half that nobody finished */
#include "planted.h"

static ncclResult_t ask_v6(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algos,
                           int n_protos, int reg_buff, int *n_channels)
{
    (void)context;
    (void)coll;
    (void)n_bytes;
    (void)n_pipe_ops;
    (void)table;
    (void)n_algos;
    (void)n_protos;
    (void)reg_buff;
    (void)n_channels;
    return ncclInternalError;
}

PLANTED_TUNER("fails in v6", planted_init, planted_ask, planted_finalize);

__attribute__((
    visibility("default"))) extern const ncclTuner_v6_t ncclTunerPlugin_v6;
const ncclTuner_v6_t ncclTunerPlugin_v6 = {"fails in v6", init_v5, ask_v6,
                                           finalize_v5, NULL};
