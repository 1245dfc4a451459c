#include "device/arm_tuner.h"

#include <float.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "core/utf8.h"
#include "plugin/chain.h"

/* The arm in one word, so that no thread sees half of one: the bytes of a chunk
 * above 32 bits, FORCED, then algorithm, protocol and channels, a byte each; or
 * ALONE. */
static _Atomic uint64_t current;

enum { ANY = 0xff /* algorithm or protocol */, FORCED = 1 << 24, ALONE = 1 };

/* The newest interface of this NCCL's tuners, set before its first
 * communicator; and the name of the tuner below, once one has begun. */
static int newest;
static _Atomic(const char *) lower_name;

enum stp_status stp_arm_tuner_begin(const char *displaced, int version,
                                    struct stp_error *err)
{
    const char *before = getenv("STEPTUNE_CHAIN");
    const char *chain = stp_lower_setting(before, displaced);

    newest = version;
    atomic_store(&lower_name, NULL);
    return chain == NULL || chain == before ||
                   setenv("STEPTUNE_CHAIN", chain, 1) == 0
               ? STP_OK
               : stp_nomem(err);
}

void stp_arm_tuner_describe(struct stp_device_info *info)
{
    const char *name = atomic_load(&lower_name);

    if (name == NULL)
        return;
    stp_printable(name, strlen(name), info->tuner, sizeof(info->tuner));
    stp_append(info->what, sizeof(info->what),
               "; AUTO is with %s's tuner, and arm nccl NCCL alone",
               info->tuner);
}

void stp_arm_tuner_set(const struct stp_arm *arm)
{
    uint64_t word = 0;

    if (arm->kind == STP_ARM_FORCED)
        word = (uint64_t)arm->chunk_bytes << 32 | FORCED |
               ((uint32_t)arm->algo & ANY) << 16 |
               ((uint32_t)arm->proto & ANY) << 8 | (uint32_t)arm->n_channels;
    else if (arm->kind == STP_ARM_NCCL)
        word = ALONE;
    atomic_store(&current, word);
}

static ncclResult_t arm_tuner_init(void **context, uint64_t comm_id,
                                   size_t n_ranks, size_t n_nodes,
                                   ncclDebugLogger_t log,
                                   ncclNvlDomainInfo_v5_t *nvl,
                                   ncclTunerConstants_v5_t *constants)
{
    struct stp_chain *chain = calloc(1, sizeof(*chain));
    ncclTunerConstants_v7_t v7 = {0};
    const struct stp_chain_init init = {newest,
                                        comm_id,
                                        n_ranks,
                                        n_nodes,
                                        log,
                                        nvl,
                                        newest == 7 ? (void *)&v7 : constants};
    ncclResult_t rc;

    *context = chain;
    if (chain == NULL)
        return ncclSystemError;
    if (newest == 0)
        return ncclSuccess;
    if (newest == 7)
        nccl_constants_to_v7(constants, &v7);
    rc = stp_chain_open(chain, &init);
    if (newest == 7)
        nccl_constants_to_v5(&v7, constants);
    if (chain->ask != NULL)
        atomic_store(&lower_name, stp_lower_name(&chain->lower));
    if (rc == ncclSuccess)
        return ncclSuccess;
    free(chain);
    *context = NULL;
    return rc;
}

static ncclResult_t arm_tuner_get_coll_info(void *context, ncclFunc_t coll,
                                            size_t n_bytes, int n_pipe_ops,
                                            float **cost_table, int n_algo,
                                            int n_proto, int reg_buff,
                                            int *n_channels)
{
    const uint64_t word = atomic_load(&current);
    const int own_channels = *n_channels;
    struct stp_chain *chain = context;
    const int algo = (int)(word >> 16 & 0xff), proto = (int)(word >> 8 & 0xff);
    float *cost = (float *)cost_table, *best = NULL;
    ncclResult_t rc;

    if (word == ALONE)
        return ncclSuccess;
    rc = stp_chain_ask(chain, coll, n_bytes, n_pipe_ops, cost, n_algo, n_proto,
                       reg_buff, n_channels);
    if (word == 0 || rc != ncclSuccess)
        return rc;
    /* NCCL would take the cheapest entry that is not forced otherwise if it
     * were alone, unless all such entries are ruled out. */
    for (int a = 0; a < n_algo; a++)
        for (int p = 0; p < n_proto; p++) {
            float *entry = &cost[a * n_proto + p];

            if ((algo == ANY || algo == a) && (proto == ANY || proto == p) &&
                *entry >= 0.0f && (best == NULL || *entry < *best))
                best = entry;
        }
    if (best == NULL)
        return ncclSuccess;
    stp_chain_settle(chain, cost, n_algo * n_proto);
    for (int i = 0; i < n_algo * n_proto; i++)
        cost[i] = cost[i] == 0 ? FLT_MIN : cost[i]; /* of the tuner below */
    *best = 0.0f;
    *n_channels = (word & 0xff) != 0 ? (int)(word & 0xff) : own_channels;
    return ncclSuccess;
}

static ncclResult_t arm_tuner_get_chunk_size(void *context, ncclFunc_t coll,
                                             size_t n_bytes, int algo,
                                             int proto, int n_channels,
                                             size_t *chunk_bytes)
{
    const uint64_t word = atomic_load(&current);

    if (word == ALONE)
        return ncclSuccess;
    if (word >> 32 == 0)
        return stp_chain_ask_chunk(context, coll, n_bytes, algo, proto,
                                   n_channels, chunk_bytes);
    *chunk_bytes = (size_t)(word >> 32);
    return ncclSuccess;
}

static ncclResult_t arm_tuner_finalize(void *context)
{
    const ncclResult_t rc = /* NULL: init failed */
        context != NULL ? stp_chain_close(context) : ncclSuccess;

    free(context);
    return rc;
}

const ncclTuner_v6_t stp_arm_tuner = {
    .name = "steptune-arm",
    .init = arm_tuner_init,
    .getCollInfo = arm_tuner_get_coll_info,
    .finalize = arm_tuner_finalize,
    .getChunkSize = arm_tuner_get_chunk_size,
};
