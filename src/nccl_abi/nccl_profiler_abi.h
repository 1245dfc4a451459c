/* nccl_profiler_abi.h - NCCL's profiler plugin ABI, versions 4 to 7, as we
 * declare it
 *
 * Only the events that are read here are declared: groups, collectives and
 * their channels. Their members lie at the same places in all versions; only
 * 'type' is one byte in v4 and eight since, and v7 has more of a collective.
 *
 *   v4  NCCL 2.27.3    v5  2.28    v6  2.29.2    v7  2.31.2
 *
 * NCCL reports a collective by these events, in this order:
 *
 *   GroupApi   from its first call to ncclGroupEnd; not in v4.  In between
 *              NCCL_PROFILE_GROUP_START_STOP and NCCL_PROFILE_GROUP_END_START
 *   CollApi    of each call, while the call lasts; not in v4.  Its parent is
 *              the GroupApi
 *   Group      of what is launched at once, while it is launched
 *   Coll       of each collective in it, while it is launched.  Its parent is
 *              the CollApi, in v4 the Group.  2.27 has none without a handle
 *              for the Group.  From 2.31 on a kernel for symmetric windows has
 *              some, too, to profilers of any version, with a protocol of ""
 *   KernelCh   of each channel, later and from another thread, with the GPU's
 *              times.  Its parent is the Coll.  The state
 *              NCCL_PROFILE_KERNEL_CH_STOP brings the end; some get lost. Those
 *              of a kernel for symmetric windows have the first Coll of those
 *              that it runs as their parent
 *   KernelPhase  of v7, up to three of a channel, before its end, each with its
 *              begin, and its end by the state NCCL_PROFILE_KERNEL_PHASE_STOP.
 *              Only a kernel for symmetric windows waits for other ranks in the
 *              first and the last.  Others have the compute phase alone, and
 *              wait in it: ring, tree and NVLS wait for each chunk
 *   CeColl     from v6 on, of what copy engines run, while it is enqueued, with
 *              no time of the GPU.  Its parent is the CollApi
 *
 * Under CUDA graphs GroupApi and CollApi are of the capture, the rest of each
 * replay, if NCCL_PROFILE_KERNEL_CH was on at the capture.
 *
 * NCCL has one activation mask a process, reads it at each call of its API, and
 * hands its address to every init: a plugin may keep it and switch events on
 * and off at any time.  A plugin must set *event to NULL for what it does not
 * follow: a bit brings with it most of what precedes it in this list.  Without
 * a handle nothing is told of the event's states and end.
 *
 * Usable from C11 and C++17.  LP64 only. */
#ifndef NCCL_PROFILER_ABI_H
#define NCCL_PROFILER_ABI_H

#include <stdbool.h>

#include "nccl_tuner_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The log's subsystem of profilers. */
enum { NCCL_PROFILE = 0x4000 };

/* Bits of the mask, and values of 'type'. */
enum {
    NCCL_PROFILE_GROUP = 1 << 0,
    NCCL_PROFILE_COLL = 1 << 1,
    NCCL_PROFILE_P2P = 1 << 2,
    NCCL_PROFILE_PROXY_OP = 1 << 3,
    NCCL_PROFILE_PROXY_STEP = 1 << 4,
    NCCL_PROFILE_PROXY_CTRL = 1 << 5,
    NCCL_PROFILE_KERNEL_CH = 1 << 6,
    NCCL_PROFILE_NET_PLUGIN = 1 << 7,
    NCCL_PROFILE_GROUP_API = 1 << 8, /* from v5 on */
    NCCL_PROFILE_COLL_API = 1 << 9,
    NCCL_PROFILE_P2P_API = 1 << 10,
    NCCL_PROFILE_KERNEL_LAUNCH = 1 << 11,
    NCCL_PROFILE_CE_COLL = 1 << 12, /* from v6 on */
    NCCL_PROFILE_CE_SYNC = 1 << 13,
    NCCL_PROFILE_CE_BATCH = 1 << 14,
    NCCL_PROFILE_KERNEL_PHASE = 1 << 15, /* from v7 on */
};

/* States that recordEventState() is told. */
enum {
    NCCL_PROFILE_KERNEL_CH_STOP = 22,
    NCCL_PROFILE_GROUP_START_STOP = 23, /* ncclGroupStart is done; args NULL */
    NCCL_PROFILE_GROUP_END_START = 24,  /* ncclGroupEnd begins; args NULL */
    NCCL_PROFILE_KERNEL_PHASE_STOP = 31,
};

typedef struct {
    union {
        uint8_t v4;
        uint64_t v5;
    } type;
    void *parentObj; /* the parent's handle; NULL if it has none */
    int rank;        /* in its communicator; only of a collective */
    union {
        struct {
            bool graphCaptured;
            int groupDepth; /* 1 of a call alone, 2 in ncclGroupStart */
        } groupApi;
        struct {
            const char *func;
            size_t count; /* as the user gave it, like the datatype */
            const char *datatype;
            int root;
            void *stream;
            bool graphCaptured;
        } collApi;
        struct {
            uint64_t seqNumber; /* of its 'func' in the communicator */
            const char *func;   /* "AllReduce" and so on */
            const void *sendBuff;
            void *recvBuff;
            size_t count; /* of one rank; bytes of a broadcast, an allgather */
            int root;
            const char *datatype; /* "ncclInt8" for those, "ncclFloat32" */
            uint8_t nChannels;    /* 0 with CollNet */
            uint8_t nWarps;
            const char *algo; /* "RING" and so on; NULL before they are known */
            const char *proto; /* "LL128" and so on */
            void *parentGroup; /* from v5 on: the Group's handle */
            /* from v7 on; events of older versions end before */
            const char *kernelVariant; /* "AllReduce_AGxLL_R"; NULL if not of
                                          symmetric windows */
            bool isSymColl;
            uint64_t userTag; /* the application's; 0: none */
        } coll;
        struct {
            uint8_t channelId;
            uint64_t pTimer; /* when the GPU began, its clock's ns */
        } kernelCh;
        struct {
            uint8_t channelId;
            uint8_t phaseId;
            const char *phaseName; /* "initial_sync", "compute", "final_sync" */
            uint64_t pTimer;       /* when it began, as in kernelCh */
        } kernelPhase;
        struct {
            uint64_t seqNumber;
            const char *func; /* as in coll, up to 'datatype' */
            const void *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype;
            const char *syncStrategy; /* "MC" or "UC" */
            bool intraBatchSync;
            uint32_t batchSize;
            uint32_t numBatches;
            uint32_t ceSeqNum;
            void *stream;
            uint64_t userTag; /* from v7 on */
        } ceColl;
    };
} ncclProfilerEvent_t;

/* The argument of recordEventState() that belongs to a state. */
typedef union {
    struct {
        uint64_t pTimer; /* when the GPU was done, its clock's ns; of a phase,
                            too */
    } kernelCh;
    size_t other;
} ncclProfilerStateArgs_t;

typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, int *eActivationMask,
                         const char *commName, uint64_t commHash, int nNodes,
                         int nRanks, int rank, ncclDebugLogger_t logFunction);
    ncclResult_t (*startEvent)(void *context, void **event,
                               const ncclProfilerEvent_t *what);
    ncclResult_t (*stopEvent)(void *event);
    /* 'args' is a ncclProfilerStateArgs_t or NULL. */
    ncclResult_t (*recordEventState)(void *event, int state, const void *args);
    ncclResult_t (*finalize)(void *context);
} ncclProfiler_v4_t;

/* v6 and v7 have the same members. */
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

NCCL_ABI_SIZE(ncclProfiler_v4_t, 48);
NCCL_ABI_SIZE(ncclProfiler_v5_t, 48);
NCCL_ABI_SIZE(ncclProfilerEvent_t, 136);
NCCL_ABI_SIZE(ncclProfilerStateArgs_t, 8);
#define NCCL_ABI_EVENT_AT(member, offset)                                      \
    NCCL_ABI_AT(ncclProfilerEvent_t, member, offset)
NCCL_ABI_EVENT_AT(parentObj, 8);
NCCL_ABI_EVENT_AT(rank, 16);
NCCL_ABI_EVENT_AT(groupApi.groupDepth, 28);
NCCL_ABI_EVENT_AT(collApi.func, 24);
NCCL_ABI_EVENT_AT(collApi.count, 32);
NCCL_ABI_EVENT_AT(collApi.datatype, 40);
NCCL_ABI_EVENT_AT(collApi.root, 48);
NCCL_ABI_EVENT_AT(collApi.stream, 56);
NCCL_ABI_EVENT_AT(collApi.graphCaptured, 64);
NCCL_ABI_EVENT_AT(coll.seqNumber, 24);
NCCL_ABI_EVENT_AT(coll.func, 32);
NCCL_ABI_EVENT_AT(coll.count, 56);
NCCL_ABI_EVENT_AT(coll.root, 64);
NCCL_ABI_EVENT_AT(coll.datatype, 72);
NCCL_ABI_EVENT_AT(coll.nChannels, 80);
NCCL_ABI_EVENT_AT(coll.nWarps, 81);
NCCL_ABI_EVENT_AT(coll.algo, 88);
NCCL_ABI_EVENT_AT(coll.proto, 96);
NCCL_ABI_EVENT_AT(coll.parentGroup, 104);
NCCL_ABI_EVENT_AT(coll.kernelVariant, 112);
NCCL_ABI_EVENT_AT(coll.isSymColl, 120);
NCCL_ABI_EVENT_AT(coll.userTag, 128);
NCCL_ABI_EVENT_AT(kernelCh.channelId, 24);
NCCL_ABI_EVENT_AT(kernelCh.pTimer, 32);
NCCL_ABI_EVENT_AT(kernelPhase.phaseId, 25);
NCCL_ABI_EVENT_AT(kernelPhase.phaseName, 32);
NCCL_ABI_EVENT_AT(kernelPhase.pTimer, 40);
NCCL_ABI_EVENT_AT(ceColl.count, 56);
NCCL_ABI_EVENT_AT(ceColl.datatype, 72);
NCCL_ABI_EVENT_AT(ceColl.syncStrategy, 80);
NCCL_ABI_EVENT_AT(ceColl.ceSeqNum, 100);
NCCL_ABI_EVENT_AT(ceColl.stream, 104);
NCCL_ABI_EVENT_AT(ceColl.userTag, 112);

#ifdef __cplusplus
}
#endif
#endif /* NCCL_PROFILER_ABI_H */
