// How long compute and collectives take, where launching them takes longer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

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

constexpr stp_gemm kShort{256, 256, 256, STP_TYPE_BF16};
constexpr stp_gemm kLong{2048, 2048, 256, STP_TYPE_BF16};

TEST(Calibrate, TimesWhatGpusDoAndNotItsLaunch)
{
    const double gemm = FakeLaunches::GemmUs(kShort);
    const struct {
        const char *what;
        bool has_gpu;
        double launch_us, gemm_us, comm_us, error_us;
        double connect_us;   // tells nothing
        size_t pauses_after; // those of the first layers that are probed
        stp_gemm gemm;
        bool ahead; // behind elementwise work
    } cases[] = {
        // clang-format off
        {"",                 true, 8, gemm, 6, 1e-9, 0, 0, kShort, true},
        {"slower",           true, 20, gemm, 6, 1e-9, 0, 0, kShort, true},
        {"fast",             true, 1, gemm, 6, 1e-9, 0, 0, kShort, true},
        {"a busy host",      true, 60, gemm, 6, 1e-9, 0, 0, kShort, true},
        {"a busier one",     true, 100, gemm, 6, 1e-9, 0, 0, kShort, true},
        {"a pause",          true, 60, gemm, 6, 1e-9, 0, 5, kShort, true},
        {"has to connect",   true, 8, gemm, 6, 1e-9, 200e3, 0, kShort, true},
        {"takes long",       true, 8, FakeLaunches::GemmUs(kLong), 6, 0.8 + 1e-9, 0, 0, kLong, false},
        {"a CPU, whose launch is its work", false, 8, 8, 8, 0.8, 0, 0, kShort, false},
        // clang-format on
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.what);
        FakeLaunches device;
        device.launch_us = c.launch_us;
        device.has_gpu = c.has_gpu;
        device.connect_us = c.connect_us;
        Layer l(&device);
        l.work.gemm = c.gemm;
        double us = 0;

        ASSERT_EQ(STP_OK,
                  stp_time_layer(&l.layer, STP_STREAM_COMM, 50, &us, nullptr));
        EXPECT_NEAR(c.comm_us, us, c.error_us);
        device.n_elementwise = 0;
        device.pauses_after = c.pauses_after;
        ASSERT_EQ(STP_OK,
                  stp_time_layer(&l.layer, STP_STREAM_MAIN, 50, &us, nullptr));
        EXPECT_NEAR(c.gemm_us, us, c.error_us);
        EXPECT_EQ(c.ahead, device.n_elementwise > 0);
    }
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
