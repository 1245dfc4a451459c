// Channels and chunks, with NCCL's own count and with a tuner's.
#include <tuple>

#include <gmock/gmock.h>

#include "support/mock_script.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "machine/machine.h"
#include "model/channels.h"
#include "versions/versions.h"
}
#pragma GCC diagnostic pop

using namespace mock_test;
using testing::Each;
using testing::HasSubstr;

namespace
{

// ---- channels ----

struct ChannelCase {
    const char *name;
    const char *machine;
    ncclFunc_t coll;
    size_t n_bytes;
    int algo;
    int proto;
    int asked;
    int want;
    int run; // what mock_outcome_run() says
};

class Channels : public Scripted,
                 public testing::WithParamInterface<ChannelCase>
{
};

TEST_P(Channels, AreScheduledAsNcclSchedulesThem)
{
    const ChannelCase &c = GetParam();
    mock_call call = Call(c.coll, c.n_bytes);
    int on_entry = -1;
    script = [&](Table table, int *n_channels) {
        on_entry = *n_channels;
        table[c.algo][c.proto] = 0;
        if (c.asked != 0)
            *n_channels = c.asked;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclSuccess, Try(call, c.machine)) << mock_last_error();

    EXPECT_EQ(0, on_entry);
    EXPECT_EQ(c.want, outcome_.n_channels);
    EXPECT_EQ(c.asked, outcome_.asked_channels);
    EXPECT_EQ(c.run, mock_outcome_run(&call, &outcome_).n_channels);
}

// clang-format off
#define AR ncclFuncAllReduce
#define AG ncclFuncAllGather
const ChannelCase kChannelCases[] = {
    {"one",            "h200x4", AR, 64 << 20, 1, 2, 1,   1,  1},
    {"two",            "h200x4", AR, 64 << 20, 1, 2, 2,   2,  2},
    {"limit",          "h200x4", AR, 64 << 20, 1, 2, 32,  24, 32},
    {"small_use_few",  "h200x4", AR, 100000,   1, 2, 24,  13, 24},
    {"rounded",        "h200x4", AR, 100000,   1, 2, 8,   7,  8},
    {"ll_weighs_four", "h200x4", AR, 65536,    1, 0, 24,  16, 24},
    {"simple_does_not","h200x4", AR, 65536,    1, 2, 24,  8,  24},
    {"ll_large",       "h200x4", AR, 1 << 20,  1, 0, 8,   8,  8},
    {"ll128",          "h200x4", AR, 1 << 20,  1, 1, 16,  16, 16},
    {"tiny",           "h200x4", AR, 8,        1, 0, 16,  1,  16},
    {"gather",         "h200x4", AG, 3905536,  1, 2, 4,   4,  4},
    {"last_positive",  "h200x4", AR, 1 << 20,  1, 2, 127, 22, 127},
    {"n128_is_negative","h200x4", AR, 1 << 20,  1, 2, 128, 24, 127},
    {"n255_is_negative","h200x4", AR, 1 << 20,  1, 2, 255, 24, 127},
    {"n257_is_one",     "h200x4", AR, 64 << 20, 1, 2, 257, 1,  1},
    {"nvls",           "h100x8", AR, 64 << 20, 4, 2, 0,   16, 0},
    {"nvls_small",     "h100x8", AR, 65536,    4, 2, 0,   8,  0},
    {"nvls_limit",     "h100x8", AR, 64 << 20, 4, 2, 24,  16, 24},
    {"nvls_fewer",     "b200x8", AR, 1 << 20,  4, 2, 7,   7,  7},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Channels, testing::ValuesIn(kChannelCases),
                         CaseName());

TEST_F(Scripted, ChannelsThatEightBitsMakeZeroFail)
{
    script = [](Table, int *n_channels) {
        *n_channels = 256;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclInternalError, Try(Call(ncclFuncAllReduce, 1 << 20)));

    EXPECT_STREQ("256 channels are 0 in NCCL's 8-bit field, and NCCL would "
                 "divide by 0",
                 mock_last_error());
    EXPECT_EQ(0, outcome_.n_channels);
    EXPECT_EQ(256, outcome_.asked_channels);
}

// Up to 2.22 a channel gets only cells of 16 bytes that fit, later at least
// one.
TEST(SharedChannels, ACollectiveBeginsOnTheNextChannelWhereNoCellFits)
{
    constexpr size_t kElements = 16 / 2; // of a cell
    const struct {
        const char *name;
        size_t room; // on the first channel, in parts of a cell of 100
        size_t n_cells;
        int first, n_channels;
        size_t lo, hi; // cells
    } cases[] = {
        {"all_fit", 400, 4, 0, 1, 4, 0},
        {"one_fits", 199, 4, 0, 2, 1, 3},
        {"none_fits", 99, 4, 1, 1, 4, 0},
        {"no_room", 0, 4, 1, 1, 4, 0},
        {"none_fits_and_all_are_a_channel", 99, 32, 1, 1, 32, 0},
        {"none_fits_of_more_than_a_channel", 99, 40, 1, 2, 32, 8},
    };
    mock_model model{};
    model.rules = &mock_version_find("2.22")->model;
    model.n_channels = 8;
    model.n_ranks = 4;
    model.n_nodes = 1;
    const size_t traffic = mock_traffic(&model, AR, 16, 2);

    for (const auto &c : cases) {
        mock_lane lane = mock_lane_of(&model, NCCL_ALGO_RING);
        const mock_work work{AR, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE,
                             16 * c.n_cells, 2};
        struct mock_schedule schedule {
        };
        lane.per_channel = 32 * traffic;
        lane.used = lane.per_channel - c.room * traffic / 100;

        mock_schedule(&lane, &model, &work, &schedule);

        EXPECT_EQ(c.first, schedule.first) << c.name;
        EXPECT_EQ(c.n_channels, schedule.n_channels) << c.name;
        EXPECT_EQ(c.lo * kElements, schedule.lo) << c.name;
        EXPECT_EQ(0u, schedule.mid) << c.name;
        EXPECT_EQ(c.hi * kElements, schedule.hi) << c.name;
    }
}

TEST(SharedChannels, TheNextCollectiveHasAllOfTheChannelAfterAFullOne)
{
    mock_model model{};
    model.rules = &mock_version_find("2.22")->model;
    model.n_channels = 8;
    model.n_ranks = 4;
    model.n_nodes = 1;
    const size_t traffic = mock_traffic(&model, AR, 16, 2);
    mock_lane lane = mock_lane_of(&model, NCCL_ALGO_RING);
    const mock_work four{AR, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 16 * 4, 2};
    const mock_work all{AR, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 16 * 32, 2};
    struct mock_schedule schedule {
    };
    lane.per_channel = 32 * traffic;
    lane.used = 28 * traffic;

    mock_schedule(&lane, &model, &four, &schedule);
    EXPECT_EQ(0, schedule.first);
    mock_schedule(&lane, &model, &all, &schedule);

    EXPECT_EQ(1, schedule.first);
    EXPECT_EQ(1, schedule.n_channels);
    EXPECT_EQ(32u * 8, schedule.lo);
}

#define BC ncclFuncBroadcast
#define RS ncclFuncReduceScatter

struct Announced {
    int coll;
    int proto;
    size_t n_bytes, element_size;
    int max_channels;
};
struct Part {
    int first, n_channels;
    size_t lo, mid, hi; // elements

    bool operator==(const Part &other) const
    {
        return std::tie(first, n_channels, lo, mid, hi) ==
               std::tie(other.first, other.n_channels, other.lo, other.mid,
                        other.hi);
    }
};
std::ostream &operator<<(std::ostream &out, const Part &part)
{
    return out << part.first << " " << part.n_channels << " " << part.lo << " "
               << part.mid << " " << part.hi;
}

// On four GPUs, as scheduleCollTasksToPlan() of NCCL 2.30.7.
TEST(SharedChannels, OfAGroupAreDealtAsNcclDealsThem)
{
    constexpr int kLow = NCCL_PROTO_LL;
    constexpr int kBulk = NCCL_PROTO_SIMPLE;
    const struct {
        int limit;
        std::vector<Announced> group;
        std::vector<Part> want;
    } cases[] = {
        // clang-format off
        {3, {{RS, kBulk, 131072, 2, 3}, {BC, kBulk, 100000, 8, 3}, {AG, kBulk, 500000, 4, 3}},
         {{0, 1, 16384, 0, 0}, {0, 1, 100000, 0, 0}, {1, 2, 65536, 0, 59464}}},
        {4, {{RS, kBulk, 100000, 1, 3}, {BC, kBulk, 500000, 4, 3}, {AR, kBulk, 20000, 4, 1}},
         {{0, 1, 25000, 0, 0}, {0, 4, 32768, 163840, 139552}, {3, 1, 5000, 0, 0}}},
        {6, {{AG, kBulk, 1000, 2, 1}, {AR, kLow, 20000, 2, 3}, {BC, kBulk, 65536, 4, 1}},
         {{0, 1, 250, 0, 0}, {0, 3, 2048, 4096, 3856}, {3, 1, 65536, 0, 0}}},
        {6, {{AR, kBulk, 20000, 1, 2}, {RS, kBulk, 1000, 4, 2}, {RS, kBulk, 500000, 1, 2}},
         {{0, 1, 20000, 0, 0}, {0, 1, 63, 0, 0}, {1, 5, 24576, 24576, 26696}}},
        {5, {{RS, kBulk, 500000, 2, 3}, {RS, kBulk, 131072, 4, 1}, {AR, kBulk, 500000, 8, 3}},
         {{0, 2, 40960, 0, 21540}, {1, 1, 8192, 0, 0}, {2, 3, 20480, 20480, 21540}}},
        {6, {{RS, kBulk, 300000, 8, 3}, {AR, kBulk, 20000, 1, 6}, {AR, kBulk, 100000, 2, 2}},
         {{0, 4, 3072, 3072, 159}, {3, 1, 20000, 0, 0}, {4, 2, 24576, 0, 25424}}},
        {5, {{AR, kBulk, 20000, 1, 2}, {AG, kLow, 20000, 1, 2}, {AR, kBulk, 100000, 8, 2}},
         {{0, 1, 20000, 0, 0}, {1, 2, 4096, 0, 904}, {2, 3, 2048, 6144, 4308}}},
        {6, {{AG, kBulk, 500000, 8, 1}, {RS, kBulk, 65536, 8, 6}, {AR, kBulk, 500000, 4, 6}},
         {{0, 2, 65536, 0, 59464}, {2, 1, 2048, 0, 0}, {2, 4, 24576, 32768, 34888}}},
        {8, {{BC, kBulk, 65536, 1, 1}, {AG, kBulk, 300000, 4, 8}, {RS, kLow, 300000, 2, 3}},
         {{0, 1, 65536, 0, 0}, {0, 2, 32768, 0, 42232}, {2, 6, 6144, 6144, 6780}}},
        {8, {{BC, kLow, 20000, 1, 8}, {AG, kLow, 500000, 4, 3}},
         {{0, 1, 20000, 0, 0}, {0, 8, 10240, 16384, 16456}}},
        {8, {{AR, kBulk, 100000, 4, 2}, {AR, kBulk, 20000, 1, 1}, {RS, kLow, 262144, 8, 8}},
         {{0, 2, 20480, 0, 4520}, {1, 1, 20000, 0, 0}, {1, 7, 256, 1280, 1536}}},
        // clang-format on
    };
    mock_model model{};
    model.rules = &mock_version_find("2.30")->model;
    model.n_ranks = 4;
    model.n_nodes = 1;

    for (const auto &c : cases) {
        std::vector<mock_work> works;
        std::vector<Part> got;
        model.n_channels = c.limit;
        mock_lane lane = mock_lane_of(&model, NCCL_ALGO_RING);
        for (const Announced &a : c.group) {
            works.push_back(
                {a.coll, NCCL_ALGO_RING, a.proto, a.n_bytes, a.element_size});
            mock_lane_add(&lane, &model, &works.back(), a.max_channels);
        }
        for (const mock_work &work : works) {
            struct mock_schedule s {
            };
            mock_schedule(&lane, &model, &work, &s);
            EXPECT_EQ(1, s.n_together);
            got.push_back({s.first, s.n_channels, s.lo, s.mid, s.hi});
        }
        EXPECT_EQ(c.want, got) << "case " << &c - cases;
    }
}

// ---- limits ----

// With CollNet, NVLS between nodes is limited by the communicator's channels
// from 2.28 on; before, it has all of NVLS that there are.
TEST(Lanes, HaveTheChannelsThatNcclHasSetUp)
{
    constexpr int kOfSeveral = 2; // nodes
    const struct {
        const char *version;
        int n_nodes, n_channels, n_nvls_channels, algo;
        int limit;
        bool alone;
        int own; // channels of 1 GiB
    } cases[] = {
        {"2.27", 1, 8, 16, NCCL_ALGO_RING, 8, false, 8},
        {"2.27", kOfSeveral, 8, 16, NCCL_ALGO_TREE, 8, false, 8},
        {"2.27", 1, 8, 16, NCCL_ALGO_NVLS, 16, false, 16},
        {"2.27", kOfSeveral, 8, 16, NCCL_ALGO_NVLS_TREE, 16, false, 16},
        {"2.27", kOfSeveral, 8, 16, NCCL_ALGO_COLLNET_CHAIN, 8, true, 8},
        {"2.27", kOfSeveral, 8, 16, NCCL_ALGO_COLLNET_DIRECT, 8, true, 8},
        {"2.27", kOfSeveral, 8, 16, NCCL_ALGO_NVLS, 16, true, 16},
        {"2.27", kOfSeveral, 16, 8, NCCL_ALGO_NVLS, 16, true, 8},
        {"2.28", 1, 8, 16, NCCL_ALGO_RING, 8, false, 8},
        {"2.28", 1, 8, 16, NCCL_ALGO_NVLS, 16, false, 16},
        {"2.28", kOfSeveral, 8, 16, NCCL_ALGO_NVLS_TREE, 16, false, 16},
        {"2.28", kOfSeveral, 16, 8, NCCL_ALGO_NVLS_TREE, 8, false, 8},
        {"2.28", kOfSeveral, 8, 16, NCCL_ALGO_NVLS, 8, true, 8},
        {"2.28", kOfSeveral, 16, 8, NCCL_ALGO_NVLS, 16, true, 8},
        {"2.28", kOfSeveral, 16, 8, NCCL_ALGO_PAT, 16, false, 8},
        {"2.31", kOfSeveral, 16, 8, NCCL_ALGO_PAT, 8, false, 8},
        {"2.31", kOfSeveral, 8, 16, NCCL_ALGO_PAT, 16, false, 8},
        {"2.32", kOfSeveral, 8, 16, NCCL_ALGO_PAT, 16, false, 16},
    };
    mock_model model{};

    for (const auto &c : cases) {
        model.rules = &mock_version_find(c.version)->model;
        model.n_ranks = 4;
        model.n_nodes = c.n_nodes;
        model.n_channels = c.n_channels;
        model.n_nvls_channels = c.n_nvls_channels;
        const mock_lane lane = mock_lane_of(&model, c.algo);

        EXPECT_EQ(c.limit, lane.limit) << c.version << " " << c.algo;
        EXPECT_EQ(c.alone, lane.alone) << c.version << " " << c.algo;
        EXPECT_EQ(c.own, mock_default_channels(&model, c.algo,
                                               NCCL_PROTO_SIMPLE, 1 << 30))
            << c.version << " " << c.algo;
    }
    for (int way = MOCK_WAY_REG; way < MOCK_NUM_WAYS; way++)
        EXPECT_EQ(0, mock_default_channels(&model, way, 0, 1 << 30))
            << "not of NCCL's algorithms: " << way;
}

// ---- NCCL's own count ----

mock_model NodesOfOneGpu()
{
    Machine machine = LoadMachine("h100n8x8");
    const mock_version *version = mock_version_find("2.32");
    ncclTunerConstants_v7_t constants;
    mock_user_choice choice;
    mock_model model;
    mock_machine_info info = machine->info;

    info.n_ranks = info.n_nodes;
    EXPECT_EQ(ncclSuccess,
              mock_user_choice_parse(version, nullptr, nullptr, &choice));
    mock_release_constants(version->model.release, &constants);
    mock_model_build(&model, &info, &machine->graphs, &version->model,
                     &constants, &choice);
    return model;
}

// maxThreads and threadThresholds of ncclTopoTuneModel(); that of rings with
// LL grows with the ranks.
TEST(OwnChannels, HaveEnoughBytesForEachOfTheirThreads)
{
    const mock_model nodes = LoadMachine("h100n8x8")->model;
    const mock_model alone = NodesOfOneGpu();
    const struct {
        const mock_model *model;
        int algo, proto;
        size_t n_threads, n_bytes; // of a thread
    } cases[] = {
        {&nodes, NCCL_ALGO_RING, NCCL_PROTO_LL, 512, size_t{8} * 64},
        {&nodes, NCCL_ALGO_RING, NCCL_PROTO_LL128, 640, 8},
        {&nodes, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 512, 64},
        {&nodes, NCCL_ALGO_TREE, NCCL_PROTO_LL, 512, 8},
        {&nodes, NCCL_ALGO_TREE, NCCL_PROTO_LL128, 640, 8},
        {&nodes, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 512, 64},
        {&nodes, NCCL_ALGO_COLLNET_CHAIN, NCCL_PROTO_SIMPLE, 640, 512},
        {&alone, NCCL_ALGO_PAT, NCCL_PROTO_SIMPLE, 640, 64},
    };

    for (const auto &c : cases) {
        const auto count = [&](size_t n_bytes) {
            return mock_default_channels(c.model, c.algo, c.proto, n_bytes);
        };
        ASSERT_EQ(16, c.model->n_channels);
        for (int n : {2, 7, 16}) {
            const size_t n_bytes = (size_t)n * c.n_threads * c.n_bytes;
            EXPECT_EQ(n, count(n_bytes)) << c.algo << "/" << c.proto;
            EXPECT_EQ(n - 1, count(n_bytes - 1)) << c.algo << "/" << c.proto;
        }
        EXPECT_EQ(1, count(1)) << c.algo << "/" << c.proto;
        EXPECT_EQ(16, count(size_t{1} << 40)) << c.algo << "/" << c.proto;
    }
}

// topoGetAlgoInfo() for 32 channels with 8 heads, 640 threads and 512 bytes.
TEST(OwnChannels, OfCollNetDirectNeedFewerBytesForFewerChannels)
{
    const std::pair<size_t, int> least[] = {
        {1, 1},         {327680, 2},    {983040, 3},    {1310720, 4},
        {1638400, 5},   {3932160, 6},   {4587520, 7},   {5242880, 8},
        {5898240, 9},   {6553600, 10},  {7208960, 11},  {15728640, 12},
        {17039360, 13}, {18350080, 14}, {19660800, 15}, {20971520, 16},
        {22282240, 17}, {23592960, 18}, {24903680, 19}, {26214400, 20},
        {27525120, 21}, {28835840, 22}, {30146560, 23}, {62914560, 24},
        {65536000, 25}, {68157440, 26}, {70778880, 27}, {73400320, 28},
        {76021760, 29}, {78643200, 30}, {81264640, 31}, {83886080, 32}};
    mock_model model = LoadMachine("h100n8x8")->model;
    model.n_channels = 32;
    model.n_collnet_heads = 8;
    const auto count = [&](size_t n_bytes) {
        return mock_default_channels(&model, NCCL_ALGO_COLLNET_DIRECT,
                                     NCCL_PROTO_SIMPLE, n_bytes);
    };

    for (const auto &[n_bytes, n] : least) {
        EXPECT_EQ(n, count(n_bytes)) << n_bytes;
        EXPECT_EQ(n == 1 ? 1 : n - 1, count(n_bytes - 1)) << n_bytes;
    }
}

// ---- chunks ----

struct ChunkCase {
    const char *name;
    const char *machine;
    ncclFunc_t coll;
    int algo;
    int proto;
    size_t n_bytes;
    size_t want; // NCCL's own
    size_t part; // the bytes of the first channel
};

class Chunks : public Scripted, public testing::WithParamInterface<ChunkCase>
{
};

TEST_P(Chunks, BeginAsNcclWouldChooseThem)
{
    const ChunkCase &c = GetParam();
    std::vector<std::pair<size_t, size_t>> asked;
    script = [&](Table table, int *n_channels) {
        table[c.algo][c.proto] = 0;
        *n_channels = 4;
        return ncclSuccess;
    };
    chunk_script = [&](size_t n_bytes, size_t *size) {
        asked.push_back({n_bytes, *size});
        return ncclSuccess;
    };

    EXPECT_EQ(ncclSuccess, Try(Call(c.coll, c.n_bytes), c.machine, "2.30"))
        << mock_last_error();

    ASSERT_FALSE(asked.empty());
    EXPECT_EQ(c.part, asked[0].first);
    EXPECT_EQ(c.want, asked[0].second);
    EXPECT_EQ(0u, outcome_.chunk_bytes);
}

// clang-format off
const ChunkCase kChunkCases[] = {
    {"ring_simple", "h200x4", AR, 1, 2, 1 << 20,  2097152, 262144},
    {"broadcast",   "h200x4", ncclFuncBroadcast,
                                  1, 2, 1 << 20,  524288,  262144},
    {"ring_ll",     "h200x4", AR, 1, 0, 1 << 20,  32768,   262144},
    {"ring_ll128",  "h200x4", AR, 1, 1, 1 << 20,  576000,  262144},
    {"tree_simple", "h200x4", AR, 0, 2, 1 << 20,  524288,  262144},
    {"tree_ll128",  "h200x4", AR, 0, 1, 1 << 20,  36000,   262144},
    {"tree_ll128_in_bulk", "h200x4", AR, 0, 1, 64 << 20, 576000, 16777216},
    {"nvls_small",  "h100x8", AR, 4, 2, 1 << 20,  16384,   262144},
    {"nvls_middle", "h100x8", AR, 4, 2, 8 << 20,  32768,   2097152},
    {"nvls_edge",   "h100x8", AR, 4, 2, 16 << 20, 65536,   4194304},
    {"nvls_large",  "h100x8", AR, 4, 2, 64 << 20, 65536,   16777216},
    {"nvls_huge",   "h100x8", AR, 4, 2, 512 << 20, 131072, 134217728},
    {"gather_over_all_ranks", "h200x4", AG, 1, 2, 3905536, 2097152, 983040},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Chunks, testing::ValuesIn(kChunkCases),
                         CaseName());

// 0 channels are NCCL's own count, 22. The last channel has what the others
// leave: 3905536 = 3 x 983040 + 956416.
TEST_F(Scripted, ChunksAreAskedForFirstLastAndMiddleChannels)
{
    const std::tuple<ncclFunc_t, size_t, int, std::vector<size_t>> cases[] = {
        {AR, 1 << 20, 0, {49152, 16384, 49152}},
        {AG, 3905536, 4, {983040, 956416, 983040}}};

    for (const auto &c : cases) {
        std::vector<size_t> parts;
        const int asked = std::get<2>(c);
        chunk_script = [&](size_t n_bytes, size_t *) {
            parts.push_back(n_bytes);
            return ncclSuccess;
        };
        script = [=](Table table, int *n_channels) {
            table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
            *n_channels = asked;
            return ncclSuccess;
        };

        EXPECT_EQ(ncclSuccess,
                  Try(Call(std::get<0>(c), std::get<1>(c)), "h200x4", "2.30"));
        EXPECT_EQ(std::get<3>(c), parts);
        EXPECT_EQ(asked == 0 ? 22 : asked, outcome_.n_channels);
    }
}

TEST_F(Scripted, WhatOnlyMovesIsSharedOutByTheByte)
{
    const std::pair<ncclFunc_t, bool> cases[] = {
        {AG, true}, {ncclFuncBroadcast, true}, {AR, false}};

    for (auto [coll, by_byte] : cases) {
        std::vector<size_t> parts[2];
        script = [](Table table, int *n_channels) {
            table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
            *n_channels = 3;
            return ncclSuccess;
        };
        for (int i = 0; i < 2; i++) {
            mock_call call = Call(coll, 3905537);
            call.element_size = i == 0 ? 1 : 8;
            chunk_script = [&](size_t n_bytes, size_t *) {
                parts[i].push_back(n_bytes);
                return ncclSuccess;
            };
            EXPECT_EQ(ncclSuccess, Try(call, "h200x4", "2.30"));
        }
        EXPECT_EQ(by_byte, parts[0] == parts[1]) << coll;
    }
}

struct WrittenCase {
    const char *name;
    size_t written;
    ncclResult_t rc;
    size_t want;
    const char *error;
    const char *log;
};

class WrittenChunk : public Scripted,
                     public testing::WithParamInterface<WrittenCase>
{
};

TEST_P(WrittenChunk, IsClampedToTheBufferAndNotBelowAGrain)
{
    const WrittenCase &c = GetParam();
    Log log;
    chunk_script = [&](size_t, size_t *size) {
        *size = c.written;
        return ncclSuccess;
    };
    script = [](Table table, int *n_channels) {
        table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
        *n_channels = 1;
        return ncclSuccess;
    };

    ncclResult_t rc = Try(Call(ncclFuncAllReduce, 1 << 20), "h200x4", "2.30");

    EXPECT_EQ(c.rc, rc);
    EXPECT_EQ(c.want, outcome_.chunk_bytes);
    if (c.error != nullptr) {
        EXPECT_STREQ(c.error, mock_last_error());
    }
    EXPECT_THAT(log.Texts(), c.log == nullptr
                                 ? Each(testing::Not(HasSubstr("clamping")))
                                 : testing::Matcher<std::vector<std::string>>(
                                       testing::Contains(std::string(c.log))));
}

// clang-format off
const WrittenCase kWritten[] = {
    {"smaller",   65536,   ncclSuccess, 65536,   nullptr, nullptr},
    {"unchanged", 2097152, ncclSuccess, 0,       nullptr, nullptr},
    {"odd",       5000,    ncclSuccess, 5000,    nullptr, nullptr},
    {"too_large", 4194304, ncclSuccess, 0, nullptr,
     "AllReduce: tuner chunk size 4194304 exceeds buffer max 2097152, clamping"},
    {"grain",     512,     ncclSuccess, 512,     nullptr, nullptr},
    {"tiny",      511,     ncclInternalError, 0,
     "tuner 'scripted': a chunk of 511 bytes is below the grain of 512, and "
     "NCCL would divide by 0", nullptr},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, WrittenChunk, testing::ValuesIn(kWritten),
                         CaseName());

TEST_F(Scripted, AnErrorFromGetChunkSizeFailsTheCollective)
{
    chunk_script = [](size_t, size_t *) { return ncclSystemError; };

    EXPECT_EQ(ncclSystemError,
              Try(Call(ncclFuncAllReduce, 1 << 20), "h200x4", "2.30"));

    EXPECT_STREQ("tuner 'scripted': getChunkSize returned 2 (ncclSystemError)",
                 mock_last_error());
}

} // namespace
