/* planted_hangs.c - never comes back from a call in a large group */
#include <unistd.h>

#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    while (call->n_pipe_ops == 64)
        pause();
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("hangs", planted_init, ask, planted_finalize);
