/* verify.c - both policies, through the plugin, against NCCL's own choice */
#include <stdlib.h>
#include <string.h>

#include "analyse/verify.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/policy_file.h"
#include "report/results/memory_rules.h"
#include "store/clock.h"
#include "tune/stages.h"
#include "tune/trial.h"

enum stp_status stp_tune_save_policy(struct stp_tune_policy *policy,
                                     const char *path, struct stp_error *err)
{
    policy->origin.data = &policy->data;
    policy->origin.steadiness = &policy->steadiness;
    STP_TRY(stp_policy_file_save(&policy->derived, &policy->origin, path, err));
    return stp_policy_file_hash(path, policy->hash, err);
}

enum stp_status stp_tune_begin_trial(const struct stp_tune_job *job,
                                     size_t pass, const char *path,
                                     const char *gpu, struct stp_error *err)
{
    const struct stp_tune_host *host = job->host;
    const struct stp_tune_plan *plan = job->plan;
    struct stp_tune_trial *t = job->trial;
    const unsigned n_ranks = plan->n_passes > 0 ? plan->ranks[pass] : 0;

    STP_TRY(stp_trial_environment(path, gpu, err));
    if (t->device.ranks != NULL && t->n_ranks == n_ranks)
        return stp_device_reload_plugin(&t->device, err);
    stp_device_close(&t->device);
    t->n_ranks = n_ranks;
    return host->open(host->user, n_ranks, plan->plugin, &t->device, err);
}

/* A policy in a pass. */
struct verify {
    const struct stp_tune_job *job;
    struct stp_tune_result *result;
    enum stp_status (*try_pass)(struct verify *v, struct stp_error *err);
    struct stp_tune_policy *policy;
    const char *path; /* of the policy until it is verified */
    struct stp_device_facts known;
    const struct stp_derived *memory; /* rules for registered and staged
                                         buffers, as they are if they hold */
    size_t n_memory;
    bool registers; /* iterations are of registered buffers, too */
    unsigned n_tries;
};

enum { N_KINDS = 2 };
static const enum stp_policy_kind kinds[N_KINDS] = {STP_POLICY_OF_MEMORY,
                                                    STP_POLICY_OF_STAGE};

/* Registered buffers whose gain comes so near to the best at a size are
 * measured again with it. */
static const double near_best = 0.95;

/* Whether time counts: a recorded machine has as many rounds as it has, and
 * they take none. */
static bool verify_saves_time(const struct verify *v)
{
    return v->known.info.max_rounds == 0;
}

/* Adds the arms of registered buffers that may become a rule at a size: all
 * where they take no time. */
static enum stp_status verify_add_setups(const struct verify *v, int coll,
                                         uint64_t n_bytes,
                                         struct stp_arms *arms,
                                         struct stp_error *err)
{
    const struct stp_device_info *info = &v->known.info;

    if (!verify_saves_time(v))
        return stp_arms_add_setups(arms, info->setups, err);
    for (size_t m = 0; m < v->n_memory; m++) {
        const struct stp_derived_rule *rule =
            stp_derived_find(&v->memory[m], coll, info->n_ranks, n_bytes);

        for (size_t i = 0; rule != NULL && i < rule->n_points; i++) {
            const struct stp_point *p = &rule->points[i];
            const double best = stp_point_arm(p, &rule->arm)->gain.gain;

            for (size_t a = 0; a < p->n_arms && p->n_bytes == n_bytes; a++)
                if (stp_arm_registers(&p->arms[a].arm) &&
                    p->arms[a].gain.gain >= near_best * best)
                    STP_TRY(
                        stp_arms_add_setup(arms, &p->arms[a].arm.setup, err));
        }
    }
    return STP_OK;
}

/* Runs iterations of the settings that are not there, and appends to *data;
 * with registered buffers, if so, only those that they decide. The progress bar
 * counts them if 'shows_progress'. */
static enum stp_status
verify_run_settings(const struct verify *v, const struct stp_setting *settings,
                    size_t n, bool registers, bool shows_progress,
                    struct stp_dataset *data, struct stp_error *err)
{
    struct stp_setting_terms terms = stp_tune_setting_terms(v->job);
    struct stp_iterations out = {.data = *data};
    enum stp_status status = STP_OK;

    terms.captures = !registers;
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        const struct stp_setting *s = &settings[i];
        struct stp_arms arms = stp_trial_arms;

        if (registers)
            status = verify_add_setups(v, s->coll, s->n_bytes, &arms, err);
        if ((registers && arms.n == stp_trial_arms.n) ||
            stp_tune_has(&out.data, s, v->known.info.n_ranks))
            continue;
        out.n_samples = 0; /* they are not used */
        STP_THEN(status, stp_setting_run(&v->job->trial->device, &v->known.info,
                                         s, &terms, &arms, &out, err));
        if (status == STP_OK && shows_progress)
            status = stp_tune_progress(v->job, STP_TUNE_VERIFY, i + 1, n, err);
    }
    free(out.sample_us);
    *data = out.data;
    return status;
}

/* ---- collectives alone ---- */

/* Moves rows of registered buffers out of the policy's data, with copies of the
 * rows that they are compared with; then runs sequential iterations where
 * registered buffers were measured in them. */
static enum stp_status verify_try_registered(struct verify *v, size_t first,
                                             struct stp_error *err)
{
    struct stp_dataset *tried = &v->policy->tried;
    struct stp_dataset *registered = &v->result->registered;
    const struct stp_dataset *iterated = &v->result->iterated.data;
    struct stp_setting settings[STP_MAX_SETTINGS];
    size_t n_kept = first, n = 0;

    for (size_t i = first; i < tried->n_rows; i++) {
        stp_dataset_take(registered, &tried->rows[i]);
        if (!stp_arm_registers(&tried->rows[i].arm))
            tried->rows[n_kept++] = tried->rows[i];
    }
    tried->n_rows = n_kept;
    for (size_t i = 0; i < iterated->n_rows; i++) {
        const struct stp_measurement *row = &iterated->rows[i];

        if (row->work.mode == STP_MODE_SEQUENTIAL &&
            row->n_ranks == v->known.info.n_ranks)
            stp_settings_add(row->work.mode, row->coll, row->n_bytes, settings,
                             &n);
    }
    return verify_run_settings(v, settings, n, true, false, registered, err);
}

/* Runs steps in which compute waits, of all collectives that jobs wait
 * for, at the sizes that the rules rest on. A recorded machine runs only
 * recorded ones. */
static enum stp_status verify_try_steps(struct verify *v, struct stp_error *err)
{
    const struct stp_derived *derived = &v->policy->derived;
    struct stp_dataset *steps = &v->policy->steps;
    struct stp_setting settings[STP_MAX_SETTINGS];
    size_t n = 0, n_kept = 0;
    enum stp_status status;
    bool *decides;

    for (size_t i = 0; i < derived->n_rules && !v->job->plan->no_iterate; i++) {
        const struct stp_derived_rule *rule = &derived->rules[i];

        for (size_t k = 0; k < rule->n_points; k++)
            if (rule->n_ranks == v->known.info.n_ranks &&
                stp_settings_has(&v->known, rule->coll,
                                 rule->points[k].n_bytes))
                stp_settings_add(STP_MODE_SEQUENTIAL, rule->coll,
                                 rule->points[k].n_bytes, settings, &n);
    }
    status = verify_run_settings(v, settings, n, false, true, steps, err);
    STP_TAKE(decides, steps->n_rows);
    /* A step decides if all of it does: arms are nothing without AUTO. */
    for (size_t i = 0; i < steps->n_rows; i++) {
        const struct stp_measurement *m = &steps->rows[i];

        decides[i] = m->graph || m->n_bytes >= STP_SETTINGS_FIRST_MIB << 20;
        for (size_t k = 0; k < steps->n_rows && decides[i]; k++) {
            const struct stp_measurement *other = &steps->rows[k];

            decides[i] = other->coll != m->coll ||
                         other->n_bytes != m->n_bytes ||
                         other->n_ranks != m->n_ranks ||
                         stp_source_decides(other->source);
        }
    }
    for (size_t i = 0; i < steps->n_rows; i++)
        if (decides[i])
            steps->rows[n_kept++] = steps->rows[i];
    free(decides);
    steps->n_rows = n_kept;
    return status;
}

/* Tries the sizes of the grid that are not there yet: results are checked, and
 * times narrowed down, where a rule decides. Registered buffers are tried once,
 * with the first policy. */
static enum stp_status verify_try_sizes(struct verify *v,
                                        struct stp_measure_plan *grid,
                                        struct stp_error *err)
{
    const struct stp_device_info *info = &v->known.info;
    const size_t n_colls = grid->plan.n_colls;
    size_t n = 0, done = 0;

    for (size_t c = 0; c < n_colls; c++)
        n += grid->sizes[c].n;
    for (size_t c = 0; c < n_colls; c++)
        for (size_t i = 0; i < grid->sizes[c].n; i++) {
            const int coll = grid->colls[c];
            const uint64_t n_bytes = grid->sizes[c].size[i];
            const struct stp_setting alone = {STP_MODE_ALONE, coll, n_bytes, 0};
            const struct stp_sizes one = {.size = {n_bytes}, .n = 1};
            struct stp_sweep_plan of_size = grid->plan;
            struct stp_arms arms = stp_trial_arms;

            stp_arms_add_nccl(&arms, info->tuner);
            if (v->n_tries == 1)
                STP_TRY(verify_add_setups(v, coll, n_bytes, &arms, err));
            of_size.colls = &coll;
            of_size.n_colls = 1;
            of_size.sizes = &one;
            of_size.arms = &arms;
            of_size.wake &= done == 0;
            of_size.terms = stp_setting_rounds(
                info, v->job->plan->measure.rounds, v->job->plan->min_gain);
            of_size.check = stp_derived_find(&v->policy->derived, coll,
                                             info->n_ranks, n_bytes) != NULL;
            of_size.bits_max = v->job->plan->same_bits ? UINT64_MAX : 0;
            if (!stp_tune_has(&v->policy->tried, &alone, info->n_ranks))
                STP_TRY(stp_sweep_run(&v->job->trial->device, &of_size, NULL,
                                      NULL, &v->policy->tried, err));
            STP_TRY(stp_tune_progress(v->job, STP_TUNE_VERIFY, ++done, n, err));
        }
    return STP_OK;
}

/* Tries the swept sizes on so many ranks, and sizes between them that the
 * policy decides. */
static enum stp_status verify_try_alone(struct verify *v, struct stp_error *err)
{
    const struct stp_comparisons *all = &v->policy->comparisons;
    const struct stp_device_info *info = &v->known.info;
    const size_t first = v->policy->tried.n_rows;
    struct stp_measure_plan grid;

    STP_TRY(stp_plan_measurements(&v->known, &v->job->plan->measure,
                                  &stp_trial_arms, &grid, err));
    grid.plan.n_colls = 0;
    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        size_t c = grid.plan.n_colls;

        if (p->n_ranks != info->n_ranks)
            continue;
        if (c == 0 || grid.colls[c - 1] != p->coll) {
            grid.colls[c] = p->coll;
            grid.sizes[c].n = 0;
            grid.plan.n_colls = ++c;
        }
        STP_TRY(stp_sizes_add(&grid.sizes[c - 1], p->n_bytes, 1, err));
    }
    STP_TRY(stp_trial_add_unseen(info, v->path, &grid, err));
    STP_TRY(verify_try_sizes(v, &grid, err));
    STP_TRY(verify_try_steps(v, err));
    return v->n_tries == 1 && info->setups != 0
               ? verify_try_registered(v, first, err)
               : STP_OK;
}

/* ---- iterations ---- */

/* Adds the settings of a size if a rule decides there. */
static void verify_add_setting(const struct verify *v, int coll,
                               uint64_t n_bytes, struct stp_setting *settings,
                               size_t *n)
{
    const bool is_reduced = coll == ncclFuncAllReduce;
    bool has_rule = false;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        has_rule |= (c == ncclFuncAllReduce) == is_reduced &&
                    stp_derived_find(&v->policy->derived, c,
                                     v->known.info.n_ranks, n_bytes) != NULL;
    if (has_rule)
        stp_settings_add(is_reduced ? STP_MODE_OVERLAP : STP_MODE_FSDP,
                         is_reduced ? ncclFuncAllReduce : ncclFuncAllGather,
                         n_bytes, settings, n);
}

/* Tries settings with a rule: at the sizes that were iterated and, unless
 * buffers are registered, halfway between them. */
static enum stp_status verify_try_overlap(struct verify *v,
                                          struct stp_error *err)
{
    const struct stp_comparisons *all = &v->policy->comparisons;
    struct stp_setting settings[STP_MAX_SETTINGS];
    size_t n = 0;

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];

        if (p->n_ranks != v->known.info.n_ranks ||
            p->coll == ncclFuncReduceScatter)
            continue; /* with the all-gather of its size */
        verify_add_setting(v, p->coll, p->n_bytes, settings, &n);
        if (!v->registers && i + 1 < all->n_points && stp_point_alike(p, p + 1))
            verify_add_setting(v, p->coll,
                               stp_size_between(p->n_bytes, p[1].n_bytes),
                               settings, &n);
    }
    return verify_run_settings(v, settings, n, v->registers, true,
                               &v->policy->tried, err);
}

/* ---- until no rule is slower ---- */

/* Leaves out rows of sizes at which the trimmed rules decide otherwise than
 * those that were tried: only these are tried again. */
static void verify_keep_rows(struct stp_dataset *data,
                             const struct stp_derived *before,
                             const struct stp_derived *after)
{
    size_t n_kept = 0;

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement *m = &data->rows[i];
        bool is_same = true;

        for (int c = 0; c < 1 + (m->work.mode == STP_MODE_FSDP); c++) {
            const int coll = c == 0 ? m->coll : (int)ncclFuncReduceScatter;
            const struct stp_derived_rule *was =
                stp_derived_find(before, coll, m->n_ranks, m->n_bytes);
            const struct stp_derived_rule *is =
                stp_derived_find(after, coll, m->n_ranks, m->n_bytes);

            is_same &= was == NULL || is == NULL
                           ? was == is
                           : stp_arm_equal(&was->arm, &is->arm);
        }
        if (is_same)
            data->rows[n_kept++] = *m;
    }
    data->n_rows = n_kept;
}

/* Whether what a size showed alone counts where steps were tried: beyond their
 * sizes, and between them where the rule holds in the nearest in which NCCL
 * chose as at this size.  A step with another choice says nothing of this one.
 */
static bool verify_counts(const struct stp_comparisons *steps,
                          const struct stp_derived_rule *rule,
                          const struct stp_point *p)
{
    const struct stp_point *alike[2] = {NULL, NULL}; /* not above, above */
    bool is_there[2] = {false, false}, holds = true;

    for (size_t i = 0; i < steps->n_points; i++) {
        const struct stp_point *s = &steps->points[i];
        const bool is_above = s->n_bytes > p->n_bytes;
        const struct stp_point **near = &alike[is_above];

        if (s->coll != p->coll || s->n_ranks != p->n_ranks)
            continue;
        is_there[is_above] = true;
        if (s->auto_algo >= 0 && s->auto_algo == p->auto_algo &&
            s->auto_proto == p->auto_proto && s->n_bytes >= rule->min_bytes &&
            s->n_bytes <= rule->max_bytes &&
            (*near == NULL || is_above == (s->n_bytes < (*near)->n_bytes)))
            *near = s;
    }
    for (int i = 0; i < 2; i++)
        holds &= alike[i] == NULL ||
                 !stp_verify_refutes(steps, rule, alike[i]->n_bytes);
    return !is_there[0] || !is_there[1] ||
           (holds && (alike[0] != NULL || alike[1] != NULL));
}

/* Trims the rules to the sizes that hold alone and, within the sizes of steps,
 * in these, and drops rules that hold nowhere. Returns whether some did not
 * hold. */
static bool verify_trim_rules(struct stp_tune_policy *p)
{
    const struct stp_derived *all = &p->derived;
    const struct stp_comparisons *verdicts = &p->verdicts;
    const struct stp_comparisons *steps = &p->step_verdicts;
    /* a part rests on points of its own, and one more is tried */
    const size_t n_most = p->comparisons.n_points + 1;
    struct stp_derived_rule *alone;
    struct stp_derived kept = {0};
    struct stp_comparisons waits = {0};
    bool changed = false;

    STP_TAKE(alone, n_most);
    STP_TAKE(kept.rules, n_most);
    STP_TAKE(waits.points, verdicts->n_points + steps->n_points);
    for (size_t i = 0; i < steps->n_points; i++)
        waits.points[i] = steps->points[i];
    for (size_t i = 0; i < all->n_rules; i++) {
        const struct stp_derived_rule *rule = &all->rules[i];
        struct stp_derived_rule *parts = &kept.rules[kept.n_rules];
        const size_t n_alone = stp_verify_trim(verdicts, rule, alone);
        size_t n = 0;

        waits.n_points = steps->n_points;
        for (size_t k = 0; k < verdicts->n_points; k++)
            if (verify_counts(steps, rule, &verdicts->points[k]))
                waits.points[waits.n_points++] = verdicts->points[k];
        for (size_t k = 0; k < n_alone; k++)
            n += stp_verify_trim(&waits, &alone[k], &parts[n]);
        changed |= n != 1 || parts->min_bytes != rule->min_bytes ||
                   parts->max_bytes != rule->max_bytes;
        p->n_dropped += n == 0;
        kept.n_rules += n;
    }
    free(alone);
    free(waits.points);
    verify_keep_rows(&p->tried, all, &kept);
    verify_keep_rows(&p->steps, all, &kept);
    stp_derived_free(&p->derived);
    p->derived = kept;
    return changed;
}

/* Tries the policy in every pass, as a job would load it. */
static enum stp_status verify_try(struct verify *v, struct stp_error *err)
{
    const size_t n_passes =
        v->job->plan->n_passes > 0 ? v->job->plan->n_passes : 1;
    struct stp_tune_policy *p = v->policy;
    enum stp_status status = STP_OK;

    v->n_tries++;
    stp_comparisons_free(&p->verdicts);
    stp_comparisons_free(&p->step_verdicts);
    for (size_t i = 0; i < n_passes && status == STP_OK; i++) {
        STP_TRY(
            stp_tune_begin_trial(v->job, i, v->path, v->result->info.gpu, err));
        stp_get_device_facts(&v->job->trial->device, &v->known);
        if (i == 0 && !verify_saves_time(v)) {
            stp_dataset_free(&p->tried);
            stp_dataset_free(&p->steps);
        }
        status = v->try_pass(v, err);
    }
    memcpy(p->tried.run, p->data.run, sizeof(p->tried.run));
    memcpy(p->tried.policy_hash, p->hash, sizeof(p->hash));
    STP_THEN(status, stp_compare(&p->tried, &p->verdicts, err));
    STP_THEN(status, stp_compare(&p->steps, &p->step_verdicts, err));
    return status;
}

static enum stp_status verify_until_kept(struct verify *v,
                                         struct stp_error *err)
{
    STP_TRY(verify_try(v, err));
    while (verify_trim_rules(v->policy)) {
        STP_TRY(stp_tune_save_policy(v->policy, v->path, err));
        STP_TRY(verify_try(v, err));
    }
    return STP_OK;
}

/* Measures registered buffers again where they were faster in iterations, in
 * turn with the trimmed policy. */
static enum stp_status verify_registered(const struct stp_tune_job *job,
                                         struct stp_tune_result *result,
                                         struct stp_error *err)
{
    const struct stp_derive_terms terms =
        stp_tune_terms(job->plan, STP_POLICY_OF_MEMORY);
    struct stp_tune_policy again = result->overlap;
    struct verify v = {.job = job,
                       .result = result,
                       .try_pass = verify_try_overlap,
                       .policy = &again,
                       .path = job->files->overlap_trial,
                       .memory = &again.derived,
                       .n_memory = 1,
                       .registers = true};
    enum stp_status status;

    again.tried = again.steps = (struct stp_dataset){0};
    again.verdicts = again.step_verdicts = (struct stp_comparisons){0};
    again.derived = (struct stp_derived){0};
    status = stp_derive_on(&again.comparisons, &terms, &again.derived, err);
    if (status == STP_OK && again.derived.n_rules > 0)
        status = verify_try(&v, err);
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
                           .result = result,
                           .try_pass = verify_try_alone,
                           .policy = &result->alone,
                           .path = job->files->trial};
    struct verify overlap = {.job = job,
                             .result = result,
                             .try_pass = verify_try_overlap,
                             .policy = &result->overlap,
                             .path = job->files->overlap_trial};
    const struct stp_memory_data data = {.alone = &result->alone.data,
                                         .iterations = &result->iterated.data};
    struct stp_memory_situations measured[N_KINDS] = {0};
    struct stp_derived memory[N_KINDS] = {0};
    int64_t clock = stp_now_ms();
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < N_KINDS && status == STP_OK; i++) {
        const struct stp_derive_terms terms =
            stp_tune_terms(job->plan, kinds[i]);

        status =
            stp_memory_situations_compare(&data, &terms, &measured[i], err);
        if (status == STP_OK && measured[i].are_measured)
            status = stp_derive_on(measured[i].all[0].comparisons,
                                   &measured[i].all[0].terms, &memory[i], err);
    }
    alone.memory = memory;
    alone.n_memory = N_KINDS;
    STP_THEN(status, verify_until_kept(&alone, err));
    for (size_t i = 0; i < N_KINDS; i++) {
        stp_derived_free(&memory[i]);
        stp_memory_situations_free(&measured[i]);
    }
    /* without rules there is nothing to try: NCCL chooses */
    if (status == STP_OK && result->overlap.derived.n_rules > 0)
        status = verify_until_kept(&overlap, err);
    STP_THEN(status, verify_registered(job, result, err));
    stp_tune_clock(result->stage_ms, STP_TUNE_VERIFY, &clock);
    return status;
}
