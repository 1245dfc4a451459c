// steptune plot of results of training, as a user runs it: a part of
// train_charts_test.
extern "C" {
#include "report/training/train_json.h"
}

#include "report/training/train_chart_cases.h"
#include "support/cli_fixture.h"
#include "support/written.h"

namespace
{

using made_up::Charts;
using made_up::Runs;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class PlotTraining : public cli::Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        charts::WriteCopyist(dir_ / "copy");
        setenv("STEPTUNE_GNUPLOT", (dir_ / "copy").c_str(), 1);
    }
    void TearDown() override
    {
        unsetenv("STEPTUNE_GNUPLOT");
        Cli::TearDown();
    }

    // The file that `steptune train` would have written.
    void WriteResults(const char *name, const Runs &runs)
    {
        Write(name,
              Written([&](FILE *fp) { stp_train_print_json(&runs.all, fp); }));
    }
};

TEST_F(PlotTraining, DrawsWhatThereIsAndNamesWhatThereIsNot)
{
    Runs runs;
    runs.Add({"single", "base", "fp32", 1}, {8, 8});
    runs.Add({"bucketed", "base", "fp32", 2}, {5, 5});
    runs.Add({"bucketed", "base", "fp32", 2}, {5, 5}).batch = 64;
    WriteResults("r.json", runs);

    cli::Outcome o = Run("plot r.json -o charts --format both");

    EXPECT_EQ(0, o.status);
    EXPECT_EQ("charts/train_summary.txt\n"
              "charts/train_scaling.png\ncharts/train_scaling.svg\n"
              "charts/train_overhead_base.png\n"
              "charts/train_overhead_base.svg\n"
              "charts/train_loss.png\ncharts/train_loss.svg\n"
              "charts/train_throughput.png\ncharts/train_throughput.svg\n",
              o.out);
    EXPECT_EQ("steptune plot: no train_precision: no two precisions of one "
              "model on as many GPUs\n"
              "steptune plot: no train_accumulation: no two numbers of "
              "micro-batches (`steptune train --ga`) of one model, precision, "
              "mode and number of GPUs\n"
              "steptune plot: no train_modes: no two modes of one model, "
              "precision and number of GPUs\n"
              "steptune plot: no train_hardware: no two models of GPU that ran "
              "the same (give the files of each)\n"
              "steptune plot: 1 run is in no chart: batch, samples, "
              "gradients, buckets, learning rate or seed is not that of most\n",
              o.err);
    EXPECT_THAT(Read("charts/train_scaling.svg"),
                AllOf(StartsWith("format = 'svg'\n"),
                      HasSubstr("'Training: scaling, Made-up GPU'")));
    EXPECT_THAT(Read("charts/train_scaling.svg"),
                HasSubstr("\n1\tbase\t2\t1.6\t1.6\t1.6\n"));
    EXPECT_THAT(Read("charts/train_summary.txt"),
                AllOf(StartsWith("Made-up GPU\nmade up: no machine ran this\n"),
                      HasSubstr("bucketed  fp32")));
}

TEST_F(PlotTraining, ComparesTheHardwareOfSeveralFiles)
{
    for (const char *gpu : {"A", "B"}) {
        Runs runs;
        runs.Add({"single", "base", "fp32", 1, 1, gpu}, {8, 8});
        WriteResults(*gpu == 'A' ? "a.json" : "b.json", runs);
    }

    cli::Outcome o = Run("plot b.json a.json");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("train_summary.txt\ntrain_hardware.png\n", o.out);
    EXPECT_EQ(7u, cli::Count(o.err, "steptune plot: no train_"));
    EXPECT_THAT(Read("train_summary.txt"),
                AllOf(StartsWith("B\n"), HasSubstr("\n\nA\n")));
}
// gnuplot itself, where it is installed, takes all scripts without a word.
TEST_F(PlotTraining, GnuplotTakesTheScripts)
{
    if (!charts::HasGnuplot())
        GTEST_SKIP() << "no gnuplot here";
    Runs runs;
    made_up::AddMatrix(runs, "Card <B> & 'C'");
    Charts charts(runs);
    stp_error err{};

    for (size_t i = 0; i < charts.all.n; i++) {
        const stp_train_chart &chart = charts.all.all[i];
        std::string name = Charts::Name(chart) + ".svg";
        if (chart.why != nullptr)
            continue;
        stp_chart made;
        stp_train_chart_make(&runs.all, &chart, &made);
        const std::string script = Written(
            [&](FILE *fp) { stp_chart_write(&made, STP_PLOT_SVG, fp); });
        EXPECT_EQ(STP_OK, stp_chart_save(&made, STP_PLOT_SVG, nullptr,
                                         (dir_ / name).c_str(), &err))
            << err.text;
        stp_chart_free(&made);
        std::string svg = Read(name.c_str());
        EXPECT_THAT(svg, StartsWith("<?xml")) << name;
        EXPECT_THAT(svg, HasSubstr("</svg>")) << name;
        // well-formed as far as can be told without a parser: what a title
        // brings is escaped, and what opens closes
        EXPECT_THAT(svg, Not(HasSubstr("<B>"))) << name;
        EXPECT_EQ(cli::Count(svg, "<g "), cli::Count(svg, "</g>")) << name;
        EXPECT_EQ(cli::Count(svg, "<text"), cli::Count(svg, "</text>")) << name;
        if (name == "train_modes.svg") { // no first bar has a speed-up
            EXPECT_EQ(cli::Count(script, "x\n"), cli::Count(svg, "x</text>"));
        }
    }
}

} // namespace
