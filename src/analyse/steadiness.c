#include "analyse/steadiness.h"

#include <math.h>
#include <stdlib.h>

#include "launch/take.h"

enum { MAX_ROUNDS = 1000000 };

/* Returns the median of 'n' >= 1 values, which it sorts. */
static double steadiness_get_median(double *values, size_t n)
{
    struct stp_summary summary;

    stp_summarise(values, n, &summary);
    return summary.median;
}

/* The median over all arms that have an interval of half of it, in logarithms,
 * or of the 'scatter' of the rounds that it comes from; -1 if none has. */
static double steadiness_get_typical(const struct stp_comparisons *all,
                                     double *values, bool scatter)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n_points; i++)
        for (size_t a = 0; a < all->points[i].n_arms; a++) {
            const struct stp_gain *g = &all->points[i].arms[a].gain;

            if (g->n_pairs < 2 || !isfinite(g->high))
                continue;
            values[n++] =
                log(g->high / g->gain) *
                (scatter ? sqrt((double)g->n_pairs) / stp_t975(g->n_pairs - 1)
                         : 1);
        }
    return n > 0 ? steadiness_get_median(values, n) : -1;
}

/* Counts the values for which the largest of the medians needs room. */
static size_t steadiness_count_values(const struct stp_comparisons *all)
{
    size_t n = all->n_points;

    for (size_t i = 0; i < all->n_points; i++)
        n += all->points[i].n_arms;
    return n;
}

struct stp_steadiness stp_steadiness_of(const struct stp_comparisons *each,
                                        const struct stp_comparisons *pooled)
{
    struct stp_steadiness s = {.min_rounds = pooled->points[0].n_rounds,
                               .max_rounds = pooled->points[0].n_rounds,
                               .drift = NAN,
                               .worst_drift = NAN};
    double *values = stp_take(steadiness_count_values(each) +
                                  steadiness_count_values(pooled),
                              sizeof(*values));
    size_t n_spreads = 0, n_drifts = 0;
    double half;

    for (size_t i = 1; i < pooled->n_points; i++) {
        size_t n = pooled->points[i].n_rounds;

        s.min_rounds = n < s.min_rounds ? n : s.min_rounds;
        s.max_rounds = n > s.max_rounds ? n : s.max_rounds;
    }
    /* A size of one round, at which nothing was to be found out, has none. */
    for (size_t i = 0; i < each->n_points; i++)
        if (each->points[i].n_rounds > 1)
            values[n_spreads++] = each->points[i].noise;
    if (n_spreads > 0)
        s.spread = steadiness_get_median(values, n_spreads);
    for (size_t i = 0; i < n_spreads; i++)
        s.worst_spread = fmax(s.worst_spread, values[i]);
    for (size_t i = 0; i < each->n_points; i++) {
        double drift = each->points[i].drift;

        if (each->points[i].n_rounds < 3)
            continue;
        values[n_drifts++] = drift;
        if (n_drifts == 1 || fabs(drift) > fabs(s.worst_drift))
            s.worst_drift = drift;
    }
    if (n_drifts > 0)
        s.drift = steadiness_get_median(values, n_drifts);
    half = steadiness_get_typical(pooled, values, false);
    s.scatter = half < 0 ? 0 : steadiness_get_typical(pooled, values, true);
    s.resolved = half < 0 ? INFINITY : expm1(half);
    free(values);
    return s;
}

bool stp_is_noisy(const struct stp_steadiness *steadiness, double min_gain)
{
    return steadiness->resolved >= min_gain + .00005; /* as it is told */
}

size_t stp_rounds_for(const struct stp_steadiness *steadiness, double min_gain)
{
    size_t least = 1;
    size_t enough = MAX_ROUNDS;

    if (isinf(steadiness->resolved))
        return 0;
    while (enough - least > 1) {
        size_t n = least + (enough - least) / 2;

        if (stp_t975(n - 1) * steadiness->scatter / sqrt((double)n) >
            log1p(min_gain))
            least = n;
        else
            enough = n;
    }
    return enough < MAX_ROUNDS ? enough : 0;
}
