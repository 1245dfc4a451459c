// The events that mock NCCL reports to a profiler, and their order.
#include <gmock/gmock.h>

#include "mock_nccl/comm/mock_collnet_machine.h"
#include "support/mock_profiler.h"

using namespace mock_test;
using testing::ElementsAre;
using testing::IsEmpty;

namespace
{

// ---- events ----

TEST(MockProfiler, ReportsACollectiveInNcclsOrder)
{
    Profiled p(kListener, kKernels);
    mock_call call = Call(ncclFuncReduceScatter, 32768);
    Log log;

    mock_outcome outcome = RunOne(p.comm, call);

    ASSERT_EQ(2, outcome.n_channels);
    EXPECT_TRUE(outcome.is_timed);
    EXPECT_EQ(reinterpret_cast<void *>(4), outcome.event);
    EXPECT_THAT(
        ProfilerLines(log),
        ElementsAre("1000 start 1 GroupApi of 0 rank 0 depth 1 captured 0",
                    "state 1 23",
                    "1000 start 2 CollApi of 1 rank 0 ReduceScatter 4096 "
                    "ncclBfloat16 root 0 captured 0",
                    "stop 2", "state 1 24", "1000 start 3 Group of 0 rank 0",
                    "1000 start 4 Coll of 2 rank 0 ReduceScatter 4096 "
                    "ncclBfloat16 root 0 RING/LL on 2 number 0 in 3",
                    "stop 4", "stop 3", "stop 1"));
}

// All starts before all ends, and nothing of a channel that was lost.
TEST(MockProfiler, ReportsKernelsLater)
{
    const struct {
        mock_channel_time first;
        std::vector<std::string> lines;
    } cases[] = {
        {{100, 900},
         {"1000 start 5 KernelCh of 4 rank 0 channel 0 at 100",
          "1000 start 6 KernelCh of 4 rank 0 channel 1 at 110",
          "state 5 22 at 900", "stop 5", "state 6 22 at 950", "stop 6"}},
        {{100, 0},
         {"1000 start 5 KernelCh of 4 rank 0 channel 1 at 110",
          "state 5 22 at 950", "stop 5"}}};

    for (const auto &c : cases) {
        Profiled p(kListener, kKernels);
        mock_outcome outcome =
            RunOne(p.comm, Call(ncclFuncReduceScatter, 32768));
        mock_channel_time times[] = {c.first, {110, 950}};
        Log log;

        RunKernels(p.comm, outcome, times);

        EXPECT_EQ(c.lines, ProfilerLines(log));
    }
}

TEST(MockProfiler, ReportsStartsAndEndsSeparately)
{
    Profiled p(kListener, kKernels);
    mock_outcome outcome = RunOne(p.comm, Call(ncclFuncReduceScatter, 32768));
    mock_channel_time times[] = {{100, 0}, {110, 950}};
    void *handles[2] = {&p, &p};
    Log begun;

    mock_comm_kernel_began(p.comm.get(), &outcome, times, handles);
    EXPECT_EQ(nullptr, handles[0]);
    EXPECT_THAT(
        ProfilerLines(begun),
        ElementsAre("1000 start 5 KernelCh of 4 rank 0 channel 1 at 110"));
    Log ended;
    mock_comm_kernel_ended(p.comm.get(), &outcome, times, handles);

    EXPECT_THAT(ProfilerLines(ended),
                ElementsAre("state 5 22 at 950", "stop 5"));
}

TEST(MockProfiler, V4ReceivesNoCallsAndHasTheGroupAsParent)
{
    Profiled p(kListenerV4, kKernels);
    mock_channel_time times[] = {{100, 900}, {110, 950}};
    Log log;

    mock_outcome outcome = RunOne(p.comm, Call(ncclFuncReduceScatter, 32768));
    RunKernels(p.comm, outcome, times);

    EXPECT_THAT(
        ProfilerLines(log),
        ElementsAre("1000 start 1 Group of 0 rank 0",
                    "1000 start 2 Coll of 1 rank 0 ReduceScatter 4096 "
                    "ncclBfloat16 root 0 RING/LL on 2 number 0",
                    "stop 2", "stop 1",
                    "1000 start 3 KernelCh of 2 rank 0 channel 0 at 100",
                    "1000 start 4 KernelCh of 2 rank 0 channel 1 at 110",
                    "state 3 22 at 900", "stop 3", "state 4 22 at 950",
                    "stop 4"));
}

// A profiler without handles of groups receives no collectives in 2.27.
TEST(MockProfiler, CollectivesNeedTheirGroupsHandleIn2_27)
{
    for (const auto &[version, n] : {std::pair{"2.27", 0u}, {"2.28", 1u}}) {
        Profiled p(kListenerV4, NCCL_PROFILE_COLL, NCCL_PROFILE_COLL, version);

        RunOne(p.comm, Call(ncclFuncAllReduce, 1 << 20));

        EXPECT_EQ(n, p.profiler->events) << version;
    }
}

TEST(MockProfiler, EventsWithoutHandleAreNeverStopped)
{
    Profiled p(kListener, kKernels, 0);
    mock_channel_time times[] = {{100, 900}, {110, 950}};
    Log log;

    mock_outcome outcome = RunOne(p.comm, Call(ncclFuncReduceScatter, 32768));
    RunKernels(p.comm, outcome, times);

    for (const std::string &line : ProfilerLines(log))
        EXPECT_EQ(0u, line.find("1000 start 0 ")) << line;
    EXPECT_EQ(6u, ProfilerLines(log).size());
}

struct FieldsCase {
    std::string name;
    mock_call call;
    std::string api;
    std::string coll; // up to the algorithm
};

using MockProfilerFields = testing::TestWithParam<FieldsCase>;

TEST_P(MockProfilerFields, AreTheUsersForTheCallAndNcclsForTheLaunch)
{
    Profiled p(kListener, NCCL_PROFILE_COLL,
               NCCL_PROFILE_COLL | NCCL_PROFILE_COLL_API);
    Log log;

    RunOne(p.comm, GetParam().call);

    Lines lines = ProfilerLines(log);
    ASSERT_EQ(6u, lines.size());
    EXPECT_EQ("1000 start 1 CollApi of 0 rank 0 " + GetParam().api +
                  " captured 0",
              lines[1]);
    EXPECT_EQ("1000 start 2 Coll of 1 rank 0 " + GetParam().coll,
              lines[4].substr(0, lines[4].find(" RING")));
}

mock_call Sized(ncclFunc_t coll, size_t n_bytes, size_t element_size,
                int root = 0)
{
    mock_call call = Call(coll, n_bytes);
    call.element_size = element_size;
    call.root = root;
    return call;
}

INSTANTIATE_TEST_SUITE_P(
    All, MockProfilerFields,
    testing::Values(FieldsCase{"allreduce", Sized(ncclFuncAllReduce, 4096, 4),
                               "AllReduce 1024 ncclFloat32 root 0",
                               "AllReduce 1024 ncclFloat32 root 0"},
                    FieldsCase{"allgather", Sized(ncclFuncAllGather, 4096, 4),
                               "AllGather 256 ncclFloat32 root 0",
                               "AllGather 1024 ncclInt8 root 0"},
                    FieldsCase{"broadcast",
                               Sized(ncclFuncBroadcast, 4096, 2, 3),
                               "Broadcast 2048 ncclBfloat16 root 3",
                               "Broadcast 4096 ncclInt8 root 3"},
                    FieldsCase{"reduce", Sized(ncclFuncReduce, 4096, 8, 1),
                               "Reduce 512 ncclFloat64 root 1",
                               "Reduce 512 ncclFloat64 root 1"}),
    CaseName());

TEST(MockProfiler, GroupHasOneCollOfEachTask)
{
    Profiled p(kListener, NCCL_PROFILE_COLL);
    mock_call calls[] = {Call(ncclFuncReduceScatter, 16384),
                         Call(ncclFuncReduceScatter, 32768)};
    mock_outcome outcomes[2];
    Log log;

    ASSERT_EQ(ncclSuccess, mock_comm_group(p.comm.get(), calls, 2, outcomes));

    EXPECT_THAT(
        ProfilerLines(log),
        ElementsAre("1000 start 1 GroupApi of 0 rank 0 depth 2 captured 0",
                    "state 1 23",
                    "1000 start 2 CollApi of 1 rank 0 ReduceScatter 2048 "
                    "ncclBfloat16 root 0 captured 0",
                    "stop 2",
                    "1000 start 3 CollApi of 1 rank 0 ReduceScatter 4096 "
                    "ncclBfloat16 root 0 captured 0",
                    "stop 3", "state 1 24", "1000 start 4 Group of 0 rank 0",
                    "1000 start 5 Coll of 2 rank 0 ReduceScatter 2048 "
                    "ncclBfloat16 root 0 RING/LL on 2 number 0 in 4",
                    "1000 start 6 Coll of 3 rank 0 ReduceScatter 4096 "
                    "ncclBfloat16 root 0 RING/LL on 4 number 1 in 4",
                    "stop 5", "stop 6", "stop 4", "stop 1"));
    EXPECT_EQ(reinterpret_cast<void *>(5), outcomes[0].event);
    EXPECT_EQ(reinterpret_cast<void *>(6), outcomes[1].event);
}

TEST(MockProfiler, MaskCountsAsItIsAtTheCall)
{
    Profiled p(kListener, 0, NCCL_PROFILE_COLL);
    const mock_call call = Call(ncclFuncAllReduce, 1 << 20);
    struct {
        int mask;
        uintptr_t events; // Colls so far
        bool is_timed;
    } const cases[] = {{0, 0, false},
                       {NCCL_PROFILE_GROUP, 0, false},
                       {NCCL_PROFILE_COLL_API, 0, false},
                       {NCCL_PROFILE_COLL, 1, false},
                       {NCCL_PROFILE_KERNEL_CH, 2, true},
                       {0, 2, false}};

    for (const auto &c : cases) {
        *p.profiler->nccl_mask = c.mask;
        EXPECT_EQ(c.is_timed, RunOne(p.comm, call).is_timed) << c.mask;
        EXPECT_EQ(c.events, p.profiler->events) << c.mask;
    }
}

// A bit enables the events above its own.
TEST(MockProfiler, EveryBitEnablesItsEventsAndThoseAbove)
{
    const std::string api = "GroupApi ", call = "CollApi ", group = "Group ",
                      all = "GroupApi CollApi Group Coll ";
    const std::pair<int, std::string> cases[] = {
        {NCCL_PROFILE_GROUP, api + group},
        {NCCL_PROFILE_COLL, all},
        {NCCL_PROFILE_P2P, api + group},
        {NCCL_PROFILE_PROXY_OP, all},
        {NCCL_PROFILE_PROXY_STEP, all},
        {NCCL_PROFILE_PROXY_CTRL, ""},
        {NCCL_PROFILE_KERNEL_CH, all},
        {NCCL_PROFILE_NET_PLUGIN, all},
        {NCCL_PROFILE_GROUP_API, api},
        {NCCL_PROFILE_COLL_API, api + call},
        {NCCL_PROFILE_P2P_API, api},
        {NCCL_PROFILE_KERNEL_LAUNCH, api},
        {NCCL_PROFILE_CE_COLL, api + call},
        {NCCL_PROFILE_CE_SYNC, api + call},
        {NCCL_PROFILE_CE_BATCH, api + call},
    };
    Profiled p(kListener, 0, kAll, "2.30");

    for (const auto &[mask, want] : cases) {
        *p.profiler->nccl_mask = mask;
        Log log;
        RunOne(p.comm, Call(ncclFuncReduce, 4096));
        std::string started;
        for (const std::string &line : ProfilerLines(log)) {
            std::stringstream words(line);
            std::string context, what, handle, event;
            words >> context >> what >> handle >> event;
            started += what == "start" ? event + " " : "";
        }
        EXPECT_EQ(want, started) << mask;
    }
}

TEST(MockProfiler, NumbersCountUnreportedCollectives)
{
    Profiled p(kListener, 0, NCCL_PROFILE_COLL);
    RunOne(p.comm, Call(ncclFuncReduce, 1 << 20));
    RunOne(p.comm, Call(ncclFuncBroadcast, 1 << 20));
    RunOne(p.comm, Call(ncclFuncReduce, 1 << 20));
    *p.profiler->nccl_mask = NCCL_PROFILE_COLL;
    Log log;

    RunOne(p.comm, Call(ncclFuncReduce, 1 << 20));

    EXPECT_NE(std::string::npos, ProfilerLines(log)[3].find(" number 2 "))
        << ProfilerLines(log)[3];
}

TEST(MockProfiler, BroadcastsHaveNoEventOfWhatRunsFrom2_29)
{
    struct {
        const char *version;
        uintptr_t events; // of the broadcast
        bool is_timed;
    } const cases[] = {
        {"2.28", 1, true}, {"2.29", 0, false}, {"2.32", 0, false}};

    for (const auto &c : cases) {
        Profiled p(kListener, kKernels, NCCL_PROFILE_COLL, c.version);
        EXPECT_EQ(c.is_timed,
                  RunOne(p.comm, Call(ncclFuncBroadcast, 1 << 20)).is_timed);
        EXPECT_EQ(c.events, p.profiler->events) << c.version;
        EXPECT_TRUE(RunOne(p.comm, Call(ncclFuncAllReduce, 1 << 20)).is_timed);
        EXPECT_EQ(c.events + 1, p.profiler->events) << c.version;
    }
}

TEST(MockProfiler, CallsWithoutKernelAreNotReported)
{
    Profiled p(kListener, kKernels);
    Log log;

    RunOne(p.comm, Call(ncclFuncAllReduce, 0));

    EXPECT_THAT(ProfilerLines(log), IsEmpty());
}

TEST(MockProfiler, SymmetricCallsAreNotLaunched)
{
    Profiled p(kListener, NCCL_PROFILE_COLL, NCCL_PROFILE_COLL);
    mock_call call = Call(ncclFuncAllReduce, 1 << 20);

    call.windows = MOCK_WINDOWS_BOTH;
    RunOne(p.comm, call);

    EXPECT_EQ(0u, p.profiler->events);
}

// From 2.31 on; of those of one kernel the first has its blocks.
TEST(MockProfiler, SymmetricKernelsAreLaunchedFirstFrom2_31)
{
    Profiled p(kListener, kKernels, NCCL_PROFILE_COLL | NCCL_PROFILE_KERNEL_CH,
               "2.31");
    std::vector<mock_call> calls(3, Call(ncclFuncAllReduce, 65536));
    calls[1] = Call(ncclFuncReduce, 32768);
    calls[0].windows = calls[2].windows = MOCK_WINDOWS_BOTH;
    std::vector<mock_outcome> outcomes(3);
    Log log;

    ASSERT_EQ(ncclSuccess,
              mock_comm_group(p.comm.get(), calls.data(), 3, outcomes.data()));
    EXPECT_EQ(4, outcomes[0].n_channels + outcomes[2].n_channels);
    EXPECT_THAT(
        FollowedLines(log),
        ElementsAre("1000 start 1 Coll of 0 rank 0 AllReduce 32768 "
                    "ncclBfloat16 root 0 RSxLD_AGxST/ on 4 number 0 in 0 "
                    "by AllReduce_RSxLD_AGxST of windows",
                    "1000 start 2 Coll of 0 rank 0 AllReduce 32768 "
                    "ncclBfloat16 root 0 RSxLD_AGxST/ on 0 number 1 in 0 "
                    "by AllReduce_RSxLD_AGxST of windows",
                    "stop 1", "stop 2",
                    "1000 start 3 Coll of 0 rank 0 Reduce 16384 ncclBfloat16 "
                    "root 0 RING/LL on 2 number 0 in 0",
                    "stop 3"));
}

// General kernels wait for other ranks within their only phase.
TEST(MockProfiler, PhasesAreToldBeforeTheChannelsEndToV7)
{
    const struct {
        const char *version;
        mock_channel_time time;
        Lines want;
    } cases[] = {
        {"2.30", {100, 900, 200, 800}, {"state 1 22 at 900", "stop 1"}},
        {"2.31",
         {100, 900, 200, 800},
         {"1000 start 2 KernelPhase of 1 rank 0 channel 3 phase 0 "
          "initial_sync at 100",
          "state 2 31 at 200", "stop 2",
          "1000 start 3 KernelPhase of 1 rank 0 channel 3 phase 1 compute at "
          "200",
          "state 3 31 at 800", "stop 3",
          "1000 start 4 KernelPhase of 1 rank 0 channel 3 phase 2 final_sync "
          "at 800",
          "state 4 31 at 900", "stop 4", "state 1 22 at 900", "stop 1"}},
        {"2.31",
         {100, 900, 0, 0},
         {"1000 start 2 KernelPhase of 1 rank 0 channel 3 phase 1 compute at "
          "100",
          "state 2 31 at 900", "stop 2", "state 1 22 at 900", "stop 1"}},
        {"2.31", {100, 0, 200, 800}, {}}, // lost
    };

    for (const auto &c : cases) {
        Profiled p(kListener, kKernels | NCCL_PROFILE_KERNEL_PHASE,
                   NCCL_PROFILE_KERNEL_CH | NCCL_PROFILE_KERNEL_PHASE,
                   c.version);
        mock_outcome outcome = RunOne(p.comm, Call(ncclFuncReduce, 64));
        void *handles[1];
        ASSERT_EQ(1, outcome.n_channels);
        outcome.first_channel = 3; // as behind others of a group
        mock_comm_kernel_began(p.comm.get(), &outcome, &c.time, handles);
        Log log;

        mock_comm_kernel_ended(p.comm.get(), &outcome, &c.time, handles);

        EXPECT_EQ(c.want, ProfilerLines(log)) << c.version;
    }
}

TEST(MockProfiler, CopyEnginesAreToldIfAnyOfTheirEventsIsRequested)
{
    const std::pair<int, bool> cases[] = {{NCCL_PROFILE_CE_COLL, true},
                                          {NCCL_PROFILE_CE_SYNC, true},
                                          {NCCL_PROFILE_CE_BATCH, true},
                                          {NCCL_PROFILE_COLL, false},
                                          {kKernels, false},
                                          {0, false}};
    Machine machine = LoadMachine("h200x4");
    mock_nccl_options options = With(kListener, "2.30");
    mock_call call = Call(ncclFuncAllGather, 65536);
    options.zero_ctas = true;
    call.windows = MOCK_WINDOWS_BOTH;

    for (auto [mask, told] : cases) {
        Profiler profiler(kListener, mask);
        Nccl nccl = MakeNccl(options);
        Comm comm = MakeComm(nccl, machine);
        Log log;
        RunOne(comm, call);
        int n = 0;
        for (const std::string &line : ProfilerLines(log))
            n += line.find("CeColl") != std::string::npos;
        EXPECT_EQ(told ? 1 : 0, n) << mask;
    }
}

TEST(MockProfiler, CopyEnginesAreToldFromV6OnAsTheyAreEnqueued)
{
    const struct {
        const char *version;
        Lines want;
    } cases[] = {
        {"2.28", {}},
        {"2.30",
         {"1000 start 1 CeColl of 0 rank 0 AllGather 16384 ncclInt8 by MC "
          "number 0",
          "stop 1",
          "1000 start 2 CeColl of 0 rank 0 AllGather 16384 ncclInt8 by MC "
          "number 1",
          "stop 2"}},
    };

    for (const auto &c : cases) {
        Profiler profiler(kListener, NCCL_PROFILE_CE_COLL,
                          NCCL_PROFILE_CE_COLL);
        mock_nccl_options options = With(kListener, c.version);
        options.zero_ctas = true;
        Nccl nccl = MakeNccl(options);
        Comm comm = MakeComm(nccl, LoadMachine("h200x4"));
        mock_call call = Call(ncclFuncAllGather, 65536);
        call.windows = MOCK_WINDOWS_BOTH;
        Log log;

        RunOne(comm, call);
        RunOne(comm, call);

        EXPECT_EQ(c.want, FollowedLines(log)) << c.version;
    }
}

TEST(MockProfiler, CaptureReportsOnlyCalls)
{
    Profiled p(kListener, kKernels);
    const mock_call call = Call(ncclFuncReduceScatter, 32768);
    mock_cuda_graph *graph = nullptr;
    Log log;

    ASSERT_EQ(ncclSuccess, mock_comm_capture(p.comm.get(), &call, 1, &graph));
    mock_graph_destroy(graph);

    EXPECT_THAT(
        ProfilerLines(log),
        ElementsAre("1000 start 1 GroupApi of 0 rank 0 depth 1 captured 1",
                    "state 1 23",
                    "1000 start 2 CollApi of 1 rank 0 ReduceScatter 4096 "
                    "ncclBfloat16 root 0 captured 1",
                    "stop 2", "state 1 24", "stop 1"));
}

} // namespace
