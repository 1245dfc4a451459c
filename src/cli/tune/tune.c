/* tune.c - `steptune tune` */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/wrong.h"
#include "child/job.h"
#include "cli/cli.h"
#include "launch/stop.h"
#include "report/folder.h"
#include "report/results/tune_report.h"
#include "report/terminal.h"
#include "cli/tune/tune_job.h"
#include "tune/tune.h"

/* ---- options ---- */

struct tune_options {
    struct stp_machine_options machine;
    struct stp_run_options run; /* of several processes */
    struct stp_derive_options derive;
    struct stp_tune_plan plan;
    const char *output;
    bool table;
    char plugin[STP_CLI_PATH];    /* of the plan */
    struct stp_tune_job job;      /* what its own options say */
    struct stp_arguments command; /* the job; none: a machine is tuned */
};

#define AT(member) offsetof(struct tune_options, member)

static const char *tune_find_command(const struct stp_given *given)
{
    return stp_given_arguments(given) > 0
               ? "with a COMMAND, whose own collectives are measured"
               : NULL;
}

static const char *tune_find_machine(const struct stp_given *given)
{
    return stp_given_arguments(given) == 0 ? "without -- COMMAND" : NULL;
}

static const struct stp_option tune_table[] = {
    {"output", 'o', "FILE", stp_option_text, AT(output),
     .value = "steptune.conf", .path = STP_PATH_WRITE_BESIDE},
    {"ranks", 0, "LIST", stp_option_count, AT(plan.ranks), .min = 2,
     .max = STP_MAX_PROCESSES, .n = AT(plan.n_passes), .size = sizeof(unsigned),
     .most = STP_MAX_PASSES, .is_ascending = true,
     .expected = "at most 16 ascending numbers from 2, such as 2,4,8"},
    {"resolution", 0, "F", stp_option_double, AT(plan.resolution), .min = 1.05,
     .expected = "a factor from 1.05", .value = "1.4"},
    {"no-iterate", 0, NULL, stp_option_flag, .at = AT(plan.no_iterate)},
    {"table", 0, NULL, stp_option_flag, .at = AT(table)},
    {"fresh", 0, NULL, stp_option_flag, .at = AT(plan.fresh)},
    {0},
};

static const struct stp_option job_table[] = {
    {"for", 0, "TIME", stp_option_duration, .at = AT(job.limit_s)},
    {"until", 0, "SHARE", stp_option_share, .at = AT(job.until)},
    {"runs", 0, "N", stp_option_count, AT(job.runs), .min = 8, .max = 10000},
    {"resume", 0, NULL, stp_option_flag, .at = AT(job.resume)},
    {0},
};

/* A word by itself is more likely an option that was misspelt than a job. */
static void tune_check(void *options, struct argp_state *state)
{
    const struct tune_options *o = options;

    if (o->command.n == 0 && strcmp(state->argv[state->argc - 1], "--") == 0)
        stp_usage_error(state, "no command behind --, expected one such as "
                               "`torchrun train.py`");
    if (o->command.n > 0 && strcmp(o->command.v[-1], "--") != 0)
        stp_usage_error(state,
                        "'%s', expected options only, or -- and a command",
                        o->command.v[0]);
}

static const struct stp_command_line tune_line = {
    .groups =
        (const struct stp_option_group[]){
            {.options = tune_table,
             .needs.find_idle = tune_find_command,
             .of = "ranks resolution no-iterate table fresh"},
            {stp_measure_table, AT(plan.measure),
             .needs.find_idle = tune_find_command},
            {stp_derive_table, AT(derive), .needs.find_idle = tune_find_command,
             .of = "min-gain"},
            {stp_machine_table, AT(machine),
             .needs.find_idle = tune_find_command, .of = "on seed stalls"},
            {job_table, .heading = "Tuning in a job:",
             .needs.find_idle = tune_find_machine},
            {0}},
    .args_doc = "[-- COMMAND [ARGUMENT...]]",
    .arguments = AT(command),
    .is_in_order = true,
    .check = tune_check,
};

/* ---- the host of the run ---- */

/* One process of a run. */
struct tuning {
    const struct tune_options *o;
    const struct stp_world *world;
};

static enum stp_status tune_open(void *user, unsigned n_ranks,
                                 const char *plugin,
                                 struct stp_device *device_ret,
                                 struct stp_error *err)
{
    const struct tuning *t = user;
    const struct tune_options *o = t->o;
    struct stp_machine_options machine = o->machine;
    struct stp_run_options run = o->run;
    const struct stp_open_options open = {.machine = &machine,
                                          .run = &run,
                                          .world = t->world,
                                          .max_bytes =
                                              stp_max_bytes(&o->plan.measure),
                                          .plugin = plugin};
    struct stp_device_info info;
    char name[STP_CLI_PATH];

    if (n_ranks > 0 && stp_is_live(machine.on, NULL)) {
        run.n_threads = n_ranks;
    } else if (n_ranks > 0) { /* "h200x2" for 2 ranks of "h200x4" */
        size_t len = strlen(machine.on);

        while (len > 0 && isdigit((unsigned char)machine.on[len - 1]))
            len--;
        if (len == 0 || machine.on[len - 1] != 'x' || machine.on[len] == '\0' ||
            snprintf(name, sizeof(name), "%.*s%u", (int)len, machine.on,
                     n_ranks) >= STP_CLI_PATH)
            return stp_fail(err, STP_ERR_NOTHING,
                            "--ranks on the recorded machine '%.120s', "
                            "expected one whose name ends in its number of "
                            "ranks, such as h200x4",
                            machine.on);
        machine.on = name;
    }
    STP_TRY(stp_open(&open, device_ret, err));
    stp_device_get_info(device_ret, &info);
    if (n_ranks == 0 || info.n_ranks == n_ranks)
        return STP_OK;
    stp_device_close(device_ret);
    return stp_fail(err, STP_ERR_NOTHING, "--ranks %u, but '%s' has %u",
                    n_ranks, info.machine, info.n_ranks);
}

static bool tune_goes_on(void *user)
{
    const struct tuning *t = user;
    struct stp_error err;
    bool stops = true;

    return stp_world_any(t->world, stp_stop_requested(), &stops, &err) ==
               STP_OK &&
           !stops;
}

static bool tune_progress(void *user, enum stp_tune_stage stage, size_t done,
                          size_t total)
{
    static char words[STP_TUNE_N_STAGES][20] = {
        [STP_TUNE_SWEEP] = "sizes swept",
        [STP_TUNE_REFINE] = "points refined",
        [STP_TUNE_ITERATE] = "settings iterated",
        [STP_TUNE_VERIFY] = "verified"};
    const struct tuning *t = user;

    return stp_progress_in(t->world, words[stage], done, total);
}

static void tune_tell(void *user, const char *text)
{
    const struct tuning *t = user;

    if (t->world->rank == 0)
        stp_complain("%s", text);
}

/* ---- output ---- */

static void tune_print_rules(const char *path, size_t n, FILE *fp)
{
    fprintf(fp, "%s (%zu rule%s), ", path, n, n == 1 ? "" : "s");
}

static enum stp_status tune_print(const struct tune_options *o,
                                  const struct stp_tune_files *f,
                                  const struct stp_tune_result *r,
                                  struct stp_error *err)
{
    char policy[STP_CLI_PATH] = "";
    struct stp_tune_report report;
    struct stp_tune_overlap overlap;
    struct stp_paragraph paragraph;
    size_t n_waiting = 0;
    FILE *text;

    stp_tune_fill_report(f, r, &report, &overlap);
    if (o->machine.json) {
        stp_print_tuning_json(&report, stdout);
        return STP_OK;
    }
    STP_TRY(stp_print_tuning(&report, o->table, stdout, err));
    putchar('\n');
    text = stp_paragraph_begin(&paragraph, stdout);
    fputs("Wrote ", text);
    tune_print_rules(o->output, r->alone.derived.n_rules, text);
    if (r->overlap.exists)
        tune_print_rules(f->overlap_policy, r->overlap.derived.n_rules, text);
    if (r->registers.are_measured)
        tune_print_rules(f->memory_policy, r->memory.table.n_rules, text);
    if (r->stage.table.n_rules > 0)
        tune_print_rules(f->stage_policy, r->stage.table.n_rules, text);
    fprintf(text, "%s (every size and arm) and %s.", f->report, f->page);
    stp_paragraph_end(&paragraph);
    /* policies that have no rule are of no use; paths are absolute, as the
     * job's working directory and library path are others */
    stp_absolute_path(o->output, policy);
    if (r->alone.derived.n_rules + r->overlap.derived.n_rules > 0)
        printf("Run a job with it:  steptune run --policy %s -- COMMAND\n"
               "or, without steptune run:\n"
               "  export NCCL_TUNER_PLUGIN=%s\n"
               "  export NCCL_TUNER_CONFIG_FILE=%s\n",
               STP_JOB_WORD(o->output), STP_JOB_WORD(o->plugin),
               STP_JOB_WORD(policy));
    if (r->overlap.derived.n_rules > 0)
        printf("  export NCCL_WORKLOAD_OVERLAP=1   # if communication overlaps "
               "with compute: %s\n",
               f->overlap_policy);
    if (r->memory.table.n_rules > 0) /* which only an application can follow */
        printf("An application that registers its buffers asks %s, by "
               "steptune_memory.py or libsteptune_memory: steptune-policy(5)\n",
               f->memory_policy);
    if (r->stage.table.n_rules > 0) /* which needs no application */
        printf("Stage a job that registers nothing:  steptune run --stage=%s "
               "-- COMMAND\n",
               STP_JOB_WORD(f->stage_policy));
    for (size_t i = 0; i < r->stage.table.n_rules; i++)
        n_waiting += r->stage.rules[i].rule.overlap == 0;
    if (n_waiting > 0)
        printf("  export NCCL_WORKLOAD_OVERLAP=0   # if nothing runs beside "
               "its collectives: %zu of these rules are for such jobs\n",
               n_waiting);
    return STP_OK;
}

/* ---- a process of the run ---- */

/* The files of runs with the same stem are the same: one run at a time. */
static int tune_run(const struct tuning *t, const struct stp_tune_plan *plan,
                    const struct stp_tune_files *files)
{
    const struct stp_tune_host host = {tune_open, tune_progress, tune_goes_on,
                                       tune_tell, (void *)t};
    struct stp_tune_result result = {0};
    struct stp_lock lock;
    struct stp_error err;
    enum stp_status status = stp_lock_take(files->stem, false, &lock, &err);
    const bool is_locked = status == STP_OK;
    int exit_status;

    status = stp_world_agree(t->world, status, &err);
    STP_THEN(status, stp_tune_run(plan, &host, files, &result, &err));
    if (status == STP_OK && t->world->rank == 0) {
        static const char *const names[STP_TUNE_N_STAGES] = {
            [STP_TUNE_SWEEP] = "sweep",
            [STP_TUNE_REFINE] = "refine",
            [STP_TUNE_ITERATE] = "iterate",
            [STP_TUNE_VERIFY] = "verify"};
        int64_t sum = 0;

        fprintf(stderr, "%s:", stp_command_name);
        for (int s = 0; s < STP_TUNE_N_STAGES; s++) {
            fprintf(stderr, " %s %.1f s,", names[s],
                    (double)result.stage_ms[s] / 1e3);
            sum += result.stage_ms[s];
        }
        fprintf(stderr, " %.1f s in all\n", (double)sum / 1e3);
        status = tune_print(t->o, files, &result, &err);
    }
    exit_status =
        status == STP_OK && stp_kind_is_wrong(&result.alone.data, STP_ARM_AUTO)
            ? STP_EXIT_FAILED
            : stp_exit_status(status);
    if (status != STP_OK)
        stp_progress_clear();
    if (status == STP_ERR_STOPPED && result.is_begun && t->world->size == 1)
        stp_complain("stopped; started again with the same options it "
                     "continues with what %s holds",
                     files->state_sweep);
    else if (status == STP_ERR_STOPPED && result.is_begun &&
             t->world->rank == 0)
        stp_complain("stopped");
    else if (status != STP_OK &&
             (status != STP_ERR_STOPPED || !result.is_begun))
        exit_status = stp_complain_in(t->world, status, &err);
    stp_tune_result_free(&result);
    if (is_locked)
        stp_lock_release(&lock);
    return exit_status;
}

/* All processes but the first write into a folder of their own, which goes when
 * they are done: their plugins read the policy there while it is verified. */
static int tune_run_in_own_folder(const struct tuning *t,
                                  const struct stp_tune_plan *plan)
{
    char home[STP_FOLDER_PATH], path[STP_FOLDER_PATH + 16];
    struct stp_tune_files files;
    int exit_status = STP_EXIT_FAILED;

    snprintf(home, sizeof(home), "%s/steptune-tune-XXXXXX",
             stp_job_has("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(home) == NULL)
        return stp_complain("cannot make the folder '%s': %s", home,
                            strerror(errno));
    snprintf(path, sizeof(path), "%s/steptune.conf", home);
    if (stp_tune_name_files(path, &files))
        exit_status = tune_run(t, plan, &files);
    stp_folder_remove(home);
    return exit_status;
}

static int tune_body(void *user, const struct stp_world *world)
{
    const struct tune_options *o = user;
    const struct tuning t = {o, world};
    struct stp_tune_plan plan = o->plan;
    struct stp_tune_files files;

    plan.plugin = o->plugin;
    if (world->size > 1 && plan.n_passes > 0) {
        if (world->rank == 0)
            stp_complain("--ranks takes one process, but %s started %u",
                         world->ops->name, world->size);
        return STP_EXIT_USAGE;
    }
    plan.fresh |= world->size > 1;
    stp_stop_begin();
    if (world->rank > 0)
        return tune_run_in_own_folder(&t, &plan);
    stp_tune_name_files(o->output, &files);
    return tune_run(&t, &plan, &files);
}

/* ---- the command ---- */

int stp_cmd_tune(int argc, char **argv)
{
    struct tune_options o = {0};
    struct stp_tune_files files;
    struct stp_error err;
    int exit_status;

    stp_options_read(&tune_line, argc, argv, &o);
    if (o.command.n > 0) {
        o.job.argv = o.command.v;
        o.job.output = o.output;
        o.job.portable = o.derive.portable;
        o.job.same_bits = o.derive.bits == STP_BITS_SAME;
        o.job.json = o.machine.json;
        return stp_tune_job(&o.job);
    }
    o.plan.min_gain = o.derive.min_gain;
    o.plan.portable = o.derive.portable;
    o.plan.same_bits = o.derive.bits == STP_BITS_SAME;
    o.plan.seed = o.machine.seed;
    o.plan.stalls = o.machine.stalls;
    exit_status = stp_choose_type(&o.plan.measure);
    STP_THEN(exit_status, stp_check_sizes(&o.plan.measure));
    if (exit_status == STP_EXIT_OK && o.machine.on != NULL &&
        strcmp(o.machine.on, "cpu") == 0)
        return STP_MISUSE("--on cpu has no algorithms and protocols to choose "
                          "from, expected --on cuda or a recorded machine");
    if (exit_status == STP_EXIT_OK && !stp_tune_name_files(o.output, &files))
        return STP_MISUSE("-o: the path is too long");
    STP_THEN(exit_status, stp_check_needs(o.machine.on, NULL, "tune", true));
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if (stp_find_plugin("steptune", o.plugin, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    return stp_launch(&o.machine, &o.run, tune_body, &o);
}
