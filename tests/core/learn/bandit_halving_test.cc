// What successive elimination decides, with times that are known.
#include <gmock/gmock.h>

#include "core/learn/bandit_job.h"

namespace
{

using namespace bandit_job;
using testing::ElementsAre;

TEST(Halving, BeginsWithNcclsOwnChoiceAndReturnsToItAfterEachTrial)
{
    Job job = Start(Only(kRingSimple, 50));
    std::vector<unsigned> ran;

    for (int i = 0; i < 12; i++)
        ran.push_back(job.Call());

    EXPECT_THAT(ran, ElementsAre(0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0));
}

struct SettleCase {
    const char *name;
    Arm arm;
    double us;
    Arm want;
};

constexpr SettleCase kSettles[] = {
    {"twice_as_fast", kRingSimple, 50, kRingSimple},
    {"five_percent", kTreeLl128, 95, kTreeLl128},
    {"less_than_the_least_gain", kRingSimple, 99, kOwn},
    {"the_same", kRingSimple, 100, kOwn},
    {"slower", kRingSimple, 130, kOwn},
    {"fewer_channels_of_nccls_pair",
     {NCCL_ALGO_RING, NCCL_PROTO_LL128, 12},
     90,
     {NCCL_ALGO_RING, NCCL_PROTO_LL128, 12}},
    {"fewer_channels_of_another_pair",
     {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 6},
     50,
     kOwn},
    {"pruned", kTreeSimple, 50, kOwn},
};

TEST(Halving, SettlesWithWhatIsFasterByTheLeastGainWithinFortyCalls)
{
    for (const SettleCase &c : kSettles) {
        SCOPED_TRACE(c.name);
        Job job = Start(Only(c.arm, c.us));

        EXPECT_EQ(c.want, job.Settle());
        EXPECT_LE(job.State().n_trial_calls, 40U);
        if (c.want == kOwn) {
            EXPECT_EQ(1, job.State().gain);
        } else {
            EXPECT_NEAR(100 / c.us, job.State().gain, 1e-4);
            EXPECT_GT(job.State().gain_low, 1);
        }
    }
}

// Channel counts that were tried, of whatever settled.
std::vector<int> CountsTried(Job &job)
{
    std::vector<int> counts;

    for (unsigned i = 0; i < job.State().n_arms; i++)
        if (ArmOf(job.bandit, i).n_channels != 0 &&
            stp_bandit_get_arm(job.bandit.get(), 0, i).n > 0)
            counts.push_back(ArmOf(job.bandit, i).n_channels);
    return counts;
}

TEST(Halving, TriesNoChannelCountThatAnArmHasAnyway)
{
    const struct {
        Arm best;
        unsigned n_own;    // channels of NCCL's own choice; 0: not seen
        unsigned n_simple; // and of ring/simple
        std::vector<int> tried;
    } cases[] = {
        {kOwn, 0, 0, {12, 24}},         {kOwn, 24, 0, {12}},
        {kRingSimple, 24, 0, {12, 24}}, {kRingSimple, 24, 24, {12}},
        {kRingSimple, 24, 12, {6, 24}},
    };

    for (const auto &c : cases) {
        // Where half the channels are slow, a quarter is not tried.
        Job job = Start([&](const Arm &arm, unsigned) {
            return Only(c.best, 50)(arm, 0) * (arm.n_channels == 12 ? 2.5 : 1);
        });
        stp_bandit_saw_channels(job.bandit.get(), 0, 0, c.n_own);
        for (unsigned i = 1; i < job.State().n_arms; i++)
            if (ArmOf(job.bandit, i) == kRingSimple)
                stp_bandit_saw_channels(job.bandit.get(), 0, i, c.n_simple);

        EXPECT_EQ(c.best, job.Settle());
        EXPECT_EQ(c.tried, CountsTried(job));
    }
}

TEST(Halving, OneCallThatIsTwiceAsLongEndsAnArm)
{
    Job job = Start([](const Arm &arm, unsigned) {
        return arm == kRingSimple ? 210. : 100.;
    });

    job.Settle();

    EXPECT_EQ(1U, stp_bandit_get_arm(job.bandit.get(), 0, 1).n);
}

TEST(Halving, TrialsWaitUntilTheBudgetHasTheirLoss)
{
    stp_bandit_rules rules = Halving();
    rules.budget = 0.01;
    Job job = Start(Only(kOwn, 100), rules);

    while (job.Call() == 0)
        ;
    // The table says that ring/simple takes 1.1 times as long: 10 us, and a
    // little by rounding.  After 11 calls there are 11.
    EXPECT_EQ(12U, job.call);
    for (int i = 0; i < 2000; i++) {
        job.Call();
        EXPECT_LE(job.State().lost, 0.0101 * job.elapsed + 10);
    }
}

// Every seventh call of NCCL's own choice, whatever follows it.
TEST(Halving, CallsThatAreOffMakeNoArmWin)
{
    for (unsigned phase = 0; phase < 7; phase++) {
        SCOPED_TRACE(phase);
        Job job = Start([=](const Arm &arm, unsigned call) {
            return arm == kOwn && call % 7 == phase ? 190. : 100.;
        });

        EXPECT_EQ(kOwn, job.Settle());
    }
}

TEST(Halving, AWinnerThatIsSlowOnceItRunsIsTakenBackAtOnce)
{
    Job job;
    job = Start([&](const Arm &arm, unsigned) {
        bool has_won = job.State().best == 1;
        return arm == kRingSimple ? (has_won ? 150. : 50.) : 100.;
    });

    EXPECT_EQ(kOwn, job.Settle());
    EXPECT_LE(stp_bandit_get_arm(job.bandit.get(), 0, 1).n, 16U);
}

TEST(Halving, AVetoSendsAKeyBack)
{
    Job job = Start(Only(kRingSimple, 50));
    ASSERT_EQ(kRingSimple, job.Settle());

    stp_bandit_veto(job.bandit.get(), 0, 1);
    job.Calls(500);

    EXPECT_EQ(0U, job.State().running);
    EXPECT_TRUE(job.State().is_settled);
    EXPECT_TRUE(stp_bandit_get_arm(job.bandit.get(), 0, 1).is_out);
}

TEST(Halving, ARetestFindsThatAnArmIsNoLongerFaster)
{
    Job job = Start([](const Arm &arm, unsigned call) {
        return arm == kRingSimple ? (call < 500 ? 80. : 120.) : 100.;
    });
    ASSERT_EQ(kRingSimple, job.Settle());

    job.Calls(900);
    EXPECT_EQ(1U, job.State().running);
    job.Calls(200);

    EXPECT_EQ(0U, job.State().best);
}

TEST(Halving, ARetestFindsThatAnArmHasBecomeFaster)
{
    Job job = Start([](const Arm &arm, unsigned call) {
        if (arm == kRingSimple)
            return call > 500 ? 80. : 99.;
        return arm == kOwn ? 100. : 110.;
    });
    ASSERT_EQ(kOwn, job.Settle());

    job.Calls(1200);

    EXPECT_EQ(kRingSimple, ArmOf(job.bandit, job.State().best));
}

TEST(Halving, ARetestIsOfSeveralCallsAlsoOfAnArmThatIsOut)
{
    Job job = Start(Only(kRingSimple, 105));
    ASSERT_EQ(kOwn, job.Settle());
    const unsigned settled = job.call;

    std::vector<unsigned> trials; // their calls since
    for (unsigned i = 0; i < 3100; i++)
        if (job.Call() != 0)
            trials.push_back(job.call - settled);

    ASSERT_EQ(15U, trials.size());
    for (unsigned i = 0; i < trials.size(); i += 5) {
        EXPECT_EQ(trials[i] + 4, trials[i + 4]) << "without a call between";
        EXPECT_NEAR(1000 * (i / 5 + 1), trials[i], 50);
    }
}

TEST(Halving, ARetestIsComparedWithCallsOfItsTime)
{
    Job job = Start([](const Arm &arm, unsigned call) {
        const double us = arm == kRingSimple ? 96. : arm == kOwn ? 100. : 110.;
        return call < 1000 ? us : 1.5 * us; // the clock of the GPU changed
    });
    ASSERT_EQ(kRingSimple, job.Settle());
    job.Calls(200); // with the first re-test
    stp_bandit_want want;
    for (; job.call < 2000; job.call++) // whose times do not arrive
        stp_bandit_call(job.bandit.get(), 0);
    ASSERT_TRUE(stp_bandit_awaits(job.bandit.get(), 0));
    EXPECT_FALSE(stp_bandit_wants(job.bandit.get(), 1e9, &want))
        << "before the incumbent was heard again";

    job.Calls(50);

    EXPECT_EQ(1U, job.State().running);
    EXPECT_TRUE(job.State().is_settled);
    EXPECT_FALSE(stp_bandit_awaits(job.bandit.get(), 0));
}

TEST(Halving, ExploresOneKeyAtATime)
{
    Job job = Start(Only(kRingSimple, 50));
    AddKey(job.bandit, 1);

    while (!job.State(0).is_settled) {
        EXPECT_EQ(0U, job.Call(1));
        job.Call(0);
    }
    for (int i = 0; i < 100; i++)
        job.Call(1);

    EXPECT_TRUE(job.State(1).is_settled);
}

TEST(Halving, AKeyThatIsNoLongerCalledHoldsUpNoOther)
{
    Job job = Start(Only(kRingSimple, 50));
    AddKey(job.bandit, 1);
    while (job.State(0).running == 0)
        job.Call(0);

    for (int i = 0; i < 2100; i++)
        job.Call(1);

    EXPECT_EQ(0U, job.State(0).running);
    EXPECT_TRUE(job.State(1).is_settled);
}

TEST(Halving, TakesRewardsThatComeAfterTheReturn)
{
    Bandit bandit = Open(Halving());
    stp_bandit_want want;
    AddKey(bandit);
    for (int i = 0; i < 6; i++)
        stp_bandit_reward(bandit.get(), 0, 0, 100);
    ASSERT_TRUE(stp_bandit_wants(bandit.get(), 1e9, &want));
    EXPECT_EQ(1U, want.n_calls);
    stp_bandit_began(bandit.get(), &want);
    stp_bandit_want back{0, 0, false, 0};
    stp_bandit_began(bandit.get(), &back);

    EXPECT_FALSE(stp_bandit_wants(bandit.get(), 1e9, &want));
    stp_bandit_reward(bandit.get(), 0, 1, 120);
    stp_bandit_reward(bandit.get(), 0, 0, 100);

    EXPECT_NEAR(20, stp_bandit_get_key(bandit.get(), 0).lost, 1e-9);
    ASSERT_TRUE(stp_bandit_wants(bandit.get(), 1e9, &want));
    EXPECT_EQ(2U, want.arm);
}

TEST(Halving, DoesNothingForWhatItDoesNotKnow)
{
    Bandit bandit = Open(Halving());
    stp_bandit_want want{7, 0, true, 1};
    AddKey(bandit);

    stp_bandit_reward(bandit.get(), 7, 0, 1);
    stp_bandit_reward(bandit.get(), 0, 31, 1);
    stp_bandit_reward(bandit.get(), 0, 0, -1);
    stp_bandit_veto(bandit.get(), STP_BANDIT_KEYS, 1);
    stp_bandit_began(bandit.get(), &want);

    EXPECT_EQ(0U, stp_bandit_get_arm(bandit.get(), 0, 0).n);
    EXPECT_EQ(0U, stp_bandit_get_key(bandit.get(), 7).n_arms);
}

} // namespace
