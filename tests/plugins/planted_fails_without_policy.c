/* planted_fails_without_policy.c - takes its communicator down if its policy is
 * missing */
#include "planted_policy.h"

static ncclResult_t init(struct planted *self)
{
    self->number = planted_policy(planted_policy_path());
    if (self->number != POLICY_NOTHING)
        return ncclSuccess;
    return ncclInvalidUsage;
}

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    planted_follow(call, self->number);
    return ncclSuccess;
}

PLANTED_TUNER("fails without policy", init, ask, planted_finalize);
