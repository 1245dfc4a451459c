// Which of several good arms leads, and what its tests begin with.
#include <gmock/gmock.h>

#include <cmath>

#include "core/learn/bandit_trials.h"

namespace
{

using namespace bandit_job;

// What two arms save, and all others lose.
Saved SavesTwo(const Arm &a, double a_us, const Arm &b, double b_us)
{
    return [=](const Arm &arm) {
        return arm == a ? a_us : arm == b ? b_us : arm == kOwn ? 0. : -20.;
    };
}

// The first arm is tried first.
TEST(HalvingLeader, IsTheFasterOfTwoGoodArms)
{
    Trials job(SavesTwo(kRingSimple, 47, kTreeLl128, 50), .004);

    for (int i = 0; i < 200 && job.Incumbent() == kOwn; i++) {
        job.Next();
        job.Arrive(0);
    }

    EXPECT_EQ(kTreeLl128, job.Incumbent());
}

TEST(HalvingLeader, ABlockTellsAnArmFromAMuchFasterOne)
{
    Trials job(SavesTwo(kTreeLl128, 80, kRingLl, 20));

    job.Settle();

    EXPECT_EQ(kRingLl, ArmOf(job.bandit, 3));
    EXPECT_EQ(1U, stp_bandit_get_arm(job.bandit.get(), 0, 3).n);
}

TEST(HalvingLeader, ItsTestBeginsWithoutWhatIsKnown)
{
    stp_bandit_rules rules = Halving();
    rules.confirm_blocks = 0;
    Trials job(Saves(kTreeLl128, 50), .002, rules);
    job.Settle();
    const unsigned n = job.n_trials;

    while (job.n_trials == n) {
        job.Next();
        job.n_calls++;
    }

    ASSERT_FALSE(job.blocks.empty());
    EXPECT_EQ(0U, stp_bandit_get_arm(job.bandit.get(), 0,
                                     job.blocks.front().trial.arm)
                      .n);
}

TEST(HalvingLeader, ArmsThatAreGivenAreTriedOnTheirChannelsAlone)
{
    stp_bandit_rules rules = Halving();
    rules.arms[0] = {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0};
    rules.n_arms = 1;
    Trials job(Saves(kTreeLl128, 50), .002, rules);

    EXPECT_EQ(kTreeLl128, job.Settle());

    EXPECT_EQ(2U, job.State().n_arms);
    EXPECT_THAT(job.tried, testing::Each(kTreeLl128));
}

// Of arms that a block each has told from NCCL's own choice.
TEST(HalvingLeader, TheBestOfThoseThatLostIsTestedAgain)
{
    stp_bandit_rules rules = Halving();
    rules.confirm_blocks = 0;
    Trials job(
        [](const Arm &arm) {
            return arm == kOwn ? 0. : arm == kTreeLl128 ? -20. : -40.;
        },
        .002, rules);
    EXPECT_EQ(kOwn, job.Settle());
    for (unsigned i = 1; i < job.State().n_arms; i++)
        EXPECT_LE(stp_bandit_get_arm(job.bandit.get(), 0, i).n, 1U);
    const unsigned n = job.n_trials;

    for (int i = 0; i < 100000 && job.n_trials == n; i++) {
        job.Next();
        job.n_calls++;
    }

    EXPECT_EQ(n + 1, job.n_trials);
    EXPECT_EQ(kTreeLl128, job.tried.back());
}

// It is the first of the arms.
TEST(HalvingLeader, IsOutWhenItsSetIsDropped)
{
    Trials job(Saves(kRingSimple, 50));
    EXPECT_EQ(kRingSimple, job.Settle());
    EXPECT_EQ(kRingSimple, ArmOf(job.bandit, 1));

    job.together = -60;
    EXPECT_TRUE(job.Confirm().is_dropped);
    job.together = 0;

    EXPECT_EQ(kOwn, job.Settle());
}

// Key 0 won last.
TEST(HalvingLeader, OfTheKeyThatWonLastIsOutWhenItsSetIsDropped)
{
    Trials job(Saves(kTreeLl128, 50));

    AddKey(job.bandit, 1);
    AddKey(job.bandit, 2);
    SetWindow(job.bandit, {3, 5, 2}, kWindow);
    EXPECT_EQ(kTreeLl128, job.Settle(1));
    EXPECT_EQ(kTreeLl128, job.Settle(0));
    job.saved = Saves(kTreeLl128, 0);
    EXPECT_EQ(kOwn, job.Settle(2));
    job.saved = Saves(kTreeLl128, 50);
    job.together = -60;
    EXPECT_TRUE(job.Confirm().is_dropped);

    EXPECT_EQ(0U, job.State(0).best);
    EXPECT_FALSE(job.State(0).is_settled);
    EXPECT_NE(0U, job.State(1).best);
    EXPECT_TRUE(job.State(2).is_settled);
}

TEST(HalvingLeader, OfASetWithoutBlocksNothingIsKnown)
{
    Trials job(Saves(kTreeLl128, 50));

    const stp_bandit_set_state set = stp_bandit_get_set(job.bandit.get());

    EXPECT_EQ(0U, set.n_blocks);
    EXPECT_EQ(1, set.gain);
    EXPECT_EQ(0, set.gain_low);
    EXPECT_EQ(INFINITY, set.gain_high);
}

} // namespace
