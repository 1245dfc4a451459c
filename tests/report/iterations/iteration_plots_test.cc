// Plots of iterations: scripts and pictures.
#include "report/iterations/iterations_by_hand.h"

extern "C" {
#include "report/iterations/iteration_files.h"
}

#include "support/charts.h"
#include "support/temporary_folder.h"

namespace
{

using namespace by_hand;
using charts::Blocks;
using charts::Essence;
using charts::HasGnuplot;
using charts::Legend;
using charts::Printed;
using charts::Setting;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

// Plots drawn by a gnuplot that hands back the script.
class Plots : public IterationFolder
{
  protected:
    void SetUp() override
    {
        charts::WriteCopyist(program_);
    }

    // How many pictures there are then.
    size_t Draw(Iterations &its)
    {
        EXPECT_EQ(STP_OK, stp_iteration_plots_save(&its.Report(), dir_.c_str(),
                                                   STP_PLOT_SVG,
                                                   program_.c_str(), &err_))
            << err_.text;
        return Files().size();
    }

    TemporaryFolder elsewhere_;
    const std::string program_ = elsewhere_.Path("gnuplot");
};

// The titles that the legend has, in order.
// Quartiles at 100 and 104: 20 bins at least, of 10 us / 20.
const std::vector<double> kTen = {100, 100, 100, 102, 102,
                                  104, 104, 104, 106, 110};

TEST_F(Plots, OfTimesAreExact)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {kTen});
    its.Arm("ll128", {{100, 100}, {100, 109.9}});

    EXPECT_EQ(1u, Draw(its));

    const std::string s = Read("iteration_times_histogram.svg");
    EXPECT_GOLDEN("iteration_times_histogram", Essence(s));
    EXPECT_THAT(s, HasSubstr("\n# times.gp - "));
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

    const std::string s = Read("iteration_times_histogram.svg");
    EXPECT_EQ("'Iteration time (us); 1 of 102 iterations, up to 2000 us, "
              "are further right'",
              Setting(s, "xlabel"));
    EXPECT_EQ("97.96", Setting(s, "x_low"));
    EXPECT_EQ("204.04", Setting(s, "x_high"));
}

TEST_F(Plots, TimesThatAreAllAlikeHaveAnAxis)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {{500, 500}, {500}});

    Draw(its);

    std::string s = Read("iteration_times_histogram.svg");
    EXPECT_EQ("499.99", Setting(s, "x_low"));
    EXPECT_EQ("500.51", Setting(s, "x_high"));
    EXPECT_THAT(Blocks(s),
                ElementsAre("auto 500 0\nauto 500 100\nauto 500.00333 0\n"));
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

    EXPECT_EQ(3u, Draw(its));

    EXPECT_THAT(
        Legend(Read("iteration_times_histogram_overlap_1M_ratio1_layers8.svg")),
        ElementsAre("auto, 100 us", "auto2, 100 us", "ring/simple/1, 100 us",
                    "ring/simple/2, 100 us", "ring/simple/4, 100 us",
                    "ring/simple/5, 100 us", "ring/simple/6, 100 us",
                    "ring/simple/7, 100 us"));
    EXPECT_THAT(Legend(Read("gain_vs_size.svg")),
                ElementsAre("auto2", "ring/simple/1", "ring/simple/2",
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

    const std::string s = Read("gain_vs_size.svg");
    EXPECT_GOLDEN("gain_vs_size", Essence(s));
    EXPECT_THAT(s, HasSubstr("\n# gains.gp - "));
    if (HasGnuplot()) {
        EXPECT_EQ(" 0.85625 1.20625\n",
                  Printed(s, {"GPVAL_Y_MIN", "GPVAL_Y_MAX"}));
    }
}

TEST_F(Plots, IntervalsOfSeveralArmsStandBesideEachOther)
{
    if (!HasGnuplot())
        GTEST_SKIP() << "no gnuplot here";
    Iterations its;
    for (uint64_t size : {kMib, 4 * kMib}) {
        its.Setting(STP_MODE_OVERLAP, size);
        its.Arm("auto", {{100}});
        for (const char *arm : {"ll", "ll128"})
            its.Arm(arm, {{100}}).gain = {1, 0.5, 2, 10};
    }

    Draw(its);

    EXPECT_EQ(" 0.992542 1.00751\n",
              Printed(Read("gain_vs_size.svg"), {"beside(1)", "beside(2)"}));
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

    EXPECT_EQ(7u, Draw(its));

    for (const char *name :
         {"gain_vs_size_fsdp_ratio0.5_layers8",
          "gain_vs_size_fsdp_ratio1_layers8",
          "iteration_times_histogram_fsdp_1M_ratio2_layers8",
          "iteration_times_histogram_fsdp_4M_ratio1_layers8"})
        EXPECT_THAT(Files(), testing::Contains(name + std::string(".svg")));
}

TEST_F(Plots, ArmsThatNeverRanBesideAutoHaveNoGains)
{
    Iterations its;
    for (uint64_t size : {kMib, 4 * kMib}) {
        its.Setting(STP_MODE_OVERLAP, size);
        its.Arm("auto", {{100}});
        its.Arm("ll", {{100}}).gain = {1, 0, INFINITY, 0};
    }

    EXPECT_EQ(2u, Draw(its)) << "no gains at all";

    its.Setting(STP_MODE_OVERLAP, 16 * kMib);
    its.Arm("auto", {{100}});
    its.Arm("ll", {{100}}).gain = {1.5, 0, INFINITY, 1};
    EXPECT_EQ(4u, Draw(its));
    EXPECT_THAT(Blocks(Read("gain_vs_size.svg")),
                ElementsAre("ll 16777216 1.5 1.5 1.5 ?\n"));
}

// ---- pictures ----

TEST_F(Plots, GnuplotTakesTheScripts)
{
    if (!HasGnuplot())
        GTEST_SKIP() << "no gnuplot here";
    Iterations its;
    for (uint64_t size : {kMib, 4 * kMib}) {
        its.Setting(STP_MODE_SEQUENTIAL, size);
        its.Arm("auto", {{4000, 4100, 3900}});
        stp_iteration_arm &arm = its.Arm("ring/ll128/16", {{3700, 3750, 3650}});
        arm.gain = {1.08, 1.06, 1.1, 10};
        arm.alone_us = size == kMib ? 100 : 0;
        arm.alone_gain = {0.97, 0.96, 0.98, 10};
    }

    for (stp_plot_format format : {STP_PLOT_PNG, STP_PLOT_SVG}) {
        ASSERT_EQ(STP_OK, stp_iteration_plots_save(&its.Report(), dir_.c_str(),
                                                   format, nullptr, &err_))
            << err_.text;
    }

    for (const std::string &file : Files())
        EXPECT_THAT(Read(file), StartsWith(file.substr(file.size() - 3) == "png"
                                               ? "\x89PNG\r\n\x1a\n"
                                               : "<?xml"))
            << file;
    EXPECT_EQ(6u, Files().size());
    EXPECT_EQ(STP_OK, stp_iteration_folder(dir_.c_str(), true, &err_));
    EXPECT_TRUE(fs::is_empty(dir_)) << "all are ours";
}

TEST_F(Plots, LongTimesAreInMilliseconds)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    its.Arm("auto", {{4000, 2000}, {8000, 6000}});

    Draw(its);

    const std::string s = Read("iteration_times_histogram.svg");
    EXPECT_EQ("'Iteration time (ms)'", Setting(s, "xlabel"));
    EXPECT_THAT(Legend(s), ElementsAre("auto, 5 ms"));
}

TEST_F(Plots, GainsThatAreFarApartHaveALogarithmicAxis)
{
    if (!HasGnuplot())
        GTEST_SKIP() << "no gnuplot here";
    Iterations its;
    Gains(its, kMib, {0.25, 0.01, 9, 10}, {1, 0, INFINITY, 0});
    Gains(its, 2 * kMib, {1, 0.99, 1.01, 10}, {1, 0, INFINITY, 0});

    Draw(its);

    std::string s = Read("gain_vs_size.svg");
    EXPECT_EQ(" 0.181818 1.375\n", Printed(s, {"GPVAL_Y_MIN", "GPVAL_Y_MAX"}))
        << "and what is unsure does not stretch it";
    EXPECT_EQ("'Gain, with its 95% interval'", Setting(s, "ylabel"));
    EXPECT_EQ("0", Setting(s, "has_alone"));
}

} // namespace
