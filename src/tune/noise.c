/* noise.c - whether measurements can tell the gains that were asked for */
#include <math.h>
#include <stdio.h>

#include "tune/tune.h"

bool stp_tune_warn_of_noise(const struct stp_steadiness *steadiness,
                            double min_gain, char text[STP_ERROR_TEXT])
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
                 "; about %zu rounds would do", n);
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
    enum stp_status status = stp_compare(data, &each, err);

    if (status != STP_OK)
        return status;
    status = stp_steadiness_of(&each, pooled, steadiness_ret, err);
    stp_comparisons_free(&each);
    return status;
}
