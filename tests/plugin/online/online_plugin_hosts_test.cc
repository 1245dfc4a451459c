// The learning plugin on several hosts: they follow one policy, as with the
// static plugin, and say nothing to each other after the first decision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plugin/online/online_plugin.h"
#include "support/store_thread.h"

namespace
{

using namespace online_plugin;
using store_thread::StoreThread;
using testing::IsEmpty;

// Two hosts of eight GPUs, in one process.  What NCCL takes for the message is
// slower than its model says, so that there would be something to learn.
class OnlineHosts : public OnlinePlugin,
                    public testing::WithParamInterface<bool>
{
  protected:
    void TearDown() override
    {
        for (const char *name :
             {"STEPTUNE_AGREE", "STEPTUNE_AGREE_TIMEOUT", "NCCL_HOSTID"})
            unsetenv(name);
        OnlinePlugin::TearDown();
    }

    static void Enter(void *, int rank)
    {
        setenv("NCCL_HOSTID", rank < 8 ? "a" : "b", 1);
    }

    static void Keep(void *self, const mock_job_step *step)
    {
        static_cast<OnlineHosts *>(self)->last_ = step->runs[0].run;
    }

    static std::ptrdiff_t CountIn(const char *folder)
    {
        const std::filesystem::directory_iterator entries(folder);
        return std::distance(begin(entries), end(entries));
    }

    mock_run last_{};
};

TEST_P(OnlineHosts, DoNotLearnAndAreSilentAfterTheFirstDecision)
{
    StoreThread store;
    const mock_job_call call = After(20, ncclFuncAllReduce, 64 << 10);
    mock_job_options options{};
    mock_job *job = nullptr;

    machine_ = LoadMachine("h100n2x8");
    const Nccl nccl = StartOnline("2.28", STP_PLUGIN);
    Set("STEPTUNE_AGREE",
        GetParam() ? "tcpstore://127.0.0.1:" + std::to_string(store.port())
                   : "shm");
    Set("STEPTUNE_AGREE_TIMEOUT", "60");
    options.comm_id = mock_new_comm_id();
    options.step = {&call, 1, 20};
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
    const size_t n_requests = store.n_requests();
    EXPECT_EQ(GetParam(), n_requests > 0);
    // The store's threads end after their connections.
    for (int i = 0; i < 5000 && CountIn("/proc/self/task") != n_threads; i++)
        usleep(1000);
    EXPECT_EQ(n_threads, CountIn("/proc/self/task"));
    EXPECT_EQ(n_files, CountIn("/proc/self/fd"));
    EXPECT_EQ(ncclSuccess, mock_job_play(job, 5000)) << mock_last_error();

    EXPECT_EQ(n_requests, store.n_requests());
    EXPECT_EQ(NCCL_ALGO_TREE, last_.algo);
    EXPECT_EQ(NCCL_PROTO_LL, last_.proto);
    EXPECT_THAT(warnings_, IsEmpty());
    EXPECT_EQ(16U, Count(infos_, "nothing is learned: communicators of several "
                                 "hosts are not learned in, they follow the "
                                 "policy; NCCL's own choice"));
}

INSTANTIATE_TEST_SUITE_P(Store, OnlineHosts, testing::Bool(),
                         [](const auto &with) {
                             return with.param ? "Compared" : "Without";
                         });

} // namespace
