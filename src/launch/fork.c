#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "launch/fork.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/star.h"
#include "store/clock.h"

enum {
    MOMENT_MS = 1000,
    TERM_MS = 2000,
};

/* The progress of a process, which writes it to shared memory. */
enum progress {
    RUNNING,
    NO_WORLD, /* it could not join; 'why' has the reason */
    CANNOT_WRITE,
    RETURNED,
};

struct slot {
    enum progress progress;
    int result;
    struct stp_error why;
};

struct run {
    const struct stp_fork *plan;
    pid_t parent;
    struct slot *slots; /* one a rank, shared */
    pid_t *pids;        /* one a rank; 0 once it is gone */
    int *fds;           /* rank 0's socket to each rank, or -1 */
    unsigned n_running;
    sigset_t watched; /* signals that this process waits for */
    sigset_t mask;    /* as it was */
    struct sigaction on_child;
    int signal; /* the last that this process got, or 0 */
    int passed; /* the last signal to all after a failure, or 0 */
    bool has_failed;
    int64_t deadline_ms; /* for the next signal after a failure */
    enum stp_status status;
    struct stp_error why;
};

/* ---- in the new process ---- */

static void fork_run_child(const struct run *run, unsigned rank, int fd)
{
    struct stp_star_options options = {.name = "fork",
                                       .rank = rank,
                                       .size = run->plan->n,
                                       .local_rank = rank,
                                       .local_size = run->plan->n,
                                       .fds = rank == 0 ? run->fds : &fd};
    struct slot *slot = &run->slots[rank];
    struct stp_world world;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != run->parent) /* it died before that */
        _exit(EXIT_FAILURE);
    sigaction(SIGCHLD, &run->on_child, NULL);
    sigprocmask(SIG_SETMASK, &run->mask, NULL);
    /* A copy of a socket would keep it open after its rank died. */
    for (unsigned r = 1; rank != 0 && r < run->plan->n; r++)
        if (run->fds[r] >= 0)
            close(run->fds[r]);
    if (stp_star_open(&options, &world, &slot->why) != STP_OK) {
        slot->progress = NO_WORLD;
    } else {
        slot->result = run->plan->body(run->plan->user, &world);
        world.ops->close(world.self);
        errno = 0;
        slot->progress =
            fflush(NULL) == 0 && !ferror(stdout) ? RETURNED : CANNOT_WRITE;
        if (slot->progress == CANNOT_WRITE)
            stp_fail(&slot->why, STP_ERR_IO, "%s",
                     errno != 0 ? strerror(errno) : "a part of it is lost");
    }
    _exit(slot->progress == RETURNED ? slot->result : EXIT_FAILURE);
}

/* ---- starting them ---- */

/* Rank 0's is made last, when it can have all sockets; -1 for it. */
static enum stp_status fork_start(struct run *run, unsigned rank,
                                  struct stp_error *err)
{
    int fds[2] = {-1, -1};
    pid_t pid = -1;

    if (rank == 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0) {
        run->fds[rank] = fds[0];
        pid = fork();
    }
    if (pid == 0)
        fork_run_child(run, rank, fds[1]);
    if (pid < 0)
        return stp_fail(err, STP_ERR_LIMIT, "cannot start process %u of %u: %s",
                        rank + 1, run->plan->n, strerror(errno));
    if (rank != 0)
        close(fds[1]);
    run->pids[rank] = pid;
    run->n_running++;
    return STP_OK;
}

static void fork_signal_all(const struct run *run, int sig)
{
    for (unsigned r = 0; r < run->plan->n; r++)
        if (run->pids[r] != 0)
            kill(run->pids[r], sig);
}

/* ---- how they end ---- */

/* Names the process that failed; without a world another one, or memory. */
static void fork_judge(struct run *run, unsigned rank, int wait_status)
{
    const struct slot *slot = &run->slots[rank];
    const int sig = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    const bool was_us = run->passed != 0 && (sig == SIGTERM || sig == SIGKILL);
    char how[STP_ERROR_TEXT] = "";

    if (sig != 0 && sig == run->signal && !was_us)
        STP_THEN(run->status,
                 stp_fail(&run->why, STP_ERR_STOPPED,
                          "stopped by signal %d (%s)", sig, strsignal(sig)));
    else if (sig != 0 && !was_us)
        snprintf(how, sizeof(how), "was killed by signal %d (%s)", sig,
                 strsignal(sig));
    else if (sig == 0 && slot->progress == RUNNING)
        snprintf(how, sizeof(how), "ended with status %d",
                 WEXITSTATUS(wait_status));
    else if (sig == 0 && slot->progress == CANNOT_WRITE)
        snprintf(how, sizeof(how), "could not write its output: %.100s",
                 slot->why.text);
    if (how[0] != '\0')
        STP_THEN(run->status,
                 stp_fail(&run->why, STP_ERR_DEVICE, "rank %u (process %ld) %s",
                          rank, (long)run->pids[rank], how));
    if (slot->progress != RETURNED || slot->result != 0)
        run->has_failed = true;
}

/* ---- looking after them ---- */

/* Waits for a signal or a second, or after a failure until the next signal is
 * due, and passes a signal on, unless a terminal has sent it to all. */
static void fork_wait(struct run *run)
{
    int64_t ms = run->has_failed ? run->deadline_ms - stp_now_ms() : 1000;
    struct timespec limit;
    siginfo_t info;
    int sig;

    if (ms < 0)
        ms = 0;
    limit = (struct timespec){ms / 1000, ms % 1000 * 1000000};
    sig = sigtimedwait(&run->watched, &info, &limit);
    if (sig <= 0 || sig == SIGCHLD)
        return;
    run->signal = sig;
    if (info.si_code != SI_KERNEL)
        fork_signal_all(run, sig);
}

/* Waits until all are gone.  After a failure others have a moment to end, then
 * get SIGTERM, then SIGKILL. */
static void fork_supervise(struct run *run)
{
    const unsigned moment_ms = run->plan->moment_ms,
                   term_ms = run->plan->term_ms;

    while (run->n_running > 0) {
        int64_t now;

        fork_wait(run);
        for (unsigned r = 0; r < run->plan->n; r++) {
            int wait_status;

            if (run->pids[r] == 0 ||
                waitpid(run->pids[r], &wait_status, WNOHANG) != run->pids[r])
                continue;
            fork_judge(run, r, wait_status);
            run->pids[r] = 0;
            run->n_running--;
        }
        now = stp_now_ms();
        if (!run->has_failed || now < run->deadline_ms)
            continue;
        if (run->deadline_ms == 0) {
            run->deadline_ms = now + (moment_ms != 0 ? moment_ms : MOMENT_MS);
            continue;
        }
        run->passed = run->passed == 0 ? SIGTERM : SIGKILL;
        run->deadline_ms = now + (term_ms != 0 ? term_ms : TERM_MS);
        fork_signal_all(run, run->passed);
    }
}

/* ---- before and after ---- */

static enum stp_status fork_run_all(struct run *run, int *exit_ret,
                                    struct stp_error *err)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    const unsigned n = run->plan->n;
    enum stp_status status = STP_OK;
    int result = 0;

    stp_star_allow(n);
    sigemptyset(&run->watched);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaddset(&run->watched, signals[i]);
    /* Ignored, there would be nothing to wait for. */
    sigaction(SIGCHLD, &standard, &run->on_child);
    sigprocmask(SIG_BLOCK, &run->watched, &run->mask);
    fflush(NULL); /* or each would write it once more */
    for (unsigned r = 1; r < n; r++)
        STP_THEN(status, fork_start(run, r, err));
    STP_THEN(status, fork_start(run, 0, err));
    for (unsigned r = 1; r < n; r++)
        if (run->fds[r] >= 0)
            close(run->fds[r]);
    if (status != STP_OK)
        fork_signal_all(run, SIGKILL);
    fork_supervise(run);
    sigprocmask(SIG_SETMASK, &run->mask, NULL);
    sigaction(SIGCHLD, &run->on_child, NULL);
    if (status != STP_OK)
        return status;
    if (run->status != STP_OK && err != NULL)
        *err = run->why;
    for (unsigned r = 0; r < n && result == 0; r++)
        if (run->slots[r].progress == RETURNED)
            result = run->slots[r].result;
    for (unsigned r = 0; r < n && result == 0 && run->status == STP_OK; r++)
        if (run->slots[r].progress == NO_WORLD)
            return stp_fail(err, STP_ERR_DEVICE, "%s", run->slots[r].why.text);
    if (run->status == STP_OK)
        *exit_ret = result;
    return run->status;
}

enum stp_status stp_fork_run(const struct stp_fork *plan, int *exit_ret,
                             struct stp_error *err)
{
    size_t n_bytes = plan->n * sizeof(struct slot);
    struct run run = {.plan = plan, .parent = getpid()};
    enum stp_status status = STP_ERR_NOMEM;

    if (plan->n == 0 || plan->n > STP_MAX_PROCESSES)
        return STP_REFUSE(err, "%u processes, expected 1 to %d", plan->n,
                          STP_MAX_PROCESSES);
    run.slots = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run.pids = calloc(plan->n, sizeof(*run.pids));
    run.fds = malloc(plan->n * sizeof(*run.fds));
    if (run.slots != MAP_FAILED && run.pids != NULL && run.fds != NULL) {
        memset(run.fds, -1, plan->n * sizeof(*run.fds));
        status = fork_run_all(&run, exit_ret, err);
    } else {
        stp_fail(err, status, "out of memory");
    }
    free(run.fds);
    free(run.pids);
    if (run.slots != MAP_FAILED)
        munmap(run.slots, n_bytes);
    return status;
}
