/* overlap.h - how much communication is hidden behind compute */
#pragma once

#include "device/span.h"

/* From 'begin' on, up to 'end', which is not before it. */
struct stp_interval {
    double begin;
    double end;
};

struct stp_overlap {
    double compute;       /* time during which something of it ran */
    double communication; /* likewise */
    double hidden;        /* of that, the time with compute beside it */
};

/* The lengths of the union of 'n_compute' intervals, of that of 'n_comm', and
 * of what both have in common.  Sorts both lists; any may overlap. */
struct stp_overlap stp_find_overlap(struct stp_interval *compute,
                                    size_t n_compute, struct stp_interval *comm,
                                    size_t n_comm);

/* The same of the spans that are in a range, so of a step, in microseconds. */
struct stp_overlap stp_overlap_of_spans(const struct stp_spans *spans);

/* hidden / communication; NaN without communication. */
double stp_overlap_share(const struct stp_overlap *overlap);
