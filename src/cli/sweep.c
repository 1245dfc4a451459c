/* sweep.c - `steptune sweep` */
#include <stdio.h>
#include <string.h>

#include "analyse/compare.h"
#include "cli/cli.h"
#include "report/measurements_csv.h"
#include "report/results.h"

struct options {
    struct stp_machine_options machine;
    struct stp_measure_options measure;
    const char *arms;
    const char *channels;
    const char *output;
};

enum { OPT_ARMS = 0x300, OPT_CHANNELS };

static const struct argp_option options[] = {
    {"arms", OPT_ARMS, "LIST", 0,
     "What to compare with NCCL's own choice: all, auto, "
     "ALGORITHM/PROTOCOL[/CHANNELS], ... (default all)",
     0},
    {"channels", OPT_CHANNELS, "LIST", 0,
     "Also every such arm with each of these channel counts", 0},
    {"output", 'o', "FILE.csv", 0, "Save every measurement", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->measure;
        state->child_inputs[1] = &o->machine;
        return 0;
    case OPT_ARMS:
        o->arms = arg;
        return 0;
    case OPT_CHANNELS:
        o->channels = arg;
        return 0;
    case 'o':
        o->output = arg;
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
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Times collectives: every size with every arm, in interleaved "
           "rounds.",
};

static enum stp_status report(const struct options *o,
                              const struct stp_dataset *data,
                              const struct stp_device_info *info,
                              struct stp_error *err)
{
    struct stp_comparisons comparisons;
    enum stp_status status = STP_OK;

    if (o->output != NULL)
        status = stp_measurements_save(data, info->what, o->output, err);
    if (status != STP_OK)
        return status;
    if (o->machine.json)
        return stp_print_sweep_json(data, stdout, err);
    status = stp_compare(data, &comparisons, err);
    if (status != STP_OK)
        return status;
    printf("%s\n\n", info->what);
    status = stp_print_sweep(&comparisons, stdout, err);
    stp_comparisons_free(&comparisons);
    return status;
}

static enum stp_status sweep(const struct options *o,
                             const struct stp_device *device,
                             const struct stp_arms *arms, struct stp_error *err)
{
    struct stp_dataset data = {0};
    struct stp_cli_plan plan;
    struct stp_device_info info;
    struct stp_error later;
    enum stp_status status =
        stp_make_plan(device, &o->measure, arms, &plan, err);

    if (status != STP_OK)
        return status;
    device->ops->info(device->self, &info);
    stp_progress_begin();
    status = stp_sweep_run(device, &plan.plan, stp_progress, NULL, &data, err);
    /* What was measured is worth keeping, however the rest ended. */
    if (report(o, &data, &info, status == STP_OK ? err : &later) != STP_OK &&
        status == STP_OK)
        status = STP_ERR_IO;
    stp_dataset_free(&data);
    return status;
}

static int read_arms(const struct options *o, struct stp_arms *arms)
{
    struct stp_error err;

    if (stp_arms_parse(o->arms, arms, &err) == STP_OK &&
        (o->channels == NULL ||
         stp_arms_add_channels(arms, o->channels, &err) == STP_OK))
        return STP_EXIT_OK;
    stp_complain_error("steptune sweep", NULL, &err);
    return STP_EXIT_USAGE;
}

int stp_cmd_sweep(int argc, char **argv)
{
    struct options o = {.arms = "all"};
    struct stp_arms arms;
    struct stp_device device;
    struct stp_error err;
    enum stp_status status;
    int exit_status;

    stp_options_default(&o.machine, &o.measure, NULL);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    exit_status = read_arms(&o, &arms);
    if (exit_status == STP_EXIT_OK)
        exit_status = stp_open_device(argv[0], &o.machine, NULL, &device);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    status = sweep(&o, &device, &arms, &err);
    device.ops->close(device.self);
    return status == STP_OK ? STP_EXIT_OK
                            : stp_complain_error(argv[0], NULL, &err);
}
