/* train.c - `steptune train` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/train_engines.h"
#include "launch/stop.h"
#include "launch/take.h"
#include "report/folder.h"
#include "report/training/train_json.h"
#include "report/training/train_results.h"
#include "train/train_matrix.h"

enum { DEFAULT_MICRO_BATCH = 4096 };

enum train_place {
    ON_CPUS,     /* each rank a process */
    ON_GPUS,     /* threads of one, or processes that others started */
    ON_RECORDED, /* in virtual time, one engine for all ranks */
};

struct train_options {
    enum train_place place;
    struct stp_machine_options machine;
    struct stp_run_options run;
    struct stp_train_matrix matrix; /* n_gpus 0: not given */
    double bucket_mib;
    const char *output; /* folder, or NULL */
    bool fresh;         /* discard the results in that folder */
};

/* ---- options ---- */

static const char *train_read_model(const struct stp_option *option,
                                    const char *text, void *at)
{
    const struct stp_train_model *model = stp_train_find_model(text);

    if (model == NULL)
        return "tiny, base, large or xlarge";
    *(const struct stp_train_model **)at = model;
    return NULL;
}

#define AT(member) offsetof(struct train_options, member)
#define LIST(member, length)                                                   \
    .n = AT(length), .most = STP_TRAIN_LIST,                                   \
    .size = sizeof(((struct train_options *)0)->member[0])

static const struct stp_option train_matrix_table[] = {
    {"sizes", 0, "LIST", train_read_model, AT(matrix.models), .alias = "size",
     LIST(matrix.models, matrix.n_models)},
    {"gpus", 0, "LIST", stp_option_count, AT(matrix.gpus), .alias = "procs",
     LIST(matrix.gpus, matrix.n_gpus), .min = 1, .max = STP_MAX_PROCESSES},
    {"modes", 0, "LIST", stp_option_word, AT(matrix.modes), .alias = "mode",
     LIST(matrix.modes, matrix.n_modes), .from_name = stp_train_mode_from_name,
     .max = STP_TRAIN_N_MODES - 1, .has_all = true, .value = "bucketed",
     .expected = "all, or some of single, naive, interleaved, bucketed and "
                 "sharded"},
    {"precision", 0, "LIST", stp_option_word, AT(matrix.precisions),
     LIST(matrix.precisions, matrix.n_precisions),
     .from_name = stp_precision_from_name, .value = "fp32",
     .expected = "fp32, tf32, bf16, fp16 or fp64"},
    {"ga", 0, "LIST", stp_option_count, AT(matrix.accumulate),
     LIST(matrix.accumulate, matrix.n_accumulate), .min = 1, .value = "1"},
    {0},
};

static const char *const backends[] = {"gloo", NULL};

static const char *train_find_unbucketed(const struct stp_given *given)
{
    unsigned n = 0;
    const int *modes = stp_given_value(given, "modes", &n);

    for (unsigned i = 0; i < n; i++)
        if (modes[i] == STP_TRAIN_BUCKETED)
            return NULL;
    return "without --modes bucketed";
}

static const struct stp_option train_table[] = {
    {"on", 0, "MACHINE", stp_option_text, .at = AT(machine.on)},
    {"backend", 0, "NAME", stp_option_backend, AT(run.backend),
     .words = backends},
    {"half-gradients", 0, NULL, stp_option_flag,
     .at = AT(matrix.base.half_gradients)},
    {"micro-batch", 0, "N", stp_option_count, AT(matrix.micro_batch), .min = 1},
    {"batch", 0, "N", stp_option_count, AT(matrix.base.batch), .min = 1},
    {"samples", 0, "N", stp_option_count, AT(matrix.base.n_samples), .min = 1,
     .value = "65536"},
    {"epochs", 0, "N", stp_option_count, AT(matrix.base.n_epochs), .min = 1,
     .value = "5"},
    {"warmup", 0, "N", stp_option_count, AT(matrix.base.warmup), .value = "3"},
    {"lr", 0, "RATE", stp_option_double, AT(matrix.base.rate), .above = true,
     .value = "0.01", .needs.recorded = "which computes nothing"},
    {"bucket-mb", 0, "MB", stp_option_double, AT(bucket_mib), .above = true,
     .max = 1e6, .expected = "a number above 0, at most 1000000", .value = "25",
     .needs.find_idle = train_find_unbucketed},
    {"seed", 0, "N", stp_option_number, AT(matrix.base.seed),
     .max = 0x1p53 /* whole numbers above are not exact in JSON */,
     .value = "42"},
    {0},
};

static const struct stp_option train_results_table[] = {
    {"output", 'o', "FOLDER", stp_option_text, AT(output),
     .path = STP_PATH_FOLDER},
    {"fresh", 0, NULL, stp_option_flag, AT(fresh), .needs.with = "output"},
    {"profile", 0, NULL, stp_option_flag, .at = AT(matrix.base.trace)},
    {"json", 0, NULL, stp_option_flag, .at = AT(machine.json)},
    {0},
};

static void train_check_options(void *options, struct argp_state *state)
{
    const struct train_options *o = options;

    if (o->matrix.base.batch > 0 && o->matrix.micro_batch > 0)
        stp_usage_error(state,
                        "--batch and --micro-batch, expected one of them: the "
                        "samples of a step or of a micro-batch");
}

static const struct stp_command_line train_line = {
    .groups =
        (const struct stp_option_group[]){
            {train_matrix_table,
             .heading = "What to train: all combinations of these lists"},
            {train_table, .heading = "How"},
            {train_results_table, .heading = "Results"},
            {0}},
    .check = train_check_options,
};

/* Defaults that depend on other options. */
static void train_complete(struct train_options *o)
{
    struct stp_train_matrix *m = &o->matrix;
    struct stp_train_config *c = &m->base;

    if (o->machine.on == NULL)
        o->machine.on = o->run.backend != NULL ? "cpu" : "cuda";
    o->machine.seed = c->seed;
    o->place = strcmp(o->machine.on, "cpu") == 0            ? ON_CPUS
               : stp_is_live(o->machine.on, o->run.backend) ? ON_GPUS
                                                            : ON_RECORDED;
    if (o->place == ON_CPUS && o->run.backend == NULL)
        o->run.backend = "gloo";
    if (m->n_models == 0)
        m->models[m->n_models++] =
            stp_train_find_model(o->place == ON_CPUS ? "tiny" : "base");
    if (c->batch == 0 && m->micro_batch == 0)
        m->micro_batch = DEFAULT_MICRO_BATCH;
    c->bucket_bytes = (uint64_t)(o->bucket_mib * (1 << 20));
    if (c->first_bucket_bytes > c->bucket_bytes)
        c->first_bucket_bytes = c->bucket_bytes;
    /* a process each on CPUs; GPUs have a thread */
    for (unsigned i = 0;
         o->place == ON_CPUS && i < m->n_gpus && i < STP_MAX_PASSES; i++)
        o->run.procs[o->run.n_procs++] = m->gpus[i];
}

/* ---- a start of the command ---- */

/* Results are rank 0's. */
struct train_session {
    const struct train_options *o;
    const struct stp_world *world;
    struct stp_train_jobs jobs;
    struct stp_error *err;
    struct stp_train_runs runs; /* all of the file */
    size_t *order;              /* of each job that is done, its run */
    size_t n_done;
    size_t n_there; /* of those, before this start */
    size_t n_failed;
    char path[STP_FOLDER_PATH]; /* of the file; "": there is none */
    struct stat file; /* as it was read or written last; st_ino 0: never */
};

/* ---- results of earlier starts ---- */

static size_t session_find(const struct stp_train_runs *runs,
                           const struct stp_train_run *like)
{
    size_t i = 0;

    while (i < runs->n && !stp_train_same(&runs->runs[i], like))
        i++;
    return i;
}

/* Takes what this folder has of earlier starts, and of others since.  --fresh
 * discards what was there before this process wrote its first. */
static enum stp_status session_load(struct train_session *s)
{
    const size_t before = s->runs.n;
    struct stp_train_runs read = {0};
    char text[STP_ERROR_TEXT];
    struct stp_error why;
    struct stat now;
    enum stp_status status;

    if (s->path[0] == '\0' || stat(s->path, &now) != 0 ||
        (s->file.st_ino == 0 && s->o->fresh) ||
        (now.st_ino == s->file.st_ino &&
         now.st_mtim.tv_sec == s->file.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == s->file.st_mtim.tv_nsec))
        return STP_OK;
    s->file = now;
    status = stp_train_read(s->path, &read, &why);
    if (status != STP_OK) {
        stp_error_string(&why, strrchr(s->path, '/') + 1, text, sizeof(text));
        return stp_fail(s->err, status,
                        "%s; --fresh would train all anew and write it over",
                        text);
    }
    for (size_t i = 0; i < read.n; i++) {
        struct stp_train_run *run = &read.runs[i];

        if (session_find(&s->runs, run) < before)
            continue;
        stp_train_runs_add(&s->runs, run);
        *run = (struct stp_train_run){.n_epochs = 0}; /* it moved */
    }
    stp_train_runs_free(&read);
    stp_train_derive(&s->runs);
    return STP_OK;
}

/* Whether the run of a training is there; then it is shown. */
static bool session_has(struct train_session *s,
                        const struct stp_train_report *report)
{
    struct stp_train_run like;
    size_t at;

    stp_train_describe(report, &like);
    at = session_find(&s->runs, &like);
    if (at == s->runs.n)
        return false;
    s->order[s->n_done++] = at;
    s->n_there++;
    return true;
}

/* ---- one of the jobs ---- */

/* Keeps the run, in the file, too, beside what others have written since. */
static enum stp_status session_keep(struct train_session *s,
                                    const struct stp_train_report *report)
{
    struct stp_lock lock = {0};
    enum stp_status status = STP_OK;

    if (s->path[0] != '\0') {
        STP_TRY(stp_folder_make(s->o->output, s->err));
        STP_TRY(stp_lock_take(s->path, true, &lock, s->err));
        status = session_load(s);
    }
    if (status == STP_OK && !session_has(s, report)) {
        stp_train_runs_take(&s->runs, report);
        s->order[s->n_done++] = s->runs.n - 1;
    }
    if (s->path[0] == '\0')
        return status;
    STP_THEN(status, stp_train_save(&s->runs, s->o->output, s->err));
    if (status == STP_OK)
        stat(s->path, &s->file);
    stp_lock_release(&lock);
    return status;
}

/* Whether only this training failed, and others may succeed. */
static bool session_is_its_own(enum stp_status status)
{
    return status == STP_ERR_NOMEM || status == STP_ERR_RANGE ||
           status == STP_ERR_LIMIT;
}

/* Finds the folder of a job's traces: the output folder, or, of several jobs, a
 * folder in it. */
static enum stp_status session_find_traces(const struct train_session *s,
                                           const struct stp_train_job *job,
                                           char traces[STP_CLI_PATH])
{
    const struct stp_train_config *c = &job->config;
    const char *folder = s->o->output != NULL ? s->o->output : ".";
    int n = snprintf(traces, STP_CLI_PATH, "%s", folder);

    if (c->trace && s->jobs.n > 1) {
        STP_TRY(stp_folder_make(folder, s->err));
        n = snprintf(traces, STP_CLI_PATH, "%s/trace_%s_%s_%s_ga%u_gpus%u",
                     folder, c->model->name, stp_train_mode_name((int)c->mode),
                     stp_precision_name((int)c->precision), c->accumulate,
                     job->n_gpus);
    }
    if (n >= STP_CLI_PATH)
        return stp_fail(s->err, STP_ERR_LIMIT,
                        "the folder's name is longer than %d bytes",
                        STP_CLI_PATH - 1);
    return STP_OK;
}

static bool session_goes_on(void *user)
{
    return !stp_stop_requested();
}

/* Trains one job, unless it is there already, and keeps the result: in the
 * file, too.  All processes of 'part', whose engines these are, call it.  A
 * failure of this training alone is reported and counted, and STP_OK;
 * STP_ERR_STOPPED after a signal. */
static enum stp_status session_train(struct train_session *s,
                                     const struct stp_world *part,
                                     struct stp_train_engines *engines,
                                     const struct stp_train_job *job)
{
    struct stp_device_info info;
    struct stp_train_config config = job->config;
    struct stp_train_report report = {.config = &config, .info = &info};
    const struct stp_engine *first = &engines->engines.all[0];
    struct stp_train_result result;
    const bool is_first = s->world->rank == 0;
    char traces[STP_CLI_PATH], name[STP_TRAIN_JOB_NAME];
    bool there = false;
    enum stp_status status = STP_OK;

    config.go_on = session_goes_on;
    first->ops->info(first->self, &info);
    if (s->o->output != NULL)
        stp_train_file_path(s->o->output, info.processor, s->path);
    if (is_first)
        status = session_load(s);
    if (status == STP_OK && stp_stop_requested())
        status = stp_fail(s->err, STP_ERR_STOPPED, "stopped");
    if (status == STP_OK && is_first)
        there = session_has(s, &report);
    STP_THEN(status, session_find_traces(s, job, traces));
    status = stp_world_agree(part, status, s->err);
    STP_THEN(status, stp_world_any(part, there, &there, s->err));
    if (status != STP_OK || there)
        return status;
    status = stp_train_engines_run(engines, &config, traces, &result, s->err);
    /* Rank 0 knows most of how it went, and says whether it goes on. */
    if (status == STP_OK) {
        report.result = &result;
        if (is_first)
            status = session_keep(s, &report);
        stp_train_result_free(&result);
    } else if (session_is_its_own(status)) {
        if (is_first) {
            s->n_failed++;
            stp_train_job_name(job, name);
            stp_complain("%s: %s", name, s->err->text);
        }
        status = STP_OK;
    } else if (status == STP_ERR_STOPPED && !is_first)
        status = STP_OK;
    return stp_world_agree(part, status, s->err);
}

/* ---- a count of GPUs ---- */

/* A count of GPUs that cannot be trained is reported, and the others go on,
 * unless the machine failed. */
static enum stp_status train_refuse_count(struct train_session *s, size_t first,
                                          size_t end, enum stp_status status)
{
    const unsigned n = s->jobs.jobs[first].n_gpus;

    if (s->world->rank != 0)
        return status == STP_ERR_STOPPED || session_is_its_own(status) ? STP_OK
                                                                       : status;
    if (!session_is_its_own(status))
        return status;
    s->n_failed += end - first;
    stp_complain("%u rank%s: %s", n, n == 1 ? "" : "s", s->err->text);
    return STP_OK;
}

/* Trains the jobs first to end - 1, all of one count, on as many processes as
 * it takes: one for each rank, but where GPUs are threads of one. */
static enum stp_status train_run_count(struct train_session *s, size_t first,
                                       size_t end)
{
    const unsigned n_gpus = s->jobs.jobs[first].n_gpus;
    const bool is_recorded = s->o->place == ON_RECORDED;
    const bool has_processes = s->o->place == ON_CPUS || s->world->size > 1;
    struct stp_world part;
    const struct stp_open_options open = {.machine = &s->o->machine,
                                          .run = &s->o->run,
                                          .world = &part,
                                          .n_ranks = is_recorded ? n_gpus : 0};
    struct stp_train_engines engines;
    enum stp_status status = STP_OK;

    if (has_processes && n_gpus > s->world->size) {
        status = STP_REFUSE(s->err, "%s started only %u", s->world->ops->name,
                            s->world->size);
        return train_refuse_count(s, first, end, status);
    }
    STP_TRY(s->world->ops->part(s->world->self,
                                has_processes ? n_gpus : s->world->size, &part,
                                s->err));
    if (part.size > 0) {
        status = stp_train_engines_open(
            &open, has_processes || is_recorded ? 1 : n_gpus, &engines, s->err);
        if (status != STP_OK)
            status = train_refuse_count(s, first, end, status);
        else {
            for (size_t i = first; i < end && status == STP_OK; i++) {
                if (s->world->rank == 0)
                    stp_progress("configurations", i, s->jobs.n);
                status = session_train(s, &part, &engines, &s->jobs.jobs[i]);
            }
            stp_train_engines_close(&engines);
        }
    }
    part.ops->close(part.self);
    return stp_world_agree(s->world, status, s->err);
}

/* ---- output ---- */

/* Prints what there is; of rank 0. */
static enum stp_status train_conclude(const struct train_session *s,
                                      enum stp_status status)
{
    struct stp_train_runs shown = {.n = s->n_done};

    if (status != STP_OK)
        stp_progress_clear();
    if (s->n_there > 0)
        stp_complain("%zu of %zu configurations were in %s already; --fresh "
                     "trains them anew",
                     s->n_there, s->jobs.n, s->o->output);
    STP_TAKE(shown.runs, s->n_done);
    for (size_t i = 0; i < s->n_done; i++)
        shown.runs[i] = s->runs.runs[s->order[i]];
    if (s->o->machine.json)
        stp_train_print_json(&shown, stdout);
    else if (s->jobs.n == 1 && s->n_done == 1)
        stp_train_print_run(&shown.runs[0], stdout);
    else if (s->n_done > 0)
        stp_train_print_summary(&shown, stdout);
    free(shown.runs); /* their data are in s->runs */
    if (status == STP_ERR_STOPPED && stp_stop_requested())
        stp_fail(s->err, status,
                 "stopped by a signal after %zu of %zu configurations%s",
                 s->n_done, s->jobs.n,
                 s->o->output != NULL ? "; the same command goes on from there"
                                      : "");
    return status;
}

/* ---- the command ---- */

static enum stp_status train_plan(struct train_session *s)
{
    struct stp_train_matrix matrix = s->o->matrix;
    char skipped[STP_TRAIN_SKIPPED];
    const struct stp_open_options open = {
        .machine = &s->o->machine, .run = &s->o->run, .world = s->world};
    struct stp_engines engines;
    const struct stp_engine *engine = &engines.all[0];
    struct stp_device_info info = {.n_ranks = s->world->size};

    /* of a recorded machine all GPUs, if no count was given */
    if (matrix.n_gpus == 0 && s->o->place == ON_RECORDED) {
        STP_TRY(stp_open_engines(&open, 1, &engines, s->err));
        engine->ops->info(engine->self, &info);
        engine->ops->close(engine->self);
    }
    if (matrix.n_gpus == 0)
        matrix.gpus[matrix.n_gpus++] = info.n_ranks;
    STP_TRY(stp_train_plan(&matrix, &s->jobs, s->err));
    stp_train_skipped(&matrix, skipped);
    if (s->jobs.n == 0)
        return STP_REFUSE(s->err, "nothing to train: %s", skipped);
    if (skipped[0] != '\0' && s->world->rank == 0)
        stp_complain("%s", skipped);
    STP_TAKE(s->order, s->jobs.n);
    return STP_OK;
}

static int train_body(void *user, const struct stp_world *world)
{
    struct stp_error err = {0};
    struct train_session s = {.o = user, .world = world, .err = &err};
    const struct stp_train_job *jobs;
    enum stp_status status;
    int exit_status;

    stp_stop_begin();
    status = train_plan(&s);
    jobs = s.jobs.jobs;
    if (status == STP_OK) {
        for (size_t first = 0, end; first < s.jobs.n && status == STP_OK;
             first = end) {
            for (end = first + 1;
                 end < s.jobs.n && jobs[end].n_gpus == jobs[first].n_gpus;)
                end++;
            status = train_run_count(&s, first, end);
        }
        if (world->rank == 0 && status == STP_OK)
            stp_progress("configurations", s.jobs.n, s.jobs.n);
        if (world->rank == 0)
            status = train_conclude(&s, status);
    }
    exit_status = stp_complain_in(world, status, &err);
    if (status == STP_OK && s.n_failed > 0)
        exit_status = STP_EXIT_FAILED; /* said already */
    stp_train_jobs_free(&s.jobs);
    stp_train_runs_free(&s.runs);
    free(s.order);
    return exit_status;
}

int stp_cmd_train(int argc, char **argv)
{
    struct train_options o = {0};
    int exit_status;

    stp_train_default(&o.matrix.base);
    o.matrix.base.batch = 0;
    stp_options_read(&train_line, argc, argv, &o);
    exit_status = stp_check_needs(o.machine.on, o.run.backend, "train", false);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    train_complete(&o);
    return stp_launch(&o.machine, &o.run, train_body, &o);
}
