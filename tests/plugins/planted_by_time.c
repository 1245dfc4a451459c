/* planted_by_time.c - decides by the hour of its own clock */
#include <time.h>

#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    planted_choose(call, time(NULL) / 3600 % 2);
    return ncclSuccess;
}

PLANTED_TUNER("by time", planted_init, ask, planted_finalize);
