// The learning plugin on several hosts, which agree in a store on what to try:
// all try the same, and whatever fails costs nothing but learning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "plugin/online/online_plugin.h"
#include "support/store_thread.h"

namespace
{

using namespace online_plugin;
using store_thread::Failure;
using store_thread::StoreThread;
using testing::Contains;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two hosts of eight GPUs, in one process.  What NCCL takes for the message is
// slower than its model says, so that there is something to learn.
class OnlineHosts : public OnlinePlugin
{
  protected:
    void SetUp() override
    {
        OnlinePlugin::SetUp();
        machine_ = LoadMachine("h100n2x8");
        Set("STEPTUNE_AGREE_TIMEOUT", "60");
        Set("STEPTUNE_AGREE_LEAD", "20");
        Set("STEPTUNE_RETEST", "0");
        Set("STEPTUNE_CONFIRM", "0");
        options_.drift = {1, NCCL_ALGO_TREE, NCCL_PROTO_LL, 1.5};
        options_.step = {&call_, 1, 20};
        options_.before_init = Enter;
        options_.done = Keep;
        options_.user = this;
    }

    void TearDown() override
    {
        for (const char *name : {"STEPTUNE_AGREE", "STEPTUNE_AGREE_TIMEOUT",
                                 "STEPTUNE_AGREE_LEAD", "NCCL_HOSTID"})
            unsetenv(name);
        OnlinePlugin::TearDown();
    }

    static void Enter(void *self, int rank)
    {
        setenv("NCCL_HOSTID", rank < 8 ? "a" : "b", 1);
        if (rank == 8)
            static_cast<OnlineHosts *>(self)->enter_b_();
    }

    static void Keep(void *self, const mock_job_step *step)
    {
        static_cast<OnlineHosts *>(self)->last_ = step->runs[0].run;
    }

    // The last call's choice.
    std::pair<int, int> Last() const
    {
        return {last_.algo, last_.proto};
    }

    Job Start(unsigned port)
    {
        mock_job *job = nullptr;
        nccl_ = StartOnline("2.28", STP_PLUGIN);
        Set("STEPTUNE_AGREE", "tcpstore://127.0.0.1:" + std::to_string(port));
        options_.comm_id = mock_new_comm_id();
        EXPECT_EQ(ncclSuccess,
                  mock_job_create(nccl_.get(), machine_.get(), &options_, &job))
            << mock_last_error();
        return Job(job);
    }

    // Until that is so, or for very long.
    static ncclResult_t PlayUntil(const Job &job,
                                  const std::function<bool()> &is_so)
    {
        ncclResult_t rc = ncclSuccess;
        for (int i = 0; i < 20000 && rc == ncclSuccess && !is_so(); i++)
            rc = mock_job_play(job.get(), 100);
        return rc;
    }

    std::function<bool()> Says(const std::string &text) const
    {
        return [=] { return Count(infos_, text) + Count(warnings_, text) > 0; };
    }

    mock_job_call call_ = After(20, ncclFuncAllReduce, 64 << 10);
    mock_job_options options_{};
    std::function<void()> enter_b_ = [] {};
    mock_run last_{};
    Nccl nccl_;
};

const std::pair<int, int> kSlow{NCCL_ALGO_TREE, NCCL_PROTO_LL};

TEST_F(OnlineHosts, LearnTogether)
{
    const StoreThread store;
    Job job = Start(store.port());

    EXPECT_EQ(ncclSuccess, PlayUntil(job, Says("settled after")));
    EXPECT_EQ(ncclSuccess, PlayUntil(job, [&] { return Last() != kSlow; }));
    job.reset();

    EXPECT_THAT(warnings_, IsEmpty());
    EXPECT_EQ(1U, Count(infos_, "compares windows of "));
    EXPECT_THAT(LinesOf(Learned()),
                Contains(ContainsRegex("^allreduce,65536,81919,.*,2,16,")));
}

TEST_F(OnlineHosts, AskTheStoreNothingAfterItHasSettled)
{
    StoreThread store;
    const Job job = Start(store.port());
    size_t n_requests = 0;

    EXPECT_EQ(ncclSuccess, PlayUntil(job, Says("settled after")));
    // What follows it is taken: the arm, and long epochs.
    for (int quiet = 0; quiet < 20; quiet++) {
        EXPECT_EQ(ncclSuccess, mock_job_play(job.get(), 2000));
        if (n_requests != store.n_requests())
            quiet = 0;
        n_requests = store.n_requests();
    }
    EXPECT_EQ(ncclSuccess, mock_job_play(job.get(), 50000));

    EXPECT_EQ(n_requests, store.n_requests());
    EXPECT_NE(kSlow, Last());
}

TEST_F(OnlineHosts, WhereSomeDoNotLearnNoneDoesAndItIsSaid)
{
    const StoreThread store;
    enter_b_ = [] { setenv("STEPTUNE_FREEZE", "1", 1); };
    const Job job = Start(store.port());

    EXPECT_EQ(ncclSuccess, PlayUntil(job, Says("nothing more is learned")));

    EXPECT_EQ(kSlow, Last());
    EXPECT_TRUE(Says("nothing more is learned: not all ranks of all hosts take "
                     "part")());
}

TEST_F(OnlineHosts, WithoutAStoreNothingIsLearned)
{
    mock_job *job = nullptr;
    nccl_ = StartOnline("2.28", STP_PLUGIN);
    Set("STEPTUNE_AGREE", "shm");
    options_.comm_id = mock_new_comm_id();
    ASSERT_EQ(ncclSuccess,
              mock_job_create(nccl_.get(), machine_.get(), &options_, &job));
    const Job owner(job);

    EXPECT_EQ(ncclSuccess, mock_job_play(job, 2000));

    for (auto &l : infos_)
        if (l.find("->") == l.npos)
            puts(l.c_str());
    EXPECT_EQ(16U, Count(infos_, "nothing is learned: the communicator spans "
                                 "several hosts, which have no store to agree "
                                 "in (STEPTUNE_AGREE); NCCL's own choice"));
    EXPECT_EQ(kSlow, Last());
}

// ---- the store fails ----

struct Case {
    const char *name;
    Failure failure;
    const char *timeout;
    const char *says;
    bool may_fail = false; // where what others do cannot be known
};

void PrintTo(const Case &c, std::ostream *out)
{
    *out << c.name;
}

class StoreFails : public OnlineHosts, public testing::WithParamInterface<Case>
{
};

constexpr char kOver[] = "nothing more is learned: the store does not answer";
constexpr char kLost[] = "steptune-online: this collective fails, as it could "
                         "hang: host ";

TEST_P(StoreFails, AndTheJobGoesOnOrFailsByName)
{
    const Case &c = GetParam();
    const StoreThread store(c.failure);
    Set("STEPTUNE_AGREE_TIMEOUT", c.timeout);
    const Job job = Start(store.port());

    ncclResult_t rc = PlayUntil(job, Says(c.says));
    if (rc == ncclSuccess)
        rc = mock_job_play(job.get(), 5000);

    if (rc == ncclSuccess || !c.may_fail) {
        EXPECT_EQ(ncclSuccess, rc) << mock_last_error();
        EXPECT_TRUE(Says(c.says)()) << testing::PrintToString(warnings_);
    } else {
        EXPECT_EQ(ncclSystemError, rc) << mock_last_error();
        EXPECT_EQ(1U, Count(warnings_, kLost));
    }
}

// clang-format off
const Case kCases[] = {
    {"dies_before_the_first_plan", {STP_SET, "plan", 1}, "60", kOver},
    {"dies_before_a_later_plan", {STP_SET, "plan", 2}, "60", kOver},
    {"dies_when_the_first_acknowledges", {STP_ADD, "acks", 1}, "0.2", kOver, true},
    {"dies_when_all_acknowledged", {STP_COMPARE_SET, "verdict", 1}, "0.2", kOver, true},
    {"dies_when_it_is_committed", {STP_SET, "known", 1}, "0.2", kOver, true},
    {"drops_the_leader_before_the_first_plan", {STP_SET, "plan", 1, Failure::DROPS}, "60", "nothing more is learned: the store does not have the plan"},
    {"drops_who_acknowledges_first", {STP_ADD, "acks", 1, Failure::DROPS}, "60", "settled after"},
    {"drops_who_acknowledges_last", {STP_ADD, "acks", 2, Failure::DROPS}, "60", "settled after"},
    {"drops_who_commits", {STP_COMPARE_SET, "verdict", 1, Failure::DROPS}, "60", "settled after"},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(All, StoreFails, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case> &test) {
                             return std::string(test.param.name);
                         });

} // namespace
