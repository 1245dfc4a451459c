#include <math.h>

#include "core/learn/bandit_state.h"
#include "core/stats.h"

/*
 * The constants below were set by bandit_table's output for the recorded
 * machines, where a call varies by 2 to 5 percent and one in fifty takes up to
 * three times as long: half of all keys are to settle within 40 calls, and a
 * gain of 5 percent is to be found nine times in ten.  Quantiles are those of
 * the normal distribution; the code uses Student's.
 */
enum {
    /* Batches of an arm, after which it is out unless it is promising; of a
     * channel count; and of a promising arm, so that the least gain that counts
     * may be found for calls that vary by 4 percent. */
    N_BATCHES = 4,
    N_BATCHES_CHANNELS = 3,
    N_BATCHES_MAX = 30,
    N_FIRST = 1, /* calls of an arm's first two batches: most need no more */
    N_BATCH = 2, /* calls of its later batches */

    N_BASELINE = 6,  /* calls of NCCL's own choice before the first trial */
    N_INCUMBENT = 3, /* calls of any other incumbent before a trial */
    N_MEDIAN = 5,    /* last calls of the incumbent, for its usual time */
    N_CONFIRM = 50,  /* calls of a winner before its first re-test: its trials
                        may all have been in one odd minute */
    N_WATCHED = 50,  /* calls of a winner that are compared at once */
    N_LATE = 256,    /* calls by which a reward may be late */
    N_STALE = 2000,  /* calls of other keys after which a batch is given up */
};

static const double z_in = 3;    /* 95 percent each of 20 arms: 0.05 / 20 */
static const double z_out = 1.5; /* arm is worse; most are, and few by little */
static const double z_hope = 1;  /* arm is promising */
static const double z_flip = 2.6;        /* 99 percent: re-tests are frequent */
static const double alike = 0.003;       /* gains that count as equal */
static const double drop_gain = -0.3;    /* drops an arm after one call */
static const double fewer_worse = -0.05; /* drops still fewer channels, too */
static const double outlier = 3; /* in standard deviations; none counts more */
static const double first_noise = 0.05;  /* before three calls are known */
static const double least_noise = 0.005; /* of calls; a clock's own */
static const double ratio_min = 1.1; /* limits of a ratio that the cost table */
static const double ratio_max = 2.5; /* predicts */
/* A winner that is at once slower than NCCL's own choice by this had its trials
 * in an odd minute. */
static const double disappointing = 0.1;
static const double abrupt = 0.6931; /* log(2): ends a batch at once */

/* ---- noise ---- */

/* The variance of one call, from neighbouring calls, so that drift is not in
 * it. */
static double halving_noise(const struct stp_bandit_slot *slot)
{
    double var = slot->diffs_ss / (2 * slot->n_diffs);

    return fmax(var, least_noise * least_noise);
}

/*
 * Where 'usual' is the expected time, and 'var' its variance.  Some calls take
 * several times as long with any arm: such a call counts as if it were off by a
 * few standard deviations.
 */
static double halving_clip_outlier(const struct stp_bandit_slot *slot, double y,
                                   double usual, double var)
{
    double noise =
        slot->n_diffs < 3 ? first_noise * first_noise : halving_noise(slot);
    double most = outlier * sqrt(fmax(noise, var));

    return fmin(fmax(y, usual - most), usual + most);
}

static void halving_note_noise(struct stp_bandit_slot *slot, double diff)
{
    diff = halving_clip_outlier(slot, diff, 0, 0);
    slot->n_diffs++;
    slot->diffs_ss += diff * diff;
}

/* Degrees of freedom of the noise.  Neighbouring differences share calls: they
 * are worth two thirds. */
static size_t halving_freedom(const struct stp_bandit_slot *slot)
{
    size_t n = slot->n_diffs * 2 / 3;

    return n > 0 ? n : 1;
}

/* The variance between an arm's batches; 0 for one batch. */
static double halving_batch_var(const struct stp_bandit_try *arm)
{
    return arm->n_batches < 2 ? 0 : arm->m2 / (arm->n_batches - 1);
}

/* The variance of an arm's gain.  Its batches share the calls between them,
 * which are as many as the batches'. */
static double halving_gain_var(const struct stp_bandit_slot *slot,
                               const struct stp_bandit_try *arm)
{
    double k = arm->n_batches;
    double var = halving_noise(slot) * 2 * arm->inv_n / (k * k);

    return fmax(var, halving_batch_var(arm) / k);
}

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

/* The arm with the fewest batches; 0 if none is left. */
static unsigned halving_next_arm(const struct stp_bandit_slot *slot)
{
    unsigned next = 0;

    for (unsigned i = 1; i < slot->n_arms; i++) {
        if (halving_is_left(slot, i) &&
            (next == 0 || slot->arms[i].n_batches < slot->arms[next].n_batches))
            next = i;
    }
    return next;
}

/* The fastest arm left that was tried; 0 if there is none. */
static unsigned halving_leader(const struct stp_bandit_slot *slot)
{
    unsigned leader = 0;

    for (unsigned i = 1; i < slot->n_arms; i++) {
        if (halving_is_left(slot, i) && slot->arms[i].n_batches > 0 &&
            (leader == 0 || slot->arms[i].gain > slot->arms[leader].gain))
            leader = i;
    }
    return leader;
}

static unsigned halving_count_left(const struct stp_bandit_slot *slot)
{
    unsigned n = 0;

    for (unsigned i = 1; i < slot->n_arms; i++)
        n += halving_is_left(slot, i);
    return n;
}

/* ---- verdicts ---- */

/* Whether an arm's gain counts, and is 'z' times its error. */
static bool halving_is_better(const struct stp_bandit *bandit,
                              const struct stp_bandit_slot *slot, unsigned i,
                              double z)
{
    const struct stp_bandit_try *arm = &slot->arms[i];

    return arm->n_batches > 2 && arm->gain >= log1p(bandit->rules.min_gain) &&
           arm->gain > stp_t_at(z, halving_freedom(slot)) *
                           sqrt(halving_gain_var(slot, arm));
}

/* Whether an arm had its batches, and is not promising. */
static bool halving_is_spent(const struct stp_bandit *bandit,
                             const struct stp_bandit_slot *slot, unsigned i,
                             unsigned leader)
{
    const struct stp_bandit_try *arm = &slot->arms[i];
    unsigned n =
        slot->stage == STP_STAGE_PAIRS ? N_BATCHES : N_BATCHES_CHANNELS;

    if (arm->n_batches < n)
        return false;
    return i != leader || arm->n_batches >= N_BATCHES_MAX ||
           !halving_is_better(bandit, slot, i, z_hope);
}

static bool halving_is_worse(const struct stp_bandit *bandit,
                             const struct stp_bandit_slot *slot, unsigned i,
                             unsigned leader)
{
    const struct stp_bandit_try *arm = &slot->arms[i];
    const struct stp_bandit_try *best = &slot->arms[leader];
    double t = stp_t_at(z_out, halving_freedom(slot));
    double var = halving_gain_var(slot, arm);

    if (arm->n_batches == 1 && arm->gain > drop_gain)
        return false;
    if (arm->gain + t * sqrt(var) < log1p(bandit->rules.min_gain))
        return true;
    return i != leader && best->gain - arm->gain + alike >
                              t * sqrt(var + halving_gain_var(slot, best));
}

/* Where fewer channels are much worse, still fewer are worse, too. */
static void halving_drop_fewer_channels(struct stp_bandit_slot *slot,
                                        const struct stp_bandit_try *than)
{
    for (unsigned i = 1; i < slot->n_arms; i++) {
        if (halving_is_left(slot, i) &&
            slot->arms[i].arm.n_channels < than->arm.n_channels)
            slot->arms[i].is_out = true;
    }
}

static void halving_drop_worse(const struct stp_bandit *bandit,
                               struct stp_bandit_slot *slot)
{
    unsigned leader = halving_leader(slot);

    for (unsigned i = 1; i < slot->n_arms; i++) {
        struct stp_bandit_try *arm = &slot->arms[i];

        if (!halving_is_left(slot, i) || arm->n_batches == 0 ||
            (!halving_is_worse(bandit, slot, i, leader) &&
             !halving_is_spent(bandit, slot, i, leader)))
            continue;
        arm->is_out = true;
        if (arm->stage == STP_STAGE_CHANNELS && arm->gain < fewer_worse &&
            arm->arm.n_channels < slot->max_channels)
            halving_drop_fewer_channels(slot, arm);
    }
}

static void halving_set_incumbent(struct stp_bandit_slot *slot, unsigned arm)
{
    if (arm != slot->incumbent)
        slot->n_incumbent = slot->n_recent = 0;
    slot->incumbent = arm;
}

/* The fastest other arm that may run; 0 if there is none. */
static unsigned halving_runner_up(const struct stp_bandit_slot *slot)
{
    unsigned best = 0;

    for (unsigned i = 1; i < slot->n_arms; i++) {
        const struct stp_bandit_try *arm = &slot->arms[i];

        if (i != slot->incumbent && !arm->is_banned && arm->n_batches > 0 &&
            (best == 0 || arm->gain > slot->arms[best].gain))
            best = i;
    }
    return best;
}

/* Settles with the incumbent, which is re-tested soon if in doubt. */
static void halving_settle(const struct stp_bandit *bandit,
                           struct stp_bandit_slot *slot, bool is_doubtful)
{
    slot->is_settled = slot->was_settled = true;
    slot->is_due = false;
    slot->runner_up = halving_runner_up(slot);
    slot->retest_at = slot->n_calls + bandit->rules.retest_calls;
    if (is_doubtful && bandit->rules.retest_calls > N_CONFIRM)
        slot->retest_at = slot->n_calls + N_CONFIRM;
}

/* 'arm' has won over the incumbent; 0: no arm has. */
static void halving_conclude(const struct stp_bandit *bandit,
                             struct stp_bandit_slot *slot, unsigned arm)
{
    if (arm != 0) {
        slot->incumbent_gain += slot->arms[arm].gain;
        slot->incumbent_var += halving_gain_var(slot, &slot->arms[arm]);
        halving_set_incumbent(slot, arm);
    }
    if (slot->stage == STP_STAGE_PAIRS && bandit->rules.n_arms == 0) {
        slot->stage = STP_STAGE_CHANNELS;
        stp_bandit_add_channels(slot);
        if (halving_count_left(slot) > 0)
            return;
    }
    halving_settle(bandit, slot, slot->incumbent != 0);
}

/* After a batch: drops arms, continues with channel counts, or settles. */
static void halving_judge(const struct stp_bandit *bandit,
                          struct stp_bandit_slot *slot)
{
    unsigned leader;

    if (slot->is_settled)
        return;
    leader = halving_leader(slot);
    halving_drop_worse(bandit, slot);
    if (halving_next_arm(slot) == 0)
        halving_conclude(bandit, slot, 0);
    else if (halving_count_left(slot) == 1 &&
             halving_is_better(bandit, slot, leader, z_in))
        halving_conclude(bandit, slot, leader);
}

/* Forgets the arms' gains, and returns to NCCL's own choice. */
static void halving_restart(struct stp_bandit_slot *slot)
{
    for (unsigned i = 1; i < slot->n_arms; i++) {
        struct stp_bandit_try *arm = &slot->arms[i];

        arm->is_out = arm->is_banned;
        arm->n_batches = 0;
        arm->gain = arm->m2 = arm->inv_n = 0;
    }
    slot->stage = STP_STAGE_PAIRS;
    slot->is_settled = false;
    slot->incumbent_gain = slot->incumbent_var = 0;
    halving_set_incumbent(slot, 0);
}

/* The incumbent lost after all: returns to NCCL's own choice, and continues
 * with the arms left. */
static void halving_reject_incumbent(const struct stp_bandit *bandit,
                                     struct stp_bandit_slot *slot)
{
    slot->arms[slot->incumbent].is_out = true;
    slot->stage = STP_STAGE_PAIRS;
    slot->is_settled = false;
    slot->incumbent_gain = slot->incumbent_var = 0;
    halving_set_incumbent(slot, 0);
    halving_judge(bandit, slot);
}

/* ---- batches ---- */

/* The gain of the batch that ended, and its variance. */
static double halving_batch_gain(const struct stp_batch *batch)
{
    double beside = (batch->before + batch->after / batch->n_after) / 2;

    return beside - batch->sum / batch->n;
}

static void halving_judge_retest(const struct stp_bandit *bandit,
                                 struct stp_bandit_slot *slot)
{
    const struct stp_batch *batch = &slot->batch;
    double gain = halving_batch_gain(batch);
    double var =
        halving_noise(slot) *
        (1.0 / batch->n + 0.25 / batch->n_before + 0.25 / batch->n_after);
    double half = log1p(bandit->rules.min_gain) / 2;
    double need = batch->arm == 0 ? 0 : log1p(bandit->rules.min_gain);

    halving_settle(bandit, slot, batch->arm == 0 && gain > -half);
    if (gain >= need &&
        gain > stp_t_at(z_flip, halving_freedom(slot)) * sqrt(var))
        halving_restart(slot);
}

static void halving_end_batch(struct stp_bandit *bandit,
                              struct stp_bandit_slot *slot)
{
    const struct stp_batch *batch = &slot->batch;
    struct stp_bandit_try *arm = &slot->arms[batch->arm];
    double off;

    slot->batch.is_open = false;
    bandit->overrun =
        batch->n > batch->n_wanted ? batch->n - batch->n_wanted : 0;
    if (slot->is_settled) {
        halving_judge_retest(bandit, slot);
        return;
    }
    arm->n_batches++;
    arm->inv_n += 1.0F / (float)batch->n;
    off = halving_batch_gain(batch) - arm->gain;
    arm->gain += (float)(off / arm->n_batches);
    arm->m2 += (float)(off * (halving_batch_gain(batch) - arm->gain));
    halving_judge(bandit, slot);
}

static unsigned halving_smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The median of the incumbent's last calls: neither one that is off nor what
 * was before a change weighs in it. */
static double halving_usual(const struct stp_bandit_slot *slot)
{
    unsigned n = halving_smaller(slot->n_incumbent, N_MEDIAN);
    double sorted[N_MEDIAN];

    for (unsigned i = 0; i < n; i++) {
        double y = slot->recent[(slot->n_incumbent - 1 - i) % STP_RECENT];
        unsigned at = i;

        for (; at > 0 && sorted[at - 1] > y; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = y;
    }
    return sorted[n / 2];
}

/* Of the incumbent's last 'n' >= 1 calls, at most STP_RECENT. */
static double halving_recent_mean(const struct stp_bandit_slot *slot,
                                  unsigned n)
{
    double middle = halving_usual(slot);
    double sum = 0;

    for (unsigned i = 1; i <= n; i++)
        sum += halving_clip_outlier(
            slot, slot->recent[(slot->n_incumbent - i) % STP_RECENT], middle,
            0);
    return sum / n;
}

static void halving_begin_calls(struct stp_bandit_slot *slot)
{
    struct stp_batch *batch = &slot->batch;
    unsigned n = halving_smaller(slot->n_recent, STP_RECENT);

    batch->n_before =
        halving_smaller(n, batch->n_wanted > 2 ? batch->n_wanted : 2);
    batch->before = halving_recent_mean(slot, batch->n_before);
    slot->n_recent = 0;
}

/* A call's logarithm, clipped once two batches give the arm's usual time. */
static double halving_trial_value(const struct stp_bandit_slot *slot, double y)
{
    const struct stp_batch *batch = &slot->batch;
    const struct stp_bandit_try *arm = &slot->arms[batch->arm];

    if (arm->n_batches < 2)
        return y;
    return halving_clip_outlier(slot, y, batch->before - arm->gain,
                                halving_batch_var(arm));
}

static void halving_reward_trial(struct stp_bandit *bandit,
                                 struct stp_bandit_slot *slot, double value)
{
    struct stp_batch *batch = &slot->batch;
    double y = log(value);
    double lost;

    if (batch->n_after > 0)
        return;
    if (batch->n == 0)
        halving_begin_calls(slot);
    else
        halving_note_noise(slot, y - batch->last);
    lost = value - exp(batch->before);
    slot->lost += lost;
    bandit->lost += lost;
    batch->last = y;
    batch->sum += halving_trial_value(slot, y);
    batch->n++;
    if (y - batch->before > abrupt)
        batch->n_wanted = batch->n;
}

static void halving_reward_incumbent(struct stp_bandit *bandit,
                                     struct stp_bandit_slot *slot, double value)
{
    struct stp_batch *batch = &slot->batch;
    double y = log(value);

    if (slot->n_recent > 0)
        halving_note_noise(
            slot, y - slot->recent[(slot->n_incumbent - 1) % STP_RECENT]);
    slot->recent[slot->n_incumbent++ % STP_RECENT] = y;
    slot->n_recent++;
    if (slot->incumbent == 0)
        slot->own_level = halving_usual(slot);
    else if (slot->n_incumbent % N_MEDIAN == 0 &&
             slot->n_incumbent <= N_WATCHED && slot->own_level != 0 &&
             halving_usual(slot) > slot->own_level + disappointing) {
        batch->is_open = false;
        halving_reject_incumbent(bandit, slot);
        return;
    }
    if (batch->is_open && batch->n > 0) {
        batch->after += halving_recent_mean(slot, 1);
        if (++batch->n_after >= batch->n_wanted)
            halving_end_batch(bandit, slot);
    } else if (batch->is_over && ++batch->n_missed > N_LATE) {
        batch->is_open = false;
    } else if (!batch->is_open && slot->arms[0].n == N_BASELINE) {
        halving_judge(bandit, slot);
    }
}

static void halving_reward(struct stp_bandit *bandit,
                           struct stp_bandit_slot *slot, unsigned arm,
                           double value)
{
    bool is_baseline = slot->arms[0].n <= N_BASELINE;

    if (!slot->was_settled && (is_baseline || slot->batch.is_open))
        slot->n_trial_calls++;
    if (slot->batch.is_open && arm == slot->batch.arm)
        halving_reward_trial(bandit, slot, value);
    else if (arm == slot->incumbent)
        halving_reward_incumbent(bandit, slot, value);
}

/* ---- what to run ---- */

static unsigned halving_n_wanted(const struct stp_bandit *bandit,
                                 const struct stp_bandit_slot *slot,
                                 unsigned arm)
{
    if (slot->is_settled)
        return bandit->rules.retest_trials;
    return slot->arms[arm].n_batches < 2 ? N_FIRST : N_BATCH;
}

/* A re-test is of an arm that had lost. */
static bool halving_is_trying(const struct stp_bandit_slot *slot)
{
    const struct stp_batch *batch = &slot->batch;
    const struct stp_bandit_try *arm = &slot->arms[batch->arm];

    return batch->is_open && !batch->is_over && batch->n < batch->n_wanted &&
           batch->n_after == 0 &&
           !(slot->is_settled ? arm->is_banned : arm->is_out);
}

/* The arm of a key's next trial; the incumbent if there is none. */
static unsigned halving_next_trial(const struct stp_bandit *bandit,
                                   const struct stp_bandit_slot *slot)
{
    unsigned arm;

    if (!slot->is_settled) {
        arm = halving_next_arm(slot);
        return arm != 0 ? arm : slot->incumbent;
    }
    if (bandit->rules.retest_calls == 0 || bandit->rules.retest_trials == 0 ||
        slot->n_calls < slot->retest_at)
        return slot->incumbent;
    arm = slot->incumbent == 0 ? slot->runner_up : 0;
    return arm != 0 && slot->arms[arm].is_banned ? slot->incumbent : arm;
}

/* The expected loss of a trial, in the unit of rewards. */
static double halving_expected_loss(const struct stp_bandit *bandit,
                                    const struct stp_bandit_slot *slot,
                                    unsigned arm)
{
    const struct stp_bandit_try *state = &slot->arms[arm];
    double ratio = fmin(fmax(state->ratio, ratio_min), ratio_max);
    double base = exp(
        halving_recent_mean(slot, halving_smaller(slot->n_recent, STP_RECENT)));

    if (arm == 0)
        ratio = exp(slot->incumbent_gain);
    else if (state->n_batches > 0)
        ratio = exp(-state->gain);
    return (halving_n_wanted(bandit, slot, arm) + bandit->overrun) *
           fmax(ratio - 1, 0) * base;
}

static bool halving_is_stale(const struct stp_bandit *bandit,
                             const struct stp_bandit_slot *slot)
{
    return bandit->n_calls - slot->last_call > N_STALE;
}

/* Between re-tests times may not arrive: what a re-test is compared with must
 * not be from before. */
static bool halving_is_ready(struct stp_bandit_slot *slot)
{
    if (slot->is_settled && !slot->is_due) {
        slot->is_due = true;
        slot->n_recent = 0;
    }
    if (slot->is_settled)
        return slot->n_recent >= N_INCUMBENT;
    return slot->arms[0].n >= N_BASELINE && slot->n_incumbent >= N_INCUMBENT &&
           slot->n_recent > 0;
}

/* A key that runs another arm than it should, or -1; *is_busy_ret: a trial
 * waits for rewards. */
static int halving_find_switch(struct stp_bandit *bandit, bool *is_busy_ret)
{
    *is_busy_ret = false;
    for (unsigned i = 0; i < bandit->n_keys; i++) {
        struct stp_bandit_slot *slot = bandit->keys[i];

        if (slot == NULL)
            continue;
        if (slot->batch.is_open && halving_is_stale(bandit, slot))
            slot->batch.is_open = false;
        if (slot->running !=
            (halving_is_trying(slot) ? slot->batch.arm : slot->incumbent))
            return (int)i;
        *is_busy_ret |= slot->batch.is_open;
    }
    return -1;
}

/* The key to explore: the same as before while it has arms to try. */
static int halving_find_key(const struct stp_bandit *bandit)
{
    for (unsigned i = 0; i < bandit->n_keys; i++) {
        unsigned key = (bandit->active + i) % bandit->n_keys;
        const struct stp_bandit_slot *slot = bandit->keys[key];

        if (slot != NULL && !halving_is_stale(bandit, slot) &&
            halving_next_trial(bandit, slot) != slot->incumbent)
            return (int)key;
    }
    return -1;
}

static bool halving_want(struct stp_bandit *bandit, double elapsed,
                         struct stp_bandit_want *want_ret)
{
    bool is_busy;
    int key = halving_find_switch(bandit, &is_busy);
    struct stp_bandit_slot *slot;
    unsigned arm;

    if (key >= 0) {
        slot = bandit->keys[key];
        *want_ret = (struct stp_bandit_want){
            .key = (unsigned)key,
            .arm = halving_is_trying(slot) ? slot->batch.arm : slot->incumbent,
            .is_trial = halving_is_trying(slot),
            .n_calls = halving_is_trying(slot) ? slot->batch.n_wanted : 0,
        };
        return true;
    }
    key = is_busy ? -1 : halving_find_key(bandit);
    if (key < 0)
        return false;
    bandit->active = (unsigned)key;
    slot = bandit->keys[key];
    arm = halving_next_trial(bandit, slot);
    if (!halving_is_ready(slot) ||
        bandit->lost + halving_expected_loss(bandit, slot, arm) >
            bandit->rules.budget * elapsed)
        return false;
    *want_ret = (struct stp_bandit_want){
        .key = (unsigned)key,
        .arm = arm,
        .is_trial = true,
        .n_calls = halving_n_wanted(bandit, slot, arm),
    };
    return true;
}

static bool halving_awaits(const struct stp_bandit *bandit,
                           const struct stp_bandit_slot *slot)
{
    return !slot->is_settled || slot->batch.is_open ||
           halving_next_trial(bandit, slot) != slot->incumbent;
}

static void halving_began(const struct stp_bandit *bandit,
                          struct stp_bandit_slot *slot,
                          const struct stp_bandit_want *now)
{
    struct stp_batch *batch = &slot->batch;

    slot->running = now->arm;
    if (batch->is_open)
        batch->is_over = now->arm != batch->arm;
    else if (now->is_trial && now->arm != slot->incumbent && slot->n_recent > 0)
        *batch = (struct stp_batch){
            .is_open = true,
            .arm = now->arm,
            .n_wanted = halving_n_wanted(bandit, slot, now->arm),
        };
}

static void halving_veto(const struct stp_bandit *bandit,
                         struct stp_bandit_slot *slot, unsigned arm)
{
    slot->arms[arm].is_out = slot->arms[arm].is_banned = true;
    if (slot->batch.is_open && slot->batch.arm == arm)
        slot->batch.is_open = false;
    if (slot->incumbent == arm)
        halving_restart(slot);
    if (!slot->batch.is_open && slot->n_diffs > 0)
        halving_judge(bandit, slot);
}

static void halving_verdict(const struct stp_bandit_slot *slot,
                            struct stp_bandit_key_state *state)
{
    double half;

    state->best = slot->incumbent;
    state->is_settled = slot->is_settled;
    if (slot->incumbent == 0 || slot->incumbent_var == 0)
        return;
    half = stp_t975(halving_freedom(slot)) * sqrt(slot->incumbent_var);
    state->gain = exp(slot->incumbent_gain);
    state->gain_low = exp(slot->incumbent_gain - half);
    state->gain_high = exp(slot->incumbent_gain + half);
}

const struct stp_strategy_ops stp_bandit_halving = {
    .want = halving_want,
    .awaits = halving_awaits,
    .began = halving_began,
    .reward = halving_reward,
    .veto = halving_veto,
    .verdict = halving_verdict,
};
