// A bandit, and a job that does what it wants.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "core/learn/bandit.h"
}

#include "nccl_tuner_abi.h"

namespace bandit_job
{

struct Close {
    void operator()(stp_bandit *bandit) const
    {
        stp_bandit_close(bandit);
    }
};
using Bandit = std::unique_ptr<stp_bandit, Close>;

inline Bandit Open(const stp_bandit_rules &rules)
{
    stp_bandit *bandit = nullptr;
    stp_error err;

    EXPECT_EQ(STP_OK, stp_bandit_open(&rules, &bandit, &err)) << err.text;
    return Bandit(bandit);
}

inline stp_bandit_rules Halving()
{
    stp_bandit_rules rules = stp_bandit_rules_default(STP_STRATEGY_HALVING);

    rules.budget = 1; // a test that waits for it says so
    rules.confirm_us = 0;
    return rules;
}

using Table = float[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];

// Tree LL128 and simple 12 and 30 us, ring LL, LL128 and simple 20, 10 and
// 11 us; the rest is ruled out.  So NCCL takes ring/LL128.
struct Costs {
    Table table;
    Costs()
    {
        for (auto &row : table)
            for (float &cost : row)
                cost = -1;
        table[NCCL_ALGO_TREE][NCCL_PROTO_LL128] = 12;
        table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = 30;
        table[NCCL_ALGO_RING][NCCL_PROTO_LL] = 20;
        table[NCCL_ALGO_RING][NCCL_PROTO_LL128] = 10;
        table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 11;
    }
    stp_cost_view View() const
    {
        return {&table[0][0], NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS};
    }
};

inline void AddKey(const Bandit &bandit, unsigned key = 0,
                   unsigned max_channels = 24)
{
    Costs costs;
    stp_cost_view view = costs.View();

    stp_bandit_add_key(bandit.get(), key, &view, max_channels);
}

// The first keys' shares of a window; the others have none.
inline void SetWindow(const Bandit &bandit, std::vector<unsigned> shares,
                      unsigned n_calls)
{
    shares.resize(STP_BANDIT_KEYS);
    stp_bandit_set_window(bandit.get(), shares.data(), n_calls);
}

struct Arm {
    int algo, proto, n_channels;
    bool operator==(const Arm &other) const
    {
        return algo == other.algo && proto == other.proto &&
               n_channels == other.n_channels;
    }
};
inline void PrintTo(const Arm &arm, std::ostream *out)
{
    *out << arm.algo << "/" << arm.proto << "/" << arm.n_channels;
}

constexpr Arm kOwn{-1, 0, 0};
constexpr Arm kTreeLl128{NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0};
constexpr Arm kTreeSimple{NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0};
constexpr Arm kRingLl{NCCL_ALGO_RING, NCCL_PROTO_LL, 0};
constexpr Arm kRingSimple{NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};

inline Arm ArmOf(const Bandit &bandit, unsigned arm, unsigned key = 0)
{
    stp_bandit_arm a = stp_bandit_get_arm(bandit.get(), key, arm).arm;

    return {a.algo, a.proto, a.n_channels};
}

inline std::vector<Arm> ArmsOf(const Bandit &bandit, bool is_out)
{
    std::vector<Arm> arms;

    for (unsigned i = 0; i < stp_bandit_get_key(bandit.get(), 0).n_arms; i++)
        if (stp_bandit_get_arm(bandit.get(), 0, i).is_out == is_out)
            arms.push_back(ArmOf(bandit, i));
    return arms;
}

// The time of an arm at a call.
using Time = std::function<double(const Arm &, unsigned)>;

// One call of a key, and what follows from it: what is wanted comes into force
// at once.  Returns the arm that ran.
struct Job {
    Bandit bandit;
    Time time;
    unsigned call = 0;

    unsigned Call(unsigned key = 0)
    {
        unsigned arm = stp_bandit_get_key(bandit.get(), key).running;
        double us = time(ArmOf(bandit, arm, key), call++);
        stp_bandit_clock clock{call, 100};
        stp_bandit_want want;

        stp_bandit_reward(bandit.get(), key, arm, us);
        if (stp_bandit_wants(bandit.get(), &clock, &want))
            stp_bandit_began(bandit.get(), &want);
        return arm;
    }
    void Calls(unsigned n)
    {
        for (unsigned i = 0; i < n; i++)
            Call();
    }
    stp_bandit_key_state State(unsigned key = 0)
    {
        return stp_bandit_get_key(bandit.get(), key);
    }
};

inline Job Start(const Time &time, const stp_bandit_rules &rules)
{
    Job job{Open(rules), time};

    AddKey(job.bandit);
    return job;
}

// 100 us, and 'us' with one arm; further ones 10 percent more.
inline Time Only(const Arm &arm, double us)
{
    return [=](const Arm &a, unsigned) {
        return a == arm ? us : a == kOwn ? 100. : 110.;
    };
}

} // namespace bandit_job
