// libnccl-tuner-steptune.so as a job has it: loaded by mock NCCL, set up by
// environment variables.  What its tests share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "support/mock_test.h"
#include "support/temporary_folder.h"

namespace static_plugin
{

namespace fs = std::filesystem;

struct NcclVersion {
    const char *nccl;
    int tuner;
};

// One NCCL for each version of the tuner interface.
inline constexpr NcclVersion kVersions[] = {
    {"2.21", 2}, {"2.22", 3}, {"2.24", 4}, {"2.28", 5}, {"2.30", 6}};

inline constexpr const char *kVariables[] = {
    "NCCL_TUNER_CONFIG_FILE",       "NCCL_WORKLOAD_OVERLAP", "NCCL_HOSTID",
    "STEPTUNE_OVERLAP_CONFIG_FILE", "STEPTUNE_GPU",          "STEPTUNE_AGREE",
    "STEPTUNE_AGREE_TIMEOUT",       "STEPTUNE_LEDGER",       "MASTER_ADDR"};

using mock_test::Comm;
using mock_test::LoadMachine;
using mock_test::Machine;
using mock_test::Nccl;
using mock_test::Resized;

class StaticPlugin : public testing::Test
{
  protected:
    void SetUp() override
    {
        ClearEnvironment(); // no test inherits what another one set
        machine_ = LoadMachine("h200x4");
        mock_set_log(
            [](void *self, ncclDebugLogLevel level, unsigned long,
               const char *line) {
                auto *t = static_cast<StaticPlugin *>(self);
                if (level == NCCL_LOG_WARN)
                    t->warnings_.push_back(line);
                else
                    t->infos_.push_back(line);
            },
            this);
    }

    void TearDown() override
    {
        mock_set_log(nullptr, nullptr);
        ClearEnvironment();
    }

    static void ClearEnvironment()
    {
        for (const char *name : kVariables)
            unsetenv(name);
    }

    // Writes a policy file and names it in the environment.
    std::string Policy(const std::string &text, const char *name = "p.conf")
    {
        std::string path = (dir_ / name).string();
        std::ofstream(path) << text;
        setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
        return path;
    }

    static Nccl Start(const char *version = "2.28",
                      const char *plugin = STP_PLUGIN)
    {
        mock_nccl_options options{};
        options.version = version;
        options.tuner_plugin = plugin;
        return mock_test::MakeNccl(options);
    }

    // Ranks that join with the same 'id' are of the same communicator, of this
    // test and no other.
    Comm Join(const Nccl &nccl, uint64_t id = 1)
    {
        // One rank stands for those that do not join.
        setenv("STEPTUNE_AGREE", "assume", 1);
        return mock_test::MakeComm(nccl, machine_, id_ + id);
    }

    static mock_outcome Run(const Comm &comm, ncclFunc_t coll, size_t n_bytes,
                            int reg_buff = 0)
    {
        mock_call call{};
        call.coll = coll;
        call.n_bytes = n_bytes;
        call.reg_buff = reg_buff;
        mock_outcome out{};
        EXPECT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &out))
            << mock_last_error();
        return out;
    }

    TemporaryFolder folder_;
    const fs::path dir_ = folder_.path();
    const uint64_t id_ = mock_new_comm_id() & ~uint64_t{0xffff};
    Machine machine_;
    std::vector<std::string> warnings_;
    std::vector<std::string> infos_;
};

inline bool Untouched(const mock_outcome &out)
{
    return out.asked_channels == 0 &&
           memcmp(out.cost, out.cost_after, sizeof(out.cost)) == 0;
}

} // namespace static_plugin
