#include "analyse/jobs/runs.h"

#include <math.h>
#include <stdlib.h>

unsigned stp_job_arm_at(unsigned round, unsigned place, unsigned n_arms)
{
    const unsigned arm = place < n_arms ? place : 2 * n_arms - 1 - place;

    return round % 2 == 0 ? arm : n_arms - 1 - arm;
}

static double run_time(const struct stp_job_run *run,
                       enum stp_job_measure measure)
{
    return measure == STP_JOB_WALL ? run->wall_s : run->step;
}

bool stp_job_runs_have(const struct stp_job_run *runs, size_t n,
                       enum stp_job_measure measure, const char **why_ret)
{
    for (size_t i = 0; i < n && measure != STP_JOB_WALL; i++) {
        if (!(runs[i].step > 0))
            *why_ret = "a run has no times of steps";
        else if (runs[i].calls != runs[0].calls)
            *why_ret = "steps have other collectives in some runs";
        else
            continue;
        return false;
    }
    return true;
}

/* The mean time of an arm in a round; 0 unless it ran twice. */
static double round_mean(const struct stp_job_run *runs, size_t n,
                         enum stp_job_measure measure, unsigned round,
                         unsigned arm)
{
    double sum = 0;
    int n_runs = 0;

    for (size_t i = 0; i < n; i++)
        if (runs[i].round == round && runs[i].arm == arm) {
            sum += run_time(&runs[i], measure);
            n_runs++;
        }
    return n_runs == 2 ? sum / 2 : 0;
}

static bool round_is_complete(const struct stp_job_run *runs, size_t n,
                              enum stp_job_measure measure, unsigned round,
                              unsigned n_arms)
{
    for (unsigned arm = 0; arm < n_arms; arm++)
        if (!(round_mean(runs, n, measure, round, arm) > 0))
            return false;
    return true;
}

static void arm_sum_losses(const struct stp_job_run *runs, size_t n,
                           unsigned number, struct stp_job_arm *arm)
{
    arm->loss_min = INFINITY;
    arm->loss_max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const double loss = runs[i].loss;

        if (runs[i].arm != number || isnan(loss))
            continue;
        arm->loss += loss;
        arm->loss_min = fmin(arm->loss_min, loss);
        arm->loss_max = fmax(arm->loss_max, loss);
        arm->n_losses++;
    }
    arm->loss = arm->n_losses > 0 ? arm->loss / (double)arm->n_losses : NAN;
}

/* The times of the complete rounds: 'n_arms' of each. */
static size_t runs_list_rounds(const struct stp_job_run *runs, size_t n,
                               enum stp_job_measure measure, unsigned n_arms,
                               double *times)
{
    size_t n_rounds = 0;
    unsigned last = 0;

    for (size_t i = 0; i < n; i++)
        last = runs[i].round > last ? runs[i].round : last;
    for (unsigned round = 0; round <= last; round++) {
        if (!round_is_complete(runs, n, measure, round, n_arms))
            continue;
        for (unsigned arm = 0; arm < n_arms; arm++)
            times[n_rounds * n_arms + arm] =
                round_mean(runs, n, measure, round, arm);
        n_rounds++;
    }
    return n_rounds;
}

/* 'pair' has room for two times a round. */
static void arm_sum_times(const double *times, size_t n_rounds, unsigned n_arms,
                          unsigned number, double *pair,
                          struct stp_job_arm *arm)
{
    double *baseline = pair;
    double *own = pair + n_rounds;

    for (size_t i = 0; i < n_rounds; i++) {
        baseline[i] = times[i * n_arms];
        own[i] = times[i * n_arms + number];
    }
    arm->n_runs = 2 * n_rounds;
    arm->time = stp_mean(own, n_rounds);
    arm->gain = stp_paired_gain(baseline, own, n_rounds);
}

enum stp_status stp_job_runs_sum(const struct stp_job_run *runs, size_t n,
                                 enum stp_job_measure measure, unsigned n_arms,
                                 struct stp_job_arm *arms_ret,
                                 size_t *n_rounds_ret, struct stp_error *err)
{
    double *times = malloc((n + 1) * sizeof(*times));
    double *pair = malloc((n + 1) * sizeof(*pair));
    size_t n_rounds = 0;

    if (times == NULL || pair == NULL) {
        free(times);
        free(pair);
        return stp_nomem(err);
    }
    n_rounds = runs_list_rounds(runs, n, measure, n_arms, times);
    for (unsigned arm = 0; arm < n_arms; arm++) {
        arms_ret[arm] = (struct stp_job_arm){.loss = 0};
        if (n_rounds > 0)
            arm_sum_times(times, n_rounds, n_arms, arm, pair, &arms_ret[arm]);
        arm_sum_losses(runs, n, arm, &arms_ret[arm]);
    }
    free(times);
    free(pair);
    *n_rounds_ret = n_rounds;
    return STP_OK;
}
