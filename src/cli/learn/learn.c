/* learn.c - `steptune learn` */
#include "cli/learn/learn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/learn/bandit.h"
#include "report/learning/learn.h"

enum {
    OPT_STRATEGIES = 0x300,
    OPT_OBJECTIVE,
    OPT_STEPS,
    OPT_SEEDS,
    OPT_JOB,
    OPT_COMPUTE,
    OPT_NOISE,
    OPT_JITTER,
    OPT_OVERLAP,
    OPT_OWN,
    OPT_PLUGIN,
    OPT_NCCL,
};

/* Of these, on 4 x H200, NCCL's own choice is the best for some. */
#define DEFAULT_JOB                                                            \
    "allgather:4M,reducescatter:4M,allreduce:9728K,allreduce:64M,"             \
    "allreduce:256K"

static const struct argp_option options[] = {
    {"strategies", OPT_STRATEGIES, "LIST", 0,
     "What to compare, as STEPTUNE_STRATEGY has them (default "
     "epsilon,halving); NCCL alone and an oracle always are",
     0},
    {"objective", OPT_OBJECTIVE, "WORD", 0,
     "Where rewards come from, as STEPTUNE_OBJECTIVE: auto, gpu, step or file "
     "(default auto)",
     0},
    {"steps", OPT_STEPS, "N", 0, "Steps of a job (default 1000)", 0},
    {"seeds", OPT_SEEDS, "N", 0,
     "Jobs, each with noise of its own (default 20)", 0},
    {"job", OPT_JOB, "LIST", 0,
     "Collectives of a step, each COLLECTIVE:SIZE, or COLLECTIVE:SIZE:US with "
     "the compute before it (default " DEFAULT_JOB ")",
     0},
    {"compute", OPT_COMPUTE, "US", 0,
     "Compute before each collective, and after the last (default 200)", 0},
    {"compute-noise", OPT_NOISE, "SHARE", 0,
     "By how much a step's compute varies (default 5%)", 0},
    {"jitter", OPT_JITTER, "US", 0,
     "By how much ranks come late to a collective (default 10)", 0},
    {"overlap", OPT_OVERLAP, NULL, 0,
     "Collectives run beside the compute that follows them", 0},
    {"own-channels", OPT_OWN, NULL, 0,
     "The best arm has NCCL's own channel count; else any", 0},
    {"plugin", OPT_PLUGIN, "SO", 0,
     "Tuner and profiler plugin of any vendor (default: our learning one)", 0},
    {"nccl", OPT_NCCL, "VERSION", 0, "Version to play (default 2.28)", 0},
    {0},
};

struct command {
    struct stp_machine_options machine;
    struct stp_learn_job job;
    struct mock_job_call calls[STP_LEARN_CALLS];
    char strategies[STP_LEARN_STRATEGIES][STP_LEARN_WORD];
    size_t n_strategies;
    const char *job_text;
    double compute_us;
    const char *objective;
    const char *plugin; /* NULL: ours */
    char machine_path[STP_CLI_PATH];
    char rewards[STP_CLI_PATH]; /* file, or "" */
};

/* ---- options ---- */

static double parse_us(struct argp_state *state, const char *option,
                       const char *arg)
{
    char *end;
    double us = strtod(arg, &end);

    if (*arg == '\0' || *end != '\0' || !(us >= 0 && us <= 1e9))
        argp_error(state, "%s '%s', expected microseconds", option, arg);
    return us;
}

static void check_objective(struct argp_state *state, const char *arg)
{
    static const char *const words[] = {"auto", "gpu", "step", "file"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(arg, words[i]) == 0)
            return;
    argp_error(state, "--objective '%s', expected auto, gpu, step or file",
               arg);
}

static error_t finish(struct command *o, struct argp_state *state)
{
    char why[160];

    o->job.step.calls = o->calls;
    o->job.step.n = stp_parse_job(o->job_text, o->compute_us, o->calls, why);
    o->job.step.tail_us = o->compute_us;
    o->job.seed = o->machine.seed;
    if (o->job.step.n == 0)
        argp_error(state, "--job %s", why);
    if (o->job.nccl != NULL && mock_release_find(o->job.nccl) < 0)
        argp_error(state, "--nccl '%s', expected 2.21 to 2.30 or 2.31dev",
                   o->job.nccl);
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct command *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->machine;
        return 0;
    case OPT_STRATEGIES:
        o->n_strategies = stp_parse_strategies(arg, o->strategies);
        if (o->n_strategies == 0)
            argp_error(state,
                       "--strategies '%s', expected words such as "
                       "epsilon,halving",
                       arg);
        return 0;
    case OPT_OBJECTIVE:
        check_objective(state, arg);
        o->objective = arg;
        return 0;
    case OPT_STEPS:
        o->job.n_steps = stp_parse_count(arg, "--steps", 20, state);
        return 0;
    case OPT_SEEDS:
        o->job.n_seeds = stp_parse_count(arg, "--seeds", 1, state);
        return 0;
    case OPT_JOB:
        o->job_text = arg;
        return 0;
    case OPT_COMPUTE:
        o->compute_us = parse_us(state, "--compute", arg);
        return 0;
    case OPT_NOISE:
        if (!stp_parse_share(arg, &o->job.compute_noise))
            argp_error(state,
                       "--compute-noise '%s', expected a share such as 5%%",
                       arg);
        return 0;
    case OPT_JITTER:
        o->job.jitter_us = parse_us(state, "--jitter", arg);
        return 0;
    case OPT_OVERLAP:
        o->job.overlapped = true;
        return 0;
    case OPT_OWN:
        o->job.own_channels = true;
        return 0;
    case OPT_PLUGIN:
        o->plugin = arg;
        return 0;
    case OPT_NCCL:
        o->job.nccl = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s', expected options only", arg);
        return 0;
    case ARGP_KEY_END:
        return finish(o, state);
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
    .doc = "Plays a training job on a recorded machine with a plugin that "
           "learns, and prints how soon it settled, what learning cost, and "
           "what it came to.\v"
           "settled: calls of a collective and size until the choice changed "
           "for the last time within its first 1000, re-tests apart, median "
           "and 95th percentile; searched: those of them since its first "
           "trial, as one may wait for another.  lost: time over NCCL's own "
           "choice in the first 1000 steps, and in all; negative is won.  "
           "final gain: of the last fifth of the steps over NCCL's, with a 95 "
           "percent interval.\n\n"
           "over AUTO: the mean time of NCCL's own choice over that of the "
           "best arm, which ours looks for from STEPTUNE_MIN_GAIN on, 2 "
           "percent.  finds it: jobs that end within 1 percent of the best "
           "arm, and the calls they searched (median).",
};

/* ---- playing ---- */

/* A strategy of the plugin's, with the rest of the command. */
struct strategy {
    struct command *command;
    const char *name;
};

static bool set(const char *name, const char *value)
{
    return setenv(name, value, 1) == 0;
}

/* There is no other thread.  Each job's rewards begin anew. */
static enum stp_status prepare(void *user, uint64_t seed,
                               const char **reward_file_ret,
                               struct stp_error *err)
{
    const struct strategy *s = user;
    const char *rewards = s->command->rewards;
    char number[32];
    bool done;

    snprintf(number, sizeof(number), "%" PRIu64, seed);
    done = set("STEPTUNE_STRATEGY", s->name) &&
           set("STEPTUNE_OBJECTIVE", s->command->objective) &&
           set("STEPTUNE_SEED", number) && set("STEPTUNE_INLINE", "1") &&
           /* what is played is no policy for a job */
           set("STEPTUNE_LEARNED", "/dev/null");
    if (*rewards != '\0') {
        unlink(rewards);
        done = done && set("NCCL_TUNER_REWARD_FILE", rewards);
        *reward_file_ret = rewards;
    } else {
        unsetenv("NCCL_TUNER_REWARD_FILE");
    }
    return done ? STP_OK
                : stp_fail(err, STP_ERR_NOMEM, "cannot set the environment");
}

static enum stp_status report(const struct command *o,
                              const struct stp_learner *learners,
                              const struct stp_learned *learned, size_t n,
                              struct stp_error *err)
{
    const char *machine = strrchr(o->job.machine_path, '/') + 1;
    bool modelled = false;

    if (o->machine.json)
        return stp_print_learned_json(&o->job, machine, learners, learned, n,
                                      stdout, err);
    for (size_t i = 0; i < n; i++)
        modelled |= learned[i].modelled;
    printf("%zu steps of %s on the recorded machine %s in mock NCCL, not on "
           "GPUs; %u seeds; times are %s\n\n",
           o->job.n_steps, o->job_text, machine, o->job.n_seeds,
           modelled ? "in part modelled" : "recorded");
    return stp_print_learned(learners, learned, n, stdout, err);
}

static enum stp_status play(struct command *o, const char *plugin,
                            struct stp_error *err)
{
    struct strategy strategies[STP_LEARN_STRATEGIES];
    struct stp_learner learners[STP_LEARN_STRATEGIES + 2];
    struct stp_learned learned[STP_LEARN_STRATEGIES + 2];
    size_t n = 0;
    enum stp_status status;

    for (; n < o->n_strategies; n++) {
        strategies[n] = (struct strategy){o, o->strategies[n]};
        learners[n] = (struct stp_learner){.kind = STP_LEARNER_PLUGIN,
                                           .name = o->strategies[n],
                                           .plugin = plugin,
                                           .prepare = prepare,
                                           .user = &strategies[n]};
    }
    learners[n++] =
        (struct stp_learner){.kind = STP_LEARNER_AUTO, .name = "AUTO"};
    learners[n++] =
        (struct stp_learner){.kind = STP_LEARNER_ORACLE, .name = "oracle"};
    status = stp_learn(&o->job, learners, n, learned, err);
    return status == STP_OK ? report(o, learners, learned, n, err) : status;
}

/* ---- where ---- */

static enum stp_status make_folder(char path[STP_CLI_PATH],
                                   struct stp_error *err)
{
    const char *top = getenv("TMPDIR");
    int n = snprintf(path, STP_CLI_PATH, "%s/steptune-learn-XXXXXX",
                     top != NULL && *top != '\0' ? top : "/tmp");

    if (n > 0 && n < STP_CLI_PATH && mkdtemp(path) != NULL)
        return STP_OK;
    return stp_fail(err, STP_ERR_IO, "cannot make a folder %.160s", path);
}

/* With a file for rewards, if that is the objective. */
static enum stp_status play_in_folder(struct command *o, const char *plugin,
                                      struct stp_error *err)
{
    char folder[STP_CLI_PATH - 16];
    char path[STP_CLI_PATH];
    enum stp_status status;

    if (strcmp(o->objective, "file") != 0)
        return play(o, plugin, err);
    status = make_folder(path, err);
    if (status != STP_OK)
        return status;
    snprintf(folder, sizeof(folder), "%.4000s", path);
    snprintf(o->rewards, sizeof(o->rewards), "%s/rewards.log", folder);
    status = play(o, plugin, err);
    unlink(o->rewards);
    rmdir(folder);
    return status;
}

static int run(void *user, const char *command)
{
    struct command *o = user;
    char ours[STP_CLI_PATH];
    const char *plugin = o->plugin != NULL ? o->plugin : ours;
    struct stp_error err = {0};
    enum stp_status status = STP_OK;

    if (stp_find_machine(o->machine.on ? o->machine.on : STP_DEFAULT_MACHINE,
                         o->machine_path, &err) != STP_OK) {
        stp_complain_error(command, NULL, &err);
        return STP_EXIT_NOTHING;
    }
    o->job.machine_path = o->machine_path;
    if (o->plugin == NULL)
        status = stp_find_plugin("steptune-online", ours, &err);
    if (status == STP_OK)
        status = stp_set_plugin_environment(o->machine_path, NULL, &err);
    if (status == STP_OK)
        status = play_in_folder(o, plugin, &err);
    if (status == STP_OK)
        return STP_EXIT_OK;
    stp_complain_error(command, NULL, &err);
    return STP_EXIT_FAILED;
}

/* Another vendor's plugin has strategies of its own. */
static bool knows_strategies(const struct command *o, const char *command)
{
    for (size_t i = 0; o->plugin == NULL && i < o->n_strategies; i++)
        if (stp_strategy_from_name(o->strategies[i], strlen(o->strategies[i])) <
            0) {
            stp_complain(command,
                         "--strategies '%s', expected halving, epsilon",
                         o->strategies[i]);
            return false;
        }
    return true;
}

int stp_cmd_learn(int argc, char **argv)
{
    struct command o = {.job = {.n_steps = 1000,
                                .n_seeds = 20,
                                .compute_noise = 0.05,
                                .jitter_us = 10},
                        .strategies = {"epsilon", "halving"},
                        .n_strategies = 2,
                        .job_text = DEFAULT_JOB,
                        .compute_us = 200,
                        .objective = "auto"};

    stp_options_default(&o.machine, NULL, NULL);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (!knows_strategies(&o, argv[0]))
        return STP_EXIT_USAGE;
    return stp_run_plugin(argv[0], o.plugin, run, &o);
}
