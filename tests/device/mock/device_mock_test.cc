// A recorded machine as a device: whose times it gives, and in which rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

extern "C" {
#include "device/mock/device_mock.h"
}

#include "nccl_tuner_abi.h"

namespace
{

using testing::HasSubstr;

constexpr stp_arm kAuto{STP_ARM_AUTO, 0, 0, 0};
constexpr stp_arm kRingLl128{STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128,
                             0};
constexpr stp_arm kPlugin{STP_ARM_PLUGIN, 0, 0, 0};

class DeviceMock : public testing::Test
{
  protected:
    void Open(const char *machine, uint64_t seed = 1)
    {
        const std::string path =
            std::string(STP_FIXTURES "/machines/") + machine;
        const stp_device_mock_options options{path.c_str(), nullptr, seed,
                                              nullptr};
        Close();
        ASSERT_EQ(STP_OK, stp_device_mock_open(&options, &device_, &err_))
            << err_.text;
    }

    void Close()
    {
        if (device_.ops != nullptr)
            device_.ops->close(device_.self);
        device_.ops = nullptr;
    }

    void TearDown() override
    {
        Close();
    }

    // Mean time of 'n' collectives, in microseconds.
    double Mean(const stp_arm &arm, int coll, uint64_t n_bytes, int n)
    {
        stp_collective what{};
        what.coll = coll;
        what.n_bytes = n_bytes;
        what.type = STP_TYPE_BF16;
        EXPECT_EQ(STP_OK, device_.ops->select_arm(device_.self, &arm, &err_));
        EXPECT_EQ(STP_OK, device_.ops->record(device_.self, 0, 0, &err_));
        for (int i = 0; i < n; i++)
            EXPECT_EQ(STP_OK,
                      device_.ops->collective(device_.self, 0, &what, &err_))
                << err_.text;
        EXPECT_EQ(STP_OK, device_.ops->record(device_.self, 0, 1, &err_));
        EXPECT_EQ(STP_OK, device_.ops->synchronise(device_.self, &err_));
        return device_.ops->elapsed_us(device_.self, 0, 1) / n;
    }

    stp_device_run Probe(const stp_arm &arm, int coll, uint64_t n_bytes)
    {
        stp_collective what{};
        stp_device_run run{};
        what.coll = coll;
        what.n_bytes = n_bytes;
        what.type = STP_TYPE_BF16;
        EXPECT_EQ(STP_OK, device_.ops->select_arm(device_.self, &arm, &err_));
        EXPECT_EQ(STP_OK,
                  device_.ops->probe(device_.self, &what, &run, nullptr, &err_))
            << err_.text;
        return run;
    }

    stp_device device_{};
    stp_error err_{};
};

TEST_F(DeviceMock, GivesEachRecordedRoundOnce)
{
    // fixtures/machines/h200x4/timings.csv: all-gather, ring/ll128, rounds 1-4
    const double recorded[] = {28.978, 28.726, 28.798, 28.771};
    Open("h200x4");

    for (unsigned round = 0; round < 4; round++) {
        ASSERT_EQ(STP_OK,
                  device_.ops->begin_round(device_.self, round, 4, &err_));
        EXPECT_NEAR(recorded[round],
                    Mean(kRingLl128, ncclFuncAllGather, 3905536, 20000), 0.02);
    }
}

TEST_F(DeviceMock, HasNoMoreRoundsThanWereRecorded)
{
    Open("h200x4");

    EXPECT_EQ(STP_ERR_RANGE,
              device_.ops->begin_round(device_.self, 0, 5, &err_));

    EXPECT_STREQ("5 rounds, but machine 'h200x4' was recorded in 4", err_.text);
}

TEST_F(DeviceMock, SaysWhatRanAndHowItKnowsTheTime)
{
    Open("h200x4");
    stp_device_run run{};

    run = Probe(kAuto, ncclFuncAllGather, 3905536);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, run.proto);
    EXPECT_EQ(STP_SOURCE_RECORDED, run.source);

    run = Probe(kRingLl128, ncclFuncAllGather, 4000000);
    EXPECT_EQ(NCCL_PROTO_LL128, run.proto);
    EXPECT_EQ(STP_SOURCE_INTERPOLATED, run.source);

    run = Probe(kAuto, ncclFuncAllReduce, 1024);
    EXPECT_EQ(STP_SOURCE_SINGLE_PASS, run.source);

    run = Probe(kAuto, ncclFuncAllReduce, 1 << 26);
    EXPECT_EQ(24, run.n_channels);

    run = Probe(kAuto, ncclFuncBroadcast, 1024);
    EXPECT_EQ(STP_SOURCE_MODELLED, run.source);
}

TEST_F(DeviceMock, RunsAnArmThatNcclRulesOutAsNcclsOwnChoice)
{
    const stp_arm nvls{STP_ARM_FORCED, NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 4};
    stp_device_run run{};
    Open("h200x4");

    run = Probe(nvls, ncclFuncAllReduce, 1 << 20);

    EXPECT_EQ(NCCL_ALGO_RING, run.algo);
    EXPECT_EQ(24, run.n_channels);
}

TEST_F(DeviceMock, RunsAnArmWithTheChannelsItNames)
{
    const stp_arm eight{STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8};
    stp_device_run run{};
    Open("h200x4");

    double us = Mean(eight, ncclFuncAllReduce, 1 << 26, 10);
    run = Probe(eight, ncclFuncAllReduce, 1 << 26);

    EXPECT_EQ(8, run.n_channels);
    EXPECT_EQ(STP_SOURCE_SINGLE_PASS, run.source);
    EXPECT_GT(us, 1.5 * Mean(kAuto, ncclFuncAllReduce, 1 << 26, 10));
}

TEST_F(DeviceMock, KnowsTheSizesOfInterleavedRounds)
{
    uint64_t sizes[64];
    Open("h200x4");

    EXPECT_EQ(21u,
              device_.ops->sizes(device_.self, ncclFuncAllGather, sizes, 64));
    EXPECT_EQ(524288u, sizes[0]);
    EXPECT_EQ(45473792u, sizes[20]);
    EXPECT_EQ(0u,
              device_.ops->sizes(device_.self, ncclFuncBroadcast, sizes, 64));
}

TEST_F(DeviceMock, DrawsTheSameForTheSameSeed)
{
    double us[3];

    for (int i = 0; i < 3; i++) {
        Open("h200x4", i < 2 ? 1 : 2);
        us[i] = Mean(kAuto, ncclFuncAllReduce, 1 << 20, 7);
    }

    EXPECT_EQ(us[0], us[1]);
    EXPECT_NE(us[0], us[2]);
}

TEST_F(DeviceMock, HasNoPluginArmWithoutAPlugin)
{
    Open("h200x4");

    EXPECT_EQ(STP_ERR_RANGE,
              device_.ops->select_arm(device_.self, &kPlugin, &err_));

    EXPECT_THAT(err_.text, HasSubstr("opened without"));
}

TEST_F(DeviceMock, SaysThatAMachineIsModelled)
{
    stp_device_info info{};
    Open("h100x8");

    device_.ops->info(device_.self, &info);

    EXPECT_THAT(info.what, HasSubstr("modelled"));
    EXPECT_EQ(8u, info.n_ranks);
    EXPECT_EQ(1u, info.max_rounds);
}

} // namespace
