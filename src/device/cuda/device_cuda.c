/* device_cuda.c - the GPUs of this and other processes, through NCCL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_plugin.h"
#include "device/cuda/engine_cuda.h"

/* ---- what it is ---- */

static void cuda_info(const void *self, struct stp_device_info *info_ret)
{
    *info_ret = ((const struct stp_cuda *)self)->info;
}

static void cuda_rank_line(const void *self, unsigned rank, char *line,
                           size_t size)
{
    const struct stp_cuda *d = self;

    snprintf(line, size, "%s", d->rank_lines[rank]);
}

static size_t cuda_sizes(const void *self, int coll, uint64_t *sizes,
                         size_t max)
{
    (void)self;
    (void)coll;
    (void)sizes;
    (void)max;
    return 0;
}

/* ---- measuring ---- */

static enum stp_status cuda_begin_round(void *self, unsigned round,
                                        unsigned n_rounds,
                                        struct stp_error *err)
{
    struct stp_cuda *d = self;
    bool any;

    (void)round;
    (void)n_rounds;
    return stp_world_any(d->world, false, &any, err);
}

static enum stp_status cuda_select_arm(void *self, const struct stp_arm *arm,
                                       struct stp_error *err)
{
    struct stp_cuda *d = self;

    if (arm->kind == STP_ARM_PLUGIN && !stp_cuda_plugin_has_inner())
        return stp_fail(err, STP_ERR_RANGE,
                        "no plugin to measure: the device was opened without");
    if (arm->kind >= STP_ARM_FORCED && !d->info.has_arms)
        return stp_fail(
            err, STP_ERR_RANGE,
            "NCCL %s did not load our tuner, so nothing can be forced: "
            "expected NCCL 2.22 or later and more than one rank",
            d->info.nccl);
    stp_cuda_plugin_select(arm);
    d->arm = *arm;
    return STP_OK;
}

/* Without a profiler: what NCCL must have made of the table, as its tuner left
 * it: the cheapest of what is not forced otherwise, if there is such. */
static void deduce(const struct stp_cuda *d, const struct stp_question *q,
                   struct stp_device_run *run)
{
    const struct stp_arm *arm = &d->arm;
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

static double span_us(const struct stp_cuda *d, unsigned from, unsigned to)
{
    double most = 0;

    for (unsigned r = 0; r < d->n_ranks; r++) {
        const double *us = &d->all_us[(size_t)r * d->n_times];

        if (us[to] - us[from] > most)
            most = us[to] - us[from];
    }
    return most;
}

static enum stp_status check_call(const struct stp_cuda *d,
                                  const struct stp_collective *what,
                                  struct stp_error *err)
{
    if (what->n_bytes > d->max_bytes)
        return stp_fail(err, STP_ERR_RANGE,
                        "%llu bytes, but the device was opened for %llu",
                        (unsigned long long)what->n_bytes,
                        (unsigned long long)d->max_bytes);
    if (what->root >= d->n_ranks)
        return stp_fail(err, STP_ERR_RANGE,
                        "root %u, expected one of the %u ranks, from 0",
                        what->root, d->n_ranks);
    return STP_OK;
}

static enum stp_status cuda_probe(void *self, const struct stp_collective *what,
                                  struct stp_device_run *run_ret,
                                  struct stp_question *question_ret,
                                  struct stp_error *err)
{
    struct stp_cuda *d = self;
    const struct stp_work notes[] = {
        {.kind = STP_WORK_RECORD, .event = 0},
        {.kind = STP_WORK_COLLECTIVE, .what = *what},
        {.kind = STP_WORK_RECORD, .event = 1},
    };
    struct stp_program program = {0};
    struct stp_question question;
    enum stp_status status = check_call(d, what, err);

    for (int i = 0; i < 3 && status == STP_OK; i++)
        status = stp_program_add(&program, &notes[i], err);
    stp_cuda_plugin_listen((int)d->ranks[0].rank);
    if (status == STP_OK)
        status = stp_cuda_run(d, &program, false, false, err);
    stp_cuda_plugin_heard(run_ret, &question);
    stp_program_free(&program);
    if (status != STP_OK)
        return status;
    if (run_ret->algo < 0)
        deduce(d, &question, run_ret);
    run_ret->source = STP_SOURCE_MEASURED;
    run_ret->us = span_us(d, 0, 1);
    if (question_ret != NULL)
        *question_ret = question;
    return STP_OK;
}

static enum stp_status cuda_check(void *self, const struct stp_collective *what,
                                  uint64_t seed, uint64_t *n_wrong_ret,
                                  struct stp_error *err)
{
    enum stp_status status = check_call(self, what, err);

    return status == STP_OK ? stp_cuda_check(self, what, seed, n_wrong_ret, err)
                            : status;
}

/* ---- noting ---- */

static enum stp_status cuda_collective(void *self, unsigned stream,
                                       const struct stp_collective *what,
                                       struct stp_error *err)
{
    struct stp_cuda *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_COLLECTIVE, .stream = stream, .what = *what};
    enum stp_status status = check_call(d, what, err);

    return status == STP_OK ? stp_program_add(&d->program, &note, err) : status;
}

static enum stp_status cuda_group(void *self, bool begin, struct stp_error *err)
{
    struct stp_cuda *d = self;
    const struct stp_work note = {.kind = begin ? STP_WORK_GROUP_BEGIN
                                                : STP_WORK_GROUP_END};

    return stp_program_add(&d->program, &note, err);
}

static enum stp_status cuda_compute(void *self, unsigned stream,
                                    const struct stp_gemm *gemm,
                                    struct stp_error *err)
{
    struct stp_cuda *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_COMPUTE, .stream = stream, .gemm = *gemm};
    enum stp_status status = stp_cuda_gemm_check(gemm, err);

    return status == STP_OK ? stp_program_add(&d->program, &note, err) : status;
}

static enum stp_status cuda_elementwise(void *self, unsigned stream,
                                        uint64_t n_bytes, struct stp_error *err)
{
    struct stp_cuda *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_ELEMENTWISE, .stream = stream, .n_bytes = n_bytes};
    enum stp_status status = stp_cuda_vectors_check(d, n_bytes, err);

    return status == STP_OK ? stp_program_add(&d->program, &note, err) : status;
}

static enum stp_status cuda_record(void *self, unsigned stream, unsigned event,
                                   struct stp_error *err)
{
    struct stp_cuda *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_RECORD, .stream = stream, .event = event};

    return stp_program_add(&d->program, &note, err);
}

static enum stp_status cuda_wait(void *self, unsigned stream, unsigned event,
                                 struct stp_error *err)
{
    struct stp_cuda *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_WAIT, .stream = stream, .event = event};

    return stp_program_add(&d->program, &note, err);
}

static enum stp_status cuda_synchronise(void *self, struct stp_error *err)
{
    struct stp_cuda *d = self;

    stp_program_begin(&d->program);
    return stp_cuda_run(d, &d->program, d->graph, false, err);
}

static enum stp_status cuda_replay(void *self, struct stp_error *err)
{
    struct stp_cuda *d = self;

    return stp_cuda_run(d, &d->program, d->graph, true, err);
}

static double cuda_wall_us(const void *self)
{
    const struct stp_cuda *d = self;
    double most = 0;

    for (size_t r = 1; r <= d->n_ranks; r++)
        if (d->all_us[r * d->n_times - 1] > most)
            most = d->all_us[r * d->n_times - 1];
    return most;
}

static double cuda_elapsed_us(const void *self, unsigned from, unsigned to)
{
    return span_us(self, from, to);
}

static enum stp_source cuda_source(const void *self)
{
    (void)self;
    return STP_SOURCE_MEASURED;
}

/* ---- closing ---- */

static void close_rank(struct stp_cuda *d, struct stp_cuda_rank *r)
{
    cudaSetDevice(r->gpu);
    stp_cuda_gemm_free(r->gemm);
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        stp_cuda_vectors_free(&r->vectors[s]);
    if (r->graph != NULL)
        cudaGraphExecDestroy(r->graph);
    for (unsigned i = 0; i < r->n_events; i++) {
        cudaEventDestroy(r->event[i]);
        cudaEventDestroy(r->join[i]);
    }
    free(r->event);
    free(r->join);
    if (r->comm != NULL)
        d->nccl.comm_destroy(r->comm);
    cudaFree(r->send);
    cudaFree(r->recv);
    cudaFree(r->meeting);
    cudaFree(r->n_wrong);
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        if (r->stream[s] != NULL)
            cudaStreamDestroy(r->stream[s]);
}

static enum stp_status close_part(void *user, unsigned thread,
                                  struct stp_error *err)
{
    struct stp_cuda *d = user;

    (void)err;
    for (unsigned i = 0; i < d->n_gpus; i++)
        close_rank(d, &d->ranks[thread * d->n_gpus + i]);
    return STP_OK;
}

/* After a failure ranks may hang in NCCL, and so would its end: what they have
 * goes with the process. */
void stp_cuda_close(struct stp_cuda *d)
{
    if (d->crew != NULL && !stp_crew_failed(d->crew)) {
        stp_crew_run(d->crew, close_part, d, d->world, 0, NULL);
        stp_crew_destroy(d->crew);
    } else if (d->crew != NULL)
        return;
    stp_program_free(&d->program);
    free(d->ranks);
    free(d->rank_lines);
    free(d->local_us);
    free(d->all_us);
    free(d);
}

static void cuda_close(void *self)
{
    stp_cuda_close(self);
}

static const struct stp_device_ops cuda_ops = {
    .info = cuda_info,
    .rank_line = cuda_rank_line,
    .sizes = cuda_sizes,
    .begin_round = cuda_begin_round,
    .select_arm = cuda_select_arm,
    .probe = cuda_probe,
    .check = cuda_check,
    .collective = cuda_collective,
    .group = cuda_group,
    .compute = cuda_compute,
    .elementwise = cuda_elementwise,
    .record = cuda_record,
    .wait = cuda_wait,
    .synchronise = cuda_synchronise,
    .replay = cuda_replay,
    .elapsed_us = cuda_elapsed_us,
    .wall_us = cuda_wall_us,
    .source = cuda_source,
    .close = cuda_close,
};

/* ---- opening ---- */

static enum stp_status cuda_open(const struct stp_device_options *options,
                                 struct stp_device *device_ret,
                                 struct stp_error *err)
{
    struct stp_cuda *d = calloc(1, sizeof(*d));
    enum stp_status status;

    if (d == NULL)
        return stp_nomem(err);
    d->world = options->world;
    d->max_bytes = options->max_bytes;
    d->graph = options->graph > 0;
    d->time_limit_s = options->time_limit_s;
    status = stp_cuda_set_up(d, options, err);
    if (status != STP_OK) {
        cuda_close(d);
        return status;
    }
    device_ret->ops = &cuda_ops;
    device_ret->self = d;
    return STP_OK;
}

extern const struct stp_module stp_steptune_module;

__attribute__((visibility("default")))
const struct stp_module stp_steptune_module = {.abi = STP_MODULE_ABI,
                                               .name = "nccl",
                                               .open = cuda_open,
                                               .open_engines =
                                                   stp_engine_cuda_open};
