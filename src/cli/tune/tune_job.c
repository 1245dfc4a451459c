#include "cli/tune/tune_job.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/policy/memory_policy.h"
#include "child/job.h"
#include "launch/launch.h"
#include "launch/take.h"
#include "plugin/settings.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/json.h"
#include "report/learning/learning.h"
#include "report/learning/job_rules.h"
#include "report/learning/journal.h"
#include "report/learning/ledgers.h"
#include "report/policy_file.h"
#include "store/clock.h"

enum {
    MAX_WATCHED = 64 << 10, /* bytes of a journal, for its plan */
    TOLD_START_MS = 5000,   /* before the first communicator, that are said */
    ROOM = 256 << 10,       /* bytes that a journal may take */
};

/* While the job runs, and of it. */
struct job_run {
    const struct stp_tune_job *job;
    char command[STP_JOB_COMMAND];  /* to be named */
    char plugin[STP_CLI_PATH];      /* that learns */
    char journal[STP_CLI_PATH];     /* of all runs, beside the policy */
    size_t journal_from;            /* bytes of earlier runs */
    char earlier[STP_CLI_PATH];     /* the journal before, set aside; or "" */
    bool keeps_earlier;             /* it stays so */
    char output[STP_CLI_PATH];      /* what a job prints that is to be ended */
    int echo;                       /* of it, as far as it was shown; or -1 */
    char folder[STP_CLI_PATH];      /* temporary */
    char evidence[STP_CLI_PATH];    /* of earlier runs, beside the policy */
    bool is_of_rank_0;              /* this process writes what all find out */
    bool has_plan;                  /* said */
    bool overlaps;                  /* as the environment said */
    int64_t begin_ms;               /* by stp_now_ms() */
    int64_t first_ms;               /* likewise, of the journal; 0: not yet */
    char backup[STP_POLICY_BACKUP]; /* of the policy that was there; or "" */
    bool is_ended;                  /* this process may end the job */
    bool is_settled;                /* by --until */
    bool is_full;                   /* by what it printed */
    bool is_torn;                   /* the journal: it ends within a line */
    bool has_answer;                /* its windows were compared */
    cJSON *json;                    /* the result, where it is that */
    struct stp_job_end end;
};

struct job_result {
    struct stp_learning all; /* of all runs */
    struct stp_learning last;
    struct stp_ledgers ledgers;
    struct stp_job_rules rules;
    const char *gpu; /* of the rules; NULL: not known, or any */
};

/* Paths are absolute, as the job may have another working directory. */
static int job_name_files(struct job_run *run)
{
    char folder[STP_CLI_PATH];
    const char *output = run->job->output;
    const char *slash = strrchr(output, '/');
    const char *name = slash != NULL ? slash + 1 : output;

    snprintf(folder, sizeof(folder), "%.*s.", (int)(name - output), output);
    if (!stp_absolute_path(folder, run->journal))
        return stp_complain("-o: there is no folder '%s'", folder);
    snprintf(folder, sizeof(folder), "%s", run->journal);
    if (snprintf(run->journal, STP_CLI_PATH, "%s/%s.journal.csv", folder,
                 name) >= STP_PATH_SIZE ||
        snprintf(run->evidence, STP_CLI_PATH, "%s/%s.evidence.csv", folder,
                 name) >= STP_PATH_SIZE ||
        snprintf(run->output, STP_CLI_PATH, "%s/%s.job.txt", folder, name) >=
            STP_PATH_SIZE)
        return stp_complain("-o: the path is too long");
    return stp_make_temporary("steptune-tune", run->folder) ? STP_EXIT_OK
                                                            : STP_EXIT_FAILED;
}

static enum stp_status job_load(const char *journal, size_t from,
                                struct stp_learning *learning_ret,
                                struct stp_error *err)
{
    struct stp_journal_lines lines;

    STP_TRY(stp_journal_load(journal, from, &lines, err));
    stp_learning_sum(&lines, learning_ret);
    stp_journal_free(&lines);
    return STP_OK;
}

/* Says so where the policy is of another command: a window's gain is the job's.
 * What another GPU gained says nothing of this one. */
static int job_compare_origin(const struct job_run *run)
{
    static const char head[] = "# steptune tune -- ",
                      of_gpu[] = "# " STP_MEASURED_ON;
    char line[sizeof(head) + STP_JOB_COMMAND] = "", gpu[STP_GPU_SIZE];
    FILE *fp = fopen(run->job->output, "re");
    int exit_status = STP_EXIT_OK;

    stp_settings_gpu(gpu);
    while (fp != NULL && fgets(line, sizeof(line), fp) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, head, strlen(head)) == 0 &&
            strcmp(line + strlen(head), run->command) != 0)
            stp_complain("--resume adds to what another job gained, `%s`",
                         line + strlen(head));
        if (strncmp(line, of_gpu, strlen(of_gpu)) == 0 && gpu[0] != '\0' &&
            strcmp(line + strlen(of_gpu), gpu) != 0)
            exit_status = stp_complain(
                "--resume: %s was measured on %s, and this machine has %s: "
                "expected the same GPU, or another -o without --resume",
                run->job->output, line + strlen(of_gpu), gpu);
    }
    if (fp != NULL)
        fclose(fp);
    return exit_status;
}

/* Keeps the journal that is set aside if it is newer than the policy: its run
 * was killed before it made one. */
static void job_keep_killed(struct job_run *run, time_t last)
{
    struct stp_learning before;
    struct stat st;

    stp_journal_prepare(run->earlier);
    if ((stat(run->job->output, &st) == 0 && st.st_mtime >= last) ||
        job_load(run->earlier, 0, &before, NULL) != STP_OK)
        return;
    run->keeps_earlier = before.n_blocks > 0;
    stp_learning_free(&before);
    if (run->keeps_earlier)
        stp_complain("the run before was killed: what it measured is kept in "
                     "%s; to add to it, move that back and use --resume",
                     run->earlier);
}

/* Makes evidence of what earlier runs found, or sets their journal aside. */
static int job_begin_journal(struct job_run *run)
{
    static const char room[ROOM];
    struct stp_learning before;
    struct stp_file file;
    struct stp_error err;
    struct stat st;
    const bool is_there = stat(run->journal, &st) == 0;
    enum stp_status status = STP_OK;

    /* a run of an hour is not to end without room for what it found out */
    if (stp_file_save(run->evidence, room, sizeof(room), &err) != STP_OK)
        return stp_complain_error("-o", &err);
    unlink(run->evidence);
    if (!run->job->resume) {
        if (is_there)
            snprintf(run->earlier, STP_CLI_PATH, "%.4094s~", run->journal);
        if (is_there && rename(run->journal, run->earlier) != 0)
            return stp_complain("%s cannot be renamed: %s", run->journal,
                                strerror(errno));
        if (is_there)
            job_keep_killed(run, st.st_mtime);
        return STP_EXIT_OK;
    }
    if (!is_there)
        return stp_complain("--resume: there is no %s of an earlier run",
                            run->journal);
    if (job_compare_origin(run) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    run->journal_from = stp_journal_prepare(run->journal);
    if (job_load(run->journal, 0, &before, &err) != STP_OK)
        return stp_complain_error(run->journal, &err);
    for (size_t i = 0; i < before.n && run->job->same_bits; i++)
        for (size_t a = 1; a < before.keys[i].n_arms; a++)
            if (stp_coll_reduces(before.keys[i].coll) &&
                before.keys[i].arms[a].blocks.n > 0)
                status = STP_REFUSE(&err,
                                    "%s tried arms for sums, expected one of a "
                                    "run with --bits same to resume with that",
                                    run->journal);
    STP_THEN(status, stp_file_begin(run->evidence, &file, &err));
    if (status == STP_OK) {
        stp_job_evidence_write(&before, file.fp);
        status = stp_file_end(&file, STP_OK, &err);
    }
    stp_learning_free(&before);
    return status == STP_OK ? STP_EXIT_OK : stp_complain_error(NULL, &err);
}

/* Shows what the job has printed since the last time, as it is.  While it runs,
 * no more than who reads that takes at once. */
static void job_echo(struct job_run *run, bool is_over)
{
    enum { PIECES = 256, WAIT_MS = 10 };
    struct pollfd out = {.fd = run->job->json ? STDERR_FILENO : STDOUT_FILENO,
                         .events = POLLOUT};
    char text[PIPE_BUF];
    ssize_t n;

    if (run->echo < 0)
        run->echo = open(run->output, O_RDONLY | O_CLOEXEC);
    for (int i = 0; is_over || i < PIECES; i++) {
        if (poll(&out, 1, is_over ? -1 : WAIT_MS) <= 0)
            return;
        n = read(run->echo, text, sizeof(text));
        for (ssize_t at = 0, done; at < n; at += done) {
            done = write(out.fd, text + at, (size_t)(n - at));
            if (done < 0) /* nobody reads it any more */
                return;
        }
        if (n <= 0)
            return;
    }
}

/* Says what a schedule of several hosts is expected to cost, once the journal,
 * which is short by then, says so. */
static void job_tell_plan(struct job_run *run)
{
    struct stp_learning now;
    struct stat st;

    if (run->has_plan || stat(run->journal, &st) != 0 ||
        (size_t)st.st_size - run->journal_from > MAX_WATCHED ||
        job_load(run->journal, run->journal_from, &now, NULL) != STP_OK)
        return;
    for (size_t i = 0; i < now.n_sets; i++) {
        run->has_plan |= now.sets[i].has_plan;
        now.sets[i].end_us = 0; /* it is not the end */
    }
    stp_print_plans(&now, stderr);
    stp_learning_free(&now);
}

/* Whether arms may gain more than --until says, or those that won have not been
 * compared together. */
static bool job_goes_on(void *user)
{
    struct job_run *run = user;
    struct stp_learning now;
    struct stat st;

    if (run->is_ended) {
        job_echo(run, false);
        run->is_full =
            stat(run->output, &st) == 0 && st.st_size > STP_JOB_OUTPUT;
    }
    if (run->is_full)
        return false;
    if (!run->is_of_rank_0)
        return true;
    if (run->first_ms == 0 && stat(run->journal, &st) == 0 &&
        (size_t)st.st_size > run->journal_from)
        run->first_ms = stp_now_ms();
    job_tell_plan(run);
    if (!(run->job->until > 0))
        return true;
    if (job_load(run->journal, run->journal_from, &now, NULL) != STP_OK)
        return true; /* a line is being written */
    for (size_t i = 0; i < now.n && run->job->same_bits; i++)
        if (stp_coll_reduces(now.keys[i].coll))
            now.keys[i].with.algo = 0; /* no other arm will be tried */
    run->is_settled = now.n > 0 &&     /* or it has not communicated yet */
                      stp_bounds_of_all(&now) <= run->job->until &&
                      stp_bounds_are_confirmed(&now);
    stp_learning_free(&now);
    return !run->is_settled;
}

/* A job that is to be ended prints into a file, which is shown meanwhile: its
 * last words are those of a launcher whose processes are killed. */
static int job_run(struct job_run *run)
{
    const struct stp_job_variable variables[] = {
        {"NCCL_TUNER_PLUGIN", run->plugin},
        {"STEPTUNE_CHAIN", stp_chain_setting()},
        {"NCCL_PROFILER_PLUGIN", run->plugin},
        {"STEPTUNE_STRATEGY", "halving"},
        {"STEPTUNE_OBJECTIVE", "gpu"},
        {"STEPTUNE_ARMS", NULL},
        {"STEPTUNE_FREEZE", NULL},
        {"STEPTUNE_WARM_START", "none"},
        {"STEPTUNE_THOROUGH", "1"},
        {"STEPTUNE_BITS", run->job->same_bits ? "same" : NULL},
        {"STEPTUNE_JOURNAL", run->journal[0] != '\0' ? run->journal : NULL},
        {"STEPTUNE_LEARNED", "/dev/null"},
        {"STEPTUNE_EVIDENCE", run->job->resume ? run->evidence : NULL},
        {"STEPTUNE_LEDGER", run->is_of_rank_0 ? run->folder : NULL},
    };
    const struct stp_job job = {
        .argv = run->job->argv,
        .variables = variables,
        .n_variables = sizeof(variables) / sizeof(variables[0]),
        .output = run->is_ended ? run->output : NULL,
        .is_whole = true,
        .is_aside = run->job->json,
        .limit_s = run->job->limit_s,
        .goes_on = run->is_ended || run->is_of_rank_0 ? job_goes_on : NULL,
        .user = run,
        .say = stp_complain,
    };
    struct stp_error err;
    enum stp_status status;

    run->begin_ms = stp_now_ms();
    status = stp_job_run(&job, &run->end, &err);
    if (run->is_ended && !run->end.is_limited)
        job_echo(run, true);
    if (run->echo >= 0)
        close(run->echo);
    if (status == STP_OK)
        return STP_EXIT_OK;
    stp_complain_error(NULL, &err);
    return status == STP_ERR_NOTHING ? run->end.status : STP_EXIT_FAILED;
}

static int job_sum_up(struct job_run *run, struct job_result *r)
{
    struct stp_error err;
    struct stat st;

    run->is_torn = stat(run->journal, &st) == 0 &&
                   (size_t)st.st_size != stp_journal_prepare(run->journal);
    if (job_load(run->journal, 0, &r->all, &err) != STP_OK ||
        job_load(run->journal, run->journal_from, &r->last, &err) != STP_OK)
        return stp_complain_error(run->journal, &err);
    if (stp_ledgers_load(run->folder, &r->ledgers, &err) != STP_OK)
        stp_complain_error(NULL, &err); /* the job has removed them */
    stp_job_rules_make(&r->all, &r->last, &r->rules);
    for (size_t i = 0; i < r->last.n; i++)
        for (size_t t = 0; t < r->rules.n_totals; t++)
            if (r->rules.totals[t].is_left_out &&
                r->rules.totals[t].n_ranks == r->last.keys[i].n_ranks &&
                r->rules.totals[t].n_nodes == r->last.keys[i].n_nodes)
                r->last.keys[i].with.algo = -1;
    for (size_t i = 0; i < r->ledgers.n && r->gpu == NULL; i++)
        if (r->ledgers.all[i].gpu[0] != '\0')
            r->gpu = r->ledgers.all[i].gpu;
    return STP_EXIT_OK;
}

/* Why nothing was found out, maybe in 'text'; NULL if something was. */
static const char *job_explain(const struct job_run *run,
                               const struct job_result *r,
                               char text[STP_CLI_PATH + 64])
{
    struct stat st;
    bool is_open = false;

    if (run->is_torn) {
        snprintf(text, STP_CLI_PATH + 64,
                 "%s ended within a line (a full disk?)", run->journal);
        return text;
    }
    if (r->last.n_blocks > 0)
        return NULL;
    for (size_t i = 0; i < r->last.n_sets; i++)
        if (r->last.sets[i].has_plan && !(r->last.sets[i].plan_us > 0))
            return "earlier runs rule out all arms that the schedule has";
    if (r->ledgers.n == 0 && run->end.status != 0 && !run->end.is_limited)
        return "the job ended before NCCL loaded the plugin";
    if (r->ledgers.n == 0)
        return "NCCL did not load the plugin: the job made no communicator in "
               "that time (imports may take longer), went on after its command "
               "ended, sets NCCL_TUNER_PLUGIN itself, or `steptune doctor` "
               "says why";
    if (r->last.has_graphs)
        return "the job's collectives are captured into CUDA graphs, for "
               "which NCCL asks a tuner once: nothing can be tried in their "
               "replays. `steptune compare --policy none,FILE -- COMMAND` "
               "measures a policy between runs, such as one of `steptune "
               "tune` without a command, and `steptune compare --stage "
               "none,all -- COMMAND` staged collectives";
    for (size_t i = 0; i < r->ledgers.n; i++) {
        const char *what = r->ledgers.all[i].what;
        const size_t n = strlen(STP_NOT_LEARNED);

        if (r->ledgers.all[i].is_aside && r->last.n == 0)
            snprintf(text, STP_CLI_PATH, "the plugin stepped aside: %s", what);
        else if (strncmp(what, STP_NOT_LEARNED, n) == 0)
            snprintf(text, STP_CLI_PATH, "the plugin could not learn: %.*s",
                     (int)strcspn(what + n, ";"), what + n);
        else
            continue;
        return text;
    }
    if (r->last.n_alone > 0)
        return "the job's collectives repeat no sequence often enough in a "
               "row, so there is no equal work to compare: let five steps "
               "follow each other without other collectives, such as those of "
               "logs, or compare whole runs by `steptune compare --env "
               "NCCL_PROTO=unset,LL128 -- COMMAND`";
    if (stat(run->journal, &st) != 0 || st.st_size == 0) {
        snprintf(text, STP_CLI_PATH + 64,
                 "%s was not written (a full disk?), or removed", run->journal);
        return text;
    }
    if (r->last.n == 0)
        return "the job made no collective that a tuner decides on (it may "
               "still load or compile, and sends and receives are none), or on "
               "no communicator whose ranks can learn: let it run longer, or "
               "NCCL_DEBUG=WARN says why";
    for (size_t i = 0; i < r->last.n; i++)
        is_open |= !r->last.keys[i].is_settled;
    for (size_t i = 0; i < r->last.n_sets; i++)
        is_open |= r->last.sets[i].has_plan;
    if (!is_open)
        return "no kind of message has another arm to try: sums keep their "
               "bits (--bits same), NCCL's variables leave one choice, or what "
               "collectives take is too little to count";
    snprintf(text, STP_CLI_PATH + 64,
             "in that time the job made too few collectives to be compared: it "
             "may still load or compile, so try --for %us",
             2 * run->job->limit_s);
    if (run->end.is_limited && !run->is_full)
        return text;
    return run->end.status != 0 && !run->end.is_limited
               ? "the job failed before it had made enough collectives for "
                 "anything to be compared: its own messages say why"
               : "the job made too few collectives for anything to be "
                 "compared: let it run longer";
}

/* In 'text' if that is a signal; NULL: it ended by itself. */
static const char *job_ended_by(const struct job_run *run, char text[64])
{
    const int signal = run->end.signal != 0 ? run->end.signal
                                            : run->end.status - STP_JOB_SIGNAL;

    if (run->end.is_limited)
        return run->is_full      ? "more than 1 GiB of output"
               : run->is_settled ? "--until"
                                 : "--for";
    if (signal <= 0 || signal > SIGRTMAX)
        return NULL;
    snprintf(text, 64, "signal %d (%s)", signal, strsignal(signal));
    return text;
}

static void job_print_end(const struct job_run *run, FILE *fp)
{
    const int64_t start_ms = run->first_ms - run->begin_ms;
    char text[64];
    const char *by = job_ended_by(run, text);

    fprintf(fp, "The job ran for %.1f s", run->end.wall_s);
    if (start_ms >= TOLD_START_MS)
        fprintf(fp,
                ", of which %.0f s passed before its first communicator "
                "(imports and the like)",
                (double)start_ms / 1e3);
    if (by != NULL)
        fprintf(fp, ", until %s ended it", by);
    else if (run->end.status != 0)
        fprintf(fp, " and ended with status %d", run->end.status);
    if (run->end.is_limited)
        fprintf(fp, "; what it printed is in %s.job.txt", run->job->output);
    fputs(".\n", fp);
}

static void job_print(const struct job_run *run, const struct job_result *r,
                      bool is_saved)
{
    char stage[STP_CLI_PATH + 16], limit[32] = "";
    const size_t n = r->rules.n;
    bool is_sure = true;

    job_print_end(run, stdout);
    putchar('\n');
    for (size_t i = 0; i < r->rules.n_totals; i++)
        is_sure &= r->rules.totals[i].gain.low > 1;
    if (n > 0) /* the answer comes first */
        printf("%zu rule%s won %s.  ", n, n == 1 ? "" : "s",
               is_sure ? "beyond doubt" : "in windows of equal work");
    stp_job_totals_write(&r->rules, "", stdout);
    if (n == 0)
        puts("No arm makes the step shorter beyond doubt: the choice without "
             "Steptune stays.");
    stp_print_learned_keys(&r->last, NULL, stdout);
    if (!is_saved)
        return;
    putchar('\n');
    printf("Wrote %s (%zu rule%s).\n", run->job->output, n, n == 1 ? "" : "s");
    if (n > 0)
        printf("Run the job with it:  %ssteptune run --policy %s -- %s\n",
               run->overlaps ? "env -u NCCL_WORKLOAD_OVERLAP " : "",
               STP_JOB_WORD(run->job->output), run->command);
    if (n > 0 || stp_bounds_may_narrow(&r->last))
        printf("Measure for longer:   steptune tune --resume -o %s -- %s\n",
               STP_JOB_WORD(run->job->output), run->command);
    /* what stages cannot change within a run */
    snprintf(stage, sizeof(stage), "%s" STP_STAGE_SUFFIX, run->job->output);
    if (access(stage, F_OK) != 0)
        strcpy(stage, n > 0 || run->job->same_bits ? "" : "none,all");
    if (run->job->limit_s > 0)
        snprintf(limit, sizeof(limit), " --for %us", run->job->limit_s);
    if (stage[0] != '\0' && run->job->runs == 0)
        printf("Stage, run by run:    steptune compare --stage %s%s -- %s\n",
               STP_JOB_WORD(stage), limit, run->command);
}

/* A run in which nothing was compared leaves the policy as it is. */
static int job_finish(struct job_run *run, const struct job_result *r)
{
    const struct stp_job_origin origin = {
        .command = run->command,
        .gpu = r->gpu,
        .is_portable = run->job->portable,
        .same_bits = run->job->same_bits,
    };
    char text[STP_CLI_PATH + 64];
    const char *why = job_explain(run, r, text);
    enum stp_status status = STP_OK;
    struct stp_error err;

    run->has_answer = why == NULL;
    if (why == NULL) {
        status = stp_policy_back_up(run->job->output, run->backup, &err);
        STP_THEN(status, stp_job_rules_save(&r->rules, &origin,
                                            run->job->output, &err));
        if (status == STP_OK && run->backup[0] != '\0')
            stp_complain(STP_POLICY_KEPT, run->job->output, run->backup);
        /* a full disk takes the policy, and not the answer */
        if (!run->job->json)
            job_print(run, r, status == STP_OK);
    }
    if (run->job->json) {
        const char *no_policy = status == STP_OK ? why : err.text;
        char by[64];

        run->json = cJSON_CreateObject();
        stp_json_word(run->json, "command", run->command);
        stp_json_word(run->json, "policy",
                      no_policy == NULL ? run->job->output : NULL);
        stp_json_word(run->json, "why_no_policy", no_policy);
        stp_json_number(run->json, "seconds", run->end.wall_s);
        stp_json_number(run->json, "status", run->end.status);
        stp_json_word(run->json, "ended_by", job_ended_by(run, by));
        stp_json_number(run->json, "comparisons", (double)r->last.n_blocks);
        stp_json_job_rules(run->json, &r->rules);
        stp_json_learned_keys(run->json, &r->last);
    }
    if (status != STP_OK)
        return stp_complain_error(NULL, &err);
    if (why == NULL)
        return STP_EXIT_OK;
    job_print_end(run, stderr);
    stp_print_headroom(&r->last, stderr);
    return stp_complain("nothing was learned, and no policy is written: %s",
                        why);
}

/* Whether a launcher started this process with another rank than 0, or its
 * command starts another node than the first: rank 0's process writes what all
 * find out.  *is_there_ret: it is on this host. */
static bool job_is_of_rank_0(char **argv, bool *is_there_ret)
{
    static const char name[] = "--node-rank";
    const struct stp_launcher *launcher = stp_find_launcher();
    unsigned rank, size;
    const char *local;

    if (stp_launched_as(&rank, &size)) {
        local =
            launcher->local_rank != NULL ? getenv(launcher->local_rank) : NULL;
        *is_there_ret = local != NULL && strtoul(local, NULL, 10) == rank;
        return rank == 0;
    }
    *is_there_ret = false;
    for (; argv[0] != NULL; argv++) {
        const char *n = argv[0] + strlen(name);

        if (strncmp(argv[0], name, strlen(name)) != 0 &&
            strncmp(argv[0], "--node_rank", strlen(name)) != 0)
            continue;
        n = *n == '=' ? n + 1 : *n == '\0' ? argv[1] : NULL;
        if (n != NULL && strtoul(n, NULL, 10) > 0)
            return false;
    }
    return true;
}

/* Runs the job beside that of rank 0. */
static int job_follow(struct job_run *run, bool is_there)
{
    int exit_status = job_name_files(run);

    if (exit_status == STP_EXIT_OK && !is_there)
        run->journal[0] = '\0';
    snprintf(run->output, STP_PATH_SIZE, "%.4000s/job.txt", run->folder);
    STP_THEN(exit_status, job_run(run));
    stp_folder_remove(run->folder);
    return exit_status == STP_EXIT_OK ? run->end.status : exit_status;
}

enum { N_CHOICES = 5, MIN_ROUNDS = 2, MAX_WORDS = 4096 };

/* Runs the job up to 'runs' times more, as `steptune compare` does: NCCL alone,
 * and what cannot change within a process, staged collectives where there is a
 * policy of them beside the output, the policy if the job has just learned it,
 * and variables of NCCL.  With same_bits the policy alone.  The comparison is
 * printed, or becomes a member of 'json'.  Returns the exit status. */
static int job_run_again(const struct stp_tune_job *job, bool has_learned,
                         cJSON *json)
{
    char stage[STP_CLI_PATH];
    /* In the order in which they are left out for want of runs, the last one
     * first.  Each differs from NCCL alone in one thing. */
    const struct {
        int list; /* of an option's values */
        const char *option, *none, *file;
        const char *value; /* NULL: the file */
    } choices[N_CHOICES] = {
        {0, "--stage", "none", stage, NULL},
        {1, "--policy", "none", job->output, NULL},
        {0, "--stage", "none", NULL, "all"},
        {2, "--env", "NCCL_MIN_CTAS=unset", NULL, "32"},
        {3, "--env", "NCCL_NVLS_ENABLE=unset", NULL, "0"},
    };
    char lists[N_CHOICES][STP_CLI_PATH + 64] = {""}, *list, rounds[32],
                                         limit[32];
    char *words[MAX_WORDS] = {"steptune compare"};
    int n = 1;
    unsigned n_arms = 1;
    char *text = NULL;
    size_t len;
    FILE *fp = stdout;
    int exit_status;

    snprintf(stage, sizeof(stage), "%s" STP_STAGE_SUFFIX, job->output);
    for (int i = 0; i < N_CHOICES; i++) {
        const char *file = choices[i].file;
        const bool is_policy = file == job->output;

        if ((file != NULL && access(file, R_OK) != 0) ||
            (is_policy && !has_learned) || (!is_policy && job->same_bits) ||
            2 * MIN_ROUNDS * (n_arms + 1) > job->runs)
            continue;
        list = lists[choices[i].list];
        if (list[0] == '\0') {
            snprintf(list, sizeof(lists[0]), "%s=%s", choices[i].option,
                     choices[i].none);
            words[n++] = list;
        }
        snprintf(list + strlen(list), sizeof(lists[0]) - strlen(list), ",%s",
                 file != NULL ? file : choices[i].value);
        n_arms++;
    }
    if (job->same_bits && !has_learned)
        return stp_complain("--runs with --bits same compares the learned "
                            "policy alone, and the job learned none");
    if (job->same_bits)
        stp_complain("--bits same: the learned policy alone is compared, as "
                     "staging, more CTAs and no NVLS may change the order in "
                     "which sums add");
    if (n_arms == 1)
        return stp_complain("--runs %u: no arm can be compared in %d rounds of "
                            "two runs each, expected %d or more",
                            job->runs, MIN_ROUNDS, 4 * MIN_ROUNDS);
    snprintf(rounds, sizeof(rounds), "--rounds=%u", job->runs / (2 * n_arms));
    words[n++] = rounds;
    if (job->limit_s > 0) {
        snprintf(limit, sizeof(limit), "--for=%us", job->limit_s);
        words[n++] = limit;
    }
    if (job->json)
        words[n++] = "--json";
    words[n++] = "--";
    for (char **word = job->argv; *word != NULL; word++) {
        if (n + 1 == MAX_WORDS)
            return stp_complain("--runs: the command has more than %d words",
                                MAX_WORDS - N_CHOICES - 6);
        words[n++] = *word;
    }
    if (json != NULL)
        fp = stp_take_text(&text, &len);
    exit_status = stp_compare_into(n, words, fp);
    if (json != NULL) {
        stp_end_text(fp);
        cJSON_AddItemToObject(json, "compared", cJSON_Parse(text));
        free(text);
    }
    return exit_status;
}

int stp_tune_job(const struct stp_tune_job *job)
{
    struct job_run run = {
        .job = job, .is_ended = job->limit_s > 0 || job->until > 0, .echo = -1};
    struct stp_tune_job again = *job;
    struct job_result result = {0};
    const char *overlap = stp_setting("NCCL_WORKLOAD_OVERLAP");
    struct stp_lock lock;
    struct stp_error err;
    int exit_status;
    bool is_there, has_run = false, has_learned;

    run.is_of_rank_0 = job_is_of_rank_0(job->argv, &is_there);
    if (job->runs > 0 &&
        (!run.is_of_rank_0 || stp_launched_by() != STP_LAUNCHED_BY_HAND))
        return stp_refuse_launcher("steptune tune --runs 8 -- torchrun "
                                   "train.py");
    if (job->runs > 0 &&
        (strchr(job->output, ',') != NULL || strcmp(job->output, "none") == 0 ||
         strcmp(job->output, "nccl") == 0))
        return stp_complain("--runs with -o '%s', expected a file whose name "
                            "has no comma and is not none or nccl, as lists of "
                            "`steptune compare` have these",
                            job->output);
    stp_job_print_command(job->argv, run.command);
    run.overlaps = overlap != NULL && strcmp(overlap, "0") != 0;
    if (run.overlaps && run.is_of_rank_0)
        stp_complain("NCCL_WORKLOAD_OVERLAP=%s is unset for the job: with it "
                     "the plugin would not take %s",
                     overlap, job->output);
    if (run.overlaps)
        stp_set_variable("NCCL_WORKLOAD_OVERLAP", NULL);
    if (stp_find_plugin("steptune-online", run.plugin, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    if (!run.is_of_rank_0)
        return job_follow(&run, is_there);
    stp_job_hold_signals();
    if (stp_lock_take(job->output, false, &lock, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    exit_status = job_name_files(&run);
    STP_THEN(exit_status, job_begin_journal(&run));
    STP_THEN(exit_status, job_run(&run));
    if (exit_status == STP_EXIT_OK) {
        has_run =
            run.end.signal == 0 && (run.end.status == 0 || run.end.is_limited);
        exit_status = job_sum_up(&run, &result);
        STP_THEN(exit_status, job_finish(&run, &result));
        if (exit_status == STP_EXIT_OK && run.end.status != 0 &&
            !run.end.is_limited && run.end.signal == 0)
            exit_status =
                stp_complain("the job failed with status %d", run.end.status);
    }
    if (job->resume)
        unlink(run.evidence);
    if (run.earlier[0] != '\0' && !run.has_answer)
        rename(run.earlier, run.journal);
    else if (run.earlier[0] != '\0' && !run.keeps_earlier)
        unlink(run.earlier);
    has_learned = exit_status == STP_EXIT_OK && result.rules.n > 0;
    stp_job_rules_free(&result.rules);
    stp_ledgers_free(&result.ledgers);
    stp_learning_free(&result.all);
    stp_learning_free(&result.last);
    stp_folder_remove(run.folder);
    stp_lock_release(&lock);
    if (run.is_settled && job->limit_s == 0) /* it may never end by itself */
        again.limit_s = (unsigned)ceil(run.end.wall_s);
    if (job->runs > 0 && has_run)
        exit_status = job_run_again(&again, has_learned, run.json);
    if (run.json != NULL)
        stp_json_finish(run.json, stdout);
    return exit_status;
}
