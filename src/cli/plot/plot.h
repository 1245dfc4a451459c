/*
 * plot.h - what the files of `steptune plot` share
 */
#ifndef STP_CLI_PLOT_H
#define STP_CLI_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "report/charts/gnuplot.h"
#include "report/training/train_charts.h"

/* Functions that return an int complain and return the exit status. */
struct stp_plot_job {
    const char *command;
    const char *gnuplot; /* NULL: as it is found */
    char **files;
    int n_files;
    const char *folder; /* made if need be; NULL: the working directory */
    bool formats[STP_N_PLOT_FORMATS];
    const char *title; /* NULL: none */
    unsigned n_curves;
    bool json; /* instead of the paths of the files written */
};

/* Draws a plot into the file 'path', as stp_gnuplot_run(). */
typedef enum stp_status stp_plot_draw_fn(const struct stp_plot_job *job,
                                         const void *plot,
                                         enum stp_plot_format format,
                                         const char *path,
                                         struct stp_error *err);

/* Draws a plot in each format of the job. */
int stp_plot_draw(const struct stp_plot_job *job, const char *name,
                  stp_plot_draw_fn *save, const void *plot);

typedef enum stp_status stp_plot_text_fn(const void *data, FILE *fp,
                                         struct stp_error *err);

/* Writes the text file NAME.ENDING. */
int stp_plot_save_text(const struct stp_plot_job *job, const char *name,
                       const char *ending, stp_plot_text_fn *write,
                       const void *data);

int stp_plot_make_folder(const struct stp_plot_job *job);

/* Draws the results of the training benchmark in the job's files. */
int stp_plot_training(const struct stp_plot_job *job);

#endif /* STP_CLI_PLOT_H */
