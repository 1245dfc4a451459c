/* planted_revives.c - gives nvls/simple a cost, whether NCCL has it or not.  So
 * high that it is not chosen: to be caught, it need not harm. */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    planted_decide(call);
    call->table[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] = 1e9f;
    return ncclSuccess;
}

PLANTED_TUNER("revives", planted_init, ask, planted_finalize);
