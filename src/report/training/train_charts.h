/* train_charts.h - results of the training benchmark as charts, by gnuplot
 *
 * Only runs that are alike are compared: with the batch, gradients, buckets,
 * learning rate and seed that most runs have.  A bar is the mean over the
 * epochs of all runs alike, with Student's 95 percent interval of the mean;
 * bars begin at 0. */
#pragma once

#include "report/charts/chart.h"
#include "report/training/train_results.h"

/* A chart of some runs, which own its words. */
struct stp_train_chart {
    int kind;         /* its number in train_charts.c, from 0 */
    const char *size; /* NULL: of all */
    const char *why;  /* it is left out; NULL: it is drawn.  Static storage */
};

enum { STP_TRAIN_CHARTS = 8 + 32 /* sizes */ };

struct stp_train_charts {
    struct stp_train_chart all[STP_TRAIN_CHARTS];
    size_t n;
    size_t n_runs_aside; /* in no chart, since they are not alike */
};

/* Finds which charts there are of the runs, and which are left out. */
struct stp_train_charts
stp_train_charts_find(const struct stp_train_runs *runs);

enum { STP_TRAIN_CHART_NAME = 192 };

/* "train_scaling", without an ending. */
void stp_train_chart_name(const struct stp_train_chart *chart,
                          char name[STP_TRAIN_CHART_NAME]);

/* Makes a chart that is not left out, to be freed with stp_chart_free(). */
void stp_train_chart_make(const struct stp_train_runs *runs,
                          const struct stp_train_chart *chart,
                          struct stp_chart *chart_ret);

/* Whether the file at 'path' begins as results of training do. */
bool stp_train_results_begin(const char *path);
