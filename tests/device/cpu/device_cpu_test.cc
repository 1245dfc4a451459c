// CPUs as a device, over a transport that does what a test tells it; and Gloo's
// ranks when one of them dies.
#include <csignal>

extern "C" {
#include "device/cpu/engine_cpu.h"
#include "device/module.h"
}

#include "device/cpu/planned_transport.h"
#include "device/device_fixture.h"

#ifdef STP_GLOO_MODULE
#include "support/forked_ranks.h"
#endif

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;

stp_status OpenCpu(const stp_device_options &options, stp_device *device,
                   stp_error *err)
{
    stp_engines engines{};
    const stp_status status = stp_cpu_open(&kPlan, &options, &engines, err);

    return status == STP_OK ? stp_device_open(&options, &engines, device, err)
                            : status;
}

class DeviceCpu : public DeviceFixture
{
  protected:
    void SetUp() override
    {
        plan = &plan_;
        world_ = stp_world_of_one;
        options_.world = &world_;
        options_.measures = true;
        options_.max_bytes = 1 << 20;
    }

    ~DeviceCpu() override
    {
        stp_device_close(&device_);
    }

    void Open()
    {
        Ok(OpenCpu(options_, &device_, &err_));
    }

    static stp_collective Floats(uint64_t n)
    {
        return Make(ncclFuncAllReduce, n * sizeof(float));
    }

    uint64_t CountWrong(const stp_collective &collective)
    {
        stp_found found{UINT64_MAX, 0};
        Ok(Check(collective, 3, &found));
        return found.n_wrong;
    }

    void Note(unsigned stream, uint64_t n)
    {
        DeviceFixture::Note(stream, Floats(n));
    }

    Plan plan_;
    stp_world world_{};
    stp_device_options options_{};
};

/* ---- checking ---- */

TEST_F(DeviceCpu, CountsEveryWrongElement)
{
    Open();
    EXPECT_EQ(0u, CountWrong(Floats(1000)));

    plan_.wrong = {0, 17, 999};
    EXPECT_EQ(3u, CountWrong(Floats(1000)));
    plan_.wrong = {500};
    EXPECT_EQ(1u, CountWrong(Floats(501)));
}

TEST_F(DeviceCpu, ChecksWithTheDataOfASeed)
{
    std::vector<float> of_seed[3];
    stp_found found{};
    Open();

    for (unsigned i = 0; i < 3; i++) {
        Ok(Check(Floats(100), 40 + 2 * (i % 2), &found));
        of_seed[i] = plan_.input;
    }

    EXPECT_EQ(100u, of_seed[0].size());
    EXPECT_EQ(of_seed[0], of_seed[2]);
    EXPECT_NE(of_seed[0], of_seed[1]);
}

TEST_F(DeviceCpu, CountsWhatNobodyWroteAsWrong)
{
    Open();
    plan_.lazy = true;

    EXPECT_EQ(1000u, CountWrong(Floats(1000)));
}

/* ---- streams ---- */

TEST_F(DeviceCpu, RunsBothStreamsAtOnce)
{
    options_.time_limit_s = 500;
    Open();
    plan_.n_together = 2;
    Note(STP_STREAM_MAIN, 10);
    Note(STP_STREAM_COMM, 20);

    EXPECT_EQ(STP_OK, Run()) << err_.text;

    EXPECT_EQ(2u, plan_.ran.size());
}

TEST_F(DeviceCpu, WaitsForTheOtherStream)
{
    Open();
    for (uint64_t n : {3, 1, 2})
        Note(STP_STREAM_COMM, n);
    Record(STP_STREAM_COMM, 0);
    Wait(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, 20);

    EXPECT_EQ(STP_OK, Run());
    Replay();

    EXPECT_THAT(plan_.ran, ElementsAre(3, 1, 2, 20, 3, 1, 2, 20));
}

/* ---- failures ---- */

TEST_F(DeviceCpu, SaysWhyACollectiveFailed)
{
    Open();
    plan_.fails = true;
    Note(STP_STREAM_MAIN, 1);
    Note(STP_STREAM_MAIN, 2);

    EXPECT_EQ(STP_ERR_DEVICE, Run());

    EXPECT_STREQ("the cable is unplugged", err_.text);
    EXPECT_EQ("the cable is unplugged", plan_.aborted);
    EXPECT_THAT(plan_.ran, ElementsAre(1));
    EXPECT_EQ(STP_ERR_DEVICE, Run());
    EXPECT_THAT(err_.text, HasSubstr("no longer connected"));
}

TEST_F(DeviceCpu, EndsTheOtherStreamWithTheFirstThatFails)
{
    Open();
    plan_.fails = true;
    Note(STP_STREAM_MAIN, 1);
    Record(STP_STREAM_MAIN, 0);
    Wait(STP_STREAM_COMM, 0);
    Note(STP_STREAM_COMM, 2);

    EXPECT_EQ(STP_ERR_DEVICE, Run());

    EXPECT_THAT(plan_.ran, ElementsAre(1));
}

TEST_F(DeviceCpu, StopsAtItsTimeLimit)
{
    options_.time_limit_s = 1;
    Open();
    plan_.hangs = true;
    Note(STP_STREAM_MAIN, 1);

    EXPECT_EQ(STP_ERR_DEVICE, Run());

    EXPECT_STREQ("not done after 1 s, the limit for one run", err_.text);
    EXPECT_EQ(err_.text, plan_.aborted);
}

// A world of this process and one that is dead.
TEST_F(DeviceCpu, StopsWhenARankDies)
{
    stp_world_ops dying = *world_.ops;
    dying.alive = [](void *, stp_error *err) {
        stp_fail(err, STP_ERR_DEVICE, "rank 5 died");
        return false;
    };
    world_.ops = &dying;
    Open();
    plan_.hangs = true;
    Note(STP_STREAM_MAIN, 1);

    EXPECT_EQ(STP_ERR_DEVICE, Run());

    EXPECT_STREQ("rank 5 died", err_.text);
    EXPECT_EQ("rank 5 died", plan_.aborted);
    stp_device_close(&device_); // before its world goes
}

/* ---- refusals ---- */

TEST_F(DeviceCpu, RefusesWhatItCannotRun)
{
    const struct {
        const char *text;
        int coll, type, op;
        uint64_t n_bytes;
        unsigned root;
    } cases[] = {
        {"no collective 9", 9, STP_TYPE_F32, STP_OP_SUM, 4, 0},
        {"no datatype 99", ncclFuncAllReduce, 99, STP_OP_SUM, 4, 0},
        {"CPUs do not reduce fp8e4m3", ncclFuncAllReduce, STP_TYPE_FP8_E4M3,
         STP_OP_SUM, 4, 0},
        {"CPUs do not reduce by operation 5", ncclFuncReduce, STP_TYPE_F32,
         STP_OP_PREMULSUM, 4, 0},
        {"root 1 of 1 ranks", ncclFuncBroadcast, STP_TYPE_F32, STP_OP_SUM, 4,
         1},
        {"6 bytes are no multiple of 4", ncclFuncAllReduce, STP_TYPE_F32,
         STP_OP_SUM, 6, 0},
        {"1048580 bytes, but the device was opened for 1048576",
         ncclFuncAllReduce, STP_TYPE_F32, STP_OP_SUM, (1 << 20) + 4, 0},
    };
    Open();

    for (const auto &c : cases) {
        const stp_collective collective{c.coll, c.n_bytes, c.type, c.op,
                                        c.root, false,     {}};
        stp_device_run run{};
        EXPECT_EQ(STP_ERR_RANGE, TryNote(0, collective));
        EXPECT_STREQ(c.text, err_.text);
        EXPECT_EQ(STP_ERR_RANGE, stp_device_probe(&device_, &collective, &run,
                                                  nullptr, &err_));
        EXPECT_STREQ(c.text, err_.text);
    }
    EXPECT_EQ(STP_OK, Run());
    EXPECT_TRUE(plan_.ran.empty());
}

TEST_F(DeviceCpu, RefusesArms)
{
    const stp_arm ring{STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL, 0, 0, {}};
    const stp_arm plugin{STP_ARM_PLUGIN, 0, 0, 0, 0, {}};
    Open();

    EXPECT_EQ(STP_ERR_RANGE, stp_device_select_arm(&device_, &ring, &err_));
    EXPECT_STREQ("arm ring/ll: algorithms and protocols are NCCL's: none can "
                 "be forced on gloo",
                 err_.text);
    EXPECT_EQ(STP_ERR_RANGE, stp_device_select_arm(&device_, &plugin, &err_));
    EXPECT_THAT(err_.text, HasSubstr("CPUs have none"));
}

TEST_F(DeviceCpu, RefusesWhatOnlyGpusHave)
{
    const struct {
        const char *text;
        unsigned n_threads, n_gpus, graph;
        const char *plugin;
        const char *graphs_file;
    } cases[] = {
        {"a process is one rank", 2, 1, 0, nullptr, nullptr},
        {"a process is one rank", 1, 4, 0, nullptr, nullptr},
        {"CUDA graphs", 1, 1, 1, nullptr, nullptr},
        {"CPUs have none", 0, 0, 0, "steptune", nullptr},
        {"gloo has none", 0, 0, 0, nullptr, "graphs.xml"},
    };

    for (const auto &c : cases) {
        options_.n_threads = c.n_threads;
        options_.n_gpus = c.n_gpus;
        options_.graph = c.graph;
        options_.plugin = c.plugin;
        options_.graphs_file = c.graphs_file;
        EXPECT_EQ(STP_ERR_RANGE, OpenCpu(options_, &device_, &err_));
        EXPECT_THAT(err_.text, HasSubstr(c.text));
        EXPECT_EQ(nullptr, device_.ranks);
    }
}

TEST_F(DeviceCpu, RefusesMoreThanTheMemory)
{
    options_.max_bytes = uint64_t{1} << 60;

    EXPECT_EQ(STP_ERR_NOMEM, OpenCpu(options_, &device_, &err_));

    EXPECT_THAT(err_.text, HasSubstr("1 process with 2305843009.21 GB each"));
    EXPECT_THAT(err_.text, HasSubstr("GB of memory free"));
}

// Two a stream, beside the buffers.
TEST_F(DeviceCpu, RefusesVectorsLongerThanTheMemory)
{
    Open();

    EXPECT_EQ(STP_ERR_RANGE,
              TryWork(Work(STP_WORK_ELEMENTWISE, 0, 0, uint64_t{1} << 56)));
    EXPECT_THAT(err_.text, HasSubstr("1 process with 288230376.15 GB each"));
    EXPECT_EQ(STP_ERR_RANGE,
              TryWork(Work(STP_WORK_ELEMENTWISE, 0, 0, UINT64_MAX)));
    EXPECT_THAT(err_.text, HasSubstr("18446744073.71 GB each"));
    EXPECT_EQ(STP_ERR_RANGE, TryWork(Work(STP_WORK_ELEMENTWISE, 2, 0, 4)));
    EXPECT_STREQ("stream 2 of 2", err_.text);
}

TEST_F(DeviceCpu, SaysWhatItIs)
{
    Open();
    const stp_device_info info = Info();

    EXPECT_THAT(info.what, testing::MatchesRegex("1 process on .* \\(.* CPUs?, "
                                                 ".*\\), a plan; measured here "
                                                 "and now"));
    EXPECT_STREQ("gloo", info.backend);
    EXPECT_EQ(1u, info.n_ranks);
    EXPECT_EQ(1u, info.n_nodes);
    EXPECT_TRUE(info.has_data);
    EXPECT_FALSE(info.has_arms);
    EXPECT_EQ(0, info.event_us);
}

/* ---- a rank that dies ---- */

#ifdef STP_GLOO_MODULE

TEST(DeviceGloo, SaysWhichRankDied)
{
    ForkedRanks ranks(3, 2);
    const stp_module *module = nullptr;
    stp_device_options options{};
    stp_engines engines{};
    stp_device device{};
    stp_error err{};
    stp_collective collective{};
    options.world = ranks.world();
    options.measures = true;
    options.max_bytes = 4096;
    collective.coll = ncclFuncAllReduce;
    collective.type = STP_TYPE_F32;
    collective.n_bytes = 4096;
    ASSERT_EQ(STP_OK, stp_module_open(STP_GLOO_MODULE, &module, &err));
    ASSERT_EQ(STP_OK, module->open(&options, &engines, &err)) << err.text;
    ASSERT_EQ(STP_OK, stp_device_open(&options, &engines, &device, &err));

    if (ranks.world()->rank == 2)
        raise(SIGKILL);
    stp_work work{}; // all 0: of kind collective, in the main stream
    work.collective = collective;
    stp_device_note(&device, &work, &err);
    stp_status status = stp_device_synchronise(&device, &err);

    EXPECT_EQ(STP_ERR_DEVICE, status);
    EXPECT_THAT(err.text, HasSubstr("rank 2"));
    stp_device_close(&device);
}

#endif

} // namespace
