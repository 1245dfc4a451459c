// A recorded machine's streams: which work overlaps, and how long it takes.
#include <algorithm>

extern "C" {
#include "device/mock/mock_streams.h"
}

#include "device/mock/device_mock_streams.h"

namespace
{

// ---- two streams ----

stp_mock_task Task(stp_task_kind kind, unsigned stream, double us)
{
    return {kind, stream, 0, us, 0, 0};
}
stp_mock_task Event(stp_task_kind kind, unsigned stream, unsigned event)
{
    return {kind, stream, event, 0, 0, 0};
}
stp_mock_task Compute(double us)
{
    return Task(STP_TASK_COMPUTE, kMain, us);
}
stp_mock_task Comm(double us)
{
    return Task(STP_TASK_COLLECTIVE, kComm, us);
}

struct StreamsCase {
    const char *name;
    std::vector<stp_mock_task> tasks;
    double want;
    std::vector<double> events; // 0 and on
};

using Streams = testing::TestWithParam<StreamsCase>;

// Everything starts at 100; side by side is 1.5 times as long.
TEST_P(Streams, TakeTheirTime)
{
    const StreamsCase &c = GetParam();
    std::vector<stp_mock_task> tasks = c.tasks;
    std::vector<stp_task_event> events(4);
    double busy = 0;

    double end = stp_run_streams(
        tasks.data(), tasks.size(), 100,
        [](void *, size_t, size_t) { return 1.5; }, nullptr, events.data());

    EXPECT_DOUBLE_EQ(100 + c.want, end);
    for (size_t i = 0; i < c.events.size(); i++)
        EXPECT_DOUBLE_EQ(100 + c.events[i], events[i].us);
    for (const stp_mock_task &task : tasks) {
        const bool runs =
            task.kind == STP_TASK_COMPUTE || task.kind == STP_TASK_COLLECTIVE;
        EXPECT_EQ(runs ? 100 : 0, std::min(100., task.begin_us));
        EXPECT_LE(runs ? task.us : 0, task.end_us - task.begin_us + 1e-9);
        busy = std::max(busy, task.end_us);
    }
    EXPECT_DOUBLE_EQ(c.want > 0 ? end : 0, busy);
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

TEST_F(DeviceMockStreams, AnIterationTakesWhatMockNcclSays)
{
    Open("h200x4", kRing);
    mock_overlap beside = Beside(4 * kMiB, kSquareUs, 0);

    double us = Time([&] { Layers(kSquare, 4 * kMiB, 8); });

    EXPECT_EQ(MOCK_TIME_RECORDED, beside.source);
    EXPECT_NEAR(mock_iteration_us(MOCK_MODE_OVERLAP, &beside, 0, 8), us,
                1e-9 * us);
}

TEST_F(DeviceMockStreams, InOneStreamEachTakesItsTimeAlone)
{
    Open("h200x4", kRing);
    double want = 0;
    for (uint64_t draw = 0; draw < 8; draw++)
        want += kSquareUs + Alone(4 * kMiB, draw);

    double us = Time([&] {
        for (int i = 0; i < 8; i++) {
            EXPECT_EQ(STP_OK, Gemm(kMain, kSquare));
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
    double second = Elapsed(80, 91);
    first -= second;

    Replay();
    for (uint64_t draw = 0; draw < 4; draw++) {
        mock_overlap beside = Beside(4 * kMiB, kSquareUs, draw);
        const double us[] = {first, second, Elapsed(90, 80), Elapsed(80, 91)};
        double want = mock_iteration_us(MOCK_MODE_OVERLAP, &beside, 0, 8);
        EXPECT_NEAR(want, us[draw], 1e-6) << draw;
    }
    EXPECT_NE(first, second);
}

// ---- groups ----

TEST_F(DeviceMockStreams, EqualCollectivesOfAGroupRunAsOne)
{
    Open("h200x4", kRing);

    double us = Time([&] { Group({kMiB, kMiB, kMiB, kMiB}); });

    EXPECT_NEAR(Alone(4 * kMiB, 0), us, 1e-9);
}

// Without compute collectives are one draw each; NCCL decides at once about
// sizes of a group within a factor of 4.
TEST_F(DeviceMockStreams, AGroupOfOneIsACollective)
{
    Open("h200x4", kRing);

    double us = Time([&] {
        Send(kMain, kMiB);
        Group({2 * kMiB});
        Group({kMiB});
    });

    EXPECT_NEAR(Alone(kMiB, 0) + Alone(2 * kMiB, 1) + Alone(kMiB, 2), us, 1e-9);
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
    // both take longer while the shorter one lasts
    double more_us =
        std::min(beside.compute_us, beside.comm_us) * (beside.slowdown - 1);

    Time([&] {
        EXPECT_EQ(STP_OK, Gemm(kMain, kSquare));
        Record(kMain, 2);
        DeviceFixture::Group(true);
        Send(kComm, 2 * kMiB);
        Send(kComm, 2 * kMiB);
        DeviceFixture::Group(false);
        Record(kComm, 3);
        Wait(kComm, 2); // so that both events are of one draw
        Wait(kMain, 3);
    });

    EXPECT_NEAR(beside.compute_us + more_us, Elapsed(90, 2), 1e-9);
    EXPECT_NEAR(beside.comm_us + more_us, Elapsed(90, 3), 1e-9);
}

} // namespace
