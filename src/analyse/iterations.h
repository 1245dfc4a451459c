/* iterations.h - what measured iterations say of each arm */
#pragma once

#include "bench/iterate.h"

/* One arm in one round. */
struct stp_iteration_round {
    unsigned round;
    double us;       /* median of its iterations */
    double alone_us; /* of one layer's collectives alone; 0: not measured */
};

/* One arm of a setting.  Gains are over the AUTO of the same rounds; of AUTO
 * itself they are 1, from 1 to 1, of no pairs. */
struct stp_iteration_arm {
    struct stp_arm arm;
    int ran_algo; /* what NCCL ran; -1 where nobody knows */
    int ran_proto;
    int ran_channels;
    char ran_kernel[STP_KERNEL_NAME]; /* as of a measurement */
    enum stp_source source;
    unsigned n_rounds;
    size_t n_iterations;   /* of all rounds */
    struct stp_summary us; /* of all of them; percentiles are NaN of too few
                              and of modelled ones, which do not spread */
    struct stp_gain gain;  /* of the rounds' medians */
    double exposed_us;     /* the mean without the compute alone: time in
                              which an iteration waits for communication; 0 if
                              below by up to 2 standard deviations of AUTO's
                              rounds, NaN if by more */
    double alone_us;       /* of one layer's collectives alone, mean over
                              rounds; 0: not measured */
    double algbw;          /* of those, GB/s: all their bytes over the time */
    double busbw;          /* the same with each collective's factor of
                              analyse/bandwidth.h */
    struct stp_gain alone_gain;
    const struct stp_iteration_round *rounds; /* n_rounds, ascending */
};

/* One workload at one size. */
struct stp_iteration_setting {
    struct stp_measurement like; /* a row of it: the collective, its size, data,
                                    ranks and the workload hold for all */
    double compute_us;           /* of an iteration's compute alone */
    double comm_us;    /* of an iteration's collectives alone, as NCCL chooses;
                          0: not measured */
    double noise;      /* standard deviation of AUTO's rounds over their mean */
    double resolution; /* the smallest gain less 1 that so many rounds tell from
                          nothing: half the 95 percent interval of a second
                          AUTO's gain if there is one, else that of an arm whose
                          rounds spread as AUTO's own; INFINITY for one round */
    const struct stp_iteration_arm *arms; /* AUTO, then by stp_order_arms() */
    size_t n_arms;                        /* >= 1 */
};

struct stp_iteration_summary {
    struct stp_iteration_setting *settings; /* by mode, collective, compute,
                                               layers, ratio, size */
    size_t n_settings;
    struct stp_iteration_arm *arms;     /* of all settings */
    struct stp_iteration_round *rounds; /* of all arms */
    double *pairs;                      /* for stp_find_regimes() to work in */
};

/* Sums up.  STP_ERR_SYNTAX if a setting has no AUTO;
 * *summary_ret is untouched then.  Free with stp_iteration_summary_free(). */
enum stp_status
stp_summarise_iterations(const struct stp_iterations *iterations,
                         struct stp_iteration_summary *summary_ret,
                         struct stp_error *err);

void stp_iteration_summary_free(struct stp_iteration_summary *summary);

/* A setting where the arm that is the fastest alone is not the one with the
 * shortest iteration.  Arms are those of the setting. */
struct stp_regime {
    const struct stp_iteration_setting *setting;
    const struct stp_iteration_arm *alone; /* the fastest alone */
    const struct stp_iteration_arm *best;  /* the shortest iteration */
    struct stp_gain gain;       /* iterations: of 'best' over 'alone' */
    struct stp_gain alone_gain; /* collectives alone: of 'alone' over 'best' */
};

/* Finds those that are beyond doubt: every arm that may be the fastest alone,
 * as the interval of the gain of 'alone' over it comes down to 1, has an
 * interval of the gain of 'best' over it at or above 1 + min_gain.  So that of
 * 'alone_gain' lies above 1.  Arms that NCCL ran as the same algorithm and
 * protocol with the same channels are one, and those not timed alone are none.
 * Into 'regimes', one a setting at most; returns how many. */
size_t stp_find_regimes(const struct stp_iteration_summary *summary,
                        double min_gain, struct stp_regime *regimes);
