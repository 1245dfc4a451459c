#include "device/mock/device_mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "device/arm_tuner.h"
#include "device/mock/mock_program.h"
#include "device/mock/mock_source.h"

/* libnccl with one tuner, and a communicator of it. */
struct library {
    struct mock_nccl *nccl;
    struct mock_comm *comm;
};

struct device {
    struct mock_machine *machine;
    struct library forced; /* AUTO and forced arms, by the arm tuner */
    struct library plugin; /* the plugin under test; empty if there is none */
    bool use_plugin;
    struct stp_mock_program program;
    struct stp_virtual_time time;
    double start_us; /* of the last run */
};

static enum stp_status fail(struct stp_error *err)
{
    return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
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
    info_ret->models_overlap =
        mock_machine_overlap_settings(d->machine, NULL, 0) == 0;
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
        return stp_fail(err, STP_ERR_RANGE,
                        "%u rounds, but machine '%s' was recorded in %u",
                        n_rounds, info.machine, info.max_rounds);
    d->time.round = (round + 0.5) / n_rounds;
    return STP_OK;
}

static enum stp_status mock_select_arm(void *self, const struct stp_arm *arm,
                                       struct stp_error *err)
{
    struct device *d = self;

    d->use_plugin = arm->kind == STP_ARM_PLUGIN;
    if (d->use_plugin && d->plugin.comm == NULL)
        return stp_fail(err, STP_ERR_RANGE,
                        "no plugin to measure: the device was opened without");
    stp_arm_tuner_set(arm);
    return STP_OK;
}

static struct mock_comm *comm_of(const struct device *d)
{
    return d->use_plugin ? d->plugin.comm : d->forced.comm;
}

static enum stp_status mock_probe(void *self, const struct stp_collective *what,
                                  struct stp_device_run *run_ret,
                                  struct stp_question *question_ret,
                                  struct stp_error *err)
{
    struct device *d = self;
    const struct mock_call call = stp_mock_call(what);
    struct mock_outcome out;
    struct mock_run run;
    struct mock_time time;

    if (mock_comm_collective(comm_of(d), &call, &out) != ncclSuccess)
        return fail(err);
    run = mock_outcome_run(&call, &out);
    if (mock_machine_time(d->machine, &run, d->time.round, 0.5, &time) !=
        ncclSuccess)
        return fail(err);
    *run_ret = (struct stp_device_run){.algo = out.algo,
                                       .proto = out.proto,
                                       .n_channels = out.n_channels,
                                       .source = stp_mock_source(time.source),
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

static enum stp_status mock_collective(void *self, unsigned stream,
                                       const struct stp_collective *what,
                                       struct stp_error *err)
{
    struct device *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_COLLECTIVE, .stream = stream, .what = *what};

    return stp_mock_note(&d->program, &note, err);
}

static enum stp_status mock_group(void *self, bool begin, struct stp_error *err)
{
    struct device *d = self;
    const struct stp_work note = {.kind = begin ? STP_WORK_GROUP_BEGIN
                                                : STP_WORK_GROUP_END};

    return stp_mock_note(&d->program, &note, err);
}

static enum stp_status mock_compute(void *self, unsigned stream,
                                    const struct stp_gemm *gemm,
                                    struct stp_error *err)
{
    struct device *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_COMPUTE, .stream = stream, .gemm = *gemm};
    struct stp_mock_compute compute;
    enum stp_status status = stp_mock_gemm(d->machine, gemm, &compute, err);

    return status == STP_OK ? stp_mock_note(&d->program, &note, err) : status;
}

static enum stp_status mock_elementwise(void *self, unsigned stream,
                                        uint64_t n_bytes, struct stp_error *err)
{
    struct device *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_ELEMENTWISE, .stream = stream, .n_bytes = n_bytes};

    return stp_mock_note(&d->program, &note, err);
}

static enum stp_status mock_record(void *self, unsigned stream, unsigned event,
                                   struct stp_error *err)
{
    struct device *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_RECORD, .stream = stream, .event = event};

    return stp_mock_note(&d->program, &note, err);
}

static enum stp_status mock_wait(void *self, unsigned stream, unsigned event,
                                 struct stp_error *err)
{
    struct device *d = self;
    const struct stp_work note = {
        .kind = STP_WORK_WAIT, .stream = stream, .event = event};

    return stp_mock_note(&d->program, &note, err);
}

/* ---- running ---- */

static enum stp_status mock_replay(void *self, struct stp_error *err)
{
    struct device *d = self;

    d->start_us = d->time.now_us;
    return stp_mock_replay(&d->program, &d->time, err);
}

static enum stp_status mock_synchronise(void *self, struct stp_error *err)
{
    struct device *d = self;

    d->start_us = d->time.now_us;
    return stp_mock_run(&d->program, comm_of(d), &d->time, err);
}

static double mock_elapsed_us(const void *self, unsigned from, unsigned to)
{
    const struct device *d = self;

    return d->program.event_us[to] - d->program.event_us[from];
}

/* Virtual time has no launches and nobody who waits. */
static double mock_wall_us(const void *self)
{
    const struct device *d = self;

    return d->time.now_us - d->start_us;
}

static enum stp_source mock_source(const void *self)
{
    return ((const struct device *)self)->program.source;
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
    stp_mock_program_free(&d->program);
    free(d);
}

static const struct stp_device_ops mock_ops = {
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
    .elementwise = mock_elementwise,
    .record = mock_record,
    .wait = mock_wait,
    .synchronise = mock_synchronise,
    .replay = mock_replay,
    .elapsed_us = mock_elapsed_us,
    .wall_us = mock_wall_us,
    .source = mock_source,
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
        return stp_fail(err, STP_ERR_DEVICE,
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
    d->time.machine = d->machine;
    return status;
}

/* As NCCL does when it has searched. */
static enum stp_status
write_graphs(const struct stp_device_mock_options *options,
             struct stp_error *err)
{
    enum { MAX_GRAPHS = 64 << 20 };
    size_t size = strlen(options->machine_path) + sizeof("/graphs.xml");
    char *path = options->graphs_file != NULL ? malloc(size) : NULL;
    char *text = NULL;
    size_t len = 0;
    enum stp_status status;
    FILE *fp;

    if (options->graphs_file == NULL)
        return STP_OK;
    if (path == NULL)
        return stp_nomem(err);
    snprintf(path, size, "%s/graphs.xml", options->machine_path);
    status = stp_read_file(path, MAX_GRAPHS, &text, &len, err);
    fp = status == STP_OK ? fopen(options->graphs_file, "w") : NULL;
    if (status == STP_OK &&
        (fp == NULL || fwrite(text, 1, len, fp) != len || fclose(fp) != 0))
        status = stp_fail(err, STP_ERR_IO, "cannot write '%.200s'",
                          options->graphs_file);
    free(path);
    free(text);
    return status;
}

enum stp_status
stp_device_mock_open(const struct stp_device_mock_options *options,
                     struct stp_device *device_ret, struct stp_error *err)
{
    struct device *d = calloc(1, sizeof(*d));
    enum stp_status status;

    if (d == NULL)
        return stp_nomem(err);
    d->time.seed = options->seed;
    status = open_libraries(d, options, err);
    if (status == STP_OK)
        status = write_graphs(options, err);
    if (status != STP_OK) {
        mock_close(d);
        return status;
    }
    device_ret->ops = &mock_ops;
    device_ret->self = d;
    return STP_OK;
}
