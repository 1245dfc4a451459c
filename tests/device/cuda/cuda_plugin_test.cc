// The tuner that NCCL loads where arms are measured, before a tuner under test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/temporary_folder.h"

extern "C" {
#include "device/arm_tuner.h"
#include "device/cuda/cuda_plugin.h"
extern const ncclTuner_v5_t ncclTunerPlugin_v5;
}

namespace
{

constexpr int kRanks = 4;

class CudaPlugin : public testing::Test
{
  protected:
    void WritePolicy(const std::string &arm) const
    {
        std::ofstream(folder_.Path("policy.conf"))
            << "allreduce,0,inf," << arm << ",2,-1,-1\n";
    }

    // Has NCCL begin a communicator of all ranks.
    void Connect(uint64_t id)
    {
        ncclNvlDomainInfo_v5_t domains{1, kRanks, kRanks};
        ncclTunerConstants_v5_t constants{};

        for (int i = 0; i < kRanks; i++) {
            void *context = nullptr;
            ASSERT_EQ(ncclSuccess,
                      ncclTunerPlugin_v5.init(&context, id, kRanks, 1, Log,
                                              &domains, &constants));
            contexts_.push_back(context);
        }
    }

    // The algorithm that each rank of each communicator chooses; -1: NCCL does.
    std::vector<int> Ask(const stp_arm &arm) const
    {
        std::vector<int> algos;

        stp_cuda_plugin_select(&arm);
        for (void *context : contexts_) {
            float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
            int n_channels = 0, algo = -1;
            float least = 100;
            for (auto &row : cost)
                std::fill(std::begin(row), std::end(row), 100.f);
            EXPECT_EQ(ncclSuccess,
                      ncclTunerPlugin_v5.getCollInfo(
                          context, ncclFuncAllReduce, 1 << 20, 1,
                          reinterpret_cast<float **>(cost), NCCL_NUM_ALGORITHMS,
                          NCCL_NUM_PROTOCOLS, 0, &n_channels));
            for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
                for (float us : cost[a])
                    if (us >= 0 && us < least) {
                        least = us;
                        algo = a;
                    }
            algos.push_back(algo);
        }
        return algos;
    }

    void End()
    {
        // In another order than they began.
        std::rotate(contexts_.begin(), contexts_.begin() + 1, contexts_.end());
        for (void *context : contexts_)
            EXPECT_EQ(ncclSuccess, ncclTunerPlugin_v5.finalize(context));
        contexts_.clear();
    }

    static void Log(ncclDebugLogLevel, unsigned long, const char *, int,
                    const char *, ...)
    {
    }

    TemporaryFolder folder_;
    std::vector<void *> contexts_;
};

TEST_F(CudaPlugin, HasTheTunerUnderTestStartOverInAllCommunicators)
{
    const stp_arm own{STP_ARM_AUTO, 0, 0, 0, 0, {}};
    const stp_arm plugin{STP_ARM_PLUGIN, 0, 0, 0, 0, {}};
    const auto all = [](int algo) { return std::vector<int>(12, algo); };
    char replaced[128];
    stp_error err{};
    setenv("NCCL_TUNER_CONFIG_FILE", folder_.Path("policy.conf").c_str(), 1);
    setenv("STEPTUNE_AGREE", "assume", 1);
    WritePolicy("tree,simple");
    ASSERT_EQ(STP_OK, stp_cuda_plugin_begin(STP_PLUGIN, 22809, replaced, &err))
        << err.text;
    for (uint64_t id : {7, 8, 9})
        Connect(id);
    EXPECT_TRUE(stp_cuda_plugin_has_tuner());
    EXPECT_EQ(all(NCCL_ALGO_TREE), Ask(plugin));

    for (const auto &[arm, algo] : {std::pair{"ring,ll", NCCL_ALGO_RING},
                                    std::pair{"nvls,simple", NCCL_ALGO_NVLS}}) {
        WritePolicy(arm);
        ASSERT_EQ(STP_OK, stp_cuda_plugin_reload(&err)) << err.text;
        EXPECT_EQ(all(algo), Ask(plugin));
        EXPECT_EQ(all(-1), Ask(own));
    }

    End();
    EXPECT_EQ(STP_OK, stp_cuda_plugin_reload(&err)); // of none
}

// A job has the tuner whose place ours takes: AUTO is with it, arms are forced
// on its table, and the arm of NCCL alone does not ask it.
TEST_F(CudaPlugin, AsksTheTunerThatItDisplaced)
{
    const stp_arm own{STP_ARM_AUTO, 0, 0, 0, 0, {}};
    const stp_arm nccl{STP_ARM_NCCL, 0, 0, 0, 0, {}};
    const stp_arm tree{STP_ARM_FORCED, NCCL_ALGO_TREE, NCCL_PROTO_LL, 0, 0, {}};
    char replaced[128];
    stp_device_info info{};
    stp_error err{};
    setenv("NCCL_TUNER_PLUGIN", STP_BELOW, 1);
    ASSERT_EQ(STP_OK, stp_cuda_plugin_begin(nullptr, 22809, replaced, &err));
    EXPECT_STREQ(STP_BELOW, getenv("STEPTUNE_CHAIN"));
    Connect(7);
    stp_arm_tuner_describe(&info);
    EXPECT_STREQ("below", info.tuner);
    EXPECT_NE(std::vector<int>(kRanks, -1), Ask(own));
    EXPECT_EQ(std::vector<int>(kRanks, -1), Ask(nccl));
    EXPECT_EQ(std::vector<int>(kRanks, NCCL_ALGO_TREE), Ask(tree));
    End();
    unsetenv("STEPTUNE_CHAIN");
}

// AddressSanitizer sees what of the tuner under test is left.
TEST_F(CudaPlugin, LeavesNothingOfACommunicatorWhoseLowerTunerFails)
{
    void *context = nullptr;
    char replaced[128];
    stp_error err{};
    setenv("STEPTUNE_CHAIN", STP_FAILS, 1);
    ASSERT_EQ(STP_OK, stp_cuda_plugin_begin(STP_BELOW, 22809, replaced, &err))
        << err.text;
    EXPECT_NE(ncclSuccess, ncclTunerPlugin_v5.init(&context, 9, kRanks, 1, Log,
                                                   nullptr, nullptr));
    EXPECT_EQ(nullptr, context);
    unsetenv("STEPTUNE_CHAIN");
}

} // namespace
