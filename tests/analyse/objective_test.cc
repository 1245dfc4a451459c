// Which measurements a policy is derived from, and how workloads are pooled.
#include <gmock/gmock.h>

extern "C" {
#include "analyse/derive.h"
#include "analyse/objective.h"
}

#include "nccl_tuner_abi.h"
#include "support/measured_data.h"
#include "support/owned.h"

using namespace measured;

namespace
{

using testing::ElementsAre;
using testing::IsEmpty;

constexpr stp_arm kSimple{STP_ARM_FORCED, STP_ANY, NCCL_PROTO_SIMPLE, 0, 0, {}};
constexpr stp_workload kSequential{
    STP_MODE_SEQUENTIAL, 0, 1, 1, {}, 10, nullptr};
constexpr stp_workload kOverlap{STP_MODE_OVERLAP, 0, 8, 1, {}, 10, nullptr};
constexpr stp_workload kDeep{STP_MODE_OVERLAP, 0, 32, 0.5, {}, 20, nullptr};
constexpr stp_workload kFsdp{STP_MODE_FSDP, 0, 8, 1, {}, 10, nullptr};

// Makes all rows that are not yet of a workload those of this one.
Data &Of(Data &d, const stp_workload &work)
{
    for (size_t i = 0; i < d.data.n_rows; i++)
        if (d.data.rows[i].work.mode == STP_MODE_ALONE)
            d.data.rows[i].work = work;
    return d;
}

class Objective : public testing::Test
{
  protected:
    stp_status Select(const Data &d, stp_objective objective)
    {
        stp_dataset_free(&selected_);
        return stp_objective_select(&d.data, objective, &selected_, &err_);
    }

    const stp_comparisons &Compare(const Data &d)
    {
        stp_comparisons_free(&all_);
        EXPECT_EQ(STP_OK, Select(d, STP_OBJECTIVE_ITERATION)) << err_.text;
        EXPECT_EQ(STP_OK,
                  stp_objective_compare(&selected_, STP_OBJECTIVE_ITERATION,
                                        &all_, &err_))
            << err_.text;
        return all_;
    }

    // "COLLECTIVE MIN-MAX ARM" a rule.
    std::vector<std::string> Rules(const Data &d)
    {
        return measured::Rules(Compare(d),
                               {0.02,
                                false,
                                false,
                                false,
                                STP_POLICY_OF_ARMS,
                                nullptr,
                                nullptr,
                                {}},
                               [](const stp_derived_rule &r) {
                                   return std::to_string(r.coll) + " ";
                               });
    }

    Owned<stp_dataset, stp_dataset_free> selected_;
    Owned<stp_comparisons, stp_comparisons_free> all_;
    stp_error err_{};
};

// ---- selecting ----
TEST_F(Objective, ArmsBecomeThePairThatNcclRan)
{
    const int any = STP_ANY;
    const struct {
        stp_arm arm;
        int ran_algo, ran_proto;
        const char *name; // "": left out
    } cases[] = {
        // clang-format off
        {kSimple, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, "ring/simple"},
        {kSimple, any, NCCL_PROTO_SIMPLE, ""},
        {{STP_ARM_FORCED, any, NCCL_PROTO_LL, 8, 0, {}}, NCCL_ALGO_TREE, NCCL_PROTO_LL, "tree/ll/8"},
        {{STP_ARM_FORCED, NCCL_ALGO_NVLS, any, 0, 0, {}}, NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, "nvls/simple"},
        {{STP_ARM_FORCED, any, any, 16, 0, {}}, NCCL_ALGO_RING, NCCL_PROTO_LL128, "ring/ll128/16"},
        {{STP_ARM_FORCED, any, any, 16, 0, {}}, NCCL_ALGO_RING, any, ""},
        {kTreeLl, any, any, "tree/ll"},
        {kPlugin, NCCL_ALGO_RING, NCCL_PROTO_LL, "plugin"},
        // clang-format on
    };

    for (stp_objective objective :
         {STP_OBJECTIVE_TIME, STP_OBJECTIVE_ITERATION})
        for (const auto &c : cases) {
            SCOPED_TRACE(c.name);
            Data d;
            d.Add(1, kAuto, {9}).Add(1, c.arm, {9});
            d.data.rows[1].ran_algo = c.ran_algo;
            d.data.rows[1].ran_proto = c.ran_proto;
            if (objective == STP_OBJECTIVE_ITERATION)
                Of(d, kOverlap);
            ASSERT_EQ(STP_OK, Select(d, objective));
            ASSERT_EQ(c.name[0] ? 2u : 1u, selected_.n_rows);
            char name[STP_ARM_NAME] = "";
            if (selected_.n_rows == 2)
                stp_arm_name(&selected_.rows[1].arm, name);
            EXPECT_STREQ(c.name, name);
        }
}

TEST(Derive, KnowsNoRuleForAnArmThatIsNoPair)
{
    Data d;
    d.AddAuto(1).AddGain(1, kSimple, 1.5);
    Compared c(d);
    stp_derived derived{};

    stp_derive_terms terms{};
    terms.min_gain = 0.02;
    ASSERT_EQ(STP_OK, stp_derive_on(&c.all, &terms, &derived, nullptr));

    EXPECT_EQ(0u, derived.n_rules);
    stp_derived_free(&derived);
}

// ---- pooling ----

TEST_F(Objective, PoolsThePairsOfAllWorkloads)
{
    Data d; // round 0 of one has nothing to do with round 0 of the other
    Of(d.Add(1, kAuto, {100, 200}).Add(1, kTreeLl, {80, 170}), kOverlap);
    Of(d.Add(1, kAuto, {10, 30, 20}).Add(1, kTreeLl, {9, 26, 15}), kDeep);
    const double base[] = {100, 200, 10, 30, 20};
    const double times[] = {80, 170, 9, 26, 15};
    const stp_gain want = stp_paired_gain(base, times, 5);

    const stp_comparisons &all = Compare(d);

    ASSERT_EQ(1u, all.n_points);
    EXPECT_EQ(STP_MODE_ALONE, all.points[0].work.mode);
    EXPECT_DOUBLE_EQ(72, all.points[0].auto_us);
    ASSERT_EQ(1u, all.points[0].n_arms);
    EXPECT_DOUBLE_EQ(60, all.points[0].arms[0].us);
    EXPECT_NEAR(want.gain, all.points[0].arms[0].gain.gain, 1e-12);
    EXPECT_NEAR(want.low, all.points[0].arms[0].gain.low, 1e-12);
    EXPECT_NEAR(want.high, all.points[0].arms[0].gain.high, 1e-12);
    EXPECT_EQ(5u, all.points[0].arms[0].gain.n_pairs);
}

TEST_F(Objective, AnArmThatLosesInOneWorkloadIsNone)
{
    // clang-format off
    const struct {
        const char *what;
        void (*fill)(Data &);
        std::vector<std::string> rules;
    } cases[] = {
        {"one workload", [](Data &d) {
             Of(d.AddAuto(1).AddGain(1, kTreeLl, 3).AddGain(1, kRingLl128, 1.05), kOverlap);
         }, {"1-1 tree/ll"}},
        {"another, in which it loses", [](Data &d) {
             Of(d.AddAuto(1).AddGain(1, kTreeLl, 3).AddGain(1, kRingLl128, 1.05), kOverlap);
             Of(d.AddAuto(1).AddGain(1, kTreeLl, 0.9).AddGain(1, kRingLl128, 1.05), kSequential);
         }, {"1-1 ring/ll128"}},
        {"within noise of 3 percent of the second's AUTO", [](Data &d) {
             Of(d.Add(1, kAuto, std::vector<double>(9, 150)).Add(1, kTreeLl, std::vector<double>(9, 100)),
                kOverlap);
             Of(d.Add(1, kAuto, {97, 100, 103}).Add(1, kTreeLl, {100, 103.1, 106.2}), kSequential);
         }, {"1-1 tree/ll"}},
        {"7 percent slower", [](Data &d) {
             Of(d.Add(1, kAuto, std::vector<double>(9, 150)).Add(1, kTreeLl, std::vector<double>(9, 100)),
                kOverlap);
             Of(d.Add(1, kAuto, {97, 100, 103}).Add(1, kTreeLl, {104, 107.2, 110.4}), kSequential);
         }, {}},
        {"as on 2 x H200: 8 percent slower, in rounds that leave 17 or none open", [](Data &d) {
             Of(d.Add(1, kAuto, std::vector<double>(9, 150)).Add(1, kTreeLl, std::vector<double>(9, 100)),
                kOverlap);
             Of(d.Add(1, kAuto, {606, 605, 606}).Add(1, kTreeLl, {682, 632, 673}), kDeep);
         }, {}},
        {"at its size only", [](Data &d) {
             for (uint64_t size : {100, 400, 1600})
                 d.AddAuto(size).AddGain(size, kTreeLl, 2);
             Of(d, kOverlap);
             Of(d.AddAuto(400).AddGain(400, kTreeLl, 0.9), kDeep);
         }, {"100-200 tree/ll", "801-1600 tree/ll"}},
        {"the whole interval is wanted: of 1.3 and 1 from 0.98 to 1.33", [](Data &d) {
             Of(d.AddAuto(1).AddGain(1, kTreeLl, 1.3), kOverlap);
             Of(d.AddAuto(1).AddGain(1, kTreeLl, 1), kSequential);
         }, {}},
    };
    // clang-format on

    for (const auto &c : cases) {
        Data d;
        std::vector<std::string> rules;

        c.fill(d);
        for (const std::string &rule : c.rules)
            rules.push_back(std::to_string(ncclFuncAllReduce) + " " + rule);
        EXPECT_EQ(rules, Rules(d)) << c.what;
    }
}

TEST_F(Objective, FsdpMakesRulesForBothItsCollectives)
{
    const std::string gather = std::to_string(ncclFuncAllGather);
    const std::string scatter = std::to_string(ncclFuncReduceScatter);
    Data d;
    d.Add(1, kAuto, {100, 100}, STP_SOURCE_MEASURED, ncclFuncAllGather);
    d.Add(1, kTreeLl, {50, 50}, STP_SOURCE_MEASURED, ncclFuncAllGather);
    Of(d, kFsdp);

    EXPECT_THAT(Rules(d),
                ElementsAre(gather + " 1-1 tree/ll", scatter + " 1-1 tree/ll"));

    // of one of them another workload is against it
    d.Add(1, kAuto, {9, 9}, STP_SOURCE_MEASURED, ncclFuncReduceScatter);
    d.Add(1, kTreeLl, {10, 10}, STP_SOURCE_MEASURED, ncclFuncReduceScatter);
    EXPECT_THAT(Rules(Of(d, kOverlap)), ElementsAre(gather + " 1-1 tree/ll"));

    // the all-gather ran it without a rule
    for (size_t i = 2; i < 4; i++) {
        d.data.rows[i].ran_algo = NCCL_ALGO_RING;
        d.data.rows[i].ran_proto = NCCL_PROTO_SIMPLE;
    }
    d.data.n_rows = 4;
    EXPECT_THAT(Rules(d), ElementsAre(scatter + " 1-1 tree/ll"));
}
// ---- what to register ----

// "BYTES: AUTO us, ARM GAIN" a point.
std::vector<std::string> Registered(const Data &d, bool overlaps)
{
    std::vector<std::string> points;
    stp_comparisons all{};
    stp_error err;

    EXPECT_EQ(STP_OK,
              stp_compare_registered(&d.data, &d.data, overlaps, &all, &err))
        << err.text;
    for (size_t i = 0; i < all.n_points; i++) {
        const stp_point &p = all.points[i];
        char text[64];
        snprintf(text, sizeof(text), "%d: %.0f us", (int)p.n_bytes, p.auto_us);
        points.push_back(text);
        for (size_t a = 0; a < p.n_arms; a++) {
            snprintf(text, sizeof(text), ", %s %.2f",
                     Name(p.arms[a].arm).c_str(), p.arms[a].gain.gain);
            points.back() += text;
        }
    }
    stp_comparisons_free(&all);
    return points;
}

// Sym is 1.5 times as fast alone, and twice behind 10 us of compute.
Data &AddAloneAndSequential(Data &d, const stp_workload &work = kSequential)
{
    for (uint64_t size : {200, 800})
        d.Add(size, kAuto, {110, 110})
            .Add(size, kSym, {60, 60})
            .Add(size, kTreeLl, {90, 90});
    Of(d, work);
    for (uint64_t size : {100, 400, 1600})
        d.AddAuto(size).AddGain(size, kSym, 1.5);
    return d;
}

TEST(CompareRegistered, BehindComputeCountsBeforeBackToBack)
{
    Data d;

    EXPECT_THAT(Registered(AddAloneAndSequential(d), false),
                ElementsAre("100: 100 us, sym 1.50",
                            "200: 100 us, tree/ll 1.25, sym 2.00",
                            "800: 100 us, tree/ll 1.25, sym 2.00",
                            "1600: 100 us, sym 1.50"));
    EXPECT_THAT(Registered(d, true), IsEmpty());

    constexpr stp_workload two_layers{
        STP_MODE_SEQUENTIAL, 0, 2, 1, {}, 5, nullptr};
    Data halves; // a collective's part
    EXPECT_EQ("200: 50 us, tree/ll 1.25, sym 2.00",
              Registered(AddAloneAndSequential(halves, two_layers), false)[1]);
}

TEST(CompareRegistered, PairsEachWorkloadWithItself)
{
    constexpr stp_workload half{STP_MODE_SEQUENTIAL, 0, 1, 0.5, {}, 5, nullptr};
    Data d;
    Of(d.Add(1, kAuto, {105, 205}).Add(1, kSym, {55, 105}), half);
    Of(d.Add(1, kAuto, {50, 30}).Add(1, kSym, {30, 20}), kSequential);

    EXPECT_THAT(Registered(d, false), ElementsAre("1: 90 us, sym 2.00"));
}

TEST(CompareRegistered, LeavesOutWhatSaysNothing)
{
    const std::vector<std::string> alone = {"100: 100 us, sym 1.50",
                                            "400: 100 us, sym 1.50",
                                            "1600: 100 us, sym 1.50"};
    const struct {
        const char *name;
        void (*change)(stp_measurement *row);
    } cases[] = {
        {"modelled",
         [](stp_measurement *m) { m->source = STP_SOURCE_MODELLED; }},
        {"another type", [](stp_measurement *m) { m->type = STP_TYPE_F16; }},
        {"no compute", [](stp_measurement *m) { m->work.compute_us = 0; }},
        {"less than compute", [](stp_measurement *m) { m->us.median = 9; }},
        {"a trace", [](stp_measurement *m) { m->work.mode = STP_MODE_TRACE; }},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Data d;
        AddAloneAndSequential(d);
        for (size_t i = 0; i < d.data.n_rows; i++)
            if (d.data.rows[i].work.mode == STP_MODE_SEQUENTIAL)
                c.change(&d.data.rows[i]);
        EXPECT_EQ(alone, Registered(d, false));
    }
}

TEST(CompareRegistered, OverlappedIterationsAreTheOthers)
{
    Data d;
    Of(d.Add(1, kAuto, {100, 100}).Add(1, kSym, {80, 80}), kOverlap);
    AddAloneAndSequential(d);

    EXPECT_THAT(Registered(d, true), ElementsAre("1: 100 us, sym 1.25"));
    EXPECT_EQ(4u, Registered(d, false).size());
}

// ---- workloads ----
} // namespace
