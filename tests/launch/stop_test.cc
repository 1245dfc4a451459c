// The wish to stop: what a process makes of signals, in any order and thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>

extern "C" {
#include "launch/stop.h"
}

#include "support/processes.h"

namespace
{

using processes::Process;

// As the kernel sends it for a terminal; to itself a process may, too.
void SendAsATerminal(int number)
{
    siginfo_t info{};

    info.si_signo = number;
    info.si_code = SI_KERNEL;
    EXPECT_EQ(0, syscall(SYS_rt_sigqueueinfo, getpid(), number, &info));
}

// One after the other: 's' is sent by a process, 't' by a terminal, and '.' is
// a pause.
void Take(const std::string &signals, int number)
{
    for (char c : signals) {
        if (c == 's')
            raise(number);
        else if (c == 't')
            SendAsATerminal(number);
        else
            usleep(1000 * (STP_STOP_SAME_MS + 100));
        usleep(1); // where ThreadSanitizer lets the handler run
    }
}

TEST(Stop, IsWishedByTheFirstAndEndsAtTheSecond)
{
    const struct {
        const char *signals;
        const char *said; // "" if it ended at once
    } cases[] = {
        {"", "goes on"},
        {"s", "stops"},
        {"t", "stops"},
        // one wish that comes several times
        {"ss", "stops"},
        {"sss", "stops"},
        {"ts", "stops"},
        // a second one
        {"tt", ""},
        {"s.s", ""},
        {"ss.s", ""},
        {"t.s", ""},
    };

    for (int number : {SIGINT, SIGTERM})
        for (const auto &c : cases) {
            Process process([&] {
                stp_stop_begin();
                Take(c.signals, number);
                return std::string(stp_stop_wished() ? "stops" : "goes on");
            });
            EXPECT_EQ(c.said, process.Said()) << c.signals;
        }
}

TEST(Stop, BeginsWithoutAWish)
{
    Process process([] {
        stp_stop_begin();
        raise(SIGTERM);
        stp_stop_begin();
        std::string said = stp_stop_wished() ? "stops" : "goes on";
        raise(SIGTERM);
        return said + (stp_stop_wished() ? ", stops" : ", goes on");
    });

    EXPECT_EQ("goes on, stops", process.Said());
}

// In this process, so that a race that ThreadSanitizer finds fails the test.
TEST(Stop, MayBeTakenByAThreadOfALibrary)
{
    stp_stop_begin();
    std::thread library([] {
        while (!stp_stop_wished())
            usleep(1000);
    });

    pthread_kill(library.native_handle(), SIGTERM);
    while (!stp_stop_wished())
        usleep(1000);

    library.join();
    EXPECT_TRUE(stp_stop_wished());
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

} // namespace
