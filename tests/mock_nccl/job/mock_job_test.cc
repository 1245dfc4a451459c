// A training job in virtual time: its timeline, and the plugins' view of it.
#include <gmock/gmock.h>

#include <cmath>
#include <ctime>
#include <functional>
#include <numeric>

#include "mock_nccl/job/mock_jobs.h"
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
    options_.drift = {3, arm.algo, arm.proto, 2};
    Play(6);

    for (size_t s = 0; s < 6; s++)
        EXPECT_DOUBLE_EQ(before.steps[s].runs[0].us * (s < 3 ? 1 : 2),
                         done_.steps[s].runs[0].us)
            << s;
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
