#include "report/results/tune_report.h"

#include <math.h>

#include "core/names.h"
#include "core/room.h"
#include "report/file.h"
#include "report/policy_file.h"
#include "report/results/results.h"
#include "report/terminal.h"
#include "report/words.h"

enum { N_SHORT = 3 }; /* of what is not sure */

struct stp_regret stp_policy_regret(const struct stp_comparisons *sweep,
                                    const struct stp_derived *derived)
{
    struct stp_regret r = {1, 1};
    double sum = 0;

    for (size_t i = 0; i < sweep->n_points; i++) {
        const struct stp_point *p = &sweep->points[i];
        double best = 1;
        const struct stp_derived_rule *rule =
            stp_derived_find(derived, p->coll, p->n_ranks, p->n_bytes);
        const struct stp_comparison *c =
            rule != NULL ? stp_point_arm(p, &rule->arm) : NULL;
        const double gain = c != NULL ? c->gain.gain : 1; /* of the policy */

        for (size_t a = 0; a < p->n_arms; a++)
            if (p->arms[a].arm.kind == STP_ARM_FORCED &&
                !stp_ran_as_auto(p, &p->arms[a]))
                best = fmax(best, p->arms[a].gain.gain);
        sum += log(best / gain);
        r.worst = fmax(r.worst, best / gain);
    }
    if (sweep->n_points > 0)
        r.mean = exp(sum / (double)sweep->n_points);
    return r;
}

/* Writes which rules verification dropped or cut. */
static void tune_report_write_cuts(const struct stp_derived *derived,
                                   size_t n_dropped, FILE *fp)
{
    size_t n_trimmed = 0;

    for (size_t i = 0; i < derived->n_rules; i++)
        n_trimmed += derived->rules[i].is_trimmed;
    if (n_trimmed > 0)
        fprintf(fp,
                "\n%zu of these rules %s trimmed: at a size just outside of "
                "the range that is left\nAUTO was faster, or a step in which "
                "compute waits no shorter.\n",
                n_trimmed, n_trimmed == 1 ? "was" : "were");
    if (n_dropped > 0)
        fprintf(fp,
                "\n%zu further rule%s dropped: slower than AUTO at every size "
                "measured within the\nrange, or no shorter in steps in which "
                "compute waits.\n",
                n_dropped, n_dropped == 1 ? " was" : "s were");
}

static void tune_report_write_verdicts(const struct stp_tune_report *r,
                                       const struct stp_comparisons *verdicts,
                                       const char *heading, FILE *fp)
{
    fprintf(fp, "%s\n\n", heading);
    stp_print_verdicts(r->info, verdicts, STP_VERDICTS_ALL, fp);
    stp_print_steadiness(verdicts, fp);
}

static void tune_report_write_no_rule(const struct stp_tune_overlap *o,
                                      FILE *fp)
{
    const struct stp_policy_origin origin = {.data = o->data,
                                             .steadiness = o->steadiness};

    fputs("there is no rule: ", fp);
    if (o->why_not[0] != '\0')
        fputs(o->why_not, fp);
    else if (o->n_dropped > 0)
        fputs("each that was derived made iterations longer somewhere", fp);
    else
        stp_no_rule_write(&origin, fp);
    fprintf(fp, "; %s stands.", STP_AUTO_WORDS(o->data->tuner));
}

static void tune_report_write_overlap(const struct stp_tune_report *r, FILE *fp)
{
    const struct stp_tune_overlap *o = r->overlap;

    fprintf(fp,
            "\nOverlapped with compute (NCCL_WORKLOAD_OVERLAP=1): %s\n"
            "run %s, policy hash %s\n\n",
            o->policy_path, r->run, o->policy_hash);
    if (o->derived->n_rules == 0) {
        fputs("Here ", fp);
        tune_report_write_no_rule(o, fp);
        fputc('\n', fp);
    } else {
        stp_print_rules(o->derived, fp);
    }
    tune_report_write_cuts(o->derived, o->n_dropped, fp);
    if (o->verdicts->n_points > 0)
        tune_report_write_verdicts(
            r, o->verdicts,
            "\nIterations with it, loaded by the plugin, against AUTO", fp);
}

/* Writes what to register and what to stage, with the sizes or in short. */
static void tune_report_write_setups(const struct stp_tune_report *r,
                                     bool has_sizes, FILE *fp)
{
    enum { LINES = 5 };
    const struct {
        const struct stp_memory_table *table;
        const char *heading;
    } parts[] = {
        {r->memory, "What to register, for an application that can (gains over "
                    "plain buffers, and over the best rule):"},
        {r->stage, "What to stage, by `steptune run --stage`, for a job that "
                   "registers nothing (gains over plain buffers, and over the "
                   "best rule):"},
    };

    for (size_t i = 0; i < STP_N_OF(parts); i++) {
        const struct stp_memory_table *table = parts[i].table;

        if (table == NULL)
            continue;
        fputc('\n', fp);
        stp_print_paragraph(parts[i].heading, fp);
        fputc('\n', fp);
        if (has_sizes)
            stp_memory_drops_write(table, "", fp);
        if (has_sizes && table->n_rules > 0)
            stp_print_memory_sizes(table, fp);
        else
            stp_print_memory_rules(table, false, fp);
        if (!has_sizes && table->n_drops > 0)
            fprintf(fp,
                    "Gains that a second measurement did not confirm, and that "
                    "the report names: %zu.\n",
                    table->n_drops);
    }
    if (r->choices == NULL)
        return;
    fputc('\n', fp);
    stp_print_choices(r->info->tuner, r->choices, has_sizes ? SIZE_MAX : LINES,
                      fp);
}

/* Names what is not sure, at most so many, and says what it might be worth; and
 * how many rounds were disturbed. */
static void tune_report_write_doubts(const struct stp_tune_report *r,
                                     size_t n_most, FILE *fp)
{
    struct stp_paragraph paragraph;
    char text[STP_SOURCES_TEXT];
    bool doubts = false;
    FILE *out;

    if (r->n_unsure > 0) {
        fputc('\n', fp);
        out = stp_paragraph_begin(&paragraph, fp);
        fputs("Not sure:", out);
        for (size_t i = 0; i < r->n_unsure && i < n_most; i++) {
            const struct stp_tune_unsure *u = &r->unsure[i];

            fprintf(out, "%s %s of %s%s with %s %.3fx", i > 0 ? ";" : "",
                    stp_coll_name(u->coll), STP_SIZE_NAME(u->n_bytes),
                    u->overlaps ? " overlapped" : "", STP_ARM_TEXT(&u->arm),
                    u->gain.gain);
            if (u->gain.n_pairs < 2)
                fputs(" in one round", out);
            else
                fprintf(out, " (%.3f to %.3f) after %zu rounds", u->gain.low,
                        u->gain.high, u->gain.n_pairs);
            if (u->n_ranks != r->info->n_ranks)
                fprintf(out, " on %u ranks", u->n_ranks);
            if (u->gain.low >= 1 + r->min_gain) {
                fprintf(out, ", over LL%s", u->overlaps ? "" : " back to back");
                doubts = true;
            }
        }
        if (r->n_unsure > n_most)
            fprintf(out, "; and %zu of smaller gains, which the report names",
                    r->n_unsure - n_most);
        fputc('.', out);
        if (doubts)
            fputs("  Between the kernels of a CUDA graph LL is faster than so "
                  "measured, and a job that is captured may lose by these: "
                  "`steptune iterate --mode sequential --cudagraph 1` on the "
                  "GPUs would settle it.",
                  out);
        stp_paragraph_end(&paragraph);
    }
    if (stp_again_text(r->n_again, r->n_disturbed, text)) {
        fputc('\n', fp);
        stp_print_paragraph(text, fp);
    }
}

enum stp_status stp_tune_report_save(const struct stp_tune_report *report,
                                     const char *path, struct stp_error *err)
{
    const struct stp_regret regret =
        stp_policy_regret(report->sweep, report->derived);
    struct stp_file file;

    STP_TRY(stp_file_begin(path, &file, err));
    fprintf(
        file.fp,
        "Steptune: %s\n%s\nrun %s, policy hash %s\n\n"
        "Every size was run in interleaved rounds, %u collectives an arm "
        "and round; a round\ncounts with its median, an arm by the ratio to "
        "%s of the same\nround.  A rule stands where "
        "the 95 percent interval of its gain lies above %g percent, and goes "
        "on at\nneighbouring sizes where that of its arm lies above 0.\n\n",
        report->policy_path, report->info->what, report->run,
        report->policy_hash, report->iters, STP_AUTO_WORDS(report->info->tuner),
        report->min_gain * 100);
    if (report->same_bits != NULL)
        fprintf(file.fp, "%s\n\n", STP_SAME_BITS_TEXT(report->same_bits));
    fprintf(file.fp, "Rules\n\n");
    stp_print_rules(report->derived, file.fp);
    tune_report_write_cuts(report->derived, report->n_dropped, file.fp);
    fprintf(file.fp,
            "\nAgainst the best arm at every swept size the policy takes %.4f "
            "times as long in the\ngeometric mean, %.4f at worst.\n\n",
            regret.mean, regret.worst);

    tune_report_write_verdicts(report, report->verdicts,
                               "The policy, loaded by the plugin, against AUTO",
                               file.fp);
    if (report->steps->n_points > 0)
        tune_report_write_verdicts(
            report, report->steps,
            "\nIterations in which compute waits for a collective, with the "
            "policy, against AUTO",
            file.fp);
    if (report->overlap != NULL)
        tune_report_write_overlap(report, file.fp);
    tune_report_write_setups(report, true, file.fp);
    tune_report_write_doubts(report, SIZE_MAX, file.fp);
    fprintf(file.fp, "\nEvery arm\n\n");
    stp_print_sweep(report->sweep, file.fp);
    stp_print_steadiness(report->sweep, file.fp);
    return stp_file_commit(&file, err);
}

enum stp_status stp_print_tuning(const struct stp_tune_report *r,
                                 bool has_table, FILE *fp,
                                 struct stp_error *err)
{
    static const char heading[] =
        "Where communication overlaps with compute, by the time of training "
        "iterations:";
    const struct stp_tune_overlap *o = r->overlap;
    struct stp_paragraph paragraph;

    stp_print_paragraph(r->info->what, fp);
    fputc('\n', fp);
    if (r->derived->n_rules == 0) {
        FILE *out = stp_paragraph_begin(&paragraph, fp);

        fputs("The policy has no rule: ", out);
        if (r->n_dropped > 0)
            fputs("each that was derived was slower somewhere, or made no step "
                  "in which compute waits shorter.",
                  out);
        else
            fprintf(out,
                    "no arm is faster than %s by %g percent or more beyond "
                    "doubt.",
                    STP_AUTO_WORDS(r->info->tuner), r->min_gain * 100);
        stp_paragraph_end(&paragraph);
        fputc('\n', fp);
    }
    if (has_table)
        stp_print_verdicts(r->info, r->verdicts, STP_VERDICTS_ALL, fp);
    else
        STP_TRY(stp_print_gains(r->info, r->verdicts, r->policy_path, NULL, fp,
                                err));
    if (r->derived->n_rules > 0)
        stp_print_unfollowed(r->verdicts, fp);
    if (o != NULL) {
        fputc('\n', fp);
        if (o->derived->n_rules == 0) {
            FILE *out = stp_paragraph_begin(&paragraph, fp);

            fputs("Where communication overlaps with compute ", out);
            tune_report_write_no_rule(o, out);
            stp_paragraph_end(&paragraph);
        } else if (has_table) {
            stp_print_paragraph(heading, fp);
            fputc('\n', fp);
            stp_print_verdicts(r->info, o->verdicts, STP_VERDICTS_ALL, fp);
        } else {
            STP_TRY(stp_print_gains(r->info, o->verdicts, o->policy_path,
                                    heading, fp, err));
        }
    }
    tune_report_write_setups(r, false, fp);
    tune_report_write_doubts(r, N_SHORT, fp);
    return STP_OK;
}
