/* planted_crashes.c - crashes, for 16 GiB.  By a signal: a sanitizer would
 * report what usually leads to it. */
#include <signal.h>

#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    if (call->n_bytes == (size_t)16 << 30)
        raise(SIGSEGV);
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("crashes", planted_init, ask, planted_finalize);
