// Rules of stage policies from random measurements whose gains are exact:
// derived, written and read again.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "support/measured_data.h"
#include "support/mock_test.h"
#include "support/temporary_folder.h"
#include "support/written.h"

extern "C" {
#include "core/policy/memory_policy.h"
#include "report/measurements/measurements_csv.h"
#include "report/results/memory_rules.h"
#include "report/results/results.h"
}

using namespace measured;

namespace
{

constexpr stp_workload kBeside{STP_MODE_OVERLAP, 0, 8, 1, {}, 10, nullptr};
constexpr stp_workload kBehind{STP_MODE_SEQUENTIAL, 0, 1, 1, {}, 50, nullptr};
constexpr int kColls[] = {ncclFuncAllGather, ncclFuncReduceScatter,
                          ncclFuncAllReduce};
constexpr int kCtas[] = {0, 16, 32};

stp_arm Staged(int ctas)
{
    return {STP_ARM_SETUP, 0, 0, 0, 0, stp_setup_of(STP_MEMORY_STAGE, ctas)};
}

// The measurements of one collective, launched or captured.
struct Case {
    double tree;
    double staged[3]; // by kCtas
    bool has_kernel[3];
    double beside[3]; // in iterations; 0: not measured
    double behind[3]; // in iterations in which compute waits; likewise
};

double OneOf(std::mt19937 *rng, const std::vector<double> &values)
{
    return values[(*rng)() % values.size()];
}

Case AnyCase(std::mt19937 *rng)
{
    Case c{OneOf(rng, {0, 0.9, 1.01, 1.15}), {}, {}, {}, {}};
    const bool iterates = (*rng)() % 2 == 0, waits = (*rng)() % 2 == 0;

    for (int i = 0; i < 3; i++) {
        c.staged[i] = OneOf(rng, {0, 0.8, 1.01, 1.1, 1.3, 1.6}) + i * 0.007;
        c.has_kernel[i] = (*rng)() % 8 != 0;
        c.beside[i] = iterates ? OneOf(rng, {0.9, 1, 1.1}) : 0;
        c.behind[i] =
            waits ? OneOf(rng, {0.8, 1.01, 1.03, 1.2}) + i * 0.003 : 0;
    }
    return c;
}

// The CTAs of the arm that is to be staged; -1: none.  Plain buffers take 100
// us.  'launched' is the same collective, launched; NULL: not measured. Whether
// other collectives were measured in iterations in which compute goes on.
int WantedCtas(const Case &c, bool graph, const Case *launched,
               bool others_iterate, bool overlaps)
{
    const bool waits_always = graph && !overlaps; // compute
    const bool iterates = waits_always || c.beside[0] > 0 ||
                          (launched != nullptr && launched->beside[0] > 0);

    const double rule = c.tree >= 1.02 ? c.tree : 1;
    double best = 0;
    int ctas = -1;

    for (int i = 0; i < 3 && (iterates || !others_iterate); i++) {
        const bool waits = c.behind[i] > 0;
        const double gain = waits ? c.behind[i] : c.staged[i];

        if (gain >= 1.02 && (waits || gain > rule) && c.has_kernel[i] &&
            gain > best &&
            (waits_always || c.beside[i] == 0 || c.beside[i] >= 1) &&
            (waits_always || launched == nullptr || launched->beside[i] == 0 ||
             launched->beside[i] >= 1) &&
            (!graph || 100 - 100 / gain >= STP_DERIVE_GRAPH_US)) {
            best = gain;
            ctas = kCtas[i];
        }
    }
    return ctas;
}

void AddRows(Data *d, const stp_arm &arm, double gain, const char *kernel,
             int coll, bool graph, const stp_workload &work)
{
    const size_t first = d->data.n_rows;
    const double us =
        100 / gain + (work.mode == STP_MODE_SEQUENTIAL ? work.compute_us : 0);

    d->Add(1 << 20, arm, {us, us, us}, STP_SOURCE_MEASURED, coll);
    for (size_t i = first; i < d->data.n_rows; i++) {
        d->data.rows[i].graph = graph;
        d->data.rows[i].work = work;
        strcpy(d->data.rows[i].ran_kernel, kernel);
    }
}

void AddCase(Data *d, const Case &c, int coll, bool graph)
{
    AddRows(d, kAuto, 1, "", coll, graph, {});
    AddRows(d, kSymWide, 2, "AllGather_ST", coll, graph, {}); // not staged
    if (c.tree > 0)
        AddRows(d, kTreeLl, c.tree, "", coll, graph, {});
    for (int i = 0; i < 3; i++)
        if (c.staged[i] >= 0.5)
            AddRows(d, Staged(kCtas[i]), c.staged[i],
                    c.has_kernel[i] ? "AllGather_ST" : "", coll, graph, {});
    if (c.beside[0] > 0)
        AddRows(d, kAuto, 1, "", coll, graph, kBeside);
    for (int i = 0; i < 3 && c.beside[0] > 0; i++)
        AddRows(d, Staged(kCtas[i]), c.beside[i], "", coll, graph, kBeside);
    if (c.behind[0] > 0)
        AddRows(d, kAuto, 1, "", coll, graph, kBehind);
    for (int i = 0; i < 3 && c.behind[0] > 0; i++)
        AddRows(d, Staged(kCtas[i]), c.behind[i],
                c.has_kernel[i] ? "AllGather_ST" : "", coll, graph, kBehind);
}

// Derives a stage policy of the data, and reads what was written of it: the
// same measurements are those of its rules.
stp_policy *DeriveAndRead(const Data &d, const std::string &path)
{
    const stp_memory_data from{&d.data, &d.data, {}};
    stp_derive_terms terms{};
    terms.min_gain = 0.02;
    terms.kind = STP_POLICY_OF_STAGE;
    stp_policy_origin origin{};
    origin.data = &d.data;
    origin.made_by = "a test";
    origin.min_gain = 0.02;
    stp_memory_situations situations;
    stp_memory_rules rules{};
    stp_policy *policy = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_OK,
              stp_memory_situations_compare(&from, &terms, &situations, &err))
        << err.text;
    EXPECT_EQ(STP_OK, stp_memory_rules_derive(&situations, "", &rules, &err));
    EXPECT_EQ(STP_OK,
              stp_memory_file_save(&rules.table, &origin, path.c_str(), &err));
    EXPECT_EQ(STP_OK, stp_policy_load_any(path.c_str(), &policy, &err))
        << err.text;
    stp_memory_rules again = stp_memory_rules_measure(policy, &situations, "");
    EXPECT_EQ(rules.table.n_rules, again.table.n_rules);
    for (size_t i = 0; i < rules.table.n_rules; i++)
        EXPECT_TRUE(again.rules[i].n_evidence > 0 &&
                    again.rules[i].evidence->us == rules.rules[i].evidence->us)
            << i;
    stp_memory_rules_free(&again);
    stp_memory_rules_free(&rules);
    stp_memory_situations_free(&situations);
    return policy;
}

void Load(const std::string &name, Data *d)
{
    stp_error err{};

    ASSERT_EQ(STP_OK, stp_measurements_load_any(
                          (STP_FIXTURES "/timings/" + name).c_str(), -1, 0,
                          &d->data, &err))
        << err.text;
}

TEST(StageRules, AreWhereStagingWinsInThatSituationAndHarmsNoStep)
{
    const TemporaryFolder folder;

    for (unsigned seed = 0; seed < 400; seed++) {
        std::mt19937 rng(seed);
        std::map<std::pair<int, bool>, Case> cases;
        Data d;
        for (int coll : kColls)
            for (bool graph : {false, true})
                if (rng() % 2 == 0)
                    AddCase(&d, cases[{coll, graph}] = AnyCase(&rng), coll,
                            graph);

        stp_policy *policy = DeriveAndRead(d, folder.Path("p.stage"));

        for (int coll : kColls)
            for (int i = 0; i < 4; i++) {
                const bool graph = i % 2 == 1, overlaps = i < 2;
                const auto c = cases.find({coll, graph});
                const stp_memory_query query{coll,     1 << 20, 4,    1,
                                             overlaps, "",      graph};
                const stp_rule *rule = stp_memory_policy_match(policy, &query);

                const auto launched = cases.find({coll, false});
                const bool others_iterate = std::any_of(
                    cases.begin(), cases.end(), [graph](const auto &other) {
                        return other.first.second <= graph &&
                               other.second.beside[0] > 0;
                    });
                EXPECT_EQ(c == cases.end()
                              ? -1
                              : WantedCtas(c->second, graph,
                                           launched == cases.end()
                                               ? nullptr
                                               : &launched->second,
                                           others_iterate, overlaps),
                          rule == nullptr ? -1 : rule->min_ctas)
                    << "seed " << seed << ", collective " << coll << ", graph "
                    << graph << ", overlaps " << overlaps;
            }
        stp_policy_free(policy);
    }
}

TEST(StageRules, OfWhatRanInPlaceAloneRestOnIt)
{
    const TemporaryFolder folder;
    Data d;
    AddCase(&d, {0, {1.3, 0, 0}, {true}, {}, {}}, ncclFuncAllReduce, false);
    for (size_t i = 0; i < d.data.n_rows; i++)
        d.data.rows[i].in_place = true;
    d.AddAuto(1 << 20);
    stp_policy *policy = DeriveAndRead(d, folder.Path("p.stage"));
    EXPECT_EQ(1u, stp_policy_size(policy));
    stp_policy_free(policy);
}

TEST(StageRules, StandBesideTheFastestOfAnyNumberOfRanges)
{
    Data d; // the last of many in which a rule wins at every other size
    for (uint64_t n_bytes = 1; n_bytes <= 600; n_bytes++)
        d.AddAuto(n_bytes).AddGain(n_bytes, kTreeLl,
                                   n_bytes % 2 != 0 ? 1 : 1 + n_bytes / 300.);
    const stp_memory_data from{&d.data, &d.data, {}};
    const stp_derive_terms terms{};
    stp_memory_situations situations;
    ASSERT_EQ(STP_OK, stp_memory_situations_compare(&from, &terms, &situations,
                                                    nullptr));
    EXPECT_THAT(
        Written([&](FILE *fp) { stp_print_choices("", &situations, 1, fp); }),
        testing::HasSubstr("3.000"));
    stp_memory_situations_free(&situations);
}

// 4 x H100: what is left of a round may cost more than all rounds.
TEST(StageRules, GainAtEverySizeOfRealGpusThatTheyDecide)
{
    const TemporaryFolder folder;
    int n_decided = 0, n_lost = 0;
    Data graphs;
    Load("h100x4_staged_graphs.csv", &graphs);
    stp_policy *policy = DeriveAndRead(graphs, folder.Path("p.stage"));

    for (const char *name :
         {"h100x4_staged_graphs.csv", "h100x4_staged_between.csv"}) {
        Data d;
        Load(name, &d);
        const Compared compared(d);
        for (size_t i = 0; i < compared.all.n_points; i++) {
            const stp_point &p = compared.all.points[i];
            const stp_memory_query query{p.coll, p.n_bytes, 4,   1,
                                         false,  "",        true};
            const stp_rule *rule = stp_memory_policy_match(policy, &query);
            const stp_arm arm = Staged(rule == nullptr ? 32 : rule->min_ctas);

            if (p.in_place)
                continue;
            const double gain = stp_point_arm(&p, &arm)->gain.gain;
            n_decided += rule != nullptr;
            n_lost += gain < 1;
            EXPECT_TRUE(rule == nullptr || gain >= 1.02)
                << p.coll << " " << p.n_bytes << " " << gain;
        }
    }
    EXPECT_EQ(6, n_decided);
    EXPECT_EQ(18, n_lost);
    stp_policy_free(policy);
}

// The forward pass of a Llama, a CUDA graph whose all-reduces are all of one
// size, was that much faster with them staged by minCTAs 16, of 4 GPUs by 32.
TEST(StageRules, DecideAllReducesThatALlamaGainsBy)
{
    const TemporaryFolder folder;
    const struct {
        size_t n_ranks;
        uint64_t mib;
        double gain; // of the pass
        int ctas[2]; // of the rules, without and with overlap; -1: none
    } cases[] = {{2, 1, 1.014, {-1, -1}}, {2, 2, 1.112, {32, 32}},
                 {2, 4, 1.055, {32, -1}}, {2, 8, 1.026, {32, -1}},
                 {4, 2, 1.055, {32, 32}}, {4, 4, 1.061, {32, 32}},
                 {4, 8, 1.015, {32, 32}}};

    for (const auto &c : cases) {
        Data d;
        Load(c.n_ranks == 2 ? "h200x2_staged_steps.csv" // with iterations
                            : "h200x4_staged_graphs.csv",
             &d);
        stp_policy *policy = DeriveAndRead(d, folder.Path("p.stage"));
        for (bool overlaps : {false, true}) {
            const stp_memory_query query{
                ncclFuncAllReduce, c.mib << 20, c.n_ranks, 1,
                overlaps,          "",          true};
            const stp_rule *rule = stp_memory_policy_match(policy, &query);

            EXPECT_EQ(c.ctas[overlaps], rule == nullptr ? -1 : rule->min_ctas)
                << c.n_ranks << " x " << c.mib << " MiB, of " << c.gain << ", "
                << overlaps;
        }
        stp_policy_free(policy);
    }
}

// The rules of `--stage=all`, which no measurement of a user's machine chose.
TEST(StageRules, OfAllAreOfRecordedSizesThatStagingMakesShorter)
{
    const std::string machines = STP_FIXTURES "/machines/h200x";
    stp_policy *policy = nullptr;
    stp_error err{};
    size_t n_decided = 0;

    ASSERT_EQ(STP_OK,
              stp_policy_load_any(STP_FIXTURES "/../src/stage/all.conf.stage",
                                  &policy, &err))
        << err.text;
    for (size_t n : {2, 4}) { // sums by collective, bytes, graph and arm
        std::map<std::vector<std::string>, double> us;
        for (auto &row : mock_test::ReadCsv(machines + std::to_string(n) +
                                            "_graphs/timings.csv"))
            if (row["run"] == "window")
                us[{row["collective"], row["bytes"], row["graph"],
                    row["algorithm"]}] += std::stod(row["median_us"]);
        for (const auto &[row, staged] : us) {
            const int coll = mock_test::Find(mock_test::kColls, row[0]);
            const stp_memory_query query{coll, std::stoull(row[1]), n, 1, false,
                                         "",   row[2] == "1"};
            const stp_rule *rule = stp_memory_policy_match(policy, &query);

            if (rule == nullptr || row[3] != "stage/ctas=32-64")
                continue;
            EXPECT_LT(1.02, us.at({row[0], row[1], row[2], "auto"}) / staged)
                << n << " ranks: " << testing::PrintToString(row);
            n_decided++;
        }
    }
    stp_policy_free(policy);
    EXPECT_EQ(90u, n_decided);
}

} // namespace
