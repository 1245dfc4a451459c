// CollNet enabled by the user: table, channels, chunks, groups.
#include <gmock/gmock.h>

#include "support/mock_folder.h"
#include "support/mock_script.h"

using namespace mock_test;

namespace
{

// A graph with as many channels, each with a GPU of its own as its head.
std::string Graph(int id, int n_channels, int n_heads, int speed_intra)
{
    std::string text = "<graph id=\"" + std::to_string(id) +
                       "\" pattern=\"3\" nchannels=\"" +
                       std::to_string(n_channels) + "\" speedintra=\"" +
                       std::to_string(speed_intra) +
                       "\" speedinter=\"48\" typeintra=\"NVL\" "
                       "typeinter=\"PIX\" samechannels=\"0\">";
    for (int c = 0; c < n_channels; c++)
        text += "<channel><net dev=\"0\"/><gpu dev=\"" +
                std::to_string(c % n_heads) + "\"/></channel>";
    return text + "</graph>";
}

void ReplaceGraph(std::string *xml, int id, const std::string &graph)
{
    size_t at = xml->find("<graph id=\"" + std::to_string(id));
    size_t end = xml->find("\n", at);

    ASSERT_EQ("/>", xml->substr(end - 2, 2)) << "a graph with channels";
    xml->replace(at, end - at, graph);
}

// The machine with CollNet's two graphs, and those that replace others.
Machine WithCollNet(const std::string &name = "h100n2x8", int n_heads = 8,
                    int speed_intra = 48, int n_nvls_heads = 0,
                    int n_channels = 16, int n_nvls_channels = 16)
{
    const std::string from = STP_FIXTURES "/machines/" + name;
    std::string xml = ReadFile(from + "/graphs.xml");
    std::string csv = ReadFile(from + "/machine.csv");
    Folder folder;

    if (n_channels != 16)
        csv.replace(csv.find(",16,16,2.28.9"), 3,
                    "," + std::to_string(n_channels));
    if (n_nvls_channels != 16)
        csv.replace(csv.find(",16,2.28.9"), 3,
                    "," + std::to_string(n_nvls_channels));

    if (n_nvls_heads != 0) {
        size_t at = xml.find("<graph id=\"3\"");
        size_t end = xml.find("</graph>", at) + strlen("</graph>");
        xml.replace(at, end - at, Graph(3, 8, n_nvls_heads, 40));
    }
    ReplaceGraph(&xml, 2, Graph(2, 8, 8, speed_intra));
    ReplaceGraph(&xml, 4, Graph(4, 8, n_heads, 48));
    folder.Write("graphs.xml", xml);
    folder.Write("machine.csv", csv);
    return LoadFolder(folder.Path());
}

mock_nccl_options Enabled()
{
    mock_nccl_options options{};
    options.collnet = true;
    return options;
}

// ---- the table ----

// Whether CollNet Direct, CollNet Chain and NVLS are open.
std::vector<bool> Open(const mock_outcome &outcome)
{
    std::vector<bool> open;
    for (int algo :
         {NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_COLLNET_CHAIN, NCCL_ALGO_NVLS})
        open.push_back(outcome.cost[algo][NCCL_PROTO_SIMPLE] >= 0);
    return open;
}

using Three = std::vector<bool>;

TEST(CollNetSwitch, OpensThreeAlgorithms)
{
    Machine machine = WithCollNet();
    const std::pair<ncclFunc_t, Three> cases[] = {
        {ncclFuncAllReduce, {true, true, true}},
        {ncclFuncAllGather, {true, false, true}},
        {ncclFuncReduceScatter, {true, false, true}},
        {ncclFuncReduce, {false, false, false}}};

    for (const auto &[coll, open] : cases)
        EXPECT_EQ(open,
                  Open(OnMachine(machine, Call(coll, 1 << 20), Enabled())));
    EXPECT_EQ(Three({false, false, false}),
              Open(OnMachine(machine, Call(ncclFuncAllReduce, 1 << 20), {})));
}

TEST(CollNetSwitch, HasNoEffectOnOneNodeOrWithoutItsGraphs)
{
    Machine one = WithCollNet("h100x8");
    Machine bare = LoadMachine("h100n2x8");
    const mock_call call = Call(ncclFuncAllReduce, 1 << 20);

    EXPECT_EQ(Three({false, false, true}),
              Open(OnMachine(one, call, Enabled())));
    EXPECT_EQ(Three({false, false, false}),
              Open(OnMachine(bare, call, Enabled())));
}

TEST(CollNetSwitch, GathersWhatTheNetworkCannotReduce)
{
    Machine machine = WithCollNet();

    for (auto [coll, open] : {std::pair(ncclFuncAllReduce, false),
                              std::pair(ncclFuncReduceScatter, false),
                              std::pair(ncclFuncAllGather, true)}) {
        mock_call call = Call(coll, 1 << 20);
        call.no_collnet = true;
        EXPECT_EQ(Three({open, false, open}),
                  Open(OnMachine(machine, call, Enabled())))
            << coll;
    }
}

// Without NVLS the heads are those of CollNet Direct's graph.
TEST(CollNetSwitch, NeedsEveryGpuAsAHeadToGather)
{
    for (int n_heads : {7, 8}) {
        Machine machine = WithCollNet("a100n2x8", n_heads);

        EXPECT_EQ(Three({n_heads == 8, false, false}),
                  Open(OnMachine(machine, Call(ncclFuncAllGather, 1 << 20),
                                 Enabled())));
        EXPECT_EQ(Three({true, true, false}),
                  Open(OnMachine(machine, Call(ncclFuncAllReduce, 1 << 20),
                                 Enabled())));
    }
}

TEST(CollNetSwitch, NeedsEveryGpuAsAHeadToReduceFrom2_31)
{
    const std::tuple<const char *, int, bool> cases[] = {
        {"2.30", 7, true}, {"2.31", 7, false}, {"2.31", 8, true}};

    for (const auto &[version, n_heads, open] : cases) {
        mock_nccl_options options = Enabled();
        options.version = version;
        mock_outcome got = OnMachine(WithCollNet("a100n2x8", n_heads),
                                     Call(ncclFuncAllReduce, 1 << 20), options);
        EXPECT_EQ(open, Open(got)[0]) << version << " " << n_heads;
    }
}

// The CollNet and NVLS arguments of a v2 tuner.
std::string Told(const char *version, ncclFunc_t coll)
{
    mock_nccl_options options = Enabled();
    options.version = version;
    options.tuner_plugin = STP_TEST_PLUGINS "/libnccl-tuner-echo_v2.so";
    Log log;

    OnMachine(WithCollNet(), Call(coll, 1 << 20), options);
    for (const std::string &text : log.Texts())
        if (text.find("collnet ") != std::string::npos)
            return text.substr(text.find("collnet "), 16);
    return "nothing";
}

TEST(CollNetSwitch, IsPassedToAV2Tuner)
{
    EXPECT_EQ("collnet 1 nvls 1", Told(nullptr, ncclFuncAllReduce));
    EXPECT_EQ("collnet 1 nvls 1", Told("2.21", ncclFuncAllReduce));
    EXPECT_EQ("collnet 1 nvls 0", Told("2.21", ncclFuncAllGather));
}

// CollNet Chain has 8 heads, and 8 or 4 of them head NVLS channels, too.
TEST(CollNetSwitch, KeepsChainsToTheHeadsFrom2_30)
{
    const mock_call call = Call(ncclFuncAllReduce, 1 << 20);

    for (auto [version, n_heads, open] :
         {std::tuple("2.29", 4, true), std::tuple("2.30", 4, false),
          std::tuple("2.30", 8, true)}) {
        mock_nccl_options options = Enabled();
        options.version = version;
        EXPECT_EQ(open, Open(OnMachine(WithCollNet("h100n2x8", 8, 48, n_heads),
                                       call, options))[1])
            << version << " " << n_heads;
    }
}

// ---- channels ----

struct DefaultCase {
    const char *algo;
    size_t n_bytes;
    int want; // of 16, from NCCL's own topoGetAlgoInfo()
};

TEST(CollNetChannels, AreNcclsOwn)
{
    Machine machine = WithCollNet();
    const DefaultCase cases[] = {
        {"collnetdirect", 512 << 10, 1}, {"collnetdirect", 1 << 20, 2},
        {"collnetdirect", 2 << 20, 3},   {"collnetdirect", 4 << 20, 5},
        {"collnetdirect", 8 << 20, 6},   {"collnetdirect", 16 << 20, 11},
        {"collnetdirect", 32 << 20, 12}, {"collnetdirect", 64 << 20, 16},
        {"collnetchain", 64 << 10, 1},   {"collnetchain", 1 << 20, 3},
        {"collnetchain", 4 << 20, 12},   {"collnetchain", 8 << 20, 16},
        {"nvls", 64 << 10, 16},          {"nvls", 64 << 20, 16},
    };

    for (const DefaultCase &c : cases) {
        mock_nccl_options options = Enabled();
        options.algo = c.algo;
        mock_outcome got =
            OnMachine(machine, Call(ncclFuncAllReduce, c.n_bytes), options);
        EXPECT_EQ(c.want, got.n_channels) << c.algo << " " << c.n_bytes;
    }
}

TEST(CollNetChannels, AreHalfAsManyMoreWhereANodeIsFasterThanItsNetwork)
{
    Machine machine = WithCollNet("h100n2x8", 8, 60);
    mock_nccl_options ring = Enabled();
    ring.algo = "ring";
    mock_nccl_options nvls = Enabled();
    nvls.algo = "nvls";
    const mock_call call = Call(ncclFuncAllReduce, 1 << 30);

    EXPECT_EQ(24, OnMachine(machine, call, ring).n_channels);
    EXPECT_EQ(16, OnMachine(machine, call, nvls).n_channels);
    ring.collnet = false;
    EXPECT_EQ(16, OnMachine(machine, call, ring).n_channels);
}

// ---- a tuner's ----

struct Chunked {
    size_t n_bytes;
    int n_channels;
};
std::vector<Chunked> chunked;
size_t chunk_answer;

ncclResult_t NoteChunk(void *, ncclFunc_t, size_t n_bytes, int, int,
                       int n_channels, size_t *size)
{
    chunked.push_back({n_bytes, n_channels});
    if (chunk_answer != 0)
        *size = chunk_answer;
    else
        chunk_answer = *size;
    return ncclSuccess;
}
const ncclTuner_v6_t kNoting{"noting", mock_test::Init, mock_test::Ask,
                             mock_test::Finalize, NoteChunk};

class CollNetTuner : public testing::Test
{
  protected:
    CollNetTuner()
    {
        chunked.clear();
        chunk_answer = 0;
    }
    ~CollNetTuner() override
    {
        script = nullptr;
    }
    // Makes the tuner choose this pair and channel count.
    static void Choose(int algo, int n_channels)
    {
        script = [=](Table table, int *channels) {
            table[algo][NCCL_PROTO_SIMPLE] = 0;
            *channels = n_channels;
            return ncclSuccess;
        };
    }
    ncclResult_t Run(const std::vector<mock_call> &calls)
    {
        mock_nccl_options options = Enabled();
        options.version = "2.30";
        options.static_tuner = &kNoting;
        options.static_tuner_version = 6;
        comm_ = nullptr; // before its libnccl
        nccl_ = MakeNccl(options);
        comm_ = MakeComm(nccl_, machine_);
        outcomes_.resize(calls.size());
        return mock_comm_group(comm_.get(), calls.data(), calls.size(),
                               outcomes_.data());
    }

    Machine machine_ = WithCollNet();
    Nccl nccl_;
    Comm comm_;
    std::vector<mock_outcome> outcomes_;
};

TEST_F(CollNetTuner, GetsTheChannelsItAsksFor)
{
    for (int algo :
         {NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_COLLNET_CHAIN, NCCL_ALGO_NVLS}) {
        Choose(algo, 13);
        ASSERT_EQ(ncclSuccess, Run({Call(ncclFuncAllReduce, 1024)}));
        EXPECT_EQ(13, outcomes_[0].n_channels) << algo;
    }
    Choose(NCCL_ALGO_RING, 13);
    ASSERT_EQ(ncclSuccess, Run({Call(ncclFuncAllReduce, 1024)}));
    EXPECT_EQ(1, outcomes_[0].n_channels) << "a ring's depend on the size";
}

TEST_F(CollNetTuner, MustNotAskForChannelsThatAreNotThere)
{
    for (int n : {17, 127, 128, 255}) {
        Choose(NCCL_ALGO_COLLNET_CHAIN, n);
        EXPECT_EQ(ncclInternalError, Run({Call(ncclFuncAllReduce, 1024)})) << n;
    }
    EXPECT_STREQ("-1 channels for collnet_chain, which NCCL takes as they are, "
                 "but the communicator has 16",
                 mock_last_error());
}

TEST_F(CollNetTuner, IsAskedOnceForTheChunkOfAllChannels)
{
    Choose(NCCL_ALGO_COLLNET_DIRECT, 4);
    ASSERT_EQ(ncclSuccess, Run({Call(ncclFuncAllReduce, 16 << 20)}));

    ASSERT_EQ(1u, chunked.size());
    EXPECT_EQ(16u << 20, chunked[0].n_bytes);
    EXPECT_EQ(4, chunked[0].n_channels);
    EXPECT_EQ(32768u, chunk_answer);
    EXPECT_EQ(0u, outcomes_[0].chunk_bytes);

    ASSERT_EQ(ncclSuccess, Run({Call(ncclFuncAllReduce, 16 << 20)}));
    chunk_answer = 65536;
    ASSERT_EQ(ncclSuccess, Run({Call(ncclFuncAllReduce, 16 << 20)}));
    EXPECT_EQ(65536u, outcomes_[0].chunk_bytes);
}

} // namespace
