/*
 * nccl_text_parts.h - what the writer and the reader of nccl-tests' text share
 */
#ifndef STP_NCCL_TEXT_PARTS_H
#define STP_NCCL_TEXT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text.h"

/* Behind "# ", before the program's name; from version 2.17 on. */
#define STP_NCCL_TEXT_STARTING "Collective test starting: "

/* Behind "# ", before an arm's name; ours only. */
#define STP_NCCL_TEXT_ARM "Arm: "

/* What a row says of one place. */
struct stp_nccl_text_time {
    double us; /* 0: not measured */
    double min_us;
    double p99_us;
    int64_t n_wrong;
};

/* What a row says. */
struct stp_nccl_text_fields {
    uint64_t n_bytes;
    int type;
    int op;
    unsigned root;
    struct stp_nccl_text_time places[2]; /* out of place, in place */
    unsigned n_places;                   /* seen so far */
};

/* What a column's name says of its fields.  read() returns false if a field
 * means nothing; NULL: of no interest. */
struct stp_nccl_text_column {
    const char *name;
    bool (*read)(const struct stp_field *f, struct stp_nccl_text_fields *row);
    const char *expected;
};

/* Splits at blanks; returns how many words there are, at most 'max'. */
size_t stp_nccl_text_split(const char *line, size_t len,
                           struct stp_field *words, size_t max);

/* What a column of that name holds, or NULL. */
const struct stp_nccl_text_column *
stp_nccl_text_find_column(const struct stp_field *name);

/* Whether the row has nothing under redop.  Until 2.18 that was so where
 * nothing is reduced. */
bool stp_nccl_text_lacks_op(const struct stp_nccl_text_column *const *columns,
                            size_t n_columns, const struct stp_field *words,
                            size_t n);

#endif /* STP_NCCL_TEXT_PARTS_H */
