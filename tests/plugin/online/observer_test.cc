// What the launch path tells of calls, and which of them NCCL then launches.
#include <gtest/gtest.h>

#include <memory>

extern "C" {
#include "plugin/online/observer.h"
}

#include "core/learn/bandit_job.h"

namespace
{

struct Free {
    void operator()(stp_observer *observer) const
    {
        stp_observer_free(observer);
    }
};

class Observer : public testing::Test
{
  protected:
    void AskTimed(int n, uint64_t n_bytes = 1 << 20)
    {
        stp_observed_call call{};
        stp_query query{};

        call.policy_arm.algo = -1;
        call.is_timed = true;
        query.coll = ncclFuncAllReduce;
        query.n_bytes = n_bytes;
        for (int i = 0; i < n; i++)
            stp_observer_call(observer_.get(), &call, &query, &view_);
    }

    bool Launch(uint64_t n_bytes)
    {
        const stp_launch launch{ncclFuncAllReduce, n_bytes};
        uint32_t token;

        return stp_observer_launched(observer_.get(), &launch, &token);
    }

    unsigned Lead() const
    {
        return stp_observer_lead(observer_.get());
    }

    const bandit_job::Costs costs_;
    const stp_cost_view view_ = costs_.View();
    const stp_learner_rules rules_{};
    std::unique_ptr<stp_observer, Free> observer_{
        stp_observer_new(&rules_, nullptr)};
};

TEST_F(Observer, TurnsTheProfilerOnEarlierAfterEightTimedCallsWithoutALaunch)
{
    AskTimed(8);
    EXPECT_EQ(1u, Lead());
    AskTimed(1);
    EXPECT_EQ(2u, Lead());

    AskTimed(8);
    EXPECT_EQ(2u, Lead());
    AskTimed(1);
    EXPECT_EQ(4u, Lead());
}

TEST_F(Observer, CountsTimedCallsFromTheLastLaunchOn)
{
    for (int i = 0; i < 10; i++) {
        AskTimed(8);
        EXPECT_TRUE(Launch(1 << 20));
    }
    EXPECT_EQ(1u, Lead());

    EXPECT_FALSE(Launch(1 << 10)) << "nobody asked about it";
    AskTimed(9);
    EXPECT_EQ(2u, Lead());
}

TEST_F(Observer, TurnsTheProfilerOnAWindowEarlierAtMost)
{
    AskTimed(100000);

    EXPECT_GE(Lead(), unsigned{STP_WINDOW_MAX});
    EXPECT_LT(Lead(), 2u * STP_WINDOW_MAX);
}

TEST_F(Observer, KnowsTheLastSixteenCallsOfAGroupOnceEach)
{
    for (uint64_t i = 1; i <= 20; i++)
        AskTimed(1, i << 20);

    for (uint64_t i = 1; i <= 20; i++)
        EXPECT_EQ(i > 4, Launch(i << 20)) << i;
    for (uint64_t i = 1; i <= 20; i++)
        EXPECT_FALSE(Launch(i << 20)) << i;
}

// A table of a newer NCCL may have more than this one knows.
TEST_F(Observer, PrefersNoArmOfThePolicyThatIsBeyondItsTable)
{
    stp_observed_call call{};
    stp_query query{};
    call.is_new = true;
    query.coll = ncclFuncAllReduce;
    query.n_bytes = 1 << 20;

    for (const stp_bandit_arm &arm :
         {stp_bandit_arm{NCCL_NUM_ALGORITHMS, 0, 0},
          stp_bandit_arm{NCCL_NUM_ALGORITHMS - 1, NCCL_NUM_PROTOCOLS, 0},
          stp_bandit_arm{INT8_MAX, INT8_MAX, 0}}) {
        call.policy_arm = arm;
        stp_observer_call(observer_.get(), &call, &query, &view_);
        call.key++; // the next one's costs would lie there
    }
}

} // namespace
