/* order.h - the order of a communicator's operations, with copies
 *
 * NCCL runs the operations of a communicator one after the other, in the order
 * of the calls, on whatever streams they are.  A staged operation is a copy, a
 * kernel of another communicator and a copy; so the library keeps that order
 * itself, as NCCL does: an event is recorded behind each operation, and an
 * operation on another stream waits for it.  Memory that an operation is copied
 * into is therefore free of the one before.
 *
 * In a graph, the first operation waits for the event, and one node records it
 * behind all of them, at each launch: operations of two graphs, or of a graph
 * and a stream, are in order like any others.  (NCCL does so, too.)  So one
 * memory serves any number of graphs.
 *
 * A plain operation shares no memory with staged ones.  It is in the order so
 * that kernels of communicator and twin do not run at once, and wait for one
 * another's SMs: they would be the kernels of two communicators.  The order
 * begins with the first staged operation; plain ones before it cost no event
 * and no node.  Two pairs are therefore in no order but that of their streams:
 * the first staged operation and plain ones before it, and a graph captured
 * before it that is launched later.  Ranks launch them in one order, and what
 * is launched first never waits for what is launched later, unless for SMs:
 * the GPU has to have room for the CTAs of both kernels, as it has to for any
 * two communicators that a program uses on two streams.
 *
 * Later a plain operation on the stream of the last one waits for nothing, if
 * no operation was ever captured, and is recorded: what follows may be on any
 * stream.  A stream of the past cannot be recorded then, as it may be gone.  A
 * graph of plain operations has two nodes more, however many there are: it may
 * be launched on any stream, behind or before a staged operation on another.
 *
 * One thread at a time may use an order, as NCCL has it for a communicator. */
#pragma once

#include "stage/real.h"

enum {
    STP_N_CAPTURES = 4, /* that a communicator takes part in at once */
    STP_N_ENDS = 4,     /* nodes of a stream, at the end of an operation */
};

/* The graph that a stream is captured into. */
struct stp_capture {
    unsigned long long id; /* 0: it is not captured */
    CUgraph graph;
};

struct stp_order {
    CUevent done;        /* recorded behind the last operation */
    cudaStream_t stream; /* its stream, if none was captured since */
    bool has_stream;
    bool is_begun;     /* an operation was staged */
    bool was_captured; /* some operation, ever */
    struct stp_in_capture {
        unsigned long long id;
        cudaStream_t stream; /* of its last operation */
        CUevent last;        /* recorded behind that, within the capture */
        CUgraphNode record;  /* which records 'done'; NULL: none is over */
        CUgraphNode ends[STP_N_ENDS]; /* that it follows: of the last one */
        size_t n_ends;                /* 0: they are not known */
    } captures[STP_N_CAPTURES];
    unsigned n_captures; /* ever */
};

/* False, and nothing is left, if CUDA refuses. */
bool stp_order_open(struct stp_order *order, const struct stp_real_cuda *cuda);
void stp_order_close(struct stp_order *order, const struct stp_real_cuda *cuda);

/* Whether CUDA tells what the stream is captured into. */
bool stp_capture_read(struct stp_capture *capture,
                      const struct stp_real_cuda *cuda, cudaStream_t stream);

/* Makes the stream wait for the operations so far.  False if CUDA refuses. */
bool stp_order_wait(struct stp_order *order, const struct stp_real_cuda *cuda,
                    const struct stp_capture *capture, cudaStream_t stream);

/* Takes what the stream was given since stp_order_wait() as an operation.
 */
bool stp_order_add(struct stp_order *order, const struct stp_real_cuda *cuda,
                   const struct stp_capture *capture, cudaStream_t stream);
