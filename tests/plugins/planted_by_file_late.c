/* planted_by_file_late.c - reads its policy anew for each call */
#include "planted_policy.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    planted_follow(call, planted_policy(planted_policy_path()));
    return ncclSuccess;
}

PLANTED_TUNER("by file, late", planted_init, ask, planted_finalize);
