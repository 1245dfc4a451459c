/* settings.c - the training iterations by which is decided */
#include "tune/settings.h"

#include <math.h>

#include "analyse/refine.h"
#include "tune/plan.h"

enum {
    MiB = 1 << 20,
    LIVE_ROUNDS = 5,
    WARMUP = 3,
    MAX_COLLS = 2,
    MAX_RATIOS = 3,
    N_MODES = 5,
};

/* Where nothing overlaps, how much compute there is changes little. */
static const struct settings_mode {
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

static const struct settings_mode *settings_find_mode(int mode, int coll)
{
    size_t m = 0;

    while (m + 1 < N_MODES &&
           (modes[m].mode != mode || modes[m].colls[0] != coll))
        m++;
    return &modes[m];
}

/* ---- settings ---- */

/* The swept sizes of a collective; false if there are none. */
static bool settings_find_range(const struct stp_comparisons *all, int coll,
                                unsigned n_ranks, uint64_t *begin,
                                uint64_t *end)
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
static bool settings_find_mode_range(const struct stp_comparisons *swept,
                                     const struct settings_mode *m,
                                     unsigned n_ranks, uint64_t *begin_ret,
                                     uint64_t *end_ret)
{
    *begin_ret = 0;
    *end_ret = UINT64_MAX;
    for (size_t c = 0; c < m->n_colls; c++) {
        uint64_t begin, end;

        if (!settings_find_range(swept, m->colls[c], n_ranks, &begin, &end))
            return false;
        *begin_ret = begin > *begin_ret ? begin : *begin_ret;
        *end_ret = end < *end_ret ? end : *end_ret;
    }
    return true;
}

bool stp_settings_has(const struct stp_device *device, int mode, int coll,
                      uint64_t n_bytes)
{
    const struct settings_mode *m = settings_find_mode(mode, coll);

    return m->mode == mode && m->colls[0] == coll &&
           n_bytes >= (uint64_t)STP_SETTINGS_FIRST_MIB * MiB &&
           n_bytes <= (uint64_t)STP_SETTINGS_LAST_MIB * MiB &&
           stp_device_knows_mode(device, mode, coll);
}

void stp_settings_add(int mode, int coll, uint64_t n_bytes,
                      struct stp_setting *settings, size_t *n)
{
    const struct settings_mode *m = settings_find_mode(mode, coll);

    for (size_t i = 0; i < m->n_ratios && *n < STP_MAX_SETTINGS; i++)
        settings[(*n)++] =
            (struct stp_setting){mode, coll, n_bytes, m->ratios[i]};
}

/* Nothing is modelled of what only decides on what to register. */
static bool settings_has_mode(const struct stp_device *device,
                              const struct stp_device_info *info,
                              const struct settings_mode *m)
{
    return !m->registers ||
           (info->setups != 0 &&
            stp_device_knows_mode(device, m->mode, m->colls[0]));
}

size_t stp_settings_list(const struct stp_comparisons *swept,
                         const struct stp_device *device,
                         struct stp_setting settings[STP_MAX_SETTINGS])
{
    struct stp_device_info info;
    size_t n = 0;

    stp_device_get_info(device, &info);
    for (size_t m = 0; m < N_MODES; m++) {
        uint64_t begin, end;

        if (!settings_has_mode(device, &info, &modes[m]) ||
            !settings_find_mode_range(swept, &modes[m], info.n_ranks, &begin,
                                      &end))
            continue;
        for (uint64_t mib = STP_SETTINGS_FIRST_MIB;
             mib <= STP_SETTINGS_LAST_MIB; mib *= 2)
            if (mib * MiB >= begin && mib * MiB <= end)
                stp_settings_add(modes[m].mode, modes[m].colls[0], mib * MiB,
                                 settings, &n);
    }
    return n;
}

/* ---- one of them ---- */

/* The swept point that is nearest to a size; NULL if there is none. */
static const struct stp_point *
settings_find_nearest(const struct stp_comparisons *all, int coll,
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

enum stp_status stp_setting_choose_arms(const struct stp_comparisons *swept,
                                        const struct stp_device *device,
                                        const struct stp_setting *setting,
                                        struct stp_arms *arms_ret,
                                        struct stp_error *err)
{
    const struct settings_mode *m =
        settings_find_mode(setting->mode, setting->coll);
    const struct stp_point *points[MAX_COLLS];
    struct stp_device_info info;

    stp_device_get_info(device, &info);
    for (size_t c = 0; c < m->n_colls; c++)
        points[c] = settings_find_nearest(swept, m->colls[c], info.n_ranks,
                                          setting->n_bytes);
    stp_refine_contenders(points, m->n_colls, arms_ret);
    return stp_arms_add_setups(arms_ret, info.setups, err);
}

enum stp_status stp_setting_run(const struct stp_device *device,
                                const struct stp_setting *setting,
                                const struct stp_setting_terms *terms,
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
    struct stp_workload_plan plan = {.plan = {.type = terms->type,
                                              .rounds = terms->rounds,
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
    STP_THEN(status, stp_iterate_run(device, &plan.plan, terms->progress,
                                     terms->user, out, err));
    return status;
}
