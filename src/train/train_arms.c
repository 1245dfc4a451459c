#include "train/train_arms.h"

#include <inttypes.h>
#include <string.h>

#include "bench/sweep.h"
#include "core/names.h"
#include "device/pattern.h"
#include "nccl_tuner_abi.h"

/* ---- which arm is in force ---- */

enum stp_status stp_train_select_arm(const struct stp_engine *engine,
                                     const struct stp_arm *arm,
                                     struct stp_error *err)
{
    const struct stp_engine_ops *ops = engine->ops;
    enum stp_status status = ops->agree(engine->self, STP_OK, err);

    if (status != STP_OK)
        return status;
    status = ops->select_arm(engine->self, arm, err);
    return ops->agree(engine->self, status, err);
}

void stp_train_use_arm(struct stp_trainer *t, unsigned number)
{
    if (t->config.rounds > 0 && t->status == STP_OK)
        t->status = stp_train_select_arm(&t->engine,
                                         &t->config.arms->arm[number], &t->err);
}

static void arms_agree(struct stp_trainer *t)
{
    t->status = t->engine.ops->agree(t->engine.self, t->status, &t->err);
}

/* ---- a collective, as a tuner counts it ---- */

static struct stp_collective arms_collective(const struct stp_trainer *t,
                                             const struct stp_transfer *f)
{
    const bool of_parts =
        f->coll == ncclFuncAllGather || f->coll == ncclFuncReduceScatter;

    return (struct stp_collective){.coll = f->coll,
                                   .n_bytes = f->n * stp_type_size(f->type) *
                                              (of_parts ? t->info.n_ranks : 1),
                                   .type = f->type,
                                   .op = f->op,
                                   .in_place = f->in_place};
}

static void arms_fail_wrong(struct stp_trainer *t, const struct stp_arm *arm,
                            const struct stp_collective *c, uint64_t n_wrong,
                            uint64_t n)
{
    char name[STP_ARM_NAME];

    stp_arm_name(arm, name);
    t->status = stp_fail(
        &t->err, STP_ERR_LIMIT,
        "arm %s: %" PRIu64 " of %" PRIu64 " elements of %s of %" PRIu64
        " bytes are wrong on rank %u, expected none",
        name, n_wrong, n, stp_coll_name(c->coll), c->n_bytes, t->info.rank);
}

/* In virtual time there are no bytes. */
static bool arms_have_data(const struct stp_trainer *t)
{
    return t->info.has_data && t->engine.ops->fill != NULL;
}

/* Poison first: in place the input lies within the output. */
static void arms_run_checked(struct stp_trainer *t, const struct stp_arm *arm,
                             const struct stp_transfer *f)
{
    const struct stp_collective c = arms_collective(t, f);
    struct stp_pattern pattern = {.coll = f->coll,
                                  .type = f->type,
                                  .op = f->op,
                                  .ranks = t->info.n_ranks,
                                  .seed = t->config.seed,
                                  .rank = t->info.rank};
    uint64_t n_send, n_recv, n_wrong = 0;

    stp_pattern_sizes(&pattern, c.n_bytes, &n_send, &n_recv);
    STP_DO(t, fill, &pattern, true, f->out, n_recv);
    STP_DO(t, fill, &pattern, false, (void *)f->in, n_send);
    STP_DO(t, collective, STP_STREAM_MAIN, f);
    stp_trainer_synchronise(t);
    STP_DO(t, count_wrong, &pattern, f->out, n_recv, &n_wrong);
    if (t->status == STP_OK && n_wrong > 0)
        arms_fail_wrong(t, arm, &c, n_wrong, n_recv);
}

static void arms_run(struct stp_trainer *t, const struct stp_arm *arm,
                     const struct stp_transfer *f)
{
    if (arms_have_data(t)) {
        arms_run_checked(t, arm, f);
        return;
    }
    STP_DO(t, collective, STP_STREAM_MAIN, f);
    stp_trainer_synchronise(t);
}

/* ---- how it ran ---- */

/* Without a run, where a machine knows. */
static void arms_ask(struct stp_trainer *t, const struct stp_arm *arm,
                     const struct stp_collective *c,
                     struct stp_device_run *run_ret)
{
    char name[STP_ARM_NAME];

    STP_DO(t, probe, c, run_ret, NULL);
    if (t->status != STP_OK || !run_ret->is_unknown)
        return;
    stp_arm_name(arm, name);
    t->status =
        stp_fail(&t->err, STP_ERR_RANGE,
                 "arm %s: machine '%s' has no recorded times of it for %s, "
                 "and none are modelled",
                 name, t->info.machine, stp_coll_name(c->coll));
}

/* What a setup runs NCCL tells no tuner: a graph of the collective has it. */
static void arms_capture(struct stp_trainer *t, const struct stp_transfer *f,
                         struct stp_device_run *run)
{
    STP_THEN(t->status, t->engine.ops->begin_capture(t->engine.self, &t->err));
    STP_DO(t, collective, STP_STREAM_MAIN, f);
    STP_THEN(t->status, t->engine.ops->end_capture(t->engine.self, &t->err));
    if (t->status == STP_OK)
        t->engine.ops->captured(t->engine.self, run->kernel);
    if (run->kernel[0] != '\0') {
        run->algo = run->proto = -1; /* which NCCL asked about before */
        run->n_channels = 0;
    }
}

/* Ranks meet, as what they hear is the process's. */
static void arms_listen(struct stp_trainer *t, const struct stp_arm *arm,
                        const struct stp_transfer *f,
                        struct stp_device_run *run)
{
    const struct stp_engine_ops *ops = t->engine.ops;
    struct stp_question question;

    if (ops->listen != NULL)
        ops->listen(t->engine.self);
    arms_agree(t);
    arms_run(t, arm, f);
    arms_agree(t);
    if (ops->heard != NULL)
        ops->heard(t->engine.self, run, &question);
    if (ops->captured != NULL && arm->kind == STP_ARM_SETUP)
        arms_capture(t, f, run);
    arms_agree(t);
}

/* ---- all of them ---- */

static void arms_add_row(struct stp_trainer *t, const struct stp_arm *arm,
                         const struct stp_collective *c,
                         const struct stp_device_run *run,
                         struct stp_dataset *data)
{
    struct stp_measurement row = {.coll = c->coll,
                                  .n_bytes = c->n_bytes,
                                  .arm = *arm,
                                  .ran_algo = run->algo,
                                  .ran_proto = run->proto,
                                  .ran_channels = run->n_channels,
                                  .type = c->type,
                                  .op = c->op,
                                  .in_place = c->in_place,
                                  .n_wrong = arms_have_data(t) ? 0 : -1,
                                  .n_ranks = t->info.n_ranks,
                                  .n_nodes = t->info.n_nodes,
                                  .source = run->source};

    memcpy(row.ran_kernel, run->kernel, sizeof(row.ran_kernel));
    if (stp_dataset_add(data, &row) != STP_OK)
        t->status = stp_nomem(&t->err);
}

/* Whether NCCL ran the arm for one of the collectives. */
static bool arms_try(struct stp_trainer *t, const struct stp_arm *arm,
                     const struct stp_transfer *transfers, unsigned n,
                     struct stp_dataset *data)
{
    bool has_run = false;

    for (unsigned i = 0; i < n && t->status == STP_OK; i++) {
        const struct stp_collective c = arms_collective(t, &transfers[i]);
        struct stp_device_run run = {.algo = -1, .proto = -1};

        if (t->engine.ops->probe != NULL)
            arms_ask(t, arm, &c, &run);
        else
            arms_listen(t, arm, &transfers[i], &run);
        if (t->status != STP_OK || !stp_arm_ran(arm, run.algo, run.proto))
            continue;
        has_run = true;
        arms_add_row(t, arm, &c, &run, data);
    }
    return has_run;
}

/* Between tensors there are elements that stay 0. */
static void arms_clear(struct stp_trainer *t)
{
    const uint64_t n = t->layout.n;

    if (!arms_have_data(t))
        return;
    stp_trainer_zero(t, t->gradients, n * stp_type_size(t->gradient_type));
    stp_trainer_zero(t, t->weights, n * stp_type_size(t->type));
    stp_trainer_synchronise(t);
}

void stp_train_try_arms(struct stp_trainer *t,
                        struct stp_train_result *result_ret)
{
    const struct stp_arms *arms = t->config.arms;
    struct stp_arms *kept = &result_ret->arms;
    struct stp_transfer transfers[STP_TRAIN_TENSORS];
    const unsigned n = stp_trainer_transfers(t, transfers);

    if (t->config.rounds == 0) {
        kept->n = 1; /* AUTO */
        return;
    }
    stp_name_data(&t->info, &result_ret->ran);
    for (unsigned a = 0; a < arms->n && t->status == STP_OK; a++) {
        stp_train_use_arm(t, a);
        kept->arm[kept->n] = arms->arm[a];
        kept->n += arms_try(t, &arms->arm[a], transfers, n, &result_ret->ran) ||
                   n == 0;
    }
    arms_clear(t);
}
