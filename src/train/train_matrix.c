#include "train/train_matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_JOBS = 1 << 20 };

/* A configuration of 'm' by its indexes in the lists, but for 'mode'. */
struct cell {
    unsigned gpus, model, precision, accumulate;
    int mode;
};

static struct stp_train_job matrix_job(const struct stp_train_matrix *m,
                                       const struct cell *at)
{
    const int precision = m->precisions[at->precision];
    const bool is_16_bit =
        precision == STP_PRECISION_BF16 || precision == STP_PRECISION_FP16;
    struct stp_train_job job = {.config = m->base, .n_gpus = m->gpus[at->gpus]};
    struct stp_train_config *c = &job.config;

    c->model = m->models[at->model];
    c->precision = (enum stp_precision)precision;
    c->accumulate = m->accumulate[at->accumulate];
    if (m->micro_batch > 0)
        c->batch = m->micro_batch * c->accumulate;
    c->mode = (enum stp_train_mode)at->mode;
    c->half_gradients =
        m->base.half_gradients && (is_16_bit || m->n_precisions == 1);
    return job;
}

enum stp_status stp_train_plan(const struct stp_train_matrix *m,
                               struct stp_train_jobs *jobs_ret,
                               struct stp_error *err)
{
    const uint64_t most = (uint64_t)m->n_gpus * m->n_models * m->n_precisions *
                          m->n_accumulate * m->n_modes;
    struct stp_train_jobs jobs = {.n = 0};
    struct cell at = {.gpus = 0};

    for (unsigned i = 0; i < m->n_accumulate; i++)
        if ((uint64_t)m->micro_batch * m->accumulate[i] > m->base.n_samples)
            return STP_REFUSE(err,
                              "a step of %u micro-batches of %u samples, "
                              "expected at most the %u samples of an epoch",
                              m->accumulate[i], m->micro_batch,
                              m->base.n_samples);
    if (most > MOST_JOBS)
        return stp_fail(err, STP_ERR_LIMIT,
                        "%ju configurations, expected at most %d",
                        (uintmax_t)most, MOST_JOBS);
    jobs.jobs = calloc(most, sizeof(*jobs.jobs));
    if (jobs.jobs == NULL)
        return stp_nomem(err);
    for (; at.gpus < m->n_gpus; at.gpus++)
        for (at.model = 0; at.model < m->n_models; at.model++) {
            const bool alone = m->gpus[at.gpus] == 1;

            for (at.precision = 0; at.precision < m->n_precisions;
                 at.precision++)
                for (at.accumulate = 0; at.accumulate < m->n_accumulate;
                     at.accumulate++)
                    for (unsigned i = 0; i < (alone ? 1 : m->n_modes); i++) {
                        at.mode = alone ? STP_TRAIN_SINGLE : m->modes[i];
                        if (alone || at.mode != STP_TRAIN_SINGLE)
                            jobs.jobs[jobs.n++] = matrix_job(m, &at);
                    }
        }
    *jobs_ret = jobs;
    return STP_OK;
}

void stp_train_jobs_free(struct stp_train_jobs *jobs)
{
    free(jobs->jobs);
    memset(jobs, 0, sizeof(*jobs));
}

/* "a", "a and b", "a, b and c": adds the 'i'th of 'n' words. */
static void matrix_append(char *text, size_t size, const char *word, unsigned i,
                          unsigned n)
{
    const size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%s",
             i == 0       ? ""
             : i + 1 == n ? " and "
                          : ", ",
             word);
}

void stp_train_skipped(const struct stp_train_matrix *m,
                       char text[STP_TRAIN_SKIPPED])
{
    char modes[80] = "", counts[STP_TRAIN_LIST * 8] = "", count[16];
    unsigned n_modes = 0, n_counts = 0, done = 0;
    bool on_one;

    for (unsigned i = 0; i < m->n_modes; i++)
        n_modes += m->modes[i] != STP_TRAIN_SINGLE;
    for (unsigned i = 0; i < m->n_modes; i++)
        if (m->modes[i] != STP_TRAIN_SINGLE)
            matrix_append(modes, sizeof(modes),
                          stp_train_mode_name(m->modes[i]), done++, n_modes);
    for (unsigned i = 0; i < m->n_gpus; i++)
        n_counts += m->gpus[i] > 1;
    done = 0;
    for (unsigned i = 0; i < m->n_gpus; i++)
        if (m->gpus[i] > 1) {
            snprintf(count, sizeof(count), "%u", m->gpus[i]);
            matrix_append(counts, sizeof(counts), count, done++, n_counts);
        }
    on_one = n_modes > 0 && n_counts < m->n_gpus;
    text[0] = '\0';
    if (on_one)
        snprintf(text, STP_TRAIN_SKIPPED,
                 "skipped: %s on 1 rank, where all is single", modes);
    if (n_modes < m->n_modes && n_counts > 0)
        snprintf(text + strlen(text), STP_TRAIN_SKIPPED - strlen(text),
                 "%ssingle on %s ranks", on_one ? "; " : "skipped: ", counts);
}

void stp_train_job_name(const struct stp_train_job *job,
                        char name[STP_TRAIN_JOB_NAME])
{
    const struct stp_train_config *c = &job->config;

    snprintf(name, STP_TRAIN_JOB_NAME, "%s, %u rank%s, %s, %s, ga %u",
             c->model->name, job->n_gpus, job->n_gpus == 1 ? "" : "s",
             stp_train_mode_name(c->mode), stp_precision_name(c->precision),
             c->accumulate);
}
