// Whole runs of a job, compared: the order of runs, what a ratio is made of,
// and how often an interval is right.
#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <vector>

extern "C" {
#include "analyse/jobs/runs.h"
}

namespace
{

using testing::ElementsAre;

std::vector<unsigned> Order(unsigned round, unsigned n_arms)
{
    std::vector<unsigned> order;
    for (unsigned place = 0; place < 2 * n_arms; place++)
        order.push_back(stp_job_arm_at(round, place, n_arms));
    return order;
}

TEST(JobRuns, TakeTurnsThereAndBack)
{
    EXPECT_THAT(Order(0, 2), ElementsAre(0, 1, 1, 0));
    EXPECT_THAT(Order(1, 2), ElementsAre(1, 0, 0, 1));
    EXPECT_THAT(Order(2, 3), ElementsAre(0, 1, 2, 2, 1, 0));
    EXPECT_THAT(Order(3, 3), ElementsAre(2, 1, 0, 0, 1, 2));
}

// Runs of complete rounds, each of the time that 'time' gives it.
template <typename Time>
std::vector<stp_job_run> Rounds(unsigned n_rounds, unsigned n_arms, Time time)
{
    std::vector<stp_job_run> runs;
    for (unsigned round = 0; round < n_rounds; round++)
        for (unsigned place = 0; place < 2 * n_arms; place++) {
            stp_job_run run{};
            run.round = round;
            run.place = place;
            run.arm = stp_job_arm_at(round, place, n_arms);
            run.step = time(run, runs.size());
            run.wall_s = 60;
            run.calls = 12;
            run.loss = NAN;
            runs.push_back(run);
        }
    return runs;
}

std::vector<stp_job_arm> Sum(const std::vector<stp_job_run> &runs,
                             unsigned n_arms, size_t *n_rounds = nullptr,
                             stp_job_measure measure = STP_JOB_GPU)
{
    std::vector<stp_job_arm> arms(n_arms);
    const size_t n = stp_job_runs_sum(runs.data(), runs.size(), measure, n_arms,
                                      arms.data());
    if (n_rounds != nullptr)
        *n_rounds = n;
    return arms;
}

TEST(JobRuns, GiveTheRatioOfTheMeansOfEachRound)
{
    // ABBA: 100 80 120 100, BAAB: 150 120 180 150
    const double times[] = {100, 80, 120, 100, 150, 120, 180, 150};
    size_t n_rounds = 0;

    const auto arms = Sum(
        Rounds(2, 2, [&](const stp_job_run &, size_t i) { return times[i]; }),
        2, &n_rounds);

    EXPECT_EQ(2u, n_rounds);
    EXPECT_EQ(4u, arms[1].n_runs);
    EXPECT_DOUBLE_EQ(125, arms[0].time);
    EXPECT_DOUBLE_EQ(125, arms[1].time);
    EXPECT_DOUBLE_EQ(1, arms[1].gain.gain);
    EXPECT_DOUBLE_EQ(1, arms[1].gain.low);
    EXPECT_DOUBLE_EQ(1, arms[0].gain.gain);
}

TEST(JobRuns, FindWhatIsFasterThroughAnyDrift)
{
    // The machine gets slower by a percent a run; arm 1 takes 0.8 of the time,
    // arm 2 as long as the baseline.
    const auto arms = Sum(Rounds(6, 3,
                                 [](const stp_job_run &run, size_t i) {
                                     return (run.arm == 1 ? 80 : 100) *
                                            (1 + 0.01 * static_cast<double>(i));
                                 }),
                          3);

    EXPECT_DOUBLE_EQ(1.25, arms[1].gain.gain);
    EXPECT_NEAR(1.25, arms[1].gain.low, 1e-9);
    EXPECT_DOUBLE_EQ(1, arms[2].gain.gain);
    EXPECT_NEAR(1, arms[2].gain.high, 1e-9);
}

TEST(JobRuns, LeaveOutRoundsThatAreNotComplete)
{
    auto runs = Rounds(3, 2, [](const stp_job_run &run, size_t) {
        return run.arm == 1 ? 50.0 : 100.0 + run.round;
    });
    size_t n_rounds = 0;
    runs.erase(runs.begin() + 5); // of the second round
    runs.pop_back();              // of the third

    const auto arms = Sum(runs, 2, &n_rounds);

    EXPECT_EQ(1u, n_rounds);
    EXPECT_EQ(2u, arms[0].n_runs);
    EXPECT_DOUBLE_EQ(100, arms[0].time);
    EXPECT_DOUBLE_EQ(2, arms[1].gain.gain);
    EXPECT_EQ(0, arms[1].gain.low);
    EXPECT_TRUE(std::isinf(arms[1].gain.high));
    EXPECT_EQ(0u, Sum({}, 2, &n_rounds)[0].n_runs);
    EXPECT_EQ(0u, n_rounds);
}

TEST(JobRuns, SumUpTheLossesThatWerePrinted)
{
    auto runs = Rounds(1, 2, [](const auto &, size_t) { return 1.0; });
    runs[1].loss = 2.5;
    runs[2].loss = 3.5;

    const auto arms = Sum(runs, 2);

    EXPECT_EQ(0u, arms[0].n_losses);
    EXPECT_TRUE(std::isnan(arms[0].loss));
    EXPECT_EQ(2u, arms[1].n_losses);
    EXPECT_EQ(3, arms[1].loss);
    EXPECT_EQ(2.5, arms[1].loss_min);
    EXPECT_EQ(3.5, arms[1].loss_max);
}

TEST(JobRuns, AreComparedByStepsOnlyIfAllHaveThoseOfTheSameCollectives)
{
    auto runs = Rounds(2, 2, [](const auto &, size_t) { return 1.0; });
    const char *why = nullptr;

    EXPECT_TRUE(stp_job_runs_have(runs.data(), 8, STP_JOB_GPU, &why));
    runs[3].calls = 24;
    EXPECT_FALSE(stp_job_runs_have(runs.data(), 8, STP_JOB_GPU, &why));
    EXPECT_STREQ("steps have other collectives in some runs", why);
    runs[3].step = 0;
    EXPECT_FALSE(stp_job_runs_have(runs.data(), 8, STP_JOB_GPU, &why));
    EXPECT_STREQ("a run has no times of steps", why);
    EXPECT_TRUE(stp_job_runs_have(runs.data(), 8, STP_JOB_WALL, &why));
}

// ---- how often an interval is right ----

const struct {
    const char *name;
    double white;  // sigma of a run's time, as a share of it
    double walk;   // sigma by which the machine changes from run to run
    double linear; // change from the first run to the last
    double period; // runs of a slow wave of 5 percent; 0: none
    unsigned n_rounds;
    unsigned n_arms;
    double gain; // of the last arm
} kNoises[] = {
    {"quiet", 0.002, 0, 0, 0, 4, 2, 1},
    {"loud", 0.03, 0, 0, 0, 4, 2, 1},
    {"many_rounds", 0.01, 0, 0, 0, 12, 2, 1},
    {"two_rounds", 0.01, 0, 0, 0, 2, 2, 1},
    {"drifts", 0.005, 0, 0.2, 0, 4, 2, 1},
    {"walks", 0.005, 0.01, 0, 0, 4, 2, 1},
    {"waves", 0.01, 0, 0, 37, 6, 2, 1},
    {"three_arms", 0.01, 0.005, 0.1, 0, 4, 3, 1},
    {"faster", 0.01, 0.005, 0.1, 0, 4, 2, 1.02},
    {"slower", 0.01, 0.005, 0.1, 0, 6, 3, 0.97},
};

// AUTO against AUTO: 95 of 100 intervals hold 1; of 2000, between 1860 and 1940
// do (five sigmas, and what is left of drift).
TEST(JobRuns, IntervalsHoldTheTruthNinetyFiveTimesInAHundred)
{
    constexpr int kTimes = 2000;

    for (const auto &c : kNoises) {
        std::mt19937_64 random(20261123);
        std::normal_distribution<double> normal;
        int n_right = 0;

        for (int i = 0; i < kTimes; i++) {
            double walk = 0;
            const double phase =
                std::uniform_real_distribution<double>(0, 6.2831853)(random);
            const size_t n = 2 * c.n_rounds * c.n_arms;
            const auto runs = Rounds(
                c.n_rounds, c.n_arms, [&](const stp_job_run &run, size_t at) {
                    const double along = static_cast<double>(at);
                    double log_time = c.white * normal(random);
                    walk += c.walk * normal(random);
                    log_time +=
                        walk + c.linear * along / static_cast<double>(n);
                    if (c.period > 0)
                        log_time +=
                            0.05 *
                            std::sin(6.2831853 * along / c.period + phase);
                    return 1e4 * std::exp(log_time) /
                           (run.arm + 1 == c.n_arms ? c.gain : 1);
                });
            const stp_gain gain = Sum(runs, c.n_arms).back().gain;
            n_right += gain.low <= c.gain && c.gain <= gain.high;
        }

        EXPECT_LE(1860, n_right) << c.name;
        EXPECT_GE(1945, n_right) << c.name;
        RecordProperty(c.name, n_right);
    }
}

} // namespace
