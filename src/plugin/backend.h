/*
 * backend.h - what decides, seen from the plugin
 *
 * A backend decides; it knows nothing of NCCL's ABI, of the environment or of a
 * logger.  Each tuner plugin is plugin/ linked with exactly one backend.  A new
 * backend is one file in backend/ and one line in src/CMakeLists.txt.
 */
#ifndef STP_BACKEND_H
#define STP_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/learn/learner.h"
#include "core/learn/reward_log.h"
#include "core/policy/policy.h"
#include "core/status.h"

/* The communicator that an instance serves. */
struct stp_comm_info {
    uint64_t comm_id; /* same on every rank; 0 if NCCL gave none (v2-v4) */
    struct stp_shape shape; /* lives only as long as the call */
};

/* What the user set.  All of it lives only as long as the call. */
struct stp_settings {
    const char *policy_path; /* NULL: none, for a backend that learns */
    const struct stp_learner_rules
        *learner; /* NULL: nothing is to be learned */
};

/* What was learned of one kind of message: arm.algo is -1 where what the
 * backend would have answered else stays. */
struct stp_learned {
    int coll;
    struct stp_range bytes;
    struct stp_bandit_arm arm;
    double gain; /* over what the backend would have answered else */
    double gain_low;
    double gain_high;
    uint64_t n_calls;
};

/* A collective that NCCL launches, as its profiler sees it. */
struct stp_launch {
    int coll;         /* ncclFunc_t */
    uint64_t n_bytes; /* as a tuner counts them */
    int algo;
    int proto;
    unsigned n_channels;
};

struct stp_observer; /* the part of an instance that learns */
struct stp_times;    /* agree/times.h: where ranks note the GPU's times */

/* What a backend that learns has besides. */
struct stp_learn_ops {
    /* Whether it wants to know when a question is asked, and when that was:
     * called before choose(), in its thread. */
    bool (*wants_time)(const void *self);
    void (*set_time)(void *self, uint64_t t_ns);

    /* Where this rank is to note when collectives began and ended, NULL if
     * nobody wants to know; lives as long as the instance.  wants_times() is
     * whether that is of use for calls to come: on all ranks alike, to be asked
     * after choose(), in its thread. */
    struct stp_times *(*times)(void *self);
    bool (*wants_times)(const void *self);

    /* One rank of a communicator learns; NULL on the others.  Lives as long as
     * the instance. */
    struct stp_observer *(*observer)(void *self);

    /* Begins to learn.  'sink' is told of it, from within think(). */
    enum stp_status (*begin)(struct stp_observer *observer, stp_learn_sink sink,
                             void *user, struct stp_error *err);

    /* Digests what was seen, and proposes what is to be tried.  Not on the
     * launch path; one thread at a time, as all that follow but launched() and
     * took(). */
    void (*think)(struct stp_observer *observer);
    bool (*is_exploring)(const struct stp_observer *observer);

    /* Whether nothing will be tried any more: not all ranks take part, or one
     * was too far behind. */
    bool (*is_stopped)(const struct stp_observer *observer);

    /* Whether it does without the GPU's times, for not all ranks note them. */
    bool (*is_blind)(const struct stp_observer *observer);
    void (*reward)(struct stp_observer *observer,
                   const struct stp_reward *reward);

    /* False if nobody wants the time of it; else what took() is to be told
     * when this rank has noted its times: the how manieth it was of its
     * function, and when it ended by the GPU's clock.  In whichever thread
     * launches, and in one that sees the end. */
    bool (*launched)(struct stp_observer *observer,
                     const struct stp_launch *launch, uint32_t *token_ret);
    void (*took)(struct stp_observer *observer, uint32_t token, uint64_t number,
                 uint64_t end_ns);

    /* The message and the arm of an event. */
    void (*explain)(const struct stp_observer *observer,
                    const struct stp_learn_event *event,
                    struct stp_learned *learned_ret);

    /* What is settled, 'i' from 0 on; false from the last one on. */
    bool (*learned)(const struct stp_observer *observer, size_t i,
                    struct stp_learned *learned_ret);
};

struct stp_backend_ops {
    /* Shown by NCCL in its log.  Static storage. */
    const char *name;

    /*
     * Makes an instance for one communicator.  On failure *self_ret is
     * untouched, *err says why, close() is not called, and NCCL tunes alone.
     * May be called from several threads at once, for different
     * communicators.  May read files.
     */
    enum stp_status (*open)(const struct stp_comm_info *info,
                            const struct stp_settings *settings,
                            void **self_ret, struct stp_error *err);

    /*
     * Answers '*query' into *choice_ret with a pair that '*view' allows, or
     * returns false and leaves it untouched to let NCCL decide.  Every rank of
     * a communicator must give the same answers in the same order, or the job
     * hangs.  On NCCL's launch path: must not block, allocate, log or do I/O.
     * Calls for one instance never overlap; those for different instances may.
     */
    bool (*choose)(void *self, const struct stp_query *query,
                   const struct stp_cost_view *view,
                   struct stp_choice *choice_ret);

    /*
     * A number, not 0, that is equal for two instances only if they answer
     * every question alike.  The plugin compares it between the ranks of a
     * host.
     */
    uint64_t (*fingerprint)(const void *self);

    /* Writes one line for the log that says what this instance will do. */
    void (*describe)(const void *self, char *buf, size_t size);

    /* Frees the instance.  No other call follows. */
    void (*close)(void *self);

    const struct stp_learn_ops *learn; /* NULL: it does not learn */
};

/* Defined once by whichever backend is linked into a plugin. */
extern const struct stp_backend_ops stp_backend;

#endif /* STP_BACKEND_H */
