/* bandit_decide.c - which arms of a key are left, and which has won */
#include "core/learn/bandit_decide.h"

#include <math.h>
#include <stdlib.h>

/* Windows of a PyTorch job on 2 x H200 that the GPU bounds vary by 0.2 percent
 * about a gain of 1 to 5 percent, and one block in fifty is disturbed: most
 * arms are out after one block. */
enum {
    N_SPENT = 48, /* blocks of an arm, after which it is out unless it leads
                     with promise */
    N_ALIKE = 16, /* blocks of each, after which arms may count as equal */
    RETEST_MAX = 1 << 20, /* calls between two re-tests */
    REOPEN_MAX = 16,      /* times that a search is opened again */
};

static const double z_in = 3;    /* 95 percent each of 20 arms: 0.05 / 20 */
static const double z_looks = 4; /* likewise, and after each block */
static const double wild = 0.01; /* deviation of blocks: few say little */
static const double z_out = 2;   /* arm is worse; most are, and few by little */
static const double z_hope = 1;  /* arm is promising */
static const double z_flip = 2.6;  /* 99 percent: re-tests are frequent */
static const double alike = 0.001; /* gains that count as equal */

/* The ratio of an arm without a cost: a guess for the budget. */
static const double unknown_ratio = 1.25;

/* The share of the channels that an arm has, in quarters. */
static const unsigned quarters[] = {2, 1, 4};

/* ---- the arms of a key ---- */

static bool decide_is_same_arm(const struct stp_bandit_arm *a,
                               const struct stp_bandit_arm *b)
{
    return a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels;
}

int stp_bandit_index(const struct stp_bandit_slot *slot,
                     const struct stp_bandit_arm *arm)
{
    for (unsigned i = 0; i < slot->n_arms; i++) {
        if (decide_is_same_arm(&slot->arms[i].arm, arm))
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
static double decide_find_cost(const struct stp_cost_view *view, int algo,
                               int proto)
{
    if (algo < 0 || proto < 0 || algo >= view->n_algo || proto >= view->n_proto)
        return -1;
    return view->cost[algo * view->n_proto + proto];
}

static bool decide_has_costs(const struct stp_cost_view *view)
{
    return view != NULL && view->cost != NULL;
}

/* Adds an arm with its cost, by which it may be pruned. */
static bool decide_add_with_cost(const struct stp_bandit_rules *rules,
                                 const struct stp_cost_view *view,
                                 const struct stp_bandit_arm *arm,
                                 struct stp_bandit_slot *slot)
{
    struct stp_bandit_try *added;
    double ratio = unknown_ratio;
    bool is_banned = false;

    if (decide_has_costs(view)) {
        double least = decide_find_cost(view, slot->own.algo, slot->own.proto);
        double cost = decide_find_cost(view, arm->algo, arm->proto);

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

/* Orders arms by their cost: cheap arms are tried first. */
static int decide_order_ratios(const void *a, const void *b)
{
    const struct stp_bandit_try *x = a;
    const struct stp_bandit_try *y = b;

    if (x->ratio != y->ratio)
        return x->ratio < y->ratio ? -1 : 1;
    if (x->arm.algo != y->arm.algo)
        return x->arm.algo - y->arm.algo;
    return x->arm.proto - y->arm.proto;
}

bool stp_bandit_make_arms(const struct stp_bandit_rules *rules,
                          const struct stp_cost_view *view,
                          struct stp_bandit_slot *slot)
{
    const struct stp_bandit_arm none = {.algo = -1};
    const bool has_costs = decide_has_costs(view);
    const int n_algo = has_costs ? view->n_algo : 0;
    double least = -1;

    /* NCCL would take the first of the cheapest pairs. */
    slot->own = none;
    for (int a = 0; a < n_algo; a++) {
        for (int p = 0; p < view->n_proto; p++) {
            double cost = decide_find_cost(view, a, p);

            if (cost < 0 || (least >= 0 && cost >= least))
                continue;
            least = cost;
            slot->own =
                (struct stp_bandit_arm){.algo = (int8_t)a, .proto = (int8_t)p};
        }
    }
    if (slot->own.algo >= 0)
        slot->own_us = least;
    if (stp_bandit_add_arm(slot, &none, STP_STAGE_PAIRS, 1) == NULL)
        return false;
    for (size_t i = 0; i < rules->n_arms; i++)
        if (!decide_add_with_cost(rules, view, &rules->arms[i], slot))
            return false;
    if (rules->n_arms > 0)
        return true;

    /* Rules without arms take all pairs that NCCL allows but its choice. */
    for (int a = 0; a < n_algo; a++) {
        for (int p = 0; p < view->n_proto; p++) {
            struct stp_bandit_arm arm = {.algo = (int8_t)a, .proto = (int8_t)p};

            if (decide_find_cost(view, a, p) < 0 ||
                decide_is_same_arm(&arm, &slot->own))
                continue;
            if (!decide_add_with_cost(rules, view, &arm, slot))
                return false;
        }
    }
    qsort(slot->arms + 1, slot->n_arms - 1, sizeof(*slot->arms),
          decide_order_ratios);
    return true;
}

void stp_bandit_add_channels(struct stp_bandit_slot *slot)
{
    const struct stp_bandit_try won = slot->arms[slot->incumbent];
    struct stp_bandit_arm arm = slot->incumbent == 0 ? slot->own : won.arm;
    const unsigned n_has =
        arm.n_channels != 0 ? arm.n_channels : won.own_channels;

    if (arm.algo < 0 || (arm.n_channels != 0 && won.stage == STP_STAGE_PAIRS))
        return;
    for (size_t i = 0; i < sizeof(quarters) / sizeof(quarters[0]); i++) {
        unsigned n = slot->max_channels * quarters[i] / 4;

        /* all: a pair most likely has NCCL's own count */
        if (n == 0 || n > STP_MAX_CHANNELS || n == n_has ||
            (quarters[i] == 4 && slot->incumbent != 0 &&
             (n_has == 0 || won.arm.n_channels != 0)) ||
            (quarters[i] == 1 && n_has != slot->max_channels / 2))
            continue;
        arm.n_channels = (uint8_t)n;
        if (stp_bandit_index(slot, &arm) < 0)
            (void)stp_bandit_add_arm(slot, &arm, STP_STAGE_CHANNELS,
                                     4.0 / quarters[i]);
    }
}

/* ---- which arms are left ---- */

/* Whether an arm competes with the incumbent at its stage. */
static bool decide_competes(const struct stp_bandit_slot *slot, unsigned arm)
{
    const struct stp_bandit_try *a = &slot->arms[arm];
    const struct stp_bandit_arm *pair =
        slot->incumbent == 0 ? &slot->own : &slot->arms[slot->incumbent].arm;

    if (arm == 0 || arm == slot->incumbent || a->is_banned)
        return false;
    return a->stage == STP_STAGE_PAIRS ||
           (a->arm.algo == pair->algo && a->arm.proto == pair->proto);
}

bool stp_bandit_is_left(const struct stp_bandit_slot *slot, unsigned arm)
{
    return !slot->arms[arm].is_out && slot->arms[arm].stage == slot->stage &&
           decide_competes(slot, arm);
}

static bool decide_any_left(const struct stp_bandit_slot *slot)
{
    for (unsigned i = 1; i < slot->n_arms; i++)
        if (stp_bandit_is_left(slot, i))
            return true;
    return false;
}

bool stp_bandit_is_odd(const struct stp_bandit_slot *slot, unsigned arm)
{
    return slot->arms[arm].n == 1 && slot->is_timed &&
           fabs(slot->arms[arm].mean) > slot->busy;
}

/* The fastest arm left that was tried; 0 if there is none. */
static unsigned decide_find_leader(const struct stp_bandit_slot *slot)
{
    unsigned leader = 0;

    for (unsigned i = 1; i < slot->n_arms; i++)
        if (stp_bandit_is_left(slot, i) && slot->arms[i].n > 0 &&
            !stp_bandit_is_odd(slot, i) &&
            (leader == 0 || slot->arms[i].mean > slot->arms[leader].mean))
            leader = i;
    return leader;
}

/* ---- verdicts ---- */

/* Whether an arm's gain is above the least that counts by 'z' errors. */
static bool decide_is_better(const struct stp_bandit *b,
                             const struct stp_bandit_try *arm, double z)
{
    return arm->mean - z * stp_bandit_error(b, arm) > log1p(b->rules.min_gain);
}

/* Whether an arm is told apart from the leader, or need not be. */
static bool decide_is_behind(const struct stp_bandit *b,
                             const struct stp_bandit_try *arm,
                             const struct stp_bandit_try *leader)
{
    double e = stp_bandit_error(b, arm), e_leader = stp_bandit_error(b, leader);
    double behind = leader->mean - arm->mean;

    return behind > z_out * (e + e_leader) ||
           (arm->n >= N_ALIKE && leader->n >= N_ALIKE &&
            behind + z_out * sqrt(e * e + e_leader * e_leader) < alike);
}

static unsigned decide_get_patience(const struct stp_bandit_slot *slot)
{
    return slot->patience != 0 ? slot->patience : N_SPENT;
}

/* Whether an arm may gain what counts, by 'z' errors. */
static bool decide_may_gain(const struct stp_bandit *b,
                            const struct stp_bandit_try *arm, double z)
{
    return arm->mean + z * stp_bandit_error(b, arm) > log1p(b->rules.min_gain);
}

/* An arm may be out by the noise as it was known, or for a leader that has
 * fallen back since: a search that was opened again judges all arms anew, and
 * goes on until the bound says that none gains what counts. */
static void decide_eliminate(const struct stp_bandit *b,
                             struct stp_bandit_slot *slot)
{
    const bool is_reopened = slot->patience != 0;
    const double z = is_reopened ? stp_bandit_z_bound : z_out;
    unsigned leader;

    for (unsigned i = 1; i < slot->n_arms; i++) {
        struct stp_bandit_try *arm = &slot->arms[i];

        if (arm->n > 0 && arm->stage == slot->stage &&
            decide_competes(slot, i) && (is_reopened || !arm->is_out))
            arm->is_out =
                !stp_bandit_is_odd(slot, i) && !decide_may_gain(b, arm, z);
    }
    leader = decide_find_leader(slot);
    for (unsigned i = 1; i < slot->n_arms; i++) {
        struct stp_bandit_try *arm = &slot->arms[i];

        if (arm->n == 0 || !stp_bandit_is_left(slot, i) ||
            stp_bandit_is_odd(slot, i))
            continue;
        arm->is_out =
            (arm->n >= decide_get_patience(slot) &&
             (i != leader || !decide_is_better(b, arm, z_hope))) ||
            (i != leader && decide_is_behind(b, arm, &slot->arms[leader]));
    }
}

unsigned stp_bandit_find_winner(const struct stp_bandit *bandit,
                                const struct stp_bandit_slot *slot)
{
    const unsigned leader = decide_find_leader(slot);
    const struct stp_bandit_try *arm = &slot->arms[leader];
    const bool is_once = bandit->rules.n_passes > 0; /* looked at */
    const double error = stp_bandit_error(bandit, arm);
    const bool is_wild = !is_once && error * sqrt(arm->n) > wild;
    /* more than the time that the key takes is no gain of its arms */
    const bool is_noise =
        slot->is_timed && arm->mean - z_out * error > -log1p(-slot->busy);

    return arm->n >= (is_wild ? N_ALIKE : STP_BLOCKS_TO_WIN) && !is_noise &&
                   decide_is_better(bandit, arm, is_once ? z_in : z_looks)
               ? leader
               : 0;
}

void stp_bandit_judge(struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                      uint64_t n_calls)
{
    unsigned leader;

    decide_eliminate(bandit, slot);
    leader = stp_bandit_find_winner(bandit, slot);
    if (leader != 0) {
        /* The leader becomes the incumbent, over which all gains are measured
         * from now on. */
        const struct stp_bandit_try won = slot->arms[leader];

        slot->incumbent_gain += won.mean;
        slot->incumbent_var +=
            stp_bandit_error(bandit, &won) * stp_bandit_error(bandit, &won);
        slot->incumbent_n = won.n;
        slot->incumbent = leader;
        slot->promoted = ++bandit->n_promoted;
        for (unsigned i = 0; i < slot->n_arms; i++)
            stp_bandit_shift_gains(&slot->arms[i], won.mean);
        decide_eliminate(bandit, slot);
    }
    if (decide_any_left(slot))
        return;
    if (bandit->rules.n_arms == 0) {
        slot->stage = STP_STAGE_CHANNELS;
        stp_bandit_add_channels(slot);
        decide_eliminate(bandit, slot);
        if (decide_any_left(slot))
            return;
    }

    /* The key settles. A re-test compares the winner with NCCL's own choice, or
     * NCCL's own choice, if that won, with the best arm that lost. */
    slot->is_settled = slot->was_settled = true;
    slot->retest_wait = bandit->rules.retest_calls;
    slot->retest_at = n_calls + slot->retest_wait;
    slot->runner_up = 0;
    for (unsigned i = 1; i < slot->n_arms && slot->incumbent == 0; i++)
        if (!slot->arms[i].is_banned && slot->arms[i].n > 0 &&
            (slot->runner_up == 0 ||
             slot->arms[i].mean > slot->arms[slot->runner_up].mean))
            slot->runner_up = i;
}

/* ---- searches that start over ---- */

void stp_bandit_restart(struct stp_bandit_slot *slot)
{
    for (unsigned i = 0; i < slot->n_arms; i++) {
        slot->arms[i].is_out = slot->arms[i].is_banned;
        stp_bandit_set_gains(&slot->arms[i], 0, 0, 0);
    }
    slot->stage = STP_STAGE_PAIRS;
    slot->incumbent = 0;
    slot->incumbent_gain = slot->incumbent_var = 0;
    slot->is_settled = slot->is_retesting = false;
}

void stp_bandit_end_retest(const struct stp_bandit *bandit,
                           struct stp_bandit_slot *slot, uint64_t n_calls)
{
    if (slot->retest.n > 0 && decide_is_better(bandit, &slot->retest, z_flip)) {
        stp_bandit_restart(slot);
        return;
    }
    slot->is_retesting = false;
    if (slot->retest_wait < RETEST_MAX)
        slot->retest_wait *= 2;
    slot->retest_at = n_calls + slot->retest_wait;
}

void stp_bandit_reopen(struct stp_bandit *bandit)
{
    bandit->n_reopened += bandit->n_reopened < REOPEN_MAX;
    for (unsigned k = 0; k < bandit->n_keys; k++) {
        struct stp_bandit_slot *slot = bandit->keys[k];

        if (slot == NULL || slot->share == 0)
            continue;
        for (unsigned i = 1; i < slot->n_arms; i++) {
            if (slot->arms[i].n == 0 || !decide_competes(slot, i) ||
                !decide_may_gain(bandit, &slot->arms[i], stp_bandit_z_bound))
                continue;
            if (slot->arms[i].stage == STP_STAGE_PAIRS)
                slot->stage = STP_STAGE_PAIRS;
            slot->is_settled = false;
        }
        if (slot->is_settled)
            continue;
        slot->patience = 2 * decide_get_patience(slot);
        decide_eliminate(bandit, slot);
    }
}

void stp_bandit_drop_newest(struct stp_bandit *bandit)
{
    struct stp_bandit_slot *newest = NULL;

    for (unsigned i = 0; i < bandit->n_keys; i++) {
        struct stp_bandit_slot *slot = bandit->keys[i];

        if (slot != NULL && slot->incumbent != 0 &&
            (newest == NULL || slot->promoted > newest->promoted))
            newest = slot;
    }
    if (newest == NULL)
        return;
    newest->arms[newest->incumbent].is_banned = true;
    stp_bandit_restart(newest);
}
