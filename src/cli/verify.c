/* verify.c - `steptune verify` */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "launch/stop.h"
#include "report/measurements/measurements_csv.h"
#include "report/results/results.h"
#include "tune/trial.h"

struct verify_options {
    struct stp_machine_options machine;
    struct stp_measure_options measure;
    struct stp_workload_options work;
    bool iterates;
    bool proof;
    struct stp_arguments arguments;
    const char *policy;
};

enum { WARMUP = 3 };

#define AT(member) offsetof(struct verify_options, member)

static const struct stp_option verify_table[] = {
    {"iterate", 0, NULL, stp_option_flag, AT(iterates),
     .help = "Compare training iterations instead of collectives alone "
             "(default: all modes, 1M to 64M, ratios 0.5, 1 and 2)"},
    {"proof", 0, NULL, stp_option_flag, AT(proof),
     .help = "Write the verdicts and measurements beside the policy, as "
             "POLICY.verified.txt and .csv"},
    {0},
};

static void verify_check_options(void *options, struct argp_state *state)
{
    struct verify_options *o = options;
    const struct stp_workload_options *w = &o->work;

    o->policy = o->arguments.v[0];
    if (!o->iterates &&
        (w->n_modes > 0 || w->n_bytes > 0 || w->n_ratios > 0 ||
         w->n_sides > 0 || w->layers > 0 || w->compute != STP_COMPUTE_GEMM))
        argp_error(state, "options of iterations, expected --iterate with "
                          "them");
    if (o->iterates &&
        (stp_measure_has_sizes(&o->measure) || o->measure.n_colls > 0))
        argp_error(state, "sizes of collectives, expected --bytes with "
                          "--iterate");
    if (w->n_sides > 0 && w->n_ratios > 0)
        argp_error(state, STP_GEMM_AND_RATIO);
}

static const struct stp_command_line verify_line = {
    .groups =
        (const struct stp_option_group[]){
            {.options = verify_table},
            {.options = stp_measure_table, .at = AT(measure)},
            {.options = stp_machine_table, .at = AT(machine)},
            {stp_workload_table, AT(work), "With --iterate:"},
            {0}},
    .args_doc = "POLICY",
    .arguments = AT(arguments),
    .one = "policy",
    .none = STP_NO_POLICY,
    .check = verify_check_options,
    .doc = "Compares a policy, loaded by the tuner plugin, with NCCL's own "
           "choice: in interleaved rounds, at every size that is known or "
           "asked for, halfway between those, and at both sides of every range "
           "end; with --iterate by the time of training iterations. Exit "
           "status 1 if it is slower anywhere beyond noise.",
};

/* Writes the verdicts and the measurements that they rest on. */
static enum stp_status verify_write_proof(
    const struct verify_options *o, const struct stp_device_info *info,
    const struct stp_dataset *data, const struct stp_comparisons *comparisons,
    struct stp_error *err)
{
    char path[STP_CLI_PATH];
    enum stp_status status = stp_trial_prove(o->policy, info, comparisons, err);

    if (status != STP_OK)
        return status;
    snprintf(path, sizeof(path), "%s.verified.csv", o->policy);
    return stp_measurements_save(data, info->what, path, err);
}

static enum stp_status verify_report(const struct verify_options *o,
                                     const struct stp_device *device,
                                     const struct stp_dataset *data,
                                     const struct stp_comparisons *comparisons,
                                     struct stp_error *err)
{
    struct stp_device_info info;
    enum stp_status status;

    stp_device_get_info(device, &info);
    status = o->machine.json
                 ? stp_print_verdicts_json(&info, comparisons, stdout, err)
                 : stp_trial_print(o->policy, &info, comparisons, stdout, err);
    if (status == STP_OK && o->proof)
        status = verify_write_proof(o, &info, data, comparisons, err);
    return status;
}

static enum stp_status
verify_measure_sizes(const struct verify_options *o,
                     const struct stp_device *device, struct stp_dataset *data,
                     struct stp_comparisons *comparisons_ret,
                     struct stp_error *err)
{
    struct stp_measure_plan plan;
    enum stp_status status =
        stp_plan_measurements(device, &o->measure, &stp_trial_arms, &plan, err);

    if (status == STP_OK)
        status = stp_trial_add_unseen(device, o->policy, &plan, err);
    if (status == STP_OK)
        status =
            stp_sweep_run(device, &plan.plan, stp_progress, NULL, data, err);
    return status == STP_OK ? stp_compare(data, comparisons_ret, err) : status;
}

/* The dataset is moved out of the iterations; their samples are not used. */
static enum stp_status verify_measure_iterations(
    const struct verify_options *o, const struct stp_device *device,
    struct stp_dataset *data, struct stp_comparisons *comparisons_ret,
    struct stp_error *err)
{
    static char turns[] = "turns";
    struct stp_workload_plan plan = {.plan = {.type = o->measure.types[0],
                                              .iters = o->measure.iters,
                                              .rounds = o->measure.rounds,
                                              .warmup = WARMUP}};
    struct stp_iterations out = {0};
    struct stp_device_info info;
    enum stp_status status;

    stp_device_get_info(device, &info);
    status = stp_plan_iterations(&info, &o->work, true, &plan, err);
    plan.plan.arms = &stp_trial_arms;
    if (status == STP_OK)
        status =
            stp_iterate_run(device, &plan.plan, stp_progress, turns, &out, err);
    free(out.sample_us);
    *data = out.data;
    return status == STP_OK ? stp_compare(data, comparisons_ret, err) : status;
}

static int verify_on_device(const struct verify_options *o, const char *command,
                            const struct stp_device *device)
{
    struct stp_dataset data = {0};
    struct stp_comparisons comparisons = {0};
    struct stp_verdict_count count = {0};
    struct stp_error err;
    enum stp_status status;

    stp_stop_begin();
    status =
        o->iterates
            ? verify_measure_iterations(o, device, &data, &comparisons, &err)
            : verify_measure_sizes(o, device, &data, &comparisons, &err);
    if (status == STP_OK) {
        count = stp_count_verdicts(&comparisons);
        status = verify_report(o, device, &data, &comparisons, &err);
    }
    stp_comparisons_free(&comparisons);
    stp_dataset_free(&data);
    if (status != STP_OK)
        return stp_complain_error(command, NULL, &err);
    return count.n_slower == 0 ? STP_EXIT_OK : STP_EXIT_FAILED;
}

/* Opens the device with our static plugin, which reads the policy in the
 * environment of a job.  Complains and returns the exit status. */
static int verify_open(const char *command, const struct verify_options *o,
                       struct stp_device *device_ret)
{
    char plugin[STP_CLI_PATH];
    struct stp_policy *policy;
    struct stp_device alone;
    struct stp_device_info info;
    struct stp_error err;
    int exit_status;

    if (stp_policy_load(o->policy, &policy, &err) != STP_OK)
        return stp_complain_error(command, o->policy, &err);
    stp_policy_free(policy);
    if (stp_find_plugin("steptune", plugin, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    exit_status = stp_open_device(command, &o->machine, NULL, &alone);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    stp_device_get_info(&alone, &info);
    stp_device_close(&alone);
    if (stp_trial_environment(o->policy, info.gpu, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    return stp_open_device(command, &o->machine, plugin, device_ret);
}

int stp_cmd_verify(int argc, char **argv)
{
    struct verify_options o = {0};
    struct stp_device device;
    int exit_status;

    stp_options_read(&verify_line, argc, argv, &o);
    o.machine.max_bytes = o.iterates ? stp_workload_max_bytes(&o.work, true)
                                     : stp_max_bytes(&o.measure);
    exit_status = stp_choose_type(argv[0], &o.measure);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    exit_status = verify_open(argv[0], &o, &device);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    exit_status = verify_on_device(&o, argv[0], &device);
    stp_device_close(&device);
    return exit_status;
}
