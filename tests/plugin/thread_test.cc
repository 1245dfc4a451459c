// The thread of a plugin: how often it calls, and how it ends.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <clocale>

#include "faults/open_files.h"
#include "support/child.h"

extern "C" {
#include "plugin/thread.h"
}

namespace
{

std::atomic<int> n_calls;

void Count(void *)
{
    n_calls++;
}

stp_thread *Start(int ms)
{
    stp_thread *thread = nullptr;
    stp_error err{};
    n_calls = 0;
    EXPECT_EQ(STP_OK, stp_thread_start(Count, nullptr, ms, &thread, &err))
        << err.text;
    return thread;
}

TEST(Thread, CallsOnceAndEnds)
{
    stp_thread_stop(Start(STP_THREAD_ONCE));

    EXPECT_EQ(1, n_calls);
}

TEST(Thread, CallsAgainAndAgainUntilItIsStopped)
{
    stp_thread *thread = Start(1);
    while (n_calls < 3)
        usleep(1000);
    stp_thread_stop(thread);
    const int n = n_calls;
    usleep(10000);

    EXPECT_EQ(n, n_calls);
}

TEST(Thread, IsStoppedWhileItWaits)
{
    stp_thread *thread = Start(INT_MAX); // of days: it would hang
    usleep(100000);                      // now it most likely waits
    stp_thread_stop(thread);

    EXPECT_EQ(0, n_calls);
}

TEST(Thread, LeavesNoFileOpen)
{
    const ptrdiff_t n_open = CountOpenFiles();

    for (int ms : {1, int{STP_THREAD_ONCE}}) {
        stp_thread_stop(Start(ms));
        EXPECT_EQ(n_open, CountOpenFiles());
    }
}

TEST(Thread, HandsOnWhatItIsGiven)
{
    stp_thread *thread = nullptr;
    int number = 7;

    ASSERT_EQ(STP_OK,
              stp_thread_start([](void *n) { ++*static_cast<int *>(n); },
                               &number, STP_THREAD_ONCE, &thread, nullptr));
    stp_thread_stop(thread);

    EXPECT_EQ(8, number);
}

// As the job's own are, it must not be the one that a signal interrupts.
TEST(Thread, TakesNoSignals)
{
    stp_thread *thread = nullptr;
    sigset_t one, before, within, after;
    sigemptyset(&within);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &one, &before);

    ASSERT_EQ(STP_OK, stp_thread_start(
                          [](void *mask) {
                              pthread_sigmask(SIG_BLOCK, nullptr,
                                              static_cast<sigset_t *>(mask));
                          },
                          &within, STP_THREAD_ONCE, &thread, nullptr));
    pthread_sigmask(SIG_SETMASK, &before, &after);
    stp_thread_stop(thread);

    for (int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2, SIGXFSZ})
        EXPECT_EQ(1, sigismember(&within, signal)) << signal;
    EXPECT_EQ(1, sigismember(&after, SIGUSR2)) << "the caller's are its own";
    EXPECT_EQ(0, sigismember(&after, SIGUSR1)) << "the caller's are its own";
}

// Whatever the application's locale is.
TEST(Thread, NumbersHaveAPointInIt)
{
    stp_thread *thread = nullptr;
    locale_t within = LC_GLOBAL_LOCALE;

    ASSERT_EQ(STP_OK, stp_thread_start(
                          [](void *to) {
                              *static_cast<locale_t *>(to) = uselocale(nullptr);
                          },
                          &within, STP_THREAD_ONCE, &thread, nullptr));
    stp_thread_stop(thread);

    EXPECT_NE(LC_GLOBAL_LOCALE, within);
}

// For that libc interrupts all threads of the process.
TEST(Thread, GoesOnWhereTheJobSetsItsUser)
{
    stp_thread *thread = Start(1);

    for (int i = 0; i < 20; i++) {
        const int n = n_calls;
        ASSERT_EQ(0, setuid(getuid()));
        while (n_calls < n + 2)
            usleep(100);
    }
    stp_thread_stop(thread);
}

TEST(Thread, IsNotAwaitedInAChildThatHasNone)
{
    const ptrdiff_t n_open = CountOpenFiles();
    stp_thread *thread = Start(INT_MAX);

    EXPECT_EQ(0, StatusOfChild([&] {
                  stp_thread_stop(thread);
                  EXPECT_EQ(n_open, CountOpenFiles());
              }));
    stp_thread_stop(thread);
}

TEST(Thread, ThatCannotBeStartedLeavesNothing)
{
    const ptrdiff_t n_open = CountOpenFiles();
    stp_thread *thread = nullptr;
    stp_error err{};
    pthread_attr_t usual, huge;
    ASSERT_EQ(0, pthread_getattr_default_np(&usual));
    ASSERT_EQ(0, pthread_getattr_default_np(&huge));
    ASSERT_EQ(0, pthread_attr_setstacksize(&huge, size_t{1} << 62));

    pthread_setattr_default_np(&huge);
    EXPECT_EQ(STP_ERR_NOMEM,
              stp_thread_start(Count, nullptr, 1, &thread, &err));
    pthread_setattr_default_np(&usual);

    EXPECT_STREQ("no thread to be had", err.text);
    EXPECT_EQ(nullptr, thread);
    EXPECT_EQ(n_open, CountOpenFiles());
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&huge);
}

TEST(Thread, ThatCannotBeStoppedIsNotStarted)
{
    const ptrdiff_t n_open = CountOpenFiles();
    stp_thread *thread = nullptr;
    stp_error err{};
    struct rlimit before;
    ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &before));
    const struct rlimit none = {0, before.rlim_max};

    setrlimit(RLIMIT_NOFILE, &none);
    EXPECT_EQ(STP_ERR_NOMEM,
              stp_thread_start(Count, nullptr, 1, &thread, &err));
    setrlimit(RLIMIT_NOFILE, &before);

    EXPECT_STREQ("no room for a thread", err.text);
    EXPECT_EQ(nullptr, thread);
    EXPECT_EQ(n_open, CountOpenFiles());
}

TEST(Thread, ThatIsNotThereIsStopped)
{
    stp_thread_stop(nullptr);
}

} // namespace
