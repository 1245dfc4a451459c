/*
 * replay_jobs.c - the schedules of a replay, shared out to processes
 *
 * Each process takes the next schedule that nobody has taken, until one fails:
 * then no later one is begun, and those before it, which have all been taken,
 * are played to their end.  So the first that fails is found, however many
 * processes there are.  The tuner lives in these processes only: ranks that are
 * processes each load their own, and a crash leaves somebody to say so.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS, prctl(), strsignal() */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyse/replay/replay_parts.h"

enum { MAX_JOBS = 256, POLL_MS = 100 };

/* What a process leaves to the others. */
struct job {
    pid_t pid;
    atomic_uint seed; /* that it plays */
    bool failed;      /* at that seed */
    enum stp_status status;
    struct stp_error err;
};

struct shared {
    atomic_uint next; /* seed that nobody has taken */
    atomic_uint stop; /* seed from which on nobody needs to play */
    atomic_uint n_done;
    struct job jobs[MAX_JOBS];
    struct stp_replayed rows[]; /* of seed 0 */
};

struct run {
    const struct stp_replay_plan *plan;
    const struct stp_replay_options *options;
    struct shared *shared;
    size_t size; /* of it */
    unsigned n_jobs;
    int ends[2]; /* a pipe that all processes hold open */
    struct stp_error *err;
};

/* ---- in a process ---- */

static void stop_at(struct shared *shared, unsigned seed)
{
    unsigned stop = atomic_load(&shared->stop);

    while (seed < stop &&
           !atomic_compare_exchange_weak(&shared->stop, &stop, seed))
        ;
}

/* A plugin that does not load would agree with itself. */
static enum stp_status check_plugin(const struct run *run,
                                    struct stp_error *err)
{
    const char *plugin = run->options->plugin;
    struct mock_nccl *nccl;
    struct mock_comm *comm;
    bool loaded;
    enum stp_status status = stp_replay_open(run->plan, plugin, &nccl, err);

    if (status != STP_OK)
        return status;
    if (mock_comm_create(nccl, stp_replay_machine(run->plan, 0),
                         mock_new_comm_id(), &comm) != ncclSuccess) {
        status = stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    } else {
        loaded = mock_comm_tuner_version(comm) != 0;
        mock_comm_destroy(comm);
        if (!loaded)
            status = stp_fail(err, STP_ERR_DEVICE,
                              "NCCL would not load tuner plugin '%s'", plugin);
    }
    mock_nccl_destroy(nccl);
    return status;
}

static enum stp_status play_seeds(const struct run *run, struct job *job)
{
    struct shared *shared = run->shared;
    struct mock_nccl *nccl;
    enum stp_status status =
        stp_replay_open(run->plan, run->options->plugin, &nccl, &job->err);
    unsigned seed;

    if (status != STP_OK)
        return status;
    while (status == STP_OK && (seed = atomic_fetch_add(&shared->next, 1)) <
                                   atomic_load(&shared->stop)) {
        atomic_store(&job->seed, seed);
        status = stp_replay_seed(run->plan, nccl, run->options->layout, seed,
                                 seed == 0 ? shared->rows : NULL, &job->err);
        atomic_fetch_add(&shared->n_done, 1);
    }
    mock_nccl_destroy(nccl);
    return status;
}

/* Of the first process, which only loads the plugin, and of the others. */
static void work(const struct run *run, struct job *job, bool check)
{
    job->status = check ? check_plugin(run, &job->err) : play_seeds(run, job);
    job->failed = job->status != STP_OK;
    if (job->failed)
        stop_at(run->shared, atomic_load(&job->seed));
}

/* ---- in the caller's ---- */

static enum stp_status start(struct run *run, struct job *job, bool check)
{
    pid_t parent = getpid();

    memset(job, 0, sizeof(*job));
    fflush(NULL);
    job->pid = fork();
    if (job->pid < 0)
        return stp_fail(run->err, STP_ERR_DEVICE, "no new process: %s",
                        strerror(errno));
    if (job->pid > 0)
        return STP_OK;
    close(run->ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        work(run, job, check);
    exit(0); /* the plugin's destructors run, and what it printed is kept */
}

/* What became of a process that is no more. */
static void take_end(struct run *run, struct job *job, int wait_status)
{
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return;
    job->failed = true;
    job->status = stp_fail(
        &job->err, STP_ERR_DEVICE,
        "tuner plugin '%s' %s%s%s when mock NCCL called it, in schedule %u",
        run->options->plugin, WIFSIGNALED(wait_status) ? "crashed (" : "exited",
        WIFSIGNALED(wait_status) ? strsignal(WTERMSIG(wait_status)) : "",
        WIFSIGNALED(wait_status) ? ")" : "", atomic_load(&job->seed));
    stop_at(run->shared, atomic_load(&job->seed));
}

static void reap(struct run *run, struct job *job)
{
    int wait_status = 0;
    pid_t pid;

    do
        pid = waitpid(job->pid, &wait_status, 0);
    while (pid < 0 && errno == EINTR);
    take_end(run, job, wait_status);
}

static bool report(const struct run *run)
{
    return run->options->progress(run->options->user,
                                  atomic_load(&run->shared->n_done),
                                  run->options->n_seeds);
}

/* Until the last process has closed the pipe; false if the user stops it. */
static bool watch(const struct run *run)
{
    struct pollfd end = {.fd = run->ends[0]};
    bool go_on = true;

    if (run->options->progress == NULL)
        return true;
    while (poll(&end, 1, POLL_MS) <= 0) {
        go_on = report(run) && go_on;
        if (!go_on)
            stop_at(run->shared, 0);
    }
    return report(run) && go_on;
}

/* The failure of the first schedule that has one. */
static enum stp_status first_failure(const struct run *run)
{
    const struct job *first = NULL;

    for (unsigned i = 0; i < run->n_jobs; i++) {
        const struct job *job = &run->shared->jobs[i];

        if (job->failed && (first == NULL || job->seed < first->seed))
            first = job;
    }
    if (first == NULL)
        return STP_OK;
    *run->err = first->err;
    return first->status;
}

static enum stp_status run_jobs(struct run *run, bool check)
{
    struct shared *shared = run->shared;
    unsigned n = 0;
    enum stp_status status = STP_OK;
    bool whole;

    if (pipe(run->ends) != 0)
        return stp_fail(run->err, STP_ERR_DEVICE, "no pipe: %s",
                        strerror(errno));
    atomic_store(&shared->next, 0);
    atomic_store(&shared->stop, run->options->n_seeds);
    while (n < run->n_jobs && status == STP_OK) {
        status = start(run, &shared->jobs[n], check);
        n += status == STP_OK;
    }
    if (status != STP_OK)
        stop_at(shared, 0);
    close(run->ends[1]);
    whole = check || watch(run);
    for (unsigned i = 0; i < n; i++)
        reap(run, &shared->jobs[i]);
    close(run->ends[0]);
    if (status == STP_OK)
        status = first_failure(run);
    if (status == STP_OK && !whole)
        status = stp_fail(run->err, STP_ERR_LIMIT, "interrupted");
    return status;
}

static unsigned count_jobs(const struct stp_replay_options *options)
{
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n = options->n_jobs;

    if (n == 0)
        n = n_cpus > 0 ? (unsigned)n_cpus : 1;
    if (n > MAX_JOBS)
        n = MAX_JOBS;
    return n < options->n_seeds ? n : options->n_seeds;
}

enum stp_status stp_replay_seeds(const struct stp_replay_plan *plan,
                                 const struct stp_replay_options *options,
                                 struct stp_replayed *rows,
                                 struct stp_error *err)
{
    size_t rows_size = plan->trace->n_rows * sizeof(*rows);
    struct run run = {.plan = plan,
                      .options = options,
                      .size = sizeof(struct shared) + rows_size,
                      .n_jobs = 1,
                      .err = err};
    enum stp_status status;

    run.shared = mmap(NULL, run.size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.shared == MAP_FAILED)
        return stp_nomem(err);
    memcpy(run.shared->rows, rows, rows_size);
    status = run_jobs(&run, true);
    run.n_jobs = count_jobs(options);
    if (status == STP_OK)
        status = run_jobs(&run, false);
    if (status == STP_OK)
        memcpy(rows, run.shared->rows, rows_size);
    munmap(run.shared, run.size);
    return status;
}
