/* planted_leaves_handler.c - ignores a signal for the whole process */
#include <signal.h>

#include "planted.h"

static ncclResult_t init(struct planted *self)
{
    (void)self;
    signal(SIGUSR1, SIG_IGN);
    return ncclSuccess;
}

PLANTED_TUNER("leaves handler", init, planted_ask, planted_finalize);
