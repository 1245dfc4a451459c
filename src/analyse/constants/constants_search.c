/* constants_search.c - a pattern search in logarithms */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/constants/constants_parts.h"
#include "core/rng.h"

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
    const struct stp_const_sizes *sizes;
    ncclTunerConstants_v5_t defaults;
    size_t at[STP_N_CONSTANTS]; /* those that matter */
    size_t n;
    double weight; /* of all sizes */
    double blur;   /* see expected_regret(); 0: none */
    struct stp_error *err;
};

/* Where the search stands. */
struct place {
    int k[STP_N_CONSTANTS];
    double regret; /* mean over sizes, with penalties */
    double cost;   /* the same, and that of moving */
};

static double three_digits(double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.3g", value);
    return strtod(text, NULL);
}

static void constants_of(const struct search *s, const struct place *place,
                         ncclTunerConstants_v5_t *constants)
{
    double *numbers = (double *)constants;

    *constants = s->defaults;
    for (size_t i = 0; i < s->n; i++)
        if (place->k[i] != 0)
            numbers[s->at[i]] = three_digits(
                numbers[s->at[i]] * exp2((double)place->k[i] / OCTAVE));
}

/*
 * As if NCCL chose at random, a pair that costs more by a factor of e^blur with
 * 1/e of the chance.  What it chooses changes in leaps, which say nothing of
 * the way to go; this changes smoothly.
 */
static double expected_regret(const struct stp_const_size *size, table costs,
                              double blur)
{
    const float *cost = costs[0];
    double regret = 0;
    double chances = 0;
    double least = INFINITY;

    for (int i = 0; i < STP_CONST_PAIRS; i++)
        if (cost[i] > 0)
            least = fmin(least, (double)cost[i]);
    for (int i = 0; i < STP_CONST_PAIRS; i++)
        if (cost[i] > 0) {
            double chance = pow((double)cost[i] / least, -1 / blur);

            if (chance < 1e-6)
                continue;
            regret += chance * stp_const_regret(size, i);
            chances += chance;
        }
    return regret / chances;
}

static enum stp_status regret_at(const struct search *s,
                                 const struct stp_const_size *size,
                                 double *regret_ret)
{
    int algo, proto;
    table costs;
    enum stp_status status = stp_const_model_ask(s->model, &size->question,
                                                 &algo, &proto, costs, s->err);

    if (status != STP_OK)
        return status;
    *regret_ret =
        s->blur > 0 ? expected_regret(size, costs, s->blur)
                    : stp_const_regret(size, algo * NCCL_NUM_PROTOCOLS + proto);
    return status;
}

static enum stp_status evaluate(const struct search *s, struct place *place)
{
    ncclTunerConstants_v5_t constants;
    double regret = 0;
    double moved = 0;
    enum stp_status status;

    constants_of(s, place, &constants);
    status = stp_const_model_build(s->model, &constants, s->err);
    for (size_t i = 0; i < s->sizes->n && status == STP_OK; i++) {
        const struct stp_const_size *size = &s->sizes->sizes[i];
        double lost = 0;

        status = regret_at(s, size, &lost);
        regret += size->weight * lost;
    }
    for (size_t i = 0; i < s->n; i++)
        if (place->k[i] != 0)
            moved += 1 + abs(place->k[i]) * log(2) / OCTAVE;
    place->regret = regret / s->weight;
    place->cost = place->regret + move_cost * moved;
    return status;
}

/* Moves one constant by up to one step either way. */
static enum stp_status try_moves(const struct search *s, size_t i, int step,
                                 struct place *place, bool *moved)
{
    const int moves[] = {place->k[i] - step, place->k[i] + step, 0};
    enum stp_status status = STP_OK;

    for (size_t m = 0; m < sizeof(moves) / sizeof(moves[0]); m++) {
        struct place other = *place;

        if (moves[m] == place->k[i] || abs(moves[m]) > MAX_STEPS)
            continue;
        other.k[i] = moves[m];
        status = evaluate(s, &other);
        if (status != STP_OK)
            break;
        if (other.cost < place->cost) {
            *place = other;
            *moved = true;
        }
    }
    return status;
}

static enum stp_status descend(const struct search *s, struct place *place)
{
    enum stp_status status = evaluate(s, place);
    int last = s->blur > 0 ? LAST_BLURRED : 1;
    int n = 0;
    bool moved = false;

    for (int step = FIRST_STEP; step >= last;
         step = moved && n < MOST_PASSES ? step : step / 2) {
        n = moved && n < MOST_PASSES ? n + 1 : 1;
        moved = false;
        for (size_t i = 0; i < s->n && status == STP_OK; i++)
            status = try_moves(s, i, step, place, &moved);
        if (status != STP_OK)
            return status;
    }
    return status;
}

/* ---- what matters ---- */

/* The cost of all sizes, as the model is built. */
static enum stp_status ask_all(const struct search *s, table *costs)
{
    enum stp_status status = STP_OK;
    int algo, proto;

    for (size_t i = 0; i < s->sizes->n && status == STP_OK; i++)
        status = stp_const_model_ask(s->model, &s->sizes->sizes[i].question,
                                     &algo, &proto, costs[i], s->err);
    return status;
}

/* Whether some cost changes if constant 'i' does; 'others' is room for them. */
static enum stp_status matters(const struct search *s, size_t i,
                               const table *costs, table *others,
                               bool *matters_ret)
{
    static const double factors[] = {16, 1.0 / 16};
    enum stp_status status = STP_OK;

    *matters_ret = false;
    for (size_t f = 0; f < 2 && status == STP_OK && !*matters_ret; f++) {
        ncclTunerConstants_v5_t constants = s->defaults;

        ((double *)&constants)[i] *= factors[f];
        status = stp_const_model_build(s->model, &constants, s->err);
        if (status == STP_OK)
            status = ask_all(s, others);
        *matters_ret = memcmp(costs, others, s->sizes->n * sizeof(table)) != 0;
    }
    return status;
}

static enum stp_status find_those_that_matter(struct search *s)
{
    table *costs = calloc(2 * s->sizes->n, sizeof(*costs));
    enum stp_status status;
    bool is_one;

    if (costs == NULL)
        return stp_nomem(s->err);
    status = stp_const_model_build(s->model, &s->defaults, s->err);
    if (status == STP_OK)
        status = ask_all(s, costs);
    for (size_t i = 0; i < STP_N_CONSTANTS && status == STP_OK; i++) {
        if (((const double *)&s->defaults)[i] <= 0)
            continue;
        status =
            matters(s, i, (const table *)costs, costs + s->sizes->n, &is_one);
        if (status == STP_OK && is_one)
            s->at[s->n++] = i;
    }
    free(costs);
    return status;
}

/* ---- starts ---- */

/* Descends to ever less blurred regrets, at last to those of what is chosen. */
static enum stp_status descend_from_blur(struct search *s, struct place *place)
{
    static const double blurs[] = {.2, .05, 0};
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < sizeof(blurs) / sizeof(blurs[0]); i++) {
        s->blur = blurs[i];
        if (status == STP_OK)
            status = descend(s, place);
    }
    return status;
}

/* Some constants elsewhere, within a factor of 2. */
static void kick(const struct search *s, unsigned start, uint64_t seed,
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
static enum stp_status start_from(struct search *s, unsigned start,
                                  uint64_t seed, struct place *best)
{
    struct place place = {0};
    enum stp_status status;

    if (start > 1) {
        place = *best;
        kick(s, start, seed, &place);
    }
    status = start == 1 ? descend_from_blur(s, &place) : descend(s, &place);
    if (status == STP_OK && place.cost < best->cost)
        *best = place;
    return status;
}

/* Does without one moved constant after the other, if the rest can do it. */
static enum stp_status save(const struct search *s, struct place *best)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < s->n && status == STP_OK; i++) {
        struct place place = *best;

        if (place.k[i] == 0)
            continue;
        place.k[i] = 0;
        status = descend(s, &place);
        if (status == STP_OK && place.cost < best->cost)
            *best = place;
    }
    return status;
}

enum stp_status stp_const_search(struct stp_const_model *model,
                                 const struct stp_const_sizes *sizes,
                                 unsigned n_starts, uint64_t seed,
                                 ncclTunerConstants_v5_t *best_ret,
                                 struct stp_error *err)
{
    struct search s = {.model = model, .sizes = sizes, .err = err};
    struct place best = {.regret = INFINITY, .cost = INFINITY};
    enum stp_status status;

    stp_const_model_defaults(model, &s.defaults);
    for (size_t i = 0; i < sizes->n; i++)
        s.weight += sizes->sizes[i].weight;
    status = find_those_that_matter(&s);
    for (unsigned start = 0;
         start < n_starts && status == STP_OK && best.regret > 0; start++)
        status = start_from(&s, start, seed, &best);
    if (status == STP_OK)
        status = save(&s, &best);
    if (status == STP_OK)
        constants_of(&s, &best, best_ret);
    return status;
}
