/* order.h - the order of a twin's operations, with copies
 *
 * NCCL runs the kernels of a communicator one after the other, in the order of
 * the calls, on whatever streams and in whatever graphs they are.  For that it
 * has an event of its own: a kernel waits for it and records it, and in a graph
 * the first kernel follows a node that waits for it, and each kernel is
 * followed by a node that records it, which the next one follows (NCCL 2.27 to
 * 2.30, ncclStrongStream).  A staged operation is a copy, such a kernel and a
 * copy, and takes its copies into NCCL's order by that same event: memory that
 * an operation is copied into is free of the one before, wherever that is.
 *
 * On a stream, the copy in waits for the event, and the copy out is followed by
 * a record of it.  In a graph that takes no node and, as long as the operations
 * are on one stream, two edges: the first copy in follows NCCL's first node,
 * and NCCL's last one the last copy out.  So a graph has the nodes that a
 * program would have that copies by itself, may be launched several times and
 * beside others, and one memory serves any number of graphs.
 *
 * NCCL's records stand beside the line of a graph's other nodes, and are left
 * there.  In a trial, one run each on 2 x H200, what follows a collective
 * followed its record, too: captured Llamas of 2,000 nodes, plain or staged,
 * took 0.97 to 1.44 times as long, and 1.04 to 1.13 times where edges that
 * others imply were taken away.  The reason is not known.
 *
 * Plain operations are in no order with staged ones but that of their streams:
 * they share no memory, and the GPU has room for the kernels of both.  Where
 * communicators share resources (splitShare) NCCL has one event, and one order,
 * for the twins, the communicator and those that it was split from or into.
 *
 * One thread at a time may use an order, as NCCL has it for a communicator. */
#pragma once

#include "stage/real.h"

struct stp_copy {
    void *to; /* NULL: there is none */
    const void *from;
    size_t n_bytes;
};

struct stp_order {
    CUevent event;        /* NCCL's, as long as it has it; NULL */
    _Atomic bool is_lost; /* a copy's end is unknown: it has no record */

    /* In the graph that is captured, if 'id' is its capture's, or was. */
    unsigned long long id;
    cudaStream_t stream; /* of the last operation; NULL: several */
    CUgraphNode record;  /* NCCL's, behind that, */
    CUgraphNode out;     /* and the copy that it follows; NULL: it need not */
};

/* The capture that a stream is in, 0 for none; false if CUDA does not tell. */
bool stp_order_capture(const struct stp_real_cuda *cuda, cudaStream_t stream,
                       unsigned long long *id);

/* Learns the event from the first call of the communicator, captured on the
 * stream behind a copy.  False if NCCL keeps its order in another way. */
bool stp_order_open(struct stp_order *order, const struct stp_real_cuda *cuda,
                    cudaStream_t stream);

/* Copies before the kernel.  '*in' is the copy's node in capture 'id', NULL
 * without either.  False if CUDA refuses, as below. */
bool stp_order_begin(const struct stp_order *order,
                     const struct stp_real_cuda *cuda, unsigned long long id,
                     cudaStream_t stream, const struct stp_copy *copy,
                     CUgraphNode *in);

/* Copies behind the kernel.  Other operations of a group may be 'between' the
 * two. */
bool stp_order_end(struct stp_order *order, const struct stp_real_cuda *cuda,
                   unsigned long long id, cudaStream_t stream,
                   const struct stp_copy *copy, CUgraphNode in, bool between);
