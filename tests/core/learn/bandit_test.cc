// What keys and arms are, and what epsilon-greedy decides of them.
#include <gmock/gmock.h>

#include <algorithm>
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
using testing::HasSubstr;

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

struct BandCase {
    stp_strategy strategy;
    uint64_t n_bytes, min, max;
};

constexpr BandCase kBands[] = {
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
    for (const BandCase &c : kBands) {
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
        const char *above, *below; // errors
    } cases[] = {
        {"epsilon", &stp_bandit_rules::epsilon, 1,
         "epsilon is 1.5, expected 0 to 1", "epsilon is -0.5, expected 0 to 1"},
        {"min_gain", &stp_bandit_rules::min_gain, 1,
         "min_gain is 1.5, expected 0 to 1",
         "min_gain is -0.5, expected 0 to 1"},
        {"prune", &stp_bandit_rules::prune, 1e6,
         "prune is 1.5e+06, expected 0 to 1e+06",
         "prune is -0.5, expected 0 to 1e+06"},
        {"budget", &stp_bandit_rules::budget, 1,
         "budget is 1.5, expected 0 to 1", "budget is -0.5, expected 0 to 1"},
        {"confirm_us", &stp_bandit_rules::confirm_us, 1e9,
         "confirm_us is 1.5e+09, expected 0 to 1e+09",
         "confirm_us is -0.5, expected 0 to 1e+09"},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        stp_bandit_rules rules = Halving();
        stp_error err;

        for (double in : {0., c.max}) {
            rules.*c.value = in;
            EXPECT_EQ(STP_OK, Opens(rules, &err));
        }
        rules.*c.value = 1.5 * c.max;
        EXPECT_EQ(STP_ERR_RANGE, Opens(rules, &err));
        EXPECT_STREQ(c.above, err.text);
        rules.*c.value = -.5;
        EXPECT_EQ(STP_ERR_RANGE, Opens(rules, &err));
        EXPECT_STREQ(c.below, err.text);
        rules.*c.value = NAN;
        EXPECT_EQ(STP_ERR_RANGE, Opens(rules, &err));
    }
}

TEST(BanditRules, OfMoreArmsThanThereCanBeAndOfNoStrategyAreRefused)
{
    stp_bandit_rules rules = Halving();
    stp_error err;

    rules.n_arms = STP_BANDIT_ARMS - 1;
    EXPECT_EQ(STP_OK, Opens(rules, &err));
    rules.n_arms = STP_BANDIT_ARMS;
    EXPECT_EQ(STP_ERR_RANGE, Opens(rules, &err));
    EXPECT_STREQ("number of arms is 32, expected 0 to 31", err.text);
    rules = Halving();
    rules.strategy = STP_N_STRATEGIES;
    EXPECT_EQ(STP_ERR_RANGE, Opens(rules, &err));
    EXPECT_STREQ("there is no strategy 2", err.text);
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

TEST(BanditArms, OfEqualCostAreInTheOrderOfTheirNames)
{
    Bandit bandit = Open(Halving());
    Costs costs;
    const stp_cost_view view = costs.View();

    costs.table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 20;
    costs.table[NCCL_ALGO_TREE][NCCL_PROTO_LL128] = 20;
    costs.table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 20;
    stp_bandit_add_key(bandit.get(), 0, &view, 24);

    EXPECT_THAT(ArmsOf(bandit, false),
                ElementsAre(kOwn, Arm{NCCL_ALGO_TREE, NCCL_PROTO_LL, 0},
                            kTreeLl128, kRingLl, kRingSimple));
}

// Rows are of tree and ring, columns of LL, LL128 and simple.
TEST(BanditArms, AreThePairsThatTheirCostsAllow)
{
    constexpr Arm kTreeLl{NCCL_ALGO_TREE, NCCL_PROTO_LL, 0};
    constexpr Arm kRingLl128{NCCL_ALGO_RING, NCCL_PROTO_LL128, 0};
    const struct {
        const char *name;
        std::vector<float> costs;
        std::vector<Arm> in, out;
    } cases[] = {
        // clang-format off
        {"of two that NCCL may take it takes the first",
         {-1, 10, -1, -1, 10, 11}, {kOwn, kRingLl128, kRingSimple}, {}},
        {"up to 2.5 times the least",
         {25, 10, 25.1f, -1, -1, -1}, {kOwn, kTreeLl}, {kTreeSimple}},
        {"in any unit",
         {.024f, .01f, .026f, -1, .02f, .012f},
         {kOwn, kRingSimple, kRingLl128, kTreeLl}, {kTreeSimple}},
        {"where one costs nothing",
         {-1, 5, 0, -1, 9, 0}, {kOwn, kTreeLl128, kRingLl128, kRingSimple}, {}},
        {"the first pair is NCCL's own",
         {10, 11, -1, -1, -1, -1}, {kOwn, kTreeLl128}, {}},
        {"none",
         {-1, -1, -1, -1, -1, -1}, {kOwn}, {}},
        // clang-format on
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        const Bandit bandit = Open(Halving());
        const stp_cost_view view = {c.costs.data(), 2, 3};

        stp_bandit_add_key(bandit.get(), 0, &view, 0);
        EXPECT_EQ(c.in, ArmsOf(bandit, false));
        EXPECT_EQ(c.out, ArmsOf(bandit, true));
    }
}

TEST(BanditArms, ThatCostMoreThanNcclsOwnMayAllBePruned)
{
    const std::vector<float> costs = {10, 10, 10.1f};
    const stp_cost_view view = {costs.data(), 1, 3};
    stp_bandit_rules rules = Halving();

    rules.prune = 1;
    const Bandit bandit = Open(rules);
    stp_bandit_add_key(bandit.get(), 0, &view, 0);

    EXPECT_THAT(ArmsOf(bandit, false), ElementsAre(kOwn, kTreeLl128));
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

// It wins, is confirmed, searched on, dropped, and tested in another step.
TEST(BanditKey, ThatIsTheLastOfAllIsAsOthers)
{
    constexpr unsigned kLast = STP_BANDIT_KEYS - 1;
    stp_bandit_rules rules = Halving();
    std::vector<unsigned> shares(STP_BANDIT_KEYS);
    const stp_bandit_clock clock{100000, 1};
    stp_bandit_want want{};

    rules.persists = true;
    rules.arms[0] = {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0};
    rules.n_arms = 1;
    const Bandit bandit = Open(rules);
    AddKey(bandit);
    AddKey(bandit, kLast);
    shares[kLast] = 10;
    SetWindow(bandit, shares, 10);
    stp_bandit_set_noise(bandit.get(), .001);
    stp_bandit_recall(bandit.get(), kLast, &rules.arms[0], 16, .1, 0);

    shares[kLast] = 20;
    SetWindow(bandit, shares, 20); // of two steps

    ASSERT_TRUE(stp_bandit_wants(bandit.get(), &clock, &want));
    EXPECT_EQ(kLast, want.key);
    EXPECT_EQ(1u, want.arm);
    stp_bandit_began(bandit.get(), &want);
    for (double gain : {.1, -.1}) {
        for (int i = 0; i < 8; i++) {
            stp_block block{};
            block.trial.key = STP_BANDIT_SET;
            block.trial.base = stp_bandit_get_set(bandit.get()).number;
            block.is_complete = block.is_last = true;
            block.gain = -gain;
            EXPECT_TRUE(stp_bandit_wants(bandit.get(), &clock, &want));
            EXPECT_EQ(unsigned(STP_BANDIT_SET), want.key);
            stp_bandit_block(bandit.get(), &block, 100000);
        }
        EXPECT_EQ(gain > 0 ? 1u : 0u,
                  stp_bandit_get_key(bandit.get(), kLast).best);
        EXPECT_FALSE(gain > 0 && stp_bandit_wants(bandit.get(), &clock, &want));
        if (gain > 0) { // the set is another one
            want = {kLast, 0, 0, 0};
            stp_bandit_began(bandit.get(), &want);
            want.arm = 1;
            stp_bandit_began(bandit.get(), &want);
        }
    }
    EXPECT_TRUE(stp_bandit_get_set(bandit.get()).is_dropped);
    shares[0] = 5;
    SetWindow(bandit, shares, 25);
    EXPECT_FALSE(stp_bandit_get_set(bandit.get()).is_dropped);
}

TEST(BanditKey, ThatIsTheLastOfAllMaySettleWithNcclsOwnChoice)
{
    constexpr unsigned kLast = STP_BANDIT_KEYS - 1;
    const Bandit bandit = Open(Halving());
    std::vector<unsigned> shares(STP_BANDIT_KEYS);
    const stp_bandit_clock clock{1000, 1};
    stp_bandit_want want{};

    stp_bandit_add_key(bandit.get(), kLast, nullptr, 24);
    shares[kLast] = 10;
    SetWindow(bandit, shares, 10);
    for (int i = 0; i < 2; i++)
        EXPECT_FALSE(stp_bandit_wants(bandit.get(), &clock, &want));
    EXPECT_TRUE(stp_bandit_get_key(bandit.get(), kLast).is_settled);
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
            stp_bandit_saw_channels(bandit.get(), key, 0, 8);
            want = {key, 0, 0, 0};
            if (key != STP_BANDIT_SET)
                stp_bandit_began(bandit.get(), &want);
            EXPECT_FALSE(stp_bandit_awaits(bandit.get(), key, 100000));
            EXPECT_EQ(0u, stp_bandit_get_key(bandit.get(), key).n_arms);
        }
        SetWindow(bandit, {1}, 1);
        EXPECT_TRUE(stp_bandit_awaits(bandit.get(), 0, 100000));
    }
    stp_bandit_close(nullptr);
}

TEST(BanditKey, LearnsAsItsStrategyDoes)
{
    const stp_bandit_arm arm = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
    const Bandit halving = Open(stp_bandit_rules_default(STP_STRATEGY_HALVING));
    const Bandit epsilon = Open(stp_bandit_rules_default(STP_STRATEGY_EPSILON));
    const auto total = [](const Bandit &bandit) {
        uint64_t n = 0;
        for (unsigned i = 0; i < 4; i++)
            n += stp_bandit_get_arm(bandit.get(), 0, i).n;
        return n;
    };

    AddKey(halving);
    AddKey(epsilon);
    stp_bandit_reward(halving.get(), 0, 1, 100);
    EXPECT_EQ(0u, total(halving));
    stp_bandit_recall(halving.get(), 0, &arm, 5, .1, 0);
    EXPECT_EQ(5u, total(halving));
    stp_bandit_recall(epsilon.get(), 0, &arm, 5, .1, 0);
    for (double value : {0., -1., double(INFINITY), double(NAN)})
        stp_bandit_reward(epsilon.get(), 0, 1, value);
    EXPECT_EQ(0u, total(epsilon));
    stp_bandit_reward(epsilon.get(), 0, 1, 1e-9);
    EXPECT_EQ(1u, total(epsilon));
}

TEST(BanditKey, ThatIsNotThereHasNoArmsAndNoGain)
{
    Bandit bandit = Open(Halving());

    const stp_bandit_key_state state = stp_bandit_get_key(bandit.get(), 5);

    EXPECT_EQ(0u, state.n_arms);
    EXPECT_EQ(1, state.gain);
    EXPECT_EQ(1, state.gain_low);
    EXPECT_EQ(1, state.gain_high);
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
    // by the first calls of the three others, not by those of the best
    EXPECT_NEAR(10 - 10 + 10, job.State().lost, 1e-9);
}

TEST(Epsilon, LosesNothingThatIsKnownBeforeNcclsOwnWasTimed)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(0));

    stp_bandit_reward(job.bandit.get(), 0, 2, 90);
    stp_bandit_reward(job.bandit.get(), 0, 1, 110);
    EXPECT_EQ(0, job.State().lost);
    stp_bandit_reward(job.bandit.get(), 0, 0, 100);
    EXPECT_EQ(0, job.State().lost);
    stp_bandit_reward(job.bandit.get(), 0, 1, 110);
    EXPECT_EQ(10, job.State().lost);
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

// Of the arm and of NCCL's own choice, one has a reward more than the other.
TEST(Epsilon, HasTheIntervalOfBothMeans)
{
    const std::vector<double> few = {98, 103}, more = {89, 92, 94};

    for (bool more_of_own : {false, true}) {
        Job job = Start(Only(kTreeLl128, 90), Epsilon(0));
        const auto [own, best] =
            more_of_own ? std::pair{std::vector<double>{98, 103, 99},
                                    std::vector<double>{89, 92}}
                        : std::pair{few, more};
        double variance = 0;
        double means[2] = {0, 0};
        int which = 0;

        for (const auto &[arm, values] :
             {std::pair{0u, own}, std::pair{2u, best}}) {
            const double n = static_cast<double>(values.size());
            double ss = 0;
            for (double value : values) {
                stp_bandit_reward(job.bandit.get(), 0, arm, value);
                means[which] += value / n;
            }
            for (double value : values)
                ss += std::pow(value - means[which], 2);
            variance += ss / (n - 1) / n / std::pow(means[which++], 2);
        }
        for (unsigned arm : {1, 3})
            stp_bandit_reward(job.bandit.get(), 0, arm, 200);
        const double half = stp_t975(1) * std::sqrt(variance);
        const double gain = means[0] / means[1];

        EXPECT_NEAR(gain, job.State().gain, 1e-9);
        EXPECT_NEAR(gain * std::exp(-half), job.State().gain_low, 1e-9);
        EXPECT_NEAR(gain * std::exp(half), job.State().gain_high, 1e-9);
    }
}

TEST(Epsilon, KeepsTheFirstOfArmsThatAreAlike)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(0));

    for (unsigned arm = 0; arm < 4; arm++) {
        EXPECT_FALSE(job.State().is_settled);
        EXPECT_EQ(arm, job.State().best) << "the first that is not known";
        EXPECT_EQ(1, job.State().gain);
        EXPECT_EQ(1, job.State().gain_low);
        EXPECT_EQ(1, job.State().gain_high);
        stp_bandit_reward(job.bandit.get(), 0, arm, 100);
        EXPECT_EQ(arm + 1, job.State().n_calls);
    }
    EXPECT_TRUE(job.State().is_settled);
    EXPECT_EQ(0u, job.State().best);
    EXPECT_EQ(1, job.State().gain_low);
    stp_bandit_reward(job.bandit.get(), 0, 1, 50);
    EXPECT_EQ(4u, job.State().n_calls) << "until it settled";
    EXPECT_EQ(1u, job.State().best);
    EXPECT_NEAR(100. / 75, job.State().gain, 1e-9);
}

TEST(Epsilon, SettlesOnceNcclsOwnChoiceIsKnownToo)
{
    Job job = Start(Only(kTreeLl128, 90), Epsilon(0));

    for (unsigned arm : {1, 2, 3, 0}) {
        EXPECT_FALSE(job.State().is_settled);
        stp_bandit_reward(job.bandit.get(), 0, arm, 100);
    }
    EXPECT_TRUE(job.State().is_settled);
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

// Of four arms, of which the last is out.
TEST(Epsilon, DrawsFromItsSeedWhetherToExploreAndWhichArm)
{
    stp_bandit_rules rules = Epsilon(.6);
    rules.prune = 2.5;
    std::swap(rules.arms[0], rules.arms[2]); // tree/simple is pruned
    Job job = Start(Only(kTreeLl128, 90), rules);
    const stp_bandit_clock clock{1, 100};
    unsigned running = 0, n_random = 0;

    for (unsigned arm : {0, 1, 2})
        stp_bandit_reward(job.bandit.get(), 0, arm, arm == 1 ? 90 : 100);
    for (uint64_t epoch = 0; epoch < 200; epoch++) {
        stp_bandit_want want{};
        const bool is_random = stp_rng_unit(rules.seed, 2 * epoch) < .6;
        const unsigned arm =
            is_random ? unsigned(3 * stp_rng_unit(rules.seed, 2 * epoch + 1))
                      : 1;

        n_random += is_random;
        ASSERT_EQ(arm != running,
                  stp_bandit_wants(job.bandit.get(), &clock, &want));
        if (arm == running)
            continue;
        ASSERT_EQ(arm, want.arm);
        stp_bandit_began(job.bandit.get(), &want);
        running = arm;
    }
    EXPECT_NEAR(120, n_random, 25);
}

TEST(Epsilon, ExploresBelowItsShareAlone)
{
    stp_bandit_rules rules = Epsilon(.5);
    const stp_bandit_clock clock{1, 100};
    stp_bandit_want want{};

    // A draw that would take another arm than NCCL's own.
    while (stp_rng_unit(rules.seed, 1) < .25)
        rules.seed++;
    rules.epsilon = stp_rng_unit(rules.seed, 0);
    Job job = Start(Only(kTreeLl128, 90), rules);
    EXPECT_FALSE(stp_bandit_wants(job.bandit.get(), &clock, &want));
}

TEST(Epsilon, TakesTheLastOfAllKeysInItsTurn)
{
    Job job{Open(Epsilon(0)), Only(kTreeLl128, 90)};
    const stp_bandit_clock clock{1, 100};
    stp_bandit_want want{};

    AddKey(job.bandit, STP_BANDIT_KEYS - 1);
    stp_bandit_reward(job.bandit.get(), STP_BANDIT_KEYS - 1, 0, 100);
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(stp_bandit_wants(job.bandit.get(), &clock, &want));
        EXPECT_EQ(STP_BANDIT_KEYS - 1u, want.key);
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
