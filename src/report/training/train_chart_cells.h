/*
 * train_chart_cells.h - which runs of training are compared, and their means
 */
#ifndef STP_TRAIN_CHART_CELLS_H
#define STP_TRAIN_CHART_CELLS_H

#include "report/training/train_results.h"

enum { STP_TRAIN_LEVELS = 16, STP_TRAIN_LABEL = 128, STP_TRAIN_TRAITS = 5 };

/* Properties by which runs are compared. */
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

/* The runs of a chart: alike in all but the dimensions. */
struct stp_train_view {
    const struct stp_train_runs *runs;
    const char *gpu;  /* NULL: any */
    const char *size; /* NULL: any */
    const struct stp_train_run *typical[STP_TRAIN_TRAITS];
    const char *mode; /* of several GPUs where modes are not compared */
    unsigned ga;      /* where they are not compared: the smallest */
};

/* Values of a dimension in order, each as a run that has it. */
struct stp_train_levels {
    const struct stp_train_run *like[STP_TRAIN_LEVELS];
    size_t n;
};

/* For each dimension a run with its value; NULL: any value, but of modes and
 * micro-batches those of the view.  STP_DIM_NONE is ignored. */
struct stp_train_where {
    const struct stp_train_run *like[STP_N_DIMS + 1];
};

/* Epochs of all runs of a combination of values, in seconds: means, and the 95
 * percent interval of the first one; low is high for one epoch. */
struct stp_train_cell {
    const struct stp_train_run *run; /* the first */
    size_t n;                        /* epochs */
    double mean, low, high;
    double comm, exposed;
};

/* Whether the ranks are processes on CPUs, according to the run's origin. */
bool stp_train_on_cpus(const struct stp_train_run *run);

/* The runs of one model of GPU and one size, or of all. */
struct stp_train_view stp_train_view_of(const struct stp_train_runs *runs,
                                        const char *gpu, const char *size);

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

#endif /* STP_TRAIN_CHART_CELLS_H */
