/* bandit_gains.h - the state of a bandit, and what was measured of its arms
 *
 * Includes run one way: bandit.c, what to try next, asks bandit_decide.h which
 * arms are left, and that one asks what was measured. */
#pragma once

#include "core/learn/bandit.h"

/* HALVING: when an arm is tried. */
enum stp_stage {
    STP_STAGE_PAIRS,    /* from the start */
    STP_STAGE_CHANNELS, /* once its algorithm and protocol have settled */
};

/* The last blocks of an arm may still be found to be disturbed. */
enum { STP_LAST_GAINS = STP_TRIAL_BLOCKS };

struct stp_bandit_try {
    struct stp_bandit_arm arm;
    bool is_out;    /* pruned or eliminated */
    bool is_banned; /* pruned, or dropped with a set: out for good */
    uint8_t stage;
    uint8_t own_channels; /* NCCL's own count for it; 0: not known */
    bool is_pending;      /* its trial began, and blocks of it are to come */
    bool is_known;        /* ranks know it by an earlier trial */
    float ratio;          /* expected time over that of NCCL's own choice */
    double pending_us;    /* expected loss of a block */
    uint32_t n;  /* rewards, or logarithms of gains over the incumbent */
    double mean; /* of them */
    double ss;   /* sum of squares about it */

    /* HALVING: the last gains, oldest first, with disturbed ones; and n, mean
     * and ss of all gains before them. */
    unsigned n_last;
    double last[STP_LAST_GAINS];
    uint32_t n_before;
    double mean_before;
    double ss_before;
};

struct stp_bandit_slot {
    struct stp_bandit_try *arms; /* owned */
    unsigned n_arms;
    unsigned running; /* the arm in force, but for trials */
    unsigned max_channels;
    uint64_t n_calls; /* in trials */
    bool is_settled;
    bool was_settled; /* ever */

    /* EPSILON alone: turns, counted in calls of the communicator. */
    bool explores;      /* the running arm was drawn */
    bool next_explores; /* the one that is wanted was */
    uint64_t since;     /* the call with which the running arm began */
    uint64_t turn;      /* calls of the last exploring turn */
    int64_t owed;       /* calls from 'since' to the next draw; while an arm is
                           explored, from its end on */

    /* HALVING alone. */
    struct stp_bandit_arm own; /* the pair that NCCL's own choice has */
    double own_us;             /* what NCCL expects of it; 0: not known */
    unsigned share;            /* calls of a window; 0: it is not made */
    bool is_timed;             /* 'busy' is known */
    double busy;               /* share of the time in its collectives */
    unsigned incumbent;
    unsigned promoted; /* number of its promotion, over all keys */
    unsigned runner_up;
    uint8_t stage;
    uint64_t retest_at;   /* calls of the communicator */
    uint64_t retest_wait; /* calls between re-tests; doubles when one finds
                             nothing new */
    bool is_retesting;
    struct stp_bandit_try retest; /* what that measured; the arm has it, too */
    unsigned patience;     /* blocks of an arm, until it is spent; 0: as many
                              as at first */
    double incumbent_gain; /* logarithm of its gain over arm 0, and variance */
    double incumbent_var;
    uint32_t incumbent_n; /* blocks behind it */
};

/* The incumbents of all keys, against NCCL's own choice. */
struct stp_bandit_set {
    unsigned number;
    unsigned n_pending; /* blocks of trials that began */
    double pending_us;  /* their expected loss */
    double block_us;    /* expected loss of the next block */
    bool is_dropped;
    struct stp_bandit_try gain; /* n, mean and ss: logarithms */
};

enum {
    STP_SPREADS = 64,
    STP_CONFIRM_LEAST = 8, /* blocks after which a set may be dropped */
};

struct stp_bandit {
    struct stp_bandit_rules rules;
    struct stp_bandit_slot *keys[STP_BANDIT_KEYS]; /* owned; NULL: not added */
    unsigned n_keys;   /* one more than the largest that was added */
    unsigned next_key; /* whose turn it is; EPSILON alone */
    uint64_t n_draws;  /* likewise */
    double lost;       /* by trials of all keys */
    double pending;    /* what those without times are expected to lose */
    unsigned window;   /* calls of a window */
    struct stp_bandit_set set;
    unsigned n_promoted;
    unsigned n_reopened; /* how often searches were opened again */
    double noise;        /* of a block's gain: its standard deviation */
    double first_noise;  /* as it was said */
    unsigned n_spreads;
    double spreads[STP_SPREADS]; /* of the last blocks, absolute; a ring */
};

/* Errors by which an arm's gain is bound: 95 percent, of arms on which blocks
 * are taken until the bound is small enough (planted_test.cc). */
extern const double stp_bandit_z_bound;

/* Adds a value to the arm's n, mean and ss. */
void stp_bandit_add_value(struct stp_bandit_try *arm, double value);

/* Learns the noise of blocks from two windows of one arm in each. */
void stp_bandit_add_spreads(struct stp_bandit *bandit,
                            const struct stp_block *block);

/* Whether windows of one arm differ so much that the block does not count. */
bool stp_bandit_is_disturbed(const struct stp_bandit *bandit,
                             const struct stp_block *block);

/* Adds a block's gain to an arm's, of whose last ones those that are far from
 * their median do not count. */
void stp_bandit_add_gain(const struct stp_bandit *bandit,
                         struct stp_bandit_try *arm, double gain);

/* Sets what is known of an arm: n, mean and ss. */
void stp_bandit_set_gains(struct stp_bandit_try *arm, uint32_t n, double mean,
                          double ss);

/* All gains of an arm are less by so much: they are over another one. */
void stp_bandit_shift_gains(struct stp_bandit_try *arm, double by);

/* Returns the time that a block lost, us.  If it is disturbed, the shorter
 * window of each arm counts: a stall of the GPUs is no arm's loss. */
double stp_bandit_block_loss(const struct stp_bandit *bandit,
                             const struct stp_block *block);

/* Standard error of the mean of an arm's gain. */
double stp_bandit_error(const struct stp_bandit *bandit,
                        const struct stp_bandit_try *arm);
