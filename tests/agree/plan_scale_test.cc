// What comparing and planning cost the store, to the message and the byte.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "agree/plan_scale_job.h"

namespace
{

using plan_scale::Input;
using plan_scale::Result;

class PlanScale : public testing::TestWithParam<uint64_t>
{
  protected:
    Result Run()
    {
        Input input;

        input.n_hosts = GetParam();
        return plan_scale::Run(input);
    }
};

// The leader sets the plan, acknowledges, waits for all and gets that, commits,
// tells, and deletes five keys of the plan before.  Every other host waits for
// the plan and gets it, acknowledges, and waits for the verdict and gets it;
// one of them says that all acknowledged.
TEST_P(PlanScale, PlansWithFiveMessagesAHost)
{
    const Result result = Run();

    ASSERT_EQ("", result.fault);
    EXPECT_EQ(11 + 5 * (GetParam() - 1) + 1, result.plan.n_requests);
}

// Hosts that come at once: each connects, takes tickets, appends its row,
// compares, arrives, looks once more, says how many learn and that it is ready,
// waits for the decision and gets it, and reads how many learn.  The last one
// arrives as all are there, and decides and tells in place of waiting.
TEST_P(PlanScale, ComparesWithElevenMessagesAHost)
{
    const Result result = Run();

    ASSERT_EQ("", result.fault);
    EXPECT_EQ(11 * GetParam() - 1, result.compare.n_requests);
}

TEST_P(PlanScale, KnowsPlansBeforeRanksComeToThem)
{
    const Result result = Run();

    ASSERT_EQ("", result.fault);
    EXPECT_EQ(0U, result.n_dropped);
    EXPECT_EQ(0, result.wait_us);
    EXPECT_GT(result.spare_us, 1000000) << "the default of STEPTUNE_AGREE_LEAD";
}

TEST_P(PlanScale, AsksForNothingOnceNothingIsProposed)
{
    const Result result = Run();

    ASSERT_EQ("", result.fault);
    EXPECT_EQ(0, result.quiet);
}

INSTANTIATE_TEST_SUITE_P(Hosts, PlanScale, testing::Values(2, 64));

// A far store: the first plan is not acknowledged in time, and its verdict
// comes when ranks of other hosts wait there; later plans have twice the lead.
TEST(PlanScaleFar, DropsOnePlanAndThenKnowsThemInTime)
{
    Input input;
    input.latency_us = 200000;

    const Result result = plan_scale::Run(input);

    ASSERT_EQ("", result.fault);
    EXPECT_EQ(1U, result.n_dropped);
    EXPECT_GT(result.wait_us, 0);
    EXPECT_GT(result.spare_us, 0);
}

TEST(PlanScaleFar, DropsNoPlanWithMoreLead)
{
    Input input;
    input.latency_us = 200000;
    input.lead = 3000;

    const Result result = plan_scale::Run(input);

    ASSERT_EQ("", result.fault);
    EXPECT_EQ(0U, result.n_dropped);
    EXPECT_EQ(0, result.wait_us);
}

// Larger jobs take seconds each.
TEST(PlanScaleTable, IsWhatTheModelSays)
{
    std::ifstream table(STP_FIXTURES "/reports/plan_scale.csv");
    std::string line;
    int n_rows = 0;

    std::getline(table, line);
    EXPECT_EQ('#', line[0]);
    std::getline(table, line);
    EXPECT_EQ(plan_scale::Header(), line + "\n");
    while (std::getline(table, line)) {
        Input input;
        ASSERT_TRUE(plan_scale::ReadInput(line, &input)) << line;
        if (input.n_hosts > 64)
            continue;
        EXPECT_EQ(line + "\n", plan_scale::Row(input, plan_scale::Run(input)));
        n_rows++;
    }
    EXPECT_EQ(21, n_rows);
}

} // namespace
