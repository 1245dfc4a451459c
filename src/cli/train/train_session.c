/* train_session.c - one training of the matrix: whether it is there, how it
 * went
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/train/train.h"
#include "launch/stop.h"
#include "report/folder.h"

/* ---- what is there already ---- */

static enum stp_status load(struct stp_train_session *s, const char *gpu,
                            struct stp_error *err)
{
    char *path;
    enum stp_status status = STP_OK;
    struct stp_error why = {0};

    s->is_loaded = true;
    if (s->o->output == NULL || s->o->fresh)
        return STP_OK;
    path = stp_train_file_path(s->o->output, gpu);
    if (path == NULL)
        return stp_nomem(err);
    if (access(path, F_OK) == 0)
        status = stp_train_read(path, &s->runs, &why);
    if (status != STP_OK) {
        char text[STP_ERROR_TEXT];

        stp_error_string(&why, strrchr(path, '/') + 1, text, sizeof(text));
        stp_fail(err, status,
                 "%s; --fresh would train all anew and write it over", text);
    }
    free(path);
    return status;
}

static size_t find_run(const struct stp_train_runs *runs,
                       const struct stp_train_report *report, bool by_plugin)
{
    struct stp_train_run like;
    size_t i = 0;

    stp_train_describe(report, by_plugin, &like);
    while (i < runs->n && !stp_train_same(&runs->runs[i], &like))
        i++;
    return i;
}

/* Whether all runs of a training are there; those are shown. */
static bool is_there(struct stp_train_session *s,
                     const struct stp_train_report *report)
{
    const unsigned n = report->config->rounds > 0 ? 2 : 1;
    size_t at[2];

    for (unsigned i = 0; i < n; i++) {
        at[i] = find_run(&s->runs, report, i == 1);
        if (at[i] == s->runs.n)
            return false;
    }
    for (unsigned i = 0; i < n; i++)
        s->order[s->n_order++] = at[i];
    s->n_there++;
    s->n_done++;
    return true;
}

/* ---- one of the jobs ---- */

static enum stp_status keep(struct stp_train_session *s,
                            const struct stp_train_report *report,
                            struct stp_error *err)
{
    const size_t before = s->runs.n;
    enum stp_status status = stp_train_runs_take(&s->runs, report, err);

    for (size_t i = before; i < s->runs.n; i++)
        s->order[s->n_order++] = i;
    if (status == STP_OK && s->o->output != NULL)
        status = stp_train_save(&s->runs, s->o->output, err);
    s->n_done += status == STP_OK;
    return status;
}

bool stp_train_is_its_own(enum stp_status status)
{
    return status == STP_ERR_NOMEM || status == STP_ERR_RANGE ||
           status == STP_ERR_LIMIT;
}

static void say_failure(struct stp_train_session *s,
                        const struct stp_train_job *job,
                        const struct stp_error *why)
{
    char name[STP_TRAIN_JOB_NAME];

    s->n_failed++;
    stp_progress_clear();
    stp_train_job_name(job, name);
    stp_complain("steptune train", "%s: %s", name, why->text);
}

/* How a training went on this rank, of which rank 0 knows most.  The result is
 * freed. */
static enum stp_status settle(struct stp_train_session *s,
                              const struct stp_train_job *job,
                              struct stp_train_report *report,
                              struct stp_train_result *result,
                              enum stp_status status, struct stp_error *err)
{
    const bool is_first = s->world->rank == 0;

    if (status == STP_OK) {
        report->result = result;
        status = is_first ? keep(s, report, err) : STP_OK;
        stp_train_result_free(result);
        return status;
    }
    if (stp_train_is_its_own(status) && is_first)
        say_failure(s, job, err);
    if (stp_train_is_its_own(status) ||
        (status == STP_ERR_STOPPED && !is_first))
        return STP_OK; /* rank 0 says whether it goes on */
    return status;
}

/* Where this job's traces go: one has the output folder, each of several a
 * folder in it. */
static enum stp_status find_traces(const struct stp_train_session *s,
                                   const struct stp_train_job *job,
                                   char traces[STP_CLI_PATH],
                                   struct stp_error *err)
{
    const struct stp_train_config *c = &job->config;
    const char *folder = s->o->output != NULL ? s->o->output : ".";
    int n = snprintf(traces, STP_CLI_PATH, "%s", folder);
    enum stp_status status = STP_OK;

    if (c->trace && s->jobs.n > 1) {
        status = stp_folder_make(folder, err);
        n = snprintf(traces, STP_CLI_PATH, "%s/trace_%s_%s_%s_ga%u_gpus%u",
                     folder, c->model->name, stp_train_mode_name((int)c->mode),
                     stp_precision_name((int)c->precision), c->accumulate,
                     job->n_gpus);
    }
    if (n >= STP_CLI_PATH)
        return stp_fail(err, STP_ERR_LIMIT,
                        "the folder's name is longer than %d bytes",
                        STP_CLI_PATH - 1);
    return status;
}

static bool go_on(void *user)
{
    (void)user;
    return !stp_stop_wished();
}

enum stp_status stp_train_one(struct stp_train_session *s,
                              const struct stp_world *part,
                              struct stp_train_engines *engines,
                              const struct stp_train_job *job,
                              struct stp_error *err)
{
    struct stp_engine_info info;
    struct stp_train_config config = job->config;
    struct stp_train_report report = {.config = &config,
                                      .info = &info,
                                      .tuner = s->tuner,
                                      .pair = s->pair,
                                      .repeat = job->repeat};
    struct stp_train_result result;
    char traces[STP_CLI_PATH];
    bool there = false;
    enum stp_status status = STP_OK;

    config.go_on = go_on;
    engines->engines[0].ops->info(engines->engines[0].self, &info);
    if (s->world->rank == 0 && !s->is_loaded)
        status = load(s, info.gpu, err);
    if (status == STP_OK && stp_stop_wished())
        status = stp_fail(err, STP_ERR_STOPPED, "stopped");
    if (status == STP_OK && s->world->rank == 0)
        there = is_there(s, &report);
    if (status == STP_OK)
        status = find_traces(s, job, traces, err);
    status = stp_world_agree(part, status, err);
    if (status == STP_OK)
        status = stp_world_any(part, there, &there, err);
    if (status != STP_OK || there)
        return status;
    status = stp_train_engines_run(engines, &config, traces, &result, err);
    status = settle(s, job, &report, &result, status, err);
    return stp_world_agree(part, status, err);
}
