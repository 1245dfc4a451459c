#include "analyse/overlap.h"

#include <math.h>
#include <stdlib.h>

#include "core/qsort.h"
#include "launch/take.h"

static int overlap_order_intervals(const void *left, const void *right)
{
    const struct stp_interval *a = left;
    const struct stp_interval *b = right;

    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Sorts, and joins those that touch; returns how many are left. */
static size_t overlap_join_intervals(struct stp_interval *all, size_t n)
{
    size_t last = 0;

    if (n == 0)
        return 0;
    STP_SORT(all, n, overlap_order_intervals);
    for (size_t i = 1; i < n; i++)
        if (all[i].begin <= all[last].end)
            all[last].end = fmax(all[last].end, all[i].end);
        else
            all[++last] = all[i];
    return last + 1;
}

static double overlap_sum_lengths(const struct stp_interval *all, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += all[i].end - all[i].begin;
    return sum;
}

struct stp_overlap stp_find_overlap(struct stp_interval *compute,
                                    size_t n_compute, struct stp_interval *comm,
                                    size_t n_comm)
{
    const size_t n = overlap_join_intervals(compute, n_compute);
    const size_t m = overlap_join_intervals(comm, n_comm);
    struct stp_overlap o = {.compute = overlap_sum_lengths(compute, n),
                            .communication = overlap_sum_lengths(comm, m)};

    for (size_t i = 0, j = 0; i < n && j < m;) {
        o.hidden += fmax(0, fmin(compute[i].end, comm[j].end) -
                                fmax(compute[i].begin, comm[j].begin));
        if (compute[i].end < comm[j].end)
            i++;
        else
            j++;
    }
    return o;
}

struct stp_overlap stp_overlap_of_spans(const struct stp_spans *spans)
{
    struct stp_interval *all = stp_take(2 * spans->n, sizeof(*all));
    struct stp_interval *comm = all + spans->n;
    size_t n_compute = 0;
    size_t n_comm = 0;
    struct stp_overlap overlap;

    for (size_t i = 0; i < spans->n; i++) {
        const struct stp_span *s = &spans->all[i];
        const struct stp_interval interval = {s->begin_us, s->end_us};

        if (s->range.name == NULL)
            continue;
        if (s->kind == STP_SPAN_COMPUTE)
            all[n_compute++] = interval;
        if (s->kind == STP_SPAN_COMMUNICATION)
            comm[n_comm++] = interval;
    }
    overlap = stp_find_overlap(all, n_compute, comm, n_comm);
    free(all);
    return overlap;
}

double stp_overlap_share(const struct stp_overlap *overlap)
{
    return overlap->communication > 0 ? overlap->hidden / overlap->communication
                                      : (double)NAN;
}
