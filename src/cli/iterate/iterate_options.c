/* iterate_options.c - the options of `steptune iterate` */
#include <string.h>

#include "cli/iterate/iterate.h"
#include "core/text.h"

/* ---- what an iteration does ---- */

enum {
    OPT_MODE = 0x600,
    OPT_BYTES,
    OPT_RATIO,
    OPT_GEMM,
    OPT_COMPUTE,
    OPT_LAYERS,
    OPT_PLACE,
};

static const struct argp_option workload_options[] = {
    {"mode", OPT_MODE, "LIST", 0,
     "sequential: compute, then the collectives; overlap: a collective behind "
     "each layer, beside the next ones, as DDP; fsdp: an all-gather ahead of "
     "each layer and a reduce-scatter behind it; all (default overlap)",
     0},
    {"bytes", OPT_BYTES, "LIST", 0,
     "Bytes of a collective, such as 1M,16M (default 16M)", 0},
    {"ratio", OPT_RATIO, "LIST", 0,
     "Compute time of a layer over the time of its collectives as NCCL "
     "chooses, each alone; the matrix product is chosen to fit (default 1)",
     0},
    {"gemm", OPT_GEMM, "M,N,K", 0, "The matrix product, instead of --ratio", 0},
    {"compute", OPT_COMPUTE, "KIND", 0,
     "gemm: a matrix product a layer; training: forward and backward passes of "
     "products and elementwise kernels (default gemm)",
     0},
    {"layers", OPT_LAYERS, "N", 0,
     "Layers of an iteration (default 8; sequential: 1)", 0},
    {"place", OPT_PLACE, "in|out", 0,
     "Where all-reduces put their results (default in, as DDP has it)", 0},
    {0},
};

/* Of words, each at most once; "all" is every one of them. */
static void parse_modes(const char *list, struct stp_workload_options *o,
                        struct argp_state *state)
{
    struct stp_field words[STP_N_MODES];
    size_t n = stp_split(list, strlen(list), words, STP_N_MODES);
    bool seen[STP_N_MODES] = {false};

    o->n_modes = 0;
    for (size_t i = 0; i < n; i++) {
        int mode = -1;

        if (i < STP_N_MODES)
            mode = stp_mode_from_name(words[i].s, words[i].len);
        if (n == 1 && strcmp(list, "all") == 0) {
            for (mode = STP_MODE_SEQUENTIAL; mode < STP_N_MODES; mode++)
                o->modes[o->n_modes++] = mode;
            return;
        }
        if (mode <= STP_MODE_ALONE || seen[mode])
            argp_error(state,
                       "--mode '%s', expected each at most once of sequential, "
                       "overlap and fsdp, or all",
                       list);
        else
            o->modes[o->n_modes++] = mode;
        if (mode >= 0)
            seen[mode] = true;
    }
}

static void parse_bytes(const char *list, struct stp_workload_options *o,
                        struct argp_state *state)
{
    struct stp_field words[STP_MAX_SETTING_SIZES];
    size_t n = stp_split(list, strlen(list), words, STP_MAX_SETTING_SIZES);

    if (n > STP_MAX_SETTING_SIZES)
        argp_error(state, "--bytes '%s', expected at most %d sizes", list,
                   STP_MAX_SETTING_SIZES);
    for (size_t i = 0; i < n && i < STP_MAX_SETTING_SIZES; i++)
        if (!stp_parse_size(words[i].s, words[i].len, &o->bytes[i]) ||
            o->bytes[i] == 0)
            argp_error(state, "--bytes '%s', expected sizes such as 1M,16M",
                       list);
    o->n_bytes = n;
}

static void parse_ratios(const char *list, struct stp_workload_options *o,
                         struct argp_state *state)
{
    struct stp_field words[STP_MAX_SETTING_RATIOS];
    size_t n = stp_split(list, strlen(list), words, STP_MAX_SETTING_RATIOS);

    if (n > STP_MAX_SETTING_RATIOS)
        argp_error(state, "--ratio '%s', expected at most %d ratios", list,
                   STP_MAX_SETTING_RATIOS);
    for (size_t i = 0; i < n && i < STP_MAX_SETTING_RATIOS; i++)
        if (!stp_parse_double(words[i].s, words[i].len, &o->ratios[i]) ||
            !(o->ratios[i] >= 0.001 && o->ratios[i] <= 1000))
            argp_error(state,
                       "--ratio '%s', expected ratios from 0.001 to 1000 such "
                       "as 0.5,1,2",
                       list);
    o->n_ratios = n;
}

static void parse_gemm(const char *arg, struct stp_gemm *gemm,
                       struct argp_state *state)
{
    enum { N_SIDES = 3, MAX_SIDE = 1 << 16 };
    struct stp_field words[N_SIDES];
    unsigned *const sides[N_SIDES] = {&gemm->m, &gemm->n, &gemm->k};
    size_t n = stp_split(arg, strlen(arg), words, N_SIDES);

    for (size_t i = 0; i < N_SIDES; i++) {
        uint64_t side = 0;

        if (n != N_SIDES || !stp_parse_u64(words[i].s, words[i].len, &side) ||
            side < 1 || side > MAX_SIDE)
            argp_error(state,
                       "--gemm '%s', expected three sides from 1 to %d such as "
                       "4096,4096,1024",
                       arg, MAX_SIDE);
        *sides[i] = (unsigned)side;
    }
}

static error_t parse_workload(int key, char *arg, struct argp_state *state)
{
    struct stp_workload_options *o = state->input;

    switch (key) {
    case OPT_MODE:
        parse_modes(arg, o, state);
        return 0;
    case OPT_BYTES:
        parse_bytes(arg, o, state);
        return 0;
    case OPT_RATIO:
        parse_ratios(arg, o, state);
        return 0;
    case OPT_GEMM:
        parse_gemm(arg, &o->gemm, state);
        return 0;
    case OPT_COMPUTE:
        o->compute = stp_compute_from_name(arg, strlen(arg));
        if (o->compute < 0)
            argp_error(state, "--compute '%s', expected gemm or training", arg);
        return 0;
    case OPT_LAYERS:
        o->layers = stp_parse_count(arg, "--layers", 1, state);
        return 0;
    case OPT_PLACE:
        o->out_of_place = strcmp(arg, "out") == 0;
        if (!o->out_of_place && strcmp(arg, "in") != 0)
            argp_error(state, "--place '%s', expected in or out", arg);
        return 0;
    case ARGP_KEY_END:
        if (o->gemm.m != 0 && o->n_ratios > 0)
            argp_error(state, "--gemm and --ratio, expected one of them: the "
                              "ratio chooses the product");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp stp_workload_argp = {.options = workload_options,
                                       .parser = parse_workload};

/* ---- the command ---- */

enum {
    OPT_ARMS = 0x700,
    OPT_CHANNELS,
    OPT_POLICY,
    OPT_PLUGIN,
    OPT_FORCE,
    OPT_REGIMES,
    OPT_MIN_GAIN,
    OPT_ROUNDS,
    OPT_FORMAT,
    OPT_NO_PLOTS,
};

static const struct argp_option options[] = {
    {"arms", OPT_ARMS, "LIST", 0,
     "What to compare with NCCL's own choice: ALGORITHM/PROTOCOL/CHANNELS or a "
     "part of it, all, auto2 for NCCL's own choice once more (default: "
     "auto,auto2,simple,ll128)",
     0},
    {"channels", OPT_CHANNELS, "LIST", 0,
     "Also every such arm with each of these channel counts", 0},
    {"policy", OPT_POLICY, "FILE", 0,
     "Also the arm plugin: our tuner plugin with this policy", 0},
    {"plugin", OPT_PLUGIN, "SO", 0,
     "Also the arm plugin: this tuner plugin, with --policy if that is given",
     0},
    {"iters", 'n', "N", 0,
     "Timed iterations an arm and round (default: up to 20, as many as take "
     "20 ms but at least 5; recorded machines: 20)",
     0},
    {"warmup_iters", 'w', "N", 0, "Untimed ones before them (default 3)", 0},
    {"rounds", OPT_ROUNDS, "N", 0,
     "Interleaved rounds (default: 10; recorded machines: all they have)", 0},
    {"dtype", 'd', "TYPE", 0,
     "Of products and collectives: f32, f16, bf16 or f64 (default bf16; on "
     "CPUs f32)",
     0},
    {"datatype", 'd', NULL, OPTION_ALIAS, NULL, 0},
    {"output", 'o', "FOLDER", 0,
     "Write iteration_times_ARM.txt, rounds.csv, summary.csv, .md and .json, "
     "and plots there",
     0},
    {"force", OPT_FORCE, NULL, 0,
     "Replace the files of an earlier run in that folder", 0},
    {"format", OPT_FORMAT, "png|svg", 0, "Of the plots (default png)", 0},
    {"no-plots", OPT_NO_PLOTS, NULL, 0, "Draw none", 0},
    {"find-regimes", OPT_REGIMES, NULL, 0,
     "Scan sizes, ratios and modes for where the arm that is the fastest alone "
     "does not have the shortest iteration (default: --mode all, --bytes "
     "1M,4M,16M,64M, --ratio 0.5,1,2, and of arms also simple/16 and ll128/16)",
     0},
    {"min-gain", OPT_MIN_GAIN, "SHARE", 0,
     "What a regime must gain at least, with 95 percent confidence (default "
     "1%)",
     0},
    {0},
};

static error_t parse_what(int key, char *arg, struct argp_state *state)
{
    struct stp_iterate_options *o = state->input;

    switch (key) {
    case OPT_ARMS:
        o->arms = arg;
        return 0;
    case OPT_CHANNELS:
        o->channels = arg;
        return 0;
    case OPT_POLICY:
        o->policy = arg;
        return 0;
    case OPT_PLUGIN:
        o->plugin = arg;
        return 0;
    case 'd':
        o->type = stp_type_from_name(arg, strlen(arg));
        if (o->type < 0)
            argp_error(state, "-d '%s', expected f32, f16, bf16 or f64", arg);
        return 0;
    case 'n':
        o->iters = stp_parse_count(arg, "-n", 1, state);
        return 0;
    case 'w':
        o->warmup = stp_parse_count(arg, "-w", 0, state);
        return 0;
    case OPT_ROUNDS:
        o->rounds = stp_parse_count(arg, "--rounds", 1, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_output(int key, char *arg, struct argp_state *state)
{
    struct stp_iterate_options *o = state->input;

    switch (key) {
    case 'o':
        o->output = arg;
        return 0;
    case OPT_FORCE:
        o->force = true;
        return 0;
    case OPT_FORMAT:
        o->format = strcmp(arg, "svg") == 0 ? STP_PLOT_SVG : STP_PLOT_PNG;
        if (strcmp(arg, stp_plot_format_name(o->format)) != 0)
            argp_error(state, "--format '%s', expected png or svg", arg);
        return 0;
    case OPT_NO_PLOTS:
        o->no_plots = true;
        return 0;
    case OPT_REGIMES:
        o->find_regimes = true;
        return 0;
    case OPT_MIN_GAIN:
        if (!stp_parse_share(arg, &o->min_gain))
            argp_error(state, "--min-gain '%s', expected a share such as 2%%",
                       arg);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s', expected options only", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stp_iterate_options *o = state->input;
    error_t result;

    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &o->work;
        state->child_inputs[1] = &o->machine;
        state->child_inputs[2] = &o->run;
        return 0;
    }
    result = parse_what(key, arg, state);
    return result == ARGP_ERR_UNKNOWN ? parse_output(key, arg, state) : result;
}

static const struct argp_child children[] = {
    {&stp_workload_argp, 0, NULL, 0},
    {&stp_machine_argp, 0, NULL, 0},
    {&stp_run_argp, 0, "On a real machine:", 0},
    {0},
};

const struct argp stp_iterate_argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Times training iterations, compute and collectives, with every arm "
           "in interleaved rounds, each paired with NCCL's own choice in the "
           "same round.",
};
