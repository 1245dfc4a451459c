// The events of a job's profilers, and jobs whose ranks are threads.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "support/job/mock_jobs.h"

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

TEST_F(MockJobProfiler, KernelsAreOnePhase)
{
    Profiler profiler(kListener, kKernels | NCCL_PROFILE_KERNEL_PHASE);
    options_.step = {calls_.data(), 1, 0};
    Log log;

    Play(1, With(kListener, "2.31")).reset();

    const mock_job_run &run = done_.steps[0].runs[0];
    const std::vector<double> begins =
        Numbers(ProfilerLines(log), "KernelPhase", "phase 1 compute at ");
    const std::vector<double> ends =
        Numbers(ProfilerLines(log), "state", " 31 at ");
    EXPECT_EQ(Numbers(ProfilerLines(log), "state", " 22 at ").size(),
              begins.size());
    EXPECT_EQ(begins.size(), ends.size());
    EXPECT_THAT(begins, Each(DoubleNear(run.start_us * 1000, 2)));
    EXPECT_THAT(ends, Each(DoubleNear((run.start_us + run.us) * 1000, 2)));
}

// With events at the end of a collective, those of all ranks have one time.
TEST_F(MockJobProfiler, EventsOfOneTimeComeRankAfterRankOfOneKernelAfterAnother)
{
    Profiler profiler(kListener, kKernels, kKernels);
    Log log;

    Play(2, With(kListener)).reset();

    std::vector<double> order, expected;
    for (const std::string &line : ProfilerLines(log))
        if (line.find(" KernelCh of ") != std::string::npos &&
            line.find(" channel 0 ") != std::string::npos)
            order.push_back(std::stod(line));
    for (int i = 0; i < 4; i++)
        expected.insert(expected.end(), {1000, 1001, 1002, 1003});
    EXPECT_EQ(expected, order);
}

// The channels that are heard, kernel by kernel.
std::string HeardChannels(const Log &log)
{
    std::string heard;
    int rank, channel, last = 0;

    for (const std::string &line : ProfilerLines(log)) {
        if (std::sscanf(line.c_str(),
                        "%d start %*u KernelCh of %*u rank %*d channel %d",
                        &rank, &channel) != 2)
            continue;
        if (rank != last)
            heard += std::to_string(rank) + ": ";
        heard += std::to_string(channel) + " ";
        last = rank;
    }
    return heard;
}

// A seed that a report names is the same job on every machine.
TEST_F(MockJobProfiler, LossesOfASeedNeverChange)
{
    const struct {
        double events, channels;
        const char *heard;
    } cases[] = {
        {0.2, 0,
         "1000: 0 1001: 0 "
         "1002: 0 1003: 0 "
         "1000: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 1001: 0 1 2 3 4 5 6 7 8 "
         "9 10 11 12 13 14 15 "
         "1002: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 1003: 0 1 2 3 4 5 6 7 8 "
         "9 10 11 12 13 14 15 "},
        {0, 0.7,
         "1000: 0 1 1001: 2 "
         "1000: 4 5 6 7 8 11 14 1001: 1 11 14 "
         "1002: 0 1 3 5 13 1003: 1 2 5 10 13 "
         "1002: 0 1000: 0 1 "
         "1001: 1 2 1003: 3 "
         "1000: 5 6 9 12 15 1001: 0 2 3 4 6 8 13 "
         "1002: 2 6 8 9 10 11 1003: 3 5 6 9 12 13 15 "},
    };
    calls_ = {After(100, ncclFuncAllReduce, 4096),
              After(100, ncclFuncAllReduce, 64 << 10),
              After(100, ncclFuncAllReduce, 256 << 10)};
    options_.step = {calls_.data(), calls_.size(), 0};

    for (const auto &c : cases) {
        Profiler profiler(kListener, kKernels, kKernels);
        options_.lost_events = c.events;
        options_.lost_channels = c.channels;
        Log log;

        Play(2, With(kListener)).reset();

        EXPECT_EQ(c.heard, HeardChannels(log));
    }
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

TEST_F(MockJobGpuClocks, OfASeedNeverChange)
{
    const struct {
        mock_job_gpu_clocks clocks;
        const char *heard; // of ranks 0 and 3
    } cases[] = {
        {{500, 10, 0, false, 0},
         "1111092-1150443 1079.2 1079.2, 1677040-1717001 1645.7 1645.7, "
         "2947398-2986600 2915.3 2915.3, 3504519-3548327 3477.1 3477.1, "
         "1524758-1570691 1079.2 1079.2, 2079015-2137243 1645.7 1645.7, "
         "3355900-3406830 2915.3 2915.3, 3927156-3968551 3477.1 3477.1, "},
        {{0, 0, 24, false, 0},
         "1039845-1079195 1050.5 1103.2, 1605789-1645749 1617.5 1671.5, "
         "2876138-2915340 2899.3 2936.6, 3433255-3477063 3452.6 3495.1, "
         "1033262-1079195 1061.2 1107.0, 1587520-1645749 1610.0 1719.7, "
         "2864410-2915340 2890.0 2924.4, 3435668-3477063 3439.2 3502.2, "},
        {{0, 0, .9, true, 0},
         "1039845-1079195 1040.2 1080.1, 1605789-1645749 1606.2 1646.7, "
         "2876138-2915340 2877.0 2916.1, 3433255-3477063 3434.0 3477.7, "
         "1033262-1079195 1034.3 1080.2, 1587520-1645749 1588.4 1648.5, "
         "2864410-2915340 2865.4 2915.7, 3435668-3477063 3435.8 3478.0, "},
        {{0, 0, 0, false, 900},
         "1039845-1079195 1079.2 1079.2, 1605789-1645749 4668.8 4668.8, "
         "2876138-2915340 4668.8 4668.8, 3433255-3477063 4668.8 4668.8, "
         "1033262-1079195 1260.0 1260.0, 1587520-1645749 1645.7 1645.7, "
         "2864410-2915340 2923.9 2923.9, 3435668-3477063 6904.8 6904.8, "},
        {{0, 0, 0, false, 1},
         "1039845-1079195 3060.9 3060.9, 1605789-1645749 3060.9 3060.9, "
         "2876138-2915340 3060.9 3060.9, 3433255-3477063 6272.1 6272.1, "
         "1033262-1079195 4445.5 4445.5, 1587520-1645749 4445.5 4445.5, "
         "2864410-2915340 4445.5 4445.5, 3435668-3477063 4445.5 4445.5, "},
    };
    options_.jitter_us = 30;

    for (const auto &c : cases) {
        Kernels kernels;
        Hear(&kernels, 2, c.clocks);
        std::string heard;
        for (int r : {0, 3})
            for (const Kernel &kernel : kernels.of[r]) {
                char text[128];
                std::snprintf(text, sizeof(text), "%.0f-%.0f %.1f %.1f, ",
                              kernel.begin_ns, kernel.end_ns,
                              kernel.begin_heard_us, kernel.end_heard_us);
                heard += text;
            }
        EXPECT_EQ(c.heard, heard) << &c - cases;
    }
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

TEST_F(MockJobProfiler, RanksHearOfAStepAfterItOrAsThreadsDuringTheNext)
{
    static std::vector<size_t> heard;
    static Kernels *hearing;
    const size_t a_step = 2 * kRanks * 2; // begin and end
    options_.done = [](void *, const mock_job_step *) {
        heard.push_back(hearing->heard_us.size());
    };

    for (mock_layout layout : {MOCK_ONE_THREAD, MOCK_THREADS}) {
        Profiler profiler(kListener, kKernels, kKernels);
        Kernels kernels;
        hearing = &kernels;
        heard.clear();
        options_.layout = layout;

        Play(4, With(kListener)).reset();

        const size_t first = layout == MOCK_THREADS ? 0 : a_step;
        EXPECT_THAT(heard, testing::ElementsAre(first, first + a_step,
                                                first + 2 * a_step,
                                                first + 3 * a_step));
        EXPECT_EQ(4 * a_step, kernels.heard_us.size());
    }
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
