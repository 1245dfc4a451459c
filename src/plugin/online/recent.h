/*
 * recent.h - which of NCCL's questions a launch belongs to
 *
 * Questions are not launches: some are simulated or captured, and several of a
 * group come before the first launch.  The launch path notes questions, NCCL's
 * profiler looks them up for launches, perhaps in another thread.
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

/* A question and its answer. */
void stp_recent_ask(struct stp_recent *recent,
                    const struct stp_observed_call *call,
                    const struct stp_query *query);

/* A question whose launch is of no use. */
void stp_recent_skip(struct stp_recent *recent);

/* False if the launch belongs to none; else as stp_observer_launched(). */
bool stp_recent_launched(struct stp_recent *recent,
                         const struct stp_launch *launch, uint32_t *token_ret);

#endif /* STP_RECENT_H */
