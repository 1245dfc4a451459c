/* iterate.c - which arms shorten training iterations */
#include <math.h>
#include <stdio.h>

#include "analyse/refine.h"
#include "store/clock.h"
#include "tune/stages.h"

enum {
    MiB = 1 << 20,
    FIRST_MIB = 2,
    LAST_MIB = 64,
    LIVE_ROUNDS = 5,
    WARMUP = 3,
    MAX_COLLS = 2,
    MAX_RATIOS = 3,
    N_MODES = 5,
};

/* Where nothing overlaps, how much compute there is changes little. */
static const struct iterate_mode {
    int mode;
    int colls[MAX_COLLS]; /* that an iteration has */
    size_t n_colls;
    double ratios[MAX_RATIOS];
    size_t n_ratios;
    bool registers; /* it decides only on what to register */
} modes[N_MODES] = {
    {STP_MODE_OVERLAP, {ncclFuncAllReduce}, 1, {0.5, 1, 2}, 3, false},
    {STP_MODE_FSDP,
     {ncclFuncAllGather, ncclFuncReduceScatter},
     2,
     {0.5, 1, 2},
     3,
     false},
    {STP_MODE_SEQUENTIAL, {ncclFuncAllReduce}, 1, {1}, 1, true},
    {STP_MODE_SEQUENTIAL, {ncclFuncAllGather}, 1, {1}, 1, true},
    {STP_MODE_SEQUENTIAL, {ncclFuncReduceScatter}, 1, {1}, 1, true},
};

static const struct iterate_mode *iterate_find_mode(int mode, int coll)
{
    size_t m = 0;

    while (m + 1 < N_MODES &&
           (modes[m].mode != mode || modes[m].colls[0] != coll))
        m++;
    return &modes[m];
}

/* ---- settings ---- */

/* The swept sizes of a collective; false if there are none. */
static bool iterate_find_range(const struct stp_comparisons *all, int coll,
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

/* The range of sizes that the sweep has of all collectives of a mode; false if
 * some are missing. */
static bool iterate_find_mode_range(const struct stp_comparisons *swept,
                                    const struct iterate_mode *m,
                                    unsigned n_ranks, uint64_t *begin_ret,
                                    uint64_t *end_ret)
{
    *begin_ret = 0;
    *end_ret = UINT64_MAX;
    for (size_t c = 0; c < m->n_colls; c++) {
        uint64_t begin, end;

        if (!iterate_find_range(swept, m->colls[c], n_ranks, &begin, &end))
            return false;
        *begin_ret = begin > *begin_ret ? begin : *begin_ret;
        *end_ret = end < *end_ret ? end : *end_ret;
    }
    return true;
}

void stp_tune_add_settings(int mode, int coll, uint64_t n_bytes,
                           struct stp_tune_setting *settings, size_t *n)
{
    const struct iterate_mode *m = iterate_find_mode(mode, coll);

    for (size_t i = 0; i < m->n_ratios && *n < STP_TUNE_MAX_SETTINGS; i++)
        settings[(*n)++] =
            (struct stp_tune_setting){mode, coll, n_bytes, m->ratios[i]};
}

static size_t iterate_list_settings(const struct stp_comparisons *swept,
                                    const struct stp_device_info *info,
                                    struct stp_tune_setting *settings)
{
    const bool registers = info->is_live && info->memories != 0;
    size_t n = 0;

    for (size_t m = 0; m < N_MODES; m++) {
        uint64_t begin, end;

        if ((modes[m].registers && !registers) ||
            !iterate_find_mode_range(swept, &modes[m], info->n_ranks, &begin,
                                     &end))
            continue;
        for (uint64_t mib = FIRST_MIB; mib <= LAST_MIB; mib *= 2)
            if (mib * MiB >= begin && mib * MiB <= end)
                stp_tune_add_settings(modes[m].mode, modes[m].colls[0],
                                      mib * MiB, settings, &n);
    }
    return n;
}

/* ---- one of them ---- */

/* The swept point that is nearest to a size; NULL if there is none. */
static const struct stp_point *
iterate_find_nearest(const struct stp_comparisons *all, int coll,
                     unsigned n_ranks, uint64_t n_bytes)
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

static void iterate_choose_arms(const struct stp_comparisons *swept,
                                unsigned n_ranks,
                                const struct stp_tune_setting *setting,
                                struct stp_arms *arms)
{
    const struct iterate_mode *m =
        iterate_find_mode(setting->mode, setting->coll);
    const struct stp_point *points[MAX_COLLS];

    for (size_t c = 0; c < m->n_colls; c++)
        points[c] =
            iterate_find_nearest(swept, m->colls[c], n_ranks, setting->n_bytes);
    stp_refine_contenders(points, m->n_colls, arms);
}

/* A signal ends a setting between rounds. */
static bool iterate_goes_on(void *user, size_t done, size_t total)
{
    const struct stp_tune_job *job = user;

    (void)done;
    (void)total;
    return job->host->goes_on(job->host->user);
}

enum stp_status stp_tune_run_setting(const struct stp_tune_job *job,
                                     const struct stp_device *device,
                                     const struct stp_tune_setting *setting,
                                     const struct stp_arms *arms,
                                     struct stp_iterations *out,
                                     struct stp_error *err)
{
    const struct stp_workload_options work = {.modes = {setting->mode},
                                              .n_modes = 1,
                                              .bytes = {setting->n_bytes},
                                              .n_bytes = 1,
                                              .ratios = {setting->ratio},
                                              .n_ratios = 1};
    const struct stp_measure_options *measure = &job->plan->measure;
    struct stp_workload_plan plan = {.plan = {.type = measure->types[0],
                                              .rounds = measure->rounds,
                                              .warmup = WARMUP}};
    struct stp_device_info info;
    enum stp_status status;

    stp_device_get_info(device, &info);
    if (plan.plan.rounds == 0 && info.max_rounds == 0)
        plan.plan.rounds = LIVE_ROUNDS;
    status = stp_plan_iterations(&info, &work, false, &plan, err);
    plan.plan.arms = arms;
    plan.plan.coll = setting->coll;
    plan.plan.in_place = setting->coll == ncclFuncAllReduce; /* as jobs do */
    if (status == STP_OK)
        status = stp_iterate_run(device, &plan.plan, iterate_goes_on,
                                 (void *)job, out, err);
    return status;
}

/* Whether the rows have the setting.  A setting that was left out, as its GEMM
 * is that of another ratio, is tried again. */
static bool iterate_has_setting(const struct stp_dataset *data,
                                const struct stp_tune_setting *setting,
                                unsigned n_ranks)
{
    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement *m = &data->rows[i];

        if (m->work.mode == setting->mode && m->coll == setting->coll &&
            m->n_bytes == setting->n_bytes &&
            fabs(m->work.ratio - setting->ratio) < 1e-9 &&
            m->n_ranks == n_ranks)
            return true;
    }
    return false;
}

/* ---- a pass ---- */

/* A setting that was not completed leaves no rows. */
static enum stp_status iterate_measure(const struct stp_tune_pass *pass,
                                       const struct stp_comparisons *swept,
                                       const struct stp_tune_setting *setting,
                                       struct stp_iterations *out,
                                       struct stp_error *err)
{
    const size_t n_rows = out->data.n_rows;
    struct stp_arms arms;
    enum stp_status status;

    iterate_choose_arms(swept, pass->info.n_ranks, setting, &arms);
    out->n_samples = 0; /* they are not used */
    status = stp_arms_add_memories(&arms, pass->info.memories, err);
    if (status == STP_OK)
        status = stp_tune_run_setting(pass->job, pass->device, setting, &arms,
                                      out, err);
    if (status == STP_OK)
        return stp_tune_state_save(pass->state, false, err);
    out->data.n_rows = n_rows;
    return status;
}

static enum stp_status
iterate_measure_all(const struct stp_tune_pass *pass,
                    const struct stp_comparisons *swept,
                    const struct stp_tune_setting *settings, size_t total,
                    struct stp_iterations *out, struct stp_error *err)
{
    const unsigned n_ranks = pass->info.n_ranks;
    enum stp_status status = STP_OK;
    size_t there = 0;

    for (size_t i = 0; i < total; i++)
        there += iterate_has_setting(&out->data, &settings[i], n_ranks);
    if (there > 0)
        stp_tune_tell(pass->job, "continuing %s: %zu of %zu settings are there",
                      pass->job->files->state_iterations, there, total);
    for (size_t i = 0; i < total && status == STP_OK; i++) {
        if (!iterate_has_setting(&out->data, &settings[i], n_ranks))
            status = iterate_measure(pass, swept, &settings[i], out, err);
        if (status == STP_OK)
            status = stp_tune_progress(pass->job, STP_TUNE_ITERATE, i + 1,
                                       total, err);
    }
    return status;
}

enum stp_status stp_tune_iterate(const struct stp_tune_pass *pass,
                                 const struct stp_dataset *data,
                                 struct stp_iterations *out,
                                 char why_not[STP_ERROR_TEXT],
                                 struct stp_error *err)
{
    struct stp_tune_setting settings[STP_TUNE_MAX_SETTINGS];
    struct stp_comparisons swept = {0};
    int64_t clock = stp_now_ms();
    enum stp_status status = STP_OK;
    size_t n = 0, n_overlapped = 0;

    if (!pass->info.models_overlap) {
        status = stp_compare(data, &swept, err);
        if (status == STP_OK)
            n = iterate_list_settings(&swept, &pass->info, settings);
    }
    while (n_overlapped < n &&
           settings[n_overlapped].mode != STP_MODE_SEQUENTIAL)
        n_overlapped++;
    if (pass->info.models_overlap)
        snprintf(why_not, STP_ERROR_TEXT,
                 "nobody measured on '%s' what compute and collectives do to "
                 "each other",
                 pass->info.machine);
    else if (status == STP_OK && n_overlapped == 0)
        snprintf(why_not, STP_ERROR_TEXT,
                 "all-reduces, or all-gathers and reduce-scatters, of %d to %d "
                 "MiB were not swept",
                 FIRST_MIB, LAST_MIB);
    if (status == STP_OK && n_overlapped == 0)
        stp_tune_tell(pass->job, "no overlapped iterations: %s", why_not);
    if (status == STP_OK && n > 0)
        status = iterate_measure_all(pass, &swept, settings, n, out, err);
    stp_comparisons_free(&swept);
    stp_tune_clock(pass->stage_ms, STP_TUNE_ITERATE, &clock);
    return status;
}
