/* iterate.c - which arms shorten training iterations */
#include <stdio.h>

#include "store/clock.h"
#include "tune/stages.h"

/* A signal ends a setting between rounds. */
static bool iterate_goes_on(void *user, size_t done, size_t total)
{
    const struct stp_tune_job *job = user;

    return job->host->goes_on(job->host->user);
}

struct stp_setting_terms stp_tune_setting_terms(const struct stp_tune_job *job)
{
    const struct stp_tune_plan *plan = job->plan;

    return (struct stp_setting_terms){.type = plan->measure.types[0],
                                      .rounds = plan->measure.rounds,
                                      .min_gain = plan->min_gain,
                                      .same_bits = plan->same_bits,
                                      .progress = iterate_goes_on,
                                      .user = (void *)job};
}

struct stp_range stp_tune_captured(const struct stp_tune_plan *plan,
                                   const struct stp_device_info *info)
{
    return info->captures && !plan->no_iterate ? stp_settings_captured
                                               : (struct stp_range){0};
}

/* ---- a pass ---- */

/* Measures the settings that are not there.  One that was not completed leaves
 * no rows. */
static enum stp_status iterate_measure(const struct stp_tune_pass *pass,
                                       const struct stp_comparisons *swept,
                                       const struct stp_setting *settings,
                                       size_t total, struct stp_iterations *out,
                                       struct stp_error *err)
{
    const struct stp_device_info *info = &pass->known.info;
    const struct stp_setting_terms terms = stp_tune_setting_terms(pass->job);
    enum stp_status status = STP_OK;
    size_t there = 0;

    for (size_t i = 0; i < total; i++)
        there += stp_tune_has(&out->data, &settings[i], info->n_ranks);
    if (there > 0)
        stp_tune_tell(pass->job, "continuing %s: %zu of %zu settings are there",
                      pass->job->files->state_iterations, there, total);
    for (size_t i = 0; i < total && status == STP_OK; i++) {
        const size_t n_rows = out->data.n_rows;
        struct stp_arms arms;

        if (!stp_tune_has(&out->data, &settings[i], info->n_ranks)) {
            out->n_samples = 0; /* they are not used */
            status = stp_setting_choose_arms(
                swept, info->max_rounds == 0 ? terms.min_gain : 0, info,
                &settings[i], &arms, err);
            STP_THEN(status, stp_setting_run(pass->device, info, &settings[i],
                                             &terms, &arms, out, err));
            if (status != STP_OK)
                out->data.n_rows = n_rows;
            STP_THEN(status, stp_tune_state_save(pass->state, false, err));
        }
        STP_THEN(status, stp_tune_progress(pass->job, STP_TUNE_ITERATE, i + 1,
                                           total, err));
    }
    return status;
}

enum stp_status stp_tune_iterate(const struct stp_tune_pass *pass,
                                 const struct stp_dataset *data,
                                 struct stp_iterations *out,
                                 char why_not[STP_ERROR_TEXT],
                                 struct stp_error *err)
{
    const struct stp_device_info *info = &pass->known.info;
    struct stp_setting settings[STP_MAX_SETTINGS];
    struct stp_comparisons swept = {0};
    int64_t clock = stp_now_ms();
    enum stp_status status = STP_OK;
    size_t n = 0, n_overlapped = 0;

    if (!info->models_overlap) {
        status = stp_compare(data, &swept, err);
        if (status == STP_OK)
            n = stp_settings_list(&swept, &pass->known, settings);
        if (pass->job->plan->same_bits)
            stp_keep_same_bits(&swept);
    }
    while (n_overlapped < n &&
           settings[n_overlapped].mode != STP_MODE_SEQUENTIAL)
        n_overlapped++;
    if (info->models_overlap)
        snprintf(why_not, STP_ERROR_TEXT,
                 "nobody measured on '%s' what compute and collectives do to "
                 "each other",
                 info->machine);
    else if (status == STP_OK && n_overlapped == 0)
        snprintf(why_not, STP_ERROR_TEXT,
                 "all-reduces, or all-gathers and reduce-scatters, of %d to %d "
                 "MiB were not swept",
                 STP_SETTINGS_FIRST_MIB, STP_SETTINGS_LAST_MIB);
    if (status == STP_OK && n_overlapped == 0)
        stp_tune_tell(pass->job, "no overlapped iterations: %s", why_not);
    STP_THEN(status, iterate_measure(pass, &swept, settings, n, out, err));
    stp_comparisons_free(&swept);
    stp_tune_clock(pass->stage_ms, STP_TUNE_ITERATE, &clock);
    return status;
}
