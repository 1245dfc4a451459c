/* verify.c - `steptune verify` */
#include <stdio.h>
#include <stdlib.h>

#include "analyse/verify.h"
#include "cli/cli.h"
#include "cli/iterate/iterate.h"
#include "cli/trial.h"
#include "launch/stop.h"
#include "report/measurements/measurements_csv.h"
#include "report/results/results.h"

struct options {
    struct stp_machine_options machine;
    struct stp_measure_options measure;
    struct stp_workload_options work;
    bool iterates;
    bool proof;
    const char *policy;
};

enum { OPT_ITERATE = 0x300, OPT_PROOF, WARMUP = 3 };

static const struct argp_option options[] = {
    {"iterate", OPT_ITERATE, NULL, 0,
     "Compare training iterations instead of collectives alone (default: all "
     "modes, 1M to 64M, ratios 0.5, 1 and 2)",
     0},
    {"proof", OPT_PROOF, NULL, 0,
     "Write what was found and measured beside the policy, "
     "POLICY.verified.txt and .csv",
     0},
    {0},
};

static bool has_workload(const struct stp_workload_options *w)
{
    return w->n_modes > 0 || w->n_bytes > 0 || w->n_ratios > 0 ||
           w->gemm.m > 0 || w->layers > 0 || w->compute != STP_COMPUTE_GEMM;
}

static bool has_sizes(const struct stp_measure_options *m)
{
    return m->begin > 0 || m->end > 0 || m->factor > 0 || m->step > 0 ||
           m->n_colls > 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->measure;
        state->child_inputs[1] = &o->machine;
        state->child_inputs[2] = &o->work;
        return 0;
    case OPT_ITERATE:
        o->iterates = true;
        return 0;
    case OPT_PROOF:
        o->proof = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->policy != NULL)
            argp_error(state, "'%s', expected one policy", arg);
        o->policy = arg;
        return 0;
    case ARGP_KEY_END:
        if (o->policy == NULL)
            argp_error(state, "no policy, expected a file such as "
                              "steptune.conf");
        if (!o->iterates && has_workload(&o->work))
            argp_error(state, "options of iterations, expected --iterate with "
                              "them");
        if (o->iterates && has_sizes(&o->measure))
            argp_error(state, "sizes of collectives, expected --bytes with "
                              "--iterate");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&stp_measure_argp, 0, NULL, 0},
    {&stp_machine_argp, 0, NULL, 0},
    {&stp_workload_argp, 0, "With --iterate:", 0},
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .args_doc = "POLICY",
    .doc = "Compares a policy, loaded by the tuner plugin, with NCCL's own "
           "choice: in interleaved rounds, at every size that is known or "
           "asked for, halfway between those, and at both sides of every range "
           "end; with --iterate by the time of training iterations. Exit "
           "status 1 if it is slower anywhere beyond noise.",
};

/* What was found, and what that rests on. */
static enum stp_status prove(const struct options *o,
                             const struct stp_device_info *info,
                             const struct stp_dataset *data,
                             const struct stp_comparisons *comparisons,
                             struct stp_error *err)
{
    char path[STP_CLI_PATH];
    enum stp_status status = stp_trial_prove(o->policy, info, comparisons, err);

    if (status != STP_OK)
        return status;
    snprintf(path, sizeof(path), "%s.verified.csv", o->policy);
    return stp_measurements_save(data, info->what, path, err);
}

static enum stp_status report(const struct options *o,
                              const struct stp_device *device,
                              const struct stp_dataset *data,
                              const struct stp_comparisons *comparisons,
                              struct stp_error *err)
{
    struct stp_device_info info;
    enum stp_status status;

    device->ops->info(device->self, &info);
    status = o->machine.json
                 ? stp_print_verdicts_json(&info, comparisons, stdout, err)
                 : stp_trial_print(o->policy, &info, comparisons, stdout, err);
    if (status == STP_OK && o->proof)
        status = prove(o, &info, data, comparisons, err);
    return status;
}

static enum stp_status measure_sizes(const struct options *o,
                                     const struct stp_device *device,
                                     struct stp_dataset *data,
                                     struct stp_comparisons *comparisons_ret,
                                     struct stp_error *err)
{
    struct stp_cli_plan plan;
    enum stp_status status =
        stp_make_plan(device, &o->measure, NULL, &plan, err);

    if (status == STP_OK)
        status = stp_trial_add_unseen(device, o->policy, &plan, err);
    if (status == STP_OK)
        status = stp_trial_run(device, &plan.plan, data, comparisons_ret, err);
    return status;
}

/* The dataset is moved out of the iterations, whose samples nobody needs. */
static enum stp_status
measure_iterations(const struct options *o, const struct stp_device *device,
                   struct stp_dataset *data,
                   struct stp_comparisons *comparisons_ret,
                   struct stp_error *err)
{
    static const struct stp_arms arms = {
        .arm = {{.kind = STP_ARM_AUTO}, {.kind = STP_ARM_PLUGIN}}, .n = 2};
    static char turns[] = "turns";
    struct stp_iterate_cli_plan plan = {.plan = {.type = o->measure.type,
                                                 .iters = o->measure.iters,
                                                 .rounds = o->measure.rounds,
                                                 .warmup = WARMUP}};
    struct stp_iterations out = {0};
    struct stp_device_info info;
    enum stp_status status;

    device->ops->info(device->self, &info);
    status = stp_plan_iterations(&info, &o->work, true, &plan, err);
    plan.plan.arms = &arms;
    if (status == STP_OK)
        status =
            stp_iterate_run(device, &plan.plan, stp_progress, turns, &out, err);
    free(out.sample_us);
    *data = out.data;
    return status == STP_OK ? stp_compare(data, comparisons_ret, err) : status;
}

static int verify(const struct options *o, const char *command,
                  const struct stp_device *device)
{
    struct stp_dataset data = {0};
    struct stp_comparisons comparisons = {0};
    struct stp_verdict_count count = {0};
    struct stp_error err;
    enum stp_status status;

    stp_stop_begin();
    status = o->iterates
                 ? measure_iterations(o, device, &data, &comparisons, &err)
                 : measure_sizes(o, device, &data, &comparisons, &err);
    if (status == STP_OK) {
        count = stp_count_verdicts(&comparisons);
        status = report(o, device, &data, &comparisons, &err);
    }
    stp_comparisons_free(&comparisons);
    stp_dataset_free(&data);
    if (status != STP_OK)
        return stp_complain_error(command, NULL, &err);
    return count.n_slower == 0 ? STP_EXIT_OK : STP_EXIT_FAILED;
}

int stp_cmd_verify(int argc, char **argv)
{
    struct options o = {0};
    struct stp_device device;
    int exit_status;

    stp_options_default(&o.machine, &o.measure, NULL);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    o.machine.max_bytes = o.iterates ? stp_workload_max_bytes(&o.work, true)
                                     : stp_max_bytes(&o.measure);
    if (o.measure.type < 0)
        o.measure.type = STP_TYPE_BF16; /* as training has it */
    if (o.measure.n_types > 1) {
        stp_complain(argv[0], "-d all, expected one type");
        return STP_EXIT_USAGE;
    }
    exit_status = stp_trial_open(argv[0], o.policy, &o.machine, &device);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    exit_status = verify(&o, argv[0], &device);
    device.ops->close(device.self);
    return exit_status;
}
