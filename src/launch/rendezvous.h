/*
 * rendezvous.h - how ranks on several hosts connect to rank 0
 *
 * Rank 0 is the server.  A client says hello, the server answers; it closes
 * connections on which anything else comes.  All numbers are as the server has
 * them; on hosts of another byte order the version differs.
 */
#ifndef STP_RENDEZVOUS_H
#define STP_RENDEZVOUS_H

#include <stdint.h>

#include "launch/torchrun.h"

/* Of the handshake and of hub.h. */
enum { STP_RENDEZVOUS_VERSION = 1 };

#define STP_RENDEZVOUS_HELLO  "steptun?"
#define STP_RENDEZVOUS_ANSWER "steptun!"

struct stp_hello {
    char magic[8];
    uint32_t version;
    uint32_t size; /* of the world */
    uint32_t rank;
};

struct stp_answer {
    char magic[8];
    uint32_t refused;
    char why[STP_ERROR_TEXT]; /* if it is; terminated */
};

/* Rank 0 gets the sockets of all others in fds[1] and so on. */
enum stp_status stp_rendezvous_serve(const struct stp_torchrun *settings,
                                     int *fds, struct stp_error *err);

/* Every other rank gets a socket to rank 0. */
enum stp_status stp_rendezvous_connect(const struct stp_torchrun *settings,
                                       int *fd_ret, struct stp_error *err);

#endif /* STP_RENDEZVOUS_H */
