/*
 * below.c - a tuner of version BELOW (2 to 7) and name NAME, macros of the
 * build, for ours to ask first
 *
 * Its answers are random, and the same for the same calls of a communicator: it
 * changes times, rules entries out, and sets channels, chunks and, with
 * $BELOW_CONSTANTS, constants.  $BELOW is a word for what it does beside that,
 * on all ranks or, with $BELOW_RANK, on the rank with that $RANK.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_tuner_abi.h"

enum fault {
    NONE,
    QUIET, /* answers nothing */
    FAILS,
    FAILS_IN_INIT,
    NOT_A_NUMBER,
    REVIVES,
    CHANNELS,
    MINUS,
    BESIDE,     /* writes before and behind the table */
    PER_THREAD, /* keeps its state by thread */
};

static const char *const words[] = {
    [NONE] = "",
    [QUIET] = "quiet",
    [FAILS] = "fails",
    [FAILS_IN_INIT] = "fails_in_init",
    [NOT_A_NUMBER] = "nan",
    [REVIVES] = "revives",
    [CHANNELS] = "channels",
    [MINUS] = "minus",
    [BESIDE] = "beside",
    [PER_THREAD] = "per_thread",
};

struct below {
    enum fault fault;
};

static __thread uint64_t n_calls_of_thread;

static uint64_t mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
    return a ^ a >> 29;
}

static struct below *below_new(void)
{
    struct below *b = calloc(1, sizeof(*b));
    const char *word = getenv("BELOW");
    const char *rank = getenv("BELOW_RANK");
    const char *own = getenv("RANK");

    n_calls_of_thread = 0;
    if (b == NULL || word == NULL ||
        (rank != NULL && (own == NULL || strcmp(rank, own) != 0)))
        return b;
    for (int i = 0; i < (int)(sizeof(words) / sizeof(words[0])); i++)
        if (strcmp(words[i], word) == 0)
            b->fault = (enum fault)i;
    return b;
}

static ncclResult_t below_begin(void **context)
{
    struct below *b = below_new();
    const bool fails = b != NULL && b->fault == FAILS_IN_INIT;

    if (fails) {
        free(b);
        b = NULL;
    }
    *context = b;
    return fails       ? ncclInternalError
           : b == NULL ? ncclSystemError
                       : ncclSuccess;
}

/* The number that decides the answer to a call. */
static uint64_t below_hash(struct below *b, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops)
{
    uint64_t hash = mix(mix(mix(7, coll), n_bytes), (unsigned)n_pipe_ops);

    if (b->fault == PER_THREAD)
        hash = mix(hash, ++n_calls_of_thread);
    return hash;
}

/* Sets the channels, and returns the result. */
static ncclResult_t below_end(const struct below *b, uint64_t hash,
                              int *n_channels)
{
    static const int wrong[] = {-1, 128, 256, -5};

    if (b->fault == QUIET)
        return ncclSuccess;
    if (hash % 3 == 0)
        *n_channels = (int)(hash >> 8) & 63;
    if (b->fault == CHANNELS && hash % 4 == 0)
        *n_channels = wrong[(hash >> 20) % 4];
    return b->fault == FAILS && hash % 16 == 0 ? ncclInternalError
                                               : ncclSuccess;
}

#if BELOW < 5
static ncclResult_t below_init(size_t n_ranks, size_t n_nodes,
                               ncclDebugLogger_t log, void **context)
{
    return below_begin(context);
}
#else
#if BELOW == 7
#define CONSTANTS ncclTunerConstants_v7_t
#else
#define CONSTANTS ncclTunerConstants_v5_t
#endif
static ncclResult_t below_init(void **context, uint64_t comm_id, size_t n_ranks,
                               size_t n_nodes, ncclDebugLogger_t log,
                               ncclNvlDomainInfo_v5_t *domains,
                               CONSTANTS *constants)
{
    if (getenv("BELOW_CONSTANTS") == NULL)
        return below_begin(context);
    constants->baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_LL] += 1;
    constants->llMaxBws[NCCL_BLACKWELL_COMPCAP_IDX][0] += (double)n_ranks;
#if BELOW == 7
    constants->llMaxBws[NCCL_RUBIN_COMPCAP_IDX][0] += (double)comm_id;
#endif
    return below_begin(context);
}
#endif

#if BELOW == 2
static ncclResult_t below_ask(void *context, ncclFunc_t coll, size_t n_bytes,
                              int collnet, int nvls, int n_pipe_ops, int *algo,
                              int *proto, int *n_channels)
{
    struct below *b = context;
    const uint64_t hash = below_hash(b, coll, n_bytes, n_pipe_ops);

    if (hash % 4 != 0 && b->fault != QUIET) {
        *algo = (int)((hash >> 12) % 6);
        *proto = (int)((hash >> 18) % 3);
        if ((!collnet && (*algo == NCCL_ALGO_COLLNET_DIRECT ||
                          *algo == NCCL_ALGO_COLLNET_CHAIN)) ||
            (!nvls &&
             (*algo == NCCL_ALGO_NVLS || *algo == NCCL_ALGO_NVLS_TREE)))
            *algo = NCCL_ALGO_RING;
        if (b->fault == REVIVES && hash % 5 == 0)
            *proto = 3;
    }
    return below_end(b, hash, n_channels);
}
#else
#if BELOW == 3
#define REG_BUFF
#else
#define REG_BUFF int reg_buff,
#endif
static ncclResult_t below_ask(void *context, ncclFunc_t coll, size_t n_bytes,
                              int n_pipe_ops, float **table, int n_algos,
                              int n_protos, REG_BUFF int *n_channels)
{
    struct below *b = context;
    const uint64_t hash = below_hash(b, coll, n_bytes, n_pipe_ops);
    float *cost = (float *)table;

    for (int i = 0; i < n_algos * n_protos && b->fault != QUIET; i++) {
        const uint64_t h = mix(hash, (unsigned)i);

        if (b->fault == REVIVES && cost[i] < 0 && h % 8 == 0)
            cost[i] = 0.5f;
        if (cost[i] < 0 || h % 4 != 0)
            continue;
        switch ((h >> 8) % 6) {
        case 0:
            cost[i] = 0;
            break;
        case 1:
            cost[i] = b->fault == NOT_A_NUMBER ? NAN : 1e8f;
            break;
        case 2:
            cost[i] = b->fault == MINUS ? NCCL_ALGO_PROTO_IGNORE : 1e9f;
            break;
        default:
            cost[i] *= (float)(1 + (h >> 16) % 64) / 32;
        }
    }
    if (b->fault == BESIDE)
        cost[-1] = cost[n_algos * n_protos] = 0;
    return below_end(b, hash, n_channels);
}
#endif

static ncclResult_t below_finalize(void *context)
{
    free(context);
    return ncclSuccess;
}

#if BELOW >= 6
static ncclResult_t below_chunk(void *context, ncclFunc_t coll, size_t n_bytes,
                                int algo, int proto, int n_channels,
                                size_t *chunk)
{
    const struct below *b = context;

    *chunk =
        (1 + mix(mix(n_bytes, (unsigned)algo), (unsigned)proto) % 7) * 4096;
    if (b->fault == CHANNELS)
        *chunk = 0;
    return b->fault == FAILS && *chunk == 8192 ? ncclInternalError
                                               : ncclSuccess;
}
#define CHUNK , below_chunk
#else
#define CHUNK
#endif

#define TUNER_OF(version)                                                      \
    __attribute__((visibility("default")))                                     \
    const ncclTuner_v##version##_t ncclTunerPlugin_v##version = {              \
        NAME, below_init, below_ask, below_finalize CHUNK}
#define TUNER(version) TUNER_OF(version)
TUNER(BELOW);
