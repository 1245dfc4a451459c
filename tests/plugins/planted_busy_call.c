/* planted_busy_call.c - decides otherwise while it decides for another */
#include <sched.h>
#include <stdatomic.h>

#include "planted.h"

enum { CALLS_A_YIELD = 16 }; /* on a busy machine a yield takes long */

static atomic_int n_inside;
static atomic_uint n_calls;

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    int others = atomic_fetch_add(&n_inside, 1);

    (void)self;
    if (atomic_fetch_add(&n_calls, 1) % CALLS_A_YIELD == 0)
        sched_yield();
    planted_choose(call, others > 0);
    atomic_fetch_sub(&n_inside, 1);
    return ncclSuccess;
}

PLANTED_TUNER("busy call", planted_init, ask, planted_finalize);
