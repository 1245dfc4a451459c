// On what terms comparisons become rules, and how steady they were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

extern "C" {
#include "analyse/derive.h"
#include "analyse/steadiness.h"
}

#include "support/measured_data.h"

using namespace measured;

namespace
{

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kInf = HUGE_VAL;

// "RANKS: MIN-MAX ALGO/PROTO" a rule.
std::vector<std::string> Rules(const Data &data, const stp_derive_terms &terms)
{
    Compared c(data);
    stp_derived d{};
    std::vector<std::string> rules;

    EXPECT_EQ(STP_OK, stp_derive_on(&c.all, &terms, &d, nullptr));
    for (size_t i = 0; i < d.n_rules; i++) {
        const stp_derived_rule &r = d.rules[i];
        char name[STP_ARM_NAME];
        stp_arm_name(&r.arm, name);
        rules.push_back(std::to_string(r.n_ranks) + ": " +
                        std::to_string(r.min_bytes) + "-" +
                        (r.max_bytes == STP_DERIVE_NO_END
                             ? "inf"
                             : std::to_string(r.max_bytes)) +
                        " " + name);
    }
    stp_derived_free(&d);
    return rules;
}

struct PassesCase {
    std::vector<double> us; // AUTO takes 100
    bool trust;
    size_t n_rules;
};

TEST(DeriveTerms, SinglePassesDecideIfTheyAreTrustedAndThree)
{
    const PassesCase cases[] = {
        {{50, 50, 50}, false, 0}, {{50, 50, 50}, true, 1},  {{50, 50}, true, 0},
        {{50}, true, 0},          {{50, 150, 50}, true, 0}, // noise
    };

    for (const PassesCase &c : cases) {
        Data d;
        d.Add(64, kAuto, std::vector<double>(c.us.size(), 100),
              STP_SOURCE_SINGLE_PASS);
        d.Add(64, kTreeLl, c.us, STP_SOURCE_SINGLE_PASS);
        EXPECT_EQ(c.n_rules, Rules(d, {0.02, c.trust, false}).size())
            << c.us.size() << " passes, trusted " << c.trust;
    }
}

TEST(DeriveTerms, ModelsDecideNothingHoweverTrusted)
{
    Data d;
    d.AddAuto(64).Add(64, kTreeLl, {50, 50, 50}, STP_SOURCE_MODELLED);

    EXPECT_THAT(Rules(d, {0.02, true, true}), IsEmpty());
}

struct ReachCase {
    const char *name;
    std::vector<double> gains; // of tree/ll at 100, 400, 1600, 6400
    std::vector<std::string> want;
};

TEST(DeriveTerms, ExtrapolatesWhereTheTwoSizesAtAnEndAgree)
{
    const ReachCase cases[] = {
        {"both_ends", {1.1, 1.1, 1.1, 1.1}, {"4: 0-inf tree/ll"}},
        {"low_end", {1.1, 1.1, 1, 1}, {"4: 0-800 tree/ll"}},
        {"high_end", {1, 1, 1.1, 1.1}, {"4: 801-inf tree/ll"}},
        {"one_size_at_each",
         {1.1, 1, 1, 1.1},
         {"4: 100-200 tree/ll", "4: 3201-6400 tree/ll"}},
        {"middle", {1, 1.1, 1.1, 1}, {"4: 201-3200 tree/ll"}},
        {"gain_in_doubt_at_the_second",
         {1.1, 1.019, 1, 1},
         {"4: 100-200 tree/ll"}},
    };
    const uint64_t sizes[] = {100, 400, 1600, 6400};

    for (const ReachCase &c : cases) {
        SCOPED_TRACE(c.name);
        Data d;
        for (size_t i = 0; i < 4; i++)
            d.AddAuto(sizes[i]).AddGain(sizes[i], kTreeLl, c.gains[i]);
        EXPECT_EQ(c.want, Rules(d, {0.02, false, true}));
    }
}

TEST(DeriveTerms, DoesNotExtrapolateBetweenArms)
{
    Data d;
    d.AddAuto(100).AddGain(100, kTreeLl, 1.1);
    d.AddAuto(400).AddGain(400, kRingLl128, 1.1);

    EXPECT_THAT(Rules(d, {0.02, false, true}),
                ElementsAre("4: 100-200 tree/ll", "4: 201-400 ring/ll128"));
}

TEST(DeriveTerms, EveryNumberOfRanksHasRulesOfItsOwn)
{
    Data d;
    d.AddAuto(100).AddGain(100, kTreeLl, 1.1);
    d.AddAuto(400).AddGain(400, kTreeLl, 1.1);
    AddChanged(&d, [](stp_measurement *m) {
        m->n_ranks = 8;
        m->us.median = m->n_bytes == 100 ? 100 : m->us.median;
        m->n_bytes *= 2;
    });

    EXPECT_THAT(Rules(d, {0.02, false, false}),
                ElementsAre("4: 100-400 tree/ll", "8: 401-800 tree/ll"));
    EXPECT_THAT(Rules(d, {0.02, false, true}),
                ElementsAre("4: 0-inf tree/ll", "8: 401-800 tree/ll"));
}

// ---- steadiness ----

stp_steadiness Steadiness(const Data &d)
{
    Compared c(d);
    stp_steadiness s{};
    EXPECT_EQ(STP_OK, stp_steadiness_of(&c.all, &c.all, &s, nullptr));
    return s;
}

TEST(Steadiness, CountsRoundsSpreadAndDriftOfAuto)
{
    Data d;
    d.Add(100, kAuto, {100, 100, 100, 100, 100, 100});
    d.Add(200, kAuto, {90, 90, 100, 100, 110, 110}); // a third is two rounds
    d.Add(400, kAuto, {110, 100, 90});
    d.Add(400, kAutoAgain, {1, 100, 10000});

    stp_steadiness s = Steadiness(d);

    EXPECT_EQ(3u, s.min_rounds);
    EXPECT_EQ(6u, s.max_rounds);
    EXPECT_NEAR(std::sqrt(80) / 100, s.spread, 1e-12);
    EXPECT_NEAR(0.1, s.worst_spread, 1e-12);
    EXPECT_NEAR(0, s.drift, 1e-12);
    EXPECT_NEAR(110.0 / 90 - 1, s.worst_drift, 1e-12);
}

TEST(Steadiness, DriftTakesThreeRounds)
{
    Data d;
    d.Add(100, kAuto, {100, 200});

    EXPECT_TRUE(std::isnan(Steadiness(d).drift));

    d.Add(200, kAuto, {100, 150, 104});
    EXPECT_NEAR(0.04, Steadiness(d).drift, 1e-12);
}

TEST(Steadiness, ResolvesWhatATypicalArmsIntervalDoes)
{
    // logarithms of gains -e, 0, e: scatter e, interval 4.3027 e / sqrt(3)
    const double e = 0.01;
    const double half = 4.3027 * e / std::sqrt(3);
    Data d;
    d.AddAuto(100).AddAuto(200).AddAuto(400);
    for (uint64_t size : {100, 200, 400}) {
        const double scatter = size == 100 ? 0 : size == 200 ? e : 9;
        d.Add(size, kTreeLl,
              {100 * std::exp(scatter), 100, 100 * std::exp(-scatter)});
    }

    stp_steadiness s = Steadiness(d);

    EXPECT_NEAR(e, s.scatter, 1e-9);
    EXPECT_NEAR(std::exp(half) - 1, s.resolved, 1e-9);
    EXPECT_TRUE(stp_is_noisy(&s, 0.02));
    EXPECT_FALSE(stp_is_noisy(&s, 0.03));
}

TEST(Steadiness, OneRoundResolvesNothing)
{
    Data d;
    d.Add(100, kAuto, {100}).Add(100, kTreeLl, {50});

    stp_steadiness s = Steadiness(d);

    EXPECT_EQ(kInf, s.resolved);
    EXPECT_TRUE(stp_is_noisy(&s, 0.5));
    EXPECT_EQ(0u, stp_rounds_for(&s, 0.5));
}

struct RoundsCase {
    double scatter;
    double min_gain;
    size_t want;
};

TEST(Steadiness, SaysHowManyRoundsWouldDo)
{
    const RoundsCase cases[] = {
        {0, 0.02, 2},
        // t(0.975, 3) / sqrt(4) = 1.5912; of 3 rounds 2.4842
        {0.0198 / 1.60, 0.02, 4},
        {0.0198 / 1.58, 0.02, 5},
        // the normal distribution's: (1.96 * 10)^2 and a bit
        {0.198, 0.02, 387},
        {1e6, 0.02, 0},
    };

    for (const RoundsCase &c : cases) {
        stp_steadiness s{};
        s.scatter = c.scatter;
        EXPECT_EQ(c.want, stp_rounds_for(&s, c.min_gain)) << c.scatter;
    }
}

} // namespace
