/* host.c - messages, progress and time of a run of tune, for its host, and
 * whether measurements can tell the gains that were asked for */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "store/clock.h"
#include "tune/stages.h"

struct stp_derive_terms stp_tune_terms(const struct stp_tune_plan *plan,
                                       enum stp_policy_kind kind)
{
    return (struct stp_derive_terms){
        .min_gain = plan->min_gain, .same_bits = plan->same_bits, .kind = kind};
}

void stp_tune_tell(const struct stp_tune_job *job, const char *fmt, ...)
{
    char text[STP_TUNE_PATH + STP_ERROR_TEXT];
    va_list va;

    va_start(va, fmt);
    vsnprintf(text, sizeof(text), fmt, va);
    va_end(va);
    job->host->tell(job->host->user, text);
}

enum stp_status stp_tune_progress(const struct stp_tune_job *job,
                                  enum stp_tune_stage stage, size_t done,
                                  size_t total, struct stp_error *err)
{
    if (job->host->progress(job->host->user, stage, done, total))
        return STP_OK;
    return stp_fail(err, STP_ERR_STOPPED, "stopped");
}

void stp_tune_clock(int64_t *stage_ms, enum stp_tune_stage stage,
                    int64_t *since_ms)
{
    int64_t now = stp_now_ms();

    stage_ms[stage] += now - *since_ms;
    *since_ms = now;
}

bool stp_tune_has(const struct stp_dataset *data,
                  const struct stp_setting *setting, unsigned n_ranks)
{
    bool has = false;

    for (size_t i = 0; i < data->n_rows && !has; i++) {
        const struct stp_measurement *m = &data->rows[i];

        has = m->work.mode == setting->mode && m->coll == setting->coll &&
              m->n_bytes == setting->n_bytes &&
              fabs(m->work.ratio - setting->ratio) < 1e-9 &&
              m->n_ranks == n_ranks;
    }
    return has;
}

bool stp_tune_warn_of_noise(const struct stp_steadiness *steadiness,
                            double min_gain, unsigned n_recorded,
                            char text[STP_ERROR_TEXT])
{
    size_t n;
    int len;

    if (!isfinite(steadiness->resolved)) {
        snprintf(text, STP_ERROR_TEXT,
                 "warning: one round, one pass or a model says nothing of its "
                 "error, expected %d rounds or more",
                 STP_DERIVE_PASSES);
        return true;
    }
    if (!(min_gain > 0) || !stp_is_noisy(steadiness, min_gain))
        return false;
    len = snprintf(text, STP_ERROR_TEXT,
                   "warning: too noisy for --min-gain %g%%: only gains from "
                   "%.2f percent up stand out",
                   min_gain * 100, steadiness->resolved * 100);
    n = stp_rounds_for(steadiness, min_gain);
    if (n > 0)
        snprintf(&text[len], STP_ERROR_TEXT - (size_t)len,
                 "; about %zu rounds would do%s", n,
                 n_recorded > 0 && n > n_recorded ? ", more than were recorded"
                                                  : "");
    else
        snprintf(&text[len], STP_ERROR_TEXT - (size_t)len,
                 ", whatever the rounds");
    return true;
}

enum stp_status stp_tune_measure_steadiness(
    const struct stp_dataset *data, const struct stp_comparisons *pooled,
    struct stp_steadiness *steadiness_ret, struct stp_error *err)
{
    struct stp_comparisons each;

    STP_TRY(stp_compare(data, &each, err));
    *steadiness_ret = stp_steadiness_of(&each, pooled);
    stp_comparisons_free(&each);
    return STP_OK;
}
