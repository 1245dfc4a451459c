// Windows of equal work: what their times say, and how long they should be.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

extern "C" {
#include "core/learn/windows.h"
}

#include "core/learn/noise.h"

namespace
{

struct Free {
    void operator()(stp_windows *windows) const
    {
        stp_windows_free(windows);
    }
};
using Windows = std::unique_ptr<stp_windows, Free>;

stp_trial Trial(uint64_t first_call, unsigned n_blocks = 2,
                unsigned n_calls = 10)
{
    stp_trial trial{};

    trial.key = 3;
    trial.arm = 5;
    trial.n_blocks = n_blocks;
    trial.n_calls = n_calls;
    trial.first_call = first_call;
    return trial;
}

// A call whose trial begins with the arm in the outer windows, or the inner.
uint64_t FirstCall(bool is_outer)
{
    uint64_t call = 100;

    while (stp_trial_is_arm(call, 0, 0) != is_outer)
        call++;
    return call;
}

// ---- the order of a trial ----

TEST(Trial, RunsTheArmInTwoWindowsOfEachBlockInBalancedOrder)
{
    std::set<std::vector<bool>> orders;
    unsigned n_outer = 0;

    for (uint64_t call = 0; call < 1000; call++)
        for (unsigned block = 0; block < STP_TRIAL_BLOCKS; block++) {
            std::vector<bool> is_arm;

            for (unsigned i = 0; i < STP_BLOCK_WINDOWS; i++)
                is_arm.push_back(
                    stp_trial_is_arm(call, 0, block * STP_BLOCK_WINDOWS + i));
            n_outer += is_arm[0];
            orders.insert(is_arm);
        }

    EXPECT_EQ(orders,
              (std::set<std::vector<bool>>{{false, true, true, false},
                                           {true, false, false, true}}));
    EXPECT_NEAR(4000, n_outer, 200);
}

// ---- blocks ----

// Gives the windows of a trial their times, of 'us' each, from 'ns' on.
void Give(const Windows &windows, const stp_trial &trial,
          const std::vector<double> &us, std::set<unsigned> lost = {},
          double ns = 1e9)
{
    for (unsigned i = 0; i <= us.size(); i++) {
        if (lost.count(i) == 0)
            stp_windows_time(windows.get(),
                             trial.first_call + uint64_t(i) * trial.n_calls,
                             uint64_t(std::llround(ns)));
        if (i < us.size())
            ns += us[i] * 1e3;
    }
}

TEST(Windows, CompareTheArmWithTheIncumbent)
{
    const struct {
        const char *name;
        bool is_outer; // the arm runs in the outer windows
        std::vector<double> us;
        double own_us, arm_us;
    } cases[] = {
        {"the arm is faster", false, {100, 80, 80, 100}, 100, 80},
        {"also where it comes first", true, {80, 100, 100, 80}, 100, 80},
        {"drift cancels", false, {100, 110, 120, 130}, 115, 115},
        {"in either order", true, {100, 110, 120, 130}, 115, 115},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Windows windows(stp_windows_new());
        stp_trial trial = Trial(FirstCall(c.is_outer), 1);
        stp_block block;

        ASSERT_TRUE(stp_windows_begin(windows.get(), &trial));
        EXPECT_FALSE(stp_windows_next(windows.get(), 0, &block));
        Give(windows, trial, c.us);
        ASSERT_TRUE(stp_windows_next(windows.get(), 0, &block));
        EXPECT_TRUE(block.is_complete);
        EXPECT_TRUE(block.is_last);
        EXPECT_EQ(5u, block.trial.arm);
        EXPECT_EQ(trial.first_call, block.first_call);
        EXPECT_NEAR(c.own_us, block.own_us, 1e-9);
        EXPECT_NEAR(c.arm_us, block.arm_us, 1e-9);
        EXPECT_NEAR(std::log(c.own_us / c.arm_us), block.gain, 1e-9);
        EXPECT_NEAR(std::log(c.us[0] / c.us[3]), block.spread[c.is_outer],
                    1e-9);
        EXPECT_NEAR(std::log(c.us[1] / c.us[2]), block.spread[!c.is_outer],
                    1e-9);
        EXPECT_FALSE(stp_windows_next(windows.get(), 0, &block));
        EXPECT_EQ(0u, stp_windows_pending(windows.get()));
    }
}

// Four keys try arms in the same windows, whose gains add up.
class SharedWindows : public testing::Test
{
  protected:
    static constexpr double kGains[] = {.3, -.2, .004, 0};

    SharedWindows()
    {
        for (unsigned i = 0; i < 4; i++) {
            trials_.push_back(Trial(100, STP_TRIAL_BLOCKS));
            trials_[i].key = i;
            trials_[i].pattern = stp_trial_pattern(i) ^ 5;
        }
        Begin(4);
        us_ = Times(4);
    }

    // Windows in which the first trials gain.
    std::vector<double> Times(unsigned n) const
    {
        std::vector<double> us;
        for (unsigned w = 0; w < STP_TRIAL_BLOCKS * STP_BLOCK_WINDOWS; w++) {
            double log_us = std::log(100) + .001 * w; // a drift
            for (unsigned i = 0; i < n; i++)
                if (stp_trial_is_arm(100, trials_[i].pattern, w))
                    log_us -= kGains[i];
            us.push_back(std::exp(log_us));
        }
        return us;
    }

    // The gains of each trial's blocks that are complete.
    std::vector<std::vector<double>> Take()
    {
        std::vector<std::vector<double>> gains(4);
        stp_block block;

        while (stp_windows_next(windows_.get(), 0, &block))
            if (block.is_complete)
                gains[block.trial.key].push_back(block.gain);
        return gains;
    }

    void Begin(unsigned n)
    {
        windows_.reset(stp_windows_new());
        for (unsigned k = 0; k < n; k++)
            stp_windows_begin(windows_.get(), &trials_[k]);
    }

    // All in at least as many blocks, or none.
    void ExpectGains(unsigned n, const std::vector<std::vector<double>> &gains,
                     size_t least, size_t most)
    {
        for (unsigned k = 0; k < n; k++) {
            ASSERT_EQ(gains[0].size(), gains[k].size());
            ASSERT_TRUE(least <= gains[k].size() && gains[k].size() <= most);
            if (!gains[k].empty())
                EXPECT_NEAR(kGains[k], MeanOf(gains[k]), 5e-3) << n << k;
        }
        EXPECT_EQ(0u, stp_windows_pending(windows_.get()));
    }

    static double MeanOf(const std::vector<double> &values)
    {
        return std::accumulate(values.begin(), values.end(), 0.) /
               double(values.size());
    }

    Windows windows_{stp_windows_new()};
    std::vector<stp_trial> trials_;
    std::vector<double> us_;
};

TEST_F(SharedWindows, TellTheGainOfEach)
{
    Give(windows_, trials_[0], us_);
    ExpectGains(4, Take(), 8, 8);
}

TEST_F(SharedWindows, AreToldTogetherOnceAllTimesAreThere)
{
    for (unsigned i = 0; i <= us_.size(); i++) {
        EXPECT_THAT(Take()[0], testing::IsEmpty());
        stp_windows_time(windows_.get(), 100 + i * 10, 1000000 + i * 100000);
    }
    EXPECT_EQ(8u, Take()[0].size());
}

// A block that stalls hit is left out for all, and the others tell the gains
// apart nevertheless, whichever they are.
TEST_F(SharedWindows, LeaveOutBlocksThatStallsHit)
{
    for (unsigned i = 0; i < 2 * STP_TRIAL_BLOCKS; i++) {
        const unsigned stalled = i / 2;
        std::vector<double> us = us_;
        us[4 * stalled + stalled % 4] += 70;
        us[4 * stalled + 3 - stalled % 4] += i % 2 * 70; // both alike
        Begin(4);
        Give(windows_, trials_[0], us);
        ExpectGains(4, Take(), 7, 7);
    }
}

// Whichever blocks are whole: the gains of two to four trials, or nothing.
TEST_F(SharedWindows, SayNothingWhereTooFewAreWholeToTellThemApart)
{
    for (unsigned n = 2; n <= 4; n++)
        for (unsigned whole = 0; whole < 1 << STP_TRIAL_BLOCKS; whole++) {
            const auto n_whole = unsigned(__builtin_popcount(whole));
            SCOPED_TRACE(whole);
            Begin(n);
            for (unsigned b = 0; b < STP_TRIAL_BLOCKS; b++)
                if ((whole >> b & 1) == 0)
                    stp_windows_break(windows_.get(), 100 + b * 40 + b);
            Give(windows_, trials_[0], Times(n));
            ExpectGains(n, Take(), n_whole < 6 ? 0 : n_whole, n_whole);
        }
}

// As if each had windows of its own, with as much noise.
TEST_F(SharedWindows, HaveTheNoiseOfTheirBlocks)
{
    double squares = 0;
    size_t n = 0;

    for (unsigned run = 0; run < 200; run++) {
        std::vector<double> us = us_;
        for (size_t w = 0; w < us.size(); w++)
            us[w] *= std::exp(.002 * Noise(run, w));
        Begin(4);
        Give(windows_, trials_[0], us);
        for (const std::vector<double> &gains : Take())
            for (double gain : gains) {
                squares += (gain - MeanOf(gains)) * (gain - MeanOf(gains)) *
                           double(gains.size()) / double(gains.size() - 1);
                n++;
            }
    }
    EXPECT_NEAR(.002, std::sqrt(squares / double(n)), .0001);
}

// The second of two windows in a row counts, without the calls between.
TEST(Windows, OfATwofoldTrialAreTheLastOfEachTurn)
{
    const struct {
        std::vector<unsigned> odd; // windows of 10 calls, for each odd one
        double us[4];
        bool is_complete;
        double own_us, arm_us;
    } cases[] = {
        {{}, {100, 80, 82, 102}, true, 101, 81},
        {{0, 2, 6}, {100, 80, 82, 102}, true, 101, 81},
        {{1, 1}, {8 * 10 + 2 * 30, 80, 82, 100}, true, 100, 81},
        {{1, 3}, {9 * 10 + 30, 9 * 8 + 30, 80, 100}, true, 100, 80},
        {{1, 3, 5, 7}, {100, 80, 82, 102}, false, 0, 0}, // not told apart
        {{1, 7}, {130, 80, 82, 132}, false, 0, 0},       // likewise
        {{1, 1, 1, 1, 1, 1}, {40 + 180, 80, 82, 100}, false, 0, 0},
    };
    stp_trial trial = Trial(FirstCall(false), 1);

    trial.is_twofold = true;
    EXPECT_EQ(8u, stp_trial_windows(&trial));
    for (const auto &c : cases) {
        Windows windows(stp_windows_new());
        stp_block block;

        ASSERT_TRUE(stp_windows_begin(windows.get(), &trial));
        for (unsigned window : c.odd)
            stp_windows_break(windows.get(), trial.first_call + window * 10);
        Give(windows, trial, {1, c.us[0], 2, c.us[1], 3, c.us[2], 4, c.us[3]});
        ASSERT_TRUE(stp_windows_next(windows.get(), 0, &block));
        SCOPED_TRACE(&c - cases);
        EXPECT_EQ(c.is_complete, block.is_complete);
        EXPECT_TRUE(block.is_last);
        EXPECT_EQ(trial.first_call, block.first_call);
        if (!c.is_complete)
            continue;
        EXPECT_NEAR(c.own_us, block.own_us, 1e-9);
        EXPECT_NEAR(c.arm_us, block.arm_us, 1e-9);
        EXPECT_NEAR(std::log(c.own_us / c.arm_us), block.gain, 1e-9);
    }
    trial.n_blocks = STP_TRIAL_BLOCKS;
    EXPECT_FALSE(stp_windows_begin(Windows(stp_windows_new()).get(), &trial));
}

TEST(Windows, AreReadInOrderWhenTheirTimesArriveLate)
{
    Windows windows(stp_windows_new());
    stp_trial first = Trial(100), second = Trial(300);
    stp_block block;
    std::vector<uint64_t> calls;

    ASSERT_TRUE(stp_windows_begin(windows.get(), &first));
    ASSERT_TRUE(stp_windows_begin(windows.get(), &second));
    EXPECT_FALSE(stp_windows_next(windows.get(), 0, &block));
    Give(windows, first, std::vector<double>(8, 50));
    Give(windows, second, std::vector<double>(8, 50));
    while (stp_windows_next(windows.get(), 0, &block)) {
        EXPECT_TRUE(block.is_complete);
        calls.push_back(block.first_call);
    }

    EXPECT_THAT(calls, testing::ElementsAre(100, 140, 300, 340));
}

TEST(Windows, WithALostTimeEndOnceLaterOnesArrive)
{
    Windows windows(stp_windows_new());
    stp_trial trial = Trial(100, 3);
    stp_block block;
    std::vector<bool> is_complete;

    ASSERT_TRUE(stp_windows_begin(windows.get(), &trial));
    Give(windows, trial, std::vector<double>(8, 50), {2});
    EXPECT_FALSE(stp_windows_next(windows.get(), 0, &block)) << "may be late";
    Give(windows, trial, std::vector<double>(12, 50), {2});
    while (stp_windows_next(windows.get(), 0, &block))
        is_complete.push_back(block.is_complete);

    EXPECT_THAT(is_complete, testing::ElementsAre(false, true, true));
}

TEST(Windows, WithoutOneOfTheirTimesAreNotComplete)
{
    for (unsigned lost = 0; lost <= STP_BLOCK_WINDOWS; lost++) {
        SCOPED_TRACE(lost);
        Windows windows(stp_windows_new());
        stp_trial trial = Trial(100, 1);
        stp_block block;

        ASSERT_TRUE(stp_windows_begin(windows.get(), &trial));
        Give(windows, trial, {50, 50, 50, 50}, {lost});
        EXPECT_FALSE(stp_windows_next(windows.get(), 0, &block));
        ASSERT_TRUE(stp_windows_next(windows.get(), 10000, &block));
        EXPECT_FALSE(block.is_complete);
        EXPECT_EQ(0, block.own_us);
        EXPECT_EQ(0, block.arm_us);
        EXPECT_EQ(0, block.gain);
        EXPECT_EQ(0, block.spread[0]);
        EXPECT_EQ(0, block.spread[1]);
    }
}

TEST(Windows, BeginOnlyAtCallsThatAreMultiplesOfTheirLength)
{
    Windows windows(stp_windows_new());
    stp_trial trial = Trial(FirstCall(false), 1);
    stp_block block;

    ASSERT_TRUE(stp_windows_begin(windows.get(), &trial));
    Give(windows, trial, {100, 80, 80, 100});
    for (int64_t at : {-10, -1, 1, 9, 11, 39, 41, 50})
        stp_windows_time(windows.get(), trial.first_call + uint64_t(at), 77);
    ASSERT_TRUE(stp_windows_next(windows.get(), 0, &block));
    EXPECT_NEAR(100, block.own_us, 1e-9);
    EXPECT_NEAR(80, block.arm_us, 1e-9);
}

TEST(Windows, OfOneTrialAfterAnotherNeverRunOutOfRoom)
{
    Windows windows(stp_windows_new());

    for (uint64_t i = 0; i < 3 * STP_WINDOWS_TRIALS; i++) {
        stp_trial trial = Trial(1000 * i, 1);
        stp_block block;

        ASSERT_TRUE(stp_windows_begin(windows.get(), &trial));
        EXPECT_EQ(i > 0 ? 2u : 1u, stp_windows_pending(windows.get()));
        if (i == 0) // waits with the next
            continue;
        trial = Trial(1000 * (i - 1), 1);
        Give(windows, trial, {50, 50, 50, double(50 + i)});
        ASSERT_TRUE(stp_windows_next(windows.get(), 0, &block));
        EXPECT_TRUE(block.is_complete);
        EXPECT_EQ(1000 * (i - 1), block.first_call);
        EXPECT_EQ(1u, stp_windows_pending(windows.get()));
    }
}

TEST(Windows, WithoutAnyTimeEndWhenItIsTooLate)
{
    Windows windows(stp_windows_new());
    stp_trial trial = Trial(100, 1);
    stp_block block;

    ASSERT_TRUE(stp_windows_begin(windows.get(), &trial));
    EXPECT_FALSE(stp_windows_next(windows.get(), 140, &block));
    ASSERT_TRUE(stp_windows_next(windows.get(), 141, &block));
    EXPECT_FALSE(block.is_complete);
    EXPECT_TRUE(block.is_last);
}

TEST(Windows, WhoseClockRunsBackwardsAreNotComplete)
{
    Windows windows(stp_windows_new());
    stp_trial trial = Trial(100, 1);
    stp_block block;

    for (double us : {-60, 0}) { // nor those that take no time
        ASSERT_TRUE(stp_windows_begin(windows.get(), &trial));
        Give(windows, trial, {50, 50, us, 50});
        ASSERT_TRUE(stp_windows_next(windows.get(), 10000, &block));
        EXPECT_FALSE(block.is_complete);
    }
}

TEST(Windows, BeyondTheirRoomAreRefused)
{
    Windows windows(stp_windows_new());
    stp_trial trial = Trial(100, STP_TRIAL_BLOCKS + 1);

    EXPECT_FALSE(stp_windows_begin(windows.get(), &trial));
    trial = Trial(100, 1, 0);
    EXPECT_FALSE(stp_windows_begin(windows.get(), &trial)) << "of no calls";
    EXPECT_EQ(0u, stp_windows_pending(windows.get()));
    for (unsigned i = 0; i < STP_WINDOWS_TRIALS; i++) {
        trial = Trial(1000 * (i + 1));
        EXPECT_TRUE(stp_windows_begin(windows.get(), &trial));
    }
    EXPECT_FALSE(stp_windows_begin(windows.get(), &trial));
}

// ---- how long a window should be ----

// The window of 512 calls, 'run' in a row of which are alike, and the time of
// each 'known'th of which is known; of no calls if there is none.
stp_window_choice Choose(size_t sequence,
                         const std::function<double(size_t)> &us,
                         size_t run = 512, size_t known = 1)
{
    std::vector<uint64_t> ns;
    std::vector<uint16_t> runs;
    stp_window_choice choice{};
    double now = 1e9;

    for (size_t i = 0; i < 512; i++) {
        ns.push_back(i % known == known - 1 ? uint64_t(now) : 0);
        runs.push_back(uint16_t(i % run + 1));
        now += us(i) * 1e3;
    }
    EXPECT_EQ(
        stp_windows_choose(ns.data(), runs.data(), 512, sequence, &choice),
        choice.n_calls > 0);
    return choice;
}

TEST(Window, HasTheRhythmOfTheJob)
{
    const stp_window_choice choice = Choose(1, [](size_t i) {
        return 100 + Noise(1, i) + (i % 24 == 23 ? 2000 : 0);
    });

    EXPECT_EQ(24u, choice.n_calls);
    EXPECT_NEAR(183, choice.call_us, 1);
    EXPECT_LT(choice.noise, .002);
}

TEST(Window, WhereGpusStandStillHasTheNoiseWithoutThatToo)
{
    const stp_window_choice choice = Choose(12, [](size_t i) {
        return 100 + Noise(1, i) + (i % 140 == 77 ? 8000 : 0);
    });

    EXPECT_GT(choice.n_calls, 0u);
    EXPECT_LT(choice.noise, .01);
    EXPECT_GT(choice.all_noise, .2);
}

TEST(Window, IsAMultipleOfTheSequence)
{
    const stp_window_choice choice = Choose(
        7, [](size_t i) { return (i % 7 == 0 ? 900 : 100) + Noise(1, i); });

    EXPECT_GT(choice.n_calls, 0u);
    EXPECT_EQ(0u, choice.n_calls % 7);
    EXPECT_LT(choice.noise, .01);
}

TEST(Window, IsLongerWhereCallsAreShort)
{
    const auto brief =
        Choose(1, [](size_t i) { return 10 + .1 * Noise(1, i); });
    const auto slow =
        Choose(1, [](size_t i) { return 1000 + 10 * Noise(1, i); });

    EXPECT_GT(slow.n_calls, 0u);
    EXPECT_GT(brief.n_calls, 10 * slow.n_calls);
}

// A run has 5 sequences of 10 calls, and is one block.
TEST(Window, IsChosenByBlocksOfManyRunsBetweenOtherCalls)
{
    const auto us = [](size_t i) {
        return 100 + Noise(1, i) + (i % 51 == 50 ? 5000 : 0);
    };
    const stp_window_choice choice = Choose(10, us, 51);

    EXPECT_EQ(10u, choice.n_calls);
    EXPECT_NEAR(100, choice.call_us, 1);
    EXPECT_LT(choice.all_noise, .01);
    EXPECT_EQ(0u, Choose(10, us, 40).n_calls) << "without a whole block";
}

TEST(Window, IsNotChosenByTooFewTimes)
{
    const auto us = [](size_t) { return 100; };

    EXPECT_EQ(0u, Choose(1, us, 512, 1000).n_calls);
    EXPECT_EQ(0u, Choose(60, us).n_calls);
    EXPECT_EQ(2u, Choose(1, us, 512, 2).n_calls);
}

} // namespace
