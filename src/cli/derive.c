/* derive.c - `steptune derive` */
#include <stdio.h>
#include <string.h>

#include "analyse/derive.h"
#include "cli/cli.h"
#include "report/measurements_csv.h"
#include "report/policy_file.h"
#include "report/results.h"

struct options {
    double min_gain;
    const char *output; /* NULL: standard output */
    bool portable;
    bool json;
    char **files;
    int n_files;
};

enum { OPT_MIN_GAIN = 0x300, OPT_PORTABLE, OPT_JSON };

static const struct argp_option options[] = {
    {"min-gain", OPT_MIN_GAIN, "SHARE", 0,
     "Least gain over NCCL's own choice, with 95 percent confidence, that is "
     "worth a rule (default 2%)",
     0},
    {"output", 'o', "FILE.conf", 0,
     "Write the policy there (default: print it)", 0},
    {"portable", OPT_PORTABLE, NULL, 0,
     "Only the columns that NVIDIA's example tuner reads", 0},
    {"json", OPT_JSON, NULL, 0, "Print the rules with their evidence as JSON",
     0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case OPT_MIN_GAIN:
        if (!stp_parse_share(arg, &o->min_gain))
            argp_error(state, "--min-gain '%s', expected a share such as 2%%",
                       arg);
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case OPT_PORTABLE:
        o->portable = true;
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
                          "sweep -o`");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE.csv...",
    .doc = "Makes a policy out of measurements of `steptune sweep`, several of "
           "them pooled.  An arm gets a rule where it beats NCCL's own choice "
           "beyond doubt.",
};

static enum stp_status write_out(const struct options *o,
                                 const struct stp_dataset *data,
                                 const struct stp_derived *derived,
                                 struct stp_error *err)
{
    const struct stp_policy_origin origin = {.data = data,
                                             .made_by = "steptune derive",
                                             .min_gain = o->min_gain,
                                             .portable = o->portable};
    enum stp_status status = STP_OK;

    if (o->output != NULL)
        status = stp_policy_file_save(derived, &origin, o->output, err);
    if (status != STP_OK)
        return status;
    if (o->json)
        return stp_print_rules_json(derived, stdout, err);
    if (o->output != NULL)
        return stp_print_rules(derived, stdout, err);
    stp_policy_file_write(derived, &origin, stdout);
    return STP_OK;
}

static enum stp_status derive(const struct options *o,
                              const struct stp_dataset *data,
                              struct stp_error *err)
{
    struct stp_comparisons comparisons;
    struct stp_derived derived;
    enum stp_status status = stp_compare(data, &comparisons, err);

    if (status != STP_OK)
        return status;
    status = stp_derive(&comparisons, o->min_gain, &derived, err);
    if (status == STP_OK) {
        status = write_out(o, data, &derived, err);
        stp_derived_free(&derived);
    }
    stp_comparisons_free(&comparisons);
    return status;
}

int stp_cmd_derive(int argc, char **argv)
{
    struct options o = {.min_gain = 0.02};
    struct stp_dataset data = {0};
    struct stp_error err;
    int exit_status = STP_EXIT_OK;

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    for (int i = 0; i < o.n_files && exit_status == STP_EXIT_OK; i++)
        if (stp_measurements_load(o.files[i], &data, &err) != STP_OK)
            exit_status = stp_complain_error(argv[0], o.files[i], &err);
    if (exit_status == STP_EXIT_OK && derive(&o, &data, &err) != STP_OK)
        exit_status = stp_complain_error(argv[0], NULL, &err);
    stp_dataset_free(&data);
    return exit_status;
}
