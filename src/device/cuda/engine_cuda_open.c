/* engine_cuda_open.c - from options to GPUs that can train */
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/cuda_plugin.h"
#include "device/cuda/engine_cuda.h"
#include "device/cuda/train_kernels.h"

/* ---- a rank ---- */

enum stp_status stp_cuda_engine_events(struct stp_cuda_engine *e,
                                       unsigned number, struct stp_error *err)
{
    const unsigned n = number < STP_CUDA_EVENTS ? STP_CUDA_EVENTS : 2 * number;
    cudaEvent_t *events = realloc(e->events, n * sizeof(*events));
    unsigned *recorded;

    if (events != NULL)
        e->events = events;
    recorded = realloc(e->recorded, n * sizeof(*recorded));
    if (recorded != NULL)
        e->recorded = recorded;
    if (events == NULL || recorded == NULL)
        return stp_nomem(err);
    for (; e->n_events < n; e->n_events++) {
        cudaError_t result = cudaEventCreate(&e->events[e->n_events]);

        if (result != cudaSuccess)
            return stp_cuda_result(e->rank, result, "cudaEventCreate", err);
        e->recorded[e->n_events] = 0;
    }
    return STP_OK;
}

/* A first product, on zeros in what is for sums of columns: says whether
 * products have their epilogues in them, and what cuBLASLt loads is loaded. */
static enum stp_status try_product(struct stp_cuda_engine *e,
                                   struct stp_error *err)
{
    enum { WIDTH = 128, NBYTES = WIDTH * WIDTH * 4 };
    char *scratch = e->scratch[STP_STREAM_MAIN];
    const struct stp_product product = {.m = WIDTH,
                                        .n = WIDTH,
                                        .k = WIDTH,
                                        .b_transposed = true,
                                        .type = STP_TYPE_F32,
                                        .type_c = STP_TYPE_F32,
                                        .epilogue = STP_EPILOGUE_BIAS_RELU,
                                        .a = scratch,
                                        .b = scratch + NBYTES,
                                        .c = scratch + 2 * NBYTES,
                                        .bias = scratch + 3 * NBYTES};
    cudaError_t result = cudaMemsetAsync(scratch, 0, STP_CUDA_SCRATCH,
                                         e->rank->stream[STP_STREAM_MAIN]);
    enum stp_status status =
        stp_cuda_result(e->rank, result, "cudaMemset", err);

    if (status == STP_OK)
        status = stp_cuda_lt_make(e->lt, &product, err);
    if (status == STP_OK && e->number == 0)
        e->job->info.fuses =
            stp_cuda_lt_fuses(stp_cuda_lt_find(e->lt, &product));
    return status;
}

static enum stp_status open_part(void *user, unsigned thread,
                                 struct stp_error *err)
{
    struct stp_cuda_job *job = user;
    struct stp_cuda_engine *e = &job->engines[thread];
    cudaError_t result = cudaSetDevice(e->rank->gpu);
    enum stp_status status;

    for (unsigned s = 0; s < STP_N_STREAMS && result == cudaSuccess; s++)
        result = cudaMalloc(&e->scratch[s], STP_CUDA_SCRATCH);
    status = stp_cuda_result(e->rank, result, "cudaMalloc", err);
    if (status == STP_OK)
        status = stp_cuda_result(e->rank, stp_train_kernels_load(),
                                 "loading kernels", err);
    if (status == STP_OK)
        status = stp_cuda_engine_events(e, 0, err);
    if (status == STP_OK)
        status = stp_cuda_lt_open(e->rank, &e->lt, err);
    return status == STP_OK ? try_product(e, err) : status;
}

static void free_rank(struct stp_cuda_engine *e)
{
    cudaSetDevice(e->rank->gpu);
    stp_cuda_lt_close(e->lt);
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        cudaFree(e->scratch[s]);
    for (unsigned i = 0; i < e->n_events; i++)
        cudaEventDestroy(e->events[i]);
    free(e->events);
    free(e->recorded);
    free(e->memory);
}

/* ---- a job ---- */

static void free_job(struct stp_cuda_job *job)
{
    if (job->device != NULL && job->device->crew != NULL &&
        stp_crew_is_lost(job->device->crew))
        return; /* its threads may still be at work */
    if (job->device != NULL)
        stp_cuda_close(job->device);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    free(job->engines);
    free(job);
}

static void describe(struct stp_cuda_job *job)
{
    const struct stp_device_info *device = &job->device->info;
    struct stp_engine_info *info = &job->info;

    info->n_ranks = job->device->n_ranks;
    info->has_data = true;
    info->has_tf32 = device->compute_capability >= 80;
    snprintf(info->gpu, sizeof(info->gpu), "%s", device->gpu);
    snprintf(info->what, sizeof(info->what), "%s", device->what);
}

static enum stp_status open_device(struct stp_cuda_job *job,
                                   const struct stp_engine_options *options,
                                   struct stp_error *err)
{
    const struct stp_device_options device = {.world = options->world,
                                              .n_threads = job->n,
                                              .n_gpus = 1,
                                              .plugin = options->plugin,
                                              .time_limit_s =
                                                  options->time_limit_s};
    struct stp_cuda *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return stp_nomem(err);
    d->world = options->world;
    d->time_limit_s = options->time_limit_s;
    job->device = d;
    return stp_cuda_set_up(d, &device, err);
}

static enum stp_status open_engines(struct stp_cuda_job *job,
                                    struct stp_error *err)
{
    struct stp_cuda *d = job->device;
    enum stp_status status;

    job->engines = calloc(job->n, sizeof(*job->engines));
    if (job->engines == NULL)
        return stp_nomem(err);
    for (unsigned i = 0; i < job->n; i++) {
        job->engines[i].job = job;
        job->engines[i].rank = &d->ranks[i];
        job->engines[i].number = i;
        job->engines[i].run = 1;
    }
    describe(job);
    status = stp_crew_run(d->crew, open_part, job, d->world, 0, err);
    for (unsigned i = 0;
         i < job->n && status != STP_OK && !stp_crew_is_lost(d->crew); i++)
        free_rank(&job->engines[i]);
    return status;
}

enum stp_status stp_engine_cuda_open(const struct stp_engine_options *options,
                                     struct stp_engine *engines_ret,
                                     struct stp_error *err)
{
    struct stp_cuda_job *job = calloc(1, sizeof(*job));
    enum stp_status status;

    if (job == NULL)
        return stp_nomem(err);
    job->n = options->n_local > 0 ? options->n_local : 1;
    job->n_open = job->n;
    job->time_limit_s = options->time_limit_s;
    job->has_plugin = options->plugin != NULL;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    status = open_device(job, options, err);
    if (status == STP_OK)
        status = stp_world_agree(options->world, open_engines(job, err), err);
    if (status != STP_OK) {
        free_job(job);
        return status;
    }
    stp_cuda_plugin_select(&(struct stp_arm){.kind = STP_ARM_AUTO});
    for (unsigned i = 0; i < job->n; i++)
        engines_ret[i] = (struct stp_engine){.ops = &stp_engine_cuda_ops,
                                             .self = &job->engines[i]};
    return STP_OK;
}

void stp_cuda_engine_close(struct stp_cuda_engine *e)
{
    struct stp_cuda_job *job = e->job;
    bool last;

    if (!atomic_load(&job->failed))
        free_rank(e);
    pthread_mutex_lock(&job->lock);
    last = --job->n_open == 0;
    pthread_mutex_unlock(&job->lock);
    if (last && !atomic_load(&job->failed))
        free_job(job);
}
