#include <stdlib.h>

#include "core/learn/bandit_state.h"
#include "nccl_tuner_abi.h"

/* The ratio of an arm without a cost: a guess for the budget. */
static const double unknown_ratio = 1.25;

/* The share of the channels that an arm has, in quarters. */
static const unsigned quarters[] = {2, 1, 4};

static bool arms_equal(const struct stp_bandit_arm *a,
                       const struct stp_bandit_arm *b)
{
    return a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels;
}

int stp_bandit_index(const struct stp_bandit_slot *slot,
                     const struct stp_bandit_arm *arm)
{
    for (unsigned i = 0; i < slot->n_arms; i++) {
        if (arms_equal(&slot->arms[i].arm, arm))
            return (int)i;
    }
    return -1;
}

struct stp_bandit_try *stp_bandit_add_arm(struct stp_bandit_slot *slot,
                                          const struct stp_bandit_arm *arm,
                                          enum stp_stage stage, double ratio)
{
    size_t n = slot->n_arms;
    struct stp_bandit_try *arms;

    if (n == STP_BANDIT_ARMS)
        return NULL;
    arms = realloc(slot->arms, (n + 1) * sizeof(*arms));
    if (arms == NULL)
        return NULL;
    slot->arms = arms;
    slot->n_arms++;
    arms[n] = (struct stp_bandit_try){
        .arm = *arm, .stage = (uint8_t)stage, .ratio = (float)ratio};
    return &arms[n];
}

/* The cost of a pair; -1 if NCCL rules it out. */
static double arms_cost(const struct stp_cost_view *view, int algo, int proto)
{
    if (algo < 0 || proto < 0 || algo >= view->n_algo || proto >= view->n_proto)
        return -1;
    return view->cost[algo * view->n_proto + proto];
}

static bool arms_have_costs(const struct stp_cost_view *view)
{
    return view != NULL && view->cost != NULL;
}

/* The pair that NCCL would take: the first of the cheapest. */
static struct stp_bandit_arm arms_cheapest(const struct stp_cost_view *view)
{
    struct stp_bandit_arm best = {.algo = -1};
    double least = -1;

    for (int a = 0; a < view->n_algo; a++) {
        for (int p = 0; p < view->n_proto; p++) {
            double cost = arms_cost(view, a, p);

            if (cost < 0 || (least >= 0 && cost >= least))
                continue;
            least = cost;
            best =
                (struct stp_bandit_arm){.algo = (int8_t)a, .proto = (int8_t)p};
        }
    }
    return best;
}

/* Adds an arm with its cost, by which it may be pruned. */
static bool arms_add_with_cost(const struct stp_bandit_rules *rules,
                               const struct stp_cost_view *view,
                               const struct stp_bandit_arm *arm,
                               struct stp_bandit_slot *slot)
{
    struct stp_bandit_try *added;
    double ratio = unknown_ratio;
    bool is_banned = false;

    if (arms_have_costs(view)) {
        double least = arms_cost(view, slot->own.algo, slot->own.proto);
        double cost = arms_cost(view, arm->algo, arm->proto);

        if (least > 0 && cost >= 0)
            ratio = cost / least;
        is_banned = cost < 0 || (rules->prune > 0 && ratio > rules->prune);
    }
    added = stp_bandit_add_arm(slot, arm, STP_STAGE_PAIRS, ratio);
    if (added == NULL)
        return false;
    added->is_banned = added->is_out = is_banned;
    return true;
}

/* The cheaper an arm, the sooner it is tried. */
static int arms_by_ratio(const void *a, const void *b)
{
    const struct stp_bandit_try *x = a;
    const struct stp_bandit_try *y = b;

    if (x->ratio != y->ratio)
        return x->ratio < y->ratio ? -1 : 1;
    if (x->arm.algo != y->arm.algo)
        return x->arm.algo - y->arm.algo;
    return x->arm.proto - y->arm.proto;
}

/* Adds all pairs that NCCL does not rule out, except its own choice. */
static bool arms_add_pairs(const struct stp_bandit_rules *rules,
                           const struct stp_cost_view *view,
                           struct stp_bandit_slot *slot)
{
    for (int a = 0; a < view->n_algo; a++) {
        for (int p = 0; p < view->n_proto; p++) {
            struct stp_bandit_arm arm = {.algo = (int8_t)a, .proto = (int8_t)p};

            if (arms_cost(view, a, p) < 0 || arms_equal(&arm, &slot->own))
                continue;
            if (!arms_add_with_cost(rules, view, &arm, slot))
                return false;
        }
    }
    qsort(slot->arms + 1, slot->n_arms - 1, sizeof(*slot->arms), arms_by_ratio);
    return true;
}

bool stp_bandit_make_arms(const struct stp_bandit_rules *rules,
                          const struct stp_cost_view *view,
                          struct stp_bandit_slot *slot)
{
    const struct stp_bandit_arm none = {.algo = -1};

    slot->own = arms_have_costs(view) ? arms_cheapest(view) : none;
    if (slot->own.algo >= 0)
        slot->own_us = arms_cost(view, slot->own.algo, slot->own.proto);
    if (stp_bandit_add_arm(slot, &none, STP_STAGE_PAIRS, 1) == NULL)
        return false;
    if (rules->n_arms == 0)
        return !arms_have_costs(view) || arms_add_pairs(rules, view, slot);
    for (size_t i = 0; i < rules->n_arms; i++) {
        if (!arms_add_with_cost(rules, view, &rules->arms[i], slot))
            return false;
    }
    return true;
}

void stp_bandit_add_channels(struct stp_bandit_slot *slot)
{
    struct stp_bandit_arm arm =
        slot->incumbent == 0 ? slot->own : slot->arms[slot->incumbent].arm;
    unsigned n_has = slot->arms[slot->incumbent].own_channels;

    if (arm.algo < 0 || arm.n_channels != 0)
        return;
    for (size_t i = 0; i < sizeof(quarters) / sizeof(quarters[0]); i++) {
        unsigned n = slot->max_channels * quarters[i] / 4;

        if (n == 0 || n > STP_MAX_CHANNELS || n == n_has)
            continue;
        arm.n_channels = (uint8_t)n;
        if (stp_bandit_index(slot, &arm) < 0)
            (void)stp_bandit_add_arm(slot, &arm, STP_STAGE_CHANNELS,
                                     4.0 / quarters[i]);
    }
}
