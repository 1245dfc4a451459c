/* record.c - `steptune record` */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/wrong.h"
#include "cli/cli.h"
#include "core/names.h"
#include "device/mock/engine_mock.h"
#include "launch/stop.h"
#include "launch/take.h"
#include "report/logs/job_log_machine.h"
#include "report/measurements/machine_folder.h"
#include "report/measurements/measurements_csv.h"
#include "tune/settings.h"

/* ---- defaults: on 2 GPUs some 220 seconds of recording, estimated ---- */

enum { MiB = 1 << 20, N_TYPES = 3 };

static const uint64_t max_size = (uint64_t)1 << 30;
static const uint64_t first_between = MiB, last_between = 32 * MiB;
static const uint64_t last_graph_size = 64 * MiB; /* no launch is seen above */
static const uint64_t first_sweep_size = 16;
static const uint64_t last_sweep_size = 256 * MiB;

/* Types whose choices are recorded; of the first at four times the sizes. */
static const int choice_types[N_TYPES] = {STP_TYPE_BF16, STP_TYPE_F32,
                                          STP_TYPE_I8};

/* The options of record, and the arms they name. */
struct record_options {
    struct stp_machine_options machine;
    struct stp_measure_options measure; /* its colls are all that are meant */
    struct stp_run_options run;
    struct stp_arguments arguments;
    const char *name;
    const char *output; /* NULL: the default folder */
    const char *channels;
    const char *log; /* NCCL's, of which the machine is made; or NULL */
    const char *gpu;
    bool no_overlap;
    bool force;
    struct stp_arms window_arms; /* of the window of rounds */
    struct stp_arms sweep_arms;
    char path[STP_FOLDER_PATH];
};

#define AT(member) offsetof(struct record_options, member)

static const struct stp_option record_table[] = {
    {"output", 'o', "DIR", stp_option_text, AT(output),
     .path = STP_PATH_FOLDER},
    {"channels", 0, "LIST", stp_option_text, AT(channels),
     .value = "1,2,4,8,16,24,32", .needs.without = {"from-log"}},
    {"from-log", 0, "FILE", stp_option_text, AT(log), .path = STP_PATH_READ},
    {"gpu", 0, "NAME", stp_option_text, AT(gpu), .needs.with = "from-log"},
    {"no-overlap", 0, NULL, stp_option_flag, AT(no_overlap),
     .needs.without = {"from-log"}},
    {"force", 0, NULL, stp_option_flag, .at = AT(force)},
    {0},
};

/* The name becomes a folder, and is part of lines and of other lists. */
static void record_check_options(void *options, struct argp_state *state)
{
    struct record_options *o = options;
    char *const *names = o->arguments.v;
    const char *s = names[0];

    o->name = names[0];
    if (o->run.graph > 0)
        stp_usage_error(state, "-G has no effect: times in CUDA graphs are "
                               "recorded beside the others");
    if (o->arguments.n > 1)
        stp_usage_error(state, "'%s' and '%s', expected one name", names[0],
                        names[1]);
    while (isalnum((unsigned char)*s) || (*s && strchr("_.-", *s)))
        s++;
    if (!isalnum((unsigned char)o->name[0]) || strlen(o->name) > 48 ||
        *s != '\0')
        stp_usage_error(
            state,
            "name '%s', expected at most 48 letters, digits, '_', '.' "
            "and '-', beginning with a letter or digit",
            o->name);
}

static const struct stp_command_line record_line = {
    .groups = (const struct stp_option_group[]){{.options = record_table},
                                                {.options = stp_measure_table,
                                                 .at = AT(measure),
                                                 .needs.without = {"from-log"}},
                                                {.options = stp_machine_table,
                                                 .at = AT(machine),
                                                 .needs.without = {"from-log"},
                                                 .of = " on seed stalls "},
                                                {stp_run_table, AT(run),
                                                 .heading = STP_RUN_HEADING,
                                                 .needs.without = {"from-log"}},
                                                {0}},
    .args_doc = "NAME",
    .arguments = AT(arguments),
    .none = "no name, expected what the machine is to be called",
    .check = record_check_options,
};

/* In each process; only the first has a folder. */
struct record {
    const struct record_options *o;
    const struct stp_world *world;
    struct stp_device device;
    struct stp_device_facts known;
    struct stp_machine_record machine;
    struct stp_choices_part parts[N_TYPES * NCCL_NUM_TUNED_FUNCS];
    size_t n_parts;
    struct stp_arms window_arms; /* with those of registered buffers */
    struct stp_measure_plan window;
    struct stp_arms graph_arms; /* as tune asks for them: no registered ones */
    struct stp_measure_plan graph; /* in CUDA graphs */
    struct stp_measure_plan sweep;
    size_t n_whole; /* phases: the index of record_missing */
    size_t n_done;  /* steps of a progress bar */
    size_t n_total;
    struct stp_lock lock;
    struct stp_folder folder;
    struct stp_error err;
};

/* Plans the choices: of each collective and type a range of sizes, of the first
 * type with one between each two. */
static enum stp_status record_plan_choices(struct record *r)
{
    const struct stp_measure_options *asked = &r->o->measure;
    const double factor = asked->factor > 0 ? asked->factor : 2;
    enum stp_status status = STP_OK;

    for (size_t c = 0; c < asked->n_colls; c++)
        for (int t = 0; t < N_TYPES && status == STP_OK; t++) {
            struct stp_choices_part *part = &r->parts[r->n_parts++];
            const int type = choice_types[t];
            const uint64_t grain =
                stp_size_grain(&r->machine.info, asked->colls[c], type);

            part->coll = asked->colls[c];
            part->type = type;
            status = stp_sizes_add_geometric(
                &part->sizes, asked->begin > 0 ? asked->begin : 8,
                asked->end > 0 ? asked->end : max_size,
                t == 0 ? factor : factor * factor, grain, &r->err);
            for (size_t i = part->sizes.n;
                 t == 0 && status == STP_OK && i-- > 1;) {
                const uint64_t *size = &part->sizes.size[i];

                status = stp_sizes_add(&part->sizes,
                                       stp_size_between(size[-1], size[0]),
                                       grain, &r->err);
            }
            r->n_total += part->sizes.n;
        }
    return status;
}

/* Adds three sizes between each two, where algorithms change protocols and
 * numbers of channels. */
static enum stp_status record_add_between(struct record *r, int coll,
                                          struct stp_sizes *sizes)
{
    const uint64_t grain =
        stp_size_grain(&r->machine.info, coll, STP_TYPE_BF16);

    for (size_t i = sizes->n; i-- > 1;) {
        const uint64_t from = sizes->size[i - 1], to = sizes->size[i];

        for (unsigned k = 1; k < 4; k++) {
            uint64_t size = from + k * (to - from) / 4;

            size -= size % stp_size_step(size, grain);
            if (size > first_between && size < last_between)
                STP_TRY(stp_sizes_add(sizes, size, grain, &r->err));
        }
    }
    return STP_OK;
}

/* Plans rounds in CUDA graphs, where the device has them; counts steps. */
static enum stp_status record_plan_graphs(struct record *r)
{
    const struct stp_device_info *info = &r->machine.info;
    struct stp_device_facts known;
    enum stp_status status;

    stp_device_use_graphs(&r->device, true);
    stp_get_device_facts(&r->device, &known);
    stp_device_use_graphs(&r->device, false);
    r->graph_arms = r->o->window_arms;
    status = stp_arms_add_staged(&r->graph_arms, info->setups, &r->err);
    STP_THEN(status, stp_plan_measurements(&known, &r->o->measure,
                                           &r->graph_arms, &r->graph, &r->err));
    for (size_t c = 0; c < r->graph.plan.n_colls; c++) {
        struct stp_sizes *sizes = &r->graph.sizes[c];

        if (info->is_live || stp_measure_has_sizes(&r->o->measure))
            *sizes = r->window.sizes[c];
        if (info->is_live ? !info->captures
                          : known.sizes[r->graph.colls[c]].n == 0)
            sizes->n = 0;
        while (sizes->n > 0 && sizes->size[sizes->n - 1] > last_graph_size)
            sizes->n--;
        r->n_total += sizes->n * r->graph.plan.rounds;
    }
    r->graph.plan.graph = 1;
    r->graph.plan.warmup = 0; /* what is captured runs once before */
    r->graph.plan.spread = true;
    r->graph.plan.terms.is_exact = true;
    return status;
}

/* Plans the window of rounds and the sweep of all channels; counts steps. */
static enum stp_status record_plan_times(struct record *r)
{
    const struct stp_measure_options *asked = &r->o->measure;
    const bool has_own =
        !r->machine.info.is_live && !stp_measure_has_sizes(asked);
    struct stp_measure_options m = *asked;
    enum stp_status status;

    r->window_arms = r->o->window_arms;
    status =
        stp_arms_add_setups(&r->window_arms, r->machine.info.setups, &r->err);
    STP_THEN(status, stp_plan_measurements(&r->known, asked, &r->window_arms,
                                           &r->window, &r->err));
    /* a recorded machine that knows no sizes of a collective has no times of it
     * either, or none of rounds */
    for (size_t c = 0; c < r->window.plan.n_colls; c++) {
        const int coll = r->window.colls[c];

        if (has_own && r->known.sizes[coll].n == 0)
            r->window.sizes[c].n = 0;
        if (!has_own && asked->factor == 0 && asked->step == 0)
            STP_THEN(status, record_add_between(r, coll, &r->window.sizes[c]));
        r->n_total += r->window.sizes[c].n * r->window.plan.rounds;
    }
    m.begin = m.begin > 0 ? m.begin : first_sweep_size;
    m.end = m.end > 0 ? m.end : last_sweep_size;
    m.factor = m.factor > 0 ? m.factor * m.factor : 4;
    m.step = 0;
    m.rounds = 1;
    STP_THEN(status, stp_plan_measurements(&r->known, &m, &r->o->sweep_arms,
                                           &r->sweep, &r->err));
    r->window.plan.check = r->sweep.plan.check = 1;
    r->window.plan.spread = true;
    for (size_t c = 0; c < r->sweep.plan.n_colls; c++)
        r->n_total += r->sweep.sizes[c].n;
    return status == STP_OK ? record_plan_graphs(r) : status;
}

/* Says about how long it will take: by 161 s that 2 x H200 took without graphs,
 * guesses of what captured work adds, and 331 s of 4 x H200 for 222 of 2. */
static void record_tell_time(const struct record *r)
{
    static const double window_s = .08, sweep_s = .18, graph_s = .04,
                        iterations_s = 85; /* of 5 rounds */
    double s = r->o->no_overlap ? 0 : iterations_s * r->window.plan.rounds / 5;

    for (size_t c = 0; c < r->window.plan.n_colls; c++)
        s += (double)r->window.sizes[c].n * r->window.plan.rounds * window_s +
             (double)r->sweep.sizes[c].n * sweep_s +
             (double)r->graph.sizes[c].n * r->graph.plan.rounds * graph_s;
    if (r->machine.info.is_live && r->world->rank == 0)
        stp_complain("recording takes about %.0f seconds, as estimated from 2 "
                     "and 4 x H200; what is complete is kept if it is stopped",
                     s * (.5 + .25 * r->machine.info.n_ranks));
}

static bool record_progress(void *user, size_t done, size_t total)
{
    struct record *r = user;

    return stp_progress_in(r->world, "steps", ++r->n_done, r->n_total);
}

/* A setting is one step. */
static bool record_setting_progress(void *user, size_t done, size_t total)
{
    struct record *r = user;

    r->n_done += done == total;
    return stp_progress_in(r->world, "steps", r->n_done, r->n_total);
}

/* Adds the sequential iterations that tune tries in graphs alone. */
static void record_add_captured(const struct record *r,
                                struct stp_setting *settings, size_t *n)
{
    const struct stp_measure_options *asked = &r->o->measure;
    uint64_t size = stp_settings_captured.min;

    for (; size < (uint64_t)STP_SETTINGS_FIRST_MIB * MiB; size *= 2)
        for (unsigned i = 0; i < asked->n_colls; i++)
            if (r->machine.info.setups != 0 && size >= asked->begin &&
                size <= stp_max_bytes(asked) &&
                stp_settings_has(&r->known, asked->colls[i], size))
                stp_settings_add(STP_MODE_SEQUENTIAL, asked->colls[i], size,
                                 settings, n);
}

/* Measures the iterations by which tune decides, with the arms that the window
 * favours. A recorded machine without them adds none. */
static enum stp_status record_measure_iterations(struct record *r)
{
    struct stp_setting_terms terms = {.type = STP_TYPE_BF16,
                                      .rounds = r->machine.info.is_live
                                                    ? r->window.plan.rounds
                                                    : r->o->measure.rounds,
                                      .progress = record_setting_progress,
                                      .user = r};
    struct stp_dataset *overlap = &r->machine.overlap.data;
    struct stp_setting settings[STP_MAX_SETTINGS];
    struct stp_comparisons swept = {0};
    enum stp_status status = STP_OK;
    size_t n_all = 0, n = 0, n_kept = 0;

    if (!r->o->no_overlap && !r->machine.info.models_overlap)
        status = stp_compare(&r->machine.window, &swept, &r->err);
    if (status == STP_OK)
        n_all = stp_settings_list(&swept, &r->known, settings);
    if (n_all > 0 && r->machine.info.captures)
        record_add_captured(r, settings, &n_all);
    for (size_t i = 0; i < n_all; i++)
        if (r->known.modes[settings[i].mode][settings[i].coll])
            settings[n++] = settings[i];
    r->n_total += n;
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        const size_t n_before = overlap->n_rows;
        struct stp_arms arms;

        terms.captures = settings[i].mode == STP_MODE_SEQUENTIAL;
        status = stp_setting_choose_arms(&swept, 0, &r->machine.info,
                                         &settings[i], &arms, &r->err);
        STP_THEN(status,
                 stp_setting_run(&r->device, &r->machine.info, &settings[i],
                                 &terms, &arms, &r->machine.overlap, &r->err));
        if (status != STP_OK)
            overlap->n_rows = n_before;
    }
    for (size_t i = 0; i < overlap->n_rows; i++)
        if (stp_source_decides(overlap->rows[i].source))
            overlap->rows[n_kept++] = overlap->rows[i];
    overlap->n_rows = n_kept;
    stp_comparisons_free(&swept);
    return status;
}

/* The phases that a recording lacks which is stopped after so many. */
static const char *const record_missing[] = {
    "choices",
    "interleaved rounds, channel counts, iterations and CUDA graphs",
    "channel counts, iterations and CUDA graphs",
    "iterations and CUDA graphs",
    "CUDA graphs",
};

/* Records all but the search graphs, with a progress bar.  STP_ERR_STOPPED by
 * SIGINT or SIGTERM of any process. */
static enum stp_status record_measure(struct record *r)
{
    struct stp_machine_record *to = &r->machine;
    enum stp_status status = record_plan_choices(r);

    STP_THEN(status, record_plan_times(r));
    if (status == STP_OK)
        record_tell_time(r);
    STP_THEN(status,
             stp_choices_record(&r->device, r->parts, r->n_parts,
                                record_progress, r, &to->choices, &r->err));
    r->n_whole += status == STP_OK;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && r->world->rank == 0; c++)
        if (to->choices.n_unreported[c] > 0)
            stp_complain("warning: %zu choices of %s are not recorded: NCCL %s "
                         "does not tell its profiler how they run",
                         to->choices.n_unreported[c], stp_coll_name(c),
                         to->info.nccl);
    r->window.plan.terms.is_exact = r->sweep.plan.terms.is_exact = true;
    STP_THEN(status, stp_sweep_run(&r->device, &r->window.plan, record_progress,
                                   r, &to->window, &r->err));
    r->n_whole += status == STP_OK;
    STP_THEN(status, stp_sweep_run(&r->device, &r->sweep.plan, record_progress,
                                   r, &to->sweep, &r->err));
    r->n_whole += status == STP_OK;
    STP_THEN(status, record_measure_iterations(r));
    r->n_whole += status == STP_OK;
    stp_device_use_graphs(&r->device, true);
    STP_THEN(status, stp_sweep_run(&r->device, &r->graph.plan, record_progress,
                                   r, &to->window, &r->err));
    r->n_whole += status == STP_OK;
    stp_device_use_graphs(&r->device, false);
    return status;
}

/* Leaves out the times of arms that are out by their results, as wrong.h tells:
 * those of an arm with channels as well where the arm without is. */
static void record_drop_wrong(struct stp_dataset *data,
                              const struct stp_dataset *checked)
{
    size_t n = 0;

    for (size_t i = 0; i < data->n_rows; i++) {
        struct stp_measurement m = data->rows[i];

        stp_take_wrong(checked, &m);
        m.arm.n_channels = 0;
        stp_take_wrong(checked, &m);
        m.arm = (struct stp_arm){.kind = STP_ARM_AUTO};
        stp_take_wrong(checked, &m);
        if (m.n_wrong <= 0)
            data->rows[n++] = data->rows[i];
    }
    data->n_rows = n;
}

/* Names arms with wrong results, whose times it leaves out. */
static int record_report_wrong(struct stp_machine_record *m)
{
    struct stp_dataset checked = {0};
    int exit_status = STP_EXIT_OK;
    struct stp_error err;

    if (stp_measurements_pool(&checked, &m->window, false, &err) != STP_OK ||
        (m->sweep.n_rows > 0 &&
         stp_measurements_pool(&checked, &m->sweep, false, &err) != STP_OK))
        exit_status = stp_complain_error(NULL, &err);
    else if (stp_report_wrong(NULL, &checked, true) != STP_EXIT_OK) {
        exit_status = STP_EXIT_FAILED;
        record_drop_wrong(&m->window, &checked);
        record_drop_wrong(&m->sweep, &checked);
        record_drop_wrong(&m->overlap.data, &checked);
    }
    stp_dataset_free(&checked);
    return exit_status;
}

static const char made_by[] = "steptune " STP_VERSION " record";
static const char made_of_log[] = "steptune " STP_VERSION " out of an NCCL log";

/* Plays the folder at 'path': how many choices mock NCCL makes alike, which are
 * printed if 'is_told'. */
static enum stp_status record_play(const struct record *r, const char *path,
                                   bool is_told, size_t *n_ret,
                                   struct stp_error *err)
{
    const struct stp_device_options options = {.world = &stp_world_of_one,
                                               .measures = true};
    struct stp_choices mock = {0};
    const struct stp_recorded recorded = {&r->machine, path, &mock};
    struct stp_engines engines;
    struct stp_device device;
    enum stp_status status;

    STP_TRY(stp_mock_open(path, 0, 0, &options, &engines, err));
    STP_TRY(stp_device_open(&options, &engines, &device, err));
    status = stp_choices_repeat(&device, &r->machine.choices, &mock, err);
    if (status == STP_OK)
        *n_ret = stp_recorded_alike(&recorded);
    if (status == STP_OK && is_told)
        stp_print_recorded(&recorded, r->o->machine.json, stdout);
    stp_choices_free(&mock);
    stp_device_close(&device);
    return status;
}

/* NCCL_MIN_NCHANNELS and others change the number of channels that NCCL derives
 * from the graphs: where another one explains more choices, it is said. A
 * machine that mock NCCL cannot play is kept as it is. */
static enum stp_status record_fit_channels(struct record *r)
{
    const char *path = r->folder.temporary;
    size_t derived = 0;
    size_t counted = 0;
    struct stp_error err;
    enum stp_status status;

    if (record_play(r, path, false, &derived, &err) != STP_OK) {
        stp_complain("warning: the channels are not checked: %s", err.text);
        return STP_OK;
    }
    if (derived == r->machine.choices.n_rows)
        return STP_OK;
    stp_machine_count_channels(&r->machine);
    status = stp_machine_write_info(&r->machine, &r->folder, &r->err);
    if (status != STP_OK ||
        (record_play(r, path, false, &counted, &err) == STP_OK &&
         counted > derived))
        return status;
    r->machine.n_channels = 0;
    return stp_machine_write_info(&r->machine, &r->folder, &r->err);
}

/* Takes the machine from a log instead of measuring it. */
static enum stp_status record_read_log(struct record *r, const char *graphs)
{
    struct stp_job_log log;
    unsigned shape = 0;
    enum stp_status status = stp_job_log_load(r->o->log, &log, &r->err);

    if (status != STP_OK)
        return stp_fail_in(&r->err, status, r->o->log);
    if (log.unread[0] != '\0')
        stp_complain("%s: compressed files are not read: %s", r->o->log,
                     log.unread);
    status = stp_log_machine(&log, r->o->gpu, &r->machine, &shape, &r->err);
    STP_THEN(status, stp_log_write_graphs(&log, shape, graphs, &r->err));
    if (status == STP_OK)
        stp_complain(
            "note: the log has no %stimes, which NCCL's model gives, and no "
            "order of the GPUs in channels",
            strcmp(r->machine.info.cpu_vendor, "unknown") == 0
                ? "vendor of the CPU, no "
                : "");
    r->machine.made_by = made_of_log;
    snprintf(r->machine.info.what, sizeof(r->machine.info.what),
             "%s, out of an NCCL log", r->o->name);
    stp_job_log_free(&log);
    return status;
}

/* The folder is locked until it is there or abandoned. */
static enum stp_status record_in_folder(struct record *r)
{
    const bool is_first = r->world->rank == 0;
    char graphs[STP_FOLDER_PATH];
    const struct stp_open_options open = {
        .machine = &r->o->machine,
        .run = &r->o->run,
        .world = r->world,
        .max_bytes = stp_max_bytes(&r->o->measure),
        .graphs_file = is_first ? graphs : NULL,
    };
    bool has_folder = false;
    enum stp_status status = STP_OK;

    if (is_first)
        status = stp_folder_begin(r->o->path, r->o->force, &r->folder, &r->err);
    has_folder = is_first && status == STP_OK;
    if (has_folder)
        status = stp_folder_file(&r->folder, "graphs.xml", graphs, &r->err);
    status = stp_world_agree(r->world, status, &r->err);
    if (r->o->log != NULL)
        STP_THEN(status, record_read_log(r, graphs));
    else if (status == STP_OK &&
             (status = stp_open(&open, &r->device, &r->err)) == STP_OK) {
        stp_get_device_facts(&r->device, &r->known);
        r->machine.info = r->known.info;
        status = record_measure(r);
        stp_device_close(&r->device);
    }
    if (status != STP_ERR_STOPPED && status != STP_ERR_DEVICE)
        r->n_whole = 0; /* nothing is to be kept of what was asked wrongly */
    if (has_folder && status != STP_OK && r->n_whole == 0)
        stp_folder_abandon(&r->folder);
    return status;
}

/* Writes the folder, and says how it plays. */
static int record_write(struct record *r, bool is_whole)
{
    struct stp_machine_record *m = &r->machine;
    int exit_status = record_report_wrong(m);
    size_t n_alike = 0;
    enum stp_status status;

    if (!is_whole && r->o->force && access(r->o->path, F_OK) == 0) {
        stp_folder_abandon(&r->folder);
        return stp_complain("%s stays as it was", r->o->path);
    }
    if (!is_whole)
        m->made_by = "steptune " STP_VERSION " record, stopped before its end,";
    status = stp_machine_write(m, &r->folder, &r->err);
    STP_THEN(status, record_fit_channels(r));
    if (status == STP_OK)
        status = stp_folder_commit(&r->folder, stp_machine_files, &r->err);
    else
        stp_folder_abandon(&r->folder);
    if (status != STP_OK)
        return stp_complain_error(NULL, &r->err);
    if (!is_whole)
        exit_status = stp_complain("%s has what was complete, but not all %s",
                                   r->o->path, record_missing[r->n_whole]);
    if (r->o->log != NULL && !r->o->machine.json)
        printf("%s: %u x %s on %u node%s, NCCL %s, without times\n", r->o->path,
               m->info.n_ranks, m->info.gpu, m->info.n_nodes,
               m->info.n_nodes == 1 ? "" : "s", m->info.nccl);
    if (record_play(r, r->o->path, r->o->log == NULL || r->o->machine.json,
                    &n_alike, &r->err) != STP_OK)
        return stp_complain("%s is there, but mock NCCL cannot play it: %s",
                            r->o->path, r->err.text);
    return n_alike == m->choices.n_rows ? exit_status : STP_EXIT_FAILED;
}

static int record_body(void *user, const struct stp_world *world)
{
    struct record *r = stp_take(1, sizeof(*r));
    enum stp_status status = STP_OK;
    int exit_status;

    r->o = user;
    r->world = world;
    r->machine.made_by = made_by;
    r->lock.file = -1;
    stp_stop_begin();
    if (world->rank == 0) {
        status = stp_folder_make(r->o->output, &r->err);
        STP_THEN(status, stp_lock_take(r->o->path, false, &r->lock, &r->err));
    }
    status = stp_world_agree(world, status, &r->err);
    STP_THEN(status, record_in_folder(r));
    exit_status = stp_complain_in(world, status, &r->err);
    if ((status == STP_OK || r->n_whole > 0) && world->rank == 0)
        exit_status = record_write(r, status == STP_OK);
    stp_lock_release(&r->lock);
    stp_machine_record_free(&r->machine);
    free(r);
    return exit_status;
}

int stp_cmd_record(int argc, char **argv)
{
    static const char machines[] = "fixtures/machines";
    struct record_options o = {0};
    struct stp_measure_options *m = &o.measure;
    struct stat st;
    struct stp_error err;

    stp_options_read(&record_line, argc, argv, &o);
    /* recorded machines are of bf16 sums and of all collectives */
    if (m->n_types > 1 || (m->n_types == 1 && m->types[0] != STP_TYPE_BF16))
        return STP_MISUSE("-d %s, expected bf16: times are recorded in it",
                          stp_type_name(m->types[0]));
    if (stp_is_on_cpus(o.machine.on, o.run.backend))
        return STP_MISUSE("search graphs and choices are NCCL's, expected --on "
                          "cuda or a recorded machine");
    if (stp_check_sizes(m) != STP_EXIT_OK)
        return STP_EXIT_USAGE;
    m->types[0] = STP_TYPE_BF16;
    m->n_types = 1;
    for (int c = 0; m->n_colls == (unsigned)c && c < NCCL_NUM_TUNED_FUNCS; c++)
        m->colls[m->n_colls++] = c;
    if (stp_parse_arms(NULL, "all", NULL, &o.window_arms, &err) != STP_OK ||
        stp_parse_arms(NULL, "all", o.channels, &o.sweep_arms, &err) != STP_OK)
        return STP_MISUSE("%s", err.text);
    if (o.log == NULL && stp_check_needs(o.machine.on, o.run.backend,
                                         "record NAME", false) != STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    stp_set_variable("STEPTUNE_CHAIN", "none"); /* NCCL alone is recorded */
    if (o.output == NULL)
        o.output =
            stat(machines, &st) == 0 && S_ISDIR(st.st_mode) ? machines : ".";
    if (snprintf(o.path, sizeof(o.path), "%s/%s", o.output, o.name) >=
        STP_FOLDER_PATH)
        return stp_complain("the path '%.60s...' is too long", o.output);
    return o.log != NULL ? record_body(&o, &stp_world_of_one)
                         : stp_launch(&o.machine, &o.run, record_body, &o);
}
