/* tune.c - `steptune tune` */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "core/text.h"
#include "launch/stop.h"
#include "report/results/results.h"
#include "report/results/tune_report.h"
#include "tune/tune.h"

/* ---- options ---- */

struct tune_options {
    struct stp_machine_options machine;
    struct stp_derive_options derive;
    struct stp_tune_plan plan;
    const char *output;
    char plugin[STP_CLI_PATH]; /* of the plan */
};

#define AT(member) offsetof(struct tune_options, member)

static const struct stp_option tune_table[] = {
    {"output", 'o', "FILE", stp_option_text, AT(output),
     .value = "steptune.conf",
     .help = "File of the policy; FILE.overlap, report and measurements go "
             "beside it.  A policy that is there is kept as FILE.~1~, FILE.~2~ "
             "and so on"},
    {"ranks", 0, "LIST", stp_option_count, AT(plan.ranks), .min = 2,
     .max = STP_MAX_PROCESSES, .n = AT(plan.n_passes), .size = sizeof(unsigned),
     .most = STP_MAX_PASSES, .is_ascending = true,
     .expected = "at most 16 ascending numbers from 2, such as 2,4,8",
     .help = "Communicators of so many ranks, such as 2,4,8 for groups of "
             "tensor parallelism: the first GPUs, or recorded machines of the "
             "same name with that number at its end (default: all ranks)"},
    {"resolution", 0, "F", stp_option_double, AT(plan.resolution), .min = 1.05,
     .expected = "a factor from 1.05", .value = "1.4",
     .help = "Where decisions change, measure sizes until they are within this "
             "factor of each other"},
    {"no-iterate", 0, NULL, stp_option_flag, AT(plan.no_iterate),
     .help = "Make no policy for collectives that overlap compute"},
    {"fresh", 0, NULL, stp_option_flag, AT(plan.fresh),
     .help = "Discard an interrupted run and start over"},
    {0},
};

static const struct stp_command_line tune_line = {
    .groups =
        (const struct stp_option_group[]){
            {.options = tune_table},
            {.options = stp_measure_table, .at = AT(plan.measure)},
            {.options = stp_derive_table, .at = AT(derive)},
            {.options = stp_machine_table, .at = AT(machine)},
            {0}},
    .doc = "Measures every arm on a coarse grid of sizes (by factors of 4) and "
           "more sizes where decisions change, and training iterations with "
           "the best; derives a policy for collectives alone and one for "
           "those that overlap compute, loads them with the tuner plugin and "
           "verifies them against NCCL's own choice, at the sizes measured and "
           "between them. Started again after an interruption, it resumes.",
};

/* ---- the host of the run ---- */

/* "h200x2" for 2 ranks of "h200x4". */
static enum stp_status tune_name_sibling(const char *on, unsigned n_ranks,
                                         char name[STP_CLI_PATH],
                                         struct stp_error *err)
{
    size_t len = strlen(on);
    int n;

    while (len > 0 && isdigit((unsigned char)on[len - 1]))
        len--;
    n = snprintf(name, STP_CLI_PATH, "%.*s%u", (int)len, on, n_ranks);
    if (len > 0 && on[len - 1] == 'x' && on[len] != '\0' && n < STP_CLI_PATH)
        return STP_OK;
    return stp_fail(err, STP_ERR_NOTHING,
                    "--ranks on the recorded machine '%.120s', expected one "
                    "whose name ends in its number of ranks, such as h200x4",
                    on);
}

static enum stp_status tune_open(void *user, unsigned n_ranks,
                                 const char *plugin,
                                 struct stp_device *device_ret,
                                 struct stp_error *err)
{
    const struct tune_options *o = user;
    struct stp_machine_options machine = o->machine;
    struct stp_run_options run = {0};
    const struct stp_open_options open = {.machine = &machine,
                                          .run = &run,
                                          .max_bytes =
                                              stp_max_bytes(&o->plan.measure),
                                          .plugin = plugin};
    struct stp_device_info info;
    char name[STP_CLI_PATH];
    enum stp_status status = STP_OK;

    if (stp_is_live(machine.on, NULL)) {
        run.n_threads = n_ranks;
    } else if (n_ranks > 0) {
        status = tune_name_sibling(machine.on, n_ranks, name, err);
        machine.on = name;
    }
    if (status == STP_OK)
        status = stp_open(&open, device_ret, err);
    if (status != STP_OK)
        return status;
    stp_device_get_info(device_ret, &info);
    if (n_ranks == 0 || info.n_ranks == n_ranks)
        return STP_OK;
    stp_device_close(device_ret);
    return stp_fail(err, STP_ERR_NOTHING, "--ranks %u, but '%s' has %u",
                    n_ranks, info.machine, info.n_ranks);
}

static bool tune_progress(void *user, enum stp_tune_stage stage, size_t done,
                          size_t total)
{
    static char words[STP_TUNE_N_STAGES][20] = {
        [STP_TUNE_SWEEP] = "sizes swept",
        [STP_TUNE_REFINE] = "points refined",
        [STP_TUNE_ITERATE] = "settings iterated",
        [STP_TUNE_VERIFY] = "verified"};

    (void)user;
    return stp_progress(words[stage], done, total);
}

static void tune_tell(void *user, const char *text)
{
    (void)user;
    stp_complain("%s", text);
}

/* ---- output ---- */

/* Absolute paths: the job's working directory and library path are others. */
static void tune_print_use(const struct tune_options *o,
                           const struct stp_tune_files *f,
                           const struct stp_tune_result *r)
{
    char policy[STP_CLI_PATH] = "";

    stp_absolute_path(o->output, policy);
    printf("\nWrote %s (%zu rules), ", o->output, r->alone.derived.n_rules);
    if (r->overlap.exists)
        printf("%s (%zu rules), ", f->overlap_policy,
               r->overlap.derived.n_rules);
    printf("%s, %s and %s.  To use it in a job:\n\n"
           "  export NCCL_TUNER_PLUGIN=%s\n"
           "  export NCCL_TUNER_CONFIG_FILE=%s\n",
           f->page, f->report, f->sweep, o->plan.plugin, policy);
    if (r->overlap.exists)
        printf("  export NCCL_WORKLOAD_OVERLAP=1   # if communication overlaps "
               "with compute: %s\n",
               f->overlap_policy);
}

static enum stp_status tune_print(const struct tune_options *o,
                                  const struct stp_tune_files *files,
                                  const struct stp_tune_result *r,
                                  struct stp_error *err)
{
    struct stp_tune_report report;
    struct stp_tune_overlap overlap;
    enum stp_status status;

    if (o->machine.json) {
        stp_tune_fill_report(&o->plan, files, r, &report, &overlap);
        return stp_print_tuning_json(&report, stdout, err);
    }
    printf("%s\n\n", r->info.what);
    status = stp_print_verdicts(&r->info, &r->alone.verdicts, stdout, err);
    if (status == STP_OK && r->overlap.verdicts.n_points > 0) {
        printf("\nOverlapped with compute, by the time of iterations:\n\n");
        status =
            stp_print_verdicts(&r->info, &r->overlap.verdicts, stdout, err);
    }
    tune_print_use(o, files, r);
    return status;
}

static void tune_print_times(const int64_t *stage_ms)
{
    static const char *const names[STP_TUNE_N_STAGES] = {
        [STP_TUNE_SWEEP] = "sweep",
        [STP_TUNE_REFINE] = "refine",
        [STP_TUNE_ITERATE] = "iterate",
        [STP_TUNE_VERIFY] = "verify"};
    int64_t sum = 0;

    fprintf(stderr, "%s:", stp_command_name);
    for (int s = 0; s < STP_TUNE_N_STAGES; s++) {
        fprintf(stderr, " %s %.1f s,", names[s], (double)stage_ms[s] / 1e3);
        sum += stage_ms[s];
    }
    fprintf(stderr, " %.1f s in all\n", (double)sum / 1e3);
}

/* ---- the command ---- */

/* Before anything is measured or written. */
static int tune_check_output(const char *output,
                             struct stp_tune_files *files_ret)
{
    struct stat st;

    if (*stp_base_name(output) == '\0' ||
        (stat(output, &st) == 0 && !S_ISREG(st.st_mode)))
        stp_complain("-o '%s' is a folder or a device, expected a file",
                     output);
    else if (!stp_tune_name_files(output, files_ret))
        stp_complain("-o: the path is too long");
    else
        return STP_EXIT_OK;
    return STP_EXIT_USAGE;
}

static int tune_run(struct tune_options *o, const struct stp_tune_files *files,
                    struct stp_tune_result *result)
{
    const struct stp_tune_host host = {tune_open, tune_progress, tune_tell, o};
    struct stp_error err;
    enum stp_status status = stp_find_plugin("steptune", o->plugin, &err);

    stp_stop_begin();
    o->plan.plugin = o->plugin;
    if (status == STP_OK)
        status = stp_tune_run(&o->plan, &host, files, result, &err);
    if (status == STP_OK) {
        status = tune_print(o, files, result, &err);
        tune_print_times(result->stage_ms);
    }
    if (status == STP_OK)
        return STP_EXIT_OK;
    stp_progress_clear();
    if (status == STP_ERR_STOPPED && result->is_begun)
        stp_complain("stopped; started again with the same options it "
                     "continues with what %s holds",
                     files->state_sweep);
    else
        stp_complain_error(NULL, &err);
    return stp_exit_status(status);
}

/* The files of runs with the same stem are the same. */
static int tune_run_locked(struct tune_options *o,
                           const struct stp_tune_files *files)
{
    struct stp_tune_result result = {0};
    struct stp_lock lock;
    struct stp_error err;
    int exit_status;

    if (stp_lock_take(files->stem, false, &lock, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    exit_status = tune_run(o, files, &result);
    stp_tune_result_free(&result);
    stp_lock_release(&lock);
    return exit_status;
}

int stp_cmd_tune(int argc, char **argv)
{
    struct tune_options o = {0};
    struct stp_tune_files files;
    int exit_status;

    stp_options_read(&tune_line, argc, argv, &o);
    o.plan.min_gain = o.derive.min_gain;
    o.plan.portable = o.derive.portable;
    o.plan.seed = o.machine.seed;
    exit_status = stp_choose_type(&o.plan.measure);
    if (exit_status == STP_EXIT_OK)
        exit_status = tune_check_output(o.output, &files);
    if (exit_status == STP_EXIT_OK)
        exit_status = stp_check_has_machine(o.machine.on, NULL, "tune");
    if (exit_status == STP_EXIT_OK)
        exit_status = tune_run_locked(&o, &files);
    return exit_status;
}
