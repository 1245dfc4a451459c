/* planted_leaks.c - keeps a note of each call, for ever */
#include "planted.h"

static void *volatile latest;

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    latest = malloc(40);
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("leaks", planted_init, ask, planted_finalize);
