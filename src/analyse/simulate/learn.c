#include "analyse/simulate/learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/simulate/learn_parts.h"

/* What is summed up over seeds. */
struct sum {
    double *settled; /* of each seed and key */
    double *searched;
    size_t n_settled;
    double *auto_final; /* mean step at the end, of each seed */
    double *final;
    double auto_us, us;
    double auto_first_us, first_us;
};

struct study {
    const struct stp_learn_job *job;
    struct mock_machine *machine;
    struct stp_learn_keys keys;
    struct stp_learn_play baseline; /* AUTO's of the same seed */
    struct stp_learn_play play;
    struct sum *sums; /* of each learner */
    double *of_key;   /* of each seed */
};

/* ---- one seed of one learner ---- */

static double sum_of(const double *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

/* The pairs are steps with the same noise. */
static bool ended_worse(const struct study *s, size_t n_last)
{
    size_t first = s->job->n_steps - n_last;
    struct stp_gain gain = stp_paired_gain(&s->baseline.step_us[first],
                                           &s->play.step_us[first], n_last);

    return gain.high < 1 && gain.gain < 0.995;
}

static enum stp_status count_finals(const struct study *s,
                                    struct stp_learned *learned,
                                    struct stp_error *err)
{
    for (size_t k = 0; k < s->keys.n; k++) {
        const struct stp_learn_key *key = &s->keys.key[k];
        struct mock_time time;

        if (mock_machine_mean_time(s->machine, &s->play.story[k].final,
                                   &time) != ncclSuccess)
            return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
        learned->n_finals++;
        learned->keys[k].n_best += time.us <= 1.01 * key->best_us;
    }
    return STP_OK;
}

static void take_story(const struct stp_learn_story *story, struct sum *sum)
{
    sum->settled[sum->n_settled] = (double)story->settled;
    sum->searched[sum->n_settled++] =
        (double)(story->settled - story->searched_from);
}

static enum stp_status take_seed(const struct study *s, unsigned seed,
                                 struct sum *sum, struct stp_learned *learned,
                                 struct stp_error *err)
{
    size_t n = s->job->n_steps;
    size_t n_first = n < STP_LEARN_FIRST ? n : STP_LEARN_FIRST;
    size_t n_last = n / 5;

    for (size_t k = 0; k < s->keys.n; k++)
        take_story(&s->play.story[k], sum);
    sum->auto_us += sum_of(s->baseline.step_us, n);
    sum->us += sum_of(s->play.step_us, n);
    sum->auto_first_us += sum_of(s->baseline.step_us, n_first);
    sum->first_us += sum_of(s->play.step_us, n_first);
    sum->auto_final[seed] =
        sum_of(&s->baseline.step_us[n - n_last], n_last) / (double)n_last;
    sum->final[seed] =
        sum_of(&s->play.step_us[n - n_last], n_last) / (double)n_last;
    learned->n_worse += ended_worse(s, n_last);
    learned->modelled |= s->play.modelled;
    return count_finals(s, learned, err);
}

/* ---- all of them ---- */

static enum stp_status play_seed(struct study *s, unsigned i,
                                 const struct stp_learner *learners, size_t n,
                                 struct stp_learned *learned,
                                 struct stp_error *err)
{
    const struct stp_learner nccl = {.kind = STP_LEARNER_AUTO};
    uint64_t seed = s->job->seed + i;
    enum stp_status status =
        stp_learn_play(s->job, s->machine, &nccl, seed, &s->baseline, err);

    for (size_t l = 0; l < n && status == STP_OK; l++) {
        status = stp_learn_play(s->job, s->machine, &learners[l], seed,
                                &s->play, err);
        if (status == STP_OK)
            status = take_seed(s, i, &s->sums[l], &learned[l], err);
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts what it is given. */
static void find_quantiles(double *values, size_t n, double *median_ret,
                           double *p95_ret)
{
    qsort(values, n, sizeof(*values), compare);
    *median_ret = (values[(n - 1) / 2] + values[n / 2]) / 2;
    *p95_ret = values[(size_t)ceil(0.95 * (double)n) - 1];
}

/* Before what is summed up of all keys is sorted. */
static void conclude_key(const struct study *s, const struct sum *sum, size_t k,
                         struct stp_learned_key *learned)
{
    const struct stp_learn_key *key = &s->keys.key[k];
    double p95;

    learned->coll = key->coll;
    learned->n_bytes = key->n_bytes;
    learned->best = key->best;
    learned->gain = key->own_us / key->best_us;
    for (unsigned i = 0; i < s->job->n_seeds; i++)
        s->of_key[i] = sum->searched[i * s->keys.n + k];
    find_quantiles(s->of_key, s->job->n_seeds, &learned->searched_median, &p95);
}

static void conclude(const struct study *s, struct sum *sum,
                     struct stp_learned *learned)
{
    learned->n_keys = s->keys.n;
    for (size_t k = 0; k < s->keys.n; k++) {
        conclude_key(s, sum, k, &learned->keys[k]);
        learned->n_best += learned->keys[k].n_best;
    }
    find_quantiles(sum->settled, sum->n_settled, &learned->settled_median,
                   &learned->settled_p95);
    find_quantiles(sum->searched, sum->n_settled, &learned->searched_median,
                   &learned->searched_p95);
    learned->lost = sum->us / sum->auto_us - 1;
    learned->lost_first = sum->first_us / sum->auto_first_us - 1;
    learned->final =
        stp_paired_gain(sum->auto_final, sum->final, s->job->n_seeds);
}

static bool seat(struct study *s, size_t n)
{
    size_t n_seeds = s->job->n_seeds;

    s->baseline.keys = s->play.keys = &s->keys;
    s->baseline.step_us = calloc(s->job->n_steps, sizeof(double));
    s->play.step_us = calloc(s->job->n_steps, sizeof(double));
    s->sums = calloc(n + 1, sizeof(*s->sums));
    s->of_key = calloc(n_seeds, sizeof(double));
    if (s->baseline.step_us == NULL || s->play.step_us == NULL ||
        s->sums == NULL || s->of_key == NULL)
        return false;
    for (size_t l = 0; l < n; l++) {
        struct sum *sum = &s->sums[l];

        sum->settled = calloc(n_seeds * s->keys.n, sizeof(double));
        sum->searched = calloc(n_seeds * s->keys.n, sizeof(double));
        sum->auto_final = calloc(n_seeds, sizeof(double));
        sum->final = calloc(n_seeds, sizeof(double));
        if (sum->settled == NULL || sum->searched == NULL ||
            sum->auto_final == NULL || sum->final == NULL)
            return false;
    }
    return true;
}

static void free_study(struct study *s, size_t n)
{
    for (size_t l = 0; s->sums != NULL && l < n; l++) {
        free(s->sums[l].settled);
        free(s->sums[l].searched);
        free(s->sums[l].auto_final);
        free(s->sums[l].final);
    }
    free(s->sums);
    free(s->of_key);
    free(s->baseline.step_us);
    free(s->play.step_us);
    mock_machine_free(s->machine);
}

static enum stp_status open_study(struct study *s, struct stp_error *err)
{
    const struct mock_nccl_options options = {.version = s->job->nccl};
    struct mock_nccl *nccl;
    enum stp_status status;

    if (mock_machine_load(s->job->machine_path, &s->machine) != ncclSuccess ||
        mock_nccl_create(&options, &nccl) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    status = stp_learn_find_keys(s->job, nccl, s->machine, &s->keys, err);
    mock_nccl_destroy(nccl);
    return status;
}

enum stp_status stp_learn(const struct stp_learn_job *job,
                          const struct stp_learner *learners, size_t n,
                          struct stp_learned *learned, struct stp_error *err)
{
    struct study s = {.job = job};
    enum stp_status status = open_study(&s, err);

    memset(learned, 0, n * sizeof(*learned));
    if (status == STP_OK && !seat(&s, n))
        status = stp_nomem(err);
    for (unsigned i = 0; i < job->n_seeds && status == STP_OK; i++)
        status = play_seed(&s, i, learners, n, learned, err);
    for (size_t l = 0; l < n && status == STP_OK; l++)
        conclude(&s, &s.sums[l], &learned[l]);
    free_study(&s, n);
    return status;
}
