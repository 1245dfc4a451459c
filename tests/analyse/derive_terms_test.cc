// On what terms comparisons become rules, and how steady they were.
#include <gmock/gmock.h>

#include <cmath>

extern "C" {
#include "analyse/derive.h"
#include "analyse/steadiness.h"
}

#include "support/measured_data.h"
#include "support/with_param.h"

using namespace measured;

namespace
{

using testing::ElementsAre;

// "RANKS: MIN-MAX ALGO/PROTO" a rule.
std::vector<std::string> Rules(const Data &data, const stp_derive_terms &terms)
{
    return measured::Rules(Compared(data).all, terms,
                           [](const stp_derived_rule &r) {
                               return std::to_string(r.n_ranks) + ": ";
                           });
}

constexpr stp_derive_terms kPlain{
    0.02, false, false, false, STP_POLICY_OF_ARMS, nullptr, nullptr, {}};

// Gains over AUTO's 100 us, in rounds without error; 0: not measured.
struct SizeRow {
    uint64_t n_bytes;
    double tree, ring; // of tree/ll and ring/ll128
};

struct GainCase {
    const char *name;
    std::vector<SizeRow> sizes;
    std::vector<std::string> want;
    stp_derive_terms terms = kPlain;
};

using DeriveGains = testing::TestWithParam<GainCase>;

TEST_P(DeriveGains, BecomeRules)
{
    const GainCase &c = GetParam();
    Data d;

    for (const SizeRow &size : c.sizes) {
        d.AddAuto(size.n_bytes);
        if (size.tree != 0)
            d.AddGain(size.n_bytes, kTreeLl, size.tree);
        if (size.ring != 0)
            d.AddGain(size.n_bytes, kRingLl128, size.ring);
    }

    EXPECT_EQ(c.want, Rules(d, c.terms));
}

// Four sizes of tree/ll, on terms that extrapolate.
GainCase Reach(const char *name, std::vector<double> gains,
               std::vector<std::string> want)
{
    return {
        name,
        {{100, gains[0], 0},
         {400, gains[1], 0},
         {1600, gains[2], 0},
         {6400, gains[3], 0}},
        std::move(want),
        {0.02, false, false, true, STP_POLICY_OF_ARMS, nullptr, nullptr, {}}};
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Table, DeriveGains, testing::Values(
    GainCase{"halfway_to_the_neighbours_and_not_beyond", {{100, 1.1, 0}, {400, 1, 0}, {1600, 0, 1.2}},
             {"4: 100-200 tree/ll", "4: 801-1600 ring/ll128"}},
    GainCase{"neighbours_with_the_same_arm", {{100, 1.1, 0}, {400, 1.1, 0}, {1600, 1.1, 0}, {6400, 1, 0}},
             {"4: 100-3200 tree/ll"}},
    GainCase{"goes_on_where_it_is_faster_by_less", {{100, 1.01, 0}, {400, 1.1, 0}, {1600, 1.01, 0}, {6400, 1, 0}},
             {"4: 100-3200 tree/ll"}},
    GainCase{"does_not_go_on_past_another_rule", {{100, 1.1, 0}, {400, 1.01, 1.1}, {1600, 1.01, 0}},
             {"4: 100-200 tree/ll", "4: 201-800 ring/ll128"}},
    GainCase{"only_as_far_as_the_interpolated_gain", {{100, 0.5, 0}, {1600, 2, 0}, {25600, 0.125, 0}},
             {"4: 401-3200 tree/ll"}},
    GainCase{"another_rule_after_a_gap", {{100, 1.1, 0}, {400, 1, 0}, {1600, 1.1, 0}},
             {"4: 100-200 tree/ll", "4: 801-1600 tree/ll"}},
    GainCase{"the_largest_gain", {{100, 1.1, 1.2}}, {"4: 100-100 ring/ll128"}},
    GainCase{"the_arm_of_the_size_before_if_as_good", {{100, 1.1, 0}, {400, 1.1, 1.104}},
             {"4: 100-400 tree/ll"}},
    GainCase{"another_arm_if_clearly_better", {{100, 1.1, 0}, {400, 1.1, 1.12}},
             {"4: 100-200 tree/ll", "4: 201-400 ring/ll128"}},
    GainCase{"below_the_least_gain", {{100, 1.019, 0}}, {}},
    GainCase{"above_the_least_gain", {{100, 1.021, 0}}, {"4: 100-100 tree/ll"}},
    GainCase{"below_another_least_gain", {{100, 1.021, 0}}, {}, {0.03, false, false, false, STP_POLICY_OF_ARMS, nullptr, nullptr, {}}},
    GainCase{"no_least_gain", {{100, 1.001, 0}}, {"4: 100-100 tree/ll"}, {0, false, false, false, STP_POLICY_OF_ARMS, nullptr, nullptr, {}}},
    Reach("both_ends", {1.1, 1.1, 1.1, 1.1}, {"4: 0-inf tree/ll"}),
    Reach("low_end", {1.1, 1.1, 1, 1}, {"4: 0-800 tree/ll"}),
    Reach("high_end", {1, 1, 1.1, 1.1}, {"4: 801-inf tree/ll"}),
    Reach("one_size_at_each", {1.1, 1, 1, 1.1}, {"4: 100-200 tree/ll", "4: 3201-6400 tree/ll"}),
    Reach("middle", {1, 1.1, 1.1, 1}, {"4: 201-3200 tree/ll"}),
    Reach("gain_in_doubt_at_the_second", {1.1, 1.019, 1, 1}, {"4: 100-800 tree/ll"}),
    GainCase{"no_reach_between_arms", {{100, 1.1, 0}, {400, 0, 1.1}},
             {"4: 100-200 tree/ll", "4: 201-400 ring/ll128"}, {0.02, false, false, true, STP_POLICY_OF_ARMS, nullptr, nullptr, {}}}),
    CaseName());
// clang-format on

// NCCL runs tree/ll by itself at 100 and at 1600.
TEST(DeriveTerms, ReachesUpToWhereNcclRunsTheArmItself)
{
    struct Case {
        int n_channels;    // of the rule's arm
        double neighbours; // gain there of another arm
        std::vector<std::string> want;
    } cases[] = {
        {0, 1, {"4: 101-1599 tree/ll"}},
        {24, 1, {"4: 101-1599 tree/ll/24"}},
        {8, 1, {"4: 201-800 tree/ll/8"}},
        {0,
         1.13,
         {"4: 100-200 ring/ll128", "4: 201-800 tree/ll",
          "4: 801-1600 ring/ll128"}},
    };
    for (const Case &c : cases) {
        Data d;
        stp_arm arm = kTreeLl;

        arm.n_channels = c.n_channels;
        for (uint64_t size : {100, 400, 1600})
            d.AddAuto(size)
                .AddGain(size, arm, size == 400 ? 1.1 : 1)
                .AddGain(size, kRingLl128, size == 400 ? 1 : c.neighbours);
        for (size_t i = 0; i < d.data.n_rows; i++) {
            stp_measurement *m = &d.data.rows[i];
            if (m->n_bytes != 400 && m->arm.kind == STP_ARM_AUTO) {
                m->ran_algo = NCCL_ALGO_TREE;
                m->ran_proto = NCCL_PROTO_LL;
            }
        }
        EXPECT_EQ(c.want, Rules(d, kPlain)) << c.n_channels;
    }
}

TEST(DeriveTerms, NcclsOwnChoiceByAnotherNameIsNoGain)
{
    Data d;
    d.AddAuto(100).AddGain(100, kRingSimple, 1.5);
    EXPECT_THAT(Rules(d, kPlain), ElementsAre());

    for (size_t i = 3; i < 6; i++)
        d.data.rows[i].ran_channels = 8;
    EXPECT_THAT(Rules(d, kPlain), ElementsAre("4: 100-100 ring/simple"));
}

// And unless captured iterations are to say what is left of it; what is not
// enough is not sure.
TEST(DeriveTerms, AskMoreOverAllReducesOfLlUnlessByLl)
{
    constexpr uint64_t kBytes = 1 << 20;
    const struct {
        int coll;
        stp_arm arm;
        double gain;
        stp_range captured;
        size_t n_rules;
        bool is_unsure;
    } cases[] = {
        {ncclFuncAllReduce, kRingLl128, 1.10, {}, 0, true},
        {ncclFuncAllReduce, kRingLl128, 1.10, {kBytes, kBytes}, 1, false},
        {ncclFuncAllReduce, kRingLl128, 1.10, {1, kBytes - 1}, 0, true},
        {ncclFuncAllReduce, kRingLl128, 1.10, {kBytes + 1, 1 << 30}, 0, true},
        {ncclFuncAllReduce, kRingLl128, 1.01, {}, 0, false},
        {ncclFuncAllReduce, kRingLl128, 1.15, {}, 1, false},
        {ncclFuncAllReduce, kTreeLl, 1.10, {}, 1, false},
        {ncclFuncAllGather, kRingLl128, 1.10, {}, 1, false}};

    for (const auto &c : cases) {
        const double us = 100 / c.gain;
        stp_derive_terms terms = kPlain;
        Data d;
        d.Add(kBytes, kAuto, {100, 100, 100}, STP_SOURCE_MEASURED, c.coll);
        for (size_t i = 0; i < d.data.n_rows; i++)
            d.data.rows[i].ran_proto = NCCL_PROTO_LL;
        d.Add(kBytes, c.arm, {us, us, us}, STP_SOURCE_MEASURED, c.coll);
        terms.captured = c.captured;
        Compared compared(d);

        EXPECT_EQ(c.n_rules, Rules(d, terms).size())
            << c.coll << " " << c.gain << " " << c.captured.min;
        EXPECT_EQ(c.is_unsure,
                  stp_derive_unsure(compared.all.points, &terms) != nullptr)
            << c.coll << " " << c.gain << " " << c.captured.min;
    }
}

TEST(DeriveTerms, DecidesByTimesThatLeaveNoDoubt)
{
    const stp_source live = STP_SOURCE_MEASURED;
    const stp_source model = STP_SOURCE_MODELLED;
    const struct {
        std::vector<double> us; // AUTO takes 100
        stp_source source;
        bool single_pass;
        bool trust;
        size_t n_rules;
    } cases[] = {
        {{50, 50, 50}, live, false, false, 1},
        {{50}, live, false, false, 0}, // no interval
        // means 1.05, and the interval goes down to about 0.93
        {{100 / 1.05, 100 / 1.10, 100}, live, false, false, 0},
        {{50, 50, 50}, live, true, false, 0},
        {{50, 50, 50}, live, true, true, 1},
        {{50, 50}, live, true, true, 0},
        {{50}, live, true, true, 0},
        {{50, 150, 50}, live, true, true, 0}, // noise
        {{50, 50, 50}, STP_SOURCE_RECORDED, false, false, 1},
        {{50, 50, 50}, STP_SOURCE_INTERPOLATED, false, false, 1},
        {{50, 50, 50}, STP_SOURCE_VIRTUAL, false, false, 1},
        {{50, 50, 50}, STP_SOURCE_VIRTUAL, true, false, 0},
        {{50, 50, 50}, model, false, false, 0},
        {{50, 50, 50}, model, false, true, 0},
        {{50, 50, 50}, model, true, true, 0},
    };

    for (const auto &c : cases) {
        Data d;
        d.single_pass = c.single_pass;
        d.Add(64, kAuto, std::vector<double>(c.us.size(), 100),
              c.source == model ? live : c.source);
        d.Add(64, kTreeLl, c.us, c.source);
        EXPECT_EQ(c.n_rules, Rules(d, {0.02,
                                       c.trust,
                                       false,
                                       false,
                                       STP_POLICY_OF_ARMS,
                                       nullptr,
                                       nullptr,
                                       {}})
                                 .size())
            << c.us.size() << " of source " << stp_source_name(c.source)
            << ", single pass " << c.single_pass << ", trusted " << c.trust;
    }
}

TEST(DeriveTerms, EveryCollectiveAndNumberOfRanksHasRulesOfItsOwn)
{
    Data d;
    d.AddAuto(100).AddGain(100, kTreeLl, 1.1);
    d.AddAuto(400).AddGain(400, kTreeLl, 1.1);
    AddChanged(&d, [](stp_measurement *m) {
        m->n_ranks = 8;
        m->us.median = m->n_bytes == 100 ? 100 : m->us.median;
        m->n_bytes *= 2;
    });

    EXPECT_THAT(Rules(d, kPlain),
                ElementsAre("4: 100-400 tree/ll", "8: 401-800 tree/ll"));
    EXPECT_THAT(Rules(d, {0.02,
                          false,
                          false,
                          true,
                          STP_POLICY_OF_ARMS,
                          nullptr,
                          nullptr,
                          {}}),
                ElementsAre("4: 0-inf tree/ll", "8: 401-800 tree/ll"));
    d.Add(9, kAuto, {9, 9}, STP_SOURCE_MEASURED, ncclFuncReduceScatter);
    d.Add(9, kTreeLl, {8, 8}, STP_SOURCE_MEASURED, ncclFuncReduceScatter);
    EXPECT_THAT(Rules(d, kPlain),
                ElementsAre("4: 9-9 tree/ll", "4: 100-400 tree/ll",
                            "8: 401-800 tree/ll"));
}

TEST(DeriveTerms, InPlaceDecidesOnlyWhereNothingWasMeasuredOutOfPlace)
{
    Data d;
    d.AddAuto(1024).AddGain(1024, kTreeLl, 1.5);
    AddChanged(&d, [](stp_measurement *m) {
        m->in_place = true;
        m->n_bytes *= 4;
    });

    EXPECT_THAT(Rules(d, kPlain), ElementsAre("4: 1024-1024 tree/ll"));

    for (size_t i = 0; i < d.data.n_rows; i++)
        d.data.rows[i].in_place = true;
    EXPECT_THAT(Rules(d, kPlain), ElementsAre("4: 1024-4096 tree/ll"));
}

TEST(DeriveTerms, RefusesWhatNoRuleCanTellApart)
{
    Data d;
    d.AddAuto(1024).AddGain(1024, kTreeLl, 1.5);
    AddChanged(&d, [](stp_measurement *m) { m->type = 7; });
    Compared c(d);
    stp_derived out{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_RANGE, stp_derive_on(&c.all, &kPlain, &out, &err));

    EXPECT_STREQ(
        "allreduce was measured with several types, operations or "
        "roots, or both in and without CUDA graphs, expected one of each: no "
        "rule can tell them apart",
        err.text);
    EXPECT_EQ(nullptr, out.rules);
}

// ---- steadiness ----

stp_steadiness Steadiness(const Data &d)
{
    Compared c(d);
    return stp_steadiness_of(&c.all, &c.all);
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

    Data few; // drift takes three rounds
    few.Add(100, kAuto, {100, 200});
    EXPECT_TRUE(std::isnan(Steadiness(few).drift));
    few.Add(200, kAuto, {100, 150, 104});
    EXPECT_NEAR(0.04, Steadiness(few).drift, 1e-12);
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
    EXPECT_FALSE(stp_is_noisy(&s, s.resolved - 1e-6)); // told as equal
    EXPECT_FALSE(stp_is_noisy(&s, 0.03));
}
TEST(Steadiness, SaysHowManyRoundsWouldDo)
{
    const struct {
        double scatter, min_gain;
        size_t want;
    } cases[] = {
        {0, 0.02, 2},
        // t(0.975, 3) / sqrt(4) = 1.5912; of 3 rounds 2.4842
        {0.0198 / 1.60, 0.02, 4},
        {0.0198 / 1.58, 0.02, 5},
        // the normal distribution's: (1.96 * 10)^2 and a bit
        {0.198, 0.02, 387},
        {1e6, 0.02, 0},
    };

    for (const auto &c : cases) {
        stp_steadiness s{};
        s.scatter = c.scatter;
        EXPECT_EQ(c.want, stp_rounds_for(&s, c.min_gain)) << c.scatter;
    }
}

} // namespace
