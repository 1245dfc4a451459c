#include "stage/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/policy/memory_policy.h"
#include "core/rng.h"

enum {
    LONELY_PART = 30, /* of the time that a missing rank is waited for again */
    STEP_FACTOR = 10, /* longer for votes after steps of NCCL */
    SPARE_BYTES = 512 << 20, /* of a GPU, for NCCL */
    MOST_NODES = 64,         /* of a graph with one call */
    MOST_DEFAULT = 2, /* the last handle of a default stream, a thread's own */
    /* of a GPU: each kernel waits for others with all of its CTAs there */
    LEAST_SMS = STP_MAX_CHANNELS + 32, /* staged, and NCCL_MAX_CTAS */
};

/* ---- the communicators of the process ---- */

static struct stp_comm **comm_bucket(struct stp_stage *p, ncclComm_t comm)
{
    return &p->buckets[((uintptr_t)comm >> 4) * UINT64_C(0x9e3779b97f4a7c15) >>
                       56];
}

struct stp_comm *stp_comm_find(ncclComm_t comm, bool takes)
{
    struct stp_stage *p = stp_stage();
    struct stp_comm **link, *c;

    if (!p->is_on)
        return NULL;
    pthread_mutex_lock(&p->lock);
    link = comm_bucket(p, comm);
    while (*link != NULL && (*link)->comm != comm)
        link = &(*link)->next;
    c = *link;
    if (c != NULL && takes) /* the table's user is the caller's now */
        *link = c->next;
    else if (c != NULL)
        c->n_users++;
    pthread_mutex_unlock(&p->lock);
    return c;
}

void stp_comm_retain(struct stp_comm *c)
{
    struct stp_stage *p = stp_stage();

    pthread_mutex_lock(&p->lock);
    c->n_users++;
    pthread_mutex_unlock(&p->lock);
}

bool stp_comm_enter(const struct stp_comm *c, bool *is_other)
{
    const struct stp_real_cuda *cuda = &stp_stage()->cuda;
    CUcontext now = NULL;
    const bool is_due = c->context != NULL &&
                        cuda->ctx_get_current(&now) == 0 && now != c->context;

    *is_other = is_due && cuda->ctx_push(c->context) == 0;
    return *is_other == is_due;
}

void stp_comm_leave(bool is_other)
{
    CUcontext now;

    if (is_other)
        stp_stage()->cuda.ctx_pop(&now);
}

bool stp_comm_ask_capture(const struct stp_comm *c, cudaStream_t stream,
                          unsigned long long *id)
{
    bool is_other = false;
    bool is_known =
        (uintptr_t)stream > MOST_DEFAULT || stp_comm_enter(c, &is_other);

    is_known &= stp_order_capture(&stp_stage()->cuda, stream, id);
    stp_comm_leave(is_other);
    return is_known;
}

/* ---- memory ---- */

/* Whether no staged operation of it is on its way.  NCCL waits for those of a
 * twin that it ends. */
static bool comm_is_done(const struct stp_stage *p, const struct stp_comm *c)
{
    const bool is_pushed = p->cuda.ctx_push(c->context) == 0;
    bool is_done = true;
    CUcontext popped;

    for (const struct stp_twin *t = c->twins; t < c->twins + c->n_twins; t++)
        is_done &=
            !t->order.is_lost &&
            (t->comm == NULL || p->cuda.event_query(t->order.event) == 0);
    if (is_pushed)
        p->cuda.ctx_pop(&popped);
    return is_done;
}

bool stp_comm_is_idle(const struct stp_comm *c)
{
    struct stp_stage *p = stp_stage();
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* some thread may capture */
    bool is_idle = true;

    if (p->cuda.exchange_mode == NULL)
        return true; /* nothing was ever staged */
    p->cuda.exchange_mode(&mode);
    pthread_mutex_lock(&p->lock);
    for (const struct stp_comm *s = p->staged; s != NULL; s = s->staged)
        is_idle &= (c != NULL && s != c) || comm_is_done(p, s);
    is_idle &= c == NULL || c->n_twins == 0 ||
               c->n_users == 2; /* the table and the caller */
    pthread_mutex_unlock(&p->lock);
    p->cuda.exchange_mode(&mode);
    return is_idle;
}

/* Ends twins that are not.  One whose abort would be the application's, too,
 * stays with its memory, which still counts. */
static void comm_abort_twins(struct stp_stage *p, struct stp_comm *c)
{
    const bool is_pushed = p->cuda.ctx_push(c->context) == 0;
    CUcontext popped;

    for (struct stp_twin *t = c->twins; t < c->twins + c->n_twins; t++)
        if (t->comm != NULL && !c->shares) {
            p->nccl.ncclCommAbort(t->comm);
            t->comm = NULL;
        }
    if (is_pushed)
        p->cuda.ctx_pop(&popped);
}

/* Frees the memory of twins that are ended, on all ranks of this process: NCCL
 * has it registered until the last one is. */
static void comm_free_memory(struct stp_stage *p, struct stp_comm *c)
{
    CUcontext popped;
    size_t n_bytes = 0;
    bool is_pushed;

    if (c->n_twins == 0)
        return;
    is_pushed = p->cuda.ctx_push(c->context) == 0;
    for (struct stp_twin *t = c->twins; t < c->twins + c->n_twins; t++) {
        if (t->comm != NULL)
            continue;
        if (t->at != NULL)
            p->nccl.ncclMemFree(t->at);
        n_bytes += t->n_bytes;
    }
    if (is_pushed)
        p->cuda.ctx_pop(&popped);
    c->n_twins = 0;
    pthread_mutex_lock(&p->lock);
    p->n_bytes -= n_bytes;
    pthread_mutex_unlock(&p->lock);
}

/* Whether no thread and no operation uses the communicator any more, on any of
 * its ranks in this process: NCCL ends these together, with the last one. */
static bool comm_is_over(const struct stp_stage *p, const struct stp_comm *c)
{
    int n_done = 0;

    for (const struct stp_comm *s = p->staged; s != NULL; s = s->staged)
        n_done += s->key == c->key && s->is_done;
    return n_done == c->n_here;
}

/* Frees communicators that are over. */
static void staged_sweep(struct stp_stage *p)
{
    struct stp_comm *gone = NULL, **link = &p->staged;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* some thread may capture */

    p->cuda.exchange_mode(&mode);
    pthread_mutex_lock(&p->lock);
    for (struct stp_comm *c = p->staged; c != NULL; c = c->staged)
        c->is_done = c->n_users == 0 && comm_is_done(p, c);
    for (struct stp_comm *c = p->staged; c != NULL; c = c->staged)
        c->is_over = c->is_done && comm_is_over(p, c);
    while (*link != NULL) {
        struct stp_comm *c = *link;

        if (c->is_over) {
            *link = c->staged;
            c->staged = gone;
            gone = c;
        } else
            link = &c->staged;
    }
    pthread_mutex_unlock(&p->lock);
    for (struct stp_comm *c = gone; c != NULL; c = c->staged)
        comm_abort_twins(p, c);
    while (gone != NULL) {
        struct stp_comm *c = gone;

        gone = c->staged;
        comm_free_memory(p, c);
        free(c);
    }
    p->cuda.exchange_mode(&mode);
}

/* Allocates the memory of the twins, unless that is more than the process may
 * have, or would leave too little for twins: a rank that has no memory left
 * within ncclCommSplit() would hold up the others. */
static bool comm_make_memory(struct stp_stage *p, struct stp_comm *c)
{
    CUcontext popped;
    size_t n_bytes = 0, left = 0, all;
    bool is_made;

    staged_sweep(p);
    for (int t = 0; t < c->n_twins; t++)
        n_bytes += c->twins[t].n_bytes;
    pthread_mutex_lock(&p->lock);
    is_made = n_bytes <= p->max_bytes - p->n_bytes;
    if (is_made)
        p->n_bytes += n_bytes;
    else
        c->n_twins = 0;
    pthread_mutex_unlock(&p->lock);
    if (!is_made || p->cuda.ctx_push(c->context) != 0)
        return false;
    is_made =
        p->cuda.memory_left(&left, &all) == 0 && left >= n_bytes + SPARE_BYTES;
    for (struct stp_twin *t = c->twins; t < c->twins + c->n_twins; t++)
        is_made = is_made && p->nccl.ncclMemAlloc((void **)&t->at,
                                                  t->n_bytes) == ncclSuccess;
    p->cuda.ctx_pop(&popped);
    return is_made;
}

void stp_comm_release(struct stp_comm *c)
{
    struct stp_stage *p = stp_stage();
    bool is_last = false, is_end = false, is_staged;

    if (c == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    is_staged = c->n_twins > 0;
    is_last = --c->n_users == 0;
    if (is_last)
        is_end = --p->n_comms == 0;
    pthread_mutex_unlock(&p->lock);
    if (is_last && is_staged)
        staged_sweep(p);
    else if (is_last)
        free(c);
    if (is_end)
        stp_tally_write();
}

/* ---- a new communicator ---- */

/* Takes the rules that can match, and the twins that they name, each with the
 * bytes of its largest message. */
static void comm_take_rules(struct stp_stage *p, struct stp_comm *c)
{
    const struct stp_memory_query query = {
        .n_ranks = (size_t)c->n_ranks, .n_nodes = 1, .gpu = p->gpu};

    for (size_t i = 0; i < stp_policy_size(p->rules); i++) {
        const struct stp_rule *rule = stp_policy_rule(p->rules, i);
        size_t most;
        int t = 0;

        if (!stp_memory_rule_is_for(rule, &query) ||
            stp_memory_rule_is_idle(rule) != NULL)
            continue;
        if (c->n_rules == STP_N_RULES) {
            stp_say(false,
                    "of the rules for %d ranks, the %d before line %u apply",
                    c->n_ranks, STP_N_RULES, rule->line);
            break;
        }
        if (rule->memory != STP_MEMORY_PLAIN &&
            (rule->overlap == -1 || rule->overlap == (int)p->overlaps)) {
            while (t < c->n_twins && c->twins[t].min_ctas != rule->min_ctas)
                t++;
            most = rule->bytes.max < STP_STAGE_MAX ? rule->bytes.max
                                                   : STP_STAGE_MAX;
            most = (most + STP_PLACE - 1) / STP_PLACE * STP_PLACE;
            if (t == STP_N_TWINS)
                most = 0; /* its messages stay plain */
            else if (t == c->n_twins)
                c->twins[c->n_twins++].min_ctas = rule->min_ctas;
            if (most > 0 && c->twins[t].n_bytes < most)
                c->twins[t].n_bytes = most;
        }
        c->rules[c->n_rules++] = rule;
    }
}

/* ---- the steps of new communicators ----
 *
 * A group may make several communicators in one thread, ranks of one among
 * them.  Each step is taken for all of them before a vote on it is waited for,
 * and its calls of NCCL, which take all ranks, stand in one group: a thread
 * never waits for itself. */

/* A communicator whose ranks may come to stage. */
struct opening {
    struct stp_comm *c;
    struct stp_meeting *meeting; /* NULL: they will not */
    const char *aside;
    bool is_yes; /* this rank's next vote */
    int vote;    /* its number */
    bool has_failed;
    ncclWindow_t window;
    cudaStream_t stream;
};

enum step { SPLIT, REGISTER, CAPTURE, N_STEPS };

/* Calls NCCL for one communicator, within a group. */
static bool step_begin(struct stp_stage *p, struct opening *o,
                       struct stp_twin *twin, enum step step)
{
    ncclConfig_t config = NCCL_CONFIG_DEFAULT(NCCL_WITH_WINDOWS);

    switch (step) {
    case SPLIT:
        config.blocking = 1;
        if (twin->min_ctas != 0) {
            config.minCTAs = twin->min_ctas;
            config.maxCTAs = STP_MAX_CHANNELS;
        }
        return p->nccl.ncclCommSplit(o->c->comm, 0, o->c->rank, &twin->comm,
                                     &config) == ncclSuccess;
    case REGISTER:
        o->window = NULL;
        return p->nccl.ncclCommWindowRegister(
                   twin->comm, twin->at, twin->n_bytes, &o->window,
                   NCCL_WIN_SYMMETRIC) == ncclSuccess;
    default: /* a call behind a copy, in a graph that never runs */
        o->stream = NULL;
        return p->cuda.stream_create(&o->stream, CU_STREAM_NON_BLOCKING) == 0 &&
               p->cuda.begin_capture(o->stream,
                                     CU_STREAM_CAPTURE_MODE_RELAXED) == 0 &&
               p->cuda.copy(twin->at, twin->at + STP_PLACE / 2, STP_PLACE / 2,
                            o->stream) == 0 &&
               p->nccl.ncclAllReduce(
                   twin->at, twin->at, 4 * (size_t)o->c->n_ranks, STP_TYPE_F32,
                   NCCL_OP_SUM, twin->comm, o->stream) == ncclSuccess;
    }
}

/* Whether all kernels of a graph are symmetric ones, of NCCL 2.27 or later. */
static bool graph_is_symmetric(const struct stp_real_cuda *cuda, CUgraph graph)
{
    CUgraphNode nodes[MOST_NODES];
    size_t n = MOST_NODES;
    int n_kernels = 0, n_symmetric = 0, type;

    if (cuda->graph_nodes(graph, nodes, &n) != 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct stp_real_kernel k;
        const char *name = NULL;

        if (cuda->node_type(nodes[i], &type) != 0 ||
            type != CU_GRAPH_NODE_TYPE_KERNEL)
            continue;
        n_kernels++;
        if (cuda->node_kernel(nodes[i], &k) == 0 &&
            (k.function != NULL ? cuda->function_name(&name, k.function)
                                : cuda->kernel_name(&name, k.kernel)) == 0 &&
            name != NULL)
            n_symmetric += strstr(name, "ncclSymkDevKernel") != NULL ||
                           strstr(name, "ncclSymDevKernel") != NULL;
    }
    return n_kernels > 0 && n_symmetric == n_kernels;
}

/* Whether the step gave what it was to give.  No function tells whether NCCL
 * takes a symmetric kernel on the twin: there may be no peer access. */
static bool step_end(struct stp_stage *p, struct opening *o,
                     struct stp_twin *twin, enum step step)
{
    CUgraph graph = NULL;
    bool is_symmetric;

    if (step != CAPTURE)
        return step == SPLIT ? twin->comm != NULL : o->window != NULL;
    if (o->stream == NULL)
        return false;
    is_symmetric = stp_order_open(&twin->order, &p->cuda, o->stream);
    is_symmetric = p->cuda.end_capture(o->stream, &graph) == 0 &&
                   is_symmetric && graph_is_symmetric(&p->cuda, graph);
    if (graph != NULL)
        p->cuda.graph_destroy(graph);
    p->cuda.stream_destroy(o->stream);
    return is_symmetric;
}

/* Whatever was made is to go again. */
static void opening_fail(struct stp_stage *p, struct opening *o)
{
    struct stp_comm *c = o->c;
    char text[STP_ERROR_TEXT];
    const bool is_warning =
        stp_meeting_explain(o->meeting, o->vote, text, sizeof(text));

    if (o->vote == STP_VOTE_HELLO)
        c->n_twins = 0;
    else
        comm_abort_twins(p, c);
    if (is_warning)
        p->was_lonely = true;
    stp_step_aside(is_warning,
                   is_warning || o->aside == NULL ? text : o->aside);
    stp_meeting_cast(o->meeting, STP_VOTE_GONE, true);
    o->has_failed = true;
}

/* Whether a communicator takes the steps of a twin; -1: those before. */
static bool opening_takes(const struct opening *o, int twin)
{
    return o->meeting != NULL && twin < o->c->n_twins;
}

/* Votes on a step of all; those that fail are out. */
static void openings_vote(struct stp_stage *p, struct opening *all, size_t n,
                          int twin, unsigned wait_ms)
{
    for (struct opening *o = all; o < all + n; o++)
        if (opening_takes(o, twin))
            stp_meeting_cast(o->meeting, o->vote, o->is_yes);
    for (struct opening *o = all; o < all + n; o++) {
        if (opening_takes(o, twin) &&
            !stp_meeting_wait(o->meeting, o->vote, wait_ms))
            opening_fail(p, o);
        o->vote++;
    }
    for (struct opening *o = all; o < all + n; o++)
        if (o->has_failed && o->meeting != NULL) {
            if (o->c->n_twins > 0 &&
                (stp_meeting_count_here(o->meeting) == 1 ||
                 stp_meeting_wait(o->meeting, STP_VOTE_GONE, wait_ms)))
                comm_free_memory(p, o->c);
            o->c->n_twins = 0;
            stp_meeting_leave(o->meeting);
            o->meeting = NULL;
        }
}

static void openings_step(struct stp_stage *p, struct opening *all, size_t n,
                          int twin, enum step step)
{
    bool is_done = p->nccl.ncclGroupStart() == ncclSuccess;
    CUcontext popped;

    for (struct opening *o = all; o < all + n; o++)
        if (opening_takes(o, twin)) {
            const bool is_pushed = p->cuda.ctx_push(o->c->context) == 0;

            /* The other ranks are in the call, whatever fails here. */
            o->is_yes = step_begin(p, o, &o->c->twins[twin], step) && is_pushed;
            if (is_pushed)
                p->cuda.ctx_pop(&popped);
        }
    is_done = p->nccl.ncclGroupEnd() == ncclSuccess && is_done;
    for (struct opening *o = all; o < all + n; o++)
        if (opening_takes(o, twin)) {
            const bool is_pushed = p->cuda.ctx_push(o->c->context) == 0;

            o->is_yes = step_end(p, o, &o->c->twins[twin], step) && is_done &&
                        o->is_yes && is_pushed;
            if (is_pushed)
                p->cuda.ctx_pop(&popped);
        }
    openings_vote(p, all, n, twin, p->patience_ms * STEP_FACTOR);
}

/* Fills in '*o', with a meeting of the ranks unless there is none to be. */
static void opening_begin(struct stp_stage *p, struct opening *o,
                          const struct stp_birth *birth)
{
    struct stp_comm *c = *birth->slot != NULL ? calloc(1, sizeof(*c)) : NULL;
    struct stp_guest guest;
    struct stp_error err;
    int gpu, n_sms;

    *o = (struct opening){.aside = birth->aside};
    if (c == NULL)
        return; /* the other ranks notice that this one does not come */
    *c = (struct stp_comm){.comm = *birth->slot,
                           .n_users = 1,
                           .key = birth->key,
                           .is_limited = birth->is_limited,
                           .shares = birth->shares,
                           .why = STP_PLAIN_ASIDE};
    if (p->nccl.ncclCommCount(c->comm, &c->n_ranks) != ncclSuccess ||
        p->nccl.ncclCommUserRank(c->comm, &c->rank) != ncclSuccess ||
        c->n_ranks < 2) {
        free(c);
        return;
    }
    o->c = c;
    if (o->aside == NULL) {
        comm_take_rules(p, c);
        o->aside = c->n_twins == 0
                       ? c->n_rules == STP_N_RULES
                             ? "none of the first 64 rules for so many ranks "
                               "stages anything"
                         : p->overlaps
                             ? "no rule is for so many ranks on one host, this "
                               "GPU and jobs in which compute goes on beside "
                               "collectives (NCCL_WORKLOAD_OVERLAP is not 0)"
                             : "no rule is for so many ranks on one host, this "
                               "GPU and jobs in which nothing runs beside "
                               "collectives (NCCL_WORKLOAD_OVERLAP is 0)"
                   : c->is_limited ? "the application limits the CTAs"
                   : p->nccl.ncclCommCuDevice(c->comm, &gpu) != ncclSuccess ||
                           p->cuda.ctx_retain(&c->context, gpu) != 0
                       ? "its GPU has no context"
                   : p->cuda.get_attribute(&n_sms, CU_DEVICE_ATTRIBUTE_SMS,
                                           gpu) != 0 ||
                           n_sms < LEAST_SMS
                       ? "its GPU has fewer than 96 multiprocessors, which a "
                         "staged kernel and another one may take at once"
                       : NULL;
    }
    o->is_yes = o->aside == NULL;
    guest = (struct stp_guest){
        .key = c->key,
        .n_ranks = c->n_ranks,
        .rank = c->rank,
        .process = stp_hash((uint64_t)getpid(), (uint64_t)(uintptr_t)p)};
    memcpy(guest.part, p->part, sizeof(guest.part));
    if (stp_meeting_join(&guest, &o->meeting, &err) != STP_OK) {
        o->meeting = NULL;
        c->n_twins = 0;
        stp_step_aside(true, err.text);
    }
}

void stp_comm_open(const struct stp_birth *births, size_t n)
{
    struct stp_stage *p = stp_stage();
    struct opening *all = calloc(n, sizeof(*all));

    if (all == NULL)
        return;
    for (size_t i = 0; i < n; i++)
        opening_begin(p, &all[i], &births[i]);
    openings_vote(p, all, n, -1,
                  p->was_lonely ? p->patience_ms / LONELY_PART
                                : p->patience_ms);
    for (struct opening *o = all; o < all + n; o++)
        if (o->meeting != NULL)
            o->is_yes = comm_make_memory(p, o->c);
    openings_vote(p, all, n, -1, p->patience_ms * STEP_FACTOR);
    for (int twin = 0, n_left = 0; twin < STP_N_TWINS; twin++, n_left = 0) {
        for (struct opening *o = all; o < all + n; o++)
            n_left += opening_takes(o, twin);
        for (enum step step = SPLIT; step < N_STEPS && n_left > 0; step++)
            openings_step(p, all, n, twin, step);
    }
    for (struct opening *o = all; o < all + n; o++) {
        if (o->c == NULL)
            continue;
        if (o->meeting != NULL)
            o->c->n_here = stp_meeting_count_here(o->meeting);
        stp_meeting_leave(o->meeting);
        pthread_mutex_lock(&p->lock);
        if (o->meeting != NULL) {
            o->c->why = STP_STAGED;
            o->c->staged = p->staged;
            p->staged = o->c;
        }
        o->c->next = *comm_bucket(p, o->c->comm);
        *comm_bucket(p, o->c->comm) = o->c;
        p->n_comms++;
        pthread_mutex_unlock(&p->lock);
    }
    free(all);
}
