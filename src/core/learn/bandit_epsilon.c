#include <math.h>

#include "core/learn/bandit_state.h"
#include "core/rng.h"
#include "core/stats.h"

/* The arm with the smallest mean, or the first without rewards. */
static unsigned epsilon_greedy_arm(const struct stp_bandit_slot *slot)
{
    unsigned best = 0;

    for (unsigned i = 0; i < slot->n_arms; i++) {
        const struct stp_bandit_try *arm = &slot->arms[i];

        if (arm->is_out)
            continue;
        if (arm->n == 0)
            return i;
        if (arm->mean < slot->arms[best].mean)
            best = i;
    }
    return best;
}

/* An arm that is not out, by 'at' in [0, 1); arm 0 never is out. */
static unsigned epsilon_random_arm(const struct stp_bandit_slot *slot,
                                   double at)
{
    unsigned n = 0;
    unsigned pick;

    for (unsigned i = 0; i < slot->n_arms; i++)
        n += !slot->arms[i].is_out;
    pick = (unsigned)(at * n);
    for (unsigned i = 0; i < slot->n_arms; i++) {
        if (!slot->arms[i].is_out && pick-- == 0)
            return i;
    }
    return 0;
}

/* The keys in turn. */
static int epsilon_key(const struct stp_bandit *bandit, uint64_t epoch)
{
    unsigned keys[STP_BANDIT_KEYS];
    unsigned n = 0;

    for (unsigned i = 0; i < bandit->n_keys; i++) {
        if (bandit->keys[i] != NULL)
            keys[n++] = i;
    }
    return n == 0 ? -1 : (int)keys[epoch % n];
}

static bool epsilon_want(struct stp_bandit *bandit,
                         const struct stp_bandit_clock *clock,
                         struct stp_bandit_want *want_ret)
{
    uint64_t epoch = bandit->epoch++;
    uint64_t seed = bandit->rules.seed;
    int key = epsilon_key(bandit, epoch);
    const struct stp_bandit_slot *slot;
    bool is_random;
    unsigned arm;

    (void)clock;
    if (key < 0)
        return false;
    slot = bandit->keys[key];
    is_random = stp_rng_unit(seed, 2 * epoch) < bandit->rules.epsilon;
    arm = is_random
              ? epsilon_random_arm(slot, stp_rng_unit(seed, 2 * epoch + 1))
              : epsilon_greedy_arm(slot);
    if (arm == slot->running)
        return false;
    *want_ret = (struct stp_bandit_want){.key = (unsigned)key, .arm = arm};
    return true;
}

static bool epsilon_awaits(const struct stp_bandit *bandit,
                           const struct stp_bandit_slot *slot, uint64_t n_calls)
{
    (void)n_calls;
    return !slot->was_settled || bandit->rules.epsilon > 0;
}

static void epsilon_began(struct stp_bandit *bandit,
                          struct stp_bandit_slot *slot,
                          const struct stp_bandit_want *now)
{
    (void)bandit;
    slot->running = now->arm;
}

static bool epsilon_is_explored(const struct stp_bandit_slot *slot)
{
    for (unsigned i = 0; i < slot->n_arms; i++) {
        if (!slot->arms[i].is_out && slot->arms[i].n == 0)
            return false;
    }
    return true;
}

void stp_bandit_epsilon_reward(struct stp_bandit_slot *slot, unsigned arm,
                               double value)
{
    const struct stp_bandit_try *own = &slot->arms[0];

    if (!slot->was_settled) {
        slot->n_calls++;
        slot->was_settled = epsilon_is_explored(slot);
    }
    if (arm != 0 && arm != epsilon_greedy_arm(slot) && own->n > 0)
        slot->lost += value - own->mean;
}

/* The variance of the logarithm of a mean. */
static double epsilon_variance(const struct stp_bandit_try *arm)
{
    return arm->ss / (arm->n - 1) / arm->n / (arm->mean * arm->mean);
}

static void epsilon_verdict(const struct stp_bandit_slot *slot,
                            struct stp_bandit_key_state *state)
{
    const struct stp_bandit_try *own = &slot->arms[0];
    const struct stp_bandit_try *best;
    double half;

    state->best = epsilon_greedy_arm(slot);
    state->is_settled = slot->was_settled;
    best = &slot->arms[state->best];
    if (state->best == 0 || own->n == 0 || best->n == 0)
        return;
    state->gain = own->mean / best->mean;
    state->gain_low = 0;
    state->gain_high = INFINITY;
    if (own->n < 2 || best->n < 2)
        return;
    half = stp_t975(own->n < best->n ? own->n - 1 : best->n - 1) *
           sqrt(epsilon_variance(own) + epsilon_variance(best));
    state->gain_low = state->gain * exp(-half);
    state->gain_high = state->gain * exp(half);
}

const struct stp_strategy_ops stp_bandit_epsilon = {
    .want = epsilon_want,
    .awaits = epsilon_awaits,
    .began = epsilon_began,
    .verdict = epsilon_verdict,
};
