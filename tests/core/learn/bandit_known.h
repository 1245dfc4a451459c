// A bandit whose arms are known by earlier runs, and blocks of them.
#pragma once

#include "core/learn/bandit_job.h"

namespace bandit_job
{

// Blocks of an arm, the mean logarithm of its gain, and the sum of squares
// about that.
struct Known {
    uint32_t n;
    double gain;
    double ss = 0;
};

inline void Recall(const Bandit &bandit, unsigned arm, const Known &known,
                   unsigned key = 0)
{
    const stp_bandit_arm a = stp_bandit_get_arm(bandit.get(), key, arm).arm;

    stp_bandit_recall(bandit.get(), key, &a, known.n, known.gain, known.ss);
}

// A bandit with half of the calls of a window of 10.
inline Bandit OpenWithKey(const stp_bandit_rules &rules,
                          const stp_cost_view &view)
{
    Bandit bandit = Open(rules);

    stp_bandit_add_key(bandit.get(), 0, &view, 24);
    SetWindow(bandit, {5}, 10);
    return bandit;
}

inline stp_bandit_rules NoRetests(double min_gain = 0)
{
    stp_bandit_rules rules = Halving();

    rules.min_gain = min_gain;
    rules.retest_calls = 0;
    rules.confirm_blocks = 0;
    return rules;
}

inline bool Wants(const Bandit &bandit, uint64_t n_calls, stp_bandit_want *want,
                  double call_us = 1)
{
    const stp_bandit_clock clock{n_calls, call_us};

    return stp_bandit_wants(bandit.get(), &clock, want);
}

// The first number of calls, of 1 us, at which the budget allows what is
// wanted next; all time is in the budget.
inline uint64_t CallsToAfford(const Bandit &bandit, stp_bandit_want *want,
                              uint64_t from = 0)
{
    uint64_t n_calls = from;

    while (n_calls < from + 1000 && !Wants(bandit, n_calls, want))
        n_calls++;
    return n_calls;
}

// Costs of ring/LL128, tree/LL128 and ring/simple; the rest is ruled out.
inline Costs CostsOf(float ring_ll128, float tree_ll128, float ring_simple)
{
    Costs costs;

    costs.table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = -1;
    costs.table[NCCL_ALGO_RING][NCCL_PROTO_LL] = -1;
    costs.table[NCCL_ALGO_RING][NCCL_PROTO_LL128] = ring_ll128;
    costs.table[NCCL_ALGO_TREE][NCCL_PROTO_LL128] = tree_ll128;
    costs.table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = ring_simple;
    return costs;
}

// A block of arm 'arm' of key 0 against arm 'base', by whose spreads the noise
// stays as it is.
inline stp_block Block(unsigned arm, double gain, bool is_last = true,
                       unsigned base = 0)
{
    stp_block block{};

    block.trial.arm = arm;
    block.trial.base = base;
    block.trial.n_calls = 10;
    block.is_complete = true;
    block.is_last = is_last;
    block.own_us = block.arm_us = 100;
    block.gain = gain;
    return block;
}

inline void Give(const Bandit &bandit, const stp_block &block, double noise,
                 uint64_t n_calls = 0)
{
    stp_bandit_set_noise(bandit.get(), noise);
    stp_bandit_block(bandit.get(), &block, n_calls);
}

inline constexpr Known kWinner = {16, .1};
inline constexpr Known kLoser = {1, -1};

// Rules with two arms, tree/LL128 and ring/simple, of any number of channels.
inline stp_bandit_rules TwoArms(unsigned retest_calls, unsigned confirm_blocks)
{
    stp_bandit_rules rules = NoRetests();

    rules.retest_calls = retest_calls;
    rules.confirm_blocks = confirm_blocks;
    rules.arms[0] = {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0};
    rules.arms[1] = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
    rules.n_arms = 2;
    return rules;
}

} // namespace bandit_job
