/* planted_sleeps.c - takes its time */
#include <time.h>

#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    const struct timespec moment = {0, 150000};

    (void)self;
    nanosleep(&moment, NULL);
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("sleeps", planted_init, ask, planted_finalize);
