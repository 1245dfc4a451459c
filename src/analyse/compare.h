/* compare.h - comparisons: every arm against the AUTO of its own rounds */
#pragma once

#include "bench/measurement.h"
#include "core/stats.h"

/* One arm at one size.  A round counts with the median of its iterations, so
 * that one late interrupt is not the arm's. */
struct stp_comparison {
    struct stp_arm arm;
    int ran_algo;
    int ran_proto;
    int ran_channels;
    char ran_kernel[STP_KERNEL_NAME]; /* as of a measurement */
    double us;                        /* mean over its rounds */
    struct stp_gain gain;             /* over AUTO, by rounds that have both, as
                                         stp_gain_of_source() leaves it */
    const double *round_us; /* its times in those gain.n_pairs rounds, ascending
                               by round */
    const unsigned *rounds; /* their numbers */
    enum stp_source source; /* the worse of its own and AUTO's */
    bool single_pass;       /* some of its or AUTO's times */
    enum stp_bits bits; /* whether it computes AUTO's, in all that was measured
                           of it at this size (wrong.h) */
};

/* One collective of one kind of data at one size on one kind of communicator,
 * alone or in one workload. An arm measured in place is compared with AUTO in
 * place. */
struct stp_point {
    int coll;
    unsigned n_nodes;
    unsigned n_ranks;
    int type; /* enum stp_type */
    int op;   /* enum stp_op */
    unsigned root;
    bool in_place;
    bool graph;
    struct stp_workload work; /* times are of its iterations */
    uint64_t n_bytes;
    double auto_us;  /* mean over rounds */
    double noise;    /* standard deviation of AUTO's rounds over their mean */
    size_t n_rounds; /* of AUTO */
    double drift;    /* the last third of AUTO's rounds over the first, minus 1;
                        0 for less than three */
    int auto_algo;   /* what NCCL chose by itself */
    int auto_proto;
    int auto_channels;
    enum stp_source source;            /* of AUTO */
    bool single_pass;                  /* likewise */
    const struct stp_comparison *arms; /* the other arms */
    size_t n_arms;
};

struct stp_comparisons {
    struct stp_point *points; /* by the members above, in that order */
    size_t n_points;
    struct stp_comparison *arms; /* of all points */
    double *round_us;            /* of all arms */
    unsigned *rounds;
};

/* A gain of times from there: without its interval, from 0 to infinity, where
 * no rounds were taken.  A model repeats itself, and a single pass that was
 * recorded was taken once. */
struct stp_gain stp_gain_of_source(struct stp_gain gain, enum stp_source source,
                                   bool single_pass);

/* Returns the arm's comparison at the point, or NULL. */
const struct stp_comparison *stp_point_arm(const struct stp_point *point,
                                           const struct stp_arm *arm);

/* The gain of the one arm over the other of the same point, by the rounds that
 * have both; without two of them, or memory, its interval is 0 to infinity. */
struct stp_gain stp_gain_over_arm(const struct stp_comparison *one,
                                  const struct stp_comparison *other);

/* Whether the arm ran as NCCL's own choice did; false if nobody knows, and with
 * chunks of another size. */
bool stp_ran_as_auto(const struct stp_point *point,
                     const struct stp_comparison *arm);

/* Whether two points differ in their size alone. */
bool stp_point_alike(const struct stp_point *a, const struct stp_point *b);

/* Compares what is right (wrong.h).  STP_ERR_SYNTAX if some size was measured
 * without AUTO; *comparisons_ret is untouched then.  Free with
 * stp_comparisons_free(). */
enum stp_status stp_compare(const struct stp_dataset *data,
                            struct stp_comparisons *comparisons_ret,
                            struct stp_error *err);

/* Leaves out arms that are not known to compute NCCL's own bits, but for those
 * of collectives that only move data. */
void stp_keep_same_bits(struct stp_comparisons *comparisons);

void stp_comparisons_free(struct stp_comparisons *comparisons);
