// Which arm wins by windows of equal work, and what that costs.
#include <gmock/gmock.h>

#include <utility>

extern "C" {
#include "core/stats.h"
}

extern "C" {
#include "core/learn/bandit_gains.h"
}

#include "core/learn/bandit_trials.h"

namespace
{

using namespace bandit_job;

constexpr Arm kTreeLl128Half{NCCL_ALGO_TREE, NCCL_PROTO_LL128, 12};
// ---- what wins ----

TEST(Halving, SettlesWithTheArmThatMakesWindowsShorter)
{
    const struct {
        const char *name;
        double saved_us;
        double noise;
        Arm expected;
    } cases[] = {
        {"by 5 percent", 50, .002, kTreeLl128},
        {"by 1 percent", 10, .002, kTreeLl128},
        {"by 1 percent without noise", 10, 0, kTreeLl128},
        {"by 5 percent among noise of 3", 50, .03, kTreeLl128},
        {"by less than counts", 1, .002, kOwn},
        {"not at all", 0, .002, kOwn},
        {"not at all among noise of 3 percent", 0, .03, kOwn},
    };

    for (const auto &c : cases)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            SCOPED_TRACE(c.name);
            SCOPED_TRACE(seed);
            Trials job(Saves(kTreeLl128, c.saved_us), c.noise);

            job.seed = seed;
            EXPECT_EQ(c.expected, job.Settle());
            if (c.expected == kOwn) {
                EXPECT_EQ(1, job.State().gain);
                continue;
            }
            EXPECT_LE(job.State().gain_low, job.State().gain);
            EXPECT_GT(job.State().gain_low, 1);
            EXPECT_NEAR(kWindowUs / (kWindowUs - c.saved_us), job.State().gain,
                        c.noise + 1e-9);
        }
}

TEST(Halving, PutsAWinnerInForceWhileOthersAreTried)
{
    Trials job(
        [](const Arm &arm) {
            return arm == kTreeLl128 ? 50. : arm == kRingLl ? 45. : 0.;
        },
        .005);

    EXPECT_EQ(kTreeLl128, job.Settle());
    EXPECT_NEAR(1.0526, job.State().gain, .004);
}

TEST(Halving, ABlockThatAPauseHitDoesNotCount)
{
    Trials job(Saves(kTreeLl128, 0));
    unsigned n = 0;

    for (int i = 0; i < 200 && !job.State().is_settled; i++) {
        job.Next();
        for (stp_block &block : job.blocks)
            if (n++ % 3 == 1) { // the incumbent's second window
                block.spread[0] = -1;
                block.gain += .5;
                block.own_us *= 1.6;
            }
        job.Arrive(0);
    }

    EXPECT_TRUE(job.State().is_settled);
    EXPECT_EQ(0U, job.State().best);
}

// Blocks of the arm until it is in force, of which the 'stalled'th one has
// stalls in both of the incumbent's windows, or in both of the arm's.
unsigned BlocksToWin(unsigned stalled, double gain, double noise)
{
    Trials job(Saves(kTreeLl128, 30), .002);
    unsigned n = 0;

    stp_bandit_set_noise(job.bandit.get(), noise);
    for (int i = 0; i < 200 && job.Incumbent() == kOwn; i++) {
        job.Next();
        for (stp_block &block : job.blocks)
            if (ArmOf(job.bandit, block.trial.arm) == kTreeLl128 &&
                n++ == stalled)
                block.gain += gain;
        job.Arrive(0);
    }
    EXPECT_EQ(kTreeLl128, job.Incumbent());
    return n;
}

TEST(Halving, AGainFarFromTheOthersDoesNotCount)
{
    EXPECT_EQ(5U, BlocksToWin(0, 0, .002));
    for (double noise : {.002, .5})
        for (unsigned stalled : {0, 1, 3})
            EXPECT_LE(BlocksToWin(stalled, 1, noise), 9U)
                << noise << " " << stalled;
    for (unsigned stalled : {1, 3})
        EXPECT_LE(BlocksToWin(stalled, -1, .002), 9U) << stalled;
}

TEST(Halving, TriesFewerChannelsOfTheWinner)
{
    Trials job([](const Arm &arm) {
        return arm == kTreeLl128Half ? 80.
               : arm == kTreeLl128   ? 50.
               : arm == kOwn         ? 0.
                                     : -20.;
    });

    EXPECT_EQ(kTreeLl128Half, job.Settle());
    EXPECT_NEAR(1000. / 920, job.State().gain, .004);
}

TEST(Halving, BlocksWithoutTimesOnlyEndTheirTrial)
{
    Trials job(Saves(kTreeLl128, 50));

    for (int i = 0; i < 30; i++) {
        job.Next();
        for (stp_block &block : job.blocks)
            block.is_complete = false;
        job.Arrive(0);
    }

    EXPECT_FALSE(job.State().is_settled);
    EXPECT_EQ(30u, job.n_trials);
    EXPECT_EQ(kTreeLl128, job.Settle());
}

// ---- what it costs ----

TEST(Halving, NeverLosesMoreThanItsBudget)
{
    stp_bandit_rules rules = Halving();

    rules.budget = .01;
    for (double us : {-300., -50., 0., 50.}) {
        Trials job([us](const Arm &arm) { return arm == kOwn ? 0 : us; }, .002,
                   rules);

        job.n_calls = 0;
        for (int i = 0; i < 20000; i++) {
            if (!job.Next())
                job.n_calls += kWindow;
            job.Arrive(0);
            /* the first trial of an arm may be worse than NCCL expects */
            ASSERT_LE(job.lost_us,
                      .01 * job.n_calls * kWindowUs / kWindow + 3 * 2 * 300)
                << us;
        }
        EXPECT_TRUE(job.State().is_settled) << us;
    }
}

// Windows of 1000 us, of which those that a pause hit take 9000 us longer.
TEST(Halving, WhatAPauseTookIsNobodysLoss)
{
    const struct {
        const char *name;
        double own[2], arm[2]; // windows
        double lost;
    } cases[] = {
        {"without a pause", {1000, 1000}, {1100, 1102}, 202},
        {"in the arm's windows", {1000, 1000}, {1100, 10100}, 200},
        {"in the incumbent's", {10000, 1000}, {1100, 1100}, 200},
        {"in both", {10000, 1000}, {1100, 10100}, 200},
        {"of a faster arm", {1000, 1000}, {900, 9900}, -200},
        {"none: an arm that is always slow", {1000, 1000}, {9000, 9000}, 16000},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Trials job(Saves(kTreeLl128, 0), .002);
        stp_bandit_set_noise(job.bandit.get(), .002);
        ASSERT_TRUE(job.Next());
        stp_block block = job.blocks.front();

        block.own_us = (c.own[0] + c.own[1]) / 2;
        block.arm_us = (c.arm[0] + c.arm[1]) / 2;
        block.gain = std::log(block.own_us / block.arm_us);
        block.spread[0] = std::log(c.own[0] / c.own[1]);
        block.spread[1] = std::log(c.arm[0] / c.arm[1]);
        stp_bandit_block(job.bandit.get(), &block, job.n_calls);

        EXPECT_NEAR(c.lost, job.bandit->lost, 1e-9);
    }
}

TEST(Halving, WithoutABudgetTriesNothing)
{
    stp_bandit_rules rules = Halving();

    rules.budget = 0;
    Trials job(Saves(kTreeLl128, 50), .002, rules);

    EXPECT_FALSE(job.Next());
}

// ---- keys ----

TEST(Halving, SearchesTheKeyWithTheMostTimeFirst)
{
    Trials job(Saves(kTreeLl128, 50));

    AddKey(job.bandit, 1);
    AddKey(job.bandit, 2);
    SetWindow(job.bandit, {2, 0, 8}, kWindow);

    EXPECT_EQ(kTreeLl128, job.Settle(2));
    EXPECT_FALSE(job.State(0).is_settled);
    EXPECT_EQ(kTreeLl128, job.Settle(0));
    while (job.Next())
        job.Arrive(0);
    EXPECT_FALSE(job.State(1).is_settled) << "it is not made";
}

// ---- the set of all incumbents ----

// As an evaluation or a checkpoint is, in a window of the set or of NCCL's own
// choice.
TEST(Halving, APauseOfTheJobIsNoGainOfTheSetNorItsLoss)
{
    for (bool in_the_sets : {true, false}) {
        SCOPED_TRACE(in_the_sets);
        stp_bandit_rules rules = Halving();
        rules.confirm_blocks = 8;
        Trials job(Saves(kTreeLl128, 50), .002, rules);
        job.Settle();

        for (int n = 0; n < 100 && job.Next(); n++) {
            for (stp_block &block : job.blocks)
                if (job.n_set_blocks == 3) {
                    (in_the_sets ? block.own_us : block.arm_us) += 2e6;
                    block.gain = std::log(block.own_us / block.arm_us);
                    block.spread[!in_the_sets] = std::log(1000 / 4e6);
                }
            job.Arrive(0);
        }
        const stp_bandit_set_state set = stp_bandit_get_set(job.bandit.get());

        EXPECT_EQ(9U, job.n_set_blocks) << "one does not count";
        EXPECT_TRUE(set.is_confirmed);
        EXPECT_NEAR(1000 / 950., set.gain, .003);
        EXPECT_LT(set.gain_high / set.gain_low, 1.01);
    }
}

// Key 1 won last, and goes; key 0 stays.
TEST(Halving, DropsTheNewestArmOfASet)
{
    Trials job(Saves(kTreeLl128, 50));

    AddKey(job.bandit, 1);
    SetWindow(job.bandit, {8, 2}, kWindow);
    job.Settle(0);
    job.Settle(1);
    job.together = -60;
    EXPECT_TRUE(job.Confirm().is_dropped);
    job.together = 0;

    EXPECT_EQ(kOwn, job.Settle(1));
    EXPECT_EQ(kTreeLl128, job.Incumbent(0));
    EXPECT_FALSE(job.Confirm().is_dropped);
}

TEST(Halving, ComparesNoSetWhereNcclsOwnChoiceStays)
{
    Trials job(Saves(kTreeLl128, 0));

    job.Settle();

    EXPECT_EQ(0U, job.Confirm().n_blocks);
    EXPECT_FALSE(job.Next());
}

TEST(Halving, ComparesTheSetOnceNothingIsLeftToSearch)
{
    Trials job(Saves(kTreeLl128, 50));

    AddKey(job.bandit, 1);
    SetWindow(job.bandit, {8, 2}, kWindow);
    job.Settle(0);
    job.Settle(1);
    EXPECT_EQ(0U, job.n_set_blocks);

    EXPECT_EQ(8U, job.Confirm().n_blocks);
}

TEST(Halving, ComparesTheSetAnewWhenItHasChanged)
{
    Trials job(Saves(kTreeLl128, 50));
    stp_bandit_set_state set;

    job.Settle();
    set = job.Confirm();
    EXPECT_TRUE(set.is_confirmed);
    job.saved = Saves(kRingSimple, 30);
    for (int i = 0; i < 5000 && !(job.Incumbent() == kRingSimple); i++) {
        job.Next();
        job.Arrive(0);
        job.n_calls++;
    }
    EXPECT_NE(set.number, stp_bandit_get_set(job.bandit.get()).number);
    job.Settle();

    EXPECT_EQ(8U, job.Confirm().n_blocks);
}

TEST(Halving, ComparesTheSetInWindowsAsLongAsTheRulesSay)
{
    const std::pair<double, unsigned> cases[] = {
        {0, kWindow},
        {kWindowUs, kWindow},
        {2.5 * kWindowUs, 3 * kWindow},
        {1e9, 10000000},
    };

    for (const auto &[us, n_calls] : cases) {
        stp_bandit_rules rules = Halving();
        stp_bandit_clock clock{100000, kWindowUs / kWindow};
        stp_bandit_want want;

        rules.confirm_us = us;
        rules.retest_calls = 0;
        Trials job(Saves(kTreeLl128, 50), .002, rules);
        job.Settle();
        clock.n_calls = uint64_t(1) << 40; // the budget allows all
        ASSERT_TRUE(stp_bandit_wants(job.bandit.get(), &clock, &want));
        EXPECT_EQ(unsigned(STP_BANDIT_SET), want.key);
        EXPECT_EQ(n_calls, want.n_calls);
        EXPECT_EQ(1U, want.n_blocks);
    }
}

TEST(Halving, DoesNotCountBlocksOfASetThatIsNoMore)
{
    Trials job(Saves(kTreeLl128, 50));
    stp_bandit_want other{};

    job.Settle();
    for (int i = 0; i < 5; i++)
        job.Next();
    ASSERT_EQ(5U, job.blocks.size());
    job.Arrive(1);
    EXPECT_EQ(4U, stp_bandit_get_set(job.bandit.get()).n_blocks);
    stp_bandit_began(job.bandit.get(), &other); // arm 0 of key 0
    job.Arrive(0);

    EXPECT_EQ(0U, stp_bandit_get_set(job.bandit.get()).n_blocks);
}

// ---- searches that go on ----

// ---- what earlier runs know ----

void Recall(Trials &job, const Arm &arm, uint32_t n, double gain)
{
    stp_bandit_arm a = {int8_t(arm.algo), int8_t(arm.proto),
                        uint8_t(arm.n_channels)};

    stp_bandit_recall(job.bandit.get(), 0, &a, n, std::log(gain),
                      (n - 1) * .002 * .002);
}

TEST(Halving, TriesNoArmThatEarlierRunsKnow)
{
    Trials job(Saves(kTreeLl128, 50));

    Recall(job, kRingSimple, 5, .98);
    Recall(job, kTreeLl128, 9, 1.05);
    Recall(job, kRingLl, 5, .98);
    Recall(job, kTreeSimple, 5, .98);
    job.Next();
    EXPECT_EQ(kTreeLl128, job.Incumbent());
    EXPECT_EQ(0U, job.n_trials);
    EXPECT_EQ(kTreeLl128, job.Settle());
    for (const Arm &arm : job.tried)
        EXPECT_GT(arm.n_channels, 0);
    EXPECT_NEAR(1.05, job.State().gain, 1e-6);
}

TEST(Halving, RecallsAnArmWithItsChannels)
{
    Trials job([](const Arm &arm) {
        return arm == kTreeLl128Half ? 80. : arm == kTreeLl128 ? 50. : -20.;
    });

    Recall(job, kTreeLl128, 9, 1.05);
    Recall(job, kTreeLl128Half, 9, 1.087);
    EXPECT_EQ(kTreeLl128Half, job.Settle());
}

TEST(Halving, RecallsNothingOfWhatNcclRulesOutOrIsTriedAlready)
{
    const Arm no_kernel = {NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 0};
    Trials job(Saves(kTreeLl128, 50));
    const unsigned n_arms = job.State().n_arms;

    Recall(job, no_kernel, 9, 2);
    Recall(job, kOwn, 9, 2);
    EXPECT_EQ(n_arms, job.State().n_arms);
    EXPECT_EQ(0U, job.Known());
    job.Next();
    job.Arrive(0);
    Recall(job, job.tried[0], 9, 2);
    EXPECT_EQ(1U, job.Known());
    EXPECT_EQ(kTreeLl128, job.Settle());
}

// ---- steps that change ----

// ---- re-tests ----

} // namespace
