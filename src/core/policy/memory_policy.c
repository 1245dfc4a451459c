#include "core/policy/memory_policy.h"

#include <string.h>

#include "core/policy/policy_columns.h"

enum stp_status stp_memory_policy_parse(const char *csv, size_t len,
                                        struct stp_policy **policy_ret,
                                        struct stp_error *err)
{
    return stp_policy_parse_kind(STP_POLICY_OF_MEMORY, csv, len, policy_ret,
                                 err);
}

enum stp_status stp_memory_policy_load(const char *path,
                                       struct stp_policy **policy_ret,
                                       struct stp_error *err)
{
    return stp_policy_load_kind(STP_POLICY_OF_MEMORY, path, policy_ret, err);
}

enum stp_policy_kind stp_policy_kind_of_file(const char *path)
{
    const size_t len = strlen(path), n = strlen(STP_MEMORY_SUFFIX);

    return len >= n && strcmp(path + len - n, STP_MEMORY_SUFFIX) == 0
               ? STP_POLICY_OF_MEMORY
               : STP_POLICY_OF_ARMS;
}

enum stp_status stp_policy_load_any(const char *path,
                                    struct stp_policy **policy_ret,
                                    struct stp_error *err)
{
    return stp_policy_load_kind(stp_policy_kind_of_file(path), path, policy_ret,
                                err);
}

static bool memory_is_within(const struct stp_range *range, uint64_t value)
{
    return range->min <= value && value <= range->max;
}

static bool memory_matches(const struct stp_rule *rule,
                           const struct stp_memory_query *query)
{
    return rule->coll == query->coll &&
           memory_is_within(&rule->bytes, query->n_bytes) &&
           memory_is_within(&rule->ranks, query->n_ranks) &&
           memory_is_within(&rule->nodes, query->n_nodes) &&
           (rule->overlap == -1 || rule->overlap == (int)query->overlaps) &&
           (rule->gpu == NULL ||
            (query->gpu != NULL && strcmp(rule->gpu, query->gpu) == 0));
}

const struct stp_rule *
stp_memory_policy_match(const struct stp_policy *policy,
                        const struct stp_memory_query *query)
{
    for (size_t i = 0; i < stp_policy_size(policy); i++)
        if (memory_matches(stp_policy_rule(policy, i), query))
            return stp_policy_rule(policy, i);
    return NULL;
}
