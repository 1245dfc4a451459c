/* settings.c - the training iterations that decide on rules */
#include "tune/settings.h"

#include <math.h>

#include "analyse/derive.h"
#include "analyse/refine.h"
#include "tune/plan.h"

enum {
    MiB = 1 << 20,
    LIVE_ROUNDS = 5,
    FEW_ROUNDS = 3,   /* that show an arm is no rule beyond doubt */
    MOST_ROUNDS = 12, /* of an arm that is unsure */
    BOTH_ROUNDS = 4,  /* that are launched and captured, and likewise */
    MOST_BOTH = 8,
    WARMUP = 3,
    MAX_COLLS = 2,
    MAX_RATIOS = 3,
    N_MODES = 5,
};

/* Without overlap the amount of compute changes little, and what is decided is
 * only what to register. */
static const struct settings_mode {
    int mode;
    size_t n_colls;
    int colls[MAX_COLLS]; /* that an iteration has */
    double ratios[MAX_RATIOS];
} modes[N_MODES] = {
    {STP_MODE_OVERLAP, 1, {ncclFuncAllReduce}, {0.5, 1, 2}},
    {STP_MODE_FSDP, 2, {ncclFuncAllGather, ncclFuncReduceScatter}, {0.5, 1, 2}},
    {STP_MODE_SEQUENTIAL, 1, {ncclFuncAllReduce}, {1}},
    {STP_MODE_SEQUENTIAL, 1, {ncclFuncAllGather}, {1}},
    {STP_MODE_SEQUENTIAL, 1, {ncclFuncReduceScatter}, {1}},
};

const struct stp_range stp_settings_captured = {
    STP_STEPS_FIRST, (uint64_t)STP_SETTINGS_LAST_MIB *MiB};

/* Registered buffers that take more than this of AUTO's time alone are not
 * tried in iterations in which compute waits. */
static const double near_alone = 1.1;

/* Enough for a turn whose arm has several rounds. */
static const double turn_us = 8e3;

static const struct settings_mode *settings_find_mode(int mode, int coll)
{
    size_t m = 0;

    while (m + 1 < N_MODES &&
           (modes[m].mode != mode || modes[m].colls[0] != coll))
        m++;
    return &modes[m];
}

/* ---- settings ---- */

/* Finds the range of sizes that the sweep has of all collectives of a mode;
 * false if some collectives are missing. */
static bool settings_find_range(const struct stp_comparisons *swept,
                                const struct settings_mode *m, unsigned n_ranks,
                                uint64_t *begin_ret, uint64_t *end_ret)
{
    *begin_ret = 0;
    *end_ret = UINT64_MAX;
    for (size_t c = 0; c < m->n_colls; c++) {
        uint64_t begin = 0, end = 0;

        for (size_t i = 0; i < swept->n_points; i++) {
            const struct stp_point *p = &swept->points[i];

            if (p->coll != m->colls[c] || p->n_ranks != n_ranks)
                continue;
            if (end == 0)
                begin = p->n_bytes;
            end = p->n_bytes;
        }
        if (end == 0)
            return false;
        *begin_ret = begin > *begin_ret ? begin : *begin_ret;
        *end_ret = end < *end_ret ? end : *end_ret;
    }
    return true;
}

bool stp_settings_has(const struct stp_device_facts *known, int coll,
                      uint64_t n_bytes)
{
    const uint64_t first = known->info.captures
                               ? stp_settings_captured.min
                               : (uint64_t)STP_SETTINGS_FIRST_MIB * MiB;

    return settings_find_mode(STP_MODE_SEQUENTIAL, coll)->colls[0] == coll &&
           n_bytes >= first && n_bytes <= stp_settings_captured.max &&
           known->modes[STP_MODE_SEQUENTIAL][coll];
}

void stp_settings_add(int mode, int coll, uint64_t n_bytes,
                      struct stp_setting *settings, size_t *n)
{
    const struct settings_mode *m = settings_find_mode(mode, coll);

    for (size_t i = 0; i < *n; i++)
        if (settings[i].mode == mode && settings[i].coll == coll &&
            settings[i].n_bytes == n_bytes)
            return;
    for (size_t i = 0; i < MAX_RATIOS && *n < STP_MAX_SETTINGS; i++)
        if (m->ratios[i] > 0)
            settings[(*n)++] =
                (struct stp_setting){mode, coll, n_bytes, m->ratios[i]};
}

size_t stp_settings_list(const struct stp_comparisons *swept,
                         const struct stp_device_facts *known,
                         struct stp_setting settings[STP_MAX_SETTINGS])
{
    const struct stp_device_info *info = &known->info;
    size_t n = 0;

    for (const struct settings_mode *m = modes; m < modes + N_MODES; m++) {
        uint64_t begin, end;

        /* A mode that decides only on registration is not modelled. */
        if ((m->mode == STP_MODE_SEQUENTIAL &&
             (info->setups == 0 || !known->modes[m->mode][m->colls[0]])) ||
            !settings_find_range(swept, m, info->n_ranks, &begin, &end))
            continue;
        for (uint64_t mib = STP_SETTINGS_FIRST_MIB;
             mib <= STP_SETTINGS_LAST_MIB; mib *= 2)
            if (mib * MiB >= begin && mib * MiB <= end)
                stp_settings_add(m->mode, m->colls[0], mib * MiB, settings, &n);
    }
    return n;
}

/* ---- one of them ---- */

/* Whether registered buffers are not much slower than AUTO in some collective
 * of the setting; true if nobody knows. */
static bool settings_is_near(const struct stp_point *const *points, size_t n,
                             const struct stp_arm *arm, double near)
{
    for (size_t i = 0; i < n; i++) {
        const struct stp_comparison *c = stp_point_arm(points[i], arm);

        if (c == NULL || c->gain.gain >= 1 / near)
            return true;
    }
    return n == 0;
}

enum stp_status stp_setting_choose_arms(const struct stp_comparisons *swept,
                                        double min_gain,
                                        const struct stp_device_info *info,
                                        const struct stp_setting *setting,
                                        struct stp_arms *arms_ret,
                                        struct stp_error *err)
{
    const struct settings_mode *m =
        settings_find_mode(setting->mode, setting->coll);
    const struct stp_point *points[MAX_COLLS];
    const struct stp_comparison *rule;

    /* Take the swept points nearest to the setting's size, of each of its
     * collectives. */
    for (size_t c = 0; c < m->n_colls; c++) {
        double least = INFINITY;

        points[c] = NULL;
        for (size_t i = 0; i < swept->n_points; i++) {
            const struct stp_point *p = &swept->points[i];
            const double far =
                fabs(log((double)p->n_bytes / (double)setting->n_bytes));

            if (p->coll == m->colls[c] && p->n_ranks == info->n_ranks &&
                far < least) {
                least = far;
                points[c] = p;
            }
        }
    }
    if (min_gain > 0 && m->mode == STP_MODE_SEQUENTIAL) {
        arms_ret->n = 2;
        arms_ret->arm[0] = (struct stp_arm){.kind = STP_ARM_AUTO};
        arms_ret->arm[1] = (struct stp_arm){.kind = STP_ARM_AUTO_AGAIN};
        rule = stp_derive_choice(
            points[0], &(struct stp_derive_terms){.min_gain = min_gain});
        if (rule != NULL)
            arms_ret->arm[arms_ret->n++] = rule->arm;
    } else {
        stp_refine_contenders(points, m->n_colls, arms_ret);
    }
    stp_arms_add_nccl(arms_ret, info->tuner);
    if (!(min_gain > 0))
        return stp_arms_add_setups(arms_ret, info->setups, err);
    for (unsigned i = 0; i < STP_N_SETUPS; i++) {
        const struct stp_arm arm = {.kind = STP_ARM_SETUP,
                                    .setup = stp_setups[i]};

        if ((info->setups >> i & 1) != 0 &&
            (arm.setup.memory == STP_MEMORY_STAGE || /* tried in graphs later */
             settings_is_near(points, m->n_colls, &arm,
                              m->mode == STP_MODE_SEQUENTIAL
                                  ? near_alone
                                  : STP_REFINE_NEAR)))
            STP_TRY(stp_arms_add_setups(arms_ret, 1u << i, err));
    }
    return STP_OK;
}

struct stp_rounds_terms stp_setting_rounds(const struct stp_device_info *info,
                                           unsigned rounds, double min_gain)
{
    return info->max_rounds == 0 && rounds == 0 && min_gain > 0
               ? (struct stp_rounds_terms){.few = FEW_ROUNDS,
                                           .most = MOST_ROUNDS,
                                           .min_gain = min_gain}
               : (struct stp_rounds_terms){.is_exact = !(min_gain > 0)};
}

enum stp_status stp_setting_run(const struct stp_device *device,
                                const struct stp_device_info *info,
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
    /* recordings have graphs of sequential iterations alone */
    const bool captures =
        terms->captures && info->captures &&
        (info->is_live || setting->mode == STP_MODE_SEQUENTIAL);
    struct stp_workload_plan plan = {.plan = {.type = terms->type,
                                              .rounds = terms->rounds,
                                              .warmup = WARMUP}};

    if (plan.plan.rounds == 0 && info->max_rounds == 0)
        plan.plan.rounds = captures ? BOTH_ROUNDS : LIVE_ROUNDS;
    plan.plan.terms = stp_setting_rounds(info, terms->rounds, terms->min_gain);
    if (captures && plan.plan.terms.most > 0)
        plan.plan.terms.most = MOST_BOTH;
    STP_TRY(stp_plan_iterations(info, &work, false, &plan, err));
    if (terms->min_gain > 0 && plan.plan.turn_us > turn_us)
        plan.plan.turn_us = turn_us;
    if (captures)
        plan.plan.turn_us /= 2;
    plan.plan.captures = captures;
    plan.plan.graph = terms->graph;
    plan.plan.arms = arms;
    plan.plan.coll = setting->coll;
    plan.plan.in_place = setting->coll == ncclFuncAllReduce; /* as jobs do */
    return stp_iterate_run(device, &plan.plan, terms->progress, terms->user,
                           out, err);
}
