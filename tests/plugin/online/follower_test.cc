// A rank that follows an agreement, and the policy that it shares.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

extern "C" {
#include "plugin/online/follower.h"
#include "plugin/shared_policy.h"
}

#include "core/learn/bandit_job.h"
#include "faults/failing_memory.h"

namespace
{

// ---- an agreement that counts what it is asked ----

struct Asked {
    stp_agreement base{};
    int n_complete = 0, n_epochs = 0;
    bool is_complete = true;
    std::vector<uint32_t> proposals{}; // one an epoch; nothing changes later
    stp_epoch last = STP_EPOCH_KNOWN;  // what later epochs are
};

Asked *AskedOf(stp_agreement *agreement)
{
    return reinterpret_cast<Asked *>(agreement);
}

const stp_agreement_ops kOps = [] {
    stp_agreement_ops ops{};

    ops.is_complete = [](stp_agreement *agreement) {
        AskedOf(agreement)->n_complete++;
        return AskedOf(agreement)->is_complete;
    };
    ops.is_observer = [](const stp_agreement *) { return false; };
    ops.next_epoch = [](stp_agreement *agreement, uint32_t *proposal_ret) {
        Asked *asked = AskedOf(agreement);
        const auto n = static_cast<size_t>(asked->n_epochs++);
        const bool is_proposed = n < asked->proposals.size();
        *proposal_ret = is_proposed ? asked->proposals[n] : 0;
        return is_proposed ? STP_EPOCH_KNOWN : asked->last;
    };
    return ops;
}();

class Follower : public testing::TestWithParam<bool>
{
  protected:
    explicit Follower(stp_strategy strategy = STP_STRATEGY_HALVING)
    {
        stp_comm_info info{};

        info.comm_id = 7;
        info.shape = {2, 1, nullptr};
        rules_.bandit = stp_bandit_rules_default(strategy);
        EXPECT_EQ(STP_OK, stp_follower_open(&info, nullptr, &rules_, &follower_,
                                            nullptr));
        asked_.base.ops = &kOps;
        asked_.base.proposes = true;
        stp_follower_join(follower_, &asked_.base, &rules_);
    }

    ~Follower() override
    {
        stp_follower_close(follower_);
    }

    void Call(int n)
    {
        const bandit_job::Costs costs;
        const stp_cost_view view = costs.View();
        stp_query query{};
        stp_choice choice;

        query.coll = ncclFuncAllReduce;
        query.n_bytes = 1 << 20;
        for (int i = 0; i < n; i++)
            EXPECT_EQ(STP_ANSWER_NCCLS,
                      stp_follower_choose(follower_, &query, &view, &choice));
    }

    Asked asked_;
    stp_learner_rules rules_{};
    stp_follower *follower_ = nullptr;
};

// Ranks that asked again would count epochs from different calls on.
TEST_P(Follower, TakesPartInAllCallsOrInNone)
{
    asked_.is_complete = GetParam();
    Call(1);
    asked_.is_complete = !GetParam();
    Call(1000);

    EXPECT_EQ(1, asked_.n_complete);
    EXPECT_EQ(GetParam(), asked_.n_epochs > 0);
}
INSTANTIATE_TEST_SUITE_P(CompleteOrNot, Follower, testing::Bool());

// ---- arms in force ----

constexpr stp_bandit_arm kTreeSimple = {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 3};

uint32_t Propose(const stp_bandit_arm &arm, bool is_settled)
{
    stp_proposal proposal{};

    proposal.kind = STP_PROPOSE_ARM;
    proposal.index = 1;
    proposal.arm = arm;
    proposal.is_settled = is_settled;
    return stp_proposal_pack(&proposal);
}

// The answer to the last of 'n' all-reduces, from the table.
stp_answer AnswerOf(stp_follower *follower, const stp_cost_view &view, int n,
                    stp_choice *choice)
{
    stp_answer answer = STP_ANSWER_LOST;
    stp_query query{};

    query.coll = ncclFuncAllReduce;
    query.n_bytes = 1 << 20;
    for (int i = 0; i < n; i++)
        answer = stp_follower_choose(follower, &query, &view, choice);
    return answer;
}

TEST_F(Follower, AnArmThatIsNotInTheTableIsNcclsOwnChoice)
{
    const bandit_job::Costs costs;
    bandit_job::Costs ruled_out, not_a_number;
    ruled_out.table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = -1;
    not_a_number.table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = NAN;
    const float *table = costs.table[0];
    const struct {
        const char *name;
        stp_cost_view view;
        stp_answer answer;
    } cases[] = {
        {"whole table", costs.View(), STP_ANSWER_OURS},
        {"tree alone", {table, 1, NCCL_NUM_PROTOCOLS}, STP_ANSWER_OURS},
        {"no algorithm", {table, 0, NCCL_NUM_PROTOCOLS}, STP_ANSWER_NCCLS},
        {"no simple", {table, 1, NCCL_PROTO_SIMPLE}, STP_ANSWER_NCCLS},
        {"ruled out", ruled_out.View(), STP_ANSWER_NCCLS},
        {"not a number", not_a_number.View(), STP_ANSWER_NCCLS},
    };
    asked_.proposals = {Propose(kTreeSimple, true)};

    for (const auto &c : cases) {
        stp_choice choice{};
        EXPECT_EQ(c.answer, AnswerOf(follower_, c.view, 1, &choice)) << c.name;
        if (c.answer == STP_ANSWER_OURS) {
            EXPECT_EQ(NCCL_ALGO_TREE, choice.algo) << c.name;
            EXPECT_EQ(NCCL_PROTO_SIMPLE, choice.proto) << c.name;
            EXPECT_EQ(3, choice.n_channels) << c.name;
        }
    }
}

TEST_F(Follower, AnEpochThatIsLostIsLostForGood)
{
    const bandit_job::Costs costs;
    stp_choice choice{};

    asked_.proposals = {Propose(kTreeSimple, false)};
    asked_.last = STP_EPOCH_LOST;
    EXPECT_EQ(STP_ANSWER_OURS, AnswerOf(follower_, costs.View(), 1, &choice));
    EXPECT_EQ(STP_ANSWER_LOST,
              AnswerOf(follower_, costs.View(), 1000, &choice));
}

TEST(FollowerAlone, DoesNotLearn)
{
    stp_comm_info info{};
    stp_learner_rules rules{};
    stp_follower *follower = nullptr;

    info.comm_id = 7;
    info.shape = {2, 1, nullptr};
    ASSERT_EQ(STP_OK,
              stp_follower_open(&info, nullptr, &rules, &follower, nullptr));
    EXPECT_FALSE(stp_follower_learns(follower)) << "before it joins";
    stp_follower_join(follower, nullptr, &rules);
    EXPECT_FALSE(stp_follower_learns(follower)) << "without an agreement";
    EXPECT_STREQ("the ranks have no shared memory to agree in",
                 follower->why_not);
    stp_follower_close(follower);
}

// Ranks that are too far apart change nothing any more.  What epsilon-greedy
// tries between two choices must not stay.
class FrozenEpsilon : public Follower
{
  protected:
    FrozenEpsilon() : Follower(STP_STRATEGY_EPSILON)
    {
    }
};

TEST_F(FrozenEpsilon, GivesUpWhatItTries)
{
    const bandit_job::Costs costs;
    stp_choice choice{};

    asked_.proposals = {Propose(kTreeSimple, false)};
    asked_.last = STP_EPOCH_FROZEN;
    EXPECT_EQ(STP_ANSWER_OURS, AnswerOf(follower_, costs.View(), 1, &choice));
    EXPECT_EQ(STP_ANSWER_NCCLS,
              AnswerOf(follower_, costs.View(), 10000, &choice));
    EXPECT_EQ(2, asked_.n_epochs);
}

TEST_F(FrozenEpsilon, KeepsWhatIsSettled)
{
    const bandit_job::Costs costs;
    stp_choice choice{};

    asked_.proposals = {Propose(kTreeSimple, true)};
    asked_.last = STP_EPOCH_FROZEN;
    EXPECT_EQ(STP_ANSWER_OURS,
              AnswerOf(follower_, costs.View(), 10000, &choice));
    EXPECT_EQ(2, asked_.n_epochs);
}

TEST_F(Follower, KeepsTheArmInForceWhenItIsFrozen)
{
    const bandit_job::Costs costs;
    stp_choice choice{};

    asked_.proposals = {Propose(kTreeSimple, false)};
    asked_.last = STP_EPOCH_FROZEN;
    EXPECT_EQ(STP_ANSWER_OURS,
              AnswerOf(follower_, costs.View(), 10000, &choice));
    EXPECT_EQ(2, asked_.n_epochs);
}

// ---- a policy that communicators share ----

TEST(SharedPolicy, ForWhichThereWasNoMemoryIsReadAnew)
{
    const TemporaryFolder folder;
    const std::string path = folder.Path("policy.conf");
    const stp_shape shape{8, 1, "H200"};
    stp_shared_policy *shared = nullptr;
    stp_error err;
    long n_failed = 0;

    for (bool has_failed = true; has_failed;) {
        std::ofstream(path) << "allreduce,0,1,tree,ll,0,1,8\n";
        failing_memory::until_failure = ++n_failed;
        const stp_status status =
            stp_shared_policy_acquire(path.c_str(), &shape, &shared, &err);
        has_failed = failing_memory::until_failure == 0;
        failing_memory::until_failure = 0;
        EXPECT_EQ(has_failed, status != STP_OK) << n_failed;
        if (!has_failed)
            break;
        std::ofstream(path) << "allreduce,0,1,tree,ll,0,1,8\n"
                               "allreduce,2,3,ring,ll,0,1,8\n";
        ASSERT_EQ(STP_OK, stp_shared_policy_acquire(path.c_str(), &shape,
                                                    &shared, &err));
        EXPECT_EQ(2u, stp_shared_policy_rules(shared)) << n_failed;
        stp_shared_policy_release(shared);
    }
    EXPECT_EQ(1u, stp_shared_policy_rules(shared));
    EXPECT_LT(5, n_failed);
    stp_shared_policy_release(shared);
    std::filesystem::remove(path);
}

} // namespace
