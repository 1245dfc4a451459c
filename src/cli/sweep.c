/* sweep.c - `steptune sweep` */
#include <stdio.h>
#include <string.h>

#include "analyse/compare.h"
#include "cli/cli.h"
#include "core/text.h"
#include "launch/stop.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/nccl_text.h"
#include "report/results/results.h"
#include "report/terminal.h"

/* ---- options ---- */

enum sweep_format {
    FORMAT_DEFAULT,
    FORMAT_NCCL,
    FORMAT_TABLE,
    FORMAT_CSV,
    FORMAT_JSON
};

struct sweep_options {
    struct stp_machine_options machine;
    struct stp_measure_options measure;
    struct stp_run_options run;
    const char *arms; /* NULL: not given */
    const char *channels;
    const char *output;
    int ops[STP_N_OPS]; /* enum stp_op, one after the other */
    unsigned n_ops;
    int arm_places;
    unsigned check;
    int format; /* enum sweep_format */
};

#define AT(member) offsetof(struct sweep_options, member)

/* An operation, or as nccl-tests have no file of results, a file's name. */
static const char *sweep_read_o(const struct stp_option *option,
                                const char *text, void *at)
{
    struct sweep_options *o = at;
    const bool is_all = strcmp(text, "all") == 0;
    const int op = stp_op_from_name(text, strlen(text));

    if (is_all || (op >= 0 && op < STP_N_OPS)) {
        o->n_ops = is_all ? STP_N_OPS : 1;
        for (int i = 0; i < (int)o->n_ops; i++)
            o->ops[i] = is_all ? i : op;
        return NULL;
    }
    o->output = text;
    return strpbrk(text, "./") != NULL
               ? NULL
               : "sum, prod, min, max, avg or all, or a file's name with a dot "
                 "in it";
}

static const char *const places[] = {"out", "in", "both", NULL};
static const char *const formats[] = {"nccl", "table", "csv", "json", NULL};

static const char *sweep_find_rootless(const struct stp_given *given)
{
    unsigned n = 0;
    const int *colls = stp_given_value(given, "collective", &n);

    for (unsigned i = 0; i < n; i++)
        if (colls[i] == ncclFuncBroadcast || colls[i] == ncclFuncReduce)
            return NULL;
    /* what a recorded machine has times of is known when it is opened */
    return n > 0 || !stp_given_is_recorded(given)
               ? "without --collective broadcast or reduce"
               : NULL;
}

static const char *sweep_find_unchecked(const struct stp_given *given)
{
    unsigned n;
    const unsigned *check = stp_given_value(given, "check", &n);

    return *check > 0 && stp_given_is_recorded(given)
               ? "on a recorded machine, which computes nothing to check"
               : NULL;
}

static const struct stp_option sweep_table[] = {
    {"arms", 0, "LIST", stp_option_text, .at = AT(arms)},
    {"channels", 0, "LIST", stp_option_text, AT(channels),
     .needs.find_idle = stp_find_idle_channels},
    {"bytes", 0, "LIST", stp_option_size, AT(measure.bytes),
     .alias = "sizes-bytes", .expected = "sizes such as 1M,10M",
     .n = AT(measure.n_bytes), .size = sizeof(uint64_t),
     .most = STP_MAX_SETTING_SIZES},
    {"op", 'o', "OP", sweep_read_o, 0, .value = "sum"},
    {"root", 'r', "RANK", stp_option_count, AT(measure.root), .value = "0",
     .needs.find_idle = sweep_find_rootless},
    {"check", 'c', "N", stp_option_count, AT(check), .value = "1",
     .needs.find_idle = sweep_find_unchecked},
    {"place", 0, "out|in|both", stp_option_word, AT(arm_places),
     .words = places, .min = STP_OUT_OF_PLACE, .value = "out",
     .needs.recorded = "whose times are of results out of place"},
    {"output", 0, "FILE", stp_option_text, AT(output), .path = STP_PATH_WRITE,
     .over = "measurements of Steptune"},
    {"format", 0, "FORMAT", stp_option_word, AT(format), .words = formats,
     .min = FORMAT_NCCL},
    {0},
};

/* -o may be a file's name, which the table does not know. */
static void sweep_check_options(void *options, struct argp_state *state)
{
    struct sweep_options *o = options;
    const struct stp_measure_options *m = &o->measure;
    bool reduces = m->n_colls == 0; /* or all collectives only move data */

    for (unsigned i = 0; i < m->n_colls; i++)
        reduces |= m->colls[i] != ncclFuncBroadcast &&
                   m->colls[i] != ncclFuncAllGather;
    if ((o->n_ops > 1 || o->ops[0] != STP_OP_SUM) && !reduces)
        stp_usage_error(
            state,
            "-o has no effect on these collectives, which reduce nothing");
    if (m->n_bytes > 0 &&
        (m->begin > 0 || m->end > 0 || m->factor > 0 || m->step > 0))
        stp_usage_error(state, "--bytes with a range of sizes, expected either "
                               "the list or -b, -e, -f and -i");
    if (o->format != FORMAT_DEFAULT)
        o->machine.json = o->format == FORMAT_JSON;
}

static const struct stp_command_line sweep_line = {
    .groups =
        (const struct stp_option_group[]){
            {.options = sweep_table},
            {.options = stp_measure_table, .at = AT(measure)},
            {stp_machine_table, AT(machine), .needs.without = {"format"},
             .of = "json"},
            {stp_run_table, AT(run), .heading = STP_RUN_HEADING},
            {0}},
    .check = sweep_check_options,
};

/* ---- one pass ---- */

struct sweep {
    const struct sweep_options *o;
    const struct stp_world *world;
    struct stp_arms arms;
    struct stp_device device;
    struct stp_device_facts known;
    struct stp_measure_plan plan;
    struct stp_dataset data; /* of all passes */
    size_t n_printed;        /* rows of it that are in the text */
    unsigned n_passes;       /* so far */
    size_t n_saved;          /* rows of it that were in the file at last */
    int coll;                /* of the section that is being printed */
    struct stp_nccl_text_total total;
    struct stp_error *err;
    enum stp_status saved; /* how saving went, and why not */
    struct stp_error saved_err;
};

static bool sweep_prints_nccl(const struct sweep *s)
{
    return s->o->format == FORMAT_NCCL ||
           (s->o->format == FORMAT_DEFAULT && s->known.info.is_live &&
            !s->o->machine.json);
}

/* JSON if the file's name says so, else CSV. */
static enum stp_status sweep_save(struct sweep *s, struct stp_error *err)
{
    const char *path = s->o->output;
    const size_t len = path != NULL ? strlen(path) : 0;
    struct stp_file file;

    if (path == NULL || s->data.n_rows == 0)
        return STP_OK;
    if (len <= 5 || strcmp(&path[len - 5], ".json") != 0)
        return stp_measurements_save(&s->data, s->known.info.what, path, err);
    STP_TRY(stp_file_begin(path, &file, err));
    stp_print_sweep_json(&s->data, file.fp);
    return stp_file_commit(&file, err);
}

static void sweep_print_head(struct sweep *s)
{
    const struct stp_sweep_plan *plan = &s->plan.plan;
    const struct stp_sizes *sizes = &plan->sizes[0];
    const struct stp_measure_options *m = &s->o->measure;
    const bool has_their_sizes = /* of a list, or of the machine */
        m->n_bytes > 0 ||
        (!stp_measure_has_sizes(m) && s->known.sizes[plan->colls[0]].n > 0);
    const struct stp_nccl_text_run run = {
        .version = STP_VERSION,
        .n_threads = s->o->run.n_threads > 0 ? s->o->run.n_threads
                     : s->o->run.n_gpus > 0 || s->world->size > 1
                         ? 1
                         : s->known.info.n_ranks,
        .n_gpus = s->o->run.n_gpus > 0 ? s->o->run.n_gpus : 1,
        .min_bytes = sizes->size[0],
        .max_bytes = sizes->size[sizes->n - 1],
        .factor = m->factor > 0                    ? m->factor
                  : m->step > 0 || has_their_sizes ? 0
                                                   : 2,
        .step_bytes = m->step,
        .warmup = plan->warmup,
        .iters = plan->iters,
        .up_to = plan->turn_us > 0,
        .rounds = plan->rounds,
        .agg_iters = 1,
        .check = s->known.info.has_data ? plan->check : 0,
        .graph = plan->graph,
    };

    stp_nccl_text_write_head(&run, plan->colls[0], &s->device, stdout);
    stp_nccl_text_write_columns(stdout);
    s->coll = plan->colls[0];
    s->total = (struct stp_nccl_text_total){0};
}

static void sweep_print_section(struct sweep *s, int coll,
                                const struct stp_arm *arm)
{
    stp_nccl_text_write_section(coll, arm, stdout);
    stp_nccl_text_write_columns(stdout);
    s->coll = coll;
    s->total.times.rounds = 0; /* said once more */
}

static void sweep_print_row(struct sweep *s, const struct stp_measurement *like)
{
    struct stp_nccl_text_row row = stp_nccl_text_collapse(&s->data, like);

    stp_nccl_text_write_row(&row, &s->total, stdout);
}

/* Whether an earlier row from 'begin' on is of the same size, or 'same_size' is
 * false, and the same collective and arm. */
static bool sweep_is_seen(const struct sweep *s, size_t begin, size_t i,
                          bool same_size)
{
    const struct stp_measurement *m = &s->data.rows[i];

    for (size_t k = begin; k < i; k++)
        if (stp_same_run(&s->data.rows[k], m) &&
            (!same_size || s->data.rows[k].n_bytes == m->n_bytes))
            return true;
    return false;
}

/* After every size: prints AUTO's row of it, and saves the measurements so far.
 * The file is written as a whole: once it is long, it waits for a hundredth
 * more, or a sweep of thousands of sizes would spend its time on files. */
static bool sweep_progress(void *user, size_t done, size_t total)
{
    struct sweep *s = user;
    bool stop = true;

    if (s->world->rank == 0) {
        if (sweep_prints_nccl(s) && s->n_printed < s->data.n_rows) {
            const struct stp_measurement *first = &s->data.rows[s->n_printed];

            stp_progress_clear();
            if (first->coll != s->coll)
                sweep_print_section(s, first->coll, &first->arm);
            sweep_print_row(s, first);
            fflush(stdout);
        }
        if (s->data.n_rows - s->n_saved >= s->n_saved / 100) {
            s->saved = sweep_save(s, &s->saved_err);
            s->n_saved = s->data.n_rows;
        }
        stp_progress(NULL, done, total);
    }
    s->n_printed = s->data.n_rows;
    if (stp_world_any(s->world, stp_stop_requested() || s->saved != STP_OK,
                      &stop, &s->saved_err) != STP_OK)
        s->saved = STP_ERR_DEVICE;
    return !stop;
}

static enum stp_status sweep_run_plan(struct sweep *s, int type, int op)
{
    const struct sweep_options *o = s->o;
    const struct stp_device_info *info = &s->known.info;
    const char *arms = info->has_arms && info->n_ranks > 1 ? "all" : "auto";
    const bool prints = s->world->rank == 0 && sweep_prints_nccl(s);
    const size_t begin = s->data.n_rows;
    struct stp_measure_options measure = o->measure;
    struct stp_sweep_plan *plan = &s->plan.plan;
    enum stp_status status = stp_parse_arms(
        info, o->arms != NULL ? o->arms : arms, o->channels, &s->arms, s->err);

    measure.types[0] = type;
    measure.op = op;
    STP_THEN(status, stp_plan_measurements(&s->known, &measure, &s->arms,
                                           &s->plan, s->err));
    plan->arm_places = (unsigned)o->arm_places;
    plan->auto_places = info->is_live ? STP_OUT_OF_PLACE | STP_IN_PLACE
                                      : (unsigned)o->arm_places;
    plan->check = o->check;
    plan->graph = o->run.graph;
    plan->seed = o->machine.seed;
    if (status != STP_OK)
        return status;
    if (s->world->rank == 0)
        stp_report_begin(info, &o->measure, &s->plan);
    if (prints)
        sweep_print_head(s);
    stp_stop_begin();
    status =
        stp_sweep_run(&s->device, plan, sweep_progress, s, &s->data, s->err);
    /* the arms other than AUTO, a section each */
    for (size_t i = begin;
         prints && o->format == FORMAT_NCCL && i < s->data.n_rows; i++) {
        const struct stp_measurement *first = &s->data.rows[i];

        if (first->arm.kind == STP_ARM_AUTO ||
            sweep_is_seen(s, begin, i, false))
            continue;
        stp_nccl_text_write_foot(&s->total, s->coll, stdout);
        s->total = (struct stp_nccl_text_total){0};
        sweep_print_section(s, first->coll, &first->arm);
        for (size_t k = i; k < s->data.n_rows; k++)
            if (stp_same_run(&s->data.rows[k], first) &&
                !sweep_is_seen(s, begin, k, true))
                sweep_print_row(s, &s->data.rows[k]);
    }
    if (prints)
        stp_nccl_text_write_foot(&s->total, s->coll, stdout);
    if (s->saved == STP_OK)
        return status;
    *s->err = s->saved_err;
    return s->saved;
}

/* Runs a pass with the first 'n' processes, in their own world. If several
 * types or operations were given, those that the device lacks are left out. */
static enum stp_status sweep_run_pass(struct sweep *s,
                                      const struct stp_world *world)
{
    const struct sweep_options *o = s->o;
    const size_t n_types = o->measure.n_types > 0 ? o->measure.n_types : 1;
    const struct stp_open_options open = {.machine = &o->machine,
                                          .run = &o->run,
                                          .world = world,
                                          .max_bytes =
                                              stp_max_bytes(&o->measure)};
    char *what = s->known.info.what, last[sizeof(s->known.info.what)];
    enum stp_status status = stp_open(&open, &s->device, s->err);

    if (status != STP_OK)
        return status;
    s->world = world;
    stp_get_device_facts(&s->device, &s->known);
    /* the numbers of processes there were so far, if several */
    memcpy(last, what, sizeof(last));
    what[0] = '\0';
    for (unsigned i = 0; i <= s->n_passes && s->n_passes > 0; i++)
        stp_append(what, sizeof(last), "%u%s", o->run.procs[i],
                   i < s->n_passes
                       ? ", "
                       : " processes, one number after the other, the last: ");
    stp_append(what, sizeof(last), "%s", last);
    s->n_passes++;
    for (size_t t = 0; t < n_types; t++)
        for (size_t i = 0; i < o->n_ops && status == STP_OK; i++) {
            status = sweep_run_plan(s, o->measure.types[t], o->ops[i]);
            if (status != STP_ERR_RANGE || n_types * o->n_ops == 1)
                continue;
            if (s->world->rank == 0)
                fprintf(stderr, "steptune sweep: left out: %s\n", s->err->text);
            status = STP_OK;
        }
    stp_device_close(&s->device);
    return status;
}

/* ---- all of it ---- */

/* Saves the measurements and prints them, even after a failure. */
static enum stp_status sweep_report(struct sweep *s, struct stp_error *err)
{
    struct stp_comparisons comparisons;
    bool has_arms = false;

    STP_TRY(sweep_save(s, err));
    if (s->o->machine.json) {
        stp_print_sweep_json(&s->data, stdout);
        return STP_OK;
    }
    if (s->o->format == FORMAT_CSV) {
        stp_measurements_write(&s->data, s->known.info.what, stdout);
        return STP_OK;
    }
    if (s->o->format == FORMAT_NCCL || (sweep_prints_nccl(s) && s->arms.n == 1))
        return STP_OK;
    STP_TRY(stp_compare(&s->data, &comparisons, err));
    if (sweep_prints_nccl(s)) {
        puts("# The best arm of each size:\n#");
    } else {
        stp_print_paragraph(s->known.info.what, stdout);
        putchar('\n');
    }
    for (size_t i = 0; i < comparisons.n_points; i++)
        has_arms |= comparisons.points[i].n_arms > 0;
    if (s->o->format != FORMAT_TABLE && has_arms) {
        stp_print_sweep_best(s->known.info.tuner, &comparisons, stdout);
    } else {
        stp_print_sweep(&comparisons, stdout);
        stp_print_steadiness(&comparisons, stdout);
    }
    stp_comparisons_free(&comparisons);
    if (s->o->output != NULL)
        printf("Wrote %zu measurements to %s.\n", s->data.n_rows, s->o->output);
    return STP_OK;
}

static int sweep_body(void *user, const struct stp_world *world)
{
    struct stp_error err = {0};
    struct stp_error later;
    struct sweep s = {.o = user, .err = &err};
    const struct stp_run_options *run = &s.o->run;
    const unsigned n_passes = run->n_procs > 0 ? run->n_procs : 1;
    enum stp_status status = STP_OK;
    int exit_status = STP_EXIT_OK;

    /* All are here before the next pass, also those that sat it out. */
    for (unsigned i = 0; i < n_passes && status == STP_OK; i++) {
        unsigned n = run->n_procs > 0 ? run->procs[i] : world->size;
        struct stp_world part;

        status = world->ops->part(world->self, n, &part, &err);
        if (status != STP_OK)
            break;
        if (part.size > 0)
            status = sweep_run_pass(&s, &part);
        part.ops->close(part.self);
        STP_THEN(status, stp_world_agree(world, STP_OK, &err));
    }
    if (world->rank == 0 && s.data.n_rows > 0 &&
        sweep_report(&s, status == STP_OK ? &err : &later) != STP_OK &&
        status == STP_OK)
        status = STP_ERR_IO;
    if (status == STP_OK && world->rank == 0) {
        exit_status = stp_report_arms(s.o->arms, &s.data);
        stp_report_again(&s.data);
        if (stp_report_wrong(NULL, &s.data, true) != STP_EXIT_OK)
            exit_status = STP_EXIT_FAILED;
    }
    stp_dataset_free(&s.data);
    return status == STP_OK ? exit_status
                            : stp_complain_in(world, status, &err);
}

int stp_cmd_sweep(int argc, char **argv)
{
    struct sweep_options o = {0};
    int exit_status;

    stp_options_read(&sweep_line, argc, argv, &o);
    exit_status =
        stp_check_arms(o.arms, o.channels, o.measure.colls, o.measure.n_colls);
    STP_THEN(exit_status, stp_check_sizes(&o.measure));
    if (exit_status == STP_EXIT_OK)
        exit_status =
            stp_check_needs(o.machine.on, o.run.backend, "sweep", false);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    return stp_launch(&o.machine, &o.run, sweep_body, &o);
}
