/* real.h - the NCCL and the CUDA driver that a staging library hands calls to
 *
 * Both are looked up at run time, so that the library is built without them.
 * A process may have several NCCLs, and no communicator of one may reach
 * another: calls go where those that this library does not have go anyhow.  A
 * call's NCCL is, in this order: what the linker would have taken next when it
 * loaded the calling object; what that is linked with, as Python loads it,
 * without showing it to others.  Objects that show none have the one of the
 * process's first call, which, if that shows none either, is the first
 * libnccl.so that is loaded; the file that STEPTUNE_NCCL names; the first
 * libnccl.so.2 of LD_LIBRARY_PATH, or the system's, that is not this library.
 *
 * CUDA is the driver's libcuda.so.1: every process with GPUs has one, while
 * there may be several CUDA runtimes, or one that shows no symbols.  Its
 * functions take the same streams and events. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_comm_abi.h"

/* Members are called as NCCL's functions; NULL where this NCCL lacks one. */
struct stp_real_nccl {
#define STP_STAGE_MEMBER(result, name, parameters, arguments)                  \
    result(*name) parameters;                                                  \
    result(*p##name) parameters;
    NCCL_ALL_CALLS(STP_STAGE_MEMBER)
#undef STP_STAGE_MEMBER
};

typedef void *CUcontext;   /* CUcontext */
typedef void *CUevent;     /* CUevent */
typedef void *CUgraph;     /* CUgraph */
typedef void *CUgraphNode; /* CUgraphNode */

enum {
    CU_STREAM_NON_BLOCKING = 1,          /* CU_STREAM_NON_BLOCKING */
    CU_EVENT_DISABLE_TIMING = 2,         /* CU_EVENT_DISABLE_TIMING */
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1, /* CU_STREAM_CAPTURE_STATUS_ACTIVE */
    CU_GRAPH_NODE_TYPE_KERNEL = 0,       /* CU_GRAPH_NODE_TYPE_KERNEL */
    CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,   /* CU_GRAPH_NODE_TYPE_WAIT_EVENT */
    CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7, /* CU_GRAPH_NODE_TYPE_EVENT_RECORD */
    CU_DEVICE_ATTRIBUTE_SMS = 16,        /* ..._MULTIPROCESSOR_COUNT */
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,  /* CU_STREAM_CAPTURE_MODE_RELAXED */
};

struct stp_real_kernel { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    void *function;
    unsigned unused[8];
    void *arguments[2];
    void *kernel; /* where there is no function */
    void *context;
};

struct stp_real_edge { /* CUgraphEdgeData */
    unsigned char unused[8];
};

/* Results are CUresult, 0 for success. */
#define STP_STAGE_CUDA_CALLS(X)                                                \
    X(ctx_retain, "cuDevicePrimaryCtxRetain", (CUcontext * context, int gpu))  \
    X(get_attribute, "cuDeviceGetAttribute",                                   \
      (int *value, int attribute, int gpu))                                    \
    X(ctx_get_current, "cuCtxGetCurrent", (CUcontext * context))               \
    X(ctx_push, "cuCtxPushCurrent_v2", (CUcontext context))                    \
    X(ctx_pop, "cuCtxPopCurrent_v2", (CUcontext * context))                    \
    X(stream_create, "cuStreamCreate",                                         \
      (cudaStream_t * stream, unsigned flags))                                 \
    X(stream_destroy, "cuStreamDestroy_v2", (cudaStream_t stream))             \
    X(stream_wait_event, "cuStreamWaitEvent",                                  \
      (cudaStream_t stream, CUevent event, unsigned flags))                    \
    X(stream_get_capture, "cuStreamGetCaptureInfo_v2",                         \
      (cudaStream_t stream, int *status, unsigned long long *id,               \
       CUgraph *graph, const CUgraphNode **nodes, size_t *n_nodes))            \
    X(exchange_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))         \
    X(event_create, "cuEventCreate", (CUevent * event, unsigned flags))        \
    X(event_destroy, "cuEventDestroy_v2", (CUevent event))                     \
    X(event_record, "cuEventRecord", (CUevent event, cudaStream_t stream))     \
    X(event_query, "cuEventQuery", (CUevent event))                            \
    X(graph_add_edges, "cuGraphAddDependencies",                               \
      (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,          \
       size_t n))                                                              \
    X(graph_remove_edges, "cuGraphRemoveDependencies",                         \
      (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,          \
       size_t n))                                                              \
    X(begin_capture, "cuStreamBeginCapture_v2",                                \
      (cudaStream_t stream, int mode))                                         \
    X(end_capture, "cuStreamEndCapture",                                       \
      (cudaStream_t stream, CUgraph * graph))                                  \
    X(graph_destroy, "cuGraphDestroy", (CUgraph graph))                        \
    X(graph_nodes, "cuGraphGetNodes",                                          \
      (CUgraph graph, CUgraphNode * nodes, size_t * n_nodes))                  \
    X(node_type, "cuGraphNodeGetType", (CUgraphNode node, int *type))          \
    X(nodes_before, "cuGraphNodeGetDependencies_v2",                           \
      (CUgraphNode node, CUgraphNode * before, struct stp_real_edge * edges,   \
       size_t * n))                                                            \
    X(nodes_behind, "cuGraphNodeGetDependentNodes_v2",                         \
      (CUgraphNode node, CUgraphNode * behind, struct stp_real_edge * edges,   \
       size_t * n))                                                            \
    X(wait_event, "cuGraphEventWaitNodeGetEvent",                              \
      (CUgraphNode node, CUevent * event))                                     \
    X(record_event, "cuGraphEventRecordNodeGetEvent",                          \
      (CUgraphNode node, CUevent * event))                                     \
    X(node_kernel, "cuGraphKernelNodeGetParams_v2",                            \
      (CUgraphNode node, struct stp_real_kernel * kernel))                     \
    X(function_name, "cuFuncGetName", (const char **name, void *function))     \
    X(kernel_name, "cuKernelGetName", (const char **name, void *kernel))       \
    X(memory_left, "cuMemGetInfo_v2", (size_t * free, size_t * all))           \
    X(copy, "cuMemcpyAsync",                                                   \
      (void *to, const void *from, size_t n_bytes, cudaStream_t stream))

struct stp_real_cuda {
#define STP_STAGE_MEMBER(member, name, parameters) int(*member) parameters;
    STP_STAGE_CUDA_CALLS(STP_STAGE_MEMBER)
#undef STP_STAGE_MEMBER
};

/* Where an object is loaded; empty for code of none. */
struct stp_real_object {
    uintptr_t begin, end;
};

static inline bool stp_real_has(const struct stp_real_object *object,
                                const void *code)
{
    return object->begin <= (uintptr_t)code && (uintptr_t)code < object->end;
}

/* Finds the NCCL of the object that has the code; if that shows none,
 * 'is_first' wants that of a process's first call.  Without any all members are
 * NULL. The object is never unloaded from then on. */
void stp_real_find_nccl(const void *code, bool is_first,
                        struct stp_real_object *object,
                        struct stp_real_nccl *nccl);

/* Fills in all of it, or returns false. */
bool stp_real_find_cuda(struct stp_real_cuda *cuda);

/* Whether another library in front of NCCL takes the calls first, so that this
 * one sees them changed, or only some of them. */
bool stp_real_is_second(const struct stp_real_nccl *nccl);
