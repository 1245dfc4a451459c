#include "train/train_data.h"

#include <math.h>

#include "core/rng.h"

/* Independent draws from one seed. */
enum { DRAW_FEATURES, DRAW_LABELS, DRAW_WEIGHTS };

double stp_train_feature(uint64_t seed, uint64_t i)
{
    const uint64_t draw = stp_rng(seed, DRAW_FEATURES);
    const double u = 1 - stp_rng_unit(draw, i / 2 * 2); /* above 0 */
    const double turn = 8 * atan(1) * stp_rng_unit(draw, i / 2 * 2 + 1);

    return sqrt(-2 * log(u)) * (i % 2 == 0 ? cos(turn) : sin(turn));
}

int32_t stp_train_label(uint64_t seed, uint64_t sample, unsigned n_classes)
{
    return (int32_t)(stp_rng_unit(stp_rng(seed, DRAW_LABELS), sample) *
                     n_classes);
}

double stp_train_weight(uint64_t seed, const struct stp_train_model *model,
                        unsigned layer, uint64_t i)
{
    return (2 * stp_rng_unit(stp_rng(seed, DRAW_WEIGHTS), i) - 1) /
           sqrt(model->width[layer]);
}
