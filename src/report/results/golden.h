/* golden.h - a plugin's decisions as a file, and their changes since */
#pragma once

#include <stdio.h>

#include "analyse/explain/explain.h"

/* The ranges as CSV, after a comment on machine and sizes, in *text_ret, to be
 * freed with free().  A policy's line numbers are not in it: neighbours that
 * differ only by line are one range.
 * STP_ERR_NOMEM. */
enum stp_status stp_golden_text(const struct stp_explanation *explanation,
                                const char *machine, uint64_t max_bytes,
                                char **text_ret, struct stp_error *err);

struct stp_golden_line {
    char sign;     /* '-': expected and missing; '+': there instead */
    size_t number; /* of the line in its text, from 1 */
    const char *s; /* not terminated; in its text */
    size_t len;
};

/* How two texts differ, in the order of their lines; not at all if n is 0. */
struct stp_golden_change {
    struct stp_golden_line *lines;
    size_t n;
};

/* Compares two texts line by line, CRLF or LF.  STP_ERR_NOMEM; free with
 * stp_golden_change_free(), before the texts. */
enum stp_status stp_golden_compare(const char *expected, const char *got,
                                   struct stp_golden_change *change_ret,
                                   struct stp_error *err);
void stp_golden_change_free(struct stp_golden_change *change);

/* The first lines of a difference, as diff has them; or all as JSON, with
 * "same" if there are none.  STP_ERR_NOMEM. */
enum stp_status stp_print_golden_change(const struct stp_golden_change *change,
                                        const char *path, bool is_json,
                                        FILE *fp, struct stp_error *err);
