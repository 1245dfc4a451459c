/* train_chart_cells.c - which runs of training are compared, and their means */
#include <math.h>
#include <string.h>

#include "report/training/train_chart_parts.h"

static const char *const modes[] = {"single", "naive", "interleaved",
                                    "bucketed", "sharded"};
static const char *const precisions[] = {"fp32", "tf32", "bf16", "fp16",
                                         "fp64"};

bool stp_train_on_cpus(const struct stp_train_run *run)
{
    return strstr(run->made_by, " process") != NULL;
}

/* ---- traits: what is not compared, and so must be alike ---- */

static bool any_run(const struct stp_train_run *r)
{
    (void)r;
    return true;
}

static bool is_half(const struct stp_train_run *r)
{
    return strcmp(r->precision, "bf16") == 0 ||
           strcmp(r->precision, "fp16") == 0;
}

static bool has_buckets(const struct stp_train_run *r)
{
    return strcmp(r->mode, "bucketed") == 0;
}

static bool same_tuner(const struct stp_train_run *a,
                       const struct stp_train_run *b)
{
    return strcmp(a->tuner, b->tuner) == 0;
}

/* Micro-batches may be parts of a batch, or make a larger one. */
static bool same_work(const struct stp_train_run *a,
                      const struct stp_train_run *b)
{
    return a->n_samples == b->n_samples &&
           (a->batch == b->batch ||
            (uint64_t)a->batch * b->ga == (uint64_t)b->batch * a->ga);
}

static bool same_gradients(const struct stp_train_run *a,
                           const struct stp_train_run *b)
{
    return (strcmp(a->gradients, "fp32") == 0) ==
           (strcmp(b->gradients, "fp32") == 0);
}

static bool same_buckets(const struct stp_train_run *a,
                         const struct stp_train_run *b)
{
    return a->bucket_bytes == b->bucket_bytes &&
           a->first_bucket_bytes == b->first_bucket_bytes;
}

static bool same_learning(const struct stp_train_run *a,
                          const struct stp_train_run *b)
{
    return a->rate == b->rate && a->seed == b->seed;
}

static const struct {
    bool (*applies)(const struct stp_train_run *r);
    bool (*same)(const struct stp_train_run *a, const struct stp_train_run *b);
} traits[STP_TRAIN_TRAITS] = {
    {any_run, same_tuner},     {any_run, same_work},
    {is_half, same_gradients}, {has_buckets, same_buckets},
    {any_run, same_learning},
};

static bool is_of(const struct stp_train_view *view,
                  const struct stp_train_run *r)
{
    return (view->gpu == NULL || strcmp(view->gpu, r->gpu) == 0) &&
           (view->size == NULL || strcmp(view->size, r->size) == 0);
}

/* The first of those that most runs are like; NULL if it applies to none.  The
 * tuner that is none goes first, however many there are. */
static const struct stp_train_run *
find_typical(const struct stp_train_view *view, size_t t)
{
    const struct stp_train_runs *all = view->runs;
    const struct stp_train_run *best = NULL;
    size_t most = 0;

    for (size_t i = 0; i < all->n; i++) {
        const struct stp_train_run *r = &all->runs[i];
        size_t n = 0;

        if (!is_of(view, r) || !traits[t].applies(r))
            continue;
        if (traits[t].same == same_tuner &&
            strcmp(r->tuner, STP_TRAIN_NCCL) == 0)
            return r;
        for (size_t k = 0; k < all->n; k++)
            n += is_of(view, &all->runs[k]) &&
                 traits[t].applies(&all->runs[k]) &&
                 traits[t].same(r, &all->runs[k]);
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
    if (!is_of(view, run))
        return false;
    for (size_t t = 0; t < STP_TRAIN_TRAITS; t++)
        if (traits[t].applies(run) && view->typical[t] != NULL &&
            !traits[t].same(run, view->typical[t]))
            return false;
    return true;
}

static size_t place(const char *const *words, size_t n, const char *word)
{
    size_t i = 0;

    while (i < n && strcmp(words[i], word) != 0)
        i++;
    return i;
}

/* The one that jobs have most likely, of those that ran on several GPUs. */
static const char *find_mode(const struct stp_train_view *view)
{
    static const char *const by_use[] = {"bucketed", "interleaved", "naive",
                                         "sharded"};
    size_t best = 4;

    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];
        size_t at = place(by_use, 4, r->mode);

        if (stp_train_in_view(view, r) && r->n_gpus > 1 && at < best)
            best = at;
    }
    return best < 4 ? by_use[best] : "single";
}

struct stp_train_view stp_train_view_of(const struct stp_train_runs *runs,
                                        const char *gpu, const char *size)
{
    struct stp_train_view view = {
        .runs = runs, .gpu = gpu, .size = size, .ga = UINT32_MAX};

    for (size_t t = 0; t < STP_TRAIN_TRAITS; t++)
        view.typical[t] = find_typical(&view, t);
    view.mode = find_mode(&view);
    for (size_t i = 0; i < runs->n; i++)
        if (stp_train_in_view(&view, &runs->runs[i]) &&
            runs->runs[i].ga < view.ga)
            view.ga = runs->runs[i].ga;
    return view;
}

/* ---- dimensions: what is compared ---- */

/* Below 0 if a is before b, 0 if they are the same. */
typedef int order_fn(const struct stp_train_run *a,
                     const struct stp_train_run *b);

static int order_sizes(const struct stp_train_run *a,
                       const struct stp_train_run *b)
{
    if (strcmp(a->size, b->size) == 0)
        return 0;
    if (a->n_params != b->n_params)
        return a->n_params < b->n_params ? -1 : 1;
    return strcmp(a->size, b->size);
}

static int order_precisions(const struct stp_train_run *a,
                            const struct stp_train_run *b)
{
    return (int)place(precisions, 5, a->precision) -
           (int)place(precisions, 5, b->precision);
}

static int order_numbers(unsigned a, unsigned b)
{
    return (a > b) - (a < b);
}

static int order_gpus(const struct stp_train_run *a,
                      const struct stp_train_run *b)
{
    return order_numbers(a->n_gpus, b->n_gpus);
}

static int order_ga(const struct stp_train_run *a,
                    const struct stp_train_run *b)
{
    return order_numbers(a->ga, b->ga);
}

static int order_modes(const struct stp_train_run *a,
                       const struct stp_train_run *b)
{
    return (int)place(modes, 5, a->mode) - (int)place(modes, 5, b->mode);
}

/* Models of GPU stay in the order of the files: runs of all are in one array.
 */
static int order_models(const struct stp_train_run *a,
                        const struct stp_train_run *b)
{
    return strcmp(a->gpu, b->gpu) == 0 ? 0 : a < b ? -1 : 1;
}

static void label_size(const struct stp_train_run *r,
                       char text[STP_TRAIN_LABEL])
{
    const double n = (double)r->n_params;

    if (n >= 1e6)
        snprintf(text, STP_TRAIN_LABEL, "%s (%.0f M parameters)", r->size,
                 n / 1e6);
    else
        snprintf(text, STP_TRAIN_LABEL, "%s (%.0f parameters)", r->size, n);
}

static void label_precision(const struct stp_train_run *r,
                            char text[STP_TRAIN_LABEL])
{
    snprintf(text, STP_TRAIN_LABEL, "%s", r->precision);
}

static void label_gpus(const struct stp_train_run *r,
                       char text[STP_TRAIN_LABEL])
{
    const bool cpu = stp_train_on_cpus(r);

    snprintf(text, STP_TRAIN_LABEL, "%u %s%s", r->n_gpus,
             cpu ? "process" : "GPU",
             r->n_gpus == 1 ? ""
             : cpu          ? "es"
                            : "s");
}

static void label_ga(const struct stp_train_run *r, char text[STP_TRAIN_LABEL])
{
    snprintf(text, STP_TRAIN_LABEL, "GA %u", r->ga);
}

static void label_mode(const struct stp_train_run *r,
                       char text[STP_TRAIN_LABEL])
{
    snprintf(text, STP_TRAIN_LABEL, "%s", r->mode);
}

static void label_model(const struct stp_train_run *r,
                        char text[STP_TRAIN_LABEL])
{
    snprintf(text, STP_TRAIN_LABEL, "%s", r->gpu);
}

static const struct {
    order_fn *order;
    void (*label)(const struct stp_train_run *r, char text[STP_TRAIN_LABEL]);
} dims[STP_N_DIMS] = {
    [STP_DIM_SIZE] = {order_sizes, label_size},
    [STP_DIM_PRECISION] = {order_precisions, label_precision},
    [STP_DIM_GPUS] = {order_gpus, label_gpus},
    [STP_DIM_GA] = {order_ga, label_ga},
    [STP_DIM_MODE] = {order_modes, label_mode},
    [STP_DIM_MODEL] = {order_models, label_model},
};

void stp_train_level_label(enum stp_train_dim dim,
                           const struct stp_train_run *like,
                           char text[STP_TRAIN_LABEL])
{
    text[0] = '\0';
    if (dim != STP_DIM_NONE)
        dims[dim].label(like, text);
}

static void add_level(struct stp_train_levels *levels, order_fn *order,
                      const struct stp_train_run *r)
{
    size_t at = 0;

    for (size_t i = 0; i < levels->n; i++)
        if (order(levels->like[i], r) == 0)
            return;
    while (at < levels->n && order(levels->like[at], r) < 0)
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
            add_level(&levels, dims[dim].order, &view->runs->runs[i]);
    return levels;
}

/* ---- cells ---- */

static bool is_there(const struct stp_train_view *view,
                     const struct stp_train_where *where,
                     const struct stp_train_run *r)
{
    if (!stp_train_in_view(view, r))
        return false;
    for (int d = 0; d < STP_N_DIMS; d++)
        if (where->like[d] != NULL && dims[d].order(where->like[d], r) != 0)
            return false;
    if (where->like[STP_DIM_GA] == NULL && r->ga != view->ga)
        return false;
    return where->like[STP_DIM_MODE] != NULL ||
           strcmp(r->mode, r->n_gpus == 1 ? "single" : view->mode) == 0;
}

static void add_epochs(struct stp_train_cell *cell,
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

        if (!is_there(view, where, r) ||
            (cell.run != NULL && cell.run->batch != r->batch))
            continue;
        if (cell.run == NULL)
            cell.run = r;
        add_epochs(&cell, r, &squares);
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
