/* cuda_open.c - from options to GPUs that measure or train, and their end */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "device/arm_tuner.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_lt.h"
#include "device/cuda/cuda_plugin.h"
#include "device/cuda/kernels.h"
#include "device/cuda/train_kernels.h"
#include "device/host.h"

enum {
    EVENT_US = 4,
    /* Kernels of ranks that share a GPU wait for each other, and so must run at
     * once: two of NCCL's 64 blocks at most fit 132 multiprocessors. */
    MAX_SHARING = 2
};

/* ---- which GPUs ---- */

/* NCCL 2.30 and later lets ranks share a GPU where this is set. */
static bool cuda_shares_gpus(void)
{
    const char *value = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

    return value != NULL && atoi(value) != 0;
}

/* The first GPU of this process: those of a host's processes lie side by side,
 * unless each sees only its own (CUDA_VISIBLE_DEVICES, Slurm's binding). */
static enum stp_status
cuda_choose_gpus(struct stp_cuda *d, const struct stp_device_options *options,
                 unsigned *first_ret, struct stp_error *err)
{
    unsigned per_host = d->world->local_size;
    unsigned n_here;
    unsigned n_threads = options->n_threads;
    int n = 0;
    cudaError_t result;

    /* Kernels of ranks that share a GPU wait for each other, and those of a
     * process for ever where one lies behind the other in a queue: CUDA makes 8
     * queues unless told, before its first call, and 32 at most. */
    if (cuda_shares_gpus() && per_host == 1)
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    result = cudaGetDeviceCount(&n);
    if (result != cudaSuccess || n < 1)
        return stp_fail(err, STP_ERR_NOTHING, "no GPU: %s",
                        result != cudaSuccess ? cudaGetErrorString(result)
                                              : "CUDA sees none");
    d->n_gpus = options->n_gpus > 0 ? options->n_gpus : 1;
    if (n_threads == 0)
        n_threads = (unsigned)n < per_host * d->n_gpus
                        ? 1
                        : (unsigned)n / per_host / d->n_gpus;
    if (options->n_threads == 0 && n == 1 && cuda_shares_gpus() &&
        d->world->size * d->n_gpus == 1)
        n_threads = 2; /* a communicator of one rank asks no tuner */
    d->n_local = n_threads * d->n_gpus;
    n_here = d->n_local * per_host;
    d->n_present = (unsigned)n;
    d->n_sharing = (n_here + (unsigned)n - 1) / (unsigned)n;
    if (!cuda_shares_gpus())
        d->n_sharing = 1;
    else if (d->n_sharing > MAX_SHARING)
        d->n_sharing = MAX_SHARING;
    *first_ret = d->world->local_rank * d->n_local;
    if ((unsigned)n == d->n_local)
        *first_ret = 0;
    else if ((unsigned)n * d->n_sharing < n_here)
        return stp_fail(err, STP_ERR_NOTHING,
                        "%u GPUs asked for on this host (processes %u, threads "
                        "of each %u, GPUs of each %u), %d present; with NCCL "
                        "2.30 or later and NCCL_MULTI_RANK_GPU_ENABLE=1 up to "
                        "%d ranks share a GPU",
                        n_here, per_host, n_threads, d->n_gpus, n, MAX_SHARING);
    if (options->graph && d->n_local > d->n_present)
        return STP_REFUSE(
            err,
            "CUDA graphs of %u ranks of a process that share a GPU wait for "
            "each other for ever, expected a process each (--procs %u)",
            d->n_local, d->n_local);
    if (d->n_local > STP_MAX_ENGINES)
        return STP_REFUSE(err, "%u GPUs of a process, expected at most %d",
                          d->n_local, STP_MAX_ENGINES);
    d->n_ranks = d->n_local * d->world->size;
    return STP_OK;
}

/* ---- a rank ---- */

/* Random data to time with, until checks write theirs. */
static cudaError_t cuda_make_buffer(struct stp_cuda_rank *r,
                                    enum stp_room which)
{
    const uint64_t max_bytes = r->cuda->max_bytes;
    const struct stp_pattern pattern = {
        .type = STP_TYPE_U64, .ranks = r->cuda->n_ranks, .block = 1};
    struct stp_cuda_room *room = &r->rooms[STP_STREAM_MAIN][which];
    cudaError_t result = cudaMalloc(&room->at, max_bytes > 16 ? max_bytes : 16);

    STP_CUDA_THEN(result, stp_kernel_fill(&pattern, r->rank, false, room->at,
                                          max_bytes / 8, 0));
    return result;
}

/* Says where a rank runs. Hosts differ by NCCL_HOSTID, else by their names. */
static void cuda_locate_rank(const struct stp_cuda_rank *r,
                             struct stp_cuda_place *place)
{
    struct cudaDeviceProp gpu;
    char host[sizeof(place->host)];
    const char *id = getenv("NCCL_HOSTID");
    char bus[32] = "?";

    stp_host_name(host, sizeof(host));
    snprintf(place->host, sizeof(place->host), "%s",
             id != NULL && *id != '\0' ? id : host);
    if (cudaGetDeviceProperties(&gpu, r->gpu) == cudaSuccess)
        memcpy(place->gpu, gpu.uuid.bytes, sizeof(place->gpu));
    else
        gpu.name[0] = '\0';
    cudaDeviceGetPCIBusId(bus, sizeof(bus), r->gpu);
    if (strlen(bus) > 2)
        bus[strlen(bus) - 2] = '\0'; /* the function, always 0 */
    snprintf(place->line, sizeof(place->line),
             " Rank %2u Group %2d Pid %6d on %10s device %2d [%s] %.60s",
             r->rank, 0, (int)getpid(), host, r->gpu, bus, gpu.name);
}

static enum stp_status cuda_open_rank(struct stp_cuda *d,
                                      struct stp_cuda_rank *r,
                                      struct stp_error *err)
{
    const double gib = 1073741824.0;
    struct stp_cuda_room *rooms = r->rooms[STP_STREAM_MAIN];
    cudaError_t result = cudaSetDevice(r->gpu);
    size_t free_bytes, total_bytes;
    int lowest, highest;

    if (result != cudaSuccess)
        return stp_cuda_result(r, result, "cudaSetDevice", err);
    result = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (result != cudaSuccess)
        return stp_cuda_result(r, result, "cudaMemGetInfo", err);
    free_bytes /= d->n_sharing;
    if (d->max_bytes >= free_bytes / 2)
        return stp_fail(
            err, STP_ERR_LIMIT,
            "messages of %.1f GiB need two buffers of that size, but GPU %d "
            "has %.1f GiB free: expected at most %.1f GiB",
            (double)d->max_bytes / gib, r->gpu, (double)free_bytes / gib,
            (double)free_bytes / 2 / gib);
    r->free_bytes = free_bytes - 2 * d->max_bytes;

    result = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    STP_CUDA_THEN(result, cudaStreamCreateWithFlags(&r->stream[STP_STREAM_MAIN],
                                                    cudaStreamNonBlocking));
    STP_CUDA_THEN(result,
                  cudaStreamCreateWithPriority(&r->stream[STP_STREAM_COMM],
                                               cudaStreamNonBlocking, highest));
    STP_TRY(stp_cuda_result(r, result, "cudaStreamCreate", err));

    result = cudaMalloc((void **)&r->found, sizeof(*r->found));
    STP_CUDA_THEN(result,
                  cudaMalloc(&rooms[STP_ROOM_MEETING].at, sizeof(float)));
    STP_CUDA_THEN(result, cuda_make_buffer(r, STP_ROOM_SEND));
    STP_CUDA_THEN(result, cuda_make_buffer(r, STP_ROOM_RECV));
    STP_CUDA_THEN(result, cudaDeviceSynchronize());
    if (result == cudaSuccess)
        cuda_locate_rank(r, &d->places[r->rank]);
    return stp_cuda_result(r, result, "cudaMalloc", err);
}

static enum stp_status cuda_open_part(void *user, unsigned thread,
                                      struct stp_error *err)
{
    struct stp_cuda *d = user;

    for (unsigned i = 0; i < d->n_gpus; i++)
        STP_TRY(cuda_open_rank(d, &d->ranks[thread * d->n_gpus + i], err));
    return STP_OK;
}

static enum stp_status cuda_connect_part(void *user, unsigned thread,
                                         struct stp_error *err)
{
    struct stp_cuda *d = user;
    struct stp_cuda_rank *first = &d->ranks[thread * d->n_gpus];
    int result = d->nccl.ncclGroupStart();

    for (unsigned i = 0; i < d->n_gpus && result == 0; i++) {
        cudaSetDevice(first[i].gpu);
        result = d->nccl.ncclCommInitRank(&first[i].comm, (int)d->n_ranks,
                                          d->id, (int)first[i].rank);
    }
    if (result == 0)
        result = d->nccl.ncclGroupEnd();
    cudaSetDevice(first->gpu);
    return stp_cuda_nccl_result(first, result, "ncclCommInitRank", err);
}

/* ---- all of it ---- */

/* How many values ranks have of the SIZE bytes at OFFSET of a place. */
static unsigned cuda_count_different(const struct stp_cuda *d, size_t offset,
                                     size_t size)
{
    const char *values = (const char *)d->places + offset;
    unsigned n = 0;

    for (unsigned i = 0; i < d->n_ranks; i++) {
        unsigned j = 0;

        while (j < i && memcmp(&values[i * sizeof(*d->places)],
                               &values[j * sizeof(*d->places)], size) != 0)
            j++;
        n += j == i;
    }
    return n;
}

static void cuda_fill_info(struct stp_cuda *d, const char *replaced)
{
    struct stp_device_info *info = &d->info;
    const unsigned n_gpus = cuda_count_different(
        d, offsetof(struct stp_cuda_place, gpu), sizeof(d->places->gpu));
    static const char *const names[] = {
        "NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"};
    struct cudaDeviceProp gpu;

    stp_host_name(info->machine, sizeof(info->machine));
    if (cudaGetDeviceProperties(&gpu, d->ranks[0].gpu) == cudaSuccess) {
        snprintf(info->gpu, sizeof(info->gpu), "%.63s", gpu.name);
        snprintf(info->processor, sizeof(info->processor), "%s", info->gpu);
        info->compute_capability = 10 * gpu.major + gpu.minor;
    }
    stp_nccl_version_name(d->nccl.version, info->nccl);
    snprintf(info->backend, sizeof(info->backend), "nccl");
    snprintf(info->cpu_vendor, sizeof(info->cpu_vendor), "%s",
             stp_host_cpu_vendor());
    info->n_ranks = d->n_ranks;
    info->n_gpus = n_gpus < d->n_ranks ? n_gpus : 0;
    info->n_nodes = cuda_count_different(
        d, offsetof(struct stp_cuda_place, host), sizeof(d->places->host));
    info->is_live = true;
    info->repeats_rounds = true;
    info->has_data = true;
    info->has_arms = stp_cuda_plugin_has_tuner();
    info->setups = stp_cuda_find_setups(d);
    info->event_us = EVENT_US;
    info->rotates = true;
    info->has_tf32 = info->compute_capability >= 80;
    if (n_gpus < d->n_ranks)
        stp_append(info->machine, sizeof(info->machine), " with %u ranks a GPU",
                   (d->n_ranks + n_gpus - 1) / n_gpus);
    snprintf(info->what, sizeof(info->what),
             "%u x %s on %u host%s (%s), NCCL %s; measured here and now",
             n_gpus, info->gpu, info->n_nodes, STP_S(info->n_nodes),
             info->machine, info->nccl);
    /* Settings that also change NCCL's choice are named. */
    stp_arm_tuner_describe(info);
    if (info->tuner[0] == '\0' && replaced[0] != '\0')
        stp_append(info->what, sizeof(info->what),
                   "; without NCCL_TUNER_PLUGIN=%s", replaced);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]) != NULL)
            stp_append(info->what, sizeof(info->what), "; with %s=%s", names[i],
                       getenv(names[i]));
}

static enum stp_status
cuda_connect_ranks(struct stp_cuda *d, const struct stp_device_options *options,
                   struct stp_error *err)
{
    const struct stp_world *world = d->world;
    ncclUniqueId *ids;
    struct stp_cuda_place *places;
    unsigned first = 0;
    char replaced[128] = "";
    enum stp_status status = cuda_choose_gpus(d, options, &first, err);

    STP_THEN(status, stp_nccl_open(&d->nccl, err));
    if (status != STP_OK)
        return stp_world_agree(d->world, status, err);
    d->ranks = calloc(d->n_local, sizeof(*d->ranks));
    d->places = calloc(d->n_ranks, sizeof(*d->places));
    if (d->ranks == NULL || d->places == NULL)
        status = stp_nomem(err);
    for (unsigned i = 0; i < d->n_local && status == STP_OK; i++)
        d->ranks[i] =
            (struct stp_cuda_rank){.cuda = d,
                                   .gpu = (int)((first + i) % d->n_present),
                                   .rank = d->world->rank * d->n_local + i,
                                   .number = i,
                                   .run = 1};
    STP_THEN(status, stp_cuda_plugin_begin(options->plugin, d->nccl.version,
                                           replaced, err));
    if (status == STP_OK && options->graphs_file != NULL &&
        setenv("NCCL_GRAPH_DUMP_FILE", options->graphs_file, 1) != 0)
        status = stp_nomem(err);
    STP_THEN(status,
             stp_thread_pool_create(d->n_local / d->n_gpus, &d->pool, err));
    STP_THEN(status,
             stp_thread_pool_run(d->pool, cuda_open_part, d, d->world, 0, err));
    STP_TRY(stp_world_agree(d->world, status, err));
    /* All take rank 0's id. */
    ids = calloc(world->size, sizeof(*ids));
    places = calloc(d->n_ranks, sizeof(*places));
    if (ids == NULL || places == NULL)
        status = stp_nomem(err);
    if (world->rank == 0)
        STP_THEN(status, stp_cuda_nccl_result(&d->ranks[0],
                                              d->nccl.ncclGetUniqueId(&d->id),
                                              "ncclGetUniqueId", err));
    STP_THEN(status, world->ops->exchange(world->self, &d->id, sizeof(d->id),
                                          ids, err));
    if (status == STP_OK)
        d->id = ids[0];
    free(ids);
    STP_THEN(status, stp_thread_pool_run(d->pool, cuda_connect_part, d,
                                         d->world, options->time_limit_s, err));
    STP_THEN(status, world->ops->exchange(
                         world->self, &d->places[world->rank * d->n_local],
                         d->n_local * sizeof(*places), places, err));
    if (status != STP_OK) {
        free(places);
        return status;
    }
    free(d->places);
    d->places = places;
    cuda_fill_info(d, replaced);
    return STP_OK;
}

/* ---- for training ---- */

/* Runs a first product, on zeros in the scratch of column sums: it has
 * cuBLASLt load its own kernels. */
static enum stp_status cuda_try_product(struct stp_cuda_rank *r,
                                        struct stp_error *err)
{
    enum { WIDTH = 128, NBYTES = WIDTH * WIDTH * 4 };
    char *scratch = r->scratch[STP_STREAM_MAIN];
    const struct stp_product product = {
        .gemm = {WIDTH, WIDTH, WIDTH, STP_TYPE_F32},
        .b_transposed = true,
        .type_c = STP_TYPE_F32,
        .epilogue = STP_EPILOGUE_BIAS_RELU,
        .a = scratch,
        .b = scratch + NBYTES,
        .c = scratch + 2 * NBYTES,
        .bias = scratch + 3 * NBYTES};
    cudaError_t result = cudaMemsetAsync(scratch, 0, STP_CUDA_SCRATCH,
                                         r->stream[STP_STREAM_MAIN]);

    STP_TRY(stp_cuda_result(r, result, "cudaMemset", err));
    return stp_cuda_lt_make(r->lt, &product, err);
}

static enum stp_status cuda_train_part(void *user, unsigned thread,
                                       struct stp_error *err)
{
    struct stp_cuda_rank *r = &((struct stp_cuda *)user)->ranks[thread];
    cudaError_t result = cudaSetDevice(r->gpu);

    for (unsigned s = 0; s < STP_N_STREAMS && result == cudaSuccess; s++)
        result = cudaMalloc(&r->scratch[s], STP_CUDA_SCRATCH);
    STP_TRY(stp_cuda_result(r, result, "cudaMalloc", err));
    STP_TRY(
        stp_cuda_result(r, stp_train_kernels_load(), "loading kernels", err));
    STP_TRY(stp_cuda_events(r, 0, err));
    STP_TRY(stp_cuda_lt_open(r, &r->lt, err));
    return cuda_try_product(r, err);
}

/* ---- closing ---- */

static void cuda_close_rank(struct stp_cuda_rank *r)
{
    cudaSetDevice(r->gpu);
    stp_cuda_lt_close(r->lt);
    for (size_t i = 0; i < r->n_memory; i++)
        cudaFree(r->memory[i]);
    stp_cuda_setup_close(r);
    for (unsigned i = 0; i < r->n_events; i++) {
        cudaEventDestroy(r->events[i]);
        cudaEventDestroy(r->joins[i]);
    }
    free(r->memory);
    free(r->events);
    free(r->joins);
    free(r->recorded);
    for (unsigned i = 0; i < r->n_parts; i++)
        if (r->parts[i] != NULL)
            r->cuda->nccl.ncclCommDestroy(r->parts[i]);
    if (r->comm != NULL)
        r->cuda->nccl.ncclCommDestroy(r->comm);
    cudaFree(r->found);
    for (unsigned s = 0; s < STP_N_STREAMS; s++) {
        cudaFree(r->scratch[s]);
        for (unsigned i = 0; i < STP_N_ROOMS; i++)
            cudaFree(r->rooms[s][i].at);
        if (r->stream[s] != NULL)
            cudaStreamDestroy(r->stream[s]);
    }
}

static enum stp_status cuda_close_part(void *user, unsigned thread,
                                       struct stp_error *err)
{
    struct stp_cuda *d = user;

    for (unsigned i = 0; i < d->n_gpus; i++)
        cuda_close_rank(&d->ranks[thread * d->n_gpus + i]);
    return STP_OK;
}

/* After a failure ranks may hang in NCCL, and so would its end: their
 * memory goes with the process. */
static void cuda_close_all(struct stp_cuda *d)
{
    if (atomic_load(&d->failed) ||
        (d->pool != NULL && stp_thread_pool_failed(d->pool)))
        return;
    if (d->pool != NULL) {
        stp_thread_pool_run(d->pool, cuda_close_part, d, d->world, 0, NULL);
        stp_thread_pool_destroy(d->pool);
    }
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->ranks);
    free(d->places);
    free(d);
}

void stp_cuda_close(void *self)
{
    struct stp_cuda *d = ((struct stp_cuda_rank *)self)->cuda;
    bool last;

    pthread_mutex_lock(&d->lock);
    last = --d->n_open == 0;
    pthread_mutex_unlock(&d->lock);
    if (last)
        cuda_close_all(d);
}

/* ---- opening ---- */

static enum stp_status cuda_open(const struct stp_device_options *options,
                                 struct stp_engines *engines_ret,
                                 struct stp_error *err)
{
    struct stp_cuda *d = calloc(1, sizeof(*d));
    enum stp_status status;

    if (d == NULL)
        return stp_nomem(err);
    d->world = options->world;
    d->max_bytes = options->max_bytes;
    d->measures = options->measures;
    d->has_plugin = options->plugin != NULL;
    d->time_limit_s = options->time_limit_s;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    status = cuda_connect_ranks(d, options, err);
    if (status == STP_OK && !d->measures)
        status = stp_world_agree(
            d->world,
            stp_thread_pool_run(d->pool, cuda_train_part, d, d->world, 0, err),
            err);
    if (status != STP_OK) {
        cuda_close_all(d);
        return status;
    }
    stp_cuda_plugin_select(&(struct stp_arm){.kind = STP_ARM_AUTO});
    d->setup = STP_CUDA_SETUPS;
    d->n_open = d->n_local;
    engines_ret->n_threads = d->n_local / d->n_gpus;
    engines_ret->n_per_thread = d->n_gpus;
    for (unsigned i = 0; i < d->n_local; i++)
        engines_ret->all[i] =
            (struct stp_engine){.ops = &stp_cuda_ops, .self = &d->ranks[i]};
    return STP_OK;
}

/* ---- what the driver tells of the GPUs of this host ---- */

static enum stp_status cuda_survey(struct stp_survey *survey_ret,
                                   struct stp_error *err)
{
    struct stp_survey s = {.built_cuda = CUDART_VERSION};
    int n = 0;
    int n_told;
    cudaError_t rc = cudaDriverGetVersion(&s.driver_cuda);

    if (rc == cudaSuccess)
        rc = cudaGetDeviceCount(&n);
    s.n_gpus = (unsigned)n;
    n_told = n < STP_MAX_HOST_GPUS ? n : STP_MAX_HOST_GPUS;
    for (int a = 0; a < n_told && rc == cudaSuccess; a++) {
        struct cudaDeviceProp is;

        rc = cudaGetDeviceProperties(&is, a);
        if (rc != cudaSuccess)
            break;
        snprintf(s.gpus[a].name, sizeof(s.gpus[a].name), "%.63s", is.name);
        s.gpus[a].memory = is.totalGlobalMem;
        s.gpus[a].compute_capability = 10 * is.major + is.minor;
        /* Atomic operations on the memory of another GPU are NVLink's alone. */
        for (int b = 0; b < a; b++) {
            int access = 0, atomics = 0;

            if (cudaDeviceGetP2PAttribute(&access,
                                          cudaDevP2PAttrAccessSupported, a,
                                          b) != cudaSuccess ||
                cudaDeviceGetP2PAttribute(&atomics,
                                          cudaDevP2PAttrNativeAtomicSupported,
                                          a, b) != cudaSuccess)
                access = 0;
            s.n_none += !access;
            s.n_nvlink += access && atomics;
            s.n_pcie += access && !atomics;
        }
    }
    if (rc == cudaSuccess && n == 0)
        rc = cudaErrorNoDevice;
    if (rc != cudaSuccess)
        return stp_fail(err,
                        rc == cudaErrorNoDevice ||
                                rc == cudaErrorInsufficientDriver
                            ? STP_ERR_NOTHING
                            : STP_ERR_DEVICE,
                        "the driver says: %s", cudaGetErrorString(rc));
    *survey_ret = s;
    return STP_OK;
}

extern const struct stp_module stp_steptune_module;

__attribute__((visibility("default")))
const struct stp_module stp_steptune_module = {
    .abi = STP_MODULE_ABI, .open = cuda_open, .survey = cuda_survey};
