/* planted_writes_outside.c - has one algorithm more than NCCL, for 16 GiB */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    planted_decide(call);
    if (call->n_bytes == (size_t)16 << 30)
        call->table[call->n_algos][NCCL_PROTO_LL] = 1;
    return ncclSuccess;
}

PLANTED_TUNER("writes outside", planted_init, ask, planted_finalize);
