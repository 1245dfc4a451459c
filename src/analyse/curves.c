#include "analyse/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "analyse/wrong.h"
#include "launch/take.h"

enum { MAX_SAMPLES = 100 }; /* that stand for a round of more iterations */

/* A row and where it is from. */
struct entry {
    const struct stp_measurement *m;
    size_t set;
};

static int curves_order(const struct entry *a, const struct entry *b)
{
    STP_RETURN_ORDER(stp_order_kinds(a->m, b->m));
    STP_RETURN_ORDER(STP_ORDER(a->set, b->set));
    return stp_order_arms(a->m, b->m);
}

static int curves_order_sizes(const struct entry *a, const struct entry *b)
{
    STP_RETURN_ORDER(curves_order(a, b));
    return STP_ORDER(a->m->n_bytes, b->m->n_bytes);
}

static int curves_order_entries(const void *pa, const void *pb)
{
    const struct entry *a = pa;
    const struct entry *b = pb;

    STP_RETURN_ORDER(curves_order_sizes(a, b));
    return STP_ORDER(a->m, b->m);
}

/* The time that a share 'at' of a round's iterations takes at most. */
static double curves_get_quantile(const struct stp_summary *us, double at)
{
    static const double shares[] = {0, 0.5, 0.95, 0.99, 1};
    const double p99 = us->p99 > 0 ? us->p99 : us->p95;
    const double times[] = {us->min, us->median, us->p95, p99,
                            p99 + (p99 - us->p95) / 4};
    int i = 1;

    while (at > shares[i])
        i++;
    return times[i - 1] + (times[i] - times[i - 1]) * (at - shares[i - 1]) /
                              (shares[i] - shares[i - 1]);
}

static struct stp_curve_point curves_pool_rounds(const struct entry *e,
                                                 size_t n, double *scratch)
{
    struct stp_curve_point p = {.n_bytes = e->m->n_bytes,
                                .n_rounds = (unsigned)n,
                                .n_wrong = -1,
                                .source = STP_SOURCE_MEASURED};
    bool knows_p95 = true, knows_p99 = true;
    struct stp_summary all = e->m->us;
    size_t n_samples = 0;

    p.us.min = INFINITY;
    for (size_t i = 0; i < n; i++) {
        const struct stp_summary *us = &e[i].m->us;

        p.us.mean += us->mean / (double)n;
        p.us.median += us->median / (double)n;
        p.us.min = fmin(p.us.min, us->min);
        p.n_iterations += e[i].m->iters;
        knows_p95 &= e[i].m->iters == 1 || (us->p95 > 0 && us->min > 0);
        knows_p99 &= e[i].m->iters == 1 || us->p99 > 0;
        scratch[i] = us->mean;
        p.source = stp_source_worst(p.source, e[i].m->source);
        p.single_pass |= e[i].m->single_pass;
        if (e[i].m->n_wrong > p.n_wrong)
            p.n_wrong = e[i].m->n_wrong;
    }
    p.noise = stp_stddev(scratch, n) / p.us.mean;
    for (size_t i = 0; i < n && knows_p95; i++) {
        const unsigned last =
            (e[i].m->iters < MAX_SAMPLES ? e[i].m->iters : MAX_SAMPLES) - 1;

        for (unsigned k = 0; k <= last; k++)
            scratch[n_samples++] =
                last == 0 ? e[i].m->us.median
                          : curves_get_quantile(&e[i].m->us, (double)k / last);
    }
    if (n_samples > 0 && n > 1)
        stp_summarise(scratch, n_samples, &all);
    p.us.p95 = knows_p95 ? all.p95 : (double)NAN;
    p.us.p99 = knows_p95 && knows_p99 ? all.p99 : (double)NAN;
    stp_summary_limit(&p.us,
                      p.source == STP_SOURCE_MODELLED ? 0 : p.n_iterations);
    return p;
}

struct stp_curves stp_curves_make(const struct stp_dataset *sets,
                                  const char *const *names, size_t n_sets)
{
    struct stp_curves out = {0};
    struct stp_curve_point *point;
    const struct stp_measurement **rows;
    struct entry *entries;
    double *scratch;
    size_t n = 0, at = 0;

    for (size_t i = 0; i < n_sets; i++)
        n += sets[i].n_rows;
    STP_TAKE(entries, n);
    STP_TAKE(scratch, n * MAX_SAMPLES);
    STP_TAKE(rows, n);
    STP_TAKE(out.curves, n);
    STP_TAKE(out.points, n);
    for (size_t i = 0; i < n_sets; i++) {
        const size_t n_right = stp_right_rows(&sets[i], false, rows);

        for (size_t r = 0; r < n_right; r++)
            entries[at++] = (struct entry){rows[r], i};
    }
    point = out.points;
    n = at;
    STP_SORT(entries, n, curves_order_entries);
    for (size_t i = 0, end; i < n; i = end) {
        const struct entry *e = &entries[i];
        struct stp_curve *c;

        for (end = i + 1; end < n && curves_order_sizes(e, &entries[end]) == 0;)
            end++;
        if (i == 0 || curves_order(e - 1, e) != 0)
            out.curves[out.n_curves++] =
                (struct stp_curve){.like = *e->m,
                                   .points = point,
                                   .data = &sets[e->set],
                                   .file = names[e->set]};
        c = &out.curves[out.n_curves - 1];
        *point = curves_pool_rounds(e, end - i, scratch);
        c->like.source = stp_source_worst(c->like.source, point->source);
        c->n_points++;
        point++;
    }
    free(entries);
    free(scratch);
    free(rows);
    return out;
}

const struct stp_curve_point *stp_curve_at(const struct stp_curve *curve,
                                           uint64_t n_bytes)
{
    for (size_t i = 0; i < curve->n_points; i++)
        if (curve->points[i].n_bytes == n_bytes)
            return &curve->points[i];
    return NULL;
}

void stp_curves_free(struct stp_curves *curves)
{
    free(curves->curves);
    free(curves->points);
    memset(curves, 0, sizeof(*curves));
}
