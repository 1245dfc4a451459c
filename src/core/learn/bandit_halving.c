#include <math.h>

#include "core/learn/bandit_judge.h"
#include "core/stats.h"

/* Set as those of bandit_judge.c. */
enum {
    N_BASELINE = 6, /* of NCCL's own choice before the first trial */
    N_HOME = 3,     /* of any other home */
    N_MEDIAN = 5,   /* of the home, that say what it usually takes */
    N_FIRST = 1,    /* calls of an arm's first two batches: most need no more */
    N_BATCH = 2,    /* and of further ones */
    N_WATCHED = 50, /* of a winner, until it is re-tested */
    N_LATE = 256,   /* calls by which a reward may come late */
    N_STALE = 2000, /* calls of other keys after which one is given up */
};

static const double z_flip = 2.6;    /* 99 percent: a re-test comes often */
static const double ratio_min = 1.1; /* what the cost table says of an arm is */
static const double ratio_max = 2.5; /* worth no more than this */
/* A winner that is slower than NCCL's own choice by this at once had its trials
 * in an odd minute. */
static const double disappointing = 0.1;
static const double abrupt = 0.6931; /* log(2): ends a batch at once */

/* ---- batches ---- */

/* The gain of the batch that ended, and its variance. */
static double batch_gain(const struct stp_batch *batch)
{
    double beside = (batch->before + batch->after / batch->n_after) / 2;

    return beside - batch->sum / batch->n;
}

static void judge_retest(const struct stp_bandit *bandit,
                         struct stp_bandit_slot *slot)
{
    const struct stp_batch *batch = &slot->batch;
    double gain = batch_gain(batch);
    double var =
        stp_judge_noise(slot) *
        (1.0 / batch->n + 0.25 / batch->n_before + 0.25 / batch->n_after);
    double half = log1p(bandit->rules.min_gain) / 2;
    double need = batch->arm == 0 ? 0 : log1p(bandit->rules.min_gain);

    stp_judge_settle(bandit, slot, batch->arm == 0 && gain > -half);
    if (gain >= need &&
        gain > stp_t_at(z_flip, stp_judge_freedom(slot)) * sqrt(var))
        stp_judge_restart(slot);
}

static void end_batch(struct stp_bandit *bandit, struct stp_bandit_slot *slot)
{
    const struct stp_batch *batch = &slot->batch;
    struct stp_bandit_try *arm = &slot->arms[batch->arm];
    double off;

    slot->batch.is_open = false;
    bandit->overrun =
        batch->n > batch->n_wanted ? batch->n - batch->n_wanted : 0;
    if (slot->is_settled) {
        judge_retest(bandit, slot);
        return;
    }
    arm->n_batches++;
    arm->inv_n += 1.0F / (float)batch->n;
    off = batch_gain(batch) - arm->gain;
    arm->gain += (float)(off / arm->n_batches);
    arm->m2 += (float)(off * (batch_gain(batch) - arm->gain));
    stp_judge(bandit, slot);
}

static unsigned at_most(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The median of the home's last calls: neither one that is off nor what was
 * before a change weighs in it. */
static double usual(const struct stp_bandit_slot *slot)
{
    unsigned n = at_most(slot->n_home, N_MEDIAN);
    double sorted[N_MEDIAN];

    for (unsigned i = 0; i < n; i++) {
        double y = slot->recent[(slot->n_home - 1 - i) % STP_RECENT];
        unsigned at = i;

        for (; at > 0 && sorted[at - 1] > y; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = y;
    }
    return sorted[n / 2];
}

/* Of the home's last 'n' >= 1 calls, at most STP_RECENT. */
static double recent_mean(const struct stp_bandit_slot *slot, unsigned n)
{
    double middle = usual(slot);
    double sum = 0;

    for (unsigned i = 1; i <= n; i++)
        sum += stp_judge_tame(
            slot, slot->recent[(slot->n_home - i) % STP_RECENT], middle, 0);
    return sum / n;
}

static void begin_calls(struct stp_bandit_slot *slot)
{
    struct stp_batch *batch = &slot->batch;
    unsigned n = at_most(slot->n_recent, STP_RECENT);

    batch->n_before = at_most(n, batch->n_wanted > 2 ? batch->n_wanted : 2);
    batch->before = recent_mean(slot, batch->n_before);
    slot->n_recent = 0;
}

/* A call's logarithm, tamed if two batches said what the arm usually takes. */
static double trial_value(const struct stp_bandit_slot *slot, double y)
{
    const struct stp_batch *batch = &slot->batch;
    const struct stp_bandit_try *arm = &slot->arms[batch->arm];

    if (arm->n_batches < 2)
        return y;
    return stp_judge_tame(slot, y, batch->before - arm->gain,
                          stp_judge_own_var(arm));
}

static void trial_reward(struct stp_bandit *bandit,
                         struct stp_bandit_slot *slot, double value)
{
    struct stp_batch *batch = &slot->batch;
    double y = log(value);
    double lost;

    if (batch->n_after > 0)
        return;
    if (batch->n == 0)
        begin_calls(slot);
    else
        stp_judge_note(slot, y - batch->last);
    lost = value - exp(batch->before);
    slot->lost += lost;
    bandit->lost += lost;
    batch->last = y;
    batch->sum += trial_value(slot, y);
    batch->n++;
    if (y - batch->before > abrupt)
        batch->n_wanted = batch->n;
}

static void home_reward(struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                        double value)
{
    struct stp_batch *batch = &slot->batch;
    double y = log(value);

    if (slot->n_recent > 0)
        stp_judge_note(slot, y - slot->recent[(slot->n_home - 1) % STP_RECENT]);
    slot->recent[slot->n_home++ % STP_RECENT] = y;
    slot->n_recent++;
    if (slot->home == 0)
        slot->own_level = usual(slot);
    else if (slot->n_home % N_MEDIAN == 0 && slot->n_home <= N_WATCHED &&
             slot->own_level != 0 &&
             usual(slot) > slot->own_level + disappointing) {
        batch->is_open = false;
        stp_judge_take_back(bandit, slot);
        return;
    }
    if (batch->is_open && batch->n > 0) {
        batch->after += recent_mean(slot, 1);
        if (++batch->n_after >= batch->n_wanted)
            end_batch(bandit, slot);
    } else if (batch->is_over && ++batch->n_missed > N_LATE) {
        batch->is_open = false;
    } else if (!batch->is_open && slot->arms[0].n == N_BASELINE) {
        stp_judge(bandit, slot);
    }
}

static void reward(struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                   unsigned arm, double value)
{
    bool is_baseline = slot->arms[0].n <= N_BASELINE;

    if (!slot->was_settled && (is_baseline || slot->batch.is_open))
        slot->n_trial_calls++;
    if (slot->batch.is_open && arm == slot->batch.arm)
        trial_reward(bandit, slot, value);
    else if (arm == slot->home)
        home_reward(bandit, slot, value);
}

/* ---- what to run ---- */

static unsigned n_wanted(const struct stp_bandit *bandit,
                         const struct stp_bandit_slot *slot, unsigned arm)
{
    if (slot->is_settled)
        return bandit->rules.retest_trials;
    return slot->arms[arm].n_batches < 2 ? N_FIRST : N_BATCH;
}

static bool is_trying(const struct stp_bandit_slot *slot)
{
    const struct stp_batch *batch = &slot->batch;

    return batch->is_open && !batch->is_over && batch->n < batch->n_wanted &&
           batch->n_after == 0 && !slot->arms[batch->arm].is_out;
}

/* The arm of a key's next trial; the home if there is nothing to try. */
static unsigned next_trial(const struct stp_bandit *bandit,
                           const struct stp_bandit_slot *slot)
{
    unsigned arm;

    if (!slot->is_settled) {
        arm = stp_judge_next(slot);
        return arm != 0 ? arm : slot->home;
    }
    if (bandit->rules.retest_calls == 0 || bandit->rules.retest_trials == 0 ||
        slot->n_calls < slot->retest_at)
        return slot->home;
    arm = slot->home == 0 ? slot->runner_up : 0;
    return arm != 0 && slot->arms[arm].is_banned ? slot->home : arm;
}

/* What a trial is thought to lose, in the unit of rewards. */
static double expected_loss(const struct stp_bandit *bandit,
                            const struct stp_bandit_slot *slot, unsigned arm)
{
    const struct stp_bandit_try *state = &slot->arms[arm];
    double ratio = fmin(fmax(state->ratio, ratio_min), ratio_max);
    double base = exp(recent_mean(slot, at_most(slot->n_recent, STP_RECENT)));

    if (arm == 0)
        ratio = exp(slot->home_gain);
    else if (state->n_batches > 0)
        ratio = exp(-state->gain);
    return (n_wanted(bandit, slot, arm) + bandit->overrun) *
           fmax(ratio - 1, 0) * base;
}

static bool is_stale(const struct stp_bandit *bandit,
                     const struct stp_bandit_slot *slot)
{
    return bandit->n_calls - slot->last_call > N_STALE;
}

/* A key that runs something else than it should, if any; else a trial that
 * waits for rewards sets *is_busy_ret. */
static int to_switch(struct stp_bandit *bandit, bool *is_busy_ret)
{
    *is_busy_ret = false;
    for (unsigned i = 0; i < bandit->n_keys; i++) {
        struct stp_bandit_slot *slot = bandit->keys[i];

        if (slot == NULL)
            continue;
        if (slot->batch.is_open && is_stale(bandit, slot))
            slot->batch.is_open = false;
        if (slot->running != (is_trying(slot) ? slot->batch.arm : slot->home))
            return (int)i;
        *is_busy_ret |= slot->batch.is_open;
    }
    return -1;
}

/* The key to explore: the same as before as long as there is something to. */
static int to_explore(const struct stp_bandit *bandit)
{
    for (unsigned i = 0; i < bandit->n_keys; i++) {
        unsigned key = (bandit->active + i) % bandit->n_keys;
        const struct stp_bandit_slot *slot = bandit->keys[key];

        if (slot != NULL && !is_stale(bandit, slot) &&
            next_trial(bandit, slot) != slot->home)
            return (int)key;
    }
    return -1;
}

static bool want(struct stp_bandit *bandit, double elapsed,
                 struct stp_bandit_want *want_ret)
{
    bool is_busy;
    int key = to_switch(bandit, &is_busy);
    const struct stp_bandit_slot *slot;
    unsigned arm;

    if (key >= 0) {
        slot = bandit->keys[key];
        *want_ret = (struct stp_bandit_want){
            .key = (unsigned)key,
            .arm = is_trying(slot) ? slot->batch.arm : slot->home,
            .is_trial = is_trying(slot),
            .n_calls = is_trying(slot) ? slot->batch.n_wanted : 0,
        };
        return true;
    }
    key = is_busy ? -1 : to_explore(bandit);
    if (key < 0)
        return false;
    bandit->active = (unsigned)key;
    slot = bandit->keys[key];
    arm = next_trial(bandit, slot);
    if ((slot->arms[0].n < N_BASELINE && !slot->is_settled) ||
        slot->n_home < N_HOME || slot->n_recent == 0 ||
        bandit->lost + expected_loss(bandit, slot, arm) >
            bandit->rules.budget * elapsed)
        return false;
    *want_ret = (struct stp_bandit_want){
        .key = (unsigned)key,
        .arm = arm,
        .is_trial = true,
        .n_calls = n_wanted(bandit, slot, arm),
    };
    return true;
}

static void began(const struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                  const struct stp_bandit_want *now)
{
    struct stp_batch *batch = &slot->batch;

    slot->running = now->arm;
    if (batch->is_open)
        batch->is_over = now->arm != batch->arm;
    else if (now->is_trial && now->arm != slot->home && slot->n_recent > 0)
        *batch = (struct stp_batch){
            .is_open = true,
            .arm = now->arm,
            .n_wanted = n_wanted(bandit, slot, now->arm),
        };
}

static void settle(const struct stp_bandit *bandit,
                   struct stp_bandit_slot *slot, unsigned arm)
{
    slot->batch.is_open = false;
    slot->home_gain = slot->home_var = 0;
    stp_judge_set_home(slot, arm);
    stp_judge_settle(bandit, slot, false);
}

static void veto(const struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                 unsigned arm)
{
    slot->arms[arm].is_out = slot->arms[arm].is_banned = true;
    if (slot->batch.is_open && slot->batch.arm == arm)
        slot->batch.is_open = false;
    if (slot->home == arm)
        stp_judge_restart(slot);
    if (!slot->batch.is_open && slot->n_diffs > 0)
        stp_judge(bandit, slot);
}

static void verdict(const struct stp_bandit_slot *slot,
                    struct stp_bandit_key_state *state)
{
    double half;

    state->best = slot->home;
    state->is_settled = slot->is_settled;
    if (slot->home == 0 || slot->home_var == 0)
        return;
    half = stp_t975(stp_judge_freedom(slot)) * sqrt(slot->home_var);
    state->gain = exp(slot->home_gain);
    state->gain_low = exp(slot->home_gain - half);
    state->gain_high = exp(slot->home_gain + half);
}

const struct stp_strategy_ops stp_bandit_halving = {
    .want = want,
    .began = began,
    .reward = reward,
    .veto = veto,
    .settle = settle,
    .verdict = verdict,
};
