#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "nccl_tuner_abi.h"
#include "train/train_data.h"

enum { ROOM = 1 << 18 }; /* elements that are filled in at a time */

void *stp_trainer_at(void *address, int type, uint64_t i)
{
    return address == NULL ? NULL : (char *)address + i * stp_type_size(type);
}

/* ---- memory ---- */

static void *take(struct stp_trainer *t, int type, uint64_t n, const char *what)
{
    void *address = NULL;

    STP_DO(t, alloc, n * stp_type_size(type), what, &address);
    return address;
}

static void take_activations(struct stp_trainer *t)
{
    const struct stp_train_model *model = t->config.model;
    unsigned widest = 0;

    for (unsigned l = 1; l <= model->n_layers; l++) {
        if (model->width[l] > widest)
            widest = model->width[l];
        t->outputs[l] = take(t, t->type, (uint64_t)t->rows * model->width[l],
                             "the outputs of a layer");
    }
    for (int i = 0; i < 2; i++)
        t->deltas[i] = take(t, t->type, (uint64_t)t->rows * widest,
                            "the gradients of a layer's outputs");
}

static void take_memory(struct stp_trainer *t)
{
    const uint64_t n = t->layout.n;
    const uint64_t n_times = 3 * (uint64_t)stp_train_n_epochs(&t->config);
    const uint64_t n_losses = STP_TRAIN_WINDOW + 1;

    t->weights = take(t, t->type, n, "weights");
    t->master = t->type == t->master_type
                    ? t->weights
                    : take(t, t->master_type, n, "master weights");
    t->gradients = take(t, t->gradient_type, n, "gradients");
    t->features =
        take(t, t->type, t->n_rows * t->config.model->width[0], "samples");
    t->labels = take(t, STP_TYPE_I32, t->n_rows, "labels");
    take_activations(t);
    t->losses = take(t, STP_TYPE_F64, n_times > n_losses ? n_times : n_losses,
                     "losses");
    t->correct = take(t, STP_TYPE_F64, 2, "losses");
    t->found = take(t, STP_TYPE_F32, 1, "losses");
}

/* ---- filling it in ---- */

/* What element 'i' is. */
typedef double (*number_fn)(const struct stp_trainer *t, unsigned tensor,
                            uint64_t i);

static void put(void *room, int type, unsigned i, double value)
{
    if (type == STP_TYPE_F64)
        ((double *)room)[i] = value;
    else
        ((float *)room)[i] = (float)value;
}

/* Where numbers go from the host, on their way to another type. */
struct filling {
    void *room;    /* the host's */
    void *staging; /* the engine's; NULL: none is needed */
};

static void fill(struct stp_trainer *t, const struct filling *f, void *to,
                 int type, struct stp_train_span span, unsigned tensor,
                 number_fn number)
{
    const int wide = t->master_type;

    for (uint64_t i = 0; i < span.n && t->status == STP_OK; i += ROOM) {
        const unsigned n = span.n - i < ROOM ? (unsigned)(span.n - i) : ROOM;
        void *at = stp_trainer_at(to, type, span.first + i);
        void *upload_to = type == wide ? at : f->staging;

        for (unsigned j = 0; j < n; j++)
            put(f->room, wide, j, number(t, tensor, span.first + i + j));
        STP_DO(t, upload, upload_to, f->room,
               (uint64_t)n * stp_type_size(wide));
        if (upload_to != at) {
            STP_DO(t, cast, STP_STREAM_MAIN, n, wide, f->staging, type, at);
            stp_trainer_synchronise(t);
        }
    }
}

static uint64_t sample_of(const struct stp_trainer *t, uint64_t row)
{
    return row / t->share * t->config.batch + t->info.rank * t->share +
           row % t->share;
}

static double feature(const struct stp_trainer *t, unsigned tensor, uint64_t i)
{
    const unsigned width = t->config.model->width[0];

    (void)tensor;
    return stp_train_feature(t->config.seed,
                             sample_of(t, i / width) * width + i % width);
}

static double weight(const struct stp_trainer *t, unsigned tensor, uint64_t i)
{
    return stp_train_weight(t->config.seed, t->config.model, tensor / 2, i);
}

static void fill_labels(struct stp_trainer *t)
{
    const struct stp_train_model *model = t->config.model;
    int32_t *labels = malloc(t->n_rows * sizeof(*labels));

    if (labels == NULL) {
        t->status = stp_nomem(&t->err);
        return;
    }
    for (uint64_t i = 0; i < t->n_rows; i++)
        labels[i] = stp_train_label(t->config.seed, sample_of(t, i),
                                    model->width[model->n_layers]);
    STP_DO(t, upload, t->labels, labels, t->n_rows * sizeof(*labels));
    free(labels);
}

static void fill_all(struct stp_trainer *t, const struct filling *f)
{
    const struct stp_train_span samples = {.n = t->n_rows *
                                                t->config.model->width[0]};

    fill(t, f, t->features, t->type, samples, 0, feature);
    for (unsigned i = 0; i < t->layout.n_tensors; i++)
        fill(t, f, t->master, t->master_type, t->layout.tensors[i], i, weight);
    if (t->master != t->weights) {
        STP_DO(t, cast, STP_STREAM_MAIN, t->layout.n, t->master_type, t->master,
               t->type, t->weights);
        stp_trainer_synchronise(t);
    }
    fill_labels(t);
}

static void fill_memory(struct stp_trainer *t)
{
    struct filling f = {.room = NULL};

    if (t->type != t->master_type)
        f.staging = take(t, t->master_type, ROOM, "samples");
    if (t->status != STP_OK || !t->info.has_data)
        return;
    f.room = malloc(ROOM * sizeof(double));
    if (f.room == NULL)
        t->status = stp_nomem(&t->err);
    else
        fill_all(t, &f);
    free(f.room);
}

/* ---- beginning ---- */

static enum stp_status check(const struct stp_trainer *t, struct stp_error *err)
{
    enum stp_status status = stp_train_check(&t->config, t->info.n_ranks, err);

    if (status == STP_OK && t->config.precision == STP_PRECISION_TF32 &&
        !t->info.has_tf32)
        return stp_fail(
            err, STP_ERR_RANGE,
            "no tf32 on %s: only GPUs from compute capability 8.0 on have it",
            t->info.gpu);
    return status;
}

enum stp_status stp_trainer_begin(struct stp_trainer *t,
                                  const struct stp_engine *engine,
                                  const struct stp_train_config *config,
                                  struct stp_error *err)
{
    enum stp_status status;

    memset(t, 0, sizeof(*t));
    t->engine = *engine;
    t->config = *config;
    engine->ops->info(engine->self, &t->info);
    status = check(t, err);
    if (status != STP_OK)
        return status;
    t->share = config->batch / t->info.n_ranks;
    t->rows = t->share / config->accumulate;
    t->n_rows = config->n_samples / t->info.n_ranks;
    t->type = stp_train_type(config);
    t->master_type = stp_train_master_type(config);
    t->gradient_type = stp_train_gradient_type(config);
    stp_train_lay_out(config->model, t->info.n_ranks, &t->layout);
    t->n_chunks = stp_train_chunks(config, &t->layout, t->chunks);
    stp_loss_scale_begin(&t->scale);
    if (config->precision != STP_PRECISION_FP16)
        t->scale.scale = 1;
    take_memory(t);
    status = engine->ops->agree(engine->self, t->status, &t->err);
    if (status == STP_OK) {
        fill_memory(t);
        status = engine->ops->agree(engine->self, t->status, &t->err);
    }
    if (status != STP_OK && err != NULL)
        *err = t->err;
    return status;
}
