/* job_time.c - the GPUs' timeline of a step */
#include <math.h>

#include "support/job/state.h"

enum { ROUND_STEPS = 50 };

static double job_time_get_round(const struct mock_job *job, uint64_t pass)
{
    size_t steps = job->options.round_steps;

    return mock_job_random(job, MOCK_JOB_ROUND,
                           pass / (steps != 0 ? steps : ROUND_STEPS), 0);
}

/* The duration of call 'i' without overlap. */
static ncclResult_t job_time_time_call(struct mock_job *job, size_t i)
{
    struct mock_job_pass *pass = &job->pass;
    struct mock_job_run *r = &pass->runs[i];
    struct mock_time time;
    ncclResult_t rc;

    r->call = &job->shapes[pass->shape].calls[i].call;
    r->run = mock_outcome_run(r->call, &pass->outcomes[i]);
    if (job->options.replace != NULL)
        job->options.replace(job->options.user, r->call, &r->run);
    rc = mock_machine_time(
        job->machine, &r->run, job_time_get_round(job, pass->number),
        mock_job_random(job, MOCK_JOB_ITERATION, pass->number, i), &time);
    if (rc != ncclSuccess)
        return rc;
    r->us = time.us;
    r->launched_us = mock_job_launched_us(job, i);
    r->n_ahead = mock_job_count_ahead(job, i);
    r->source = time.source;
    if (job->options.drift.factor > 0 && job->step >= job->options.drift.from &&
        r->run.algo == job->options.drift.algo &&
        r->run.proto == job->options.drift.proto)
        r->us *= job->options.drift.factor;
    return ncclSuccess;
}

/* Sets each rank's lateness, the time by which it waits less than the first
 * one; returns the delay of the last rank after its compute.
 */
static double job_time_spread_ranks(const struct mock_job *job, size_t i)
{
    const struct mock_job_pass *pass = &job->pass;
    size_t n = (size_t)job->n_ranks;
    double *late = &pass->late_us[i * n];
    double last = 0;

    for (size_t r = 0; r < n; r++) {
        late[r] =
            job->options.jitter_us *
            mock_job_random(job, MOCK_JOB_JITTER, pass->number, i * n + r);
        last = fmax(last, late[r]);
    }
    return last;
}

/* The stall before call 'i', or in the tail; 0 if there is none. */
static double job_time_stall_of(const struct mock_job *job, size_t i)
{
    const uint64_t pass = job->pass.number;
    const size_t n = job->shapes[job->pass.shape].n + 1;

    if (mock_job_random(job, MOCK_JOB_STALL, pass, 0) >= job->options.stalls ||
        (size_t)((double)n *
                 mock_job_random(job, MOCK_JOB_STALL_PLACE, pass, 0)) != i)
        return 0;
    return job->options.stall_us *
           (0.5 + mock_job_random(job, MOCK_JOB_STALL_US, pass, 0));
}

static double job_time_compute_of(const struct mock_job *job, size_t i)
{
    const struct mock_job_shape *shape = &job->shapes[job->pass.shape];

    return job->pass.factor *
           (i < shape->n ? shape->calls[i].compute_us : shape->tail_us);
}

/* Compute before call 'i', with its stall. */
static double job_time_until(const struct mock_job *job, size_t i)
{
    return job_time_compute_of(job, i) + job_time_stall_of(job, i);
}

/* ---- one after the other ---- */

/* Compute, in equal parts of a launch each; but a call's last launch is its
 * collective's, which has no part unless it is the only one. */
static void job_time_place_compute(struct mock_job *job, size_t i)
{
    bool is_call = i < job->shapes[job->pass.shape].n;
    size_t n = job->pass.groups[i].n;
    double us = job_time_until(job, i);

    n = n > 1 && is_call ? n - 1 : n > 1 ? n : 1;
    for (size_t k = 0; k < n; k++) {
        job->gpu_us =
            fmax(job->gpu_us, mock_job_issued_us(job, i, k)) + us / (double)n;
        mock_job_end_launch(job, i, k, job->gpu_us);
    }
}

static void job_time_place_in_turn(struct mock_job *job, size_t i)
{
    struct mock_job_run *run = &job->pass.runs[i];
    size_t n = job->pass.groups[i].n;

    job_time_place_compute(job, i);
    job->gpu_us =
        fmax(job->gpu_us, run->launched_us) + job_time_spread_ranks(job, i);
    run->start_us = job->gpu_us;
    job->gpu_us += run->us;
    mock_job_end_launch(job, i, n > 0 ? n - 1 : 0, job->gpu_us);
}

/* ---- beside each other ---- */

static void job_time_begin_compute(struct mock_job *job, size_t i)
{
    struct mock_job_streams *s = &job->streams;
    size_t n = job->shapes[job->pass.shape].n;

    s->compute = i;
    s->slowdown = 0;
    if (i <= n)
        s->compute_left_us = job_time_until(job, i);
    if (i < n)
        s->compute_left_us += job_time_spread_ranks(job, i);
}

static void job_time_begin_comm(struct mock_job *job, size_t i)
{
    struct mock_job_streams *s = &job->streams;

    s->comm = i;
    s->slowdown = 0;
    if (i < job->shapes[job->pass.shape].n)
        s->comm_left_us = job->pass.runs[i].us;
}

/* It may end before the host's time of its launch. */
static void job_time_end_compute(struct mock_job *job)
{
    size_t i = job->streams.compute;

    job->pass.computed_us[i] = job->streams.now_us;
    job_time_begin_compute(job, i + 1);
}

static void job_time_end_comm(struct mock_job *job)
{
    struct mock_job_streams *s = &job->streams;
    struct mock_job_run *run = &job->pass.runs[s->comm];

    run->us = s->now_us - run->start_us;
    job_time_begin_comm(job, s->comm + 1);
}

static ncclResult_t job_time_find_slowdown(struct mock_job *job)
{
    struct mock_job_streams *s = &job->streams;
    uint64_t number = job->pass.number;
    struct mock_overlap overlap;
    ncclResult_t rc = mock_machine_overlap(
        job->machine, &job->pass.runs[s->comm].run, MOCK_MODE_OVERLAP,
        fmax(1, job_time_compute_of(job, s->compute)),
        job_time_get_round(job, number),
        mock_job_random(job, MOCK_JOB_ITERATION, number, s->comm), &overlap);

    if (rc == ncclSuccess)
        s->slowdown = overlap.slowdown;
    return rc;
}

/* Runs until the current work of a stream ends. */
static ncclResult_t job_time_advance(struct mock_job *job)
{
    struct mock_job_streams *s = &job->streams;
    size_t n = job->shapes[job->pass.shape].n;
    bool computes = s->compute <= n;
    bool sends = s->comm < n && s->comm < s->compute;
    ncclResult_t rc = ncclSuccess;
    double us;

    if (computes && sends && s->slowdown == 0)
        rc = job_time_find_slowdown(job);
    us = computes && sends ? fmin(s->compute_left_us, s->comm_left_us)
         : computes        ? s->compute_left_us
                           : s->comm_left_us;
    s->now_us += us * (computes && sends ? s->slowdown : 1);
    if (sends && (s->comm_left_us -= us) <= 0)
        job_time_end_comm(job);
    if (computes && (s->compute_left_us -= us) <= 0)
        job_time_end_compute(job);
    if (s->comm < n && s->comm < s->compute &&
        job->pass.runs[s->comm].start_us < 0)
        job->pass.runs[s->comm].start_us = s->now_us;
    return rc;
}

static void job_time_end_launches(struct mock_job *job, size_t i)
{
    for (size_t k = 0; k < job->pass.groups[i].n; k++)
        mock_job_end_launch(job, i, k, job->pass.computed_us[i]);
}

/* A collective's time then includes the slowdown of its overlap. */
static ncclResult_t job_time_place_overlapped(struct mock_job *job, size_t i)
{
    size_t n = job->pass.groups[i].n;
    ncclResult_t rc = ncclSuccess;

    job_time_begin_comm(job, i);
    while (job->streams.comm <= i && rc == ncclSuccess)
        rc = job_time_advance(job);
    job_time_end_launches(job, i);
    mock_job_end_launch(job, i, n > 0 ? n - 1 : 0, job->streams.now_us);
    return rc;
}

static ncclResult_t job_time_end_overlapped(struct mock_job *job)
{
    size_t n = job->shapes[job->pass.shape].n;
    ncclResult_t rc = ncclSuccess;

    while (job->streams.compute <= n && rc == ncclSuccess)
        rc = job_time_advance(job);
    job_time_end_launches(job, n);
    job->gpu_us = fmax(job->streams.now_us, mock_job_launched_us(job, n));
    return rc;
}

/* ---- a pass ---- */

void mock_job_begin_time(struct mock_job *job)
{
    struct mock_job_pass *pass = &job->pass;

    /* the mean is 1, so noise does not make a job longer */
    pass->factor = mock_job_draw_factor(
        job, MOCK_JOB_COMPUTE, job->options.compute_noise, pass->number, 0);
    pass->begin_us = job->gpu_us;
    for (size_t i = 0; i < job->shapes[pass->shape].n; i++)
        pass->runs[i].start_us = -1;
    job->streams = (struct mock_job_streams){.now_us = job->gpu_us};
    job_time_begin_compute(job, 0);
}

ncclResult_t mock_job_time(struct mock_job *job, size_t i)
{
    ncclResult_t rc = job_time_time_call(job, i);

    if (rc == ncclSuccess && job->options.overlapped)
        return job_time_place_overlapped(job, i);
    if (rc == ncclSuccess)
        job_time_place_in_turn(job, i);
    return rc;
}

ncclResult_t mock_job_end_time(struct mock_job *job)
{
    size_t n = job->shapes[job->pass.shape].n;
    ncclResult_t rc = ncclSuccess;

    if (job->options.overlapped)
        rc = job_time_end_overlapped(job);
    else
        job_time_place_compute(job, n);
    if (job->options.captured)
        mock_job_end_launch(job, 0, 0, job->gpu_us);
    return rc;
}
