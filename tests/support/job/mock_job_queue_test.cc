// The queue between a job's host and its GPUs: how far the host is ahead, and
// what plugins see of it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "support/job/mock_jobs.h"
#include "support/mock_folder.h"
#include "support/mock_script.h"

using namespace mock_test;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

namespace
{

mock_nccl_options WithListenerAndScript(const char *nccl = nullptr)
{
    mock_nccl_options options = WithScript(nccl, 4); // as all of them take
    options.profiler_plugin = kListener;
    return options;
}

class MockJobQueue : public MockJob
{
  protected:
    // All collectives of the job, and the ends of its steps.
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

    Folder folder_;
};

// ---- how far ahead ----

struct Queue {
    const char *name;
    size_t ahead, launches;
    bool overlapped;
    mock_layout layout;
    size_t most_ahead; // launches
};
void PrintTo(const Queue &queue, std::ostream *out)
{
    *out << queue.name;
}

class MockJobQueueLimits : public MockJobQueue,
                           public testing::WithParamInterface<Queue>
{
};

TEST_P(MockJobQueueLimits, HostIsNeverFurtherAheadAndComesThatFar)
{
    const Queue &queue = GetParam();
    options_.host = {queue.ahead, queue.launches, 5, 0};
    options_.overlapped = queue.overlapped;
    options_.layout = queue.layout;
    options_.jitter_us = 20;
    options_.compute_noise = 0.1;

    const std::vector<mock_job_run> runs = Runs(100);

    size_t most = 0;
    for (size_t i = 0; i < runs.size(); i++) {
        size_t open = 0; // collectives launched before, and not over
        for (size_t k = 0; k < i; k++)
            open += runs[k].start_us + runs[k].us > runs[i].launched_us;
        most = std::max(most, runs[i].n_ahead);
        EXPECT_LE(runs[i].n_ahead, queue.ahead) << i;
        EXPECT_LE(open, runs[i].n_ahead) << i;
        EXPECT_GE(runs[i].launched_us, i == 0 ? 0 : runs[i - 1].launched_us);
        if (!queue.overlapped) {
            EXPECT_GE(runs[i].start_us, runs[i].launched_us) << i;
        }
    }
    EXPECT_EQ(queue.most_ahead, most);
}

// A step of two calls has 2 * 6 + 5 launches with 6, else 3.  What is counted
// at the calls is less where only other launches fill the queue.
INSTANTIATE_TEST_SUITE_P(
    All, MockJobQueueLimits,
    testing::Values(Queue{"OneLaunch", 1, 1, false, MOCK_ONE_THREAD, 1},
                    Queue{"OneCall", 6, 6, false, MOCK_ONE_THREAD, 6},
                    Queue{"AStep", 17, 6, false, MOCK_ONE_THREAD, 17},
                    Queue{"SomeSteps", 64, 6, false, MOCK_ONE_THREAD, 64},
                    Queue{"Overlapped", 64, 6, true, MOCK_ONE_THREAD, 63},
                    Queue{"Threads", 64, 6, false, MOCK_THREADS, 64},
                    Queue{"Cudas", 1024, 6, false, MOCK_ONE_THREAD, 1024},
                    Queue{"LongerThanTheJob", 4096, 1, false, MOCK_ONE_THREAD,
                          298}),
    [](const testing::TestParamInfo<Queue> &test) {
        return std::string(test.param.name);
    });

struct Launches {
    const char *name;
    mock_job_host host;
    mock_layout layout;
    enum { IN_TURN, CAPTURED, OVERLAPPED } how;
    double compute_us[2], tail_us;
};

// The host and the GPUs of a job without noise, launch by launch.
class Model
{
  public:
    Model(const Launches &job, double slowdown)
        : job_(job), slowdown_(slowdown),
          n_(std::max<size_t>(1, job.host.launches))
    {
    }

    // The next step: 'us' are its collectives without overlap. Returns its
    // time, and what is expected of the collectives.
    double Step(const double *us, mock_job_run *runs)
    {
        const double begin_us = gpu_us_;
        const bool at_once = job_.layout == MOCK_THREADS;

        n_known_ = at_once ? ended_us_.size() : SIZE_MAX;
        if (job_.how == Launches::OVERLAPPED)
            Overlap(us);
        for (size_t i = 0; i < 3 && at_once; i++)
            Issue(i);
        for (size_t i = 0; i < 3; i++) {
            if (!at_once)
                Issue(i);
            if (i < 2)
                runs[i].n_ahead = CountAhead(i);
            Run(i, us, runs);
        }
        if (job_.how == Launches::CAPTURED)
            ended_us_.back() = gpu_us_;
        n_steps_++;
        if (job_.host.ahead == 0 ||
            (job_.host.sync_every > 0 && n_steps_ % job_.host.sync_every == 0))
            host_us_ = std::max(host_us_, gpu_us_);
        return gpu_us_ - begin_us;
    }

  private:
    void Issue(size_t i)
    {
        const double us = job_.host.launch_us > 0 ? job_.host.launch_us : 10;
        const size_t ahead = job_.host.ahead;
        size_t n = i < 2 || n_ == 1 ? n_ : n_ - 1;

        if (job_.how == Launches::CAPTURED)
            n = i == 0;
        if (n > 0)
            issued_us_[i].clear();
        else
            issued_us_[i] = issued_us_[0];
        first_[i] = ended_us_.size();
        for (size_t k = 0; k < n; k++) {
            const size_t number = ended_us_.size();
            host_us_ += us;
            if (ahead > 0 && number >= ahead && number - ahead < n_known_)
                host_us_ = std::max(host_us_, ended_us_[number - ahead]);
            ended_us_.push_back(INFINITY);
            issued_us_[i].push_back(host_us_);
        }
        size_[i] = n;
    }

    // From the oldest launch that has not ended.
    size_t CountAhead(size_t i) const
    {
        size_t oldest = 0;

        while (ended_us_[oldest] <= issued_us_[i].back())
            oldest++;
        return std::min(first_[i] + size_[i] - oldest, job_.host.ahead);
    }

    void Run(size_t i, const double *us, mock_job_run *runs)
    {
        const double last = issued_us_[i].back();

        if (job_.how == Launches::OVERLAPPED) {
            for (size_t k = 0; k < size_[i]; k++)
                ended_us_[first_[i] + k] = computed_us_[i];
            gpu_us_ = i < 2 ? sent_us_[i] : std::max(computed_us_[2], last);
            if (i == 2)
                gpu_us_ = std::max(gpu_us_, sent_us_[1]);
        } else {
            Compute(i);
            if (i < 2)
                start_us_[i] = std::max(gpu_us_, last);
            if (i < 2)
                gpu_us_ = start_us_[i] + us[i];
        }
        if (i < 2) {
            if (size_[i] > 0)
                ended_us_[first_[i] + size_[i] - 1] = gpu_us_;
            runs[i].launched_us = last;
            runs[i].start_us = start_us_[i];
            runs[i].us = gpu_us_ - start_us_[i];
        }
    }

    // In parts of a launch each, without that of the collective.
    void Compute(size_t i)
    {
        const double us = i < 2 ? job_.compute_us[i] : job_.tail_us;
        size_t n = std::max<size_t>(1, size_[i]);

        n -= i < 2 && n > 1;
        for (size_t k = 0; k < n; k++) {
            gpu_us_ = std::max(gpu_us_, issued_us_[i][k]) +
                      us / static_cast<double>(n);
            if (size_[i] > 0)
                ended_us_[first_[i] + k] = gpu_us_;
        }
    }

    // Two streams, which slow each other down.
    void Overlap(const double *us)
    {
        double compute[] = {job_.compute_us[0], job_.compute_us[1],
                            job_.tail_us};
        double comm[] = {us[0], us[1]};
        double now = gpu_us_;

        for (size_t c = 0, m = 0; c < 3 || m < 2;) {
            const bool computes = c < 3, sends = m < 2 && m < c;
            const double next = computes && sends
                                    ? std::min(compute[c], comm[m])
                                : computes ? compute[c]
                                           : comm[m];
            if (sends && comm[m] == us[m])
                start_us_[m] = now;
            now += next * (computes && sends ? slowdown_ : 1);
            if (sends && (comm[m] -= next) <= 0)
                sent_us_[m++] = now;
            if (computes && (compute[c] -= next) <= 0)
                computed_us_[c++] = now;
        }
    }

    const Launches job_;
    const double slowdown_;
    const size_t n_;
    double host_us_ = 0, gpu_us_ = 0;
    size_t n_steps_ = 0;
    size_t n_known_ = 0;               // launches whose ends the host awaits
    std::vector<double> ended_us_;     // of all launches
    std::vector<double> issued_us_[3]; // of the calls and the tail
    size_t first_[3] = {}, size_[3] = {};
    double start_us_[2] = {}, sent_us_[2] = {}, computed_us_[3] = {};
};

class MockJobLaunches : public MockJobQueue,
                        public testing::WithParamInterface<Launches>
{
};

TEST_P(MockJobLaunches, HostAndGpusAreAQueueOfThem)
{
    const Launches &c = GetParam();
    machine_ = LoadMachine("h100x4"); // all overlaps have one slowdown
    for (size_t i = 0; i < 2; i++)
        calls_[i].compute_us = c.compute_us[i];
    options_.step.tail_us = c.tail_us;
    Runs(30);
    const Done alone = done_;
    mock_overlap overlap{};
    ASSERT_EQ(ncclSuccess,
              mock_machine_overlap(machine_.get(), &alone.steps[0].runs[0].run,
                                   MOCK_MODE_OVERLAP, 100, 0, 0, &overlap));
    options_.host = c.host;
    options_.layout = c.layout;
    options_.captured = c.how == Launches::CAPTURED;
    options_.overlapped = c.how == Launches::OVERLAPPED;
    Model model(c, overlap.slowdown);

    Runs(30);

    for (size_t s = 0; s < 30; s++) {
        const auto &runs = done_.steps[s].runs;
        const double us[] = {alone.steps[s].runs[0].us,
                             alone.steps[s].runs[1].us};
        mock_job_run expected[2] = {};
        EXPECT_NEAR(model.Step(us, expected), done_.steps[s].us, 1e-3) << s;
        for (size_t i = 0; i < 2; i++) {
            EXPECT_NEAR(expected[i].launched_us, runs[i].launched_us, 1e-3)
                << s << " " << i;
            EXPECT_NEAR(expected[i].start_us, runs[i].start_us, 1e-3)
                << s << " " << i;
            EXPECT_NEAR(expected[i].us, runs[i].us, 1e-3) << s << " " << i;
            EXPECT_EQ(expected[i].n_ahead, runs[i].n_ahead) << s << " " << i;
        }
    }
}

constexpr mock_layout kOne = MOCK_ONE_THREAD;
constexpr auto kInTurn = Launches::IN_TURN;
constexpr auto kCaptured = Launches::CAPTURED;
constexpr auto kOverlapped = Launches::OVERLAPPED;
// clang-format off
const Launches kLaunches[] = {
    {"no_limit", {}, kOne, kInTurn, {1000, 500}, 200},
    {"no_limit_and_parts", {0, 4, 20}, kOne, kInTurn, {10, 50}, 20},
    {"one", {1, 1, 5}, kOne, kInTurn, {100, 50}, 20},
    {"two", {2, 2, .5}, kOne, kInTurn, {100, 50}, 20},
    {"a_call", {6, 6, 5}, kOne, kInTurn, {100, 50}, 20},
    {"more_than_a_step", {20, 4, 5}, kOne, kInTurn, {100, 50}, 20},
    {"ten_us_each", {64, 3, 0}, kOne, kInTurn, {5, 3}, 2},
    {"slow_host", {64, 3, 200}, kOne, kInTurn, {100, 50}, 20},
    {"slow_host_of_two", {64, 2, 200}, kOne, kInTurn, {100, 50}, 20},
    {"waits_now_and_then", {64, 3, 5, 4}, kOne, kInTurn, {100, 50}, 20},
    {"threads", {64, 3, 5, 7}, MOCK_THREADS, kInTurn, {100, 50}, 20},
    {"threads_of_a_short_queue", {4, 4, 5}, MOCK_THREADS, kInTurn, {100, 50}, 20},
    {"graphs_without_limit", {0, 6, 5}, kOne, kCaptured, {100, 50}, 20},
    {"one_graph", {6, 6, 5}, kOne, kCaptured, {100, 50}, 20},
    {"slow_graphs", {3, 1, 2000}, kOne, kCaptured, {100, 50}, 20},
    {"beside_each_other", {64, 3, 5}, kOne, kOverlapped, {1000, 500}, 200},
    {"beside_short_compute", {9, 3, 5}, kOne, kOverlapped, {10, 20}, 30},
    {"beside_long_compute", {9, 1, 5}, kOne, kOverlapped, {3000, 2000}, 4000},
    {"beside_no_compute", {9, 1, 5}, kOne, kOverlapped, {0, 20}, 5},
    {"beside_a_slow_host", {64, 3, 900}, kOne, kOverlapped, {100, 50}, 20},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, MockJobLaunches, testing::ValuesIn(kLaunches),
                         CaseName());

// A rank enters a collective late, and its compute has ended.
TEST_F(MockJobQueue, RanksAreAsLateWithOverlapAsWithout)
{
    options_.jitter_us = 80;
    options_.host.launch_us = 1;
    const mock_job_run in_turn = Runs(1)[0];
    options_.overlapped = true;
    const mock_job_run overlapped = Runs(1)[0];

    EXPECT_GT(overlapped.start_us, 1000 + 1);
    EXPECT_NEAR(in_turn.start_us - 1, overlapped.start_us, 1e-6);
    options_.step.n = 1; // no rank is late for the tail
    Runs(1);
    EXPECT_NEAR(overlapped.start_us, done_.steps[0].runs[0].start_us, 1e-6);
    const double after_us = done_.steps[0].us - overlapped.start_us;
    options_.jitter_us = 0;
    Runs(1);
    EXPECT_NEAR(after_us, done_.steps[0].us - 1000, 1e-6);
}

TEST_F(MockJobQueue, HostThatIsSlowerThanTheGpusIsNotAheadOfThem)
{
    options_.host = {1024, 6, 500, 0};

    const std::vector<mock_job_run> runs = Runs(20);

    for (const mock_job_run &run : runs) {
        EXPECT_LE(run.n_ahead, 6u);
        EXPECT_DOUBLE_EQ(run.launched_us, run.start_us);
    }
    EXPECT_DOUBLE_EQ(2500 + 6 * 500 + 6 * 500,
                     runs[2].launched_us - runs[0].launched_us);
}

TEST_F(MockJobQueue, RequestedTimesTakeTheHostLongerByTheChannel)
{
    options_.host = {1024, 6, 500, 0, 2};
    for (int mask : {0, kKernels}) {
        Profiler profiler(kListener, mask);
        std::vector<double> asked_us;
        on_ask = [&](const Asked &) {
            asked_us.push_back(HostUs());
            return ncclSuccess;
        };
        const std::vector<mock_job_run> runs =
            Runs(20, WithListenerAndScript());
        on_ask = nullptr;
        for (size_t i = 0; i < asked_us.size(); i++) // on all ranks
            EXPECT_NEAR(runs[i / kRanks].launched_us, asked_us[i], 1e-2);
        const int n = OnMachine(machine_, calls_[0].call).n_channels;

        EXPECT_DOUBLE_EQ(6 * 500 + (mask != 0 ? 2 * n : 0),
                         runs[1].launched_us - runs[0].launched_us);
        EXPECT_DOUBLE_EQ(runs[1].launched_us, runs[1].start_us);
    }
}

// A call is three launches, and the compute after the last call two: in a queue
// of three the collective's waits for the second of these.
TEST_F(MockJobQueue, ComputeAfterTheLastCallEndsInPartsToo)
{
    options_.step = {calls_.data(), 1, 600};
    options_.host = {3, 3, 10, 0};

    const std::vector<mock_job_run> runs = Runs(20);

    double end = 0;
    for (size_t s = 0; s + 1 < runs.size(); s++) {
        end += done_.steps[s].us;
        EXPECT_NEAR(end, runs[s + 1].launched_us, 1e-6) << s;
    }
}

TEST_F(MockJobQueue, HostWaitsForTheGpusAfterTheStepsAskedFor)
{
    const struct {
        mock_job_host host;
        size_t every; // 0: never
    } cases[] = {
        {{0, 1, 10, 0}, 1}, {{1024, 1, 10, 0}, 0},   {{1024, 1, 10, 1}, 1},
        {{0, 1, 10, 7}, 1}, {{1024, 1, 10, 10}, 10},
    };

    for (const auto &c : cases) {
        options_.host = c.host;
        Runs(40);

        double end = 0;
        for (size_t s = 0; s < 40; s++) {
            const bool waits = s > 0 && c.every != 0 && s % c.every == 0;
            const double launched = done_.steps[s].runs[0].launched_us;
            if (waits) {
                EXPECT_DOUBLE_EQ(end + 10, launched) << s;
            } else if (s > 0) {
                EXPECT_LT(launched, end) << s;
            }
            end += done_.steps[s].us;
        }
    }
}

TEST_F(MockJobQueue, TimelineOfTheGpusIsTheSameHoweverFarTheHostIsAhead)
{
    options_.compute_noise = 0.1;
    options_.jitter_us = 20;
    options_.host = {1024, 6, 5, 0, 0, 0.2};
    Runs(50);
    const std::vector<double> times = done_.Times();
    options_.host.ahead = 64;
    Runs(50);
    EXPECT_EQ(times, done_.Times());
    options_.layout = MOCK_THREADS;
    Runs(50);
    EXPECT_EQ(times, done_.Times());
}

TEST_F(MockJobQueue, QueueThatACallDoesNotFitIntoIsAnError)
{
    mock_job *job = nullptr;
    options_.host = {5, 6, 5, 0};
    nccl_ = MakeNccl({});

    EXPECT_EQ(ncclInvalidArgument,
              mock_job_create(nccl_.get(), machine_.get(), &options_, &job));
    EXPECT_STREQ("a queue of 5 launches, but a collective and its compute are "
                 "6",
                 mock_last_error());
    EXPECT_EQ(nullptr, job);
}

// ---- what plugins see ----

TEST_F(MockJobQueue, QuestionsAndEventsComeInTheOrderOfTheHostsClock)
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

TEST_F(MockJobQueue, QuestionsAndEventsOfARankComeInTheOrderOfItsHostsClock)
{
    struct Rank {
        const std::vector<Kernel> *heard;
        std::vector<std::pair<double, size_t>> asked; // when, heard until then
    };

    for (double launch_us : {90, 500}) { // ahead of the GPUs, and not
        Profiler profiler(kListener, kKernels, kKernels);
        Kernels kernels;
        Rank ranks[kRanks];
        size_t n_inits = 0;
        options_.gpu_clocks.heard_late_us = 12;
        options_.host = {1024, 6, launch_us, 0, 2, 0.9};
        on_init = [&](const Joined &joined) {
            ranks[n_inits].heard = &kernels.of[n_inits];
            *joined.context = &ranks[n_inits++];
            return ncclSuccess;
        };
        on_ask = [](const Asked &asked) {
            auto *rank = static_cast<Rank *>(asked.context);
            rank->asked.emplace_back(HostUs(), rank->heard->size());
            return ncclSuccess;
        };
        const size_t n = Runs(50, WithListenerAndScript()).size();
        job_.reset();
        on_init = nullptr;
        on_ask = nullptr;

        for (const Rank &rank : ranks) {
            EXPECT_EQ(n, rank.asked.size());
            for (const auto &[us, n_heard] : rank.asked) {
                if (n_heard > 0) {
                    EXPECT_LE((*rank.heard)[n_heard - 1].begin_heard_us, us);
                }
                if (n_heard < n) {
                    EXPECT_GE((*rank.heard)[n_heard].begin_heard_us, us);
                }
            }
        }
    }
}

TEST_F(MockJobQueue, RanksHaveHostsOfTheirOwnAndTheGpusWaitForTheLast)
{
    std::vector<double> asked_us[kRanks];
    int n_inits = 0;
    options_.host = {60, 6, 50, 0, 0, 0.3};
    on_init = [&](const Joined &joined) {
        *joined.context = &asked_us[n_inits++];
        return ncclSuccess;
    };
    on_ask = [](const Asked &asked) {
        static_cast<std::vector<double> *>(asked.context)->push_back(HostUs());
        return ncclSuccess;
    };

    const std::vector<mock_job_run> runs = Runs(50, WithScript());
    job_.reset();
    on_init = nullptr;
    on_ask = nullptr;

    double sum_us = 0;
    for (size_t i = 0; i < runs.size(); i++) {
        double last = 0, first = 1e9;
        for (const auto &rank : asked_us) {
            EXPECT_GT(rank[i], i == 0 ? 0 : rank[i - 1]);
            last = std::max(last, rank[i]);
            first = std::min(first, rank[i]);
        }
        if (i < 5) { // later all may wait for the same end
            EXPECT_LT(first, last);
        }
        EXPECT_NEAR(last, runs[i].launched_us, 0.3);
        EXPECT_LE(runs[i].launched_us, runs[i].start_us);
        EXPECT_LE(runs[i].n_ahead, 60u);
    }
    for (const auto &rank : asked_us) // while none waits, 6 launches a call
        sum_us += (rank[5] - rank[0]) / 5 / kRanks;
    EXPECT_NEAR(6 * 50 + 5 * 50. / 2, sum_us, 60); // and 5 in the tail of two
}

TEST_F(MockJobQueue, RewardsAreWrittenWhenTheGpusAreThrough)
{
    const std::string path = folder_.Path() + "/rewards.log";
    std::vector<size_t> written;
    struct User {
        const std::string *path;
        std::vector<size_t> *written;
    } user = {&path, &written};
    options_.reward_file = path.c_str();
    options_.host = {30, 6, 5, 0}; // not two steps
    options_.user = &user;
    options_.done = [](void *at, const mock_job_step *) {
        const auto *u = static_cast<const User *>(at);
        std::ifstream in(*u->path);
        size_t n = 0;
        for (std::string line; std::getline(in, line);)
            n++;
        u->written->push_back(n);
    };

    Play(4).reset();

    EXPECT_THAT(written, ElementsAre(0, 0, 2, 4));
    std::ifstream in(path);
    size_t n = 0;
    for (std::string line; std::getline(in, line);)
        n++;
    EXPECT_EQ(8u, n);
}

// ---- pauses of the thread that reports ----

TEST_F(MockJobQueue, EventsOfAPauseComeInABurstWithTheirOwnTimes)
{
    calls_.assign(10, After(50, ncclFuncAllReduce, 8));
    options_.step = {calls_.data(), calls_.size(), 50};
    options_.host = {1024, 1, 5, 0};
    options_.gpu_clocks.heard_late_us = 12;
    options_.gpu_clocks.pause_every_us = 20000;
    Profiler profiler(kListener, kKernels, kKernels);
    Kernels kernels;

    const std::vector<mock_job_run> runs = Runs(300, With(kListener));
    job_.reset();

    for (const auto &rank : kernels.of) {
        size_t n_bursts = 0, longest = 0, burst = 0;
        double latest = 0;
        ASSERT_EQ(runs.size(), rank.size());
        for (size_t i = 0; i < runs.size(); i++) {
            const double late = rank[i].begin_heard_us - runs[i].start_us;
            EXPECT_NEAR(runs[i].start_us * 1000, rank[i].begin_ns, 2) << i;
            EXPECT_NEAR((runs[i].start_us + runs[i].us) * 1000, rank[i].end_ns,
                        2);
            latest = std::max(latest, late);
            burst =
                i > 0 && rank[i].begin_heard_us == rank[i - 1].begin_heard_us
                    ? burst + 1
                    : 0;
            n_bursts += burst == 10;
            longest = std::max(longest, burst);
        }
        EXPECT_GT(latest, 2000);
        EXPECT_LE(latest, 4000 + 100);
        EXPECT_THAT(n_bursts, testing::AllOf(Ge(1u), Le(10u)));
        EXPECT_GT(longest, 25u);
    }
}

// A call takes some 25 us: within a pause, more than NCCL keeps.
TEST_F(MockJobQueue, TimesThatNcclKeepsNoLongerAreThoseOfALaterKernel)
{
    calls_.assign(10, After(10, ncclFuncAllReduce, 8));
    options_.step = {calls_.data(), calls_.size(), 10};
    options_.host = {1024, 1, 5, 0};
    options_.gpu_clocks.heard_late_us = 12;
    options_.gpu_clocks.pause_every_us = 5000;
    Profiler profiler(kListener, kKernels, kKernels);
    Kernels kernels;

    const std::vector<mock_job_run> runs = Runs(300, With(kListener));
    job_.reset();

    size_t n_replaced = 0;
    for (const auto &rank : kernels.of)
        for (size_t i = 0; i < runs.size(); i++) {
            size_t kept = i;
            while (kept + 64 < runs.size() &&
                   runs[kept + 64].start_us <= rank[i].begin_heard_us)
                kept += 64;
            EXPECT_NEAR(runs[kept].start_us * 1000, rank[i].begin_ns, 400) << i;
            n_replaced += kept != i;
        }
    EXPECT_GT(n_replaced, 20u);
}

// ---- CUDA graphs ----

struct Graph {
    const char *name;
    int mask;
    const char *version;
    size_t calls;    // events of the captures on a rank
    size_t launches; // events of a replay on a rank, beside the kernels
};

TEST_F(MockJobQueue, ReplaysAreReportedIfTimesWereRequestedAtTheCapture)
{
    const Graph cases[] = {
        {"nothing requested", 0, "2.28", 0, 0},
        {"launches requested", NCCL_PROFILE_COLL, "2.28", 2, 0},
        {"times requested", kKernels, "2.28", 2, 2},
        {"by an older NCCL", kKernels, "2.27", 0, 2},
    };
    options_.captured = true;
    options_.host = {1024, 6, 5, 0};
    options_.gpu_clocks.heard_late_us = 12;

    for (const Graph &c : cases) {
        SCOPED_TRACE(c.name);
        Profiler profiler(kListener, c.mask);
        size_t n_asked = 0;
        on_ask = [&](const Asked &) {
            n_asked++;
            return ncclSuccess;
        };
        Log log;

        Runs(5, WithListenerAndScript(c.version));
        job_.reset();
        on_ask = nullptr;

        std::vector<std::string> colls;
        size_t n_kernels = 0, n_apis = 0;
        for (const std::string &line : ProfilerLines(log)) {
            if (line.rfind("1001 start", 0) != 0)
                continue;
            n_apis += line.find(" CollApi of ") != std::string::npos;
            n_kernels += line.find(" KernelCh of ") != std::string::npos;
            if (line.find(" Coll of ") != std::string::npos)
                colls.push_back(line);
        }
        EXPECT_EQ(2u * kRanks, n_asked);
        EXPECT_EQ(c.calls, n_apis);
        ASSERT_EQ(5 * c.launches, colls.size());
        EXPECT_EQ(c.launches > 0, n_kernels > 0);
        for (size_t i = 0; i < colls.size(); i++)
            EXPECT_THAT(colls[i],
                        HasSubstr(" number " + std::to_string(i / 2)));
    }
}

// Or, as CUDA's thread is not ahead of it, after the last event.
TEST_F(MockJobQueue, LaunchByAGraphIsReportedWhenTheGpuComesToIt)
{
    static std::vector<double> heard_us[kRanks]; // of launches and kernels
    static std::vector<double> launched_us[kRanks];
    for (int r = 0; r < kRanks; r++) {
        heard_us[r].clear();
        launched_us[r].clear();
    }
    Profiler profiler(kListener, kKernels);
    calls_ = {After(100, ncclFuncAllReduce, 8), After(5, ncclFuncAllReduce, 8),
              After(0, ncclFuncAllReduce, 8)};
    options_.step = {calls_.data(), calls_.size(), 50};
    options_.captured = true;
    options_.gpu_clocks.heard_late_us = 12;
    mock_set_log(
        [](void *, ncclDebugLogLevel, unsigned long, const char *text) {
            size_t rank;
            char what[16];
            if (std::sscanf(text, "%zu start %*u %15s of", &rank, what) != 2)
                return;
            if (std::string(what) == "Coll")
                launched_us[rank - 1000].push_back(HostUs());
            heard_us[rank - 1000].push_back(HostUs());
        },
        nullptr);

    const std::vector<mock_job_run> runs = Runs(20, With(kListener));
    job_.reset();
    mock_set_log(nullptr, nullptr);

    size_t n_at_once = 0;
    for (int r = 0; r < kRanks; r++) {
        ASSERT_EQ(runs.size(), launched_us[r].size());
        EXPECT_TRUE(std::is_sorted(heard_us[r].begin(), heard_us[r].end()));
        for (size_t i = 0; i < runs.size(); i++) {
            EXPECT_GE(launched_us[r][i], runs[i].start_us - 1e-2) << i;
            if (i % 3 == 0) {
                EXPECT_NEAR(runs[i].start_us, launched_us[r][i], 1e-2) << i;
            }
            n_at_once += launched_us[r][i] < runs[i].start_us + 1e-2;
        }
    }
    EXPECT_GT(n_at_once, 20u * kRanks);
    EXPECT_LT(n_at_once, 60u * kRanks);
}

TEST_F(MockJobQueue, GraphIsOneLaunchAndItsKernelsWaitForNoOther)
{
    options_.captured = true;
    options_.host = {8, 6, 5, 0};

    const std::vector<mock_job_run> runs = Runs(30);

    size_t most = 0;
    for (size_t i = 0; i < runs.size(); i++) {
        most = std::max(most, runs[i].n_ahead);
        EXPECT_EQ(runs[i - i % 2].launched_us, runs[i].launched_us);
    }
    EXPECT_EQ(8u, most); // steps
    EXPECT_LT(runs[2 * 7].launched_us, runs[0].start_us);
    EXPECT_GT(runs[2 * 8].launched_us, runs[1].start_us);
}

// ---- a job as it was recorded ----

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
TEST_F(MockJobQueue, PyTorchJobIsAsFarAheadAsItsRecordingCallByCall)
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

} // namespace
