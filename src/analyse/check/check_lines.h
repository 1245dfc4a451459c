/*
 * check_lines.h - the lines of a policy that parses, with the place of each
 * field; only for check.c and check_fix.c
 */
#ifndef STP_CHECK_LINES_H
#define STP_CHECK_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/policy/policy_columns.h"
#include "core/text.h"

/* Where a walk through the text is, and its current line. */
struct stp_policy_lines {
    const char *next, *end;
    const struct stp_column *columns[STP_N_COLUMNS]; /* in the file's order */
    size_t n_columns;
    bool past_header;

    const char *line;
    size_t len;      /* without the line end */
    size_t rule_len; /* without the comment, either */
    unsigned number; /* from 1 */
    struct stp_field fields[STP_N_COLUMNS];
    size_t n_fields;
};

/* Begins before the first line of a text that stp_policy_parse() has read. */
void stp_policy_lines_begin(struct stp_policy_lines *lines, const char *csv,
                            size_t len);

/* Goes on to the next line; false at the end. */
bool stp_policy_lines_next(struct stp_policy_lines *lines);

/* The rule's field of that column, or NULL if the file leaves it out. */
const struct stp_field *
stp_policy_lines_field(const struct stp_policy_lines *lines,
                       const char *column);

#endif /* STP_CHECK_LINES_H */
