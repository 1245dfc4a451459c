/* planted_by_rank_variable.c - decides by what a launcher tells each rank */
#include "planted.h"

static ncclResult_t init(struct planted *self)
{
    const char *rank = getenv("LOCAL_RANK");

    self->number = rank != NULL ? atoi(rank) : 0;
    return ncclSuccess;
}

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    planted_choose(call, self->number % 2);
    return ncclSuccess;
}

PLANTED_TUNER("by rank variable", init, ask, planted_finalize);
