/* train_options.c - the options of `steptune train` */
#include <stdio.h>
#include <string.h>

#include "cli/train/train.h"
#include "core/text.h"

enum {
    OPT_ON = 0x600,
    OPT_BACKEND,
    OPT_SIZES,
    OPT_GPUS,
    OPT_MODES,
    OPT_PRECISION,
    OPT_GRADIENTS,
    OPT_GA,
    OPT_BATCH,
    OPT_SAMPLES,
    OPT_EPOCHS,
    OPT_WARMUP,
    OPT_LR,
    OPT_BUCKET,
    OPT_SEED,
    OPT_REPEAT,
    OPT_POLICY,
    OPT_PLUGIN,
    OPT_ROUNDS,
    OPT_FRESH,
    OPT_PROFILE,
    OPT_JSON,
    DEFAULT_ROUNDS = 5,
    DEFAULT_EPOCHS = 5,
    WORD = 32,
};

/* Whole numbers above this are not exact in JSON. */
#define SEED_MAX ((uint64_t)1 << 53)

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What to train: all combinations of these lists", 1},
    {"sizes", OPT_SIZES, "LIST", 0,
     "Models: tiny, base (64 M parameters), large (250 M), xlarge (726 M) "
     "(default: base; on CPUs tiny)",
     1},
    {"size", OPT_SIZES, NULL, OPTION_ALIAS, NULL, 1},
    {"gpus", OPT_GPUS, "LIST", 0,
     "Ranks; on GPUs threads (default 1), on CPUs processes (default 2), or "
     "those that mpirun, srun or torchrun started; on a recorded machine "
     "default all it has",
     1},
    {"procs", OPT_GPUS, NULL, OPTION_ALIAS, NULL, 1},
    {"modes", OPT_MODES, "LIST", 0,
     "How gradients become those of all ranks: all, or some of single, naive, "
     "interleaved, bucketed, sharded (default: bucketed); one rank is single",
     1},
    {"mode", OPT_MODES, NULL, OPTION_ALIAS, NULL, 1},
    {"precision", OPT_PRECISION, "LIST", 0,
     "fp32, tf32, bf16, fp16 (with dynamic loss scaling), fp64 (default fp32)",
     1},
    {"ga", OPT_GA, "LIST", 0,
     "Micro-batches of a step; only the last communicates (default 1)", 1},
    {"repeat", OPT_REPEAT, "N", 0,
     "Train all combinations of a count of ranks this often, in turn "
     "(default 1)",
     1},

    {NULL, 0, NULL, 0, "How", 2},
    {"on", OPT_ON, "MACHINE", 0,
     "Where to train: cuda, cpu, or a recorded machine by its name or folder, "
     "which takes the time in virtual time and computes nothing (default: cuda "
     "if there is a GPU, else h200x4)",
     2},
    {"backend", OPT_BACKEND, "NAME", 0,
     "What moves the data: gloo or mpi on CPUs (default: gloo)", 2},
    {"half-gradients", OPT_GRADIENTS, NULL, 0,
     "Keep and send gradients in the 16 bits of bf16 or fp16, not in fp32", 2},
    {"batch", OPT_BATCH, "N", 0,
     "Samples of a step, of all ranks and micro-batches (default 4096)", 2},
    {"samples", OPT_SAMPLES, "N", 0, "Samples of an epoch (default 65536)", 2},
    {"epochs", OPT_EPOCHS, "N", 0,
     "Default 5; with a policy those of a round, default 1", 2},
    {"warmup", OPT_WARMUP, "N", 0,
     "Steps before the first, untimed and without an update (default 3)", 2},
    {"lr", OPT_LR, "RATE", 0, "Learning rate (default 0.01)", 2},
    {"bucket-mb", OPT_BUCKET, "MB", 0,
     "Gradients of a bucket in MiB; the first is of 1 at most (default 25)", 2},
    {"seed", OPT_SEED, "N", 0, "Of data and weights (default 42)", 2},

    {NULL, 0, NULL, 0, "Under whom", 3},
    {"policy", OPT_POLICY, "FILE", 0,
     "Train with NCCL's own choice and with this policy, in turn, in one "
     "communicator, and compare",
     3},
    {"plugin", OPT_PLUGIN, "SO", 0,
     "The same with this tuner plugin (default: ours, if there is a policy)",
     3},
    {"rounds", OPT_ROUNDS, "N", 0, "Turns of each of the two (default 5)", 3},

    {NULL, 0, NULL, 0, "Results", 4},
    {"output", 'o', "FOLDER", 0,
     "Write benchmark_results_GPU.json into this folder, after each "
     "combination; what is there is not trained again",
     4},
    {"fresh", OPT_FRESH, NULL, 0, "Forget what is there", 4},
    {"profile", OPT_PROFILE, NULL, 0,
     "Trace some steps behind the last: write trace_rankN.json, for Perfetto, "
     "beside the results (default: here; of several combinations, a folder "
     "each), and say how much communication is hidden",
     4},
    {"json", OPT_JSON, NULL, 0, "Print JSON instead of a table", 4},
    {0},
};

/* ---- lists ---- */

/* Reads one word into place 'i' of its list, and returns what it is, or does
 * not return. */
typedef intptr_t (*take_fn)(struct stp_train_matrix *m, unsigned i,
                            const char *word, struct argp_state *state);

static intptr_t take_size(struct stp_train_matrix *m, unsigned i,
                          const char *word, struct argp_state *state)
{
    m->models[i] = stp_train_find_model(word);
    if (m->models[i] == NULL)
        argp_error(state, "--sizes '%s', expected tiny, base, large or xlarge",
                   word);
    return (intptr_t)m->models[i];
}

static intptr_t take_gpus(struct stp_train_matrix *m, unsigned i,
                          const char *word, struct argp_state *state)
{
    uint64_t n = 0;

    if (!stp_parse_u64(word, strlen(word), &n) || n < 1 ||
        n > STP_MAX_PROCESSES)
        argp_error(state, "--gpus '%s', expected a number from 1 to %d", word,
                   STP_MAX_PROCESSES);
    m->gpus[i] = (unsigned)n;
    return m->gpus[i];
}

static intptr_t take_mode(struct stp_train_matrix *m, unsigned i,
                          const char *word, struct argp_state *state)
{
    m->modes[i] = stp_train_mode_from_name(word);
    if (m->modes[i] < 0)
        argp_error(state,
                   "--modes '%s', expected all, or some of single, naive, "
                   "interleaved, bucketed and sharded",
                   word);
    return m->modes[i];
}

static intptr_t take_precision(struct stp_train_matrix *m, unsigned i,
                               const char *word, struct argp_state *state)
{
    m->precisions[i] = stp_precision_from_name(word);
    if (m->precisions[i] < 0)
        argp_error(state,
                   "--precision '%s', expected fp32, tf32, bf16, fp16 or fp64",
                   word);
    return m->precisions[i];
}

static intptr_t take_ga(struct stp_train_matrix *m, unsigned i,
                        const char *word, struct argp_state *state)
{
    m->accumulate[i] = stp_parse_count(word, "--ga", 1, state);
    return m->accumulate[i];
}

/* argv stays as it is: under mpirun it is read again. */
static unsigned take_list(struct stp_train_matrix *m, const char *list,
                          const char *name, take_fn take,
                          struct argp_state *state)
{
    struct stp_field words[STP_TRAIN_LIST];
    intptr_t taken[STP_TRAIN_LIST];
    const size_t n = stp_split(list, strlen(list), words, STP_TRAIN_LIST);

    if (n > STP_TRAIN_LIST)
        argp_error(state, "%s '%s', expected at most %d entries", name, list,
                   STP_TRAIN_LIST);
    for (unsigned i = 0; i < n && i < STP_TRAIN_LIST; i++) {
        char word[WORD];

        snprintf(word, sizeof(word), "%.*s", (int)words[i].len, words[i].s);
        taken[i] = take(m, i, word, state);
        for (unsigned j = 0; j < i; j++)
            if (taken[j] == taken[i])
                argp_error(state, "%s '%s', expected %s once", name, list,
                           word);
    }
    return (unsigned)n;
}

static unsigned take_modes(struct stp_train_matrix *m, const char *list,
                           struct argp_state *state)
{
    if (strcmp(list, "all") != 0)
        return take_list(m, list, "--modes", take_mode, state);
    for (int i = 0; i < STP_TRAIN_N_MODES; i++)
        m->modes[i] = i;
    return STP_TRAIN_N_MODES;
}

static error_t parse_lists(int key, char *arg, struct argp_state *state)
{
    struct stp_train_options *o = state->input;
    struct stp_train_matrix *m = &o->matrix;

    switch (key) {
    case OPT_SIZES:
        m->n_models = take_list(m, arg, "--sizes", take_size, state);
        return 0;
    case OPT_GPUS:
        m->n_gpus = take_list(m, arg, "--gpus", take_gpus, state);
        return 0;
    case OPT_MODES:
        m->n_modes = take_modes(m, arg, state);
        return 0;
    case OPT_PRECISION:
        m->n_precisions =
            take_list(m, arg, "--precision", take_precision, state);
        return 0;
    case OPT_GA:
        m->n_accumulate = take_list(m, arg, "--ga", take_ga, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- numbers ---- */

static double parse_positive(const char *arg, const char *name,
                             struct argp_state *state)
{
    double value = 0;

    if (!stp_parse_double(arg, strlen(arg), &value) || !(value > 0))
        argp_error(state, "%s '%s', expected a number above 0", name, arg);
    return value;
}

static void parse_bucket(const char *arg, struct stp_train_config *c,
                         struct argp_state *state)
{
    const double mib = parse_positive(arg, "--bucket-mb", state);

    if (mib > 1e6)
        argp_error(state, "--bucket-mb '%s', expected at most 1000000", arg);
    c->bucket_bytes = (uint64_t)(mib * (1 << 20));
    if (c->first_bucket_bytes > c->bucket_bytes)
        c->first_bucket_bytes = c->bucket_bytes;
}

static void parse_seed(const char *arg, struct stp_train_config *c,
                       struct argp_state *state)
{
    if (!stp_parse_u64(arg, strlen(arg), &c->seed) || c->seed > SEED_MAX)
        argp_error(state, "--seed '%s', expected a number from 0 to %ju", arg,
                   (uintmax_t)SEED_MAX);
}

static error_t parse_numbers(int key, char *arg, struct argp_state *state)
{
    struct stp_train_options *o = state->input;
    struct stp_train_config *c = &o->matrix.base;

    switch (key) {
    case OPT_BATCH:
        c->batch = stp_parse_count(arg, "--batch", 1, state);
        return 0;
    case OPT_SAMPLES:
        c->n_samples = stp_parse_count(arg, "--samples", 1, state);
        return 0;
    case OPT_EPOCHS:
        c->n_epochs = stp_parse_count(arg, "--epochs", 1, state);
        return 0;
    case OPT_WARMUP:
        c->warmup = stp_parse_count(arg, "--warmup", 0, state);
        return 0;
    case OPT_LR:
        c->rate = parse_positive(arg, "--lr", state);
        return 0;
    case OPT_BUCKET:
        parse_bucket(arg, c, state);
        return 0;
    case OPT_SEED:
        parse_seed(arg, c, state);
        return 0;
    case OPT_REPEAT:
        o->matrix.n_repeats = stp_parse_count(arg, "--repeat", 1, state);
        return 0;
    case OPT_ROUNDS:
        c->rounds = stp_parse_count(arg, "--rounds", 1, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the rest ---- */

static error_t parse_words(int key, char *arg, struct argp_state *state)
{
    struct stp_train_options *o = state->input;

    switch (key) {
    case OPT_BACKEND:
        if (strcmp(arg, "gloo") != 0 && strcmp(arg, "mpi") != 0)
            argp_error(state, "--backend '%s', expected gloo or mpi", arg);
        o->run.backend = arg;
        return 0;
    case OPT_ON:
        o->machine.on = arg;
        return 0;
    case OPT_POLICY:
        o->policy = arg;
        return 0;
    case OPT_PLUGIN:
        o->plugin = arg;
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    default:
        return parse_numbers(key, arg, state);
    }
}

static void check(const struct stp_train_options *o, struct argp_state *state)
{
    if (o->matrix.base.rounds > 0 && o->policy == NULL && o->plugin == NULL)
        argp_error(state, "--rounds without --policy or --plugin, expected one "
                          "of them to compare");
    if (o->fresh && o->output == NULL)
        argp_error(state, "--fresh without -o FOLDER, expected what to forget");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stp_train_options *o = state->input;
    error_t result;

    switch (key) {
    case OPT_GRADIENTS:
        o->matrix.base.half_gradients = true;
        return 0;
    case OPT_JSON:
        o->machine.json = true;
        return 0;
    case OPT_FRESH:
        o->fresh = true;
        return 0;
    case OPT_PROFILE:
        o->matrix.base.trace = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s', expected options only", arg);
        return 0;
    case ARGP_KEY_END:
        check(o, state);
        return 0;
    default:
        result = parse_lists(key, arg, state);
        return result == ARGP_ERR_UNKNOWN ? parse_words(key, arg, state)
                                          : result;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc = "Trains multilayer perceptrons on synthetic data, data-parallel, "
           "and says what communication costs.",
};

static void choose_place(struct stp_train_options *o)
{
    const char *on = o->machine.on;

    if (on == NULL && o->run.backend != NULL)
        on = "cpu";
    else if (on == NULL)
        on = stp_is_live(NULL, NULL) ? "cuda" : STP_DEFAULT_MACHINE;
    o->machine.on = on;
    o->machine.seed = o->matrix.base.seed;
    if (strcmp(on, "cpu") == 0 && o->run.backend == NULL)
        o->run.backend = "gloo";
    o->place = strcmp(on, "cpu") == 0            ? STP_TRAIN_ON_CPUS
               : stp_is_live(on, o->run.backend) ? STP_TRAIN_ON_GPUS
                                                 : STP_TRAIN_ON_RECORDED;
}

/* What was not given. */
static void complete(struct stp_train_options *o)
{
    struct stp_train_matrix *m = &o->matrix;
    struct stp_train_config *c = &m->base;

    choose_place(o);
    if (m->n_models == 0)
        m->models[m->n_models++] = stp_train_find_model(
            o->place == STP_TRAIN_ON_CPUS ? "tiny" : "base");
    if (m->n_precisions == 0)
        m->precisions[m->n_precisions++] = STP_PRECISION_FP32;
    if (m->n_accumulate == 0)
        m->accumulate[m->n_accumulate++] = 1;
    if (m->n_modes == 0)
        m->modes[m->n_modes++] = STP_TRAIN_BUCKETED;
    if (c->rounds == 0 && (o->policy != NULL || o->plugin != NULL))
        c->rounds = DEFAULT_ROUNDS;
    if (c->n_epochs == 0)
        c->n_epochs = c->rounds > 0 ? 1 : DEFAULT_EPOCHS;
}

void stp_train_parse(int argc, char **argv, struct stp_train_options *o_ret)
{
    struct stp_train_options o = {.matrix = {.n_repeats = 1}};

    stp_train_default(&o.matrix.base);
    o.matrix.base.n_epochs = 0;
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    complete(&o);
    *o_ret = o;
}
