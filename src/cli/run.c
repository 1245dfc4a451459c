/* run.c - `steptune run` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/traces/traces.h"
#include "cli/cli.h"
#include "child/job.h"
#include "core/policy/memory_policy.h"
#include "core/text.h"
#include "launch/take.h"
#include "plugin/lower.h"
#include "plugin/online/learned_file.h"
#include "plugin/online/online_settings.h"
#include "plugin/online/recorder.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/learning/journal.h"
#include "report/learning/learning.h"
#include "report/learning/ledgers.h"

#define DEFAULT_POLICY "steptune.conf"

/* A job that learns. */
struct online_run {
    const char *strategy;  /* NULL: as the environment says */
    const char *objective; /* likewise */
    struct stp_online_settings settings;
    char base[STP_PATH_SIZE]; /* the policy to begin with; "": none */
    size_t journal_from;      /* bytes that were there before the job */
    struct stat before;       /* the learned policy; st_ino 0: there was none */
};

struct run_options {
    const char *policy;  /* NULL: see run_find_policy() */
    const char *trace;   /* NULL: none is recorded */
    off_t trace_size;    /* before the job */
    bool is_trace_new;   /* it was made for the job */
    const char *stage;   /* NULL: nothing is staged; "": see run_set_stage() */
    const char *nccl;    /* NULL: the job is linked with it */
    const char *metrics; /* NULL: none are written */
    char rules[STP_CLI_PATH]; /* of what is staged */
    bool json;
    bool quiet;
    bool online;
    struct online_run run;        /* if so */
    struct stp_arguments command; /* NULL behind the last */
};

#define AT(member) offsetof(struct run_options, member)

static const char *const strategies[] = {"halving", "epsilon", NULL};
static const char *const objectives[] = {"auto", "gpu", "file", NULL};

static const struct stp_option run_table[] = {
    {"policy", 0, "FILE", stp_option_text, AT(policy), .path = STP_PATH_READ},
    {"online", 0, NULL, stp_option_flag, .at = AT(online)},
    {"strategy", 0, "NAME", stp_option_text, AT(run.strategy),
     .words = strategies, .needs.with = "online"},
    {"objective", 0, "NAME", stp_option_text, AT(run.objective),
     .words = objectives, .needs.with = "online"},
    {"record-trace", 0, "FILE", stp_option_text, AT(trace),
     .path = STP_PATH_WRITE, .over = "a trace of `steptune run`"},
    {"stage", 0, "FILE", stp_option_text, AT(stage), .bare = "",
     .path = STP_PATH_READ},
    {"nccl", 0, "FILE", stp_option_text, AT(nccl), .path = STP_PATH_READ,
     .needs.with = "stage"},
    {"metrics", 0, "FILE", stp_option_text, AT(metrics), .path = STP_PATH_WRITE,
     .over = "metrics of Steptune"},
    {"quiet", 'q', NULL, stp_option_flag, .at = AT(quiet)},
    {"json", 0, NULL, stp_option_flag, AT(json), .needs.without = {"quiet"}},
    {0},
};

static const struct stp_command_line run_line = {
    .groups = (const struct stp_option_group[]){{.options = run_table}, {0}},
    .args_doc = "[--] COMMAND [ARGUMENT...]",
    .arguments = AT(command),
    .none = "no command, expected one such as `-- torchrun train.py`",
    .is_in_order = true,
};

/* ---- variables of the job ---- */

/* Finds what a job has for a variable before this command sets it: as it is
 * here, or in nccl.conf; false: nothing. */
static bool run_find_before(const char *name, struct stp_conf_value *before)
{
    if (!stp_job_has(name))
        return stp_find_conf(name, before);
    snprintf(before->value, sizeof(before->value), "%s", getenv(name));
    before->where[0] = '\0';
    return true;
}

/* Sets NCCL_TUNER_PLUGIN or NCCL_PROFILER_PLUGIN, and says so if that replaces
 * another one.  Ours asks the tuner that was there first, unless
 * STEPTUNE_CHAIN has another; it finds that of nccl.conf itself. */
static void run_set_plugin(const char *name, const char *plugin)
{
    const char *chain = stp_chain_setting(), *displaced = getenv(name);
    struct stp_conf_value before;
    bool moves, asks;

    if (!run_find_before(name, &before) || strcmp(before.value, plugin) == 0) {
        stp_set_variable(name, plugin);
        return;
    }
    asks = strcmp(name, "NCCL_TUNER_PLUGIN") == 0 &&
           stp_lower_setting(NULL, before.value) != NULL;
    moves = asks && chain != NULL && chain == displaced;
    asks &= moves || (before.where[0] != '\0' &&
                      (chain == NULL || strcasecmp(chain, "auto") == 0));
    stp_complain("%s=%s%s%s is replaced for this job%s%s", name, before.value,
                 before.where[0] != '\0' ? " in " : "", before.where,
                 moves ? ", and goes to STEPTUNE_CHAIN" : "",
                 !asks ? ""
                 : strcasecmp(before.value, "none") == 0
                     ? ": no tuner is asked first"
                     : ": that is asked first, and decides where no rule "
                       "applies");
    if (moves)
        stp_set_variable("STEPTUNE_CHAIN", before.value);
    stp_set_variable(name, plugin);
}

/* Puts a path in front of those that a variable has. */
static void run_set_before(const char *name, const char *path)
{
    const char *before = stp_job_has(name) ? getenv(name) : "";
    const size_t size = strlen(path) + strlen(before) + 2;
    char *text = stp_take(size, 1);

    snprintf(text, size, "%s%s%s", path, before[0] != '\0' ? ":" : "", before);
    stp_set_variable(name, text);
    free(text);
}

/* ---- --online ---- */

/* Sets the environment of the learning plugin: begins with the policy at
 * 'policy' ("": none), writes what is learned into this folder, wherever the
 * job goes, and keeps a journal in the folder 'folder' ("": none), unless the
 * user has them elsewhere.  Complains, and returns the exit status. */
static int online_begin(struct online_run *run, const char *policy,
                        const char *folder)
{
    char learned[STP_CLI_PATH] = "", journal[STP_CLI_PATH + 16] = "";
    const struct stp_job_variable words[] = {
        {"STEPTUNE_STRATEGY", run->strategy},
        {"STEPTUNE_OBJECTIVE", run->objective},
        {"STEPTUNE_WARM_START", policy},
        {"STEPTUNE_LEARNED", learned},
        {"STEPTUNE_JOURNAL", journal},
    };
    static const char name[] = "/steptune.learned.conf";
    struct stp_plugin_settings settings;
    struct stp_error err;
    const char *base;

    if (!stp_job_has("STEPTUNE_LEARNED")) {
        if (getcwd(learned, sizeof(learned) - sizeof(name)) == NULL)
            return stp_complain("no path of the working directory");
        strcat(learned, name);
    }
    if (folder[0] != '\0' && !stp_job_has("STEPTUNE_JOURNAL"))
        snprintf(journal, sizeof(journal), "%s/journal.csv", folder);
    for (size_t i = 0; i < STP_N_OF(words); i++)
        if (words[i].value != NULL && words[i].value[0] != '\0')
            stp_set_variable(words[i].name, words[i].value);
    if (stp_online_settings_read(0, &run->settings, &err) != STP_OK ||
        stp_settings_read(&settings, &err) != STP_OK ||
        stp_learned_check(run->settings.learned, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    base = stp_online_base(&run->settings, &settings);
    snprintf(run->base, sizeof(run->base), "%s", base != NULL ? base : "");
    run->journal_from = stp_journal_prepare(run->settings.journal);
    if (stat(run->settings.learned, &run->before) != 0)
        run->before.st_ino = 0; /* no earlier job left it */
    return STP_EXIT_OK;
}

/* Reads what was learned, to be freed with stp_learning_free(), and how. */
static enum stp_status online_end(const struct online_run *run,
                                  const struct stp_ledgers *ledgers,
                                  struct stp_learning *learning_ret,
                                  struct stp_learning_setting *setting_ret,
                                  struct stp_error *err)
{
    const struct stp_learner_rules *rules = &run->settings.rules;
    const struct stat *before = &run->before;
    struct stat now;
    /* the plugin writes it anew, under its name in one step */
    const bool has_learned = stat(run->settings.learned, &now) == 0 &&
                             (now.st_ino != before->st_ino ||
                              now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
                              now.st_mtim.tv_nsec != before->st_mtim.tv_nsec);
    struct stp_journal_lines lines;

    for (size_t i = 0; i < ledgers->n; i++)
        if (strncmp(ledgers->all[i].what, "learns", 6) == 0 &&
            (access(run->settings.journal, W_OK) != 0 ||
             (stat(run->settings.journal, &now) == 0 && S_ISREG(now.st_mode) &&
              now.st_size == 0)))
            return stp_fail(err, STP_ERR_IO,
                            "was not written (no folder, or a full disk?), so "
                            "what was learned is not known");
    STP_TRY(stp_journal_load(run->settings.journal, run->journal_from, &lines,
                             err));
    stp_learning_sum(&lines, learning_ret);
    stp_journal_free(&lines);
    *setting_ret = (struct stp_learning_setting){
        .strategy = stp_strategy_name(rules->bandit.strategy),
        .objective = stp_learn_objective_name(rules->objective),
        .policy = has_learned ? run->settings.learned : NULL,
        .base = run->base[0] != '\0' ? run->base : NULL,
    };
    /* with which several hosts begin if there is no policy */
    if (setting_ret->base == NULL && run->settings.warm_start[0] == '\0' &&
        before->st_ino != 0 && learning_ret->n > 0 &&
        learning_ret->keys[0].n_nodes > 1)
        setting_ret->base = run->settings.learned;
    return STP_OK;
}

/* ---- before the job ---- */

/* The absolute path of the policy that the job is to use, which must be one: of
 * the options, the environment or the working directory; "" if there is none
 * and none is needed. */
static int run_find_policy(const struct run_options *o, char path[STP_CLI_PATH])
{
    static const char *const names[] = {DEFAULT_POLICY, "nccl_tuner.conf"};
    const char *name = o->policy;
    struct stp_conf_value file;
    struct stp_policy *policy;
    struct stp_error err;

    path[0] = '\0';
    if (name == NULL && o->online && stp_job_has("STEPTUNE_WARM_START"))
        name = getenv("STEPTUNE_WARM_START");
    if (name == NULL && run_find_before("NCCL_TUNER_CONFIG_FILE", &file))
        name = file.value;
    for (int i = 0; i < (o->online ? 2 : 1) && name == NULL; i++)
        if (access(names[i], F_OK) == 0)
            name = names[i];
    if (name == NULL && (o->online || o->trace != NULL || o->stage != NULL))
        return STP_EXIT_OK;
    if (name == NULL)
        return stp_complain("no policy, expected --policy FILE, "
                            "NCCL_TUNER_CONFIG_FILE or a " DEFAULT_POLICY
                            " here");
    if (stp_policy_load(STP_POLICY_OF_ARMS, name, &policy, &err) != STP_OK)
        return stp_complain_error(name, &err);
    stp_policy_free(policy);
    if (!stp_absolute_path(name, path))
        return stp_complain("%s: no such file", name);
    return STP_EXIT_OK;
}

/* Leaves the policy's path to be the file that the plugin takes. */
static int run_set_tuner(struct run_options *o, char policy[STP_CLI_PATH],
                         const char *folder)
{
    char plugin[STP_CLI_PATH];
    struct stp_error err;

    if (stp_find_plugin(o->online ? "steptune-online" : "steptune", plugin,
                        &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    run_set_plugin("NCCL_TUNER_PLUGIN", plugin);
    if (folder[0] != '\0')
        stp_set_variable("STEPTUNE_LEDGER", folder);
    if (!o->online) {
        stp_set_variable("NCCL_TUNER_CONFIG_FILE", policy);
        return stp_check_policy(policy);
    }
    run_set_plugin("NCCL_PROFILER_PLUGIN", plugin);
    return online_begin(&o->run, policy, folder);
}

/* Makes an empty trace unless one is there: the ranks append to it. */
static int run_set_trace(struct run_options *o)
{
    char absolute[STP_CLI_PATH];
    char plugin[STP_CLI_PATH];
    struct stp_error err;
    struct stat st;
    FILE *fp;

    if (stp_file_is_special(o->trace))
        return stp_complain("%s is a device or a pipe, expected a file",
                            o->trace);
    if (stp_find_plugin("steptune-online", plugin, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    o->is_trace_new = stat(o->trace, &st) != 0;
    fp = fopen(o->trace, "a+e");
    if (fp != NULL && fseek(fp, -1, SEEK_END) == 0 && fgetc(fp) != '\n') {
        fclose(fp);
        return stp_complain("--record-trace: %s ends within a line (a full "
                            "disk?), expected a whole trace, or a new file",
                            o->trace);
    }
    if (fp == NULL || fclose(fp) != 0 || stat(o->trace, &st) != 0 ||
        !stp_absolute_path(o->trace, absolute)) {
        stp_cannot(&err, "write", o->trace);
        return stp_complain_error(NULL, &err);
    }
    o->trace_size = st.st_size;
    run_set_plugin("NCCL_PROFILER_PLUGIN", plugin);
    stp_set_variable("STEPTUNE_TRACE", absolute);
    return STP_EXIT_OK;
}

/* Puts the staging library in front of NCCL: before all libraries, for programs
 * that are linked with NCCL.  For others it must also be the first that was
 * loaded under NCCL's name, since a program may load its own NCCL by a path and
 * then open that name, as JAX does; NCCL behind it has what it lacks. */
static int run_set_stage(struct run_options *o, const char *folder)
{
    const char *rules = o->stage, *word = o->command.v[0];
    const char *suffix = strrchr(word, '.');
    char library[STP_CLI_PATH + 16], nccl[STP_CLI_PATH] = "";
    char front[3 * STP_CLI_PATH];

    if (rules[0] == '\0' &&
        (strcmp(word, "all") == 0 ||
         (suffix != NULL && strcmp(suffix, STP_STAGE_SUFFIX) == 0)))
        return stp_complain("--stage %s, expected it in one word: --stage=%s",
                            word, word);
    if (rules[0] == '\0')
        rules = stp_job_has("STEPTUNE_STAGE_FILE")
                    ? getenv("STEPTUNE_STAGE_FILE")
                    : DEFAULT_POLICY STP_STAGE_SUFFIX;
    if (o->nccl != NULL && !stp_absolute_path(o->nccl, nccl))
        return stp_complain("--nccl: no file '%s', expected a libnccl.so.2",
                            o->nccl);
    if (o->nccl != NULL && stp_check_preload(nccl) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    if (stp_find_staging(rules, o->rules, library) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    snprintf(front, sizeof(front),
             o->nccl != NULL ? "%s:libnccl.so.2:%s" : "%s", library, nccl);
    run_set_before("LD_PRELOAD", front);
    stp_set_variable("STEPTUNE_STAGE_FILE", o->rules);
    if (folder[0] != '\0')
        stp_set_variable("STEPTUNE_STAGE_REPORT", folder);
    /* else the linker's next one */
    stp_set_variable("STEPTUNE_NCCL", o->nccl != NULL ? nccl : NULL);
    if (o->nccl == NULL)
        return STP_EXIT_OK;
    /* LIBDIR/steptune/stage has nothing but a link with NCCL's name */
    strcpy(strrchr(library, '/'), "/steptune/stage");
    run_set_before("LD_LIBRARY_PATH", library);
    strcat(library, "/libnccl.so.2");
    stp_set_variable("VLLM_NCCL_SO_PATH", library);
    return STP_EXIT_OK;
}

/* ---- after the job ---- */

/* Reports on standard error, also of the plugin if it 'has_tuner'.  Where the
 * journal or a report of staged collectives cannot be read, the rest is. */
static void run_report(const struct run_options *o, const char *policy,
                       bool has_tuner, const char *folder)
{
    FILE *fp = stp_guard_output(STDERR_FILENO);
    struct stp_learning learning = {0};
    struct stp_learning_setting setting = {0};
    struct stp_ledgers ledgers = {0};
    struct stp_staged staged = {0};
    struct stp_error err;
    const struct stp_learning *learned = NULL;
    bool is_staged = o->stage != NULL;
    enum stp_status status =
        fp != NULL ? stp_ledgers_load(folder, &ledgers, &err) : stp_nomem(&err);

    if (status == STP_OK && o->online) {
        if (online_end(&o->run, &ledgers, &learning, &setting, &err) == STP_OK)
            learned = &learning;
        else
            stp_complain_error(o->run.settings.journal, &err);
    }
    if (is_staged && stp_staged_load(folder, o->rules, &staged, &err) != STP_OK)
        is_staged = stp_complain_error(NULL, &err) == STP_EXIT_OK;
    if (status == STP_OK && (o->json || has_tuner)) {
        if (!o->json)
            fprintf(fp, "%s: ", stp_command_name);
        stp_print_ledgers(&ledgers, policy[0] != '\0' ? policy : NULL, learned,
                          &setting, is_staged ? &staged : NULL, o->json, fp);
        if (!o->json && learned != NULL && ledgers.n > 0)
            stp_print_learning(learned, &setting, fp);
    }
    if (status == STP_OK && is_staged && !o->json) {
        fprintf(fp, "%s: ", stp_command_name);
        stp_print_staged(&staged, NULL, fp);
    }
    if (fp != NULL)
        fclose(fp);
    stp_learning_free(&learning);
    stp_ledgers_free(&ledgers);
    free(staged.calls);
    if (status != STP_OK)
        stp_complain_error(NULL, &err);
}

/* A job whose counters are written while it runs. */
struct run_metrics {
    const struct run_options *o;
    const char *folder;
    unsigned n_s; /* that it has run */
};

static enum stp_status run_write_metrics(const struct run_metrics *m,
                                         struct stp_error *err)
{
    struct stp_ledgers ledgers = {0};
    struct stp_staged staged = {0};
    const bool is_staged = m->o->stage != NULL;
    enum stp_status status = stp_ledgers_load(m->folder, &ledgers, err);
    struct stp_file file;

    if (is_staged)
        STP_THEN(status, stp_staged_load(m->folder, m->o->rules, &staged, err));
    STP_THEN(status, stp_file_begin(m->o->metrics, &file, err));
    if (status == STP_OK) {
        stp_print_ledgers_metrics(&ledgers, is_staged ? &staged : NULL,
                                  file.fp);
        status = stp_file_commit(&file, err);
    }
    free(staged.calls);
    stp_ledgers_free(&ledgers);
    return status;
}

static bool run_count_second(void *user)
{
    struct run_metrics *m = user;
    struct stp_error unsaid; /* the last one is said */

    if (++m->n_s % 15 == 0)
        run_write_metrics(m, &unsaid);
    return true;
}

int stp_cmd_run(int argc, char **argv)
{
    struct run_options o = {0};
    char policy[STP_CLI_PATH];
    char folder[STP_CLI_PATH] = "";
    struct run_metrics metrics = {.o = &o, .folder = folder};
    bool has_tuner, is_counted;
    int exit_status;

    stp_options_read(&run_line, argc, argv, &o);
    exit_status = run_find_policy(&o, policy);
    has_tuner = policy[0] != '\0' || o.online; /* else NCCL chooses */
    if (exit_status == STP_EXIT_OK && (!o.quiet || o.metrics != NULL) &&
        !stp_make_temporary("steptune-run", folder)) {
        stp_complain("what is decided will not be told");
        folder[0] = '\0';
    }
    if (exit_status == STP_EXIT_OK && has_tuner)
        exit_status = run_set_tuner(&o, policy, folder);
    if (exit_status == STP_EXIT_OK && o.stage != NULL)
        exit_status = run_set_stage(&o, folder);
    if (exit_status == STP_EXIT_OK && o.trace != NULL)
        exit_status = run_set_trace(&o);
    is_counted = o.metrics != NULL && folder[0] != '\0';
    if (exit_status == STP_EXIT_OK) {
        const struct stp_job job = {.argv = o.command.v,
                                    .goes_on =
                                        is_counted ? run_count_second : NULL,
                                    .user = &metrics,
                                    .say = stp_complain};
        struct stp_job_end end = {.status = STP_EXIT_FAILED};
        struct stp_trace trace;
        struct stp_error err;
        struct stat st;
        char beside[STP_CLI_PATH];
        bool has_run;

        if (is_counted && run_write_metrics(&metrics, &err) != STP_OK)
            stp_complain_error(NULL, &err); /* the job does without */
        /* the learning plugin writes its gains beside the file */
        if (is_counted && !stp_job_has("STEPTUNE_METRICS") &&
            stp_absolute_path(o.metrics, beside)) {
            strrchr(beside, '/')[0] = '\0';
            stp_set_variable("STEPTUNE_METRICS", beside);
        }
        has_run = stp_job_run(&job, &end, &err) == STP_OK;
        if (!has_run ||
            (is_counted && run_write_metrics(&metrics, &err) != STP_OK))
            stp_complain_error(NULL, &err);
        if (has_run && folder[0] != '\0' && !o.quiet &&
            (has_tuner || o.stage != NULL))
            run_report(&o, policy, has_tuner, folder);
        if (!has_run && o.is_trace_new)
            unlink(o.trace);
        if (has_run && o.trace != NULL &&
            (stat(o.trace, &st) != 0 || st.st_size == o.trace_size)) {
            stp_complain("no collective of the job is in %s, expected one of "
                         "several ranks with NCCL 2.27 or later",
                         o.trace);
        } else if (has_run && o.trace != NULL &&
                   stp_traces_load(o.trace, &trace, &err) != STP_OK) {
            stp_complain_error(o.trace, &err); /* a full disk, say */
        } else if (has_run && o.trace != NULL) {
            if (!o.quiet && !o.json)
                stp_complain("%s has %zu collective%s of %zu communicator%s",
                             o.trace, trace.n_rows, STP_S(trace.n_rows),
                             trace.n_comms, STP_S(trace.n_comms));
            stp_trace_free(&trace);
        }
        exit_status = end.status;
    }
    stp_folder_remove(folder);
    return exit_status;
}
