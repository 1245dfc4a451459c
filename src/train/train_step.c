/* train_step.c - forward, backward, communication and update */
#include "nccl_tuner_abi.h"
#include "train/trainer.h"

static void *weights_of(const struct stp_trainer *t, unsigned tensor)
{
    return stp_trainer_at(t->weights, t->type, t->layout.tensors[tensor].first);
}

static void *gradients_of(const struct stp_trainer *t, unsigned tensor)
{
    return stp_trainer_at(t->gradients, t->gradient_type,
                          t->layout.tensors[tensor].first);
}

/* What goes into layer 'l', of a micro-batch from sample 'row' on. */
static void *input_of(const struct stp_trainer *t, unsigned l, uint64_t row)
{
    return l > 0 ? t->outputs[l]
                 : stp_trainer_at(t->features, t->type,
                                  row * t->config.model->width[0]);
}

static void multiply(struct stp_trainer *t, struct stp_product *product)
{
    product->type = t->type;
    product->tf32 = t->config.precision == STP_PRECISION_TF32;
    STP_DO(t, product, STP_STREAM_MAIN, product);
}

/* What is noted until the next NULL is in this part of the step. */
static void range(struct stp_trainer *t, const char *name)
{
    if (t->engine.ops->range != NULL)
        t->engine.ops->range(t->engine.self, name);
}

/* ---- forward ---- */

void stp_trainer_forward(struct stp_trainer *t, uint64_t row)
{
    const struct stp_train_model *model = t->config.model;

    range(t, "forward");
    for (unsigned l = 0; l < model->n_layers; l++)
        multiply(t,
                 &(struct stp_product){.m = t->rows,
                                       .n = model->width[l + 1],
                                       .k = model->width[l],
                                       .b_transposed = true,
                                       .type_c = t->type,
                                       .epilogue = l + 1 < model->n_layers
                                                       ? STP_EPILOGUE_BIAS_RELU
                                                       : STP_EPILOGUE_BIAS,
                                       .a = input_of(t, l, row),
                                       .b = weights_of(t, 2 * l),
                                       .c = t->outputs[l + 1],
                                       .bias = weights_of(t, 2 * l + 1)});
    range(t, NULL);
}

/* ---- communication ---- */

static unsigned mark(struct stp_trainer *t, unsigned stream)
{
    const unsigned event = t->n_events++;

    STP_DO(t, record, stream, event);
    return event;
}

static void measure(struct stp_trainer *t, struct stp_train_pair pair)
{
    t->pairs[t->n_pairs++] = pair;
}

static void reduce_in(struct stp_trainer *t, unsigned stream, int type, int op,
                      uint64_t n, void *data)
{
    const struct stp_transfer transfer = {.coll = ncclFuncAllReduce,
                                          .type = type,
                                          .op = op,
                                          .n = n,
                                          .in = data,
                                          .out = data,
                                          .in_place = true};

    STP_DO(t, collective, stream, &transfer);
}

void stp_trainer_reduce(struct stp_trainer *t, int type, int op, uint64_t n,
                        void *data)
{
    reduce_in(t, STP_STREAM_MAIN, type, op, n, data);
}

static void send(struct stp_trainer *t, unsigned stream,
                 const struct stp_train_chunk *chunk)
{
    range(t, "all-reduce");
    reduce_in(
        t, stream, t->gradient_type, STP_OP_SUM, chunk->span.n,
        stp_trainer_at(t->gradients, t->gradient_type, chunk->span.first));
    range(t, NULL);
}

/* Beside the backward pass: the chunk that is complete with this tensor. */
static void send_ready(struct stp_trainer *t, unsigned tensor)
{
    const struct stp_train_chunk *chunk = &t->chunks[t->sent];
    unsigned ready, from;

    if (t->config.mode == STP_TRAIN_NAIVE || t->sent == t->n_chunks ||
        chunk->tensor != tensor)
        return;
    ready = mark(t, STP_STREAM_MAIN);
    STP_DO(t, wait, STP_STREAM_COMM, ready);
    from = mark(t, STP_STREAM_COMM);
    send(t, STP_STREAM_COMM, chunk);
    measure(t, (struct stp_train_pair){
                   .from = from, .to = mark(t, STP_STREAM_COMM), .comm = true});
    t->sent++;
}

/* What the main stream does itself, nothing beside it. */
static void send_all(struct stp_trainer *t)
{
    const unsigned from = mark(t, STP_STREAM_MAIN);

    for (unsigned i = 0; i < t->n_chunks; i++)
        send(t, STP_STREAM_MAIN, &t->chunks[i]);
    measure(t, (struct stp_train_pair){.from = from,
                                       .to = mark(t, STP_STREAM_MAIN),
                                       .comm = true,
                                       .exposed = true});
}

static void wait_for_sent(struct stp_trainer *t)
{
    const unsigned done = mark(t, STP_STREAM_COMM);
    const unsigned from = mark(t, STP_STREAM_MAIN);

    STP_DO(t, wait, STP_STREAM_MAIN, done);
    measure(t, (struct stp_train_pair){.from = from,
                                       .to = mark(t, STP_STREAM_MAIN),
                                       .exposed = true});
}

/* Of this rank's shard, in place. */
static void shard(struct stp_trainer *t, int coll, int type, void *all)
{
    const unsigned from = mark(t, STP_STREAM_MAIN);
    void *mine = stp_trainer_at(all, type, t->layout.shard * t->info.rank);
    const bool gathers = coll == ncclFuncAllGather;
    const struct stp_transfer transfer = {.coll = coll,
                                          .type = type,
                                          .op = STP_OP_SUM,
                                          .n = t->layout.shard,
                                          .in = gathers ? mine : all,
                                          .out = gathers ? all : mine,
                                          .in_place = true};

    range(t, gathers ? "all-gather" : "reduce-scatter");
    STP_DO(t, collective, STP_STREAM_MAIN, &transfer);
    range(t, NULL);
    measure(t, (struct stp_train_pair){.from = from,
                                       .to = mark(t, STP_STREAM_MAIN),
                                       .comm = true,
                                       .exposed = true});
}

static void complete_gradients(struct stp_trainer *t)
{
    switch (t->config.mode) {
    case STP_TRAIN_NAIVE:
        send_all(t);
        break;
    case STP_TRAIN_INTERLEAVED:
    case STP_TRAIN_BUCKETED:
        wait_for_sent(t);
        break;
    case STP_TRAIN_SHARDED:
        shard(t, ncclFuncReduceScatter, t->gradient_type, t->gradients);
        break;
    default:
        break;
    }
}

/* ---- backward ---- */

static void differentiate_layer(struct stp_trainer *t, unsigned l, uint64_t row,
                                double beta, bool last)
{
    const struct stp_train_model *model = t->config.model;
    const void *delta = t->deltas[(l + 1) % 2];

    STP_DO(t, column_sum, STP_STREAM_MAIN, t->type, t->gradient_type, t->rows,
           model->width[l + 1], beta, delta, gradients_of(t, 2 * l + 1));
    if (last)
        send_ready(t, 2 * l + 1);
    multiply(t, &(struct stp_product){.m = model->width[l + 1],
                                      .n = model->width[l],
                                      .k = t->rows,
                                      .a_transposed = true,
                                      .type_c = t->gradient_type,
                                      .beta = beta,
                                      .a = delta,
                                      .b = input_of(t, l, row),
                                      .c = gradients_of(t, 2 * l)});
    if (last)
        send_ready(t, 2 * l);
    if (l == 0)
        return;
    multiply(t, &(struct stp_product){.m = t->rows,
                                      .n = model->width[l],
                                      .k = model->width[l + 1],
                                      .type_c = t->type,
                                      .a = delta,
                                      .b = weights_of(t, 2 * l),
                                      .c = t->deltas[l % 2]});
    STP_DO(t, relu_backward, STP_STREAM_MAIN, t->type,
           (uint64_t)t->rows * model->width[l], t->outputs[l],
           t->deltas[l % 2]);
}

/* The loss, and back from it to the gradients: the mean over the whole batch,
 * so that sums over micro-batches and ranks are all that is left. */
static void differentiate(struct stp_trainer *t, uint64_t row, unsigned slot,
                          bool first, bool last)
{
    const struct stp_train_model *model = t->config.model;
    const unsigned n = model->n_layers;
    const struct stp_cross_entropy loss = {
        .n = t->rows,
        .classes = model->width[n],
        .type = t->type,
        .logits = t->outputs[n],
        .label = stp_trainer_at(t->labels, STP_TYPE_I32, row),
        .loss_scale = 1.0 / t->config.batch,
        .gradient_scale = t->scale.scale / t->config.batch,
        .loss = stp_trainer_at(t->losses, STP_TYPE_F64, slot),
        .gradient = t->deltas[n % 2]};

    range(t, "backward");
    STP_DO(t, cross_entropy, STP_STREAM_MAIN, &loss);
    for (unsigned l = n; l-- > 0;)
        differentiate_layer(t, l, row, first ? 0 : 1, last);
    range(t, NULL);
}

/* ---- update ---- */

/* Any rank's overflow is that of all. */
static void look_for_overflow(struct stp_trainer *t, uint64_t n,
                              const void *gradients)
{
    STP_DO(t, zero, STP_STREAM_MAIN, t->found, sizeof(*t->found));
    STP_DO(t, find_nonfinite, STP_STREAM_MAIN, t->gradient_type, n, gradients,
           t->found);
    if (t->info.n_ranks > 1)
        stp_trainer_reduce(t, STP_TYPE_F32, STP_OP_MAX, 1, t->found);
}

static void change_weights(struct stp_trainer *t)
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

    range(t, "update");
    if (scaled)
        look_for_overflow(t, update.n, update.gradient);
    STP_DO(t, update, STP_STREAM_MAIN, &update);
    range(t, NULL);
    if (sharded)
        shard(t, ncclFuncAllGather, t->type, t->weights);
}

void stp_trainer_step(struct stp_trainer *t, uint64_t row, unsigned slot,
                      bool update)
{
    t->sent = 0;
    for (unsigned i = 0; i < t->config.accumulate; i++) {
        const uint64_t at = row + (uint64_t)i * t->rows;

        stp_trainer_forward(t, at);
        differentiate(t, at, slot, i == 0, i + 1 == t->config.accumulate);
    }
    complete_gradients(t);
    if (update)
        change_weights(t);
}

void stp_trainer_synchronise(struct stp_trainer *t)
{
    if (t->status == STP_OK)
        t->status = t->engine.ops->synchronise(t->engine.self, &t->err);
}

void stp_trainer_forget(struct stp_trainer *t)
{
    t->n_events = 0;
    t->n_pairs = 0;
}
