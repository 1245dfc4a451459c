// The learning plugin on several hosts: they try arms by a schedule, and say
// nothing to each other after the first decision.
#include <gmock/gmock.h>

#include <set>

#include "plugin/online/online_plugin.h"
#include "support/store_thread.h"

namespace
{

using namespace online_plugin;
using store_thread::StoreThread;
using namespace testing;

// Two hosts of eight GPUs, in one process.  What NCCL takes for the message is
// slower than its model says, so that there would be something to learn.
class OnlineHosts : public OnlinePlugin
{
  protected:
    static void Enter(void *self, int rank)
    {
        const std::string host = rank < 8 ? "a" : "b";
        const fs::path &evidence = static_cast<OnlineHosts *>(self)->evidence_;

        Set("NCCL_HOSTID", host);
        if (!evidence.empty())
            Set("STEPTUNE_EVIDENCE", (evidence / host).string());
    }

    // A file of one arm that an earlier run knows.
    void Evidence(const char *name, const char *arm) const
    {
        std::ofstream(dir_ / name)
            << "collective,min_bytes,max_bytes,nNodes,nRanks,algorithm,"
               "protocol,channels,blocks,log_gain,log_ss\n"
               "allreduce,65536,81919,2,16,"
            << arm << "\n";
    }

    static std::pair<int, int> Ran(const mock_run &run)
    {
        return {run.algo, run.proto};
    }

    static void Keep(void *self, const mock_job_step *step)
    {
        auto *test = static_cast<OnlineHosts *>(self);

        test->last_ = step->runs[0].run;
        if (test->n_steps_++ == 0)
            test->first_ = test->last_;
        if (Ran(test->last_) != Ran(test->first_))
            test->tried_.insert(Ran(test->last_));
    }

    // A job of steps of one all-reduce.  Plays the first, in which the hosts
    // are compared, then the others.
    void Play(unsigned n_steps)
    {
        const mock_job_call call = After(20, ncclFuncAllReduce, 64 << 10);
        const Nccl nccl = StartOnline("2.28", STP_PLUGIN);
        mock_job_options options{};
        mock_job *job = nullptr;

        n_steps_ = 0;
        options.comm_id = mock_new_comm_id();
        options.step = {&call, 1, 1};
        options.before_init = Enter;
        options.done = Keep;
        options.user = this;
        const std::ptrdiff_t n_threads = CountIn("/proc/self/task");
        const std::ptrdiff_t n_files = CountIn("/proc/self/fd");
        ASSERT_EQ(ncclSuccess,
                  mock_job_create(nccl.get(), machine_.get(), &options, &job))
            << mock_last_error();
        const Job owner(job);

        EXPECT_EQ(ncclSuccess, mock_job_play(job, 1)) << mock_last_error();
        const size_t n_requests = store_.n_requests();
        // The store's threads end after their connections.
        for (int i = 0; i < 5000 && CountIn("/proc/self/task") != n_threads;
             i++)
            usleep(1000);
        EXPECT_EQ(n_threads, CountIn("/proc/self/task"));
        EXPECT_EQ(n_files + (getenv("STEPTUNE_JOURNAL") != nullptr),
                  CountIn("/proc/self/fd"));
        EXPECT_EQ(ncclSuccess, mock_job_play(job, n_steps))
            << mock_last_error();
        EXPECT_EQ(n_requests, store_.n_requests());
    }

    void Meet()
    {
        machine_ = LoadMachine("h100n2x8");
        Set("STEPTUNE_AGREE",
            "tcpstore://127.0.0.1:" + std::to_string(store_.port()));
        Set("STEPTUNE_AGREE_TIMEOUT", "60");
    }

    static std::ptrdiff_t CountIn(const char *folder)
    {
        const std::filesystem::directory_iterator entries(folder);
        return std::distance(begin(entries), end(entries));
    }

    StoreThread store_;
    fs::path evidence_; // a folder with a file for each host; or none
    unsigned n_steps_ = 0;
    mock_run first_{}, last_{};
    std::set<std::pair<int, int>> tried_{}; // beside what ran first
};

TEST_F(OnlineHosts, FindInOneRunWhatTheNextApplies)
{
    const fs::path base = dir_ / "base.conf";
    std::ofstream(base) << "allreduce,0,1048576,ring,simple,-1,-1,-1\n";
    Meet();
    Set("STEPTUNE_WARM_START", base.string());
    Set("STEPTUNE_ARMS", "tree/ll,ring/ll");

    Play(9200); // the schedule lasts 9,045 calls
    EXPECT_EQ(16U, Count(infos_, "tries arms by the schedule of all hosts"));
    EXPECT_EQ(1U, Count(infos_, "what is found in this run is used from the "
                                "next on"));
    EXPECT_THAT(Ran(first_), Pair(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE));
    EXPECT_THAT(Ran(last_), Pair(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE));
    EXPECT_EQ(2U, tried_.size());
    EXPECT_THAT(LinesOf(Learned()),
                Contains(StartsWith("allreduce,65536,81919,tree,ll,-1,2,16,")));

    Set("STEPTUNE_WARM_START", Learned());
    Play(1);
    EXPECT_THAT(Ran(first_), Pair(NCCL_ALGO_TREE, NCCL_PROTO_LL));
    EXPECT_THAT(warnings_, IsEmpty());
}

// A job that is killed later leaves that.
TEST_F(OnlineHosts, SayWhatTheyFoundOnceAllArmsWereTried)
{
    const fs::path base = dir_ / "base.conf";
    std::ofstream(base) << "allreduce,0,1048576,ring,simple,-1,-1,-1\n";
    Meet();
    Set("STEPTUNE_WARM_START", base.string());
    Set("STEPTUNE_ARMS", "tree/ll,ring/ll");
    Set("STEPTUNE_THOROUGH", "1");
    Set("STEPTUNE_JOURNAL", Journal());

    Play(12000); // a second pass begins with call 9,045
    EXPECT_THAT(LinesOf(Journal()),
                Contains(ContainsRegex(",incumbent,7[0-9]{3},allreduce,65536,"
                                       "81919,tree,ll,")));
    EXPECT_EQ(2U, Count(infos_, "settled after"));
}

TEST_F(OnlineHosts, BeginWithWhatTheyFoundIfThereIsNoOtherPolicy)
{
    std::ofstream(Learned()) << "allreduce,0,1048576,ring,ll,-1,-1,-1\n";
    Meet();
    Play(1);
    EXPECT_THAT(Ran(first_), Pair(NCCL_ALGO_RING, NCCL_PROTO_LL));

    Set("STEPTUNE_WARM_START", "none");
    Play(1);
    EXPECT_THAT(Ran(first_), Pair(NCCL_ALGO_TREE, NCCL_PROTO_LL));
}

TEST_F(OnlineHosts, TryNoArmThatEarlierRunsFoundHopeless)
{
    Evidence("a", "tree,simple,0,8,-0.5,0.001");
    Meet();
    Set("STEPTUNE_EVIDENCE", (dir_ / "a").string());
    Set("STEPTUNE_ARMS", "tree/simple,ring/ll,ring/simple");
    Play(9200);
    EXPECT_THAT(tried_, ElementsAre(Pair(NCCL_ALGO_RING, NCCL_PROTO_LL),
                                    Pair(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE)));
}

// Hosts whose files differ cannot know the same schedule.
TEST_F(OnlineHosts, StepAsideIfEarlierRunsToldThemOtherThings)
{
    Evidence("a", "tree,simple,0,8,-0.5,0.001");
    Evidence("b", "tree,ll128,0,8,-0.5,0.001");
    Meet();
    evidence_ = dir_;
    Play(9000);
    EXPECT_EQ(16U, Count(warnings_, "stepping aside"));
    EXPECT_THAT(tried_, IsEmpty());
}

TEST_F(OnlineHosts, TryNothingUnlessTheyAreComparedInAStore)
{
    machine_ = LoadMachine("h100n2x8");
    Set("STEPTUNE_AGREE", "shm");
    Play(9000);
    EXPECT_EQ(0U, store_.n_requests());
    EXPECT_THAT(tried_, IsEmpty());
    EXPECT_EQ(16U, Count(infos_, "nothing is learned: hosts that are not "
                                 "compared in a store"));
}

} // namespace
