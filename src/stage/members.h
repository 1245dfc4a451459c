/* members.h - the streams that a group uses with communicators that stage
 *
 * NCCL runs a communicator's calls of a group behind all of their streams, and
 * all of these wait for its end ("Mixing multiple streams within the same
 * ncclGroupStart/End() group" in NCCL's user guide).  Twins are communicators
 * of their own, and copies stand before and behind their kernels: so the
 * library joins the streams of the group itself, before it copies in, and
 * behind the copies out.  Ranks may use streams differently. */
#pragma once

#include "stage/comm.h"

/* An empty list is all zeros. */
struct stp_members {
    struct stp_member *all; /* none twice */
    size_t n, size;
};

/* Notes that a call of the communicator is on the stream, if it may stage
 * others.  False if there is no memory. */
bool stp_members_note(struct stp_members *members, struct stp_comm *c,
                      cudaStream_t stream);

/* Joins the streams of each communicator that stages a call of the group. False
 * if CUDA refuses. */
bool stp_members_join(const struct stp_members *members);

void stp_members_free(struct stp_members *members);
