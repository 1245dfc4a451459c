/* tune_iterate.c - which arms shorten training iterations */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "analyse/objective.h"
#include "analyse/refine.h"
#include "cli/tune/tune.h"
#include "launch/clock.h"
#include "launch/stop.h"
#include "report/file.h"

enum {
    MiB = 1 << 20,
    FIRST_MIB = 2,
    LAST_MIB = 64,
    LIVE_ROUNDS = 5,
    WARMUP = 3,
    MAX_COLLS = 2,
    N_MODES = 2,
};

const double stp_tune_ratios[STP_TUNE_RATIOS] = {0.5, 1, 2};

/* What the collectives of a mode are. */
static const struct mode {
    int mode;
    int colls[MAX_COLLS];
    size_t n_colls;
} modes[N_MODES] = {
    {STP_MODE_OVERLAP, {ncclFuncAllReduce}, 1},
    {STP_MODE_FSDP, {ncclFuncAllGather, ncclFuncReduceScatter}, 2},
};

static const struct mode *find_mode(int mode)
{
    return mode == modes[0].mode ? &modes[0] : &modes[1];
}

/* ---- settings ---- */

/* The swept sizes of a collective; false if there are none. */
static bool range_of(const struct stp_comparisons *all, int coll,
                     unsigned n_ranks, uint64_t *begin, uint64_t *end)
{
    bool any = false;

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];

        if (p->coll != coll || p->n_ranks != n_ranks)
            continue;
        if (!any)
            *begin = p->n_bytes;
        *end = p->n_bytes;
        any = true;
    }
    return any;
}

bool stp_tune_has_mode(const struct stp_tune *t, int mode, unsigned n_ranks,
                       uint64_t *begin_ret, uint64_t *end_ret)
{
    const struct mode *m = find_mode(mode);

    *begin_ret = 0;
    *end_ret = UINT64_MAX;
    for (size_t c = 0; c < m->n_colls; c++) {
        uint64_t begin, end;

        if (!range_of(&t->alone.comparisons, m->colls[c], n_ranks, &begin,
                      &end))
            return false;
        *begin_ret = begin > *begin_ret ? begin : *begin_ret;
        *end_ret = end < *end_ret ? end : *end_ret;
    }
    return true;
}

static size_t list_settings(const struct stp_tune *t, unsigned n_ranks,
                            struct stp_tune_setting *settings)
{
    size_t n = 0;

    for (size_t m = 0; m < N_MODES; m++) {
        uint64_t begin, end;

        if (!stp_tune_has_mode(t, modes[m].mode, n_ranks, &begin, &end))
            continue;
        for (uint64_t mib = FIRST_MIB; mib <= LAST_MIB; mib *= 2)
            if (mib * MiB >= begin && mib * MiB <= end)
                settings[n++] =
                    (struct stp_tune_setting){modes[m].mode, mib * MiB};
    }
    return n;
}

/* ---- one of them ---- */

/* The swept point that is nearest to a size; NULL if there is none. */
static const struct stp_point *nearest(const struct stp_comparisons *all,
                                       int coll, unsigned n_ranks,
                                       uint64_t n_bytes)
{
    const struct stp_point *best = NULL;
    double least = INFINITY;

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        double far = fabs(log((double)p->n_bytes / (double)n_bytes));

        if (p->coll == coll && p->n_ranks == n_ranks && far < least) {
            least = far;
            best = p;
        }
    }
    return best;
}

static void choose_arms(const struct stp_tune *t, unsigned n_ranks,
                        const struct stp_tune_setting *setting,
                        struct stp_arms *arms)
{
    const struct mode *m = find_mode(setting->mode);
    const struct stp_point *points[MAX_COLLS];

    for (size_t c = 0; c < m->n_colls; c++)
        points[c] = nearest(&t->alone.comparisons, m->colls[c], n_ranks,
                            setting->n_bytes);
    stp_refine_contenders(points, m->n_colls, arms);
}

/* A signal ends a setting between rounds. */
static bool go_on(void *user, size_t done, size_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return !stp_stop_wished();
}

enum stp_status stp_tune_run_setting(struct stp_tune *t,
                                     const struct stp_device *device,
                                     const struct stp_tune_setting *setting,
                                     double ratio, const struct stp_arms *arms,
                                     struct stp_iterations *out)
{
    const struct stp_workload_options work = {.modes = {setting->mode},
                                              .n_modes = 1,
                                              .bytes = {setting->n_bytes},
                                              .n_bytes = 1,
                                              .ratios = {ratio},
                                              .n_ratios = 1};
    struct stp_iterate_cli_plan plan = {.plan = {.type = t->o->measure.type,
                                                 .rounds = t->o->measure.rounds,
                                                 .warmup = WARMUP}};
    struct stp_device_info info;
    enum stp_status status;

    device->ops->info(device->self, &info);
    if (plan.plan.rounds == 0 && info.max_rounds == 0)
        plan.plan.rounds = LIVE_ROUNDS;
    status = stp_plan_iterations(&info, &work, false, &plan, &t->err);
    plan.plan.arms = arms;
    if (status == STP_OK)
        status = stp_iterate_run(device, &plan.plan, go_on, NULL, out, &t->err);
    return status;
}

/* Whether an earlier run has it.  One that was left out, as its product is that
 * of another ratio, is tried again. */
static bool is_there(const struct stp_dataset *data,
                     const struct stp_tune_setting *setting, double ratio,
                     unsigned n_ranks)
{
    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement *m = &data->rows[i];

        if (m->work.mode == setting->mode && m->n_bytes == setting->n_bytes &&
            fabs(m->work.ratio - ratio) < 1e-9 && m->n_ranks == n_ranks)
            return true;
    }
    return false;
}

/* A setting that was not completed leaves nothing. */
static enum stp_status measure(struct stp_tune *t,
                               const struct stp_device *device,
                               const struct stp_tune_setting *setting,
                               double ratio, unsigned n_ranks)
{
    size_t n_rows = t->iterated.data.n_rows;
    struct stp_arms arms;
    enum stp_status status;

    choose_arms(t, n_ranks, setting, &arms);
    t->iterated.n_samples = 0; /* nobody reads them */
    status =
        stp_tune_run_setting(t, device, setting, ratio, &arms, &t->iterated);
    if (status != STP_OK) {
        t->iterated.data.n_rows = n_rows;
        return status;
    }
    return stp_tune_keep(t, false);
}

/* ---- a pass ---- */

static void tell(const struct stp_tune *t,
                 const struct stp_tune_setting *settings, size_t n,
                 unsigned n_ranks)
{
    size_t there = 0;

    for (size_t i = 0; i < n * STP_TUNE_RATIOS; i++)
        there += is_there(&t->iterated.data, &settings[i / STP_TUNE_RATIOS],
                          stp_tune_ratios[i % STP_TUNE_RATIOS], n_ranks);
    if (there > 0)
        stp_complain(t->command, "continuing %s: %zu of %zu settings are there",
                     t->iterations_path, there, n * STP_TUNE_RATIOS);
}

/* Goes on without them. */
static enum stp_status STP_PRINTF(2, 3)
    give_up(struct stp_tune *t, const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    vsnprintf(t->why_not, sizeof(t->why_not), fmt, va);
    va_end(va);
    stp_complain(t->command, "no iterations: %s", t->why_not);
    return STP_OK;
}

static enum stp_status measure_all(struct stp_tune *t,
                                   const struct stp_device *device,
                                   unsigned n_ranks)
{
    struct stp_tune_setting settings[STP_TUNE_MAX_SETTINGS];
    size_t n = list_settings(t, n_ranks, settings);
    size_t total = n * STP_TUNE_RATIOS;
    enum stp_status status = STP_OK;

    tell(t, settings, n, n_ranks);
    for (size_t i = 0; i < total && status == STP_OK; i++) {
        const struct stp_tune_setting *setting = &settings[i / STP_TUNE_RATIOS];
        double ratio = stp_tune_ratios[i % STP_TUNE_RATIOS];

        if (!is_there(&t->iterated.data, setting, ratio, n_ranks))
            status = measure(t, device, setting, ratio, n_ranks);
        if (status == STP_OK)
            status = stp_tune_progress(t, STP_TUNE_ITERATE, i + 1, total);
    }
    if (total == 0)
        return give_up(t,
                       "all-reduces, or all-gathers and reduce-scatters, of "
                       "%d to %d MiB were not swept",
                       FIRST_MIB, LAST_MIB);
    return status;
}

enum stp_status stp_tune_iterate(struct stp_tune *t,
                                 const struct stp_device *device)
{
    struct stp_device_info info;
    int64_t clock = stp_now_ms();
    enum stp_status status;

    device->ops->info(device->self, &info);
    if (t->o->no_iterate)
        return STP_OK;
    if (info.models_overlap)
        return give_up(t,
                       "nobody measured on '%s' what compute and collectives "
                       "do to each other",
                       info.machine);
    stp_comparisons_free(&t->alone.comparisons);
    status = stp_compare(&t->alone.data, &t->alone.comparisons, &t->err);
    if (status == STP_OK)
        status = measure_all(t, device, info.n_ranks);
    stp_comparisons_free(&t->alone.comparisons);
    stp_tune_clock(t, STP_TUNE_ITERATE, &clock);
    return status;
}

/* ---- the policy ---- */

/* With NCCL_WORKLOAD_OVERLAP=1 it says: leave NCCL alone. */
static enum stp_status save_empty(struct stp_tune *t)
{
    struct stp_file file;
    enum stp_status status =
        stp_file_begin(t->overlap.trial_path, &file, &t->err);

    if (status != STP_OK)
        return status;
    fprintf(
        file.fp,
        "# steptune tune\n# No rule: %s, so NCCL's own choice stands beside "
        "compute.\n",
        t->why_not);
    return stp_file_commit(&file, &t->err);
}

/* How steady the machine was, workload by workload. */
static enum stp_status measure_steadiness(struct stp_tune *t)
{
    struct stp_tune_policy *p = &t->overlap;
    struct stp_comparisons each;
    enum stp_status status = stp_compare(&p->data, &each, &t->err);

    if (status != STP_OK)
        return status;
    status = stp_steadiness_of(&each, &p->comparisons, &p->steadiness, &t->err);
    stp_comparisons_free(&each);
    return status;
}

enum stp_status stp_tune_derive_overlap(struct stp_tune *t)
{
    struct stp_tune_policy *p = &t->overlap;
    enum stp_status status;

    if (t->o->no_iterate)
        return STP_OK;
    p->exists = true;
    if (t->iterated.data.n_rows == 0)
        return save_empty(t);
    t->why_not[0] = '\0'; /* those of some ranks are missing, said then */
    status = stp_objective_select(&t->iterated.data, STP_OBJECTIVE_ITERATION,
                                  &p->data, &t->err);
    if (status == STP_OK)
        status = stp_objective_compare(&p->data, STP_OBJECTIVE_ITERATION,
                                       &p->comparisons, &t->err);
    if (status == STP_OK)
        status = measure_steadiness(t);
    if (status == STP_OK)
        status = stp_derive(&p->comparisons, t->o->derive.min_gain, &p->derived,
                            &t->err);
    return status == STP_OK ? stp_tune_save_policy(t, p) : status;
}
