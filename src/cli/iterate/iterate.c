/* iterate.c - `steptune iterate` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/iterate/iterate.h"
#include "launch/clock.h"
#include "launch/stop.h"
#include "report/iterations/iteration_plots.h"

enum {
    WARMUP = 3,
    SAVE_MS = 1000,
    QUICK_PLOTS = 8, /* settings */
};

static const char command_name[] = "steptune iterate";
static const char one_arms[] = "auto,auto2,simple,ll128";
static const char scan_arms[] = "auto,auto2,simple,ll128,simple/16,ll128/16";

/* One process. */
struct iterate {
    const struct stp_iterate_options *o;
    const struct stp_world *world;
    struct stp_device device;
    struct stp_device_info info;
    struct stp_iterate_cli_plan plan;
    struct stp_iterations out;
    bool is_complete;
    int64_t saved_ms;      /* when, last */
    enum stp_status saved; /* how saving went, and why not */
    struct stp_error saved_err;
    struct stp_error *err;
};

/* ---- what was measured so far ---- */

/* A report and what it points to; release with release(). */
struct so_far {
    struct stp_iteration_report report;
    struct stp_iteration_summary summary;
    struct stp_regime *regimes;
};

static void release(struct so_far *f)
{
    stp_iteration_summary_free(&f->summary);
    free(f->regimes);
}

static enum stp_status sum_up(const struct iterate *it, struct so_far *f,
                              struct stp_error *err)
{
    enum stp_status status;

    memset(f, 0, sizeof(*f));
    status = stp_summarise_iterations(&it->out, &f->summary, err);
    if (status != STP_OK)
        return status;
    f->regimes = calloc(f->summary.n_settings + 1, sizeof(*f->regimes));
    if (f->regimes == NULL) {
        release(f);
        return stp_nomem(err);
    }
    f->report = (struct stp_iteration_report){
        .made_by = it->info.what,
        .iterations = &it->out,
        .summary = &f->summary,
        .regimes = f->regimes,
        .looked_for_regimes = it->o->find_regimes,
        .min_gain = it->o->min_gain,
        .several = it->plan.plan.n_modes * it->plan.sizes.n *
                       stp_iterate_ratios(&it->plan.plan) >
                   1,
    };
    if (it->o->find_regimes)
        f->report.n_regimes =
            stp_find_regimes(&f->summary, it->o->min_gain, f->regimes);
    return STP_OK;
}

static enum stp_status save(struct iterate *it, struct stp_error *err)
{
    struct so_far f;
    enum stp_status status;

    if (it->o->output == NULL || it->out.data.n_rows == 0)
        return STP_OK;
    status = sum_up(it, &f, err);
    if (status != STP_OK)
        return status;
    status = stp_iteration_files_write(&f.report, it->o->output, err);
    release(&f);
    it->saved_ms = stp_now_ms();
    return status;
}

/* Complete rounds are kept, whatever comes. */
static bool progress(void *user, size_t done, size_t total)
{
    static char turns[] = "turns";
    struct iterate *it = user;
    bool stop = true;

    if (it->world->rank == 0) {
        if (done % it->plan.arms.n == 0 &&
            stp_now_ms() - it->saved_ms >= SAVE_MS)
            it->saved = save(it, &it->saved_err);
        stp_progress(turns, done, total);
    }
    if (stp_world_any(it->world, stp_stop_wished() || it->saved != STP_OK,
                      &stop, &it->saved_err) != STP_OK)
        it->saved = STP_ERR_DEVICE;
    return !stop;
}

/* ---- measuring ---- */

static enum stp_status choose_arms(struct iterate *it)
{
    const struct stp_iterate_options *o = it->o;
    struct stp_arms *arms = &it->plan.arms;
    const char *list = o->arms;
    enum stp_status status;

    if (list == NULL)
        list = !it->info.has_arms || it->info.n_ranks == 1 ? "auto,auto2"
               : o->find_regimes                           ? scan_arms
                                                           : one_arms;
    status = stp_arms_parse(list, arms, it->err);
    if (status == STP_OK && o->channels != NULL)
        status = stp_arms_add_channels(arms, o->channels, it->err);
    if (status != STP_OK || (o->policy == NULL && o->plugin == NULL))
        return status;
    if (arms->n == STP_MAX_ARMS)
        return stp_fail(it->err, STP_ERR_LIMIT, "more than %d arms",
                        STP_MAX_ARMS);
    arms->arm[arms->n++] = (struct stp_arm){.kind = STP_ARM_PLUGIN};
    return STP_OK;
}

static enum stp_status measure(struct iterate *it)
{
    const struct stp_iterate_options *o = it->o;
    struct stp_iterate_plan *plan = &it->plan.plan;
    enum stp_status status = choose_arms(it);

    plan->type = o->type;
    plan->iters = o->iters;
    plan->warmup = o->warmup;
    plan->rounds = o->rounds;
    plan->graph = o->run.graph;
    plan->alone = true;
    if (status == STP_OK)
        status = stp_plan_iterations(&it->info, &o->work, o->find_regimes,
                                     &it->plan, it->err);
    stp_stop_begin();
    it->saved_ms = stp_now_ms();
    if (status == STP_OK)
        status =
            stp_iterate_run(&it->device, plan, progress, it, &it->out, it->err);
    if (it->saved == STP_OK)
        return status;
    *it->err = it->saved_err;
    return it->saved;
}

static enum stp_status open_and_measure(struct iterate *it, const char *plugin)
{
    const struct stp_iterate_options *o = it->o;
    const struct stp_open_options open = {
        .machine = &o->machine,
        .run = &o->run,
        .world = it->world,
        .max_bytes = stp_workload_max_bytes(&o->work, o->find_regimes),
        .plugin = plugin};
    enum stp_status status = stp_open(&open, &it->device, it->err);

    if (status != STP_OK)
        return status;
    it->device.ops->info(it->device.self, &it->info);
    status = measure(it);
    it->device.ops->close(it->device.self);
    return status;
}

/* ---- what it was ---- */

static enum stp_status print(const struct iterate *it, const struct so_far *f,
                             struct stp_error *err)
{
    enum stp_status status;

    stp_progress_clear();
    if (it->o->machine.json)
        return stp_print_iterations_json(&f->report, stdout, err);
    printf("%s\n\n", it->info.what);
    status = stp_print_iterations(&f->summary, stdout, err);
    if (status == STP_OK && it->o->find_regimes)
        status = stp_print_regimes(&f->report, stdout, err);
    return status;
}

/* Plots are the last, and the least: without gnuplot there are none, and nobody
 * who interrupts a scan waits for those of all its settings. */
static enum stp_status draw(const struct iterate *it, const struct so_far *f,
                            struct stp_error *err)
{
    size_t n = 0;
    enum stp_status status;

    if (it->o->output == NULL || it->o->no_plots ||
        (!it->is_complete && f->summary.n_settings > QUICK_PLOTS))
        return STP_OK;
    status = stp_iteration_plots_save(&f->report, it->o->output, it->o->format,
                                      NULL, &n, err);
    if (status == STP_ERR_NOTHING) {
        fprintf(stderr, "%s: no plots: %s\n", command_name, err->text);
        return STP_OK;
    }
    return status;
}

/* What was measured is worth keeping, however the rest ended. */
static enum stp_status report(struct iterate *it, struct stp_error *err)
{
    struct so_far f;
    enum stp_status status = save(it, err);

    if (status == STP_OK)
        status = sum_up(it, &f, err);
    if (status != STP_OK)
        return status;
    status = print(it, &f, err);
    fflush(stdout);
    if (status == STP_OK)
        status = draw(it, &f, err);
    release(&f);
    return status;
}

/* ---- the command ---- */

struct command {
    struct stp_iterate_options o;
    char plugin[STP_CLI_PATH]; /* "": none */
};

static int body(void *user, const struct stp_world *world)
{
    struct command *c = user;
    struct stp_error err = {0};
    struct stp_error later;
    struct iterate *it = calloc(1, sizeof(*it));
    enum stp_status status;

    if (it == NULL)
        return stp_complain(command_name, "out of memory");
    it->o = &c->o;
    it->world = world;
    it->err = &err;
    status = open_and_measure(it, c->plugin[0] != '\0' ? c->plugin : NULL);
    it->is_complete = status == STP_OK;
    if (world->rank == 0 && it->out.data.n_rows > 0 &&
        report(it, status == STP_OK ? &err : &later) != STP_OK &&
        status == STP_OK)
        status = STP_ERR_IO;
    stp_iterations_free(&it->out);
    free(it);
    return stp_complain_in(command_name, world, status, &err);
}

static int check_arms(const struct stp_iterate_options *o)
{
    struct stp_arms arms;
    struct stp_error err;

    if (stp_arms_parse(o->arms != NULL ? o->arms : one_arms, &arms, &err) ==
            STP_OK &&
        (o->channels == NULL ||
         stp_arms_add_channels(&arms, o->channels, &err) == STP_OK))
        return STP_EXIT_OK;
    stp_complain_error(command_name, NULL, &err);
    return STP_EXIT_USAGE;
}

static int check_options(const struct stp_iterate_options *o)
{
    if (o->run.n_procs <= 1)
        return check_arms(o);
    stp_complain(command_name, "--procs with %u numbers, expected one",
                 o->run.n_procs);
    return STP_EXIT_USAGE;
}

/* As a user would for a job; on a recorded machine with its GPU. */
static int set_environment(const struct stp_iterate_options *o)
{
    char machine[STP_CLI_PATH];
    struct stp_error err;
    enum stp_status status = STP_OK;

    if (!stp_is_live(o->machine.on, o->run.backend)) {
        if (stp_find_machine(o->machine.on != NULL ? o->machine.on
                                                   : STP_DEFAULT_MACHINE,
                             machine, &err) != STP_OK)
            status = STP_ERR_NOTHING;
        else
            status = stp_set_plugin_environment(machine, o->policy, &err);
    } else if ((o->policy != NULL &&
                setenv("NCCL_TUNER_CONFIG_FILE", o->policy, 1) != 0) ||
               unsetenv("NCCL_WORKLOAD_OVERLAP") != 0) {
        status = stp_nomem(&err);
    }
    if (status == STP_OK)
        return STP_EXIT_OK;
    stp_complain_error(command_name, NULL, &err);
    return stp_exit_status(status);
}

/* Finds the plugin of the plugin arm, and sets what it reads. */
static int prepare_plugin(struct command *c)
{
    const struct stp_iterate_options *o = &c->o;
    struct stp_policy *policy = NULL;
    struct stp_error err;
    int exit_status;

    if (o->policy == NULL && o->plugin == NULL)
        return STP_EXIT_OK;
    if (o->plugin == NULL &&
        stp_find_plugin("steptune", c->plugin, &err) != STP_OK)
        return stp_complain_error(command_name, NULL, &err);
    if (o->plugin != NULL && !stp_absolute_path(o->plugin, c->plugin))
        return stp_complain(command_name,
                            "--plugin '%s': no such file, expected a tuner "
                            "plugin's .so",
                            o->plugin);
    exit_status = stp_load_plugin_policy(command_name, o->policy,
                                         o->plugin == NULL, &policy);
    stp_policy_free(policy);
    return exit_status == STP_EXIT_OK ? set_environment(o) : exit_status;
}

static int make_folder(const struct stp_iterate_options *o)
{
    struct stp_error err;

    if (o->output == NULL ||
        stp_iteration_folder(o->output, o->force, &err) == STP_OK)
        return STP_EXIT_OK;
    return stp_complain_error(command_name, NULL, &err);
}

static int launch(void *user, const char *command)
{
    struct command *c = user;

    return stp_launch(command, &c->o.machine, &c->o.run, body, c);
}

int stp_cmd_iterate(int argc, char **argv)
{
    struct command c = {.o = {.type = -1, .warmup = WARMUP, .min_gain = 0.01}};
    int exit_status;

    stp_options_default(&c.o.machine, NULL, NULL);
    argp_parse(&stp_iterate_argp, argc, argv, 0, NULL, &c.o);
    exit_status = check_options(&c.o);
    if (exit_status == STP_EXIT_OK)
        exit_status = prepare_plugin(&c);
    if (exit_status == STP_EXIT_OK)
        exit_status = make_folder(&c.o);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if (c.o.plugin != NULL && !stp_is_live(c.o.machine.on, c.o.run.backend))
        return stp_run_plugin(command_name, c.plugin, launch, &c);
    return launch(&c, command_name);
}
