// Tests of a job's journal: verdicts and tables.
extern "C" {
#include "report/learning/learning.h"
}

#include <gmock/gmock.h>

#include <cmath>

#include "nccl_tuner_abi.h"
#include "report/learning/journals.h"
#include "support/slow.h"
#include "support/written.h"

namespace
{

using namespace journals;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// A journal may have as many kinds of message as it has lines: each line finds
// its own without a look at all others.
TEST(Learning, SumsUpAHundredThousandKindsOfMessage)
{
    STP_SLOW();
    const uint64_t n = 100000;
    std::string text;
    for (uint64_t i = 0; i < 2 * n; i++) {
        const std::string min = std::to_string(8 * (i * 7919 % n));
        text += "1,1,1,4,reward,1,allreduce," + min + "," + min +
                ",auto,auto,," + std::to_string(10 + 2 * (i / n)) + ",,,\n";
    }
    Learning l(text);

    ASSERT_EQ(n, l.sum.n);
    for (uint64_t i = 0; i < n; i++) {
        ASSERT_EQ(8 * i, l.sum.keys[i].bytes.min);
        ASSERT_EQ(2u, l.sum.keys[i].n_times);
        ASSERT_EQ(11, l.sum.keys[i].arms[0].mean);
    }
}

// ---- verdicts ----

struct VerdictCase {
    const char *name;
    std::string text;
    const char *row; // its end, blanks put together; or nullptr
};

std::string Squeezed(const std::string &text)
{
    std::string s;
    for (char c : text)
        if (c != ' ' || s.empty() || s.back() != ' ')
            s += c;
    return s;
}

std::string Table(const Learning &l, const char *policy = "learned.conf",
                  const char *base = nullptr)
{
    const stp_learning_setting setting = {"halving", "auto", policy, base};
    return Squeezed(
        Written([&](FILE *fp) { stp_print_learning(&l.sum, &setting, fp); }));
}

std::string Step(double us)
{
    return "0,1,1,4,step,5,,,,,,," + std::to_string(us) + ",1.25,1.25,1.25\n";
}

std::string Busy(double us)
{
    return Line(5, "busy", kOwn, std::to_string(us) + ",,,");
}

std::string Bound(unsigned n, double high)
{
    return Line(70, "bound", kRing,
                std::to_string(n) + ",0.98,0.97," + std::to_string(high));
}

// A block in which 'arm' had a gain over 'base'.
std::string Block(const std::string &base, const std::string &arm, double gain,
                  const char *comm = "1")
{
    const std::string g = std::to_string(gain);

    return Line(2, "block", base, "20,,,", comm) +
           Line(2, "block", arm, "19," + g + "," + g + "," + g, comm);
}

std::string Blocks(const std::string &base, const std::string &arm,
                   std::vector<double> gains, const char *comm = "1")
{
    std::string text;

    for (double gain : gains)
        text += Block(base, arm, gain, comm);
    return text;
}

std::string Incumbent(const std::string &arm)
{
    return Line(8, "incumbent", arm, kNoGain);
}

TEST(Learning, SaysWhatBecameOfAMessage)
{
    const std::string tried = Reward(1, kOwn, 40) + Trial(8, kRing);
    const VerdictCase cases[] = {
        {"untried", Reward(1, kOwn, 40), "1 0 - - nothing tried"},
        {"trying", tried, "1 1 - - no bound yet"},
        {"settled", tried + Settled(20, kRing),
         "1 1 ring/ll128/24 1.400x (1.300 to 1.500) settled"},
        {"own", tried + Settled(20, kOwn), "1 1 left as is - settled"},
        {"dropped", tried + Settled(60, kRing) + Incumbent(kOwn),
         "1 1 - - no bound yet"},
        {"bounded by its time", Step(36000) + Busy(360) + Reward(1, kOwn, 40),
         "1 0 - - gains 1.0 percent at most, 0 tried"},
        {"bounded by its arms",
         tried + Step(36000) + Busy(360) + Bound(3, 1.004),
         "1 1 - - gains 0.4 percent at most, 3 tried"},
        {"bounded, and settled", tried + Bound(3, .99) + Settled(60, kOwn),
         "1 1 left as is - gains 0.1 percent at most, 3 tried"},
        {"bounded, and won", tried + Bound(3, 1.5) + Settled(60, kRing),
         "1 1 ring/ll128/24 1.400x (1.300 to 1.500) settled"},
        {"won, and not settled",
         tried + Bound(3, 1.5) + Blocks(kOwn, kRing, {1.4, 1.4}) +
             Incumbent(kRing),
         "5 1 ring/ll128/24 1.400x (1.400 to 1.400) won so far"},
        {"drifted", tried + Settled(60, kRing) + Settled(90, kOwn),
         "1 1 left as is - settled"},
    };

    for (const VerdictCase &c : cases)
        EXPECT_THAT(Table(Learning(c.text)),
                    HasSubstr(std::string(" 4 allgather 4194304 5242879 ") +
                              c.row + "\n"))
            << c.name;
}

// Bounds come before a trial, of the arms, and with the time of a smaller one.
TEST(Learning, BoundsWhatCanBeWon)
{
    const std::string window = "5,1,1,4,window,5,,,,,,,4,,,\n";
    const std::string small = "5,1,1,4,busy,5,broadcast,8,9,auto,auto,,";
    const std::string busy = Busy(7200) + Bound(3, 1.02);
    const std::pair<std::string, const char *> cases[] = {
        {small + "18,,,\n5,1,1,4,busy,5,broadcast,16,19,auto,auto,,9,,,\n" +
             Busy(1800) + window + Reward(1, kOwn, 40) + Trial(60000, kRing) +
             Bound(3, 1.02),
         "Collectives of 4 ranks take 7.2 of the 36 ms of a step .what the job "
         "repeats.: no choice of NCCL's shortens it by more than 20.0 "
         "percent.\nNCCL's events do not tell[^\n]*\n[^!]*\n"
         "2 more kinds of message take less than 0.1 percent of the time each, "
         "0.075 percent together.\nNo arm of the 3 that were tried makes a "
         "step shorter by more than 2.0 percent .95 percent confidence..\n"
         "All kinds of message together can shorten it by 2.1 percent at most; "
         "a bound of 1 percent would take about 4 minutes more.\n"},
        // a kind that was not tried takes as long as the one that was
        {Busy(1800) + window + Trial(60000, kRing) + Bound(3, 1.003) + small +
             "7000,,,\n",
         "would take about 60 s more"},
        {Busy(1800) + "5,1,1,4,host,5,,,,,,,0.97,,,\n",
         "The host seems to bound the job: the GPU began 97 percent"},
        // a kind that the steps that were timed do not have
        {busy + Settled(9, kRing) + small + "0,,,\n",
         "\n1 kind of message is not in what the job repeats, and not tried"},
        // arms that were not tried may gain what the bound of others rules out
        {busy + "5,1,1,4,untried,5,allgather,4194304,5242879,auto,auto,,2,,,\n",
         "gains 20.0 percent at most, 3 of 5 tried\nNo arm of the 3 .* than "
         "2.0 "
         "percent.*\n2 more arms were not tried yet: a longer run tries them.\n"
         "All kinds .* 20.0 percent at most"},
    };

    for (const auto &c : cases)
        EXPECT_THAT(Table(Learning(Step(36000) + c.first)),
                    ContainsRegex(c.second));
    EXPECT_THAT(Table(Learning(Step(36000) + cases[0].first)),
                Not(ContainsRegex("host|broadcast")));
    EXPECT_THAT(Table(Learning(Step(36000) + busy + Settled(9, kRing))),
                Not(HasSubstr("No arm")));
}

// ---- arms together ----

std::string Set(double gain, const char *comm = "1", const char *us = "500")
{
    const std::string g = std::to_string(gain);

    return "9," + std::string(comm) + ",1,4,set,9,,,,,,," + us + "," + g + "," +
           g + "," + g + "\n";
}

TEST(Learning, SumsUpWhatAnArmGainsOverWhatRanBefore)
{
    const std::string ll = "ring,ll,0";
    const std::vector<double> stalled = {1.1, 1.1, .7, 1.1, 1.1},
                              other = {1.3, 1.3, 1.3, 1.8, 1.3};
    // The gain of the arm 'ring,ll,0' over NCCL's own choice.
    const struct {
        const char *name;
        std::string text;
        size_t n_blocks;
        double gain;
    } cases[] = {
        {"alone", Blocks(kOwn, ll, {1.1, 1.21}), 2, std::pow(1.1, 1.5)},
        {"beside a stall", Blocks(kOwn, ll, stalled), 4, 1.1},
        {"over an arm that won",
         Blocks(kOwn, kRing, {1.1, 1.1}) + Blocks(kRing, ll, {1.2}) +
             Blocks(kOwn, kRing, {1.1}),
         1, 1.1 * 1.2},
        {"over one with a stall",
         Blocks(kOwn, kRing, stalled) + Blocks(kRing, ll, {1.2}), 1, 1.32},
        {"on two communicators, of which one gains more",
         Blocks(kOwn, ll, stalled) + Blocks(kOwn, ll, other, "2"), 8,
         std::sqrt(1.1 * 1.3)},
        {"over what that gains there",
         Blocks(kOwn, kRing, {1.1}) + Blocks(kOwn, kRing, {1.5}, "2") +
             Blocks(kRing, ll, {1.2}, "2"),
         1, 1.5 * 1.2},
        {"over what that gained before",
         Blocks(kOwn, kRing, {1.1}) + Blocks(kRing, ll, {1.2}, "2"), 1, 1.32},
        {"over what nobody knows", Blocks(kRing, ll, {1.2}), 0, 1},
        {"beside a gain that is none",
         Blocks(kOwn, ll, {1.1}) + Block(kOwn, ll, INFINITY), 1, 1.1},
    };

    for (const auto &c : cases) {
        Learning l(c.text);
        const stp_bandit_arm arm = {NCCL_ALGO_RING, NCCL_PROTO_LL, 0};
        const size_t at = stp_learning_find_arm(&l.sum.keys[0], &arm);

        ASSERT_GT(l.sum.keys[0].n_arms, at) << c.name;
        EXPECT_EQ(c.n_blocks, l.sum.keys[0].arms[at].blocks.n) << c.name;
        EXPECT_NEAR(std::log(c.gain), l.sum.keys[0].arms[at].blocks.log_gain,
                    1e-6)
            << c.name;
    }
}

TEST(Learning, SaysWhatAllArmsTogetherGain)
{
    const std::string in_force = Incumbent(kRing);
    const std::string drop = "9,1,1,4,dropped,9,,,,,,,2,0.9,0.8,1\n";
    const VerdictCase cases[] = {
        {"none", in_force, nullptr},
        {"one block", in_force + Set(1.1), nullptr},
        {"alike", in_force + Set(1.1) + Set(1.1),
         "\nWith all that was learned steps are 1.100x as fast as with the "
         "choice without Steptune (1.100 to 1.100; 2 blocks of windows).\n"},
        {"of the last set",
         in_force + Set(2) + Set(2) + Incumbent("ring,ll,0") + Set(1.2) +
             Set(1.2),
         "steps are 1.200x as fast as with the choice without "
         "Steptune (1.200 to 1.200; 2 blocks"},
        {"of the last window",
         in_force + Set(2) + "9,1,1,4,window,9,,,,,,,24,,,\n" + Set(1.2) +
             Set(1.2),
         "(1.200 to 1.200; 2 blocks"},
        {"dropped", in_force + Set(.9) + Set(.9) + drop + Incumbent(kOwn),
         "(0.900 to 0.900; 2 blocks of windows), so the last of it "
         "was dropped.\n"},
        {"beside a block that a stall hit",
         in_force + Set(1.05) + Set(1.04) + Set(.74) + Set(1.05) + Set(1.04),
         "steps are 1.045x as fast as with the choice without "
         "Steptune (1.036 to 1.054; 4 blocks"},
        {"beside a gain that is none", in_force + Set(1.1) + Set(0) + Set(1.1),
         "(1.100 to 1.100; 2 blocks"},
        {"all as far apart",
         in_force + Set(1.3) + Set(1) + Set(.8) + Set(1.2) + Set(1.1),
         "; 5 blocks"},
        {"of two communicators",
         in_force + Set(1.1) + Set(1.1) + Set(1.3, "2") + Set(1.3, "2"),
         "learned on communicator 0000000000000002 steps are 1.300x"},
    };

    std::string blocks = in_force;
    for (int i = 0; i <= 8; i++) {
        const Learning l(blocks);
        EXPECT_EQ(i == 8, stp_bounds_are_confirmed(&l.sum));
        blocks += Set(i % 2 * 1.1); // 0: other calls came between
    }
    for (const VerdictCase &c : cases) {
        const std::string table = Table(Learning(c.text));

        if (c.row != nullptr)
            EXPECT_THAT(table, HasSubstr(c.row)) << c.name;
        else
            EXPECT_THAT(table, Not(HasSubstr("steps are"))) << c.name;
    }
}
// ---- the line above the table ----

TEST(Learning, SaysWhereTheLearnedPolicyIs)
{
    EXPECT_EQ("Learning by strategy halving, objective auto, 0 comparisons: "
              "nothing was learned.\n",
              Table(Learning(""), nullptr));
    EXPECT_THAT(Table(Learning(Settled(9, kRing))),
                HasSubstr(": the learned policy is learned.conf.\n"));
    EXPECT_THAT(Table(Learning(Settled(9, kRing)), nullptr),
                HasSubstr(": the learned policy was not written: "));
    const std::string calls = "1,1,1,4,alone,20000,,,,,,,";
    const std::pair<std::string, const char *> rows[] = {
        {Settled(9, kOwn), "nothing is better than what ran before.\n"},
        {Block(kOwn, kRing, 1), "nothing has won so far.\n"},
        {calls + "20000,,,\n",
         "learned, for 20000 calls repeat no sequence.\n"},
        {calls + "2e95,,,\n", ", for 1000000000000000000 calls repeat no "},
        {calls + "-3,,,\n", "s: nothing was learned.\n"},
        {"1,1,1,4,graphs,9,,,,,,,,,,\n", "learned, for NCCL asks once about"},
    };
    for (const auto &[text, said] : rows)
        EXPECT_THAT(Table(Learning(text)), HasSubstr(said));
    EXPECT_THAT(Table(Learning(Settled(9, kOwn)), nullptr, "/etc/base.conf"),
                HasSubstr(" as in base.conf - settled\n"));
    EXPECT_THAT(Table(Learning(Settled(9, kOwn))),
                HasSubstr(" left as is - settled\n"));
}

} // namespace
