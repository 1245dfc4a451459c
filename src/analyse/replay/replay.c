#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "analyse/replay/replay.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyse/replay/replay_plan.h"
#include "child/child.h"
#include "core/names.h"
#include "core/text.h"
#include "device/mock/operation.h"
#include "launch/take.h"

/* ==== one random schedule ==== */

struct play {
    const struct stp_replay_plan *plan;
    struct mock_nccl *nccl;
    enum mock_layout layout;
    unsigned seed;
    struct mock_ranks **ranks; /* of each communicator; NULL: not now */
    struct stp_replayed *rows; /* NULL: nobody wants to know */
    size_t first;              /* step of the segment that is played */
    struct stp_error *err;
};

static enum stp_status play_fail(const struct play *p, size_t comm)
{
    const struct stp_trace_comm *c = &p->plan->trace->comms[comm];
    char where[64] = "";

    if (p->plan->trace->n_comms > 1)
        snprintf(where, sizeof(where), "communicator '%s': ", c->name);
    return stp_fail(p->err, STP_ERR_DEVICE, "schedule %u: %s%s", p->seed, where,
                    mock_last_error());
}

static bool replay_came_out(const struct stp_expect *want,
                            const struct stp_replayed *got)
{
    switch (want->kind) {
    case STP_EXPECT_ANYTHING:
        return true;
    case STP_EXPECT_AUTO:
        return got->algo == got->auto_algo && got->proto == got->auto_proto;
    case STP_EXPECT_PAIR:
        return got->algo == want->algo && got->proto == want->proto &&
               (want->n_channels == 0 || got->n_channels == want->n_channels);
    }
    return false;
}

static void play_note(void *user, size_t step, size_t i,
                      const struct mock_outcome *outcome)
{
    const struct play *p = user;
    const struct stp_replay_plan *plan = p->plan;
    size_t call = plan->first[p->first + step] + i;
    struct stp_replayed *row = &p->rows[plan->order[call]];
    const struct stp_expect *want =
        &plan->trace->rows[plan->order[call]].expect;

    if (row->n_colors++ > 0 && !replay_came_out(want, row))
        return;
    row->algo = outcome->algo;
    row->proto = outcome->proto;
    row->n_channels = outcome->n_channels;
}

/* ---- communicators ---- */

static void play_destroy(const struct play *p, size_t i)
{
    mock_ranks_destroy(p->ranks[i]);
    p->ranks[i] = NULL;
}

/* Creates a communicator after the one whose name it takes: that may be its
 * parent, which is created for this where it has run nothing. */
static enum stp_status play_open_comm(const struct play *p, size_t i)
{
    const struct stp_trace_comm *comm = &p->plan->trace->comms[i];
    const struct mock_machine *machine = stp_replay_machine(p->plan, i);
    const int *colors = p->plan->colors[i];
    ncclResult_t rc;

    if (p->ranks[i] != NULL)
        return STP_OK;
    if (comm->creation != STP_INIT && p->ranks[comm->parent] == NULL)
        STP_TRY(play_open_comm(p, comm->parent));
    if (comm->creation == STP_SPLIT && colors != NULL)
        rc = mock_ranks_split_colors(p->ranks[comm->parent], machine, colors,
                                     &p->ranks[i]);
    else if (comm->creation == STP_SPLIT)
        rc = mock_ranks_split(p->ranks[comm->parent], machine, 0, &p->ranks[i]);
    else if (comm->creation == STP_SHRINK)
        rc = mock_ranks_shrink(p->ranks[comm->parent], machine, &p->ranks[i]);
    else
        rc = mock_ranks_create(
            p->nccl, machine,
            &(struct mock_ranks_options){.layout = p->layout,
                                         .comm_id = mock_new_comm_id()},
            &p->ranks[i]);
    if (rc != ncclSuccess)
        return play_fail(p, i);
    if (comm->replaces != i)
        play_destroy(p, comm->replaces);
    return STP_OK;
}

static enum stp_status replay_play_run(const struct stp_replay_plan *plan,
                                       struct mock_nccl *nccl,
                                       enum mock_layout layout, unsigned seed,
                                       struct stp_replayed *rows,
                                       struct stp_error *err)
{
    const size_t n = plan->trace->n_comms;
    struct play p = {.plan = plan,
                     .nccl = nccl,
                     .layout = layout,
                     .seed = seed,
                     .rows = rows,
                     .err = err};
    enum stp_status status = STP_OK;

    STP_TAKE(p.ranks, n);
    for (size_t i = 0; i < plan->n_segments && status == STP_OK; i++) {
        const struct stp_replay_segment *segment = &plan->segments[i];
        const struct mock_script script = {
            .steps = &plan->steps[segment->first],
            .n_steps = segment->n_steps,
            .decided = rows != NULL ? play_note : NULL,
            .user = &p,
        };

        status = play_open_comm(&p, segment->comm);
        p.first = segment->first;
        /* each its own schedule, far from those of other seeds */
        if (status == STP_OK &&
            mock_ranks_play(p.ranks[segment->comm], &script,
                            seed + ((uint64_t)i << 32)) != ncclSuccess)
            status = play_fail(&p, segment->comm);
    }
    for (size_t i = n; i-- > 0;)
        play_destroy(&p, i);
    free(p.ranks);
    return status;
}

/* The schedules are shared out to processes.
 *
 * Each process takes the next schedule that nobody has taken, until one fails:
 * then no later one is begun, and those before it, which have all been taken,
 * are played to their end.  So the first that fails is found, however many
 * processes there are.  The tuner lives in these processes only: ranks that are
 * processes each load their own, and a crash leaves somebody to say so. */

enum { MAX_JOBS = 256, POLL_MS = 100 };

/* The results of a process, in memory that all share. */
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

static void jobs_stop_at(struct shared *shared, unsigned seed)
{
    unsigned stop = atomic_load(&shared->stop);

    while (seed < stop &&
           !atomic_compare_exchange_weak(&shared->stop, &stop, seed))
        ;
}

/* A plugin that does not load would agree with itself. */
static enum stp_status jobs_check_plugin(const struct run *run,
                                         struct stp_error *err)
{
    const char *plugin = run->options->plugin;
    struct mock_nccl *nccl;
    struct mock_comm *comm;
    enum stp_status status;

    STP_TRY(stp_replay_open(run->plan, plugin, &nccl, err));
    if (mock_comm_create(nccl, stp_replay_machine(run->plan, 0),
                         mock_new_comm_id(), &comm) != ncclSuccess) {
        status = stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    } else {
        status = stp_mock_check_tuner(comm, run->plan->nccl, plugin, err);
        mock_comm_destroy(comm);
    }
    mock_nccl_destroy(nccl);
    return status;
}

static enum stp_status jobs_play_seeds(const struct run *run, struct job *job)
{
    struct shared *shared = run->shared;
    struct mock_nccl *nccl;
    enum stp_status status = STP_OK;
    unsigned seed;

    STP_TRY(stp_replay_open(run->plan, run->options->plugin, &nccl, &job->err));
    while (status == STP_OK && (seed = atomic_fetch_add(&shared->next, 1)) <
                                   atomic_load(&shared->stop)) {
        atomic_store(&job->seed, seed);
        status = replay_play_run(run->plan, nccl, run->options->layout, seed,
                                 seed == 0 ? shared->rows : NULL, &job->err);
        atomic_fetch_add(&shared->n_done, 1);
    }
    mock_nccl_destroy(nccl);
    return status;
}

/* ---- in the caller's ---- */

/* Starts the first process, which only checks the plugin, or another one. */
static enum stp_status jobs_start(struct run *run, struct job *job, bool check)
{
    pid_t child;

    memset(job, 0, sizeof(*job)); /* both processes share it */
    child = stp_child_start(false);
    if (child < 0)
        return stp_fail(run->err, STP_ERR_DEVICE, "no new process: %s",
                        strerror(errno));
    if (child > 0) {
        job->pid = child;
        return STP_OK;
    }
    close(run->ends[0]);
    job->status =
        check ? jobs_check_plugin(run, &job->err) : jobs_play_seeds(run, job);
    job->failed = job->status != STP_OK;
    if (job->failed)
        jobs_stop_at(run->shared, atomic_load(&job->seed));
    exit(0); /* the plugin's destructors run, and what it printed is kept */
}

static bool jobs_report(const struct run *run)
{
    return run->options->progress(run->options->user,
                                  atomic_load(&run->shared->n_done),
                                  run->options->n_seeds);
}

static enum stp_status jobs_run(struct run *run, bool check)
{
    struct shared *shared = run->shared;
    const bool reports = !check && run->options->progress != NULL;
    const struct job *first = NULL; /* of those that fail */
    struct pollfd end;
    enum stp_status status = STP_OK;
    bool whole = true;
    unsigned n = 0;

    if (pipe(run->ends) != 0)
        return stp_fail(run->err, STP_ERR_DEVICE, "no pipe: %s",
                        strerror(errno));
    atomic_store(&shared->next, 0);
    atomic_store(&shared->stop, run->options->n_seeds);
    while (n < run->n_jobs && status == STP_OK) {
        status = jobs_start(run, &shared->jobs[n], check);
        n += status == STP_OK;
    }
    if (status != STP_OK)
        jobs_stop_at(shared, 0);
    close(run->ends[1]);
    /* until the last process has closed the pipe */
    end = (struct pollfd){.fd = run->ends[0]};
    while (reports && poll(&end, 1, POLL_MS) <= 0) {
        whole = jobs_report(run) && whole;
        if (!whole)
            jobs_stop_at(shared, 0);
    }
    whole = (!reports || jobs_report(run)) && whole;
    for (unsigned i = 0; i < n; i++) {
        struct job *job = &shared->jobs[i];
        const int exit_status = stp_child_await(job->pid);
        const char *crash = stp_child_crash(exit_status);

        if (exit_status != 0) {
            job->failed = true;
            job->status = stp_fail(
                &job->err, STP_ERR_DEVICE,
                "tuner plugin '%s' %s%s%s when mock NCCL called it, in "
                "schedule %u",
                run->options->plugin, crash != NULL ? "crashed (" : "exited",
                crash != NULL ? crash : "", crash != NULL ? ")" : "",
                atomic_load(&job->seed));
            jobs_stop_at(shared, atomic_load(&job->seed));
        }
        if (job->failed && (first == NULL || job->seed < first->seed))
            first = job;
    }
    close(run->ends[0]);
    if (status == STP_OK && first != NULL) {
        *run->err = first->err;
        status = first->status;
    }
    if (status == STP_OK && !whole)
        status = stp_fail(run->err, STP_ERR_LIMIT, "interrupted");
    return status;
}

static enum stp_status jobs_run_seeds(const struct stp_replay_plan *plan,
                                      const struct stp_replay_options *options,
                                      struct stp_replayed *rows,
                                      struct stp_error *err)
{
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n_jobs = options->n_jobs;
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
    status = jobs_run(&run, true);
    if (n_jobs == 0)
        n_jobs = n_cpus > 0 ? (unsigned)n_cpus : 1;
    if (n_jobs > MAX_JOBS)
        n_jobs = MAX_JOBS;
    run.n_jobs = n_jobs < options->n_seeds ? n_jobs : options->n_seeds;
    STP_THEN(status, jobs_run(&run, false));
    if (status == STP_OK)
        memcpy(rows, run.shared->rows, rows_size);
    munmap(run.shared, run.size);
    return status;
}

struct replay {
    struct stp_replay_plan plan;
    struct mock_nccl *nccl;        /* without a tuner */
    struct mock_comm **comms;      /* in it, by size */
    struct mock_outcome *outcomes; /* of a step */
    struct stp_replay out;
    struct stp_error *err;
};

/* Without a tuner all communicators of one size are alike, and so are ranks. */
static enum stp_status replay_play_alone(struct replay *r)
{
    STP_TRY(stp_replay_open(&r->plan, "none", &r->nccl, r->err));
    for (size_t i = 0; i < r->plan.n_sizes; i++)
        if (mock_comm_create(r->nccl, r->plan.sizes[i].machine,
                             mock_new_comm_id(), &r->comms[i]) != ncclSuccess)
            return stp_fail(r->err, STP_ERR_DEVICE, "%s", mock_last_error());
    for (size_t s = 0; s < r->plan.n_steps; s++) {
        const struct mock_step *step = &r->plan.steps[s];
        const size_t *order = &r->plan.order[r->plan.first[s]];
        const struct stp_trace_row *rows = r->plan.trace->rows;
        const size_t comm = rows[order[0]].comm;
        const struct mock_machine *machine = stp_replay_machine(&r->plan, comm);

        if (mock_comm_group(r->comms[r->plan.size_of[comm]], step->calls,
                            step->n, r->outcomes) != ncclSuccess)
            return stp_fail_at(r->err, STP_ERR_DEVICE,
                               rows[order[0]].place.line, 0, "%s",
                               mock_last_error());
        for (size_t i = 0; i < step->n; i++) {
            const unsigned n_launches = rows[order[i]].n_launches;
            struct stp_replayed *row = &r->out.rows[order[i]];

            row->auto_algo = r->outcomes[i].algo;
            row->auto_proto = r->outcomes[i].proto;
            row->n_ranks = mock_machine_get_info(machine)->n_ranks;
            r->out.n_asked += r->outcomes[i].asked;
            r->out.n_run += n_launches > 0 ? n_launches : 1;
        }
    }
    return STP_OK;
}

static enum stp_status replay_check_rows(struct replay *r)
{
    for (size_t i = 0; i < r->plan.trace->n_rows; i++) {
        const struct stp_trace_row *row = &r->plan.trace->rows[i];
        const struct stp_replayed *got = &r->out.rows[i];
        const struct stp_expect *expect = &row->expect;
        const bool is_auto = expect->kind == STP_EXPECT_AUTO;
        char want[80];

        if (replay_came_out(expect, got))
            continue;
        snprintf(want, sizeof(want), "%s%s/%s", is_auto ? "NCCL's own " : "",
                 stp_algo_name(is_auto ? got->auto_algo : expect->algo),
                 stp_proto_name(is_auto ? got->auto_proto : expect->proto));
        if (!is_auto && expect->n_channels != 0)
            stp_append(want, sizeof(want), "/%d", expect->n_channels);
        return stp_fail_at(r->err, STP_ERR_DEVICE, row->place.line, 0,
                           "%s of %zu bytes: wanted %s, got %s/%s/%d",
                           stp_coll_name((int)row->call.coll),
                           row->call.n_bytes, want, stp_algo_name(got->algo),
                           stp_proto_name(got->proto), got->n_channels);
    }
    return STP_OK;
}

/* ---- all of it ---- */

enum stp_status stp_replay(const struct stp_replay_options *options,
                           const struct stp_trace *trace,
                           struct stp_replay *replay_ret, struct stp_error *err)
{
    struct replay r = {.err = err};
    struct stp_replay_plan *plan = &r.plan;
    enum stp_status status = stp_replay_plan_make(plan, options, trace, err);

    if (status == STP_OK) {
        STP_TAKE(r.comms, plan->n_sizes);
        STP_TAKE(r.outcomes, trace->n_rows);
        STP_TAKE(r.out.rows, trace->n_rows);
        r.out.n_steps = plan->n_steps;
        r.out.machine_ranks =
            (unsigned)mock_machine_get_info(plan->machine)->n_ranks;
        r.out.mixed = plan->n_sizes > 1;
        for (size_t i = 0; i < plan->n_sizes; i++) {
            const unsigned n = (unsigned)plan->sizes[i].n_ranks;

            r.out.resized |= plan->sizes[i].owned != NULL;
            if (n > r.out.n_ranks)
                r.out.n_ranks = n;
        }
    }
    STP_THEN(status, replay_play_alone(&r));
    STP_THEN(status, jobs_run_seeds(plan, options, r.out.rows, err));
    STP_THEN(status, replay_check_rows(&r));
    for (size_t i = 0; r.comms != NULL && i < plan->n_sizes; i++)
        mock_comm_destroy(r.comms[i]);
    mock_nccl_destroy(r.nccl);
    free(r.comms);
    free(r.outcomes);
    stp_replay_plan_free(plan);
    if (status == STP_OK)
        *replay_ret = r.out;
    else
        stp_replay_free(&r.out);
    return status;
}

void stp_replay_free(struct stp_replay *replay)
{
    free(replay->rows);
    memset(replay, 0, sizeof(*replay));
}
