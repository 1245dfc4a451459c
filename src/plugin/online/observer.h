/*
 * observer.h - the rank that learns: what it sees, and what it makes of it
 *
 * The launch path and NCCL's profiler leave notes, and one thread elsewhere
 * thinks about them.
 */
#ifndef STP_OBSERVER_H
#define STP_OBSERVER_H

#include <stdbool.h>

#include "plugin/backend.h"

struct stp_observer; /* opaque */
struct stp_published;
struct stp_times;

/* Proposes to 'published', and reads 'times', which may be NULL; both must live
 * as long.  NULL: out of memory. */
struct stp_observer *stp_observer_new(const struct stp_learner_rules *rules,
                                      struct stp_published *published,
                                      const struct stp_times *times);
void stp_observer_free(struct stp_observer *observer); /* NULL is allowed */

/* ---- on the launch path ---- */

bool stp_observer_wants_time(const struct stp_observer *observer);

/* A call of 'key'. */
struct stp_observed {
    unsigned key;
    unsigned arm; /* its number; in force */
    struct stp_bandit_arm what;
    struct stp_bandit_arm before; /* what a policy says; algo -1: nothing */
    bool is_new;                  /* the first of its kind */
    uint64_t t_ns;                /* on the host's clock; 0: unknown */
};
void stp_observer_call(struct stp_observer *observer,
                       const struct stp_observed *call,
                       const struct stp_query *query,
                       const struct stp_cost_view *view);

/* From the next call on. */
void stp_observer_began(struct stp_observer *observer, unsigned key,
                        unsigned arm);

/* Nothing will be decided any more: there is nothing to find out. */
void stp_observer_stop(struct stp_observer *observer);

/* Not all ranks note times. */
void stp_observer_blind(struct stp_observer *observer);

/* ---- the rest is as struct stp_learn_ops has it ---- */

enum stp_status stp_observer_begin(struct stp_observer *observer,
                                   stp_learn_sink sink, void *user,
                                   struct stp_error *err);
void stp_observer_think(struct stp_observer *observer);
bool stp_observer_is_exploring(const struct stp_observer *observer);
bool stp_observer_is_stopped(const struct stp_observer *observer);
bool stp_observer_is_blind(const struct stp_observer *observer);
void stp_observer_reward(struct stp_observer *observer,
                         const struct stp_reward *reward);
bool stp_observer_launched(struct stp_observer *observer,
                           const struct stp_launch *launch,
                           uint32_t *token_ret);
void stp_observer_took(struct stp_observer *observer, uint32_t token,
                       uint64_t number, uint64_t end_ns);
void stp_observer_explain(const struct stp_observer *observer,
                          const struct stp_learn_event *event,
                          struct stp_learned *learned_ret);
bool stp_observer_learned(const struct stp_observer *observer, size_t i,
                          struct stp_learned *learned_ret);

#endif /* STP_OBSERVER_H */
