/*
 * best.h - times without NCCL's own choice, as the example tuner's
 * optimize_config.py takes them, into a policy of the fastest arms
 *
 * Nothing says that the fastest arm beats NCCL.  A rule reaches from halfway
 * (geometrically) to the neighbouring measured size on one side to halfway on
 * the other, and never beyond the sizes measured; neighbouring sizes with the
 * same arm become one rule.
 */
#ifndef STP_BEST_H
#define STP_BEST_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* What calls a rule is for; -1: any. */
struct stp_best_calls {
    int coll; /* ncclFunc_t */
    int n_nodes;
    int n_ranks;
    int n_pipe_ops;
    int reg_buff;
};

/* One arm at one size. */
struct stp_best_row {
    unsigned line; /* of its file */
    struct stp_best_calls calls;
    uint64_t n_bytes; /* as a tuner counts them */
    int algo;
    int proto;
    int n_channels; /* -1: NCCL's own count */
    double us;
};

struct stp_best_rows {
    struct stp_best_row *rows;
    size_t n_rows;
    size_t capacity;
    size_t n_impossible; /* rows of pairs that NCCL has no kernel for, which are
                            left out */
    struct stp_best_row impossible; /* the first of them */
};

/* The fastest arm of one size. */
struct stp_best_point {
    const struct stp_best_row *row;
    size_t n_arms; /* it is the fastest of */
};

struct stp_best_rule {
    uint64_t min_bytes;
    uint64_t max_bytes;
    const struct stp_best_point *points; /* ascending; of calls and arm alike */
    size_t n_points;
};

struct stp_best {
    struct stp_best_rule *rules; /* by collective, then those for any nodes,
                                    ranks and so on last: the first that matches
                                    wins */
    size_t n_rules;
    struct stp_best_point *points;
};

/* Appends a copy of '*row'.  STP_ERR_NOMEM leaves the rows as they were. */
enum stp_status stp_best_add(struct stp_best_rows *rows,
                             const struct stp_best_row *row);

/* STP_ERR_SYNTAX, with the line of the later one, if two rows are of the same
 * arm and size; or STP_ERR_NOMEM. */
enum stp_status stp_best_check(const struct stp_best_rows *rows,
                               struct stp_error *err);

void stp_best_rows_free(struct stp_best_rows *rows);

/* Derives.  Points into 'rows', which must live as long.  STP_ERR_NOMEM.  Free
 * with stp_best_free(). */
enum stp_status stp_best_derive(const struct stp_best_rows *rows,
                                struct stp_best *best_ret,
                                struct stp_error *err);

void stp_best_free(struct stp_best *best);

#endif /* STP_BEST_H */
