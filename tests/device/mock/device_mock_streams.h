// A recorded machine as a device with two streams: what its tests share.
#ifndef DEVICE_MOCK_STREAMS_H
#define DEVICE_MOCK_STREAMS_H

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

extern "C" {
#include "core/rng.h"
#include "device/mock/device_mock.h"
}

#include "support/mock_folder.h"

constexpr unsigned kMain = STP_STREAM_MAIN;
constexpr unsigned kComm = STP_STREAM_COMM;
constexpr stp_arm kAuto{STP_ARM_AUTO, 0, 0, 0};
constexpr stp_arm kRing{STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128, 0};
constexpr unsigned kMiB = 1 << 20;
constexpr int kBf16 = STP_TYPE_BF16;

inline stp_collective AllReduce(uint64_t n_bytes)
{
    stp_collective what{};
    what.coll = ncclFuncAllReduce;
    what.n_bytes = n_bytes;
    what.type = STP_TYPE_BF16;
    return what;
}

class DeviceMockStreams : public testing::Test
{
  protected:
    ~DeviceMockStreams() override
    {
        if (device_.ops != nullptr)
            device_.ops->close(device_.self);
    }
    void Open(const std::string &path, const stp_arm &arm = kAuto)
    {
        const stp_device_mock_options options{path.c_str(), nullptr, kSeed,
                                              nullptr};
        ASSERT_EQ(STP_OK, stp_device_mock_open(&options, &device_, &err_))
            << err_.text;
        machine_ = mock_test::LoadFolder(path);
        ops_ = device_.ops;
        self_ = device_.self;
        EXPECT_EQ(STP_OK, ops_->select_arm(self_, &arm, &err_));
        EXPECT_EQ(STP_OK, ops_->begin_round(self_, 0, 1, &err_)); // round .5
    }
    void Open(const char *machine = "h200x4", const stp_arm &arm = kAuto)
    {
        Open(std::string(STP_FIXTURES "/machines/") + machine, arm);
    }

    void Send(unsigned stream, uint64_t n_bytes)
    {
        const stp_collective what = AllReduce(n_bytes);
        EXPECT_EQ(STP_OK, ops_->collective(self_, stream, &what, &err_))
            << err_.text;
    }
    stp_status Multiply(unsigned stream, const stp_gemm &gemm)
    {
        return ops_->compute(self_, stream, &gemm, &err_);
    }
    void Record(unsigned stream, unsigned event)
    {
        EXPECT_EQ(STP_OK, ops_->record(self_, stream, event, &err_));
    }
    void Wait(unsigned stream, unsigned event)
    {
        EXPECT_EQ(STP_OK, ops_->wait(self_, stream, event, &err_));
    }
    void Group(const std::vector<uint64_t> &sizes)
    {
        EXPECT_EQ(STP_OK, ops_->group(self_, true, &err_));
        for (uint64_t size : sizes)
            Send(kMain, size);
        EXPECT_EQ(STP_OK, ops_->group(self_, false, &err_));
    }
    // Of what 'note' notes, between two events of the main stream.
    double Time(const std::function<void()> &note)
    {
        Record(kMain, 90);
        note();
        Record(kMain, 91);
        EXPECT_EQ(STP_OK, ops_->synchronise(self_, &err_)) << err_.text;
        return ops_->elapsed_us(self_, 90, 91);
    }
    double Gemm(const stp_gemm &gemm)
    {
        return Time([&] { EXPECT_EQ(STP_OK, Multiply(kMain, gemm)); });
    }
    // Layers with a collective beside each next one; events from 'event' on.
    void Layers(const stp_gemm &gemm, uint64_t n_bytes, unsigned n,
                unsigned event = 0)
    {
        for (unsigned i = 0; i < n; i++) {
            EXPECT_EQ(STP_OK, Multiply(kMain, gemm));
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
                  mock_machine_overlap(machine_.get(), &run, compute_us, .5,
                                       Quantile(draw), &o));
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
    stp_device device_{};
    const stp_device_ops *ops_ = nullptr;
    void *self_ = nullptr;
    stp_error err_{};
};

// fixtures/machines/h200x4/overlap.csv: 4 MiB beside it
constexpr stp_gemm kSquare{2048, 2048, 2176, STP_TYPE_BF16};
constexpr double kSquareUs = 25.5;

#endif // DEVICE_MOCK_STREAMS_H
