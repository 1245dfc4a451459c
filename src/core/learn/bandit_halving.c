#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/learn/bandit_state.h"
#include "core/stats.h"

/*
 * Windows of a PyTorch job on 2 x H200 that the GPU bounds vary by 0.2 percent
 * about a gain of 1 to 5 percent, and one block in fifty is disturbed: most
 * arms are out after one block.
 */
enum {
    N_WIN = 5,    /* blocks of an arm before it wins */
    N_SPENT = 48, /* see halving_patience() */
    N_ALIKE = 16, /* blocks of each, after which arms may count as equal */
    N_RETEST = 4, /* blocks of a re-test */
    RETEST_MAX = 1 << 20, /* calls between two re-tests */
    REOPEN_MAX = 16,      /* times that a search is opened again */
};

static const double z_in = 3;   /* 95 percent each of 20 arms: 0.05 / 20 */
static const double z_out = 2;  /* arm is worse; most are, and few by little */
static const double z_hope = 1; /* arm is promising */
static const double z_flip = 2.6;    /* 99 percent: re-tests are frequent */
static const double alike = 0.001;   /* gains that count as equal */
static const double ratio_min = 1.1; /* limits of a ratio that the cost table */
static const double ratio_max = 2.5; /* predicts */

/* ---- which arms are left ---- */

static bool halving_same_pair(const struct stp_bandit_arm *a,
                              const struct stp_bandit_arm *b)
{
    return a->algo == b->algo && a->proto == b->proto;
}

/* Whether an arm is still to be told apart from the incumbent. */
static bool halving_is_left(const struct stp_bandit_slot *slot, unsigned i)
{
    const struct stp_bandit_try *arm = &slot->arms[i];
    const struct stp_bandit_arm *pair =
        slot->incumbent == 0 ? &slot->own : &slot->arms[slot->incumbent].arm;

    if (i == 0 || i == slot->incumbent || arm->is_out ||
        arm->stage != slot->stage)
        return false;
    return arm->stage == STP_STAGE_PAIRS || halving_same_pair(&arm->arm, pair);
}

/* The fastest arm left that was tried; 0 if there is none. */
static unsigned halving_leader(const struct stp_bandit_slot *slot)
{
    unsigned leader = 0;

    for (unsigned i = 1; i < slot->n_arms; i++)
        if (halving_is_left(slot, i) && slot->arms[i].n > 0 &&
            (leader == 0 || slot->arms[i].mean > slot->arms[leader].mean))
            leader = i;
    return leader;
}

static bool halving_any_left(const struct stp_bandit_slot *slot)
{
    for (unsigned i = 1; i < slot->n_arms; i++)
        if (halving_is_left(slot, i))
            return true;
    return false;
}

/* ---- verdicts ---- */

double stp_bandit_least_gain(const struct stp_bandit *bandit)
{
    return exp(log1p(bandit->rules.min_gain) +
               z_in * bandit->noise / sqrt(N_SPENT));
}

/* Whether an arm's gain is above the least that counts by 'z' errors. */
static bool halving_is_better(const struct stp_bandit *b,
                              const struct stp_bandit_try *arm, double z)
{
    return arm->mean - z * stp_bandit_error(b, arm) > log1p(b->rules.min_gain);
}

/* Whether two arms are told apart, or need not be. */
static bool halving_is_behind(const struct stp_bandit *b,
                              const struct stp_bandit_try *arm,
                              const struct stp_bandit_try *leader)
{
    double e = stp_bandit_error(b, arm), e_leader = stp_bandit_error(b, leader);
    double behind = leader->mean - arm->mean;

    return behind > z_out * (e + e_leader) ||
           (arm->n >= N_ALIKE && leader->n >= N_ALIKE &&
            behind + z_out * sqrt(e * e + e_leader * e_leader) < alike);
}

static bool halving_must_go(const struct stp_bandit *b,
                            const struct stp_bandit_slot *slot, unsigned i,
                            unsigned leader)
{
    const struct stp_bandit_try *arm = &slot->arms[i];

    if (arm->mean + z_out * stp_bandit_error(b, arm) <=
        log1p(b->rules.min_gain))
        return true;
    if (i != leader && halving_is_behind(b, arm, &slot->arms[leader]))
        return true;
    return false;
}

/* Blocks of an arm, after which it is out unless it leads with promise. */
static unsigned halving_patience(const struct stp_bandit_slot *slot)
{
    return slot->patience != 0 ? slot->patience : N_SPENT;
}

/* Whether too many blocks were spent on an arm that does not lead with promise.
 */
static bool halving_is_spent(const struct stp_bandit *b,
                             const struct stp_bandit_slot *slot, unsigned i,
                             unsigned leader)
{
    const struct stp_bandit_try *arm = &slot->arms[i];

    return arm->n >= halving_patience(slot) &&
           (i != leader || !halving_is_better(b, arm, z_hope));
}

static void halving_eliminate(const struct stp_bandit *b,
                              struct stp_bandit_slot *slot)
{
    unsigned leader = halving_leader(slot);

    for (unsigned i = 1; i < slot->n_arms; i++)
        if (slot->arms[i].n > 0 && halving_is_left(slot, i)) {
            slot->arms[i].is_spent = halving_is_spent(b, slot, i, leader);
            slot->arms[i].is_out =
                slot->arms[i].is_spent || halving_must_go(b, slot, i, leader);
        }
}

/* The leader becomes the incumbent: the others' gains are over it from now on.
 */
static void halving_promote(struct stp_bandit *b, struct stp_bandit_slot *slot,
                            unsigned leader)
{
    const struct stp_bandit_try arm = slot->arms[leader];

    slot->incumbent_gain += arm.mean;
    slot->incumbent_var +=
        stp_bandit_error(b, &arm) * stp_bandit_error(b, &arm);
    slot->incumbent_n = arm.n;
    slot->incumbent = leader;
    slot->promoted = ++b->n_promoted;
    for (unsigned i = 0; i < slot->n_arms; i++)
        stp_bandit_shift_gains(&slot->arms[i], arm.mean);
}

/* The arm with the most promise of those that lost. */
static unsigned halving_runner_up(const struct stp_bandit_slot *slot)
{
    unsigned best = 0;

    for (unsigned i = 1; i < slot->n_arms; i++)
        if (i != slot->incumbent && !slot->arms[i].is_banned &&
            slot->arms[i].n > 0 &&
            (best == 0 || slot->arms[i].mean > slot->arms[best].mean))
            best = i;
    return best;
}

static void halving_settle(const struct stp_bandit *b,
                           struct stp_bandit_slot *slot, uint64_t n_calls)
{
    slot->is_settled = slot->was_settled = true;
    slot->retest_wait = b->rules.retest_calls;
    slot->retest_at = n_calls + slot->retest_wait;
    slot->runner_up = slot->incumbent != 0 ? 0 : halving_runner_up(slot);
}

static void halving_judge(struct stp_bandit *b, struct stp_bandit_slot *slot,
                          uint64_t n_calls)
{
    unsigned leader;

    halving_eliminate(b, slot);
    leader = halving_leader(slot);
    if (leader != 0 && slot->arms[leader].n >= N_WIN &&
        halving_is_better(b, &slot->arms[leader], z_in)) {
        halving_promote(b, slot, leader);
        halving_eliminate(b, slot);
    }
    if (halving_any_left(slot))
        return;
    if (slot->stage == STP_STAGE_PAIRS && b->rules.n_arms == 0) {
        slot->stage = STP_STAGE_CHANNELS;
        stp_bandit_add_channels(slot);
        if (halving_any_left(slot))
            return;
    }
    halving_settle(b, slot, n_calls);
}

/* ---- re-tests ---- */

/* What was found is no longer so: all begins anew. */
static void halving_restart(struct stp_bandit_slot *slot)
{
    for (unsigned i = 0; i < slot->n_arms; i++) {
        slot->arms[i].is_out = slot->arms[i].is_banned;
        slot->arms[i].is_spent = false;
        stp_bandit_set_gains(&slot->arms[i], 0, 0, 0);
    }
    slot->stage = STP_STAGE_PAIRS;
    slot->incumbent = 0;
    slot->incumbent_gain = slot->incumbent_var = 0;
    slot->is_settled = slot->is_retesting = false;
}

static void halving_end_retest(const struct stp_bandit *b,
                               struct stp_bandit_slot *slot, unsigned arm,
                               uint64_t n_calls)
{
    if (slot->arms[arm].n > 0 &&
        halving_is_better(b, &slot->arms[arm], z_flip)) {
        halving_restart(slot);
        return;
    }
    slot->is_retesting = false;
    if (slot->retest_wait < RETEST_MAX)
        slot->retest_wait *= 2;
    slot->retest_at = n_calls + slot->retest_wait;
}

static bool halving_may_retest(const struct stp_bandit *b,
                               const struct stp_bandit_slot *slot)
{
    return b->rules.retest_calls != 0 && slot->incumbent != slot->runner_up &&
           !slot->arms[slot->runner_up].is_banned;
}

/* ---- searches that go on ---- */

/* Opens a settled key's search again if arms were out for want of blocks alone:
 * they get as many once more. */
static void halving_reopen_key(struct stp_bandit_slot *slot)
{
    bool any = false;

    for (unsigned i = 1; i < slot->n_arms; i++) {
        struct stp_bandit_try *arm = &slot->arms[i];

        if (!arm->is_spent || i == slot->incumbent)
            continue;
        if (arm->stage == STP_STAGE_PAIRS)
            slot->stage = STP_STAGE_PAIRS;
        arm->is_out = arm->is_spent = false;
        any = true;
    }
    if (any) {
        slot->patience = 2 * halving_patience(slot);
        slot->is_settled = false;
    }
}

static void halving_reopen(struct stp_bandit *b)
{
    b->n_reopened += b->n_reopened < REOPEN_MAX;
    for (unsigned i = 0; i < b->n_keys; i++)
        if (b->keys[i] != NULL && b->keys[i]->share > 0)
            halving_reopen_key(b->keys[i]);
}

/* ---- blocks ---- */

static void halving_take_gain(struct stp_bandit *b,
                              struct stp_bandit_slot *slot,
                              struct stp_bandit_try *arm,
                              const struct stp_block *block)
{
    const double lost = stp_bandit_block_loss(b, block);

    if (!slot->was_settled)
        slot->n_calls += STP_BLOCK_WINDOWS * (uint64_t)block->trial.n_calls;
    slot->lost += lost;
    b->lost += lost;
    stp_bandit_add_spreads(b, block);
    if (!stp_bandit_is_disturbed(b, block))
        stp_bandit_add_gain(b, arm, block->gain);
}

void stp_bandit_block(struct stp_bandit *bandit, const struct stp_block *block,
                      uint64_t n_calls)
{
    struct stp_bandit_slot *slot = block->trial.key < STP_BANDIT_KEYS
                                       ? bandit->keys[block->trial.key]
                                       : NULL;
    struct stp_bandit_try *arm;

    if (block->trial.key == STP_BANDIT_SET)
        stp_bandit_set_block(bandit, block);
    if (slot == NULL || block->trial.arm >= slot->n_arms)
        return;
    arm = &slot->arms[block->trial.arm];
    if (arm->is_pending)
        bandit->pending -= arm->pending_us;
    if (block->is_last)
        arm->is_pending = false;
    if (block->is_complete && block->trial.base == slot->incumbent)
        halving_take_gain(bandit, slot, arm, block);
    if (!slot->is_settled)
        halving_judge(bandit, slot, n_calls);
    else if (slot->is_retesting && block->is_last)
        halving_end_retest(bandit, slot, block->trial.arm, n_calls);
}

void stp_bandit_recall(struct stp_bandit *bandit, unsigned key,
                       const struct stp_bandit_arm *arm, uint32_t n,
                       double log_gain, double log_ss)
{
    struct stp_bandit_slot *slot =
        key < STP_BANDIT_KEYS ? bandit->keys[key] : NULL;
    struct stp_bandit_try *known;
    int i;

    if (slot == NULL || bandit->rules.strategy != STP_STRATEGY_HALVING)
        return;
    i = stp_bandit_index(slot, arm);
    if (i > 0)
        known = &slot->arms[i];
    else if (i < 0 && arm->n_channels != 0)
        known = stp_bandit_add_arm(slot, arm, STP_STAGE_CHANNELS, 1);
    else
        known = NULL;
    if (known == NULL || known->n != 0)
        return;
    stp_bandit_set_gains(known, n, log_gain, log_ss);
}

/* ---- what to run ---- */

/* Those of the trial after 'n' blocks: most arms need one. */
static unsigned halving_n_blocks(const struct stp_bandit_slot *slot, unsigned n)
{
    if (slot->is_settled)
        return N_RETEST;
    return n == 0 ? 1 : n < N_WIN ? 4 : STP_TRIAL_BLOCKS;
}

/* The arm of a key's next trial; the incumbent if there is none now. */
static unsigned halving_next_arm(const struct stp_bandit *b,
                                 const struct stp_bandit_slot *slot,
                                 uint64_t n_calls)
{
    unsigned next = slot->incumbent;

    if (slot->is_settled)
        return halving_may_retest(b, slot) && n_calls >= slot->retest_at &&
                       !slot->arms[slot->runner_up].is_pending
                   ? slot->runner_up
                   : slot->incumbent;
    for (unsigned i = 1; i < slot->n_arms; i++)
        if (halving_is_left(slot, i) && !slot->arms[i].is_pending &&
            (next == slot->incumbent || slot->arms[i].n < slot->arms[next].n))
            next = i;
    return next;
}

/* The expected loss of a block, us. */
static double halving_expected_loss(const struct stp_bandit *b,
                                    const struct stp_bandit_slot *slot,
                                    const struct stp_bandit_try *arm,
                                    double call_us)
{
    double ratio = fmin(fmax(arm->ratio, ratio_min), ratio_max);
    double loss = slot->share * slot->own_us * (ratio - 1);

    if (arm->n > 0 || slot->own_us == 0 || arm == slot->arms)
        loss = b->window * call_us * fmax(exp(-arm->mean) - 1, 0);
    return 2 * loss;
}

static bool halving_is_open(const struct stp_bandit *b,
                            const struct stp_bandit_slot *slot,
                            uint64_t n_calls)
{
    if (slot == NULL || slot->share == 0)
        return false;
    return !slot->is_settled || slot->is_retesting ||
           (halving_may_retest(b, slot) && n_calls >= slot->retest_at);
}

/* The key to search: the same as before until it has settled, then that with
 * the most time. */
static int halving_find_key(const struct stp_bandit *b, uint64_t n_calls)
{
    int best = -1;

    for (unsigned i = 0; i < b->n_keys; i++) {
        const struct stp_bandit_slot *slot = b->keys[i];

        if (!halving_is_open(b, slot, n_calls))
            continue;
        if (i == b->active)
            return (int)i;
        if (best < 0 || slot->share * slot->own_us >
                            b->keys[best]->share * b->keys[best]->own_us)
            best = (int)i;
    }
    return best;
}

/* A key that runs another arm than its incumbent; -1: none does. */
static int halving_find_switch(const struct stp_bandit *b)
{
    for (unsigned i = 0; i < b->n_keys; i++)
        if (b->keys[i] != NULL && b->keys[i]->running != b->keys[i]->incumbent)
            return (int)i;
    return -1;
}

/* Chooses the key to search; STP_BANDIT_KEYS: none.  Of a key without arms
 * nothing is left; of others earlier runs may know enough. */
static void halving_choose_key(struct stp_bandit *b, uint64_t n_calls)
{
    int key = halving_find_key(b, n_calls);
    bool is_new = key >= 0 && b->active != (unsigned)key;

    b->active = key >= 0 ? (unsigned)key : STP_BANDIT_KEYS;
    if (key >= 0 && !b->keys[key]->is_settled &&
        (is_new || !halving_any_left(b->keys[key])))
        halving_judge(b, b->keys[key], n_calls);
}

static bool halving_want_trial(struct stp_bandit *b,
                               const struct stp_bandit_clock *clock,
                               struct stp_bandit_want *want_ret)
{
    struct stp_bandit_slot *slot;
    struct stp_bandit_try *arm;
    unsigned next, n_blocks;

    if (b->active == STP_BANDIT_KEYS)
        return false;
    slot = b->keys[b->active];
    next = halving_next_arm(b, slot, clock->n_calls);
    if (next == slot->incumbent)
        return false;
    arm = &slot->arms[next];
    n_blocks = halving_n_blocks(slot, arm->n);
    arm->pending_us = halving_expected_loss(b, slot, arm, clock->call_us);
    if (fmax(b->lost, 0) + b->pending + n_blocks * arm->pending_us >
        b->rules.budget * (double)clock->n_calls * clock->call_us)
        return false;
    *want_ret = (struct stp_bandit_want){
        .key = b->active, .arm = next, .n_blocks = n_blocks};
    return true;
}

static bool halving_want(struct stp_bandit *bandit,
                         const struct stp_bandit_clock *clock,
                         struct stp_bandit_want *want_ret)
{
    int key;

    halving_choose_key(bandit, clock->n_calls);
    if (bandit->active == STP_BANDIT_KEYS && bandit->rules.persists &&
        stp_bandit_set_has(bandit, STP_CONFIRM_LEAST << bandit->n_reopened))
        halving_reopen(bandit);
    key = halving_find_switch(bandit);
    if (key < 0)
        return halving_want_trial(bandit, clock, want_ret) ||
               stp_bandit_set_wants(bandit, clock, want_ret);
    *want_ret = (struct stp_bandit_want){.key = (unsigned)key,
                                         .arm = bandit->keys[key]->incumbent};
    return true;
}

static bool halving_awaits(const struct stp_bandit *bandit,
                           const struct stp_bandit_slot *slot, uint64_t n_calls)
{
    return halving_is_open(bandit, slot, n_calls);
}

static void halving_began(struct stp_bandit *bandit,
                          struct stp_bandit_slot *slot,
                          const struct stp_bandit_want *now)
{
    struct stp_bandit_try *arm = &slot->arms[now->arm];

    if (now->n_blocks == 0) {
        if (slot->running != now->arm)
            stp_bandit_set_renew(bandit);
        slot->running = now->arm;
        return;
    }
    if (slot->is_settled && !slot->is_retesting) {
        slot->is_retesting = true;
        stp_bandit_set_gains(arm, 0, 0, 0);
    }
    arm->is_pending = true;
    bandit->pending += now->n_blocks * arm->pending_us;
}

/* What has settled is tested again, and the search for others begins anew. */
void stp_bandit_halving_renew(struct stp_bandit *bandit)
{
    for (unsigned i = 0; i < bandit->n_keys; i++) {
        struct stp_bandit_slot *slot = bandit->keys[i];

        if (slot == NULL)
            continue;
        if (!slot->is_settled)
            halving_restart(slot);
        slot->retest_at = 0;
        slot->retest_wait = bandit->rules.retest_calls;
    }
    stp_bandit_set_renew(bandit);
}

/* The newest of the incumbents is out for good, or it would win its search and
 * be dropped again and again. */
void stp_bandit_halving_drop(struct stp_bandit *bandit)
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
    halving_restart(newest);
}

static void halving_verdict(const struct stp_bandit_slot *slot,
                            struct stp_bandit_key_state *state)
{
    double half;

    state->best = slot->incumbent;
    state->is_settled = slot->is_settled;
    if (slot->incumbent == 0 || slot->incumbent_n < 2)
        return;
    half = stp_t975(slot->incumbent_n - 1) * sqrt(slot->incumbent_var);
    state->gain = exp(slot->incumbent_gain);
    state->gain_low = exp(slot->incumbent_gain - half);
    state->gain_high = exp(slot->incumbent_gain + half);
}

const struct stp_strategy_ops stp_bandit_halving = {
    .want = halving_want,
    .awaits = halving_awaits,
    .began = halving_began,
    .verdict = halving_verdict,
};
