/* compare_run.c - a run of a compared job, and what is learned from it */
#define _GNU_SOURCE /* memrchr() */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyse/jobs/steps.h"
#include "analyse/traces/traces.h"
#include "cli/compare/compare.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/folder.h"
#include "report/learning/ledgers.h"

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
};

/* ---- what it printed ---- */

enum {
    PIECE = 4096, /* bytes of a line that are looked at together */
    MAX_TIMES = 1 << 20,
    LAST_LINES = 12,
    LAST_BYTES = 1 << 14, /* that these lines are looked for in */
};

/* The facts that an output tells. */
struct found {
    double *times;   /* of the first steps, to be freed */
    size_t n;        /* at most MAX_TIMES */
    bool is_unread;  /* a time is no number above 0 */
    char unread[32]; /* the first of them */
    bool is_wrong;   /* nccl-tests, in it, says so of results */
    bool has_loss;
    double loss;                 /* the last; NAN: no finite number */
    char nccl[STP_COMPARE_NCCL]; /* the version that NCCL says it has, or "" */
};

/* The part of a line that expressions see. */
struct piece {
    FILE *fp;
    size_t n;     /* bytes of 'text' */
    size_t end;   /* of the piece in it; what is behind belongs to the next */
    bool goes_on; /* the line does not end with this piece */
    char text[PIECE + 1];
};

/* Reads on up to the end of a line, which a carriage return is, too, or cuts a
 * longer one at a blank. */
static bool piece_next(struct piece *p)
{
    int c = 0;

    p->n -= p->end;
    memmove(p->text, p->text + p->end, p->n);
    while (p->n < PIECE && (c = getc_unlocked(p->fp)) != EOF && c != '\n' &&
           c != '\r' && c != '\0')
        p->text[p->n++] = (char)c;
    p->end = p->n;
    p->goes_on = p->n == PIECE;
    if (p->goes_on) {
        const char *blank = memrchr(p->text, ' ', PIECE);

        blank = blank != NULL ? blank : memrchr(p->text, ',', PIECE);
        p->end = blank != NULL ? (size_t)(blank - p->text) + 1 : PIECE;
    }
    return c != EOF || p->n > 0;
}

/* Takes the numbers of the first group, wherever a piece matches: those above 0
 * as times, or the last one, NAN for what is no finite number, as the loss. */
static void piece_match(const char *text, const regex_t *regex, int flags,
                        bool are_times, struct found *found)
{
    regmatch_t match[2];

    while (regexec(regex, text, 2, match, flags) == 0) {
        const regmatch_t *at = &match[match[1].rm_so >= 0];
        const int len = (int)(at->rm_eo - at->rm_so);
        double number = NAN;

        if (at == &match[1])
            stp_parse_double(text + at->rm_so, (size_t)len, &number);
        if (!are_times) {
            found->has_loss = true;
            found->loss = number;
        } else if (!(number > 0) && !found->is_unread) {
            found->is_unread = true;
            snprintf(found->unread, sizeof(found->unread), "%.*s", len,
                     text + at->rm_so);
        } else if (number > 0 && found->n < MAX_TIMES)
            found->times[found->n++] = number;
        /* an empty match goes on behind the next character */
        text += match[0].rm_eo;
        if (match[0].rm_eo == match[0].rm_so && *text++ == '\0')
            break;
        flags |= REG_NOTBOL;
    }
}

/* Reads a file line by line, in time linear in its size and in bounded memory.
 * A number is the first group of an expression, wherever it matches in a line;
 * 'step_time' may be NULL. */
static enum stp_status output_read(const char *path, const regex_t *step_time,
                                   const regex_t *loss, struct found *found,
                                   struct stp_error *err)
{
    static const char said[] = "NCCL version ", failed[] = "FAILED";
    struct piece p = {.fp = fopen(path, "re")};
    int flags = 0;

    *found =
        (struct found){.times = calloc(MAX_TIMES, sizeof(double)), .loss = NAN};
    if (found->times == NULL || p.fp == NULL) {
        if (p.fp != NULL)
            fclose(p.fp);
        return stp_fail(err, STP_ERR_IO, "cannot read '%.140s'", path);
    }
    while (piece_next(&p)) {
        const char kept = p.text[p.end];
        const char *at;

        p.text[p.end] = '\0';
        at = found->nccl[0] == '\0' ? strstr(p.text, said) : NULL;
        if (at != NULL)
            snprintf(found->nccl, STP_COMPARE_NCCL, "%.*s",
                     (int)strcspn(at + strlen(said), " "), at + strlen(said));
        found->is_wrong |= strstr(p.text, "Out of bounds values ") != NULL &&
                           p.end >= strlen(failed) &&
                           strcmp(p.text + p.end - strlen(failed), failed) == 0;
        flags |= p.goes_on ? REG_NOTEOL : 0;
        if (step_time != NULL)
            piece_match(p.text, step_time, flags, true, found);
        piece_match(p.text, loss, flags, false, found);
        flags = p.goes_on ? REG_NOTBOL : 0;
        p.text[p.end] = kept;
    }
    fclose(p.fp);
    return STP_OK;
}

/* Prints the last lines of a run's output to standard error. */
static void output_print(const char *path)
{
    FILE *out = stp_guard_output(STDERR_FILENO), *in = fopen(path, "re");
    char text[LAST_BYTES];
    const char *at, *end, *line;
    size_t len;
    int n = 0;

    if (in != NULL && fseek(in, -LAST_BYTES, SEEK_END) != 0)
        rewind(in); /* it is shorter */
    end = text + (in != NULL ? fread(text, 1, LAST_BYTES, in) : 0);
    at = end > text && end[-1] == '\n' ? end - 1 : end;
    while (at > text && (at[-1] != '\n' || ++n < LAST_LINES))
        at--;
    while (out != NULL && (line = stp_next_line(&at, end, &len)) != NULL)
        fprintf(out, "  | %.*s\n", (int)len, line);
    if (out != NULL)
        fclose(out);
    if (in != NULL)
        fclose(in);
}

/* ---- the job ---- */

static bool attempt_has_room(const struct attempt *a)
{
    struct stat st;

    return stat(a->output, &st) != 0 || st.st_size <= STP_JOB_OUTPUT;
}

/* Where a rank's process of the job has failed, that rank ends, and the others
 * end theirs. */
static bool attempt_goes_on(void *user)
{
    const struct attempt *a = user;
    const struct stp_world *world = a->s->world;

    return attempt_has_room(a) &&
           (world->size == 1 || world->ops->alive(world->self, &a->s->lost));
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
    enum { N_OWN = STP_N_OF(own) };
    struct stp_job_variable variables[STP_COMPARE_VARIABLES + N_OWN];
    struct stp_job job = {
        .argv = s->o->command.v,
        .variables = variables,
        .n_variables = a->arm->n_variables,
        .output = a->output,
        .limit_s = s->o->limit_s,
        .goes_on = attempt_goes_on,
        .user = a,
        .say = stp_complain,
    };
    struct timespec begin;
    struct stat st;
    enum stp_status status;

    memcpy(variables, a->arm->variables, job.n_variables * sizeof(*variables));
    for (size_t i = 0; i < N_OWN; i++)
        if (own[i].is_set)
            variables[job.n_variables++] = own[i].variable;
    unlink(a->trace);
    mkdir(a->ledger, 0700);
    clock_gettime(CLOCK_REALTIME, &begin);
    status = stp_job_run(&job, &a->end, err);
    /* the folder changed last when the first communicator made the trace */
    if (access(a->trace, F_OK) == 0 && stat(s->temporary, &st) == 0)
        s->run.start_s =
            fmin(fmax((double)(st.st_mtim.tv_sec - begin.tv_sec) +
                          (double)(st.st_mtim.tv_nsec - begin.tv_nsec) / 1e9,
                      0),
                 a->end.wall_s);
    return status;
}

static int attempt_complain(const struct attempt *a, const char *why)
{
    char rank[32] = "";
    struct stat st;

    if (a->s->world->size > 1)
        snprintf(rank, sizeof(rank), " on rank %u", a->s->world->rank);
    if (stat(a->output, &st) == 0 && st.st_size == 0)
        return stp_complain("run %u (%s)%s %s, and its output is empty",
                            a->number, a->arm->label, rank, why);
    stp_complain(
        "run %u (%s)%s %s; the last lines of its output%s%s:", a->number,
        a->arm->label, rank, why, a->s->o->output != NULL ? ", " : "",
        a->s->o->output != NULL ? a->output
                                : " (`steptune compare -o FOLDER` keeps all)");
    output_print(a->output);
    return STP_EXIT_FAILED;
}

/* ---- what it shows ---- */

/* Says once why whole runs are compared; a limit makes them as long. */
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
        stp_complain(
            "run %u (%s) has no times of steps: %s; times of whole "
            "runs are compared, or give `steptune compare --step-time`",
            a->number, a->arm->label, why);
    a->s->has_told_steps = true;
    return STP_EXIT_OK;
}

static int attempt_read_trace(struct attempt *a, struct stp_job_step *step)
{
    struct stp_trace trace;
    struct stp_error err;
    enum stp_status status;

    /* one without a row is refused by its reader */
    if (stp_traces_load(a->trace, &trace, &err) != STP_OK)
        return attempt_warn_no_steps(
            a, "NCCL's profiler recorded no collective, which takes NCCL 2.27 "
               "or later, several ranks, and room in TMPDIR or /tmp");
    status = stp_job_step_traced(&trace, step, &err);
    stp_trace_free(&trace);
    if (status == STP_ERR_NOTHING)
        return attempt_warn_no_steps(a, err.text);
    return status == STP_OK ? STP_EXIT_OK : stp_complain_error(NULL, &err);
}

/* Says once that a policy was not loaded, and so makes no difference. */
static void attempt_check_plugin(struct attempt *a)
{
    struct stp_ledgers ledgers = {0};
    struct stp_error err;
    const char *aside = NULL;
    uint64_t n_decided = 0;

    if (!a->arm->has_policy || a->s->has_told_plugin ||
        stp_ledgers_load(a->ledger, &ledgers, &err) != STP_OK)
        return;
    for (size_t i = 0; i < ledgers.n; i++) {
        if (ledgers.all[i].is_aside)
            aside = ledgers.all[i].what;
        n_decided += ledgers.all[i].n_lost;
        for (size_t k = 0; k < STP_LEDGER_ENTRIES; k++)
            n_decided += ledgers.all[i].entries[k].line != 0;
    }
    a->s->has_told_plugin = n_decided == 0 || aside != NULL;
    if (a->s->has_told_plugin && ledgers.n > 0 && aside == NULL)
        stp_complain("run %u (%s): no rule decided a collective: %s", a->number,
                     a->arm->label, ledgers.all[0].what);
    else if (a->s->has_told_plugin)
        stp_complain("run %u (%s): the plugin %s, so that no rule applied%s%s",
                     a->number, a->arm->label,
                     aside != NULL ? "stepped aside" : "was not loaded",
                     aside != NULL ? ": " : "", aside != NULL ? aside : "");
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

/* Reads the outcome, in the child. */
static int attempt_read(void *user)
{
    struct attempt *a = user;
    struct stp_compare_session *s = a->s;
    const regex_t *step_time = s->o->step_time != NULL ? &s->step_time : NULL;
    struct found found;
    const int signal = a->end.status - STP_JOB_SIGNAL;
    struct stp_job_step step = {0};
    char why[128];
    struct stp_error err;
    int status = STP_EXIT_OK;

    if (!attempt_has_room(a))
        status = attempt_complain(a, "printed more than 1 GiB");
    else if (a->end.status != 0 && !a->end.is_limited) {
        snprintf(why, sizeof(why), "ended with status %d", a->end.status);
        if (signal > 0)
            snprintf(why, sizeof(why), "was ended by signal %d (%s)", signal,
                     strsignal(signal));
        status = attempt_complain(a, why);
    }
    if (status == STP_EXIT_OK &&
        output_read(a->output, step_time, &s->loss, &found, &err) != STP_OK)
        status = stp_complain_error(NULL, &err);
    else if (status == STP_EXIT_OK && found.is_wrong)
        status = attempt_complain(a, "computed wrong results");
    if (s->world->rank > 0 || status != STP_EXIT_OK)
        return status;
    if (step_time == NULL)
        status = attempt_read_trace(a, &step);
    else if (found.is_unread) {
        snprintf(why, sizeof(why),
                 "printed '%s' where --step-time matches, expected a number "
                 "above 0",
                 found.unread);
        status = attempt_complain(a, why);
    } else if (found.n == 0)
        status = attempt_complain(a, "printed nothing that --step-time "
                                     "matches");
    else
        step = stp_job_step_printed(found.times, found.n);
    s->run.step = step.time;
    s->run.steps = (unsigned)step.n_steps;
    s->run.calls = (unsigned)step.n_calls;
    if (status != STP_EXIT_OK)
        return status;
    a->s->run.loss = found.loss;
    if (found.has_loss && isnan(found.loss))
        stp_complain("run %u (%s): the last loss is no finite number",
                     a->number, a->arm->label);
    attempt_check_plugin(a);
    attempt_check_stage(a);
    memcpy(a->arm->nccl, found.nccl, sizeof(found.nccl));
    return status;
}

/* Has a child read the outcome, as an expression may take any time: a request
 * to stop ends the child. */
static int attempt_take(struct attempt *a)
{
    const struct stp_job reader = {.body = attempt_read, .user = a};
    struct stp_job_runs *runs = &a->s->runs;
    struct stp_job_end end;
    struct stp_error err;

    a->s->run.wall_s = a->end.wall_s;
    if (stp_job_run(&reader, &end, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    a->s->signal = end.signal;
    if (end.signal != 0)
        return STP_EXIT_OK;
    if (end.status > STP_JOB_SIGNAL)
        return attempt_complain(a, "could not be read to its end");
    if (end.status == STP_EXIT_OK) {
        STP_TAKE_ROOM(runs->runs, runs->n, runs->capacity);
        runs->runs[runs->n++] = a->s->run;
    }
    return end.status;
}

int stp_compare_run(struct stp_compare_session *s, unsigned round,
                    unsigned place)
{
    const unsigned arm = stp_job_arm_at(round, place, s->arms->n);
    struct attempt a = {
        .s = s,
        .arm = &s->arms->all[arm],
        .number = (unsigned)s->runs.n + 1,
    };
    struct stp_error err;
    int status = STP_EXIT_OK;

    if (snprintf(a.output, sizeof(a.output), "%s/round%u-place%u-arm%u.txt",
                 s->folder, round, place, arm) >= (int)sizeof(a.output))
        return stp_complain("-o: the path is too long");
    snprintf(a.trace, sizeof(a.trace), "%s/trace.csv", s->temporary);
    snprintf(a.ledger, sizeof(a.ledger), "%s/ledger", s->temporary);
    s->run = (struct stp_job_run){
        .round = round, .place = place, .arm = arm, .loss = NAN};
    if (attempt_start(&a, &err) != STP_OK)
        status = stp_complain_error(NULL, &err);
    s->signal = a.end.signal;
    if (s->lost.text[0] != '\0')
        status = stp_complain_in(s->world, STP_ERR_DEVICE, &s->lost);
    else if (status == STP_EXIT_OK && s->signal == 0)
        status = attempt_take(&a);
    stp_folder_remove(a.ledger);
    return status;
}
