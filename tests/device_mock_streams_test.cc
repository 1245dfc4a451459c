// A recorded machine's streams: what runs beside what, and how long it takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bench/device_mock.h"
#include "bench/mock_streams.h"
#include "core/rng.h"
#include "mock_folder.h"

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;

constexpr unsigned kMain = STP_STREAM_MAIN;
constexpr unsigned kComm = STP_STREAM_COMM;

// ---- two streams ----

stp_task Task(stp_task_kind kind, unsigned stream, double us)
{
    return {kind, stream, 0, us};
}
stp_task Event(stp_task_kind kind, unsigned stream, unsigned event)
{
    return {kind, stream, event, 0};
}
stp_task Compute(double us)
{
    return Task(STP_TASK_COMPUTE, kMain, us);
}
stp_task Comm(double us)
{
    return Task(STP_TASK_COLLECTIVE, kComm, us);
}

struct StreamsCase {
    const char *name;
    std::vector<stp_task> tasks;
    double want;
    std::vector<double> events; // 0 and on
};

class Streams : public testing::TestWithParam<StreamsCase>
{
};

// Everything starts at 100; side by side is 1.5 times as long.
TEST_P(Streams, TakeTheirTime)
{
    const StreamsCase &c = GetParam();
    std::vector<double> events(4, -1);

    double end = stp_run_streams(
        c.tasks.data(), c.tasks.size(), 100,
        [](void *, size_t, size_t) { return 1.5; }, nullptr, events.data());

    EXPECT_DOUBLE_EQ(100 + c.want, end);
    for (size_t i = 0; i < c.events.size(); i++)
        EXPECT_DOUBLE_EQ(100 + c.events[i], events[i]);
}

INSTANTIATE_TEST_SUITE_P(
    , Streams,
    testing::Values(
        StreamsCase{"NothingTakesNothing", {}, 0, {}},
        StreamsCase{"OneStreamIsASum", {Compute(10), Compute(20)}, 30, {}},
        // both for 4 x 1.5, then 6 alone
        StreamsCase{
            "SideBySideEachSlowsTheOther", {Compute(10), Comm(4)}, 12, {}},
        StreamsCase{"TwoComputesShareTheGpu",
                    {Compute(10), Task(STP_TASK_COMPUTE, kComm, 4)},
                    14,
                    {}},
        StreamsCase{"CollectivesOfTwoStreamsRunAsNoted",
                    {Comm(4), Task(STP_TASK_COLLECTIVE, kMain, 10),
                     Event(STP_TASK_RECORD, kComm, 0),
                     Event(STP_TASK_RECORD, kMain, 1)},
                    14,
                    {4, 14}},
        StreamsCase{"AStreamWaitsForTheOther",
                    {Compute(10), Event(STP_TASK_RECORD, kMain, 0),
                     Event(STP_TASK_WAIT, kComm, 0), Comm(4),
                     Event(STP_TASK_RECORD, kComm, 1)},
                    14,
                    {10, 14}},
        // both for 2 x 1.5, the join, 5 alone
        StreamsCase{"AJoinEndsWhatIsSideBySide",
                    {Compute(2), Comm(2), Event(STP_TASK_RECORD, kComm, 0),
                     Event(STP_TASK_WAIT, kMain, 0), Compute(5),
                     Event(STP_TASK_RECORD, kMain, 1)},
                    8,
                    {3, 8}}),
    [](const testing::TestParamInfo<StreamsCase> &i) { return i.param.name; });

// ---- a recorded machine ----

constexpr stp_arm kAuto{STP_ARM_AUTO, 0, 0, 0};
constexpr stp_arm kRing{STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128, 0};
constexpr unsigned kMiB = 1 << 20;

stp_collective AllReduce(uint64_t n_bytes)
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

TEST_F(DeviceMockStreams, AnIterationTakesWhatMockNcclSays)
{
    Open("h200x4", kRing);
    mock_overlap beside = Beside(4 * kMiB, kSquareUs, 0);

    double us = Time([&] { Layers(kSquare, 4 * kMiB, 8); });

    EXPECT_EQ(MOCK_TIME_RECORDED, beside.source);
    EXPECT_NEAR(mock_overlapped_us(&beside, 8), us, 1e-9 * us);
}

TEST_F(DeviceMockStreams, InOneStreamEachTakesItsTimeAlone)
{
    Open("h200x4", kRing);
    double want = 0;
    for (uint64_t draw = 0; draw < 8; draw++)
        want += kSquareUs + Alone(4 * kMiB, draw);

    double us = Time([&] {
        for (int i = 0; i < 8; i++) {
            EXPECT_EQ(STP_OK, Multiply(kMain, kSquare));
            Send(kMain, 4 * kMiB);
        }
    });

    EXPECT_NEAR(want, us, 1e-9 * us);
}

TEST_F(DeviceMockStreams, EachIterationIsAnotherDraw)
{
    Open("h200x4", kRing);

    double first = Time([&] {
        Layers(kSquare, 4 * kMiB, 8);
        Record(kMain, 80);
        Layers(kSquare, 4 * kMiB, 8, 20);
    });
    double second = ops_->elapsed_us(self_, 80, 91);
    first -= second;

    EXPECT_EQ(STP_OK, ops_->replay(self_, &err_));
    for (uint64_t draw = 0; draw < 4; draw++) {
        mock_overlap beside = Beside(4 * kMiB, kSquareUs, draw);
        const double us[] = {first, second, ops_->elapsed_us(self_, 90, 80),
                             ops_->elapsed_us(self_, 80, 91)};
        EXPECT_NEAR(mock_overlapped_us(&beside, 8), us[draw], 1e-6) << draw;
    }
    EXPECT_NE(first, second);
}

TEST_F(DeviceMockStreams, CollectivesWithoutComputeAreOneDrawEach)
{
    Open("h200x4", kRing);

    double us = Time([&] {
        Send(kMain, kMiB);
        Send(kMain, 2 * kMiB);
    });

    EXPECT_NEAR(Alone(kMiB, 0) + Alone(2 * kMiB, 1), us, 1e-9);
}

// ---- products ----

TEST_F(DeviceMockStreams, AProductTakesItsRecordedTime)
{
    Open();

    EXPECT_DOUBLE_EQ(kSquareUs, Gemm(kSquare));
    EXPECT_DOUBLE_EQ(11.7, Gemm({2048, 2048, 704, STP_TYPE_BF16}));
    EXPECT_DOUBLE_EQ(512.8, Gemm({4096, 4096, 10880, STP_TYPE_BF16}));
}

TEST_F(DeviceMockStreams, BetweenTwoRecordedProductsItIsInProportion)
{
    Open();

    // 2048 x 2048 x 1088 and 1344: 15.3 and 17.7
    EXPECT_NEAR(16.5, Gemm({2048, 2048, 1216, STP_TYPE_BF16}), 1e-9);
}

TEST_F(DeviceMockStreams, OtherProductsAreModelledByThePeakRate)
{
    const double flop = 2. * 1024 * 1024 * 1024;
    const stp_gemm f32{1024, 1024, 1024, STP_TYPE_F32};
    const stp_gemm bf16{1024, 1024, 1024, STP_TYPE_BF16};

    Open("h100x8");
    EXPECT_NEAR(4.75 + flop / (67e6 * .77), Gemm(f32), 1e-9);
    EXPECT_NEAR(4.75 + flop / (989.5e6 * .77), Gemm(bf16), 1e-9);
    ops_->close(self_);
    Open("a100x8");
    EXPECT_NEAR(4.75 + flop / (312e6 * .77), Gemm(bf16), 1e-9);
    ops_->close(self_);
    Open("b200x8");
    EXPECT_NEAR(4.75 + flop / (2250e6 * .77), Gemm(bf16), 1e-9);
}

TEST_F(DeviceMockStreams, ElementwiseIsModelledByTheMemorysRate)
{
    struct Case {
        const char *machine;
        double terabytes; // a second
    };
    const uint64_t n_bytes = 64 * kMiB;

    for (Case c : {Case{"h200x4", 4.8}, {"h100x8", 3.35}, {"a100x8", 2.039}}) {
        Open(c.machine);
        double us = Time([&] {
            EXPECT_EQ(STP_OK, ops_->elementwise(self_, kMain, n_bytes, &err_));
        });
        EXPECT_NEAR(4.75 + 3. * n_bytes / (c.terabytes * 1e6 * .9), us, 1e-9);
        EXPECT_EQ(STP_SOURCE_MODELLED, ops_->source(self_));
        ops_->close(self_);
    }
    device_ = {};
}

struct SourceCase {
    const char *name;
    const char *machine;
    stp_gemm gemm;
    uint64_t n_bytes;
    unsigned stream; // of the collective
    stp_source want;
};

class DeviceMockSource : public DeviceMockStreams,
                         public testing::WithParamInterface<SourceCase>
{
};

TEST_P(DeviceMockSource, IsTheWorstOfALayer)
{
    const SourceCase &c = GetParam();
    Open(c.machine, kRing);

    Time([&] {
        EXPECT_EQ(STP_OK, Multiply(kMain, c.gemm));
        Send(c.stream, c.n_bytes);
        Record(c.stream, 0);
        Wait(kMain, 0);
    });

    EXPECT_EQ(c.want, ops_->source(self_));
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    Table, DeviceMockSource,
    testing::Values(
        SourceCase{"recorded", "h200x4", kSquare, 4 * kMiB, kComm, STP_SOURCE_RECORDED},
        SourceCase{"size_between", "h200x4", kSquare, 5 * kMiB, kComm, STP_SOURCE_INTERPOLATED},
        SourceCase{"product_between", "h200x4", {2048, 2048, 1216, STP_TYPE_BF16}, 4 * kMiB, kComm, STP_SOURCE_INTERPOLATED},
        SourceCase{"ratio_beyond", "h200x4", {4096, 4096, 10880, STP_TYPE_BF16}, 4 * kMiB, kComm, STP_SOURCE_MODELLED},
        SourceCase{"other_product", "h200x4", {512, 512, 512, STP_TYPE_BF16}, 4 * kMiB, kComm, STP_SOURCE_MODELLED},
        SourceCase{"one_stream", "h200x4", kSquare, 4 * kMiB, kMain, STP_SOURCE_INTERPOLATED},
        SourceCase{"nothing_recorded", "h100x8", kSquare, 4 * kMiB, kComm, STP_SOURCE_MODELLED}),
    [](const auto &i) { return std::string(i.param.name); });
// clang-format on

TEST_F(DeviceMockStreams, RefusesProductsThatAGpuDoesNotMultiply)
{
    mock_test::Folder folder;
    folder.Write("machine.csv", "gpu,compute_capability,cpu_vendor,nccl\n"
                                "Tesla V100,70,intel,2.28.9\n");
    Open(folder.Path());

    EXPECT_EQ(STP_ERR_RANGE, Multiply(kMain, {64, 64, 64, STP_TYPE_BF16}));
    EXPECT_STREQ("Tesla V100 multiplies no matrices of bf16", err_.text);
    EXPECT_EQ(STP_ERR_RANGE, Multiply(kMain, {64, 64, 64, STP_TYPE_I8}));
    EXPECT_EQ(STP_ERR_RANGE, Multiply(kMain, {64, 0, 64, STP_TYPE_F16}));
    EXPECT_THAT(err_.text, HasSubstr("64 x 0 x 64"));
    EXPECT_EQ(STP_OK, Multiply(kMain, {64, 64, 64, STP_TYPE_F16}));
}

TEST_F(DeviceMockStreams, SaysWhereComputeBesideCollectivesIsModelled)
{
    stp_device_info info{};

    Open("h200x4");
    ops_->info(self_, &info);
    EXPECT_FALSE(info.models_overlap);
    ops_->close(self_);
    Open("h200x3");
    ops_->info(self_, &info);
    EXPECT_TRUE(info.models_overlap);
}

// ---- groups ----

TEST_F(DeviceMockStreams, EqualCollectivesOfAGroupRunAsOne)
{
    Open("h200x4", kRing);

    double us = Time([&] { Group({kMiB, kMiB, kMiB, kMiB}); });

    EXPECT_NEAR(Alone(4 * kMiB, 0), us, 1e-9);
}

// NCCL decides at once about sizes within a factor of 4.
TEST_F(DeviceMockStreams, AGroupOfOneIsACollective)
{
    Open("h200x4", kRing);

    double us = Time([&] {
        Group({kMiB});
        Group({2 * kMiB});
    });

    EXPECT_NEAR(Alone(kMiB, 0) + Alone(2 * kMiB, 1), us, 1e-9);
}

TEST_F(DeviceMockStreams, WhatNcclRunsOtherwiseInAGroupComesAfterwards)
{
    Open("h200x4"); // auto: 4 KiB is ring/ll, 64 MiB ring/simple
    const mock_run small{ncclFuncAllReduce, 4096, NCCL_ALGO_RING, NCCL_PROTO_LL,
                         0};
    const mock_run large{ncclFuncAllReduce, 64 * kMiB, NCCL_ALGO_RING,
                         NCCL_PROTO_SIMPLE, 0};
    mock_time a{}, b{};
    mock_machine_time(machine_.get(), &small, .5, Quantile(0), &a);
    mock_machine_time(machine_.get(), &large, .5, Quantile(0), &b);

    double us = Time([&] { Group({4096, 64 * kMiB}); });

    EXPECT_NEAR(a.us + b.us, us, 1e-9);
}

TEST_F(DeviceMockStreams, AGroupRunsBesideComputeAsACollectiveDoes)
{
    Open("h200x4", kRing);
    mock_overlap beside = Beside(4 * kMiB, kSquareUs, 0);
    double compute_us = 0, comm_us = 0;

    Time([&] {
        EXPECT_EQ(STP_OK, Multiply(kMain, kSquare));
        Record(kMain, 2);
        EXPECT_EQ(STP_OK, ops_->group(self_, true, &err_));
        Send(kComm, 2 * kMiB);
        Send(kComm, 2 * kMiB);
        EXPECT_EQ(STP_OK, ops_->group(self_, false, &err_));
        Record(kComm, 3);
        Wait(kComm, 2); // so that both events are of one draw
        Wait(kMain, 3);
    });

    mock_side_by_side(&beside, &compute_us, &comm_us);
    EXPECT_NEAR(compute_us, ops_->elapsed_us(self_, 90, 2), 1e-9);
    EXPECT_NEAR(comm_us, ops_->elapsed_us(self_, 90, 3), 1e-9);
}

TEST_F(DeviceMockStreams, RefusesWhatNoGroupCanHave)
{
    const stp_collective what = AllReduce(1024);
    Open();

    EXPECT_EQ(STP_ERR_RANGE, ops_->group(self_, false, &err_));
    EXPECT_STREQ("the end of a group that was not begun", err_.text);
    EXPECT_EQ(STP_OK, ops_->group(self_, true, &err_));
    EXPECT_EQ(STP_ERR_RANGE, ops_->group(self_, true, &err_));
    EXPECT_STREQ("a group within a group", err_.text);
    EXPECT_EQ(STP_ERR_RANGE, Multiply(kMain, kSquare));
    EXPECT_STREQ("only collectives can be in a group", err_.text);
    Send(kMain, 1024);
    EXPECT_EQ(STP_ERR_RANGE, ops_->collective(self_, kComm, &what, &err_));
    EXPECT_STREQ("a group in two streams, expected one", err_.text);
}

} // namespace
