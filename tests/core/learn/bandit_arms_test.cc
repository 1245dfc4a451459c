// Which numbers of channels of a pair are tried, and which gains of an arm
// count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

extern "C" {
#include "core/learn/bandit_state.h"
}

#include "core/learn/bandit_job.h"

namespace
{

// Those that are added where NCCL's own choice has 'own' of at most 'max'.
std::vector<int> Added(unsigned max, uint8_t own)
{
    const stp_bandit_arm none = {-1, 0, 0};
    std::vector<int> channels;
    stp_bandit_slot slot{};

    slot.own = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
    slot.max_channels = max;
    EXPECT_NE(nullptr, stp_bandit_add_arm(&slot, &none, STP_STAGE_PAIRS, 1));
    slot.arms[0].own_channels = own;
    stp_bandit_add_channels(&slot);
    for (unsigned i = 1; i < slot.n_arms; i++) {
        EXPECT_EQ(NCCL_ALGO_RING, slot.arms[i].arm.algo);
        EXPECT_EQ(NCCL_PROTO_SIMPLE, slot.arms[i].arm.proto);
        channels.push_back(slot.arms[i].arm.n_channels);
    }
    free(slot.arms);
    return channels;
}

TEST(BanditGains, AreTheFirstThreeAndOfFourThoseNearTheirMedian)
{
    stp_bandit bandit{};
    stp_bandit_try arm{};
    const struct {
        double gain;
        uint32_t n;
    } blocks[] = {{.01, 1}, {0, 2}, {.8, 3}, {.02, 3}};
    bandit.noise = .01;

    for (const auto &block : blocks) {
        stp_bandit_add_gain(&bandit, &arm, block.gain);
        EXPECT_EQ(block.n, arm.n);
    }
    EXPECT_NEAR(.01, arm.mean, 1e-9);
}

TEST(BanditGains, AreOfAnotherIncumbentOnceTheyAreShifted)
{
    stp_bandit bandit{};
    stp_bandit_try arm{};
    bandit.noise = .01;

    for (double gain : {.01, .02})
        stp_bandit_add_gain(&bandit, &arm, gain);
    stp_bandit_shift_gains(&arm, .01);
    EXPECT_NEAR(.005, arm.mean, 1e-9);
    stp_bandit_add_gain(&bandit, &arm, .02);
    EXPECT_NEAR((0 + .01 + .02) / 3, arm.mean, 1e-9);
}

TEST(BanditGains, AreCountedToTheLargestNumber)
{
    stp_bandit_try arm{};
    arm.n = UINT32_MAX - 1;
    arm.mean = 2;

    for (int i = 0; i < 3; i++)
        stp_bandit_add_value(&arm, 2);

    EXPECT_EQ(UINT32_MAX, arm.n);
    EXPECT_EQ(2, arm.mean);
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
        {24, 0, {12, 6, 24}},
        {24, 24, {12, 6}}, // NCCL's own
        {24, 12, {6, 24}}, // NCCL's own
        {64, 32, {16, 64}},
        {128, 0, {64, 32}},
        {300, 0, {}},      // more than there can be
        // clang-format on
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.added, Added(c.max, c.own)) << c.max << " " << int(c.own);
}

TEST(BanditArms, HaveAsManyChannelsAsNcclCanHave)
{
    const struct {
        unsigned n_channels;
        unsigned expected; // 0: not taken
    } cases[] = {{1, 1},
                 {STP_MAX_CHANNELS, STP_MAX_CHANNELS},
                 {STP_MAX_CHANNELS + 1, 0}};

    for (const auto &c : cases) {
        const bandit_job::Bandit bandit =
            bandit_job::Open(bandit_job::Halving());
        bandit_job::AddKey(bandit, 0, 0);
        stp_bandit_saw_channels(bandit.get(), 0, 0, c.n_channels);
        EXPECT_EQ(c.expected, bandit->keys[0]->max_channels);
        EXPECT_EQ(c.expected, bandit->keys[0]->arms[0].own_channels);
    }
}

} // namespace
