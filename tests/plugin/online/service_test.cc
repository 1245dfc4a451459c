// The one thread of a process, and the tasks that it runs.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

extern "C" {
#include "plugin/online/service.h"
}

#include "support/child.h"
#include "support/slow.h"

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

// Whether the thread of that number waits for something.
bool Waits(pid_t thread)
{
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;

    std::getline(stat, line);
    return line.find(") S ") != std::string::npos;
}

TEST(Service, WaitsForATaskThatRunsWhenItIsRemoved)
{
    struct Slow {
        stp_task task{};
        const pid_t remover = static_cast<pid_t>(syscall(SYS_gettid));
        std::atomic<bool> is_running{false}, may_end{false}, has_ended{false};
    } slow;
    stp_error err{};
    const Work other; // for which the thread stays
    slow.task.run = [](void *user) {
        Slow *s = static_cast<Slow *>(user);
        s->is_running = true;
        while (!s->may_end || !Waits(s->remover))
            usleep(1000);
        s->has_ended = true;
    };
    slow.task.user = &slow;
    ASSERT_EQ(STP_OK, stp_service_add(&slow.task, &err));
    while (!slow.is_running)
        usleep(1000);

    slow.may_end = true;
    stp_service_remove(&slow.task);

    EXPECT_TRUE(slow.has_ended);
    other.WaitForRuns(1);
}

// In the thread, amid its tasks.
TEST(Service, AChildThatIsForkedByATaskBeginsAnew)
{
    STP_SLOW();
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer ends a child that makes a thread";
#endif
    struct Forking {
        stp_task task{};
        std::atomic<int> status{-1};
    } forking;
    stp_error err{};
    const Work before;
    forking.task.run = [](void *user) {
        Forking *f = static_cast<Forking *>(user);
        if (f->status != -1)
            return;
        f->status = StatusOfChild([f] {
            alarm(300);
            stp_service_remove(&f->task); // its parent's
            const Work own;
            own.WaitForRuns(2);
        });
    };
    forking.task.user = &forking;
    ASSERT_EQ(STP_OK, stp_service_add(&forking.task, &err));
    while (forking.status == -1)
        usleep(1000);
    stp_service_remove(&forking.task);

    EXPECT_EQ(0, forking.status);
    before.WaitForRuns(1);
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
