/* train_points.h - the points of a chart of training: which runs it compares,
 * and their means
 *
 * A point has a row and a column, which make a panel, an x and a series: each
 * is the number of a level, a value of the property that is compared there. */
#pragma once

#include "report/training/train_results.h"

enum { STP_TRAIN_LEVELS = 32, STP_TRAIN_LABEL = 128, STP_TRAIN_TRAITS = 4 };

/* Properties by which runs are compared. */
enum stp_train_dim {
    STP_DIM_SIZE,
    STP_DIM_PRECISION,
    STP_DIM_GPUS,
    STP_DIM_GA, /* micro-batches of a step, and its samples */
    STP_DIM_MODE,
    STP_DIM_MODE_AND_GPUS,
    STP_DIM_MODEL, /* of GPU */
    STP_DIM_NONE,
};

/* The places of a point. */
enum stp_train_place {
    STP_AT_ROW,
    STP_AT_COLUMN,
    STP_AT_X,
    STP_AT_SERIES,
    STP_TRAIN_PLACES,
};

enum stp_train_value {
    STP_VALUE_TIME,       /* seconds of an epoch */
    STP_VALUE_PARTS,      /* the same, and what of it is communication */
    STP_VALUE_THROUGHPUT, /* samples a second */
    STP_VALUE_SPEED_UP,   /* over one GPU, of the same row, column, series */
    STP_VALUE_LOSS,       /* of the first run, with epochs as x, from 0 */
};

/* The points that a chart has. */
struct stp_train_points_of {
    enum stp_train_dim dims[STP_TRAIN_PLACES]; /* x is unused by losses */
    enum stp_train_value value;
    size_t least; /* series that an x must have to be drawn */
    bool several; /* GPUs only */
};

/* The runs that are compared: alike in all but the dimensions. */
struct stp_train_view {
    const struct stp_train_runs *runs;
    const char *size; /* NULL: any */
    const struct stp_train_run *typical[STP_TRAIN_TRAITS];
    const char *mode; /* of several GPUs where modes are not compared */
    const struct stp_train_run *step; /* like whose steps all are where these
                                         are not compared: of the fewest
                                         micro-batches; NULL: no runs */
};

/* Values of a dimension in order, each as a run that has it; one that is NULL
 * for STP_DIM_NONE. */
struct stp_train_levels {
    const struct stp_train_run *like[STP_TRAIN_LEVELS];
    size_t n;
};

/* Means over the epochs of all runs alike, and Student's 95 percent interval;
 * it is empty for one epoch. */
struct stp_train_point {
    const struct stp_train_run *run; /* the first; NULL: there is no point */
    size_t n;                        /* epochs */
    double value, low, high;
    double total, comm, exposed; /* seconds of an epoch; NaN: unknown */
};

struct stp_train_points {
    struct stp_train_levels levels[STP_TRAIN_PLACES];
    size_t n_x; /* levels of x, or epochs */
    struct stp_train_point *all;
    size_t n; /* that there are */
};

/* The runs of one size, or of all. */
struct stp_train_view stp_train_view_of(const struct stp_train_runs *runs,
                                        const char *size);

/* Whether the run is of the view. */
bool stp_train_in_view(const struct stp_train_view *view,
                       const struct stp_train_run *run);

/* The first STP_TRAIN_LEVELS. */
struct stp_train_levels stp_train_levels_of(const struct stp_train_view *view,
                                            enum stp_train_dim dim);

/* The number among the levels of that of a run. */
size_t stp_train_level_of(const struct stp_train_levels *levels,
                          enum stp_train_dim dim,
                          const struct stp_train_run *run);

/* "bf16", "large (250 M parameters)".  "" for STP_DIM_NONE. */
void stp_train_level_label(enum stp_train_dim dim,
                           const struct stp_train_run *like,
                           char text[STP_TRAIN_LABEL]);

/* Whether the ranks are processes on CPUs, according to the run's origin. */
bool stp_train_on_cpus(const struct stp_train_run *run);

/* Free with stp_train_points_free(). */
struct stp_train_points
stp_train_points_find(const struct stp_train_view *view,
                      const struct stp_train_points_of *what);

/* The point at this place; its run is NULL if there is none. */
struct stp_train_point *stp_train_point_at(const struct stp_train_points *p,
                                           size_t row, size_t column, size_t x,
                                           size_t series);

void stp_train_points_free(struct stp_train_points *points);
