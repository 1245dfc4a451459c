/* bandit_search.c - HALVING: which arm to try next, and with which others */
#include "core/learn/bandit_search.h"

#include <math.h>

#include "core/learn/proposal.h"
#include "core/stats.h"

enum { N_RETEST = 4 }; /* blocks of a re-test */

static const double ratio_min = 1.1; /* limits of a ratio that the cost table */
static const double ratio_max = 2.5; /* predicts */

/* Trials of the set lose the gain of all incumbents while NCCL's own choice
 * takes its turns, so they get only a share of the budget. */
static const double set_budget = 0.2;
static const double first_look = 8; /* at an arm, over another: of weights */
static const double z_drop = 2;

/* ---- HALVING: which searches are open ---- */

static bool search_may_retest(const struct stp_bandit *b,
                              const struct stp_bandit_slot *slot,
                              uint64_t n_calls)
{
    return b->rules.retest_calls != 0 && slot->incumbent != slot->runner_up &&
           !slot->arms[slot->runner_up].is_banned && n_calls >= slot->retest_at;
}

bool stp_bandit_is_hopeless(const struct stp_bandit *b,
                            const struct stp_bandit_slot *slot)
{
    return slot->is_timed && slot->incumbent == 0 &&
           -log1p(-slot->busy) <= log1p(b->rules.min_gain);
}

bool stp_bandit_is_open(const struct stp_bandit *b,
                        const struct stp_bandit_slot *slot, uint64_t n_calls)
{
    return slot != NULL && slot->share != 0 &&
           !stp_bandit_is_hopeless(b, slot) &&
           (!slot->is_settled || slot->is_retesting ||
            search_may_retest(b, slot, n_calls));
}

/* ---- HALVING: the set of incumbents, against NCCL's own choice ---- */

/* The standard error of the gain of two blocks or more. */
static double set_error(const struct stp_bandit_set *set)
{
    return sqrt(set->gain.ss / (set->gain.n - 1) / set->gain.n);
}

static bool set_is_empty(const struct stp_bandit *b)
{
    for (unsigned i = 0; i < b->n_keys; i++)
        if (b->keys[i] != NULL && b->keys[i]->share > 0 &&
            b->keys[i]->incumbent != 0)
            return false;
    return true;
}

/* Whether a trial of the set is wanted, beside the blocks of it under way. */
static bool set_wants(struct stp_bandit *b,
                      const struct stp_bandit_clock *clock,
                      struct stp_bandit_want *want_ret)
{
    struct stp_bandit_set *set = &b->set;
    double gain = 0, n_windows;
    unsigned n_calls;

    if (set->gain.n + set->n_pending >= b->rules.confirm_blocks ||
        set->is_dropped || set_is_empty(b) || !(clock->call_us > 0))
        return false;
    /* A search under way would change the set. */
    for (unsigned i = 0; i < b->n_keys; i++)
        if (stp_bandit_is_open(b, b->keys[i], 0))
            return false;

    /* Without blocks the set's expected gain is the sum of its incumbents'. */
    if (set->gain.n > 0)
        gain = set->gain.mean;
    else
        for (unsigned i = 0; i < b->n_keys; i++)
            if (b->keys[i] != NULL && b->keys[i]->share > 0)
                gain += b->keys[i]->incumbent_gain;

    /* The set's window has whole windows of the search, and lasts confirm_us or
     * longer. */
    n_windows = ceil(b->rules.confirm_us / (b->window * clock->call_us));
    n_calls = b->window * (unsigned)fmin(fmax(n_windows, 1),
                                         (double)(STP_CONFIRM_MAX / b->window));
    set->block_us = 4 * n_calls * clock->call_us * fmax(exp(gain) - 1, 0);
    if (fmax(b->lost, 0) + b->pending + set->block_us >
        set_budget * b->rules.budget * (double)clock->n_calls * clock->call_us)
        return false;
    *want_ret = (struct stp_bandit_want){
        .key = STP_BANDIT_SET, .n_blocks = 1, .n_calls = n_calls};
    return true;
}

void stp_bandit_renew_set(struct stp_bandit *bandit)
{
    bandit->set.number++;
    bandit->set.is_dropped = false;
    bandit->set.gain = (struct stp_bandit_try){0};
}

void stp_bandit_take_set_block(struct stp_bandit *b,
                               const struct stp_block *block)
{
    struct stp_bandit_set *set = &b->set;
    /* of each window that counts, and one before it */
    const double lost = 2 * stp_bandit_block_loss(b, block);
    /* Blocks under way may differ in expected losses; only the sum is exact. */
    double us = set->n_pending > 0 ? set->pending_us / set->n_pending : 0;

    set->n_pending -= set->n_pending > 0;
    set->pending_us -= us;
    b->pending -= us;
    if (!block->is_complete || block->trial.base != set->number)
        return;
    b->lost += lost;
    stp_bandit_add_gain(b, &set->gain, -block->gain);
    if (set->gain.n < STP_CONFIRM_LEAST || set->is_dropped ||
        set->gain.mean >= -z_drop * set_error(set))
        return;
    set->is_dropped = true;
    stp_bandit_drop_newest(b);
}

struct stp_bandit_set_state stp_bandit_get_set(const struct stp_bandit *bandit)
{
    const struct stp_bandit_set *set = &bandit->set;
    struct stp_bandit_set_state state = {.number = set->number,
                                         .n_blocks = set->gain.n,
                                         .is_dropped = set->is_dropped,
                                         .gain = exp(set->gain.mean),
                                         .gain_low = 0,
                                         .gain_high = INFINITY};
    double half;

    state.is_confirmed = set->gain.n >= STP_CONFIRM_LEAST;
    if (set->gain.n < 2)
        return state;
    half = stp_t975(set->gain.n - 1) * set_error(set);
    state.gain_low = exp(set->gain.mean - half);
    state.gain_high = exp(set->gain.mean + half);
    return state;
}

/* ---- HALVING: the search of a key ---- */

/* The arm of a key's next trial; the incumbent if there is none now. */
static unsigned search_next_arm(const struct stp_bandit *b,
                                const struct stp_bandit_slot *slot,
                                uint64_t n_calls)
{
    unsigned next = slot->incumbent;

    if (slot->is_settled)
        return search_may_retest(b, slot, n_calls) &&
                       !slot->arms[slot->runner_up].is_pending
                   ? slot->runner_up
                   : slot->incumbent;
    for (unsigned i = 1; i < slot->n_arms; i++)
        if (stp_bandit_is_left(slot, i) && !slot->arms[i].is_pending &&
            (next == slot->incumbent || slot->arms[i].n < slot->arms[next].n))
            next = i;
    return next;
}

/* Whether a search of some key is open, or a re-test if 'settled' says so. */
static bool search_is_any_open(const struct stp_bandit *b, bool settled,
                               uint64_t n_calls)
{
    for (unsigned i = 0; i < b->n_keys; i++)
        if (stp_bandit_is_open(b, b->keys[i], n_calls) &&
            (settled || !b->keys[i]->is_settled))
            return true;
    return false;
}

/* Whether an arm needs more than a look, and may share windows. */
static bool search_may_share(const struct stp_bandit *b, unsigned key,
                             unsigned arm)
{
    const struct stp_bandit_slot *slot = b->keys[key];

    return !slot->is_settled && arm != slot->incumbent &&
           slot->arms[arm].n > 0 && slot->arms[arm].is_known &&
           !stp_bandit_is_odd(slot, arm) && key < STP_SHARED_KEYS &&
           arm < STP_SHARED_ARMS && b->window <= STP_SHARED_MAX;
}

/* The key with the most time of those that have an arm to try, and of settled
 * keys only once no search is open.  STP_BANDIT_KEYS: none. */
static unsigned search_choose_key(const struct stp_bandit *b, uint64_t n_calls)
{
    const bool settled = !search_is_any_open(b, false, n_calls);
    unsigned best = STP_BANDIT_KEYS;
    double most = 0;

    for (unsigned i = 0; i < b->n_keys; i++) {
        const struct stp_bandit_slot *slot = b->keys[i];
        unsigned next;
        double weight;

        if (!stp_bandit_is_open(b, slot, n_calls) ||
            slot->is_settled != settled)
            continue;
        next = search_next_arm(b, slot, n_calls);
        /* the time that it takes: measured, or by NCCL's cost table */
        weight = (slot->is_timed ? slot->busy : slot->share * slot->own_us) *
                 (slot->arms[next].n == 0 ? first_look : 1);
        if (next == slot->incumbent ||
            (best != STP_BANDIT_KEYS && weight <= most))
            continue;
        best = i;
        most = weight;
    }
    return best;
}

/* A block's expected loss is NCCL's cost table's until it was measured. */
static double search_expect_loss(const struct stp_bandit *b,
                                 const struct stp_bandit_slot *slot,
                                 unsigned next, double call_us)
{
    struct stp_bandit_try *arm = &slot->arms[next];
    double loss = slot->share * slot->own_us *
                  (fmin(fmax(arm->ratio, ratio_min), ratio_max) - 1);

    if (!stp_bandit_is_odd(slot, next) &&
        (arm->n > 0 || slot->own_us == 0 || next == 0))
        loss = b->window * call_us * fmax(exp(-arm->mean) - 1, 0);
    return arm->pending_us = 2 * loss;
}

/* Lets other keys' arms share the windows of an arm that needs more than one
 * block; returns the expected loss of all. */
static double search_join(const struct stp_bandit *b,
                          const struct stp_bandit_clock *clock,
                          struct stp_bandit_want *want)
{
    double loss =
        search_expect_loss(b, b->keys[want->key], want->arm, clock->call_us);

    for (unsigned i = 0; i < b->n_keys && want->n_mates < STP_TRIAL_MATES - 1 &&
                         search_may_share(b, want->key, want->arm);
         i++) {
        unsigned arm;

        if (i == want->key ||
            !stp_bandit_is_open(b, b->keys[i], clock->n_calls))
            continue;
        arm = search_next_arm(b, b->keys[i], clock->n_calls);
        if (!search_may_share(b, i, arm))
            continue;
        want->mates[want->n_mates].key = i;
        want->mates[want->n_mates++].arm = arm;
        want->n_blocks = STP_TRIAL_BLOCKS;
        loss += search_expect_loss(b, b->keys[i], arm, clock->call_us);
    }
    return want->n_blocks * loss;
}

static bool search_want_trial(const struct stp_bandit *b,
                              const struct stp_bandit_clock *clock,
                              struct stp_bandit_want *want_ret)
{
    struct stp_bandit_want want = {.key = search_choose_key(b, clock->n_calls)};
    const struct stp_bandit_slot *slot;
    const struct stp_bandit_try *arm;

    if (want.key == STP_BANDIT_KEYS)
        return false;
    slot = b->keys[want.key];
    want.arm = search_next_arm(b, slot, clock->n_calls);
    arm = &slot->arms[want.arm];

    /* One block decides about most arms. */
    want.n_blocks = slot->is_settled ? N_RETEST
                    : arm->n == 0 || stp_bandit_is_odd(slot, want.arm) ? 1
                    : arm->n < STP_BLOCKS_TO_WIN                       ? 4
                                                 : STP_TRIAL_BLOCKS;
    if (fmax(b->lost, 0) + b->pending + search_join(b, clock, &want) >
        b->rules.budget * (double)clock->n_calls * clock->call_us)
        return false;
    *want_ret = want;
    return true;
}

bool stp_bandit_search(struct stp_bandit *b,
                       const struct stp_bandit_clock *clock,
                       struct stp_bandit_want *want_ret)
{
    const bool is_any_open = search_is_any_open(b, true, clock->n_calls);

    /* A key without arms settles at once, and so does one of which earlier runs
     * know enough. */
    for (unsigned i = 0; i < b->n_keys; i++)
        if (stp_bandit_is_open(b, b->keys[i], clock->n_calls) &&
            !b->keys[i]->is_settled)
            stp_bandit_judge(b, b->keys[i], clock->n_calls);
    if (!is_any_open && b->rules.persists &&
        (b->set.gain.n >= (unsigned)STP_CONFIRM_LEAST << b->n_reopened ||
         b->set.is_dropped || set_is_empty(b)))
        stp_bandit_reopen(b);
    for (unsigned i = 0; i < b->n_keys; i++)
        if (b->keys[i] != NULL &&
            b->keys[i]->running != b->keys[i]->incumbent) {
            *want_ret = (struct stp_bandit_want){.key = i,
                                                 .arm = b->keys[i]->incumbent};
            return true;
        }
    return (is_any_open && search_want_trial(b, clock, want_ret)) ||
           set_wants(b, clock, want_ret);
}
