// The GPUs of this host as a device: arms, checks, the plugin behind its arm.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "support/temporary_folder.h"

extern "C" {
#include "core/names.h"
#include "core/policy/policy.h"
}

#include "device/device_fixture.h"
#include "gpu_engines.h"

namespace
{

using testing::HasSubstr;

constexpr stp_arm kPlugin{STP_ARM_PLUGIN, 0, 0, 0, 0, {}};
constexpr uint64_t kMaxBytes = 32 << 20;

class Cuda : public DeviceFixture
{
  protected:
    void SetUp() override
    {
        if (CountRanks() == 1)
            GTEST_SKIP() << "needs two GPUs: one rank asks no tuner";
    }

    void Open()
    {
        stp_device_close(&device_);
        options_.max_bytes = kMaxBytes;
        Ok(OpenGpuDevice(&options_, &device_, &err_));
        info_ = Info();
    }

    void OpenWithPolicy(const std::string &policy)
    {
        const std::string path = folder_.Path("policy.conf");
        std::ofstream(path) << policy;
        setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
        options_.plugin = STP_PLUGIN;
        Open();
    }

    stp_device_run Probe(const stp_arm &arm, int coll, uint64_t n_bytes)
    {
        Select(arm);
        return DeviceFixture::Probe(Make(coll, n_bytes, STP_TYPE_BF16));
    }

    // From 2.29 on NCCL has no profiler event for a broadcast.
    bool TellsOfBroadcasts() const
    {
        int major = 0, minor = 0;
        return sscanf(info_.nccl, "%d.%d", &major, &minor) == 2 &&
               100 * major + minor < 229;
    }

    uint64_t CountWrong(int coll, uint64_t n_bytes)
    {
        stp_found found{UINT64_MAX, 0};
        Ok(Check(Make(coll, n_bytes, STP_TYPE_BF16), 7, &found));
        return found.n_wrong;
    }

    stp_device_options options_{};
    stp_device_info info_{};
    TemporaryFolder folder_;
};

TEST(CudaSurvey, TellsWhatTheDriverKnows)
{
    const stp_module *module = nullptr;
    stp_survey s{};
    stp_error err{};

    ASSERT_EQ(STP_OK, stp_module_open(STP_CUDA_MODULE, &module, &err))
        << err.text;
    ASSERT_EQ(STP_OK, module->survey(&s, &err)) << err.text;
    ASSERT_GE(s.n_gpus, 1u);
    EXPECT_THAT(s.gpus[0].name, HasSubstr("NVIDIA"));
    EXPECT_GT(s.gpus[0].memory, 1u << 30);
    EXPECT_GE(s.gpus[0].compute_capability, 70);
    EXPECT_EQ(s.n_gpus * (s.n_gpus - 1) / 2, s.n_nvlink + s.n_pcie + s.n_none);
    EXPECT_GE(s.driver_cuda, s.built_cuda / 1000 * 1000);
}

TEST_F(Cuda, SaysWhatItIs)
{
    Open();

    EXPECT_STREQ("nccl", info_.backend);
    EXPECT_TRUE(info_.is_live);
    EXPECT_TRUE(info_.has_arms) << "NCCL " << info_.nccl;
    EXPECT_THAT(info_.what, HasSubstr(info_.gpu));
    EXPECT_THAT(info_.what, HasSubstr("measured here and now"));
    EXPECT_GE(info_.compute_capability, 50);
}

// An arm that NCCL has kernels for but rules out on this machine runs as NCCL's
// own choice.
TEST_F(Cuda, EveryArmOfEveryCollectiveRunsAsItselfAndRight)
{
    Open();
    int n_itself = 0;

    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++)
        for (int algo : {NCCL_ALGO_TREE, NCCL_ALGO_RING})
            for (int proto = 0; proto < NCCL_NUM_PROTOCOLS; proto++) {
                if (!stp_pair_exists(coll, algo, proto))
                    continue;
                const stp_arm arm{STP_ARM_FORCED, algo, proto, 0, 0, {}};
                const std::string what = std::string(stp_coll_name(coll)) +
                                         " " + stp_algo_name(algo) + "/" +
                                         stp_proto_name(proto);
                const stp_device_run run = Probe(arm, coll, 1 << 20);
                if (run.algo == algo && run.proto == proto)
                    n_itself++;
                if (coll != ncclFuncBroadcast || TellsOfBroadcasts()) {
                    EXPECT_GE(run.n_channels, 1) << what;
                }
                EXPECT_EQ(0u, CountWrong(coll, 1 << 20)) << what;
                EXPECT_EQ(0u, CountWrong(coll, kMaxBytes)) << what;
            }

    EXPECT_GE(n_itself, 3 * NCCL_NUM_TUNED_FUNCS);
}

TEST_F(Cuda, AnArmsChannelsAreThoseThatRun)
{
    Open();

    for (int channels : {1, 2, 3, 8}) {
        const stp_arm arm{
            STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, channels, 0, {}};
        EXPECT_EQ(channels,
                  Probe(arm, ncclFuncAllReduce, kMaxBytes).n_channels);
        EXPECT_EQ(0u, CountWrong(ncclFuncAllReduce, kMaxBytes));
    }
}

stp_arm ArmOf(const std::string &name)
{
    stp_arm arm{};
    EXPECT_TRUE(stp_arm_from_name(name.data(), name.size(), &arm)) << name;
    return arm;
}

TEST_F(Cuda, RegisteredBuffersRunAsTheyShouldAndRight)
{
    Open();
    int major = 0, minor = 0;
    ASSERT_EQ(2, sscanf(info_.nccl, "%d.%d", &major, &minor));
    const int copied = ncclFuncAllGather;

    for (const char *name : {"reg", "sym", "ce", "sym/ctas=4", "ctas=2",
                             "stage", "stage/ctas=32-64"})
        for (int coll :
             {ncclFuncAllGather, ncclFuncReduceScatter, ncclFuncAllReduce}) {
            const std::string what =
                std::string(name) + " " + stp_coll_name(coll);
            const stp_arm arm = ArmOf(name);
            if (arm.setup.memory >= STP_MEMORY_SYM && minor < 28)
                continue;
            const stp_device_run run = Probe(arm, coll, 1 << 20);
            const std::string kernel = run.kernel;
            if (arm.setup.memory == STP_MEMORY_CE && coll == copied) {
                EXPECT_EQ(STP_COPY_ENGINES, kernel);
            } else if (arm.setup.memory >= STP_MEMORY_SYM) {
                EXPECT_THAT(kernel, HasSubstr("_")) << what;
            } else {
                EXPECT_EQ("", kernel) << what;
            }
            if (arm.setup.memory == STP_MEMORY_PLAIN) {
                EXPECT_LE(run.n_channels, arm.setup.max_ctas) << what;
            }
            EXPECT_EQ(0u, CountWrong(coll, 1 << 20)) << what;
            EXPECT_EQ(0u, CountWrong(coll, kMaxBytes)) << what;
            // Parts that are padded.  Up to NCCL 2.29.7 symmetric LL kernels
            // load each fourth element of 2 bytes wrong from addresses that
            // are no multiple of 4: of parts of 5 one on each odd rank.
            for (uint64_t n : {5, 98305, 131073})
                if (n > 5 || minor >= 30 || arm.setup.memory < STP_MEMORY_SYM ||
                    arm.setup.memory == STP_MEMORY_STAGE ||
                    coll != ncclFuncReduceScatter) {
                    EXPECT_EQ(0u, CountWrong(coll, n * 2 * info_.n_ranks))
                        << what << ", " << n;
                }
        }
    const stp_device_run own = Probe(kAuto, ncclFuncAllReduce, 1 << 20);
    EXPECT_STREQ("", own.kernel);
    EXPECT_EQ(0u, CountWrong(ncclFuncAllReduce, 1 << 20));
}

TEST_F(Cuda, NcclsOwnChoiceIsTheSameBeforeAndAfterArms)
{
    Open();
    const stp_arm tree{STP_ARM_FORCED, NCCL_ALGO_TREE, NCCL_PROTO_LL, 1, 0, {}};

    for (uint64_t n_bytes : {uint64_t{8}, uint64_t{1} << 16, kMaxBytes}) {
        const stp_device_run before = Probe(kAuto, ncclFuncAllReduce, n_bytes);
        Probe(tree, ncclFuncAllReduce, n_bytes);
        const stp_device_run after = Probe(kAuto, ncclFuncAllReduce, n_bytes);
        EXPECT_EQ(before.algo, after.algo) << n_bytes;
        EXPECT_EQ(before.proto, after.proto) << n_bytes;
        EXPECT_EQ(before.n_channels, after.n_channels) << n_bytes;
    }
}

TEST_F(Cuda, ThePluginArmRunsWhatItsPolicySaysAndLeavesTheRest)
{
    OpenWithPolicy("allreduce,1048576,inf,tree,simple,2,-1,-1\n");

    const stp_device_run ruled = Probe(kPlugin, ncclFuncAllReduce, 4 << 20);
    EXPECT_EQ(NCCL_ALGO_TREE, ruled.algo);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, ruled.proto);
    EXPECT_EQ(2, ruled.n_channels);
    for (uint64_t n_bytes : {uint64_t{8}, uint64_t{65536}, uint64_t{524288}}) {
        const stp_device_run alone = Probe(kAuto, ncclFuncAllReduce, n_bytes);
        const stp_device_run left = Probe(kPlugin, ncclFuncAllReduce, n_bytes);
        EXPECT_EQ(alone.algo, left.algo) << n_bytes;
        EXPECT_EQ(alone.proto, left.proto) << n_bytes;
        EXPECT_EQ(alone.n_channels, left.n_channels) << n_bytes;
    }
}

TEST_F(Cuda, ThePluginReadsAPolicyAgainInTheCommunicatorsThatAreThere)
{
    OpenWithPolicy("allreduce,0,inf,tree,simple,2,-1,-1\n");
    const auto run = [this] {
        return Probe(kPlugin, ncclFuncAllReduce, 1 << 16);
    };
    EXPECT_EQ(NCCL_ALGO_TREE, run().algo);

    for (int channels : {1, 3}) { // once more, and again
        std::ofstream(folder_.Path("policy.conf"))
            << "allreduce,0,inf,ring,ll," << channels << ",-1,-1\n";
        Ok(stp_device_reload_plugin(&device_, &err_));

        EXPECT_EQ(NCCL_ALGO_RING, run().algo);
        EXPECT_EQ(channels, run().n_channels);
        EXPECT_EQ(0u, CountWrong(ncclFuncAllReduce, 1 << 16));
    }
}

TEST_F(Cuda, AskedForMoreGpusThanThereAreItSaysHowMany)
{
    options_.n_threads = 1000;
    options_.max_bytes = kMaxBytes;

    ASSERT_EQ(STP_ERR_NOTHING, OpenGpuDevice(&options_, &device_, &err_));

    EXPECT_THAT(err_.text, HasSubstr("1000 GPUs asked for"));
    EXPECT_THAT(err_.text, HasSubstr("present"));
}

// Its tuner is not asked about the calls of other arms, so that its profiler
// must not hear of them either.
TEST_F(Cuda, APluginThatLearnsHearsOfItsOwnCalls)
{
    const std::string journal = folder_.Path("journal.csv");
    setenv("STEPTUNE_JOURNAL", journal.c_str(), 1);
    setenv("STEPTUNE_LEARNED", "/dev/null", 1);
    setenv("STEPTUNE_BUDGET", "1", 1);
    options_.plugin = STP_ONLINE_PLUGIN;
    Open();

    for (int i = 0; i < 40; i++)
        for (const stp_arm &arm : {stp_arm{STP_ARM_AUTO}, kPlugin}) {
            Select(arm);
            for (int call = 0; call < 100; call++)
                Note(0, Make(ncclFuncAllReduce, 1 << 20, STP_TYPE_BF16));
            Synchronise();
        }
    stp_device_close(&device_);
    device_ = {};

    std::ifstream file(journal);
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_THAT(text.str(), HasSubstr(",trial,"));
    for (const char *name : {"JOURNAL", "LEARNED", "BUDGET"})
        unsetenv((std::string("STEPTUNE_") + name).c_str());
}

TEST_F(Cuda, AskedForMoreMemoryThanThereIsItSaysHowMuch)
{
    options_.max_bytes = uint64_t{1} << 46;

    ASSERT_EQ(STP_ERR_LIMIT, OpenGpuDevice(&options_, &device_, &err_));

    EXPECT_THAT(err_.text, HasSubstr("messages of 65536.0 GiB need two "
                                     "buffers"));
}

} // namespace
