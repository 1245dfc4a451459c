/* constants_sizes.c - what each choice is worth at each size */
#include <math.h>
#include <stdlib.h>

#include "analyse/constants/constants_parts.h"
#include "analyse/derive.h"
#include "bench/sizes.h"

enum { SLOWER_WEIGHT = 10 };

/* ---- one size ---- */

/* Pairs with NCCL's own channels: constants do not choose those. */
static bool is_choice(const struct stp_arm *arm)
{
    return arm->kind == STP_ARM_FORCED && arm->algo != STP_ANY &&
           arm->proto != STP_ANY && arm->n_channels == 0;
}

static bool is_evidence(const struct stp_comparison *c, bool trust_passes)
{
    if (c->source == STP_SOURCE_SINGLE_PASS)
        return trust_passes && c->gain.n_pairs >= STP_DERIVE_PASSES;
    return c->source <= STP_SOURCE_INTERPOLATED;
}

static void sum_up(struct stp_const_size *s)
{
    s->best = INFINITY;
    s->worst = -INFINITY;
    for (int i = 0; i < STP_CONST_PAIRS; i++)
        if (!isnan(s->us[i])) {
            s->best = fmin(s->best, s->us[i]);
            s->worst = fmax(s->worst, s->us[i]);
        }
}

static size_t count(const struct stp_const_size *s)
{
    size_t n = 0;

    for (int i = 0; i < STP_CONST_PAIRS; i++)
        n += !isnan(s->us[i]);
    return n;
}

/* Each pair by its gain over the AUTO of its own rounds. */
static void take_times(const struct stp_point *p, bool trust_passes,
                       struct stp_const_size *s)
{
    s->auto_us = log(p->auto_us);
    for (int i = 0; i < STP_CONST_PAIRS; i++)
        s->us[i] = NAN;
    for (size_t i = 0; i < p->n_arms; i++) {
        const struct stp_comparison *c = &p->arms[i];
        int pair = c->arm.algo * NCCL_NUM_PROTOCOLS + c->arm.proto;

        if (!is_choice(&c->arm) || !is_evidence(c, trust_passes) ||
            !stp_arm_ran(&c->arm, c->ran_algo, c->ran_proto))
            continue;
        s->us[pair] = s->auto_us - log(c->gain.gain);
        s->is_slower[pair] = c->gain.high < 1;
        s->is_faster[pair] = c->gain.low > 1;
    }
    if (s->auto_pair >= 0) {
        s->us[s->auto_pair] = s->auto_us;
        s->is_slower[s->auto_pair] = false;
        s->is_faster[s->auto_pair] = false;
    }
    sum_up(s);
}

static enum stp_status ask_auto(struct stp_const_model *model,
                                const struct stp_point *p,
                                struct stp_const_size *s, struct stp_error *err)
{
    int algo = p->auto_algo;
    int proto = p->auto_proto;
    enum stp_status status = STP_OK;

    if (algo < 0 || proto < 0)
        status =
            stp_const_model_ask(model, &s->question, &algo, &proto, NULL, err);
    s->auto_pair = algo * NCCL_NUM_PROTOCOLS + proto;
    return status;
}

double stp_const_lost(const struct stp_const_size *s, int pair)
{
    if (isnan(s->us[pair]))
        return s->worst - s->best + log(2);
    return s->us[pair] - s->best;
}

double stp_const_regret(const struct stp_const_size *s, int pair)
{
    double lost = stp_const_lost(s, pair);

    if (isnan(s->us[pair]))
        return SLOWER_WEIGHT * lost;
    if (s->is_slower[pair])
        lost += 1 + SLOWER_WEIGHT * (s->us[pair] - s->auto_us);
    return lost;
}

/* ---- all of them ---- */

static enum stp_status check(const struct stp_point *p,
                             const struct stp_const_model *model,
                             struct stp_error *err)
{
    if (p->work.mode != STP_MODE_ALONE)
        return stp_fail(err, STP_ERR_RANGE,
                        "these are times of iterations, expected those of "
                        "collectives alone, which NCCL's model predicts");
    if (p->n_ranks != stp_const_model_ranks(model) ||
        p->n_nodes != stp_const_model_nodes(model))
        return stp_fail(err, STP_ERR_RANGE,
                        "measured on %u ranks of %u nodes, expected %u of %u "
                        "as the machine has",
                        p->n_ranks, p->n_nodes, stp_const_model_ranks(model),
                        stp_const_model_nodes(model));
    return STP_OK;
}

/* Halfway in logarithms, with times that grow by the byte; what is known at
 * both ends is known there. */
static double time_between(double a_us, double b_us, double share)
{
    return log(exp(a_us) + share * (exp(b_us) - exp(a_us)));
}

static void add_between(struct stp_const_sizes *all,
                        const struct stp_const_size *a,
                        const struct stp_const_size *b)
{
    struct stp_const_size *s = &all->sizes[all->n];
    uint64_t half = stp_size_between(a->question.n_bytes, b->question.n_bytes);
    double share = (double)(half - a->question.n_bytes) /
                   (double)(b->question.n_bytes - a->question.n_bytes);

    *s = *a;
    s->weight = .5;
    s->is_inner = false;
    s->question.n_bytes = half;
    s->auto_us = time_between(a->auto_us, b->auto_us, share);
    for (int i = 0; i < STP_CONST_PAIRS; i++) {
        s->us[i] = time_between(a->us[i], b->us[i], share); /* or NAN */
        s->is_slower[i] = false;
    }
    sum_up(s);
    if (count(s) >= 2 && half > a->question.n_bytes)
        all->n++;
}

/* Appends point 'i', and before it the one between it and '*before'. */
static enum stp_status add(const struct stp_comparisons *comparisons, size_t i,
                           const struct stp_constants_terms *terms,
                           struct stp_const_model *model, size_t *before,
                           struct stp_const_sizes *all, struct stp_error *err)
{
    const struct stp_point *p = &comparisons->points[i];
    struct stp_const_size s = {
        .question = {p->coll, p->n_bytes, p->type, p->op},
        .point = i,
        .weight = 1};
    enum stp_status status = check(p, model, err);

    if (status == STP_OK)
        status = ask_auto(model, p, &s, err);
    if (status != STP_OK)
        return status;
    take_times(p, terms->trust_passes, &s);
    if (count(&s) < 2)
        return STP_OK;
    if (*before < all->n &&
        stp_point_alike(&comparisons->points[all->sizes[*before].point], p)) {
        struct stp_const_size a = all->sizes[*before];

        s.is_inner = true; /* until it turns out to be the last */
        add_between(all, &a, &s);
    } else if (*before < all->n) {
        all->sizes[*before].is_inner = false;
    }
    *before = all->n;
    all->sizes[all->n++] = s;
    return STP_OK;
}

enum stp_status stp_const_sizes_make(const struct stp_comparisons *comparisons,
                                     const struct stp_constants_terms *terms,
                                     struct stp_const_model *model,
                                     uint64_t without,
                                     struct stp_const_sizes *sizes_ret,
                                     struct stp_error *err)
{
    struct stp_const_sizes all = {0};
    size_t before = 0;
    enum stp_status status = STP_OK;

    all.sizes = calloc(2 * comparisons->n_points + 1, sizeof(*all.sizes));
    if (all.sizes == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < comparisons->n_points && status == STP_OK; i++)
        if (comparisons->points[i].n_bytes != without)
            status = add(comparisons, i, terms, model, &before, &all, err);
    if (before < all.n)
        all.sizes[before].is_inner = false;
    if (status == STP_OK && all.n == 0)
        status = stp_fail(err, STP_ERR_RANGE,
                          "no size at which two algorithms or protocols with "
                          "NCCL's own channels were measured in interleaved "
                          "rounds, expected `steptune sweep --arms all`");
    if (status == STP_OK)
        *sizes_ret = all;
    else
        free(all.sizes);
    return status;
}
