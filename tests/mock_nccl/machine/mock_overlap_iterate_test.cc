// The output of `steptune iterate` as a machine's overlap.csv.
#include "mock_nccl/machine/mock_overlap.h"

using namespace mock_test;

namespace
{

constexpr char kSimple[] = "ring,simple,0";

constexpr char kIterateHeader[] =
    "# steptune iterate\n"
    "collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,iters,"
    "mean_us,median_us,p95_us,p99_us,min_us,ran_algorithm,ran_protocol,"
    "ran_channels,type,op,root,in_place,wrong,source,mode,compute,layers,ratio,"
    "m,n,k,compute_us,alone_us\n";

// A row at 4 MiB, of two layers of 5 us.
struct Row {
    const char *arm; // algorithm, protocol, channels
    double slowdown;
    int round = 0;
    const char *ran = "ring,simple";
    const char *type = "bf16";
    const char *work = "overlap,gemm";
    const char *gemm = "64,32,16"; // m, n, k
};

std::string Text(const Row &r)
{
    double us = 5 + 10 + 10 + 5 * (r.slowdown - 1);
    std::stringstream row;
    row << "allreduce,4194304," << r.round << "," << r.arm << ",1,4,9";
    for (int i = 0; i < 5; i++)
        row << "," << us;
    row << "," << r.ran << ",24," << r.type << ",sum,0,0,,measured," << r.work
        << ",2,0.5," << r.gemm << ",5,10\n";
    return row.str();
}

class Iterated : public Overlap
{
  protected:
    Machine LoadRows(const std::vector<Row> &rows)
    {
        std::string text = kIterateHeader;
        for (const Row &row : rows)
            text += Text(row);
        folder_.Write("overlap.csv", text);
        return Load();
    }
};

TEST_F(Iterated, IsARecordingToo)
{
    Machine machine = LoadRows({{kSimple, 1.2}, {kSimple, 1.6, 1}});
    mock_overlap_setting setting{};

    EXPECT_EQ(2u, mock_machine_overlap_rounds(machine.get()));
    EXPECT_NEAR(1.2, Beside(machine, Simple(4 * kMiB), 5, .25).slowdown, 1e-9);
    EXPECT_NEAR(1.6, Beside(machine, Simple(4 * kMiB), 5, .75).slowdown, 1e-9);
    ASSERT_EQ(1u, mock_machine_overlap_settings(machine.get(), &setting, 1));
    EXPECT_EQ(5, setting.compute_us);
    EXPECT_EQ(2, setting.n_layers);
    EXPECT_EQ(32u, setting.n);
}

TEST_F(Iterated, SkipsRowsWithoutAPairThatOverlapsAGemm)
{
    const Row cases[] = {
        {kSimple, 2, 7, "ring,simple", "bf16", "sequential,gemm"},
        {kSimple, 2, 7, "ring,simple", "bf16", "fsdp,gemm"},
        {kSimple, 2, 7, "ring,simple", "bf16", "overlap,training"},
        {kSimple, 2, 7, "ring,simple", "f32"},
        {"plugin,plugin,0", 2, 7},
        {"auto,simple,0", 2, 7, "-,-"},
    };

    for (const Row &other : cases) {
        SCOPED_TRACE(Text(other));
        Machine machine = LoadRows({{kSimple, 1.2}, other});
        EXPECT_EQ(1u, mock_machine_overlap_rounds(machine.get()));
        EXPECT_NEAR(1.2, Beside(machine, Simple(4 * kMiB), 5).slowdown, 1e-9);

        folder_.Write("overlap.csv", kIterateHeader + Text(other));
        mock_machine *none = nullptr;
        EXPECT_NE(ncclSuccess,
                  mock_machine_load(folder_.Path().c_str(), &none));
        EXPECT_THAT(mock_last_error(),
                    testing::EndsWith("no row below the header of a product in "
                                      "bf16 beside a collective"));
    }
}

TEST_F(Iterated, PartsOfAPairArePooledWithThePairThatRan)
{
    for (const char *arm : {"auto,simple,0", "ring,auto,0"}) {
        Machine machine = LoadRows({{kSimple, 1.2}, {arm, 1.6}});
        EXPECT_NEAR(1.4, Beside(machine, Simple(4 * kMiB), 5).slowdown, 1e-9)
            << arm;
    }
}

TEST_F(Iterated, ChannelsAloneAreOfThePairThatRan)
{
    Machine machine = LoadRows({{kSimple, 1.2}, {"auto,auto,8", 1.6}});

    EXPECT_NEAR(1.6, Beside(machine, Simple(4 * kMiB, 8), 5).slowdown, 1e-9);
}

TEST_F(Iterated, AutoOnceMoreIsAuto)
{
    Machine machine = LoadRows({{"auto,auto,0", 1.2}, {"auto2,auto2,0", 1.6}});
    mock_run run = OwnChoice(machine, 4 * kMiB);

    EXPECT_NEAR(1.4, Beside(machine, run, 5).slowdown, 1e-9);
}

TEST_F(Iterated, GemmsHaveSidesOfAtMost16Mi)
{
    const struct {
        const char *gemm;
        const char *column; // nullptr: all fit
    } cases[] = {{"16777216,16777216,16777216", nullptr},
                 {"16777217,32,16", "m"},
                 {"64,16777217,16", "n"},
                 {"64,32,16777217", "k"}};

    for (const auto &c : cases) {
        Row row{kSimple, 1.2};
        row.gemm = c.gemm;
        if (c.column == nullptr) {
            EXPECT_EQ(1u, mock_machine_overlap_rounds(LoadRows({row}).get()));
            continue;
        }
        mock_machine *machine = nullptr;
        folder_.Write("overlap.csv", kIterateHeader + Text(row));
        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_load(folder_.Path().c_str(), &machine));
        EXPECT_THAT(mock_last_error(),
                    testing::EndsWith("column '" + std::string(c.column) +
                                      "': '16777217' is not a whole number "
                                      "from 1 to 16777216"));
    }
}

} // namespace
