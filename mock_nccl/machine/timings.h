/*
 * timings.h - the recorded times of a machine, and interpolation between them
 *
 * timings.csv has one row per size, pair, channel count and pass:
 *
 *   collective,bytes,algorithm,protocol,channels,nRanks,run,round,iters,
 *   mean_us,median_us,p95_us,min_us[,source][,ran_kernel]
 *
 * 'run' is a word; 'round' counts from 1 in an interleaved run, in which every
 * round measures everything once, and is 0 for a single pass. algorithm and
 * protocol "auto" (always both, with channels 0) are NCCL's own choice.
 * "reg", "sym" and "ce" (likewise) are of buffers that were registered, and
 * 'ran_kernel' is what ran there, if it was no algorithm.
 * 'source' is there where this machine was recorded on another in mock NCCL,
 * and says what that one's times were: recorded, interpolated, virtual or
 * modelled.
 *
 * Use of the rows:
 * - auto is averaged with the forced pair that NCCL chooses at this size, of
 * the same run and round, because both measure the same;
 * - for a pair and channel count, interleaved rows are used for all sizes
 *   between the smallest and the largest of them, single passes only outside:
 *   runs are minutes apart, and machines drift;
 * - another channel count is stored as its ratio to NCCL's own count in the
 * same run and round, which removes the drift between runs.
 */
#ifndef MOCK_TIMINGS_H
#define MOCK_TIMINGS_H

#include "model/cost_model.h"

/*
 * One row. Its spread over iterations is piecewise linear through four
 * quantiles. The largest was not recorded: it follows from the mean. If it
 * would be below p95, it is p95, and all four are scaled instead.
 */
struct mock_row {
    double mean;        /* us */
    double log_mean;    /* log of the mean */
    double quantile[4]; /* at 0, .5, .95 and 1, relative to the mean */
};

/* One size, with a row for each round. */
struct mock_point {
    size_t n_bytes;
    double log_bytes;
    const struct mock_row *rows;
    int n_rounds;
    bool is_single_pass; /* not interleaved, or a single round, which cannot be
                            paired with another */
    enum mock_time_source source; /* the worst of its rows */
    char kernel[40];              /* as of a record, of its last row */
};

/* Points, sorted by size. */
struct mock_curve {
    struct mock_point *points;
    int n_points;
    struct mock_row *rows;
};

/* A channel count below NCCL's own; the means of the rows are ratios. */
struct mock_count {
    int n_channels;
    struct mock_curve ratio;
};

struct mock_pair {
    struct mock_curve own; /* times with NCCL's own channels; may be empty */
    struct mock_count *counts; /* sorted by count */
    int n_counts;
};

/* The number of rounds of a collective at a size, over all pairs. */
struct mock_size {
    size_t n_bytes;
    int n_rounds;
    bool is_single_pass; /* no pair has interleaved rounds */
};

struct mock_timings {
    struct mock_pair pairs[NCCL_NUM_TUNED_FUNCS][MOCK_NUM_WAYS]
                          [NCCL_NUM_PROTOCOLS];
    struct mock_size *sizes[NCCL_NUM_TUNED_FUNCS]; /* sorted by size */
    int n_sizes[NCCL_NUM_TUNED_FUNCS];
};

struct mock_record;

/* The quantiles of a row relative to its mean, and the value at quantile 'at'
 * in [0, 1). */
void mock_quantiles(const struct mock_record *record, double quantiles_ret[4]);
double mock_quantile(const double quantiles[4], double at);

/* Reads 'path'. 'model' supplies NCCL's own choices. */
ncclResult_t mock_timings_load(const char *path, const struct mock_model *model,
                               struct mock_timings **timings_ret);
void mock_timings_free(struct mock_timings *timings);

#endif /* MOCK_TIMINGS_H */
