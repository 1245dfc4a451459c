// Whether the steps of a job are found among its collectives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
#include "core/learn/period.h"
#include "core/rng.h"
}

static void PrintTo(const stp_step &s, std::ostream *out)
{
    *out << s.first_call << ": " << s.n_calls << " calls, " << s.us << " us";
}

namespace
{

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;
using Word = std::vector<uint64_t>;

Word operator*(const Word &word, size_t n)
{
    Word all;
    while (n-- > 0)
        all.insert(all.end(), word.begin(), word.end());
    return all;
}

Word operator+(Word a, const Word &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// n different kinds, of which no two words have the same.
Word Kinds(uint64_t name, size_t n)
{
    Word word;
    for (size_t i = 0; i < n; i++)
        word.push_back(name * 10000 + i);
    return word;
}

// Kinds drawn out of n.
Word Random(uint64_t seed, size_t n_calls, uint64_t n)
{
    Word word;
    for (size_t i = 0; i < n_calls; i++)
        word.push_back(stp_rng(seed, i) % n);
    return word;
}

class Period : public testing::Test
{
  protected:
    Period()
    {
        EXPECT_EQ(STP_OK, stp_period_open(&period_, nullptr));
    }

    ~Period() override
    {
        stp_period_close(period_);
    }

    void Reopen()
    {
        stp_period_close(period_);
        EXPECT_EQ(STP_OK, stp_period_open(&period_, nullptr));
        words_.clear();
        kinds_.clear();
        times_.clear();
    }

    // A call, and its step if one is complete.
    void Call(uint64_t kind, uint64_t t_ns)
    {
        stp_step step{};
        kinds_.push_back(kind);
        times_.push_back(t_ns);
        if (!stp_period_call(period_, kind, t_ns, &step))
            return;
        steps_.push_back(step);
        EXPECT_EQ(kinds_.size() - 1, step.first_call + step.n_calls);
        const auto first = kinds_.begin() + static_cast<long>(step.first_call);
        const Word word(first, first + step.n_calls);
        EXPECT_EQ(words_.emplace(step.sequence, word).first->second, word);
        EXPECT_EQ(kind, word[0]);
        EXPECT_DOUBLE_EQ((t_ns - times_[step.first_call]) / 1e3, step.us);
    }

    // Calls, one every 'us'.  Returns the steps that these completed.
    std::vector<stp_step> Play(const Word &kinds, uint64_t us = 10)
    {
        const size_t before = steps_.size();
        for (uint64_t kind : kinds)
            Call(kind, now_ns_ += us * 1000);
        return {steps_.begin() + static_cast<long>(before), steps_.end()};
    }

    stp_period *period_ = nullptr;
    std::vector<stp_step> steps_;
    std::map<unsigned, Word> words_; // by number of the sequence
    Word kinds_;
    Word times_;
    uint64_t now_ns_ = 5;
};

auto IsStep(unsigned n_calls, double us)
{
    return AllOf(Field(&stp_step::n_calls, n_calls), Field(&stp_step::us, us));
}

TEST_F(Period, KnowsNothingAtFirst)
{
    EXPECT_EQ(0u, stp_period_calls(period_));
    EXPECT_EQ(0u, stp_period_share(period_, 0));
}

// ---- what is a step ----

const Word A = {1}, B = {2}, C = {3};

const struct Case {
    const char *name;
    Word step;
    size_t n_found;   // steps until it is found, at most
    uint64_t a_share; // calls of kind 1
} cases[] = {
    {"OneCall", A, 20, 1},
    {"TwoCalls", A + B, 10, 1},
    {"SevenCalls", A + B + Kinds(7, 5), 4, 1},
    {"EqualCallsAndOneMore", A * 24 + B, 4, 24},
    {"OneMoreAndEqualCalls", B + A * 24, 4, 24},
    {"Fsdp", A * 32 + B * 32, 4, 32},
    {"FsdpThatPrefetches", A * 12 + (A + B) * 12 + C, 4, 24},
    {"GradientAccumulation", (A + B) * 8 + Kinds(7, 5), 4, 8},
    {"AccumulationOfLayers", (A * 12 + B * 12) * 4 + C, 4, 48},
    {"Layers", A * 3 + (A * 80 + B) * 2 + C, 4, 163},
    {"Longest", A + Kinds(7, STP_PERIOD_MAX - 1), 4, 1},
};

class PeriodOf : public Period, public testing::WithParamInterface<Case>
{
};

TEST_P(PeriodOf, IsFoundAndTimed)
{
    const Case &c = GetParam();
    const auto n = static_cast<unsigned>(c.step.size());

    Play(Random(1, 50, 40) + c.step * c.n_found);

    EXPECT_EQ(n, stp_period_calls(period_));
    EXPECT_EQ(c.a_share, stp_period_share(period_, 1));
    EXPECT_EQ(0u, stp_period_share(period_, 0xdead));
    // One is under way, one begins only later, and three are measures.
    Play(c.step * 5);
    EXPECT_THAT(Play(c.step * 100), AllOf(SizeIs(100), Each(IsStep(n, n * 10))))
        << "nothing else, and each exactly";
}

TEST_P(PeriodOf, BeginsAtTheSameCallWhereverItStarted)
{
    const Case &c = GetParam();
    const size_t n = c.step.size();

    for (size_t rotation : {size_t{0}, n / 3, n - 1}) {
        Reopen();
        const Word rest(c.step.begin() + static_cast<long>(rotation),
                        c.step.end());
        Play(rest + c.step * (c.n_found + 5));
        const auto steps = Play(c.step);
        ASSERT_THAT(steps, SizeIs(1)) << rotation;
        Word got(kinds_.begin() + static_cast<long>(steps[0].first_call),
                 kinds_.begin() + static_cast<long>(steps[0].first_call + n));
        Word smallest = got;
        for (size_t i = 0; i < n; i++) {
            std::rotate(got.begin(), got.begin() + 1, got.end());
            smallest = std::min(smallest, got);
        }
        EXPECT_EQ(smallest, got) << rotation;
    }
}

INSTANTIATE_TEST_SUITE_P(Steps, PeriodOf, testing::ValuesIn(cases),
                         [](const auto &c) { return c.param.name; });

TEST_F(Period, IsNotFoundBeforeThreeRepeats)
{
    const Word step = Kinds(7, 100);

    Play(step * 2);
    Play({step.begin(), step.end() - 1});
    EXPECT_EQ(0u, stp_period_calls(period_));
    Play({step.back()});
    Play(step);
    EXPECT_EQ(100u, stp_period_calls(period_));
    // The first three of these are measures, the last has no end yet.
    EXPECT_THAT(Play(step * 10), SizeIs(6));
}

TEST_F(Period, IsNoneWhereItIsTooLong)
{
    EXPECT_THAT(Play(Kinds(7, STP_PERIOD_MAX + 1) * 8), IsEmpty());
    EXPECT_EQ(0u, stp_period_calls(period_));
}

TEST_F(Period, IsNoneAmongRandomCalls)
{
    for (uint64_t n_kinds : {4, 8, 30, 1000})
        EXPECT_THAT(Play(Random(n_kinds, 30000, n_kinds)), IsEmpty())
            << n_kinds;
    EXPECT_EQ(0u, stp_period_calls(period_));
}

// ---- what interrupts steps ----

const Word Train = A + B + Kinds(7, 5);
const Word Eval = A + B;

unsigned Sequence(const std::vector<stp_step> &steps)
{
    EXPECT_THAT(steps, testing::Not(IsEmpty()));
    return steps.empty() ? ~0u : steps.back().sequence;
}

TEST_F(Period, ComesBackWithTheFirstWholeStepAfterAnEvaluation)
{
    const Word accumulation = Eval * 8 + Kinds(7, 5);
    const struct {
        const char *name;
        Word eval;
    } evals[] = {
        {"other calls", Kinds(8, 20)},
        {"some of the same", Eval * 3 + C},
        {"in the middle of a step", A + B + Kinds(7, 3)},
        {"a single call", C},
        {"its own steps", Kinds(9, 2) * 50},
        {"random calls", Random(4, 5000, 50)},
    };

    for (const Word &step : {Train, accumulation}) {
        const auto n = static_cast<unsigned>(step.size());
        Reopen();
        const unsigned train = Sequence(Play(step * 20));
        for (const auto &e : evals) {
            Play(e.eval, 90);
            // The one under way when it ends comes with the call after it.
            const auto steps = Play(step * 30 + A);
            EXPECT_THAT(steps, AllOf(SizeIs(30), Each(IsStep(n, n * 10)),
                                     Each(Field(&stp_step::sequence, train))))
                << e.name;
        }
    }
}

TEST_F(Period, IsFoundWhereverAndWhateverCameBefore)
{
    for (uint64_t i = 0; i < 60; i++) {
        const size_t n = 1 + stp_rng(1, i) % 60;
        const Word step = Random(100 + i, n, 5) + Kinds(100 + i, 1);
        Play(Random(i, stp_rng(2, i) % 200, 30));
        Play(step * (5 + 20 / n));
        EXPECT_EQ(n + 1, stp_period_calls(period_)) << i;
        Play({step.begin(), step.begin() + static_cast<long>(n / 2)});
    }
}

TEST_F(Period, GivesOutNoStepThatBeganBeforeAnotherSequence)
{
    const Word outer = Eval * 8 + Kinds(7, 5);

    for (const Word &step : {Train, outer}) {
        Reopen();
        Play(step * 20 + Eval * 20 + step * 20);
        for (size_t n = 0; n < 20; n++)
            EXPECT_THAT(Play(Eval * n + step * 20), testing::Not(IsEmpty()));
    }
}

TEST_F(Period, KnowsWhatIsInsideAnotherThatItFoundLater)
{
    const Word outer = Eval * 20 + C;

    Play(outer * 20);
    for (const Word &other : {Kinds(20, 5), Kinds(21, 5), outer, Kinds(22, 5)})
        Play(other * 20); // the last one takes the place of what is inside
    Play(Kinds(23, 5) + Eval * 20);
    EXPECT_EQ(5u, stp_period_calls(period_));
    EXPECT_THAT(Play(C + outer * 20), Each(Field(&stp_step::n_calls, 41u)));
}

TEST_F(Period, TakesMoreThanThereIsInsideAnotherToBeAStep)
{
    const Word outer = Eval * 8 + Kinds(7, 5);

    EXPECT_EQ(2u, Play(Eval * 20).back().n_calls);
    EXPECT_EQ(21u, Play(outer * 20).back().n_calls);
    EXPECT_EQ(2u, Play(Eval * 20).back().n_calls);
    Play(outer);
    EXPECT_THAT(Play(outer * 20), Each(Field(&stp_step::n_calls, 21u)));
}

TEST_F(Period, TellsStepsOfTrainingFromThoseOfEvaluation)
{
    const Word eval = Kinds(9, 3);

    const unsigned train = Sequence(Play(Train * 200));
    const unsigned evaluation = Sequence(Play(eval * 30, 3));
    EXPECT_NE(train, evaluation);
    EXPECT_EQ(3u, stp_period_calls(period_));
    EXPECT_EQ(train, Sequence(Play(Train * 200)));
    EXPECT_EQ(evaluation, Sequence(Play(eval * 30, 3)));
    EXPECT_EQ(train, Sequence(Play(Train * 200)));
}

TEST_F(Period, StaysKnownWhileOtherThingsAreCalled)
{
    Play(Train * 20 + Kinds(8, 40));

    EXPECT_EQ(7u, stp_period_calls(period_));
    EXPECT_EQ(1u, stp_period_share(period_, 2));
}

TEST_F(Period, IsFoundAnewWhenShapesChange)
{
    Play(Train * 300);

    for (uint64_t name = 20; name < 40; name++) {
        const Word step = Kinds(name, name);
        Play(step * 8);
        EXPECT_EQ(name, stp_period_calls(period_));
        EXPECT_THAT(Play(step * 50),
                    AllOf(SizeIs(50), Each(IsStep(static_cast<unsigned>(name),
                                                  name * 10.0))));
    }
}

TEST_F(Period, ForgetsTheOldestOfMoreThanItCanRemember)
{
    const unsigned train = Sequence(Play(Train * 20));

    for (uint64_t name : {20, 30}) {
        for (uint64_t i = 0; i < 3; i++)
            Play(Kinds(name + i, 5) * 20);
        EXPECT_EQ(train, Sequence(Play(Train * 20))) << "three others";
    }
    for (uint64_t i = 0; i < 4; i++)
        Play(Kinds(40 + i, 5) * 20);
    EXPECT_EQ(train + 11, Sequence(Play(Train * 20))) << "four others";
}

TEST_F(Period, LeavesOutStepsThatAPauseMadeLong)
{
    Play(Train * 20);

    for (size_t pauses = 1; pauses < 10; pauses++) {
        now_ns_ += 10'000'000'000;
        EXPECT_THAT(Play(Train * 5), Each(IsStep(7, 70)));
    }
    EXPECT_THAT(steps_, Each(IsStep(7, 70)));
}

TEST_F(Period, TakesFourTimesTheMedianForAPause)
{
    Play(Train * 20);
    EXPECT_THAT(Play(Train, 40), SizeIs(1));
    EXPECT_THAT(Play(A, 40), ElementsAre(IsStep(7, 280)));
    Play({Train.begin() + 1, Train.end()}, 40);
    EXPECT_THAT(Play(A, 41), IsEmpty());
}

TEST_F(Period, TakesALastingSlowdownForNoPause)
{
    Play(Train * 30, 10);

    EXPECT_THAT(Play(Train * 20 + A, 39), SizeIs(21)) << "below 4 times";
    const Word rest(Train.begin() + 1, Train.end());
    Play(rest + Train * 20 + A, 10);

    const auto steps = Play((rest + A) * 50, 1000);

    EXPECT_THAT(steps, AllOf(SizeIs(42), Each(IsStep(7, 7000))));
}

TEST_F(Period, LeavesOutAStepWhoseClockWentBack)
{
    Play(Train * 20);
    now_ns_ -= 1'000'000;

    EXPECT_THAT(Play(Train * 5), SizeIs(4));
}

// ---- a real job ----

TEST_F(Period, IsThatOfARealJob)
{
    std::ifstream file(STP_FIXTURES "/traces/h200x4_torch_ddp_resnet50.csv");
    std::map<std::string, uint64_t> names;
    std::string line;

    while (std::getline(file, line)) {
        if (line[0] == '#' || line[0] == 't')
            continue;
        std::istringstream fields(line);
        std::string t_ns, comm, n_ranks, coll, bytes;
        for (std::string *field : {&t_ns, &comm, &n_ranks, &coll, &bytes})
            std::getline(fields, *field, ',');
        Call(names.emplace(coll + bytes, names.size()).first->second,
             std::stoull(t_ns));
    }

    EXPECT_EQ(282u, kinds_.size());
    EXPECT_EQ(7u, stp_period_calls(period_));
    EXPECT_EQ(1u, stp_period_share(period_, names["allreduce31506336"]));
    ASSERT_THAT(steps_, SizeIs(31)) << "of 40";
    std::sort(steps_.begin(), steps_.end(),
              [](auto &a, auto &b) { return a.us < b.us; });
    EXPECT_NEAR(26500, steps_[15].us, 500);
}

} // namespace
