#include "device/arm_tuner.h"

#include <stdatomic.h>
#include <stdint.h>

/* The arm in one word, so that no thread sees half of one: the bytes of a chunk
 * above 32 bits, 1 << 24 if forced, then algorithm, protocol and channels, a
 * byte each. */
static _Atomic uint64_t current;

enum { ANY = 0xff }; /* algorithm or protocol */

void stp_arm_tuner_set(const struct stp_arm *arm)
{
    uint64_t word = 0;

    if (arm->kind == STP_ARM_FORCED)
        word = (uint64_t)arm->chunk_bytes << 32 | UINT32_C(1) << 24 |
               ((uint32_t)arm->algo & ANY) << 16 |
               ((uint32_t)arm->proto & ANY) << 8 | (uint32_t)arm->n_channels;
    atomic_store(&current, word);
}

static ncclResult_t arm_tuner_init(void **context, uint64_t comm_id,
                                   size_t n_ranks, size_t n_nodes,
                                   ncclDebugLogger_t log,
                                   ncclNvlDomainInfo_v5_t *nvl,
                                   ncclTunerConstants_v5_t *constants)
{
    *context = NULL;
    return ncclSuccess;
}

/* Finds the cheapest entry that is not forced otherwise, which NCCL would take
 * if it were alone; NULL if all such entries are ruled out. */
static float *arm_tuner_cheapest(float *cost, int n_algo, int n_proto, int algo,
                                 int proto)
{
    float *best = NULL;

    for (int a = 0; a < n_algo; a++)
        for (int p = 0; p < n_proto; p++) {
            float *entry = &cost[a * n_proto + p];

            if ((algo == ANY || algo == a) && (proto == ANY || proto == p) &&
                *entry >= 0.0f && (best == NULL || *entry < *best))
                best = entry;
        }
    return best;
}

static ncclResult_t arm_tuner_get_coll_info(void *context, ncclFunc_t coll,
                                            size_t n_bytes, int n_pipe_ops,
                                            float **cost_table, int n_algo,
                                            int n_proto, int reg_buff,
                                            int *n_channels)
{
    const uint64_t word = atomic_load(&current);
    float *entry;

    if (word == 0)
        return ncclSuccess;
    entry =
        arm_tuner_cheapest((float *)cost_table, n_algo, n_proto,
                           (int)(word >> 16 & 0xff), (int)(word >> 8 & 0xff));
    if (entry == NULL)
        return ncclSuccess;
    *entry = 0.0f;
    if ((word & 0xff) != 0)
        *n_channels = (int)(word & 0xff);
    return ncclSuccess;
}

static ncclResult_t arm_tuner_get_chunk_size(void *context, ncclFunc_t coll,
                                             size_t n_bytes, int algo,
                                             int proto, int n_channels,
                                             size_t *chunk_bytes)
{
    const uint64_t word = atomic_load(&current);

    if (word >> 32 != 0)
        *chunk_bytes = (size_t)(word >> 32);
    return ncclSuccess;
}

static ncclResult_t arm_tuner_finalize(void *context)
{
    return ncclSuccess;
}

const ncclTuner_v6_t stp_arm_tuner = {
    .name = "steptune-arm",
    .init = arm_tuner_init,
    .getCollInfo = arm_tuner_get_coll_info,
    .finalize = arm_tuner_finalize,
    .getChunkSize = arm_tuner_get_chunk_size,
};
