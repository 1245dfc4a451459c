/*
 * times.h - when collectives began and ended on each rank of a host, which each
 * of them notes and the one that learns reads
 *
 * On one rank a collective's time holds what it waited for the others.  Each
 * rank has a row in shared memory that it alone writes; nobody waits.  A row is
 * a ring: what is not read soon is overwritten.
 */
#ifndef STP_TIMES_H
#define STP_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/learn/gpu_clock.h"
#include "core/status.h"

enum { STP_TIMES_SLOTS = 512 }; /* collectives a row holds */

struct stp_times; /* one rank's part; opaque */

/* A collective: of its function the how manieth, the same on all ranks. */
struct stp_times_id {
    unsigned coll;   /* ncclFunc_t, 0 to 7 */
    uint64_t number; /* below 2^60 */
};

/* Joins the communicator 'comm_id' (not 0) of 'n_ranks' ranks, all on this
 * host, as stp_same_join() does, in a segment of its own. */
enum stp_status stp_times_join(uint64_t comm_id, size_t n_ranks,
                               struct stp_times **times_ret,
                               struct stp_error *err);

/* Whether all ranks have joined; to be asked at the first decision, when every
 * rank's join is over, and then the same on all. */
bool stp_times_complete(const struct stp_times *times);

/* Notes one of this rank.  One thread at a time. */
void stp_times_put(struct stp_times *times, struct stp_times_id id,
                   const struct stp_rank_time *one);

/* False if not all ranks have noted it, yet or any more; else *all_ret is of
 * all of them.  Callable from any thread. */
bool stp_times_get(const struct stp_times *times, struct stp_times_id id,
                   struct stp_rank_times *all_ret);

/* NULL is allowed. */
void stp_times_leave(struct stp_times *times);

#endif /* STP_TIMES_H */
