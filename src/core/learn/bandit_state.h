/*
 * bandit_state.h - the state of a bandit: its keys and arms, and the strategies
 * that choose among them
 */
#ifndef STP_BANDIT_STATE_H
#define STP_BANDIT_STATE_H

#include "core/learn/bandit.h"

/* HALVING: when an arm is tried. */
enum stp_stage {
    STP_STAGE_PAIRS,    /* from the start */
    STP_STAGE_CHANNELS, /* once its algorithm and protocol have settled */
};

/* Blocks of an arm of which some may still turn out not to count. */
enum { STP_LAST_GAINS = STP_TRIAL_BLOCKS };

struct stp_bandit_try {
    struct stp_bandit_arm arm;
    bool is_out;    /* pruned or eliminated */
    bool is_spent;  /* eliminated for want of blocks */
    bool is_banned; /* pruned, or dropped with a set: out for good */
    uint8_t stage;
    uint8_t own_channels; /* NCCL's own count for it; 0: not known */
    bool is_pending;      /* its trial began, and blocks of it are to come */
    float ratio;          /* expected time over that of NCCL's own choice */
    double pending_us;    /* what a block is expected to lose */
    uint32_t n;  /* rewards, or logarithms of gains over the incumbent */
    double mean; /* of them */
    double ss;   /* sum of squares about it */

    /* HALVING: the last of these gains, oldest first, with those that do not
     * count, and the same three of all before them. */
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
    double lost;
    bool is_settled;
    bool was_settled; /* ever */

    /* HALVING alone. */
    struct stp_bandit_arm own; /* the pair that NCCL's own choice has */
    double own_us;             /* what NCCL expects of it; 0: not known */
    unsigned share;            /* calls of a window; 0: it is not made */
    unsigned incumbent;
    unsigned promoted; /* number of its promotion, over all keys */
    unsigned runner_up;
    uint8_t stage;
    uint64_t retest_at;   /* calls of the communicator */
    uint64_t retest_wait; /* from the last to the next: doubles with each that
                             finds nothing new */
    bool is_retesting;
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
    double pending_us;  /* what they are expected to lose */
    double block_us;    /* what one that is wanted is */
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
    unsigned n_keys; /* one more than the largest that was added */
    uint64_t epoch;  /* wants; EPSILON alone */
    double lost;     /* by trials of all keys */
    double pending;  /* what those without times are expected to lose */
    unsigned active; /* the key being searched; STP_BANDIT_KEYS: none */
    unsigned window; /* calls of a window */
    struct stp_bandit_set set;
    unsigned n_promoted;
    unsigned n_reopened; /* how often searches were opened again */
    double noise;        /* of a block's gain: its standard deviation */
    unsigned n_spreads;
    double spreads[STP_SPREADS]; /* of the last blocks, absolute; a ring */
};

/* ---- arms ---- */

/* Fills a new key's arms; false if out of memory. */
bool stp_bandit_make_arms(const struct stp_bandit_rules *rules,
                          const struct stp_cost_view *view,
                          struct stp_bandit_slot *slot);

/* Adds an arm with this expected time; NULL without room. */
struct stp_bandit_try *stp_bandit_add_arm(struct stp_bandit_slot *slot,
                                          const struct stp_bandit_arm *arm,
                                          enum stp_stage stage, double ratio);

/* Adds the channel counts of the pair that 'incumbent' has. */
void stp_bandit_add_channels(struct stp_bandit_slot *slot);

int stp_bandit_index(const struct stp_bandit_slot *slot,
                     const struct stp_bandit_arm *arm); /* -1: none */

/* Adds a value to the arm's n, mean and ss. */
void stp_bandit_add_value(struct stp_bandit_try *arm, double value);

/* ---- noise ---- */

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

/* What a block lost, us.  If it is disturbed, the shorter window of each arm
 * counts: a stall of the GPUs is no arm's loss. */
double stp_bandit_block_loss(const struct stp_bandit *bandit,
                             const struct stp_block *block);

/* Standard error of the mean of an arm's gain. */
double stp_bandit_error(const struct stp_bandit *bandit,
                        const struct stp_bandit_try *arm);

/* ---- the set of incumbents ---- */

/* A trial of the set. */
bool stp_bandit_set_wants(struct stp_bandit *bandit,
                          const struct stp_bandit_clock *clock,
                          struct stp_bandit_want *want_ret);

/* Whether it has had 'n_blocks', or there is nothing to compare. */
bool stp_bandit_set_has(const struct stp_bandit *bandit, unsigned n_blocks);

/* The set has changed, or the step has. */
void stp_bandit_set_renew(struct stp_bandit *bandit);

/* A trial of the set has begun. */
void stp_bandit_set_began(struct stp_bandit *bandit, unsigned n_blocks);

/* Takes a block of a trial of the set. */
void stp_bandit_set_block(struct stp_bandit *bandit,
                          const struct stp_block *block);

/* ---- strategies ---- */

/* A strategy.  As the functions of bandit.h, for a key that exists. */
struct stp_strategy_ops {
    bool (*want)(struct stp_bandit *bandit,
                 const struct stp_bandit_clock *clock,
                 struct stp_bandit_want *want_ret);
    bool (*awaits)(const struct stp_bandit *bandit,
                   const struct stp_bandit_slot *slot, uint64_t n_calls);
    void (*began)(struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                  const struct stp_bandit_want *now);
    /* Fills 'best', 'is_settled' and the gain with its interval. */
    void (*verdict)(const struct stp_bandit_slot *slot,
                    struct stp_bandit_key_state *state);
};

extern const struct stp_strategy_ops stp_bandit_epsilon;
extern const struct stp_strategy_ops stp_bandit_halving;

/* HALVING: the keys' shares of a window are others than before. */
void stp_bandit_halving_renew(struct stp_bandit *bandit);

/* HALVING: the newest of the incumbents is out, and its key's search begins
 * anew. */
void stp_bandit_halving_drop(struct stp_bandit *bandit);

/* EPSILON, after the reward has been added to the arm. */
void stp_bandit_epsilon_reward(struct stp_bandit_slot *slot, unsigned arm,
                               double value);

#endif /* STP_BANDIT_STATE_H */
