/* planted_by_life.c - counts its lives in the environment, which outlives it */
#include <stdio.h>

#include "planted.h"

static ncclResult_t init(struct planted *self)
{
    const char *lives = getenv("PLANTED_LIVES");

    self->number = lives != NULL ? atoi(lives) : 0;
    return ncclSuccess;
}

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    planted_choose(call, self->number % 2);
    return ncclSuccess;
}

static void finalize(struct planted *self)
{
    char lives[32];

    snprintf(lives, sizeof(lives), "%lld", self->number + 1);
    setenv("PLANTED_LIVES", lives, 1);
    free(self);
}

PLANTED_TUNER("by life", init, ask, finalize);
