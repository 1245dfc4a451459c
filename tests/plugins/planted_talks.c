/* planted_talks.c - logs each call */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    self->log(NCCL_LOG_INFO, NCCL_TUNING, "talks.c", 1, "asked about %zu bytes",
              call->n_bytes);
    planted_decide(call);
    return ncclSuccess;
}

PLANTED_TUNER("talks", planted_init, ask, planted_finalize);
