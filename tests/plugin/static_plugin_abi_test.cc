// What mock NCCL does not do with the plugin: the bare interface.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "support/static_plugin.h"

using namespace static_plugin;

namespace
{

class BareInterface : public StaticPlugin
{
  protected:
    void SetUp() override
    {
        StaticPlugin::SetUp();
        lib_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(nullptr, lib_) << dlerror();
    }
    void TearDown() override
    {
        dlclose(lib_);
        StaticPlugin::TearDown();
    }

    template <typename T> const T *Tuner(const char *symbol)
    {
        return static_cast<const T *>(dlsym(lib_, symbol));
    }

    void *lib_ = nullptr;
};

TEST_F(BareInterface, NeedsNoLogger)
{
    ncclTunerConstants_v5_t constants{};
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};
    const char *texts[] = {"allreduce,0,inf,tree,ll,-1,-1,-1\n", "nonsense\n"};

    for (const char *text : texts) {
        Policy(text);
        void *ctx = nullptr;
        const auto *v5 = Tuner<ncclTuner_v5_t>("ncclTunerPlugin_v5");
        EXPECT_EQ(ncclSuccess,
                  v5->init(&ctx, 1, 4, 1, nullptr, &nvl, &constants));
        EXPECT_EQ(ncclSuccess, v5->finalize(ctx));
        const auto *v4 = Tuner<ncclTuner_v4_t>("ncclTunerPlugin_v4");
        EXPECT_EQ(ncclSuccess, v4->init(4, 1, nullptr, &ctx));
        EXPECT_EQ(ncclSuccess, v4->destroy(ctx));
    }
}

TEST_F(BareInterface, ReadsTheFileAgainOnceNoCommunicatorHoldsIt)
{
    const auto *v4 = Tuner<ncclTuner_v4_t>("ncclTunerPlugin_v4");

    for (int proto : {NCCL_PROTO_LL, NCCL_PROTO_SIMPLE}) {
        Policy(std::string("allreduce,0,inf,tree,") +
               (proto == NCCL_PROTO_LL ? "ll" : "simple") + ",-1,-1,-1\n");
        float table[7][3] = {{5, 5, 5}, {4, 4, 4}};
        int channels = 0;
        void *ctx = nullptr;
        v4->init(8, 1, nullptr, &ctx);
        v4->getCollInfo(ctx, ncclFuncAllReduce, 64, 1, (float **)table, 7, 3, 0,
                        &channels);
        v4->destroy(ctx);
        EXPECT_EQ(0, table[NCCL_ALGO_TREE][proto]);
    }
}

TEST_F(BareInterface, LeavesNcclsConstantsAlone)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    ncclTunerConstants_v5_t constants;
    ncclTunerConstants_v5_t before;
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};
    memset(&constants, 0x5a, sizeof(constants));
    before = constants;
    const auto *v6 = Tuner<ncclTuner_v6_t>("ncclTunerPlugin_v6");
    void *ctx = nullptr;

    v6->init(&ctx, 1, 4, 1, nullptr, &nvl, &constants);
    v6->finalize(ctx);

    EXPECT_EQ(0, memcmp(&before, &constants, sizeof(before)));
}

TEST_F(BareInterface, IgnoresTheGpuColumnOnSeveralNodes)
{
    Policy("collective,algorithm,protocol,gpu\n"
           "allreduce,tree,ll,NVIDIA H200\n");
    setenv("STEPTUNE_GPU", "NVIDIA H200", 1);
    const auto *v4 = Tuner<ncclTuner_v4_t>("ncclTunerPlugin_v4");

    for (size_t n_nodes : {1, 2}) {
        float table[7][3] = {{5, 5, 5}, {4, 4, 4}};
        int channels = 0;
        void *ctx = nullptr;
        v4->init(8, n_nodes, nullptr, &ctx);
        v4->getCollInfo(ctx, ncclFuncAllReduce, 64, 1, (float **)table, 7, 3, 0,
                        &channels);
        v4->destroy(ctx);
        EXPECT_EQ(n_nodes == 1 ? 0.0f : 5.0f, table[0][0]);
    }
}

// Which chunk size is told for what was asked: calls of one group, then the
// question.  "T4" is an all-reduce of 4096 bytes that a rule decides, "T8" one
// of 8192 with another chunk size, "N" one that no rule decides.
struct ChunkCase {
    const char *name;
    std::vector<size_t> calls; // bytes of the all-reduces before
    int algo;
    int proto;
    size_t want;
};

TEST_F(BareInterface, TellsTheChunkSizeOfWhatItDecidedAndOfNothingElse)
{
    Policy("collective,min_bytes,max_bytes,algorithm,protocol,chunk_bytes\n"
           "allreduce,4096,4096,tree,simple,64K\n"
           "allreduce,8192,8192,tree,simple,128K\n"
           "allreduce,16384,16384,tree,simple,-1\n");
    const ChunkCase cases[] = {
        {"decided", {4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 65536},
        {"twice_alike", {4096, 4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 65536},
        {"two_sizes", {4096, 8192}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"beside_undecided", {64, 4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"undecided_behind", {4096, 64}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"undecided", {64}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"rule_without", {16384}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"other_pair_ran", {4096}, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0},
        {"nothing_asked", {}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"decided_again", {8192}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 131072},
    };
    const auto *v6 = Tuner<ncclTuner_v6_t>("ncclTunerPlugin_v6");
    ncclTunerConstants_v5_t constants{};
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};
    void *ctx = nullptr;
    setenv("STEPTUNE_AGREE", "assume", 1); // no other rank joins
    v6->init(&ctx, 1, 4, 1, nullptr, &nvl, &constants);

    // All cases in one communicator: what a group noted must not outlive it.
    for (const ChunkCase &c : cases) {
        SCOPED_TRACE(c.name);
        for (size_t n_bytes : c.calls) {
            float table[7][3] = {{5, 5, 5}, {4, 4, 4}};
            int channels = 0;
            v6->getCollInfo(ctx, ncclFuncAllReduce, n_bytes, 1, (float **)table,
                            7, 3, 0, &channels);
        }
        if (c.calls.empty()) { // a group of another collective
            float table[7][3] = {{5, 5, 5}, {4, 4, 4}};
            int channels = 0;
            v6->getCollInfo(ctx, ncclFuncAllGather, 64, 1, (float **)table, 7,
                            3, 0, &channels);
        }
        for (int part = 0; part < 3; part++) {
            size_t chunk = 1234;
            EXPECT_EQ(ncclSuccess,
                      v6->getChunkSize(ctx, ncclFuncAllReduce, 512, c.algo,
                                       c.proto, 1, &chunk));
            EXPECT_EQ(c.want == 0 ? 1234 : c.want, chunk);
        }
    }
    v6->finalize(ctx);
}

} // namespace
