/* main.c - steptune: one command with subcommands */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/nearest.h"
#include "core/text.h"
#include "report/file.h"
#include "report/json.h"

/* Whether all of a launcher's processes run a command, or one. */
enum { BY_ALL = 0, BY_ONE = 1 };

static const struct stp_command commands[] = {
    {"tune", "measure, derive a policy, verify it, write it and a report",
     stp_cmd_tune, BY_ALL},
    {"sweep", "time collectives: every size with every arm", stp_cmd_sweep,
     BY_ALL},
    {"iterate", "time training iterations: compute and collectives together",
     stp_cmd_iterate, BY_ALL},
    {"train", "train a model data-parallel, and time its communication",
     stp_cmd_train, BY_ALL},
    {"derive", "make a policy out of measurements", stp_cmd_derive, BY_ONE},
    {"verify", "compare a policy with what jobs run without it", stp_cmd_verify,
     BY_ALL},
    {"explain", "print what NCCL or a tuner plugin chooses, size by size",
     stp_cmd_explain, BY_ONE},
    {"check", "lint a policy: dead rules, overlaps, gaps; --fix", stp_cmd_check,
     BY_ONE},
    {"replay", "play a trace of collectives on all ranks in mock NCCL",
     stp_cmd_replay, BY_ONE},
    {"run", "run a job with the plugin and a policy, and report decisions",
     stp_cmd_run, BY_ALL},
    {"compare", "compare whole runs of a job: policies, NCCLs, variables",
     stp_cmd_compare, BY_ALL},
    {"plot", "plot measurements, ours or of nccl-tests", stp_cmd_plot, BY_ONE},
    {"report", "write an HTML page: how much a policy gains, and why",
     stp_cmd_report, BY_ONE},
    {"record", "record the machine you are on, for all of the above",
     stp_cmd_record, BY_ALL},
    {"machines", "list the recorded machines that --on plays", stp_cmd_machines,
     BY_ONE},
    {"doctor", "diagnose what would happen to a job here", stp_cmd_doctor,
     BY_ALL},
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static char main_name[64] = "steptune"; /* with the command */
static int main_status = STP_EXIT_OK;
static pid_t main_process;

/* Fails the command if its output was lost, also where argp ends the process,
 * after --help. A failed command has already said why; a child, which may be a
 * plugin's, has no output of the command. */
static void main_check_output(void)
{
    struct stp_error err;

    if (getpid() != main_process || main_status != STP_EXIT_OK ||
        stp_file_flush(stdout, "to standard output", &err) == STP_OK)
        return;
    stp_complain_error(NULL, &err);
    _exit(STP_EXIT_FAILED);
}

static void main_print_help(FILE *fp)
{
    fputs("Usage: steptune COMMAND [OPTION...]\n"
          "Makes NCCL choose what gives the shortest training step.\n\n",
          fp);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(fp, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    fputs(
        "\n`steptune help COMMAND` lists the options.  Exit status: 0 done, 1 "
        "failed,\n2 wrong usage, 77 nothing to run on.\n",
        fp);
}

int main(int argc, char **argv)
{
    static char help[] = "--help";
    static char buffer[1 << 16];
    const struct stp_command *command = NULL;
    char names[512] = "", hint[STP_HINT];
    struct rlimit files;
    FILE *guarded;

    /* A closed one would become a file of ours, into which others print; a
     * write to this fails as well. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            open("/dev/null", O_RDONLY);
    guarded = stp_guard_output(STDOUT_FILENO);
    if (guarded != NULL)
        stdout = guarded;
    /* so that no message on standard error stands within a line */
    setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
    main_process = getpid();
    signal(SIGXFSZ, SIG_IGN); /* a file beyond `ulimit -f` is an error */
    atexit(main_check_output);
    stp_json_begin();
    if (argc < 2) {
        main_print_help(stderr);
        return STP_EXIT_USAGE;
    }
    if (argc > 2 && strcmp(argv[1], "help") == 0) {
        argv[1] = argv[2];
        argv[2] = help;
        argc = 3;
    }
    for (size_t i = 0; i < 3; i++) {
        static const char *const helps[] = {"--help", "-h", "help"};
        static const char *const versions[] = {"--version", "-V", "version"};

        if (strcmp(argv[1], helps[i]) == 0) {
            main_print_help(stdout);
            return STP_EXIT_OK;
        }
        if (strcmp(argv[1], versions[i]) == 0) {
            puts("steptune " STP_VERSION);
            return STP_EXIT_OK;
        }
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        stp_append(names, sizeof(names), "%s ", commands[i].name);
        if (strcmp(commands[i].name, argv[1]) == 0)
            command = &commands[i];
    }
    stp_hint_nearest(argv[1], strlen(argv[1]), names, hint);
    if (command == NULL)
        return STP_MISUSE("no command '%s'%s", argv[1],
                          hint[0] != '\0' ? hint
                                          : "; `steptune --help` lists them");
    snprintf(main_name, sizeof(main_name), "steptune %s", command->name);
    argv[1] = main_name;
    stp_command_name = main_name;
    argp_err_exit_status = STP_EXIT_USAGE;
    if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < 1 << 20)
        stp_complain("warning: `ulimit -f` lets no file grow beyond %llu bytes",
                     (unsigned long long)files.rlim_cur);
    if (command->is_by_one && !stp_runs_command(command->name))
        return STP_EXIT_OK;
    return main_status = command->run(argc - 1, argv + 1);
}
