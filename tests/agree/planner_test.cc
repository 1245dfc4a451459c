// Whether hosts plan as they should, and ranks of all hosts take the same plans
// whatever fails, in very many random orders.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "agree/planner.h"
}

#include "agree/planners.h"

namespace
{

// A host that leads, of one rank, and a store that answers as it is told.
class Leader
{
  public:
    explicit Leader(size_t n_ranks)
        : memory_(stp_plan_board_bytes(1) / sizeof(uint64_t))
    {
        host_.board = reinterpret_cast<stp_plan_board *>(memory_.data());
        host_.n_own = 1;
        host_.n_ranks = n_ranks;
        host_.leads = true;
        host_.acknowledges = true;
        host_.timeout_ms = 100;
        host_.margin_calls = 40;
        strcpy(host_.name, "host0");
        stp_planner_begin(&planner_, &host_);
    }

    bool Propose(size_t n, unsigned epoch_calls)
    {
        const std::vector<uint32_t> words(n, 7);

        return stp_planner_propose(&planner_, words.data(), n, epoch_calls);
    }

    // What it asks, and of which key.
    std::string Ask()
    {
        static const char *const kAsks[] = {"nap",         "connect", "set",
                                            "add",         "get",     "check",
                                            "compare_set", "delete",  "end"};
        stp_plan_request request;

        stp_planner_ask(&planner_, 0, &request);
        return kAsks[request.ask] +
               (request.key != nullptr ? std::string(" ") + request.key : "");
    }

    void Take(bool is_ok, uint64_t number = 0, const std::string &value = "")
    {
        stp_plan_reply reply{};

        reply.is_ok = is_ok;
        reply.number = number;
        reply.value = value.data();
        reply.size = value.size();
        stp_planner_take(&planner_, &reply);
    }

    const stp_planner &planner() const
    {
        return planner_;
    }

    void Hush()
    {
        stp_planner_hush(&planner_);
    }

  private:
    std::vector<uint64_t> memory_;
    stp_planner_host host_{};
    stp_planner planner_{};
};

TEST(Planners, TakeNoReplyOnceTheyAreHushed)
{
    Leader leader(1);

    leader.Propose(1, 1);
    EXPECT_EQ("set plan", leader.Ask());
    leader.Hush();
    leader.Take(true);

    EXPECT_EQ("end", leader.Ask());
    EXPECT_STREQ("", leader.planner().why);
}

TEST(Planners, AreSilentOfAFailureOnceTheyAreHushed)
{
    Leader leader(1);

    leader.Propose(1, 1);
    EXPECT_EQ("set plan", leader.Ask());
    leader.Take(false);
    EXPECT_STRNE("", leader.planner().why);
    leader.Hush();

    EXPECT_STREQ("", leader.planner().why);
}

TEST(Planners, BeginAPlanAfterTheLastOneEnds)
{
    Leader leader(1);

    leader.Propose(5, 1);
    EXPECT_EQ("set plan", leader.Ask());
    EXPECT_EQ(81U, leader.planner().plan.first);
    leader.Take(true);
    EXPECT_EQ("add acks", leader.Ask());
    leader.Take(true, 1);
    EXPECT_EQ("compare_set verdict", leader.Ask());
    leader.Take(true, 0, "commit");
    EXPECT_EQ("set known", leader.Ask());
    leader.Take(true);
    leader.Propose(1, 40);

    EXPECT_EQ("set plan", leader.Ask());
    EXPECT_EQ(1U, leader.planner().plan.margin);
    EXPECT_EQ(86U, leader.planner().plan.first);
}

TEST(Planners, BeginAPlanTwiceAsFarAheadAfterOneThatWasDropped)
{
    Leader leader(2);

    for (uint64_t first : {81, 161}) {
        leader.Propose(1, 1);
        EXPECT_EQ("set plan", leader.Ask());
        EXPECT_EQ(first, leader.planner().plan.first);
        leader.Take(true);
        EXPECT_EQ("add acks", leader.Ask());
        leader.Take(true, 1);
        EXPECT_EQ("get acked", leader.Ask());
        leader.Take(false);
        EXPECT_EQ("connect", leader.Ask());
        leader.Take(true);
        EXPECT_EQ("check plan", leader.Ask());
        leader.Take(true, 1);
        EXPECT_EQ("compare_set verdict", leader.Ask());
        leader.Take(true, 0, leader.planner().verdict);
        EXPECT_EQ("set known", leader.Ask());
        leader.Take(true);
    }
}

TEST(Planners, RefuseAPlanThatTheirRanksMayHavePassed)
{
    const struct {
        uint64_t first; // the rank is in epoch 3, and one is the margin
        bool is_refused;
    } cases[] = {{4, true}, {5, false}};

    for (const auto &c : cases) {
        std::vector<uint64_t> memory(stp_plan_board_bytes(1) /
                                     sizeof(uint64_t));
        stp_planner_host host{};
        stp_planner planner{};
        stp_plan_request request{};
        stp_plan_reply reply{};
        stp_plan_step step{};
        stp_plan plan{};

        host.board = reinterpret_cast<stp_plan_board *>(memory.data());
        host.n_own = 1;
        host.n_ranks = 2;
        host.acknowledges = true;
        strcpy(host.name, "host1");
        while (step.epoch < 3) {
            stp_plan_begin_epoch(&step);
            while (stp_plan_access(&step, host.board) == STP_PLAN_MORE)
                ;
        }
        plan.number = plan.margin = plan.n = 1;
        plan.first = c.first;
        reply.is_ok = true;
        reply.value = reinterpret_cast<char *>(&plan);
        reply.size = sizeof(plan);

        stp_planner_begin(&planner, &host);
        stp_planner_ask(&planner, 0, &request);
        EXPECT_STREQ("plan", request.key);
        stp_planner_take(&planner, &reply);
        stp_planner_ask(&planner, 0, &request);

        const std::string value(static_cast<const char *>(request.value),
                                request.size);
        EXPECT_STREQ(c.is_refused ? "verdict" : "acks", request.key);
        EXPECT_EQ(c.is_refused ? "abort: host1 got the plan too late" : "",
                  value);
    }
}

TEST(Planners, AgreeInAHundredThousandRandomOrders)
{
    planners::Outcome sum{};

    for (uint64_t seed = 0; seed < 100000; seed++) {
        sum.Add(planners::RunRandom(seed));
        ASSERT_EQ("", sum.fault) << "seed " << seed;
    }

    // They are worth running.
    EXPECT_GT(sum.n_committed, 50000U);
    EXPECT_GT(sum.n_published - sum.n_committed, 50000U);
    EXPECT_GT(sum.n_failed, 1000U);
    EXPECT_LT(sum.n_late, 500U);
}

} // namespace
