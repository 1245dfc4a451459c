/*
 * learner_parts.h - the parts of a learner: what it sees (learner.c), what it
 * wants (learner_want.c) and what it tells (learner_tell.c)
 */
#ifndef STP_LEARNER_PARTS_H
#define STP_LEARNER_PARTS_H

#include "core/learn/learner.h"
#include "core/learn/steps.h"

/* One key. */
struct stp_learner_state {
    bool is_known;
    uint8_t in_force;   /* arm */
    uint8_t ran;        /* arm with which it ran last on the GPU */
    uint8_t confirmed;  /* arm of which steps got shorter; 0: none */
    bool was_settled;   /* told so */
    uint64_t last_call; /* number of its last call */

    uint64_t n_calls;
    uint64_t n_lines;    /* of a file: the last is of this call, from 1 */
    uint64_t n_before;   /* calls before those of the arm in force */
    uint8_t before;      /* arm before it */
    bool lines_are_some; /* a line is not a call's: of the last one, then */
};

struct stp_learner {
    struct stp_learner_rules rules;
    stp_learn_sink sink;
    void *user;
    struct stp_bandit *bandit;
    struct stp_steps *steps;

    uint64_t n_calls;
    uint64_t n_timed;     /* that steps are found by */
    uint64_t last_change; /* of those, before what is in force */
    uint64_t last_ns;     /* of the last call that has a time */
    double elapsed_us;
    bool has_steps;
    unsigned sequence; /* of the steps that count (period.h) */
    unsigned n_others; /* steps of another one since */
    double step_us;    /* running mean */

    bool is_pending; /* a wish is on its way */
    bool of_bandit;  /* it is the bandit's, not a confirmation's */
    struct stp_bandit_want pending;
    int trial_key; /* of a trial in force; -1: none */
    struct {
        uint64_t n_calls;
        uint64_t n_timed;
    } heard; /* what there was at the last word of what is tried */

    int confirm_key; /* -1: nothing is being confirmed */
    unsigned confirm_arm;
    bool must_switch;
    struct stp_confirm confirm;
    uint64_t blocked_since; /* an arm waits to be confirmed; 0: none does */

    struct stp_learner_state keys[STP_BANDIT_KEYS];
};

/* Whether times are those of collectives on the GPU. */
bool stp_learner_is_by_gpu(const struct stp_learner *learner);

/* Whether the job still has the key. */
bool stp_learner_is_live(const struct stp_learner *learner, unsigned key);

/* Whether what is confirmed runs: a GPU is behind its host. */
bool stp_learner_is_run(const struct stp_learner *learner);

/* There is word of what is tried, or it changes. */
void stp_learner_heard(struct stp_learner *learner);

/* ---- learner_tell.c ---- */

void stp_learner_tell(const struct stp_learner *learner,
                      enum stp_learn_kind kind, int key, unsigned arm,
                      double value);

/* That the key is settled with the arm, and its gain. */
void stp_learner_tell_settled(const struct stp_learner *learner, int key,
                              unsigned arm);

/* What the confirmation came to. */
void stp_learner_tell_verdict(const struct stp_learner *learner,
                              enum stp_learn_kind kind);

#endif /* STP_LEARNER_PARTS_H */
