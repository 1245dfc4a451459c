/*
 * same.h - whether all ranks of a communicator on this host hold the same thing
 *
 * NCCL gives a tuner no channel to other ranks, and hangs if they choose
 * differently: because one read its policy before it was edited, one after, or
 * one could not read it at all.  So each rank leaves a number in shared memory
 * when its communicator is made, and looks before its first decision whether
 * all left the same.  NCCL keeps all ranks in a barrier between the two, hence
 * every rank looks at all numbers, and all see the same.
 *
 * Only ranks that share /dev/shm and a user can compare.
 */
#ifndef STP_SAME_H
#define STP_SAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct stp_same; /* opaque; shared by the ranks of a process */

/*
 * Leaves 'value' (not 0) for the communicator 'comm_id' (not 0) of 'n_ranks'
 * ranks.  STP_OK and *same_ret, to be given back with stp_same_leave(); or
 * STP_ERR_IO or STP_ERR_NOMEM, *same_ret untouched, if there is no shared
 * memory to be had: it is missing or full, or the name is taken by another
 * user's file, a link, or one that others may write.
 */
enum stp_status stp_same_join(uint64_t comm_id, size_t n_ranks, uint64_t value,
                              struct stp_same **same_ret,
                              struct stp_error *err);

/* Whether all that joined left the same.  To be asked when all have joined. */
bool stp_same_all(const struct stp_same *same);

/* The bits that not all of them left the same; 0 if all did.  Likewise. */
uint64_t stp_same_differing(const struct stp_same *same);

/* Once for each join; removes the shared memory behind the last rank.  NULL is
 * allowed and does nothing.  All of this may be called from any thread. */
void stp_same_leave(struct stp_same *same);

#endif /* STP_SAME_H */
