/*
 * timings.h - recorded times of a machine, and what lies between them
 *
 * timings.csv has one row per size, pair, channel count and pass:
 *
 *   collective,bytes,algorithm,protocol,channels,nRanks,run,round,iters,
 *   mean_us,median_us,p95_us,min_us
 *
 * 'run' is a word; 'round' counts from 1 in an interleaved run, in which every
 * round measures everything once, and is 0 for a single pass.  algorithm and
 * protocol "auto" (always both, with channels 0) are NCCL's own choice.
 *
 * What is made of them:
 * - auto is averaged with the forced pair that NCCL chooses there, of the same
 *   run and round, so that the two are one truth;
 * - for a pair and channel count, interleaved rows count wherever the size lies
 *   between the smallest and the largest of them, single passes only outside:
 *   runs are minutes apart, and machines drift;
 * - another channel count is kept as its ratio to NCCL's own count in the same
 *   run and round, so that drift between runs does not enter.
 */
#ifndef MOCK_TIMINGS_H
#define MOCK_TIMINGS_H

#include "model/cost_model.h"

/*
 * One row.  Its spread over iterations is piecewise linear through four
 * quantiles.  The largest is not recorded: it is what makes the mean right.  If
 * that is below p95, it is p95, and all four are scaled instead.
 */
struct mock_row {
    double mean;        /* us */
    double log_mean;    /* of it */
    double quantile[4]; /* at 0, .5, .95 and 1, as parts of the mean */
};

/* One size, with a row for each round. */
struct mock_point {
    size_t n_bytes;
    double log_bytes;
    const struct mock_row *rows;
    int n_rounds;
    bool is_single_pass; /* not interleaved, or one round alone, which has no
                            other to be paired with */
};

/* Points by size. */
struct mock_curve {
    struct mock_point *points;
    int n_points;
    struct mock_row *rows;
};

/* A channel count below NCCL's own; the rows' means are ratios. */
struct mock_count {
    int n_channels;
    struct mock_curve ratio;
};

struct mock_pair {
    struct mock_curve own;     /* with NCCL's own channels; may be empty */
    struct mock_count *counts; /* by count */
    int n_counts;
};

/* How many rounds there are of a collective at a size, whatever the pair. */
struct mock_size {
    size_t n_bytes;
    int n_rounds;
    bool is_single_pass; /* for every pair */
};

struct mock_timings {
    struct mock_pair pairs[NCCL_NUM_TUNED_FUNCS][NCCL_NUM_ALGORITHMS]
                          [NCCL_NUM_PROTOCOLS];
    struct mock_size *sizes[NCCL_NUM_TUNED_FUNCS]; /* by size */
    int n_sizes[NCCL_NUM_TUNED_FUNCS];
};

struct mock_record;

/* The quantiles of a row, as parts of its mean, and what lies at 'at' of
 * them, in [0, 1). */
void mock_quantiles(const struct mock_record *record, double quantiles_ret[4]);
double mock_quantile(const double quantiles[4], double at);

/* Reads 'path'.  'model' knows NCCL's own choices. */
ncclResult_t mock_timings_load(const char *path, const struct mock_model *model,
                               struct mock_timings **timings_ret);
void mock_timings_free(struct mock_timings *timings);

#endif /* MOCK_TIMINGS_H */
