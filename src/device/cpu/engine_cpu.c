#include "device/cpu/engine_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cpu/cpu.h"
#include "device/host.h"
#include "nccl_tuner_abi.h"

/* ---- info ---- */

static void cpu_info(const void *self, struct stp_device_info *info_ret)
{
    const struct stp_cpu *e = self;

    stp_cpu_hosts_info(e->hosts, e->world->size,
                       e->link == NULL ? "no transport" : e->transport->what,
                       info_ret);
    info_ret->rank = e->world->rank;
    if (e->link != NULL)
        snprintf(info_ret->backend, sizeof(info_ret->backend), "%s",
                 e->transport->name);
}

static void cpu_rank_line(const void *self, unsigned rank, char *line,
                          size_t size)
{
    const struct stp_cpu_host *host =
        &((const struct stp_cpu *)self)->hosts[rank];

    snprintf(line, size, " Rank %2u Pid %6u on %10s %s", rank, host->pid,
             host->name, host->model);
}

/* ---- memory ---- */

static enum stp_status cpu_refuse_memory(const struct stp_cpu *e,
                                         uint64_t nbytes, const char *purpose,
                                         struct stp_error *err)
{
    return stp_fail(err, STP_ERR_NOMEM,
                    "no memory on rank %u for %s: %.2f GB beside %.2f GB, but "
                    "%.2f GB of %s are free for each rank",
                    e->world->rank, purpose, (double)nbytes / 1e9,
                    (double)e->taken / 1e9, (double)e->budget / 1e9,
                    e->hosts[e->world->rank].name);
}

static enum stp_status cpu_alloc(void *self, uint64_t nbytes,
                                 const char *purpose, void **address_ret,
                                 struct stp_error *err)
{
    struct stp_cpu *e = self;
    const uint64_t left = e->budget - e->taken;
    const uint64_t rounded = (nbytes / STP_ENGINE_ALIGN + 1) * STP_ENGINE_ALIGN;
    void **more = NULL;
    void *memory;

    if (nbytes <= left)
        more = realloc(e->memory, (e->n_memory + 1) * sizeof(*more));
    if (more == NULL)
        return cpu_refuse_memory(e, nbytes, purpose, err);
    e->memory = more;
    memory = aligned_alloc(STP_ENGINE_ALIGN, rounded);
    if (memory == NULL)
        return cpu_refuse_memory(e, nbytes, purpose, err);
    memset(memory, 0, rounded);
    e->memory[e->n_memory++] = memory;
    e->taken += rounded <= left ? rounded : left;
    *address_ret = memory;
    return STP_OK;
}

static void cpu_release(void *self)
{
    struct stp_cpu *e = self;

    for (size_t i = 0; i < e->n_memory; i++)
        free(e->memory[i]);
    free(e->memory);
    e->memory = NULL;
    e->n_memory = 0;
    e->taken = 0;
}

static enum stp_status cpu_copy(void *self, void *to, const void *from,
                                uint64_t nbytes, struct stp_error *err)
{
    memcpy(to, from, nbytes);
    return STP_OK;
}

static enum stp_status cpu_agree(void *self, enum stp_status status,
                                 struct stp_error *err)
{
    return stp_world_agree(((const struct stp_cpu *)self)->world, status, err);
}

static enum stp_status cpu_select_arm(void *self, const struct stp_arm *arm,
                                      struct stp_error *err)
{
    const struct stp_cpu *e = self;
    const char *name = e->transport != NULL ? e->transport->name : "CPUs";

    if (arm->kind < STP_ARM_FORCED)
        return STP_OK;
    if (arm->kind == STP_ARM_PLUGIN)
        return STP_REFUSE(err, "tuner plugins are NCCL's: CPUs have none");
    return STP_REFUSE(
        err, "arm %s: %s are NCCL's: none can be %s on %s", STP_ARM_TEXT(arm),
        arm->kind == STP_ARM_SETUP
            ? "registered buffers and configurations of communicators"
            : "algorithms and protocols",
        arm->kind == STP_ARM_SETUP ? "had" : "forced", name);
}

/* ---- running ---- */

/* A broken connection is the first that a rank sees of another that died. Waits
 * up to a second for the world to know which one, and has *err say that. */
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
    struct stp_cpu *e = self;
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
    e->trace.begun = e->trace.spans.n;
    if (e->trace.on)
        STP_TRY(stp_program_add_spans(&e->program, &e->trace.spans, err));
    status = stp_cpu_run(e, err);
    if (status != STP_OK)
        cpu_find_dead_rank(e->world, err);
    e->failed = status != STP_OK;
    return status;
}

static enum stp_status cpu_elapsed_us(const void *self, unsigned from,
                                      unsigned to, double *us_ret,
                                      struct stp_error *err)
{
    const struct stp_cpu *e = self;

    *us_ret = e->us[to] - e->us[from];
    return STP_OK;
}

/* ---- tracing ---- */

static enum stp_status cpu_trace_begin(void *self, struct stp_error *err)
{
    ((struct stp_cpu *)self)->trace.on = true;
    return STP_OK;
}

static enum stp_status cpu_trace_end(void *self, struct stp_spans *spans,
                                     struct stp_error *err)
{
    struct stp_cpu_trace *trace = &((struct stp_cpu *)self)->trace;

    trace->on = false;
    return stp_spans_move(&trace->spans, spans, err);
}

static void cpu_range(void *self, const char *name)
{
    stp_ranges_mark(&((struct stp_cpu *)self)->trace.ranges, name);
}

/* ---- noting ---- */

static enum stp_status cpu_note(void *self, const struct stp_work *work,
                                struct stp_error *err)
{
    struct stp_cpu *e = self;
    struct stp_work noted = *work;

    if (work->kind == STP_WORK_TRANSFER && work->as.transfer.n == 0)
        return STP_OK;
    if (work->kind == STP_WORK_PRODUCT)
        STP_TRY(stp_cpu_product_check(&work->as.product, err));
    noted.range = stp_ranges_now(&e->trace.ranges);
    return stp_program_add(&e->program, &noted, err);
}

static enum stp_status cpu_split(void *self,
                                 const struct stp_rank_groups *groups,
                                 struct stp_error *err)
{
    struct stp_cpu *e = self;
    enum stp_status status = stp_splits_add(&e->splits, groups, err);

    if (status != STP_OK || e->link == NULL || groups->size == 1)
        return status;
    status = e->transport->split(e->link, e->splits.n, groups, err);
    e->splits.n -= status != STP_OK;
    return status;
}

/* ---- measuring ---- */

static enum stp_status cpu_check(void *self, const struct stp_work *work,
                                 struct stp_error *err)
{
    const struct stp_cpu *e = self;
    const struct stp_collective *c = &work->collective;
    const struct stp_product product = {.gemm = work->gemm,
                                        .type_c = work->gemm.type};
    const int type = work->gemm.type;
    const uint64_t n = 2 * STP_N_STREAMS;
    uint64_t nbytes = UINT64_MAX;

    switch (work->kind) {
    case STP_WORK_COLLECTIVE:
        if (stp_coll_reduces(c->coll) && stp_type_is_fp8(c->type))
            return STP_REFUSE(err, "CPUs do not reduce %s",
                              stp_type_name(c->type));
        if (stp_coll_reduces(c->coll) && (c->op < 0 || c->op >= STP_N_OPS))
            return STP_REFUSE(err, "CPUs do not reduce by operation %d", c->op);
        return STP_OK;
    case STP_WORK_GEMM:
        return type == STP_TYPE_F32 || type == STP_TYPE_F64
                   ? stp_cpu_product_check(&product, err)
                   : STP_REFUSE(err, "no %s GEMMs on CPUs, only f32 and f64",
                                stp_type_name(type));
    default: /* the vectors of both streams fit next to the buffers */
        if (work->n_bytes < UINT64_MAX / (n + 1))
            nbytes = 2 * e->max_bytes + n * work->n_bytes;
        return stp_cpu_hosts_fit(e->hosts, e->world->size, nbytes, err) ==
                       STP_OK
                   ? STP_OK
                   : STP_ERR_RANGE;
    }
}

static enum stp_status cpu_room(void *self, enum stp_room which,
                                unsigned stream, int type, uint64_t nbytes,
                                void **address_ret, struct stp_error *err)
{
    struct stp_cpu_room *room = &((struct stp_cpu *)self)->rooms[stream][which];
    const uint64_t period = which == STP_ROOM_Y ? 5 : 7;

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
        /* Every page is written to, so that no collective is the first to;
         * small numbers, so that a product is neither zero nor infinite. */
        if (type != STP_TYPE_F32 && type != STP_TYPE_F64)
            memset(room->at, 0, room->nbytes);
        for (uint64_t i = 0; i < room->nbytes / 8 && type == STP_TYPE_F64; i++)
            ((double *)room->at)[i] = 1 + (double)(i % period);
        for (uint64_t i = 0; i < room->nbytes / 4 && type == STP_TYPE_F32; i++)
            ((float *)room->at)[i] = 1 + (float)(i % period);
    }
    *address_ret = room->at;
    return STP_OK;
}

static enum stp_status cpu_fill(void *self, const struct stp_pattern *pattern,
                                bool poison, void *data, uint64_t n,
                                struct stp_error *err)
{
    const unsigned size = stp_type_size(pattern->type);

    for (uint64_t i = 0; i < n; i++) {
        const uint64_t bits =
            poison ? stp_pattern_poison(pattern, pattern->rank, i)
                   : stp_pattern_input(pattern, pattern->rank, i);

        if (size == 1)
            ((uint8_t *)data)[i] = (uint8_t)bits;
        else if (size == 2)
            ((uint16_t *)data)[i] = (uint16_t)bits;
        else if (size == 4)
            ((uint32_t *)data)[i] = (uint32_t)bits;
        else
            ((uint64_t *)data)[i] = bits;
    }
    return STP_OK;
}

static enum stp_status
cpu_examine(void *self, const struct stp_pattern *pattern, const void *data,
            uint64_t n, struct stp_found *found_ret, struct stp_error *err)
{
    const unsigned size = stp_type_size(pattern->type);

    *found_ret = (struct stp_found){0};
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t bits = size == 1   ? ((const uint8_t *)data)[i]
                              : size == 2 ? ((const uint16_t *)data)[i]
                              : size == 4 ? ((const uint32_t *)data)[i]
                                          : ((const uint64_t *)data)[i];

        stp_pattern_examine(pattern, pattern->rank, i, bits, found_ret);
    }
    return STP_OK;
}

/* Events are readings of the host's clock here: from the first to the last. */
static double cpu_ran_us(const void *self)
{
    const struct stp_cpu *e = self;
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
    struct stp_cpu *e = self;

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
    free(e->us);
    free(e->hosts);
    free(e);
}

static const struct stp_engine_ops cpu_ops = {
    .info = cpu_info,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .upload = cpu_copy,
    .download = cpu_copy,
    .agree = cpu_agree,
    .note = cpu_note,
    .split = cpu_split,
    .synchronise = cpu_synchronise,
    .elapsed_us = cpu_elapsed_us,
    .now_us = stp_host_now_us,
    .trace_begin = cpu_trace_begin,
    .trace_end = cpu_trace_end,
    .range = cpu_range,
    .rank_line = cpu_rank_line,
    .select_arm = cpu_select_arm,
    .check = cpu_check,
    .room = cpu_room,
    .fill = cpu_fill,
    .examine = cpu_examine,
    .ran_us = cpu_ran_us,
    .close = cpu_close,
};

/* ---- opening ---- */

/* Exchanges the hosts of all ranks. */
static enum stp_status cpu_set_up(struct stp_cpu *e,
                                  const struct stp_device_options *options,
                                  struct stp_error *err)
{
    const struct stp_world *world = e->world;
    const char *name = e->transport != NULL ? e->transport->name : "CPUs";

    if (options->n_threads > 1 || options->n_gpus > 1)
        return STP_REFUSE(
            err,
            "%u threads with %u ranks each, but with %s a process is one rank",
            options->n_threads, options->n_gpus, name);
    if (options->graph)
        return STP_REFUSE(err, "CUDA graphs are of GPUs: %s runs on CPUs",
                          name);
    if (options->plugin != NULL)
        return STP_REFUSE(err, "tuner plugins are NCCL's: CPUs have none");
    if (options->graphs_file != NULL)
        return STP_REFUSE(err, "search graphs are NCCL's: %s has none", name);
    STP_TRY(stp_cpu_hosts_exchange(world, &e->hosts, err));
    e->budget = e->hosts[world->rank].available_nbytes /
                stp_cpu_hosts_like(e->hosts, world->size, world->rank);
    e->n_threads = stp_cpu_hosts_threads(e->hosts, world->size, world->rank);
    return options->measures
               ? stp_cpu_hosts_fit(e->hosts, world->size, 2 * e->max_bytes, err)
               : STP_OK;
}

enum stp_status stp_cpu_open(const struct stp_transport_ops *transport,
                             const struct stp_device_options *options,
                             struct stp_engines *engines_ret,
                             struct stp_error *err)
{
    struct stp_cpu *e = calloc(1, sizeof(*e));
    enum stp_status status;

    if (e == NULL)
        return stp_nomem(err);
    e->transport = transport;
    e->world = options->world;
    e->time_limit_s = options->time_limit_s;
    e->max_bytes = options->max_bytes;
    /* All ranks learn the status of each one. */
    status = stp_world_agree(e->world, cpu_set_up(e, options, err), err);
    if (status == STP_OK && (e->world->size > 1 || options->measures))
        status = stp_world_agree(
            e->world,
            e->transport->open(e->world,
                               stp_cpu_hosts_count(e->hosts, e->world->size),
                               e->time_limit_s, &e->link, err),
            err);
    if (status != STP_OK) {
        cpu_close(e);
        return status;
    }
    *engines_ret = (struct stp_engines){.all = {{.ops = &cpu_ops, .self = e}},
                                        .n_per_thread = 1};
    return STP_OK;
}
