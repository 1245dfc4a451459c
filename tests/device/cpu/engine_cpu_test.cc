// CPUs as an engine: refusals, and the rank that died.
#include <gmock/gmock.h>

extern "C" {
#include "device/cpu/engine_cpu.h"
}

#include "device/cpu/planned_transport.h"
#include "nccl_tuner_abi.h"
#include "device/engine_work.h"

namespace
{

using testing::HasSubstr;

/* ---- refusals ---- */

TEST(EngineCpu, RefusesProductsThatBlasLacks)
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
    stp_device_options options{};
    stp_engines engines{};
    stp_error err{};
    options.world = &stp_world_of_one;
    ASSERT_EQ(STP_OK, stp_cpu_open(nullptr, &options, &engines, &err));
    const stp_engine &e = engines.all[0];

    for (const auto &c : cases) {
        stp_product p{};
        p.gemm = {c.m, 1, 1, c.type};
        p.type_c = c.type_c;
        EXPECT_EQ(STP_ERR_RANGE, NoteIn(e, 0, p, &err));
        EXPECT_STREQ(c.text, err.text);
    }
    EXPECT_EQ(STP_OK, e.ops->synchronise(e.self, &err));
    e.ops->close(e.self);
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
    stp_device_options options{};
    options.world = &world;
    stp_engines engines{};
    const stp_engine &engine = engines.all[0];
    stp_error err{};
    ASSERT_EQ(STP_OK, stp_cpu_open(&kPlan, &options, &engines, &err));
    float x = 1;
    stp_transfer t{};
    t.coll = ncclFuncAllReduce;
    t.type = STP_TYPE_F32;
    t.in = t.out = &x;
    t.n = 1;
    EXPECT_EQ(STP_OK, NoteIn(engine, 0, t, &err));
    EXPECT_EQ(STP_ERR_DEVICE, engine.ops->synchronise(engine.self, &err));
    EXPECT_STREQ("rank 1 died", err.text); // whatever was noticed first
    EXPECT_EQ("the cable is unplugged", own.aborted);
    EXPECT_EQ(STP_ERR_DEVICE, engine.ops->synchronise(engine.self, &err));
    EXPECT_THAT(err.text, HasSubstr("no longer connected"));

    engine.ops->close(engine.self);
}

} // namespace
