/* planted_by_process.c - spreads channels over processes */
#include <unistd.h>

#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 1 + getpid() % 16);
    return ncclSuccess;
}

PLANTED_TUNER("by process", planted_init, ask, planted_finalize);
