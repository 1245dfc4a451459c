// The measuring loop against a device whose times are known.
#include <gmock/gmock.h>

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

TEST(Arms, OfAListAreTheseOnce)
{
    const struct {
        const char *list, *channels;
        std::vector<std::string> names;
    } cases[] = {
        // clang-format off
        {"ring/ll128,auto, tree/simple/8 ,ring/ll128", nullptr, {"auto", "ring/ll128", "tree/simple/8"}},
        {"all", nullptr, // the pairs that NCCL has kernels for
         {"auto", "tree/ll", "tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple",
          "collnet_direct/simple", "collnet_chain/simple", "nvls/simple", "nvls_tree/simple", "pat/simple"}},
        {"ring/ll,tree/ll/4", "8,16", {"auto", "ring/ll", "tree/ll/4", "ring/ll/8", "ring/ll/16"}},
        {"sym,memory", nullptr,
         {"auto", "sym", "reg", "ce", "stage", "sym/ctas=16-64", "sym/ctas=32-64", "stage/ctas=16-64", "stage/ctas=32-64"}},
        // clang-format on
    };

    for (const auto &c : cases) {
        stp_arms arms;

        ASSERT_EQ(STP_OK, stp_arms_parse(c.list, &arms, nullptr));
        if (c.channels != nullptr) {
            ASSERT_EQ(STP_OK,
                      stp_arms_add_channels(&arms, c.channels, nullptr));
        }
        EXPECT_EQ(c.names, Names(arms));
    }
}

TEST(Arms, RefuseWordsThatMeanNothing)
{
    const struct {
        const char *list, *expected;
    } cases[] = {
        {"rong", "arm 'rong', expected auto, auto2, all, memory, "
                 "ALGORITHM/PROTOCOL/CHANNELS/chunk=BYTES, "
                 "MEMORY/ctas=MIN-MAX/cga=SIZE or a part of one"},
        {"ring/ll,rnig/ll", "arm 'rnig/ll'"},
        // clang-format off
        {"16", nullptr}, {"auto/", nullptr}, {"plugin", nullptr}, {"ll/ring", nullptr}, {"16/ring", nullptr},
        {"ring/tree", nullptr}, {"ring/ll/0", nullptr}, {"ring/ll/65", nullptr}, {"ring/ll/8/8", nullptr},
        {"", nullptr},
        // clang-format on
    };
    stp_arms arms;
    stp_error err{};

    for (const auto &c : cases) {
        EXPECT_EQ(STP_ERR_SYNTAX, stp_arms_parse(c.list, &arms, &err));
        EXPECT_THAT(err.text,
                    HasSubstr(c.expected != nullptr
                                  ? c.expected
                                  : "arm '" + std::string(c.list) + "'"));
    }
    ASSERT_EQ(STP_OK, stp_arms_parse("ring/ll", &arms, nullptr));
    EXPECT_EQ(STP_ERR_SYNTAX, stp_arms_add_channels(&arms, "8,128", &err));
    EXPECT_THAT(err.text, HasSubstr("channels '128', expected 1 to 64"));
}

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
    const struct {
        const char *name;
        stp_arm arm;
        const char *algo; // in files
        const char *proto;
    } cases[] = {
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
        {"stage/ctas=32-64", SetupArm(STP_MEMORY_STAGE, 32, 64, 0), "stage/ctas=32-64", "stage/ctas=32-64"},
        {"sym/ctas=16",   SetupArm(sym, 0, 16, 0), "sym/ctas=16", "sym/ctas=16"},
        {"sym/ctas=8-64/cga=8", SetupArm(sym, 8, 64, 9), "sym/ctas=8-64/cga=8", "sym/ctas=8-64/cga=8"},
        {"cga=0",         SetupArm(STP_MEMORY_PLAIN, 0, 0, 1),     "cga=0",  "cga=0"},
        {"ctas=1",        SetupArm(STP_MEMORY_PLAIN, 0, 1, 0),     "ctas=1", "ctas=1"},
    };
    // clang-format on

    for (const auto &c : cases) {
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
    // clang-format off
    for (const std::string name : {
             "", "plain", "sym/sym", "sym/stage", "staged", "reg/sym", "ctas=8/sym", "sym/ctas=0", "ctas=65", "ctas=9-8", "ctas=-8",
             "ctas=8-", "ctas=4/ctas=4", "ctas", "cga=9", "cga=", "cga=1/cga=1", "sym/ring", "ring/sym",
             "chunk=", "chunk=0", "chunk=4G", "8/chunk=64K", "ring/chunk=64K/8", "ring/chunk=64K/chunk=64K",
             "auto/", "8"}) {
        // clang-format on
        stp_arm arm{};

        EXPECT_FALSE(stp_arm_from_name(name.data(), name.size(), &arm)) << name;
    }
}

TEST(Arms, OfMemoryAreAddedAsFarAsADeviceHasThem)
{
    const unsigned has = 1u << STP_MEMORY_PLAIN | 1u << STP_MEMORY_SYM |
                         1u << (STP_N_SETUPS - 1);
    stp_arms arms;
    ASSERT_EQ(STP_OK, stp_arms_parse("auto", &arms, nullptr));

    ASSERT_EQ(STP_OK, stp_arms_add_setups(&arms, has, nullptr));

    EXPECT_THAT(Names(arms), ElementsAre("auto", "sym", "stage/ctas=32-64"));
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

TEST(Sizes, AreAscendingUniqueMultiplesOfTheGrain)
{
    stp_sizes s{};

    for (uint64_t size : {100, 7, 50, 101, 3})
        ASSERT_EQ(STP_OK, stp_sizes_add(&s, size, 8, nullptr));

    EXPECT_THAT(std::vector<uint64_t>(s.size, s.size + s.n),
                ElementsAre(8, 48, 96));
}

TEST(Sizes, GrowByTheFactorAndTheirOwnAreAlignedAsTensorsAre)
{
    const struct {
        uint64_t first, last;
        double factor;
        uint64_t grain;
        std::vector<uint64_t> sizes; // none: refused
    } cases[] = {
        {8, 100, 2, 8, {8, 16, 32, 64}},
        // the first is one that somebody asked for
        {1000000, 8000000, 1.9, 4, {1000000, 1899968, 3609984, 6858944}},
        {8, 4, 2, 8, {}},
        {8, 64, 1, 8, {}},
        {0, 64, 2, 8, {}},
    };

    for (const auto &c : cases) {
        stp_sizes s{};

        EXPECT_EQ(c.sizes.empty() ? STP_ERR_RANGE : STP_OK,
                  stp_sizes_add_geometric(&s, c.first, c.last, c.factor,
                                          c.grain, nullptr));
        EXPECT_EQ(c.sizes, std::vector<uint64_t>(s.size, s.size + s.n));
    }
    EXPECT_EQ(4u, stp_size_step(16383, 4));
    EXPECT_EQ(64u, stp_size_step(16384, 4));
}

TEST(Sizes, HalfwayIsGeometric)
{
    EXPECT_EQ(200u, stp_size_between(100, 400));
    EXPECT_EQ(7u, stp_size_between(7, 7));
    EXPECT_EQ(uint64_t{1} << 33,
              stp_size_between(uint64_t{1} << 32, uint64_t{1} << 34));
}

} // namespace
