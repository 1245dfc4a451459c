#include "bench/overlap.h"

#include <math.h>
#include <stdlib.h>

enum {
    GRAIN = 64, /* of a product's k: whole tiles of tensor cores */
    MAX_K = 1 << 15,
    MAX_GUESSES = 6,  /* of k */
    N_CALIBRATE = 10, /* products or collectives in a row */
};

/* Near enough to the ratio that was asked for. */
static const double close_enough = 0.03;

/* Products are square but for k; of these sides the largest that is not too
 * long with the first k is taken. */
static const unsigned sides[] = {8192, 4096, 2048, 1024, 512, 256};
enum { N_SIDES = sizeof(sides) / sizeof(sides[0]), FIRST_K = 4 * GRAIN };

struct loop {
    const struct stp_device *device;
    const struct stp_overlap_plan *plan;
    double *sample_us; /* plan->iters */
    struct stp_overlap_setting setting;
    struct stp_overlap_data *data;
    struct stp_error *err;
};

static enum stp_status no_memory(struct stp_error *err)
{
    return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
}

/* ---- each alone ---- */

/* The time of one of 'n' products, or of 'n' collectives if 'gemm' is NULL, in
 * a row. */
static enum stp_status run_alone(const struct loop *l,
                                 const struct stp_gemm *gemm, unsigned n,
                                 double *us_ret)
{
    const struct stp_device_ops *ops = l->device->ops;
    void *self = l->device->self;
    unsigned stream = gemm != NULL ? STP_STREAM_MAIN : STP_STREAM_COMM;
    enum stp_status status = ops->record(self, stream, 0, l->err);

    for (unsigned i = 0; i < n && status == STP_OK; i++)
        status = gemm != NULL
                     ? ops->compute(self, stream, gemm, l->err)
                     : ops->collective(self, stream, &l->setting.what, l->err);
    if (status == STP_OK)
        status = ops->record(self, stream, 1, l->err);
    if (status == STP_OK)
        status = ops->synchronise(self, l->err);
    if (status == STP_OK)
        *us_ret = ops->elapsed_us(self, 0, 1) / n;
    return status;
}

/* The same after a first time that counts for nothing. */
static enum stp_status time_alone(const struct loop *l,
                                  const struct stp_gemm *gemm, double *us_ret)
{
    double first_us;
    enum stp_status status = run_alone(l, gemm, N_CALIBRATE, &first_us);

    return status == STP_OK ? run_alone(l, gemm, N_CALIBRATE, us_ret) : status;
}

/* ---- the product ---- */

static unsigned whole_k(double k)
{
    double grains = floor(k / GRAIN + 0.5);

    return (unsigned)fmin(fmax(grains, 1) * GRAIN, MAX_K);
}

static enum stp_status choose_side(const struct loop *l, double target_us,
                                   struct stp_gemm *gemm, double *us_ret)
{
    enum stp_status status = STP_OK;

    gemm->k = FIRST_K;
    for (size_t i = 0; i < N_SIDES && status == STP_OK; i++) {
        gemm->m = gemm->n = sides[i];
        status = time_alone(l, gemm, us_ret);
        if (*us_ret <= target_us / 2)
            break;
    }
    return status;
}

/* Of k and of its time: the line through the last two guesses. */
static double next_k(double k, double us, double last_k, double last_us,
                     double target_us)
{
    double slope = (us - last_us) / (k - last_k);

    if (k == last_k || !(slope > 0))
        slope = us / k;
    return k + (target_us - us) / slope;
}

/* Sets the product that takes closest to 'target_us', and what it takes. */
static enum stp_status choose_gemm(struct loop *l, double target_us)
{
    struct stp_gemm gemm = {.type = l->plan->type};
    double us = 0, last_us = 0;
    unsigned last_k = 0;
    enum stp_status status = choose_side(l, target_us, &gemm, &us);

    l->setting.gemm = gemm;
    l->setting.compute_us = us;
    for (int i = 0; i < MAX_GUESSES && status == STP_OK; i++) {
        unsigned k = whole_k(next_k(gemm.k, us, last_k, last_us, target_us));

        if (k == gemm.k || fabs(us - target_us) <= close_enough * target_us)
            break;
        last_k = gemm.k;
        last_us = us;
        gemm.k = k;
        status = time_alone(l, &gemm, &us);
        if (status == STP_OK &&
            fabs(us - target_us) < fabs(l->setting.compute_us - target_us)) {
            l->setting.gemm = gemm;
            l->setting.compute_us = us;
        }
    }
    return status;
}

/* ---- iterations ---- */

/* Events: the first ones are between iterations, then come those of the layers
 * and the join of each iteration. */
static enum stp_status note_iteration(const struct loop *l, unsigned event)
{
    const struct stp_device_ops *ops = l->device->ops;
    void *self = l->device->self;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < l->setting.layers && status == STP_OK; i++) {
        status = ops->compute(self, STP_STREAM_MAIN, &l->setting.gemm, l->err);
        if (status == STP_OK)
            status = ops->record(self, STP_STREAM_MAIN, event + i, l->err);
        if (status == STP_OK)
            status = ops->wait(self, STP_STREAM_COMM, event + i, l->err);
        if (status == STP_OK)
            status = ops->collective(self, STP_STREAM_COMM, &l->setting.what,
                                     l->err);
    }
    event += l->setting.layers;
    if (status == STP_OK)
        status = ops->record(self, STP_STREAM_COMM, event, l->err);
    return status == STP_OK ? ops->wait(self, STP_STREAM_MAIN, event, l->err)
                            : status;
}

static enum stp_status run_iterations(const struct loop *l, unsigned n)
{
    const struct stp_device_ops *ops = l->device->ops;
    void *self = l->device->self;
    enum stp_status status = ops->record(self, STP_STREAM_MAIN, 0, l->err);

    for (unsigned i = 0; i < n && status == STP_OK; i++) {
        status = note_iteration(l, n + 1 + i * (l->setting.layers + 1));
        if (status == STP_OK)
            status = ops->record(self, STP_STREAM_MAIN, i + 1, l->err);
    }
    return status == STP_OK ? ops->synchronise(self, l->err) : status;
}

static enum stp_status time_iterations(const struct loop *l,
                                       struct stp_summary *us_ret)
{
    const struct stp_device *d = l->device;
    unsigned n = l->plan->iters;
    enum stp_status status = STP_OK;

    if (l->plan->warmup > 0)
        status = run_iterations(l, l->plan->warmup);
    if (status == STP_OK)
        status = run_iterations(l, n);
    if (status != STP_OK)
        return status;
    for (unsigned i = 0; i < n; i++)
        l->sample_us[i] = d->ops->elapsed_us(d->self, i, i + 1);
    stp_summarise(l->sample_us, n, us_ret);
    return STP_OK;
}

/* ---- rounds ---- */

static enum stp_status add_row(struct stp_overlap_data *data,
                               const struct stp_overlap_row *row)
{
    if (data->n_rows == data->capacity) {
        size_t n = 2 * data->capacity + 64;
        struct stp_overlap_row *more = realloc(data->rows, n * sizeof(*more));

        if (more == NULL)
            return STP_ERR_NOMEM;
        data->rows = more;
        data->capacity = n;
    }
    data->rows[data->n_rows++] = *row;
    return STP_OK;
}

static enum stp_status measure_arm(struct loop *l, const struct stp_arm *arm,
                                   unsigned round)
{
    const struct stp_device *d = l->device;
    struct stp_overlap_row row = {.setting = l->setting,
                                  .round = round,
                                  .arm = *arm,
                                  .iters = l->plan->iters};
    struct stp_device_run ran;
    enum stp_status status = d->ops->select_arm(d->self, arm, l->err);

    if (status == STP_OK)
        status = d->ops->probe(d->self, &l->setting.what, &ran, NULL, l->err);
    if (status != STP_OK || !stp_arm_ran(arm, ran.algo, ran.proto))
        return status;
    status = time_iterations(l, &row.us);
    if (status == STP_OK && add_row(l->data, &row) != STP_OK)
        status = no_memory(l->err);
    return status;
}

static enum stp_status measure_rounds(struct loop *l)
{
    const struct stp_device *d = l->device;
    const struct stp_overlap_plan *plan = l->plan;
    size_t n = plan->arms->n;
    enum stp_status status = STP_OK;

    for (unsigned r = 0; r < plan->rounds && status == STP_OK; r++) {
        size_t first = plan->rotate ? r * n / plan->rounds : 0;

        status = d->ops->begin_round(d->self, r, plan->rounds, l->err);
        for (size_t i = 0; i < n && status == STP_OK; i++)
            status = measure_arm(l, &plan->arms->arm[(first + i) % n], r);
    }
    return status;
}

/* Whether the setting is one that is measured already. */
static bool is_repeated(const struct loop *l)
{
    for (size_t i = 0; i < l->data->n_rows; i++) {
        const struct stp_overlap_setting *s = &l->data->rows[i].setting;

        if (s->what.n_bytes == l->setting.what.n_bytes &&
            (s->gemm.k == l->setting.gemm.k ||
             fabs(s->compute_us - l->setting.compute_us) < 0.01) &&
            s->gemm.m == l->setting.gemm.m)
            return true;
    }
    return false;
}

static enum stp_status measure_setting(struct loop *l, uint64_t n_bytes,
                                       double ratio)
{
    const struct stp_device *d = l->device;
    const struct stp_overlap_plan *plan = l->plan;
    size_t n_rows = l->data->n_rows;
    enum stp_status status;

    l->setting = (struct stp_overlap_setting){.layers = plan->layers,
                                              .what = {.coll = plan->coll,
                                                       .n_bytes = n_bytes,
                                                       .type = plan->type,
                                                       .op = plan->op}};
    status = d->ops->begin_round(d->self, 0, plan->rounds, l->err);
    if (status == STP_OK)
        status = d->ops->select_arm(d->self, &plan->arms->arm[0], l->err);
    if (status == STP_OK)
        status = time_alone(l, NULL, &l->setting.comm_us);
    if (status == STP_OK)
        status = choose_gemm(l, ratio * l->setting.comm_us);
    if (status == STP_OK && !is_repeated(l))
        status = measure_rounds(l);
    if (status != STP_OK)
        l->data->n_rows = n_rows; /* half a setting compares nothing */
    return status;
}

static enum stp_status measure_all(struct loop *l, stp_sweep_progress progress,
                                   void *user)
{
    const struct stp_overlap_plan *plan = l->plan;
    size_t total = plan->sizes->n * plan->n_ratios;

    for (size_t i = 0; i < total; i++) {
        enum stp_status status =
            measure_setting(l, plan->sizes->size[i / plan->n_ratios],
                            plan->ratios[i % plan->n_ratios]);

        if (status != STP_OK)
            return status;
        if (progress != NULL && !progress(user, i + 1, total))
            return stp_fail(l->err, STP_ERR_STOPPED, 0, 0,
                            "stopped after %zu of %zu settings", i + 1, total);
    }
    return STP_OK;
}

enum stp_status stp_overlap_run(const struct stp_device *device,
                                const struct stp_overlap_plan *plan,
                                stp_sweep_progress progress, void *user,
                                struct stp_overlap_data *data,
                                struct stp_error *err)
{
    struct loop l = {
        .device = device,
        .plan = plan,
        .sample_us = calloc(plan->iters, sizeof(*l.sample_us)),
        .data = data,
        .err = err,
    };
    enum stp_status status =
        l.sample_us != NULL ? measure_all(&l, progress, user) : no_memory(err);

    free(l.sample_us);
    return status;
}

void stp_overlap_free(struct stp_overlap_data *data)
{
    free(data->rows);
    *data = (struct stp_overlap_data){0};
}
