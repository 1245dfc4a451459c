/*
 * iteration_times_plots.h - scripts of the plots of one setting
 */
#ifndef STP_ITERATION_TIMES_PLOTS_H
#define STP_ITERATION_TIMES_PLOTS_H

#include "report/charts/gnuplot.h"
#include "report/iterations/iteration_words.h"

/* Rules and a title, of 'n' settings; 'what' is in front of it, 'size' as
 * stp_iteration_what() has it. */
void stp_iteration_write_frame(const struct stp_iteration_report *report,
                               const struct stp_iteration_setting *settings,
                               size_t n, const char *what, const char *size,
                               FILE *fp);

/* Scripts of a setting's plots, behind stp_gnuplot_begin(). */
enum stp_status
stp_iteration_write_histogram(const struct stp_iteration_report *report,
                              const struct stp_iteration_setting *setting,
                              FILE *fp, struct stp_error *err);
enum stp_status
stp_iteration_write_ecdf(const struct stp_iteration_report *report,
                         const struct stp_iteration_setting *setting, FILE *fp,
                         struct stp_error *err);

#endif /* STP_ITERATION_TIMES_PLOTS_H */
