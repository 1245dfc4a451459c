// What is said of iterations: tables, sentences, regimes.
#include "report/iterations/iterations_by_hand.h"

extern "C" {
#include "report/iterations/iteration_words.h"
}

namespace
{

using namespace by_hand;
using testing::HasSubstr;
using IterationTables = IterationFolder;

TEST_F(IterationTables, SummaryForPeopleIsExact)
{
    Iterations its;
    AddOverlap(its);

    Save(its);

    EXPECT_EQ(
        "# Training iterations: each arm against AUTO\n"
        "\n"
        "h200x2, NVIDIA H200, NCCL 2.28.9, 2 of 3 measured, 1 of 3 "
        "interpolated; made by hand\n"
        "\n"
        "## overlap: allreduce of 8 MiB, 8 layers of gemm, ratio 1\n"
        "\n"
        "2 ranks; compute alone 900.0 us, communication alone 950.5 us: "
        "ratio 0.947.\n"
        "\n"
        "| arm | ran as | rounds | iterations | mean us | p50 us | p95 us | "
        "p99 us | min us | gain | 95% interval | exposed us | alone us | alone "
        "algbw GB/s | alone busbw GB/s | alone gain | 95% interval | times |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
        "---|\n"
        "| auto | ring/simple/16 | 2 | 4 | 1100.0 | 1100.0 | 1185.0 | 1197.0 | "
        "1000.0 | 1 |  | 200.0 | 119.5 | 70.25 | 70.25 | 1 |  | measured |\n"
        "| ll128 | ring/ll128/16 | 2 | 4 | 1000.0 | 1000.0 | 1042.5 | 1048.5 | "
        "950.0 | 1.100 | 1.080 to 1.120 | 100.0 | 119.8 | 70.00 | 70.00 | "
        "0.998 | 0.990 to 1.006 | measured |\n"
        "| ring/simple/16 | - | 1 | 1 | 1300.0 | 1300.0 | 1300.0 | 1300.0 | "
        "1300.0 | 0.846 | one round | 400.0 | - | - | - | - | - | interpolated "
        "|\n"
        "\n"
        "ll128 has the shortest iterations: 1.100 times as fast as AUTO (95 "
        "percent interval 1.080 to 1.120). 2 rounds resolve 0.4 percent.\n",
        Read("summary.md"));
}

TEST_F(IterationTables, OfATerminalAreExact)
{
    Iterations its;
    AddOverlap(its);
    its.Setting(STP_MODE_FSDP, 1000, 0).like.type = STP_TYPE_F32;
    its.Arm("auto", {{90}});

    EXPECT_EQ(
        "overlap: allreduce of 8388608 bytes, 8 layers of gemm, ratio 1; "
        "compute alone 900.0 us, communication alone 950.5 us: ratio 0.947; "
        "interpolated\n"
        "arm             ran as          mean us     p50     p95     p99   "
        "gain    95% interval  exposed  alone us  busbw  alone gain\n"
        "auto            ring/simple/16   1100.0  1100.0  1185.0  1197.0      "
        "1                    200.0     119.5  70.25           1\n"
        "ll128           ring/ll128/16    1000.0  1000.0  1042.5  1048.5  "
        "1.100  1.080 to 1.120    100.0     119.8  70.00       0.998\n"
        "ring/simple/16  -                1300.0  1300.0  1300.0  1300.0  "
        "0.846       one round    400.0         -      -           -\n"
        "ll128 has the shortest iterations: 1.100 times as fast as AUTO (95 "
        "percent interval 1.080 to 1.120).\n"
        "2 rounds resolve 0.4 percent.\n"
        "\n"
        "fsdp: allgather and reducescatter of 1000 bytes, f32, 8 layers of "
        "gemm of 4096x2048x1024; compute alone 0.00 us\n"
        "arm   ran as          mean us    p50    p95    p99  gain  95% "
        "interval  exposed  alone us  busbw  alone gain\n"
        "auto  ring/simple/16    90.00  90.00  90.00  90.00     1             "
        "     90.00         -      -           -\n"
        "AUTO is the only arm.\n",
        Written([&](FILE *fp) {
            return stp_print_iterations(its.Report().summary, fp, nullptr);
        }));
}

TEST_F(IterationTables, ARatioThatIsNotTheOneAskedForIsSaid)
{
    struct Case {
        double asked, compute_us;
        const char *want;
    } cases[] = {
        {1, 1000, "communication alone 1000.00 us: ratio 1\n"},
        {1, 1090, ": ratio 1.09\n"},
        {1, 1110, ": ratio 1.11 and not 1, as no GEMM tried comes closer\n"},
        {0.25, 804, ": ratio 0.804 and not 0.25, as no GEMM tried comes "},
        {0, 804, ": ratio 0.804\n"}, // the GEMM was asked for
    };
    for (const Case &c : cases) {
        Iterations its;
        stp_iteration_setting &s = its.Setting(STP_MODE_OVERLAP, kMib);
        s.like.work.ratio = c.asked;
        s.compute_us = c.compute_us;
        s.comm_us = 1000;
        its.Arm("auto", {{100}});

        EXPECT_THAT(Written([&](FILE *fp) {
                        return stp_print_iterations(its.Report().summary, fp,
                                                    nullptr);
                    }),
                    HasSubstr(c.want));
    }
}

TEST_F(IterationTables, ArmsThatNeverRanBesideAutoHaveNoGain)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, kMib);
    its.Arm("auto", {{100}});
    its.Arm("ll", {{100}}).gain = {1, 0, INFINITY, 0};

    Save(its);

    EXPECT_THAT(Read("summary.md"), HasSubstr("| 100.00 | - | - | 100.00 |"));
    EXPECT_THAT(Read("summary.csv"), HasSubstr(",100.000,,,,100.000,"));
}

// ---- the sentence ----

struct SentenceCase {
    const char *what;
    std::vector<std::pair<const char *, stp_gain>> arms;
    double resolution;
    const char *sentence;
};

const stp_gain kFaster{1.05, 1.03, 1.07, 10};
const stp_gain kMuchFaster{1.25, 1.2, 1.3, 10};
const stp_gain kUnsure{1.5, 0.9, 2.5, 10};
const stp_gain kSlower{0.9, 0.85, 0.95, 10};
const stp_gain kMuchSlower{0.5, 0.4, 0.6, 10};
const stp_gain kOneRound{1.2, 0, INFINITY, 1};

const SentenceCase kSentences[] = {
    {"the largest gain that is sure",
     {{"ll", kFaster}, {"ll128", kMuchFaster}, {"simple", kUnsure}},
     0.0123,
     "ll128 has the shortest iterations: 1.250 times as fast as AUTO (95 "
     "percent interval 1.200 to 1.300). 10 rounds resolve 1.23 percent."},
    {"a second AUTO is no arm to choose",
     {{"auto2", kMuchFaster}, {"ll", kFaster}},
     0.01,
     "ll has the shortest iterations: 1.050 times as fast as AUTO (95 percent "
     "interval 1.030 to 1.070). 10 rounds resolve 1 percent."},
    {"none is sure",
     {{"ll", kUnsure}},
     0.25,
     "No arm differs from AUTO with 95 percent confidence. 10 rounds resolve "
     "25 percent."},
    {"all are slower",
     {{"ll", kMuchSlower}, {"ll128", kSlower}},
     1e-9,
     "AUTO has the shortest iterations: ll128, the next, is 0.900 times as "
     "fast (95 percent interval 0.850 to 0.950). 10 rounds resolve 0.01 "
     "percent."},
    {"some are slower",
     {{"ll", kSlower}, {"ll128", kUnsure}},
     0.01,
     "No arm is faster than AUTO with 95 percent confidence; 1 of 2 are "
     "slower. 10 rounds resolve 1 percent."},
    {"one round",
     {{"ll", kOneRound}},
     INFINITY,
     "One round does not tell an arm from AUTO."},
    {"nothing to compare with",
     {{"auto2", kFaster}},
     0.01,
     "AUTO is the only arm. 10 rounds resolve 1 percent."},
};

TEST_F(IterationTables, OneSentenceSaysWhichArmIsTheBest)
{
    for (const SentenceCase &c : kSentences) {
        SCOPED_TRACE(c.what);
        Iterations its;
        its.Setting(STP_MODE_OVERLAP, kMib).resolution = c.resolution;
        its.Arm("auto", std::vector<std::vector<double>>(10, {100}));
        for (const auto &[name, gain] : c.arms)
            its.Arm(name, {{100}}).gain = gain;

        Save(its);

        std::string s = Read("summary.md");
        s.pop_back();
        EXPECT_EQ(c.sentence, s.substr(s.rfind('\n') + 1));
    }
}

// ---- regimes ----

TEST_F(IterationTables, RegimesAreExact)
{
    Iterations its;
    AddOverlap(its);
    its.Setting(STP_MODE_OVERLAP, kMib);
    its.Arm("auto", {{100}});
    its.Report();
    its.report_.looked_for_regimes = true;
    its.report_.min_gain = 0.02;
    its.Regime(0, 0, 1, {1.1, 1.08, 1.12, 2}, {1.002, 0.994, 1.01, 2});

    Save(its);

    EXPECT_EQ(std::string(kHead) +
                  "setting,mode,compute,collective,bytes,layers,ratio,m,n,k,"
                  "nNodes,nRanks,type,op,fastest_alone,best_iteration,"
                  "fastest_alone_mean_us,best_iteration_mean_us,gain,gain_low,"
                  "gain_high,fastest_alone_us,best_iteration_alone_us,"
                  "alone_gain,alone_gain_low,alone_gain_high,rounds,source\n"
                  "overlap_8M_ratio1_layers8,overlap,gemm,allreduce,8388608,8,"
                  "1,4096,2048,1024,1,2,bf16,sum,auto,ll128,1100.000,1000.000,"
                  "1.100000,1.080000,1.120000,119.500,119.750,1.002000,"
                  "0.994000,1.010000,2,measured\n",
              Read("regimes.csv"));
    EXPECT_EQ("# Where the fastest collective is not the shortest iteration\n"
              "\n"
              "h200x2, NVIDIA H200, NCCL 2.28.9, 3 of 4 measured, 1 of 4 "
              "interpolated; made by hand\n"
              "\n"
              "In 1 of 2 settings the arm that is the fastest alone is not the "
              "one with the shortest iteration, by at least 2 percent.\n"
              "\n"
              "| setting | fastest alone | best iteration | gain | 95% "
              "interval | alone gain | 95% interval |\n"
              "|---|---|---|--:|--:|--:|--:|\n"
              "| overlap_8M_ratio1_layers8 | auto | ll128 | 1.100 | 1.080 to "
              "1.120 | 1.002 | 0.994 to 1.010 |\n",
              Read("regimes.md"));
    EXPECT_EQ("In 1 of 2 settings the arm that is the fastest alone is not the "
              "one with the shortest iteration, by at least 2 percent.\n"
              "mode     collective  bytes  GEMM            ratio  fastest "
              "alone  shortest iteration   gain    95% interval  gain alone  "
              "times\n"
              "overlap  allreduce   8 MiB  4096x2048x1024   0.95  auto        "
              "   ll128               1.100  1.080 to 1.120       0.998  "
              "measured\n",
              Written([&](FILE *fp) {
                  return stp_print_regimes(&its.Report(), fp, nullptr);
              }));
}

TEST_F(IterationTables, RegimesAreAsGoodAsTheWorseOfTheirArms)
{
    Iterations its;
    AddOverlap(its);
    its.Report();
    its.report_.looked_for_regimes = true;
    its.Regime(0, 0, 2, {1.1, 1, 2, 2}, {1, 1, 1, 2});
    its.Regime(0, 2, 1, {1.1, 1, 2, 2}, {1, 1, 1, 2});
    its.Regime(0, 0, 1, {1.1, 1, 2, 2}, {1, 1, 1, 2});

    Save(its);

    EXPECT_THAT(Read("regimes.csv"),
                testing::ContainsRegex(",2,interpolated\n.*,2,interpolated\n"
                                       ".*,2,measured\n$"));
}

// Terminals get those of the largest gains; files have all, in order.
TEST_F(IterationTables, TheVerdictIsShort)
{
    Iterations its;
    AddOverlap(its);
    its.Report();
    its.report_.looked_for_regimes = true;
    for (int i = 0; i < 10; i++) {
        const double gain = 1 + .01 * (i * 7 % 10 + 1);
        its.Regime(0, 0, 1, {gain, gain, gain, 2}, {1, 1, 1, 2});
    }
    const std::string text = Written([&](FILE *fp) {
        return stp_print_regimes(&its.Report(), fp, nullptr);
    });

    EXPECT_EQ(11, std::count(text.begin(), text.end(), '\n')) << text;
    EXPECT_THAT(text, HasSubstr("\nThose of the largest gains:\nmode "));
    size_t at = 0;
    for (const char *gain : {"1.100", "1.090", "1.080", "1.070", "1.060",
                             "1.050", "1.040", "1.030"}) {
        const size_t next = text.find(std::string("  ") + gain + "  ", at);
        EXPECT_LT(at, next) << text;
        EXPECT_NE(std::string::npos, next) << gain;
        at = next;
    }
}

TEST_F(IterationTables, AModelDecidesNothing)
{
    Iterations its;
    AddOverlap(its);
    its.report_.looked_for_regimes = true;
    its.report_.min_gain = 0.02;
    its.Arm("tree/ll", {{1000}}).source = STP_SOURCE_MODELLED;
    its.Regime(0, 0, 1, {1.1, 1.08, 1.12, 2}, {1, 1, 1, 2});
    its.Regime(0, 0, 3, {1.1, 1.08, 1.12, 2}, {1, 1, 1, 2});
    char text[STP_ITERATION_TEXT];

    stp_iteration_regime_text(&its.Report(), text);
    EXPECT_STREQ("In 2 of 1 setting the arm that is the fastest alone is not "
                 "the one with the shortest iteration, by at least 2 percent; "
                 "1 of them by modelled times, which decide nothing.",
                 text);
}

TEST_F(IterationTables, WithoutARegimeASentenceSaysSo)
{
    Iterations its;
    AddOverlap(its);
    its.report_.looked_for_regimes = true;
    its.report_.min_gain = 0.05;

    Save(its);

    EXPECT_THAT(Read("regimes.md"),
                HasSubstr("\n\nNone among 1 setting: nowhere is the arm that "
                          "is the fastest alone sure to be at least 5 percent "
                          "behind.\n"));
    EXPECT_EQ("source\n",
              Read("regimes.csv").substr(Read("regimes.csv").rfind(',') + 1));
    EXPECT_EQ("None among 1 setting: nowhere is the arm that is the fastest "
              "alone sure to be at least 5 percent behind.\n",
              Written([&](FILE *fp) {
                  return stp_print_regimes(&its.Report(), fp, nullptr);
              }));
}

} // namespace
