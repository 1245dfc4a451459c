/*
 * train_chart_parts.h - what charts of training are made of: which runs are
 * compared and their means, the page, and its kinds
 */
#ifndef STP_TRAIN_CHART_PARTS_H
#define STP_TRAIN_CHART_PARTS_H

#include "report/charts/chart.h"
#include "report/training/train_results.h"

enum { STP_TRAIN_LEVELS = 16, STP_TRAIN_LABEL = 128, STP_TRAIN_TRAITS = 4 };

/* Properties by which runs are compared. */
enum stp_train_dim {
    STP_DIM_SIZE,
    STP_DIM_PRECISION,
    STP_DIM_GPUS,
    STP_DIM_GA, /* micro-batches of a step, and its samples */
    STP_DIM_MODE,
    STP_DIM_MODEL, /* of GPU */
    STP_N_DIMS,
    STP_DIM_NONE = STP_N_DIMS,
};

/* The runs of a chart: alike in all but the dimensions. */
struct stp_train_view {
    const struct stp_train_runs *runs;
    const char *gpu;  /* NULL: any */
    const char *size; /* NULL: any */
    const struct stp_train_run *typical[STP_TRAIN_TRAITS];
    const char *mode; /* of several GPUs where modes are not compared */
    const struct stp_train_run *step; /* like whose steps all are where these
                                         are not compared: of the fewest
                                         micro-batches; NULL: no runs */
};

/* Values of a dimension in order, each as a run that has it. */
struct stp_train_levels {
    const struct stp_train_run *like[STP_TRAIN_LEVELS];
    size_t n;
};

/* For each dimension a run with its value; NULL: any value, but of modes and
 * steps those of the view.  STP_DIM_NONE is ignored. */
struct stp_train_where {
    const struct stp_train_run *like[STP_N_DIMS + 1];
};

/* Epochs of all runs of a combination of values, in seconds: means, and the 95
 * percent interval of the first one; low is high for one epoch. */
struct stp_train_cell {
    const struct stp_train_run *run; /* the first */
    size_t n;                        /* epochs */
    double mean, low, high;
    double comm, exposed; /* NaN: unknown */
};

/* Whether the ranks are processes on CPUs, according to the run's origin. */
bool stp_train_on_cpus(const struct stp_train_run *run);

/* The runs of one model of GPU and one size, or of all. */
struct stp_train_view stp_train_view_of(const struct stp_train_runs *runs,
                                        const char *gpu, const char *size);

/* Whether the run's steps have as many micro-batches and samples. */
bool stp_train_same_step(const struct stp_train_run *a,
                         const struct stp_train_run *b);

/* Whether the run is of the view. */
bool stp_train_in_view(const struct stp_train_view *view,
                       const struct stp_train_run *run);

/* At most STP_TRAIN_LEVELS; one that is NULL for STP_DIM_NONE. */
struct stp_train_levels stp_train_levels_of(const struct stp_train_view *view,
                                            enum stp_train_dim dim);

/* Removes a level. */
void stp_train_level_drop(struct stp_train_levels *levels, size_t i);

/* "bf16", "large (250 M parameters)".  "" for STP_DIM_NONE. */
void stp_train_level_label(enum stp_train_dim dim,
                           const struct stp_train_run *like,
                           char text[STP_TRAIN_LABEL]);

/* False if there is no run. */
bool stp_train_find_cell(const struct stp_train_view *view,
                         const struct stp_train_where *where,
                         struct stp_train_cell *cell_ret);

/* ---- the page ---- */

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

/* ---- kinds ---- */

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

#endif /* STP_TRAIN_CHART_PARTS_H */
