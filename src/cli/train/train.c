/* train.c - `steptune train` */
#include "cli/train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "launch/stop.h"
#include "report/training/train_summary.h"

static const char command_name[] = "steptune train";

enum { FILE_MAX = 1 << 28 /* bytes of a policy or plugin */ };

/* ---- what tunes ---- */

/* FNV-1a over the bytes of a file, from 'hash' on. */
static enum stp_status hash_file(const char *path, uint64_t *hash,
                                 struct stp_error *err)
{
    char *text;
    size_t len;
    enum stp_status status = stp_read_file(path, FILE_MAX, &text, &len, err);

    if (status != STP_OK)
        return status;
    for (size_t i = 0; i < len; i++)
        *hash = (*hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    free(text);
    return STP_OK;
}

/* What a job on a recorded machine would have. */
static enum stp_status recorded_environment(const struct stp_train_options *o,
                                            struct stp_error *err)
{
    char machine[STP_CLI_PATH];
    enum stp_status status = stp_find_machine(o->machine.on, machine, err);

    return status == STP_OK
               ? stp_set_plugin_environment(machine, o->policy, err)
               : status;
}

static int check_policy(const char *path, bool ours)
{
    struct stp_policy *policy = NULL;
    const int exit_status =
        stp_load_plugin_policy(command_name, path, ours, &policy);

    stp_policy_free(policy);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if (setenv("NCCL_TUNER_CONFIG_FILE", path, 1) != 0 ||
        unsetenv("NCCL_WORKLOAD_OVERLAP") != 0)
        return stp_complain(command_name, "cannot set the environment");
    return STP_EXIT_OK;
}

/* In every process, before an engine is opened. */
static int find_tuner(struct stp_train_session *s, char path[STP_CLI_PATH])
{
    const struct stp_train_options *o = s->o;
    uint64_t hash = 0xcbf29ce484222325u;
    struct stp_error err;

    if (o->policy == NULL && o->plugin == NULL)
        return STP_EXIT_OK;
    s->plugin = o->plugin != NULL ? o->plugin : path;
    if (o->policy != NULL &&
        check_policy(o->policy, o->plugin == NULL) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    if (o->plugin == NULL && stp_find_plugin("steptune", path, &err) != STP_OK)
        return stp_complain_error(command_name, NULL, &err);
    if (o->place == STP_TRAIN_ON_RECORDED &&
        recorded_environment(o, &err) != STP_OK)
        return stp_complain_error(command_name, NULL, &err);
    if (o->policy != NULL && hash_file(o->policy, &hash, &err) != STP_OK)
        return stp_complain_error(command_name, o->policy, &err);
    /* A name without a path is NCCL's to find. */
    if (o->plugin != NULL && access(o->plugin, F_OK) == 0 &&
        hash_file(o->plugin, &hash, &err) != STP_OK)
        return stp_complain_error(command_name, o->plugin, &err);
    snprintf(s->tuner, sizeof(s->tuner), "%s",
             stp_base_name(o->policy != NULL ? o->policy : o->plugin));
    snprintf(s->pair, sizeof(s->pair), "%016jx", (uintmax_t)hash);
    return STP_EXIT_OK;
}

/* ---- a count of GPUs ---- */

static bool ranks_are_processes(const struct stp_train_session *s)
{
    return s->o->place == STP_TRAIN_ON_CPUS || s->world->size > 1;
}

/* Whether others may go is not known by a count that does not, unless the
 * machine failed. */
static enum stp_status refuse_count(struct stp_train_session *s, size_t first,
                                    size_t end, enum stp_status status,
                                    struct stp_error *err)
{
    const unsigned n = s->jobs.jobs[first].n_gpus;

    if (s->world->rank != 0)
        return status == STP_ERR_STOPPED || stp_train_is_its_own(status)
                   ? STP_OK
                   : status;
    if (!stp_train_is_its_own(status))
        return status;
    s->n_failed += end - first;
    stp_progress_clear();
    stp_complain(command_name, "%u rank%s: %s", n, n == 1 ? "" : "s",
                 err->text);
    return STP_OK;
}

/* Jobs first to end - 1, all of one count. */
static enum stp_status run_part(struct stp_train_session *s,
                                const struct stp_world *part, size_t first,
                                size_t end, struct stp_error *err)
{
    const unsigned n_gpus = s->jobs.jobs[first].n_gpus;
    const bool is_recorded = s->o->place == STP_TRAIN_ON_RECORDED;
    const struct stp_open_options open = {.machine = &s->o->machine,
                                          .run = &s->o->run,
                                          .world = part,
                                          .n_ranks = is_recorded ? n_gpus : 0,
                                          .plugin = s->plugin};
    struct stp_train_engines engines;
    enum stp_status status = stp_train_engines_open(
        &open, ranks_are_processes(s) || is_recorded ? 1 : n_gpus, &engines,
        err);

    if (status != STP_OK)
        return refuse_count(s, first, end, status, err);
    for (size_t i = first; i < end && status == STP_OK; i++) {
        if (s->world->rank == 0)
            stp_progress("configurations", i, s->jobs.n);
        status = stp_train_one(s, part, &engines, &s->jobs.jobs[i], err);
    }
    stp_train_engines_close(&engines);
    return status;
}

static enum stp_status run_count(struct stp_train_session *s, size_t first,
                                 size_t end, struct stp_error *err)
{
    const unsigned n =
        ranks_are_processes(s) ? s->jobs.jobs[first].n_gpus : s->world->size;
    struct stp_world part;
    enum stp_status status;

    if (n > s->world->size) {
        status = stp_fail(err, STP_ERR_RANGE, "%s started only %u",
                          s->world->ops->name, s->world->size);
        return refuse_count(s, first, end, status, err);
    }
    status = s->world->ops->part(s->world->self, n, &part, err);
    if (status != STP_OK)
        return status;
    if (part.size > 0)
        status = run_part(s, &part, first, end, err);
    part.ops->close(part.self);
    return stp_world_agree(s->world, status, err);
}

static enum stp_status run_all(struct stp_train_session *s,
                               struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t first = 0, end; first < s->jobs.n && status == STP_OK;
         first = end) {
        for (end = first + 1; end < s->jobs.n && s->jobs.jobs[end].n_gpus ==
                                                     s->jobs.jobs[first].n_gpus;
             end++)
            ;
        status = run_count(s, first, end, err);
    }
    if (s->world->rank == 0 && status == STP_OK)
        stp_progress("configurations", s->jobs.n, s->jobs.n);
    return status;
}

/* ---- what it was ---- */

static enum stp_status print(const struct stp_train_session *s,
                             struct stp_error *err)
{
    struct stp_train_runs shown = {
        .runs = calloc(s->n_order + 1, sizeof(*shown.runs)), .n = s->n_order};
    enum stp_status status = STP_OK;

    if (shown.runs == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < s->n_order; i++)
        shown.runs[i] = s->runs.runs[s->order[i]];
    if (s->o->machine.json)
        status = stp_train_print_json(&shown, stdout, err);
    else if (s->jobs.n == 1 && s->n_order == 1)
        stp_train_print_run(&shown.runs[0], stdout);
    else if (s->n_order > 0)
        status = stp_train_print_summary(&shown, stdout, err);
    free(shown.runs); /* what they point to is in s->runs */
    return status;
}

static void say_what_was_there(const struct stp_train_session *s)
{
    if (s->n_there > 0)
        stp_complain(command_name,
                     "%zu of %zu configurations were in %s already; --fresh "
                     "trains them anew",
                     s->n_there, s->jobs.n, s->o->output);
}

/* Of rank 0. */
static enum stp_status conclude(const struct stp_train_session *s,
                                enum stp_status status, struct stp_error *err)
{
    enum stp_status printed;
    struct stp_error why;

    if (status != STP_OK)
        stp_progress_clear();
    say_what_was_there(s);
    printed = print(s, &why);
    if (status == STP_OK && printed != STP_OK) {
        *err = why;
        return printed;
    }
    if (status == STP_ERR_STOPPED && stp_stop_wished())
        stp_fail(err, status,
                 "stopped by a signal after %zu of %zu configurations%s",
                 s->n_done, s->jobs.n,
                 s->o->output != NULL ? "; the same command goes on from there"
                                      : "");
    return status;
}

/* ---- the command ---- */

/* Those that are there, if none were asked for. */
static enum stp_status count_gpus(const struct stp_train_session *s,
                                  struct stp_train_matrix *matrix,
                                  struct stp_error *err)
{
    const struct stp_open_options open = {
        .machine = &s->o->machine, .run = &s->o->run, .world = s->world};
    struct stp_engine engine;
    struct stp_engine_info info = {.n_ranks = s->world->size};
    enum stp_status status = STP_OK;

    if (matrix->n_gpus > 0)
        return STP_OK;
    if (s->o->place == STP_TRAIN_ON_RECORDED) {
        status = stp_open_engines(&open, 1, &engine, err);
        if (status != STP_OK)
            return status;
        engine.ops->info(engine.self, &info);
        engine.ops->close(engine.self);
    }
    matrix->gpus[matrix->n_gpus++] = info.n_ranks;
    return status;
}

static enum stp_status plan(struct stp_train_session *s, struct stp_error *err)
{
    struct stp_train_matrix matrix = s->o->matrix;
    char skipped[STP_TRAIN_SKIPPED];
    enum stp_status status;

    status = count_gpus(s, &matrix, err);
    if (status == STP_OK)
        status = stp_train_plan(&matrix, &s->jobs, err);
    if (status != STP_OK)
        return status;
    stp_train_skipped(&matrix, skipped);
    if (s->jobs.n == 0)
        return stp_fail(err, STP_ERR_RANGE, "nothing to train: %s", skipped);
    if (skipped[0] != '\0' && s->world->rank == 0)
        stp_complain(command_name, "%s", skipped);
    s->order = calloc(2 * s->jobs.n, sizeof(*s->order));
    return s->order != NULL ? STP_OK : stp_nomem(err);
}

static void end_session(struct stp_train_session *s)
{
    stp_train_jobs_free(&s->jobs);
    stp_train_runs_free(&s->runs);
    free(s->order);
}

static int body(void *user, const struct stp_world *world)
{
    struct stp_train_session s = *(const struct stp_train_session *)user;
    struct stp_error err = {0};
    enum stp_status status;
    int exit_status;

    s.world = world;
    stp_stop_begin();
    status = plan(&s, &err);
    if (status == STP_OK) {
        status = run_all(&s, &err);
        if (world->rank == 0)
            status = conclude(&s, status, &err);
    }
    exit_status = stp_complain_in(command_name, world, status, &err);
    if (status == STP_OK && s.n_failed > 0)
        exit_status = STP_EXIT_FAILED; /* said already */
    end_session(&s);
    return exit_status;
}

int stp_cmd_train(int argc, char **argv)
{
    struct stp_train_options o;
    struct stp_train_session s = {.o = &o};
    char plugin[STP_CLI_PATH];
    int exit_status;

    stp_train_parse(argc, argv, &o);
    if (o.place == STP_TRAIN_ON_CPUS) /* a process each; GPUs have a thread */
        for (unsigned i = 0; i < o.matrix.n_gpus && i < STP_MAX_PASSES; i++)
            o.run.procs[o.run.n_procs++] = o.matrix.gpus[i];
    exit_status = find_tuner(&s, plugin);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    return stp_launch(command_name, &o.machine, &o.run, body, &s);
}
