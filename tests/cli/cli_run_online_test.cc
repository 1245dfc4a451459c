// steptune run --online: jobs that learn, and what is told of that.
#include <fstream>

#include "support/cli_jobs.h"

namespace
{

using namespace cli;
using namespace testing;

// An all-gather of which ring/ll128 is faster than NCCL's own choice, and an
// all-reduce of which nothing is.
constexpr const char *kLearns = "finalize @3000 2xg4194304 1x1048576";
constexpr const char *kCrashes = "crash @3000 2xg4194304 1x1048576";
constexpr const char *kCrashesSoon = "crash @900 2xg4194304 1x1048576";

class RunOnline : public CliOfVirtualJobs
{
  protected:
    void SetUp() override
    {
        CliOfVirtualJobs::SetUp();
        Set("STEPTUNE_BUDGET", "1");
    }
    Outcome Job(const std::string &end_and_steps,
                const std::string &options = "") const
    {
        return Cli::Run("run --online " + options + " -- " +
                        MockJob(end_and_steps));
    }
};

TEST_F(RunOnline, TellsWhatWasLearned)
{
    Outcome o = Job(kLearns);

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("", o.out);
    EXPECT_THAT(
        o.err,
        AllOf(StartsWith("steptune run: The plugin served 4 communicators in "
                         "1 process.\n"),
              HasSubstr("\nPlugin: learns, beginning with NCCL's own choice\n"),
              ContainsRegex("4 +allgather +4194304 +4194304 +[0-9]+ +"
                            "ring/ll128 +learning\n"),
              ContainsRegex("4 +allreduce +1048576 +1048576 +[0-9]+ +"
                            "NCCL's own +-\n"),
              Not(HasSubstr(":0"))));
    EXPECT_THAT(
        o.err,
        AllOf(ContainsRegex("\nLearning by strategy halving, objective gpu, "
                            "[0-9]+ comparisons: the learned policy is " +
                            (dir_ / "steptune.learned.conf").string() + ".\n"),
              ContainsRegex("\nWith all that was learned steps are "
                            "1\\.[0-9]+x as fast as with NCCL alone "
                            "\\(1\\.[0-9]+ to 1\\.[0-9]+; 8 blocks of "
                            "windows\\)\\.\n"),
              ContainsRegex("4 +allgather +4194304 +5242879 +[0-9]+ +[0-9]+ +"
                            "ring/ll128 +1\\.[0-9]+x \\(1\\.[0-9]+ to "
                            "1\\.[0-9]+\\) +settled\n"),
              ContainsRegex("4 +allreduce +1048576 +1310719 +[0-9]+ +[0-9]+ +"
                            "NCCL's own +- +settled\n")));
    EXPECT_THAT(Files("tmp"), IsEmpty());
}

TEST_F(RunOnline, NamesThePolicyThatStaysInForce)
{
    Write("steptune.conf", "broadcast,0,inf,tree,ll,-1,-1,-1\n");

    Outcome o = Job(kLearns);

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.err,
                ContainsRegex("4 +allreduce +1048576 +1310719 +[0-9]+ +[0-9]+ +"
                              "as in steptune.conf +- +settled\n"));
}

// Learn once, replay.
TEST_F(RunOnline, LeavesAPolicyForJobsThatDoNotLearn)
{
    ASSERT_EQ(0, Job(kLearns).status);

    EXPECT_THAT(Read("steptune.learned.conf"),
                HasSubstr("\nallgather,4194304,5242879,ring,ll128,-1,1,4,*\n"));
    EXPECT_EQ(0, Run("check steptune.learned.conf").status);
    EXPECT_THAT(Run("run --policy steptune.learned.conf -- " +
                    MockJob("finalize 3xg4194304"))
                    .err,
                ContainsRegex("4194304 +3 +ring/ll128 +"
                              "steptune.learned.conf:[0-9]+\n"));
}

TEST_F(RunOnline, TellsItAsJson)
{
    Outcome o = Job(kLearns, "--json");

    ASSERT_EQ(0, o.status);
    const Json json = Parse(o.err);
    ASSERT_NE(nullptr, json) << o.err;
    EXPECT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(json.get(), "policy")));
    const cJSON *row;
    int n_learned = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(json.get(), "decisions"))
    {
        const bool own = cJSON_IsNull(cJSON_GetObjectItem(row, "choice"));
        EXPECT_EQ(own ? "nccl" : "learning", String(row, "by"));
        EXPECT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(row, "line")));
        n_learned += !own;
    }
    EXPECT_LT(0, n_learned);

    const cJSON *learning = cJSON_GetObjectItem(json.get(), "learning");
    EXPECT_EQ("halving", String(learning, "strategy"));
    EXPECT_EQ("gpu", String(learning, "objective"));
    EXPECT_EQ((dir_ / "steptune.learned.conf").string(),
              String(learning, "learned"));
    EXPECT_LE(8, Number(learning, "comparisons"));
    const cJSON *together = cJSON_GetObjectItem(learning, "together");
    ASSERT_EQ(1, cJSON_GetArraySize(together));
    EXPECT_EQ(1, Number(cJSON_GetArrayItem(together, 0), "arms"));
    EXPECT_EQ(8, Number(cJSON_GetArrayItem(together, 0), "blocks"));
    EXPECT_LT(
        1, Number(cJSON_GetObjectItem(cJSON_GetArrayItem(together, 0), "step"),
                  "gain_low"));
    const cJSON *messages = cJSON_GetObjectItem(learning, "messages");
    ASSERT_EQ(2, cJSON_GetArraySize(messages));
    const cJSON *gather = cJSON_GetArrayItem(messages, 0);
    EXPECT_EQ("settled", String(gather, "verdict"));
    EXPECT_EQ("ll128",
              String(cJSON_GetObjectItem(gather, "choice"), "protocol"));
    EXPECT_LT(1, Number(cJSON_GetObjectItem(gather, "step"), "gain_low"));
    EXPECT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(gather, "least_gain")));
    const cJSON *own =
        cJSON_GetArrayItem(cJSON_GetObjectItem(gather, "arms"), 0);
    EXPECT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(own, "choice")));
    EXPECT_LT(40, Number(own, "mean"));
}

// ---- how jobs end ----

// What was confirmed is saved at once.
TEST_F(RunOnline, KeepsThePolicyOfAKilledJob)
{
    Outcome o = Job(kCrashes);

    EXPECT_EQ(128 + 6, o.status);
    EXPECT_THAT(o.err, HasSubstr("the learned policy is /"));
    EXPECT_THAT(Read("steptune.learned.conf"),
                HasSubstr("\nallgather,4194304,5242879,ring,ll128,-1,1,4,*\n"));
}

// Whatever was learned until then is told, but the plugin wrote no policy.
TEST_F(RunOnline, TellsItOfAKilledJob)
{
    Outcome o = Job(kCrashesSoon);

    EXPECT_EQ(128 + 6, o.status);
    EXPECT_THAT(o.err, AllOf(ContainsRegex("ring/ll128 .* settled\n"),
                             HasSubstr("the learned policy was not written")));
    EXPECT_THAT(Files(), ElementsAre("tmp"));
    EXPECT_THAT(Files("tmp"), IsEmpty());
}

// An earlier job's is not this one's.
TEST_F(RunOnline, TakesNoOldPolicyForALearnedOne)
{
    ASSERT_EQ(0, Job(kLearns).status);

    EXPECT_THAT(Job(kCrashesSoon).err,
                HasSubstr("the learned policy was not written"));
    EXPECT_THAT(Job(kLearns).err, HasSubstr("the learned policy is /"));
}

TEST_F(RunOnline, TellsOfJobsWithNothingToLearnFrom)
{
    Outcome no_calls = Job("finalize @0 1x4096");
    EXPECT_EQ(0, no_calls.status) << no_calls.err;
    EXPECT_THAT(no_calls.err,
                AllOf(HasSubstr("The plugin served 4 communicators"),
                      HasSubstr(", 0 comparisons: nothing was learned.\n"),
                      Not(HasSubstr("verdict"))));

    Outcome few = Job("finalize @9 1x4096");
    EXPECT_THAT(few.err, AllOf(HasSubstr(": nothing was learned.\n"),
                               ContainsRegex("4096 +5119 +[0-9]+ +0 +- +- +"
                                             "never explored\n")));

    Outcome no_nccl = Run("run --online -- true");
    EXPECT_EQ(0, no_nccl.status);
    EXPECT_THAT(no_nccl.err, AllOf(HasSubstr("The plugin was not loaded"),
                                   Not(HasSubstr("Learning"))));
}

TEST_F(RunOnline, SaysWhyNothingIsLearned)
{
    Set("STEPTUNE_FREEZE", "1");
    Outcome o = Job("finalize @5 1x4096");

    EXPECT_THAT(o.err, AllOf(HasSubstr("nothing is learned: STEPTUNE_FREEZE"),
                             HasSubstr(": nothing was learned.\n")));
}

TEST_F(RunOnline, SaysNothingIfThatIsAsked)
{
    Outcome o = Job(kLearns, "-q");

    EXPECT_EQ(0, o.status);
    EXPECT_EQ("", o.err);
    EXPECT_THAT(Files(), ElementsAre("steptune.learned.conf", "tmp"));
}

// ---- journals ----

std::string Times(const std::string &err)
{
    const std::string row = err.substr(err.find("5242879"));
    return row.substr(0, row.find('\n'));
}

TEST_F(RunOnline, LeavesTheUsersJournalAndTellsOfThisJobAlone)
{
    Set("STEPTUNE_JOURNAL", "mine.csv");
    Outcome first = Job(kLearns);
    const size_t once = Count(Read("mine.csv"), ",allgather,");
    fs::remove(dir_ / "steptune.learned.conf");
    Outcome second = Job(kLearns);

    EXPECT_EQ(0, second.status);
    EXPECT_EQ(Times(first.err), Times(second.err));
    EXPECT_LT(0u, once);
    EXPECT_EQ(2 * once, Count(Read("mine.csv"), ",allgather,"));
    EXPECT_EQ(1u, Count(Read("mine.csv"), "t_us,"));
}

TEST_F(RunOnline, TellsTheRestIfTheJournalCannotBeRead)
{
    Write("mine.csv", "something else\n");
    Set("STEPTUNE_JOURNAL", "mine.csv");
    Outcome o = Job("finalize @5 1x4096");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.err, AllOf(HasSubstr("steptune run: mine.csv:1: no journal"),
                             ContainsRegex("4096 +4096 +20 +NCCL's own")));
    EXPECT_THAT(Read("mine.csv"), StartsWith("something else\n"));
}

// ---- what the job is given ----

TEST_F(RunOnline, GivesTheJobWhatItIsAskedTo)
{
    Write("p.conf", "allreduce,0,65535,tree,ll,-1,-1,-1\n");
    Outcome o = Run(
        "run --online --policy p.conf --strategy epsilon --objective file -- "
        "sh -c 'cd /; basename $NCCL_TUNER_PLUGIN; basename "
        "$NCCL_PROFILER_PLUGIN; echo $STEPTUNE_STRATEGY $STEPTUNE_OBJECTIVE; "
        "echo $STEPTUNE_WARM_START; echo $STEPTUNE_LEARNED; "
        "echo $NCCL_TUNER_CONFIG_FILE; dirname $(dirname $STEPTUNE_JOURNAL)'");
    const std::string here = fs::canonical(dir_).string();

    EXPECT_EQ("libnccl-tuner-steptune-online.so\n"
              "libnccl-tuner-steptune-online.so\nepsilon file\n" +
                  here + "/p.conf\n" + here + "/steptune.learned.conf\n\n" +
                  (dir_ / "tmp").string() + "\n",
              o.out);
}

TEST_F(RunOnline, LeavesWhatTheUserHasSet)
{
    Set("STEPTUNE_LEARNED", "other.conf");
    Set("STEPTUNE_STRATEGY", "epsilon");
    Outcome o = Run("run --online -- sh -c 'echo $STEPTUNE_LEARNED "
                    "$STEPTUNE_STRATEGY $STEPTUNE_WARM_START.'");

    EXPECT_EQ("other.conf epsilon .\n", o.out);
}

// A policy of this folder, of NCCL_TUNER_CONFIG_FILE and of STEPTUNE_WARM_START
// each take the place of the one before.
TEST_F(RunOnline, BeginsWithThePolicyThatIsThere)
{
    const char *job = "finalize @5 1x4096";
    for (const char *name : {"nccl_tuner", "steptune", "named", "warm"})
        Write((std::string(name) + ".conf").c_str(),
              "allreduce,0,inf,tree,ll,-1,-1,-1\n");

    EXPECT_THAT(Job(job).err, ContainsRegex("20 +tree/ll +steptune.conf:1\n"));
    fs::remove(dir_ / "steptune.conf");
    EXPECT_THAT(Job(job).err,
                ContainsRegex("20 +tree/ll +nccl_tuner.conf:1\n"));
    Set("NCCL_TUNER_CONFIG_FILE", "named.conf");
    EXPECT_THAT(Job(job).err, ContainsRegex("20 +tree/ll +named.conf:1\n"));
    Set("STEPTUNE_WARM_START", "warm.conf");
    EXPECT_THAT(Job(job).err, ContainsRegex("20 +tree/ll +warm.conf:1\n"));
}

TEST_F(RunOnline, ReplacesAnotherProfilerAndSaysSo)
{
    Set("NCCL_PROFILER_PLUGIN", "other");
    Outcome o = Job("finalize @5 1x4096");

    EXPECT_THAT(o.err,
                HasSubstr("NCCL_PROFILER_PLUGIN=other is replaced for this "
                          "job\n"));
    EXPECT_EQ(1u, Count(o.err, "is replaced"));
}

TEST_F(RunOnline, SaysWhatIsWrong)
{
    Write("bad.conf", "allreduce,0,inf,rong,ll,-1,-1,-1\n");
    ExpectRefusals(
        "run ", {
                    {"--online --strategy greedy -- true", 2,
                     "--strategy 'greedy', expected halving or epsilon"},
                    {"--online --objective speed -- true", 2,
                     "--objective 'speed', expected auto, gpu or file"},
                    {"--strategy halving -- true", 2, "--online"},
                    {"--online --policy bad.conf -- true", 1, "bad.conf:1:17"},
                    {"--online --policy none.conf -- true", 1, "none.conf: "},
                });
    Set("STEPTUNE_TRACE_CALLS", "much");
    Outcome o = Run("run --online -- echo ran");
    EXPECT_EQ(1, o.status);
    EXPECT_EQ("", o.out);
    EXPECT_EQ(
        "steptune run: STEPTUNE_TRACE_CALLS is 'much', expected a number from "
        "0 to 1000000000\n",
        o.err);
    EXPECT_THAT(Files("tmp"), IsEmpty());
}

} // namespace
