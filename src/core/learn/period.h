/*
 * period.h - the steps of a training job, found from its collectives
 *
 * A training step makes the same collectives, in the same order, again and
 * again.  From the sequence of calls of one communicator and the host's clock
 * this finds the repeating part and times it, through warm-up, evaluation
 * phases and changes of shape.
 *
 * A sequence is found when it came three times in a row, over 16 calls or more.
 * The last four are remembered: if one of them returns, it is followed
 * from its first whole repeat on.  A sequence that repeats inside a repeating
 * sequence is part of it: 24 equal calls and a different call, repeated, are a
 * step of 25.  Until the 25 came three times, the 24 may pass for steps of one
 * call.
 *
 * Where a step begins depends on its kinds alone, not on when it was found: at
 * the rotation with the smallest kinds first.
 *
 * Pure, constant memory (under 80 KiB).  One thread at a time.
 */
#ifndef STP_PERIOD_H
#define STP_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum {
    STP_PERIOD_MAX = 1024, /* calls of a step */
};

/* A whole step: from one call of the period's first kind to the next. */
struct stp_step {
    uint64_t first_call; /* its first call's number, from 0 */
    unsigned n_calls;
    unsigned sequence; /* number: 0, 1, ... as they were found; the same again
                          if it returns while it is remembered */
    double us;         /* from its first call to that of the next step */
};

struct stp_period; /* opaque */

enum stp_status stp_period_open(struct stp_period **period_ret,
                                struct stp_error *err);
void stp_period_close(struct stp_period *period); /* NULL is allowed */

/*
 * The next call: what kind of message it is (equal numbers are equal kinds) and
 * when it was made.  Returns true and a step if one is complete by it.  Steps
 * are returned only while the sequence repeats: no step that a change of shape,
 * an evaluation or a pause (4 times the median of the last 15 steps)
 * interrupted.  The first 3 steps of a sequence are not returned either: they
 * give the median for the next ones.
 *
 * A few comparisons while the sequence repeats, some 50 on average otherwise;
 * at times 4096 of them in one call.
 */
bool stp_period_call(struct stp_period *period, uint32_t kind, uint64_t t_ns,
                     struct stp_step *step_ret);

/* The calls of a step, of the sequence that repeats or did so last; 0 while
 * none is known. */
unsigned stp_period_calls(const struct stp_period *period);

/* How many calls of such a step are of this kind; 0 while none is known. */
unsigned stp_period_share(const struct stp_period *period, uint32_t kind);

#endif /* STP_PERIOD_H */
