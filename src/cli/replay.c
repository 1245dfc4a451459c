/* replay.c - `steptune replay`, of a trace or of the contract */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/contract/contract.h"
#include "analyse/replay/replay.h"
#include "analyse/traces/traces.h"
#include "cli/cli.h"
#include "core/text.h"
#include "launch/stop.h"
#include "report/results/results.h"

struct replay_options {
    struct stp_machine_options machine;
    const char *trace;
    const char *plugin;
    const char *policy;
    const char *nccl;
    unsigned n_seeds;
    unsigned n_ranks; /* 0: those of the trace, else of the machine */
    unsigned n_jobs;
    int layout; /* enum mock_layout */
    const char *contract;
    const char *over; /* NULL: not given */
    const char *check;
    unsigned seed; /* 0: draw one */
    unsigned time_limit_s;
};

#define AT(member) offsetof(struct replay_options, member)

static const char *const layouts[] = {[MOCK_ONE_THREAD] = "one-thread",
                                      [MOCK_THREADS] = "threads",
                                      [MOCK_PROCESSES] = "processes",
                                      [MOCK_PROCESSES + 1] = NULL};

static const struct stp_option replay_table[] = {
    {"trace", 0, "FILE", stp_option_text, AT(trace),
     .needs.without = {"contract"}},
    {"plugin", 0, "SO", stp_option_text, AT(plugin),
     .needs.without = {"contract"}},
    {"policy", 0, "FILE", stp_option_text, AT(policy), .path = STP_PATH_READ},
    {"nccl", 0, "VERSION", stp_option_text, .at = AT(nccl)},
    {"seeds", 0, "K", stp_option_count, AT(n_seeds), .min = 1, .max = 1e8,
     .value = "10"},
    {"ranks", 0, "N", stp_option_count, AT(n_ranks), .min = 1,
     .max = MOCK_MAX_RANKS},
    {"layout", 0, "WORD", stp_option_word, AT(layout), .words = layouts,
     .value = "one-thread", .needs.without = {"contract"}},
    {"jobs", 0, "N", stp_option_count, AT(n_jobs), .min = 1, .max = 256,
     .needs.without = {"contract"}},
    {"contract", 0, "SO", stp_option_text, .at = AT(contract)},
    {"seed", 0, "N", stp_option_count, AT(seed), .min = 1, .max = UINT32_MAX,
     .needs.with = "contract"},
    {"over", 0, "SO", stp_option_text, AT(over), .needs.with = "contract"},
    {"check", 0, "NAME", stp_option_text, AT(check), .needs.with = "contract"},
    {"time-limit", 0, "SECONDS", stp_option_count, AT(time_limit_s), .min = 1,
     .max = 86400, .value = "30", .needs.with = "contract"},
    {0},
};

static void replay_check_options(void *options, struct argp_state *state)
{
    const struct replay_options *o = options;

    if (o->nccl != NULL && mock_release_find(o->nccl) < 0)
        stp_usage_error(
            state, "--nccl '%.80s', expected a version from " MOCK_VERSIONS,
            o->nccl);
    if (o->trace == NULL && o->contract == NULL)
        stp_usage_error(state,
                        "nothing to replay, expected --trace or --contract");
}

static const struct stp_command_line replay_line = {
    .groups = (const struct stp_option_group[]){{.options = replay_table},
                                                {.options = stp_recorded_table,
                                                 .at = AT(machine)},
                                                {0}},
    .check = replay_check_options,
};

/* ---- --trace ---- */

static int replay_play(const struct replay_options *o,
                       const struct stp_trace *trace, const char *machine_path)
{
    static char schedules[] = "schedules"; /* that progress counts */
    const struct stp_replay_options options = {.machine_path = machine_path,
                                               .plugin = o->plugin,
                                               .nccl = o->nccl,
                                               .n_seeds = o->n_seeds,
                                               .n_ranks = o->n_ranks,
                                               .layout =
                                                   (enum mock_layout)o->layout,
                                               .n_jobs = o->n_jobs,
                                               .progress = stp_progress,
                                               .user = schedules};
    struct stp_replay replay;
    struct stp_error err;

    stp_stop_begin();
    if (stp_replay(&options, trace, &replay, &err) != STP_OK)
        return stp_complain_error(o->trace, &err);
    if (!o->machine.json) {
        if (trace->n_skips > 0 || trace->cut_line > 0 ||
            strcmp(trace->format, "steptune CSV") != 0)
            stp_print_trace(trace, stdout);
        if (replay.resized)
            printf("modelled: %s has %u ranks, and for another number "
                   "NCCL would search its graphs anew\n",
                   o->machine.on, replay.machine_ranks);
        printf("%zu collective%s in %zu step%s, on %u rank%s, in %u random "
               "schedule%s: all ranks agree\n"
               "rank 0 asks its tuner %" PRIu64 " time%s and runs %" PRIu64
               " collective%s\n",
               trace->n_rows, STP_S(trace->n_rows), replay.n_steps,
               STP_S(replay.n_steps), replay.n_ranks, STP_S(replay.n_ranks),
               o->n_seeds, STP_S(o->n_seeds), replay.n_asked,
               STP_S(replay.n_asked), replay.n_run, STP_S(replay.n_run));
        stp_print_unaligned(trace, &replay, stdout);
        putchar('\n');
    }
    stp_print_replay(trace, &replay, o->machine.json, stdout);
    stp_replay_free(&replay);
    return STP_EXIT_OK;
}

/* Options that are not given come from the trace. */
static int replay_run(struct replay_options *o, const struct stp_trace *trace)
{
    char machine[STP_CLI_PATH], plugin[STP_CLI_PATH], beside[STP_CLI_PATH];
    char path[STP_CLI_PATH];
    struct stp_policy *policy = NULL;
    const char *slash = strrchr(o->trace, '/');
    bool ours = o->plugin == NULL;
    struct stp_error err;
    enum stp_status status;
    int exit_status;

    if (o->machine.on == NULL)
        o->machine.on =
            trace->machine[0] != '\0' ? trace->machine : STP_DEFAULT_MACHINE;
    if (o->nccl == NULL && trace->nccl[0] != '\0')
        o->nccl = trace->nccl;
    /* a policy that a trace names is in the folder of the trace */
    if (o->policy == NULL && trace->policy[0] != '\0' &&
        snprintf(beside, sizeof(beside), "%.*s%s",
                 slash != NULL ? (int)(slash - o->trace) + 1 : 0, o->trace,
                 trace->policy) < STP_CLI_PATH)
        o->policy = beside;
    stp_print_played_version(o->nccl);
    if (stp_choose_machine(o->machine.on, machine) != STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    stp_print_unplayed();
    if (ours && stp_find_plugin("steptune", plugin, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    if (ours)
        o->plugin = plugin;
    exit_status = stp_choose_policy(o->policy, ours, o->machine.json, path);
    STP_THEN(exit_status, stp_load_plugin_policy(path, ours, &policy));
    stp_policy_free(policy);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if (ours)
        o->policy = path; /* else as named, or the environment as it is */
    if (stp_set_plugin_environment(machine, o->policy, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    /* a rule may be for one of several communicators */
    status = ours ? STP_ERR_RANGE : STP_OK;
    for (size_t i = 0; i < trace->n_comms && status == STP_ERR_RANGE; i++)
        status = stp_require_rules(path, machine,
                                   o->n_ranks > 0 ? (int)o->n_ranks
                                                  : trace->comms[i].n_ranks,
                                   i == 0 ? &err : NULL);
    if (status == STP_ERR_RANGE && trace->n_comms > 0)
        stp_complain_error(NULL, &err);
    return replay_play(o, trace, machine);
}

static int replay_load_and_run(void *user)
{
    struct replay_options *o = user;
    struct stp_trace trace;
    struct stp_error err;
    int exit_status;

    if (stp_traces_load(o->trace, &trace, &err) != STP_OK)
        return stp_complain_error(o->trace, &err);
    if (o->machine.json && trace.cut_line > 0)
        stp_complain(STP_TRACE_CUT, trace.cut_line);
    exit_status = replay_run(o, &trace);
    stp_trace_free(&trace);
    return exit_status;
}

/* ---- --contract ---- */

static void contract_tell(const char *check, double s)
{
    stp_complain("'%s' has run for %.0f s", check, s);
}

static int contract_run(const struct replay_options *o)
{
    char machine[STP_CLI_PATH];
    char path[STP_CLI_PATH + 2];
    struct stp_contract_options options = {.plugin = o->contract,
                                           .machine_path = machine,
                                           .nccl = o->nccl,
                                           .over = o->over,
                                           .policy = o->policy,
                                           .n_ranks = o->n_ranks,
                                           .n_seeds = o->n_seeds,
                                           .seed = o->seed,
                                           .only = o->check,
                                           .time_limit_s = o->time_limit_s,
                                           .tell = contract_tell,
                                           .tell_s = 9};
    struct stp_contract contract;
    struct stp_error err;
    size_t n_failed;

    stp_print_played_version(o->nccl);
    if (stp_choose_machine(o->machine.on, machine) != STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    if (stp_set_over(o->over != NULL ? o->over : "none") != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    /* another vendor's policy may not be one that we can read */
    if (o->policy != NULL && access(o->policy, R_OK) != 0)
        return stp_complain("%s: cannot be opened: %s", o->policy,
                            strerror(errno));
    if (options.seed == 0)
        options.seed = 1 + mock_new_comm_id() % UINT32_MAX;
    unsetenv("NCCL_WORKLOAD_OVERLAP"); /* each check has a policy of its own */
    if (stp_set_plugin_environment(machine, NULL, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    /* a file that is here, as people name it; dlopen() would search for it */
    snprintf(path, sizeof(path), "./%s", o->contract);
    if (strchr(o->contract, '/') == NULL && access(path, R_OK) == 0)
        options.plugin = path;
    if (stp_contract_run(&options, &contract, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    n_failed = stp_contract_count(&contract, STP_CONTRACT_FAIL);
    if (!o->machine.json)
        printf("%s%s%s%s in mock NCCL %s on %s, --seed %" PRIu64 "\n\n",
               o->contract, contract.name[0] != '\0' ? " ('" : "",
               contract.name, contract.name[0] != '\0' ? "')" : "",
               contract.nccl, contract.machine, contract.seed);
    stp_print_contract(&contract, o->machine.json, stdout);
    stp_contract_free(&contract);
    return n_failed == 0 ? STP_EXIT_OK : STP_EXIT_FAILED;
}

int stp_cmd_replay(int argc, char **argv)
{
    struct replay_options o = {0};

    stp_options_read(&replay_line, argc, argv, &o);
    if (o.contract != NULL)
        return contract_run(&o);
    return stp_run_plugin(o.plugin, replay_load_and_run, &o);
}
