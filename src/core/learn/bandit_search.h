/* bandit_search.h - HALVING: which arm to try next
 *
 * Searches of all keys are open at once.  Each arm has a look of one block;
 * those that need more share windows with arms of other keys, in patterns that
 * are orthogonal (trial.h).  Re-tests wait until no search is open. */
#pragma once

#include "core/learn/bandit_decide.h"

/* No arm of the key can gain what counts. */
bool stp_bandit_is_hopeless(const struct stp_bandit *b,
                            const struct stp_bandit_slot *slot);

/* Whether the key has more blocks to come.  'slot' NULL: it has not. */
bool stp_bandit_is_open(const struct stp_bandit *b,
                        const struct stp_bandit_slot *slot, uint64_t n_calls);

/* As stp_bandit_wants(). */
bool stp_bandit_search(struct stp_bandit *b,
                       const struct stp_bandit_clock *clock,
                       struct stp_bandit_want *want_ret);

/* Begins a new comparison of the set, as it or the step has changed. */
void stp_bandit_renew_set(struct stp_bandit *bandit);

/* Takes a block of the set. */
void stp_bandit_take_set_block(struct stp_bandit *b,
                               const struct stp_block *block);
