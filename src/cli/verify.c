/* verify.c - `steptune verify` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "launch/stop.h"
#include "report/measurements/measurements_csv.h"
#include "report/policy_file.h"
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
    char chosen[STP_CLI_PATH]; /* what "policy" points to */
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

    if (o->arguments.n == 0 && !stp_has_policy())
        argp_error(state, STP_NO_POLICY " or NCCL_TUNER_CONFIG_FILE");
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
    .args_doc = "[POLICY]",
    .arguments = AT(arguments),
    .one = "policy",
    .check = verify_check_options,
    .doc = "Compares a policy (default: the one that the plugin takes in this "
           "environment), loaded by the tuner plugin, with NCCL's own "
           "choice: in interleaved rounds, at every size that is known or "
           "asked for, halfway between those, and at both sides of every range "
           "end; with --iterate by the time of training iterations. Exit "
           "status 1 if it is slower anywhere beyond noise (where times come "
           "from NCCL's cost model in one round: slower by the model), or if "
           "none of its rules decides anything there.",
};

/* A policy on a device. */
struct verify {
    const struct verify_options *o;
    struct stp_device device;
    struct stp_device_info info;
    struct stp_dataset data;
    struct stp_comparisons verdicts;
    char hash[STP_POLICY_HASH_NAME];
    struct stp_error *err;
};

/* Writes the verdicts and the measurements that they rest on. */
static enum stp_status verify_write_proof(const struct verify *v)
{
    char path[STP_CLI_PATH];
    enum stp_status status =
        stp_trial_prove(v->o->policy, &v->info, &v->data, &v->verdicts, v->err);

    if (status != STP_OK)
        return status;
    snprintf(path, sizeof(path), "%s" STP_POLICY_PROOF_CSV, v->o->policy);
    return stp_measurements_save(&v->data, v->info.what, path, v->err);
}

static enum stp_status verify_report(const struct verify *v)
{
    enum stp_status status =
        v->o->machine.json
            ? stp_print_verdicts_json(&v->info, v->hash, &v->verdicts, stdout,
                                      v->err)
            : stp_trial_print(v->o->policy, &v->info, &v->verdicts, stdout,
                              v->err);

    return status == STP_OK && v->o->proof ? verify_write_proof(v) : status;
}

static enum stp_status verify_measure_sizes(struct verify *v)
{
    struct stp_measure_plan plan;
    enum stp_status status = stp_plan_measurements(
        &v->device, &v->o->measure, &stp_trial_arms, &plan, v->err);

    if (status == STP_OK)
        status = stp_trial_add_unseen(&v->device, v->o->policy, &plan, v->err);
    if (status == STP_OK)
        status = stp_sweep_run(&v->device, &plan.plan, stp_progress, NULL,
                               &v->data, v->err);
    return status;
}

/* The dataset is moved out of the iterations; their samples are not used. */
static enum stp_status verify_measure_iterations(struct verify *v)
{
    static char turns[] = "turns";
    struct stp_workload_plan plan = {.plan = {.type = v->o->measure.types[0],
                                              .iters = v->o->measure.iters,
                                              .rounds = v->o->measure.rounds,
                                              .warmup = WARMUP}};
    struct stp_iterations out = {0};
    enum stp_status status =
        stp_plan_iterations(&v->info, &v->o->work, true, &plan, v->err);

    plan.plan.arms = &stp_trial_arms;
    if (status == STP_OK)
        status = stp_iterate_run(&v->device, &plan.plan, stp_progress, turns,
                                 &out, v->err);
    free(out.sample_us);
    v->data = out.data;
    return status;
}

static enum stp_status verify_measure(struct verify *v)
{
    enum stp_status status;

    stp_stop_begin();
    status =
        v->o->iterates ? verify_measure_iterations(v) : verify_measure_sizes(v);
    memcpy(v->data.policy_hash, v->hash, sizeof(v->hash));
    if (status == STP_OK)
        status = stp_compare(&v->data, &v->verdicts, v->err);
    if (status == STP_OK)
        status = verify_report(v);
    return status == STP_OK ? stp_trial_require_decisions(
                                  v->o->policy, &v->info, &v->verdicts, v->err)
                            : status;
}

/* Opens the device with our static plugin, which reads the policy in the
 * environment of a job. */
static enum stp_status verify_open(struct verify *v)
{
    const struct verify_options *o = v->o;
    char plugin[STP_CLI_PATH];
    struct stp_open_options open = {
        .machine = &o->machine,
        .max_bytes = o->iterates ? stp_workload_max_bytes(&o->work, true)
                                 : stp_max_bytes(&o->measure)};
    enum stp_status status = stp_find_plugin("steptune", plugin, v->err);

    if (status == STP_OK)
        status = stp_open(&open, &v->device, v->err);
    if (status != STP_OK)
        return status;
    stp_device_get_info(&v->device, &v->info);
    stp_device_close(&v->device);
    open.plugin = plugin;
    status = stp_trial_require_rules(o->policy, &v->info, v->err);
    if (status == STP_OK)
        status = stp_trial_environment(o->policy, v->info.gpu, v->err);
    return status == STP_OK ? stp_open(&open, &v->device, v->err) : status;
}

int stp_cmd_verify(int argc, char **argv)
{
    struct verify_options o = {0};
    struct stp_error err;
    struct verify v = {.o = &o, .err = &err};
    enum stp_status status;
    size_t n_slower;

    stp_options_read(&verify_line, argc, argv, &o);
    if (stp_choose_type(&o.measure) != STP_EXIT_OK)
        return STP_EXIT_USAGE;
    if (stp_choose_policy(o.arguments.n > 0 ? o.arguments.v[0] : NULL, true,
                          o.machine.json, o.chosen) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    o.policy = o.chosen;
    if (stp_policy_file_hash(o.policy, v.hash, &err) != STP_OK)
        return stp_complain_error(o.policy, &err);
    if (stp_check_has_machine(o.machine.on, NULL, "verify POLICY") !=
        STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    status = verify_open(&v);
    if (status != STP_OK) {
        stp_complain_error(NULL, &err);
        return stp_exit_status(status);
    }
    status = verify_measure(&v);
    n_slower = stp_count_verdicts(&v.verdicts).n_slower;
    stp_comparisons_free(&v.verdicts);
    stp_dataset_free(&v.data);
    stp_device_close(&v.device);
    if (status != STP_OK)
        return stp_complain_error(NULL, &err);
    return n_slower == 0 ? STP_EXIT_OK : STP_EXIT_FAILED;
}
