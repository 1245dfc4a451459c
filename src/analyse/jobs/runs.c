#include "analyse/jobs/runs.h"

#include <math.h>
#include <stdlib.h>

#include "launch/take.h"

unsigned stp_job_arm_at(unsigned round, unsigned place, unsigned n_arms)
{
    const unsigned arm = place < n_arms ? place : 2 * n_arms - 1 - place;

    return round % 2 == 0 ? arm : n_arms - 1 - arm;
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

size_t stp_job_runs_sum(const struct stp_job_run *runs, size_t n,
                        enum stp_job_measure measure, unsigned n_arms,
                        struct stp_job_arm *arms_ret)
{
    double *times = stp_take(n + 1, sizeof(*times));
    double *pair = stp_take(n + 1, sizeof(*pair));
    double *own = pair;
    size_t n_rounds = 0;
    unsigned last = 0;

    for (size_t i = 0; i < n; i++)
        last = runs[i].round > last ? runs[i].round : last;
    for (unsigned round = 0; round <= last; round++) {
        double *of_round = times + n_rounds * n_arms;
        bool is_complete = true;

        for (unsigned arm = 0; arm < n_arms && is_complete; arm++) {
            double sum = 0;
            int n_runs = 0;

            for (size_t i = 0; i < n; i++)
                if (runs[i].round == round && runs[i].arm == arm) {
                    sum +=
                        measure == STP_JOB_WALL ? runs[i].wall_s : runs[i].step;
                    n_runs++;
                }
            of_round[arm] = sum / 2;
            is_complete = n_runs == 2 && sum > 0;
        }
        n_rounds += is_complete;
    }
    own += n_rounds; /* pair: the baseline's times, and those of an arm */
    for (unsigned a = 0; a < n_arms; a++) {
        struct stp_job_arm *arm = &arms_ret[a];

        *arm =
            (struct stp_job_arm){.loss_min = INFINITY, .loss_max = -INFINITY};
        for (size_t i = 0; i < n_rounds; i++) {
            pair[i] = times[i * n_arms];
            own[i] = times[i * n_arms + a];
        }
        if (n_rounds > 0) {
            arm->n_runs = 2 * n_rounds;
            arm->time = stp_mean(own, n_rounds);
            arm->gain = stp_paired_gain(pair, own, n_rounds);
        }
        for (size_t i = 0; i < n; i++) {
            const double loss = runs[i].loss;

            if (runs[i].arm != a || isnan(loss))
                continue;
            arm->loss += loss;
            arm->loss_min = fmin(arm->loss_min, loss);
            arm->loss_max = fmax(arm->loss_max, loss);
            arm->n_losses++;
        }
        arm->loss = arm->n_losses > 0 ? arm->loss / (double)arm->n_losses : NAN;
    }
    free(times);
    free(pair);
    return n_rounds;
}
