/*
 * bandit_state.h - the state of a bandit: its keys and arms, and the strategies
 * that choose among them
 *
 * Times are compared in logarithms: a gain of x is exp(x) times as fast.
 */
#ifndef STP_BANDIT_STATE_H
#define STP_BANDIT_STATE_H

#include "core/learn/bandit.h"

/* HALVING: when an arm is tried. */
enum stp_stage {
    STP_STAGE_PAIRS,    /* from the start */
    STP_STAGE_CHANNELS, /* once its algorithm and protocol have settled */
};

struct stp_bandit_try {
    struct stp_bandit_arm arm;
    bool is_out;    /* pruned, eliminated or vetoed */
    bool is_banned; /* pruned or vetoed: out for good */
    uint8_t stage;
    uint8_t own_channels; /* NCCL's own count for it; 0: not known */
    uint16_t n_batches;
    float ratio; /* expected time over that of NCCL's own choice */
    float gain;  /* mean of its batches over the incumbent */
    float m2;    /* sum of squares about it */
    float inv_n; /* sum of 1 / calls of its batches */
    uint32_t n;  /* rewards */
    double mean; /* of them */
    double ss;   /* sum of squares about it */
};

enum { STP_RECENT = 8 };

/* A few calls of one arm on trial, between calls of the incumbent. */
struct stp_batch {
    bool is_open;
    bool is_over; /* the incumbent runs again; rewards may be still to come */
    unsigned n_missed; /* of the incumbent since, without one of the arm */
    unsigned arm;
    unsigned n_wanted;
    unsigned n; /* calls of the arm, and the sum of their logarithms */
    double sum;
    double last;
    double before; /* mean logarithm of the other's calls before it */
    unsigned n_before;
    unsigned n_after; /* and those since, with their sum */
    double after;
};

struct stp_bandit_slot {
    struct stp_bandit_try *arms; /* owned */
    unsigned n_arms;
    unsigned running;
    unsigned max_channels;
    uint64_t n_calls;
    uint64_t last_call; /* of all the communicator's */
    uint64_t n_trial_calls;
    double lost;

    /* HALVING alone. */
    struct stp_bandit_arm own; /* the pair that NCCL's own choice has */
    unsigned incumbent;        /* trials are paired with it */
    bool is_settled;
    bool was_settled; /* ever */
    uint8_t stage;
    unsigned runner_up;
    uint64_t retest_at;    /* of n_calls */
    bool is_due;           /* a re-test is: 'recent' begins anew */
    double incumbent_gain; /* of 'incumbent' over arm 0, and its variance */
    double incumbent_var;
    double recent[STP_RECENT]; /* logarithms of its last rewards, a ring */
    double own_level; /* logarithm of what NCCL's own choice took last; 0: it
                         never ran */
    unsigned n_incumbent; /* calls of it */
    unsigned n_recent;    /* and those since anything else ran */
    unsigned n_diffs; /* differences of neighbouring calls of one arm, and */
    double diffs_ss;  /* the sum of their squares */
    struct stp_batch batch;
};

struct stp_bandit {
    struct stp_bandit_rules rules;
    struct stp_bandit_slot *keys[STP_BANDIT_KEYS]; /* owned; NULL: not added */
    unsigned n_keys;  /* one more than the largest that was added */
    uint64_t n_calls; /* of all keys */
    uint64_t epoch;   /* wants; EPSILON alone */
    double lost;      /* by trials of all keys */
    unsigned overrun; /* calls by which the last batch was longer than wanted */
    unsigned active;  /* the key being explored */
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

/* ---- strategies ---- */

/* A strategy.  As the functions of bandit.h, for a key that exists. */
struct stp_strategy_ops {
    bool (*want)(struct stp_bandit *bandit, double elapsed,
                 struct stp_bandit_want *want_ret);
    bool (*awaits)(const struct stp_bandit *bandit,
                   const struct stp_bandit_slot *slot);
    void (*began)(const struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                  const struct stp_bandit_want *now);
    void (*reward)(struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                   unsigned arm, double value);
    void (*veto)(const struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                 unsigned arm);
    /* Fills 'best', 'is_settled' and the gain with its interval. */
    void (*verdict)(const struct stp_bandit_slot *slot,
                    struct stp_bandit_key_state *state);
};

extern const struct stp_strategy_ops stp_bandit_epsilon;
extern const struct stp_strategy_ops stp_bandit_halving;

#endif /* STP_BANDIT_STATE_H */
