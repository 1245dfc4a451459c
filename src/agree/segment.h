/* segment.h - memory that the ranks of a communicator on this host share
 *
 * A file in /dev/shm, mode 0600, that this user owns, and no link.  The ranks
 * of a process share one mapping, for there can be more ranks than the kernel
 * allows mappings.  The file loses its name when the last rank has joined, so
 * that the next communicator of the same id (two shrinks of one parent) gets
 * its own, or else when the last rank that joined leaves.
 *
 * As long as it has a name, each process that joined holds a lock on it that
 * dies with the process.  A process that gets the exclusive lock knows that the
 * file is a dead job's, and removes it: under the name it joins, and under all
 * names of Steptune whenever it makes a new file.
 *
 * Two communicators of the same id and number of ranks that are joined at the
 * same time by different processes cannot be told apart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct stp_segment; /* opaque; shared by the ranks of a process */

struct stp_segment_key {
    uint64_t comm_id; /* not 0 */
    size_t n_ranks;   /* of the communicator, not 0 */
    size_t n_bytes;   /* to share; the file is as long as the longest */
};

/* Takes a place.  STP_OK, *segment_ret, to be given back with
 * stp_segment_leave(), and *index_ret, the number of places that were taken
 * before.  Or STP_ERR_IO or STP_ERR_NOMEM, both untouched, if there is no
 * shared memory to be had: it is missing or full, or the name is taken by
 * another user's file, a link, or one that others may write. */
enum stp_status stp_segment_join(const struct stp_segment_key *key,
                                 struct stp_segment **segment_ret,
                                 uint32_t *index_ret, struct stp_error *err);

/* Counts this rank as joined: it has written what others read.  Once a join. */
void stp_segment_enter(struct stp_segment *segment);

/* The ranks that have entered. */
size_t stp_segment_n_joined(const struct stp_segment *segment);

/* 'n_bytes', zero at first, on a cache line's boundary. */
void *stp_segment_memory(const struct stp_segment *segment);

/* Whether all ranks of the communicator have joined.  If so, this closes the
 * process's descriptor: its lock is of no more use. */
bool stp_segment_is_full(struct stp_segment *segment);

/* Leaves, once for each join. NULL is allowed and does nothing. All of this may
 * be called from any thread. */
void stp_segment_leave(struct stp_segment *segment);
