#include "core/learn/confirm.h"

#include <math.h>
#include <string.h>

#include "core/stats.h"

/* Quantiles of the normal distribution: two-sided 99.5 over 95 percent widens
 * Student's interval by about their ratio; 80 percent power. */
#define WIDER   1.4322 /* 2.8070 / 1.9600 */
#define Z_LOOK  2.8070
#define Z_POWER 0.8416

void stp_confirm_begin(struct stp_confirm *confirm, double expected)
{
    memset(confirm, 0, sizeof(*confirm));
    confirm->expected = expected;
}

/* Without the shortest and the longest: a pause is not the arm's. */
static double confirm_middle_mean(const double *values, unsigned n)
{
    double sum = 0.0, least = values[0], most = values[0];

    for (unsigned i = 0; i < n; i++) {
        sum += values[i];
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
    }
    return (sum - least - most) / (n - 2);
}

static void confirm_add_pair(struct stp_confirm *c, double baseline, double arm)
{
    double gain = log(baseline / arm);
    double delta = gain - c->mean;

    c->n_pairs++;
    c->mean += delta / c->n_pairs;
    c->m2 += delta * (gain - c->mean);
}

static double confirm_deviation(const struct stp_confirm *c)
{
    return sqrt(c->m2 / (c->n_pairs - 1));
}

/* Half of the interval of the mean. */
static double confirm_half_width(const struct stp_confirm *c)
{
    return WIDER * stp_t975(c->n_pairs - 1) * confirm_deviation(c) /
           sqrt(c->n_pairs);
}

static uint64_t confirm_pairs_needed(const struct stp_confirm *c)
{
    double pairs =
        (Z_LOOK + Z_POWER) * confirm_deviation(c) / log1p(c->expected);

    return (uint64_t)ceil(pairs * pairs);
}

uint64_t stp_confirm_needed(const struct stp_confirm *confirm)
{
    return confirm->n_pairs < 2
               ? UINT64_MAX
               : confirm_pairs_needed(confirm) * STP_CONFIRM_BLOCK;
}

void stp_confirm_gain(const struct stp_confirm *confirm, double *gain_ret,
                      double *low_ret, double *high_ret)
{
    bool is_known = confirm->n_pairs >= 2;
    double half = is_known ? confirm_half_width(confirm) : INFINITY;

    *gain_ret = is_known ? exp(confirm->mean) : 1.0;
    *low_ret = is_known ? exp(confirm->mean - half) : 0.0;
    *high_ret = is_known ? exp(confirm->mean + half) : INFINITY;
}

/* 5 pairs, 10, 20, ... */
static bool confirm_is_time_to_look(unsigned n_pairs)
{
    for (unsigned n = STP_CONFIRM_FIRST; n <= STP_CONFIRM_PAIRS; n *= 2)
        if (n == n_pairs)
            return true;
    return false;
}

static enum stp_confirm_state confirm_judge(const struct stp_confirm *c)
{
    double gain, low, high;

    stp_confirm_gain(c, &gain, &low, &high);
    if (low > 1.0)
        return STP_CONFIRM_SHORTER;
    if (high < 1.0)
        return STP_CONFIRM_LONGER;
    return c->n_pairs >= STP_CONFIRM_PAIRS ||
                   confirm_pairs_needed(c) > STP_CONFIRM_PAIRS
               ? STP_CONFIRM_NOISY
               : STP_CONFIRM_OPEN;
}

static void confirm_end_block(struct stp_confirm *c)
{
    double middle = confirm_middle_mean(c->steps, c->n_steps);

    c->n_steps = 0;
    if (!c->is_arm) {
        c->baseline = middle;
        return;
    }
    confirm_add_pair(c, c->baseline, middle);
    if (confirm_is_time_to_look(c->n_pairs))
        c->state = confirm_judge(c);
}

bool stp_confirm_step(struct stp_confirm *confirm, double us)
{
    if (confirm->state != STP_CONFIRM_OPEN)
        return true;
    confirm->steps[confirm->n_steps++] = us;
    if (confirm->n_steps < STP_CONFIRM_BLOCK)
        return false;
    confirm_end_block(confirm);
    return true;
}

void stp_confirm_switch(struct stp_confirm *confirm, bool is_arm)
{
    confirm->is_arm = is_arm;
    confirm->n_steps = 0;
}
