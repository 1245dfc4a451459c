/* tune_options.c - the options of `steptune tune` */
#include <string.h>

#include "cli/tune/tune.h"
#include "core/text.h"

enum { OPT_RANKS = 0x300, OPT_RESOLUTION, OPT_NO_ITERATE, OPT_FRESH };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0,
     "Where the policy goes (default steptune.conf); FILE.overlap, report and "
     "measurements go beside it",
     0},
    {"ranks", OPT_RANKS, "LIST", 0,
     "Communicators of so many ranks, such as 2,4,8 for groups of tensor "
     "parallelism: the first GPUs, or recorded machines of the same name with "
     "that number at its end (default: all ranks)",
     0},
    {"resolution", OPT_RESOLUTION, "F", 0,
     "Where decisions change, measure sizes until they are within this factor "
     "of each other (default 1.4)",
     0},
    {"no-iterate", OPT_NO_ITERATE, NULL, 0,
     "Make no policy for collectives beside compute", 0},
    {"fresh", OPT_FRESH, NULL, 0,
     "Begin anew, also where a run was interrupted", 0},
    {0},
};

static void parse_ranks(const char *list, struct stp_tune_options *o,
                        struct argp_state *state)
{
    struct stp_field words[STP_MAX_PASSES];
    size_t n = stp_split(list, strlen(list), words, STP_MAX_PASSES);
    uint64_t last = 1;

    o->n_passes = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t value = 0;

        if (i == STP_MAX_PASSES ||
            !stp_parse_u64(words[i].s, words[i].len, &value) || value <= last ||
            value > STP_MAX_PROCESSES)
            argp_error(state,
                       "--ranks '%s', expected at most %d ascending numbers "
                       "from 2, such as 2,4,8",
                       list, STP_MAX_PASSES);
        o->ranks[o->n_passes++] = (unsigned)value;
        last = value;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stp_tune_options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->measure;
        state->child_inputs[1] = &o->derive;
        state->child_inputs[2] = &o->machine;
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case OPT_RANKS:
        parse_ranks(arg, o, state);
        return 0;
    case OPT_RESOLUTION:
        if (!stp_parse_double(arg, strlen(arg), &o->resolution) ||
            !(o->resolution >= 1.05))
            argp_error(state, "--resolution '%s', expected a factor from 1.05",
                       arg);
        return 0;
    case OPT_NO_ITERATE:
        o->no_iterate = true;
        return 0;
    case OPT_FRESH:
        o->fresh = true;
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
    {&stp_derive_argp, 0, NULL, 0},
    {&stp_machine_argp, 0, NULL, 0},
    {0},
};

const struct argp stp_tune_argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Measures every arm on a coarse grid of sizes (by factors of 4) and "
           "more sizes where decisions change, and training iterations with "
           "the best; derives a policy for collectives alone and one for "
           "those beside compute, loads them with the tuner plugin and "
           "verifies them against NCCL's own choice, at the sizes measured and "
           "between them. Started again after an interruption, it goes on "
           "where it was.",
};
