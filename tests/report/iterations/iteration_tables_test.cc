// Iterations in words: tables, sentences, regimes.
#include "report/iterations/iterations_by_hand.h"

extern "C" {
#include "report/iterations/iteration_files.h"
}

namespace
{

using namespace by_hand;
using testing::HasSubstr;
using IterationTables = IterationFolder;

TEST_F(IterationTables, AreExactInAllFilesAndOnTerminals)
{
    Iterations its;
    AddOverlap(its);
    its.Setting(STP_MODE_FSDP, 1000, 0).like.type = STP_TYPE_F32;
    its.Arm("auto", {{90}});
    its.Report();
    its.report_.looked_for_regimes = true;
    its.report_.min_gain = 0.02;
    its.Regime(0, 0, 1, {1.1, 1.08, 1.12, 2}, {1.002, 0.994, 1.01, 2});

    Save(its);

    for (const char *name : {"summary.md", "summary.json", "regimes.md"})
        EXPECT_GOLDEN(std::string("iterations_") + name, Read(name));
    EXPECT_EQ(Read("summary.json"), Written([&](FILE *fp) {
                  stp_print_iterations_json(&its.Report(), fp);
              }));
    EXPECT_GOLDEN("iterations.txt", Written([&](FILE *fp) {
                      stp_print_iterations(its.Report().summary, fp);
                  }));
    EXPECT_GOLDEN("iterations_regimes.txt", Written([&](FILE *fp) {
                      stp_print_regimes(&its.Report(), fp);
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
                        stp_print_iterations(its.Report().summary, fp);
                    }),
                    HasSubstr(c.want));
    }
}
// ---- the sentence ----

const stp_gain kFaster{1.05, 1.03, 1.07, 10};
const stp_gain kMuchFaster{1.25, 1.2, 1.3, 10};
const stp_gain kUnsure{1.5, 0.9, 2.5, 10};
const stp_gain kSlower{0.9, 0.85, 0.95, 10};
const stp_gain kMuchSlower{0.5, 0.4, 0.6, 10};
const stp_gain kOneRound{1.2, 0, INFINITY, 1};

const struct {
    const char *what;
    std::vector<std::pair<const char *, stp_gain>> arms;
    double resolution;
    const char *sentence;
} kSentences[] = {
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
     "Neither one round nor a model tells an arm from AUTO."},
    {"nothing to compare with",
     {{"auto2", kFaster}},
     0.01,
     "AUTO is the only arm. 10 rounds resolve 1 percent."},
};

TEST_F(IterationTables, OneSentenceSaysWhichArmIsTheBest)
{
    for (const auto &c : kSentences) {
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
    const std::string text =
        Written([&](FILE *fp) { stp_print_regimes(&its.Report(), fp); });

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
} // namespace
