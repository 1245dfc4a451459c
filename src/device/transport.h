/* transport.h - the communication library below a device of CPUs
 *
 * One instance a process, which is one rank.  Buffers are in host memory.  All
 * ranks make the same calls in the same order within a stream; streams run in
 * threads of their own, so calls of different streams overlap. */
#pragma once

#include "core/status.h"
#include "device/call.h"
#include "launch/world.h"

struct stp_transport_ops {
    const char *name; /* "gloo".  Static storage. */
    const char *what; /* "Gloo 0.5 over tcp": for people.  Static storage. */

    /* Connects the ranks of 'world', which outlives it; 'n_nodes' hosts.
     * 'time_limit_s' is for one collective, 0 for none.  All ranks call it.
     * *self_ret is untouched on failure. */
    enum stp_status (*open)(const struct stp_world *world, unsigned n_nodes,
                            unsigned time_limit_s, void **self_ret,
                            struct stp_error *err);

    /* Makes this rank's communicator of split 'number', 1 to STP_MAX_SPLITS, of
     * more than one rank.  All ranks call it. */
    enum stp_status (*split)(void *self, unsigned number,
                             const struct stp_rank_groups *groups,
                             struct stp_error *err);

    /* Runs one and blocks until this rank's part is done. */
    enum stp_status (*collective)(void *self, unsigned stream,
                                  const struct stp_transfer *transfer,
                                  struct stp_error *err);

    /* Returns once all ranks have called it. */
    enum stp_status (*barrier)(void *self, unsigned stream,
                               struct stp_error *err);

    /* Makes calls that run in other threads, and later calls, fail here and
     * on all other ranks, for the reason 'why'. */
    void (*abort)(void *self, const char *why);

    /* After all calls have returned. */
    void (*close)(void *self);
};
