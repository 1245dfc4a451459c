// Helpers of the policies' tests: from a policy's text to its answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "core/policy/memory_policy.h"
}

#include "nccl_tuner_abi.h"

namespace policy_text
{

inline constexpr int kAllReduce = ncclFuncAllReduce;

struct Free {
    void operator()(stp_policy *p) const
    {
        stp_policy_free(p);
    }
    void operator()(stp_compiled *c) const
    {
        stp_compiled_free(c);
    }
};
using Policy = std::unique_ptr<stp_policy, Free>;
using Compiled = std::unique_ptr<stp_compiled, Free>;

inline Policy Parse(const std::string &csv,
                    stp_policy_kind kind = STP_POLICY_OF_ARMS)
{
    stp_policy *policy = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_OK,
              stp_policy_parse(kind, csv.data(), csv.size(), &policy, &err))
        << err.line << ":" << err.column << ": " << err.text;
    return Policy(policy);
}

inline Compiled Compile(const stp_policy *policy, const stp_shape &shape)
{
    stp_compiled *compiled = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_policy_compile(policy, &shape, &compiled, &err))
        << err.text;
    return Compiled(compiled);
}

// A policy and its compiled form for one node of 8 ranks.
struct Both {
    Policy policy;
    Compiled compiled;

    explicit Both(const std::string &csv, stp_shape shape = {8, 1, nullptr})
        : policy(Parse(csv)), compiled(Compile(policy.get(), shape))
    {
    }
};

struct Costs {
    int n_algo = NCCL_NUM_ALGORITHMS;
    int n_proto = NCCL_NUM_PROTOCOLS;
    std::vector<float> cost = std::vector<float>(64, 1.0f);

    void Set(int algo, int proto, float value)
    {
        cost[(size_t)(algo * n_proto + proto)] = value;
    }
    stp_cost_view View() const
    {
        return {cost.data(), n_algo, n_proto};
    }
};

// The line of the rule that wins, or 0.
inline unsigned LineOf(const Compiled &compiled, const stp_query &query,
                       const Costs &costs = Costs())
{
    stp_choice choice{};
    stp_cost_view view = costs.View();

    return stp_compiled_lookup(compiled.get(), &query, &view, &choice)
               ? choice.line
               : 0;
}

inline std::vector<uint64_t> Breaks(const Compiled &compiled, int coll)
{
    std::vector<uint64_t> breaks;
    uint64_t at = 0;

    while ((at = stp_compiled_next_break(compiled.get(), coll, at)) !=
           UINT64_MAX)
        breaks.push_back(at);
    return breaks;
}

} // namespace policy_text
