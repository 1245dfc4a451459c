// Steps of a job whose calls are alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

extern "C" {
#include "core/learn/steps.h"
#include "core/rng.h"
}

namespace
{

class Steps : public testing::Test
{
  protected:
    Steps()
    {
        EXPECT_EQ(STP_OK, stp_steps_open(&steps_, nullptr));
    }
    ~Steps() override
    {
        stp_steps_close(steps_);
    }

    // A step of 'n' calls: a pause, and then one after the other.
    void Play(int n_steps, int n, double pause_us, double gap_us,
              unsigned kinds = 1)
    {
        for (int s = 0; s < n_steps; s++)
            for (int c = 0; c < n; c++) {
                double us = c == 0 ? pause_us : gap_us;
                us *= 0.8 + 0.4 * stp_rng_unit(7, draw_++);
                t_ns_ += static_cast<uint64_t>(us * 1e3);
                stp_step step;
                if (stp_steps_call(steps_, c % kinds, t_ns_, &step))
                    seen_.push_back(step);
            }
    }

    stp_steps *steps_ = nullptr;
    uint64_t t_ns_ = 1000000;
    uint64_t draw_ = 0;
    std::vector<stp_step> seen_;
};

TEST_F(Steps, OfManyEqualCallsBeginBehindThePauses)
{
    Play(40, 24, 5000, 150);

    ASSERT_FALSE(seen_.empty());
    EXPECT_EQ(24u, seen_.back().n_calls);
    EXPECT_NEAR(5000 + 23 * 150, seen_.back().us, 1500);
    EXPECT_EQ(24u, stp_steps_share(steps_, 0));
}

TEST_F(Steps, OfTwoKindsInTurnAreTold)
{
    Play(40, 16, 8000, 200, 2); // all-gather, reduce-scatter, eight times

    ASSERT_FALSE(seen_.empty());
    EXPECT_EQ(16u, seen_.back().n_calls);
    EXPECT_EQ(8u, stp_steps_share(steps_, 0));
    EXPECT_EQ(8u, stp_steps_share(steps_, 1));
}

TEST_F(Steps, WithoutPausesTheOrderDecides)
{
    Play(40, 5, 1000, 1000, 5);

    ASSERT_FALSE(seen_.empty());
    EXPECT_EQ(5u, seen_.back().n_calls);
    EXPECT_EQ(1u, stp_steps_share(steps_, 3));
    EXPECT_EQ(0u, stp_steps_share(steps_, 5));
}

TEST_F(Steps, OfOneCallAreSteps)
{
    Play(200, 1, 1000, 1000);

    ASSERT_FALSE(seen_.empty());
    EXPECT_EQ(1u, seen_.back().n_calls);
}

TEST_F(Steps, OfTheOneAndTheOtherKindHaveNumbersOfTheirOwn)
{
    Play(200, 24, 5000, 150);

    // first every call seems to be one, then not any more
    ASSERT_LT(100u, seen_.size());
    EXPECT_EQ(1u, seen_.front().n_calls);
    EXPECT_NE(seen_.front().sequence, seen_.back().sequence);
    for (size_t i = seen_.size() - 100; i < seen_.size(); i++)
        EXPECT_EQ(seen_.back().sequence, seen_[i].sequence);
}

} // namespace
