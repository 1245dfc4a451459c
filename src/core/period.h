/*
 * period.h - the steps of a training job, found from its collectives
 *
 * A training step makes the same collectives, in the same order, again and
 * again.  From the sequence of calls of one communicator and the host's clock
 * this finds the repeating part and times it, through warm-up, evaluation
 * phases and changes of shape.
 *
 * Pure, constant memory.  One thread at a time.
 */
#ifndef STP_PERIOD_H
#define STP_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    STP_PERIOD_MAX = 1024, /* calls of a step */
};

/* A whole step: from one call of the period's first kind to the next. */
struct stp_step {
    uint64_t first_call; /* its first call's number, from 0 */
    unsigned n_calls;
    double us; /* from its first call to that of the next step */
};

struct stp_period; /* opaque */

enum stp_status stp_period_open(struct stp_period **period_ret,
                                struct stp_error *err);
void stp_period_close(struct stp_period *period); /* NULL is allowed */

/*
 * The next call: what kind of message it is (equal numbers are equal kinds) and
 * when it was made.  Returns true and a step if one is complete by it.  Steps
 * are given out only while the sequence repeats: nothing that a change of
 * shape, an evaluation or a pause interrupted.
 */
bool stp_period_call(struct stp_period *period, uint64_t kind, uint64_t t_ns,
                     struct stp_step *step_ret);

/* The calls of a step, or 0 while none is known. */
unsigned stp_period_calls(const struct stp_period *period);

/* How many calls of a step are of this kind; 0 while none is known. */
unsigned stp_period_share(const struct stp_period *period, uint64_t kind);

/*
 * How many steps of each of two arms it takes to tell, with 95 percent
 * confidence and 80 percent power, that the mean of steps of 'mean_us' and
 * standard deviation 'stddev_us' became 'saved_us' shorter; UINT64_MAX if
 * saved_us is not above 0.
 */
uint64_t stp_period_steps_needed(double mean_us, double stddev_us,
                                 double saved_us);

#ifdef __cplusplus
}
#endif
#endif /* STP_PERIOD_H */
