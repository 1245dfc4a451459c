/*
 * steps.h - the steps of a job, by the order of its calls and the pauses in it
 *
 * A step may be many calls of one kind: 24 buckets of 25 MB, say.  By their
 * order alone each of them is a step (period.h).  So calls are searched twice:
 * the second search takes a call after a long pause, as that of a forward pass,
 * for another kind than a call soon after its predecessor; where it finds a
 * longer sequence, that sequence is the step.
 *
 * Pure.  One thread at a time.
 */
#ifndef STP_STEPS_H
#define STP_STEPS_H

#include "core/learn/period.h"

enum { STP_STEPS_KINDS = 1 << 16 }; /* kinds are below this */

struct stp_steps; /* opaque */

enum stp_status stp_steps_open(struct stp_steps **steps_ret,
                               struct stp_error *err);
void stp_steps_close(struct stp_steps *steps); /* NULL is allowed */

/* As stp_period_call(). */
bool stp_steps_call(struct stp_steps *steps, unsigned kind, uint64_t t_ns,
                    struct stp_step *step_ret);

/* The calls of a step; 0 while none is known. */
unsigned stp_steps_calls(const struct stp_steps *steps);

/* How many calls of a step are of this kind; 0 while no step is known. */
unsigned stp_steps_share(const struct stp_steps *steps, unsigned kind);

#endif /* STP_STEPS_H */
