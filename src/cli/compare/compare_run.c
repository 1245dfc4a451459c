/* compare_run.c - a run of a compared job, and what is learned from it */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/jobs/steps.h"
#include "cli/compare/compare.h"
#include "core/text.h"
#include "plugin/online/recorder.h"
#include "report/learning/ledgers.h"

enum { MAX_OUTPUT = 1 << 30 };

/* Collectives of a process that are recorded: more make no step more certain,
 * and eight processes share a file. */
#define TRACE_CALLS "200000"

/* A run under way. */
struct attempt {
    struct stp_compare_session *s;
    struct stp_compare_arm *arm;
    unsigned number; /* from 1, in this session and those before */
    char output[STP_CLI_PATH];
    char trace[STP_CLI_PATH + 16];
    char ledger[STP_CLI_PATH + 16];
    struct stp_job_end end;
    struct stp_job_run run;
    char *text; /* the output */
};

/* ---- the job ---- */

/* Where a rank's process of the job has failed, that rank ends, and the others
 * end theirs. */
static bool attempt_goes_on(void *user)
{
    struct stp_compare_session *s = user;

    return s->world->ops->alive(s->world->self, &s->lost);
}

static enum stp_status attempt_start(struct attempt *a, struct stp_error *err)
{
    struct stp_compare_session *s = a->s;
    const bool has_port = s->port[0] != '\0',
               is_traced = s->o->step_time == NULL;
    const struct {
        struct stp_job_variable variable;
        bool is_set;
    } own[] = {
        {{"STEPTUNE_LEDGER", a->ledger}, a->arm->has_policy},
        {{"STEPTUNE_STAGE_REPORT", a->ledger}, a->arm->stage != NULL},
        {{"MASTER_PORT", s->port}, has_port},
        {{"TORCHELASTIC_USE_AGENT_STORE", "False"}, has_port},
        {{"NCCL_PROFILER_PLUGIN", s->plugin}, is_traced},
        {{"STEPTUNE_TRACE", a->trace}, is_traced},
        {{"STEPTUNE_TRACE_CALLS", TRACE_CALLS},
         is_traced && !stp_job_has("STEPTUNE_TRACE_CALLS")},
    };
    enum { N_OWN = sizeof(own) / sizeof(own[0]) };
    struct stp_job_variable variables[STP_COMPARE_VARIABLES + N_OWN];
    struct stp_job job = {
        .argv = s->o->command.v,
        .variables = variables,
        .n_variables = a->arm->n_variables,
        .output = a->output,
        .limit_s = s->o->limit_s,
        .goes_on = s->world->size > 1 ? attempt_goes_on : NULL,
        .user = s,
    };
    enum stp_status status;

    memcpy(variables, a->arm->variables, job.n_variables * sizeof(*variables));
    for (size_t i = 0; i < N_OWN; i++)
        if (own[i].is_set)
            variables[job.n_variables++] = own[i].variable;
    unlink(a->trace);
    mkdir(a->ledger, 0700);
    status = stp_job_run(&job, &a->end, err);
    STP_THEN(status,
             stp_read_file(a->output, MAX_OUTPUT, &a->text, &(size_t){0}, err));
    return status;
}

static int attempt_complain(const struct attempt *a, const char *why)
{
    char rank[32] = "";

    if (a->s->world->size > 1)
        snprintf(rank, sizeof(rank), " on rank %u", a->s->world->rank);
    stp_complain(
        "run %u (%s)%s %s; the last lines of its output%s%s:", a->number,
        a->arm->label, rank, why, a->s->o->output != NULL ? ", " : "",
        a->s->o->output != NULL ? a->output : " (-o FOLDER keeps all)");
    stp_compare_print_output(a->text);
    return STP_EXIT_FAILED;
}

/* ---- what it shows ---- */

static int attempt_read_printed(struct attempt *a)
{
    struct stp_job_step step = {0};
    struct stp_error err;
    double *times;
    size_t n_found, n = 0;

    if (stp_compare_find_numbers(a->text, &a->s->step_time, &times, &n_found,
                                 &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    for (size_t i = 0; i < n_found; i++)
        if (!isnan(times[i]))
            times[n++] = times[i];
    if (n > 0)
        step = stp_job_step_printed(times, n);
    free(times);
    if (n == 0)
        return attempt_complain(a, "printed nothing that --step-time matches");
    if (!(step.time > 0))
        return attempt_complain(a, "printed times of steps that are not above "
                                   "0");
    a->run.step = step.time;
    a->run.steps = (unsigned)step.n_steps;
    return STP_EXIT_OK;
}

/* Says once why whole runs are compared; where a limit ends them, they all take
 * as long. */
static int attempt_warn_no_steps(const struct attempt *a, const char *why)
{
    char text[STP_ERROR_TEXT + 160];

    if (a->end.is_limited) {
        snprintf(text, sizeof(text),
                 "has no times of steps (%s), and --for ended it, so that its "
                 "own time says nothing",
                 why);
        return attempt_complain(a, text);
    }
    if (!a->s->has_told_steps)
        stp_complain("run %u (%s) has no times of steps: %s; times of whole "
                     "runs are compared, or give --step-time",
                     a->number, a->arm->label, why);
    a->s->has_told_steps = true;
    return STP_EXIT_OK;
}

static int attempt_read_trace(struct attempt *a)
{
    struct stp_trace trace;
    struct stp_job_step step;
    struct stp_error err;
    enum stp_status status;

    /* one without a row is refused by its reader */
    if (stp_trace_load(a->trace, &trace, &err) != STP_OK)
        return attempt_warn_no_steps(
            a, "NCCL's profiler recorded no collective, which takes NCCL 2.27 "
               "or later and several ranks");
    status = stp_job_step_traced(&trace, &step, &err);
    stp_trace_free(&trace);
    if (status == STP_ERR_NOTHING)
        return attempt_warn_no_steps(a, err.text);
    if (status != STP_OK)
        return stp_complain_error(NULL, &err);
    a->run.step = step.time;
    a->run.steps = (unsigned)step.n_steps;
    a->run.calls = (unsigned)step.n_calls;
    return STP_EXIT_OK;
}

/* Says once that a policy was not loaded, and so makes no difference. */
static void attempt_check_plugin(struct attempt *a)
{
    struct stp_ledgers ledgers = {0};
    struct stp_error err;
    const char *aside = NULL;

    if (!a->arm->has_policy || a->s->has_told_plugin ||
        stp_ledgers_load(a->ledger, &ledgers, &err) != STP_OK)
        return;
    for (size_t i = 0; i < ledgers.n; i++)
        if (ledgers.all[i].is_aside)
            aside = ledgers.all[i].what;
    if (ledgers.n == 0)
        stp_complain("run %u (%s): the plugin was not loaded, so that NCCL "
                     "tuned alone",
                     a->number, a->arm->label);
    else if (aside != NULL)
        stp_complain("run %u (%s): the plugin stepped aside, so that NCCL "
                     "tuned alone: %s",
                     a->number, a->arm->label, aside);
    a->s->has_told_plugin = ledgers.n == 0 || aside != NULL;
    stp_ledgers_free(&ledgers);
}

/* Likewise, that nothing was staged. */
static void attempt_check_stage(struct attempt *a)
{
    struct stp_staged staged;
    char text[STP_STAGED_TEXT];

    if (a->arm->stage == NULL || a->s->has_told_stage ||
        stp_staged_load(a->ledger, a->arm->stage, &staged, NULL) != STP_OK)
        return;
    stp_staged_text(&staged, text);
    a->s->has_told_stage = staged.n_staged == 0;
    if (staged.n_staged == 0)
        stp_complain("run %u (%s): %s", a->number, a->arm->label, text);
    free(staged.calls);
}

static int attempt_read(struct attempt *a)
{
    char why[64];
    struct stp_error err;
    double *losses;
    size_t n;
    int status = STP_EXIT_OK;

    if (a->end.status != 0 && !a->end.is_limited) {
        const int signal = a->end.status - STP_JOB_SIGNAL;

        if (signal > 0)
            snprintf(why, sizeof(why), "was ended by signal %d (%s)", signal,
                     strsignal(signal));
        else
            snprintf(why, sizeof(why), "ended with status %d", a->end.status);
        status = attempt_complain(a, why);
    }
    if (status == STP_EXIT_OK && stp_compare_is_wrong(a->text))
        status = attempt_complain(a, "computed wrong results");
    if (a->s->world->rank > 0)
        return status;
    if (status == STP_EXIT_OK)
        status = a->s->o->step_time != NULL ? attempt_read_printed(a)
                                            : attempt_read_trace(a);
    if (status != STP_EXIT_OK)
        return status;
    if (stp_compare_find_numbers(a->text, &a->s->loss, &losses, &n, &err) !=
        STP_OK)
        return stp_complain_error(NULL, &err);
    a->run.loss = n > 0 ? losses[n - 1] : NAN;
    free(losses);
    if (n > 0 && isnan(a->run.loss))
        stp_complain("run %u (%s): the last loss is no finite number",
                     a->number, a->arm->label);
    attempt_check_plugin(a);
    attempt_check_stage(a);
    stp_compare_find_nccl(a->text, a->arm->nccl);
    a->run.wall_s = a->end.wall_s;
    a->run.is_limited = a->end.is_limited;
    return STP_EXIT_OK;
}

int stp_compare_run(struct stp_compare_session *s, unsigned round,
                    unsigned place)
{
    const unsigned arm = stp_job_arm_at(round, place, s->arms->n);
    struct attempt a = {
        .s = s,
        .arm = &s->arms->all[arm],
        .number = (unsigned)s->runs.n + 1,
        .run = {.round = round, .place = place, .arm = arm, .loss = NAN},
    };
    struct stp_error err;
    int status;

    if (snprintf(a.output, sizeof(a.output), "%s/round%u-place%u-arm%u.txt",
                 s->folder, round, place, arm) >= (int)sizeof(a.output))
        return stp_complain("-o: the path is too long");
    snprintf(a.trace, sizeof(a.trace), "%s/trace.csv", s->temporary);
    snprintf(a.ledger, sizeof(a.ledger), "%s/ledger", s->temporary);
    if (attempt_start(&a, &err) != STP_OK) {
        stp_remove_temporary(a.ledger);
        return stp_complain_error(NULL, &err);
    }
    s->signal = a.end.signal;
    if (s->lost.text[0] != '\0')
        status = stp_complain_in(s->world, STP_ERR_DEVICE, &s->lost);
    else
        status = s->signal == 0 ? attempt_read(&a) : STP_EXIT_OK;
    if (status == STP_EXIT_OK && s->signal == 0 &&
        stp_job_runs_add(&s->runs, &a.run, &err) != STP_OK)
        status = stp_complain_error(NULL, &err);
    stp_remove_temporary(a.ledger);
    free(a.text);
    return status;
}
