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
    const char *source = "measured";
};

std::string Text(const Row &r)
{
    double us = 5 + 10 + 10 + 5 * (r.slowdown - 1);
    std::stringstream row;
    row << "allreduce,4194304," << r.round << "," << r.arm << ",1,4,9";
    for (int i = 0; i < 5; i++)
        row << "," << us;
    row << "," << r.ran << ",24," << r.type << ",sum,0,0,," << r.source << ","
        << r.work << ",2,0.5," << r.gemm << ",5,10\n";
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
        {kSimple, 2, 7, "ring,simple", "bf16", "trace,gemm"},
        {kSimple, 2, 7, "ring,simple", "bf16", "overlap,training"},
        {kSimple, 2, 7, "ring,simple", "bf16", "sequential,training"},
        {kSimple, 2, 7, "ring,simple", "f32"},
        {"plugin,plugin,0", 2, 7},
        {"auto,simple,0", 2, 7, "-,-"},
        {"auto,simple,0", 2, 7, "-,simple"},
        {"ring,auto,0", 2, 7, "ring,-"},
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
                    testing::EndsWith("no row below the header of a GEMM in "
                                      "bf16 and a collective"));
    }
}

// A row of a mode at 4 MiB, of two layers of 5 us and collectives of 10.
std::string ModeText(const std::string &mode, const std::string &coll,
                     const std::string &arm, double us, int round = 0)
{
    std::stringstream row;
    row << coll << ",4194304," << round << "," << arm << ",1,4,9";
    for (int i = 0; i < 5; i++)
        row << "," << us;
    row << ",ring,simple,24,bf16,sum,0,0,,measured," << mode
        << ",gemm,2,0.5,64,32,16,5,10\n";
    return row.str();
}

class Modes : public Iterated
{
  protected:
    Machine LoadText(const std::string &rows)
    {
        folder_.Write("overlap.csv", kIterateHeader + rows);
        std::string timings = kTimingsHeader;
        for (const char *coll : {"allreduce", "allgather", "reducescatter"})
            for (const char *pair :
                 {"ring,simple,0", "ring,ll128,0", "sym,sym,0"})
                for (const char *n_bytes : {"1048576", "67108864"})
                    for (const char *round : {"1", "2"})
                        timings += std::string(coll) + "," + n_bytes + "," +
                                   pair + ",4,w," + round + ",9,10,10,10,10\n";
        folder_.Write("timings.csv", timings);
        return LoadFolder(folder_.Path());
    }
    std::string LoadError(const std::string &rows)
    {
        mock_machine *machine = nullptr;
        folder_.Write("overlap.csv", kIterateHeader + rows);
        EXPECT_NE(ncclSuccess,
                  mock_machine_load(folder_.Path().c_str(), &machine));
        std::string error = mock_last_error();
        return error.substr(std::min(error.size(), error.find("overlap.csv")));
    }
};

mock_time After(const Machine &machine, const mock_run &run,
                double compute_us = 5, double round = 0, double iteration = .5)
{
    mock_time time{};
    EXPECT_EQ(ncclSuccess,
              mock_machine_time_after(machine.get(), &run, compute_us, round,
                                      iteration, &time))
        << mock_last_error();
    return time;
}

const mock_run kGather{ncclFuncAllGather, 4 * kMiB, NCCL_ALGO_RING,
                       NCCL_PROTO_SIMPLE, 0};
const mock_run kScatter{ncclFuncReduceScatter, 4 * kMiB, NCCL_ALGO_RING,
                        NCCL_PROTO_SIMPLE, 0};

// Without slowing each other down.
TEST(FsdpIteration, TakesItsTime)
{
    const struct {
        double compute_us, gather_us, scatter_us;
        int n_layers;
        double want;
    } cases[] = {
        // gather, compute, scatter
        {5, 10, 20, 1, 35},
        // collectives hide compute: gathers 10 and 20, scatters 40 and 60
        {5, 10, 20, 2, 60},
        // computes end at 35 and 60, scatters begin there and at 55 or later
        {25, 10, 20, 2, 80},
        // the third gather, after the first scatter, ends at 65, its compute at
        // 90
        {25, 10, 20, 3, 110},
    };

    for (const auto &c : cases) {
        const mock_overlap o{c.compute_us, c.gather_us, 1, MOCK_TIME_RECORDED};

        const double us =
            mock_iteration_us(MOCK_MODE_FSDP, &o, c.scatter_us, c.n_layers);
        EXPECT_NEAR(c.want, us, 1e-9) << c.want;
    }
}

// An iteration has two layers: gather, then compute of 5 overlapped with the
// second gather of 10, scatter overlapped with the second compute, scatter: 10
// + 5s + 5 + 5s + 5 + 10.
TEST_F(Modes, AnFsdpIterationSlowsBothOfItsCollectives)
{
    const double us[] = {30 + 10 * 1.3, 30 + 10 * 1.7};
    Machine machine =
        LoadText(ModeText("fsdp", "allgather", kSimple, us[0]) +
                 ModeText("fsdp", "allgather", kSimple, us[1], 1));

    for (int round = 0; round < 2; round++)
        for (const mock_run &run : {kGather, kScatter}) {
            const mock_overlap o =
                Beside(machine, run, 5, round / 2., .5, MOCK_MODE_FSDP);
            EXPECT_NEAR(1.3 + .4 * round, o.slowdown, 1e-9);
            EXPECT_EQ(MOCK_TIME_RECORDED, o.source);
            EXPECT_NEAR(us[round], mock_iteration_us(MOCK_MODE_FSDP, &o, 10, 2),
                        1e-6);
        }
}

TEST_F(Modes, AnotherModeIsAModel)
{
    Machine machine = LoadText(ModeText("fsdp", "allgather", kSimple, 43) +
                               ModeText("overlap", "allreduce", kSimple, 26));
    const mock_overlap gather = Beside(machine, kGather, 5);
    const mock_overlap reduce =
        Beside(machine, Simple(4 * kMiB), 5, 0, .5, MOCK_MODE_FSDP);

    EXPECT_NEAR(1.3, gather.slowdown, 1e-9);
    EXPECT_EQ(MOCK_TIME_MODELLED, gather.source);
    EXPECT_NEAR(1.2, reduce.slowdown, 1e-9); // 5 + 5 x 1.2 + 5 + 10
    EXPECT_EQ(MOCK_TIME_MODELLED, reduce.source);
}

TEST_F(Modes, ASequentialIterationIsTheCollectiveAfterCompute)
{
    Machine machine = LoadText(
        ModeText("sequential", "allreduce", kSimple, 2 * (5 + 12)) +
        ModeText("sequential", "allreduce", kSimple, 2 * (5 + 14), 1) +
        ModeText("sequential", "allreduce", "sym,sym,0", 2 * (5 + 9)) +
        ModeText("sequential", "allreduce", "sym,sym,0", 2 * (5 + 9), 1));
    const mock_run sym{ncclFuncAllReduce, 4 * kMiB, MOCK_WAY_SYM, 0, 0};
    const mock_run ll128 = RingOf(4 * kMiB, NCCL_PROTO_LL128);

    EXPECT_NEAR(12, After(machine, Simple(4 * kMiB), 5, 0).us, 1e-9);
    EXPECT_NEAR(14, After(machine, Simple(4 * kMiB), 5, .5).us, 1e-9);
    EXPECT_NEAR(9, After(machine, sym).us, 1e-9);
    EXPECT_EQ(MOCK_TIME_RECORDED, After(machine, sym).source);
    // without records of its own, the mean of the others
    EXPECT_NEAR(std::sqrt(12. * 9), After(machine, ll128).us, 1e-9);
    EXPECT_EQ(MOCK_TIME_MODELLED, After(machine, ll128).source);
    // other sizes and collectives as they are alone
    EXPECT_NEAR(10, After(machine, Simple(8 * kMiB)).us, 1e-9);
    EXPECT_NE(MOCK_TIME_MODELLED, After(machine, Simple(8 * kMiB)).source);
    EXPECT_NEAR(10, After(machine, kGather).us, 1e-9);
    // and nothing of it overlaps
    EXPECT_NEAR(1.43, Beside(machine, Simple(4 * kMiB), 5).slowdown, 1e-9);
}

// The last column of a row.
std::string InGraph(std::string text)
{
    text.back() = ',';
    return text + "1\n";
}

TEST_F(Modes, AnIterationInAGraphHasTimesOfItsOwn)
{
    const std::string eager =
        ModeText("sequential", "allreduce", kSimple, 2 * (5 + 12)) +
        ModeText("overlap", "allreduce", kSimple, 26);
    std::string both = kIterateHeader;
    mock_run graph = Simple(4 * kMiB);

    graph.graph = true;
    Machine machine = LoadText(eager);
    EXPECT_FALSE(mock_machine_captures(machine.get()));
    EXPECT_NEAR(10, After(machine, graph).us, 1e-9);
    EXPECT_EQ(MOCK_TIME_MODELLED, After(machine, graph).source);
    both.replace(both.rfind('\n'), 1, ",graph\n");
    for (char c : eager)
        both += c == '\n' ? std::string(",0\n") : std::string(1, c);
    folder_.Write("overlap.csv",
                  both + InGraph(ModeText("sequential", "allreduce", kSimple,
                                          2 * (5 + 7))));
    machine = LoadFolder(folder_.Path());
    EXPECT_TRUE(mock_machine_captures(machine.get()));
    EXPECT_NEAR(12, After(machine, Simple(4 * kMiB)).us, 1e-9);
    EXPECT_NEAR(7, After(machine, graph).us, 1e-9);
    // none overlaps in a graph: as launched one by one
    EXPECT_NEAR(1.2, Beside(machine, graph, 5).slowdown, 1e-9);
    EXPECT_EQ(MOCK_TIME_MODELLED, Beside(machine, graph, 5).source);
    EXPECT_EQ(MOCK_TIME_RECORDED, Beside(machine, Simple(4 * kMiB), 5).source);
    mock_overlap_setting s[3] = {};
    EXPECT_EQ(2u, mock_machine_overlap_settings(machine.get(), s, 3));
}

TEST_F(Modes, SettingsNameTheirs)
{
    Machine machine =
        LoadText(ModeText("sequential", "allreduce", kSimple, 34) +
                 ModeText("fsdp", "allgather", kSimple, 43) +
                 ModeText("overlap", "allreduce", kSimple, 26));
    mock_overlap_setting s[5] = {};

    ASSERT_EQ(4u, mock_machine_overlap_settings(machine.get(), s, 5));
    EXPECT_EQ(MOCK_MODE_OVERLAP, s[0].mode);
    EXPECT_EQ(ncclFuncAllReduce, s[0].coll);
    EXPECT_EQ(MOCK_MODE_FSDP, s[1].mode);
    EXPECT_EQ(ncclFuncAllGather, s[1].coll);
    EXPECT_EQ(MOCK_MODE_FSDP, s[2].mode);
    EXPECT_EQ(ncclFuncReduceScatter, s[2].coll);
    EXPECT_EQ(MOCK_MODE_SEQUENTIAL, s[3].mode);
}

// The reduce-scatter of the pair is not recorded.
TEST_F(Modes, FsdpWithAPartOfAPairIsSkipped)
{
    Machine machine =
        LoadText(ModeText("fsdp", "allgather", kSimple, 43) +
                 ModeText("fsdp", "allgather", "ring,auto,0", 60, 0));

    EXPECT_NEAR(
        1.3, Beside(machine, kGather, 5, 0, .5, MOCK_MODE_FSDP).slowdown, 1e-9);
}

// NCCL's own choices for both collectives are a ring with Simple.
TEST_F(Modes, FsdpOfAutoIsOfNcclsOwnChoices)
{
    Machine machine =
        LoadText(ModeText("fsdp", "allgather", "auto,auto,0", 43) +
                 ModeText("fsdp", "allgather", "auto2,auto2,0", 47) +
                 ModeText("fsdp", "allgather", "auto,auto,8", 60));

    for (const mock_run &run : {kGather, kScatter}) {
        const mock_overlap o = Beside(machine, run, 5, 0, .5, MOCK_MODE_FSDP);
        EXPECT_NEAR(1.5, o.slowdown, 1e-9);
        EXPECT_EQ(MOCK_TIME_RECORDED, o.source);
    }
    for (mock_run run : {kGather, kScatter}) {
        run.n_channels = 8;
        EXPECT_EQ(MOCK_TIME_MODELLED,
                  Beside(machine, run, 5, 0, .5, MOCK_MODE_FSDP).source);
    }
}

TEST_F(Modes, BadRowsAreRefused)
{
    const std::string row = ModeText("fsdp", "allgather", kSimple, 43);
    EXPECT_EQ("overlap.csv:4: the same as line 3: one size, pair, channel "
              "count, run, round and graph",
              LoadError(row + row));
    EXPECT_THAT(LoadError(ModeText("fsdp", "allreduce", kSimple, 43)),
                testing::StartsWith("overlap.csv:3: mode fsdp of allreduce, "
                                    "expected allgather"));
    LoadText(ModeText("fsdp", "allgather", kSimple, 43));
    EXPECT_EQ("overlap.csv:3: mean_us 20 cannot be: 2 layers of 5 us, each "
              "with a collective of 10 us and a reduce-scatter of 10 us alone",
              LoadError(ModeText("fsdp", "allgather", kSimple, 20)));
    EXPECT_EQ("overlap.csv:3: mean_us 9 cannot be: 2 layers of 5 us, each "
              "with a collective of 10 us alone",
              LoadError(ModeText("sequential", "allreduce", kSimple, 9)));
    EXPECT_EQ("overlap.csv:3: timings.csv has no time of this arm's collective "
              "alone, and none is modelled",
              LoadError(ModeText("overlap", "allreduce", "reg,reg,0", 43)));
}

TEST_F(Modes, TimesAfterComputeRefuseWhatOverlapsDo)
{
    Machine machine =
        LoadText(ModeText("sequential", "allreduce", kSimple, 34));
    const mock_run run = Simple(4 * kMiB);
    mock_time time{};

    EXPECT_NEAR(12, After(machine, run).us, 1e-9);
    EXPECT_EQ(ncclInvalidArgument,
              mock_machine_time_after(machine.get(), &run, 0, 0, .5, &time));
    EXPECT_EQ(ncclInvalidArgument,
              mock_machine_time_after(machine.get(), &run, 5, 1, .5, &time));
    EXPECT_EQ(0, time.us);
}

TEST_F(Iterated, PartsOfAPairArePooledWithThePairThatRan)
{
    const struct {
        const char *part, *pair, *ran;
        mock_run run;
    } cases[] = {
        {"auto,simple,0", kSimple, "ring,simple", Simple(4 * kMiB)},
        {"ring,auto,0", kSimple, "ring,simple", Simple(4 * kMiB)},
        {"tree,auto,0",
         "tree,simple,0",
         "tree,simple",
         {ncclFuncAllReduce, 4 * kMiB, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0}},
        {"auto,ll,0", "ring,ll,0", "ring,ll", Ll(4 * kMiB)},
    };

    for (const auto &c : cases) {
        Row part{c.part, 1.6};
        part.ran = c.ran;
        Machine machine = LoadRows({{c.pair, 1.2}, part});
        EXPECT_NEAR(1.4, Beside(machine, c.run, 5).slowdown, 1e-9) << c.part;
    }
}

// Both columns say what ran, or none.
TEST_F(Overlap, WithoutThePairThatRanPartsOfAPairAreRefused)
{
    for (const char *column : {"", "ran_algorithm", "ran_protocol"}) {
        std::string header(kHeader, strlen(kHeader) - 1);
        std::string row = "allreduce,4194304,auto,simple,0,4,o,1,9,2,5,26,26,"
                          "26,26";
        mock_machine *machine = nullptr;
        if (*column != '\0') {
            header += std::string(",") + column;
            row += column == std::string("ran_protocol") ? ",simple" : ",ring";
        }
        folder_.Write("overlap.csv", header + "\n" + row + "\n");

        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_load(folder_.Path().c_str(), &machine));
        EXPECT_EQ(folder_.Path() +
                      "/overlap.csv:2: only one of algorithm and protocol is "
                      "auto",
                  mock_last_error())
            << column;
    }
}

TEST_F(Iterated, ChannelsAloneAreOfThePairThatRan)
{
    Machine machine =
        LoadRows({{kSimple, 1.2}, {"auto,auto,8", 1.6}, {"auto,auto,1", 1.8}});

    EXPECT_NEAR(1.6, Beside(machine, Simple(4 * kMiB, 8), 5).slowdown, 1e-9);
    EXPECT_NEAR(1.8, Beside(machine, Simple(4 * kMiB, 1), 5).slowdown, 1e-9);
}

TEST_F(Iterated, AutoOnceMoreIsAuto)
{
    Machine machine = LoadRows({{"auto,auto,0", 1.2}, {"auto2,auto2,0", 1.6}});
    mock_run run = OwnChoice(machine, 4 * kMiB);

    EXPECT_NEAR(1.4, Beside(machine, run, 5).slowdown, 1e-9);
    EXPECT_EQ(MOCK_TIME_RECORDED, Beside(machine, run, 5).source)
        << "of NCCL's own choice, not of the pair that ran";
}

} // namespace
