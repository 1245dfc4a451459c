#include "report/training/train_points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "core/stats.h"
#include "core/text.h"
#include "launch/take.h"

/* The modes in the order of charts; those of several GPUs by use. */
static const char *const modes[] = {"single",   "naive",   "interleaved",
                                    "bucketed", "sharded", NULL};
static const char *const modes_by_use[] = {"bucketed", "interleaved", "naive",
                                           "sharded", NULL};
static const char *const precisions[] = {"fp32",        "tf32", "bf16", "fp16",
                                         STP_TRAIN_AMP, "fp64", NULL};

bool stp_train_on_cpus(const struct stp_train_run *run)
{
    return strstr(run->made_by, " process") != NULL;
}

/* ---- traits: properties that must be alike, as none compares them ---- */

enum train_trait {
    TRAIT_WORK,
    TRAIT_GRADIENTS,
    TRAIT_BUCKETS,
    TRAIT_LEARNING,
};

static bool train_trait_applies(enum train_trait trait,
                                const struct stp_train_run *r)
{
    if (trait == TRAIT_GRADIENTS)
        return stp_train_is_mixed(r);
    return trait != TRAIT_BUCKETS || strcmp(r->mode, "bucketed") == 0;
}

static bool train_trait_same(enum train_trait trait,
                             const struct stp_train_run *a,
                             const struct stp_train_run *b)
{
    switch (trait) {
    case TRAIT_WORK: /* micro-batches may be parts of a batch, or add up */
        return a->n_samples == b->n_samples &&
               (a->batch == b->batch ||
                (uint64_t)a->batch * b->ga == (uint64_t)b->batch * a->ga);
    case TRAIT_GRADIENTS:
        return (strcmp(a->gradients, "fp32") == 0) ==
               (strcmp(b->gradients, "fp32") == 0);
    case TRAIT_BUCKETS:
        return a->bucket_bytes == b->bucket_bytes &&
               a->first_bucket_bytes == b->first_bucket_bytes;
    case TRAIT_LEARNING:
        return a->rate == b->rate && a->seed == b->seed;
    }
    return true;
}

bool stp_train_in_view(const struct stp_train_view *view,
                       const struct stp_train_run *run)
{
    if (view->size != NULL && strcmp(view->size, run->size) != 0)
        return false;
    for (size_t t = 0; t < STP_TRAIN_TRAITS; t++)
        if (train_trait_applies(t, run) && view->typical[t] != NULL &&
            !train_trait_same(t, run, view->typical[t]))
            return false;
    return true;
}

static size_t train_word_rank(const char *const *words, const char *word)
{
    size_t i = 0;

    while (words[i] != NULL && strcmp(words[i], word) != 0)
        i++;
    return i;
}

struct stp_train_view stp_train_view_of(const struct stp_train_runs *runs,
                                        const char *size)
{
    const struct stp_train_view of_size = {.runs = runs, .size = size};
    struct stp_train_view view = of_size;
    struct stp_train_levels steps;
    size_t best = train_word_rank(modes_by_use, "");

    /* The typical run of a trait is the first whose trait most runs share. */
    for (size_t t = 0; t < STP_TRAIN_TRAITS; t++) {
        size_t most = 0;

        for (size_t i = 0; i < runs->n; i++) {
            const struct stp_train_run *r = &runs->runs[i];
            size_t n = 0;

            for (size_t k = 0; k < runs->n; k++)
                n += stp_train_in_view(&of_size, &runs->runs[k]) &&
                     train_trait_applies(t, &runs->runs[k]) &&
                     train_trait_same(t, r, &runs->runs[k]);
            if (n > most && stp_train_in_view(&of_size, r) &&
                train_trait_applies(t, r)) {
                most = n;
                view.typical[t] = r;
            }
        }
    }
    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_train_run *r = &runs->runs[i];
        const size_t at = train_word_rank(modes_by_use, r->mode);

        if (stp_train_in_view(&view, r) && r->n_gpus > 1 && at < best)
            best = at;
    }
    view.mode = modes_by_use[best] != NULL ? modes_by_use[best] : "single";
    steps = stp_train_levels_of(&view, STP_DIM_GA);
    view.step = steps.n > 0 ? steps.like[0] : NULL;
    return view;
}

/* ---- dimensions: properties that are compared ---- */

/* Below 0 if a is before b, 0 if both have the same value. */
static int train_order(enum stp_train_dim dim, const struct stp_train_run *a,
                       const struct stp_train_run *b)
{
    switch (dim) {
    case STP_DIM_SIZE:
        return strcmp(a->size, b->size) != 0 && a->n_params != b->n_params
                   ? STP_ORDER(a->n_params, b->n_params)
                   : strcmp(a->size, b->size);
    case STP_DIM_PRECISION:
        return (int)train_word_rank(precisions, a->precision) -
               (int)train_word_rank(precisions, b->precision);
    case STP_DIM_GPUS:
        return STP_ORDER(a->n_gpus, b->n_gpus);
    case STP_DIM_GA:
        return a->ga != b->ga ? STP_ORDER(a->ga, b->ga)
                              : STP_ORDER(a->batch, b->batch);
    case STP_DIM_MODE:
    case STP_DIM_MODE_AND_GPUS:
        return dim == STP_DIM_MODE_AND_GPUS && strcmp(a->mode, b->mode) == 0
                   ? STP_ORDER(a->n_gpus, b->n_gpus)
                   : (int)train_word_rank(modes, a->mode) -
                         (int)train_word_rank(modes, b->mode);
    case STP_DIM_MODEL: /* in the order of the files: all are in one array */
        return strcmp(a->gpu, b->gpu) == 0 ? 0 : a < b ? -1 : 1;
    case STP_DIM_NONE:
        break;
    }
    return 0;
}

void stp_train_level_label(enum stp_train_dim dim,
                           const struct stp_train_run *like,
                           char text[STP_TRAIN_LABEL])
{
    const double n = like != NULL ? (double)like->n_params : 0;
    const bool cpus = like != NULL && stp_train_on_cpus(like);
    const char *noun = cpus ? "process" : "GPU";
    const char *plural = cpus ? "es" : "s";
    text[0] = '\0';
    if (like == NULL)
        return;
    plural = like->n_gpus == 1 ? "" : plural;
    switch (dim) {
    case STP_DIM_SIZE:
        snprintf(text, STP_TRAIN_LABEL, "%s (%.0f%s parameters)", like->size,
                 n >= 1e6 ? n / 1e6 : n, n >= 1e6 ? " M" : "");
        break;
    case STP_DIM_GPUS:
        snprintf(text, STP_TRAIN_LABEL, "%u %s%s", like->n_gpus, noun, plural);
        break;
    case STP_DIM_GA: /* "GA 4, batch 16384 (4 steps)", of an epoch */
        snprintf(text, STP_TRAIN_LABEL, "GA %u", like->ga);
        if (like->batch > 0)
            stp_append(text, STP_TRAIN_LABEL, ", batch %u (%u step%s)",
                       like->batch, like->n_samples / like->batch,
                       STP_S(like->n_samples / like->batch));
        break;
    case STP_DIM_MODE_AND_GPUS:
        snprintf(text, STP_TRAIN_LABEL, "%s, %u %s%s", like->mode, like->n_gpus,
                 noun, plural);
        break;
    default:
        snprintf(text, STP_TRAIN_LABEL, "%s",
                 dim == STP_DIM_PRECISION ? like->precision
                 : dim == STP_DIM_MODE    ? like->mode
                 : dim == STP_DIM_MODEL   ? like->gpu
                                          : "");
        break;
    }
}

struct stp_train_levels stp_train_levels_of(const struct stp_train_view *view,
                                            enum stp_train_dim dim)
{
    struct stp_train_levels levels = {.n = dim == STP_DIM_NONE};

    for (size_t i = 0; i < view->runs->n && dim != STP_DIM_NONE; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];
        size_t at = 0;

        if (!stp_train_in_view(view, r) || levels.n == STP_TRAIN_LEVELS ||
            stp_train_level_of(&levels, dim, r) < levels.n)
            continue;
        while (at < levels.n && train_order(dim, levels.like[at], r) < 0)
            at++;
        memmove(&levels.like[at + 1], &levels.like[at],
                (levels.n - at) * sizeof(levels.like[0]));
        levels.like[at] = r;
        levels.n++;
    }
    return levels;
}

size_t stp_train_level_of(const struct stp_train_levels *levels,
                          enum stp_train_dim dim,
                          const struct stp_train_run *run)
{
    size_t i = 0;

    while (i < levels->n && train_order(dim, levels->like[i], run) != 0)
        i++;
    return i;
}

/* ---- points ---- */

struct stp_train_point *stp_train_point_at(const struct stp_train_points *p,
                                           size_t row, size_t column, size_t x,
                                           size_t series)
{
    const size_t columns = p->levels[STP_AT_COLUMN].n;
    const size_t n_series = p->levels[STP_AT_SERIES].n;

    return &p->all[((row * columns + column) * p->n_x + x) * n_series + series];
}

static bool points_take(const struct stp_train_view *view,
                        const struct stp_train_points_of *what,
                        const struct stp_train_run *r)
{
    bool compares_steps = false, compares_modes = false;

    if (!stp_train_in_view(view, r) || (what->several && r->n_gpus == 1) ||
        (what->value == STP_VALUE_THROUGHPUT && r->n_samples == 0) ||
        (what->value == STP_VALUE_PARTS &&
         !isfinite(stp_train_sum(r, r->exposed_s))) ||
        (what->value == STP_VALUE_LOSS && r->n_epochs < 2))
        return false;
    for (unsigned e = 0; what->value == STP_VALUE_LOSS && e < r->n_epochs; e++)
        if (!isfinite(r->losses[e]))
            return false;
    for (int i = 0; i < STP_TRAIN_PLACES; i++) {
        const enum stp_train_dim dim = what->dims[i];

        compares_steps |= dim == STP_DIM_GA;
        compares_modes |= dim == STP_DIM_MODE || dim == STP_DIM_MODE_AND_GPUS;
    }
    return (compares_steps || train_order(STP_DIM_GA, r, view->step) == 0) &&
           (compares_modes ||
            strcmp(r->mode, r->n_gpus == 1 ? "single" : view->mode) == 0);
}

/* Turns sums, with the sum of squares in 'low', into means and an interval. */
static void points_conclude(struct stp_train_point *p, bool throughput)
{
    const double n = (double)p->n, samples = p->run->n_samples;
    const double half =
        p->n > 1 ? stp_t975(p->n - 1) * sqrt(p->low / (n - 1) / n) : 0;

    p->value = p->total;
    p->low = fmax(0, p->total - half);
    p->high = p->total + half;
    p->comm /= n;
    p->exposed /= n;
    if (throughput) {
        const double least = p->low > 0 ? p->low : p->total;

        p->value = samples / p->total;
        p->low = samples / p->high;
        p->high = samples / least;
    }
}

/* Makes the times of a line speed-ups over one GPU, with an interval for small
 * errors of both means; without one GPU and another, there is no line. */
static void points_find_speed_ups(struct stp_train_points *p, size_t row,
                                  size_t column, size_t series)
{
    struct stp_train_point one = {.run = NULL};
    size_t n = 0;

    for (size_t x = 0; x < p->n_x; x++) {
        struct stp_train_point *point =
            stp_train_point_at(p, row, column, x, series);
        double error;

        if (point->run == NULL)
            continue;
        n++;
        if (point->run->n_gpus == 1)
            one = *point;
        if (one.run == NULL)
            break;
        error = point->run->n_gpus == 1 /* its speed-up is 1 by definition */
                    ? 0
                    : hypot(point->high / point->total - 1,
                            one.high / one.total - 1);
        point->value = one.total / point->total;
        point->low = point->value * fmax(0, 1 - error);
        point->high = point->value * (1 + error);
    }
    for (size_t x = 0; x < p->n_x && (one.run == NULL || n < 2); x++)
        stp_train_point_at(p, row, column, x, series)->run = NULL;
}

/* Adds the epochs of a run to its point, whose 'low' is the sum of squares
 * until points_conclude(), by Welford's algorithm; or the losses of the first
 * run of a line. */
static void points_add_run(struct stp_train_points *p,
                           const struct stp_train_points_of *what,
                           const struct stp_train_run *r)
{
    const bool losses = what->value == STP_VALUE_LOSS;
    struct stp_train_point *point;
    size_t at[STP_TRAIN_PLACES];

    for (int k = 0; k < STP_TRAIN_PLACES; k++) {
        at[k] = stp_train_level_of(&p->levels[k], what->dims[k], r);
        if (at[k] == p->levels[k].n)
            return; /* beyond STP_TRAIN_LEVELS */
    }
    point = stp_train_point_at(p, at[STP_AT_ROW], at[STP_AT_COLUMN],
                               at[STP_AT_X], at[STP_AT_SERIES]);
    for (unsigned e = 0; e < r->n_epochs && !losses; e++) {
        const double off = r->epoch_s[e] - point->total;

        point->n++;
        point->total += off / (double)point->n;
        point->low += off * (r->epoch_s[e] - point->total);
        point->comm += r->comm_s[e];
        point->exposed += r->exposed_s[e];
    }
    if (losses && point->run == NULL)
        for (unsigned e = 0; e < r->n_epochs; e++)
            *stp_train_point_at(p, at[STP_AT_ROW], at[STP_AT_COLUMN], e,
                                at[STP_AT_SERIES]) =
                (struct stp_train_point){.run = r, .value = r->losses[e]};
    if (point->run == NULL)
        point->run = r;
}

struct stp_train_points
stp_train_points_find(const struct stp_train_view *view,
                      const struct stp_train_points_of *what)
{
    struct stp_train_points p = {.n = 0};
    size_t n;

    for (int i = 0; i < STP_TRAIN_PLACES; i++)
        p.levels[i] = stp_train_levels_of(view, what->dims[i]);
    p.n_x = p.levels[STP_AT_X].n;
    for (size_t i = 0; i < view->runs->n && what->value == STP_VALUE_LOSS; i++)
        if (points_take(view, what, &view->runs->runs[i]) &&
            view->runs->runs[i].n_epochs > p.n_x)
            p.n_x = view->runs->runs[i].n_epochs;
    n = p.levels[STP_AT_ROW].n * p.levels[STP_AT_COLUMN].n * p.n_x *
        p.levels[STP_AT_SERIES].n;
    STP_TAKE(p.all, n);
    for (size_t i = 0; i < view->runs->n; i++)
        if (points_take(view, what, &view->runs->runs[i]))
            points_add_run(&p, what, &view->runs->runs[i]);
    for (size_t i = 0; i < n && what->value != STP_VALUE_LOSS; i++)
        if (p.all[i].run != NULL)
            points_conclude(&p.all[i], what->value == STP_VALUE_THROUGHPUT);
    for (size_t r = 0; r < p.levels[STP_AT_ROW].n; r++)
        for (size_t c = 0; c < p.levels[STP_AT_COLUMN].n; c++) {
            for (size_t s = 0; what->value == STP_VALUE_SPEED_UP &&
                               s < p.levels[STP_AT_SERIES].n;
                 s++)
                points_find_speed_ups(&p, r, c, s);
            for (size_t x = 0; x < p.n_x; x++) {
                const size_t n_series = p.levels[STP_AT_SERIES].n;
                struct stp_train_point *of = stp_train_point_at(&p, r, c, x, 0);
                size_t n_of = 0;

                for (size_t s = 0; s < n_series; s++)
                    n_of += of[s].run != NULL;
                for (size_t s = 0; s < n_series && n_of < what->least; s++)
                    of[s].run = NULL;
                p.n += n_of >= what->least ? n_of : 0;
            }
        }
    return p;
}

void stp_train_points_free(struct stp_train_points *points)
{
    free(points->all);
    *points = (struct stp_train_points){.n = 0};
}
