/* run.c - `steptune run` */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "report/ledgers.h"

#define DEFAULT_POLICY "steptune.conf"

/* As shells have it. */
enum { EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

struct options {
    const char *policy; /* NULL: see find_policy() */
    bool json;
    bool quiet;
    char **command; /* NULL behind the last */
};

enum { OPT_POLICY = 0x300, OPT_JSON };

static const struct argp_option options[] = {
    {"policy", OPT_POLICY, "FILE", 0,
     "The policy (default: NCCL_TUNER_CONFIG_FILE, else steptune.conf)", 0},
    {"quiet", 'q', NULL, 0, "Say nothing of what was decided", 0},
    {"json", OPT_JSON, NULL, 0, "Say it as JSON", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case OPT_POLICY:
        o->policy = arg;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case ARGP_KEY_ARGS:
        o->command = state->argv + state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no command, expected one such as `-- torchrun "
                          "train.py`");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[--] COMMAND [ARGUMENT...]",
    .doc = "Runs a job with the tuner plugin and a policy, and says afterwards "
           "on standard error what was decided, on this host. Calls are "
           "NCCL's questions to the plugin: one for collectives that it puts "
           "together, and none for the replays of a CUDA graph. Signals and "
           "the exit status pass through.",
};

/* ---- before the job ---- */

/* The absolute path of the policy that the job is to use, which must be one. */
static int find_policy(const char *command, const struct options *o,
                       char path[STP_CLI_PATH])
{
    const char *set = getenv("NCCL_TUNER_CONFIG_FILE");
    const char *name = o->policy;
    struct stp_policy *policy;
    struct stp_error err;

    if (name == NULL)
        name = set != NULL && set[0] != '\0' ? set : DEFAULT_POLICY;
    if (strcmp(name, DEFAULT_POLICY) == 0 && access(name, F_OK) != 0)
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

static bool make_folder(char path[STP_CLI_PATH])
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(path, STP_CLI_PATH, "%s/steptune-run-XXXXXX",
                     tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");

    return n > 0 && n < STP_CLI_PATH && mkdtemp(path) != NULL;
}

static void remove_folder(const char *path)
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

static int set_environment(const char *command, const char *policy,
                           const char *ledger)
{
    const char *other = getenv("NCCL_TUNER_PLUGIN");
    char plugin[STP_CLI_PATH];
    struct stp_error err;

    if (stp_find_plugin("steptune", plugin, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    if (other != NULL && other[0] != '\0' && strcmp(other, plugin) != 0)
        fprintf(stderr, "%s: NCCL_TUNER_PLUGIN=%s is replaced for this job\n",
                command, other);
    if (setenv("NCCL_TUNER_PLUGIN", plugin, 1) != 0 ||
        setenv("NCCL_TUNER_CONFIG_FILE", policy, 1) != 0 ||
        (ledger[0] != '\0' && setenv("STEPTUNE_LEDGER", ledger, 1) != 0))
        return stp_complain(command, "out of memory");
    return STP_EXIT_OK;
}

/* ---- the job ---- */

static const int forwarded[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
                                SIGUSR1, SIGUSR2, SIGCONT};

enum { N_FORWARDED = sizeof(forwarded) / sizeof(forwarded[0]) };

/* Signals that are waited for, and not handled: none is lost between two looks
 * at the job. */
static void watch_signals(sigset_t *watched, sigset_t *old)
{
    sigemptyset(watched);
    sigaddset(watched, SIGCHLD);
    for (int i = 0; i < N_FORWARDED; i++)
        sigaddset(watched, forwarded[i]);
    signal(SIGCHLD, SIG_DFL); /* ignored, there would be nothing to wait for */
    sigprocmask(SIG_BLOCK, watched, old);
}

static void run_job(const char *command, char **argv, const sigset_t *old)
{
    sigprocmask(SIG_SETMASK, old, NULL);
    execvp(argv[0], argv);
    stp_complain(command, "cannot run '%s': %s", argv[0], strerror(errno));
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN);
}

/* The exit status, as a shell has it.  What the terminal sends goes to the job
 * as well, and is not sent again. */
static int await(pid_t pid, const sigset_t *watched)
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
static int start_and_await(const char *command, char **argv)
{
    sigset_t watched, old;
    pid_t pid;

    fflush(NULL);
    watch_signals(&watched, &old);
    pid = fork();
    if (pid == 0)
        run_job(command, argv, &old);
    if (pid < 0)
        return stp_complain(command, "cannot start a process: %s",
                            strerror(errno));
    return await(pid, &watched);
}

/* ---- after it ---- */

static void report(const char *command, const struct options *o,
                   const char *policy, const char *folder)
{
    struct stp_ledgers ledgers;
    struct stp_error err;
    enum stp_status status = stp_ledgers_load(folder, &ledgers, &err);

    if (status == STP_OK) {
        if (!o->json)
            fprintf(stderr, "%s: ", command);
        status = o->json
                     ? stp_print_ledgers_json(&ledgers, policy, stderr, &err)
                     : stp_print_ledgers(&ledgers, policy, stderr, &err);
        stp_ledgers_free(&ledgers);
    }
    if (status != STP_OK)
        stp_complain_error(command, NULL, &err);
}

int stp_cmd_run(int argc, char **argv)
{
    struct options o = {0};
    char policy[STP_CLI_PATH];
    char folder[STP_CLI_PATH] = "";
    int exit_status;

    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
    exit_status = find_policy(argv[0], &o, policy);
    if (exit_status == STP_EXIT_OK && !o.quiet && !make_folder(folder)) {
        stp_complain(argv[0], "what is decided will not be told: no folder in "
                              "TMPDIR or /tmp");
        folder[0] = '\0';
    }
    if (exit_status == STP_EXIT_OK)
        exit_status = set_environment(argv[0], policy, folder);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    exit_status = start_and_await(argv[0], o.command);
    if (folder[0] != '\0') {
        report(argv[0], &o, policy, folder);
        remove_folder(folder);
    }
    return exit_status;
}
