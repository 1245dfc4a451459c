/*
 * simulate.h - how well a plugin learns while a job runs on a recorded machine
 *
 * A job is played with each learner, and with the same noise as NCCL runs it
 * alone, so that the learner is the only difference.
 */
#ifndef STP_SIMULATE_H
#define STP_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/stats.h"
#include "core/status.h"
#include "mock_job.h"

enum {
    STP_LEARN_FIRST = 1000, /* steps that are looked at as the time of learning
                             */
    STP_LEARN_KEYS = 64,    /* of a job */
    STP_LEARN_STALL_US = 8000,
};

struct stp_learn_job {
    const char *machine_path;
    const char *nccl;           /* version; NULL: the default */
    struct mock_job_shape step; /* at least one call, of at least 1 byte */
    size_t n_steps;             /* at least 20 */
    unsigned n_seeds;           /* at least 1 */
    uint64_t seed;              /* of the first; the others follow it */
    double compute_noise;       /* as in struct mock_job_options */
    double stalls;              /* likewise, of STP_LEARN_STALL_US */
    double jitter_us;
    struct mock_job_host host;
    bool captured;
    bool overlapped;
    bool own_channels; /* the best arm has NCCL's own channel count */

    /* NULL, or: told how many jobs of how many are played.  False stops with
     * STP_ERR_STOPPED. */
    bool (*progress)(void *user, size_t done, size_t total);
    void *user;
};

enum stp_learner_kind {
    STP_LEARNER_AUTO,   /* NCCL alone */
    STP_LEARNER_ORACLE, /* the best arm of each call from the beginning */
    STP_LEARNER_PLUGIN, /* a tuner and profiler in one library */
};

struct stp_learner {
    enum stp_learner_kind kind;
    const char *name;
    const char *plugin; /* path; of a plugin only */

    /* NULL, or: called before each job, to set the environment, in the caller's
     * thread.  *reward_file_ret is NULL, and may be set to where the job is to
     * write its rewards. */
    enum stp_status (*prepare)(void *user, uint64_t seed,
                               const char **reward_file_ret,
                               struct stp_error *err);
    void *user;
};

/* What there is to be learned of a collective and a size, and over all seeds
 * was. */
struct stp_learned_key {
    ncclFunc_t coll;
    size_t n_bytes;
    struct mock_run best;   /* the arm of the least mean time */
    double gain;            /* of it over NCCL's own choice */
    size_t n_best;          /* seeds that ended within 1 percent of it */
    double searched_median; /* as below */
};

/* What became of it, over all seeds. */
struct stp_learned {
    size_t n_keys; /* of one job */

    /* Changes of a key's choice, but for those back. */
    double trials_median;

    /* Calls of a key until its choice changed for the last time, re-tests apart
     * (simulate_story.h), and of those from the first change on, as one key may
     * wait for another; 0: never. */
    double settled_median;
    double settled_p95;
    double searched_median;
    double searched_p95;

    double lost;       /* share of always-AUTO's time; below 0: won */
    double lost_first; /* of the first STP_LEARN_FIRST steps */

    size_t n_trying; /* keys of all seeds whose choice still changed in the last
                        fifth of their calls, re-tests apart */

    /* Keys of all seeds whose choice in most of the last fifth of their calls
     * takes at most 1 percent longer than the best arm. */
    size_t n_best;
    size_t n_finals; /* keys of all seeds */

    struct stp_gain final; /* of the last fifth of the steps over AUTO's; a pair
                              for each seed */
    unsigned n_worse;      /* seeds that ended worse than AUTO: by more than 0.5
                              percent, beyond the noise of its steps */
    size_t n_times;        /* of collectives, in the jobs of this learner */
    size_t n_modelled;     /* those that nobody recorded or interpolated */
    struct stp_learned_key keys[STP_LEARN_KEYS];
};

/* Plays the job with each of 'n' learners.  learned_ret[i] is that of
 * learners[i]. */
enum stp_status stp_learn(const struct stp_learn_job *job,
                          const struct stp_learner *learners, size_t n,
                          struct stp_learned *learned_ret,
                          struct stp_error *err);

#endif /* STP_SIMULATE_H */
