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
 * a record of it.  In a graph that takes no node and, as long as each operation
 * follows the last one anyway, two edges: the first copy in follows NCCL's
 * first node, and NCCL's last one the last copy out.  Edges alone say whether
 * it does: a program may lead a stream elsewhere, or make another of the same
 * name.  So a graph has the nodes that a program would have that copies by
 * itself, may be launched several times and beside others, and one memory
 * serves any number of graphs.
 *
 * NCCL's nodes stand beside the line of a graph's other ones: the first kernel
 * waits for the first node, and each other for a record, though it follows the
 * last kernel by its stream as a rule.  CUDA gives a graph's nodes to streams
 * of its own.  In profiles of captured Llamas (2 x H200, CUDA 13.0) NCCL's
 * kernels began 2.5 us behind the node before, and others 0.5; but where staged
 * and plain operations were mixed 4 to 14 us, each in another stream than the
 * node before.  So a record is set aside: the next record follows it, and the
 * next kernel does not.  And the first node takes its place in the line.  The
 * order of all other nodes stays as it is.  In such profiles all nodes but the
 * records were in one stream then, and NCCL's kernels began after 0.5 us.
 * A graph in which nothing is staged stays as NCCL makes it.
 *
 * Staging made a pass of 256 tokens 1.110x as fast (without both changes
 * 1.057x), and one of 512 tokens 1.057x by derived rules (1.021x) and 1.054x
 * with all staged (1.048x).
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
    CUgraphNode record; /* NCCL's, behind the last operation, */
    CUgraphNode out;    /* and the copy that it follows; NULL: it need not */
};

/* The capture that a stream is in, 0 for none; false if CUDA does not tell. */
bool stp_order_capture(const struct stp_real_cuda *cuda, cudaStream_t stream,
                       unsigned long long *id);

/* Has a stream wait for what another holds so far, if both are in one capture
 * or in none: else NCCL refuses a group with both.  False if CUDA refuses. */
bool stp_order_join(const struct stp_real_cuda *cuda, cudaStream_t stream,
                    cudaStream_t other);

/* Behind a plain call: its kernel, the last node of the stream, waits for
 * NCCL's last record no more, if it follows all before that anyway; its own
 * record follows that one.  NCCL's first node, if the kernel follows it, takes
 * its place in the line, unless other operations of a group may come 'between'.
 */
void stp_order_ease(const struct stp_real_cuda *cuda, cudaStream_t stream,
                    bool between);

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
