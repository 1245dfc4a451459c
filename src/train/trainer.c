#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "nccl_tuner_abi.h"

enum { ROOM = 1 << 18 }; /* elements that are filled in at a time */

void *stp_trainer_at(void *address, int type, uint64_t i)
{
    return address == NULL ? NULL : (char *)address + i * stp_type_size(type);
}

void stp_trainer_synchronise(struct stp_trainer *t)
{
    STP_THEN(t->status, t->engine.ops->synchronise(t->engine.self, &t->err));
}

void stp_trainer_zero(struct stp_trainer *t, void *address, uint64_t nbytes)
{
    STP_NOTE(
        t, KERNEL,
        .as.kernel = {.kind = STP_KERNEL_ZERO, .n = nbytes, .to = address});
}

static void trainer_cast(struct stp_trainer *t, uint64_t n, int from_type,
                         const void *from, int to_type, void *to)
{
    STP_NOTE(t, KERNEL,
             .as.kernel = {.kind = STP_KERNEL_CAST,
                           .type = from_type,
                           .type_to = to_type,
                           .n = n,
                           .from = from,
                           .to = to});
}

void stp_trainer_forget(struct stp_trainer *t)
{
    t->n_events = 0;
    t->n_pairs = 0;
}

/* ---- memory ---- */

static void *trainer_take(struct stp_trainer *t, int type, uint64_t n,
                          const char *what)
{
    void *address = NULL;

    STP_DO(t, alloc, n * stp_type_size(type), what, &address);
    return address;
}

static void trainer_allocate(struct stp_trainer *t)
{
    const struct stp_train_model *model = t->config.model;
    const uint64_t n = t->layout.n;
    const uint64_t n_times = 3 * (uint64_t)t->config.n_epochs;
    const uint64_t n_losses = STP_TRAIN_WINDOW + 1;
    unsigned widest = 0;

    t->weights = trainer_take(t, t->type, n, "weights");
    t->master = t->type == t->master_type
                    ? t->weights
                    : trainer_take(t, t->master_type, n, "master weights");
    t->gradients = trainer_take(t, t->gradient_type, n, "gradients");
    t->features =
        trainer_take(t, t->type, t->n_rows * model->width[0], "samples");
    t->labels = trainer_take(t, STP_TYPE_I32, t->n_rows, "labels");
    for (unsigned l = 1; l <= model->n_layers; l++) {
        if (model->width[l] > widest)
            widest = model->width[l];
        t->outputs[l] =
            trainer_take(t, t->type, (uint64_t)t->rows * model->width[l],
                         "the outputs of a layer");
    }
    for (int i = 0; i < 2; i++)
        t->deltas[i] = trainer_take(t, t->type, (uint64_t)t->rows * widest,
                                    "the gradients of a layer's outputs");
    t->losses = trainer_take(t, STP_TYPE_F64,
                             n_times > n_losses ? n_times : n_losses, "losses");
    t->correct = trainer_take(t, STP_TYPE_F64, 2, "losses");
    t->found = trainer_take(t, STP_TYPE_F32, 1, "losses");
    if (t->type != t->master_type)
        t->staging = trainer_take(t, t->master_type, ROOM, "samples");
}

/* ---- filling it in ---- */

/* The value of element 'i'. */
typedef double (*number_fn)(const struct stp_trainer *t, unsigned tensor,
                            uint64_t i);

/* Fills in numbers by way of the host's 'room'. */
static void trainer_fill(struct stp_trainer *t, void *room, void *to, int type,
                         struct stp_train_span span, unsigned tensor,
                         number_fn number)
{
    const int wide = t->master_type;

    for (uint64_t i = 0; i < span.n && t->status == STP_OK; i += ROOM) {
        const unsigned n = span.n - i < ROOM ? (unsigned)(span.n - i) : ROOM;
        void *at = stp_trainer_at(to, type, span.first + i);
        void *upload_to = type == wide ? at : t->staging;

        for (unsigned j = 0; j < n; j++) {
            const double value = number(t, tensor, span.first + i + j);

            if (wide == STP_TYPE_F64)
                ((double *)room)[j] = value;
            else
                ((float *)room)[j] = (float)value;
        }
        STP_DO(t, upload, upload_to, room, (uint64_t)n * stp_type_size(wide));
        if (upload_to != at) {
            trainer_cast(t, n, wide, t->staging, type, at);
            stp_trainer_synchronise(t);
        }
    }
}

static uint64_t trainer_sample(const struct stp_trainer *t, uint64_t row)
{
    return row / t->share * t->config.batch + t->info.rank * t->share +
           row % t->share;
}

static double trainer_feature(const struct stp_trainer *t, unsigned tensor,
                              uint64_t i)
{
    const unsigned width = t->config.model->width[0];

    return stp_train_feature(t->config.seed,
                             trainer_sample(t, i / width) * width + i % width);
}

static double trainer_weight(const struct stp_trainer *t, unsigned tensor,
                             uint64_t i)
{
    return stp_train_weight(t->config.seed, t->config.model, tensor / 2, i);
}

void stp_trainer_fill(struct stp_trainer *t)
{
    const struct stp_train_model *model = t->config.model;
    const struct stp_train_span samples = {.n = t->n_rows * model->width[0]};
    int32_t *labels = NULL;
    void *room = NULL;

    if (t->status == STP_OK && t->info.has_data) {
        room = malloc(ROOM * sizeof(double));
        labels = malloc(t->n_rows * sizeof(*labels));
        if (room == NULL || labels == NULL)
            t->status = stp_nomem(&t->err);
    }
    if (room != NULL && labels != NULL) {
        trainer_fill(t, room, t->features, t->type, samples, 0,
                     trainer_feature);
        for (unsigned i = 0; i < t->layout.n_tensors; i++)
            trainer_fill(t, room, t->master, t->master_type,
                         t->layout.tensors[i], i, trainer_weight);
        if (t->master != t->weights) {
            trainer_cast(t, t->layout.n, t->master_type, t->master, t->type,
                         t->weights);
            stp_trainer_synchronise(t);
        }
        for (uint64_t i = 0; i < t->n_rows; i++)
            labels[i] = stp_train_label(t->config.seed, trainer_sample(t, i),
                                        model->width[model->n_layers]);
        STP_DO(t, upload, t->labels, labels, t->n_rows * sizeof(*labels));
    }
    free(labels);
    free(room);
    t->status = t->engine.ops->agree(t->engine.self, t->status, &t->err);
}

/* ---- beginning ---- */

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
    status = stp_train_check(config, t->info.n_ranks, err);
    if (status == STP_OK && config->precision == STP_PRECISION_TF32 &&
        !t->info.has_tf32)
        status = STP_REFUSE(
            err,
            "no tf32 on %s: only GPUs from compute capability 8.0 on have it",
            t->info.processor);
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
    trainer_allocate(t);
    status = engine->ops->agree(engine->self, t->status, &t->err);
    if (status != STP_OK && err != NULL)
        *err = t->err;
    return status;
}

/* ---- a step: forward, backward, communication and update ---- */

static void *trainer_weights(const struct stp_trainer *t, unsigned tensor)
{
    return stp_trainer_at(t->weights, t->type, t->layout.tensors[tensor].first);
}

static void *trainer_gradients(const struct stp_trainer *t, unsigned tensor)
{
    return stp_trainer_at(t->gradients, t->gradient_type,
                          t->layout.tensors[tensor].first);
}

/* The input of layer 'l', of a micro-batch from sample 'row' on. */
static void *trainer_input(const struct stp_trainer *t, unsigned l,
                           uint64_t row)
{
    return l > 0 ? t->outputs[l]
                 : stp_trainer_at(t->features, t->type,
                                  row * t->config.model->width[0]);
}

static void trainer_multiply(struct stp_trainer *t, struct stp_product *product)
{
    product->gemm.type = t->type;
    product->tf32 = t->config.precision == STP_PRECISION_TF32;
    STP_NOTE(t, PRODUCT, .as.product = *product);
}

/* Begins a named part of the step, for all work noted until the next NULL. */
static void trainer_range(struct stp_trainer *t, const char *name)
{
    if (t->engine.ops->range != NULL)
        t->engine.ops->range(t->engine.self, name);
}

/* ---- forward ---- */

void stp_trainer_forward(struct stp_trainer *t, uint64_t row)
{
    const struct stp_train_model *model = t->config.model;

    trainer_range(t, "forward");
    for (unsigned l = 0; l < model->n_layers; l++)
        trainer_multiply(
            t, &(struct stp_product){.gemm.m = t->rows,
                                     .gemm.n = model->width[l + 1],
                                     .gemm.k = model->width[l],
                                     .b_transposed = true,
                                     .type_c = t->type,
                                     .epilogue = l + 1 < model->n_layers
                                                     ? STP_EPILOGUE_BIAS_RELU
                                                     : STP_EPILOGUE_BIAS,
                                     .a = trainer_input(t, l, row),
                                     .b = trainer_weights(t, 2 * l),
                                     .c = t->outputs[l + 1],
                                     .bias = trainer_weights(t, 2 * l + 1)});
    trainer_range(t, NULL);
}

/* ---- communication ---- */

static unsigned trainer_mark(struct stp_trainer *t, unsigned stream)
{
    const unsigned event = t->n_events++;

    STP_NOTE(t, RECORD, .stream = stream, .event = event);
    return event;
}

/* Times what was noted in a stream since event 'from'. */
static void trainer_time(struct stp_trainer *t, unsigned stream, unsigned from,
                         bool comm, bool exposed)
{
    t->pairs[t->n_pairs++] =
        (struct stp_train_pair){.from = from,
                                .to = trainer_mark(t, stream),
                                .comm = comm,
                                .exposed = exposed};
}

void stp_trainer_reduce(struct stp_trainer *t, unsigned stream, int type,
                        int op, uint64_t n, void *data)
{
    STP_NOTE(t, TRANSFER, .stream = stream,
             .as.transfer = {.coll = ncclFuncAllReduce,
                             .type = type,
                             .op = op,
                             .n = n,
                             .in = data,
                             .out = data,
                             .in_place = true});
}

static void trainer_send(struct stp_trainer *t, unsigned stream,
                         const struct stp_train_chunk *chunk)
{
    trainer_range(t, "all-reduce");
    stp_trainer_reduce(
        t, stream, t->gradient_type, STP_OP_SUM, chunk->span.n,
        stp_trainer_at(t->gradients, t->gradient_type, chunk->span.first));
    trainer_range(t, NULL);
}

/* Sends the chunk that this tensor completes, beside the backward pass. */
static void trainer_send_ready(struct stp_trainer *t, unsigned tensor)
{
    const struct stp_train_chunk *chunk = &t->chunks[t->sent];
    unsigned ready, from;

    if (t->config.mode == STP_TRAIN_NAIVE || t->sent == t->n_chunks ||
        chunk->tensor != tensor)
        return;
    ready = trainer_mark(t, STP_STREAM_MAIN);
    STP_NOTE(t, WAIT, .stream = STP_STREAM_COMM, .event = ready);
    from = trainer_mark(t, STP_STREAM_COMM);
    trainer_send(t, STP_STREAM_COMM, chunk);
    trainer_time(t, STP_STREAM_COMM, from, true, false);
    t->sent++;
}

/* Reduces gradients to this rank's shard, or gathers all weights, in place. */
static void trainer_exchange_shard(struct stp_trainer *t, int coll)
{
    const unsigned from = trainer_mark(t, STP_STREAM_MAIN);
    const bool gathers = coll == ncclFuncAllGather;
    const int type = gathers ? t->type : t->gradient_type;
    void *all = gathers ? t->weights : t->gradients;
    void *mine = stp_trainer_at(all, type, t->layout.shard * t->info.rank);

    trainer_range(t, gathers ? "all-gather" : "reduce-scatter");
    STP_NOTE(t, TRANSFER,
             .as.transfer = {.coll = coll,
                             .type = type,
                             .op = STP_OP_SUM,
                             .n = t->layout.shard,
                             .in = gathers ? mine : all,
                             .out = gathers ? all : mine,
                             .in_place = true});
    trainer_range(t, NULL);
    trainer_time(t, STP_STREAM_MAIN, from, true, true);
}

/* ---- backward ---- */

static void trainer_differentiate_layer(struct stp_trainer *t, unsigned l,
                                        uint64_t row, double beta, bool last)
{
    const struct stp_train_model *model = t->config.model;
    const void *delta = t->deltas[(l + 1) % 2];

    STP_NOTE(t, KERNEL,
             .as.kernel = {.kind = STP_KERNEL_COLUMN_SUM,
                           .type = t->type,
                           .type_to = t->gradient_type,
                           .rows = t->rows,
                           .columns = model->width[l + 1],
                           .factor = beta,
                           .from = delta,
                           .to = trainer_gradients(t, 2 * l + 1)});
    if (last)
        trainer_send_ready(t, 2 * l + 1);
    trainer_multiply(t,
                     &(struct stp_product){.gemm.m = model->width[l + 1],
                                           .gemm.n = model->width[l],
                                           .gemm.k = t->rows,
                                           .a_transposed = true,
                                           .type_c = t->gradient_type,
                                           .beta = beta,
                                           .a = delta,
                                           .b = trainer_input(t, l, row),
                                           .c = trainer_gradients(t, 2 * l)});
    if (last)
        trainer_send_ready(t, 2 * l);
    if (l == 0)
        return;
    trainer_multiply(t, &(struct stp_product){.gemm.m = t->rows,
                                              .gemm.n = model->width[l],
                                              .gemm.k = model->width[l + 1],
                                              .type_c = t->type,
                                              .a = delta,
                                              .b = trainer_weights(t, 2 * l),
                                              .c = t->deltas[l % 2]});
    STP_NOTE(t, KERNEL,
             .as.kernel = {.kind = STP_KERNEL_RELU_BACKWARD,
                           .type = t->type,
                           .n = (uint64_t)t->rows * model->width[l],
                           .from = t->outputs[l],
                           .to = t->deltas[l % 2]});
}

/* ---- update ---- */

static void trainer_change_weights(struct stp_trainer *t)
{
    const bool sharded = t->config.mode == STP_TRAIN_SHARDED;
    const bool scaled = t->config.precision == STP_PRECISION_FP16;
    const uint64_t first = sharded ? t->layout.shard * t->info.rank : 0;
    const struct stp_update update = {
        .n = sharded ? t->layout.shard : t->layout.n,
        .type = t->master_type,
        .gradient_type = t->gradient_type,
        .copy_type = t->type,
        .w = stp_trainer_at(t->master, t->master_type, first),
        .gradient = stp_trainer_at(t->gradients, t->gradient_type, first),
        .copy = t->master == t->weights
                    ? NULL
                    : stp_trainer_at(t->weights, t->type, first),
        .rate = t->config.rate,
        .scale = 1 / t->scale.scale,
        .skip = scaled ? t->found : NULL};

    trainer_range(t, "update");
    if (scaled) { /* an overflow of any rank is one of all */
        stp_trainer_zero(t, t->found, sizeof(*t->found));
        STP_NOTE(t, KERNEL,
                 .as.kernel = {.kind = STP_KERNEL_FIND_NONFINITE,
                               .type = t->gradient_type,
                               .n = update.n,
                               .from = update.gradient,
                               .to = t->found});
        if (t->info.n_ranks > 1)
            stp_trainer_reduce(t, STP_STREAM_MAIN, STP_TYPE_F32, STP_OP_MAX, 1,
                               t->found);
    }
    STP_NOTE(t, UPDATE, .as.update = update);
    trainer_range(t, NULL);
    if (sharded)
        trainer_exchange_shard(t, ncclFuncAllGather);
}

void stp_trainer_step(struct stp_trainer *t, uint64_t row, unsigned slot,
                      bool update)
{
    unsigned from, done;

    t->sent = 0;
    for (unsigned i = 0; i < t->config.accumulate; i++) {
        const uint64_t at = row + (uint64_t)i * t->rows;

        stp_trainer_forward(t, at);

        /* Computes the loss and its gradients: the mean over the whole batch,
         * so that micro-batches and ranks need only be summed. */
        const bool first = i == 0;
        const bool last = i + 1 == t->config.accumulate;
        const struct stp_train_model *model = t->config.model;
        const unsigned n = model->n_layers;
        const struct stp_cross_entropy loss = {
            .n = t->rows,
            .classes = model->width[n],
            .type = t->type,
            .logits = t->outputs[n],
            .label = stp_trainer_at(t->labels, STP_TYPE_I32, at),
            .loss_scale = 1.0 / t->config.batch,
            .gradient_scale = t->scale.scale / t->config.batch,
            .loss = stp_trainer_at(t->losses, STP_TYPE_F64, slot),
            .gradient = t->deltas[n % 2]};

        trainer_range(t, "backward");
        STP_NOTE(t, CROSS_ENTROPY, .as.cross_entropy = loss);
        for (unsigned l = n; l-- > 0;)
            trainer_differentiate_layer(t, l, at, first ? 0 : 1, last);
        trainer_range(t, NULL);
    }
    switch (t->config.mode) {
    case STP_TRAIN_NAIVE: /* all after the backward pass, in its stream */
        from = trainer_mark(t, STP_STREAM_MAIN);
        for (unsigned i = 0; i < t->n_chunks; i++)
            trainer_send(t, STP_STREAM_MAIN, &t->chunks[i]);
        trainer_time(t, STP_STREAM_MAIN, from, true, true);
        break;
    case STP_TRAIN_INTERLEAVED:
    case STP_TRAIN_BUCKETED: /* the main stream waits for what was sent */
        done = trainer_mark(t, STP_STREAM_COMM);
        from = trainer_mark(t, STP_STREAM_MAIN);
        STP_NOTE(t, WAIT, .event = done);
        trainer_time(t, STP_STREAM_MAIN, from, false, true);
        break;
    case STP_TRAIN_SHARDED:
        trainer_exchange_shard(t, ncclFuncReduceScatter);
        break;
    default:
        break;
    }
    if (update)
        trainer_change_weights(t);
}

/* ---- loss scaling ---- */

void stp_loss_scale_begin(struct stp_loss_scale *s)
{
    *s = (struct stp_loss_scale){.scale = STP_LOSS_SCALE_START};
}

void stp_loss_scale_update(struct stp_loss_scale *s, bool overflow)
{
    if (overflow) {
        s->scale /= 2;
        s->n_good = 0;
        s->n_skipped++;
    } else if (++s->n_good == STP_LOSS_SCALE_PATIENCE) {
        s->scale *= 2;
        s->n_good = 0;
    }
}
