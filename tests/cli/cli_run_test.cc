// steptune run: jobs with the plugin, and what is told of them.
#include <csignal>
#include <fstream>

#include "support/cli_jobs.h"

namespace
{

using namespace cli;
using namespace testing;

constexpr const char *kPolicy = "# two rules\n"
                                "allreduce,0,65535,tree,ll,-1,-1,-1\n"
                                "allreduce,1048576,inf,ring,simple,8,-1,-1\n";

class Run : public CliOfJobs
{
  protected:
    void SetUp() override
    {
        CliOfJobs::SetUp();
        Write("steptune.conf", kPolicy);
    }
    Outcome Job(const std::string &end_and_calls,
                const std::string &options = "") const
    {
        return Cli::Run("run " + options + " -- " + MockJob(end_and_calls));
    }
};

TEST_F(Run, TellsWhatWasDecidedByWhichLineHowOften)
{
    Outcome o = Job("finalize 3x4096 2x5000 7x262144 1x2097152");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("", o.out);
    EXPECT_THAT(
        o.err,
        AllOf(HasSubstr("steptune run: The plugin served 1 communicator in 1 "
                        "process.\n"),
              HasSubstr("2 of 2 rules apply"),
              ContainsRegex("4 +allreduce +4096 +5000 +5 +tree/ll +"
                            "steptune.conf:2\n"),
              ContainsRegex("4 +allreduce +262144 +262144 +7 +NCCL's own +-"),
              ContainsRegex("4 +allreduce +2097152 +2097152 +1 +"
                            "ring/simple/8 +steptune.conf:3\n")));
    EXPECT_THAT(Files("tmp"), IsEmpty());
}

struct EndCase {
    const char *end;
    int status;
};

// As PyTorch does, few jobs destroy their communicators.
TEST_F(Run, TellsItHoweverTheJobEnds)
{
    for (const EndCase &c : {EndCase{"0", 0}, {"7", 7}, {"crash", 128 + 6}}) {
        Outcome o = Job(std::string(c.end) + " 3x4096");

        EXPECT_EQ(c.status, o.status) << c.end;
        EXPECT_THAT(o.err, ContainsRegex("4096 +4096 +3 +tree/ll")) << c.end;
        EXPECT_THAT(Files("tmp"), IsEmpty());
    }
}

TEST_F(Run, TellsItAsJson)
{
    Outcome o = Job("finalize 3x4096 1x262144", "--json");

    ASSERT_EQ(0, o.status);
    const Json json = Parse(o.err);
    ASSERT_NE(nullptr, json) << o.err;
    const cJSON *rows = cJSON_GetObjectItem(json.get(), "decisions");
    ASSERT_EQ(2, cJSON_GetArraySize(rows));
    const cJSON *row = cJSON_GetArrayItem(rows, 0);
    EXPECT_EQ(3, Number(row, "calls"));
    EXPECT_EQ(2, Number(row, "line"));
    EXPECT_EQ("tree", String(cJSON_GetObjectItem(row, "choice"), "algorithm"));
    EXPECT_TRUE(cJSON_IsNull(
        cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 1), "choice")));
}

TEST_F(Run, SaysNothingIfThatIsAsked)
{
    Outcome o = Job("finalize 3x4096", "-q");

    EXPECT_EQ(0, o.status);
    EXPECT_EQ("", o.err);
}

TEST_F(Run, LeavesTheRestOfTheJobAlone)
{
    Set("NCCL_ALGO", "tree");
    Outcome o = Cli::Run("run -- sh -c 'echo $NCCL_ALGO; cat; echo end >&2; "
                         "basename $NCCL_TUNER_PLUGIN; "
                         "basename $NCCL_TUNER_CONFIG_FILE'");

    EXPECT_EQ(0, o.status);
    EXPECT_EQ("tree\nlibnccl-tuner-steptune.so\nsteptune.conf\n", o.out);
    EXPECT_THAT(o.err, AllOf(HasSubstr("end\n"),
                             HasSubstr("The plugin was not loaded")));
}

TEST_F(Run, SaysWhyThePluginSteppedAside)
{
    Outcome o = Cli::Run("run -- sh -c 'echo bad > steptune.conf; " +
                         MockJob("0 2x4096") + "'");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.err, AllOf(HasSubstr("Stepped aside, NCCL tuned alone: "),
                             HasSubstr("steptune.conf:1"),
                             ContainsRegex("4096 +4096 +2 +NCCL's own")));
}

TEST_F(Run, ReplacesAnotherPluginAndSaysSo)
{
    Set("NCCL_TUNER_PLUGIN", "other");
    Outcome o = Job("finalize 1x4096");

    EXPECT_THAT(o.err, AllOf(HasSubstr("NCCL_TUNER_PLUGIN=other is replaced"),
                             HasSubstr("tree/ll")));
}

TEST_F(Run, TakesThePolicyFromWhereJobsHaveIt)
{
    Write("other.conf", "allreduce,0,inf,ring,ll,-1,-1,-1\n");

    EXPECT_THAT(Job("0 1x4096", "--policy other.conf").err,
                ContainsRegex("ring/ll +other.conf:1"));
    Set("NCCL_TUNER_CONFIG_FILE", "other.conf");
    EXPECT_THAT(Job("0 1x4096").err, ContainsRegex("ring/ll +other.conf:1"));
}

TEST_F(Run, SaysWhatIsWrong)
{
    Write("bad.conf", "allreduce,0,inf,rong,ll,-1,-1,-1\n");
    EXPECT_THAT(Cli::Run("run -- true").err,
                StartsWith("steptune run: The plugin was not"));
    fs::remove(dir_ / "steptune.conf");
    EXPECT_EQ("steptune run: no policy, expected --policy FILE, "
              "NCCL_TUNER_CONFIG_FILE or a steptune.conf here\n",
              Cli::Run("run -- true").err);
    Write("steptune.conf", kPolicy);
    ExpectRefusals(
        "run ", {
                    {"", 2, "no command, expected one"},
                    {"--policy none.conf -- true", 1, "none.conf: "},
                    {"--policy bad.conf -- true", 1, "bad.conf:1:17"},
                    {"-- ./nothing-there", 127, "cannot run './nothing-there'"},
                    {"-- ./steptune.conf", 126, "cannot run './steptune.conf'"},
                    {"--fast -- true", 2, "--fast"},
                    {"--record-trace none/t.csv -- true", 2,
                     "--record-trace 'none/t.csv' has no place"},
                    {"--record-trace /dev/null -- true", 1,
                     "/dev/null is a device or a pipe, expected a file"},
                });
}

// Of all ranks, in virtual time.
TEST_F(Run, RecordsATraceWhateverTunes)
{
    const struct {
        const char *name;
        const char *options;
        const char *err; // a part
    } cases[] = {
        {"policy", "", "ring/simple/8 +steptune.conf:3\n"},
        {"learning", "--online",
         "Plugin: learns, beginning with .*/steptune.conf"},
        {"nothing", "",
         "^steptune run: trace.csv has 600 collectives of 1 "
         "communicator\n$"},
    };
    Set("STEPTUNE_INLINE", "1");
    Write("trace.csv", "an old one");

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        if (c.name == std::string("nothing"))
            fs::remove(dir_ / "steptune.conf");
        Outcome o = Job("finalize @200 2xg4194304 1x1048576",
                        std::string("--record-trace trace.csv ") + c.options);

        EXPECT_EQ(0, o.status);
        EXPECT_THAT(o.err, ContainsRegex(c.err));
        EXPECT_THAT(o.err, HasSubstr("trace.csv has 600 collectives of 1 "
                                     "communicator\n"));
        EXPECT_EQ(601u, Count(Read("trace.csv"), "\n"));
        EXPECT_THAT(Read("trace.csv"), StartsWith("t_ns,process,"));
    }
    Write("any.conf", kPolicy);
    EXPECT_EQ(0, Cli::Run("replay --trace trace.csv --policy any.conf").status);
    Outcome played =
        Cli::Run("iterate --on h200x4 --no-plots --arms auto,ll128 "
                 "--trace trace.csv");
    EXPECT_EQ(0, played.status) << played.err;
    EXPECT_THAT(
        played.out,
        HasSubstr("step 200, of 200 that the trace has: 3 collectives, "));
    Outcome none = Cli::Run("run --record-trace trace.csv -- true");
    EXPECT_EQ(0, none.status);
    EXPECT_EQ("steptune run: no collective is in trace.csv, expected a job of "
              "several ranks with NCCL 2.27 or later\n",
              none.err);
}

TEST_F(Run, PassesSignalsOnToTheJob)
{
    pid_t child = Start("run -- " + MockJob("wait 3x4096"));
    for (int i = 0; i < 3000 && Read("out") != "ready\n"; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));

    kill(child, SIGTERM); // not its group

    EXPECT_EQ(40 + SIGTERM, Wait(child));
    EXPECT_THAT(Read("err"), ContainsRegex("4096 +4096 +3 +tree/ll"));
}

} // namespace
