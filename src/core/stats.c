#include "core/stats.h"

#include <math.h>
#include <stdlib.h>

static int stats_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double stats_percentile(const double *sorted, size_t n, double p)
{
    double at = p * (double)(n - 1);
    size_t below = (size_t)at;

    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] +
           (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

void stp_summarise(double *values, size_t n, struct stp_summary *summary_ret)
{
    qsort(values, n, sizeof(*values), stats_compare_doubles);
    summary_ret->mean = stp_mean(values, n);
    summary_ret->median = stats_percentile(values, n, 0.5);
    summary_ret->p95 = n > 1 ? stats_percentile(values, n, 0.95) : (double)NAN;
    summary_ret->p99 = n > 1 ? stats_percentile(values, n, 0.99) : (double)NAN;
    summary_ret->min = values[0];
}

void stp_summary_limit(struct stp_summary *summary, size_t n)
{
    if (n < STP_LEAST_P95)
        summary->p95 = NAN;
    if (n < STP_LEAST_P99)
        summary->p99 = NAN;
}

double stp_mean(const double *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

double stp_stddev(const double *values, size_t n)
{
    double mean = stp_mean(values, n);
    double sum = 0;

    if (n < 2)
        return 0;
    for (size_t i = 0; i < n; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / (double)(n - 1));
}

/* Abramowitz and Stegun, table 26.10. */
static const double t975[] = {
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646,
    2.3060,  2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
    2.1314,  2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
};

double stp_robust_stddev(double *sizes, size_t n)
{
    qsort(sizes, n, sizeof(*sizes), stats_compare_doubles);
    return 1.4826 * sizes[n / 2]; /* of the normal distribution */
}

double stp_t975(size_t df)
{
    const double n = (double)df, z = 1.959964;

    if (df <= sizeof(t975) / sizeof(t975[0]))
        return t975[df - 1];
    /* Fisher's expansion, Abramowitz and Stegun 26.7.5. */
    return z + (pow(z, 3) + z) / (4 * n) +
           (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * n * n) +
           (3 * pow(z, 7) + 19 * pow(z, 5) + 17 * pow(z, 3) - 15 * z) /
               (384 * n * n * n);
}

struct stp_gain stp_paired_gain(const double *baseline, const double *times,
                                size_t n)
{
    struct stp_gain g = {.low = 0, .high = INFINITY, .n_pairs = n};
    double mean = 0;
    double sum = 0;
    double half;

    for (size_t i = 0; i < n; i++)
        mean += log(baseline[i] / times[i]) / (double)n;
    g.gain = exp(mean);
    if (n < 2)
        return g;

    for (size_t i = 0; i < n; i++)
        sum += pow(log(baseline[i] / times[i]) - mean, 2);
    half = stp_t975(n - 1) * sqrt(sum / (double)(n - 1) / (double)n);
    g.low = exp(mean - half);
    g.high = exp(mean + half);
    return g;
}
