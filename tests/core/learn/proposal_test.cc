// Tests of the encoding of a proposal in 31 bits.
#include <gtest/gtest.h>

extern "C" {
#include "core/learn/proposal.h"
}

namespace
{

stp_proposal Arm(stp_proposal_kind kind, unsigned key, unsigned index,
                 stp_bandit_arm arm)
{
    stp_proposal p{};

    p.kind = kind;
    p.key = key;
    p.index = index;
    p.arm = arm;
    return p;
}

void ExpectSurvives(const stp_proposal &p)
{
    uint32_t word = stp_proposal_pack(&p);
    stp_proposal q = stp_proposal_unpack(word);

    EXPECT_GT(word, 0u);
    EXPECT_LT(word, UINT32_C(1) << 31);
    EXPECT_EQ(p.kind, q.kind);
    EXPECT_EQ(p.key, q.key);
    EXPECT_EQ(p.index, q.index);
    EXPECT_EQ(p.arm.algo, q.arm.algo);
    EXPECT_EQ(p.arm.proto, q.arm.proto);
    EXPECT_EQ(p.arm.n_channels, q.arm.n_channels);
    EXPECT_EQ(p.n_blocks, q.n_blocks);
    EXPECT_EQ(p.is_settled, q.is_settled);
    EXPECT_EQ(p.n_calls, q.n_calls);
    ASSERT_EQ(p.n_mates, q.n_mates);
    for (unsigned i = 0; i < p.n_mates; i++) {
        EXPECT_EQ(p.mates[i].key, q.mates[i].key);
        EXPECT_EQ(p.mates[i].index, q.mates[i].index);
    }
}

TEST(Proposal, SurvivesPackingAtItsLimits)
{
    const stp_bandit_arm arms[] = {{-1, 0, 0}, {6, 2, 64}, {0, 0, 1}};

    for (const stp_bandit_arm &arm : arms)
        for (unsigned key : {0u, STP_BANDIT_KEYS - 1u})
            for (unsigned index : {0u, STP_BANDIT_ARMS - 1u}) {
                stp_proposal p = Arm(STP_PROPOSE_ARM, key, index, arm);

                ExpectSurvives(p);
                p.is_settled = true;
                ExpectSurvives(p);
                p = Arm(STP_PROPOSE_TRIAL, key, index, arm);
                for (p.n_blocks = 1; p.n_blocks <= STP_TRIAL_BLOCKS;
                     p.n_blocks++)
                    ExpectSurvives(p);
            }
}

TEST(Proposal, ToConfirmSurvivesAtAnyLength)
{
    for (unsigned n_calls : {1u, 4096u, unsigned(STP_CONFIRM_MAX)}) {
        stp_proposal p = Arm(STP_PROPOSE_CONFIRM, 0, 0, {-1, 0, 0});

        p.n_blocks = 1;
        p.n_calls = n_calls;
        ExpectSurvives(p);
    }
}

TEST(Proposal, OfARoundSurvivesWithTwoOrThreeKeys)
{
    for (unsigned key : {0u, 1u, STP_SHARED_KEYS - 1u})
        for (unsigned index : {1u, 7u, STP_SHARED_ARMS - 1u})
            for (unsigned n = 2; n <= STP_TRIAL_MATES; n++) {
                stp_proposal p{};

                p.kind = STP_PROPOSE_ROUND;
                p.n_blocks = STP_TRIAL_BLOCKS;
                p.n_mates = n;
                for (unsigned i = 0; i < n; i++) {
                    p.mates[i].key = uint8_t((key + i) % STP_SHARED_KEYS);
                    p.mates[i].index = uint8_t(i == 1 ? 5 : index);
                }
                ExpectSurvives(p);
            }
}

TEST(Proposal, OfAWindowSurvivesAtAnyLength)
{
    stp_proposal p{};

    p.kind = STP_PROPOSE_WINDOW;
    for (p.n_calls = 1; p.n_calls <= STP_WINDOW_MAX; p.n_calls++)
        ExpectSurvives(p);
}

} // namespace
