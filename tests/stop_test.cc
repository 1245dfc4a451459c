// The wish to stop: what a process makes of signals, in any order and thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "launch/stop.h"
#include "processes.h"

namespace
{

using processes::Process;

// One signal after the other: 'o' is sent to this process, a digit is passed on
// by a launcher as its first, second...
void Take(const std::string &signals, int number)
{
    for (char c : signals) {
        if (c == 'o')
            raise(number);
        else
            stp_stop_pass_on(getpid(), number, static_cast<unsigned>(c - '0'));
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
        {"o", "stops"},
        {"1", "stops"},
        // sent to a whole group: both, in whatever order threads take them
        {"o1", "stops"},
        {"1o", "stops"},
        // a second one
        {"oo", ""},
        {"12", ""},
        {"o1o", ""},
        {"1oo", ""},
        {"o12", ""},
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
