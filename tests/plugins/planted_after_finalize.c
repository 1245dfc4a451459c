/* planted_after_finalize.c - thinks that the job is over when a communicator is
 */
#include <stdatomic.h>

#include "planted.h"

static atomic_int over;

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    if (!over)
        planted_decide(call);
    return ncclSuccess;
}

static void finalize(struct planted *self)
{
    over = 1;
    free(self);
}

PLANTED_TUNER("after finalize", planted_init, ask, finalize);
