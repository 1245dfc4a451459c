// A training job in virtual time: its timeline, the queue between its hosts and
// GPUs, and what its tuners and profilers see.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "support/job/mock_jobs.h"
#include "support/mock_folder.h"
#include "support/mock_script.h"

using namespace mock_test;

namespace
{

// All collectives of the job.
class MockJobRuns : public MockJob
{
  protected:
    std::vector<mock_job_run> Runs(size_t n_steps,
                                   const mock_nccl_options &nccl = {})
    {
        std::vector<mock_job_run> runs;
        job_ = Play(n_steps, nccl);
        EXPECT_EQ(ncclSuccess, rc_) << mock_last_error();
        for (const Done::Step &step : done_.steps)
            runs.insert(runs.end(), step.runs.begin(), step.runs.end());
        return runs;
    }
};

mock_nccl_options WithListenerAndScript(const char *nccl = nullptr)
{
    mock_nccl_options options = WithScript(nccl, 4); // as all of them take
    options.profiler_plugin = kListener;
    return options;
}

// ---- the timeline ----

TEST_F(MockJob, StepIsComputeAndCollectivesInTurn)
{
    Job job = Play(2);

    ASSERT_EQ(ncclSuccess, rc_) << mock_last_error();
    ASSERT_EQ(2u, done_.steps.size());
    double begin = 0;
    for (const Done::Step &step : done_.steps) {
        const auto &runs = step.runs;
        EXPECT_DOUBLE_EQ(begin + 10 + 1000, runs[0].start_us);
        EXPECT_DOUBLE_EQ(runs[0].start_us + runs[0].us + 500, runs[1].start_us);
        EXPECT_NEAR(runs[1].start_us + runs[1].us + 200 - begin, step.us, 1e-6);
        begin += step.us;
    }
}

// A seed that a report names is the same job on every machine.
TEST_F(MockJob, NoiseOfASeedNeverChanges)
{
    const struct {
        void (*set)(mock_job_options *);
        const char *steps; // both calls' launch, start and time
    } cases[] = {
        {[](mock_job_options *) {},
         "10.0 1010.0+39.3 20.0 1549.3+37.3, "
         "87560.0 88560.0+39.9 87570.0 89099.9+35.5, "
         "89345.4 90345.4+42.6 89355.4 90888.0+35.5, "},
        {[](mock_job_options *o) { o->seed = 12; },
         "10.0 1010.0+40.3 20.0 1550.3+37.4, "
         "87556.4 88556.4+40.4 87566.4 89096.8+37.5, "
         "89344.3 90344.3+40.3 89354.3 90884.6+35.6, "},
        {[](mock_job_options *o) { o->compute_noise = .2; },
         "10.0 940.7+39.3 20.0 1445.4+37.3, "
         "85883.8 87497.4+39.9 85893.8 88344.1+35.5, "
         "88712.3 90024.2+42.6 88722.3 90722.6+35.5, "},
        {[](mock_job_options *o) { o->jitter_us = 100; },
         "10.0 1109.5+39.3 20.0 1746.3+37.3, "
         "95068.8 96149.1+39.9 95078.8 96747.3+35.5, "
         "96992.8 98065.9+42.6 97002.8 98696.0+35.5, "},
        {[](mock_job_options *o) {
             o->host = {1024, 2, 50, 0, .3};
         },
         "145.9 1072.9+39.3 254.5 1612.3+37.3, "
         "12740.6 88132.9+39.9 12830.4 88672.8+35.5, "
         "12935.7 89908.3+42.6 13083.9 90450.9+35.5, "},
    };
    const mock_job_options quiet = options_;

    for (const auto &c : cases) {
        options_ = quiet;
        c.set(&options_);
        Play(51);
        std::string steps;
        for (size_t s : {0, 49, 50}) {
            const auto &[first, second] =
                std::tie(done_.steps[s].runs[0], done_.steps[s].runs[1]);
            char text[128];
            std::snprintf(text, sizeof(text), "%.1f %.1f+%.1f %.1f %.1f+%.1f, ",
                          first.launched_us, first.start_us, first.us,
                          second.launched_us, second.start_us, second.us);
            steps += text;
        }
        EXPECT_EQ(c.steps, steps) << &c - cases;
    }
}

// ---- the queue ----

TEST_F(MockJobRuns, HostIsNeverFurtherAheadThanItsQueueIsLong)
{
    const struct {
        size_t ahead, launches;
        mock_layout layout;
        size_t most_open; // collectives launched before, and not over
    } cases[] = {{6, 6, MOCK_ONE_THREAD, 0},
                 {64, 6, MOCK_ONE_THREAD, 7},
                 {64, 6, MOCK_THREADS, 7}};

    for (const auto &c : cases) {
        options_.host = {c.ahead, c.launches, 5, 0};
        options_.layout = c.layout;
        options_.jitter_us = 20;
        options_.compute_noise = 0.1;
        const std::vector<mock_job_run> runs = Runs(100);
        size_t most = 0;
        for (size_t i = 0; i < runs.size(); i++) {
            size_t open = 0;
            for (size_t k = 0; k < i; k++)
                open += runs[k].start_us + runs[k].us > runs[i].launched_us;
            most = std::max(most, open);
            EXPECT_GE(runs[i].launched_us,
                      i == 0 ? 0 : runs[i - 1].launched_us);
            EXPECT_GE(runs[i].start_us, runs[i].launched_us) << i;
        }
        EXPECT_EQ(c.most_open, most);
    }
}

struct Recorded {
    double ask_us, begin_us, end_us, begin_heard_us, end_heard_us;
};

std::vector<Recorded> ReadRecorded(const std::string &path)
{
    std::vector<Recorded> rows;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        Recorded r;
        if (std::sscanf(line.c_str(), "%lf,%lf,%lf,%lf,%lf", &r.ask_us,
                        &r.begin_us, &r.end_us, &r.begin_heard_us,
                        &r.end_heard_us) == 5)
            rows.push_back(r);
    }
    return rows;
}

// PyTorch on 2 x H200: the host gets ahead of the GPUs, and after 429 calls
// CUDA's queue is full.  The GPUs' compute is the recording's, and so is the
// mean time of a launch while a profiler receives all events; at call 336 the
// recorded host was interrupted for as long as 17 calls take.
TEST_F(MockJobRuns, PyTorchJobIsAsFarAheadAsItsRecordingCallByCall)
{
    const std::vector<Recorded> rows =
        ReadRecorded(STP_FIXTURES "/jobs/h200x2_torch_step.csv");
    ASSERT_EQ(700u, rows.size());
    auto ahead = [&](size_t i) { // collectives launched and not over
        size_t n = 0;
        for (size_t k = 0; k <= i; k++)
            n += rows[k].end_us > rows[i].ask_us;
        return n;
    };
    machine_ = LoadMachine("h200x2");
    calls_.clear();
    for (size_t i = 0; i < rows.size(); i++)
        calls_.push_back(
            After(i == 0 ? 0 : rows[i].begin_us - rows[i - 1].end_us,
                  ncclFuncAllReduce, 2 << 20));
    options_.step = {calls_.data(), calls_.size(), 0};
    options_.host = mock_job_torch_host;
    options_.host.launch_us = (rows[420].ask_us - rows[20].ask_us) / 400 / 6;

    const std::vector<mock_job_run> runs = Runs(1);

    for (size_t i = 0; i < rows.size(); i++) {
        size_t n = 0;
        for (size_t k = 0; k <= i; k++)
            n += runs[k].start_us + runs[k].us > runs[i].launched_us;
        EXPECT_NEAR(ahead(i), n, 20) << i;
        if (i >= 450) {
            EXPECT_NEAR(rows[i].begin_us - rows[i].ask_us,
                        runs[i].start_us - runs[i].launched_us, 1500)
                << i;
            EXPECT_NEAR(ahead(i), n, 1) << i;
        }
    }
}

// ---- what tuners see ----

struct Seen {
    std::vector<double> us; // of this thread's clock, at each question
    int n_inits;
    int odd_rank_at; // question from which one rank decides otherwise; 0: never
    intptr_t odd_rank;
} seen;

mock_nccl_options Seeing()
{
    seen = {};
    on_init = [](const Joined &joined) {
        *joined.context =
            reinterpret_cast<void *>(static_cast<intptr_t>(seen.n_inits++));
        return ncclSuccess;
    };
    on_ask = [](const Asked &asked) {
        seen.us.push_back(HostUs());
        if (seen.odd_rank_at != 0 &&
            asked.context == reinterpret_cast<void *>(seen.odd_rank) &&
            static_cast<int>(seen.us.size()) > seen.odd_rank_at)
            asked.table[NCCL_ALGO_RING][NCCL_PROTO_LL] = 0;
        return ncclSuccess;
    };
    on_finalize = [](void *) {
        seen.us.push_back(HostUs());
        return ncclSuccess;
    };
    return WithScript();
}

TEST_F(MockJob, RanksThatDisagreeFailTheJob)
{
    const std::string odd = "ring/ll on 24 channels";
    const std::string others = "ring/simple on 24 channels";

    for (int rank = 0; rank < 4; rank++) {
        mock_nccl_options nccl = Seeing();
        seen.odd_rank_at = 8 * 3; // questions of a step
        seen.odd_rank = rank;

        Job job = Play(10, nccl);

        EXPECT_EQ(ncclInternalError, rc_);
        EXPECT_EQ("step 3, allgather of 4194304 bytes: rank 0 runs " +
                      (rank == 0 ? odd + ", rank 1 " + others
                                 : others + ", rank " + std::to_string(rank) +
                                       " " + odd) +
                      "; NCCL would hang or corrupt data",
                  mock_last_error());
        EXPECT_EQ(3u, done_.steps.size());
    }
}

TEST_F(MockJob, CapturedCollectivesAreAskedAboutOnce)
{
    options_.captured = true;
    Job job = Play(5, Seeing());

    EXPECT_EQ(2u * 4, seen.us.size());
    EXPECT_EQ(5u, done_.steps.size());
}

// ---- what profilers see ----

TEST_F(MockJobRuns, QuestionsAndEventsComeInTheOrderOfTheHostsClock)
{
    Profiler profiler(kListener, kKernels, kKernels);
    Kernels kernels;
    std::vector<double> asked_us;
    size_t heard_late = 0;
    options_.gpu_clocks = mock_job_h200_clocks;
    options_.host = {64, 6, 5, 0};
    on_ask = [&](const Asked &) {
        if (!kernels.heard_us.empty()) {
            EXPECT_LE(kernels.heard_us.back(), HostUs() + 0.3);
        }
        asked_us.push_back(HostUs());
        return ncclSuccess;
    };

    const std::vector<mock_job_run> runs = Runs(50, WithListenerAndScript());
    job_.reset();
    on_ask = nullptr;

    ASSERT_EQ(runs.size() * kRanks, asked_us.size());
    EXPECT_TRUE(std::is_sorted(asked_us.begin(), asked_us.end()));
    EXPECT_TRUE(
        std::is_sorted(kernels.heard_us.begin(), kernels.heard_us.end()));
    for (size_t i = 0; i < runs.size(); i++)
        for (int r = 0; r < kRanks; r++) {
            EXPECT_NEAR(runs[i].launched_us, asked_us[i * kRanks + r], 0.3);
            EXPECT_GE(kernels.of[r][i].begin_heard_us, runs[i].start_us);
            heard_late +=
                i + 6 < runs.size() &&
                kernels.of[r][i].begin_heard_us > asked_us[(i + 6) * kRanks];
        }
    EXPECT_GT(heard_late, 60u * kRanks); // than the question of 6 calls later
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
TEST_F(MockJob, LossesOfASeedNeverChange)
{
    const struct {
        double events, channels;
        const char *heard;
    } cases[] = {
        {0.2, 0,
         "1000: 0 1001: 0 1002: 0 1003: 0 "
         "1000: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 1001: 0 1 2 3 4 5 6 7 8 "
         "9 10 11 12 13 14 15 "
         "1002: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 1003: 0 1 2 3 4 5 6 7 8 "
         "9 10 11 12 13 14 15 "},
        {0, 0.7,
         "1000: 0 1 1001: 2 1000: 4 5 6 7 8 11 14 1001: 1 11 14 "
         "1002: 0 1 3 5 13 1003: 1 2 5 10 13 "
         "1002: 0 1000: 0 1 1001: 1 2 1003: 3 "
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

TEST_F(MockJobGpuClocks, OfASeedNeverChange)
{
    const struct {
        mock_job_gpu_clocks clocks;
        const char *heard; // of ranks 0 and 3
    } cases[] = {
        {{500, 10, 0, false, 0},
         "1111092-1150421 1079.2 1079.2, 1677019-1716958 1645.7 1645.7, "
         "2947355-2986535 2915.3 2915.3, 3504454-3548244 3477.0 3477.0, "
         "1524758-1570669 1079.2 1079.2, 2078993-2137200 1645.7 1645.7, "
         "3355857-3406765 2915.3 2915.3, 3927091-3968467 3477.0 3477.0, "},
        {{0, 0, 24, false, 0},
         "1039845-1079173 1050.5 1103.2, 1605767-1645706 1617.5 1671.5, "
         "2876095-2915275 2899.3 2936.5, 3433190-3476980 3452.6 3495.0, "
         "1033262-1079173 1061.2 1106.9, 1587499-1645706 1609.9 1719.7, "
         "2864367-2915275 2890.0 2924.3, 3435604-3476980 3439.1 3502.1, "},
        {{0, 0, .9, true, 0},
         "1039845-1079173 1040.2 1080.1, 1605767-1645706 1606.2 1646.7, "
         "2876095-2915275 2877.0 2916.1, 3433190-3476980 3433.9 3477.7, "
         "1033262-1079173 1034.3 1080.2, 1587499-1645706 1588.3 1648.5, "
         "2864367-2915275 2865.3 2915.6, 3435604-3476980 3435.7 3477.9, "},
        {{0, 0, 0, false, 900},
         "1039845-1079173 1079.2 1079.2, 1605767-1645706 4668.8 4668.8, "
         "2876095-2915275 4668.8 4668.8, 3433190-3476980 4668.8 4668.8, "
         "1033262-1079173 1260.0 1260.0, 1587499-1645706 1645.7 1645.7, "
         "2864367-2915275 2923.9 2923.9, 3435604-3476980 6904.8 6904.8, "},
        {{0, 0, 0, false, 1},
         "1039845-1079173 3060.9 3060.9, 1605767-1645706 3060.9 3060.9, "
         "2876095-2915275 3060.9 3060.9, 3433190-3476980 6272.1 6272.1, "
         "1033262-1079173 4445.5 4445.5, 1587499-1645706 4445.5 4445.5, "
         "2864367-2915275 4445.5 4445.5, 3435604-3476980 4445.5 4445.5, "},
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

} // namespace
