/* contract_process.c - checks of what a tuner does to its process and log */
#define _GNU_SOURCE /* environ */
#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "analyse/contract/contract_suite.h"
#include "core/rng.h"

enum { N_SIGNALS = 65 };

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

static const char *const parts[] = {
    "the working directory",
    "the locale",
    "the environment",
    "the umask",
    "the rounding of numbers",
    "a signal's handler",
    "the signals that are blocked",
    "the number of threads: one outlives the communicator",
    "the number of open files: one outlives the communicator",
    "a limit of the process's resources",
    "a timer, which will end the process or interrupt its calls",
    "the memory that is taken: each communicator leaves some of it",
};
enum { PART_MEMORY = 11, LEAST_LEAK = 24, N_COMMS = 1024 };
enum { N_PARTS = sizeof(parts) / sizeof(parts[0]) };

static uint64_t process_hash(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < size; i++)
        hash = stp_hash(hash, bytes[i]);
    return hash;
}

/* Hashes of all parts of the state. */
static void process_record_state(uint64_t hashes[N_PARTS])
{
    const char *locale = setlocale(LC_ALL, NULL);
    const mode_t mask = umask(0);
    char folder[STP_PATH] = "";
    struct sigaction action;
    struct itimerval timer;
    struct rlimit limit;
    sigset_t blocked;

    memset(hashes, 0, N_PARTS * sizeof(*hashes));
    umask(mask);
    memset(&blocked, 0, sizeof(blocked)); /* the kernel's part is smaller */
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    if (getcwd(folder, sizeof(folder)) != NULL)
        hashes[0] = process_hash(0, folder, strlen(folder));
    hashes[1] = process_hash(0, locale, strlen(locale));
    for (char **e = environ; *e != NULL; e++)
        hashes[2] = process_hash(hashes[2], *e, strlen(*e) + 1);
    hashes[3] = mask;
    hashes[4] = (uint64_t)fegetround();
    for (int s = 1; s < N_SIGNALS; s++)
        if (sigaction(s, NULL, &action) == 0)
            hashes[5] = process_hash(hashes[5], &action.sa_handler,
                                     sizeof(action.sa_handler));
    hashes[6] = process_hash(0, &blocked, sizeof(blocked));
    hashes[7] = process_count(TASKS);
    hashes[8] = process_count("/proc/self/fd");
    for (int r = 0; r < RLIM_NLIMITS; r++)
        if (getrlimit(r, &limit) == 0)
            hashes[9] = process_hash(hashes[9], &limit, sizeof(limit));
    for (int t = ITIMER_REAL; t <= ITIMER_PROF; t++)
        if (getitimer(t, &timer) == 0)
            hashes[10] += timerisset(&timer.it_value);
#if __GLIBC_PREREQ(2, 33)
    hashes[PART_MEMORY] = mallinfo2().uordblks;
#endif
}

/* Makes communicators one after the other beside one that stays, and asks about
 * collectives in the first and the last.  Ends the process as a job does, with
 * its exit handlers. */
void stp_check_process(struct stp_contract_run *run)
{
    const struct mock_machine *machine = run->world->shapes[STP_SHAPE_4];
    uint64_t before[N_PARTS], first[N_PARTS], after[N_PARTS];
    const struct timespec moment = {0, 10000000};
    struct mock_nccl *nccl = stp_contract_open(run, NULL);
    struct stp_decisions ignored;
    struct mock_comm *stays, *comm;

    process_record_state(before);
    stays = stp_contract_comm(run, nccl, machine, 0);
    for (int i = 0; i < N_COMMS; i++) {
        comm = stp_contract_comm(run, nccl, machine, 0);
        if (i == 0 || i == N_COMMS - 1)
            stp_contract_ask(run, comm, &ignored);
        stp_contract_close(run, comm);
        if (i == 0)
            process_record_state(first);
    }
    stp_contract_destroy(run, stays);
    /* a thread that is about to end may take a moment */
    for (int i = 0; i < 100 && process_count(TASKS) > before[7]; i++)
        nanosleep(&moment, NULL);
    process_record_state(after);

    /* free memory that malloc() keeps for a thread counts as taken */
    if (after[PART_MEMORY] < first[PART_MEMORY] + N_COMMS * LEAST_LEAK)
        after[PART_MEMORY] = before[PART_MEMORY];
    for (int i = 0; i < N_PARTS; i++)
        if (before[i] != after[i])
            STP_CONTRACT_FAIL_BY(run, "changed %s", parts[i]);
    stp_contract_unload(run, nccl);
    stp_contract_at(run, "exit()");
    run->slot->done = true;
    exit(0);
}

enum { N_ASKED = 2, MAX_WARNINGS = 5 };

/* Noise of a communicator: lines of log, standard output and error. */
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
        struct mock_nccl *nccl = stp_contract_open(
            run, &(struct stp_contract_nccl){.alone = i == 0});

        mock_set_log(log_receive, l);
        l->comm =
            stp_contract_comm(run, nccl, run->world->shapes[STP_SHAPE_4], 0);
    }
    stp_contract_at(run, "%s", "");
    for (size_t i = 0; i < STP_N_MORE; i++) {
        const struct mock_call call = stp_contract_call(run->options->seed, i);
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
            STP_CONTRACT_FAIL_BY(run, "%s: each call is logged, by '%s'", text,
                                 tuned.line);
        if (n_written == N_ASKED)
            STP_CONTRACT_FAIL_BY(run,
                                 "%s: each call writes to standard output or "
                                 "error, %jd bytes the last time",
                                 text, (intmax_t)tuned.n_bytes);
        if (tuned.n_warnings > alone.n_warnings + MAX_WARNINGS)
            STP_CONTRACT_FAIL_BY(
                run, "%s: the %zuth warning of one communicator: '%s'", text,
                tuned.n_warnings - alone.n_warnings, tuned.line);
    }
}
