#include "report/results/tune_report.h"

#include <inttypes.h>
#include <math.h>

#include "core/names.h"
#include "report/file.h"
#include "report/results/results.h"

static double tune_report_best_gain(const struct stp_point *p)
{
    double best = 1;

    for (size_t i = 0; i < p->n_arms; i++)
        if (p->arms[i].arm.kind == STP_ARM_FORCED)
            best = fmax(best, p->arms[i].gain.gain);
    return best;
}

/* The policy's gain at a swept size; 1 where it has no rule. */
static double tune_report_policy_gain(const struct stp_point *p,
                                      const struct stp_derived *derived)
{
    for (size_t i = 0; i < derived->n_rules; i++) {
        const struct stp_derived_rule *rule = &derived->rules[i];

        if (p >= rule->points && p < rule->points + rule->n_points)
            return stp_derived_evidence(rule, p)->gain.gain;
    }
    return 1;
}

struct stp_regret stp_policy_regret(const struct stp_comparisons *sweep,
                                    const struct stp_derived *derived)
{
    struct stp_regret r = {1, 1};
    double sum = 0;

    for (size_t i = 0; i < sweep->n_points; i++) {
        const struct stp_point *p = &sweep->points[i];
        double slowdown =
            tune_report_best_gain(p) / tune_report_policy_gain(p, derived);

        sum += log(slowdown);
        r.worst = fmax(r.worst, slowdown);
    }
    if (sweep->n_points > 0)
        r.mean = exp(sum / (double)sweep->n_points);
    return r;
}

static void tune_report_write_head(const struct stp_tune_report *r, FILE *fp)
{
    fprintf(
        fp,
        "Steptune: %s\n%s\nrun %s, policy hash %s\n\n"
        "Every size was run in interleaved rounds, %u collectives an arm "
        "and round; a round\ncounts with its median, an arm by the ratio to "
        "NCCL's own choice (AUTO) of the same\nround.  A rule stands where "
        "the 95 percent interval of its gain lies above %g percent.\n\n",
        r->policy_path, r->info->what, r->run, r->policy_hash, r->iters,
        r->min_gain * 100);
}

static void tune_report_write_dropped(size_t n, FILE *fp)
{
    if (n > 0)
        fprintf(fp,
                "\n%zu further rules were dropped: slower than AUTO somewhere "
                "within their range.\n",
                n);
}

static enum stp_status tune_report_write_rules(const struct stp_tune_report *r,
                                               FILE *fp, struct stp_error *err)
{
    struct stp_regret regret = stp_policy_regret(r->sweep, r->derived);
    enum stp_status status;

    fprintf(fp, "Rules\n\n");
    status = stp_print_rules(r->derived, fp, err);
    tune_report_write_dropped(r->n_dropped, fp);
    fprintf(fp,
            "\nAgainst the best arm at every swept size the policy takes %.4f "
            "times as long in the\ngeometric mean, %.4f at worst.\n\n",
            regret.mean, regret.worst);
    return status;
}

static enum stp_status
tune_report_write_verdicts(const struct stp_tune_report *r, FILE *fp,
                           struct stp_error *err)
{
    enum stp_status status;

    fprintf(fp, "The policy, loaded by the plugin, against AUTO\n\n");
    status = stp_print_verdicts(r->info, r->verdicts, fp, err);
    if (status == STP_OK)
        status = stp_print_steadiness(r->verdicts, fp, err);
    return status;
}

/* Rules for collectives that overlap with compute, and iterations with them. */
static enum stp_status
tune_report_write_overlap(const struct stp_tune_report *r, FILE *fp,
                          struct stp_error *err)
{
    const struct stp_tune_overlap *o = r->overlap;
    enum stp_status status = STP_OK;

    fprintf(fp,
            "\nOverlapped with compute (NCCL_WORKLOAD_OVERLAP=1): %s\n"
            "run %s, policy hash %s\n\n",
            o->policy_path, r->run, o->policy_hash);
    if (o->why_not[0] != '\0')
        fprintf(fp, "No iterations: %s.\n", o->why_not);
    if (o->derived->n_rules == 0)
        fprintf(fp, "No rules: NCCL's own choice stands.\n");
    else
        status = stp_print_rules(o->derived, fp, err);
    tune_report_write_dropped(o->n_dropped, fp);
    if (status != STP_OK || o->verdicts->n_points == 0)
        return status;
    fprintf(fp, "\nIterations with it, loaded by the plugin, against AUTO\n\n");
    status = stp_print_verdicts(r->info, o->verdicts, fp, err);
    return status == STP_OK ? stp_print_steadiness(o->verdicts, fp, err)
                            : status;
}

static enum stp_status tune_report_write_arms(const struct stp_tune_report *r,
                                              FILE *fp, struct stp_error *err)
{
    enum stp_status status;

    fprintf(fp, "\nEvery arm\n\n");
    status = stp_print_sweep(r->sweep, fp, err);
    return status == STP_OK ? stp_print_steadiness(r->sweep, fp, err) : status;
}

enum stp_status stp_tune_report_save(const struct stp_tune_report *report,
                                     const char *path, struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    tune_report_write_head(report, file.fp);
    status = tune_report_write_rules(report, file.fp, err);
    if (status == STP_OK)
        status = tune_report_write_verdicts(report, file.fp, err);
    if (status == STP_OK && report->overlap != NULL)
        status = tune_report_write_overlap(report, file.fp, err);
    if (status == STP_OK)
        status = tune_report_write_arms(report, file.fp, err);
    return stp_file_end(&file, status, err);
}
