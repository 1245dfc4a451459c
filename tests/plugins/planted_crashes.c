/* planted_crashes.c - uses what is not there, for 16 GiB */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    struct planted *volatile nothing = NULL;

    if (call->n_bytes == (size_t)16 << 30)
        self = nothing;
    *call->n_channels = (int)self->number;
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("crashes", planted_init, ask, planted_finalize);
