/* train_engines.c - the ranks of this process, each with its thread */
#include <stdlib.h>

#include "cli/train_engines.h"
#include "report/training/trace_json.h"

struct engines_job {
    const struct stp_train_engines *e;
    const struct stp_train_config *config;
    const char *traces;                /* folder */
    struct stp_train_result results[]; /* of each rank; zeros: it failed */
};

/* Each rank has a trace of its own. */
static enum stp_status engines_train_rank(const struct stp_engine *engine,
                                          const struct stp_train_config *config,
                                          const char *traces,
                                          struct stp_train_result *result_ret,
                                          struct stp_error *err)
{
    struct stp_device_info info;
    enum stp_status status = stp_train_measure(engine, config, result_ret, err);

    if (status != STP_OK || !config->trace)
        return status;
    engine->ops->info(engine->self, &info);
    status = stp_trace_save(&result_ret->spans, &info, traces, err);
    if (status != STP_OK) {
        stp_train_result_free(result_ret);
        *result_ret = (struct stp_train_result){0};
    }
    return status;
}

static enum stp_status engines_train_thread(void *user, unsigned thread,
                                            struct stp_error *err)
{
    struct engines_job *job = user;

    return engines_train_rank(&job->e->engines.all[thread], job->config,
                              job->traces, &job->results[thread], err);
}

enum stp_status stp_train_engines_run(struct stp_train_engines *e,
                                      const struct stp_train_config *config,
                                      const char *traces,
                                      struct stp_train_result *result_ret,
                                      struct stp_error *err)
{
    struct engines_job *job;
    enum stp_status status;

    if (e->pool == NULL)
        return engines_train_rank(&e->engines.all[0], config, traces,
                                  result_ret, err);
    job = calloc(1, sizeof(*job) + e->n * sizeof(job->results[0]));
    if (job == NULL)
        return stp_nomem(err);
    job->e = e;
    job->config = config;
    job->traces = traces;
    status = stp_thread_pool_run(e->pool, engines_train_thread, job, e->world,
                                 0, err);
    if (stp_thread_pool_is_lost(e->pool))
        return status; /* its threads still use the job */
    for (unsigned i = status == STP_OK; i < e->n; i++)
        stp_train_result_free(&job->results[i]);
    if (status == STP_OK)
        *result_ret = job->results[0];
    free(job);
    return status;
}

enum stp_status stp_train_engines_open(const struct stp_open_options *options,
                                       unsigned n_local,
                                       struct stp_train_engines *engines_ret,
                                       struct stp_error *err)
{
    struct stp_train_engines e = {.world = options->world, .n = n_local};
    enum stp_status status = STP_OK;

    if (n_local > 1)
        status = stp_thread_pool_create(n_local, &e.pool, err);
    status = stp_world_agree(options->world, status, err);
    STP_THEN(status, stp_open_engines(options, n_local, &e.engines, err));
    if (status == STP_OK) {
        *engines_ret = e;
        return STP_OK;
    }
    if (e.pool != NULL)
        stp_thread_pool_destroy(e.pool);
    return status;
}

static enum stp_status engines_close_rank(void *user, unsigned thread,
                                          struct stp_error *err)
{
    const struct stp_train_engines *e = user;
    const struct stp_engine *engine = &e->engines.all[thread];

    engine->ops->close(engine->self);
    return STP_OK;
}

/* Memory that lost threads still use stays. */
void stp_train_engines_close(struct stp_train_engines *e)
{
    struct stp_error err;

    if (e->pool == NULL)
        engines_close_rank(e, 0, &err);
    else if (!stp_thread_pool_is_lost(e->pool)) {
        stp_thread_pool_run(e->pool, engines_close_rank, e, e->world, 0, &err);
        stp_thread_pool_destroy(e->pool);
    }
}
