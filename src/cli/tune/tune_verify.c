/* tune_verify.c - both policies, through the plugin, against NCCL's own choice
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/verify.h"
#include "cli/trial.h"
#include "cli/tune/tune.h"
#include "launch/clock.h"
#include "report/policy_file.h"

static const struct stp_arms both = {
    .arm = {{.kind = STP_ARM_AUTO}, {.kind = STP_ARM_PLUGIN}}, .n = 2};

enum stp_status stp_tune_save_policy(struct stp_tune *t,
                                     struct stp_tune_policy *policy)
{
    const struct stp_policy_origin origin = {.data = &policy->data,
                                             .made_by = "steptune tune",
                                             .min_gain = t->o->derive.min_gain,
                                             .portable = t->o->derive.portable,
                                             .steadiness = &policy->steadiness};

    return stp_policy_file_save(&policy->derived, &origin, policy->trial_path,
                                &t->err);
}

/* ---- collectives alone ---- */

/* The sizes that were swept on so many ranks, as the plan's. */
static enum stp_status take_sizes(struct stp_tune *t, unsigned n_ranks)
{
    const struct stp_comparisons *all = &t->alone.comparisons;
    struct stp_cli_plan *plan = &t->plan;
    enum stp_status status = STP_OK;

    plan->plan.n_colls = 0;
    for (size_t i = 0; i < all->n_points && status == STP_OK; i++) {
        const struct stp_point *p = &all->points[i];
        size_t c = plan->plan.n_colls;

        if (p->n_ranks != n_ranks)
            continue;
        if (c == 0 || plan->colls[c - 1] != p->coll) {
            plan->colls[c] = p->coll;
            plan->sizes[c].n = 0;
            plan->plan.n_colls = ++c;
        }
        status = stp_sizes_add(&plan->sizes[c - 1], p->n_bytes, 1, &t->err);
    }
    return status;
}

static bool progress(void *user, size_t done, size_t total)
{
    return stp_tune_progress(user, STP_TUNE_VERIFY, done, total) == STP_OK;
}

static enum stp_status try_alone(struct stp_tune *t,
                                 const struct stp_device *device)
{
    struct stp_device_info info;
    enum stp_status status;

    device->ops->info(device->self, &info);
    status = take_sizes(t, info.n_ranks);
    if (status == STP_OK)
        status = stp_trial_add_unseen(device, t->alone.trial_path, &t->plan,
                                      &t->err);
    t->plan.plan.arms = &both;
    t->plan.plan.wake = info.is_live;
    if (t->o->measure.rounds == 0 && info.max_rounds > 0)
        t->plan.plan.rounds = info.max_rounds; /* another in each pass */
    if (status == STP_OK)
        status = stp_sweep_run(device, &t->plan.plan, progress, t,
                               &t->alone.tried, &t->err);
    return status;
}

/* ---- iterations ---- */

static bool has_rule(const struct stp_derived *derived, int mode,
                     uint64_t n_bytes, unsigned n_ranks)
{
    for (size_t i = 0; i < derived->n_rules; i++) {
        const struct stp_derived_rule *rule = &derived->rules[i];

        if ((rule->coll == ncclFuncAllReduce) == (mode == STP_MODE_OVERLAP) &&
            rule->n_ranks == n_ranks && rule->min_bytes <= n_bytes &&
            n_bytes <= rule->max_bytes)
            return true;
    }
    return false;
}

static void add_setting(const struct stp_tune *t, int mode, uint64_t n_bytes,
                        unsigned n_ranks, struct stp_tune_setting *settings,
                        size_t *n)
{
    if (*n < STP_TUNE_MAX_SETTINGS &&
        has_rule(&t->overlap.derived, mode, n_bytes, n_ranks))
        settings[(*n)++] = (struct stp_tune_setting){mode, n_bytes};
}

/* Where there is a rule: at the sizes that were iterated, and halfway between
 * them. */
static size_t list_settings(const struct stp_tune *t, unsigned n_ranks,
                            struct stp_tune_setting *settings)
{
    const struct stp_comparisons *all = &t->overlap.comparisons;
    size_t n = 0;

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        int mode =
            p->coll == ncclFuncAllReduce ? STP_MODE_OVERLAP : STP_MODE_FSDP;

        if (p->n_ranks != n_ranks || p->coll == ncclFuncReduceScatter)
            continue; /* with the all-gather of its size */
        add_setting(t, mode, p->n_bytes, n_ranks, settings, &n);
        if (i + 1 < all->n_points && stp_point_alike(p, p + 1))
            add_setting(t, mode, stp_size_between(p->n_bytes, p[1].n_bytes),
                        n_ranks, settings, &n);
    }
    return n;
}

static enum stp_status try_overlap(struct stp_tune *t,
                                   const struct stp_device *device)
{
    struct stp_tune_setting settings[STP_TUNE_MAX_SETTINGS];
    struct stp_iterations out = {.data = t->overlap.tried};
    struct stp_device_info info;
    enum stp_status status = STP_OK;
    size_t n;

    device->ops->info(device->self, &info);
    n = list_settings(t, info.n_ranks, settings) * STP_TUNE_RATIOS;
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        out.n_samples = 0;
        status = stp_tune_run_setting(t, device, &settings[i / STP_TUNE_RATIOS],
                                      stp_tune_ratios[i % STP_TUNE_RATIOS],
                                      &both, &out);
        if (status == STP_OK)
            status = stp_tune_progress(t, STP_TUNE_VERIFY, i + 1, n);
    }
    free(out.sample_us);
    t->overlap.tried = out.data;
    return status;
}

/* ---- until nothing is slower ---- */

/* Takes away the rules that lost somewhere.  Returns how many. */
static size_t drop_slower(struct stp_tune_policy *p)
{
    size_t kept = 0;
    size_t n = p->derived.n_rules;

    for (size_t i = 0; i < n; i++)
        if (!stp_verify_refutes(&p->verdicts, &p->derived.rules[i]))
            p->derived.rules[kept++] = p->derived.rules[i];
    p->derived.n_rules = kept;
    p->n_dropped += n - kept;
    return n - kept;
}

/* The policy in every pass, as a job would load it. */
static enum stp_status try_policy(struct stp_tune *t, struct stp_tune_policy *p)
{
    char plugin[STP_CLI_PATH];
    enum stp_status status = stp_find_plugin("steptune", plugin, &t->err);

    stp_comparisons_free(&p->verdicts);
    stp_dataset_free(&p->tried);
    for (size_t i = 0; i < stp_tune_passes(t) && status == STP_OK; i++) {
        struct stp_device device;

        status = stp_trial_environment(p->trial_path, t->info.gpu, &t->err);
        if (status == STP_OK)
            status = stp_tune_open(t, i, plugin, &device);
        if (status != STP_OK)
            return status;
        status =
            p == &t->alone ? try_alone(t, &device) : try_overlap(t, &device);
        device.ops->close(device.self);
    }
    return status == STP_OK ? stp_compare(&p->tried, &p->verdicts, &t->err)
                            : status;
}

static enum stp_status verify(struct stp_tune *t, struct stp_tune_policy *p)
{
    size_t dropped = 1;
    enum stp_status status = STP_OK;

    while (dropped > 0 && status == STP_OK) {
        status = try_policy(t, p);
        if (status != STP_OK)
            return status;
        dropped = drop_slower(p);
        if (dropped > 0)
            status = stp_tune_save_policy(t, p);
    }
    return status;
}

enum stp_status stp_tune_verify(struct stp_tune *t)
{
    int64_t clock = stp_now_ms();
    enum stp_status status = verify(t, &t->alone);

    /* without rules there is nothing to try: NCCL chooses */
    if (status == STP_OK && t->overlap.derived.n_rules > 0)
        status = verify(t, &t->overlap);
    stp_tune_clock(t, STP_TUNE_VERIFY, &clock);
    return status;
}
