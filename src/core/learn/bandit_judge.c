#include "core/learn/bandit_judge.h"

#include <math.h>

#include "core/stats.h"

/*
 * The constants below were set by what bandit_table prints for the recorded
 * machines, where a call varies by 2 to 5 percent and one in fifty takes up to
 * three times as long: half of all keys are to settle within 40 calls, and a
 * gain of 5 percent is to be found nine times in ten.  Quantiles are given as
 * the normal distribution has them; Student's are used.
 */
enum {
    N_CONFIRM = 50, /* calls after which a winner is re-tested first: its trials
                       may all have been in one odd minute */
    N_BATCHES = 4,  /* of an arm, after which it is out or has a hope, */
    N_BATCHES_CHANNELS = 3, /* and of a channel count */
    N_BATCHES_MAX = 30,     /* of one that has; the least gain that counts may
                               be found for calls that vary by 4 percent */
};

static const double z_in = 3;    /* 95 percent each of 20 arms: 0.05 / 20 */
static const double z_out = 1.5; /* to be worse; most are, and few by little */
static const double z_hope = 1;  /* is worth more calls */
static const double alike = 0.003;   /* two arms that need not be told apart */
static const double hopeless = -0.3; /* a gain that is: one call is enough */
static const double fewer_worse = -0.05; /* of channels, then fewer are, too */
static const double outlier = 3; /* in standard deviations; none counts more */
static const double first_noise = 0.05;  /* until three calls said otherwise */
static const double least_noise = 0.005; /* of calls; a clock's own */

/* ---- noise ---- */

/* Of one call, from neighbouring ones: what drifts is not in it. */
double stp_judge_noise(const struct stp_bandit_slot *slot)
{
    double var = slot->diffs_ss / (2 * slot->n_diffs);

    return fmax(var, least_noise * least_noise);
}

/*
 * Calls now and then take several times as long, whatever runs: such a call
 * counts as one that is off by no more than a few standard deviations.
 */
double stp_judge_tame(const struct stp_bandit_slot *slot, double y,
                      double usual, double var)
{
    double noise =
        slot->n_diffs < 3 ? first_noise * first_noise : stp_judge_noise(slot);
    double most = outlier * sqrt(fmax(noise, var));

    return fmin(fmax(y, usual - most), usual + most);
}

void stp_judge_note(struct stp_bandit_slot *slot, double diff)
{
    diff = stp_judge_tame(slot, diff, 0, 0);
    slot->n_diffs++;
    slot->diffs_ss += diff * diff;
}

/* Neighbouring differences share calls: they are worth two thirds. */
size_t stp_judge_freedom(const struct stp_bandit_slot *slot)
{
    size_t n = slot->n_diffs * 2 / 3;

    return n > 0 ? n : 1;
}

/* Between an arm's batches; 0 for one. */
double stp_judge_own_var(const struct stp_bandit_try *arm)
{
    return arm->n_batches < 2 ? 0 : arm->m2 / (arm->n_batches - 1);
}

/* Of an arm's gain.  Its batches share the calls between them, which are as
 * many as the batches'. */
static double gain_var(const struct stp_bandit_slot *slot,
                       const struct stp_bandit_try *arm)
{
    double k = arm->n_batches;
    double var = stp_judge_noise(slot) * 2 * arm->inv_n / (k * k);

    return fmax(var, stp_judge_own_var(arm) / k);
}

/* ---- which arms are left ---- */

static bool same_pair(const struct stp_bandit_arm *a,
                      const struct stp_bandit_arm *b)
{
    return a->algo == b->algo && a->proto == b->proto;
}

/* Whether an arm is still to be told apart from the home. */
static bool is_left(const struct stp_bandit_slot *slot, unsigned i)
{
    const struct stp_bandit_try *arm = &slot->arms[i];
    const struct stp_bandit_arm *pair =
        slot->home == 0 ? &slot->own : &slot->arms[slot->home].arm;

    if (i == 0 || i == slot->home || arm->is_out || arm->stage != slot->stage)
        return false;
    return arm->stage == STP_STAGE_PAIRS || same_pair(&arm->arm, pair);
}

/* The arm with the fewest batches; 0 if none is left. */
unsigned stp_judge_next(const struct stp_bandit_slot *slot)
{
    unsigned next = 0;

    for (unsigned i = 1; i < slot->n_arms; i++) {
        if (is_left(slot, i) &&
            (next == 0 || slot->arms[i].n_batches < slot->arms[next].n_batches))
            next = i;
    }
    return next;
}

/* The fastest of those left that were tried; 0 if there is none. */
static unsigned leader_of(const struct stp_bandit_slot *slot)
{
    unsigned leader = 0;

    for (unsigned i = 1; i < slot->n_arms; i++) {
        if (is_left(slot, i) && slot->arms[i].n_batches > 0 &&
            (leader == 0 || slot->arms[i].gain > slot->arms[leader].gain))
            leader = i;
    }
    return leader;
}

static unsigned count_left(const struct stp_bandit_slot *slot)
{
    unsigned n = 0;

    for (unsigned i = 1; i < slot->n_arms; i++)
        n += is_left(slot, i);
    return n;
}

/* ---- verdicts ---- */

/* Whether an arm's gain counts, and is 'z' times its error. */
static bool is_better(const struct stp_bandit *bandit,
                      const struct stp_bandit_slot *slot, unsigned i, double z)
{
    const struct stp_bandit_try *arm = &slot->arms[i];

    return arm->n_batches > 2 && arm->gain >= log1p(bandit->rules.min_gain) &&
           arm->gain >
               stp_t_at(z, stp_judge_freedom(slot)) * sqrt(gain_var(slot, arm));
}

/* Whether an arm had its batches, and no hope is left. */
static bool is_spent(const struct stp_bandit *bandit,
                     const struct stp_bandit_slot *slot, unsigned i,
                     unsigned leader)
{
    const struct stp_bandit_try *arm = &slot->arms[i];
    unsigned n =
        slot->stage == STP_STAGE_PAIRS ? N_BATCHES : N_BATCHES_CHANNELS;

    if (arm->n_batches < n)
        return false;
    return i != leader || arm->n_batches >= N_BATCHES_MAX ||
           !is_better(bandit, slot, i, z_hope);
}

static bool is_worse(const struct stp_bandit *bandit,
                     const struct stp_bandit_slot *slot, unsigned i,
                     unsigned leader)
{
    const struct stp_bandit_try *arm = &slot->arms[i];
    const struct stp_bandit_try *best = &slot->arms[leader];
    double t = stp_t_at(z_out, stp_judge_freedom(slot));
    double var = gain_var(slot, arm);

    if (arm->n_batches == 1 && arm->gain > hopeless)
        return false;
    if (arm->gain + t * sqrt(var) < log1p(bandit->rules.min_gain))
        return true;
    return i != leader && best->gain - arm->gain + alike >
                              t * sqrt(var + gain_var(slot, best));
}

/* Where fewer channels are much worse, still fewer are, too. */
static void drop_fewer(struct stp_bandit_slot *slot,
                       const struct stp_bandit_try *than)
{
    for (unsigned i = 1; i < slot->n_arms; i++) {
        if (is_left(slot, i) &&
            slot->arms[i].arm.n_channels < than->arm.n_channels)
            slot->arms[i].is_out = true;
    }
}

static void drop_worse(const struct stp_bandit *bandit,
                       struct stp_bandit_slot *slot)
{
    unsigned leader = leader_of(slot);

    for (unsigned i = 1; i < slot->n_arms; i++) {
        struct stp_bandit_try *arm = &slot->arms[i];

        if (!is_left(slot, i) || arm->n_batches == 0 ||
            (!is_worse(bandit, slot, i, leader) &&
             !is_spent(bandit, slot, i, leader)))
            continue;
        arm->is_out = true;
        if (arm->stage == STP_STAGE_CHANNELS && arm->gain < fewer_worse &&
            arm->arm.n_channels < slot->max_channels)
            drop_fewer(slot, arm);
    }
}

void stp_judge_set_home(struct stp_bandit_slot *slot, unsigned arm)
{
    if (arm != slot->home)
        slot->n_home = slot->n_recent = 0;
    slot->home = arm;
}

/* The fastest that is not the home and may run; 0 if there is none. */
static unsigned second(const struct stp_bandit_slot *slot)
{
    unsigned best = 0;

    for (unsigned i = 1; i < slot->n_arms; i++) {
        const struct stp_bandit_try *arm = &slot->arms[i];

        if (i != slot->home && !arm->is_banned && arm->n_batches > 0 &&
            (best == 0 || arm->gain > slot->arms[best].gain))
            best = i;
    }
    return best;
}

void stp_judge_settle(const struct stp_bandit *bandit,
                      struct stp_bandit_slot *slot, bool is_doubtful)
{
    slot->is_settled = slot->was_settled = true;
    slot->runner_up = second(slot);
    slot->retest_at = slot->n_calls + bandit->rules.retest_calls;
    if (is_doubtful && bandit->rules.retest_calls > N_CONFIRM)
        slot->retest_at = slot->n_calls + N_CONFIRM;
}

/* 'arm' has won over the home; 0: none has. */
static void conclude(const struct stp_bandit *bandit,
                     struct stp_bandit_slot *slot, unsigned arm)
{
    if (arm != 0) {
        slot->home_gain += slot->arms[arm].gain;
        slot->home_var += gain_var(slot, &slot->arms[arm]);
        stp_judge_set_home(slot, arm);
    }
    if (slot->stage == STP_STAGE_PAIRS && bandit->rules.n_arms == 0) {
        slot->stage = STP_STAGE_CHANNELS;
        stp_bandit_add_channels(slot);
        if (count_left(slot) > 0)
            return;
    }
    stp_judge_settle(bandit, slot, slot->home != 0);
}

/* Draws what conclusions there are. */
void stp_judge(const struct stp_bandit *bandit, struct stp_bandit_slot *slot)
{
    unsigned leader;

    if (slot->is_settled)
        return;
    leader = leader_of(slot);
    drop_worse(bandit, slot);
    if (stp_judge_next(slot) == 0)
        conclude(bandit, slot, 0);
    else if (count_left(slot) == 1 && is_better(bandit, slot, leader, z_in))
        conclude(bandit, slot, leader);
}

void stp_judge_restart(struct stp_bandit_slot *slot)
{
    for (unsigned i = 1; i < slot->n_arms; i++) {
        struct stp_bandit_try *arm = &slot->arms[i];

        arm->is_out = arm->is_banned;
        arm->n_batches = 0;
        arm->gain = arm->m2 = arm->inv_n = 0;
    }
    slot->stage = STP_STAGE_PAIRS;
    slot->is_settled = false;
    slot->home_gain = slot->home_var = 0;
    stp_judge_set_home(slot, 0);
}

void stp_judge_take_back(const struct stp_bandit *bandit,
                         struct stp_bandit_slot *slot)
{
    slot->arms[slot->home].is_out = true;
    slot->stage = STP_STAGE_PAIRS;
    slot->is_settled = false;
    slot->home_gain = slot->home_var = 0;
    stp_judge_set_home(slot, 0);
    stp_judge(bandit, slot);
}
