/* planted_by_age.c - decides otherwise once a minute has passed since init */
#include <time.h>

#include "planted.h"

static long long now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static ncclResult_t init(struct planted *self)
{
    self->number = now();
    return ncclSuccess;
}

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    planted_choose(call, now() - self->number > 60);
    return ncclSuccess;
}

PLANTED_TUNER("by age", init, ask, planted_finalize);
