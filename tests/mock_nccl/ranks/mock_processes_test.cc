// Ranks whose processes or threads the system refuses, interrupts or ends.
#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <new>

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/open_files.h"
#include "faults/failing_memory.h"
#include "mock_nccl/ranks/mock_by_rank.h"
#include "support/with_param.h"

using namespace mock_test;
using testing::ElementsAre;

namespace
{

// The system's answers to calls of this process, and of those that it forks;
// the linker puts the functions below in front of libc's.
struct System {
    // calls until one fails; -1: none does
    int forks = -1, sockets = -1, threads = -1, sends = -1;
    int lives = -1; // forks until one whose process ends at once, with 5
    bool interrupts = false; // every other call
    size_t most = SIZE_MAX;  // bytes of a call
    bool is_patient = true;  // else poll() waits for nothing
    int patience_ms = 0;     // of the last poll()
    nfds_t n_polled = 0;     // likewise
    unsigned n_calls = 0;

    bool Interrupts()
    {
        errno = EINTR;
        return interrupts && n_calls++ % 2 == 0;
    }
};
System kernel;

bool IsLast(int *n)
{
    return *n >= 0 && (*n)-- == 0;
}

int FailsWith(int error)
{
    errno = error;
    return -1;
}

} // namespace

extern "C" {
pid_t __real_fork();
int __real_socketpair(int family, int type, int protocol, int fds[2]);
int __real_pthread_create(pthread_t *id, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *arg);
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __real_recv(int fd, void *data, size_t size, int flags);
int __real_poll(pollfd *fds, nfds_t n, int timeout_ms);

pid_t __wrap_fork()
{
    if (IsLast(&kernel.forks))
        return FailsWith(EAGAIN);
    const bool dies = IsLast(&kernel.lives);
    const pid_t pid = __real_fork();
    if (pid == 0 && dies)
        _exit(5);
    siginfo_t info;
    if (dies)
        waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
    return pid;
}

int __wrap_socketpair(int family, int type, int protocol, int fds[2])
{
    return IsLast(&kernel.sockets)
               ? FailsWith(EMFILE)
               : __real_socketpair(family, type, protocol, fds);
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *arg)
{
    return IsLast(&kernel.threads)
               ? EAGAIN
               : __real_pthread_create(id, attributes, run, arg);
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    if (IsLast(&kernel.sends))
        return FailsWith(EPIPE);
    return kernel.Interrupts()
               ? -1
               : __real_send(fd, data, std::min(size, kernel.most), flags);
}

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
    return kernel.Interrupts()
               ? -1
               : __real_recv(fd, data, std::min(size, kernel.most), flags);
}

int __wrap_poll(pollfd *fds, nfds_t n, int timeout_ms)
{
    kernel.patience_ms = timeout_ms;
    kernel.n_polled = n;
    if (kernel.Interrupts())
        return -1;
    return kernel.is_patient ? __real_poll(fds, n, timeout_ms) : 0;
}
}

namespace
{

// Memory that all processes share.
struct Shared {
    std::atomic<int> n_inits{0};
    std::atomic<pid_t> pids[4]{};
};
Shared *shared;

bool IsThere(pid_t pid)
{
    return kill(pid, 0) == 0;
}

class Processes : public AllRanks
{
  protected:
    void SetUp() override
    {
        void *mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(MAP_FAILED, mapped);
        shared = new (mapped) Shared;
        n_files_ = CountOpenFiles();
        options_.layout = MOCK_PROCESSES;
        options_.before_init = [](void *, int rank) {
            shared->n_inits++;
            shared->pids[rank] = getpid();
        };
    }
    void TearDown() override
    {
        kernel = {};
        ExpectNothingLeft();
        munmap(shared, sizeof(Shared));
    }

    // No process, and no file.
    void ExpectNothingLeft() const
    {
        EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG));
        EXPECT_EQ(ECHILD, errno);
        EXPECT_EQ(n_files_, CountOpenFiles());
    }
    ncclResult_t Play(const Ranks &ranks, uint64_t seed = 3)
    {
        return mock_ranks_play(ranks.get(), &script_, seed);
    }

    mock_ranks_options options_{};
    std::ptrdiff_t n_files_ = 0;
};

// ---- beginning ----

// In a caller of its own, before all others.
TEST_F(Processes, AreNotTheCallersProcess)
{
    const pid_t caller = fork();
    if (caller == 0) {
        const bool joined = Join(options_) != nullptr;
        _exit(joined && waitpid(-1, nullptr, WNOHANG) == -1 ? 42 : 43);
    }

    int status = 0;
    EXPECT_EQ(caller, waitpid(caller, &status, 0));
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(42, WEXITSTATUS(status));
    for (const auto &pid : shared->pids) {
        EXPECT_LT(0, pid);
        EXPECT_NE(caller, pid);
    }
}

struct Start {
    const char *name;
    mock_layout layout;
    bool at_once;
    int System::*until;
    const char *expected;
};

using Starts = WithParam<Processes, Start>;

TEST_P(Starts, RankThatIsRefusedItsPlaceIsNamed)
{
    const Start &start = GetParam();
    options_.layout = start.layout;
    options_.at_once = start.at_once;

    for (int rank = 0; rank < 4; rank++) {
        kernel = {};
        kernel.*start.until = rank;
        std::string expected = start.expected;
        expected.replace(expected.find('#'), 1, std::to_string(rank));
        mock_ranks *ranks = nullptr;

        EXPECT_EQ(
            ncclSystemError,
            mock_ranks_create(nccl_.get(), machine_.get(), &options_, &ranks));

        EXPECT_EQ(nullptr, ranks);
        EXPECT_EQ(expected, mock_last_error());
        EXPECT_EQ(0, shared->n_inits);
        ExpectNothingLeft();
    }
}

const Start kStarts[] = {
    {"process", MOCK_PROCESSES, false, &System::forks,
     "no process for rank #: Resource temporarily unavailable"},
    {"socket", MOCK_PROCESSES, true, &System::sockets,
     "no socket for rank #: Too many open files"},
    {"thread", MOCK_THREADS, false, &System::threads, "no thread for rank #"},
    {"thread_for_its_init", MOCK_ONE_THREAD, true, &System::threads,
     "no thread for rank #"},
};
INSTANTIATE_TEST_SUITE_P(Table, Starts, testing::ValuesIn(kStarts), CaseName());

// The memory of the communicator, and of each rank.
TEST_F(Processes, MemoryThatIsRefusedBeforeTheFirstInitIsAnError)
{
    const struct {
        mock_layout layout;
        bool at_once;
    } cases[] = {{MOCK_ONE_THREAD, true},
                 {MOCK_THREADS, false},
                 {MOCK_THREADS, true},
                 {MOCK_PROCESSES, false},
                 {MOCK_PROCESSES, true}};

    for (const auto &c : cases)
        for (int n = 1; n <= 3 + 4; n++) {
            options_.layout = c.layout;
            options_.at_once = c.at_once;
            failing_memory::until_failure = n;
            mock_ranks *ranks = nullptr;

            EXPECT_EQ(ncclSystemError,
                      mock_ranks_create(nccl_.get(), machine_.get(), &options_,
                                        &ranks));

            failing_memory::until_failure = 0;
            EXPECT_EQ(nullptr, ranks);
            EXPECT_STREQ("out of memory", mock_last_error());
            EXPECT_EQ(0, shared->n_inits);
            ExpectNothingLeft();
        }
}

TEST_F(Processes, ThatEndBeforeTheirInitAreNamed)
{
    for (bool at_once : {false, true})
        for (int rank : {0, 2, 3}) {
            options_.at_once = at_once;
            kernel.lives = rank;
            shared->n_inits = 0;

            EXPECT_FALSE(Join(options_));

            EXPECT_EQ("rank " + std::to_string(rank) +
                          ": its process ended with exit status 5",
                      std::string(mock_last_error()));
            EXPECT_EQ(rank, shared->n_inits); // those before it
            ExpectNothingLeft();
        }
}

// ---- calls in pieces ----

TEST_F(Processes, DecideTheSameThroughCallsInPiecesThatSignalsInterrupt)
{
    std::vector<std::string> decided[3];
    script_.decided = [](void *user, size_t step, size_t i,
                         const mock_outcome *out) {
        static_cast<std::vector<std::string> *>(user)->push_back(
            std::to_string(step) + "." + std::to_string(i) + " " +
            kAlgos[out->algo] + "/" + kProtos[out->proto] + " on " +
            std::to_string(out->n_channels));
    };

    for (size_t i = 0; i < 3; i++) {
        script_.user = &decided[i];
        script_.at_once = i == 2;
        kernel = {};
        if (i > 0)
            options_.before_init = [](void *, int) {
                kernel.most = 1;
                kernel.interrupts = true;
            };
        Ranks ranks = Join(options_);
        ASSERT_TRUE(ranks) << mock_last_error();
        if (i > 0)
            options_.before_init(nullptr, 0);
        EXPECT_EQ(ncclSuccess, Play(ranks)) << mock_last_error();
    }

    EXPECT_THAT(decided[0],
                ElementsAre("0.0 ring/ll on 1", "1.0 ring/ll on 24",
                            "1.1 ring/ll on 1", "2.0 ring/ll on 1"));
    EXPECT_EQ(decided[0], decided[1]);
    EXPECT_EQ(decided[0], decided[2]);
}

// ---- the end ----

TEST_F(Processes, ThatDoNotComeBackFor10SecondsAreKilled)
{
    Ranks ranks = Join(options_);
    ASSERT_EQ(ncclSuccess, Play(ranks)) << mock_last_error();
    EXPECT_EQ(10000, kernel.patience_ms);
    EXPECT_EQ(1u, kernel.n_polled);
    kernel.is_patient = false;
    kernel.interrupts = true;

    EXPECT_EQ(ncclInProgress, Play(ranks));

    const std::string error = mock_last_error();
    ASSERT_THAT(error, testing::MatchesRegex(
                           "step 0, rank [0-3]: has not come back for 10 s"));
    const int late = error[13] - '0';
    for (int rank = 0; rank < 4; rank++)
        EXPECT_EQ(rank != late, IsThere(shared->pids[rank])) << rank;
    kernel.is_patient = true;
    EXPECT_EQ(ncclRemoteError, Play(ranks));
    EXPECT_EQ("step 0, rank " + std::to_string(late) +
                  ": its process has ended",
              std::string(mock_last_error()));
}

TEST_F(Processes, ThatDieInAScriptAreKilledThereAndNoOthers)
{
    Ranks ranks = Join(options_);
    const mock_death death{2, 1};
    script_.death = &death;

    for (bool at_once : {false, true}) {
        script_.at_once = at_once;
        EXPECT_EQ(ncclSuccess, Play(ranks)) << mock_last_error();
        for (int rank = 0; rank < 4; rank++)
            EXPECT_EQ(rank != 2, IsThere(shared->pids[rank])) << rank;
    }
}

// Adopts the ranks of a caller that is killed.
TEST_F(Processes, AreKilledWithTheirCaller)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t caller = fork();
    if (caller == 0) {
        Ranks ranks = Join(options_);
        script_.before_step = [](void *, int rank, size_t) {
            if (rank != 1)
                return;
            kill(getppid(), SIGKILL);
            sleep(3); // is killed in it
            _exit(0);
        };
        Play(ranks);
        _exit(0);
    }

    int status, busy = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, 0)) > 0;)
        if (pid == shared->pids[1])
            busy = status;
    EXPECT_TRUE(WIFSIGNALED(busy));
    EXPECT_EQ(SIGKILL, WTERMSIG(busy));
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

} // namespace
