/* bandit_noise.c - how much blocks of windows vary */
#include <math.h>
#include <string.h>

#include "core/learn/bandit_state.h"
#include "core/stats.h"

enum {
    N_OWN_ERROR = 4, /* blocks from which an arm's own deviation counts */
    N_NOISE = 6,     /* spreads by which the noise is known */
};

static const double disturbed = 5;        /* standard deviations of a spread */
static const double least_noise = 0.0005; /* of a block; a clock's own */

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
}

void stp_bandit_set_noise(struct stp_bandit *bandit, double noise)
{
    bandit->noise = fmax(least_noise, noise);
    bandit->n_spreads = 0;
}

bool stp_bandit_is_disturbed(const struct stp_bandit *bandit,
                             const struct stp_block *block)
{
    return fmax(fabs(block->spread[0]), fabs(block->spread[1])) >
           disturbed * sqrt(2) * bandit->noise;
}

/* The shorter of two windows. */
static double noise_shorter(double mean, double spread)
{
    return 2 * mean / (1 + exp(fabs(spread)));
}

double stp_bandit_block_loss(const struct stp_bandit *bandit,
                             const struct stp_block *block)
{
    if (!stp_bandit_is_disturbed(bandit, block))
        return 2 * (block->arm_us - block->own_us);
    return 2 * (noise_shorter(block->arm_us, block->spread[1]) -
                noise_shorter(block->own_us, block->spread[0]));
}

double stp_bandit_error(const struct stp_bandit *bandit,
                        const struct stp_bandit_try *arm)
{
    double own = arm->n < N_OWN_ERROR ? 0 : sqrt(arm->ss / (arm->n - 1));

    return fmax(bandit->noise, own) / sqrt(arm->n);
}
