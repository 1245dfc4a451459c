#include "analyse/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"

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

static size_t curves_count_rows(const struct stp_dataset *sets, size_t n_sets)
{
    size_t n = 0;

    for (size_t i = 0; i < n_sets; i++)
        n += sets[i].n_rows;
    return n;
}

static struct entry *curves_sort_entries(const struct stp_dataset *sets,
                                         size_t n_sets, size_t n)
{
    struct entry *entries = calloc(n + 1, sizeof(*entries));
    size_t at = 0;

    if (entries == NULL)
        return NULL;
    for (size_t i = 0; i < n_sets; i++)
        for (size_t r = 0; r < sets[i].n_rows; r++)
            entries[at++] = (struct entry){&sets[i].rows[r], i};
    qsort(entries, n, sizeof(*entries), curves_order_entries);
    return entries;
}

static void curves_add_times(struct stp_summary *sum,
                             const struct stp_summary *us, double share)
{
    sum->mean += us->mean * share;
    sum->median += us->median * share;
    sum->p95 += us->p95 * share;
    sum->p99 += us->p99 * share;
    sum->min = fmin(sum->min, us->min);
}

static struct stp_curve_point curves_average_rounds(const struct entry *e,
                                                    size_t n, double *scratch)
{
    struct stp_curve_point p = {.n_bytes = e->m->n_bytes,
                                .n_rounds = (unsigned)n,
                                .n_wrong = -1,
                                .source = STP_SOURCE_MEASURED};

    p.us.min = INFINITY;
    for (size_t i = 0; i < n; i++) {
        curves_add_times(&p.us, &e[i].m->us, 1 / (double)n);
        scratch[i] = e[i].m->us.mean;
        p.source = stp_source_worst(p.source, e[i].m->source);
        p.single_pass |= e[i].m->single_pass;
        if (e[i].m->n_wrong > p.n_wrong)
            p.n_wrong = e[i].m->n_wrong;
    }
    p.noise = stp_stddev(scratch, n) / p.us.mean;
    return p;
}

/* Makes a curve of the entries, all of one, its points into 'points'. */
static struct stp_curve curves_make_one(const struct entry *e, size_t n,
                                        struct stp_curve_point *points,
                                        double *scratch)
{
    struct stp_curve c = {.like = *e->m, .points = points};

    for (size_t i = 0; i < n;) {
        size_t end = i + 1;

        while (end < n && curves_order_sizes(&e[i], &e[end]) == 0)
            end++;
        points[c.n_points++] = curves_average_rounds(&e[i], end - i, scratch);
        i = end;
    }
    for (size_t i = 0; i < c.n_points; i++)
        c.like.source = stp_source_worst(c.like.source, points[i].source);
    return c;
}

static void curves_make_all(const struct stp_dataset *sets,
                            const char *const *names, const struct entry *e,
                            size_t n, struct stp_curves *out, double *scratch)
{
    struct stp_curve_point *points = out->points;

    for (size_t i = 0; i < n;) {
        struct stp_curve *c = &out->curves[out->n_curves++];
        size_t end = i + 1;

        while (end < n && curves_order(&e[i], &e[end]) == 0)
            end++;
        *c = curves_make_one(&e[i], end - i, points, scratch);
        c->data = &sets[e[i].set];
        c->file = names[e[i].set];
        points += c->n_points;
        i = end;
    }
}

enum stp_status stp_curves_make(const struct stp_dataset *sets,
                                const char *const *names, size_t n_sets,
                                struct stp_curves *curves_ret,
                                struct stp_error *err)
{
    size_t n = curves_count_rows(sets, n_sets);
    struct entry *entries = curves_sort_entries(sets, n_sets, n);
    double *scratch = calloc(n + 1, sizeof(*scratch));
    struct stp_curves out = {.curves = calloc(n + 1, sizeof(*out.curves)),
                             .points = calloc(n + 1, sizeof(*out.points))};
    enum stp_status status = STP_OK;

    if (entries == NULL || scratch == NULL || out.curves == NULL ||
        out.points == NULL)
        status = stp_nomem(err);
    else
        curves_make_all(sets, names, entries, n, &out, scratch);
    free(entries);
    free(scratch);
    if (status == STP_OK)
        *curves_ret = out;
    else
        stp_curves_free(&out);
    return status;
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
