/*
 * overlap.h - recorded iterations of collectives overlapped with compute
 *
 * overlap.csv has one row per size, compute time, pair, channel count and
 * round: the columns of timings.csv, and
 *
 *   layers,compute_us[,m,n,k]
 *
 * An iteration is 'layers' times a piece of compute, each followed by the
 * collective on a stream of its own; one join at the end.  compute_us is one of
 * those pieces alone, the product of an m x k and a k x n matrix in bf16 where
 * it is said; mean_us and so on are of the whole iteration.  All rows are of
 * interleaved rounds, of which every setting has the same number.  The
 * rounds.csv of `steptune iterate` is such a file, too, of whose rows those of
 * other modes, computes and types, and those of a tuner, are left out.
 *
 * Of each row one number is kept: the slowdown.  While compute and a collective
 * run side by side, each takes that many times as long as alone; the slowdown
 * is what makes mock_overlapped_us() of the two times alone the recorded mean.
 * (One number is all that one recorded time can tell: who of the two suffers
 * more is not in it.)  The collective's time alone is the mean of timings.csv.
 *
 * Held against another run on the machine of fixtures/machines/h200x4, minutes
 * apart, one pass, this gives the 15 iterations of recorded arms to .5 percent
 * (median; the worst to .9), 274 of other arms and channel counts to 2.5
 * (12.6), 96 of half the smallest recorded size to 3 (20); and 26 sequential
 * ones, from the times alone, to 3 (10).
 */
#ifndef MOCK_OVERLAP_H
#define MOCK_OVERLAP_H

#include "mock_nccl.h"

struct mock_overlap_row {
    double log_slowdown;
    double quantile[4]; /* of the iteration: at 0, .5, .95 and 1, over its
                           mean */
};

/* Collective and compute, in all rounds. */
struct mock_overlap_point {
    double log_ratio; /* compute over collective, each alone */
    double compute_us;
    int n_layers;
    unsigned m, n, k; /* 0: not said */
    const struct mock_overlap_row *rows;
};

struct mock_overlap_size {
    size_t n_bytes;
    double log_bytes;
    const struct mock_overlap_point *points; /* by ratio */
    int n_points;
};

struct mock_overlap_arm {
    int coll;
    int algo;
    int proto;
    int n_channels; /* 0: NCCL's own */
    const struct mock_overlap_size *sizes;
    int n_sizes;
};

struct mock_overlaps {
    struct mock_overlap_arm *arms;
    struct mock_overlap_size *sizes;
    struct mock_overlap_point *points;
    struct mock_overlap_row *rows;
    struct mock_overlap_setting *settings; /* sorted, each once */
    int n_arms;
    int n_sizes; /* of all arms, and so on */
    int n_points;
    int n_rows;
    int n_settings;
    int n_rounds;
};

/* Reads 'path'.  'machine' has its times already. */
ncclResult_t mock_overlaps_load(const char *path,
                                const struct mock_machine *machine,
                                struct mock_overlaps **overlaps_ret);
void mock_overlaps_free(struct mock_overlaps *overlaps);

#endif /* MOCK_OVERLAP_H */
