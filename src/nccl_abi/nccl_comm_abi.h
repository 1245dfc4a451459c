/* nccl_comm_abi.h - NCCL's functions as applications call them, as we declare
 * them, for a library that stands between an application and NCCL
 *
 * Names and numbers are NCCL's, the declarations are ours.  NCCL has changed no
 * function once it had shipped it; each list names the version from which on
 * its functions are there, and a library must do without those that its NCCL
 * lacks.  Enumerators other than results are plain ints.
 *
 * A list is a macro that calls X(RESULT, NAME, PARAMETERS, ARGUMENTS) for each
 * function.  The lists are apart by what the library in front does with them:
 * see src/stage/calls.c.
 *
 * Usable from C11 and C++17.  LP64 only. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_tuner_abi.h"

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct CUstream_st *cudaStream_t;

typedef struct {
    char internal[128];
} ncclUniqueId;

/* The members of NCCL 2.27.  Later versions append to them (2.28 two, 2.29 and
 * 2.30 two each), and go by 'size' and 'version'. */
typedef struct {
    size_t size;
    unsigned magic;
    unsigned version; /* ncclGetVersion()'s number */
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
} ncclConfig_t;

static_assert(offsetof(ncclConfig_t, blocking) == 16 &&
                  offsetof(ncclConfig_t, maxCTAs) == 28 &&
                  offsetof(ncclConfig_t, CTAPolicy) == 60 &&
                  sizeof(ncclConfig_t) == 72,
              "members stand where NCCL 2.27 has them");

enum {
    NCCL_WITH_WINDOWS = 22700,
    /* All-gathers need one of the output, reduce-scatters of the input: 2.29,
     * too, but it loads input at no multiple of 4 bytes wrong (loadPack()), and
     * up to 2.30.4 a kernel does not wait for what one before it writes that
     * lets it begin early (programmatic launch), as it need not behind a copy.
     */
    NCCL_WITH_ONE_WINDOW = 23007,
    NCCL_CONFIG_MAGIC = (int)0xcafebeef,
    NCCL_CONFIG_UNDEF = -2147483647 - 1,
    NCCL_CTA_POLICY_ZERO_BIT = 2,
    NCCL_WIN_SYMMETRIC = 1,
    NCCL_SHRINK_WITH_ABORT = 1,
    NCCL_SUSPEND_MEM = 1,
    NCCL_OP_SUM = 0, /* ncclRedOp_t */
};

/* A configuration that leaves all to an NCCL of this number. */
#define NCCL_CONFIG_DEFAULT(release)                                           \
    (ncclConfig_t)                                                             \
    {                                                                          \
        .size = sizeof(ncclConfig_t), .magic = (unsigned)NCCL_CONFIG_MAGIC,    \
        .version = (unsigned)(release), .blocking = NCCL_CONFIG_UNDEF,         \
        .cgaClusterSize = NCCL_CONFIG_UNDEF, .minCTAs = NCCL_CONFIG_UNDEF,     \
        .maxCTAs = NCCL_CONFIG_UNDEF, .splitShare = NCCL_CONFIG_UNDEF,         \
        .trafficClass = NCCL_CONFIG_UNDEF, .collnetEnable = NCCL_CONFIG_UNDEF, \
        .CTAPolicy = NCCL_CONFIG_UNDEF, .shrinkShare = NCCL_CONFIG_UNDEF,      \
        .nvlsCTAs = NCCL_CONFIG_UNDEF                                          \
    }

/* Makes and ends communicators, groups calls and registers memory. */
#define NCCL_MANAGING_CALLS(X)                                                 \
    X(ncclResult_t, ncclCommInitAll,                                           \
      (ncclComm_t * comms, int n_gpus, const int *gpus),                       \
      (comms, n_gpus, gpus))                                                   \
    X(ncclResult_t, ncclCommInitRank,                                          \
      (ncclComm_t * comm, int n_ranks, ncclUniqueId id, int rank),             \
      (comm, n_ranks, id, rank))                                               \
    X(ncclResult_t, ncclCommInitRankConfig,                                    \
      (ncclComm_t * comm, int n_ranks, ncclUniqueId id, int rank,              \
       ncclConfig_t *config),                                                  \
      (comm, n_ranks, id, rank, config))                                       \
    X(ncclResult_t, ncclCommInitRankScalable,                                  \
      (ncclComm_t * comm, int n_ranks, int rank, int n_ids, ncclUniqueId *ids, \
       ncclConfig_t *config),                                                  \
      (comm, n_ranks, rank, n_ids, ids, config))                               \
    X(ncclResult_t, ncclCommSplit,                                             \
      (ncclComm_t comm, int color, int key, ncclComm_t *child,                 \
       ncclConfig_t *config),                                                  \
      (comm, color, key, child, config))                                       \
    X(ncclResult_t, ncclCommShrink,                                            \
      (ncclComm_t comm, int *excluded, int n_excluded, ncclComm_t *child,      \
       ncclConfig_t *config, int flags),                                       \
      (comm, excluded, n_excluded, child, config, flags))                      \
    X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm), (comm))               \
    X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm))                \
    X(ncclResult_t, ncclCommAbort, (ncclComm_t comm), (comm))                  \
    X(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags),              \
      (comm, flags)) /* 2.28.9 */                                              \
    X(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags),             \
      (comm, flags)) /* 2.30 */                                                \
    X(ncclResult_t, ncclCommGetAsyncError,                                     \
      (ncclComm_t comm, ncclResult_t * error), (comm, error))                  \
    X(ncclResult_t, ncclCommWindowRegister,                                    \
      (ncclComm_t comm, void *memory, size_t n_bytes, ncclWindow_t *window,    \
       int flags),                                                             \
      (comm, memory, n_bytes, window, flags))                                  \
    X(ncclResult_t, ncclGroupStart, (void), ())                                \
    X(ncclResult_t, ncclGroupEnd, (void), ())                                  \
    X(ncclResult_t, ncclGroupSimulateEnd, (void *info), (info))

#define NCCL_STAGED_CALLS(X)                                                   \
    X(ncclResult_t, ncclAllReduce,                                             \
      (const void *send, void *recv, size_t count, int type, int op,           \
       ncclComm_t comm, cudaStream_t stream),                                  \
      (send, recv, count, type, op, comm, stream))                             \
    X(ncclResult_t, ncclAllGather,                                             \
      (const void *send, void *recv, size_t count, int type, ncclComm_t comm,  \
       cudaStream_t stream),                                                   \
      (send, recv, count, type, comm, stream))                                 \
    X(ncclResult_t, ncclReduceScatter,                                         \
      (const void *send, void *recv, size_t count, int type, int op,           \
       ncclComm_t comm, cudaStream_t stream),                                  \
      (send, recv, count, type, op, comm, stream))

#define NCCL_PEER_CALLS(X)                                                     \
    X(ncclResult_t, ncclSend,                                                  \
      (const void *send, size_t count, int type, int peer, ncclComm_t comm,    \
       cudaStream_t stream),                                                   \
      (send, count, type, peer, comm, stream))                                 \
    X(ncclResult_t, ncclRecv,                                                  \
      (void *recv, size_t count, int type, int peer, ncclComm_t comm,          \
       cudaStream_t stream),                                                   \
      (recv, count, type, peer, comm, stream))

/* Calls that run on a stream, of more words than NCCL_W() has. */
#define NCCL_STREAM_CALLS(X)                                                   \
    X(ncclResult_t, ncclReduce,                                                \
      (const void *send, void *recv, size_t count, int type, int op, int root, \
       ncclComm_t comm, cudaStream_t stream),                                  \
      (send, recv, count, type, op, root, comm, stream))                       \
    X(ncclResult_t, ncclBroadcast,                                             \
      (const void *send, void *recv, size_t count, int type, int root,         \
       ncclComm_t comm, cudaStream_t stream),                                  \
      (send, recv, count, type, root, comm, stream))                           \
    X(ncclResult_t, ncclBcast,                                                 \
      (void *memory, size_t count, int type, int root, ncclComm_t comm,        \
       cudaStream_t stream),                                                   \
      (memory, count, type, root, comm, stream))                               \
    X(ncclResult_t, ncclAlltoAll,                                              \
      (const void *send, void *recv, size_t count, int type, ncclComm_t comm,  \
       cudaStream_t stream),                                                   \
      (send, recv, count, type, comm, stream)) /* 2.28 */                      \
    X(ncclResult_t, ncclGather,                                                \
      (const void *send, void *recv, size_t count, int type, int root,         \
       ncclComm_t comm, cudaStream_t stream),                                  \
      (send, recv, count, type, root, comm, stream)) /* 2.28 */                \
    X(ncclResult_t, ncclScatter,                                               \
      (const void *send, void *recv, size_t count, int type, int root,         \
       ncclComm_t comm, cudaStream_t stream),                                  \
      (send, recv, count, type, root, comm, stream)) /* 2.28 */                \
    X(ncclResult_t, ncclPutSignal,                                             \
      (const void *memory, size_t count, int type, int peer,                   \
       ncclWindow_t window, size_t offset, int signal, int context,            \
       unsigned flags, ncclComm_t comm, cudaStream_t stream),                  \
      (memory, count, type, peer, window, offset, signal, context, flags,      \
       comm, stream)) /* 2.29 */

/* The library in front has no part in these. */
#define NCCL_OTHER_CALLS(X)                                                    \
    X(ncclResult_t, ncclGetVersion, (int *version), (version))                 \
    X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), (id))                \
    X(const char *, ncclGetErrorString, (ncclResult_t result), (result))       \
    X(const char *, ncclGetLastError, (ncclComm_t comm), (comm))               \
    X(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count),        \
      (comm, count))                                                           \
    X(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *gpu),       \
      (comm, gpu))                                                             \
    X(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank),      \
      (comm, rank))                                                            \
    X(ncclResult_t, ncclMemAlloc, (void **memory, size_t n_bytes),             \
      (memory, n_bytes))                                                       \
    X(ncclResult_t, ncclMemFree, (void *memory), (memory))                     \
    X(ncclResult_t, ncclCommRegister,                                          \
      (const ncclComm_t comm, void *memory, size_t n_bytes, void **handle),    \
      (comm, memory, n_bytes, handle))                                         \
    X(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle), \
      (comm, handle))                                                          \
    X(ncclResult_t, ncclCommWindowDeregister,                                  \
      (ncclComm_t comm, ncclWindow_t window), (comm, window))

/* All others, of which nothing but words is handed on: six hold the arguments
 * of each, and two the result, also structs of up to 16 bytes, by the rules of
 * x86-64 and of AArch64. */
typedef struct {
    uint64_t word[2];
} nccl_words;
#define NCCL_W(X, name)                                                        \
    X(nccl_words, name,                                                        \
      (uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,             \
       uint64_t f),                                                            \
      (a, b, c, d, e, f))
// clang-format off
#define NCCL_STREAM_WORD_CALLS(X) \
    NCCL_W(X, ncclSignal) NCCL_W(X, ncclWaitSignal)
#define NCCL_WORD_CALLS(X) NCCL_W(X, ncclRedOpCreatePreMulSum) \
    NCCL_W(X, ncclRedOpDestroy) NCCL_W(X, ncclCommGetUniqueId) \
    NCCL_W(X, ncclCommGrow) NCCL_W(X, ncclCommResume) \
    NCCL_W(X, ncclCommQueryProperties) NCCL_W(X, ncclCommMemStats) \
    NCCL_W(X, ncclWinGetUserPtr) NCCL_W(X, ncclDevCommCreate) \
    NCCL_W(X, ncclDevCommDestroy) NCCL_W(X, ncclTeamWorld) \
    NCCL_W(X, ncclTeamLsa) NCCL_W(X, ncclTeamRail) \
    NCCL_W(X, ncclTeamRankToWorld) NCCL_W(X, ncclTeamRankToLsa) \
    NCCL_W(X, ncclGetPeerDevicePointer) NCCL_W(X, ncclGetLsaDevicePointer) \
    NCCL_W(X, ncclGetMultimemDevicePointer) \
    NCCL_W(X, ncclGetLsaMultimemDevicePointer) NCCL_W(X, ncclLLA2ACalcSlots) \
    NCCL_W(X, ncclLLA2ACreateRequirement) \
    NCCL_W(X, ncclLsaBarrierCreateRequirement) \
    NCCL_W(X, ncclGinBarrierCreateRequirement) \
    NCCL_W(X, ncclGinInboxA2ACreateRequirement) \
    NCCL_W(X, ncclGinOutboxCreateRequirement) NCCL_W(X, ncclParamBind) \
    NCCL_W(X, ncclParamGet) NCCL_W(X, ncclParamGetStr) \
    NCCL_W(X, ncclParamGetI8) NCCL_W(X, ncclParamGetI16) \
    NCCL_W(X, ncclParamGetI32) NCCL_W(X, ncclParamGetI64) \
    NCCL_W(X, ncclParamGetU8) NCCL_W(X, ncclParamGetU16) \
    NCCL_W(X, ncclParamGetU32) NCCL_W(X, ncclParamGetU64) \
    NCCL_W(X, ncclParamGetParameter) NCCL_W(X, ncclParamGetAllParameterKeys) \
    NCCL_W(X, ncclParamDumpAll) NCCL_W(X, ncclResetDebugInit) \
    NCCL_W(X, ncclResetDebugInitInternal)
// clang-format on

#define NCCL_ALL_CALLS(X)                                                      \
    NCCL_MANAGING_CALLS(X)                                                     \
    NCCL_STAGED_CALLS(X)                                                       \
    NCCL_PEER_CALLS(X)                                                         \
    NCCL_STREAM_CALLS(X)                                                       \
    NCCL_STREAM_WORD_CALLS(X) NCCL_OTHER_CALLS(X) NCCL_WORD_CALLS(X)

#define NCCL_DECLARE(result, name, parameters, arguments)                      \
    result name parameters;
NCCL_ALL_CALLS(NCCL_DECLARE)
#undef NCCL_DECLARE
