/* planted_leaks.c - keeps a note of each call, for ever */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    void *volatile note = malloc(40);

    (void)self;
    (void)note;
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("leaks", planted_init, ask, planted_finalize);
