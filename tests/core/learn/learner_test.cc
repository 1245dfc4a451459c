// A job that learns while it runs, its host ahead of its GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "core/learn/learner.h"
}

#include "core/learn/bandit_job.h"
#include "core/learn/learner_notes.h"
#include "core/learn/noise.h"

namespace
{

using bandit_job::Arm;
using bandit_job::Costs;
using bandit_job::kOwn;
using bandit_job::kTreeLl128;
using testing::ElementsAre;

struct Close {
    void operator()(stp_learner *learner) const
    {
        stp_learner_close(learner);
    }
    void operator()(stp_history *history) const
    {
        stp_history_free(history);
    }
};

// GPU time of a call of a key with an arm, with the compute before the next
// call, in us.
using CallUs = std::function<double(unsigned key, const Arm &arm)>;

CallUs Saves(double us)
{
    return [us](unsigned, const Arm &arm) {
        return arm == kTreeLl128 ? 100 - us : arm == kOwn ? 100. : 102.;
    };
}

// One rank, that takes proposals as all ranks do: at every fourth call, but
// for trials.
class Job : public testing::Test
{
  protected:
    void Open(stp_learn_objective objective = STP_LEARN_GPU, double budget = 1)
    {
        stp_learner_rules rules{};
        stp_learner *learner = nullptr;
        stp_error err{};

        rules.bandit = stp_bandit_rules_default(objective == STP_LEARN_FILE
                                                    ? STP_STRATEGY_EPSILON
                                                    : STP_STRATEGY_HALVING);
        rules.bandit.epsilon = 0;
        rules.bandit.budget = budget;
        rules.bandit.confirm_us = confirm_us_;
        rules.objective = objective;
        history_.reset(stp_history_new());
        ASSERT_EQ(STP_OK,
                  stp_learner_open(
                      &rules, history_.get(),
                      [](void *self, const stp_learn_event *event) {
                          static_cast<Job *>(self)->events_.push_back(*event);
                      },
                      this, &learner, &err))
            << err.text;
        learner_.reset(learner);
    }

    void Note(stp_note_kind kind, unsigned key, unsigned arm, uint64_t call,
              uint32_t n_calls = 0, uint8_t rest = 0, uint64_t t_ns = 0)
    {
        const stp_note note =
            learner_notes::Make(kind, key, arm, call, n_calls, rest, t_ns);

        stp_learner_note(learner_.get(), &note);
    }

    // ---- the rank ----

    void TakeProposal()
    {
        const stp_proposal &p = proposal_;

        has_proposal_ = false;
        if (p.kind == STP_PROPOSE_WINDOW) {
            window_ = p.n_calls;
            Note(STP_NOTE_WINDOW, 0, 0, n_calls_, window_);
        } else if (p.kind == STP_PROPOSE_TRIAL) {
            n_trials_++;
            BeginTrial(p.key, p.index);
        } else if (p.kind == STP_PROPOSE_CONFIRM) {
            BeginTrial(STP_BANDIT_SET, 0);
        } else {
            in_force_[p.key] = p.index;
            epoch_ = p.is_settled ? STP_EPOCH_SETTLED : STP_EPOCH_HALVING;
            Note(STP_NOTE_SET, p.key, p.index, n_calls_);
        }
    }

    void BeginTrial(unsigned key, unsigned arm)
    {
        trial_ = {};
        trial_.key = key;
        trial_.arm = arm;
        trial_.n_blocks = proposal_.n_blocks;
        trial_.is_twofold = key == STP_BANDIT_SET;
        trial_.n_calls = trial_.is_twofold ? proposal_.n_calls : window_;
        trial_.first_call = n_calls_ + STP_TRIAL_LEAD;
        in_trial_ = true;
        Note(STP_NOTE_TRIAL, key, arm, trial_.first_call, trial_.n_calls,
             uint8_t(proposal_.n_blocks));
    }

    // The arm of a call, and whether a window begins with it.
    unsigned ArmOfCall(unsigned key, bool *is_timed)
    {
        uint64_t at = n_calls_ - trial_.first_call;
        unsigned window;

        *is_timed = stp_learner_is_sampling(learner_.get());
        if (!in_trial_ || n_calls_ < trial_.first_call)
            return in_force_[key];
        window = unsigned(at / trial_.n_calls);
        *is_timed |= at % trial_.n_calls == 0;
        in_trial_ = window < stp_trial_windows(&trial_);
        return in_trial_ &&
                       (key == trial_.key || trial_.key == STP_BANDIT_SET) &&
                       stp_trial_is_arm(trial_.first_call,
                                        window / stp_trial_turn(&trial_))
                   ? trial_.arm
                   : in_force_[key];
    }

    void Call(unsigned key, const CallUs &us)
    {
        bool is_timed;
        unsigned arm;

        if (key >= n_keys_ && key < STP_BANDIT_KEYS)
            AddKeys(key + 1);
        if (!in_trial_ && has_proposal_ && n_calls_ % epoch_ == 0)
            TakeProposal();
        arm = ArmOfCall(key, &is_timed);
        stp_history_add(history_.get(), uint8_t(key));
        gpu_.push_back({n_calls_++, key, arm, is_timed && has_times_, now_ns_});
        now_ns_ += 1e3 * us(key, Name(key, arm)) *
                   std::exp(noise_ * Noise(seed_, n_calls_));
        while (gpu_.size() > ahead_) {
            if (gpu_.front().is_timed)
                Note(STP_NOTE_TIME, gpu_.front().key, gpu_.front().arm,
                     gpu_.front().call, 0, 24, uint64_t(gpu_.front().ns));
            gpu_.pop_front();
        }
        if (n_calls_ % think_every_ == 0 && !has_proposal_)
            has_proposal_ = stp_learner_wants(learner_.get(), true, &proposal_);
        if (has_proposal_ && proposal_.kind == STP_PROPOSE_TRIAL &&
            n_refusals_ > 0) {
            n_refusals_--;
            has_proposal_ = false;
            stp_learner_refuse(learner_.get());
        }
    }

    void AddKeys(unsigned n)
    {
        Costs costs;
        stp_cost_view view = costs.View();

        for (; n_keys_ < n; n_keys_++)
            stp_learner_add_key(learner_.get(), n_keys_, &view, 0);
    }

    Arm Name(unsigned key, unsigned arm)
    {
        stp_bandit_arm a =
            stp_bandit_get_arm(stp_learner_bandit(learner_.get()), key, arm)
                .arm;
        return {a.algo, a.proto, a.n_channels};
    }

    void Steps(const std::vector<unsigned> &step, size_t n, const CallUs &us)
    {
        for (size_t i = 0; i < n; i++)
            for (unsigned key : step)
                Call(key, us);
    }

    std::vector<stp_learn_event> Events(stp_learn_kind kind) const
    {
        std::vector<stp_learn_event> some;

        for (const stp_learn_event &event : events_)
            if (event.kind == kind)
                some.push_back(event);
        return some;
    }

    Arm InForce(unsigned key = 0)
    {
        return Name(key, in_force_[key]);
    }

    struct Timed {
        uint64_t call;
        unsigned key, arm;
        bool is_timed;
        double ns;
    };

    std::unique_ptr<stp_history, Close> history_;
    std::unique_ptr<stp_learner, Close> learner_;
    std::vector<stp_learn_event> events_;
    double noise_ = .002;
    uint64_t seed_ = 1;
    size_t ahead_ = 172;
    unsigned think_every_ = 48;
    bool has_times_ = true;
    double confirm_us_ = 0;
    unsigned n_refusals_ = 0; // of the next trials
    uint64_t n_calls_ = 0;
    unsigned n_trials_ = 0;

  private:
    unsigned n_keys_ = 0;
    double now_ns_ = 1e9;
    std::deque<Timed> gpu_;
    bool has_proposal_ = false, in_trial_ = false;
    stp_proposal proposal_{};
    stp_trial trial_{};
    unsigned window_ = 0, epoch_ = STP_EPOCH_HALVING;
    unsigned in_force_[STP_BANDIT_KEYS + 1] = {}; // 0 of no key
};

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

class Ahead : public Job, public testing::WithParamInterface<AheadCase>
{
};

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

TEST_F(Job, ThatVariesTooMuchKeepsNcclsOwnChoice)
{
    noise_ = .5;
    Open();
    Steps({0}, 60000, Saves(.5));

    EXPECT_EQ(kOwn, InForce());
    ASSERT_EQ(1u, Events(STP_LEARN_NOISY).size());
    EXPECT_GT(Events(STP_LEARN_NOISY)[0].gain, 1.01);
    EXPECT_EQ(1u, Events(STP_LEARN_SETTLED).size());
}

TEST_F(Job, SettledTriesNothingButRetests)
{
    Open();
    Steps({0}, 3000, Saves(5));
    unsigned n = n_trials_;
    Steps({0}, 30000, Saves(5));

    EXPECT_FALSE(stp_learner_is_sampling(learner_.get()));
    EXPECT_LE(n_trials_ - n, 5u);
    EXPECT_EQ(kTreeLl128, InForce());
}

// ---- jobs that do not ----

TEST_F(Job, WhoseCallsRepeatNothingTriesNothing)
{
    Open();
    for (unsigned i = 0; i < 20000; i++)
        Call(unsigned(stp_rng(7, i) % 5), Saves(5));

    EXPECT_EQ(0u, n_trials_);
    EXPECT_TRUE(Events(STP_LEARN_WINDOW).empty());
    EXPECT_EQ(1u, Events(STP_LEARN_ALONE).size());
}

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

TEST_F(Job, AsksForTheTimesOfItsFirstCalls)
{
    unsigned n = 0;

    think_every_ = 1 << 20; // nothing is decided
    Open();
    while (n < 1000 && stp_learner_is_sampling(learner_.get())) {
        Call(0, Saves(5));
        n++;
    }

    EXPECT_EQ(64u, n);
}

TEST_F(Job, WhoseFirstTrialsAreRefusedTriesThemLater)
{
    n_refusals_ = 8;
    Open();
    for (int i = 0; i < 20000; i++)
        Call(0, Saves(5));

    EXPECT_EQ(0u, n_refusals_);
    EXPECT_EQ(kTreeLl128, InForce());
    EXPECT_FALSE(Events(STP_LEARN_SETTLED).empty());
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

} // namespace
