/* wrong.h - arms that computed wrong results, which decide nothing
 *
 * An arm with a wrong element at a size is out at that size: in every round,
 * place, type and workload of the data.  Where NCCL's own choice has one,
 * nothing right is there to compare with, and all arms are out. */
#pragma once

#include "bench/measurement.h"

/* Fills 'rows', which has room for all rows of the data, with those that are
 * not out, in any order; and with those of NCCL's own choice in any case if
 * 'keeps_auto', so that no rule reaches across a size where it was wrong.
 * Returns how many they are. */
size_t stp_right_rows(const struct stp_dataset *data, bool keeps_auto,
                      const struct stp_measurement **rows);

/* Orders pointers to rows by collective, communicator, size and arm. */
int stp_order_checks(const void *a, const void *b);

/* Joins to 'bits' what another row says of a row's arm at its size: it is OTHER
 * if any row denies that it computes NCCL's own bits, or that NCCL's own choice
 * does, else SAME if any says so.  Of fsdp it is the reduce-scatter's: its
 * all-gather gains nothing by itself. */
enum stp_bits stp_join_bits(enum stp_bits bits, const struct stp_measurement *m,
                            const struct stp_measurement *other);

/* Gives a row the wrong elements that its arm has at its size in the data, and
 * whether it computes NCCL's own bits there; of fsdp OTHER unless known. */
void stp_take_wrong(const struct stp_dataset *data, struct stp_measurement *m);

/* One arm of one collective on one kind of communicator. */
struct stp_wrong {
    const struct stp_measurement *like; /* collective, communicator and arm */
    const char *tuner;                  /* of the data, which AUTO asks */
    size_t n_results;                   /* with wrong elements */
    int64_t most;                       /* wrong elements of one of them */
    struct stp_range bytes;             /* the sizes lie within */
};

/* Finds the arm with wrong elements that follows *wrong, the first one if its
 * members are 0.  False, and *wrong untouched, if there is none. */
bool stp_next_wrong(const struct stp_dataset *data, struct stp_wrong *wrong);

/* Whether an arm of that kind has wrong elements. */
bool stp_kind_is_wrong(const struct stp_dataset *data, enum stp_arm_kind kind);
