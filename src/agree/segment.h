/*
 * segment.h - memory that the ranks of a communicator on this host share
 *
 * A file in /dev/shm, mode 0600, that is ours and no link.  The ranks of a
 * process share one mapping, for there can be more ranks than the kernel allows
 * mappings.  The file loses its name when the last rank has joined, so that the
 * next communicator of the same id (two shrinks of one parent) gets its own,
 * or else when the last of those that joined leaves.
 *
 * As long as it has a name, each process that is in it holds a lock on it that
 * dies with the process.  Whoever can have the lock alone knows that the file
 * is of a dead job, and removes it: under the name it wants to join, and under
 * all of our names whenever it makes a new one.
 *
 * Two communicators of the same id and number of ranks that are joined at the
 * same time by different processes cannot be told apart.
 */
#ifndef STP_SEGMENT_H
#define STP_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct stp_segment; /* opaque; shared by the ranks of a process */

struct stp_segment_key {
    const char *suffix; /* of the name, at most 15 bytes: what it is for */
    uint64_t comm_id;   /* not 0 */
    size_t n_ranks;     /* of the communicator */
    size_t n_bytes;     /* to share, the same for all of a suffix and n_ranks */
};

/*
 * Joins; 'value' (not 0) is what the ranks compare.  STP_OK, *segment_ret, to
 * be given back with stp_segment_leave(), and *index_ret, which counts those
 * that joined from 0.  Or STP_ERR_IO or STP_ERR_NOMEM, both untouched, if there
 * is no shared memory to be had: it is missing or full, or the name is taken
 * by another user's file, a link, or one that others may write.
 */
enum stp_status stp_segment_join(const struct stp_segment_key *key,
                                 uint64_t value,
                                 struct stp_segment **segment_ret,
                                 uint32_t *index_ret, struct stp_error *err);

/* 'n_bytes', zero at first, on a cache line's boundary. */
void *stp_segment_memory(const struct stp_segment *segment);

/* Whether all ranks of the communicator have joined.  If so, this process's
 * descriptor is closed: its lock is of no more use. */
bool stp_segment_is_full(struct stp_segment *segment);

/* The bits in which not all that joined came with the same value; 0 if all
 * did. */
uint64_t stp_segment_differing(const struct stp_segment *segment);

/* Once for each join.  NULL is allowed and does nothing.  All of this may be
 * called from any thread. */
void stp_segment_leave(struct stp_segment *segment);

#endif /* STP_SEGMENT_H */
