/* job_time.c - the GPUs' timeline of a step */
#include <math.h>

#include "job/state.h"

enum { ROUND_STEPS = 50 };

/* The mean is 1, so noise does not make a job longer. */
static double job_time_compute_factor(const struct mock_job *job, uint64_t pass)
{
    const double pi = 3.14159265358979323846;
    double sigma = job->options.compute_noise;
    double a = mock_job_random(job, MOCK_JOB_COMPUTE, pass, 0);
    double b = mock_job_random(job, MOCK_JOB_COMPUTE, pass, 1);

    return exp(sigma * sqrt(-2 * log1p(-a)) * cos(2 * pi * b) -
               sigma * sigma / 2);
}

static double job_time_get_round(const struct mock_job *job, uint64_t pass)
{
    size_t steps = job->options.round_steps;

    return mock_job_random(job, MOCK_JOB_ROUND,
                           pass / (steps != 0 ? steps : ROUND_STEPS), 0);
}

/* The duration of call 'i' without overlap. */
static ncclResult_t job_time_time_call(const struct mock_job *job,
                                       struct mock_job_pass *pass, size_t i)
{
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
static double job_time_spread_ranks(const struct mock_job *job,
                                    struct mock_job_pass *pass, size_t i)
{
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

/* ---- one after the other ---- */

static double job_time_place_in_turn(const struct mock_job *job,
                                     struct mock_job_pass *pass, double factor)
{
    const struct mock_job_shape *shape = &job->shapes[pass->shape];
    double now = pass->begin_us;

    for (size_t i = 0; i < shape->n; i++) {
        double launched = pass->begin_us + (double)(i + 1) * MOCK_JOB_LAUNCH_US;

        now = fmax(now, launched) + shape->calls[i].compute_us * factor +
              job_time_spread_ranks(job, pass, i);
        pass->runs[i].start_us = now;
        now += pass->runs[i].us;
    }
    return now + shape->tail_us * factor;
}

/* ---- beside each other ---- */

/* Two streams, with the remaining time of their current work. */
struct streams {
    const struct mock_job *job;
    struct mock_job_pass *pass;
    const struct mock_job_shape *shape;
    double factor;
    double now_us;
    size_t compute; /* index of the current compute; shape->n is the tail */
    double compute_left_us;
    size_t comm;
    double comm_left_us;
    double slowdown; /* slowdown of the current collective and compute; 0: not
                        known */
};

static double job_time_compute_of(const struct streams *s, size_t i)
{
    double us =
        i < s->shape->n ? s->shape->calls[i].compute_us : s->shape->tail_us;

    return us * s->factor;
}

static void job_time_begin_compute(struct streams *s, size_t i)
{
    s->compute = i;
    s->slowdown = 0;
    if (i <= s->shape->n)
        s->compute_left_us = job_time_compute_of(s, i);
    if (i < s->shape->n)
        s->compute_left_us += job_time_spread_ranks(s->job, s->pass, i);
}

static void job_time_begin_comm(struct streams *s, size_t i)
{
    s->comm = i;
    s->slowdown = 0;
    if (i < s->shape->n)
        s->comm_left_us = s->pass->runs[i].us;
}

static ncclResult_t job_time_find_slowdown(struct streams *s)
{
    struct mock_overlap overlap;
    uint64_t number = s->pass->number;
    ncclResult_t rc = mock_machine_overlap(
        s->job->machine, &s->pass->runs[s->comm].run,
        fmax(1, job_time_compute_of(s, s->compute)),
        job_time_get_round(s->job, number),
        mock_job_random(s->job, MOCK_JOB_ITERATION, number, s->comm), &overlap);

    if (rc == ncclSuccess)
        s->slowdown = overlap.slowdown;
    return rc;
}

/* Runs until the current work of a stream ends. */
static ncclResult_t job_time_advance(struct streams *s)
{
    bool computes = s->compute <= s->shape->n;
    bool sends = s->comm < s->shape->n && s->comm < s->compute;
    ncclResult_t rc = ncclSuccess;
    double us;

    if (computes && sends && s->slowdown == 0)
        rc = job_time_find_slowdown(s);
    us = computes && sends ? fmin(s->compute_left_us, s->comm_left_us)
         : computes        ? s->compute_left_us
                           : s->comm_left_us;
    s->now_us += us * (computes && sends ? s->slowdown : 1);
    if (sends && (s->comm_left_us -= us) <= 0)
        job_time_begin_comm(s, s->comm + 1);
    if (computes && (s->compute_left_us -= us) <= 0)
        job_time_begin_compute(s, s->compute + 1);
    if (s->comm < s->shape->n && s->comm < s->compute &&
        s->pass->runs[s->comm].start_us < 0)
        s->pass->runs[s->comm].start_us = s->now_us;
    return rc;
}

/* A collective's time then includes the slowdown of its overlap. */
static ncclResult_t job_time_place_overlapped(const struct mock_job *job,
                                              struct mock_job_pass *pass,
                                              double factor, double *end_us_ret)
{
    struct streams s = {.job = job,
                        .pass = pass,
                        .shape = &job->shapes[pass->shape],
                        .factor = factor,
                        .now_us = pass->begin_us};
    ncclResult_t rc = ncclSuccess;

    for (size_t i = 0; i < s.shape->n; i++)
        pass->runs[i].start_us = -1;
    job_time_begin_compute(&s, 0);
    job_time_begin_comm(&s, 0);
    while ((s.compute <= s.shape->n || s.comm < s.shape->n) &&
           rc == ncclSuccess) {
        size_t comm = s.comm;

        rc = job_time_advance(&s);
        if (s.comm != comm)
            pass->runs[comm].us = s.now_us - pass->runs[comm].start_us;
    }
    *end_us_ret = s.now_us;
    return rc;
}

ncclResult_t mock_job_time(const struct mock_job *job,
                           struct mock_job_pass *pass, double *end_us_ret)
{
    const struct mock_job_shape *shape = &job->shapes[pass->shape];
    double factor = job_time_compute_factor(job, pass->number);
    double launched =
        pass->begin_us + (double)(shape->n + 1) * MOCK_JOB_LAUNCH_US;
    ncclResult_t rc = ncclSuccess;

    for (size_t i = 0; i < shape->n && rc == ncclSuccess; i++)
        rc = job_time_time_call(job, pass, i);
    if (rc != ncclSuccess)
        return rc;
    if (job->options.overlapped)
        rc = job_time_place_overlapped(job, pass, factor, end_us_ret);
    else
        *end_us_ret = job_time_place_in_turn(job, pass, factor);
    *end_us_ret = fmax(*end_us_ret, launched);
    return rc;
}
