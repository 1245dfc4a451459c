// What is asked for and cannot be done is said: options without effect, outputs
// without a place, arms and sizes that there are not.
#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

// ---- options without effect ----

// One row at least for each rule of cli/rules.c.
TEST_F(Cli, AnOptionWithoutEffectBesideOthersIsRefused)
{
    STP_SLOW();
    const struct {
        const char *command; // but for its option, it would run, or try to
        const char *option;
        const char *why; // behind "has no effect "
    } cases[] = {
        {"sweep --on h200x4 -f 2", "-i 1M", "with -f"},
        {"tune --on h200x4 -f 2", "-i 1M", "with -f"},
        {"record m --on h200x4 -f 2", "-i 1M", "with -f"},
        {"iterate --on h200x4 --gemm 64,64,64", "--ratio 1", "with --gemm"},
        {"sweep --on h200x4", "--procs 2", "on a recorded machine, expected"},
        {"sweep --on h200x4", "-t 2", "on a recorded machine, expected"},
        {"iterate --on h200x4", "-g 2", "on a recorded machine, expected"},
        {"iterate --on h200x4", "-G 2", "on a recorded machine, expected"},
        {"record m --on h200x4", "-T 9", "on a recorded machine, expected"},
        {"sweep --on h200x4 --arms auto", "--channels 8", "on these --arms"},
        {"sweep --on h200x4 --arms ring/ll/4", "--channels 8",
         "on these --arms, expected one that leaves the channels open, such "
         "as ring/simple"},
        {"iterate --on h200x4 --arms auto2", "--channels 8", "on these --arms"},
        {"sweep --on cpu", "--channels 8", "on CPUs, whose transports have no"},
        {"iterate --backend gloo", "--channels 8", "on CPUs, whose transports"},
        {"sweep --on h200x4 --format csv", "--json", "with --format"},
        {"sweep --on h200x4", "-c 1",
         "on a recorded machine, which computes nothing to check"},
        {"sweep --on h200x4", "--place in",
         "on a recorded machine, whose times are of results out of place"},
        {"sweep --on h200x4 --collective allgather,broadcast", "-o max",
         "on these collectives, which reduce nothing"},
        {"sweep --on h200x4 --collective allreduce", "-r 1",
         "without --collective broadcast or reduce"},
        {"sweep --on cpu", "-r 1", "without --collective broadcast or reduce"},
        {"iterate --on h200x4", "--force", "without -o"},
        {"iterate --on h200x4", "--format svg", "without -o"},
        {"iterate --on h200x4 -o it --no-plots", "--format svg",
         "with --no-plots"},
        {"iterate --on h200x4", "--min-gain 5%", "without --find-regimes"},
        {"iterate --on h200x4 --mode fsdp", "--place out",
         "with --mode fsdp, which has no all-reduce"},
        {"verify p.conf", "--mode fsdp", "without --iterate"},
        {"verify p.conf", "--bytes 4M", "without --iterate"},
        {"verify p.conf", "--ratio 1", "without --iterate"},
        {"verify p.conf", "--gemm 64,64,64", "without --iterate"},
        {"verify p.conf", "--compute gemm", "without --iterate"},
        {"verify p.conf", "--layers 4", "without --iterate"},
        {"verify p.conf", "--place in", "without --iterate"},
        {"verify p.conf --iterate", "--collective allreduce", "with --iterate"},
        {"verify p.conf --iterate", "-b 4M", "with --iterate"},
        {"verify p.conf --iterate", "-e 4M", "with --iterate"},
        {"verify p.conf --iterate", "-f 4", "with --iterate"},
        {"verify p.conf --iterate", "-i 4", "with --iterate"},
        {"verify p.conf --iterate", "-w 4", "with --iterate"},
        {"train --on h200x4", "--fresh", "without -o"},
        {"train --on h200x4 --modes naive,sharded", "--bucket-mb 5",
         "without --modes bucketed"},
        {"train --on h200x4", "--lr 1",
         "on a recorded machine, which computes nothing"},
        {"explain --policy p.conf --why 1M", "--diff q.conf", "with --why"},
        {"explain --policy p.conf --why 1M", "--golden g", "with --why"},
        {"explain --policy p.conf --why 1M", "-e 1M", "with --why"},
        {"explain --policy p.conf --diff q", "--golden g", "with --diff"},
        {"explain --policy p.conf", "--update", "without --golden"},
        {"replay --contract x.so", "--trace t.csv", "with --contract"},
        {"replay --contract x.so", "--plugin y.so", "with --contract"},
        {"replay --contract x.so", "--layout threads", "with --contract"},
        {"replay --contract x.so", "--jobs 2", "with --contract"},
        {"replay --trace t.csv", "--time-limit 9", "without --contract"},
        {"run", "--strategy epsilon", "without --online"},
        {"run", "--objective gpu", "without --online"},
        {"run -q", "--json", "with -q"},
    };
    for (const auto &c : cases) {
        const std::string line = std::string(c.command) + " " + c.option;
        SCOPED_TRACE(line);
        const bool is_run = line.rfind("run", 0) == 0;
        const Outcome o = Run(line + (is_run ? " true" : ""));
        const std::string name = c.option;

        EXPECT_EQ(2, o.status);
        EXPECT_EQ("", o.out);
        EXPECT_THAT(o.err,
                    StartsWith("steptune " + line.substr(0, line.find(' ')) +
                               ": " + name.substr(0, name.find(' ')) +
                               " has no effect " + c.why));
    }
    EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(Cli, AnOptionWithAnEffectIsTaken)
{
    Write("p.conf", "allreduce,0,inf,ring,ll,-1,-1,-1\n");
    for (const char *line :
         {"sweep --on h200x4 -b 1M -e 2M -i 1M --collective allreduce",
          "sweep --on h200x4 -b 1M -e 1M --collective reduce -r 1 -o max -c 0",
          "sweep --on h200x4 -b 1M -e 1M --arms ring/ll,tree/ll/4 "
          "--collective allreduce --channels 8",
          "sweep --on h200x4 -b 1M -e 1M --format json --arms auto",
          "sweep --on a100x8 -b 1M -e 1M --arms auto -r 3",
          "iterate --on h200x4 --rounds 2 --mode fsdp,overlap --place out",
          "iterate --on h200x4 --rounds 2 --no-plots",
          "verify p.conf --on a100x8 -b 1M -e 1M -w 1",
          "train --on h200x4 --epochs 1 --modes all --bucket-mb 5",
          "explain --policy p.conf --why 1M --collective reduce"}) {
        const Outcome o = Run(line);
        EXPECT_THAT(o.err, Not(HasSubstr("has no effect"))) << line;
        EXPECT_NE(2, o.status) << line << o.err;
    }
}

// ---- values ----

TEST_F(Cli, AValueThatMeansNothingOrTwoThingsIsRefused)
{
    const char *share = "expected a share from 0% to 100% such as ";

    ExpectRefusals(
        "",
        {
            {"tune --min-gain 200%", 2, share},
            {"tune --min-gain 2", 2, share},
            {"derive m.csv --min-gain 101%", 2, share},
            {"learn --compute-noise 500%", 2, share},
            {"iterate --find-regimes --min-gain 900%", 2, share},
            {"iterate --bytes 1M,1024K", 2, "expected 1024K at most once"},
            {"iterate --ratio 1,1.0", 2, "expected 1.0 at most once"},
            {"iterate --layers 1001", 2, "expected a number from 1 to 1000"},
            {"learn --strategies halving,halving", 2,
             "expected halving at most once"},
            {"sweep --channels 7,7", 2,
             "channels '7' twice, expected each once"},
            {"record m --channels 3,3", 2,
             "channels '3' twice, expected each once"},
            {"sweep --collective allreduce --collective allgather", 2,
             "--collective twice, expected one comma-separated list"},
            {"sweep --arms ring/ll --arms tree/ll", 2,
             "--arms twice, expected one comma-separated list"},
            {"train --ga 1 --ga 2", 2,
             "--ga twice, expected one comma-separated list"},
            {"explain --policy p --seed 2", 2, "unrecognized option '--seed'"},
            {"tune --on cpu", 2, "--on cpu has no algorithms"},
            {"verify p.conf --on h200x4 -b 4M -e 1M", 2,
             "-b 4194304 is above -e 1048576"},
            {"tune --on h200x4 -b 4M -e 1M", 2, "-b 4194304 is above"},
            {"record m --on h200x4 -b 4M -e 1M", 2, "-b 4194304 is above"},
            {"sweep --on h200x4 -i 1", 1,
             "more than 4096 message sizes, expected a greater factor or step"},
        });
    EXPECT_THAT(Files(), IsEmpty());
}

// ---- files ----

TEST_F(Cli, AnOutputWithoutAPlaceIsRefusedBeforeAnythingRuns)
{
    Write("a.csv", "");
    fs::create_directory(dir_ / "dir");
    const char *a_folder = " is a folder, expected a file";
    const char *no_folder = " has no place: there is no folder ";
    const char *a_file = " is a file, expected a folder";

    ExpectRefusals(
        "",
        {
            {"sweep --on h200x4 --output dir", 2, a_folder},
            {"sweep --on h200x4 --output no/x.csv", 2, no_folder},
            {"sweep --on h200x4 -o a.csv/x.csv", 2, no_folder},
            {"sweep --on h200x4 --output ''", 2, "'' names no file"},
            {"tune --on h200x4 -o dir", 2, a_folder},
            {"tune --on h200x4 -o no/x.conf", 2, no_folder},
            {"tune --on h200x4 -o /dev/full", 2, " is a device or a pipe"},
            {"tune --on h200x4 -o /dev/stdout", 2, " is a device or a pipe"},
            {"derive a.csv -o dir", 2, a_folder},
            {"derive a.csv -o no/x", 2, no_folder},
            {"report a.csv -o no/x.html", 2, no_folder},
            {"report a.csv -o dir", 2, a_folder},
            {"explain --policy p --golden dir", 2, a_folder},
            {"explain --policy p --golden no/g", 2, no_folder},
            {"iterate --on h200x4 -o a.csv", 2, a_file},
            {"iterate --on h200x4 -o a.csv/x/y", 2, no_folder},
            {"train --on h200x4 -o a.csv", 2, a_file},
            {"train --on h200x4 -o ''", 2, "'' names no folder"},
            {"plot a.csv -o a.csv", 2, a_file},
            {"record m --on h200x4 -o a.csv", 2, a_file},
        });
    EXPECT_THAT(Files(), ElementsAre("a.csv", "dir"));
}

TEST_F(Cli, AnOutputNeverReplacesWhatIsRead)
{
    const char *read = " is a file that is read, expected another one to write";
    ASSERT_EQ(0, Run("tune --on h200x4 -b 4M -e 8M --no-iterate").status);
    const std::vector<std::string> files = Files();
    const std::string policy = Read("steptune.conf");
    const std::string sweep = Read("steptune.sweep.csv");
    fs::create_hard_link(dir_ / "steptune.sweep.csv", dir_ / "other.csv");

    ExpectRefusals(
        "", {
                {"derive steptune.sweep.csv -o steptune.sweep.csv", 2, read},
                {"derive steptune.sweep.csv -o other.csv", 2, read},
                {"derive --arm auto=other.csv -o other.csv", 2, read},
                {"report steptune.conf -o steptune.conf", 2, read},
                {"report steptune.conf -o steptune.sweep.csv", 1, read},
                {"explain --policy steptune.conf --update --golden "
                 "steptune.conf",
                 2, read},
            });
    EXPECT_EQ(policy, Read("steptune.conf"));
    EXPECT_EQ(sweep, Read("steptune.sweep.csv"));
    EXPECT_EQ(files.size() + 1, Files().size());
}

TEST_F(Cli, DeriveKeepsWhatItReplacesAsANumberedBackup)
{
    Write("p.conf", "# by hand\n");
    ASSERT_EQ(0, Run("sweep --on h200x4 -b 4M -e 8M -o m.csv").status);

    EXPECT_EQ("steptune derive: the policy that was in p.conf is kept as "
              "p.conf.~1~\n",
              Run("derive m.csv -o p.conf").err);
    const std::string first = Read("p.conf");
    EXPECT_EQ("steptune derive: the policy that was in p.conf is kept as "
              "p.conf.~2~\n",
              Run("derive m.csv --json -o p.conf").err);

    EXPECT_EQ("# by hand\n", Read("p.conf.~1~"));
    EXPECT_EQ(first, Read("p.conf.~2~"));
    EXPECT_EQ("", Run("derive m.csv -o /dev/stdout").err);
    EXPECT_FALSE(fs::exists("/dev/stdout.~1~"));
    EXPECT_EQ("", Run("derive m.csv -o new.conf").err);
    EXPECT_THAT(Files(), ElementsAre("m.csv", "new.conf", "p.conf",
                                     "p.conf.~1~", "p.conf.~2~"));
}

// A plugin reads its policy after the command has.
TEST_F(Cli, APipeIsRefusedWhereAFileIsReadTwice)
{
    ASSERT_EQ(0, mkfifo((dir_ / "pipe").c_str(), 0600));
    const char *pipe = "'pipe' is a pipe, which can be read only once, "
                       "expected a file";

    ExpectRefusals("", {
                           {"verify pipe --on h200x4", 2, pipe},
                           {"explain --policy pipe", 2, pipe},
                           {"iterate --on h200x4 --policy pipe", 2, pipe},
                           {"replay --trace t --policy pipe", 2, pipe},
                           {"run --policy pipe true", 2, pipe},
                           {"plot pipe", 2, pipe},
                           {"report pipe", 2, pipe},
                       });
}

// What the options are for shows when the files are read.
TEST_F(Cli, AnOptionWithoutEffectOnTheFilesIsRefused)
{
    ASSERT_EQ(0, Run("sweep --on h200x4 -b 1M -e 2M --arms auto -o m.csv "
                     "--collective allreduce")
                     .status);
    Write("m.txt", Run("sweep --on h200x4 -b 1M -e 2M --arms auto "
                       "--collective allreduce --format nccl")
                       .out);
    ASSERT_EQ(0, Run("train --on h200x4 --epochs 1 -o t").status);
    const std::string results = "plot t/" + Files("t")[0];
    const char *names = "measurements of Steptune, which name their "
                        "collectives, expected text of nccl-tests for "
                        "--collective";
    const char *says = "times of allreduce, but --collective says allgather";

    ExpectRefusals(
        "", {
                {"derive m.csv --collective allreduce", 1, names},
                {"plot m.csv --collective allreduce", 1, names},
                {"derive m.txt --trust-passes --collective allgather", 1, says},
                {"plot m.txt --collective allgather", 1, says},
                {"plot m.csv --json", 1, "--json has no effect on meas"},
                {(results + " --curves 3").c_str(), 1,
                 "--curves has no effect on results of `steptune train`"},
                {(results + " --collective allreduce").c_str(), 1,
                 "--collective has no effect on results of `steptune train`"},
                {"plot m.csv ./m.csv", 1,
                 "./m.csv: given twice, expected different files"},
            });
    EXPECT_EQ(0, Run("plot m.txt --collective allreduce -o p").status);
}

// ---- what is missing ----

// A copy of the program, with nothing beside it but the machines.
TEST_F(Cli, WhatACommandTakesAndIsMissingIsSaidBeforeItBegins)
{
    fs::create_directory(dir_ / "bin");
    fs::copy_file(STP_STEPTUNE, dir_ / "bin/steptune");
    Set("STEPTUNE_MACHINES", fs::path(STP_FIXTURES) / "machines");
    Write("p.conf", "allreduce,0,inf,ring,ll,-1,-1,-1\n");
    const std::vector<std::string> files = Files();
    const std::string no_plugin = "no libnccl-tuner-steptune.so in ";
    const std::string no_gloo =
        "no steptune-gloo.so in lib/steptune beside this program: install Gloo "
        "and OpenBLAS (Debian: libgloo-dev libopenblas-dev), and build "
        "Steptune again\n";
    const std::string no_cuda = "no steptune-cuda.so in lib/steptune";
    const struct {
        const char *line;
        std::vector<std::string> missing;
    } cases[] = {
        {"tune --on h200x4", {no_plugin}},
        {"tune --on cuda", {no_cuda, no_plugin}},
        {"verify p.conf --on h200x4", {no_plugin}},
        {"iterate --on h200x4 --policy p.conf", {no_plugin}},
        {"iterate --on cpu", {no_gloo}},
        {"train --on cpu -o t", {no_gloo}},
        {"sweep --on cpu -o s.csv", {no_gloo}},
        {"sweep --on cuda", {no_cuda}},
        {"record m --on cuda", {no_cuda}},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.line);
        const std::string line = c.line;
        const Outcome o = RunProgram("bin/steptune", line);
        const std::string name =
            "steptune " + line.substr(0, line.find(' ')) + ": ";

        EXPECT_EQ(77, o.status);
        EXPECT_EQ("", o.out);
        EXPECT_EQ(c.missing.size(), Count(o.err, "\n")) << o.err;
        for (const std::string &missing : c.missing)
            EXPECT_THAT(o.err, HasSubstr(name + missing));
    }
    EXPECT_EQ(files, Files());
}

TEST_F(Cli, IterateSaysFirstThatThereIsNoGnuplot)
{
    Set("STEPTUNE_GNUPLOT", "./no-such-gnuplot");

    const Outcome o = Run("iterate --on h200x4 --rounds 2 -o dir");

    EXPECT_EQ(0, o.status);
    EXPECT_EQ("steptune iterate: no plots will be drawn: there is no "
              "'./no-such-gnuplot', expected gnuplot (Debian: gnuplot-nox), or "
              "its path in STEPTUNE_GNUPLOT\n",
              o.err);
    EXPECT_THAT(Files("dir"), Contains("rounds.csv"));
    EXPECT_THAT(Files("dir"), Not(Contains(EndsWith(".png"))));
    EXPECT_EQ("", Run("iterate --on h200x4 --rounds 2 -o two --no-plots").err);
}

// ---- arms and sizes ----

TEST_F(Cli, AnArmThatNoNcclHasIsRefused)
{
    ExpectRefusals(
        "",
        {
            {"sweep --on a100x8 --arms tree/simple --collective allgather", 2,
             "arm tree/simple: NCCL has no such kernel for allgather, only for "
             "allreduce"},
            {"sweep --on a100x8 --arms ring/ll,tree --collective "
             "broadcast,reduce",
             2, "arm tree: NCCL has no such kernel for broadcast, reduce, "},
            {"sweep --on a100x8 --arms nvls/ll", 2,
             "arm nvls/ll: NCCL has no such kernel\n"},
            {"sweep --on a100x8 --arms pat/simple/4 --collective allreduce", 2,
             "arm pat/simple/4: NCCL has no such kernel for allreduce, only "
             "for allgather, reducescatter"},
            {"iterate --on a100x8 --arms tree/ll --mode fsdp", 2,
             "arm tree/ll: NCCL has no such kernel for allgather"},
            {"iterate --on a100x8 --arms pat/simple", 2,
             "arm pat/simple: NCCL has no such kernel for allreduce"},
        });
}

TEST_F(Cli, WhatDidNotRunAsAskedForIsSaid)
{
    const struct {
        const char *line;
        int status;
        const char *err;
    } cases[] = {
        {"sweep --on h200x4 -b 1M -e 1M --arms tree/ll,ring/ll "
         "--collective allgather,allreduce",
         0,
         "steptune sweep: arm tree/ll did not run for allgather: NCCL 2.28.9 "
         "rules it out there\n"},
        {"sweep --on a100x8 -b 1M -e 1M --arms nvls/simple "
         "--collective allreduce",
         1,
         "steptune sweep: arm nvls/simple did not run for allreduce: NCCL "
         "2.28.9 rules it out there\n"
         "steptune sweep: none of the arms that --arms names ran\n"},
        {"iterate --on a100x8 --bytes 1M --arms nvls/simple,ring/ll", 0,
         "steptune iterate: arm nvls/simple did not run for allreduce: NCCL "
         "2.28.9 rules it out there\n"},
        {"sweep --on h200x4 -b 64M -e 64M --arms ring/simple "
         "--channels 8,24,64 --collective allreduce",
         0, "steptune sweep: no arm of 64 channels ran on more than 24\n"},
        {"sweep --on a100x8 -b 8 -e 64 --arms auto --collective allreduce", 0,
         "steptune sweep: -b 8: allreduce begins at 16 bytes, as its sizes are "
         "multiples of 16, whole elements for every rank\n"},
        {"sweep --on a100x8 -b 16 -e 64 --arms auto --collective allreduce", 0,
         ""},
        {"sweep --on a100x8 -e 64 --arms auto --collective allreduce", 0, ""},
        // all arms are those that there are
        {"sweep --on h200x4 -b 1M -e 1M --arms all", 0, ""},
        {"sweep --on h200x4 -b 1M -e 1M", 0, ""},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.line);
        const Outcome o = Run(c.line);
        EXPECT_EQ(c.status, o.status);
        EXPECT_EQ(c.err, o.err);
        EXPECT_NE("", o.out);
    }
}

} // namespace
