/* learn.c - `steptune learn` */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/simulate/simulate.h"
#include "analyse/simulate/traced_job.h"
#include "analyse/traces/traces.h"
#include "cli/cli.h"
#include "core/learn/bandit.h"
#include "core/names.h"
#include "core/text.h"
#include "report/learning/learn.h"
#include "report/results/results.h"

/* Of these, on 4 x H200, NCCL's own choice is the best for some. */
#define DEFAULT_JOB                                                            \
    "allgather:4M,reducescatter:4M,allreduce:9728K,allreduce:64M,"             \
    "allreduce:256K"

#define MEGATRON_LAYER "allreduce:2M:25,allgather:4M:25,allreduce:256K:25,"
#define FOUR(x)        x x x x

/* A job that is not given as a list, and how its host launches. */
struct learn_named_job {
    const char *name;
    const char *job;
    unsigned launches; /* of a call */
    double launch_us;
    bool overlapped;
};

/* Those of named_jobs, as messages list them. */
#define JOB_NAMES "torch-step, torch-host, ddp, fsdp, megatron"

/* As measured on 2 x H200 with PyTorch.  The first has 12 layers of two GEMMs
 * of 512 x 2048 x 24576, a norm and an all-reduce, the second 16 instead of 512
 * rows, the others products of 2048 x 2048 x 2048. */
static const struct learn_named_job named_jobs[] = {
    {"torch-step", "12xallreduce:2M:181", 6, 12, false},
    {"torch-host", "12xallreduce:64K:15", 6, 12, false},
    {"ddp", "allreduce:4M:350,11xallreduce:4M:50", 4, 13, true},
    {"fsdp", "12xallgather:4M:50,12xreducescatter:4M:50", 2, 26, true},
    {"megatron",
     FOUR(MEGATRON_LAYER) FOUR(MEGATRON_LAYER)
         FOUR(MEGATRON_LAYER) "allreduce:16M:25",
     3, 16, false},
};
static const struct learn_named_job other_job = {.launches = 6,
                                                 .launch_us = 12};
enum {
    N_NAMED_JOBS = sizeof(named_jobs) / sizeof(named_jobs[0]),
    WHY = 256 /* bytes of a sentence */
};

enum { MAX_CALLS = 256, MAX_STRATEGIES = 8, MAX_WORD = 32 };

struct learn_command {
    struct stp_machine_options machine;
    struct stp_learn_job job;
    struct mock_job_call calls[MAX_CALLS];
    char strategies[MAX_STRATEGIES][MAX_WORD];
    unsigned n_strategies;
    unsigned n_steps;
    unsigned launch_ahead;
    unsigned launches;
    unsigned sync_every;
    const char *job_text;         /* NULL: the default, or the trace */
    const char *trace;            /* NULL: none */
    struct stp_traced_job traced; /* of it */
    double compute_us;
    const char *objective;
    const char *plugin; /* NULL: ours */
    char machine_path[STP_CLI_PATH];
    char rewards[STP_CLI_PATH]; /* file of strategies that take one, or "" */
};

/* ---- jobs and strategies in words ---- */

static bool learn_explain_word(char why[WHY], const char *word,
                               const char *expected)
{
    const size_t len = strcspn(word, ",");
    const size_t shown = len < 48 ? len : 48;

    snprintf(why, WHY, "'%.*s%s', expected %s", (int)shown, word,
             shown < len ? "..." : "", expected);
    return false;
}

/* One "collective:size[:us]", up to a comma or the end. */
static bool learn_parse_call(const char *word, double compute_us,
                             struct mock_job_call *call, char why[WHY])
{
    size_t len = strcspn(word, ":,");
    const char *size = word + len + 1;
    int coll = stp_coll_from_name(word, len);
    uint64_t n_bytes;

    if (coll < 0) {
        char expected[WHY - 64]; /* room for the word */

        snprintf(expected, sizeof(expected),
                 "COLLECTIVE:SIZE with one of %s; or, alone, one of " JOB_NAMES,
                 stp_coll_names());
        return learn_explain_word(why, word, expected);
    }
    if (word[len] != ':' ||
        !stp_parse_size(size, strcspn(size, ":,"), &n_bytes) || n_bytes < 1 ||
        n_bytes > (uint64_t)1 << 40)
        return learn_explain_word(why, word,
                                  "a size such as 4M after the collective");
    size += strcspn(size, ":,");
    if (*size == ':' &&
        (!stp_parse_double(size + 1, strcspn(size + 1, ","), &compute_us) ||
         !(compute_us >= 0 && compute_us <= 1e9)))
        return learn_explain_word(why, word,
                                  "microseconds of compute after the size");
    *call = (struct mock_job_call){
        .compute_us = compute_us,
        .call = {.coll = (ncclFunc_t)coll, .n_bytes = n_bytes}};
    return true;
}

/* "12x" before a call; 1 if there is none, 0 if it is too many. */
static size_t learn_parse_repeats(const char **text)
{
    size_t len = strspn(*text, "0123456789");
    uint64_t n;

    if (len == 0 || (*text)[len] != 'x')
        return 1;
    if (!stp_parse_u64(*text, len, &n) || n > MAX_CALLS)
        return 0;
    *text += len + 1;
    return (size_t)n;
}

/* A job in words: "allgather:4M,12xallreduce:64M", each with the compute before
 * it as ":US" or 'compute_us'.  Returns how many calls there are; 0 with a
 * sentence in 'why' if the words mean nothing. */
static size_t learn_parse_job(const char *text, double compute_us,
                              struct mock_job_call calls[MAX_CALLS],
                              char why[WHY])
{
    struct mock_job_call call;
    size_t n = 0;

    for (;;) {
        size_t repeats = learn_parse_repeats(&text);

        if (repeats == 0 || n + repeats > MAX_CALLS) {
            snprintf(why, WHY, "expected 1 to %d collectives", MAX_CALLS);
            return 0;
        }
        if (!learn_parse_call(text, compute_us, &call, why))
            return 0;
        while (repeats-- > 0)
            calls[n++] = call;
        text += strcspn(text, ",");
        if (*text == '\0')
            return n;
        text++;
    }
}

static const struct learn_named_job *learn_find_named_job(const char *name)
{
    for (size_t i = 0; i < N_NAMED_JOBS; i++)
        if (strcmp(name, named_jobs[i].name) == 0)
            return &named_jobs[i];
    return &other_job;
}

/* A job that has a name ends with its last call. */
static void learn_read_job(struct learn_command *o, char why[WHY])
{
    const struct learn_named_job *named = learn_find_named_job(o->job_text);

    o->job.step.calls = o->calls;
    o->job.step.n =
        learn_parse_job(named->job != NULL ? named->job : o->job_text,
                        o->compute_us, o->calls, why);
    o->job.step.tail_us = named->job != NULL ? 0 : o->compute_us;
    o->job.overlapped |= named->overlapped;
    o->job.host.launches = o->launches > 0 ? o->launches : named->launches;
    if (o->job.host.launch_us <= 0)
        o->job.host.launch_us = named->launch_us;
}

/* ---- options ---- */

/* A word of lower-case letters, '-' and '_': another vendor's plugin may have
 * strategies of its own. */
static const char *learn_read_strategy(const struct stp_option *option,
                                       const char *text, void *at)
{
    const size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz-_");

    (void)option;
    if (len == 0 || len >= MAX_WORD || text[len] != '\0')
        return "words such as epsilon,halving";
    memset(at, 0, MAX_WORD);
    memcpy(at, text, len);
    return NULL;
}

#define AT(member) offsetof(struct learn_command, member)

static const char *const objectives[] = {"auto", "gpu", "file", NULL};

static const struct stp_option learn_table[] = {
    {"strategies", 0, "LIST", learn_read_strategy, AT(strategies),
     .n = AT(n_strategies), .size = MAX_WORD, .most = MAX_STRATEGIES,
     .value = "epsilon,halving",
     .help = "Strategies to compare, as STEPTUNE_STRATEGY names them, beside "
             "NCCL alone and an oracle"},
    {"objective", 0, "WORD", stp_option_text, AT(objective),
     .words = objectives, .value = "auto",
     .help = "Source of rewards, as STEPTUNE_OBJECTIVE: auto, gpu or "
             "file, which the played job writes; auto with epsilon is file"},
    {"steps", 0, "N", stp_option_count, AT(n_steps), .min = 20, .value = "1000",
     .help = "Steps of a job"},
    {"seeds", 0, "N", stp_option_count, AT(job.n_seeds), .min = 1,
     .value = "20", .help = "Jobs, each with noise of its own"},
    {"seed", 0, "N", stp_option_number, AT(job.seed), .value = "1",
     .help = "Seed of the first job's noise"},
    {"trace", 0, "FILE", stp_option_text, AT(trace),
     .help = "Instead of --job: a step of this trace, on one communicator of "
             "all ranks, as steptune iterate --trace takes it"},
    {"job", 0, "LIST", stp_option_text, AT(job_text),
     .help = "Collectives of a step, each COLLECTIVE:SIZE, or "
             "COLLECTIVE:SIZE:US with the compute before it, 12x before it for "
             "12 of them; or a job's name: " JOB_NAMES " (default: " DEFAULT_JOB
             ")"},
    {"compute", 0, "US", stp_option_double, AT(compute_us), .max = 1e9,
     .expected = "microseconds", .value = "200",
     .help = "Compute before each collective, and after the last"},
    {"compute-noise", 0, "SHARE", stp_option_share, AT(job.compute_noise),
     .value = "5%", .help = "Variation of a step's compute"},
    {"stalls", 0, "SHARE", stp_option_share, AT(job.stalls), .value = "0%",
     .help = "Share of steps in which the GPUs stall for 4 to 12 ms; in a "
             "PyTorch job on 2 x H100 it was 6%"},
    {"jitter", 0, "US", stp_option_double, AT(job.jitter_us), .max = 1e9,
     .expected = "microseconds", .value = "10",
     .help = "How much later than others a rank may enter a collective"},
    {"launch-ahead", 0, "N", stp_option_count, AT(launch_ahead),
     .value = "1024",
     .help = "CUDA launches that the host is ahead of the GPUs at most; 0: it "
             "waits for them after each step"},
    {"launches", 0, "N", stp_option_count, AT(launches), .min = 1,
     .help = "CUDA launches of a collective and of the compute before it "
             "(default 6, or the named job's)"},
    {"host-us", 0, "US", stp_option_double, AT(job.host.launch_us),
     .above = true, .max = 1e6, .expected = "microseconds",
     .help = "Host time of a launch (default 12, or the named job's); where "
             "launches take longer than what they launch, the GPUs wait for "
             "the host"},
    {"sync-every", 0, "N", stp_option_count, AT(sync_every), .value = "0",
     .help = "Let the host wait for the GPUs after each N steps; 0: never"},
    {"graph", 0, NULL, stp_option_flag, AT(job.captured),
     .help = "Capture a step into a CUDA graph, and replay it"},
    {"overlap", 0, NULL, stp_option_flag, AT(job.overlapped),
     .help = "Overlap collectives with the compute that follows them"},
    {"own-channels", 0, NULL, stp_option_flag, AT(job.own_channels),
     .help = "Let the best arm have NCCL's own channel count; else any"},
    {"plugin", 0, "SO", stp_option_text, AT(plugin),
     .help = "Tuner and profiler plugin of any vendor (default: our learning "
             "one)"},
    {"nccl", 0, "VERSION", stp_option_text, AT(job.nccl),
     .help = "NCCL version to play (default 2.28)"},
    {0},
};

static char learn_counted[] = "jobs"; /* in progress */

static void learn_check_options(void *options, struct argp_state *state)
{
    struct learn_command *o = options;
    char why[WHY];

    o->job.n_steps = o->n_steps;
    o->job.progress = stp_progress;
    o->job.user = learn_counted;
    o->job.host.ahead = o->launch_ahead;
    o->job.host.timed_us = mock_job_torch_host.timed_us;
    o->job.host.noise = mock_job_torch_host.noise;
    o->job.host.sync_every = o->sync_every;
    if (o->trace != NULL && o->job_text != NULL)
        stp_usage_error(state, "--trace with --job, expected one of them");
    if (o->job_text == NULL)
        o->job_text = o->trace != NULL ? "" : DEFAULT_JOB;
    if (o->trace == NULL)
        learn_read_job(o, why);
    if (o->trace == NULL && o->job.step.n == 0)
        stp_usage_error(state, "--job %s", why);
    if (o->job.nccl != NULL && mock_release_find(o->job.nccl) < 0)
        stp_usage_error(state, "--nccl '%s', expected 2.21 to 2.32",
                        o->job.nccl);
}

static const struct stp_command_line learn_line = {
    .groups = (const struct stp_option_group[]){{.options = learn_table},
                                                {.options = stp_recorded_table,
                                                 .at = AT(machine)},
                                                {0}},
    .check = learn_check_options,
    .doc =
        "Plays a training job on a recorded machine with a plugin that "
        "learns, and prints how soon it settled, what learning cost, and "
        "what it gained.\v"
        "trials: changes of the choice for a collective and size, but for "
        "those back (median).  settled: its calls until the choice changed for "
        "the last time, re-tests apart, median and 95th percentile; "
        "searched: those of them since its first trial, as a trial may wait "
        "for another; still trying: those whose choice still changed in the "
        "last fifth of the calls.  lost: time over NCCL's "
        "own choice in the first 1000 steps, and in all; negative is won.  "
        "final gain: of the last fifth of the steps over NCCL's, with a 95 "
        "percent interval.\n\n"
        "over AUTO: the mean time of NCCL's own choice over that of the "
        "best arm; our plugin takes it if steps gain STEPTUNE_MIN_GAIN by it, "
        "0.2 percent.  finds it: jobs that end within 1 percent of the best "
        "arm, and the calls they searched (median).\n\n"
        "The host launches a step's kernels ahead of the GPUs, up to "
        "CUDA's limit of 1024, as PyTorch does; the times of kernels come "
        "late, and in bursts.  The defaults are measured in a PyTorch job "
        "on 2 x H200.",
};

/* ---- playing ---- */

/* A strategy of the plugin's, with the rest of the command. */
struct learn_strategy {
    struct learn_command *command;
    const char *name;
};

/* Whether rewards come from a file that the job writes: by --objective, or as
 * epsilon-greedy of ours has no other without one (auto). */
static bool learn_takes_file(const struct learn_command *o,
                             const char *strategy)
{
    return strcmp(o->objective, "file") == 0 ||
           (strcmp(o->objective, "auto") == 0 && o->plugin == NULL &&
            strcmp(strategy, stp_strategy_name(STP_STRATEGY_EPSILON)) == 0);
}

static bool learn_set(const char *name, const char *value)
{
    return setenv(name, value, 1) == 0;
}

/* There is no other thread.  Each job starts a new reward file. */
static enum stp_status learn_prepare(void *user, uint64_t seed,
                                     const char **reward_file_ret,
                                     struct stp_error *err)
{
    const struct learn_strategy *s = user;
    const char *rewards = s->command->rewards;
    char number[32];
    bool done;

    snprintf(number, sizeof(number), "%" PRIu64, seed);
    done = learn_set("STEPTUNE_STRATEGY", s->name) &&
           learn_set("STEPTUNE_OBJECTIVE", s->command->objective) &&
           learn_set("STEPTUNE_SEED", number) &&
           learn_set("STEPTUNE_INLINE", "1") &&
           /* a played job leaves no policy for a real one */
           learn_set("STEPTUNE_LEARNED", "/dev/null");
    if (learn_takes_file(s->command, s->name)) {
        unlink(rewards);
        done = done && learn_set("NCCL_TUNER_REWARD_FILE", rewards);
        *reward_file_ret = rewards;
    } else {
        unsetenv("NCCL_TUNER_REWARD_FILE");
    }
    return done ? STP_OK
                : stp_fail(err, STP_ERR_NOMEM, "cannot set the environment");
}

static enum stp_status learn_report(const struct learn_command *o,
                                    const struct stp_learner *learners,
                                    const struct stp_learned *learned, size_t n,
                                    struct stp_error *err)
{
    const char *machine = stp_machine_name(o->job.machine_path);
    size_t n_times = 0, n_modelled = 0;

    if (o->machine.json)
        return stp_print_learned_json(&o->job, machine, learners, learned, n,
                                      stdout, err);
    for (size_t i = 0; i < n; i++) {
        n_times += learned[i].n_times;
        n_modelled += learned[i].n_modelled;
    }
    printf("%zu steps of %s on the recorded machine %s in mock NCCL, not on "
           "GPUs; %u seeds; steps are %s: %zu of %zu times of their "
           "collectives are modelled\n\n",
           o->job.n_steps, o->job_text, machine, o->job.n_seeds,
           stp_source_name(n_modelled > 0 ? STP_SOURCE_MODELLED
                                          : STP_SOURCE_VIRTUAL),
           n_modelled, n_times);
    return stp_print_learned(learners, learned, n, stdout, err);
}

static enum stp_status learn_play(struct learn_command *o, const char *plugin,
                                  struct stp_error *err)
{
    struct learn_strategy strategies[MAX_STRATEGIES];
    struct stp_learner learners[MAX_STRATEGIES + 2];
    struct stp_learned learned[MAX_STRATEGIES + 2];
    size_t n = 0;
    enum stp_status status;

    for (; n < o->n_strategies; n++) {
        strategies[n] = (struct learn_strategy){o, o->strategies[n]};
        learners[n] = (struct stp_learner){.kind = STP_LEARNER_PLUGIN,
                                           .name = o->strategies[n],
                                           .plugin = plugin,
                                           .prepare = learn_prepare,
                                           .user = &strategies[n]};
    }
    learners[n++] =
        (struct stp_learner){.kind = STP_LEARNER_AUTO, .name = "AUTO"};
    learners[n++] =
        (struct stp_learner){.kind = STP_LEARNER_ORACLE, .name = "oracle"};
    status = stp_learn(&o->job, learners, n, learned, err);
    return status == STP_OK ? learn_report(o, learners, learned, n, err)
                            : status;
}

/* ---- where ---- */

/* With a file for rewards, if a strategy takes them from one. */
static enum stp_status learn_play_in_folder(struct learn_command *o,
                                            const char *plugin,
                                            struct stp_error *err)
{
    char folder[STP_CLI_PATH - 16];
    char path[STP_CLI_PATH];
    bool takes_file = false;
    enum stp_status status;

    for (unsigned i = 0; i < o->n_strategies; i++)
        takes_file |= learn_takes_file(o, o->strategies[i]);
    if (!takes_file)
        return learn_play(o, plugin, err);
    if (!stp_make_temporary("steptune-learn", path))
        return stp_fail(err, STP_ERR_IO, "cannot make a folder %.160s", path);
    snprintf(folder, sizeof(folder), "%.4000s", path);
    snprintf(o->rewards, sizeof(o->rewards), "%s/rewards.log", folder);
    status = learn_play(o, plugin, err);
    unlink(o->rewards);
    rmdir(folder);
    return status;
}

/* The step of the trace, as a job without a name. */
static int learn_read_trace(struct learn_command *o)
{
    struct stp_trace trace;
    struct stp_error err;
    enum stp_status status = stp_traces_load(o->trace, &trace, &err);

    if (status != STP_OK)
        return stp_complain_error(o->trace, &err);
    status = stp_traced_job_make(&trace, o->machine_path, &o->traced, &err);
    if (status == STP_OK && !o->machine.json)
        stp_print_trace(&trace, stdout);
    stp_trace_free(&trace);
    if (status != STP_OK)
        return stp_complain_error(o->trace, &err);
    o->job_text = stp_base_name(o->trace);
    o->job.step = o->traced.step;
    o->job.overlapped |= o->traced.overlapped;
    o->job.host.launches = o->launches > 0 ? o->launches : other_job.launches;
    if (o->job.host.launch_us <= 0)
        o->job.host.launch_us = other_job.launch_us;
    return STP_EXIT_OK;
}

static int learn_run(void *user)
{
    struct learn_command *o = user;
    char ours[STP_CLI_PATH];
    const char *plugin = o->plugin != NULL ? o->plugin : ours;
    struct stp_error err = {0};
    enum stp_status status = STP_OK;

    if (stp_choose_machine(o->machine.on, o->machine_path) != STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    o->job.machine_path = o->machine_path;
    if (o->trace != NULL && learn_read_trace(o) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    if (o->plugin == NULL)
        status = stp_find_plugin("steptune-online", ours, &err);
    unsetenv("NCCL_WORKLOAD_OVERLAP"); /* the study has no such policy */
    STP_THEN(status, stp_set_plugin_environment(o->machine_path, NULL, &err));
    STP_THEN(status, learn_play_in_folder(o, plugin, &err));
    if (status == STP_OK)
        return STP_EXIT_OK;
    stp_complain_error(NULL, &err);
    return STP_EXIT_FAILED;
}

/* Another vendor's plugin has strategies of its own. */
static bool learn_knows_strategies(const struct learn_command *o)
{
    for (size_t i = 0; o->plugin == NULL && i < o->n_strategies; i++) {
        const char *name = o->strategies[i];
        int strategy = stp_strategy_from_name(name, strlen(name));

        if (strategy < 0) {
            stp_complain("--strategies '%s', expected halving, epsilon", name);
            return false;
        }
        if (strcmp(o->objective, "auto") != 0 &&
            (strategy == STP_STRATEGY_EPSILON) !=
                (strcmp(o->objective, "file") == 0)) {
            stp_complain("--objective %s with --strategies %s, expected file "
                         "with epsilon and gpu with halving",
                         o->objective, name);
            return false;
        }
    }
    return true;
}

int stp_cmd_learn(int argc, char **argv)
{
    struct learn_command o = {0};
    int exit_status;

    stp_options_read(&learn_line, argc, argv, &o);
    if (!learn_knows_strategies(&o))
        return STP_EXIT_USAGE;
    exit_status = stp_run_plugin(o.plugin, learn_run, &o);
    stp_traced_job_free(&o.traced);
    return exit_status;
}
