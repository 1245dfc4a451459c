#include <gtest/gtest.h>

#include "stage/jobs.h"

using namespace stage_jobs;

namespace
{

class StageJobs : public testing::Test
{
  protected:
    void RunAll(Kind kind, const char *name, uint64_t n)
    {
        EXPECT_TRUE(storms::RunAll(name, n, 1, [&](uint64_t seed) {
            static const Libraries libraries; // static TLS is scarce

            return stage_jobs::Run(libraries, seed, kind);
        }));
    }
};

TEST_F(StageJobs, AreRightWithoutTheLibrary)
{
    RunAll(Kind::kPlain, "plain jobs", 100);
}

TEST_F(StageJobs, OfAgreeingRanksAreStagedWithTheSameResults)
{
    const uint64_t before = fake::CountSymmetric();

    RunAll(Kind::kCalm, "calm jobs", 200);
    EXPECT_GT(fake::CountSymmetric() - before, 1000U);
}

TEST_F(StageJobs, OfRanksThatDifferAreNotStaged)
{
    RunAll(Kind::kOdd, "odd jobs", 20);
}

TEST_F(StageJobs, OfWhichARankIsGoneCanBeAborted)
{
    RunAll(Kind::kDeadly, "deadly jobs", 40);
}

} // namespace
