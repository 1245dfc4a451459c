/* stats.h - the statistics that measurements and verdicts rest on */
#pragma once

#include <stddef.h>

/* A sample, summed up.  In the unit of the sample.  What is not known, such as
 * percentiles of one value, is NaN. */
struct stp_summary {
    double mean;
    double median;
    double p95;
    double p99;
    double min;
};

/* How many values a percentile needs, so that one is expected above it. */
enum { STP_LEAST_P95 = 20, STP_LEAST_P99 = 100 };

/* Takes percentiles out that 'n' values do not tell. */
void stp_summary_limit(struct stp_summary *summary, size_t n);

/* Sums up the 'n' >= 1 finite values, which it sorts.  Percentiles are
 * interpolated linearly between the order statistics (Hyndman and Fan's type 7,
 * as NumPy's default). */
void stp_summarise(double *values, size_t n, struct stp_summary *summary_ret);

/* The mean of 'n' >= 1 values. */
double stp_mean(const double *values, size_t n);

/* The standard deviation of 'n' values with n - 1 below the line; 0 for one. */
double stp_stddev(const double *values, size_t n);

/* The standard deviation of normal values around 0, by the median of the sizes
 * of 'n' >= 1 of them, which it sorts: a few that are far out change little. */
double stp_robust_stddev(double *sizes, size_t n);

/* The 0.975 quantile of Student's t with 'df' >= 1 degrees of freedom: half the
 * width of a 95 percent interval, in standard errors.  Within 1e-4 of the exact
 * value. */
double stp_t975(size_t df);

/* How much faster: 1.05 is a twentieth more work in the same time. */
struct stp_gain {
    double gain; /* > 1: faster */
    double low;  /* 95 percent interval */
    double high;
    size_t n_pairs;
};

/* The gain of 'n' >= 1 paired times over a baseline, times > 0: the geometric
 * mean of baseline[i] / times[i], with Student's interval on the logarithms.
 * One pair says nothing of its error: its interval is 0 to infinity. */
struct stp_gain stp_paired_gain(const double *baseline, const double *times,
                                size_t n);
