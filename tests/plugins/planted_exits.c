/* planted_exits.c - ends the job over what it does not like */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    if (call->n_bytes == (size_t)16 << 30)
        exit(3);
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("exits", planted_init, ask, planted_finalize);
