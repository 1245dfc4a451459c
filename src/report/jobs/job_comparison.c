#include "report/jobs/job_comparison.h"

#include <math.h>

#include "analyse/jobs/steps.h"
#include "report/file.h"
#include "report/table.h"

enum stp_status stp_job_runs_save(const char *path,
                                  const struct stp_job_runs *runs,
                                  struct stp_error *err)
{
    struct stp_file file;

    STP_TRY(stp_file_begin(path, &file, err));
    fprintf(file.fp,
            "# Runs of a job under several arms.\n# command: %s\n# step time: "
            "%s\n",
            runs->command, runs->step_time);
    for (unsigned i = 0; i < runs->n_arms; i++)
        fprintf(file.fp, "# arm %u: %s\n", i, runs->labels[i]);
    fprintf(file.fp, "round,place,arm,wall_s,step,steps,calls,loss,start_s\n");
    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_job_run *run = &runs->runs[i];

        fprintf(file.fp, "%u,%u,%u,%.6f,%.9g,%u,%u,", run->round, run->place,
                run->arm, run->wall_s, run->step, run->steps, run->calls);
        if (!isnan(run->loss))
            fprintf(file.fp, "%.17g", run->loss);
        fprintf(file.fp, ",%.3f\n", run->start_s);
    }
    return stp_file_commit(&file, err);
}

enum { TOLD_START_S = 5 }; /* a shorter one is not said */

/* How times are printed. */
static const struct {
    const char *word; /* in JSON */
    const char *unit; /* in JSON; NULL: the job's own */
    const char *heading;
    int digits;
} measures[] = {
    [STP_JOB_GPU] = {"gpu", "us", "step us", 1},
    [STP_JOB_PRINTED] = {"printed", NULL, "step as printed", STP_TABLE_SHORT},
    [STP_JOB_WALL] = {"wall", "s", "run s", 3},
};

struct comparison {
    const struct stp_job_runs *runs;
    struct stp_job_arm arms[STP_JOB_ARMS];
    unsigned order[STP_JOB_ARMS]; /* the baseline, then the best first */
    size_t n_rounds;
    enum stp_job_measure measure;
    const char *why; /* steps are not compared; NULL: they are */
};

static const char *comparison_verdict(const struct comparison *c, unsigned arm)
{
    const struct stp_gain *gain = &c->arms[arm].gain;

    if (arm == 0)
        return "baseline";
    if (c->n_rounds < 2)
        return "one round";
    if (gain->low > 1)
        return "faster";
    return gain->high < 1 ? "slower" : "no difference";
}

/* "2.301", "2.301 (2.300 to 2.302)", or "-" without losses. */
static const char *comparison_loss_text(const struct stp_job_arm *arm,
                                        char text[96])
{
    if (arm->n_losses == 0)
        return "-";
    if (arm->loss_min == arm->loss_max)
        snprintf(text, 96, "%.6g", arm->loss_min);
    else
        snprintf(text, 96, "%.6g (%.6g to %.6g)", arm->loss, arm->loss_min,
                 arm->loss_max);
    return text;
}

static void comparison_print_table(const struct comparison *c, bool is_json,
                                   FILE *fp)
{
    struct stp_table t = stp_table_result(is_json);
    const struct stp_job_runs *runs = c->runs;
    bool has_losses = false;

    for (unsigned i = 0; i < runs->n_arms; i++)
        has_losses |= c->arms[i].n_losses > 0;
    if (is_json) {
        stp_table_word(&t, "command", NULL, runs->command);
        stp_table_word(&t, "measure", NULL, measures[c->measure].word);
        stp_table_word(&t, "unit", NULL, measures[c->measure].unit);
        stp_table_word(&t, "why_not_steps", NULL, c->why);
        stp_table_number(&t, "collectives_of_a_step", NULL,
                         c->measure == STP_JOB_GPU && runs->n > 0
                             ? runs->runs[0].calls
                             : NAN,
                         0);
        stp_table_count(&t, "complete_rounds", NULL, c->n_rounds);
    }
    stp_table_rows(&t, "arms");
    for (unsigned k = 0; k < runs->n_arms && c->n_rounds > 0; k++) {
        const unsigned i = c->order[k];
        const struct stp_job_arm *arm = &c->arms[i];
        char loss[96];

        stp_table_row(&t);
        stp_table_word(&t, "arm", "<arm", c->runs->labels[i]);
        stp_table_count(&t, "runs", "runs", arm->n_runs);
        stp_table_number(&t, "time", measures[c->measure].heading, arm->time,
                         measures[c->measure].digits);
        if (i > 0 || t.format == STP_TABLE_JSON) {
            stp_table_gain(&t, &arm->gain);
        } else {
            stp_table_text(&t, "gain", "-");
            stp_table_text(&t, "95% interval", "-");
        }
        stp_table_word(&t, "verdict", "<verdict", comparison_verdict(c, i));
        if (has_losses)
            stp_table_text(&t, "<last loss", "%s",
                           comparison_loss_text(arm, loss));

        const bool has = arm->n_losses > 0;

        stp_table_number(&t, "loss", NULL, arm->loss, STP_TABLE_SHORT);
        stp_table_number(&t, "loss_min", NULL, has ? arm->loss_min : NAN,
                         STP_TABLE_SHORT);
        stp_table_number(&t, "loss_max", NULL, has ? arm->loss_max : NAN,
                         STP_TABLE_SHORT);
    }
    stp_table_end(&t, fp);
}

/* Says how long runs take before they communicate, where that is known. */
static void comparison_print_start(const struct comparison *c, FILE *fp)
{
    double start_s = 0, wall_s = 0, n = 0;

    for (size_t i = 0; i < c->runs->n; i++)
        if (c->runs->runs[i].start_s > 0) {
            start_s += c->runs->runs[i].start_s;
            wall_s += c->runs->runs[i].wall_s;
            n++;
        }
    if (n > 0 && start_s / n >= TOLD_START_S)
        fprintf(fp,
                "A run takes %.3g s, of which %.3g pass before its first "
                "communicator (imports and the like)%s.\n",
                wall_s / n, start_s / n,
                c->measure == STP_JOB_WALL ? ", in which no arm differs" : "");
}

void stp_print_job_comparison(const struct stp_job_runs *runs, bool is_json,
                              FILE *fp)
{
    struct comparison c = {.runs = runs};

    c.measure = runs->step_time[0] != '\0' ? STP_JOB_PRINTED : STP_JOB_GPU;
    if (!stp_job_runs_have(runs->runs, runs->n, c.measure, &c.why))
        c.measure = STP_JOB_WALL;
    c.n_rounds =
        stp_job_runs_sum(runs->runs, runs->n, c.measure, runs->n_arms, c.arms);
    for (unsigned i = 0; i < runs->n_arms; i++) {
        unsigned at = i;

        for (;
             at > 1 && c.arms[c.order[at - 1]].gain.gain < c.arms[i].gain.gain;
             at--)
            c.order[at] = c.order[at - 1];
        c.order[at] = i;
    }
    if (c.n_rounds > 0 || is_json)
        comparison_print_table(&c, is_json, fp);
    if (is_json)
        return;
    if (c.n_rounds == 0) {
        fprintf(fp, "No round is complete: nothing is compared.\n");
        return;
    }
    if (c.n_rounds < 2)
        fprintf(fp, "One round has no interval; it takes two or more.\n");
    const struct stp_job_run *run = &c.runs->runs[0];

    if (c.measure == STP_JOB_GPU && run->calls == 1)
        fprintf(fp,
                "All collectives are alike: a step is from one to the next");
    else if (c.measure == STP_JOB_GPU)
        fprintf(fp,
                "A step is the sequence of %u collectives that the job repeats",
                run->calls);
    if (c.measure == STP_JOB_GPU)
        fprintf(fp, ", from begin to begin on the GPU by NCCL's profiler");
    else if (c.measure == STP_JOB_PRINTED)
        fprintf(fp, "Times of steps are those that the job prints");
    else
        fprintf(fp, "Times are of whole runs, from start to end, because %s",
                c.why);
    if (c.measure != STP_JOB_WALL)
        fprintf(fp, "; the first %d percent of each run are left out",
                STP_WARM_UP_PERCENT);
    fprintf(fp, ".\n");
    comparison_print_start(&c, fp);
}
