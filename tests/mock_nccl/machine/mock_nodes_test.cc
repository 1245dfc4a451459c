// NCCL without a tuner on several nodes: its cost model, and CollNet.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "support/mock_folder.h"
#include "support/mock_script.h"
extern "C" {
#include "model/cost_model.h"
}

using namespace mock_test;
using testing::Each;

namespace
{

// ---- several nodes ----

// The machine 'name' with its graphs and machine.csv edited.
struct Edit {
    const char *file;
    std::string from;
    std::string to;
};
Machine Edited(const std::string &name, const std::vector<Edit> &edits)
{
    Folder folder;
    for (const char *file : {"machine.csv", "graphs.xml"}) {
        std::string text =
            ReadFile(STP_FIXTURES "/machines/" + name + "/" + file);
        for (const Edit &e : edits) {
            size_t at = 0;
            if (std::string(file) != e.file)
                continue;
            EXPECT_NE(std::string::npos, text.find(e.from)) << e.from;
            for (; (at = text.find(e.from, at)) != std::string::npos;
                 at += e.to.size())
                text.replace(at, e.from.size(), e.to);
        }
        folder.Write(file, text);
    }
    return LoadFolder(folder.Path());
}

TEST(SeveralNodes, HaveTheChannelsThatNcclPrints)
{
    const std::map<std::string, std::vector<int>> want = {
        {"a100n2x8", {16, 2, 16, 0}},
        {"h100n2x8", {16, 2, 16, 16}},
        {"h100n8x8", {64, 8, 16, 16}},
    };

    for (const auto &[name, numbers] : want) {
        Machine machine = LoadMachine(name);
        ASSERT_TRUE(machine);
        const mock_machine_info *info = mock_machine_get_info(machine.get());
        mock_outcome got =
            OnMachine(machine, Call(ncclFuncAllGather, size_t{1} << 30));

        EXPECT_THAT((std::vector<int>{info->n_ranks, info->n_nodes,
                                      info->n_channels, info->n_nvls_channels}),
                    testing::ElementsAreArray(numbers));
        EXPECT_EQ(16, got.n_channels) << name;
        EXPECT_FALSE(mock_machine_has_timings(machine.get())) << name;
    }
}

TEST(SeveralNodes, AreTheArgumentsOfATuner)
{
    on_init = [](const Joined &joined) {
        EXPECT_EQ(64u, joined.n_ranks);
        EXPECT_EQ(8u, joined.n_nodes);
        EXPECT_EQ(8, joined.domains->nNvlDomains);
        EXPECT_EQ(8, joined.domains->minRanksPerNvlDomain);
        EXPECT_EQ(8, joined.domains->maxRanksPerNvlDomain);
        return ncclSuccess;
    };

    OnMachine(LoadMachine("h100n8x8"), Call(ncclFuncReduce, 8), WithScript());

    ForgetScript();
}

struct VendorCase {
    const char *name;
    const char *ring_ll;     // us of an all-reduce of 8 bytes
    const char *ring_simple; // likewise
    double ll_bw;            // GB/s that LL is limited to
};

using CpuVendor = testing::TestWithParam<VendorCase>;

// 28 steps on a node and 2 between: 6.6 + 28 x 1 or 2 + 2 x 2.7 us with LL,
// 8.4 + 28 x (3.4 or 3 x 2) + 2 x 14 with Simple
TEST_P(CpuVendor, DecidesOnNetworkOverheadAndLlBandwidth)
{
    const VendorCase &c = GetParam();
    std::string vendor = std::string(",") + c.name + ",";
    Machine machine = Edited("h100n2x8", {{"machine.csv", ",intel,", vendor}});

    mock_outcome small = OnMachine(machine, Call(ncclFuncAllReduce, 8));
    mock_outcome large =
        OnMachine(machine, Call(ncclFuncAllReduce, size_t{1} << 40));

    EXPECT_EQ(c.ring_ll, Printed(small.cost[NCCL_ALGO_RING][NCCL_PROTO_LL]));
    EXPECT_EQ(c.ring_simple,
              Printed(small.cost[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE]));
    // 16 ranks in 30 steps
    EXPECT_NEAR(c.ll_bw * 16 / 30,
                std::pow(2, 40) / 1e3 /
                    large.cost[NCCL_ALGO_RING][NCCL_PROTO_LL],
                1e-4);
}

// clang-format off
const VendorCase kVendorCases[] = {
    {"intel",   "40.000", "131.600", 39.0},
    {"amd",     "68.001", "204.400", 22.5},
    {"mixed",   "40.001", "131.600", 22.5},
    {"arm",     "40.000", "131.600", 39.0},
    {"unknown", "40.000", "131.600", 39.0},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, CpuVendor, testing::ValuesIn(kVendorCases),
                         CaseName());

// Four nodes of one GPU each, rings and trees of two channels at 24 GB/s.
Machine OneGpuANode()
{
    std::string graph =
        " pattern=\"4\" nchannels=\"2\" speedintra=\"48\" "
        "speedinter=\"24\" latencyinter=\"1\" typeintra=\"NVL\" "
        "typeinter=\"PIX\" samechannels=\"0\"><channel><net/>"
        "<gpu/><net/></channel><channel><gpu/></channel></graph>";
    Folder folder;
    folder.Write("graphs.xml", "<graphs><graph id=\"0\"" + graph +
                                   "<graph id=\"1\"" + graph + "</graphs>");
    folder.Write("machine.csv", "gpu,compute_capability,ranks,nodes,cpu_vendor,"
                                "channels,nvls_channels,nccl\n"
                                "G,90,4,4,intel,4,0,2.28.9\n");
    return LoadFolder(folder.Path());
}

TEST(OneGpuANode, HasPatForGathersAndScattersWithSimple)
{
    Machine machine = OneGpuANode();

    for (ncclFunc_t coll : {ncclFuncAllGather, ncclFuncReduceScatter}) {
        mock_outcome small = OnMachine(machine, Call(coll, 8));
        mock_outcome large = OnMachine(machine, Call(coll, size_t{1} << 40));

        // 8 + log2(4) x (14 + 2 x 1) / 3.5 + 4 x 2.8 us; 2 x 24 x .75 GB/s
        EXPECT_NEAR(28.343, small.cost[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE], .001);
        EXPECT_NEAR(36,
                    std::pow(2, 40) / 1e3 /
                        large.cost[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE],
                    1e-3);
        EXPECT_EQ(-1, small.cost[NCCL_ALGO_PAT][NCCL_PROTO_LL]);
    }
    for (ncclFunc_t coll : {ncclFuncAllReduce, ncclFuncBroadcast})
        EXPECT_THAT(OnMachine(machine, Call(coll, 8)).cost[NCCL_ALGO_PAT],
                    Each(-1));
    EXPECT_THAT(OnMachine(LoadMachine("h100n2x8"), Call(ncclFuncAllGather, 8))
                    .cost[NCCL_ALGO_PAT],
                Each(-1));
}

// ---- CollNet, which no machine folder has ----

// Nodes of H100, 8 channels of 48 GB/s, 40 of NVLS on a node.
mock_model Model(int n_ranks, int n_nodes, bool collnet, int n_heads = 8)
{
    mock_graphs graphs{};
    for (mock_graph &graph : graphs.graph)
        graph = {4, 8, 48, 48, 0, MOCK_PATH_NVL, MOCK_PATH_PIX, 0, n_heads};
    graphs.graph[MOCK_GRAPH_NVLS].bw_intra = 40;
    mock_machine_info info{};
    info.compute_capability = 90;
    info.n_ranks = n_ranks;
    info.n_nodes = n_nodes;
    strcpy(info.cpu_vendor, "intel");
    info.n_channels = 16;
    info.n_nvls_channels = 16;
    mock_user_choice choice;
    mock_model model;

    EXPECT_EQ(ncclSuccess, mock_user_choice_parse(mock_version_find(nullptr),
                                                  nullptr, nullptr, &choice));
    choice.collnet = collnet;
    mock_model_build(&model, &info, &graphs, &mock_version_find(nullptr)->model,
                     &mock_default_constants, &choice);
    return model;
}

// ---- crowded nodes ----

struct CrowdCase {
    const char *name;
    int n_ranks;
    int n_nodes;
    ncclFunc_t coll;
    int algo;
    int n_heads;
    bool open;
};

using CrowdedNodes = testing::TestWithParam<CrowdCase>;

TEST_P(CrowdedNodes, AreTooMuchForSomeAlgorithms)
{
    const CrowdCase &c = GetParam();
    mock_model model = Model(c.n_ranks, c.n_nodes, true, c.n_heads);
    mock_call call = Call(c.coll, 1 << 20);
    mock_table table;

    call.n_pipe_ops = 1;
    mock_model_table(&model, &call, table);

    EXPECT_EQ(c.open, table[c.algo][NCCL_PROTO_SIMPLE] > 0);
}

// clang-format off
const CrowdCase kCrowdCases[] = {
    {"nvls_gathers_for_32",   64,  2, ncclFuncAllGather, NCCL_ALGO_NVLS,           32, true},
    {"nvls_gathers_for_33",   66,  2, ncclFuncAllGather, NCCL_ALGO_NVLS,           33, false},
    {"nvls_reduces_for_33",   66,  2, ncclFuncAllReduce, NCCL_ALGO_NVLS,           33, true},
    {"nvls_tree_for_33",      66,  2, ncclFuncAllReduce, NCCL_ALGO_NVLS_TREE,      33, true},
    {"collnet_direct_for_8",  16,  2, ncclFuncAllReduce, NCCL_ALGO_COLLNET_DIRECT,  8, true},
    {"collnet_direct_for_9",  18,  2, ncclFuncAllReduce, NCCL_ALGO_COLLNET_DIRECT,  8, false},
    {"collnet_chain_for_8",   16,  2, ncclFuncAllReduce, NCCL_ALGO_COLLNET_CHAIN,   8, true},
    {"collnet_chain_for_9",   18,  2, ncclFuncAllReduce, NCCL_ALGO_COLLNET_CHAIN,   8, false},
    {"ring_for_33",           66,  2, ncclFuncAllGather, NCCL_ALGO_RING,           33, true},
    // with CollNet every GPU sends its part
    {"nvls_gathers_by_8_of_8",  16, 2, ncclFuncAllGather, NCCL_ALGO_NVLS,             8, true},
    {"nvls_gathers_by_7_of_8",  16, 2, ncclFuncAllGather, NCCL_ALGO_NVLS,             7, false},
    {"nvls_scatters_by_7_of_8", 16, 2, ncclFuncReduceScatter, NCCL_ALGO_NVLS,         7, false},
    {"nvls_reduces_by_7_of_8",  16, 2, ncclFuncAllReduce, NCCL_ALGO_NVLS,             7, true},
    {"direct_gathers_by_8_of_8", 16, 2, ncclFuncAllGather, NCCL_ALGO_COLLNET_DIRECT,  8, true},
    {"direct_gathers_by_7_of_8", 16, 2, ncclFuncAllGather, NCCL_ALGO_COLLNET_DIRECT,  7, false},
    {"direct_reduces_by_7_of_8", 16, 2, ncclFuncAllReduce, NCCL_ALGO_COLLNET_DIRECT,  7, true},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, CrowdedNodes, testing::ValuesIn(kCrowdCases),
                         CaseName());

} // namespace
