/*
 * plot_journal.h - how a job learned, as plots drawn by gnuplot
 */
#ifndef STP_PLOT_JOURNAL_H
#define STP_PLOT_JOURNAL_H

#include <stdio.h>

#include "report/charts/chart.h"
#include "report/learning/learning.h"

enum stp_journal_plot_kind {
    STP_JOURNAL_REGRET, /* time lost against the best arm, over time */
    STP_JOURNAL_ARMS,   /* share of calls of each arm, over calls */
    STP_N_JOURNAL_PLOTS,
};

struct stp_journal_plot {
    const struct stp_journal_lines *lines;
    const struct stp_learning *learning; /* the sum of the lines */
    const char *title;                   /* goes before; NULL: nothing */
    const char *source;                  /* where the lines are from */
};

/* "journal_regret" or "journal_arms", without an ending.  Static storage. */
const char *stp_journal_plot_name(enum stp_journal_plot_kind kind);

/* Whether there are times to be drawn. */
bool stp_journal_plot_has(const struct stp_journal_plot *plot);

/* Makes the chart of a journal that has times, to be freed with
 * stp_chart_free().  STP_OK or STP_ERR_NOMEM. */
enum stp_status stp_journal_plot_make(const struct stp_journal_plot *plot,
                                      enum stp_journal_plot_kind kind,
                                      struct stp_chart *chart_ret,
                                      struct stp_error *err);

#endif /* STP_PLOT_JOURNAL_H */
