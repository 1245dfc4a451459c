// Tests of settled keys: arms that are tested again, searches that are opened
// again, and the set of all incumbents.
#include <cmath>

extern "C" {
#include "core/learn/bandit_decide.h"
#include "core/stats.h"
}

#include "core/learn/bandit_known.h"

namespace
{

using namespace bandit_job;

// ---- what has settled ----

constexpr Known kSpent = {48, 0}; // for want of blocks, if noise is 1

// Settles keys at a call by what is known of their two arms, and puts their
// winners in force.
Bandit Settled(const stp_bandit_rules &rules,
               const std::vector<std::vector<Known>> &keys,
               const std::vector<unsigned> &shares, uint64_t n_calls = 0,
               double noise = .001)
{
    const Costs costs = CostsOf(10.5, 15.75, 15.75);
    Bandit bandit = Open(rules);
    const stp_cost_view view = costs.View();
    unsigned n_calls_of_window = 0;
    stp_bandit_want want{};

    for (unsigned share : shares)
        n_calls_of_window += share;
    for (unsigned key = 0; key < keys.size(); key++) {
        stp_bandit_add_key(bandit.get(), key, &view, 24);
        for (unsigned i = 0; i < keys[key].size(); i++)
            Recall(bandit, i + 1, keys[key][i], key);
    }
    SetWindow(bandit, shares, n_calls_of_window);
    stp_bandit_set_noise(bandit.get(), noise);
    for (unsigned key = 0; key < keys.size(); key++) {
        const bool has_changed = Wants(bandit, n_calls, &want);
        EXPECT_TRUE(stp_bandit_get_key(bandit.get(), key).is_settled);
        if (has_changed && want.n_blocks == 0)
            stp_bandit_began(bandit.get(), &want);
    }
    return bandit;
}

bool IsSettled(const Bandit &bandit, unsigned key = 0)
{
    return stp_bandit_get_key(bandit.get(), key).is_settled;
}

TEST(HalvingRetest, IsDueAfterWaitsThatDoubleUpToAMillionCalls)
{
    const Bandit bandit =
        Settled(TwoArms(1000, 0), {{kWinner, kLoser}}, {10}, 500);
    uint64_t wait = 1000, last = 500;
    stp_bandit_want want{};

    EXPECT_EQ(1u, stp_bandit_get_key(bandit.get(), 0).running);
    for (int i = 0; i < 14; i++) {
        SCOPED_TRACE(i);
        const uint64_t at = last + wait;
        EXPECT_FALSE(stp_bandit_awaits(bandit.get(), 0, at - 1));
        EXPECT_FALSE(Wants(bandit, at - 1, &want));
        EXPECT_TRUE(stp_bandit_awaits(bandit.get(), 0, at));
        ASSERT_TRUE(Wants(bandit, at, &want));
        EXPECT_EQ(0u, want.key);
        EXPECT_EQ(0u, want.arm);
        EXPECT_EQ(4u, want.n_blocks);
        stp_bandit_began(bandit.get(), &want);
        EXPECT_TRUE(stp_bandit_awaits(bandit.get(), 0, 0)) << "under way";
        EXPECT_FALSE(Wants(bandit, at, &want));
        last = at + 100;
        for (unsigned block = 0; block < 4; block++)
            Give(bandit, Block(0, -.1, block == 3, 1), .001, last);
        EXPECT_TRUE(IsSettled(bandit));
        wait = wait < 1 << 20 ? 2 * wait : wait;
    }
    EXPECT_EQ(2048000u, wait);
}

TEST(HalvingRetest, IsOfNcclsOwnChoiceOrOfTheBestThatLost)
{
    const struct {
        const char *name;
        std::vector<Known> arms;
        unsigned arm;
    } cases[] = {
        {"the second won", {kLoser, kWinner}, 0},
        {"the first lost by less", {{1, -.1}, {1, -.2}}, 1},
        {"the second lost by less", {{1, -.2}, {1, -.1}}, 2},
        {"both lost alike", {{1, -.1}, {1, -.1}}, 1},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        const Bandit bandit = Settled(TwoArms(1000, 0), {c.arms}, {10});
        stp_bandit_want want{};

        ASSERT_TRUE(Wants(bandit, 1000, &want));
        EXPECT_EQ(c.arm, want.arm);
        EXPECT_EQ(4u, want.n_blocks);
    }
}

// By noise of .1, of four blocks .05.
TEST(HalvingRetest, BeginsTheSearchAnewByAGainOfMoreThan26TenthsOfItsError)
{
    const struct {
        const char *name;
        double gain;
        unsigned n_complete;
        bool is_settled;
    } cases[] = {
        {"of four blocks", .131, 4, false},
        {"of four, too little", .129, 4, true},
        {"of one", .261, 1, false},
        {"of one, too little", .259, 1, true},
        {"of none", 1, 0, true},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        const Bandit bandit =
            Settled(TwoArms(1000, 0), {{{1, -.1}, {1, -.2}}}, {10});
        stp_bandit_want want{};

        ASSERT_TRUE(Wants(bandit, 1000, &want));
        stp_bandit_began(bandit.get(), &want);
        for (unsigned i = 0; i < 4; i++) {
            stp_block block = Block(1, c.gain, i == 3);
            block.is_complete = i < c.n_complete;
            EXPECT_TRUE(IsSettled(bandit));
            Give(bandit, block, .1);
        }
        EXPECT_EQ(c.is_settled, IsSettled(bandit));
        const stp_bandit_arm_state tested =
            stp_bandit_get_arm(bandit.get(), 0, 1);
        const stp_bandit_arm_state other =
            stp_bandit_get_arm(bandit.get(), 0, 2);
        EXPECT_EQ(c.is_settled ? 1 + c.n_complete : 0, tested.n);
        EXPECT_EQ(c.is_settled ? 1u : 0, other.n);
        EXPECT_EQ(c.is_settled, other.is_out);
        EXPECT_EQ(c.is_settled, tested.is_out);
    }
}

// 16 blocks and the four of the re-test bound it together.
TEST(HalvingRetest, AddsToWhatBoundsTheArm)
{
    const Bandit bandit =
        Settled(TwoArms(1000, 0), {{{16, -1}, {1, -9}}}, {10}, 0, .001);
    stp_bandit_want want{};

    ASSERT_TRUE(Wants(bandit, 1000, &want));
    stp_bandit_began(bandit.get(), &want);
    for (unsigned i = 0; i < 4; i++)
        Give(bandit, Block(1, -1, i == 3), .1);
    EXPECT_TRUE(IsSettled(bandit));

    const stp_bandit_bound bound = stp_bandit_get_bound(bandit.get(), 0);
    EXPECT_EQ(1u, bound.arm);
    EXPECT_NEAR(-1 + 2.6 * .1 / std::sqrt(20), std::log(bound.gain_high), 1e-9);
}

TEST(HalvingRetest, OfAllThatSettledIsDueAtOnceInAnotherStep)
{
    const Bandit bandit = Settled(
        TwoArms(1000, 0), {{kWinner, kLoser}, {kWinner, kLoser}}, {5, 5}, 500);

    for (unsigned key : {0, 1})
        EXPECT_FALSE(stp_bandit_awaits(bandit.get(), key, 1499));
    SetWindow(bandit, {4, 6}, 10);
    for (unsigned key : {0, 1})
        EXPECT_TRUE(stp_bandit_awaits(bandit.get(), key, 0));
}

// The first arm won, and NCCL's own choice is faster; then it wins again.
TEST(HalvingRetest, LeavesNothingOfWhatWasKnownToASearchThatBeginsAnew)
{
    const Bandit bandit = Settled(TwoArms(1000, 0), {{kWinner, kLoser}}, {10});
    stp_bandit_want want{};

    ASSERT_TRUE(Wants(bandit, 1000, &want));
    stp_bandit_began(bandit.get(), &want);
    Give(bandit, Block(0, .3, true, 1), .001);
    EXPECT_FALSE(IsSettled(bandit));
    for (unsigned i = 0; i < 3; i++) {
        const stp_bandit_arm_state arm = stp_bandit_get_arm(bandit.get(), 0, i);
        EXPECT_EQ(0u, arm.n) << i;
        EXPECT_EQ(0, arm.mean) << i;
        EXPECT_FALSE(arm.is_out) << i;
    }
    EXPECT_EQ(0u, stp_bandit_get_key(bandit.get(), 0).best);
    ASSERT_TRUE(Wants(bandit, 1000, &want));
    EXPECT_EQ(0u, want.arm);
    EXPECT_EQ(0u, want.n_blocks);
    stp_bandit_began(bandit.get(), &want);

    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(0u, stp_bandit_get_key(bandit.get(), 0).best);
        Give(bandit, Block(1, .2), .01);
    }
    const stp_bandit_key_state state = stp_bandit_get_key(bandit.get(), 0);
    const double half = stp_t975(4) * .01 / std::sqrt(5);
    EXPECT_EQ(1u, state.best);
    EXPECT_NEAR(std::exp(.2), state.gain, 1e-9);
    EXPECT_NEAR(std::exp(.2 - half), state.gain_low, 1e-9);
    EXPECT_NEAR(std::exp(.2 + half), state.gain_high, 1e-9);
}

// ---- searches that are opened again ----

TEST(HalvingReopened, ArmsHaveAsManyBlocksOnceMore)
{
    stp_bandit_rules rules = TwoArms(0, 0);
    rules.persists = true;
    const Bandit bandit = Settled(rules, {{kSpent, {1, -100}}}, {10}, 0, 1);
    stp_bandit_want want{};

    EXPECT_TRUE(stp_bandit_get_arm(bandit.get(), 0, 1).is_out);
    for (unsigned more : {48, 96}) {
        EXPECT_FALSE(Wants(bandit, 100, &want));
        EXPECT_FALSE(IsSettled(bandit));
        EXPECT_FALSE(stp_bandit_get_arm(bandit.get(), 0, 1).is_out);
        EXPECT_TRUE(stp_bandit_get_arm(bandit.get(), 0, 2).is_out);
        for (unsigned i = 0; i < more; i++) {
            EXPECT_FALSE(IsSettled(bandit)) << i;
            Give(bandit, Block(1, 0), 1);
        }
        EXPECT_TRUE(IsSettled(bandit));
    }
}

// One block put the arm out by the noise as it was known; its bound says that
// it may gain, until there is another.
TEST(HalvingReopened, IsWhatNoiseThatWasKnownLaterHid)
{
    stp_bandit_rules rules = TwoArms(0, 0);
    rules.persists = true;
    const Bandit bandit =
        Settled(rules, {{{1, -.02}, {1, -100}}}, {10}, 0, .001);
    stp_bandit_want want{};

    EXPECT_FALSE(Wants(bandit, 100, &want));
    EXPECT_TRUE(IsSettled(bandit)) << "beyond doubt";
    stp_bandit_set_noise(bandit.get(), .01);
    EXPECT_FALSE(Wants(bandit, 100, &want));
    EXPECT_FALSE(IsSettled(bandit));
    Give(bandit, Block(1, -.02), .01);
    EXPECT_TRUE(IsSettled(bandit));
    EXPECT_LT(stp_bandit_get_bound(bandit.get(), 0).gain_high, 1);
}

// ---- sets ----

// A block of the set, in whose windows it takes 100 us and NCCL's own choice so
// many.
stp_block SetBlock(const Bandit &bandit, double gain, double own_us = 100)
{
    stp_block block = Block(0, -gain);

    block.trial.key = STP_BANDIT_SET;
    block.trial.base = stp_bandit_get_set(bandit.get()).number;
    block.arm_us = own_us;
    return block;
}

// Once the set has been compared; the second arm gains no more than the first
// by 48 blocks.
TEST(HalvingReopened, IsWhatNoiseHidBesideAWinner)
{
    const struct {
        const char *name;
        Known other;
        bool persists;
        bool is_settled; // at the end
    } cases[] = {
        {"spent", {48, .095}, true, false},
        {"out", {47, -.1}, true, true},
        {"does not persist", {48, .095}, false, true},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        stp_bandit_rules rules = TwoArms(0, 8);
        rules.persists = c.persists;
        const Bandit bandit =
            Settled(rules, {{{100, .1}, c.other}}, {10}, 0, .05);
        stp_bandit_want want{};

        for (int i = 0; i < 8; i++) {
            ASSERT_TRUE(Wants(bandit, 10000, &want));
            EXPECT_EQ(unsigned(STP_BANDIT_SET), want.key);
            stp_bandit_began(bandit.get(), &want);
            Give(bandit, SetBlock(bandit, .1), .05);
        }
        EXPECT_TRUE(IsSettled(bandit));
        EXPECT_FALSE(Wants(bandit, 10000, &want));
        EXPECT_EQ(c.is_settled, IsSettled(bandit));
        EXPECT_EQ(c.is_settled, stp_bandit_get_arm(bandit.get(), 0, 2).is_out);
        for (int i = 0; i < 48 && !c.is_settled; i++)
            Give(bandit, Block(2, -.005, true, 1), .05);
        EXPECT_FALSE(Wants(bandit, 10000, &want));
        EXPECT_TRUE(IsSettled(bandit)) << "until twice as many blocks";
    }
}

// Blocks whose gains are half .03 above their mean and half .03 below it.
TEST(HalvingSet, IsDroppedByEightBlocksTwoErrorsBelowNcclsOwnChoice)
{
    const struct {
        const char *name;
        double gain;
        unsigned n;
        bool is_confirmed, is_dropped;
    } cases[] = {
        {"less", -.0226, 8, true, false},   {"more", -.0228, 8, true, true},
        {"by seven", -.1, 7, false, false}, {"gains", .05, 8, true, false},
        {"two", .05, 2, false, false},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        const Bandit bandit = Settled(TwoArms(0, 8), {{kWinner, kLoser}}, {10});
        double mean = 0, ss = 0;
        std::vector<double> gains;

        for (unsigned i = 0; i < c.n; i++)
            gains.push_back(c.gain + (i % 2 == 0 ? .03 : -.03));
        for (double gain : gains) {
            Give(bandit, SetBlock(bandit, gain), .05);
            mean += gain / c.n;
        }
        for (double gain : gains)
            ss += (gain - mean) * (gain - mean);
        const double half = stp_t975(c.n - 1) * std::sqrt(ss / (c.n - 1) / c.n);

        const stp_bandit_set_state set = stp_bandit_get_set(bandit.get());
        EXPECT_EQ(c.n, set.n_blocks);
        EXPECT_EQ(c.is_confirmed, set.is_confirmed);
        EXPECT_EQ(c.is_dropped, set.is_dropped);
        EXPECT_NEAR(std::exp(mean), set.gain, 1e-12);
        EXPECT_NEAR(std::exp(mean - half), set.gain_low, 1e-12);
        EXPECT_NEAR(std::exp(mean + half), set.gain_high, 1e-12);
        EXPECT_EQ(c.is_dropped ? 0u : 1u,
                  stp_bandit_get_key(bandit.get(), 0).best);
    }
}

} // namespace
