/* planted_writes_minus_one.c - rules out tree/ll its own way, as only NCCL may
 */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    if (planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8) &&
        call->table[NCCL_ALGO_TREE][NCCL_PROTO_LL] >= 0)
        call->table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = -1;
    return ncclSuccess;
}

PLANTED_TUNER("writes -1", planted_init, ask, planted_finalize);
