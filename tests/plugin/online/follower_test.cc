// A rank that follows an agreement, and the policy that it shares.
#include <cmath>
#include <set>

#include "support/temporary_folder.h"

extern "C" {
#include "plugin/online/follower.h"
#include "plugin/shared_policy.h"
}

#include "faults/failing_memory.h"
#include "core/learn/bandit_job.h"
#include "plugin/online/asked_agreement.h"
#include "support/with_param.h"

namespace
{

struct Close {
    void operator()(stp_follower *follower) const
    {
        stp_follower_close(follower);
    }
};
using OwnedFollower = std::unique_ptr<stp_follower, Close>;

// The follower reads an agreement whose answers the test sets.
class Follower : public testing::Test
{
  protected:
    explicit Follower(stp_strategy strategy = STP_STRATEGY_HALVING)
    {
        rules_.bandit = stp_bandit_rules_default(strategy);
        info_.comm_id = 7;
        info_.shape = {2, 1, nullptr};
        Join();
    }

    // Anew; it observes if the agreement says so.
    void Join()
    {
        stp_follower *follower = nullptr;
        EXPECT_EQ(STP_OK, stp_follower_open(&info_, nullptr, false, &rules_,
                                            nullptr, &follower, nullptr));
        owned_.reset(follower);
        follower_ = follower;
        stp_follower_join(follower_, &asked_.base, false, &rules_);
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
            EXPECT_EQ(false,
                      stp_follower_choose(follower_, &query, &view, &choice));
    }

    std::string Describe() const
    {
        char text[512];
        stp_follower_describe(follower_, text, sizeof(text));
        return text;
    }

    asked::Agreement asked_;
    stp_comm_info info_{};
    stp_learner_rules rules_{};
    OwnedFollower owned_;
    stp_follower *follower_ = nullptr;
};

using FollowerOf = WithParam<Follower, bool>;

// Ranks that asked again would count epochs from different calls on.
TEST_P(FollowerOf, TakesPartInAllCallsOrInNone)
{
    asked_.is_complete = GetParam();
    Call(1);
    asked_.is_complete = !GetParam();
    Call(1000);

    EXPECT_EQ(1, asked_.n_complete);
    EXPECT_EQ(GetParam(), asked_.n_epochs > 0);
}
INSTANTIATE_TEST_SUITE_P(CompleteOrNot, FollowerOf, testing::Bool());

TEST_F(Follower, EpochsAreFourCallsAndThoseOfEpsilonGreedyEight)
{
    const std::pair<stp_strategy, int> cases[] = {{STP_STRATEGY_HALVING, 4},
                                                  {STP_STRATEGY_EPSILON, 8}};

    for (auto [strategy, n_calls] : cases) {
        rules_.bandit = stp_bandit_rules_default(strategy);
        asked_.n_epochs = 0;
        Join();
        for (int i = 0; i < 100; i++) {
            Call(1);
            EXPECT_EQ(1 + i / n_calls, asked_.n_epochs) << i;
        }
    }
}

// ---- arms in force ----

constexpr stp_bandit_arm kTreeSimple = {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 3};

uint32_t Propose(const stp_bandit_arm &arm, bool is_settled, unsigned key = 0)
{
    stp_proposal proposal{};

    proposal.kind = STP_PROPOSE_ARM;
    proposal.key = key;
    proposal.index = 1;
    proposal.arm = arm;
    proposal.is_settled = is_settled;
    return stp_proposal_pack(&proposal);
}

// The answer to the last of 'n' all-reduces, from the table.
bool AnswerOf(stp_follower *follower, const stp_cost_view &view, int n,
              stp_choice *choice)
{
    bool answer = false;
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
    bandit_job::Costs ruled_out, not_a_number, no_time;
    ruled_out.table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = -1;
    not_a_number.table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = NAN;
    no_time.table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = 0;
    const float *table = costs.table[0];
    const struct {
        const char *name;
        stp_cost_view view;
        bool answer;
    } cases[] = {
        {"whole table", costs.View(), true},
        {"tree alone", {table, 1, NCCL_NUM_PROTOCOLS}, true},
        {"no algorithm", {table, 0, NCCL_NUM_PROTOCOLS}, false},
        {"no simple", {table, 1, NCCL_PROTO_SIMPLE}, false},
        {"ruled out", ruled_out.View(), false},
        {"not a number", not_a_number.View(), false},
        {"takes no time", no_time.View(), true},
    };
    asked_.proposals = {Propose(kTreeSimple, true)};

    for (const auto &c : cases) {
        stp_choice choice{};
        EXPECT_EQ(c.answer, AnswerOf(follower_, c.view, 1, &choice)) << c.name;
        if (c.answer) {
            EXPECT_EQ(NCCL_ALGO_TREE, choice.algo) << c.name;
            EXPECT_EQ(NCCL_PROTO_SIMPLE, choice.proto) << c.name;
            EXPECT_EQ(3, choice.n_channels) << c.name;
        }
    }
}

// Each has its own arm, of the first 128.
TEST_F(Follower, KnowsMessagesByTheirCollectiveAndTheirSize)
{
    bandit_job::Costs costs;
    costs.table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 40;
    const stp_cost_view view = costs.View();
    asked_.proposals = {0};
    for (unsigned key = 0; key < STP_BANDIT_KEYS; key++) {
        stp_bandit_arm arm{NCCL_ALGO_RING, NCCL_PROTO_LL, 0};
        if (key % 2 == 0)
            arm = kTreeSimple;
        arm.n_channels = static_cast<uint8_t>(1 + key / 2);
        asked_.proposals.push_back(Propose(arm, false, key));
    }

    for (int round = 0; round < 6; round++)
        for (int i = 0; i < 130; i++) {
            stp_query query{};
            stp_choice choice{};
            const unsigned size = static_cast<unsigned>(i) / 5;
            query.coll = static_cast<ncclFunc_t>(i % 5);
            query.n_bytes =
                size == 0 ? 1 : (UINT64_C(4) + size % 4) << size / 4;
            const bool answer =
                stp_follower_choose(follower_, &query, &view, &choice);
            if (round == 0 || i >= 128) {
                EXPECT_FALSE(answer) << i;
                continue;
            }
            if (round < 5)
                continue;
            EXPECT_TRUE(answer) << i;
            EXPECT_EQ(i % 2 == 0 ? NCCL_ALGO_TREE : NCCL_ALGO_RING, choice.algo)
                << i;
            EXPECT_EQ(1 + i / 2, choice.n_channels) << i;
        }
}

// ---- trials ----

// Two kinds of messages in turn.
class Messages : public Follower
{
  protected:
    Messages()
    {
        rules_.objective = STP_LEARN_FILE; // no call is timed for its own sake
        asked_.base.observes = true;
        Join();
    }

    // The answer to the next call: T for tree, R for ring, or a dot.
    char Call()
    {
        const stp_cost_view view = costs_.View();
        stp_choice choice{};
        stp_query query{};
        uint32_t token;

        query.coll = n_calls_ % 2 == 0 ? ncclFuncAllReduce : ncclFuncAllGather;
        query.n_bytes = 1 << 20;
        const stp_launch launch{query.coll, query.n_bytes};
        const bool answer =
            stp_follower_choose(follower_, &query, &view, &choice);
        if (stp_follower_wants_time(follower_))
            wanted_.push_back(n_calls_ + 1);
        if (stp_observer_launched(follower_->observer, &launch, &token))
            timed_.push_back(n_calls_);
        n_calls_++;
        if (answer != true)
            return '.';
        return choice.algo == NCCL_ALGO_TREE ? 'T' : 'R';
    }

    std::string Calls(int n)
    {
        std::string answers;
        for (int i = 0; i < n; i++)
            answers += Call();
        return answers;
    }

    const bandit_job::Costs costs_;
    int n_calls_ = 0;
    std::vector<int> wanted_, timed_; // calls
};

struct TrialCase {
    const char *name;
    unsigned window; // that was agreed on; 0: none
    stp_proposal_kind kind;
    unsigned n;       // blocks, or calls of a window for CONFIRM
    int n_windows;    // in all
    int window_calls; // of each
    unsigned turn;    // windows in place of each
};
void PrintTo(const TrialCase &c, std::ostream *out)
{
    *out << c.name;
}

class Trial : public Messages, public testing::WithParamInterface<TrialCase>
{
  protected:
    static uint32_t Pack(stp_proposal_kind kind, unsigned n)
    {
        stp_proposal proposal{};

        proposal.kind = kind;
        proposal.index = 5;
        proposal.arm = kTreeSimple;
        proposal.n_blocks = proposal.n_calls = n;
        return stp_proposal_pack(&proposal);
    }
};

// Epochs of four calls wait for its end; then long ones come.
TEST_P(Trial, TakesTurnsInWindowsFromTheEighthCallOn)
{
    constexpr int kFirst = 24; // of five epochs, and eight
    const TrialCase &c = GetParam();
    const stp_bandit_arm ring{NCCL_ALGO_RING, NCCL_PROTO_LL, 0};
    const int end = kFirst + c.n_windows * c.window_calls;
    const int next = c.n_windows > 0 ? end + 4 : 20;
    const int last = next + STP_EPOCH_SETTLED;
    asked_.proposals = {c.window > 0 ? Pack(STP_PROPOSE_WINDOW, c.window) : 0,
                        Propose(ring, false, 1),
                        0,
                        0,
                        Pack(c.kind, c.n),
                        Propose(kTreeSimple, true),
                        Propose(ring, true)};
    std::string expected;
    for (int i = 0; i < last + 10; i++) {
        const bool is_arm =
            i >= kFirst && i < end &&
            stp_trial_is_arm(kFirst, 0,
                             static_cast<unsigned>(i - kFirst) /
                                 static_cast<unsigned>(c.window_calls) /
                                 c.turn);
        const char first = i >= last ? 'R' : i >= next ? 'T' : '.';
        const char second = i >= 4 ? 'R' : '.';
        if (is_arm && c.kind == STP_PROPOSE_CONFIRM)
            expected += '.';
        else if (i % 2 == 0)
            expected += is_arm ? 'T' : first;
        else
            expected += second;
    }
    std::vector<int> timed; // the first call of each window, and after the last
    for (int i = 0; c.n_windows > 0 && i <= c.n_windows; i++)
        timed.push_back(kFirst + i * c.window_calls);

    EXPECT_EQ(expected, Calls(last + 10));
    EXPECT_EQ(timed, timed_);
    EXPECT_EQ(timed, wanted_);
}

const TrialCase kTrials[] = {
    {"Blocks", 5, STP_PROPOSE_TRIAL, 2, 8, 5, 1},
    {"BlocksOfSingleCalls", 1, STP_PROPOSE_TRIAL, 8, 32, 1, 1},
    {"ABlock", 12, STP_PROPOSE_TRIAL, 1, 4, 12, 1},
    {"OfAllMessages", 5, STP_PROPOSE_CONFIRM, 3, 8, 3, 2},
    {"BeforeWindowsAreKnown", 0, STP_PROPOSE_TRIAL, 2, 0, 5, 1},
};
INSTANTIATE_TEST_SUITE_P(Table, Trial, testing::ValuesIn(kTrials), CaseName());

// A ring's trial of the first message and a tree's of the second; then both
// again, in the same windows.
TEST_F(Messages, OfARoundTryTheirArmsInPatternsOfTheirOwn)
{
    constexpr unsigned kWindow = 4;
    const stp_bandit_arm arms[] = {{NCCL_ALGO_RING, NCCL_PROTO_LL, 0},
                                   kTreeSimple};
    stp_proposal p{};
    p.kind = STP_PROPOSE_WINDOW;
    p.n_calls = kWindow;
    asked_.proposals = {stp_proposal_pack(&p)};
    for (unsigned key = 0; key < 2; key++) {
        p.kind = STP_PROPOSE_TRIAL;
        p.key = key;
        p.index = key + 3;
        p.arm = arms[key];
        p.n_blocks = 1;
        asked_.proposals.push_back(stp_proposal_pack(&p));
    }
    p.kind = STP_PROPOSE_ROUND;
    p.n_mates = 2;
    for (uint8_t i = 0; i < 2; i++) {
        p.mates[i].key = uint8_t(1 - i);
        p.mates[i].index = uint8_t(1 - i + 3);
    }
    asked_.proposals.push_back(stp_proposal_pack(&p));

    // each trial begins with an epoch, and has a lead of 8 calls
    Calls(4 + 2 * (8 + 4 * int(kWindow)) + 2 * 4);
    const unsigned begin = unsigned(n_calls_);
    const std::string answers =
        Calls(8 * STP_BLOCK_WINDOWS * int(kWindow) + 200);
    const size_t at = answers.find_first_not_of('.');
    ASSERT_NE(std::string::npos, at);
    const unsigned first = unsigned(follower_->trial.first_call);
    std::string expected;
    for (unsigned i = 0; i < answers.size(); i++) {
        const unsigned call = begin + i;
        const unsigned window = (call - first) / kWindow;
        const bool is_in = call >= first && window < 8 * STP_BLOCK_WINDOWS;

        // the keys' places are swapped
        if (call % 2 == 1)
            expected += is_in && stp_trial_is_arm(first, 0, window) ? 'T' : '.';
        else
            expected += is_in && stp_trial_is_arm(first, 1, window) ? 'R' : '.';
    }
    EXPECT_EQ(expected, answers);
}

// ---- who learns ----

TEST(FollowerAlone, SaysWhyItsCommunicatorCannotLearn)
{
    const char *const freeze = "STEPTUNE_FREEZE is set";
    const char *const unnamed = "this NCCL names no communicator (2.28 does)";
    const char *const hosts = "hosts that are not compared in a store "
                              "(STEPTUNE_AGREE), or have no times on the GPU "
                              "(NCCL_PROFILER_PLUGIN), follow the policy alone";
    const struct {
        uint64_t comm_id;
        size_t n_nodes;
        bool has_rules;
        stp_learn_objective objective;
        const char *why_not;
    } cases[] = {
        {1, 1, true, STP_LEARN_GPU, nullptr},
        {1, 1, true, STP_LEARN_FILE, nullptr},
        {1, 1, false, STP_LEARN_GPU, freeze},
        {0, 1, true, STP_LEARN_GPU, unnamed},
        {0, 1, false, STP_LEARN_GPU, freeze},
        {1, 2, true, STP_LEARN_GPU, hosts},
        {1, 2, true, STP_LEARN_FILE, hosts},
        {1, 2, false, STP_LEARN_GPU, freeze},
    };

    for (const auto &c : cases) {
        stp_comm_info info{};
        stp_learner_rules rules{};
        stp_follower *follower = nullptr;
        info.comm_id = c.comm_id;
        info.shape = {8, c.n_nodes, nullptr};
        rules.objective = c.objective;
        ASSERT_EQ(STP_OK, stp_follower_open(&info, nullptr, false,
                                            c.has_rules ? &rules : nullptr,
                                            nullptr, &follower, nullptr));
        EXPECT_STREQ(c.why_not, follower->why_not);
        stp_follower_close(follower);
    }
}

TEST_F(Follower, LearnsIfItIsTheObserverAndAllTakePart)
{
    const struct {
        const char *name;
        bool is_complete, is_observer, learns;
        const char *why_not;
    } cases[] = {
        {"the observer", true, true, true, nullptr},
        {"another is", true, false, false, nullptr},
        {"not all take part", false, true, false,
         "a rank has no part in it (its log says why)"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        asked_.is_complete = c.is_complete;
        asked_.base.observes = c.is_observer;
        Join();
        Call(1);
        EXPECT_EQ(c.learns, stp_follower_wants_time(follower_));
        ASSERT_EQ(c.is_observer, follower_->observer != nullptr);
        if (!c.is_observer)
            continue;
        EXPECT_EQ(c.learns, stp_observer_is_sampling(follower_->observer));
        EXPECT_STREQ(c.why_not, stp_observer_why_stopped(follower_->observer));
    }
}

TEST_F(Follower, DescribesWhatItDoes)
{
    const TemporaryFolder folder;
    const std::string path = folder.Path("policy.conf");
    stp_follower *follower = nullptr;
    stp_error err;

    EXPECT_EQ("follows, beginning with the choice without Steptune",
              Describe());
    asked_.base.observes = true;
    Join();
    EXPECT_EQ("learns, beginning with the choice without Steptune", Describe());
    asked_.base.proposes = false;
    Join();
    EXPECT_EQ("nothing is learned: the ranks have no shared memory to agree "
              "in; the choice without Steptune",
              Describe());

    // A file that nobody uses any more is read anew.
    for (const char *rules : {"allreduce,0,1,tree,ll,0,1,2\n"
                              "allreduce,2,3,ring,ll,0,1,8\n",
                              "allreduce,0,1,tree,ll,0,1,2\n"}) {
        char text[512], hash[32];
        std::ofstream(path) << rules;
        ASSERT_EQ(STP_OK, stp_follower_open(&info_, path.c_str(), false,
                                            nullptr, nullptr, &follower, &err))
            << err.text;
        const OwnedFollower owned(follower);
        stp_follower_describe(follower, text, sizeof(text));
        snprintf(hash, sizeof(hash), "%016llx",
                 static_cast<unsigned long long>(stp_policy_hash(
                     stp_shared_policy_rules(follower->policy))));
        EXPECT_EQ("nothing is learned: STEPTUNE_FREEZE is set; " + path +
                      ", hash " + hash + ", 1 of " +
                      (strlen(rules) > 40 ? "2" : "1") + " rules",
                  text);
    }
    std::filesystem::remove(path);
}

TEST_F(Follower, HasAFingerprintOfWhatItsRanksMustHaveAlike)
{
    const TemporaryFolder folder;
    const std::string path = folder.Path("policy.conf");
    stp_fingerprint halving{}, epsilon{}, served{};
    stp_follower *follower = nullptr;
    stp_error err;

    stp_follower_fingerprint(follower_, &halving);
    EXPECT_EQ(1u, halving.part[STP_FINGERPRINT_POLICY]);
    EXPECT_EQ(0u, halving.part[STP_FINGERPRINT_FILE]);
    rules_.bandit = stp_bandit_rules_default(STP_STRATEGY_EPSILON);
    Join();
    stp_follower_fingerprint(follower_, &epsilon);
    EXPECT_NE(halving.part[STP_FINGERPRINT_SETTINGS],
              epsilon.part[STP_FINGERPRINT_SETTINGS]);

    std::ofstream(path) << "allreduce,0,1,tree,ll,0,1,2\n";
    ASSERT_EQ(STP_OK, stp_follower_open(&info_, path.c_str(), false, &rules_,
                                        nullptr, &follower, &err));
    const OwnedFollower owned(follower);
    stp_follower_fingerprint(follower, &served);
    EXPECT_EQ(epsilon.part[STP_FINGERPRINT_SETTINGS],
              served.part[STP_FINGERPRINT_SETTINGS]);
    EXPECT_EQ(stp_compiled_hash(stp_shared_policy_compiled(follower->policy)),
              served.part[STP_FINGERPRINT_POLICY]);
    EXPECT_EQ(stp_policy_hash(stp_shared_policy_rules(follower->policy)),
              served.part[STP_FINGERPRINT_FILE]);
    std::filesystem::remove(path);
}

// ---- sums that keep their bits ----

TEST_F(Follower, LetsOnlyAPolicyThatKeepsTheBitsDecideAboutSums)
{
    const struct {
        bool is_set, promises;
        bool decides[2]; // about an all-gather and an all-reduce
        bool same_bits;
    } cases[] = {
        {false, false, {true, true}, false},
        {true, false, {true, false}, true},
        {false, true, {true, true}, true},
        {true, true, {true, true}, true},
    };
    const TemporaryFolder folder;
    const std::string path = folder.Path("policy.conf");
    const bandit_job::Costs costs;
    const stp_cost_view view = costs.View();
    std::set<uint64_t> fingerprints[2];

    for (const auto &c : cases) {
        stp_follower *follower = nullptr;
        stp_fingerprint fingerprint{};
        std::ofstream(path) << (c.promises ? "# bits: same\n" : "")
                            << "allgather,0,inf,ring,ll128,-1,-1,-1\n"
                               "allreduce,0,inf,ring,ll128,-1,-1,-1\n";
        ASSERT_EQ(STP_OK,
                  stp_follower_open(&info_, path.c_str(), c.is_set, &rules_,
                                    nullptr, &follower, nullptr));
        const OwnedFollower owned(follower);
        EXPECT_EQ(c.same_bits, follower->same_bits);
        stp_follower_fingerprint(follower, &fingerprint);
        fingerprints[c.same_bits].insert(
            fingerprint.part[STP_FINGERPRINT_SETTINGS]);
        for (int i = 0; i < 2; i++) {
            const stp_query query{
                i == 0 ? ncclFuncAllGather : ncclFuncAllReduce, 1 << 20, 1, 0};
            stp_choice choice{};
            EXPECT_EQ(c.decides[i],
                      stp_follower_choose(follower, &query, &view, &choice));
        }
    }
    EXPECT_EQ(1u, fingerprints[0].size());
    EXPECT_EQ(1u, fingerprints[1].size());
    EXPECT_NE(fingerprints[0], fingerprints[1]) << "ranks must be alike";
}

// ---- ranks that are too far apart ----

// They change nothing any more.  What epsilon-greedy tries between two choices
// must not stay; the arm in force of the others does.
TEST_F(Follower, ThatIsFrozenKeepsWhatIsSettledOrInForce)
{
    const struct {
        stp_strategy strategy;
        bool is_settled, keeps;
    } cases[] = {{STP_STRATEGY_EPSILON, false, false},
                 {STP_STRATEGY_EPSILON, true, true},
                 {STP_STRATEGY_HALVING, false, true}};
    const bandit_job::Costs costs;
    stp_choice choice{};

    for (const auto &c : cases) {
        rules_.bandit = stp_bandit_rules_default(c.strategy);
        Join();
        asked_.n_epochs = 0;
        asked_.proposals = {Propose(kTreeSimple, c.is_settled)};
        asked_.freezes = true;
        EXPECT_TRUE(AnswerOf(follower_, costs.View(), 1, &choice));
        EXPECT_EQ(c.keeps, AnswerOf(follower_, costs.View(), 10000, &choice));
        EXPECT_EQ(2, asked_.n_epochs);
    }
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
        EXPECT_EQ(2u, stp_policy_size(stp_shared_policy_rules(shared)))
            << n_failed;
        stp_shared_policy_release(shared);
    }
    EXPECT_EQ(1u, stp_policy_size(stp_shared_policy_rules(shared)));
    EXPECT_LT(5, n_failed);
    stp_shared_policy_release(shared);
    std::filesystem::remove(path);
}

// ---- schedules ----

// A rank of two hosts.  Its table may show other times than another rank's.
class Scheduled
{
  public:
    explicit Scheduled(bool is_rank_0, float times = 1)
    {
        stp_comm_info info{};
        stp_schedule_rules rules{};

        info.comm_id = 7;
        info.shape = {16, 2, nullptr};
        learner_.bandit = stp_bandit_rules_default(STP_STRATEGY_HALVING);
        rules.bandit = learner_.bandit;
        rules.bandit.seed = 7;
        rules.bandit.n_passes = 1;
        rules.of = info.shape;
        status_ = stp_follower_open(&info, nullptr, false, &learner_, &rules,
                                    &follower_, nullptr);
        if (status_ == STP_OK)
            stp_follower_join(follower_, nullptr, is_rank_0, &learner_);
        for (auto &row : costs_.table)
            for (float &cost : row)
                cost = cost < 0 ? cost : cost * times + times;
    }
    Scheduled(const Scheduled &) = delete;
    Scheduled &operator=(const Scheduled &) = delete;
    ~Scheduled()
    {
        if (status_ == STP_OK)
            stp_follower_close(follower_);
    }

    // Algorithm and protocol of each of 'n' calls of three messages; -1 where
    // NCCL decides.
    std::vector<int> Play(int n)
    {
        const stp_cost_view view = costs_.View();
        std::vector<int> answers(size_t(n), -1);

        for (int i = 0; i < n; i++) {
            stp_query query{};
            stp_choice choice{};

            query.coll = i % 3 == 2 ? ncclFuncAllGather : ncclFuncAllReduce;
            query.n_bytes = i % 3 == 1 ? 1 << 20 : 1 << 16;
            if (stp_follower_choose(follower_, &query, &view, &choice))
                answers[size_t(i)] = 3 * choice.algo + choice.proto;
        }
        return answers;
    }

    stp_learner_rules learner_{};
    bandit_job::Costs costs_;
    stp_follower *follower_ = nullptr;
    stp_status status_;
};

constexpr int kCalls = 40000;

TEST(ScheduledFollower, DecidesAsAllOthersWhateverItsTimesAndPart)
{
    Scheduled rank_0(true), other(false, 3);
    const std::vector<int> answers = rank_0.Play(kCalls);

    EXPECT_NE(nullptr, rank_0.follower_->observer);
    EXPECT_EQ(nullptr, other.follower_->observer);
    EXPECT_EQ(answers, other.Play(kCalls));
    EXPECT_EQ((std::set<int>{-1, 1, 2, 3, 4, 5}), // tree/ll is ruled out
              std::set<int>(answers.begin(), answers.end()));
    EXPECT_EQ(-1, answers.back());
}

// All that decides is allocated before the ranks are compared.
TEST(ScheduledFollower, WithoutMemoryStepsAsideAtOnceOrDecidesAsAllOthers)
{
    Scheduled whole(true);
    const std::vector<int> answers = whole.Play(kCalls);
    int n_opened = 0, n_refused = 0;

    for (long n = 1; n < 20; n++) {
        failing_memory::until_failure = n;
        Scheduled rank(true);
        failing_memory::until_failure = 0;
        if (rank.status_ != STP_OK) {
            EXPECT_EQ(STP_ERR_NOMEM, rank.status_);
            n_refused++;
            continue;
        }
        failing_memory::until_failure = 1;
        EXPECT_EQ(answers, rank.Play(kCalls)) << n;
        failing_memory::until_failure = 0;
        n_opened++;
    }
    EXPECT_EQ(3, n_refused);
    EXPECT_EQ(16, n_opened);
}

} // namespace
