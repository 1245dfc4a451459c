// From comparisons to rules and verdicts, by hand-made numbers.
#include <gmock/gmock.h>

#include <cmath>
#include <memory>

extern "C" {
#include "analyse/derive.h"
#include "analyse/overlap.h"
#include "analyse/verify.h"
#include "report/results/tune_report.h"
}

#include "nccl_tuner_abi.h"
#include "support/measured_data.h"

using namespace measured;

namespace
{

using testing::ElementsAre;

TEST(Regret, ComparesThePolicyWithTheBestArmOfEachSize)
{
    Data d;
    d.AddAuto(100).AddGain(100, kTreeLl, 1.1);       // taken
    d.AddAuto(400).AddGain(400, kRingLl128, 1.015);  // left: too little
    d.AddAuto(1600).AddGain(1600, kRingSimple, 1.3); // AUTO by another name
    Compared c(d);
    stp_derived derived{};
    stp_derive_terms terms{};
    terms.min_gain = 0.02;
    ASSERT_EQ(STP_OK, stp_derive_on(&c.all, &terms, &derived, nullptr));

    stp_regret r = stp_policy_regret(&c.all, &derived);

    EXPECT_NEAR(1.015, r.worst, 1e-9);
    EXPECT_NEAR(std::cbrt(1.015), r.mean, 1e-9);
    stp_derived_free(&derived);
}

// ---- verify ----

TEST(Verify, JudgesAPoint)
{
    const int simple = NCCL_PROTO_SIMPLE;
    const int ll128 = NCCL_PROTO_LL128;
    const struct {
        const char *name;
        std::vector<double> auto_us, tuned_us;
        int ran_proto; // AUTO runs ring/simple
        stp_verdict want;
    } cases[] = {
        // clang-format off
        {"faster", {100, 101, 99}, {90, 91, 89}, ll128, STP_VERDICT_FASTER},
        {"same_choice_however_timed", {100, 101, 99}, {120, 121, 119}, simple, STP_VERDICT_SAME},
        {"interval_holds_one", {100, 100, 100}, {95, 105, 100}, ll128, STP_VERDICT_UNSURE},
        {"slower", {100, 100.1, 99.9}, {105, 105.1, 104.9}, ll128, STP_VERDICT_SLOWER},
        {"loss_within_autos_own_noise", {100, 110, 90}, {101, 111.1, 90.9}, ll128, STP_VERDICT_UNSURE},
        // clang-format on
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Data d;
        d.Add(100, kAuto, c.auto_us).Add(100, kPlugin, c.tuned_us);
        for (size_t i = c.auto_us.size(); i < d.data.n_rows; i++)
            d.data.rows[i].ran_proto = c.ran_proto;
        Compared compared(d);
        EXPECT_EQ(c.want, stp_verify_point(&compared.all.points[0]));
    }
    Data d; // another channel count is another choice
    d.Add(100, kAuto, {100, 100, 100}).Add(100, kPlugin, {120, 120, 120});
    for (size_t i = 3; i < 6; i++)
        d.data.rows[i].ran_channels = 1;
    EXPECT_EQ(STP_VERDICT_SLOWER, stp_verify_point(&Compared(d).all.points[0]));
}

// Modelled rounds have no interval, but no noise either.
TEST(Verify, JudgesModelledTimesByTheModelAlone)
{
    const struct {
        const char *name;
        stp_source auto_source, source;
        std::vector<double> tuned_us; // AUTO takes 100
        stp_verdict want;
        const char *words;
    } cases[] = {
        // clang-format off
        {"slower", STP_SOURCE_MODELLED, STP_SOURCE_MODELLED, {101}, STP_VERDICT_SLOWER, "SLOWER by the model"},
        {"faster", STP_SOURCE_MODELLED, STP_SOURCE_MODELLED, {99}, STP_VERDICT_FASTER, "faster by the model"},
        {"equal", STP_SOURCE_MODELLED, STP_SOURCE_MODELLED, {100}, STP_VERDICT_EQUAL, "equal by the model"},
        {"several rounds", STP_SOURCE_MODELLED, STP_SOURCE_MODELLED, {101, 101, 101}, STP_VERDICT_SLOWER,
         "SLOWER by the model"},
        {"recorded", STP_SOURCE_RECORDED, STP_SOURCE_RECORDED, {101}, STP_VERDICT_UNSURE, "unsure"},
        {"virtual", STP_SOURCE_VIRTUAL, STP_SOURCE_VIRTUAL, {50}, STP_VERDICT_UNSURE, "unsure"},
        {"against a recorded one", STP_SOURCE_RECORDED, STP_SOURCE_MODELLED, {50}, STP_VERDICT_UNSURE,
         "unsure"},
        // clang-format on
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Data d;
        d.Add(100, kAuto, std::vector<double>(c.tuned_us.size(), 100),
              c.auto_source)
            .Add(100, kPlugin, c.tuned_us, c.source);
        for (size_t i = c.tuned_us.size(); i < d.data.n_rows; i++)
            d.data.rows[i].ran_proto = NCCL_PROTO_LL;
        Compared compared(d);
        const stp_point *p = &compared.all.points[0];

        EXPECT_EQ(c.want, stp_verify_point(p));
        EXPECT_STREQ(c.words, stp_verdict_words(p, stp_verify_arm(p)));
        EXPECT_EQ(c.want == STP_VERDICT_SLOWER,
                  stp_is_slower(p, stp_verify_arm(p)));
    }
}

// A policy's times of a size, by round; AUTO takes 100 us.
struct Trial {
    uint64_t n_bytes;
    std::vector<double> us;
    bool graph = false;
    std::vector<double> auto_us{100, 100, 100};
};

const std::vector<double> kFaster{90, 90, 90};
const std::vector<double> kSlower{110, 110, 110};
const std::vector<double> kUnsureBelow{101, 104, 98};
const std::vector<double> kUnsureAbove{99, 96, 102};

// An all-gather's rule for 4 ranks from 1000 to 2000 bytes, which rests on
// 1200 and 1600.
class Trimmed
{
  public:
    Trimmed()
    {
        for (uint64_t size : {1200, 1600})
            swept_.Add(size, kAuto, {100, 100}, STP_SOURCE_MEASURED,
                       ncclFuncAllGather);
        swept_points_ = std::make_unique<Compared>(swept_);
        rule.coll = ncclFuncAllGather;
        rule.n_nodes = 1;
        rule.n_ranks = 4;
        rule.min_bytes = 1000;
        rule.max_bytes = 2000;
        rule.points = swept_points_->all.points;
        rule.n_points = 2;
    }

    // "MIN-MAX: SIZES" each part, and "!" if it is marked as trimmed.
    std::vector<std::string> By(const std::vector<Trial> &trials,
                                int mode = STP_MODE_ALONE, unsigned n_ranks = 4,
                                int coll = ncclFuncAllGather)
    {
        Data d;
        for (const Trial &t : trials) {
            const size_t first = d.data.n_rows;
            d.Add(t.n_bytes, kAuto, t.auto_us, STP_SOURCE_MEASURED, coll)
                .Add(t.n_bytes, kPlugin, t.us, STP_SOURCE_MEASURED, coll);
            for (size_t i = first; i < d.data.n_rows; i++)
                d.data.rows[i].graph = t.graph;
        }
        for (size_t i = 0; i < d.data.n_rows; i++) {
            d.data.rows[i].work.mode = mode;
            d.data.rows[i].n_ranks = n_ranks;
            if (d.data.rows[i].arm.kind == STP_ARM_PLUGIN)
                d.data.rows[i].ran_proto = NCCL_PROTO_LL;
        }
        Compared verdicts(d);
        stp_derived_rule parts[2];
        std::vector<std::string> names;
        size_t n = stp_verify_trim(&verdicts.all, &rule, parts);
        for (size_t i = 0; i < n; i++) {
            std::string name = std::to_string(parts[i].min_bytes) + "-" +
                               std::to_string(parts[i].max_bytes) + ":";
            for (size_t k = 0; k < parts[i].n_points; k++)
                name += " " + std::to_string(parts[i].points[k].n_bytes);
            names.push_back(name + (parts[i].is_trimmed ? "!" : ""));
        }
        return names;
    }

    stp_derived_rule rule{};

  private:
    Data swept_;
    std::unique_ptr<Compared> swept_points_;
};

TEST(Verify, TrimsARuleToTheSizesAtWhichStepsInWhichComputeWaitsAreShorter)
{
    const std::string whole = "1000-2000: 1200 1600";

    for (const auto &above : {kUnsureAbove, kUnsureBelow, kSlower}) {
        EXPECT_THAT(
            Trimmed().By({{1200, kFaster}, {1600, above}}, STP_MODE_SEQUENTIAL),
            ElementsAre("1000-1200: 1200!"));
        EXPECT_THAT(
            Trimmed().By({{1200, above}, {1600, above}}, STP_MODE_SEQUENTIAL),
            testing::IsEmpty());
    }
    EXPECT_THAT(
        Trimmed().By({{1200, kFaster}, {1600, kFaster}}, STP_MODE_SEQUENTIAL),
        ElementsAre(whole));
    EXPECT_THAT(Trimmed().By({{1600, kUnsureAbove}}, STP_MODE_OVERLAP),
                ElementsAre(whole))
        << "only of collectives for which compute waits";
}

TEST(Verify, KeepsARuleThatIsShorterLaunchedOrCapturedAndInNeitherLonger)
{
    const struct {
        std::vector<double> launched, captured;
        bool holds; // in steps in which compute waits
        bool holds_overlapped;
    } cases[] = {{kFaster, kFaster, true, true},
                 {kFaster, kUnsureAbove, true, true},
                 {kUnsureAbove, kFaster, true, true},
                 {kUnsureAbove, kUnsureAbove, false, true},
                 {kFaster, kUnsureBelow, false, true},
                 {kUnsureBelow, kFaster, false, true},
                 {kFaster, kSlower, false, false},
                 {kSlower, kFaster, false, false}};

    for (const auto &c : cases)
        for (int mode : {STP_MODE_SEQUENTIAL, STP_MODE_OVERLAP})
            EXPECT_EQ((mode == STP_MODE_OVERLAP ? c.holds_overlapped : c.holds)
                          ? 1u
                          : 0u,
                      Trimmed()
                          .By({{1200, c.launched},
                               {1200, c.captured, true},
                               {1600, c.launched},
                               {1600, c.captured, true}},
                              mode)
                          .size())
                << mode << " " << &c - cases;
}

TEST(Verify, TrimsARuleToTheSizesThatHold)
{
    const std::string whole = "1000-2000: 1200 1600";
    struct Case {
        const char *name;
        std::vector<Trial> trials;
        std::vector<std::string> want;
    } cases[] = {
        // clang-format off
        {"untried", {}, {whole}},
        {"faster", {{1000, kFaster}, {1600, kFaster}}, {whole}},
        {"below", {{999, kSlower}}, {whole}},
        {"above", {{2001, kSlower}}, {whole}},
        {"lower end", {{1000, kSlower}, {1200, kFaster}, {1600, kFaster}}, {"1200-2000: 1200 1600!"}},
        {"upper end", {{1200, kFaster}, {1600, kFaster}, {1800, kFaster}, {2000, kSlower}},
         {"1000-1800: 1200 1600!"}},
        {"both ends", {{1000, kSlower}, {1200, kFaster}, {1600, kFaster}, {2000, kSlower}},
         {"1200-1600: 1200 1600!"}},
        {"between", {{1200, kFaster}, {1400, kSlower}, {1500, kFaster}, {1600, kFaster}}, {"1000-1200: 1200!",
         "1500-2000: 1600!"}},
        {"at a size that it rests on", {{1000, kFaster}, {1200, kSlower}, {1400, kFaster}, {1600, kFaster}},
         {"1400-2000: 1600!"}},
        {"everywhere", {{1200, kSlower}, {1600, kSlower}}, {}},
        {"surely, but by less than AUTO's noise", {{1200, kFaster}, {1600, {95, 105, 116}, false, {90, 100, 110}}},
         {"1000-1200: 1200!"}},
        {"where nothing is left that it rests on", {{1200, kSlower}, {1400, kFaster}, {1600, kSlower}}, {}},
        {"less than nothing gained in the guessed part", {{1000, kUnsureBelow}, {1100, kUnsureAbove}, {1200,
         kUnsureBelow}, {1400, kUnsureBelow}, {1600, kUnsureBelow}}, {"1100-2000: 1200 1600!"}},
        // clang-format on
    };
    for (const Case &c : cases)
        EXPECT_EQ(c.want, Trimmed().By(c.trials)) << c.name;
}

TEST(Verify, TrimsByTrialsOfTheRulesCollectiveAndRanks)
{
    const std::vector<Trial> slower = {{1000, kSlower}, {1400, kFaster}};
    const std::string whole = "1000-2000: 1200 1600";
    const std::string cut = "1400-2000: 1600!";
    Trimmed t;

    EXPECT_THAT(t.By(slower), ElementsAre(cut));
    EXPECT_THAT(t.By(slower, STP_MODE_ALONE, 2), ElementsAre(whole));
    EXPECT_THAT(t.By(slower, STP_MODE_OVERLAP, 4, ncclFuncAllReduce),
                ElementsAre(whole));
    EXPECT_THAT(t.By(slower, STP_MODE_FSDP), ElementsAre(cut));
    t.rule.coll = ncclFuncReduceScatter;
    EXPECT_THAT(t.By(slower, STP_MODE_ALONE), ElementsAre(whole));
    EXPECT_THAT(t.By(slower, STP_MODE_FSDP), ElementsAre(cut));
}

TEST(Verify, SaysOfAllSizesTogetherHowMuchSlowerOneMayBe)
{
    struct Case {
        const char *name;
        std::vector<Trial> trials;
        double want;
        uint64_t wide_bytes; // of the one that says nothing; 0: none
    } cases[] = {
        {"nothing decided", {}, 1, 0},
        {"without error", {{1, kFaster}, {2, {95, 95, 95}}}, 100 / 95., 0},
        {"one round", {{1, {95, 95, 95}}, {2, {90}}}, 100 / 95., 2},
        {"rounds that differ too much",
         {{1, {95, 95, 95}}, {2, {60, 100, 180}}, {3, {80, 100, 130}}},
         100 / 95.,
         2},
        // the mean of the logarithms less 4.3027 standard errors
        {"of one the interval",
         {{1, {100, 102, 104.04}}, {2, kFaster}, {3, kFaster}},
         std::exp(-std::log(1.02) * (1 + 4.3027 / std::sqrt(3))),
         0},
    };
    for (const Case &c : cases) {
        Data d;
        for (const Trial &t : c.trials)
            d.Add(t.n_bytes, kAuto, std::vector<double>(t.us.size(), 100))
                .Add(t.n_bytes, kPlugin, t.us);
        for (size_t i = 0; i < d.data.n_rows; i++)
            if (d.data.rows[i].arm.kind == STP_ARM_PLUGIN)
                d.data.rows[i].ran_proto = NCCL_PROTO_LL;
        Compared verdicts(d);
        const stp_point *wide;
        size_t n_wide;
        EXPECT_NEAR(c.want,
                    stp_verify_least_gain(&verdicts.all, &wide, &n_wide), 1e-9)
            << c.name;
        EXPECT_EQ(c.wide_bytes, wide != nullptr ? wide->n_bytes : 0) << c.name;
    }
}

TEST(Verify, LooksHalfwayBetweenSizesAndAroundRangeEnds)
{
    stp_sizes seen{};
    stp_sizes unseen{};
    const uint64_t ends[] = {299, 5000, 8};
    for (uint64_t size : {96, 400, 1600})
        stp_sizes_add(&seen, size, 8, nullptr);

    ASSERT_EQ(STP_OK, stp_verify_sizes(&seen, ends, 3, 8, &unseen, nullptr));

    EXPECT_THAT(std::vector<uint64_t>(unseen.size, unseen.size + unseen.n),
                ElementsAre(192, 296, 304, 800));
    seen.n = unseen.n = 0;
    ASSERT_EQ(STP_OK, stp_verify_sizes(&seen, ends, 1, 8, &unseen, nullptr));
    EXPECT_EQ(0u, unseen.n) << "nowhere to look";
}

/* ---- communication behind compute ---- */

TEST(Overlap, IsWhatBothUnionsShare)
{
    struct {
        const char *name;
        std::vector<stp_interval> compute, comm;
        double compute_us, comm_us, hidden_us;
    } cases[] = {
        // clang-format off
        {"NothingOfNothing", {}, {}, 0, 0, 0},
        {"NoCompute", {}, {{1, 3}}, 0, 2, 0},
        {"NoCommunication", {{1, 3}}, {}, 2, 0, 0},
        {"OneAfterTheOther", {{0, 5}}, {{5, 8}}, 5, 3, 0},
        {"OneWithinTheOther", {{0, 10}}, {{2, 5}}, 10, 3, 3},
        {"ComputeWithin", {{2, 5}}, {{0, 10}}, 3, 10, 3},
        {"AtBothEnds", {{0, 4}, {6, 9}}, {{3, 8}}, 7, 5, 3},
        {"Unsorted", {{6, 9}, {0, 4}}, {{8, 10}, {1, 2}}, 7, 3, 2},
        {"UnionsCountOnce", {{0, 4}, {2, 6}, {1, 3}}, {{3, 7}, {5, 9}}, 6, 6, 3},
        {"OneWithinAnother", {{0, 10}, {2, 3}}, {{4, 6}}, 10, 2, 2},
        {"Touching", {{0, 2}, {2, 4}}, {{1, 3}}, 4, 2, 2},
        {"OfNoLength", {{1, 1}}, {{0, 2}, {5, 5}}, 0, 2, 0},
        // clang-format on
    };

    for (auto &c : cases) {
        SCOPED_TRACE(c.name);
        const auto o = stp_find_overlap(c.compute.data(), c.compute.size(),
                                        c.comm.data(), c.comm.size());

        EXPECT_EQ(c.compute_us, o.compute);
        EXPECT_EQ(c.comm_us, o.communication);
        EXPECT_EQ(c.hidden_us, o.hidden);
    }
}

TEST(OverlapOfSpans, IsOfThoseInAPartOfAStep)
{
    const stp_span all[] = {
        {0, STP_SPAN_COMPUTE, "gemm", {"forward", 1}, 0, 10},
        {1, STP_SPAN_COMMUNICATION, "all-reduce", {"all-reduce", 2}, 6, 14},
        {1, STP_SPAN_COMMUNICATION, "losses", {nullptr, 0}, 20, 30},
        {0, STP_SPAN_COMPUTE, "cast", {nullptr, 0}, 12, 14},
        {2, STP_SPAN_RANGE, "forward", {"forward", 1}, 0, 40},
    };
    stp_spans spans{};
    for (const stp_span &span : all)
        ASSERT_EQ(STP_OK, stp_spans_add(&spans, &span, nullptr));

    stp_overlap o = stp_overlap_of_spans(&spans);
    stp_spans_free(&spans);

    EXPECT_EQ(10, o.compute);
    EXPECT_EQ(8, o.communication);
    EXPECT_EQ(4, o.hidden);
    EXPECT_EQ(0.5, stp_overlap_share(&o));
    o.communication = 0;
    EXPECT_TRUE(std::isnan(stp_overlap_share(&o)));
}

TEST(Ranges, AreTheInnermostThatIsOpen)
{
    stp_ranges ranges{};

    stp_ranges_mark(&ranges, nullptr); // none is open
    EXPECT_EQ(nullptr, stp_ranges_now(&ranges).name);
    stp_ranges_mark(&ranges, "backward");
    stp_ranges_mark(&ranges, "all-reduce");
    EXPECT_STREQ("all-reduce", stp_ranges_now(&ranges).name);
    EXPECT_EQ(2u, stp_ranges_now(&ranges).number);
    stp_ranges_mark(&ranges, nullptr);
    EXPECT_STREQ("backward", stp_ranges_now(&ranges).name);
    EXPECT_EQ(1u, stp_ranges_now(&ranges).number);
    for (int i = 0; i < 2 * STP_OPEN_RANGES; i++)
        stp_ranges_mark(&ranges, "deep");
    EXPECT_EQ(nullptr, stp_ranges_now(&ranges).name);
    for (int i = 0; i < 2 * STP_OPEN_RANGES; i++)
        stp_ranges_mark(&ranges, nullptr);
    EXPECT_STREQ("backward", stp_ranges_now(&ranges).name);
}

} // namespace
