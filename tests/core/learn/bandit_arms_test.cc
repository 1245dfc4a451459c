// Which numbers of channels of a pair are tried, and which gains of an arm
// count.
#include <cmath>
#include <cstdlib>

extern "C" {
#include "core/learn/bandit_decide.h"
}

#include "core/learn/bandit_job.h"

namespace
{

// Channel counts of the arms that are added where NCCL's own choice has 'own'
// channels of at most 'max'.
std::vector<int> Added(unsigned max, uint8_t own, bool has_half_won = false)
{
    const stp_bandit_arm none = {-1, 0, 0};
    std::vector<int> channels;
    stp_bandit_slot slot{};

    slot.own = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
    slot.max_channels = max;
    EXPECT_NE(nullptr, stp_bandit_add_arm(&slot, &none, STP_STAGE_PAIRS, 1));
    slot.arms[0].own_channels = own;
    stp_bandit_add_channels(&slot);
    if (has_half_won) {
        slot.incumbent = 1;
        stp_bandit_add_channels(&slot);
    }
    for (unsigned i = 1; i < slot.n_arms; i++) {
        EXPECT_EQ(NCCL_ALGO_RING, slot.arms[i].arm.algo);
        EXPECT_EQ(NCCL_PROTO_SIMPLE, slot.arms[i].arm.proto);
        channels.push_back(slot.arms[i].arm.n_channels);
    }
    free(slot.arms);
    return channels;
}

TEST(BanditGains, OfThreeAreNearTheSmallestAndOfFourNearTheirMedian)
{
    stp_bandit bandit{};
    stp_bandit_try arm{};
    const struct {
        double gain;
        uint32_t n;
    } blocks[] = {{.7, 1}, {.01, 1}, {0, 2}, {.02, 3}};
    bandit.noise = .01;

    for (const auto &block : blocks) {
        stp_bandit_add_gain(&bandit, &arm, block.gain);
        EXPECT_EQ(block.n, arm.n);
    }
    EXPECT_NEAR(.01, arm.mean, 1e-9);
}

// Beyond 8, the oldest is counted for good, or for good is not.
TEST(BanditGains, OfManyBlocksAreAllThatWereNearTheirMedian)
{
    stp_bandit bandit{};
    stp_bandit_try arm{};
    std::vector<double> counted;
    bandit.noise = .01;

    for (double gain : {.010, .70, .012, .011, .013, .009, -.60, .014, .008,
                        .015, .016, .90, .007, .018, .006, .020, .005, .019}) {
        stp_bandit_add_gain(&bandit, &arm, gain);
        if (std::fabs(gain) < .5)
            counted.push_back(gain);
    }
    const double n = static_cast<double>(counted.size());
    double mean = 0, ss = 0;
    for (double gain : counted)
        mean += gain / n;
    for (double gain : counted)
        ss += (gain - mean) * (gain - mean);

    EXPECT_EQ(counted.size(), arm.n);
    EXPECT_NEAR(mean, arm.mean, 1e-12);
    EXPECT_NEAR(ss, arm.ss, 1e-12);
    stp_bandit_shift_gains(&arm, .1);
    EXPECT_NEAR(mean - .1, arm.mean, 1e-12);
    stp_bandit_add_gain(&bandit, &arm, mean - .1);
    EXPECT_EQ(counted.size() + 1, arm.n);
    EXPECT_NEAR(mean - .1, arm.mean, 1e-12);
    EXPECT_NEAR(ss, arm.ss, 1e-12);
}

// With a large one the median is 1.02, with a small one 1.01, and that of the
// distances from it .01.
TEST(BanditGains, AreFarByTheirOwnDeviationOrByTheNoise)
{
    const struct {
        const char *name;
        double noise, last;
        uint32_t n;
    } cases[] = {
        {"near by their own", .0005, 1.0941, 5},
        {"far by their own", .0005, 1.0942, 4},
        {"near by the noise", .02, 1.1199, 5},
        {"far by the noise", .02, 1.1201, 4},
        {"near below", .02, .9101, 5},
        {"far below", .02, .9099, 4},
    };

    for (const auto &c : cases) {
        stp_bandit bandit{};
        stp_bandit_try arm{};
        bandit.noise = c.noise;

        for (double gain : {1.02, 1., 1.01, 1.03, c.last})
            stp_bandit_add_gain(&bandit, &arm, gain);
        EXPECT_EQ(c.n, arm.n) << c.name;
    }
}

TEST(BanditGains, BeginWithWhatIsKnownOfTheArm)
{
    stp_bandit bandit{};
    stp_bandit_try arm{};
    bandit.noise = .01;

    for (double gain : {.01, .02, .03})
        stp_bandit_add_gain(&bandit, &arm, gain);
    stp_bandit_set_gains(&arm, 3, .2, .06);
    EXPECT_EQ(3u, arm.n);
    EXPECT_EQ(.2, arm.mean);
    EXPECT_EQ(.06, arm.ss);
    stp_bandit_add_gain(&bandit, &arm, .6);
    EXPECT_EQ(4u, arm.n);
    EXPECT_NEAR(.3, arm.mean, 1e-12);
    EXPECT_NEAR(.06 + .4 * .3, arm.ss, 1e-12);
}

// The deviation of few blocks counts if it is more than 5 times the noise.
TEST(BanditError, IsOfTheNoiseOrOfTheBlocksOwnDeviation)
{
    const struct {
        double noise;
        uint32_t n;
        double ss;
        double error;
    } cases[] = {
        // clang-format off
        {.125, 1, 0, .125},
        {.125, 4, 0, .0625},
        {.125, 3, .78125, .125 / std::sqrt(3)},  // .625, 5 times the noise
        {.125, 3, .7813, .62502 / std::sqrt(3)},
        {.125, 4, .75, .25},                     // .5
        {.125, 4, .03, .0625},                   // .1
        {.125, 16, .9375, .0625},                // .25
        // clang-format on
    };

    for (const auto &c : cases) {
        stp_bandit bandit{};
        stp_bandit_try arm{};

        bandit.noise = c.noise;
        stp_bandit_set_gains(&arm, c.n, .5, c.ss);
        EXPECT_NEAR(c.error, stp_bandit_error(&bandit, &arm), 1e-6)
            << c.n << " " << c.ss;
    }
}

stp_block WithSpreads(double own, double arm)
{
    stp_block block{};

    block.spread[0] = own;
    block.spread[1] = arm;
    return block;
}

TEST(BanditNoise, IsKnownByThreeBlocksAndIsThatOfTheLast32)
{
    constexpr double kPerSpread = 1.4826 / 1.4142135623731; // of the median
    stp_bandit bandit{};
    const auto add = [&bandit](int n, double own, double arm) {
        const stp_block block = WithSpreads(own, arm);
        for (int i = 0; i < n; i++)
            stp_bandit_add_spreads(&bandit, &block);
        return bandit.noise;
    };

    stp_bandit_set_noise(&bandit, .5);
    EXPECT_EQ(.5, add(2, .01, -.02));
    EXPECT_NEAR(.02 * kPerSpread, add(1, -.01, .02), 1e-12);
    EXPECT_NEAR(.02 * kPerSpread, add(29, .02, .01), 1e-12);
    EXPECT_NEAR(.02 * kPerSpread, add(15, .03, .03), 1e-12);
    EXPECT_NEAR(.03 * kPerSpread, add(1, .03, .03), 1e-12);
    EXPECT_EQ(.0005, add(32, 0, 0)) << "a clock's own";
    stp_bandit_set_noise(&bandit, .0001);
    EXPECT_EQ(.0005, bandit.noise);
    stp_bandit_set_noise(&bandit, .25);
    EXPECT_EQ(.25, add(2, .01, .01)) << "the spreads before it are forgotten";
}

TEST(BanditNoise, DisturbsABlockBeyondFiveDeviationsOfASpread)
{
    const double most = 5 * std::sqrt(2) * .125;
    const struct {
        double own, arm;
        bool is_disturbed;
    } cases[] = {
        {0, 0, false},           {most, most, false},
        {-most, -most, false},   {most * 1.01, 0, true},
        {0, most * 1.01, true},  {-most * 1.01, 0, true},
        {0, -most * 1.01, true},
    };

    for (const auto &c : cases) {
        stp_bandit bandit{};
        const stp_block block = WithSpreads(c.own, c.arm);

        bandit.noise = .125;
        EXPECT_EQ(c.is_disturbed, stp_bandit_is_disturbed(&bandit, &block))
            << c.own << " " << c.arm;
    }
}

TEST(BanditArms, HaveAHalfAQuarterAndAllOfTheChannels)
{
    const struct {
        unsigned max;
        uint8_t own;
        std::vector<int> added;
    } cases[] = {
        // clang-format off
        {0, 0, {}},        // not known
        {1, 0, {1}},       // no half of one
        {2, 0, {1, 2}},    // no quarter of two
        {24, 0, {12, 24}}, // a quarter waits for the half
        {24, 24, {12}},    // NCCL's own
        {24, 12, {6, 24}}, // NCCL's own
        {64, 32, {16, 64}},
        {128, 0, {64}},
        {300, 0, {}},      // more than there can be
        // clang-format on
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.added, Added(c.max, c.own)) << c.max << " " << int(c.own);
    EXPECT_EQ(std::vector<int>({12, 6}), Added(24, 24, true));
}

// Arms of the rules: one of NCCL's own count, and one of 8.
TEST(BanditArms, AreSeenOnChannelsThatNcclChose)
{
    stp_bandit_rules rules = bandit_job::Halving();
    rules.arms[0] = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
    rules.arms[1] = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8};
    rules.n_arms = 2;
    const struct {
        unsigned max, arm, own_channels, max_channels; // 16 are seen
    } cases[] = {
        {0, 0, 16, 16},  {24, 0, 16, 24}, {0, 1, 16, 0},
        {24, 1, 16, 24}, {0, 2, 0, 0},
    };

    for (const auto &c : cases) {
        const bandit_job::Bandit bandit = bandit_job::Open(rules);
        bandit_job::AddKey(bandit, 0, c.max);
        stp_bandit_set_channels(bandit.get(), 0, c.arm, 16);
        EXPECT_EQ(c.own_channels, bandit->keys[0]->arms[c.arm].own_channels)
            << c.max << " " << c.arm;
        EXPECT_EQ(c.max_channels, bandit->keys[0]->max_channels)
            << c.max << " " << c.arm;
    }
}

} // namespace
