#include "train/train_plan.h"

#include <math.h>

#include "core/rng.h"

enum { GRAIN = STP_ENGINE_ALIGN / 2 }; /* elements; of sixteen bits, aligned */

static uint64_t plan_round_up(uint64_t n, uint64_t grain)
{
    return (n + grain - 1) / grain * grain;
}

void stp_train_lay_out(const struct stp_train_model *model, unsigned n_ranks,
                       struct stp_train_layout *layout_ret)
{
    struct stp_train_layout layout = {.n_tensors = 2 * model->n_layers};

    for (unsigned i = 0; i < layout.n_tensors; i++) {
        const unsigned l = i / 2;
        const uint64_t inputs = i % 2 == 0 ? model->width[l] : 1;

        layout.tensors[i] = (struct stp_train_span){
            .first = layout.n, .n = inputs * model->width[l + 1]};
        layout.n += plan_round_up(layout.tensors[i].n, GRAIN);
    }
    layout.n = plan_round_up(layout.n, (uint64_t)GRAIN * n_ranks);
    layout.shard = layout.n / n_ranks;
    *layout_ret = layout;
}

int stp_train_type(const struct stp_train_config *config)
{
    static const int types[STP_N_PRECISIONS] = {
        [STP_PRECISION_FP32] = STP_TYPE_F32,
        [STP_PRECISION_TF32] = STP_TYPE_F32,
        [STP_PRECISION_BF16] = STP_TYPE_BF16,
        [STP_PRECISION_FP16] = STP_TYPE_F16,
        [STP_PRECISION_FP64] = STP_TYPE_F64,
    };

    return types[config->precision];
}

int stp_train_master_type(const struct stp_train_config *config)
{
    return config->precision == STP_PRECISION_FP64 ? STP_TYPE_F64
                                                   : STP_TYPE_F32;
}

int stp_train_gradient_type(const struct stp_train_config *config)
{
    return config->half_gradients ? stp_train_type(config)
                                  : stp_train_master_type(config);
}

/* All from tensor 'first' to 'last'. */
static struct stp_train_chunk plan_chunk(const struct stp_train_layout *layout,
                                         unsigned first, unsigned last)
{
    const struct stp_train_span *begin = &layout->tensors[first];
    const struct stp_train_span *end = &layout->tensors[last];

    return (struct stp_train_chunk){
        .span = {.first = begin->first,
                 .n = end->first + end->n - begin->first},
        .tensor = first};
}

unsigned stp_train_chunks(const struct stp_train_config *config,
                          const struct stp_train_layout *layout,
                          struct stp_train_chunk *chunks_ret)
{
    const unsigned size = stp_type_size(stp_train_gradient_type(config));
    const unsigned step = config->mode == STP_TRAIN_NAIVE ? 1 : 2;
    uint64_t full = config->first_bucket_bytes;
    uint64_t nbytes = 0;
    unsigned last = layout->n_tensors - 1; /* of the bucket */
    unsigned n = 0;

    switch (config->mode) {
    case STP_TRAIN_NAIVE:
    case STP_TRAIN_INTERLEAVED:
        for (unsigned i = layout->n_tensors; i > 0; i -= step)
            chunks_ret[n++] = plan_chunk(layout, i - step, i - 1);
        break;
    case STP_TRAIN_BUCKETED:
        for (unsigned i = layout->n_tensors; i-- > 0;) {
            nbytes += layout->tensors[i].n * size;
            if (nbytes < full && i > 0)
                continue;
            chunks_ret[n++] = plan_chunk(layout, i, last);
            full = config->bucket_bytes;
            nbytes = 0;
            last = i - 1;
        }
        break;
    default:
        break;
    }
    return n;
}

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
