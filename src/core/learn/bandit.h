/*
 * bandit.h - which arm a key should run next, and the gains of its arms
 *
 * A key is a kind of message: a collective and a band of sizes on one
 * communicator.  An arm is an algorithm, a protocol and a number of channels;
 * arm 0 is always NCCL's own choice.  A reward is a time, the less the better,
 * in any one unit a key: microseconds of a collective, of a step, or a time
 * that an application wrote.
 *
 * A bandit decides, but its arms run only once all ranks agree: it returns the
 * arm it wants next (stp_bandit_wants()), is told when that arm is in force
 * (stp_bandit_began()), and learns from the rewards since.
 *
 * Pure: no clock, no environment, no I/O.  One thread at a time.
 */
#ifndef STP_BANDIT_H
#define STP_BANDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy/policy.h"
#include "core/status.h"

enum {
    STP_BANDIT_KEYS = 128, /* of a communicator; further ones are NCCL's */
    STP_BANDIT_ARMS = 32,  /* of a key */
};

/*
 * Those of STEPTUNE_STRATEGY.
 *
 * HALVING runs NCCL's own choice for six calls, then each arm for one call
 * again and again (from the third time on for two), between calls of NCCL's
 * own: an arm's gain is the mean over its trials of the logarithm of how much
 * faster it was than those.  The noise of calls is learned from
 * neighbouring calls.  An arm is out when it is worse than another or cannot
 * gain min_gain by 1.5 standard errors, at once by 35 percent, or after four
 * trials if it is not promising.  It wins when it is the last one and has
 * min_gain, and 3 standard errors: 95 percent each of 20 arms.  Then channel
 * counts, a half, a quarter and all, are arms like the winner, except the count
 * it has anyway.  These numbers are those by which the times recorded on 2 and
 * 4 x H200 settle within 40 calls in half of all keys, with nothing slower than
 * NCCL's own choice in the end; a gain of 5 percent where calls vary by 5
 * percent needs up to 150.
 */
enum stp_strategy {
    STP_STRATEGY_HALVING, /* successive elimination with confidence bounds */
    STP_STRATEGY_EPSILON, /* epsilon-greedy on running means, as in the seeds */
    STP_N_STRATEGIES,
};
const char *stp_strategy_name(enum stp_strategy strategy);
int stp_strategy_from_name(const char *word, size_t len); /* -1 for none */

struct stp_bandit_arm {
    int8_t algo;        /* NCCL_ALGO_*; -1: NCCL's own choice of everything */
    int8_t proto;       /* NCCL_PROTO_* */
    uint8_t n_channels; /* 1 to STP_MAX_CHANNELS; 0: NCCL's own count */
};

struct stp_bandit_rules {
    enum stp_strategy strategy;
    double epsilon;  /* in [0, 1]: share of epochs that explore; EPSILON only */
    double min_gain; /* NCCL's own choice stays unless an arm is faster by this
                        with 95 percent confidence; 0.02 */
    double prune;    /* arms that NCCL's cost table puts this many times above
                        its best are never tried; 2.5; 0: none are pruned */
    double budget;   /* share of the elapsed time that trials may lose; 0.01 */
    unsigned retest_calls;  /* of a key between re-tests; 1000; 0: none */
    unsigned retest_trials; /* calls of a re-test; 5 */
    uint64_t seed;
    /* Arms of every key beside NCCL's own; n_arms 0: every pair that the cost
     * table allows, and once one of these has settled its channel counts. */
    struct stp_bandit_arm arms[STP_BANDIT_ARMS];
    size_t n_arms; /* less than STP_BANDIT_ARMS */
};

/* The defaults of a strategy; of EPSILON with an epsilon of 0.1, the arms
 * tree/simple, tree/ll128 and ring/simple, and none pruned. */
struct stp_bandit_rules stp_bandit_rules_default(enum stp_strategy strategy);

struct stp_bandit; /* opaque; made by stp_bandit_open() */

/* Fills *bandit_ret, to be freed with stp_bandit_close(); or, with it
 * untouched, STP_ERR_RANGE for rules that are out of theirs, or STP_ERR_NOMEM.
 */

enum stp_status stp_bandit_open(const struct stp_bandit_rules *rules,
                                struct stp_bandit **bandit_ret,
                                struct stp_error *err);
void stp_bandit_close(struct stp_bandit *bandit); /* NULL is allowed */

/* ---- keys ---- */

/*
 * The band that a message of 'n_bytes' is in: EPSILON has one a power of two,
 * HALVING four.  Keys are numbered by the caller, 0 to STP_BANDIT_KEYS - 1, in
 * the order in which they first appear.
 */
unsigned stp_bandit_band(enum stp_strategy strategy, uint64_t n_bytes);

/* The smallest and the largest message of a band that some size is in. */
struct stp_range stp_bandit_band_range(enum stp_strategy strategy,
                                       unsigned band);

/*
 * Introduces key 'key' with the cost table of its first call (NULL members: not
 * known; then only the rules' own arms) and the number of channels NCCL would
 * use (0: unknown).  Of the pairs in the table the one that NCCL takes anyway
 * is no arm.  A key that is there already, or for which there is no memory,
 * stays as it is: whatever is said of a key that was not added does nothing.
 */
void stp_bandit_add_key(struct stp_bandit *bandit, unsigned key,
                        const struct stp_cost_view *view,
                        unsigned max_channels);

/* 'arm' ran on so many channels: NCCL's own count, if it asks for none.  Arm 0
 * says how many NCCL uses for the key, where that was not known when it was
 * added; and a count that an arm has anyway is not tried with it. */
void stp_bandit_saw_channels(struct stp_bandit *bandit, unsigned key,
                             unsigned arm, unsigned n_channels);

/* ---- while the job runs ---- */

/* The arm to run next. */
struct stp_bandit_want {
    unsigned key;
    unsigned arm;     /* of that key */
    bool is_trial;    /* else it is the incumbent, or the arm it settles with */
    unsigned n_calls; /* of the key that the trial needs, after which ranks may
                         return to the incumbent; 0: unknown */
};

/*
 * Whether a key should run another arm than it runs.  'elapsed' is the time
 * since the communicator began, in the unit of rewards, for the budget.  Only
 * one key is explored at a time.  Deterministic: depends on the calls of these
 * functions and on the seed.
 */
bool stp_bandit_wants(struct stp_bandit *bandit, double elapsed,
                      struct stp_bandit_want *want_ret);

/* Whether rewards of the key decide something: before it has settled, and from
 * when a re-test is due until it has ended. */
bool stp_bandit_awaits(const struct stp_bandit *bandit, unsigned key);

/* The wanted arm is in force from now on; so is, with is_trial false, the
 * incumbent after a trial.  Rewards may be late, but those of one key arrive in
 * the order of its calls. */
void stp_bandit_began(struct stp_bandit *bandit,
                      const struct stp_bandit_want *want);

/* One call of 'key' took 'value' while 'arm' was in force. */
void stp_bandit_reward(struct stp_bandit *bandit, unsigned key, unsigned arm,
                       double value);

/* A call of 'key' was made, with or without a reward: re-tests count these. */
void stp_bandit_call(struct stp_bandit *bandit, unsigned key);

/* Abandons the trial of the key, if there is one: its rewards do not arrive.
 * There is no other before a reward of the incumbent. */
void stp_bandit_give_up(struct stp_bandit *bandit, unsigned key);

/* Bans the arm from the key: a confirmation found it worse. */
void stp_bandit_veto(struct stp_bandit *bandit, unsigned key, unsigned arm);

/* ---- results ---- */

struct stp_bandit_arm_state {
    struct stp_bandit_arm arm;
    uint64_t n;  /* rewards */
    double mean; /* of them */
    double stddev;
    bool is_out; /* pruned, eliminated or vetoed */
};

struct stp_bandit_key_state {
    unsigned n_arms;
    unsigned running; /* the arm in force */
    unsigned best;    /* the arm with which it would settle now */
    bool is_settled;
    uint64_t n_calls;
    uint64_t n_trial_calls; /* until it settled first: trials, and the calls
                               that they were compared to */
    double lost; /* by trials, in the unit of rewards; below 0: they gained */
    double gain; /* of 'best' over NCCL's own choice */
    double gain_low; /* 95 percent interval */
    double gain_high;
};

struct stp_bandit_key_state stp_bandit_get_key(const struct stp_bandit *bandit,
                                               unsigned key);
struct stp_bandit_arm_state stp_bandit_get_arm(const struct stp_bandit *bandit,
                                               unsigned key, unsigned arm);

#endif /* STP_BANDIT_H */
