/* plot_pick.c - which curves a plot has */
#include <math.h>
#include <stdlib.h>

#include "nccl_tuner_abi.h"
#include "report/charts/plot_parts.h"

/* ---- arms ---- */

/* A curve and how well its arm did. */
struct ranked {
    const struct stp_curve *curve;
    size_t n_fastest; /* sizes at which no other was faster */
    double behind;    /* mean of log(time / the fastest time) */
};

/* Whether they are of the same thing, so that one can be the faster. */
static bool comparable(const struct stp_curve *a, const struct stp_curve *b)
{
    return a->like.coll == b->like.coll && a->data == b->data &&
           a->like.n_ranks == b->like.n_ranks &&
           a->like.n_nodes == b->like.n_nodes && a->like.type == b->like.type &&
           a->like.op == b->like.op && a->like.root == b->like.root &&
           a->like.in_place == b->like.in_place;
}

static double fastest_us(const struct stp_curves *all,
                         const struct stp_curve *like, uint64_t n_bytes)
{
    double best = INFINITY;

    for (size_t i = 0; i < all->n_curves; i++)
        if (comparable(&all->curves[i], like)) {
            const struct stp_curve_point *p =
                stp_curve_at(&all->curves[i], n_bytes);

            if (p != NULL)
                best = fmin(best, p->us.mean);
        }
    return best;
}

static struct ranked rank(const struct stp_curves *all,
                          const struct stp_curve *c)
{
    struct ranked r = {.curve = c};

    for (size_t i = 0; i < c->n_points; i++) {
        double us = c->points[i].us.mean;
        double best = fastest_us(all, c, c->points[i].n_bytes);

        r.n_fastest += us <= best;
        r.behind += log(us / best) / (double)c->n_points;
    }
    return r;
}

/* AUTO first, then by how well they did, then as they stand. */
static int order_ranked(const void *pa, const void *pb)
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

static enum stp_status no_memory(struct stp_error *err)
{
    return stp_nomem(err);
}

enum stp_status stp_pick_curves(const struct stp_curves *curves,
                                const struct stp_plot *plot,
                                struct stp_labelled_set *set_ret,
                                struct stp_error *err)
{
    struct ranked *ranked = calloc(curves->n_curves + 1, sizeof(*ranked));
    struct stp_labelled_set set = {
        .all = calloc(curves->n_curves + 1, sizeof(*set.all))};
    size_t n = 0;

    if (ranked == NULL || set.all == NULL) {
        free(ranked);
        free(set.all);
        return no_memory(err);
    }
    for (size_t i = 0; i < curves->n_curves; i++)
        if (curves->curves[i].like.coll == plot->coll)
            ranked[n++] = rank(curves, &curves->curves[i]);
    qsort(ranked, n, sizeof(*ranked), order_ranked);
    for (; set.n < n && set.n < plot->n_curves; set.n++)
        set.all[set.n].curve = ranked[set.n].curve;
    free(ranked);
    stp_label_arms(&set);
    *set_ret = set;
    return STP_OK;
}

/* ---- the study ---- */

static bool in_study(const struct stp_curves *curves, const struct stp_curve *c)
{
    if (c->like.coll != ncclFuncAllReduce || c->like.arm.kind != STP_ARM_AUTO)
        return false;
    for (size_t i = 0; c->like.in_place && i < curves->n_curves; i++) {
        struct stp_curve outside = curves->curves[i];

        if (outside.like.in_place || outside.like.arm.kind != STP_ARM_AUTO)
            continue;
        outside.like.in_place = true;
        if (comparable(&outside, c))
            return false;
    }
    return true;
}

bool stp_plot_is_study(const struct stp_curves *curves)
{
    const struct stp_curve *first = NULL;

    for (size_t i = 0; i < curves->n_curves; i++) {
        const struct stp_curve *c = &curves->curves[i];

        if (!in_study(curves, c))
            continue;
        if (first == NULL)
            first = c;
        if (c->data != first->data || c->like.n_ranks != first->like.n_ranks)
            return true;
    }
    return false;
}

static int order_study(const void *pa, const void *pb)
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
        return no_memory(err);
    for (size_t i = 0; i < curves->n_curves; i++)
        if (in_study(curves, &curves->curves[i]))
            set.all[set.n++].curve = &curves->curves[i];
    qsort(set.all, set.n, sizeof(*set.all), order_study);
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

bool stp_plot_has(const struct stp_curves *curves, const struct stp_plot *plot)
{
    for (size_t i = 0; i < curves->n_curves; i++) {
        const struct stp_curve *c = &curves->curves[i];

        if (plot->kind == STP_PLOT_BUSBW || plot->kind == STP_PLOT_LATENCY) {
            if (c->like.coll == plot->coll)
                return true;
        } else if (in_study(curves, c) && (plot->kind != STP_PLOT_STUDY_BARS ||
                                           stp_study_100mb(c) != NULL)) {
            return true;
        }
    }
    return false;
}
