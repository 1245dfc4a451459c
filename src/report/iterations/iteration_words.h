/* iteration_words.h - names of settings, sentences on them, and their tables */
#pragma once

#include <stdio.h>

#include "report/iterations/iteration_files.h"
#include "report/table.h"

enum { STP_ITERATION_TEXT = 320 };

/* Whether files are named after their setting. */
bool stp_iteration_several(const struct stp_iteration_report *report);

/* "overlap: allreduce of 8 MiB, 8 layers of gemm, ratio 1"; 'size' is NULL for
 * no size. */
void stp_iteration_what(const struct stp_iteration_setting *setting,
                        const char *size, char text[STP_ITERATION_TEXT]);

/* "h200x2, NVIDIA H200, NCCL 2.28.9, measured", of 'n' settings. */
void stp_iteration_origin(const struct stp_dataset *data,
                          const struct stp_iteration_setting *settings,
                          size_t n, char text[STP_ITERATION_TEXT]);

/* The worst source among a setting's arms. */
enum stp_source
stp_iteration_source(const struct stp_iteration_setting *setting);

/* A place in the rows and their samples; all 0 is the beginning. */
struct stp_iteration_cursor {
    size_t row;
    size_t sample;
};

/* The times of the arm's next round in the setting, in microseconds, *n_ret of
 * them; NULL after the last. */
const double *stp_iteration_next(const struct stp_iterations *iterations,
                                 const struct stp_iteration_setting *setting,
                                 const struct stp_iteration_arm *arm,
                                 struct stp_iteration_cursor *at,
                                 size_t *n_ret);

/* Writes the arms of all settings, or the regimes, in Markdown. */
void stp_iteration_write(const struct stp_iteration_report *report,
                         bool of_regimes, FILE *fp);
