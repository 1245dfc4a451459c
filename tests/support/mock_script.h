// A tuner whose answers are lambdas of the test.
#pragma once

#include <functional>

#include "support/mock_test.h"

namespace mock_test
{

using Table = float (*)[NCCL_NUM_PROTOCOLS];

inline std::function<ncclResult_t(Table, int *)> script;
inline std::function<ncclResult_t(size_t n_bytes, size_t *)> chunk_script;

// For tests that look at more than the table.
struct Asked {
    void *context;
    ncclFunc_t coll;
    size_t n_bytes;
    int n_pipe_ops;
    int reg_buff; // 0 before v4
    Table table;  // nullptr for v2
    int *n_channels;
    int nvls, *algo, *proto; // v2 only
};
inline std::function<ncclResult_t(const Asked &)> on_ask;

struct Joined {
    void **context;
    uint64_t comm_id;
    size_t n_ranks, n_nodes;
    ncclDebugLogger_t log;
    ncclNvlDomainInfo_v5_t *domains;    // from v5 on
    ncclTunerConstants_v5_t *constants; // likewise
};
inline std::function<ncclResult_t(const Joined &)> on_init;
inline std::function<ncclResult_t(void *context)> on_finalize;

inline ncclResult_t Init(void **context, uint64_t comm_id, size_t n_ranks,
                         size_t n_nodes, ncclDebugLogger_t log,
                         ncclNvlDomainInfo_v5_t *domains,
                         ncclTunerConstants_v5_t *constants)
{
    return on_init ? on_init({context, comm_id, n_ranks, n_nodes, log, domains,
                              constants})
                   : ncclSuccess;
}
inline ncclResult_t InitV2(size_t n_ranks, size_t n_nodes,
                           ncclDebugLogger_t log, void **context)
{
    return Init(context, 0, n_ranks, n_nodes, log, nullptr, nullptr);
}
inline ncclResult_t Answer(const Asked &asked)
{
    if (on_ask)
        return on_ask(asked);
    return script ? script(asked.table, asked.n_channels) : ncclSuccess;
}
inline ncclResult_t AskV2(void *context, ncclFunc_t coll, size_t n_bytes, int,
                          int nvls, int n_pipe_ops, int *algo, int *proto,
                          int *n_channels)
{
    return Answer({context, coll, n_bytes, n_pipe_ops, 0, nullptr, n_channels,
                   nvls, algo, proto});
}
inline ncclResult_t Ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int n_pipe_ops, float **table, int, int, int reg_buff,
                        int *n_channels)
{
    return Answer({context, coll, n_bytes, n_pipe_ops, reg_buff,
                   reinterpret_cast<Table>(table), n_channels, 0, nullptr,
                   nullptr});
}
inline ncclResult_t AskV3(void *context, ncclFunc_t coll, size_t n_bytes,
                          int n_pipe_ops, float **table, int n_algos,
                          int n_protos, int *n_channels)
{
    return Ask(context, coll, n_bytes, n_pipe_ops, table, n_algos, n_protos, 0,
               n_channels);
}
inline ncclResult_t Finalize(void *context)
{
    return on_finalize ? on_finalize(context) : ncclSuccess;
}
inline ncclResult_t Chunk(void *, ncclFunc_t, size_t n_bytes, int, int, int,
                          size_t *size)
{
    return chunk_script ? chunk_script(n_bytes, size) : ncclSuccess;
}

inline const ncclTuner_v2_t kScriptedV2{"scripted", InitV2, AskV2, Finalize};
inline const ncclTuner_v3_t kScriptedV3{"scripted", InitV2, AskV3, Finalize};
inline const ncclTuner_v4_t kScriptedV4{"scripted", InitV2, Ask, Finalize};
inline const ncclTuner_v5_t kScripted{"scripted", Init, Ask, Finalize};
inline const ncclTuner_v6_t kScriptedV6{"scripted", Init, Ask, Finalize, Chunk};

// Options with the scripted tuner of this version.
inline mock_nccl_options WithScript(const char *nccl = nullptr, int version = 5)
{
    const void *const tuners[] = {&kScriptedV2, &kScriptedV3, &kScriptedV4,
                                  &kScripted, &kScriptedV6};
    mock_nccl_options options{nccl};
    options.static_tuner = tuners[version - 2];
    options.static_tuner_version = version;
    return options;
}

inline void ForgetScript()
{
    script = nullptr;
    chunk_script = nullptr;
    on_ask = nullptr;
    on_init = nullptr;
    on_finalize = nullptr;
}

class Scripted : public testing::Test
{
  protected:
    void TearDown() override
    {
        ForgetScript();
    }

    // The result of one collective with the script, on a fresh communicator.
    ncclResult_t Try(const mock_call &call, const char *machine_name = "h200x4",
                     const char *version = nullptr)
    {
        Machine machine = LoadMachine(machine_name);
        bool v6 = version != nullptr && std::string(version) == "2.30";
        Nccl nccl = MakeNccl(WithScript(version, v6 ? 6 : 5));
        Comm comm = MakeComm(nccl, machine);
        EXPECT_TRUE(comm);
        return mock_comm_collective(comm.get(), &call, &outcome_);
    }

    mock_outcome outcome_;
};

inline mock_call Broadcast(int root, size_t n_bytes)
{
    mock_call call = Call(ncclFuncBroadcast, n_bytes);
    call.root = root;
    return call;
}

inline mock_call OfRun(int n_pipe_ops, mock_call call)
{
    call.n_pipe_ops = n_pipe_ops;
    return call;
}

} // namespace mock_test
