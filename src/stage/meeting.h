/* meeting.h - how the ranks of a communicator come to stage all or none
 *
 * A rank that waits in ncclCommSplit() for one that never calls it would hang,
 * and a call that one rank stages and another does not would give wrong
 * results.  So the ranks meet in memory that they share (agree/segment.h), when
 * the communicator is made, and vote before each step that takes all of them.
 * A vote passes if all ranks said yes, and in the first one said the same of
 * themselves.  The first rank that knows the outcome, or has waited long
 * enough, writes it down, and all others read it: a rank that is late, dead or
 * elsewhere fails the vote for all, and no two ranks see different outcomes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum {
    STP_VOTE_HELLO, /* who comes, and with what */
    STP_VOTE_MEMORY,
    STP_VOTE_TWINS,  /* three for each twin: it was split, it registered the
                          memory, NCCL takes symmetric kernels there */
    STP_N_TWINS = 3, /* at most */
    /* Where one failed: this rank's twins are ended. */
    STP_VOTE_GONE = STP_VOTE_TWINS + 3 * STP_N_TWINS,
    STP_N_VOTES,
};

/* The parts that must be the same on all ranks. */
enum {
    STP_PART_BUILD, /* this library's release, and NCCL's */
    STP_PART_RULES,
    STP_PART_SETTINGS,
    STP_N_PARTS,
};

struct stp_meeting; /* opaque */

struct stp_guest {
    uint64_t key; /* of the communicator, the same on all its ranks; not 0 */
    int n_ranks;  /* of it */
    int rank;     /* among them */
    uint64_t process; /* a number that no other process has */
    uint64_t part[STP_N_PARTS];
};

/* STP_OK and a meeting, to be left with stp_meeting_leave(); or
 * STP_ERR_IO or STP_ERR_NOMEM if the rank cannot share memory. */
enum stp_status stp_meeting_join(const struct stp_guest *guest,
                                 struct stp_meeting **meeting_ret,
                                 struct stp_error *err);

/* Votes.  A thread of several ranks does so for all of them before it waits. */
void stp_meeting_cast(struct stp_meeting *meeting, int vote, bool is_yes);

/* Waits for the others up to 'wait_ms', and returns the outcome, which is the
 * same on all ranks; after a vote of no it waits for nobody. */
bool stp_meeting_wait(struct stp_meeting *meeting, int vote, unsigned wait_ms);

/* Writes why a vote failed, as this rank sees it: "rank 2 has other rules ...".
 * True if a rank is to be named that another one may not know of: it is missing
 * or differs. */
bool stp_meeting_explain(const struct stp_meeting *meeting, int vote,
                         char *text, size_t size);

/* Counts the ranks of this process, once a vote has passed. */
int stp_meeting_count_here(const struct stp_meeting *meeting);

void stp_meeting_leave(struct stp_meeting *meeting);
