/* mock_open.c - from a recorded machine to an engine */
#include <stdio.h>

#include "device/arm_tuner.h"
#include "device/mock/mock_engine.h"

static enum stp_status open_fail(struct stp_error *err)
{
    return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
}

/* With the tuner 'plugin', the static one, or none. */
static enum stp_status open_library(struct stp_mock_engine *e,
                                    const char *plugin,
                                    const ncclTuner_v5_t *tuner,
                                    struct stp_mock_library *library,
                                    struct stp_error *err)
{
    const struct mock_nccl_options options = {
        .version = mock_machine_get_info(e->machine)->nccl,
        .tuner_plugin = plugin,
        .static_tuner = tuner,
        .static_tuner_version = tuner != NULL ? 5 : 0};

    if (mock_nccl_create(&options, &library->nccl) != ncclSuccess ||
        mock_comm_create(library->nccl, e->machine, mock_new_comm_id(),
                         &library->comm) != ncclSuccess)
        return open_fail(err);
    if ((plugin != NULL || tuner != NULL) &&
        mock_comm_tuner_version(library->comm) == 0)
        return stp_fail(err, STP_ERR_DEVICE,
                        "NCCL %s would not load tuner plugin '%s'",
                        options.version, plugin != NULL ? plugin : tuner->name);
    return STP_OK;
}

/* Of another number of ranks, if one is asked for. */
static enum stp_status load(struct stp_mock_engine *e,
                            const struct stp_engine_mock_options *options,
                            struct stp_error *err)
{
    struct mock_machine *resized;
    int n_ranks;

    if (mock_machine_load(options->machine_path, &e->machine) != ncclSuccess)
        return open_fail(err);
    n_ranks = mock_machine_get_info(e->machine)->n_ranks;
    if (options->n_ranks == 0 || options->n_ranks == (unsigned)n_ranks)
        return STP_OK;
    if (mock_machine_resize(e->machine, (int)options->n_ranks, &resized) !=
        ncclSuccess)
        return open_fail(err);
    mock_machine_free(e->machine);
    e->machine = resized;
    return STP_OK;
}

static void describe(struct stp_mock_engine *e)
{
    const struct mock_machine_info *m = mock_machine_get_info(e->machine);
    const uint64_t memory = stp_mock_memory(e->machine);
    struct stp_engine_info *info = &e->info;

    info->n_ranks = (unsigned)m->n_ranks;
    info->has_tf32 = stp_mock_has_tf32(e->machine);
    info->fuses = true;
    snprintf(info->gpu, sizeof(info->gpu), "%s", m->gpu);
    snprintf(info->what, sizeof(info->what),
             "%s%s: %d x %s, NCCL %s; %s, in virtual time: nothing was trained",
             m->name, m->resized ? " resized" : "", m->n_ranks, m->gpu, m->nccl,
             mock_machine_has_timings(e->machine)
                 ? "recorded times of collectives in mock NCCL, modelled "
                   "compute"
                 : "modelled times of collectives and compute");
    e->memory = memory > 0 ? memory : UINT64_MAX;
}

enum stp_status
stp_mock_engine_set_up(struct stp_mock_engine *e,
                       const struct stp_engine_mock_options *options,
                       struct stp_error *err)
{
    enum stp_status status = load(e, options, err);

    if (status == STP_OK)
        status = open_library(
            e, NULL, options->measures ? &stp_arm_tuner : NULL, &e->own, err);
    if (status == STP_OK && options->plugin != NULL)
        status = open_library(e, options->plugin, NULL, &e->plugin, err);
    if (status != STP_OK)
        return status;
    describe(e);
    e->time = (struct stp_virtual_time){.machine = e->machine,
                                        .seed = options->seed,
                                        .round = options->measures ? 0 : 0.5};
    return STP_OK;
}

static void close_library(struct stp_mock_library *library)
{
    if (library->comm != NULL)
        mock_comm_destroy(library->comm);
    if (library->nccl != NULL)
        mock_nccl_destroy(library->nccl);
}

void stp_mock_engine_clear(struct stp_mock_engine *e)
{
    close_library(&e->own);
    close_library(&e->plugin);
    mock_machine_free(e->machine);
}
