/*
 * ranks.h - all ranks of a run as the device that measuring loops see
 *
 * An engine is one rank; this is the one loop over those of a process, on each
 * platform: what is noted is issued to every rank from a common start, and the
 * times of all ranks, of all processes, are gathered.
 */
#ifndef STP_RANKS_H
#define STP_RANKS_H

#include "device/engine.h"

struct stp_ranks_options {
    const struct stp_world *world; /* outlives the device */
    unsigned n_threads;            /* of this process; 0: the caller's alone */
    unsigned n_per_thread;         /* ranks that each of them has */
    uint64_t max_bytes;            /* of the largest collective */
    bool graph;                    /* what is noted runs as a graph */
    unsigned time_limit_s;         /* for one run; 0: none */
};

/*
 * Makes a device of this process's 'engines', which were opened for measuring:
 * n_per_thread, or that of each thread.  They are the device's, and closed if
 * it cannot be made.  All processes of options->world call it.
 */
enum stp_status stp_ranks_open(const struct stp_ranks_options *options,
                               const struct stp_engine *engines,
                               struct stp_device *device_ret,
                               struct stp_error *err);

#endif /* STP_RANKS_H */
