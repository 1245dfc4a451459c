// A job that learns while it runs, its host ahead of its GPU.
#include <gmock/gmock.h>

#include <string>

#include "core/learn/learner_job.h"
#include "support/with_param.h"

namespace
{

using bandit_job::Arm;
using bandit_job::kOwn;
using bandit_job::kTreeLl128;
using learner_job::CallUs;
using learner_job::Job;
using learner_job::Saves;

// ---- jobs that repeat ----

TEST_F(Job, WhoseCallsAreAllAlikeSettlesWithinTwoThousand)
{
    Open();
    Steps({0}, 2000, Saves(5));

    EXPECT_EQ(kTreeLl128, InForce());
    ASSERT_EQ(1u, Events(STP_LEARN_SETTLED).size());
    EXPECT_NEAR(100. / 95, Events(STP_LEARN_SETTLED)[0].gain, .003);
    EXPECT_LT(Events(STP_LEARN_SETTLED)[0].gain_low, 100. / 95);
    EXPECT_GT(Events(STP_LEARN_SETTLED)[0].gain_high, 100. / 95);
    Steps({0}, 1000, Saves(5));
    EXPECT_EQ(8u, Events(STP_LEARN_SET).size());
    ASSERT_EQ(1u, Events(STP_LEARN_CONFIRMED).size());
    EXPECT_EQ(8, Events(STP_LEARN_CONFIRMED)[0].value);
    EXPECT_NEAR(100. / 95, Events(STP_LEARN_CONFIRMED)[0].gain, .003);
}

// A GPU at its power limit: what an arm gains is mostly gone when it has run
// for some 40 ms.
TEST_F(Job, ComparesAllThatItLearnedInWindowsInWhichClocksSettle)
{
    double heat = 0;

    confirm_us_ = 200000;
    Open();
    Steps({0}, 160000, [&heat](unsigned key, const Arm &arm) {
        heat += ((arm == kTreeLl128) - heat) / 400;
        return Saves(5)(key, arm) + 4 * heat;
    });

    EXPECT_EQ(kTreeLl128, InForce());
    ASSERT_EQ(1u, Events(STP_LEARN_SETTLED).size());
    EXPECT_GT(Events(STP_LEARN_SETTLED)[0].gain, 1.04);
    ASSERT_EQ(1u, Events(STP_LEARN_CONFIRMED).size());
    EXPECT_NEAR(100. / 99, Events(STP_LEARN_CONFIRMED)[0].gain, .001);
}

// The arm is faster until it has settled.
TEST_F(Job, DropsWhatIsNoLongerFaster)
{
    Open();
    for (int i = 0; i < 6000; i++)
        Call(0, Saves(Events(STP_LEARN_SETTLED).empty() ? 5 : -5));

    ASSERT_EQ(1u, Events(STP_LEARN_DROPPED).size());
    EXPECT_NEAR(100. / 105, Events(STP_LEARN_DROPPED)[0].gain, .01);
    EXPECT_TRUE(Events(STP_LEARN_CONFIRMED).empty());
    EXPECT_EQ(2u, Events(STP_LEARN_SETTLED).size());
    EXPECT_EQ(kOwn, InForce());
}

// The arm that wins in the first steps loses in those after them.
TEST_F(Job, FindsWhatIsBestInTheStepsOfNow)
{
    Open();
    Steps({0, 0, 1}, 1500, [](unsigned key, const Arm &arm) {
        return key == 0 ? Saves(5)(key, arm) : 100;
    });
    EXPECT_EQ(kTreeLl128, InForce(0));
    events_.clear();
    Steps({2, 0, 1, 2}, 6000, [](unsigned key, const Arm &arm) {
        return key == 0 ? Saves(-5)(key, arm) : 100;
    });

    EXPECT_EQ(kOwn, InForce(0));
    for (const stp_learn_event &e : Events(STP_LEARN_CONFIRMED))
        EXPECT_GE(e.gain, 1);
}

struct AheadCase {
    size_t ahead;
    unsigned think_every;
};

using Ahead = WithParam<Job, AheadCase>;

TEST_P(Ahead, OfItsGpuIsNoObstacle)
{
    ahead_ = GetParam().ahead;
    think_every_ = GetParam().think_every;
    Open();
    Steps({0, 1, 1}, 4000, [](unsigned key, const Arm &arm) {
        return key == 0 ? 300 : Saves(5)(key, arm);
    });

    EXPECT_EQ(kOwn, InForce(0));
    EXPECT_EQ(kTreeLl128, InForce(1));
    EXPECT_EQ(2u, Events(STP_LEARN_SETTLED).size());
}

INSTANTIATE_TEST_SUITE_P(Hosts, Ahead,
                         testing::Values(AheadCase{0, 1}, AheadCase{0, 8},
                                         AheadCase{10, 100}, AheadCase{172, 48},
                                         AheadCase{1024, 200}));

TEST_F(Job, WithAPauseInEachStepHasWindowsOfWholeSteps)
{
    unsigned n = 0;

    Open();
    Steps({0}, 4000, [&n](unsigned key, const Arm &arm) {
        return Saves(5)(key, arm) + (++n % 24 == 0 ? 3000 : 0);
    });

    ASSERT_EQ(1u, Events(STP_LEARN_WINDOW).size());
    EXPECT_EQ(24, Events(STP_LEARN_WINDOW)[0].value);
    EXPECT_EQ(kTreeLl128, InForce());
}

// ---- jobs that do not ----

TEST_F(Job, FindsItsWindowAgainWhenItsStepsChange)
{
    Open();
    Steps({0, 0, 1}, 400, Saves(5));
    Steps({2, 1, 0, 2}, 6000, Saves(5));

    ASSERT_EQ(2u, Events(STP_LEARN_WINDOW).size());
    EXPECT_EQ(0, std::fmod(Events(STP_LEARN_WINDOW)[1].value, 4));
    for (unsigned key : {0u, 1u, 2u})
        EXPECT_EQ(kTreeLl128, InForce(key)) << key;
}

TEST_F(Job, ComparesNoUnequalWork)
{
    Open();
    // Every hundredth step is another one, ten times as long.
    for (int i = 0; i < 600; i++) {
        Steps({0, 1}, 99, Saves(0));
        Steps({0, 2, 2, 2}, 1, [](unsigned, const Arm &) { return 500.; });
    }

    for (const stp_learn_event &block : Events(STP_LEARN_BLOCK))
        if (block.gain > 0) {
            EXPECT_NEAR(1, block.gain, .06);
        }
    EXPECT_EQ(kOwn, InForce());
}

TEST_F(Job, WithoutTimesTriesNothingAndLooksEverLessOften)
{
    unsigned n_sampling = 0;

    has_times_ = false;
    Open();
    for (int i = 0; i < 100000; i++) {
        Call(0, Saves(5));
        n_sampling += stp_learner_is_sampling(learner_.get());
    }

    EXPECT_EQ(0u, n_trials_);
    // those after the first calls, and of 11 samples with the lead before each
    EXPECT_EQ(63u + 11 * (256 + STP_TRIAL_LEAD), n_sampling);
}

TEST_F(Job, WhoseTimesComeAfterLongLearnsByThem)
{
    has_times_ = false;
    Open();
    Steps({0}, 4000, Saves(5));
    has_times_ = true;
    Steps({0}, 60000, Saves(5));

    EXPECT_EQ(kTreeLl128, InForce());
}

// Calls of the second message exceed the keys that a learner has.
TEST_F(Job, WithCallsOfNoKeyLearnsOfTheOthers)
{
    Open();
    Steps({0, STP_BANDIT_KEYS}, 20000, Saves(5));

    EXPECT_EQ(kTreeLl128, InForce());
}

// ---- by an application's times ----

TEST_F(Job, WithTimesOfItsOwnLearnsByThem)
{
    Open(STP_LEARN_FILE);
    think_every_ = 4;
    for (int i = 0; i < 400; i++) {
        Call(0, Saves(5));
        stp_learner_reward(learner_.get(), 0, InForce() == kTreeLl128 ? .9 : 1);
    }

    EXPECT_EQ(kTreeLl128, InForce());
    ASSERT_FALSE(Events(STP_LEARN_SETTLED).empty());
    EXPECT_NEAR(1 / .9, Events(STP_LEARN_SETTLED)[0].gain, 1e-6);
}

TEST_F(Job, WithTimesOfTheGpuLearnsNothingByItsOwn)
{
    Open();
    Call(0, Saves(5));
    stp_learner_reward(learner_.get(), 0, 1);

    EXPECT_TRUE(Events(STP_LEARN_REWARD).empty());
}

TEST(Objectives, GoBothWays)
{
    EXPECT_STREQ("gpu", stp_learn_objective_name(STP_LEARN_GPU));
    EXPECT_EQ(STP_LEARN_FILE, stp_learn_objective_from_name("file,", 4));
    EXPECT_EQ(-1, stp_learn_objective_from_name("step", 4));
    for (int i = 0; i < STP_N_LEARN_OBJECTIVES; i++) {
        const std::string name =
            stp_learn_objective_name(stp_learn_objective(i));
        EXPECT_EQ(i, stp_learn_objective_from_name(name.data(), name.size()));
    }
}

TEST(Learner, IsNotOpenedByRulesOutOfRange)
{
    stp_learner_rules rules{};
    stp_learner *learner = nullptr;
    stp_error err{};

    rules.bandit.budget = 2;
    EXPECT_EQ(STP_ERR_RANGE, stp_learner_open(&rules, nullptr, nullptr, nullptr,
                                              &learner, &err));
    EXPECT_STREQ("budget is 2, expected 0 to 1", err.text);
    EXPECT_EQ(nullptr, learner);
    stp_learner_close(learner);
}

using BusyJob = WithParam<Job, double>;

// A job that does nothing else, as a benchmark, may gain all of its time.
TEST_P(BusyJob, IsBoundOnlyIfItHasTimeWithoutCollectives)
{
    const double us = GetParam(); // of each 100

    busy_us_ = [us](unsigned, const Arm &) { return us; };
    ASSERT_NO_FATAL_FAILURE(Open());
    Steps({0, 1}, 400, Saves(0));

    EXPECT_FALSE(events_.empty());
    EXPECT_EQ(us < 100, !Events(STP_LEARN_STEP).empty());
    for (const stp_learn_event &event : events_)
        EXPECT_TRUE(std::isfinite(event.gain)) << event.kind;
}

INSTANTIATE_TEST_SUITE_P(Share, BusyJob, testing::Values(60., 150., 250.));

} // namespace
