// From measurements to curves, gnuplot's scripts and pictures.
#include "report/charts/plots.h"

#include <unistd.h>

extern "C" {
#include "report/charts/plot.h"
}

#include "support/charts.h"
#include "support/in_folder.h"

namespace
{

using namespace plots;
using charts::Array;
using charts::Blocks;
using charts::Essence;
using charts::Legend;
using charts::Setting;
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kMib = 1 << 20;

std::string Script(const stp_curves &curves, const stp_plot &plot,
                   stp_plot_format format = STP_PLOT_PNG)
{
    return charts::Script(
        [&](stp_chart *chart) { stp_plot_make(&curves, &plot, chart); },
        format);
}

// The titles that the legend has, in order.
// ---- curves ----

TEST(CurvesOfFiles, AverageTheRoundsOfEachSize)
{
    Curves c({Head("m", "", "", "gloo") +
              Row("allreduce", 64, 1, "auto,auto", 2, 30) +
              Row("allreduce", 8, 0, "auto,auto", 2, 5) +
              Row("allreduce", 64, 0, "auto,auto", 2, 10) +
              Row("allreduce", 64, 0, "ring,ll", 2, 7)});

    ASSERT_EQ(2u, c.all.n_curves);
    const stp_curve &a = c.all.curves[0];
    ASSERT_EQ(2u, a.n_points);
    EXPECT_EQ(8u, a.points[0].n_bytes);
    EXPECT_EQ(1u, a.points[0].n_rounds);
    EXPECT_EQ(0, a.points[0].noise);
    EXPECT_EQ(2u, a.points[1].n_rounds);
    EXPECT_DOUBLE_EQ(20, a.points[1].us.mean);
    EXPECT_DOUBLE_EQ(20, a.points[1].us.median);
    // all of round 0 and 90 or 98 percent of round 1, whose p95 is 37.5
    EXPECT_NEAR(30 + 7.5 * 40 / 45, a.points[1].us.p95, 0.2);
    EXPECT_NEAR(37.5 + 7.5 * 3 / 4, a.points[1].us.p99, 0.4);
    EXPECT_DOUBLE_EQ(9, a.points[1].us.min) << "of all rounds";
    EXPECT_EQ(120u, a.points[1].n_iterations);
    EXPECT_DOUBLE_EQ(0.70710678118654752, a.points[1].noise);
    EXPECT_EQ(0, a.points[1].n_wrong);
    EXPECT_EQ(STP_ARM_FORCED, c.all.curves[1].like.arm.kind);
    EXPECT_EQ(&a.points[1], stp_curve_at(&a, 64));
    EXPECT_EQ(nullptr, stp_curve_at(&a, 63));
}

TEST(CurvesOfFiles, AreOfOneFilePlaceAndNumberOfRanksEach)
{
    const std::string head = Head("m", "", "", "gloo");
    Curves c({head + Auto(64, 2, 1) + Auto(64, 4, 1) +
                  Row("allreduce", 64, 0, "auto,auto", 2, 1, true),
              head + Auto(64, 2, 1)});

    ASSERT_EQ(4u, c.all.n_curves);
    EXPECT_STREQ("x/a.csv", c.all.curves[0].file);
    EXPECT_STREQ("b.csv", c.all.curves[1].file);
    EXPECT_TRUE(c.all.curves[2].like.in_place);
    EXPECT_EQ(4u, c.all.curves[3].like.n_ranks);
}

// ---- scripts ----

std::string Small()
{
    return Head("it's_m", "NVIDIA A100", "2.28.9", "nccl") +
           Row("allreduce", kMib, 0, "auto,auto", 4, 100) +
           Row("allreduce", 4 * kMib, 0, "auto,auto", 4, 200) +
           Row("allreduce", kMib, 0, "ring,ll", 4, 50) +
           Row("allreduce", 4 * kMib, 0, "ring,ll", 4, 400);
}

TEST(Script, OfBandwidthIsExact)
{
    Curves c({Small()});
    const std::string s = Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllReduce, 8});

    EXPECT_THAT(s, StartsWith("format = 'png'\n$data << EOD\n"
                              "#curve\tbytes\tbusbw_gbps\tmedian_us\tmean_ms\t"
                              "source\n"));
    EXPECT_GOLDEN("allreduce_busbw_vs_size", Essence(s));
    EXPECT_THAT(s, HasSubstr("\n# lines.gp - "));
}

TEST(Script, OfLatencyIsLogarithmicInMedians)
{
    Curves c({Small()});

    std::string s = Script(c.all, {STP_PLOT_LATENCY, ncclFuncAllReduce, 8});

    EXPECT_EQ("'Median time (us)'", Setting(s, "ylabel"));
    EXPECT_EQ("1", Setting(s, "always_log"));
    EXPECT_EQ("4", Setting(s, "y_column"));
    EXPECT_THAT(Legend(s), ElementsAre("auto", "ring/ll"));
}

TEST(Script, NothingInATitleEndsItsQuotes)
{
    Curves c({Head("m", "a 'b' `date` \\", "", "nccl") + Auto(8, 2, 1)});

    EXPECT_THAT(
        Setting(Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllReduce, 8}), "title"),
        HasSubstr("a ''b'' `date` \\"));
}

TEST(Script, NothingInALabelIsACommentOrAFieldOfItsOwn)
{
    const std::string backend = "# a\t\"b\" #c";
    Curves c({Head("m", "", "", backend) + Auto(8, 2, 1) + Auto(8, 4, 1)});

    EXPECT_THAT(Blocks(Script(c.all, {STP_PLOT_STUDY_TIME, 0, 8})),
                ElementsAre(HasSubstr("  a  b   c, 2 processes 8 "),
                            HasSubstr("  a  b   c, 4 processes 8 ")));
}

TEST(Script, HasAutoAndTheArmsThatAreFastestAtMostSizes)
{
    std::string text = Head("m", "", "", "nccl");
    for (uint64_t n : {8, 16, 32, 64}) {
        text += Row("allreduce", n, 0, "auto,auto", 2, 50);
        text += Row("allreduce", n, 0, "ring,ll", 2, n <= 8 ? 10 : 90);
        text += Row("allreduce", n, 0, "tree,ll", 2, n > 16 ? 10 : 800);
        text += Row("allreduce", n, 0, "ring,ll128", 2, 45);
        text += Row("allreduce", n, 0, "ring,simple", 2, 500);
        text += Row("allgather", n, 0, "ring,simple", 2, 1);
    }
    Curves c({text});

    EXPECT_THAT(Legend(Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllReduce, 4})),
                ElementsAre("auto", "tree/ll", "ring/ll128", "ring/ll"));
    EXPECT_THAT(Legend(Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllGather, 4})),
                ElementsAre("ring/simple"));
}

TEST(Script, LabelsSayAsMuchAsTellsCurvesApart)
{
    const std::string gloo = Head("m", "", "", "gloo") + Auto(8, 2, 1);
    const std::string mpi = Head("m", "", "", "mpi") + Auto(8, 2, 1);
    // clang-format off
    const struct {
        std::vector<std::string> files;
        const char *one, *other;
    } cases[] = {
        {{gloo + Auto(8, 4, 1)}, "auto, 2 ranks", "auto, 4 ranks"},
        {{gloo, mpi}, "auto, gloo", "auto, mpi"},
        {{gloo, gloo}, "auto, a.csv", "auto, b.csv"},
        {{gloo + Row("allreduce", 8, 0, "auto,auto", 2, 1, true)}, "auto, out of place", "auto, in place"},
        {{"collective,bytes,round,algorithm,protocol,nNodes,nRanks,median_us,graph\n"
          "allreduce,8,0,auto,auto,1,2,9,0\nallreduce,8,0,auto,auto,1,2,9,1\n"}, "auto, launched one by one", "auto, in CUDA graphs"},
    };
    // clang-format on

    for (const auto &c : cases)
        EXPECT_THAT(Legend(Script(Curves(c.files).all,
                                  {STP_PLOT_BUSBW, ncclFuncAllReduce, 8})),
                    ElementsAre(c.one, c.other));
}

TEST(Script, NamesTheGpusInTitleAndLabelsOfSeveralModels)
{
    const auto of = [](const std::string &machine, const std::string &gpu,
                       unsigned ranks) {
        return Head(machine, gpu, "2.28.9", "nccl") + Auto(8, ranks, 1);
    };
    // clang-format off
    const struct {
        std::vector<std::string> files;
        const char *title;
        std::vector<std::string> labels;
    } cases[] = {
        {{of("h", "H200", 4), of("a", "A100", 8)}, "'All-reduce latency, H200 and A100, f32 sum'", {"auto, 4 ranks, H200", "auto, 8 ranks, A100"}},
        {{of("h", "H200", 4), of("a", "A100", 4)}, "'All-reduce latency, 4 ranks of H200 and A100, f32 sum'", {"auto, H200", "auto, A100"}},
        {{of("h", "H200", 4), of("x", "", 4), of("a", "A100", 4)}, "'All-reduce latency, 4 ranks of H200, unknown GPUs and A100, f32 sum'", {"auto, H200", "auto", "auto, A100"}},
        {{of("h2", "H200", 2), of("h4", "H200", 4)}, "'All-reduce latency, H200, f32 sum'", {"auto, 2 ranks", "auto, 4 ranks"}},
    };
    // clang-format on

    for (const auto &c : cases) {
        const std::string s = Script(Curves(c.files).all,
                                     {STP_PLOT_LATENCY, ncclFuncAllReduce, 8});

        EXPECT_EQ(c.title, charts::Setting(s, "title"));
        EXPECT_EQ(c.labels, Legend(s));
    }
}

// ---- the study ----

bool IsStudy(const std::vector<std::string> &texts)
{
    Curves c(texts);
    return stp_plot_is_study(&c.all);
}

TEST(Study, IsForSeveralFilesBackendsOrNumbersOfProcesses)
{
    const std::string gloo = Head("m", "", "", "gloo");

    EXPECT_FALSE(IsStudy({Small()}));
    EXPECT_FALSE(IsStudy({gloo + Auto(8, 2, 1) +
                          Row("allreduce", 8, 0, "auto,auto", 2, 1, true)}));
    EXPECT_TRUE(IsStudy({gloo + Auto(8, 2, 1) + Auto(8, 4, 1)}));
    EXPECT_TRUE(IsStudy({gloo + Auto(8, 2, 1), gloo + Auto(8, 2, 1)}));
    EXPECT_TRUE(IsStudy({gloo + Row("reduce", 8, 0, "auto,auto", 2, 1),
                         gloo + Row("reduce", 8, 0, "auto,auto", 4, 1)}));
    EXPECT_FALSE(IsStudy({gloo + Row("reduce", 8, 0, "auto,auto", 2, 1),
                          gloo + Row("allgather", 8, 0, "auto,auto", 4, 1)}));
}

std::vector<std::string> TwoBackends()
{
    return {Head("pc", "", "", "gloo") + Auto(1000000, 2, 1000) +
                Auto(100000000, 2, 80000) + Auto(100000000, 4, 120000),
            Head("h", "NVIDIA H200", "2.28.9", "nccl") +
                Auto(104857600, 2, 500) + Auto(104857600, 4, 750) +
                Auto(67108864, 4, 400)};
}

TEST(Study, BarsAreExact)
{
    Curves c(TwoBackends());

    const std::string s =
        Script(c.all, {STP_PLOT_STUDY_BARS, 0, 8}, STP_PLOT_SVG);

    EXPECT_THAT(s, StartsWith("format = 'svg'\n$data << EOD\n"
                              "#backend\tprocesses\tbytes\tms\tsource\n"));
    EXPECT_GOLDEN("allreduce_backend_comparison_100mb", Essence(s));
    EXPECT_THAT(s, HasSubstr("\n# bars.gp - "));
}

TEST(Study, LinesHaveAColourABackendAndADashANumberOfProcesses)
{
    Curves c(TwoBackends());

    std::string s = Script(c.all, {STP_PLOT_STUDY_BANDWIDTH, 0, 8});

    EXPECT_THAT(Legend(s),
                ElementsAre("gloo, 2 processes", "gloo, 4 processes",
                            "nccl, 2 processes", "nccl, 4 processes"));
    EXPECT_THAT(Array(s, "hues"), ElementsAre("1", "1", "2", "2"));
    EXPECT_THAT(Array(s, "dashes"), ElementsAre("0", "1", "0", "1"));
    EXPECT_THAT(Array(s, "shapes"), ElementsAre("0", "1", "0", "1"));
}

TEST(Study, HasBarsOfSeveralBackendsAtASizeNear100Mb)
{
    const std::string head = Head("m", "", "", "gloo");
    Curves c({head + Auto(16 * kMib, 2, 1) + Auto(16 * kMib, 4, 1)});
    Curves one({head + Auto(96 * kMib, 2, 1) + Auto(96 * kMib, 4, 1)});
    stp_plot plot{STP_PLOT_STUDY_BARS, 0, 8};

    EXPECT_FALSE(stp_plot_has(&c.all, &plot));
    EXPECT_FALSE(stp_plot_has(&one.all, &plot));
    plot.kind = STP_PLOT_STUDY_TIME;
    EXPECT_TRUE(stp_plot_has(&c.all, &plot));
    plot.kind = STP_PLOT_BUSBW;
    plot.coll = ncclFuncReduce;
    EXPECT_FALSE(stp_plot_has(&c.all, &plot));
}

// ---- drawing ----

class Draw : public InFolder
{
  protected:
    // A program that does what 'text' says in shell.
    std::string Program(const std::string &text) const
    {
        const std::string path = Write("gnuplot", "#!/bin/sh\n" + text);
        fs::permissions(path, fs::perms::owner_all);
        return path;
    }

    stp_status Save(const Curves &curves, const stp_plot &plot,
                    const char *program, stp_plot_format format)
    {
        stp_chart chart;
        stp_plot_make(&curves.all, &plot, &chart);
        const stp_status status = stp_chart_save(
            &chart, format, program, (dir_ / "plot").c_str(), &err_);
        stp_chart_free(&chart);
        return status;
    }

    stp_status Save(const char *program, stp_plot_format format = STP_PLOT_PNG)
    {
        Curves c({Small()});
        const stp_plot plot{STP_PLOT_LATENCY, ncclFuncAllReduce, 8};
        return Save(c, plot, program, format);
    }

    std::string Plot() const
    {
        return Read("plot");
    }
};

// The texts of a picture in SVG, in order.
std::vector<std::string> Words(const std::string &svg)
{
    std::vector<std::string> words;
    const std::string begin = "<text>";
    for (size_t at = svg.find(begin); at != std::string::npos;
         at = svg.find(begin, at + 1)) {
        size_t first = at + begin.size();
        words.push_back(svg.substr(first, svg.find('<', first) - first));
    }
    return words;
}

TEST_F(Draw, GivesPicturesOfBothFormats)
{
    if (!charts::HasGnuplot())
        GTEST_SKIP() << "no gnuplot here";

    ASSERT_EQ(STP_OK, Save(nullptr)) << err_.text;
    EXPECT_THAT(Plot(), StartsWith("\x89PNG\r\n\x1a\n"));
    ASSERT_EQ(STP_OK, Save(nullptr, STP_PLOT_SVG)) << err_.text;
    EXPECT_THAT(Plot(), StartsWith("<?xml"));
    EXPECT_THAT(Plot(), HasSubstr("All-reduce latency"));
    EXPECT_THAT(Plot(), HasSubstr("</svg>"));
    EXPECT_THAT(Words(Plot()), testing::IsSupersetOf({"50", "100", "200", "500",
                                                      "1M", "2M", "4M"}));
}

TEST_F(Draw, NamesSizesInPowersOfTwoAndTimesWithCommas)
{
    if (!charts::HasGnuplot())
        GTEST_SKIP() << "no gnuplot here";
    Curves c({Head("m", "", "", "gloo") + Auto(8, 2, 4) +
              Auto(uint64_t{1} << 30, 2, 1e6)});
    const stp_plot plot{STP_PLOT_LATENCY, ncclFuncAllReduce, 8};

    ASSERT_EQ(STP_OK, Save(c, plot, nullptr, STP_PLOT_SVG)) << err_.text;

    EXPECT_THAT(
        Words(Plot()),
        testing::IsSupersetOf(
            {"8",   "16",   "64",  "256",   "1K",     "4K",      "16K",
             "64K", "256K", "1M",  "4M",    "16M",    "64M",     "256M",
             "1G",  "10",   "100", "1,000", "10,000", "100,000", "1,000,000"}));
}

// The ranges that gnuplot computes, of a plot of these files.
TEST_F(Draw, AxesCoverAllCurvesAndAreLogarithmicWhereOneWouldBeHidden)
{
    if (!charts::HasGnuplot())
        GTEST_SKIP() << "no gnuplot here";
    const std::string one = Head("m", "", "", "gloo") + Auto(64, 2, 1e9);
    const struct {
        std::vector<std::string> texts;
        stp_plot_kind kind;
        const char *ranges;
    } cases[] = {
        {{Small()}, STP_PLOT_BUSBW, " 838861 5.24288e+06 0 33.3447 0\n"},
        {{Small()}, STP_PLOT_LATENCY, " 838861 5.24288e+06 38.4615 520 1\n"},
        {TwoBackends(), STP_PLOT_STUDY_BANDWIDTH,
         " 800000 1.31072e+08 0.769231 327.155 1\n"},
        {TwoBackends(), STP_PLOT_STUDY_BARS, " -0.6 1.6 0.166667 240 1\n"},
        {{one}, STP_PLOT_BUSBW, " 51.2 80 0 6.784e-11 0\n"},
    };
    for (const auto &c : cases) {
        Curves curves(c.texts);
        EXPECT_EQ(
            c.ranges,
            charts::Printed(Script(curves.all, {c.kind, ncclFuncAllReduce, 8}),
                            {"GPVAL_X_MIN", "GPVAL_X_MAX", "GPVAL_Y_MIN",
                             "GPVAL_Y_MAX", "exists('y_low')"}));
    }
}

TEST_F(Draw, SaysThatThereIsNoGnuplot)
{
    EXPECT_EQ(STP_ERR_NOTHING, Save("/no/gnuplot"));

    EXPECT_STREQ("cannot run '/no/gnuplot' to draw plots (No such file or "
                 "directory): install it (Debian: gnuplot-nox), or name it in "
                 "STEPTUNE_GNUPLOT",
                 err_.text);
    EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(Draw, SaysWhatGnuplotSaidAndLeavesTheOldFileAlone)
{
    std::ofstream(dir_ / "plot") << "old";

    EXPECT_EQ(
        STP_ERR_IO,
        Save(Program("echo half; echo '         line 7: no such terminal' "
                     ">&2; exit 1")
                 .c_str()));

    EXPECT_STREQ("gnuplot failed: line 7: no such terminal", err_.text);
    EXPECT_EQ("old", Plot());
    fs::remove(dir_ / "gnuplot");
    EXPECT_EQ(1, std::distance(fs::directory_iterator(dir_), {}));
}

// A full disk cuts what gnuplot writes, and gnuplot does not say so.
TEST_F(Draw, TakesAPictureThatWasCutForAFailure)
{
    const struct {
        stp_plot_format format;
        const char *drawn;
        bool whole;
    } cases[] = {
        {STP_PLOT_PNG, "data IEND\\256B`\\202", true},
        {STP_PLOT_PNG, "data IEND\\256B`", false},
        {STP_PLOT_PNG, "B`\\202", false},
        {STP_PLOT_PNG, "data IEND\\256B`\\202\\n", false},
        {STP_PLOT_SVG, "<svg></svg>\\n\\n", true},
        {STP_PLOT_SVG, "<svg></svg", false},
        {STP_PLOT_SVG, " ", false},
    };
    std::ofstream(dir_ / "plot") << "old";

    for (const auto &c : cases) {
        const std::string program =
            Program(std::string("cat >/dev/null; printf '") + c.drawn + "'");

        EXPECT_EQ(c.whole ? STP_OK : STP_ERR_IO,
                  Save(program.c_str(), c.format))
            << c.drawn;
        EXPECT_EQ(c.whole, Plot() != "old") << c.drawn;
        if (!c.whole) {
            EXPECT_THAT(err_.text,
                        testing::MatchesRegex(
                            "cannot write '.*plot': gnuplot cut it short, "
                            "expected a whole (png|svg) and room for it on the "
                            "disk"));
        }
        std::ofstream(dir_ / "plot") << "old";
        fs::remove(dir_ / "gnuplot");
        EXPECT_EQ(1, std::distance(fs::directory_iterator(dir_), {}));
    }
}

} // namespace
