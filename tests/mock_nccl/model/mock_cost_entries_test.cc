// The entries of every version's cost model, compared with those of NCCL's
// code.
#include <fstream>
#include <sstream>
#include <tuple>
#include <vector>

extern "C" {
#include "base/names.h"
#include "model/cost_model.h"
}
#include "mock_nccl/model/mock_cost_machines.h"
#include "support/mock_test.h"

namespace
{

struct Row {
    std::string machine, algo_variable, proto_variable, coll;
    size_t n_bytes;
    int n_ops;
    std::string algo, proto;
    std::vector<std::string> us; // by version
};

// The words of a line; none for a comment.
std::vector<std::string> Words(const std::string &line)
{
    std::istringstream text(line);
    std::vector<std::string> words;
    std::string word;

    while (line[0] != '#' && text >> word)
        words.push_back(word);
    return words;
}

// Reads the file's rows, and its header's versions.
std::vector<Row> Rows(std::vector<std::string> *versions)
{
    std::ifstream file(STP_FIXTURES "/cost_models/entries.txt");
    std::vector<Row> rows;
    std::string line;

    while (std::getline(file, line)) {
        std::vector<std::string> words = Words(line);
        if (words.empty())
            continue;
        std::vector<std::string> rest(words.begin() + 8, words.end());
        if (versions->empty())
            *versions = rest;
        else
            rows.push_back({words[0], words[1], words[2], words[3],
                            std::stoul(words[4]), std::stoi(words[5]), words[6],
                            words[7], rest});
    }
    return rows;
}

const CostMachine &Find(const std::string &name)
{
    for (const CostMachine &machine : kCostMachines)
        if (name == machine.name)
            return machine;
    throw std::out_of_range(name);
}

mock_graphs GraphsOf(const CostMachine &machine)
{
    const int ids[] = {MOCK_GRAPH_RING, MOCK_GRAPH_TREE,
                       MOCK_GRAPH_COLLNET_CHAIN, MOCK_GRAPH_NVLS,
                       MOCK_GRAPH_COLLNET_DIRECT};
    mock_graphs graphs{};

    for (int i = 0; i < MOCK_N_GRAPHS; i++) {
        const CostGraph &g = machine.graphs[i];
        graphs.graph[ids[i]] = {g.pattern,
                                g.n_channels,
                                g.bw_intra,
                                g.bw_inter,
                                g.latency_inter,
                                static_cast<mock_path>(g.type_intra),
                                static_cast<mock_path>(g.type_inter),
                                g.same_channels,
                                g.n_heads,
                                g.heads_chains};
    }
    return graphs;
}

mock_machine_info InfoOf(const CostMachine &machine)
{
    mock_machine_info info{};

    info.compute_capability = machine.compute_capability;
    info.n_ranks = machine.n_nodes * machine.per_node;
    info.n_nodes = machine.n_nodes;
    info.n_channels = 2 * std::min(machine.graphs[0].n_channels,
                                   machine.graphs[1].n_channels);
    info.n_nvls_channels = machine.n_nvls_channels;
    snprintf(info.cpu_vendor, sizeof(info.cpu_vendor), "%s", machine.cpu);
    return info;
}

// nullptr for "-", else the text without quotes.
const char *Variable(const std::string &word)
{
    return word == "-" ? nullptr : word == "\"\"" ? "" : word.c_str();
}

int Number(const mock_words &list, const std::string &word)
{
    for (int i = 0; i < list.n_words; i++)
        if (word == list.words[i])
            return i;
    throw std::out_of_range(word);
}

mock_model ModelOf(const mock_version *version, const CostMachine &machine,
                   const mock_user_choice &choice)
{
    const mock_graphs graphs = GraphsOf(machine);
    const mock_machine_info info = InfoOf(machine);
    ncclTunerConstants_v7_t constants;
    mock_model model;

    mock_release_constants(version->model.release, &constants);
    mock_model_build(&model, &info, &graphs, &version->model, &constants,
                     &choice);
    return model;
}

// The entry of mock NCCL's table, or "error".
std::string Entry(const mock_version *version, const Row &row)
{
    const CostMachine &machine = Find(row.machine);
    mock_user_choice choice;
    mock_table table;
    mock_question question{Number(mock_colls, row.coll), row.n_bytes,
                           row.n_ops};
    char text[32];

    if (mock_user_choice_parse(version, Variable(row.algo_variable),
                               Variable(row.proto_variable),
                               &choice) != ncclSuccess)
        return "error";
    choice.collnet = machine.collnet;
    mock_model model = ModelOf(version, machine, choice);
    mock_model_table(&model, &question, table);
    snprintf(text, sizeof(text), "%.9g",
             static_cast<double>(table[Number(mock_algos, row.algo)]
                                      [Number(mock_protos, row.proto)]));
    return text;
}

TEST(CostEntries, AreThoseOfEachVersionOfNcclToTheLastBit)
{
    std::vector<std::string> versions;
    const std::vector<Row> rows = Rows(&versions);

    ASSERT_EQ(13u, versions.size());
    ASSERT_LT(150u, rows.size());
    for (size_t v = 0; v < versions.size(); v++) {
        const mock_version *version = mock_version_find(versions[v].c_str());
        ASSERT_NE(nullptr, version) << versions[v];
        for (const Row &row : rows) {
            if (row.us[v] == "-")
                continue; // not compared
            EXPECT_EQ(row.us[v], Entry(version, row))
                << versions[v] << " " << row.machine << " NCCL_ALGO "
                << row.algo_variable << " NCCL_PROTO " << row.proto_variable
                << " " << row.coll << " " << row.n_bytes << " x " << row.n_ops
                << " " << row.algo << "/" << row.proto;
        }
    }
}

// ---- constants ----

ncclTunerConstants_v7_t ConstantsOf(int release)
{
    ncclTunerConstants_v7_t constants;

    mock_release_constants(release, &constants);
    return constants;
}

// For one node, two and more: ncclTunerConstantsDefaults of NCCL's
// src/tuning/cost_model.cc, which has no such row before 2.32.6.
TEST(Constants, OfRubinAreNcclsFrom2_32_6On)
{
    using Constants = ncclTunerConstants_v7_t;
    using Rows = double[NCCL_NUM_COMPCAPS][NCCL_NUM_TUNING_SCALES];
    const struct {
        Rows Constants::*rows;
        double want[NCCL_NUM_TUNING_SCALES];
    } cases[] = {
        {&Constants::llMaxBws, {2, .6, .46}},
        {&Constants::perChMaxRingLL128Bws, {21.6, 17, 14}},
        {&Constants::perChMaxTreeLL128Bws, {11.2, 11.91, 11.91}},
        {&Constants::perChMaxTreeBws, {-1, -1, -1}},
        {&Constants::perChMaxNVLSTreeBws, {-1, -1, -1}},
    };

    for (int release = 0; release < MOCK_N_RELEASES; release++) {
        const ncclTunerConstants_v7_t constants = ConstantsOf(release);
        for (const auto &c : cases)
            for (int scale = 0; scale < NCCL_NUM_TUNING_SCALES; scale++)
                EXPECT_EQ(release == MOCK_2_32_6 ? c.want[scale] : 0,
                          (constants.*c.rows)[NCCL_RUBIN_COMPCAP_IDX][scale])
                    << &c - cases << " " << scale << " in " << release;
    }
}

// For one node, two and more, as src/graph/tuning.cc of each version has them;
// 2.32.6 as above.
TEST(Constants, OfBlackwellAreNcclsOfEachVersion)
{
    using Constants = ncclTunerConstants_v7_t;
    using Rows = double[NCCL_NUM_COMPCAPS][NCCL_NUM_TUNING_SCALES];
    const struct {
        int first, last;
        Rows Constants::*rows;
        double want[NCCL_NUM_TUNING_SCALES];
    } cases[] = {
        {MOCK_2_25, MOCK_2_32_3, &Constants::llMaxBws, {282, 90, 70}},
        {MOCK_2_32_6, MOCK_2_32_6, &Constants::llMaxBws, {282.4, 90, 70}},
        {MOCK_2_25,
         MOCK_2_27,
         &Constants::perChMaxRingLL128Bws,
         {73.4, 73.4, 73.4}},
        {MOCK_2_28,
         MOCK_2_28,
         &Constants::perChMaxRingLL128Bws,
         {73.4, 34.6, 73.4}},
        {MOCK_2_29,
         MOCK_2_32_6,
         &Constants::perChMaxRingLL128Bws,
         {40, 40, 40}},
        {MOCK_2_25,
         MOCK_2_27,
         &Constants::perChMaxTreeLL128Bws,
         {73.4, 73.4, 58}},
        {MOCK_2_28,
         MOCK_2_32_3,
         &Constants::perChMaxTreeLL128Bws,
         {55.6, 31.67, 20}},
        {MOCK_2_32_6,
         MOCK_2_32_6,
         &Constants::perChMaxTreeLL128Bws,
         {55.6, 36.7, 20}},
        {MOCK_2_25, MOCK_2_27, &Constants::perChMaxTreeBws, {77.4, 82.8, 72}},
        {MOCK_2_28, MOCK_2_32_6, &Constants::perChMaxTreeBws, {70, 42.8, 24}},
        {MOCK_2_28, MOCK_2_29, &Constants::perChMaxNVLSTreeBws, {0, 96, 43.8}},
        {MOCK_2_30, MOCK_2_32_6, &Constants::perChMaxNVLSTreeBws, {0, 96, 80}},
    };

    for (const auto &c : cases)
        for (int release = c.first; release <= c.last; release++) {
            const ncclTunerConstants_v7_t constants = ConstantsOf(release);
            for (int scale = 0; scale < NCCL_NUM_TUNING_SCALES; scale++)
                EXPECT_EQ(
                    c.want[scale],
                    (constants.*c.rows)[NCCL_BLACKWELL_COMPCAP_IDX][scale])
                    << &c - cases << " " << scale << " in " << release;
        }
}

// hwLat and baseLat of src/graph/tuning.cc: Simple of trees has 28 us on any
// link up to 2.22, NVLS_TREE 14 us between nodes up to 2.27.
TEST(Constants, OfLatencyChangedIn2_23And2_28)
{
    for (int release = 0; release < MOCK_N_RELEASES; release++) {
        const ncclTunerConstants_v7_t constants = ConstantsOf(release);
        const bool old = release <= MOCK_2_22;
        const double want[] = {old ? 28. : 4., old ? 28. : 4., old ? 28. : 14.};
        EXPECT_EQ(old ? 0 : 8.4,
                  constants.baseLatencies[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE])
            << release;
        for (int hw = 0; hw < NCCL_NUM_HW_LINKS; hw++)
            EXPECT_EQ(
                want[hw],
                constants.hwLatencies[hw][NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE])
                << hw << " in " << release;
        EXPECT_EQ(release <= MOCK_2_27 ? 14 : 20.9,
                  constants.hwLatencies[NCCL_HW_NET][NCCL_ALGO_NVLS_TREE]
                                       [NCCL_PROTO_SIMPLE])
            << release;
    }
}

// As a tuner is handed them: others than trees and rings run with Simple only.
TEST(Constants, OfLatencyAreZeroForProtocolsThatAnAlgorithmLacks)
{
    for (int release = 0; release < MOCK_N_RELEASES; release++) {
        const ncclTunerConstants_v7_t constants = ConstantsOf(release);
        for (int hw = 0; hw < NCCL_NUM_HW_LINKS; hw++)
            for (int algo = NCCL_ALGO_COLLNET_DIRECT;
                 algo < NCCL_NUM_ALGORITHMS; algo++)
                for (int proto : {NCCL_PROTO_LL, NCCL_PROTO_LL128})
                    EXPECT_EQ(0, constants.hwLatencies[hw][algo][proto])
                        << hw << " " << algo << " " << proto << " in "
                        << release;
    }
}

// ---- corrections ----

// The time of NVLS_TREE of two nodes without its latency, relative to that in
// 2.28.
float Slowdown(const char *version, CostMachine machine, size_t n_bytes,
               const char *cpu, int compute_capability)
{
    const mock_question question{ncclFuncAllReduce, n_bytes, 1};
    mock_user_choice choice;
    float us[2];
    int i = 0;

    machine.cpu = cpu;
    machine.compute_capability = compute_capability;
    for (const char *v : {version, "2.28"}) {
        mock_user_choice_parse(mock_version_find(v), nullptr, nullptr, &choice);
        mock_model model = ModelOf(mock_version_find(v), machine, choice);
        mock_table table;
        mock_model_table(&model, &question, table);
        us[i++] = table[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE] -
                  model.latency[ncclFuncAllReduce][NCCL_ALGO_NVLS_TREE]
                               [NCCL_PROTO_SIMPLE];
    }
    return us[0] / us[1];
}

struct CorrectionCase {
    size_t n_bytes;
    const char *cpu;
    int compute_capability;
    double factor;
};

TEST(CostEntries, OfNvlsTreesAreCorrectedOnBlackwellBehindX86From2_29)
{
    const CorrectionCase cases[] = {{1 << 18, "intel", 100, .5},
                                    {1 << 18, "amd", 100, .5},
                                    {1 << 18, "mixed", 100, .5},
                                    {1 << 18, "unknown", 100, 1},
                                    {size_t{1} << 29, "intel", 100, .9},
                                    {size_t{1} << 30, "intel", 100, 1},
                                    {1 << 18, "arm", 100, 1}, // 8 GPUs
                                    {1 << 18, "intel", 90, 1}};

    for (const char *version : {"2.29", "2.30", "2.31"})
        for (const CorrectionCase &c : cases)
            EXPECT_NEAR(1 / c.factor,
                        Slowdown(version, Find("b200n2"), c.n_bytes, c.cpu,
                                 c.compute_capability),
                        1e-3)
                << version << " " << c.n_bytes << " " << c.cpu;
}

// Bytes that NVLS_TREE moves in a microsecond after its latency.
float Rate(const mock_model &model, size_t n_bytes)
{
    const mock_question question{ncclFuncAllReduce, n_bytes, 1};
    mock_table table;

    mock_model_table(&model, &question, table);
    return static_cast<float>(n_bytes) /
           (table[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE] -
            model.latency[ncclFuncAllReduce][NCCL_ALGO_NVLS_TREE]
                         [NCCL_PROTO_SIMPLE]);
}

// The last correction is at 512 MiB; nothing is corrected at 1 GiB.
TEST(CostEntries, OfNvlsTreesHaveOneCorrectionLessOnTwoNodesOfGb200In2_31)
{
    const struct {
        int n_nodes;
        double factor;
        const char *version = "2.31";
        float network = 100; // GB/s, of which 96 are fast
        int per_node = 4;
        const char *cpu = "arm";
        int compute_capability = 100;
    } cases[] = {
        {2, 1},
        {3, .9},
        {4, .9},
        {3, 1, "2.30"},
        {3, .9, "2.31", 96},
        {3, 1, "2.31", 95.9f},
        {3, 1, "2.31", 100, 3},
        {3, 1, "2.31", 100, 5},
        {3, 1, "2.31", 100, 4, "unknown"},
        {3, .9, "2.31", 48, 8, "intel"},
        {2, .9, "2.31", 48, 8, "amd"},
        {3, 1, "2.31", 100, 4, "arm", 90},
        {3, 1, "2.28", 48, 8, "intel"},
    };

    for (const auto &c : cases) {
        const mock_version *version = mock_version_find(c.version);
        mock_user_choice choice;
        CostMachine machine = Find("gb200n2");
        machine.n_nodes = c.n_nodes;
        machine.per_node = c.per_node;
        machine.graphs[3].bw_inter = c.network;
        machine.cpu = c.cpu;
        machine.compute_capability = c.compute_capability;
        mock_user_choice_parse(version, nullptr, nullptr, &choice);
        const mock_model model = ModelOf(version, machine, choice);
        EXPECT_NEAR(c.factor,
                    Rate(model, size_t{1} << 29) / Rate(model, size_t{1} << 30),
                    1e-3)
            << &c - cases;
    }
}

// A ring of one step has no plateau, and each step closes three quarters of the
// gap to 1.4 times the latency; from 256 KiB of a rank and channel on it falls,
// to 1.3 times at twice that.
TEST(CostEntries, OfRingsOnABlackwellNodeHaveAPlateauByStepsFrom2_32On)
{
    constexpr size_t kKi = 1024;
    const struct {
        const char *version;
        int coll, per_node;
        size_t part; // bytes of a rank on a channel
        double want; // times the latency
        int compute_capability = 100;
    } cases[] = {
        {"2.32", ncclFuncAllReduce, 2, 63, 1},
        {"2.32", ncclFuncAllReduce, 2, 64, 1.3},
        {"2.32", ncclFuncAllGather, 2, 64, 1},
        {"2.32", ncclFuncAllGather, 3, 64, 1.3},
        {"2.32", ncclFuncReduceScatter, 3, 64, 1.3},
        {"2.32", ncclFuncAllReduce, 3, 64, 1.39375},
        {"2.32", ncclFuncBroadcast, 3, 64, 1},
        {"2.32", ncclFuncAllReduce, 2, 256 * kKi, 1.3},
        {"2.32", ncclFuncAllReduce, 2, 384 * kKi, 1.2625},
        {"2.32", ncclFuncAllReduce, 2, 512 * kKi, 1.225},
        {"2.32", ncclFuncAllReduce, 2, 1024 * kKi, 1.225},
        {"2.31", ncclFuncAllReduce, 2, 64, 1},
        {"2.31", ncclFuncAllGather, 2, 64, 1.4},
        {"2.30", ncclFuncAllGather, 2, 64, 1},
        {"2.32", ncclFuncAllReduce, 2, 64, 1, 90},
    };

    for (const auto &c : cases) {
        const mock_version *version = mock_version_find(c.version);
        CostMachine machine = Find("b200");
        mock_user_choice choice;
        mock_table table;
        machine.per_node = c.per_node;
        machine.compute_capability = c.compute_capability;
        mock_user_choice_parse(version, nullptr, nullptr, &choice);
        const mock_model model = ModelOf(version, machine, choice);
        const size_t n_bytes = c.part * (size_t)(model.n_channels * c.per_node);
        const mock_question question{c.coll, n_bytes, 1};
        mock_model_table(&model, &question, table);

        const double bytes_us =
            (double)n_bytes / 1e3 /
            model.bandwidth[c.coll][NCCL_ALGO_RING][NCCL_PROTO_SIMPLE];
        const double latency =
            model.latency[c.coll][NCCL_ALGO_RING][NCCL_PROTO_SIMPLE];
        EXPECT_NEAR(c.want,
                    (table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] - bytes_us) /
                        latency,
                    1e-3)
            << &c - cases;
    }
}

// Up to 2.31 on the whole time, in 2.32 on the part that grows with the bytes.
TEST(CostEntries, OfRingsOfFp8AreChargedFromNineRanksOn)
{
    const struct {
        const char *version;
        int per_node;
        float times, bytes;   // factors
        float ruled_out = -1; // LL128, with NCCL_PROTO=^LL128
    } cases[] = {
        {"2.23", 9, 1, 1},           {"2.24", 8, 1, 1},
        {"2.24", 9, 1024, 1, -1024}, {"2.30", 9, 1024, 1, -1024},
        {"2.31", 9, 1024, 1},        {"2.32", 8, 1, 1},
        {"2.32", 9, 1, 1024},
    };

    for (const auto &c : cases) {
        const mock_version *version = mock_version_find(c.version);
        CostMachine machine = Find("h100");
        mock_user_choice choice;
        mock_table plain, fp8;
        machine.per_node = c.per_node;
        mock_user_choice_parse(version, nullptr, "^LL128", &choice);
        const mock_model model = ModelOf(version, machine, choice);
        mock_question question{ncclFuncAllReduce, 1 << 20, 1};
        mock_model_table(&model, &question, plain);
        question.fp8 = true;
        mock_model_table(&model, &question, fp8);
        const float latency =
            model.latency[ncclFuncAllReduce][NCCL_ALGO_RING][NCCL_PROTO_LL];
        const float bytes_us = plain[NCCL_ALGO_RING][NCCL_PROTO_LL] - latency;

        EXPECT_NEAR(c.times * (latency + c.bytes * bytes_us),
                    fp8[NCCL_ALGO_RING][NCCL_PROTO_LL], .1)
            << &c - cases;
        EXPECT_EQ(c.ruled_out, fp8[NCCL_ALGO_RING][NCCL_PROTO_LL128])
            << &c - cases;
        EXPECT_EQ(plain[NCCL_ALGO_TREE][NCCL_PROTO_LL],
                  fp8[NCCL_ALGO_TREE][NCCL_PROTO_LL])
            << &c - cases;
    }
}

// On a slow link, where the bytes take all the time.
TEST(CostEntries, OfNvlsTreesHaveNoCorrectionForTheSmallestSizesEither)
{
    const std::pair<const char *, double> cases[] = {{"unknown", 1},
                                                     {"intel", .9}};
    const mock_version *version = mock_version_find("2.30");
    mock_user_choice choice;

    mock_user_choice_parse(version, nullptr, nullptr, &choice);
    for (const auto &[cpu, share] : cases) {
        CostMachine machine = Find("b200n2");
        machine.cpu = cpu;
        mock_model model = ModelOf(version, machine, choice);
        float *bandwidth =
            model.bandwidth[ncclFuncAllReduce][NCCL_ALGO_NVLS_TREE];
        bandwidth[NCCL_PROTO_SIMPLE] = 1e-6f;
        for (size_t n_bytes : {64, 127})
            EXPECT_NEAR(1e-3 * share, Rate(model, n_bytes), 1e-6)
                << cpu << " " << n_bytes;
    }
}

// ---- what the user forbids ----

mock_model Chosen(const char *version, const char *machine, int n_nodes,
                  const char *algo, const char *proto = nullptr)
{
    CostMachine on = Find(machine);
    mock_user_choice choice;

    on.n_nodes = n_nodes;
    mock_user_choice_parse(mock_version_find(version), algo, proto, &choice);
    choice.collnet = on.collnet;
    return ModelOf(mock_version_find(version), on, choice);
}

TEST(Backup, IsOfRingsThatTheUserHasForbidden)
{
    const struct {
        const char *version, *algo;
        int coll;
        bool has_rings;
    } cases[] = {
        {"2.23", "tree", ncclFuncAllReduce, true},
        {"2.23", "^ring", ncclFuncAllReduce, true},
        {"2.23", "ring", ncclFuncAllReduce, false},
        {"2.23", nullptr, ncclFuncAllReduce, false},
        {"2.23", "tree", ncclFuncBroadcast, false}, // else nothing is left
        {"2.24", "tree", ncclFuncAllReduce, false},
    };

    for (const auto &c : cases) {
        const mock_question question{c.coll, 1 << 20, 1};
        const mock_model model = Chosen(c.version, "h100n2", 2, c.algo);
        const mock_model any = Chosen(c.version, "h100n2", 2, nullptr);
        mock_table want, got;
        mock_model_table(&any, &question, want);
        for (auto &row : got)
            for (float &entry : row)
                entry = 7;

        mock_model_backup(&model, &question, got);

        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                EXPECT_EQ(c.has_rings && a == NCCL_ALGO_RING ? want[a][p] : -1,
                          got[a][p])
                    << &c - cases << " " << a << "/" << p;
    }
}

// Up to 2.23 rings are left if nothing else is.
TEST(UserChoice, ForbidsRingsWhereItLeavesAnyOtherEntry)
{
    for (const char *proto : {"LL", "LL128", "Simple"})
        for (const auto &[coll, open] :
             {std::pair(ncclFuncAllReduce, false), {ncclFuncAllGather, true}}) {
            const mock_model model = Chosen("2.23", "h100n2", 2, "tree", proto);
            float most = 0;
            for (float bandwidth : model.bandwidth[coll][NCCL_ALGO_RING])
                most = std::max(most, bandwidth);
            EXPECT_EQ(open, most > 0) << proto << " " << coll;
        }
}

// Up to 2.23, without CollNet: a list of nothing but CollNet, or of NVLS
// between nodes, or of NVLS_TREE within one. Else rings alone are left.
TEST(UserChoice, IsIgnoredIfNothingOfItIsThere)
{
    const struct {
        const char *version, *machine;
        int n_nodes;
        const char *algo;
        bool trees;
    } cases[] = {
        {"2.23", "h100", 1, "nvls", false},
        {"2.23", "h100", 1, "nvlstree", true},
        {"2.23", "h100", 1, "collnetdirect,collnetchain", true},
        {"2.23", "h100", 1, "nvls,nvlstree", false},
        {"2.23", "h100n2", 2, "nvls", true},
        {"2.23", "h100n2", 3, "nvls", true},
        {"2.23", "h100n2", 2, "nvlstree", false},
        {"2.23", "h100n2", 3, "nvlstree", false},
        {"2.23", "h100n2", 2, "collnetchain", true},
        {"2.23", "h100n2", 2, "ring", false},
        {"2.23", "h100n2", 2, "collnetchain,tree", true},
        {"2.23", "h100n4", 4, "nvls", false}, // has CollNet
        {"2.24", "h100n2", 2, "nvls", false},
        {"2.24", "h100n2", 2, "collnetchain", false},
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.trees, Chosen(c.version, c.machine, c.n_nodes, c.algo)
                                   .bandwidth[ncclFuncAllReduce][NCCL_ALGO_TREE]
                                             [NCCL_PROTO_SIMPLE] != 0)
            << &c - cases;
}

// Of NVLS and CollNet, which 2.21 tells a tuner.
TEST(Support, IsThatOfTheMachineAndTheCollective)
{
    mock_model model{};
    const struct {
        const char *version;
        int n_nvls_channels;
        bool collnet;
        mock_question question;
        bool nvls, wants_collnet;
    } cases[] = {
        {"2.28", 16, true, {ncclFuncAllReduce, 8, 1}, true, true},
        {"2.28", 1, true, {ncclFuncAllReduce, 8, 1}, true, true},
        {"2.28", 0, true, {ncclFuncAllReduce, 8, 1}, false, true},
        {"2.28", 0, true, {ncclFuncAllGather, 8, 1}, false, true},
        {"2.28", 16, false, {ncclFuncAllReduce, 8, 1}, true, false},
        {"2.28", 16, false, {ncclFuncAllGather, 8, 1}, true, false},
        {"2.21", 16, false, {ncclFuncAllGather, 8, 1}, false, false},
    };

    for (const auto &c : cases) {
        model.rules = &mock_version_find(c.version)->model;
        model.n_nvls_channels = c.n_nvls_channels;
        model.collnet = c.collnet;
        mock_question question = c.question;
        EXPECT_EQ(c.nvls, mock_model_nvls(&model, &question)) << &c - cases;
        EXPECT_EQ(c.wants_collnet, mock_model_collnet(&model, &question))
            << &c - cases;

        question.plain_only = true;
        EXPECT_FALSE(mock_model_nvls(&model, &question)) << &c - cases;
        EXPECT_FALSE(mock_model_collnet(&model, &question)) << &c - cases;

        const bool gathers = c.question.coll == ncclFuncAllGather;
        question = c.question;
        question.no_collnet = question.no_nvls = true;
        EXPECT_EQ(c.nvls && gathers, mock_model_nvls(&model, &question))
            << &c - cases;
        EXPECT_EQ(c.wants_collnet && gathers,
                  mock_model_collnet(&model, &question))
            << &c - cases;

        question = c.question;
        question.fp8 = true;
        EXPECT_EQ(c.nvls && gathers, mock_model_nvls(&model, &question))
            << &c - cases;
        EXPECT_EQ(c.wants_collnet, mock_model_collnet(&model, &question))
            << &c - cases;
    }
}

// ---- bandwidths ----

float BandwidthOf(const char *version, const CostMachine &machine, int coll,
                  int algo, int proto)
{
    mock_user_choice choice;

    mock_user_choice_parse(mock_version_find(version), nullptr, nullptr,
                           &choice);
    choice.collnet = machine.collnet;
    return ModelOf(mock_version_find(version), machine, choice)
        .bandwidth[coll][algo][proto];
}

// Up to 2.22; of rings of 20 GB/s, which their limit per channel is above.
TEST(Bandwidths, OfRingsWithLl128AreSmallerWithOneGpuANode)
{
    const struct {
        const char *version;
        int per_node;
        double share;
    } cases[] = {{"2.22", 1, .7},
                 {"2.22", 2, .92},
                 {"2.22", 3, .92},
                 {"2.23", 1, .92},
                 {"2.23", 2, .92}};

    for (const auto &c : cases) {
        CostMachine machine = Find("a100n4x1");
        machine.per_node = c.per_node;
        machine.graphs[0].bw_intra = machine.graphs[0].bw_inter = 20;
        EXPECT_NEAR(c.share,
                    BandwidthOf(c.version, machine, ncclFuncAllReduce,
                                NCCL_ALGO_RING, NCCL_PROTO_LL128) /
                        BandwidthOf(c.version, machine, ncclFuncAllReduce,
                                    NCCL_ALGO_RING, NCCL_PROTO_SIMPLE),
                    1e-6)
            << c.version << " " << c.per_node;
    }
}

// 8 channels of 48 GB/s within nodes and 24 between; n ranks in 2 (n - 1)
// steps.
TEST(Bandwidths, OfRingsAreOfTheNetworkFromThreeNodesOn)
{
    const std::pair<int, double> cases[] = {
        {2, 8 * 48 * 16 / 30.}, {3, 8 * 24 * 24 / 46.}, {4, 8 * 24 * 32 / 62.}};

    for (const auto &[n_nodes, want] : cases) {
        CostMachine machine = Find("h100n2");
        machine.n_nodes = n_nodes;
        machine.graphs[0].bw_inter = 24;
        EXPECT_NEAR(want,
                    BandwidthOf("2.28", machine, ncclFuncAllReduce,
                                NCCL_ALGO_RING, NCCL_PROTO_SIMPLE),
                    1e-3)
            << n_nodes;
    }
}

// Of 8 channels of 48 GB/s within nodes, and five sixths of it. Up to 2.27 more
// than two nodes halve the network, from 2.28 on two double it, of 8 x 57.7 or
// 45.5 GB/s at most, and steps count.
TEST(Bandwidths, OfNvlsTreesDependOnTheNumberOfNodes)
{
    const struct {
        const char *version;
        int n_nodes;
        double want;
    } cases[] = {
        {"2.27", 2, 8 * 30 * 5 / 6.},   {"2.27", 3, 8 * 15 * 5 / 6.},
        {"2.27", 4, 8 * 15 * 5 / 6.},   {"2.28", 2, 8 * 57.7 * 16 / 30},
        {"2.28", 3, 8 * 30 * 24. / 46},
    };

    for (const auto &c : cases) {
        CostMachine machine = Find("h100n2");
        machine.n_nodes = c.n_nodes;
        machine.graphs[3].bw_inter = 30;
        EXPECT_NEAR(c.want,
                    BandwidthOf(c.version, machine, ncclFuncAllReduce,
                                NCCL_ALGO_NVLS_TREE, NCCL_PROTO_SIMPLE),
                    1e-3)
            << c.version << " " << c.n_nodes;
    }
}

// ncclTopoTuneModel() from 2.28 on skips graphs of fewer than two channels.
TEST(Bandwidths, OfNvlsAreNoneWithOneChannelInItsGraph)
{
    for (const auto &[n_channels, open] : {std::pair(1, false), {2, true}}) {
        CostMachine machine = Find("h100");
        machine.graphs[3].n_channels = n_channels;
        EXPECT_EQ(open, BandwidthOf("2.28", machine, ncclFuncAllReduce,
                                    NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE) != 0)
            << n_channels;
        EXPECT_LT(0, BandwidthOf("2.27", machine, ncclFuncAllReduce,
                                 NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE));
    }
}

TEST(Bandwidths, OfNvlsNeedAChannelOfTheCommunicator)
{
    for (int n_channels : {0, 1, 16}) {
        CostMachine machine = Find("h100");
        machine.n_nvls_channels = n_channels;
        EXPECT_EQ(n_channels > 0,
                  BandwidthOf("2.28", machine, ncclFuncAllReduce,
                              NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE) != 0)
            << n_channels;
    }
}

// From 2.28 on those of NVLS, if there is NVLS.
TEST(Bandwidths, OfCollNetGathersNeedAHeadForEveryGpu)
{
    const struct {
        const char *version;
        int n_nvls_channels, direct_heads, nvls_heads;
        bool open;
    } cases[] = {
        {"2.28", 0, 8, 4, true},  {"2.28", 0, 4, 8, false},
        {"2.28", 1, 8, 4, false}, {"2.28", 1, 4, 8, true},
        {"2.28", 16, 7, 8, true}, {"2.28", 16, 8, 7, false},
        {"2.27", 16, 8, 4, true}, {"2.27", 16, 4, 8, false},
    };

    for (const auto &c : cases) {
        CostMachine machine = Find("h100n4");
        machine.n_nvls_channels = c.n_nvls_channels;
        machine.graphs[3].n_heads = c.nvls_heads;
        machine.graphs[4].n_heads = c.direct_heads;
        EXPECT_EQ(c.open,
                  BandwidthOf(c.version, machine, ncclFuncAllGather,
                              NCCL_ALGO_COLLNET_DIRECT, NCCL_PROTO_SIMPLE) != 0)
            << &c - cases;
    }
}

TEST(Bandwidths, OfCollNetReductionsNeedAHeadForEveryGpuFrom2_31On)
{
    for (const int algo :
         {int{NCCL_ALGO_COLLNET_DIRECT}, int{NCCL_ALGO_COLLNET_CHAIN}})
        for (const auto &[version, n_heads, open] :
             {std::tuple("2.30", 7, true),
              {"2.31", 7, false},
              {"2.31", 8, true}}) {
            CostMachine machine = Find("h100n4");
            machine.graphs[3].n_heads = n_heads;
            machine.graphs[3].heads_chains = true;
            EXPECT_EQ(open, BandwidthOf(version, machine, ncclFuncAllReduce,
                                        algo, NCCL_PROTO_SIMPLE) != 0)
                << version << " " << n_heads << " " << algo;
        }
}

// 48 GB/s for each GPU of a node and 40 between: up to 2.26 a share from .95 of
// one GPU to .85 of eight, then as fast as .9 of the network.
TEST(Bandwidths, OfCollNetGathersDependOnTheGpusOfANodeUpTo2_26)
{
    const struct {
        const char *version;
        int per_node;
        double want;
    } cases[] = {{"2.26", 1, 48 * .95},
                 {"2.26", 4, 4 * 48 * (.85 * 3 + .95 * 4) / 7},
                 {"2.26", 8, 8 * 48 * .85},
                 {"2.27", 4, 4 * 40 * .9},
                 {"2.27", 8, 8 * 40 * .9}};

    for (const auto &c : cases) {
        CostMachine machine = Find("h100n4");
        machine.per_node = c.per_node;
        EXPECT_NEAR(c.want,
                    BandwidthOf(c.version, machine, ncclFuncAllGather,
                                NCCL_ALGO_COLLNET_DIRECT, NCCL_PROTO_SIMPLE),
                    1e-3)
            << c.version << " " << c.per_node;
    }
}

TEST(Bandwidths, OfCollNetDirectAreNoneWithoutItsGraph)
{
    for (int coll : {ncclFuncAllReduce, ncclFuncAllGather}) {
        CostMachine machine = Find("h100n4");
        EXPECT_LT(0, BandwidthOf("2.28", machine, coll,
                                 NCCL_ALGO_COLLNET_DIRECT, NCCL_PROTO_SIMPLE));
        machine.graphs[4].n_channels = 0;
        EXPECT_EQ(0, BandwidthOf("2.28", machine, coll,
                                 NCCL_ALGO_COLLNET_DIRECT, NCCL_PROTO_SIMPLE));
    }
}

} // namespace
