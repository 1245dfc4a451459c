// What a learner makes of a job's calls, changes and times, told note by note.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bandit_job.h"
#include "core/learner.h"

namespace
{

using bandit_job::Costs;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

struct Close {
    void operator()(stp_learner *learner) const
    {
        stp_learner_close(learner);
    }
};

// A job whose ranks follow a wish at once, and hear of its calls.
class Learner : public testing::Test
{
  protected:
    void Open(stp_learn_objective objective)
    {
        stp_learner_rules rules{};
        stp_learner *learner = nullptr;
        stp_error err{};

        rules.bandit = stp_bandit_rules_default(STP_STRATEGY_HALVING);
        rules.bandit.budget = 1;
        rules.bandit.retest_calls = 0;
        rules.bandit.n_arms = 1;
        rules.bandit.arms[0] = {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0};
        rules.objective = objective;
        ASSERT_EQ(STP_OK,
                  stp_learner_open(
                      &rules,
                      [](void *self, const stp_learn_event *event) {
                          static_cast<Learner *>(self)->events_.push_back(
                              *event);
                      },
                      this, &learner, &err))
            << err.text;
        learner_.reset(learner);
    }

    void AddKey(unsigned key)
    {
        Costs costs;
        stp_cost_view view = costs.View();
        stp_learner_add_key(learner_.get(), key, &view, 0);
    }

    void Note(stp_note_kind kind, unsigned key, unsigned arm, uint64_t t_ns)
    {
        stp_note note{};
        note.kind = kind;
        note.key = static_cast<uint8_t>(key);
        note.arm = static_cast<uint8_t>(arm);
        note.t_ns = t_ns;
        stp_learner_note(learner_.get(), &note);
    }

    void Took(unsigned key, unsigned arm, double us)
    {
        stp_note note{};
        note.kind = STP_NOTE_TOOK;
        note.key = static_cast<uint8_t>(key);
        note.arm = static_cast<uint8_t>(arm);
        note.us = us;
        stp_learner_note(learner_.get(), &note);
    }

    // What is wanted next comes into force.
    void Follow()
    {
        stp_bandit_want want{};
        stp_bandit_arm arm{};

        if (!stp_learner_wants(learner_.get(), &want, &arm))
            return;
        wants_.push_back(want);
        arm_[want.key] = want.arm;
        left_[want.key] = want.n_calls;
        Note(STP_NOTE_BEGAN, want.key, want.arm, 0);
    }

    // A call, with what runs on the GPU until the next.
    void Call(unsigned key, double us)
    {
        Note(STP_NOTE_CALL, key, 0, now_ns_);
        now_ns_ += static_cast<uint64_t>(us * 1e3);
        if (left_[key] > 0 && --left_[key] == 0) {
            arm_[key] = 0; // all ranks go back by themselves
            Note(STP_NOTE_BEGAN, key, 0, 0);
        }
        if (follows_)
            Follow();
    }

    // Steps of 'keys', each of which takes 'us' by what is in force.
    using Time = std::function<double(unsigned key, unsigned arm)>;
    void Steps(size_t n, const std::vector<unsigned> &keys, const Time &time)
    {
        for (size_t s = 0; s < n; s++)
            for (unsigned key : keys) {
                const unsigned arm = arm_[key];
                const double us = time(key, arm);
                Call(key, us);
                if (gpu_)
                    Took(key, arm, gpu_(key, arm));
            }
    }

    size_t N(stp_learn_kind kind, int key = -2) const
    {
        size_t n = 0;
        for (const stp_learn_event &e : events_)
            n += e.kind == kind && (key == -2 || e.key == key);
        return n;
    }

    std::set<double> Values(stp_learn_kind kind, int key, unsigned arm) const
    {
        std::set<double> values;
        for (const stp_learn_event &e : events_)
            if (e.kind == kind && e.key == key && e.arm == arm)
                values.insert(e.value);
        return values;
    }

    std::unique_ptr<stp_learner, Close> learner_;
    std::vector<stp_learn_event> events_;
    std::vector<stp_bandit_want> wants_;
    unsigned arm_[STP_BANDIT_KEYS]{};
    unsigned left_[STP_BANDIT_KEYS]{};
    Time gpu_; // NULL: the GPU's times are not heard of
    bool follows_ = true;
    uint64_t now_ns_ = 1000000;
};

// The arm is a tenth faster, or as much slower.
double Faster(unsigned, unsigned arm)
{
    return arm == 0 ? 100 : 90;
}
double Slower(unsigned, unsigned arm)
{
    return arm == 0 ? 100 : 110;
}

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

// ---- GPU times propose, steps confirm ----

class LearnerByBoth : public Learner
{
  protected:
    LearnerByBoth()
    {
        gpu_ = Faster;
    }
    void SetUp() override
    {
        Open(STP_LEARN_AUTO);
        AddKey(0), AddKey(1);
    }
};

TEST_F(LearnerByBoth, ShorterStepsConfirmAnArm)
{
    Steps(2000, {0, 1}, Faster);

    for (unsigned k = 0; k < 2; k++) {
        EXPECT_EQ(1u, N(STP_LEARN_CONFIRMED, static_cast<int>(k)));
        EXPECT_EQ(1u, N(STP_LEARN_SETTLED, static_cast<int>(k)));
        EXPECT_EQ(1u, arm_[k]);
        // each block is told, and they take turns
        unsigned before = 0;
        size_t n_blocks = 0;
        for (const stp_learn_event &e : events_)
            if (e.kind == STP_LEARN_BLOCK && e.key == static_cast<int>(k)) {
                EXPECT_NE(before, e.arm) << "block " << n_blocks;
                before = e.arm;
                n_blocks++;
            }
        EXPECT_LE(2u * STP_CONFIRM_FIRST - 1, n_blocks);
        EXPECT_TRUE(stp_learner_key(learner_.get(), k).is_settled);
    }
    EXPECT_FALSE(stp_learner_is_exploring(learner_.get()));
    EXPECT_FALSE(stp_learner_wants_gpu(learner_.get()));
}

TEST_F(LearnerByBoth, LongerStepsTakeItAway)
{
    Steps(2000, {0, 1}, Slower);

    for (unsigned k = 0; k < 2; k++) {
        EXPECT_EQ(1u, N(STP_LEARN_LONGER, static_cast<int>(k)));
        EXPECT_EQ(0u, arm_[k]);
        EXPECT_EQ(0u, stp_learner_key(learner_.get(), k).best);
    }
    EXPECT_EQ(0u, N(STP_LEARN_CONFIRMED));
    EXPECT_FALSE(stp_learner_is_exploring(learner_.get()));
}

TEST_F(LearnerByBoth, StepsThatVaryTooMuchKeepNcclsChoice)
{
    unsigned i = 0;

    Steps(30000, {0, 1}, [&i](unsigned key, unsigned) {
        i = i * 1664525 + 1013904223;
        return key == 1 ? 20000 + (i >> 18) : 100;
    });

    EXPECT_EQ(2u, N(STP_LEARN_NOISY));
    EXPECT_EQ(0u, N(STP_LEARN_CONFIRMED));
    for (const stp_learn_event &e : events_)
        if (e.kind == STP_LEARN_NOISY) {
            EXPECT_LT(5120, e.value); // steps of each arm: more than it takes
        }
    EXPECT_EQ(0u, arm_[0]);
    EXPECT_EQ(0u, arm_[1]);
}

TEST_F(LearnerByBoth, WithoutStepsNcclsChoiceStaysAfterAWhile)
{
    unsigned i = 0;

    for (int n = 0; n < 50000; n++) {
        i = i * 1664525 + 1013904223;
        Steps(1, {(i >> 24) % 10}, Faster); // 0, 1, and others
    }

    EXPECT_EQ(2u, N(STP_LEARN_NOISY));
    for (const stp_learn_event &e : events_)
        if (e.kind == STP_LEARN_NOISY) {
            EXPECT_EQ(0, e.value);
        }
    EXPECT_EQ(0u, arm_[0]);
    EXPECT_EQ(0u, arm_[1]);
    EXPECT_FALSE(stp_learner_is_exploring(learner_.get()));
}

TEST_F(LearnerByBoth, AKeyThatIsGoneWhileItIsConfirmedBlocksNoOther)
{
    const auto confirms = [this] { // no trial on the GPU, which has an end
        return !wants_.empty() && wants_.back().is_trial &&
               wants_.back().n_calls == 0;
    };
    for (int i = 0; i < 2000 && !confirms(); i++)
        Steps(1, {0, 1}, Faster);
    ASSERT_TRUE(confirms());
    const unsigned gone = wants_.back().key;
    ASSERT_EQ(1u, arm_[gone]);
    AddKey(2), AddKey(3);

    Steps(2500, {2, 3, 1 - gone}, Faster);

    EXPECT_EQ(0u, arm_[gone]);
    for (int k : {2, 3, static_cast<int>(1 - gone)})
        EXPECT_EQ(1u, N(STP_LEARN_SETTLED, k)) << k;
}

TEST_F(LearnerByBoth, AnInterruptedConfirmationGoesOn)
{
    for (int phase = 0; phase < 30; phase++) {
        Steps(60, {0, 1}, Faster);
        Steps(20, {0, 0, 1, 1, 1}, Faster);
        if (N(STP_LEARN_CONFIRMED) == 0) {
            EXPECT_EQ(0u, arm_[0] + arm_[1]); // not while steps are others
        }
    }

    EXPECT_EQ(1u, N(STP_LEARN_CONFIRMED, 0));
    EXPECT_EQ(1u, N(STP_LEARN_CONFIRMED, 1));
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

TEST_F(Learner, NothingIsWantedWhileAWishIsOnItsWay)
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

// ---- a file ----

TEST_F(Learner, LinesOfAFileAreOfTheArmInForce)
{
    Open(STP_LEARN_FILE);
    AddKey(0);

    for (int i = 0; i < 400; i++) {
        Call(0, 1000);
        stp_learner_reward(learner_.get(), 0, arm_[0] == 0 ? 1.0 : 0.9);
        Took(0, 0, 55); // not asked for
    }

    EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 0), ElementsAre(1.0));
    EXPECT_THAT(Values(STP_LEARN_REWARD, 0, 1), ElementsAre(0.9));
    EXPECT_EQ(1u, N(STP_LEARN_SETTLED, 0));
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
