// Whether steps got shorter, by pairs of blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

extern "C" {
#include "core/learn/confirm.h"
#include "core/rng.h"
}

namespace
{

// Plays steps until the verdict: 'gain' times as fast with the arm, each with
// noise of 'sigma'.
class Confirm : public testing::Test
{
  protected:
    stp_confirm_state Play(double gain, double sigma, uint64_t seed,
                           double expected = 0.05)
    {
        stp_confirm_begin(&confirm_, expected);
        steps_ = 0;
        while (confirm_.state == STP_CONFIRM_OPEN) {
            double noise = 1.0;
            for (int i = 0; i < 12; i++) // near a normal distribution
                noise += sigma * (stp_rng_unit(seed, steps_ * 12 + i) - 0.5);
            double us = 1000.0 * noise / (confirm_.is_arm ? gain : 1.0);
            if (stp_confirm_step(&confirm_, us))
                stp_confirm_switch(&confirm_, !confirm_.is_arm);
            steps_++;
        }
        return confirm_.state;
    }

    stp_confirm confirm_{};
    uint64_t steps_ = 0;
};

TEST_F(Confirm, TellsAClearGainAfterTheFirstFivePairs)
{
    EXPECT_EQ(STP_CONFIRM_SHORTER, Play(1.05, 0.005, 1));
    EXPECT_EQ(5u * 2 * STP_CONFIRM_BLOCK, steps_);

    double gain, low, high;
    stp_confirm_gain(&confirm_, &gain, &low, &high);
    EXPECT_NEAR(1.05, gain, 0.005);
    EXPECT_LT(1.04, low);
    EXPECT_GT(1.06, high);
}

TEST_F(Confirm, TellsAClearLoss)
{
    EXPECT_EQ(STP_CONFIRM_LONGER, Play(0.97, 0.005, 2));
}

TEST_F(Confirm, OneSlowStepInABlockDecidesNothing)
{
    stp_confirm_begin(&confirm_, 0.05);
    for (uint64_t i = 0; confirm_.state == STP_CONFIRM_OPEN; i++) {
        double us = confirm_.is_arm ? 950.0 : 1000.0;
        if (i % STP_CONFIRM_BLOCK == 3)
            us = 50000.0;
        if (stp_confirm_step(&confirm_, us))
            stp_confirm_switch(&confirm_, !confirm_.is_arm);
    }
    EXPECT_EQ(STP_CONFIRM_SHORTER, confirm_.state);
}

TEST_F(Confirm, OfNothingItFindsNothing)
{
    int n_told = 0;

    for (uint64_t seed = 0; seed < 200; seed++)
        n_told += Play(1.0, 0.02, seed, 0.02) != STP_CONFIRM_NOISY;
    EXPECT_GE(10, n_told); // eight looks at 99.5
}

TEST_F(Confirm, SaysHowManyStepsANoisyJobWouldTake)
{
    EXPECT_EQ(STP_CONFIRM_NOISY, Play(1.01, 0.2, 3, 0.01));
    EXPECT_EQ(5u * 2 * STP_CONFIRM_BLOCK, steps_); // and does not go on
    EXPECT_LT(10000u, stp_confirm_needed(&confirm_));
    EXPECT_GT(200000u, stp_confirm_needed(&confirm_));
}

TEST_F(Confirm, KnowsNothingBeforeThereAreTwoPairs)
{
    double gain, low, high;

    stp_confirm_begin(&confirm_, 0.05);
    stp_confirm_gain(&confirm_, &gain, &low, &high);
    EXPECT_EQ(1.0, gain);
    EXPECT_EQ(0.0, low);
    EXPECT_TRUE(std::isinf(high));
    EXPECT_EQ(UINT64_MAX, stp_confirm_needed(&confirm_));
}

} // namespace
