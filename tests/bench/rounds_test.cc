// Which rounds run again, which arms stop, and which go on.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "support/measured_data.h"
#include "support/owned.h"
#include "support/slow.h"

extern "C" {
#include "bench/rounds.h"
}

namespace
{

using measured::kAuto;
using measured::kAutoAgain;
using measured::kPlugin;
using measured::kRingLl128;
using measured::kRingSimple;
using measured::kSym;
using measured::kSymWide;
using measured::kTreeLl;

// Runs the rounds of one setting.
class Rounds : public testing::Test
{
  protected:
    Rounds()
    {
        info_.repeats_rounds = true;
    }

    // 'us' is the time of an arm, as it is listed, in a round.
    void Run(unsigned rounds, const std::vector<stp_arm> &arms,
             const std::function<double(size_t, unsigned)> &us)
    {
        unsigned round, at;

        stp_dataset_free(&data_);
        places_.clear();
        stp_rounds_begin(rounds, &terms_, &info_, &data_, &rounds_);
        while (stp_rounds_next(&rounds_, &round, &at)) {
            ASSERT_EQ(places_.size(), round);
            places_.push_back(at);
            for (size_t i = 0; i < arms.size(); i++)
                if (stp_rounds_has(&rounds_, &arms[i], false, false)) {
                    stp_measurement m{};
                    m.arm = arms[i];
                    m.round = round;
                    m.iters = 1;
                    m.us.median = us(i, round);
                    m.ran_algo = arms[i].kind == STP_ARM_FORCED ? 1 : runs_as_;
                    stp_dataset_add(&data_, &m);
                }
        }
        stp_rounds_end(&rounds_, nullptr, nullptr);
    }

    std::vector<double> Times(const stp_arm &arm) const
    {
        std::vector<double> times;
        for (size_t i = 0; i < data_.n_rows; i++)
            if (stp_arm_equal(&data_.rows[i].arm, &arm)) {
                EXPECT_EQ(times.size(), data_.rows[i].round);
                times.push_back(data_.rows[i].us.median);
            }
        return times;
    }

    stp_device_info info_{};
    stp_rounds_terms terms_{};
    Owned<stp_dataset, stp_dataset_free> data_;
    stp_rounds rounds_{};
    int runs_as_ = 0;
    std::vector<unsigned> places_; // of each round, as the device got it
};

TEST_F(Rounds, RunAgainIfSomethingDisturbedThem)
{
    const std::vector<stp_arm> arms = {kAuto, kAutoAgain, kRingLl128, kSym};
    const double own[] = {100, 100, 80, 60};
    // clang-format off
    // By the first of an arm's name and the round: so many times as long.
    const struct {
        const char *name;
        std::map<std::pair<size_t, unsigned>, double> factors; // by arm and round
        std::vector<unsigned> places; // of what ran beyond five rounds
        size_t n_left;                // disturbed rounds that stayed
    } cases[] = {
        {"nothing", {}, {}, 0},
        {"one arm", {{{3, 2}, 1.5}}, {7}, 0},
        {"the first round", {{{0, 0}, 2}}, {5}, 0},
        {"AUTO's second run", {{{1, 4}, 1.3}}, {9}, 0},
        {"an arm for the better", {{{2, 3}, 1 / 1.5}}, {8}, 0},
        {"all arms, each by another factor", {{{0, 1}, 2.8}, {{1, 1}, 1.24}, {{2, 1}, 1.5}, {{3, 1}, 3.}}, {6}, 0},
        {"all arms alike", {{{0, 1}, 2}, {{1, 1}, 2}, {{2, 1}, 2}, {{3, 1}, 2}}, {6}, 0},
        {"what replaces one, too", {{{3, 2}, 1.5}, {{3, 5}, 1.8}}, {7, 7}, 0},
        {"two of five", {{{0, 0}, 2.}, {{2, 0}, 3.}, {{1, 1}, 1.5}, {{3, 1}, 2.5}}, {5, 6}, 0},
        {"three of five", {{{0, 0}, 2.}, {{1, 0}, 1.5}, {{2, 0}, 2.9}, {{3, 0}, 1.7}, {{0, 1}, 1.6}, {{1, 1}, 2.7}, {{2, 1}, 2.1},
                           {{3, 1}, 1.5}, {{0, 2}, 2.4}, {{1, 2}, 3.}, {{2, 2}, 1.5}, {{3, 2}, 2.2}}, {5, 6, 7}, 0},
        {"less than noise may be", {{{3, 2}, 1.05}}, {}, 0},
        // an arm that is so by nature is measured as it is
        {"an arm again and again", {{{3, 1}, 1.5}, {{3, 3}, 1.5}, {{3, 5}, 1.5}, {{3, 6}, 1.5}}, {6}, 0},
    };
    // clang-format on

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Run(5, arms, [&](size_t arm, unsigned round) {
            const auto it = c.factors.find({arm, round});
            return own[arm] * (1 + 0.002 * ((arm + 2 * round) % 3)) *
                   (it == c.factors.end() ? 1 : it->second);
        });

        ASSERT_GE(places_.size(), 5u);
        EXPECT_EQ(c.places,
                  std::vector<unsigned>(places_.begin() + 5, places_.end()));
        EXPECT_EQ(c.places.size(), data_.n_again);
        EXPECT_EQ(c.n_left, data_.n_disturbed);
        EXPECT_EQ(5u, Times(kAuto).size());
        EXPECT_EQ(5u, Times(kSym).size());
        for (double us : Times(kAuto))
            EXPECT_GT(101, us);
    }
}

TEST_F(Rounds, AreBoundedWhereAMachineIsNeverQuiet)
{
    Run(4, {kAuto, kTreeLl}, [](size_t arm, unsigned round) {
        return arm == 0 ? 100 : 100. * (1 + round * round);
    });

    EXPECT_EQ(4 + stp_rounds_spare(4), places_.size());
    EXPECT_EQ(stp_rounds_spare(4), data_.n_again);

    // there is no room for notes on so many
    Run(STP_ROUNDS_MOST + 1, {kAuto, kSym}, [](size_t, unsigned) { return 9; });
    EXPECT_EQ(STP_ROUNDS_MOST + 1U, Times(kSym).size());
}

TEST_F(Rounds, OfARecordingAreWhatTheyAre)
{
    const auto us = [](size_t arm, unsigned round) {
        return arm == 1 && round == 2 ? 300. : 100.;
    };
    info_.repeats_rounds = false;
    Run(5, {kAuto, kSym}, us);
    EXPECT_EQ(5u, places_.size());
    EXPECT_EQ(300, Times(kSym)[2]);

    info_.repeats_rounds = true; // one that is made has as many everywhere
    terms_.is_exact = true;
    Run(5, {kAuto, kSym},
        [](size_t arm, unsigned round) { return arm * 90. * round + 100; });
    EXPECT_EQ(5u, Times(kSym).size());
}

// Recorded rounds, of which some are far out as they were recorded, and stalls
// in six percent of those that run: each recorded round counts once, as it was.
TEST_F(Rounds, AreEachRecordedOneOnce)
{
    const std::vector<stp_arm> arms = {kAuto, kAutoAgain, kRingLl128, kSym};
    std::mt19937_64 random(1);
    std::normal_distribution<> noise(0, 0.02);
    std::uniform_real_distribution<> unit;
    size_t n_as_recorded = 0, n_again = 0;

    info_.max_rounds = 5;
    for (int i = 0; i < 200; i++) {
        double recorded[4][5];
        unsigned last = UINT_MAX;
        bool stalls = false;
        for (auto &of_arm : recorded)
            for (double &us : of_arm)
                us = 100 * std::exp(noise(random)) *
                     (unit(random) < 0.04 ? 1.4 : 1);
        Run(5, arms, [&](size_t arm, unsigned round) {
            if (round != last)
                stalls = unit(random) < 0.06;
            last = round;
            return recorded[arm][places_.back() % 5] *
                   (stalls ? 1.5 + 1.5 * unit(random) : 1);
        });

        n_again += data_.n_again;
        n_as_recorded += Times(kSym).size() == 5;
        for (size_t arm = 0; arm < 4; arm++)
            for (double us : Times(arms[arm]))
                EXPECT_EQ(1, std::count(recorded[arm], recorded[arm] + 5, us));
    }
    EXPECT_GT(n_again, 100u);
    EXPECT_EQ(200u, n_as_recorded) << "settings that have all five";
}

// ---- arms ----

TEST_F(Rounds, StopArmsThatAreNoRuleAndGoOnWithThoseThatAreUnsure)
{
    const std::vector<stp_arm> arms = {kAuto, kRingLl128, kTreeLl, kSym,
                                       kSymWide};
    const double own[] = {100, 130, 70, 90, 99};
    terms_ = {3, 12, 0.02, false};

    // one is slower beyond doubt, one faster, one promises more than the spread
    // of its own rounds lets it keep, and one is faster by less than a rule
    Run(5, arms, [&](size_t arm, unsigned round) {
        return own[arm] *
               (arm == 3 ? 1 + 0.07 * (round % 3) : 1 + 0.001 * (round % 2));
    });

    EXPECT_EQ(3u, Times(kRingLl128).size());
    EXPECT_EQ(5u, Times(kTreeLl).size());
    EXPECT_EQ(12u, Times(kSym).size());
    EXPECT_EQ(3u, Times(kSymWide).size());
    EXPECT_EQ(12u, Times(kAuto).size());

    // one that promises a little more than the spread of twelve rounds covers
    Run(5, arms, [&](size_t arm, unsigned round) {
        return arm == 3 ? 89 * (1 + 0.07 * (round % 3)) : own[arm];
    });

    EXPECT_EQ(24u, Times(kSym).size());
    EXPECT_EQ(24u, Times(kAuto).size());
    EXPECT_EQ(3u, Times(kSymWide).size());
}

// Three rounds of a skewed arm once gave a size to one that is 1.08 times as
// slow as the second best.
TEST_F(Rounds, GoOnWithTheTwoBestOfWhichNoneIsKnownToBeFaster)
{
    const std::vector<stp_arm> arms = {kAuto, kRingLl128, kTreeLl, kRingSimple,
                                       kSym};
    const struct {
        double ring, tree, spread; // of tree
        size_t n_rounds;
    } cases[] = {
        {75, 72, 0.07, 24},      // slower by 2.7 percent, in doubt
        {75, 70.2, 0.07, 24},    // as fast, in doubt
        {75, 76.5, 0.0001, 5},   // slower beyond doubt
        {75, 74.99, 0.0003, 12}, // one as the other
    };

    terms_ = {3, 12, 0.02, false};
    for (const auto &c : cases) {
        const double own[] = {100, c.ring, c.tree, 85, 60};
        Run(5, arms, [&](size_t arm, unsigned round) {
            return own[arm] * (arm == 2 ? 1 + c.spread * (round % 3) : 1);
        });

        EXPECT_EQ(c.n_rounds, Times(kTreeLl).size()) << c.tree;
        EXPECT_EQ(c.n_rounds, Times(kRingLl128).size()) << c.tree;
        EXPECT_EQ(5u, Times(kRingSimple).size());
        EXPECT_EQ(5u, Times(kSym).size());
    }
}

// The more rounds there are the better is it known which were disturbed.
TEST_F(Rounds, ResumeAnArmThatStoppedInDisturbedOnes)
{
    constexpr int kSettings = 2000;
    const std::vector<stp_arm> arms = {kAuto, kAutoAgain, kRingLl128, kSym};
    const double own[] = {100, 100, 97, 103};
    std::mt19937_64 random(1);
    std::normal_distribution<> noise(0, 0.01);
    std::uniform_real_distribution<> unit;
    size_t n_stopped = 0, n_more = 0;

    terms_ = {3, 12, 0.02, false};
    for (int i = 0; i < kSettings; i++) {
        unsigned last = UINT_MAX;
        double stall = 1;
        Run(5, arms, [&](size_t arm, unsigned round) {
            if (round != last)
                stall = unit(random) < 0.3 ? 1.5 + unit(random) : 1;
            last = round;
            return own[arm] * std::exp(noise(random)) * stall *
                   (stall > 1 ? 1 + 0.3 * unit(random) : 1);
        });

        std::map<int, size_t> n_rows; // by kind of arm
        for (size_t k = 0; k < data_.n_rows; k++)
            n_rows[data_.rows[k].arm.kind]++;
        for (const stp_arm &arm : arms)
            if (rounds_.n_more < rounds_.n_spare) {
                EXPECT_LE(2u, n_rows[arm.kind]) << i;
            }
        for (size_t l = 0; l < rounds_.n_lanes; l++)
            n_stopped += rounds_.lanes[l].is_stopped;
        n_more += rounds_.n_more;
    }
    EXPECT_GT(n_stopped, 200u);
    EXPECT_GT(n_more, 0u);
}

// kSym's later rounds tell that the third was disturbed, and leave kTreeLl,
// which three had been enough for, two.
TEST_F(Rounds, ResumeAnArmThatIsUnsureWithoutTheDisturbedOnes)
{
    const double own[] = {100, 80, 80};
    const double first[][3] = {{1, 1, 1}, {1, 1.04, 1.02}, {1, 1.06, 1.25}};
    terms_.most = 8;
    terms_.min_gain = 0.02;

    for (const unsigned n_shaken :
         {0, 3}) { // more rounds, up to all spare ones
        Run(3, {kAuto, kTreeLl, kSym}, [&](size_t arm, unsigned round) {
            return own[arm] * (round < 3              ? first[arm][round]
                               : round < 3 + n_shaken ? 2
                                                      : 1.01);
        });

        EXPECT_EQ(n_shaken == 0 ? 8u : 7u, Times(kSym).size());
        EXPECT_EQ(3, std::count_if(data_.rows, data_.rows + data_.n_rows,
                                   [](const stp_measurement &m) {
                                       return stp_arm_equal(&m.arm, &kTreeLl);
                                   }))
            << n_shaken;
    }
}

TEST_F(Rounds, EndAfterTheFirstOfAPolicyThatChangesNothing)
{
    terms_ = {3, 12, 0.02, false};
    const auto us = [](size_t arm, unsigned) { return 100. - 5 * arm; };
    Run(5, {kAuto, kPlugin}, us);
    EXPECT_EQ(1u, places_.size());

    Run(5, {kAuto, kPlugin, kSym}, us);
    EXPECT_EQ(5u, Times(kPlugin).size()) << "beside another arm";

    info_.max_rounds = 5; // those of a recording are there anyway
    Run(5, {kAuto, kPlugin}, us);
    EXPECT_EQ(5u, places_.size());
}

// An arm that takes as long as AUTO, on a machine that is disturbed in six
// percent of the rounds, all arms or one: gains and losses are as rare as they
// may be, and as rare as each other.
TEST_F(Rounds, FavourNeitherGainsNorLosses)
{
    STP_SLOW();
    constexpr int kSettings = 4000;
    std::mt19937_64 random(1);
    std::normal_distribution<> noise(0, 0.01);
    std::uniform_real_distribution<> unit;
    int n_faster = 0, n_slower = 0;
    double sum = 0;

    for (int i = 0; i < kSettings; i++) {
        unsigned last = UINT_MAX;
        size_t victim = 0;
        Run(5, {kAuto, kAutoAgain, kRingLl128, kTreeLl, kSym},
            [&](size_t arm, unsigned round) {
                if (round != last) // 5: all of them; above: none
                    victim =
                        unit(random) < 0.06
                            ? unit(random) < 0.5 ? 5 : size_t(5 * unit(random))
                            : 6;
                last = round;
                return 100 * std::exp(noise(random)) *
                       (victim == arm || victim == 5 ? 1.5 + 1.5 * unit(random)
                                                     : 1);
            });
        const stp_gain g = stp_paired_gain(
            Times(kAuto).data(), Times(kSym).data(), Times(kSym).size());
        n_faster += g.low > 1;
        n_slower += g.high < 1;
        sum += std::log(g.gain);
    }
    printf("%.2f percent faster, %.2f slower, mean gain %.5f\n",
           100. * n_faster / kSettings, 100. * n_slower / kSettings,
           std::exp(sum / kSettings));
    EXPECT_LT(n_faster, 0.035 * kSettings);
    EXPECT_LT(n_slower, 0.035 * kSettings);
    EXPECT_NEAR(1, std::exp(sum / kSettings), 0.0005);
}

} // namespace
