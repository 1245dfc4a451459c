#include "analyse/constants/constants.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/constants/constants_model.h"
#include "analyse/derive.h"
#include "bench/sizes.h"
#include "core/rng.h"

/* ---- sizes ---- */

enum { N_PAIRS = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS };

/* Times at one size; a pair is algorithm * NCCL_NUM_PROTOCOLS + protocol. */
struct size {
    struct stp_const_question question;
    size_t point;   /* of the comparisons; between sizes: of the smaller one */
    double weight;  /* 1, or less between sizes */
    int auto_pair;  /* what NCCL chose; -1: nobody knows */
    double auto_us; /* in logarithms, as the next ones */
    double us[N_PAIRS];      /* NAN: not measured */
    bool is_slower[N_PAIRS]; /* than NCCL's, beyond the interval */
    bool is_faster[N_PAIRS]; /* likewise */
    double best, worst;      /* of us */
    bool is_inner; /* there is a smaller and a larger one of its kind */
};

struct sizes {
    struct size *sizes;
    size_t n;
};

enum { SLOWER_WEIGHT = 10 };

/* ---- one size ---- */

/* Pairs with NCCL's own channels: constants do not choose those. */
static bool size_is_choice(const struct stp_arm *arm)
{
    return stp_arm_is_pair(arm) && arm->n_channels == 0;
}

static void size_sum_up(struct size *s)
{
    s->best = INFINITY;
    s->worst = -INFINITY;
    for (int i = 0; i < N_PAIRS; i++)
        if (!isnan(s->us[i])) {
            s->best = fmin(s->best, s->us[i]);
            s->worst = fmax(s->worst, s->us[i]);
        }
}

static size_t size_count_pairs(const struct size *s)
{
    size_t n = 0;

    for (int i = 0; i < N_PAIRS; i++)
        n += !isnan(s->us[i]);
    return n;
}

/* Each pair by its gain over the AUTO of its own rounds. */
static void size_take_times(const struct stp_point *p, bool trust_passes,
                            struct size *s)
{
    s->auto_us = log(p->auto_us);
    for (int i = 0; i < N_PAIRS; i++)
        s->us[i] = NAN;
    for (size_t i = 0; i < p->n_arms; i++) {
        const struct stp_comparison *c = &p->arms[i];
        int pair = c->arm.algo * NCCL_NUM_PROTOCOLS + c->arm.proto;

        if (!size_is_choice(&c->arm) || !stp_is_evidence(c, trust_passes) ||
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
    size_sum_up(s);
}

static int size_find_auto(struct stp_const_model *model,
                          const struct stp_point *p, const struct size *s)
{
    if (p->auto_algo >= 0 && p->auto_proto >= 0)
        return p->auto_algo * NCCL_NUM_PROTOCOLS + p->auto_proto;
    return stp_const_model_ask(model, &s->question, NULL);
}

/* The logarithm of a pair's time over the fastest's; a pair that nobody
 * measured counts as twice the slowest. */
static double size_get_loss(const struct size *s, int pair)
{
    if (isnan(s->us[pair]))
        return s->worst - s->best + log(2);
    return s->us[pair] - s->best;
}

/* The cost of choosing a pair at a size: its loss, and penalties. */
static double size_get_regret(const struct size *s, int pair)
{
    double lost = size_get_loss(s, pair);

    if (isnan(s->us[pair]))
        return SLOWER_WEIGHT * lost;
    if (s->is_slower[pair])
        lost += 1 + SLOWER_WEIGHT * (s->us[pair] - s->auto_us);
    return lost;
}

/* ---- all of them ---- */

static enum stp_status sizes_check_point(const struct stp_point *p,
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
static double size_time_between(double a_us, double b_us, double share)
{
    return log(exp(a_us) + share * (exp(b_us) - exp(a_us)));
}

static void sizes_add_between(struct sizes *all, const struct size *a,
                              const struct size *b)
{
    struct size *s = &all->sizes[all->n];
    uint64_t half = stp_size_between(a->question.n_bytes, b->question.n_bytes);
    double share = (double)(half - a->question.n_bytes) /
                   (double)(b->question.n_bytes - a->question.n_bytes);

    *s = *a;
    s->weight = .5;
    s->is_inner = false;
    s->question.n_bytes = half;
    s->auto_us = size_time_between(a->auto_us, b->auto_us, share);
    for (int i = 0; i < N_PAIRS; i++) {
        s->us[i] = size_time_between(a->us[i], b->us[i], share); /* or NAN */
        s->is_slower[i] = false;
    }
    size_sum_up(s);
    if (size_count_pairs(s) >= 2 && half > a->question.n_bytes)
        all->n++;
}

/* Appends point 'i', and before it the one between it and '*before'. */
static enum stp_status sizes_add(const struct stp_comparisons *comparisons,
                                 size_t i,
                                 const struct stp_constants_terms *terms,
                                 struct stp_const_model *model, size_t *before,
                                 struct sizes *all, struct stp_error *err)
{
    const struct stp_point *p = &comparisons->points[i];
    struct size s = {.question = {p->coll, p->n_bytes, p->type, p->op},
                     .point = i,
                     .weight = 1};
    enum stp_status status = sizes_check_point(p, model, err);

    if (status == STP_OK) {
        s.auto_pair = size_find_auto(model, p, &s);
        status = stp_const_model_status(model);
    }
    if (status != STP_OK)
        return status;
    size_take_times(p, terms->trust_passes, &s);
    if (size_count_pairs(&s) < 2)
        return STP_OK;
    if (*before < all->n &&
        stp_point_alike(&comparisons->points[all->sizes[*before].point], p)) {
        struct size a = all->sizes[*before];

        s.is_inner = true; /* until it turns out to be the last */
        sizes_add_between(all, &a, &s);
    } else if (*before < all->n) {
        all->sizes[*before].is_inner = false;
    }
    *before = all->n;
    all->sizes[all->n++] = s;
    return STP_OK;
}

/*
 * The sizes of the comparisons at which two pairs or more were measured, except
 * those of 'without' bytes (0: none), and sizes between them.  An 'auto_pair'
 * that nobody knows is asked of the model, as it is built.
 */
static enum stp_status sizes_make(const struct stp_comparisons *comparisons,
                                  const struct stp_constants_terms *terms,
                                  struct stp_const_model *model,
                                  uint64_t without, struct sizes *sizes_ret,
                                  struct stp_error *err)
{
    struct sizes all = {0};
    size_t before = 0;
    enum stp_status status = STP_OK;

    all.sizes = calloc(2 * comparisons->n_points + 1, sizeof(*all.sizes));
    if (all.sizes == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < comparisons->n_points && status == STP_OK; i++)
        if (comparisons->points[i].n_bytes != without)
            status =
                sizes_add(comparisons, i, terms, model, &before, &all, err);
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

/* ==== the search: a pattern search in logarithms ==== */

/*
 * A constant is NCCL's own times 2^(k/8), with three digits.  Steps of k begin
 * with a factor of 4 and end with one of 1.09.
 */
enum {
    OCTAVE = 8,
    MAX_STEPS = 4 * OCTAVE,
    FIRST_STEP = 2 * OCTAVE,
    LAST_BLURRED = OCTAVE / 4, /* the rest is left to what is not blurred */
    MOST_PASSES = 8,           /* with steps of one size */
};

/* What moving a constant at all costs, and again by a factor of e: less than
 * any measured gain, but it settles ties. */
static const double move_cost = 1e-5;

typedef float table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS]; /* us */

struct search {
    struct stp_const_model *model;
    const struct sizes *sizes;
    ncclTunerConstants_v7_t defaults;
    size_t at[STP_N_CONSTANTS]; /* those that matter */
    size_t n;
    double weight; /* of all sizes */
    double blur;   /* see search_expect_regret(); 0: none */
};

/* Where the search stands. */
struct place {
    int k[STP_N_CONSTANTS];
    double regret; /* mean over sizes, with penalties */
    double cost;   /* the same, and that of moving */
};

static double search_round(double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.3g", value);
    return strtod(text, NULL);
}

static void search_get_constants(const struct search *s,
                                 const struct place *place,
                                 ncclTunerConstants_v7_t *constants)
{
    double *numbers = (double *)constants;

    *constants = s->defaults;
    for (size_t i = 0; i < s->n; i++)
        if (place->k[i] != 0)
            numbers[s->at[i]] = search_round(
                numbers[s->at[i]] * exp2((double)place->k[i] / OCTAVE));
}

/*
 * As if NCCL chose at random, a pair that costs more by a factor of e^blur with
 * 1/e of the chance.  What it chooses changes in leaps, which say nothing of
 * the way to go; this changes smoothly.
 */
static double search_expect_regret(const struct size *size, table costs,
                                   double blur)
{
    const float *cost = costs[0];
    double regret = 0;
    double chances = 0;
    double least = INFINITY;

    for (int i = 0; i < N_PAIRS; i++)
        if (cost[i] > 0)
            least = fmin(least, (double)cost[i]);
    for (int i = 0; i < N_PAIRS; i++)
        if (cost[i] > 0) {
            double chance = pow((double)cost[i] / least, -1 / blur);

            if (chance < 1e-6)
                continue;
            regret += chance * size_get_regret(size, i);
            chances += chance;
        }
    return regret / chances;
}

static double search_get_regret(const struct search *s, const struct size *size)
{
    table costs;
    int pair = stp_const_model_ask(s->model, &size->question, costs);

    return s->blur > 0 ? search_expect_regret(size, costs, s->blur)
                       : size_get_regret(size, pair);
}

/* The regret and cost of a place; ends with a cost of infinity as soon as it is
 * known to be no less than 'most'. */
static void search_evaluate(const struct search *s, struct place *place,
                            double most)
{
    ncclTunerConstants_v7_t constants;
    double regret = 0;
    double moved = 0;

    search_get_constants(s, place, &constants);
    stp_const_model_build(s->model, &constants);
    for (size_t i = 0; i < s->n; i++)
        if (place->k[i] != 0)
            moved += 1 + abs(place->k[i]) * log(2) / OCTAVE;
    place->cost = INFINITY;
    for (size_t i = 0; i < s->sizes->n; i++) {
        regret += s->sizes->sizes[i].weight *
                  search_get_regret(s, &s->sizes->sizes[i]);
        if (regret / s->weight + move_cost * moved >= most)
            return;
    }
    place->regret = regret / s->weight;
    place->cost = place->regret + move_cost * moved;
}

/* Moves one constant by up to one step either way; false if that is no better.
 */
static bool search_try_moves(const struct search *s, size_t i, int step,
                             struct place *place)
{
    const int moves[] = {place->k[i] - step, place->k[i] + step, 0};
    bool moved = false;

    for (size_t m = 0; m < sizeof(moves) / sizeof(moves[0]); m++) {
        struct place other = *place;

        if (moves[m] == place->k[i] || abs(moves[m]) > MAX_STEPS)
            continue;
        other.k[i] = moves[m];
        search_evaluate(s, &other, place->cost);
        if (other.cost < place->cost) {
            *place = other;
            moved = true;
        }
    }
    return moved;
}

static void search_descend(const struct search *s, struct place *place)
{
    int last = s->blur > 0 ? LAST_BLURRED : 1;
    int n = 0;
    bool moved = false;

    search_evaluate(s, place, INFINITY);
    for (int step = FIRST_STEP; step >= last;
         step = moved && n < MOST_PASSES ? step : step / 2) {
        n = moved && n < MOST_PASSES ? n + 1 : 1;
        moved = false;
        for (size_t i = 0; i < s->n; i++)
            moved |= search_try_moves(s, i, step, place);
    }
}

/* ---- which constants matter ---- */

/* The cost of all sizes, as the model is built. */
static void search_ask_all(const struct search *s, table *costs)
{
    for (size_t i = 0; i < s->sizes->n; i++)
        stp_const_model_ask(s->model, &s->sizes->sizes[i].question, costs[i]);
}

/* Whether some cost changes if constant 'i' does; 'others' is room for them. */
static bool search_matters(const struct search *s, size_t i, const table *costs,
                           table *others)
{
    static const double factors[] = {16, 1.0 / 16};

    for (size_t f = 0; f < 2; f++) {
        ncclTunerConstants_v7_t constants = s->defaults;

        ((double *)&constants)[i] *= factors[f];
        stp_const_model_build(s->model, &constants);
        search_ask_all(s, others);
        if (memcmp(costs, others, s->sizes->n * sizeof(table)) != 0)
            return true;
    }
    return false;
}

static void search_find_constants(struct search *s, struct stp_error *err)
{
    table *costs = calloc(2 * s->sizes->n, sizeof(*costs));

    if (costs == NULL) {
        stp_const_model_fail(s->model, stp_nomem(err));
        return;
    }
    stp_const_model_build(s->model, &s->defaults);
    search_ask_all(s, costs);
    for (size_t i = 0; i < STP_N_CONSTANTS; i++)
        if (((const double *)&s->defaults)[i] > 0 &&
            search_matters(s, i, (const table *)costs, costs + s->sizes->n))
            s->at[s->n++] = i;
    free(costs);
}

/* ---- starts ---- */

/* Descends to ever less blurred regrets, at last to those of what is chosen. */
static void search_descend_from_blur(struct search *s, struct place *place)
{
    static const double blurs[] = {.2, .05, 0};

    for (size_t i = 0; i < sizeof(blurs) / sizeof(blurs[0]); i++) {
        s->blur = blurs[i];
        search_descend(s, place);
    }
}

/* Some constants elsewhere, within a factor of 2. */
static void search_kick(const struct search *s, unsigned start, uint64_t seed,
                        struct place *place)
{
    enum { KICKED = 3, REACH = OCTAVE };

    for (unsigned n = 0; n < KICKED; n++) {
        uint64_t random = stp_rng(seed, start * KICKED + n);
        size_t i = (size_t)(random % s->n);
        int k = place->k[i] + (int)(random / s->n % (2 * REACH + 1)) - REACH;

        if (abs(k) <= MAX_STEPS)
            place->k[i] = k;
    }
}

/* From NCCL's own constants, plainly and from blur, then from the best. */
static void search_start(struct search *s, unsigned start, uint64_t seed,
                         struct place *best)
{
    struct place place = {0};

    if (start > 1) {
        place = *best;
        search_kick(s, start, seed, &place);
    }
    if (start == 1)
        search_descend_from_blur(s, &place);
    else
        search_descend(s, &place);
    if (place.cost < best->cost)
        *best = place;
}

/* Does without one moved constant after the other, if the rest can do it. */
static void search_drop_moves(const struct search *s, struct place *best)
{
    for (size_t i = 0; i < s->n; i++) {
        struct place place = *best;

        if (place.k[i] == 0)
            continue;
        place.k[i] = 0;
        search_descend(s, &place);
        if (place.cost < best->cost)
            *best = place;
    }
}

/* Searches from a number of starts, of which the first is NCCL's own constants.
 */
static enum stp_status search_run(struct stp_const_model *model,
                                  const struct sizes *sizes, unsigned n_starts,
                                  uint64_t seed,
                                  ncclTunerConstants_v7_t *best_ret,
                                  struct stp_error *err)
{
    struct search s = {.model = model, .sizes = sizes};
    struct place best = {.regret = INFINITY, .cost = INFINITY};

    stp_const_model_defaults(model, &s.defaults);
    for (size_t i = 0; i < sizes->n; i++)
        s.weight += sizes->sizes[i].weight;
    search_find_constants(&s, err);
    for (unsigned start = 0;
         start < n_starts && stp_const_model_status(model) == STP_OK &&
         best.regret > 0;
         start++)
        search_start(&s, start, seed, &best);
    search_drop_moves(&s, &best);
    search_get_constants(&s, &best, best_ret);
    return stp_const_model_status(model);
}

/* ==== the fit ==== */

/* Of the search; sizes that are left out are many, and get fewer. */
enum { STARTS = 4, STARTS_LEFT_OUT = 2 };

struct fitting {
    const struct stp_comparisons *comparisons;
    const struct stp_constants_terms *terms;
    struct stp_const_model *model;
    struct sizes sizes;
    struct stp_error *err;
};

/* ---- residuals ---- */

/* A sum of logarithms, until all sizes are in. */
static void fit_add_residual(struct stp_residual *r, const struct size *size,
                             int pair)
{
    double lost = size_get_loss(size, pair);

    r->mean += lost;
    r->worst = fmax(r->worst, exp(lost));
    r->n++;
    r->n_slower += size->is_slower[pair];
    r->n_faster += size->is_faster[pair];
}

static void fit_finish_residual(struct stp_residual *r)
{
    r->mean = r->n > 0 ? exp(r->mean / (double)r->n) : 1;
    r->worst = fmax(r->worst, 1);
}

/* Of the sizes of 'n_bytes' that have neighbours, or of all if that is 0. */
static enum stp_status
fit_get_residual(const struct fitting *f,
                 const ncclTunerConstants_v7_t *constants, uint64_t n_bytes,
                 struct stp_residual *r)
{
    stp_const_model_build(f->model, constants);
    for (size_t i = 0; i < f->sizes.n; i++) {
        const struct size *size = &f->sizes.sizes[i];

        if (size->weight < 1 ||
            (n_bytes != 0 &&
             (!size->is_inner || size->question.n_bytes != n_bytes)))
            continue;
        fit_add_residual(r, size,
                         stp_const_model_ask(f->model, &size->question, NULL));
    }
    return stp_const_model_status(f->model);
}

/* ---- sizes left out ---- */

/* Whether it is an inner size that none before it has. */
static bool fit_is_new_inner(const struct sizes *sizes, size_t i)
{
    const struct size *s = &sizes->sizes[i];

    if (!s->is_inner || s->weight < 1)
        return false;
    for (size_t j = 0; j < i; j++)
        if (sizes->sizes[j].is_inner && sizes->sizes[j].weight >= 1 &&
            sizes->sizes[j].question.n_bytes == s->question.n_bytes)
            return false;
    return true;
}

static enum stp_status fit_leave_out(const struct fitting *f, uint64_t n_bytes,
                                     struct stp_constants_fit *fit)
{
    struct sizes rest;
    ncclTunerConstants_v7_t constants;
    enum stp_status status =
        fit_get_residual(f, &fit->defaults, n_bytes, &fit->left_before);

    STP_THEN(status, sizes_make(f->comparisons, f->terms, f->model, n_bytes,
                                &rest, f->err));
    if (status != STP_OK)
        return status;
    status = search_run(f->model, &rest, STARTS_LEFT_OUT, f->terms->seed,
                        &constants, f->err);
    STP_THEN(status, fit_get_residual(f, &constants, n_bytes, &fit->left_out));
    free(rest.sizes);
    return status;
}

static enum stp_status fit_tell(const struct fitting *f, size_t done,
                                size_t total)
{
    if (f->terms->progress == NULL ||
        f->terms->progress(f->terms->user, done, total))
        return STP_OK;
    return stp_fail(f->err, STP_ERR_STOPPED, "stopped");
}

/* After the first search, with all sizes. */
static enum stp_status fit_leave_each_out(const struct fitting *f,
                                          struct stp_constants_fit *fit)
{
    size_t n_searches = 1;
    size_t n_done = 1;
    enum stp_status status;

    for (size_t i = 0; i < f->sizes.n; i++)
        n_searches += fit_is_new_inner(&f->sizes, i);
    status = fit_tell(f, n_done, n_searches);
    for (size_t i = 0; i < f->sizes.n && status == STP_OK; i++)
        if (fit_is_new_inner(&f->sizes, i)) {
            status = fit_leave_out(f, f->sizes.sizes[i].question.n_bytes, fit);
            STP_THEN(status, fit_tell(f, ++n_done, n_searches));
        }
    fit_finish_residual(&fit->left_out);
    fit_finish_residual(&fit->left_before);
    return status;
}

/* ---- misfits ---- */

static int fit_find_best(const struct size *size)
{
    int best = 0;

    while (!(size->us[best] <= size->best))
        best++;
    return best;
}

static void fit_add_misfit(const struct size *size, int pair,
                           struct stp_constants_fit *fit)
{
    int best = fit_find_best(size);
    double ratio = isnan(size->us[pair]) ? (double)INFINITY
                                         : exp(size->us[pair] - size->best);

    if (ratio < 1 + STP_DERIVE_SAME)
        return;
    fit->misfits[fit->n_misfits++] = (struct stp_misfit){
        .coll = size->question.coll,
        .n_bytes = size->question.n_bytes,
        .algo = pair / NCCL_NUM_PROTOCOLS,
        .proto = pair % NCCL_NUM_PROTOCOLS,
        .best_algo = best / NCCL_NUM_PROTOCOLS,
        .best_proto = best % NCCL_NUM_PROTOCOLS,
        .ratio = ratio,
        .is_slower = size->is_slower[pair],
    };
}

/* As the model is built. */
static enum stp_status fit_find_misfits(const struct fitting *f,
                                        struct stp_constants_fit *fit)
{
    fit->misfits = calloc(f->sizes.n, sizeof(*fit->misfits));
    if (fit->misfits == NULL)
        return stp_nomem(f->err);
    for (size_t i = 0; i < f->sizes.n; i++) {
        const struct size *size = &f->sizes.sizes[i];

        if (size->weight >= 1)
            fit_add_misfit(size,
                           stp_const_model_ask(f->model, &size->question, NULL),
                           fit);
    }
    return stp_const_model_status(f->model);
}

/* ---- the fit ---- */

static void fit_take_changed(const ncclTunerConstants_v7_t *found,
                             struct stp_constants_fit *fit)
{
    const double *numbers = (const double *)found;
    const double *defaults = (const double *)&fit->defaults;

    for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
        fit->constants.is_set[i] = numbers[i] != defaults[i];
        fit->constants.value[i] = fit->constants.is_set[i] ? numbers[i] : 0;
    }
}

static enum stp_status fit_search(const struct fitting *f,
                                  struct stp_constants_fit *fit)
{
    ncclTunerConstants_v7_t found;
    enum stp_status status =
        search_run(f->model, &f->sizes, STARTS, f->terms->seed, &found, f->err);

    if (status != STP_OK)
        return status;
    fit_take_changed(&found, fit);
    status = fit_get_residual(f, &fit->defaults, 0, &fit->before);
    STP_THEN(status, fit_get_residual(f, &found, 0, &fit->after));
    fit_finish_residual(&fit->before);
    fit_finish_residual(&fit->after);
    STP_THEN(status, fit_find_misfits(f, fit));
    return status == STP_OK ? fit_leave_each_out(f, fit) : status;
}

enum stp_status stp_fit_constants(const struct stp_comparisons *comparisons,
                                  const struct stp_constants_terms *terms,
                                  struct stp_constants_fit *fit_ret,
                                  struct stp_error *err)
{
    struct fitting f = {.comparisons = comparisons, .terms = terms, .err = err};
    struct stp_constants_fit fit = {0};
    enum stp_status status = stp_const_model_open(terms, &f.model, err);

    if (status != STP_OK)
        return status;
    stp_const_model_defaults(f.model, &fit.defaults);
    status = sizes_make(comparisons, terms, f.model, 0, &f.sizes, err);
    STP_THEN(status, fit_search(&f, &fit));
    if (status == STP_OK)
        *fit_ret = fit;
    else
        stp_constants_fit_free(&fit);
    free(f.sizes.sizes);
    stp_const_model_close(f.model);
    return status;
}

bool stp_constants_fit_helps(const struct stp_constants_fit *fit)
{
    return fit->after.n_faster > 0 && fit->after.n_slower == 0 &&
           fit->after.mean < fit->before.mean && fit->left_out.n > 0 &&
           fit->left_out.mean <= fit->left_before.mean;
}

void stp_constants_fit_free(struct stp_constants_fit *fit)
{
    free(fit->misfits);
    fit->misfits = NULL;
    fit->n_misfits = 0;
}
