// How long compute and collectives take, where launching them takes longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

extern "C" {
#include "bench/calibrate.h"
#include "nccl_tuner_abi.h"
}

#include "support/fake_engine.h"

namespace
{

// Work in one stream begins when what is before it has ended, and not before
// the host has launched it.  A GEMM takes 1 us and as much more as its
// operations over 1e7 a microsecond, a collective 6 us, and elementwise work as
// long as its bytes, read twice and written once, at 3 TB/s.
class FakeLaunches : public FakeEngine
{
  public:
    double launch_us = 8;
    bool has_gpu = true;
    double connect_us = 0;   // of the first collective
    size_t pauses_after = 0; // elementwise kernels, for 1 ms
    size_t n_elementwise = 0;

    static double GemmUs(const stp_gemm &g)
    {
        return 1 + 2. * g.m * g.n * g.k / 1e7;
    }

  private:
    void Info(stp_device_info *info) const override
    {
        info->is_live = true;
        info->has_data = false;
        snprintf(info->gpu, sizeof(info->gpu), "%s", has_gpu ? "A GPU" : "");
    }
    void Launch(double us)
    {
        host_ += launch_us;
        end_ = std::max(end_, host_) + us;
    }
    void Gemm(unsigned, const stp_gemm &g) override
    {
        Launch(GemmUs(g));
    }
    stp_status Collective(unsigned, const stp_transfer &, stp_error *) override
    {
        Launch(6 + connect_us);
        connect_us = 0;
        return STP_OK;
    }
    void Elementwise(unsigned, uint64_t n_bytes) override
    {
        Launch(3. * double(n_bytes) / 3e6);
        if (++n_elementwise == pauses_after)
            host_ += 1000;
    }
    void Record(unsigned, unsigned event) override
    {
        events_[event] = end_;
    }
    stp_status Synchronise(stp_error *) override
    {
        host_ = end_ = std::max(host_, end_);
        return STP_OK;
    }
    double EventUs(unsigned event) const override
    {
        return events_[event];
    }

    double host_ = 0;
    double end_ = 0;
    double events_[2] = {};
};

struct Layer {
    explicit Layer(FakeLaunches *device)
    {
        work.compute = STP_COMPUTE_GEMM;
        work.gemm = {256, 256, 256, STP_TYPE_BF16};
        what.coll = ncclFuncAllReduce;
        what.n_bytes = 1024;
        what.type = STP_TYPE_BF16;
        layer = {device->Open(), &work, &what, 1};
    }

    stp_workload work{};
    stp_collective what{};
    stp_layer layer{};
};

TEST(Calibrate, TimesWhatGpusDoAndNotItsLaunch)
{
    const struct {
        bool has_gpu;
        double launch_us, gemm_us, comm_us;
    } cases[] = {
        {true, 8, 4.3554432, 6},
        {true, 20, 4.3554432, 6},
        {true, 1, 4.3554432, 6},
        {true, 60, 4.3554432, 6}, // a busy host
        {true, 100, 4.3554432, 6},
        {false, 8, 8, 8}, // what a CPU is launched with is its work
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.launch_us);
        FakeLaunches device;
        device.launch_us = c.launch_us;
        device.has_gpu = c.has_gpu;
        Layer l(&device);
        const double first = c.has_gpu ? 1e-9 : 0.8; // waits for its launch
        double us = 0;

        ASSERT_EQ(STP_OK, stp_time_compute(&l.layer, 10, &us, nullptr));
        EXPECT_NEAR(c.gemm_us, us, first);
        ASSERT_EQ(STP_OK, stp_time_collectives(&l.layer, 50, &us, nullptr));
        EXPECT_NEAR(c.comm_us, us, first);
        EXPECT_EQ(c.has_gpu, device.n_elementwise > 0);
    }
}

TEST(Calibrate, TheFirstCollectiveConnectsAndTellsNothing)
{
    FakeLaunches device;
    device.connect_us = 200e3;
    Layer l(&device);
    double us = 0;

    ASSERT_EQ(STP_OK, stp_time_collectives(&l.layer, 50, &us, nullptr));

    EXPECT_NEAR(6, us, 1e-9);
}

TEST(Calibrate, ABusyHostMayPauseOnce)
{
    FakeLaunches device;
    device.launch_us = 60;
    device.pauses_after = 5; // those of the first layers that are probed
    Layer l(&device);
    double us = 0;

    ASSERT_EQ(STP_OK, stp_time_compute(&l.layer, 50, &us, nullptr));

    EXPECT_NEAR(4.3554432, us, 1e-9);
}

TEST(Calibrate, WhatTakesLongIsNotLaunchedAhead)
{
    FakeLaunches device;
    Layer l(&device);
    double us = 0;
    l.work.gemm = {2048, 2048, 256, STP_TYPE_BF16};

    ASSERT_EQ(STP_OK, stp_time_compute(&l.layer, 10, &us, nullptr));

    EXPECT_NEAR(FakeLaunches::GemmUs(l.work.gemm), us, 0.8 + 1e-9);
    EXPECT_EQ(0u, device.n_elementwise);
}

// A quarter of what 1 MiB takes on H200: shorter than a launch.
TEST(Calibrate, ChoosesAProductShorterThanALaunch)
{
    FakeLaunches device;
    Layer l(&device);

    ASSERT_EQ(STP_OK,
              stp_calibrate(l.layer.device, &l.what, 4, &l.work, nullptr));

    EXPECT_NEAR(4, l.work.compute_us, 0.5);
    EXPECT_NEAR(FakeLaunches::GemmUs(l.work.gemm), l.work.compute_us, 1e-9);
}

} // namespace
