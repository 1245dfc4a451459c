#include "core/learn/bandit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/learn/bandit_state.h"
#include "nccl_tuner_abi.h"

/* ---- strategies ---- */

static const struct {
    const char *name;
    const struct stp_strategy_ops *ops;
    unsigned octave_bits; /* of bands in a power of two */
} strategies[STP_N_STRATEGIES] = {
    [STP_STRATEGY_HALVING] = {"halving", &stp_bandit_halving, 2},
    [STP_STRATEGY_EPSILON] = {"epsilon", &stp_bandit_epsilon, 0},
};

static const struct stp_bandit_arm seeds_arms[] = {
    {.algo = NCCL_ALGO_TREE, .proto = NCCL_PROTO_SIMPLE},
    {.algo = NCCL_ALGO_TREE, .proto = NCCL_PROTO_LL128},
    {.algo = NCCL_ALGO_RING, .proto = NCCL_PROTO_SIMPLE},
};

const char *stp_strategy_name(enum stp_strategy strategy)
{
    return strategies[strategy].name;
}

int stp_strategy_from_name(const char *word, size_t len)
{
    for (int i = 0; i < STP_N_STRATEGIES; i++) {
        if (strlen(strategies[i].name) == len &&
            memcmp(strategies[i].name, word, len) == 0)
            return i;
    }
    return -1;
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

static const struct stp_strategy_ops *
bandit_ops(const struct stp_bandit *bandit)
{
    return strategies[bandit->rules.strategy].ops;
}

/* ---- opening ---- */

static enum stp_status bandit_check_rules(const struct stp_bandit_rules *rules,
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

    if ((unsigned)rules->strategy >= STP_N_STRATEGIES)
        return stp_fail(err, STP_ERR_RANGE, "there is no strategy %d",
                        (int)rules->strategy);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (!(limits[i].value >= limits[i].min &&
              limits[i].value <= limits[i].max))
            return stp_fail(err, STP_ERR_RANGE, "%s is %g, expected %g to %g",
                            limits[i].name, limits[i].value, limits[i].min,
                            limits[i].max);
    }
    return STP_OK;
}

enum stp_status stp_bandit_open(const struct stp_bandit_rules *rules,
                                struct stp_bandit **bandit_ret,
                                struct stp_error *err)
{
    enum stp_status status = bandit_check_rules(rules, err);
    struct stp_bandit *bandit;

    if (status != STP_OK)
        return status;
    bandit = calloc(1, sizeof(*bandit));
    if (bandit == NULL)
        return stp_nomem(err);
    bandit->rules = *rules;
    bandit->active = STP_BANDIT_KEYS;
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
    unsigned bits = strategies[strategy].octave_bits;
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
    unsigned bits = strategies[strategy].octave_bits;

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

void stp_bandit_saw_channels(struct stp_bandit *bandit, unsigned key,
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

/* Whether each key has the share of all calls that it had. */
static bool bandit_is_same_step(const struct stp_bandit *bandit,
                                const unsigned shares[STP_BANDIT_KEYS],
                                unsigned n_calls)
{
    for (unsigned i = 0; i < bandit->n_keys; i++)
        if (bandit->keys[i] != NULL &&
            (uint64_t)bandit->keys[i]->share * n_calls !=
                (uint64_t)shares[i] * bandit->window)
            return false;
    return true;
}

void stp_bandit_set_window(struct stp_bandit *bandit,
                           const unsigned shares[STP_BANDIT_KEYS],
                           unsigned n_calls)
{
    bool is_new =
        bandit->window != 0 && !bandit_is_same_step(bandit, shares, n_calls);

    bandit->window = n_calls;
    for (unsigned i = 0; i < bandit->n_keys; i++)
        if (bandit->keys[i] != NULL)
            bandit->keys[i]->share = shares[i];
    if (is_new && bandit->rules.strategy == STP_STRATEGY_HALVING)
        stp_bandit_halving_renew(bandit);
}

/* ---- while the job runs ---- */

bool stp_bandit_wants(struct stp_bandit *bandit,
                      const struct stp_bandit_clock *clock,
                      struct stp_bandit_want *want_ret)
{
    return bandit_ops(bandit)->want(bandit, clock, want_ret);
}

bool stp_bandit_awaits(const struct stp_bandit *bandit, unsigned key,
                       uint64_t n_calls)
{
    const struct stp_bandit_slot *slot = bandit_slot(bandit, key);

    return slot != NULL && bandit_ops(bandit)->awaits(bandit, slot, n_calls);
}

void stp_bandit_began(struct stp_bandit *bandit,
                      const struct stp_bandit_want *want)
{
    struct stp_bandit_slot *slot =
        bandit_slot_with(bandit, want->key, want->arm);

    if (want->key == STP_BANDIT_SET)
        stp_bandit_set_began(bandit, want->n_blocks);
    else if (slot != NULL)
        bandit_ops(bandit)->began(bandit, slot, want);
}

void stp_bandit_add_value(struct stp_bandit_try *arm, double value)
{
    double off = value - arm->mean;

    arm->n += arm->n < UINT32_MAX;
    arm->mean += off / arm->n;
    arm->ss += off * (value - arm->mean);
}

void stp_bandit_reward(struct stp_bandit *bandit, unsigned key, unsigned arm,
                       double value)
{
    struct stp_bandit_slot *slot = bandit_slot_with(bandit, key, arm);

    if (slot == NULL || bandit->rules.strategy != STP_STRATEGY_EPSILON ||
        !(value > 0 && isfinite(value)))
        return;
    stp_bandit_add_value(&slot->arms[arm], value);
    stp_bandit_epsilon_reward(slot, arm, value);
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
    state.lost = slot->lost;
    bandit_ops(bandit)->verdict(slot, &state);
    return state;
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
