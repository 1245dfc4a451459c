/* iteration_files.h - the files of `steptune iterate` in one folder
 *
 *   iteration_times_ARM.txt   milliseconds, an iteration a line, as measured;
 *                             of several settings one a setting and arm,
 *                             iteration_times_SETTING_ARM.txt
 *   rounds.csv                a row an arm and round (measurements_csv.h), for
 *                             `steptune derive`
 *   summary.md, summary.json  a row an arm and setting
 *   regimes.md                if they were looked for, which summary.json has
 *   *.png or *.svg            plots
 *
 * ARM is the arm's name with '-' for '/', SETTING such as
 * "overlap_8M_ratio1_layers8". */
#pragma once

#include <stdio.h>

#include "analyse/iterations.h"
#include "report/charts/chart.h"

struct cJSON;

/* The results that the files hold. */
struct stp_iteration_report {
    const char *made_by; /* the first line of what has comments */
    const struct stp_iterations *iterations;
    const struct stp_iteration_summary *summary;
    bool several; /* there will be several settings: files are named so from the
                     first on */
    const struct stp_regime *regimes;
    size_t n_regimes;
    bool looked_for_regimes;
    bool tables_only; /* no files of times */
    double min_gain;  /* of regimes */
};

/* Makes the folder, with those above it, or takes it over: STP_ERR_IO if it
 * cannot be written into, or holds files of an earlier run, unless 'replace',
 * which removes them and nothing else. */
enum stp_status stp_iteration_folder(const char *path, bool replace,
                                     struct stp_error *err);

/* Writes all files but the plots, each whole or not at all.  May be called
 * again during a run: files whose text is the same are not written again. */
enum stp_status
stp_iteration_files_write(const struct stp_iteration_report *report,
                          const char *folder, struct stp_error *err);

/* Draws for each setting iteration_times_histogram, the iterations of each arm,
 * and for each mode and ratio with several sizes gain_vs_size, each arm's gain
 * with its interval and its gain alone. With several settings the names have
 * "_SETTING" behind them, without the size for gains.
 *
 * The folder gets all of them, drawn with 'gnuplot' (NULL: as it is found); see
 * stp_chart_save(). */
enum stp_status
stp_iteration_plots_save(const struct stp_iteration_report *report,
                         const char *folder, enum stp_plot_format format,
                         const char *gnuplot, struct stp_error *err);

/* "overlap_8M_ratio1_layers8", or without the size; without a ratio
 * "overlap_8M_gemm4096x64x512_ layers8"; with the compute and the collective
 * where they are not a GEMM and the usual ones of the mode:
 * "sequential_training_allgather_8M_...".  Not the data: one run has the same
 * in all settings. */
enum { STP_SETTING_NAME = 96 };
void stp_iteration_setting_name(const struct stp_iteration_setting *setting,
                                bool has_size, char name[STP_SETTING_NAME]);

/* Print for people a table of each setting with its arms, and the verdict on
 * regimes: a sentence, and a row for each regime with the largest gains. */
void stp_print_iterations(const struct stp_iteration_summary *summary,
                          FILE *fp);
void stp_print_regimes(const struct stp_iteration_report *report, FILE *fp);

/* Add rows of settings with their arms, and those of regimes, to an object. */
void stp_put_iterations(const struct stp_iteration_summary *summary,
                        struct cJSON *object);
void stp_put_regimes(const struct stp_regime *regimes, size_t n,
                     struct cJSON *object);

/* All of it as one object. */
void stp_print_iterations_json(const struct stp_iteration_report *report,
                               FILE *fp);

/* ---- names of settings, and sentences on them ---- */

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
