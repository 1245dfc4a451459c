#include "bench/device_mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/arm_tuner.h"
#include "bench/operation.h"
#include "core/rng.h"
#include "mock_nccl.h"

/* libnccl with one tuner, and a communicator of it. */
struct library {
    struct mock_nccl *nccl;
    struct mock_comm *comm;
};

/* One thing noted. */
struct note {
    enum { NOTE_COLLECTIVE, NOTE_COMPUTE, NOTE_RECORD, NOTE_WAIT } kind;
    unsigned stream;
    unsigned event;
    struct stp_collective what;
    struct stp_gemm gemm;
    bool use_plugin;
};

struct device {
    struct mock_machine *machine;
    struct library forced; /* AUTO and forced arms, by the arm tuner */
    struct library plugin; /* the plugin under test; empty if there is none */
    bool use_plugin;
    uint64_t seed;
    double round;     /* in [0, 1), which recorded round */
    uint64_t n_draws; /* of the spread within a round */
    struct note *notes;
    size_t n_notes;
    size_t max_notes;
    bool ran; /* what is noted ran already: the next note is the first
                 of another program */
    double now_us[STP_N_STREAMS]; /* virtual time */
    double *event_us;             /* recorded events */
    size_t n_events;
};

static const enum stp_source sources[] = {
    [MOCK_TIME_RECORDED] = STP_SOURCE_RECORDED,
    [MOCK_TIME_INTERPOLATED] = STP_SOURCE_INTERPOLATED,
    [MOCK_TIME_SINGLE_PASS] = STP_SOURCE_SINGLE_PASS,
    [MOCK_TIME_MODELLED] = STP_SOURCE_MODELLED,
};

static enum stp_status fail(struct stp_error *err)
{
    return stp_fail(err, STP_ERR_DEVICE, 0, 0, "%s", mock_last_error());
}

static void mock_info(const void *self, struct stp_device_info *info_ret)
{
    const struct device *d = self;
    const struct mock_machine_info *m = mock_machine_get_info(d->machine);

    memset(info_ret, 0, sizeof(*info_ret));
    snprintf(info_ret->machine, sizeof(info_ret->machine), "%s", m->name);
    snprintf(info_ret->gpu, sizeof(info_ret->gpu), "%s", m->gpu);
    snprintf(info_ret->nccl, sizeof(info_ret->nccl), "%s", m->nccl);
    snprintf(info_ret->backend, sizeof(info_ret->backend), "nccl");
    snprintf(info_ret->cpu_vendor, sizeof(info_ret->cpu_vendor), "%s",
             m->cpu_vendor);
    info_ret->compute_capability = m->compute_capability;
    info_ret->has_arms = true;
    info_ret->n_ranks = (unsigned)m->n_ranks;
    info_ret->n_nodes = (unsigned)m->n_nodes;
    info_ret->max_rounds = mock_machine_rounds(d->machine);
    if (info_ret->max_rounds == 0)
        info_ret->max_rounds = 1; /* a second one would be the same */
    snprintf(info_ret->what, sizeof(info_ret->what), "%s: %d x %s, NCCL %s; %s",
             m->name, m->n_ranks, m->gpu, m->nccl,
             mock_machine_has_timings(d->machine)
                 ? "recorded times in mock NCCL, not a live measurement"
                 : "times modelled by NCCL's cost model, nothing measured");
}

static void mock_rank_line(const void *self, unsigned rank, char *line,
                           size_t size)
{
    const struct device *d = self;
    const struct mock_machine_info *m = mock_machine_get_info(d->machine);

    snprintf(line, size, " Rank %2u on %10s device %2d %s, in mock NCCL", rank,
             m->name, (int)rank % (m->n_ranks / m->n_nodes), m->gpu);
}

static size_t mock_sizes(const void *self, int coll, uint64_t *sizes,
                         size_t max)
{
    const struct device *d = self;

    return mock_machine_sizes(d->machine, (ncclFunc_t)coll, sizes, max);
}

static enum stp_status mock_begin_round(void *self, unsigned round,
                                        unsigned n_rounds,
                                        struct stp_error *err)
{
    struct device *d = self;
    struct stp_device_info info;

    mock_info(self, &info);
    if (round >= n_rounds || n_rounds > info.max_rounds)
        return stp_fail(err, STP_ERR_RANGE, 0, 0,
                        "%u rounds, but machine '%s' was recorded in %u",
                        n_rounds, info.machine, info.max_rounds);
    d->round = (round + 0.5) / n_rounds;
    return STP_OK;
}

static enum stp_status mock_select_arm(void *self, const struct stp_arm *arm,
                                       struct stp_error *err)
{
    struct device *d = self;

    d->use_plugin = arm->kind == STP_ARM_PLUGIN;
    if (d->use_plugin && d->plugin.comm == NULL)
        return stp_fail(err, STP_ERR_RANGE, 0, 0,
                        "no plugin to measure: the device was opened without");
    stp_arm_tuner_set(arm);
    return STP_OK;
}

/* ---- running ---- */

/* What NCCL decides, and what a tuner was asked. */
static enum stp_status decide(struct device *d, bool use_plugin,
                              const struct stp_collective *what,
                              struct mock_call *call_ret,
                              struct mock_outcome *out_ret,
                              struct stp_error *err)
{
    *call_ret = (struct mock_call){.coll = (ncclFunc_t)what->coll,
                                   .n_bytes = what->n_bytes,
                                   .root = (int)what->root};
    stp_set_operation(call_ret, what->type, what->op);
    if (mock_comm_collective(use_plugin ? d->plugin.comm : d->forced.comm,
                             call_ret, out_ret) != ncclSuccess)
        return fail(err);
    return STP_OK;
}

static enum stp_status find_time(const struct device *d,
                                 const struct mock_call *call,
                                 const struct mock_outcome *out,
                                 double quantile, struct mock_time *time_ret,
                                 struct stp_error *err)
{
    const struct mock_run run = mock_outcome_run(call, out);

    if (mock_machine_time(d->machine, &run, d->round, quantile, time_ret) !=
        ncclSuccess)
        return fail(err);
    return STP_OK;
}
static enum stp_status mock_probe(void *self, const struct stp_collective *what,
                                  struct stp_device_run *run_ret,
                                  struct stp_question *question_ret,
                                  struct stp_error *err)
{
    struct device *d = self;
    struct mock_call call;
    struct mock_outcome out;
    struct mock_time time;
    enum stp_status status = decide(d, d->use_plugin, what, &call, &out, err);

    if (status == STP_OK)
        status = find_time(d, &call, &out, 0.5, &time, err);
    if (status != STP_OK)
        return status;
    *run_ret = (struct stp_device_run){.algo = out.algo,
                                       .proto = out.proto,
                                       .n_channels = out.n_channels,
                                       .source = sources[time.source],
                                       .us = time.us};
    if (question_ret == NULL)
        return STP_OK;
    *question_ret = (struct stp_question){.n_pipe_ops = 1};
    question_ret->n_bytes = out.asked ? what->n_bytes : 0;
    memcpy(question_ret->cost, out.cost, sizeof(question_ret->cost));
    return STP_OK;
}

/* There are no bytes in virtual time. */
static enum stp_status mock_check(void *self, const struct stp_collective *what,
                                  uint64_t seed, uint64_t *n_wrong_ret,
                                  struct stp_error *err)
{
    (void)self;
    (void)what;
    (void)seed;
    (void)err;
    *n_wrong_ret = 0;
    return STP_OK;
}

/* ---- noting ---- */

static enum stp_status add_note(struct device *d, const struct note *note,
                                struct stp_error *err)
{
    if (d->ran)
        d->n_notes = 0;
    d->ran = false;
    if (d->n_notes == d->max_notes) {
        size_t n = 2 * d->max_notes + 64;
        struct note *more = realloc(d->notes, n * sizeof(*more));

        if (more == NULL)
            return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
        d->notes = more;
        d->max_notes = n;
    }
    d->notes[d->n_notes++] = *note;
    return STP_OK;
}

static enum stp_status mock_collective(void *self, unsigned stream,
                                       const struct stp_collective *what,
                                       struct stp_error *err)
{
    struct device *d = self;
    const struct note note = {.kind = NOTE_COLLECTIVE,
                              .stream = stream,
                              .what = *what,
                              .use_plugin = d->use_plugin};

    return add_note(d, &note, err);
}

static enum stp_status mock_group(void *self, bool begin, struct stp_error *err)
{
    (void)self;
    (void)begin;
    (void)err;
    return STP_OK;
}

static enum stp_status mock_compute(void *self, unsigned stream,
                                    const struct stp_gemm *gemm,
                                    struct stp_error *err)
{
    const struct note note = {
        .kind = NOTE_COMPUTE, .stream = stream, .gemm = *gemm};

    return add_note(self, &note, err);
}

static enum stp_status mock_record(void *self, unsigned stream, unsigned event,
                                   struct stp_error *err)
{
    struct device *d = self;
    const struct note note = {
        .kind = NOTE_RECORD, .stream = stream, .event = event};

    if (event >= d->n_events) {
        size_t n = 2 * (size_t)event + 64;
        double *more = realloc(d->event_us, n * sizeof(*more));

        if (more == NULL)
            return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
        d->event_us = more;
        d->n_events = n;
    }
    return add_note(d, &note, err);
}

static enum stp_status mock_wait(void *self, unsigned stream, unsigned event,
                                 struct stp_error *err)
{
    const struct note note = {
        .kind = NOTE_WAIT, .stream = stream, .event = event};

    return add_note(self, &note, err);
}

/* ---- running ---- */

static enum stp_status run_collective(struct device *d, const struct note *note,
                                      struct stp_error *err)
{
    struct mock_call call;
    struct mock_outcome out;
    struct mock_time time;
    enum stp_status status =
        decide(d, note->use_plugin, &note->what, &call, &out, err);

    if (status == STP_OK)
        status = find_time(d, &call, &out, stp_rng_unit(d->seed, d->n_draws++),
                           &time, err);
    if (status == STP_OK)
        d->now_us[note->stream] += time.us;
    return status;
}

static enum stp_status run_note(struct device *d, const struct note *note,
                                struct stp_error *err)
{
    double *now = &d->now_us[note->stream];

    switch (note->kind) {
    case NOTE_COLLECTIVE:
        return run_collective(d, note, err);
    case NOTE_COMPUTE:
        return STP_OK;
    case NOTE_RECORD:
        d->event_us[note->event] = *now;
        return STP_OK;
    case NOTE_WAIT:
        if (d->event_us[note->event] > *now)
            *now = d->event_us[note->event];
        return STP_OK;
    }
    return STP_OK;
}

static enum stp_status mock_replay(void *self, struct stp_error *err)
{
    struct device *d = self;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < d->n_notes && status == STP_OK; i++)
        status = run_note(d, &d->notes[i], err);
    d->ran = true;
    return status;
}

static enum stp_status mock_synchronise(void *self, struct stp_error *err)
{
    struct device *d = self;

    if (d->ran)
        d->n_notes = 0;
    return mock_replay(self, err);
}

static double mock_elapsed_us(const void *self, unsigned from, unsigned to)
{
    const struct device *d = self;

    return d->event_us[to] - d->event_us[from];
}

static void close_library(struct library *library)
{
    if (library->comm != NULL)
        mock_comm_destroy(library->comm);
    if (library->nccl != NULL)
        mock_nccl_destroy(library->nccl);
}

static void mock_close(void *self)
{
    struct device *d = self;

    close_library(&d->forced);
    close_library(&d->plugin);
    mock_machine_free(d->machine);
    free(d->event_us);
    free(d->notes);
    free(d);
}

static const struct stp_device_ops mock_ops = {
    .name = "mock",
    .info = mock_info,
    .rank_line = mock_rank_line,
    .sizes = mock_sizes,
    .begin_round = mock_begin_round,
    .select_arm = mock_select_arm,
    .probe = mock_probe,
    .check = mock_check,
    .collective = mock_collective,
    .group = mock_group,
    .compute = mock_compute,
    .record = mock_record,
    .wait = mock_wait,
    .synchronise = mock_synchronise,
    .replay = mock_replay,
    .elapsed_us = mock_elapsed_us,
    .close = mock_close,
};

static enum stp_status open_library(struct device *d, struct library *library,
                                    struct mock_nccl_options *options,
                                    struct stp_error *err)
{
    options->version = mock_machine_get_info(d->machine)->nccl;
    if (mock_nccl_create(options, &library->nccl) != ncclSuccess ||
        mock_comm_create(library->nccl, d->machine, mock_new_comm_id(),
                         &library->comm) != ncclSuccess)
        return fail(err);
    if (mock_comm_tuner_version(library->comm) == 0)
        return stp_fail(err, STP_ERR_DEVICE, 0, 0,
                        "NCCL %s would not load tuner plugin '%s'",
                        options->version, options->tuner_plugin);
    return STP_OK;
}

static enum stp_status
open_libraries(struct device *d, const struct stp_device_mock_options *options,
               struct stp_error *err)
{
    struct mock_nccl_options forced = {.static_tuner = &stp_arm_tuner,
                                       .static_tuner_version = 5};
    struct mock_nccl_options plugin = {.tuner_plugin = options->plugin};
    enum stp_status status;

    if (mock_machine_load(options->machine_path, &d->machine) != ncclSuccess)
        return fail(err);
    status = open_library(d, &d->forced, &forced, err);
    if (status == STP_OK && options->plugin != NULL)
        status = open_library(d, &d->plugin, &plugin, err);
    return status;
}

enum stp_status
stp_device_mock_open(const struct stp_device_mock_options *options,
                     struct stp_device *device_ret, struct stp_error *err)
{
    struct device *d = calloc(1, sizeof(*d));
    enum stp_status status;

    if (d == NULL)
        return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
    d->seed = options->seed;
    status = open_libraries(d, options, err);
    if (status != STP_OK) {
        mock_close(d);
        return status;
    }
    device_ret->ops = &mock_ops;
    device_ret->self = d;
    return STP_OK;
}
