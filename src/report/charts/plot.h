/* plot.h - plots of curves over the size, drawn by gnuplot
 *
 * Bandwidth and latency plots have a curve per arm: AUTO and the arms that are
 * the fastest at most sizes.  The study compares transports and numbers of
 * processes by all-reduce under AUTO. */
#pragma once

#include <stdio.h>

#include "analyse/curves.h"
#include "report/charts/chart.h"

enum stp_plot_kind {
    STP_PLOT_BUSBW,           /* bus bandwidth against size, of a collective */
    STP_PLOT_LATENCY,         /* time against size, of a collective */
    STP_PLOT_STUDY_TIME,      /* time against size, of transports */
    STP_PLOT_STUDY_BANDWIDTH, /* bus bandwidth against size, of transports */
    STP_PLOT_STUDY_BARS,      /* time at about 100 MB, of transports */
    STP_N_PLOT_KINDS,
};

enum {
    STP_PLOT_CURVES = 8, /* in one plot, unless asked otherwise */
    STP_PLOT_MAX_CURVES = 32,
    STP_PLOT_NAME = 64, /* bytes of a file's name */
};

struct stp_plot {
    enum stp_plot_kind kind;
    int coll;          /* ncclFunc_t, of the first two kinds */
    unsigned n_curves; /* at most, of the first two kinds: 1 to
                          STP_PLOT_MAX_CURVES */
};

/* Whether the plot has a curve. */
bool stp_plot_has(const struct stp_curves *curves, const struct stp_plot *plot);

/* Whether curves of a collective under AUTO are of several files, transports or
 * numbers of processes, and need the study. */
bool stp_plot_is_study(const struct stp_curves *curves);

/* "allreduce_busbw_vs_size", and so on, without an ending. */
void stp_plot_name(const struct stp_plot *plot, char name[STP_PLOT_NAME]);

/* The chart of a plot that has something to be drawn, to be freed with
 * stp_chart_free(). */
void stp_plot_make(const struct stp_curves *curves, const struct stp_plot *plot,
                   struct stp_chart *chart_ret);

/* ---- texts of a study: collectives under AUTO, of several transports,
 * machines or numbers of processes ---- */

enum stp_study_text {
    STP_STUDY_RESULTS,  /* Markdown: a row per curve and size */
    STP_STUDY_CSV,      /* the same of all files in one CSV, with backend and
                           machine in each row */
    STP_STUDY_SUMMARY,  /* Markdown: a row per collective, transport, machine
                           and number of processes */
    STP_STUDY_ANALYSIS, /* 2 to 5 sentences a collective: the fastest transport,
                           how time grows with size and with processes, where
                           bandwidth saturates, and how noisy the rounds are */
    STP_N_STUDY_TEXTS,
};

/* The name of the text's file, and its ending: "analysis" and "txt". */
const char *stp_study_name(enum stp_study_text text, const char **ending_ret);

void stp_study_write(const struct stp_curves *curves, enum stp_study_text text,
                     FILE *fp);
