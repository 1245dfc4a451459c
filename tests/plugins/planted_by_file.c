/* planted_by_file.c - reads its policy in init, and trusts that the other ranks
 * found the same */
#include "planted_policy.h"

static ncclResult_t init(struct planted *self)
{
    self->number = planted_policy(planted_policy_path());
    return ncclSuccess;
}

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    planted_follow(call, self->number);
    return ncclSuccess;
}

PLANTED_TUNER("by file", init, ask, planted_finalize);
