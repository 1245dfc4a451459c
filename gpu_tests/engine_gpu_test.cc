// GPUs as an engine: the contract on one, and on all of them as threads of this
// process; and what a rank that is missing does to the others.
#include <map>

#include "device/contract.h"
#include "gpu_engines.h"

namespace
{

std::map<unsigned, std::unique_ptr<GpuEngines>> open_engines;

const GpuEngines *Engines(unsigned n)
{
    auto &engines = open_engines[n];

    if (engines == nullptr)
        engines = std::make_unique<GpuEngines>(n);
    return engines.get();
}

class CloseEngines : public testing::Environment
{
  public:
    void TearDown() override
    {
        open_engines.clear();
    }
};

const testing::Environment *const kClose =
    testing::AddGlobalTestEnvironment(new CloseEngines);

// They stay open for the next test, without the memory that this one took.
class Gpus : public RanksUnderTest
{
  public:
    explicit Gpus(unsigned n) : n_(n)
    {
    }

    stp_status Open(stp_device_options *, stp_engines *engines,
                    stp_error *) override
    {
        *engines = Engines(n_)->all();
        return STP_OK;
    }

    void Close(stp_engines *engines) override
    {
        for (unsigned i = 0; i < n_; i++)
            engines->all[i].ops->release(engines->all[i].self);
    }

  private:
    unsigned n_;
};

std::vector<ContractCase> Cases()
{
    std::vector<ContractCase> cases = {
        {"one_gpu",
         [] { return std::unique_ptr<RanksUnderTest>(new Gpus(1)); }}};

    if (CountRanks() > 1)
        cases.push_back({"all_gpus", [] {
                             return std::unique_ptr<RanksUnderTest>(
                                 new Gpus(CountRanks()));
                         }});
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Gpu, EngineContract, testing::ValuesIn(Cases()),
                         NameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceContract); // one device
                                                               // a process

TEST(EngineGpu, KeepsItsContractOnSeveralGpus)
{
    if (CountRanks() < 2)
        GTEST_SKIP() << "takes 2 GPUs or more, here are " << CountGpus()
                     << ": the contract was held by one alone";
}

TEST(EngineGpu, SaysWhatItIs)
{
    const stp_engine *engine = Engines(1)->get(0);
    stp_device_info info{};

    engine->ops->info(engine->self, &info);

    EXPECT_EQ(0u, info.rank);
    EXPECT_EQ(1u, info.n_ranks);
    EXPECT_TRUE(info.has_data);
    EXPECT_THAT(info.what, testing::HasSubstr(info.gpu));
    printf("%s\n", info.what);
}

// Rank 1 does not take part in the second of two: rank 0 runs out of time, and
// rank 1 is told.  In the first they connect, within NCCL's call, which has no
// limit.
void LeaveRankZeroAlone()
{
    GpuEngines *engines =
        new GpuEngines(2, nullptr, 20); // goes with the process
    stp_status got[2] = {};

    engines->Each([&](unsigned rank, const stp_engine *engine) {
        stp_error err{};
        void *x = nullptr;
        stp_transfer t{};

        got[rank] = engine->ops->alloc(engine->self, 1024, "a test", &x, &err);
        t.coll = ncclFuncAllReduce;
        t.type = STP_TYPE_F32;
        t.n = 256;
        t.in = t.out = x;
        t.in_place = true;
        for (unsigned i = 0; i < 2 - rank && got[rank] == STP_OK; i++) {
            got[rank] = NoteIn(*engine, 0, t, &err);
            if (got[rank] == STP_OK)
                got[rank] = engine->ops->synchronise(engine->self, &err);
        }
        if (rank == 1 && got[rank] == STP_OK)
            got[rank] = engine->ops->agree(engine->self, STP_OK, &err);
        fprintf(stderr, "rank %u: %s\n", rank, err.text);
        engine->ops->release(engine->self);
    });
    exit(got[0] == STP_ERR_DEVICE && got[1] == STP_ERR_STOPPED ? 0 : 1);
}

TEST(EngineGpuDeathTest, WaitsForNoRankForEver)
{
    if (CountRanks() < 2)
        GTEST_SKIP() << "takes 2 GPUs, here are " << CountGpus();
    testing::FLAGS_gtest_death_test_style = "threadsafe";

    EXPECT_EXIT(LeaveRankZeroAlone(), testing::ExitedWithCode(0),
                "rank 0: .*not done within 20 seconds");
}

} // namespace
