// Machine folders: valid and invalid files.
#include <cstring>
#include <gmock/gmock.h>

#include "support/mock_folder.h"
#include "support/mock_script.h"

using namespace mock_test;

namespace
{

#define UNEVEN "NCCL would tune by the mean of the nodes, which is not played"

TEST(MachineFolder, ReturnsTheMachinesInfo)
{
    Machine machine = LoadFolder(STP_FIXTURES "/machines/h200x4/");
    ASSERT_TRUE(machine);

    const struct mock_machine_info *info = mock_machine_get_info(machine.get());

    EXPECT_STREQ("h200x4", info->name);
    EXPECT_STREQ("NVIDIA H200", info->gpu);
    EXPECT_EQ(90, info->compute_capability);
    EXPECT_EQ(4, info->n_ranks);
    EXPECT_EQ(1, info->n_nodes);
    EXPECT_STREQ("unknown", info->cpu_vendor);
    EXPECT_EQ(24, info->n_channels);
    EXPECT_EQ(0, info->n_nvls_channels);
    EXPECT_STREQ("2.28.9", info->nccl);
    EXPECT_TRUE(mock_machine_has_timings(machine.get()));
}

TEST(MachineFolder, IsNamedForTheLastPartOfItsPath)
{
    const std::filesystem::path before = std::filesystem::current_path();

    std::filesystem::current_path(STP_FIXTURES "/machines");
    for (const char *path :
         {"h200x4", "h200x4//", "./h200x4", "../machines/h200x4"}) {
        Machine machine = LoadFolder(path);
        EXPECT_STREQ("h200x4", mock_machine_get_info(machine.get())->name)
            << path;
    }
    TemporaryFolder folder;
    std::filesystem::create_directory_symlink(STP_FIXTURES "/machines/h200x4",
                                              folder.path() + "/m");
    std::filesystem::current_path(folder.path());
    EXPECT_STREQ("m", mock_machine_get_info(LoadFolder("m/").get())->name);
    std::filesystem::current_path(before);
}

TEST(MachineFolder, TimingsAreOptional)
{
    for (const char *name : {"h100x8", "h100x4", "a100x8", "b200x8"}) {
        Machine machine = LoadMachine(name);
        ASSERT_TRUE(machine);
        EXPECT_FALSE(mock_machine_has_timings(machine.get())) << name;
        EXPECT_STREQ(name, mock_machine_get_info(machine.get())->name);
    }
}

TEST(MachineFolder, NodesWithoutRanksAreFull)
{
    Folder folder;
    folder.WriteAs("a100n2x8", "2.28.9");

    for (int n_nodes : {1, 2, MOCK_MAX_RANKS / 8}) {
        folder.Write("machine.csv",
                     "gpu,compute_capability,nodes,cpu_vendor,nccl\nG,80," +
                         std::to_string(n_nodes) + ",amd,2.28.9\n");
        Machine machine = LoadFolder(folder.Path());
        ASSERT_TRUE(machine);
        EXPECT_EQ(n_nodes * 8, mock_machine_get_info(machine.get())->n_ranks);
    }
}

// ---- refusals ----

void ExpectRefused(const std::string &path, ncclResult_t rc,
                   const std::string &error)
{
    mock_machine *machine = nullptr;

    EXPECT_EQ(rc, mock_machine_load(path.c_str(), &machine));

    EXPECT_EQ(nullptr, machine);
    EXPECT_EQ(error, mock_last_error());
}

TEST(MachineFolder, MissingFolderIsAnError)
{
    Folder folder;
    std::string file = folder.Path() + "/machine.csv";

    ExpectRefused("/no/such", ncclSystemError,
                  "/no/such: no such machine folder");
    ExpectRefused(file, ncclSystemError, file + ": no such machine folder");
}

TEST(MachineFolder, WithoutAFileItNeedsIsRefused)
{
    for (const char *name : {"machine.csv", "graphs.xml"}) {
        Folder folder;
        folder.Remove(name);
        ExpectRefused(folder.Path(), ncclSystemError,
                      folder.Path() + "/" + name +
                          ": No such file or directory");
    }
}

struct BrokenCase {
    const char *name;
    std::string text;
    const char *error; // after the file's path
};

void ExpectFileRefused(const char *name, const BrokenCase &c)
{
    Folder folder;
    folder.Write(name, c.text);

    ExpectRefused(folder.Path(), ncclInvalidArgument,
                  folder.Path() + "/" + name + c.error);
}

using BrokenMachineCsv = testing::TestWithParam<BrokenCase>;

TEST_P(BrokenMachineCsv, IsRefusedWithLineAndReason)
{
    ExpectFileRefused("machine.csv", GetParam());
}

#define HEADER                                                                 \
    "gpu,compute_capability,ranks,nodes,cpu_vendor,channels,nvls_channels,"    \
    "nccl\n"
// clang-format off
const BrokenCase kBrokenMachines[] = {
    {"empty", "", ": empty, no header line"},
    {"only_comments", "# a\n\n# b\n", ": empty, no header line"},
    {"no_row", "#\n" HEADER, ": no row below the header"},
    {"two_rows", HEADER "G,90,4,1,amd,24,0,2.28.9\nG,90,4,1,amd,24,0,2.28.9\n", ":3: a second row, but a folder is one machine"},
    {"missing_column", "#\ngpu,compute_capability,ranks,nodes,channels,nvls_channels,nccl\n", ":2: no column 'cpu_vendor'"},
    {"unknown_column", "gpu,memory\n", ":1: unknown column 'memory'"},
    {"column_twice", "gpu,gpu\n", ":1: two columns 'gpu'"},
    {"short_row", HEADER "G,90,4,1,amd,24,0\n", ":2: 7 fields instead of 8"},
    {"long_row", HEADER "G,90,4,1,amd,24,0,2.28.9,\n", ":2: 9 fields instead of 8"},
    {"empty_field", HEADER ",90,4,1,amd,24,0,2.28.9\n", ":2: column 'gpu' has 0 characters, expected 1 to 63"},
    {"word_for_number", HEADER "# x\nG,90,four,1,amd,24,0,2.28.9\n", ":3: column 'ranks': 'four' is not a whole number from 1 to 1000000"},
    {"number_and_more", HEADER "G,90,4x,1,amd,24,0,2.28.9\n", ":2: column 'ranks': '4x' is not a whole number from 1 to 1000000"},
    {"signed", HEADER "G,90,+4,1,amd,24,0,2.28.9\n", ":2: column 'ranks': '+4' is not a whole number from 1 to 1000000"},
    {"too_large", HEADER "G,90,4,1,amd,65,0,2.28.9\n", ":2: column 'channels': '65' is not a whole number from 1 to 64"},
    {"overflow", HEADER "G,90,4,1,amd,99999999999999999999,0,2.28.9\n", ":2: column 'channels': '99999999999999999999' is not a whole number from 1 to 64"},
    {"no_channels", HEADER "G,90,4,1,amd,0,0,2.28.9\n", ":2: column 'channels': '0' is not a whole number from 1 to 64"},
    {"uneven_nodes", HEADER "G,90,5,2,amd,24,0,2.28.9\n", ":2: 5 ranks are not the same number on each of 2 nodes: " UNEVEN},
    {"as_many_gpus_as_ranks", "gpu,compute_capability,ranks,gpus,nodes,cpu_vendor,nccl\nG,90,4,4,1,amd,2.28.9\n",
     ":2: column 'gpus': 4, expected fewer than column 'ranks' says"},
    {"gpus_without_ranks", "gpu,compute_capability,gpus,nodes,cpu_vendor,nccl\nG,90,1,1,amd,2.28.9\n", ":2: column 'gpus': 1, expected fewer than column 'ranks' says"},
    {"old_gpu", HEADER "G,59,4,1,amd,24,0,2.28.9\n", ":2: column 'compute_capability': '59' is not a whole number from 60 to 129"},
    {"no_nodes", HEADER "G,90,4,0,amd,24,0,2.28.9\n", ":2: column 'nodes': '0' is not a whole number from 1 to 1000000"},
    {"no_gpus", "gpu,compute_capability,ranks,gpus,nodes,cpu_vendor,nccl\nG,90,4,0,1,amd,2.28.9\n", ":2: column 'gpus': '0' is not a whole number from 1 to 1000000"},
    {"no_nvls_channels_below_0", HEADER "G,90,4,1,amd,24,-1,2.28.9\n", ":2: column 'nvls_channels': '-1' is not a whole number from 0 to 64"},
    {"full_node", HEADER "G,90,146,2,amd,24,0,2.28.9\n", ":2: 73 ranks on a node, but 72 is the most"},
    {"unknown_vendor", HEADER "G,90,4,1,AMD,24,0,2.28.9\n", ":2: column 'cpu_vendor': 'AMD' is none of intel, amd, arm, mixed, unknown"},
    {"bad_version", HEADER "G,90,4,1,amd,24,0,v3\n", ":2: column 'nccl': 'v3', expected a version whose choices and times are known, 2.21 to 2.32"},
    {"long_gpu", HEADER + std::string(64, 'G') + ",90,4,1,amd,24,0,2.28.9\n", ":2: column 'gpu' has 64 characters, expected 1 to 63"},
    {"no_vendor", HEADER "G,90,4,1,,24,0,2.28.9\n", ":2: column 'cpu_vendor': '' is none of intel, amd, arm, mixed, unknown"},
    {"no_version", HEADER "G,90,4,1,amd,24,0,\n", ":2: column 'nccl' has 0 characters, expected 1 to 15"},
    {"old_version", HEADER "G,90,4,1,amd,24,0,1.28.9\n", ":2: column 'nccl': '1.28.9', expected a version whose choices and times are known, 2.21 to 2.32"},
    {"version_before_all_known", HEADER "G,90,4,1,amd,24,0,2.20.5\n", ":2: column 'nccl': '2.20.5', expected a version whose choices and times are known, 2.21 to 2.32"},
    {"version_after_all_known", HEADER "G,90,4,1,amd,24,0,2.40.0\n", ":2: column 'nccl': '2.40.0', expected a version whose choices and times are known, 2.21 to 2.32"},
    {"gpu_of_amd", HEADER "AMD Instinct MI300X,90,4,1,amd,24,0,2.28.9\n",
     ":2: column 'gpu': 'AMD Instinct MI300X', expected a GPU of NVIDIA: nothing is known of other libraries than NCCL"},
    {"gpu_of_amd_by_its_model", HEADER "MI300X,90,4,1,amd,24,0,2.28.9\n",
     ":2: column 'gpu': 'MI300X', expected a GPU of NVIDIA: nothing is known of other libraries than NCCL"},
    {"capability_of_no_gpu", HEADER "G,94,4,1,amd,24,0,2.28.9\n", ":2: column 'compute_capability': 94, which no GPU of NVIDIA has, expected one such as 90"},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, BrokenMachineCsv,
                         testing::ValuesIn(kBrokenMachines), CaseName());

TEST(MachineCsv, MayHaveItsColumnsInAnyOrderAndComments)
{
    Folder folder;
    folder.Write("machine.csv",
                 "# a machine\r\nnccl,ranks,gpu,nodes,cpu_vendor,"
                 "nvls_channels,channels,compute_capability\r\n\n"
                 "2.28.9,4,My GPU,1,amd,0,16,80\r\n");

    Machine machine = LoadFolder(folder.Path());

    ASSERT_TRUE(machine);
    EXPECT_STREQ("My GPU", mock_machine_get_info(machine.get())->gpu);
    EXPECT_EQ(80, mock_machine_get_info(machine.get())->compute_capability);
    EXPECT_EQ(16, mock_machine_get_info(machine.get())->n_channels);
}

// ---- graphs ----

// A graph whose attributes replace the usual ones, or follow them.
std::string Graph(
    const std::string &id, const std::string &more = "",
    const std::string &channels = "<channel><gpu/><gpu/><gpu/><gpu/></channel>")
{
    std::string nchannels =
        more.find("nchannels") == std::string::npos ? "nchannels=\"1\"" : "";
    std::string inner =
        more.find("typeinter") == std::string::npos ? "typeinter=\"PIX\"" : "";
    return "<graph id=\"" + id + "\" pattern=\"4\" crossnic=\"0\" " +
           nchannels + " speedintra=\"30\" speedinter=\"30\" " + inner +
           " latencyinter=\"0\" typeintra=\"NVL\" samechannels=\"1\" " + more +
           ">" + channels + "</graph>\n";
}

std::string Channels(int n)
{
    std::string text;
    for (int i = 0; i < n; i++)
        text += "<channel><gpu/><gpu/><gpu/><gpu/></channel>";
    return text;
}

using BrokenGraphs = testing::TestWithParam<BrokenCase>;

TEST_P(BrokenGraphs, AreRefusedWithLineAndReason)
{
    ExpectFileRefused("graphs.xml", GetParam());
}

const std::string kOpen = "<graphs version=\"1\">\n";
const std::string kClose = "</graphs>\n";
// clang-format off
const BrokenCase kBrokenGraphs[] = {
    {"empty", "", ":1: no element found"},
    {"not_xml", "gpu,ranks\n", ":1: syntax error"},
    {"cut_off", kOpen + Graph("0"), ":3: no element found"},
    {"crossed_tags", kOpen + "<graph></graphs>\n", ":2: a graph without 'id'"},
    {"other_root", "<system/>\n", ":1: <system> does not belong here, expected search graphs (NCCL_GRAPH_DUMP_FILE) in place of the topology (NCCL_TOPO_DUMP_FILE)"},
    {"unknown_element", kOpen + "<gpu/>\n" + kClose, ":2: <gpu> does not belong here, expected graphs of channels of GPUs and nets"},
    {"too_deep", kOpen + Graph("0", "", "<channel><gpu><x/></gpu></channel>"), ":2: <x> does not belong here, expected graphs of channels of GPUs and nets"},
    {"id_out_of_range", kOpen + Graph("5") + kClose, ":2: id=\"5\" is not a whole number from 0 to 4"},
    {"bad_speed", kOpen + "<graph id=\"0\" pattern=\"4\" nchannels=\"1\" speedintra=\"fast\"/>\n", ":2: speedintra=\"fast\" is not a number"},
    {"speed_with_a_unit", kOpen + "<graph id=\"0\" pattern=\"4\" nchannels=\"1\" speedintra=\"12GB\"/>\n", ":2: speedintra=\"12GB\" is not a number"},
    {"negative_speed", kOpen + "<graph id=\"0\" pattern=\"4\" nchannels=\"1\" speedintra=\"-1\"/>\n", ":2: speedintra=\"-1\" is not a number"},
    {"infinite_speed", kOpen + "<graph id=\"0\" pattern=\"4\" nchannels=\"1\" speedintra=\"1e999\"/>\n", ":2: speedintra=\"1e999\" is not a number"},
    {"no_speed", kOpen + "<graph id=\"0\" pattern=\"4\" nchannels=\"1\"/>\n", ":2: a graph without 'speedintra'"},
    {"bad_latency", kOpen + "<graph id=\"0\" pattern=\"4\" nchannels=\"1\" speedintra=\"1\" speedinter=\"1\" latencyinter=\"x\"/>\n",
     ":2: latencyinter=\"x\" is not a number"},
    {"unknown_pattern", kOpen + "<graph id=\"0\" pattern=\"7\"/>\n", ":2: pattern=\"7\" is not a whole number from 0 to 6"},
    {"signed_pattern", kOpen + "<graph id=\"0\" pattern=\"+4\"/>\n", ":2: pattern=\"+4\" is not a whole number from 0 to 6"},
    {"pattern_and_more", kOpen + "<graph id=\"0\" pattern=\"4x\"/>\n", ":2: pattern=\"4x\" is not a whole number from 0 to 6"},
    {"too_many_channels", kOpen + "<graph id=\"0\" pattern=\"4\" nchannels=\"65\"/>\n", ":2: nchannels=\"65\" is not a whole number from 0 to 64"},
    {"no_path", kOpen + Graph("0", "typeinter=\"\"") + kClose, ":2: typeinter=\"\" is no path that NCCL knows"},
    {"neither_same_nor_other_channels", kOpen + "<graph id=\"0\" pattern=\"4\" nchannels=\"1\" speedintra=\"1\" speedinter=\"1\" "
     "typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"2\"/>\n",
     ":2: samechannels=\"2\" is not a whole number from 0 to 1"},
    {"channel_in_a_channel", kOpen + Graph("0", "", "<channel><channel/></channel>"), ":2: <channel> does not belong here, expected graphs of channels of GPUs and nets"},
    {"network_in_a_graph", kOpen + Graph("0", "", "<net/>"), ":2: <net> does not belong here, expected graphs of channels of GPUs and nets"},
    {"tree_of_other_gpus", kOpen + Graph("0") + Graph("1", "", "<channel><gpu/><gpu/><gpu/></channel>") + kClose, ":3: a channel of 3 GPUs, but a node has 4: " UNEVEN},
    {"bad_path", kOpen + Graph("0", "typeinter=\"NVLINK\"") + kClose, ":2: typeinter=\"NVLINK\" is no path that NCCL knows"},
    {"other_number_of_channels", kOpen + Graph("0", "nchannels=\"2\"") + kClose, ":2: graph 0 has 1 channels but says nchannels=\"2\""},
    {"more_channels_than_nccl_has", kOpen + Graph("0", "nchannels=\"64\"", Channels(65)) + kClose, ":2: graph 0 has 65 channels but says nchannels=\"64\""},
    {"other_number_of_gpus", kOpen + Graph("0", "", "<channel><gpu/><gpu/></channel>") + kClose, ":2: a channel of 2 GPUs, but a node has 4: " UNEVEN},
    {"no_ring", kOpen + Graph("1") + kClose, ": no channels in graph 0 (ring)"},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, BrokenGraphs, testing::ValuesIn(kBrokenGraphs),
                         CaseName());

TEST(Graphs, WithoutNvlsDoNotFitAMachineThatHasIt)
{
    for (const std::string n : {"1", "16"}) {
        Folder folder;
        folder.Write("machine.csv",
                     HEADER "G,90,4,1,amd,24," + n + ",2.28.9\n");

        ExpectRefused(folder.Path(), ncclInvalidArgument,
                      folder.Path() +
                          "/graphs.xml: no NVLS channels, but "
                          "machine.csv says " +
                          n);
    }
}

struct LinkCase {
    const char *name;
    int compute_capability;
    const char *intra;
    const char *inter;
    const char *ring_ll128; // of an all-reduce of 1 MiB
    const char *ring_ll;
};

using Links = testing::TestWithParam<LinkCase>;

// Four ranks on one channel of 10 GB/s: 20/3 GB/s algorithm bandwidth.
TEST_P(Links, DecideOnLl128AndOnLatencies)
{
    const LinkCase &c = GetParam();
    Folder folder;
    std::string text;
    for (const char *id : {"0", "1"})
        text += std::string("<graph id=\"") + id +
                "\" pattern=\"4\" nchannels=\"1\" speedintra=\"10\" "
                "speedinter=\"10\" samechannels=\"0\" typeintra=\"" +
                c.intra + "\" typeinter=\"" + c.inter +
                "\"><channel><gpu/><gpu/><gpu/><gpu/></channel></graph>\n";
    folder.Write("graphs.xml", kOpen + text + kClose);
    folder.Write("machine.csv", HEADER "G," +
                                    std::to_string(c.compute_capability) +
                                    ",4,1,amd,2,0,2.28.9\n");

    mock_outcome got =
        OnMachine(LoadFolder(folder.Path()), Call(ncclFuncAllReduce, 1 << 20));

    const float *ring = got.cost[NCCL_ALGO_RING];
    EXPECT_EQ(c.ring_ll128, Printed(ring[NCCL_PROTO_LL128]));
    EXPECT_EQ(c.ring_ll, Printed(ring[NCCL_PROTO_LL]));
    EXPECT_EQ(c.ring_ll128 == std::string("-1.000"),
              got.cost[NCCL_ALGO_TREE][NCCL_PROTO_LL128] < 0);
}

// NVLink: 6.6 + 6 x .6 and 14 + 6 x 1.9 us; PCIe: 6.6 + 6 x 1 and 14 + 6 x 2.5
// clang-format off
const LinkCase kLinks[] = {
    {"nvlink",                  90, "NVL", "PIX", "196.363", "324.773"},
    {"nvlink_over_pxn",         90, "NVL", "PXN", "196.363", "324.773"},
    {"nvlink_over_the_host",    90, "NVL", "PHB", "-1.000",  "324.773"},
    {"nvlink_over_sockets",     90, "NVL", "SYS", "-1.000",  "324.773"},
    {"sockets",                 90, "SYS", "SYS", "-1.000",  "327.173"},
    {"ampere_over_pxb",         80, "NVL", "PXB", "196.363", "324.773"},
    {"ampere_over_p2c",         80, "NVL", "P2C", "-1.000",  "324.773"},
    {"two_nvlink_hops",         90, "NVB", "PIX", "199.963", "327.173"},
    {"pcie",                    90, "PIX", "PIX", "-1.000",  "327.173"},
    {"pascal",                  60, "NVL", "PIX", "-1.000",  "324.773"},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Links, testing::ValuesIn(kLinks), CaseName());

// ---- channels of rings and trees ----

// Rings or trees over GPUs of PCIe, of 12 GB/s a channel.
std::string Pcie(int id, int pattern, int n_channels)
{
    return "<graph id=\"" + std::to_string(id) + "\" pattern=\"" +
           std::to_string(pattern) + "\" nchannels=\"" +
           std::to_string(n_channels) +
           "\" speedintra=\"12\" speedinter=\"12\" typeintra=\"SYS\" "
           "typeinter=\"PIX\" samechannels=\"0\">" +
           Channels(n_channels) + "</graph>\n";
}

mock_outcome OnPcie(const std::string &graphs, const char *version,
                    const std::string &more = "", int capability = 80,
                    const std::string &highest = "")
{
    Folder folder;
    folder.Write("graphs.xml", kOpen + graphs + kClose);
    folder.Write("machine.csv",
                 "gpu,cpu_vendor,nccl,compute_capability" + more +
                     "\nNVIDIA A100 80GB PCIe,amd,2.28.9," +
                     std::to_string(capability) + highest + "\n");
    Machine machine = LoadFolder(folder.Path());
    mock_nccl_options options{};
    options.version = version;
    Nccl nccl = MakeNccl(options);
    Comm comm = MakeComm(nccl, machine);
    const mock_call call = Call(ncclFuncAllReduce, 4 << 20);
    mock_outcome outcome{};

    EXPECT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &outcome));
    return outcome;
}

// NCCL tunes with the fewer of the two, as after a search of one tree channel,
// or on the graphs of Azure's image for 4 A100, which have 2 and 4.
TEST(RingsAndTrees, HaveTheChannelsOfTheFewer)
{
    const char *version;

    for (size_t i = 0; (version = mock_release_name(i)) != nullptr; i++) {
        const mock_outcome both =
            OnPcie(Pcie(0, 4, 2) + Pcie(1, 1, 2), version);
        for (const auto &n : {std::pair(2, 4), std::pair(5, 2)}) {
            const mock_outcome got =
                OnPcie(Pcie(0, 4, n.first) + Pcie(1, 1, n.second), version);
            EXPECT_EQ(0, std::memcmp(both.cost, got.cost, sizeof(got.cost)))
                << version << " " << n.first << " " << n.second;
            EXPECT_EQ(both.n_channels, got.n_channels) << version;
        }
    }
    const mock_outcome azure = OnPcie(Pcie(0, 4, 2) + Pcie(1, 1, 4), "2.28");
    EXPECT_EQ("575.141",
              Printed(azure.cost[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE]));
    EXPECT_EQ("304.744",
              Printed(azure.cost[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE]));
    EXPECT_EQ(NCCL_ALGO_RING, azure.algo);
}

// Where nodes have unlike graphs, the file has those of each in turn, and NCCL
// takes the least and the farthest of all.
TEST(RingsAndTrees, AreTheLeastOfAllNodes)
{
    const auto node = [](int n_channels, int bw, const char *link, int same) {
        std::string text;
        for (const char *id : {"0", "1"})
            text += std::string("<graph id=\"") + id +
                    "\" pattern=\"1\" nchannels=\"" +
                    std::to_string(n_channels) + "\" speedintra=\"" +
                    std::to_string(bw) + "\" speedinter=\"" +
                    std::to_string(bw) + "\" typeintra=\"" + link +
                    "\" typeinter=\"" + link + "\" samechannels=\"" +
                    std::to_string(same) + "\">" + Channels(n_channels) +
                    "</graph>\n";
        return text;
    };
    const std::string wide = node(16, 12, "PHB", 1),
                      narrow = node(1, 20, "NVL", 0);
    const mock_outcome want = OnPcie(node(1, 12, "PHB", 0), "2.28");

    for (const std::string &graphs : {wide + narrow, narrow + wide}) {
        const mock_outcome got = OnPcie(graphs, "2.28");
        EXPECT_EQ(0, std::memcmp(want.cost, got.cost, sizeof(want.cost)));
        EXPECT_EQ(want.n_channels, got.n_channels);
    }
}

// LL128 needs GPUs of one compute capability; from 2.30 on Hopper and later
// may differ.
TEST(RingsAndTrees, HaveLl128WhereComputeCapabilitiesAllowIt)
{
    const std::string graphs = Graph("0") + Graph("1");
    const struct {
        const char *version;
        int capability;
        const char *highest;
        bool want;
    } cases[] = {
        {"2.21", 80, "80", true},   {"2.21", 80, "90", false},
        {"2.28", 90, "90", true},   {"2.28", 90, "100", false},
        {"2.29", 90, "100", false}, {"2.30", 90, "100", true},
        {"2.30", 80, "90", false},  {"2.32", 90, "100", true},
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.want, OnPcie(graphs, c.version, ",max_compute_capability",
                                 c.capability, std::string(",") + c.highest)
                                  .cost[NCCL_ALGO_RING][NCCL_PROTO_LL128] > 0)
            << c.version << " " << c.capability << " " << c.highest;
}

// Files for NCCL_GRAPH_FILE may have rings alone; NCCL searches the trees.
TEST(RingsAndTrees, OfRingsAloneAreAlike)
{
    const mock_outcome both = OnPcie(Pcie(0, 4, 2) + Pcie(1, 1, 2), "2.28");
    const mock_outcome rings = OnPcie(Pcie(0, 4, 2), "2.28");

    EXPECT_EQ(0, std::memcmp(both.cost, rings.cost, sizeof(both.cost)));
}

// Published ones: DGX Sparks in a ring (mentat's fabric_ring), and
// NVIDIA/nccl's issues 1239 and 1313.
TEST(RingsAndTrees, OfPublicFilesWithRingsAlonePlay)
{
    const struct {
        int n, per_node;
        const char *machine, *speed, *intra, *inter;
    } files[] = {{1, 1, "NVIDIA GB10,121,3,arm", "0.24", "LOC", "P2C"},
                 {2, 1, "NVIDIA GB10,121,3,arm", "0.24", "LOC", "P2C"},
                 {4, 1, "NVIDIA GB10,121,4,arm", "0.24", "LOC", "P2C"},
                 {8, 1, "NVIDIA GB10,121,4,arm", "0.24", "LOC", "P2C"},
                 {2, 4, "NVIDIA A100,80,2,intel", "6", "SYS", "SYS"},
                 {4, 8, "NVIDIA H800,90,2,intel", "24", "NVL", "PXN"}};

    for (const auto &f : files) {
        Folder folder;
        char graph[256];
        std::string channel = "<channel><net dev=\"0\"/>", channels;
        for (int gpu = 0; gpu < f.per_node; gpu++)
            channel += "<gpu dev=\"" + std::to_string(gpu) + "\"/>";
        for (int c = 0; c < f.n; c++)
            channels += channel + "<net dev=\"1\"/></channel>";
        std::snprintf(graph, sizeof(graph),
                      "<graph id=\"0\" pattern=\"4\" nchannels=\"%d\" "
                      "speedintra=\"%s\" speedinter=\"%s\" typeintra=\"%s\" "
                      "typeinter=\"%s\" samechannels=\"1\">",
                      f.n, f.speed, f.speed, f.intra, f.inter);
        folder.Write("graphs.xml",
                     kOpen + graph + channels + "</graph>" + kClose);
        folder.Write("machine.csv",
                     "gpu,compute_capability,nodes,cpu_vendor,nccl\n" +
                         std::string(f.machine) + ",2.28.9\n");
        Machine machine = LoadFolder(folder.Path());
        ASSERT_TRUE(machine);

        mock_outcome got = OnMachine(machine, Call(ncclFuncAllReduce, 1 << 20));

        EXPECT_TRUE(mock_machine_get_info(machine.get())->assumes_tree);
        EXPECT_LT(0, got.cost[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE]);
        EXPECT_EQ(2 * f.n, mock_machine_get_info(machine.get())->n_channels);
    }
}

TEST(OneRank, CallsNoTuner)
{
    Folder folder;
    std::string graph = Graph("0", "", "<channel><gpu/></channel>") +
                        Graph("1", "", "<channel><gpu/></channel>");
    folder.Write("graphs.xml", kOpen + graph + kClose);
    folder.Write("machine.csv", HEADER "G,90,1,1,amd,2,0,2.28.9\n");

    mock_outcome got =
        OnMachine(LoadFolder(folder.Path()), Call(ncclFuncAllReduce, 1 << 20));

    EXPECT_EQ(-1, got.algo);
    EXPECT_EQ(-1, got.cost[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE]);
}

// ---- timings ----

using BrokenTimings = testing::TestWithParam<BrokenCase>;

TEST_P(BrokenTimings, AreRefusedWithLineAndReason)
{
    ExpectFileRefused("timings.csv", GetParam());
}

#define GOOD "allreduce,1024,ring,ll,0,4,w,1,10,4,3,5,2\n"
const std::string kT = kTimingsHeader;
// clang-format off
const BrokenCase kBrokenTimings[] = {
    {"empty", "", ": empty, no header line"},
    {"no_row", kT, ": no row below the header"},
    {"missing_column", "collective,bytes\n", ":1: no column 'algorithm'"},
    {"unknown_collective", kT + "all_reduce,1024,ring,ll,0,4,w,1,10,4,3,5,2\n",
     ":2: column 'collective': 'all_reduce' is none of broadcast, reduce, allgather, reducescatter, allreduce"},
    {"unknown_algorithm", kT + "allreduce,1024,Ring,ll,0,4,w,1,10,4,3,5,2\n",
     ":2: column 'algorithm': 'Ring' is none of tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat, reg, sym, ce, sym/ctas=16-64, sym/ctas=32-64, stage, stage/ctas=16-64, stage/ctas=32-64, auto"},
    {"unknown_protocol", kT + GOOD "allreduce,1024,ring,,0,4,w,1,10,4,3,5,2\n",
     ":3: column 'protocol': '' is none of ll, ll128, simple, reg, sym, ce, sym/ctas=16-64, sym/ctas=32-64, stage, stage/ctas=16-64, stage/ctas=32-64, auto"},
    {"other_ranks", kT + "allreduce,1024,ring,ll,0,8,w,1,10,4,3,5,2\n", ":2: column 'nRanks': '8' is not a whole number from 4 to 4"},
    {"zero_bytes", kT + "allreduce,0,ring,ll,0,4,w,1,10,4,3,5,2\n", ":2: column 'bytes': '0' is not a whole number from 1 to 1125899906842624"},
    {"zero_time", kT + "allreduce,1024,ring,ll,0,4,w,1,10,0,3,5,2\n", ":2: column 'mean_us': '0' is not a number above 0"},
    {"nan_time", kT + "allreduce,1024,ring,ll,0,4,w,1,10,nan,3,5,2\n", ":2: column 'mean_us': 'nan' is not a number above 0"},
    {"time_with_a_unit", kT + "allreduce,1024,ring,ll,0,4,w,1,10,30us,3,5,2\n", ":2: column 'mean_us': '30us' is not a number above 0"},
    {"infinite_time", kT + "allreduce,1024,ring,ll,0,4,w,1,10,1e999,3,5,2\n", ":2: column 'mean_us': '1e999' is not a number above 0"},
    {"p95_below_median", kT + "allreduce,1024,ring,ll,0,4,w,1,10,4,3,2.5,2\n", ":2: min_us, median_us and p95_us do not ascend"},
    {"mean_below_min", kT + "allreduce,1024,ring,ll,0,4,w,1,10,1,3,5,2\n", ":2: mean_us is below min_us"},
    {"median_below_min", kT + "allreduce,1024,ring,ll,0,4,w,1,10,4,1.5,5,2\n", ":2: min_us, median_us and p95_us do not ascend"},
    {"too_many_channels", kT + "allreduce,1024,ring,ll,65,4,w,1,10,4,3,5,2\n", ":2: column 'channels': '65' is not a whole number from 0 to 64"},
    {"no_run", kT + "allreduce,1024,ring,ll,0,4,,1,10,4,3,5,2\n", ":2: column 'run' has 0 characters, expected 1 to 23"},
    {"too_many_rounds", kT + "allreduce,1024,ring,ll,0,4,w,1048577,10,4,3,5,2\n", ":2: column 'round': '1048577' is not a whole number from 0 to 1048576"},
    {"no_iterations", kT + "allreduce,1024,ring,ll,0,4,w,1,0,4,3,5,2\n", ":2: column 'iters': '0' is not a whole number from 1 to 1099511627776"},
    {"registered_with_a_protocol", kT + "allreduce,1024,reg,ll,0,4,w,1,10,4,3,5,2\n",
     ":2: algorithm and protocol are not of one arm, expected reg, sym, ce or stage in both, and channels 0"},
    {"ring_with_a_kind_of_buffers", kT + "allreduce,1024,ring,reg,0,4,w,1,10,4,3,5,2\n",
     ":2: algorithm and protocol are not of one arm, expected reg, sym, ce or stage in both, and channels 0"},
    {"two_kinds_of_buffers", kT + "allreduce,1024,sym,ce,0,4,w,1,10,4,3,5,2\n",
     ":2: algorithm and protocol are not of one arm, expected reg, sym, ce or stage in both, and channels 0"},
    {"symmetric_with_channels", kT + "allreduce,1024,sym,sym,8,4,w,1,10,4,3,5,2\n",
     ":2: algorithm and protocol are not of one arm, expected reg, sym, ce or stage in both, and channels 0"},
    {"unknown_source", kT.substr(0, kT.size() - 1) + ",source\nallreduce,1024,ring,ll,0,4,w,1,10,4,3,5,2,guessed\n",
     ":2: column 'source': 'guessed' is none of measured, recorded, interpolated, virtual, modelled"},
    {"long_kernel", kT.substr(0, kT.size() - 1) + ",ran_kernel\nallreduce,1024,ring,ll,0,4,w,1,10,4,3,5,2," +
     std::string(40, 'k') + "\n", ":2: column 'ran_kernel' has 40 characters, expected 0 to 39"},
    {"overlap_column", kT.substr(0, kT.size() - 1) + ",layers\n", ":1: unknown column 'layers'"},
    {"auto_again", kT + "allreduce,1024,auto2,auto2,0,4,w,1,10,4,3,5,2\n",
     ":2: column 'algorithm': 'auto2' is none of tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat, reg, sym, ce, sym/ctas=16-64, sym/ctas=32-64, stage, stage/ctas=16-64, stage/ctas=32-64, auto"},
    {"twice_apart", kT + GOOD "allreduce,2048,ring,ll,0,4,w,1,10,4,3,5,2\n" GOOD,
     ":4: the same as line 2: one size, pair, channel count, run, round and graph"},
    {"half_auto", kT + "allreduce,1024,auto,ll,0,4,w,1,10,4,3,5,2\n",
     ":2: only one of algorithm and protocol is auto"},
    {"tree_and_auto", kT + "allreduce,1024,tree,auto,0,4,w,1,10,4,3,5,2\n",
     ":2: only one of algorithm and protocol is auto"},
    {"auto_with_channels", kT + "allreduce,1024,auto,auto,8,4,w,1,10,4,3,5,2\n",
     ":2: auto with 8 channels"},
    {"no_kernel", kT + "allgather,1024,tree,ll,0,4,w,1,10,4,3,5,2\n",
     ":2: NCCL has no tree/ll for allgather"},
    {"twice", kT + GOOD "#\n" GOOD,
     ":4: the same as line 2: one size, pair, channel count, run, round and graph"},
    {"channels_without_own", kT + GOOD "allreduce,1024,ring,ll,2,4,s,1,10,4,3,5,2\n",
     ":3: 2 channels, but no row with channels 0 in the same run, round and graph"},
    {"long_run", kT + "allreduce,1024,ring,ll,0,4," + std::string(24, 'w') + ",1,10,4,3,5,2\n",
     ":2: column 'run' has 24 characters, expected 1 to 23"},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, BrokenTimings,
                         testing::ValuesIn(kBrokenTimings), CaseName());

} // namespace
