/* curve_sets.c - which curves a chart or a table has */
#include "report/charts/curve_sets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_tuner_abi.h"

/* ---- arms ---- */

/* A curve and how fast its arm is. */
struct ranked {
    const struct stp_curve *curve;
    size_t n_fastest; /* sizes at which no other arm was faster */
    double behind;    /* mean of log(time / the fastest time) */
};

/* Whether the curves differ in their arm alone, so that one can be faster. */
static bool curves_comparable(const struct stp_curve *a,
                              const struct stp_curve *b)
{
    return a->like.coll == b->like.coll && a->data == b->data &&
           a->like.n_ranks == b->like.n_ranks &&
           a->like.n_nodes == b->like.n_nodes && a->like.type == b->like.type &&
           a->like.op == b->like.op && a->like.root == b->like.root &&
           a->like.in_place == b->like.in_place;
}

static double curves_fastest_us(const struct stp_curves *all,
                                const struct stp_curve *like, uint64_t n_bytes)
{
    double best = INFINITY;

    for (size_t i = 0; i < all->n_curves; i++)
        if (curves_comparable(&all->curves[i], like)) {
            const struct stp_curve_point *p =
                stp_curve_at(&all->curves[i], n_bytes);

            if (p != NULL)
                best = fmin(best, p->us.mean);
        }
    return best;
}

static struct ranked curve_rank(const struct stp_curves *all,
                                const struct stp_curve *c)
{
    struct ranked r = {.curve = c};

    for (size_t i = 0; i < c->n_points; i++) {
        double us = c->points[i].us.mean;
        double best = curves_fastest_us(all, c, c->points[i].n_bytes);

        r.n_fastest += us <= best;
        r.behind += log(us / best) / (double)c->n_points;
    }
    return r;
}

/* AUTO first, then the fastest arms, then in the order of the files. */
static int curve_order_ranked(const void *pa, const void *pb)
{
    const struct ranked *a = pa;
    const struct ranked *b = pb;
    bool a_auto = a->curve->like.arm.kind == STP_ARM_AUTO;
    bool b_auto = b->curve->like.arm.kind == STP_ARM_AUTO;

    if (a_auto != b_auto)
        return a_auto ? -1 : 1;
    if (!a_auto && a->n_fastest != b->n_fastest)
        return a->n_fastest > b->n_fastest ? -1 : 1;
    if (!a_auto && a->behind != b->behind)
        return a->behind < b->behind ? -1 : 1;
    return (a->curve > b->curve) - (a->curve < b->curve);
}

enum stp_status stp_pick_curves(const struct stp_curves *curves, int coll,
                                size_t n_max, struct stp_labelled_set *set_ret,
                                struct stp_error *err)
{
    struct ranked *ranked = calloc(curves->n_curves + 1, sizeof(*ranked));
    struct stp_labelled_set set = {
        .all = calloc(curves->n_curves + 1, sizeof(*set.all))};
    size_t n = 0;

    if (ranked == NULL || set.all == NULL) {
        free(ranked);
        free(set.all);
        return stp_nomem(err);
    }
    for (size_t i = 0; i < curves->n_curves; i++)
        if (curves->curves[i].like.coll == coll)
            ranked[n++] = curve_rank(curves, &curves->curves[i]);
    qsort(ranked, n, sizeof(*ranked), curve_order_ranked);
    for (; set.n < n && set.n < n_max; set.n++)
        set.all[set.n].curve = ranked[set.n].curve;
    free(ranked);
    stp_label_arms(&set);
    *set_ret = set;
    return STP_OK;
}

/* ---- the study ---- */

bool stp_in_study(const struct stp_curves *curves, const struct stp_curve *c)
{
    if (c->like.coll != ncclFuncAllReduce || c->like.arm.kind != STP_ARM_AUTO)
        return false;
    for (size_t i = 0; c->like.in_place && i < curves->n_curves; i++) {
        struct stp_curve outside = curves->curves[i];

        if (outside.like.in_place || outside.like.arm.kind != STP_ARM_AUTO)
            continue;
        outside.like.in_place = true;
        if (curves_comparable(&outside, c))
            return false;
    }
    return true;
}

static int curve_order_study(const void *pa, const void *pb)
{
    const struct stp_labelled *a = pa;
    const struct stp_labelled *b = pb;

    if (a->curve->data != b->curve->data)
        return a->curve->data < b->curve->data ? -1 : 1;
    return (a->curve > b->curve) - (a->curve < b->curve);
}

enum stp_status stp_pick_study(const struct stp_curves *curves,
                               struct stp_labelled_set *set_ret,
                               struct stp_error *err)
{
    struct stp_labelled_set set = {
        .all = calloc(curves->n_curves + 1, sizeof(*set.all))};

    if (set.all == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < curves->n_curves; i++)
        if (stp_in_study(curves, &curves->curves[i]))
            set.all[set.n++].curve = &curves->curves[i];
    qsort(set.all, set.n, sizeof(*set.all), curve_order_study);
    stp_label_series(&set);
    *set_ret = set;
    return STP_OK;
}

void stp_labelled_free(struct stp_labelled_set *set)
{
    free(set->all);
    *set = (struct stp_labelled_set){0};
}

const struct stp_curve_point *stp_study_100mb(const struct stp_curve *curve)
{
    const struct stp_curve_point *best = NULL;
    double best_off = log(2);

    for (size_t i = 0; i < curve->n_points; i++) {
        double n = (double)curve->points[i].n_bytes;
        double off = fmin(fabs(log(n / 1e8)), fabs(log(n / 104857600.0)));

        if (off < best_off) {
            best_off = off;
            best = &curve->points[i];
        }
    }
    return best;
}

bool stp_is_new_series(const struct stp_labelled_set *set, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(set->all[k].series, set->all[i].series) == 0)
            return false;
    return true;
}
