/*
 * rendezvous.h - how ranks on several hosts find rank 0's socket
 *
 * A guest says hello, the host answers.  Whoever says anything else was not
 * meant to come here.  All numbers are as the host has them; on hosts of
 * another byte order the version differs.
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

/* Rank 0's side: the sockets of all others into fds[1] and so on. */
enum stp_status stp_rendezvous_host(const struct stp_torchrun *settings,
                                    int *fds, struct stp_error *err);

/* The side of the others. */
enum stp_status stp_rendezvous_guest(const struct stp_torchrun *settings,
                                     int *fd_ret, struct stp_error *err);

#endif /* STP_RENDEZVOUS_H */
