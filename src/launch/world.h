/* world.h - the processes of one run
 *
 * All processes run the same program and make the same calls in the same
 * order.  exchange() serves what precedes the communicator, such as NCCL's
 * unique id, and the measured times that the ranks share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

enum { STP_MAX_PROCESSES = 4096 };

struct stp_world;

struct stp_world_ops {
    const char *name; /* "alone", "fork", or the launcher.  Static. */

    /* Gives 'size' bytes, the same number in all processes, and gets those of
     * all in order of rank into 'all_ret' (size * world.size bytes).  Blocks
     * until all came.  STP_ERR_DEVICE says which rank died, within 10 seconds
     * of its death. */
    enum stp_status (*exchange)(void *self, const void *mine, size_t size,
                                void *all_ret, struct stp_error *err);

    /* False, and *err says which, once a process of this world is known to have
     * died.  Returns at once, and is cheap enough for a loop that polls; not
     * while exchange() runs in another thread. */
    bool (*alive)(void *self, struct stp_error *err);

    /* Makes a world of the first 'n' processes, 1 to all.  All call it; those
     * from 'n' on get one of size 0, which can only be closed.  This world must
     * outlive it. */
    enum stp_status (*part)(void *self, unsigned n, struct stp_world *part_ret,
                            struct stp_error *err);

    void (*close)(void *self);
};

/* Close with world.ops->close(world.self). */
struct stp_world {
    const struct stp_world_ops *ops;
    void *self;
    unsigned rank;       /* this process, from 0 */
    unsigned size;       /* processes */
    unsigned local_rank; /* among those of this host */
    unsigned local_size;
};

/* The world of one process, which need not be closed. */
extern const struct stp_world stp_world_of_one;

/* *any_ret is whether 'mine' is true in any process; all processes call it. */
enum stp_status stp_world_any(const struct stp_world *world, bool mine,
                              bool *any_ret, struct stp_error *err);

/* Agrees on the status of a step that each process took by itself; all
 * processes call it.  All return the first failure in order of rank: rank 0
 * with its *err, to be printed there, the others as STP_ERR_STOPPED. */
enum stp_status stp_world_agree(const struct stp_world *world,
                                enum stp_status status, struct stp_error *err);

/* For what another process sent: terminates a text, and replaces its control
 * characters; a status that there is. */
void stp_clean_text(char *text, size_t size);
enum stp_status stp_status_of(unsigned number);
