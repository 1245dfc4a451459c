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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agree/same.h"
#include "nccl_tuner_abi.h"
#include "plugin/backend.h"
#include "plugin/chunk.h"
#include "plugin/companion.h"
#include "plugin/constants.h"
#include "plugin/ledger_file.h"
#include "plugin/settings.h"

/* One communicator; NULL if there was no memory for it. */
struct context {
    void *self; /* the backend's; NULL: stepped aside, NCCL tunes alone */
    struct stp_companion *companion; /* NULL: this plugin has none */
    struct stp_same *same; /* until the first decision; NULL: not compared */
    bool ranks_differ;     /* in constants: one pair where no rule decides */
    size_t n_nodes;
    uint64_t constants; /* hash of those that were set; 0: NCCL's own */
    ncclDebugLogger_t log;
    struct stp_chunk_notes chunks;
    struct stp_ledger *ledger; /* NULL: nobody asked for one */
};

/* What a rank leaves for the others to compare with: the policy in the upper
 * half, of which this is that of one that stepped aside, and the constants in
 * the lower. */
#define POLICY_ASIDE   1u
#define POLICY_BITS    0xFFFFFFFF00000000u
#define CONSTANTS_BITS 0x00000000FFFFFFFFu

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
                                    struct stp_settings *what,
                                    struct stp_error *err)
{
    enum stp_status status = STP_OK;

    if (stp_companion.prepare == NULL)
        what->policy_path = settings->policy_path;
    else
        status =
            stp_companion.prepare(settings, info, &ctx->companion, what, err);
    return status == STP_OK ? stp_backend.open(info, what, &ctx->self, err)
                            : status;
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

static void take_constants(struct context *ctx, const char *path,
                           ncclTunerConstants_v5_t *constants)
{
    char why[STP_PATH_SIZE + STP_ERROR_TEXT];
    struct stp_error err;
    size_t n;

    if (stp_set_constants(path, constants, &n, &ctx->constants, &err) ==
        STP_OK) {
        LOG(ctx->log, NCCL_LOG_INFO,
            "%s: set %zu of NCCL's constants: %s, hash %016" PRIx64,
            stp_backend.name, n, path, ctx->constants);
        return;
    }
    stp_error_string(&err, path, why, sizeof(why));
    LOG(ctx->log, NCCL_LOG_WARN, "%s: %s; NCCL keeps its own constants",
        stp_backend.name, why);
}

/* Constants alone are a legitimate use of a plugin that does not learn. */
static bool needs_no_policy(const struct stp_plugin_settings *settings)
{
    return stp_companion.prepare == NULL && settings->constants[0] != '\0' &&
           !settings->policy_is_named && access(settings->policy_path, F_OK);
}

static void open_policy(struct context *ctx, const struct stp_comm_info *info,
                        const struct stp_plugin_settings *settings)
{
    struct stp_settings what = {.policy_path = NULL};
    struct stp_error err;

    if (needs_no_policy(settings)) {
        note(ctx, true, "no policy");
    } else if (open_backend(ctx, info, settings, &what, &err) == STP_OK) {
        log_open(ctx, info);
    } else {
        step_aside(ctx, what.policy_path ? what.policy_path : "environment",
                   &err);
        ctx->companion = stp_companion.end(ctx->companion);
    }
}

static void open_as_set(struct context *ctx, struct stp_comm_info *info,
                        ncclTunerConstants_v5_t *constants)
{
    struct stp_plugin_settings settings;
    struct stp_error err;
    enum stp_status status = stp_settings_read(&settings, &err);

    open_ledger(ctx, settings.ledger, info);
    if (settings.constants[0] != '\0')
        take_constants(ctx, settings.constants, constants);
    if (status != STP_OK) {
        step_aside(ctx, "environment", &err);
        return;
    }
    /* Ranks on different nodes cannot know each other's GPUs, and must not
     * decide by their own. */
    if (info->shape.n_nodes == 1 && settings.gpu[0] != '\0')
        info->shape.gpu = settings.gpu;
    open_policy(ctx, info, &settings);
    if (ctx->companion != NULL)
        stp_companion.begin(ctx->companion, ctx->self, ctx->log);
}

static uint32_t fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

static uint64_t fingerprint_of(const struct context *ctx)
{
    uint32_t policy = POLICY_ASIDE;

    if (ctx->self != NULL)
        policy = fold(stp_backend.fingerprint(ctx->self));
    if (policy == 0) /* no value may be 0 */
        policy = ~0u;
    return (uint64_t)policy << 32 | fold(ctx->constants);
}

/* Without shared memory there is nothing to compare, and nothing worse than
 * without this check. */
static void join_ranks_of_host(struct context *ctx,
                               const struct stp_comm_info *info)
{
    struct stp_error err;

    if (info->comm_id == 0) /* v2 to v4 are not told */
        return;
    if (stp_same_join(info->comm_id, info->shape.n_ranks, fingerprint_of(ctx),
                      &ctx->same, &err) != STP_OK)
        LOG(ctx->log, NCCL_LOG_INFO,
            "%s: cannot compare policies with the other ranks of this host: %s",
            stp_backend.name, err.text);
}

static struct context *open_context(uint64_t comm_id, size_t n_ranks,
                                    size_t n_nodes, ncclDebugLogger_t log,
                                    ncclTunerConstants_v5_t *constants)
{
    struct context *ctx = calloc(1, sizeof(*ctx));
    struct stp_comm_info info = {.comm_id = comm_id,
                                 .shape = {n_ranks, n_nodes, NULL}};

    if (ctx == NULL)
        return NULL;
    ctx->log = log;
    ctx->n_nodes = n_nodes;
    open_as_set(ctx, &info, constants);
    join_ranks_of_host(ctx, &info);
    return ctx;
}

static void close_backend(struct context *ctx)
{
    ctx->companion = stp_companion.end(ctx->companion);
    if (ctx->self != NULL)
        stp_backend.close(ctx->self);
    ctx->self = NULL;
}

/* NCCL has built each rank's model from them by now, and the ranks would choose
 * differently.  All see that they differ, so that all can take the same pair;
 * but not those of other hosts. */
static void heed_constants(struct context *ctx)
{
    static const char what[] =
        "the ranks of this host do not hold the same constants";

    ctx->ranks_differ = ctx->n_nodes == 1;
    LOG(ctx->log, NCCL_LOG_WARN,
        "%s: %s (their logs show path and hash), expected the same "
        "STEPTUNE_CONSTANTS_FILE on all; %s",
        stp_backend.name, what,
        ctx->ranks_differ
            ? "they all use ring/simple, which is slow, but does not hang"
            : "they may choose differently, and then the job hangs");
    note(ctx, ctx->self == NULL, what);
}

static void heed_policy(struct context *ctx)
{
    if (ctx->self == NULL)
        return;
    LOG(ctx->log, NCCL_LOG_WARN,
        "%s: the ranks of this host do not hold the same policy (their logs "
        "show its path and hash); stepping aside, NCCL tunes alone",
        stp_backend.name);
    note(ctx, true, "the ranks of this host do not hold the same policy");
    close_backend(ctx);
}

/* Before the first decision, when all ranks have joined. */
static void compare_with_ranks_of_host(struct context *ctx)
{
    uint64_t differing = stp_same_differing(ctx->same);

    stp_same_leave(ctx->same);
    ctx->same = NULL;
    if ((differing & CONSTANTS_BITS) != 0)
        heed_constants(ctx);
    if ((differing & POLICY_BITS) != 0)
        heed_policy(ctx);
}

/* A pair that does not depend on costs: ring/simple, or the first that NCCL has
 * not ruled out, which constants do not change. */
static bool choose_for_all(const struct stp_cost_view *view,
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

static bool choose(struct context *ctx, const struct stp_query *query,
                   const struct stp_cost_view *view, struct stp_choice *choice)
{
    bool decided = false;

    if (ctx == NULL)
        return false;
    if (ctx->same != NULL)
        compare_with_ranks_of_host(ctx);
    if (ctx->companion != NULL)
        decided = stp_companion.choose(ctx->companion, query, view, choice);
    else if (ctx->self != NULL)
        decided = stp_backend.choose(ctx->self, query, view, choice);
    if (!decided && ctx->ranks_differ)
        decided = choose_for_all(view, choice);
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
    *context = open_context(0, n_ranks, n_nodes, log, NULL);
    return ncclSuccess;
}

static ncclResult_t init_v5(void **context, uint64_t comm_id, size_t n_ranks,
                            size_t n_nodes, ncclDebugLogger_t log,
                            ncclNvlDomainInfo_v5_t *nvl,
                            ncclTunerConstants_v5_t *constants)
{
    (void)nvl;
    *context = open_context(comm_id, n_ranks, n_nodes, log, constants);
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

static ncclResult_t get_coll_info_v3(void *context, ncclFunc_t coll,
                                     size_t n_bytes, int n_pipe_ops,
                                     float **cost_table, int n_algo,
                                     int n_proto, int *n_channels)
{
    return get_coll_info_v4(context, coll, n_bytes, n_pipe_ops, cost_table,
                            n_algo, n_proto, 0, n_channels);
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
    .name = STP_TUNER_NAME,
    .init = init_v2,
    .getCollInfo = get_coll_info_v2,
    .destroy = close_context,
};

const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    .name = STP_TUNER_NAME,
    .init = init_v2,
    .getCollInfo = get_coll_info_v3,
    .destroy = close_context,
};

const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    .name = STP_TUNER_NAME,
    .init = init_v2,
    .getCollInfo = get_coll_info_v4,
    .destroy = close_context,
};

const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    .name = STP_TUNER_NAME,
    .init = init_v5,
    .getCollInfo = get_coll_info_v4,
    .finalize = close_context,
};

const ncclTuner_v6_t ncclTunerPlugin_v6 = {
    .name = STP_TUNER_NAME,
    .init = init_v5,
    .getCollInfo = get_coll_info_v6,
    .finalize = close_context,
    .getChunkSize = get_chunk_size_v6,
};
