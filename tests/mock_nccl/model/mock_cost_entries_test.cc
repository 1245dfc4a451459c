// The entries of every version's cost model, compared with those of NCCL's
// code.

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
    mock_call call{static_cast<ncclFunc_t>(Number(mock_colls, row.coll)),
                   row.n_bytes};
    char text[32];

    if (mock_user_choice_parse(version, Variable(row.algo_variable),
                               Variable(row.proto_variable),
                               &choice) != ncclSuccess)
        return "error";
    choice.collnet = machine.collnet;
    mock_model model = ModelOf(version, machine, choice);
    call.n_pipe_ops = row.n_ops;
    mock_model_table(&model, &call, table);
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

} // namespace
