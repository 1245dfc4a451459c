// All ranks as one loop over engines: whose times count, and where data lie.
#include <cstring>

#include "device/device_fixture.h"
#include "support/fake_engine.h"

namespace
{

using testing::ElementsAre;

// Times of three processes: this one, and two with their own.
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

// An engine that logs its work.
class Engine : public FakeEngine
{
  public:
    std::vector<std::string> log;
    bool rotates = false;

  private:
    void Info(stp_device_info *info) const override
    {
        info->n_ranks = 3;
        info->rotates = rotates;
    }
    stp_status Collective(unsigned, const stp_transfer &t, stp_error *) override
    {
        log.push_back("collective " + std::to_string(t.n) + " at " +
                      std::to_string(Place(t.in)));
        return STP_OK;
    }
    void Record(unsigned, unsigned event) override
    {
        log.push_back("record " + std::to_string(event));
    }
    void Wait(unsigned, unsigned event) override
    {
        log.push_back("wait " + std::to_string(event));
    }
    stp_status Synchronise(stp_error *) override
    {
        log.push_back("run");
        return STP_OK;
    }
};

class Ranks : public DeviceFixture
{
  protected:
    void Open()
    {
        world_ops_.exchange = Exchange;
        world_.ops = &world_ops_;
        world_.size = 3;
        device_ = engine_.Make(&world_, 512);
    }

    ~Ranks() override
    {
        stp_device_close(&device_);
        EXPECT_TRUE(engine_.is_closed);
    }

    Engine engine_;
    stp_world_ops world_ops_{};
    stp_world world_{};
};

TEST_F(Ranks, TakeTheTimesOfTheSlowest)
{
    Open();
    for (unsigned event = 0; event < 3; event++)
        Record(0, event);
    Synchronise();

    EXPECT_EQ(12, Elapsed(0, 1));
    EXPECT_EQ(25, Elapsed(1, 2));
    EXPECT_EQ(30, Elapsed(0, 2));
    EXPECT_EQ(5, stp_device_wall_us(&device_));
}

TEST_F(Ranks, RunWhatWasNotedInItsOrderAndAgain)
{
    Open();
    Record(0, 0);
    Note(0, Make(ncclFuncAllReduce, 40));
    Wait(1, 0);
    EXPECT_TRUE(engine_.log.empty());

    Synchronise();
    EXPECT_THAT(engine_.log,
                ElementsAre("record 0", "collective 10 at 0", "wait 0", "run"));
    Replay();
    EXPECT_EQ(8u, engine_.log.size());
    Synchronise();
    EXPECT_EQ("run", engine_.log[8]);
    EXPECT_EQ(9u, engine_.log.size());
}

// As far as there is room, each aligned.
TEST_F(Ranks, GiveCollectivesDataThatNoneBeforeThemHad)
{
    engine_.rotates = true;
    Open();
    for (int i = 0; i < 4; i++)
        Note(0, Make(ncclFuncAllReduce, 132));
    Synchronise();

    EXPECT_THAT(engine_.log,
                ElementsAre("collective 33 at 0", "collective 33 at 256",
                            "collective 33 at 0", "collective 33 at 256",
                            "run"));
}

TEST_F(Ranks, RefuseWhatNoGroupCanHold)
{
    Open();
    EXPECT_EQ(STP_ERR_RANGE, TryWork(Work(STP_WORK_GROUP_END)));
    EXPECT_STREQ("the end of a group that was not begun", err_.text);
    Group(true);
    EXPECT_EQ(STP_ERR_RANGE, TryWork(Work(STP_WORK_GROUP_BEGIN)));
    EXPECT_STREQ("a group within a group", err_.text);
    EXPECT_EQ(STP_ERR_RANGE, TryWork(Work(STP_WORK_RECORD, 0, 0)));
    EXPECT_STREQ("only collectives can be in a group", err_.text);
    const stp_collective what = Make(ncclFuncAllReduce, 16);
    Note(0, what);
    EXPECT_EQ(STP_ERR_RANGE, TryNote(1, what));
    EXPECT_STREQ("a group in two streams, expected one", err_.text);
}

} // namespace
