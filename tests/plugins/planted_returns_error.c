/* planted_returns_error.c - has no rule above 1 GiB, and says so by an error */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    if (call->n_bytes > (size_t)1 << 30)
        return ncclInvalidArgument;
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("returns error", planted_init, ask, planted_finalize);
