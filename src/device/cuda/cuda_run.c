/* cuda_run.c - running what was noted */
#include <stdlib.h>
#include <time.h>

#include "device/cuda/cuda.h"
#include "nccl_tuner_abi.h"

enum { POLLS_PER_LOOK = 1000 };

/* ---- the notes of one thread ---- */

/* What a thread of the crew works on. */
struct part {
    struct stp_cuda *d;
    const struct stp_cuda_run *run;
    struct stp_cuda_rank *ranks;
    unsigned n;
    unsigned n_collectives; /* issued so far */
    bool captures;
    struct stp_error *err;
};

static enum stp_status group(struct part *p, bool begin)
{
    const struct stp_nccl_api *nccl = &p->d->nccl;

    return stp_cuda_nccl_result(
        p->d, &p->ranks[0], begin ? nccl->group_start() : nccl->group_end(),
        begin ? "ncclGroupStart" : "ncclGroupEnd", p->err);
}

/* A thread with several ranks must group what it starts for them. */
static enum stp_status issue_collective(struct part *p,
                                        const struct stp_work *note)
{
    enum stp_status status = STP_OK;

    if (p->n > 1)
        status = group(p, true);
    for (unsigned i = 0; i < p->n && status == STP_OK; i++)
        status = stp_cuda_collective(p->d, &p->ranks[i], note->stream,
                                     &note->what, p->n_collectives, p->err);
    if (p->n > 1 && status == STP_OK)
        status = group(p, false);
    else if (p->n > 1)
        p->d->nccl.group_end(); /* what was refused leaves no group open */
    p->n_collectives++;
    return status;
}

/* A product or an elementwise kernel. */
static enum stp_status issue_kernel(struct part *p, const struct stp_work *note)
{
    bool multiplies = note->kind == STP_WORK_COMPUTE;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < p->n && status == STP_OK; i++) {
        const struct stp_cuda_rank *r = &p->ranks[i];

        cudaSetDevice(r->gpu);
        status =
            multiplies
                ? stp_cuda_gemm_run(r, note->stream, &note->gemm, p->err)
                : stp_cuda_vectors_run(r, note->stream, note->n_bytes, p->err);
    }
    return status;
}

/* In a graph an event that is timed cannot be waited for: two are recorded. */
static cudaError_t record(const struct part *p, const struct stp_cuda_rank *r,
                          const struct stp_work *note)
{
    cudaStream_t s = r->stream[note->stream];
    cudaError_t result = cudaEventRecordWithFlags(
        r->event[note->event], s,
        p->captures ? cudaEventRecordExternal : cudaEventRecordDefault);

    if (result == cudaSuccess && p->captures)
        result = cudaEventRecord(r->join[note->event], s);
    return result;
}

static enum stp_status issue_event(struct part *p, const struct stp_work *note)
{
    for (unsigned i = 0; i < p->n; i++) {
        const struct stp_cuda_rank *r = &p->ranks[i];
        cudaEvent_t from =
            p->captures ? r->join[note->event] : r->event[note->event];
        bool records = note->kind == STP_WORK_RECORD;
        cudaError_t result =
            records ? record(p, r, note)
                    : cudaStreamWaitEvent(r->stream[note->stream], from, 0);
        enum stp_status status = stp_cuda_result(
            r, result, records ? "cudaEventRecord" : "cudaStreamWaitEvent",
            p->err);

        if (status != STP_OK)
            return status;
    }
    return STP_OK;
}

static enum stp_status issue(struct part *p, const struct stp_work *note)
{
    switch (note->kind) {
    case STP_WORK_COLLECTIVE:
        return issue_collective(p, note);
    case STP_WORK_GROUP_BEGIN:
    case STP_WORK_GROUP_END:
        return group(p, note->kind == STP_WORK_GROUP_BEGIN);
    case STP_WORK_COMPUTE:
    case STP_WORK_ELEMENTWISE:
        return issue_kernel(p, note);
    case STP_WORK_RECORD:
    case STP_WORK_WAIT:
        return issue_event(p, note);
    case STP_WORK_TASK:
        break;
    }
    return STP_OK;
}

static enum stp_status issue_all(struct part *p)
{
    const struct stp_program *program = p->run->program;
    enum stp_status status = STP_OK;

    p->n_collectives = 0;
    for (size_t i = 0; i < program->n_notes && status == STP_OK; i++)
        status = issue(p, &program->notes[i]);
    return status;
}

/* ---- before ---- */

static enum stp_status make_events(struct stp_cuda_rank *r, unsigned n,
                                   struct stp_error *err)
{
    cudaEvent_t *event = realloc(r->event, n * sizeof(cudaEvent_t));
    cudaEvent_t *join;

    if (event != NULL)
        r->event = event;
    join = realloc(r->join, n * sizeof(cudaEvent_t));
    if (join != NULL)
        r->join = join;
    if (event == NULL || join == NULL)
        return stp_nomem(err);
    cudaSetDevice(r->gpu);
    for (; r->n_events < n; r->n_events++) {
        cudaError_t result = cudaEventCreate(&r->event[r->n_events]);

        if (result == cudaSuccess)
            result = cudaEventCreateWithFlags(&r->join[r->n_events],
                                              cudaEventDisableTiming);
        if (result != cudaSuccess)
            return stp_cuda_result(r, result, "cudaEventCreate", err);
    }
    return STP_OK;
}

static enum stp_status prepare_note(struct stp_cuda_rank *r,
                                    const struct stp_work *note,
                                    struct stp_error *err)
{
    switch (note->kind) {
    case STP_WORK_COMPUTE:
        return stp_cuda_gemm_prepare(r, &note->gemm, err);
    case STP_WORK_ELEMENTWISE:
        return stp_cuda_vectors_prepare(r, note->stream, note->n_bytes, err);
    default:
        return STP_OK;
    }
}

static enum stp_status prepare(struct part *p)
{
    const struct stp_program *program = p->run->program;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < p->n && status == STP_OK; i++) {
        struct stp_cuda_rank *r = &p->ranks[i];

        if (r->n_events < program->n_events)
            status = make_events(r, 2 * program->n_events, p->err);
        for (size_t k = 0; k < program->n_notes && status == STP_OK; k++)
            status = prepare_note(r, &program->notes[k], p->err);
    }
    return status;
}

/* ---- as a graph ---- */

/* The other stream joins the capture, and at its end is joined again. */
static cudaError_t fork_stream(const struct stp_cuda_rank *r, unsigned from,
                               unsigned to)
{
    cudaError_t result = cudaEventRecord(r->join[0], r->stream[from]);

    return result == cudaSuccess
               ? cudaStreamWaitEvent(r->stream[to], r->join[0], 0)
               : result;
}

static enum stp_status begin_capture(const struct stp_cuda_rank *r,
                                     struct stp_error *err)
{
    cudaError_t result = cudaStreamBeginCapture(
        r->stream[STP_STREAM_MAIN], cudaStreamCaptureModeThreadLocal);

    if (result == cudaSuccess)
        result = fork_stream(r, STP_STREAM_MAIN, STP_STREAM_COMM);
    return stp_cuda_result(r, result, "cudaStreamBeginCapture", err);
}

static enum stp_status end_capture(struct stp_cuda_rank *r,
                                   struct stp_error *err)
{
    cudaGraph_t graph = NULL;
    cudaError_t result = fork_stream(r, STP_STREAM_COMM, STP_STREAM_MAIN);

    if (result == cudaSuccess)
        result = cudaStreamEndCapture(r->stream[STP_STREAM_MAIN], &graph);
    if (r->graph != NULL)
        cudaGraphExecDestroy(r->graph);
    r->graph = NULL;
    if (result == cudaSuccess)
        result = cudaGraphInstantiateWithFlags(&r->graph, graph, 0);
    if (result == cudaSuccess)
        result = cudaGraphUpload(r->graph, r->stream[STP_STREAM_MAIN]);
    if (graph != NULL)
        cudaGraphDestroy(graph);
    return stp_cuda_result(r, result, "cudaStreamEndCapture", err);
}

static enum stp_status wait_for_all(struct part *p)
{
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < p->n && status == STP_OK; i++)
        status = stp_cuda_wait(p->d, &p->ranks[i], p->err);
    return status;
}

/* Runs it once before: what NCCL and cuBLAS set up on first use they cannot
 * set up in a capture. */
static enum stp_status capture(struct part *p)
{
    enum stp_status status = issue_all(p);

    if (status == STP_OK)
        status = wait_for_all(p);
    for (unsigned i = 0; i < p->n && status == STP_OK; i++) {
        cudaSetDevice(p->ranks[i].gpu);
        if (p->ranks[i].n_events == 0)
            status = make_events(&p->ranks[i], 1, p->err);
        if (status == STP_OK)
            status = begin_capture(&p->ranks[i], p->err);
    }
    p->captures = true;
    if (status == STP_OK)
        status = issue_all(p);
    p->captures = false;
    for (unsigned i = 0; i < p->n && status == STP_OK; i++) {
        cudaSetDevice(p->ranks[i].gpu);
        status = end_capture(&p->ranks[i], p->err);
    }
    return status;
}

static enum stp_status launch(struct part *p)
{
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < p->n && status == STP_OK; i++)
        status = stp_cuda_result(
            &p->ranks[i],
            cudaGraphLaunch(p->ranks[i].graph,
                            p->ranks[i].stream[STP_STREAM_MAIN]),
            "cudaGraphLaunch", p->err);
    return status;
}

/* ---- the run ---- */

static enum stp_status look(const struct stp_cuda *d,
                            const struct stp_cuda_rank *r,
                            struct stp_error *err)
{
    int error = ncclSuccess;
    enum stp_status status;

    if (stp_crew_failed(d->crew))
        return stp_fail(err, STP_ERR_STOPPED,
                        "rank %u stopped, as another failed", r->rank);
    status = stp_cuda_nccl_result(d, r,
                                  d->nccl.comm_get_async_error(r->comm, &error),
                                  "ncclCommGetAsyncError", err);
    return status == STP_OK
               ? stp_cuda_nccl_result(d, r, error, "a collective", err)
               : status;
}

enum stp_status stp_cuda_wait(const struct stp_cuda *d,
                              const struct stp_cuda_rank *r,
                              struct stp_error *err)
{
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        for (unsigned n = 1;; n++) {
            cudaError_t result = cudaStreamQuery(r->stream[s]);
            enum stp_status status = STP_OK;

            if (result == cudaSuccess)
                break;
            if (result != cudaErrorNotReady)
                return stp_cuda_result(r, result, "cudaStreamQuery", err);
            if (n % POLLS_PER_LOOK == 0)
                status = look(d, r, err);
            if (status != STP_OK)
                return status;
        }
    return STP_OK;
}

/* Processes start later or earlier by what a message takes: on the GPUs they
 * meet again. */
static enum stp_status meet(struct part *p)
{
    enum stp_status status = STP_OK;

    if (p->d->world->size > 1) {
        if (p->n > 1)
            status = group(p, true);
        for (unsigned i = 0; i < p->n && status == STP_OK; i++) {
            const struct stp_cuda_rank *r = &p->ranks[i];

            status = stp_cuda_nccl_result(
                p->d, r,
                p->d->nccl.all_reduce(r->meeting, r->meeting, 1, STP_TYPE_F32,
                                      STP_OP_SUM, r->comm,
                                      r->stream[STP_STREAM_MAIN]),
                "ncclAllReduce", p->err);
        }
        if (p->n > 1 && status == STP_OK)
            status = group(p, false);
        if (status == STP_OK)
            status = wait_for_all(p);
    }
    if (status == STP_OK && !stp_crew_meet(p->d->crew))
        status =
            stp_fail(p->err, STP_ERR_STOPPED,
                     "rank %u stopped, as another failed", p->ranks[0].rank);
    return status;
}

static enum stp_status read_events(struct part *p,
                                   const struct stp_cuda_rank *r, double *us)
{
    const struct stp_program *program = p->run->program;
    const struct stp_work *first = NULL;

    for (size_t i = 0; i < program->n_notes; i++) {
        const struct stp_work *note = &program->notes[i];
        float ms = 0;
        cudaError_t result;

        if (note->kind != STP_WORK_RECORD)
            continue;
        first = first == NULL ? note : first;
        result = cudaEventElapsedTime(&ms, r->event[first->event],
                                      r->event[note->event]);
        if (result != cudaSuccess)
            return stp_cuda_result(r, result, "cudaEventElapsedTime", p->err);
        us[note->event] = (double)ms * 1e3;
    }
    return STP_OK;
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static enum stp_status read_times(struct part *p, unsigned first, double wall)
{
    struct stp_cuda *d = p->d;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < p->n && status == STP_OK; i++) {
        double *us = &d->local_us[(first + i) * (size_t)d->n_times];

        us[d->n_times - 1] = wall;
        status = read_events(p, &p->ranks[i], us);
    }
    return status;
}

static enum stp_status run_part(void *user, unsigned thread,
                                struct stp_error *err)
{
    const struct stp_cuda_run *run = user;
    struct stp_cuda *d = run->cuda;
    struct part p = {.d = d,
                     .run = run,
                     .ranks = &d->ranks[thread * d->n_gpus],
                     .n = d->n_gpus,
                     .err = err};
    enum stp_status status = prepare(&p);
    double start;

    if (status == STP_OK && run->use_graph && !run->replay)
        status = capture(&p);
    if (status == STP_OK)
        status = meet(&p);
    start = now_us();
    if (status == STP_OK)
        status = run->use_graph ? launch(&p) : issue_all(&p);
    if (status == STP_OK)
        status = wait_for_all(&p);
    return status == STP_OK
               ? read_times(&p, thread * d->n_gpus, now_us() - start)
               : status;
}

static enum stp_status make_room(struct stp_cuda *d, unsigned n_times,
                                 struct stp_error *err)
{
    double *local = calloc((size_t)d->n_local * n_times, sizeof(double));
    double *all = calloc((size_t)d->n_ranks * n_times, sizeof(double));

    if (local == NULL || all == NULL) {
        free(local);
        free(all);
        return stp_nomem(err);
    }
    free(d->local_us);
    free(d->all_us);
    d->local_us = local;
    d->all_us = all;
    d->n_times = n_times;
    return STP_OK;
}

enum stp_status stp_cuda_run(struct stp_cuda *d,
                             const struct stp_program *program, bool use_graph,
                             bool replay, struct stp_error *err)
{
    struct stp_cuda_run run = {d, program, use_graph, replay};
    enum stp_status status = make_room(d, program->n_events + 1, err);

    if (status == STP_OK)
        status = stp_crew_run(d->crew, run_part, &run, d->world,
                              d->time_limit_s, err);
    if (status != STP_OK)
        return status;
    return d->world->ops->exchange(
        d->world->self, d->local_us,
        (size_t)d->n_local * d->n_times * sizeof(double), d->all_us, err);
}
