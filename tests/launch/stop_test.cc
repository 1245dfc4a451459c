// Requests to stop: what a process makes of signals, in any order and thread.
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

extern "C" {
#include "launch/stop.h"
}

#include "support/processes.h"
#include "support/temporary_folder.h"

namespace
{

using processes::Process;
using namespace std::string_literals;

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
        // one request that comes several times
        {"ss", "stops"},
        {"sss", "stops"},
        {"ts", "stops"},
        // a second one
        {"tt", ""},
        {"s.s", ""},
        {"ss.s", ""},
        {"t.s", ""},
    };

    for (int number : {SIGINT, SIGTERM, SIGHUP})
        for (const auto &c : cases) {
            // a shell sends SIGHUP, and then its terminal does
            const bool is_one = number == SIGHUP && c.signals == "tt"s;
            if (number == SIGHUP && strlen(c.signals) > 3)
                continue; // the pauses are long
            Process process([&] {
                signal(number, SIG_DFL); // tests may run under nohup
                stp_stop_begin();
                Take(c.signals, number);
                return std::string(stp_stop_requested() ? "stops" : "goes on");
            });
            EXPECT_EQ(is_one ? "stops" : c.said, process.Said())
                << number << c.signals;
        }
}

TEST(Stop, LeavesSighupIgnoredWhereItIs)
{
    Process process([] {
        signal(SIGHUP, SIG_IGN);
        stp_stop_begin();
        raise(SIGHUP);
        return std::string(stp_stop_requested() ? "stops" : "goes on");
    });

    EXPECT_EQ("goes on", process.Said());
}

TEST(Stop, ASignalThatEndsTheProcessRemovesItsTemporaryFiles)
{
    const struct {
        const char *signals;
        bool begins; // the command looks at requests
    } cases[] = {{"s", false}, {"t", false}, {"tt", true}};
    const TemporaryFolder folder;

    for (int number : {SIGINT, SIGTERM, SIGHUP})
        for (const auto &c : cases) {
            SCOPED_TRACE(std::to_string(number) + c.signals);
            if (number == SIGHUP && c.begins)
                continue; // once from the shell and once from the terminal
            Process process([&] {
                signal(number, SIG_DFL);
                for (const char *name : {"gone", "kept"}) {
                    const std::string path = folder.Path(name);
                    std::ofstream(path) << "half";
                    stp_stop_remember_file(path.c_str());
                }
                stp_stop_forget_file(folder.Path("kept").c_str());
                if (c.begins)
                    stp_stop_begin();
                Take(c.signals, number);
                return std::string("goes on");
            });

            EXPECT_EQ("", process.Said());
            EXPECT_EQ(number, WTERMSIG(process.status()));
            EXPECT_NE(0, access(folder.Path("gone").c_str(), F_OK));
            EXPECT_EQ(0, access(folder.Path("kept").c_str(), F_OK));
        }
}

TEST(Stop, ASignalToAChildLeavesItsParentsFilesAlone)
{
    Process process([] {
        const TemporaryFolder folder;
        const std::string path = folder.Path("file");
        std::ofstream(path) << "half";
        stp_stop_remember_file(path.c_str());
        Process child([] { return raise(SIGTERM), std::string(); });
        child.Said();
        return std::string(unlink(path.c_str()) == 0 ? "there" : "gone");
    });

    EXPECT_EQ("there", process.Said());
}

TEST(Stop, BeginsWithoutAWish)
{
    Process process([] {
        stp_stop_begin();
        raise(SIGTERM);
        stp_stop_begin();
        std::string said = stp_stop_requested() ? "stops" : "goes on";
        raise(SIGTERM);
        return said + (stp_stop_requested() ? ", stops" : ", goes on");
    });

    EXPECT_EQ("goes on, stops", process.Said());
}

// In this process, so that a race that ThreadSanitizer finds fails the test.
TEST(Stop, MayBeTakenByAThreadOfALibrary)
{
    stp_stop_begin();
    std::thread library([] {
        while (!stp_stop_requested())
            usleep(1000);
    });

    pthread_kill(library.native_handle(), SIGTERM);
    while (!stp_stop_requested())
        usleep(1000);

    library.join();
    EXPECT_TRUE(stp_stop_requested());
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
}

} // namespace
