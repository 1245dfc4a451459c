/* bandit_gains.c - what was measured: gains of arms, how blocks vary */
#include <math.h>
#include <string.h>

#include "core/learn/bandit_gains.h"
#include "core/stats.h"

enum {
    N_OWN_ERROR = 4, /* blocks from which an arm's own deviation counts */
    N_MEDIAN = 4,    /* blocks whose median means something */
    N_NOISE = 6,     /* spreads by which the noise is less than it was said */
    N_SURE = 24,     /* and by which it is known: stalls may hit half of few */
};

const double stp_bandit_z_bound = 2.6;

/* Standard deviations of a spread, or of a gain. */
static const double disturbed = 5;
static const double quartile = 1.15 * 1.414; /* that 3 of 4 spreads are below */
static const double least_noise = 0.0005;    /* of a block; a clock's own */

/* The difference of two windows varies by the root of 2 more than the gain of a
 * block, which is the mean of two such differences. */
void stp_bandit_add_spreads(struct stp_bandit *bandit,
                            const struct stp_block *block)
{
    double sizes[STP_SPREADS];
    unsigned n;

    for (int i = 0; i < 2; i++)
        bandit->spreads[bandit->n_spreads++ % STP_SPREADS] =
            fabs(block->spread[i]);
    if (bandit->n_spreads < N_NOISE)
        return;
    n = bandit->n_spreads < STP_SPREADS ? bandit->n_spreads : STP_SPREADS;
    memcpy(sizes, bandit->spreads, n * sizeof(sizes[0]));
    bandit->noise = fmax(least_noise, stp_robust_stddev(sizes, n) / sqrt(2));
    /* A schedule cannot choose windows that a job's rhythm divides: one in four
     * may hold a pause more than the others. */
    if (bandit->rules.n_passes > 0)
        bandit->noise = fmax(bandit->noise, sizes[3 * n / 4] / quartile);
    if (n < N_SURE && bandit->noise > bandit->first_noise)
        bandit->noise = bandit->first_noise;
}

void stp_bandit_set_noise(struct stp_bandit *bandit, double noise)
{
    bandit->noise = bandit->first_noise = fmax(least_noise, noise);
    bandit->n_spreads = 0;
}

bool stp_bandit_is_disturbed(const struct stp_bandit *bandit,
                             const struct stp_block *block)
{
    return fmax(fabs(block->spread[0]), fabs(block->spread[1])) >
           disturbed * sqrt(2) * bandit->noise;
}

/* The shorter of two windows. */
static double gains_shorter(double mean, double spread)
{
    return 2 * mean / (1 + exp(fabs(spread)));
}

double stp_bandit_block_loss(const struct stp_bandit *bandit,
                             const struct stp_block *block)
{
    if (!stp_bandit_is_disturbed(bandit, block))
        return 2 * (block->arm_us - block->own_us);
    return 2 * (gains_shorter(block->arm_us, block->spread[1]) -
                gains_shorter(block->own_us, block->spread[0]));
}

void stp_bandit_add_value(struct stp_bandit_try *arm, double value)
{
    double off = value - arm->mean;

    arm->n += arm->n < UINT32_MAX;
    arm->mean += off / arm->n;
    arm->ss += off * (value - arm->mean);
}

/* A stall that hits both windows of an arm alike shows in the gain alone; so
 * does one that came before the noise was known.  Of few gains, that nearest to
 * none is no stall's. */
static bool gains_is_far(const struct stp_bandit *bandit,
                         const struct stp_bandit_try *arm, double gain)
{
    double sizes[STP_LAST_GAINS], noise, nearest = gain;
    struct stp_summary last;

    for (unsigned i = 0; i < arm->n_last; i++)
        if (fabs(arm->last[i]) < fabs(nearest))
            nearest = arm->last[i];
    if (arm->n_last < N_MEDIAN)
        return fabs(gain - nearest) > disturbed * bandit->noise;
    memcpy(sizes, arm->last, sizeof(sizes));
    stp_summarise(sizes, arm->n_last, &last);
    for (unsigned i = 0; i < arm->n_last; i++)
        sizes[i] = fabs(arm->last[i] - last.median);
    noise = fmax(bandit->noise, stp_robust_stddev(sizes, arm->n_last));
    return fabs(gain - last.median) > disturbed * noise;
}

static void gains_restore(struct stp_bandit_try *arm)
{
    arm->n = arm->n_before;
    arm->mean = arm->mean_before;
    arm->ss = arm->ss_before;
}

void stp_bandit_add_gain(const struct stp_bandit *bandit,
                         struct stp_bandit_try *arm, double gain)
{
    /* Whether the oldest of the last gains counts is decided for good. */
    if (arm->n_last == STP_LAST_GAINS) {
        gains_restore(arm);
        if (!gains_is_far(bandit, arm, arm->last[0]))
            stp_bandit_add_value(arm, arm->last[0]);
        arm->n_before = arm->n;
        arm->mean_before = arm->mean;
        arm->ss_before = arm->ss;
        memmove(arm->last, arm->last + 1, --arm->n_last * sizeof(arm->last[0]));
    }
    arm->last[arm->n_last++] = gain;
    gains_restore(arm);
    for (unsigned i = 0; i < arm->n_last; i++)
        if (!gains_is_far(bandit, arm, arm->last[i]))
            stp_bandit_add_value(arm, arm->last[i]);
}

void stp_bandit_set_gains(struct stp_bandit_try *arm, uint32_t n, double mean,
                          double ss)
{
    arm->n_last = 0;
    arm->n_before = n;
    arm->mean_before = mean;
    arm->ss_before = ss;
    gains_restore(arm);
}

void stp_bandit_shift_gains(struct stp_bandit_try *arm, double by)
{
    arm->mean -= by;
    arm->mean_before -= by;
    for (unsigned i = 0; i < arm->n_last; i++)
        arm->last[i] -= by;
}

/* The deviation of few blocks says little, unless noise cannot explain it. */
double stp_bandit_error(const struct stp_bandit *bandit,
                        const struct stp_bandit_try *arm)
{
    const double own = arm->n < 2 ? 0 : sqrt(arm->ss / (arm->n - 1));
    const bool counts =
        arm->n >= N_OWN_ERROR || own > disturbed * bandit->noise;

    return (counts ? fmax(bandit->noise, own) : bandit->noise) / sqrt(arm->n);
}
