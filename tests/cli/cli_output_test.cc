// What a person reads: the short outputs to the letter, and what becomes of
// them on a terminal.
#include <pty.h>
#include <sys/ioctl.h>

#include <regex>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

const std::string kMachine = "h200x4: 4 x NVIDIA H200, NCCL 2.28.9; a recorded "
                             "machine in mock NCCL, not a live measurement\n";

class Output : public Cli
{
  protected:
    // The policy of a sweep of all-gather.
    void Derive()
    {
        ASSERT_EQ(0, Run("sweep --on h200x4 --collective allgather -b 2M -e "
                         "32M -f 2 -o s.csv")
                         .status);
        derived_ = Run("derive s.csv -o p.conf");
        ASSERT_EQ(0, derived_.status) << derived_.err;
    }

    // Runs it on a terminal that is so wide.  Standard output and error as they
    // come, with "\n" for the terminal's "\r\n".
    std::string RunOnTerminal(const std::string &arguments, unsigned columns)
    {
        const std::string command =
            "cd '" + dir_.string() + "' && exec " STP_STEPTUNE " " + arguments;
        struct winsize size = {24, static_cast<unsigned short>(columns), 0, 0};
        int terminal = -1;
        pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
        if (child == 0) {
            unsetenv("COLUMNS");
            execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
            _exit(127);
        }
        std::string text;
        char part[4096];
        for (ssize_t n; (n = read(terminal, part, sizeof(part))) > 0;)
            text.append(part, static_cast<size_t>(n));
        close(terminal);
        EXPECT_EQ(0, Wait(child)) << text;
        return std::regex_replace(text, std::regex("\r\n"), "\n");
    }

    // With names for folders that differ from run to run.
    std::string WithoutPaths(const std::string &text) const
    {
        const std::string here = std::regex_replace(
            text, std::regex("=" + fs::canonical(dir_).string() + "/"),
            "=HERE/");
        return std::regex_replace(
            here, std::regex("=[^\n]*/(libnccl-tuner[^\n]*)"), "=LIBRARIES/$1");
    }

    // What stays of it on the screen.
    static std::string Screen(const std::string &text)
    {
        return std::regex_replace(text, std::regex("\r[^\n\r]*\x1b\\[K"), "");
    }

    Outcome derived_;
};

// What stands before the first table.
std::string Head(const std::string &text)
{
    return text.substr(0, text.find("\ncollective "));
}

// However lines are broken.
std::string Words(const std::string &text)
{
    return std::regex_replace(text, std::regex("[ \n]+"), " ");
}

std::string WithoutFirstLine(const std::string &text)
{
    return text.substr(text.find('\n') + 1);
}

// ---- to the letter ----

TEST_F(Output, OfTuneIsWhatChangesAndHowToUseIt)
{
    Outcome o = Run("tune --on h200x4 --collective allgather -b 2M -e 32M "
                    "--no-iterate -o my.conf");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ(
        kMachine +
            "\n"
            "Where the policy changes what NCCL runs, and the largest gain "
            "there:\n"
            "\n"
            "collective    from      to  runs          gain    95% interval    "
            "  at  times\n"
            "allgather   2.378M  26.91M  ring/ll128  1.422x  1.415 to 1.429  "
            "3.084M  interpolated\n"
            "\n"
            "17 sizes: 13 faster, 4 as NCCL's own choice, 0 unsure, 0 slower; "
            "geometric mean of all gains 1.135\n"
            "Every choice that is not NCCL's own is faster, with 95 percent "
            "confidence in all of them together.\n"
            "\n"
            "Wrote my.conf (1 rule), my.report.txt (every size and arm) and "
            "my.report.html.\n"
            "Run a job with it:  steptune run --policy my.conf -- COMMAND\n"
            "or, without steptune run:\n"
            "  export NCCL_TUNER_PLUGIN=LIBRARIES/libnccl-tuner-steptune.so\n"
            "  export NCCL_TUNER_CONFIG_FILE=HERE/my.conf\n",
        WithoutPaths(o.out));
}

TEST_F(Output, OfTuneOffersNoPolicyWithoutRules)
{
    Outcome o = Run("tune --on h200x4 --collective allgather -b 2M -e 32M "
                    "--no-iterate --min-gain 90% -o my.conf");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ(kMachine + "\n"
                         "The policy has no rule: no arm is faster than NCCL's "
                         "own choice by 90 percent or more beyond doubt.\n"
                         "\n"
                         "11 sizes: 0 faster, 11 as NCCL's own choice, 0 "
                         "unsure, 0 slower; geometric mean of all gains 1.000\n"
                         "\n"
                         "Wrote my.conf (0 rules), my.report.txt (every size "
                         "and arm) and my.report.html.\n",
              o.out);
}

// The overlap of a run of 2 ranks and 4 was measured on 2 alone.
TEST_F(Output, OfTuneSaysOfHowManyRanksGainsAre)
{
    STP_SLOW();
    Outcome o = Run("tune --on h200x4 --ranks 2,4 --collective allreduce "
                    "-o my.conf");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out,
                ContainsRegex("\ncollective  ranks .*\nallreduce       2 "
                              ".*\nallreduce       4 "));
    EXPECT_THAT(
        o.out, ContainsRegex("\ncollective              ranks .*\noverlap x 8, "
                             "ratio 0.5      2 "));
}

TEST_F(Output, OfTuneSaysWhyOverlapHasNoRuleAndThenSelectsNone)
{
    STP_SLOW();
    const struct {
        const char *arguments;
        const char *paragraph;
        bool selects;
    } cases[] = {
        {"--on h200x2 --collective allreduce",
         ", by the time of training iterations:\n\ncollective ", true},
        {"--on h200x4 -b 1M -e 8M",
         " there is no rule: 524 of 612 times are modelled, and a model "
         "decides "
         "nothing; by the others no arm makes iterations shorter beyond doubt "
         "at any size; NCCL's own choice stands.\n",
         false},
        {"--on h200x4 --collective allgather -b 4M -e 4M",
         " there is no rule: all-reduces, or all-gathers and reduce-scatters, "
         "of 2 to 64 MiB were not swept; NCCL's own choice stands.\n",
         false},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.arguments);
        Outcome o = Run(std::string("tune -o my.conf ") + c.arguments);

        ASSERT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.out,
                    HasSubstr("\nWhere communication overlaps with compute" +
                              std::string(c.paragraph)));
        EXPECT_EQ(c.selects ? 1u : 0u,
                  Count(o.out, "export NCCL_WORKLOAD_OVERLAP=1"));
    }
}

TEST_F(Output, OfDeriveEndsWithWhatWasWritten)
{
    Derive();

    EXPECT_EQ("From times of h200x4 (NVIDIA H200, NCCL 2.28.9): 4 of "
              "80 recorded, 76 of 80 interpolated, 8 of 80 in single passes\n"
              "4 rounds; AUTO spreads by 0.25 percent (worst size 0.54); drift "
              "from first to last third -0.21 percent (worst size +0.60); "
              "gains from 0.87 percent up stand out from noise\n"
              "\n"
              "collective  min bytes  max bytes  nodes  ranks  choice      "
              "sizes           gains\n"
              "allgather     2965821   23726566      1      4  ring/ll128      "
              "3  1.056 to 1.371\n"
              "\n"
              "1 rule from 80 measurements, written to p.conf\n",
              derived_.out);
}

TEST_F(Output, OfVerifyIsARowForEachRangeThatChanges)
{
    Derive();

    Outcome o = Run(
        "verify p.conf --on h200x4 --collective allgather -b 2M -e 32M -f 2");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ(kMachine +
                  "4 rounds; AUTO spreads by 0.29 percent (worst size 1.00); "
                  "drift from first to last third +0.19 percent (worst size "
                  "+1.57); gains from 0.75 percent up stand out from noise\n"
                  "1 of 1 rules apply to it\n"
                  "\n"
                  "Where the policy changes what NCCL runs, and the largest "
                  "gain there:\n"
                  "\n"
                  "collective    from      to  runs          gain    95% "
                  "interval  at  times\n"
                  "allgather   2.828M  22.63M  ring/ll128  1.365x  1.351 to "
                  "1.380  4M  interpolated\n"
                  "\n"
                  "11 sizes: 7 faster, 4 as NCCL's own choice, 0 unsure, 0 "
                  "slower; geometric mean of all gains 1.101\n"
                  "Every choice that is not NCCL's own is faster, with 95 "
                  "percent confidence in all of them together.\n",
              o.out);
}

TEST_F(Output, OfVerifyShowsWhereAPolicyIsSlower)
{
    Write("p.conf", "allgather,4M,16M,ring,simple,-1,-1,-1\n"
                    "allreduce,4M,4M,tree,simple,-1,-1,-1\n");

    Outcome o = Run("verify p.conf --on h200x4 --collective "
                    "allgather,allreduce -b 4M -e 8M -f 2");

    EXPECT_EQ(1, o.status) << o.err;
    EXPECT_EQ(
        kMachine +
            "4 rounds; AUTO spreads by 0.41 percent (worst size 0.52); drift "
            "from first to last third +0.17 percent (worst size +0.73); gains "
            "from 0.81 percent up stand out from noise\n"
            "2 of 2 rules apply to it\n"
            "\n"
            "Where the policy changes what NCCL runs, and the largest gain "
            "there:\n"
            "\n"
            "collective  from  to  runs           gain    95% interval  at  "
            "times\n"
            "allreduce     4M  4M  tree/simple  0.403x  0.399 to 0.407  4M  "
            "interpolated\n"
            "\n"
            "Slower than NCCL's own choice:\n"
            "\n"
            "collective    bytes  AUTO us  tuned us   gain    95% interval  "
            "AUTO           choice          verdict  times\n"
            "allreduce   4194304    44.27    109.87  0.403  0.399 to 0.407  "
            "ring/ll128/24  tree/simple/24  SLOWER   interpolated\n"
            "\n"
            "7 sizes: 0 faster, 6 as NCCL's own choice, 0 unsure, 1 slower; "
            "geometric mean of all gains 0.878\n",
        o.out);
}

TEST_F(Output, OfVerifySaysThatAPolicyChangesNothing)
{
    Write("my.conf", "allreduce,1K,1K,ring,ll,-1,-1,-1\n");
    Outcome o = Run("verify my.conf --on h200x4 -b 1K -e 1K");
    EXPECT_THAT(o.out,
                HasSubstr("\n3 sizes: 0 faster, 3 as NCCL's own choice, 0 "
                          "unsure, 0 slower; geometric mean of all gains "
                          "1.000\nThe plugin chose nothing else than NCCL at "
                          "any of these sizes: the rules name what NCCL "
                          "chooses anyway, or the plugin followed none of "
                          "them, and NCCL_DEBUG=INFO tells why.\n"));
}

TEST_F(Output, OfExplainIsWhatThePolicyDecides)
{
    Write("p.conf", "allgather,4M,16M,ring,ll128,-1,-1,-1\n");

    Outcome o = Run("explain --policy p.conf --on h200x4");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ("\n"
              "collective  from bytes  to bytes  AUTO         choice      "
              "channels  decided by\n"
              "allgather      4194304  16777216  ring/simple  ring/ll128       "
              " 24  p.conf:1\n"
              "\n"
              "1 of 13 ranges; NCCL's own choice stands in the others, which "
              "--table prints, too.\n",
              WithoutFirstLine(o.out));
    o = Run("explain --policy p.conf --on h200x4 --collective reduce");
    EXPECT_EQ(
        "\n"
        "NCCL's own choice stands in all 2 ranges, which --table prints.\n",
        WithoutFirstLine(o.out));
}

TEST_F(Output, OfSweepIsTheBestArmOfEachSize)
{
    Outcome o = Run(
        "sweep --on h200x4 --collective allgather -b 2M -e 8M -f 2 -o s.csv");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ(kMachine +
                  "\n"
                  "collective    bytes  AUTO us  algbw GB/s  AUTO            "
                  "best arm       us   gain    95% interval  times\n"
                  "allgather   2097152    22.54       93.03  ring/ll/24      "
                  "ring/ll     22.53  1.001  0.993 to 1.009  interpolated\n"
                  "allgather   4194304    40.10      104.59  ring/simple/24  "
                  "ring/ll128  29.25  1.371  1.356 to 1.386  interpolated\n"
                  "allgather   8388608    48.49      173.00  ring/simple/24  "
                  "ring/ll128  40.04  1.211  1.206 to 1.216  interpolated\n"
                  "4 rounds; AUTO spreads by 0.52 percent (worst size 0.54); "
                  "drift from first to last third -0.33 percent (worst size "
                  "+0.46); gains from 0.92 percent up stand out from noise\n"
                  "\n"
                  "2 of 3 sizes have an arm that is faster than NCCL's own "
                  "choice beyond doubt, by up to 1.371x (allgather, 4194304 "
                  "bytes); --format table prints every arm.\n"
                  "Wrote 48 measurements to s.csv.\n",
              o.out);
}

// ---- on a terminal ----

TEST_F(Output, OnATerminalLosesOnlyColumnsThatItNames)
{
    Derive();
    const std::string verify = "verify p.conf --on h200x4 --collective "
                               "allgather -b 2M -e 32M -f 2 --table";
    const std::string piped = Run(verify).out;

    EXPECT_EQ(piped, Screen(RunOnTerminal(verify, 200)));

    const std::string narrow = Screen(RunOnTerminal(verify, 80));
    EXPECT_EQ(Count(piped, "\nallgather "), Count(narrow, "\nallgather "));
    EXPECT_THAT(narrow, HasSubstr("\nLeft out of 80 columns of this terminal: "
                                  "tuned us, AUTO, choice\n"));
    std::stringstream lines(narrow);
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), 80u) << line;
    EXPECT_EQ(Words(Head(piped)), Words(Head(narrow)));

    Set("COLUMNS", "100");
    EXPECT_EQ(piped, Run(verify).out) << "no terminal";
}

TEST_F(Output, OfProgressIsGoneBeforeTheResult)
{
    const std::string learn =
        "learn --on h200x4 --strategies halving --steps 20 --seeds 3";
    const std::string text = RunOnTerminal(learn, 200);

    EXPECT_THAT(text, HasSubstr("\r[##                  ] 1 of 9 jobs"));
    EXPECT_EQ(Run(learn).out, Screen(text));
}

// Into one file, as `steptune ... >log 2>&1` does.
TEST_F(Output, OfErrorsComesWhereItBelongs)
{
    Derive();
    const std::string derive = "derive s.csv --min-gain 0.1%";
    const Outcome apart = Run(derive);
    ASSERT_THAT(apart.err, StartsWith("steptune derive: warning: "));

    Run(derive + " >log 2>&1; true");

    EXPECT_EQ(apart.out + apart.err, Read("log"));
}

} // namespace
