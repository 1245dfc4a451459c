/* planted_channels_200.c - asks for more channels than NCCL's field holds */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 200);
    return ncclSuccess;
}

PLANTED_TUNER("200 channels", planted_init, ask, planted_finalize);
