// A tuner whose answers are lambdas of the test.
#ifndef MOCK_SCRIPT_H
#define MOCK_SCRIPT_H

#include <functional>

#include "support/mock_test.h"

namespace mock_test
{

using Table = float (*)[NCCL_NUM_PROTOCOLS];

inline std::function<ncclResult_t(Table, int *)> script;
inline std::function<ncclResult_t(size_t n_bytes, size_t *)> chunk_script;

inline ncclResult_t Init(void **, uint64_t, size_t, size_t, ncclDebugLogger_t,
                         ncclNvlDomainInfo_v5_t *, ncclTunerConstants_v5_t *)
{
    return ncclSuccess;
}
inline ncclResult_t Ask(void *, ncclFunc_t, size_t, int, float **table, int,
                        int, int, int *n_channels)
{
    return script ? script(reinterpret_cast<Table>(table), n_channels)
                  : ncclSuccess;
}
inline ncclResult_t Finalize(void *)
{
    return ncclSuccess;
}
inline ncclResult_t Chunk(void *, ncclFunc_t, size_t n_bytes, int, int, int,
                          size_t *size)
{
    return chunk_script(n_bytes, size);
}

inline const ncclTuner_v5_t kScripted{"scripted", Init, Ask, Finalize};
inline const ncclTuner_v6_t kScriptedV6{"scripted", Init, Ask, Finalize, Chunk};

class Scripted : public testing::Test
{
  protected:
    void TearDown() override
    {
        script = nullptr;
        chunk_script = nullptr;
    }

    // The result of one collective with the script, on a fresh communicator.
    ncclResult_t Try(const mock_call &call, const char *machine_name = "h200x4",
                     const char *version = nullptr)
    {
        Machine machine = LoadMachine(machine_name);
        bool v6 = version != nullptr && std::string(version) == "2.30";
        Nccl nccl =
            MakeNccl({version, nullptr,
                      v6 ? static_cast<const void *>(&kScriptedV6) : &kScripted,
                      v6 ? 6 : 5});
        Comm comm = MakeComm(nccl, machine);
        EXPECT_TRUE(comm);
        return mock_comm_collective(comm.get(), &call, &outcome_);
    }

    mock_outcome outcome_;
};

} // namespace mock_test

#endif // MOCK_SCRIPT_H
