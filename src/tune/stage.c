/* stage.c - staged buffers in CUDA graphs, where no launch is in their time */
#include <string.h>

#include "store/clock.h"
#include "tune/stages.h"
#include "tune/trial.h"

enum {
    FIRST_BYTES = 64 << 10, /* smaller messages fit no pair of copies */
    LAST_BYTES = 64 << 20,
    GRAPH_CALLS = 20, /* of a collective in a graph */
};

static bool stage_progress(void *user, size_t done, size_t total)
{
    return stp_tune_progress(user, STP_TUNE_VERIFY, done, total, NULL) ==
           STP_OK;
}

/* Times AUTO, the policy and staged buffers in graphs, at the sizes that were
 * swept and others between them. */
static enum stp_status stage_measure(const struct stp_tune_job *job,
                                     const struct stp_device *device,
                                     struct stp_dataset *captured,
                                     struct stp_error *err)
{
    struct stp_measure_options measure = job->plan->measure;
    struct stp_arms arms = stp_trial_arms;
    struct stp_device_facts known;
    struct stp_measure_plan grid;

    stp_get_device_facts(device, &known);
    STP_TRY(stp_arms_add_staged(&arms, known.info.setups, err));
    if (measure.n_colls == 0) {
        measure.n_colls = STP_N_TRAINED_COLLS;
        memcpy(measure.colls, stp_trained_colls, sizeof(stp_trained_colls));
    }
    if (measure.n_bytes == 0 && measure.begin < FIRST_BYTES)
        measure.begin = FIRST_BYTES;
    if (measure.n_bytes == 0 && (measure.end == 0 || measure.end > LAST_BYTES))
        measure.end = LAST_BYTES;
    if (arms.n == stp_trial_arms.n || measure.begin > measure.end)
        return STP_OK;
    STP_TRY(stp_plan_measurements(&known, &measure, &arms, &grid, err));
    grid.plan.check = 1;
    grid.plan.bits_max = job->plan->same_bits ? UINT64_MAX : 0;
    grid.plan.graph = 1;
    grid.plan.iters = GRAPH_CALLS;
    grid.plan.turn_us = 0;
    return stp_sweep_run(device, &grid.plan, stage_progress, (void *)job,
                         captured, err);
}

/* Times iterations of AUTO, the policy and the staged buffers that gained back
 * to back: a staged collective takes longer between other kernels. */
static enum stp_status stage_iterate(const struct stp_tune_job *job,
                                     const struct stp_device *device,
                                     struct stp_dataset *captured,
                                     struct stp_error *err)
{
    struct stp_setting_terms terms = stp_tune_setting_terms(job);
    struct stp_comparisons swept = {0};
    struct stp_iterations out = {0};
    struct stp_device_facts known;
    enum stp_status status = stp_compare(captured, &swept, err);

    stp_get_device_facts(device, &known);
    terms.graph = true;
    for (size_t i = 0; i < swept.n_points && status == STP_OK; i++) {
        const struct stp_point *p = &swept.points[i];
        const struct stp_setting setting = {STP_MODE_SEQUENTIAL, p->coll,
                                            p->n_bytes, 1};
        struct stp_arms arms = stp_trial_arms;

        for (size_t a = 0; a < p->n_arms && status == STP_OK; a++)
            if (p->arms[a].arm.setup.memory == STP_MEMORY_STAGE &&
                p->arms[a].gain.gain > 1)
                status = stp_arms_add_setup(&arms, &p->arms[a].arm.setup, err);
        if (status == STP_OK && arms.n > stp_trial_arms.n &&
            p->n_ranks == known.info.n_ranks &&
            (p->n_bytes & (p->n_bytes - 1)) == 0 &&
            stp_settings_has(&known, p->coll, p->n_bytes))
            status = stp_setting_run(device, &known.info, &setting, &terms,
                                     &arms, &out, err);
    }
    for (size_t i = 0; i < out.data.n_rows && status == STP_OK; i++)
        stp_dataset_take(captured, &out.data.rows[i]);
    stp_comparisons_free(&swept);
    stp_iterations_free(&out);
    return status;
}

enum stp_status stp_tune_stage(const struct stp_tune_job *job,
                               struct stp_tune_result *result,
                               struct stp_error *err)
{
    const size_t n_passes = job->plan->n_passes > 0 ? job->plan->n_passes : 1;
    const struct stp_device *device = &job->trial->device;
    int64_t clock = stp_now_ms();
    enum stp_status status = STP_OK;

    if (!result->info.captures ||
        (result->info.setups >> STP_MEMORY_STAGE & 1) == 0)
        return STP_OK;
    for (size_t i = 0; i < n_passes && status == STP_OK; i++) {
        STP_TRY(stp_tune_begin_trial(job, i, job->files->trial,
                                     result->info.gpu, err));
        stp_device_use_graphs(device, true);
        status = stage_measure(job, device, &result->captured, err);
        STP_THEN(status, stage_iterate(job, device, &result->captured, err));
        stp_device_use_graphs(device, false);
    }
    stp_tune_clock(result->stage_ms, STP_TUNE_VERIFY, &clock);
    return status;
}
