// The events of a job's profilers, and jobs whose ranks are threads.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "mock_nccl/job/mock_jobs.h"

using namespace mock_test;
using testing::AllOf;
using testing::DoubleNear;
using testing::Each;
using testing::Ge;
using testing::Le;
using testing::Lt;

namespace
{

class MockJobProfiler : public MockJob
{
};

// The numbers after a word, in the lines that contain it.
std::vector<double> Numbers(const Lines &lines, const std::string &what,
                            const std::string &word)
{
    std::vector<double> numbers;
    for (const std::string &line : lines)
        if (line.find(what) != std::string::npos &&
            line.find(word) != std::string::npos)
            numbers.push_back(
                std::stod(line.substr(line.find(word) + word.size())));
    return numbers;
}

TEST_F(MockJobProfiler, KernelsTakeTheGpusTime)
{
    Profiler profiler(kListener, kKernels);
    options_.step = {calls_.data(), 1, 0};
    Log log;

    Job job = Play(1, With(kListener));

    const mock_job_run &run = done_.steps[0].runs[0];
    const size_t n =
        Numbers(ProfilerLines(log), "1000 start", "KernelCh of ").size();
    EXPECT_GT(n, 1u);
    EXPECT_THAT(Numbers(ProfilerLines(log), "KernelCh", " at "),
                Each(DoubleNear(run.start_us * 1000, 2)));
    std::vector<double> ends = Numbers(ProfilerLines(log), "state", " 22 at ");
    EXPECT_EQ(4 * n, ends.size());
    EXPECT_THAT(ends, Each(DoubleNear((run.start_us + run.us) * 1000, 2)));
}

TEST_F(MockJobProfiler, KernelsOfEarlyRanksIncludeTheirWait)
{
    Profiler profiler(kListener, kKernels);
    options_.step = {calls_.data(), 1, 0};
    options_.jitter_us = 50;
    Log log;

    Job job = Play(1, With(kListener));

    const mock_job_run &run = done_.steps[0].runs[0];
    std::vector<double> starts =
        Numbers(ProfilerLines(log), "KernelCh", " at ");
    auto [least, most] = std::minmax_element(starts.begin(), starts.end());
    EXPECT_NEAR(run.start_us * 1000, *most, 2);
    EXPECT_GT(run.start_us, 10 + 1000);
    EXPECT_LE(run.start_us, 10 + 1000 + 50);
    EXPECT_LT(*least, *most - 1000);
    EXPECT_GT(*least, *most - 50000);
}

TEST_F(MockJobProfiler, LostEventsAndChannelsAreNotReported)
{
    Profiler profiler(kListener, kKernels);
    options_.step = {calls_.data(), 1, 0};
    size_t n[3];
    for (int i = 0; i < 3; i++) {
        Log log;
        options_.lost_events = i == 1 ? 0.25 : 0;
        options_.lost_channels = i == 2 ? 0.25 : 0;
        Job job = Play(200, With(kListener));
        n[i] = Numbers(ProfilerLines(log), "state", " 22 at ").size();
    }
    EXPECT_NEAR(0.75, static_cast<double>(n[1]) / static_cast<double>(n[0]),
                0.1);
    EXPECT_NEAR(0.75, static_cast<double>(n[2]) / static_cast<double>(n[0]),
                0.05);
    EXPECT_NE(n[1], n[2]);
}

// ---- GPUs' clocks ----

class MockJobGpuClocks : public MockJob
{
  protected:
    // Runs a job with these clocks, and collects the events of all kernels.
    void Hear(Kernels *kernels, size_t n_steps,
              const mock_job_gpu_clocks &clocks)
    {
        Profiler profiler(kListener, kKernels, kKernels);
        options_.gpu_clocks = clocks;
        Play(n_steps, With(kListener)).reset();
        runs_.clear();
        for (const Done::Step &step : done_.steps)
            runs_.insert(runs_.end(), step.runs.begin(), step.runs.end());
        for (int r = 0; r < kRanks; r++)
            ASSERT_EQ(runs_.size(), kernels->of[r].size());
    }

    std::vector<mock_job_run> runs_; // what ran in truth
};

TEST_F(MockJobGpuClocks, OffEventsComeAtTheEndByTheHostsClock)
{
    Kernels kernels;

    Hear(&kernels, 3, {});

    for (const auto &rank : kernels.of)
        for (size_t i = 0; i < runs_.size(); i++) {
            const double end_us = runs_[i].start_us + runs_[i].us;
            EXPECT_NEAR(runs_[i].start_us * 1000, rank[i].begin_ns, 1);
            EXPECT_NEAR(end_us * 1000, rank[i].end_ns, 1);
            EXPECT_NEAR(end_us, rank[i].begin_heard_us, 0.3);
            EXPECT_EQ(rank[i].begin_heard_us, rank[i].end_heard_us);
        }
}

TEST_F(MockJobGpuClocks, OffAnyRankMayBeginFirstAndLast)
{
    Kernels kernels;
    std::set<int> first, last;
    options_.jitter_us = 30;

    Hear(&kernels, 20, {});

    for (size_t i = 0; i < runs_.size(); i++) {
        std::map<double, int> ranks;
        for (int r = 0; r < kRanks; r++)
            ranks[kernels.of[r][i].begin_ns] = r;
        first.insert(ranks.begin()->second);
        last.insert(ranks.rbegin()->second);
    }
    EXPECT_EQ(size_t{kRanks}, first.size());
    EXPECT_EQ(size_t{kRanks}, last.size());
}

TEST_F(MockJobGpuClocks, OffsetsAreTheRanksOwnAndLeaveDurationsAlone)
{
    std::vector<Kernel> host[kRanks];
    options_.jitter_us = 30;
    {
        Kernels kernels;
        Hear(&kernels, 10, {});
        std::copy(kernels.of, kernels.of + kRanks, host);
    }
    Kernels kernels;
    Hear(&kernels, 10, {500, 0, 0, false});

    std::set<double> offsets;
    for (int r = 0; r < kRanks; r++) {
        const double offset = kernels.of[r][0].begin_ns - host[r][0].begin_ns;
        offsets.insert(offset);
        EXPECT_THAT(offset, AllOf(Ge(0), Lt(2 * 500e3)));
        for (size_t i = 0; i < runs_.size(); i++) {
            EXPECT_EQ(host[r][i].begin_ns + offset, kernels.of[r][i].begin_ns);
            EXPECT_EQ(host[r][i].Ns(), kernels.of[r][i].Ns());
        }
    }
    EXPECT_EQ(size_t{kRanks}, offsets.size());
    EXPECT_GT(*offsets.rbegin() - *offsets.begin(), 100e3);
}

TEST_F(MockJobGpuClocks, DriftIsTheRanksOwnSteadyAndAtMostWhatWasAsked)
{
    calls_ = {After(1e6, ncclFuncAllGather, 4 << 20)};
    options_.step = {calls_.data(), 1, 0};
    Kernels kernels;

    Hear(&kernels, 20, {500, 5, 0, false});

    std::set<double> drifts;
    const mock_job_run &first = runs_.front(), &last = runs_.back();
    for (const auto &rank : kernels.of) {
        const double ppm = ((rank.back().begin_ns - rank.front().begin_ns) /
                                (last.start_us - first.start_us) / 1000 -
                            1) *
                           1e6;
        drifts.insert(ppm);
        EXPECT_THAT(ppm, AllOf(Ge(-5), Le(5)));
        for (size_t i = 1; i < runs_.size(); i++)
            EXPECT_NEAR((runs_[i].start_us - first.start_us) * (1 + ppm / 1e6) *
                            1000,
                        rank[i].begin_ns - rank[0].begin_ns, 3);
    }
    EXPECT_EQ(size_t{kRanks}, drifts.size());
    EXPECT_GT(*drifts.rbegin() - *drifts.begin(), 1);
}

TEST_F(MockJobGpuClocks, TreesEndEarlierOnTheRanksBelowAndRingsAtOnce)
{
    const double share[kRanks] = {0.69, 0.69 - 0.16, 0.69 - 0.32, 0.21};
    calls_ = {After(100, ncclFuncAllReduce, 16 << 20),
              After(100, ncclFuncAllReduce, 16 << 20),
              After(100, ncclFuncReduceScatter, 16 << 20)};
    calls_[0].call.n_pipe_ops = 2; // which tells it from the other
    options_.step = {calls_.data(), calls_.size(), 0};
    options_.jitter_us = 30;
    options_.replace = [](void *, const mock_call *call, mock_run *run) {
        run->algo = call->n_pipe_ops == 2 ? NCCL_ALGO_TREE : NCCL_ALGO_RING;
        run->proto = NCCL_PROTO_SIMPLE;
    };
    Play(3);
    const std::vector<double> times = done_.Times();
    Kernels kernels;

    Hear(&kernels, 3, {0, 0, 0, true});

    EXPECT_EQ(times, done_.Times());
    for (int r = 0; r < kRanks; r++)
        for (size_t i = 0; i < runs_.size(); i++) {
            const mock_job_run &run = runs_[i];
            EXPECT_NEAR((run.start_us + run.us * (i % 3 == 0 ? share[r] : 1)) *
                            1000,
                        kernels.of[r][i].end_ns, 2)
                << r << " " << i;
        }
}

class MockJobLateEvents : public MockJobGpuClocks,
                          public testing::WithParamInterface<double>
{
};

TEST_P(MockJobLateEvents, KernelEventsComeSoonMostlyAndMuchLaterAtTimes)
{
    const double unit = GetParam() / 12;
    Kernels kernels;

    Hear(&kernels, 100, {0, 0, GetParam(), false});

    std::vector<double> late;
    for (const auto &rank : kernels.of)
        for (size_t i = 0; i < runs_.size(); i++) {
            late.push_back(rank[i].begin_heard_us - runs_[i].start_us);
            late.push_back(rank[i].end_heard_us - runs_[i].start_us -
                           runs_[i].us);
        }
    auto count = [&](double least, double most) {
        return static_cast<double>(std::count_if(late.begin(), late.end(),
                                                 [&](double us) {
                                                     return us >=
                                                                least * unit &&
                                                            us < most * unit;
                                                 })) /
               static_cast<double>(late.size());
    };
    EXPECT_THAT(late, Each(AllOf(Ge(unit - 0.3), Le(100 * unit + 0.3))));
    EXPECT_NEAR(0.88, count(4, 15), 0.03);
    EXPECT_NEAR(0.10, count(0, 4), 0.03);
    EXPECT_NEAR(0.02, count(15, 101), 0.01);
}

INSTANTIATE_TEST_SUITE_P(All, MockJobLateEvents, testing::Values(12., 48.),
                         testing::PrintToStringParamName());

TEST_F(MockJobGpuClocks, EventsOfARankAndOfAStepComeInTheOrderOfTheirTimes)
{
    calls_.assign(40, After(0, ncclFuncAllReduce, 8)); // sooner than heard of
    options_.step = {calls_.data(), calls_.size(), 500};
    Kernels kernels;

    Hear(&kernels, 5, {0, 0, 48, false});

    for (const auto &rank : kernels.of) {
        double last = 0;
        for (const Kernel &kernel : rank) {
            EXPECT_LE(last, kernel.begin_heard_us);
            EXPECT_LE(kernel.begin_heard_us, kernel.end_heard_us);
            last = kernel.end_heard_us;
        }
    }
    EXPECT_EQ(5u * 40 * kRanks * 2, kernels.heard_us.size());
    EXPECT_TRUE(
        std::is_sorted(kernels.heard_us.begin(), kernels.heard_us.end()));
}

struct Clocks {
    const char *name;
    mock_layout layout;
    uint64_t seed;
    bool same; // as in one thread with seed 0
};
void PrintTo(const Clocks &clocks, std::ostream *out)
{
    *out << clocks.name;
}

class MockJobClocksRepeat : public MockJobGpuClocks,
                            public testing::WithParamInterface<Clocks>
{
};

TEST_P(MockJobClocksRepeat, SameSeedGivesSameEventsInEveryLayout)
{
    std::vector<Kernel> first[kRanks];
    options_.jitter_us = 20;
    Play(20);
    const std::vector<double> times = done_.Times();
    {
        Kernels kernels;
        Hear(&kernels, 20, mock_job_h200_clocks);
        std::copy(kernels.of, kernels.of + kRanks, first);
    }
    EXPECT_EQ(times, done_.Times());
    options_.layout = GetParam().layout;
    options_.seed = GetParam().seed;
    Kernels kernels;

    Hear(&kernels, 20, mock_job_h200_clocks);

    for (int r = 0; r < kRanks; r++)
        EXPECT_EQ(GetParam().same, first[r] == kernels.of[r]) << r;
}

INSTANTIATE_TEST_SUITE_P(
    All, MockJobClocksRepeat,
    testing::Values(Clocks{"SameSeed", MOCK_ONE_THREAD, 0, true},
                    Clocks{"Threads", MOCK_THREADS, 0, true},
                    Clocks{"OtherSeed", MOCK_ONE_THREAD, 1, false}),
    [](const testing::TestParamInfo<Clocks> &test) {
        return std::string(test.param.name);
    });

// ---- threads ----

TEST_F(MockJobProfiler, ThreadsRunTheSameJob)
{
    options_.jitter_us = 20;
    Play(30);
    const std::vector<double> one_thread = done_.Times();
    options_.layout = MOCK_THREADS;
    Play(30);

    EXPECT_EQ(one_thread, done_.Times());
}

TEST_F(MockJobProfiler, ThreadsReportEveryKernel)
{
    Profiler profiler(kListener, kKernels, kKernels);
    options_.layout = MOCK_THREADS;
    Log log;

    Play(20, With(kListener)).reset();

    size_t n = 0;
    for (const mock_job_run &run : done_.steps[0].runs) {
        mock_call call = *run.call;
        n += static_cast<size_t>(OnMachine(machine_, call).n_channels);
    }
    EXPECT_EQ(20 * 4 * n,
              Numbers(ProfilerLines(log), "state", " 22 at ").size());
}

// A race would change this as well.
TEST_F(MockJobProfiler, PluginThatSharesItsDecisionsLearnsInThreads)
{
    mock_nccl_options nccl = With(STP_TEST_PLUGINS "/libnccl-tuner-learner.so");
    nccl.tuner_plugin = nccl.profiler_plugin;
    options_.layout = MOCK_THREADS;

    Play(100, nccl);

    EXPECT_EQ(ncclSuccess, rc_) << mock_last_error();
    EXPECT_EQ(100u, done_.steps.size());
}

} // namespace
