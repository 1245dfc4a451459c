/*
 * contract_child.c - a process for each check
 *
 * The tuner's output goes to a file, so that it does not mix with the verdicts;
 * what a sanitizer or an assertion said there becomes part of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyse/contract/contract_suite.h"
#include "core/text.h"

enum { MAX_OUTPUT = 1 << 24, OUTPUT_PATH = STP_PATH + 32 };

/* ---- verdicts ---- */

static void set_verdict(struct stp_contract_slot *slot,
                        enum stp_contract_verdict verdict, const char *fmt,
                        va_list args)
{
    if (slot->verdict != STP_CONTRACT_OK)
        return;
    slot->verdict = verdict;
    vsnprintf(slot->text, sizeof(slot->text), fmt, args);
    for (char *s = slot->text; *s != '\0'; s++)
        if (*s == '\n')
            *s = ' ';
}

bool stp_contract_fail(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    set_verdict(run->slot, STP_CONTRACT_FAIL, fmt, args);
    va_end(args);
    return false;
}

void stp_contract_skip(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    set_verdict(run->slot, STP_CONTRACT_SKIP, fmt, args);
    va_end(args);
}

void stp_contract_note(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    set_verdict(run->slot, STP_CONTRACT_OK, fmt, args);
    va_end(args);
}

void stp_contract_at(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(run->slot->at, sizeof(run->slot->at), fmt, args);
    va_end(args);
}

/* ---- the child's side ---- */

static void output_path(const struct stp_contract_run *run,
                        char path[OUTPUT_PATH])
{
    snprintf(path, OUTPUT_PATH, "%s/output-%d", run->world->folder,
             run->number);
}

static void redirect_output(const struct stp_contract_run *run)
{
    char path[OUTPUT_PATH];
    int fd;

    output_path(run, path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (fd < 0)
        return;
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

/* A build that counts what ran would lose it with _exit(). */
extern void __gcov_dump(void) __attribute__((weak));

static void run_child(struct stp_contract_job *job)
{
    redirect_output(&job->run);
    stp_contract_set_policy(job->run.policy);
    job->fn(&job->run);
    job->run.slot->done = true;
    if (__gcov_dump != NULL)
        __gcov_dump();
    _exit(0);
}

/* ---- how a child ended ---- */

/* The line of the tuner's output that says most: a sanitizer's summary, else
 * the last one.  "" if there is none. */
static void telling_line(const char *text, size_t len, char *line_ret,
                         size_t size)
{
    const char *end = text + len;
    const char *line;
    size_t n;

    line_ret[0] = '\0';
    while ((line = stp_next_line(&text, end, &n)) != NULL) {
        if (n == 0)
            continue;
        snprintf(line_ret, size, "%.*s", (int)n, line);
        if (strncmp(line, "SUMMARY: ", 9) == 0)
            return;
    }
}

static void read_output(const struct stp_contract_run *run, char *line_ret,
                        size_t size)
{
    char path[OUTPUT_PATH];
    char *text;
    size_t len;

    line_ret[0] = '\0';
    output_path(run, path);
    if (stp_read_file(path, MAX_OUTPUT, &text, &len, NULL) != STP_OK)
        return;
    telling_line(text, len, line_ret, size);
    free(text);
}

/* A check that ended otherwise than by returning. */
static void judge_end(struct stp_contract_run *run, int status, bool timed_out)
{
    struct stp_contract_slot *slot = run->slot;
    char how[96], said[256];

    read_output(run, said, sizeof(said));
    if (timed_out)
        snprintf(how, sizeof(how), "did not come back within %u s",
                 run->options->time_limit_s);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "crashed (%s)", strsignal(WTERMSIG(status)));
    else if (!slot->done || WEXITSTATUS(status) != 0)
        snprintf(how, sizeof(how), "ended the process with exit status %d",
                 WEXITSTATUS(status));
    else if (strncmp(said, "SUMMARY: ", 9) == 0)
        how[0] = '\0'; /* a sanitizer that only reports */
    else
        return;
    if (slot->verdict == STP_CONTRACT_FAIL) /* that came first */
        return;
    slot->verdict = STP_CONTRACT_OK;
    stp_contract_fail(run, "%s%s%s%s%s", how,
                      slot->at[0] != '\0' && how[0] != '\0' ? " in " : "",
                      how[0] != '\0' ? slot->at : "",
                      said[0] != '\0' && how[0] != '\0' ? ": " : "", said);
}

/* ---- the parent's side ---- */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool start(struct stp_contract_job *job, const sigset_t *unblocked)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        return false;
    setpgid(pid, pid); /* on both sides: whoever comes first */
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, unblocked, NULL);
        run_child(job);
    }
    job->pid = pid;
    job->deadline_ns =
        now_ns() + (int64_t)job->run.options->time_limit_s * 1000000000;
    return true;
}

/* Its own children, too.  The group cannot be another's: the process that it is
 * named after has not been waited for. */
static void end(struct stp_contract_job *job, int *status)
{
    kill(-job->pid, SIGKILL);
    while (waitpid(job->pid, status, 0) < 0 && errno == EINTR)
        ;
    job->pid = 0;
}

static bool has_ended(const struct stp_contract_job *job)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)job->pid, &info, WEXITED | WNOHANG | WNOWAIT) !=
               0 ||
           info.si_pid != 0;
}

/* Whether the job still runs. */
static bool look_after(struct stp_contract_job *job)
{
    bool timed_out;
    int status = 0;

    if (job->pid == 0)
        return false;
    timed_out = !has_ended(job);
    if (timed_out && now_ns() < job->deadline_ns)
        return true;
    end(job, &status);
    judge_end(&job->run, status, timed_out);
    return false;
}

static void end_all(struct stp_contract_job *jobs, size_t n)
{
    int status;

    for (size_t i = 0; i < n; i++)
        if (jobs[i].pid != 0)
            end(&jobs[i], &status);
}

/* Until a child ends, a signal comes, or a while has passed. */
static int wait_for_event(const sigset_t *blocked)
{
    const struct timespec a_while = {0, 50000000};
    int sig = sigtimedwait(blocked, NULL, &a_while);

    return sig == SIGINT || sig == SIGTERM || sig == SIGHUP ? sig : 0;
}

static size_t count_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (size_t)n : 1;
}

bool stp_contract_run_jobs(struct stp_contract_job *jobs, size_t n,
                           bool one_by_one, const sigset_t *blocked,
                           const sigset_t *unblocked, int *signal_ret)
{
    size_t max = one_by_one ? 1 : count_processors();
    size_t next = 0;
    size_t n_running = 0;

    *signal_ret = 0;
    while ((next < n || n_running > 0) && *signal_ret == 0) {
        while (next < n && n_running < max) {
            if (!start(&jobs[next], unblocked)) {
                end_all(jobs, n);
                return false;
            }
            next++;
            n_running++;
        }
        *signal_ret = wait_for_event(blocked);
        n_running = 0;
        for (size_t i = 0; i < next; i++)
            n_running += look_after(&jobs[i]);
    }
    end_all(jobs, n);
    return *signal_ret == 0;
}
