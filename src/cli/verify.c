/* verify.c - `steptune verify` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/policy/memory_policy.h"
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
    bool table;
    bool proof;
    struct stp_arguments arguments;
    struct stp_run_options run; /* of several processes */
    const char *policy;
    char chosen[STP_CLI_PATH]; /* what "policy" points to */
};

enum { WARMUP = 3 };

#define AT(member) offsetof(struct verify_options, member)

static const struct stp_option verify_table[] = {
    {"iterate", 0, NULL, stp_option_flag, .at = AT(iterates)},
    {"table", 0, NULL, stp_option_flag, AT(table), .needs.without = {"json"}},
    {"proof", 0, NULL, stp_option_flag, .at = AT(proof)},
    {0},
};

static void verify_check_options(void *options, struct argp_state *state)
{
    struct verify_options *o = options;

    if (o->arguments.n == 0 && !stp_has_policy())
        stp_usage_error(state, STP_NO_POLICY " or NCCL_TUNER_CONFIG_FILE");
}

static const struct stp_command_line verify_line = {
    .groups =
        (const struct stp_option_group[]){
            {.options = verify_table},
            {stp_measure_table, AT(measure), .needs.without = {"iterate"},
             .of = "collective minbytes maxbytes stepfactor stepbytes "
                   "warmup_iters"},
            {.options = stp_machine_table, .at = AT(machine)},
            {stp_run_table, AT(run), .of = "cudagraph"},
            {stp_workload_table, AT(work),
             .heading = "With --iterate:", .needs.with = "iterate"},
            {0}},
    .args_doc = "[POLICY]",
    .arguments = AT(arguments),
    .one = "policy",
    .reads = true,
    .check = verify_check_options,
};

/* A policy on a device. */
struct verify {
    const struct verify_options *o;
    const struct stp_world *world;
    struct stp_device device;
    struct stp_device_info info;
    struct stp_policy
        *memory; /* or of stages, that is verified; NULL: a policy of arms is */
    struct stp_arms arms;
    struct stp_dataset data;
    struct stp_comparisons verdicts;
    char hash[STP_POLICY_HASH_NAME];
    bool same_bits; /* the policy promises them */
    struct stp_error *err;
};

static bool verify_progress(void *user, size_t done, size_t total)
{
    const struct verify *v = user;

    return stp_progress_in(v->world, v->o->iterates ? "turns" : NULL, done,
                           total);
}

static enum stp_status verify_run(struct verify *v)
{
    const struct verify_options *o = v->o;
    struct stp_device_facts known;
    struct stp_measure_plan sizes;
    struct stp_workload_plan work = {.plan = {.type = o->measure.types[0],
                                              .iters = o->measure.iters,
                                              .rounds = o->measure.rounds,
                                              .warmup = WARMUP}};
    struct stp_iterations out = {0};
    enum stp_status status;

    if (o->iterates) {
        status = stp_plan_iterations(&v->info, &o->work, true, &work, v->err);
        work.plan.arms = &v->arms;
        work.plan.graph = o->run.graph;
        STP_THEN(status, stp_iterate_run(&v->device, &work.plan,
                                         verify_progress, v, &out, v->err));
        free(out.sample_us); /* they are not used */
        v->data = out.data;
        return status;
    }
    stp_get_device_facts(&v->device, &known);
    STP_TRY(
        stp_plan_measurements(&known, &o->measure, &v->arms, &sizes, v->err));
    if (v->world->rank == 0)
        stp_report_begin(&v->info, &o->measure, &sizes);
    sizes.plan.check = 1;
    sizes.plan.graph = o->run.graph;
    STP_TRY(stp_trial_add_unseen(&v->info, o->policy, &sizes, v->err));
    return stp_sweep_run(&v->device, &sizes.plan, verify_progress, v, &v->data,
                         v->err);
}

/* Measures and compares; the first of several processes, which all have the
 * same data, reports. */
static enum stp_status verify_measure(struct verify *v)
{
    const struct verify_options *o = v->o;
    const bool is_first = v->world->rank == 0;
    char path[STP_CLI_PATH];
    enum stp_status status;

    stp_stop_begin();
    status = verify_run(v);
    memcpy(v->data.policy_hash, v->hash, sizeof(v->hash));
    if (status == STP_OK && v->memory != NULL)
        status = stp_trial_take_memory(v->memory, &v->info, &v->data, v->err);
    STP_THEN(status, stp_compare(&v->data, &v->verdicts, v->err));
    if (status == STP_OK && is_first && o->machine.json)
        stp_print_verdicts_json(&v->info, v->hash, &v->verdicts, stdout);
    else if (status == STP_OK && is_first)
        status = stp_trial_print(o->policy, &v->info, &v->verdicts, o->table,
                                 stdout, v->err);
    if (status == STP_OK && is_first && o->proof) {
        status = stp_trial_prove(o->policy, &v->info, &v->data, &v->verdicts,
                                 v->err);
        snprintf(path, sizeof(path), "%s" STP_POLICY_PROOF_CSV, o->policy);
        STP_THEN(status,
                 stp_measurements_save(&v->data, v->info.what, path, v->err));
    }
    if (status == STP_OK && v->memory == NULL)
        status = stp_trial_require_decisions(o->policy, &v->info, &v->verdicts,
                                             v->err);
    if (status == STP_OK && v->same_bits)
        status = stp_trial_require_bits(&v->data, v->err);
    return status;
}

/* Opens the device with our static plugin, which reads the policy in the
 * environment of a job. */
static enum stp_status verify_open(struct verify *v)
{
    const struct verify_options *o = v->o;
    char plugin[STP_CLI_PATH];
    struct stp_open_options open = {
        .machine = &o->machine,
        .run = &o->run,
        .world = v->world,
        .max_bytes = o->iterates ? stp_workload_max_bytes(&o->work, true)
                                 : stp_max_bytes(&o->measure)};

    v->arms = stp_trial_arms;
    /* these policies take no plugin: their arms are those of the buffers */
    if (stp_policy_kind_of_file(o->policy) != STP_POLICY_OF_ARMS) {
        v->arms.n = 1;
        STP_TRY(stp_policy_load_any(o->policy, &v->memory, v->err));
        STP_TRY(stp_trial_add_setups(v->memory, &v->arms, v->err));
        STP_TRY(stp_open(&open, &v->device, v->err));
        stp_device_get_info(&v->device, &v->info);
        return STP_OK;
    }
    STP_TRY(stp_find_plugin("steptune", plugin, v->err));
    STP_TRY(stp_open(&open, &v->device, v->err));
    stp_device_get_info(&v->device, &v->info);
    stp_device_close(&v->device);
    open.plugin = plugin;
    stp_arms_add_nccl(&v->arms, v->info.tuner);
    STP_TRY(stp_trial_require_rules(o->policy, &v->info, v->err));
    STP_TRY(stp_trial_environment(o->policy, v->info.gpu, v->err));
    return stp_open(&open, &v->device, v->err);
}

static int verify_body(void *user, const struct stp_world *world)
{
    const struct verify_options *o = user;
    struct stp_error err;
    struct verify v = {.o = o, .world = world, .err = &err};
    struct stp_policy *policy = NULL;
    enum stp_status status = stp_world_agree(
        world, stp_policy_load_any(o->policy, &policy, &err), &err);
    size_t n_failed;

    if (policy != NULL) {
        stp_policy_hash_name(policy, v.hash);
        v.same_bits = stp_policy_same_bits(policy);
        stp_policy_free(policy);
    }
    STP_THEN(status, verify_open(&v));
    if (status != STP_OK) {
        stp_policy_free(v.memory);
        return stp_complain_in(world, status, &err);
    }
    status = verify_measure(&v);
    if (world->rank == 0)
        stp_report_again(&v.data);
    n_failed = stp_count_verdicts(&v.verdicts).n_slower;
    n_failed += world->rank == 0 &&
                stp_report_wrong(NULL, &v.data, true) != STP_EXIT_OK;
    stp_comparisons_free(&v.verdicts);
    stp_dataset_free(&v.data);
    stp_policy_free(v.memory);
    stp_device_close(&v.device);
    if (status != STP_OK)
        stp_complain_in(world, status, &err);
    return status == STP_OK && n_failed == 0 ? STP_EXIT_OK : STP_EXIT_FAILED;
}

int stp_cmd_verify(int argc, char **argv)
{
    struct verify_options o = {0};
    char hash[STP_POLICY_HASH_NAME];
    struct stp_error err;

    stp_options_read(&verify_line, argc, argv, &o);
    if (stp_choose_type(&o.measure) != STP_EXIT_OK ||
        stp_check_sizes(&o.measure) != STP_EXIT_OK)
        return STP_EXIT_USAGE;
    if (stp_choose_policy(o.arguments.n > 0 ? o.arguments.v[0] : NULL, true,
                          o.machine.json, o.chosen) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    o.policy = o.chosen;
    if (stp_policy_file_hash(o.policy, hash, &err) != STP_OK)
        return stp_complain_error(o.policy, &err);
    if (stp_check_needs(o.machine.on, NULL, "verify POLICY", true) !=
        STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    return stp_launch(&o.machine, &o.run, verify_body, &o);
}
