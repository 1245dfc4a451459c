// Differences between the cost models of NCCL 2.28, 2.29 and 2.30. Expected
// from src/graph/tuning.cc of 2.28.9, 2.29.7 and 2.30.7.
extern "C" {
#include "model/cost_model.h"
}
#include "support/mock_test.h"

using namespace mock_test;

namespace
{

// Nodes of B200, 8 GPUs and 8 channels of 90 GB/s on each.
mock_model Model(const char *version, int n_nodes, const char *cpu = "intel",
                 int compute_capability = 100)
{
    mock_graphs graphs{};
    for (mock_graph &graph : graphs.graph)
        graph = {4, 8, 90, 90, 0, MOCK_PATH_NVL, MOCK_PATH_PIX, 0};
    mock_machine_info info{
        "", "", compute_capability, 8 * n_nodes, n_nodes, "", 16, 16, ""};
    snprintf(info.cpu_vendor, sizeof(info.cpu_vendor), "%s", cpu);
    const mock_model_rules *rules = &mock_version_find(version)->model;
    ncclTunerConstants_v5_t constants;
    mock_user_choice choice;
    mock_model model;

    mock_release_constants(rules->release, &constants);
    EXPECT_EQ(ncclSuccess, mock_user_choice_parse(mock_version_find(version),
                                                  nullptr, nullptr, &choice));
    mock_model_build(&model, &info, &graphs, rules, &constants, &choice);
    return model;
}

float RingLl128(const char *version, int n_nodes)
{
    return Model(version, n_nodes)
        .bandwidth[ncclFuncBroadcast][NCCL_ALGO_RING][NCCL_PROTO_LL128];
}

TEST(Versions, RingsWithLl128AreSlowerOnBlackwellFrom2_29)
{
    const double n = 8;                       // channels
    const double most[] = {73.4, 34.6, 73.4}; // GB/s a channel, by nodes

    for (int n_nodes : {1, 2, 3}) {
        EXPECT_FLOAT_EQ(n * most[n_nodes - 1], RingLl128("2.28", n_nodes));
        EXPECT_FLOAT_EQ(n * 40, RingLl128("2.29", n_nodes));
        EXPECT_FLOAT_EQ(n * 40, RingLl128("2.30", n_nodes));
        EXPECT_FLOAT_EQ(n * 40, RingLl128("2.31dev", n_nodes));
    }
}

float NvlsTree(const char *version, int n_nodes)
{
    int n_ranks = 8 * n_nodes;

    return Model(version, n_nodes)
               .bandwidth[ncclFuncAllReduce][NCCL_ALGO_NVLS_TREE]
                         [NCCL_PROTO_SIMPLE] *
           2 * static_cast<float>(n_ranks - 1) / static_cast<float>(n_ranks);
}

TEST(Versions, NvlsTreesOfThreeNodesAreFasterFrom2_30)
{
    for (const char *version : {"2.28", "2.29"})
        EXPECT_FLOAT_EQ(8 * 43.8f, NvlsTree(version, 3)) << version;
    for (const char *version : {"2.30", "2.31dev"})
        EXPECT_FLOAT_EQ(8 * 80.f, NvlsTree(version, 3)) << version;
    EXPECT_FLOAT_EQ(8 * 96.f, NvlsTree("2.30", 2));
}

// The time of NVLS_TREE without its latency, relative to that in 2.28.
float Slowdown(const char *version, size_t n_bytes, const char *cpu,
               int compute_capability)
{
    const mock_question question{ncclFuncAllReduce, n_bytes, 1};
    float us[2];
    int i = 0;

    for (const char *v : {version, "2.28"}) {
        mock_model model = Model(v, 2, cpu, compute_capability);
        mock_table table;
        mock_model_table(&model, &question, table);
        us[i++] = table[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE] -
                  model.latency[ncclFuncAllReduce][NCCL_ALGO_NVLS_TREE]
                               [NCCL_PROTO_SIMPLE];
    }
    return us[0] / us[1];
}

TEST(Versions, NvlsTreesAreCorrectedOnBlackwellBehindX86From2_29)
{
    for (const char *version : {"2.29", "2.30", "2.31dev"}) {
        EXPECT_NEAR(1 / .5, Slowdown(version, 1 << 18, "intel", 100), 1e-3);
        EXPECT_NEAR(1 / .5, Slowdown(version, 1 << 18, "amd", 100), 1e-3);
        EXPECT_NEAR(1 / .9, Slowdown(version, size_t{1} << 29, "intel", 100),
                    1e-3);
        EXPECT_NEAR(1, Slowdown(version, size_t{1} << 30, "intel", 100), 1e-3);
        EXPECT_NEAR(1, Slowdown(version, 1 << 18, "arm", 100), 1e-3);
        EXPECT_NEAR(1, Slowdown(version, 1 << 18, "intel", 90), 1e-3);
    }
}

} // namespace
