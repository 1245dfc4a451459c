/*
 * train_chart_page.h - what the charts of training have in common
 */
#ifndef STP_TRAIN_CHART_PAGE_H
#define STP_TRAIN_CHART_PAGE_H

#include "report/charts/chart.h"
#include "report/training/train_chart_cells.h"

extern const char stp_train_page_gp[];

/* A chart of panels that is being put together. */
struct stp_train_page {
    struct stp_train_view view;
    const char *title; /* before the heading; NULL: nothing */
    const char *heading;
    size_t max_panels, max_keys;
    struct stp_chart *chart;
    size_t n_panels, n_keys;
};

/* Begins the chart of a page that is set up to its maxima, with the template of
 * its kind.  The second line of its title names the mode and the micro-batches
 * unless they are compared, and ends with 'notes'.  STP_OK or STP_ERR_NOMEM. */
enum stp_status stp_train_page_begin(struct stp_train_page *page,
                                     const char *template, const char *columns,
                                     bool compares_modes, bool compares_ga,
                                     const char *notes, struct stp_error *err);

/* Adds a panel. */
void stp_train_page_panel(struct stp_train_page *page, size_t row,
                          size_t column, const char *title);

/* Adds an entry of the key: of a hue (-1: none), with points of gnuplot's type
 * (0: without). */
void stp_train_page_key(struct stp_train_page *page, const char *label, int hue,
                        int point);

/* Ends the settings: the panels' rows and columns, the title of the vertical
 * axes, and that of the horizontal ones. */
void stp_train_page_end(struct stp_train_page *page, size_t n_rows,
                        size_t n_columns, const char *y_title,
                        const char *x_title);

#endif /* STP_TRAIN_CHART_PAGE_H */
