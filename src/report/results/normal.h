/* normal.h - whether times of NCCL's own choice are what one should expect
 *
 * Each size is held against the next smaller and the next larger one, and
 * against the same size of other measurements or of a machine. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "bench/measurement.h"

struct stp_normal {
    const struct stp_dataset *data;
    const struct stp_dataset *other; /* NULL: none */
    const char *other_name;          /* a file, or a machine */
};

/* Whether all times are of collectives with NCCL's own choice, so that nothing
 * can be compared with it. */
bool stp_is_auto_alone(const struct stp_dataset *data);

/* Prints a sentence and the sizes that fall out of line, or all sizes as JSON.
 * STP_ERR_NOMEM. */
enum stp_status stp_print_normal(const struct stp_normal *normal, bool is_json,
                                 FILE *fp, struct stp_error *err);
