/* planted_busy_init.c - cannot be initialised while it is being initialised */
#include <stdatomic.h>
#include <time.h>

#include "planted.h"

static atomic_int n_inside;

static ncclResult_t init(struct planted *self)
{
    const struct timespec moment = {0, 5000000};
    int others = atomic_fetch_add(&n_inside, 1);

    (void)self;
    nanosleep(&moment, NULL);
    atomic_fetch_sub(&n_inside, 1);
    return others == 0 ? ncclSuccess : ncclSystemError;
}

PLANTED_TUNER("busy init", init, planted_ask, planted_finalize);
