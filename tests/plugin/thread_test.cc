// The thread of a plugin: how often it calls, and how it ends.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <climits>

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

TEST(Thread, ThatIsNotThereIsStopped)
{
    stp_thread_stop(nullptr);
}

} // namespace
