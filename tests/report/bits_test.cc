// Policies that keep the bits of NCCL's own choice: no rule of a sum whose arm
// was not measured to compute them, in all that is made of measurements.
#include <random>
#include <set>

#include "support/in_folder.h"
#include "support/measured_data.h"

extern "C" {
#include "analyse/objective.h"
#include "core/dtype.h"
#include "report/measurements/measurements_csv.h"
#include "report/policy_file.h"
#include "report/results/memory_rules.h"
#include "report/results/results.h"
}

namespace
{

using namespace measured;

constexpr stp_arm kRingLl{
    STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL, 0, 0, {}};
constexpr int kColls[] = {ncclFuncAllReduce, ncclFuncReduceScatter,
                          ncclFuncAllGather};
constexpr uint64_t kSizes[] = {1 << 20, 2 << 20, 4 << 20, 8 << 20};

// A collective, a size and an arm.
using Place = std::tuple<int, uint64_t, std::string>;

// Every arm is faster everywhere; what is known of its bits is random, in one
// of its rounds another than in the others.
void Measure(unsigned seed, unsigned ranks, Data *d)
{
    std::mt19937 random(seed);
    for (const int coll : kColls)
        for (const uint64_t n_bytes : kSizes)
            for (const stp_arm &arm : {kAuto, kRingLl128, kRingLl, kSym}) {
                const double us =
                    (stp_arm_equal(&arm, &kAuto) ? 100 : 50 + random() % 40) *
                    static_cast<double>(n_bytes) / (1 << 20);
                d->Add(n_bytes, arm, {us, us, us}, STP_SOURCE_MEASURED, coll);
                stp_measurement *rows = d->data.rows + d->data.n_rows - 3;
                const bool is_own = arm.kind == STP_ARM_AUTO;
                const auto bits = static_cast<stp_bits>(random() % 3);
                for (int r = 0; r < 3; r++)
                    rows[r].bits = is_own ? STP_BITS_SAME : bits;
                if (random() % 8 == 0)
                    rows[random() % 3].bits = is_own && random() % 2 == 0
                                                  ? STP_BITS_OTHER
                                                  : STP_BITS_UNKNOWN;
            }
    for (size_t i = 0; i < d->data.n_rows; i++) {
        stp_measurement *m = &d->data.rows[i];
        m->n_ranks = ranks;
        m->n_wrong = -1;
        m->us.mean = m->us.p95 = m->us.p99 = m->us.min = m->us.median;
    }
    strcpy(d->data.backend, "nccl");
}

// The places of arms that are the same, as rows say one by one.
std::set<Place> Same(const stp_dataset &data)
{
    std::set<Place> same, other;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < data.n_rows; i++) {
            const stp_measurement &m = data.rows[i];
            if (m.bits == STP_BITS_SAME)
                same.insert({m.coll, m.n_bytes, Name(m.arm)});
            for (const stp_arm &arm : {kRingLl128, kRingLl, kSym})
                if (m.bits == STP_BITS_OTHER &&
                    (m.arm.kind == STP_ARM_AUTO || stp_arm_equal(&m.arm, &arm)))
                    other.insert({m.coll, m.n_bytes, Name(arm)});
        }
    for (const Place &place : other)
        same.erase(place);
    for (const uint64_t n_bytes : kSizes) // which only moves data
        for (const stp_arm &arm : {kRingLl128, kRingLl, kSym}) {
            const Place place{ncclFuncAllGather, n_bytes, Name(arm)};
            if (other.count(place) == 0)
                same.insert(place);
        }
    return same;
}

class BitsOf : public InFolder, public testing::WithParamInterface<unsigned>
{
  protected:
    unsigned Ranks() const
    {
        return GetParam();
    }

    // Through a file.
    void ReadBack(const Data &d, Data *read)
    {
        const std::string path = Path("data");
        EXPECT_EQ(STP_OK, stp_measurements_save(&d.data, "test", path.c_str(),
                                                nullptr));
        stp_error err{};
        EXPECT_EQ(STP_OK, stp_measurements_load_any(path.c_str(), -1, 0,
                                                    &read->data, &err))
            << err.text;
    }

    static stp_derive_terms Terms(stp_policy_kind kind)
    {
        stp_derive_terms terms{};
        terms.min_gain = 0.02;
        terms.same_bits = true;
        terms.extrapolate = true;
        terms.kind = kind;
        return terms;
    }

    // The policy's file, read as a job reads it.
    stp_policy *SavePolicy(const Data &d, stp_comparisons *all)
    {
        const stp_derive_terms terms = Terms(STP_POLICY_OF_ARMS);
        stp_policy_origin origin{};
        stp_derived derived{};
        stp_policy *policy = nullptr;
        stp_keep_same_bits(all);
        EXPECT_EQ(STP_OK, stp_derive_on(all, &terms, &derived, nullptr));
        origin.data = &d.data;
        origin.made_by = "test";
        origin.min_gain = 0.02;
        origin.same_bits = true;
        EXPECT_EQ(STP_OK,
                  stp_policy_file_save(&derived, &origin,
                                       Path("policy").c_str(), nullptr));
        EXPECT_EQ(STP_OK,
                  stp_policy_load(STP_POLICY_OF_ARMS, Path("policy").c_str(),
                                  &policy, nullptr));
        EXPECT_TRUE(stp_policy_same_bits(policy));
        stp_derived_free(&derived);
        return policy;
    }

    // Whether an arm may decide about that many bytes: where it is the same,
    // and for sums of two ranks and for what moves data also between two such
    // sizes.
    bool MayDecide(const std::set<Place> &same, int coll, uint64_t n_bytes,
                   const std::string &arm)
    {
        uint64_t below = 0, above = UINT64_MAX;
        if (!stp_coll_reduces(coll))
            return true; // but for what is other where it was measured
        for (const uint64_t size : kSizes) {
            below = size <= n_bytes ? size : below;
            above = size >= n_bytes ? std::min(size, above) : above;
        }
        return same.count({coll, below, arm}) &&
               same.count({coll, above, arm}) &&
               (below == above || Ranks() == 2);
    }

    // Asks the policy about many sizes; returns how often an arm decided.
    size_t AskPolicy(const stp_policy *policy, const std::set<Place> &same)
    {
        static const float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS] = {};
        const stp_cost_view view = {&cost[0][0], NCCL_NUM_ALGORITHMS,
                                    NCCL_NUM_PROTOCOLS};
        const stp_shape shape = {Ranks(), 1, nullptr};
        stp_compiled *compiled = nullptr;
        size_t n = 0;
        EXPECT_EQ(STP_OK,
                  stp_policy_compile(policy, &shape, &compiled, nullptr));
        for (const int coll : kColls)
            for (uint64_t at = 1 << 16; at <= 64 << 20; at *= 2)
                for (const uint64_t n_bytes : {at - 4, at, at + 4, at + at / 2})
                    for (int ops : {1, 2}) {
                        const stp_query query = {coll, n_bytes, ops, 0};
                        stp_choice c{};
                        if (!stp_compiled_lookup(compiled, &query, &view, &c))
                            continue;
                        const stp_arm arm = {STP_ARM_FORCED, c.algo, c.proto,
                                             c.n_channels,   0,      {}};
                        n++;
                        EXPECT_TRUE(MayDecide(same, coll, n_bytes, Name(arm)))
                            << coll << " of " << n_bytes << ": " << Name(arm);
                        EXPECT_TRUE(ops == 1 || Ranks() == 2 ||
                                    !stp_coll_reduces(coll))
                            << "a group has other channels";
                    }
        stp_compiled_free(compiled);
        return n;
    }
};

TEST_P(BitsOf, PoliciesHaveRulesOnlyWhereAnArmIsTheSame)
{
    size_t n = 0, n_memory = 0;
    for (unsigned seed = 1; seed <= 40; seed++) {
        SCOPED_TRACE(seed);
        Data measured, read;
        Measure(seed, Ranks(), &measured);
        ReadBack(measured, &read);
        const std::set<Place> same = Same(measured.data);

        Compared c(read);
        for (size_t i = 0; i < c.all.n_points; i++)
            for (size_t a = 0; a < c.all.points[i].n_arms; a++) {
                const stp_point &p = c.all.points[i];
                EXPECT_EQ(same.count({p.coll, p.n_bytes, Name(p.arms[a].arm)}),
                          p.arms[a].bits == STP_BITS_SAME ||
                              (p.coll == ncclFuncAllGather &&
                               p.arms[a].bits == STP_BITS_UNKNOWN));
            }
        stp_policy *policy = SavePolicy(read, &c.all);
        n += AskPolicy(policy, same);
        stp_policy_free(policy);

        // what to register, alone
        const stp_derive_terms terms = Terms(STP_POLICY_OF_MEMORY);
        const stp_dataset none{};
        stp_memory_data data{};
        stp_memory_situations situations{};
        stp_memory_rules rules{};
        data.alone = &read.data;
        data.iterations = &none;
        EXPECT_EQ(STP_OK, stp_memory_situations_compare(&data, &terms,
                                                        &situations, nullptr));
        EXPECT_EQ(STP_OK,
                  stp_memory_rules_derive(&situations, "", &rules, nullptr));
        for (size_t i = 0; i < rules.table.n_rules; i++) {
            const stp_rule &rule = rules.table.rules[i].rule;
            for (uint64_t at = 1 << 18; at <= 32 << 20; at += 1 << 18)
                if (rule.bytes.min <= at && at <= rule.bytes.max) {
                    n_memory++;
                    EXPECT_TRUE(MayDecide(same, rule.coll, at, "sym"))
                        << rule.coll << " of " << at;
                }
        }
        stp_memory_rules_free(&rules);
        stp_memory_situations_free(&situations);
    }
    EXPECT_LT(500u, n) << "arms that are the same get their rules";
    EXPECT_LT(100u, n_memory);
}

// Nobody compares the bits of iterations: those of the same arm alone decide.
TEST_P(BitsOf, IterationsHaveThoseOfTheSameArmAlone)
{
    size_t n = 0;
    for (unsigned seed = 1; seed <= 20; seed++)
        for (const stp_mode mode :
             {STP_MODE_SEQUENTIAL, STP_MODE_OVERLAP, STP_MODE_FSDP}) {
            SCOPED_TRACE(std::to_string(seed) + " " + stp_mode_name(mode));
            Data alone, all;
            Measure(seed, Ranks(), &alone);
            const std::set<Place> same = Same(alone.data);
            for (size_t i = 0; i < alone.data.n_rows; i++) {
                stp_measurement m = alone.data.rows[i];
                stp_dataset_add(&all.data, &m);
                m.bits = STP_BITS_UNKNOWN;
                m.work.mode = mode;
                m.work.layers = 1;
                m.work.compute_us = 1;
                if (mode != STP_MODE_FSDP || m.coll == ncclFuncAllGather)
                    stp_dataset_add(&all.data, &m);
            }
            stp_dataset selected{};
            stp_comparisons pooled{};
            ASSERT_EQ(STP_OK,
                      stp_objective_select(&all.data, STP_OBJECTIVE_ITERATION,
                                           &selected, nullptr));
            ASSERT_EQ(STP_OK,
                      stp_objective_compare(&selected, STP_OBJECTIVE_ITERATION,
                                            &pooled, nullptr));
            stp_keep_same_bits(&pooled);
            for (size_t i = 0; i < pooled.n_points; i++)
                for (size_t a = 0; a < pooled.points[i].n_arms; a++) {
                    const stp_point &p = pooled.points[i];
                    // an iteration of fsdp has a sum in it
                    const int coll = mode == STP_MODE_FSDP
                                         ? int(ncclFuncReduceScatter)
                                         : p.coll;
                    n++;
                    EXPECT_EQ(
                        1u, same.count({coll, p.n_bytes, Name(p.arms[a].arm)}))
                        << coll << " of " << p.n_bytes << ": "
                        << Name(p.arms[a].arm);
                }
            stp_comparisons_free(&pooled);
            stp_dataset_free(&selected);
        }
    EXPECT_LT(100u, n);
}

INSTANTIATE_TEST_SUITE_P(Ranks, BitsOf, testing::Values(2u, 4u),
                         [](const testing::TestParamInfo<unsigned> &ranks) {
                             return std::to_string(ranks.param);
                         });

TEST(Bits, WithoutThemOnlyWhatMovesDataHasRules)
{
    Data d;
    Measure(1, 4, &d);
    for (size_t i = 0; i < d.data.n_rows; i++)
        d.data.rows[i].bits = STP_BITS_UNKNOWN;
    Compared c(d);

    stp_keep_same_bits(&c.all);

    for (size_t i = 0; i < c.all.n_points; i++)
        EXPECT_EQ(c.all.points[i].coll == ncclFuncAllGather ? 3u : 0,
                  c.all.points[i].n_arms);
    char text[STP_ERROR_TEXT];
    EXPECT_STREQ("Results keep the bits of NCCL's own choice: nobody compared "
                 "those of sums here, so that only collectives that move data "
                 "have rules.",
                 stp_same_bits_text(&d.data, text));
}

} // namespace
