// What profilers hear of a job, and jobs whose ranks are threads.
#include <gmock/gmock.h>

#include <algorithm>

#include "mock_jobs.h"

using namespace mock_test;
using testing::DoubleNear;
using testing::Each;

namespace
{

class MockJobHeard : public MockJob
{
};

// Numbers behind a word, of the lines that have it.
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

TEST_F(MockJobHeard, KernelsTakeTheGpusTime)
{
    Profiler profiler(kListener, kKernels);
    options_.step = {calls_.data(), 1, 0};
    Log log;

    Job job = Play(1, With(kListener));

    const mock_job_run &run = done_.steps[0].runs[0];
    const size_t n = Numbers(Heard(log), "1000 start", "KernelCh of ").size();
    EXPECT_GT(n, 1u);
    EXPECT_THAT(Numbers(Heard(log), "KernelCh", " at "),
                Each(DoubleNear(run.start_us * 1000, 2)));
    std::vector<double> ends = Numbers(Heard(log), "state", " 22 at ");
    EXPECT_EQ(4 * n, ends.size());
    EXPECT_THAT(ends, Each(DoubleNear((run.start_us + run.us) * 1000, 2)));
}

TEST_F(MockJobHeard, KernelsOfEarlyRanksIncludeTheirWait)
{
    Profiler profiler(kListener, kKernels);
    options_.step = {calls_.data(), 1, 0};
    options_.jitter_us = 50;
    Log log;

    Job job = Play(1, With(kListener));

    const mock_job_run &run = done_.steps[0].runs[0];
    std::vector<double> starts = Numbers(Heard(log), "KernelCh", " at ");
    auto [least, most] = std::minmax_element(starts.begin(), starts.end());
    EXPECT_NEAR(run.start_us * 1000, *most, 2);
    EXPECT_GT(run.start_us, 10 + 1000);
    EXPECT_LE(run.start_us, 10 + 1000 + 50);
    EXPECT_LT(*least, *most - 1000);
    EXPECT_GT(*least, *most - 50000);
}

TEST_F(MockJobHeard, LostEventsAndChannelsStayAway)
{
    Profiler profiler(kListener, kKernels);
    options_.step = {calls_.data(), 1, 0};
    size_t n[3];
    for (int i = 0; i < 3; i++) {
        Log log;
        options_.lost_events = i == 1 ? 0.25 : 0;
        options_.lost_channels = i == 2 ? 0.25 : 0;
        Job job = Play(200, With(kListener));
        n[i] = Numbers(Heard(log), "state", " 22 at ").size();
    }
    EXPECT_NEAR(0.75, static_cast<double>(n[1]) / static_cast<double>(n[0]),
                0.1);
    EXPECT_NEAR(0.75, static_cast<double>(n[2]) / static_cast<double>(n[0]),
                0.05);
    EXPECT_NE(n[1], n[2]);
}

// ---- threads ----

TEST_F(MockJobHeard, ThreadsPlayTheSameJob)
{
    options_.jitter_us = 20;
    Play(30);
    const std::vector<double> one_thread = done_.Times();
    options_.layout = MOCK_THREADS;
    Play(30);

    EXPECT_EQ(one_thread, done_.Times());
}

TEST_F(MockJobHeard, ThreadsHearOfEveryKernel)
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
    EXPECT_EQ(20 * 4 * n, Numbers(Heard(log), "state", " 22 at ").size());
}

// Which also is what a race would make disagree.
TEST_F(MockJobHeard, PluginThatSharesItsDecisionsLearnsInThreads)
{
    mock_nccl_options nccl = With(STP_TEST_PLUGINS "/libnccl-tuner-learner.so");
    nccl.tuner_plugin = nccl.profiler_plugin;
    options_.layout = MOCK_THREADS;

    Play(100, nccl);

    EXPECT_EQ(ncclSuccess, rc_) << mock_last_error();
    EXPECT_EQ(100u, done_.steps.size());
}

} // namespace
