/* sweep.c - `steptune sweep` */
#include <stdio.h>
#include <string.h>

#include "analyse/compare.h"
#include "cli/cli.h"
#include "core/dtype.h"
#include "report/file.h"
#include "report/measurements_csv.h"
#include "report/nccl_text.h"
#include "report/results.h"

enum format { FORMAT_DEFAULT, FORMAT_NCCL, FORMAT_TABLE, FORMAT_CSV };

struct options {
    struct stp_machine_options machine;
    struct stp_measure_options measure;
    struct stp_run_options run;
    const char *arms; /* NULL: not given */
    const char *channels;
    const char *output;
    unsigned arm_places;
    unsigned check;
    enum format format;
};

enum { OPT_ARMS = 0x300, OPT_CHANNELS, OPT_PLACE, OPT_OUTPUT, OPT_FORMAT };

static const struct argp_option options[] = {
    {"arms", OPT_ARMS, "LIST", 0,
     "What to compare with NCCL's own choice: all, auto, "
     "ALGORITHM/PROTOCOL[/CHANNELS], ... (default all; auto where nothing can "
     "be forced)",
     0},
    {"channels", OPT_CHANNELS, "LIST", 0,
     "Also every such arm with each of these channel counts", 0},
    {"op", 'o', "OP", 0,
     "Reduction: sum, prod, min, max or avg (default sum); as -o, anything "
     "else names the file of --output",
     0},
    {"root", 'r', "RANK", 0, "Of broadcasts and reduces (default 0)", 0},
    {"check", 'c', "0|1", 0,
     "Check every element of each arm's result at each size (default 1)", 0},
    {"place", OPT_PLACE, "out|in|both", 0,
     "Where the arms' results go; NCCL's own choice is measured in both on a "
     "real machine (default out)",
     0},
    {"output", OPT_OUTPUT, "FILE", 0,
     "Save every measurement, after every size: JSON if it ends in .json, else "
     "CSV",
     0},
    {"format", OPT_FORMAT, "FORMAT", 0,
     "Of what is printed: nccl, as all_reduce_perf prints it, table, csv or "
     "json (default nccl, then the table; recorded machines: table)",
     0},
    {0},
};

static unsigned parse_place(const char *arg, struct argp_state *state)
{
    static const struct {
        const char *word;
        unsigned places;
    } words[] = {{"out", STP_OUT_OF_PLACE},
                 {"in", STP_IN_PLACE},
                 {"both", STP_OUT_OF_PLACE | STP_IN_PLACE}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(arg, words[i].word) == 0)
            return words[i].places;
    argp_error(state, "--place '%s', expected out, in or both", arg);
    return 0;
}

static void parse_format(const char *arg, struct options *o,
                         struct argp_state *state)
{
    static const struct {
        const char *word;
        enum format format;
    } words[] = {
        {"nccl", FORMAT_NCCL}, {"table", FORMAT_TABLE}, {"csv", FORMAT_CSV}};

    o->machine.json = strcmp(arg, "json") == 0;
    if (o->machine.json)
        return;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(arg, words[i].word) == 0) {
            o->format = words[i].format;
            return;
        }
    argp_error(state, "--format '%s', expected nccl, table, csv or json", arg);
}

static void parse_op(const char *arg, struct options *o,
                     struct argp_state *state)
{
    int op = stp_op_from_name(arg, strlen(arg));

    if (op >= 0 && op < STP_N_OPS)
        o->measure.op = op;
    else if (strchr(arg, '.') != NULL || strchr(arg, '/') != NULL)
        o->output = arg;
    else
        argp_error(state,
                   "-o '%s', expected sum, prod, min, max or avg, or a file's "
                   "name with a dot in it",
                   arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->measure;
        state->child_inputs[1] = &o->machine;
        state->child_inputs[2] = &o->run;
        return 0;
    case OPT_ARMS:
        o->arms = arg;
        return 0;
    case OPT_CHANNELS:
        o->channels = arg;
        return 0;
    case 'o':
        parse_op(arg, o, state);
        return 0;
    case 'r':
        o->measure.root = stp_parse_count(arg, "-r", 0, state);
        return 0;
    case 'c':
        o->check = stp_parse_count(arg, "-c", 0, state);
        return 0;
    case OPT_PLACE:
        o->arm_places = parse_place(arg, state);
        return 0;
    case OPT_OUTPUT:
        o->output = arg;
        return 0;
    case OPT_FORMAT:
        parse_format(arg, o, state);
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
    {&stp_run_argp, 0, "On a real machine:", 0},
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Times collectives: every size with every arm, in interleaved "
           "rounds.",
};

/* ---- one pass ---- */

struct sweep {
    const struct options *o;
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
    enum stp_status saved;
};

static bool prints_nccl(const struct sweep *s)
{
    return s->o->format == FORMAT_NCCL ||
           (s->o->format == FORMAT_DEFAULT && s->info.is_live &&
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
        s->saved = save(s, s->err);
        stp_progress(NULL, done, total);
    }
    s->n_printed = s->data.n_rows;
    if (stp_world_any(s->world, stp_interrupted() || s->saved != STP_OK, &stop,
                      s->err) != STP_OK)
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

static enum stp_status make_plan(struct sweep *s)
{
    struct stp_sweep_plan *plan = &s->plan.plan;
    enum stp_status status = choose_arms(s);

    if (status == STP_OK)
        status = stp_make_plan(&s->device, &s->o->measure, &s->arms, &s->plan,
                               s->err);
    plan->arm_places = s->o->arm_places;
    plan->auto_places =
        s->info.is_live ? STP_OUT_OF_PLACE | STP_IN_PLACE : s->o->arm_places;
    plan->check = s->o->check > 0;
    plan->graph = s->o->run.graph;
    plan->seed = s->o->machine.seed;
    return status;
}

static enum stp_status run_plan(struct sweep *s)
{
    enum stp_status status = make_plan(s);

    if (status != STP_OK)
        return status;
    if (s->world->rank == 0 && prints_nccl(s))
        print_head(s);
    stp_progress_begin();
    status =
        stp_sweep_run(&s->device, &s->plan.plan, progress, s, &s->data, s->err);
    if (s->world->rank == 0 && prints_nccl(s))
        stp_nccl_text_write_foot(&s->total, s->coll, stdout);
    return s->saved != STP_OK ? s->saved : status;
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
    if (s->o->format == FORMAT_CSV) {
        stp_measurements_write(&s->data, s->info.what, stdout);
        return STP_OK;
    }
    if (s->o->format == FORMAT_NCCL || (prints_nccl(s) && s->arms.n == 1))
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
    status = run_plan(s);
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
    return stp_fail(err, STP_ERR_DEVICE, 0, 0,
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

static int check_arms(const struct options *o)
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
    struct options o = {.arm_places = STP_OUT_OF_PLACE, .check = 1};
    int exit_status;

    stp_options_default(&o.machine, &o.measure, NULL);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    exit_status = check_arms(&o);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    return stp_launch(argv[0], &o.machine, &o.run, body, &o);
}
