/* train_config.c - what can be trained, and how */
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "train/train.h"

enum { MAX_STEPS = 1 << 28 }; /* whose losses are kept */

const struct stp_train_model stp_train_models[] = {
    {"tiny", 3, {784, 64, 32, 10}},
    {"base", 7, {784, 4096, 4096, 4096, 4096, 2048, 1024, 10}},
    {"large", 7, {784, 8192, 8192, 8192, 8192, 4096, 2048, 10}},
    {"xlarge", 7, {784, 16384, 16384, 16384, 8192, 4096, 2048, 10}},
};

const unsigned stp_train_n_models =
    sizeof(stp_train_models) / sizeof(stp_train_models[0]);

static const char *const modes[STP_TRAIN_N_MODES] = {
    [STP_TRAIN_SINGLE] = "single",           [STP_TRAIN_NAIVE] = "naive",
    [STP_TRAIN_INTERLEAVED] = "interleaved", [STP_TRAIN_BUCKETED] = "bucketed",
    [STP_TRAIN_SHARDED] = "sharded",
};

static const char *const precisions[STP_N_PRECISIONS] = {
    [STP_PRECISION_FP32] = "fp32", [STP_PRECISION_TF32] = "tf32",
    [STP_PRECISION_BF16] = "bf16", [STP_PRECISION_FP16] = "fp16",
    [STP_PRECISION_FP64] = "fp64",
};

const struct stp_train_model *stp_train_find_model(const char *name)
{
    for (unsigned i = 0; i < stp_train_n_models; i++)
        if (strcmp(stp_train_models[i].name, name) == 0)
            return &stp_train_models[i];
    return NULL;
}

const char *stp_train_mode_name(int mode)
{
    return modes[mode];
}

int stp_train_mode_from_name(const char *name, size_t len)
{
    return stp_find_word(modes, STP_TRAIN_N_MODES, name, len);
}

const char *stp_precision_name(int precision)
{
    return precisions[precision];
}

int stp_precision_from_name(const char *name, size_t len)
{
    return stp_find_word(precisions, STP_N_PRECISIONS, name, len);
}

uint64_t stp_train_n_params(const struct stp_train_model *model)
{
    uint64_t n = 0;

    for (unsigned l = 0; l < model->n_layers; l++)
        n += ((uint64_t)model->width[l] + 1) * model->width[l + 1];
    return n;
}

void stp_train_default(struct stp_train_config *config_ret)
{
    *config_ret = (struct stp_train_config){
        .model = stp_train_find_model("base"),
        .mode = STP_TRAIN_BUCKETED,
        .precision = STP_PRECISION_FP32,
        .batch = 4096,
        .accumulate = 1,
        .n_samples = 65536,
        .n_epochs = 5,
        .warmup = 3,
        .rate = 0.01,
        .bucket_bytes = (uint64_t)25 << 20,
        .first_bucket_bytes = (uint64_t)1 << 20,
        .seed = 42,
    };
}

enum stp_status stp_train_check(const struct stp_train_config *c,
                                unsigned n_ranks, struct stp_error *err)
{
    const struct stp_train_model *model = c->model;
    const uint64_t parts = (uint64_t)n_ranks * c->accumulate;
    double steps;

    if (model == NULL || model->n_layers == 0 ||
        model->n_layers > STP_TRAIN_LAYERS)
        return STP_REFUSE(err, "a model of %u layers, expected 1 to %d",
                          model == NULL ? 0 : model->n_layers,
                          STP_TRAIN_LAYERS);
    for (unsigned l = 0; l <= model->n_layers; l++)
        if (model->width[l] == 0)
            return STP_REFUSE(err, "model %s has no width for layer %u",
                              model->name, l);
    if (c->batch == 0 || parts == 0 || c->batch % parts != 0)
        return STP_REFUSE(err,
                          "a batch of %u for %u rank%s with %u micro-batch%s "
                          "each, expected a multiple of %ju",
                          c->batch, n_ranks, n_ranks == 1 ? "" : "s",
                          c->accumulate, c->accumulate == 1 ? "" : "es",
                          (uintmax_t)parts);
    if (c->n_samples == 0 || c->n_samples % c->batch != 0)
        return STP_REFUSE(
            err, "an epoch of %u samples in steps of %u, expected a multiple",
            c->n_samples, c->batch);
    if (c->mode == STP_TRAIN_SINGLE && n_ranks != 1)
        return STP_REFUSE(err, "mode single on %u ranks, expected 1", n_ranks);
    if (c->n_epochs == 0 || !(c->rate > 0) || !isfinite(c->rate))
        return STP_REFUSE(
            err, "%u epochs at a learning rate of %g, expected both above 0",
            c->n_epochs, c->rate);
    steps = (double)c->n_epochs * (c->n_samples / c->batch);
    if (steps > MAX_STEPS)
        return STP_REFUSE(err, "%.0f steps in all epochs, expected at most %d",
                          steps, MAX_STEPS);
    if (c->half_gradients && c->precision != STP_PRECISION_BF16 &&
        c->precision != STP_PRECISION_FP16)
        return STP_REFUSE(err,
                          "gradients of 16 bits with %s, expected bf16 or fp16",
                          stp_precision_name(c->precision));
    return STP_OK;
}
