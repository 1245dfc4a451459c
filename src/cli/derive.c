/* derive.c - `steptune derive` */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "analyse/derive.h"
#include "analyse/objective.h"
#include "cli/cli.h"
#include "report/measurements_csv.h"
#include "report/policy_file.h"
#include "report/results.h"

struct options {
    struct stp_derive_options derive;
    enum stp_objective objective;
    const char *output; /* NULL: standard output */
    bool json;
    char **files;
    int n_files;
};

enum { OPT_JSON = 0x300, OPT_OBJECTIVE };

static const struct argp_option options[] = {
    {"output", 'o', "FILE.conf", 0,
     "Write the policy there (default: print it)", 0},
    {"objective", OPT_OBJECTIVE, "WHAT", 0,
     "What to shorten: time (default), of collectives alone, by measurements "
     "of `steptune sweep`; or iteration, of training iterations, by the "
     "rounds.csv of `steptune iterate`",
     0},
    {"json", OPT_JSON, NULL, 0, "Print the rules with their evidence as JSON",
     0},
    {0},
};

static void parse_objective(const char *arg, struct options *o,
                            struct argp_state *state)
{
    int objective = stp_objective_from_name(arg, strlen(arg));

    if (objective < 0)
        argp_error(state, "--objective '%s', expected time or iteration", arg);
    o->objective = (enum stp_objective)objective;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->derive;
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case OPT_OBJECTIVE:
        parse_objective(arg, o, state);
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        o->files = state->argv + state->next;
        o->n_files = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no measurements, expected files of `steptune "
                          "sweep -o`, or rounds.csv of `steptune iterate -o`");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&stp_derive_argp, 0, NULL, 0},
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .args_doc = "FILE.csv...",
    .doc =
        "Makes a policy out of measurements of `steptune sweep` or `steptune "
        "iterate`, several of them pooled. An arm gets a rule where it beats "
        "NCCL's own choice beyond doubt; of iterations, where in addition "
        "no workload shows it slower.",
};

static enum stp_status write_out(const struct options *o,
                                 const struct stp_dataset *data,
                                 const struct stp_derived *derived,
                                 struct stp_error *err)
{
    const struct stp_policy_origin origin = {.data = data,
                                             .made_by = "steptune derive",
                                             .min_gain = o->derive.min_gain,
                                             .portable = o->derive.portable};
    enum stp_status status = STP_OK;

    if (o->output != NULL)
        status = stp_policy_file_save(derived, &origin, o->output, err);
    if (status != STP_OK)
        return status;
    if (o->json)
        return stp_print_rules_json(derived, data, stdout, err);
    if (o->output != NULL) {
        printf("From ");
        stp_times_write(data, stdout);
        putchar('\n');
        return stp_print_rules(derived, stdout, err);
    }
    stp_policy_file_write(derived, &origin, stdout);
    return STP_OK;
}

static enum stp_status derive_selected(const struct options *o,
                                       const struct stp_dataset *data,
                                       struct stp_error *err)
{
    struct stp_comparisons comparisons;
    struct stp_derived derived;
    enum stp_status status =
        stp_objective_compare(data, o->objective, &comparisons, err);

    if (status != STP_OK)
        return status;
    status = stp_derive(&comparisons, o->derive.min_gain, &derived, err);
    if (status == STP_OK) {
        status = write_out(o, data, &derived, err);
        stp_derived_free(&derived);
    }
    stp_comparisons_free(&comparisons);
    return status;
}

static enum stp_status derive(const struct options *o,
                              const struct stp_dataset *data,
                              struct stp_error *err)
{
    struct stp_dataset selected = {0};
    enum stp_status status =
        stp_objective_select(data, o->objective, &selected, err);

    if (status == STP_OK)
        status = derive_selected(o, &selected, err);
    stp_dataset_free(&selected);
    return status;
}

/* Whether this file is among the ones before it, by whatever name: its rounds
 * would count twice. */
static bool is_repeated(char **files, int i)
{
    struct stat a, b;

    if (stat(files[i], &a) != 0)
        return false; /* reading it will say why */
    for (int j = 0; j < i; j++)
        if (stat(files[j], &b) == 0 && a.st_dev == b.st_dev &&
            a.st_ino == b.st_ino)
            return true;
    return false;
}

static int load(const char *command, char **files, int n_files,
                struct stp_dataset *data)
{
    struct stp_error err;

    for (int i = 0; i < n_files; i++) {
        if (is_repeated(files, i))
            return stp_complain(command,
                                "%s: given twice, its rounds would count twice",
                                files[i]);
        if (stp_measurements_load(files[i], data, &err) != STP_OK)
            return stp_complain_error(command, files[i], &err);
    }
    return STP_EXIT_OK;
}

int stp_cmd_derive(int argc, char **argv)
{
    struct options o = {0};
    struct stp_dataset data = {0};
    struct stp_error err;
    int exit_status;

    stp_options_default(NULL, NULL, &o.derive);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    exit_status = load(argv[0], o.files, o.n_files, &data);
    if (exit_status == STP_EXIT_OK && derive(&o, &data, &err) != STP_OK)
        exit_status = stp_complain_error(argv[0], NULL, &err);
    stp_dataset_free(&data);
    return exit_status;
}
