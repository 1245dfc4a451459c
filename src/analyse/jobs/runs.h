/* runs.h - whole runs of a job under several arms, compared
 *
 * An arm here is an environment of the job; the first is the baseline.  In a
 * round every arm runs twice, in an order and then in its reverse, ABBA, and
 * the next round begins with the other end, BAAB: drift hits all of them alike.
 * A round gives one ratio of an arm's time to the baseline's, and the ratios of
 * all rounds an interval. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/stats.h"

enum { STP_JOB_ARMS = 16 }; /* at most */

/* Which time of a run is compared. */
enum stp_job_measure {
    STP_JOB_GPU,     /* of a step on the GPU, us */
    STP_JOB_PRINTED, /* of a step, as the job prints it */
    STP_JOB_WALL,    /* of the whole run, s */
};

/* A run that succeeded. */
struct stp_job_run {
    unsigned round; /* from 0 */
    unsigned place; /* in the round, from 0 */
    unsigned arm;
    double wall_s;
    double step;    /* time; 0: not known */
    unsigned steps; /* that it is the mean of */
    unsigned calls; /* collectives of a step; 0: not known */
    double loss;    /* the last one that the job printed; NAN: none */
    double start_s; /* before its first communicator; 0: not known */
};

/* The arm that runs at a place of a round, which has two for each arm. */
unsigned stp_job_arm_at(unsigned round, unsigned place, unsigned n_arms);

/* The results of an arm over its runs of complete rounds. */
struct stp_job_arm {
    size_t n_runs;
    double time;          /* their mean */
    struct stp_gain gain; /* over the baseline, whose own is 1 */
    size_t n_losses;
    double loss, loss_min, loss_max; /* mean and extremes */
};

/* Whether all runs have steps of the same collectives, so that they are
 * compared by 'measure'; else '*why_ret' says in static storage why only the
 * time of the whole run is left. */
bool stp_job_runs_have(const struct stp_job_run *runs, size_t n,
                       enum stp_job_measure measure, const char **why_ret);

/* Sums up the 'n_arms' arms, with times if there is a complete round.  Returns
 * how many there are. */
size_t stp_job_runs_sum(const struct stp_job_run *runs, size_t n,
                        enum stp_job_measure measure, unsigned n_arms,
                        struct stp_job_arm *arms_ret);
