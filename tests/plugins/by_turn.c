/*
 * by_turn.c - a tuner with a planted fault: its decision depends on the rank
 * and on the number of calls of all communicators in the process, so ranks
 * disagree in some schedules, always the same ones
 */
#include <stdint.h>

#include "nccl_tuner_abi.h"

/* The call and the rank whose answer differs. */
enum { TURN = 4000, RANK = 6 };

static intptr_t n_alive; /* communicators that exist */
static int n_asked;      /* calls since no communicator existed */

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
