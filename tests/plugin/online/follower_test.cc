// A rank that follows an agreement, and the policy that it shares.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

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
        AskedOf(agreement)->n_epochs++;
        *proposal_ret = 0;
        return STP_EPOCH_KNOWN;
    };
    return ops;
}();

class Follower : public testing::TestWithParam<bool>
{
  protected:
    Follower()
    {
        stp_comm_info info{};

        info.comm_id = 7;
        info.shape = {2, 1, nullptr};
        rules_.bandit = stp_bandit_rules_default(STP_STRATEGY_HALVING);
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

// ---- a policy that communicators share ----

TEST(SharedPolicy, ForWhichThereWasNoMemoryIsReadAnew)
{
    const std::string path = testing::TempDir() + "follower_test.conf";
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
