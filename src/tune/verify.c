/* verify.c - both policies, through the plugin, against NCCL's own choice */
#include <stdlib.h>
#include <string.h>

#include "analyse/verify.h"
#include "report/policy_file.h"
#include "store/clock.h"
#include "tune/stages.h"
#include "tune/trial.h"

enum stp_status stp_tune_save_policy(const struct stp_tune_plan *plan,
                                     struct stp_tune_policy *policy,
                                     const char *path, struct stp_error *err)
{
    const struct stp_policy_origin origin = {.data = &policy->data,
                                             .made_by = "steptune tune",
                                             .min_gain = plan->min_gain,
                                             .portable = plan->portable,
                                             .steadiness = &policy->steadiness,
                                             .why_not = policy->why_not};
    enum stp_status status =
        stp_policy_file_save(&policy->derived, &origin, path, err);

    return status == STP_OK ? stp_policy_file_hash(path, policy->hash, err)
                            : status;
}

/* A policy in a pass. */
struct verify {
    const struct stp_tune_job *job;
    struct stp_tune_policy *policy;
    const char *path; /* of the policy until it is verified */
    const struct stp_device *device;
    struct stp_device_info info;
    const struct stp_dataset *iterated; /* of the result */
    struct stp_dataset *registered;     /* likewise */
    bool registers; /* iterations are of registered buffers, too */
    unsigned n_tries;
    struct stp_error *err;
};

typedef enum stp_status verify_try_fn(struct verify *v);

/* ---- collectives alone ---- */

/* The sizes that were swept on so many ranks, as the plan's. */
static enum stp_status verify_take_sizes(const struct stp_comparisons *all,
                                         unsigned n_ranks,
                                         struct stp_measure_plan *plan,
                                         struct stp_error *err)
{
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
        status = stp_sizes_add(&plan->sizes[c - 1], p->n_bytes, 1, err);
    }
    return status;
}

static bool verify_progress(void *user, size_t done, size_t total)
{
    const struct verify *v = user;

    return stp_tune_progress(v->job, STP_TUNE_VERIFY, done, total, NULL) ==
           STP_OK;
}

/* Takes rows of registered buffers out of the policy's, and copies of the rows
 * they are to be compared with. */
static enum stp_status verify_take_registered(struct verify *v, size_t first)
{
    struct stp_dataset *tried = &v->policy->tried;
    size_t n_kept = first;

    for (size_t i = first; i < tried->n_rows; i++) {
        if (stp_dataset_add(v->registered, &tried->rows[i]) != STP_OK)
            return stp_nomem(v->err);
        if (!stp_arm_registers(&tried->rows[i].arm))
            tried->rows[n_kept++] = tried->rows[i];
    }
    tried->n_rows = n_kept;
    return STP_OK;
}

static bool verify_has_setting(const struct stp_setting *settings, size_t n,
                               const struct stp_measurement *row)
{
    for (size_t i = 0; i < n; i++)
        if (settings[i].coll == row->coll &&
            settings[i].n_bytes == row->n_bytes)
            return true;
    return false;
}

/* Sequential iterations where registered buffers were measured in them. */
static enum stp_status verify_try_sequential(struct verify *v,
                                             const struct stp_arms *arms)
{
    struct stp_setting settings[STP_MAX_SETTINGS];
    struct stp_iterations out = {.data = *v->registered};
    enum stp_status status = STP_OK;
    size_t n = 0;

    for (size_t i = 0; i < v->iterated->n_rows; i++) {
        const struct stp_measurement *row = &v->iterated->rows[i];

        if (row->work.mode == STP_MODE_SEQUENTIAL &&
            row->n_ranks == v->info.n_ranks &&
            !verify_has_setting(settings, n, row))
            stp_settings_add(row->work.mode, row->coll, row->n_bytes, settings,
                             &n);
    }
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        out.n_samples = 0;
        status = stp_tune_run_setting(v->job, v->device, &settings[i], arms,
                                      &out, v->err);
    }
    free(out.sample_us);
    *v->registered = out.data;
    return status;
}

/* ---- steps in which compute waits ---- */

/* Sizes that the rules rest on, of all collectives that jobs wait for. */
static size_t verify_list_steps(const struct verify *v,
                                struct stp_setting *settings)
{
    const struct stp_derived *derived = &v->policy->derived;
    size_t n = 0;

    for (size_t i = 0; i < derived->n_rules; i++) {
        const struct stp_derived_rule *rule = &derived->rules[i];

        for (size_t k = 0; k < rule->n_points; k++)
            if (rule->n_ranks == v->info.n_ranks &&
                stp_settings_has(v->device, STP_MODE_SEQUENTIAL, rule->coll,
                                 rule->points[k].n_bytes))
                stp_settings_add(STP_MODE_SEQUENTIAL, rule->coll,
                                 rule->points[k].n_bytes, settings, &n);
    }
    return n;
}

/* Of a recorded machine only what was recorded says something. */
static void verify_drop_estimates(struct stp_dataset *data)
{
    size_t n = 0;

    for (size_t i = 0; i < data->n_rows; i++)
        if (stp_source_decides(data->rows[i].source))
            data->rows[n++] = data->rows[i];
    data->n_rows = n;
}

static enum stp_status verify_try_steps(struct verify *v)
{
    struct stp_setting settings[STP_MAX_SETTINGS];
    struct stp_iterations out = {.data = v->policy->steps};
    const size_t n =
        v->job->plan->no_iterate ? 0 : verify_list_steps(v, settings);
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < n && status == STP_OK; i++) {
        out.n_samples = 0;
        status = stp_tune_run_setting(v->job, v->device, &settings[i],
                                      &stp_trial_arms, &out, v->err);
        STP_THEN(status,
                 stp_tune_progress(v->job, STP_TUNE_VERIFY, i + 1, n, v->err));
    }
    free(out.sample_us);
    v->policy->steps = out.data;
    verify_drop_estimates(&v->policy->steps);
    return status;
}

/* Registered buffers are tried once, with the first of the policies. */
static enum stp_status verify_try_alone(struct verify *v)
{
    struct stp_arms arms = stp_trial_arms;
    const size_t first = v->policy->tried.n_rows;
    struct stp_measure_plan plan;
    enum stp_status status = STP_OK;

    if (v->n_tries == 1)
        status = stp_arms_add_setups(&arms, v->info.setups, v->err);
    STP_THEN(status, stp_plan_measurements(v->device, &v->job->plan->measure,
                                           &arms, &plan, v->err));
    STP_THEN(status, verify_take_sizes(&v->policy->comparisons, v->info.n_ranks,
                                       &plan, v->err));
    STP_THEN(status, stp_trial_add_unseen(v->device, v->path, &plan, v->err));
    STP_THEN(status, stp_sweep_run(v->device, &plan.plan, verify_progress, v,
                                   &v->policy->tried, v->err));
    STP_THEN(status, verify_try_steps(v));
    if (status != STP_OK || arms.n == stp_trial_arms.n)
        return status;
    status = verify_take_registered(v, first);
    return status == STP_OK ? verify_try_sequential(v, &arms) : status;
}

/* ---- iterations ---- */

static bool verify_has_rule(const struct stp_derived *derived, int mode,
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

static void verify_add_setting(const struct stp_derived *derived, int mode,
                               uint64_t n_bytes, unsigned n_ranks,
                               struct stp_setting *settings, size_t *n)
{
    if (verify_has_rule(derived, mode, n_bytes, n_ranks))
        stp_settings_add(
            mode, mode == STP_MODE_FSDP ? ncclFuncAllGather : ncclFuncAllReduce,
            n_bytes, settings, n);
}

/* Settings with a rule: at the sizes that were iterated and, if 'between',
 * halfway between them. */
static size_t verify_list_settings(const struct stp_tune_policy *policy,
                                   unsigned n_ranks, bool between,
                                   struct stp_setting *settings)
{
    const struct stp_comparisons *all = &policy->comparisons;
    size_t n = 0;

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        int mode =
            p->coll == ncclFuncAllReduce ? STP_MODE_OVERLAP : STP_MODE_FSDP;

        if (p->n_ranks != n_ranks || p->coll == ncclFuncReduceScatter)
            continue; /* with the all-gather of its size */
        verify_add_setting(&policy->derived, mode, p->n_bytes, n_ranks,
                           settings, &n);
        if (between && i + 1 < all->n_points && stp_point_alike(p, p + 1))
            verify_add_setting(&policy->derived, mode,
                               stp_size_between(p->n_bytes, p[1].n_bytes),
                               n_ranks, settings, &n);
    }
    return n;
}

static enum stp_status verify_try_overlap(struct verify *v)
{
    struct stp_setting settings[STP_MAX_SETTINGS];
    struct stp_iterations out = {.data = v->policy->tried};
    struct stp_arms arms = stp_trial_arms;
    enum stp_status status = STP_OK;
    size_t n = verify_list_settings(v->policy, v->info.n_ranks, !v->registers,
                                    settings);

    if (v->registers)
        status = stp_arms_add_setups(&arms, v->info.setups, v->err);
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        out.n_samples = 0;
        status = stp_tune_run_setting(v->job, v->device, &settings[i], &arms,
                                      &out, v->err);
        STP_THEN(status,
                 stp_tune_progress(v->job, STP_TUNE_VERIFY, i + 1, n, v->err));
    }
    free(out.sample_us);
    v->policy->tried = out.data;
    return status;
}

/* ---- until no rule is slower ---- */

/* Trims a rule to the sizes that hold alone and in steps, as
 * stp_verify_trim(). */
static size_t verify_trim(const struct stp_tune_policy *p,
                          const struct stp_derived_rule *rule,
                          struct stp_derived_rule *parts,
                          struct stp_derived_rule *scratch)
{
    const size_t n_alone = stp_verify_trim(&p->verdicts, rule, scratch);
    size_t n = 0;

    for (size_t i = 0; i < n_alone; i++)
        n += stp_verify_trim(&p->step_verdicts, &scratch[i], &parts[n]);
    return n;
}

/* Trims the rules to the sizes that hold; those that hold nowhere are dropped.
 * *changed_ret: whether any did not hold. */
static enum stp_status verify_trim_rules(struct stp_tune_policy *p,
                                         bool *changed_ret,
                                         struct stp_error *err)
{
    const struct stp_derived *all = &p->derived;
    const size_t n_most = p->comparisons.n_points + 1;
    struct stp_derived_rule *scratch = calloc(n_most, sizeof(*scratch));
    struct stp_derived kept = {.rules = calloc(n_most, sizeof(*kept.rules))};
    bool changed = false;

    if (kept.rules == NULL || scratch == NULL) {
        free(kept.rules);
        free(scratch);
        return stp_nomem(err);
    }
    for (size_t i = 0; i < all->n_rules; i++) {
        const struct stp_derived_rule *rule = &all->rules[i];
        struct stp_derived_rule *parts = &kept.rules[kept.n_rules];
        const size_t n = verify_trim(p, rule, parts, scratch);

        changed |= n != 1 || parts->min_bytes != rule->min_bytes ||
                   parts->max_bytes != rule->max_bytes;
        p->n_dropped += n == 0;
        kept.n_rules += n;
    }
    free(scratch);
    stp_derived_free(&p->derived);
    p->derived = kept;
    *changed_ret = changed;
    return STP_OK;
}

/* Tries the policy in every pass, as a job would load it. */
static enum stp_status verify_try(struct verify *v, const char *gpu,
                                  verify_try_fn *try_pass)
{
    const struct stp_tune_plan *plan = v->job->plan;
    const struct stp_tune_host *host = v->job->host;
    struct stp_tune_policy *p = v->policy;
    enum stp_status status = stp_trial_environment(v->path, gpu, v->err);

    v->n_tries++;
    stp_comparisons_free(&p->verdicts);
    stp_comparisons_free(&p->step_verdicts);
    stp_dataset_free(&p->tried);
    stp_dataset_free(&p->steps);
    for (size_t i = 0;
         i < (plan->n_passes > 0 ? plan->n_passes : 1) && status == STP_OK;
         i++) {
        struct stp_device device;

        status = host->open(host->user, plan->n_passes > 0 ? plan->ranks[i] : 0,
                            plan->plugin, &device, v->err);
        if (status != STP_OK)
            return status;
        v->device = &device;
        stp_device_get_info(&device, &v->info);
        status = try_pass(v);
        stp_device_close(&device);
    }
    memcpy(p->tried.run, p->data.run, sizeof(p->tried.run));
    memcpy(p->tried.policy_hash, p->hash, sizeof(p->hash));
    STP_THEN(status, stp_compare(&p->tried, &p->verdicts, v->err));
    return status == STP_OK ? stp_compare(&p->steps, &p->step_verdicts, v->err)
                            : status;
}

static enum stp_status verify_until_kept(struct verify *v, const char *gpu,
                                         verify_try_fn *try_pass)
{
    bool changed = true;
    enum stp_status status = STP_OK;

    while (changed && status == STP_OK) {
        status = verify_try(v, gpu, try_pass);
        STP_THEN(status, verify_trim_rules(v->policy, &changed, v->err));
        if (status == STP_OK && changed)
            status =
                stp_tune_save_policy(v->job->plan, v->policy, v->path, v->err);
    }
    return status;
}

/* Measures again, in turn with the policy that is left, where registered
 * buffers were faster in iterations. */
static enum stp_status verify_registered(const struct stp_tune_job *job,
                                         struct stp_tune_result *result,
                                         struct stp_error *err)
{
    const struct stp_derive_terms terms = {.min_gain = job->plan->min_gain,
                                           .registers = true};
    struct stp_tune_policy again = result->overlap;
    struct verify v = {.job = job,
                       .policy = &again,
                       .path = job->files->overlap_trial,
                       .registers = true,
                       .err = err};
    enum stp_status status;

    again.tried = again.steps = (struct stp_dataset){0};
    again.verdicts = again.step_verdicts = (struct stp_comparisons){0};
    again.derived = (struct stp_derived){0};
    status = stp_derive_on(&again.comparisons, &terms, &again.derived, err);
    if (status == STP_OK && again.derived.n_rules > 0)
        status = verify_try(&v, result->info.gpu, verify_try_overlap);
    result->overlap_registered = again.tried;
    stp_comparisons_free(&again.verdicts);
    stp_comparisons_free(&again.step_verdicts);
    stp_dataset_free(&again.steps);
    stp_derived_free(&again.derived);
    return status;
}

enum stp_status stp_tune_verify(const struct stp_tune_job *job,
                                struct stp_tune_result *result,
                                struct stp_error *err)
{
    struct verify alone = {.job = job,
                           .policy = &result->alone,
                           .path = job->files->trial,
                           .iterated = &result->iterated.data,
                           .registered = &result->registered,
                           .err = err};
    struct verify overlap = {.job = job,
                             .policy = &result->overlap,
                             .path = job->files->overlap_trial,
                             .err = err};
    int64_t clock = stp_now_ms();
    enum stp_status status =
        verify_until_kept(&alone, result->info.gpu, verify_try_alone);

    /* without rules there is nothing to try: NCCL chooses */
    if (status == STP_OK && result->overlap.derived.n_rules > 0)
        status =
            verify_until_kept(&overlap, result->info.gpu, verify_try_overlap);
    STP_THEN(status, verify_registered(job, result, err));
    stp_tune_clock(result->stage_ms, STP_TUNE_VERIFY, &clock);
    return status;
}
