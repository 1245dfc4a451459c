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
using testing::ElementsAre;

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

class CpuVendor : public testing::TestWithParam<VendorCase>
{
};

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

TEST(SeveralNodes, AddALevelToTreesForEachDoublingOfNodes)
{
    std::vector<std::string> us;

    for (int nodes : {2, 3, 4, 7, 8}) {
        std::string shape =
            std::to_string(8 * nodes) + "," + std::to_string(nodes);
        Machine machine =
            Edited("h100n2x8", {{"machine.csv", ",16,2,", "," + shape + ","}});
        mock_outcome got = OnMachine(machine, Call(ncclFuncAllReduce, 8));
        us.push_back(Printed(got.cost[NCCL_ALGO_TREE][NCCL_PROTO_LL]));
    }

    // 6.8 + 2 x (7 x .6 + levels x 5), and the time of 8 bytes
    EXPECT_THAT(us,
                ElementsAre("25.200", "25.201", "35.201", "35.201", "45.201"));
}

TEST(SeveralNodes, PayTheNetworksLatencyOnceAStepAndTwiceWithSimple)
{
    Machine near = LoadMachine("h100n2x8");
    Machine far =
        Edited("h100n2x8",
               {{"graphs.xml", "latencyinter=\"0\"", "latencyinter=\"2.5\""}});
    mock_call call = Call(ncclFuncAllReduce, 8);

    mock_outcome n = OnMachine(near, call);
    mock_outcome f = OnMachine(far, call);

    const std::pair<int, int> pairs[] = {
        {NCCL_ALGO_RING, NCCL_PROTO_LL},     {NCCL_ALGO_RING, NCCL_PROTO_LL128},
        {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE}, {NCCL_ALGO_TREE, NCCL_PROTO_LL},
        {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE}, {NCCL_ALGO_NVLS_TREE, 2},
    };
    std::vector<std::string> more;
    for (const auto &[algo, proto] : pairs)
        more.push_back(Printed(f.cost[algo][proto] - n.cost[algo][proto]));
    EXPECT_THAT(more, ElementsAre("5.000", "5.000", "10.000", "5.000", "10.000",
                                  "10.000"));
}

TEST(SeveralNodes, SlowRingsFromSixtyFourBytesOfARankOnAChannel)
{
    // 8.4 + 28 x 3.4 + 2 x 14 us
    const std::map<std::string, double> factors = {{"90", 1.4}, {"70", 1.9}};

    for (const auto &[capability, factor] : factors) {
        Machine machine =
            Edited("h100n2x8",
                   {{"machine.csv", ",90,16,", "," + capability + ",16,"}});
        size_t least = 64 * 16 * 16;

        mock_outcome below =
            OnMachine(machine, Call(ncclFuncAllReduce, least - 1));
        mock_outcome at = OnMachine(machine, Call(ncclFuncAllReduce, least));
        mock_outcome other = OnMachine(machine, Call(ncclFuncAllGather, least));

        const int ring = NCCL_ALGO_RING;
        EXPECT_NEAR(131.6, below.cost[ring][NCCL_PROTO_SIMPLE], .1);
        EXPECT_NEAR(131.6 * factor, at.cost[ring][NCCL_PROTO_SIMPLE], .1);
        EXPECT_NEAR(below.cost[ring][NCCL_PROTO_LL],
                    at.cost[ring][NCCL_PROTO_LL], .001);
        EXPECT_NEAR(70.0, other.cost[ring][NCCL_PROTO_SIMPLE], .1);
    }
}

TEST(SeveralNodes, ChargeLatencyForEachOfAGroupButTreesForEachTen)
{
    Machine machine = LoadMachine("h100n2x8");
    mock_call call = Call(ncclFuncAllReduce, 8);
    mock_outcome one = OnMachine(machine, call);
    call.n_pipe_ops = 11;

    mock_outcome eleven = OnMachine(machine, call);

    const std::pair<int, double> more[] = {{NCCL_ALGO_RING, 10 * 131.6},
                                           {NCCL_ALGO_TREE, 92.4},
                                           {NCCL_ALGO_NVLS_TREE, 66.8}};
    for (const auto &[algo, us] : more)
        EXPECT_NEAR(us,
                    eleven.cost[algo][NCCL_PROTO_SIMPLE] -
                        one.cost[algo][NCCL_PROTO_SIMPLE],
                    1e-3);
}

TEST(SeveralNodes, UseTheNetworkTwiceWithNvlsTreesOfTwo)
{
    const Edit slow = {"graphs.xml", "speedinter=\"48\"", "speedinter=\"20\""};
    mock_call call = Call(ncclFuncAllReduce, size_t{1} << 40);

    mock_outcome two = OnMachine(Edited("h100n2x8", {slow}), call);
    mock_outcome eight = OnMachine(Edited("h100n8x8", {slow}), call);

    // 8 channels of 40 and of 20 GB/s; ranks by steps
    const double kilo = std::pow(2, 40) / 1e3;
    EXPECT_NEAR(8 * 40 * 16 / 30.0,
                kilo / two.cost[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE], .01);
    EXPECT_NEAR(8 * 20 * 64 / 126.0,
                kilo / eight.cost[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE], .01);
}

// Four nodes of one GPU each, rings and trees of two channels at 24 GB/s.
Machine OneGpuANode()
{
    std::string graph =
        " pattern=\"4\" nchannels=\"2\" speedintra=\"48\" "
        "speedinter=\"24\" latencyinter=\"1\" typeintra=\"NVL\" "
        "typeinter=\"PIX\" samechannels=\"0\"><channel><net/>"
        "<gpu/><net/></channel><channel><gpu/></channel>"
        "</graph>";
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

TEST(OneGpuANode, HasNoPatForScattersThatDivide)
{
    Machine machine = OneGpuANode();
    mock_call call = Call(ncclFuncReduceScatter, 8);
    call.no_pat = true;

    mock_outcome scatter = OnMachine(machine, call);
    call.coll = ncclFuncAllGather;
    mock_outcome gather = OnMachine(machine, call);

    EXPECT_EQ(-1, scatter.cost[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE]);
    EXPECT_LT(0, gather.cost[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE]);
}

// Before 2.32.6 NCCL's limit of PAT's threads is 0, so that any size justifies
// all channels.
TEST(OneGpuANode, HasAllChannelsForPatOfAnySizeBefore2_32_6)
{
    const std::pair<const char *, int> cases[] = {
        {"2.31", 4}, {"2.32.3", 4}, {"2.32.6", 1}};
    Machine machine = OneGpuANode();

    for (const auto &[version, n_channels] : cases) {
        script = [](Table table, int *asked) {
            table[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
            *asked = 64;
            return ncclSuccess;
        };
        mock_outcome got =
            OnMachine(machine, Call(ncclFuncAllGather, 8), WithScript(version));
        ForgetScript();

        EXPECT_EQ(NCCL_ALGO_PAT, got.algo) << version;
        EXPECT_EQ(n_channels, got.tuned_channels) << version;
    }
}

TEST(OneGpuANode, SeesTheNetworksWholeLatencyInRings)
{
    mock_outcome got = OnMachine(OneGpuANode(), Call(ncclFuncAllReduce, 8));

    // a tree's 5 us instead of a ring's 2.7: 6.6 + 6 x (5 + 1)
    EXPECT_NEAR(42.6, got.cost[NCCL_ALGO_RING][NCCL_PROTO_LL], .002);
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

// Four GPUs share eight cards: 2 x (3.7 + 3 x .4) + 31 us; 8 x 48 / .75 x .85 /
// 2 GB/s. For other nodes see fixtures/cost_models.
TEST(CollNet, HasMoreCardsThanGpus)
{
    mock_model model = Model(8, 2, true);

    EXPECT_NEAR(40.8f,
                model.latency[ncclFuncAllReduce][NCCL_ALGO_COLLNET_DIRECT]
                             [NCCL_PROTO_SIMPLE],
                1e-4);
    EXPECT_NEAR(217.6f,
                model.bandwidth[ncclFuncAllReduce][NCCL_ALGO_COLLNET_DIRECT]
                               [NCCL_PROTO_SIMPLE],
                1e-3);
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

class CrowdedNodes : public testing::TestWithParam<CrowdCase>
{
};

TEST_P(CrowdedNodes, AreTooMuchForSomeAlgorithms)
{
    const CrowdCase &c = GetParam();
    mock_model model = Model(c.n_ranks, c.n_nodes, true, c.n_heads);
    mock_question question{c.coll, 1 << 20, 1, false, false};
    mock_table table;

    mock_model_table(&model, &question, table);

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
