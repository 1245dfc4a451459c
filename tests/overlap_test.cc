// The loop of collectives beside compute, where all times are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "bench/device_mock.h"
#include "bench/mock_streams.h"
#include "bench/overlap.h"
#include "core/rng.h"
#include "mock_test.h"

namespace
{

using testing::ElementsAre;

// ---- a device with known times ----

// A product takes 2 us and as much more as its operations over 'rate'; arms
// take what 'comm_us' says, and side by side all is 1.5 times as long.
struct Fake {
    double rate = 1e6; // operations a microsecond
    std::map<std::string, double> comm_us = {
        {"auto", 100}, {"ring/simple", 120}, {"tree/ll", 150}};
    std::string ruled_out;
    size_t fail_at = SIZE_MAX; // the synchronise() that fails

    stp_arm arm{};
    size_t n_runs = 0;
    double now = 0;
    bool ran = false;
    std::vector<stp_task> tasks;
    std::vector<double> events = std::vector<double>(1000);
    std::vector<std::string> log; // rounds, and arms that are timed

    std::string Arm() const
    {
        char name[STP_ARM_NAME];
        stp_arm_name(&arm, name);
        return name;
    }
    stp_status Add(const stp_task &task)
    {
        if (ran)
            tasks.clear();
        ran = false;
        tasks.push_back(task);
        return STP_OK;
    }
};

Fake *Self(void *self)
{
    return static_cast<Fake *>(self);
}

stp_status Synchronise(void *self, stp_error *err)
{
    Fake *f = Self(self);
    if (f->n_runs++ == f->fail_at)
        return stp_fail(err, STP_ERR_DEVICE, 0, 0, "the GPU fell off");
    f->now = stp_run_streams(
        f->tasks.data(), f->tasks.size(), f->now,
        [](void *, size_t, size_t) { return 1.5; }, nullptr, f->events.data());
    f->ran = true;
    return STP_OK;
}

stp_device_ops FakeOps()
{
    stp_device_ops ops{};

    ops.name = "fake";
    ops.begin_round = [](void *self, unsigned round, unsigned, stp_error *) {
        Self(self)->log.push_back("round " + std::to_string(round));
        return STP_OK;
    };
    ops.select_arm = [](void *self, const stp_arm *arm, stp_error *) {
        Self(self)->arm = *arm;
        return STP_OK;
    };
    ops.probe = [](void *self, const stp_collective *, stp_device_run *run,
                   stp_question *, stp_error *) {
        Fake *f = Self(self);
        bool own = f->Arm() == "auto" || f->Arm() == f->ruled_out;
        *run = {own ? NCCL_ALGO_RING : f->arm.algo,
                own ? NCCL_PROTO_LL : f->arm.proto, 8, STP_SOURCE_MEASURED, 1};
        f->log.push_back(f->Arm());
        return STP_OK;
    };
    ops.collective = [](void *self, unsigned stream, const stp_collective *,
                        stp_error *) {
        Fake *f = Self(self);
        return f->Add(
            {STP_TASK_COLLECTIVE, stream, 0, f->comm_us.at(f->Arm())});
    };
    ops.compute = [](void *self, unsigned stream, const stp_gemm *g,
                     stp_error *) {
        Fake *f = Self(self);
        double flop = 2. * g->m * g->n * g->k;
        return f->Add({STP_TASK_COMPUTE, stream, 0, 2 + flop / f->rate});
    };
    ops.record = [](void *self, unsigned stream, unsigned event, stp_error *) {
        return Self(self)->Add({STP_TASK_RECORD, stream, event, 0});
    };
    ops.wait = [](void *self, unsigned stream, unsigned event, stp_error *) {
        return Self(self)->Add({STP_TASK_WAIT, stream, event, 0});
    };
    ops.synchronise = Synchronise;
    ops.elapsed_us = [](const void *self, unsigned from, unsigned to) {
        const auto *f = static_cast<const Fake *>(self);
        return f->events[to] - f->events[from];
    };
    return ops;
}

class OverlapLoop : public testing::Test
{
  protected:
    OverlapLoop()
    {
        stp_arms_parse("ring/simple,tree/ll", &arms_, nullptr);
        stp_sizes_add(&sizes_, 1 << 20, 8, nullptr);
        plan_.coll = ncclFuncAllReduce;
        plan_.sizes = &sizes_;
        plan_.ratios = ratios_;
        plan_.n_ratios = 1;
        plan_.arms = &arms_;
        plan_.layers = 4;
        plan_.rounds = 2;
        plan_.warmup = 1;
        plan_.iters = 3;
        plan_.type = STP_TYPE_BF16;
    }
    ~OverlapLoop() override
    {
        stp_overlap_free(&data_);
    }
    stp_status Run(stp_sweep_progress progress = nullptr)
    {
        const stp_device device = {&ops_, &fake_};
        return stp_overlap_run(&device, &plan_, progress, nullptr, &data_,
                               &err_);
    }
    // What an iteration takes, each layer so long alone.
    double Expected(double comm_us, double compute_us) const
    {
        const mock_overlap o{compute_us, comm_us, 1.5, MOCK_TIME_MODELLED};
        return mock_overlapped_us(&o, static_cast<int>(plan_.layers));
    }

    stp_device_ops ops_ = FakeOps();
    Fake fake_;
    stp_arms arms_;
    stp_sizes sizes_{};
    double ratios_[2] = {0.5, 1};
    stp_overlap_plan plan_{};
    stp_overlap_data data_{};
    stp_error err_{};
};

TEST_F(OverlapLoop, TimesIterationsOfEveryArm)
{
    ASSERT_EQ(STP_OK, Run());

    ASSERT_EQ(6u, data_.n_rows);
    const double comm_us[] = {100, 120, 150};
    for (size_t i = 0; i < data_.n_rows; i++) {
        const stp_overlap_row &row = data_.rows[i];
        double want = Expected(comm_us[i % 3], row.setting.compute_us);
        EXPECT_EQ(i / 3, row.round);
        EXPECT_TRUE(stp_arm_equal(&arms_.arm[i % 3], &row.arm));
        EXPECT_NEAR(want, row.us.mean, 1e-6);
        EXPECT_NEAR(want, row.us.median, 1e-6);
        EXPECT_NEAR(want, row.us.min, 1e-6);
        EXPECT_EQ(3u, row.iters);
        EXPECT_EQ(4u, row.setting.layers);
        EXPECT_EQ(1u << 20, row.setting.what.n_bytes);
        EXPECT_NEAR(100, row.setting.comm_us, 1e-9);
    }
}

struct RatioCase {
    double rate, ratio;
    unsigned side; // expected
};

// 2 us and 2 side^2 k / rate: the time with a k that is a multiple of 64.
TEST_F(OverlapLoop, ChoosesTheProductByItsTime)
{
    const RatioCase cases[] = {
        {1e9, .5, 4096}, {1e9, 1, 8192}, {1e9, 4, 8192},
        {1e8, .5, 2048}, {1e8, 1, 2048}, {1e7, 1, 512},
    };

    for (const RatioCase &c : cases) {
        SCOPED_TRACE(c.rate * c.ratio);
        fake_.rate = c.rate;
        ratios_[0] = c.ratio;
        stp_overlap_free(&data_);

        ASSERT_EQ(STP_OK, Run());

        const stp_overlap_setting &s = data_.rows[0].setting;
        double grain = 2. * c.side * c.side * 64 / c.rate; // us
        EXPECT_EQ(c.side, s.gemm.m);
        EXPECT_EQ(c.side, s.gemm.n);
        EXPECT_EQ(0u, s.gemm.k % 64);
        EXPECT_NEAR(2 + grain * s.gemm.k / 64, s.compute_us, 1e-9);
        EXPECT_NEAR(100 * c.ratio, s.compute_us,
                    std::max(grain / 2, 3 * c.ratio) + 1e-9);
    }
}

TEST_F(OverlapLoop, TakesTheShortestProductWhereNoneIsShortEnough)
{
    fake_.rate = 1e5; // 256 x 256 x 64: 86 us
    ratios_[0] = .5;

    ASSERT_EQ(STP_OK, Run());

    EXPECT_EQ(256u, data_.rows[0].setting.gemm.m);
    EXPECT_EQ(64u, data_.rows[0].setting.gemm.k);
}

TEST_F(OverlapLoop, MeasuresTheSameProductOnce)
{
    fake_.rate = 1e5;
    ratios_[1] = .25;
    plan_.n_ratios = 2;
    size_t n_steps = 0;
    const stp_device device = {&ops_, &fake_};

    ASSERT_EQ(STP_OK, stp_overlap_run(
                          &device, &plan_,
                          [](void *user, size_t done, size_t total) {
                              EXPECT_EQ(2u, total);
                              *static_cast<size_t *>(user) = done;
                              return true;
                          },
                          &n_steps, &data_, &err_));

    EXPECT_EQ(6u, data_.n_rows);
    EXPECT_EQ(2u, n_steps);
}

TEST_F(OverlapLoop, RunsEveryArmOnceARound)
{
    ASSERT_EQ(STP_OK, Run());
    EXPECT_THAT(fake_.log, ElementsAre("round 0", "round 0", "auto",
                                       "ring/simple", "tree/ll", "round 1",
                                       "auto", "ring/simple", "tree/ll"));
}

TEST_F(OverlapLoop, BeginsEachRoundWithAnotherArmWhereTimesDrift)
{
    plan_.rotate = true;
    plan_.rounds = 3;

    ASSERT_EQ(STP_OK, Run());

    EXPECT_THAT(fake_.log,
                ElementsAre("round 0", "round 0", "auto", "ring/simple",
                            "tree/ll", "round 1", "ring/simple", "tree/ll",
                            "auto", "round 2", "tree/ll", "auto",
                            "ring/simple"));
}

TEST_F(OverlapLoop, LeavesOutAnArmThatNcclRulesOut)
{
    fake_.ruled_out = "ring/simple";

    ASSERT_EQ(STP_OK, Run());

    EXPECT_EQ(4u, data_.n_rows);
    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_FALSE(stp_arm_equal(&arms_.arm[1], &data_.rows[i].arm));
}

TEST_F(OverlapLoop, KeepsCompleteSettingsWhenTheDeviceFails)
{
    plan_.n_ratios = 2;
    ASSERT_EQ(STP_OK, Run());
    fake_.fail_at = fake_.n_runs - 1; // in the last row
    fake_.n_runs = 0;
    stp_overlap_free(&data_);

    EXPECT_EQ(STP_ERR_DEVICE, Run());

    EXPECT_STREQ("the GPU fell off", err_.text);
    EXPECT_EQ(6u, data_.n_rows);
}

TEST_F(OverlapLoop, StopsWhenItIsToldTo)
{
    plan_.n_ratios = 2;

    EXPECT_EQ(STP_ERR_STOPPED,
              Run([](void *, size_t, size_t) { return false; }));

    EXPECT_STREQ("stopped after 1 of 2 settings", err_.text);
    EXPECT_EQ(6u, data_.n_rows);
}

// ---- a recorded machine ----

// Draws: 2 x 10 collectives alone, then each iteration's, warm-up first.
TEST_F(OverlapLoop, GivesTheIterationsOfARecordedMachine)
{
    const stp_device_mock_options options{STP_FIXTURES "/machines/h200x4",
                                          nullptr, 3, nullptr};
    mock_test::Machine machine = mock_test::LoadMachine("h200x4");
    stp_device device;
    stp_arms_parse("ring/ll128", &arms_, nullptr);
    sizes_.size[0] = 16 << 20;
    plan_.layers = 8;
    plan_.rounds = 1;
    ASSERT_EQ(STP_OK, stp_device_mock_open(&options, &device, &err_));

    ASSERT_EQ(STP_OK,
              stp_overlap_run(&device, &plan_, nullptr, nullptr, &data_, &err_))
        << err_.text;
    device.ops->close(device.self);

    ASSERT_EQ(2u, data_.n_rows);
    const stp_overlap_row &row = data_.rows[1];
    const mock_run run{ncclFuncAllReduce, 16 << 20, NCCL_ALGO_RING,
                       NCCL_PROTO_LL128, 0};
    double sum = 0;
    for (uint64_t draw = 20 + 4 + 1; draw < 20 + 4 + 4; draw++) {
        mock_overlap o{};
        mock_machine_overlap(machine.get(), &run, row.setting.compute_us, .5,
                             stp_rng_unit(3, draw), &o);
        sum += mock_overlapped_us(&o, 8);
    }
    EXPECT_NEAR(sum / 3, row.us.mean, 1e-6);
    EXPECT_NEAR(.5, row.setting.compute_us / row.setting.comm_us, .03);
}

} // namespace
