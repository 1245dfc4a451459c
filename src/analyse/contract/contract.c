#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "analyse/contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyse/contract/contract_suite.h"

static const struct check {
    const char *name;
    const char *meaning;
    stp_contract_fn fn; /* NULL: comes out of the search for versions */
    bool basic;         /* before all others, and without them if it fails */
    bool alone;         /* with nothing else running */
} checks[] = {
    // clang-format off
    {"loads", "some NCCL finds a tuner in it", NULL, true, false},
    {"complete", "a name, and no function that is NULL",
     stp_check_complete, true, false},
    {"init", "succeeds on one rank and on many, on one node and on many",
     stp_check_init, true, false},
    {"survives reload", "decides the same each time it is loaded anew",
     stp_check_reload, false, false},
    {"survives staying loaded", "decides the same if it is never unloaded",
     stp_check_stays_loaded, false, false},
    {"finalize in any order", "contexts go in the order that NCCL has",
     stp_check_finalize, false, false},
    {"thread-safe init", "many communicators are made at once",
     stp_check_threads_init, false, false},
    {"thread-safe calls", "many communicators ask at once",
     stp_check_threads_ask, false, false},
    {"contexts apart", "a communicator does not change what another gets",
     stp_check_contexts, false, false},
    {"never fails a collective", "returns no error and leaves a choice",
     stp_check_never_fails, false, false},
    {"stays inside the table", "writes no cost beyond the last one",
     stp_check_inside, false, false},
    {"never negative", "writes no cost below 0",
     stp_check_negative, false, false},
    {"never revives", "leaves alone what NCCL has ruled out",
     stp_check_revives, false, false},
    {"channels in range", "asks for 0 to 64 channels",
     stp_check_channels, false, false},
    {"leaves unmatched untouched", "no channels where it decides nothing",
     stp_check_unmatched, false, false},
    {"survives any policy", "one that is missing, broken or wrong harms nothing",
     stp_check_policies, false, false},
    {"all NCCL versions", "no collective fails in any that takes it",
     stp_check_versions, false, false},
    {"ranks agree", "all ranks decide the same, in any order",
     stp_check_agree, false, false},
    {"ranks agree as threads", "a thread for each rank",
     stp_check_agree_threads, false, false},
    {"ranks agree as processes", "a process for each rank",
     stp_check_agree_processes, false, false},
    {"ranks of children agree", "split and shrunk communicators",
     stp_check_agree_children, false, false},
    {"ranks agree on regBuff", "which may differ from rank to rank",
     stp_check_agree_reg_buff, false, false},
    {"ranks agree on time", "clocks differ from rank to rank",
     stp_check_agree_clocks, false, false},
    {"ranks agree on environment", "launchers' variables differ",
     stp_check_agree_environment, false, false},
    {"ranks agree on files", "policies differ from rank to rank",
     stp_check_agree_files, false, false},
    {"ranks agree when one stalls", "nobody decides without it",
     stp_check_agree_stall, false, false},
    {"ranks agree when one dies", "the others go on, and the next job starts",
     stp_check_agree_death, false, false},
    {"no leak per call", "calls give back the memory they take",
     stp_check_leak_call, false, false},
    {"no leak per communicator", "memory, files and shared memory go with it",
     stp_check_leak_comm, false, false},
    {"leaves the process alone", "environment, signals, threads, exit",
     stp_check_process, false, false},
    {"quiet", "no log line a call, and few warnings",
     stp_check_quiet, false, false},
    {"fast", "a call takes 100 us at most", stp_check_fast, false, true},
    // clang-format on
};
enum { N_CHECKS = sizeof(checks) / sizeof(checks[0]), LOADS = 0 };

/* Everything that one run of the suite has. */
struct suite {
    const struct stp_contract_options *options;
    struct stp_world world;
    struct stp_contract_run common;  /* what all checks are given */
    struct stp_contract_slot *slots; /* shared: one a check, then one for the
                                        probe, or one a version */
    struct stp_contract_job jobs[N_CHECKS + 1];
    sigset_t blocked, unblocked;
    int signal; /* that ended it; 0 if none did */
    char loads[STP_MAX_NCCL][STP_CONTRACT_TEXT]; /* why not, by version */
};

enum { N_SLOTS = N_CHECKS + 1, PROBE = N_CHECKS };

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

static struct stp_contract_job job_of(const struct suite *s, int number,
                                      stp_contract_fn fn)
{
    struct stp_contract_job job = {.fn = fn, .run = s->common};

    job.run.number = number;
    job.run.slot = &s->slots[number];
    return job;
}

static enum stp_status run_jobs(struct suite *s, size_t n, bool one_by_one,
                                struct stp_error *err)
{
    if (stp_contract_run_jobs(s->jobs, n, one_by_one, &s->blocked,
                              &s->unblocked, &s->signal))
        return STP_OK;
    return stp_fail(err, STP_ERR_IO,
                    s->signal != 0 ? "stopped by a signal"
                                   : "no process to be had for a check");
}

/* ---- which NCCL takes it ---- */

static void clear_slots(struct suite *s)
{
    memset(s->slots, 0, N_SLOTS * sizeof(*s->slots));
}

static enum stp_status find_versions(struct suite *s, struct stp_error *err)
{
    enum stp_status status;
    int n = 0;

    for (const char *name;
         n < STP_MAX_NCCL && (name = mock_release_name((size_t)n)) != NULL;
         n++) {
        s->jobs[n] = job_of(s, n, stp_check_loads);
        s->jobs[n].run.nccl = name;
    }
    status = run_jobs(s, (size_t)n, false, err);
    for (int v = 0; v < n; v++) {
        const struct stp_contract_slot *slot = &s->slots[v];

        s->common.tuner_versions[v] = slot->tuner_version;
        if (slot->tuner_version != 0)
            snprintf(s->common.tuner_name, sizeof(s->common.tuner_name), "%s",
                     slot->tuner_name);
        memcpy(s->loads[v], slot->text, sizeof(s->loads[v]));
    }
    clear_slots(s);
    return status;
}

/* The first and the last, or -1. */
static int oldest_that_takes_it(const struct suite *s)
{
    for (int v = 0; v < STP_MAX_NCCL; v++)
        if (s->common.tuner_versions[v] != 0)
            return v;
    return -1;
}

static int newest_that_takes_it(const struct suite *s)
{
    for (int v = STP_MAX_NCCL - 1; v >= 0; v--)
        if (s->common.tuner_versions[v] != 0)
            return v;
    return -1;
}

static bool takes_it(const struct suite *s, const char *version)
{
    int v = mock_release_find(version);

    return v >= 0 && s->common.tuner_versions[v] != 0;
}

/* "v2 v3 in NCCL 2.21 to 2.30" */
static void describe_versions(const struct suite *s, char *text, size_t size)
{
    int oldest = oldest_that_takes_it(s);
    int newest = newest_that_takes_it(s);
    int n = 0;

    for (int v = 0, last = 0; v < STP_MAX_NCCL; v++) {
        int tuner = s->common.tuner_versions[v];

        if (tuner != 0 && tuner != last)
            n += snprintf(text + n, size - (size_t)n, "v%d ", tuner);
        last = tuner;
    }
    snprintf(text + n, size - (size_t)n, "in NCCL %s to %s",
             mock_release_name((size_t)oldest),
             mock_release_name((size_t)newest));
}

static void fail_loads(struct suite *s, const char *nccl)
{
    const char *why = s->loads[mock_release_find(nccl)];

    stp_contract_fail(&s->common, "NCCL %s does not load it%s%s", nccl,
                      *why != '\0' ? ": " : "", why);
}

/* The first verdict, and the NCCL that the other checks play: the one asked
 * for, else the machine's, else the oldest that takes the tuner. */
static void choose_nccl(struct suite *s)
{
    struct stp_contract_slot *slot = &s->slots[LOADS];
    int oldest = oldest_that_takes_it(s);
    bool any = s->options->nccl == NULL;

    s->common.slot = slot;
    s->common.nccl =
        any ? mock_machine_get_info(s->world.machine)->nccl : s->options->nccl;
    if (!takes_it(s, s->common.nccl) && (!any || oldest < 0))
        fail_loads(s, s->common.nccl);
    else if (!takes_it(s, s->common.nccl))
        s->common.nccl = mock_release_name((size_t)oldest);
    if (slot->verdict == STP_CONTRACT_OK)
        describe_versions(s, slot->text, sizeof(slot->text));
}

/* ---- stages ---- */

static enum stp_status run_basic(struct suite *s, struct stp_error *err)
{
    size_t n = 0;
    enum stp_status status;

    for (int i = 0; i < N_CHECKS; i++)
        if (checks[i].basic && checks[i].fn != NULL)
            s->jobs[n++] = job_of(s, i, checks[i].fn);
    s->jobs[n++] = job_of(s, PROBE, stp_check_probe);
    status = run_jobs(s, n, false, err);
    s->common.reads_file = s->slots[PROBE].reads_file;
    return status;
}

static enum stp_status run_others(struct suite *s, bool alone,
                                  struct stp_error *err)
{
    size_t n = 0;

    for (int i = 0; i < N_CHECKS; i++)
        if (!checks[i].basic && checks[i].alone == alone)
            s->jobs[n++] = job_of(s, i, checks[i].fn);
    return run_jobs(s, n, alone, err);
}

static void skip(struct suite *s, bool basic_too, const char *why)
{
    for (int i = 0; i < N_CHECKS; i++) {
        s->common.slot = &s->slots[i];
        if (i != LOADS && (basic_too || !checks[i].basic))
            stp_contract_skip(&s->common, "%s", why);
    }
}

static enum stp_status run_all(struct suite *s, struct stp_error *err)
{
    enum stp_status status = find_versions(s, err);

    if (status != STP_OK)
        return status;
    choose_nccl(s);
    if (s->slots[LOADS].verdict != STP_CONTRACT_OK) {
        skip(s, true, "not loaded");
        return STP_OK;
    }
    status = run_basic(s, err);
    if (status == STP_OK && !s->slots[PROBE].usable) {
        skip(s, false, "no communicator could be made");
        return STP_OK;
    }
    if (status == STP_OK)
        status = run_others(s, false, err);
    if (status == STP_OK)
        status = run_others(s, true, err);
    return status;
}

/* ---- life ---- */

/* While it runs, signals are waited for, so that processes and files can go
 * before the caller does. */
static void block_signals(struct suite *s)
{
    sigemptyset(&s->blocked);
    sigaddset(&s->blocked, SIGCHLD);
    sigaddset(&s->blocked, SIGINT);
    sigaddset(&s->blocked, SIGTERM);
    sigaddset(&s->blocked, SIGHUP);
    sigprocmask(SIG_BLOCK, &s->blocked, &s->unblocked);
}

static void unblock_signals(struct suite *s)
{
    if (s->signal != 0)
        raise(s->signal);
    sigprocmask(SIG_SETMASK, &s->unblocked, NULL);
}

static enum stp_status check_nccl(const char *version, struct stp_error *err)
{
    const struct mock_nccl_options options = {.version = version,
                                              .tuner_plugin = "none"};
    struct mock_nccl *nccl;

    if (mock_nccl_create(&options, &nccl) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    mock_nccl_destroy(nccl);
    return STP_OK;
}

static enum stp_status open_suite(struct suite *s, struct stp_error *err)
{
    enum stp_status status = check_nccl(s->options->nccl, err);

    if (status == STP_OK)
        status = stp_world_open(&s->world, s->options->machine_path,
                                s->options->n_ranks, err);
    if (status != STP_OK)
        return status;
    s->slots = mmap(NULL, N_SLOTS * sizeof(*s->slots), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->slots == MAP_FAILED) {
        stp_world_close(&s->world);
        return stp_nomem(err);
    }
    s->common.options = s->options;
    s->common.world = &s->world;
    s->common.policy = s->options->policy != NULL
                           ? s->options->policy
                           : s->world.files[STP_FILE_BASE];
    return STP_OK;
}

static enum stp_status take_results(const struct suite *s,
                                    struct stp_contract *contract_ret,
                                    struct stp_error *err)
{
    struct stp_contract c = {.n_checks = N_CHECKS};

    c.checks = calloc(N_CHECKS, sizeof(*c.checks));
    if (c.checks == NULL)
        return stp_nomem(err);
    for (int i = 0; i < N_CHECKS; i++) {
        c.checks[i].name = checks[i].name;
        c.checks[i].meaning = checks[i].meaning;
        c.checks[i].verdict = s->slots[i].verdict;
        memcpy(c.checks[i].text, s->slots[i].text, sizeof(c.checks[i].text));
    }
    snprintf(c.name, sizeof(c.name), "%s", s->common.tuner_name);
    snprintf(c.nccl, sizeof(c.nccl), "%s", s->common.nccl);
    snprintf(c.machine, sizeof(c.machine), "%s",
             mock_machine_get_info(s->world.machine)->name);
    *contract_ret = c;
    return STP_OK;
}

enum stp_status stp_contract_run(const struct stp_contract_options *options,
                                 struct stp_contract *contract_ret,
                                 struct stp_error *err)
{
    struct suite *s = calloc(1, sizeof(*s));
    enum stp_status status;

    if (s == NULL)
        return stp_nomem(err);
    s->options = options;
    block_signals(s);
    status = open_suite(s, err);
    if (status == STP_OK) {
        status = run_all(s, err);
        if (status == STP_OK)
            status = take_results(s, contract_ret, err);
        munmap(s->slots, N_SLOTS * sizeof(*s->slots));
        stp_world_close(&s->world);
    }
    unblock_signals(s);
    free(s);
    return status;
}

void stp_contract_free(struct stp_contract *contract)
{
    free(contract->checks);
    memset(contract, 0, sizeof(*contract));
}
