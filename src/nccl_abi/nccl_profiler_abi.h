/*
 * nccl_profiler_abi.h - NCCL's profiler plugin ABI, versions 4 to 6, as we
 * declare it
 *
 * Of the events only what is read here is spelled out: the collective.  Its
 * members lie at the same places in all three versions; only 'type' is one byte
 * in v4 and eight since.
 *
 *   v4  NCCL 2.27.3    v5  2.28    v6  2.29.2
 *
 * NCCL has one activation mask a process, reads it at each call of its API, and
 * hands its address to every init: a plugin may keep it and switch events on
 * and off at any time.  A plugin must set *event to NULL for what it does not
 * follow: the bits of collectives bring their groups with them.
 *
 * Usable from C11 and C++17.  LP64 only.
 */
#ifndef NCCL_PROFILER_ABI_H
#define NCCL_PROFILER_ABI_H

#include "nccl_tuner_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of the mask, and values of 'type'. */
enum {
    NCCL_PROFILE_COLL = 1 << 1,
};

typedef struct {
    union {
        uint8_t v4;
        uint64_t v5;
    } type;
    void *parentObj;
    int rank; /* in its communicator */
    struct {
        uint64_t seqNumber;
        const char *func; /* "AllReduce" and so on */
        const void *sendBuff;
        void *recvBuff;
        size_t count; /* bytes of a broadcast and an allgather */
        int root;
        const char *datatype;
        uint8_t nChannels;
        uint8_t nWarps;
        const char *algo;  /* "RING" and so on; NULL before they are known */
        const char *proto; /* "LL128" and so on */
    } coll;
} ncclProfilerEvent_t;

typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, int *eActivationMask,
                         const char *commName, uint64_t commHash, int nNodes,
                         int nRanks, int rank, ncclDebugLogger_t logFunction);
    ncclResult_t (*startEvent)(void *context, void **event,
                               const ncclProfilerEvent_t *what);
    ncclResult_t (*stopEvent)(void *event);
    ncclResult_t (*recordEventState)(void *event, int state, const void *args);
    ncclResult_t (*finalize)(void *context);
} ncclProfiler_v4_t;

/* v6 has the same members. */
typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t commId, int *eActivationMask,
                         const char *commName, int nNodes, int nRanks, int rank,
                         ncclDebugLogger_t logFunction);
    ncclResult_t (*startEvent)(void *context, void **event,
                               const ncclProfilerEvent_t *what);
    ncclResult_t (*stopEvent)(void *event);
    ncclResult_t (*recordEventState)(void *event, int state, const void *args);
    ncclResult_t (*finalize)(void *context);
} ncclProfiler_v5_t;

static_assert(sizeof(ncclProfiler_v4_t) == 48, "ncclProfiler_v4_t");
static_assert(sizeof(ncclProfiler_v5_t) == 48, "ncclProfiler_v5_t");
static_assert(offsetof(ncclProfilerEvent_t, rank) == 16, "rank");
static_assert(offsetof(ncclProfilerEvent_t, coll.func) == 32, "func");
static_assert(offsetof(ncclProfilerEvent_t, coll.count) == 56, "count");
static_assert(offsetof(ncclProfilerEvent_t, coll.nChannels) == 80, "channels");
static_assert(offsetof(ncclProfilerEvent_t, coll.algo) == 88, "algo");
static_assert(offsetof(ncclProfilerEvent_t, coll.proto) == 96, "proto");

#ifdef __cplusplus
}
#endif
#endif /* NCCL_PROFILER_ABI_H */
