#include "bench/device_mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/arm_tuner.h"
#include "core/rng.h"
#include "mock_nccl.h"

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
    uint64_t seed;
    double round;     /* in [0, 1), which recorded round */
    uint64_t n_draws; /* of the spread within a round */
    double now_us;    /* virtual time */
    double *event_us; /* recorded events */
    size_t n_events;
    struct stp_device_run last;
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

static enum stp_status mock_collective(void *self,
                                       const struct stp_collective *what,
                                       struct stp_error *err)
{
    struct device *d = self;
    const struct mock_call call = {.coll = (ncclFunc_t)what->coll,
                                   .n_bytes = what->n_bytes,
                                   .element_size = what->element_size};
    struct mock_outcome out;
    struct mock_run run;
    struct mock_time time;

    if (mock_comm_collective(d->use_plugin ? d->plugin.comm : d->forced.comm,
                             &call, &out) != ncclSuccess)
        return fail(err);
    run = mock_outcome_run(&call, &out);
    if (mock_machine_time(d->machine, &run, d->round,
                          stp_rng_unit(d->seed, d->n_draws++),
                          &time) != ncclSuccess)
        return fail(err);
    d->now_us += time.us;
    d->last.algo = out.algo;
    d->last.proto = out.proto;
    d->last.n_channels = out.n_channels;
    d->last.source = sources[time.source];
    return STP_OK;
}

static void mock_last_run(const void *self, struct stp_device_run *run_ret)
{
    *run_ret = ((const struct device *)self)->last;
}

static enum stp_status mock_record(void *self, unsigned event,
                                   struct stp_error *err)
{
    struct device *d = self;

    if (event >= d->n_events) {
        size_t n = 2 * (size_t)event + 64;
        double *more = realloc(d->event_us, n * sizeof(*more));

        if (more == NULL)
            return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
        d->event_us = more;
        d->n_events = n;
    }
    d->event_us[event] = d->now_us;
    return STP_OK;
}

static enum stp_status mock_synchronise(void *self, struct stp_error *err)
{
    (void)self; /* virtual time has no one to wait for */
    (void)err;
    return STP_OK;
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
    free(d);
}

static const struct stp_device_ops mock_ops = {
    .name = "mock",
    .info = mock_info,
    .sizes = mock_sizes,
    .begin_round = mock_begin_round,
    .select_arm = mock_select_arm,
    .collective = mock_collective,
    .last_run = mock_last_run,
    .record = mock_record,
    .synchronise = mock_synchronise,
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
