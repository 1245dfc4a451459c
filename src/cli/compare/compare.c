/* compare.c - `steptune compare` */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/compare/compare.h"
#include "core/utf8.h"
#include "launch/launch.h"
#include "launch/take.h"
#include "report/folder.h"
#include "report/jobs/job_comparison.h"

#define DEFAULT_LOSS "[Ll]oss[ =:]+([-+]?([Nn]a[Nn]|[Ii]nf)|[-+0-9.eE]+)"

#define AT(member) offsetof(struct stp_compare_options, member)

static const char *option_env(const struct stp_option *option, const char *text,
                              void *at)
{
    struct stp_compare_options *o =
        (struct stp_compare_options *)(void *)((char *)at - option->at);

    if (o->n_envs == STP_COMPARE_ENVS)
        return "at most 8 variables";
    o->envs[o->n_envs++] = text;
    return NULL;
}

static const struct stp_option compare_table[] = {
    {"policy", 0, "LIST", stp_option_text, .at = AT(policies)},
    {"plugin", 0, "LIST", stp_option_text, .at = AT(plugins)},
    {"nccl", 0, "LIST", stp_option_text, .at = AT(nccls)},
    {"stage", 0, "LIST", stp_option_text, .at = AT(stages)},
    {"env", 0, "NAME=LIST", option_env, .at = AT(envs)},
    {"rounds", 'n', "N", stp_option_count, AT(rounds), .value = "4", .min = 1,
     .max = 1000},
    {"for", 0, "TIME", stp_option_duration, .at = AT(limit_s)},
    {"step-time", 0, "REGEX", stp_option_text, .at = AT(step_time)},
    {"loss", 0, "REGEX", stp_option_text, AT(loss), .value = DEFAULT_LOSS},
    {"output", 'o', "FOLDER", stp_option_text, AT(output),
     .path = STP_PATH_FOLDER},
    {"json", 0, NULL, stp_option_flag, .at = AT(json)},
    {0},
};

/* Compiles an extended regular expression with a group.  NULL, or what is wrong
 * with it in static storage. */
static const char *compare_compile(const char *pattern, regex_t *regex_ret)
{
    static char why[160];
    int failed = regcomp(regex_ret, pattern, REG_EXTENDED | REG_NEWLINE);

    if (failed != 0) {
        regerror(failed, regex_ret, why, sizeof(why));
        return why;
    }
    if (regex_ret->re_nsub >= 1)
        return NULL;
    regfree(regex_ret);
    return "it has no group such as ([0-9.]+)";
}

static void compare_check(void *options, struct argp_state *state)
{
    const struct stp_compare_options *o = options;
    const struct {
        const char *option;
        const char *pattern;
    } patterns[] = {{"--step-time", o->step_time}, {"--loss", o->loss}};

    if (o->policies != NULL && o->plugins != NULL)
        stp_usage_error(state, "--policy and --plugin both choose the tuner, "
                               "expected one of them");
    for (size_t i = 0; i < STP_N_OF(patterns); i++) {
        regex_t regex;
        const char *wrong;

        if (patterns[i].pattern == NULL)
            continue;
        wrong = compare_compile(patterns[i].pattern, &regex);
        if (wrong != NULL)
            stp_usage_error(state, "%s '%s' is no expression: %s",
                            patterns[i].option, patterns[i].pattern, wrong);
        regfree(&regex);
    }
}

static const struct stp_command_line compare_line = {
    .groups =
        (const struct stp_option_group[]){{.options = compare_table}, {0}},
    .args_doc = "[--] COMMAND [ARGUMENT...]",
    .arguments = AT(command),
    .none = "no command, expected one such as `-- torchrun train.py`",
    .is_in_order = true,
    .check = compare_check,
};

/* ---- the session ---- */

/* Makes the arms, and finds what records steps and where outputs go. */
static int compare_prepare(struct stp_compare_session *s)
{
    const char *step_time = s->o->step_time != NULL ? s->o->step_time : "";
    const char *before = getenv("NCCL_PROFILER_PLUGIN");
    struct stp_error err;

    if (stp_compare_make_arms(s->o, s->arms) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    stp_job_print_command(s->o->command.v, s->runs.command);
    stp_printable(step_time, strlen(step_time), s->runs.step_time,
                  STP_JOB_TEXT);
    s->runs.n_arms = s->arms->n;
    for (unsigned i = 0; i < s->arms->n; i++)
        stp_printable(s->arms->all[i].label, strlen(s->arms->all[i].label),
                      s->runs.labels[i], STP_JOB_LABEL);
    if (s->o->step_time == NULL) {
        if (stp_find_plugin("steptune-online", s->plugin, &err) != STP_OK)
            return stp_complain_error(NULL, &err);
        if (s->world->rank == 0 && before != NULL &&
            stp_job_has("NCCL_PROFILER_PLUGIN") &&
            strcmp(before, s->plugin) != 0)
            stp_complain("NCCL_PROFILER_PLUGIN=%s is replaced for these runs",
                         before);
    }
    snprintf(s->folder, sizeof(s->folder), "%s",
             s->o->output != NULL ? s->o->output : s->temporary);
    return s->o->output == NULL || stp_folder_make(s->folder, &err) == STP_OK
               ? STP_EXIT_OK
               : stp_complain_error(NULL, &err);
}

/* ---- runs ---- */

/* The message by which a rank tells the others how its job ended. */
struct compare_word {
    int status; /* exit status */
    int signal;
    unsigned number; /* rank 0's */
};

/* The first failure, the highest signal, rank 0's *number; all call it. */
static int compare_agree(struct stp_compare_session *s, int status,
                         unsigned *number)
{
    const struct compare_word mine = {status, s->signal, *number};
    struct compare_word *all = stp_take(s->world->size, sizeof(*all));
    struct stp_error err;
    const enum stp_status exchanged =
        s->world->ops->exchange(s->world->self, &mine, sizeof(mine), all, &err);

    for (unsigned r = 0; r < s->world->size && exchanged == STP_OK; r++) {
        status = status != STP_EXIT_OK ? status : all[r].status;
        s->signal = s->signal > all[r].signal ? s->signal : all[r].signal;
    }
    *number = all[0].number;
    free(all);
    return exchanged == STP_OK ? status
                               : stp_complain_in(s->world, exchanged, &err);
}

/* Chooses MASTER_PORT, on which nothing listens: a rendezvous for each run, as
 * the store of torchrun's agent holds the keys of the runs before. */
static int compare_choose_port(struct stp_compare_session *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    unsigned port = 0;
    int status;

    if (s->world->size == 1 || stp_launched_by() != STP_LAUNCHED_BY_TORCHRUN)
        return STP_EXIT_OK;
    if (s->world->rank == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
            getsockname(fd, (struct sockaddr *)&address, &size) == 0)
            port = ntohs(address.sin_port);
        if (fd >= 0)
            close(fd);
    }
    status = compare_agree(s, STP_EXIT_OK, &port);
    if (port != 0)
        snprintf(s->port, sizeof(s->port), "%u", port % 65536);
    return status;
}

/* Says how long the runs take, if that is longer than a minute: before the
 * first one what they may, after it what they would if all are like it. */
static void compare_estimate(const struct stp_compare_session *s, unsigned n,
                             double run_s, const char *how)
{
    const double all_s = n * run_s;

    if (s->world->rank == 0 && all_s > 60)
        stp_complain("%u runs of %u arms, %s %.0f s each: %.0f minutes", n,
                     s->arms->n, how, run_s, ceil(all_s / 60));
}

static int compare_run_rounds(struct stp_compare_session *s)
{
    const unsigned n_places = 2 * s->arms->n;
    const unsigned n = s->o->rounds * n_places;
    struct stp_error err;
    int status = STP_EXIT_OK;

    compare_estimate(s, n, s->o->limit_s, "at most");
    for (unsigned i = 0; i < n && status == STP_EXIT_OK && s->signal == 0;
         i++) {
        if (s->world->rank == 0)
            stp_progress("runs", i, n);
        status = compare_choose_port(s);
        STP_THEN(status, stp_compare_run(s, i / n_places, i % n_places));
        STP_THEN(status, compare_agree(s, status, &(unsigned){0}));
        if (i == 0 && s->o->limit_s == 0 && status == STP_EXIT_OK)
            compare_estimate(s, n, s->run.wall_s,
                             "if all take as long as the first");
        if (status == STP_EXIT_OK && s->signal == 0 && s->o->output != NULL &&
            stp_job_runs_save(s->path, &s->runs, &err) != STP_OK)
            status = stp_complain_error(NULL, &err);
    }
    stp_progress_clear();
    return status;
}

/* ---- results ---- */

/* Prints the comparison, and which NCCL the arms of --nccl ran: a job may have
 * its own linked in. */
static int compare_finish(struct stp_compare_session *s, int status)
{
    const struct stp_compare_arm *arms = s->arms->all;
    const size_t n = s->runs.n;
    bool is_told = true, is_same = true;

    if (s->world->rank > 0)
        return s->signal != 0 ? STP_EXIT_FAILED : status;
    if (s->signal != 0 && s->o->output != NULL)
        stp_complain("stopped by signal %d (%s); %s has %zu run%s", s->signal,
                     strsignal(s->signal), s->folder, n, n == 1 ? "" : "s");
    else if (s->signal != 0)
        stp_complain("stopped by signal %d (%s) after %zu run%s", s->signal,
                     strsignal(s->signal), n, n == 1 ? "" : "s");
    if (s->signal != 0 || status != STP_EXIT_OK) {
        status = STP_EXIT_FAILED;
        if (n == 0)
            return status;
    }
    stp_print_job_comparison(&s->runs, s->o->json, s->o->fp);
    for (unsigned i = 0; i < s->arms->n; i++) {
        is_told &= arms[i].nccl[0] != '\0';
        is_same &= strcmp(arms[i].nccl, arms[0].nccl) == 0;
    }
    if (s->o->nccls == NULL || s->o->json || !is_told)
        return status;
    if (is_same)
        printf("All arms ran NCCL %s.\n", arms[0].nccl);
    for (unsigned i = 0; i < s->arms->n && !is_same; i++)
        printf("NCCL %s ran under %s.\n", arms[i].nccl, arms[i].label);
    return status;
}

/* One session at a time writes to a folder, which has no runs yet. */
static int compare_run_session(struct stp_compare_session *s)
{
    struct stp_lock lock;
    struct stp_error err;
    bool is_locked = false;
    int status = compare_prepare(s);

    if (status == STP_EXIT_OK && s->o->output != NULL) {
        if (snprintf(s->path, STP_CLI_PATH, "%s/runs.csv", s->folder) >=
            STP_CLI_PATH)
            status = stp_complain("-o: the path is too long");
        else if (stp_lock_take(s->path, false, &lock, &err) != STP_OK)
            status = stp_complain_error(NULL, &err);
        else
            is_locked = true;
        if (is_locked && access(s->path, F_OK) == 0)
            status = stp_complain("%s is there already, expected another "
                                  "folder",
                                  s->path);
    }
    status = compare_agree(s, status, &(unsigned){0});
    if (status == STP_EXIT_OK) {
        if (s->o->step_time != NULL)
            compare_compile(s->o->step_time, &s->step_time);
        compare_compile(s->o->loss, &s->loss);
        status = compare_finish(s, compare_run_rounds(s));
        if (s->o->step_time != NULL)
            regfree(&s->step_time);
        regfree(&s->loss);
    }
    if (is_locked)
        stp_lock_release(&lock);
    return status;
}

/* Rank 0 keeps what the runs showed; the others run their processes of them.  A
 * rank that fails does not leave the world but ends, which the others notice
 * while their processes of the job wait for this one's. */
static int compare_body(void *user, const struct stp_world *world)
{
    struct stp_compare_options o = *(const struct stp_compare_options *)user;
    const size_t size =
        sizeof(struct stp_compare_session) + sizeof(struct stp_compare_arms);
    struct stp_compare_session *s = mmap(NULL, size, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = STP_EXIT_FAILED;

    if (s == MAP_FAILED)
        return stp_complain("out of memory");
    s->arms = (struct stp_compare_arms *)(s + 1);
    if (world->rank > 0)
        o.output = NULL;
    s->o = &o;
    s->world = world;
    if (stp_make_temporary("steptune-compare", s->temporary)) {
        status = compare_run_session(s);
        stp_folder_remove(s->temporary);
    }
    free(s->runs.runs);
    munmap(s, size);
    if (status != STP_EXIT_OK && world->size > 1)
        exit(status);
    return status;
}

int stp_compare_into(int argc, char **argv, FILE *fp)
{
    struct stp_compare_options o = {.fp = fp};

    stp_options_read(&compare_line, argc, argv, &o);
    return stp_launch_jobs("steptune compare -- mpirun ./job", compare_body,
                           &o);
}

int stp_cmd_compare(int argc, char **argv)
{
    return stp_compare_into(argc, argv, stdout);
}
