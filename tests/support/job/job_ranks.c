/* job_ranks.c - the ranks of a job: launches and threads */
#include <stdlib.h>

#include "base/error.h"
#include "support/job/state.h"
#include "machine/machine.h"

static size_t job_ranks_count_calls(const struct mock_job *job)
{
    return job->shapes[job->pass.shape].n;
}

static struct mock_outcome *job_ranks_get_outcome(const struct mock_job *job,
                                                  int rank, size_t i)
{
    return &job->pass.outcomes[(size_t)rank * job->largest + i];
}

/* ---- launching ---- */

static ncclResult_t job_ranks_replay(const struct mock_job *job, int r,
                                     int shape, size_t i,
                                     struct mock_outcome *outcome)
{
    struct mock_job_rank *rank = &job->ranks[r];
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

static ncclResult_t job_ranks_launch_call(const struct mock_job *job, int r,
                                          size_t i)
{
    int shape = job->pass.shape;
    struct mock_outcome *outcome = job_ranks_get_outcome(job, r, i);

    mock_job_clock(mock_job_asked_us(job, i, r));
    if (job->options.captured)
        return job_ranks_replay(job, r, shape, i, outcome);
    return mock_comm_collective(job->ranks[r].comm,
                                &job->shapes[shape].calls[i].call, outcome);
}

/* The order of the ranks changes with each call. */
static ncclResult_t job_ranks_launch_in_turn(struct mock_job *job, size_t i)
{
    int first =
        (int)(mock_job_random(job, MOCK_JOB_ORDER, job->pass.number, i) *
              job->n_ranks);

    for (int k = 0; k < job->n_ranks; k++) {
        int r = (first + k) % job->n_ranks;
        ncclResult_t rc;

        mock_job_report_rank(job, r, mock_job_asked_us(job, i, r));
        rc = job_ranks_launch_call(job, r, i);

        if (rc != ncclSuccess)
            return mock_fail_prefix(rc, "rank %d: ", r);
    }
    return ncclSuccess;
}

static ncclResult_t job_ranks_compare(const struct mock_job *job, size_t i)
{
    const struct mock_decision first =
        mock_decision_of(0, job_ranks_get_outcome(job, 0, i));
    ncclResult_t rc = ncclSuccess;

    for (int r = 1; r < job->n_ranks && rc == ncclSuccess; r++) {
        const struct mock_decision other =
            mock_decision_of(r, job_ranks_get_outcome(job, r, i));

        rc = mock_decision_compare(job->step,
                                   &job->shapes[job->pass.shape].calls[i].call,
                                   &first, &other);
    }
    return rc;
}

/* Places a launched call on the GPUs' timeline. */
static ncclResult_t job_ranks_run_call(struct mock_job *job, size_t i)
{
    ncclResult_t rc = job_ranks_compare(job, i);

    mock_job_end_call(job, i);
    if (rc == ncclSuccess)
        rc = mock_job_time(job, i);
    if (rc == ncclSuccess)
        rc = mock_job_plan_kernels(job, i);
    return rc;
}

static ncclResult_t job_ranks_launch_calls(struct mock_job *job)
{
    size_t n = job_ranks_count_calls(job);
    ncclResult_t rc = ncclSuccess;

    for (size_t i = 0; i < n && rc == ncclSuccess; i++) {
        mock_job_issue(job, i);
        mock_job_report_kernels(job, mock_job_first_us(job));
        rc = mock_fail_prefix(job_ranks_launch_in_turn(job, i), "step %zu, ",
                              job->step);
        if (rc == ncclSuccess)
            rc = job_ranks_run_call(job, i);
    }
    if (rc == ncclSuccess)
        mock_job_issue(job, n);
    return rc;
}

/* ---- threads ---- */

static ncclResult_t job_ranks_create(void *job_, int r)
{
    struct mock_job *job = job_;

    mock_job_clock(0);
    if (job->options.before_init != NULL)
        job->options.before_init(job->options.user, r);
    return mock_comm_create_rank(job->nccl, job->machine, job->options.comm_id,
                                 r, &job->ranks[r].comm);
}

static ncclResult_t job_ranks_launch_rank(void *job_, int r)
{
    const struct mock_job *job = job_;
    ncclResult_t rc = ncclSuccess;

    for (size_t i = 0; i < job_ranks_count_calls(job) && rc == ncclSuccess; i++)
        rc = job_ranks_launch_call(job, r, i);
    return rc;
}

/* Runs a function in the threads of all ranks, while this thread reports the
 * events until that time. */
static ncclResult_t job_ranks_run_at_once(struct mock_job *job,
                                          ncclResult_t (*run)(void *user,
                                                              int rank),
                                          double until_us)
{
    const struct mock_order order = {.task = MOCK_RUN, .run = run, .user = job};

    for (int r = 0; r < job->n_ranks; r++)
        job->threads[r].carrier->ops->post(&job->threads[r], &order, NULL);
    mock_job_report_kernels(job, until_us);
    return mock_ranks_wait(job->threads, job->n_ranks, ncclSuccess);
}

/* Each rank launches all calls without the others: none waits for a launch of
 * the same pass. */
static ncclResult_t job_ranks_launch_at_once(struct mock_job *job)
{
    size_t n = job_ranks_count_calls(job);
    ncclResult_t rc;

    for (size_t i = 0; i <= n; i++)
        mock_job_issue(job, i);
    rc = mock_fail_prefix(job_ranks_run_at_once(job, job_ranks_launch_rank,
                                                mock_job_first_us(job)),
                          "step %zu, ", job->step);
    for (size_t i = 0; i < n && rc == ncclSuccess; i++)
        rc = job_ranks_run_call(job, i);
    return rc;
}

ncclResult_t mock_job_launch(struct mock_job *job)
{
    return job->threads != NULL ? job_ranks_launch_at_once(job)
                                : job_ranks_launch_calls(job);
}

/* ---- life ---- */

static ncclResult_t job_ranks_start_threads(struct mock_job *job)
{
    ncclResult_t rc = ncclSuccess;

    job->threads = calloc((size_t)job->n_ranks, sizeof(*job->threads));
    if (job->threads == NULL)
        return mock_fail_memory();
    for (int r = 0; r < job->n_ranks && rc == ncclSuccess; r++) {
        job->threads[r].number = r;
        rc = mock_thread_start(&job->threads[r]);
    }
    return rc == ncclSuccess ? job_ranks_run_at_once(job, job_ranks_create, 0)
                             : rc;
}

ncclResult_t mock_job_start_ranks(struct mock_job *job)
{
    ncclResult_t rc = ncclSuccess;

    if (job->options.layout == MOCK_THREADS)
        rc = job_ranks_start_threads(job);
    else
        for (int r = 0; r < job->n_ranks && rc == ncclSuccess; r++)
            rc = mock_fail_prefix(job_ranks_create(job, r), "rank %d: ", r);
    return mock_fail_prefix(rc, "step 0, ");
}

static void job_ranks_end_rank(struct mock_job *job, int r)
{
    struct mock_job_rank *rank = &job->ranks[r];

    for (int s = 0; s < MOCK_JOB_SHAPES; s++) {
        for (size_t i = 0; rank->graphs[s] != NULL && i < job->shapes[s].n; i++)
            mock_graph_destroy(rank->graphs[s][i]);
        free(rank->graphs[s]);
    }
    free(rank->kernels);
    mock_comm_destroy(rank->comm);
}

void mock_job_stop_ranks(struct mock_job *job)
{
    for (int r = 0; job->threads != NULL && r < job->n_ranks; r++)
        if (job->threads[r].carrier != NULL)
            job->threads[r].carrier->ops->stop(&job->threads[r]);
    job_ranks_end_rank(job, 0);
    for (int r = job->n_ranks - 1; r > 0; r--)
        job_ranks_end_rank(job, r);
}
