/* train_options.c - the options of `steptune train` */
#include <string.h>

#include "cli/train/train.h"

enum { DEFAULT_ROUNDS = 5, DEFAULT_EPOCHS = 5 };

static const char *train_read_model(const struct stp_option *option,
                                    const char *text, void *at)
{
    const struct stp_train_model *model = stp_train_find_model(text);

    (void)option;
    if (model == NULL)
        return "tiny, base, large or xlarge";
    *(const struct stp_train_model **)at = model;
    return NULL;
}

static int train_find_mode(const char *word, size_t len)
{
    (void)len;
    return stp_train_mode_from_name(word);
}

static int train_find_precision(const char *word, size_t len)
{
    (void)len;
    return stp_precision_from_name(word);
}

#define AT(member) offsetof(struct stp_train_options, member)
#define LIST(member, length)                                                   \
    .n = AT(length), .most = STP_TRAIN_LIST,                                   \
    .size = sizeof(((struct stp_train_options *)0)->member[0])

static const struct stp_option train_matrix_table[] = {
    {"sizes", 0, "LIST", train_read_model, AT(matrix.models), .alias = "size",
     LIST(matrix.models, matrix.n_models),
     .help = "Models: tiny, base (64 M parameters), large (250 M), xlarge (726 "
             "M) (default: base; on CPUs tiny)"},
    {"gpus", 0, "LIST", stp_option_count, AT(matrix.gpus), .alias = "procs",
     LIST(matrix.gpus, matrix.n_gpus), .min = 1, .max = STP_MAX_PROCESSES,
     .help = "Ranks; on GPUs threads (default 1), on CPUs processes (default "
             "2), or those that mpirun, srun or torchrun started; on a "
             "recorded machine default all it has"},
    {"modes", 0, "LIST", stp_option_word, AT(matrix.modes), .alias = "mode",
     LIST(matrix.modes, matrix.n_modes), .from_name = train_find_mode,
     .max = STP_TRAIN_N_MODES - 1, .has_all = true, .value = "bucketed",
     .expected = "all, or some of single, naive, interleaved, bucketed and "
                 "sharded",
     .help = "Modes of gradient communication: all, or some of single, naive, "
             "interleaved, bucketed, sharded; one rank is single"},
    {"precision", 0, "LIST", stp_option_word, AT(matrix.precisions),
     LIST(matrix.precisions, matrix.n_precisions),
     .from_name = train_find_precision, .value = "fp32",
     .expected = "fp32, tf32, bf16, fp16 or fp64",
     .help = "fp32, tf32, bf16, fp16 (with dynamic loss scaling), fp64"},
    {"ga", 0, "LIST", stp_option_count, AT(matrix.accumulate),
     LIST(matrix.accumulate, matrix.n_accumulate), .min = 1, .value = "1",
     .help = "Micro-batches of a step; only the last communicates"},
    {"repeat", 0, "N", stp_option_count, AT(matrix.n_repeats), .min = 1,
     .value = "1",
     .help = "Repetitions of all combinations of a count of ranks, in turn"},
    {0},
};

static const char *const backends[] = {"gloo", "mpi", NULL};

static const struct stp_option train_table[] = {
    {"on", 0, "MACHINE", stp_option_text, AT(machine.on),
     .help = "Machine to train on: cuda, cpu, or a recorded machine by its "
             "name or folder, which takes the time in virtual time and "
             "computes nothing (default: cuda if there is a GPU, else h200x4)"},
    {"backend", 0, "NAME", stp_option_text, AT(run.backend), .words = backends,
     .help = "Transport on CPUs: gloo or mpi (default: gloo)"},
    {"half-gradients", 0, NULL, stp_option_flag, AT(matrix.base.half_gradients),
     .help = "Keep and send gradients in the 16 bits of bf16 or fp16, not in "
             "fp32"},
    {"batch", 0, "N", stp_option_count, AT(matrix.base.batch), .min = 1,
     .value = "4096",
     .help = "Samples of a step, of all ranks and micro-batches"},
    {"samples", 0, "N", stp_option_count, AT(matrix.base.n_samples), .min = 1,
     .value = "65536", .help = "Samples of an epoch"},
    {"epochs", 0, "N", stp_option_count, AT(matrix.base.n_epochs), .min = 1,
     .help = "Epochs (default 5); with a policy those of a round (default 1)"},
    {"warmup", 0, "N", stp_option_count, AT(matrix.base.warmup), .value = "3",
     .help = "Steps before the first, untimed and without an update"},
    {"lr", 0, "RATE", stp_option_double, AT(matrix.base.rate), .above = true,
     .value = "0.01", .help = "Learning rate"},
    {"bucket-mb", 0, "MB", stp_option_double, AT(bucket_mib), .above = true,
     .max = 1e6, .expected = "a number above 0, at most 1000000", .value = "25",
     .help = "Gradients of a bucket in MiB; the first is of 1 at most"},
    {"seed", 0, "N", stp_option_number, AT(matrix.base.seed),
     .max = 0x1p53 /* whole numbers above are not exact in JSON */,
     .value = "42", .help = "Seed of data and weights"},
    {0},
};

static const struct stp_option train_tuner_table[] = {
    {"policy", 0, "FILE", stp_option_text, AT(policy),
     .help = "Train with NCCL's own choice and with this policy, in turn, in "
             "one communicator, and compare"},
    {"plugin", 0, "SO", stp_option_text, AT(plugin),
     .help = "Compare with this tuner plugin (default: ours, if there is a "
             "policy)"},
    {"rounds", 0, "N", stp_option_count, AT(matrix.base.rounds), .min = 1,
     .help = "Turns of each of the two (default 5)"},
    {0},
};

static const struct stp_option train_results_table[] = {
    {"output", 'o', "FOLDER", stp_option_text, AT(output),
     .help = "Write benchmark_results_GPU.json into this folder, after each "
             "combination; combinations that are in it are not trained again"},
    {"fresh", 0, NULL, stp_option_flag, AT(fresh),
     .help = "Discard the results in that folder"},
    {"profile", 0, NULL, stp_option_flag, AT(matrix.base.trace),
     .help = "Trace some steps after the last: write trace_rankN.json, for "
             "Perfetto, beside the results (default: here; of several "
             "combinations, a folder each), and print how much communication "
             "is hidden"},
    {"json", 0, NULL, stp_option_flag, AT(machine.json),
     .help = "Print JSON instead of a table"},
    {0},
};

static void train_check_options(void *options, struct argp_state *state)
{
    const struct stp_train_options *o = options;

    if (o->matrix.base.rounds > 0 && o->policy == NULL && o->plugin == NULL)
        argp_error(state, "--rounds without --policy or --plugin, expected one "
                          "of them to compare");
    if (o->fresh && o->output == NULL)
        argp_error(state, "--fresh requires -o FOLDER");
}

static const struct stp_command_line train_line = {
    .groups =
        (const struct stp_option_group[]){
            {train_matrix_table, 0,
             "What to train: all combinations of these lists"},
            {train_table, 0, "How"},
            {train_tuner_table, 0, "Tuner"},
            {train_results_table, 0, "Results"},
            {0}},
    .check = train_check_options,
    .doc = "Trains multilayer perceptrons on synthetic data, data-parallel, "
           "and prints how much time communication takes.",
};

static void train_choose_place(struct stp_train_options *o)
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

/* Defaults that depend on other options. */
static void train_complete(struct stp_train_options *o)
{
    struct stp_train_matrix *m = &o->matrix;
    struct stp_train_config *c = &m->base;

    train_choose_place(o);
    if (m->n_models == 0)
        m->models[m->n_models++] = stp_train_find_model(
            o->place == STP_TRAIN_ON_CPUS ? "tiny" : "base");
    c->bucket_bytes = (uint64_t)(o->bucket_mib * (1 << 20));
    if (c->first_bucket_bytes > c->bucket_bytes)
        c->first_bucket_bytes = c->bucket_bytes;
    if (c->rounds == 0 && (o->policy != NULL || o->plugin != NULL))
        c->rounds = DEFAULT_ROUNDS;
    if (c->n_epochs == 0)
        c->n_epochs = c->rounds > 0 ? 1 : DEFAULT_EPOCHS;
}

void stp_train_parse(int argc, char **argv, struct stp_train_options *o_ret)
{
    struct stp_train_options o = {0};

    stp_train_default(&o.matrix.base);
    o.matrix.base.n_epochs = 0;
    stp_options_read(&train_line, argc, argv, &o);
    train_complete(&o);
    *o_ret = o;
}
