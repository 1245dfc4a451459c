/* policy.c - the backend that answers from a policy file and learns nothing */
#include <inttypes.h>
#include <stdio.h>

#include "plugin/backend.h"
#include "plugin/shared_policy.h"

static struct stp_shared_policy *policy_of(const struct stp_backend *backend)
{
    return (struct stp_shared_policy *)backend;
}

enum stp_status stp_backend_open(const struct stp_comm_info *info,
                                 struct stp_plugin_settings *settings,
                                 ncclDebugLogger_t log,
                                 struct stp_backend **backend_ret,
                                 const char **subject_ret,
                                 struct stp_error *err)
{
    struct stp_shared_policy *policy = NULL;
    enum stp_status status = stp_shared_policy_acquire(
        settings->policy_path, &info->shape, &policy, err);

    if (status == STP_OK)
        *backend_ret = (struct stp_backend *)policy;
    else
        *subject_ret = settings->policy_path;
    return status;
}

void stp_backend_fingerprint(const struct stp_backend *backend,
                             struct stp_fingerprint *fingerprint)
{
    const struct stp_shared_policy *policy = policy_of(backend);

    fingerprint->part[STP_FINGERPRINT_POLICY] =
        stp_compiled_hash(stp_shared_policy_compiled(policy));
    fingerprint->part[STP_FINGERPRINT_FILE] =
        stp_policy_hash(stp_shared_policy_rules(policy));
}

const struct stp_shared_policy *
stp_backend_policy(const struct stp_backend *backend)
{
    return policy_of(backend);
}

bool stp_backend_proposes(const struct stp_backend *backend)
{
    return false;
}

void stp_backend_join(struct stp_backend *backend,
                      struct stp_agreement *agreement)
{
}

void stp_backend_describe(const struct stp_backend *backend, char *buf,
                          size_t size)
{
    const struct stp_shared_policy *policy = policy_of(backend);

    snprintf(buf, size, "%s, hash %016" PRIx64 ", %zu of %zu rules apply",
             stp_shared_policy_path(policy),
             stp_policy_hash(stp_shared_policy_rules(policy)),
             stp_compiled_size(stp_shared_policy_compiled(policy)),
             stp_policy_size(stp_shared_policy_rules(policy)));
}

void stp_backend_start(struct stp_backend *backend)
{
}

bool stp_backend_choose(struct stp_backend *backend,
                        const struct stp_query *query,
                        const struct stp_cost_view *view,
                        struct stp_choice *choice_ret)
{
    return stp_compiled_lookup(stp_shared_policy_compiled(policy_of(backend)),
                               query, view, choice_ret);
}

void stp_backend_close(struct stp_backend *backend)
{
    if (backend != NULL)
        stp_shared_policy_release(policy_of(backend));
}
