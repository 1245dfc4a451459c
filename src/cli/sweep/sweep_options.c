/* sweep_options.c - the options of `steptune sweep` */
#include <string.h>

#include "bench/sweep.h"
#include "cli/sweep/sweep.h"

enum { OPT_ARMS = 0x300, OPT_CHANNELS, OPT_PLACE, OPT_OUTPUT, OPT_FORMAT };

static const struct argp_option options[] = {
    {"arms", OPT_ARMS, "LIST", 0,
     "What to compare with NCCL's own choice: all, auto, "
     "ALGORITHM/PROTOCOL[/CHANNELS], ... (default all; auto where nothing can "
     "be forced)",
     0},
    {"channels", OPT_CHANNELS, "LIST", 0,
     "Also every such arm with each of these channel counts", 0},
    {"op", 'o', "OP", 0,
     "Reduction: sum, prod, min, max, avg or all of them (default sum); as -o, "
     "anything else names the file of --output",
     0},
    {"root", 'r', "RANK", 0, "Of broadcasts and reduces (default 0)", 0},
    {"check", 'c', "0|1", 0,
     "Check every element of each arm's result at each size (default 1)", 0},
    {"place", OPT_PLACE, "out|in|both", 0,
     "Where the arms' results go; NCCL's own choice is measured in both on a "
     "real machine (default out)",
     0},
    {"output", OPT_OUTPUT, "FILE", 0,
     "Save every measurement, after every size: JSON if it ends in .json, else "
     "CSV",
     0},
    {"format", OPT_FORMAT, "FORMAT", 0,
     "Of what is printed: nccl, as all_reduce_perf prints it, table, csv or "
     "json (default nccl, then the table; recorded machines: table)",
     0},
    {0},
};

static unsigned parse_place(const char *arg, struct argp_state *state)
{
    static const struct {
        const char *word;
        unsigned places;
    } words[] = {{"out", STP_OUT_OF_PLACE},
                 {"in", STP_IN_PLACE},
                 {"both", STP_OUT_OF_PLACE | STP_IN_PLACE}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(arg, words[i].word) == 0)
            return words[i].places;
    argp_error(state, "--place '%s', expected out, in or both", arg);
    return 0;
}

static void parse_format(const char *arg, struct stp_sweep_options *o,
                         struct argp_state *state)
{
    static const struct {
        const char *word;
        enum stp_sweep_format format;
    } words[] = {{"nccl", STP_FORMAT_NCCL},
                 {"table", STP_FORMAT_TABLE},
                 {"csv", STP_FORMAT_CSV}};

    o->machine.json = strcmp(arg, "json") == 0;
    if (o->machine.json)
        return;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(arg, words[i].word) == 0) {
            o->format = words[i].format;
            return;
        }
    argp_error(state, "--format '%s', expected nccl, table, csv or json", arg);
}

/* "all", or one. */
static bool parse_ops(const char *arg, struct stp_sweep_options *o)
{
    int op = stp_op_from_name(arg, strlen(arg));
    bool all = strcmp(arg, "all") == 0;

    if (!all && (op < 0 || op >= STP_N_OPS))
        return false;
    o->n_ops = all ? STP_N_OPS : 1;
    for (int i = 0; i < (int)o->n_ops; i++)
        o->ops[i] = all ? i : op;
    return true;
}

static void parse_o(const char *arg, struct stp_sweep_options *o,
                    struct argp_state *state)
{
    if (parse_ops(arg, o))
        return;
    if (strchr(arg, '.') == NULL && strchr(arg, '/') == NULL)
        argp_error(state,
                   "-o '%s', expected sum, prod, min, max, avg or all, or a "
                   "file's name with a dot in it",
                   arg);
    o->output = arg;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stp_sweep_options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->measure;
        state->child_inputs[1] = &o->machine;
        state->child_inputs[2] = &o->run;
        return 0;
    case OPT_ARMS:
        o->arms = arg;
        return 0;
    case OPT_CHANNELS:
        o->channels = arg;
        return 0;
    case 'o':
        parse_o(arg, o, state);
        return 0;
    case 'r':
        o->measure.root = stp_parse_count(arg, "-r", 0, state);
        return 0;
    case 'c':
        o->check = stp_parse_count(arg, "-c", 0, state);
        return 0;
    case OPT_PLACE:
        o->arm_places = parse_place(arg, state);
        return 0;
    case OPT_OUTPUT:
        o->output = arg;
        return 0;
    case OPT_FORMAT:
        parse_format(arg, o, state);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s', expected options only", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&stp_measure_argp, 0, NULL, 0},
    {&stp_machine_argp, 0, NULL, 0},
    {&stp_run_argp, 0, "On a real machine:", 0},
    {0},
};

const struct argp stp_sweep_argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Times collectives: every size with every arm, in interleaved "
           "rounds.",
};
