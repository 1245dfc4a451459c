// Buffers to register, by gains over NCCL's own choice and over the best rule.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

extern "C" {
#include "core/memory.h"
#include "core/policy/memory_policy.h"
}
#include "support/measured_data.h"

using namespace measured;

namespace
{

// Gains over AUTO's 100 us, in rounds without error; 0: not measured.
struct SizeRow {
    uint64_t n_bytes;
    double tree, reg, sym;
    double policy_again, sym_again; // when they were verified
};

struct MemoryCase {
    const char *name;
    std::vector<SizeRow> sizes;
    std::vector<std::string> memory; // rules
    std::vector<std::string> arms;   // those of tuners
};

void Add(Data *data, uint64_t n_bytes, const stp_arm &arm, double gain)
{
    if (gain != 0)
        data->AddGain(n_bytes, arm, gain);
}

using DeriveMemory = testing::TestWithParam<MemoryCase>;

TEST_P(DeriveMemory, NamesWhatIsWorthIt)
{
    Data measured, again;
    for (const SizeRow &size : GetParam().sizes) {
        measured.AddAuto(size.n_bytes);
        Add(&measured, size.n_bytes, kTreeLl, size.tree);
        Add(&measured, size.n_bytes, kReg, size.reg);
        Add(&measured, size.n_bytes, kSym, size.sym);
        if (size.policy_again != 0 || size.sym_again != 0)
            again.AddAuto(size.n_bytes);
        Add(&again, size.n_bytes, kPlugin, size.policy_again);
        Add(&again, size.n_bytes, kSym, size.sym_again);
    }
    const Compared all(measured), trials(again);
    const stp_derive_terms arms{
        0.02, false, false, false, STP_POLICY_OF_ARMS, nullptr, nullptr, {}};
    const stp_derive_terms memory{
        0.02,        false,   false, false, STP_POLICY_OF_MEMORY,
        &trials.all, nullptr, {}};
    const auto none = [](const stp_derived_rule &) { return ""; };

    EXPECT_EQ(GetParam().memory, Rules(all.all, memory, none));
    EXPECT_EQ(GetParam().arms, Rules(all.all, arms, none));
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Table, DeriveMemory, testing::Values(
    MemoryCase{"where_it_is_faster_than_nccls_own_choice",
               {{100, 0, 0, 1.1, 0, 0}, {200, 0, 0, 0.9, 0, 0}},
               {"100-100 sym"}, {}},
    MemoryCase{"and_than_the_best_rule",
               {{100, 1.1, 0, 1.2, 0, 0}, {200, 1.2, 0, 1.1, 0, 0}},
               {"100-100 sym"}, {"100-200 tree/ll"}},
    MemoryCase{"by_the_least_gain_of_rules",
               {{100, 0, 0, 1.01, 0, 0}}, {}, {}},
    MemoryCase{"the_fastest_way_to_register",
               {{100, 0, 1.3, 1.2, 0, 0}}, {"100-100 reg"}, {}},
    MemoryCase{"not_an_arm_that_nccls_own_choice_is_as_fast_as",
               {{100, 1.1, 1, 1, 0, 0}}, {}, {"100-100 tree/ll"}},
    MemoryCase{"only_where_it_was_faster_again",
               {{100, 1.1, 0, 1.2, 1.1, 1.15}, {200, 1.1, 0, 1.2, 1.1, 1.05}},
               {"100-100 sym"}, {"100-200 tree/ll"}},
    MemoryCase{"not_if_it_is_gone_as_slower_in_a_workload",
               {{100, 0, 0, 1.2, 1, 0}}, {}, {}},
    MemoryCase{"and_faster_than_nccl_where_no_policy_ran",
               {{100, 0, 0, 1.2, 0, 0.99}}, {}, {}},
    MemoryCase{"not_as_one_where_sizes_fill_no_rounds",
               {{100, 0, 0, 1.1, 0, 0}, {101, 0, 0, 1.1, 0, 0}},
               {"100-100 sym", "101-101 sym"}, {}},
    MemoryCase{"not_where_launches_take_the_time",
               {{100, 1.1, 0, 1.2, 0, 0}, {200, 0, 0, 1.2, 0, 0},
                {400, 0, 0, 1.2, 0, 0}},
               {"200-200 sym", "400-400 sym"}, {"100-141 tree/ll"}}),
    [](const auto &of) { return of.param.name; });
// clang-format on

std::vector<std::string> MemoryRules(const Data &d)
{
    return Rules(
        Compared(d).all,
        {0.02, false, false, false, STP_POLICY_OF_MEMORY, nullptr, nullptr, {}},
        [](const stp_derived_rule &) { return ""; });
}

// How long the collectives of some machine take, in us.
struct Machine {
    int coll;
    uint64_t changes; // NCCL's own choice, from this size on
    double latency[2], us_of_mib[2], staged_latency[2], staged_us_of_mib[2];
    double rest; // what is left of rounds, as part of all

    // NCCL never takes less for more.
    double Plain(uint64_t n) const
    {
        return n < changes ? Line(latency[0], us_of_mib[0], n)
                           : Line(latency[1], us_of_mib[1], n - changes) +
                                 Line(latency[0], us_of_mib[0], changes);
    }

    double Staged(int wide, uint64_t n) const
    {
        const uint64_t round = stp_memory_round(coll, 4, wide ? 32 : 16);
        return Line(staged_latency[wide], staged_us_of_mib[wide], n) *
               (n % round == 0 ? 1 : 1 + rest);
    }

    static double Line(double latency, double us_of_mib, uint64_t n)
    {
        return latency + us_of_mib * static_cast<double>(n) / (1 << 20);
    }
};

constexpr stp_arm kStage[] = {
    {STP_ARM_SETUP, 0, 0, 0, 0, {STP_MEMORY_STAGE, 16, 64, 0}},
    {STP_ARM_SETUP, 0, 0, 0, 0, {STP_MEMORY_STAGE, 32, 64, 0}}};

// Powers of two, and sizes beside them that leave a rest.
std::vector<uint64_t> SomeSizes(std::mt19937_64 *random)
{
    std::vector<uint64_t> sizes;

    for (uint64_t n = 64 << 10; n <= 32 << 20; n *= 2)
        sizes.push_back(n + ((*random)() % 4 == 0) * (*random)() % 4000 * 16);
    return sizes;
}

// Whatever lies between two sizes that were measured.
TEST(DeriveStage, DecidesAllThatGainAndNoSizeThatDoesNot)
{
    const int colls[] = {ncclFuncAllReduce, ncclFuncAllGather,
                         ncclFuncReduceScatter};
    std::mt19937_64 random(46);
    const auto draw = [&](double low, double high) {
        return std::uniform_real_distribution<>(low, high)(random);
    };
    int n_between = 0;

    for (int i = 0; i < 300; i++) {
        SCOPED_TRACE(i);
        const Machine machine{colls[i % 3],
                              uint64_t{1} << (16 + random() % 10),
                              {draw(8, 20), draw(0, 9)},
                              {draw(4, 12), draw(2, 12)},
                              {draw(8, 20), draw(8, 20)},
                              {draw(2, 9), draw(2, 9)},
                              draw(0, 1)};
        const std::vector<uint64_t> sizes = SomeSizes(&random);
        Data d;

        for (uint64_t n : sizes) {
            const double plain = machine.Plain(n);
            d.Add(n, kAuto, {plain, plain, plain}, STP_SOURCE_MEASURED,
                  machine.coll);
            for (int wide : {0, 1}) {
                const double us = machine.Staged(wide, n);
                d.Add(n, kStage[wide], {us, us, us}, STP_SOURCE_MEASURED,
                      machine.coll);
            }
        }
        for (size_t k = 0; k < d.data.n_rows; k++) {
            stp_measurement &m = d.data.rows[k];
            if (m.n_bytes < machine.changes && m.arm.kind == STP_ARM_AUTO)
                m.ran_proto = NCCL_PROTO_LL;
            if (m.arm.kind == STP_ARM_SETUP)
                strcpy(m.ran_kernel, "AllGather_ST");
        }
        const Compared all(d);
        stp_derived derived{};
        stp_derive_terms terms{};
        terms.min_gain = 0.02;
        terms.kind = STP_POLICY_OF_STAGE;
        ASSERT_EQ(STP_OK, stp_derive_on(&all.all, &terms, &derived, nullptr));
        // The gain at a size that some rule decides, else 0.
        const auto gain = [&](uint64_t n) {
            for (size_t k = 0; k < derived.n_rules; k++) {
                stp_rule rule{};
                rule.coll = machine.coll;
                rule.memory = STP_MEMORY_STAGE;
                rule.min_ctas = derived.rules[k].arm.setup.min_ctas;
                rule.bytes = {derived.rules[k].min_bytes,
                              derived.rules[k].max_bytes};
                if (stp_memory_rule_decides(&rule, 4, n))
                    return machine.Plain(n) /
                           machine.Staged(rule.min_ctas == 32, n);
            }
            return 0.0;
        };

        for (uint64_t n : sizes) {
            const double best =
                machine.Plain(n) /
                std::min(machine.Staged(0, n), machine.Staged(1, n));
            const bool is_launch =
                std::any_of(sizes.begin(), sizes.end(), [&](uint64_t more) {
                    return more / 4 >= n &&
                           machine.Plain(more) <=
                               STP_DERIVE_LAUNCH * machine.Plain(n);
                });
            EXPECT_EQ(best >= 1.02 && !is_launch, gain(n) != 0)
                << n << ", gain " << best;
        }
        for (int j = 0; j < 400; j++) {
            const uint64_t n = (random() % (32 << 20)) >>
                               (j % 2) * 19 << (j % 2) * 19; // whole rounds?
            const double at_n = gain(n);
            EXPECT_TRUE(at_n == 0 || at_n >= 1.02 - 1e-9) << n << " " << at_n;
            n_between += at_n != 0;
        }
        stp_derived_free(&derived);
    }
    EXPECT_GT(n_between, 1000);
}

// A communicator of its own, for as much as a rule must gain.
TEST(DeriveMemoryCtas, AreNamedWhereTheyAreWorthACommunicator)
{
    const struct {
        double narrow, wide; // 0: not measured
        std::vector<std::string> rules;
    } cases[] = {
        {1.2, 1.3, {"100-100 sym/ctas=32-64"}},
        {1.2, 1.21, {"100-100 sym"}},
        {1.2, 1.1, {"100-100 sym"}},
        {0.9, 1.1, {"100-100 sym/ctas=32-64"}},
        {0, 1.1, {"100-100 sym/ctas=32-64"}},
        {1.01, 1.025, {}},
    };

    for (const auto &c : cases) {
        Data d;
        d.AddAuto(100);
        Add(&d, 100, kSym, c.narrow);
        Add(&d, 100, kSymWide, c.wide);
        EXPECT_EQ(c.rules, MemoryRules(d)) << c.narrow << " and " << c.wide;
    }
}

// Other limits of a communicator cannot be written into a memory policy.
TEST(DeriveMemoryCtas, AreThoseThatAMemoryPolicyCanName)
{
    const auto registers = [](const std::string &name) {
        stp_arm arm{};
        EXPECT_TRUE(stp_arm_from_name(name.data(), name.size(), &arm)) << name;
        return stp_arm_registers(&arm);
    };

    for (const char *name : {"sym", "reg", "ce", "sym/ctas=16-64",
                             "reg/ctas=1-64", "ce/ctas=64-64"})
        EXPECT_TRUE(registers(name)) << name;
    for (const char *name : {"ctas=16-64", "sym/ctas=16-32", "sym/ctas=64",
                             "sym/cga=2", "sym/ctas=16-64/cga=2", "auto"})
        EXPECT_FALSE(registers(name)) << name;
}

TEST(DeriveMemoryKernel, NamesNoCopyEnginesThatDidNotRun)
{
    const struct {
        const char *ran; // with kCe, which was faster
        std::vector<std::string> rules;
    } cases[] = {{STP_COPY_ENGINES, {"100-100 ce"}},
                 {"AllReduce_AGxLL_R", {"100-100 sym"}},
                 {"", {"100-100 ce"}}}; // nobody knows

    for (const auto &c : cases) {
        Data d;
        d.AddAuto(100).AddGain(100, kCe, 1.3).AddGain(100, kSym, 1.2);
        for (size_t i = 3; i < 6; i++)
            strcpy(d.data.rows[i].ran_kernel, c.ran);
        EXPECT_EQ(c.rules, MemoryRules(d)) << c.ran;
    }
}

// Two arms vary together with NCCL's own choice: the gain of one over the other
// is as steady as they are to each other.
TEST(GainOverArm, IsOfTheRoundsOfBoth)
{
    const std::vector<double> own{100, 140, 90, 120}; // NCCL's, by round
    const auto scaled = [&](double gain, size_t n) {
        std::vector<double> us;
        for (size_t i = 0; i < n; i++)
            us.push_back(own[i] / gain);
        return us;
    };
    Data d;
    d.Add(100, kAuto, own)
        .Add(100, kTreeLl, scaled(1.1, 4))
        .Add(100, kSym, scaled(1.1 * 1.02, 3));
    const Compared compared(d);
    const stp_comparisons &all = compared.all;
    const stp_comparison *sym = stp_point_arm(&all.points[0], &kSym);
    const stp_comparison *tree = stp_point_arm(&all.points[0], &kTreeLl);

    const stp_gain over = stp_gain_over_arm(sym, tree);

    EXPECT_EQ(3u, over.n_pairs);
    EXPECT_NEAR(1.02, over.gain, 1e-12);
    EXPECT_NEAR(1.02, over.low, 1e-9);
    EXPECT_NEAR(1.02, over.high, 1e-9);
}

} // namespace
