/*
 * train_chart_parts.h - what the files that make charts of training share
 */
#ifndef STP_TRAIN_CHART_PARTS_H
#define STP_TRAIN_CHART_PARTS_H

#include "report/training/train_charts.h"

enum { STP_TRAIN_LEVELS = 16, STP_TRAIN_LABEL = 128, STP_TRAIN_TRAITS = 5 };

/* ---- cells (train_chart_cells.c) ---- */

/* In what runs that are compared may differ. */
enum stp_train_dim {
    STP_DIM_SIZE,
    STP_DIM_PRECISION,
    STP_DIM_GPUS,
    STP_DIM_GA,
    STP_DIM_MODE,
    STP_DIM_MODEL, /* of GPU */
    STP_N_DIMS,
    STP_DIM_NONE = STP_N_DIMS,
};

/* The runs of a chart, alike in all else. */
struct stp_train_view {
    const struct stp_train_runs *runs;
    const char *gpu;  /* NULL: any */
    const char *size; /* likewise */
    const struct stp_train_run *typical[STP_TRAIN_TRAITS];
    const char *mode; /* that of several GPUs if a chart has one alone */
    unsigned ga;      /* likewise: the smallest */
};

/* Values of a dimension in order, each as a run that has it. */
struct stp_train_levels {
    const struct stp_train_run *like[STP_TRAIN_LEVELS];
    size_t n;
};

/* Of each dimension a run with the value; NULL: any value, but of modes and
 * micro-batches those of the view. */
struct stp_train_where {
    const struct stp_train_run *like[STP_N_DIMS];
};

/* Epochs of all runs there, in seconds: means, and the interval of the first;
 * low is high for one epoch. */
struct stp_train_cell {
    const struct stp_train_run *run; /* the first */
    size_t n;                        /* epochs */
    double mean, low, high;
    double comm, exposed;
};

/* Whether its ranks are processes on CPUs, going by who made it. */
bool stp_train_on_cpus(const struct stp_train_run *run);

/* Of the runs of one model of GPU and one size, or all. */
struct stp_train_view stp_train_view_of(const struct stp_train_runs *runs,
                                        const char *gpu, const char *size);

/* Whether the run is of the view. */
bool stp_train_in_view(const struct stp_train_view *view,
                       const struct stp_train_run *run);

/* At most STP_TRAIN_LEVELS. */
struct stp_train_levels stp_train_levels_of(const struct stp_train_view *view,
                                            enum stp_train_dim dim);

/* "bf16", "large (250 M parameters)".  "" for STP_DIM_NONE. */
void stp_train_level_label(enum stp_train_dim dim,
                           const struct stp_train_run *like,
                           char text[STP_TRAIN_LABEL]);

/* False if there is no run. */
bool stp_train_find_cell(const struct stp_train_view *view,
                         const struct stp_train_where *where,
                         struct stp_train_cell *cell_ret);

/* ---- pages (train_chart_page.c) ---- */

/* An entry of the key. */
struct stp_train_key {
    char label[STP_TRAIN_LABEL];
    const char *colour; /* of its box or line; NULL: it has none */
    int point;          /* gnuplot's type; 0: none */
};

/* A picture with panels in rows and columns, and one key for all. */
struct stp_train_page {
    const struct stp_train_view *view;
    const char *title; /* goes before; NULL: nothing */
    const char *what;
    const char *how;  /* before batch and samples in the second line; or "" */
    const char *bars; /* behind them */
    const char *y;    /* what all panels have upwards, and its unit */
    size_t n_rows, n_columns;
    const struct stp_train_key *keys;
    size_t n_keys;
    bool lines; /* the key has lines, not boxes */
    enum stp_plot_format format;
};

/* Writes all but the panels. */
void stp_train_page_begin(const struct stp_train_page *page, FILE *fp);

/* Places the panel, and writes its title. */
void stp_train_page_panel(const struct stp_train_page *page, size_t row,
                          size_t column, const char *title, FILE *fp);

/* "bucketed, GA 1, ": what the view has one of, unless it is compared. */
void stp_train_say_how(const struct stp_train_view *view, bool has_modes,
                       bool has_ga, char text[STP_TRAIN_LABEL]);

/* In pixels. */
double stp_train_panel_width(const struct stp_train_page *page);

/* ---- kinds ---- */

/* What a chart of bars compares. */
struct stp_train_bars {
    enum stp_train_dim row, column, group, series;
    size_t least;      /* series of a group, or it is not drawn */
    bool several;      /* GPUs only */
    bool stacked;      /* what an epoch's time is made of; no series */
    bool throughput;   /* instead of time */
    const char *above; /* what stands above bars, and what their ends mean */
};

/* Whether there is something to be drawn. */
bool stp_train_has_bars(const struct stp_train_view *view,
                        const struct stp_train_bars *bars);
bool stp_train_has_scaling(const struct stp_train_view *view);
bool stp_train_has_loss(const struct stp_train_view *view);

/* What all of them are told. */
struct stp_train_drawing {
    struct stp_train_view view;
    const char *title; /* NULL: none */
    const char *what;
    enum stp_plot_format format;
};

void stp_train_write_bars(const struct stp_train_drawing *drawing,
                          const struct stp_train_bars *bars, FILE *fp);
void stp_train_write_scaling(const struct stp_train_drawing *drawing, FILE *fp);
void stp_train_write_loss(const struct stp_train_drawing *drawing, FILE *fp);

#endif /* STP_TRAIN_CHART_PARTS_H */
