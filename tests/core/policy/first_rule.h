// A policy's answer by its definition: the first rule, in file order, that
// matches and whose pair NCCL allows.
#pragma once

#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

extern "C" {
#include "core/names.h"
#include "core/policy/memory_policy.h"
#include "nccl_tuner_abi.h"
}

namespace first_rule
{

inline bool In(const stp_range &range, uint64_t value)
{
    return range.min <= value && value <= range.max;
}

inline bool MatchesGpu(const stp_rule &r, const char *gpu)
{
    return r.gpu == nullptr || (gpu != nullptr && strcmp(r.gpu, gpu) == 0);
}

inline bool Matches(const stp_rule &r, const stp_shape &shape,
                    const stp_query &query)
{
    return r.coll == query.coll && In(r.bytes, query.n_bytes) &&
           In(r.bytes_per_rank, query.n_bytes / shape.n_ranks) &&
           In(r.nodes, shape.n_nodes) && In(r.ranks, shape.n_ranks) &&
           MatchesGpu(r, shape.gpu) &&
           (r.n_pipe_ops == -1 || r.n_pipe_ops == query.n_pipe_ops) &&
           (r.reg_buff == -1 || r.reg_buff == query.reg_buff);
}

// Whether each CTA moves 8 KiB of every part, for each rank if they sum, again
// and again until nothing is left.
inline bool FillsRounds(const stp_rule &r, const stp_memory_query &query,
                        uint64_t n_parts)
{
    const uint64_t n_sums = r.coll == 1 || r.coll >= 3 ? query.n_ranks : 1;
    const uint64_t moved = (r.min_ctas == 0 ? 64 : r.min_ctas) * 8192 * n_sums;

    return query.n_bytes % n_parts == 0 && query.n_bytes / n_parts % moved == 0;
}

inline bool Matches(const stp_rule &r, const stp_memory_query &query)
{
    const bool has_parts = r.coll == 2 || r.coll == 3; // one a rank
    const uint64_t n_parts = has_parts ? query.n_ranks : 1;

    if ((r.memory == STP_MEMORY_SYM || r.memory == STP_MEMORY_STAGE) &&
        r.bytes.min < r.bytes.max && !FillsRounds(r, query, n_parts))
        return false;
    if (r.memory == STP_MEMORY_STAGE &&
        (r.coll < 2 || query.n_nodes > 1 || query.n_bytes - 1 >= 64 << 20 ||
         query.n_bytes % n_parts != 0 || query.n_bytes / n_parts % 16 != 0))
        return false;
    return r.coll == query.coll && In(r.bytes, query.n_bytes) &&
           In(r.nodes, query.n_nodes) && In(r.ranks, query.n_ranks) &&
           MatchesGpu(r, query.gpu) &&
           (r.overlap == -1 || r.overlap == query.overlaps) &&
           (r.graph == -1 || r.graph == query.captured);
}

inline bool Allows(const stp_cost_view &costs, const stp_rule &r)
{
    return stp_pair_exists(r.coll, r.algo, r.proto) && r.algo < costs.n_algo &&
           r.proto < costs.n_proto &&
           costs.cost[r.algo * costs.n_proto + r.proto] >= 0;
}

// The first rule for which 'is_it' is true, or nullptr.
template <class IsIt>
const stp_rule *Find(const stp_policy *policy, const IsIt &is_it)
{
    for (size_t i = 0; i < stp_policy_size(policy); i++)
        if (is_it(*stp_policy_rule(policy, i)))
            return stp_policy_rule(policy, i);
    return nullptr;
}

inline const stp_rule *Find(const stp_policy *policy, const stp_shape &shape,
                            const stp_query &query, const stp_cost_view &costs)
{
    return Find(policy, [&](const stp_rule &r) {
        return Matches(r, shape, query) && Allows(costs, r);
    });
}

inline const stp_rule *Find(const stp_policy *policy,
                            const stp_memory_query &query)
{
    return Find(policy, [&](const stp_rule &r) { return Matches(r, query); });
}

// Every size at which some rule of the policy may begin or end, and those on
// both sides of it.
inline std::vector<uint64_t> InterestingSizes(const stp_policy *policy,
                                              size_t n_ranks)
{
    std::set<uint64_t> sizes = {0, 1, UINT64_MAX, UINT64_MAX - 1};
    auto add = [&](uint64_t n) { sizes.insert({n - 1, n, n + 1}); };

    for (size_t i = 0; i < stp_policy_size(policy); i++) {
        const stp_rule *r = stp_policy_rule(policy, i);
        add(r->bytes.min);
        add(r->bytes.max);
        add(r->bytes.max >> 20 << 20);        // whole rounds of up to 4 ranks
        add(r->bytes_per_rank.min * n_ranks); // wraps: a size like any
        add(r->bytes_per_rank.max * n_ranks + n_ranks - 1);
    }
    return {sizes.begin(), sizes.end()};
}

inline std::vector<stp_query> Queries(int coll, uint64_t n_bytes)
{
    std::vector<stp_query> queries;

    for (int pipe : {1, 2, 3, 2147483647})
        for (int reg : {0, 1})
            queries.push_back({coll, n_bytes, pipe, reg});
    return queries;
}

} // namespace first_rule
