/* contract_process.c - checks of what a tuner does to the process it lives in,
 * and to the log */
#define _GNU_SOURCE /* environ */
#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyse/contract/contract_suite.h"

/* ---- the process itself ---- */

enum { N_SIGNALS = 65, ENVIRONMENT = 1 << 16 };

struct process {
    char folder[STP_PATH];
    char locale[256];
    char environment[ENVIRONMENT];
    mode_t umask;
    int rounding;
    void (*handlers[N_SIGNALS])(int);
    sigset_t blocked;
    size_t n_threads;
    size_t n_files;
};

/* The entries of a folder of /proc/self. */
static size_t process_count(const char *folder)
{
    DIR *dir = opendir(folder);
    size_t n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

#define TASKS "/proc/self/task"

static void process_record_state(struct process *p)
{
    size_t used = 0;

    memset(p, 0, sizeof(*p));
    if (getcwd(p->folder, sizeof(p->folder)) == NULL)
        p->folder[0] = '\0';
    snprintf(p->locale, sizeof(p->locale), "%s", setlocale(LC_ALL, NULL));
    for (char **e = environ; *e != NULL && used < ENVIRONMENT; e++)
        used += (size_t)snprintf(p->environment + used, ENVIRONMENT - used,
                                 "%s\n", *e);
    p->umask = umask(0);
    umask(p->umask);
    p->rounding = fegetround();
    for (int s = 1; s < N_SIGNALS; s++) {
        struct sigaction action;

        if (sigaction(s, NULL, &action) == 0)
            p->handlers[s] = action.sa_handler;
    }
    sigprocmask(SIG_SETMASK, NULL, &p->blocked);
    p->n_threads = process_count(TASKS);
    p->n_files = process_count("/proc/self/fd");
}

/* Ends the process as a job does, with its exit handlers. */
void stp_check_process(struct stp_contract_run *run)
{
    static struct process before, after;
    const struct timespec moment = {0, 10000000};
    struct mock_nccl *nccl = stp_contract_open(run);
    struct stp_decisions ignored;
    struct mock_comm *comm;

    process_record_state(&before);
    comm = stp_contract_comm(run, nccl, run->world->shapes[STP_SHAPE_4], 0);
    stp_contract_ask(run, comm, false, &ignored);
    stp_contract_destroy(run, comm);
    /* a thread that is about to end may take a moment */
    for (int i = 0; i < 100 && process_count(TASKS) > before.n_threads; i++)
        nanosleep(&moment, NULL);
    process_record_state(&after);

    const struct {
        bool changed;
        const char *name;
    } all[] = {
        {strcmp(before.folder, after.folder) != 0, "the working directory"},
        {strcmp(before.locale, after.locale) != 0, "the locale"},
        {strcmp(before.environment, after.environment) != 0, "the environment"},
        {before.umask != after.umask, "the umask"},
        {before.rounding != after.rounding, "the rounding of numbers"},
        {memcmp(before.handlers, after.handlers, sizeof(before.handlers)) != 0,
         "a signal's handler"},
        {memcmp(&before.blocked, &after.blocked, sizeof(before.blocked)) != 0,
         "the signals that are blocked"},
        {before.n_threads != after.n_threads,
         "the number of threads: one outlives the communicator"},
        {before.n_files != after.n_files,
         "the number of open files: one outlives the communicator"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].changed)
            stp_contract_fail(run, "changed %s", all[i].name);

    stp_contract_unload(run, nccl);
    stp_contract_at(run, "exit()");
    run->slot->done = true;
    exit(0);
}

/* ---- the log ---- */

enum { N_ASKED = 2, MAX_WARNINGS = 5 };

/* What a communicator logs, and writes to standard output and error. */
struct listener {
    struct mock_comm *comm;
    size_t n_lines;
    size_t n_warnings;
    off_t n_bytes;
    char line[160]; /* a call's first, which is the tuner's, or a warning */
};

static void log_receive(void *user, ncclDebugLogLevel level,
                        unsigned long flags, const char *line)
{
    struct listener *l = user;

    l->n_warnings += level <= NCCL_LOG_WARN;
    if (l->n_lines++ == 0 || level <= NCCL_LOG_WARN)
        snprintf(l->line, sizeof(l->line), "%s", line);
}

static void log_listen(struct listener *listener, const struct mock_call *call)
{
    const off_t before = lseek(STDOUT_FILENO, 0, SEEK_CUR);
    struct mock_outcome outcome;

    listener->n_lines = 0;
    mock_set_log(log_receive, listener);
    mock_comm_collective(listener->comm, call, &outcome);
    mock_set_log(NULL, NULL);
    fflush(stdout);
    listener->n_bytes = lseek(STDOUT_FILENO, 0, SEEK_CUR) - before;
}

/* Checks that the tuner says nothing of a call that was made before, and little
 * of any other, in addition to NCCL's own lines. */
void stp_check_quiet(struct stp_contract_run *run)
{
    struct listener tuned = {0}, alone = {0};
    char text[STP_CALL_TEXT];

    for (int i = 0; i < 2; i++) {
        struct listener *l = i == 0 ? &alone : &tuned;
        struct mock_nccl *nccl = stp_contract_open_as(
            run, &(struct stp_contract_nccl){.alone = i == 0});

        mock_set_log(log_receive, l);
        l->comm =
            stp_contract_comm(run, nccl, run->world->shapes[STP_SHAPE_4], 0);
    }
    stp_contract_at(run, "%s", "");
    for (size_t i = 0; i < STP_N_MORE; i++) {
        const struct mock_call call =
            stp_contract_one_of_more(run->options->seed, i);
        int n_logged = 0, n_written = 0; /* calls */

        stp_contract_begin_call(run, &call);
        log_listen(&alone, &call);
        for (int n = 0; n < N_ASKED; n++) {
            log_listen(&tuned, &call);
            n_logged += tuned.n_lines > alone.n_lines;
            n_written += tuned.n_bytes > 0;
        }
        if (n_logged < N_ASKED && n_written < N_ASKED &&
            tuned.n_warnings <= alone.n_warnings + MAX_WARNINGS)
            continue;
        stp_contract_describe(&call, text);
        if (n_logged == N_ASKED)
            stp_contract_fail(run, "%s: each call is logged, by '%s'", text,
                              tuned.line);
        if (n_written == N_ASKED)
            stp_contract_fail(run,
                              "%s: each call writes to standard output or "
                              "error, %jd bytes the last time",
                              text, (intmax_t)tuned.n_bytes);
        if (tuned.n_warnings > alone.n_warnings + MAX_WARNINGS)
            stp_contract_fail(
                run, "%s: the %zuth warning of one communicator: '%s'", text,
                tuned.n_warnings - alone.n_warnings, tuned.line);
    }
}
