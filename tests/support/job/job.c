/* job.c - a training job: runs its steps in order */
#define _GNU_SOURCE /* open_memstream() */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mix.h"
#include "base/names.h"
#include "support/job/state.h"
#include "machine/machine.h"

enum { STEP, WARM_UP, EVALUATION };

/* ---- random numbers and clocks ---- */

/* The time of the clocks at the begin of a job: a plausible date. */
static const int64_t epoch_ns = INT64_C(1700000000) * 1000000000;

double mock_job_random(const struct mock_job *job,
                       enum mock_job_purpose purpose, uint64_t pass,
                       uint64_t place)
{
    uint64_t z = mock_mix(job->options.seed + MOCK_GOLDEN);

    z = mock_mix(z + MOCK_GOLDEN * ((uint64_t)purpose + 1));
    z = mock_mix(z + MOCK_GOLDEN * (pass + 1));
    z = mock_mix(z + MOCK_GOLDEN * (place + 1));
    return (double)(z >> 11) / (double)(UINT64_C(1) << 53);
}

double mock_job_draw_factor(const struct mock_job *job,
                            enum mock_job_purpose purpose, double sigma,
                            uint64_t pass, uint64_t place)
{
    const double pi = 3.14159265358979323846;
    double a = mock_job_random(job, purpose, pass, 2 * place);
    double b = mock_job_random(job, purpose, pass, 2 * place + 1);

    return exp(sigma * sqrt(-2 * log1p(-a)) * cos(2 * pi * b) -
               sigma * sigma / 2);
}

void mock_job_clock(double us)
{
    mock_clock_set(epoch_ns + (int64_t)(us * 1000));
}

/* ---- life ---- */

/* Makes room for a pass of any shape. */
static ncclResult_t job_alloc_pass(struct mock_job *job)
{
    const struct mock_job_host *host = &job->options.host;
    struct mock_job_pass *pass = &job->pass;
    size_t n_groups = job->largest + 1;
    size_t n = (size_t)job->n_ranks * n_groups;

    job->ranks = calloc((size_t)job->n_ranks, sizeof(*job->ranks));
    job->ended_us = calloc(host->ahead + 1, sizeof(*job->ended_us));
    pass->groups = calloc(n_groups, sizeof(*pass->groups));
    pass->issued_us = calloc(n_groups * mock_job_count_launches(host),
                             sizeof(*pass->issued_us));
    pass->asked_us = calloc(n, sizeof(*pass->asked_us));
    pass->outcomes = calloc(n, sizeof(*pass->outcomes));
    pass->late_us = calloc(n, sizeof(*pass->late_us));
    pass->runs = calloc(n_groups, sizeof(*pass->runs));
    if (job->ranks == NULL || job->ended_us == NULL || pass->groups == NULL ||
        pass->issued_us == NULL || pass->asked_us == NULL ||
        pass->outcomes == NULL || pass->late_us == NULL || pass->runs == NULL)
        return mock_fail_memory();
    return ncclSuccess;
}

static void job_free_job(struct mock_job *job)
{
    struct mock_job_pass *pass = &job->pass;

    if (job->rewards != NULL)
        fclose(job->rewards);
    free(pass->groups);
    free(pass->issued_us);
    free(pass->asked_us);
    free(pass->outcomes);
    free(pass->late_us);
    free(pass->runs);
    free(job->ended_us);
    free(job->ranks);
    free(job->threads);
    free(job);
}

ncclResult_t mock_job_create(struct mock_nccl *nccl,
                             const struct mock_machine *machine,
                             const struct mock_job_options *options,
                             struct mock_job **job_ret)
{
    const size_t n_launches = mock_job_count_launches(&options->host);
    struct mock_job *job = calloc(1, sizeof(*job));
    struct mock_kept kept;
    ncclResult_t rc;

    if (job == NULL)
        return mock_fail_memory();
    job->nccl = nccl;
    job->machine = machine;
    job->options = *options;
    job->n_ranks = machine->info.n_ranks;
    job->shapes[STEP] = options->step;
    job->shapes[WARM_UP] = options->warm_up;
    job->shapes[EVALUATION] = options->evaluation;
    for (int s = 0; s < MOCK_JOB_SHAPES; s++)
        if (job->shapes[s].n > job->largest)
            job->largest = job->shapes[s].n;
    rc = job_alloc_pass(job);
    if (rc == ncclSuccess && options->host.ahead > 0 &&
        options->host.ahead < n_launches)
        rc = mock_fail(ncclInvalidArgument,
                       "a queue of %zu launches, but a collective and its "
                       "compute are %zu",
                       options->host.ahead, n_launches);
    if (rc == ncclSuccess && options->reward_file != NULL) {
        job->rewards = fopen(options->reward_file, "a");
        if (job->rewards == NULL)
            rc = mock_fail(ncclSystemError, "%s: %s", options->reward_file,
                           strerror(errno));
    }
    if (rc != ncclSuccess) {
        job_free_job(job);
        return rc;
    }
    rc = mock_job_start_ranks(job);
    if (rc != ncclSuccess) {
        mock_keep(&kept, rc);
        mock_job_destroy(job);
        return mock_restore(&kept);
    }
    *job_ret = job;
    return ncclSuccess;
}

/* ---- rewards ---- */

/* The application knows the times when the GPUs have done the pass. */
static ncclResult_t job_plan_rewards(struct mock_job *job)
{
    struct mock_job_rewards *rewards;
    size_t size;
    FILE *fp;

    if (job->rewards == NULL)
        return ncclSuccess;
    rewards = calloc(1, sizeof(*rewards));
    fp = rewards != NULL ? open_memstream(&rewards->text, &size) : NULL;
    if (fp == NULL) {
        free(rewards);
        return mock_fail_memory();
    }
    for (size_t i = 0; i < job->shapes[job->pass.shape].n; i++) {
        const struct mock_job_run *run = &job->pass.runs[i];

        fprintf(fp, "%s,%zu,%d,%d,%.6f\n",
                mock_word(&mock_colls, run->call->coll), run->call->n_bytes,
                job->machine->info.n_nodes, job->n_ranks, run->us / 1000);
    }
    fclose(fp);
    rewards->us = job->gpu_us;
    if (job->last_reward != NULL)
        job->last_reward->next = rewards;
    else
        job->first_reward = rewards;
    job->last_reward = rewards;
    return ncclSuccess;
}

static void job_write_rewards(struct mock_job *job)
{
    struct mock_job_rewards *rewards;

    while ((rewards = job->first_reward) != NULL &&
           rewards->us <= job->ranks[0].host_us) {
        fputs(rewards->text, job->rewards);
        fflush(job->rewards);
        job->first_reward = rewards->next;
        if (job->first_reward == NULL)
            job->last_reward = NULL;
        free(rewards->text);
        free(rewards);
    }
}

/* ---- the end ---- */

/* The host waits for the GPUs, and receives all events. */
void mock_job_destroy(struct mock_job *job)
{
    if (job == NULL)
        return;
    mock_job_wait(job);
    job_write_rewards(job);
    mock_job_report_kernels(job, INFINITY);
    mock_job_clock(mock_job_first_us(job));
    mock_job_stop_ranks(job);
    mock_clock_set(-1);
    job_free_job(job);
}

/* ---- steps ---- */

static ncclResult_t job_play_pass(struct mock_job *job, int shape)
{
    struct mock_job_pass *pass = &job->pass;
    ncclResult_t rc;

    pass->number = job->n_passes++;
    pass->shape = shape;
    mock_job_begin_time(job);
    rc = mock_job_launch(job);
    if (rc != ncclSuccess)
        return rc;
    mock_job_end_time(job);
    rc = job_plan_rewards(job);
    if (rc != ncclSuccess)
        return rc;
    if (job->options.host.ahead == 0)
        mock_job_wait(job);
    if (job->threads == NULL) /* else while they launch the next pass */
        mock_job_report_kernels(job, mock_job_first_us(job));
    job_write_rewards(job);
    if (job->options.done != NULL)
        job->options.done(
            job->options.user,
            &(struct mock_job_step){.step = job->step,
                                    .is_evaluation = shape == EVALUATION,
                                    .us = job->gpu_us - pass->begin_us,
                                    .runs = pass->runs,
                                    .n = job->shapes[shape].n});
    return ncclSuccess;
}

ncclResult_t mock_job_play(struct mock_job *job, size_t n_steps)
{
    const struct mock_job_options *o = &job->options;

    for (size_t i = 0; i < n_steps; i++) {
        bool evaluates = o->evaluation_every != 0 && job->step != 0 &&
                         job->step % o->evaluation_every == 0;
        ncclResult_t rc = ncclSuccess;

        for (size_t k = 0;
             evaluates && k < o->n_evaluation && rc == ncclSuccess; k++)
            rc = job_play_pass(job, EVALUATION);
        if (rc == ncclSuccess)
            rc = job_play_pass(job, job->step < o->n_warm_up ? WARM_UP : STEP);
        if (rc != ncclSuccess)
            return rc;
        job->step++;
    }
    return ncclSuccess;
}
