// Tests of keys and arms, and of the decisions of epsilon-greedy.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

extern "C" {
#include "core/rng.h"
#include "core/stats.h"
}

#include "core/learn/bandit_job.h"

namespace
{

using namespace bandit_job;
using testing::ElementsAre;

// ---- names, bands, rules ----

TEST(BanditNames, GoBothWays)
{
    EXPECT_STREQ("halving", stp_strategy_name(STP_STRATEGY_HALVING));
    EXPECT_EQ(STP_STRATEGY_EPSILON, stp_strategy_from_name("epsilon,", 7));
    EXPECT_EQ(-1, stp_strategy_from_name("epsilon", 6));
    for (int i = 0; i < STP_N_STRATEGIES; i++) {
        const char *name = stp_strategy_name(stp_strategy(i));
        EXPECT_EQ(i, stp_strategy_from_name(name, strlen(name)));
    }
}

constexpr struct {
    stp_strategy strategy;
    uint64_t n_bytes, min, max;
} kBands[] = {
    {STP_STRATEGY_EPSILON, 0, 0, 1},
    {STP_STRATEGY_EPSILON, 1, 0, 1},
    {STP_STRATEGY_EPSILON, 1535, 1024, 2047},
    {STP_STRATEGY_EPSILON, UINT64_MAX, UINT64_C(1) << 63, UINT64_MAX},
    {STP_STRATEGY_HALVING, 0, 0, 1},
    {STP_STRATEGY_HALVING, 2, 2, 2},
    {STP_STRATEGY_HALVING, 3, 3, 3},
    {STP_STRATEGY_HALVING, 8, 8, 9},
    {STP_STRATEGY_HALVING, 1279, 1024, 1279},
    {STP_STRATEGY_HALVING, 1280, 1280, 1535},
    {STP_STRATEGY_HALVING, UINT64_MAX, UINT64_C(7) << 61, UINT64_MAX},
};

TEST(BanditBands, HoldTheirSizes)
{
    for (const auto &c : kBands) {
        SCOPED_TRACE(c.n_bytes);
        unsigned band = stp_bandit_band(c.strategy, c.n_bytes);
        stp_range range = stp_bandit_band_range(c.strategy, band);

        EXPECT_EQ(c.min, range.min);
        EXPECT_EQ(c.max, range.max);
        EXPECT_EQ(band, stp_bandit_band(c.strategy, range.min));
        EXPECT_EQ(band, stp_bandit_band(c.strategy, range.max));
    }
}

stp_status Opens(const stp_bandit_rules &rules, stp_error *err)
{
    stp_bandit *bandit = nullptr;
    const stp_status status = stp_bandit_open(&rules, &bandit, err);

    EXPECT_EQ(status == STP_OK, bandit != nullptr);
    stp_bandit_close(bandit);
    return status;
}

TEST(BanditRules, OutOfRangeAreRefused)
{
    const struct {
        const char *name;
        double stp_bandit_rules::*value;
        double max;
    } cases[] = {
        {"epsilon", &stp_bandit_rules::epsilon, 1},
        {"min_gain", &stp_bandit_rules::min_gain, 1},
        {"prune", &stp_bandit_rules::prune, 1e6},
        {"budget", &stp_bandit_rules::budget, 1},
        {"confirm_us", &stp_bandit_rules::confirm_us, 1e9},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        stp_bandit_rules rules = Halving();
        stp_error err;

        for (double in : {0., c.max}) {
            rules.*c.value = in;
            EXPECT_EQ(STP_OK, Opens(rules, &err));
        }
        for (double out : {1.5 * c.max, -.5, double(NAN)}) {
            char expected[80];

            snprintf(expected, sizeof(expected), "%s is %g, expected 0 to %g",
                     c.name, out, c.max);
            rules.*c.value = out;
            EXPECT_EQ(STP_ERR_RANGE, Opens(rules, &err));
            EXPECT_STREQ(expected, err.text);
        }
    }
}

TEST(BanditRules, HaveDefaults)
{
    const stp_bandit_rules halving =
        stp_bandit_rules_default(STP_STRATEGY_HALVING);
    const stp_bandit_rules epsilon =
        stp_bandit_rules_default(STP_STRATEGY_EPSILON);

    EXPECT_EQ(STP_STRATEGY_HALVING, halving.strategy);
    EXPECT_EQ(.1, halving.epsilon);
    EXPECT_EQ(.002, halving.min_gain);
    EXPECT_EQ(2.5, halving.prune);
    EXPECT_EQ(.01, halving.budget);
    EXPECT_EQ(1000u, halving.retest_calls);
    EXPECT_EQ(8u, halving.confirm_blocks);
    EXPECT_EQ(300000, halving.confirm_us);
    EXPECT_FALSE(halving.persists);
    EXPECT_EQ(0u, halving.seed);
    EXPECT_EQ(0u, halving.n_arms);
    EXPECT_EQ(STP_STRATEGY_EPSILON, epsilon.strategy);
    EXPECT_EQ(.1, epsilon.epsilon);
    EXPECT_EQ(0, epsilon.prune);
    ASSERT_EQ(3u, epsilon.n_arms);
    const Arm arms[] = {kTreeSimple, kTreeLl128, kRingSimple};
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(arms[i], (Arm{epsilon.arms[i].algo, epsilon.arms[i].proto,
                                epsilon.arms[i].n_channels}));
}

// ---- arms ----

TEST(BanditArms, AreWhatTheTableAllowsCheapestFirst)
{
    Bandit bandit = Open(Halving());

    AddKey(bandit);

    EXPECT_THAT(ArmsOf(bandit, false),
                ElementsAre(kOwn, kRingSimple, kTreeLl128, kRingLl));
    EXPECT_THAT(ArmsOf(bandit, true), ElementsAre(kTreeSimple));
}

// Around the table, all costs are as good.
TEST(BanditArms, OfTheRulesThatTheTableDoesNotHaveAreOut)
{
    const std::vector<float> costs(16, 10);
    const stp_cost_view view = {&costs[6], 2, 2};
    stp_bandit_rules rules = Halving();
    const std::vector<Arm> out = {{2, 0, 0}, {0, 2, 0}, {-1, 1, 0}, {1, -1, 0}};

    for (const Arm &arm : out)
        rules.arms[rules.n_arms++] = {int8_t(arm.algo), int8_t(arm.proto), 0};
    rules.arms[rules.n_arms++] = {1, 1, 0};
    const Bandit bandit = Open(rules);

    stp_bandit_add_key(bandit.get(), 0, &view, 0);
    EXPECT_EQ((std::vector<Arm>{kOwn, {1, 1, 0}}), ArmsOf(bandit, false));
    EXPECT_EQ(out, ArmsOf(bandit, true));
}

TEST(BanditArms, AreNoneOfATableWithMorePairsThanThereCanBe)
{
    const std::vector<float> costs(33, 10);
    const Bandit bandit = Open(Halving());

    for (int n : {32, 33}) {
        const stp_cost_view view = {costs.data(), 1, n};
        stp_bandit_add_key(bandit.get(), unsigned(n), &view, 0);
        EXPECT_EQ(n == 32 ? 32u : 0u,
                  stp_bandit_get_key(bandit.get(), unsigned(n)).n_arms);
    }
}

TEST(BanditArms, ThatAreNotThereAreOut)
{
    const Bandit bandit = Open(Halving());

    AddKey(bandit);

    for (const auto &[key, arm] :
         {std::pair{0u, 20u}, {0u, 5u}, {1u, 0u}, {STP_BANDIT_KEYS + 1u, 0u}}) {
        const stp_bandit_arm_state state =
            stp_bandit_get_arm(bandit.get(), key, arm);
        EXPECT_TRUE(state.is_out);
        EXPECT_EQ(-1, state.arm.algo);
        EXPECT_EQ(0u, state.n);
    }
}

TEST(BanditArms, AreTheRulesOwnIfThereAreAny)
{
    stp_bandit_rules rules = Halving();
    rules.arms[0] = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8};
    rules.arms[1] = {NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 0};
    rules.n_arms = 2;
    Bandit bandit = Open(rules);

    AddKey(bandit);

    EXPECT_THAT(ArmsOf(bandit, false),
                ElementsAre(kOwn, Arm{NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8}));
    EXPECT_THAT(ArmsOf(bandit, true),
                ElementsAre(Arm{NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 0}));
}

TEST(BanditArms, WithoutATableThereIsNoneButNcclsOwn)
{
    Bandit bandit = Open(Halving());
    stp_bandit_want want;

    stp_bandit_clock clock{1000, 100};

    stp_bandit_add_key(bandit.get(), 0, nullptr, 24);
    SetWindow(bandit, {1}, 1);

    EXPECT_THAT(ArmsOf(bandit, false), ElementsAre(kOwn));
    EXPECT_FALSE(stp_bandit_wants(bandit.get(), &clock, &want));
    EXPECT_TRUE(stp_bandit_get_key(bandit.get(), 0).is_settled);
}

TEST(BanditKey, MayBeTheLastOfAll)
{
    constexpr unsigned kLast = STP_BANDIT_KEYS - 1;
    Bandit bandit = Open(Halving());
    std::vector<unsigned> shares(STP_BANDIT_KEYS);
    stp_bandit_clock clock{1000, 100};
    stp_bandit_want want{};
    AddKey(bandit, kLast);
    shares[kLast] = 10;
    SetWindow(bandit, shares, 10);

    ASSERT_TRUE(stp_bandit_wants(bandit.get(), &clock, &want));
    EXPECT_EQ(kLast, want.key);
    stp_bandit_add_key(bandit.get(), kLast + 1, nullptr, 0);
    EXPECT_EQ(0u, stp_bandit_get_key(bandit.get(), kLast + 1).n_arms);
}

TEST(BanditKey, ThatIsNotThereIsNotAwaitedNorLearnsAnything)
{
    for (stp_strategy strategy : {STP_STRATEGY_HALVING, STP_STRATEGY_EPSILON}) {
        const Bandit bandit = Open(stp_bandit_rules_default(strategy));
        const stp_bandit_clock clock{100000, 1};
        const stp_bandit_arm arm = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
        stp_bandit_want want{};

        EXPECT_FALSE(stp_bandit_wants(bandit.get(), &clock, &want));
        for (unsigned key : {1u, STP_BANDIT_KEYS + 0u, STP_BANDIT_KEYS + 1u}) {
            AddKey(bandit); // the first time
            stp_bandit_recall(bandit.get(), key, &arm, 16, .1, 0);
            stp_bandit_reward(bandit.get(), key, 0, 1);
            stp_bandit_set_channels(bandit.get(), key, 0, 8);
            want.key = key;
            if (key != STP_BANDIT_SET)
                stp_bandit_began(bandit.get(), &want);
            EXPECT_FALSE(stp_bandit_awaits(bandit.get(), key, 100000));
            const auto state = stp_bandit_get_key(bandit.get(), key);
            EXPECT_EQ(0u, state.n_arms);
            EXPECT_THAT(
                (std::vector{state.gain, state.gain_low, state.gain_high}),
                ElementsAre(1, 1, 1));
        }
        SetWindow(bandit, {1}, 1);
        EXPECT_TRUE(stp_bandit_awaits(bandit.get(), 0, 100000));
    }
    stp_bandit_close(nullptr);
}

// ---- epsilon ----

stp_bandit_rules Epsilon(double epsilon)
{
    stp_bandit_rules rules = stp_bandit_rules_default(STP_STRATEGY_EPSILON);

    rules.epsilon = epsilon;
    rules.seed = 3;
    return rules;
}

TEST(Epsilon, TriesEveryArmOnceAndKeepsTheSmallestMean)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(0));
    std::vector<unsigned> ran;

    for (int i = 0; i < 7; i++)
        ran.push_back(job.Call());

    EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 2, 2, 2));
    EXPECT_TRUE(job.State().is_settled);
    EXPECT_NEAR(100. / 90, job.State().gain, 1e-9);
}

TEST(Epsilon, TwoRewardsOfEachGiveAnInterval)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(0));
    const auto reward_all = [&job](double more) {
        for (unsigned arm = 0; arm < 4; arm++)
            stp_bandit_reward(job.bandit.get(), 0, arm,
                              (arm == 2 ? 90 : 100) + more);
        return job.State();
    };

    const stp_bandit_key_state once = reward_all(0);
    EXPECT_NEAR(100. / 90, once.gain, 1e-9);
    EXPECT_EQ(0, once.gain_low);
    EXPECT_EQ(INFINITY, once.gain_high);
    const stp_bandit_key_state twice = reward_all(.5);
    EXPECT_GT(twice.gain_low, 1);
    EXPECT_LT(twice.gain_high, 1.3);
}

TEST(Epsilon, WithoutExploringAwaitsNothingOnceAllIsKnown)
{
    for (double share : {0., .1}) {
        Job job = Start(Only(kTreeLl128, 90), Epsilon(share));

        for (unsigned arm = 0; arm < 4; arm++) {
            EXPECT_TRUE(stp_bandit_awaits(job.bandit.get(), 0, 0));
            stp_bandit_reward(job.bandit.get(), 0, arm, 100);
        }
        EXPECT_EQ(share > 0, stp_bandit_awaits(job.bandit.get(), 0, 0));
    }
}

TEST(Epsilon, StaysWithAnArmUntilItsFirstRewardArrives)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(0));
    stp_bandit_clock clock{1, 100};
    stp_bandit_want want{};

    for (unsigned arm = 0; arm < 3; arm++) {
        EXPECT_FALSE(stp_bandit_wants(job.bandit.get(), &clock, &want));
        EXPECT_EQ(arm, job.Call());
    }
}

TEST(Epsilon, TakesTheKeysInTurn)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(0));
    stp_bandit_clock clock{1, 100};
    std::vector<unsigned> keys;

    for (unsigned key : {1, 2, 3, 4})
        AddKey(job.bandit, key);
    for (unsigned key : {0, 1, 2, 3, 4})
        stp_bandit_reward(job.bandit.get(), key, 0, 100);
    for (stp_bandit_want want{};
         stp_bandit_wants(job.bandit.get(), &clock, &want) && keys.size() < 7;)
        keys.push_back(want.key);

    EXPECT_THAT(keys, ElementsAre(0, 1, 2, 3, 4, 0, 1));
}

TEST(Epsilon, AnEpsilonOfOneRunsAllArmsAlikeOften)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(1));

    job.Calls(4000);

    for (unsigned arm = 0; arm < 4; arm++)
        EXPECT_NEAR(
            1000, double(stp_bandit_get_arm(job.bandit.get(), 0, arm).n), 100);
}

TEST(Epsilon, ExploresInItsShareOfEpochsAndOneSeedDecidesAlike)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(.2));
    Job other = Start(Only(kTreeLl128, 90), Epsilon(.2));
    unsigned others = 0;

    for (int i = 0; i < 2000; i++) {
        unsigned arm = job.Call();
        EXPECT_EQ(arm, other.Call());
        others += arm != 2;
    }

    EXPECT_NEAR(.2 * 3 / 4 * 2000, others, 40);
}

} // namespace
