// Chunk sizes, compared with calcCollChunking() of NCCL 2.30.7.
#include "support/mock_test.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "model/channels.h"
}
#pragma GCC diagnostic pop

namespace
{

using namespace mock_test;

mock_model NodesOf(const Row &row, int compute_capability, float network,
                   mock_path path, const std::string &buffer = "")
{
    const char *variables[MOCK_N_VARIABLES] = {};
    mock_graph nvls{};
    mock_model model{};

    nvls.bw_inter = network;
    nvls.type_inter = path;
    model.n_nodes = std::stoi(row.at("nodes"));
    model.n_ranks = model.n_nodes * std::stoi(row.at("per_node"));
    model.compute_capability = compute_capability;
    if (!buffer.empty())
        variables[MOCK_LL_BUFFSIZE + Find(kProtos, row.at("protocol"))] =
            buffer.c_str();
    mock_set_chunks(&model, &nvls, variables);
    return model;
}

TEST(Chunk, IsThatOfNccl)
{
    for (const Row &row : ReadCsv(STP_FIXTURES "/cost_models/chunks.csv")) {
        mock_model model =
            NodesOf(row, 90, 48, MOCK_PATH_PIX, row.at("buffer"));
        const size_t n_bytes = std::stoull(row.at("bytes"));
        const mock_work work{Find(kColls, row.at("collective")),
                             Find(kAlgos, row.at("algorithm")),
                             Find(kProtos, row.at("protocol")), n_bytes, 2};
        size_t max = 0;
        model.n_nvls_heads = model.n_collnet_heads = 8;
        model.bandwidth[ncclFuncAllReduce][NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] =
            std::stof(row.at("nvls_gbps"));

        EXPECT_EQ(std::stoull(row.at("chunk")),
                  mock_default_chunk(&model, &work,
                                     std::stoi(row.at("channels")), n_bytes,
                                     &max))
            << row.at("name");
        EXPECT_EQ(std::stoull(row.at("max")), max) << row.at("name");
    }
}

TEST(Chunk, OfNvlsOnBlackwellFitsItsNetwork)
{
    constexpr const char *kPaths[] = {"LOC", "NVL", "NVB", "C2C", "PIX",
                                      "PXB", "P2C", "PXN", "PHB", "SYS"};

    for (const Row &row :
         ReadCsv(STP_FIXTURES "/cost_models/chunks_blackwell.csv")) {
        const mock_model model =
            NodesOf(row, 100, std::stof(row.at("network")),
                    static_cast<mock_path>(Find(kPaths, row.at("path"))));

        EXPECT_EQ(std::stoull(row.at("chunk")), model.nvls_chunk)
            << row.at("name");
        EXPECT_EQ(std::stoull(row.at("tree_chunk")), model.nvls_tree_chunk)
            << row.at("name");
    }
}

TEST(ChunkGrain, IsThatOfTheProtocol)
{
    EXPECT_EQ(16u, mock_chunk_grain(NCCL_PROTO_LL));
    EXPECT_EQ(1920u, mock_chunk_grain(NCCL_PROTO_LL128));
    EXPECT_EQ(512u, mock_chunk_grain(NCCL_PROTO_SIMPLE));
}

} // namespace
