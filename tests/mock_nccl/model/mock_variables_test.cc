// Variables of NCCL, and its cost model under them.
#include "support/mock_test.h"

extern "C" {
#include "machine/machine.h"
#include "model/cost_model.h"
}

using namespace mock_test;

namespace
{

constexpr const char *kPaths[] = {"LOC", "NVL", "NVB", "C2C", "PIX",
                                  "PXB", "P2C", "PXN", "PHB", "SYS"};
constexpr const char *kNames[] = {"nthreads",          "ll128_nthreads",
                                  "thread_thresholds", "pat_enable",
                                  "ll128_c2c",         "net_overhead"};

std::string Joined(std::initializer_list<const int *> rows)
{
    std::string text;
    for (const int *row : rows)
        for (int i = 0; i < NCCL_NUM_PROTOCOLS; i++)
            text += (text.empty() ? "" : " ") + std::to_string(row[i]);
    return text;
}

std::string Text(double number)
{
    char text[32];
    snprintf(text, sizeof(text), "%.9g", number);
    return text;
}

// A model of the row's machine, version and variables.
mock_model Build(const Row &row)
{
    const mock_version *version = mock_version_find(row.at("nccl").c_str());
    const Machine machine = LoadMachine(row.at("machine"));
    ncclTunerConstants_v7_t constants;
    mock_user_choice choice{};
    mock_model model{};

    mock_release_constants(static_cast<int>(version->model.release),
                           &constants);
    EXPECT_EQ(ncclSuccess,
              mock_user_choice_parse(version, nullptr, nullptr, &choice));
    for (int i = 0; i < 6; i++)
        if (row.at(kNames[i]) != "unset")
            choice.variables[MOCK_NTHREADS + i] = row.at(kNames[i]).c_str();
    strcpy(machine->info.cpu_vendor, row.at("cpu").c_str());
    for (mock_graph &graph : machine->graphs.graph)
        if (row.at("path") != "-")
            graph.type_inter =
                static_cast<mock_path>(Find(kPaths, row.at("path")));
    mock_model_build(&model, &machine->info, &machine->graphs, &version->model,
                     &constants, &choice);
    return model;
}

TEST(Variables, DoToTheModelWhatTheyDoInNccl)
{
    for (const Row &row : ReadCsv(STP_FIXTURES "/cost_models/variables.csv")) {
        const mock_model m = Build(row);
        const auto *pat = &m.latency[ncclFuncReduceScatter][NCCL_ALGO_PAT];
        const bool has_pat = m.bandwidth[ncclFuncReduceScatter][NCCL_ALGO_PAT]
                                        [NCCL_PROTO_SIMPLE] != 0;

        EXPECT_EQ(row.at("ring_threads"),
                  Joined({m.max_threads[NCCL_ALGO_RING]}));
        EXPECT_EQ(row.at("tree_threads"),
                  Joined({m.max_threads[NCCL_ALGO_TREE]}));
        EXPECT_EQ(row.at("thresholds"),
                  Joined({m.thread_threshold[NCCL_ALGO_TREE],
                          m.thread_threshold[NCCL_ALGO_RING]}));
        EXPECT_EQ(row.at("ring_us"),
                  Text(m.latency[ncclFuncAllReduce][NCCL_ALGO_RING][0]));
        EXPECT_EQ(row.at("pat_us"),
                  Text(has_pat ? (*pat)[NCCL_PROTO_SIMPLE] : 0));
        EXPECT_EQ(row.at("ring_ll128_gbps"),
                  Text(m.bandwidth[ncclFuncAllReduce][NCCL_ALGO_RING]
                                  [NCCL_PROTO_LL128]));
    }
}

// Two broadcasts of two roots, with and without AllGatherV.
TEST(Variables, DisableAllGatherV)
{
    const Machine machine = LoadMachine("h200x4");

    for (const char *value : {"1", "0"}) {
        mock_nccl_options options{.version = "2.30"};
        options.variables[mock_variable_find("NCCL_ALLGATHERV_ENABLE")] = value;
        const Nccl nccl = MakeNccl(options);
        const Comm comm = MakeComm(nccl, machine);
        mock_call calls[2] = {Call(ncclFuncBroadcast, 1 << 20),
                              Call(ncclFuncBroadcast, 1 << 20)};
        mock_outcome out[2] = {};
        calls[1].root = 1;
        ASSERT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls, 2, out));
        // one after the other on channels of their own, or both on all
        EXPECT_EQ(*value == '1' ? 24 : 11, out[0].n_channels);
        EXPECT_EQ(*value == '1' ? 0 : 10, out[1].first_channel);
    }
}

// Before 2.31 PAT does not need NVLS with several ranks a node.
TEST(Variables, EnablePatWithSeveralRanksANode)
{
    const Machine machine = LoadMachine("h100n2x8");

    for (const char *row :
         {"2.23 47.9482269 16", "2.28 60.4408875 16", "2.30 60.4408875 16"}) {
        const std::string version = std::string(row).substr(0, 4);
        mock_nccl_options options{.version = version.c_str(),
                                  .algo = "allgather:pat"};
        options.variables[MOCK_PAT_ENABLE] = "1";
        const Nccl nccl = MakeNccl(options);
        const Comm comm = MakeComm(nccl, machine);
        const mock_call call = Call(ncclFuncAllGather, 1 << 20);
        mock_outcome out{};
        ASSERT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &out));
        EXPECT_EQ(row, version + " " + Text(out.us) + " " +
                           std::to_string(out.n_channels));
    }
}

} // namespace
