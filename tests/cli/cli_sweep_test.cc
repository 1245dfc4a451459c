// steptune sweep on this machine's CPUs, and what it prints and saves.
#include <csignal>
#include <iterator>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

const std::string kGloo = "sweep --backend gloo --rounds 2 -n 3 -w 1 ";

// Size and #wrong, out of place and in place, of every row of nccl-tests' text.
std::vector<std::vector<std::string>> Rows(const std::string &text)
{
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::vector<std::string> w{std::istream_iterator<std::string>(words),
                                   {}};
        if (w.size() == 13 && isdigit(w[0][0]))
            rows.push_back({w[0], w[8], w[12]});
    }
    return rows;
}

class CliSweep : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        if (Run("sweep --backend gloo --procs 1 -b 8 -e 8 -n 1").status == 77)
            GTEST_SKIP() << "this build has no Gloo";
    }
};

TEST_F(CliSweep, PrintsWhatNcclTestsPrintAndSavesWhatItMeasured)
{
    Outcome o = Run(kGloo + "--procs 2 -b 1K -e 4K -o s.csv");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("# steptune version "));
    EXPECT_THAT(o.out, AllOf(HasSubstr("# 2 processes on "), HasSubstr("Gloo"),
                             HasSubstr("here and now"),
                             HasSubstr("# Out of bounds values : 0 OK"),
                             HasSubstr("# Avg bus bandwidth    : ")));
    EXPECT_THAT(Rows(o.out), ElementsAre(ElementsAre("1024", "0", "0"),
                                         ElementsAre("2048", "0", "0"),
                                         ElementsAre("4096", "0", "0")));
    // three sizes, two places, two rounds
    const std::string csv = Read("s.csv");
    EXPECT_THAT(csv, HasSubstr("# backend: gloo"));
    EXPECT_EQ(12u, Count(csv, "allreduce,"));
}

TEST_F(CliSweep, MeasuresOneNumberOfProcessesAfterTheOther)
{
    Outcome o = Run(kGloo + "--procs 1,3,2 -b 4K -e 4K --json");

    ASSERT_EQ(0, o.status) << o.err;
    const Json json = Parse(o.out);
    ASSERT_NE(nullptr, json);
    std::vector<int> ranks;
    const cJSON *row = nullptr;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(json.get(), "measurements"))
    {
        ranks.push_back(static_cast<int>(Number(row, "nRanks")));
        EXPECT_EQ(0, Number(row, "n_wrong"));
    }
    EXPECT_THAT(ranks, ElementsAre(1, 1, 1, 1, 3, 3, 3, 3, 2, 2, 2, 2));
}

TEST_F(CliSweep, TakesTypesOperationsRootsAndSteps)
{
    Outcome o = Run(kGloo + "--procs 2 --collective reduce "
                            "-d half -o max -r 1 -b 1000 -e 3000 "
                            "-i 1000 --format csv");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ(12u, Count(o.out, ",f16,max,1,"));
    for (const char *size : {"reduce,1000,", "reduce,2000,", "reduce,3000,"})
        EXPECT_EQ(4u, Count(o.out, size)) << size;
}

TEST_F(CliSweep, RoundsASizeUpToAnElementOfEveryRank)
{
    Outcome o = Run(kGloo + "--procs 3 --collective allgather "
                            "-b 8 -e 8");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(Rows(o.out), ElementsAre(ElementsAre("12", "0", "0")));
}

TEST_F(CliSweep, TakesAllTypesAndLeavesOutWhatTheBackendLacks)
{
    Outcome o = Run("sweep --backend gloo --procs 2 -b 8 -e 8 -n 1 -w 0 "
                    "--rounds 1 -d all -o min --format csv");

    ASSERT_EQ(0, o.status) << o.err;
    for (const char *type :
         {"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16"})
        EXPECT_EQ(2u, Count(o.out, "," + std::string(type) + ",min,")) << type;
    EXPECT_EQ("steptune sweep: left out: CPUs do not reduce fp8e4m3\n"
              "steptune sweep: left out: CPUs do not reduce fp8e5m2\n",
              o.err);
}

TEST_F(CliSweep, RefusesWhatTheBackendCannotDo)
{
    const struct {
        const char *arguments;
        int status;
        const char *text;
    } cases[] = {
        {"--procs 2 -r 2 --collective broadcast -e 8", 1,
         "root 2, expected one of the 2 ranks, from 0"},
        {"--procs 2 -d fp8e4m3 -b 8 -e 8", 1, "fp8e4m3"},
        {"--procs 2 --arms ring/ll -e 8", 1, "none can be forced on gloo"},
        {"--procs 2 -b 1M -e 1K", 2, "-b 1048576 is above -e 1024"},
        {"--procs 2 -e 100000G", 1, "memory"},
        {"--procs 2 -e 8 -o no/such/folder.csv", 2, "'no/such/folder.csv'"},
        {"--procs 0", 2, "--procs '0', expected a number from 1"},
        {"--procs 2 --format xml", 2, "--format 'xml', expected nccl"},
        {"--procs 2 -o summ", 2, "-o 'summ', expected sum"},
        {"--procs 2 -d int7", 2, "-d 'int7', expected all, i8"},
    };
    for (const auto &c : cases) {
        Outcome o = Run("sweep --backend gloo " + std::string(c.arguments));
        EXPECT_EQ(c.status, o.status) << c.arguments << o.err;
        EXPECT_THAT(o.err, HasSubstr(c.text)) << c.arguments;
        EXPECT_GE(c.status == 2 ? 2u : 1u, Count(o.err, "\n")) << o.err;
    }
}

TEST_F(CliSweep, SaysWhichRankDiedAndKeepsWhatItHad)
{
    pid_t child = Start(kGloo + "--procs 3 -b 8 -e 256M -o s.csv");
    WaitForFile("s.csv");
    const std::vector<pid_t> ranks = ChildrenOf(child);
    ASSERT_EQ(3u, ranks.size());

    kill(ranks.back(), SIGKILL);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"),
                ContainsRegex("rank [0-9] \\(process [0-9]+\\) was killed "
                              "by signal 9"));
    EXPECT_EQ(1u, Count(Read("err"), "\n")) << Read("err");
    EXPECT_GE(Count(Read("s.csv"), "allreduce,"), 4u);
}

TEST_F(CliSweep, StopsInOrderWhenInterrupted)
{
    STP_SLOW();
    pid_t child = Start(kGloo + "--procs 2 -b 8 -e 256M -o s.csv");
    WaitForFile("s.csv");

    kill(-child, SIGINT);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(
        Read("err"),
        MatchesRegex("steptune sweep: stopped after [0-9]+ of 26 sizes\n"));
    EXPECT_THAT(Read("out"), HasSubstr("# Avg bus bandwidth"));
    EXPECT_EQ(0u, Count(Read("s.csv"), "allreduce,") % 4);
}

TEST_F(Cli, SweepPrintsARecordedMachineAsNcclTestsDo)
{
    Outcome o = Run("sweep --on h200x4 --collective allreduce --arms auto "
                    "-b 1M -e 4M --format nccl");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("a recorded machine in mock NCCL"));
    EXPECT_THAT(Rows(o.out), ElementsAre(ElementsAre("1048576", "N/A", "N/A"),
                                         ElementsAre("2097152", "N/A", "N/A"),
                                         ElementsAre("4194304", "N/A", "N/A")));
}

TEST_F(Cli, SweepMeasuresTheSizesOfAList)
{
    for (const char *name : {"--bytes", "--sizes-bytes"}) {
        Outcome o = Run("sweep --on h200x4 --collective allreduce --arms auto "
                        "--format nccl " +
                        std::string(name) + " 100M,1M,10M");

        ASSERT_EQ(0, o.status) << o.err;
        EXPECT_THAT(Rows(o.out),
                    ElementsAre(ElementsAre("1048576", "N/A", "N/A"),
                                ElementsAre("10485760", "N/A", "N/A"),
                                ElementsAre("104857600", "N/A", "N/A")));
    }
}

TEST_F(Cli, SweepSaysWhichSizesCannotBe)
{
    const char *const both = "--bytes with a range of sizes, expected either "
                             "the list or -b, -e, -f and -i";

    ExpectRefusals(
        "sweep --on h200x4 --collective allreduce --bytes ",
        {
            {"1M,none", 2, "--bytes 'none', expected sizes such as 1M,10M"},
            {"1M,1024K", 2, "--bytes '1M,1024K', expected"},
            {"1M,10", 1,
             "--bytes 10, expected a multiple of 8: whole elements on all "
             "ranks"},
            {"1M -b 8", 2, both},
            {"1M -e 1M", 2, both},
            {"1M -f 4", 2, both},
            {"1M -i 1M", 2, both},
        });
}

TEST_F(Cli, SweepPrintsEveryArmAsNcclTestsDo)
{
    Outcome o = Run("sweep --on h200x4 --collective allreduce,allgather "
                    "--arms tree/simple,ring/ll128/8 -b 2M -e 4M -n 2 "
                    "--format nccl");
    std::vector<std::string> found;
    std::stringstream lines(o.out);

    ASSERT_EQ(0, o.status) << o.err;
    for (std::string line; std::getline(lines, line);)
        for (const char *begin : {"# Collective test starting: ", "# Arm: ",
                                  "# Source: ", "     2", "     4"})
            if (line.rfind(begin, 0) == 0)
                found.push_back(line[0] == '#' ? line : line.substr(5, 7));
    const char source[] = "# Source: interpolated, 8 iterations in 4 rounds";
    const char pass[] =
        "# Source: interpolated, single pass, 8 iterations in 4 rounds";
    EXPECT_THAT(found,
                ElementsAre("# Collective test starting: all_reduce_perf",
                            source, "2097152", "4194304", //
                            "# Collective test starting: all_gather_perf",
                            "# Arm: auto", source, "2097152", "4194304", //
                            "# Collective test starting: all_reduce_perf",
                            "# Arm: tree/simple", source, "2097152", "4194304",
                            "# Collective test starting: all_reduce_perf",
                            "# Arm: ring/ll128/8", pass, "2097152", "4194304",
                            "# Collective test starting: all_gather_perf",
                            "# Arm: ring/ll128/8", pass, "2097152", "4194304"));
    Write("s.txt", o.out);
    o = Run("derive s.txt --trust-passes");
    EXPECT_THAT(o.out, HasSubstr(": 10 interpolated, 10 of 10 in single "
                                 "passes\n"));
}

// The line of options says a turn's iterations, the line above a row all.
TEST_F(Cli, SweepSaysHowManyIterationsRan)
{
    const struct {
        const char *options;
        const char *head, *source;
    } cases[] = {
        {"-n 3", " iters: 3 agg iters: 1 validation: 0 graph: 0 rounds: 4\n",
         "# Source: interpolated, 12 iterations in 4 rounds\n"},
        {"-n 1 --rounds 1",
         " iters: 1 agg iters: 1 validation: 0 graph: 0 rounds: 1\n",
         "# Source: interpolated, 1 iteration in 1 round\n"},
    };

    for (const auto &c : cases) {
        Outcome o = Run(std::string("sweep --on h200x4 --collective allreduce "
                                    "--arms auto -b 2M -e 2M --format nccl ") +
                        c.options);
        EXPECT_THAT(o.out, HasSubstr(c.head));
        EXPECT_THAT(o.out, HasSubstr(c.source));
    }
}

TEST_F(Cli, SweepSaysWhereItRunsWithoutAGpu)
{
    Outcome o =
        Run("sweep --on h200x4 --collective allreduce -b 1M -e 1M --arms auto");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("h200x4: 4 x NVIDIA H200, NCCL 2.28.9; "
                                  "a recorded machine in mock NCCL"));
}

} // namespace
