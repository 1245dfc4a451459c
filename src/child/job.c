#include "child/job.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child/child.h"
#include "core/utf8.h"

/* ---- its environment ---- */

bool stp_job_has(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

enum stp_status stp_job_set(const struct stp_job_variable *variables, size_t n,
                            struct stp_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct stp_job_variable *v = &variables[i];

        if (v->value != NULL ? setenv(v->name, v->value, 1) != 0
                             : unsetenv(v->name) != 0)
            return stp_nomem(err);
    }
    return STP_OK;
}

/* ---- its command ---- */

/* Text that is cut where it is full. */
struct line {
    char text[STP_JOB_COMMAND];
    size_t len;
};

static void line_add(struct line *line, const char *s, size_t len)
{
    const size_t room = sizeof(line->text) - line->len;

    len = len < room ? len : room;
    memcpy(line->text + line->len, s, len);
    line->len += len;
}

void stp_job_print_command(char *const *argv, char text[STP_JOB_COMMAND])
{
    struct line line = {.len = 0};

    for (char *const *arg = argv; *arg != NULL; arg++) {
        const char *word = *arg;
        const size_t n_plain = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "abcdefghijklmnopqrstuvwxyz"
                                            "0123456789%+,-./:=@^_");
        const bool is_plain = n_plain > 0 && word[n_plain] == '\0';
        bool is_escaped; /* as shells read what text[] has of controls */

        stp_printable(word, strlen(word), text, STP_JOB_COMMAND);
        is_escaped = strncmp(text, word, strlen(text)) != 0;
        line_add(&line, " ", arg > argv ? 1 : 0);
        line_add(&line, is_escaped ? "$'" : "'", is_plain ? 0 : 1 + is_escaped);
        for (; *word != '\0'; word++)
            if (is_escaped && (*word == '\'' || *word == '\\'))
                line_add(&line, (char[]){'\\', *word}, 2);
            else
                line_add(&line, *word == '\'' ? "'\\''" : word,
                         *word == '\'' ? 4 : 1);
        line_add(&line, "'", is_plain ? 0 : 1);
    }
    stp_printable(line.text, line.len, text, STP_JOB_COMMAND);
}

const char *stp_job_word(const char *file, char text[STP_JOB_COMMAND])
{
    stp_job_print_command((char *const[]){(char *)file, NULL}, text);
    return text;
}

/* ---- a job that runs ---- */

static const int forwarded[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
                                SIGUSR1, SIGUSR2, SIGCONT};

enum {
    N_FORWARDED = sizeof(forwarded) / sizeof(forwarded[0]),
    N_STOPS = 4,
    CHECK_S = 1,
    MAX_OTHERS = 64, /* children of this process that are no job's */
};

static const double sweep_s = 0.5; /* in which what is killed ends */

struct running {
    const struct stp_job *job;
    bool is_parent; /* what the job leaves behind is this process's child */
    pid_t pid;
    double begin_s;
    double deadline_s; /* when it is sent the next signal; 0: never */
    int next;          /* that signal */
    double check_s;    /* when goes_on() is called next; 0: never */
    double say_s;      /* when say() is called; 0: never */
    long others[MAX_OTHERS];
    size_t n_others;
    long told[MAX_OTHERS]; /* of these, that were sent the signal */
    size_t n_told;
    int asked; /* the last signal of a process that asked to stop; 0: none */
    struct stp_job_end end;
};

static double job_now_s(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Signals that are waited for, and not handled: none is lost between two looks
 * at the job. */
static sigset_t watched;

/* The signals blocked before the first job, which all jobs inherit. */
static sigset_t blocked_before;
static bool holds_signals;

/* ---- the child ---- */

/* The message of a child that could not become the job. */
struct failure {
    int error;
    bool is_output;
};

static void job_exec(const struct stp_job *job, int told)
{
    struct failure failure = {0};

    sigprocmask(SIG_SETMASK, &blocked_before, NULL);
    if (job->body != NULL) {
        int status;

        close(told);
        status = job->body(job->user);
        fflush(NULL);
        _exit(status);
    }
    failure.is_output = job->output != NULL && !stp_child_redirect(job->output);
    if (job->is_aside && job->output == NULL)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    signal(SIGXFSZ, SIG_DFL);         /* which this program ignores */
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* launchers end their processes then */
    if (!failure.is_output &&
        stp_job_set(job->variables, job->n_variables, NULL) == STP_OK)
        execvp(job->argv[0], job->argv);
    failure.error = errno;
    if (write(told, &failure, sizeof(failure)) < 0)
        errno = 0; /* the status is all that is left to say it */
    _exit(failure.error == ENOENT ? STP_JOB_NOT_FOUND : STP_JOB_NOT_RUN);
}

/* Reads why the child did not become the job; one that did sends nothing. */
static enum stp_status job_read_failure(const struct stp_job *job, int told,
                                        struct stp_error *err)
{
    struct failure failure;
    ssize_t n;

    do
        n = read(told, &failure, sizeof(failure));
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(failure))
        return STP_OK;
    if (failure.is_output)
        return stp_fail(err, STP_ERR_IO, "cannot write '%.140s': %s",
                        job->output, strerror(failure.error));
    if (failure.error == ENOENT && strchr(job->argv[0], '/') != NULL &&
        access(job->argv[0], X_OK) == 0)
        return stp_fail(err, STP_ERR_NOTHING,
                        "cannot run '%.140s': the interpreter behind its #! is "
                        "not there (a CR at the line's end?), or its loader",
                        job->argv[0]);
    return stp_fail(err, STP_ERR_NOTHING, "cannot run '%.140s': %s",
                    job->argv[0], strerror(failure.error));
}

void stp_job_hold_signals(void)
{
    struct sigaction hangup;
    sigset_t held;

    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (int i = 0; i < N_FORWARDED; i++)
        sigaddset(&watched, forwarded[i]);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN)
        sigdelset(&watched, SIGHUP); /* as under nohup */
    signal(SIGCHLD, SIG_DFL); /* ignored, there would be nothing to wait for */
    held = watched;
    sigaddset(&held, SIGPIPE); /* else who reads no further leaves files here */
    sigprocmask(SIG_BLOCK, &held, holds_signals ? NULL : &blocked_before);
    holds_signals = true;
}

static enum stp_status job_start(struct running *r, struct stp_error *err)
{
    int told[2];
    enum stp_status status;

    if (pipe(told) != 0)
        return stp_fail(err, STP_ERR_DEVICE, "cannot start a process: %s",
                        strerror(errno));
    fcntl(told[1], F_SETFD, FD_CLOEXEC);
    stp_job_hold_signals();
    r->begin_s = job_now_s();
    r->pid = stp_child_start(r->job->output != NULL);
    if (r->pid == 0) {
        close(told[0]);
        job_exec(r->job, told[1]);
    }
    close(told[1]);
    if (r->pid < 0)
        status = stp_fail(err, STP_ERR_DEVICE, "cannot start a process: %s",
                          strerror(errno));
    else
        status = job_read_failure(r->job, told[0], err);
    close(told[0]);
    return status;
}

/* ---- its end ---- */

static void job_send(const struct running *r, int number)
{
    kill(r->job->output != NULL ? -r->pid : r->pid, number);
}

static bool job_is_due(double when_s)
{
    return when_s > 0 && job_now_s() >= when_s;
}

/* Says what still runs, and when it is killed; 0: never, but by hand. */
static void job_say(struct running *r, const char *what, double kill_s)
{
    char killed[64];

    if (!job_is_due(r->say_s))
        return;
    r->say_s = 0;
    if (r->job->say == NULL)
        return;
    if (kill_s > 0)
        snprintf(killed, sizeof(killed), "it is killed in %.0f s",
                 kill_s - job_now_s());
    else
        snprintf(killed, sizeof(killed), "`kill -KILL %d` ends it", r->pid);
    r->job->say("waiting for %s, which was asked to end %d s ago: %s", what,
                STP_JOB_SAY_S, killed);
}

/* Lists children of this process but for those that were there before. */
static size_t job_read_children(const struct running *r, long *children,
                                size_t max)
{
    char path[64];
    FILE *fp;
    long pid;
    size_t n = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/children",
             (long)getpid());
    fp = fopen(path, "re");
    while (fp != NULL && n < max && fscanf(fp, "%ld", &pid) == 1) {
        size_t i = 0;

        while (i < r->n_others && r->others[i] != pid)
            i++;
        if (i == r->n_others)
            children[n++] = pid;
    }
    if (fp != NULL)
        fclose(fp);
    return n;
}

/* Awaits processes that left the job and ended, as their parent is this one.
 * The others get the signal, if it is not 0: once each, or SIGKILL.  Returns
 * how many there were. */
static size_t job_visit_left(struct running *r, int number)
{
    long children[MAX_OTHERS];
    const size_t n = job_read_children(r, children, MAX_OTHERS);

    for (size_t c = 0; c < n; c++) {
        size_t i = 0;

        while (i < r->n_told && r->told[i] != children[c])
            i++;
        if (children[c] == r->pid)
            continue;
        if (number == SIGKILL || i == r->n_told)
            kill((pid_t)children[c], number);
        waitpid((pid_t)children[c], NULL, WNOHANG);
    }
    r->n_told = number != 0 ? n : 0;
    memcpy(r->told, children, r->n_told * sizeof(children[0]));
    return n;
}

/* Waits for a signal, or until something is due. */
static void job_wait(struct running *r)
{
    const double times[] = {r->check_s, r->deadline_s, r->say_s};
    double due_s = 0, left_s;
    siginfo_t info;
    struct timespec left;
    int number;

    for (int i = 0; i < 3; i++)
        if (times[i] > 0 && (due_s <= 0 || times[i] < due_s))
            due_s = times[i];
    left_s = fmax(due_s - job_now_s(), 0);
    left.tv_sec = (time_t)left_s;
    left.tv_nsec = (long)((left_s - (double)left.tv_sec) * 1e9);
    number = due_s > 0 ? sigtimedwait(&watched, &info, &left)
                       : sigwaitinfo(&watched, &info);
    if (number == SIGCHLD && r->is_parent)
        job_visit_left(r, 0);
    if (number > 0 && number != SIGCHLD) {
        /* Passes a signal on to the job. The terminal's signals reach the job
         * by themselves, unless it is in a group of its own. */
        for (int i = 0; i < N_STOPS; i++)
            if (info.si_signo == forwarded[i])
                r->end.signal = info.si_signo;
        if (info.si_code != SI_KERNEL) {
            if (r->asked == 0 && r->end.signal != 0)
                r->say_s = job_now_s() + STP_JOB_SAY_S;
            r->asked = r->end.signal;
        }
        if (info.si_code != SI_KERNEL || r->job->output != NULL ||
            r->job->body != NULL)
            job_send(r, r->job->body != NULL && r->end.signal != 0
                            ? SIGKILL
                            : info.si_signo);
        if (r->end.signal != 0 && r->job->output != NULL) {
            const double stop_s = job_now_s() + STP_JOB_STOP_MS / 1e3;

            if (r->deadline_s <= 0 || stop_s < r->deadline_s)
                r->deadline_s = stop_s;
            r->next = SIGKILL;
        }
    }
    if (number < 0 && errno == EAGAIN) {
        /* Asks whether the job goes on, and signals it at the deadline. */
        if (job_is_due(r->check_s)) {
            const bool goes_on = r->job->goes_on(r->job->user);

            r->check_s = goes_on ? job_now_s() + CHECK_S : 0;
            if (!goes_on)
                r->deadline_s = job_now_s();
        }
        if (job_is_due(r->deadline_s)) {
            job_send(r, r->next);
            r->check_s = 0; /* what it does from now on is dying */
            r->say_s = r->next == SIGTERM ? job_now_s() + STP_JOB_SAY_S : 0;
            r->end.is_limited |= r->end.signal == 0;
            r->next = SIGKILL;
            r->deadline_s += STP_JOB_GRACE_S;
        }
        job_say(r, "the job", r->deadline_s);
    }
}

/* Kills what the job left behind: its group, and those that have left it, whose
 * parent is this process once their own is gone.  Where the job has no group,
 * each is asked to stop first, as the job was; a second request kills them. */
static void job_sweep(struct running *r)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    double kill_s = job_now_s();
    bool kills;

    if (r->job->output != NULL)
        job_send(r, SIGKILL);
    else
        kill_s += STP_JOB_GRACE_S;
    r->say_s = job_now_s() + STP_JOB_SAY_S;
    do {
        const int number = sigtimedwait(&watched, NULL, &pause);

        if (number == SIGINT || number == r->asked)
            kill_s = job_now_s();
        kills = job_is_due(kill_s);
        job_say(r, "what the job left behind", kill_s);
    } while (job_visit_left(r, kills ? SIGKILL : r->asked) > 0 &&
             !job_is_due(kill_s + sweep_s));
}

static void job_await(struct running *r)
{
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(r->pid, &status, WNOHANG)) == 0)
        job_wait(r);
    r->end.wall_s = job_now_s() - r->begin_s;
    if (ended < 0)
        r->end.status = 1; /* somebody else awaited it */
    else
        r->end.status = WIFSIGNALED(status) ? STP_JOB_SIGNAL + WTERMSIG(status)
                                            : WEXITSTATUS(status);
    if (r->job->output != NULL || (r->is_parent && r->asked != 0))
        job_sweep(r);
}

enum stp_status stp_job_run(const struct stp_job *job,
                            struct stp_job_end *end_ret, struct stp_error *err)
{
    struct running r = {.job = job,
                        .is_parent = job->output != NULL || job->is_whole,
                        .next = SIGTERM};
    enum stp_status status;

    if (r.is_parent) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        r.n_others = job_read_children(&r, r.others, MAX_OTHERS);
    }
    status = job_start(&r, err);
    if (r.pid <= 0)
        return status;
    if (job->limit_s > 0)
        r.deadline_s = r.begin_s + job->limit_s;
    if (job->goes_on != NULL)
        r.check_s = r.begin_s + CHECK_S;
    job_await(&r);
    if (status == STP_OK || status == STP_ERR_NOTHING)
        *end_ret = r.end;
    return status;
}
