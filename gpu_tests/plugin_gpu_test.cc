// The static plugin in a real libnccl, on every GPU of this host.
//
// NCCL's choice is read from NCCL's own log (NCCL_DEBUG_SUBSYS=TUNING), a
// line a collective: "AllReduce: 4096 Bytes -> Algo RING proto LL ...".  A
// process has one libnccl and that reads its environment once, so each case
// runs in a child.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gpu_ranks.h"

#include "support/temporary_folder.h"

namespace
{

using testing::HasSubstr;
using testing::Not;

constexpr size_t kCount = 1 << 18; // floats: 1 MiB

struct Rank {
    int device;
    ncclComm_t comm;
    cudaStream_t stream;
    float *buffer;
};

// One all-reduce of ones on all GPUs.  Returns what is wrong, or "".
std::string AllReduceOnes()
{
    const int n = CountRanks();
    if (n < 1)
        return "no GPU";
    std::vector<ncclComm_t> comms(n);
    if (ncclCommInitAll(comms.data(), n, GpusOf(n).data()) != ncclSuccess)
        return "ncclCommInitAll failed";
    std::vector<Rank> ranks(n);
    const std::vector<float> ones(kCount, 1.0f);
    for (int i = 0; i < n; i++) {
        ranks[i] = {GpuOf(i), comms[i], nullptr, nullptr};
        cudaSetDevice(GpuOf(i));
        cudaStreamCreate(&ranks[i].stream);
        cudaMalloc(&ranks[i].buffer, kCount * sizeof(float));
        cudaMemcpy(ranks[i].buffer, ones.data(), kCount * sizeof(float),
                   cudaMemcpyHostToDevice);
    }
    ncclGroupStart();
    for (Rank &r : ranks)
        ncclAllReduce(r.buffer, r.buffer, kCount, ncclFloat, ncclSum, r.comm,
                      r.stream);
    if (ncclGroupEnd() != ncclSuccess)
        return "ncclAllReduce failed";
    for (Rank &r : ranks) {
        std::vector<float> got(kCount);
        cudaSetDevice(r.device);
        if (cudaStreamSynchronize(r.stream) != cudaSuccess)
            return "the all-reduce failed on the GPU";
        cudaMemcpy(got.data(), r.buffer, kCount * sizeof(float),
                   cudaMemcpyDeviceToHost);
        for (float x : got)
            if (x != static_cast<float>(n))
                return "wrong sum";
    }
    for (Rank &r : ranks)
        ncclCommDestroy(r.comm);
    return "";
}

class PluginOnGpu : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (CountRanks() == 1)
            GTEST_SKIP() << "needs two GPUs: one rank asks no tuner";
    }

    // Runs the all-reduce in a child with this policy; returns NCCL's log.
    std::string LogWithPolicy(const char *plugin, const std::string &policy)
    {
        std::ofstream(dir_ / "policy.conf") << policy;
        pid_t child = fork();
        if (child == 0) {
            setenv("NCCL_TUNER_PLUGIN", plugin, 1);
            setenv("NCCL_TUNER_CONFIG_FILE", (dir_ / "policy.conf").c_str(), 1);
            setenv("NCCL_DEBUG", "INFO", 1);
            setenv("NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING", 1);
            setenv("NCCL_DEBUG_FILE", (dir_ / "log").c_str(), 1);
            std::string wrong = AllReduceOnes();
            if (!wrong.empty())
                fprintf(stderr, "child: %s\n", wrong.c_str());
            _exit(wrong.empty() ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT_EQ(0, status) << "the all-reduce went wrong";
        std::stringstream log;
        log << std::ifstream(dir_ / "log").rdbuf();
        return log.str();
    }

    TemporaryFolder folder_;
    const std::filesystem::path dir_ = folder_.path();
};

TEST_F(PluginOnGpu, IsLoadedAndItsRuleIsWhatRuns)
{
    std::string log =
        LogWithPolicy(STP_PLUGIN, "allreduce,0,inf,tree,simple,2,-1,-1\n");

    EXPECT_THAT(log, HasSubstr("Using steptune (v"));
    EXPECT_THAT(log, HasSubstr("1 of 1 rules apply"));
    EXPECT_THAT(log, HasSubstr("AllReduce: 1048576 Bytes -> Algo TREE proto "
                               "SIMPLE channel{Lo..Hi}={0..1}"));
}

TEST_F(PluginOnGpu, LeavesAnUnmatchedCallAsWithoutAPlugin)
{
    const std::string line = "AllReduce: 1048576 Bytes -> ";
    std::string with =
        LogWithPolicy(STP_PLUGIN, "broadcast,0,inf,ring,simple,1,-1,-1\n");
    std::string without = LogWithPolicy("none", "");

    size_t at_with = with.find(line);
    size_t at_without = without.find(line);
    ASSERT_NE(std::string::npos, at_with);
    ASSERT_NE(std::string::npos, at_without);
    EXPECT_EQ(
        without.substr(at_without, without.find('\n', at_without) - at_without),
        with.substr(at_with, with.find('\n', at_with) - at_with));
}

TEST_F(PluginOnGpu, StepsAsideWithOneWarningWhenThePolicyIsBad)
{
    std::string log =
        LogWithPolicy(STP_PLUGIN, "allreduce,0,inf,rnig,simple,2,-1,-1\n");

    EXPECT_THAT(log, HasSubstr("policy.conf:1:17: unknown algorithm 'rnig'"));
    EXPECT_THAT(log, Not(HasSubstr("rules apply")));
}

} // namespace
