/*
 * bandit_judge.h - verdicts on the arms of a key, for HALVING
 *
 * Times are logarithms: a gain of x is exp(x) times as fast.
 */
#ifndef STP_BANDIT_JUDGE_H
#define STP_BANDIT_JUDGE_H

#include "core/learn/bandit_parts.h"

/*
 * 'y' as it counts, where 'usual' is what such calls take and 'var' the
 * variance of that.  Calls now and then take several times as long, whatever
 * runs: such a call counts as one that is off by three standard deviations.
 */
double stp_judge_tame(const struct stp_bandit_slot *slot, double y,
                      double usual, double var);

/* Takes the difference of two neighbouring calls of one arm into account. */
void stp_judge_note(struct stp_bandit_slot *slot, double diff);

/* The variance of one call, from neighbouring ones, so that what drifts is not
 * in it, and its degrees of freedom. */
double stp_judge_noise(const struct stp_bandit_slot *slot);
size_t stp_judge_freedom(const struct stp_bandit_slot *slot);

/* The variance between an arm's batches; 0 for one. */
double stp_judge_own_var(const struct stp_bandit_try *arm);

/* The arm to be tried next: of those left that with the fewest batches; 0 if
 * none is. */
unsigned stp_judge_next(const struct stp_bandit_slot *slot);

/* Draws what conclusions there are after a batch: drops arms, goes on to
 * channel counts, settles. */
void stp_judge(const struct stp_bandit *bandit, struct stp_bandit_slot *slot);

/* Settles with the home; to be re-tested soon if in doubt. */
void stp_judge_settle(const struct stp_bandit *bandit,
                      struct stp_bandit_slot *slot, bool is_doubtful);

/* The home lost after all: goes back to NCCL's own choice, and on with what is
 * left. */
void stp_judge_take_back(const struct stp_bandit *bandit,
                         struct stp_bandit_slot *slot);

/* Forgets what is known of the arms, and goes back to NCCL's own choice. */
void stp_judge_restart(struct stp_bandit_slot *slot);

void stp_judge_set_home(struct stp_bandit_slot *slot, unsigned arm);

#endif /* STP_BANDIT_JUDGE_H */
