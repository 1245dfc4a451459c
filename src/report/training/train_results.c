#include "report/training/train_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launch/take.h"

void stp_train_run_free(struct stp_train_run *run)
{
    free(run->epoch_s);
    free(run->comm_s);
    free(run->exposed_s);
    free(run->losses);
    memset(run, 0, sizeof(*run));
}

void stp_train_runs_free(struct stp_train_runs *runs)
{
    for (size_t i = 0; i < runs->n; i++)
        stp_train_run_free(&runs->runs[i]);
    free(runs->runs);
    memset(runs, 0, sizeof(*runs));
}

void stp_train_runs_add(struct stp_train_runs *runs,
                        const struct stp_train_run *run)
{
    STP_TAKE_ROOM(runs->runs, runs->n, runs->capacity);
    runs->runs[runs->n++] = *run;
}

double stp_train_sum(const struct stp_train_run *run, const double *seconds)
{
    double sum = 0;

    for (unsigned i = 0; i < run->n_epochs; i++)
        sum += seconds[i];
    return sum;
}

bool stp_train_is_mixed(const struct stp_train_run *run)
{
    return strcmp(run->precision, "bf16") == 0 ||
           strcmp(run->precision, "fp16") == 0 ||
           strcmp(run->precision, STP_TRAIN_AMP) == 0;
}

/* The model, and how its arithmetic is done. */
static bool train_same_model(const struct stp_train_run *a,
                             const struct stp_train_run *b)
{
    return strcmp(a->size, b->size) == 0 &&
           strcmp(a->precision, b->precision) == 0 &&
           strcmp(a->gradients, b->gradients) == 0;
}

bool stp_train_same(const struct stp_train_run *a,
                    const struct stp_train_run *b)
{
    /* A learning rate that was written and read may differ in its last bit. */
    return train_same_model(a, b) && strcmp(a->mode, b->mode) == 0 &&
           a->n_gpus == b->n_gpus && a->ga == b->ga && a->batch == b->batch &&
           a->n_samples == b->n_samples &&
           fabs(a->rate - b->rate) <= 1e-12 * fabs(a->rate) &&
           a->seed == b->seed && a->bucket_bytes == b->bucket_bytes &&
           a->first_bucket_bytes == b->first_bucket_bytes &&
           strcmp(a->gpu, b->gpu) == 0 && strcmp(a->made_by, b->made_by) == 0 &&
           a->warmup == b->warmup &&
           isnan(a->traced_comm_ms) == isnan(b->traced_comm_ms) &&
           a->n_epochs == b->n_epochs;
}

bool stp_train_runs_have(const struct stp_train_runs *runs,
                         const struct stp_train_run *run)
{
    for (size_t i = 0; i < runs->n; i++)
        if (stp_train_same(&runs->runs[i], run) &&
            memcmp(runs->runs[i].epoch_s, run->epoch_s,
                   run->n_epochs * sizeof(double)) == 0)
            return true;
    return false;
}

/* How fast it is: samples a second, and epochs where these are unknown. */
static double train_speed(const struct stp_train_run *r)
{
    return r->n_samples > 0 ? r->throughput
                            : r->n_epochs / stp_train_sum(r, r->epoch_s);
}

void stp_train_derive(struct stp_train_runs *runs)
{
    for (size_t i = 0; i < runs->n; i++) {
        struct stp_train_run *r = &runs->runs[i];
        const double total = stp_train_sum(r, r->epoch_s);
        double sum = 0; /* of the speeds on one GPU */
        unsigned n = 0;

        for (size_t k = 0; k < runs->n; k++) {
            const struct stp_train_run *one = &runs->runs[k];

            if (one->n_gpus != 1 || !train_same_model(one, r) ||
                strcmp(one->gpu, r->gpu) != 0 || one->batch != r->batch ||
                one->ga != r->ga ||
                (one->n_samples == 0) != (r->n_samples == 0))
                continue;
            sum += train_speed(one);
            n++;
        }
        r->exposed_share =
            total > 0 ? stp_train_sum(r, r->exposed_s) / total : 0;
        r->speed_up = n > 0 ? train_speed(r) / (sum / n) : (double)NAN;
        r->efficiency = r->speed_up / r->n_gpus;
    }
}
