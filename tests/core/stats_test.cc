#include <gtest/gtest.h>

#include <cmath>
#include <vector>

extern "C" {
#include "core/rng.h"
#include "core/stats.h"
}

namespace
{

TEST(Summary, SortsAndInterpolatesPercentiles)
{
    const struct {
        std::vector<double> values;
        double mean, median, p95, p99, min;
    } cases[] = {
        {{5, 1, 4, 2, 3}, 3, 3, 4.8, 4.96, 1},
        {{3, 1}, 2, 2, 2.9, 2.98, 1},
    };
    double one = 7;
    stp_summary single;

    stp_summarise(&one, 1, &single);
    EXPECT_EQ(7, single.median);
    EXPECT_EQ(7, single.min);
    EXPECT_TRUE(std::isnan(single.p95) && std::isnan(single.p99));
    for (const auto &c : cases) {
        std::vector<double> values = c.values;
        stp_summary s;

        stp_summarise(values.data(), values.size(), &s);

        EXPECT_DOUBLE_EQ(c.mean, s.mean);
        EXPECT_DOUBLE_EQ(c.median, s.median);
        EXPECT_DOUBLE_EQ(c.p95, s.p95);
        EXPECT_DOUBLE_EQ(c.p99, s.p99);
        EXPECT_DOUBLE_EQ(c.min, s.min);
    }
}

TEST(Stddev, DividesByOneLessThanTheCount)
{
    const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};

    EXPECT_DOUBLE_EQ(std::sqrt(32.0 / 7), stp_stddev(values, 8));
    EXPECT_EQ(0, stp_stddev(values, 1));
    EXPECT_DOUBLE_EQ(std::sqrt(2.), stp_stddev(values, 2));
}

// As times since 1970 in nanoseconds do.
TEST(Stddev, OfLargeValuesIsThatOfTheirDifferences)
{
    const double values[] = {1e15, 1e15 + 1, 1e15 + 1};

    EXPECT_NEAR(std::sqrt(1. / 3), stp_stddev(values, 3), .01);
}

TEST(RobustStddev, IsOfTheMostAndNotOfTheFarthest)
{
    double one[] = {2};
    double sizes[] = {0.5, 100, 0.1, 1, 2};

    EXPECT_DOUBLE_EQ(2 * 1.4826, stp_robust_stddev(one, 1));
    EXPECT_DOUBLE_EQ(1.4826, stp_robust_stddev(sizes, 5));
}

TEST(StudentsT, AgreesWithTables)
{
    const struct {
        size_t df;
        double exact; // from tables of Student's distribution
    } cases[] = {{1, 12.7062}, {3, 3.1824},   {4, 2.7764},
                 {20, 2.0860}, {21, 2.0796},  {30, 2.0423},
                 {60, 2.0003}, {120, 1.9799}, {100000, 1.9600}};

    for (const auto &c : cases)
        EXPECT_NEAR(c.exact, stp_t975(c.df), 1e-4) << c.df;
    EXPECT_EQ(2.0860, stp_t975(20)); // the last of the table
}

TEST(PairedGain, IsTheGeometricMeanWithStudentsInterval)
{
    const double baseline[] = {110, 121, 110, 121};
    const double times[] = {100, 110, 100, 100};
    // ratios 1.1 1.1 1.1 1.21: the logarithms are l l l 2l with l = ln 1.1,
    // mean 1.25 l, standard deviation l / 2, standard error l / 4.
    const double l = std::log(1.1);

    stp_gain g = stp_paired_gain(baseline, times, 4);

    EXPECT_NEAR(std::exp(1.25 * l), g.gain, 1e-12);
    EXPECT_NEAR(std::exp(1.25 * l - 3.1824 * l / 4), g.low, 1e-12);
    EXPECT_NEAR(std::exp(1.25 * l + 3.1824 * l / 4), g.high, 1e-12);
    EXPECT_EQ(4u, g.n_pairs);
}

TEST(PairedGain, KnowsNothingOfTheErrorOfOnePair)
{
    const double baseline = 120;
    const double time = 100;

    stp_gain g = stp_paired_gain(&baseline, &time, 1);

    EXPECT_NEAR(1.2, g.gain, 1e-12);
    EXPECT_EQ(0, g.low);
    EXPECT_TRUE(std::isinf(g.high));
}

// The interval of two equal arms must hold 1 in 95 of 100 repetitions.
TEST(PairedGain, CoversTheTruthAsOftenAsItSays)
{
    const int n_trials = 20000;
    int covered = 0;

    for (int trial = 0; trial < n_trials; trial++) {
        double baseline[6];
        double times[6];

        for (int i = 0; i < 6; i++) {
            // Sum of uniforms: near enough to normal, 1 percent wide.
            double noise[2] = {0, 0};
            for (uint64_t k = 0; k < 24; k++)
                noise[k % 2] += stp_rng_unit(trial, i * 24 + k) - 0.5;
            baseline[i] = 100 * std::exp(0.01 * noise[0]);
            times[i] = 100 * std::exp(0.01 * noise[1]);
        }
        stp_gain g = stp_paired_gain(baseline, times, 6);
        covered += g.low <= 1 && 1 <= g.high;
    }

    EXPECT_NEAR(0.95, static_cast<double>(covered) / n_trials, 0.006);
}

TEST(Rng, DependsOnSeedAndCounterOnly)
{
    EXPECT_EQ(stp_rng(0, 5), stp_rng(0, 5));
    EXPECT_NE(stp_rng(0, 5), stp_rng(0, 6));
    EXPECT_NE(stp_rng(0, 5), stp_rng(1, 5));
    // Computed independently of the C code.
    EXPECT_EQ(UINT64_C(0xa706dd2f4d197e6f), stp_rng(0, 0));
}

TEST(Rng, IsUniformInTheUnitInterval)
{
    double sum = 0;
    double squares = 0;
    const int n = 100000;

    for (int i = 0; i < n; i++) {
        double x = stp_rng_unit(3, i);
        ASSERT_GE(x, 0);
        ASSERT_LT(x, 1);
        sum += x;
        squares += x * x;
    }

    EXPECT_NEAR(0.5, sum / n, 0.005);
    EXPECT_NEAR(1.0 / 3, squares / n, 0.005);
}

} // namespace
