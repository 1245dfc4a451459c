// Modelled times: the cost of fewer channels.
#include <cmath>

#include "support/mock_folder.h"
#include "support/mock_times.h"

using namespace mock_test;

namespace
{

mock_run OfPair(int algo, int proto, size_t n_bytes, int n_channels)
{
    return {ncclFuncAllReduce, n_bytes, algo, proto, n_channels};
}

struct FormulaCase {
    int algo;
    int proto;
    double share;     // of timings.c
    double bandwidth; // GB/s, as in NCCL's own log of 8 x H100
};

// 24 channels, all of which NCCL uses for 256 MiB.
TEST(FewerChannels, TakeLongerByTheBandwidthAlone)
{
    const size_t n_bytes = 256 * kMiB;
    Machine machine = LoadMachine("h100x8");
    const FormulaCase cases[] = {
        {NCCL_ALGO_RING, NCCL_PROTO_LL, .96, 80.57143},
        {NCCL_ALGO_RING, NCCL_PROTO_LL128, .69, 189.25714},
        {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, .55, 205.71429},
        {NCCL_ALGO_TREE, NCCL_PROTO_LL, .79, 43.57895},
        {NCCL_ALGO_TREE, NCCL_PROTO_LL128, .57, 128.8},
        {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, .45, 165.6},
    };

    for (const FormulaCase &c : cases) {
        double all = Mean(machine, OfPair(c.algo, c.proto, n_bytes, 0)).us;
        double wire = n_bytes / (1000 * c.bandwidth);

        for (int n : {1, 3, 8, 23}) {
            mock_time time = Mean(machine, OfPair(c.algo, c.proto, n_bytes, n));
            double stretch = std::cbrt(std::pow(c.share * 24 / n, 3) + 1 -
                                       std::pow(c.share, 3));
            EXPECT_NEAR(all + (stretch - 1) * wire, time.us, 1e-5 * time.us)
                << c.algo << " " << c.proto << " " << n;
            EXPECT_EQ(MOCK_TIME_MODELLED, time.source);
        }
    }
}

// NCCL itself uses few channels for small messages: 4 for this ring.
TEST(FewerChannels, AreFewerThanNcclsOwnForTheSize)
{
    Machine machine = LoadMachine("h100x8");
    auto us = [&](int n) {
        return Mean(machine,
                    OfPair(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 128 << 10, n))
            .us;
    };

    EXPECT_EQ(us(0), us(24));
    EXPECT_EQ(us(0), us(4));
    EXPECT_NEAR(us(0) + (13.201594 - 3.325323) * (128 << 10) / 205714.29, us(1),
                1e-3);
}

TEST(FewerChannels, OfNvlsAreOfItsOwnChannels)
{
    Machine machine = LoadMachine("h100x8"); // 16 of them, 272 GB/s
    auto us = [&](int n) {
        return Mean(machine,
                    OfPair(NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 256 * kMiB, n))
            .us;
    };

    EXPECT_EQ(us(0), us(16));
    EXPECT_NEAR(us(0) + (std::cbrt(1.1 * 1.1 * 1.1 + 1 - .166375) - 1) * 256 *
                            kMiB / 272000,
                us(8), 1e-2);
}

// Measured by NVIDIA's nccl-tests with NVIDIA's example tuner, which forces one
// channel: 8 MiB as ring/ll128 and 64 MiB as ring/simple, 4 x H200.
TEST(FewerChannels, ComeCloseToWhatOneChannelCostOnGpus)
{
    Folder folder; // an h200x4 without its times
    Machine machine = LoadFolder(folder.Path());

    EXPECT_NEAR(
        1, Mean(machine, RingOf(8 * kMiB, NCCL_PROTO_LL128, 1)).us / 675.95,
        .05);
    EXPECT_NEAR(1, Mean(machine, Simple(64 * kMiB, 1)).us / 4046.26, .1);
}

TEST(FewerChannels, ComeCloseToTheRecordedOnes)
{
    Folder folder;
    Machine recorded = LoadMachine("h200x4");
    Machine modelled = LoadFolder(folder.Path());

    for (int proto : {NCCL_PROTO_LL, NCCL_PROTO_LL128, NCCL_PROTO_SIMPLE})
        for (int algo : {NCCL_ALGO_TREE, NCCL_ALGO_RING})
            for (int n : {1, 2, 4, 8, 16}) {
                auto ratio = [&](const Machine &machine) {
                    return Mean(machine, OfPair(algo, proto, 64 * kMiB, n)).us /
                           Mean(machine, OfPair(algo, proto, 64 * kMiB, 0)).us;
                };
                EXPECT_NEAR(1, ratio(modelled) / ratio(recorded), .25)
                    << algo << " " << proto << " " << n;
            }
}

TEST(FewerChannels, AreNeverFaster)
{
    for (const char *name : {"h100x8", "a100x8", "b200x8", "h100n2x8"}) {
        Machine machine = LoadMachine(name);
        for (size_t n_bytes = 8; n_bytes <= 1024 * kMiB; n_bytes *= 4) {
            double longer = 1e300;
            for (int n = 1; n <= 33; n++) {
                double us = Mean(machine, Simple(n_bytes, n)).us;
                EXPECT_LE(us, longer) << name << " " << n_bytes << " " << n;
                longer = us;
            }
            EXPECT_EQ(longer, Mean(machine, Simple(n_bytes)).us);
        }
    }
}

// The pair has recorded times only with NCCL's own channels, the first round of
// which the rest is in proportion to.
TEST(FewerChannels, AreAddedToARecordedTime)
{
    Folder folder;
    folder.Write("timings.csv",
                 std::string(kTimingsHeader) +
                     "allreduce,268435456,ring,simple,0,4,w,1,9,900,900,900,"
                     "900\n"
                     "allreduce,268435456,ring,simple,0,4,w,2,9,1800,1800,"
                     "1800,1800\n");
    Machine machine = LoadFolder(folder.Path());

    // 240 GB/s
    const double us = 900 + (13.201594 - 1) * 268435456 / 240000;
    EXPECT_NEAR(us, At(machine, Simple(256 * kMiB, 1), 0).us, .1);
    EXPECT_NEAR(2 * us, At(machine, Simple(256 * kMiB, 1), .5).us, .1);
    EXPECT_NEAR(1.5 * us, Mean(machine, Simple(256 * kMiB, 1)).us, .1);
    EXPECT_EQ(MOCK_TIME_MODELLED, Mean(machine, Simple(256 * kMiB, 1)).source);
    EXPECT_EQ(1350, Mean(machine, Simple(256 * kMiB, 24)).us);
}

TEST(Modelled, TimesSayThatTheyAre)
{
    Machine machine = LoadMachine("h100x8");
    const mock_run run = Simple(kMiB);
    mock_time mean{-1, MOCK_TIME_RECORDED, true, "other"};
    mock_time at{-1, MOCK_TIME_RECORDED, true, "other"};

    EXPECT_EQ(ncclSuccess, mock_machine_mean_time(machine.get(), &run, &mean));
    EXPECT_EQ(ncclSuccess, mock_machine_time(machine.get(), &run, 0, 0, &at));

    for (const mock_time &time : {mean, at}) {
        EXPECT_LT(0, time.us);
        EXPECT_EQ(MOCK_TIME_MODELLED, time.source);
        EXPECT_FALSE(time.is_single_pass);
        EXPECT_STREQ("", time.kernel);
    }
}

TEST(RegisteredBuffers, AreOnNoMachineModelled)
{
    Machine machine = LoadMachine("h100x8");

    for (int way : {MOCK_WAY_REG, MOCK_WAY_SYM, MOCK_WAY_CE, MOCK_WAY_SYM_16,
                    MOCK_WAY_SYM_32}) {
        mock_time time{};
        const mock_run run{ncclFuncAllReduce, kMiB, way, 0, 0};

        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_time(machine.get(), &run, 0, 0, &time));
        EXPECT_STREQ("no time for allreduce of registered buffers: none was "
                     "recorded on h100x8, and none is modelled",
                     mock_last_error());
    }
}

} // namespace
