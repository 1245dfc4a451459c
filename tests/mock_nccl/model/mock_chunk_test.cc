// Chunk sizes, compared with calcCollChunking() of NCCL 2.30.7.
#include "support/mock_test.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "model/chunk.h"
}
#pragma GCC diagnostic pop

namespace
{

struct ChunkCase {
    const char *name;
    int n_nodes;
    int per_node;
    ncclFunc_t coll;
    int algo;
    int proto;
    int n_channels;
    size_t n_bytes;
    float nvls_gbps; // of the model's NVLS all-reduce
    size_t want;
    size_t max;
};

// H100, with 8 heads a node.
mock_model ModelOf(const ChunkCase &c)
{
    mock_graph nvls{};
    mock_model model{};

    nvls.bw_inter = 48;
    nvls.type_inter = MOCK_PATH_PIX;
    model.n_nodes = c.n_nodes;
    model.n_ranks = c.n_nodes * c.per_node;
    model.compute_capability = 90;
    model.n_nvls_heads = 8;
    model.n_collnet_heads = 8;
    model.bandwidth[ncclFuncAllReduce][NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] =
        c.nvls_gbps;
    mock_set_nvls_chunks(&model, &nvls);
    return model;
}

class Chunk : public testing::TestWithParam<ChunkCase>
{
};

TEST_P(Chunk, IsThatOfNccl)
{
    const ChunkCase &c = GetParam();
    mock_model model = ModelOf(c);
    const mock_work work{c.coll, c.algo, c.proto, c.n_bytes, 2};
    size_t max = 0;

    EXPECT_EQ(c.want,
              mock_default_chunk(&model, &work, c.n_channels, c.n_bytes, &max));
    EXPECT_EQ(c.max, max);
}

constexpr int kLl128 = NCCL_PROTO_LL128;
constexpr int kSimple = NCCL_PROTO_SIMPLE;
constexpr size_t kMiB = 1 << 20;

// clang-format off
const ChunkCase kChunkCases[] = {
    {"ring",              2, 8, ncclFuncAllReduce,     NCCL_ALGO_RING,           kSimple, 1,  4 * kMiB,    0,   2097152, 2097152},
    {"ring_broadcast",    2, 8, ncclFuncBroadcast,     NCCL_ALGO_RING,           kSimple, 1,  4 * kMiB,    0,   524288,  524288},
    {"tree",              2, 8, ncclFuncAllReduce,     NCCL_ALGO_TREE,           kSimple, 1,  4 * kMiB,    0,   524288,  524288},
    {"tree_ll128",        2, 8, ncclFuncAllReduce,     NCCL_ALGO_TREE,           kLl128,  1,  16 * kMiB,   0,   576000,  576000},
    {"tree_ll128_little", 2, 8, ncclFuncAllReduce,     NCCL_ALGO_TREE,           kLl128,  1,  1 * kMiB,    0,   72000,   576000},
    {"tree_ll128_far",    8, 8, ncclFuncAllReduce,     NCCL_ALGO_TREE,           kLl128,  1,  8 * kMiB,    0,   144000,  576000},
    {"tree_ll128_thin",   8, 1, ncclFuncAllReduce,     NCCL_ALGO_TREE,           kLl128,  1,  32 * kMiB,   0,   72000,   576000},
    {"nvls_one_node",     1, 8, ncclFuncAllReduce,     NCCL_ALGO_NVLS,           kSimple, 1,  16 * kMiB,   200, 65536,   524288},
    {"nvls_one_node_few", 1, 8, ncclFuncAllReduce,     NCCL_ALGO_NVLS,           kSimple, 1,  300 << 10,   200, 16384,   524288},
    {"nvls",              2, 8, ncclFuncAllReduce,     NCCL_ALGO_NVLS,           kSimple, 16, 1024 * kMiB, 150, 131072,  524288},
    {"nvls_slow",         2, 8, ncclFuncAllReduce,     NCCL_ALGO_NVLS,           kSimple, 16, 1024 * kMiB, 149, 32768,   524288},
    {"nvls_little",       2, 8, ncclFuncAllReduce,     NCCL_ALGO_NVLS,           kSimple, 16, 64 * kMiB,   150, 65536,   524288},
    {"nvls_tree",         2, 8, ncclFuncAllReduce,     NCCL_ALGO_NVLS_TREE,      kSimple, 1,  8 * kMiB,    0,   131072,  524288},
    {"nvls_tree_little",  2, 8, ncclFuncAllReduce,     NCCL_ALGO_NVLS_TREE,      kSimple, 1,  100000,      0,   32768,   524288},
    {"nvls_tree_far",     8, 8, ncclFuncAllReduce,     NCCL_ALGO_NVLS_TREE,      kSimple, 1,  64 * kMiB,   0,   65536,   524288},
    {"direct",            2, 8, ncclFuncAllReduce,     NCCL_ALGO_COLLNET_DIRECT, kSimple, 4,  64 * kMiB,   0,   131072,  524288},
    {"direct_little",     2, 8, ncclFuncAllReduce,     NCCL_ALGO_COLLNET_DIRECT, kSimple, 4,  16 * kMiB,   0,   32768,   524288},
    {"direct_of_one_each", 8, 1, ncclFuncAllReduce,    NCCL_ALGO_COLLNET_DIRECT, kSimple, 4,  16 * kMiB,   0,   65536,   524288},
    {"chain",             2, 8, ncclFuncAllReduce,     NCCL_ALGO_COLLNET_CHAIN,  kSimple, 16, 2048 * kMiB, 0,   262144,  524288},
    {"chain_little",      2, 8, ncclFuncAllReduce,     NCCL_ALGO_COLLNET_CHAIN,  kSimple, 16, 64 * kMiB,   0,   65536,   524288},
    {"chain_least",       2, 8, ncclFuncAllReduce,     NCCL_ALGO_COLLNET_CHAIN,  kSimple, 16, 1 * kMiB,    0,   32768,   524288},
    {"chain_of_one_each", 8, 1, ncclFuncAllReduce,     NCCL_ALGO_COLLNET_CHAIN,  kSimple, 16, 16 * kMiB,   0,   131072,  524288},
    {"pat_gathers",       8, 1, ncclFuncAllGather,     NCCL_ALGO_PAT,            kSimple, 1,  8 * kMiB,    0,   262144,  524288},
    {"pat_scatters",      8, 1, ncclFuncReduceScatter, NCCL_ALGO_PAT,            kSimple, 1,  8 * kMiB,    0,   524288,  524288},
    {"pat_gathers_less",  8, 1, ncclFuncAllGather,     NCCL_ALGO_PAT,            kSimple, 1,  4 * kMiB,    0,   131072,  524288},
};

// clang-format on

TEST(ChunkGrain, IsThatOfTheProtocol)
{
    EXPECT_EQ(16u, mock_chunk_grain(NCCL_PROTO_LL));
    EXPECT_EQ(1920u, mock_chunk_grain(NCCL_PROTO_LL128));
    EXPECT_EQ(512u, mock_chunk_grain(NCCL_PROTO_SIMPLE));
}

struct BlackwellCase {
    const char *name;
    int n_nodes;
    int per_node;
    float network; // GB/s a channel
    mock_path type;
    size_t chunk;
    size_t tree_chunk;
};
// clang-format off
const BlackwellCase kBlackwellCases[] = {
    {"one_node",         1, 8,  48, MOCK_PATH_PIX, 131072, 131072},
    {"slow_network",     2, 8,  40, MOCK_PATH_PIX, 131072, 131072},
    {"slow_and_far",     4, 8,  40, MOCK_PATH_PIX, 131072, 65536},
    {"two_of_four",      2, 4,  48, MOCK_PATH_PIX, 262144, 262144},
    {"two_of_five",      2, 5,  48, MOCK_PATH_PIX, 131072, 65536},
    {"two_almost_slow",  2, 4,  47, MOCK_PATH_PIX, 131072, 131072},
    {"two_almost_fast",  2, 8,  95, MOCK_PATH_PIX, 131072, 65536},
    {"two_of_nine",      2, 9,  48, MOCK_PATH_PIX, 131072, 131072},
    {"two_of_15",        2, 15, 48, MOCK_PATH_PIX, 131072, 131072},
    {"three_slow",       3, 8,  40, MOCK_PATH_PIX, 131072, 131072},
    {"three_fast",       3, 4,  96, MOCK_PATH_PXN, 262144, 262144},
    {"three_of_four",    3, 4,  48, MOCK_PATH_PXN, 131072, 131072},
    {"many_almost_fast", 4, 8,  95, MOCK_PATH_PIX, 131072, 65536},
    {"many_fast_of_9",   4, 9,  96, MOCK_PATH_PIX, 131072, 131072},
    {"many_fast_of_31",  4, 31, 96, MOCK_PATH_PIX, 131072, 131072},
    {"two_near",         2, 8,  48, MOCK_PATH_PXB, 131072, 65536},
    {"two_not_near",     2, 8,  48, MOCK_PATH_PXN, 131072, 131072},
    {"two_fast",         2, 8,  96, MOCK_PATH_PIX, 131072, 131072},
    {"two_crowded",      2, 16, 96, MOCK_PATH_SYS, 131072, 65536},
    {"many_fast",        4, 8,  96, MOCK_PATH_PIX, 262144, 262144},
    {"many_fast_of_16",  4, 16, 96, MOCK_PATH_PIX, 131072, 131072},
    {"many_fast_of_32",  4, 32, 96, MOCK_PATH_PIX, 131072, 65536},
    {"many_near",        4, 8,  48, MOCK_PATH_PXB, 131072, 65536},
    {"many_not_near",    4, 8,  48, MOCK_PATH_PXN, 131072, 131072},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Chunk, testing::ValuesIn(kChunkCases),
                         mock_test::CaseName());

class BlackwellNvls : public testing::TestWithParam<BlackwellCase>
{
};

TEST_P(BlackwellNvls, StartsFromChunksThatFitItsNetwork)
{
    const BlackwellCase &c = GetParam();
    mock_model model{};
    mock_graph nvls{};

    nvls.bw_inter = c.network;
    nvls.type_inter = c.type;
    model.n_nodes = c.n_nodes;
    model.n_ranks = c.n_nodes * c.per_node;
    model.compute_capability = 100;
    mock_set_nvls_chunks(&model, &nvls);

    EXPECT_EQ(c.chunk, model.nvls_chunk);
    EXPECT_EQ(c.tree_chunk, model.nvls_tree_chunk);
}

INSTANTIATE_TEST_SUITE_P(Table, BlackwellNvls,
                         testing::ValuesIn(kBlackwellCases),
                         mock_test::CaseName());

// Two nodes of four GPUs, with 4 heads and 2 channels: 8 chunks of 256 KiB at
// once.
TEST(BlackwellNvlsTree, TakesSmallerChunksForFewerBytes)
{
    const std::pair<size_t, size_t> cases[] = {
        {32 * kMiB, 262144}, {32 * kMiB - 1, 131072},
        {4 * kMiB, 131072},  {4 * kMiB - 1, 65536},
        {512 << 10, 65536},  {(512 << 10) - 1, 32768},
    };
    mock_model model{};

    model.n_nodes = 2;
    model.n_ranks = 8;
    model.n_nvls_heads = 4;
    model.nvls_chunk = model.nvls_tree_chunk = 256 << 10;
    for (const auto &[n_bytes, want] : cases) {
        const mock_work work{ncclFuncAllReduce, NCCL_ALGO_NVLS_TREE, kSimple,
                             n_bytes, 2};
        size_t max = 0;
        EXPECT_EQ(want, mock_default_chunk(&model, &work, 2, n_bytes, &max))
            << n_bytes;
    }
}

} // namespace
