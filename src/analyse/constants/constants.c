#include "analyse/constants/constants.h"

#include <math.h>
#include <stdlib.h>

#include "analyse/constants/constants_parts.h"
#include "analyse/derive.h"

/* Of the search; sizes that are left out are many, and get fewer. */
enum { STARTS = 4, STARTS_LEFT_OUT = 2 };

struct fitting {
    const struct stp_comparisons *comparisons;
    const struct stp_constants_terms *terms;
    struct stp_const_model *model;
    struct stp_const_sizes sizes;
    struct stp_error *err;
};

/* ---- residuals ---- */

/* A sum of logarithms, until all sizes are in. */
static void add_residual(struct stp_residual *r,
                         const struct stp_const_size *size, int pair)
{
    double lost = stp_const_lost(size, pair);

    r->mean += lost;
    r->worst = fmax(r->worst, exp(lost));
    r->n++;
    r->n_slower += size->is_slower[pair];
    r->n_faster += size->is_faster[pair];
}

static void finish_residual(struct stp_residual *r)
{
    r->mean = r->n > 0 ? exp(r->mean / (double)r->n) : 1;
    r->worst = fmax(r->worst, 1);
}

static enum stp_status ask(const struct fitting *f,
                           const struct stp_const_size *size, int *pair_ret)
{
    int algo, proto;
    enum stp_status status = stp_const_model_ask(f->model, &size->question,
                                                 &algo, &proto, NULL, f->err);

    if (status == STP_OK)
        *pair_ret = algo * NCCL_NUM_PROTOCOLS + proto;
    return status;
}

/* Of the sizes of 'n_bytes' that have neighbours, or of all if that is 0; as
 * the model is built. */
static enum stp_status add_residuals(const struct fitting *f, uint64_t n_bytes,
                                     struct stp_residual *r)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < f->sizes.n && status == STP_OK; i++) {
        const struct stp_const_size *size = &f->sizes.sizes[i];
        int pair;

        if (size->weight < 1 ||
            (n_bytes != 0 &&
             (!size->is_inner || size->question.n_bytes != n_bytes)))
            continue;
        status = ask(f, size, &pair);
        if (status == STP_OK)
            add_residual(r, size, pair);
    }
    return status;
}

static enum stp_status residual_with(const struct fitting *f,
                                     const ncclTunerConstants_v5_t *constants,
                                     uint64_t n_bytes, struct stp_residual *r)
{
    enum stp_status status = stp_const_model_build(f->model, constants, f->err);

    return status == STP_OK ? add_residuals(f, n_bytes, r) : status;
}

/* ---- sizes left out ---- */

/* Whether it is an inner size that none before it has. */
static bool is_new_inner(const struct stp_const_sizes *sizes, size_t i)
{
    const struct stp_const_size *s = &sizes->sizes[i];

    if (!s->is_inner || s->weight < 1)
        return false;
    for (size_t j = 0; j < i; j++)
        if (sizes->sizes[j].is_inner && sizes->sizes[j].weight >= 1 &&
            sizes->sizes[j].question.n_bytes == s->question.n_bytes)
            return false;
    return true;
}

static enum stp_status leave_out(const struct fitting *f, uint64_t n_bytes,
                                 struct stp_constants_fit *fit)
{
    struct stp_const_sizes rest;
    ncclTunerConstants_v5_t constants;
    enum stp_status status =
        residual_with(f, &fit->defaults, n_bytes, &fit->left_before);

    if (status == STP_OK)
        status = stp_const_sizes_make(f->comparisons, f->terms, f->model,
                                      n_bytes, &rest, f->err);
    if (status != STP_OK)
        return status;
    status = stp_const_search(f->model, &rest, STARTS_LEFT_OUT, f->terms->seed,
                              &constants, f->err);
    if (status == STP_OK)
        status = residual_with(f, &constants, n_bytes, &fit->left_out);
    free(rest.sizes);
    return status;
}

static enum stp_status leave_each_out(const struct fitting *f,
                                      struct stp_constants_fit *fit)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < f->sizes.n && status == STP_OK; i++)
        if (is_new_inner(&f->sizes, i))
            status = leave_out(f, f->sizes.sizes[i].question.n_bytes, fit);
    finish_residual(&fit->left_out);
    finish_residual(&fit->left_before);
    return status;
}

/* ---- misfits ---- */

static int best_pair(const struct stp_const_size *size)
{
    int best = 0;

    while (!(size->us[best] <= size->best))
        best++;
    return best;
}

static void add_misfit(const struct stp_const_size *size, int pair,
                       struct stp_constants_fit *fit)
{
    int best = best_pair(size);
    double ratio = isnan(size->us[pair]) ? (double)INFINITY
                                         : exp(size->us[pair] - size->best);

    if (ratio < 1 + STP_DERIVE_SAME)
        return;
    fit->misfits[fit->n_misfits++] = (struct stp_misfit){
        .coll = size->question.coll,
        .n_bytes = size->question.n_bytes,
        .algo = pair / NCCL_NUM_PROTOCOLS,
        .proto = pair % NCCL_NUM_PROTOCOLS,
        .best_algo = best / NCCL_NUM_PROTOCOLS,
        .best_proto = best % NCCL_NUM_PROTOCOLS,
        .ratio = ratio,
        .is_slower = size->is_slower[pair],
    };
}

/* As the model is built. */
static enum stp_status find_misfits(const struct fitting *f,
                                    struct stp_constants_fit *fit)
{
    enum stp_status status = STP_OK;

    fit->misfits = calloc(f->sizes.n, sizeof(*fit->misfits));
    if (fit->misfits == NULL)
        return stp_nomem(f->err);
    for (size_t i = 0; i < f->sizes.n && status == STP_OK; i++) {
        int pair;

        if (f->sizes.sizes[i].weight < 1)
            continue;
        status = ask(f, &f->sizes.sizes[i], &pair);
        if (status == STP_OK)
            add_misfit(&f->sizes.sizes[i], pair, fit);
    }
    return status;
}

/* ---- the fit ---- */

static void take_changed(const ncclTunerConstants_v5_t *found,
                         struct stp_constants_fit *fit)
{
    const double *numbers = (const double *)found;
    const double *defaults = (const double *)&fit->defaults;

    for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
        fit->constants.is_set[i] = numbers[i] != defaults[i];
        fit->constants.value[i] = fit->constants.is_set[i] ? numbers[i] : 0;
    }
}

static enum stp_status fit_sizes(const struct fitting *f,
                                 struct stp_constants_fit *fit)
{
    ncclTunerConstants_v5_t found;
    enum stp_status status = stp_const_search(f->model, &f->sizes, STARTS,
                                              f->terms->seed, &found, f->err);

    if (status != STP_OK)
        return status;
    take_changed(&found, fit);
    status = residual_with(f, &fit->defaults, 0, &fit->before);
    if (status == STP_OK)
        status = residual_with(f, &found, 0, &fit->after);
    finish_residual(&fit->before);
    finish_residual(&fit->after);
    if (status == STP_OK)
        status = find_misfits(f, fit);
    return status == STP_OK ? leave_each_out(f, fit) : status;
}

enum stp_status stp_fit_constants(const struct stp_comparisons *comparisons,
                                  const struct stp_constants_terms *terms,
                                  struct stp_constants_fit *fit_ret,
                                  struct stp_error *err)
{
    struct fitting f = {.comparisons = comparisons, .terms = terms, .err = err};
    struct stp_constants_fit fit = {0};
    enum stp_status status = stp_const_model_open(terms, &f.model, err);

    if (status != STP_OK)
        return status;
    stp_const_model_defaults(f.model, &fit.defaults);
    status =
        stp_const_sizes_make(comparisons, terms, f.model, 0, &f.sizes, err);
    if (status == STP_OK)
        status = fit_sizes(&f, &fit);
    if (status == STP_OK)
        *fit_ret = fit;
    else
        stp_constants_fit_free(&fit);
    free(f.sizes.sizes);
    stp_const_model_close(f.model);
    return status;
}

bool stp_constants_fit_helps(const struct stp_constants_fit *fit)
{
    return fit->after.n_faster > 0 && fit->after.n_slower == 0 &&
           fit->after.mean < fit->before.mean && fit->left_out.n > 0 &&
           fit->left_out.mean <= fit->left_before.mean;
}

void stp_constants_fit_free(struct stp_constants_fit *fit)
{
    free(fit->misfits);
    fit->misfits = NULL;
    fit->n_misfits = 0;
}
