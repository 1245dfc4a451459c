// NCCL's channel counts of search graphs, and machines of other sizes.
#include <cstring>

#include <gmock/gmock.h>

#include "support/mock_folder.h"
extern "C" {
// in C a function and a struct can share a name
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "model/channels.h"
#pragma GCC diagnostic pop
#include "machine/machine.h"
}

using namespace mock_test;
using testing::ElementsAreArray;

namespace
{

using Counts = std::vector<int>; // ranks, nodes, channels, NVLS channels

Counts CountsOf(const Machine &machine)
{
    const mock_machine_info *info = mock_machine_get_info(machine.get());
    return {info->n_ranks, info->n_nodes, info->n_channels,
            info->n_nvls_channels};
}

// machine.csv in one row of these columns.
std::string Csv(const std::string &columns, const std::string &row)
{
    return columns + "\n" + row + "\n";
}

// A machine with these graphs and this machine.csv.
Machine Load(const std::string &graphs, const std::string &csv)
{
    Folder folder;
    folder.Write("graphs.xml",
                 ReadFile(STP_FIXTURES "/machines/" + graphs + "/graphs.xml"));
    folder.Write("machine.csv", csv);
    return LoadFolder(folder.Path());
}

std::string Refusal(const std::string &graphs, const std::string &csv)
{
    Folder folder;
    mock_machine *machine = nullptr;
    folder.Write("graphs.xml", graphs);
    folder.Write("machine.csv", csv);

    EXPECT_EQ(ncclInvalidArgument,
              mock_machine_load(folder.Path().c_str(), &machine));

    EXPECT_EQ(nullptr, machine);
    std::string error = mock_last_error();
    EXPECT_EQ(0u, error.find(folder.Path() + "/graphs.xml"));
    return error.substr(folder.Path().size() + 1);
}

// ---- channels ----

TEST(Channels, AreThoseThatEveryMachineWasRecordedWith)
{
    int n_machines = 0;

    for (const auto &entry :
         std::filesystem::directory_iterator(STP_FIXTURES "/machines")) {
        Machine machine = LoadFolder(entry.path().string());
        ASSERT_TRUE(machine);

        EXPECT_EQ(machine->info.n_channels,
                  mock_channel_count(&machine->info, &machine->graphs))
            << entry.path();
        EXPECT_EQ(machine->info.n_nvls_channels,
                  mock_nvls_channel_count(&machine->info, &machine->graphs,
                                          &mock_version_find("2.28")->model))
            << entry.path();
        n_machines++;
    }

    EXPECT_GE(n_machines, 8);
}

struct DerivedCase {
    const char *name;
    int compute_capability;
    int n_ranks;
    int n_nodes;
    int rings;
    int trees;
    float ring_bw;
    int heads; // of NVLS
    int n_channels;
    int n_nvls_channels;
};

class Derived : public testing::TestWithParam<DerivedCase>
{
};

TEST_P(Derived, AreTheChannelsOfNcclsPostset)
{
    const DerivedCase &c = GetParam();
    mock_machine_info info{};
    mock_graphs graphs{};
    info.compute_capability = c.compute_capability;
    info.n_ranks = c.n_ranks;
    info.n_nodes = c.n_nodes;
    graphs.graph[MOCK_GRAPH_RING].n_channels = c.rings;
    graphs.graph[MOCK_GRAPH_RING].bw_intra = c.ring_bw;
    graphs.graph[MOCK_GRAPH_TREE].n_channels = c.trees;
    graphs.graph[MOCK_GRAPH_NVLS].n_channels = c.heads;

    EXPECT_EQ(c.n_channels, mock_channel_count(&info, &graphs));
    EXPECT_EQ(c.n_nvls_channels,
              mock_nvls_channel_count(&info, &graphs,
                                      &mock_version_find("2.28")->model));
}

// clang-format off
const DerivedCase kDerived[] = {
    {"twice_the_search",          80,  8, 1, 12, 12,  20, 0, 24,  0},
    {"of_the_fewer_trees",        80,  8, 1, 12,  5,  20, 0, 10,  0},
    {"of_the_fewer_rings",        80,  8, 1,  3, 12,  20, 0,  6,  0},
    {"sixty_four_at_most",        90,  8, 1, 40, 40,  30, 8, 64, 16},
    {"hopper_nodes_four_times",   90, 16, 2,  4,  4,  48, 4, 16, 16},
    {"hopper_nodes_seven",        90, 16, 2,  7,  7,  48, 4, 28, 16},
    {"hopper_nodes_have_enough",  90, 16, 2,  8,  8,  48, 4, 16, 16},
    {"hopper_nodes_slow_ring",    90, 16, 2,  4,  4,  45, 4,  8, 16},
    {"hopper_one_node",           90,  8, 1,  4,  4,  48, 8,  8, 16},
    {"ampere_nodes",              80, 16, 2,  4,  4,  48, 0,  8,  0},
    {"blackwell_one_node",       100,  8, 1, 16, 16,  45, 8, 32, 24},
    {"blackwell_nodes",          103, 16, 2,  4,  4,  46, 8, 16, 32},
    {"one_gpu_a_node_no_nvls",    90,  4, 4,  2,  2,  24, 1,  4,  0},
};

struct CollNetCase {
    const char *name;
    int n_ranks, n_nodes;
    int n_channels; // of machine.csv; those of the graphs are 8
    int chains;
    float bw_intra, bw_inter; // of chains
    bool in_use;
    int want;
};
const CollNetCase kCollNet[] = {
    {"half_as_many_more",    16,  2,  8,  4, 48, 24, true,  12},
    {"one_node",             8,   1,  8,  4, 48, 24, false, 8},
    {"no_chains",            16,  2,  8,  0, 48, 24, false, 8},
    {"fast_network",         16,  2,  8,  4, 48, 48, true,  8},
    {"one_gpu_a_node",       4,   4,  8,  4, 48, 24, true,  8},
    {"two_gpus_a_node",      8,   4,  8,  4, 48, 24, true,  12},
    {"those_of_the_user",    16,  2,  9,  4, 48, 24, true,  9},
};

class CollNet : public testing::TestWithParam<CollNetCase>
{
};

// ncclTopoPostset() of 2.30.7, before Hopper.
TEST_P(CollNet, MayAddChannels)
{
    const CollNetCase &c = GetParam();
    mock_machine machine{};
    mock_graph *graph = machine.graphs.graph;
    machine.info.compute_capability = 80;
    machine.info.n_ranks = c.n_ranks;
    machine.info.n_nodes = c.n_nodes;
    machine.info.n_channels = c.n_channels;
    graph[MOCK_GRAPH_RING].n_channels = 4;
    graph[MOCK_GRAPH_TREE].n_channels = 4;
    graph[MOCK_GRAPH_COLLNET_CHAIN].n_channels = c.chains;
    graph[MOCK_GRAPH_COLLNET_CHAIN].bw_intra = c.bw_intra;
    graph[MOCK_GRAPH_COLLNET_CHAIN].bw_inter = c.bw_inter;
    mock_machine_info info = machine.info;

    EXPECT_EQ(c.in_use, mock_machine_collnet(&machine, &info));
    EXPECT_EQ(c.want, info.n_channels);
}
INSTANTIATE_TEST_SUITE_P(Table, CollNet, testing::ValuesIn(kCollNet),
                         mock_test::CaseName());

struct NvlsCase {
    const char *name;
    int compute_capability;
    int n_nodes;
    int per_node;
    float network; // GB/s of a NIC
    int in_2_29;
    int in_2_30;
};
const NvlsCase kNvls[] = {
    {"one_node",           100,  1,  8, 48, 24, 24},
    {"two_nodes",          100,  2,  8, 48, 32, 32},
    {"two_fast_nodes",     100,  2,  4, 96, 32, 32},
    {"many_nodes",         100,  3,  8, 48, 32, 24},
    {"many_crowded_nodes", 100,  3, 16, 48, 32, 24},
    {"many_fast_nodes",    100, 16,  8, 96, 32, 24},
    {"many_fast_crowded",  100,  4,  9, 96, 32, 32},
    {"many_slow_nodes",    100,  4,  8, 47, 32, 32},
    {"hopper",              90,  4,  8, 48, 16, 16},
    {"one_gpu_a_node",     100,  4,  1, 48,  0,  0},
};

class Nvls : public testing::TestWithParam<NvlsCase>
{
};

// ncclNvlsInit() of 2.29.7, ncclNvlsTuning() of 2.30.7.
TEST_P(Nvls, ChannelsFollowTheNetworkFrom2_30)
{
    const NvlsCase &c = GetParam();
    mock_machine machine{};
    machine.info.compute_capability = c.compute_capability;
    machine.info.n_nodes = c.n_nodes;
    machine.info.n_ranks = c.n_nodes * c.per_node;
    machine.graphs.graph[MOCK_GRAPH_NVLS].n_channels = 8;
    machine.graphs.graph[MOCK_GRAPH_NVLS].bw_inter = c.network;
    const auto fit = [&](const char *version, int n) {
        mock_machine_info info = machine.info;
        info.n_nvls_channels = n;
        mock_machine_fit_nvls(&machine, &mock_version_find(version)->model,
                              &info);
        return info.n_nvls_channels;
    };

    EXPECT_EQ(c.in_2_29, fit("2.29", c.in_2_29));
    EXPECT_EQ(c.in_2_30, fit("2.30", c.in_2_29));
    EXPECT_EQ(7, fit("2.30", 7)) << "of the user";
}
INSTANTIATE_TEST_SUITE_P(Table, Nvls, testing::ValuesIn(kNvls),
                         mock_test::CaseName());
// clang-format on

INSTANTIATE_TEST_SUITE_P(Table, Derived, testing::ValuesIn(kDerived),
                         CaseName());

// ---- machine.csv without what the graphs say ----

TEST(MachineCsv, NeedsOnlyWhatGraphsCannotTell)
{
    const std::string few = "gpu,compute_capability,cpu_vendor,nccl";
    const std::string nodes = "gpu,compute_capability,cpu_vendor,nccl,nodes";
    const std::string ranks = "gpu,compute_capability,cpu_vendor,nccl,ranks";

    EXPECT_THAT(CountsOf(Load("h200x4", Csv(few, "G,90,intel,2.28.9"))),
                ElementsAreArray({4, 1, 24, 0}));
    EXPECT_THAT(CountsOf(Load("b200x8", Csv(few, "G,100,intel,2.28.9"))),
                ElementsAreArray({8, 1, 32, 24}));
    EXPECT_THAT(CountsOf(Load("h100n8x8", Csv(nodes, "G,90,amd,2.28.9,3"))),
                ElementsAreArray({24, 3, 16, 16}));
    EXPECT_THAT(CountsOf(Load("h100n8x8", Csv(ranks, "G,90,amd,2.28.9,32"))),
                ElementsAreArray({32, 4, 16, 16}));
}

TEST(MachineCsv, MayHaveCountsThatTheUserForced)
{
    const std::string csv =
        Csv("gpu,compute_capability,cpu_vendor,nccl,channels,nvls_channels",
            "G,90,amd,2.28.9,32,8");

    EXPECT_THAT(CountsOf(Load("h100x8", csv)), ElementsAreArray({8, 1, 32, 8}));
}

std::string Repeated(int n, const std::string &text)
{
    std::string all;
    for (int i = 0; i < n; i++)
        all += text;
    return all;
}

TEST(MachineCsv, MayHaveNodesOf72Gpus)
{
    const std::string graph =
        " pattern=\"4\" nchannels=\"1\" speedintra=\"1\" speedinter=\"1\" "
        "typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\"><channel>" +
        Repeated(72, "<gpu/>") + "</channel></graph>";
    Folder folder;
    folder.Write("graphs.xml", "<graphs><graph id=\"0\"" + graph +
                                   "<graph id=\"1\"" + graph + "</graphs>");
    folder.Write("machine.csv",
                 Csv("gpu,compute_capability,cpu_vendor,nccl,ranks,nodes",
                     "G,90,amd,2.28.9,144,2"));

    EXPECT_THAT(CountsOf(LoadFolder(folder.Path())),
                ElementsAreArray({144, 2, 2, 0}));
}

TEST(MachineCsv, KnowsGpusFromPascalOn)
{
    for (const char *capability : {"60", "129"})
        EXPECT_TRUE(
            Load("h200x4", Csv("gpu,compute_capability,cpu_vendor,nccl",
                               std::string("G,") + capability + ",amd,2.28.9")))
            << capability;
}

// A graph of channels in which these GPUs come first, and a second one.
std::string GraphOf(int id, const std::vector<std::string> &heads,
                    const std::string &before = "")
{
    std::string text = "<graph id=\"" + std::to_string(id) +
                       "\" pattern=\"4\" nchannels=\"" +
                       std::to_string(heads.size()) +
                       "\" speedintra=\"1\" speedinter=\"1\" typeintra=\"NVL\" "
                       "typeinter=\"PIX\" samechannels=\"1\">";
    for (const std::string &head : heads)
        text += "<channel>" + before + "<gpu" + head + "/><gpu/></channel>";
    return text + "</graph>";
}

Machine LoadGraphs(const std::string &graphs, const std::string &nodes = "")
{
    Folder folder;
    folder.Write("graphs.xml", "<graphs>" + graphs + "</graphs>");
    folder.Write("machine.csv",
                 Csv("gpu,compute_capability,cpu_vendor,nccl" +
                         std::string(nodes.empty() ? "" : ",nodes"),
                     "G,90,amd,2.28.9" + nodes));
    return LoadFolder(folder.Path());
}

const std::string kRingAndTree = GraphOf(0, {""}) + GraphOf(1, {""});
constexpr char kGpu0[] = " dev=\"0\"";
constexpr char kGpu1[] = " dev=\"1\"";
constexpr char kGpu16[] = " dev=\"0x10\"";

TEST(Heads, AreCountedOnce)
{
    const struct {
        std::vector<std::string> heads;
        int n_heads;
    } cases[] = {
        {{kGpu0}, 1},
        {{kGpu0, kGpu1}, 2},
        {{kGpu0, kGpu1, kGpu0}, 2},
        {{kGpu1, kGpu1, kGpu1}, 1},
        {{kGpu16, " dev=\"16\""}, 1},
        {{"", "", ""}, 3}, // without names, each is another
        {{kGpu0, "", kGpu1}, 3},
        {std::vector<std::string>(64, ""), 64},
    };

    for (const auto &c : cases) {
        Machine machine = LoadGraphs(kRingAndTree + GraphOf(3, c.heads));
        const mock_graph &nvls = machine->graphs.graph[MOCK_GRAPH_NVLS];
        EXPECT_EQ(c.n_heads, nvls.n_heads) << &c - cases;
        EXPECT_EQ((int)c.heads.size(), nvls.n_channels) << &c - cases;
    }
}

// Those of another graph may be more, and in another order.
TEST(Heads, AreThoseOfCollNetChainOrNot)
{
    const struct {
        std::vector<std::string> chains, nvls;
        bool heads_chains;
    } cases[] = {
        {{kGpu1}, {kGpu1}, true},
        {{kGpu0, kGpu1}, {kGpu16, kGpu1, kGpu0}, true},
        {{kGpu0, kGpu1}, {kGpu1}, false},
        {{kGpu0, kGpu1}, {kGpu0}, false},
        {{kGpu0}, {kGpu1}, false},
        {{kGpu1, kGpu0}, {kGpu1, kGpu16}, false},
    };

    for (const auto &c : cases) {
        Machine machine = LoadGraphs(kRingAndTree + GraphOf(2, c.chains) +
                                     GraphOf(3, c.nvls));
        EXPECT_EQ(c.heads_chains,
                  machine->graphs.graph[MOCK_GRAPH_NVLS].heads_chains)
            << &c - cases;
    }
}

TEST(Network, IsWhereARingOrATreeLeavesTheNode)
{
    const struct {
        const char *ring, *tree, *nvls;
        bool on_network;
    } cases[] = {{"", "", "", false},
                 {"<net/>", "", "", true},
                 {"", "<net/>", "", true},
                 {"", "", "<net/>", false}};

    for (const auto &c : cases) {
        Machine machine =
            LoadGraphs(GraphOf(0, {""}, c.ring) + GraphOf(1, {""}, c.tree) +
                           GraphOf(3, {""}, c.nvls),
                       ",2");
        EXPECT_EQ(c.on_network, machine->graphs.on_network) << &c - cases;
        EXPECT_EQ(2, machine->graphs.per_node);
    }
}

TEST(MachineCsv, MustFitTheGraphs)
{
    const std::string columns = "gpu,compute_capability,cpu_vendor,nccl";
    const std::string row = "G,90,amd,2.28.9";
    auto graphs = [](const char *name) {
        return ReadFile(STP_FIXTURES "/machines/" + std::string(name) +
                        "/graphs.xml");
    };
    const std::string gpus = Repeated(73, "<gpu/>");
    const std::string wide =
        "<graphs><graph id=\"0\" pattern=\"4\" nchannels=\"1\" "
        "speedintra=\"1\" speedinter=\"1\" typeintra=\"NVL\" "
        "typeinter=\"PIX\" samechannels=\"1\"><channel>";

    EXPECT_EQ("graphs.xml: channels that leave the node, but machine.csv says "
              "neither 'ranks' nor 'nodes'",
              Refusal(graphs("h100n2x8"), Csv(columns, row)));
    EXPECT_EQ(
        "graphs.xml: 8 GPUs on a node, which does not fit what "
        "machine.csv says",
        Refusal(graphs("h100n2x8"), Csv(columns + ",ranks", row + ",12")));
    EXPECT_EQ(
        "graphs.xml: 8 GPUs on a node, which does not fit what "
        "machine.csv says",
        Refusal(graphs("h100n2x8"), Csv(columns + ",nodes", row + ",125001")));
    EXPECT_EQ("graphs.xml:1: a channel without GPUs",
              Refusal(wide + "</channel></graph></graphs>", Csv(columns, row)));
    EXPECT_EQ("graphs.xml: 73 GPUs on a node, but 72 is the most",
              Refusal(wide + gpus + "</channel></graph>" + "<graph id=\"1\" " +
                          wide.substr(wide.find("pattern")) + gpus +
                          "</channel></graph></graphs>",
                      Csv(columns, row)));
}

// ---- other sizes ----

struct SizeCase {
    const char *name;
    const char *machine;
    int n_ranks;
    Counts want;
    int heads;
};

class Sizes : public testing::TestWithParam<SizeCase>
{
};

TEST_P(Sizes, HaveTheNodesAndChannelsThatNcclDerives)
{
    const SizeCase &c = GetParam();

    Machine resized = Resized(LoadMachine(c.machine), c.n_ranks);

    ASSERT_TRUE(resized);
    EXPECT_THAT(CountsOf(resized), ElementsAreArray(c.want));
    EXPECT_EQ(c.heads, resized->graphs.graph[MOCK_GRAPH_NVLS].n_channels);
    EXPECT_EQ(c.want[0] / c.want[1], resized->graphs.per_node);
    EXPECT_TRUE(mock_machine_get_info(resized.get())->resized);
}

// clang-format off
const SizeCase kSizes[] = {
    {"fewer_gpus",      "h200x4",   2,       {2, 1, 24, 0},             0},
    {"one_gpu",         "h100x8",   1,       {1, 1, 24, 0},             1},
    {"two_heads",       "h100x8",   2,       {2, 1, 24, 16},            2},
    {"five_heads",      "h100x8",   5,       {5, 1, 24, 16},            5},
    {"a_node",          "h100n2x8", 8,       {8, 1, 16, 16},            8},
    {"half_a_node",     "h100n8x8", 4,       {4, 1, 16, 16},            4},
    {"three_nodes",     "h100n2x8", 24,      {24, 3, 16, 16},           8},
    {"as_it_was",       "h100n2x8", 16,      {16, 2, 16, 16},           8},
    {"many",            "h100n8x8", 100000,  {100000, 12500, 16, 16},   8},
    {"as_many_as_can",  "a100n2x8", 1000000, {1000000, 125000, 16, 0},  0},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Sizes, testing::ValuesIn(kSizes), CaseName());

TEST(Sizes, AreModelledAndLeaveTheMachineAlone)
{
    Machine machine = LoadMachine("h200x4");

    Machine resized = Resized(machine, 4);

    EXPECT_TRUE(mock_machine_has_timings(machine.get()));
    EXPECT_FALSE(mock_machine_get_info(machine.get())->resized);
    EXPECT_FALSE(mock_machine_has_timings(resized.get()));
    EXPECT_TRUE(mock_machine_get_info(resized.get())->resized);
    EXPECT_STREQ("h200x4", mock_machine_get_info(resized.get())->name);
}

TEST(Sizes, KeepChannelsThatTheUserForced)
{
    const std::string columns =
        "gpu,compute_capability,cpu_vendor,nccl,nodes,channels,nvls_channels";
    Machine forced = Load("h100n2x8", Csv(columns, "G,90,amd,2.28.9,2,32,8"));

    EXPECT_THAT(CountsOf(Resized(forced, 32)),
                ElementsAreArray({32, 4, 32, 8}));
    EXPECT_THAT(CountsOf(Resized(forced, 2)), ElementsAreArray({2, 1, 32, 8}));
    EXPECT_THAT(CountsOf(Resized(forced, 1)), ElementsAreArray({1, 1, 32, 0}));
}

// Four times the search within several nodes, twice within one.
TEST(Sizes, HaveTheChannelsOfTheirNumberOfNodes)
{
    std::string graphs =
        GraphOf(0, {"", "", "", ""}, "<net/>") + GraphOf(1, {"", "", "", ""});
    for (size_t at;
         (at = graphs.find("speedintra=\"1\"")) != std::string::npos;)
        graphs.replace(at, strlen("speedintra=\"1\""), "speedintra=\"48\"");
    Machine machine = LoadGraphs(graphs, ",2");

    EXPECT_THAT(CountsOf(machine), ElementsAreArray({4, 2, 16, 0}));
    EXPECT_THAT(CountsOf(Resized(machine, 2)), ElementsAreArray({2, 1, 8, 0}));
    EXPECT_THAT(CountsOf(Resized(machine, 6)), ElementsAreArray({6, 3, 16, 0}));
}

TEST(Sizes, GrowFromOneNodeWhoseGraphsHaveANetwork)
{
    Machine one =
        Load("h100n2x8", Csv("gpu,compute_capability,cpu_vendor,nccl,nodes",
                             "G,90,intel,2.28.9,1"));

    EXPECT_THAT(CountsOf(Resized(one, 16)), ElementsAreArray({16, 2, 16, 16}));
}

TEST(Sizes, ShareGpusUnlessEachRankCanHaveOne)
{
    Machine shared = LoadMachine("h100_shared"); // two ranks on one GPU

    EXPECT_EQ(1, mock_machine_get_info(shared.get())->n_gpus);
    EXPECT_EQ(1, mock_machine_get_info(Resized(shared, 2).get())->n_gpus);
    EXPECT_EQ(0, mock_machine_get_info(Resized(shared, 1).get())->n_gpus);
}

TEST(Sizes, HaveTheCostsOfTheirOwn)
{
    const mock_call call = Call(ncclFuncAllReduce, 1 << 20);

    mock_outcome want = OnMachine(LoadMachine("h100n8x8"), call);
    mock_outcome got = OnMachine(Resized(LoadMachine("h100n2x8"), 64), call);

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            EXPECT_EQ(want.cost[a][p], got.cost[a][p]) << a << "/" << p;
    EXPECT_EQ(want.n_channels, got.n_channels);
}

// NCCL's search finds the same rings for 4 and 8 GPUs on an NVSwitch.
TEST(Sizes, GrowOnAnNvSwitchWithoutANetwork)
{
    Machine resized = Resized(LoadMachine("h200x4"), 8);
    const mock_call call = Call(ncclFuncAllGather, 1 << 20);

    mock_outcome want = OnMachine(LoadMachine("h100x8"), call);
    mock_outcome got = OnMachine(resized, call);

    EXPECT_EQ(8, mock_machine_get_info(resized.get())->n_ranks);
    EXPECT_EQ(1, mock_machine_get_info(resized.get())->n_nodes);
    EXPECT_TRUE(mock_machine_get_info(resized.get())->resized);
    for (int proto = 0; proto < NCCL_NUM_PROTOCOLS; proto++)
        EXPECT_EQ(want.cost[NCCL_ALGO_RING][proto],
                  got.cost[NCCL_ALGO_RING][proto]);
}

struct RefusedSize {
    const char *machine;
    int n_ranks;
    const char *error;
};

TEST(Sizes, ThatCannotBeAreRefused)
{
    const RefusedSize cases[] = {
        {"h100x8", 16,
         "h100x8 with 16 GPUs, but it is one node of 8 and its search graphs "
         "have no network: take a machine of several nodes, such as h100n2x8 "
         "or a100n2x8"},
        {"h200x4", 12,
         "h200x4 with 12 GPUs, but it is one node of 4 and its search graphs "
         "have no network: take a machine of several nodes, such as h100n2x8 "
         "or a100n2x8"},
        {"h200x4", 9,
         "h200x4 with 9 GPUs, expected at most the 4 of a node, or a multiple "
         "of them"},
        {"h100n2x8", 12,
         "h100n2x8 with 12 GPUs, expected at most the 8 of a node, or a "
         "multiple of them"},
        {"h100_shared", 4,
         "h100_shared with 4 ranks, expected at most 2: its ranks share GPUs, "
         "and no machine of more is known"},
        {"h100n2x8", 0, "h100n2x8 with 0 GPUs, expected 1 to 1000000"},
        {"h100n2x8", 1000008,
         "h100n2x8 with 1000008 GPUs, expected 1 to 1000000"},
    };

    for (const RefusedSize &c : cases) {
        Machine machine = LoadMachine(c.machine);
        mock_machine *resized = nullptr;

        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_resize(machine.get(), c.n_ranks, &resized));

        EXPECT_EQ(nullptr, resized);
        EXPECT_STREQ(c.error, mock_last_error());
    }
}

// 16 channels of 512 threads with 8 x 32768 bytes each need 2^31 bytes, which
// is negative in NCCL's int and compares as huge; 15 are used from 15 x 2^27.
TEST(Sizes, OverflowNcclsCountOfChannelsFrom32768Ranks)
{
    Machine at = Resized(LoadMachine("h100n8x8"), 32768);
    Machine below = Resized(LoadMachine("h100n8x8"), 32760);
    const size_t n_bytes = size_t{1} << 31;

    EXPECT_EQ(15, mock_default_channels(&at->model, NCCL_ALGO_RING,
                                        NCCL_PROTO_LL, n_bytes));
    EXPECT_EQ(14, mock_default_channels(&at->model, NCCL_ALGO_RING,
                                        NCCL_PROTO_LL, (size_t{15} << 27) - 1));
    EXPECT_EQ(16, mock_default_channels(&below->model, NCCL_ALGO_RING,
                                        NCCL_PROTO_LL, n_bytes));
}

} // namespace
