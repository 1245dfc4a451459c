#include "core/policy/memory_policy.h"

#include <string.h>

#include "nccl_tuner_abi.h"

enum stp_policy_kind stp_policy_kind_of_file(const char *path)
{
    static const char *const suffixes[STP_N_POLICY_KINDS] = {
        [STP_POLICY_OF_MEMORY] = STP_MEMORY_SUFFIX,
        [STP_POLICY_OF_STAGE] = STP_STAGE_SUFFIX,
    };
    const size_t len = strlen(path);

    for (int i = STP_POLICY_OF_ARMS + 1; i < STP_N_POLICY_KINDS; i++) {
        const size_t n = strlen(suffixes[i]);

        if (len >= n && strcmp(path + len - n, suffixes[i]) == 0)
            return (enum stp_policy_kind)i;
    }
    return STP_POLICY_OF_ARMS;
}

enum stp_status stp_policy_load_any(const char *path,
                                    struct stp_policy **policy_ret,
                                    struct stp_error *err)
{
    return stp_policy_load(stp_policy_kind_of_file(path), path, policy_ret,
                           err);
}

bool stp_memory_rule_takes_rounds(const struct stp_rule *rule)
{
    return stp_memory_is_symmetric(rule->memory) &&
           rule->bytes.min < rule->bytes.max;
}

bool stp_memory_rule_decides(const struct stp_rule *rule, uint64_t n_ranks,
                             uint64_t n_bytes)
{
    return stp_range_has(&rule->bytes, n_bytes) &&
           (!stp_memory_rule_takes_rounds(rule) ||
            n_bytes % stp_memory_round(rule->coll, n_ranks, rule->min_ctas) ==
                0);
}

bool stp_memory_rule_is_for(const struct stp_rule *rule,
                            const struct stp_memory_query *query)
{
    return stp_range_has(&rule->ranks, query->n_ranks) &&
           stp_range_has(&rule->nodes, query->n_nodes) &&
           (rule->gpu == NULL ||
            (query->gpu != NULL && strcmp(rule->gpu, query->gpu) == 0));
}

static bool memory_stages(int coll)
{
    return coll == ncclFuncAllReduce || coll == ncclFuncAllGather ||
           coll == ncclFuncReduceScatter;
}

const char *stp_memory_rule_is_idle(const struct stp_rule *rule)
{
    const bool is_one = rule->bytes.min == rule->bytes.max;

    return rule->memory != STP_MEMORY_STAGE ? NULL
           : !memory_stages(rule->coll)
               ? "allgather, reducescatter and allreduce alone are staged"
           : rule->bytes.min > STP_STAGE_MAX
               ? "no message above 64 MiB is staged"
           : is_one && rule->bytes.min % STP_STAGE_UNIT != 0
               ? "only multiples of 16 bytes are staged"
           : rule->nodes.min > 1 ? "nothing is staged over several hosts"
                                 : NULL;
}

static bool memory_is_staged(const struct stp_memory_query *query)
{
    const uint64_t n_parts =
        query->coll == ncclFuncAllReduce ? 1 : query->n_ranks;

    return memory_stages(query->coll) && query->n_nodes == 1 &&
           query->n_bytes > 0 && query->n_bytes <= STP_STAGE_MAX &&
           query->n_bytes % n_parts == 0 &&
           query->n_bytes / n_parts % STP_STAGE_UNIT == 0;
}

bool stp_memory_rule_matches(const struct stp_rule *rule,
                             const struct stp_memory_query *query)
{
    return query->n_ranks > 0 && rule->coll == query->coll &&
           (rule->memory != STP_MEMORY_STAGE || memory_is_staged(query)) &&
           stp_memory_rule_decides(rule, query->n_ranks, query->n_bytes) &&
           (rule->overlap == -1 || rule->overlap == (int)query->overlaps) &&
           (rule->graph == -1 || rule->graph == (int)query->captured) &&
           stp_memory_rule_is_for(rule, query);
}

const struct stp_rule *
stp_memory_policy_match(const struct stp_policy *policy,
                        const struct stp_memory_query *query)
{
    for (size_t i = 0; i < stp_policy_size(policy); i++)
        if (stp_memory_rule_matches(stp_policy_rule(policy, i), query))
            return stp_policy_rule(policy, i);
    return NULL;
}
