/* run.c - a run of tune, stage by stage */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/objective.h"
#include "analyse/wrong.h"
#include "core/policy/memory_policy.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/measurements/measurements_csv.h"
#include "report/page/page.h"
#include "report/policy_file.h"
#include "report/results/tune_report.h"
#include "report/words.h"
#include "tune/stages.h"
#include "tune/trial.h"

/* ---- files ---- */

/* Names the files beside the policy; the stem of steptune.conf is steptune. */
bool stp_tune_name_files(const char *policy, struct stp_tune_files *files)
{
    const char *dot = strrchr(policy, '.');
    const char *slash = strrchr(policy, '/');
    const size_t len = strlen(policy);
    const size_t stem = dot != NULL && dot > (slash ? slash + 1 : policy)
                            ? (size_t)(dot - policy)
                            : len;
    const struct {
        char *path;
        size_t len; /* of the policy's path */
        const char *suffix;
    } names[] = {
        {files->stem, stem, ""},
        {files->policy, len, ""},
        {files->overlap_policy, len, ".overlap"},
        {files->memory_policy, len, STP_MEMORY_SUFFIX},
        {files->stage_policy, len, STP_STAGE_SUFFIX},
        {files->trial, len, ".unverified"},
        {files->overlap_trial, len, ".overlap.unverified"},
        {files->verify, stem, ".verify.csv"},
        {files->overlap_verify, stem, ".overlap-verify.csv"},
        {files->sweep, stem, ".sweep.csv"},
        {files->graph, stem, ".graph.csv"},
        {files->iterations, stem, ".iterations.csv"},
        {files->state, stem, ".unfinished"},
        {files->state_sweep, stem, ".unfinished.sweep.csv"},
        {files->state_iterations, stem, ".unfinished.iterations.csv"},
        {files->report, stem, ".report.txt"},
        {files->page, stem, ".report.html"},
    };

    for (size_t i = 0; i < STP_N_OF(names); i++)
        if (snprintf(names[i].path, STP_TUNE_PATH, "%.*s%s", (int)names[i].len,
                     policy, names[i].suffix) >= STP_TUNE_PATH)
            return false;
    return true;
}

/* ---- measuring ---- */

/* The first pass knows the machine, by which a run is resumed. */
static enum stp_status run_measure_pass(const struct stp_tune_job *job,
                                        size_t i, struct stp_tune_state *state,
                                        struct stp_tune_result *r,
                                        struct stp_error *err)
{
    const struct stp_tune_plan *plan = job->plan;
    struct stp_device device;
    struct stp_tune_pass pass = {
        .job = job, .device = &device, .state = state, .stage_ms = r->stage_ms};
    enum stp_status status = STP_OK;

    STP_TRY(job->host->open(job->host->user,
                            plan->n_passes > 0 ? plan->ranks[i] : 0, NULL,
                            &device, err));
    stp_get_device_facts(&device, &pass.known);
    r->info = pass.known.info;
    if (r->info.max_rounds == 1)
        status = stp_fail(err, STP_ERR_NOTHING,
                          "machine '%s' has no times of launched collectives "
                          "in interleaved rounds, expected a recorded one of "
                          "`steptune machines`: a model decides nothing",
                          r->info.machine);
    else if (i == 0)
        status = stp_tune_state_begin(job, &r->info, state, err);
    STP_THEN(status, stp_tune_sweep(&pass, &r->alone.data, &r->iters, err));
    if (status == STP_OK && !plan->no_iterate)
        status = stp_tune_iterate(&pass, &r->alone.data, &r->iterated,
                                  r->why_not, err);
    stp_device_close(&device);
    return status;
}

/* ---- deriving ---- */

static enum stp_status run_derive_alone(const struct stp_tune_job *job,
                                        struct stp_tune_result *r,
                                        struct stp_error *err)
{
    struct stp_tune_policy *p = &r->alone;
    struct stp_derive_terms terms =
        stp_tune_terms(job->plan, STP_POLICY_OF_ARMS);
    struct stp_wrong wrong = {0};
    char text[STP_ERROR_TEXT];

    while (stp_next_wrong(&p->data, &wrong)) {
        stp_wrong_text(&wrong, text);
        stp_tune_tell(job, "%s", text);
    }
    STP_TRY(stp_compare(&p->data, &p->comparisons, err));
    terms.captured = p->origin.captured;
    if (terms.same_bits) {
        stp_tune_tell(job, "%s", STP_SAME_BITS_TEXT(&p->data));
        stp_keep_same_bits(&p->comparisons);
    }
    STP_TRY(stp_derive_on(&p->comparisons, &terms, &p->derived, err));
    p->steadiness = stp_steadiness_of(&p->comparisons, &p->comparisons);
    if (stp_tune_warn_of_noise(&p->steadiness, terms.min_gain,
                               r->info.max_rounds, text))
        stp_tune_tell(job, "%s", text);
    p->exists = true;
    return stp_tune_save_policy(p, job->files->trial, err);
}

static enum stp_status run_derive_overlap(const struct stp_tune_job *job,
                                          struct stp_tune_result *r,
                                          struct stp_error *err)
{
    struct stp_tune_policy *p = &r->overlap;
    struct stp_derive_terms terms =
        stp_tune_terms(job->plan, STP_POLICY_OF_ARMS);
    const char *path = job->files->overlap_trial;
    size_t n = 0;

    terms.captured = p->origin.captured;
    p->exists = true;
    if (r->iterated.data.n_rows > 0)
        STP_TRY(stp_objective_select(&r->iterated.data, STP_OBJECTIVE_ITERATION,
                                     &p->data, err));
    for (size_t i = 0; i < p->data.n_rows; i++)
        if (p->data.rows[i].work.mode != STP_MODE_SEQUENTIAL) {
            stp_take_wrong(&r->alone.data, &p->data.rows[i]);
            p->data.rows[n++] = p->data.rows[i];
        }
    p->data.n_rows = n;
    /* a policy without rules leaves NCCL alone */
    if (p->data.n_rows == 0) {
        p->origin.why_not = r->why_not;
        return stp_tune_save_policy(p, path, err);
    }
    r->why_not[0] = '\0'; /* only those of some ranks are missing */
    STP_TRY(stp_objective_compare(&p->data, STP_OBJECTIVE_ITERATION,
                                  &p->comparisons, err));
    STP_TRY(stp_tune_measure_steadiness(&p->data, &p->comparisons,
                                        &p->steadiness, err));
    if (terms.same_bits)
        stp_keep_same_bits(&p->comparisons);
    STP_TRY(stp_derive_on(&p->comparisons, &terms, &p->derived, err));
    return stp_tune_save_policy(p, path, err);
}

static int run_order_unsure(const void *pa, const void *pb)
{
    const struct stp_tune_unsure *a = pa, *b = pb;

    return STP_ORDER(b->gain.gain, a->gain.gain);
}

/* Whether a rule stands at that size. */
static bool run_has_rule(const struct stp_tune_result *r,
                         const struct stp_point *p, enum stp_policy_kind kind,
                         bool overlaps)
{
    bool has = false;

    if (kind == STP_POLICY_OF_ARMS)
        return stp_derived_find(overlaps ? &r->overlap.derived
                                         : &r->alone.derived,
                                p->coll, p->n_ranks, p->n_bytes) != NULL;
    for (size_t i = 0; i < r->memory.table.n_rules; i++) {
        const struct stp_rule *rule = &r->memory.table.rules[i].rule;

        has |= rule->coll == p->coll && (rule->overlap == 1) == overlaps &&
               stp_range_has(&rule->ranks, p->n_ranks) &&
               stp_memory_rule_decides(rule, p->n_ranks, p->n_bytes);
    }
    return has;
}

/* Adds what the comparisons leave open, and sorts. */
static void run_add_unsure(struct stp_tune_result *r,
                           const struct stp_comparisons *all,
                           enum stp_policy_kind kind, bool overlaps)
{
    const struct stp_derive_terms terms = {.min_gain = r->alone.origin.min_gain,
                                           .captured = r->alone.origin.captured,
                                           .kind = kind};

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        const struct stp_comparison *c = stp_derive_unsure(p, &terms);

        if (c == NULL || run_has_rule(r, p, kind, overlaps))
            continue;
        STP_TAKE_ROOM(r->unsure, r->n_unsure, r->unsure_capacity);
        r->unsure[r->n_unsure++] =
            (struct stp_tune_unsure){.coll = p->coll,
                                     .n_bytes = p->n_bytes,
                                     .n_ranks = p->n_ranks,
                                     .overlaps = overlaps,
                                     .arm = c->arm,
                                     .gain = c->gain};
    }
    STP_SORT(r->unsure, r->n_unsure, run_order_unsure);
}

/* Derives what to register and what to stage after both policies are verified,
 * so that these buffers are compared with the arms of the verified policies.
 * They were measured again meanwhile, and in graphs beside the policy. */
static enum stp_status run_derive_memory(const struct stp_tune_plan *plan,
                                         struct stp_tune_result *r,
                                         struct stp_error *err)
{
    struct stp_dataset alone = {0};
    const struct stp_memory_data registered = {
        .alone = &r->alone.data,
        .iterations = &r->iterated.data,
        .again = {&r->registered, &r->overlap_registered}};
    const struct stp_memory_data staged = {
        .alone = &alone,
        .iterations = &r->iterated.data,
        .again = {&r->registered, &r->captured}};
    const struct stp_derive_terms of_memory =
        stp_tune_terms(plan, STP_POLICY_OF_MEMORY);
    const struct stp_derive_terms of_stage =
        stp_tune_terms(plan, STP_POLICY_OF_STAGE);
    enum stp_status status = stp_memory_situations_compare(
        &registered, &of_memory, &r->registers, err);

    STP_THEN(status, stp_memory_rules_derive(&r->registers, r->info.gpu,
                                             &r->memory, err));
    STP_THEN(status, stp_measurements_pool(&alone, &r->alone.data, false, err));
    if (r->captured.n_rows > 0)
        STP_THEN(status,
                 stp_measurements_pool(&alone, &r->captured, false, err));
    STP_THEN(status, stp_memory_situations_compare(&staged, &of_stage,
                                                   &r->stages, err));
    STP_THEN(status,
             stp_memory_rules_derive(&r->stages, r->info.gpu, &r->stage, err));
    stp_dataset_free(&alone);
    for (int i = 0; i < 2 && status == STP_OK; i++)
        run_add_unsure(r, r->registers.all[i].comparisons, STP_POLICY_OF_MEMORY,
                       i == 1);
    return status;
}

/* ---- files of the result ---- */

/* Gives the file 'trial' its name. With NULL the file is written later, or, if
 * this run has none, an earlier run's is removed. A policy of that name is kept
 * as a backup, and the user is told; a policy that a person wrote stays where
 * this run makes none. */
static enum stp_status run_publish(const struct stp_tune_job *job, bool exists,
                                   const char *trial, const char *path,
                                   struct stp_error *err)
{
    struct stp_policy_mark mark = {0};
    char backup[STP_POLICY_BACKUP] = "";
    char *text;
    size_t len;
    enum stp_status status;

    if (!exists &&
        stp_read_file(path, STP_MAX_FILE, &text, &len, NULL) == STP_OK) {
        stp_policy_mark_read(text, len, &mark);
        free(text);
    }
    if (!exists && mark.run[0] == '\0')
        return STP_OK;
    status = stp_policy_back_up(path, backup, err);
    if (status == STP_OK && *backup != '\0')
        stp_tune_tell(job, STP_POLICY_KEPT, path, backup);
    if (status != STP_OK || (exists && trial == NULL) ||
        (exists ? rename(trial, path) : unlink(path)) == 0)
        return status;
    return stp_fail(err, STP_ERR_IO, "cannot write '%.160s': %s", path,
                    strerror(errno));
}

/* Between two renamed files a reader tells by the run's name which files belong
 * together. */
static enum stp_status run_save_results(const struct stp_tune_job *job,
                                        const struct stp_tune_result *r,
                                        struct stp_error *err)
{
    const struct stp_tune_files *f = job->files;
    const struct {
        const struct stp_dataset *data;
        const char *path;
    } data[] = {
        {&r->alone.data, f->sweep},
        {&r->captured, f->graph},
        {&r->iterated.data, f->iterations},
        {&r->alone.tried, f->verify},
        {&r->overlap.tried, f->overlap_verify},
    };
    const struct stp_policy_origin origin = {
        .data = &r->alone.data,
        .made_by = "steptune tune",
        .min_gain = r->alone.origin.min_gain,
        .same_bits = r->alone.origin.same_bits};
    const struct stp_page_sources sources = {
        .path = {
            [STP_PAGE_POLICY] = f->policy,
            [STP_PAGE_OVERLAP_POLICY] =
                r->overlap.exists ? f->overlap_policy : NULL,
            [STP_PAGE_MEMORY_POLICY] =
                r->registers.are_measured ? f->memory_policy : NULL,
            [STP_PAGE_STAGE_POLICY] =
                r->stage.table.n_rules > 0 ? f->stage_policy : NULL,
            [STP_PAGE_SWEEP] = f->sweep,
            [STP_PAGE_VERIFY] = r->alone.tried.n_rows > 0 ? f->verify : NULL,
            [STP_PAGE_GRAPH] = r->captured.n_rows > 0 ? f->graph : NULL,
            [STP_PAGE_ITERATIONS] =
                r->iterated.data.n_rows > 0 ? f->iterations : NULL,
            [STP_PAGE_OVERLAP_VERIFY] =
                r->overlap.tried.n_rows > 0 ? f->overlap_verify : NULL,
        }};
    const struct {
        bool exists;
        const struct stp_memory_table *table;
        const char *path;
    } tables[] = {
        {r->registers.are_measured, &r->memory.table, f->memory_policy},
        {r->stage.table.n_rules > 0, &r->stage.table, f->stage_policy},
    };
    struct stp_tune_overlap overlap;
    struct stp_tune_report report;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < STP_N_OF(data) && status == STP_OK; i++)
        if (data[i].data->n_rows > 0)
            status = stp_measurements_save(data[i].data, r->info.what,
                                           data[i].path, err);
        else if (unlink(data[i].path) != 0 && errno != ENOENT)
            status = stp_fail(err, STP_ERR_IO,
                              "cannot remove '%.160s', which an earlier run "
                              "left: %s",
                              data[i].path, strerror(errno));
    STP_THEN(status,
             run_publish(job, r->alone.exists, f->trial, f->policy, err));
    STP_THEN(status, run_publish(job, r->overlap.exists, f->overlap_trial,
                                 f->overlap_policy, err));
    /* A machine without arms of registered buffers has no memory policy, and
     * where staging gains nothing there is none for it. */
    for (size_t i = 0; i < STP_N_OF(tables); i++) {
        STP_THEN(status,
                 run_publish(job, tables[i].exists, NULL, tables[i].path, err));
        if (status == STP_OK && tables[i].exists)
            status = stp_memory_file_save(tables[i].table, &origin,
                                          tables[i].path, err);
    }
    stp_tune_fill_report(f, r, &report, &overlap);
    STP_THEN(status, stp_tune_report_save(&report, f->report, err));
    /* a policy without rules has no verdicts */
    if (status == STP_OK && r->alone.tried.n_rows > 0)
        status = stp_trial_prove(f->policy, &r->info, &r->alone.tried,
                                 &r->alone.verdicts, err);
    if (status == STP_OK && r->overlap.tried.n_rows > 0)
        status = stp_trial_prove(f->overlap_policy, &r->info, &r->overlap.tried,
                                 &r->overlap.verdicts, err);
    STP_THEN(status, stp_page_save(&sources, f->page, false, NULL, NULL, err));
    return status;
}

/* ---- all of it ---- */

void stp_tune_fill_report(const struct stp_tune_files *files,
                          const struct stp_tune_result *r,
                          struct stp_tune_report *report_ret,
                          struct stp_tune_overlap *overlap_ret)
{
    const struct stp_dataset *data[] = {
        &r->alone.data,        &r->iterated.data, &r->alone.tried,
        &r->alone.steps,       &r->overlap.tried, &r->registered,
        &r->overlap_registered};

    *overlap_ret =
        (struct stp_tune_overlap){.policy_path = files->overlap_policy,
                                  .policy_hash = r->overlap.hash,
                                  .why_not = r->why_not,
                                  .data = &r->overlap.data,
                                  .steadiness = &r->overlap.steadiness,
                                  .derived = &r->overlap.derived,
                                  .verdicts = &r->overlap.verdicts,
                                  .n_dropped = r->overlap.n_dropped};
    *report_ret = (struct stp_tune_report){
        .info = &r->info,
        .run = r->run,
        .policy_path = files->policy,
        .policy_hash = r->alone.hash,
        .min_gain = r->alone.origin.min_gain,
        .iters = r->iters,
        .sweep = &r->alone.comparisons,
        .derived = &r->alone.derived,
        .verdicts = &r->alone.verdicts,
        .steps = &r->alone.step_verdicts,
        .n_dropped = r->alone.n_dropped,
        .overlap = r->overlap.exists ? overlap_ret : NULL,
        .memory = r->registers.are_measured ? &r->memory.table : NULL,
        .stage = r->stages.are_measured ? &r->stage.table : NULL,
        .choices = r->stages.are_measured ? &r->stages : NULL,
        .same_bits = r->alone.origin.same_bits ? &r->alone.data : NULL,
        .unsure = r->unsure,
        .n_unsure = r->n_unsure};
    for (size_t i = 0; i < STP_N_OF(data); i++) {
        report_ret->n_again += data[i]->n_again;
        report_ret->n_disturbed += data[i]->n_disturbed;
    }
}

enum stp_status stp_tune_run(const struct stp_tune_plan *plan,
                             const struct stp_tune_host *host,
                             const struct stp_tune_files *files,
                             struct stp_tune_result *result,
                             struct stp_error *err)
{
    struct stp_tune_trial trial = {0};
    const struct stp_tune_job job = {plan, host, files, &trial};
    struct stp_policy_origin origin = {.made_by = "steptune tune",
                                       .min_gain = plan->min_gain,
                                       .portable = plan->portable,
                                       .same_bits = plan->same_bits};
    struct stp_tune_state state = {.swept = &result->alone.data,
                                   .iterated = &result->iterated};
    const size_t n_passes = plan->n_passes > 0 ? plan->n_passes : 1;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < n_passes && status == STP_OK; i++)
        status = run_measure_pass(&job, i, &state, result, err);
    if (state.is_begun) {
        struct stp_error later;
        enum stp_status saved =
            stp_tune_state_save(&state, true, status == STP_OK ? err : &later);

        STP_THEN(status, saved);
    }
    result->is_begun = state.is_begun;
    if (status == STP_OK)
        stp_tune_state_name(&state, result->run);
    /* Measurements name the run, and so do the files derived from them. */
    memcpy(result->alone.data.run, result->run, sizeof(result->run));
    memcpy(result->iterated.data.run, result->run, sizeof(result->run));
    memcpy(result->overlap.data.run, result->run, sizeof(result->run));
    memcpy(result->captured.run, result->run, sizeof(result->run));
    free(state.plan_text);

    origin.captured = stp_tune_captured(plan, &result->info);
    result->alone.origin = result->overlap.origin = origin;
    STP_THEN(status, run_derive_alone(&job, result, err));
    if (status == STP_OK && !plan->no_iterate)
        status = run_derive_overlap(&job, result, err);
    STP_THEN(status, stp_tune_verify(&job, result, err));
    if (status == STP_OK &&
        stp_kind_is_wrong(&result->alone.tried, STP_ARM_PLUGIN))
        status = stp_fail(err, STP_ERR_DEVICE,
                          "with the new policy results have wrong elements at "
                          "sizes that were not swept, so none is written");
    if (status == STP_OK && plan->same_bits)
        status = stp_trial_require_bits(&result->alone.tried, err);
    run_add_unsure(result, &result->alone.comparisons, STP_POLICY_OF_ARMS,
                   false);
    run_add_unsure(result, &result->overlap.comparisons, STP_POLICY_OF_ARMS,
                   true);
    STP_THEN(status, stp_tune_stage(&job, result, err));
    stp_device_close(&trial.device);
    STP_THEN(status, run_derive_memory(plan, result, err));
    STP_THEN(status, run_save_results(&job, result, err));
    if (status == STP_OK) {
        stp_tune_state_end(files);
    } else {
        unlink(files->trial);
        unlink(files->overlap_trial);
    }
    return status;
}

static void run_free_policy(struct stp_tune_policy *p)
{
    stp_comparisons_free(&p->step_verdicts);
    stp_dataset_free(&p->steps);
    stp_comparisons_free(&p->verdicts);
    stp_dataset_free(&p->tried);
    stp_derived_free(&p->derived);
    stp_comparisons_free(&p->comparisons);
    stp_dataset_free(&p->data);
}

void stp_tune_result_free(struct stp_tune_result *result)
{
    run_free_policy(&result->overlap);
    run_free_policy(&result->alone);
    stp_memory_rules_free(&result->memory);
    stp_memory_rules_free(&result->stage);
    stp_memory_situations_free(&result->registers);
    stp_memory_situations_free(&result->stages);
    stp_dataset_free(&result->captured);
    free(result->unsure);
    stp_dataset_free(&result->registered);
    stp_dataset_free(&result->overlap_registered);
    stp_iterations_free(&result->iterated);
}
