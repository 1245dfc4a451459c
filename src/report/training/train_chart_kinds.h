/*
 * train_chart_kinds.h - charts of training with bars, and with lines
 */
#ifndef STP_TRAIN_CHART_KINDS_H
#define STP_TRAIN_CHART_KINDS_H

#include "report/training/train_chart_page.h"

/* The dimensions that a chart of bars compares. */
struct stp_train_bars {
    enum stp_train_dim row, column, group, series;
    size_t least;      /* series that a group must have to be drawn */
    bool several;      /* GPUs only */
    bool stacked;      /* by what an epoch's time is spent on; no series */
    bool throughput;   /* instead of time */
    const char *notes; /* explain the texts above bars, and their ends */
};

/* Whether the view has runs to compare. */
bool stp_train_has_bars(const struct stp_train_view *view,
                        const struct stp_train_bars *bars);
bool stp_train_has_scaling(const struct stp_train_view *view);
bool stp_train_has_loss(const struct stp_train_view *view);

/* Fill the page's chart, to be freed with stp_chart_free(); view, title and
 * heading are set.  STP_OK or STP_ERR_NOMEM. */
enum stp_status stp_train_make_bars(struct stp_train_page *page,
                                    const struct stp_train_bars *bars,
                                    struct stp_error *err);
enum stp_status stp_train_make_scaling(struct stp_train_page *page,
                                       struct stp_error *err);
enum stp_status stp_train_make_loss(struct stp_train_page *page,
                                    struct stp_error *err);

#endif /* STP_TRAIN_CHART_KINDS_H */
