/* policy.c - the backend that answers from a policy file */
#include <inttypes.h>
#include <stdio.h>

#include "plugin/backend.h"
#include "plugin/shared_policy.h"

static enum stp_status policy_open(const struct stp_comm_info *info,
                                   const struct stp_settings *settings,
                                   void **self_ret, struct stp_error *err)
{
    struct stp_shared_policy *shared;
    enum stp_status status = stp_shared_policy_acquire(
        settings->policy_path, &info->shape, &shared, err);

    if (status == STP_OK)
        *self_ret = shared;
    return status;
}

static bool policy_choose(void *self, const struct stp_query *query,
                          const struct stp_cost_view *view,
                          struct stp_choice *choice_ret)
{
    return stp_compiled_lookup(stp_shared_policy_compiled(self), query, view,
                               choice_ret);
}

static uint64_t policy_fingerprint(const void *self)
{
    return stp_shared_policy_hash(self);
}

static void policy_describe(const void *self, char *buf, size_t size)
{
    snprintf(buf, size, "%s, hash %016" PRIx64 ", %zu of %zu rules apply",
             stp_shared_policy_path(self), stp_shared_policy_hash(self),
             stp_compiled_size(stp_shared_policy_compiled(self)),
             stp_shared_policy_rules(self));
}

static void policy_close(void *self)
{
    stp_shared_policy_release(self);
}

const struct stp_backend_ops stp_backend = {
    .name = STP_TUNER_NAME,
    .open = policy_open,
    .choose = policy_choose,
    .fingerprint = policy_fingerprint,
    .describe = policy_describe,
    .close = policy_close,
};
