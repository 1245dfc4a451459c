// Plots of iterations: scripts and pictures.
#include "report/iterations/iterations_by_hand.h"

#include <unistd.h>

extern "C" {
#include "core/rng.h"
#include "report/iterations/iteration_plots.h"
}

namespace
{

using namespace by_hand;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

// Plots drawn by a gnuplot that hands back the script.
class Plots : public InFolder
{
  protected:
    void SetUp() override
    {
        InFolder::SetUp();
        ASSERT_FALSE(HasFatalFailure());
        program_ = testing::TempDir() + "steptune-gnuplot-XXXXXX";
        int fd = mkstemp(program_.data());
        ASSERT_GE(fd, 0);
        close(fd);
        std::ofstream(program_) << "#!/bin/sh\ncat\n";
        fs::permissions(program_, fs::perms::owner_all);
    }
    void TearDown() override
    {
        fs::remove(program_);
        InFolder::TearDown();
    }

    size_t Draw(Iterations &its)
    {
        size_t n = 0;
        EXPECT_EQ(STP_OK, stp_iteration_plots_save(&its.Report(), dir_.c_str(),
                                                   STP_PLOT_SVG,
                                                   program_.c_str(), &n, &err_))
            << err_.text;
        return n;
    }

    std::string program_;
};

// The data that a script has under this name.
std::string Data(const std::string &script, const std::string &name)
{
    size_t begin = script.find(name + " << EOD\n") + name.size() + 8;
    return script.substr(begin, script.find("EOD\n", begin) - begin);
}

// The titles that the legend has, in order.
std::vector<std::string> Legend(const std::string &script)
{
    std::vector<std::string> titles;
    for (size_t at = script.find(" title '", script.find("\nplot "));
         at != std::string::npos; at = script.find(" title '", at + 1)) {
        size_t begin = at + strlen(" title '");
        titles.push_back(
            script.substr(begin, script.find('\'', begin) - begin));
    }
    return titles;
}

constexpr char kFrame[] =
    "set encoding utf8\n"
    "set terminal svg noenhanced size 1200,720 font 'Sans,13' background "
    "'#ffffff'\n"
    "set label 1 'h200x2, NVIDIA H200, NCCL 2.28.9, measured' at screen "
    "0.01,0.025 left font ',9' textcolor rgb '#666666'\n"
    "set bmargin 5.5\n"
    "set border 3 linecolor rgb '#666666'\n"
    "set tics nomirror out textcolor rgb '#000000'\n"
    "set grid xtics ytics linetype 1 linewidth 1 linecolor rgb '#dddddd'\n"
    "set key outside right top vertical Left reverse samplen 4 spacing 1.2\n"
    "set tmargin 3\n";

// Quartiles at 100 and 104: 20 bins at least, of 10 us / 20.
const std::vector<double> kTen = {100, 100, 100, 102, 102,
                                  104, 104, 104, 106, 110};

TEST_F(Plots, HistogramIsExact)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {kTen});
    its.Arm("ll128", {{100, 100}, {100, 109.9}});

    EXPECT_EQ(2u, Draw(its));

    std::string s = Read("iteration_times_histogram.svg");
    EXPECT_THAT(s, StartsWith(std::string(kFrame) +
                              "set label 2 'Iteration times, overlap: "
                              "allreduce of 8 MiB, 8 layers of gemm, ratio 1; "
                              "2 ranks' at screen 0.01,0.965 left font ',15'\n"
                              "set key title 'Arm, median'\n"
                              "set xlabel 'Iteration time (us)'\n"
                              "set xrange [99.8:110.2]\n"
                              "set ylabel 'Share of iterations (%), in bins of "
                              "0.5 us'\nset yrange [0:*]\n"));
    EXPECT_EQ("100 0\n100 30\n100.5 0\n101 0\n101.5 0\n102 20\n102.5 0\n"
              "103 0\n103.5 0\n104 30\n104.5 0\n105 0\n105.5 0\n106 10\n"
              "106.5 0\n107 0\n107.5 0\n108 0\n108.5 0\n109 0\n109.5 10\n"
              "110 0\n",
              Data(s, "$d0"));
    EXPECT_THAT(Data(s, "$d1"), StartsWith("100 0\n100 75\n100.5 0\n"));
    EXPECT_THAT(
        s, HasSubstr("plot $d0 using 1:2 with fillsteps linecolor rgb "
                     "'#000000' fillstyle transparent solid 0.12 noborder "
                     "notitle, \\\n"
                     "     $d0 using 1:2 with steps linecolor rgb '#000000' "
                     "linewidth 3 title 'auto, 103 us', \\\n"
                     "     $d1 using 1:2 with steps linecolor rgb '#d55e00' "
                     "linewidth 2 title 'll128, 100 us'\n"));
}

TEST_F(Plots, DistributionIsExact)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {{4000, 2000}, {8000, 6000}});

    Draw(its);

    std::string s = Read("iteration_times_ecdf.svg");
    EXPECT_THAT(s, HasSubstr("set label 2 'Iteration times (ECDF), overlap: "));
    EXPECT_THAT(s, HasSubstr("set xlabel 'Iteration time (ms)'\n"
                             "set xrange [1.88:8.12]\n"
                             "set ylabel 'Share of iterations that took no "
                             "longer'\nset yrange [0:1.02]\n"))
        << "long times are in milliseconds";
    EXPECT_EQ("2 0\n2 0.25\n4 0.5\n6 0.75\n8 1\n", Data(s, "$d0"));
    EXPECT_THAT(Legend(s), ElementsAre("auto, 5 ms"));
}

TEST_F(Plots, AxisLeavesOutLateIterationsAndSaysSo)
{
    std::vector<double> us;
    for (int i = 0; i < 100; i++)
        us.push_back(100 + i / 10);
    us[50] = 2000;
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {us});
    its.Arm("ll", {{200, 202}});

    Draw(its);

    for (const char *name : {"histogram", "ecdf"}) {
        std::string s = Read(std::string("iteration_times_") + name + ".svg");
        EXPECT_THAT(s, HasSubstr("set xlabel 'Iteration time (us); 1 of 102 "
                                 "iterations, up to 2000 us, are further "
                                 "right'\nset xrange [97.96:204.04]\n"));
    }
    std::string ecdf = Data(Read("iteration_times_ecdf.svg"), "$d0");
    EXPECT_THAT(ecdf, testing::EndsWith("109 0.99\n202 0.99\n"));
}

TEST_F(Plots, TimesThatAreAllAlikeHaveAnAxis)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {{500, 500}, {500}});

    Draw(its);

    std::string s = Read("iteration_times_histogram.svg");
    EXPECT_THAT(s, HasSubstr("set xrange [499.99:500.51]\n"));
    EXPECT_EQ("500 0\n500 100\n500.00333 0\n", Data(s, "$d0"));
}

TEST_F(Plots, AnArmAtTheEndOfTheAxisIsInItsLastBin)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {{500, 500}});
    its.Arm("ll", {{700, 700}});

    Draw(its);

    EXPECT_EQ("698.66667 0\n698.66667 100\n700 0\n",
              Data(Read("iteration_times_histogram.svg"), "$d1"));
}

TEST_F(Plots, ManyIterationsBecomeAPointAPixel)
{
    std::vector<double> us;
    for (int i = 0; i < 10000; i++)
        us.push_back(100 + 0.001 * i);
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {us});

    Draw(its);

    std::string d = Data(Read("iteration_times_ecdf.svg"), "$d0");
    EXPECT_EQ(911, std::count(d.begin(), d.end(), '\n'));
    EXPECT_THAT(d, StartsWith("100 0\n100.01 0.0011\n"));
    EXPECT_THAT(d, testing::EndsWith("\n109.999 1\n"));
}

TEST_F(Plots, HaveAutoAndTheBestSevenOthers)
{
    const char *names[] = {"auto",          "auto2",         "ring/simple/1",
                           "ring/simple/2", "ring/simple/3", "ring/simple/4",
                           "ring/simple/5", "ring/simple/6", "ring/simple/7"};
    Iterations its;
    for (uint64_t size : {kMib, 2 * kMib}) {
        its.Setting(STP_MODE_OVERLAP, size);
        for (int i = 0; i < 9; i++)
            its.Arm(names[i], {{100}}).gain = {i == 4 ? 0.5 : 1.0 + 0.01 * i, 0,
                                               INFINITY, 1};
    }

    EXPECT_EQ(5u, Draw(its));

    EXPECT_THAT(
        Legend(Read("iteration_times_ecdf_overlap_1M_ratio1_layers8.svg")),
        ElementsAre("auto, 100 us", "auto2, 100 us", "ring/simple/1, 100 us",
                    "ring/simple/2, 100 us", "ring/simple/4, 100 us",
                    "ring/simple/5, 100 us", "ring/simple/6, 100 us",
                    "ring/simple/7, 100 us"));
    EXPECT_THAT(Legend(Read("gain_vs_size.svg")),
                ElementsAre("auto", "auto2", "ring/simple/1", "ring/simple/2",
                            "ring/simple/4", "ring/simple/5", "ring/simple/6",
                            "ring/simple/7"));
}

// ---- gains ----

void Gains(Iterations &its, uint64_t size, stp_gain gain, stp_gain alone)
{
    its.Setting(STP_MODE_OVERLAP, size);
    its.Arm("auto", {{100}});
    stp_iteration_arm &arm = its.Arm("ll128", {{100}});
    arm.gain = gain;
    arm.alone_gain = alone;
    arm.alone_us = alone.n_pairs > 0 ? 50 : 0;
}

TEST_F(Plots, GainsAreExact)
{
    Iterations its;
    Gains(its, kMib, {1.125, 1.0625, 1.1875, 10}, {0.875, 0.75, 1, 10});
    Gains(its, 4 * kMib, {0.9375, 0, INFINITY, 1}, {1, 0, INFINITY, 0});

    Draw(its);

    EXPECT_EQ(
        std::string(kFrame) +
            "set label 2 'Gain over AUTO, overlap: allreduce, 8 layers of "
            "gemm, ratio 1; 2 ranks' at screen 0.01,0.965 left font ',15'\n"
            "set ylabel 'Gain, with its 95% interval; hollow: collectives "
            "alone'\n"
            "set xlabel 'Size (bytes)'\n"
            "set logscale x 2\n"
            "set xrange [838861:5.24288e+06]\n"
            "set xtics ('1M' 1.04858e+06, '2M' 2.09715e+06, '4M' "
            "4.1943e+06)\n"
            "set xrange [838861:5.24288e+06]\n"
            "set yrange [0.85625:1.20625]\n"
            "set datafile missing '?'\n"
            "$d0 << EOD\n"
            "1048576 1.125 1.0625 1.1875 0.875\n"
            "4194304 0.9375 0.9375 0.9375 ?\n"
            "EOD\n"
            "plot 1 with lines linecolor rgb '#000000' linewidth 2 title "
            "'auto', \\\n"
            "     $d0 using 1:5 with linespoints linecolor rgb '#d55e00' "
            "linewidth 1 dashtype (12,8) pointtype 6 pointsize 1.1 notitle, "
            "\\\n"
            "     $d0 using 1:2:3:4 with yerrorlines linecolor rgb '#d55e00' "
            "linewidth 2 pointtype 7 pointsize 1.1 title 'll128'\n",
        Read("gain_vs_size.svg"));
}

TEST_F(Plots, BarsOfSeveralArmsStandBesideEachOther)
{
    Iterations its;
    for (uint64_t size : {kMib, 4 * kMib}) {
        its.Setting(STP_MODE_OVERLAP, size);
        its.Arm("auto", {{100}});
        its.Arm("ll", {{100}}).gain = {1, 0.5, 2, 10};
        its.Arm("ll128", {{100}}).gain = {1, 0.5, 2, 10};
    }

    Draw(its);

    std::string s = Read("gain_vs_size.svg");
    EXPECT_EQ("1040755.7 1 0.5 2 ?\n4163022.7 1 0.5 2 ?\n", Data(s, "$d0"));
    EXPECT_EQ("1056455.1 1 0.5 2 ?\n4225820.3 1 0.5 2 ?\n", Data(s, "$d1"));
    EXPECT_THAT(s, HasSubstr("set xrange [832605:5.28228e+06]\n"));
}

TEST_F(Plots, GainsThatAreFarApartHaveALogarithmicAxis)
{
    Iterations its;
    Gains(its, kMib, {0.25, 0.01, 9, 10}, {1, 0, INFINITY, 0});
    Gains(its, 2 * kMib, {1, 0.99, 1.01, 10}, {1, 0, INFINITY, 0});

    Draw(its);

    std::string s = Read("gain_vs_size.svg");
    EXPECT_THAT(s, HasSubstr("set logscale y 10\n"
                             "set yrange [0.181818:1.375]\n"))
        << "and what is unsure does not stretch it";
    EXPECT_THAT(s, HasSubstr("set ylabel 'Gain, with its 95% interval'\n"));
    EXPECT_THAT(s, Not(HasSubstr("using 1:5")));
}

TEST_F(Plots, GainsAreOfEachModeAndRatioWithSeveralSizes)
{
    Iterations its;
    for (double ratio : {0.5, 1.0, 2.0})
        for (uint64_t size : {kMib, 4 * kMib}) {
            if (ratio == 2 && size != kMib)
                continue;
            its.Setting(STP_MODE_FSDP, size, ratio);
            its.Arm("auto", {{100}});
            its.Arm("ll", {{100}}).gain = {1, 0, INFINITY, 1};
        }

    EXPECT_EQ(12u, Draw(its));

    EXPECT_THAT(
        Files(),
        ElementsAre("gain_vs_size_fsdp_ratio0.5_layers8.svg",
                    "gain_vs_size_fsdp_ratio1_layers8.svg",
                    "iteration_times_ecdf_fsdp_1M_ratio0.5_layers8.svg",
                    "iteration_times_ecdf_fsdp_1M_ratio1_layers8.svg",
                    "iteration_times_ecdf_fsdp_1M_ratio2_layers8.svg",
                    "iteration_times_ecdf_fsdp_4M_ratio0.5_layers8.svg",
                    "iteration_times_ecdf_fsdp_4M_ratio1_layers8.svg",
                    "iteration_times_histogram_fsdp_1M_ratio0.5_layers8.svg",
                    "iteration_times_histogram_fsdp_1M_ratio1_layers8.svg",
                    "iteration_times_histogram_fsdp_1M_ratio2_layers8.svg",
                    "iteration_times_histogram_fsdp_4M_ratio0.5_layers8.svg",
                    "iteration_times_histogram_fsdp_4M_ratio1_layers8.svg"));
}

TEST_F(Plots, ArmsThatNeverRanBesideAutoHaveNoGains)
{
    Iterations its;
    for (uint64_t size : {kMib, 4 * kMib}) {
        its.Setting(STP_MODE_OVERLAP, size);
        its.Arm("auto", {{100}});
        its.Arm("ll", {{100}}).gain = {1, 0, INFINITY, 0};
    }

    EXPECT_EQ(4u, Draw(its)) << "no gains at all";

    its.Setting(STP_MODE_OVERLAP, 16 * kMib);
    its.Arm("auto", {{100}});
    its.Arm("ll", {{100}}).gain = {1.5, 0, INFINITY, 1};
    EXPECT_EQ(7u, Draw(its));
    EXPECT_EQ("16777216 1.5 1.5 1.5 ?\n",
              Data(Read("gain_vs_size.svg"), "$d0"));
}

// ---- pictures ----

// Lognormal around 'median', rounds apart by half a percent.
std::vector<std::vector<double>> Noisy(uint64_t seed, double median)
{
    std::vector<std::vector<double>> rounds(10);
    uint64_t c = 0;
    auto normal = [&] {
        double u = 1 - stp_rng_unit(seed, c++);
        return sqrt(-2 * log(u)) * cos(2 * M_PI * stp_rng_unit(seed, c++));
    };
    for (auto &round : rounds) {
        double drift = exp(0.005 * normal());
        for (int i = 0; i < 30; i++)
            round.push_back(median * drift * exp(0.01 * normal()));
    }
    return rounds;
}

TEST_F(Plots, GnuplotTakesTheScripts)
{
    if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
        GTEST_SKIP() << "no gnuplot here";
    Iterations its;
    for (uint64_t size : {kMib, 4 * kMib}) {
        its.Setting(STP_MODE_SEQUENTIAL, size);
        its.Arm("auto", Noisy(1, 4000));
        stp_iteration_arm &arm = its.Arm("ring/ll128/16", Noisy(2, 3700));
        arm.gain = {1.08, 1.06, 1.1, 10};
        arm.alone_us = size == kMib ? 100 : 0;
        arm.alone_gain = {0.97, 0.96, 0.98, 10};
    }
    size_t n = 0;

    for (stp_plot_format format : {STP_PLOT_PNG, STP_PLOT_SVG}) {
        ASSERT_EQ(STP_OK, stp_iteration_plots_save(&its.Report(), dir_.c_str(),
                                                   format, nullptr, &n, &err_))
            << err_.text;
        EXPECT_EQ(5u, n);
    }

    for (const std::string &file : Files())
        EXPECT_THAT(Read(file), StartsWith(file.substr(file.size() - 3) == "png"
                                               ? "\x89PNG\r\n\x1a\n"
                                               : "<?xml"))
            << file;
    EXPECT_EQ(10u, Files().size());
    EXPECT_THAT(Read("gain_vs_size.svg"), HasSubstr(">ring/ll128/16<"));
}

TEST_F(Plots, SayThatThereIsNoGnuplot)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, kMib);
    its.Arm("auto", {{100}});
    size_t n = 7;

    EXPECT_EQ(STP_ERR_NOTHING,
              stp_iteration_plots_save(&its.Report(), dir_.c_str(),
                                       STP_PLOT_PNG, "/no/gnuplot", &n, &err_));

    EXPECT_THAT(err_.text, StartsWith("cannot run '/no/gnuplot'"));
    EXPECT_EQ(7u, n);
    EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(Plots, AreFilesOfTheFolderThatIsReplaced)
{
    Iterations its;
    for (uint64_t size : {kMib, 4 * kMib}) {
        its.Setting(STP_MODE_OVERLAP, size);
        its.Arm("auto", {{100}});
        its.Arm("ll", {{100}}).gain = {1, 0, INFINITY, 1};
    }
    Draw(its);
    ASSERT_EQ(5u, Files().size());

    EXPECT_EQ(STP_OK, stp_iteration_folder(dir_.c_str(), true, &err_));

    EXPECT_TRUE(fs::is_empty(dir_));
}

} // namespace
