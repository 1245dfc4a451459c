/* job_time.c - the GPUs' timeline of a step */
#include <math.h>

#include "support/job/state.h"

enum { ROUND_STEPS = 50 }; /* successive steps with times of one round */

/* Places compute, in equal parts of a launch each; but a call's last launch is
 * its collective's, which has no part unless it is the only one. */
static void job_time_place_compute(struct mock_job *job, size_t i)
{
    const struct mock_job_shape *shape = &job->shapes[job->pass.shape];
    bool is_call = i < shape->n;
    size_t n = job->pass.groups[i].n;
    double us = job->pass.factor *
                (is_call ? shape->calls[i].compute_us : shape->tail_us);

    n = n > 1 && is_call ? n - 1 : n > 1 ? n : 1;
    for (size_t k = 0; k < n; k++) {
        job->gpu_us =
            fmax(job->gpu_us, mock_job_issued_us(job, i, k)) + us / (double)n;
        mock_job_end_launch(job, i, k, job->gpu_us);
    }
}

void mock_job_begin_time(struct mock_job *job)
{
    struct mock_job_pass *pass = &job->pass;

    /* the mean is 1, so noise does not make a job longer */
    pass->factor = mock_job_draw_factor(
        job, MOCK_JOB_COMPUTE, job->options.compute_noise, pass->number, 0);
    pass->begin_us = job->gpu_us;
}

ncclResult_t mock_job_time(struct mock_job *job, size_t i)
{
    const struct mock_job_options *o = &job->options;
    struct mock_job_pass *pass = &job->pass;
    struct mock_job_run *run = &pass->runs[i];
    size_t n = pass->groups[i].n, n_ranks = (size_t)job->n_ranks;
    double last_us = 0;
    struct mock_time time;
    ncclResult_t rc;

    run->call = &job->shapes[pass->shape].calls[i].call;
    run->run = mock_outcome_run(run->call, &pass->outcomes[i]);
    run->run.graph = o->captured;
    rc = mock_machine_time(
        job->machine, &run->run,
        mock_job_random(job, MOCK_JOB_ROUND, pass->number / ROUND_STEPS, 0),
        mock_job_random(job, MOCK_JOB_ITERATION, pass->number, i), &time);
    if (rc != ncclSuccess)
        return rc;
    run->us = time.us;
    run->launched_us = mock_job_launched_us(job, i);

    job_time_place_compute(job, i);
    for (size_t r = 0; r < n_ranks; r++) {
        double *late_us = &pass->late_us[i * n_ranks + r];

        *late_us =
            o->jitter_us * mock_job_random(job, MOCK_JOB_JITTER, pass->number,
                                           i * n_ranks + r);
        last_us = fmax(last_us, *late_us);
    }
    run->start_us = fmax(job->gpu_us, run->launched_us) + last_us;
    job->gpu_us = run->start_us + run->us;
    mock_job_end_launch(job, i, n > 0 ? n - 1 : 0, job->gpu_us);
    return ncclSuccess;
}

void mock_job_end_time(struct mock_job *job)
{
    job_time_place_compute(job, job->shapes[job->pass.shape].n);
    if (job->options.captured)
        mock_job_end_launch(job, 0, 0, job->gpu_us);
}
