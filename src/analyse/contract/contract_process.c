/* contract_process.c - checks of what a tuner does to its process and log */
#define _GNU_SOURCE /* environ */
#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <float.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
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
    "how this thread calculates: rounding, exceptions or the least numbers",
    "a signal's handler, its flags or its stack",
    "the signals that are blocked",
    "the number of threads: one outlives the communicator",
    "the number of open files: one outlives the communicator",
    "a limit of the process's resources",
    "a timer, which will end the process or interrupt its calls",
    "the processors or the priority of this thread",
    "the application's random numbers: it draws from them",
    "the number of child processes: one outlives the communicator",
};
enum { LEAST_LEAK = 24, N_COMMS = 1024, PAGE = 4096, N_TURNS = 8 };
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
    static volatile double least = DBL_MIN; /* half of which is subnormal */
    const char *locale = setlocale(LC_ALL, NULL);
    const locale_t of_thread = uselocale((locale_t)0);
    const mode_t mask = umask(0);
    cpu_set_t processors;
    stack_t stack;
    char folder[STP_PATH] = "";
    struct sigaction action;
    struct itimerval timer;
    struct rlimit limit;
    siginfo_t child;
    sigset_t blocked;

    memset(hashes, 0, N_PARTS * sizeof(*hashes));
    memset(&action, 0, sizeof(action));
    memset(&stack, 0, sizeof(stack));
    umask(mask);
    memset(&blocked, 0, sizeof(blocked)); /* the kernel's part is smaller */
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    if (getcwd(folder, sizeof(folder)) != NULL)
        hashes[0] = process_hash(0, folder, strlen(folder));
    hashes[1] = process_hash(0, locale, strlen(locale));
    hashes[1] = process_hash(hashes[1], &of_thread, sizeof(of_thread));
    for (char **e = environ; *e != NULL; e++)
        hashes[2] = process_hash(hashes[2], *e, strlen(*e) + 1);
    hashes[3] = mask;
    hashes[4] = (uint64_t)fegetround() << 32 | (uint64_t)fegetexcept() << 1 |
                (least / 2 == 0);
    sigaltstack(NULL, &stack);
    hashes[5] = process_hash(0, &stack.ss_sp, sizeof(stack.ss_sp));
    for (int s = 1; s < N_SIGNALS; s++)
        if (sigaction(s, NULL, &action) == 0) {
            /* the kernel's part of the mask is smaller */
            memset((char *)&action.sa_mask + N_SIGNALS / 8, 0,
                   sizeof(action.sa_mask) - N_SIGNALS / 8);
            hashes[5] = process_hash(hashes[5], &action, sizeof(action));
        }
    hashes[6] = process_hash(0, &blocked, sizeof(blocked));
    hashes[7] = process_count(TASKS);
    hashes[8] = process_count("/proc/self/fd");
    for (int r = 0; r < RLIM_NLIMITS; r++)
        if (getrlimit(r, &limit) == 0)
            hashes[9] = process_hash(hashes[9], &limit, sizeof(limit));
    for (int t = ITIMER_REAL; t <= ITIMER_PROF; t++)
        if (getitimer(t, &timer) == 0)
            hashes[10] += timerisset(&timer.it_value);
    CPU_ZERO(&processors);
    sched_getaffinity(0, sizeof(processors), &processors);
    hashes[11] = stp_hash(process_hash(0, &processors, sizeof(processors)),
                          (uint64_t)getpriority(PRIO_PROCESS, 0));
    hashes[12] = (uint64_t)random();
    srandom(1);
    hashes[13] = waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Bytes by malloc(), and all pages that are mapped: what is left of either. */
static uint64_t process_get_memory(void)
{
    FILE *fp = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0;

    if (fp != NULL && fscanf(fp, "%llu", &pages) != 1)
        pages = 0;
    if (fp != NULL)
        fclose(fp);
#if __GLIBC_PREREQ(2, 33)
    return pages * PAGE + mallinfo2().uordblks + mallinfo2().hblkhd;
#endif
    return pages * PAGE;
}

/* Fails the check if each of the last turns took more memory.  Free memory that
 * malloc() keeps for a thread counts as taken, until there is enough of it. */
static void process_check_growth(struct stp_contract_run *run,
                                 const uint64_t memory[N_TURNS],
                                 const char *who)
{
    bool grows = true;

    for (int t = N_TURNS - 3; t < N_TURNS; t++)
        grows &= memory[t] >= memory[t - 1] + LEAST_LEAK;
    if (grows)
        STP_CONTRACT_FAIL_BY(run, "changed the memory that is taken: %s", who);
}

/* Makes communicators of all machines that are made up, one after the other
 * beside one that stays, and asks about collectives in the first of each and
 * the one that stays.  Ends the process as a job does, with its exit handlers.
 */
void stp_check_process(struct stp_contract_run *run)
{
    const struct timespec moment = {0, 10000000};
    struct mock_nccl *nccl = stp_contract_open(run, NULL);
    uint64_t before[N_PARTS], after[N_PARTS], memory[N_TURNS];
    struct stp_decisions ignored;
    struct mock_comm *stays, *comm;

    srandom(1);
    process_record_state(before);
    stays = stp_contract_comm(run, nccl, run->world->shapes[STP_SHAPE_4], 0);
    for (int i = 0; i < N_COMMS; i++) {
        comm = stp_contract_comm(run, nccl,
                                 run->world->shapes[i % STP_N_SHAPES], 0);
        if (i < STP_N_SHAPES)
            stp_contract_ask(run, comm, STP_N_LONE, &ignored);
        stp_contract_close(run, comm);
        if ((i + 1) % (N_COMMS / N_TURNS) == 0)
            memory[i / (N_COMMS / N_TURNS)] = process_get_memory();
    }
    process_check_growth(run, memory, "each communicator leaves some of it");
    for (int t = 0; t < N_TURNS; t++) {
        stp_contract_ask(run, stays, STP_N_QUESTIONS, &ignored);
        memory[t] = process_get_memory();
    }
    process_check_growth(run, memory, "some calls leave some of it");
    stp_contract_destroy(run, stays);
    /* a thread that is about to end may take a moment */
    for (int i = 0; i < 100 && process_count(TASKS) > before[7]; i++)
        nanosleep(&moment, NULL);
    process_record_state(after);
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

/* Counts what standard output and error, which are one file, have. */
static off_t log_count_bytes(void)
{
    fflush(stdout);
    return lseek(STDOUT_FILENO, 0, SEEK_CUR);
}

static void log_listen(struct listener *listener, const struct mock_call *call,
                       bool counts_bytes)
{
    const off_t before = counts_bytes ? log_count_bytes() : 0;
    struct mock_outcome outcome;

    listener->n_lines = 0;
    mock_set_log(log_receive, listener);
    mock_comm_collective(listener->comm, call, &outcome);
    mock_set_log(NULL, NULL);
    listener->n_bytes = counts_bytes ? log_count_bytes() - before : 0;
}

/* Checks that the tuner says nothing of a call that was made before, and little
 * of any other, in addition to NCCL's own lines. */
static void log_check_call(struct stp_contract_run *run, struct listener *alone,
                           struct listener *tuned, bool counts_bytes,
                           const struct mock_call *call)
{
    char text[STP_CALL_TEXT];
    int n_logged = 0, n_written = 0; /* calls */

    stp_contract_begin_call(run, call);
    log_listen(alone, call, false);
    for (int n = 0; n < N_ASKED; n++) {
        log_listen(tuned, call, counts_bytes);
        n_logged += tuned->n_lines > alone->n_lines;
        n_written += tuned->n_bytes > 0;
    }
    stp_contract_describe(call, text);
    if (n_logged == N_ASKED)
        STP_CONTRACT_FAIL_BY(run, "%s: each call is logged, by '%s'", text,
                             tuned->line);
    if (n_written == N_ASKED)
        STP_CONTRACT_FAIL_BY(run,
                             "%s: each call writes to standard output or "
                             "error, %jd bytes the last time",
                             text, (intmax_t)tuned->n_bytes);
    if (tuned->n_warnings > alone->n_warnings + MAX_WARNINGS)
        STP_CONTRACT_FAIL_BY(
            run, "%s: the %zuth warning of one communicator: '%s'", text,
            tuned->n_warnings - alone->n_warnings, tuned->line);
}

/* On each machine that is made up, and on one of them all calls; init and
 * finalize have a log, and write to it alone. */
void stp_check_quiet(struct stp_contract_run *run)
{
    for (int i = 0; i < STP_N_SHAPES; i++) {
        const struct mock_machine *machine = run->world->shapes[i];
        const size_t n = i == STP_SHAPE_4 ? STP_N_MORE : STP_N_LONE;
        struct listener of[2] = {{0}}; /* without the tuner, and with it */
        struct mock_nccl *nccls[2];
        off_t at[4]; /* bytes until then */

        for (int k = 0; k < 2; k++) {
            nccls[k] = stp_contract_open(
                run, &(struct stp_contract_nccl){.alone = k == 0});
            mock_set_log(log_receive, &of[k]);
            at[0] = log_count_bytes();
            of[k].comm = stp_contract_comm(run, nccls[k], machine, 0);
        }
        at[1] = log_count_bytes();
        stp_contract_at(run, "%s", "");
        for (size_t c = 0, again = 0; c < n; c++) {
            const struct mock_call call =
                stp_contract_call(run->options->seed, c);

            log_check_call(run, &of[0], &of[1], again > 0, &call);
            if (c + 1 == n && again++ == 0 && log_count_bytes() > at[1])
                c = (size_t)-1; /* to find the calls that write */
        }
        at[2] = log_count_bytes();
        for (int k = 0; k < 2; k++) {
            stp_contract_close(run, of[k].comm);
            stp_contract_unload(run, nccls[k]);
        }
        at[3] = log_count_bytes();
        for (int w = 0; w < 4; w += 2)
            if (at[w + 1] > at[w])
                STP_CONTRACT_FAIL_BY(
                    run,
                    "%s on %s writes %jd bytes to standard output or error",
                    w == 0 ? "init" : "finalize",
                    mock_machine_get_info(machine)->name,
                    (intmax_t)(at[w + 1] - at[w]));
    }
}
