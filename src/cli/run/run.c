/* run.c - `steptune run` */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run/run.h"
#include "report/learning/ledgers.h"

#define DEFAULT_POLICY "steptune.conf"

/* As shells have it. */
enum { EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

struct run_options {
    const char *policy; /* NULL: see run_find_policy() */
    bool json;
    bool quiet;
    bool online;
    struct stp_online_run run;    /* if so */
    struct stp_arguments command; /* NULL behind the last */
};

#define AT(member) offsetof(struct run_options, member)

static const char *const strategies[] = {"halving", "epsilon", NULL};
static const char *const objectives[] = {"auto", "step", "gpu", "file", NULL};

static const struct stp_option run_table[] = {
    {"policy", 0, "FILE", stp_option_text, AT(policy),
     .help = "Policy of the job (default: NCCL_TUNER_CONFIG_FILE, else "
             "steptune.conf)"},
    {"online", 0, NULL, stp_option_flag, AT(online),
     .help = "Learn while the job runs, from the policy if there is one, and "
             "say what was learned"},
    {"strategy", 0, "NAME", stp_option_text, AT(run.strategy),
     .words = strategies,
     .help = "Strategy of learning: halving (default) or epsilon"},
    {"objective", 0, "NAME", stp_option_text, AT(run.objective),
     .words = objectives,
     .help = "Times to learn from: auto (default), step, gpu or file"},
    {"quiet", 'q', NULL, stp_option_flag, AT(quiet),
     .help = "Print no report of the decisions"},
    {"json", 0, NULL, stp_option_flag, AT(json),
     .help = "Print the report as JSON"},
    {0},
};

static void run_check_options(void *options, struct argp_state *state)
{
    const struct run_options *o = options;

    if (!o->online && (o->run.strategy != NULL || o->run.objective != NULL))
        argp_error(state, "--strategy and --objective are of --online");
}

static const struct stp_command_line run_line = {
    .groups = (const struct stp_option_group[]){{.options = run_table}, {0}},
    .args_doc = "[--] COMMAND [ARGUMENT...]",
    .arguments = AT(command),
    .none = "no command, expected one such as `-- torchrun train.py`",
    .is_in_order = true,
    .check = run_check_options,
    .doc = "Runs a job with the tuner plugin and a policy, and says afterwards "
           "on standard error what was decided, on this host. Calls are "
           "NCCL's questions to the plugin: one for collectives that it puts "
           "together, and none for the replays of a CUDA graph. Signals and "
           "the exit status pass through.\vWith --online the plugin that "
           "learns takes the place of the one that applies a policy, and is "
           "NCCL's profiler, too. It begins with the policy, or with NCCL's "
           "own choice, and writes what it learned to steptune.learned.conf "
           "here (STEPTUNE_LEARNED names another file): a policy for jobs "
           "without --online. Everything it did goes to the file that "
           "STEPTUNE_JOURNAL names, which `steptune plot` draws.",
};

/* ---- before the job ---- */

/* A policy of the working directory; NULL if there is none. */
static const char *run_default_policy(const struct run_options *o)
{
    static const char *const names[] = {DEFAULT_POLICY, "nccl_tuner.conf"};

    for (int i = 0; i < (o->online ? 2 : 1); i++)
        if (access(names[i], F_OK) == 0)
            return names[i];
    return NULL;
}

static const char *run_name_policy(const struct run_options *o)
{
    static const char *const variables[] = {"STEPTUNE_WARM_START",
                                            "NCCL_TUNER_CONFIG_FILE"};

    if (o->policy != NULL)
        return o->policy;
    for (int i = o->online ? 0 : 1; i < 2; i++) {
        const char *set = getenv(variables[i]);

        if (set != NULL && set[0] != '\0')
            return set;
    }
    return run_default_policy(o);
}

/* The absolute path of the policy that the job is to use, which must be one; ""
 * if there is none and none is needed. */
static int run_find_policy(const char *command, const struct run_options *o,
                           char path[STP_CLI_PATH])
{
    const char *name = run_name_policy(o);
    struct stp_policy *policy;
    struct stp_error err;

    path[0] = '\0';
    if (name == NULL && o->online)
        return STP_EXIT_OK;
    if (name == NULL)
        return stp_complain(
            command, "no policy, expected --policy FILE, "
                     "NCCL_TUNER_CONFIG_FILE or a " DEFAULT_POLICY " here");
    if (stp_policy_load(name, &policy, &err) != STP_OK)
        return stp_complain_error(command, name, &err);
    stp_policy_free(policy);
    if (!stp_absolute_path(name, path))
        return stp_complain(command, "%s: no such file", name);
    return STP_EXIT_OK;
}

static bool run_make_folder(char path[STP_CLI_PATH])
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(path, STP_CLI_PATH, "%s/steptune-run-XXXXXX",
                     tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");

    return n > 0 && n < STP_CLI_PATH && mkdtemp(path) != NULL;
}

static void run_remove_folder(const char *path)
{
    char file[STP_CLI_PATH + 256];
    const struct dirent *entry;
    DIR *folder = opendir(path);

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.' &&
            snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) > 0)
            unlink(file);
    if (folder != NULL)
        closedir(folder);
    rmdir(path);
}

static int run_set_online(const char *command, struct run_options *o,
                          const char *plugin, const char *policy,
                          const char *folder)
{
    int status = stp_run_set_plugin(command, "NCCL_PROFILER_PLUGIN", plugin);

    return status == STP_EXIT_OK
               ? stp_run_online_begin(command, &o->run, policy, folder)
               : status;
}

static int run_set_environment(const char *command, struct run_options *o,
                               const char *policy, const char *folder)
{
    const char *name = o->online ? "steptune-online" : "steptune";
    char plugin[STP_CLI_PATH];
    struct stp_error err;
    int status;

    if (stp_find_plugin(name, plugin, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    status = stp_run_set_plugin(command, "NCCL_TUNER_PLUGIN", plugin);
    if (status == STP_EXIT_OK)
        status = o->online
                     ? run_set_online(command, o, plugin, policy, folder)
                     : stp_run_set(command, "NCCL_TUNER_CONFIG_FILE", policy);
    if (status == STP_EXIT_OK && folder[0] != '\0')
        status = stp_run_set(command, "STEPTUNE_LEDGER", folder);
    return status;
}

/* ---- the job ---- */

static const int forwarded[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
                                SIGUSR1, SIGUSR2, SIGCONT};

enum { N_FORWARDED = sizeof(forwarded) / sizeof(forwarded[0]) };

/* Signals that are waited for, and not handled: none is lost between two looks
 * at the job. */
static void run_watch_signals(sigset_t *watched, sigset_t *old)
{
    sigemptyset(watched);
    sigaddset(watched, SIGCHLD);
    for (int i = 0; i < N_FORWARDED; i++)
        sigaddset(watched, forwarded[i]);
    signal(SIGCHLD, SIG_DFL); /* ignored, there would be nothing to wait for */
    sigprocmask(SIG_BLOCK, watched, old);
}

static void run_exec(const char *command, char **argv, const sigset_t *old)
{
    sigprocmask(SIG_SETMASK, old, NULL);
    execvp(argv[0], argv);
    stp_complain(command, "cannot run '%s': %s", argv[0], strerror(errno));
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN);
}

/* The exit status, as a shell has it.  What the terminal sends goes to the job
 * as well, and is not sent again. */
static int run_await(pid_t pid, const sigset_t *watched)
{
    int status;
    pid_t ended;

    while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
        siginfo_t info;

        if (sigwaitinfo(watched, &info) > 0 && info.si_signo != SIGCHLD &&
            info.si_code != SI_KERNEL)
            kill(pid, info.si_signo);
    }
    if (ended < 0)
        return STP_EXIT_FAILED;
    return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status)
                               : WEXITSTATUS(status);
}

/* Signals stay blocked: what ends the job does not keep us from the report. */
static int run_start_and_await(const char *command, char **argv)
{
    sigset_t watched, old;
    pid_t pid;

    fflush(NULL);
    run_watch_signals(&watched, &old);
    pid = fork();
    if (pid == 0)
        run_exec(command, argv, &old);
    if (pid < 0)
        return stp_complain(command, "cannot start a process: %s",
                            strerror(errno));
    return run_await(pid, &watched);
}

/* ---- after it ---- */

/* What is told of the job. */
struct run_story {
    const char *policy; /* NULL: none */
    struct stp_ledgers ledgers;
    bool has_learning;
    struct stp_learning learning;
    struct stp_learning_setting setting;
};

static enum stp_status run_print_json(const struct run_story *s,
                                      struct stp_error *err)
{
    return stp_print_ledgers_json(&s->ledgers, s->policy,
                                  s->has_learning ? &s->learning : NULL,
                                  &s->setting, stderr, err);
}

static enum stp_status run_print_text(const char *command,
                                      const struct run_story *s,
                                      struct stp_error *err)
{
    enum stp_status status;

    fprintf(stderr, "%s: ", command);
    status = stp_print_ledgers(&s->ledgers, s->policy, stderr, err);
    if (status == STP_OK && s->has_learning && s->ledgers.n > 0)
        status = stp_print_learning(&s->learning, &s->setting, stderr, err);
    return status;
}

/* A journal that cannot be read does not keep us from the rest. */
static void run_load_learning(const char *command, const struct run_options *o,
                              struct run_story *s)
{
    struct stp_error err;

    if (!o->online)
        return;
    s->has_learning =
        stp_run_online_end(&o->run, &s->learning, &s->setting, &err) == STP_OK;
    if (!s->has_learning)
        stp_complain_error(command, o->run.settings.journal, &err);
}

static void run_report(const char *command, const struct run_options *o,
                       const char *policy, const char *folder)
{
    struct run_story s = {.policy = policy[0] != '\0' ? policy : NULL};
    struct stp_error err;
    enum stp_status status = stp_ledgers_load(folder, &s.ledgers, &err);

    if (status == STP_OK) {
        run_load_learning(command, o, &s);
        status = o->json ? run_print_json(&s, &err)
                         : run_print_text(command, &s, &err);
        stp_learning_free(&s.learning);
        stp_ledgers_free(&s.ledgers);
    }
    if (status != STP_OK)
        stp_complain_error(command, NULL, &err);
}

int stp_cmd_run(int argc, char **argv)
{
    struct run_options o = {0};
    char policy[STP_CLI_PATH];
    char folder[STP_CLI_PATH] = "";
    int exit_status;

    stp_options_read(&run_line, argc, argv, &o);
    exit_status = run_find_policy(argv[0], &o, policy);
    if (exit_status == STP_EXIT_OK && !o.quiet && !run_make_folder(folder)) {
        stp_complain(argv[0], "what is decided will not be told: no folder in "
                              "TMPDIR or /tmp");
        folder[0] = '\0';
    }
    if (exit_status == STP_EXIT_OK)
        exit_status = run_set_environment(argv[0], &o, policy, folder);
    if (exit_status == STP_EXIT_OK) {
        exit_status = run_start_and_await(argv[0], o.command.v);
        if (folder[0] != '\0')
            run_report(argv[0], &o, policy, folder);
    }
    if (folder[0] != '\0')
        run_remove_folder(folder);
    return exit_status;
}
