// Collectives overlapped with compute: recorded, interpolated and extrapolated.
#include <cmath>
#include <tuple>

#include "mock_nccl/machine/mock_overlap.h"
#include "support/with_param.h"

using namespace mock_test;

namespace
{

// ---- two streams ----

struct IterationCase {
    const char *name;
    double compute_us;
    double comm_us;
    double slowdown;
    int n_layers;
    double want;
};

using Iteration = testing::TestWithParam<IterationCase>;

TEST_P(Iteration, TakesItsTime)
{
    const IterationCase &c = GetParam();
    mock_overlap o{c.compute_us, c.comm_us, c.slowdown, MOCK_TIME_RECORDED};

    EXPECT_NEAR(c.want, mock_iteration_us(MOCK_MODE_OVERLAP, &o, 0, c.n_layers),
                1e-9 * c.want);
}

INSTANTIATE_TEST_SUITE_P(
    , Iteration,
    testing::Values(
        IterationCase{"OneLayerHasNothingToOverlap", 10, 7, 3, 1, 17},
        IterationCase{"ComputeHidesTheShorterCollective", 10, 4, 1, 8, 84},
        IterationCase{"CollectivesHideTheShorterCompute", 4, 10, 1, 8, 84},
        IterationCase{"BothSlowEachOther", 10, 10, 1.5, 8, 125},
        // compute 20, both for 10 x 1.5, compute 10, collective 10
        IterationCase{"TheRestOfComputeRunsAlone", 20, 10, 1.5, 2, 55},
        // compute 5, both for 5 x 2, collective 5, collective 10
        IterationCase{"TheRestOfCollectivesRunsAlone", 5, 10, 2, 2, 30},
        IterationCase{"HalfAMicrosecondOfComputeIsLeft", 10.5, 10, 1, 2, 31},
        IterationCase{"HalfAMicrosecondOfCollectivesIsLeft", 10, 10.5, 1, 2,
                      31},
        // compute 2, both for 2 x 2 twice, collective 6, collectives 20
        IterationCase{"CollectivesQueue", 2, 10, 2, 3, 36}),
    CaseName());

// ---- what was recorded on GPUs ----

using Key = std::tuple<size_t, double, int, int, int, int>;
struct Pooled {
    double mean, median, min;
    int n;
};

std::map<Key, Pooled> RecordedRows(const Machine &machine)
{
    std::map<Key, Pooled> pooled;

    for (const Row &row :
         ReadCsv(STP_FIXTURES "/machines/h200x4/overlap.csv")) {
        size_t n_bytes = std::stoul(row.at("bytes"));
        mock_run run = OwnChoice(machine, n_bytes);
        if (row.at("algorithm") != "auto")
            run = {ncclFuncAllReduce, n_bytes,
                   Find(kAlgos, row.at("algorithm")),
                   Find(kProtos, row.at("protocol")),
                   std::stoi(row.at("channels"))};
        Pooled &p =
            pooled[{n_bytes, std::stod(row.at("compute_us")), run.algo,
                    run.proto, run.n_channels, std::stoi(row.at("round"))}];
        p.mean += std::stod(row.at("mean_us"));
        p.median += std::stod(row.at("median_us"));
        p.min += std::stod(row.at("min_us"));
        p.n++;
    }
    return pooled;
}

TEST(RecordedOverlap, IsReproducedRoundByRound)
{
    Machine machine = LoadMachine("h200x4");
    std::map<Key, Pooled> rows = RecordedRows(machine);

    // 18 settings, 10 rounds; auto is ring/ll128 at 4 and 8 MiB, else a
    // seventh arm
    ASSERT_EQ(10u * (12 * 7 + 6 * 6), rows.size());
    for (const auto &[key, p] : rows) {
        auto [n_bytes, compute_us, algo, proto, channels, round] = key;
        const mock_run run{ncclFuncAllReduce, n_bytes, algo, proto, channels};
        double at = (round - .5) / 10;
        mock_overlap o = Beside(machine, run, compute_us, at);
        mock_overlap fastest = Beside(machine, run, compute_us, at, 0);
        double median = mock_iteration_us(MOCK_MODE_OVERLAP, &o, 0, 8);
        double least = mock_iteration_us(MOCK_MODE_OVERLAP, &fastest, 0, 8);
        double spread = o.compute_us / compute_us;

        EXPECT_EQ(MOCK_TIME_RECORDED, o.source);
        EXPECT_NEAR(p.mean / p.n, median / spread, 1e-7 * p.mean);
        EXPECT_NEAR(p.median / p.min, median / least, 1e-7);
    }
}

TEST(RecordedOverlap, ListsTheRecordedSettings)
{
    Machine machine = LoadMachine("h200x4");
    mock_overlap_setting settings[20] = {};
    settings[18].n_bytes = 77;

    EXPECT_EQ(10u, mock_machine_overlap_rounds(machine.get()));
    ASSERT_EQ(18u, mock_machine_overlap_settings(machine.get(), settings, 20));
    EXPECT_EQ(2 * kMiB, settings[0].n_bytes);
    EXPECT_EQ(11.7, settings[0].compute_us);
    EXPECT_EQ(8, settings[0].n_layers);
    EXPECT_EQ(35.2, settings[2].compute_us);
    EXPECT_EQ(4 * kMiB, settings[3].n_bytes);
    EXPECT_EQ(512.8, settings[17].compute_us);
    EXPECT_EQ(77u, settings[18].n_bytes) << "left alone";
    mock_overlap_setting some[2] = {};
    EXPECT_EQ(18u, mock_machine_overlap_settings(machine.get(), some, 1));
    EXPECT_EQ(2 * kMiB, some[0].n_bytes);
    EXPECT_EQ(0u, some[1].n_bytes);
}

// ---- made-up recordings ----

// A recorded slowdown of a ring with Simple, unless the arm is another.
struct Recorded {
    size_t mib;
    int round;
    double compute_us;
    double slowdown;
    const char *arm = "ring,simple,0";
};

// The slowdown of 'run' beside compute.
struct Wanted {
    mock_run run;
    double compute_us;
    double slowdown;
    mock_time_source source;
    double round = 0;
};

struct SlowdownCase {
    const char *name;
    std::vector<Recorded> records;
    std::vector<Wanted> wanted;
};

using Slowdown = WithParam<Overlap, SlowdownCase>;

TEST_P(Slowdown, IsThatOfTheRecords)
{
    for (const Recorded &r : GetParam().records)
        Add("allreduce," + std::to_string(r.mib * kMiB) + "," + r.arm, r.round,
            r.compute_us, r.slowdown);
    Machine machine = Load();

    for (const Wanted &w : GetParam().wanted) {
        mock_overlap o = Beside(machine, w.run, w.compute_us, w.round);
        EXPECT_NEAR(w.slowdown, o.slowdown, 1e-9)
            << w.run.n_bytes << " " << w.compute_us;
        EXPECT_EQ(w.source, o.source) << w.run.n_bytes << " " << w.compute_us;
        if (w.source == MOCK_TIME_RECORDED) {
            EXPECT_NEAR(10, o.comm_us, 1e-9);
        }
        EXPECT_DOUBLE_EQ(w.compute_us, o.compute_us);
    }
}

constexpr size_t M = kMiB;
constexpr mock_time_source kRecorded = MOCK_TIME_RECORDED;
constexpr mock_time_source kBetween = MOCK_TIME_INTERPOLATED;
constexpr mock_time_source kModelled = MOCK_TIME_MODELLED;
const std::vector<Recorded> kFour = {
    {4, 1, 5, 1.2}, {4, 1, 20, 1.4}, {16, 1, 5, 1.6}, {16, 1, 20, 1.8}};
const std::vector<Recorded> kArms = {{4, 1, 5, 1.2},
                                     {4, 1, 5, 1.1, "ring,simple,8"},
                                     {4, 1, 5, 1.6, "tree,simple,0"}};
const mock_run kTree{ncclFuncAllReduce, 4 * M, NCCL_ALGO_TREE,
                     NCCL_PROTO_SIMPLE, 12};

mock_run Gather(size_t n_bytes)
{
    return {ncclFuncAllGather, n_bytes, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
}

const mock_run kCopies{ncclFuncAllReduce, 4 * M, MOCK_WAY_CE, 0, 0};

// clang-format off
const SlowdownCase kSlowdowns[] = {
    {"of_a_round", {{4, 1, 5, 1.25}, {4, 2, 5, 1.5}},
     {{Simple(4 * M), 5, 1.25, kRecorded, .4999}, {Simple(4 * M), 5, 1.5, kRecorded, .5}}},
    {"between_ratios_on_a_line_in_logarithms", {{4, 1, 5, 1.2}, {4, 1, 20, 1.8}},
     {{Simple(4 * M), 10, std::sqrt(1.2 * 1.8), kBetween}}},
    {"between_sizes_on_a_line_in_logarithms", {{4, 1, 5, 1.2}, {16, 1, 5, 1.8}},
     {{Simple(8 * M), 5, std::sqrt(1.2 * 1.8), kBetween}}},
    {"between_sizes_in_the_same_round", {{4, 1, 5, 1.2}, {4, 2, 5, 1.4}, {16, 1, 5, 1.2}, {16, 2, 5, 1.4}},
     {{Simple(8 * M), 5, 1.2, kBetween, 0}, {Simple(8 * M), 5, 1.4, kBetween, .9}}},
    {"beyond_the_records_is_constant_and_modelled", kFour,
     {{Simple(4 * M), 4.7, 1.2, kModelled}, {Simple(4 * M), 21.1, 1.4, kModelled}, {Simple(2 * M), 5, 1.2, kModelled},
      {Simple(32 * M), 20, 1.8, kModelled}, {Simple(16 * M), 99, 1.8, kModelled}, {Simple(1 * M), 1, 1.2, kModelled},
      {Simple(8 * M), 1, std::sqrt(1.2 * 1.6), kModelled}}},
    {"just_beyond_a_recorded_ratio_is_interpolated", {{4, 1, 5, 1.2}, {4, 1, 20, 1.4}},
     {{Simple(4 * M), 4.8, 1.2, kBetween}, {Simple(4 * M), 20.9, 1.4, kBetween}}},
    {"between_a_wide_and_a_narrow_size_has_the_less_reliable_source",
     {{4, 1, 5, 1.2}, {4, 1, 20, 1.2}, {16, 1, 5, 1.2}, {16, 1, 10, 1.2}},
     {{Simple(8 * M), 9, 1.2, kBetween}, {Simple(8 * M), 15, 1.2, kModelled}}},
    {"between_a_narrow_and_a_wide_size_has_the_less_reliable_source",
     {{16, 1, 5, 1.2}, {16, 1, 20, 1.2}, {4, 1, 5, 1.2}, {4, 1, 10, 1.2}},
     {{Simple(8 * M), 9, 1.2, kBetween}, {Simple(8 * M), 15, 1.2, kModelled}}},
    {"of_another_arm_is_the_mean_of_the_recorded_ones", kArms,
     {{Simple(4 * M, 8), 5, 1.1, kRecorded}, {Simple(4 * M, 12), 5, std::sqrt(1.2 * 1.1), kModelled},
      {RingOf(4 * M, NCCL_PROTO_LL128), 5, std::cbrt(1.2 * 1.1 * 1.6), kModelled}, {kTree, 5, 1.6, kModelled}}},
    {"of_all_channels_is_that_of_nccls_own_count", {{4, 1, 5, 1.2}},
     {{Simple(4 * M, 24), 5, 1.2, kRecorded}, {Simple(4 * M, 32), 5, 1.2, kRecorded},
      {Simple(4 * M, 64), 5, 1.2, kRecorded}}},
    {"of_a_ratio_that_another_size_alone_has_is_not_that_sizes", {{4, 1, 5, 1.2}, {16, 1, 20, 1.6}},
     {{Simple(4 * M), 20, 1.2, kModelled}, {Simple(4 * M), 30, 1.2, kModelled}, {Simple(16 * M), 5, 1.6, kModelled}}},
    {"of_another_collective_is_the_mean_of_all_arms_at_their_own_sizes",
     {{4, 1, 5, 1.2, "tree,simple,0"}, {16, 1, 5, 1.6}},
     {{Gather(16 * M), 5, std::sqrt(1.2 * 1.6), kModelled}, {Gather(32 * M), 5, std::sqrt(1.2 * 1.6), kModelled},
      {Gather(1 * M), 5, std::sqrt(1.2 * 1.6), kModelled}}},
    {"of_a_collective_without_any_records_is_the_mean_of_all_arms", kArms,
     {{{ncclFuncBroadcast, 4 * M, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0}, 5, std::cbrt(1.2 * 1.1 * 1.6), kModelled}}},
    {"of_a_size_that_no_arm_covers_is_the_mean_of_all_arms", {{4, 1, 5, 1.2, "tree,simple,0"}, {4, 1, 5, 1.6}},
     {{RingOf(8 * M, NCCL_PROTO_LL128), 5, std::sqrt(1.2 * 1.6), kModelled},
      {RingOf(2 * M, NCCL_PROTO_LL128), 5, std::sqrt(1.2 * 1.6), kModelled},
      {RingOf(4 * M, NCCL_PROTO_LL128), 5, std::sqrt(1.2 * 1.6), kModelled}}},
    {"between_sizes_is_no_better_than_the_time_alone", // of 4 channels, where 8 are the fewest alone
     {{4, 1, 5, 1.2, "ring,simple,4"}, {16, 1, 5, 1.8, "ring,simple,4"}},
     {{Simple(4 * M, 4), 5, 1.2, kRecorded}, {Simple(8 * M, 4), 5, std::sqrt(1.2 * 1.8), kModelled}}},
    {"of_copy_engines_without_records_is_none", {}, {{kCopies, 5, 1, kModelled}, {Simple(4 * M), 5, 1.43, kModelled}}},
    {"of_copy_engines_with_records_of_kernels_is_none", kArms, {{kCopies, 5, 1, kModelled}}},
    {"of_copy_engines_is_that_of_their_records", {{4, 1, 5, 1.2}, {4, 1, 5, 1.1, "ce,ce,0"}},
     {{kCopies, 5, 1.1, kRecorded}}},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Slowdown, testing::ValuesIn(kSlowdowns),
                         CaseName());

TEST(NoOverlap, IsModelled)
{
    Folder folder;
    Machine machine = LoadFolder(folder.Path());
    mock_overlap o = Beside(machine, Simple(4 * kMiB), 5);

    EXPECT_NEAR(1.43, o.slowdown, 1e-12);
    EXPECT_EQ(MOCK_TIME_MODELLED, o.source);
    EXPECT_EQ(Mean(machine, Simple(4 * kMiB)).us, o.comm_us);
    EXPECT_EQ(0u, mock_machine_overlap_rounds(machine.get()));
    EXPECT_EQ(0u, mock_machine_overlap_settings(machine.get(), nullptr, 0));
}

// ---- refusals ----

TEST(RecordedOverlap, RejectsInvalidQueries)
{
    const struct {
        double compute_us, round, iteration;
        size_t n_bytes;
        const char *error; // NULL: any
    } cases[] = {{0, 0, 0, 4 * kMiB, nullptr},
                 {-1, 0, 0, 4 * kMiB, nullptr},
                 {1, 1, 0, 4 * kMiB, nullptr},
                 {1, 0, -.1, 4 * kMiB, nullptr},
                 {1, 0, 1, 4 * kMiB, nullptr},
                 {1, 0, 0, 0, nullptr},
                 {HUGE_VAL, 0, 0, 4 * kMiB, nullptr},
                 {NAN, 0, 0, 4 * kMiB, "no compute of nan us"}};
    Machine machine = LoadMachine("h200x4");
    mock_overlap o{7, 7, 7, MOCK_TIME_RECORDED};

    for (const auto &c : cases) {
        mock_run run = Simple(4 * kMiB);
        run.n_bytes = c.n_bytes;
        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_overlap(machine.get(), &run, MOCK_MODE_OVERLAP,
                                       c.compute_us, c.round, c.iteration, &o));
        if (c.error != nullptr)
            EXPECT_STREQ(c.error, mock_last_error());
    }
    EXPECT_EQ(7, o.slowdown);
}

TEST_F(Overlap, RefusesRowsAndSaysWhichAndWhy)
{
    const std::string row = std::string(kSimple4) + ",4,o,1,9,2,5,";
    const std::string other = std::string(kSimple16) + ",4,o,";
    const std::pair<std::string, const char *> cases[] = {
        {kSimple4 + std::string(",4,o,1,9,2,fast,50,50,50,50\n"),
         "2: column 'compute_us': 'fast' is not a number above 0"},
        {kSimple4 + std::string(",4,o,1,9,0,5,50,50,50,50\n"),
         "2: column 'layers': '0' is not a whole number from 1 to 65536"},
        {kSimple4 + std::string(",4,o,1,9,65537,5,50,50,50,50\n"),
         "2: column 'layers': '65537' is not a whole number from 1 to 65536"},
        {row + "15,15,15,15\n", "2: mean_us 15 cannot be: 2 layers of 5 us, "
                                "each with a collective of 10 us alone"},
        {row + "26,26,26,26\n" + kSimple4 + ",4,o,3,9,2,5,26,26,26,26\n",
         "3: round 3, but round 2 is the next of this size, compute_us and "
         "arm"},
        {row + "26,26,26,26\n" + kSimple4 + ",4,o,2,9,2,5,26,26,26,26\n" +
             other + "1,9,2,6,27,27,27,27\n" + other + "2,9,2,6,27,27,27,27\n" +
             other + "1,9,2,7,28,28,28,28\n",
         "6: 1 rounds of this size, compute_us and arm, but line 2 begins 2 of "
         "others, expected as many of all"},
        {row + "26,26,26,26\n" + kSimple4 + ",4,o,2,9,3,5,50,50,50,50\n",
         "3: 3 layers, but line 2 has 2 with the same compute_us"}};

    Load();
    for (const auto &[rows, error] : cases) {
        rows_ = rows;
        EXPECT_EQ("overlap.csv:" + std::string(error), Error());
    }
}

} // namespace
