/* planted_by_count.c - counts the calls of all communicators together */
#include <stdatomic.h>

#include "planted.h"

static atomic_uint n_calls;

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    planted_choose(call, atomic_fetch_add(&n_calls, 1) / 8 % 2);
    return ncclSuccess;
}

PLANTED_TUNER("by count", planted_init, ask, planted_finalize);
