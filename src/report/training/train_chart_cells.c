#include "report/training/train_chart_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyse/order.h"

enum { MODES = 5, PRECISIONS = 6 };

static const char *const modes[MODES] = {"single", "naive", "interleaved",
                                         "bucketed", "sharded"};
static const char *const precisions[PRECISIONS] = {
    "fp32", "tf32", "bf16", "fp16", STP_TRAIN_AMP, "fp64"};

bool stp_train_on_cpus(const struct stp_train_run *run)
{
    return strstr(run->made_by, " process") != NULL;
}

/* ---- traits: properties that must be alike, since they are not compared ----
 */

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

static bool train_is_of(const struct stp_train_view *view,
                        const struct stp_train_run *r)
{
    return (view->gpu == NULL || strcmp(view->gpu, r->gpu) == 0) &&
           (view->size == NULL || strcmp(view->size, r->size) == 0);
}

/* The first run whose trait most runs share; NULL if it applies to none. */
static const struct stp_train_run *
train_find_typical(const struct stp_train_view *view, enum train_trait t)
{
    const struct stp_train_runs *all = view->runs;
    const struct stp_train_run *best = NULL;
    size_t most = 0;

    for (size_t i = 0; i < all->n; i++) {
        const struct stp_train_run *r = &all->runs[i];
        size_t n = 0;

        if (!train_is_of(view, r) || !train_trait_applies(t, r))
            continue;
        for (size_t k = 0; k < all->n; k++)
            n += train_is_of(view, &all->runs[k]) &&
                 train_trait_applies(t, &all->runs[k]) &&
                 train_trait_same(t, r, &all->runs[k]);
        if (n > most) {
            most = n;
            best = r;
        }
    }
    return best;
}

bool stp_train_in_view(const struct stp_train_view *view,
                       const struct stp_train_run *run)
{
    if (!train_is_of(view, run))
        return false;
    for (size_t t = 0; t < STP_TRAIN_TRAITS; t++)
        if (train_trait_applies(t, run) && view->typical[t] != NULL &&
            !train_trait_same(t, run, view->typical[t]))
            return false;
    return true;
}

static size_t train_word_rank(const char *const *words, size_t n,
                              const char *word)
{
    size_t i = 0;

    while (i < n && strcmp(words[i], word) != 0)
        i++;
    return i;
}

/* ---- dimensions: properties that are compared ---- */

static int train_order_words(const char *const *words, size_t n, const char *a,
                             const char *b)
{
    return (int)train_word_rank(words, n, a) -
           (int)train_word_rank(words, n, b);
}

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
        return train_order_words(precisions, PRECISIONS, a->precision,
                                 b->precision);
    case STP_DIM_GPUS:
        return STP_ORDER(a->n_gpus, b->n_gpus);
    case STP_DIM_GA:
        return a->ga != b->ga ? STP_ORDER(a->ga, b->ga)
                              : STP_ORDER(a->batch, b->batch);
    case STP_DIM_MODE:
        return train_order_words(modes, MODES, a->mode, b->mode);
    case STP_DIM_MODEL: /* in the order of the files: all are in one array */
        return strcmp(a->gpu, b->gpu) == 0 ? 0 : a < b ? -1 : 1;
    case STP_DIM_NONE:
        break;
    }
    return 0;
}

/* "GA 4, batch 16384 (4 steps)": how often an epoch communicates. */
static void train_label_step(const struct stp_train_run *like,
                             char text[STP_TRAIN_LABEL])
{
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    const int n = snprintf(text, STP_TRAIN_LABEL, "GA %u", like->ga);

    if (like->batch > 0)
        snprintf(text + n, STP_TRAIN_LABEL - (size_t)n,
                 ", batch %u (%u step%s)", like->batch,
                 like->n_samples / like->batch,
                 like->n_samples / like->batch == 1 ? "" : "s");
}

void stp_train_level_label(enum stp_train_dim dim,
                           const struct stp_train_run *like,
                           char text[STP_TRAIN_LABEL])
{
    const double n = like != NULL ? (double)like->n_params : 0;

    switch (dim) {
    case STP_DIM_SIZE:
        snprintf(text, STP_TRAIN_LABEL, "%s (%.0f%s parameters)", like->size,
                 n >= 1e6 ? n / 1e6 : n, n >= 1e6 ? " M" : "");
        break;
    case STP_DIM_PRECISION:
        snprintf(text, STP_TRAIN_LABEL, "%s", like->precision);
        break;
    case STP_DIM_GPUS:
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
        snprintf(text, STP_TRAIN_LABEL, "%u %s%s", like->n_gpus,
                 stp_train_on_cpus(like) ? "process" : "GPU",
                 like->n_gpus == 1         ? ""
                 : stp_train_on_cpus(like) ? "es"
                                           : "s");
        break;
    case STP_DIM_GA:
        train_label_step(like, text);
        break;
    case STP_DIM_MODE:
        snprintf(text, STP_TRAIN_LABEL, "%s", like->mode);
        break;
    case STP_DIM_MODEL:
        snprintf(text, STP_TRAIN_LABEL, "%s", like->gpu);
        break;
    case STP_DIM_NONE:
        text[0] = '\0';
        break;
    }
}

static void train_add_level(struct stp_train_levels *levels,
                            enum stp_train_dim dim,
                            const struct stp_train_run *r)
{
    size_t at = 0;

    for (size_t i = 0; i < levels->n; i++)
        if (train_order(dim, levels->like[i], r) == 0)
            return;
    while (at < levels->n && train_order(dim, levels->like[at], r) < 0)
        at++;
    if (levels->n == STP_TRAIN_LEVELS)
        return;
    memmove(&levels->like[at + 1], &levels->like[at],
            (levels->n - at) * sizeof(levels->like[0]));
    levels->like[at] = r;
    levels->n++;
}

struct stp_train_levels stp_train_levels_of(const struct stp_train_view *view,
                                            enum stp_train_dim dim)
{
    struct stp_train_levels levels = {.n = 0};

    if (dim == STP_DIM_NONE) {
        levels.n = 1;
        return levels;
    }
    for (size_t i = 0; i < view->runs->n; i++)
        if (stp_train_in_view(view, &view->runs->runs[i]))
            train_add_level(&levels, dim, &view->runs->runs[i]);
    return levels;
}

void stp_train_level_drop(struct stp_train_levels *levels, size_t i)
{
    levels->n--;
    memmove(&levels->like[i], &levels->like[i + 1],
            (levels->n - i) * sizeof(levels->like[0]));
}

bool stp_train_same_step(const struct stp_train_run *a,
                         const struct stp_train_run *b)
{
    return train_order(STP_DIM_GA, a, b) == 0;
}

/* ---- views ---- */

/* The mode that jobs use most, among the modes of runs on several GPUs. */
static const char *train_find_mode(const struct stp_train_view *view)
{
    static const char *const by_use[] = {"bucketed", "interleaved", "naive",
                                         "sharded"};
    size_t best = 4;

    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];
        size_t at = train_word_rank(by_use, 4, r->mode);

        if (stp_train_in_view(view, r) && r->n_gpus > 1 && at < best)
            best = at;
    }
    return best < 4 ? by_use[best] : "single";
}

struct stp_train_view stp_train_view_of(const struct stp_train_runs *runs,
                                        const char *gpu, const char *size)
{
    struct stp_train_view view = {.runs = runs, .gpu = gpu, .size = size};
    struct stp_train_levels steps;

    for (size_t t = 0; t < STP_TRAIN_TRAITS; t++)
        view.typical[t] = train_find_typical(&view, t);
    view.mode = train_find_mode(&view);
    steps = stp_train_levels_of(&view, STP_DIM_GA);
    view.step = steps.n > 0 ? steps.like[0] : NULL;
    return view;
}

/* ---- cells ---- */

static bool train_is_there(const struct stp_train_view *view,
                           const struct stp_train_where *where,
                           const struct stp_train_run *r)
{
    if (!stp_train_in_view(view, r))
        return false;
    for (int d = 0; d < STP_N_DIMS; d++)
        if (where->like[d] != NULL && train_order(d, where->like[d], r) != 0)
            return false;
    if (where->like[STP_DIM_GA] == NULL && !stp_train_same_step(r, view->step))
        return false;
    return where->like[STP_DIM_MODE] != NULL ||
           strcmp(r->mode, r->n_gpus == 1 ? "single" : view->mode) == 0;
}

static void train_add_epochs(struct stp_train_cell *cell,
                             const struct stp_train_run *r, double *squares)
{
    for (unsigned e = 0; e < r->n_epochs; e++) {
        const double off = r->epoch_s[e] - cell->mean;

        cell->n++; /* Welford's way */
        cell->mean += off / (double)cell->n;
        *squares += off * (r->epoch_s[e] - cell->mean);
        cell->comm += r->comm_s[e];
        cell->exposed += r->exposed_s[e];
    }
}

bool stp_train_find_cell(const struct stp_train_view *view,
                         const struct stp_train_where *where,
                         struct stp_train_cell *cell_ret)
{
    struct stp_train_cell cell = {.n = 0};
    double squares = 0, half = 0;

    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];

        if (!train_is_there(view, where, r))
            continue;
        if (cell.run == NULL)
            cell.run = r;
        train_add_epochs(&cell, r, &squares);
    }
    if (cell.n == 0)
        return false;
    if (cell.n > 1)
        half = stp_t975(cell.n - 1) *
               sqrt(squares / (double)(cell.n - 1) / (double)cell.n);
    cell.low = fmax(0, cell.mean - half);
    cell.high = cell.mean + half;
    cell.comm /= (double)cell.n;
    cell.exposed /= (double)cell.n;
    *cell_ret = cell;
    return true;
}
