// steptune tune -- COMMAND: the user's job is the benchmark.
#include "support/cli_jobs.h"

namespace
{

using namespace cli;
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char *kSteps = "@3000 2xg4194304 1x1048576";

class TuneJob : public CliOfVirtualJobs
{
  protected:
    static std::string Job(const std::string &end = "finalize",
                           const std::string &steps = kSteps)
    {
        return "-- " + MockJob(end + " " + steps);
    }
};

TEST_F(TuneJob, WritesThePolicyOfTheJobWithItsEvidence)
{
    Outcome o = Run("tune " + Job());

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("", o.err);
    EXPECT_THAT(
        o.out,
        AllOf(StartsWith("The job ran for "),
              ContainsRegex("\n    4  allgather      4194304   5242879 +[0-9]+ "
                            "+[0-9]+  ring/ll128 +1\\.[0-9]+x \\(1\\.[0-9]+ to "
                            "1\\.[0-9]+\\)  settled\n"),
              ContainsRegex("\nThe step is 1\\.0[0-9]+x as fast as with NCCL "
                            "alone \\(1\\.0[0-9]+ to 1\\.0[0-9]+\\): [0-9]+ "
                            "blocks of windows of [0-9.]+ s measured "
                            "in the job\\.\n"),
              HasSubstr("\nWrote steptune.conf (1 rule).\n"),
              HasSubstr("steptune run --policy steptune.conf -- /")));
    EXPECT_THAT(Read("steptune.conf"),
                AllOf(StartsWith("# steptune tune -- /"),
                      ContainsRegex("\n# 1\\.[0-9]+x .* blocks measured\n"
                                    "allgather,4194304,5242879,ring,ll128,-1,"
                                    "1,4\n")));
    EXPECT_EQ(0, Run("check steptune.conf").status);
    EXPECT_THAT(Files(), ElementsAre("steptune.conf",
                                     "steptune.conf.journal.csv", "tmp"));
    EXPECT_THAT(Files("tmp"), IsEmpty());
}

// What the first run knows is not tried again, and what is measured adds up.
TEST_F(TuneJob, AddsToEarlierRunsIfItIsTo)
{
    const auto blocks = [](const Outcome &o) {
        const Json json = Parse(o.out);
        EXPECT_NE(nullptr, json) << o.out << o.err;
        return Number(
            cJSON_GetArrayItem(cJSON_GetObjectItem(json.get(), "together"), 0),
            "blocks");
    };
    Outcome first = Run("tune --json " + Job());
    const std::string journal = Read("steptune.conf.journal.csv");
    Outcome second = Run("tune --json --resume " + Job());

    EXPECT_EQ(0, second.status) << second.err;
    EXPECT_THAT(second.err, HasSubstr("is kept as steptune.conf.~1~"));
    EXPECT_LT(1.5 * blocks(first), blocks(second));
    const std::string all = Read("steptune.conf.journal.csv");
    EXPECT_THAT(all, StartsWith(journal));
    EXPECT_LT(Count(all, ",trial,"), 2 * Count(journal, ",trial,"));

    Outcome fresh = Run("tune --json " + Job());
    EXPECT_EQ(blocks(first), blocks(fresh));
    EXPECT_EQ(Count(journal, "\n"),
              Count(Read("steptune.conf.journal.csv"), "\n"));
}

TEST_F(TuneJob, TellsItAsJson)
{
    Outcome o = Run("tune --json -o p.conf " + Job());
    const Json json = Parse(o.out);

    ASSERT_NE(nullptr, json) << o.out;
    EXPECT_EQ("p.conf", String(json.get(), "policy"));
    EXPECT_EQ(0, Number(json.get(), "status"));
    const cJSON *rule =
        cJSON_GetArrayItem(cJSON_GetObjectItem(json.get(), "rules"), 0);
    EXPECT_EQ("allgather", String(rule, "collective"));
    EXPECT_EQ("ll128", String(cJSON_GetObjectItem(rule, "choice"), "protocol"));
    EXPECT_LT(1, Number(cJSON_GetObjectItem(rule, "step"), "gain_low"));
    EXPECT_EQ(2,
              cJSON_GetArraySize(cJSON_GetObjectItem(json.get(), "messages")));
}

// ---- how jobs end ----

TEST_F(TuneJob, StopsTheJobWhenItsTimeIsOver)
{
    Outcome o = Run("tune --for 3s " + Job("wait"));

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, AllOf(HasSubstr(" s, until --for ended it.\n"),
                             HasSubstr("Wrote steptune.conf (")));
}

TEST_F(TuneJob, KeepsWhatAJobThatFailedFoundOut)
{
    Outcome o = Run("tune " + Job("crash"));

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.out, AllOf(HasSubstr(" s and ended with status 134.\n"),
                             HasSubstr("Wrote steptune.conf (1 rule).")));
    EXPECT_THAT(o.err, HasSubstr("the job failed with status 134\n"));
}

struct NothingCase {
    const char *name;
    std::string command;
    int status;
    const char *why;
};

TEST_F(TuneJob, SaysWhyNothingWasFoundOutAndLeavesThePolicyAlone)
{
    const NothingCase cases[] = {
        {"no NCCL", "-- true", 1,
         "NCCL did not load the plugin: the job made no communicator"},
        {"too short", Job("finalize", "@9 1x4096"), 1,
         "the job ended before anything was compared: let it run longer"},
        {"no calls", Job("finalize", "@0 1x4096"), 1,
         "the job made no collective on a communicator whose ranks can learn"},
        {"no command", "-- ./none", 127, "cannot run './none'"},
    };

    Write("steptune.conf", "allreduce,0,1,ring,ll,-1,-1,-1\n");
    for (const NothingCase &c : cases) {
        Outcome o = Run("tune " + c.command);

        EXPECT_EQ(c.status, o.status) << c.name;
        EXPECT_EQ("", o.out) << c.name;
        EXPECT_THAT(o.err, HasSubstr(c.why)) << c.name;
        EXPECT_EQ("allreduce,0,1,ring,ll,-1,-1,-1\n", Read("steptune.conf"))
            << c.name;
    }
    EXPECT_THAT(Files("tmp"), IsEmpty());
}

// A policy of the environment is not what the job is to be tuned against.
TEST_F(TuneJob, ComparesWithNcclWhateverPolicyIsThere)
{
    Write("nccl_tuner.conf", "allgather,0,inf,ring,ll128,-1,-1,-1\n");
    Set("NCCL_TUNER_CONFIG_FILE", (dir_ / "nccl_tuner.conf"));
    Set("STEPTUNE_ARMS", "tree/ll");
    Outcome o = Run("tune " + Job());

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(Read("steptune.conf"),
                HasSubstr("\nallgather,4194304,5242879,ring,ll128,-1,1,4\n"));
}

// ---- command lines ----

struct UsageCase {
    std::string arguments;
    int status;
    const char *error;
};

TEST_F(TuneJob, RefusesWhatHasNoEffect)
{
    const UsageCase cases[] = {
        {"tune --on h200x4 -- true", 2,
         "--on has no effect with a COMMAND, whose own collectives are "
         "measured"},
        {"tune --rounds 3 -- true", 2, "--rounds has no effect"},
        {"tune --for 60s --on h200x4", 2, "--for has no effect without"},
        {"tune --resume --on h200x4", 2, "--resume has no effect without"},
        {"tune --for 60 min -- true", 2, "'min', expected options only"},
        {"tune h200x4", 2, "'h200x4', expected options only"},
        {"tune --for 0s -- true", 2, "--for '0s', expected a time from 1s"},
        {"tune --for 5x -- true", 2, "--for '5x', expected a time from 1s"},
        {"tune --for 31d -- true", 2, "expected a time from 1s to 30 days"},
        {"tune --for 721h -- true", 2, "expected a time from 1s to 30 days"},
        {"tune --resume -- true", 1, "--resume: there is no /"},
        {"tune -o no/p.conf -- true", 2, "has no place"},
    };

    for (const UsageCase &c : cases) {
        Outcome o = Run(c.arguments);

        EXPECT_EQ(c.status, o.status) << c.arguments;
        EXPECT_EQ("", o.out) << c.arguments;
        EXPECT_THAT(o.err, HasSubstr(c.error)) << c.arguments;
    }
    EXPECT_THAT(Files(), ElementsAre("tmp"));
}

TEST_F(TuneJob, WaitsForNobodyElsesPolicy)
{
    HeldLock lock(dir_ / "steptune.conf.lock", "4711");

    Outcome o = Run("tune " + Job());
    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("4711"));
}

} // namespace
