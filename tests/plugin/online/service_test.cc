// The one thread of a process, and the tasks that it runs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

extern "C" {
#include "plugin/online/service.h"
}

namespace
{

struct Work {
    explicit Work(bool runs = true)
    {
        task.run = runs ? Run : nullptr;
        task.finish = [](void *user) {
            static_cast<Work *>(user)->n_finished++;
        };
        task.user = this;
        EXPECT_EQ(STP_OK, stp_service_add(&task, &err)) << err.text;
    }
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;
    ~Work()
    {
        stp_service_remove(&task);
    }

    static void Run(void *user)
    {
        static_cast<Work *>(user)->n_runs++;
    }

    void WaitForRuns(int n) const
    {
        for (const int until = n_runs + n; n_runs < until;)
            usleep(1000);
    }

    stp_task task{};
    stp_error err{};
    std::atomic<int> n_runs{0};
    std::atomic<int> n_finished{0};
};

TEST(Service, RunsTasksInTurnBesideThoseThatNeedNoThread)
{
    const Work first;
    const Work idle(false);
    const Work last;

    first.WaitForRuns(2);
    last.WaitForRuns(2);
    EXPECT_EQ(0, idle.n_runs);
}

TEST(Service, RunsNoTaskThatWasRemovedAndGoesOnWithTheOthers)
{
    Work first, middle, last;

    middle.WaitForRuns(1);
    stp_service_remove(&middle.task);
    const int n = middle.n_runs;
    first.WaitForRuns(2);
    last.WaitForRuns(2);
    EXPECT_EQ(n, middle.n_runs);
}

TEST(Service, BeginsAnewAfterItsLastTask)
{
    for (int i = 0; i < 3; i++) {
        const Work work;
        work.WaitForRuns(1);
    }
}

TEST(Service, RemovesATaskThatIsNotThere)
{
    const Work work;
    stp_task stranger{};

    stp_service_remove(&stranger);
    work.WaitForRuns(1);
}

TEST(Service, FinishesEachTaskAtItsEndAndRunsNoneAfterIt)
{
    const Work first, idle(false);
    first.WaitForRuns(1);

    stp_service_end();

    const int n = first.n_runs;
    usleep(5 * STP_SERVICE_MS * 1000);
    EXPECT_EQ(n, first.n_runs);
    EXPECT_EQ(1, first.n_finished);
    EXPECT_EQ(1, idle.n_finished);
}

} // namespace
