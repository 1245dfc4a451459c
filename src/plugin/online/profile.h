/*
 * profile.h - how long collectives took on the GPU, by NCCL's profiler
 *
 * One .so is NCCL's tuner and its profiler.  NCCL makes the profiler's context
 * of a communicator first, then the tuner's, in the same thread, and names
 * neither to the other.
 */
#ifndef STP_PROFILE_H
#define STP_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "plugin/backend.h"

struct stp_profile; /* one communicator's, on one rank; opaque */

/* The context that NCCL made last in this thread, if it is of 'comm_id'; NULL
 * if there is none: NCCL_PROFILER_PLUGIN does not name this plugin.  To be
 * given back with stp_profile_release(). */
struct stp_profile *stp_profile_take(uint64_t comm_id);

/* NULL is allowed. */
void stp_profile_release(struct stp_profile *profile);

/* Times are noted in 'times' from now on, and the observer is told of it if
 * there is one.  Both NULL: nobody wants them, and none is on its way any
 * more. */
void stp_profile_attach(struct stp_profile *profile, struct stp_times *times,
                        struct stp_observer *observer);

/* Whether times are wanted: NCCL's profiler is on for the process while any
 * communicator wants them, and else costs nothing. */
void stp_profile_want(struct stp_profile *profile, bool is_wanted);

/* Whether a collective was captured into a CUDA graph; once. */
bool stp_profile_saw_graph(struct stp_profile *profile);

#endif /* STP_PROFILE_H */
