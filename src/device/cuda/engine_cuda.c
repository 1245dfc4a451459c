#include "device/cuda/engine_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/cuda_plugin.h"
#include "device/cuda/train_kernels.h"

/* ---- what all operations begin and end with ---- */

static enum stp_status begin(struct stp_cuda_engine *e, struct stp_error *err)
{
    const enum stp_status status = stp_cuda_job_alive(e, err);

    return status == STP_OK
               ? stp_cuda_result(e->rank, cudaSetDevice(e->rank->gpu),
                                 "cudaSetDevice", err)
               : status;
}

static enum stp_status begin_in(struct stp_cuda_engine *e, unsigned stream,
                                struct stp_error *err)
{
    if (stream >= STP_N_STREAMS)
        return stp_fail(err, STP_ERR_RANGE, "stream %u of %u", stream,
                        (unsigned)STP_N_STREAMS);
    return begin(e, err);
}

static cudaStream_t stream_of(const struct stp_cuda_engine *e, unsigned stream)
{
    return e->rank->stream[stream];
}

/* What failed for one rank would leave others waiting for it. */
static enum stp_status done(struct stp_cuda_engine *e, enum stp_status status)
{
    return status == STP_ERR_DEVICE ? stp_cuda_job_fail(e, status) : status;
}

static enum stp_status called(struct stp_cuda_engine *e, cudaError_t result,
                              const char *call, struct stp_error *err)
{
    return done(e, stp_cuda_result(e->rank, result, call, err));
}

/* A kernel of ours was launched, or there is none. */
static enum stp_status launched(struct stp_cuda_engine *e, cudaError_t result,
                                const char *what, struct stp_error *err)
{
    if (result == cudaErrorNotSupported)
        return stp_fail(err, STP_ERR_RANGE,
                        "no %s on GPUs for these types or this size", what);
    return called(e, result, what, err);
}

/* ---- what it is ---- */

static void cuda_info(const void *self, struct stp_engine_info *info_ret)
{
    const struct stp_cuda_engine *e = self;

    *info_ret = e->job->info;
    info_ret->rank = e->rank->rank;
}

/* ---- memory ---- */

static enum stp_status refuse_memory(const struct stp_cuda_engine *e,
                                     uint64_t nbytes, size_t free_bytes,
                                     const char *what, struct stp_error *err)
{
    return stp_fail(err, STP_ERR_NOMEM,
                    "no memory on rank %u for %s: %.2f GB beside %.2f GB, but "
                    "%.2f GB of GPU %d are free",
                    e->rank->rank, what, (double)nbytes / 1e9,
                    (double)e->taken / 1e9, (double)free_bytes / 1e9,
                    e->rank->gpu);
}

static enum stp_status clear(const struct stp_cuda_engine *e, void *memory,
                             uint64_t nbytes, struct stp_error *err)
{
    cudaStream_t stream = stream_of(e, STP_STREAM_MAIN);
    cudaError_t result = cudaMemsetAsync(memory, 0, nbytes, stream);

    if (result == cudaSuccess)
        result = cudaStreamSynchronize(stream);
    return stp_cuda_result(e->rank, result, "cudaMemset", err);
}

static enum stp_status cuda_alloc(void *self, uint64_t nbytes, const char *what,
                                  void **address_ret, struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    enum stp_status status = begin(e, err);
    size_t free_bytes = 0, all_bytes;
    void *memory = NULL;
    void **more;

    if (status != STP_OK)
        return status;
    status = stp_cuda_result(e->rank, cudaMemGetInfo(&free_bytes, &all_bytes),
                             "cudaMemGetInfo", err);
    if (status != STP_OK)
        return status;
    more = realloc(e->memory, (e->n_memory + 1) * sizeof(*more));
    if (more == NULL)
        return stp_nomem(err);
    e->memory = more;
    if (nbytes > free_bytes ||
        cudaMalloc(&memory, nbytes > 0 ? nbytes : 1) != cudaSuccess) {
        cudaGetLastError(); /* or the next launch would have failed */
        return refuse_memory(e, nbytes, free_bytes, what, err);
    }
    status = clear(e, memory, nbytes, err);
    if (status != STP_OK) {
        cudaFree(memory);
        return status;
    }
    e->memory[e->n_memory++] = memory;
    e->taken += nbytes;
    *address_ret = memory;
    return STP_OK;
}

/* cudaFree() waits for the GPU, which after a failure may wait for ever. */
static void cuda_release(void *self)
{
    struct stp_cuda_engine *e = self;

    if (begin(e, NULL) != STP_OK)
        return;
    for (size_t i = 0; i < e->n_memory; i++)
        cudaFree(e->memory[i]);
    e->n_memory = 0;
    e->taken = 0;
}

/* In a stream of ours: what the default stream copies, ours do not wait for. */
static enum stp_status copy(struct stp_cuda_engine *e, void *to,
                            const void *from, uint64_t nbytes,
                            enum cudaMemcpyKind kind, struct stp_error *err)
{
    const enum stp_status status = begin(e, err);
    cudaStream_t stream = stream_of(e, STP_STREAM_MAIN);
    cudaError_t result;

    if (status != STP_OK)
        return status;
    result = cudaMemcpyAsync(to, from, nbytes, kind, stream);
    if (result == cudaSuccess)
        result = cudaStreamSynchronize(stream);
    return called(e, result, "cudaMemcpy", err);
}

static enum stp_status cuda_upload(void *self, void *to, const void *from,
                                   uint64_t nbytes, struct stp_error *err)
{
    return copy(self, to, from, nbytes, cudaMemcpyHostToDevice, err);
}

static enum stp_status cuda_download(void *self, void *to, const void *from,
                                     uint64_t nbytes, struct stp_error *err)
{
    return copy(self, to, from, nbytes, cudaMemcpyDeviceToHost, err);
}

/* ---- ranks together ---- */

static enum stp_status cuda_agree(void *self, enum stp_status status,
                                  struct stp_error *err)
{
    return stp_cuda_job_agree(self, status, err);
}

/* The arm is the process's: no rank may still ask NCCL for what came before,
 * nor already for what comes. */
static enum stp_status cuda_tune(void *self, bool by_plugin,
                                 struct stp_error *err)
{
    static const struct stp_arm nccl = {.kind = STP_ARM_AUTO};
    static const struct stp_arm plugin = {.kind = STP_ARM_PLUGIN};
    struct stp_cuda_engine *e = self;
    enum stp_status status;

    if (by_plugin && !e->job->has_plugin)
        return stp_fail(err, STP_ERR_RANGE,
                        "no tuner plugin: the engine was opened without");
    status = stp_cuda_job_agree(e, STP_OK, err);
    if (status == STP_OK && e->number == 0)
        stp_cuda_plugin_select(by_plugin ? &plugin : &nccl);
    return status == STP_OK ? stp_cuda_job_agree(e, STP_OK, err) : status;
}

/* ---- work ---- */

static enum stp_status cuda_zero(void *self, unsigned stream, void *address,
                                 uint64_t nbytes, struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    return status == STP_OK ? called(e,
                                     cudaMemsetAsync(address, 0, nbytes,
                                                     stream_of(e, stream)),
                                     "cudaMemset", err)
                            : status;
}

/* The first of its shape: its kernel is loaded while nothing runs, as loading
 * may wait for what runs, and that for other ranks of this process. */
static enum stp_status first_product(struct stp_cuda_engine *e, unsigned stream,
                                     const struct stp_product *p,
                                     struct stp_error *err)
{
    enum stp_status status = stp_cuda_engine_wait(e, err);

    if (status == STP_OK)
        status = stp_cuda_lt_make(e->lt, p, err);
    if (status == STP_OK)
        status =
            stp_cuda_lt_run(e->lt, stp_cuda_lt_find(e->lt, p), stream, p, err);
    return status == STP_OK ? stp_cuda_engine_wait(e, err) : status;
}

static enum stp_status cuda_product(void *self, unsigned stream,
                                    const struct stp_product *p,
                                    struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const struct stp_cuda_lt_plan *plan;
    enum stp_status status = stp_cuda_lt_check(p, err);

    if (status == STP_OK)
        status = begin_in(e, stream, err);
    if (status != STP_OK)
        return status;
    plan = stp_cuda_lt_find(e->lt, p);
    return done(e, plan != NULL ? stp_cuda_lt_run(e->lt, plan, stream, p, err)
                                : first_product(e, stream, p, err));
}

static enum stp_status cuda_cross_entropy(void *self, unsigned stream,
                                          const struct stp_cross_entropy *what,
                                          struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    return status == STP_OK
               ? launched(e,
                          stp_train_cross_entropy(what, stream_of(e, stream)),
                          "cross-entropy", err)
               : status;
}

static enum stp_status cuda_relu_backward(void *self, unsigned stream, int type,
                                          uint64_t n, const void *output,
                                          void *gradient, struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    return status == STP_OK
               ? launched(e,
                          stp_train_relu_backward(type, n, output, gradient,
                                                  stream_of(e, stream)),
                          "way back through ReLU", err)
               : status;
}

static enum stp_status cuda_column_sum(void *self, unsigned stream, int type,
                                       int sum_type, unsigned rows,
                                       unsigned columns, double beta,
                                       const void *matrix, void *sum,
                                       struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);
    struct stp_train_columns what = {.type = type,
                                     .sum_type = sum_type,
                                     .rows = rows,
                                     .columns = columns,
                                     .beta = beta,
                                     .matrix = matrix,
                                     .sum = sum,
                                     .scratch_bytes = STP_CUDA_SCRATCH};

    if (status != STP_OK)
        return status;
    what.scratch = e->scratch[stream];
    return launched(e, stp_train_column_sum(&what, stream_of(e, stream)),
                    "sum of columns", err);
}

static enum stp_status cuda_update(void *self, unsigned stream,
                                   const struct stp_update *update,
                                   struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    return status == STP_OK
               ? launched(e, stp_train_update(update, stream_of(e, stream)),
                          "update", err)
               : status;
}

static enum stp_status cuda_find_nonfinite(void *self, unsigned stream,
                                           int type, uint64_t n,
                                           const void *data, float *found,
                                           struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    return status == STP_OK
               ? launched(e,
                          stp_train_find_nonfinite(type, n, data, found,
                                                   stream_of(e, stream)),
                          "search for what is not finite", err)
               : status;
}

static enum stp_status cuda_cast(void *self, unsigned stream, uint64_t n,
                                 int from_type, const void *from, int to_type,
                                 void *to, struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    return status == STP_OK
               ? launched(e,
                          stp_train_cast(n, from_type, from, to_type, to,
                                         stream_of(e, stream)),
                          "cast", err)
               : status;
}

static enum stp_status cuda_scale(void *self, unsigned stream, int type,
                                  uint64_t n, double factor, void *x,
                                  struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    return status == STP_OK ? launched(e,
                                       stp_train_scale(type, n, factor, x,
                                                       stream_of(e, stream)),
                                       "scaling", err)
                            : status;
}

/* ---- collectives ---- */

static enum stp_status cuda_collective(void *self, unsigned stream,
                                       const struct stp_transfer *transfer,
                                       struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    if (status != STP_OK || transfer->n == 0)
        return status;
    return done(e, stp_cuda_engine_collective(e, stream, transfer, err));
}

/* ---- order and time ---- */

static enum stp_status cuda_record(void *self, unsigned stream, unsigned event,
                                   struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    enum stp_status status = begin_in(e, stream, err);

    if (status == STP_OK && event >= e->n_events)
        status = stp_cuda_engine_events(e, event, err);
    if (status == STP_OK)
        status =
            called(e, cudaEventRecord(e->events[event], stream_of(e, stream)),
                   "cudaEventRecord", err);
    if (status == STP_OK)
        e->recorded[event] = e->run;
    return status;
}

static enum stp_status cuda_wait(void *self, unsigned stream, unsigned event,
                                 struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    const enum stp_status status = begin_in(e, stream, err);

    if (status != STP_OK)
        return status;
    if (event >= e->n_events || e->recorded[event] != e->run)
        return stp_fail(err, STP_ERR_RANGE,
                        "a wait for event %u, which was not recorded before",
                        event);
    return called(
        e, cudaStreamWaitEvent(stream_of(e, stream), e->events[event], 0),
        "cudaStreamWaitEvent", err);
}

static enum stp_status cuda_synchronise(void *self, struct stp_error *err)
{
    struct stp_cuda_engine *e = self;
    enum stp_status status = begin(e, err);

    if (status == STP_OK)
        status = stp_cuda_engine_wait(e, err);
    e->run++;
    return status;
}

static double cuda_elapsed_us(const void *self, unsigned from, unsigned to)
{
    const struct stp_cuda_engine *e = self;
    float ms = 0;

    if (from >= e->n_events || to >= e->n_events)
        return 0;
    cudaEventElapsedTime(&ms, e->events[from], e->events[to]);
    return (double)ms * 1e3;
}

static double cuda_now_us(const void *self)
{
    struct timespec now;

    (void)self;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void cuda_close(void *self)
{
    cuda_release(self);
    stp_cuda_engine_close(self);
}

const struct stp_engine_ops stp_engine_cuda_ops = {
    .name = "cuda",
    .info = cuda_info,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .upload = cuda_upload,
    .download = cuda_download,
    .agree = cuda_agree,
    .tune = cuda_tune,
    .zero = cuda_zero,
    .product = cuda_product,
    .cross_entropy = cuda_cross_entropy,
    .relu_backward = cuda_relu_backward,
    .column_sum = cuda_column_sum,
    .update = cuda_update,
    .find_nonfinite = cuda_find_nonfinite,
    .cast = cuda_cast,
    .scale = cuda_scale,
    .collective = cuda_collective,
    .record = cuda_record,
    .wait = cuda_wait,
    .synchronise = cuda_synchronise,
    .elapsed_us = cuda_elapsed_us,
    .now_us = cuda_now_us,
    .trace_begin = stp_cuda_engine_trace_begin,
    .trace_end = stp_cuda_engine_trace_end,
    .range = stp_cuda_engine_range,
    .close = cuda_close,
};
