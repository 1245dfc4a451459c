/* bandit.c - arms and keys as callers see them, and EPSILON */
#include "core/learn/bandit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/learn/bandit_search.h"
#include "core/learn/proposal.h"
#include "core/rng.h"
#include "core/stats.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"

/* ---- strategies ---- */

static const char *const strategies[STP_N_STRATEGIES] = {"halving", "epsilon"};
static const unsigned octave_bits[] = {2, 0}; /* of bands in a power of two */

static const struct stp_bandit_arm seeds_arms[] = {
    {.algo = NCCL_ALGO_TREE, .proto = NCCL_PROTO_SIMPLE},
    {.algo = NCCL_ALGO_TREE, .proto = NCCL_PROTO_LL128},
    {.algo = NCCL_ALGO_RING, .proto = NCCL_PROTO_SIMPLE},
};

const char *stp_strategy_name(enum stp_strategy strategy)
{
    return strategies[strategy];
}

int stp_strategy_from_name(const char *word, size_t len)
{
    return stp_find_word(strategies, STP_N_STRATEGIES, word, len);
}

struct stp_bandit_rules stp_bandit_rules_default(enum stp_strategy strategy)
{
    struct stp_bandit_rules rules = {
        .strategy = strategy,
        .epsilon = 0.1,
        .min_gain = 0.002,
        .prune = 2.5,
        .budget = 0.01,
        .retest_calls = 1000,
        .confirm_blocks = STP_CONFIRM_LEAST,
        .confirm_us = 300000,
    };

    if (strategy == STP_STRATEGY_EPSILON) {
        memcpy(rules.arms, seeds_arms, sizeof(seeds_arms));
        rules.n_arms = sizeof(seeds_arms) / sizeof(seeds_arms[0]);
        rules.prune = 0; /* as in the seeds */
    }
    return rules;
}

/* ---- opening ---- */

enum stp_status stp_bandit_open(const struct stp_bandit_rules *rules,
                                struct stp_bandit **bandit_ret,
                                struct stp_error *err)
{
    const struct {
        const char *name;
        double value;
        double min;
        double max;
    } limits[] = {
        {"epsilon", rules->epsilon, 0, 1},
        {"min_gain", rules->min_gain, 0, 1},
        {"prune", rules->prune, 0, 1e6},
        {"budget", rules->budget, 0, 1},
        {"confirm_us", rules->confirm_us, 0, 1e9},
        {"number of arms", (double)rules->n_arms, 0, STP_BANDIT_ARMS - 1},
    };
    struct stp_bandit *bandit;

    if ((unsigned)rules->strategy >= STP_N_STRATEGIES)
        return STP_REFUSE(err, "there is no strategy %d", (int)rules->strategy);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (!(limits[i].value >= limits[i].min &&
              limits[i].value <= limits[i].max))
            return STP_REFUSE(err, "%s is %g, expected %g to %g",
                              limits[i].name, limits[i].value, limits[i].min,
                              limits[i].max);
    }
    bandit = calloc(1, sizeof(*bandit));
    if (bandit == NULL)
        return stp_nomem(err);
    bandit->rules = *rules;
    *bandit_ret = bandit;
    return STP_OK;
}

static void bandit_free_slot(struct stp_bandit_slot *slot)
{
    if (slot != NULL)
        free(slot->arms);
    free(slot);
}

void stp_bandit_close(struct stp_bandit *bandit)
{
    if (bandit == NULL)
        return;
    for (unsigned i = 0; i < bandit->n_keys; i++)
        bandit_free_slot(bandit->keys[i]);
    free(bandit);
}

/* ---- keys ---- */

unsigned stp_bandit_band(enum stp_strategy strategy, uint64_t n_bytes)
{
    unsigned bits = octave_bits[strategy];
    unsigned octave;
    uint64_t rest;

    if (n_bytes == 0)
        return 0;
    octave = 63U - (unsigned)__builtin_clzll(n_bytes);
    rest = n_bytes - (UINT64_C(1) << octave);
    rest = octave >= bits ? rest >> (octave - bits) : rest << (bits - octave);
    return octave << bits | (unsigned)rest;
}

/* The smallest size of a band, 0 beyond the last one. */
static uint64_t bandit_band_first(unsigned bits, unsigned band)
{
    unsigned octave = band >> bits;
    uint64_t parts = (UINT64_C(1) << bits) + (band & ((1U << bits) - 1));

    if (octave > 63)
        return 0;
    if (octave >= bits)
        return parts << (octave - bits);
    return (parts + (UINT64_C(1) << (bits - octave)) - 1) >> (bits - octave);
}

struct stp_range stp_bandit_band_range(enum stp_strategy strategy,
                                       unsigned band)
{
    unsigned bits = octave_bits[strategy];

    return (struct stp_range){.min =
                                  band == 0 ? 0 : bandit_band_first(bits, band),
                              .max = bandit_band_first(bits, band + 1) - 1};
}

static struct stp_bandit_slot *bandit_slot(const struct stp_bandit *bandit,
                                           unsigned key)
{
    return key < STP_BANDIT_KEYS ? bandit->keys[key] : NULL;
}

/* NULL also if the key has no such arm. */
static struct stp_bandit_slot *bandit_slot_with(const struct stp_bandit *bandit,
                                                unsigned key, unsigned arm)
{
    struct stp_bandit_slot *slot = bandit_slot(bandit, key);

    return slot != NULL && arm < slot->n_arms ? slot : NULL;
}

void stp_bandit_add_key(struct stp_bandit *bandit, unsigned key,
                        const struct stp_cost_view *view, unsigned max_channels)
{
    struct stp_bandit_slot *slot;

    if (key >= STP_BANDIT_KEYS || bandit->keys[key] != NULL)
        return;
    slot = calloc(1, sizeof(*slot));
    if (slot == NULL)
        return;
    slot->max_channels = max_channels;
    if (!stp_bandit_make_arms(&bandit->rules, view, slot)) {
        bandit_free_slot(slot);
        return;
    }
    bandit->keys[key] = slot;
    if (key >= bandit->n_keys)
        bandit->n_keys = key + 1;
}

void stp_bandit_set_channels(struct stp_bandit *bandit, unsigned key,
                             unsigned arm, unsigned n_channels)
{
    struct stp_bandit_slot *slot = bandit_slot_with(bandit, key, arm);

    if (slot == NULL || slot->arms[arm].arm.n_channels != 0 ||
        n_channels > STP_MAX_CHANNELS)
        return;
    slot->arms[arm].own_channels = (uint8_t)n_channels;
    if (arm == 0 && slot->max_channels == 0)
        slot->max_channels = n_channels;
}

/* ---- EPSILON ---- */

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

/* The arm runs from that call on. */
static void epsilon_begin(struct stp_bandit_slot *slot, unsigned arm,
                          uint64_t call)
{
    const uint64_t n_calls = call - slot->since;

    if (slot->explores)
        slot->turn = n_calls > 0 ? n_calls : 1;
    else
        slot->owed -= (int64_t)n_calls;
    slot->explores = slot->next_explores;
    slot->running = arm;
    slot->since = call;
}

/* An arm that is explored stays until the next proposal is taken, which may be
 * any number of calls.  A draw that does not explore holds for as many calls as
 * the last exploring turn had, and calls beyond that shorten the next such
 * turn: so the share of calls that explore is the share of draws that do.  The
 * keys take turns. */
static bool epsilon_want(struct stp_bandit *bandit, uint64_t n_calls,
                         struct stp_bandit_want *want_ret)
{
    const double epsilon = bandit->rules.epsilon;
    const uint64_t seed = bandit->rules.seed;

    for (unsigned i = 0; i < bandit->n_keys; i++) {
        const unsigned key = bandit->next_key++ % bandit->n_keys;
        struct stp_bandit_slot *slot = bandit->keys[key];
        unsigned left[STP_BANDIT_ARMS], n_left = 0, greedy, arm;
        int64_t passed;

        if (slot == NULL)
            continue;
        if (slot->turn == 0) {
            slot->turn = STP_EPOCH_EPSILON;
            slot->since = n_calls;
        }
        arm = greedy = epsilon_greedy_arm(slot);
        passed = slot->explores ? 0 : (int64_t)(n_calls - slot->since);
        /* any arm that is not out: the first never is */
        for (unsigned k = 0; k < slot->n_arms; k++)
            if (!slot->arms[k].is_out)
                left[n_left++] = k;
        while (epsilon > 0 && slot->owed <= passed && arm == greedy) {
            const uint64_t draw = bandit->n_draws++;

            if (stp_rng_unit(seed, 2 * draw) < epsilon)
                arm =
                    left[(unsigned)(stp_rng_unit(seed, 2 * draw + 1) * n_left)];
            if (arm == greedy)
                slot->owed += (int64_t)slot->turn;
        }
        slot->next_explores = arm != greedy;
        if (arm != slot->running) {
            *want_ret = (struct stp_bandit_want){
                .key = key, .arm = arm, .call = n_calls};
            return true;
        }
        if (slot->explores || slot->next_explores)
            epsilon_begin(slot, arm, n_calls);
    }
    return false;
}

/* The variance of the logarithm of a mean. */
static double epsilon_variance(const struct stp_bandit_try *arm)
{
    return arm->ss / (arm->n - 1) / arm->n / (arm->mean * arm->mean);
}

/* Fills the best arm, whether it has settled, and its gain with an interval. */
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

/* ---- while the job runs ---- */

void stp_bandit_set_busy(struct stp_bandit *bandit, unsigned key, double share)
{
    struct stp_bandit_slot *slot = bandit_slot(bandit, key);

    if (slot == NULL)
        return;
    slot->is_timed = true;
    slot->busy = fmin(fmax(share, 0), 1);
}

void stp_bandit_set_window(struct stp_bandit *bandit,
                           const unsigned shares[STP_BANDIT_KEYS],
                           unsigned n_calls)
{
    bool is_same = true; /* each key has the share of all calls that it had */

    for (unsigned i = 0; i < bandit->n_keys; i++) {
        struct stp_bandit_slot *slot = bandit->keys[i];

        if (slot == NULL)
            continue;
        is_same &= (uint64_t)slot->share * n_calls ==
                   (uint64_t)shares[i] * bandit->window;
        slot->share = shares[i];
    }
    is_same |= bandit->window == 0;
    bandit->window = n_calls;
    if (is_same || bandit->rules.strategy != STP_STRATEGY_HALVING)
        return;

    /* Settled keys are tested again, and other searches start over. */
    for (unsigned i = 0; i < bandit->n_keys; i++) {
        struct stp_bandit_slot *slot = bandit->keys[i];

        if (slot == NULL)
            continue;
        if (!slot->is_settled)
            stp_bandit_restart(slot);
        slot->retest_at = 0;
        slot->retest_wait = bandit->rules.retest_calls;
    }
    stp_bandit_renew_set(bandit);
}

bool stp_bandit_wants(struct stp_bandit *bandit,
                      const struct stp_bandit_clock *clock,
                      struct stp_bandit_want *want_ret)
{
    return bandit->rules.strategy == STP_STRATEGY_EPSILON
               ? epsilon_want(bandit, clock->n_calls, want_ret)
               : stp_bandit_search(bandit, clock, want_ret);
}

bool stp_bandit_awaits(const struct stp_bandit *bandit, unsigned key,
                       uint64_t n_calls)
{
    const struct stp_bandit_slot *slot = bandit_slot(bandit, key);

    if (slot != NULL && bandit->rules.strategy == STP_STRATEGY_EPSILON)
        return !slot->was_settled || bandit->rules.epsilon > 0;
    return stp_bandit_is_open(bandit, slot, n_calls);
}

static void bandit_begin_trial(struct stp_bandit *bandit,
                               struct stp_bandit_slot *slot, unsigned next,
                               unsigned n_blocks)
{
    struct stp_bandit_try *arm = &slot->arms[next];

    if (slot->is_settled && !slot->is_retesting) {
        slot->is_retesting = true;
        slot->retest = (struct stp_bandit_try){0};
    }
    arm->is_pending = arm->is_known = true;
    bandit->pending += n_blocks * arm->pending_us;
}

void stp_bandit_began(struct stp_bandit *bandit,
                      const struct stp_bandit_want *want)
{
    struct stp_bandit_slot *slot =
        bandit_slot_with(bandit, want->key, want->arm);
    const bool is_halving = bandit->rules.strategy == STP_STRATEGY_HALVING;

    if (want->key == STP_BANDIT_SET) {
        bandit->set.n_pending += want->n_blocks;
        bandit->set.pending_us += want->n_blocks * bandit->set.block_us;
        bandit->pending += want->n_blocks * bandit->set.block_us;
        return;
    }
    if (slot == NULL)
        return;
    if (!is_halving || want->n_blocks == 0) {
        if (is_halving && slot->running != want->arm)
            stp_bandit_renew_set(bandit);
        if (is_halving)
            slot->running = want->arm;
        else
            epsilon_begin(slot, want->arm, want->call);
        return;
    }
    bandit_begin_trial(bandit, slot, want->arm, want->n_blocks);
    for (unsigned m = 0; m < want->n_mates; m++)
        bandit_begin_trial(bandit, bandit->keys[want->mates[m].key],
                           want->mates[m].arm, want->n_blocks);
}

void stp_bandit_reward(struct stp_bandit *bandit, unsigned key, unsigned arm,
                       double value)
{
    struct stp_bandit_slot *slot = bandit_slot_with(bandit, key, arm);

    if (slot == NULL || bandit->rules.strategy != STP_STRATEGY_EPSILON ||
        !(value > 0 && isfinite(value)))
        return;
    stp_bandit_add_value(&slot->arms[arm], value);

    /* A key has settled once all of its arms were tried. */
    if (!slot->was_settled) {
        slot->n_calls++;
        slot->was_settled = true;
        for (unsigned i = 0; i < slot->n_arms; i++)
            if (!slot->arms[i].is_out && slot->arms[i].n == 0)
                slot->was_settled = false;
    }
}

void stp_bandit_block(struct stp_bandit *bandit, const struct stp_block *block,
                      uint64_t n_calls)
{
    const struct stp_trial *trial = &block->trial;
    struct stp_bandit_slot *slot =
        bandit_slot_with(bandit, trial->key, trial->arm);
    struct stp_bandit_try *arm;

    if (trial->key == STP_BANDIT_SET)
        stp_bandit_take_set_block(bandit, block);
    if (slot == NULL)
        return;
    arm = &slot->arms[trial->arm];
    if (arm->is_pending)
        bandit->pending -= arm->pending_us;
    if (block->is_last)
        arm->is_pending = false;
    if (block->is_last && !block->is_complete) /* it may never have begun */
        arm->is_known = false;
    if (block->is_complete && trial->base == slot->incumbent) {
        if (!slot->was_settled)
            slot->n_calls += STP_BLOCK_WINDOWS * (uint64_t)trial->n_calls;
        bandit->lost +=
            fmin(stp_bandit_block_loss(bandit, block),
                 slot->is_timed ? 2 * slot->busy * block->own_us : INFINITY);
        stp_bandit_add_spreads(bandit, block);
        if (!stp_bandit_is_disturbed(bandit, block)) {
            stp_bandit_add_gain(bandit, arm, block->gain);
            stp_bandit_add_gain(bandit, &slot->retest, block->gain);
        }
    }
    if (bandit->rules.n_passes > 0)
        return;
    if (!slot->is_settled)
        stp_bandit_judge(bandit, slot, n_calls);
    else if (slot->is_retesting && block->is_last)
        stp_bandit_end_retest(bandit, slot, n_calls);
}

void stp_bandit_recall(struct stp_bandit *bandit, unsigned key,
                       const struct stp_bandit_arm *arm, uint32_t n,
                       double log_gain, double log_ss)
{
    struct stp_bandit_slot *slot = bandit_slot(bandit, key);
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

/* ---- a schedule's trials ---- */

void stp_bandit_rule_out(struct stp_bandit *bandit, unsigned key, unsigned arm)
{
    struct stp_bandit_slot *slot = bandit_slot_with(bandit, key, arm);

    if (slot != NULL)
        slot->arms[arm].is_out = slot->arms[arm].is_banned = true;
}

struct stp_bandit_plan stp_bandit_get_plan(const struct stp_bandit *bandit)
{
    struct stp_bandit_plan plan = {0};

    for (unsigned k = 0; k < bandit->n_keys; k++) {
        const struct stp_bandit_slot *slot = bandit->keys[k];
        unsigned n = 0;

        for (unsigned i = 1;
             slot != NULL && slot->share > 0 && i < slot->n_arms; i++) {
            const double ratio = slot->arms[i].ratio;

            if (slot->arms[i].is_banned)
                continue;
            n += bandit->rules.n_passes;
            plan.loss_us += bandit->rules.n_passes * slot->share *
                            slot->own_us * fmax(ratio - 1, 0);
        }
        plan.n_trials += n;
        plan.n_most = n > plan.n_most ? n : plan.n_most;
    }
    return plan;
}

void stp_bandit_conclude(struct stp_bandit *bandit)
{
    for (unsigned k = 0; k < bandit->n_keys; k++) {
        struct stp_bandit_slot *slot = bandit->keys[k];

        for (unsigned i = 1; slot != NULL && i < slot->n_arms; i++)
            slot->is_settled |= slot->arms[i].n > 0;
    }
}

/* Fills the state of a key by a schedule. */
static void schedule_verdict(const struct stp_bandit *bandit,
                             const struct stp_bandit_slot *slot,
                             struct stp_bandit_key_state *state)
{
    const unsigned best = stp_bandit_find_winner(bandit, slot);
    const struct stp_bandit_try *arm = &slot->arms[best];
    unsigned n_left = 0;
    double half;

    for (unsigned i = 1; i < slot->n_arms; i++)
        n_left +=
            !slot->arms[i].is_banned && slot->arms[i].n < STP_BLOCKS_TO_WIN;
    state->is_settled = slot->is_settled || (n_left == 0 && slot->n_calls > 0);
    state->best = best;
    if (best == 0)
        return;
    half = stp_t975(arm->n - 1) * stp_bandit_error(bandit, arm);
    state->gain = exp(arm->mean);
    state->gain_low = exp(arm->mean - half);
    state->gain_high = exp(arm->mean + half);
}

/* ---- results ---- */

struct stp_bandit_key_state stp_bandit_get_key(const struct stp_bandit *bandit,
                                               unsigned key)
{
    const struct stp_bandit_slot *slot = bandit_slot(bandit, key);
    struct stp_bandit_key_state state = {
        .gain = 1, .gain_low = 1, .gain_high = 1};

    if (slot == NULL)
        return state;
    state.n_arms = slot->n_arms;
    state.running = slot->running;
    state.n_calls = slot->n_calls;
    if (bandit->rules.strategy == STP_STRATEGY_EPSILON)
        epsilon_verdict(slot, &state);
    else if (bandit->rules.n_passes > 0)
        schedule_verdict(bandit, slot, &state);
    if (bandit->rules.strategy == STP_STRATEGY_EPSILON ||
        bandit->rules.n_passes > 0)
        return state;
    state.best = slot->incumbent;
    state.is_settled = slot->is_settled || stp_bandit_is_hopeless(bandit, slot);
    if (slot->incumbent != 0 && slot->incumbent_n >= 2) {
        double half =
            stp_t975(slot->incumbent_n - 1) * sqrt(slot->incumbent_var);

        state.gain = exp(slot->incumbent_gain);
        state.gain_low = exp(slot->incumbent_gain - half);
        state.gain_high = exp(slot->incumbent_gain + half);
    }
    return state;
}

struct stp_bandit_bound stp_bandit_get_bound(const struct stp_bandit *bandit,
                                             unsigned key)
{
    const struct stp_bandit_slot *slot = bandit_slot(bandit, key);
    struct stp_bandit_bound bound = {.gain = 0};

    for (unsigned i = 1; slot != NULL && i < slot->n_arms; i++) {
        const struct stp_bandit_try *arm = &slot->arms[i];
        const bool is_best = i == slot->incumbent;
        const double mean = slot->incumbent_gain + (is_best ? 0 : arm->mean);
        double error = is_best ? 0 : stp_bandit_error(bandit, arm), half;

        bound.n_untried += arm->n == 0 && !arm->is_out;
        if (arm->n == 0)
            continue;
        error = sqrt(error * error + slot->incumbent_var);
        half = stp_bandit_z_bound * error;
        bound.n_tried++;
        if (bound.n_tried > 1 && exp(mean + half) <= bound.gain_high)
            continue;
        bound.arm = i;
        bound.gain = exp(mean);
        bound.gain_low = exp(mean - half);
        bound.gain_high = exp(mean + half);
    }
    return bound;
}

struct stp_bandit_arm_state stp_bandit_get_arm(const struct stp_bandit *bandit,
                                               unsigned key, unsigned arm)
{
    const struct stp_bandit_slot *slot = bandit_slot_with(bandit, key, arm);
    const struct stp_bandit_try *state;

    if (slot == NULL)
        return (struct stp_bandit_arm_state){.arm = {.algo = -1},
                                             .is_out = true};
    state = &slot->arms[arm];
    return (struct stp_bandit_arm_state){
        .arm = state->arm,
        .n = state->n,
        .mean = state->mean,
        .is_out = state->is_out,
    };
}
