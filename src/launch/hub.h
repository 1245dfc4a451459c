/*
 * hub.h - a world over sockets in a star: rank 0 has one to every other rank
 *
 * Rank 0 gathers the values of an exchange and sends all of them to each rank.
 * A process is dead when its end of a socket closes without a BYE, or when its
 * host no longer answers; rank 0 then tells the others which, and every call in
 * this world and in its parts fails with that one sentence from then on.  A
 * process that is stopped or busy is not dead.
 *
 * A part uses the sockets of its world.  The death of a process outside the
 * part fails the part, too, and processes outside learn of deaths in it while
 * they wait in the next exchange of the larger world.
 */
#ifndef STP_HUB_H
#define STP_HUB_H

#include <stdint.h>

#include "launch/world.h"

/* The sockets carry frames: a header and a body.  Numbers have the byte order
 * of the host: rendezvous.h makes sure that it is the same on all hosts. */
enum stp_hub_kind {
    STP_HUB_DATA = 1, /* 'number': processes that take part */
    STP_HUB_NOTICE,   /* the run failed; the body says why, 'number' is the
                         enum stp_status */
    STP_HUB_BYE,      /* this process leaves regularly; no body */
};

struct stp_hub_header {
    uint32_t kind; /* enum stp_hub_kind */
    uint32_t number;
    uint64_t size; /* bytes of the body */
};

struct stp_hub_options {
    const char *name;    /* of the world.  Static. */
    unsigned rank, size; /* 1 to STP_MAX_PROCESSES */
    unsigned local_rank;
    unsigned local_size; /* 0: as many as have the same host name */
    const int *fds; /* connected stream sockets.  Rank 0: 'size' of them, [r] to
                       rank r, [0] unused; the others: one, to rank 0 */
};

/*
 * Makes the world; all of it call this, and it returns once all are there.
 * *world_ret is untouched on failure: STP_ERR_NOMEM, or STP_ERR_DEVICE if a
 * process died.  The sockets are closed with the world, or if this fails.
 *
 * exchange() fails with STP_ERR_RANGE if sizes differ or processes exchange in
 * different parts, with STP_ERR_DEVICE if a process died, or left while others
 * wait for it.  Calls in one process must not overlap.  close() sends
 * BYE: a process that ends without it counts as dead.
 */
enum stp_status stp_hub_open(const struct stp_hub_options *options,
                             struct stp_world *world_ret,
                             struct stp_error *err);

/* Makes stp_hub_open() at the other end of a connected socket fail with this
 * status and sentence.  Closes the socket. */
void stp_hub_refuse(int fd, enum stp_status status,
                    const struct stp_error *why);

/* Raises the limit of open files of this process and its children to the number
 * that rank 0 of 'size' ranks needs, as far as the system allows. */
void stp_hub_allow(unsigned size);

#endif /* STP_HUB_H */
