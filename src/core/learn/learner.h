/*
 * learner.h - from what is seen of a running job to what it should try next
 *
 * Where the times come from is the objective:
 *
 *   gpu    of each collective on the GPU, by the profiler
 *   step   of the training step, found from the calls (period.h)
 *   file   what the application wrote: of a key, the n-th line belongs to the
 *          n-th call, or with fewer or more lines to the arm in force, to
 *          which epsilon-greedy gives all of them
 *   auto   the GPU's times propose an arm, and steps must get shorter by it
 *          (confirm.h); without a profiler, step
 *
 * Steps are timed by when collectives ended on the GPU where that is known, for
 * a host runs ahead of it by many steps and then waits; else by when they were
 * called.
 *
 * Calls, changes and times come in the order in which they happened on one
 * rank, as notes (ring.h).  What it wants, others must agree to: it hears of
 * that by a note, too.
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

/* Whether times of collectives on the GPU are wanted for it. */
bool stp_learn_objective_is_gpu(enum stp_learn_objective objective);

struct stp_learner_rules {
    struct stp_bandit_rules bandit;
    enum stp_learn_objective objective;
};

/* What is worth telling. */
enum stp_learn_kind {
    STP_LEARN_TRIAL,     /* an arm is tried */
    STP_LEARN_BACK,      /* the key goes back to it */
    STP_LEARN_BLOCK,     /* it runs for steps that are to confirm an arm */
    STP_LEARN_REWARD,    /* 'value', us or the file's ms */
    STP_LEARN_STEPPED,   /* a step of 'value' us */
    STP_LEARN_PERIOD,    /* a step has 'value' calls */
    STP_LEARN_SETTLED,   /* with the arm; gain over NCCL's own choice */
    STP_LEARN_CONFIRMED, /* steps are shorter; their gain */
    STP_LEARN_LONGER,    /* steps are longer: the arm is out; their gain */
    STP_LEARN_NOISY,     /* it would take 'value' steps of each arm to tell; 0:
                            there are no steps */
    STP_N_LEARN_KINDS,
};
const char *stp_learn_kind_name(enum stp_learn_kind kind);

struct stp_learn_event {
    enum stp_learn_kind kind;
    uint64_t call; /* how many there were before */
    int key;       /* -1: of no key */
    unsigned arm;
    double value;
    double gain; /* of what has one, else 0 */
    double gain_low;
    double gain_high;
};

typedef void (*stp_learn_sink)(void *user, const struct stp_learn_event *event);

struct stp_learner; /* opaque */

/* 'sink' is told what happens, by whichever function is called then; NULL for
 * nobody. */
enum stp_status stp_learner_open(const struct stp_learner_rules *rules,
                                 stp_learn_sink sink, void *user,
                                 struct stp_learner **learner_ret,
                                 struct stp_error *err);
void stp_learner_close(struct stp_learner *learner); /* NULL is allowed */

/* A new key, before its first note; as stp_bandit_add_key(). */
void stp_learner_add_key(struct stp_learner *learner, unsigned key,
                         const struct stp_cost_view *view,
                         unsigned max_channels);

/* Something happened.  Keys from STP_BANDIT_KEYS on are of no key, but part of
 * a step. */
void stp_learner_note(struct stp_learner *learner, const struct stp_note *note);

/* The application wrote a time for the key. */
void stp_learner_reward(struct stp_learner *learner, unsigned key, double ms);

/* What it wants next, if anything: nothing while the last wish is on its way.
 * 'arm_ret' is what the arm is. */
bool stp_learner_wants(struct stp_learner *learner,
                       struct stp_bandit_want *want_ret,
                       struct stp_bandit_arm *arm_ret);

/* Whether there is something to find out yet, or again; only then times are of
 * use. */
bool stp_learner_is_exploring(const struct stp_learner *learner);

/* The GPU's times will not come: steps alone say what is better. */
void stp_learner_do_without_gpu(struct stp_learner *learner);

/* What was learned of a key.  is_settled only if it also was confirmed, where
 * that is asked for. */
struct stp_bandit_key_state stp_learner_key(const struct stp_learner *learner,
                                            unsigned key);
const struct stp_bandit *stp_learner_bandit(const struct stp_learner *learner);

#endif /* STP_LEARNER_H */
