// Every allocation of what learns, and of the core that it rests on, that fails
// is an error, and leaves nothing behind.
#include <gmock/gmock.h>

#include "faults/open_files.h"
#include "support/temporary_folder.h"
#include "support/with_param.h"

extern "C" {
#include "core/learn/evidence.h"
#include "core/learn/history.h"
#include "core/policy/policy.h"
#include "plugin/online/journal.h"
#include "plugin/online/observer.h"
#include "plugin/online/reward_file.h"
}

#include "core/learn/bandit_job.h"
#include "faults/failing_memory.h"

namespace
{

struct MemoryCase {
    const char *name;
    bool (*run)(); // whether it succeeds
    long min;      // allocations
};

// A call has done its work or was out of memory; it must not fail otherwise.
bool IsDone(stp_status status)
{
    EXPECT_THAT(status, testing::AnyOf(STP_OK, STP_ERR_NOMEM));
    return status == STP_OK;
}

bool RunHistory()
{
    stp_history *history = stp_history_new();
    stp_history_free(history);
    return history != nullptr;
}

bool RunObserver()
{
    stp_learner_rules rules{};
    stp_observer *observer = stp_observer_new(&rules, nullptr, nullptr);
    stp_observer_free(observer);
    return observer != nullptr;
}

bool RunRewardFile()
{
    stp_reward_file *file = nullptr;
    stp_error err;
    const bool is_done = IsDone(stp_reward_file_open("/none", &file, &err));
    stp_reward_file_close(file);
    return is_done;
}

bool RunJournal()
{
    const TemporaryFolder folder;
    const std::string path = folder.Path("journal.csv");
    stp_comm_info info{};
    stp_journal *journal = nullptr;
    stp_error err;
    const bool is_done =
        IsDone(stp_journal_open(path.c_str(), &info, &journal, &err));
    stp_journal_close(journal);
    return is_done;
}

// A bandit, and whether it has the key.
bool RunKeyUnder(const stp_bandit_rules &rules)
{
    stp_bandit *bandit = nullptr;
    stp_error err;
    bool has_key = IsDone(stp_bandit_open(&rules, &bandit, &err));
    const bandit_job::Costs costs;
    const stp_cost_view view = costs.View();

    if (has_key) {
        stp_bandit_add_key(bandit, 0, &view, 24);
        has_key = stp_bandit_get_key(bandit, 0).n_arms > 0;
    }
    stp_bandit_close(bandit);
    return has_key;
}

bool RunKey()
{
    return RunKeyUnder(stp_bandit_rules_default(STP_STRATEGY_HALVING));
}

bool RunKeyOfListedArms()
{
    stp_bandit_rules rules = stp_bandit_rules_default(STP_STRATEGY_HALVING);
    rules.arms[0] = {NCCL_ALGO_TREE, NCCL_PROTO_LL, 0};
    rules.arms[1] = {NCCL_ALGO_RING, NCCL_PROTO_LL128, 0};
    rules.n_arms = 2;
    return RunKeyUnder(rules);
}

bool RunEvidence()
{
    const std::string csv = "collective,min_bytes,max_bytes,nNodes,nRanks,"
                            "algorithm,protocol,channels,blocks,log_gain,"
                            "log_ss\nallreduce,0,1,1,8,ring,ll,0,2,0.1,0\n";
    stp_evidence_list list{};
    stp_error err;
    const bool is_done =
        IsDone(stp_evidence_parse(csv.data(), csv.size(), &list, &err));
    stp_evidence_free(&list);
    return is_done;
}

bool RunPolicy()
{
    const std::string csv = "collective,min_bytes,max_bytes,algorithm,protocol,"
                            "gpu\nallreduce,0,inf,tree,ll,H200\n"
                            "allgather,0,8K,ring,ll,H100\n";
    const stp_shape shape{8, 1, "H200"};
    stp_policy *policy = nullptr;
    stp_compiled *compiled = nullptr;
    stp_error err;
    bool is_done = IsDone(stp_policy_parse(STP_POLICY_OF_ARMS, csv.data(),
                                           csv.size(), &policy, &err));

    if (is_done)
        is_done = IsDone(stp_policy_compile(policy, &shape, &compiled, &err));
    stp_compiled_free(compiled);
    stp_policy_free(policy);
    return is_done;
}

using OnlineMemory = testing::TestWithParam<MemoryCase>;

TEST_P(OnlineMemory, ThatIsRefusedIsAnErrorWhereverItIs)
{
    const std::ptrdiff_t n_open = CountOpenFiles();
    long n = 0;

    for (bool has_failed = true; has_failed; n++) {
        failing_memory::until_failure = n + 1;
        const bool is_done = GetParam().run();
        has_failed = failing_memory::until_failure == 0;
        failing_memory::until_failure = 0;
        EXPECT_NE(has_failed, is_done) << n;
        EXPECT_EQ(n_open, CountOpenFiles()) << n;
    }
    EXPECT_LE(GetParam().min, n - 1);
}

const MemoryCase kCases[] = {
    {"history", RunHistory, 1},
    {"observer", RunObserver, 4},
    {"reward_file", RunRewardFile, 2},
    {"journal", RunJournal, 2},
    {"key", RunKey, 6},
    {"key_of_listed_arms", RunKeyOfListedArms, 5},
    {"evidence", RunEvidence, 1},
    {"policy", RunPolicy, 4},
};
INSTANTIATE_TEST_SUITE_P(Table, OnlineMemory, testing::ValuesIn(kCases),
                         CaseName());

} // namespace
