/* bandit_set.c - the incumbents of all keys together, against NCCL's own choice
 */
#include <math.h>

#include "core/learn/bandit_state.h"
#include "core/learn/proposal.h"
#include "core/stats.h"

/* While NCCL's own choice takes its turns, steps are as long as before. */
static const double budget_share = 0.2;

static const double z_drop = 2;

/* The standard error of the gain of two blocks or more. */
static double set_error(const struct stp_bandit_set *set)
{
    return sqrt(set->gain.ss / (set->gain.n - 1) / set->gain.n);
}

/* A search under way would change the set. */
static bool set_is_searched(const struct stp_bandit *b)
{
    const struct stp_bandit_slot *slot =
        b->active < b->n_keys ? b->keys[b->active] : NULL;

    return slot != NULL && slot->share > 0 &&
           (!slot->is_settled || slot->is_retesting);
}

/* The logarithm of what the incumbents gain, each by itself; 0 if there are
 * none. */
static double set_sum_gains(const struct stp_bandit *b)
{
    double sum = 0;

    for (unsigned i = 0; i < b->n_keys; i++)
        if (b->keys[i] != NULL && b->keys[i]->share > 0)
            sum += b->keys[i]->incumbent_gain;
    return sum;
}

static bool set_is_empty(const struct stp_bandit *b)
{
    for (unsigned i = 0; i < b->n_keys; i++)
        if (b->keys[i] != NULL && b->keys[i]->share > 0 &&
            b->keys[i]->incumbent != 0)
            return false;
    return true;
}

/* Whether another block is wanted beside those under way. */
static bool set_is_wanted(const struct stp_bandit *b)
{
    return b->set.gain.n + b->set.n_pending < b->rules.confirm_blocks &&
           !b->set.is_dropped && !set_is_searched(b) && !set_is_empty(b);
}

/* Whole windows of the search, for as long as the rules say. */
static unsigned set_window_calls(const struct stp_bandit *b, double call_us)
{
    const unsigned n_most = STP_CONFIRM_MAX / b->window;
    double n = ceil(b->rules.confirm_us / (b->window * call_us));

    return b->window * (unsigned)fmin(fmax(n, 1), n_most);
}

bool stp_bandit_set_wants(struct stp_bandit *bandit,
                          const struct stp_bandit_clock *clock,
                          struct stp_bandit_want *want_ret)
{
    struct stp_bandit_set *set = &bandit->set;
    double gain = set->gain.n > 0 ? set->gain.mean : set_sum_gains(bandit);
    unsigned n_calls;

    if (!set_is_wanted(bandit) || !(clock->call_us > 0))
        return false;
    n_calls = set_window_calls(bandit, clock->call_us);
    set->block_us = 4 * n_calls * clock->call_us * fmax(exp(gain) - 1, 0);
    if (fmax(bandit->lost, 0) + bandit->pending + set->block_us >
        budget_share * bandit->rules.budget * (double)clock->n_calls *
            clock->call_us)
        return false;
    *want_ret = (struct stp_bandit_want){
        .key = STP_BANDIT_SET, .n_blocks = 1, .n_calls = n_calls};
    return true;
}

bool stp_bandit_set_has(const struct stp_bandit *bandit, unsigned n_blocks)
{
    return bandit->set.gain.n >= n_blocks || bandit->set.is_dropped ||
           set_is_empty(bandit);
}

void stp_bandit_set_renew(struct stp_bandit *bandit)
{
    bandit->set.number++;
    bandit->set.is_dropped = false;
    bandit->set.gain = (struct stp_bandit_try){0};
}

void stp_bandit_set_began(struct stp_bandit *bandit, unsigned n_blocks)
{
    struct stp_bandit_set *set = &bandit->set;

    set->n_pending += n_blocks;
    set->pending_us += n_blocks * set->block_us;
    bandit->pending += n_blocks * set->block_us;
}

/* A block under way has ended: what each was expected to lose may differ, but
 * not the sum of them. */
static void set_end_block(struct stp_bandit *b)
{
    struct stp_bandit_set *set = &b->set;
    double us = set->n_pending > 0 ? set->pending_us / set->n_pending : 0;

    set->n_pending -= set->n_pending > 0;
    set->pending_us -= us;
    b->pending -= us;
}

void stp_bandit_set_block(struct stp_bandit *bandit,
                          const struct stp_block *block)
{
    struct stp_bandit_set *set = &bandit->set;
    /* of each window that counts, and one before it */
    const double lost = 2 * stp_bandit_block_loss(bandit, block);

    set_end_block(bandit);
    if (!block->is_complete || block->trial.base != set->number)
        return;
    bandit->lost += lost;
    stp_bandit_add_gain(bandit, &set->gain, -block->gain);
    if (set->gain.n < STP_CONFIRM_LEAST || set->is_dropped ||
        set->gain.mean >= -z_drop * set_error(set))
        return;
    set->is_dropped = true;
    stp_bandit_halving_drop(bandit);
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
