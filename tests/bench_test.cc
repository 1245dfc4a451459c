// The measuring loop against a device whose times are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bench/arm.h"
#include "bench/device.h"
#include "bench/sizes.h"
#include "bench/sweep.h"
#include "nccl_tuner_abi.h"

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Names(const stp_arms &arms)
{
    std::vector<std::string> names;
    for (size_t i = 0; i < arms.n; i++) {
        char name[STP_ARM_NAME];
        stp_arm_name(&arms.arm[i], name);
        names.push_back(name);
    }
    return names;
}

TEST(Arms, HaveAutoFirstAndNoneTwice)
{
    stp_arms arms;

    ASSERT_EQ(STP_OK,
              stp_arms_parse("ring/ll128,auto, tree/simple/8 ,ring/ll128",
                             &arms, nullptr));

    EXPECT_THAT(Names(arms),
                ElementsAre("auto", "ring/ll128", "tree/simple/8"));
}

TEST(Arms, AllAreThePairsThatNcclHasKernelsFor)
{
    stp_arms arms;

    ASSERT_EQ(STP_OK, stp_arms_parse("all", &arms, nullptr));

    EXPECT_THAT(Names(arms),
                ElementsAre("auto", "tree/ll", "tree/ll128", "tree/simple",
                            "ring/ll", "ring/ll128", "ring/simple",
                            "collnet_direct/simple", "collnet_chain/simple",
                            "nvls/simple", "nvls_tree/simple", "pat/simple"));
}

TEST(Arms, MultiplyByChannelCounts)
{
    stp_arms arms;

    ASSERT_EQ(STP_OK, stp_arms_parse("ring/ll,tree/ll/4", &arms, nullptr));
    ASSERT_EQ(STP_OK, stp_arms_add_channels(&arms, "8,16", nullptr));

    EXPECT_THAT(Names(arms), ElementsAre("auto", "ring/ll", "tree/ll/4",
                                         "ring/ll/8", "ring/ll/16"));
}

struct BadArm {
    const char *list;
    const char *expected;
};

TEST(Arms, RefuseWordsThatMeanNothing)
{
    const BadArm cases[] = {
        {"ring", "arm 'ring', expected auto, all, ALGORITHM/PROTOCOL"},
        {"ring/ll,rnig/ll", "arm 'rnig/ll'"},
        {"ring/ll/0", "arm 'ring/ll/0'"},
        {"ring/ll/65", "arm 'ring/ll/65'"},
        {"ring/ll/8/8", "arm 'ring/ll/8/8'"},
        {"", "arm ''"},
    };

    for (const BadArm &c : cases) {
        stp_arms arms;
        stp_error err{};
        EXPECT_EQ(STP_ERR_SYNTAX, stp_arms_parse(c.list, &arms, &err));
        EXPECT_THAT(err.text, HasSubstr(c.expected));
    }
}

TEST(Arms, RefuseChannelCountsThatNcclCannotHave)
{
    stp_arms arms;
    stp_error err{};

    ASSERT_EQ(STP_OK, stp_arms_parse("ring/ll", &arms, nullptr));

    EXPECT_EQ(STP_ERR_SYNTAX, stp_arms_add_channels(&arms, "8,128", &err));
    EXPECT_THAT(err.text, HasSubstr("channels '128', expected 1 to 64"));
}

std::vector<uint64_t> List(const stp_sizes &s)
{
    return {s.size, s.size + s.n};
}

TEST(Sizes, AreAscendingUniqueMultiplesOfTheGrain)
{
    stp_sizes s{};

    for (uint64_t size : {100, 7, 50, 101, 3})
        ASSERT_EQ(STP_OK, stp_sizes_add(&s, size, 8, nullptr));

    EXPECT_THAT(List(s), ElementsAre(8, 48, 96));
}

TEST(Sizes, GrowByTheFactorUpToTheEnd)
{
    stp_sizes s{};

    ASSERT_EQ(STP_OK, stp_sizes_add_geometric(&s, 8, 100, 2, 8, nullptr));

    EXPECT_THAT(List(s), ElementsAre(8, 16, 32, 64));
}

TEST(Sizes, RefuseAListThatHasNoEnd)
{
    stp_sizes s{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_RANGE, stp_sizes_add_geometric(&s, 8, 4, 2, 8, &err));
    EXPECT_EQ(STP_ERR_RANGE, stp_sizes_add_geometric(&s, 8, 64, 1, 8, &err));
    EXPECT_EQ(STP_ERR_RANGE, stp_sizes_add_geometric(&s, 0, 64, 2, 8, &err));
    EXPECT_EQ(0u, s.n);
}

TEST(Sizes, HalfwayIsGeometric)
{
    EXPECT_EQ(200u, stp_size_between(100, 400));
    EXPECT_EQ(7u, stp_size_between(7, 7));
    EXPECT_EQ(uint64_t{1} << 33,
              stp_size_between(uint64_t{1} << 32, uint64_t{1} << 34));
}

// ---- a device with known times ----

struct FakeDevice {
    // microseconds of the next collective; the arguments are arm and round
    std::function<double(const stp_arm &, unsigned)> us;
    stp_arm ruled_out{STP_ARM_FORCED, -1, -1, 0};
    size_t fail_at = SIZE_MAX; // the call that fails
    uint64_t n_wrong = 0;

    stp_arm arm{};
    unsigned round = 0;
    double now = 0;
    size_t n_calls = 0;
    std::vector<double> events;
    std::vector<std::string> log; // rounds and arms, in order
};

FakeDevice *Self(void *self)
{
    return static_cast<FakeDevice *>(self);
}

const stp_device_ops kFakeOps = {
    .name = "fake",
    .info =
        [](const void *, stp_device_info *info) {
            *info = {};
            info->n_ranks = 4;
            info->n_nodes = 1;
            snprintf(info->machine, sizeof(info->machine), "fake");
            snprintf(info->gpu, sizeof(info->gpu), "Fake GPU");
            snprintf(info->nccl, sizeof(info->nccl), "2.28.9");
        },
    .rank_line = nullptr,
    .sizes = [](const void *, int, uint64_t *, size_t) -> size_t { return 0; },
    .begin_round =
        [](void *self, unsigned round, unsigned, stp_error *) {
            Self(self)->round = round;
            Self(self)->log.push_back("round " + std::to_string(round));
            return STP_OK;
        },
    .select_arm =
        [](void *self, const stp_arm *arm, stp_error *) {
            char name[STP_ARM_NAME];
            stp_arm_name(arm, name);
            Self(self)->arm = *arm;
            Self(self)->log.push_back(name);
            return STP_OK;
        },
    .probe =
        [](void *self, const stp_collective *, stp_device_run *run,
           stp_question *, stp_error *) {
            const FakeDevice *d = Self(self);
            bool as_auto = d->arm.kind == STP_ARM_AUTO ||
                           stp_arm_equal(&d->arm, &d->ruled_out);
            *run = {as_auto ? NCCL_ALGO_RING : d->arm.algo,
                    as_auto ? NCCL_PROTO_LL : d->arm.proto, 8,
                    STP_SOURCE_MEASURED, 1};
            return STP_OK;
        },
    .check =
        [](void *self, const stp_collective *, uint64_t, uint64_t *n_wrong,
           stp_error *) {
            *n_wrong = Self(self)->n_wrong;
            return STP_OK;
        },
    .collective =
        [](void *self, unsigned, const stp_collective *, stp_error *err) {
            FakeDevice *d = Self(self);
            if (d->n_calls++ == d->fail_at)
                return stp_fail(err, STP_ERR_DEVICE, 0, 0, "the GPU fell off");
            d->now += d->us(d->arm, d->round);
            return STP_OK;
        },
    .group = nullptr,
    .compute = nullptr,
    .record =
        [](void *self, unsigned, unsigned event, stp_error *) {
            FakeDevice *d = Self(self);
            if (d->events.size() <= event)
                d->events.resize(event + 1);
            d->events[event] = d->now;
            return STP_OK;
        },
    .wait = nullptr,
    .synchronise = [](void *, stp_error *) { return STP_OK; },
    .replay = nullptr,
    .elapsed_us =
        [](const void *self, unsigned from, unsigned to) {
            const auto *d = static_cast<const FakeDevice *>(self);
            return d->events[to] - d->events[from];
        },
    .close = [](void *) {},
};

class Sweep : public testing::Test
{
  protected:
    Sweep()
    {
        fake_.us = [](const stp_arm &arm, unsigned round) {
            return (arm.kind == STP_ARM_AUTO ? 12.0 : 10.0) * (1 + round);
        };
        stp_arms_parse("tree/ll,ring/simple", &arms_, nullptr);
        stp_sizes_add(&sizes_, 1024, 8, nullptr);
        stp_sizes_add(&sizes_, 4096, 8, nullptr);
        plan_.colls = &coll_;
        plan_.n_colls = 1;
        plan_.sizes = &sizes_;
        plan_.arms = &arms_;
        plan_.rounds = 2;
        plan_.warmup = 3;
        plan_.iters = 5;
        plan_.type = STP_TYPE_BF16;
        plan_.auto_places = STP_OUT_OF_PLACE;
        plan_.arm_places = STP_OUT_OF_PLACE;
    }

    ~Sweep() override
    {
        stp_dataset_free(&data_);
    }

    stp_status Run(stp_sweep_progress progress = nullptr)
    {
        const stp_device device = {&kFakeOps, &fake_};
        return stp_sweep_run(&device, &plan_, progress, nullptr, &data_, &err_);
    }

    int coll_ = ncclFuncAllReduce;
    FakeDevice fake_;
    stp_arms arms_;
    stp_sizes sizes_{};
    stp_sweep_plan plan_{};
    stp_dataset data_{};
    stp_error err_{};
};

TEST_F(Sweep, RunsEveryArmOnceARoundWithAutoFirst)
{
    ASSERT_EQ(STP_OK, Run());

    ASSERT_EQ(16u, fake_.log.size());
    EXPECT_THAT(
        std::vector<std::string>(fake_.log.begin(), fake_.log.begin() + 8),
        ElementsAre("round 0", "auto", "tree/ll", "ring/simple", "round 1",
                    "auto", "tree/ll", "ring/simple"));
}

TEST_F(Sweep, TimesTheIterationsAndNotTheWarmup)
{
    unsigned calls_of_arm = 0;
    fake_.us = [&](const stp_arm &, unsigned) {
        return calls_of_arm++ % 8 < 3 ? 1000.0 : 20.0 + calls_of_arm % 8;
    };

    ASSERT_EQ(STP_OK, Run());

    // the five timed calls have numbers 4 to 8 (mod 8): 24 25 26 27 20
    EXPECT_EQ(12u, data_.n_rows);
    EXPECT_DOUBLE_EQ(24.4, data_.rows[0].us.mean);
    EXPECT_DOUBLE_EQ(25, data_.rows[0].us.median);
    EXPECT_DOUBLE_EQ(20, data_.rows[0].us.min);
    EXPECT_EQ(5u, data_.rows[0].iters);
}

TEST_F(Sweep, KeepsWhatRanAndWhere)
{
    ASSERT_EQ(STP_OK, Run());

    const stp_measurement &m = data_.rows[4]; // round 1, tree/ll
    EXPECT_EQ(ncclFuncAllReduce, m.coll);
    EXPECT_EQ(1024u, m.n_bytes);
    EXPECT_EQ(1u, m.round);
    EXPECT_EQ(NCCL_ALGO_TREE, m.ran_algo);
    EXPECT_EQ(NCCL_PROTO_LL, m.ran_proto);
    EXPECT_EQ(8, m.ran_channels);
    EXPECT_EQ(4u, m.n_ranks);
    EXPECT_EQ(1u, m.n_nodes);
    EXPECT_DOUBLE_EQ(20, m.us.median);
    EXPECT_STREQ("fake", data_.machine);
    EXPECT_STREQ("Fake GPU", data_.gpu);
    EXPECT_STREQ("2.28.9", data_.nccl);
}

TEST_F(Sweep, LeavesOutAnArmThatNcclRulesOut)
{
    fake_.ruled_out = {STP_ARM_FORCED, NCCL_ALGO_TREE, NCCL_PROTO_LL, 0};

    ASSERT_EQ(STP_OK, Run());

    EXPECT_EQ(8u, data_.n_rows);
    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_FALSE(stp_arm_equal(&data_.rows[i].arm, &fake_.ruled_out));
}

TEST_F(Sweep, KeepsCompleteSizesWhenTheDeviceFails)
{
    fake_.fail_at = 2 * 3 * 8 + 13; // in the second size's second arm

    EXPECT_EQ(STP_ERR_DEVICE, Run());

    EXPECT_STREQ("the GPU fell off", err_.text);
    EXPECT_EQ(6u, data_.n_rows);
    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_EQ(1024u, data_.rows[i].n_bytes);
}

TEST_F(Sweep, StopsWhenItIsToldTo)
{
    EXPECT_EQ(STP_ERR_STOPPED,
              Run([](void *, size_t done, size_t) { return done < 1; }));

    EXPECT_STREQ("stopped after 1 of 2 sizes", err_.text);
    EXPECT_EQ(6u, data_.n_rows);
}

} // namespace
