// Random policies, and what to ask them, for properties (rapidcheck).
#pragma once

#include <cmath>
#include <cstdlib>
#include <ostream>
#include <utility>

#include <rapidcheck.h>

extern "C" {
#include "core/memory.h"
#include "core/names.h"
}

#include "core/policy/first_rule.h"
#include "support/policy_text.h"

namespace policy_text
{

// ---- as text ----

inline std::string RangeText(const stp_range &range, const char *between)
{
    return std::to_string(range.min) + between +
           (range.max == UINT64_MAX ? "inf" : std::to_string(range.max));
}

// All columns of rules of a kind.
inline std::string HeaderText(stp_policy_kind kind)
{
    static const char *const own[STP_N_POLICY_KINDS] = {
        ("algorithm,protocol,channels,min_bytes_per_rank,max_bytes_per_rank,"
         "numPipeOps,regBuff,chunk_bytes\n"),
        "memory,min_ctas,overlap\n", "memory,min_ctas,graph\n"};

    return std::string("collective,min_bytes,max_bytes,nNodes,nRanks,gpu,") +
           own[kind];
}

inline std::string RuleText(const stp_rule &r, stp_policy_kind kind)
{
    const std::string both =
        std::string(stp_coll_name(r.coll)) + "," + RangeText(r.bytes, ",") +
        "," + RangeText(r.nodes, "-") + "," + RangeText(r.ranks, "-") + "," +
        (r.gpu != nullptr ? r.gpu : "*") + ",";

    if (kind != STP_POLICY_OF_ARMS)
        return both + stp_memory_name(static_cast<enum stp_memory>(r.memory)) +
               "," + std::to_string(r.min_ctas) + "," +
               std::to_string(kind == STP_POLICY_OF_MEMORY ? r.overlap
                                                           : r.graph) +
               "\n";
    return both + stp_algo_name(r.algo) + "," + stp_proto_name(r.proto) + "," +
           std::to_string(r.n_channels) + "," +
           RangeText(r.bytes_per_rank, ",") + "," +
           std::to_string(r.n_pipe_ops) + "," + std::to_string(r.reg_buff) +
           "," + std::to_string(r.chunk_bytes) + "\n";
}

struct RandomPolicy {
    stp_policy_kind kind;
    std::vector<stp_rule> rules;

    std::string Csv() const
    {
        std::string csv = HeaderText(kind);
        for (const stp_rule &rule : rules)
            csv += RuleText(rule, kind);
        return csv;
    }
};

inline void showValue(const RandomPolicy &policy, std::ostream &os)
{
    os << policy.Csv();
}

// ---- at random ----

// Small, near powers of two, anything at all, or a crowd far from 0.
inline rc::Gen<uint64_t> AnySize()
{
    const auto below = [](uint64_t n) {
        return rc::gen::inRange<uint64_t>(0, n);
    };

    return rc::gen::oneOf(
        below(40),
        rc::gen::map(rc::gen::pair(below(64), below(3)),
                     [](const std::pair<uint64_t, uint64_t> &p) {
                         return (uint64_t{1} << p.first) + p.second - 1;
                     }),
        rc::gen::map(rc::gen::pair(rc::gen::arbitrary<uint64_t>(), below(64)),
                     [](const std::pair<uint64_t, uint64_t> &p) {
                         return p.first >> p.second;
                     }),
        rc::gen::map(below(5000),
                     [](uint64_t n) { return (uint64_t{1} << 40) + n; }));
}

// Often out of 'ends', so that rules meet.
inline stp_range AnyRange(const std::vector<uint64_t> &ends)
{
    const auto size = rc::gen::weightedOneOf<uint64_t>(
        {{3, rc::gen::elementOf(ends)}, {1, AnySize()}});
    uint64_t a = *size, b = *size;

    if (a > b)
        std::swap(a, b);
    return {a, *rc::gen::weightedElement<uint64_t>({{1, UINT64_MAX}, {5, b}})};
}

inline stp_rule AnyRule(stp_policy_kind kind, const std::vector<uint64_t> &ends)
{
    const stp_range any = {1, UINT64_MAX};
    const auto of = [](std::vector<int> numbers) {
        return *rc::gen::elementOf(std::move(numbers));
    };
    stp_rule rule{};

    rule.coll = of({0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
    rule.algo = of({0, 1, 2, 3, 4, 5, 6, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
    rule.proto = of({0, 1, 2});
    rule.n_channels = *rc::gen::inRange(0, STP_MAX_CHANNELS + 1);
    rule.memory =
        kind == STP_POLICY_OF_STAGE
            ? of({STP_MEMORY_PLAIN, STP_MEMORY_STAGE})
            : *rc::gen::inRange<int>(STP_MEMORY_PLAIN, STP_MEMORY_CE + 1);
    rule.min_ctas = of({0, 0, 0, 1, 16, 32, STP_MAX_CHANNELS});
    rule.bytes = AnyRange(ends);
    rule.bytes_per_rank =
        of({0, 0, 0, 1}) == 1 ? AnyRange(ends) : stp_range{0, UINT64_MAX};
    rule.nodes = *rc::gen::elementOf(
        std::vector<stp_range>{any, any, any, {1, 1}, {2, 3}, {2, UINT64_MAX}});
    rule.ranks = *rc::gen::elementOf(
        std::vector<stp_range>{any, any, any, {8, 8}, {2, 8}, {3, UINT64_MAX}});
    rule.n_pipe_ops = of({-1, -1, 1, 2, 2147483647});
    rule.reg_buff = of({-1, -1, 0, 1});
    rule.overlap = of({-1, -1, 0, 1});
    rule.graph = of({-1, -1, 0, 1});
    rule.chunk_bytes = static_cast<uint32_t>(of({0, 0, 4096, 16 << 20, 5000}));
    rule.gpu = *rc::gen::elementOf(
        std::vector<const char *>{nullptr, nullptr, nullptr, "A", "B"});
    return rule;
}

// Sizes at which rules end are some of 'ends', too.
inline rc::Gen<RandomPolicy> AnyPolicy(stp_policy_kind kind,
                                       std::vector<uint64_t> ends = {})
{
    return rc::gen::exec([kind, ends] {
        std::vector<uint64_t> pool =
            *rc::gen::container<std::vector<uint64_t>>(12, AnySize());
        pool.insert(pool.end(), ends.begin(), ends.end());
        const size_t n = *rc::gen::inRange<size_t>(1, 41);
        return RandomPolicy{kind, *rc::gen::container<std::vector<stp_rule>>(
                                      n, rc::gen::exec([kind, pool] {
                                          return AnyRule(kind, pool);
                                      }))};
    });
}

inline stp_shape AnyShape()
{
    return {*rc::gen::element<size_t>(1, 2, 3, 8, 1000),
            *rc::gen::inRange<size_t>(1, 5),
            *rc::gen::elementOf(std::vector<const char *>{nullptr, "A", "B"})};
}

inline Costs AnyCosts()
{
    Costs costs;

    costs.n_algo = *rc::gen::element(7, 7, 7, 6);
    costs.cost = *rc::gen::container<std::vector<float>>(
        costs.cost.size(),
        rc::gen::weightedElement<float>(
            {{16, 1.0f}, {6, -1.0f}, {1, NAN}, {1, -1024.0f}}));
    return costs;
}

// ---- properties ----

// Checks it 300 times by a fixed seed, or as RC_PARAMS says.
template <class Property>
bool Holds(const std::string &name, const Property &property)
{
    setenv("RC_PARAMS", "seed=1 max_success=300 max_size=100", 0);
    return rc::check(name, property);
}

} // namespace policy_text
