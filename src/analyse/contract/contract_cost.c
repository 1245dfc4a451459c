/* contract_cost.c - checks of what a tuner costs the process it lives in */
#define _GNU_SOURCE /* environ, mallinfo2() */
#include <ctype.h>
#include <dirent.h>
#include <fenv.h>
#include <inttypes.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyse/contract/contract_suite.h"
#include "core/stats.h"

/* ---- time ---- */

static double cost_now_us(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

enum { N_TIMED = 4000, MAX_US = 100 };

/* One rank of four, in NCCL with the tuner or without. */
static struct mock_comm *cost_open(struct stp_contract_run *run, bool alone)
{
    return stp_contract_comm(
        run,
        stp_contract_open_as(run, &(struct stp_contract_nccl){.alone = alone}),
        run->world->shapes[STP_SHAPE_4], 0);
}

/* The median of a call through mock NCCL, of as many as 3 s allow. */
static double cost_median_us(struct mock_comm *comm)
{
    static double us[N_TIMED];
    double end = cost_now_us() + 3e6;
    struct stp_summary summary;
    size_t n = 0;

    while (n < N_TIMED && (n < 10 || cost_now_us() < end)) {
        struct mock_call call = stp_contract_question(n % STP_N_QUESTIONS);
        struct mock_outcome outcome;
        double start = cost_now_us();

        mock_comm_collective(comm, &call, &outcome);
        us[n++] = cost_now_us() - start;
    }
    stp_summarise(us, n, &summary);
    return summary.median;
}

void stp_check_fast(struct stp_contract_run *run)
{
    struct mock_comm *comm = cost_open(run, false);
    struct mock_comm *comm_alone = cost_open(run, true);
    double us;

    stp_contract_at(run, "getCollInfo");
    us = cost_median_us(comm) - cost_median_us(comm_alone);
    us = us > 0 ? us : 0;
    if (us > MAX_US)
        stp_contract_fail(run,
                          "a call takes %.0f us (median), expected at most %d; "
                          "each collective of the job would wait",
                          us, MAX_US);
    stp_contract_set(run->slot, STP_CONTRACT_OK, "%.1f us a call (median)", us);
}

/* ---- memory ---- */

extern size_t __sanitizer_get_current_allocated_bytes(void)
    __attribute__((weak));

static size_t cost_allocated_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes != NULL)
        return __sanitizer_get_current_allocated_bytes();
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
#else
    struct mallinfo info = mallinfo();
#endif
    return (size_t)info.uordblks + (size_t)info.hblkhd;
}

static size_t cost_growth(size_t before, size_t after)
{
    return after > before ? after - before : 0;
}

enum { N_WARM = 2000, N_LEAK_CALLS = 20000, LEAK_US = 2000000 };

/* Up to 'n' calls; returns how many there were time for. */
static size_t cost_call_often(struct mock_comm *comm, size_t n)
{
    double end = cost_now_us() + LEAK_US;
    size_t i;

    for (i = 0; i < n && cost_now_us() < end; i++) {
        struct mock_call call = stp_contract_question(i % STP_N_QUESTIONS);
        struct mock_outcome outcome;

        mock_comm_collective(comm, &call, &outcome);
    }
    return i;
}

void stp_check_leak_call(struct stp_contract_run *run)
{
    struct mock_comm *comm = cost_open(run, false);
    size_t before, bytes, n;

    stp_contract_at(run, "getCollInfo");
    cost_call_often(comm, N_WARM);
    before = cost_allocated_bytes();
    n = cost_call_often(comm, N_LEAK_CALLS);
    bytes = cost_growth(before, cost_allocated_bytes());
    if (bytes >= n) /* one for each call */
        stp_contract_fail(run,
                          "%zu calls took %zu bytes that were not given back, "
                          "%.0f each",
                          n, bytes, (double)bytes / (double)n);
}

/* ---- what a communicator leaves behind ---- */

enum { N_COMMS = 50, MAX_SHM = 256, SHM_NAME = 64 };

/* What a process holds. */
struct holdings {
    size_t bytes;
    size_t files;    /* descriptors */
    size_t mappings; /* of memory */
};

static size_t cost_count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    size_t n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static size_t cost_count_lines(const char *path)
{
    FILE *fp = fopen(path, "r");
    size_t n = 0;
    int c;

    while (fp != NULL && (c = getc(fp)) != EOF)
        n += c == '\n';
    if (fp != NULL)
        fclose(fp);
    return n;
}

static struct holdings cost_count_holdings(void)
{
    return (struct holdings){.bytes = cost_allocated_bytes(),
                             .files = cost_count_entries("/proc/self/fd"),
                             .mappings = cost_count_lines("/proc/self/maps")};
}

/* The number of this process, and not as a part of another number. */
static bool cost_names_this_process(const char *name)
{
    char pid[24];
    const char *at = name;
    size_t len = (size_t)snprintf(pid, sizeof(pid), "%ld", (long)getpid());

    while ((at = strstr(at, pid)) != NULL) {
        if ((at == name || !isxdigit((unsigned char)at[-1])) &&
            !isxdigit((unsigned char)at[len]))
            return true;
        at++;
    }
    return false;
}

/* Entries of /dev/shm that are named after one of our communicators or this
 * process: other processes come and go there. */
static size_t cost_count_shared_memory(const uint64_t *comm_ids, char *name_ret,
                                       size_t size)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    size_t n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char hex[24], decimal[24];
        bool ours = cost_names_this_process(entry->d_name);

        for (size_t i = 0; i < N_COMMS && !ours; i++) {
            snprintf(hex, sizeof(hex), "%" PRIx64, comm_ids[i]);
            snprintf(decimal, sizeof(decimal), "%" PRIu64, comm_ids[i]);
            ours = strstr(entry->d_name, hex) != NULL ||
                   strstr(entry->d_name, decimal) != NULL;
        }
        if (ours)
            snprintf(name_ret, size, "%.60s", entry->d_name);
        n += ours;
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

static void cost_use_comm(struct stp_contract_run *run, struct mock_nccl *nccl,
                          uint64_t comm_id)
{
    struct stp_decisions ignored;
    struct mock_comm *comm =
        stp_contract_comm(run, nccl, run->world->shapes[STP_SHAPE_4], comm_id);

    stp_contract_ask(run, comm, &ignored);
    stp_contract_destroy(run, comm);
}

static void cost_judge_holdings(struct stp_contract_run *run,
                                const struct holdings *before,
                                const uint64_t *comm_ids)
{
    struct holdings after = cost_count_holdings();
    size_t bytes = cost_growth(before->bytes, after.bytes);
    size_t files = cost_growth(before->files, after.files);
    size_t mappings = cost_growth(before->mappings, after.mappings);
    char name[SHM_NAME] = "";
    size_t shared = cost_count_shared_memory(comm_ids, name, sizeof(name));

    if (bytes >= 16 * N_COMMS)
        stp_contract_fail(run, "%d communicators left %zu bytes behind",
                          N_COMMS, bytes);
    if (files >= N_COMMS / 2)
        stp_contract_fail(run, "%d communicators left %zu files open", N_COMMS,
                          files);
    if (mappings >= N_COMMS / 2)
        stp_contract_fail(run, "%d communicators left %zu mappings behind",
                          N_COMMS, mappings);
    if (shared > 0)
        stp_contract_fail(run,
                          "%d communicators left %zu files behind in /dev/shm, "
                          "among them %s",
                          N_COMMS, shared, name);
}

/* Another communicator lives all the time, so that the library is not unloaded
 * in between. */
void stp_check_leak_comm(struct stp_contract_run *run)
{
    struct mock_nccl *nccl = stp_contract_open(run);
    uint64_t comm_ids[N_COMMS];
    struct holdings before;

    stp_contract_comm(run, nccl, run->world->shapes[STP_SHAPE_2], 0);
    for (int i = 0; i < N_COMMS; i++)
        cost_use_comm(run, nccl, mock_new_comm_id());
    before = cost_count_holdings();
    for (int i = 0; i < N_COMMS; i++)
        cost_use_comm(run, nccl, comm_ids[i] = mock_new_comm_id());
    cost_judge_holdings(run, &before, comm_ids);
}

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

static void cost_save_environment(char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (char **e = environ; *e != NULL && used < ENVIRONMENT; e++)
        used += (size_t)snprintf(text + used, ENVIRONMENT - used, "%s\n", *e);
}

static void cost_look_at_process(struct process *p)
{
    memset(p, 0, sizeof(*p));
    if (getcwd(p->folder, sizeof(p->folder)) == NULL)
        p->folder[0] = '\0';
    snprintf(p->locale, sizeof(p->locale), "%s", setlocale(LC_ALL, NULL));
    cost_save_environment(p->environment);
    p->umask = umask(0);
    umask(p->umask);
    p->rounding = fegetround();
    for (int s = 1; s < N_SIGNALS; s++) {
        struct sigaction action;

        if (sigaction(s, NULL, &action) == 0)
            p->handlers[s] = action.sa_handler;
    }
    sigprocmask(SIG_SETMASK, NULL, &p->blocked);
    p->n_threads = cost_count_entries("/proc/self/task");
}

/* A thread that is about to end may take a moment. */
static void cost_wait_for_threads(size_t n)
{
    const struct timespec moment = {0, 10000000};

    for (int i = 0; i < 100 && cost_count_entries("/proc/self/task") > n; i++)
        nanosleep(&moment, NULL);
}

static void cost_compare_processes(struct stp_contract_run *run,
                                   const struct process *a,
                                   const struct process *b)
{
    const struct {
        bool changed;
        const char *name;
    } all[] = {
        {strcmp(a->folder, b->folder) != 0, "the working directory"},
        {strcmp(a->locale, b->locale) != 0, "the locale"},
        {strcmp(a->environment, b->environment) != 0, "the environment"},
        {a->umask != b->umask, "the umask"},
        {a->rounding != b->rounding, "the rounding of numbers"},
        {memcmp(a->handlers, b->handlers, sizeof(a->handlers)) != 0,
         "a signal's handler"},
        {memcmp(&a->blocked, &b->blocked, sizeof(a->blocked)) != 0,
         "the signals that are blocked"},
        {a->n_threads != b->n_threads,
         "the number of threads: one outlives the communicator"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].changed)
            stp_contract_fail(run, "changed %s", all[i].name);
}

/* Ends the process as a job does, with its exit handlers. */
void stp_check_process(struct stp_contract_run *run)
{
    static struct process before, after;
    struct mock_nccl *nccl = stp_contract_open(run);

    cost_look_at_process(&before);
    cost_use_comm(run, nccl, mock_new_comm_id());
    cost_wait_for_threads(before.n_threads);
    cost_look_at_process(&after);
    cost_compare_processes(run, &before, &after);
    stp_contract_unload(run, nccl);
    stp_contract_at(run, "exit()");
    run->slot->done = true;
    exit(0);
}

/* ---- words ---- */

enum { N_QUIET_CALLS = 200, MAX_WARNINGS = 5 };

struct listener {
    size_t n_lines; /* while calls are made */
    size_t n_warnings;
    bool first;     /* the next line is the first of a call, */
    char line[160]; /* and this was the last one of those */
};

static void cost_hear(void *user, ncclDebugLogLevel level, unsigned long flags,
                      const char *line)
{
    struct listener *l = user;

    (void)flags;
    l->n_lines++;
    l->n_warnings += level <= NCCL_LOG_WARN;
    if (l->first || level <= NCCL_LOG_WARN)
        snprintf(l->line, sizeof(l->line), "%s", line);
    l->first = false;
}

/* All that is logged from init on, with the tuner or without. */
static struct listener cost_listen(struct stp_contract_run *run, bool alone)
{
    struct mock_nccl *nccl =
        stp_contract_open_as(run, &(struct stp_contract_nccl){.alone = alone});
    struct listener listener = {0};
    struct mock_comm *comm;

    mock_set_log(cost_hear, &listener);
    comm = stp_contract_comm(run, nccl, run->world->shapes[STP_SHAPE_4], 0);
    listener.n_lines = 0;
    for (size_t i = 0; i < N_QUIET_CALLS; i++) {
        listener.first = true;
        cost_call_often(comm, 1);
    }
    mock_set_log(NULL, NULL);
    return listener;
}

/* Beside what NCCL logs itself. */
void stp_check_quiet(struct stp_contract_run *run)
{
    struct listener alone = cost_listen(run, true);
    struct listener tuned = cost_listen(run, false);
    size_t n_lines = cost_growth(alone.n_lines, tuned.n_lines);
    size_t n_warnings = cost_growth(alone.n_warnings, tuned.n_warnings);

    if (n_lines >= N_QUIET_CALLS / 2)
        stp_contract_fail(run, "%d calls logged %zu lines, such as '%s'",
                          N_QUIET_CALLS, n_lines, tuned.line);
    if (n_warnings > MAX_WARNINGS)
        stp_contract_fail(run,
                          "%zu warnings for one communicator, such as '%s'",
                          n_warnings, tuned.line);
}
