// A recorded machine as a device: whose times it gives, and in which rounds.
#include "device/device_fixture.h"
#include "support/mock_device.h"
#include "support/mock_folder.h"
#include "support/slow.h"
#include "support/temporary_folder.h"

namespace
{

using testing::HasSubstr;

constexpr stp_arm kRingLl128{
    STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128, 0, 0, {}};
constexpr stp_arm kPlugin{STP_ARM_PLUGIN, 0, 0, 0, 0, {}};

class DeviceMock : public DeviceFixture
{
  protected:
    void Open(const char *machine, uint64_t seed = 1)
    {
        stp_device_close(&device_);
        Ok(OpenMockDevice(machine, seed, &device_, &err_));
    }

    // Mean time of 'n' collectives, in microseconds.
    double Mean(const stp_arm &arm, int coll, uint64_t n_bytes, int n)
    {
        Select(arm);
        Record(0, 0);
        for (int i = 0; i < n; i++)
            Note(0, Make(coll, n_bytes, STP_TYPE_BF16));
        Record(0, 1);
        Synchronise();
        return Elapsed(0, 1) / n;
    }

    stp_device_run Probe(const stp_arm &arm, int coll, uint64_t n_bytes)
    {
        Select(arm);
        return DeviceFixture::Probe(Make(coll, n_bytes, STP_TYPE_BF16));
    }
};

TEST_F(DeviceMock, GivesEachRecordedRoundOnce)
{
    STP_SLOW();
    // fixtures/machines/h200x4/timings.csv: all-gather, ring/ll128, rounds 1-4
    const double recorded[] = {28.978, 28.726, 28.798, 28.771};
    Open("h200x4");

    for (unsigned round = 0; round < 4; round++) {
        BeginRound(round, 4);
        EXPECT_NEAR(recorded[round],
                    Mean(kRingLl128, ncclFuncAllGather, 3905536, 20000), 0.02);
    }
}

TEST_F(DeviceMock, HasNoMoreRoundsThanWereRecorded)
{
    Open("h200x4");

    EXPECT_EQ(STP_ERR_RANGE, stp_device_begin_round(&device_, 0, 5, &err_));

    EXPECT_STREQ("5 rounds, but machine 'h200x4' has 4", err_.text);
}

TEST_F(DeviceMock, SaysWhatRanAndHowItKnowsTheTime)
{
    Open("h200x4");
    stp_device_run run{};

    run = Probe(kAuto, ncclFuncAllGather, 3905536);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, run.proto);
    EXPECT_EQ(STP_SOURCE_RECORDED, run.source);
    EXPECT_FALSE(run.single_pass);

    run = Probe(kRingLl128, ncclFuncAllGather, 4000000);
    EXPECT_EQ(NCCL_PROTO_LL128, run.proto);
    EXPECT_EQ(STP_SOURCE_INTERPOLATED, run.source);

    run = Probe(kAuto, ncclFuncAllReduce, 1024);
    EXPECT_EQ(STP_SOURCE_RECORDED, run.source);
    EXPECT_TRUE(run.single_pass);

    run = Probe(kAuto, ncclFuncAllReduce, 1 << 26);
    EXPECT_EQ(24, run.n_channels);

    run = Probe(kAuto, ncclFuncBroadcast, 1024);
    EXPECT_EQ(STP_SOURCE_MODELLED, run.source);
}

TEST_F(DeviceMock, RunsAnArmThatNcclRulesOutAsNcclsOwnChoice)
{
    const stp_arm nvls{
        STP_ARM_FORCED, NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 4, 0, {}};
    stp_device_run run{};
    Open("h200x4");

    run = Probe(nvls, ncclFuncAllReduce, 1 << 20);

    EXPECT_EQ(NCCL_ALGO_RING, run.algo);
    EXPECT_EQ(24, run.n_channels);
}

TEST_F(DeviceMock, HasItsPluginReadAPolicyAgainOnlyWhenAsked)
{
    TemporaryFolder folder;
    const std::string path = folder.Path("policy.conf");
    const auto write = [&path](const char *arm) {
        std::ofstream(path) << "allreduce,0,inf," << arm << ",2,-1,-1\n";
    };
    const auto algo = [this] {
        return Probe(kPlugin, ncclFuncAllReduce, 4 << 20).algo;
    };
    setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
    write("tree,simple");
    Ok(OpenMockDevice("h200x4", 1, &device_, &err_, STP_PLUGIN));
    EXPECT_EQ(NCCL_ALGO_TREE, algo());
    write("ring,simple");
    EXPECT_EQ(NCCL_ALGO_TREE, algo());

    Ok(stp_device_reload_plugin(&device_, &err_));

    EXPECT_EQ(NCCL_ALGO_RING, algo());
    unsetenv("NCCL_TUNER_CONFIG_FILE");
}

TEST_F(DeviceMock, RunsAnArmWithTheChannelsItNames)
{
    const stp_arm eight{
        STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8, 0, {}};
    stp_device_run run{};
    Open("h200x4");

    double us = Mean(eight, ncclFuncAllReduce, 1 << 26, 10);
    run = Probe(eight, ncclFuncAllReduce, 1 << 26);

    EXPECT_EQ(8, run.n_channels);
    EXPECT_TRUE(run.single_pass);
    EXPECT_GT(us, 1.5 * Mean(kAuto, ncclFuncAllReduce, 1 << 26, 10));
}

// ---- registered buffers ----

stp_arm Registered(stp_memory memory)
{
    return {STP_ARM_SETUP, 0, 0, 0, 0, {memory, 0, 0, 0}};
}

class DeviceMockMemory : public DeviceMock
{
  protected:
    // All-gathers of 1 MiB take 100 us, and with copy engines 50.
    DeviceMockMemory()
    {
        std::string text(mock_test::kTimingsHeader);
        text.insert(text.size() - 1, ",ran_kernel");
        for (const char *round : {"1", "2"})
            for (const char *row : {"auto,auto,0,4,w,@,9,100,100,100,100,",
                                    "ring,ll,0,4,w,@,9,100,100,100,100,",
                                    "ce,ce,0,4,w,@,9,50,50,50,50,copy engines"})
                text += "allgather,1048576," +
                        std::string(row).replace(std::string(row).find('@'), 1,
                                                 round) +
                        "\n";
        folder_.Write("timings.csv", text);
        Open(folder_.Path().c_str());
        stp_device_get_info(&device_, &info_);
    }

    mock_test::Folder folder_;
    stp_device_info info_{};
};

TEST_F(DeviceMockMemory, RunsInTheTimeThatWasRecorded)
{
    BeginRound(0, 2);
    const stp_device_run run =
        Probe(Registered(STP_MEMORY_CE), ncclFuncAllGather, 1 << 20);

    EXPECT_EQ(1u << STP_MEMORY_PLAIN | 1u << STP_MEMORY_CE, info_.setups);
    EXPECT_STREQ("copy engines", run.kernel);
    EXPECT_EQ(-1, run.algo);
    EXPECT_EQ(STP_SOURCE_RECORDED, run.source);
    EXPECT_NEAR(50,
                Mean(Registered(STP_MEMORY_CE), ncclFuncAllGather, 1 << 20, 10),
                1e-6);
    EXPECT_NEAR(100, Mean(kAuto, ncclFuncAllGather, 1 << 20, 10), 1e-6);
}

TEST_F(DeviceMockMemory, IsRefusedWhereNothingWasRecorded)
{
    for (const stp_arm &arm :
         {Registered(STP_MEMORY_SYM),
          stp_arm{STP_ARM_SETUP, 0, 0, 0, 0, {STP_MEMORY_CE, 0, 8, 0}},
          stp_arm{STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL, 0, 4096, {}}})
        EXPECT_EQ(STP_ERR_RANGE, stp_device_select_arm(&device_, &arm, &err_));

    EXPECT_THAT(
        err_.text,
        HasSubstr("arm ring/ll/chunk=4K: machine '" +
                  std::string(info_.machine) +
                  "' has no recorded times of it, and none are modelled"));
}

TEST_F(DeviceMockMemory, DoesNotRunCollectivesOfWhichNothingWasRecorded)
{
    BeginRound(0, 2);

    EXPECT_TRUE(Probe(Registered(STP_MEMORY_CE), ncclFuncAllReduce, 1 << 20)
                    .is_unknown);
    EXPECT_FALSE(Probe(Registered(STP_MEMORY_CE), ncclFuncAllGather, 1 << 20)
                     .is_unknown);
}

// Nothing else of the overlap was recorded: kernels slow each other down by
// 1.43, copy engines leave the SMs to compute.
TEST_F(DeviceMockMemory, CopiesLeaveTheSmsToCompute)
{
    const stp_gemm gemm{4096, 4096, 4096, STP_TYPE_BF16};
    const auto beside = [&](const stp_arm &arm) {
        Select(arm);
        Record(0, 0);
        Ok(Gemm(STP_STREAM_MAIN, gemm));
        Record(0, 1);
        Wait(STP_STREAM_COMM, 0);
        Note(STP_STREAM_COMM, Make(ncclFuncAllGather, 1 << 20, STP_TYPE_BF16));
        Synchronise();
        return Elapsed(0, 1);
    };
    BeginRound(0, 2);
    Select(kAuto);
    Record(0, 0);
    Ok(Gemm(STP_STREAM_MAIN, gemm));
    Record(0, 1);
    Synchronise();
    const double alone = Elapsed(0, 1);

    EXPECT_GT(beside(kAuto), alone + 10);
    EXPECT_NEAR(alone, beside(Registered(STP_MEMORY_CE)), 1e-6);
}

TEST_F(DeviceMock, KnowsTheSizesOfInterleavedRounds)
{
    uint64_t sizes[64];
    Open("h200x4");

    EXPECT_EQ(21u, stp_device_sizes(&device_, ncclFuncAllGather, sizes, 64));
    EXPECT_EQ(524288u, sizes[0]);
    EXPECT_EQ(45473792u, sizes[20]);
    EXPECT_EQ(0u, stp_device_sizes(&device_, ncclFuncBroadcast, sizes, 64));
}

// {0,8} and so on: a machine of two ranks would be one node.
TEST_F(DeviceMock, RefusesGroupsAcrossNodesEachTime)
{
    Open("h100n2x8");
    for (const stp_rank_groups &groups :
         {stp_rank_groups{2, 8}, stp_rank_groups{4, 4}}) {
        stp_collective collective{};
        stp_device_run run{};
        collective.coll = ncclFuncAllReduce;
        collective.n_bytes = 1024;
        collective.type = STP_TYPE_F32;
        collective.groups = groups;
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(STP_ERR_RANGE, TryNote(0, collective));
            EXPECT_EQ(STP_ERR_RANGE, stp_device_probe(&device_, &collective,
                                                      &run, nullptr, &err_));
            EXPECT_THAT(err_.text,
                        testing::HasSubstr("no machine is modelled for them"));
        }
        collective.groups = {8, 1};
        EXPECT_EQ(STP_OK, stp_device_probe(&device_, &collective, &run, nullptr,
                                           &err_));
    }
}

} // namespace
