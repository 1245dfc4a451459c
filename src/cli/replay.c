/* replay.c - `steptune replay` */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/replay/replay.h"
#include "cli/cli.h"
#include "core/text.h"
#include "launch/stop.h"
#include "report/results/results.h"

struct options {
    struct stp_machine_options machine;
    const char *trace;
    const char *plugin;
    const char *policy;
    const char *nccl;
    unsigned n_seeds;
    unsigned n_ranks;
    unsigned n_jobs;
    enum mock_layout layout;
    const char *contract;
    unsigned time_limit_s;
};

enum {
    OPT_TRACE = 0x300,
    OPT_PLUGIN,
    OPT_POLICY,
    OPT_NCCL,
    OPT_SEEDS,
    OPT_RANKS,
    OPT_LAYOUT,
    OPT_JOBS,
    OPT_CONTRACT,
    OPT_TIME_LIMIT,
};

static const char *const layouts[] = {
    [MOCK_ONE_THREAD] = "one-thread",
    [MOCK_THREADS] = "threads",
    [MOCK_PROCESSES] = "processes",
};

static const struct argp_option options[] = {
    {"trace", OPT_TRACE, "FILE.csv", 0, "The collectives to replay", 0},
    {"plugin", OPT_PLUGIN, "SO", 0,
     "Tuner plugin of any vendor, as NCCL_TUNER_PLUGIN (default: ours)", 0},
    {"policy", OPT_POLICY, "FILE", 0,
     "Policy for the plugin, as NCCL_TUNER_CONFIG_FILE (default: what the "
     "trace "
     "says, else that variable)",
     0},
    {"nccl", OPT_NCCL, "VERSION", 0,
     "NCCL to play, 2.21 to 2.30 or 2.31dev (default: what the trace says, "
     "else the "
     "machine's)",
     0},
    {"seeds", OPT_SEEDS, "K", 0,
     "Random schedules of the ranks, each on new communicators (default 10)",
     0},
    {"ranks", OPT_RANKS, "N", 0,
     "Ranks of the job, whose largest communicators get as many (default: what "
     "the trace says, else the machine's). Another number than the machine's "
     "is modelled",
     0},
    {"layout", OPT_LAYOUT, "WORD", 0,
     "Where the ranks live: one-thread (default), threads or processes", 0},
    {"jobs", OPT_JOBS, "N", 0,
     "Processes that share the schedules (default: one a CPU)", 0},
    {"contract", OPT_CONTRACT, "SO", 0,
     "Instead of a trace: put this tuner plugin through all that NCCL may do "
     "to "
     "it, and print a verdict a line (with --on, --ranks, --nccl, --policy, "
     "--seeds)",
     0},
    {"time-limit", OPT_TIME_LIMIT, "SECONDS", 0,
     "For each check of --contract (default 30)", 0},
    {0},
};

static unsigned number(struct argp_state *state, const char *option,
                       const char *arg, uint64_t max)
{
    uint64_t n;

    if (!stp_parse_u64(arg, strlen(arg), &n) || n < 1 || n > max)
        argp_error(state, "%s '%s', expected a number from 1 to %" PRIu64,
                   option, arg, max);
    return (unsigned)n;
}

static enum mock_layout layout(struct argp_state *state, const char *arg)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (strcmp(layouts[i], arg) == 0)
            return (enum mock_layout)i;
    argp_error(state,
               "--layout '%s', expected one-thread, threads or processes", arg);
    return MOCK_ONE_THREAD;
}

static void check(const struct options *o, struct argp_state *state)
{
    if (o->trace == NULL && o->contract == NULL)
        argp_error(state, "nothing to replay, expected --trace or --contract");
    if (o->contract != NULL && (o->trace != NULL || o->plugin != NULL))
        argp_error(state, "--contract with %s, expected one of them",
                   o->trace != NULL ? "--trace" : "--plugin");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->machine;
        return 0;
    case OPT_TRACE:
        o->trace = arg;
        return 0;
    case OPT_PLUGIN:
        o->plugin = arg;
        return 0;
    case OPT_POLICY:
        o->policy = arg;
        return 0;
    case OPT_NCCL:
        o->nccl = arg;
        return 0;
    case OPT_SEEDS:
        o->n_seeds = number(state, "--seeds", arg, 100000000);
        return 0;
    case OPT_RANKS:
        o->n_ranks = number(state, "--ranks", arg, MOCK_MAX_RANKS);
        return 0;
    case OPT_LAYOUT:
        o->layout = layout(state, arg);
        return 0;
    case OPT_JOBS:
        o->n_jobs = number(state, "--jobs", arg, 256);
        return 0;
    case OPT_CONTRACT:
        o->contract = arg;
        return 0;
    case OPT_TIME_LIMIT:
        o->time_limit_s = number(state, "--time-limit", arg, 86400);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s', expected options only", arg);
        return 0;
    case ARGP_KEY_END:
        check(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&stp_machine_argp, 0, NULL, 0},
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc =
        "Plays a trace of collectives through a tuner plugin in mock NCCL, on "
        "all ranks of a machine and in random schedules. Exit status 1 if "
        "ranks disagree, a collective fails, or a row does not come out as "
        "the trace expects. With --contract, which needs no trace: if a check "
        "fails."
        "\vA trace is a CSV file with a header line. Its columns are "
        "collective "
        "and bytes and, where they matter, group, regBuff, expect, comm, "
        "nRanks, create (init, split COMM, shrink COMM), capture (launches of "
        "a "
        "CUDA graph), type, op and numPipeOps.",
};

/* A policy that a trace names stands beside it. */
static bool policy_beside(const char *trace, const char *policy,
                          char path[STP_CLI_PATH])
{
    const char *slash = strrchr(trace, '/');
    int dir = slash != NULL ? (int)(slash - trace) + 1 : 0;
    int n = snprintf(path, STP_CLI_PATH, "%.*s%s", dir, trace, policy);

    return n > 0 && n < STP_CLI_PATH;
}

static enum stp_status report(const struct options *o,
                              const struct stp_trace *trace,
                              const struct stp_replay *replay,
                              struct stp_error *err)
{
    if (o->machine.json)
        return stp_print_replay_json(trace, replay, stdout, err);
    if (replay->resized)
        printf("modelled: %s has %u GPUs, and for others NCCL would search its "
               "graphs anew\n",
               o->machine.on, replay->machine_ranks);
    printf("%zu collectives in %zu steps, on %u ranks, in %u random schedules: "
           "all ranks agree\n"
           "rank 0 asks its tuner %" PRIu64 " times and runs %" PRIu64
           " collectives\n\n",
           trace->n_rows, replay->n_steps, replay->n_ranks, o->n_seeds,
           replay->n_asked, replay->n_run);
    return stp_print_replay(trace, replay, stdout, err);
}

static char schedules[] = "schedules"; /* that progress counts */

static int play(const struct options *o, const char *command,
                const struct stp_trace *trace, const char *machine_path)
{
    const struct stp_replay_options what = {.machine_path = machine_path,
                                            .plugin = o->plugin,
                                            .nccl = o->nccl,
                                            .n_seeds = o->n_seeds,
                                            .n_ranks = o->n_ranks,
                                            .layout = o->layout,
                                            .n_jobs = o->n_jobs,
                                            .progress = stp_progress,
                                            .user = schedules};
    struct stp_replay replay;
    struct stp_error err;
    enum stp_status status;

    stp_stop_begin();
    status = stp_replay(&what, trace, &replay, &err);
    if (status != STP_OK)
        return stp_complain_error(command, o->trace, &err);
    status = report(o, trace, &replay, &err);
    stp_replay_free(&replay);
    return status == STP_OK ? STP_EXIT_OK
                            : stp_complain_error(command, NULL, &err);
}

/* What the options leave open, the trace may say. */
static int run(struct options *o, const char *command,
               const struct stp_trace *trace)
{
    char machine[STP_CLI_PATH], plugin[STP_CLI_PATH], beside[STP_CLI_PATH];
    struct stp_policy *policy = NULL;
    bool ours = o->plugin == NULL;
    struct stp_error err;
    int exit_status;

    if (o->machine.on == NULL)
        o->machine.on =
            trace->machine[0] != '\0' ? trace->machine : STP_DEFAULT_MACHINE;
    if (o->nccl == NULL && trace->nccl[0] != '\0')
        o->nccl = trace->nccl;
    if (o->policy == NULL && trace->policy[0] != '\0' &&
        policy_beside(o->trace, trace->policy, beside))
        o->policy = beside;
    if (o->policy == NULL)
        o->policy = getenv("NCCL_TUNER_CONFIG_FILE");
    if (stp_find_machine(o->machine.on, machine, &err) != STP_OK) {
        stp_complain_error(command, NULL, &err);
        return STP_EXIT_NOTHING;
    }
    if (ours) {
        if (stp_find_plugin("steptune", plugin, &err) != STP_OK)
            return stp_complain_error(command, NULL, &err);
        o->plugin = plugin;
    }
    exit_status = stp_load_plugin_policy(command, o->policy, ours, &policy);
    stp_policy_free(policy);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if (stp_set_plugin_environment(machine, o->policy, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    return play(o, command, trace, machine);
}

static int load_and_run(void *user, const char *command)
{
    struct options *o = user;
    struct stp_trace trace;
    struct stp_error err;
    int exit_status;

    if (stp_trace_load(o->trace, &trace, &err) != STP_OK)
        return stp_complain_error(command, o->trace, &err);
    exit_status = run(o, command, &trace);
    stp_trace_free(&trace);
    return exit_status;
}

static int run_contract(const struct options *o, const char *command)
{
    const struct stp_contract_command what = {.plugin = o->contract,
                                              .on = o->machine.on,
                                              .nccl = o->nccl,
                                              .policy = o->policy,
                                              .n_ranks = o->n_ranks,
                                              .n_seeds = o->n_seeds,
                                              .time_limit_s = o->time_limit_s,
                                              .json = o->machine.json};

    return stp_run_contract(command, &what);
}

int stp_cmd_replay(int argc, char **argv)
{
    struct options o = {.n_seeds = 10, .time_limit_s = 30};

    stp_options_default(&o.machine, NULL, NULL);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (o.contract != NULL)
        return run_contract(&o, argv[0]);
    return stp_run_plugin(argv[0], o.plugin, load_and_run, &o);
}
