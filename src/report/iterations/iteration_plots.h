/*
 * iteration_plots.h - the plots of `steptune iterate`, drawn by gnuplot
 *
 *   iteration_times_histogram   iterations of each arm, of one setting
 *   iteration_times_ecdf        their empirical distribution functions
 *   gain_vs_size                each arm's gain with its interval, and what it
 *                               gains alone, of a mode and ratio with several
 *                               sizes
 *
 * With several settings the names have "_SETTING" behind them
 * (iteration_files.h), without the size for gains.
 */
#ifndef STP_ITERATION_PLOTS_H
#define STP_ITERATION_PLOTS_H

#include "report/charts/chart.h"
#include "report/iterations/iteration_files.h"

/* Draws all of them into the folder with 'gnuplot' (NULL: as it is found); see
 * stp_chart_save().  *n_ret is how many. */
enum stp_status
stp_iteration_plots_save(const struct stp_iteration_report *report,
                         const char *folder, enum stp_plot_format format,
                         const char *gnuplot, size_t *n_ret,
                         struct stp_error *err);

#endif /* STP_ITERATION_PLOTS_H */
