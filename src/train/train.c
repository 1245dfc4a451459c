#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/trainer.h"

/* One run on one rank. */
struct run {
    struct stp_trainer t;
    struct stp_train_result result;
    unsigned steps; /* of an epoch */
    unsigned window;
};

/* ---- stopping: a request of one rank stops all ---- */

static bool train_wants_to_stop(const struct stp_trainer *t)
{
    return t->config.go_on != NULL && !t->config.go_on(t->config.user);
}

/* Adds this rank's request to stop to a sum over all ranks, if the engine has
 * sums. */
static bool train_write_stop(struct stp_trainer *t, double *slot)
{
    const double n = t->info.has_data && train_wants_to_stop(t) ? 1 : 0;

    STP_DO(t, upload, slot, &n, sizeof(n));
    return n != 0;
}

/* Stops if the sum says that any rank wants to. */
static void train_read_stop(struct stp_trainer *t, double n)
{
    if (n != 0)
        STP_THEN(t->status, stp_fail(&t->err, STP_ERR_STOPPED, "stopped"));
}

static void train_agree(struct stp_trainer *t)
{
    t->status = t->engine.ops->agree(t->engine.self, t->status, &t->err);
}

/* ---- steps ---- */

/* Takes the losses of 'n' steps from 'step' on. Every rank has the sum of all
 * losses, so all fail where one is not finite, and rank 0 says so. */
static void train_take_losses(struct run *r, unsigned step, unsigned n)
{
    struct stp_trainer *t = &r->t;
    double losses[STP_TRAIN_WINDOW + 1] = {0};

    STP_DO(t, download, losses, t->losses, (n + 1) * sizeof(*losses));
    for (unsigned i = 0; i < n && t->status == STP_OK; i++) {
        r->result.losses[step + i] = t->info.has_data ? losses[i] : (double)NAN;
        if (!t->info.has_data || isfinite(losses[i]))
            continue;
        t->status = stp_fail(
            &t->err, STP_ERR_LIMIT,
            "the loss is %s at step %u (epoch %u), expected a finite number: "
            "is the learning rate of %g too high for %s?",
            isnan(losses[i]) ? "NaN" : "infinite", step + i + 1,
            (step + i) / r->steps + 1, t->config.rate,
            stp_precision_name(t->config.precision));
        train_agree(t);
    }
    train_read_stop(t, losses[n]);
}

static void train_take_overflow(struct stp_trainer *t)
{
    float found = 0;

    if (t->config.precision != STP_PRECISION_FP16)
        return;
    STP_DO(t, download, &found, t->found, sizeof(found));
    if (t->status == STP_OK)
        stp_loss_scale_update(&t->scale, found != 0);
}

/* Runs 'n' steps that go through the samples from the beginning. */
static void train_run_window(struct run *r, unsigned step, unsigned n,
                             bool update)
{
    struct stp_trainer *t = &r->t;

    train_write_stop(t, t->losses + n);
    stp_trainer_zero(t, t->losses, n * sizeof(*t->losses));
    for (unsigned i = 0; i < n; i++)
        stp_trainer_step(t, (uint64_t)((step + i) % r->steps) * t->share, i,
                         update);
    if (t->info.n_ranks > 1)
        stp_trainer_reduce(t, STP_STREAM_MAIN, STP_TYPE_F64, STP_OP_SUM, n + 1,
                           t->losses);
    stp_trainer_synchronise(t);
}

/* All ranks begin together. */
static void train_run_epoch(struct run *r, unsigned e)
{
    struct stp_trainer *t = &r->t;
    struct stp_train_epoch *epoch = &r->result.epochs[e];
    double from_us;
    bool single_pass;

    train_read_stop(t, train_wants_to_stop(t));
    train_agree(t);
    from_us = t->engine.ops->now_us(t->engine.self);
    for (unsigned i = 0; i < r->steps && t->status == STP_OK; i += r->window) {
        const unsigned n = r->steps - i < r->window ? r->steps - i : r->window;
        const unsigned step = e * r->steps + i;

        train_run_window(r, step, n, true);
        train_take_overflow(t);
        train_take_losses(r, step, n);
        for (unsigned k = 0; k < t->n_pairs && t->status == STP_OK; k++) {
            const struct stp_train_pair *p = &t->pairs[k];
            double us = 0;

            STP_DO(t, elapsed_us, p->from, p->to, &us);
            epoch->comm_s += p->comm ? us / 1e6 : 0;
            epoch->exposed_s += p->exposed ? us / 1e6 : 0;
        }
        stp_trainer_forget(t);
        if (t->engine.ops->source != NULL) /* alike on all ranks */
            epoch->source = stp_source_worst(
                epoch->source,
                t->engine.ops->source(t->engine.self, &single_pass));
    }
    epoch->seconds = (t->engine.ops->now_us(t->engine.self) - from_us) / 1e6;
    for (unsigned i = 0; i < r->steps; i++)
        epoch->loss += r->result.losses[e * r->steps + i] / r->steps;
}

/* ---- the end ---- */

/* Finds the accuracy. A rank asks after each micro-batch whether to stop. */
static void train_evaluate(struct run *r)
{
    struct stp_trainer *t = &r->t;
    const struct stp_train_model *model = t->config.model;
    struct stp_cross_entropy loss = {.n = t->rows,
                                     .classes = model->width[model->n_layers],
                                     .type = t->type,
                                     .logits = t->outputs[model->n_layers],
                                     .loss = t->losses,
                                     .correct = t->correct};
    double correct[2] = {0};

    stp_trainer_zero(t, t->correct, sizeof(*t->correct));
    train_write_stop(t, t->correct + 1);
    for (uint64_t row = 0; row < t->n_rows; row += t->rows) {
        stp_trainer_forward(t, row);
        loss.label = stp_trainer_at(t->labels, STP_TYPE_I32, row);
        STP_NOTE(t, CROSS_ENTROPY, .as.cross_entropy = loss);
        if (!t->info.is_late)
            continue;
        stp_trainer_synchronise(t);
        if (train_write_stop(t, t->correct + 1))
            break;
    }
    if (t->info.n_ranks > 1)
        stp_trainer_reduce(t, STP_STREAM_MAIN, STP_TYPE_F64, STP_OP_SUM, 2,
                           t->correct);
    stp_trainer_synchronise(t);
    STP_DO(t, download, correct, t->correct, sizeof(correct));
    train_read_stop(t, correct[1]);
    r->result.accuracy =
        t->info.has_data ? correct[0] / t->config.n_samples : (double)NAN;
}

/* ---- a trace ---- */

enum { N_TRACED = 3 }; /* steps at most */

static enum stp_status train_begin_trace(struct run *r, struct stp_error *err)
{
    const struct stp_engine *engine = &r->t.engine;

    if (engine->ops->trace_begin == NULL)
        return stp_fail(err, STP_ERR_NOTHING, "no traces of %s",
                        r->t.info.processor);
    return engine->ops->trace_begin(engine->self, err);
}

/* Runs and traces some steps after the last, for neither losses nor times. */
static void train_trace(struct run *r)
{
    struct stp_trainer *t = &r->t;
    unsigned n = t->config.precision == STP_PRECISION_FP16 ? 1 : N_TRACED;

    if (!t->config.trace || t->status != STP_OK)
        return;
    n = n < r->steps ? n : r->steps;
    t->status = train_begin_trace(r, &t->err);
    train_agree(t);
    train_run_window(r, 0, n, true);
    train_take_overflow(t);
    stp_trainer_forget(t);
    STP_DO(t, trace_end, &r->result.spans);
    stp_spans_sort(&r->result.spans);
    r->result.n_traced = n;
}

/* ---- the end, of all ranks ---- */

enum { N_TIMES = 3 }; /* of an epoch */

static double *train_time(struct stp_train_epoch *epoch, int i)
{
    return i == 0   ? &epoch->seconds
           : i == 1 ? &epoch->comm_s
                    : &epoch->exposed_s;
}

/* Makes the times those of the slowest rank. */
static void train_share_times(struct run *r)
{
    struct stp_trainer *t = &r->t;
    const unsigned n = N_TIMES * r->result.n_epochs;
    double *times;

    if (t->info.n_ranks == 1 || !t->info.has_data || t->status != STP_OK)
        return;
    times = calloc(n, sizeof(*times));
    if (times == NULL) {
        t->status = stp_nomem(&t->err);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        times[i] = *train_time(&r->result.epochs[i / N_TIMES], i % N_TIMES);
    STP_DO(t, upload, t->losses, times, n * sizeof(*times));
    stp_trainer_reduce(t, STP_STREAM_MAIN, STP_TYPE_F64, STP_OP_MAX, n,
                       t->losses);
    stp_trainer_synchronise(t);
    STP_DO(t, download, times, t->losses, n * sizeof(*times));
    for (unsigned i = 0; i < n; i++)
        *train_time(&r->result.epochs[i / N_TIMES], i % N_TIMES) = times[i];
    free(times);
}

/* ---- the run ---- */

static void train_run(struct run *r)
{
    struct stp_trainer *t = &r->t;
    const struct stp_train_config *c = &t->config;
    struct stp_train_result *result = &r->result;

    r->steps = c->n_samples / c->batch;
    r->window = c->precision == STP_PRECISION_FP16 || t->info.is_late
                    ? 1
                    : STP_TRAIN_WINDOW;
    result->n_epochs = c->n_epochs;
    result->n_steps = r->steps * c->n_epochs;
    result->epochs = calloc(result->n_epochs, sizeof(*result->epochs));
    result->losses = calloc(result->n_steps, sizeof(*result->losses));
    if (result->epochs == NULL || result->losses == NULL)
        t->status = stp_nomem(&t->err);
    stp_trainer_fill(t);
    if (c->trace && t->status == STP_OK) {
        /* A missing trace is found out before hours of training. */
        t->status = train_begin_trace(r, &t->err);
        STP_DO(t, trace_end, &result->spans);
        train_agree(t);
    }
    for (unsigned i = 0; i < c->warmup && t->status == STP_OK; i++) {
        train_run_window(r, i, 1, false);
        train_take_losses(r, 0, 1);
        stp_trainer_forget(t);
    }
    for (unsigned e = 0; e < result->n_epochs && t->status == STP_OK; e++)
        train_run_epoch(r, e);
    train_evaluate(r);
    train_trace(r);
    train_share_times(r);
    for (unsigned e = 0; e < result->n_epochs && t->status == STP_OK; e++)
        result->total_s += result->epochs[e].seconds;
    result->throughput =
        result->total_s > 0
            ? (double)c->n_samples * result->n_epochs / result->total_s
            : 0;
    result->n_skipped = t->scale.n_skipped;
    result->last_loss_scale = t->scale.scale;
}

enum stp_status stp_train_measure(const struct stp_engine *engine,
                                  const struct stp_train_config *config,
                                  struct stp_train_result *result_ret,
                                  struct stp_error *err)
{
    struct run *r = calloc(1, sizeof(*r));
    enum stp_status status;

    if (r == NULL)
        return stp_nomem(err);
    status = stp_trainer_begin(&r->t, engine, config, err);
    if (status == STP_OK) {
        train_run(r);
        status = r->t.status;
        if (status != STP_OK && err != NULL)
            *err = r->t.err;
    }
    engine->ops->release(engine->self);
    if (status == STP_OK)
        *result_ret = r->result;
    else
        stp_train_result_free(&r->result);
    free(r);
    return status;
}

void stp_train_result_free(struct stp_train_result *result)
{
    free(result->epochs);
    free(result->losses);
    stp_spans_free(&result->spans);
    memset(result, 0, sizeof(*result));
}
