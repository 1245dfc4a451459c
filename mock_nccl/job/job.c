/* job.c - a training job: runs its steps in order */
#include "job/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "machine/machine.h"

enum { STEP, WARM_UP, EVALUATION, CHANGED };

/* ---- life ---- */

/* Makes room for the passes' results and for the events of one pass. */
static ncclResult_t job_alloc_passes(struct mock_job *job)
{
    size_t n = (size_t)job->n_ranks * job->largest + 1;
    bool full = true;

    job->ranks = calloc((size_t)job->n_ranks, sizeof(*job->ranks));
    job->events = calloc(2 * n, sizeof(*job->events));
    job->handles = calloc(n * MOCK_MAX_CHANNELS, sizeof(*job->handles));
    for (int i = 0; i < 2; i++) {
        struct mock_job_pass *pass = &job->passes[i];

        pass->outcomes = calloc(n, sizeof(*pass->outcomes));
        pass->late_us = calloc(n, sizeof(*pass->late_us));
        pass->runs = calloc(job->largest + 1, sizeof(*pass->runs));
        full &= pass->outcomes != NULL && pass->late_us != NULL &&
                pass->runs != NULL;
    }
    if (!full || job->ranks == NULL || job->events == NULL ||
        job->handles == NULL)
        return mock_fail_memory();
    return ncclSuccess;
}

static ncclResult_t job_open_rewards(struct mock_job *job)
{
    const char *path = job->options.reward_file;

    if (path == NULL)
        return ncclSuccess;
    job->rewards = fopen(path, "a");
    if (job->rewards != NULL)
        return ncclSuccess;
    return mock_fail(ncclSystemError, "%s: %s", path, strerror(errno));
}

static void job_copy_shapes(struct mock_job *job)
{
    const struct mock_job_options *o = &job->options;

    job->shapes[STEP] = o->step;
    job->shapes[WARM_UP] = o->warm_up;
    job->shapes[EVALUATION] = o->evaluation;
    job->shapes[CHANGED] = o->changed;
    for (int s = 0; s < MOCK_JOB_SHAPES; s++)
        if (job->shapes[s].n > job->largest)
            job->largest = job->shapes[s].n;
}

static void job_free_job(struct mock_job *job)
{
    for (int i = 0; i < 2; i++) {
        free(job->passes[i].outcomes);
        free(job->passes[i].late_us);
        free(job->passes[i].runs);
    }
    if (job->rewards != NULL)
        fclose(job->rewards);
    free(job->events);
    free(job->handles);
    free(job->ranks);
    free(job->threads);
    free(job);
}

ncclResult_t mock_job_create(struct mock_nccl *nccl,
                             const struct mock_machine *machine,
                             const struct mock_job_options *options,
                             struct mock_job **job_ret)
{
    struct mock_job *job = calloc(1, sizeof(*job));
    struct mock_kept kept;
    ncclResult_t rc;

    if (job == NULL)
        return mock_fail_memory();
    job->nccl = nccl;
    job->machine = machine;
    job->options = *options;
    job->n_ranks = machine->info.n_ranks;
    job_copy_shapes(job);
    rc = job_alloc_passes(job);
    if (rc == ncclSuccess)
        rc = job_open_rewards(job);
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

void mock_job_destroy(struct mock_job *job)
{
    if (job == NULL)
        return;
    if (job->reported != NULL)
        mock_job_report_kernels(job, job->reported);
    mock_job_clock(job->now_us);
    mock_job_stop_ranks(job);
    mock_clock_set(-1);
    job_free_job(job);
}

/* ---- steps ---- */

static void job_write_rewards(const struct mock_job *job,
                              const struct mock_job_pass *pass)
{
    if (job->rewards == NULL)
        return;
    for (size_t i = 0; i < job->shapes[pass->shape].n; i++) {
        const struct mock_job_run *run = &pass->runs[i];

        fprintf(job->rewards, "%s,%zu,%d,%d,%.6f\n",
                mock_word(&mock_colls, run->call->coll), run->call->n_bytes,
                job->machine->info.n_nodes, job->n_ranks, run->us / 1000);
    }
    fflush(job->rewards);
}

/* In one thread, kernels are reported after the host has waited for them. */
static ncclResult_t job_play_pass(struct mock_job *job, int shape)
{
    uint64_t number = job->pass != NULL ? job->pass->number + 1 : 0;
    struct mock_job_pass *pass = &job->passes[number % 2];
    double end_us = 0;
    ncclResult_t rc;

    pass->number = number;
    pass->shape = shape;
    pass->begin_us = job->now_us;
    job->pass = pass;
    rc = mock_job_launch(job);
    if (rc == ncclSuccess)
        rc = mock_job_time(job, pass, &end_us);
    if (rc != ncclSuccess)
        return rc;
    job->reported = pass;
    if (job->threads == NULL) {
        mock_job_report_kernels(job, pass);
        job->reported = NULL;
    }
    job_write_rewards(job, pass);
    if (job->options.done != NULL)
        job->options.done(
            job->options.user,
            &(struct mock_job_step){.step = job->step,
                                    .is_evaluation = shape == EVALUATION,
                                    .us = end_us - job->now_us,
                                    .runs = pass->runs,
                                    .n = job->shapes[shape].n});
    job->now_us = end_us;
    return ncclSuccess;
}

static int job_get_shape(const struct mock_job_options *o, size_t step)
{
    if (step < o->n_warm_up)
        return WARM_UP;
    return o->changed_from != 0 && step >= o->changed_from ? CHANGED : STEP;
}

static ncclResult_t job_evaluate(struct mock_job *job)
{
    const struct mock_job_options *o = &job->options;
    ncclResult_t rc = ncclSuccess;

    if (o->evaluation_every == 0 || job->step == 0 ||
        job->step % o->evaluation_every != 0)
        return rc;
    for (size_t i = 0; i < o->n_evaluation && rc == ncclSuccess; i++)
        rc = job_play_pass(job, EVALUATION);
    return rc;
}

ncclResult_t mock_job_play(struct mock_job *job, size_t n_steps)
{
    for (size_t i = 0; i < n_steps; i++) {
        ncclResult_t rc = job_evaluate(job);

        if (rc == ncclSuccess)
            rc = job_play_pass(job, job_get_shape(&job->options, job->step));
        if (rc != ncclSuccess)
            return rc;
        job->step++;
    }
    return ncclSuccess;
}
