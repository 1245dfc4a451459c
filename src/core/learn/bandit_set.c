/* bandit_set.c - the incumbents of all keys together, against NCCL's own choice
 */
#include <math.h>

#include "core/learn/bandit_state.h"
#include "core/stats.h"

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

/* Blocks that are wanted beside those under way. */
static unsigned set_n_wanted(const struct stp_bandit *b, unsigned n_blocks)
{
    unsigned n = b->set.gain.n + b->set.n_pending;

    if (b->rules.confirm_blocks == 0 || b->set.is_dropped || n >= n_blocks ||
        set_is_searched(b) || set_is_empty(b))
        return 0;
    return n_blocks - n < STP_TRIAL_BLOCKS ? n_blocks - n : STP_TRIAL_BLOCKS;
}

bool stp_bandit_set_wants(struct stp_bandit *bandit,
                          const struct stp_bandit_clock *clock,
                          unsigned n_blocks, struct stp_bandit_want *want_ret)
{
    struct stp_bandit_set *set = &bandit->set;
    unsigned n = set_n_wanted(bandit, n_blocks);
    double gain = set->gain.n > 0 ? set->gain.mean : set_sum_gains(bandit);

    if (n == 0)
        return false;
    set->pending_us =
        2 * bandit->window * clock->call_us * fmax(exp(gain) - 1, 0);
    if (fmax(bandit->lost, 0) + bandit->pending + n * set->pending_us >
        bandit->rules.budget * (double)clock->n_calls * clock->call_us)
        return false;
    *want_ret = (struct stp_bandit_want){.key = STP_BANDIT_SET, .n_blocks = n};
    return true;
}

bool stp_bandit_set_awaits(const struct stp_bandit *bandit)
{
    return bandit->set.n_pending > 0 ||
           set_n_wanted(bandit, bandit->rules.confirm_blocks) > 0;
}

void stp_bandit_set_renew(struct stp_bandit *bandit)
{
    bandit->set.number++;
    bandit->set.is_dropped = false;
    bandit->set.gain = (struct stp_bandit_try){0};
}

void stp_bandit_set_block(struct stp_bandit *bandit,
                          const struct stp_block *block)
{
    struct stp_bandit_set *set = &bandit->set;
    double lost = 2 * (block->arm_us - block->own_us);

    set->n_pending -= set->n_pending > 0;
    bandit->pending -= set->pending_us;
    if (!block->is_complete || block->trial.base != set->number)
        return;
    bandit->lost += lost;
    stp_bandit_add_spreads(bandit, block);
    if (stp_bandit_is_disturbed(bandit, block))
        return;
    stp_bandit_add_value(&set->gain, -block->gain);
    if (set->gain.n < STP_CONFIRM_LEAST || set->gain.mean >= 0 ||
        set->is_dropped)
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
    half = stp_t975(set->gain.n - 1) * stp_bandit_error(bandit, &set->gain);
    state.gain_low = exp(set->gain.mean - half);
    state.gain_high = exp(set->gain.mean + half);
    return state;
}
