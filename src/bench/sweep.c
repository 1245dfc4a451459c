#include "bench/sweep.h"

#include <stdlib.h>
#include <string.h>

/* What one sweep needs all the time. */
struct sweep {
    const struct stp_device *device;
    const struct stp_sweep_plan *plan;
    struct stp_device_info info;
    double *iter_us; /* plan->iters of them */
    struct stp_dataset *data;
    struct stp_error *err;
};

static enum stp_status run_iterations(struct sweep *s,
                                      const struct stp_collective *what,
                                      enum stp_source *source_ret)
{
    const struct stp_device *d = s->device;
    enum stp_status status = STP_OK;
    struct stp_device_run run;

    for (unsigned i = 0; i < s->plan->warmup && status == STP_OK; i++)
        status = d->ops->collective(d->self, what, s->err);
    if (status == STP_OK)
        status = d->ops->record(d->self, 0, s->err);
    for (unsigned i = 0; i < s->plan->iters && status == STP_OK; i++) {
        status = d->ops->collective(d->self, what, s->err);
        d->ops->last_run(d->self, &run);
        if (run.source > *source_ret)
            *source_ret = run.source;
        if (status == STP_OK)
            status = d->ops->record(d->self, i + 1, s->err);
    }
    if (status == STP_OK)
        status = d->ops->synchronise(d->self, s->err);
    return status;
}

/* A forced arm that NCCL rules out runs as NCCL's own choice. */
static bool ran_as_itself(const struct stp_arm *arm,
                          const struct stp_device_run *run)
{
    return arm->kind != STP_ARM_FORCED ||
           (arm->algo == run->algo && arm->proto == run->proto);
}

static enum stp_status measure_arm(struct sweep *s,
                                   const struct stp_collective *what,
                                   const struct stp_arm *arm, unsigned round)
{
    const struct stp_device *d = s->device;
    struct stp_measurement row = {.coll = what->coll,
                                  .n_bytes = what->n_bytes,
                                  .round = round,
                                  .arm = *arm,
                                  .n_ranks = s->info.n_ranks,
                                  .n_nodes = s->info.n_nodes,
                                  .iters = s->plan->iters};
    struct stp_device_run run;
    enum stp_status status = d->ops->select_arm(d->self, arm, s->err);

    if (status == STP_OK)
        status = run_iterations(s, what, &row.source);
    if (status != STP_OK)
        return status;
    d->ops->last_run(d->self, &run);
    if (!ran_as_itself(arm, &run))
        return STP_OK;
    row.ran_algo = run.algo;
    row.ran_proto = run.proto;
    row.ran_channels = run.n_channels;
    for (unsigned i = 0; i < s->plan->iters; i++)
        s->iter_us[i] = d->ops->elapsed_us(d->self, i, i + 1);
    stp_summarise(s->iter_us, s->plan->iters, &row.us);
    if (stp_dataset_add(s->data, &row) != STP_OK)
        return stp_fail(s->err, STP_ERR_NOMEM, 0, 0, "out of memory");
    return STP_OK;
}

static enum stp_status measure_size(struct sweep *s, int coll, uint64_t n_bytes)
{
    const struct stp_collective what = {coll, n_bytes, s->plan->element_size};
    const struct stp_device *d = s->device;
    size_t n_rows = s->data->n_rows;
    enum stp_status status = STP_OK;

    for (unsigned r = 0; r < s->plan->rounds && status == STP_OK; r++) {
        status = d->ops->begin_round(d->self, r, s->plan->rounds, s->err);
        for (size_t a = 0; a < s->plan->arms->n && status == STP_OK; a++)
            status = measure_arm(s, &what, &s->plan->arms->arm[a], r);
    }
    if (status != STP_OK)
        s->data->n_rows = n_rows; /* half a size compares nothing */
    return status;
}

static enum stp_status measure_all(struct sweep *s, stp_sweep_progress progress,
                                   void *user)
{
    size_t total = 0;
    size_t done = 0;

    for (size_t c = 0; c < s->plan->n_colls; c++)
        total += s->plan->sizes[c].n;
    for (size_t c = 0; c < s->plan->n_colls; c++)
        for (size_t i = 0; i < s->plan->sizes[c].n; i++) {
            enum stp_status status =
                measure_size(s, s->plan->colls[c], s->plan->sizes[c].size[i]);

            if (status != STP_OK)
                return status;
            if (progress != NULL && !progress(user, ++done, total))
                return stp_fail(s->err, STP_ERR_LIMIT, 0, 0,
                                "stopped after %zu of %zu sizes", done, total);
        }
    return STP_OK;
}

enum stp_status stp_sweep_run(const struct stp_device *device,
                              const struct stp_sweep_plan *plan,
                              stp_sweep_progress progress, void *user,
                              struct stp_dataset *data, struct stp_error *err)
{
    struct sweep s = {.device = device, .plan = plan, .data = data, .err = err};
    enum stp_status status;

    s.iter_us = calloc(plan->iters, sizeof(*s.iter_us));
    if (s.iter_us == NULL)
        return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
    device->ops->info(device->self, &s.info);
    memcpy(data->machine, s.info.machine, sizeof(data->machine));
    memcpy(data->gpu, s.info.gpu, sizeof(data->gpu));
    memcpy(data->nccl, s.info.nccl, sizeof(data->nccl));
    status = measure_all(&s, progress, user);
    free(s.iter_us);
    return status;
}
