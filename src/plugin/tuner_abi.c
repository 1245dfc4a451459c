/*
 * tuner_abi.c - NCCL's tuner ABI on one side, a backend on the other
 *
 * Every version that NCCL has shipped is translated to the same three
 * functions here, so that no backend sees a version number.
 *
 * Nothing in this file ever returns an error: one from init would fail the
 * communicator, one from getCollInfo the collective.  A tuner that cannot help
 * says so once and leaves everything as it found it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agree/same.h"
#include "core/backend.h"
#include "nccl_tuner_abi.h"
#include "plugin/chunk.h"
#include "plugin/ledger_file.h"
#include "plugin/settings.h"

/* One communicator; NULL if there was no memory for it. */
struct context {
    void *self; /* the backend's; NULL: stepped aside, NCCL tunes alone */
    struct stp_same *same; /* until the first decision; NULL: not compared */
    ncclDebugLogger_t log;
    struct stp_chunk_notes chunks;
    struct stp_ledger *ledger; /* NULL: nobody asked for one */
};

/* What a rank that stepped aside leaves for the others to compare with. */
enum { FINGERPRINT_ASIDE = 1 };

#define LOG(log, level, ...)                                                   \
    do {                                                                       \
        if ((log) != NULL)                                                     \
            (log)(level, NCCL_INIT | NCCL_TUNING, "tuner_abi.c", __LINE__,     \
                  __VA_ARGS__);                                                \
    } while (0)

/* ---- what all versions share ---- */

static enum stp_status open_backend(struct context *ctx,
                                    const struct stp_comm_info *info,
                                    const struct stp_plugin_settings *settings,
                                    struct stp_error *err)
{
    const struct stp_settings what = {.policy_path = settings->policy_path};

    return stp_backend.open(info, &what, &ctx->self, err);
}

/* Also in the ledger, for whoever reads that. */
static void note(struct context *ctx, bool is_aside, const char *what)
{
    if (ctx->ledger == NULL)
        return;
    ctx->ledger->is_aside = is_aside;
    snprintf(ctx->ledger->what, sizeof(ctx->ledger->what), "%.*s",
             (int)sizeof(ctx->ledger->what) - 1, what);
}

static void step_aside(struct context *ctx, const char *what,
                       const struct stp_error *err)
{
    char why[STP_PATH_SIZE + STP_ERROR_TEXT];

    stp_error_string(err, what, why, sizeof(why));
    LOG(ctx->log, NCCL_LOG_WARN, "%s: %s; stepping aside, NCCL tunes alone",
        stp_backend.name, why);
    note(ctx, true, why);
}

static void log_open(struct context *ctx, const struct stp_comm_info *info)
{
    char what[STP_PATH_SIZE + 128];

    stp_backend.describe(ctx->self, what, sizeof(what));
    LOG(ctx->log, NCCL_LOG_INFO, "%s: %zu ranks on %zu nodes: %s",
        stp_backend.name, info->shape.n_ranks, info->shape.n_nodes, what);
    note(ctx, false, what);
}

/* Without one the job is tuned all the same. */
static void open_ledger(struct context *ctx, const char *dir,
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
            stp_backend.name, err.text);
}

static void open_as_set(struct context *ctx, struct stp_comm_info *info)
{
    struct stp_plugin_settings settings;
    struct stp_error err;

    if (stp_settings_read(&settings, &err) != STP_OK) {
        open_ledger(ctx, settings.ledger, info);
        step_aside(ctx, "environment", &err);
        return;
    }
    open_ledger(ctx, settings.ledger, info);
    /* Ranks on different nodes cannot know each other's GPUs, and must not
     * decide by their own. */
    if (info->shape.n_nodes == 1 && settings.gpu[0] != '\0')
        info->shape.gpu = settings.gpu;
    if (open_backend(ctx, info, &settings, &err) != STP_OK)
        step_aside(ctx, settings.policy_path, &err);
    else
        log_open(ctx, info);
}

/* Without shared memory there is nothing to compare, and nothing worse than
 * without this check. */
static void join_ranks_of_host(struct context *ctx,
                               const struct stp_comm_info *info)
{
    uint64_t fingerprint = FINGERPRINT_ASIDE;
    struct stp_error err;

    if (info->comm_id == 0) /* v2 to v4 are not told */
        return;
    if (ctx->self != NULL)
        fingerprint = stp_backend.fingerprint(ctx->self);
    if (stp_same_join(info->comm_id, info->shape.n_ranks, fingerprint,
                      &ctx->same, &err) != STP_OK)
        LOG(ctx->log, NCCL_LOG_INFO,
            "%s: cannot compare policies with the other ranks of this host: %s",
            stp_backend.name, err.text);
}

static struct context *open_context(uint64_t comm_id, size_t n_ranks,
                                    size_t n_nodes, ncclDebugLogger_t log)
{
    struct context *ctx = calloc(1, sizeof(*ctx));
    struct stp_comm_info info = {.comm_id = comm_id,
                                 .shape = {n_ranks, n_nodes, NULL}};

    if (ctx == NULL)
        return NULL;
    ctx->log = log;
    open_as_set(ctx, &info);
    join_ranks_of_host(ctx, &info);
    return ctx;
}

static void close_backend(struct context *ctx)
{
    if (ctx->self != NULL)
        stp_backend.close(ctx->self);
    ctx->self = NULL;
}

/* Before the first decision, when all ranks have joined. */
static void compare_with_ranks_of_host(struct context *ctx)
{
    bool all_same = stp_same_all(ctx->same);

    stp_same_leave(ctx->same);
    ctx->same = NULL;
    if (all_same || ctx->self == NULL)
        return;
    LOG(ctx->log, NCCL_LOG_WARN,
        "%s: the ranks of this host do not hold the same policy (their logs "
        "show its path and hash); stepping aside, NCCL tunes alone",
        stp_backend.name);
    note(ctx, true, "the ranks of this host do not hold the same policy");
    close_backend(ctx);
}

static bool choose(struct context *ctx, const struct stp_query *query,
                   const struct stp_cost_view *view, struct stp_choice *choice)
{
    bool decided;

    if (ctx == NULL)
        return false;
    if (ctx->same != NULL)
        compare_with_ranks_of_host(ctx);
    decided =
        ctx->self != NULL && stp_backend.choose(ctx->self, query, view, choice);
    if (ctx->ledger != NULL)
        stp_ledger_count(ctx->ledger, query->coll, query->n_bytes,
                         decided ? choice : NULL);
    return decided;
}

static ncclResult_t close_context(void *opaque)
{
    struct context *ctx = opaque;

    if (ctx == NULL)
        return ncclSuccess;
    stp_same_leave(ctx->same);
    close_backend(ctx);
    stp_ledger_close(ctx->ledger);
    free(ctx);
    return ncclSuccess;
}

/* ---- init ---- */

static ncclResult_t init_v2(size_t n_ranks, size_t n_nodes,
                            ncclDebugLogger_t log, void **context)
{
    *context = open_context(0, n_ranks, n_nodes, log);
    return ncclSuccess;
}

static ncclResult_t init_v5(void **context, uint64_t comm_id, size_t n_ranks,
                            size_t n_nodes, ncclDebugLogger_t log,
                            ncclNvlDomainInfo_v5_t *nvl,
                            ncclTunerConstants_v5_t *constants)
{
    (void)nvl;
    (void)constants;
    *context = open_context(comm_id, n_ranks, n_nodes, log);
    return ncclSuccess;
}

/* ---- getCollInfo ---- */

/* NCCL's newer shim reads a pair as "this entry costs nothing".  NCCL 2.21 has
 * no cost table and says only whether NVLS and CollNet are there at all. */
static ncclResult_t get_coll_info_v2(void *context, ncclFunc_t coll,
                                     size_t n_bytes, int collnet, int nvls,
                                     int n_pipe_ops, int *algo, int *proto,
                                     int *n_channels)
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

    if (!choose(context, &query, &view, &choice))
        return ncclSuccess;
    *algo = choice.algo;
    *proto = choice.proto;
    if (choice.n_channels != 0)
        *n_channels = choice.n_channels;
    return ncclSuccess;
}

/* What v3 to v6 share.  Writes nothing unless the backend decides. */
static bool decide(struct context *ctx, const struct stp_query *query,
                   float **cost_table, int n_algo, int n_proto, int *n_channels,
                   struct stp_choice *choice)
{
    float *cost = (float *)cost_table; /* contiguous, whatever its type says */
    const struct stp_cost_view view = {cost, n_algo, n_proto};

    if (!choose(ctx, query, &view, choice))
        return false;
    cost[choice->algo * n_proto + choice->proto] = 0.0f;
    if (choice->n_channels != 0)
        *n_channels = choice->n_channels;
    return true;
}

static ncclResult_t get_coll_info_v3(void *context, ncclFunc_t coll,
                                     size_t n_bytes, int n_pipe_ops,
                                     float **cost_table, int n_algo,
                                     int n_proto, int *n_channels)
{
    const struct stp_query query = {(int)coll, n_bytes, n_pipe_ops, 0};
    struct stp_choice choice;

    decide(context, &query, cost_table, n_algo, n_proto, n_channels, &choice);
    return ncclSuccess;
}

static ncclResult_t get_coll_info_v4(void *context, ncclFunc_t coll,
                                     size_t n_bytes, int n_pipe_ops,
                                     float **cost_table, int n_algo,
                                     int n_proto, int reg_buff, int *n_channels)
{
    const struct stp_query query = {(int)coll, n_bytes, n_pipe_ops, reg_buff};
    struct stp_choice choice;

    decide(context, &query, cost_table, n_algo, n_proto, n_channels, &choice);
    return ncclSuccess;
}

static ncclResult_t get_coll_info_v6(void *context, ncclFunc_t coll,
                                     size_t n_bytes, int n_pipe_ops,
                                     float **cost_table, int n_algo,
                                     int n_proto, int reg_buff, int *n_channels)
{
    const struct stp_query query = {(int)coll, n_bytes, n_pipe_ops, reg_buff};
    struct context *ctx = context;
    struct stp_choice choice;
    bool decided =
        decide(ctx, &query, cost_table, n_algo, n_proto, n_channels, &choice);

    if (ctx != NULL)
        stp_chunk_note(&ctx->chunks, (int)coll, decided ? &choice : NULL);
    return ncclSuccess;
}

static ncclResult_t get_chunk_size_v6(void *context, ncclFunc_t coll,
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
    .name = "steptune",
    .init = init_v2,
    .getCollInfo = get_coll_info_v2,
    .destroy = close_context,
};

const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    .name = "steptune",
    .init = init_v2,
    .getCollInfo = get_coll_info_v3,
    .destroy = close_context,
};

const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    .name = "steptune",
    .init = init_v2,
    .getCollInfo = get_coll_info_v4,
    .destroy = close_context,
};

const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    .name = "steptune",
    .init = init_v5,
    .getCollInfo = get_coll_info_v4,
    .finalize = close_context,
};

const ncclTuner_v6_t ncclTunerPlugin_v6 = {
    .name = "steptune",
    .init = init_v5,
    .getCollInfo = get_coll_info_v6,
    .finalize = close_context,
    .getChunkSize = get_chunk_size_v6,
};
