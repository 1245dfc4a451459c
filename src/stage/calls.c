/*
 * calls.c - NCCL's functions, as applications call them
 *
 * Each hands its call to the caller's NCCL; where that is the one which is
 * staged, a collective that a rule names runs on a twin, between two copies.
 * Inside ncclGroupStart() and ncclGroupEnd() NCCL starts nothing before the
 * end: copies wait in a list of the thread until then, and so do communicators
 * that the group makes.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/policy/memory_policy.h"
#include "core/rng.h"
#include "core/room.h"
#include "plugin/old_glibc.h"
#include "plugin/settings.h"
#include "stage/comm.h"
#include "stage/members.h"

#define EXPORTED __attribute__((visibility("default")))

/* A staged call is its kernel, and this around it; a plain one that is
 * captured, its place in the graph. */
struct around {
    struct stp_comm *c;
    struct stp_twin *twin;      /* NULL: plain */
    unsigned long long capture; /* 0: none */
    cudaStream_t stream;
    struct stp_copy in, out;
    CUgraphNode node; /* of the copy in */
};

enum { SEND = 100, RECV }; /* calls that are no ncclFunc_t */

struct call {
    int coll; /* ncclFunc_t, or these */
    const void *send;
    void *recv;
    size_t count; /* as the call has it */
    int type, op; /* or a peer */
    ncclComm_t comm;
    cudaStream_t stream;
};

/* The thread's group; NULL outside of one.  Static TLS is scarce, where a
 * library is opened by name, but spares a call of ld.so's at each use. */
static __thread struct group {
    int depth;
    struct around *calls;
    size_t n_calls, calls_size;
    struct stp_members members;
    struct call *transfers; /* sends and receives of one communicator */
    size_t n_transfers, transfers_size;
    struct stp_birth *births;
    size_t n_births, births_size;
    struct stp_comm **ended; /* their memory is to be freed */
    size_t n_ended, ended_size;
} * group __attribute__((tls_model("initial-exec")));

/* The thread's last capture with a staged call: NCCL's nodes of a graph without
 * one stay as they are. */
static __thread unsigned long long staged_capture
    __attribute__((tls_model("initial-exec")));

/* NCCL is at work in this thread: what it calls of its own is handed on. */
static __thread int n_inside __attribute__((tls_model("initial-exec")));

static ncclResult_t call_leave(ncclResult_t result)
{
    n_inside--;
    return result;
}

/* Calls NCCL, or says that it has no such function. */
#define CALL(name, ...)                                                        \
    (n_inside++, call_leave(stp_stage()->nccl.name != NULL                     \
                                ? stp_stage()->nccl.name(__VA_ARGS__)          \
                                : ncclInvalidUsage))

/* The communicator, if the library knows it and the call is an application's.
 */
static struct stp_comm *call_find(ncclComm_t comm)
{
    return n_inside == 0 ? stp_comm_find(comm, false) : NULL;
}

/* Notes that the group uses the stream with the communicator, for a call of 'n'
 * elements: NCCL drops one of none. */
static ncclResult_t group_note(ncclComm_t comm, size_t n, cudaStream_t stream)
{
    struct stp_comm *c = group != NULL && n > 0 ? call_find(comm) : NULL;
    const bool is_noted =
        c == NULL || stp_members_note(&group->members, c, stream);

    stp_comm_release(c);
    return is_noted ? ncclSuccess : ncclSystemError;
}

/* ---- copies ---- */

/* Whether other calls of a group may use the order between the ends of this
 * one.  Plain ones may share it, and cannot be seen here. */
static bool around_is_shared(const struct around *a)
{
    return group != NULL && (group->n_calls > 1 || a->c->shares);
}

/* Copies before the kernel, or behind it, in the context of its GPU.  False if
 * CUDA refuses. */
static bool around_copy(struct around *a, bool is_behind)
{
    const struct stp_real_cuda *cuda = &stp_stage()->cuda;
    bool is_other, is_done;

    if (!stp_comm_enter(a->c, &is_other)) {
        a->twin->order.is_lost |= is_behind;
        return false;
    }
    is_done = is_behind
                  ? stp_order_end(&a->twin->order, cuda, a->capture, a->stream,
                                  &a->out, a->node, around_is_shared(a))
                  : stp_order_begin(&a->twin->order, cuda, a->capture,
                                    a->stream, &a->in, &a->node);
    stp_comm_leave(is_other);
    return is_done;
}

/* Copies behind a call of NCCL that returned 'result'; returns that of both.
 * What was copied in is in the order even if NCCL failed: its memory is in use.
 */
static ncclResult_t around_end(struct around *a, ncclResult_t result)
{
    if (a->twin == NULL && result == ncclSuccess &&
        a->capture == staged_capture)
        stp_order_ease(&stp_stage()->cuda, a->stream, around_is_shared(a));
    if (a->twin == NULL)
        return result;
    if (result != ncclSuccess)
        a->out.to = NULL;
    return around_copy(a, true) || result != ncclSuccess
               ? result
               : ncclUnhandledCudaError;
}

static ncclResult_t call_run(const struct call *k, ncclComm_t comm,
                             const void *send, void *recv)
{
    switch (k->coll) {
    case ncclFuncAllReduce:
        return CALL(ncclAllReduce, send, recv, k->count, k->type, k->op, comm,
                    k->stream);
    case ncclFuncAllGather:
        return CALL(ncclAllGather, send, recv, k->count, k->type, comm,
                    k->stream);
    case SEND:
        return CALL(ncclSend, send, k->count, k->type, k->op, comm, k->stream);
    case RECV:
        return CALL(ncclRecv, recv, k->count, k->type, k->op, comm, k->stream);
    default:
        return CALL(ncclReduceScatter, send, recv, k->count, k->type, k->op,
                    comm, k->stream);
    }
}

/* ---- sends and receives ---- */

/* Calls NCCL for those that wait, unless they are of 'comm'.  NCCL gives an
 * error again at the end of the group. */
static void transfer_run_all(ncclComm_t comm)
{
    struct group *g = group;

    if (g == NULL || n_inside > 0 || g->n_transfers == 0 ||
        g->transfers[0].comm == comm)
        return;
    for (size_t i = 0; i < g->n_transfers; i++)
        call_run(&g->transfers[i], g->transfers[i].comm, g->transfers[i].send,
                 g->transfers[i].recv);
    g->n_transfers = 0;
}

/* In a group NCCL runs a communicator's collectives first, wherever ranks call
 * them.  So that it is the same with those of a twin, sends and receives wait
 * until another communicator is called, or the group ends. */
static ncclResult_t transfer_call(const struct call *t)
{
    struct stp_comm *c = group != NULL ? call_find(t->comm) : NULL;
    const bool waits = c != NULL && c->why == STP_STAGED;
    const ncclResult_t noted = group_note(t->comm, 1 /* always */, t->stream);

    stp_comm_release(c);
    if (noted != ncclSuccess)
        return noted;
    transfer_run_all(t->comm);
    if (!waits)
        return call_run(t, t->comm, t->send, t->recv);
    if (!STP_ROOM(group->transfers, group->n_transfers, group->transfers_size))
        return ncclSystemError;
    group->transfers[group->n_transfers++] = *t;
    return ncclSuccess;
}

static ncclResult_t own_ncclSend(const void *send, size_t count, int type,
                                 int peer, ncclComm_t comm, cudaStream_t stream)
{
    return transfer_call(
        &(struct call){SEND, send, NULL, count, type, peer, comm, stream});
}

static ncclResult_t own_ncclRecv(void *recv, size_t count, int type, int peer,
                                 ncclComm_t comm, cudaStream_t stream)
{
    return transfer_call(
        &(struct call){RECV, NULL, recv, count, type, peer, comm, stream});
}

/* ---- staged collectives ---- */

/* Parts of the whole message: those of ranks, or one. */
static size_t collective_parts(const struct call *k, const struct stp_comm *c)
{
    return k->coll == ncclFuncAllReduce ? 1 : (size_t)c->n_ranks;
}

/* The rule that decides; NULL: the call stays plain, and '*why' says if one
 * would decide it that is for whole rounds of its CTAs. */
static const struct stp_rule *
collective_find_rule(const struct stp_comm *c,
                     const struct stp_memory_query *query, enum stp_plain *why)
{
    const struct stp_rule *rule = NULL;

    for (size_t i = 0; i < c->n_rules && rule == NULL; i++) {
        const struct stp_rule *r = c->rules[i];
        const uint64_t round =
            stp_memory_round(query->coll, query->n_ranks, r->min_ctas);
        struct stp_memory_query whole = *query;

        if (stp_memory_rule_matches(r, query))
            rule = r;
        else if (r->memory != STP_MEMORY_PLAIN &&
                 stp_range_has(&r->bytes, whole.n_bytes)) {
            whole.n_bytes = (r->bytes.min + round - 1) / round * round;
            if (stp_memory_rule_matches(r, &whole))
                *why = STP_PLAIN_ROUNDS;
        }
    }
    return rule != NULL && rule->memory != STP_MEMORY_PLAIN ? rule : NULL;
}

/* Decides by nothing that ranks could see differently.  'part' is the call's
 * count in bytes; '*twin' is set for STP_STAGED alone. */
static enum stp_plain collective_decide(const struct call *k,
                                        struct stp_comm *c, uint64_t part,
                                        bool is_captured,
                                        struct stp_twin **twin)
{
    const size_t n_parts = collective_parts(k, c);
    struct stp_memory_query query = {.coll = k->coll,
                                     .n_bytes = part * n_parts,
                                     .n_ranks = (size_t)c->n_ranks,
                                     .n_nodes = 1,
                                     .overlaps = stp_stage()->overlaps,
                                     .captured = is_captured,
                                     .gpu = stp_stage()->gpu};
    const struct stp_rule *rule;
    enum stp_plain why = STP_PLAIN_RULE;

    if (c->why != STP_STAGED)
        return c->why;
    if (k->count > STP_STAGE_MAX) /* no product is too large, then */
        return STP_PLAIN_RULE;
    rule = collective_find_rule(c, &query, &why);
    if (rule == NULL) {
        query.overlaps = false;
        rule = collective_find_rule(c, &query, &why);
    }
    if (rule == NULL)
        return why;
    /* Each version from 2.27 on has these symmetric kernels. */
    if (k->coll != ncclFuncAllGather &&
        (k->op != NCCL_OP_SUM ||
         (k->type != STP_TYPE_F16 && k->type != STP_TYPE_BF16 &&
          k->type != STP_TYPE_F32)))
        return STP_PLAIN_TYPE;
    if (query.overlaps != stp_stage()->overlaps) /* nothing runs beside */
        return STP_PLAIN_OVERLAP;
    *twin = c->twins;
    while (*twin < c->twins + c->n_twins && (*twin)->min_ctas != rule->min_ctas)
        ++*twin;
    if (*twin == c->twins + c->n_twins)
        return STP_PLAIN_RULE; /* of one CTA count too many */
    return query.n_bytes + (group != NULL ? c->n_used : 0) > (*twin)->n_bytes
               ? STP_PLAIN_PLACES
               : STP_STAGED;
}

/* Runs a collective on a twin: 'part' is the call's count in bytes.  In a group
 * it waits for the end. */
static ncclResult_t collective_run_staged(const struct call *k,
                                          struct around *a, size_t part)
{
    struct stp_comm *c = a->c;
    const size_t n_bytes = part * collective_parts(k, c);
    char *place = a->twin->at + (group != NULL ? c->n_used : 0);
    char *own = place + (size_t)c->rank * part;
    const bool is_gather = k->coll == ncclFuncAllGather;
    const bool is_scatter = k->coll == ncclFuncReduceScatter;
    const bool is_half = stp_stage()->version >= NCCL_WITH_ONE_WINDOW;
    const void *send = is_gather ? own : place;
    void *recv = is_scatter ? own : place;

    if (a->capture != 0)
        staged_capture = a->capture;
    if (is_half && is_gather)
        send = k->send;
    else
        a->in = (struct stp_copy){(void *)(uintptr_t)send, k->send,
                                  is_gather ? part : n_bytes};
    if (is_half && is_scatter)
        recv = k->recv;
    else
        a->out = (struct stp_copy){k->recv, recv, is_scatter ? part : n_bytes};
    if (group == NULL)
        return around_copy(a, false)
                   ? around_end(a, call_run(k, a->twin->comm, send, recv))
                   : ncclUnhandledCudaError;
    if (!STP_ROOM(group->calls, group->n_calls, group->calls_size))
        return ncclSystemError;
    group->calls[group->n_calls++] = *a;
    stp_comm_retain(c);
    c->n_used += (n_bytes + STP_PLACE - 1) / STP_PLACE * STP_PLACE;
    return call_run(k, a->twin->comm, send, recv);
}

static ncclResult_t collective_stage(const struct call *k)
{
    const size_t size =
        0 <= k->type && k->type < STP_N_TYPES ? stp_type_size(k->type) : 0;
    const uint64_t part = k->count * size; /* as the call has it */
    struct around a = {.c = call_find(k->comm), .stream = k->stream};
    enum stp_plain why;
    ncclResult_t result;

    transfer_run_all(k->comm);
    /* NCCL, too, asks what the stream is captured into, and fails as this. */
    if (a.c == NULL || !stp_comm_ask_capture(a.c, k->stream, &a.capture)) {
        stp_comm_release(a.c);
        return call_run(k, k->comm, k->send, k->recv);
    }
    why = collective_decide(k, a.c, part, a.capture != 0, &a.twin);
    if (size > 0) /* the report has names of these types alone */
        stp_tally_count(k->coll, k->type, part * collective_parts(k, a.c),
                        why == STP_STAGED ? a.twin->min_ctas : 0, why,
                        a.capture != 0);
    result = group_note(k->comm, k->count, k->stream);
    if (why == STP_STAGED && result == ncclSuccess)
        result = collective_run_staged(k, &a, part);
    else if (result == ncclSuccess) {
        a.twin = NULL;
        result = call_run(k, k->comm, k->send, k->recv);
        if (a.capture != 0 && a.c->why == STP_STAGED && group == NULL)
            result = around_end(&a, result);
        else if (a.capture != 0 && a.c->why == STP_STAGED &&
                 STP_ROOM(group->calls, group->n_calls, group->calls_size)) {
            group->calls[group->n_calls++] = a;
            stp_comm_retain(a.c);
        }
    }
    stp_comm_release(a.c);
    return result;
}

static ncclResult_t own_ncclAllReduce(const void *send, void *recv,
                                      size_t count, int type, int op,
                                      ncclComm_t comm, cudaStream_t stream)
{
    return collective_stage(&(struct call){ncclFuncAllReduce, send, recv, count,
                                           type, op, comm, stream});
}

static ncclResult_t own_ncclAllGather(const void *send, void *recv,
                                      size_t count, int type, ncclComm_t comm,
                                      cudaStream_t stream)
{
    return collective_stage(&(struct call){ncclFuncAllGather, send, recv, count,
                                           type, NCCL_OP_SUM, comm, stream});
}

static ncclResult_t own_ncclReduceScatter(const void *send, void *recv,
                                          size_t count, int type, int op,
                                          ncclComm_t comm, cudaStream_t stream)
{
    return collective_stage(&(struct call){ncclFuncReduceScatter, send, recv,
                                           count, type, op, comm, stream});
}

/* ---- groups ---- */

/* Opens what a call of NCCL has made that returned 'result', or its group. */
static void births_open(const struct stp_birth *births, size_t n,
                        ncclResult_t result)
{
    if (n == 0 || (result != ncclSuccess && result != ncclInProgress))
        return;
    stp_tally_begin();
    n_inside++;
    if (result == ncclSuccess)
        stp_comm_open(births, n);
    else /* nothing of it can be asked yet */
        stp_step_aside(false, "the communicator is non-blocking");
    n_inside--;
}

/* Ends a call of NCCL that leaves a group, with 'result': of the outermost one,
 * which ran if 'is_run', all that waited for its end. */
static ncclResult_t group_leave(ncclResult_t result, bool is_run)
{
    struct group *g = group;

    if (g == NULL || n_inside > 0 || --g->depth > 0)
        return result;
    for (size_t i = 0; i < g->n_calls && is_run; i++)
        result = around_end(&g->calls[i], result);
    if (is_run && !stp_members_join(&g->members) && result == ncclSuccess)
        result = ncclUnhandledCudaError;
    group = NULL;
    for (size_t i = 0; i < g->n_calls; i++) {
        g->calls[i].c->n_used = 0;
        stp_comm_release(g->calls[i].c);
    }
    stp_members_free(&g->members);
    for (size_t i = 0; i < g->n_ended; i++)
        stp_comm_release(g->ended[i]);
    births_open(g->births, g->n_births, result);
    free(g->calls);
    free(g->transfers);
    free(g->ended);
    free(g->births);
    free(g);
    return result;
}

static ncclResult_t own_ncclGroupStart(void)
{
    ncclResult_t result;

    if (group == NULL && n_inside == 0 && stp_stage()->is_on &&
        (group = calloc(1, sizeof(*group))) == NULL)
        return ncclSystemError;
    if (group != NULL && n_inside == 0)
        group->depth++;
    result = CALL(ncclGroupStart);
    return result == ncclSuccess ? result : group_leave(result, false);
}

static ncclResult_t own_ncclGroupEnd(void)
{
    const bool is_outermost =
        group != NULL && group->depth == 1 && n_inside == 0;
    bool is_begun = true;
    ncclResult_t result;

    if (is_outermost) {
        transfer_run_all(NULL);
        is_begun = stp_members_join(&group->members);
    }
    for (size_t i = 0; is_outermost && i < group->n_calls; i++)
        is_begun &= group->calls[i].twin == NULL ||
                    around_copy(&group->calls[i], false);
    if (!is_begun) /* a call that NCCL refuses: nothing of the group runs, so
                      that no other rank gets what was not copied in */
        CALL(ncclAllReduce, NULL, NULL, 0, STP_TYPE_F32, NCCL_OP_SUM, NULL,
             NULL);
    result = CALL(ncclGroupEnd);
    return group_leave(is_begun ? result : ncclUnhandledCudaError, true);
}

static ncclResult_t own_ncclGroupSimulateEnd(void *info)
{
    if (group != NULL && group->depth == 1)
        transfer_run_all(NULL);
    return group_leave(CALL(ncclGroupSimulateEnd, info), false);
}

/* ---- communicators ---- */

/* A member of a configuration, which may be that of an older NCCL's. */
#define BIRTH_GET(config, member)                                              \
    ((config)->size > offsetof(ncclConfig_t, member) ? (config)->member        \
                                                     : NCCL_CONFIG_UNDEF)

/* Whether the application wants few CTAs of its communicator, or none. */
static bool birth_is_limited(const ncclConfig_t *config)
{
    const int max_ctas = BIRTH_GET(config, maxCTAs);
    const int policy = BIRTH_GET(config, CTAPolicy);

    return (max_ctas != NCCL_CONFIG_UNDEF && max_ctas < STP_MAX_CHANNELS) ||
           (policy != NCCL_CONFIG_UNDEF &&
            (policy & NCCL_CTA_POLICY_ZERO_BIT) != 0);
}

/* Takes note of the communicator that NCCL has put into *slot, or will at the
 * end of the group, if the call gave 'result'.  'parent' is NULL if there is
 * none. */
static void birth_note(ncclComm_t *slot, uint64_t key,
                       const struct stp_comm *parent,
                       const ncclConfig_t *config, ncclResult_t result)
{
    struct stp_stage *p = stp_stage();
    struct stp_birth birth = {.slot = slot, .key = key | 1, .aside = p->aside};
    const char *shares = stp_setting("NCCL_COMM_SPLIT_SHARE_RESOURCES");

    if (!p->is_on || n_inside > 0)
        return;
    birth.is_limited = config != NULL ? birth_is_limited(config)
                                      : parent != NULL && parent->is_limited;
    birth.shares = shares != NULL   ? strcmp(shares, "0") != 0
                   : config != NULL ? BIRTH_GET(config, splitShare) == 1
                                    : parent != NULL && parent->shares;
    if (config != NULL && config->blocking == 0 && result == ncclSuccess)
        result = ncclInProgress;
    if (group == NULL || result != ncclSuccess)
        births_open(&birth, 1, result);
    else if (STP_ROOM(group->births, group->n_births, group->births_size))
        group->births[group->n_births++] = birth;
}

static uint64_t birth_hash_id(const ncclUniqueId *id, int n_ids)
{
    uint64_t key = (uint64_t)n_ids, word;

    for (size_t i = 0; i < sizeof(*id); i += sizeof(word)) {
        memcpy(&word, id->internal + i, sizeof(word));
        key = stp_hash(key, word);
    }
    return key;
}

static ncclResult_t own_ncclCommInitAll(ncclComm_t *comms, int n_gpus,
                                        const int *gpus)
{
    const ncclResult_t result = CALL(ncclCommInitAll, comms, n_gpus, gpus);
    struct group all = {.depth = 1};
    struct timespec now;
    uint64_t key;

    if (result != ncclSuccess || group != NULL)
        return result;
    /* All ranks are this thread's, and the key is nobody else's. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    key = stp_hash(stp_hash((uint64_t)getpid(), (uint64_t)(uintptr_t)comms[0]),
                   (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
    group = &all;
    for (int i = 0; i < n_gpus; i++)
        birth_note(&comms[i], key, NULL, NULL, result);
    group = NULL;
    births_open(all.births, all.n_births, result);
    free(all.births);
    return result;
}

static ncclResult_t own_ncclCommInitRank(ncclComm_t *comm, int n_ranks,
                                         ncclUniqueId id, int rank)
{
    const ncclResult_t result = CALL(ncclCommInitRank, comm, n_ranks, id, rank);

    birth_note(comm, birth_hash_id(&id, 1), NULL, NULL, result);
    return result;
}

static ncclResult_t own_ncclCommInitRankConfig(ncclComm_t *comm, int n_ranks,
                                               ncclUniqueId id, int rank,
                                               ncclConfig_t *config)
{
    const ncclResult_t result =
        CALL(ncclCommInitRankConfig, comm, n_ranks, id, rank, config);

    birth_note(comm, birth_hash_id(&id, 1), NULL, config, result);
    return result;
}

static ncclResult_t own_ncclCommInitRankScalable(ncclComm_t *comm, int n_ranks,
                                                 int rank, int n_ids,
                                                 ncclUniqueId *ids,
                                                 ncclConfig_t *config)
{
    const ncclResult_t result =
        CALL(ncclCommInitRankScalable, comm, n_ranks, rank, n_ids, ids, config);

    if (result == ncclSuccess)
        birth_note(comm, birth_hash_id(ids, n_ids), NULL, config, result);
    return result;
}

static ncclResult_t own_ncclCommSplit(ncclComm_t comm, int color, int key,
                                      ncclComm_t *child, ncclConfig_t *config)
{
    struct stp_comm *parent = call_find(comm);
    const ncclResult_t result =
        CALL(ncclCommSplit, comm, color, key, child, config);

    if (parent == NULL)
        return result;
    birth_note(child,
               stp_hash(stp_hash(parent->key, ++parent->n_splits),
                        (uint64_t)(int64_t)color),
               parent, config, result);
    stp_comm_release(parent);
    return result;
}

/* ---- changes and ends ---- */

/* Lets go of a communicator that NCCL has ended, or ends with the group. */
static void end_leave(struct stp_comm *c)
{
    if (group == NULL)
        stp_comm_release(c);
    else if (STP_ROOM(group->ended, group->n_ended, group->ended_size))
        group->ended[group->n_ended++] = c;
}

/* Stops staging, for good. */
static void end_staging(ncclComm_t comm, enum stp_plain why)
{
    struct stp_comm *c = call_find(comm);

    if (c != NULL && c->why == STP_STAGED)
        c->why = why;
    stp_comm_release(c);
}

/* Leaves twins and memory as they are if operations are on their way: NCCL's
 * symmetric kernels do not look at an abort, and wait for ever for a rank that
 * never comes, as would a thread that waits for them. */
static void end_leave_busy(struct stp_comm *c)
{
    if (c->is_left || stp_comm_is_idle(c))
        return;
    c->is_left = true;
    if (!stp_stage()->has_left)
        stp_say(true,
                "operations of a communicator of %d ranks are not done: staged "
                "ones do not end by an abort, as none of NCCL's symmetric "
                "kernels does; unless the other ranks come, their streams wait "
                "for ever, and the process has to end",
                c->n_ranks);
    stp_stage()->has_left = true;
}

/* Ends all twins that are not left; NCCL is done with their events, then. */
static void end_twins(struct stp_comm *c, ncclResult_t (*end)(ncclComm_t))
{
    struct stp_stage *p = stp_stage();

    n_inside++;
    for (int t = 0; c != NULL && t < c->n_twins && !c->is_left; t++) {
        ncclComm_t twin = c->twins[t].comm;

        pthread_mutex_lock(&p->lock);
        c->twins[t].comm = NULL;
        pthread_mutex_unlock(&p->lock);
        if (twin != NULL)
            end(twin);
    }
    n_inside--;
}

static ncclResult_t end_group(ncclResult_t result)
{
    const ncclResult_t ended = CALL(ncclGroupEnd);

    return result != ncclSuccess ? result : ended;
}

static ncclResult_t own_ncclCommShrink(ncclComm_t comm, int *excluded,
                                       int n_excluded, ncclComm_t *child,
                                       ncclConfig_t *config, int flags)
{
    struct stp_comm *parent = call_find(comm);
    const bool is_abort = (flags & NCCL_SHRINK_WITH_ABORT) != 0;
    ncclResult_t result;
    uint64_t key, sum = 0;

    if (parent == NULL)
        return CALL(ncclCommShrink, comm, excluded, n_excluded, child, config,
                    flags);
    if (is_abort) {
        end_staging(comm, STP_PLAIN_ENDED);
        end_leave_busy(parent);
        CALL(ncclGroupStart);
        end_twins(parent, stp_stage()->nccl.ncclCommAbort);
    }
    result =
        CALL(ncclCommShrink, comm, excluded, n_excluded, child, config, flags);
    if (is_abort)
        result = end_group(result);
    /* Ranks may name those that leave in any order. */
    key = stp_hash(~parent->key, ++parent->n_shrinks);
    for (int i = 0; excluded != NULL && i < n_excluded; i++)
        sum += stp_hash(key, (uint64_t)excluded[i]);
    birth_note(child, stp_hash(key, sum), parent, config, result);
    stp_comm_release(parent);
    return result;
}

static ncclResult_t own_ncclCommFinalize(ncclComm_t comm)
{
    struct stp_comm *c = call_find(comm);

    end_staging(comm, STP_PLAIN_ENDED);
    for (int t = 0; c != NULL && t < c->n_twins; t++)
        if (c->twins[t].comm != NULL)
            CALL(ncclCommFinalize, c->twins[t].comm);
    stp_comm_release(c);
    return CALL(ncclCommFinalize, comm);
}

static ncclResult_t own_ncclCommDestroy(ncclComm_t comm)
{
    struct stp_comm *c = n_inside == 0 ? stp_comm_find(comm, true) : NULL;
    ncclResult_t result;

    end_twins(c, stp_stage()->nccl.ncclCommDestroy);
    result = CALL(ncclCommDestroy, comm);
    end_leave(c);
    return result;
}

/* Tells all to abort, and waits for none before the group ends: what one
 * waits for may be behind another in a stream. */
static ncclResult_t end_abort(ncclComm_t comm)
{
    struct stp_comm *c = n_inside == 0 ? stp_comm_find(comm, true) : NULL;
    ncclResult_t result;

    if (c == NULL)
        return CALL(ncclCommAbort, comm);
    CALL(ncclGroupStart);
    end_twins(c, stp_stage()->nccl.ncclCommAbort);
    result = end_group(CALL(ncclCommAbort, comm));
    c->shares = false; /* its flag is set, for all that have it */
    end_leave(c);
    return result;
}

static void *end_abort_later(void *comm)
{
    end_abort(comm);
    return NULL;
}

/* Waits for nothing while a staged operation of any communicator is on its way:
 * this one's may be behind it in a stream, or NCCL may have both in one order.
 */
static ncclResult_t own_ncclCommAbort(ncclComm_t comm)
{
    struct stp_comm *c = call_find(comm);
    pthread_t thread;
    bool waits;

    if (c != NULL)
        end_leave_busy(c);
    waits =
        n_inside == 0 && ((c != NULL && c->is_left) || !stp_comm_is_idle(NULL));
    stp_comm_release(c);
    if (!waits)
        return end_abort(comm);
    if (pthread_create(&thread, NULL, end_abort_later, comm) != 0)
        return ncclSystemError; /* it may be called again */
    pthread_detach(thread);
    return ncclSuccess;
}

static ncclResult_t own_ncclCommRevoke(ncclComm_t comm, int flags)
{
    struct stp_comm *c = call_find(comm);
    ncclResult_t result;

    if (c == NULL)
        return CALL(ncclCommRevoke, comm, flags);
    end_leave_busy(c);
    CALL(ncclGroupStart);
    for (int t = 0; t < c->n_twins && !c->is_left; t++)
        if (c->twins[t].comm != NULL)
            CALL(ncclCommRevoke, c->twins[t].comm, flags);
    result = end_group(CALL(ncclCommRevoke, comm, flags));
    if (result == ncclSuccess)
        end_staging(comm, STP_PLAIN_ENDED);
    stp_comm_release(c);
    return result;
}

/* NCCL refuses a communicator that shares resources with others.  If these are
 * the twins alone they end first: all ranks are to call this. */
static ncclResult_t own_ncclCommSuspend(ncclComm_t comm, int flags)
{
    struct stp_comm *c =
        (flags & NCCL_SUSPEND_MEM) != 0 ? call_find(comm) : NULL;
    ncclResult_t result;

    if (c != NULL && c->shares && c->n_splits == 0 && group == NULL) {
        end_staging(comm, STP_PLAIN_ENDED);
        end_twins(c, stp_stage()->nccl.ncclCommDestroy);
    }
    result = CALL(ncclCommSuspend, comm, flags);
    if (c != NULL && result == ncclSuccess)
        end_staging(comm, STP_PLAIN_ENDED);
    stp_comm_release(c);
    return result;
}

static ncclResult_t own_ncclCommGetAsyncError(ncclComm_t comm,
                                              ncclResult_t *error)
{
    struct stp_comm *c = call_find(comm);
    ncclResult_t result = CALL(ncclCommGetAsyncError, comm, error), other;

    for (int t = 0; c != NULL && t < c->n_twins && result == ncclSuccess &&
                    *error == ncclSuccess;
         t++)
        if (c->twins[t].comm != NULL &&
            CALL(ncclCommGetAsyncError, c->twins[t].comm, &other) ==
                ncclSuccess)
            *error = other;
    stp_comm_release(c);
    return result;
}

static ncclResult_t own_ncclCommWindowRegister(ncclComm_t comm, void *memory,
                                               size_t n_bytes,
                                               ncclWindow_t *window, int flags)
{
    const ncclResult_t result =
        CALL(ncclCommWindowRegister, comm, memory, n_bytes, window, flags);

    if (result == ncclSuccess)
        end_staging(comm, STP_PLAIN_OWN_WINDOWS);
    return result;
}

/* ---- the entries ---- */

/* Without such a function: the two that return a text do so for any argument.
 */
#define HAND_ON(nccl, type, name, arguments)                                   \
    ((nccl)->name != NULL                                                        \
         ? (nccl)->name arguments                                                \
         : _Generic((type){0},                                                   \
             const char *: "there is no such function",                          \
             nccl_words: (nccl_words){{ncclInvalidUsage}},                       \
             default: ncclInvalidUsage))
#define ENTRY(type, name, parameters, arguments, otherwise)                    \
    type name parameters;                                                      \
    EXPORTED type name parameters                                              \
    {                                                                          \
        const struct stp_real_nccl *other =                                    \
            stp_stage_enter(__builtin_return_address(0));                      \
                                                                               \
        return other != NULL ? HAND_ON(other, type, name, arguments)           \
                             : otherwise;                                      \
    }
/* Each has a second name, by which profilers call it that define the first:
 * NCCL gets what such a profiler calls within a call of ours. */
#define OWN_CALL(type, name, parameters, arguments)                            \
    ENTRY(type, name, parameters, arguments, own_##name arguments)             \
    ENTRY(type, p##name, parameters, arguments,                                \
          n_inside == 0                                                        \
              ? own_##name arguments                                           \
              : HAND_ON(&stp_stage()->nccl, type, p##name, arguments))
NCCL_MANAGING_CALLS(OWN_CALL)
NCCL_STAGED_CALLS(OWN_CALL)
NCCL_PEER_CALLS(OWN_CALL)
#define OTHER_ENTRY(type, name, parameters, arguments)                         \
    ENTRY(type, name, parameters, arguments,                                   \
          HAND_ON(&stp_stage()->nccl, type, name, arguments))
#define OTHER_CALL(type, name, parameters, arguments)                          \
    OTHER_ENTRY(type, name, parameters, arguments)                             \
    OTHER_ENTRY(type, p##name, parameters, arguments)
/* An all-to-all has sends of its own, which follow those before it. */
#define STREAM_ENTRY(type, name, parameters, arguments)                        \
    ENTRY(type, name, parameters, arguments,                                   \
          (transfer_run_all(NULL),                                             \
           group_note(comm, count, stream) == ncclSuccess)                     \
              ? HAND_ON(&stp_stage()->nccl, type, name, arguments)             \
              : ncclSystemError)
#define STREAM_CALL(type, name, parameters, arguments)                         \
    STREAM_ENTRY(type, name, parameters, arguments)                            \
    STREAM_ENTRY(type, p##name, parameters, arguments)
/* A signal is a word of memory, and in no order with copies. */
NCCL_STREAM_CALLS(STREAM_CALL)
NCCL_STREAM_WORD_CALLS(OTHER_CALL)
NCCL_OTHER_CALLS(OTHER_CALL)
NCCL_WORD_CALLS(OTHER_CALL)
