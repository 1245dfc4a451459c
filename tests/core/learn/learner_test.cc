// What a learner makes of a job's calls, changes and times, told note by note.
#include <deque>
#include <string>

#include "core/learn/learner_job.h"

namespace
{

using namespace learner_job;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// ---- steps ----

TEST_F(Learner, AStepInWhichTheArmChangedIsNobodys)
{
    Open(STP_LEARN_STEP);
    AddKey(0), AddKey(1);

    Steps(300, {0, 1, 1}, Faster);

    // three calls of 100, of which the arm saves 10 each
    EXPECT_LE(1u, N(STP_LEARN_TRIAL, 0));
    EXPECT_LE(1u, N(STP_LEARN_TRIAL, 1));
    EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 1),
                testing::Each(testing::AnyOf(290.0, 270.0)));
    EXPECT_THAT(Values(STP_LEARN_REWARD, 1, 1),
                testing::Each(testing::AnyOf(280.0, 270.0)));
    EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 0));
    EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 1));
}

TEST_F(Learner, OneKeyIsOnTrialAtATime)
{
    Open(STP_LEARN_STEP);
    for (unsigned k = 0; k < 4; k++)
        AddKey(k);
    std::set<int> on_trial;

    Steps(500, {0, 1, 2, 3}, Faster);

    for (const stp_learn_event &e : events_) {
        if (e.kind == STP_LEARN_TRIAL)
            on_trial.insert(e.key);
        if (e.kind == STP_LEARN_BACK)
            on_trial.erase(e.key);
        ASSERT_GE(1u, on_trial.size());
        if (e.kind == STP_LEARN_REWARD && !on_trial.empty()) {
            ASSERT_EQ(*on_trial.begin(), e.key);
        }
    }
    for (int k = 0; k < 4; k++)
        EXPECT_EQ(1u, N(STP_LEARN_SETTLED, k));
}

TEST_F(Learner, EvaluationsAreNoRewards)
{
    Open(STP_LEARN_STEP);
    AddKey(0), AddKey(1), AddKey(2);

    for (int phase = 0; phase < 20; phase++) {
        Steps(53 + static_cast<size_t>(phase), {0, 1}, Faster);
        Steps(9, {2, 1, 1}, [](unsigned, unsigned) { return 7.0; });
    }

    EXPECT_EQ(0u, N(STP_LEARN_REWARD, 2));
    for (const stp_learn_event &e : events_)
        if (e.kind == STP_LEARN_REWARD) {
            EXPECT_LE(180, e.value);
            EXPECT_GE(200, e.value);
        }
    EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 0));
    EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 1));
}

// ---- steps that do not come ----

TEST_F(Learner, ATrialOfWhichNothingIsHeardGoesBack)
{
    Open(STP_LEARN_STEP);
    AddKey(0), AddKey(1);
    for (int i = 0; i < 400 && arm_[0] == 0; i++)
        Steps(1, {0, 1}, Faster);
    ASSERT_EQ(1u, arm_[0]);

    for (unsigned i = 0; i < 40; i++) // no step repeats
        Steps(1, std::vector<unsigned>(i % 7 + 1, i % 3 == 0), Faster);

    EXPECT_EQ(0u, arm_[0]);
    Steps(300, {0, 1}, Faster); // and is tried again when they do
    EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 0));
    EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 1));
}

TEST_F(Learner, AKeyThatIsGoneDuringItsTrialBlocksNoOther)
{
    for (stp_learn_objective objective : {STP_LEARN_STEP, STP_LEARN_GPU}) {
        events_.clear();
        std::fill(std::begin(arm_), std::end(arm_), 0u);
        std::fill(std::begin(left_), std::end(left_), 0u);
        gpu_ = objective == STP_LEARN_GPU ? Faster : Time();
        Open(objective);
        AddKey(0);
        for (int i = 0; i < 400 && arm_[0] == 0; i++)
            Steps(1, {0}, Faster);
        ASSERT_EQ(1u, arm_[0]);
        AddKey(1), AddKey(2);

        Steps(3000, {1, 2}, Faster);

        EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 1));
        EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 2));
        EXPECT_EQ(0u, arm_[0]);
    }
}

// ---- GPU times ----

TEST_F(Learner, TimesThatComeLateAreOfTheirArm)
{
    std::vector<std::pair<unsigned, double>> late;
    Open(STP_LEARN_GPU);
    AddKey(0);

    for (int i = 0; i < 3000; i++) {
        late.push_back({arm_[0], Faster(0, arm_[0])});
        Call(0, 100);
        if (late.size() > 60) { // the trial is long over
            Took(0, late.front().first, late.front().second);
            late.erase(late.begin());
        }
    }

    EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 0), ElementsAre(100.0));
    EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 1), ElementsAre(90.0));
    EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 0));
    EXPECT_EQ(1u, arm_[0]);
}

// The cost table says that the arm takes 1.2 times as long as 100 us, of which
// there must be more than 20 us in one percent of the time.
TEST_F(Learner, ATrialWaitsForItsShareOfTheTimeOnTheGpu)
{
    const struct {
        const char *name;
        uint64_t (*ends_us)(uint64_t i); // the i-th call on the GPU
        size_t begins;                   // after so many
    } cases[] = {
        {"in order", [](uint64_t i) { return 100 * i; }, 22},
        {"two by two", [](uint64_t i) { return 100 * (i ^ 1); }, 23},
        {"another clock", // from the 12th on
         [](uint64_t i) { return 100 * i + (i < 12 ? 5000000 : 0); }, 23},
    };

    for (const auto &c : cases) {
        size_t n = 0;
        wants_.clear();
        std::fill(std::begin(arm_), std::end(arm_), 0u);
        budget_ = 0.01;
        Open(STP_LEARN_GPU);
        AddKey(0);
        while (wants_.empty() && n < 1000) {
            Note(STP_NOTE_CALL, 0, 0, 0);
            Note(STP_NOTE_RAN, 0, 0, 1000000000 + 1000 * c.ends_us(n++));
            Took(0, 0, 100);
            Follow();
        }
        EXPECT_EQ(c.begins, n) << c.name;
    }
}

TEST_F(Learner, TrialsSayHowManyCallsTheyNeedWhereTimesAreOfCalls)
{
    for (stp_learn_objective objective : {STP_LEARN_GPU, STP_LEARN_STEP}) {
        wants_.clear();
        std::fill(std::begin(arm_), std::end(arm_), 0u);
        gpu_ = Faster;
        Open(objective);
        AddKey(0), AddKey(1);
        Steps(200, {0, 1}, Faster);
        ASSERT_THAT(wants_,
                    Contains(testing::Field(&stp_bandit_want::is_trial, true)));
        for (const stp_bandit_want &want : wants_)
            if (want.is_trial) {
                EXPECT_EQ(objective == STP_LEARN_GPU, want.n_calls > 0);
            }
    }
}

TEST_F(Learner, NothingIsWantedWhileAProposalIsPending)
{
    stp_bandit_want want{};
    stp_bandit_arm arm{};
    Open(STP_LEARN_GPU);
    AddKey(0);
    follows_ = false;
    gpu_ = Faster;
    Steps(20, {0}, Faster);

    ASSERT_TRUE(stp_learner_wants(learner_.get(), &want, &arm));
    for (int i = 0; i < 100; i++) {
        Steps(1, {0}, Faster);
        EXPECT_FALSE(stp_learner_wants(learner_.get(), &want, &arm));
    }
    EXPECT_TRUE(stp_learner_is_exploring(learner_.get()));
}

// Ranks note times only while the learner explores.
TEST_F(Learner, RetestsGoOnWhereTimesArriveOnlyWhileItExplores)
{
    for (stp_learn_objective objective : {STP_LEARN_GPU, STP_LEARN_STEP}) {
        SCOPED_TRACE(stp_learn_objective_name(objective));
        retest_calls_ = 100;
        events_.clear();
        Open(objective);
        AddKey(0);
        size_t n_quiet = 0;
        for (size_t s = 0; s < 3000; s++) {
            if (stp_learner_is_exploring(learner_.get())) {
                gpu_ = objective == STP_LEARN_GPU ? Slower : Time();
                Steps(1, {0}, Slower);
                continue;
            }
            n_quiet++;
            Note(STP_NOTE_CALL, 0, 0, 0);
            now_ns_ += 100000;
            Follow();
        }

        EXPECT_EQ(1U, N(STP_LEARN_SETTLED)) << "and found nothing else";
        EXPECT_GT(N(STP_LEARN_TRIAL), 15U);
        EXPECT_GT(n_quiet, 1500U);
    }
}

TEST_F(Learner, AShareOfEpochsThatExploresNeverEnds)
{
    for (double epsilon : {0.0, 0.1}) {
        SCOPED_TRACE(epsilon);
        Open(STP_LEARN_GPU, STP_STRATEGY_EPSILON, epsilon);
        AddKey(0);
        gpu_ = Faster;

        Steps(100, {0}, Faster);

        EXPECT_TRUE(stp_learner_key(learner_.get(), 0).is_settled);
        EXPECT_EQ(epsilon > 0, stp_learner_is_exploring(learner_.get()));
    }
}

// ---- a file ----

// Calls of a key, each with a line of what its arm takes, 'late' calls later.
TEST_F(Learner, LinesOfAFileAreOfTheCallsInTheirOrder)
{
    for (size_t late : {0, 1, 7, 100}) {
        SCOPED_TRACE(late);
        std::deque<double> unwritten;
        Open(STP_LEARN_FILE);
        AddKey(0);
        arm_[0] = 0;
        events_.clear();

        for (int i = 0; i < 4000; i++) {
            unwritten.push_back(arm_[0] == 0 ? 1.0 : 0.9);
            Call(0, 1000);
            Took(0, 0, 55); // not asked for
            if (unwritten.size() <= late)
                continue;
            stp_learner_reward(learner_.get(), 0, unwritten.front());
            unwritten.pop_front();
        }

        EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 0), ElementsAre(1.0));
        EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 1), ElementsAre(0.9));
        EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 0));
        EXPECT_EQ(1u, stp_learner_key(learner_.get(), 0).best);
    }
}

struct LinesCase {
    const char *name;
    int calls_a_line, lines_a_call;
};

TEST_F(Learner, LinesOfAFileThatAreSomeOrManyAreOfTheArmInForce)
{
    const LinesCase cases[] = {{"every tenth call", 10, 1},
                               {"of four ranks", 1, 4}};

    for (const LinesCase &c : cases) {
        SCOPED_TRACE(c.name);
        std::vector<unsigned> in_force, got;
        Open(STP_LEARN_FILE);
        AddKey(0);
        arm_[0] = 0;
        events_.clear();

        for (int i = 0; i < 4000; i++) {
            Call(0, 1000);
            for (int j = 0; i % c.calls_a_line == 0 && j < c.lines_a_call;
                 j++) {
                in_force.push_back(arm_[0]);
                stp_learner_reward(learner_.get(), 0, 1.0);
            }
        }

        for (const stp_learn_event &e : events_)
            if (e.kind == STP_LEARN_REWARD)
                got.push_back(e.arm);
        EXPECT_THAT(got, Contains(1u));
        // known by then
        in_force.erase(in_force.begin(), in_force.begin() + 40);
        got.erase(got.begin(), got.begin() + 40);
        EXPECT_EQ(in_force, got);
    }
}

TEST_F(Learner, ToEpsilonGreedyLinesAreOfTheLastArm)
{
    Open(STP_LEARN_FILE, STP_STRATEGY_EPSILON);
    AddKey(0);

    for (int i = 0; i < 20; i++) {
        Call(0, 1000);
        stp_learner_reward(learner_.get(), 0, arm_[0] == 0 ? 1.0 : 0.9);
    }

    EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 0), ElementsAre(1.0));
    EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 1), Contains(0.9));
}

TEST_F(Learner, OnlyAFileHasLines)
{
    Open(STP_LEARN_STEP);
    AddKey(0);

    Call(0, 1000);
    stp_learner_reward(learner_.get(), 0, 1.0);

    EXPECT_THAT(events_, IsEmpty());
}

} // namespace
