/* follower.h - the launch path of the online plugin, the same on every rank
 *
 * Each rank takes the proposals of its communicator's agreement from an epoch
 * on: an arm for a key, a trial of one, of those that several keys tried last,
 * or of NCCL's own choice for all keys (core/learn/trial.h), or how long
 * windows are.  Epochs and windows are counted in calls, which all ranks make
 * alike; an epoch does not end while a trial is under way.  On several hosts
 * nothing is proposed: a schedule says which arm a call runs
 * (core/learn/schedule.h).  On the observer, each call is reported to
 * observer.h.  Where no arm is in force, a policy decides, if there is one, and
 * NCCL else.
 */
#pragma once

#include "plugin/backend.h"
#include "plugin/online/observer.h"

#define STP_BASE_CHOICE "the choice without Steptune"

/* The keys of a communicator, numbered as they appear: all ranks make the same
 * calls in the same order, so they number alike. */
enum { STP_KEYS_SLOTS = 512 }; /* a power of two, well above the keys */

struct stp_keys {
    enum stp_strategy strategy; /* determines the bands */
    unsigned n;
    struct {
        uint16_t tag; /* collective and band; 0: free */
        uint8_t key;
    } slots[STP_KEYS_SLOTS];
};

/* The arm in force for a key, but for trials. */
struct stp_in_force {
    struct stp_bandit_arm arm; /* algo -1: NCCL's own choice to begin with */
    uint8_t index;             /* of it */
};

/* The trial under way.  All ranks count its calls alike. */
struct stp_follower_trial {
    bool is_on;
    unsigned n_keys; /* that try arms; 0: NCCL's own choice is tried for all */
    struct {
        unsigned key;
        struct stp_in_force tried;
    } mates[STP_TRIAL_MATES];
    unsigned running;   /* a bit a key, or the lowest of all: in this window the
                           arm runs, not the incumbent */
    uint32_t n_left;    /* calls to the next window */
    uint32_t window;    /* the next one's number, from 0 */
    uint32_t n_windows; /* of the trial */
    uint32_t n_calls;   /* of a window */
    uint32_t turn;      /* windows in place of each: 2 of a twofold trial */
    uint64_t first_call;
};

/* One rank's; written by follower.c alone. */
struct stp_follower {
    struct stp_shared_policy *policy; /* NULL: none */
    struct stp_agreement *agreement;  /* of ranks that propose; or NULL */
    struct stp_schedule *schedule;    /* of several hosts; NULL: none */
    bool same_bits;                   /* sums keep NCCL's own bits: only rules
                                         of a policy that promises them decide */
    const char *why_not;              /* nothing is learned; NULL: it is */
    const char *why_idle;             /* likewise, where it would be */
    struct stp_observer *observer;    /* of the rank that learns; NULL on the
                                         others */
    bool is_checked;                  /* takes_part and learns are known */
    bool takes_part;                  /* all ranks take part */
    bool learns;                      /* this rank is the observer */
    uint64_t n_calls;                 /* since ranks were checked */
    uint32_t countdown;               /* calls to the next epoch */
    uint32_t epoch_calls;             /* of an epoch */
    uint32_t short_epoch;             /* of one while arms are tried */
    uint32_t window_calls;            /* of a window; 0: not yet agreed on */
    unsigned proposed_key;            /* of the last proposal */
    struct stp_keys keys;
    struct stp_in_force in_force[STP_BANDIT_KEYS];
    struct stp_bandit_arm tried[STP_SHARED_KEYS][STP_SHARED_ARMS]; /* before */
    struct stp_follower_trial trial;
};

/* 'policy_path' NULL: none; 'same_bits': sums keep NCCL's own bits, as they do
 * if the policy says so; 'rules' NULL: nothing is to be learned.  'schedule':
 * of a communicator of several hosts, NULL: it only follows the policy.
 * Allocates all that decides, and fails as stp_shared_policy_acquire(). */
enum stp_status stp_follower_open(const struct stp_comm_info *info,
                                  const char *policy_path, bool same_bits,
                                  const struct stp_learner_rules *rules,
                                  const struct stp_schedule_rules *schedule,
                                  struct stp_follower **follower_ret,
                                  struct stp_error *err);

/* Makes the observer if this rank is to be it: of a schedule, as the
 * communicator's rank 0.  'agreement' NULL: none. */
void stp_follower_join(struct stp_follower *follower,
                       struct stp_agreement *agreement, bool is_rank_0,
                       const struct stp_learner_rules *rules);

/* As stp_backend_fingerprint(). */
void stp_follower_fingerprint(const struct stp_follower *follower,
                              struct stp_fingerprint *fingerprint);

void stp_follower_describe(const struct stp_follower *follower, char *buf,
                           size_t size);

/* As stp_backend_choose(). */
bool stp_follower_choose(struct stp_follower *follower,
                         const struct stp_query *query,
                         const struct stp_cost_view *view,
                         struct stp_choice *choice_ret);

/* Whether the next call is to be timed.  After stp_follower_choose(), in its
 * thread. */
bool stp_follower_wants_time(const struct stp_follower *follower);

void stp_follower_close(struct stp_follower *follower);
