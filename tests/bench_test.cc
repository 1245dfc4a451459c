// The measuring loop against a device whose times are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bench/arm.h"
#include "bench/device.h"
#include "bench/sizes.h"
#include "bench/sweep.h"
#include "nccl_tuner_abi.h"

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Names(const stp_arms &arms)
{
    std::vector<std::string> names;
    for (size_t i = 0; i < arms.n; i++) {
        char name[STP_ARM_NAME];
        stp_arm_name(&arms.arm[i], name);
        names.push_back(name);
    }
    return names;
}

TEST(Arms, HaveAutoFirstAndNoneTwice)
{
    stp_arms arms;

    ASSERT_EQ(STP_OK,
              stp_arms_parse("ring/ll128,auto, tree/simple/8 ,ring/ll128",
                             &arms, nullptr));

    EXPECT_THAT(Names(arms),
                ElementsAre("auto", "ring/ll128", "tree/simple/8"));
}

TEST(Arms, AllAreThePairsThatNcclHasKernelsFor)
{
    stp_arms arms;

    ASSERT_EQ(STP_OK, stp_arms_parse("all", &arms, nullptr));

    EXPECT_THAT(Names(arms),
                ElementsAre("auto", "tree/ll", "tree/ll128", "tree/simple",
                            "ring/ll", "ring/ll128", "ring/simple",
                            "collnet_direct/simple", "collnet_chain/simple",
                            "nvls/simple", "nvls_tree/simple", "pat/simple"));
}

TEST(Arms, MultiplyByChannelCounts)
{
    stp_arms arms;

    ASSERT_EQ(STP_OK, stp_arms_parse("ring/ll,tree/ll/4", &arms, nullptr));
    ASSERT_EQ(STP_OK, stp_arms_add_channels(&arms, "8,16", nullptr));

    EXPECT_THAT(Names(arms), ElementsAre("auto", "ring/ll", "tree/ll/4",
                                         "ring/ll/8", "ring/ll/16"));
}

struct BadArm {
    const char *list;
    const char *expected;
};

TEST(Arms, RefuseWordsThatMeanNothing)
{
    const BadArm cases[] = {
        {"ring", "arm 'ring', expected auto, all, ALGORITHM/PROTOCOL"},
        {"ring/ll,rnig/ll", "arm 'rnig/ll'"},
        {"ring/ll/0", "arm 'ring/ll/0'"},
        {"ring/ll/65", "arm 'ring/ll/65'"},
        {"ring/ll/8/8", "arm 'ring/ll/8/8'"},
        {"", "arm ''"},
    };

    for (const BadArm &c : cases) {
        stp_arms arms;
        stp_error err{};
        EXPECT_EQ(STP_ERR_SYNTAX, stp_arms_parse(c.list, &arms, &err));
        EXPECT_THAT(err.text, HasSubstr(c.expected));
    }
}

TEST(Arms, RefuseChannelCountsThatNcclCannotHave)
{
    stp_arms arms;
    stp_error err{};

    ASSERT_EQ(STP_OK, stp_arms_parse("ring/ll", &arms, nullptr));

    EXPECT_EQ(STP_ERR_SYNTAX, stp_arms_add_channels(&arms, "8,128", &err));
    EXPECT_THAT(err.text, HasSubstr("channels '128', expected 1 to 64"));
}

std::vector<uint64_t> List(const stp_sizes &s)
{
    return {s.size, s.size + s.n};
}

TEST(Sizes, AreAscendingUniqueMultiplesOfTheGrain)
{
    stp_sizes s{};

    for (uint64_t size : {100, 7, 50, 101, 3})
        ASSERT_EQ(STP_OK, stp_sizes_add(&s, size, 8, nullptr));

    EXPECT_THAT(List(s), ElementsAre(8, 48, 96));
}

TEST(Sizes, GrowByTheFactorUpToTheEnd)
{
    stp_sizes s{};

    ASSERT_EQ(STP_OK, stp_sizes_add_geometric(&s, 8, 100, 2, 8, nullptr));

    EXPECT_THAT(List(s), ElementsAre(8, 16, 32, 64));
}

TEST(Sizes, RefuseAListThatHasNoEnd)
{
    stp_sizes s{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_RANGE, stp_sizes_add_geometric(&s, 8, 4, 2, 8, &err));
    EXPECT_EQ(STP_ERR_RANGE, stp_sizes_add_geometric(&s, 8, 64, 1, 8, &err));
    EXPECT_EQ(STP_ERR_RANGE, stp_sizes_add_geometric(&s, 0, 64, 2, 8, &err));
    EXPECT_EQ(0u, s.n);
}

TEST(Sizes, HalfwayIsGeometric)
{
    EXPECT_EQ(200u, stp_size_between(100, 400));
    EXPECT_EQ(7u, stp_size_between(7, 7));
    EXPECT_EQ(uint64_t{1} << 33,
              stp_size_between(uint64_t{1} << 32, uint64_t{1} << 34));
}

} // namespace
