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

    for (int way = MOCK_WAY_REG; way < MOCK_NUM_WAYS; way++) {
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
