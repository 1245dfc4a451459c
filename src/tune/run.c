/* run.c - a run of tune, stage by stage */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/objective.h"
#include "core/policy/memory_policy.h"
#include "core/text.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"
#include "report/page/page.h"
#include "report/policy_file.h"
#include "report/results/tune_report.h"
#include "tune/stages.h"
#include "tune/trial.h"

/* ---- files ---- */

/* Of steptune.conf: STEM is steptune. */
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
        {files->trial, len, ".unverified"},
        {files->overlap_trial, len, ".overlap.unverified"},
        {files->verify, stem, ".verify.csv"},
        {files->overlap_verify, stem, ".overlap-verify.csv"},
        {files->sweep, stem, ".sweep.csv"},
        {files->iterations, stem, ".iterations.csv"},
        {files->state, stem, ".unfinished"},
        {files->state_sweep, stem, ".unfinished.sweep.csv"},
        {files->state_iterations, stem, ".unfinished.iterations.csv"},
        {files->report, stem, ".report.txt"},
        {files->page, stem, ".report.html"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (snprintf(names[i].path, STP_TUNE_PATH, "%.*s%s", (int)names[i].len,
                     policy, names[i].suffix) >= STP_TUNE_PATH)
            return false;
    return true;
}

/* ---- measuring ---- */

static enum stp_status run_check_machine(const struct stp_device_info *info,
                                         struct stp_error *err)
{
    if (info->max_rounds != 1)
        return STP_OK;
    return stp_fail(err, STP_ERR_NOTHING,
                    "machine '%s' was never timed in interleaved rounds; a "
                    "model is no ground for a policy",
                    info->machine);
}

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
    enum stp_status status = job->host->open(
        job->host->user, plan->n_passes > 0 ? plan->ranks[i] : 0, NULL, &device,
        err);

    if (status != STP_OK)
        return status;
    stp_device_get_info(&device, &pass.info);
    r->info = pass.info;
    status = run_check_machine(&pass.info, err);
    if (status == STP_OK && i == 0)
        status = stp_tune_state_begin(job, &r->info, state, err);
    STP_THEN(status, stp_tune_sweep(&pass, &r->alone.data, &r->iters, err));
    if (status == STP_OK && !plan->no_iterate)
        status = stp_tune_iterate(&pass, &r->alone.data, &r->iterated,
                                  r->why_not, err);
    stp_device_close(&device);
    return status;
}

/* The run's name goes with its measurements, and from them to what is made of
 * them. */
static enum stp_status run_name(const struct stp_tune_state *state,
                                struct stp_tune_result *r,
                                struct stp_error *err)
{
    enum stp_status status = stp_tune_state_name(state, r->run, err);

    if (status == STP_OK) {
        memcpy(r->alone.data.run, r->run, sizeof(r->run));
        memcpy(r->iterated.data.run, r->run, sizeof(r->run));
        memcpy(r->overlap.data.run, r->run, sizeof(r->run));
    }
    return status;
}

static enum stp_status run_measure(const struct stp_tune_job *job,
                                   struct stp_tune_result *r,
                                   struct stp_error *err)
{
    struct stp_tune_state state = {.swept = &r->alone.data,
                                   .iterated = &r->iterated};
    const size_t n_passes = job->plan->n_passes > 0 ? job->plan->n_passes : 1;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < n_passes && status == STP_OK; i++)
        status = run_measure_pass(job, i, &state, r, err);
    if (state.is_begun) {
        struct stp_error later;
        enum stp_status saved =
            stp_tune_state_save(&state, true, status == STP_OK ? err : &later);

        STP_THEN(status, saved);
    }
    r->is_begun = state.is_begun;
    STP_THEN(status, run_name(&state, r, err));
    free(state.plan_text);
    return status;
}

/* ---- deriving ---- */

static enum stp_status run_derive_alone(const struct stp_tune_job *job,
                                        struct stp_tune_policy *p,
                                        struct stp_error *err)
{
    const double min_gain = job->plan->min_gain;
    char text[STP_ERROR_TEXT];
    enum stp_status status = stp_compare(&p->data, &p->comparisons, err);

    STP_THEN(status, stp_derive(&p->comparisons, min_gain, &p->derived, err));
    STP_THEN(status, stp_steadiness_of(&p->comparisons, &p->comparisons,
                                       &p->steadiness, err));
    if (status != STP_OK)
        return status;
    if (stp_tune_warn_of_noise(&p->steadiness, min_gain, text))
        stp_tune_tell(job, "%s", text);
    p->exists = true;
    return stp_tune_save_policy(job->plan, p, job->files->trial, err);
}

/* Those in which compute and collectives overlap. */
static enum stp_status run_select_overlapped(const struct stp_dataset *iterated,
                                             struct stp_dataset *selected_ret,
                                             struct stp_error *err)
{
    size_t n = 0;
    enum stp_status status = stp_objective_select(
        iterated, STP_OBJECTIVE_ITERATION, selected_ret, err);

    for (size_t i = 0; i < selected_ret->n_rows && status == STP_OK; i++)
        if (selected_ret->rows[i].work.mode != STP_MODE_SEQUENTIAL)
            selected_ret->rows[n++] = selected_ret->rows[i];
    selected_ret->n_rows = n;
    return status;
}

static enum stp_status run_derive_overlap(const struct stp_tune_job *job,
                                          struct stp_tune_result *r,
                                          struct stp_error *err)
{
    struct stp_tune_policy *p = &r->overlap;
    const char *path = job->files->overlap_trial;
    enum stp_status status = STP_OK;

    if (job->plan->no_iterate)
        return STP_OK;
    p->exists = true;
    if (r->iterated.data.n_rows > 0)
        status = run_select_overlapped(&r->iterated.data, &p->data, err);
    /* a policy without rules leaves NCCL alone */
    if (status == STP_OK && p->data.n_rows == 0) {
        p->why_not = r->why_not;
        return stp_tune_save_policy(job->plan, p, path, err);
    }
    r->why_not[0] = '\0'; /* only those of some ranks are missing */
    STP_THEN(status, stp_objective_compare(&p->data, STP_OBJECTIVE_ITERATION,
                                           &p->comparisons, err));
    STP_THEN(status, stp_tune_measure_steadiness(&p->data, &p->comparisons,
                                                 &p->steadiness, err));
    STP_THEN(status, stp_derive(&p->comparisons, job->plan->min_gain,
                                &p->derived, err));
    return status == STP_OK ? stp_tune_save_policy(job->plan, p, path, err)
                            : status;
}

/* What was measured of a situation, and what was when it was verified. */
static enum stp_status run_compare_memory(const struct stp_tune_result *r,
                                          bool overlaps,
                                          struct stp_comparisons *measured,
                                          struct stp_comparisons *trials,
                                          struct stp_error *err)
{
    const struct stp_dataset *again =
        overlaps ? &r->overlap_registered : &r->registered;
    enum stp_status status = stp_compare_registered(
        &r->alone.data, &r->iterated.data, overlaps, measured, err);

    return status == STP_OK
               ? stp_compare_registered(again, again, overlaps, trials, err)
               : status;
}

/* After both policies are verified, so that registering is compared with what
 * they leave. */
static enum stp_status run_derive_memory(const struct stp_tune_job *job,
                                         struct stp_tune_result *r,
                                         struct stp_error *err)
{
    const size_t n = r->overlap.comparisons.n_points > 0 ? 2 : 1;
    struct stp_comparisons measured[2] = {0}, trials[2] = {0};
    struct stp_memory_situation situations[2];
    enum stp_status status = STP_OK;

    r->has_memory = stp_memory_was_measured(&r->alone.comparisons);
    if (!r->has_memory)
        return STP_OK;
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        situations[i] = (struct stp_memory_situation){
            .overlaps = i == 1,
            .comparisons = &measured[i],
            .terms = {.min_gain = job->plan->min_gain,
                      .registers = true,
                      .trials = &trials[i]}};
        status = run_compare_memory(r, i == 1, &measured[i], &trials[i], err);
    }
    STP_THEN(status, stp_memory_rules_derive(situations, n, r->info.gpu,
                                             &r->memory, err));
    for (size_t i = 0; i < 2; i++) {
        stp_comparisons_free(&measured[i]);
        stp_comparisons_free(&trials[i]);
    }
    return status;
}

/* ---- files of the result ---- */

/* Saves data of the run; if there are none, removes those of an earlier run. */
static enum stp_status run_save_data(const struct stp_dataset *data,
                                     const struct stp_device_info *info,
                                     const char *path, struct stp_error *err)
{
    if (data->n_rows > 0)
        return stp_measurements_save(data, info->what, path, err);
    if (unlink(path) == 0 || errno == ENOENT)
        return STP_OK;
    return stp_fail(err, STP_ERR_IO,
                    "cannot remove '%.160s', which an earlier run left: %s",
                    path, strerror(errno));
}

/* Whether the file is a policy of an earlier run, and not of a person. */
static bool run_is_earlier(const char *path)
{
    struct stp_policy_mark mark = {0};
    char *text;
    size_t len;

    if (stp_read_file(path, STP_MAX_FILE, &text, &len, NULL) != STP_OK)
        return false;
    stp_policy_mark_read(text, len, &mark);
    free(text);
    return mark.run[0] != '\0';
}

/* Keeps the policy that has the name, and says so. */
static enum stp_status run_keep_former(const struct stp_tune_job *job,
                                       const char *path, struct stp_error *err)
{
    char backup[STP_POLICY_BACKUP] = "";
    enum stp_status status = stp_policy_back_up(path, backup, err);

    if (status == STP_OK && *backup != '\0')
        stp_tune_tell(job, STP_POLICY_KEPT, path, backup);
    return status;
}

static enum stp_status run_refuse_write(const char *path, struct stp_error *err)
{
    return stp_fail(err, STP_ERR_IO, "cannot write '%.160s': %s", path,
                    strerror(errno));
}

/* Gives a verified policy its name; the policy that had it stays as a backup.
 * So does one of an earlier run where this run makes none. */
static enum stp_status run_publish(const struct stp_tune_job *job,
                                   const struct stp_tune_policy *p,
                                   const char *trial, const char *path,
                                   struct stp_error *err)
{
    enum stp_status status;

    if (!p->exists && !run_is_earlier(path))
        return STP_OK;
    status = run_keep_former(job, path, err);
    if (status != STP_OK ||
        (p->exists ? rename(trial, path) : unlink(path)) == 0)
        return status;
    return run_refuse_write(path, err);
}

/* Saves the verdicts of a policy; one without rules has none. */
static enum stp_status run_save_proof(const struct stp_tune_policy *p,
                                      const struct stp_device_info *info,
                                      const char *policy, struct stp_error *err)
{
    return p->tried.n_rows > 0
               ? stp_trial_prove(policy, info, &p->tried, &p->verdicts, err)
               : STP_OK;
}

static enum stp_status run_save_page(const struct stp_tune_files *f,
                                     const struct stp_tune_result *r,
                                     struct stp_error *err)
{
    const struct stp_page_sources sources = {
        .path = {
            [STP_PAGE_POLICY] = f->policy,
            [STP_PAGE_OVERLAP_POLICY] =
                r->overlap.exists ? f->overlap_policy : NULL,
            [STP_PAGE_MEMORY_POLICY] = r->has_memory ? f->memory_policy : NULL,
            [STP_PAGE_SWEEP] = f->sweep,
            [STP_PAGE_VERIFY] = r->alone.tried.n_rows > 0 ? f->verify : NULL,
            [STP_PAGE_ITERATIONS] =
                r->iterated.data.n_rows > 0 ? f->iterations : NULL,
            [STP_PAGE_OVERLAP_VERIFY] =
                r->overlap.tried.n_rows > 0 ? f->overlap_verify : NULL,
        }};

    return stp_page_save(&sources, f->page, false, NULL, err);
}

/* Of a machine without arms of registered buffers there is none, nor is one
 * left of an earlier run. */
static enum stp_status run_save_memory(const struct stp_tune_job *job,
                                       const struct stp_tune_result *r,
                                       struct stp_error *err)
{
    const char *path = job->files->memory_policy;
    const struct stp_policy_origin origin = {.data = &r->alone.data,
                                             .made_by = "steptune tune",
                                             .min_gain = job->plan->min_gain};
    enum stp_status status;

    if (!r->has_memory && !run_is_earlier(path))
        return STP_OK;
    status = run_keep_former(job, path, err);
    if (status == STP_OK && r->has_memory)
        return stp_memory_file_save(&r->memory.table, &origin, path, err);
    if (status != STP_OK || unlink(path) == 0)
        return status;
    return run_refuse_write(path, err);
}

/* In a moment between two files a reader tells by the run's name which belong
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
        {&r->iterated.data, f->iterations},
        {&r->alone.tried, f->verify},
        {&r->overlap.tried, f->overlap_verify},
    };
    struct stp_tune_overlap overlap;
    struct stp_tune_report report;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < sizeof(data) / sizeof(data[0]) && status == STP_OK;
         i++)
        status = run_save_data(data[i].data, &r->info, data[i].path, err);
    STP_THEN(status, run_publish(job, &r->alone, f->trial, f->policy, err));
    STP_THEN(status, run_publish(job, &r->overlap, f->overlap_trial,
                                 f->overlap_policy, err));
    STP_THEN(status, run_save_memory(job, r, err));
    stp_tune_fill_report(job->plan, f, r, &report, &overlap);
    STP_THEN(status, stp_tune_report_save(&report, f->report, err));
    STP_THEN(status, run_save_proof(&r->alone, &r->info, f->policy, err));
    STP_THEN(status,
             run_save_proof(&r->overlap, &r->info, f->overlap_policy, err));
    return status == STP_OK ? run_save_page(f, r, err) : status;
}

/* ---- all of it ---- */

void stp_tune_fill_report(const struct stp_tune_plan *plan,
                          const struct stp_tune_files *files,
                          const struct stp_tune_result *r,
                          struct stp_tune_report *report_ret,
                          struct stp_tune_overlap *overlap_ret)
{
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
        .min_gain = plan->min_gain,
        .iters = r->iters,
        .sweep = &r->alone.comparisons,
        .derived = &r->alone.derived,
        .verdicts = &r->alone.verdicts,
        .steps = &r->alone.step_verdicts,
        .n_dropped = r->alone.n_dropped,
        .overlap = r->overlap.exists ? overlap_ret : NULL,
        .memory = r->has_memory ? &r->memory.table : NULL};
}

enum stp_status stp_tune_run(const struct stp_tune_plan *plan,
                             const struct stp_tune_host *host,
                             const struct stp_tune_files *files,
                             struct stp_tune_result *result,
                             struct stp_error *err)
{
    const struct stp_tune_job job = {plan, host, files};
    enum stp_status status = run_measure(&job, result, err);

    STP_THEN(status, run_derive_alone(&job, &result->alone, err));
    STP_THEN(status, run_derive_overlap(&job, result, err));
    STP_THEN(status, stp_tune_verify(&job, result, err));
    STP_THEN(status, run_derive_memory(&job, result, err));
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
    stp_dataset_free(&result->registered);
    stp_dataset_free(&result->overlap_registered);
    stp_iterations_free(&result->iterated);
}
