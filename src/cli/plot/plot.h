/*
 * plot.h - what the files of `steptune plot` share
 */
#ifndef STP_CLI_PLOT_H
#define STP_CLI_PLOT_H

#include <stdbool.h>

#include "report/charts/gnuplot.h"

/* Charts of the training benchmark. */
struct stp_plot_training {
    const char *command;
    const char *gnuplot; /* NULL: as it is found */
    char **files;
    int n_files;
    const char *folder; /* made if need be; NULL: the working directory */
    bool formats[STP_N_PLOT_FORMATS];
    const char *title; /* NULL: none */
    bool json;
};

/* Reads the files and draws; the exit status. */
int stp_plot_training(const struct stp_plot_training *what);

#endif /* STP_CLI_PLOT_H */
