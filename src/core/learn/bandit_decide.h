/* bandit_decide.h - where a learned arm is decided: which arms of a key are
 * left, and which has won (stp_bandit_judge()) */
#pragma once

#include "core/learn/bandit_gains.h"

enum { STP_BLOCKS_TO_WIN = 5 }; /* of an arm, at least */

/* ---- the arms of a key ---- */

/* Fills a new key's arms; false if out of memory. */
bool stp_bandit_make_arms(const struct stp_bandit_rules *rules,
                          const struct stp_cost_view *view,
                          struct stp_bandit_slot *slot);

/* Adds an arm with this expected time; NULL without room. */
struct stp_bandit_try *stp_bandit_add_arm(struct stp_bandit_slot *slot,
                                          const struct stp_bandit_arm *arm,
                                          enum stp_stage stage, double ratio);

/* Adds the channel counts of the pair that the incumbent has: a half, all, and
 * of one that has a half a quarter. */
void stp_bandit_add_channels(struct stp_bandit_slot *slot);

int stp_bandit_index(const struct stp_bandit_slot *slot,
                     const struct stp_bandit_arm *arm); /* -1: none */

/* ---- HALVING ---- */

/* Whether an arm is still to be told from the incumbent. */
bool stp_bandit_is_left(const struct stp_bandit_slot *slot, unsigned arm);

/* Whether an arm's only block differs by more than all the time that the key
 * takes: stalls may have hit both windows alike. */
bool stp_bandit_is_odd(const struct stp_bandit_slot *slot, unsigned arm);

/* The arm that is left and has won over the incumbent beyond doubt; 0: none. */
unsigned stp_bandit_find_winner(const struct stp_bandit *bandit,
                                const struct stp_bandit_slot *slot);

/* Decides by what was measured: eliminates arms, promotes one that has won to
 * the incumbent, goes on to its channel counts, or settles the key. */
void stp_bandit_judge(struct stp_bandit *bandit, struct stp_bandit_slot *slot,
                      uint64_t n_calls);

/* The last block of a re-test was taken: the search starts over if the arm is
 * better now. */
void stp_bandit_end_retest(const struct stp_bandit *bandit,
                           struct stp_bandit_slot *slot, uint64_t n_calls);

/* The key's results are no longer true: its search starts over. */
void stp_bandit_restart(struct stp_bandit_slot *slot);

/* Opens the searches of settled keys again where an arm may still gain what
 * counts, for all that is known: its like get as many blocks once more. */
void stp_bandit_reopen(struct stp_bandit *bandit);

/* The newest of the incumbents is out for good, or it would win its search and
 * be dropped with the set again and again; its key's search starts over. */
void stp_bandit_drop_newest(struct stp_bandit *bandit);
