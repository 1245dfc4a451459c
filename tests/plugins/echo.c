/*
 * echo.c - a tuner that logs its arguments and asks for ring/simple on 4
 * channels, of the version ECHO (2 to 7), a macro of the build; with NET,
 * another one, it is in a net plugin
 */
#include "nccl_tuner_abi.h"

#define EXPORT __attribute__((visibility("default")))

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
#define V               "v" TEXT(ECHO) " "
#define LOG(...)                                                               \
    echo_log(NCCL_LOG_INFO, NCCL_TUNING, __FILE__, __LINE__, V __VA_ARGS__)

static ncclDebugLogger_t echo_log;
static int n_inits; /* since the library was opened */

#if ECHO < 5
static ncclResult_t echo_init(size_t n_ranks, size_t n_nodes,
                              ncclDebugLogger_t logger, void **context)
{
    echo_log = logger;
    *context = &echo_log;
    LOG("init %d: ranks %zu nodes %zu", ++n_inits, n_ranks, n_nodes);
    return ncclSuccess;
}
#else
#if ECHO == 7
#define CONSTANTS ncclTunerConstants_v7_t
#else
#define CONSTANTS ncclTunerConstants_v5_t
#endif
static ncclResult_t echo_init(void **context, uint64_t comm_id, size_t n_ranks,
                              size_t n_nodes, ncclDebugLogger_t logger,
                              ncclNvlDomainInfo_v5_t *domains,
                              CONSTANTS *constants)
{
    echo_log = logger;
    *context = &echo_log;
    LOG("init %d: id %llu ranks %zu nodes %zu domains %d of %d to %d "
        "ring/ll base %g",
        ++n_inits, (unsigned long long)comm_id, n_ranks, n_nodes,
        domains->nNvlDomains, domains->minRanksPerNvlDomain,
        domains->maxRanksPerNvlDomain,
        constants->baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_LL]);
    return ncclSuccess;
}
#endif

#if ECHO == 2
static ncclResult_t echo_ask(void *context, ncclFunc_t coll, size_t n_bytes,
                             int collnet, int nvls, int n_pipe_ops, int *algo,
                             int *proto, int *n_channels)
{
    LOG("ask: context %d coll %d bytes %zu collnet %d nvls %d pipe %d "
        "algo %d proto %d channels %d",
        context == &echo_log, coll, n_bytes, collnet, nvls, n_pipe_ops, *algo,
        *proto, *n_channels);
    *algo = NCCL_ALGO_RING;
    *proto = NCCL_PROTO_SIMPLE;
    *n_channels = 4;
    return ncclSuccess;
}
#else
#if ECHO == 3
#define REG_BUFF_PARAMETER
#define REG_BUFF_FORMAT
#define REG_BUFF
#else
#define REG_BUFF_PARAMETER int reg_buff,
#define REG_BUFF_FORMAT    "reg %d "
#define REG_BUFF           reg_buff,
#endif
static ncclResult_t echo_ask(void *context, ncclFunc_t coll, size_t n_bytes,
                             int n_pipe_ops, float **table, int n_algos,
                             int n_protos, REG_BUFF_PARAMETER int *n_channels)
{
    float *flat = (float *)table;
    int channels = *n_channels;

    LOG("ask: context %d coll %d bytes %zu pipe %d ring/ll %.3f algos %d "
        "protos %d " REG_BUFF_FORMAT "channels %d",
        context == &echo_log, coll, n_bytes, n_pipe_ops,
        (double)flat[NCCL_ALGO_RING * n_protos], n_algos, n_protos,
        REG_BUFF channels);
    flat[NCCL_ALGO_RING * n_protos + NCCL_PROTO_SIMPLE] = 0;
    *n_channels = 4;
    return ncclSuccess;
}
#endif

static ncclResult_t echo_end(void *context)
{
    LOG("%s: context %d", ECHO < 5 ? "destroy" : "finalize",
        context == &echo_log);
    return ncclSuccess;
}

#if ECHO >= 6
static ncclResult_t echo_chunk(void *context, ncclFunc_t coll, size_t n_bytes,
                               int algo, int proto, int n_channels,
                               size_t *size)
{
    LOG("chunk: context %d coll %d bytes %zu algo %d proto %d channels %d "
        "size %zu",
        context == &echo_log, coll, n_bytes, algo, proto, n_channels, *size);
    *size = 65536;
    return ncclSuccess;
}
#define CHUNK , echo_chunk
#else
#define CHUNK
#endif

#define TUNER_OF(version)                                                      \
    EXPORT const ncclTuner_v##version##_t ncclTunerPlugin_v##version = {       \
        "echo", echo_init, echo_ask, echo_end CHUNK}
#define TUNER(version) TUNER_OF(version)
TUNER(ECHO);

#ifdef NET
EXPORT const char *const ncclNetPlugin_v8 = "echo";
EXPORT const char *const ncclCollNetPlugin_v8 = "echo";
#endif
