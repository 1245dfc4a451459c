#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyse/contract/contract_suite.h"
#include "child/child.h"
#include "core/text.h"
#include "launch/take.h"

enum { MAX_OUTPUT = 1 << 24, OUTPUT_PATH = STP_PATH + 32 };

/* ==== a process for each check ==== */

/* The output of the tuner goes to a file, not among the verdicts; what a
 * sanitizer or an assertion said there becomes part of them. */

/* A process to run, and what became of it. */
struct job {
    stp_contract_fn *fn;
    struct stp_contract_run run;
    int pid; /* 0 if it does not run */
    int64_t began_ns;
    unsigned n_attempts; /* at the last look, */
    int64_t looked_ns;   /* which was then, */
    int64_t stuck_ns;    /* and for how long that had not changed */
};

static void run_get_output(const struct stp_contract_run *run,
                           char path[OUTPUT_PATH])
{
    snprintf(path, OUTPUT_PATH, "%s/output-%d", run->world->folder,
             run->number);
}

/* A check that ended otherwise than by returning. */
static void run_judge_end(struct stp_contract_run *run, int status,
                          double timed_out_s)
{
    struct stp_contract_slot *slot = run->slot;
    char path[OUTPUT_PATH], how[96], at[STP_CALL_TEXT + STP_CONTRACT_TEXT];
    char call[STP_CALL_TEXT] = "";
    char said[256] = ""; /* a sanitizer's summary, else the last line */
    const char *line, *next;
    char *text;
    size_t len, n;

    run_get_output(run, path);
    if (stp_read_file(path, MAX_OUTPUT, &text, &len, NULL) == STP_OK) {
        next = text;
        while (strncmp(said, "SUMMARY: ", 9) != 0 &&
               (line = stp_next_line(&next, text + len, &n)) != NULL)
            if (n > 0)
                snprintf(said, sizeof(said), "%.*s", (int)n, line);
        free(text);
    }
    if (timed_out_s > 0)
        snprintf(how, sizeof(how), "did not come back within %g s",
                 timed_out_s);
    else if (stp_child_crash(status) != NULL)
        snprintf(how, sizeof(how), "crashed (%s)", stp_child_crash(status));
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
    if (slot->call.n_bytes != 0)
        stp_contract_describe(&slot->call, call);
    snprintf(at, sizeof(at), "%s%.*s", call, STP_CONTRACT_TEXT, slot->at);
    stp_contract_set(slot, STP_CONTRACT_FAIL, "%s%s%s%s%s", how,
                     at[0] != '\0' && how[0] != '\0' ? " in " : "",
                     how[0] != '\0' ? at : "",
                     said[0] != '\0' && how[0] != '\0' ? ": " : "", said);
}

static int64_t run_get_ns(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Kills the check's process and its own children. The group cannot be
 * another's, as the process that it is named after has not been waited for. */
static void run_kill(struct job *job, int *status)
{
    kill(-job->pid, SIGKILL);
    *status = stp_child_await(job->pid);
    job->pid = 0;
}

static void run_kill_all(struct job *jobs, size_t n)
{
    int status;

    for (size_t i = 0; i < n; i++)
        if (jobs[i].pid != 0)
            run_kill(&jobs[i], &status);
}

enum { LOOK_NS = 50000000, MAX_LOOK_NS = 2 * LOOK_NS, NS_PER_MS = 1000000 };

/* Looks at a job that has not ended.  Returns the limit in seconds that it is
 * beyond, or 0.  Where looks come late, because others take the processors,
 * only a part of the time counts against a call. */
static double run_find_timeout(struct job *job)
{
    const struct stp_contract_slot *slot = job->run.slot;
    const unsigned limit_s = job->run.options->time_limit_s;
    const unsigned n = atomic_load(&slot->n_attempts);
    const int64_t now = run_get_ns(), since = now - job->looked_ns;

    if (n != job->n_attempts || slot->call.n_bytes == 0)
        job->stuck_ns = 0;
    else
        job->stuck_ns += since < MAX_LOOK_NS ? since : MAX_LOOK_NS;
    job->n_attempts = n;
    job->looked_ns = now;
    if (job->stuck_ns > STP_MAX_CALL_MS * (int64_t)NS_PER_MS)
        return STP_MAX_CALL_MS / 1000.0;
    return now - job->began_ns > limit_s * (int64_t)1000 * NS_PER_MS ? limit_s
                                                                     : 0;
}

/* Tells of the first job that has not ended, once it is time to. Jobs that
 * serve several checks have the entry of any. */
static void run_tell(const struct job *job, const struct job *end,
                     int64_t *told_ns)
{
    const struct stp_contract_options *o = job->run.options;
    const int64_t now = run_get_ns();

    while (job < end && job->pid == 0)
        job++;
    if (o->tell == NULL || job == end ||
        (double)(now - *told_ns) < o->tell_s * 1e9)
        return;
    *told_ns = now;
    o->tell(job->fn == job->run.entry->fn ? job->run.entry->name
            : job->fn == stp_check_calls  ? "calls of all sizes"
                                          : "loads",
            (double)(now - job->began_ns) / 1e9);
}

/* Runs all jobs, several at a time, and leaves verdicts in their slots, also of
 * crashes, hangs and exits.  False if a signal came (*signal_ret; the mask of
 * the caller must block it) or no process could be had (*signal_ret 0); then
 * none is left. */
static bool run_jobs(struct job *jobs, size_t n, const sigset_t *blocked,
                     const sigset_t *unblocked, int *signal_ret)
{
    const struct timespec a_while = {0, LOOK_NS};
    const long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t max = n_processors > 0 ? (size_t)n_processors : 1;
    size_t next = 0;
    size_t n_running = 0;
    int64_t told_ns = run_get_ns();

    *signal_ret = 0;
    while ((next < n || n_running > 0) && *signal_ret == 0) {
        int sig;

        while (next < n && n_running < max) {
            struct job *job = &jobs[next];

            job->pid = stp_child_start(true);
            if (job->pid == 0) {
                char path[OUTPUT_PATH];

                sigprocmask(SIG_SETMASK, unblocked, NULL);
                run_get_output(&job->run, path);
                stp_child_redirect(path);
                stp_contract_set_policy(job->run.policy);
                job->fn(&job->run);
                stp_contract_end(&job->run);
            }
            if (job->pid < 0) {
                job->pid = 0;
                run_kill_all(jobs, n);
                return false;
            }
            job->began_ns = job->looked_ns = run_get_ns();
            next++;
            n_running++;
        }
        run_tell(jobs, jobs + next, &told_ns);
        /* until a child ends, a signal comes, or a while has passed */
        sig = sigtimedwait(blocked, NULL, &a_while);
        if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)
            *signal_ret = sig;
        n_running = 0;
        for (size_t i = 0; i < next; i++) {
            struct job *job = &jobs[i];
            siginfo_t info = {0};
            double timed_out_s;
            bool has_ended;
            int status;

            if (job->pid == 0)
                continue;
            has_ended = waitid(P_PID, (id_t)job->pid, &info,
                               WEXITED | WNOHANG | WNOWAIT) != 0 ||
                        info.si_pid != 0;
            timed_out_s = has_ended ? 0 : run_find_timeout(job);
            if (!has_ended && timed_out_s == 0) {
                n_running++;
                continue;
            }
            run_kill(job, &status);
            run_judge_end(&job->run, status, timed_out_s);
        }
    }
    run_kill_all(jobs, n);
    return *signal_ret == 0;
}

/* ==== the suite ==== */

/* Everything that one run of the suite has. */
struct suite {
    const struct stp_contract_options *options;
    struct stp_world world;
    struct stp_contract_run common;  /* what all checks are given */
    struct stp_contract_slot *slots; /* shared: one a check, then one for the
                                        probe, one for all calls and what judges
                                        say of them; or one a version */
    struct job jobs[STP_N_CONTRACT_CHECKS + 2];
    sigset_t blocked, unblocked;
    int signal; /* that ended it; 0 if none did */
    char loads[STP_MAX_NCCL][STP_CONTRACT_TEXT]; /* why not, by version */
};

enum {
    PROBE = STP_N_CONTRACT_CHECKS,
    CALLS,
    JUDGED, /* and on: by number of the job, what each check's judge says */
    N_SLOTS = JUDGED + JUDGED * STP_N_CONTRACT_CHECKS,
};

const char *stp_contract_verdict_name(enum stp_contract_verdict verdict)
{
    static const char *const names[] = {[STP_CONTRACT_OK] = "ok",
                                        [STP_CONTRACT_FAIL] = "FAIL",
                                        [STP_CONTRACT_SKIP] = "skip"};

    return names[verdict];
}

size_t stp_contract_count(const struct stp_contract *contract,
                          enum stp_contract_verdict verdict)
{
    size_t n = 0;

    for (size_t i = 0; i < contract->n_checks; i++)
        n += contract->checks[i].verdict == verdict;
    return n;
}

/* ---- running ---- */

static struct stp_contract_slot *suite_get_judged(const struct suite *s,
                                                  int number)
{
    return &s->slots[JUDGED + number * STP_N_CONTRACT_CHECKS];
}

static struct job suite_get_job(const struct suite *s, int number,
                                stp_contract_fn *fn)
{
    struct job job = {.fn = fn, .run = s->common};

    job.run.judged = suite_get_judged(s, number);
    job.run.entry = &stp_contract_checks[number % STP_N_CONTRACT_CHECKS];
    job.run.number = number;
    job.run.slot = &s->slots[number];
    return job;
}

static enum stp_status suite_run_jobs(struct suite *s, size_t n,
                                      struct stp_error *err)
{
    if (run_jobs(s->jobs, n, &s->blocked, &s->unblocked, &s->signal))
        return STP_OK;
    return stp_fail(err, STP_ERR_IO,
                    s->signal != 0 ? "stopped by a signal"
                                   : "no process to be had for a check");
}

/* ---- which NCCL takes it ---- */

static enum stp_status suite_find_versions(struct suite *s,
                                           struct stp_error *err)
{
    int n = 0;

    for (const char *name;
         n < STP_MAX_NCCL && (name = mock_release_name((size_t)n)) != NULL;
         n++) {
        s->jobs[n] = suite_get_job(s, n, stp_check_loads);
        s->jobs[n].run.nccl = name;
    }
    STP_TRY(suite_run_jobs(s, (size_t)n, err));
    for (int v = 0; v < n; v++) {
        const struct stp_contract_slot *slot = &s->slots[v];

        s->common.tuner_versions[v] = slot->tuner_version;
        if (slot->tuner_version != 0)
            snprintf(s->common.tuner_name, sizeof(s->common.tuner_name), "%s",
                     slot->tuner_name);
        memcpy(s->loads[v], slot->text, sizeof(s->loads[v]));
    }
    memset(s->slots, 0, N_SLOTS * sizeof(*s->slots));
    return STP_OK;
}

/* Whether a version takes the tuner. */
static bool suite_takes(const struct suite *s, int v)
{
    return v >= 0 && s->common.tuner_versions[v] != 0;
}

/* The first verdict, and the NCCL that the other checks play: the one asked
 * for, else the machine's, else the oldest that takes the tuner. */
static void suite_choose_nccl(struct suite *s)
{
    struct stp_contract_slot *slot = &s->slots[STP_CONTRACT_LOADS];
    const char *nccl = s->options->nccl != NULL
                           ? s->options->nccl
                           : mock_machine_get_info(s->world.machine)->nccl;
    int asked = mock_release_find(nccl);
    const char *why = asked >= 0 ? s->loads[asked] : "";
    int oldest = 0, newest = STP_MAX_NCCL - 1;

    while (oldest < STP_MAX_NCCL && !suite_takes(s, oldest))
        oldest++;
    while (newest >= 0 && !suite_takes(s, newest))
        newest--;
    s->common.nccl = nccl;
    if (!suite_takes(s, asked) && (s->options->nccl != NULL || newest < 0)) {
        stp_contract_set(slot, STP_CONTRACT_FAIL,
                         "NCCL %s does not load it%s%s", nccl,
                         why[0] != '\0' ? ": " : "", why);
        return;
    }
    if (!suite_takes(s, asked))
        s->common.nccl = mock_release_name((size_t)oldest);
    /* "v2 v3 in NCCL 2.21 to 2.30" */
    for (int v = 0, last = 0; v < STP_MAX_NCCL; v++) {
        int tuner = s->common.tuner_versions[v];

        if (tuner != 0 && tuner != last)
            stp_append(slot->text, sizeof(slot->text), "v%d ", tuner);
        last = tuner;
    }
    stp_append(slot->text, sizeof(slot->text), "in NCCL %s to %s",
               mock_release_name((size_t)oldest),
               mock_release_name((size_t)newest));
}

/* ---- stages ---- */

/* Whether a check is left out. */
static bool suite_leaves_out(const struct suite *s, int i)
{
    return s->options->only != NULL &&
           strcmp(s->options->only, stp_contract_checks[i].name) != 0;
}

/* Runs a stage's checks behind the 'n' jobs that there are. */
static enum stp_status suite_run_stage(struct suite *s,
                                       enum stp_contract_stage stage, size_t n,
                                       struct stp_error *err)
{
    for (int i = 0; i < STP_N_CONTRACT_CHECKS; i++)
        if (stp_contract_checks[i].stage == stage &&
            stp_contract_checks[i].fn != NULL &&
            (stage == STP_STAGE_BASIC || !suite_leaves_out(s, i)))
            s->jobs[n++] = suite_get_job(s, i, stp_contract_checks[i].fn);
    return suite_run_jobs(s, n, err);
}

static void suite_skip(struct suite *s, bool basic_too, const char *why)
{
    for (int i = 0; i < STP_N_CONTRACT_CHECKS; i++)
        if (i != STP_CONTRACT_LOADS &&
            (basic_too || stp_contract_checks[i].stage != STP_STAGE_BASIC))
            stp_contract_set(&s->slots[i], STP_CONTRACT_SKIP, "%s", why);
}

static enum stp_status suite_run_all(struct suite *s, struct stp_error *err)
{
    bool has_judged = false, has_any = false;

    STP_TRY(suite_find_versions(s, err));
    suite_choose_nccl(s);
    if (s->slots[STP_CONTRACT_LOADS].verdict != STP_CONTRACT_OK) {
        suite_skip(s, true, "not loaded");
        return STP_OK;
    }
    s->jobs[0] = suite_get_job(s, PROBE, stp_check_probe);
    STP_TRY(suite_run_stage(s, STP_STAGE_BASIC, 1, err));
    s->common.reads_file = s->slots[PROBE].reads_file;
    if (!s->slots[PROBE].usable) {
        suite_skip(s, false, "no communicator could be made");
        return STP_OK;
    }
    STP_TRY(suite_run_stage(s, STP_STAGE_INITS, 0, err));
    for (int i = 0; i < STP_N_CONTRACT_CHECKS; i++)
        s->common.inits_race |=
            stp_contract_checks[i].stage == STP_STAGE_INITS &&
            s->slots[i].verdict == STP_CONTRACT_FAIL;
    for (int i = 0; i < STP_N_CONTRACT_CHECKS; i++) {
        has_any |= !suite_leaves_out(s, i);
        has_judged |=
            stp_contract_checks[i].judge != NULL && !suite_leaves_out(s, i);
    }
    if (!has_any)
        return STP_REFUSE(err,
                          "no check is named '%.100s', expected one that "
                          "--contract prints",
                          s->options->only);
    s->jobs[0] = suite_get_job(s, CALLS, stp_check_calls);
    STP_TRY(suite_run_stage(s, STP_STAGE_MOST, has_judged, err));
    for (int i = 0; i < STP_N_CONTRACT_CHECKS; i++) {
        const struct stp_contract_slot *judged = &suite_get_judged(s, CALLS)[i];
        const char *in = NULL;

        for (int k = 0; k < STP_N_CONTRACT_CHECKS; k++)
            if (judged->verdict == STP_CONTRACT_OK &&
                suite_get_judged(s, k)[i].verdict != STP_CONTRACT_OK) {
                judged = &suite_get_judged(s, k)[i];
                in = stp_contract_checks[k].name;
            }
        if (judged->verdict == STP_CONTRACT_OK) /* until the calls ended */
            judged = &s->slots[CALLS];
        if (suite_leaves_out(s, i) &&
            stp_contract_checks[i].stage != STP_STAGE_BASIC)
            stp_contract_set(&s->slots[i], STP_CONTRACT_SKIP, "not asked for");
        else if (stp_contract_checks[i].judge != NULL)
            stp_contract_set(&s->slots[i], judged->verdict,
                             in != NULL ? "%s, in '%s'" : "%s", judged->text,
                             in);
    }
    return STP_OK;
}

/* ---- life ---- */

enum stp_status stp_contract_run(const struct stp_contract_options *options,
                                 struct stp_contract *contract_ret,
                                 struct stp_error *err)
{
    const struct mock_nccl_options alone = {.version = options->nccl,
                                            .tuner_plugin = "none"};
    struct suite *s = stp_take(1, sizeof(*s));
    struct stp_contract c = {
        .n_checks = STP_N_CONTRACT_CHECKS,
        .seed = options->seed,
        .checks = stp_take(STP_N_CONTRACT_CHECKS, sizeof(*c.checks))};
    struct mock_nccl *nccl;
    enum stp_status status = STP_OK;

    s->options = options;
    /* While it runs, signals are waited for, so that processes and files can go
     * before the caller does. */
    sigemptyset(&s->blocked);
    sigaddset(&s->blocked, SIGCHLD);
    sigaddset(&s->blocked, SIGINT);
    sigaddset(&s->blocked, SIGTERM);
    sigaddset(&s->blocked, SIGHUP);
    sigprocmask(SIG_BLOCK, &s->blocked, &s->unblocked);
    if (mock_nccl_create(&alone, &nccl) == ncclSuccess)
        mock_nccl_destroy(nccl);
    else
        status = stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    STP_THEN(status, stp_world_open(&s->world, options->machine_path,
                                    options->n_ranks, err));
    s->slots = mmap(NULL, N_SLOTS * sizeof(*s->slots), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (status == STP_OK && s->slots == MAP_FAILED)
        status = stp_nomem(err);
    s->common.options = options;
    s->common.world = &s->world;
    s->common.policy = options->policy != NULL ? options->policy
                                               : s->world.files[STP_FILE_BASE];
    STP_THEN(status, suite_run_all(s, err));
    if (status == STP_OK) {
        for (int i = 0; i < STP_N_CONTRACT_CHECKS; i++) {
            struct stp_contract_check *check = &c.checks[i];

            check->name = stp_contract_checks[i].name;
            check->meaning = stp_contract_checks[i].meaning;
            check->verdict = s->slots[i].verdict;
            memcpy(check->text, s->slots[i].text, sizeof(check->text));
        }
        snprintf(c.name, sizeof(c.name), "%s", s->common.tuner_name);
        snprintf(c.nccl, sizeof(c.nccl), "%s", s->common.nccl);
        snprintf(c.machine, sizeof(c.machine), "%s",
                 mock_machine_get_info(s->world.machine)->name);
        *contract_ret = c;
    } else
        free(c.checks);
    if (s->slots != MAP_FAILED)
        munmap(s->slots, N_SLOTS * sizeof(*s->slots));
    stp_world_close(&s->world);
    if (s->signal != 0)
        raise(s->signal);
    sigprocmask(SIG_SETMASK, &s->unblocked, NULL);
    free(s);
    return status;
}

void stp_contract_free(struct stp_contract *contract)
{
    free(contract->checks);
    memset(contract, 0, sizeof(*contract));
}
