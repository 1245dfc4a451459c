/* cuda_job.c - ranks of a process together: meetings, failures, waiting */
#include "device/cuda/cuda.h"
#include "device/host.h"
#include "nccl_tuner_abi.h"

enum {
    POLLS_PER_CHECK = 1000,
    PATIENCE_MS = 5000, /* with ranks that do not notice a failure */
};

/* ---- failures ---- */

/* Its kernels that wait for others end, and so can all that waits for them. */
static void job_give_up(struct stp_cuda_rank *r)
{
    if (atomic_exchange(&r->aborted, true))
        return;
    for (unsigned i = 0; i < r->n_setups; i++)
        r->cuda->nccl.ncclCommAbort(r->setups[i].comm);
    if (r->comm != NULL)
        r->cuda->nccl.ncclCommAbort(r->comm);
}

enum stp_status stp_cuda_job_fail(struct stp_cuda_rank *r,
                                  enum stp_status status)
{
    const struct timespec a_millisecond = {.tv_nsec = 1000000};
    struct stp_cuda *d = r->cuda;
    bool first;

    if (d->measures) /* device/device.c stops the others */
        return status;
    first = !atomic_exchange(&d->failed, true);
    pthread_mutex_lock(&d->lock);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    job_give_up(r);
    for (int ms = 0; first && ms < PATIENCE_MS; ms++) {
        unsigned n_gave_up = 0;

        for (unsigned i = 0; i < d->n_local; i++)
            n_gave_up += atomic_load(&d->ranks[i].aborted);
        if (n_gave_up == d->n_local)
            break;
        nanosleep(&a_millisecond, NULL);
    }
    for (unsigned i = 0; first && i < d->n_local; i++)
        job_give_up(&d->ranks[i]);
    return status;
}

static enum stp_status job_stop(struct stp_cuda_rank *r, struct stp_error *err)
{
    job_give_up(r);
    return stp_fail(err, STP_ERR_STOPPED, "rank %u stopped, as another failed",
                    r->rank);
}

enum stp_status stp_cuda_job_alive(struct stp_cuda_rank *r,
                                   struct stp_error *err)
{
    return atomic_load(&r->cuda->failed) ? job_stop(r, err) : STP_OK;
}

/* ---- meetings ---- */

/* Until 'n' have come, or a meeting is over; false if the job failed.  With the
 * lock. */
static bool job_await(struct stp_cuda *d, unsigned n_came, unsigned n_met)
{
    while (d->n_came < n_came && d->n_met == n_met && !atomic_load(&d->failed))
        pthread_cond_wait(&d->changed, &d->lock);
    return !atomic_load(&d->failed);
}

/* The first rank of the process asks the other processes, when all are here. */
static enum stp_status job_lead(struct stp_cuda_rank *r, struct stp_error *err)
{
    struct stp_cuda *d = r->cuda;
    const struct stp_world *world = d->world;
    struct stp_error why = {0};
    struct stp_error death;
    enum stp_status status = STP_OK;
    bool alive;

    pthread_mutex_lock(&d->lock);
    alive = job_await(d, d->n_local, d->n_met);
    pthread_mutex_unlock(&d->lock);
    if (!alive)
        return job_stop(r, err);
    /* The first failure in this process that is a rank's own. */
    for (unsigned i = 0; i < d->n_local; i++)
        if (d->ranks[i].said != STP_OK &&
            (status == STP_OK || status == STP_ERR_STOPPED)) {
            status = d->ranks[i].said;
            why = d->ranks[i].why;
        }
    status = stp_world_agree(world, status, &why);
    if (status != STP_OK && err != NULL)
        *err = why;
    if (status == STP_ERR_DEVICE && !world->ops->alive(world->self, &death))
        return stp_cuda_job_fail(r, status);
    pthread_mutex_lock(&d->lock);
    d->agreed = status;
    d->n_came = 0;
    d->n_met++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return status;
}

enum stp_status stp_cuda_job_agree(void *self, enum stp_status status,
                                   struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    struct stp_cuda *d = r->cuda;
    enum stp_status agreed;
    unsigned n_met;

    if (atomic_load(&d->failed))
        return status != STP_OK ? status : job_stop(r, err);
    r->said = status;
    if (status != STP_OK && err != NULL)
        r->why = *err;
    pthread_mutex_lock(&d->lock);
    n_met = d->n_met;
    d->n_came++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (r->number == 0)
        return job_lead(r, err);
    pthread_mutex_lock(&d->lock);
    job_await(d, d->n_local + 1, n_met);
    agreed = d->n_met == n_met ? STP_ERR_STOPPED : d->agreed;
    pthread_mutex_unlock(&d->lock);
    if (atomic_load(&d->failed))
        return job_stop(r, err);
    return agreed == STP_OK
               ? STP_OK
               : stp_fail(err, STP_ERR_STOPPED,
                          "rank %u stopped, as another failed", r->rank);
}

/* ---- waiting ---- */

/* Processes that died are looked for by one rank: exchange() is its, too.  Of
 * measuring ranks the pool of device/device.c does, and at the time. */
static enum stp_status job_check_limits(struct stp_cuda_rank *r,
                                        double since_us, struct stp_error *err)
{
    const struct stp_cuda *d = r->cuda;
    const unsigned limit_s = d->time_limit_s;
    ncclResult_t error = ncclSuccess;
    enum stp_status status = stp_cuda_job_alive(r, err);

    if (atomic_load(&d->is_abandoned))
        status = stp_fail(err, STP_ERR_STOPPED,
                          "rank %u stopped, as another failed", r->rank);
    if (status != STP_OK)
        return status;
    status = stp_cuda_nccl_result(
        r, d->nccl.ncclCommGetAsyncError(stp_cuda_setup_comm(r), &error),
        "ncclCommGetAsyncError", err);
    STP_THEN(status, stp_cuda_nccl_result(r, error, "a collective", err));
    if (d->measures)
        return status;
    if (status == STP_OK && r->number == 0 &&
        !d->world->ops->alive(d->world->self, err))
        status = STP_ERR_DEVICE;
    if (status == STP_OK && limit_s > 0 &&
        stp_host_now_us(NULL) - since_us > limit_s * 1e6)
        status = stp_fail(err, STP_ERR_DEVICE,
                          "rank %u, GPU %d: not done within %u seconds",
                          r->rank, r->gpu, limit_s);
    return status;
}

enum stp_status stp_cuda_wait(struct stp_cuda_rank *r, struct stp_error *err)
{
    const double since_us = stp_host_now_us(NULL);
    enum stp_status status = STP_OK;

    for (unsigned s = 0; s < STP_N_STREAMS && status == STP_OK; s++) {
        cudaError_t result = cudaErrorNotReady;

        for (unsigned n = 1; result == cudaErrorNotReady && status == STP_OK;
             n++) {
            result = cudaStreamQuery(r->stream[s]);
            if (result == cudaErrorNotReady && n % POLLS_PER_CHECK == 0)
                status = job_check_limits(r, since_us, err);
        }
        if (result != cudaErrorNotReady)
            status = stp_cuda_result(r, result, "cudaStreamQuery", err);
    }
    if (!r->cuda->measures)
        cudaGetLastError(); /* cudaErrorNotReady fails no later call */
    return status == STP_OK || status == STP_ERR_STOPPED
               ? status
               : stp_cuda_job_fail(r, status);
}
