// A policy says which tuner its rules gain over.
#include <gtest/gtest.h>

#include <string>

extern "C" {
#include "core/policy/baseline.h"
}

namespace
{

const std::string kBegin = STP_BASELINE_BEGIN;
const std::string kLong(60, 'n');

TEST(Baseline, IsAnotherOneOnlyWhereThePolicySaysSo)
{
    struct {
        std::string head, tuner;
        bool differs;
    } const rows[] = {
        {"", "", false},
        {"", "ofi", false},
        {kBegin + "NCCL's own choice is at least 2 percent", "", false},
        {kBegin + "NCCL's own choice is at least 2 percent", "ofi", true},
        {kBegin + "AUTO with ofi's tuner is at least 2 percent", "ofi", false},
        {kBegin + "AUTO with ofi's tuner is at least 2 percent", "", true},
        {kBegin + "AUTO with ofi's tuner is at least 2 percent", "of", true},
        {kBegin + "AUTO with this is it's tuner is at", "this", true},
        {kBegin + "AUTO with a\\x0Ab's tuner is at least", "a\nb", false},
        {kBegin + "AUTO with " + kLong.substr(0, 47) + "'s tuner is at least",
         kLong, false},
        {kBegin + "plain buffers with NCCL's own choice is at", "", false},
        {kBegin + "plain buffers with AUTO with ofi's tuner is", "of", true},
        {kBegin, "ofi", false},
        {kBegin + "plain", "ofi", true},
        {" " + kBegin + "NCCL's own choice is", "ofi", false},
    };

    for (const auto &row : rows) {
        const std::string csv = row.head + "\nallreduce,0,1,ring,ll,-1,-1,-1\n";
        stp_policy *policy = nullptr;
        char text[STP_BASELINE_TEXT] = "";

        ASSERT_EQ(STP_OK, stp_policy_parse(STP_POLICY_OF_ARMS, csv.data(),
                                           csv.size(), &policy, nullptr));
        EXPECT_EQ(row.differs,
                  stp_baseline_differs(policy, row.tuner.c_str(), text))
            << row.head << row.tuner;
        EXPECT_NE(std::string::npos,
                  std::string(text).find(!row.differs ? ""
                                         : row.tuner.empty()
                                             ? "NCCL's own choice, which"
                                             : row.tuner + "'s tuner, "))
            << text;
        stp_policy_free(policy);
    }
}

} // namespace
