/*
 * cpu_times.h - what the ranks of a run tell each other afterwards
 */
#ifndef STP_CPU_TIMES_H
#define STP_CPU_TIMES_H

#include <stddef.h>

#include "launch/world.h"

/* When the events of a run were, on all ranks.  Begin with all zero; free 'us'
 * with free(). */
struct stp_cpu_times {
    double *us; /* rank after rank, n_events each; by the clock of its host */
    size_t n_events;
    unsigned n_ranks;
};

/* Gives the 'n_events' (1 or more) times of this rank and gets those of all.
 * All ranks call it; *times is untouched on failure. */
enum stp_status stp_cpu_times_share(const struct stp_world *world,
                                    const double *mine, size_t n_events,
                                    struct stp_cpu_times *times,
                                    struct stp_error *err);

/* Microseconds between two events, on the slowest rank. */
double stp_cpu_times_between(const struct stp_cpu_times *times, unsigned from,
                             unsigned to);

/* Microseconds from the first event to the last, on the slowest rank; 0 without
 * any. */
double stp_cpu_times_span(const struct stp_cpu_times *times);

/*
 * A broken connection is the first that a rank sees of another that died. Waits
 * up to a second for the world to know who it was, and then has *err say that;
 * else *err stays as it is.
 */
void stp_cpu_find_who_died(const struct stp_world *world,
                           struct stp_error *err);

#endif /* STP_CPU_TIMES_H */
