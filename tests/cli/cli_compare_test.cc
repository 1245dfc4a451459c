// steptune compare: whole runs of a job under several arms.
#include <csignal>
#include <fstream>

#include "support/cli_jobs.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

class Compare : public CliOfVirtualJobs
{
  protected:
    void SetUp() override
    {
        CliOfVirtualJobs::SetUp();
        Write("steptune.conf", "allgather,0,inf,tree,ll,-1,-1,-1\n"
                               "allreduce,0,inf,tree,ll,-1,-1,-1\n");
    }

    // A job that is a shell script, job.sh.
    void Job(const std::string &script) const
    {
        Write("job.sh", "#!/bin/sh\n" + script);
        fs::permissions(dir_ / "job.sh", fs::perms::owner_all);
    }

    Json Arms(const Outcome &o, size_t n_arms) const
    {
        Json json = Parse(o.out);
        EXPECT_NE(nullptr, json) << o.out << o.err;
        EXPECT_EQ(static_cast<int>(n_arms),
                  cJSON_GetArraySize(cJSON_GetObjectItem(json.get(), "arms")))
            << o.out;
        return json;
    }

    static const cJSON *Arm(const Json &json, int i)
    {
        return cJSON_GetArrayItem(cJSON_GetObjectItem(json.get(), "arms"), i);
    }
};

TEST_F(Compare, AlternatesAndChangesTheEnvironmentAlone)
{
    Set("KEPT", "kept");
    Set("GONE", "here");
    Job("echo \"$A $KEPT ${GONE-gone} $1\" >>log; cat >>log; pwd >where\n");

    Outcome o = Run("compare --env A=x,y --env GONE=,unset -n 2 -- ./job.sh a");

    ASSERT_EQ(0, o.status) << o.err;
    const std::string x = "x kept  a\n", y = "y kept  a\n",
                      z = "x kept gone a\n";
    EXPECT_EQ(x + y + z + z + y + x + z + y + x + x + y + z, Read("log"));
    EXPECT_EQ(dir_.string() + "\n", Read("where"));
    EXPECT_THAT(Files("tmp"), IsEmpty());
    EXPECT_THAT(o.out, AllOf(HasSubstr("\nA=x, GONE=     4  "),
                             HasSubstr("\nA=y            4  "),
                             HasSubstr("\nGONE unset     4  ")));
}

// Each run is a tenth slower than the one before; arm 1 takes 4/5 of the time.
constexpr const char *kDrifting =
    "echo x >>log; n=$(wc -l <log); t=$((1000 + 100 * n))\n"
    "[ $A = 1 ] && t=$((t * 4 / 5))\n"
    "echo 'step 1e9 ms'; echo 'step 1e9 ms'\n"
    "for i in 1 2 3 4 5 6 7 8; do echo \"[$i] step $t ms loss: 2.$n\"; done\n";

TEST_F(Compare, FindsTheRatioOfPrintedTimesThroughDrift)
{
    Job(kDrifting);
    const std::string command =
        "compare --env A=0,1 --step-time 'step ([0-9.e]+) ms' -n 3 ";

    Outcome text = Run(command + "-- ./job.sh");
    fs::remove(dir_ / "log");
    Outcome o = Run(command + "--json -- ./job.sh");

    EXPECT_EQ(
        "arm  runs  step as printed   gain    95% interval  verdict\n"
        "A=0     6             1650      -               -  baseline\n"
        "A=1     6             1320  1.250  1.250 to 1.250  faster\n"
        "A=1 makes the step 1.250x as fast as A=0 (95 percent: 1.250 to "
        "1.250): it is faster.\n"
        "Last loss: 2.335 (2.1 to 2.8) under A=1, 2.47 (2.1 to 2.9) under A=0: "
        "a difference of -0.14, no more than between runs of the latter "
        "(0.8).\n"
        "Times of steps are those that the job prints; the first 20 percent "
        "of each run are left out.\n",
        text.out);
    EXPECT_EQ("", text.err);
    const Json json = Arms(o, 2);
    EXPECT_EQ("printed", String(json.get(), "measure"));
    EXPECT_EQ(3, Number(json.get(), "complete_rounds"));
    EXPECT_EQ("./job.sh", String(json.get(), "command"));
    EXPECT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(json.get(), "unit")));
    EXPECT_EQ("A=1", String(Arm(json, 1), "arm"));
    EXPECT_NEAR(1.25, Number(Arm(json, 1), "gain_low"), 1e-9);
    EXPECT_EQ("faster", String(Arm(json, 1), "verdict"));
    EXPECT_EQ(6, Number(Arm(json, 1), "runs"));
    EXPECT_EQ(2.8, Number(Arm(json, 1), "loss_max"));
}

TEST_F(Compare, FindsStepsByNcclsProfiler)
{
    Write("fast.conf", "allgather,0,inf,ring,ll128,-1,-1,-1\n");

    Outcome o = Run("compare --policy none,none,steptune.conf,fast.conf -n 2 "
                    "--json -- " +
                    MockJob("finalize @200 2xg4194304 1x1048576"));

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ("", o.err);
    const Json json = Arms(o, 4);
    EXPECT_EQ("gpu", String(json.get(), "measure"));
    EXPECT_EQ(3, Number(json.get(), "collectives_of_a_step"));
    EXPECT_EQ("policy none (2)", String(Arm(json, 1), "arm"));
    EXPECT_EQ("no difference", String(Arm(json, 1), "verdict"));
    EXPECT_EQ(1, Number(Arm(json, 1), "gain"));
    EXPECT_EQ("policy steptune.conf", String(Arm(json, 2), "arm"));
    EXPECT_EQ("slower", String(Arm(json, 2), "verdict"));
    EXPECT_EQ(4, Number(Arm(json, 2), "runs"));
    EXPECT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(Arm(json, 2), "loss")));
    EXPECT_EQ("faster", String(Arm(json, 3), "verdict"));
}

// As users type it first.
TEST_F(Compare, ComparesThePolicyThatIsHereWithNone)
{
    Outcome o = Run("compare -n 1 -- " + MockJob("finalize @200 1xg4194304"));

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(
        o.out,
        AllOf(ContainsRegex("\npolicy none +2 +[0-9.]+ +- +- +baseline\n"),
              ContainsRegex("\npolicy steptune.conf +2 .* one round +one "
                            "round\n"),
              HasSubstr("x in one round, which has no interval; add rounds "
                        "with --resume, or give --rounds.\n"),
              HasSubstr("\nAll collectives are alike: a step is from one to "
                        "the next, from begin to begin on the GPU")));
}

TEST_F(Compare, SaysThatLossesAreTheSame)
{
    Job("echo 'loss=7'; echo 'Loss 0.125'; echo 'loss = none'\n");

    Outcome o = Run("compare --env A=1 -n 1 -- ./job.sh");

    EXPECT_THAT(o.out, HasSubstr("\nLast loss: 0.125 in all runs of A=1 and A "
                                 "unset.\n"));

    Job("echo 'loss: 7'; echo \"loss: ${A-8}\"\n");
    o = Run("compare --env A=-nan,inf,1 -n 1 -- ./job.sh");
    EXPECT_THAT(o.err,
                AllOf(HasSubstr("run 1 (A=-nan): the last loss is no finite "
                                "number\n"),
                      HasSubstr("run 2 (A=inf): the last loss is no finite "
                                "number\n")));
    EXPECT_THAT(o.out, Not(HasSubstr("Last loss")));
}

TEST_F(Compare, ComparesWholeRunsWhereThereAreNoSteps)
{
    Outcome o = Run("compare --env A=1,2 -n 2 -- sleep 0.05");

    EXPECT_EQ(0, o.status);
    EXPECT_EQ("steptune compare: run 1 (A=1) has no times of steps: NCCL's "
              "profiler recorded no collective, which takes NCCL 2.27 or later "
              "and several ranks; times of whole runs are compared, or give "
              "--step-time\n",
              o.err);
    EXPECT_THAT(o.out, AllOf(HasSubstr("runs  run s"),
                             HasSubstr("\nTimes are of whole runs, from start "
                                       "to end, because a run has no times of "
                                       "steps.\n")));
}

struct Failing {
    const char *script;
    const char *options;
    const char *err;
};

TEST_F(Compare, EndsWithTheRunThatFails)
{
    const Failing cases[] = {
        {"echo begin; echo why >&2; [ $A = 0 ] || exit 3", "",
         "steptune compare: run 2 (A=1) ended with status 3; the last lines of "
         "its output (-o FOLDER keeps all):\n  | begin\n  | why\n"},
        {"kill -KILL $$", "",
         "steptune compare: run 1 (A=0) was ended by signal 9 (Killed); the "
         "last lines of its output (-o FOLDER keeps all):\n"},
        {"echo step 5 s", "--step-time 'step ([0-9]+) ms'",
         "steptune compare: run 1 (A=0) printed nothing that --step-time "
         "matches; the last lines of its output (-o FOLDER keeps all):\n  | "
         "step 5 s\n"},
        {"echo step 0 ms", "--step-time 'step ([0-9]+) ms'",
         "steptune compare: run 1 (A=0) printed times of steps that are not "
         "above 0; the last lines of its output (-o FOLDER keeps all):\n  | "
         "step 0 ms\n"},
        {"printf 'a\\033b'; exec sleep 100", "--for 1s",
         "steptune compare: run 1 (A=0) has no times of steps (NCCL's profiler "
         "recorded no collective, which takes NCCL 2.27 or later and several "
         "ranks), and --for ended it, so that its own time says nothing; the "
         "last lines of its output (-o FOLDER keeps all):\n  | a\\x1Bb\n"},
    };

    for (const Failing &c : cases) {
        Job(c.script);
        Outcome o = Run("compare --env A=0,1 " + std::string(c.options) +
                        " -- ./job.sh");

        EXPECT_EQ(1, o.status);
        const size_t told = o.err.find("steptune compare: run 2 (A=1) ended");
        EXPECT_EQ(c.err,
                  told != std::string::npos ? o.err.substr(told) : o.err);
        EXPECT_THAT(Files("tmp"), IsEmpty());
    }
}

// The job is recorded until then by a thread, and by what it printed.
TEST_F(Compare, EndsEachRunAfterTheTimeThatIsAsked)
{
    STP_SLOW();
    Set("STEPTUNE_INLINE", "");
    Job("while :; do echo step 5 ms; sleep 0.1; done\n");

    Outcome printed = Run("compare --env A=0,1 -n 1 --for 1 "
                          "--step-time 'step ([0-9]+) ms' --json -- ./job.sh");
    Outcome recorded = Run("compare --env A=0,1 -n 1 --for 2s --json -- " +
                           MockJob("wait @200 2xg4194304 1x1048576"));

    EXPECT_EQ(0, printed.status) << printed.err;
    EXPECT_EQ(5, Number(Arm(Arms(printed, 2), 1), "time"));
    EXPECT_EQ(0, recorded.status) << recorded.err;
    const Json json = Arms(recorded, 2);
    EXPECT_EQ("gpu", String(json.get(), "measure"));
    EXPECT_EQ(1, Number(Arm(json, 1), "gain"));
}

TEST_F(Compare, AddsToTheRunsOfAFolder)
{
    Job(kDrifting);
    const std::string command =
        "compare --env A=0,1 --step-time 'step ([0-9.e]+) ms' -o runs ";
    const std::string job = "-- ./job.sh";

    ASSERT_EQ(0, Run(command + "-n 1 " + job).status);
    EXPECT_THAT(Files("runs"),
                ElementsAre("round0-place0-arm0.txt", "round0-place1-arm1.txt",
                            "round0-place2-arm1.txt", "round0-place3-arm0.txt",
                            "runs.csv"));
    EXPECT_THAT(Read("runs/round0-place1-arm1.txt"),
                HasSubstr("[8] step 960 ms loss: 2.2\n"));
    EXPECT_THAT(
        Read("runs/runs.csv"),
        AllOf(HasSubstr("# command: ./job.sh\n"),
              HasSubstr("\n# arm 1: A=1\nround,place,arm,wall_s,step,steps,"
                        "calls,loss,limited\n0,0,0,"),
              ContainsRegex("\n0,1,1,[0-9.]+,960,8,0,2.2[0-9]*,0\n")));

    EXPECT_EQ("steptune compare: runs/runs.csv is there already, expected "
              "--resume or another folder\n",
              Run(command + "-n 1 " + job).err);
    // the order goes on with the second round
    Outcome o = Run(command + "-n 1 --resume --json " + job);
    const Json json = Arms(o, 2);
    EXPECT_EQ(2, Number(json.get(), "complete_rounds"));
    EXPECT_NEAR(1.25, Number(Arm(json, 1), "gain_low"), 1e-9);
    EXPECT_THAT(Files("runs"), Contains("round1-place0-arm1.txt"));

    const std::string of_steps = "--step-time 'step ([0-9.e]+) ms' ";
    const std::string expected = ", expected the same command and options, or "
                                 "another folder\n";
    const std::map<std::string, std::string> others = {
        {"--env A=0,1 -- ./job.sh", "another expression of --step-time"},
        {"--env A=0,2 " + of_steps + "-- ./job.sh", "other arms"},
        {"--env A=0,1 " + of_steps + "-- ./job.sh more", "another command"}};
    for (const auto &[other, difference] : others) {
        Outcome refused = Run("compare -o runs --resume " + other);
        EXPECT_EQ(1, refused.status);
        EXPECT_EQ("steptune compare: runs/runs.csv has runs with " +
                      difference + expected,
                  refused.err);
    }
    {
        HeldLock lock(dir_ / "runs/runs.csv.lock", "77 elsewhere\n");
        EXPECT_THAT(Run(command + "--resume " + job).err,
                    HasSubstr("holds 'runs/runs.csv.lock'"));
    }
    fs::remove(dir_ / "runs/runs.csv.lock");
    Write("runs/runs.csv", "round\n");
    EXPECT_THAT(Run(command + "--resume " + job).err,
                StartsWith("steptune compare: runs/runs.csv:1:1: "));
}

TEST_F(Compare, KeepsTheRunsWhereASignalEndsIt)
{
    Job("echo step 5 ms\nn=$(cat n 2>/dev/null)\necho x$n >n\n"
        "[ \"$n\" != xxxx ] || { touch waits; exec sleep 100; }\n");
    pid_t child = Start("compare --env A=0,1 --step-time 'step ([0-9]+) ms' "
                        "-o runs -- ./job.sh");
    WaitForFile("waits");

    kill(child, SIGTERM); // not its group, nor the job's

    EXPECT_EQ(1, Wait(child));
    EXPECT_EQ("steptune compare: stopped by signal 15 (Terminated); runs has 4 "
              "runs, to which --resume adds\n",
              Read("err"));
    EXPECT_THAT(Read("out"), HasSubstr("\nA=1: 1.000x in one round"));
    EXPECT_EQ(10u, Count(Read("runs/runs.csv"), "\n"));
    EXPECT_THAT(Files("tmp"), IsEmpty());
}

TEST_F(Compare, PreloadsNccl)
{
    fs::create_directory(dir_ / "nccl");
    Write("nccl/libnccl.so.2", ""); // which the loader leaves out
    Job("echo \"$NCCL_DEBUG $LD_PRELOAD\" >>log\n"
        "echo \"NCCL version 2.2${LD_PRELOAD:+7}.3+cuda12.8\"\n");

    Outcome o = Run("compare --nccl nccl -n 1 -- ./job.sh");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(Read("log"),
                MatchesRegex("VERSION \nVERSION /.*/nccl/libnccl.so.2\n"
                             "VERSION /.*/nccl/libnccl.so.2\nVERSION \n"));
    EXPECT_THAT(o.out,
                HasSubstr("\nNCCL 2.2.3+cuda12.8 ran under NCCL own.\n"
                          "NCCL 2.27.3+cuda12.8 ran under NCCL nccl.\n"));

    Job("echo NCCL version 2.9");
    EXPECT_THAT(
        Run("compare --nccl own,nccl/libnccl.so.2 -n 1 -- ./job.sh").out,
        HasSubstr("\nAll arms ran NCCL 2.9.\n"));
}

TEST_F(Compare, SaysThatThePluginDecidedNothing)
{
    Job("[ $NCCL_TUNER_PLUGIN = none ] || basename $NCCL_TUNER_PLUGIN >>log\n"
        "echo step 1 ms\n");
    const std::string options = "-n 1 --step-time 'step ([0-9]+)' ";

    Outcome o = Run("compare " + options + "-- ./job.sh");

    EXPECT_EQ(0, o.status);
    EXPECT_EQ("libnccl-tuner-steptune.so\nlibnccl-tuner-steptune.so\n",
              Read("log"));
    EXPECT_EQ("steptune compare: run 2 (policy steptune.conf): the plugin was "
              "not loaded, so that NCCL tuned alone\n",
              o.err);

    Job("[ $NCCL_TUNER_PLUGIN = none ] || echo bad >steptune.conf\n" +
        MockJob("0 1x4096") + " && echo step 1 ms\n");
    EXPECT_THAT(Run("compare " + options + "-- ./job.sh").err,
                StartsWith("steptune compare: run 2 (policy steptune.conf): "
                           "the plugin stepped aside, so that NCCL tuned "
                           "alone: "));
}

TEST_F(Compare, SaysWhatIsWrong)
{
    Write("bad.conf", "allreduce,0,inf,rong,ll,-1,-1,-1\n");
    ExpectRefusals(
        "compare ",
        {
            {"", 2, "no command, expected one"},
            {"--policy none.conf -- true", 1, "none.conf: "},
            {"--policy bad.conf -- true", 1, "bad.conf:1:17"},
            {"--policy none, -- true", 1,
             "steptune compare: --policy has an empty value, expected 'none'"},
            {"--policy none --plugin x -- true", 2,
             "--policy and --plugin both choose the tuner"},
            {"--plugin ./none.so -- true", 1, "./none.so: no such plugin\n"},
            {"--nccl none -- true", 1,
             "--nccl: no file 'none', expected a libnccl.so.2 or its folder\n"},
            {"--nccl . -- true", 1, "--nccl: no file './libnccl.so.2'"},
            {"--env A -- true", 1, "--env 'A', expected NAME=VALUE"},
            {"--env 1A=2 -- true", 1, "--env '1A=2', expected NAME=VALUE"},
            {"--env A=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 -- true", 1,
             "--env has more than 16 values\n"},
            {"--env A=1,2,3,4,5,6,7,8 --env B=1,2,3,4,5,6,7,8,9,10 -- true", 1,
             "more than 16 arms to compare\n"},
            {"--step-time 'step [0-9]+' -- true", 2,
             "--step-time 'step [0-9]+' is no expression: it has no group"},
            {"--loss '(' -- true", 2, "--loss '(' is no expression: "},
            {"--for 0 -- true", 2, "expected a time from 1s to 30 days"},
            {"--for 3d -- true", 2, "expected a time from 1s to 30 days"},
            {"--rounds 0 -- true", 2, "expected a number from 1 to 1000"},
            {"--resume -- true", 2, "--resume has no effect without -o"},
            {"-o none/runs -- true", 1, "cannot make the folder 'none/runs': "},
            {"-- ./nothing-there", 1, "cannot run './nothing-there'"},
        });
    fs::remove(dir_ / "steptune.conf");
    EXPECT_EQ("steptune compare: nothing to compare, expected --policy, "
              "--plugin, --nccl, --env or a steptune.conf here\n",
              Run("compare -- true").err);
}

} // namespace
