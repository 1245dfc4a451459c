/* nccl_text_row.h - the columns of nccl-tests' rows */
#pragma once

#include "bench/measurement.h"
#include "core/csv.h"

enum { STP_NCCL_WORDS = 64 };

/* One place of a row. */
struct stp_nccl_place {
    double us;                                /* 0: not measured */
    double min_us, median_us, p95_us, p99_us; /* 0: not said */
    double algbw, busbw;                      /* GB/s; -1: not said */
    double n_wrong;                           /* -1: not checked */
    double error; /* largest difference, until 2.12; -1: not checked */
};

/* A row, or as much of it as was read. */
struct stp_nccl_row {
    uint64_t n_bytes, count;      /* UINT64_MAX: not said */
    int type, op;                 /* -1: none; op -2: no such column */
    unsigned root;                /* UINT32_MAX: none */
    struct stp_field algo, proto; /* that ran, as RCCL's tests say; "" */
    unsigned n_channels;
    struct stp_nccl_place places[2]; /* out of place, in place */
    struct stp_field test;           /* of RCCL's tables; "" in text */
    unsigned n_procs, n_gpus;        /* likewise, GPUs of a process; 0 */
    bool in_place;                   /* likewise, the only place */
    bool is_ms;                      /* times have three digits of them */
};

/* Columns, in the order of the line that names them. */
struct stp_nccl_columns {
    const struct stp_csv_column *of[STP_NCCL_WORDS];
    bool in_place[STP_NCCL_WORDS];
    size_t n, least; /* fewest that tell a row: up to the type */
    size_t half;     /* of the first place and before it */
    bool has_op;     /* some is the redop */
    bool is_ms;      /* times are milliseconds */
};

/* Splits at blanks, commas, quotes, colours of a terminal and, unless NULL, a
 * launcher's prefix; returns how many words there are, up to STP_NCCL_WORDS. */
size_t stp_nccl_split(const char *line, size_t len,
                      const struct stp_field *prefix, struct stp_field *words);

/* Takes the words as names of columns, those of versions to come as columns to
 * skip; false, and *columns untouched, if none of them is a time.  Without
 * words they are the usual ones, of text whose line of them is missing. */
bool stp_nccl_columns_name(const struct stp_field *words, size_t n,
                           bool first_in_place,
                           struct stp_nccl_columns *columns);

/* Reads words into the columns from the one after *n_read on, as many as their
 * columns take, and returns how many; a number that other text stands against
 * is one, too, and the last. */
size_t stp_nccl_columns_take(const struct stp_nccl_columns *columns,
                             struct stp_nccl_row *row, size_t *n_read,
                             const struct stp_field *words, size_t n);

enum { STP_NCCL_ANY_RATIO = 100 };

/* The rows of a run so far.  Begin with 0, and STP_NCCL_ANY_RATIO for high. */
struct stp_nccl_figures {
    double low, high; /* between which busbw over algbw is */
    uint64_t n_parts; /* sizes over counts: 1, or the ranks; 0: not known */
    bool tells_ranks; /* old tests print busbw as algbw, and it does not */
    bool is_checked[2], is_timed[2]; /* places, of some rows */
};

/* Adds the place of the row that 'm' is of, whose coll may be -1 and n_ranks 0.
 * Writes into 'doubt', if it is "", a figure that contradicts the others. */
void stp_nccl_figures_add(struct stp_nccl_figures *figures,
                          const struct stp_nccl_row *row,
                          const struct stp_measurement *m, char *doubt,
                          size_t size);

/* Whether times and bandwidths of a row are of each other. */
bool stp_nccl_row_agrees(const struct stp_nccl_row *row);

/* The test whose rows these are, the last 'row', by redop, root, count and
 * bandwidths; -1 if it is none that is read, and -2 if nobody can tell. */
int stp_nccl_figures_test(const struct stp_nccl_figures *figures,
                          const struct stp_nccl_row *row, unsigned n_ranks);

/* The least and the most ranks that such bandwidths can be of. */
void stp_nccl_figures_ranks(const struct stp_nccl_figures *figures, int coll,
                            double *least_ret, double *most_ret);
