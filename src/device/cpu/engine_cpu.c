#include "device/cpu/engine_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu_host.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/cpu_streams.h"
#include "device/cpu/cpu_task.h"
#include "device/cpu/cpu_times.h"
#include "device/cpu/cpu_trace.h"
#include "device/program.h"
#include "nccl_tuner_abi.h"

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

static enum stp_status cpu_tune(void *self, bool by_plugin,
                                struct stp_error *err)
{
    (void)self;
    if (by_plugin)
        return stp_fail(err, STP_ERR_RANGE, "there is no tuner plugin on CPUs");
    return STP_OK;
}

/* ---- running ---- */

/* What the one rank of a world gives is what it gets. */
static enum stp_status run_collective(struct engine *e, unsigned stream,
                                      const struct stp_transfer *t,
                                      struct stp_error *err)
{
    if (e->link != NULL)
        return e->transport->collective(e->link, stream, t, err);
    memmove(t->out, t->in, t->n * stp_type_size(t->type));
    return STP_OK;
}

static enum stp_status work(void *self, const struct stp_note *note,
                            struct stp_error *err)
{
    struct engine *e = self;
    const struct stp_cpu_task *task = &e->tasks[note->task];
    const double begin_us = e->trace.on ? stp_cpu_now_us() : 0;
    enum stp_status status =
        task->kind == STP_CPU_COLLECTIVE
            ? run_collective(e, note->stream, &task->as.transfer, err)
            : stp_cpu_task_run(task, &e->scratch[note->stream], err);

    if (e->trace.on)
        stp_cpu_trace_tell(&e->trace, note->task, note->stream, begin_us,
                           stp_cpu_now_us());
    return status;
}

static enum stp_status meet(void *self, unsigned stream, struct stp_error *err)
{
    struct engine *e = self;

    return e->link == NULL ? STP_OK
                           : e->transport->barrier(e->link, stream, err);
}

static bool alive(void *self, struct stp_error *err)
{
    const struct engine *e = self;

    return e->world->ops->alive(e->world->self, err);
}

static void abort_all(void *self, const char *why)
{
    struct engine *e = self;

    if (e->link != NULL)
        e->transport->abort(e->link, why);
}

static enum stp_status cpu_synchronise(void *self, struct stp_error *err)
{
    struct engine *e = self;
    const struct stp_cpu_worker worker = {.work = work,
                                          .meet = meet,
                                          .alive = alive,
                                          .abort = abort_all,
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
        stp_cpu_find_who_died(e->world, err);
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

static enum stp_status grow(struct engine *e, struct stp_error *err)
{
    const size_t n = 2 * e->capacity + 64;
    struct stp_cpu_task *more = realloc(e->tasks, n * sizeof(*more));

    if (more == NULL)
        return stp_nomem(err);
    e->tasks = more;
    e->capacity = n;
    return STP_OK;
}

static enum stp_status note(struct engine *e, const struct stp_note *what,
                            struct stp_error *err)
{
    if (what->stream >= STP_N_STREAMS)
        return stp_fail(err, STP_ERR_RANGE, "stream %u of %u", what->stream,
                        (unsigned)STP_N_STREAMS);
    if (e->program.ran)
        e->n_tasks = 0;
    return stp_program_add(&e->program, what, err);
}

static enum stp_status add(struct engine *e, unsigned stream,
                           const struct stp_cpu_task *task,
                           struct stp_error *err)
{
    struct stp_note noted = {.kind = STP_NOTE_TASK, .stream = stream};
    enum stp_status status = STP_OK;

    if (e->program.ran)
        e->n_tasks = 0;
    if (e->n_tasks == e->capacity)
        status = grow(e, err);
    noted.task = e->n_tasks;
    if (status == STP_OK)
        status = note(e, &noted, err);
    if (status == STP_OK)
        e->tasks[e->n_tasks] = *task;
    if (status == STP_OK)
        e->tasks[e->n_tasks++].range = stp_ranges_now(&e->trace.ranges);
    return status;
}

static enum stp_status add_elements(void *self, unsigned stream,
                                    enum stp_cpu_task_kind kind,
                                    const struct stp_cpu_elements *x,
                                    struct stp_error *err)
{
    return add(self, stream,
               &(struct stp_cpu_task){.kind = kind, .as.elements = *x}, err);
}

static enum stp_status cpu_zero(void *self, unsigned stream, void *address,
                                uint64_t nbytes, struct stp_error *err)
{
    const struct stp_cpu_elements x = {.n = nbytes, .to = address};

    return add_elements(self, stream, STP_CPU_ZERO, &x, err);
}

static enum stp_status cpu_product(void *self, unsigned stream,
                                   const struct stp_product *product,
                                   struct stp_error *err)
{
    const struct stp_cpu_task task = {.kind = STP_CPU_PRODUCT,
                                      .as.product = *product};
    enum stp_status status = stp_cpu_product_check(product, err);

    return status == STP_OK ? add(self, stream, &task, err) : status;
}

static enum stp_status cpu_cross_entropy(void *self, unsigned stream,
                                         const struct stp_cross_entropy *what,
                                         struct stp_error *err)
{
    const struct stp_cpu_task task = {.kind = STP_CPU_CROSS_ENTROPY,
                                      .as.cross_entropy = *what};

    return add(self, stream, &task, err);
}

static enum stp_status cpu_relu_backward(void *self, unsigned stream, int type,
                                         uint64_t n, const void *output,
                                         void *gradient, struct stp_error *err)
{
    const struct stp_cpu_elements x = {
        .type = type, .n = n, .from = output, .to = gradient};

    return add_elements(self, stream, STP_CPU_RELU_BACKWARD, &x, err);
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

    return add_elements(self, stream, STP_CPU_COLUMN_SUM, &x, err);
}

static enum stp_status cpu_update(void *self, unsigned stream,
                                  const struct stp_update *update,
                                  struct stp_error *err)
{
    const struct stp_cpu_task task = {.kind = STP_CPU_UPDATE,
                                      .as.update = *update};

    return add(self, stream, &task, err);
}

static enum stp_status cpu_find_nonfinite(void *self, unsigned stream, int type,
                                          uint64_t n, const void *data,
                                          float *found, struct stp_error *err)
{
    const struct stp_cpu_elements x = {
        .type = type, .n = n, .from = data, .to = found};

    return add_elements(self, stream, STP_CPU_FIND_NONFINITE, &x, err);
}

static enum stp_status cpu_cast(void *self, unsigned stream, uint64_t n,
                                int from_type, const void *from, int to_type,
                                void *to, struct stp_error *err)
{
    const struct stp_cpu_elements x = {
        .type = from_type, .type_to = to_type, .n = n, .from = from, .to = to};

    return add_elements(self, stream, STP_CPU_CAST, &x, err);
}

static enum stp_status cpu_scale(void *self, unsigned stream, int type,
                                 uint64_t n, double factor, void *data,
                                 struct stp_error *err)
{
    const struct stp_cpu_elements x = {
        .type = type, .n = n, .factor = factor, .to = data};

    return add_elements(self, stream, STP_CPU_SCALE, &x, err);
}

static enum stp_status cpu_collective(void *self, unsigned stream,
                                      const struct stp_transfer *transfer,
                                      struct stp_error *err)
{
    struct engine *e = self;
    const struct stp_cpu_task task = {.kind = STP_CPU_COLLECTIVE,
                                      .as.transfer = *transfer};

    if (transfer->n == 0)
        return STP_OK;
    if (e->link != NULL && transfer->n > e->transport->max_elements)
        return stp_fail(err, STP_ERR_RANGE,
                        "%ju elements, but %s counts no more than %ju",
                        (uintmax_t)transfer->n, e->transport->name,
                        (uintmax_t)e->transport->max_elements);
    return add(e, stream, &task, err);
}

static enum stp_status cpu_record(void *self, unsigned stream, unsigned event,
                                  struct stp_error *err)
{
    const struct stp_note noted = {
        .kind = STP_NOTE_RECORD, .stream = stream, .event = event};

    return note(self, &noted, err);
}

static enum stp_status cpu_wait(void *self, unsigned stream, unsigned event,
                                struct stp_error *err)
{
    const struct stp_note noted = {
        .kind = STP_NOTE_WAIT, .stream = stream, .event = event};

    return note(self, &noted, err);
}

static void cpu_close(void *self)
{
    struct engine *e = self;

    if (e->link != NULL)
        e->transport->close(e->link);
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        stp_cpu_scratch_free(&e->scratch[s]);
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
    .tune = cpu_tune,
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
    .close = cpu_close,
};

/* ---- opening ---- */

/* What each rank finds out by itself comes to be known to all. */
static enum stp_status open_parts(struct engine *e,
                                  const struct stp_engine_options *options,
                                  struct stp_error *err)
{
    const struct stp_world *world = e->world;
    unsigned n_neighbours, n_nodes;
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
    n_nodes = stp_cpu_hosts_count(e->hosts, world->size);
    e->memory = (struct stp_cpu_memory){
        .budget = e->hosts[world->rank].available_nbytes / n_neighbours,
        .rank = world->rank,
        .host = e->hosts[world->rank].name};
    e->n_threads = stp_cpu_hosts_threads(e->hosts, world->size, world->rank);
    if (world->size > 1)
        status =
            e->transport->open(world, n_nodes, e->time_limit_s, &e->link, err);
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
    status = open_parts(e, options, err);
    if (status != STP_OK) {
        cpu_close(e);
        return status;
    }
    *engine_ret = (struct stp_engine){.ops = &cpu_ops, .self = e};
    return STP_OK;
}
