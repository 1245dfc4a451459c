// steptune tune, sweep, derive and verify: what they measure, write and refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <regex>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

// ---- tune ----

struct GainCase {
    const char *collective;
    double bytes;
    double gain;
    const char *choice; // algorithm/protocol
};

TEST_F(Cli, TuneFindsTheRecordedGainsAndIsNowhereSlower)
{
    STP_SLOW();
    // As measured on 4 x H200: medians of four interleaved rounds.
    const GainCase known[] = {{"allgather", 3905536, 1.38, "ring/ll128"},
                              {"reducescatter", 3905536, 1.20, "ring/ll"},
                              {"allreduce", 9536512, 1.07, "ring/ll128"}};

    Outcome o = Run("tune --on h200x4 --json");

    ASSERT_EQ(0, o.status) << o.err;
    Json root = Parse(o.out);
    ASSERT_NE(nullptr, root);
    std::map<std::string, int> verdicts;
    size_t found = 0;
    const cJSON *size;
    cJSON_ArrayForEach(size, cJSON_GetObjectItem(root.get(), "sizes"))
    {
        verdicts[String(size, "verdict")]++;
        const cJSON *choice = cJSON_GetObjectItem(size, "choice");
        for (const GainCase &c : known)
            if (String(size, "collective") == c.collective &&
                Number(size, "bytes") == c.bytes) {
                found++;
                EXPECT_NEAR(c.gain, Number(size, "gain"), 0.015);
                EXPECT_EQ(c.choice, String(choice, "algorithm") + "/" +
                                        String(choice, "protocol"));
            }
    }
    EXPECT_EQ(3u, found);
    EXPECT_EQ(0, verdicts["SLOWER"]);
    EXPECT_GT(verdicts["faster"], 20);
    EXPECT_GT(verdicts["same"], 50) << "where NCCL is best it is left alone";
    EXPECT_THAT(Read("steptune.report.txt"),
                ContainsRegex(", best 1\\.[0-9]* .allgather, [0-9]* bytes, "
                              "[a-z]*.\n"))
        << "the mean is of sizes between those measured, too";
    EXPECT_THAT(Files(),
                ElementsAre("steptune.conf", "steptune.conf.overlap",
                            "steptune.conf.verified.txt",
                            "steptune.iterations.csv", "steptune.report.html",
                            "steptune.report.txt", "steptune.sweep.csv",
                            "steptune.verify.csv"));
}

TEST_F(Cli, TuneSaysFirstThatRecordedTimesAreRecorded)
{
    STP_SLOW();
    Outcome o = Run("tune --on h200x4 --collective allreduce");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(
        o.err, MatchesRegex("steptune tune: sweep [0-9.]+ s, refine [0-9.]+ s, "
                            "iterate [0-9.]+ s, verify [0-9.]+ s, [0-9.]+ s in "
                            "all\n"))
        << "no progress bar into a pipe";
    EXPECT_THAT(o.out, StartsWith("h200x4: 4 x NVIDIA H200, NCCL 2.28.9; "
                                  "a recorded machine in mock NCCL, not a live "
                                  "measurement\n"));
    EXPECT_THAT(o.out, HasSubstr("/libnccl-tuner-steptune.so\n"));
    EXPECT_THAT(o.out, HasSubstr("export NCCL_TUNER_CONFIG_FILE=" +
                                 (dir_ / "steptune.conf").string()));
}

TEST_F(Cli, TuneGivesTheSameTwiceAndOtherDrawsForAnotherSeed)
{
    STP_SLOW();
    Outcome a = Run("tune --on h200x4 --collective allreduce -n 5 -o a.conf");
    Outcome b = Run("tune --on h200x4 --collective allreduce -n 5 -o b.conf");
    Outcome c =
        Run("tune --on h200x4 --collective allreduce -n 5 -o c.conf --seed 2");

    EXPECT_EQ(0, a.status);
    EXPECT_EQ(Read("a.sweep.csv"), Read("b.sweep.csv"));
    EXPECT_NE(Read("a.sweep.csv"), Read("c.sweep.csv"));
}

// Between two sizes NCCL's own choice changes to something better than the arm
// that won at the first: a rule that reaches halfway would lose there.
TEST_F(Cli, TuneTrimsARuleThatLosesBetweenTheSizesMeasured)
{
    fs::create_directory(dir_ / "m");
    for (const char *file : {"machine.csv", "graphs.xml"})
        fs::copy(fs::path(STP_FIXTURES "/machines/h200x4") / file,
                 dir_ / "m" / file);
    std::string csv = "# made for this test\n"
                      "collective,bytes,algorithm,protocol,channels,nRanks,run,"
                      "round,iters,mean_us,median_us,p95_us,min_us\n";
    struct Row {
        const char *bytes, *proto;
        double us;
    };
    for (const Row &r :
         {Row{"2400000", "ll", 60}, Row{"2400000", "ll128", 52},
          Row{"2400000", "simple", 50}, Row{"3600000", "ll", 90},
          Row{"3600000", "ll128", 55}, Row{"3600000", "simple", 62}})
        for (int round = 1; round <= 3; round++) {
            std::string us = std::to_string(r.us + 0.01 * round);
            csv += std::string("allreduce,") + r.bytes + ",ring," + r.proto +
                   ",0,4,window," + std::to_string(round) + ",20," + us + "," +
                   us + "," + us + "," + us + "\n";
        }
    Write("m/timings.csv", csv);

    Outcome o = Run("tune --on ./m");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr(" 0 slower"));
    EXPECT_THAT(Read("steptune.report.txt"),
                HasSubstr("\n1 of these rules was trimmed: "));
    EXPECT_THAT(Read("steptune.conf"),
                HasSubstr("\nallreduce,2400000,2400000,ring,simple,-1,1,4,"));
}

TEST_F(Cli, TuneSaysWhichCollectivesAMachineWasNotTimedWith)
{
    fs::copy(fs::path(STP_FIXTURES) / "machines/h200x4", dir_ / "mine");
    const std::string timings = Read("mine/timings.csv");
    std::stringstream lines(timings);
    std::string kept;
    for (std::string line; std::getline(lines, line);)
        if (line.rfind("reducescatter,", 0) != 0)
            kept += line + "\n";
    Write("mine/timings.csv", kept);

    const Outcome o = Run("tune --on ./mine --no-iterate -n 2");
    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.err, StartsWith("steptune tune: reducescatter is left out: "
                                  "it was not timed on machine 'mine'\n"));
    EXPECT_THAT(o.out, Not(HasSubstr("reducescatter")));
    ExpectRefusals("tune --on ./mine --no-iterate -o other.conf --collective ",
                   {{"allreduce,reducescatter", 77,
                     "reducescatter was not timed on machine 'mine'; a model "
                     "is no ground for a policy"},
                    {"broadcast", 77, "broadcast was not timed on machine"}});
    EXPECT_THAT(Files(), Not(Contains("other.conf")));
}

// They would write the same files.
TEST_F(Cli, TuneOnARecordedMachineIsForTheFirstOfSeveralProcesses)
{
    const std::string tune = "tune --on h200x2 --collective allreduce "
                             "--no-iterate -n 2 -o ";
    Set("WORLD_SIZE", "2");
    Set("MASTER_ADDR", "127.0.0.1");
    Set("MASTER_PORT", "29500");

    Set("RANK", "1");
    const Outcome other = Run(tune + "other.conf");
    Set("RANK", "0");
    const Outcome first = Run(tune + "first.conf");

    EXPECT_EQ(0, other.status);
    EXPECT_EQ("", other.out + other.err);
    EXPECT_EQ(0, first.status);
    EXPECT_THAT(first.err,
                StartsWith("steptune tune: 2 processes were started, of which "
                           "a recorded machine takes one: the others do "
                           "nothing\n"));
    EXPECT_THAT(Files(),
                AllOf(Contains("first.conf"), Not(Contains("other.conf"))));
}

TEST_F(Cli, TuneRefusesToMakeAPolicyOfAModel)
{
    Outcome o = Run("tune --on h100x8");

    EXPECT_EQ(77, o.status);
    EXPECT_THAT(o.err, HasSubstr("machine 'h100x8' was never timed in "
                                 "interleaved rounds"));
    EXPECT_THAT(Files(), IsEmpty());
}

// A copy of the program that has no plugin beside it cannot verify.
TEST_F(Cli, TuneLeavesNoPolicyThatItCouldNotVerify)
{
    fs::create_directory(dir_ / "bin");
    fs::copy(STP_STEPTUNE, dir_ / "bin/steptune");
    Write("steptune.conf", "# old\n");

    int status = std::system(("cd '" + dir_.string() +
                              "' && bin/steptune tune --collective allreduce "
                              "-n 2 --on " STP_FIXTURES "/machines/h200x4 "
                              ">/dev/null 2>&1")
                                 .c_str());

    EXPECT_EQ(77, WEXITSTATUS(status));
    EXPECT_EQ("# old\n", Read("steptune.conf"));
    EXPECT_THAT(Files(), ElementsAre("bin", "steptune.conf"))
        << "which it knows before it measures";
}

TEST_F(Cli, TuneKeepsTheFormerPoliciesAsNumberedBackups)
{
    const std::string quick =
        "tune --on h200x2 --collective allgather -b 1M -e 4M -n 2 -o p.conf ";
    Write("p.conf", "# by hand\n");
    Write("p.conf.overlap", "# overlapped\n");
    Write("p.conf.~2~", "# of another tool\n");

    Outcome o = Run(quick);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.err, HasSubstr("steptune tune: the policy that was in p.conf "
                                 "is kept as p.conf.~1~\n"));
    const std::string first = Read("p.conf");
    ASSERT_EQ(0, Run(quick + "--fresh --no-iterate").status);
    EXPECT_EQ("# by hand\n", Read("p.conf.~1~"));
    EXPECT_EQ("# of another tool\n", Read("p.conf.~2~"));
    EXPECT_EQ(first, Read("p.conf.~3~"));
    EXPECT_EQ("# overlapped\n", Read("p.conf.overlap.~1~"));
    EXPECT_THAT(Files(), AllOf(Contains("p.conf.overlap.~2~"),
                               Not(Contains("p.conf.overlap"))))
        << "it is of the first run, and the second makes none";
}

TEST_F(Cli, TuneLeavesNothingBehindWhereItCannotWrite)
{
    ExpectRefusals("tune --on h200x4 -n 2 ",
                   {{"-o no/such/folder.conf", 2,
                     "has no place: there is no folder 'no/such'"}});
    EXPECT_THAT(Files(), IsEmpty());
}

// ---- sweep, derive, verify ----

TEST_F(Cli, TuneLeavesFilesAloneThatAnotherProcessWrites)
{
    const char *quick = "tune --on h200x2 --collective allgather -b 1M -e 4M "
                        "--no-iterate ";
    {
        const HeldLock other(dir_ / "steptune.lock",
                             "process 4711 (steptune tune)");

        Outcome o = Run(quick);

        EXPECT_EQ(1, o.status);
        EXPECT_EQ("steptune tune: process 4711 (steptune tune) is writing the "
                  "same files and holds 'steptune.lock': let it end, or name "
                  "another output\n",
                  o.err);
        EXPECT_EQ("", o.out);
        EXPECT_THAT(Files(), ElementsAre("steptune.lock"));
        EXPECT_EQ(0, Run(std::string(quick) + "-o other.conf").status);
    }
    EXPECT_EQ(0, Run(quick).status) << "the process has died";
    EXPECT_THAT(Files(),
                AllOf(Contains("steptune.conf"), Not(Contains("steptune.lock")),
                      Not(Contains("other.lock"))));
}

TEST_F(Cli, SweepDeriveAndVerifyAreTheStepsOfTune)
{
    ASSERT_EQ(0,
              Run("sweep --on h200x4 --collective allgather -o s.csv").status);
    Outcome derived = Run("derive s.csv -o p.conf");
    Outcome verified = Run("verify p.conf --on h200x4 --table");

    ASSERT_EQ(0, derived.status) << derived.err;
    EXPECT_THAT(derived.out, HasSubstr("ring/ll128"));
    EXPECT_EQ(0, verified.status) << verified.err;
    EXPECT_THAT(verified.out, HasSubstr(" 0 slower"));
    EXPECT_THAT(verified.out, HasSubstr("interpolated"))
        << "sizes that derive did not see";
}

TEST_F(Cli, DerivePrintsThePolicyIfItHasNowhereToGo)
{
    ASSERT_EQ(0,
              Run("sweep --on h200x4 --collective allgather -o s.csv").status);

    Outcome o = Run("derive s.csv --portable --min-gain 30%");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.out, HasSubstr("\nallgather,"));
    EXPECT_THAT(o.out, HasSubstr(",ring,ll128,-1,1,4\n"));
    EXPECT_THAT(o.out, HasSubstr("at least 30 percent"));
}

TEST_F(Cli, DeriveWillNotCountAFileTwice)
{
    ASSERT_EQ(
        0,
        Run("sweep --on h200x4 --collective allreduce -n 2 -o s.csv").status);

    Outcome o = Run("derive s.csv ./s.csv");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err,
                StrEq("steptune derive: ./s.csv: given twice, its rounds "
                      "would count twice\n"));
}

TEST_F(Cli, VerifySaysHowManyRulesAreForTheMachine)
{
    Write("p.conf", "collective,algorithm,protocol,nRanks,gpu\n"
                    "allreduce,tree,ll,4,NVIDIA A100-SXM4-80GB\n"
                    "allgather,ring,ll,8,*\n"
                    "reduce,ring,ll,2-4,NVIDIA H200\n");

    EXPECT_THAT(
        Run("verify p.conf --on h200x4 --collective allreduce -n 2").out,
        HasSubstr("\n1 of 3 rules apply to it\n"));
}

TEST_F(Cli, DeriveMakesNoRuleOfSinglePasses)
{
    // Sizes that were recorded in one pass only, arm after arm.
    ASSERT_EQ(0, Run("sweep --on h200x4 -b 8 -e 64K -o s.csv").status);

    Outcome o = Run("derive s.csv");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(Read("s.csv"), HasSubstr(",source,single_pass\n"));
    EXPECT_THAT(o.out, HasSubstr("# No rule: "));
}

TEST_F(Cli, DeriveMakesNoRuleOfChannelCountsThatWereTimedInOnePass)
{
    ASSERT_EQ(0, Run("sweep --on h200x4 --collective allreduce --arms ring/ll "
                     "--channels 4,8,16,24 -b 8 -e 1M -o s.csv")
                     .status);

    Outcome o = Run("derive s.csv");

    EXPECT_THAT(o.out, HasSubstr("# No rule: "));
}

TEST_F(Cli, VerifyFailsAPolicyThatIsSlower)
{
    Write("slow.conf", "allreduce,0,inf,tree,simple,1,-1,-1\n");

    Outcome o = Run("verify slow.conf --on h200x4 --collective allreduce");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.out, HasSubstr("SLOWER"));
    EXPECT_THAT(o.out, Not(HasSubstr(" 0 slower")));
}

// One modelled round, which has no interval.
TEST_F(Cli, VerifyFailsAPolicyThatIsSlowerByTheModel)
{
    Write("w.conf", "allreduce,1048576,8388608,tree,simple,-1,1,8,-1,-1\n");
    const std::string verify =
        "verify w.conf --on a100x8 --collective allreduce -b 4M -e 16M";

    Outcome o = Run(verify);

    EXPECT_EQ(1, o.status);
    EXPECT_EQ("", o.err);
    EXPECT_THAT(o.out, ContainsRegex("allreduce +4194304 .* one round .*"
                                     "tree/simple/24 +SLOWER by the model"));
    EXPECT_THAT(o.out, HasSubstr("6 sizes: 0 faster, 3 as NCCL's own choice, "
                                 "0 unsure, 3 slower (3 by the model); "));
    o = Run(verify + " --json");
    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.out, HasSubstr("\"SLOWER by the model\""));
}

TEST_F(Cli, VerifyFailsIfThereIsNothingToVerify)
{
    Write("none.conf", "# no rules\n");
    Write("p.conf", "allreduce,1M,8M,tree,simple,-1,1,4,-1,-1\n"
                    "allgather,1M,8M,ring,simple,-1,1,2,-1,-1\n");
    const std::string decides_nothing =
        "steptune verify: p.conf: no rule decides a message that was "
        "measured, so nothing is verified\n";
    const struct {
        const char *arguments;
        std::string err;
        bool prints; // what was measured
    } cases[] = {
        {"none.conf --on h200x4",
         "steptune verify: none.conf: 0 of 0 rules apply to 4 ranks on 1 node "
         "of NVIDIA H200, so there is nothing to verify\n",
         false},
        {"p.conf --on a100x8",
         "steptune verify: p.conf: 0 of 2 rules apply to 8 ranks on 1 node of "
         "NVIDIA A100-SXM4-80GB, so there is nothing to verify\n",
         false},
        {"p.conf --on h200x4 --collective allgather -b 1M -e 4M",
         decides_nothing, true},
        {"p.conf --on h200x4 --collective allreduce -b 16M -e 32M",
         decides_nothing, true},
        {"p.conf --on h200x4 --iterate --mode fsdp --bytes 4M --ratio 1",
         decides_nothing, true},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.arguments);
        Outcome o = Run(std::string("verify ") + c.arguments);
        EXPECT_EQ(1, o.status);
        EXPECT_EQ(c.err, o.err);
        EXPECT_EQ(c.prints, o.out != "");
    }
    EXPECT_EQ(0, Run("verify p.conf --on h200x2 --iterate --mode fsdp "
                     "--bytes 4M --ratio 1")
                     .status);
}

// A rule that is NCCL's own choice decides, though nothing changes.
TEST_F(Cli, VerifyPassesAPolicyThatEqualsNcclsChoice)
{
    Write("p.conf", "broadcast,1M,4M,ring,simple,-1,1,8,-1,-1\n");

    Outcome o = Run("verify p.conf --on a100x8 --collective broadcast -b 1M "
                    "-e 4M");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr(", 0 unsure, 0 slower; "));
}

TEST_F(Cli, VerifyWritesItsProofBesideThePolicy)
{
    Write("p.conf", "allgather,2794506,20824325,ring,ll128,-1,1,4\n");

    Outcome o =
        Run("verify p.conf --collective allgather --proof --on h200x4 --table");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ("p.conf against NCCL's own choice\n"
              "policy hash c549f7a4754fdf3f\n" +
                  o.out,
              Read("p.conf.verified.txt"));
    EXPECT_THAT(Read("p.conf.verified.csv"),
                AllOf(HasSubstr(",plugin,plugin,"),
                      HasSubstr("\n# policy hash: c549f7a4754fdf3f\n")));
    EXPECT_EQ(0, Run("derive p.conf.verified.csv").status);
}

TEST_F(Cli, VerifyLeavesNothingBesideThePolicyUnlessAsked)
{
    Write("p.conf", "allreduce,0,inf,ring,ll128,-1,-1,-1\n");

    Run("verify p.conf --on h200x4 --collective allreduce -n 2");

    EXPECT_THAT(Files(), ElementsAre("p.conf"));
}

TEST_F(Cli, WhatIsMeasuredSaysHowSteadyItWas)
{
    const char line[] = "4 rounds; AUTO spreads by [0-9.]+ percent \\(worst "
                        "size [0-9.]+\\); drift from first to last third "
                        "[-+][0-9.]+ percent .*; gains from [0-9.]+ percent "
                        "up stand out from noise\n";
    Write("p.conf", "allgather,2794506,20824325,ring,ll128,-1,1,4\n");

    EXPECT_THAT(Run("sweep --on h200x4 --collective allgather -b 3M -e 6M").out,
                ContainsRegex(line));
    EXPECT_THAT(Run("verify p.conf --on h200x4 --collective allgather").out,
                ContainsRegex(line));
}

TEST_F(Cli, TuneSaysIfTheMachineIsTooUnsteadyForTheGainsAskedFor)
{
    Outcome o = Run(
        "tune --on h200x4 --collective allgather --min-gain 0.01% -o t.conf");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.err,
                ContainsRegex("warning: too noisy for --min-gain 0.01%: only "
                              "gains from [0-9.]+ percent up stand out"));
    EXPECT_THAT(Read("t.conf"), HasSubstr("AUTO spreads by"));
}

TEST_F(Cli, VerifyRefusesABadPolicyByLineAndColumn)
{
    Write("bad.conf", "# fine\nallreduce,0,inf,rnig,simple,1,-1,-1\n");

    Outcome o = Run("verify bad.conf --on h200x4");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, StartsWith("steptune verify: bad.conf:2:17: unknown "
                                  "algorithm 'rnig'"));
    EXPECT_THAT(o.out, IsEmpty());
}

TEST_F(Cli, SweepPrintsWhatItMeasuredAsJson)
{
    Outcome o = Run("sweep --on h200x4 --collective allreduce -b 1M -e 1M "
                    "--arms ring/ll128 "
                    "--rounds 2 --json");

    ASSERT_EQ(0, o.status) << o.err;
    Json root = Parse(o.out);
    ASSERT_NE(nullptr, root);
    EXPECT_EQ("NVIDIA H200", String(root.get(), "gpu"));
    const cJSON *rows = cJSON_GetObjectItem(root.get(), "measurements");
    ASSERT_EQ(4, cJSON_GetArraySize(rows));
    const cJSON *row = cJSON_GetArrayItem(rows, 1);
    EXPECT_EQ("ring/ll128", String(row, "arm"));
    EXPECT_EQ(1 << 20, Number(row, "bytes"));
    EXPECT_GT(Number(row, "median_us"), 0);
}

TEST_F(Cli, DeriveMarksModelledTimes)
{
    Run("sweep --on h100x8 -b 1M -e 2M --arms ring/ll --collective allreduce "
        "-o m.csv");
    Outcome o = Run("derive m.csv -o p.conf");

    EXPECT_THAT(o.out,
                HasSubstr("From times of h100x8 (NVIDIA H100 80GB HBM3, NCCL "
                          "2.28.9): 4 modelled\n"));
}

TEST_F(Cli, SweepMarksModelledTimes)
{
    Outcome o = Run("sweep --on h100x8 -b 1M -e 2M");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("h100x8: "));
    EXPECT_THAT(o.out, HasSubstr("modelled by NCCL's cost model"));
    EXPECT_THAT(o.out, HasSubstr("nvls/simple"));
}

TEST_F(Cli, SweepWillNotCountARecordedRoundTwice)
{
    Outcome o = Run("sweep --on h200x4 --rounds 5 --collective allreduce");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("5 rounds, but machine 'h200x4' was recorded "
                                 "in 4"));
}

// ---- interruption ----

// By the mask of caught signals that the kernel shows.
void WaitUntilItCatches(pid_t pid, int signal)
{
    const std::string path = "/proc/" + std::to_string(pid) + "/status";

    for (;;) {
        std::ifstream status(path);
        std::string line;
        ASSERT_TRUE(status) << "it has ended";
        while (std::getline(status, line))
            if (line.rfind("SigCgt:", 0) == 0 &&
                (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1))
                return;
        usleep(1000);
    }
}

TEST_F(Cli, KeepsWhatWasMeasuredWhenItIsInterrupted)
{
    pid_t child = fork();
    if (child == 0) {
        if (chdir(dir_.c_str()) != 0 || !freopen("/dev/null", "w", stdout) ||
            !freopen("/dev/null", "w", stderr))
            _exit(99);
        execl(STP_STEPTUNE, "steptune", "sweep", "--on", "h200x4", "-n", "2000",
              "-o", "s.csv", nullptr);
        _exit(99);
    }
    WaitUntilItCatches(child, SIGINT);
    kill(child, SIGINT);
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));

    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(1, WEXITSTATUS(status));
    EXPECT_EQ(0, Run("derive s.csv").status) << "a complete file";
    EXPECT_THAT(Files(), ElementsAre("s.csv"));
}

} // namespace
