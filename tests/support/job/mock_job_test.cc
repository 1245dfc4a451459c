// A training job in virtual time: its timeline, and the plugins' view of it.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <functional>
#include <mutex>
#include <numeric>

#include "support/job/mock_jobs.h"
#include "support/mock_folder.h"
#include "support/mock_script.h"

using namespace mock_test;
using testing::HasSubstr;

namespace
{

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

TEST_F(MockJob, CollectivesTakeWhatWasRecordedForTheChoice)
{
    Job job = Play(400);

    double sum = 0;
    for (const Done::Step &step : done_.steps)
        sum += step.runs[0].us;
    mock_time mean;
    ASSERT_EQ(ncclSuccess,
              mock_machine_mean_time(machine_.get(),
                                     &done_.steps[0].runs[0].run, &mean));
    EXPECT_LE(done_.steps[0].runs[0].source, MOCK_TIME_INTERPOLATED);
    EXPECT_NEAR(mean.us, sum / 400, 0.05 * mean.us);
}

TEST_F(MockJob, LaunchesLimitAStepWithoutCompute)
{
    calls_.assign(40, After(0, ncclFuncAllReduce, 8));
    options_.step = {calls_.data(), calls_.size(), 0};

    Job job = Play(1);

    EXPECT_GE(done_.steps[0].us, 410);
    EXPECT_DOUBLE_EQ(10, done_.steps[0].runs[0].start_us);
}

TEST_F(MockJob, SameSeedIsTheSameJobAndAnotherIsNot)
{
    options_.compute_noise = 0.05;
    options_.jitter_us = 30;

    Play(50);
    const std::vector<double> first = done_.Times();
    Play(50);
    EXPECT_EQ(first, done_.Times());
    options_.seed = 1;
    Play(50);
    EXPECT_NE(first, done_.Times());
}

TEST_F(MockJob, MeasuredSettingsAreThese)
{
    const mock_job_host &host = mock_job_torch_host;
    EXPECT_EQ(1024u, host.ahead);
    EXPECT_EQ(6u, host.launches);
    EXPECT_EQ(12, host.launch_us);
    EXPECT_EQ(0u, host.sync_every);
    EXPECT_EQ(.3, host.timed_us);
    EXPECT_EQ(.2, host.noise);
    const mock_job_gpu_clocks &clocks = mock_job_h200_clocks;
    EXPECT_EQ(500, clocks.offset_us);
    EXPECT_EQ(10, clocks.drift_ppm);
    EXPECT_EQ(12, clocks.heard_late_us);
    EXPECT_TRUE(clocks.tree_ends);
    EXPECT_EQ(100000, clocks.pause_every_us);
}

// A seed that a report names is the same job on every machine.
TEST_F(MockJob, NoiseOfASeedNeverChanges)
{
    const struct {
        void (*set)(mock_job_options *);
        const char *steps; // both calls' launch, start and time
    } cases[] = {
        {[](mock_job_options *) {},
         "10.0 1010.0+39.4 20.0 1549.4+37.3, "
         "87561.1 88561.1+39.9 87571.1 89101.0+35.5, "
         "89346.5 90346.5+42.5 89356.5 90889.0+35.6, "},
        {[](mock_job_options *o) { o->seed = 12; },
         "10.0 1010.0+40.3 20.0 1550.3+37.4, "
         "87558.3 88558.3+40.4 87568.3 89098.7+37.6, "
         "89346.3 90346.3+40.3 89356.3 90886.5+35.6, "},
        {[](mock_job_options *o) { o->compute_noise = .2; },
         "10.0 940.7+39.4 20.0 1445.4+37.3, "
         "85884.9 87498.5+39.9 85894.9 88345.2+35.5, "
         "88713.5 90025.3+42.5 88723.5 90723.7+35.6, "},
        {[](mock_job_options *o) { o->jitter_us = 100; },
         "10.0 1109.5+39.4 20.0 1746.3+37.3, "
         "95069.9 96150.2+39.9 95079.9 96748.4+35.5, "
         "96994.0 98067.0+42.5 97004.0 98697.1+35.6, "},
        {[](mock_job_options *o) { o->host = {1024, 2, 50, 0, 0, .3}; },
         "145.9 1072.9+39.4 254.5 1612.3+37.3, "
         "12740.6 88134.0+39.9 12830.4 88673.9+35.5, "
         "12935.7 89909.5+42.5 13083.9 90452.0+35.6, "},
        {[](mock_job_options *o) {
             o->stalls = .6;
             o->stall_us = 1000;
         },
         "10.0 1010.0+39.4 20.0 2910.3+37.3, "
         "121855.6 122855.6+39.9 121865.6 124348.1+35.5, "
         "124593.7 125593.7+42.5 124603.7 126136.2+35.6, "},
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

TEST_F(MockJob, SuccessiveStepsShareARecordedRound)
{
    options_.round_steps = 10;
    Play(20);

    // the same iteration noise in every round, so that only rounds differ
    mock_time time;
    const mock_run &run = done_.steps[0].runs[0].run;
    std::vector<int> possible(20, 0); // bits: rounds that step could be of
    const unsigned n = mock_machine_rounds(machine_.get());
    ASSERT_GT(n, 1u);
    for (size_t s = 0; s < 20; s++)
        for (unsigned r = 0; r < n; r++) {
            double least, most;
            ASSERT_EQ(ncclSuccess, mock_machine_time(machine_.get(), &run,
                                                     (r + .5) / n, 0, &time));
            least = time.us;
            ASSERT_EQ(ncclSuccess,
                      mock_machine_time(machine_.get(), &run, (r + .5) / n,
                                        .999999, &time));
            most = time.us;
            double us = done_.steps[s].runs[0].us;
            possible[s] |= (us >= least && us <= most) << r;
        }
    EXPECT_NE(0, std::accumulate(possible.begin(), possible.begin() + 10, ~0,
                                 std::bit_and<>()));
    EXPECT_NE(0, std::accumulate(possible.begin() + 10, possible.end(), ~0,
                                 std::bit_and<>()));
}

TEST_F(MockJob, ComputeNoiseHasMeanOneAndTheSpreadAskedFor)
{
    calls_.assign(1, After(1e6, ncclFuncAllReduce, 8));
    options_.step = {calls_.data(), 1, 0};
    options_.compute_noise = 0.2;

    Play(2000);

    double mean = 0, square = 0;
    for (double us : done_.Times()) {
        mean += us / 1e6 / 2000;
        square += us * us / 1e12 / 2000;
    }
    EXPECT_NEAR(1, mean, 0.02);
    EXPECT_NEAR(0.2, std::sqrt(square - mean * mean), 0.02);
}

TEST_F(MockJob, StallsAreOfTheStepsAndAsLongAsAskedFor)
{
    for (bool overlapped : {false, true}) {
        options_.overlapped = overlapped;
        options_.stalls = 0;
        Play(1000);
        const std::vector<double> before = done_.Times();
        options_.stalls = 0.1;
        options_.stall_us = 8000;
        Play(1000);

        size_t n = 0;
        double sum = 0;
        for (size_t i = 0; i < 1000; i++) {
            const double us = done_.Times()[i] - before[i];
            if (std::fabs(us) < 1e-3)
                continue;
            n++;
            sum += us;
            EXPECT_GE(us, overlapped ? 3000 : 4000 - 1e-6);
            EXPECT_LE(us, 12000 + 1e-6);
        }
        EXPECT_NEAR(100, n, 30);
        EXPECT_NEAR(8000, sum / double(n), 1000);
    }
}

TEST_F(MockJob, DriftSlowsOneArmFromAStepOn)
{
    Play(6);
    const Done before = done_;
    const mock_run arm = before.steps[0].runs[0].run;
    const struct {
        size_t from;
        int algo, proto;
        double factor;
        bool drifts;
    } cases[] = {
        {3, arm.algo, arm.proto, 2, true},
        {3, arm.algo, arm.proto, .5, true},
        {0, arm.algo, arm.proto, 1.25, true},
        {3, arm.algo, arm.proto, 0, false},
        {3, NCCL_ALGO_TREE, arm.proto, 2, false},
        {3, arm.algo, NCCL_PROTO_LL, 2, false},
    };

    for (const auto &c : cases) {
        options_.drift = {c.from, c.algo, c.proto, c.factor};
        Play(6);
        for (size_t s = 0; s < 6; s++)
            EXPECT_DOUBLE_EQ(before.steps[s].runs[0].us *
                                 (c.drifts && s >= c.from ? c.factor : 1),
                             done_.steps[s].runs[0].us)
                << s << " " << &c - cases;
    }
}

TEST_F(MockJob, TimesSayWhereTheyAreFrom)
{
    const std::pair<size_t, mock_time_source> cases[] = {
        {4 << 20, MOCK_TIME_INTERPOLATED},
        {524288, MOCK_TIME_RECORDED},
        {size_t{64} << 30, MOCK_TIME_MODELLED},
    };

    calls_[0].call.coll = ncclFuncAllReduce;
    options_.step.n = 1;
    options_.replace = [](void *, const mock_call *call, mock_run *run) {
        *run = {call->coll, call->n_bytes, NCCL_ALGO_TREE, NCCL_PROTO_LL, 0};
    };
    for (const auto &[n_bytes, source] : cases) {
        calls_[0].call.n_bytes = n_bytes;
        Play(1);
        ASSERT_EQ(ncclSuccess, rc_) << mock_last_error();
        EXPECT_EQ(source, done_.steps[0].runs[0].source) << n_bytes;
    }
}

TEST_F(MockJob, OverlappedCollectivesRunDuringCompute)
{
    Play(5);
    const Done in_turn = done_;
    options_.overlapped = true;
    Play(5);

    for (size_t s = 0; s < 5; s++) {
        const Done::Step &step = done_.steps[s];
        EXPECT_LT(step.us, in_turn.steps[s].us);
        EXPECT_GT(step.us, 1000 + 500 + 200);
        // overlapped with compute each takes longer, and none begins before its
        // compute
        EXPECT_GT(step.runs[0].us, in_turn.steps[s].runs[0].us);
        EXPECT_GE(step.runs[1].start_us,
                  step.runs[0].start_us + step.runs[0].us);
    }
    EXPECT_DOUBLE_EQ(1000, done_.steps[0].runs[0].start_us);
}

// The last half microsecond has the GPU to itself; the slowdown before it
// depends on the compute a little.
TEST_F(MockJob, CollectiveThatOutlastsItsComputeByLittleEndsAfterIt)
{
    Play(1);
    const double alone_us = done_.steps[0].runs[0].us;
    options_.overlapped = true;
    Play(1);
    const double slowdown = done_.steps[0].runs[0].us / alone_us;
    calls_[1].compute_us = alone_us - .5;
    Play(1);

    EXPECT_NEAR((alone_us - .5) * slowdown + .5, done_.steps[0].runs[0].us,
                .05);
}

TEST_F(MockJob, ComputeThatOutlastsACollectiveByLittleEndsAfterIt)
{
    machine_ = LoadMachine("h100x4"); // all overlaps have one slowdown
    Play(1);
    const double alone_us = done_.steps[0].runs[0].us;
    options_.overlapped = true;
    calls_[1].compute_us = alone_us + .5;
    Play(1);

    const auto &runs = done_.steps[0].runs;
    EXPECT_NEAR(runs[0].start_us + runs[0].us + .5, runs[1].start_us, 1e-6);
}

// A collective of 39 us beside compute of 20 us and of 3 ms, and another beside
// that.
TEST_F(MockJob, EachCollectiveIsSlowedDownByTheComputeBesideIt)
{
    calls_[1].call.n_bytes = 64 << 20;
    Play(1);
    const double alone_us = done_.steps[0].runs[0].us;
    const double other_us = done_.steps[0].runs[1].us;
    ASSERT_GT(alone_us, 30);
    ASSERT_LT(alone_us, 40);
    auto play = [&](double second_us, double tail_us) {
        options_.overlapped = true;
        calls_[1].compute_us = second_us;
        options_.step.tail_us = tail_us;
        Play(1);
        return std::pair(done_.steps[0].runs[0].us, done_.steps[0].runs[1].us);
    };
    const auto beside_short = play(20, 20);
    const auto beside_long = play(3000, 3000);
    EXPECT_GT(std::fabs(beside_short.first - beside_long.first), 1);
    EXPECT_GT(
        std::fabs(beside_long.first / alone_us - beside_long.second / other_us),
        .01);

    const auto beside_both = play(20, 3000);

    EXPECT_NEAR(
        (20 * beside_short.first + (alone_us - 20) * beside_long.first) /
            alone_us,
        beside_both.first, 1e-6);
    EXPECT_NEAR(beside_long.second, beside_both.second, 1e-6);
}

// ---- what runs ----

TEST_F(MockJob, WarmUpEvaluationAndChangeHaveTheirOwnCollectives)
{
    const mock_job_call warm_up = After(0, ncclFuncBroadcast, 1024);
    const mock_job_call evaluation = After(0, ncclFuncReduce, 2048);
    const mock_job_call changed = After(0, ncclFuncAllReduce, 4096);
    options_.step = {calls_.data(), 1, 0};
    options_.warm_up = {&warm_up, 1, 0};
    options_.n_warm_up = 2;
    options_.evaluation = {&evaluation, 1, 0};
    options_.evaluation_every = 4;
    options_.n_evaluation = 2;
    options_.changed = {&changed, 1, 0};
    options_.changed_from = 5;

    Play(7);

    std::string seen;
    for (const Done::Step &step : done_.steps)
        seen += std::to_string(step.step) + (step.is_evaluation ? "e" : "-") +
                kColls[step.runs[0].call->coll] + " ";
    EXPECT_EQ("0-broadcast 1-broadcast 2-allgather 3-allgather 4ereduce "
              "4ereduce 4-allgather 5-allreduce 6-allreduce ",
              seen);
}

TEST_F(MockJob, ReplacedChoiceIsTimedInstead)
{
    options_.replace = [](void *, const mock_call *, mock_run *run) {
        run->proto = NCCL_PROTO_SIMPLE;
    };
    Play(1);

    EXPECT_EQ(NCCL_PROTO_SIMPLE, done_.steps[0].runs[0].run.proto);
}

TEST_F(MockJob, RewardsAreWrittenByOneRankInTheSeedsFormat)
{
    Folder folder;
    const std::string path = folder.Path() + "/rewards.log";
    options_.reward_file = path.c_str();

    Play(2).reset();

    std::ifstream in(path);
    Lines want, got;
    for (const Done::Step &step : done_.steps)
        for (const mock_job_run &run : step.runs) {
            char line[128];
            std::snprintf(line, sizeof(line), "%s,4194304,1,4,%.6f",
                          kColls[run.call->coll], run.us / 1000);
            want.push_back(line);
        }
    for (std::string line; std::getline(in, line);)
        got.push_back(line);
    EXPECT_EQ(want, got);
}

TEST_F(MockJob, RewardFileThatCannotBeOpenedIsAnError)
{
    mock_job *job = nullptr;
    options_.reward_file = "/nowhere/rewards.log";
    nccl_ = MakeNccl({});

    EXPECT_EQ(ncclSystemError,
              mock_job_create(nccl_.get(), machine_.get(), &options_, &job));
    EXPECT_STREQ("/nowhere/rewards.log: No such file or directory",
                 mock_last_error());
    EXPECT_EQ(nullptr, job);
}

// ---- what tuners see ----

struct Seen {
    std::vector<double> us; // of this thread's clock, at each question
    int n_inits;
    int odd_rank_at; // question from which one rank decides otherwise; 0: never
    intptr_t odd_rank;
} seen;

double Clock()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (static_cast<double>(now.tv_sec) - 1.7e9) * 1e6 +
           static_cast<double>(now.tv_nsec) / 1000;
}

mock_nccl_options Seeing()
{
    seen = {};
    on_init = [](const Joined &joined) {
        *joined.context =
            reinterpret_cast<void *>(static_cast<intptr_t>(seen.n_inits++));
        return ncclSuccess;
    };
    on_ask = [](const Asked &asked) {
        seen.us.push_back(Clock());
        if (seen.odd_rank_at != 0 &&
            asked.context == reinterpret_cast<void *>(seen.odd_rank) &&
            static_cast<int>(seen.us.size()) > seen.odd_rank_at)
            asked.table[NCCL_ALGO_RING][NCCL_PROTO_LL] = 0;
        return ncclSuccess;
    };
    on_finalize = [](void *) {
        seen.us.push_back(Clock());
        return ncclSuccess;
    };
    return WithScript();
}

TEST_F(MockJob, ClocksShowTheJobsTime)
{
    Play(2, Seeing()).reset();

    ASSERT_EQ(2u * 2 * 4 + 4, seen.us.size());
    for (size_t i = 0; i < 16; i++) {
        double begin = i < 8 ? 0 : done_.steps[0].us;
        EXPECT_NEAR(begin + 10 * static_cast<double>(i / 4 % 2 + 1), seen.us[i],
                    0.3)
            << i;
    }
    EXPECT_NEAR(done_.steps[0].us + done_.steps[1].us, seen.us.back(), 0.3);
    mock_job_destroy(nullptr);
}

TEST_F(MockJob, HostWaitsForTheGpusInTheEnd)
{
    options_.host = {1024, 1, 10, 0};
    Play(5, Seeing()).reset();

    double end = 0;
    for (double us : done_.Times())
        end += us;
    for (size_t i = seen.us.size() - 4; i < seen.us.size(); i++)
        EXPECT_NEAR(end, seen.us[i], 0.3);
}

TEST_F(MockJob, OrderOfTheRanksIsDrawnForEachCall)
{
    static std::string order;
    mock_nccl_options nccl = Seeing();
    order.clear();
    on_ask = [](const Asked &asked) {
        order += std::to_string(reinterpret_cast<intptr_t>(asked.context));
        if (order.size() % 5 == 4)
            order += " ";
        return ncclSuccess;
    };

    Play(5, nccl);

    EXPECT_EQ("3012 0123 1230 1230 3012 2301 3012 3012 1230 1230 ", order);
}

TEST_F(MockJob, FailureNamesStepAndRank)
{
    const struct {
        mock_layout layout;
        bool captured;
        const char *expected;
    } cases[] = {
        {MOCK_ONE_THREAD, false,
         "step 2, rank 3: tree/ll was chosen for reducescatter"},
        {MOCK_THREADS, false,
         "step 2, rank 3: tree/ll was chosen for reducescatter"},
        {MOCK_ONE_THREAD, true,
         "step 0, rank 3: tree/ll was chosen for reducescatter"},
    };

    for (const auto &c : cases) {
        static thread_local int my_rank;
        static int fails_at;
        fails_at = c.captured ? 1 : 5;
        options_.layout = c.layout;
        options_.captured = c.captured;
        mock_nccl_options nccl = Seeing();
        on_init = [](const Joined &joined) {
            *joined.context = new std::pair<int, int>(my_rank, 0);
            return ncclSuccess;
        };
        options_.before_init = [](void *, int rank) { my_rank = rank; };
        on_finalize = [](void *context) {
            delete static_cast<std::pair<int, int> *>(context);
            return ncclSuccess;
        };
        on_ask = [](const Asked &asked) {
            auto *rank = static_cast<std::pair<int, int> *>(asked.context);
            if (rank->second++ == fails_at && rank->first == 3)
                asked.table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 0;
            return ncclSuccess;
        };

        Play(4, nccl).reset();

        EXPECT_EQ(ncclInternalError, rc_);
        EXPECT_THAT(mock_last_error(), testing::StartsWith(c.expected));
    }
}

TEST_F(MockJob, InitsAreOfEachRankAtTheBegin)
{
    for (mock_layout layout : {MOCK_ONE_THREAD, MOCK_THREADS}) {
        static std::mutex lock;
        static std::vector<std::string> calls;
        static thread_local int my_rank;
        calls.clear();
        options_.layout = layout;
        options_.before_init = [](void *user, int rank) {
            EXPECT_NE(nullptr, static_cast<Done *>(user));
            my_rank = rank;
        };
        mock_nccl_options nccl = Seeing();
        on_ask = nullptr; // whose answers are for one thread
        on_init = [](const Joined &joined) {
            const std::lock_guard<std::mutex> guard(lock);
            calls.push_back(std::to_string(my_rank) + " of " +
                            std::to_string(joined.n_ranks) + " in " +
                            std::to_string(joined.comm_id) + " at " +
                            std::to_string(Clock()));
            return ncclSuccess;
        };

        Play(1, nccl).reset();

        if (layout == MOCK_THREADS)
            std::sort(calls.begin(), calls.end());
        EXPECT_THAT(calls, testing::ElementsAre("0 of 4 in 5 at 0.000000",
                                                "1 of 4 in 5 at 0.000000",
                                                "2 of 4 in 5 at 0.000000",
                                                "3 of 4 in 5 at 0.000000"));
    }
}

TEST_F(MockJob, RankWhoseInitFailsIsNamedAndAllAreFinalized)
{
    for (mock_layout layout : {MOCK_ONE_THREAD, MOCK_THREADS}) {
        static thread_local int my_rank;
        static std::atomic<int> n_inits, n_finalized;
        n_inits = n_finalized = 0;
        options_.layout = layout;
        options_.before_init = [](void *, int rank) { my_rank = rank; };
        on_init = [](const Joined &) {
            n_inits++;
            return my_rank % 2 == 1 ? ncclSystemError : ncclSuccess;
        };
        on_finalize = [](void *) {
            n_finalized++;
            return ncclInternalError;
        };
        nccl_ = MakeNccl(WithScript());
        mock_job *job = nullptr;

        EXPECT_EQ(ncclSystemError, mock_job_create(nccl_.get(), machine_.get(),
                                                   &options_, &job));

        EXPECT_STREQ("step 0, rank 1: tuner 'scripted': init returned 2 "
                     "(ncclSystemError)",
                     mock_last_error());
        EXPECT_EQ(nullptr, job);
        EXPECT_EQ(layout == MOCK_THREADS ? 4 : 2, n_inits);
        EXPECT_EQ(n_inits, n_finalized);
        EXPECT_GT(std::fabs(Clock()), 1e9); // the machine's
        on_init = nullptr;
        on_finalize = nullptr;
    }
}

TEST_F(MockJob, ClockIsTheMachinesAgainAfterwards)
{
    timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    Play(1).reset();
    clock_gettime(CLOCK_MONOTONIC, &after);

    EXPECT_LT(after.tv_sec - before.tv_sec, 100);
    EXPECT_GE(after.tv_sec, before.tv_sec);
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

} // namespace
