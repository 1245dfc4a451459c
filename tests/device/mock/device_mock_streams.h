// A recorded machine as a device with two streams: shared by its tests.
#pragma once

#include <functional>

extern "C" {
#include "core/rng.h"
}

#include "device/device_fixture.h"
#include "support/mock_device.h"
#include "support/mock_folder.h"

constexpr unsigned kMain = STP_STREAM_MAIN;
constexpr unsigned kComm = STP_STREAM_COMM;
constexpr stp_arm kRing{
    STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128, 0, 0, {}};
constexpr unsigned kMiB = 1 << 20;
constexpr int kBf16 = STP_TYPE_BF16;

inline stp_collective AllReduce(uint64_t n_bytes)
{
    stp_collective collective{};
    collective.coll = ncclFuncAllReduce;
    collective.n_bytes = n_bytes;
    collective.type = STP_TYPE_BF16;
    return collective;
}

class DeviceMockStreams : public DeviceFixture
{
  protected:
    void Open(const std::string &machine = "h200x4", const stp_arm &arm = kAuto)
    {
        stp_device_close(&device_);
        Ok(OpenMockDevice(machine, kSeed, &device_, &err_));
        machine_ = mock_test::LoadFolder(MockPath(machine));
        Select(arm);
        BeginRound(0, 1); // round .5
    }

    void Send(unsigned stream, uint64_t n_bytes)
    {
        Note(stream, AllReduce(n_bytes));
    }
    void Group(const std::vector<uint64_t> &sizes)
    {
        DeviceFixture::Group(true);
        for (uint64_t size : sizes)
            Send(kMain, size);
        DeviceFixture::Group(false);
    }
    // The time of the work that 'note' notes, between two events of the main
    // stream.
    double Time(const std::function<void()> &note)
    {
        Record(kMain, 90);
        note();
        Record(kMain, 91);
        Synchronise();
        return Elapsed(90, 91);
    }
    double TimeGemm(const stp_gemm &gemm)
    {
        return Time([&] { Ok(Gemm(kMain, gemm)); });
    }
    // Layers, each overlapped with the collective of the one before; events
    // from 'event' on.
    void Layers(const stp_gemm &gemm, uint64_t n_bytes, unsigned n,
                unsigned event = 0)
    {
        for (unsigned i = 0; i < n; i++) {
            Ok(Gemm(kMain, gemm));
            Record(kMain, event + i);
            Wait(kComm, event + i);
            Send(kComm, n_bytes);
        }
        Record(kComm, event + n);
        Wait(kMain, event + n);
    }
    mock_run RunOf(uint64_t n_bytes) const
    {
        return {ncclFuncAllReduce, n_bytes, NCCL_ALGO_RING, NCCL_PROTO_LL128,
                0};
    }
    double Quantile(uint64_t draw) const
    {
        return stp_rng_unit(kSeed, draw);
    }
    mock_overlap Beside(uint64_t n_bytes, double compute_us, uint64_t draw)
    {
        const mock_run run = RunOf(n_bytes);
        mock_overlap o{};
        EXPECT_EQ(ncclSuccess,
                  mock_machine_overlap(machine_.get(), &run, MOCK_MODE_OVERLAP,
                                       compute_us, .5, Quantile(draw), &o));
        return o;
    }
    double Alone(uint64_t n_bytes, uint64_t draw)
    {
        const mock_run run = RunOf(n_bytes);
        mock_time time{};
        EXPECT_EQ(ncclSuccess, mock_machine_time(machine_.get(), &run, .5,
                                                 Quantile(draw), &time));
        return time.us;
    }

    static constexpr uint64_t kSeed = 7;
    mock_test::Machine machine_;
};

// fixtures/machines/h200x4/overlap.csv: 4 MiB beside it
constexpr stp_gemm kSquare{2048, 2048, 2176, STP_TYPE_BF16};
constexpr double kSquareUs = 25.5;
