/*
 * overlap.h - recorded iterations of collectives and compute
 *
 * overlap.csv has one row per size, compute time, pair, channel count and
 * round: the columns of timings.csv, and
 *
 *   layers,compute_us[,m,n,k][,mode]
 *
 * An iteration is 'layers' times a piece of compute, with collectives as enum
 * mock_mode says; 'mode' is overlap, fsdp or sequential, and overlap where the
 * column is missing. compute_us is the time of one piece without overlap, a
 * GEMM of an m x k and a k x n matrix in bf16 if the row has m, n and k;
 * mean_us and the other times are of the whole iteration. Rows of fsdp are of
 * collective allgather, and of a reduce-scatter of the same arm and size. All
 * rows are of interleaved rounds, of which every setting has the same number.
 * The rounds.csv of `steptune iterate` has this format, too; its rows of
 * traces, other computes and types, and those of a tuner, are skipped.
 *
 * A row is stored as one number, the slowdown: the factor on the time of
 * compute and collective while they overlap, for which mock_overlapped_us() or
 * mock_fsdp_us() of the times without overlap is the recorded mean. (One
 * recorded time cannot determine two slowdowns.) A row of fsdp stands for both
 * of its collectives. Of sequential iterations it is the factor on the
 * collective's time alone. The collective's time without overlap is the mean of
 * timings.csv.
 *
 * Compared with another run on the machine of fixtures/machines/h200x4, minutes
 * apart, one pass, this predicts the 15 iterations of recorded arms to .5
 * percent (median; the worst to .9), 274 of other arms and channel counts to
 * 2.5 (12.6), 96 of half the smallest recorded size to 3 (20); and 26
 * sequential iterations, from the times without overlap, to 3 (10).
 */
#ifndef MOCK_OVERLAP_H
#define MOCK_OVERLAP_H

#include "mock_nccl.h"

struct mock_overlap_row {
    double log_slowdown;
    double quantile[4]; /* of the iteration: at 0, .5, .95 and 1, relative to
                           its mean */
};

/* The records of a collective with a compute time, in all rounds. */
struct mock_overlap_point {
    double log_ratio; /* compute over collective, each without overlap */
    double compute_us;
    int n_layers;
    unsigned m, n, k;             /* 0: not recorded */
    enum mock_time_source source; /* the worst of its rows */
    const struct mock_overlap_row *rows;
};

struct mock_overlap_size {
    size_t n_bytes;
    double log_bytes;
    const struct mock_overlap_point *points; /* sorted by ratio */
    int n_points;
};

struct mock_overlap_arm {
    enum mock_mode mode;
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
    struct mock_overlap_setting *settings; /* sorted, without duplicates */
    int n_arms;
    int n_sizes; /* sizes of all arms; likewise below */
    int n_points;
    int n_rows;
    int n_settings;
    int n_rounds;
};

/* Reads 'path'. 'machine' must have its times. */
ncclResult_t mock_overlaps_load(const char *path,
                                const struct mock_machine *machine,
                                struct mock_overlaps **overlaps_ret);
void mock_overlaps_free(struct mock_overlaps *overlaps);

#endif /* MOCK_OVERLAP_H */
