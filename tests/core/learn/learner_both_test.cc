// A learner by GPU times that propose and steps that confirm.
#include "core/learn/learner_job.h"

namespace
{

using namespace learner_job;

class LearnerByBoth : public Learner
{
  protected:
    LearnerByBoth()
    {
        gpu_ = Faster;
    }
    void SetUp() override
    {
        Open(STP_LEARN_AUTO);
        AddKey(0), AddKey(1);
    }
};

TEST_F(LearnerByBoth, ShorterStepsConfirmAnArm)
{
    Steps(2000, {0, 1}, Faster);

    for (unsigned k = 0; k < 2; k++) {
        EXPECT_EQ(1u, N(STP_LEARN_CONFIRMED, static_cast<int>(k)));
        EXPECT_EQ(1u, N(STP_LEARN_SETTLED, static_cast<int>(k)));
        EXPECT_EQ(1u, arm_[k]);
        // each block is told, and they take turns
        unsigned before = 0;
        size_t n_blocks = 0;
        for (const stp_learn_event &e : events_)
            if (e.kind == STP_LEARN_BLOCK && e.key == static_cast<int>(k)) {
                EXPECT_NE(before, e.arm) << "block " << n_blocks;
                before = e.arm;
                n_blocks++;
            }
        EXPECT_LE(2u * STP_CONFIRM_FIRST - 1, n_blocks);
        EXPECT_TRUE(stp_learner_key(learner_.get(), k).is_settled);
    }
    EXPECT_FALSE(stp_learner_is_exploring(learner_.get()));
    EXPECT_FALSE(stp_learner_is_exploring(learner_.get()));
}

// Steps take what they take on the GPU, whose host launches 16 of them at once
// and waits for the last.
TEST_F(LearnerByBoth, AHostFarAheadOfItsGpuIsToldTheSame)
{
    behind_ = 33;
    host_ = [](uint64_t ns) {
        constexpr uint64_t kSync = 16 * 200000;
        return ns / kSync * kSync + ns % kSync / 10;
    };

    Steps(2000, {0, 1}, Faster);

    for (unsigned k = 0; k < 2; k++) {
        ASSERT_EQ(1u, N(STP_LEARN_CONFIRMED, static_cast<int>(k)));
        EXPECT_EQ(1u, arm_[k]);
    }
    for (const stp_learn_event &e : events_)
        if (e.kind == STP_LEARN_CONFIRMED) {
            EXPECT_NEAR(e.gain, e.key == 0 ? 200. / 190 : 190. / 180, 1e-9);
        } else if (e.kind == STP_LEARN_STEPPED) {
            EXPECT_LE(180, e.value);
            EXPECT_GE(200, e.value);
        }
}

TEST_F(LearnerByBoth, LongerStepsTakeItAway)
{
    Steps(2000, {0, 1}, Slower);

    for (unsigned k = 0; k < 2; k++) {
        EXPECT_EQ(1u, N(STP_LEARN_LONGER, static_cast<int>(k)));
        EXPECT_EQ(0u, arm_[k]);
        EXPECT_EQ(0u, stp_learner_key(learner_.get(), k).best);
    }
    EXPECT_EQ(0u, N(STP_LEARN_CONFIRMED));
    EXPECT_FALSE(stp_learner_is_exploring(learner_.get()));
}

TEST_F(LearnerByBoth, StepsThatVaryTooMuchKeepNcclsChoice)
{
    unsigned i = 0;

    Steps(30000, {0, 1}, [&i](unsigned key, unsigned) {
        i = i * 1664525 + 1013904223;
        return key == 1 ? 20000 + (i >> 18) : 100;
    });

    EXPECT_EQ(2u, N(STP_LEARN_NOISY));
    EXPECT_EQ(0u, N(STP_LEARN_CONFIRMED));
    for (const stp_learn_event &e : events_)
        if (e.kind == STP_LEARN_NOISY) {
            EXPECT_LT(5120, e.value); // steps of each arm: more than it takes
        }
    EXPECT_EQ(0u, arm_[0]);
    EXPECT_EQ(0u, arm_[1]);
}

TEST_F(LearnerByBoth, WithoutStepsNcclsChoiceStaysAfterAWhile)
{
    unsigned i = 0;

    for (int n = 0; n < 50000; n++) {
        i = i * 1664525 + 1013904223;
        Steps(1, {(i >> 24) % 10}, Faster); // 0, 1, and others
    }

    EXPECT_EQ(2u, N(STP_LEARN_NOISY));
    for (const stp_learn_event &e : events_)
        if (e.kind == STP_LEARN_NOISY) {
            EXPECT_EQ(0, e.value);
        }
    EXPECT_EQ(0u, arm_[0]);
    EXPECT_EQ(0u, arm_[1]);
    EXPECT_FALSE(stp_learner_is_exploring(learner_.get()));
}

TEST_F(LearnerByBoth, AKeyThatIsGoneWhileItIsConfirmedBlocksNoOther)
{
    const auto confirms = [this] { // no trial on the GPU, which has an end
        return !wants_.empty() && wants_.back().is_trial &&
               wants_.back().n_calls == 0;
    };
    for (int i = 0; i < 2000 && !confirms(); i++)
        Steps(1, {0, 1}, Faster);
    ASSERT_TRUE(confirms());
    const unsigned gone = wants_.back().key;
    ASSERT_EQ(1u, arm_[gone]);
    AddKey(2), AddKey(3);

    Steps(2500, {2, 3, 1 - gone}, Faster);

    EXPECT_EQ(0u, arm_[gone]);
    for (int k : {2, 3, static_cast<int>(1 - gone)})
        EXPECT_EQ(1u, N(STP_LEARN_SETTLED, k)) << k;
}

TEST_F(LearnerByBoth, AnInterruptedConfirmationGoesOn)
{
    for (int phase = 0; phase < 30; phase++) {
        Steps(60, {0, 1}, Faster);
        Steps(20, {0, 0, 1, 1, 1}, Faster);
        if (N(STP_LEARN_CONFIRMED) == 0) {
            EXPECT_EQ(0u, arm_[0] + arm_[1]); // not while steps are others
        }
    }

    EXPECT_EQ(1u, N(STP_LEARN_CONFIRMED, 0));
    EXPECT_EQ(1u, N(STP_LEARN_CONFIRMED, 1));
}

} // namespace
