/* observer.h - the rank that learns
 *
 * The launch path and NCCL's profiler leave notes, which a thread elsewhere
 * digests; it then proposes arms to the ranks of its agreement. */
#pragma once

#include <stdbool.h>

#include "agree/agreement.h"
#include "core/learn/learner.h"
#include "core/learn/reward_log.h"
#include "core/learn/schedule.h"
#include "core/policy/policy.h"

struct stp_observer; /* opaque */

/* Proposes to 'agreement', or, where that is NULL, observes 'schedule'; which
 * must live as long.  NULL: out of memory. */
struct stp_observer *stp_observer_new(const struct stp_learner_rules *rules,
                                      struct stp_agreement *agreement,
                                      const struct stp_schedule *schedule);
void stp_observer_free(struct stp_observer *observer); /* NULL is allowed */

/* ---- on the launch path ---- */

/* The next call. */
struct stp_observed_call {
    unsigned key;                     /* STP_BANDIT_KEYS if it has none */
    unsigned index;                   /* of the arm in force */
    struct stp_bandit_arm policy_arm; /* the policy's answer; algo -1: none */
    bool is_new;                      /* the first call of the key */
    bool is_timed;                    /* a window begins with it */
};
void stp_observer_call(struct stp_observer *observer,
                       const struct stp_observed_call *call,
                       const struct stp_query *query,
                       const struct stp_cost_view *view);

/* Tells the observer that a proposal is in force from call number 'call' on; of
 * a round once for each of its keys, with its arm and its pattern. */
void stp_observer_began(struct stp_observer *observer,
                        const struct stp_proposal *proposal, unsigned pattern,
                        uint64_t call, unsigned window_calls);

/* Tells the observer what the schedule says with call number 'call'. */
void stp_observer_heard(struct stp_observer *observer, enum stp_note_kind kind,
                        uint64_t call);

/* Whether all calls are to be timed. */
bool stp_observer_is_sampling(const struct stp_observer *observer);

/* How many calls before a timed one the profiler is to be switched on: 1, or
 * more where NCCL is given several collectives at once. */
unsigned stp_observer_lead(const struct stp_observer *observer);

/* Stops all proposals for this reason, whose text is not copied. */
void stp_observer_stop(struct stp_observer *observer, const char *why);

/* ---- from NCCL's profiler, in any thread ---- */

/* A collective that NCCL launches, as its profiler sees it. */
struct stp_launch {
    int coll;         /* ncclFunc_t */
    uint64_t n_bytes; /* as a tuner counts them */
};

/* Takes the launch of a timed call. False if its time is of no use; else
 * *token_ret is for stp_observer_took(). */
bool stp_observer_launched(struct stp_observer *observer,
                           const struct stp_launch *launch,
                           uint32_t *token_ret);

/* A launch began on the GPU, by its clock; 'host_ns' is when the host launched
 * it, 0: not known.  One thread at a time. */
void stp_observer_took(struct stp_observer *observer, uint32_t token,
                       unsigned n_channels, uint64_t host_ns,
                       uint64_t begin_ns);

/* A launch ended there.  Likewise. */
void stp_observer_ended(struct stp_observer *observer, uint32_t token,
                        uint64_t end_ns);

/* ---- off the launch path, one thread at a time ---- */

/* Begins to learn.  'sink' is given events within stp_observer_run_pass(). */
enum stp_status stp_observer_begin(struct stp_observer *observer,
                                   stp_learn_sink sink, void *user,
                                   struct stp_error *err);

/* Hands over the evidence of earlier runs on communicators of this shape,
 * before the first stp_observer_run_pass(). 'list' must live as long as the
 * observer. */
void stp_observer_recall(struct stp_observer *observer,
                         const struct stp_evidence_list *list,
                         const struct stp_shape *shape);

/* Decides by all that was measured so far, if a schedule is observed. */
void stp_observer_conclude(struct stp_observer *observer);

/* Digests the notes, and proposes the next trials. */
void stp_observer_run_pass(struct stp_observer *observer);

/* Returns why proposals have stopped, or NULL. */
const char *stp_observer_why_stopped(const struct stp_observer *observer);

void stp_observer_reward(struct stp_observer *observer,
                         const struct stp_reward *reward);

/* Results for the messages of a key: arm.algo is -1 where none decides. */
struct stp_learned {
    int coll; /* -1: an event is of no key */
    struct stp_range bytes;
    struct stp_bandit_arm arm;
    double gain; /* of windows over the policy's answer or NCCL's own choice */
    double gain_low;
    double gain_high;
    uint64_t n_calls;
};

/* The message and the arm of an event. */
void stp_observer_explain(const struct stp_observer *observer,
                          const struct stp_learn_event *event,
                          struct stp_learned *learned_ret);

/* The i-th settled key; false if there are not as many. */
bool stp_observer_learned(const struct stp_observer *observer, size_t i,
                          struct stp_learned *learned_ret);
