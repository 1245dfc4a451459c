// The measuring loop against a device whose times are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

extern "C" {
#include "bench/sizes.h"
#include "bench/sweep.h"
#include "device/arm.h"
#include "device/device.h"
}

#include "nccl_tuner_abi.h"
#include "support/measured_data.h"

namespace
{

using measured::Names;
using testing::ElementsAre;
using testing::HasSubstr;

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
        {"rong", "arm 'rong', expected auto, auto2, all, memory, "
                 "ALGORITHM/PROTOCOL/CHANNELS/chunk=BYTES, "
                 "MEMORY/ctas=MIN-MAX/cga=SIZE or a part of one"},
        {"16", "arm '16'"},
        {"auto/", "arm 'auto/'"},
        {"plugin", "arm 'plugin'"},
        {"ll/ring", "arm 'll/ring'"},
        {"16/ring", "arm '16/ring'"},
        {"ring/tree", "arm 'ring/tree'"},
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

struct NamedArm {
    const char *name;
    stp_arm arm;
    const char *algo; // in files
    const char *proto;
};

stp_arm ForcedArm(int algo, int proto, int n_channels, uint32_t chunk)
{
    return {STP_ARM_FORCED, algo, proto, n_channels, chunk, {}};
}

stp_arm SetupArm(int memory, int min_ctas, int max_ctas, int cga)
{
    return {STP_ARM_SETUP,
            0,
            0,
            0,
            0,
            {stp_memory(memory), min_ctas, max_ctas, cga}};
}

TEST(Arms, HaveNamesThatAreRead)
{
    // clang-format off
    const int any = STP_ANY, sym = STP_MEMORY_SYM;
    const NamedArm cases[] = {
        {"auto",          {STP_ARM_AUTO, 0, 0, 0, 0, {}},       "auto",   "auto"},
        {"auto2",         {STP_ARM_AUTO_AGAIN, 0, 0, 0, 0, {}}, "auto2",  "auto2"},
        {"plugin",        {STP_ARM_PLUGIN, 0, 0, 0, 0, {}},     "plugin", "plugin"},
        {"ring/ll128",    ForcedArm(NCCL_ALGO_RING, NCCL_PROTO_LL128, 0, 0),  "ring", "ll128"},
        {"ring/ll128/16", ForcedArm(NCCL_ALGO_RING, NCCL_PROTO_LL128, 16, 0), "ring", "ll128"},
        {"simple",        ForcedArm(any, NCCL_PROTO_SIMPLE, 0, 0), "auto",   "simple"},
        {"ll128/4",       ForcedArm(any, NCCL_PROTO_LL128, 4, 0),  "auto",   "ll128"},
        {"tree",          ForcedArm(NCCL_ALGO_TREE, any, 0, 0),    "tree",   "auto"},
        {"tree/8",        ForcedArm(NCCL_ALGO_TREE, any, 8, 0),    "tree",   "auto"},
        {"auto/16",       ForcedArm(any, any, 16, 0),              "auto",   "auto"},
        {"auto/chunk=3M", ForcedArm(any, any, 0, 3 << 20),         "auto",   "auto"},
        {"tree/4/chunk=24K", ForcedArm(NCCL_ALGO_TREE, any, 4, 24576), "tree", "auto"},
        {"ll/chunk=1025", ForcedArm(any, NCCL_PROTO_LL, 0, 1025),  "auto",   "ll"},
        {"reg",           SetupArm(STP_MEMORY_REG, 0, 0, 0),       "reg",    "reg"},
        {"ce",            SetupArm(STP_MEMORY_CE, 0, 0, 0),        "ce",     "ce"},
        {"sym/ctas=16",   SetupArm(sym, 0, 16, 0), "sym/ctas=16", "sym/ctas=16"},
        {"sym/ctas=8-64/cga=8", SetupArm(sym, 8, 64, 9), "sym/ctas=8-64/cga=8", "sym/ctas=8-64/cga=8"},
        {"cga=0",         SetupArm(STP_MEMORY_PLAIN, 0, 0, 1),     "cga=0",  "cga=0"},
        {"ctas=1",        SetupArm(STP_MEMORY_PLAIN, 0, 1, 0),     "ctas=1", "ctas=1"},
    };
    // clang-format on

    for (const NamedArm &c : cases) {
        char name[STP_ARM_NAME];
        stp_arm arm{};
        char algo[STP_ARM_NAME], proto[STP_ARM_NAME];

        EXPECT_TRUE(stp_arm_from_name(c.name, strlen(c.name), &arm)) << c.name;
        EXPECT_TRUE(stp_arm_equal(&c.arm, &arm)) << c.name;
        stp_arm_name(&c.arm, name);
        EXPECT_STREQ(c.name, name);
        stp_arm_columns(&c.arm, algo, proto);
        EXPECT_STREQ(c.algo, algo);
        EXPECT_STREQ(c.proto, proto);
    }
}

TEST(Arms, AreNoOtherNames)
{
    for (const std::string name : {"",
                                   "plain",
                                   "sym/sym",
                                   "reg/sym",
                                   "ctas=8/sym",
                                   "sym/ctas=0",
                                   "ctas=65",
                                   "ctas=9-8",
                                   "ctas=-8",
                                   "ctas=8-",
                                   "ctas=4/ctas=4",
                                   "ctas",
                                   "cga=9",
                                   "cga=",
                                   "cga=1/cga=1",
                                   "sym/ring",
                                   "ring/sym",
                                   "chunk=",
                                   "chunk=0",
                                   "chunk=4G",
                                   "8/chunk=64K",
                                   "ring/chunk=64K/8",
                                   "ring/chunk=64K/chunk=64K",
                                   "auto/",
                                   "8"}) {
        stp_arm arm{};

        EXPECT_FALSE(stp_arm_from_name(name.data(), name.size(), &arm)) << name;
    }
}

TEST(Arms, OfMemoryAreAllWaysToRegister)
{
    const char *const expected[] = {
        "auto", "reg", "sym", "ce", "sym/ctas=16-64", "sym/ctas=32-64"};
    stp_arms arms;

    ASSERT_EQ(STP_OK, stp_arms_parse("sym,memory", &arms, nullptr));

    ASSERT_EQ(6u, arms.n);
    for (const char *name : expected) {
        stp_arm arm{};
        ASSERT_TRUE(stp_arm_from_name(name, strlen(name), &arm));
        EXPECT_EQ(1, std::count_if(arms.arm, arms.arm + arms.n,
                                   [&](const stp_arm &other) {
                                       return stp_arm_equal(&arm, &other);
                                   }))
            << name;
    }
}

TEST(Arms, OfMemoryAreAddedAsFarAsADeviceHasThem)
{
    stp_arms arms;
    ASSERT_EQ(STP_OK, stp_arms_parse("auto", &arms, nullptr));

    ASSERT_EQ(STP_OK, stp_arms_add_setups(&arms,
                                          1u << STP_MEMORY_PLAIN |
                                              1u << STP_MEMORY_SYM |
                                              1u << (STP_N_SETUPS - 1),
                                          nullptr));

    ASSERT_EQ(3u, arms.n);
    EXPECT_TRUE(
        stp_setup_equal(&stp_setups[STP_MEMORY_SYM], &arms.arm[1].setup));
    char name[STP_ARM_NAME];
    stp_arm_name(&arms.arm[2], name);
    EXPECT_STREQ("sym/ctas=32-64", name);
}

TEST(Arms, OfOneWordRanIfThatIsWhatRan)
{
    const stp_arm simple{STP_ARM_FORCED, STP_ANY, NCCL_PROTO_SIMPLE, 0, 0, {}};
    const stp_arm tree{STP_ARM_FORCED, NCCL_ALGO_TREE, STP_ANY, 0, 0, {}};

    EXPECT_TRUE(stp_arm_ran(&simple, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE));
    EXPECT_FALSE(stp_arm_ran(&simple, NCCL_ALGO_RING, NCCL_PROTO_LL));
    EXPECT_TRUE(stp_arm_ran(&tree, NCCL_ALGO_TREE, NCCL_PROTO_LL));
    EXPECT_FALSE(stp_arm_ran(&tree, NCCL_ALGO_RING, NCCL_PROTO_LL));
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

TEST(Sizes, OfTheirOwnMakingAreAlignedAsTensorsAre)
{
    stp_sizes s{};

    // but the first, which somebody asked for
    ASSERT_EQ(STP_OK,
              stp_sizes_add_geometric(&s, 1000000, 8000000, 1.9, 4, nullptr));

    EXPECT_THAT(List(s),
                ElementsAre(1000000, 1900000 - 1900000 % 64,
                            3610000 - 3610000 % 64, 6859000 - 6859000 % 64));
    EXPECT_EQ(4u, stp_size_step(16383, 4));
    EXPECT_EQ(64u, stp_size_step(16384, 4));
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
