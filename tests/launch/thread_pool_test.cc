// Threads that do the same job at the same time.
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <vector>

extern "C" {
#include "launch/thread_pool.h"
}

namespace
{

struct Job {
    stp_thread_pool *pool = nullptr;
    std::atomic<int> done{0};
    std::atomic<int> before{0};
    std::vector<int> seen;
    unsigned fails = ~0u; // the thread that does
    std::atomic<bool> release{false};
};

// A world in which somebody dies.
const stp_world_ops kDeadOps = {
    "dead",
    nullptr,
    [](void *, stp_error *err) {
        stp_fail(err, STP_ERR_DEVICE, "rank 7 died");
        return false;
    },
    nullptr,
    [](void *) {},
};

class ThreadPool : public testing::Test
{
  protected:
    void Create(unsigned n)
    {
        ASSERT_EQ(STP_OK, stp_thread_pool_create(n, &job_.pool, &err_));
        job_.seen.assign(n, 0);
    }

    ~ThreadPool() override
    {
        stp_thread_pool_destroy(job_.pool);
    }

    stp_status Run(stp_thread_pool_job job, unsigned time_limit_s = 0,
                   const stp_world *world = &stp_world_of_one)
    {
        return stp_thread_pool_run(job_.pool, job, &job_, world, time_limit_s,
                                   &err_);
    }

    Job job_;
    stp_error err_{};
};

TEST_F(ThreadPool, EveryThreadDoesEveryJobOnce)
{
    Create(4);

    for (int i = 1; i <= 100; i++) {
        ASSERT_EQ(STP_OK, Run([](void *user, unsigned thread, stp_error *) {
                      static_cast<Job *>(user)->seen[thread]++;
                      return STP_OK;
                  }));
        EXPECT_THAT(job_.seen, testing::ElementsAre(i, i, i, i));
    }
}

TEST_F(ThreadPool, NobodyGoesOnFromAMeetingBeforeAllAreThere)
{
    Create(4);

    ASSERT_EQ(STP_OK, Run([](void *user, unsigned, stp_error *) {
                  Job *job = static_cast<Job *>(user);
                  for (int i = 1; i <= 50; i++) {
                      job->before++;
                      EXPECT_TRUE(stp_thread_pool_barrier(job->pool));
                      EXPECT_GE(job->before, 4 * i);
                      EXPECT_TRUE(stp_thread_pool_barrier(job->pool));
                  }
                  return STP_OK;
              }));
    EXPECT_EQ(200, job_.before);
}

TEST_F(ThreadPool, OneThatFailsIsTheOneThatSaysWhy)
{
    Create(3);
    job_.fails = 1;

    EXPECT_EQ(STP_ERR_DEVICE,
              Run([](void *user, unsigned thread, stp_error *err) {
                  Job *job = static_cast<Job *>(user);
                  if (thread == job->fails)
                      return stp_fail(err, STP_ERR_DEVICE, "mine fell");
                  while (!stp_thread_pool_failed(job->pool)) {
                  }
                  EXPECT_FALSE(stp_thread_pool_barrier(job->pool));
                  return stp_fail(err, STP_ERR_STOPPED, "for another");
              }));

    EXPECT_STREQ("mine fell", err_.text);
    EXPECT_FALSE(stp_thread_pool_is_lost(job_.pool));
}

TEST_F(ThreadPool, AfterAFailureItWorksAgain)
{
    Create(2);
    job_.fails = 0;
    const stp_thread_pool_job job = [](void *user, unsigned thread,
                                       stp_error *err) {
        return thread == static_cast<Job *>(user)->fails
                   ? stp_fail(err, STP_ERR_RANGE, "no")
                   : STP_OK;
    };
    ASSERT_EQ(STP_ERR_RANGE, Run(job));
    job_.fails = ~0u;

    EXPECT_EQ(STP_OK, Run(job));
}

TEST_F(ThreadPool, ThreadsThatAreStuckAreLeftBehindWhenAProcessDies)
{
    Create(2);
    const stp_world dead{&kDeadOps, nullptr, 0, 8, 0, 8};

    EXPECT_EQ(STP_ERR_DEVICE, Run(
                                  [](void *user, unsigned, stp_error *) {
                                      Job *job = static_cast<Job *>(user);
                                      while (!job->release)
                                          usleep(1000);
                                      job->done++;
                                      return STP_OK;
                                  },
                                  0, &dead));

    EXPECT_STREQ("rank 7 died", err_.text);
    EXPECT_TRUE(stp_thread_pool_is_lost(job_.pool));
    job_.release = true; // so that they do not outlive the test's memory
    while (job_.done < 2)
        usleep(1000);
    stp_thread_pool_destroy(job_.pool);
    usleep(10000);
}

} // namespace
