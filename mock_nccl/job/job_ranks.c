/* job_ranks.c - the ranks of a job: launches and threads */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "job/job_kernels.h"
#include "job/job_ranks.h"
#include "machine/machine.h"

static size_t job_ranks_count_calls(const struct mock_job *job,
                                    const struct mock_job_pass *pass)
{
    return job->shapes[pass->shape].n;
}

static struct mock_outcome *
job_ranks_get_outcomes(const struct mock_job *job,
                       const struct mock_job_pass *pass, int rank)
{
    return &pass->outcomes[(size_t)rank * job->largest];
}

/* ---- launching ---- */

static ncclResult_t job_ranks_replay(struct mock_job_rank *rank, int shape,
                                     size_t i, struct mock_outcome *outcome)
{
    const struct mock_job *job = rank->job;
    ncclResult_t rc = ncclSuccess;

    if (rank->graphs[shape] == NULL) {
        rank->graphs[shape] =
            calloc(job->shapes[shape].n + 1, sizeof(*rank->graphs[shape]));
        if (rank->graphs[shape] == NULL)
            return mock_fail_memory();
    }
    if (rank->graphs[shape][i] == NULL)
        rc = mock_comm_capture(rank->comm, &job->shapes[shape].calls[i].call, 1,
                               &rank->graphs[shape][i]);
    if (rc == ncclSuccess)
        mock_graph_launch(rank->graphs[shape][i], outcome);
    return rc;
}

static ncclResult_t job_ranks_launch_call(struct mock_job_rank *rank, size_t i)
{
    const struct mock_job *job = rank->job;
    const struct mock_job_pass *pass = job->pass;
    struct mock_outcome *outcome =
        &job_ranks_get_outcomes(job, pass, rank->number)[i];

    mock_job_clock(pass->begin_us + (double)(i + 1) * MOCK_JOB_LAUNCH_US);
    if (job->options.captured)
        return job_ranks_replay(rank, pass->shape, i, outcome);
    return mock_comm_collective(
        rank->comm, &job->shapes[pass->shape].calls[i].call, outcome);
}

static ncclResult_t job_ranks_blame(const struct mock_job *job, int rank,
                                    const char *why, ncclResult_t rc)
{
    char text[900];

    snprintf(text, sizeof(text), "%s", why);
    return mock_fail(rc, "step %zu, rank %d: %s", job->step, rank, text);
}

/* Launches call by call; the order of the ranks changes with each call. */
static ncclResult_t job_ranks_launch_in_turn(struct mock_job *job)
{
    size_t n = job_ranks_count_calls(job, job->pass);

    for (size_t i = 0; i < n; i++) {
        int first =
            (int)(mock_job_random(job, MOCK_JOB_ORDER, job->pass->number, i) *
                  job->n_ranks);

        for (int k = 0; k < job->n_ranks; k++) {
            int r = (first + k) % job->n_ranks;
            ncclResult_t rc = job_ranks_launch_call(&job->ranks[r], i);

            if (rc != ncclSuccess)
                return job_ranks_blame(job, r, mock_last_error(), rc);
        }
    }
    return ncclSuccess;
}

static bool job_ranks_alike(const struct mock_outcome *a,
                            const struct mock_outcome *b)
{
    return a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels && a->chunk_bytes == b->chunk_bytes;
}

static ncclResult_t job_ranks_compare(const struct mock_job *job)
{
    const struct mock_outcome *first =
        job_ranks_get_outcomes(job, job->pass, 0);

    for (int r = 1; r < job->n_ranks; r++) {
        const struct mock_outcome *other =
            job_ranks_get_outcomes(job, job->pass, r);

        for (size_t i = 0; i < job_ranks_count_calls(job, job->pass); i++) {
            const struct mock_call *call =
                &job->shapes[job->pass->shape].calls[i].call;

            if (!job_ranks_alike(&first[i], &other[i]))
                return mock_fail(
                    ncclInternalError,
                    "step %zu, %s of %zu bytes: rank 0 runs %s/%s on %d "
                    "channels, rank %d %s/%s on %d; NCCL would hang or corrupt "
                    "data",
                    job->step, mock_word(&mock_colls, call->coll),
                    call->n_bytes, mock_word(&mock_algos, first[i].algo),
                    mock_word(&mock_protos, first[i].proto),
                    first[i].n_channels, r,
                    mock_word(&mock_algos, other[i].algo),
                    mock_word(&mock_protos, other[i].proto),
                    other[i].n_channels);
        }
    }
    return ncclSuccess;
}

/* ---- threads ---- */

static ncclResult_t job_ranks_create(struct mock_job_rank *rank)
{
    const struct mock_job *job = rank->job;

    mock_job_clock(0);
    return mock_comm_create_rank(job->nccl, job->machine, job->options.comm_id,
                                 rank->number, &rank->comm);
}

static void job_ranks_keep_error(struct mock_job_rank *rank, ncclResult_t rc)
{
    rank->rc = rc;
    if (rc != ncclSuccess)
        snprintf(rank->error, sizeof(rank->error), "%s", mock_last_error());
}

static void *job_ranks_run_rank(void *arg)
{
    struct mock_job_rank *rank = arg;
    struct mock_job *job = rank->job;

    job_ranks_keep_error(rank, job_ranks_create(rank));
    pthread_barrier_wait(&job->end);
    for (;;) {
        ncclResult_t rc = ncclSuccess;

        pthread_barrier_wait(&job->begin);
        if (job->stopping)
            return NULL;
        for (size_t i = 0;
             i < job_ranks_count_calls(job, job->pass) && rc == ncclSuccess;
             i++)
            rc = job_ranks_launch_call(rank, i);
        job_ranks_keep_error(rank, rc);
        pthread_barrier_wait(&job->end);
    }
}

static ncclResult_t job_ranks_first_error(const struct mock_job *job)
{
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].rc != ncclSuccess)
            return job_ranks_blame(job, r, job->ranks[r].error,
                                   job->ranks[r].rc);
    return ncclSuccess;
}

ncclResult_t mock_job_launch(struct mock_job *job)
{
    const struct mock_job_pass *reported = job->reported;
    ncclResult_t rc;

    job->reported = NULL;
    if (job->n_threads == 0) {
        if (reported != NULL)
            mock_job_report_kernels(job, reported);
        rc = job_ranks_launch_in_turn(job);
    } else {
        pthread_barrier_wait(&job->begin);
        if (reported != NULL)
            mock_job_report_kernels(job, reported);
        pthread_barrier_wait(&job->end);
        rc = job_ranks_first_error(job);
    }
    return rc == ncclSuccess ? job_ranks_compare(job) : rc;
}

/* ---- life ---- */

/* Starts all threads or none: they wait for each other. */
static ncclResult_t job_ranks_start_threads(struct mock_job *job)
{
    unsigned n = (unsigned)job->n_ranks + 1;

    pthread_barrier_init(&job->begin, NULL, n);
    pthread_barrier_init(&job->end, NULL, n);
    for (int r = 0; r < job->n_ranks; r++) {
        if (pthread_create(&job->ranks[r].thread, NULL, job_ranks_run_rank,
                           &job->ranks[r]) != 0)
            abort(); /* running threads cannot be stopped */
        job->n_threads++;
    }
    pthread_barrier_wait(&job->end);
    return job_ranks_first_error(job);
}

ncclResult_t mock_job_start_ranks(struct mock_job *job)
{
    for (int r = 0; r < job->n_ranks; r++) {
        job->ranks[r].job = job;
        job->ranks[r].number = r;
    }
    if (job->options.layout == MOCK_THREADS)
        return job_ranks_start_threads(job);
    for (int r = 0; r < job->n_ranks; r++) {
        ncclResult_t rc = job_ranks_create(&job->ranks[r]);

        if (rc != ncclSuccess)
            return job_ranks_blame(job, r, mock_last_error(), rc);
    }
    return ncclSuccess;
}

static void job_ranks_end_rank(struct mock_job *job, int r)
{
    struct mock_job_rank *rank = &job->ranks[r];

    for (int s = 0; s < MOCK_JOB_SHAPES; s++) {
        for (size_t i = 0; rank->graphs[s] != NULL && i < job->shapes[s].n; i++)
            mock_graph_destroy(rank->graphs[s][i]);
        free(rank->graphs[s]);
    }
    mock_comm_destroy(rank->comm);
}

void mock_job_stop_ranks(struct mock_job *job)
{
    if (job->n_threads > 0) {
        job->stopping = true;
        pthread_barrier_wait(&job->begin);
        for (int r = 0; r < job->n_threads; r++)
            pthread_join(job->ranks[r].thread, NULL);
        pthread_barrier_destroy(&job->begin);
        pthread_barrier_destroy(&job->end);
    }
    job_ranks_end_rank(job, 0);
    for (int r = job->n_ranks - 1; r > 0; r--)
        job_ranks_end_rank(job, r);
}
