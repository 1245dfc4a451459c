// NCCL's questions and choices, as a device reports them.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <string>

extern "C" {
#include "bench/choices.h"
}

#include "support/fake_engine.h"
#include "support/owned.h"

namespace
{

// Answers with the size as every cost.
class Fake : public FakeEngine
{
  public:
    std::function<void(stp_device_run *, stp_question *)> change =
        [](stp_device_run *, stp_question *) {};
    std::vector<stp_collective> probed;
    stp_arm arm{STP_ARM_FORCED, 0, 0, 0, 0, {}};

  private:
    void Info(stp_device_info *info) const override
    {
        info->has_data = false;
        snprintf(info->backend, sizeof(info->backend), "nccl");
        snprintf(info->nccl, sizeof(info->nccl), "2.26.2");
    }
    void SelectArm(const stp_arm &selected) override
    {
        arm = selected;
    }
    void Probe(const stp_collective &collective, stp_device_run *run,
               stp_question *question) override
    {
        *run = {};
        run->algo = NCCL_ALGO_RING;
        run->proto = NCCL_PROTO_LL;
        run->n_channels = 8;
        *question = {};
        question->n_bytes = collective.n_bytes;
        question->n_pipe_ops = 1;
        for (auto &of_algo : question->cost)
            for (float &cost : of_algo)
                cost = static_cast<float>(collective.n_bytes);
        probed.push_back(collective);
        change(run, question);
    }
};

std::function<void(stp_device_run *, stp_question *)>
OfNoChannels(uint64_t n_bytes)
{
    return [=](stp_device_run *r, stp_question *q) {
        if (q->n_bytes == n_bytes)
            r->n_channels = 0;
    };
}

class Choices : public testing::Test
{
  protected:
    Choices()
    {
        parts_[0].coll = ncclFuncAllReduce;
        parts_[0].type = STP_TYPE_BF16;
        parts_[1].coll = ncclFuncBroadcast;
        parts_[1].type = STP_TYPE_I8;
        for (uint64_t size : {64, 1024})
            stp_sizes_add(&parts_[0].sizes, size, 1, nullptr);
        stp_sizes_add(&parts_[1].sizes, 256, 1, nullptr);
    }
    stp_status Make(stp_sweep_progress progress = nullptr)
    {
        return stp_choices_record(fake_.Open(), parts_, 2, progress, nullptr,
                                  &choices_, &err_);
    }

    Fake fake_;
    stp_choices_part parts_[2] = {};
    Owned<stp_choices, stp_choices_free> choices_;
    Owned<stp_choices, stp_choices_free> again_;
    stp_error err_{};
};

TEST_F(Choices, AreThoseOfNcclItselfForEveryPart)
{
    ASSERT_EQ(STP_OK, Make());

    ASSERT_EQ(3u, choices_.n_rows);
    EXPECT_EQ(STP_ARM_AUTO, fake_.arm.kind);
    const stp_nccl_choice &last = choices_.rows[2];
    EXPECT_EQ(ncclFuncBroadcast, last.what.coll);
    EXPECT_EQ(STP_TYPE_I8, last.what.type);
    EXPECT_EQ(256u, last.question.n_bytes);
    EXPECT_EQ(256.f, last.question.cost[0][0]);
    EXPECT_EQ(NCCL_ALGO_RING, last.algo);
    EXPECT_EQ(NCCL_PROTO_LL, last.proto);
    EXPECT_EQ(8, last.n_channels);
}

TEST_F(Choices, NeedADeviceThatTells)
{
    const struct {
        const char *what; // the device does not tell
        std::function<void(stp_device_run *, stp_question *)> change;
    } cases[] = {
        {"asks its tuner", [](auto *, stp_question *q) { q->n_bytes = 0; }},
        {"runs", [](stp_device_run *r, auto *) { r->algo = -1; }},
        {"runs", [](stp_device_run *r, auto *) { r->proto = -1; }},
        {"runs", [](stp_device_run *r, auto *) { r->n_channels = 0; }},
    };

    for (const auto &c : cases) {
        fake_.change = c.change;
        EXPECT_EQ(STP_ERR_DEVICE, Make());
        EXPECT_EQ(std::string("nccl 2.26.2 does not tell what it ") + c.what +
                      ": that takes NCCL 2.27 or later, through its tuner and "
                      "profiler interfaces",
                  err_.text);
        EXPECT_EQ(0u, choices_.n_rows);
    }
}

TEST_F(Choices, LackThoseThatTheDeviceTellsNothingOf)
{
    fake_.change = OfNoChannels(256); // the broadcast

    ASSERT_EQ(STP_OK, Make());

    EXPECT_EQ(2u, choices_.n_rows);
    EXPECT_EQ(1u, choices_.n_unreported[ncclFuncBroadcast]);
    EXPECT_EQ(0u, choices_.n_unreported[ncclFuncAllReduce]);
}

TEST_F(Choices, StopWhenTheyAreToldTo)
{
    EXPECT_EQ(STP_ERR_STOPPED,
              Make([](void *, size_t done, size_t) { return done < 2; }));

    EXPECT_STREQ("stopped after 2 of 3 choices", err_.text);
    EXPECT_EQ(2u, choices_.n_rows);
}

TEST_F(Choices, AreMadeAgainOneForOneByADeviceThatTellsOfAll)
{
    ASSERT_EQ(STP_OK, Make());

    ASSERT_EQ(STP_OK,
              stp_choices_repeat(fake_.Open(), &choices_, &again_, &err_));

    ASSERT_EQ(3u, again_.n_rows);
    for (size_t i = 0; i < 3; i++)
        EXPECT_TRUE(stp_choice_equal(&choices_.rows[i], &again_.rows[i]));

    fake_.change = OfNoChannels(1024);
    stp_choices_free(&again_);
    EXPECT_EQ(STP_ERR_DEVICE,
              stp_choices_repeat(fake_.Open(), &choices_, &again_, &err_));
    EXPECT_STREQ("nccl 2.26.2 does not tell what it runs for allreduce of 1024 "
                 "bytes, which it has to repeat",
                 err_.text);
}

TEST_F(Choices, DifferInTheLastBitOfACost)
{
    ASSERT_EQ(STP_OK, Make());
    const stp_nccl_choice a = choices_.rows[0];
    const std::vector<std::function<void(stp_nccl_choice *)>> changes = {
        [](stp_nccl_choice *c) {
            float &cost = c->question.cost[6][2];
            cost = std::nextafter(cost, 1e9f);
        },
        [](stp_nccl_choice *c) { c->question.cost[0][0] = -1; },
        [](stp_nccl_choice *c) { c->question.n_pipe_ops++; },
        [](stp_nccl_choice *c) { c->algo++; },
        [](stp_nccl_choice *c) { c->proto++; },
        [](stp_nccl_choice *c) { c->n_channels++; },
    };

    for (const auto &change : changes) {
        stp_nccl_choice b = a;
        change(&b);
        EXPECT_FALSE(stp_choice_equal(&a, &b));
    }
    stp_nccl_choice b = a, c = a;
    b.question.cost[0][0] = -1;
    c.question.cost[0][0] = -2; // ruled out is ruled out
    EXPECT_TRUE(stp_choice_equal(&b, &c));
}

} // namespace
