/*
 * learner.h - from the calls and times of a running job to the arm to try next
 *
 * The objective determines which times count:
 *
 *   gpu    of each collective on the GPU, by the profiler
 *   step   of the training step, found from the calls (period.h)
 *   file   of the application's file: a key's n-th line belongs to its n-th
 *          call, or with fewer or more lines to the arm in force, to which
 *          epsilon-greedy gives all lines
 *   auto   the GPU's times propose an arm, and steps must get shorter by it
 *          (confirm.h); without a profiler, step
 *
 * Steps are timed by when collectives ended on the GPU where that is known, for
 * a host runs ahead of it by many steps and then waits; else by when they were
 * called.
 *
 * Calls, changes and times arrive in the order in which they happened on one
 * rank, as notes (ring.h).  All ranks must agree to the arm that the learner
 * wants; a note says when it is in force.
 *
 * Pure: no clock, no environment, no I/O.  One thread at a time.
 */
#ifndef STP_LEARNER_H
#define STP_LEARNER_H

#include "core/learn/bandit.h"
#include "core/learn/confirm.h"
#include "core/learn/ring.h"

/* Those of STEPTUNE_OBJECTIVE. */
enum stp_learn_objective {
    STP_LEARN_AUTO,
    STP_LEARN_STEP,
    STP_LEARN_GPU,
    STP_LEARN_FILE,
    STP_N_LEARN_OBJECTIVES,
};
const char *stp_learn_objective_name(enum stp_learn_objective objective);
int stp_learn_objective_from_name(const char *word, size_t len); /* -1 */

/* Whether the objective needs times of collectives on the GPU. */
bool stp_learn_objective_is_gpu(enum stp_learn_objective objective);

struct stp_learner_rules {
    struct stp_bandit_rules bandit;
    enum stp_learn_objective objective;
};

/* Events, for logs and journals. */
enum stp_learn_kind {
    STP_LEARN_TRIAL,     /* an arm is tried */
    STP_LEARN_BACK,      /* the key returns to the arm */
    STP_LEARN_BLOCK,     /* the arm runs for steps that confirm an arm */
    STP_LEARN_REWARD,    /* 'value', us or the file's ms */
    STP_LEARN_STEPPED,   /* a step of 'value' us */
    STP_LEARN_PERIOD,    /* a step has 'value' calls */
    STP_LEARN_SETTLED,   /* with the arm; gain over NCCL's own choice */
    STP_LEARN_CONFIRMED, /* steps are shorter; their gain */
    STP_LEARN_LONGER,    /* steps are longer: the arm is out; their gain */
    STP_LEARN_NOISY,     /* a verdict takes 'value' steps of each arm; 0: there
                            are no steps */
    STP_N_LEARN_KINDS,
};
const char *stp_learn_kind_name(enum stp_learn_kind kind);

struct stp_learn_event {
    enum stp_learn_kind kind;
    uint64_t call; /* number of calls before */
    int key;       /* -1: of no key */
    unsigned arm;
    double value;
    double gain; /* 0 for events without */
    double gain_low;
    double gain_high;
};

typedef void (*stp_learn_sink)(void *user, const struct stp_learn_event *event);

struct stp_learner; /* opaque */

/* 'sink' receives events within the functions below; NULL: events are dropped.
 */
enum stp_status stp_learner_open(const struct stp_learner_rules *rules,
                                 stp_learn_sink sink, void *user,
                                 struct stp_learner **learner_ret,
                                 struct stp_error *err);
void stp_learner_close(struct stp_learner *learner); /* NULL is allowed */

/* A new key, before its first note; as stp_bandit_add_key(). */
void stp_learner_add_key(struct stp_learner *learner, unsigned key,
                         const struct stp_cost_view *view,
                         unsigned max_channels);

/* Takes a note.  Calls of a key from STP_BANDIT_KEYS on only count as part of a
 * step. */
void stp_learner_note(struct stp_learner *learner, const struct stp_note *note);

/* The application wrote a time for the key. */
void stp_learner_reward(struct stp_learner *learner, unsigned key, double ms);

/* The arm to propose next, if any: none while the last proposal is pending.
 * '*arm_ret' is its algorithm, protocol and channels. */
bool stp_learner_wants(struct stp_learner *learner,
                       struct stp_bandit_want *want_ret,
                       struct stp_bandit_arm *arm_ret);

/* Whether arms are still tried, or again; only then times are of use. */
bool stp_learner_is_exploring(const struct stp_learner *learner);

/* The GPU's times do not arrive: learns from steps alone. */
void stp_learner_do_without_gpu(struct stp_learner *learner);

/* A key's result.  is_settled only if it also was confirmed, where the
 * objective asks for that. */
struct stp_bandit_key_state stp_learner_key(const struct stp_learner *learner,
                                            unsigned key);
const struct stp_bandit *stp_learner_bandit(const struct stp_learner *learner);

#endif /* STP_LEARNER_H */
