/* tuner_abi.c - NCCL's tuner ABI on one side, a backend on the other
 *
 * Every version that NCCL has shipped is translated to the same functions
 * here, so that no backend sees a version number.
 *
 * Nothing in this file makes an error: one from init would fail the
 * communicator, an error from getCollInfo the collective.  A tuner that cannot
 * help logs why, once, and changes nothing.  Errors of the tuner below are
 * NCCL's to see (chain.h). */
#include <float.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agree/agreement.h"
#include "core/policy/baseline.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/utf8.h"
#include "nccl_tuner_abi.h"
#include "plugin/backend.h"
#include "plugin/chain.h"
#include "plugin/chunk.h"
#include "plugin/entry.h"
#include "plugin/ledger_file.h"
#include "plugin/log.h"
#include "plugin/settings.h"
#include "plugin/shared_policy.h"
#include "plugin/thread.h"

/* One communicator; NULL if there was no memory for it. */
struct context {
    struct stp_backend *backend;     /* NULL: inactive, NCCL tunes alone */
    struct stp_agreement *agreement; /* NULL: none, or of no more use */
    pid_t pid;         /* a child of this process owns nothing of it */
    bool must_compare; /* ranks, at the first decision */
    bool has_warned;   /* why it is inactive */
    ncclDebugLogger_t log;
    struct stp_chain chain;
    struct stp_chunk_notes chunks;
    struct stp_ledger *ledger; /* NULL: the settings name no folder */
};

/* How long ranks wait for those that have not joined: all ranks have passed
 * NCCL's barrier after init, and no more join.  Hosts that are compared in a
 * store have a time limit of their own. */
enum { CALL_WAIT_MS = 100 };

enum { WHY_TEXT = 512 };

#define LOG(log, level, ...)                                                   \
    stp_log(log, level, "tuner_abi.c", __LINE__,                               \
            STP_TUNER_NAME ": " __VA_ARGS__)

/* ---- all versions ---- */

/* The ledger has the same words as the log. */
static void tuner_note(struct context *ctx, bool is_inactive, const char *text)
{
    if (ctx->ledger == NULL || ctx->ledger->is_aside)
        return;
    ctx->ledger->is_aside = is_inactive;
    stp_printable(text, strlen(text), ctx->ledger->what,
                  sizeof(ctx->ledger->what));
}

/* One warning a communicator: the first cause is this rank's own, if any. */
static void tuner_step_aside(struct context *ctx, const char *why)
{
    stp_backend_close(ctx->backend);
    ctx->backend = NULL;
    tuner_note(ctx, true, why);
    if (!ctx->has_warned)
        LOG(ctx->log, NCCL_LOG_WARN, "%s; stepping aside, %s", why,
            ctx->chain.ask != NULL ? "the tuner below decides"
                                   : "NCCL tunes alone");
    ctx->has_warned = true;
}

/* A thread that hangs in the store, for as long as a name or a file server
 * does, holds neither a collective nor the end of the communicator. */
static void tuner_leave(struct context *ctx)
{
    if (ctx->agreement != NULL)
        ctx->agreement->ops->cancel_hosts(ctx->agreement);
    stp_agreement_leave(ctx->agreement);
    ctx->agreement = NULL;
}

/* Compares the ranks, which step aside unless they agree. */
static void tuner_compare(struct context *ctx)
{
    const bool is_agreed =
        ctx->agreement->ops->compare(ctx->agreement, CALL_WAIT_MS);
    char why[WHY_TEXT];

    ctx->must_compare = false;
    if (ctx->agreement->is_apart)
        ctx->chain.ask = NULL;
    if (!is_agreed) {
        ctx->agreement->ops->explain(ctx->agreement, why, sizeof(why));
        tuner_step_aside(ctx, why);
    }
    if (ctx->backend == NULL || !stp_backend_proposes(ctx->backend))
        tuner_leave(ctx);
}

/* ---- joining ---- */

/* The hashes of everything that two ranks must have alike. */
static struct stp_fingerprint
tuner_fingerprint(const struct context *ctx,
                  const struct stp_plugin_settings *settings, int version)
{
    struct stp_fingerprint f = {{0}};
    uint64_t build = 0;

    if (ctx->backend != NULL)
        stp_backend_fingerprint(ctx->backend, &f);
    for (const char *c = STP_TUNER_NAME " " STP_VERSION; *c != '\0'; c++)
        build = stp_hash(build, (unsigned char)*c);
    f.part[STP_FINGERPRINT_BUILD] = stp_hash(build, (uint64_t)version);
    f.part[STP_FINGERPRINT_LOWER] = ctx->chain.identity;
    f.part[STP_FINGERPRINT_SETTINGS] =
        stp_hash(f.part[STP_FINGERPRINT_SETTINGS], settings->agree);
    return f;
}

static void tuner_compare_hosts(void *agreement)
{
    ((struct stp_agreement *)agreement)->ops->compare_hosts(agreement);
    stp_agreement_leave(agreement);
}

/* Ranks that cannot be compared must not decide, unless the user vouches for
 * them.  Versions 2 to 4 of the interface name no communicator: there nothing
 * can be compared. */
static void tuner_join(struct context *ctx, const struct stp_comm_info *info,
                       const struct stp_plugin_settings *settings, int version)
{
    struct stp_agreement_rank rank = {
        .comm_id = info->comm_id,
        .host_id = settings->host_id,
        .n_ranks = info->shape.n_ranks,
        .n_needed = settings->agree == STP_AGREE_ASSUME ? 1 : info->n_local,
        .number = stp_launcher_rank(info->shape.n_ranks),
        .fingerprint = tuner_fingerprint(ctx, settings, version),
        .proposes = ctx->backend != NULL && stp_backend_proposes(ctx->backend),
    };
    char why[STP_ERROR_TEXT + 64];
    struct stp_error err;

    if (info->comm_id == 0 || info->shape.n_ranks == 1)
        return;
    if (settings->agree == STP_AGREE_STORE)
        rank.store = settings->store;
    if (stp_agreement_join(&rank, &ctx->agreement, &err) != STP_OK) {
        snprintf(why, sizeof(why),
                 "cannot be compared with the other ranks: %s", err.text);
        if (settings->agree == STP_AGREE_ASSUME)
            LOG(ctx->log, NCCL_LOG_INFO, "%s", why);
        else
            tuner_step_aside(ctx, why);
        return;
    }
    ctx->must_compare = true;
    if (!ctx->agreement->compares_hosts)
        return;
    ctx->agreement->n_shares = 1; /* the thread's, which is not awaited */
    if (stp_thread_start(tuner_compare_hosts, ctx->agreement, STP_THREAD_ONCE,
                         NULL, &err) == STP_OK)
        return;
    /* Without a thread this host says only that all must step aside. */
    LOG(ctx->log, NCCL_LOG_INFO, "this host cannot be compared: %s", err.text);
    ctx->agreement->ops->cancel_hosts(ctx->agreement);
    tuner_compare_hosts(ctx->agreement);
}

/* Says what this rank would decide, also where it then steps aside. */
static void tuner_describe(struct context *ctx,
                           const struct stp_comm_info *info)
{
    static atomic_flag has_warned = ATOMIC_FLAG_INIT; /* of the baseline */
    const struct stp_shared_policy *policy = stp_backend_policy(ctx->backend);
    char text[STP_PATH_SIZE + 512], why[STP_BASELINE_TEXT];
    const char *lower =
        ctx->chain.ask != NULL ? stp_lower_name(&ctx->chain.lower) : "";
    unsigned line = 0;

    stp_backend_describe(ctx->backend, text, sizeof(text));
    if (policy != NULL) {
        line = stp_compiled_reg_buff_line(stp_shared_policy_compiled(policy));
        if (stp_compiled_size(stp_shared_policy_compiled(policy)) == 0 &&
            stp_policy_size(stp_shared_policy_rules(policy)) > 0)
            stp_append(text, sizeof(text),
                       "; none is for %zu ranks on %zu node%s of %s",
                       info->shape.n_ranks, info->shape.n_nodes,
                       STP_S(info->shape.n_nodes),
                       info->shape.gpu != NULL ? info->shape.gpu
                                               : "an unknown GPU");
        if (stp_baseline_differs(stp_shared_policy_rules(policy), lower, why)) {
            stp_append(text, sizeof(text), "; %s", why);
            if (!atomic_flag_test_and_set(&has_warned))
                LOG(ctx->log, NCCL_LOG_WARN,
                    "policy %s: %s; `steptune tune` in this environment makes "
                    "a policy for it",
                    stp_shared_policy_path(policy), why);
        }
    }
    LOG(ctx->log, NCCL_LOG_INFO, "%zu ranks on %zu nodes: %s",
        info->shape.n_ranks, info->shape.n_nodes, text);
    tuner_note(ctx, false, text);
    if (info->comm_id == 0)
        LOG(ctx->log, NCCL_LOG_INFO,
            "this NCCL names no communicator to a tuner (2.28 does), so ranks "
            "cannot compare their policies: all must hold the same");
    if (info->shape.gpu == NULL && info->shape.n_nodes > 1)
        LOG(ctx->log, NCCL_LOG_INFO,
            "rules that name a GPU do not apply: hosts that do not meet in a "
            "store (STEPTUNE_AGREE) cannot know that all have the same");
    if (line != 0 && info->shape.n_ranks > 1)
        LOG(ctx->log, NCCL_LOG_WARN,
            "line %u of the policy depends on regBuff, which each rank sees "
            "for its own buffers: the job hangs if some ranks register their "
            "buffers and others do not",
            line);
}

static void tuner_open(struct context *ctx, int version,
                       struct stp_comm_info *info)
{
    const char *subject = "environment";
    char why[STP_PATH_SIZE + STP_ERROR_TEXT];
    struct stp_plugin_settings settings;
    struct stp_error err, no_ledger;
    enum stp_status status = stp_settings_read(&settings, &err);

    if (info->shape.n_nodes == 1 && settings.agree == STP_AGREE_STORE)
        settings.agree = STP_AGREE_HOST; /* which is all of them */
    /* Ranks on different nodes that are not compared cannot know each other's
     * GPUs, and must not decide by their own. */
    if ((info->shape.n_nodes == 1 || settings.agree != STP_AGREE_HOST) &&
        settings.gpu[0] != '\0')
        info->shape.gpu = settings.gpu;
    if (settings.ledger[0] != '\0' &&
        stp_ledger_open(settings.ledger, &ctx->ledger, &no_ledger) == STP_OK)
        stp_ledger_begin(ctx->ledger, (uint32_t)getpid(), info->comm_id,
                         &info->shape);
    else if (settings.ledger[0] != '\0')
        LOG(ctx->log, NCCL_LOG_INFO, "no ledger of decisions: %s",
            no_ledger.text);
    STP_THEN(status, stp_backend_open(info, &settings, ctx->log, &ctx->backend,
                                      &subject, &err));
    if (status != STP_OK) {
        stp_error_string(&err, subject, why, sizeof(why));
        tuner_step_aside(ctx, why);
    }
    if (settings.agree_is_required && info->shape.n_ranks > 1 &&
        (info->comm_id == 0 ||
         (info->shape.n_nodes > 1 && settings.agree != STP_AGREE_STORE)))
        tuner_step_aside(
            ctx,
            "these ranks cannot be compared, which STEPTUNE_AGREE=required "
            "demands: that takes NCCL 2.28 or later and, on several "
            "hosts, torchrun's variables or "
            "STEPTUNE_AGREE=tcpstore://HOST:PORT");
    tuner_join(ctx, info, &settings, version);
    if (ctx->backend != NULL) {
        stp_backend_join(ctx->backend, ctx->agreement);
        tuner_describe(ctx, info);
        stp_backend_start(ctx->backend);
    }
}

static ncclResult_t tuner_finalize(void *opaque)
{
    struct context *ctx = opaque;
    ncclResult_t rc;

    if (ctx == NULL || ctx->pid != getpid())
        return ncclSuccess;
    rc = stp_chain_close(&ctx->chain);
    stp_backend_close(ctx->backend);
    tuner_leave(ctx);
    stp_ledger_close(ctx->ledger);
    free(ctx);
    return rc;
}

static ncclResult_t tuner_init(const struct stp_chain_init *init,
                               void **context)
{
    const ncclNvlDomainInfo_v5_t *nvl = init->nvl;
    const size_t n_ranks = init->n_ranks, n_nodes = init->n_nodes;
    struct stp_comm_info info = {.comm_id = init->comm_id,
                                 .shape = {n_ranks, n_nodes, NULL},
                                 .n_local = 1};
    static __thread bool is_opening /* the tuner below */
        __attribute__((tls_model("initial-exec")));
    struct context *ctx = is_opening ? NULL : calloc(1, sizeof(*ctx));
    struct stp_entry entry;
    ncclResult_t rc;

    *context = ctx;
    if (ctx == NULL) {
        LOG(init->log, NCCL_LOG_WARN, "%s; stepping aside, NCCL tunes alone",
            is_opening ? "the tuner below asks this one" : "out of memory");
        return !is_opening && stp_chain_exists(init) ? ncclSystemError
                                                     : ncclSuccess;
    }
    ctx->log = init->log;
    ctx->pid = getpid();
    if (n_nodes == 1)
        info.n_local = n_ranks;
    else if (nvl != NULL && nvl->minRanksPerNvlDomain >= 1 &&
             (size_t)nvl->minRanksPerNvlDomain <= n_ranks)
        info.n_local = (size_t)nvl->minRanksPerNvlDomain;
    is_opening = true;
    rc = stp_chain_open(&ctx->chain, init);
    is_opening = false;
    ctx->has_warned = ctx->chain.has_told;
    stp_entry_begin(&entry);
    tuner_open(ctx, init->version, &info);
    stp_entry_end(&entry);
    if (rc == ncclSuccess || ctx->must_compare || n_ranks == 1)
        return ncclSuccess;
    tuner_finalize(ctx); /* NCCL may not */
    *context = NULL;
    return rc;
}

/* Whether 'choice' is filled in; else NCCL decides. */
static bool tuner_choose(struct context *ctx, const struct stp_query *query,
                         const struct stp_cost_view *view,
                         struct stp_choice *choice)
{
    bool is_decided;

    if ((ctx->agreement != NULL || ctx->ledger != NULL) && ctx->pid != getpid())
        return false;
    is_decided = ctx->backend != NULL &&
                 stp_backend_choose(ctx->backend, query, view, choice);
    if (ctx->ledger != NULL)
        stp_ledger_count(ctx->ledger, query->coll, query->n_bytes,
                         is_decided ? choice : NULL);
    return is_decided;
}

/* ---- init ---- */

#define TUNER_OLD_INIT(version)                                                \
    static ncclResult_t tuner_init_v##version(                                 \
        size_t n_ranks, size_t n_nodes, ncclDebugLogger_t log, void **context) \
    {                                                                          \
        const struct stp_chain_init init = {version, 0,    n_ranks, n_nodes,   \
                                            log,     NULL, NULL};              \
                                                                               \
        return tuner_init(&init, context);                                     \
    }

TUNER_OLD_INIT(2)
TUNER_OLD_INIT(3)
TUNER_OLD_INIT(4)

/* NCCL's constants, whose type differs, are for the tuner below. */
#define TUNER_INIT(version, constants_type)                                    \
    static ncclResult_t tuner_init_v##version(                                 \
        void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes,      \
        ncclDebugLogger_t log, ncclNvlDomainInfo_v5_t *nvl,                    \
        constants_type *constants)                                             \
    {                                                                          \
        const struct stp_chain_init init = {                                   \
            version, comm_id, n_ranks, n_nodes, log, nvl, constants};          \
                                                                               \
        return tuner_init(&init, context);                                     \
    }

TUNER_INIT(5, ncclTunerConstants_v5_t)
TUNER_INIT(6, ncclTunerConstants_v5_t)
TUNER_INIT(7, ncclTunerConstants_v7_t)

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
    struct context *ctx = context;
    const int own_channels = *n_channels;
    struct stp_choice choice;
    ncclResult_t rc;

    if (ctx == NULL)
        return ncclSuccess;
    rc = stp_chain_ask_pair(&ctx->chain, coll, n_bytes, collnet, nvls,
                            n_pipe_ops, algo, proto, n_channels);
    if (rc != ncclSuccess || !tuner_choose(context, &query, &view, &choice))
        return rc;
    *algo = choice.algo;
    *proto = choice.proto;
    *n_channels = choice.n_channels != 0 ? choice.n_channels : own_channels;
    return ncclSuccess;
}

/* Makes entry 'at', which is not ruled out, the smallest by the least that a
 * float can tell: from 2.31 on NCCL compares it with the times of kernels that
 * the table does not show, and before them 0 would be right whatever they take.
 * Entries of 0, which no version computes, make room.  Floats that are not
 * negative are ordered as their bits; negative ones and those that are not a
 * number come after them. */
static void tuner_make_smallest(float *cost, int n, int at)
{
    uint32_t least = UINT32_MAX;

    for (int i = 0; i < n; i++) {
        const float time = cost[i] + 0.0f; /* 0 of -0.0, whose bits differ */
        uint32_t bits;

        memcpy(&bits, &time, sizeof(bits));
        least = bits < least ? bits : least;
    }
    if (least > 0) {
        least--;
        memcpy(&cost[at], &least, sizeof(least));
        return;
    }
    for (int i = 0; i < n; i++) /* without branches, which would be guessed */
        cost[i] = cost[i] == 0 ? FLT_MIN : cost[i];
    cost[at] = 0;
}

/* From 2.31 on NCCL also calls a tuner while it looks for a kernel for
 * symmetric windows: first with a table in which nothing is left to choose,
 * then perhaps with a whole table, the bytes of one rank, and 0 operations.  No
 * collective runs by these answers; one that finds no such kernel is asked
 * again.  All ranks see the same tables. */
static bool tuner_is_preview(const struct stp_query *query,
                             const struct stp_cost_view *view)
{
    int n = view->n_algo * view->n_proto;

    for (int i = 0; i < n && query->n_pipe_ops != 0; i++)
        if (view->cost[i] >= 0)
            return false;
    return true;
}

/* Versions 3 to 7.  Writes nothing unless the tuner decides. */
static ncclResult_t tuner_get_coll_info_v4(void *context, ncclFunc_t coll,
                                           size_t n_bytes, int n_pipe_ops,
                                           float **cost_table, int n_algo,
                                           int n_proto, int reg_buff,
                                           int *n_channels)
{
    const struct stp_query query = {(int)coll, n_bytes, n_pipe_ops, reg_buff};
    float *cost = (float *)cost_table; /* contiguous, whatever its type says */
    const struct stp_cost_view view = {cost, n_algo, n_proto};
    const int own_channels = *n_channels;
    struct context *ctx = context;
    struct stp_choice choice;
    bool is_preview, is_decided;
    ncclResult_t rc;

    if (ctx == NULL)
        return ncclSuccess;
    is_preview = tuner_is_preview(&query, &view);
    if (ctx->must_compare && (!is_preview || ctx->chain.ask != NULL) &&
        ctx->pid == getpid())
        tuner_compare(ctx); /* before the tuner below says anything */
    rc = stp_chain_ask(&ctx->chain, coll, n_bytes, n_pipe_ops, cost, n_algo,
                       n_proto, reg_buff, n_channels);
    if (is_preview && ctx->ledger != NULL)
        ctx->ledger->n_previews++;
    if (is_preview || rc != ncclSuccess)
        return rc;
    is_decided = tuner_choose(ctx, &query, &view, &choice);
    stp_chunk_note(&ctx->chunks, query.coll, is_decided ? &choice : NULL);
    if (!is_decided)
        return ncclSuccess;
    stp_chain_settle(&ctx->chain, cost, n_algo * n_proto);
    tuner_make_smallest(cost, n_algo * n_proto,
                        choice.algo * n_proto + choice.proto);
    *n_channels = choice.n_channels != 0 ? choice.n_channels : own_channels;
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

static ncclResult_t tuner_get_chunk_size_v6(void *context, ncclFunc_t coll,
                                            size_t n_bytes, int algo, int proto,
                                            int n_channels, size_t *chunk_size)
{
    struct context *ctx = context;
    size_t chunk;

    if (ctx == NULL)
        return ncclSuccess;
    chunk = stp_chunk_find(&ctx->chunks, (int)coll, algo, proto);
    if (chunk == 0)
        return stp_chain_ask_chunk(&ctx->chain, coll, n_bytes, algo, proto,
                                   n_channels, chunk_size);
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
EXPORT const ncclTuner_v7_t ncclTunerPlugin_v7;

const ncclTuner_v2_t ncclTunerPlugin_v2 = {
    STP_TUNER_NAME, tuner_init_v2, tuner_get_coll_info_v2, tuner_finalize};
const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    STP_TUNER_NAME, tuner_init_v3, tuner_get_coll_info_v3, tuner_finalize};
const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    STP_TUNER_NAME, tuner_init_v4, tuner_get_coll_info_v4, tuner_finalize};
const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    STP_TUNER_NAME, tuner_init_v5, tuner_get_coll_info_v4, tuner_finalize};
const ncclTuner_v6_t ncclTunerPlugin_v6 = {
    STP_TUNER_NAME, tuner_init_v6, tuner_get_coll_info_v4, tuner_finalize,
    tuner_get_chunk_size_v6};
const ncclTuner_v7_t ncclTunerPlugin_v7 = {
    STP_TUNER_NAME, tuner_init_v7, tuner_get_coll_info_v4, tuner_finalize,
    tuner_get_chunk_size_v6};
