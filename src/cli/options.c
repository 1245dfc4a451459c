/* options.c - the options that several subcommands share */
#include <string.h>

#include "cli/cli.h"
#include "core/dtype.h"
#include "core/names.h"
#include "core/text.h"

void stp_options_default(struct stp_machine_options *machine,
                         struct stp_measure_options *measure,
                         struct stp_derive_options *derive)
{
    if (machine != NULL)
        *machine = (struct stp_machine_options){.seed = 1};
    if (measure != NULL)
        *measure = (struct stp_measure_options){.warmup = 5, .type = -1};
    if (derive != NULL)
        *derive = (struct stp_derive_options){.min_gain = 0.02};
}

/* ---- --on and the like ---- */

enum { OPT_JSON = 0x100, OPT_SEED, OPT_ON };

static const struct argp_option machine_options[] = {
    {"on", OPT_ON, "MACHINE", 0,
     "Where to run: cuda, cpu, or a recorded machine by its name or folder "
     "(default: cuda if there is a GPU, else h200x4)",
     0},
    {"json", OPT_JSON, NULL, 0, "Print JSON instead of tables", 0},
    {"seed", OPT_SEED, "N", 0,
     "Seed of the draws from a recorded machine's spread (default 1)", 0},
    {0},
};

static error_t parse_machine(int key, char *arg, struct argp_state *state)
{
    struct stp_machine_options *o = state->input;

    switch (key) {
    case OPT_ON:
        o->on = arg;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_SEED:
        if (!stp_parse_u64(arg, strlen(arg), &o->seed))
            argp_error(state, "--seed '%s', expected a number from 0", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp stp_machine_argp = {.options = machine_options,
                                      .parser = parse_machine};

/* ---- what and how to measure ---- */

enum { OPT_COLLECTIVES = 0x200, OPT_ROUNDS };

static const struct argp_option measure_options[] = {
    {"collective", OPT_COLLECTIVES, "LIST", 0,
     "Collectives to measure, comma-separated (default: allreduce; recorded "
     "machines: all that they have times of)",
     0},
    {"collectives", OPT_COLLECTIVES, NULL, OPTION_ALIAS, NULL, 0},
    {"minbytes", 'b', "SIZE", 0,
     "Smallest message; sizes take K, M or G (default: the machine's recorded "
     "sizes, else 8)",
     0},
    {"maxbytes", 'e', "SIZE", 0, "Largest message (default 1G)", 0},
    {"stepfactor", 'f', "F", 0, "Factor from size to size (default 2)", 0},
    {"stepbytes", 'i', "SIZE", 0, "Bytes from size to size, instead", 0},
    {"iters", 'n', "N", 0,
     "Timed collectives an arm and round (default: up to 20, as many as take "
     "8 ms; recorded machines: 50)",
     0},
    {"warmup_iters", 'w', "N", 0, "Untimed ones before them (default 5)", 0},
    {"rounds", OPT_ROUNDS, "N", 0,
     "Interleaved rounds; a recorded machine has only so many (default: 5; "
     "recorded machines: all)",
     0},
    {"datatype", 'd', "TYPE", 0,
     "Of the elements, as all_reduce_perf or we call it: float or f32, half, "
     "bfloat16, int32, f8e4m3 ...; `sweep` takes all (default bf16; `sweep` on "
     "a real machine: float)",
     0},
    {0},
};

static void parse_colls(const char *list, struct stp_measure_options *o,
                        struct argp_state *state)
{
    struct stp_field words[NCCL_NUM_TUNED_FUNCS];
    size_t n = stp_split(list, strlen(list), words, NCCL_NUM_TUNED_FUNCS);

    o->n_colls = 0;
    for (size_t i = 0; i < n; i++) {
        int coll = -1;

        if (i < NCCL_NUM_TUNED_FUNCS)
            coll = stp_coll_from_name(words[i].s, words[i].len);
        for (size_t j = 0; j < o->n_colls; j++)
            if (o->colls[j] == coll)
                coll = -1;
        if (coll < 0)
            argp_error(state,
                       "--collective '%s', expected each at most once of %s",
                       list, stp_coll_names());
        else
            o->colls[o->n_colls++] = coll;
    }
}

/* "all", or one. */
static void parse_types(const char *arg, struct stp_measure_options *o,
                        struct argp_state *state)
{
    int type = stp_type_from_name(arg, strlen(arg));
    bool all = strcmp(arg, "all") == 0;

    if (type < 0 && !all)
        argp_error(state, "-d '%s', expected all, %s", arg, STP_TYPE_WORDS);
    o->n_types = all ? STP_N_TYPES : 1;
    for (int i = 0; i < (int)o->n_types; i++)
        o->types[i] = all ? i : type;
    o->type = o->types[0];
}

static uint64_t parse_size(const char *arg, const char *name,
                           struct argp_state *state)
{
    uint64_t size = 0;

    if (!stp_parse_size(arg, strlen(arg), &size) || size == 0)
        argp_error(state, "%s '%s', expected a size such as 8, 64K or 1G", name,
                   arg);
    return size;
}

unsigned stp_parse_count(const char *arg, const char *name, uint64_t min,
                         struct argp_state *state)
{
    uint64_t n = 0;

    if (!stp_parse_u64(arg, strlen(arg), &n) || n < min || n > 1000000)
        argp_error(state, "%s '%s', expected a number from %d to 1000000", name,
                   arg, (int)min);
    return (unsigned)n;
}

static error_t parse_measure(int key, char *arg, struct argp_state *state)
{
    struct stp_measure_options *o = state->input;

    switch (key) {
    case OPT_COLLECTIVES:
        parse_colls(arg, o, state);
        return 0;
    case 'b':
        o->begin = parse_size(arg, "-b", state);
        return 0;
    case 'e':
        o->end = parse_size(arg, "-e", state);
        return 0;
    case 'f':
        if (!stp_parse_double(arg, strlen(arg), &o->factor) || !(o->factor > 1))
            argp_error(state, "-f '%s', expected a number above 1", arg);
        return 0;
    case 'n':
        o->iters = stp_parse_count(arg, "-n", 1, state);
        return 0;
    case 'w':
        o->warmup = stp_parse_count(arg, "-w", 0, state);
        return 0;
    case 'i':
        o->step = parse_size(arg, "-i", state);
        return 0;
    case 'd':
        parse_types(arg, o, state);
        return 0;
    case OPT_ROUNDS:
        o->rounds = stp_parse_count(arg, "--rounds", 1, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp stp_measure_argp = {.options = measure_options,
                                      .parser = parse_measure};

/* ---- how a real machine runs it ---- */

enum { OPT_BACKEND = 0x500, OPT_PROCS };

static const struct argp_option run_options[] = {
    {"backend", OPT_BACKEND, "NAME", 0,
     "What moves the data: nccl on GPUs, gloo or mpi on CPUs (default: nccl)",
     0},
    {"procs", OPT_PROCS, "LIST", 0,
     "Processes, one rank each; several numbers are measured one after the "
     "other (default: this one, unless mpirun, srun or torchrun started it)",
     0},
    {"nthreads", 't', "N", 0,
     "Threads of a process (default: as many as GPUs, with -g 1)", 0},
    {"ngpus", 'g', "N", 0, "GPUs of a thread (default 1)", 0},
    {"cudagraph", 'G', "N", 0,
     "Launch the iterations as a CUDA graph, N times (default 0: no graph)", 0},
    {"timeout", 'T', "SECONDS", 0,
     "Give up on collectives that take longer than this (default: never)", 0},
    {0},
};

static void parse_procs(const char *list, struct stp_run_options *o,
                        struct argp_state *state)
{
    struct stp_field words[STP_MAX_PASSES];
    size_t n = stp_split(list, strlen(list), words, STP_MAX_PASSES);

    if (n > STP_MAX_PASSES)
        argp_error(state, "--procs '%s', expected at most %d numbers", list,
                   STP_MAX_PASSES);
    for (size_t i = 0; i < n && i < STP_MAX_PASSES; i++) {
        uint64_t value = 0;

        if (!stp_parse_u64(words[i].s, words[i].len, &value) || value < 1 ||
            value > STP_MAX_PROCESSES)
            argp_error(state, "--procs '%s', expected numbers from 1 to %d",
                       list, STP_MAX_PROCESSES);
        o->procs[i] = (unsigned)value;
    }
    o->n_procs = (unsigned)n;
}

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
    struct stp_run_options *o = state->input;

    switch (key) {
    case OPT_BACKEND:
        if (strcmp(arg, "nccl") != 0 && strcmp(arg, "gloo") != 0 &&
            strcmp(arg, "mpi") != 0)
            argp_error(state, "--backend '%s', expected nccl, gloo or mpi",
                       arg);
        o->backend = arg;
        return 0;
    case OPT_PROCS:
        parse_procs(arg, o, state);
        return 0;
    case 't':
        o->n_threads = stp_parse_count(arg, "-t", 1, state);
        return 0;
    case 'g':
        o->n_gpus = stp_parse_count(arg, "-g", 1, state);
        return 0;
    case 'G':
        o->graph = stp_parse_count(arg, "-G", 0, state);
        return 0;
    case 'T':
        o->time_limit_s = stp_parse_count(arg, "-T", 0, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp stp_run_argp = {.options = run_options, .parser = parse_run};

/* ---- what becomes a rule ---- */

enum { OPT_MIN_GAIN = 0x400, OPT_PORTABLE };

static const struct argp_option derive_options[] = {
    {"min-gain", OPT_MIN_GAIN, "SHARE", 0,
     "Least gain over NCCL's own choice, with 95 percent confidence, that is "
     "worth a rule (default 2%)",
     0},
    {"portable", OPT_PORTABLE, NULL, 0,
     "Write only the columns that NVIDIA's example tuner reads: no gpu", 0},
    {0},
};

bool stp_parse_share(const char *text, double *share_ret)
{
    size_t len = strlen(text);
    bool percent = len > 0 && text[len - 1] == '%';
    double share;

    if (!stp_parse_double(text, percent ? len - 1 : len, &share))
        return false;
    if (percent)
        share /= 100;
    if (!(share >= 0 && share < 10))
        return false;
    *share_ret = share;
    return true;
}

static error_t parse_derive(int key, char *arg, struct argp_state *state)
{
    struct stp_derive_options *o = state->input;

    switch (key) {
    case OPT_MIN_GAIN:
        if (!stp_parse_share(arg, &o->min_gain))
            argp_error(state, "--min-gain '%s', expected a share such as 2%%",
                       arg);
        return 0;
    case OPT_PORTABLE:
        o->portable = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp stp_derive_argp = {.options = derive_options,
                                     .parser = parse_derive};
