// The trace that the learning plugin records as NCCL's profiler: every
// collective of rank 0, in order, with its times, whatever tunes the job and
// however it ends.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

extern "C" {
#include "analyse/jobs/steps.h"
#include "analyse/traces/traces.h"
}

#include "mock_kernels.h"
#include "plugin/online/online_trace.h"

namespace
{

using namespace online_plugin;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OnlineTrace : public OnlinePlugin
{
  protected:
    void SetUp() override
    {
        OnlinePlugin::SetUp();
        Set("STEPTUNE_TRACE", Trace());
    }

    std::string Trace() const
    {
        return (dir_ / "trace.csv").string();
    }

    std::vector<Fields> Rows() const
    {
        return RowsOf(Trace());
    }

    // Each field of this column.
    std::vector<std::string> Column(int column) const
    {
        std::vector<std::string> fields;
        for (const Fields &row : Rows())
            fields.push_back(row[static_cast<size_t>(column)]);
        return fields;
    }

    Job MakeJob(const Nccl &nccl)
    {
        mock_job *job = nullptr;
        options_.comm_id = mock_new_comm_id();
        options_.step = {calls_.data(), calls_.size(), 20};
        options_.user = this;
        options_.done = [](void *user, const mock_job_step *step) {
            for (size_t i = 0; i < step->n; i++)
                static_cast<OnlineTrace *>(user)->runs_.push_back(
                    step->runs[i]);
        };
        EXPECT_EQ(ncclSuccess,
                  mock_job_create(nccl.get(), machine_.get(), &options_, &job))
            << mock_last_error();
        return Job(job);
    }

    void Play(size_t n_steps, const Nccl &nccl)
    {
        const Job job = MakeJob(nccl);
        ASSERT_EQ(ncclSuccess, mock_job_play(job.get(), n_steps))
            << mock_last_error();
    }

    // That row i is the i-th collective of the job, with its times if
    // 'has_times', by a clock that may be ahead.
    void ExpectRuns(const std::vector<Fields> &rows, bool has_times) const
    {
        const double ahead =
            has_times && !rows.empty()
                ? std::stod(rows[0][kBegin]) / 1e3 - runs_[0].start_us
                : 0;
        ASSERT_EQ(runs_.size(), rows.size());
        for (size_t i = 0; i < rows.size(); i++) {
            SCOPED_TRACE("row " + std::to_string(i));
            EXPECT_EQ(runs_[i].call->coll == ncclFuncAllGather ? "allgather"
                                                               : "allreduce",
                      rows[i][kColl]);
            EXPECT_EQ(std::to_string(runs_[i].call->n_bytes), rows[i][kBytes]);
            if (!has_times)
                continue;
            const double begin = std::stod(rows[i][kBegin]) / 1e3 - ahead;
            const double end = std::stod(rows[i][kEnd]) / 1e3 - ahead;
            EXPECT_NEAR(runs_[i].start_us, begin, 0.01);
            EXPECT_NEAR(runs_[i].start_us + runs_[i].us, end, 0.01);
        }
    }

    std::vector<mock_job_call> calls_{After(20, ncclFuncAllGather, 3905536),
                                      After(20, ncclFuncAllReduce, 256 << 10),
                                      After(90, ncclFuncAllReduce, 4 << 20)};
    mock_job_options options_{};
    std::vector<mock_job_run> runs_;
};

const struct {
    const char *name;
    const char *version;
    const char *tuner; // NULL: none
} kTuned[] = {
    {"v4_alone", "2.27", nullptr},       {"v4_policy", "2.27", STP_STATIC},
    {"v5_alone", "2.28", nullptr},       {"v5_policy", "2.28", STP_STATIC},
    {"v5_anothers", "2.28", STP_ECHO},   {"v5_learning", "2.28", STP_PLUGIN},
    {"v6_alone", "2.29", nullptr},       {"v6_policy", "2.30", STP_STATIC},
    {"v6_learning", "2.30", STP_PLUGIN},
};

TEST_F(OnlineTrace, HasEachCollectiveWithItsTimesWhateverTunes)
{
    for (const auto &c : kTuned) {
        SCOPED_TRACE(c.name);
        fs::remove(Trace());
        runs_.clear();

        Play(2000, StartOnline(c.version, STP_PLUGIN, c.tuner));

        const std::vector<Fields> rows = Rows();
        ASSERT_EQ(6000u, rows.size());
        ExpectRuns(rows, true);
        EXPECT_EQ("4", rows[0][kRanks]);
        EXPECT_EQ(std::to_string(getpid()), rows[0][kProcess]);
        EXPECT_EQ("", rows[0][kGroup]);
        EXPECT_EQ("0", rows[0][kGraph]);
        // 2.27 tells an all-gather's bytes alone
        EXPECT_EQ(c.version == std::string("2.27") ? "" : "bf16",
                  rows[0][kType]);
        EXPECT_EQ("bf16", rows[1][kType]);
    }
}

// It is one, for replay and the rest.
TEST_F(OnlineTrace, IsReadAsATrace)
{
    stp_trace trace{};
    stp_error err{};
    Play(50, StartOnline("2.28", STP_PLUGIN, nullptr));

    ASSERT_EQ(STP_OK, stp_traces_load(Trace().c_str(), &trace, &err))
        << err.text;

    ASSERT_EQ(150u, trace.n_rows);
    ASSERT_EQ(1u, trace.n_comms);
    EXPECT_EQ(4, trace.comms[0].n_ranks);
    EXPECT_EQ(size_t{3905536}, trace.rows[0].call.n_bytes);
    EXPECT_NEAR(
        runs_[5].start_us - runs_[0].start_us,
        static_cast<double>(trace.rows[5].begin_ns - trace.rows[0].begin_ns) /
            1e3,
        0.01);
    EXPECT_LT(trace.rows[5].begin_ns, trace.rows[5].end_ns);
    stp_trace_free(&trace);
}

TEST_F(OnlineTrace, SaysWhatAGraphLaunched)
{
    options_.captured = true;
    Play(40, StartOnline("2.28", STP_PLUGIN, nullptr));

    ExpectRuns(Rows(), true);
    EXPECT_EQ(std::vector<std::string>(120, "1"), Column(kGraph));
}

TEST_F(OnlineTrace, SaysWhatRanInOneGroup)
{
    const size_t sizes[] = {1 << 20, 8 << 20, 64};
    {
        const Nccl nccl = StartOnline("2.28", STP_PLUGIN, nullptr);
        const Comm comm = Join(nccl);
        for (size_t n : {3, 1, 2}) {
            std::vector<mock_call> calls(n);
            std::vector<mock_outcome> outcomes(n);
            for (size_t i = 0; i < n; i++) {
                calls[i].coll = ncclFuncAllReduce;
                calls[i].n_bytes = sizes[i];
                calls[i].element_size = 4;
            }
            if (n == 1)
                ASSERT_EQ(ncclSuccess,
                          mock_comm_collective(comm.get(), calls.data(),
                                               outcomes.data()));
            else
                ASSERT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls.data(),
                                                       n, outcomes.data()));
        }
    }

    const std::vector<std::string> groups = Column(kGroup);
    ASSERT_EQ(6u, groups.size());
    EXPECT_NE("", groups[0]);
    EXPECT_THAT(groups, ElementsAre(groups[0], groups[0], groups[0], "",
                                    groups[4], groups[4]));
    EXPECT_NE(groups[0], groups[4]);
    EXPECT_EQ(std::vector<std::string>(6, "f32"), Column(kType));
    EXPECT_EQ(std::vector<std::string>(6, ""), Column(kBegin));
}

class OnlineTraceOfKernels : public OnlineTrace
{
  protected:
    // All-reduces run by a symmetric kernel, all-gathers by copy engines.
    void Run(const std::vector<ncclFunc_t> &colls)
    {
        machine_ = LoadMachine("h100x8");
        mock_nccl_options options{};
        options.version = "2.31";
        options.tuner_plugin = STP_PLUGIN;
        options.profiler_plugin = STP_PLUGIN;
        options.zero_ctas = true;
        mock_nccl *made = nullptr;
        ASSERT_EQ(ncclSuccess, mock_nccl_create(&options, &made));
        const Nccl nccl(made);
        const Comm comm = Join(nccl);
        for (ncclFunc_t coll : colls) {
            mock_call call{};
            mock_outcome outcome;
            call.coll = coll;
            call.n_bytes = 8 << 20;
            call.element_size = 4;
            call.windows = MOCK_WINDOWS_BOTH;
            ASSERT_EQ(ncclSuccess,
                      mock_comm_collective(comm.get(), &call, &outcome));
            ASSERT_NE(nullptr, outcome.kernel);
            std::vector<mock_channel_time> times(
                MOCK_MAX_CHANNELS, mock_channel_time{1000, 9000, 2000, 8000});
            void *handles[MOCK_MAX_CHANNELS];
            mock_comm_kernel_began(comm.get(), &outcome, times.data(), handles);
            mock_comm_kernel_ended(comm.get(), &outcome, times.data(), handles);
        }
    }
};

TEST_F(OnlineTraceOfKernels, CountWhatWasNotLearnedFrom)
{
    const std::pair<ncclFunc_t, const char *> cases[] = {
        {ncclFuncAllReduce, "(1 timed) and by copy engines (0)"},
        {ncclFuncAllGather, "(0 timed) and by copy engines (1)"}};

    for (auto [coll, said] : cases) {
        infos_.clear();
        Run({coll});
        EXPECT_THAT(infos_, Contains(HasSubstr(said)));
    }
}

// Symmetric kernels have times in the trace, and copy engines have none.
TEST_F(OnlineTraceOfKernels, AreThereThoughNoTunerDecidesOnThem)
{
    Run({ncclFuncAllReduce, ncclFuncAllGather});

    EXPECT_THAT(infos_, Contains(HasSubstr(
                            "by kernels for symmetric windows (1 timed) and by "
                            "copy engines (1)")));
    EXPECT_THAT(Column(kColl), ElementsAre("allreduce", "allgather"));
    EXPECT_THAT(Column(kBytes), ElementsAre("8388608", "8388608"));
    EXPECT_THAT(Column(kType), ElementsAre("f32", "f32"));
    EXPECT_THAT(Column(kBegin), ElementsAre("1000", ""));
    EXPECT_THAT(Column(kEnd), ElementsAre("9000", ""));
}

TEST_F(OnlineTrace, HasTheOrderOfLaunchesWhereTimesAreLateAndLost)
{
    unsetenv("STEPTUNE_INLINE"); // written by the thread
    options_.layout = MOCK_THREADS;
    options_.gpu_clocks = mock_job_h200_clocks;
    options_.host = mock_job_torch_host;
    options_.lost_events = 0.02;
    options_.lost_channels = 0.02;
    options_.seed = 7;

    Play(2000, StartOnline("2.28", STP_PLUGIN, nullptr));

    const std::vector<Fields> rows = Rows();
    ExpectRuns(rows, false);
    size_t n_begin = 0;
    for (const Fields &row : rows)
        n_begin += !row[kBegin].empty();
    EXPECT_LT(0.9 * static_cast<double>(rows.size()), n_begin);
    EXPECT_GT(rows.size(), n_begin);
    EXPECT_THAT(warnings_, IsEmpty());
}

// `steptune compare` finds the step's time in traces like those of jobs on
// GPUs.
TEST_F(OnlineTrace, GivesTheTimeOfAStepWhateverIsLost)
{
    const struct {
        const char *name;
        size_t n_alike; // collectives of a step that are all alike; 0: three
        double lost;
        size_t n_calls; // of a step, in the trace
    } cases[] = {
        {"whole", 0, 0, 3}, {"lost", 0, 0.1, 3}, {"alike", 12, 0.1, 1}};

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        fs::remove(Trace());
        runs_.clear();
        if (c.n_alike > 0)
            calls_ = std::vector<mock_job_call>(
                c.n_alike, After(60, ncclFuncAllReduce, 2 << 20));
        options_.gpu_clocks = mock_job_h200_clocks;
        options_.host = mock_job_torch_host;
        options_.compute_noise = 0.02;
        options_.lost_events = c.lost;
        options_.lost_channels = c.lost / 10;
        Play(1500, StartOnline("2.28", STP_PLUGIN, nullptr));
        stp_trace trace{};
        stp_job_step step{};
        stp_error err{};

        ASSERT_EQ(STP_OK, stp_traces_load(Trace().c_str(), &trace, &err));
        ASSERT_EQ(STP_OK, stp_job_step_traced(&trace, &step, &err)) << err.text;
        stp_trace_free(&trace);

        EXPECT_EQ(c.n_calls, step.n_calls);
        const size_t first = runs_.size() / 5, last = runs_.size() - 1;
        const double us = (runs_[last].start_us - runs_[first].start_us) /
                          static_cast<double>(last - first) *
                          static_cast<double>(c.n_calls);
        EXPECT_NEAR(us, step.time, 0.005 * us);
    }
}

TEST_F(OnlineTrace, IsSharedByProcesses)
{
    {
        const Nccl nccl = StartOnline("2.28", STP_PLUGIN, nullptr);
        const Ranks ranks = JoinAll(nccl, nullptr, MOCK_PROCESSES);
        RandomScript random(1, 20);
        ASSERT_EQ(ncclSuccess, mock_ranks_play(ranks.get(), &random.script, 1));
    }
    {
        const Nccl nccl = StartOnline("2.28", STP_PLUGIN, nullptr);
        Play(10, nccl);
    }

    const std::vector<std::string> processes = Column(kProcess);
    EXPECT_EQ(2u,
              std::set<std::string>(processes.begin(), processes.end()).size());
    EXPECT_EQ(1u, Count(LinesOf(Trace()), "t_ns,process"));
}

TEST_F(OnlineTrace, HasWholeLinesHoweverTheJobEnds)
{
    unsetenv("STEPTUNE_INLINE");
    for (int how : {0, 9}) {
        fs::remove(Trace());
        const int status = StatusOfProgram([&] {
            mock_set_log(nullptr, nullptr);
            const Nccl nccl = StartOnline("2.28", STP_PLUGIN, nullptr);
            const Job job = MakeJob(nccl);
            mock_job_play(job.get(), 300);
            while (how != 0 && LinesOf(Trace()).size() < 500)
                usleep(1000);
            if (how != 0)
                raise(how);
            exit(0); // NCCL is not told
        });

        EXPECT_EQ(how, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        EXPECT_LE(how == 0 ? 900u : 499u, Rows().size());
        EXPECT_EQ('\n', ReadFile(Trace()).back());
    }
}

// ---- by the profiler's own table ----

TEST_F(OnlineTraceAbi, PassesOverCollectivesItDoesNotKnow)
{
    LaunchUnknown("AllShuffle", "ncclFloat32");
    LaunchUnknown("AllReduce", "ncclFloat4");
    LaunchUnknown("AllReduce", "Float32");
    LaunchUnknown("AllReduce", nullptr);
    LaunchUnknown(nullptr, "ncclFloat32");
    LaunchMore(1);

    EXPECT_EQ(1u, Rows().size());
}

TEST_F(OnlineTraceAbi, SaysWhatEachCallIsOf)
{
    const std::pair<const char *, const char *> types[] = {
        {"ncclInt8", "i8"},
        {"ncclUint8", "u8"},
        {"ncclInt32", "i32"},
        {"ncclUint32", "u32"},
        {"ncclInt64", "i64"},
        {"ncclUint64", "u64"},
        {"ncclFloat16", "f16"},
        {"ncclFloat32", "f32"},
        {"ncclFloat64", "f64"},
        {"ncclBfloat16", "bf16"},
        {"ncclFloat8e4m3", "fp8e4m3"},
        {"ncclFloat8e5m2", "fp8e5m2"}};
    const struct {
        const char *func, *coll;
        size_t n_ranks; // by which a tuner's bytes are counted
    } colls[] = {{"Broadcast", "broadcast", 1},
                 {"Reduce", "reduce", 1},
                 {"AllGather", "allgather", 2},
                 {"ReduceScatter", "reducescatter", 2},
                 {"AllReduce", "allreduce", 1}};
    std::vector<Fields> expected;

    for (const auto &c : colls)
        for (auto [nccl_type, type] : types)
            for (bool is_captured : {false, true}) {
                void *call = StartCall(StartGroup(1), nccl_type, is_captured);
                EXPECT_NE(nullptr, LaunchCall(call, c.func, 10, "ncclFloat16"));
                expected.push_back({is_captured ? "1" : "0", c.coll,
                                    std::to_string(20 * c.n_ranks), type});
            }

    const std::vector<Fields> rows = Rows();
    ASSERT_EQ(expected.size(), rows.size());
    for (size_t i = 0; i < rows.size(); i++) {
        EXPECT_EQ(std::to_string(getpid()), rows[i][kProcess]);
        EXPECT_EQ(rows[0][kComm], rows[i][kComm]);
        EXPECT_EQ(16u, rows[i][kComm].size());
        EXPECT_EQ("2", rows[i][kRanks]);
        EXPECT_EQ("", rows[i][kGroup]);
        EXPECT_EQ(expected[i],
                  Fields(rows[i].begin() + kGraph, rows[i].begin() + kBegin));
    }
}

TEST_F(OnlineTraceAbi, TakesATypeFromALaunchThatReducesWhereNoCallHasOne)
{
    const struct {
        const char *of_call; // NULL: there is no call
        const char *func, *of_launch, *type;
    } cases[] = {
        {nullptr, "AllReduce", "ncclInt8", "i8"},
        {nullptr, "ReduceScatter", "ncclFloat8e5m2", "fp8e5m2"},
        {nullptr, "Reduce", "ncclFloat32", "f32"},
        {nullptr, "AllGather", "ncclFloat32", ""},
        {nullptr, "Broadcast", "ncclFloat32", ""},
        {"ncclFloat4", "AllReduce", "ncclFloat32", "f32"},
        {"ncclFloat4", "AllGather", "ncclInt8", ""},
        {"ncclInt8", "AllReduce", "ncclFloat32", "i8"},
    };
    std::vector<std::string> types;
    for (const auto &c : cases)
        LaunchCall(c.of_call == nullptr ? nullptr
                                        : StartCall(nullptr, c.of_call),
                   c.func, 8, c.of_launch);

    const std::vector<Fields> rows = Rows();
    ASSERT_EQ(std::size(cases), rows.size());
    for (size_t i = 0; i < rows.size(); i++)
        EXPECT_EQ(cases[i].type, rows[i][kType]) << i;
}

TEST_F(OnlineTraceAbi, NumbersTheGroupsOfMoreThanOneCall)
{
    const auto number = [](unsigned n) {
        return std::to_string(static_cast<uint64_t>(getpid()) << 32 | n);
    };
    for (int depth : {2, 1, 3}) {
        void *group = StartGroup(depth);
        for (int i = 0; i < 2; i++)
            LaunchCall(StartCall(group, "ncclFloat8e5m2"), "AllReduce", 8,
                       "ncclFloat32");
    }
    LaunchCall(StartCall(StartGroup(2), "ncclInt8", true), "AllReduce", 8,
               "ncclFloat32", NCCL_PROFILE_CE_COLL);

    std::vector<std::string> groups, graphs, types;
    for (const Fields &row : Rows()) {
        groups.push_back(row[kGroup]);
        graphs.push_back(row[kGraph]);
        types.push_back(row[kType]);
    }
    EXPECT_THAT(groups, ElementsAre(number(1), number(1), "", "", number(2),
                                    number(2), number(3)));
    EXPECT_THAT(graphs, ElementsAre("0", "0", "0", "0", "0", "0", "1"));
    EXPECT_EQ("fp8e5m2", types[0]);
    EXPECT_EQ("i8", types.back());
}

TEST_F(OnlineTraceAbi, TakesNoChannelWhoseParentIsNoCollective)
{
    ncclProfilerEvent_t of_2_27{};
    of_2_27.type.v5 = NCCL_PROFILE_GROUP;
    void *const group = StartGroup(2);

    for (void *parent : {Tell(of_2_27), StartGroup(1), group,
                         StartCall(group, "ncclInt8"), (void *)nullptr}) {
        ncclProfilerEvent_t what{};
        what.type.v5 = NCCL_PROFILE_KERNEL_CH;
        what.parentObj = parent;
        what.kernelCh.pTimer = 100;
        EXPECT_EQ(nullptr, Tell(what));
    }
    EXPECT_NE(nullptr, Began(Launch(), 100));
    EXPECT_EQ(1u, Rows().size());
}

TEST_F(OnlineTraceAbi, IsToldOfCollectivesUntilItHasAllThatItMay)
{
    constexpr int kAll =
        NCCL_PROFILE_COLL | NCCL_PROFILE_KERNEL_CH | NCCL_PROFILE_CE_COLL;
    Finalize(ranks_);
    EXPECT_EQ(0, mask_);
    for (const char *of_another : {"0", "1"}) {
        Set("STEPTUNE_TRACE_CALLS", "3");
        ranks_ = Init(2, 2, false);
        std::vector<Rank> others;
        if (*of_another == '1')
            others = Init(2, 2, false);
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(kAll, mask_);
            EXPECT_NE(nullptr, StartGroup(1));
            EXPECT_NE(nullptr, StartCall(nullptr, "ncclInt8"));
            EXPECT_NE(nullptr, Launch());
        }
        EXPECT_EQ(nullptr, StartGroup(2));
        EXPECT_EQ(nullptr, StartCall(nullptr, "ncclInt8"));
        EXPECT_EQ(nullptr, Launch());
        EXPECT_EQ(others.empty() ? 0 : kAll, mask_);
        if (!others.empty()) {
            EXPECT_EQ(nullptr, LaunchOn(others[0], 1 << 20, kOwn));
        }
        EXPECT_EQ(0, mask_);
        Finalize(others);
        Finalize(ranks_);
        EXPECT_EQ(0, mask_);
    }
    ranks_.clear();

    EXPECT_EQ(6u, Rows().size());
}

TEST_F(OnlineTraceAbi, WaitsForTheFirstBeginAndTheLastEndOfAllChannels)
{
    void *event = Launch();
    void *a = Began(event, 500);
    Ended(a, 900);
    LaunchMore(5000); // while some are written
    void *b = Began(event, 300);
    void *c = Began(event, 400);
    Ended(b, 700);
    Ended(c, 1200);
    Ended(Began(event, 600), 1100);

    const std::vector<Fields> rows = Rows();

    ASSERT_EQ(5001u, rows.size());
    EXPECT_EQ("300", rows[0][kBegin]);
    EXPECT_EQ("1200", rows[0][kEnd]);
    EXPECT_EQ("", rows[1][kBegin]);
}

TEST_F(OnlineTraceAbi, TakesAnEndOnlyFromTheStopOfAKernelThatHasATime)
{
    void *event = Launch();
    void *channel = Began(event, 500);
    ncclProfilerStateArgs_t args{};
    args.kernelCh.pTimer = 900;
    for (void *handle : {channel, static_cast<void *>(nullptr)}) {
        EXPECT_EQ(ncclSuccess,
                  profiler_->recordEventState(
                      handle, NCCL_PROFILE_KERNEL_CH_STOP - 1, &args));
        EXPECT_EQ(ncclSuccess,
                  profiler_->recordEventState(
                      handle, NCCL_PROFILE_KERNEL_CH_STOP, nullptr));
    }
    EXPECT_EQ(ncclSuccess, profiler_->recordEventState(
                               nullptr, NCCL_PROFILE_KERNEL_CH_STOP, &args));
    Ended(Began(Launch(), 600), 1000);

    const std::vector<Fields> rows = Rows();

    ASSERT_EQ(2u, rows.size());
    EXPECT_EQ("500", rows[0][kBegin]);
    EXPECT_EQ("", rows[0][kEnd]);
    EXPECT_EQ("1000", rows[1][kEnd]);
}

} // namespace
