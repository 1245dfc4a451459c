/*
 * nccl_run.h - a run of nccl-tests, whose rows become measurements
 */
#ifndef STP_NCCL_RUN_H
#define STP_NCCL_RUN_H

#include "bench/measurement.h"

/* One place of a row. */
struct stp_nccl_place {
    double us;                                /* 0: not measured */
    double min_us, median_us, p95_us, p99_us; /* 0: the same as 'us' */
    double n_wrong;                           /* -1: not checked */
    double error; /* largest difference, until 2.12; -1: not checked */
};

struct stp_nccl_row {
    uint64_t n_bytes;
    int type;
    int op;
    unsigned root;
    struct stp_nccl_place places[2]; /* out of place, in place */
};

/* The run that rows belong to. */
struct stp_nccl_run {
    int coll; /* -1: not known */
    struct stp_arm arm;
    unsigned iters;
    unsigned n_ranks;
    unsigned n_nodes;
    int ran_algo, ran_proto; /* of the next row; -1: not known */
    unsigned round;
    uint64_t last_size; /* of the row before; UINT64_MAX: none */
};

/* Appends the places of the row that were measured; a row of 0 bytes has none.
 * A size that does not exceed the one before begins a round.  STP_ERR_NOMEM. */
enum stp_status stp_nccl_run_add(struct stp_nccl_run *run,
                                 const struct stp_nccl_row *row,
                                 struct stp_dataset *data,
                                 struct stp_error *err);

/* The number of the collective that a program measures, such as
 * "all_reduce_perf"; or -1. */
int stp_nccl_program_coll(const char *program, size_t len);
#define STP_NCCL_PROGRAMS                                                      \
    "all_reduce_perf, all_gather_perf, reduce_scatter_perf, broadcast_perf "   \
    "or reduce_perf"

/* The operation of nccl-tests' word for it, or -1. */
int stp_nccl_op(const char *word, size_t len);

/* "2.28.9" for 22809, and "2.8.4" for 2804, as ncclGetVersion() has them. */
struct stp_nccl_version {
    char text[16];
};
struct stp_nccl_version stp_nccl_version(uint64_t code);

#endif /* STP_NCCL_RUN_H */
