#include "report/training/train_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- runs ---- */

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

enum stp_status stp_train_runs_add(struct stp_train_runs *runs,
                                   const struct stp_train_run *run,
                                   struct stp_error *err)
{
    struct stp_train_run *grown =
        realloc(runs->runs, (runs->n + 1) * sizeof(*grown));

    if (grown == NULL)
        return stp_nomem(err);
    grown[runs->n] = *run;
    runs->runs = grown;
    runs->n++;
    return STP_OK;
}

static double train_sum(const double *seconds, unsigned n)
{
    double sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += seconds[i];
    return sum;
}

double stp_train_total_s(const struct stp_train_run *run)
{
    return train_sum(run->epoch_s, run->n_epochs);
}

double stp_train_comm_s(const struct stp_train_run *run)
{
    return train_sum(run->comm_s, run->n_epochs);
}

double stp_train_exposed_s(const struct stp_train_run *run)
{
    return train_sum(run->exposed_s, run->n_epochs);
}

bool stp_train_is_mixed(const struct stp_train_run *run)
{
    return strcmp(run->precision, "bf16") == 0 ||
           strcmp(run->precision, "fp16") == 0 ||
           strcmp(run->precision, STP_TRAIN_AMP) == 0;
}

/* ---- which of them are alike ---- */

/* Written and read back, a number may differ in its last bit. */
static bool train_same_rate(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(a);
}

/* The model, and how its arithmetic is done. */
static bool train_same_model(const struct stp_train_run *a,
                             const struct stp_train_run *b)
{
    return strcmp(a->size, b->size) == 0 &&
           strcmp(a->precision, b->precision) == 0 &&
           strcmp(a->gradients, b->gradients) == 0;
}

bool stp_train_same_work(const struct stp_train_run *a,
                         const struct stp_train_run *b)
{
    return train_same_model(a, b) && strcmp(a->mode, b->mode) == 0 &&
           strcmp(a->tuner, b->tuner) == 0 && a->n_gpus == b->n_gpus &&
           a->ga == b->ga && a->batch == b->batch &&
           a->n_samples == b->n_samples && train_same_rate(a->rate, b->rate) &&
           a->seed == b->seed && a->bucket_bytes == b->bucket_bytes &&
           a->first_bucket_bytes == b->first_bucket_bytes;
}

bool stp_train_same(const struct stp_train_run *a,
                    const struct stp_train_run *b)
{
    return stp_train_same_work(a, b) && strcmp(a->gpu, b->gpu) == 0 &&
           strcmp(a->pair, b->pair) == 0 &&
           strcmp(a->made_by, b->made_by) == 0 && a->warmup == b->warmup &&
           isnan(a->traced_comm_ms) == isnan(b->traced_comm_ms) &&
           a->rounds == b->rounds && a->repeat == b->repeat &&
           a->n_epochs == b->n_epochs;
}

bool stp_train_alike(const struct stp_train_run *a,
                     const struct stp_train_run *b)
{
    struct stp_train_run twin = *a;

    twin.repeat = b->repeat;
    return stp_train_same(&twin, b);
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

/* ---- derived members ---- */

/* How fast it is: samples a second, and epochs where these are unknown. */
static double train_speed(const struct stp_train_run *r)
{
    return r->n_samples > 0 ? r->throughput
                            : r->n_epochs / stp_train_total_s(r);
}

/* The speed on one GPU; NaN: not measured. */
static double train_alone(const struct stp_train_runs *runs,
                          const struct stp_train_run *like)
{
    double sum = 0;
    unsigned n = 0;

    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_train_run *r = &runs->runs[i];

        if (r->n_gpus != 1 || !train_same_model(r, like) ||
            strcmp(r->gpu, like->gpu) != 0 || r->batch != like->batch ||
            r->ga != like->ga || (r->n_samples == 0) != (like->n_samples == 0))
            continue;
        sum += train_speed(r);
        n++;
    }
    return n > 0 ? sum / n : (double)NAN;
}

void stp_train_derive(struct stp_train_runs *runs)
{
    for (size_t i = 0; i < runs->n; i++) {
        struct stp_train_run *r = &runs->runs[i];
        const double total = stp_train_total_s(r);

        r->exposed_share = total > 0 ? stp_train_exposed_s(r) / total : 0;
        r->speed_up = train_speed(r) / train_alone(runs, r);
        r->efficiency = r->speed_up / r->n_gpus;
    }
}

/* ---- gains ---- */

/* Of NCCL's own choice, that 'run' took turns with; or NULL. */
static const struct stp_train_run *
train_partner(const struct stp_train_runs *runs,
              const struct stp_train_run *run)
{
    struct stp_train_run like = *run;

    if (run->rounds == 0 || strcmp(run->tuner, STP_TRAIN_NCCL) == 0)
        return NULL;
    memcpy(like.tuner, STP_TRAIN_NCCL, sizeof(STP_TRAIN_NCCL));
    for (size_t i = 0; i < runs->n; i++)
        if (stp_train_same(&runs->runs[i], &like))
            return &runs->runs[i];
    return NULL;
}

static void train_add_rounds(const struct stp_train_run *run, double *times)
{
    const unsigned epochs = run->n_epochs / run->rounds;

    for (unsigned e = 0; e < run->n_epochs; e++)
        times[e / epochs] += run->epoch_s[e];
}

/* The times of rounds of 'run' and its partner, after the first 'n';
 * returns how many there are now. */
static size_t train_add_pairs(const struct stp_train_runs *runs,
                              const struct stp_train_run *run, double *baseline,
                              double *times, size_t n)
{
    const struct stp_train_run *other = train_partner(runs, run);

    if (other == NULL)
        return n;
    train_add_rounds(other, baseline + n);
    train_add_rounds(run, times + n);
    return n + run->rounds;
}

enum stp_status stp_train_gain(const struct stp_train_runs *runs,
                               const struct stp_train_run *run, bool repeats,
                               struct stp_gain *gain_ret, struct stp_error *err)
{
    const size_t most = run->rounds * runs->n;
    double *times = calloc(most > 0 ? 2 * most : 1, sizeof(*times));
    size_t n = 0;

    if (times == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < runs->n; i++)
        if (repeats ? stp_train_alike(&runs->runs[i], run)
                    : &runs->runs[i] == run)
            n = train_add_pairs(runs, &runs->runs[i], times + most, times, n);
    *gain_ret = n > 0 ? stp_paired_gain(times + most, times, n)
                      : (struct stp_gain){NAN, NAN, INFINITY, 0};
    free(times);
    return STP_OK;
}
