// From measurements to curves, gnuplot's scripts and pictures.
#include "report/charts/plots.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

extern "C" {
#include "report/charts/plot.h"
}

namespace
{

using namespace plots;
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr uint64_t kMib = 1 << 20;

std::string Script(const stp_curves &curves, const stp_plot &plot,
                   stp_plot_format format = STP_PLOT_PNG)
{
    return Written([&](FILE *fp) {
        return stp_plot_write(&curves, &plot, format, fp, nullptr);
    });
}

// The titles that the legend has, in order.
std::vector<std::string> Legend(const std::string &script)
{
    std::vector<std::string> titles;
    size_t plot = script.find("\nplot ");
    for (size_t at = script.find(" title '", plot); at != std::string::npos;
         at = script.find(" title '", at + 1)) {
        size_t begin = at + strlen(" title '");
        titles.push_back(
            script.substr(begin, script.find('\'', begin) - begin));
    }
    return titles;
}

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
    EXPECT_DOUBLE_EQ(25, a.points[1].us.p95);
    EXPECT_DOUBLE_EQ(30, a.points[1].us.p99);
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

constexpr char kPng[] =
    "set encoding utf8\n"
    "if (strstrt(GPVAL_TERMINALS, 'pngcairo') == 0) {\n"
    "set terminal png noenhanced size 1200,720\n"
    "} else {\n"
    "set terminal pngcairo noenhanced size 1200,720 font 'Sans,13' background "
    "'#ffffff'\n"
    "}\n";

constexpr char kFrame[] =
    " at screen 0.01,0.025 left font ',9' textcolor rgb '#666666'\n"
    "set bmargin 5.5\n"
    "set border 3 linecolor rgb '#666666'\n"
    "set tics nomirror out textcolor rgb '#000000'\n"
    "set grid xtics ytics linetype 1 linewidth 1 linecolor rgb '#dddddd'\n"
    "set key outside right top vertical Left reverse samplen 4 spacing 1.2\n";

TEST(Script, OfBandwidthIsExact)
{
    Curves c({Small()});

    EXPECT_EQ(
        std::string(kPng) +
            "set title 'Mine''s: All-reduce bus bandwidth, 4 ranks of NVIDIA "
            "A100, f32 sum' font ',15'\n"
            "set label 1 'it''s_m, NVIDIA A100, NCCL 2.28.9, measured'" +
            kFrame +
            "set ylabel 'Bus bandwidth (GB/s)'\n"
            "set xlabel 'Size (bytes)'\n"
            "set logscale x 2\n"
            "set xrange [838861:5.24288e+06]\n"
            "set xtics ('1M' 1.04858e+06, '2M' 2.09715e+06, '4M' "
            "4.1943e+06)\n"
            "set yrange [0:33.3447]\n"
            "$d0 << EOD\n"
            "1048576 15.7286\n"
            "4194304 31.4573\n"
            "EOD\n"
            "$d1 << EOD\n"
            "1048576 31.4573\n"
            "4194304 15.7286\n"
            "EOD\n"
            "plot $d0 using 1:2 with linespoints linecolor rgb '#000000' "
            "linewidth 3 dashtype 1 pointtype 7 pointsize 0.9 title 'auto', "
            "\\\n"
            "     $d1 using 1:2 with linespoints linecolor rgb '#d55e00' "
            "linewidth 1.5 dashtype 1 pointtype 5 pointsize 0.9 title "
            "'ring/ll'\n",
        Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllReduce, "Mine's", 8}));
}

TEST(Script, OfLatencyShadesAutoToItsPercentiles)
{
    Curves c({Small()});

    std::string s =
        Script(c.all, {STP_PLOT_LATENCY, ncclFuncAllReduce, nullptr, 8});

    EXPECT_THAT(s,
                HasSubstr("\nset ylabel 'Median time (us); shaded to p95 and "
                          "p99 of auto'\n"));
    EXPECT_THAT(s, HasSubstr("set logscale y 10\nset yrange [38.4615:520]\n"
                             "set mytics 10\nset ytics ('10' 10, '20' 20, "
                             "'50' 50, '100' 100, '200' 200, '500' 500, "
                             "'1,000' 1000, '2,000' 2000, '5,000' 5000)\n"));
    EXPECT_THAT(s, HasSubstr("$d0 << EOD\n1048576 100 125 150\n"
                             "4194304 200 250 300\nEOD\n"));
    EXPECT_THAT(s, HasSubstr("plot $d0 using 1:2:3 with filledcurves"));
    EXPECT_THAT(s, Not(HasSubstr("$d1 using 1:2:3"))) << "of AUTO alone";
    EXPECT_THAT(Legend(s), ElementsAre("auto", "ring/ll"));
}

TEST(Script, WithoutPercentilesShadesNothing)
{
    Curves c({"collective,bytes,round,algorithm,protocol,nNodes,nRanks,"
              "median_us\nallreduce,8,0,auto,auto,1,2,5\n"});

    std::string s =
        Script(c.all, {STP_PLOT_LATENCY, ncclFuncAllReduce, nullptr, 8});

    EXPECT_THAT(s, HasSubstr("\nset ylabel 'Time (us)'\n"));
    EXPECT_THAT(s, Not(HasSubstr("filledcurves")));
}

TEST(Script, SizesAreNamedInPowersOfTwo)
{
    Curves c({Head("m", "", "", "gloo") + Auto(8, 2, 1) +
              Auto(uint64_t{1} << 30, 2, 1)});

    EXPECT_THAT(
        Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllReduce, nullptr, 8}),
        HasSubstr("set xtics ('8' 8, '16' 16, '64' 64, '256' 256, '1K' 1024, "
                  "'4K' 4096, '16K' 16384, '64K' 65536, '256K' 262144, '1M' "
                  "1.04858e+06, '4M' 4.1943e+06, '16M' 1.67772e+07, '64M' "
                  "6.71089e+07, '256M' 2.68435e+08, '1G' 1.07374e+09)\n"));
}

TEST(Script, NothingInATitleEndsItsQuotes)
{
    Curves c({Small()});

    EXPECT_THAT(Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllReduce,
                               "a\n'b' \"c\" `date` \\", 8}),
                HasSubstr("\nset title 'a ''b'' \"c\" `date` \\: All-reduce "));
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

    EXPECT_THAT(
        Legend(Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllReduce, nullptr, 4})),
        ElementsAre("auto", "tree/ll", "ring/ll128", "ring/ll"));
    EXPECT_THAT(
        Legend(Script(c.all, {STP_PLOT_BUSBW, ncclFuncAllGather, nullptr, 4})),
        ElementsAre("ring/simple"));
}

TEST(Script, LabelsSayAsMuchAsTellsCurvesApart)
{
    const std::string gloo = Head("m", "", "", "gloo");
    const stp_plot plot{STP_PLOT_BUSBW, ncclFuncAllReduce, nullptr, 8};

    EXPECT_THAT(Legend(Script(
                    Curves({gloo + Auto(8, 2, 1) + Auto(8, 4, 1)}).all, plot)),
                ElementsAre("auto, 2 ranks", "auto, 4 ranks"));
    EXPECT_THAT(Legend(Script(Curves({gloo + Auto(8, 2, 1),
                                      Head("m", "", "", "mpi") + Auto(8, 2, 1)})
                                  .all,
                              plot)),
                ElementsAre("auto, gloo", "auto, mpi"));
    EXPECT_THAT(
        Legend(Script(Curves({gloo + Auto(8, 2, 1), gloo + Auto(8, 2, 1)}).all,
                      plot)),
        ElementsAre("auto, a.csv", "auto, b.csv"));
    EXPECT_THAT(
        Legend(Script(Curves({gloo + Auto(8, 2, 1) +
                              Row("allreduce", 8, 0, "auto,auto", 2, 1, true)})
                          .all,
                      plot)),
        ElementsAre("auto, out of place", "auto, in place"));
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
    EXPECT_FALSE(IsStudy({gloo + Row("reduce", 8, 0, "auto,auto", 2, 1),
                          gloo + Row("reduce", 8, 0, "auto,auto", 4, 1)}));
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

    EXPECT_EQ(
        std::string(
            "set encoding utf8\n"
            "set terminal svg noenhanced size 1200,720 font 'Sans,13' "
            "background '#ffffff'\n"
            "set title 'All-reduce time of 100 to 104.9 MB, f32 sum' font "
            "',15'\n"
            "set label 1 'pc, gloo, measured; h, NVIDIA H200, NCCL 2.28.9, "
            "measured'") +
            kFrame +
            "set ylabel 'Time (ms)'\n"
            "set grid noxtics\n"
            "set xtics scale 0 ('2 processes' 0, '4 processes' 1)\n"
            "set xrange [-0.6:1.6]\n"
            "set logscale y 10\n"
            "set yrange [0.166667:240]\n"
            "set mytics 10\n"
            "set ytics ('0.1' 0.1, '1' 1, '10' 10, '100' 100, '1,000' 1000)\n"
            "set boxwidth 0.37 absolute\n"
            "set style fill solid 0.9 noborder\n"
            "$d0 << EOD\n"
            "-0.2 80 \"80.0 ms\"\n"
            "0.8 120 \"120 ms\"\n"
            "EOD\n"
            "$d1 << EOD\n"
            "0.2 0.5 \"0.500 ms\"\n"
            "1.2 0.75 \"0.750 ms\"\n"
            "EOD\n"
            "plot $d0 using 1:2 with boxes linecolor rgb '#d55e00' title "
            "'gloo', \\\n"
            "     $d0 using 1:2:3 with labels offset 0,0.6 font ',11' notitle, "
            "\\\n"
            "     $d1 using 1:2 with boxes linecolor rgb '#0072b2' title "
            "'nccl', \\\n"
            "     $d1 using 1:2:3 with labels offset 0,0.6 font ',11' "
            "notitle\n",
        Script(c.all, {STP_PLOT_STUDY_BARS, 0, nullptr, 8}, STP_PLOT_SVG));
}

TEST(Study, LinesHaveAColourABackendAndADashANumberOfProcesses)
{
    Curves c(TwoBackends());

    std::string s = Script(c.all, {STP_PLOT_STUDY_BANDWIDTH, 0, nullptr, 8});

    EXPECT_THAT(Legend(s),
                ElementsAre("gloo, 2 processes", "gloo, 4 processes",
                            "nccl, 2 processes", "nccl, 4 processes"));
    for (const char *line :
         {"$d0 using 1:2 with linespoints linecolor rgb '#d55e00' linewidth 3 "
          "dashtype 1 pointtype 7",
          "$d1 using 1:2 with linespoints linecolor rgb '#d55e00' linewidth 3 "
          "dashtype (8,3) pointtype 5",
          "$d3 using 1:2 with linespoints linecolor rgb '#0072b2' linewidth 3 "
          "dashtype (8,3) pointtype 5"})
        EXPECT_THAT(s, HasSubstr(line));
    EXPECT_THAT(s, HasSubstr("set logscale y 10\n")) << "gloo would be a line";
}

TEST(Study, HasNoBarsWithoutASizeNear100Mb)
{
    Curves c({Head("m", "", "", "gloo") + Auto(16 * kMib, 2, 1) +
              Auto(16 * kMib, 4, 1)});
    stp_plot plot{STP_PLOT_STUDY_BARS, 0, nullptr, 8};

    EXPECT_FALSE(stp_plot_has(&c.all, &plot));
    plot.kind = STP_PLOT_STUDY_TIME;
    EXPECT_TRUE(stp_plot_has(&c.all, &plot));
    plot.kind = STP_PLOT_BUSBW;
    plot.coll = ncclFuncReduce;
    EXPECT_FALSE(stp_plot_has(&c.all, &plot));
}

TEST(Study, FilesHaveTheNamesOfTheStudy)
{
    char name[STP_PLOT_NAME];
    std::vector<std::string> names;
    for (int kind = 0; kind < STP_N_PLOT_KINDS; kind++) {
        stp_plot plot{static_cast<stp_plot_kind>(kind), ncclFuncAllGather,
                      nullptr, 8};
        stp_plot_name(&plot, kind % 2 ? STP_PLOT_SVG : STP_PLOT_PNG, name);
        names.push_back(name);
    }

    EXPECT_THAT(names, ElementsAre("allgather_busbw_vs_size.png",
                                   "allgather_latency_vs_size.svg",
                                   "allreduce_time_vs_datasize.png",
                                   "allreduce_bandwidth_vs_datasize.svg",
                                   "allreduce_backend_comparison_100mb.png"));
}

// ---- drawing ----

class Draw : public testing::Test
{
  protected:
    void SetUp() override
    {
        std::string dir = testing::TempDir() + "steptune-plot-XXXXXX";
        ASSERT_NE(nullptr, mkdtemp(dir.data()));
        dir_ = dir;
    }
    void TearDown() override
    {
        fs::remove_all(dir_);
    }

    // A program that does what 'text' says in shell.
    std::string Program(const std::string &text) const
    {
        std::string path = dir_ / "gnuplot";
        std::ofstream(path) << "#!/bin/sh\n" << text;
        fs::permissions(path, fs::perms::owner_all);
        return path;
    }

    stp_status Save(const char *program, stp_plot_format format = STP_PLOT_PNG)
    {
        Curves c({Small()});
        const stp_plot plot{STP_PLOT_LATENCY, ncclFuncAllReduce, "a_b", 8};
        return stp_plot_save(&c.all, &plot, format, program,
                             (dir_ / "plot").c_str(), &err_);
    }

    std::string Plot() const
    {
        std::stringstream s;
        s << std::ifstream(dir_ / "plot").rdbuf();
        return s.str();
    }

    fs::path dir_;
    stp_error err_{};
};

TEST_F(Draw, GivesPicturesOfBothFormats)
{
    if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
        GTEST_SKIP() << "no gnuplot here";

    ASSERT_EQ(STP_OK, Save(nullptr)) << err_.text;
    EXPECT_THAT(Plot(), StartsWith("\x89PNG\r\n\x1a\n"));
    ASSERT_EQ(STP_OK, Save(nullptr, STP_PLOT_SVG)) << err_.text;
    EXPECT_THAT(Plot(), StartsWith("<?xml"));
    EXPECT_THAT(Plot(), HasSubstr("a_b: All-reduce latency"));
    EXPECT_THAT(Plot(), HasSubstr("</svg>"));
}

TEST_F(Draw, GnuplotReadsTheScriptAndItsOutputIsTheFile)
{
    ASSERT_EQ(STP_OK, Save(Program("echo $1 $2; head -n 1").c_str()))
        << err_.text;

    EXPECT_EQ("-d -\nset encoding utf8\n", Plot());
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

TEST_F(Draw, TakesNoPictureForAFailure)
{
    EXPECT_EQ(STP_ERR_IO, Save(Program("cat >/dev/null").c_str()));

    EXPECT_STREQ("gnuplot failed: it said nothing", err_.text);
    EXPECT_FALSE(fs::exists(dir_ / "plot"));
}

} // namespace
