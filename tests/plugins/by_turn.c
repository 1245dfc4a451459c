/*
 * by_turn.c - the planted fault of the tests: a tuner that decides by who asks
 * when, over all communicators of the process; so ranks disagree in some
 * schedules, and in the same ones every time
 */
#include <stdint.h>

#include "nccl_tuner_abi.h"

/* At that turn, that rank is answered otherwise. */
enum { TURN = 4000, RANK = 6 };

static intptr_t n_alive; /* communicators */
static int n_asked;      /* since there were none */

static ncclResult_t init(void **context, uint64_t comm_id, size_t n_ranks,
                         size_t n_nodes, ncclDebugLogger_t log,
                         ncclNvlDomainInfo_v5_t *nvl,
                         ncclTunerConstants_v5_t *constants)
{
    *context = (void *)++n_alive;
    return ncclSuccess;
}

static ncclResult_t ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int n_pipe_ops, float **table, int n_algo, int n_proto,
                        int reg_buff, int *n_channels)
{
    float *costs = (float *)table;

    if (++n_asked == TURN && context == (void *)(intptr_t)(RANK + 1))
        costs[NCCL_ALGO_TREE * n_proto + NCCL_PROTO_LL] = 0;
    return ncclSuccess;
}

static ncclResult_t finalize(void *context)
{
    if (--n_alive == 0)
        n_asked = 0;
    return ncclSuccess;
}

__attribute__((
    visibility("default"))) extern const ncclTuner_v5_t ncclTunerPlugin_v5;
const ncclTuner_v5_t ncclTunerPlugin_v5 = {"by_turn", init, ask, finalize};
