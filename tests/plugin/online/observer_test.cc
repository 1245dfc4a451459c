// The observer hears of calls on the launch path, and its learner proposes.
#include <gmock/gmock.h>

#include <set>
#include <string>

extern "C" {
#include "core/names.h"
#include "plugin/online/observer.h"
}

#include "core/learn/bandit_job.h"
#include "plugin/online/asked_agreement.h"

namespace
{

struct Free {
    void operator()(stp_observer *observer) const
    {
        stp_observer_free(observer);
    }
};

class Observer : public testing::Test
{
  protected:
    void AskTimed(int n, bool is_timed = true)
    {
        const uint64_t n_bytes = 1 << 20;

        stp_observed_call call{};
        stp_query query{};

        call.policy_arm.algo = -1;
        call.is_timed = is_timed;
        query.coll = ncclFuncAllReduce;
        query.n_bytes = n_bytes;
        for (int i = 0; i < n; i++)
            stp_observer_call(observer_.get(), &call, &query, &view_);
    }

    unsigned Lead() const
    {
        return stp_observer_lead(observer_.get());
    }

    const bandit_job::Costs costs_;
    const stp_cost_view view_ = costs_.View();
    const stp_learner_rules rules_{};
    std::unique_ptr<stp_observer, Free> observer_{
        stp_observer_new(&rules_, nullptr, nullptr)};
};

TEST_F(Observer, TurnsTheProfilerOnEarlierAfterEightTimedCallsWithoutALaunch)
{
    AskTimed(8);
    EXPECT_EQ(1u, Lead());
    AskTimed(1);
    EXPECT_EQ(2u, Lead());

    AskTimed(8);
    EXPECT_EQ(2u, Lead());
    AskTimed(1);
    EXPECT_EQ(4u, Lead());
}

// Samples are of all calls: 12 in a row are a group, and no later one is
// larger.
TEST_F(Observer, TurnsTheProfilerOnAsManyCallsEarlierAsTheLargestGroupHas)
{
    const stp_launch launch = {ncclFuncAllReduce, 1 << 20};
    uint32_t token;

    for (int n : {3, 12, 9, 12}) {
        AskTimed(n, false);
        for (int i = 0; i < n; i++)
            EXPECT_TRUE(
                stp_observer_launched(observer_.get(), &launch, &token));
        EXPECT_EQ(n == 3 ? 3u : 12u, Lead()) << n;
    }
}

// A table of a newer NCCL may have more than this one knows.
TEST_F(Observer, PrefersNoArmOfThePolicyThatIsBeyondItsTable)
{
    stp_observed_call call{};
    stp_query query{};
    call.is_new = true;
    query.coll = ncclFuncAllReduce;
    query.n_bytes = 1 << 20;

    for (const stp_bandit_arm &arm :
         {stp_bandit_arm{NCCL_NUM_ALGORITHMS, 0, 0},
          stp_bandit_arm{NCCL_NUM_ALGORITHMS - 1, NCCL_NUM_PROTOCOLS, 0},
          stp_bandit_arm{INT8_MAX, INT8_MAX, 0}}) {
        call.policy_arm = arm;
        stp_observer_call(observer_.get(), &call, &query, &view_);
        call.key++; // the next one's costs would lie there
    }
}

// ---- proposals ----

// "settled 0 allgather 1048576 ring/simple"
struct Event {
    stp_learn_event event;
    stp_learned learned;

    std::string Text() const
    {
        std::string text = stp_learn_kind_name(event.kind);

        text += " " + std::to_string(event.key);
        if (learned.coll < 0)
            return text;
        text += std::string(" ") + stp_coll_name(learned.coll) + " " +
                std::to_string(learned.bytes.min);
        if (learned.arm.algo < 0)
            return text + " auto";
        return text + " " + stp_algo_name(learned.arm.algo) + "/" +
               stp_proto_name(learned.arm.proto) + "/" +
               std::to_string(learned.arm.n_channels);
    }
};

class Thinking : public testing::Test
{
  protected:
    Thinking()
    {
        Open(STP_STRATEGY_EPSILON, STP_LEARN_FILE);
    }

    void Open(stp_strategy strategy, stp_learn_objective objective)
    {
        stp_error err;

        rules_.bandit = stp_bandit_rules_default(strategy);
        rules_.bandit.n_arms = 0;
        rules_.bandit.prune = 2.5;
        rules_.bandit.epsilon = epsilon_;
        rules_.objective = objective;
        agreement_ = asked::Agreement();
        texts_.clear();
        observer_.reset(stp_observer_new(&rules_, &agreement_.base, nullptr));
        ASSERT_EQ(STP_OK,
                  stp_observer_begin(observer_.get(), Keep, this, &err));
    }

    static void Keep(void *self, const stp_learn_event *event)
    {
        Thinking *test = static_cast<Thinking *>(self);
        Event kept{*event, {}};
        char value[32];

        stp_observer_explain(test->observer_.get(), event, &kept.learned);
        snprintf(value, sizeof(value), ": %g", event->value);
        test->texts_.push_back(kept.Text() + value);
    }

    std::vector<std::string> Think()
    {
        texts_.clear();
        stp_observer_run_pass(observer_.get());
        return texts_;
    }

    // A key's call, of all-reduces.
    void Call(unsigned key, uint64_t n_bytes, bool is_new = true)
    {
        CallFrom(key, n_bytes, is_new, costs_.View(), {-1, 0, 0});
    }

    void CallFrom(unsigned key, uint64_t n_bytes, bool is_new,
                  const stp_cost_view &view, const stp_bandit_arm &policy)
    {
        stp_observed_call call{};
        stp_query query{};

        call.key = key;
        call.is_new = is_new;
        call.policy_arm = policy;
        query.coll = key % 2 == 0 ? ncclFuncAllReduce : ncclFuncAllGather;
        query.n_bytes = n_bytes;
        stp_observer_call(observer_.get(), &call, &query, &view);
    }

    // Puts the last proposal in force.
    void Take()
    {
        stp_observer_began(observer_.get(), &agreement_.made.back(), 0, 0, 0);
    }

    const bandit_job::Costs costs_;
    double epsilon_ = 1; // something else is tried each time
    stp_learner_rules rules_{};
    asked::Agreement agreement_;
    std::unique_ptr<stp_observer, Free> observer_;
    std::vector<std::string> texts_;
};

TEST_F(Thinking, WantsTimesFromTheFirstCallOnUnlessAFileHasThem)
{
    const std::pair<stp_learn_objective, bool> cases[] = {
        {STP_LEARN_GPU, true}, {STP_LEARN_FILE, false}};

    for (auto [objective, wants] : cases) {
        Open(objective == STP_LEARN_GPU ? STP_STRATEGY_HALVING
                                        : STP_STRATEGY_EPSILON,
             objective);
        EXPECT_EQ(wants, stp_observer_is_sampling(observer_.get()));
        Think();
        EXPECT_EQ(wants, stp_observer_is_sampling(observer_.get()));
        stp_observer_stop(observer_.get(), "one");
        EXPECT_FALSE(stp_observer_is_sampling(observer_.get()));
        Think();
        EXPECT_FALSE(stp_observer_is_sampling(observer_.get()));
    }
}

// ---- what is tried ----

// A table of a newer NCCL, with what this one does not know the cheapest.
struct NewerTable {
    float table[NCCL_NUM_ALGORITHMS + 1][NCCL_NUM_PROTOCOLS + 1];
    NewerTable()
    {
        const bandit_job::Costs costs;
        for (auto &row : table)
            for (float &cost : row)
                cost = 1;
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                table[a][p] = costs.table[a][p];
    }
};

// The rest costs more than 2.5 times as much as what runs anyway, or is ruled
// out.
TEST_F(Thinking, TriesWhatNeitherThePolicyNorNcclRunsAnyway)
{
    const NewerTable newer;
    const stp_cost_view all = costs_.View();
    const stp_cost_view beyond{&newer.table[0][0], NCCL_NUM_ALGORITHMS + 1,
                               NCCL_NUM_PROTOCOLS + 1};
    const stp_cost_view tree{all.cost, 1, NCCL_NUM_PROTOCOLS};
    const stp_cost_view pairs{all.cost, 3, 2};
    bandit_job::Costs first, nothing;
    first.table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 9;
    nothing.table[NCCL_ALGO_RING][NCCL_PROTO_LL] = 0;
    const struct {
        const char *name;
        stp_cost_view view;
        stp_bandit_arm policy;
        std::set<std::string> tried;
    } cases[] = {
        {"no policy",
         all,
         {-1, 0, 0},
         {"tree/ll128", "ring/ll", "ring/simple"}},
        {"tree",
         all,
         {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
         {"tree/ll128", "ring/ll", "ring/ll128", "ring/simple"}},
        {"ring",
         all,
         {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0},
         {"tree/ll128", "ring/ll", "ring/ll128"}},
        {"NCCL's own",
         all,
         {NCCL_ALGO_RING, NCCL_PROTO_LL128, 0},
         {"tree/ll128", "ring/ll", "ring/simple"}},
        {"the first of all",
         first.View(),
         {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0},
         {"tree/ll", "tree/ll128", "ring/ll", "ring/ll128"}},
        {"takes no time",
         nothing.View(),
         {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0},
         {"tree/simple", "ring/ll", "ring/ll128", "ring/simple"}},
        {"newer NCCL",
         beyond,
         {-1, 0, 0},
         {"tree/ll128", "ring/ll", "ring/simple"}},
        {"newer NCCL and tree",
         beyond,
         {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0},
         {"ring/ll", "ring/ll128", "ring/simple"}},
        {"algorithm not in the table",
         tree,
         {NCCL_ALGO_RING, NCCL_PROTO_LL, 0},
         {"tree/simple"}},
        {"protocol not in the table",
         pairs,
         {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
         {"tree/ll128", "ring/ll128", "collnet_direct/ll128"}},
    };

    for (const auto &c : cases) {
        std::set<std::string> tried;
        Open(STP_STRATEGY_EPSILON, STP_LEARN_FILE);
        for (int i = 0; i < 200; i++) {
            CallFrom(0, 1 << 20, i == 0, c.view, c.policy);
            Think();
            if (agreement_.made.empty())
                continue;
            Take();
            const stp_bandit_arm arm = agreement_.made.back().arm;
            if (arm.algo >= 0)
                tried.insert(std::string(stp_algo_name(arm.algo)) + "/" +
                             stp_proto_name(arm.proto));
        }
        EXPECT_EQ(c.tried, tried) << c.name;
    }
}

// ---- what is proposed ----

TEST_F(Thinking, ProposesNothingWhileTheLastIsPending)
{
    Call(0, 1 << 20);
    while (agreement_.made.empty())
        Think();
    Take();
    agreement_.is_pending = true;
    for (int i = 0; i < 100; i++)
        Think();

    EXPECT_EQ(1u, agreement_.made.size());
}

TEST_F(Thinking, StopsForTheFirstReasonThatItIsTold)
{
    Call(0, 1 << 20);
    EXPECT_STREQ(nullptr, stp_observer_why_stopped(observer_.get()));
    stp_observer_stop(observer_.get(), "one");
    stp_observer_stop(observer_.get(), "two");
    for (int i = 0; i < 20; i++)
        Think();

    EXPECT_STREQ("one", stp_observer_why_stopped(observer_.get()));
    EXPECT_TRUE(agreement_.made.empty());
}

} // namespace
