// Where two explanations decide differently, by ranges made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

extern "C" {
#include "analyse/explain/differ.h"
#include "core/names.h"
}

#include "nccl_tuner_abi.h"

namespace
{

struct Range {
    uint64_t min;
    uint64_t max;
    int algo;
    int proto;
    int channels = 0;
    unsigned line = 0;
    int coll = ncclFuncAllReduce;
};

std::vector<stp_explained> Explained(const std::vector<Range> &ranges)
{
    std::vector<stp_explained> all;
    for (const Range &r : ranges) {
        stp_explained x{};
        x.coll = r.coll;
        x.min_bytes = r.min;
        x.max_bytes = r.max;
        x.pick = {r.algo, r.proto};
        x.asked_channels = x.tuned_channels = r.channels;
        x.line = r.line;
        x.decider = r.line != 0 ? STP_DECIDER_RULE : STP_DECIDER_NCCL;
        all.push_back(x);
    }
    return all;
}

class Differ : public testing::Test
{
  protected:
    ~Differ() override
    {
        stp_differences_free(&all_);
    }

    void Compare(const std::vector<Range> &first,
                 const std::vector<Range> &second)
    {
        std::vector<stp_explained> a = Explained(first);
        std::vector<stp_explained> b = Explained(second);
        const stp_explanation x{a.data(), a.size(), a.size(), 1};
        const stp_explanation y{b.data(), b.size(), b.size(), 1};

        stp_differences_free(&all_);
        ASSERT_EQ(STP_OK, stp_differ(&x, &y, STP_FIXTURES "/machines/h200x4",
                                     &all_, nullptr));
    }

    // "MIN-MAX CHOICE|CHOICE" a range.
    std::vector<std::string> Ranges() const
    {
        std::vector<std::string> ranges;
        for (size_t i = 0; i < all_.n_ranges; i++) {
            const stp_difference &d = all_.ranges[i];
            ranges.push_back(std::string(stp_coll_name(d.coll)) + " " +
                             std::to_string(d.min_bytes) + "-" +
                             std::to_string(d.max_bytes) + " " +
                             Choice(d.first) + "|" + Choice(d.second));
        }
        return ranges;
    }

    static std::string Choice(const stp_differing &x)
    {
        return std::string(stp_algo_name(x.pick.algo)) + "/" +
               stp_proto_name(x.pick.proto) + "/" +
               std::to_string(x.asked_channels);
    }

    stp_differences all_{};
};

constexpr int kTree = NCCL_ALGO_TREE, kRing = NCCL_ALGO_RING;
constexpr int kLl = NCCL_PROTO_LL, kSimple = NCCL_PROTO_SIMPLE;

TEST_F(Differ, RangesAreThoseThatBothHaveInCommon)
{
    const struct {
        const char *name;
        std::vector<Range> first, second;
        std::vector<std::string> want;
    } cases[] = {
        // clang-format off
        {"the_same_decisions_by_other_lines",
         {{8, 4088, kRing, kLl, 0, 1}, {4096, 8192, kRing, kLl, 0, 2}},
         {{8, 8192, kRing, kLl}},
         {}},
        {"of_both",
         {{8, 4088, kRing, kLl}, {4096, 8192, kTree, kLl}},
         {{8, 1016, kRing, kLl}, {1024, 8192, kRing, kSimple}},
         {"allreduce 1024-4088 ring/ll/0|ring/simple/0",
          "allreduce 4096-8192 tree/ll/0|ring/simple/0"}},
        {"channels_are_a_part_of_a_decision",
         {{8, 8192, kRing, kLl, 4}},
         {{8, 8192, kRing, kLl}},
         {"allreduce 8-8192 ring/ll/4|ring/ll/0"}},
    // the line ends the first one's range, and the difference goes on
        {"one_difference_of_many_lines",
         {{8, 4088, kTree, kLl, 0, 1}, {4096, 8192, kTree, kLl, 0, 2}},
         {{8, 8192, kRing, kLl}},
         {"allreduce 8-8192 tree/ll/0|ring/ll/0"}},
        {"a_difference_that_comes_back",
         {{8, 1016, kTree, kLl, 0, 1}, {1024, 2040, kRing, kLl}, {2048, 4096, kTree, kLl, 0, 2}},
         {{8, 4096, kRing, kLl}},
         {"allreduce 8-1016 tree/ll/0|ring/ll/0",
          "allreduce 2048-4096 tree/ll/0|ring/ll/0"}},
        {"collectives_apart",
         {{8, 64, kTree, kLl, 0, 1, ncclFuncReduce}, {8, 64, kTree, kLl, 0, 1, ncclFuncAllReduce}},
         {{8, 64, kRing, kLl, 0, 0, ncclFuncReduce}, {8, 64, kRing, kLl, 0, 0, ncclFuncAllReduce}},
         {"reduce 8-64 tree/ll/0|ring/ll/0",
          "allreduce 8-64 tree/ll/0|ring/ll/0"}},
        // clang-format on
    };

    for (const auto &c : cases) {
        Compare(c.first, c.second);
        EXPECT_EQ(c.want, Ranges()) << c.name;
    }
}

// 1,024,000 is nearer to the middle than 819,200.
TEST_F(Differ, TimesAreOfTheRecordedSizeInTheMiddle)
{
    Compare({{800000, 1250000, kRing, kLl}},
            {{800000, 1250000, kRing, NCCL_PROTO_LL128}});

    ASSERT_EQ(1u, all_.n_ranges);
    EXPECT_EQ(1024000u, all_.ranges[0].at_bytes);
    EXPECT_EQ(STP_SOURCE_RECORDED, all_.ranges[0].source);
    EXPECT_GT(all_.ranges[0].first.us, 20);
    EXPECT_LT(all_.ranges[0].first.us, 25);
    EXPECT_GT(all_.ranges[0].second.us, all_.ranges[0].first.us);
}

// Fewer channels were recorded in a single pass only.
TEST_F(Differ, TheSourceIsTheWorseOfBothTimes)
{
    for (int swap : {0, 1}) {
        Compare({{8388608, 8388608, kRing, kSimple, swap ? 16 : 0}},
                {{8388608, 8388608, kRing, kSimple, swap ? 0 : 16}});

        ASSERT_EQ(1u, all_.n_ranges);
        EXPECT_EQ(STP_SOURCE_INTERPOLATED, all_.ranges[0].source);
        EXPECT_TRUE(all_.ranges[0].single_pass);
        EXPECT_FALSE(std::isnan(all_.ranges[0].first.us));
        EXPECT_FALSE(std::isnan(all_.ranges[0].second.us));
    }
}

TEST_F(Differ, WhatNobodyRecordedHasNoTime)
{
    Compare({{64, 64, kTree, kLl, 0, 0, ncclFuncReduce}},
            {{64, 64, kRing, kLl, 0, 0, ncclFuncReduce}});

    ASSERT_EQ(1u, all_.n_ranges);
    EXPECT_TRUE(std::isnan(all_.ranges[0].first.us));
    EXPECT_EQ(STP_SOURCE_MODELLED, all_.ranges[0].source);
}

TEST_F(Differ, AMachineThatCannotBeReadIsAnError)
{
    const stp_explanation nothing{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_DEVICE,
              stp_differ(&nothing, &nothing, "/nowhere", &all_, &err));
    EXPECT_THAT(err.text, testing::HasSubstr("/nowhere"));
}

} // namespace
