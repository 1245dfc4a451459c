// All ranks as one loop over engines: whose times count, and where data lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "device/ranks.h"
}

#include "nccl_tuner_abi.h"

namespace
{

using testing::ElementsAre;

// Of three processes: this one, and two with times of their own.
constexpr double kTimes[3][4] = {
    {10, 15, 40, 3}, {100, 112, 118, 5}, {7, 9, 30, 4}};

stp_status Exchange(void *, const void *mine, size_t size, void *all,
                    stp_error *)
{
    for (int i = 0; i < 3; i++)
        memcpy(static_cast<char *>(all) + i * size,
               size == sizeof(kTimes[0]) ? static_cast<const void *>(kTimes[i])
                                         : mine,
               size);
    return STP_OK;
}

// An engine that says what it was asked for.
struct Engine {
    std::vector<std::string> log;
    std::vector<char> room = std::vector<char>(1024);
    bool rotates = false;
    bool closed = false;

    stp_status Say(const std::string &what)
    {
        log.push_back(what);
        return STP_OK;
    }
};

Engine *Self(void *self)
{
    return static_cast<Engine *>(self);
}

stp_engine_ops Ops()
{
    stp_engine_ops ops{};

    ops.info = [](const void *self, stp_engine_info *info) {
        *info = {};
        info->n_ranks = 3;
        info->has_data = true;
        info->is_late = true;
        info->rotates = static_cast<const Engine *>(self)->rotates;
    };
    ops.describe = [](const void *, stp_device_info *info) {
        *info = {};
        info->n_ranks = 3;
        info->has_data = true;
    };
    ops.room = [](void *self, stp_room room, unsigned, int, uint64_t, void **at,
                  stp_error *) {
        *at = Self(self)->room.data() + (room == STP_ROOM_RECV ? 512 : 0);
        return STP_OK;
    };
    ops.check = [](void *, const stp_work *, stp_error *) { return STP_OK; };
    ops.collective = [](void *self, unsigned, const stp_transfer *t,
                        stp_error *) {
        Engine *e = Self(self);
        return e->Say(
            "collective " + std::to_string(t->n) + " at " +
            std::to_string(static_cast<const char *>(t->in) - e->room.data()));
    };
    ops.record = [](void *self, unsigned, unsigned event, stp_error *) {
        return Self(self)->Say("record " + std::to_string(event));
    };
    ops.wait = [](void *self, unsigned, unsigned event, stp_error *) {
        return Self(self)->Say("wait " + std::to_string(event));
    };
    ops.synchronise = [](void *self, stp_error *) {
        return Self(self)->Say("run");
    };
    ops.event_us = [](const void *, unsigned, unsigned, double *us,
                      stp_error *) {
        *us = 0;
        return STP_OK;
    };
    ops.now_us = [](const void *) { return 0.; };
    ops.close = [](void *self) { Self(self)->closed = true; };
    return ops;
}

class Ranks : public testing::Test
{
  protected:
    void Open()
    {
        stp_ranks_options options{};
        const stp_engine engine{&ops_, &engine_};

        world_ops_.exchange = Exchange;
        world_.ops = &world_ops_;
        world_.size = 3;
        options.world = &world_;
        options.n_per_thread = 1;
        options.max_bytes = 512;
        ASSERT_EQ(STP_OK, stp_ranks_open(&options, &engine, &device_, &err_))
            << err_.text;
    }

    void TearDown() override
    {
        device_.ops->close(device_.self);
        EXPECT_TRUE(engine_.closed);
    }

    void Note(uint64_t n_bytes)
    {
        stp_collective what{};
        what.coll = ncclFuncAllReduce;
        what.type = STP_TYPE_F32;
        what.n_bytes = n_bytes;
        EXPECT_EQ(STP_OK,
                  device_.ops->collective(device_.self, 0, &what, &err_));
    }

    Engine engine_;
    stp_engine_ops ops_ = Ops();
    stp_world_ops world_ops_{};
    stp_world world_{};
    stp_device device_{};
    stp_error err_{};
};

TEST_F(Ranks, TakeTheTimesOfTheSlowest)
{
    Open();
    for (unsigned event = 0; event < 3; event++)
        ASSERT_EQ(STP_OK, device_.ops->record(device_.self, 0, event, &err_));
    ASSERT_EQ(STP_OK, device_.ops->synchronise(device_.self, &err_));

    EXPECT_EQ(12, device_.ops->elapsed_us(device_.self, 0, 1));
    EXPECT_EQ(25, device_.ops->elapsed_us(device_.self, 1, 2));
    EXPECT_EQ(30, device_.ops->elapsed_us(device_.self, 0, 2));
    EXPECT_EQ(5, device_.ops->wall_us(device_.self));
}

TEST_F(Ranks, RunWhatWasNotedInItsOrderAndAgain)
{
    Open();
    ASSERT_EQ(STP_OK, device_.ops->record(device_.self, 0, 0, &err_));
    Note(40);
    ASSERT_EQ(STP_OK, device_.ops->wait(device_.self, 1, 0, &err_));
    EXPECT_TRUE(engine_.log.empty());

    ASSERT_EQ(STP_OK, device_.ops->synchronise(device_.self, &err_));
    EXPECT_THAT(engine_.log,
                ElementsAre("record 0", "collective 10 at 0", "wait 0", "run"));
    ASSERT_EQ(STP_OK, device_.ops->replay(device_.self, &err_));
    EXPECT_EQ(8u, engine_.log.size());
    ASSERT_EQ(STP_OK, device_.ops->synchronise(device_.self, &err_));
    EXPECT_EQ("run", engine_.log[8]);
    EXPECT_EQ(9u, engine_.log.size());
}

// As far as there is room, each aligned.
TEST_F(Ranks, GiveCollectivesDataThatNoneBeforeThemHad)
{
    engine_.rotates = true;
    Open();
    for (int i = 0; i < 4; i++)
        Note(132);
    ASSERT_EQ(STP_OK, device_.ops->synchronise(device_.self, &err_));

    EXPECT_THAT(engine_.log,
                ElementsAre("collective 33 at 0", "collective 33 at 256",
                            "collective 33 at 0", "collective 33 at 256",
                            "run"));
}

TEST_F(Ranks, RefuseWhatNoGroupCanHold)
{
    Open();
    EXPECT_EQ(STP_ERR_RANGE, device_.ops->group(device_.self, false, &err_));
    EXPECT_STREQ("the end of a group that was not begun", err_.text);
    EXPECT_EQ(STP_OK, device_.ops->group(device_.self, true, &err_));
    EXPECT_EQ(STP_ERR_RANGE, device_.ops->group(device_.self, true, &err_));
    EXPECT_STREQ("a group within a group", err_.text);
    EXPECT_EQ(STP_ERR_RANGE, device_.ops->record(device_.self, 0, 0, &err_));
    EXPECT_STREQ("only collectives can be in a group", err_.text);
}

} // namespace
