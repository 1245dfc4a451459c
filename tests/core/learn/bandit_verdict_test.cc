// Tests of verdicts on arms, won or out, and of the cost that trials may have.
#include "core/learn/bandit_known.h"

namespace
{

using namespace bandit_job;

// ---- verdicts by what is known ----

// The arms after the two are out by what is known of them.
TEST(HalvingVerdict, IsByGainsAndTheirErrors)
{
    const struct {
        const char *name;
        double noise; // of a block
        Known arms[2];
        bool is_out[2];
        unsigned best;
        double min_gain = 0;
        double busy = 1; // 1: not known
    } cases[] = {
        // clang-format off
        {"two errors below", .5, {{1, -1}, {1, 0}}, {true, false}, 0},
        {"less than two", .5, {{1, -.99}, {1, 0}}, {false, false}, 0},
        {"two below the least", .5, {{1, -.31}, {1, -.3}}, {true, false}, 0, 1},
        {"four errors above", 1, {{16, .99}, {1, 0}}, {false, false}, 0},
        {"more than four", 1, {{16, 1.01}, {1, 0}}, {false, false}, 1},
        {"above the least", 1, {{16, 1.69}, {1, 0}}, {false, false}, 0, 1},
        {"more above it", 1, {{16, 1.70}, {1, 0}}, {false, true}, 1, 1},
        {"by five blocks", .01, {{5, 3}, {1, 2}}, {false, true}, 1},
        {"by four", .01, {{4, 3}, {1, 2}}, {false, true}, 0},
        {"by 15 that vary more", .011, {{15, 3}, {1, 2}}, {false, true}, 0},
        {"the faster one", 1, {{16, 1}, {16, 1.1}}, {false, false}, 2},
        {"the first of two alike", 1, {{16, 2}, {16, 2}}, {false, false}, 1},
        {"48 blocks without promise", 1, {{48, .14}, {1, 1}}, {true, false}, 0},
        {"47", 1, {{47, .14}, {1, 1}}, {false, false}, 0},
        {"48 with promise", 1, {{48, .2}, {1, .1}}, {false, false}, 0},
        {"48, and does not lead", 1, {{48, .2}, {1, .3}}, {true, false}, 0},
        {"one error above", 1, {{64, .125}, {1, 0}}, {true, false}, 0},
        {"more than one", 1, {{64, .126}, {1, 0}}, {false, false}, 0},
        {"behind by both errors twice", 1, {{1, 8}, {1, 4}}, {false, false}, 0},
        {"by more", 1, {{1, 8}, {1, 3.99}}, {false, true}, 0},
        {"by those of more blocks", 1, {{1, 8}, {4, 5}}, {false, false}, 0},
        {"by more than those", 1, {{1, 8}, {4, 4.99}}, {false, true}, 0},
        {"as good", .0005, {{16, .0003}, {16, .0002}}, {false, true}, 0},
        {"by fewer", .0005, {{16, .0003}, {15, .0002}}, {false, false}, 0},
        {"than fewer", .0005, {{15, .0003}, {16, .0002}}, {false, false}, 0},
        {"by noise", .0012, {{16, .0003}, {16, .0002}}, {false, true}, 0},
        {"by too much", .0013, {{16, .0003}, {16, .0002}}, {false, false}, 0},
        {"too far apart", .0012, {{16, .0004}, {16, .0002}}, {false, false}, 0},
        {"by its spread", .001, {{16, .3, 1.34}, {1, 0}}, {false, true}, 1},
        {"by a larger one", .001, {{16, .3, 1.36}, {1, 0}}, {false, true}, 0},
        {"by its time", .01, {{16, .3}, {1, 0}}, {false, true}, 1, 0, .3},
        {"by more than that", .01, {{16, .3}, {1, 0}}, {false, true}, 0, 0, .2},
        // clang-format on
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        const Costs costs;
        const Bandit bandit = OpenWithKey(NoRetests(c.min_gain), costs.View());
        stp_bandit_want want;

        stp_bandit_set_noise(bandit.get(), c.noise);
        if (c.busy < 1)
            stp_bandit_set_busy(bandit.get(), 0, c.busy);
        for (unsigned i = 0; i < 2; i++)
            Recall(bandit, i + 1, c.arms[i]);
        for (unsigned i = 3; i < 5; i++)
            Recall(bandit, i, {1, -100, 0});
        Wants(bandit, 0, &want);

        EXPECT_EQ(c.best, stp_bandit_get_key(bandit.get(), 0).best);
        const double over = c.best == 0 ? 0 : c.arms[c.best - 1].gain;
        for (unsigned i = 0; i < 2; i++) {
            const stp_bandit_arm_state arm =
                stp_bandit_get_arm(bandit.get(), 0, i + 1);
            EXPECT_EQ(c.is_out[i], arm.is_out) << i + 1;
            EXPECT_NEAR(c.arms[i].gain - over, arm.mean, 1e-12) << i + 1;
            EXPECT_EQ(c.arms[i].n, arm.n) << i + 1;
        }
        EXPECT_NEAR(-over, stp_bandit_get_arm(bandit.get(), 0, 0).mean, 1e-12);
    }
}

// ---- what trials may cost ----

// A block has two windows with the arm.  Before it, what NCCL expects of half
// of the calls counts, and then what was measured of the whole window.
TEST(HalvingCost, OfATrialIsWhatItsBlocksAreExpectedToLose)
{
    const struct {
        const char *name;
        float own, tree, simple; // costs
        Known known;             // of the arm
        unsigned n_blocks;
        uint64_t n_calls;
    } cases[] = {
        // clang-format off
        {"1.5 times as long", 10.5, -1, 15.75, {0, 0}, 1, 53},
        {"NCCL's own is the first pair", -1, 10.5, 15.75, {0, 0}, 1, 53},
        {"of one us", 1, -1, 1.5, {0, 0}, 1, 5},
        {"as long: 1.1 times", 10.5, -1, 10.5, {0, 0}, 1, 11},
        {"2.5 times", 10.5, -1, 26.25, {0, 0}, 1, 158},
        {"4 times: 2.5 times", 10.5, -1, 42, {0, 0}, 1, 158},
        {"own costs nothing", 0, -1, 10, {0, 0}, 1, 0},
        {"known by one block", 10.5, -1, 15.75, {1, -.1}, 4, 9},
        {"by four", 10.5, -1, 15.75, {4, -.1}, 4, 9},
        {"by five", 10.5, -1, 15.75, {5, -.1}, 8, 17},
        {"known to be faster", 10.5, -1, 15.75, {1, .1}, 4, 0},
        // clang-format on
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        const Costs costs = CostsOf(c.own, c.tree, c.simple);
        stp_bandit_rules rules = NoRetests();
        rules.prune = 0;
        const Bandit bandit = OpenWithKey(rules, costs.View());
        stp_bandit_want want{};

        ASSERT_EQ(2u, stp_bandit_get_key(bandit.get(), 0).n_arms);
        stp_bandit_set_noise(bandit.get(), 1);
        if (c.known.n > 0)
            Recall(bandit, 1, c.known);
        EXPECT_EQ(c.n_calls, CallsToAfford(bandit, &want));
        EXPECT_EQ(0u, want.key);
        EXPECT_EQ(1u, want.arm);
        EXPECT_EQ(c.n_blocks, want.n_blocks);
    }
}

} // namespace
