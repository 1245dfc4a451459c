// Which of several good arms leads, and what its tests begin with.
#include <gmock/gmock.h>

#include "core/learn/bandit_known.h"
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
    SetWindow(job.bandit, {3, 7}, kWindow);
    EXPECT_EQ(kTreeLl128, job.Settle(1));
    EXPECT_EQ(kTreeLl128, job.Settle(0));
    job.together = -60;
    EXPECT_TRUE(job.Confirm().is_dropped);

    EXPECT_EQ(0U, job.State(0).best);
    EXPECT_FALSE(job.State(0).is_settled);
    EXPECT_NE(0U, job.State(1).best);
}

// ---- trials that share windows ----

constexpr unsigned kKeys = 3;

// Keys of which each has one arm, with a look at it of gain .01.
Bandit Looked(unsigned n_calls)
{
    stp_bandit_rules rules = TwoArms(0, 0);
    rules.n_arms = 1;
    Bandit bandit = Open(rules);
    stp_bandit_want want{};

    for (unsigned key = 0; key < kKeys; key++)
        AddKey(bandit, key);
    SetWindow(bandit, {n_calls / 2, n_calls / 4, n_calls / 5}, n_calls);
    stp_bandit_set_noise(bandit.get(), .01);
    for (unsigned key = 0; key < kKeys; key++) {
        EXPECT_TRUE(Wants(bandit, 10000, &want));
        EXPECT_EQ(key, want.key);
        EXPECT_EQ(1u, want.n_blocks);
        EXPECT_EQ(0u, want.n_mates);
        stp_bandit_began(bandit.get(), &want);
    }
    EXPECT_FALSE(Wants(bandit, 10000, &want)) << "all are under way";
    for (unsigned key = 0; key < kKeys; key++) {
        stp_block block = Block(1, .01);
        block.trial.key = key;
        Give(bandit, block, .01);
    }
    return bandit;
}

TEST(HalvingRound, IsOfArmsThatNeedMoreThanALook)
{
    const Bandit bandit = Looked(20);
    stp_bandit_want want{};

    ASSERT_TRUE(Wants(bandit, 10000, &want));
    EXPECT_EQ(0u, want.key);
    EXPECT_EQ(unsigned(STP_TRIAL_BLOCKS), want.n_blocks);
    ASSERT_EQ(kKeys - 1, want.n_mates);
    for (unsigned m = 0; m < want.n_mates; m++) {
        EXPECT_EQ(m + 1, want.mates[m].key);
        EXPECT_EQ(1u, want.mates[m].arm);
    }
    stp_bandit_began(bandit.get(), &want);
    EXPECT_FALSE(Wants(bandit, 10000, &want)) << "all are under way";

    // times of the second key's never arrive: its arm may not have run
    for (unsigned i = 0; i < STP_TRIAL_BLOCKS; i++) {
        stp_block block = Block(1, 0, i + 1 == STP_TRIAL_BLOCKS);
        block.trial.key = 1;
        block.is_complete = false;
        Give(bandit, block, .01);
    }
    ASSERT_TRUE(Wants(bandit, 10000, &want));
    EXPECT_EQ(1u, want.key);
    EXPECT_EQ(4u, want.n_blocks);
    EXPECT_EQ(0u, want.n_mates);
}

TEST(HalvingRound, HasWindowsThatTheHistoryHolds)
{
    for (unsigned n_calls : {0u + STP_SHARED_MAX, 20u + STP_SHARED_MAX}) {
        const Bandit bandit = Looked(n_calls);
        stp_bandit_want want{};

        ASSERT_TRUE(Wants(bandit, 100000, &want));
        EXPECT_EQ(n_calls > STP_SHARED_MAX ? 0 : kKeys - 1, want.n_mates);
    }
}

} // namespace
