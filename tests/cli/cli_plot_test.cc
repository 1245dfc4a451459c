// steptune plot, as a user runs it.
#include <regex>

#include "support/cli_fixture.h"
#include "support/written.h"

namespace
{

using namespace cli;
using namespace testing;

const std::string kText = STP_FIXTURES "/timings/h200x4_all_reduce_perf.txt";

class Plot : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        // What draws is tested in plot_test: here it copies the script.
        charts::WriteCopyist(dir_ / "copy");
        Set("STEPTUNE_GNUPLOT", (dir_ / "copy"));
    }
};

TEST_F(Plot, DrawsNcclTestsText)
{
    Outcome o = Run(std::string("plot ") + kText +
                    " --out plots --format both --title 'A_b'");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("plots/allreduce_busbw_vs_size.png\n"
              "plots/allreduce_busbw_vs_size.svg\n"
              "plots/allreduce_latency_vs_size.png\n"
              "plots/allreduce_latency_vs_size.svg\n",
              o.out);
    EXPECT_THAT(Read("plots/allreduce_busbw_vs_size.png"),
                HasSubstr("\ntitle = 'A_b: All-reduce bus bandwidth, 4 ranks "
                          "of NVIDIA H200, f32 sum'\n"));
    EXPECT_THAT(Read("plots/allreduce_busbw_vs_size.svg"),
                StartsWith("format = 'svg'\n"));
    EXPECT_THAT(Read("plots/allreduce_busbw_vs_size.gp"),
                HasSubstr("\ndata = 'allreduce_busbw_vs_size.tsv'\n"));
}

TEST_F(Plot, DrawsTheSameFromOurCsvAndJson)
{
    ASSERT_EQ(0,
              Run("sweep --on h200x4 --collective allgather -o s.csv").status);
    Write("s.json", Run("sweep --on h200x4 --collective allgather --json").out);

    EXPECT_EQ("allgather_busbw_vs_size.png\nallgather_latency_vs_size.png\n",
              Run("plot s.csv").out);
    EXPECT_EQ("json/allgather_busbw_vs_size.png\n"
              "json/allgather_latency_vs_size.png\n",
              Run("plot s.json --out json").out);

    const std::string csv = Read("allgather_busbw_vs_size.png");
    EXPECT_THAT(csv, HasSubstr("\ntitles[2] = 'ring/ll128'\n"));
    const std::string json = Read("json/allgather_busbw_vs_size.png");
    // CSV has three decimals of each time, which is data, and of its range
    const auto settings = [](const std::string &script) {
        return std::regex_replace(script.substr(script.find("\nEOD\n")),
                                  std::regex("\ny_(low|high) = [0-9.]*"), "");
    };
    EXPECT_EQ(settings(csv), settings(json));
}

TEST_F(Plot, StudiesSeveralFiles)
{
    const std::string head = "collective,bytes,round,algorithm,protocol,nNodes,"
                             "nRanks,median_us,type\n";
    Write("gloo.csv", "# backend: gloo\n" + head +
                          "allreduce,100000000,0,auto,auto,1,2,80000,f32\n");
    Write("mpi.csv", "# backend: mpi\n" + head +
                         "allreduce,100000000,0,auto,auto,1,2,40000,f32\n");

    Outcome o = Run("plot gloo.csv mpi.csv");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("full_results.md\ncombined_benchmark.csv\n"
              "summary_by_config.md\nanalysis.txt\n"
              "allreduce_time_vs_datasize.png\n"
              "allreduce_bandwidth_vs_datasize.png\n"
              "allreduce_backend_comparison_100mb.png\n"
              "allreduce_busbw_vs_size.png\nallreduce_latency_vs_size.png\n",
              o.out);
    EXPECT_THAT(Read("analysis.txt"),
                StartsWith("mpi is the fastest: 2.00 times as fast as gloo "));
    EXPECT_THAT(Read("full_results.md"),
                HasSubstr("| mpi | - | - | - | 2 | 1 | f32 |"));
    EXPECT_THAT(Read("combined_benchmark.csv"),
                AllOf(HasSubstr("\ngloo.csv,allreduce,gloo,"),
                      HasSubstr("\nmpi.csv,allreduce,mpi,")));
}

TEST_F(Plot, WithoutGnuplotSaysSoAndLeavesNothing)
{
    Set("STEPTUNE_GNUPLOT", "./no-such-gnuplot");

    Outcome o = Run(std::string("plot ") + kText);

    EXPECT_EQ(77, o.status);
    EXPECT_EQ("", o.out);
    EXPECT_EQ("steptune plot: cannot run './no-such-gnuplot' to draw plots (No "
              "such file or directory): install it (Debian: gnuplot-nox), or "
              "name it in STEPTUNE_GNUPLOT\n",
              o.err);
    EXPECT_THAT(Files(), ElementsAre("copy"));
}

TEST_F(Plot, ASignalThatEndsItLeavesNoTemporaryFile)
{
    for (const char *name : {"HUP", "INT", "TERM"}) {
        Write("copy", std::string("#!/bin/sh\nkill -") + name + " $PPID\n");

        Run(std::string("plot ") + kText);

        EXPECT_THAT(Files(), ElementsAre("copy")) << name;
    }
}

TEST_F(Plot, RefusesWhatItCannotRead)
{
    const std::string head = "collective,bytes,round,algorithm,protocol,nNodes,"
                             "nRanks,median_us\n";
    Write("good.csv", head + "allreduce,8,0,auto,auto,1,2,5\n");
    Write("bad.csv", head + "x\n");
    Write("journal.csv",
          "t_us,comm,nNodes,nRanks,event,call,collective,min_bytes,max_bytes,"
          "algorithm,protocol,channels,value,gain,gain_low,gain_high\n");
    Write("bad.json", "{nothing}\n");
    Write("bad.txt", "# Collective test starting: alltoall_perf\n");
    Write("old.txt", "# nThread 1 nGpus 1\n#   Rank  0 Pid 1 on a device 0\n"
                     "#  size  count  type  time  algbw  busbw\n8 2 float 1 1 "
                     "1\n");

    ExpectRefusals(
        "plot ",
        {
            {"", 2, "no measurements, expected files of `steptune sweep`"},
            {"no.csv", 1, "no.csv: "},
            {"bad.csv", 1, "bad.csv:2:1: 1 fields, expected 8"},
            {"bad.json", 1, "bad.json:1:"},
            {"bad.txt", 1, "bad.txt:1:29: test 'alltoall_perf'"},
            {"old.txt", 1,
             "old.txt:4:1: a row without what collective it is of"},
            {"x.csv --format jpg", 2,
             "--format 'jpg', expected png, svg or both"},
            {"x.csv --curves 33", 2,
             "--curves '33', expected a number from 1 to 32"},
            {"x.csv --collective alltoall", 2,
             "--collective 'alltoall', expected one of broadcast"},
            {"good.csv journal.csv", 1,
             "journal.csv: a journal, which has no plots: `steptune run "
             "--online` prints what a job learned"},
            {"good.csv --out good.csv/x", 2,
             "-o 'good.csv/x' has no place: there is no folder 'good.csv'"},
            {"good.csv --collective allreduce", 1,
             "good.csv: measurements of Steptune, which name their "
             "collectives, expected text of nccl-tests for --collective"},
        });
    EXPECT_EQ(0, Run("plot old.txt --collective allreduce").status);
}

} // namespace
