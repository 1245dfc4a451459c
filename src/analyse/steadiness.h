/* steadiness.h - how steady a machine was while it was measured, and what gains
 * so many rounds tell from noise */
#pragma once

#include "analyse/compare.h"

/* Shares: 0.02 is 2 percent.  "Typical" is the median over sizes. */
struct stp_steadiness {
    size_t min_rounds; /* of AUTO at a size */
    size_t max_rounds;
    double spread; /* typical standard deviation of AUTO's rounds over their
                      mean */
    double worst_spread;
    double drift;       /* typical, from the first third of AUTO's rounds to the
                           last; NaN if no size has three */
    double worst_drift; /* the furthest from 0 */
    double scatter;     /* typical standard deviation, over rounds, of the
                           logarithm of an arm's gain */
    double resolved;    /* the smallest gain that the rounds of a typical arm
                           tell from none with 95 percent confidence; infinite
                           if no arm has two rounds */
};

/* How steady AUTO was in 'each', which has at least one point, and what the
 * rounds of 'pooled' come to: the same, or the pooled workloads of iterations,
 * whose differences are no noise. */
struct stp_steadiness stp_steadiness_of(const struct stp_comparisons *each,
                                        const struct stp_comparisons *pooled);

/* Whether gains of 'min_gain' > 0 drown in noise. */
bool stp_is_noisy(const struct stp_steadiness *steadiness, double min_gain);

/* How many rounds would tell 'min_gain' > 0 from none, with the same scatter;
 * 0 if nobody knows or a million are too few. */
size_t stp_rounds_for(const struct stp_steadiness *steadiness, double min_gain);
