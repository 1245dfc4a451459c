/* profile.h - when collectives began on the GPU, by NCCL's profiler
 *
 * One .so is NCCL's tuner and its profiler.  NCCL makes the profiler's context
 * of a communicator first, then the tuner's, in the same thread, and names
 * neither to the other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "plugin/online/observer.h"

struct stp_profile; /* one communicator's, on one rank; opaque */

/* Takes the context that NCCL made last in this thread, if it is of 'comm_id',
 * to be given back with stp_profile_release(). NULL if there is none:
 * NCCL_PROFILER_PLUGIN does not name this plugin. */
struct stp_profile *stp_profile_take(uint64_t comm_id);

/* The rank in its communicator. */
int stp_profile_rank(const struct stp_profile *profile);

/* NULL is allowed. */
void stp_profile_release(struct stp_profile *profile);

/* Reports times to the observer from now on; with NULL times are dropped, also
 * those of collectives under way.  'has_clock': the host's clock is that of the
 * job, whose launches it can tell; in virtual time it is not. */
void stp_profile_attach(struct stp_profile *profile,
                        struct stp_observer *observer, bool has_clock);

/* Whether the next collectives are to be timed: NCCL's profiler is on for the
 * process while any communicator wants it.  Else NCCL tells only of groups, on
 * the host, until one is captured into a CUDA graph or there were 65536. */
void stp_profile_want(struct stp_profile *profile, bool is_wanted);

/* Whether collectives of the process were captured into a CUDA graph; once.
 * NCCL names one communicator of a group, whose rank may be another. */
bool stp_profile_take_graph(void);

/* Collectives on which no tuner decides, among those that NCCL reported while
 * times were wanted. */
struct stp_profile_others {
    uint64_t n_symmetric; /* kernels for symmetric windows */
    uint64_t n_copied;    /* copy engines */
};
struct stp_profile_others stp_profile_others(struct stp_profile *profile);
