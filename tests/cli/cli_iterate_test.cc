// steptune iterate on recorded machines and on this machine's CPUs.
#include <csignal>
#include <iterator>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

const std::string kQuick = "iterate --on h200x2 --no-plots -n 3 ";

class Iterate : public Cli
{
  protected:
    // The lines of a CSV file that are rows.
    std::vector<std::string> Rows(const char *name) const
    {
        std::vector<std::string> rows;
        std::istringstream lines(Read(name));
        bool is_head = true;
        for (std::string line; std::getline(lines, line);) {
            if (line[0] == '#')
                continue;
            if (!is_head)
                rows.push_back(line);
            is_head = false;
        }
        return rows;
    }
};

TEST_F(Iterate, ComparesThreeConfigurationsAndWritesTheirTimes)
{
    Outcome o = Run("iterate --on h200x4 --no-plots --mode sequential "
                    "--bytes 4M --rounds 4 -n 25 -o results");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("h200x4: 4 x NVIDIA H200"));
    EXPECT_THAT(o.out, HasSubstr("recorded"));
    for (const char *arm : {"auto", "auto2", "simple", "ll128"}) {
        const std::string file =
            std::string("results/iteration_times_") + arm + ".txt";
        std::istringstream times(Read(file.c_str()));
        std::vector<double> ms{std::istream_iterator<double>(times), {}};
        EXPECT_EQ(100u, ms.size()) << arm;
        EXPECT_THAT(ms, Each(AllOf(Gt(.05), Lt(5)))) << arm;
        EXPECT_THAT(o.out, HasSubstr(arm));
    }
    EXPECT_EQ(16u, Rows("results/rounds.csv").size());
    EXPECT_EQ(4u, Rows("results/summary.csv").size());
    EXPECT_THAT(Read("results/summary.md"), HasSubstr("95"));
    EXPECT_NE(nullptr, Parse(Read("results/summary.json")));
}

TEST_F(Iterate, SaysTheSameTwiceWithOneSeed)
{
    Outcome a = Run(kQuick + "--bytes 4M,16M --json --seed 7");
    Outcome b = Run(kQuick + "--bytes 4M,16M --json --seed 7");
    Outcome c = Run(kQuick + "--bytes 4M,16M --json --seed 8");

    ASSERT_EQ(0, a.status) << a.err;
    EXPECT_EQ(a.out, b.out);
    EXPECT_NE(a.out, c.out);
    EXPECT_NE(nullptr, Parse(a.out));
}

/* ---- traces ---- */

const std::string kTrace = "--trace " STP_FIXTURES "/traces/";

// On four ranks the groups are two of two ranks each, whose times are modelled.
TEST_F(Iterate, PlaysAStepOfATrace)
{
    const struct {
        const char *machine;
        const char *trace;
        const char *head;
        const char *what;
        const char *arms;
    } cases[] = {
        {"h200x4", "groups.csv",
         "steptune CSV: 6 collectives, 3 GEMMs\n"
         "its step: 5 collectives, 3 GEMMs\n"
         "world on all 4; tp of 2 ranks on 2 groups of 2, 1 apart; dp of 2 "
         "ranks on 2 groups of 2, 2 apart\n\n",
         "compute alone 544.13 us, communication alone 251.96 us: ratio 2.16; "
         "modelled\n",
         "auto   ring/simple/24   762.79  762.77  762.89  763.01      1"},
        {"h200x4", "torch_ddp_et.json.gz",
         "step 2, of 2 that the trace has: 4 collectives, 8 GEMMs\n"
         "group 0 of 2 ranks on all 4\n\n",
         "most of its bytes by allreduce of 31502336 bytes, f32; ", "auto "},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(std::string(c.machine) + " " + c.trace);
        Outcome o =
            Run(std::string("iterate --no-plots --arms auto,ll128 --on ") +
                c.machine + " " + kTrace + c.trace);
        ASSERT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.out, StartsWith(std::string(c.machine) + ": "));
        EXPECT_THAT(o.out, HasSubstr(std::string("; trace ") + c.trace + "\n"));
        EXPECT_THAT(o.out, HasSubstr(c.head));
        EXPECT_THAT(o.out, HasSubstr(c.what));
        EXPECT_THAT(o.out, HasSubstr(c.arms));
        EXPECT_THAT(o.out, HasSubstr("ll128  ring/ll128/24 "));
    }
}

TEST_F(Iterate, OfATraceComparesAPolicyAndWritesItsFiles)
{
    Write("p.conf", "reducescatter,0,inf,ring,ll128,-1,-1,-1\n");

    Outcome o = Run("iterate --no-plots --on h200x2 -n 3 --rounds 2 -o dir "
                    "--arms auto --policy p.conf " +
                    kTrace + "groups.csv");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ(4u, Rows("dir/rounds.csv").size());
    EXPECT_THAT(Rows("dir/rounds.csv"), Each(HasSubstr(",trace,gemm,1,0,")));
    EXPECT_THAT(Read("dir/rounds.csv"), HasSubstr("; trace groups.csv\n"));
    EXPECT_THAT(Read("dir/summary.md"), HasSubstr("plugin"));
    EXPECT_NE(nullptr, Parse(Read("dir/summary.json")));

    Outcome derived = Run("derive dir/rounds.csv --objective iteration");
    EXPECT_EQ(1, derived.status);
    EXPECT_THAT(derived.err,
                HasSubstr("all 4 times of iterations are of traces"));
}

TEST_F(Iterate, RefusesATraceThatItCannotPlay)
{
    const struct {
        const char *text;
        const char *options;
        int status;
        const char *why;
    } cases[] = {
        {"collective,bytes\nallreduce,0\n", "", 1,
         "a step without a collective of at least a byte"},
        {"collective,bytes,comm,create,ranks\nallreduce,8,w,,\n"
         "allreduce,8,t,split w,0+3/1+2\n",
         "", 1, "communicator 't' of ranks that are not equally far apart"},
        {"collective,bytes\nallreduce\n", "", 1,
         "t.csv:2:1: 1 fields, expected 2 as in the header"},
        {"collective,bytes\nallreduce,8\n", "--bytes 4M", 2, "--trace with"},
        {"collective,bytes\nallreduce,8\n", "--find-regimes", 2,
         "it is the workload"},
        {"collective,bytes\nallreduce,8\n", "--gemm 8,8,8", 2, "--trace with"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.text);
        Write("t.csv", c.text);
        Outcome o =
            Run(std::string("iterate --on h200x4 --trace t.csv ") + c.options);
        EXPECT_EQ(c.status, o.status);
        EXPECT_THAT(o.err, HasSubstr(c.why));
    }
    EXPECT_EQ(1, Run("iterate --on h200x4 --trace nothing.csv").status);
}

TEST_F(Iterate, OfSeveralSettingsEachHasItsFiles)
{
    Outcome o = Run(kQuick + "--mode all --bytes 4M,16M "
                             "--ratio 0.5,1 --arms auto,ll128 "
                             "-o dir");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ(12u * 2, Rows("dir/summary.csv").size());
    EXPECT_EQ(12u * 2 + 4, Files("dir").size());
}

TEST_F(Iterate, MeasuresAPolicyThroughThePlugin)
{
    Write("p.conf", "allreduce,0,inf,ring,ll128,-1,-1,-1\n");

    Outcome o = Run(kQuick + "--bytes 64M --arms auto,ring/ll128 "
                             "--policy p.conf -o dir");

    ASSERT_EQ(0, o.status) << o.err;
    const std::string csv = Read("dir/summary.csv");
    EXPECT_THAT(csv, ContainsRegex(",plugin,ring,ll128,"));
    EXPECT_THAT(Files("dir"), Contains("iteration_times_plugin.txt"));
}

TEST_F(Iterate, RunsTrainingsMixOfKernels)
{
    Outcome o = Run(kQuick + "--compute training --mode fsdp "
                             "--bytes 16M --layers 3 --json");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out,
                AllOf(HasSubstr("\"training\""), HasSubstr("\"modelled\"")));
}

TEST_F(Iterate, TakesAProductInsteadOfARatio)
{
    Outcome o = Run(kQuick + "--gemm 4096,4096,1792 --place out "
                             "--bytes 16M --arms auto --json");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, AllOf(HasSubstr("1792"), HasSubstr("\"virtual\"")));
}

// The workloads are those that were recorded on 2 x H200: beside a GEMM of
// 4096 x 4096 x 1216 an all-reduce of 2 MiB is the fastest with 16 channels,
// alone with all of them.
TEST_F(Iterate, FindsTheRegimesThatWereRecorded)
{
    STP_SLOW();
    Outcome o = Run("iterate --on h200x2 --find-regimes");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ(
        "h200x2: 2 x NVIDIA H200, NCCL 2.28.9; a recorded machine in mock "
        "NCCL, "
        "not a live measurement\n"
        "\n"
        "In 2 of 42 settings the arm that is the fastest alone is not the one "
        "with the shortest iteration, by at least 1 percent.\n"
        "mode        collective  bytes  GEMM            ratio  fastest alone  "
        "shortest iteration   gain    95% interval  gain alone  times\n"
        "sequential  allreduce   4 MiB  4096x4096x640    1.02  simple         "
        "ll128               1.040  1.034 to 1.046       0.975  virtual\n"
        "overlap     allreduce   2 MiB  4096x4096x1216   1.98  ll128          "
        "ll128/16            1.025  1.020 to 1.029       0.925  virtual\n"
        "steptune.regimes/summary.md has all settings and arms, regimes.md "
        "these; derive a policy by `steptune derive "
        "steptune.regimes/rounds.csv --objective iteration`.\n",
        o.out);
    EXPECT_EQ("", o.err);
    EXPECT_EQ(6u * 42, Rows("steptune.regimes/summary.csv").size());
    EXPECT_EQ(2u, Rows("steptune.regimes/regimes.csv").size());
    EXPECT_THAT(Files("steptune.regimes"),
                ElementsAre("regimes.csv", "regimes.md", "rounds.csv",
                            "summary.csv", "summary.json", "summary.md"));

    // the same settings at a lower threshold, in a folder of their own
    o = Run("iterate --on h200x2 --find-regimes --min-gain 0.1%");
    EXPECT_THAT(o.out, AllOf(HasSubstr("\nIn 4 of 42 settings"),
                             HasSubstr("\noverlap     allreduce   16 MiB  "
                                       "8192x8192x832    1.93  auto "),
                             HasSubstr("\nsteptune.regimes.2/summary.md ")));
    EXPECT_EQ(4u, Rows("steptune.regimes.2/regimes.csv").size());
}

TEST_F(Iterate, ScansWhatIsAskedForOrAllModesWhereNothingWasRecorded)
{
    STP_SLOW();
    const struct {
        const char *arguments;
        size_t n_settings;
    } cases[] = {
        {"--on h200x2 --mode overlap,fsdp", 24},
        {"--on h200x2 --bytes 2M", 9},
        {"--on h200x2 --ratio 2", 12},
        {"--on h200x2 --layers 4", 36},
        {"--on h200x2 --gemm 4096,4096,1152", 12},
        {"--on h200x2 -d f32", 36}, // recorded were those of bf16
        {"--on a100x8", 36},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.arguments);
        Outcome o = Run("iterate --find-regimes --rounds 1 --no-plots --force "
                        "-o dir --arms auto,ll128 " +
                        std::string(c.arguments));

        EXPECT_EQ(0, o.status) << o.err;
        // some products are as short as can be, and measured once
        EXPECT_LE(Rows("dir/summary.csv").size(), 2 * c.n_settings);
        EXPECT_GE(Rows("dir/summary.csv").size(), 2 * c.n_settings * 5 / 6);
        EXPECT_THAT(o.out, HasSubstr("\ndir/summary.md has all settings"));
    }
}

// Within 10 percent of the ratio a recorded product is better than one of
// which the times are modelled.
TEST_F(Iterate, TakesARecordedProductThatIsNearEnough)
{
    const struct {
        const char *arguments;
        const char *k;
        const char *source;
    } cases[] = {
        {"--bytes 16M --ratio 2", ",8192,8192,832,", "virtual"}, // of 1.93
        {"--bytes 16M --ratio 1.76", ",8192,8192,832,", "virtual"},
        // the nearest are of 1.01 and 1.93
        {"--bytes 16M --ratio 1.5", ",8192,8192,640,", "virtual"},
        {"--bytes 2M --ratio 2", ",4096,4096,1216,", "virtual"},
        {"--bytes 3M --ratio 2", ",4096,4096,", "modelled"}, // of no size
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.arguments);
        Outcome o = Run("iterate --on h200x2 --arms auto,ring/ll128 --no-plots "
                        "--force -o dir " +
                        std::string(c.arguments));

        EXPECT_EQ(0, o.status) << o.err;
        EXPECT_THAT(Rows("dir/summary.csv"),
                    Each(AllOf(HasSubstr(c.k), EndsWith(c.source))));
    }
}

TEST_F(Iterate, SaysThatThereAreNoRegimes)
{
    Outcome o = Run(kQuick + "--find-regimes --mode sequential "
                             "--bytes 64M --ratio 1 "
                             "--arms auto,auto2,ring/simple "
                             "-o dir");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(Rows("dir/regimes.csv"), IsEmpty());
    EXPECT_THAT(o.out, HasSubstr("\n\nNone among 1 setting: nowhere is the "
                                 "arm that is the fastest alone sure to be at "
                                 "least 1 percent behind.\ndir/summary.md "));
}

TEST_F(Iterate, KeepsWhatAnEarlierRunWrote)
{
    ASSERT_EQ(0, Run(kQuick + "-o dir").status);
    const std::string before = Read("dir/rounds.csv");
    Write("dir/notes.txt", "mine");

    Outcome o = Run(kQuick + "--seed 5 -o dir");
    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("--force"));
    EXPECT_EQ(before, Read("dir/rounds.csv"));

    o = Run(kQuick + "--seed 5 --force -o dir");
    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_NE(before, Read("dir/rounds.csv"));
    EXPECT_EQ("mine", Read("dir/notes.txt"));
}

// ---- verify --iterate ----

const std::string kVerify = "verify p.conf --iterate --on h200x2 -n 5 ";

TEST_F(Iterate, VerifiesAPolicyByIterations)
{
    Write("p.conf", "allreduce,3M,5M,ring,ll128,-1,-1,-1\n");

    Outcome o = Run(kVerify + "--mode overlap,fsdp --bytes 4M,16M "
                              "--ratio 1 --table");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out,
                ContainsRegex("overlap x 8, ratio 1 +4194304 .*ring/ll128/24 +"
                              "faster"));
    EXPECT_THAT(o.out,
                ContainsRegex("overlap x 8, ratio 1 +16777216 .*NCCL's own +"
                              "same"));
    EXPECT_THAT(o.out, ContainsRegex("fsdp x 8, ratio 1 +4194304 .*same"));
    EXPECT_THAT(
        o.out,
        HasSubstr("\n4 workloads of 2 sizes: 1 faster, 3 as NCCL's own choice, "
                  "0 unsure, 0 slower; geometric mean of all gains 1.007, best "
                  "1.030 (overlap x 8, ratio 1, 4194304 bytes, virtual)\n"
                  "Every choice that is not NCCL's own is faster, with 95 "
                  "percent confidence in all of them together.\n"));
}

// The all-gathers run as without it, the reduce-scatters do not.
TEST_F(Iterate, SeesWhatAPolicyDoesToEitherCollectiveOfFsdp)
{
    Write("p.conf", "reducescatter,0,inf,ring,simple,1,-1,-1\n");

    Outcome o = Run(kVerify + "--mode fsdp --bytes 16M --ratio 1");

    EXPECT_EQ(1, o.status) << o.err;
    EXPECT_THAT(o.out, ContainsRegex("fsdp x 8, ratio 1 +16777216 .*"
                                     "ring/simple/1 +SLOWER"));
}

TEST_F(Iterate, FailsAPolicyThatMakesIterationsLonger)
{
    Write("p.conf", "allreduce,0,inf,ring,simple,1,-1,-1\n");

    Outcome o = Run(kVerify + "--mode sequential --bytes 16M "
                              "--gemm 4096,4096,1792");

    EXPECT_EQ(1, o.status) << o.err;
    EXPECT_THAT(o.out,
                ContainsRegex(
                    "sequential allreduce x 1, 4096 x 4096 x 1792 +16777216 .*"
                    "SLOWER"));
}

TEST_F(Iterate, VerifiesAsJson)
{
    Write("p.conf", "allreduce,3M,5M,ring,ll128,-1,-1,-1\n");

    Outcome o = Run(kVerify + "--mode overlap --bytes 4M "
                              "--ratio 1 --json");

    ASSERT_EQ(0, o.status) << o.err;
    const Json json = Parse(o.out);
    const cJSON *row =
        cJSON_GetArrayItem(cJSON_GetObjectItem(json.get(), "sizes"), 0);
    EXPECT_EQ("overlap", String(row, "mode"));
    EXPECT_EQ(8, Number(row, "layers"));
    EXPECT_EQ("faster", String(row, "verdict"));
}

TEST_F(Iterate, VerifyKeepsItsTwoKindsOfOptionsApart)
{
    Write("p.conf", "allreduce,0,inf,ring,ll128,-1,-1,-1\n");

    EXPECT_THAT(Run("verify p.conf --bytes 4M").err,
                HasSubstr("--bytes has no effect without --iterate"));
    EXPECT_THAT(Run("verify p.conf --iterate -b 4M").err,
                HasSubstr("-b has no effect with --iterate"));
}

// ---- what is wrong ----

TEST_F(Iterate, SaysWhatIsWrong)
{
    ExpectRefusals(
        "iterate ",
        {
            {"--mode overlapped", 2, "--mode 'overlapped', expected"},
            {"--mode overlap,overlap", 2, "--mode 'overlap,overlap', expected"},
            {"--bytes 0", 2, "--bytes '0', expected sizes such as 1M,16M"},
            {"--on h200x4 --bytes 1", 1,
             "a collective of 1 bytes, expected 2 or more, an element"},
            {"--sizes-bytes 1M,x", 2, "'x', expected sizes such as 1M,16M"},
            {"--ratio 0", 2, "--ratio '0', expected ratios from 0.001 to 1000"},
            {"--ratio nan", 2, "--ratio 'nan', expected"},
            {"--gemm 64,64", 2, "--gemm '64,64', expected three sides"},
            {"--gemm 64,64,64 --ratio 1", 2,
             "--ratio has no effect with --gemm"},
            {"--compute mix", 2, "--compute 'mix', expected gemm or training"},
            {"--layers 0", 2, "--layers '0'"},
            {"--place there", 2, "--place 'there', expected in or out"},
            {"--arms rnig", 2, "arm 'rnig', expected"},
            {"--on h200x4 -d int8 --bytes 1M", 1, "multiplies no matrices of"},
            {"--format gif", 2, "--format 'gif', expected png or svg"},
            {"--on h200x4 --policy none.conf", 1, "none.conf: "},
            {"--on h200x4 --plugin none.so", 1,
             "--plugin 'none.so': no such file"},
            {"--plugin " STP_ONE_CHANNEL " --on nowhere", 77, "nowhere"},
            {"extra", 2, "'extra', expected options only"},
            {"--on h200x4 --rounds 1000", 1, "was recorded in"},
            {"--procs 2,4", 2, "--procs with 2 numbers, expected one"},
            {"--on h100x8 --procs 2", 2,
             "--procs has no effect on a recorded machine"},
        });
}

TEST_F(Iterate, KeepsCompleteRoundsWhenInterrupted)
{
    pid_t child = Start("iterate --on h200x4 --no-plots --mode all -n 400 "
                        "--bytes 1M,2M,3M,4M,5M,6M,7M,8M,9M,10M,11M,12M "
                        "--ratio 0.5,0.6,0.7,0.8,0.9,1 --arms auto,ll128 "
                        "-o dir");
    WaitForFile("dir/rounds.csv");

    kill(-child, SIGINT);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"), MatchesRegex("steptune iterate: stopped after "
                                          "[0-9]+ of [0-9]+ rounds\n"));
    EXPECT_THAT(Read("out"), HasSubstr("ll128"));
    EXPECT_EQ(0u, Rows("dir/rounds.csv").size() % 2);
    EXPECT_NE(nullptr, Parse(Read("dir/summary.json")));
    EXPECT_THAT(Files("dir"), Each(Not(HasSubstr("tmp"))));
}

// ---- this machine's CPUs ----

class IterateOnCpus : public Iterate
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        if (Run("iterate --backend gloo --procs 1 --bytes 1K --rounds 1 -n 1")
                .status == 77)
            GTEST_SKIP() << "this build has no Gloo";
    }
};

const std::string kGloo = "iterate --backend gloo --no-plots -w 1 ";

TEST_F(IterateOnCpus, TimesIterationsOfProcesses)
{
    Outcome o = Run(kGloo + "--procs 2 --bytes 4K --rounds 2 -n 3 "
                            "--mode all --layers 2 -o dir");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("2 processes"));
    EXPECT_EQ(3u * 2 * 2, Rows("dir/rounds.csv").size());
}

// Rank 0, which is forked last, is the one that writes.
class DeathOnCpus : public IterateOnCpus,
                    public testing::WithParamInterface<bool>
{
};

TEST_P(DeathOnCpus, IsToldAndLeavesWholeFiles)
{
    const bool of_writer = GetParam();
    if (of_writer)
        STP_SLOW();
    pid_t child = Start(kGloo + "--procs 3 --bytes 64K "
                                "--rounds 100000 -n 5 -o dir");
    WaitForFile("dir/rounds.csv");
    const std::vector<pid_t> ranks = ChildrenOf(child);
    ASSERT_EQ(3u, ranks.size());

    kill(of_writer ? ranks.back() : ranks.front(), SIGKILL);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"),
                ContainsRegex(std::string("rank ") + (of_writer ? "0" : "1") +
                              " \\(process [0-9]+\\) was killed by signal 9"));
    EXPECT_EQ(1u, Count(Read("err"), "\n")) << Read("err");
    EXPECT_GE(Rows("dir/rounds.csv").size(), 2u);
    EXPECT_EQ(0u, Rows("dir/rounds.csv").size() % 2);
    EXPECT_EQ('\n', Read("dir/rounds.csv").back());
    if (!of_writer) {
        EXPECT_NE(nullptr, Parse(Read("dir/summary.json")));
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeathOnCpus, Bool(), [](const auto &i) {
    return i.param ? "writer" : "other";
});

// {0,1} {2,3} and {0,2} {1,3} over Gloo, in f32, which CPUs have.
TEST_F(IterateOnCpus, PlaysTheGroupsOfATrace)
{
    Write("t.csv", "collective,bytes,comm,create,ranks,m,n,k,stream\n"
                   "allreduce,4K,w,,,,,,\n"
                   "compute,,,,,16,16,16,\n"
                   "allgather,8K,tp,split w,0+1/2+3,,,,\n"
                   "reducescatter,8K,dp,split w,0+2/1+3,,,,comm\n");

    Outcome o = Run(kGloo + "--procs 4 --rounds 1 -n 2 -w 1 --trace t.csv "
                            "--arms auto -o dir");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("tp of 2 ranks on 2 groups of 2, 1 apart; dp "
                                 "of 2 ranks on 2 groups of 2, 2 apart\n"));
    EXPECT_THAT(Rows("dir/rounds.csv"),
                ElementsAre(AllOf(HasSubstr(",f32,"), HasSubstr(",trace,"))));
}

TEST_F(IterateOnCpus, StopsInOrderWhenInterrupted)
{
    pid_t child = Start(kGloo + "--procs 2 --bytes 64K "
                                "--rounds 100000 -n 5 -o dir");
    WaitForFile("dir/rounds.csv");

    kill(-child, SIGINT);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"), MatchesRegex("steptune iterate: stopped after "
                                          "[0-9]+ of 100000 rounds\n"));
    EXPECT_EQ(0u, Rows("dir/rounds.csv").size() % 2);
}

} // namespace
