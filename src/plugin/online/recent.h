/*
 * recent.h - which question of NCCL's a launch belongs to
 *
 * Questions are not launches: some are simulated or captured, and several of a
 * group come before the first launch.  The launch path notes questions, NCCL's
 * profiler asks for launches, perhaps in another thread.
 */
#ifndef STP_RECENT_H
#define STP_RECENT_H

#include <stdatomic.h>

#include "plugin/online/observer.h"

enum { STP_RECENT_QUESTIONS = 16 }; /* that a launch is compared with */

/* All 0 at first. */
struct stp_recent {
    _Atomic unsigned n;
    _Atomic unsigned first;    /* of the group that is asked about */
    _Atomic bool is_launching; /* the next question is of another group */
    _Atomic uint64_t words[STP_RECENT_QUESTIONS];
};

/* A question, and what the answer was. */
void stp_recent_ask(struct stp_recent *recent, const struct stp_observed *call,
                    const struct stp_query *query);

/* A question of which nobody wants to know the launch. */
void stp_recent_skip(struct stp_recent *recent);

/* False if it is none's; else *token_ret is as stp_observer_launched() says. */
bool stp_recent_launched(struct stp_recent *recent,
                         const struct stp_launch *launch, uint32_t *token_ret);

#endif /* STP_RECENT_H */
