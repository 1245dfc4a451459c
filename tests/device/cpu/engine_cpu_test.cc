// CPUs as an engine: the contract on one rank and over Gloo, and refusals.
extern "C" {
#include "device/cpu/engine_cpu.h"
}

#include "device/cpu/planned_transport.h"
#include "device/engine_contract.h"

#ifdef STP_GLOO_MODULE
extern "C" {
#include "device/module.h"
}

#include "support/forked_ranks.h"
#endif

namespace
{

using testing::HasSubstr;

class Alone : public EngineUnderTest
{
  public:
    Alone()
    {
        stp_engine_options options{};
        stp_error err{};

        options.world = &stp_world_of_one;
        EXPECT_EQ(STP_OK,
                  stp_engine_cpu_open(nullptr, &options, &engine_, &err))
            << err.text;
    }

    ~Alone() override
    {
        engine_.ops->close(engine_.self);
    }

    const stp_engine *get() const override
    {
        return &engine_;
    }

  private:
    stp_engine engine_{};
};

#ifdef STP_GLOO_MODULE

class OverGloo : public EngineUnderTest
{
  public:
    OverGloo() : ranks_(3)
    {
        const stp_module *module = nullptr;
        stp_engine_options options{};
        stp_error err{};

        options.world = ranks_.world();
        if (stp_module_open(STP_GLOO_MODULE, &module, &err) != STP_OK ||
            module->open_engines(&options, &engine_, &err) != STP_OK) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
    }

    ~OverGloo() override
    {
        engine_.ops->close(engine_.self);
    }

    const stp_engine *get() const override
    {
        return &engine_;
    }

  private:
    ForkedRanks ranks_;
    stp_engine engine_{};
};

#endif

const EngineCase kCases[] = {
    {"alone", [] { return std::unique_ptr<EngineUnderTest>(new Alone); }, true},
#ifdef STP_GLOO_MODULE
    {"gloo", [] { return std::unique_ptr<EngineUnderTest>(new OverGloo); },
     true},
#endif
};

INSTANTIATE_TEST_SUITE_P(Cpu, EngineContract, testing::ValuesIn(kCases),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

/* ---- refusals ---- */

class EngineCpu : public testing::Test
{
  protected:
    Alone alone_;
    const stp_engine_ops *ops_ = alone_.get()->ops;
    void *self_ = alone_.get()->self;
    stp_error err_{};
};

TEST_F(EngineCpu, RefusesProductsThatBlasLacks)
{
    const struct {
        const char *text;
        unsigned m;
        int type, type_c;
    } cases[] = {
        {"a GEMM of 0 x 1 x 1", 0, STP_TYPE_F32, STP_TYPE_F32},
        {"a GEMM of 4294967295 x 1 x 1", UINT32_MAX, STP_TYPE_F32,
         STP_TYPE_F32},
        {"no GEMMs of type i32, only f32, f64, f16 and bf16", 1, STP_TYPE_I32,
         STP_TYPE_I32},
        {"a product of f32 into type 6, expected f32", 1, STP_TYPE_F32,
         STP_TYPE_F16},
        {"a product of bf16 into type 6, expected bf16 or f32", 1,
         STP_TYPE_BF16, STP_TYPE_F16},
    };

    for (const auto &c : cases) {
        stp_product p{};
        p.m = c.m;
        p.n = p.k = 1;
        p.type = c.type;
        p.type_c = c.type_c;
        EXPECT_EQ(STP_ERR_RANGE, ops_->product(self_, 0, &p, &err_));
        EXPECT_STREQ(c.text, err_.text);
    }
    EXPECT_EQ(STP_OK, ops_->synchronise(self_, &err_));
}

TEST_F(EngineCpu, HasNoTunerPlugin)
{
    const stp_arm own{STP_ARM_AUTO, 0, 0, 0};
    const stp_arm plugin{STP_ARM_PLUGIN, 0, 0, 0};

    EXPECT_EQ(STP_OK, ops_->select_arm(self_, &own, &err_));
    EXPECT_EQ(STP_ERR_RANGE, ops_->select_arm(self_, &plugin, &err_));
    EXPECT_STREQ("tuner plugins are NCCL's: CPUs have none", err_.text);
}

TEST_F(EngineCpu, RefusesStreamsAndWaitsThatCannotBe)
{
    EXPECT_EQ(STP_ERR_RANGE, ops_->record(self_, 2, 0, &err_));
    EXPECT_STREQ("stream 2 of 2", err_.text);
    EXPECT_EQ(STP_ERR_RANGE, ops_->wait(self_, 0, 4, &err_));
    EXPECT_THAT(err_.text, HasSubstr("event 4"));
}

TEST(EngineCpuOpen, RefusesWhatOnlyGpusHave)
{
    stp_engine_options options{};
    stp_engine engine{};
    stp_error err{};
    options.world = &stp_world_of_one;

    options.n_local = 2;
    EXPECT_EQ(STP_ERR_RANGE,
              stp_engine_cpu_open(nullptr, &options, &engine, &err));
    EXPECT_STREQ("2 ranks a process, but on CPUs a process is one rank",
                 err.text);
    options.n_local = 1;
    options.plugin = "steptune";
    EXPECT_EQ(STP_ERR_RANGE,
              stp_engine_cpu_open(nullptr, &options, &engine, &err));
    EXPECT_STREQ("tuner plugins are NCCL's: CPUs have none", err.text);
    EXPECT_EQ(nullptr, engine.ops);
}

// A second rank that is not there: it exchanges what this one does.
TEST(EngineCpuRun, SaysWhichRankDied)
{
    Plan own;
    plan = &own;
    own.fails = true;
    stp_world_ops doubled = *stp_world_of_one.ops;
    doubled.exchange = [](void *, const void *mine, size_t size, void *all,
                          stp_error *) {
        memcpy(all, mine, size);
        memcpy(static_cast<char *>(all) + size, mine, size);
        return STP_OK;
    };
    doubled.alive = [](void *, stp_error *err) {
        stp_fail(err, STP_ERR_DEVICE, "rank 1 died");
        return false;
    };
    stp_world world = stp_world_of_one;
    world.ops = &doubled;
    world.size = 2;
    stp_engine_options options{};
    options.world = &world;
    stp_engine engine{};
    stp_error err{};
    ASSERT_EQ(STP_OK, stp_engine_cpu_open(&kPlan, &options, &engine, &err));
    float x = 1;
    stp_transfer t{};
    t.coll = ncclFuncAllReduce;
    t.type = STP_TYPE_F32;
    t.in = t.out = &x;
    t.n = 100001;

    EXPECT_EQ(STP_ERR_RANGE, engine.ops->collective(engine.self, 0, &t, &err));
    EXPECT_STREQ("100001 elements, but gloo counts no more than 100000",
                 err.text);
    t.n = 1;
    EXPECT_EQ(STP_OK, engine.ops->collective(engine.self, 0, &t, &err));
    EXPECT_EQ(STP_ERR_DEVICE, engine.ops->synchronise(engine.self, &err));
    EXPECT_STREQ("rank 1 died", err.text); // whatever was noticed first
    EXPECT_EQ("the cable is unplugged", own.aborted);
    EXPECT_EQ(STP_ERR_DEVICE, engine.ops->synchronise(engine.self, &err));
    EXPECT_THAT(err.text, HasSubstr("no longer connected"));

    engine.ops->close(engine.self);
}

} // namespace
