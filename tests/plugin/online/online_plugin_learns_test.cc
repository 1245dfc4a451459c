// The learning plugin in training jobs on recorded machines, in virtual time:
// it finds what is better, whoever tells the times.
#include <gmock/gmock.h>

#include <set>

#include "plugin/online/online_plugin.h"
#include "support/with_param.h"

namespace
{

using namespace online_plugin;
using testing::Contains;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class OnlineLearns : public OnlinePlugin
{
  protected:
    // Mean time of a step's collectives, of steps from 'first' to 'last'.
    double Mean(size_t first, size_t last) const
    {
        double sum = 0;
        for (size_t s = first; s < last; s++)
            sum += us_[s];
        return sum / static_cast<double>(last - first);
    }

    void Play(size_t n_steps, const Nccl &nccl)
    {
        mock_job *job = nullptr;
        us_.clear();
        options_.comm_id = mock_new_comm_id();
        options_.step = {calls_.data(), calls_.size(), 20};
        options_.user = &us_;
        options_.done = [](void *user, const mock_job_step *step) {
            double us = 0;
            for (size_t i = 0; i < step->n; i++)
                us += step->runs[i].us;
            if (!step->is_evaluation)
                static_cast<std::vector<double> *>(user)->push_back(us);
        };
        ASSERT_EQ(ncclSuccess,
                  mock_job_create(nccl.get(), machine_.get(), &options_, &job))
            << mock_last_error();
        Job owner(job);
        ASSERT_EQ(ncclSuccess, mock_job_play(job, n_steps))
            << mock_last_error();
    }

    // NCCL alone: all-gathers of 3.9 MB gain a third by another protocol.
    std::vector<mock_job_call> calls_{After(20, ncclFuncAllGather, 3905536),
                                      After(20, ncclFuncAllReduce, 256 << 10)};
    mock_job_options options_{};
    std::vector<double> us_;
};

struct How {
    const char *name;
    const char *strategy;
    const char *objective;
    bool with_profiler;
    size_t n_steps;
};
void PrintTo(const How &how, std::ostream *out)
{
    *out << how.name;
}

using OnlineLearnsBy = WithParam<OnlineLearns, How>;

TEST_P(OnlineLearnsBy, FindsTheFasterArmAndSavesIt)
{
    const std::string rewards = (dir_ / "rewards.log").string();
    Set("STEPTUNE_STRATEGY", GetParam().strategy);
    Set("STEPTUNE_OBJECTIVE", GetParam().objective);
    Set("STEPTUNE_ARMS", "ring/ll128,ring/simple,tree/simple");
    Set("NCCL_TUNER_EPS", "0.02");
    Set("STEPTUNE_JOURNAL", Journal());
    if (!GetParam().with_profiler) {
        Set("NCCL_TUNER_REWARD_FILE", rewards);
        options_.reward_file = rewards.c_str();
    }
    options_.compute_noise = 0.02;
    options_.jitter_us = 5;

    Play(GetParam().n_steps,
         StartOnline("2.28", GetParam().with_profiler ? STP_PLUGIN : nullptr));

    EXPECT_GT(0.9 * Mean(0, 6), Mean(us_.size() - 100, us_.size()));
    EXPECT_THAT(LinesOf(Learned()), Contains(HasSubstr("allgather,")));
    EXPECT_THAT(warnings_, IsEmpty());
    const bool is_file = !GetParam().with_profiler;
    EXPECT_THAT(
        LinesOf(Journal()),
        Contains(ContainsRegex(is_file ? ",reward,.*,ms$" : ",block,.*,us$")));
}

INSTANTIATE_TEST_SUITE_P(
    All, OnlineLearnsBy,
    testing::Values(How{"HalvingByGpu", "halving", "gpu", true, 3000},
                    How{"HalvingByAuto", "halving", "auto", true, 3000},
                    How{"EpsilonByFile", "epsilon", "file", false, 500},
                    How{"EpsilonByAuto", "epsilon", "auto", false, 500}),
    CaseName());

TEST_F(OnlineLearns, ComparesWindowsOfWholeSteps)
{
    Play(3000, StartOnline("2.28", STP_PLUGIN));

    EXPECT_EQ(1u, Count(infos_, "compares windows of "));
    EXPECT_LE(1u, Count(infos_, "settled after"));
    EXPECT_LE(1u, Count(infos_, "ring/ll128, steps are 1."));
}

// The plugin cannot see what sums compute, so that NCCL's own choice of them
// stays: whichever way it is told, and however much it explores.
TEST_F(OnlineLearns, WhereBitsAreToStayNothingIsTriedForSums)
{
    for (const bool by_policy : {false, true})
        for (const bool explores : {false, true}) {
            SCOPED_TRACE(std::to_string(by_policy) + std::to_string(explores));
            const std::string rewards = (dir_ / "rewards.log").string();
            Forget();
            SetUp();
            fs::remove(Journal());
            Set("STEPTUNE_JOURNAL", Journal());
            options_ = {};
            if (by_policy)
                Policy("# bits: same\nreduce,0,1,ring,ll128,-1,-1,-1\n");
            else
                Set("STEPTUNE_BITS", "same");
            if (explores) {
                ForceExploration();
                Set("NCCL_TUNER_REWARD_FILE", rewards);
                options_.reward_file = rewards.c_str();
            } else {
                Set("STEPTUNE_THOROUGH", "1");
            }

            Play(explores ? 300 : 2000,
                 StartOnline("2.28", explores ? nullptr : STP_PLUGIN));

            const std::vector<std::string> lines = LinesOf(Journal());
            const std::string tried = "(trial|incumbent|block|reward),[0-9]+,";
            const std::string pair = ",[0-9]+,[0-9]+,(ring|tree),";
            EXPECT_THAT(lines,
                        Contains(ContainsRegex(tried + "allgather" + pair)));
            EXPECT_THAT(lines, Not(Contains(
                                   ContainsRegex(tried + "allreduce" + pair))));
            EXPECT_THAT(LinesOf(Learned()), Contains("# bits: same"));
            EXPECT_THAT(LinesOf(Learned()),
                        Not(Contains(HasSubstr("allreduce,"))));
        }
}

// A policy's own answer is what runs before: no trial of it, and of all else.
TEST_F(OnlineLearns, WhatThePolicySaysIsNotTried)
{
    Policy("allgather,0,inf,ring,ll128,-1,-1,-1\n");
    Set("STEPTUNE_OBJECTIVE", "gpu");
    Set("STEPTUNE_THOROUGH", "1");
    Set("STEPTUNE_JOURNAL", Journal());

    Play(3000, StartOnline("2.28", STP_PLUGIN));

    const std::vector<std::string> lines = LinesOf(Journal());
    const std::string tried = "trial,[0-9]+,allgather,[0-9]+,[0-9]+,ring,";
    EXPECT_THAT(lines, Contains(ContainsRegex(tried + "simple,0,")));
    EXPECT_THAT(lines, Not(Contains(ContainsRegex(tried + "ll128,0,"))));
}

TEST_F(OnlineLearns, AJobThatIsTooNoisyKeepsNcclsChoice)
{
    calls_[0].compute_us = calls_[1].compute_us = 2000;
    options_.compute_noise = 0.2;
    Set("STEPTUNE_BUDGET", "1");

    Play(15000, StartOnline("2.28", STP_PLUGIN));

    EXPECT_THAT(LinesOf(Learned()), Not(Contains(HasSubstr("allgather,"))));
}

TEST_F(OnlineLearns, LostEventsAreNoHindrance)
{
    Set("STEPTUNE_OBJECTIVE", "gpu");
    options_.lost_events = 0.1;
    options_.lost_channels = 0.002;

    Play(5000, StartOnline("2.28", STP_PLUGIN));

    EXPECT_GT(0.9 * Mean(0, 6), Mean(4900, 5000));
}

TEST_F(OnlineLearns, EvaluationsAndWarmUpsAreNoStepsOfTheJob)
{
    std::vector<mock_job_call> evaluation{After(100, ncclFuncAllReduce, 8),
                                          After(50, ncclFuncAllGather, 3905536),
                                          After(10, ncclFuncBroadcast, 4096)};
    std::vector<mock_job_call> warm_up{After(9000, ncclFuncAllReduce, 64)};
    options_.warm_up = {warm_up.data(), warm_up.size(), 10};
    options_.n_warm_up = 20;
    options_.evaluation = {evaluation.data(), evaluation.size(), 20};
    options_.evaluation_every = 700; // too rarely to be part of the step
    options_.n_evaluation = 10;

    Play(4000, StartOnline("2.28", STP_PLUGIN));

    EXPECT_LE(1u, Count(infos_, "compares windows of "));
    EXPECT_GT(0.9 * Mean(20, 26), Mean(3900, 4000));
}

// ---- ranks ----

// Which thread is faster decides when a trial begins, but not on whom: NCCL in
// mock fails if ranks disagree.
TEST_F(OnlineLearns, RanksAtTheirOwnPaceTryTheSame)
{
    Set("STEPTUNE_JOURNAL", Journal());
    Set("STEPTUNE_BUDGET", "1");
    options_.layout = MOCK_THREADS;
    options_.compute_noise = .005;
    calls_.push_back(After(20, ncclFuncReduceScatter, 3905536));
    for (uint64_t seed = 1; seed <= 4; seed++) {
        SCOPED_TRACE(seed);
        options_.seed = seed;
        Play(1500, StartOnline("2.28", STP_PLUGIN));
    }

    std::set<std::string> begun; // times at which trials did, and their calls
    size_t n_trials = 0;
    for (const std::string &line : LinesOf(Journal()))
        if (line.find(",trial,") != std::string::npos) {
            n_trials++;
            begun.insert(
                line.substr(0, line.find(',', line.find(",trial,") + 7)));
        }
    EXPECT_LT(0u, begun.size());
    EXPECT_LT(begun.size(), n_trials) << "some share windows";
}

TEST_F(OnlineLearns, AllThatWasLearnedTakesTurnsOnAllRanks)
{
    Set("STEPTUNE_JOURNAL", Journal());
    Set("STEPTUNE_BUDGET", "1");
    Play(3000, StartOnline("2.28", STP_PLUGIN));

    EXPECT_EQ(8u, Count(LinesOf(Journal()), ",set,"));
    EXPECT_EQ(1u, Count(LinesOf(Journal()), ",confirmed,"));
    EXPECT_EQ(1u, Count(infos_, "confirmed in 8 blocks of windows: with all "
                                "that was learned steps are 1."));
}

TEST_F(OnlineLearns, AllThatWasLearnedIsComparedWithThePolicyWhereThereIsOne)
{
    Policy("broadcast,0,inf,ring,ll,-1,-1,-1\n"); // which decides nothing here
    Set("STEPTUNE_BUDGET", "1");
    Play(3000, StartOnline("2.28", STP_PLUGIN));

    EXPECT_EQ(1u, Count(infos_, "x as fast as with the policy alone ("));
    EXPECT_EQ(0u,
              Count(infos_, "x as fast as with the choice without Steptune"));
}

// An arm known from an earlier run is not tried again, unless that run had
// other messages or communicators of another shape.
TEST_F(OnlineLearns, WhatEarlierRunsKnowIsNotTried)
{
    const struct {
        const char *messages;
        bool applies;
    } cases[] = {
        {"allgather,3905536,3905536,1,4,", true},
        {"allgather,0,3905536,1,4,", true},
        {"allgather,3905536,4000000,1,4,", true},
        {"broadcast,3905536,3905536,1,4,", false},
        {"allgather,3905537,4000000,1,4,", false},
        {"allgather,0,3905535,1,4,", false},
        {"allgather,3905536,3905536,2,4,", false},
        {"allgather,3905536,3905536,1,8,", false},
    };
    Set("STEPTUNE_JOURNAL", Journal());
    Play(1500, StartOnline("2.28", STP_PLUGIN));
    const size_t n_trials = Count(LinesOf(Journal()), ",trial,");
    const size_t n_incumbents = Count(LinesOf(Journal()), ",incumbent,");
    EXPECT_LT(0u, n_incumbents);

    for (const auto &c : cases) {
        SCOPED_TRACE(c.messages);
        fs::remove(Journal());
        fs::remove(Learned());
        std::ofstream evidence(dir_ / "evidence.csv");
        evidence << "collective,min_bytes,max_bytes,nNodes,nRanks,algorithm,"
                    "protocol,channels,blocks,log_gain,log_ss\n";
        for (const char *arm :
             {"ring,ll", "ring,ll128", "tree,ll", "tree,ll128", "tree,simple",
              "ring,simple", "nvls,simple"})
            evidence << c.messages << arm << ",0,9,-0.5,0.001\n";
        evidence.close();
        Set("STEPTUNE_EVIDENCE", (dir_ / "evidence.csv").string());
        Play(1500, StartOnline("2.28", STP_PLUGIN));

        const size_t n = Count(LinesOf(Journal()), ",trial,");
        EXPECT_TRUE(c.applies ? n < n_trials : n == n_trials) << n;
        EXPECT_EQ(c.applies ? 0 : n_incumbents,
                  Count(LinesOf(Journal()), ",incumbent,"));
    }
}

TEST_F(OnlineLearns, WithoutReadableEvidenceItLearnsAndSaysSo)
{
    Set("STEPTUNE_EVIDENCE", (dir_ / "none.csv").string());
    Play(1500, StartOnline("2.28", STP_PLUGIN));

    EXPECT_EQ(1u, Count(warnings_, "nothing is known of earlier runs: " +
                                       (dir_ / "none.csv").string() +
                                       ": cannot be opened: No such file"));
    EXPECT_LE(1u, Count(infos_, ": settled after "));
}

// ---- CUDA graphs ----

// Also by a learner that asks for no times of the GPU, or no more.
TEST_F(OnlineLearns, CapturesAreSaidOnce)
{
    for (const char *objective : {"gpu", "file"}) {
        SCOPED_TRACE(objective);
        Set("STEPTUNE_OBJECTIVE", objective);
        Set("STEPTUNE_JOURNAL", Journal());
        options_.captured = true;
        infos_.clear();
        fs::remove(Journal());

        Play(200, StartOnline("2.28", STP_PLUGIN));

        EXPECT_EQ(1u, Count(infos_, "captured into CUDA graphs"));
        EXPECT_EQ(1u, Count(LinesOf(Journal()), ",graphs,"));
    }
}

// ---- repeating ----

TEST_F(OnlineLearns, TheSameJobIsTheSameStory)
{
    std::vector<std::vector<double>> runs;
    options_.compute_noise = 0.05;

    for (int seed : {3, 3, 4}) {
        options_.seed = static_cast<uint64_t>(seed);
        Play(400, StartOnline("2.28", STP_PLUGIN));
        runs.push_back(us_);
    }

    EXPECT_EQ(runs[0], runs[1]);
    EXPECT_NE(runs[0], runs[2]);
}

} // namespace
