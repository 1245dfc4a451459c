/*
 * learn_parts.h - the arms of a call, and one play of a job
 */
#ifndef STP_LEARN_PARTS_H
#define STP_LEARN_PARTS_H

#include "analyse/simulate/learn.h"
#include "analyse/simulate/learn_story.h"

/* A collective and a size. */
struct stp_learn_key {
    ncclFunc_t coll;
    size_t n_bytes;
    double own_us;        /* mean time of NCCL's own choice */
    struct mock_run best; /* arm */
    double best_us;
};

struct stp_learn_keys {
    struct stp_learn_key key[STP_LEARN_KEYS];
    size_t n;
};

/* The job's keys, each with its best arm. */
enum stp_status stp_learn_find_keys(const struct stp_learn_job *job,
                                    struct mock_nccl *nccl,
                                    const struct mock_machine *machine,
                                    struct stp_learn_keys *keys_ret,
                                    struct stp_error *err);

/* The place of a call among the keys. */
size_t stp_learn_key_of(const struct stp_learn_keys *keys,
                        const struct mock_call *call);

struct stp_learn_play {
    const struct stp_learn_keys *keys;
    size_t n_steps;
    bool is_oracle;
    double *step_us;                              /* n_steps */
    struct stp_learn_story story[STP_LEARN_KEYS]; /* of a key each */
    bool modelled;
};

/* Plays the job once with a learner; 'play' has its keys and room for steps. */
enum stp_status stp_learn_play(const struct stp_learn_job *job,
                               const struct mock_machine *machine,
                               const struct stp_learner *learner, uint64_t seed,
                               struct stp_learn_play *play,
                               struct stp_error *err);

#endif /* STP_LEARN_PARTS_H */
