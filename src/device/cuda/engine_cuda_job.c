/* engine_cuda_job.c - ranks together: meetings, failures, waiting, NCCL */
#include <stdlib.h>
#include <time.h>

#include "device/cuda/engine_cuda.h"
#include "nccl_tuner_abi.h"

enum {
    POLLS_PER_LOOK = 1000,
    PATIENCE_MS = 5000, /* with ranks that do not notice a failure */
};

/* ---- failures ---- */

/* Its kernels that wait for others end, and so can all that waits for them. */
static void give_up(struct stp_cuda_engine *e)
{
    if (!atomic_exchange(&e->aborted, true) && e->rank->comm != NULL)
        e->job->device->nccl.comm_abort(e->rank->comm);
}

static bool all_gave_up(const struct stp_cuda_job *job)
{
    for (unsigned i = 0; i < job->n; i++)
        if (!atomic_load(&job->engines[i].aborted))
            return false;
    return true;
}

enum stp_status stp_cuda_job_fail(struct stp_cuda_engine *e,
                                  enum stp_status status)
{
    const struct timespec a_millisecond = {.tv_nsec = 1000000};
    struct stp_cuda_job *job = e->job;
    const bool first = !atomic_exchange(&job->failed, true);

    pthread_mutex_lock(&job->lock);
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
    give_up(e);
    for (int i = 0; first && i < PATIENCE_MS && !all_gave_up(job); i++)
        nanosleep(&a_millisecond, NULL);
    for (unsigned i = 0; first && i < job->n; i++)
        give_up(&job->engines[i]);
    return status;
}

static enum stp_status stop(struct stp_cuda_engine *e, struct stp_error *err)
{
    give_up(e);
    return stp_fail(err, STP_ERR_STOPPED, "rank %u stopped, as another failed",
                    e->rank->rank);
}

enum stp_status stp_cuda_job_alive(struct stp_cuda_engine *e,
                                   struct stp_error *err)
{
    return atomic_load(&e->job->failed) ? stop(e, err) : STP_OK;
}

/* ---- meetings ---- */

/* Of those of this process: the first failure that is one's own. */
static enum stp_status first_said(const struct stp_cuda_job *job,
                                  struct stp_error *err)
{
    const struct stp_cuda_engine *first = NULL;

    for (unsigned i = 0; i < job->n; i++) {
        const struct stp_cuda_engine *e = &job->engines[i];

        if (e->said != STP_OK &&
            (first == NULL || first->said == STP_ERR_STOPPED))
            first = e;
    }
    if (first == NULL)
        return STP_OK;
    *err = first->why;
    return first->said;
}

/* Until 'n' have come, or a meeting is over; false if the job failed.  With the
 * lock. */
static bool await(struct stp_cuda_job *job, unsigned n_came, unsigned n_met)
{
    while (job->n_came < n_came && job->n_met == n_met &&
           !atomic_load(&job->failed))
        pthread_cond_wait(&job->changed, &job->lock);
    return !atomic_load(&job->failed);
}

/* The first rank of the process asks the other processes, when all are here. */
static enum stp_status lead(struct stp_cuda_engine *e, struct stp_error *err)
{
    struct stp_cuda_job *job = e->job;
    const struct stp_world *world = job->device->world;
    struct stp_error why = {0};
    struct stp_error death;
    enum stp_status status;
    bool alive;

    pthread_mutex_lock(&job->lock);
    alive = await(job, job->n, job->n_met);
    pthread_mutex_unlock(&job->lock);
    if (!alive)
        return stop(e, err);
    status = stp_world_agree(world, first_said(job, &why), &why);
    if (status != STP_OK && err != NULL)
        *err = why;
    if (status == STP_ERR_DEVICE && !world->ops->alive(world->self, &death))
        return stp_cuda_job_fail(e, status);
    pthread_mutex_lock(&job->lock);
    job->agreed = status;
    job->n_came = 0;
    job->n_met++;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
    return status;
}

enum stp_status stp_cuda_job_agree(struct stp_cuda_engine *e,
                                   enum stp_status status,
                                   struct stp_error *err)
{
    struct stp_cuda_job *job = e->job;
    enum stp_status agreed;
    unsigned n_met;

    if (atomic_load(&job->failed))
        return status != STP_OK ? status : stop(e, err);
    e->said = status;
    if (status != STP_OK && err != NULL)
        e->why = *err;
    pthread_mutex_lock(&job->lock);
    n_met = job->n_met;
    job->n_came++;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
    if (e->number == 0)
        return lead(e, err);
    pthread_mutex_lock(&job->lock);
    await(job, job->n + 1, n_met);
    agreed = job->n_met == n_met ? STP_ERR_STOPPED : job->agreed;
    pthread_mutex_unlock(&job->lock);
    if (atomic_load(&job->failed))
        return stop(e, err);
    return agreed == STP_OK
               ? STP_OK
               : stp_fail(err, STP_ERR_STOPPED,
                          "rank %u stopped, as another failed", e->rank->rank);
}

/* ---- waiting ---- */

static long seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec;
}

/* Processes that died are looked for by one rank: exchange() is its, too. */
static enum stp_status look(struct stp_cuda_engine *e, long since,
                            struct stp_error *err)
{
    const struct stp_cuda *d = e->job->device;
    const unsigned limit_s = e->job->time_limit_s;
    int error = ncclSuccess;
    enum stp_status status = stp_cuda_job_alive(e, err);

    if (status != STP_OK)
        return status;
    status = stp_cuda_nccl_result(
        d, e->rank, d->nccl.comm_get_async_error(e->rank->comm, &error),
        "ncclCommGetAsyncError", err);
    if (status == STP_OK)
        status = stp_cuda_nccl_result(d, e->rank, error, "a collective", err);
    if (status == STP_OK && e->number == 0 &&
        !d->world->ops->alive(d->world->self, err))
        status = STP_ERR_DEVICE;
    if (status == STP_OK && limit_s > 0 && seconds_now() - since > limit_s)
        status = stp_fail(err, STP_ERR_DEVICE,
                          "rank %u, GPU %d: not done within %u seconds",
                          e->rank->rank, e->rank->gpu, limit_s);
    return status;
}

static enum stp_status wait_for(struct stp_cuda_engine *e, cudaStream_t stream,
                                long since, struct stp_error *err)
{
    for (unsigned n = 1;; n++) {
        const cudaError_t result = cudaStreamQuery(stream);
        enum stp_status status = STP_OK;

        if (result == cudaSuccess)
            return STP_OK;
        if (result != cudaErrorNotReady)
            return stp_cuda_result(e->rank, result, "cudaStreamQuery", err);
        if (n % POLLS_PER_LOOK == 0)
            status = look(e, since, err);
        if (status != STP_OK)
            return status;
    }
}

enum stp_status stp_cuda_engine_wait(struct stp_cuda_engine *e,
                                     struct stp_error *err)
{
    const long since = seconds_now();
    enum stp_status status = STP_OK;

    for (unsigned s = 0; s < STP_N_STREAMS && status == STP_OK; s++)
        status = wait_for(e, e->rank->stream[s], since, err);
    cudaGetLastError(); /* that it was not ready is no error of what follows */
    return status == STP_OK || status == STP_ERR_STOPPED
               ? status
               : stp_cuda_job_fail(e, status);
}

/* ---- collectives ---- */

enum stp_status stp_cuda_engine_collective(const struct stp_cuda_engine *e,
                                           unsigned stream,
                                           const struct stp_transfer *t,
                                           struct stp_error *err)
{
    const struct stp_cuda *d = e->job->device;
    const struct stp_nccl_api *nccl = &d->nccl;
    const struct stp_cuda_rank *r = e->rank;
    cudaStream_t s = r->stream[stream];

    switch (t->coll) {
    case ncclFuncBroadcast:
        return stp_cuda_nccl_result(
            d, r,
            nccl->broadcast(t->in, t->out, t->n, t->type, t->root, r->comm, s),
            "ncclBroadcast", err);
    case ncclFuncReduce:
        return stp_cuda_nccl_result(d, r,
                                    nccl->reduce(t->in, t->out, t->n, t->type,
                                                 t->op, t->root, r->comm, s),
                                    "ncclReduce", err);
    case ncclFuncAllGather:
        return stp_cuda_nccl_result(
            d, r, nccl->all_gather(t->in, t->out, t->n, t->type, r->comm, s),
            "ncclAllGather", err);
    case ncclFuncReduceScatter:
        return stp_cuda_nccl_result(d, r,
                                    nccl->reduce_scatter(t->in, t->out, t->n,
                                                         t->type, t->op,
                                                         r->comm, s),
                                    "ncclReduceScatter", err);
    case ncclFuncAllReduce:
        return stp_cuda_nccl_result(
            d, r,
            nccl->all_reduce(t->in, t->out, t->n, t->type, t->op, r->comm, s),
            "ncclAllReduce", err);
    default:
        return stp_fail(err, STP_ERR_RANGE, "no collective %d", t->coll);
    }
}

/* ---- traces ---- */

enum stp_status stp_cuda_engine_trace_begin(void *self, struct stp_error *err)
{
    struct stp_cuda_engine *e = self;

    return stp_cuda_trace_begin(&e->trace, e->rank->gpu, e->rank->stream, err);
}

enum stp_status stp_cuda_engine_trace_end(void *self, struct stp_spans *spans,
                                          struct stp_error *err)
{
    struct stp_cuda_engine *e = self;

    return stp_cuda_trace_end(&e->trace, spans, err);
}

void stp_cuda_engine_range(void *self, const char *name)
{
    struct stp_cuda_engine *e = self;

    stp_cuda_trace_range(&e->trace, name);
}
