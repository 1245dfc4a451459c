/* run.c - a run of tune, stage by stage */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/objective.h"
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
        {files->trial, len, ".unverified"},
        {files->overlap_trial, len, ".overlap.unverified"},
        {files->verify, stem, ".verify.csv"},
        {files->overlap_verify, stem, ".overlap-verify.csv"},
        {files->sweep, stem, ".sweep.csv"},
        {files->iterations, stem, ".iterations.csv"},
        {files->state, stem, ".unfinished"},
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
    if (status == STP_OK)
        status = stp_tune_sweep(&pass, &r->alone.data, &r->iters, err);
    if (status == STP_OK && !plan->no_iterate)
        status = stp_tune_iterate(&pass, &r->alone.data, &r->iterated,
                                  r->why_not, err);
    stp_device_close(&device);
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

        if (status == STP_OK)
            status = saved;
    }
    r->is_begun = state.is_begun;
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

    if (status == STP_OK)
        status = stp_derive(&p->comparisons, min_gain, &p->derived, err);
    if (status == STP_OK)
        status = stp_steadiness_of(&p->comparisons, &p->comparisons,
                                   &p->steadiness, err);
    if (status != STP_OK)
        return status;
    if (stp_tune_warn_of_noise(&p->steadiness, min_gain, text))
        stp_tune_tell(job, "%s", text);
    p->exists = true;
    return stp_tune_save_policy(job->plan, p, job->files->trial, err);
}

/* A policy without rules: with NCCL_WORKLOAD_OVERLAP=1 it leaves NCCL alone. */
static enum stp_status run_save_empty(const char *path, const char *why_not,
                                      struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    fprintf(file.fp,
            "# steptune tune\n# No rule: %s, so NCCL's own choice stands "
            "where communication overlaps with compute.\n",
            why_not);
    return stp_file_commit(&file, err);
}

static enum stp_status run_derive_overlap(const struct stp_tune_job *job,
                                          struct stp_tune_result *r,
                                          struct stp_error *err)
{
    struct stp_tune_policy *p = &r->overlap;
    const char *path = job->files->overlap_trial;
    enum stp_status status;

    if (job->plan->no_iterate)
        return STP_OK;
    p->exists = true;
    if (r->iterated.data.n_rows == 0)
        return run_save_empty(path, r->why_not, err);
    r->why_not[0] = '\0'; /* only those of some ranks are missing */
    status = stp_objective_select(&r->iterated.data, STP_OBJECTIVE_ITERATION,
                                  &p->data, err);
    if (status == STP_OK)
        status = stp_objective_compare(&p->data, STP_OBJECTIVE_ITERATION,
                                       &p->comparisons, err);
    if (status == STP_OK)
        status = stp_tune_measure_steadiness(&p->data, &p->comparisons,
                                             &p->steadiness, err);
    if (status == STP_OK)
        status =
            stp_derive(&p->comparisons, job->plan->min_gain, &p->derived, err);
    return status == STP_OK ? stp_tune_save_policy(job->plan, p, path, err)
                            : status;
}

/* ---- files of the result ---- */

/* Gives a verified policy its name; the policy that had it stays as a backup.
 */
static enum stp_status run_publish(const struct stp_tune_job *job,
                                   const struct stp_tune_policy *p,
                                   const char *trial, const char *path,
                                   struct stp_error *err)
{
    char backup[STP_POLICY_BACKUP] = "";
    enum stp_status status =
        p->exists ? stp_policy_back_up(path, backup, err) : STP_OK;

    if (status == STP_OK && *backup != '\0')
        stp_tune_tell(job, "the policy that was in %s is kept as %s", path,
                      backup);
    if (status != STP_OK || !p->exists || rename(trial, path) == 0)
        return status;
    return stp_fail(err, STP_ERR_IO, "cannot write '%.160s': %s", path,
                    strerror(errno));
}

/* Saves the measurements and verdicts that a policy rests on. */
static enum stp_status run_save_trial(const struct stp_tune_policy *p,
                                      const struct stp_device_info *info,
                                      const char *policy, const char *path,
                                      struct stp_error *err)
{
    enum stp_status status = STP_OK;

    if (p->tried.n_rows == 0)
        return STP_OK;
    status = stp_measurements_save(&p->tried, info->what, path, err);
    return status == STP_OK ? stp_trial_prove(policy, info, &p->verdicts, err)
                            : status;
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
            [STP_PAGE_SWEEP] = f->sweep,
            [STP_PAGE_VERIFY] = r->alone.tried.n_rows > 0 ? f->verify : NULL,
            [STP_PAGE_ITERATIONS] =
                r->iterated.data.n_rows > 0 ? f->iterations : NULL,
            [STP_PAGE_OVERLAP_VERIFY] =
                r->overlap.tried.n_rows > 0 ? f->overlap_verify : NULL,
        }};

    return stp_page_save(&sources, f->page, false, NULL, err);
}

static enum stp_status run_save_results(const struct stp_tune_job *job,
                                        const struct stp_tune_result *r,
                                        struct stp_error *err)
{
    const struct stp_tune_files *f = job->files;
    struct stp_tune_overlap overlap;
    struct stp_tune_report report;
    enum stp_status status =
        run_publish(job, &r->alone, f->trial, f->policy, err);

    if (status == STP_OK)
        status = run_publish(job, &r->overlap, f->overlap_trial,
                             f->overlap_policy, err);
    stp_tune_fill_report(job->plan, f, r, &report, &overlap);
    if (status == STP_OK)
        status = stp_tune_report_save(&report, f->report, err);
    if (status == STP_OK)
        status = run_save_trial(&r->alone, &r->info, f->policy, f->verify, err);
    if (status == STP_OK)
        status = run_save_trial(&r->overlap, &r->info, f->overlap_policy,
                                f->overlap_verify, err);
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
                                  .why_not = r->why_not,
                                  .data = &r->overlap.data,
                                  .steadiness = &r->overlap.steadiness,
                                  .derived = &r->overlap.derived,
                                  .verdicts = &r->overlap.verdicts,
                                  .n_dropped = r->overlap.n_dropped};
    *report_ret = (struct stp_tune_report){
        .info = &r->info,
        .policy_path = files->policy,
        .min_gain = plan->min_gain,
        .iters = r->iters,
        .sweep = &r->alone.comparisons,
        .derived = &r->alone.derived,
        .verdicts = &r->alone.verdicts,
        .n_dropped = r->alone.n_dropped,
        .overlap = r->overlap.exists ? overlap_ret : NULL};
}

enum stp_status stp_tune_run(const struct stp_tune_plan *plan,
                             const struct stp_tune_host *host,
                             const struct stp_tune_files *files,
                             struct stp_tune_result *result,
                             struct stp_error *err)
{
    const struct stp_tune_job job = {plan, host, files};
    enum stp_status status = run_measure(&job, result, err);

    if (status == STP_OK)
        status = run_derive_alone(&job, &result->alone, err);
    if (status == STP_OK)
        status = run_derive_overlap(&job, result, err);
    if (status == STP_OK)
        status = stp_tune_verify(&job, result, err);
    if (status == STP_OK)
        status = run_save_results(&job, result, err);
    if (status == STP_OK) {
        unlink(files->state);
    } else {
        unlink(files->trial);
        unlink(files->overlap_trial);
    }
    return status;
}

static void run_free_policy(struct stp_tune_policy *p)
{
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
    stp_iterations_free(&result->iterated);
}
