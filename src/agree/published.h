/*
 * published.h - what all ranks of a communicator on this host do from an epoch
 * on, decided by whichever of them comes there first
 *
 * Ranks count their calls alike, and come to the same epoch at different times.
 * One word in shared memory, changed by compare-and-swap alone, holds the last
 * epoch that is decided; a ring holds those before for ranks that are behind.
 * Nobody waits: there is no leader, and a rank that is stopped or killed stops
 * no other.  Where a rank is so far behind that its epochs would be
 * overwritten, nothing is decided any more: the ranks stay with what they have.
 *
 * One rank is the observer, the first that joined.  It alone learns, and leaves
 * what it wants in a mailbox; whoever decides the next epoch takes it from
 * there.  Each wish is taken once, in the order in which they were left, unless
 * all is frozen before.
 */
#ifndef STP_PUBLISHED_H
#define STP_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* A decision: 31 bits, of which 0 means that nothing changes.  What they say is
 * the affair of whoever proposes. */
enum { STP_PUBLISHED_BITS = 31, STP_PUBLISHED_RANKS = 1024 };

struct stp_published; /* one rank's part; opaque */

/*
 * Joins the communicator 'comm_id' (not 0) of 'n_ranks' ranks, all on this
 * host, as stp_same_join() does, in a segment of its own.  'value' (not 0) must
 * be the same for all.  STP_ERR_IO or STP_ERR_NOMEM if there is no shared
 * memory to be had, STP_ERR_LIMIT if there are more than STP_PUBLISHED_RANKS;
 * *published_ret is then untouched.
 */
enum stp_status stp_published_join(uint64_t comm_id, size_t n_ranks,
                                   uint64_t value,
                                   struct stp_published **published_ret,
                                   struct stp_error *err);

/* Whether all ranks have joined, with the same value; to be asked at the first
 * decision, when every rank's join is over, and then the same on all: false
 * means that all of them must decide nothing. */
bool stp_published_complete(const struct stp_published *published);

/* Whether this rank is the observer. */
bool stp_published_is_observer(const struct stp_published *published);

/*
 * Leaves a wish, 1 to 2^31 - 1.  False, and nothing done, if the last one still
 * waits, all is frozen, or it is none of these numbers.  Callable from any
 * thread.
 */
bool stp_published_propose(struct stp_published *published, uint32_t decision);

/* Whether the last wish still waits in the mailbox; once all is frozen, it
 * waits for ever.  Callable from any thread. */
bool stp_published_is_waiting(const struct stp_published *published);

/*
 * This rank comes to its next epoch: 1 at the first call, then 2 and so on.
 * Returns what is decided for it, the same on all ranks, in a bounded number of
 * steps.  'is_frozen_ret' says that nothing will be decided any more, from the
 * same epoch on for all.  One thread at a time.
 */
uint32_t stp_published_next(struct stp_published *published,
                            bool *is_frozen_ret);

/* NULL is allowed.  To those that stay it is as if this rank were stopped. */
void stp_published_leave(struct stp_published *published);

#endif /* STP_PUBLISHED_H */
