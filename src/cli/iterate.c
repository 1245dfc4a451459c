/* iterate.c - `steptune iterate` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/iterations.h"
#include "analyse/traces/trace_step.h"
#include "analyse/traces/traces.h"
#include "child/job.h"
#include "cli/cli.h"
#include "core/text.h"
#include "launch/stop.h"
#include "launch/take.h"
#include "report/iterations/iteration_files.h"
#include "report/results/results.h"
#include "report/terminal.h"
#include "store/clock.h"
#include "tune/trial.h"

enum {
    SAVE_MS = 1000,
    QUICK_PLOTS = 8, /* settings */
    MAX_RECORDED = 512,
};

static const char one_arms[] = "auto,auto2,simple,ll128";
static const char regimes_folder[] = "steptune.regimes";
static const char scan_arms[] = "auto,auto2,simple,ll128,simple/16,ll128/16";

/* ---- options ---- */

struct iterate_options {
    struct stp_machine_options machine;
    struct stp_run_options run;
    struct stp_workload_options work;
    const char *arms; /* NULL: not given */
    const char *channels;
    const char *policy; /* of the plugin arm */
    const char *plugin; /* NULL: ours, if there is a policy */
    const char *output; /* folder */
    bool force;
    const char *trace; /* NULL: a workload of options */
    bool find_regimes;
    double min_gain; /* of regimes */
    int type;        /* enum stp_type; -1: not given */
    unsigned iters;  /* 0: not given */
    unsigned warmup;
    unsigned rounds; /* 0: not given */
    int format;      /* enum stp_plot_format */
    bool no_plots;
};

#define AT(member) offsetof(struct iterate_options, member)

static const char *const formats[] = {[STP_PLOT_PNG] = "png",
                                      [STP_PLOT_SVG] = "svg",
                                      [STP_N_PLOT_FORMATS] = NULL};

static const struct stp_option iterate_table[] = {
    {"arms", 0, "LIST", stp_option_text, .at = AT(arms)},
    {"channels", 0, "LIST", stp_option_text, AT(channels),
     .needs.find_idle = stp_find_idle_channels},
    {"policy", 0, "FILE", stp_option_text, AT(policy), .path = STP_PATH_READ},
    {"plugin", 0, "SO", stp_option_text, .at = AT(plugin)},
    {"iters", 'n', "N", stp_option_count, AT(iters), .min = 1},
    {"warmup_iters", 'w', "N", stp_option_count, AT(warmup), .value = "3"},
    {"rounds", 0, "N", stp_option_count, AT(rounds), .min = 1},
    {"dtype", 'd', "TYPE", stp_option_word, AT(type), .alias = "datatype",
     .from_name = stp_type_from_name, .absent = -1,
     .expected = "f32, f16, bf16 or f64"},
    {"output", 'o', "FOLDER", stp_option_text, AT(output),
     .path = STP_PATH_FOLDER},
    {"force", 0, NULL, stp_option_flag, AT(force), .needs.with = "output"},
    {"format", 0, "png|svg", stp_option_word, AT(format), .words = formats,
     .value = "png", .needs = {.with = "output", .without = {"no-plots"}}},
    {"no-plots", 0, NULL, stp_option_flag, .at = AT(no_plots)},
    {"trace", 0, "FILE", stp_option_text, .at = AT(trace)},
    {"find-regimes", 0, NULL, stp_option_flag, .at = AT(find_regimes)},
    {"min-gain", 0, "SHARE", stp_option_share, AT(min_gain), .value = "1%",
     .needs.with = "find-regimes"},
    {0},
};

static void iterate_check_options(void *options, struct argp_state *state)
{
    const struct iterate_options *o = options;
    const struct stp_workload_options *w = &o->work;

    if (o->trace != NULL &&
        (o->find_regimes || w->layers > 0 || w->compute != STP_COMPUTE_GEMM ||
         w->n_modes + w->n_bytes + w->n_ratios + w->n_sides > 0))
        stp_usage_error(state,
                        "--trace with --mode, --bytes, --ratio, --gemm, "
                        "--compute, --layers or --find-regimes, expected the "
                        "trace alone: it is the workload");
}

static const struct stp_command_line iterate_line = {
    .groups =
        (const struct stp_option_group[]){
            {.options = iterate_table},
            {.options = stp_workload_table, .at = AT(work)},
            {.options = stp_machine_table, .at = AT(machine)},
            {stp_run_table, AT(run), .heading = STP_RUN_HEADING},
            {0}},
    .check = iterate_check_options,
};

/* ---- one process ---- */

struct iterate {
    const struct iterate_options *o;
    const struct stp_trace *trace; /* NULL: none */
    struct stp_trace_step step;    /* of it */
    const struct stp_world *world;
    struct stp_device device;
    struct stp_device_info info;
    char made_by[sizeof(((struct stp_device_info *)0)->what) + STP_CLI_PATH];
    struct stp_workload_plan plan;
    int modes[STP_N_MODES]; /* of what is recorded */
    struct stp_iterations out;
    bool is_complete;
    bool draws;                /* plots */
    bool several;              /* settings */
    char folder[STP_CLI_PATH]; /* of the files; "": none */
    int64_t saved_ms;          /* when, last */
    enum stp_status saved;     /* how saving went, and why not */
    struct stp_error saved_err;
    struct stp_error *err;
};

/* ---- results so far ---- */

/* A report and its data; release with iterate_release(). */
struct iterate_results {
    struct stp_iteration_report report;
    struct stp_iteration_summary summary;
    struct stp_regime *regimes;
};

static void iterate_release(struct iterate_results *f)
{
    stp_iteration_summary_free(&f->summary);
    free(f->regimes);
}

static enum stp_status iterate_sum_up(const struct iterate *it,
                                      struct iterate_results *f,
                                      struct stp_error *err)
{
    memset(f, 0, sizeof(*f));
    STP_TRY(stp_summarise_iterations(&it->out, &f->summary, err));
    STP_TAKE(f->regimes, f->summary.n_settings);
    f->report = (struct stp_iteration_report){
        .made_by = it->made_by,
        .iterations = &it->out,
        .summary = &f->summary,
        .regimes = f->regimes,
        .looked_for_regimes = it->o->find_regimes,
        .min_gain = it->o->min_gain,
        .several = it->several,
        .tables_only = it->o->output == NULL,
    };
    if (it->o->find_regimes)
        f->report.n_regimes =
            stp_find_regimes(&f->summary, it->o->min_gain, f->regimes);
    return STP_OK;
}

static enum stp_status iterate_save(struct iterate *it, struct stp_error *err)
{
    struct iterate_results f;
    enum stp_status status;

    if (it->folder[0] == '\0' || it->out.data.n_rows == 0)
        return STP_OK;
    STP_TRY(iterate_sum_up(it, &f, err));
    status = stp_iteration_files_write(&f.report, it->folder, err);
    iterate_release(&f);
    it->saved_ms = stp_now_ms();
    return status;
}

/* Saves complete rounds. */
static bool iterate_progress(void *user, size_t done, size_t total)
{
    static char turns[] = "turns";
    struct iterate *it = user;
    bool stop = true;

    if (it->world->rank == 0) {
        if (done % it->plan.arms.n == 0 &&
            stp_now_ms() - it->saved_ms >= SAVE_MS)
            it->saved = iterate_save(it, &it->saved_err);
        stp_progress(turns, done, total);
    }
    if (stp_world_any(it->world, stp_stop_requested() || it->saved != STP_OK,
                      &stop, &it->saved_err) != STP_OK)
        it->saved = STP_ERR_DEVICE;
    return !stop;
}

/* ---- measuring ---- */

/* Adds a mode that is recorded, with its sizes. */
static enum stp_status iterate_plan_mode(struct iterate *it, int mode)
{
    struct stp_iterate_plan *plan = &it->plan.plan;
    const int coll =
        mode == STP_MODE_FSDP ? (int)ncclFuncAllGather : plan->coll;
    struct stp_device_overlap known[MAX_RECORDED];
    const size_t n =
        stp_device_overlaps(&it->device, coll, known, MAX_RECORDED);
    enum stp_status status = STP_OK;
    bool any = false;

    for (size_t i = 0; i < n && i < MAX_RECORDED && status == STP_OK; i++) {
        if (known[i].mode != mode || known[i].gemm.type != plan->type)
            continue;
        if (!plan->known)
            it->plan.sizes.n = plan->n_modes = 0;
        plan->known = any = true;
        status = stp_sizes_add(&it->plan.sizes, known[i].n_bytes,
                               stp_type_size(plan->type), it->err);
    }
    if (any)
        it->modes[plan->n_modes++] = mode;
    return status;
}

static enum stp_status iterate_measure(struct iterate *it)
{
    const struct iterate_options *o = it->o;
    struct stp_iterate_plan *plan = &it->plan.plan;
    const struct stp_workload_options *w = &o->work;
    const bool on_cpus = strcmp(it->info.backend, "nccl") != 0;
    const bool scans_all =
        o->find_regimes && w->compute == STP_COMPUTE_GEMM &&
        w->n_modes + w->n_bytes + w->n_ratios + w->n_sides + w->layers == 0;
    struct stp_arms *arms = &it->plan.arms;
    const char *list = o->arms;
    enum stp_status status;

    if (list == NULL)
        list = !it->info.has_arms || it->info.n_ranks == 1 ? "auto,auto2"
               : o->find_regimes                           ? scan_arms
                                                           : one_arms;
    status = stp_parse_arms(&it->info, list, o->channels, arms, it->err);
    if (status == STP_OK && (o->policy != NULL || o->plugin != NULL)) {
        if (arms->n == STP_MAX_ARMS)
            status = stp_fail(it->err, STP_ERR_LIMIT, "more than %d arms",
                              STP_MAX_ARMS);
        else
            arms->arm[arms->n++] = (struct stp_arm){.kind = STP_ARM_PLUGIN};
    }
    plan->type = o->type;
    plan->iters = o->iters;
    plan->warmup = o->warmup;
    plan->rounds = o->rounds;
    plan->graph = o->run.graph;
    plan->alone = true;
    if (status == STP_OK && it->trace != NULL)
        status =
            stp_trace_step_make(it->trace, it->info.n_ranks,
                                o->type < 0 && on_cpus ? STP_TYPE_F32 : o->type,
                                &it->step, it->err);
    if (it->trace != NULL)
        plan->step = &it->step.work;
    STP_THEN(status, stp_plan_iterations(&it->info, w, o->find_regimes,
                                         &it->plan, it->err));
    /* A scan without options covers all recorded iterations, if any. */
    for (int mode = 0; mode < STP_N_MODES && scans_all; mode++)
        STP_THEN(status, iterate_plan_mode(it, mode));
    if (scans_all && plan->known)
        plan->modes = it->modes;
    if (status == STP_OK)
        it->several = stp_iterate_settings(&it->device, plan) > 1;
    stp_stop_begin();
    it->saved_ms = stp_now_ms();
    STP_THEN(status, stp_iterate_run(&it->device, plan, iterate_progress, it,
                                     &it->out, it->err));
    if (it->saved == STP_OK)
        return status;
    *it->err = it->saved_err;
    return it->saved;
}

static enum stp_status iterate_open_and_measure(struct iterate *it,
                                                const char *plugin)
{
    const struct iterate_options *o = it->o;
    const struct stp_open_options open = {
        .machine = &o->machine,
        .run = &o->run,
        .world = it->world,
        .max_bytes = it->trace != NULL
                         ? stp_trace_max_bytes(it->trace)
                         : stp_workload_max_bytes(&o->work, o->find_regimes),
        .plugin = plugin};
    enum stp_status status;

    STP_TRY(stp_open(&open, &it->device, it->err));
    stp_device_get_info(&it->device, &it->info);
    snprintf(it->made_by, sizeof(it->made_by), "%s%s%s", it->info.what,
             it->trace != NULL ? "; trace " : "",
             it->trace != NULL ? stp_base_name(o->trace) : "");
    status = iterate_measure(it);
    stp_device_close(&it->device);
    return status;
}

/* ---- output ---- */

static void iterate_print(const struct iterate *it,
                          const struct iterate_results *f)
{
    bool is_modelled = false;

    stp_progress_clear();
    if (it->o->machine.json) {
        if (it->trace != NULL && it->trace->cut_line > 0)
            stp_complain(STP_TRACE_CUT, it->trace->cut_line);
        stp_print_iterations_json(&f->report, stdout);
        return;
    }
    printf("%s\n", it->made_by);
    for (size_t i = 0; i < f->summary.n_settings; i++)
        is_modelled |= stp_iteration_source(&f->summary.settings[i]) ==
                       STP_SOURCE_MODELLED;
    if (is_modelled && strstr(it->made_by, STP_MODEL_WORDS) == NULL)
        stp_print_paragraph(STP_MODEL_WORDS ".", stdout);
    if (it->trace != NULL) {
        stp_print_trace(it->trace, stdout);
        stp_print_trace_step(it->trace, &it->step, it->info.n_ranks, stdout);
    }
    printf("\n");
    if (!it->o->find_regimes) {
        stp_print_iterations(&f->summary, stdout);
        return;
    }
    stp_print_regimes(&f->report, stdout);
    printf("%s/summary.md has all settings and arms, regimes.md these; derive "
           "a policy by `steptune derive %s/rounds.csv --objective "
           "iteration`.\n",
           it->folder, STP_JOB_WORD(it->folder));
}

/* Measurements are saved and printed even after a failure. */
static enum stp_status iterate_report(struct iterate *it, struct stp_error *err)
{
    const struct iterate_options *o = it->o;
    struct iterate_results f;
    enum stp_status status = STP_OK;

    STP_TRY(iterate_save(it, err));
    STP_TRY(iterate_sum_up(it, &f, err));
    iterate_print(it, &f);
    fflush(stdout);
    /* Plots need gnuplot, and a scan that was not interrupted: they would take
     * long. */
    if (it->draws && (it->is_complete || f.summary.n_settings <= QUICK_PLOTS)) {
        status = stp_iteration_plots_save(&f.report, o->output,
                                          (enum stp_plot_format)o->format,
                                          getenv("STEPTUNE_GNUPLOT"), err);
        if (status == STP_ERR_NOTHING) {
            stp_complain("no plots: %s", err->text);
            status = STP_OK;
        }
    }
    iterate_release(&f);
    return status;
}

/* ---- the command ---- */

struct iterate_command {
    struct iterate_options o;
    struct stp_trace trace;
    char plugin[STP_CLI_PATH]; /* "": none */
};

/* Chooses the folder that rank 0 writes, and misses gnuplot before the run. */
static enum stp_status iterate_choose_folder(struct iterate *it)
{
    const struct iterate_options *o = it->o;
    const bool has_folder =
        o->output != NULL || (o->find_regimes && !o->machine.json);
    unsigned n = 1;
    enum stp_status status = STP_OK;

    if (o->output != NULL)
        snprintf(it->folder, sizeof(it->folder), "%s", o->output);
    if (has_folder && it->world->rank == 0) {
        it->draws = o->output != NULL && !o->no_plots && stp_check_gnuplot();
        if (o->output == NULL) /* a new one, for the tables of a scan */
            strcpy(it->folder, regimes_folder);
        while (o->output == NULL && access(it->folder, F_OK) == 0)
            snprintf(it->folder, sizeof(it->folder), "%s.%u", regimes_folder,
                     ++n);
        status = stp_iteration_folder(it->folder, o->output != NULL && o->force,
                                      it->err);
    }
    return stp_world_agree(it->world, status, it->err);
}

static int iterate_body(void *user, const struct stp_world *world)
{
    struct iterate_command *c = user;
    struct stp_error err = {0};
    struct stp_error later;
    struct iterate *it = stp_take(1, sizeof(*it));
    int exit_status = STP_EXIT_OK;
    enum stp_status status;

    it->o = &c->o;
    it->trace = c->o.trace != NULL ? &c->trace : NULL;
    it->world = world;
    it->err = &err;
    status = iterate_choose_folder(it);
    STP_THEN(status, iterate_open_and_measure(
                         it, c->plugin[0] != '\0' ? c->plugin : NULL));
    it->is_complete = status == STP_OK;
    if (world->rank == 0 && it->out.data.n_rows > 0 &&
        iterate_report(it, status == STP_OK ? &err : &later) != STP_OK &&
        status == STP_OK)
        status = STP_ERR_IO;
    if (status == STP_OK && world->rank == 0) {
        if (c->o.policy != NULL && c->o.plugin == NULL && it->trace == NULL &&
            stp_trial_require_rules(c->o.policy, &it->info, &later) ==
                STP_ERR_RANGE)
            stp_complain_error(NULL, &later);
        exit_status = stp_report_arms(c->o.arms, &it->out.data);
        stp_report_again(&it->out.data);
    }
    stp_iterations_free(&it->out);
    stp_trace_step_free(&it->step);
    free(it);
    return status == STP_OK ? exit_status
                            : stp_complain_in(world, status, &err);
}

/* Finds the plugin of the plugin arm, and sets the environment it reads. */
static int iterate_prepare_plugin(struct iterate_command *c)
{
    const struct iterate_options *o = &c->o;
    const bool is_live = stp_is_live(o->machine.on, o->run.backend);
    struct stp_policy *policy = NULL;
    char machine[STP_CLI_PATH];
    struct stp_error err;
    int exit_status;

    if (o->policy == NULL && o->plugin == NULL)
        return STP_EXIT_OK;
    if (o->plugin == NULL &&
        stp_find_plugin("steptune", c->plugin, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    if (o->plugin != NULL && !stp_absolute_path(o->plugin, c->plugin))
        return stp_complain("--plugin '%s': no such file, expected a tuner "
                            "plugin's .so",
                            o->plugin);
    exit_status = stp_load_plugin_policy(o->policy, o->plugin == NULL, &policy);
    stp_policy_free(policy);
    if (exit_status == STP_EXIT_OK && !is_live)
        exit_status = stp_choose_machine(o->machine.on, machine);
    if (exit_status == STP_EXIT_OK &&
        stp_set_plugin_environment(is_live ? NULL : machine, o->policy, &err) !=
            STP_OK)
        exit_status = stp_complain_error(NULL, &err);
    return exit_status;
}

/* Checks the arms for the collectives that the modes have. */
static int iterate_check_arms(const struct iterate_options *o)
{
    int colls[STP_N_MODES + 1] = {ncclFuncAllReduce, ncclFuncAllGather};
    size_t n = 0;

    if (o->trace != NULL) /* any */
        return stp_check_arms(o->arms, o->channels, NULL, 0);
    for (unsigned i = 0; i < o->work.n_modes; i++)
        colls[n++] = o->work.modes[i] == STP_MODE_FSDP ? ncclFuncAllGather
                                                       : ncclFuncAllReduce;
    if (n == 0)
        n = o->find_regimes ? 2 : 1;
    return stp_check_arms(o->arms, o->channels, colls, n);
}

static int iterate_launch(void *user)
{
    struct iterate_command *c = user;

    return stp_launch(&c->o.machine, &c->o.run, iterate_body, c);
}

int stp_cmd_iterate(int argc, char **argv)
{
    struct iterate_command c = {0};
    const struct iterate_options *o = &c.o;
    struct stp_error err;
    int exit_status;

    stp_options_read(&iterate_line, argc, argv, &c.o);
    if (o->run.n_procs > 1)
        return STP_MISUSE("--procs with %u numbers, expected one",
                          o->run.n_procs);
    exit_status = iterate_check_arms(o);
    STP_THEN(exit_status,
             stp_check_needs(o->machine.on, o->run.backend, "iterate",
                             o->plugin == NULL && o->policy != NULL));
    STP_THEN(exit_status, iterate_prepare_plugin(&c));
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if (o->trace != NULL && stp_traces_load(o->trace, &c.trace, &err) != STP_OK)
        return stp_complain_error(o->trace, &err);
    stp_trace_keep_process(&c.trace);
    exit_status =
        o->plugin != NULL && !stp_is_live(o->machine.on, o->run.backend)
            ? stp_run_plugin(c.plugin, iterate_launch, &c)
            : iterate_launch(&c);
    stp_trace_free(&c.trace);
    return exit_status;
}
