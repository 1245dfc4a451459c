// Collectives overlapped with compute: recorded, interpolated and extrapolated.
#include <cmath>
#include <tuple>

#include <gmock/gmock.h>

#include "mock_nccl/machine/mock_overlap.h"

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

class Iteration : public testing::TestWithParam<IterationCase>
{
};

TEST_P(Iteration, TakesItsTime)
{
    const IterationCase &c = GetParam();
    mock_overlap o{c.compute_us, c.comm_us, c.slowdown, MOCK_TIME_RECORDED};

    EXPECT_NEAR(c.want, mock_overlapped_us(&o, c.n_layers), 1e-9 * c.want);
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
        double median = mock_overlapped_us(&o, 8);
        double spread = o.compute_us / compute_us;

        EXPECT_EQ(MOCK_TIME_RECORDED, o.source);
        EXPECT_NEAR(p.mean / p.n, median / spread, 1e-7 * p.mean);
        EXPECT_NEAR(p.median / p.min, median / mock_overlapped_us(&fastest, 8),
                    1e-7);
    }
}

TEST(RecordedOverlap, ListsTheRecordedSettings)
{
    Machine machine = LoadMachine("h200x4");
    mock_overlap_setting settings[20] = {};

    EXPECT_EQ(10u, mock_machine_overlap_rounds(machine.get()));
    ASSERT_EQ(18u, mock_machine_overlap_settings(machine.get(), settings, 20));
    EXPECT_EQ(2 * kMiB, settings[0].n_bytes);
    EXPECT_EQ(11.7, settings[0].compute_us);
    EXPECT_EQ(8, settings[0].n_layers);
    EXPECT_EQ(35.2, settings[2].compute_us);
    EXPECT_EQ(4 * kMiB, settings[3].n_bytes);
    EXPECT_EQ(512.8, settings[17].compute_us);
    EXPECT_EQ(18u, mock_machine_overlap_settings(machine.get(), settings, 1));
}

// The result of the recording: no arm is faster than NCCL's own choice.
TEST(RecordedOverlap, KeepsTheOrderOfTheArms)
{
    Machine machine = LoadMachine("h200x4");
    mock_overlap own =
        Beside(machine, OwnChoice(machine, 32 * kMiB), 124.7, .05);
    mock_overlap ll128 =
        Beside(machine, RingOf(32 * kMiB, NCCL_PROTO_LL128), 124.7, .05);

    EXPECT_LT(mock_overlapped_us(&own, 8), mock_overlapped_us(&ll128, 8));
}

// ---- made-up recordings ----

TEST_F(Overlap, IsOneNumberARow)
{
    Add(kSimple4, 1, 5, 1.25);
    Add(kSimple4, 2, 5, 1.5);
    Machine machine = Load();
    mock_overlap o = Beside(machine, Simple(4 * kMiB), 5, .5);

    EXPECT_NEAR(1.25, Beside(machine, Simple(4 * kMiB), 5, .4999).slowdown,
                1e-9);
    EXPECT_NEAR(1.5, o.slowdown, 1e-9);
    EXPECT_NEAR(10, o.comm_us, 1e-9);
    EXPECT_DOUBLE_EQ(5, o.compute_us);
    EXPECT_EQ(MOCK_TIME_RECORDED, o.source);
}

TEST_F(Overlap, LiesBetweenRatiosOnALineInLogarithms)
{
    Add(kSimple4, 1, 5, 1.2);
    Add(kSimple4, 1, 20, 1.8);
    Machine machine = Load();
    mock_overlap o = Beside(machine, Simple(4 * kMiB), 10);

    EXPECT_NEAR(std::sqrt(1.2 * 1.8), o.slowdown, 1e-9);
    EXPECT_EQ(MOCK_TIME_INTERPOLATED, o.source);
}

TEST_F(Overlap, LiesBetweenSizesOnALineInLogarithms)
{
    Add(kSimple4, 1, 5, 1.2);
    Add(kSimple16, 1, 5, 1.8);
    Machine machine = Load();
    mock_overlap o = Beside(machine, Simple(8 * kMiB), 5);

    EXPECT_NEAR(std::sqrt(1.2 * 1.8), o.slowdown, 1e-9);
    EXPECT_EQ(MOCK_TIME_INTERPOLATED, o.source);
}

TEST_F(Overlap, KeepsToTheRoundBetweenSizes)
{
    Add(kSimple4, 1, 5, 1.2);
    Add(kSimple4, 2, 5, 1.4);
    Add(kSimple16, 1, 5, 1.2);
    Add(kSimple16, 2, 5, 1.4);
    Machine machine = Load();

    EXPECT_NEAR(1.2, Beside(machine, Simple(8 * kMiB), 5, 0).slowdown, 1e-9);
    EXPECT_NEAR(1.4, Beside(machine, Simple(8 * kMiB), 5, .9).slowdown, 1e-9);
}

struct BeyondCase {
    size_t n_bytes;
    double compute_us;
    double want;
};

TEST_F(Overlap, IsConstantAndModelledBeyondTheRecords)
{
    Add(kSimple4, 1, 5, 1.2);
    Add(kSimple4, 1, 20, 1.4);
    Add(kSimple16, 1, 5, 1.6);
    Add(kSimple16, 1, 20, 1.8);
    Machine machine = Load();
    const BeyondCase cases[] = {
        {4 * kMiB, 4.7, 1.2},
        {4 * kMiB, 21.1, 1.4},
        {2 * kMiB, 5, 1.2},
        {32 * kMiB, 20, 1.8},
        {16 * kMiB, 99, 1.8},
        {1 * kMiB, 1, 1.2},
        {8 * kMiB, 1, std::sqrt(1.2 * 1.6)},
    };

    for (const BeyondCase &c : cases) {
        mock_overlap o = Beside(machine, Simple(c.n_bytes), c.compute_us);
        EXPECT_NEAR(c.want, o.slowdown, 1e-9)
            << c.n_bytes << " " << c.compute_us;
        EXPECT_EQ(MOCK_TIME_MODELLED, o.source);
    }
}

TEST_F(Overlap, JustBeyondARecordedRatioIsInterpolated)
{
    Add(kSimple4, 1, 5, 1.2);
    Add(kSimple4, 1, 20, 1.4);
    Machine machine = Load();

    for (double compute_us : {4.8, 20.9}) {
        mock_overlap o = Beside(machine, Simple(4 * kMiB), compute_us);
        EXPECT_NEAR(compute_us < 5 ? 1.2 : 1.4, o.slowdown, 1e-9);
        EXPECT_EQ(MOCK_TIME_INTERPOLATED, o.source);
    }
}

TEST_F(Overlap, BetweenSizesHasTheLessReliableSource)
{
    for (bool swap : {false, true}) {
        rows_ = "";
        Add(swap ? kSimple16 : kSimple4, 1, 5, 1.2);
        Add(swap ? kSimple16 : kSimple4, 1, 20, 1.4);
        Add(swap ? kSimple4 : kSimple16, 1, 5, 1.2);
        Add(swap ? kSimple4 : kSimple16, 1, 10, 1.6);
        Machine machine = Load();

        EXPECT_EQ(MOCK_TIME_INTERPOLATED,
                  Beside(machine, Simple(8 * kMiB), 9).source);
        EXPECT_EQ(MOCK_TIME_MODELLED,
                  Beside(machine, Simple(8 * kMiB), 15).source);
    }
}

TEST_F(Overlap, OfAnotherArmIsTheMeanOfTheRecordedOnes)
{
    Add(kSimple4, 1, 5, 1.2);
    Add("allreduce,4194304,ring,simple,8", 1, 5, 1.1);
    Add("allreduce,4194304,tree,simple,0", 1, 5, 1.6);
    Machine machine = Load();
    mock_run ll128 = RingOf(4 * kMiB, NCCL_PROTO_LL128);
    mock_overlap few = Beside(machine, Simple(4 * kMiB, 8), 5);
    mock_overlap other = Beside(machine, Simple(4 * kMiB, 12), 5);
    mock_overlap pair = Beside(machine, ll128, 5);
    mock_overlap tree = Beside(
        machine,
        {ncclFuncAllReduce, 4 * kMiB, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 12},
        5);

    EXPECT_NEAR(1.1, few.slowdown, 1e-9);
    EXPECT_EQ(MOCK_TIME_RECORDED, few.source);
    EXPECT_NEAR(std::sqrt(1.2 * 1.1), other.slowdown, 1e-9);
    EXPECT_EQ(MOCK_TIME_MODELLED, other.source);
    EXPECT_NEAR(std::cbrt(1.2 * 1.1 * 1.6), pair.slowdown, 1e-9);
    EXPECT_EQ(MOCK_TIME_MODELLED, pair.source);
    EXPECT_NEAR(1.6, tree.slowdown, 1e-9);
}

TEST_F(Overlap, OfAllChannelsIsThatOfNcclsOwnCount)
{
    Add(kSimple4, 1, 5, 1.2);
    Machine machine = Load();

    for (int n : {24, 32, 64}) {
        mock_overlap o = Beside(machine, Simple(4 * kMiB, n), 5);
        EXPECT_NEAR(1.2, o.slowdown, 1e-9);
        EXPECT_EQ(MOCK_TIME_RECORDED, o.source);
    }
}

TEST_F(Overlap, SpreadsBothTimesAlike)
{
    rows_ = std::string(kSimple4) + ",4,o,1,9,2,5,25,24,30,20\n";
    Machine machine = Load();
    mock_overlap fast = Beside(machine, Simple(4 * kMiB), 5, 0, 0);
    mock_overlap slow = Beside(machine, Simple(4 * kMiB), 5, 0, .95);

    EXPECT_NEAR(20, mock_overlapped_us(&fast, 2), 1e-6);
    EXPECT_NEAR(30, mock_overlapped_us(&slow, 2), 1e-6);
    EXPECT_NEAR(5. * 20 / 25, fast.compute_us, 1e-9);
    EXPECT_NEAR(10. * 30 / 25, slow.comm_us, 1e-9);
    EXPECT_EQ(fast.slowdown, slow.slowdown);
}

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
    Machine machine = LoadMachine("h200x4");
    mock_run run = Simple(4 * kMiB);
    mock_overlap o{7, 7, 7, MOCK_TIME_RECORDED};

    for (double compute : {0., -1., HUGE_VAL, std::nan("")})
        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_overlap(machine.get(), &run, compute, 0, 0, &o));
    EXPECT_STREQ("no compute of nan us", mock_last_error());
    EXPECT_EQ(ncclInvalidArgument,
              mock_machine_overlap(machine.get(), &run, 1, 1, 0, &o));
    EXPECT_EQ(ncclInvalidArgument,
              mock_machine_overlap(machine.get(), &run, 1, 0, -.1, &o));
    run.n_bytes = 0;
    EXPECT_EQ(ncclInvalidArgument,
              mock_machine_overlap(machine.get(), &run, 1, 0, 0, &o));
    EXPECT_EQ(7, o.slowdown);
}

TEST_F(Overlap, RejectsTimesThatNoSlowdownExplains)
{
    Load();
    AddMean(kSimple4, 1, 5, 15);
    EXPECT_EQ("overlap.csv:2: mean_us 15 cannot be: 2 layers of 5 us, each "
              "with a collective of 10 us alone",
              Error());
}

TEST_F(Overlap, RefusesAGapInTheRounds)
{
    Load();
    Add(kSimple4, 1, 5, 1.2);
    Add(kSimple4, 3, 5, 1.2);
    EXPECT_EQ("overlap.csv:3: round 3, but round 2 is the next of this size, "
              "compute_us and arm",
              Error());
}

TEST_F(Overlap, RefusesSettingsWithFewerRounds)
{
    Load();
    Add(kSimple4, 1, 5, 1.2);
    Add(kSimple4, 2, 5, 1.2);
    Add(kSimple16, 1, 6, 1.2);
    Add(kSimple16, 2, 6, 1.2);
    Add(kSimple16, 1, 7, 1.2);
    EXPECT_EQ("overlap.csv: 2 rounds with compute_us 5, but others have 1",
              Error());
}

TEST_F(Overlap, RefusesTwoNumbersOfLayersForOneSetting)
{
    Load();
    Add(kSimple4, 1, 5, 1.2);
    rows_ += std::string(kSimple4) + ",4,o,2,9,3,5,50,50,50,50\n";
    EXPECT_EQ("overlap.csv:3: 3 layers, but line 2 has 2 with the same "
              "compute_us",
              Error());
}

TEST_F(Overlap, NamesTheColumnOfABadField)
{
    Load();
    rows_ = std::string(kSimple4) + ",4,o,1,9,2,fast,50,50,50,50\n";
    EXPECT_THAT(Error(), testing::StartsWith("overlap.csv:2:"));
    EXPECT_THAT(Error(), testing::HasSubstr("compute_us"));
    rows_ = std::string(kSimple4) + ",4,o,1,9,0,5,50,50,50,50\n";
    EXPECT_THAT(Error(), testing::HasSubstr("layers"));
}

} // namespace
