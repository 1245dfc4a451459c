// NCCL's channel counts of search graphs, and machines of other sizes.

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

using Derived = testing::TestWithParam<DerivedCase>;

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

using Sizes = testing::TestWithParam<SizeCase>;

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

TEST(Sizes, ThatCannotBeAreRefused)
{
    const struct {
        const char *machine;
        int n_ranks;
        const char *error;
    } cases[] = {
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

    for (const auto &c : cases) {
        Machine machine = LoadMachine(c.machine);
        mock_machine *resized = nullptr;

        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_resize(machine.get(), c.n_ranks, &resized));

        EXPECT_EQ(nullptr, resized);
        EXPECT_STREQ(c.error, mock_last_error());
    }
}

} // namespace
