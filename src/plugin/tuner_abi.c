/*
 * tuner_abi.c - NCCL's tuner ABI on one side, a backend on the other
 *
 * Every version that NCCL has shipped is translated to the same functions
 * here, so that no backend sees a version number.
 *
 * Nothing in this file ever returns an error: one from init would fail the
 * communicator, an error from getCollInfo the collective.  A tuner that cannot
 * help logs why, once, and changes nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agree/agreement.h"
#include "core/policy/constants.h"
#include "nccl_tuner_abi.h"
#include "plugin/backend.h"
#include "plugin/chunk.h"
#include "plugin/entry.h"
#include "plugin/file.h"
#include "plugin/ledger_file.h"
#include "plugin/log.h"
#include "plugin/settings.h"

/* One communicator; NULL if there was no memory for it. */
struct context {
    struct stp_backend *backend;     /* NULL: inactive, NCCL tunes alone */
    struct stp_agreement *agreement; /* NULL: none, or of no more use */
    bool must_compare;               /* fingerprints, at the first decision */
    bool ranks_differ; /* in constants: one pair where no rule decides */
    size_t n_nodes;
    uint64_t constants; /* hash of those that were set; 0: NCCL's own */
    ncclDebugLogger_t log;
    struct stp_chunk_notes chunks;
    struct stp_ledger *ledger; /* NULL: the settings name no folder */
};

/* A rank's fingerprint: the policy in the upper half, and the constants in the
 * lower. */
#define POLICY_INACTIVE 1u
#define POLICY_BITS     0xFFFFFFFF00000000u
#define CONSTANTS_BITS  0x00000000FFFFFFFFu

#define LOG(log, level, ...)                                                   \
    stp_log(log, level, "tuner_abi.c", __LINE__, __VA_ARGS__)

/* ---- all versions ---- */

/* The ledger has the same words as the log. */
static void tuner_note(struct context *ctx, bool is_inactive, const char *text)
{
    if (ctx->ledger == NULL)
        return;
    ctx->ledger->is_aside = is_inactive;
    stp_make_printable(text, ctx->ledger->what, sizeof(ctx->ledger->what));
}

static void tuner_step_aside(struct context *ctx, const char *subject,
                             const struct stp_error *err)
{
    char why[STP_PATH_SIZE + STP_ERROR_TEXT];

    stp_error_string(err, subject, why, sizeof(why));
    LOG(ctx->log, NCCL_LOG_WARN, "%s: %s; stepping aside, NCCL tunes alone",
        STP_TUNER_NAME, why);
    tuner_note(ctx, true, why);
}

/* Without a ledger the job is tuned all the same. */
static void tuner_open_ledger(struct context *ctx, const char *dir,
                              const struct stp_comm_info *info)
{
    struct stp_error err;

    if (dir[0] == '\0')
        return;
    if (stp_ledger_open(dir, &ctx->ledger, &err) == STP_OK)
        stp_ledger_begin(ctx->ledger, (uint32_t)getpid(), info->comm_id,
                         &info->shape);
    else
        LOG(ctx->log, NCCL_LOG_INFO, "%s: no ledger of decisions: %s",
            STP_TUNER_NAME, err.text);
}

static bool tuner_constants_are_empty(const ncclTunerConstants_v5_t *nccl)
{
    const double *numbers = (const double *)nccl;

    for (size_t i = 0; i < STP_N_CONSTANTS; i++)
        if (numbers[i] != 0)
            return false;
    return true;
}

/*
 * NCCL 2.28 to 2.30 hand a tuner's init the constants of their model, and build
 * the model from the values that init leaves.  Sets those that the file at
 * 'path' names, '*hash_ret' to their hash and '*n_ret' to their number.  Else
 * all are untouched: STP_ERR_RANGE if NCCL hands none ('nccl' is NULL, before
 * 2.28) or forgets them (all are 0, in development builds of 2.31); or as
 * stp_constants_load().
 */
static enum stp_status tuner_load_constants(const char *path,
                                            ncclTunerConstants_v5_t *nccl,
                                            size_t *n_ret, uint64_t *hash_ret,
                                            struct stp_error *err)
{
    struct stp_constants constants;
    enum stp_status status;

    if (nccl == NULL)
        return stp_fail(err, STP_ERR_RANGE,
                        "this NCCL takes no constants from a tuner, expected "
                        "2.28 or later");
    if (tuner_constants_are_empty(nccl))
        return stp_fail(err, STP_ERR_RANGE,
                        "this NCCL forgets the constants that a tuner sets, "
                        "expected 2.28 to 2.30");
    status = stp_file_load_constants(path, &constants, err);
    if (status != STP_OK)
        return status;
    stp_constants_apply(&constants, nccl);
    *n_ret = stp_constants_size(&constants);
    *hash_ret = stp_constants_hash(&constants);
    return STP_OK;
}

static void tuner_set_constants(struct context *ctx, const char *path,
                                ncclTunerConstants_v5_t *constants)
{
    char why[STP_PATH_SIZE + STP_ERROR_TEXT];
    struct stp_error err;
    size_t n = 0;

    if (tuner_load_constants(path, constants, &n, &ctx->constants, &err) ==
        STP_OK) {
        LOG(ctx->log, NCCL_LOG_INFO,
            "%s: set %zu of NCCL's constants: %s, hash %016" PRIx64,
            STP_TUNER_NAME, n, path, ctx->constants);
        return;
    }
    stp_error_string(&err, path, why, sizeof(why));
    LOG(ctx->log, NCCL_LOG_WARN, "%s: %s; NCCL keeps its own constants",
        STP_TUNER_NAME, why);
}

static uint32_t tuner_fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

static uint64_t tuner_fingerprint(const struct context *ctx)
{
    uint32_t policy = POLICY_INACTIVE;

    if (ctx->backend != NULL)
        policy = tuner_fold(stp_backend_fingerprint(ctx->backend));
    if (policy == 0) /* no fingerprint may be 0 */
        policy = ~0u;
    return (uint64_t)policy << 32 | tuner_fold(ctx->constants);
}

/* Without an agreement fingerprints are not compared and nothing is learned. */
static void tuner_join(struct context *ctx, const struct stp_comm_info *info)
{
    const struct stp_agreement_rank rank = {
        .comm_id = info->comm_id,
        .n_ranks = info->shape.n_ranks,
        .fingerprint = tuner_fingerprint(ctx),
        .parts = ctx->backend != NULL ? stp_backend_parts(ctx->backend) : 0,
    };
    struct stp_error err;

    if (info->comm_id == 0) /* v2 to v4 are not told */
        return;
    if (stp_agreement_join(&rank, &ctx->agreement, &err) != STP_OK)
        LOG(ctx->log, NCCL_LOG_INFO,
            "%s: cannot compare policies with the other ranks of this host: %s",
            STP_TUNER_NAME, err.text);
    ctx->must_compare = ctx->agreement != NULL;
}

static void tuner_start(struct context *ctx, const struct stp_comm_info *info)
{
    char text[STP_PATH_SIZE + 128];

    stp_backend_join(ctx->backend, ctx->agreement);
    stp_backend_describe(ctx->backend, text, sizeof(text));
    LOG(ctx->log, NCCL_LOG_INFO, "%s: %zu ranks on %zu nodes: %s",
        STP_TUNER_NAME, info->shape.n_ranks, info->shape.n_nodes, text);
    tuner_note(ctx, false, text);
    stp_backend_start(ctx->backend);
}

static void tuner_open(struct context *ctx, struct stp_comm_info *info,
                       ncclTunerConstants_v5_t *constants)
{
    struct stp_plugin_settings settings;
    const char *subject = "environment";
    struct stp_error err;
    enum stp_status status = stp_settings_read(&settings, &err);

    tuner_open_ledger(ctx, settings.ledger, info);
    if (settings.constants[0] != '\0')
        tuner_set_constants(ctx, settings.constants, constants);
    /* Ranks on different nodes cannot know each other's GPUs, and must not
     * decide by their own. */
    if (info->shape.n_nodes == 1 && settings.gpu[0] != '\0')
        info->shape.gpu = settings.gpu;
    if (status == STP_OK)
        status = stp_backend_open(info, &settings, ctx->log, &ctx->backend,
                                  &subject, &err);
    if (status != STP_OK)
        tuner_step_aside(ctx, subject, &err);
    else if (ctx->backend == NULL)
        tuner_note(ctx, true, "no policy");
    tuner_join(ctx, info);
    if (ctx->backend != NULL)
        tuner_start(ctx, info);
}

static struct context *tuner_init(uint64_t comm_id, size_t n_ranks,
                                  size_t n_nodes, ncclDebugLogger_t log,
                                  ncclTunerConstants_v5_t *constants)
{
    struct context *ctx = calloc(1, sizeof(*ctx));
    struct stp_comm_info info = {.comm_id = comm_id,
                                 .shape = {n_ranks, n_nodes, NULL}};
    struct stp_entry entry;

    if (ctx == NULL)
        return NULL;
    ctx->log = log;
    ctx->n_nodes = n_nodes;
    stp_entry_begin(&entry);
    tuner_open(ctx, &info, constants);
    stp_entry_end(&entry);
    return ctx;
}

/* NCCL has built each rank's model from its constants by now, and the ranks
 * would choose differently.  All ranks of the host see that the constants
 * differ, so that all can take the same pair; ranks of other hosts do not. */
static void tuner_use_one_pair(struct context *ctx)
{
    static const char text[] =
        "the ranks of this host do not hold the same constants";

    ctx->ranks_differ = ctx->n_nodes == 1;
    LOG(ctx->log, NCCL_LOG_WARN,
        "%s: %s (their logs show path and hash), expected the same "
        "STEPTUNE_CONSTANTS_FILE on all; %s",
        STP_TUNER_NAME, text,
        ctx->ranks_differ
            ? "they all use ring/simple, which is slow, but does not hang"
            : "they may choose differently, and then the job hangs");
    tuner_note(ctx, ctx->backend == NULL, text);
}

static void tuner_disable_on_mismatch(struct context *ctx)
{
    if (ctx->backend == NULL)
        return;
    LOG(ctx->log, NCCL_LOG_WARN,
        "%s: the ranks of this host do not hold the same policy (their logs "
        "show its path and hash); stepping aside, NCCL tunes alone",
        STP_TUNER_NAME);
    tuner_note(ctx, true, "the ranks of this host do not hold the same policy");
    stp_backend_close(ctx->backend);
    ctx->backend = NULL;
}

/* Before the first decision, when all ranks have joined. */
static void tuner_compare(struct context *ctx)
{
    uint64_t differing = ctx->agreement->ops->differing(ctx->agreement);

    ctx->must_compare = false;
    if ((differing & CONSTANTS_BITS) != 0)
        tuner_use_one_pair(ctx);
    if ((differing & POLICY_BITS) != 0)
        tuner_disable_on_mismatch(ctx);
    if (ctx->backend != NULL && stp_backend_parts(ctx->backend) != 0)
        return;
    stp_agreement_leave(ctx->agreement);
    ctx->agreement = NULL;
}

/* A pair that does not depend on costs: ring/simple, or the first that NCCL has
 * not ruled out, which constants do not change. */
static bool tuner_choose_pair(const struct stp_cost_view *view,
                              struct stp_choice *choice)
{
    int first = NCCL_ALGO_RING * view->n_proto + NCCL_PROTO_SIMPLE;

    if (view->cost[first] < 0)
        for (first = 0; first < view->n_algo * view->n_proto; first++)
            if (view->cost[first] >= 0)
                break;
    if (first == view->n_algo * view->n_proto)
        return false;
    *choice = (struct stp_choice){.algo = first / view->n_proto,
                                  .proto = first % view->n_proto};
    return true;
}

static bool tuner_choose(struct context *ctx, const struct stp_query *query,
                         const struct stp_cost_view *view,
                         struct stp_choice *choice)
{
    bool decided = false;

    if (ctx == NULL)
        return false;
    if (ctx->must_compare)
        tuner_compare(ctx);
    if (ctx->backend != NULL)
        decided = stp_backend_choose(ctx->backend, query, view, choice);
    if (!decided && ctx->ranks_differ)
        decided = tuner_choose_pair(view, choice);
    if (ctx->ledger != NULL)
        stp_ledger_count(ctx->ledger, query->coll, query->n_bytes,
                         decided ? choice : NULL);
    return decided;
}

static ncclResult_t tuner_finalize(void *opaque)
{
    struct context *ctx = opaque;

    if (ctx == NULL)
        return ncclSuccess;
    stp_backend_close(ctx->backend);
    stp_agreement_leave(ctx->agreement);
    stp_ledger_close(ctx->ledger);
    free(ctx);
    return ncclSuccess;
}

/* ---- init ---- */

static ncclResult_t tuner_abi_tuner_init_v2(size_t n_ranks, size_t n_nodes,
                                            ncclDebugLogger_t log,
                                            void **context)
{
    *context = tuner_init(0, n_ranks, n_nodes, log, NULL);
    return ncclSuccess;
}

static ncclResult_t tuner_abi_tuner_init_v5(void **context, uint64_t comm_id,
                                            size_t n_ranks, size_t n_nodes,
                                            ncclDebugLogger_t log,
                                            ncclNvlDomainInfo_v5_t *nvl,
                                            ncclTunerConstants_v5_t *constants)
{
    (void)nvl;
    *context = tuner_init(comm_id, n_ranks, n_nodes, log, constants);
    return ncclSuccess;
}

/* ---- getCollInfo ---- */

/* NCCL's newer shim reads a pair as "this entry costs nothing".  NCCL 2.21 has
 * no cost table and says only whether NVLS and CollNet are there at all. */
static ncclResult_t tuner_get_coll_info_v2(void *context, ncclFunc_t coll,
                                           size_t n_bytes, int collnet,
                                           int nvls, int n_pipe_ops, int *algo,
                                           int *proto, int *n_channels)
{
    const float no_collnet = collnet ? 0.0f : NCCL_ALGO_PROTO_IGNORE;
    const float no_nvls = nvls ? 0.0f : NCCL_ALGO_PROTO_IGNORE;
    const float cost[NCCL_ALGO_PAT][NCCL_NUM_PROTOCOLS] = {
        [NCCL_ALGO_COLLNET_DIRECT] = {no_collnet, no_collnet, no_collnet},
        [NCCL_ALGO_COLLNET_CHAIN] = {no_collnet, no_collnet, no_collnet},
        [NCCL_ALGO_NVLS] = {no_nvls, no_nvls, no_nvls},
        [NCCL_ALGO_NVLS_TREE] = {no_nvls, no_nvls, no_nvls},
    };
    const struct stp_cost_view view = {cost[0], NCCL_ALGO_PAT,
                                       NCCL_NUM_PROTOCOLS};
    const struct stp_query query = {(int)coll, n_bytes, n_pipe_ops, 0};
    struct stp_choice choice;

    if (!tuner_choose(context, &query, &view, &choice))
        return ncclSuccess;
    *algo = choice.algo;
    *proto = choice.proto;
    if (choice.n_channels != 0)
        *n_channels = choice.n_channels;
    return ncclSuccess;
}

/* Versions 3 to 6.  Writes nothing unless the tuner decides. */
static bool tuner_decide(struct context *ctx, const struct stp_query *query,
                         float **cost_table, int n_algo, int n_proto,
                         int *n_channels, struct stp_choice *choice)
{
    float *cost = (float *)cost_table; /* contiguous, whatever its type says */
    const struct stp_cost_view view = {cost, n_algo, n_proto};

    if (!tuner_choose(ctx, query, &view, choice))
        return false;
    cost[choice->algo * n_proto + choice->proto] = 0.0f;
    if (choice->n_channels != 0)
        *n_channels = choice->n_channels;
    return true;
}

static ncclResult_t tuner_get_coll_info_v4(void *context, ncclFunc_t coll,
                                           size_t n_bytes, int n_pipe_ops,
                                           float **cost_table, int n_algo,
                                           int n_proto, int reg_buff,
                                           int *n_channels)
{
    const struct stp_query query = {(int)coll, n_bytes, n_pipe_ops, reg_buff};
    struct stp_choice choice;

    tuner_decide(context, &query, cost_table, n_algo, n_proto, n_channels,
                 &choice);
    return ncclSuccess;
}

static ncclResult_t tuner_get_coll_info_v3(void *context, ncclFunc_t coll,
                                           size_t n_bytes, int n_pipe_ops,
                                           float **cost_table, int n_algo,
                                           int n_proto, int *n_channels)
{
    return tuner_get_coll_info_v4(context, coll, n_bytes, n_pipe_ops,
                                  cost_table, n_algo, n_proto, 0, n_channels);
}

static ncclResult_t tuner_get_coll_info_v6(void *context, ncclFunc_t coll,
                                           size_t n_bytes, int n_pipe_ops,
                                           float **cost_table, int n_algo,
                                           int n_proto, int reg_buff,
                                           int *n_channels)
{
    const struct stp_query query = {(int)coll, n_bytes, n_pipe_ops, reg_buff};
    struct context *ctx = context;
    struct stp_choice choice;
    bool decided = tuner_decide(ctx, &query, cost_table, n_algo, n_proto,
                                n_channels, &choice);

    if (ctx != NULL)
        stp_chunk_note(&ctx->chunks, (int)coll, decided ? &choice : NULL);
    return ncclSuccess;
}

static ncclResult_t tuner_get_chunk_size_v6(void *context, ncclFunc_t coll,
                                            size_t n_bytes, int algo, int proto,
                                            int n_channels, size_t *chunk_size)
{
    struct context *ctx = context;
    size_t chunk = 0;

    (void)n_bytes; /* of one channel, not of the message */
    (void)n_channels;
    if (ctx != NULL)
        chunk = stp_chunk_find(&ctx->chunks, (int)coll, algo, proto);
    if (chunk != 0)
        *chunk_size = chunk;
    return ncclSuccess;
}

/* ---- the tables that NCCL looks up ---- */

#define EXPORT __attribute__((visibility("default"))) extern

EXPORT const ncclTuner_v2_t ncclTunerPlugin_v2;
EXPORT const ncclTuner_v3_t ncclTunerPlugin_v3;
EXPORT const ncclTuner_v4_t ncclTunerPlugin_v4;
EXPORT const ncclTuner_v5_t ncclTunerPlugin_v5;
EXPORT const ncclTuner_v6_t ncclTunerPlugin_v6;

const ncclTuner_v2_t ncclTunerPlugin_v2 = {
    .name = STP_TUNER_NAME,
    .init = tuner_abi_tuner_init_v2,
    .getCollInfo = tuner_get_coll_info_v2,
    .destroy = tuner_finalize,
};

const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    .name = STP_TUNER_NAME,
    .init = tuner_abi_tuner_init_v2,
    .getCollInfo = tuner_get_coll_info_v3,
    .destroy = tuner_finalize,
};

const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    .name = STP_TUNER_NAME,
    .init = tuner_abi_tuner_init_v2,
    .getCollInfo = tuner_get_coll_info_v4,
    .destroy = tuner_finalize,
};

const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    .name = STP_TUNER_NAME,
    .init = tuner_abi_tuner_init_v5,
    .getCollInfo = tuner_get_coll_info_v4,
    .finalize = tuner_finalize,
};

const ncclTuner_v6_t ncclTunerPlugin_v6 = {
    .name = STP_TUNER_NAME,
    .init = tuner_abi_tuner_init_v5,
    .getCollInfo = tuner_get_coll_info_v6,
    .finalize = tuner_finalize,
    .getChunkSize = tuner_get_chunk_size_v6,
};
