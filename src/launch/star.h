/*
 * star.h - the sockets of a hub, and what is exchanged over them
 *
 * Rank 0 has a socket to every other rank, every other rank one to rank 0.
 * hub.h says what holds; this is behind it.
 */
#ifndef STP_STAR_H
#define STP_STAR_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

struct stp_star; /* opaque; made by stp_star_open() */

/* Takes the sockets over ('fds' as in stp_hub_options), and has all processes
 * introduce themselves to each other. */
enum stp_status stp_star_open(unsigned rank, unsigned size, const int *fds,
                              struct stp_star **star_ret,
                              struct stp_error *err);

/* exchange() and alive() of a world of the first 'n' processes. */
enum stp_status stp_star_exchange(struct stp_star *star, unsigned n,
                                  const void *mine, size_t size, void *all_ret,
                                  struct stp_error *err);
bool stp_star_alive(struct stp_star *star, struct stp_error *err);

/* How many of the first 'n' processes are on this host. */
unsigned stp_star_count_local(const struct stp_star *star, unsigned n);

/* Says goodbye, closes the sockets and frees it. */
void stp_star_close(struct stp_star *star);

#endif /* STP_STAR_H */
