/* cuda_rank.c - a GPU as an engine */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_lt.h"
#include "device/cuda/cuda_plugin.h"
#include "device/cuda/kernels.h"
#include "device/cuda/train_kernels.h"
#include "device/host.h"

enum { NCCL_WITH_CHUNKS = 23000 };

/* ---- beginning and ending of all operations ---- */

static enum stp_status rank_begin(struct stp_cuda_rank *r,
                                  struct stp_error *err)
{
    const enum stp_status status = stp_cuda_job_alive(r, err);

    return status == STP_OK
               ? stp_cuda_result(r, cudaSetDevice(r->gpu), "cudaSetDevice", err)
               : status;
}

static enum stp_status rank_begin_in(struct stp_cuda_rank *r, unsigned stream,
                                     struct stp_error *err)
{
    if (stream >= STP_N_STREAMS)
        return STP_REFUSE(err, "stream %u of %u", stream,
                          (unsigned)STP_N_STREAMS);
    return rank_begin(r, err);
}

/* As rank_begin_in(), but measuring ranks leave the thread's GPU as it is:
 * prepare() chose it, and NCCL and events take any. */
static enum stp_status rank_begin_call(struct stp_cuda_rank *r, unsigned stream,
                                       struct stp_error *err)
{
    return r->cuda->measures && stream < STP_N_STREAMS
               ? stp_cuda_job_alive(r, err)
               : rank_begin_in(r, stream, err);
}

/* A failure of one rank would leave others waiting for it. */
static enum stp_status rank_done(struct stp_cuda_rank *r,
                                 enum stp_status status)
{
    return status == STP_ERR_DEVICE ? stp_cuda_job_fail(r, status) : status;
}

static enum stp_status rank_called(struct stp_cuda_rank *r, cudaError_t result,
                                   const char *call, struct stp_error *err)
{
    return rank_done(r, stp_cuda_result(r, result, call, err));
}

/* A kernel of ours was launched, or there is none. */
static enum stp_status rank_launched(struct stp_cuda_rank *r,
                                     cudaError_t result, const char *kernel,
                                     struct stp_error *err)
{
    if (result == cudaErrorNotSupported)
        return STP_REFUSE(err, "no %s on GPUs for these types or this size",
                          kernel);
    return rank_called(r, result, kernel, err);
}

/* ---- info ---- */

static void cuda_info(const void *self, struct stp_device_info *info_ret)
{
    const struct stp_cuda_rank *r = self;

    *info_ret = r->cuda->info;
    info_ret->rank = r->rank;
}

/* ---- memory ---- */

/* cudaMalloc()s memory, which release() frees. */
static enum stp_status cuda_alloc(void *self, uint64_t nbytes,
                                  const char *purpose, void **address_ret,
                                  struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    enum stp_status status = rank_begin(r, err);
    cudaStream_t stream = r->stream[STP_STREAM_MAIN];
    size_t free_bytes = 0, all_bytes;
    void *memory = NULL;
    cudaError_t result;
    void **more;

    STP_THEN(status, stp_cuda_result(r, cudaMemGetInfo(&free_bytes, &all_bytes),
                                     "cudaMemGetInfo", err));
    if (status != STP_OK)
        return status;
    more = realloc(r->memory, (r->n_memory + 1) * sizeof(*more));
    if (more == NULL)
        return stp_nomem(err);
    r->memory = more;
    if (nbytes <= free_bytes)
        status = stp_cuda_result(
            r, cudaMalloc(&memory, nbytes > 0 ? nbytes : 1), "cudaMalloc", err);
    if (nbytes > free_bytes || status != STP_OK) {
        cudaGetLastError(); /* or the next launch would have failed */
        return stp_fail(
            err, STP_ERR_NOMEM,
            "no memory on rank %u for %s: %.2f GB beside %.2f GB, but %.2f GB "
            "of GPU %d are free",
            r->rank, purpose, (double)nbytes / 1e9, (double)r->taken / 1e9,
            (double)free_bytes / 1e9, r->gpu);
    }
    r->memory[r->n_memory++] = memory;
    result = cudaMemsetAsync(memory, 0, nbytes, stream);
    STP_CUDA_THEN(result, cudaStreamSynchronize(stream));
    if (result != cudaSuccess)
        return stp_cuda_result(r, result, "cudaMemset", err);
    r->taken += nbytes;
    *address_ret = memory;
    return STP_OK;
}

/* cudaFree() waits for the GPU, which after a failure may wait for ever. */
static void cuda_release(void *self)
{
    struct stp_cuda_rank *r = self;

    if (rank_begin(r, NULL) != STP_OK)
        return;
    for (size_t i = 0; i < r->n_memory; i++)
        cudaFree(r->memory[i]);
    r->n_memory = 0;
    r->taken = 0;
    stp_cuda_setup_close(r);
}

/* In a stream of ours: ours do not wait for copies of the default stream. */
static enum stp_status rank_copy(struct stp_cuda_rank *r, void *to,
                                 const void *from, uint64_t nbytes,
                                 enum cudaMemcpyKind kind,
                                 struct stp_error *err)
{
    cudaStream_t stream = r->stream[STP_STREAM_MAIN];
    cudaError_t result;

    STP_TRY(rank_begin(r, err));
    result = cudaMemcpyAsync(to, from, nbytes, kind, stream);
    STP_CUDA_THEN(result, cudaStreamSynchronize(stream));
    return rank_called(r, result, "cudaMemcpy", err);
}

static enum stp_status cuda_upload(void *self, void *to, const void *from,
                                   uint64_t nbytes, struct stp_error *err)
{
    return rank_copy(self, to, from, nbytes, cudaMemcpyHostToDevice, err);
}

static enum stp_status cuda_download(void *self, void *to, const void *from,
                                     uint64_t nbytes, struct stp_error *err)
{
    return rank_copy(self, to, from, nbytes, cudaMemcpyDeviceToHost, err);
}

/* ---- ranks together ---- */

static enum stp_status cuda_select_arm(void *self, const struct stp_arm *arm,
                                       struct stp_error *err)
{
    const struct stp_cuda_rank *r = self;
    struct stp_cuda *d = r->cuda;
    const char *name = STP_ARM_TEXT(arm);

    if (arm->kind == STP_ARM_PLUGIN && !d->has_plugin)
        return STP_REFUSE(err,
                          "no tuner plugin: the GPUs were opened without one");
    if (arm->kind == STP_ARM_FORCED && !d->info.has_arms)
        return STP_REFUSE(
            err,
            "arm %s: NCCL %s did not load our tuner, so nothing can be forced: "
            "expected NCCL 2.22 or later and more than one rank",
            name, d->info.nccl);
    if (arm->chunk_bytes != 0 && d->nccl.version < NCCL_WITH_CHUNKS)
        return STP_REFUSE(
            err,
            "arm %s: NCCL %s asks no tuner for chunks, expected 2.30 or later",
            name, d->info.nccl);
    if (r->number == 0) {
        unsigned setup = STP_CUDA_SETUPS;

        STP_TRY(arm->kind == STP_ARM_SETUP
                    ? stp_cuda_setup(d, &arm->setup, &setup, err)
                    : STP_OK);
        stp_cuda_plugin_select(arm);
        d->arm = *arm;
        d->setup = setup;
    }
    return STP_OK;
}

/* ---- work ---- */

static enum stp_status rank_multiply(struct stp_cuda_rank *r, unsigned stream,
                                     const struct stp_product *p,
                                     struct stp_error *err)
{
    const struct stp_cuda_lt_plan *plan;
    enum stp_status status = STP_OK;
    bool is_first;

    STP_TRY(stp_product_check(p, err));
    STP_TRY(rank_begin_in(r, stream, err));
    /* The kernel of the first product of its shape is loaded while nothing
     * runs, as loading may wait for running kernels, and these for other ranks
     * of this process. */
    plan = stp_cuda_lt_find(r->lt, p);
    is_first = plan == NULL;
    if (is_first)
        status = stp_cuda_wait(r, err);
    if (is_first)
        STP_THEN(status, stp_cuda_lt_make(r->lt, p, err));
    if (is_first && status == STP_OK)
        plan = stp_cuda_lt_find(r->lt, p);
    STP_THEN(status, stp_cuda_lt_run(r->lt, plan, stream, p, err));
    if (is_first)
        STP_THEN(status, stp_cuda_wait(r, err));
    return rank_done(r, status);
}

static cudaError_t rank_launch(const struct stp_cuda_rank *r, unsigned stream,
                               const struct stp_kernel *k)
{
    cudaStream_t s = r->stream[stream];

    switch (k->kind) {
    case STP_KERNEL_ZERO:
        return cudaMemsetAsync(k->to, 0, k->n, s);
    case STP_KERNEL_SUBTRACT:
        return stp_kernel_elementwise(k->from, k->to, k->n, s);
    default:
        return stp_train_kernel(k, r->scratch[stream], STP_CUDA_SCRATCH, s);
    }
}

/* ---- collectives ---- */

static enum stp_status rank_collect(struct stp_cuda_rank *r, unsigned stream,
                                    const struct stp_transfer *transfer,
                                    struct stp_error *err)
{
    const enum stp_status status = rank_begin_call(r, stream, err);

    if (status != STP_OK || transfer->n == 0)
        return status;
    if (transfer->split > 0 && r->cuda->arm.kind == STP_ARM_SETUP)
        return STP_REFUSE(err,
                          "groups of ranks have no communicators of another "
                          "configuration, expected an arm without one");
    return rank_done(r, stp_cuda_setup_stages(r)
                            ? stp_cuda_stage_call(r, stream, transfer, err)
                            : stp_cuda_collective(r, stream, transfer,
                                                  stp_cuda_setup_comm(r), err));
}

/* A communicator of one rank is made, too. */
static enum stp_status cuda_split(void *self,
                                  const struct stp_rank_groups *groups,
                                  struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    int result;

    STP_TRY(rank_begin(r, err));
    if (r->n_parts == STP_MAX_SPLITS)
        return STP_REFUSE(err, "more than %d splits", STP_MAX_SPLITS);
    result = r->cuda->nccl.ncclCommSplit(
        r->comm, (int)stp_rank_groups_color(groups, r->rank), (int)r->rank,
        &r->parts[r->n_parts], NULL);
    r->n_parts += result == 0;
    return rank_done(r, stp_cuda_nccl_result(r, result, "ncclCommSplit", err));
}

/* ---- order and time ---- */

static enum stp_status rank_record(struct stp_cuda_rank *r, unsigned stream,
                                   unsigned event, struct stp_error *err)
{
    cudaError_t result;

    STP_TRY(rank_begin_call(r, stream, err));
    STP_TRY(stp_cuda_events(r, event, err));
    /* In a graph none can wait for a timed event: two are recorded. */
    result = cudaEventRecordWithFlags(r->events[event], r->stream[stream],
                                      r->captures ? cudaEventRecordExternal
                                                  : cudaEventRecordDefault);
    if (r->captures)
        STP_CUDA_THEN(result,
                      cudaEventRecord(r->joins[event], r->stream[stream]));
    if (result == cudaSuccess)
        r->recorded[event] = r->run;
    return rank_called(r, result, "cudaEventRecord", err);
}

static enum stp_status rank_await(struct stp_cuda_rank *r, unsigned stream,
                                  unsigned event, struct stp_error *err)
{
    STP_TRY(rank_begin_call(r, stream, err));
    if (event >= r->n_events || r->recorded[event] != r->run)
        return STP_REFUSE(
            err, "a wait for event %u, which was not recorded before", event);
    return rank_called(r,
                       cudaStreamWaitEvent(
                           r->stream[stream],
                           r->captures ? r->joins[event] : r->events[event], 0),
                       "cudaStreamWaitEvent", err);
}

static enum stp_status cuda_note(void *self, const struct stp_work *work,
                                 struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    const unsigned stream = work->stream;
    const struct stp_kernel *kernel = &work->as.kernel;

    switch (work->kind) {
    case STP_WORK_TRANSFER:
        return rank_collect(r, stream, &work->as.transfer, err);
    case STP_WORK_PRODUCT:
        return rank_multiply(r, stream, &work->as.product, err);
    case STP_WORK_RECORD:
        return rank_record(r, stream, work->event, err);
    case STP_WORK_WAIT:
        return rank_await(r, stream, work->event, err);
    default:
        break;
    }
    STP_TRY(rank_begin_in(r, stream, err));
    if (work->kind == STP_WORK_CROSS_ENTROPY)
        return rank_launched(
            r,
            stp_train_cross_entropy(&work->as.cross_entropy, r->stream[stream]),
            "cross-entropy", err);
    if (work->kind == STP_WORK_UPDATE)
        return rank_launched(
            r, stp_train_update(&work->as.update, r->stream[stream]), "update",
            err);
    return rank_launched(r, rank_launch(r, stream, kernel),
                         stp_kernel_name(kernel->kind), err);
}

static enum stp_status cuda_synchronise(void *self, struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    enum stp_status status = rank_begin_call(r, STP_STREAM_MAIN, err);

    STP_THEN(status, stp_cuda_wait(r, err));
    r->run++;
    return status;
}

static enum stp_status cuda_elapsed_us(const void *self, unsigned from,
                                       unsigned to, double *us_ret,
                                       struct stp_error *err)
{
    const struct stp_cuda_rank *r = self;
    float ms = 0;
    cudaError_t result =
        cudaEventElapsedTime(&ms, r->events[from], r->events[to]);

    *us_ret = (double)ms * 1e3;
    return stp_cuda_result(r, result, "cudaEventElapsedTime", err);
}

/* ---- tracing ---- */

static enum stp_status cuda_trace_begin(void *self, struct stp_error *err)
{
    struct stp_cuda_rank *r = self;

    return stp_cuda_trace_begin(&r->trace, r->gpu, r->stream, err);
}

static enum stp_status cuda_trace_end(void *self, struct stp_spans *spans,
                                      struct stp_error *err)
{
    return stp_cuda_trace_end(&((struct stp_cuda_rank *)self)->trace, spans,
                              err);
}

static void cuda_range(void *self, const char *name)
{
    stp_cuda_trace_range(&((struct stp_cuda_rank *)self)->trace, name);
}

/* ---- measuring: arms, and what NCCL ran ---- */

static void cuda_rank_line(const void *self, unsigned rank, char *line,
                           size_t size)
{
    const struct stp_cuda_rank *r = self;

    snprintf(line, size, "%s", r->cuda->places[rank].line);
}

static void cuda_listen(void *self)
{
    stp_cuda_plugin_listen((int)((struct stp_cuda_rank *)self)->rank);
}

/* Without a profiler: the choice that NCCL must have made by the table, as its
 * tuner left it: the cheapest arm that is not forced otherwise, if any.  What a
 * tuner of others chose is not known. */
static void rank_deduce_run(const struct stp_arm *arm,
                            const struct stp_question *q,
                            struct stp_device_run *run)
{
    float best = 3600000000.0f;
    bool is_forced = false;

    if (arm->kind == STP_ARM_PLUGIN || q->n_bytes == 0)
        return;
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            bool fits = stp_arm_ran(arm, a, p);

            if (!(q->cost[a][p] >= 0) || (is_forced && !fits) ||
                (is_forced == fits && q->cost[a][p] >= best))
                continue;
            is_forced = fits;
            best = q->cost[a][p];
            run->algo = a;
            run->proto = p;
        }
}

static void cuda_heard(void *self, struct stp_device_run *run_ret,
                       struct stp_question *question_ret)
{
    const struct stp_cuda_rank *r = self;

    stp_cuda_plugin_heard(run_ret, question_ret);
    if (run_ret->algo < 0 && (r->cuda->info.tuner[0] == '\0' ||
                              r->cuda->arm.kind == STP_ARM_FORCED ||
                              r->cuda->arm.kind == STP_ARM_NCCL))
        rank_deduce_run(&r->cuda->arm, question_ret, run_ret);
}

/* ---- measuring: buffers ---- */

/* Both streams may want as much. */
enum { N_VECTORS = 2 * STP_N_STREAMS };

static enum stp_status cuda_check(void *self, const struct stp_work *work,
                                  struct stp_error *err)
{
    const struct stp_product product = {.gemm = work->gemm,
                                        .type_c = work->gemm.type};
    const struct stp_cuda_rank *r = self;
    const double gib = 1073741824.0;

    if (work->kind == STP_WORK_GEMM)
        return stp_product_check(&product, err);
    if (work->kind != STP_WORK_ELEMENTWISE ||
        work->n_bytes <= r->free_bytes / N_VECTORS)
        return STP_OK;
    return STP_REFUSE(err,
                      "vectors of %.1f GiB, but GPU %d has %.1f GiB for %d "
                      "such: expected at most %.1f GiB",
                      (double)work->n_bytes / gib, r->gpu,
                      (double)r->free_bytes / gib, (int)N_VECTORS,
                      (double)r->free_bytes / N_VECTORS / gib);
}

/* Random data: on zeros GPUs draw less power and run faster. */
static cudaError_t rank_grow_room(struct stp_cuda_room *room,
                                  enum stp_room which, int type,
                                  uint64_t nbytes)
{
    const struct stp_pattern pattern = {
        .coll = ncclFuncAllReduce, .type = type, .ranks = 64, .block = 1};
    const unsigned number =
        which < STP_ROOM_X ? which - STP_ROOM_A : which - STP_ROOM_X;
    cudaError_t result;

    cudaFree(room->at);
    *room = (struct stp_cuda_room){0};
    result = cudaMalloc(&room->at, nbytes);
    STP_CUDA_THEN(result, stp_kernel_fill(&pattern, number, false, room->at,
                                          nbytes / stp_type_size(type), 0));
    STP_CUDA_THEN(result, cudaDeviceSynchronize());
    if (result == cudaSuccess) {
        room->nbytes = nbytes;
        room->type = type;
    }
    return result;
}

/* Vectors are a stream's, all other rooms the rank's; rooms not of products and
 * vectors are there since it was opened. */
static enum stp_status cuda_room(void *self, enum stp_room which,
                                 unsigned stream, int type, uint64_t nbytes,
                                 void **address_ret, struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    const bool is_vector = which == STP_ROOM_X || which == STP_ROOM_Y;
    const bool grows =
        is_vector || (which >= STP_ROOM_A && which <= STP_ROOM_C);
    struct stp_cuda_room *room =
        &r->rooms[is_vector ? stream : STP_STREAM_MAIN][which];
    enum stp_status status = STP_OK;

    if (grows && (nbytes > room->nbytes || type != room->type)) {
        status = rank_begin(r, err);
        STP_THEN(
            status,
            rank_called(r, rank_grow_room(room, which, type, nbytes),
                        is_vector ? "room for vectors" : "room for matrices",
                        err));
    }
    if (status == STP_OK)
        *address_ret =
            which <= STP_ROOM_RECV && stp_cuda_setup_memory(r, which) != NULL
                ? stp_cuda_setup_memory(r, which)
                : room->at;
    return status;
}

/* Also chooses the thread's GPU. */
static enum stp_status cuda_prepare(void *self, unsigned n_events,
                                    const struct stp_product *product,
                                    struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    enum stp_status status = rank_begin(r, err);

    if (status == STP_OK && n_events > 0)
        status = stp_cuda_events(r, n_events - 1, err);
    if (status != STP_OK || product == NULL)
        return status;
    if (r->lt == NULL)
        status = stp_cuda_lt_open(r, &r->lt, err);
    if (status == STP_OK && stp_cuda_lt_find(r->lt, product) == NULL)
        status = stp_cuda_lt_make(r->lt, product, err);
    return rank_done(r, status);
}

static enum stp_status cuda_fill(void *self, const struct stp_pattern *pattern,
                                 bool poison, void *data, uint64_t n,
                                 struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    cudaStream_t s = r->stream[STP_STREAM_MAIN];

    STP_TRY(rank_begin(r, err));
    return rank_called(
        r, stp_kernel_fill(pattern, pattern->rank, poison, data, n, s),
        "filling buffers", err);
}

static enum stp_status
cuda_examine(void *self, const struct stp_pattern *pattern, const void *data,
             uint64_t n, struct stp_found *found_ret, struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    cudaStream_t s = r->stream[STP_STREAM_MAIN];
    cudaError_t result;

    STP_TRY(rank_begin(r, err));
    result = cudaMemsetAsync(r->found, 0, sizeof(*r->found), s);
    STP_CUDA_THEN(result, stp_kernel_examine(pattern, pattern->rank, data, n,
                                             r->found, s));
    STP_CUDA_THEN(result,
                  cudaMemcpyAsync(found_ret, r->found, sizeof(*found_ret),
                                  cudaMemcpyDeviceToHost, s));
    STP_CUDA_THEN(result, cudaStreamSynchronize(s));
    return rank_called(r, result, "checking results", err);
}

/* ---- measuring: groups and graphs ---- */

/* Takes the first rank of a thread, for all of them. */
static enum stp_status cuda_group(void *self, bool begin, struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    const struct stp_nccl_api *nccl = &r->cuda->nccl;
    enum stp_status status = stp_cuda_nccl_result(
        r, begin ? nccl->ncclGroupStart() : nccl->ncclGroupEnd(),
        begin ? "ncclGroupStart" : "ncclGroupEnd", err);

    for (unsigned i = 0; i < r->cuda->n_gpus; i++) {
        r[i].staging.in_group = begin;
        if (!begin)
            STP_THEN(status, stp_cuda_stage_end(&r[i], err));
    }
    return status;
}

/* The other stream joins the capture, and at its end is joined again. */
static cudaError_t rank_fork_stream(const struct stp_cuda_rank *r,
                                    unsigned from, unsigned to)
{
    cudaError_t result = cudaEventRecord(r->joins[0], r->stream[from]);

    return result == cudaSuccess
               ? cudaStreamWaitEvent(r->stream[to], r->joins[0], 0)
               : result;
}

static enum stp_status cuda_begin_capture(void *self, struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    cudaError_t result;

    STP_TRY(rank_begin(r, err));
    STP_TRY(stp_cuda_events(r, 0, err));
    r->captures = true;
    memset(r->staging.records, 0, sizeof(r->staging.records));
    /* Other ranks of the thread may still capture when this one's graph is made
     * ready, which stricter modes forbid. */
    result = cudaStreamBeginCapture(r->stream[STP_STREAM_MAIN],
                                    cudaStreamCaptureModeRelaxed);
    STP_CUDA_THEN(result,
                  rank_fork_stream(r, STP_STREAM_MAIN, STP_STREAM_COMM));
    return rank_called(r, result, "cudaStreamBeginCapture", err);
}

static enum stp_status cuda_end_capture(void *self, struct stp_error *err)
{
    struct stp_cuda_rank *r = self;
    cudaGraph_t graph = NULL;
    cudaError_t result;

    STP_TRY(rank_begin(r, err));
    r->captures = false;
    result = rank_fork_stream(r, STP_STREAM_COMM, STP_STREAM_MAIN);
    STP_CUDA_THEN(result,
                  cudaStreamEndCapture(r->stream[STP_STREAM_MAIN], &graph));
    if (r->graph != NULL)
        cudaGraphExecDestroy(r->graph);
    r->graph = NULL;
    STP_CUDA_THEN(result, cudaGraphInstantiateWithFlags(&r->graph, graph, 0));
    STP_CUDA_THEN(result,
                  cudaGraphUpload(r->graph, r->stream[STP_STREAM_MAIN]));
    if (graph != NULL) {
        stp_cuda_graph_kernel(graph, r->captured);
        cudaGraphDestroy(graph);
    }
    return rank_called(r, result, "cudaStreamEndCapture", err);
}

static enum stp_status cuda_launch(void *self, struct stp_error *err)
{
    struct stp_cuda_rank *r = self;

    return rank_called(r, cudaGraphLaunch(r->graph, r->stream[STP_STREAM_MAIN]),
                       "cudaGraphLaunch", err);
}

static void cuda_captured(const void *self, char kernel[STP_KERNEL_NAME])
{
    memcpy(kernel, ((const struct stp_cuda_rank *)self)->captured,
           STP_KERNEL_NAME);
}

static enum stp_status cuda_reload_plugin(void *self, struct stp_error *err)
{
    return stp_cuda_plugin_reload(err);
}

static void cuda_abandon(void *self, bool is_abandoned)
{
    atomic_store(&((struct stp_cuda_rank *)self)->cuda->is_abandoned,
                 is_abandoned);
}

const struct stp_engine_ops stp_cuda_ops = {
    .info = cuda_info,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .upload = cuda_upload,
    .download = cuda_download,
    .agree = stp_cuda_job_agree,
    .note = cuda_note,
    .split = cuda_split,
    .synchronise = cuda_synchronise,
    .elapsed_us = cuda_elapsed_us,
    .now_us = stp_host_now_us,
    .trace_begin = cuda_trace_begin,
    .trace_end = cuda_trace_end,
    .range = cuda_range,
    .rank_line = cuda_rank_line,
    .select_arm = cuda_select_arm,
    .check = cuda_check,
    .room = cuda_room,
    .prepare = cuda_prepare,
    .fill = cuda_fill,
    .examine = cuda_examine,
    .listen = cuda_listen,
    .heard = cuda_heard,
    .group = cuda_group,
    .begin_capture = cuda_begin_capture,
    .end_capture = cuda_end_capture,
    .launch = cuda_launch,
    .captured = cuda_captured,
    .reload_plugin = cuda_reload_plugin,
    .abandon = cuda_abandon,
    .close = stp_cuda_close,
};
