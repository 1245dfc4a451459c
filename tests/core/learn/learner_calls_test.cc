// Tests of a learner's proposals by the call they follow, and of its reports.
#include <gmock/gmock.h>

#include <utility>

extern "C" {
#include "core/learn/bandit_decide.h"
}

#include "core/learn/learner_job.h"
#include "support/with_param.h"

namespace
{

using bandit_job::Costs;
using learner_job::Close;
using testing::ElementsAre;
using testing::SizeIs;

// Two arms of each key, tree/LL128 and ring/simple, on NCCL's own channels.
stp_learner_rules TwoArms(unsigned confirm_blocks = 0)
{
    stp_learner_rules rules{};

    rules.objective = STP_LEARN_GPU;
    rules.bandit = stp_bandit_rules_default(STP_STRATEGY_HALVING);
    rules.bandit.budget = 1;
    rules.bandit.retest_calls = 0;
    rules.bandit.confirm_blocks = confirm_blocks;
    rules.bandit.confirm_us = 0;
    rules.bandit.arms[0] = {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0};
    rules.bandit.arms[1] = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
    rules.bandit.n_arms = 2;
    return rules;
}

stp_learner_rules OneArm()
{
    stp_learner_rules rules = TwoArms();

    rules.bandit.n_arms = 1;
    return rules;
}

// A job whose calls take 100 us each at first, and whose times arrive at once.
class Calls : public learner_job::HearsLearner
{
  protected:
    void Open(const stp_learner_rules &rules, unsigned n_keys = 1)
    {
        stp_learner *learner = nullptr;
        stp_error err{};
        const bool is_by_file = rules.objective == STP_LEARN_FILE;

        n_calls_ = 0;
        call_us_ = 100;
        events_.clear();
        learner_.reset();
        history_.reset(stp_history_new());
        ASSERT_EQ(STP_OK,
                  stp_learner_open(
                      &rules, is_by_file ? nullptr : history_.get(),
                      [](void *self, const stp_learn_event *event) {
                          static_cast<Calls *>(self)->events_.push_back(*event);
                      },
                      this, &learner, &err))
            << err.text;
        learner_.reset(learner);
        for (unsigned key = 0; key < n_keys; key++)
            AddKey(key);
    }

    void AddKey(unsigned key)
    {
        const Costs costs;
        const stp_cost_view view = costs.View();

        stp_learner_add_key(learner_.get(), key, &view, 0);
    }

    void Note(stp_note_kind kind, unsigned key, unsigned arm, uint64_t call,
              uint32_t n_calls = 0, uint8_t rest = 0, uint64_t t_ns = 0)
    {
        const stp_note note =
            learner_notes::Make(kind, key, arm, call, n_calls, rest, t_ns);

        stp_learner_note(learner_.get(), &note);
    }

    // Recalls gains of a key's arms from earlier runs, each from 'n' blocks.
    void Recall(unsigned key, std::vector<double> gains, uint32_t n = 16)
    {
        for (unsigned i = 0; i < gains.size(); i++) {
            stp_bandit *bandit = stp_learner_bandit(learner_.get());
            const stp_bandit_arm arm =
                stp_bandit_get_arm(bandit, key, i + 1).arm;

            stp_bandit_recall(bandit, key, &arm, n, gains[i], 0);
        }
    }

    // Makes a call; whether something is proposed after it.
    bool Next(unsigned key, bool is_timed = true)
    {
        stp_history_add(history_.get(), uint8_t(key));
        if (is_timed)
            Note(STP_NOTE_TIME, key, 0, n_calls_, 0, 0,
                 uint64_t(now_us_ * 1e3));
        n_calls_++;
        now_us_ += call_us_;
        return stp_learner_wants(learner_.get(), true, &wanted_);
    }

    // Makes the calls of a step until something is proposed, or up to so many.
    bool Steps(const std::vector<unsigned> &step, unsigned most = 2000)
    {
        for (unsigned i = 0; i < most; i++)
            if (Next(step[n_calls_ % step.size()]))
                return true;
        return false;
    }

    // Finds a window of the step, and takes it.
    void FindWindow(const std::vector<unsigned> &step)
    {
        ASSERT_TRUE(Steps(step, 10000));
        ASSERT_EQ(STP_PROPOSE_WINDOW, wanted_.kind);
        Take();
    }

    // Takes the proposal.
    void Take()
    {
        const stp_proposal &p = wanted_;

        if (p.kind == STP_PROPOSE_WINDOW)
            Note(STP_NOTE_WINDOW, 0, 0, n_calls_, window_ = p.n_calls);
        else if (p.kind == STP_PROPOSE_ARM)
            Note(STP_NOTE_SET, p.key, p.index, n_calls_);
        else if (p.kind == STP_PROPOSE_TRIAL)
            Note(STP_NOTE_TRIAL, p.key, p.index, n_calls_ + STP_TRIAL_LEAD,
                 window_, uint8_t(p.n_blocks));
        else
            Note(STP_NOTE_TRIAL, STP_BANDIT_SET, 0, n_calls_ + STP_TRIAL_LEAD,
                 p.n_calls, uint8_t(p.n_blocks));
    }

    bool IsSampling() const
    {
        return stp_learner_is_sampling(learner_.get());
    }

    std::unique_ptr<stp_history, Close> history_;
    std::unique_ptr<stp_learner, Close> learner_;
    uint64_t n_calls_ = 0;
    double call_us_ = 100, now_us_ = 1000;

    stp_proposal wanted_{};
    unsigned window_ = 0;
};

TEST_F(Calls, AreLookedAtAfter64AndThenTwiceAsLateEachTime)
{
    Open(TwoArms());
    while (n_calls_ < 600 && (n_calls_ <= 64 || !IsSampling()))
        Next(n_calls_ < 70 ? unsigned(stp_rng(7, n_calls_) % 5) : 0);

    EXPECT_EQ(256u, n_calls_); // at 128 too few were alike
}

TEST_F(Calls, ThatRepeatNothingAreToldOnce)
{
    Open(TwoArms(), 0);
    while (n_calls_ < 70000) {
        stp_history_add(history_.get(), uint8_t(stp_rng(7, n_calls_) % 5));
        if (++n_calls_ % 64 == 0)
            stp_learner_wants(learner_.get(), true, &wanted_);
    }

    ASSERT_THAT(events_, SizeIs(1));
    EXPECT_EQ(STP_LEARN_ALONE, events_[0].kind);
    EXPECT_EQ(-1, events_[0].key);
    EXPECT_EQ(4096, events_[0].value);
    EXPECT_EQ(4096u, events_[0].call);
}

TEST_F(Calls, OfTenSequencesAreTimedOr256)
{
    const std::pair<unsigned, unsigned> cases[] = {
        {1, 256}, {25, 256}, {26, 260}, {500, 5000}, {512, 5120}};

    for (const auto &[sequence, n_samples] : cases) {
        SCOPED_TRACE(sequence);
        unsigned n = 0;

        Open(TwoArms());
        while (n_calls_ < 10000 && n <= 6000) {
            const unsigned i = unsigned(n_calls_ % sequence);
            Next(i % 120 + i / 120, false);
            n += IsSampling() && n_calls_ >= 64;
            if (n > 0 && !IsSampling())
                break;
        }
        EXPECT_EQ(STP_TRIAL_LEAD + n_samples, n);
    }
}

// The sequence is found by 64 calls, and the samples are calls 72 to 327.
TEST_F(Calls, ThatAreTimedGiveAWindowOnceAllHaveArrivedOrAreTooLate)
{
    const struct {
        const char *name;
        std::function<bool(uint64_t call)> is_timed;
        uint64_t n_calls; // 0: never
    } cases[] = {
        {"all times", [](uint64_t) { return true; }, 328},
        {"without the last", [](uint64_t call) { return call != 327; },
         327 + 1 + 1280 + 1},
        {"ten and the last",
         [](uint64_t call) { return call < 82 || call == 327; }, 328},
        {"nine and the last",
         [](uint64_t call) { return call < 81 || call == 327; }, 0},
        {"nine others", [](uint64_t call) { return call > 72 && call < 82; },
         0},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Open(TwoArms());
        while (n_calls_ < 1700)
            if (Next(0, c.is_timed(n_calls_)))
                break;
        EXPECT_EQ(c.n_calls == 0 ? 1700 : c.n_calls, n_calls_);
        if (c.n_calls == 0)
            continue;
        EXPECT_EQ(STP_PROPOSE_WINDOW, wanted_.kind);
        EXPECT_EQ(1u, wanted_.n_calls);
    }
}

TEST_F(Calls, OfTheKeyThatHasMostAreTriedFirst)
{
    std::vector<unsigned> many(257, 1);
    many[0] = 0;
    const struct {
        const char *name;
        std::vector<unsigned> step;
        unsigned key;
    } cases[] = {
        {"two of three", {0, 1, 1}, 1},
        {"alike", {1, 0}, 0},
        {"more than are counted", many, 1},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Open(TwoArms(), 2);
        FindWindow(c.step);
        EXPECT_EQ(c.step.size(), window_);
        ASSERT_TRUE(Steps(c.step, 1));
        EXPECT_EQ(STP_PROPOSE_TRIAL, wanted_.kind);
        EXPECT_EQ(c.key, wanted_.key);
    }
}

// ---- calls that change ----

// Checks are 256 calls apart from the window on.
TEST_F(Calls, AreLookedAtAgainAfterEightChecksThatFailed)
{
    const struct {
        const char *name;
        std::vector<unsigned> before, after;
        bool is_broken;
    } cases[] = {
        {"the same", {0, 0, 1}, {0, 0, 1}, false},
        {"from another one on", {0, 0, 1}, {0, 1, 0}, false},
        {"as long, with other shares", {0, 0, 1}, {0, 1, 1}, true},
        {"longer, with the same shares", {0, 0, 1}, {0, 0, 1, 0, 1, 0}, true},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Open(TwoArms(), 0);
        FindWindow(c.before);
        const uint64_t from = n_calls_;
        EXPECT_EQ(328u, from);
        while (n_calls_ < from + 3000 && !IsSampling())
            EXPECT_FALSE(Next(c.after[n_calls_ % c.after.size()]));
        EXPECT_EQ(from + (c.is_broken ? 8 * 256 + 64 : 3000), n_calls_);
    }
}

// ---- proposals that are refused ----

TEST_F(Calls, HaveAWindowThatIsProposedUntilItIsTaken)
{
    Open(TwoArms());
    ASSERT_TRUE(Steps({0}));
    ASSERT_EQ(STP_PROPOSE_WINDOW, wanted_.kind);
    EXPECT_FALSE(Next(0));
    stp_learner_refuse(learner_.get());

    ASSERT_TRUE(Next(0));
    EXPECT_EQ(STP_PROPOSE_WINDOW, wanted_.kind);
    EXPECT_EQ(1u, wanted_.n_calls);
    Take();
    ASSERT_TRUE(Next(0));
    EXPECT_EQ(STP_PROPOSE_TRIAL, wanted_.kind);
}

// Four blocks of an arm of which one is known.
TEST_F(Calls, HaveTrialsThatAreProposedUntilTheyAreTaken)
{
    Open(TwoArms());
    Recall(0, {.002, .002}, 1);
    FindWindow({0});

    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(Next(0));
        EXPECT_EQ(STP_PROPOSE_TRIAL, wanted_.kind);
        EXPECT_EQ(1u, wanted_.index);
        EXPECT_EQ(4u, wanted_.n_blocks);
        stp_learner_refuse(learner_.get());
    }
}

// ---- what has settled ----

using CallsOfKeys = WithParam<Calls, unsigned>;

TEST_P(CallsOfKeys, HaveLongEpochsOnceAllHasSettled)
{
    const std::vector<unsigned> step = {0, GetParam() - 1};

    Open(TwoArms(), GetParam());
    Recall(0, {-1, .1});
    Recall(1, {-1, -1});
    FindWindow(step);

    ASSERT_TRUE(Steps(step, 1));
    EXPECT_EQ(STP_PROPOSE_ARM, wanted_.kind);
    EXPECT_EQ(0u, wanted_.key);
    EXPECT_EQ(2u, wanted_.index);
    EXPECT_FALSE(wanted_.is_settled);
    Take();
    for (bool is_refused : {true, false}) {
        ASSERT_TRUE(Steps(step, 1));
        EXPECT_EQ(STP_PROPOSE_ARM, wanted_.kind);
        EXPECT_EQ(0u, wanted_.key);
        EXPECT_EQ(2u, wanted_.index);
        EXPECT_EQ(NCCL_ALGO_RING, wanted_.arm.algo);
        EXPECT_EQ(NCCL_PROTO_SIMPLE, wanted_.arm.proto);
        EXPECT_TRUE(wanted_.is_settled);
        if (is_refused)
            stp_learner_refuse(learner_.get());
    }
    Take();
    stp_learner_refuse(learner_.get()); // nothing
    EXPECT_FALSE(Steps(step, 20));
    ASSERT_THAT(Events(STP_LEARN_INCUMBENT), SizeIs(1));
    EXPECT_EQ(0, Events(STP_LEARN_INCUMBENT)[0].key);
    EXPECT_EQ(2u, Events(STP_LEARN_INCUMBENT)[0].arm);
    EXPECT_EQ(0, Events(STP_LEARN_INCUMBENT)[0].value);
}

INSTANTIATE_TEST_SUITE_P(Numbers, CallsOfKeys, testing::Values(1, 2));

// Blocks of the set may all be under way at once.
TEST_F(Calls, HaveUpTo32TrialsUnderWay)
{
    Open(TwoArms(100));
    Recall(0, {.1, -1});
    FindWindow({0});
    ASSERT_TRUE(Next(0));
    EXPECT_EQ(STP_PROPOSE_ARM, wanted_.kind);
    Take();
    for (unsigned i = 0; i < 33; i++) {
        stp_history_add(history_.get(), 0);
        n_calls_++;
        ASSERT_EQ(i < 32, stp_learner_wants(learner_.get(), true, &wanted_));
        EXPECT_EQ(STP_PROPOSE_CONFIRM, wanted_.kind);
        EXPECT_FALSE(stp_learner_wants(learner_.get(), true, &wanted_))
            << "until it is taken";
        if (i < 32)
            Take();
    }
}

// ---- blocks ----

// Blocks of one trial, of which another call is one.
TEST_F(Calls, OfUnequalWorkAreNoBlocks)
{
    for (const bool is_equal : {true, false}) {
        SCOPED_TRACE(is_equal);
        Open(OneArm());
        FindWindow({0, 0, 1});
        ASSERT_TRUE(Steps({0, 0, 1}, 1));
        ASSERT_EQ(STP_PROPOSE_TRIAL, wanted_.kind);
        Take();
        const uint64_t begin = n_calls_ + STP_TRIAL_LEAD;
        while (n_calls_ <= begin + 4 * 3 && Events(STP_LEARN_BLOCK).empty())
            Next(!is_equal && n_calls_ == begin + 4
                     ? 0
                     : std::vector{0, 0, 1}[n_calls_ % 3]);

        ASSERT_THAT(Events(STP_LEARN_BLOCK), SizeIs(is_equal ? 2 : 0));
    }
}

// A call that is not the sequence's is the only one of its window here.
TEST_F(Calls, OfASetCountUnlessAWindowThatCountsHasNoOther)
{
    for (const uint64_t window : {0, 1, 2, 9}) {
        SCOPED_TRACE(window);
        Open(TwoArms(1));
        Recall(0, {.1, -1});
        FindWindow({0});
        const uint64_t begin = n_calls_ + 256;
        ASSERT_TRUE(Next(0));
        Take();
        ASSERT_TRUE(Next(0));
        ASSERT_EQ(STP_PROPOSE_CONFIRM, wanted_.kind);
        Note(STP_NOTE_TRIAL, STP_BANDIT_SET, 0, begin, 1, 1);
        while (n_calls_ < begin + 20)
            Next(n_calls_ + 1 == begin + window ? 5 : 0);

        ASSERT_THAT(Events(STP_LEARN_SET), SizeIs(1));
        EXPECT_EQ(window != 2, Events(STP_LEARN_SET)[0].gain > 0);
        EXPECT_EQ(
            window != 2,
            stp_bandit_get_set(stp_learner_bandit(learner_.get())).n_blocks);
    }
}

// ---- events ----

// The event without what is known of it beside 'value'.
stp_learn_event Event(stp_learn_kind kind, uint64_t call, int key, unsigned arm,
                      double value, double gain = 0)
{
    return {kind, call, key, arm, value, gain, gain, gain};
}

MATCHER_P(IsEvent, e, stp_learn_kind_name(e.kind))
{
    return arg.kind == e.kind && arg.call == e.call && arg.key == e.key &&
           arg.arm == e.arm && std::fabs(arg.value - e.value) < 1e-9 &&
           std::fabs(arg.gain - e.gain) < 1e-9 &&
           std::fabs(arg.gain_low - e.gain_low) < 1e-9 &&
           std::fabs(arg.gain_high - e.gain_high) < 1e-9;
}

// All calls take 100 us: of the arm that gained before, nothing is left.
TEST_F(Calls, TellWhatIsMadeOfThem)
{
    std::vector<uint64_t> sets; // calls after the blocks

    Open(TwoArms(8));
    Recall(0, {.1, -.2});
    AddKey(STP_BANDIT_KEYS); // there is none
    Note(STP_NOTE_SET, STP_BANDIT_KEYS, 1, 0);
    FindWindow({0});
    for (int i = 0; i < 500 && Events(STP_LEARN_CONFIRMED).empty(); i++)
        if (Next(0)) {
            Take();
            if (wanted_.kind == STP_PROPOSE_CONFIRM)
                sets.push_back(n_calls_ + STP_TRIAL_LEAD + 8 + 1);
        }

    ASSERT_THAT(sets, SizeIs(8));
    ASSERT_THAT(events_, SizeIs(4 + 8 + 1));
    stp_learn_event settled = Event(STP_LEARN_SETTLED, 330, 0, 1, 0, 0);
    settled.gain = std::exp(.1);
    settled.gain_low = events_[3].gain_low;
    settled.gain_high = events_[3].gain_high;
    EXPECT_LT(settled.gain_low, settled.gain);
    EXPECT_GT(settled.gain_high, settled.gain);
    EXPECT_THAT(events_[0], IsEvent(Event(STP_LEARN_MESSAGE, 0, 0, 0, 0)));
    EXPECT_THAT(events_[1], IsEvent(Event(STP_LEARN_WINDOW, 328, -1, 0, 1)));
    EXPECT_THAT(events_[2], IsEvent(Event(STP_LEARN_INCUMBENT, 329, 0, 1, 0)));
    EXPECT_THAT(events_[3], IsEvent(settled));
    for (unsigned i = 0; i < 8; i++)
        EXPECT_THAT(events_[4 + i],
                    IsEvent(Event(STP_LEARN_SET, sets[i], -1, 0, 100, 1)));
    EXPECT_THAT(events_[12],
                IsEvent(Event(STP_LEARN_CONFIRMED, sets[7], -1, 0, 8, 1)));
}

TEST_F(Calls, TellOfTheBlocksOfATrial)
{
    Open(OneArm());
    FindWindow({0, 0, 1});
    ASSERT_TRUE(Steps({0, 0, 1}, 1));
    Take();
    const uint64_t begin = n_calls_ + STP_TRIAL_LEAD;
    EXPECT_FALSE(Steps({0, 0, 1}, STP_TRIAL_LEAD + 12));
    events_.erase(events_.begin(), events_.begin() + 2);

    EXPECT_TRUE(Steps({0, 0, 1}, 1));
    ASSERT_EQ(5u, events_.size());
    EXPECT_EQ(STP_LEARN_BOUND, events_[3].kind);
    EXPECT_EQ(1, events_[3].gain);
    EXPECT_NEAR(exp(2.6 * .0005), events_[3].gain_high, 1e-9);
    EXPECT_NEAR(exp(-2.6 * .0005), events_[3].gain_low, 1e-9);
    events_.erase(events_.begin() + 3);
    EXPECT_THAT(
        events_,
        ElementsAre(IsEvent(Event(STP_LEARN_TRIAL, begin - 8, 0, 1, 12)),
                    IsEvent(Event(STP_LEARN_BLOCK, begin + 13, 0, 0, 300)),
                    IsEvent(Event(STP_LEARN_BLOCK, begin + 13, 0, 1, 300, 1)),
                    IsEvent(Event(STP_LEARN_SETTLED, begin + 13, 0, 0, 0, 1))));
}

// ---- by an application's times ----

TEST_F(Calls, AreNotCountedWithTimesOfTheApplication)
{
    stp_learner_rules rules{};
    rules.objective = STP_LEARN_FILE;
    rules.bandit = stp_bandit_rules_default(STP_STRATEGY_EPSILON);
    rules.bandit.epsilon = 0;
    rules.bandit.n_arms = 1;
    Open(rules);

    for (unsigned key : {1u, unsigned(STP_BANDIT_KEYS)})
        stp_learner_reward(learner_.get(), key, 1); // there is none
    stp_learner_reward(learner_.get(), 0, 1);
    ASSERT_TRUE(stp_learner_wants(learner_.get(), true, &wanted_));
    EXPECT_EQ(STP_PROPOSE_ARM, wanted_.kind);
    EXPECT_EQ(1u, wanted_.index);
    Take();
    stp_learner_reward(learner_.get(), 0, 2);
    ASSERT_TRUE(stp_learner_wants(learner_.get(), true, &wanted_));
    EXPECT_EQ(0u, wanted_.index);
    Take();

    EXPECT_FALSE(IsSampling());
    EXPECT_THAT(events_,
                ElementsAre(IsEvent(Event(STP_LEARN_MESSAGE, 0, 0, 0, 0)),
                            IsEvent(Event(STP_LEARN_REWARD, 0, 0, 0, 1)),
                            IsEvent(Event(STP_LEARN_INCUMBENT, 0, 0, 1, 0)),
                            IsEvent(Event(STP_LEARN_REWARD, 0, 0, 1, 2)),
                            IsEvent(Event(STP_LEARN_SETTLED, 0, 0, 0, 0, 1)),
                            IsEvent(Event(STP_LEARN_INCUMBENT, 0, 0, 0, 0))));
}

} // namespace
