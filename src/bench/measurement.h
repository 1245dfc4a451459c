/* measurement.h - what a benchmark measured */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/workload.h"
#include "core/policy/policy.h"
#include "core/stats.h"
#include "device/arm.h"
#include "device/device.h"
#include "device/source.h"

/* One arm in one round at one size.  Times are microseconds for one collective,
 * or for one iteration of a workload, the slowest rank counting. */
struct stp_measurement {
    int coll;         /* ncclFunc_t */
    uint64_t n_bytes; /* as a tuner counts them */
    unsigned round;   /* from 0; equal numbers ran within the same round */
    struct stp_arm arm;
    int ran_algo; /* what NCCL ran; -1 where nobody knows */
    int ran_proto;
    int ran_channels;
    char ran_kernel[STP_KERNEL_NAME]; /* as struct stp_device_run has it */
    int type;                         /* enum stp_type */
    int op;                           /* enum stp_op */
    unsigned root;
    bool in_place;
    bool graph; /* captured into a CUDA graph, and not launched one by one */
    int64_t n_wrong;    /* elements, of a checked one; -1: not checked; 1 also
                           where a text says no number */
    enum stp_bits bits; /* of what was checked, against AUTO out of place */
    unsigned n_ranks;
    unsigned n_nodes;
    unsigned iters; /* in this round */
    enum stp_source source;
    bool single_pass; /* the arms of this row's round did not run in turn, but
                         one after the other: drift between them is in the
                         numbers, and decides nothing unless it is trusted */
    struct stp_summary us;    /* of collectives back to back: the mean with the
                                 first launch and the last wait (sweep.h) */
    struct stp_workload work; /* what the collective is part of */
    double alone_us; /* of one layer's collectives with this arm, nothing beside
                        them, in this round; 0: not measured */
};

/* Bytes of names: eight hexadecimal digits, and sixteen. */
enum { STP_RUN_NAME = 9, STP_POLICY_HASH_NAME = 17 };

/* Where numbers of nodes are from, the better first. */
enum stp_nodes {
    STP_NODES_TOLD,
    STP_NODES_HOSTS, /* counted: NCCL has fewer where NVLink joins hosts */
    STP_NODES_UNKNOWN,
};

/* Measurements and where they are from. */
struct stp_dataset {
    enum stp_nodes nodes;   /* of the worst row */
    char doubt[160];        /* a figure of the text that contradicts the others
                               of it; "" if there is none */
    char said[480];         /* what of a text is no result; likewise */
    char machine[64];       /* name; "" if unknown */
    char gpu[64];           /* model; "" if unknown */
    char nccl[16];          /* version; "" if unknown */
    char backend[16];       /* "nccl" or "gloo"; "" if unknown */
    char tuner[48];         /* that AUTO asks; "" if none */
    char run[STP_RUN_NAME]; /* of `steptune tune`; "" if of none, or several */
    char policy_hash[STP_POLICY_HASH_NAME]; /* of the policy of plugin arms, as
                                               the plugin logs it; likewise */
    struct stp_measurement *rows;
    size_t n_rows;
    size_t capacity;
    size_t n_again;     /* rounds that ran again, as rounds.h says; not saved */
    size_t n_disturbed; /* likewise, that were disturbed, and stayed */
};

/* Whether a row, other than one of AUTO, knows whether its bits are AUTO's. */
bool stp_dataset_knows_bits(const struct stp_dataset *data);

/* "same", "other" or "-", and the value of such a word or -1. */
const char *stp_bits_name(int bits);
int stp_bits_from_name(const char *word, size_t len);

/* Appends a copy of '*row'.  STP_ERR_NOMEM leaves the data as they were. */
enum stp_status stp_dataset_add(struct stp_dataset *data,
                                const struct stp_measurement *row);

/* The same, or the end of the command (launch/take.h). */
void stp_dataset_take(struct stp_dataset *data,
                      const struct stp_measurement *row);

/* How many rows are of iterations of a workload, and not of collectives alone.
 */
size_t stp_dataset_n_iterations(const struct stp_dataset *data);

/* How many rows are of each source, and of single passes. */
struct stp_source_count {
    size_t n[STP_N_SOURCES];
    size_t n_single_pass;
};

/* The source of all that were counted; -1 if there are several, or none. */
int stp_source_of_all(const struct stp_source_count *count);

/* Adds all rows to the count, which begins with 0. */
void stp_count_sources(const struct stp_dataset *data,
                       struct stp_source_count *count);

/* Frees the rows, and leaves the data empty. */
void stp_dataset_free(struct stp_dataset *data);
