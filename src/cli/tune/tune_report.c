/* tune_report.c - what `steptune tune` leaves and says */
#include <stdio.h>

#include "cli/trial.h"
#include "cli/tune/tune.h"
#include "report/measurements/measurements_csv.h"
#include "report/page/page.h"
#include "report/results/results.h"
#include "report/results/tune_report.h"

/* Absolute paths: the job's working directory and library path are others. */
static void print_use(const struct stp_tune *t)
{
    char plugin[STP_CLI_PATH] = "steptune";
    char policy[STP_CLI_PATH] = "";
    struct stp_error err;

    stp_find_plugin("steptune", plugin, &err);
    stp_absolute_path(t->o->output, policy);
    printf("\nWrote %s (%zu rules), ", t->o->output, t->alone.derived.n_rules);
    if (t->overlap.exists)
        printf("%s (%zu rules), ", t->overlap.path, t->overlap.derived.n_rules);
    printf("%s, %s and %s.  To use it in a job:\n\n"
           "  export NCCL_TUNER_PLUGIN=%s\n"
           "  export NCCL_TUNER_CONFIG_FILE=%s\n",
           t->page_path, t->report_path, t->sweep_path, plugin, policy);
    if (t->overlap.exists)
        printf("  export NCCL_WORKLOAD_OVERLAP=1   # if it communicates beside "
               "compute: %s\n",
               t->overlap.path);
}

static enum stp_status print_policies(struct stp_tune *t)
{
    enum stp_status status;

    printf("%s\n\n", t->info.what);
    status = stp_print_verdicts(&t->alone.verdicts, stdout, &t->err);
    if (status == STP_OK && t->overlap.verdicts.n_points > 0) {
        printf("\nBeside compute, by the time of iterations:\n\n");
        status = stp_print_verdicts(&t->overlap.verdicts, stdout, &t->err);
    }
    print_use(t);
    return status;
}

/* What was measured last, and the proof that people read. */
static enum stp_status save_trials(struct stp_tune *t)
{
    const struct stp_tune_policy *policies[] = {&t->alone, &t->overlap};
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < 2 && status == STP_OK; i++) {
        const struct stp_tune_policy *p = policies[i];

        if (p->tried.n_rows == 0)
            continue;
        status = stp_measurements_save(&p->tried, t->info.what, p->verify_path,
                                       &t->err);
        if (status == STP_OK)
            status = stp_trial_prove(p->path, &t->info, &p->verdicts, &t->err);
    }
    return status;
}

static enum stp_status save_page(struct stp_tune *t)
{
    const struct stp_page_sources sources = {
        .path = {[STP_PAGE_POLICY] = t->o->output,
                 [STP_PAGE_OVERLAP_POLICY] =
                     t->overlap.exists ? t->overlap.path : NULL,
                 [STP_PAGE_SWEEP] = t->sweep_path,
                 [STP_PAGE_VERIFY] =
                     t->alone.tried.n_rows > 0 ? t->alone.verify_path : NULL,
                 [STP_PAGE_ITERATIONS] =
                     t->iterated.data.n_rows > 0 ? t->iterations_path : NULL,
                 [STP_PAGE_OVERLAP_VERIFY] = t->overlap.tried.n_rows > 0
                                                 ? t->overlap.verify_path
                                                 : NULL}};

    return stp_page_save(&sources, t->page_path, &t->err);
}

static void print_times(const struct stp_tune *t)
{
    static const char *const names[STP_TUNE_N_STAGES] = {
        [STP_TUNE_SWEEP] = "sweep",
        [STP_TUNE_REFINE] = "refine",
        [STP_TUNE_ITERATE] = "iterate",
        [STP_TUNE_VERIFY] = "verify"};
    int64_t sum = 0;

    fprintf(stderr, "%s:", t->command);
    for (int s = 0; s < STP_TUNE_N_STAGES; s++) {
        fprintf(stderr, " %s %.1f s,", names[s], (double)t->stage_ms[s] / 1e3);
        sum += t->stage_ms[s];
    }
    fprintf(stderr, " %.1f s in all\n", (double)sum / 1e3);
}

enum stp_status stp_tune_report(struct stp_tune *t)
{
    const struct stp_tune_overlap overlap = {.policy_path = t->overlap.path,
                                             .why_not = t->why_not,
                                             .derived = &t->overlap.derived,
                                             .verdicts = &t->overlap.verdicts,
                                             .n_dropped = t->overlap.n_dropped};
    const struct stp_tune_report r = {.info = &t->info,
                                      .policy_path = t->o->output,
                                      .min_gain = t->o->derive.min_gain,
                                      .iters = t->plan.plan.iters,
                                      .sweep = &t->alone.comparisons,
                                      .derived = &t->alone.derived,
                                      .verdicts = &t->alone.verdicts,
                                      .n_dropped = t->alone.n_dropped,
                                      .overlap =
                                          t->overlap.exists ? &overlap : NULL};
    enum stp_status status = stp_tune_report_save(&r, t->report_path, &t->err);

    if (status == STP_OK)
        status = save_trials(t);
    if (status == STP_OK)
        status = save_page(t);
    if (status != STP_OK)
        return status;
    status = t->o->machine.json ? stp_print_tuning_json(&r, stdout, &t->err)
                                : print_policies(t);
    print_times(t);
    return status;
}
