// Which of several good arms leads, and what its tests begin with.
#include <gmock/gmock.h>

#include <cmath>

#include "core/learn/bandit_trials.h"

namespace
{

using namespace bandit_job;

// Two arms save time, all others lose some.
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

} // namespace
