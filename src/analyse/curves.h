/* curves.h - measurements of several files into curves over the size */
#pragma once

#include "bench/measurement.h"

/* One size. */
struct stp_curve_point {
    uint64_t n_bytes;
    struct stp_summary us; /* the rounds' means and medians, averaged; the rest
                              of the iterations of all rounds, NaN where there
                              are too few, or the times are modelled */
    double noise; /* standard deviation of the rounds' means over their mean */
    unsigned n_rounds;
    uint64_t n_iterations;  /* of all rounds */
    int64_t n_wrong;        /* the most of any round; -1: never checked */
    enum stp_source source; /* the worst of all rounds */
    bool single_pass;       /* of some round */
};

/* One arm of one collective of one kind of data, on one communicator. */
struct stp_curve {
    const struct stp_dataset *data;
    const char *file;            /* that 'data' is from */
    struct stp_measurement like; /* all but round, size and times hold for the
                                    curve; the source is the worst of all */
    const struct stp_curve_point *points; /* by size, at least one */
    size_t n_points;
};

struct stp_curves {
    struct stp_curve *curves; /* by stp_order_kinds(), data, stp_order_arms() */
    size_t n_curves;
    struct stp_curve_point *points; /* of all curves */
};

/* Files hold no single times: those of a round are taken to lie evenly between
 * its least, its median and its percentiles, and as far on beyond p99.
 *
 * Makes the curves of what is right (wrong.h) in 'n_sets' datasets, the i-th
 * from the file names[i]; both must live as long.  Free with
 * stp_curves_free(). */
struct stp_curves stp_curves_make(const struct stp_dataset *sets,
                                  const char *const *names, size_t n_sets);

/* The point of that size, or NULL. */
const struct stp_curve_point *stp_curve_at(const struct stp_curve *curve,
                                           uint64_t n_bytes);

void stp_curves_free(struct stp_curves *curves);
