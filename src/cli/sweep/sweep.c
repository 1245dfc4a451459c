/* sweep.c - `steptune sweep` */
#include <stdio.h>
#include <string.h>

#include "analyse/compare.h"
#include "cli/sweep/sweep.h"
#include "launch/stop.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/nccl_text.h"
#include "report/results/results.h"

/* ---- one pass ---- */

struct sweep {
    const struct stp_sweep_options *o;
    const struct stp_world *world;
    struct stp_arms arms;
    struct stp_device device;
    struct stp_device_info info;
    struct stp_cli_plan plan;
    struct stp_dataset data; /* of all passes */
    size_t n_printed;        /* rows of it that are in the text */
    int coll;                /* of the section that is being printed */
    struct stp_nccl_text_total total;
    struct stp_error *err;
    enum stp_status saved; /* how saving went, and why not */
    struct stp_error saved_err;
};

static bool prints_nccl(const struct sweep *s)
{
    return s->o->format == STP_FORMAT_NCCL ||
           (s->o->format == STP_FORMAT_DEFAULT && s->info.is_live &&
            !s->o->machine.json);
}

static enum stp_status save_json(const struct stp_dataset *data,
                                 const char *path, struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    status = stp_print_sweep_json(data, file.fp, err);
    if (status == STP_OK)
        return stp_file_commit(&file, err);
    stp_file_abandon(&file);
    return status;
}

static enum stp_status save(struct sweep *s, struct stp_error *err)
{
    const char *path = s->o->output;
    size_t len = path != NULL ? strlen(path) : 0;

    if (path == NULL || s->data.n_rows == 0)
        return STP_OK;
    if (len > 5 && strcmp(&path[len - 5], ".json") == 0)
        return save_json(&s->data, path, err);
    return stp_measurements_save(&s->data, s->info.what, path, err);
}

static void print_head(struct sweep *s)
{
    const struct stp_sweep_plan *plan = &s->plan.plan;
    const struct stp_sizes *sizes = &plan->sizes[0];
    const struct stp_nccl_text_run run = {
        .version = STP_VERSION,
        .n_threads = s->o->run.n_threads > 0 ? s->o->run.n_threads
                     : s->o->run.n_gpus > 0 || s->world->size > 1
                         ? 1
                         : s->info.n_ranks,
        .n_gpus = s->o->run.n_gpus > 0 ? s->o->run.n_gpus : 1,
        .min_bytes = sizes->size[0],
        .max_bytes = sizes->size[sizes->n - 1],
        .factor = s->o->measure.factor > 0 ? s->o->measure.factor
                  : s->o->measure.step > 0 ? 0
                                           : 2,
        .step_bytes = s->o->measure.step,
        .warmup = plan->warmup,
        .iters = plan->iters,
        .agg_iters = 1,
        .check = plan->check,
        .graph = plan->graph,
    };

    stp_nccl_text_write_head(&run, plan->colls[0], &s->device, stdout);
    stp_nccl_text_write_columns(stdout);
    s->coll = plan->colls[0];
    s->total = (struct stp_nccl_text_total){0};
}

/* AUTO's row of the size that was measured last. */
static void print_size(struct sweep *s)
{
    const struct stp_measurement *first = &s->data.rows[s->n_printed];
    struct stp_nccl_text_row row = stp_nccl_text_collapse(&s->data, first);

    stp_progress_clear();
    if (first->coll != s->coll) {
        stp_nccl_text_write_section(first->coll, &first->arm, stdout);
        stp_nccl_text_write_columns(stdout);
        s->coll = first->coll;
    }
    stp_nccl_text_write_row(&row, &s->total, stdout);
    fflush(stdout);
}

/* After every size: what is there is kept, whatever comes. */
static bool progress(void *user, size_t done, size_t total)
{
    struct sweep *s = user;
    bool stop = true;

    if (s->world->rank == 0) {
        if (prints_nccl(s) && s->n_printed < s->data.n_rows)
            print_size(s);
        s->saved = save(s, &s->saved_err);
        stp_progress(NULL, done, total);
    }
    s->n_printed = s->data.n_rows;
    if (stp_world_any(s->world, stp_stop_wished() || s->saved != STP_OK, &stop,
                      &s->saved_err) != STP_OK)
        s->saved = STP_ERR_DEVICE;
    return !stop;
}

static enum stp_status choose_arms(struct sweep *s)
{
    const char *list = s->o->arms;
    enum stp_status status;

    if (list == NULL)
        list = s->info.has_arms && s->info.n_ranks > 1 ? "all" : "auto";
    status = stp_arms_parse(list, &s->arms, s->err);
    if (status == STP_OK && s->o->channels != NULL)
        status = stp_arms_add_channels(&s->arms, s->o->channels, s->err);
    return status;
}

static enum stp_status make_plan(struct sweep *s, int type, int op)
{
    struct stp_measure_options measure = s->o->measure;
    struct stp_sweep_plan *plan = &s->plan.plan;
    enum stp_status status = choose_arms(s);

    measure.type = type;
    measure.op = op;
    if (status == STP_OK)
        status =
            stp_make_plan(&s->device, &measure, &s->arms, &s->plan, s->err);
    plan->arm_places = s->o->arm_places;
    plan->auto_places =
        s->info.is_live ? STP_OUT_OF_PLACE | STP_IN_PLACE : s->o->arm_places;
    plan->check = s->o->check > 0;
    plan->graph = s->o->run.graph;
    plan->seed = s->o->machine.seed;
    return status;
}

static enum stp_status run_plan(struct sweep *s, int type, int op)
{
    enum stp_status status = make_plan(s, type, op);
    bool prints = s->world->rank == 0 && prints_nccl(s);

    if (status != STP_OK)
        return status;
    if (prints)
        print_head(s);
    stp_stop_begin();
    status =
        stp_sweep_run(&s->device, &s->plan.plan, progress, s, &s->data, s->err);
    if (prints)
        stp_nccl_text_write_foot(&s->total, s->coll, stdout);
    if (s->saved == STP_OK)
        return status;
    *s->err = s->saved_err;
    return s->saved;
}

/* Of several types and operations those that the device lacks are left out. */
static enum stp_status run_plans(struct sweep *s)
{
    const struct stp_sweep_options *o = s->o;
    size_t n_types = o->measure.n_types > 0 ? o->measure.n_types : 1;
    enum stp_status status = STP_OK;

    for (size_t t = 0; t < n_types; t++)
        for (size_t i = 0; i < o->n_ops && status == STP_OK; i++) {
            int type = o->measure.n_types > 0 ? o->measure.types[t] : -1;

            status = run_plan(s, type, o->ops[i]);
            if (status != STP_ERR_RANGE || n_types * o->n_ops == 1)
                continue;
            if (s->world->rank == 0)
                fprintf(stderr, "steptune sweep: left out: %s\n", s->err->text);
            status = STP_OK;
        }
    return status;
}

/* ---- all of it ---- */

/* Leaves of each size that has arms the best one. */
static void keep_best(struct stp_comparisons *comparisons)
{
    size_t n = 0;

    for (size_t i = 0; i < comparisons->n_points; i++) {
        struct stp_point *p = &comparisons->points[i];
        size_t best = 0;

        for (size_t a = 1; a < p->n_arms; a++)
            if (p->arms[a].gain.gain > p->arms[best].gain.gain)
                best = a;
        if (p->n_arms == 0)
            continue;
        p->arms = &p->arms[best];
        p->n_arms = 1;
        comparisons->points[n++] = *p;
    }
    comparisons->n_points = n;
}

static enum stp_status print_comparisons(const struct sweep *s,
                                         struct stp_error *err)
{
    struct stp_comparisons comparisons;
    enum stp_status status = stp_compare(&s->data, &comparisons, err);

    if (status != STP_OK)
        return status;
    if (prints_nccl(s)) {
        keep_best(&comparisons);
        printf("# The best arm of each size; --format table has all of "
               "them.\n#\n");
    } else {
        printf("%s\n\n", s->info.what);
    }
    status = stp_print_sweep(&comparisons, stdout, err);
    if (status == STP_OK)
        status = stp_print_steadiness(&comparisons, stdout, err);
    stp_comparisons_free(&comparisons);
    return status;
}

/* What was measured is worth keeping, however the rest ended. */
static enum stp_status report(struct sweep *s, struct stp_error *err)
{
    enum stp_status status = save(s, err);

    if (status != STP_OK)
        return status;
    if (s->o->machine.json)
        return stp_print_sweep_json(&s->data, stdout, err);
    if (s->o->format == STP_FORMAT_CSV) {
        stp_measurements_write(&s->data, s->info.what, stdout);
        return STP_OK;
    }
    if (s->o->format == STP_FORMAT_NCCL || (prints_nccl(s) && s->arms.n == 1))
        return STP_OK;
    return print_comparisons(s, err);
}

/* A pass with the first 'n' processes, in the world of those. */
static enum stp_status run_pass(struct sweep *s, const struct stp_world *world)
{
    const struct stp_open_options open = {.machine = &s->o->machine,
                                          .run = &s->o->run,
                                          .world = world,
                                          .max_bytes =
                                              stp_max_bytes(&s->o->measure)};
    enum stp_status status = stp_open(&open, &s->device, s->err);

    if (status != STP_OK)
        return status;
    s->world = world;
    s->device.ops->info(s->device.self, &s->info);
    status = run_plans(s);
    s->device.ops->close(s->device.self);
    return status;
}

/* All processes are here before the next pass, also those that sat it out. */
static enum stp_status run_passes(struct sweep *s,
                                  const struct stp_world *world)
{
    unsigned n_passes = s->o->run.n_procs > 0 ? s->o->run.n_procs : 1;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < n_passes && status == STP_OK; i++) {
        unsigned n = s->o->run.n_procs > 0 ? s->o->run.procs[i] : world->size;
        struct stp_world part;

        status = world->ops->part(world->self, n, &part, s->err);
        if (status != STP_OK)
            return status;
        if (part.size > 0)
            status = run_pass(s, &part);
        part.ops->close(part.self);
        if (status == STP_OK)
            status = stp_world_agree(world, STP_OK, s->err);
    }
    return status;
}

static enum stp_status find_wrong(const struct stp_dataset *data,
                                  struct stp_error *err)
{
    size_t n = 0;

    for (size_t i = 0; i < data->n_rows; i++)
        n += data->rows[i].n_wrong > 0;
    if (n == 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE,
                    "%zu of %zu results have wrong elements", n, data->n_rows);
}

/* One process, or one of several. */
static int body(void *user, const struct stp_world *world)
{
    struct stp_error err = {0};
    struct stp_error later;
    struct sweep s = {.o = user, .err = &err};
    enum stp_status status = run_passes(&s, world);

    if (world->rank == 0 && s.data.n_rows > 0 &&
        report(&s, status == STP_OK ? &err : &later) != STP_OK &&
        status == STP_OK)
        status = STP_ERR_IO;
    if (status == STP_OK && world->rank == 0)
        status = find_wrong(&s.data, &err);
    stp_dataset_free(&s.data);
    return stp_complain_in("steptune sweep", world, status, &err);
}

static int check_arms(const struct stp_sweep_options *o)
{
    struct stp_arms arms;
    struct stp_error err;

    if (stp_arms_parse(o->arms != NULL ? o->arms : "all", &arms, &err) ==
            STP_OK &&
        (o->channels == NULL ||
         stp_arms_add_channels(&arms, o->channels, &err) == STP_OK))
        return STP_EXIT_OK;
    stp_complain_error("steptune sweep", NULL, &err);
    return STP_EXIT_USAGE;
}

int stp_cmd_sweep(int argc, char **argv)
{
    struct stp_sweep_options o = {
        .n_ops = 1, .arm_places = STP_OUT_OF_PLACE, .check = 1};
    int exit_status;

    stp_options_default(&o.machine, &o.measure, NULL);
    argp_parse(&stp_sweep_argp, argc, argv, 0, NULL, &o);
    exit_status = check_arms(&o);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    return stp_launch(argv[0], &o.machine, &o.run, body, &o);
}
