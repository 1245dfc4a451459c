// Processes forked for a run: what becomes of them, and what is said of it.
#include <gmock/gmock.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>

extern "C" {
#include "launch/fork.h"
#include "launch/stop.h"
}

#include "support/processes.h"
#include "support/with_param.h"

namespace
{

using processes::AwaitDeath;
using processes::BeKilled;
using processes::Exchange;
using processes::Gate;
using processes::Process;
using testing::MatchesRegex;

using Body = std::function<int(const stp_world &)>;

// Memory that all processes of a test share.
struct Shared {
    std::atomic<int> pids[64];
    std::atomic<int> n_done;
};

class Fork : public testing::Test
{
  protected:
    Fork()
    {
        void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(MAP_FAILED, memory);
        shared_ = new (memory) Shared{};
    }
    ~Fork() override
    {
        munmap(shared_, sizeof(Shared));
    }

    // The exit status, or the error's text.
    std::string Run(unsigned n, const Body &body)
    {
        struct Call {
            const Body &body;
            Shared *shared;
        } call{body, shared_};
        stp_fork plan{};
        plan.n = n;
        plan.user = &call;
        plan.body = [](void *user, const stp_world *world) {
            auto *c = static_cast<Call *>(user);
            if (world->rank < 64)
                c->shared->pids[world->rank] = getpid();
            return c->body(*world);
        };
        plan.moment_ms = moment_ms_;
        plan.term_ms = 50;
        int exit_status = -1;
        stp_error err{};
        status_ = stp_fork_run(&plan, &exit_status, &err);
        if (status_ == STP_OK)
            return std::to_string(exit_status);
        EXPECT_EQ(-1, exit_status) << "must be untouched on failure";
        return err.text;
    }

    std::string Name(unsigned rank) const
    {
        return "rank " + std::to_string(rank) + " (process " +
               std::to_string(shared_->pids[rank]) + ")";
    }

    // None is left, not even to be waited for.
    void ExpectAllGone(unsigned n)
    {
        for (unsigned r = 0; r < n; r++) {
            if (shared_->pids[r] == 0)
                continue;
            EXPECT_EQ(-1, kill(shared_->pids[r], 0)) << "rank " << r;
            EXPECT_EQ(ESRCH, errno);
        }
    }

    Shared *shared_;
    unsigned moment_ms_ = 60000; // all end by themselves
    stp_status status_ = STP_OK;
};

int WaitForEver()
{
    for (;;)
        pause();
}

TEST_F(Fork, MakesAWorldOfItsProcesses)
{
    for (unsigned n : {1u, 2u, 5u, 64u}) {
        EXPECT_EQ("0", Run(n, [&](const stp_world &world) {
                      bool right = world.ops->name == std::string("fork") &&
                                   world.size == n && world.local_size == n &&
                                   world.local_rank == world.rank &&
                                   Exchange(world) == "ok";
                      return right ? 0 : 1;
                  }));
        ExpectAllGone(std::min(n, 64u));
    }
}

TEST_F(Fork, TakesMoreProcessesThanFilesAreAllowed)
{
    rlimit old, few;
    getrlimit(RLIMIT_NOFILE, &old);
    few = old;
    few.rlim_cur = 32;
    setrlimit(RLIMIT_NOFILE, &few);

    EXPECT_EQ("0", Run(64, [&](const stp_world &world) {
                  return Exchange(world) == "ok" ? 0 : 1;
              }));

    setrlimit(RLIMIT_NOFILE, &old);
}

TEST_F(Fork, NeedsAProcess)
{
    EXPECT_EQ("0 processes, expected 1 to 4096",
              Run(0, [](const stp_world &) { return 0; }));
    EXPECT_EQ(STP_ERR_RANGE, status_);
}

TEST_F(Fork, WritesEachLineOnce)
{
    testing::internal::CaptureStdout();
    printf("before\n");

    Run(3, [](const stp_world &world) {
        if (world.rank == 1)
            printf("within\n");
        return 0;
    });

    EXPECT_EQ("before\nwithin\n", testing::internal::GetCapturedStdout());
}

TEST_F(Fork, RunsNoneOfThisProcessesHandlersAtExit)
{
    Process caller([this] {
        static std::atomic<int> *n_done;
        n_done = &shared_->n_done;
        atexit([] { ++*n_done; });
        return Run(3, [](const stp_world &) { return 0; });
    });

    EXPECT_EQ("0", caller.Said());
    EXPECT_EQ(0, shared_->n_done);
}

// ---- what bodies return ----

TEST_F(Fork, HasTheExitStatusOfTheFirstThatFails)
{
    const struct {
        int results[3];
        const char *want;
    } cases[] = {{{3, 0, 0}, "3"},
                 {{3, 4, 5}, "3"},
                 {{0, 0, 5}, "5"},
                 {{256, 0, 0}, "256"}}; // beyond a byte

    for (const auto &c : cases)
        EXPECT_EQ(c.want, Run(3, [&](const stp_world &world) {
                      return c.results[world.rank];
                  }));
}

// ---- ends of other kinds ----

struct EndCase {
    const char *name;
    unsigned rank; // of 4
    void (*end)();
    const char *want; // behind the name
};

void Terminate()
{
    raise(SIGTERM);
}

void Exit1()
{
    _exit(1);
}

void Exit0()
{
    _exit(0);
}

// clang-format off
const EndCase kEnds[] = {
    {"first_killed",  0, BeKilled,  " was killed by signal 9 (Killed)"},
    {"middle_killed", 2, BeKilled,  " was killed by signal 9 (Killed)"},
    {"last_killed",   3, BeKilled,  " was killed by signal 9 (Killed)"},
    {"terminated",    1, Terminate, " was killed by signal 15 (Terminated)"},
    {"exits_with_1",  2, Exit1,     " ended with status 1"},
    {"exits_with_0",  0, Exit0,     " ended with status 0"},
};
// clang-format on

using ForkEnd = WithParam<Fork, EndCase>;

// Actions of the other processes meanwhile.
const Body kOthers[] = {
    [](const stp_world &world) { return Exchange(world) == "ok" ? 0 : 1; },
    [](const stp_world &world) { return AwaitDeath(world) == "" ? 0 : 1; },
    [](const stp_world &) { return WaitForEver(); },
    [](const stp_world &) {
        signal(SIGTERM, SIG_IGN);
        return WaitForEver();
    },
};

TEST_P(ForkEnd, IsToldAndEndsAllOthers)
{
    const EndCase &c = GetParam();
    moment_ms_ = 50;

    for (const Body &other : kOthers) {
        std::string got = Run(4, [&](const stp_world &world) {
            Exchange(world);
            if (world.rank == c.rank)
                c.end();
            return other(world);
        });

        EXPECT_EQ(Name(c.rank) + c.want, got);
        EXPECT_EQ(STP_ERR_DEVICE, status_);
        ExpectAllGone(4);
    }
}

INSTANTIATE_TEST_SUITE_P(Table, ForkEnd, testing::ValuesIn(kEnds),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

// Whether the others return or are ended first is the machine's affair.
TEST_F(Fork, AddsNoWordToWhatABodySaid)
{
    moment_ms_ = 50;
    for (const Body &other : kOthers) {
        EXPECT_EQ("7", Run(3, [&](const stp_world &world) {
                      if (world.rank != 2)
                          other(world);
                      return 7;
                  }));
        ExpectAllGone(3);
    }
}

TEST_F(Fork, TellsWhoCannotWriteItsOutput)
{
    std::string got = Run(2, [](const stp_world &world) {
        if (world.rank == 1 && freopen("/dev/full", "w", stdout) != nullptr)
            printf("lost");
        return 0;
    });

    EXPECT_EQ(Name(1) + " could not write its output: No space left on device",
              got);
}

TEST_F(Fork, EndsThoseThatStartedIfNotAllCan)
{
    Process caller([this] {
        rlimit few{40, 40};
        setrlimit(RLIMIT_NOFILE, &few);
        std::string got =
            Run(64, [](const stp_world &) { return WaitForEver(); });
        EXPECT_EQ(STP_ERR_LIMIT, status_);
        ExpectAllGone(64);
        return HasFailure() ? "failed" : got;
    });

    EXPECT_THAT(caller.Said(),
                MatchesRegex("cannot start process [0-9]+ of 64: Too many "
                             "open files"));
}

TEST_F(Fork, SeesItsProcessesEndThoughTheCallerIgnoresItsChildren)
{
    auto old = signal(SIGCHLD, SIG_IGN);

    std::string got = Run(2, [](const stp_world &world) {
        if (world.rank == 1)
            BeKilled();
        return 0;
    });

    EXPECT_EQ(SIG_IGN, signal(SIGCHLD, old));
    EXPECT_EQ(Name(1) + " was killed by signal 9 (Killed)", got);
}

// ---- signals to the one that looks after them ----

// A caller in a process group of its own, whose three processes let 'ready'
// pass and wait in 'body'.
class ForkSignal : public Fork
{
  protected:
    void SetUp() override
    {
        // what a shell runs in the background ignores the first
        for (int number : {SIGINT, SIGTERM, SIGHUP})
            signal(number, SIG_DFL);
    }
    Process Caller(const std::function<int()> &body)
    {
        return Process([this, body] {
            setpgid(0, 0);
            return Run(3, [&](const stp_world &world) {
                Exchange(world);
                ready_.Open();
                return body();
            });
        });
    }
    void AwaitAll()
    {
        for (int i = 0; i < 3; i++)
            ready_.Pass();
    }
    Gate ready_;
};

volatile sig_atomic_t interrupted;

int UntilInterrupted()
{
    while (!interrupted)
        usleep(1000);
    return 4;
}

TEST_F(ForkSignal, LeavesAnInterruptToTheProcesses)
{
    signal(SIGINT, [](int) { interrupted = 1; });
    Process caller = Caller(UntilInterrupted);
    signal(SIGINT, SIG_DFL);
    AwaitAll();

    kill(-caller.pid(), SIGINT);

    EXPECT_EQ("4", caller.Said());
}

TEST_F(ForkSignal, IsStoppedByAnInterruptThatNobodyHandles)
{
    Process caller = Caller(WaitForEver);
    AwaitAll();

    kill(-caller.pid(), SIGINT);

    EXPECT_EQ("stopped by signal 2 (Interrupt)", caller.Said());
}

TEST_F(ForkSignal, PassesOnASecondThatEndsWhatHasNotStopped)
{
    Process caller = Caller([this] {
        stp_stop_begin();
        ready_.Open();
        while (!stp_stop_requested())
            usleep(1000);
        ready_.Open();
        return WaitForEver();
    });
    AwaitAll();
    AwaitAll();

    kill(caller.pid(), SIGTERM);
    AwaitAll();
    usleep(1000 * (STP_STOP_SAME_MS + 100));
    kill(caller.pid(), SIGTERM);

    EXPECT_EQ("stopped by signal 15 (Terminated)", caller.Said());
}

// To the process, then to its group, as timeout(1) does.
TEST_F(ForkSignal, OfOneWishIsNoneTwice)
{
    Gate come; // the rest of it
    Process caller = Caller([this, &come] {
        stp_stop_begin();
        ready_.Open();
        while (!stp_stop_requested())
            usleep(1000);
        ready_.Open();
        come.Pass();
        return 4;
    });
    AwaitAll();
    AwaitAll();

    kill(caller.pid(), SIGTERM);
    AwaitAll();
    kill(-caller.pid(), SIGTERM);
    usleep(50000);
    come.Open(3);

    EXPECT_EQ("4", caller.Said());
}

TEST_F(ForkSignal, PassesSignalsOn)
{
    for (int sig : {SIGINT, SIGTERM, SIGHUP}) {
        Process caller = Caller(WaitForEver);
        AwaitAll();

        kill(caller.pid(), sig);

        EXPECT_EQ("stopped by signal " + std::to_string(sig) + " (" +
                      strsignal(sig) + ")",
                  caller.Said());
    }
}

TEST_F(ForkSignal, TakesTheProcessesAlongWhenKilled)
{
    int held[2];
    ASSERT_EQ(0, pipe(held));
    Process caller = Caller(WaitForEver);
    close(held[1]); // the others still have it
    AwaitAll();

    kill(caller.pid(), SIGKILL);

    char byte;
    EXPECT_EQ(0, read(held[0], &byte, 1)) << "until the last is gone";
    close(held[0]);
}

} // namespace
