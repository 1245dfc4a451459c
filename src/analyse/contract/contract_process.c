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
};

static size_t process_count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    size_t n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

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
    p->n_threads = process_count_threads();
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
    stp_contract_ask(run, comm, &ignored);
    stp_contract_destroy(run, comm);
    /* a thread that is about to end may take a moment */
    for (int i = 0; i < 100 && process_count_threads() > before.n_threads; i++)
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

enum { N_QUIET_CALLS = 200, MAX_WARNINGS = 5 };

struct listener {
    size_t n_lines; /* while calls are made */
    size_t n_warnings;
    bool first;     /* the next line is the first of a call, */
    char line[160]; /* and this was the last one of those */
};

static void log_receive(void *user, ncclDebugLogLevel level,
                        unsigned long flags, const char *line)
{
    struct listener *l = user;

    l->n_lines++;
    l->n_warnings += level <= NCCL_LOG_WARN;
    if (l->first || level <= NCCL_LOG_WARN)
        snprintf(l->line, sizeof(l->line), "%s", line);
    l->first = false;
}

/* All that is logged from init on, with the tuner or without. */
static struct listener log_listen(struct stp_contract_run *run, bool alone)
{
    struct mock_nccl *nccl =
        stp_contract_open_as(run, &(struct stp_contract_nccl){.alone = alone});
    struct listener listener = {0};
    struct mock_comm *comm;

    mock_set_log(log_receive, &listener);
    comm = stp_contract_comm(run, nccl, run->world->shapes[STP_SHAPE_4], 0);
    listener.n_lines = 0;
    for (size_t i = 0; i < N_QUIET_CALLS; i++) {
        struct mock_call call = stp_contract_question(0);
        struct mock_outcome outcome;

        listener.first = true;
        mock_comm_collective(comm, &call, &outcome);
    }
    mock_set_log(NULL, NULL);
    return listener;
}

/* Checks that the tuner logs nothing in addition to NCCL's own lines. */
void stp_check_quiet(struct stp_contract_run *run)
{
    struct listener alone = log_listen(run, true);
    struct listener tuned = log_listen(run, false);

    if (tuned.n_lines >= alone.n_lines + N_QUIET_CALLS / 2)
        stp_contract_fail(run, "%d calls logged %zu lines, such as '%s'",
                          N_QUIET_CALLS, tuned.n_lines - alone.n_lines,
                          tuned.line);
    if (tuned.n_warnings > alone.n_warnings + MAX_WARNINGS)
        stp_contract_fail(run,
                          "%zu warnings for one communicator, such as '%s'",
                          tuned.n_warnings - alone.n_warnings, tuned.line);
}
