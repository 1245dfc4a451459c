/*
 * iteration_parts.h - what the files, tables and plots of iterations share
 */
#ifndef STP_ITERATION_PARTS_H
#define STP_ITERATION_PARTS_H

#include "report/iterations/iteration_files.h"

enum { STP_ITERATION_TEXT = 320 };

/* ---- words ---- */

/* Whether files are named after their setting. */
bool stp_iteration_several(const struct stp_iteration_report *report);

/* The setting's name without the size: "overlap_ratio1_layers8". */
void stp_iteration_group_name(const struct stp_iteration_setting *setting,
                              char name[STP_SETTING_NAME]);

/* "overlap: allreduce of 8 MiB, 8 layers of gemm, ratio 1"; 'size' is NULL for
 * no size. */
void stp_iteration_what(const struct stp_iteration_setting *setting,
                        const char *size, char text[STP_ITERATION_TEXT]);

/* "h200x2, NVIDIA H200, NCCL 2.28.9, measured", of 'n' settings. */
void stp_iteration_origin(const struct stp_dataset *data,
                          const struct stp_iteration_setting *settings,
                          size_t n, char text[STP_ITERATION_TEXT]);

/* Which arm has the shortest iterations, and what the rounds resolve: up to two
 * sentences with 'between' between them. */
void stp_iteration_verdict(const struct stp_iteration_setting *setting,
                           const char *between, char text[STP_ITERATION_TEXT]);

/* How many of the settings are regimes, and what that means: one sentence. */
void stp_iteration_regime_text(const struct stp_iteration_report *report,
                               char text[STP_ITERATION_TEXT]);

/* How good the worst of a setting's times are. */
enum stp_source
stp_iteration_source(const struct stp_iteration_setting *setting);

/* Whether there is an interval: of AUTO and of one round there is none. */
bool stp_iteration_interval(const struct stp_iteration_arm *arm,
                            const struct stp_gain *gain);

/* ---- numbers ---- */

/* What is a column of CSV and a key of JSON. */
struct stp_iteration_number {
    const char *name;
    double value; /* NAN: there is none */
    int decimals; /* -1: as many digits as it takes */
    bool of_setting;
};

enum { STP_ITERATION_NUMBERS = 24 };

/* All return how many.  What a setting is; what was measured of an arm, and of
 * its setting; what a regime comes to. */
size_t
stp_iteration_place(const struct stp_iteration_setting *setting,
                    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS]);
size_t stp_iteration_results(
    const struct stp_iteration_setting *setting,
    const struct stp_iteration_arm *arm,
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS]);
size_t stp_iteration_regime_results(
    const struct stp_regime *regime,
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS]);

/* ---- samples ---- */

/* A place in the rows and their samples; all 0 is the beginning. */
struct stp_iteration_cursor {
    size_t row;
    size_t sample;
};

/* The times of the arm's next round in the setting, in microseconds, *n_ret of
 * them; NULL behind the last. */
const double *stp_iteration_next(const struct stp_iterations *iterations,
                                 const struct stp_iteration_setting *setting,
                                 const struct stp_iteration_arm *arm,
                                 struct stp_iteration_cursor *at,
                                 size_t *n_ret);

/* ---- files and parts of them ---- */

enum stp_status
stp_iteration_write_summary_csv(const struct stp_iteration_report *report,
                                FILE *fp, struct stp_error *err);
enum stp_status
stp_iteration_write_regimes_csv(const struct stp_iteration_report *report,
                                FILE *fp, struct stp_error *err);
enum stp_status
stp_iteration_write_summary_md(const struct stp_iteration_report *report,
                               FILE *fp, struct stp_error *err);
enum stp_status
stp_iteration_write_regimes_md(const struct stp_iteration_report *report,
                               FILE *fp, struct stp_error *err);

#endif /* STP_ITERATION_PARTS_H */
