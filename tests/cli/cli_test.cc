// Wrong usage, help, and where machines are found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

// ---- wrong usage ----

TEST_F(Cli, AnswersWrongUsageWithOneSentence)
{
    ExpectRefusals(
        "",
        {
            {"tun", 2, "steptune: no command 'tun'; did you mean 'tune'?\n"},
            {"help swep", 2,
             "steptune: no command 'swep'; did you mean 'sweep'?\n"},
            {"learn", 2,
             "steptune: no command 'learn': a job learns in `steptune run "
             "--online`\n"},
            {"xyzzy", 2,
             "steptune: no command 'xyzzy'; `steptune --help` lists them\n"},
            {"tune --no-such", 2, "unrecognized option '--no-such'\n"},
            {"sweep --colective allreduce", 2,
             "'--colective'; did you mean '--collective'?\n"},
            {"sweep --maxbites=4 --on h200x2", 2,
             "'--maxbites'; did you mean '--maxbytes'?\n"},
            {"sweep --on --colective -b 8", 77, "machine '--colective'"},
            {"sweep -wZ", 2, "-w 'Z', expected a number from 0"},
            {"check -jZ", 2, "invalid option -- 'j'\n"},
            {"sweep --m 4", 2, "option '--m' is ambiguous"},
            {"sweep --collective alreduce", 2,
             "reducescatter, allreduce; did you mean 'allreduce'?\n"},
            {"sweep --collective allreduce,reduse", 2,
             "--collective 'reduse', expected each at most once of broadcast, "
             "reduce, allgather, reducescatter, allreduce; did you mean "
             "'reduce'?\n"},
            {"iterate --mode overlp", 2, "or all; did you mean 'overlap'?\n"},
            {"iterate --dtype bf61", 2, "or f64; did you mean 'bf16'?\n"},
            {"sweep --backend glo", 2,
             "expected nccl or gloo; did you mean 'gloo'?\n"},
            {"sweep --backend mpi", 2,
             "--backend 'mpi', expected gloo on CPUs, which takes the "
             "ranks of any launcher\n"},
            {"sweep --arms ring/simpel", 2,
             "or a part of one; did you mean 'simple'?\n"},
            {"sweep --arms rnig/simple/16", 2, "; did you mean 'ring'?\n"},
            {"sweep --on h200x5", 77, "; did you mean 'h200x2'?\n"},
            {"sweep --on h200x4_fulll", 77, "; did you mean 'h200x4_full'?\n"},
            {"tune extra", 2, "'extra', expected options only"},
            {"tune --min-gain 2x", 2, "--min-gain '2x', expected a share"},
            {"tune --min-gain -1%", 2, "--min-gain '-1%', expected a share"},
            {"sweep -b 8x", 2, "-b '8x', expected a size such as 8, 64K or 1G"},
            {"sweep --on h200x4 -b 2M -e 1M", 2,
             "-b 2097152 is above -e 1048576"},
            {"sweep --on h200x4 -b 2G", 2,
             "-b 2147483648 is above the largest message, which is 1G "
             "without -e"},
            {"sweep -f 1", 2, "-f '1', expected a number above 1"},
            {"sweep -n 0", 2, "-n '0', expected a number from 1"},
            {"sweep --arms rnig/ll", 2,
             "arm 'rnig/ll', expected auto, auto2, all"},
            {"sweep --channels 65", 2, "channels '65', expected 1 to 64"},
            {"sweep --collective all", 2, "--collective 'all', expected each"},
            {"sweep --collective allreduce,allreduce", 2, "at most once"},
            {"sweep --seed x", 2, "--seed 'x', expected a number"},
            {"sweep --on nowhere", 77, "no recorded machine 'nowhere'"},
            {"sweep --on ./nowhere", 77, "no recorded machine './nowhere'"},
            {"record x --on cpu", 2, "search graphs and choices are NCCL's"},
            {"iterate -g 8", 77, "no GPU here, expected --on"},
            {"sweep --on h200x4 --procs 2", 2,
             "--procs has no effect on a recorded machine"},
            {"sweep --on cpu --backend nccl", 1,
             "--backend nccl does not run on"},
            {"derive", 2, "no measurements, expected files"},
            {"derive missing.csv", 1,
             "missing.csv: cannot be opened: No such file"},
            {"tune -o .", 2, "-o '.' is a folder, expected a file"},
            {"tune -o no/", 2, "-o 'no/' names no file"},
            {"derive .", 1, ".: is a directory"},
            {"verify", 2, "no policy, expected a file"},
            {"verify a b", 2, "'b', expected one policy"},
            {"verify missing.conf", 1,
             "missing.conf: cannot be opened: No such file"},
            {"explain", 2, "nothing to explain, expected --plugin or --policy"},
            {"explain --policy x -e 1", 2, "-e '1', expected a size from 1K"},
            {"explain --policy x --why 0", 2,
             "--why '0', expected a size from 1"},
            {"explain --policy x --collective all", 2,
             "--collective 'all', expected one of broadcast, "},
            {"explain --policy x --why 1 --diff y", 2,
             "--diff has no effect with --why"},
            {"explain --policy x --update", 2,
             "--update has no effect without --golden"},
        });
    EXPECT_EQ(2, Run("").status);
    EXPECT_THAT(Run("").err, StartsWith("Usage:"));
    EXPECT_THAT(Files(), IsEmpty());
}

// A recorded machine is never taken for the one that a user meant to measure,
// and its results never replace those of real ones.
TEST_F(Cli, MeasuresAndWritesNothingWithoutAGpuUnlessToldWhere)
{
    Set("STEPTUNE_MACHINES", "/machines");
    Write("steptune.conf", "# of real GPUs\n");
    Write("p.conf", "allreduce,0,inf,ring,ll,-1,-1,-1\n");
    const struct {
        const char *command;
        const char *example;
    } cases[] = {
        {"tune", "tune"},
        {"tune --ranks 2", "tune"},
        {"record mybox", "record NAME"},
        {"sweep", "sweep"},
        {"sweep -g 8 -o s.csv", "sweep"},
        {"verify steptune.conf", "verify POLICY"},
        {"verify steptune.conf --iterate --proof", "verify POLICY"},
        {"iterate", "iterate"},
        {"iterate -g 8 -o steps", "iterate"},
        {"train", "train"},
        {"train --gpus 4 -o results", "train"},
        {"iterate", "iterate"},
        {"iterate --find-regimes -g 4 -o scan", "iterate"},
        {"verify p.conf", "verify POLICY"},
        {"verify p.conf --iterate --proof", "verify POLICY"},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.command);
        const Outcome o = Run(c.command);

        EXPECT_EQ(77, o.status);
        EXPECT_EQ("", o.out);
        EXPECT_EQ("steptune " +
                      std::string(c.command, strcspn(c.command, " ")) +
                      ": no GPU here, expected --on with one of the recorded "
                      "machines in /machines, such as `steptune " +
                      c.example + " --on h200x4`\n",
                  o.err);
    }
    EXPECT_EQ("# of real GPUs\n", Read("steptune.conf"));
    EXPECT_THAT(Files(), ElementsAre("p.conf", "steptune.conf"));
}

TEST_F(Cli, HelpsOnEveryCommand)
{
    STP_SLOW();
    EXPECT_EQ(0, Run("--help").status);
    EXPECT_THAT(Run("--version").out, StartsWith("steptune "));
    std::stringstream lines(Run("--help").out);
    size_t n_commands = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("  ", 0) != 0)
            continue;
        const std::string command = line.substr(2, line.find(' ', 2) - 2);
        SCOPED_TRACE(command);
        const Outcome o = Run(command + " --help");

        EXPECT_EQ(0, o.status);
        EXPECT_THAT(o.out, StartsWith("Usage: steptune " + command));
        for (const std::string &other : {"help " + command, command + " -h",
                                         "help " + command + " --no-such"}) {
            SCOPED_TRACE(other);
            const Outcome again = Run(other);

            EXPECT_EQ("", again.err);
            EXPECT_EQ(o.out, again.out);
        }
        n_commands++;
    }
    EXPECT_EQ(16u, n_commands);
    EXPECT_EQ(Run("--help").out, Run("help").out);
    EXPECT_EQ(Run("--help").out, Run("-h").out);
}

TEST_F(Cli, FailsInEveryCommandIfItsOutputIsLost)
{
    STP_SLOW();
    if (access("/dev/full", W_OK) != 0)
        GTEST_SKIP() << "no /dev/full here";
    const char *const commands[] = {
        "--help",
        "--version",
        "tune --help",
        "tune --on h200x2 -b 1M -e 4M -n 2 -o tuned.conf",
        "tune --on h200x2 -b 1M -e 4M -n 2 -o tuned.conf --fresh --json",
        "sweep --on h200x2 -b 1M -e 4M",
        "sweep --on h200x2 -b 1M -e 4M --json", // longer than a buffer
        "sweep --on h200x2 -b 1M -e 4M --format csv",
        "iterate --on h200x2 --no-plots --bytes 4M --rounds 2",
        "iterate --on h200x2 --no-plots --bytes 4M --rounds 2 --json",
        "train --on h200x4 --samples 8192 --epochs 1",
        "train --on h200x4 --samples 8192 --epochs 1 --json",
        "derive m.csv",
        "derive m.csv --json",
        "derive m.csv -o other.conf",
        "verify p.conf --on h200x4 -n 2",
        "verify p.conf --on h200x4 -n 2 --json",
        "explain --policy p.conf --on h200x4",
        "explain --policy p.conf --on h200x4 --json",
        "explain --policy p.conf --on h200x4 --why 1M",
        "check p.conf --json",
        "replay --policy p.conf --trace t.csv",
        "replay --policy p.conf --trace t.csv --json",
        "plot m.csv",
        "report tuned.conf",
        "report tuned.conf --json",
        "record again --on h200x4 --no-overlap -b 1M -e 2M",
        "doctor",
        "doctor --json",
    };
    ASSERT_EQ(0, Run("sweep --on h200x4 --arms auto,ring/ll,ring/simple "
                     "--collective allgather -n 5 -o m.csv")
                     .status);
    Write("p.conf", "allgather,0,1048576,ring,ll,-1,-1,-1\n");
    Write("t.csv", "collective,bytes\nallgather,1048576\n");

    for (const char *command : commands) {
        SCOPED_TRACE(command);
        const int status =
            std::system(("cd '" + dir_.string() + "' && " STP_STEPTUNE " " +
                         command + " 2>err >/dev/full </dev/null")
                            .c_str());

        EXPECT_EQ(1, WEXITSTATUS(status));
        EXPECT_THAT(Read("err"), HasSubstr("cannot write to standard output"));
    }
}

// ---- machines ----

TEST_F(Cli, TakesAMachineByItsFolder)
{
    fs::create_directory(dir_ / "mine");
    for (const char *file : {"machine.csv", "graphs.xml"})
        fs::copy(fs::path(STP_FIXTURES "/machines/h200x4") / file,
                 dir_ / "mine" / file);

    EXPECT_THAT(Run("sweep --on ./mine -b 1M -e 1M").out,
                StartsWith("mine: 4 x NVIDIA H200"));
    Set("STEPTUNE_MACHINES", dir_);
    EXPECT_THAT(Run("sweep --on mine -b 1M -e 1M").out,
                StartsWith("mine: 4 x NVIDIA H200"));
}

TEST_F(Cli, SaysWhatIsWrongWithAMachine)
{
    fs::create_directory(dir_ / "empty");

    Outcome o = Run("sweep --on ./empty");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("machine.csv"));
}

} // namespace
