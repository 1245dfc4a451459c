#include "device/cpu/engine_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cpu/cpu_host.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/cpu_streams.h"
#include "device/cpu/cpu_task.h"
#include "device/cpu/cpu_trace.h"
#include "device/cpu/reduce.h"
#include "device/ranks.h"
#include "nccl_tuner_abi.h"

/* What is measured in, grown to the most that was asked for. */
struct room {
    void *at;
    uint64_t nbytes;
    int type; /* of the numbers in it */
};

struct engine {
    const struct stp_transport_ops *transport;
    void *link; /* NULL: not open, or one rank */
    const struct stp_world *world;
    struct stp_cpu_host *hosts; /* by rank */
    unsigned n_threads;         /* of a product */
    unsigned time_limit_s;
    struct stp_cpu_memory memory;
    struct stp_cpu_task *tasks;
    size_t n_tasks;
    size_t capacity;
    struct stp_program program;
    struct stp_cpu_scratch scratch[STP_N_STREAMS];
    struct stp_cpu_trace trace;
    double *us; /* of the events of the last run */
    bool failed;
    uint64_t max_bytes; /* of a collective that is measured */
    struct room rooms[STP_N_STREAMS][STP_N_ROOMS];
};

/* ---- what it is ---- */

static void cpu_info(const void *self, struct stp_engine_info *info_ret)
{
    const struct engine *e = self;
    struct stp_device_info device;
    struct stp_engine_info info = {.has_data = true, .is_late = true};

    info.rank = e->world->rank;
    info.n_ranks = e->world->size;
    stp_cpu_hosts_info(e->hosts, e->world->size,
                       e->link == NULL ? "no transport" : e->transport->what,
                       &device);
    snprintf(info.gpu, sizeof(info.gpu), "%s", e->hosts[0].model);
    snprintf(info.what, sizeof(info.what), "%s", device.what);
    *info_ret = info;
}

/* ---- memory ---- */

static enum stp_status cpu_alloc(void *self, uint64_t nbytes, const char *what,
                                 void **address_ret, struct stp_error *err)
{
    struct engine *e = self;

    return stp_cpu_memory_take(&e->memory, nbytes, what, address_ret, err);
}

static void cpu_release(void *self)
{
    stp_cpu_memory_release(&((struct engine *)self)->memory);
}

static enum stp_status cpu_copy(void *self, void *to, const void *from,
                                uint64_t nbytes, struct stp_error *err)
{
    (void)self;
    (void)err;
    memcpy(to, from, nbytes);
    return STP_OK;
}

static enum stp_status cpu_agree(void *self, enum stp_status status,
                                 struct stp_error *err)
{
    const struct engine *e = self;

    return stp_world_agree(e->world, status, err);
}

static enum stp_status cpu_select_arm(void *self, const struct stp_arm *arm,
                                      struct stp_error *err)
{
    const struct engine *e = self;

    if (arm->kind < STP_ARM_FORCED)
        return STP_OK;
    if (arm->kind == STP_ARM_PLUGIN)
        return stp_fail(err, STP_ERR_RANGE,
                        "tuner plugins are NCCL's: CPUs have none");
    return stp_fail(
        err, STP_ERR_RANGE,
        "algorithms and protocols are NCCL's: none can be forced on %s",
        e->transport != NULL ? e->transport->name : "CPUs");
}

/* ---- running ---- */

/* What the one rank of a world gives is what it gets.  An average is a sum that
 * the ranks which get it divide. */
static enum stp_status cpu_run_collective(struct engine *e, unsigned stream,
                                          const struct stp_transfer *t,
                                          struct stp_error *err)
{
    const bool averages = t->op == STP_OP_AVG && stp_coll_reduces(t->coll);
    const bool gets =
        t->coll != ncclFuncReduce || t->root == (int)e->world->rank;
    struct stp_transfer sum = *t;
    enum stp_status status;

    if (e->link == NULL) {
        memmove(t->out, t->in, t->n * stp_type_size(t->type));
        return STP_OK;
    }
    if (t->op == STP_OP_AVG)
        sum.op = STP_OP_SUM;
    status = e->transport->collective(e->link, stream, &sum, err);
    if (status == STP_OK && averages && gets)
        stp_reduce_divide(t->type, t->out, t->n, e->world->size);
    return status;
}

static enum stp_status cpu_work(void *self, const struct stp_work *note,
                                struct stp_error *err)
{
    struct engine *e = self;
    const struct stp_cpu_task *task = &e->tasks[note->task];
    const double begin_us = e->trace.on ? stp_cpu_now_us() : 0;
    enum stp_status status =
        task->kind == STP_CPU_COLLECTIVE
            ? cpu_run_collective(e, note->stream, &task->as.transfer, err)
            : stp_cpu_task_run(task, &e->scratch[note->stream], err);

    if (e->trace.on)
        stp_cpu_trace_tell(&e->trace, note->task, note->stream, begin_us,
                           stp_cpu_now_us());
    return status;
}

static enum stp_status cpu_meet(void *self, unsigned stream,
                                struct stp_error *err)
{
    struct engine *e = self;

    return e->link == NULL ? STP_OK
                           : e->transport->barrier(e->link, stream, err);
}

static bool cpu_alive(void *self, struct stp_error *err)
{
    const struct engine *e = self;

    return e->world->ops->alive(e->world->self, err);
}

static void cpu_abort(void *self, const char *why)
{
    struct engine *e = self;

    if (e->link != NULL)
        e->transport->abort(e->link, why);
}

/* A broken connection is the first that a rank sees of another that died. Waits
 * up to a second for the world to know which one, and then has *err say that.
 */
static void cpu_find_dead_rank(const struct stp_world *world,
                               struct stp_error *err)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    struct stp_error death;

    for (int i = 0; i < 20 && world->size > 1; i++) {
        if (!world->ops->alive(world->self, &death)) {
            if (err != NULL)
                *err = death;
            return;
        }
        nanosleep(&pause, NULL);
    }
}

static enum stp_status cpu_synchronise(void *self, struct stp_error *err)
{
    struct engine *e = self;
    const struct stp_cpu_worker worker = {.work = cpu_work,
                                          .meet = cpu_meet,
                                          .alive = cpu_alive,
                                          .abort = cpu_abort,
                                          .self = e,
                                          .time_limit_s = e->time_limit_s};
    enum stp_status status;
    double *us;

    if (e->failed)
        return stp_fail(err, STP_ERR_DEVICE,
                        "the ranks are no longer connected");
    stp_cpu_product_threads(e->n_threads); /* another engine's are others */
    stp_program_begin(&e->program);
    us = realloc(e->us, (e->program.n_events + 1) * sizeof(*us));
    if (us == NULL)
        return stp_nomem(err);
    e->us = us;
    status = stp_cpu_trace_reserve(&e->trace, e->tasks, e->n_tasks, err);
    if (status != STP_OK)
        return status;
    status = stp_cpu_streams_run(&e->program, &worker, us, err);
    if (status != STP_OK)
        cpu_find_dead_rank(e->world, err);
    e->failed = status != STP_OK;
    return status;
}

static double cpu_elapsed_us(const void *self, unsigned from, unsigned to)
{
    const struct engine *e = self;

    return e->us[to] - e->us[from];
}

static double cpu_now_us(const void *self)
{
    (void)self;
    return stp_cpu_now_us();
}

/* ---- tracing ---- */

static enum stp_status cpu_trace_begin(void *self, struct stp_error *err)
{
    (void)err;
    ((struct engine *)self)->trace.on = true;
    return STP_OK;
}

static enum stp_status cpu_trace_end(void *self, struct stp_spans *spans,
                                     struct stp_error *err)
{
    return stp_cpu_trace_end(&((struct engine *)self)->trace, spans, err);
}

static void cpu_range(void *self, const char *name)
{
    stp_ranges_tell(&((struct engine *)self)->trace.ranges, name);
}

/* ---- noting ---- */

static enum stp_status cpu_grow(struct engine *e, struct stp_error *err)
{
    const size_t n = 2 * e->capacity + 64;
    struct stp_cpu_task *more = realloc(e->tasks, n * sizeof(*more));

    if (more == NULL)
        return stp_nomem(err);
    e->tasks = more;
    e->capacity = n;
    return STP_OK;
}

static enum stp_status cpu_note(struct engine *e, const struct stp_work *what,
                                struct stp_error *err)
{
    if (what->stream >= STP_N_STREAMS)
        return stp_fail(err, STP_ERR_RANGE, "stream %u of %u", what->stream,
                        (unsigned)STP_N_STREAMS);
    if (e->program.ran)
        e->n_tasks = 0;
    return stp_program_add(&e->program, what, err);
}

static enum stp_status cpu_add_task(struct engine *e, unsigned stream,
                                    const struct stp_cpu_task *task,
                                    struct stp_error *err)
{
    struct stp_work noted = {.kind = STP_WORK_TASK, .stream = stream};
    enum stp_status status = STP_OK;

    if (e->program.ran)
        e->n_tasks = 0;
    if (e->n_tasks == e->capacity)
        status = cpu_grow(e, err);
    noted.task = e->n_tasks;
    if (status == STP_OK)
        status = cpu_note(e, &noted, err);
    if (status == STP_OK)
        e->tasks[e->n_tasks] = *task;
    if (status == STP_OK)
        e->tasks[e->n_tasks++].range = stp_ranges_now(&e->trace.ranges);
    return status;
}

static enum stp_status cpu_add_elements(void *self, unsigned stream,
                                        enum stp_cpu_task_kind kind,
                                        const struct stp_cpu_elements *x,
                                        struct stp_error *err)
{
    return cpu_add_task(self, stream,
                        &(struct stp_cpu_task){.kind = kind, .as.elements = *x},
                        err);
}

static enum stp_status cpu_zero(void *self, unsigned stream, void *address,
                                uint64_t nbytes, struct stp_error *err)
{
    const struct stp_cpu_elements x = {.n = nbytes, .to = address};

    return cpu_add_elements(self, stream, STP_CPU_ZERO, &x, err);
}

static enum stp_status cpu_product(void *self, unsigned stream,
                                   const struct stp_product *product,
                                   struct stp_error *err)
{
    const struct stp_cpu_task task = {.kind = STP_CPU_PRODUCT,
                                      .as.product = *product};
    enum stp_status status = stp_cpu_product_check(product, err);

    return status == STP_OK ? cpu_add_task(self, stream, &task, err) : status;
}

static enum stp_status cpu_cross_entropy(void *self, unsigned stream,
                                         const struct stp_cross_entropy *what,
                                         struct stp_error *err)
{
    const struct stp_cpu_task task = {.kind = STP_CPU_CROSS_ENTROPY,
                                      .as.cross_entropy = *what};

    return cpu_add_task(self, stream, &task, err);
}

static enum stp_status cpu_relu_backward(void *self, unsigned stream, int type,
                                         uint64_t n, const void *output,
                                         void *gradient, struct stp_error *err)
{
    const struct stp_cpu_elements x = {
        .type = type, .n = n, .from = output, .to = gradient};

    return cpu_add_elements(self, stream, STP_CPU_RELU_BACKWARD, &x, err);
}

static enum stp_status cpu_column_sum(void *self, unsigned stream, int type,
                                      int sum_type, unsigned rows,
                                      unsigned columns, double beta,
                                      const void *matrix, void *sum,
                                      struct stp_error *err)
{
    const struct stp_cpu_elements x = {.type = type,
                                       .type_to = sum_type,
                                       .rows = rows,
                                       .columns = columns,
                                       .factor = beta,
                                       .from = matrix,
                                       .to = sum};

    return cpu_add_elements(self, stream, STP_CPU_COLUMN_SUM, &x, err);
}

static enum stp_status cpu_update(void *self, unsigned stream,
                                  const struct stp_update *update,
                                  struct stp_error *err)
{
    const struct stp_cpu_task task = {.kind = STP_CPU_UPDATE,
                                      .as.update = *update};

    return cpu_add_task(self, stream, &task, err);
}

static enum stp_status cpu_find_nonfinite(void *self, unsigned stream, int type,
                                          uint64_t n, const void *data,
                                          float *found, struct stp_error *err)
{
    const struct stp_cpu_elements x = {
        .type = type, .n = n, .from = data, .to = found};

    return cpu_add_elements(self, stream, STP_CPU_FIND_NONFINITE, &x, err);
}

static enum stp_status cpu_cast(void *self, unsigned stream, uint64_t n,
                                int from_type, const void *from, int to_type,
                                void *to, struct stp_error *err)
{
    const struct stp_cpu_elements x = {
        .type = from_type, .type_to = to_type, .n = n, .from = from, .to = to};

    return cpu_add_elements(self, stream, STP_CPU_CAST, &x, err);
}

static enum stp_status cpu_scale(void *self, unsigned stream, int type,
                                 uint64_t n, double factor, void *data,
                                 struct stp_error *err)
{
    const struct stp_cpu_elements x = {
        .type = type, .n = n, .factor = factor, .to = data};

    return cpu_add_elements(self, stream, STP_CPU_SCALE, &x, err);
}

static enum stp_status cpu_check_elements(const struct engine *e, uint64_t n,
                                          struct stp_error *err)
{
    if (e->link == NULL || n <= e->transport->max_elements)
        return STP_OK;
    return stp_fail(err, STP_ERR_RANGE,
                    "%ju elements, but %s counts no more than %ju",
                    (uintmax_t)n, e->transport->name,
                    (uintmax_t)e->transport->max_elements);
}

static enum stp_status cpu_collective(void *self, unsigned stream,
                                      const struct stp_transfer *transfer,
                                      struct stp_error *err)
{
    struct engine *e = self;
    const struct stp_cpu_task task = {.kind = STP_CPU_COLLECTIVE,
                                      .as.transfer = *transfer};
    enum stp_status status;

    if (transfer->n == 0)
        return STP_OK;
    status = cpu_check_elements(e, transfer->n, err);
    return status == STP_OK ? cpu_add_task(e, stream, &task, err) : status;
}

static enum stp_status cpu_record(void *self, unsigned stream, unsigned event,
                                  struct stp_error *err)
{
    const struct stp_work noted = {
        .kind = STP_WORK_RECORD, .stream = stream, .event = event};

    return cpu_note(self, &noted, err);
}

static enum stp_status cpu_wait(void *self, unsigned stream, unsigned event,
                                struct stp_error *err)
{
    const struct stp_work noted = {
        .kind = STP_WORK_WAIT, .stream = stream, .event = event};

    return cpu_note(self, &noted, err);
}

/* ---- measuring ---- */

static void cpu_describe(const void *self, struct stp_device_info *info_ret)
{
    const struct engine *e = self;

    stp_cpu_hosts_info(e->hosts, e->world->size, e->transport->what, info_ret);
    snprintf(info_ret->backend, sizeof(info_ret->backend), "%s",
             e->transport->name);
}

static void cpu_rank_line(const void *self, unsigned rank, char *line,
                          size_t size)
{
    const struct stp_cpu_host *host =
        &((const struct engine *)self)->hosts[rank];

    snprintf(line, size, " Rank %2u Pid %6u on %10s %s", rank, host->pid,
             host->name, host->model);
}

static enum stp_status cpu_check_collective(const struct engine *e,
                                            const struct stp_collective *what,
                                            struct stp_error *err)
{
    const bool in_blocks =
        what->coll == ncclFuncAllGather || what->coll == ncclFuncReduceScatter;
    const uint64_t n = what->n_bytes / stp_type_size(what->type);

    if (stp_coll_reduces(what->coll) && stp_type_is_fp8(what->type))
        return stp_fail(err, STP_ERR_RANGE, "CPUs do not reduce %s",
                        stp_type_name(what->type));
    if (stp_coll_reduces(what->coll) && (what->op < 0 || what->op >= STP_N_OPS))
        return stp_fail(err, STP_ERR_RANGE,
                        "CPUs do not reduce by operation %d", what->op);
    return cpu_check_elements(e, in_blocks ? n / e->world->size : n, err);
}

static enum stp_status cpu_check_gemm(const struct stp_gemm *gemm,
                                      struct stp_error *err)
{
    const struct stp_product product = {.m = gemm->m,
                                        .n = gemm->n,
                                        .k = gemm->k,
                                        .type = gemm->type,
                                        .type_c = gemm->type};

    if (gemm->type != STP_TYPE_F32 && gemm->type != STP_TYPE_F64)
        return stp_fail(err, STP_ERR_RANGE,
                        "no %s GEMMs on CPUs, only f32 and f64",
                        stp_type_name(gemm->type));
    return stp_cpu_product_check(&product, err);
}

/* As much as the vectors of both streams fit beside the buffers. */
static enum stp_status cpu_check_vectors(const struct engine *e,
                                         uint64_t n_bytes,
                                         struct stp_error *err)
{
    const uint64_t n = 2 * STP_N_STREAMS;
    const uint64_t nbytes = n_bytes < UINT64_MAX / (n + 1)
                                ? 2 * e->max_bytes + n * n_bytes
                                : UINT64_MAX;

    return stp_cpu_hosts_fit(e->hosts, e->world->size, nbytes, err) == STP_OK
               ? STP_OK
               : STP_ERR_RANGE;
}

static enum stp_status cpu_check(void *self, const struct stp_work *note,
                                 struct stp_error *err)
{
    if (note->kind == STP_WORK_COLLECTIVE)
        return cpu_check_collective(self, &note->what, err);
    return note->kind == STP_WORK_COMPUTE
               ? cpu_check_gemm(&note->gemm, err)
               : cpu_check_vectors(self, note->n_bytes, err);
}

/* Every page is written to, so that no collective is the first to; small
 * numbers, so that a product is neither zero nor infinite. */
static void cpu_fill_room(const struct room *room, uint64_t period)
{
    const uint64_t n = room->nbytes / stp_type_size(room->type);
    float *f32 = room->at;
    double *f64 = room->at;

    if (room->type != STP_TYPE_F32 && room->type != STP_TYPE_F64)
        memset(room->at, 0, room->nbytes);
    else if (room->type == STP_TYPE_F64)
        for (uint64_t i = 0; i < n; i++)
            f64[i] = 1 + (double)(i % period);
    else
        for (uint64_t i = 0; i < n; i++)
            f32[i] = 1 + (float)(i % period);
}

static enum stp_status cpu_room(void *self, enum stp_room which,
                                unsigned stream, int type, uint64_t nbytes,
                                void **address_ret, struct stp_error *err)
{
    struct room *room = &((struct engine *)self)->rooms[stream][which];

    if (room->at == NULL || nbytes > room->nbytes || type != room->type) {
        if (room->at == NULL || nbytes > room->nbytes) {
            free(room->at);
            room->at = malloc(nbytes + 1);
            room->nbytes = nbytes;
        }
        if (room->at == NULL)
            return stp_fail(err, STP_ERR_NOMEM,
                            "no memory for %ju bytes to measure with",
                            (uintmax_t)nbytes);
        room->type = type;
        cpu_fill_room(room, which == STP_ROOM_Y ? 5 : 7);
    }
    *address_ret = room->at;
    return STP_OK;
}

static void cpu_put_bits(void *data, unsigned size, uint64_t i, uint64_t bits)
{
    if (size == 1)
        ((uint8_t *)data)[i] = (uint8_t)bits;
    else if (size == 2)
        ((uint16_t *)data)[i] = (uint16_t)bits;
    else if (size == 4)
        ((uint32_t *)data)[i] = (uint32_t)bits;
    else
        ((uint64_t *)data)[i] = bits;
}

static uint64_t cpu_get_bits(const void *data, unsigned size, uint64_t i)
{
    if (size == 1)
        return ((const uint8_t *)data)[i];
    if (size == 2)
        return ((const uint16_t *)data)[i];
    if (size == 4)
        return ((const uint32_t *)data)[i];
    return ((const uint64_t *)data)[i];
}

static enum stp_status cpu_fill(void *self, const struct stp_pattern *pattern,
                                bool poison, void *data, uint64_t n,
                                struct stp_error *err)
{
    const unsigned rank = ((const struct engine *)self)->world->rank;
    const unsigned size = stp_type_size(pattern->type);

    (void)err;
    for (uint64_t i = 0; i < n; i++)
        cpu_put_bits(data, size, i,
                     poison ? stp_pattern_poison(pattern, rank, i)
                            : stp_pattern_input(pattern, rank, i));
    return STP_OK;
}

static enum stp_status
cpu_count_wrong(void *self, const struct stp_pattern *pattern, const void *data,
                uint64_t n, uint64_t *n_wrong_ret, struct stp_error *err)
{
    const unsigned rank = ((const struct engine *)self)->world->rank;
    const unsigned size = stp_type_size(pattern->type);

    (void)err;
    *n_wrong_ret = 0;
    for (uint64_t i = 0; i < n; i++)
        *n_wrong_ret +=
            !stp_pattern_right(pattern, rank, i, cpu_get_bits(data, size, i));
    return STP_OK;
}

static enum stp_status cpu_elementwise(void *self, unsigned stream,
                                       const float *x, float *y, uint64_t n,
                                       struct stp_error *err)
{
    const struct stp_cpu_elements elements = {.n = n, .from = x, .to = y};

    return cpu_add_elements(self, stream, STP_CPU_SUBTRACT, &elements, err);
}

static enum stp_status cpu_event_us(const void *self, unsigned first,
                                    unsigned event, double *us_ret,
                                    struct stp_error *err)
{
    (void)first;
    (void)err;
    *us_ret = ((const struct engine *)self)->us[event];
    return STP_OK;
}

/* Events are readings of the host's clock here: from the first to the last. */
static double cpu_ran_us(const void *self)
{
    const struct engine *e = self;
    double first = 0;
    double last = 0;

    for (unsigned i = 0; i < e->program.n_events; i++) {
        if (e->us[i] > 0 && (first == 0 || e->us[i] < first))
            first = e->us[i];
        if (e->us[i] > last)
            last = e->us[i];
    }
    return last - first;
}

/* ---- closing ---- */

static void cpu_close(void *self)
{
    struct engine *e = self;

    if (e->link != NULL)
        e->transport->close(e->link);
    for (unsigned s = 0; s < STP_N_STREAMS; s++) {
        stp_cpu_scratch_free(&e->scratch[s]);
        for (unsigned i = 0; i < STP_N_ROOMS; i++)
            free(e->rooms[s][i].at);
    }
    cpu_release(e);
    stp_program_free(&e->program);
    stp_spans_free(&e->trace.spans);
    free(e->tasks);
    free(e->us);
    free(e->hosts);
    free(e);
}

static const struct stp_engine_ops cpu_ops = {
    .name = "cpu",
    .info = cpu_info,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .upload = cpu_copy,
    .download = cpu_copy,
    .agree = cpu_agree,
    .zero = cpu_zero,
    .product = cpu_product,
    .cross_entropy = cpu_cross_entropy,
    .relu_backward = cpu_relu_backward,
    .column_sum = cpu_column_sum,
    .update = cpu_update,
    .find_nonfinite = cpu_find_nonfinite,
    .cast = cpu_cast,
    .scale = cpu_scale,
    .collective = cpu_collective,
    .record = cpu_record,
    .wait = cpu_wait,
    .synchronise = cpu_synchronise,
    .elapsed_us = cpu_elapsed_us,
    .now_us = cpu_now_us,
    .trace_begin = cpu_trace_begin,
    .trace_end = cpu_trace_end,
    .range = cpu_range,
    .describe = cpu_describe,
    .rank_line = cpu_rank_line,
    .select_arm = cpu_select_arm,
    .check = cpu_check,
    .room = cpu_room,
    .fill = cpu_fill,
    .count_wrong = cpu_count_wrong,
    .elementwise = cpu_elementwise,
    .event_us = cpu_event_us,
    .ran_us = cpu_ran_us,
    .close = cpu_close,
};

/* ---- opening ---- */

/* Meets the hosts of all ranks. */
static enum stp_status cpu_set_up(struct engine *e,
                                  const struct stp_engine_options *options,
                                  struct stp_error *err)
{
    const struct stp_world *world = e->world;
    unsigned n_neighbours;
    enum stp_status status;

    if (options->n_local > 1 || options->plugin != NULL)
        return stp_fail(
            err, STP_ERR_RANGE,
            options->plugin != NULL
                ? "tuner plugins are NCCL's: CPUs have none"
                : "%u ranks a process, but on CPUs a process is one rank",
            options->n_local);
    status = stp_cpu_hosts_meet(world, &e->hosts, err);
    if (status != STP_OK)
        return status;
    n_neighbours = stp_cpu_hosts_like(e->hosts, world->size, world->rank);
    e->memory = (struct stp_cpu_memory){
        .budget = e->hosts[world->rank].available_nbytes / n_neighbours,
        .rank = world->rank,
        .host = e->hosts[world->rank].name};
    e->n_threads = stp_cpu_hosts_threads(e->hosts, world->size, world->rank);
    return options->measures
               ? stp_cpu_hosts_fit(e->hosts, world->size, 2 * e->max_bytes, err)
               : STP_OK;
}

/* What each rank finds out by itself comes to be known to all. */
static enum stp_status cpu_open_parts(struct engine *e,
                                      const struct stp_engine_options *options,
                                      struct stp_error *err)
{
    const struct stp_world *world = e->world;
    enum stp_status status =
        stp_world_agree(world, cpu_set_up(e, options, err), err);

    if (status != STP_OK || (world->size == 1 && !options->measures))
        return status;
    status =
        e->transport->open(world, stp_cpu_hosts_count(e->hosts, world->size),
                           e->time_limit_s, &e->link, err);
    return stp_world_agree(world, status, err);
}

enum stp_status stp_engine_cpu_open(const struct stp_transport_ops *transport,
                                    const struct stp_engine_options *options,
                                    struct stp_engine *engine_ret,
                                    struct stp_error *err)
{
    struct engine *e = calloc(1, sizeof(*e));
    enum stp_status status;

    if (e == NULL)
        return stp_nomem(err);
    e->transport = transport;
    e->world = options->world;
    e->time_limit_s = options->time_limit_s;
    e->max_bytes = options->max_bytes;
    status = cpu_open_parts(e, options, err);
    if (status != STP_OK) {
        cpu_close(e);
        return status;
    }
    *engine_ret = (struct stp_engine){.ops = &cpu_ops, .self = e};
    return STP_OK;
}

static enum stp_status
cpu_check_options(const struct stp_transport_ops *transport,
                  const struct stp_device_options *options,
                  struct stp_error *err)
{
    const char *name = transport->name;

    if (options->n_threads > 1 || options->n_gpus > 1)
        return stp_fail(
            err, STP_ERR_RANGE,
            "%u threads with %u ranks each, but with %s a process is one rank",
            options->n_threads, options->n_gpus, name);
    if (options->graph != 0)
        return stp_fail(err, STP_ERR_RANGE,
                        "CUDA graphs are of GPUs: %s runs on CPUs", name);
    if (options->plugin != NULL || options->graphs_file != NULL)
        return stp_fail(
            err, STP_ERR_RANGE,
            "tuner plugins and search graphs are NCCL's: %s has neither", name);
    return STP_OK;
}

enum stp_status stp_device_cpu_open(const struct stp_transport_ops *transport,
                                    const struct stp_device_options *options,
                                    struct stp_device *device_ret,
                                    struct stp_error *err)
{
    const struct stp_engine_options rank = {.world = options->world,
                                            .time_limit_s =
                                                options->time_limit_s,
                                            .measures = true,
                                            .max_bytes = options->max_bytes};
    const struct stp_ranks_options ranks = {.world = options->world,
                                            .n_per_thread = 1,
                                            .max_bytes = options->max_bytes};
    struct stp_engine engine;
    enum stp_status status = stp_world_agree(
        options->world, cpu_check_options(transport, options, err), err);

    if (status == STP_OK)
        status = stp_engine_cpu_open(transport, &rank, &engine, err);
    return status == STP_OK ? stp_ranks_open(&ranks, &engine, device_ret, err)
                            : status;
}
