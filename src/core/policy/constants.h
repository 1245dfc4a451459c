/*
 * constants.h - the numbers of NCCL's own cost model, as a file sets them
 *
 * NCCL 2.28 and later hand a tuner what their model of times is made of before
 * they compute it.  Other numbers make NCCL choose otherwise, at every size,
 * without a rule.
 *
 * steptune-policy(5), src/cli/man/steptune-policy.5, defines the format: CSV
 * (core/csv.h) with the columns constant, row, column and value.  A constant
 * that the file does not name keeps NCCL's value; none may be named twice.
 */
#ifndef STP_CONSTANTS_H
#define STP_CONSTANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "nccl_tuner_abi.h"

enum {
    STP_N_CONSTANTS = sizeof(ncclTunerConstants_v7_t) / sizeof(double),
    STP_MAX_CONSTANTS_FILE = 1 << 20, /* bytes */
};

/*
 * The ranges of values: us, and GB/s.  NCCL rules a pair out whose bandwidth is
 * 0, and takes no pair whose time is above 3.6e9 us.  Within these ranges no
 * pair of a message up to 1 TiB on 100,000 ranks comes near either, so that
 * constants change NCCL's preferences, and never what it can choose.
 */
#define STP_MAX_LATENCY   10000.0
#define STP_MIN_BANDWIDTH 1.0
#define STP_MAX_BANDWIDTH 100000.0

/* Of each constant, by its place among NCCL's doubles. */
struct stp_constants {
    bool is_set[STP_N_CONSTANTS];
    double value[STP_N_CONSTANTS];
};

/* The words for one of them.  Static storage. */
struct stp_constant_name {
    const char *constant;
    const char *row;
    const char *column;
};

/*
 * Reads the 'len' bytes at 'text'.  STP_ERR_SYNTAX with line and column, or
 * STP_ERR_NOMEM; *constants_ret is untouched then.
 */
enum stp_status stp_constants_parse(const char *text, size_t len,
                                    struct stp_constants *constants_ret,
                                    struct stp_error *err);

/* Like stp_constants_parse(), but reads the file at 'path'; STP_ERR_IO or
 * STP_ERR_LIMIT, without a line, if it cannot be read. */
enum stp_status stp_constants_load(const char *path,
                                   struct stp_constants *constants_ret,
                                   struct stp_error *err);

/* The words for constant 'i', below STP_N_CONSTANTS. */
struct stp_constant_name stp_constant_words(size_t i);

/* Whether constant 'i' is a latency, which may be 0; else a bandwidth. */
bool stp_constant_is_latency(size_t i);

/* The number of constants that are set. */
size_t stp_constants_size(const struct stp_constants *constants);

/* Copies the constants that the file sets into '*nccl', and no others. */
void stp_constants_apply(const struct stp_constants *constants,
                         ncclTunerConstants_v7_t *nccl);

/* A hash of the constants and their values, independent of the order and the
 * spelling in the file.  Never 0. */
uint64_t stp_constants_hash(const struct stp_constants *constants);

#endif /* STP_CONSTANTS_H */
