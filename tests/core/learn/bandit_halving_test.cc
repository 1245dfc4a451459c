// Which arm wins by windows of equal work, and what that costs.
#include <gmock/gmock.h>

#include <cmath>
#include <deque>
#include <functional>

#include "core/learn/bandit_job.h"
#include "core/learn/noise.h"

namespace
{

using namespace bandit_job;
using testing::ElementsAre;

constexpr Arm kTreeLl128Half{NCCL_ALGO_TREE, NCCL_PROTO_LL128, 12};
constexpr double kWindowUs = 1000;
constexpr unsigned kWindow = 10; // calls, half of which are of the key

// How many us a window is shorter with an arm than with NCCL's own choice.
using Saved = std::function<double(const Arm &)>;

Saved Saves(const Arm &best, double us)
{
    return [=](const Arm &arm) {
        return arm == best ? us : arm == kOwn ? 0. : -20.;
    };
}

// A job in which trials run one after another, and whose times arrive 'late'
// trials later.
struct Trials {
    Bandit bandit;
    Saved saved;
    double noise; // of a window
    unsigned late = 0;
    uint64_t seed = 1;
    uint64_t n_calls = 100000;
    uint64_t n_windows = 0;
    double lost_us = 0;
    std::deque<stp_block> blocks;
    std::vector<Arm> tried;
    unsigned n_trials = 0;

    explicit Trials(const Saved &what_arms_save, double of_noise = .002,
                    const stp_bandit_rules &rules = Halving())
        : bandit(Open(rules)), saved(what_arms_save), noise(of_noise)
    {
        AddKey(bandit);
        stp_bandit_set_share(bandit.get(), 0, kWindow / 2, kWindow);
        stp_bandit_set_noise(bandit.get(), of_noise);
    }

    Arm Incumbent(unsigned key = 0)
    {
        return ArmOf(bandit, stp_bandit_get_key(bandit.get(), key).running,
                     key);
    }

    double Window(const Arm &arm)
    {
        n_calls += kWindow;
        return (kWindowUs - saved(arm)) *
               std::exp(noise * Noise(seed, n_windows++));
    }

    void Play(const stp_bandit_want &want, unsigned block)
    {
        const Arm arm = ArmOf(bandit, want.arm, want.key);
        double own[2], with[2];
        stp_block b{};

        for (int i = 0; i < 2; i++) {
            own[i] = Window(Incumbent(want.key));
            with[i] = Window(arm);
        }
        lost_us += 2 * (saved(Incumbent(want.key)) - saved(arm));
        b.trial.key = want.key;
        b.trial.arm = want.arm;
        b.trial.n_blocks = want.n_blocks;
        b.trial.n_calls = kWindow;
        b.is_complete = true;
        b.is_last = block + 1 == want.n_blocks;
        b.own_us = (own[0] + own[1]) / 2;
        b.arm_us = (with[0] + with[1]) / 2;
        b.gain = std::log(b.own_us / b.arm_us);
        b.spread[0] = std::log(own[0] / own[1]);
        b.spread[1] = std::log(with[0] / with[1]);
        blocks.push_back(b);
    }

    // Does what the bandit wants next; false if that is nothing.
    bool Next()
    {
        stp_bandit_clock clock{n_calls, kWindowUs / kWindow};
        stp_bandit_want want;

        if (!stp_bandit_wants(bandit.get(), &clock, &want))
            return false;
        stp_bandit_began(bandit.get(), &want);
        n_trials += want.n_blocks > 0;
        if (want.n_blocks > 0)
            tried.push_back(ArmOf(bandit, want.arm, want.key));
        for (unsigned i = 0; i < want.n_blocks; i++)
            Play(want, i);
        return true;
    }

    void Arrive(size_t left)
    {
        while (blocks.size() > left) {
            stp_bandit_block(bandit.get(), &blocks.front(), n_calls);
            blocks.pop_front();
        }
    }

    stp_bandit_key_state State(unsigned key = 0)
    {
        return stp_bandit_get_key(bandit.get(), key);
    }

    // Runs until the key has settled and its arm is in force.
    Arm Settle(unsigned key = 0)
    {
        for (int i = 0; i < 5000 && !State(key).is_settled; i++) {
            bool did = Next();

            Arrive(did ? late : 0);
            if (!did)
                n_calls += kWindow;
        }
        EXPECT_TRUE(State(key).is_settled);
        Arrive(0);
        while (State(key).running != State(key).best && Next())
            ;
        return Incumbent(key);
    }
};

// ---- what wins ----

struct WinCase {
    const char *name;
    double saved_us;
    double noise;
    Arm expected;
};

TEST(Halving, SettlesWithTheArmThatMakesWindowsShorter)
{
    const WinCase cases[] = {
        {"by 5 percent", 50, .002, kTreeLl128},
        {"by 1 percent", 10, .002, kTreeLl128},
        {"by 1 percent without noise", 10, 0, kTreeLl128},
        {"by 5 percent among noise of 3", 50, .03, kTreeLl128},
        {"by less than counts", 1, .002, kOwn},
        {"not at all", 0, .002, kOwn},
        {"not at all among noise of 3 percent", 0, .03, kOwn},
    };

    for (const WinCase &c : cases)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            SCOPED_TRACE(c.name);
            SCOPED_TRACE(seed);
            Trials job(Saves(kTreeLl128, c.saved_us), c.noise);

            job.seed = seed;
            EXPECT_EQ(c.expected, job.Settle());
            if (c.expected == kOwn) {
                EXPECT_EQ(1, job.State().gain);
                continue;
            }
            EXPECT_LE(job.State().gain_low, job.State().gain);
            EXPECT_GT(job.State().gain_low, 1);
            EXPECT_NEAR(kWindowUs / (kWindowUs - c.saved_us), job.State().gain,
                        c.noise + 1e-9);
        }
}

TEST(Halving, DropsMostArmsAfterOneBlock)
{
    Trials job(Saves(kTreeLl128, 50));

    job.Settle();

    EXPECT_EQ(1U, stp_bandit_get_arm(job.bandit.get(), 0, 3).n);
    EXPECT_LE(job.State().n_calls, 80U * kWindow);
}

TEST(Halving, NeedNotWaitForTimes)
{
    Trials job(Saves(kTreeLl128, 50));

    for (int i = 0; i < 3; i++)
        EXPECT_TRUE(job.Next());
    EXPECT_FALSE(job.Next()) << "each arm is on trial";
    EXPECT_THAT(job.tried, ElementsAre(kRingSimple, kTreeLl128, kRingLl));
    job.late = 2;
    EXPECT_EQ(kTreeLl128, job.Settle());
}

TEST(Halving, PutsAWinnerInForceWhileOthersAreTried)
{
    Trials job(
        [](const Arm &arm) {
            return arm == kTreeLl128 ? 50. : arm == kRingLl ? 45. : 0.;
        },
        .005);

    EXPECT_EQ(kTreeLl128, job.Settle());
    EXPECT_NEAR(1.0526, job.State().gain, .004);
}

TEST(Halving, ABlockThatAPauseHitDoesNotCount)
{
    Trials job(Saves(kTreeLl128, 0));
    unsigned n = 0;

    for (int i = 0; i < 200 && !job.State().is_settled; i++) {
        job.Next();
        for (stp_block &block : job.blocks)
            if (n++ % 3 == 1) { // the incumbent's second window
                block.spread[0] = -1;
                block.gain += .5;
                block.own_us *= 1.6;
            }
        job.Arrive(0);
    }

    EXPECT_TRUE(job.State().is_settled);
    EXPECT_EQ(0U, job.State().best);
}

TEST(Halving, TriesFewerChannelsOfTheWinner)
{
    Trials job([](const Arm &arm) {
        return arm == kTreeLl128Half ? 80.
               : arm == kTreeLl128   ? 50.
               : arm == kOwn         ? 0.
                                     : -20.;
    });

    EXPECT_EQ(kTreeLl128Half, job.Settle());
    EXPECT_NEAR(1000. / 920, job.State().gain, .004);
}

TEST(Halving, BlocksWithoutTimesOnlyEndTheirTrial)
{
    Trials job(Saves(kTreeLl128, 50));

    for (int i = 0; i < 30; i++) {
        job.Next();
        for (stp_block &block : job.blocks)
            block.is_complete = false;
        job.Arrive(0);
    }

    EXPECT_FALSE(job.State().is_settled);
    EXPECT_EQ(30u, job.n_trials);
    EXPECT_EQ(kTreeLl128, job.Settle());
}

// ---- what it costs ----

TEST(Halving, NeverLosesMoreThanItsBudget)
{
    stp_bandit_rules rules = Halving();

    rules.budget = .01;
    for (double us : {-300., -50., 0., 50.}) {
        Trials job([us](const Arm &arm) { return arm == kOwn ? 0 : us; }, .002,
                   rules);

        job.n_calls = 0;
        for (int i = 0; i < 20000; i++) {
            if (!job.Next())
                job.n_calls += kWindow;
            job.Arrive(0);
            /* the first trial of an arm may be worse than NCCL expects */
            ASSERT_LE(job.lost_us,
                      .01 * job.n_calls * kWindowUs / kWindow + 3 * 2 * 300)
                << us;
        }
        EXPECT_TRUE(job.State().is_settled) << us;
    }
}

TEST(Halving, WithoutABudgetTriesNothing)
{
    stp_bandit_rules rules = Halving();

    rules.budget = 0;
    Trials job(Saves(kTreeLl128, 50), .002, rules);

    EXPECT_FALSE(job.Next());
}

// ---- keys ----

TEST(Halving, SearchesTheKeyWithTheMostTimeFirst)
{
    Trials job(Saves(kTreeLl128, 50));

    AddKey(job.bandit, 1);
    AddKey(job.bandit, 2);
    stp_bandit_set_share(job.bandit.get(), 0, 2, kWindow);
    stp_bandit_set_share(job.bandit.get(), 1, 0, kWindow);
    stp_bandit_set_share(job.bandit.get(), 2, 8, kWindow);

    EXPECT_EQ(kTreeLl128, job.Settle(2));
    EXPECT_FALSE(job.State(0).is_settled);
    EXPECT_EQ(kTreeLl128, job.Settle(0));
    while (job.Next())
        job.Arrive(0);
    EXPECT_FALSE(job.State(1).is_settled) << "it is not made";
}

// ---- re-tests ----

TEST(Halving, TestsTheWinnerAgainEverLessOften)
{
    Trials job(Saves(kTreeLl128, 50));
    std::vector<uint64_t> at;
    unsigned n;

    job.Settle();
    n = job.n_trials;
    for (int i = 0; i < 30000; i++) {
        job.Next();
        job.Arrive(0);
        job.n_calls++;
        if (job.n_trials != n)
            at.push_back(job.n_calls);
        n = job.n_trials;
    }

    ASSERT_GE(at.size(), 4u);
    EXPECT_LE(at.size(), 5u);
    EXPECT_NEAR(2. * double(at[2] - at[1]), double(at[3] - at[2]), 300);
    EXPECT_EQ(kTreeLl128, job.Incumbent());
}

TEST(Halving, BeginsAnewWhenTheWinnerIsSlower)
{
    Trials job(Saves(kTreeLl128, 50));

    job.Settle();
    job.saved = Saves(kRingSimple, 30);
    for (int i = 0; i < 5000 && !(job.Incumbent() == kRingSimple); i++) {
        job.Next();
        job.Arrive(0);
        job.n_calls++;
    }

    EXPECT_EQ(kRingSimple, job.Incumbent());
}

TEST(Halving, WithoutRetestsTriesNothingMore)
{
    stp_bandit_rules rules = Halving();

    rules.retest_calls = 0;
    Trials job(Saves(kTreeLl128, 50), .002, rules);

    job.Settle();
    job.n_calls += 1000000;
    EXPECT_FALSE(job.Next());
    EXPECT_FALSE(stp_bandit_awaits(job.bandit.get(), 0, job.n_calls));
}

} // namespace
