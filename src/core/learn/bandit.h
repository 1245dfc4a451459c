/* bandit.h - which arm a key should run next, and the gains of its arms
 *
 * A key is a kind of message: a collective and a band of sizes on one
 * communicator.  An arm is an algorithm, a protocol and a number of channels;
 * arm 0 is always NCCL's own choice.
 *
 * A bandit requests a trial or another incumbent (stp_bandit_wants()), is told
 * once all ranks have it in force (stp_bandit_began()), and learns from times
 * since then: HALVING from blocks of windows (windows.h), EPSILON from the
 * times that an application wrote, of which less is better.
 *
 * bandit_gains.c has what was measured, bandit_decide.c which arms are left and
 * which one wins (stp_bandit_judge()), bandit_search.c what to try next.
 *
 * Pure: no clock, no environment, no I/O.  One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/learn/windows.h"
#include "core/policy/policy.h"
#include "core/status.h"

enum {
    STP_BANDIT_KEYS = 128, /* of a communicator; further ones are NCCL's */
    STP_BANDIT_ARMS = 32,  /* of a key */
    STP_BANDIT_SET = STP_BANDIT_KEYS, /* in place of a key: all of them */
};

/* The values of STEPTUNE_STRATEGY.
 *
 * HALVING tries the arms of all keys, in blocks of windows between which it
 * need not wait for times: each in a block of its own, then several keys in the
 * same windows, in patterns that tell their gains apart (trial.h).  An arm's
 * gain is the mean logarithm of its blocks'; their noise is known from windows
 * of one arm in one block.  An arm is out when by 2 standard errors it is
 * slower than another, or does not gain min_gain; a block in which two windows
 * of one arm differ by more than 5 standard deviations was disturbed and does
 * not count, nor does one whose gain is as far from the median of the arm's
 * last 8, or of up to 3 from that nearest to none; nor decides a single one by
 * more than the time that its key takes. An arm wins when no other is left and
 * its gain is 4 standard errors above min_gain in 5 blocks, or in 16 of such as
 * vary by 1 percent: 95 percent each of 20 arms that are judged after each one;
 * not by more than the time that the key takes.
 * Then channel counts, a half, all, and of a half a quarter, are arms like
 * the winner, except the count it has anyway.
 *
 * Incumbents won in short windows, while other keys ran other arms. So the set
 * of all incumbents is compared with NCCL's own choice for all keys, in blocks
 * of long windows (trial.h), once no search is left and after each change of
 * the set. A set slower by more than 2 standard errors loses its newest arm. */
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
    double epsilon;  /* in [0, 1]: share of calls that explore; EPSILON only */
    double min_gain; /* NCCL's own choice stays unless windows are faster by
                        this beyond doubt; 0.002; HALVING only */
    double prune;    /* arms that NCCL's cost table puts this many times above
                        its best are never tried; 2.5; 0: none are pruned */
    double budget;   /* share of the elapsed time that trials may lose; 0.01;
                        HALVING only */
    unsigned retest_calls;   /* of the communicator until a key is tested again;
                                doubles each time; 1000; 0: never; HALVING only */
    unsigned confirm_blocks; /* in which a set is compared with NCCL's own
                                choice, for a fifth of the budget; 8; 0: never;
                                HALVING only */
    double confirm_us;       /* at least, of a window for that; 300000 */
    bool persists;     /* searches on until the bounds of all arms say that
                          none gains min_gain; HALVING only */
    unsigned n_passes; /* trials of an arm by a schedule, in which nothing is
                          decided before stp_bandit_conclude(); 0: as they are
                          wanted; HALVING only */
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

/* The band that a message of 'n_bytes' is in: EPSILON has one a power of two,
 * HALVING four.  Keys are numbered by the caller, 0 to STP_BANDIT_KEYS - 1, in
 * the order in which they first appear. */
unsigned stp_bandit_band(enum stp_strategy strategy, uint64_t n_bytes);

/* The smallest and the largest message of a band that some size is in. */
struct stp_range stp_bandit_band_range(enum stp_strategy strategy,
                                       unsigned band);

/* Introduces key 'key' with the cost table of its first call (NULL members: not
 * known; then only the rules' own arms) and the number of channels NCCL would
 * use (0: unknown). The pair that NCCL takes anyway is no arm. A key that is
 * there already stays as it is. A key without memory is not added, and calls
 * about it do nothing. */
void stp_bandit_add_key(struct stp_bandit *bandit, unsigned key,
                        const struct stp_cost_view *view,
                        unsigned max_channels);

/* Notes that 'arm' ran on so many channels: NCCL's own count, if it asks for
 * none. Arm 0 gives NCCL's count for the key if that was unknown before. An arm
 * is not tried with the count that NCCL gives it anyway. */
void stp_bandit_set_channels(struct stp_bandit *bandit, unsigned key,
                             unsigned arm, unsigned n_channels);

/* Sets the calls of a window, and each key's part of them: a key with 0 is not
 * tried. Other shares than before mean another training step, in which settled
 * keys are tested again. */
void stp_bandit_set_window(struct stp_bandit *bandit,
                           const unsigned shares[STP_BANDIT_KEYS],
                           unsigned n_calls);

/* HALVING: sets the share of the time that collectives of a key are under way.
 * Keys are searched in this order, and not where it is below min_gain. */
void stp_bandit_set_busy(struct stp_bandit *bandit, unsigned key, double share);

/* ---- while the job runs ---- */

/* The next thing to do. */
struct stp_bandit_want {
    unsigned key;      /* or STP_BANDIT_SET */
    unsigned arm;      /* of that key; 0 of the set */
    unsigned n_blocks; /* of a trial, in which it takes turns with the
                          incumbent; 0: it stays */
    unsigned n_calls;  /* of a window of a trial of the set */
    uint64_t call;     /* EPSILON: with which the arm begins */
    unsigned n_mates;  /* of a trial of STP_TRIAL_BLOCKS: further keys that try
                          an arm in the same windows */
    struct {
        unsigned key;
        unsigned arm;
    } mates[STP_TRIAL_MATES - 1];
};

/* A job's calls so far, and their pace. */
struct stp_bandit_clock {
    uint64_t n_calls; /* of the communicator */
    double call_us;   /* mean time from call to call under the incumbents */
};

/* Whether a trial or another incumbent is wanted. HALVING tries first the key
 * with the most time in collectives; a trial may follow before the results of
 * earlier trials have arrived. Deterministic: depends on the calls of these
 * functions and on the seed. */
bool stp_bandit_wants(struct stp_bandit *bandit,
                      const struct stp_bandit_clock *clock,
                      struct stp_bandit_want *want_ret);

/* Whether more blocks of the key are to come: before it has settled, and while
 * a re-test is due or under way. */
bool stp_bandit_awaits(const struct stp_bandit *bandit, unsigned key,
                       uint64_t n_calls);

/* Tells the bandit that the trial has begun, or that the arm is in force. */
void stp_bandit_began(struct stp_bandit *bandit,
                      const struct stp_bandit_want *want);

/* EPSILON: a call of 'key' took 'value' while 'arm' was in force. */
void stp_bandit_reward(struct stp_bandit *bandit, unsigned key, unsigned arm,
                       double value);

/* HALVING: takes the evidence of earlier runs on an arm that has not been
 * tried: 'n' blocks, the mean logarithm of its gain over NCCL's own choice, and
 * the sum of squares about that. An arm that NCCL rules out stays out. */
void stp_bandit_recall(struct stp_bandit *bandit, unsigned key,
                       const struct stp_bandit_arm *arm, uint32_t n,
                       double log_gain, double log_ss);

/* HALVING: sets the noise of a block's gain until blocks are known. */
void stp_bandit_set_noise(struct stp_bandit *bandit, double noise);

/* HALVING: takes the next block of a trial, in order. A block that is not
 * complete does nothing but end its trial, if it is the last. */
void stp_bandit_block(struct stp_bandit *bandit, const struct stp_block *block,
                      uint64_t n_calls);

/* An arm that a schedule does not try: it is out. */
void stp_bandit_rule_out(struct stp_bandit *bandit, unsigned key, unsigned arm);

/* The trials that a schedule has to make of the keys of a window. */
struct stp_bandit_plan {
    unsigned n_trials; /* of an arm of a key */
    unsigned n_most;   /* of one key */
    double loss_us;    /* of a window that all of them share, by NCCL's cost
                          table: modelled */
};
struct stp_bandit_plan stp_bandit_get_plan(const struct stp_bandit *bandit);

/* The schedule is through, or the job ends: each key of which an arm was tried
 * settles, as before then each does once all of its arms were.  Nothing is in
 * force: the best arm is the one that has won over NCCL's own choice so far. */
void stp_bandit_conclude(struct stp_bandit *bandit);

/* ---- results ---- */

struct stp_bandit_arm_state {
    struct stp_bandit_arm arm;
    uint64_t n;  /* rewards or blocks */
    double mean; /* of them; of blocks, the logarithm of their gain over the
                    incumbent */
    bool is_out; /* pruned or eliminated */
};

struct stp_bandit_key_state {
    unsigned n_arms;
    unsigned running; /* the arm in force */
    unsigned best;    /* the arm with which it would settle now */
    bool is_settled;
    uint64_t n_calls; /* HALVING: in trials until it settled first, under the
                         arm and under the incumbent */
    double gain; /* of 'best' over NCCL's own choice: of windows, or rewards */
    double gain_low; /* 95 percent interval */
    double gain_high;
};

/* HALVING: what the arms of a key that were tried may gain over NCCL's own
 * choice: of the one that may gain most, with its 95 percent interval. */
struct stp_bandit_bound {
    unsigned n_tried;   /* arms; 0: nothing is known */
    unsigned n_untried; /* that are to be tried yet */
    unsigned arm;
    double gain;
    double gain_low;
    double gain_high;
};

/* The set of all incumbents, HALVING only. */
struct stp_bandit_set_state {
    unsigned number;   /* differs from set to set */
    unsigned n_blocks; /* of comparison with NCCL's own choice */
    bool is_confirmed; /* in enough blocks to keep or to drop it */
    bool is_dropped;
    double gain; /* over NCCL's own choice; 1 without blocks */
    double gain_low;
    double gain_high;
};

struct stp_bandit_key_state stp_bandit_get_key(const struct stp_bandit *bandit,
                                               unsigned key);
struct stp_bandit_bound stp_bandit_get_bound(const struct stp_bandit *bandit,
                                             unsigned key);
struct stp_bandit_set_state stp_bandit_get_set(const struct stp_bandit *bandit);
struct stp_bandit_arm_state stp_bandit_get_arm(const struct stp_bandit *bandit,
                                               unsigned key, unsigned arm);
