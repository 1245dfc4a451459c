/* nccl_tuner_abi.h - NCCL's tuner plugin ABI, versions 2 to 7, as we declare it
 *
 * Layouts and numbers are NCCL's, the declarations are ours, and the
 * static_asserts at the end hold them.  Nothing here may change once NCCL has
 * shipped it: a new ABI version gets new types.
 *
 * A plugin exports one data object a version, ncclTunerPlugin_v2 to _v7.  NCCL
 * takes the newest one it knows:
 *
 *   v2  NCCL 2.21    v3  2.22    v4  2.24    v5  2.28    v6  2.30
 *   v7  2.32.6
 *
 * All versions share these rules, which headers elsewhere get wrong:
 * - the cost table is ONE contiguous float[n_algo][n_proto] in microseconds,
 *   cast to float **.  Read it as ((float *)table)[a * n_proto + p];
 * - *n_channels is 0 on entry, and 0 means NCCL's own count.  NCCL keeps what
 *   is written in a signed 8-bit field;
 * - an error returned by getCollInfo fails the collective, and one returned by
 *   init fails the communicator.  NCCL falls back to nothing.
 *
 * Usable from C11 and C++17.  LP64 only. */
#ifndef NCCL_TUNER_ABI_H
#define NCCL_TUNER_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
} ncclResult_t;

/* Only these five ever reach a tuner. */
typedef enum {
    ncclFuncBroadcast = 0,
    ncclFuncReduce = 1,
    ncclFuncAllGather = 2,
    ncclFuncReduceScatter = 3,
    ncclFuncAllReduce = 4,
} ncclFunc_t;

enum { NCCL_NUM_TUNED_FUNCS = 5 };

/* NCCL 2.21 and 2.22 have the first six algorithms, later ones all seven. */
enum {
    NCCL_ALGO_UNDEF = -1,
    NCCL_ALGO_TREE = 0,
    NCCL_ALGO_RING = 1,
    NCCL_ALGO_COLLNET_DIRECT = 2,
    NCCL_ALGO_COLLNET_CHAIN = 3,
    NCCL_ALGO_NVLS = 4,
    NCCL_ALGO_NVLS_TREE = 5,
    NCCL_ALGO_PAT = 6,
    NCCL_NUM_ALGORITHMS = 7,
};

enum {
    NCCL_PROTO_UNDEF = -1,
    NCCL_PROTO_LL = 0,
    NCCL_PROTO_LL128 = 1,
    NCCL_PROTO_SIMPLE = 2,
    NCCL_NUM_PROTOCOLS = 3,
};

/* A cost table entry that NCCL has ruled out.  Other negative values exist
 * (-1024 for fp8 rings), so test for "below zero" and not for equality. */
#define NCCL_ALGO_PROTO_IGNORE (-1.0f)

typedef enum {
    NCCL_LOG_NONE = 0,
    NCCL_LOG_VERSION = 1,
    NCCL_LOG_WARN = 2,
    NCCL_LOG_INFO = 3,
    NCCL_LOG_ABORT = 4,
    NCCL_LOG_TRACE = 5,
} ncclDebugLogLevel;

/* Bits of a logger's 'flags': the subsystems of NCCL_DEBUG_SUBSYS. */
enum {
    NCCL_INIT = 0x1,
    NCCL_COLL = 0x2,
    NCCL_NET = 0x10,
    NCCL_TUNING = 0x40,
    NCCL_ENV = 0x80,
};

#if defined(__GNUC__)
#define NCCL_ABI_PRINTF __attribute__((format(printf, 5, 6)))
#else
#define NCCL_ABI_PRINTF
#endif

/* Takes printf arguments.  Safe from any thread; keeps nothing. */
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags,
                                  const char *file, int line, const char *fmt,
                                  ...) NCCL_ABI_PRINTF;

/* Ranks per NVLink domain; a multi-host NVLink domain counts as one node. */
typedef struct {
    int nNvlDomains;
    int minRanksPerNvlDomain;
    int maxRanksPerNvlDomain;
} ncclNvlDomainInfo_v5_t;

/* Indices of the constants below. */
enum {
    NCCL_HW_NVLINK = 0,
    NCCL_HW_PCI = 1,
    NCCL_HW_NET = 2,
    NCCL_NUM_HW_LINKS = 3,
};
enum {
    NCCL_VOLTA_COMPCAP_IDX = 0,
    NCCL_AMPERE_COMPCAP_IDX = 1,
    NCCL_HOPPER_COMPCAP_IDX = 2,
    NCCL_BLACKWELL_COMPCAP_IDX = 3,
    NCCL_NUM_COMPCAPS_V5 = 4, /* in the constants of v5 and v6 */
    NCCL_RUBIN_COMPCAP_IDX = 4,
    NCCL_NUM_COMPCAPS = 5,
};
enum {
    NCCL_TUNING_SCALE_1NODE = 0,
    NCCL_TUNING_SCALE_2NODES = 1,
    NCCL_TUNING_SCALE_4NODES = 2, /* three nodes and more */
    NCCL_NUM_TUNING_SCALES = 3,
};

/* The constants of NCCL's cost model: latencies in microseconds, bandwidths in
 * GB/s.  Handed to init filled in; what init writes, NCCL then uses.  Those of
 * v7 have a row for Rubin. */
#define NCCL_ABI_CONSTANTS(n_compcaps)                                         \
    double baseLatencies[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];             \
    double hwLatencies[NCCL_NUM_HW_LINKS][NCCL_NUM_ALGORITHMS]                 \
                      [NCCL_NUM_PROTOCOLS];                                    \
    double llMaxBws[n_compcaps][NCCL_NUM_TUNING_SCALES];                       \
    double perChMaxRingLL128Bws[n_compcaps][NCCL_NUM_TUNING_SCALES];           \
    double perChMaxTreeLL128Bws[n_compcaps][NCCL_NUM_TUNING_SCALES];           \
    double perChMaxTreeBws[n_compcaps][NCCL_NUM_TUNING_SCALES];                \
    double perChMaxNVLSTreeBws[n_compcaps][NCCL_NUM_TUNING_SCALES];

typedef struct {
    NCCL_ABI_CONSTANTS(NCCL_NUM_COMPCAPS_V5)
} ncclTunerConstants_v5_t;

typedef struct {
    NCCL_ABI_CONSTANTS(NCCL_NUM_COMPCAPS)
} ncclTunerConstants_v7_t;

/* Functions of several versions. */
typedef ncclResult_t ncclTunerInit_v2_t(size_t nRanks, size_t nNodes,
                                        ncclDebugLogger_t logFunction,
                                        void **context);
typedef ncclResult_t ncclTunerInit_v5_t(void **context, uint64_t commId,
                                        size_t nRanks, size_t nNodes,
                                        ncclDebugLogger_t logFunction,
                                        ncclNvlDomainInfo_v5_t *nvlDomainInfo,
                                        ncclTunerConstants_v5_t *constants);
typedef ncclResult_t
ncclTunerGetCollInfo_v4_t(void *context, ncclFunc_t collType, size_t nBytes,
                          int numPipeOps, float **collCostTable, int numAlgo,
                          int numProto, int regBuff, int *nChannels);
typedef ncclResult_t ncclTunerGetChunkSize_v6_t(void *context,
                                                ncclFunc_t collType,
                                                size_t nBytes, int algorithm,
                                                int protocol, int nChannels,
                                                size_t *chunkSize);
typedef ncclResult_t ncclTunerEnd_t(void *context);

/* v2 has no cost table: the plugin names one pair, or leaves both -1.  NCCL
 * takes the pair if it has not ruled it out. */
typedef struct {
    const char *name;
    ncclTunerInit_v2_t *init;
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType,
                                size_t nBytes, int collNetSupport,
                                int nvlsSupport, int numPipeOps, int *algorithm,
                                int *protocol, int *nChannels);
    ncclTunerEnd_t *destroy;
} ncclTuner_v2_t;

/* v3: the cost table. */
typedef struct {
    const char *name;
    ncclTunerInit_v2_t *init;
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType,
                                size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo,
                                int numProto, int *nChannels);
    ncclTunerEnd_t *destroy;
} ncclTuner_v3_t;

/* v4: regBuff, which may differ from rank to rank. */
typedef struct {
    const char *name;
    ncclTunerInit_v2_t *init;
    ncclTunerGetCollInfo_v4_t *getCollInfo;
    ncclTunerEnd_t *destroy;
} ncclTuner_v4_t;

/* v5: commId, NVLink domains, constants; the context comes first in init. */
typedef struct {
    const char *name;
    ncclTunerInit_v5_t *init;
    ncclTunerGetCollInfo_v4_t *getCollInfo;
    ncclTunerEnd_t *finalize;
} ncclTuner_v5_t;

/* v6: getChunkSize, which may be NULL.  Asked while a collective is scheduled,
 * after getCollInfo, once for each kind of channel; nBytes is the part that one
 * channel moves, *chunkSize NCCL's own choice in bytes. */
typedef struct {
    const char *name;
    ncclTunerInit_v5_t *init;
    ncclTunerGetCollInfo_v4_t *getCollInfo;
    ncclTunerEnd_t *finalize;
    ncclTunerGetChunkSize_v6_t *getChunkSize;
} ncclTuner_v6_t;

/* v7, from NCCL 2.32.6 on: v6 with the constants of v7. */
typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks,
                         size_t nNodes, ncclDebugLogger_t logFunction,
                         ncclNvlDomainInfo_v5_t *nvlDomainInfo,
                         ncclTunerConstants_v7_t *constants);
    ncclTunerGetCollInfo_v4_t *getCollInfo;
    ncclTunerEnd_t *finalize;
    ncclTunerGetChunkSize_v6_t *getChunkSize;
} ncclTuner_v7_t;

/* ---- what NCCL was compiled to ---- */

#define NCCL_ABI_AT(type, member, offset)                                      \
    static_assert(offsetof(type, member) == (offset), #type "." #member)
#define NCCL_ABI_SIZE(type, size) static_assert(sizeof(type) == (size), #type)

NCCL_ABI_SIZE(ncclResult_t, 4);
NCCL_ABI_SIZE(ncclFunc_t, 4);
NCCL_ABI_SIZE(ncclDebugLogLevel, 4);

NCCL_ABI_SIZE(ncclNvlDomainInfo_v5_t, 12);
NCCL_ABI_AT(ncclNvlDomainInfo_v5_t, nNvlDomains, 0);
NCCL_ABI_AT(ncclNvlDomainInfo_v5_t, minRanksPerNvlDomain, 4);
NCCL_ABI_AT(ncclNvlDomainInfo_v5_t, maxRanksPerNvlDomain, 8);

#define NCCL_ABI_CONSTANTS_AT(type, row_size)                                  \
    NCCL_ABI_AT(type, baseLatencies, 0);                                       \
    NCCL_ABI_AT(type, hwLatencies, 168);                                       \
    NCCL_ABI_AT(type, llMaxBws, 672);                                          \
    NCCL_ABI_AT(type, perChMaxRingLL128Bws, 672 + (row_size));                 \
    NCCL_ABI_AT(type, perChMaxTreeLL128Bws, 672 + 2 * (row_size));             \
    NCCL_ABI_AT(type, perChMaxTreeBws, 672 + 3 * (row_size));                  \
    NCCL_ABI_AT(type, perChMaxNVLSTreeBws, 672 + 4 * (row_size));              \
    NCCL_ABI_SIZE(type, 672 + 5 * (row_size))
NCCL_ABI_CONSTANTS_AT(ncclTunerConstants_v5_t, 96);
NCCL_ABI_CONSTANTS_AT(ncclTunerConstants_v7_t, 120);

#define NCCL_ABI_TUNER_AT(type, end, size)                                     \
    NCCL_ABI_AT(type, name, 0);                                                \
    NCCL_ABI_AT(type, init, 8);                                                \
    NCCL_ABI_AT(type, getCollInfo, 16);                                        \
    NCCL_ABI_AT(type, end, 24);                                                \
    NCCL_ABI_SIZE(type, size)
NCCL_ABI_TUNER_AT(ncclTuner_v2_t, destroy, 32);
NCCL_ABI_TUNER_AT(ncclTuner_v3_t, destroy, 32);
NCCL_ABI_TUNER_AT(ncclTuner_v4_t, destroy, 32);
NCCL_ABI_TUNER_AT(ncclTuner_v5_t, finalize, 32);
NCCL_ABI_TUNER_AT(ncclTuner_v6_t, finalize, 40);
NCCL_ABI_TUNER_AT(ncclTuner_v7_t, finalize, 40);
NCCL_ABI_AT(ncclTuner_v6_t, getChunkSize, 32);
NCCL_ABI_AT(ncclTuner_v7_t, getChunkSize, 32);

/* ---- the constants of v5 and v7 ---- */

#define NCCL_ABI_ROWS(copy)                                                    \
    copy(baseLatencies);                                                       \
    copy(hwLatencies);                                                         \
    copy(llMaxBws);                                                            \
    copy(perChMaxRingLL128Bws);                                                \
    copy(perChMaxTreeLL128Bws);                                                \
    copy(perChMaxTreeBws);                                                     \
    copy(perChMaxNVLSTreeBws)

/* Copies what both have. */
static inline void nccl_constants_to_v7(const ncclTunerConstants_v5_t *v5,
                                        ncclTunerConstants_v7_t *v7)
{
#define NCCL_ABI_COPY(field) memcpy(v7->field, v5->field, sizeof(v5->field))
    NCCL_ABI_ROWS(NCCL_ABI_COPY);
#undef NCCL_ABI_COPY
}

static inline void nccl_constants_to_v5(const ncclTunerConstants_v7_t *v7,
                                        ncclTunerConstants_v5_t *v5)
{
#define NCCL_ABI_COPY(field) memcpy(v5->field, v7->field, sizeof(v5->field))
    NCCL_ABI_ROWS(NCCL_ABI_COPY);
#undef NCCL_ABI_COPY
}

#ifdef __cplusplus
}
#endif
#endif /* NCCL_TUNER_ABI_H */
