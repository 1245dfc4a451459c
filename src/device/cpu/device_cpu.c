#include "device/cpu/device_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu_data.h"
#include "device/cpu/cpu_host.h"
#include "device/cpu/cpu_streams.h"
#include "device/cpu/cpu_times.h"
#include "device/cpu/cpu_vectors.h"
#include "device/cpu/gemm.h"

struct device {
    const struct stp_transport_ops *transport;
    void *link; /* NULL until it is open */
    const struct stp_world *world;
    struct stp_cpu_host *hosts; /* by rank */
    unsigned n_nodes;
    uint64_t max_bytes;
    unsigned time_limit_s;
    struct stp_cpu_buffers buffers[STP_N_STREAMS];
    struct stp_gemm_room matrices[STP_N_STREAMS];
    struct stp_cpu_vectors vectors[STP_N_STREAMS];
    struct stp_program program;
    bool failed; /* it can only be closed */
    struct stp_cpu_times times;
};

/* ---- what it is ---- */

static void cpu_info(const void *self, struct stp_device_info *info_ret)
{
    const struct device *d = self;

    stp_cpu_hosts_info(d->hosts, d->world->size, d->transport->what, info_ret);
    snprintf(info_ret->backend, sizeof(info_ret->backend), "%s",
             d->transport->name);
}

static void cpu_rank_line(const void *self, unsigned rank, char *line,
                          size_t size)
{
    const struct device *d = self;
    const struct stp_cpu_host *host = &d->hosts[rank];

    snprintf(line, size, " Rank %2u Pid %6u on %10s %s", rank, host->pid,
             host->name, host->model);
}

static size_t cpu_sizes(const void *self, int coll, uint64_t *sizes, size_t max)
{
    (void)self;
    (void)coll;
    (void)sizes;
    (void)max;
    return 0;
}

static enum stp_status cpu_begin_round(void *self, unsigned round,
                                       unsigned n_rounds, struct stp_error *err)
{
    struct device *d = self;
    bool any;

    if (round >= n_rounds)
        return stp_fail(err, STP_ERR_RANGE, "round %u of %u", round, n_rounds);
    return stp_world_any(d->world, true, &any, err);
}

static enum stp_status cpu_select_arm(void *self, const struct stp_arm *arm,
                                      struct stp_error *err)
{
    const struct device *d = self;

    if (arm->kind < STP_ARM_FORCED)
        return STP_OK;
    return stp_fail(
        err, STP_ERR_RANGE,
        arm->kind == STP_ARM_PLUGIN
            ? "tuner plugins are NCCL's: %s has none to measure"
            : "algorithms and protocols are NCCL's: none can be forced on %s",
        d->transport->name);
}

/* ---- running ---- */

static enum stp_status check_collective(const struct device *d,
                                        const struct stp_collective *what,
                                        struct stp_error *err)
{
    return stp_cpu_check_collective(what, &d->buffers[STP_STREAM_MAIN],
                                    d->max_bytes, d->transport, err);
}

static enum stp_status work(void *self, const struct stp_note *note,
                            struct stp_error *err)
{
    struct device *d = self;
    const unsigned stream = note->stream;

    if (note->kind == STP_NOTE_COLLECTIVE)
        return stp_cpu_collective(d->transport, d->link, stream, &note->what,
                                  &d->buffers[stream], err);
    if (note->kind == STP_NOTE_COMPUTE)
        stp_gemm_run(&d->matrices[stream], &note->gemm);
    else
        stp_cpu_vectors_run(&d->vectors[stream], note->n_bytes);
    return STP_OK;
}

static enum stp_status meet(void *self, unsigned stream, struct stp_error *err)
{
    struct device *d = self;

    return d->transport->barrier(d->link, stream, err);
}

static bool alive(void *self, struct stp_error *err)
{
    const struct device *d = self;

    return d->world->ops->alive(d->world->self, err);
}

static void abort_all(void *self, const char *why)
{
    struct device *d = self;

    d->transport->abort(d->link, why);
}

static enum stp_status run(struct device *d, const struct stp_program *program,
                           struct stp_cpu_times *times, struct stp_error *err)
{
    const struct stp_cpu_worker worker = {.work = work,
                                          .meet = meet,
                                          .alive = alive,
                                          .abort = abort_all,
                                          .self = d,
                                          .time_limit_s = d->time_limit_s};
    double *mine;
    enum stp_status status;

    if (d->failed)
        return stp_fail(err, STP_ERR_DEVICE,
                        "the ranks are no longer connected");
    mine = calloc(program->n_events + 1, sizeof(*mine));
    if (mine == NULL)
        return stp_nomem(err);
    status = stp_cpu_streams_run(program, &worker, mine, err);
    if (status != STP_OK)
        stp_cpu_find_who_died(d->world, err);
    else if (program->n_events > 0)
        status =
            stp_cpu_times_share(d->world, mine, program->n_events, times, err);
    d->failed = status != STP_OK;
    free(mine);
    return status;
}

/* One collective, and its time between two events. */
static enum stp_status run_one(struct device *d,
                               const struct stp_collective *what,
                               double *us_ret, struct stp_error *err)
{
    const struct stp_note notes[] = {
        {.kind = STP_NOTE_RECORD, .event = 0},
        {.kind = STP_NOTE_COLLECTIVE, .what = *what},
        {.kind = STP_NOTE_RECORD, .event = 1},
    };
    struct stp_program program = {0};
    struct stp_cpu_times times = {0};
    enum stp_status status = STP_OK;

    for (int i = 0; i < 3 && status == STP_OK; i++)
        status = stp_program_add(&program, &notes[i], err);
    if (status == STP_OK)
        status = run(d, &program, &times, err);
    if (status == STP_OK)
        *us_ret = stp_cpu_times_between(&times, 0, 1);
    stp_program_free(&program);
    free(times.us);
    return status;
}

static enum stp_status cpu_probe(void *self, const struct stp_collective *what,
                                 struct stp_device_run *run_ret,
                                 struct stp_question *question_ret,
                                 struct stp_error *err)
{
    double us = 0;
    enum stp_status status = check_collective(self, what, err);

    if (status == STP_OK)
        status = run_one(self, what, &us, err);
    if (status != STP_OK)
        return status;
    *run_ret = (struct stp_device_run){
        .algo = -1, .proto = -1, .source = STP_SOURCE_MEASURED, .us = us};
    if (question_ret != NULL)
        *question_ret = (struct stp_question){.n_bytes = 0};
    return STP_OK;
}

static enum stp_status cpu_check(void *self, const struct stp_collective *what,
                                 uint64_t seed, uint64_t *n_wrong_ret,
                                 struct stp_error *err)
{
    struct device *d = self;
    const struct stp_cpu_buffers *buffers = &d->buffers[STP_STREAM_MAIN];
    uint64_t mine;
    uint64_t *all;
    double us;
    enum stp_status status = check_collective(d, what, err);

    if (status != STP_OK)
        return status;
    all = calloc(d->world->size, sizeof(*all));
    if (all == NULL)
        return stp_nomem(err);
    stp_cpu_data_fill(what, buffers, seed);
    status = run_one(d, what, &us, err);
    if (status == STP_OK) {
        mine = stp_cpu_data_count_wrong(what, buffers, seed);
        status = d->world->ops->exchange(d->world->self, &mine, sizeof(mine),
                                         all, err);
    }
    if (status == STP_OK) {
        *n_wrong_ret = 0;
        for (unsigned r = 0; r < d->world->size; r++)
            *n_wrong_ret += all[r];
    }
    free(all);
    return status;
}

/* ---- noting ---- */

static enum stp_status make_buffers(struct device *d, unsigned stream,
                                    struct stp_error *err)
{
    return stp_cpu_buffers_make(&d->buffers[stream], d->world->rank,
                                d->world->size, d->max_bytes, err);
}

static enum stp_status note(struct device *d, const struct stp_note *what,
                            struct stp_error *err)
{
    if (what->stream >= STP_N_STREAMS)
        return stp_fail(err, STP_ERR_RANGE, "stream %u of %u", what->stream,
                        (unsigned)STP_N_STREAMS);
    return stp_program_add(&d->program, what, err);
}

static enum stp_status cpu_collective(void *self, unsigned stream,
                                      const struct stp_collective *what,
                                      struct stp_error *err)
{
    const struct stp_note noted = {
        .kind = STP_NOTE_COLLECTIVE, .stream = stream, .what = *what};
    struct device *d = self;
    enum stp_status status = check_collective(d, what, err);

    if (status == STP_OK && stream < STP_N_STREAMS)
        status = make_buffers(d, stream, err);
    return status == STP_OK ? note(d, &noted, err) : status;
}

static enum stp_status cpu_group(void *self, bool begin, struct stp_error *err)
{
    (void)self;
    (void)begin;
    (void)err;
    return STP_OK;
}

static enum stp_status cpu_compute(void *self, unsigned stream,
                                   const struct stp_gemm *gemm,
                                   struct stp_error *err)
{
    const struct stp_note noted = {
        .kind = STP_NOTE_COMPUTE, .stream = stream, .gemm = *gemm};
    struct device *d = self;
    const struct stp_world *world = d->world;
    enum stp_status status = STP_OK;

    if (stream < STP_N_STREAMS)
        status = stp_gemm_prepare(
            &d->matrices[stream], gemm,
            stp_cpu_hosts_threads(d->hosts, world->size, world->rank), err);
    return status == STP_OK ? note(d, &noted, err) : status;
}

/* As much as the vectors of both streams fit beside the buffers. */
static enum stp_status check_vectors(const struct device *d, uint64_t n_bytes,
                                     struct stp_error *err)
{
    const uint64_t n = 2 * STP_N_STREAMS;
    const uint64_t nbytes = n_bytes < UINT64_MAX / (n + 1)
                                ? 2 * d->max_bytes + n * n_bytes
                                : UINT64_MAX;

    return stp_cpu_hosts_fit(d->hosts, d->world->size, nbytes, err) == STP_OK
               ? STP_OK
               : STP_ERR_RANGE;
}

static enum stp_status cpu_elementwise(void *self, unsigned stream,
                                       uint64_t n_bytes, struct stp_error *err)
{
    const struct stp_note noted = {
        .kind = STP_NOTE_ELEMENTWISE, .stream = stream, .n_bytes = n_bytes};
    struct device *d = self;
    enum stp_status status = check_vectors(d, n_bytes, err);

    if (status == STP_OK && stream < STP_N_STREAMS)
        status = stp_cpu_vectors_make(&d->vectors[stream], n_bytes, err);
    return status == STP_OK ? note(d, &noted, err) : status;
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

static enum stp_status cpu_replay(void *self, struct stp_error *err)
{
    struct device *d = self;

    return run(d, &d->program, &d->times, err);
}

static enum stp_status cpu_synchronise(void *self, struct stp_error *err)
{
    struct device *d = self;

    stp_program_begin(&d->program);
    return cpu_replay(self, err);
}

static double cpu_elapsed_us(const void *self, unsigned from, unsigned to)
{
    const struct device *d = self;

    return stp_cpu_times_between(&d->times, from, to);
}

/* Events are readings of the host's clock here. */
static double cpu_wall_us(const void *self)
{
    const struct device *d = self;

    return stp_cpu_times_span(&d->times);
}

static enum stp_source cpu_source(const void *self)
{
    (void)self;
    return STP_SOURCE_MEASURED;
}

static void cpu_close(void *self)
{
    struct device *d = self;

    if (d->link != NULL)
        d->transport->close(d->link);
    for (unsigned s = 0; s < STP_N_STREAMS; s++) {
        stp_cpu_buffers_free(&d->buffers[s]);
        stp_gemm_room_free(&d->matrices[s]);
        stp_cpu_vectors_free(&d->vectors[s]);
    }
    stp_program_free(&d->program);
    free(d->times.us);
    free(d->hosts);
    free(d);
}

static const struct stp_device_ops cpu_ops = {
    .name = "cpu",
    .info = cpu_info,
    .rank_line = cpu_rank_line,
    .sizes = cpu_sizes,
    .begin_round = cpu_begin_round,
    .select_arm = cpu_select_arm,
    .probe = cpu_probe,
    .check = cpu_check,
    .collective = cpu_collective,
    .group = cpu_group,
    .compute = cpu_compute,
    .elementwise = cpu_elementwise,
    .record = cpu_record,
    .wait = cpu_wait,
    .synchronise = cpu_synchronise,
    .replay = cpu_replay,
    .elapsed_us = cpu_elapsed_us,
    .wall_us = cpu_wall_us,
    .source = cpu_source,
    .close = cpu_close,
};

/* ---- opening ---- */

static enum stp_status check_options(const struct stp_transport_ops *transport,
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

/* Meets the other ranks, and sees whether there is memory for all. */
static enum stp_status meet_hosts(struct device *d, struct stp_error *err)
{
    const unsigned n = d->world->size;
    enum stp_status status = stp_cpu_hosts_meet(d->world, &d->hosts, err);

    if (status != STP_OK)
        return status;
    d->n_nodes = stp_cpu_hosts_count(d->hosts, n);
    return stp_cpu_hosts_fit(d->hosts, n, 2 * d->max_bytes, err);
}

/* What each rank finds out by itself comes to be known to all. */
static enum stp_status open_parts(struct device *d,
                                  const struct stp_device_options *options,
                                  struct stp_error *err)
{
    enum stp_status status = check_options(d->transport, options, err);

    if (status == STP_OK)
        status = meet_hosts(d, err);
    if (status == STP_OK)
        status = make_buffers(d, STP_STREAM_MAIN, err);
    status = stp_world_agree(d->world, status, err);
    if (status != STP_OK)
        return status;
    status = d->transport->open(d->world, d->n_nodes, d->time_limit_s, &d->link,
                                err);
    return stp_world_agree(d->world, status, err);
}

enum stp_status stp_device_cpu_open(const struct stp_transport_ops *transport,
                                    const struct stp_device_options *options,
                                    struct stp_device *device_ret,
                                    struct stp_error *err)
{
    struct device *d = calloc(1, sizeof(*d));
    enum stp_status status;

    if (d == NULL)
        return stp_nomem(err);
    d->transport = transport;
    d->world = options->world;
    d->max_bytes = options->max_bytes;
    d->time_limit_s = options->time_limit_s;
    status = open_parts(d, options, err);
    if (status != STP_OK) {
        cpu_close(d);
        return status;
    }
    *device_ret = (struct stp_device){.ops = &cpu_ops, .self = d};
    return STP_OK;
}
