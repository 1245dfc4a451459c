#include "stage/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/policy/memory_policy.h"
#include "stage/report.h"

enum {
    LONELY_PART = 30, /* of the time that a missing rank is waited for again */
    STEP_FACTOR = 10, /* longer for votes after steps of NCCL */
    MOST_TOLD = 20,   /* sentences in a process's log */
    MOST_NODES = 64,  /* of a graph with one call */
};

/* ---- the communicators of the process ---- */

static struct stp_stage_comm **comm_bucket(struct stp_stage_process *p,
                                           ncclComm_t comm)
{
    return &p->buckets[((uintptr_t)comm >> 4) * UINT64_C(0x9e3779b97f4a7c15) >>
                       56];
}

/* The link to it, which is to NULL if there is none. */
static struct stp_stage_comm **comm_link(struct stp_stage_process *p,
                                         ncclComm_t comm)
{
    struct stp_stage_comm **link = comm_bucket(p, comm);

    while (*link != NULL && (*link)->comm != comm)
        link = &(*link)->next;
    return link;
}

struct stp_stage_comm *stp_stage_comm_find(ncclComm_t comm)
{
    struct stp_stage_process *p = stp_stage_process_open();
    struct stp_stage_comm *c;

    if (!p->is_on)
        return NULL;
    pthread_mutex_lock(&p->lock);
    c = *comm_link(p, comm);
    if (c != NULL)
        c->n_users++;
    pthread_mutex_unlock(&p->lock);
    return c;
}

struct stp_stage_comm *stp_stage_comm_take(ncclComm_t comm)
{
    struct stp_stage_process *p = stp_stage_process_open();
    struct stp_stage_comm **link, *c;

    if (!p->is_on)
        return NULL;
    pthread_mutex_lock(&p->lock);
    link = comm_link(p, comm);
    c = *link;
    if (c != NULL) /* the table's user is the caller's now */
        *link = c->next;
    pthread_mutex_unlock(&p->lock);
    return c;
}

void stp_stage_comm_retain(struct stp_stage_comm *c)
{
    struct stp_stage_process *p = stp_stage_process_open();

    pthread_mutex_lock(&p->lock);
    c->n_users++;
    pthread_mutex_unlock(&p->lock);
}

void stp_stage_comm_release(struct stp_stage_comm *c)
{
    struct stp_stage_process *p = stp_stage_process_open();
    bool is_last = false, is_end = false;

    if (c == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    is_last = --c->n_users == 0;
    if (is_last)
        is_end = --p->n_comms == 0;
    pthread_mutex_unlock(&p->lock);
    if (is_last)
        free(c);
    if (is_end)
        stp_stage_report_write();
}

bool stp_stage_comm_enter(const struct stp_stage_comm *c, bool *is_pushed)
{
    const struct stp_stage_cuda *cuda = &stp_stage_process_open()->cuda;
    stp_stage_context now = NULL;

    *is_pushed = cuda->ctx_get_current(&now) == 0 && now != c->memory->context;
    return !*is_pushed || cuda->ctx_push(c->memory->context) == 0;
}

void stp_stage_comm_leave(bool is_pushed)
{
    stp_stage_context popped;

    if (is_pushed)
        stp_stage_process_open()->cuda.ctx_pop(&popped);
}

/* ---- memory ---- */

static void memory_free(struct stp_stage_process *p, struct stp_stage_memory *m)
{
    stp_stage_context popped;

    p->cuda.ctx_push(m->context);
    stp_stage_order_close(&m->order, &p->cuda);
    p->nccl.ncclMemFree(m->at);
    p->cuda.ctx_pop(&popped);
    free(m);
}

/* Frees what ended communicators have left and no operation uses any more. */
static void memory_sweep(struct stp_stage_process *p)
{
    struct stp_stage_memory *gone = NULL, **link = &p->leaving;
    int mode = STP_STAGE_MODE_RELAXED; /* some thread may capture */

    if (p->why != STP_STAGE_STAGED)
        return;
    p->cuda.exchange_mode(&mode);
    pthread_mutex_lock(&p->lock);
    while (*link != NULL) {
        struct stp_stage_memory *m = *link;
        stp_stage_context popped;
        bool is_done;

        p->cuda.ctx_push(m->context);
        is_done = p->cuda.event_query(m->order.done) == 0;
        p->cuda.ctx_pop(&popped);
        if (is_done) {
            *link = m->next;
            m->next = gone;
            gone = m;
            p->n_bytes -= m->n_bytes;
        } else
            link = &m->next;
    }
    pthread_mutex_unlock(&p->lock);
    while (gone != NULL) {
        struct stp_stage_memory *next = gone->next;

        memory_free(p, gone);
        gone = next;
    }
    p->cuda.exchange_mode(&mode);
}

void stp_stage_comm_free_memory(struct stp_stage_comm *c)
{
    struct stp_stage_process *p = stp_stage_process_open();

    if (c->memory == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    c->memory->next = p->leaving;
    p->leaving = c->memory;
    c->memory = NULL;
    pthread_mutex_unlock(&p->lock);
    memory_sweep(p);
}

/* Allocates 'n_bytes' for the communicator, unless that is more than the
 * process may have. */
static bool memory_make(struct stp_stage_process *p, struct stp_stage_comm *c,
                        size_t n_bytes, stp_stage_context context)
{
    struct stp_stage_memory *m = calloc(1, sizeof(*m));
    stp_stage_context popped;
    bool is_made = false;

    memory_sweep(p);
    pthread_mutex_lock(&p->lock);
    if (m != NULL && n_bytes <= p->max_bytes - p->n_bytes) {
        is_made = true;
        p->n_bytes += n_bytes;
    }
    pthread_mutex_unlock(&p->lock);
    if (!is_made || p->cuda.ctx_push(context) != 0) {
        n_bytes = is_made ? n_bytes : 0;
        is_made = false;
    } else {
        is_made = p->nccl.ncclMemAlloc((void **)&m->at, n_bytes) == ncclSuccess;
        if (is_made && !stp_stage_order_open(&m->order, &p->cuda)) {
            p->nccl.ncclMemFree(m->at);
            is_made = false;
        }
        p->cuda.ctx_pop(&popped);
    }
    if (is_made) {
        m->n_bytes = n_bytes;
        m->context = context;
        c->memory = m;
        return true;
    }
    pthread_mutex_lock(&p->lock);
    p->n_bytes -= n_bytes;
    pthread_mutex_unlock(&p->lock);
    free(m);
    return false;
}

/* ---- a new communicator ---- */

/* Takes the rules that can match, and returns the bytes of the largest message
 * that one names. */
static size_t comm_take_rules(struct stp_stage_process *p,
                              struct stp_stage_comm *c)
{
    size_t n_bytes = 0;

    for (size_t i = 0; i < stp_policy_size(p->rules); i++) {
        const struct stp_rule *rule = stp_policy_rule(p->rules, i);
        const struct stp_memory_query query = {.coll = rule->coll,
                                               .n_bytes = rule->bytes.min,
                                               .n_ranks = (size_t)c->n_ranks,
                                               .n_nodes = 1,
                                               .captured = rule->graph == 1,
                                               .gpu = p->gpu};
        int t = 0;

        if (!stp_memory_rule_matches(rule, &query) ||
            rule->bytes.min > STP_STAGE_MAX_MESSAGE ||
            c->n_rules == STP_STAGE_N_RULES)
            continue;
        if (rule->memory != STP_MEMORY_PLAIN) {
            while (t < c->n_twins && c->twins[t].min_ctas != rule->min_ctas)
                t++;
            if (t == STP_STAGE_N_TWINS)
                continue;
            c->twins[t].min_ctas = rule->min_ctas;
            c->n_twins += t == c->n_twins;
            if (n_bytes < rule->bytes.max)
                n_bytes = rule->bytes.max < STP_STAGE_MAX_MESSAGE
                              ? rule->bytes.max
                              : STP_STAGE_MAX_MESSAGE;
        }
        c->rules[c->n_rules++] = rule;
    }
    return (n_bytes + STP_STAGE_PLACE - 1) / STP_STAGE_PLACE * STP_STAGE_PLACE;
}

static bool comm_split(struct stp_stage_process *p, struct stp_stage_comm *c,
                       struct stp_stage_twin *twin)
{
    ncclConfig_t config = {.size = sizeof(config),
                           .magic = (unsigned)NCCL_CONFIG_MAGIC,
                           .version = NCCL_WITH_WINDOWS,
                           .blocking = 1,
                           .cgaClusterSize = NCCL_CONFIG_UNDEF,
                           .minCTAs = NCCL_CONFIG_UNDEF,
                           .maxCTAs = NCCL_CONFIG_UNDEF,
                           .splitShare = NCCL_CONFIG_UNDEF,
                           .trafficClass = NCCL_CONFIG_UNDEF,
                           .collnetEnable = NCCL_CONFIG_UNDEF,
                           .CTAPolicy = NCCL_CONFIG_UNDEF,
                           .shrinkShare = NCCL_CONFIG_UNDEF,
                           .nvlsCTAs = NCCL_CONFIG_UNDEF};

    if (twin->min_ctas != 0) {
        config.minCTAs = twin->min_ctas;
        config.maxCTAs = STP_MAX_CHANNELS;
    }
    return p->nccl.ncclCommSplit(c->comm, 0, c->rank, &twin->comm, &config) ==
               ncclSuccess &&
           twin->comm != NULL;
}

/* Whether all kernels of a graph are symmetric ones, of NCCL 2.27 or later. */
static bool graph_is_symmetric(const struct stp_stage_cuda *cuda,
                               stp_stage_graph graph)
{
    stp_stage_node nodes[MOST_NODES];
    size_t n = MOST_NODES;
    int n_kernels = 0, n_symmetric = 0, type;

    if (cuda->graph_nodes(graph, nodes, &n) != 0)
        return false;
    for (size_t i = 0; i < n && i < MOST_NODES; i++) {
        struct stp_stage_kernel k;
        const char *name = NULL;

        if (cuda->node_type(nodes[i], &type) != 0 ||
            type != STP_STAGE_NODE_KERNEL)
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

/* Whether NCCL takes a symmetric kernel on the twin, which no function tells:
 * there may be no peer access, or windows switched off.  Looks at a call in a
 * graph that never runs. */
static bool comm_is_symmetric(struct stp_stage_process *p,
                              const struct stp_stage_comm *c,
                              const struct stp_stage_twin *twin)
{
    const size_t n_elements = 4 * (size_t)c->n_ranks;
    stp_stage_context popped;
    stp_stage_graph graph = NULL;
    cudaStream_t stream;
    bool is_symmetric = false;

    if (p->cuda.ctx_push(c->memory->context) != 0)
        return false;
    if (p->cuda.stream_create(&stream, STP_STAGE_STREAM_FREE) == 0) {
        is_symmetric =
            p->cuda.begin_capture(stream, STP_STAGE_MODE_RELAXED) == 0 &&
            p->nccl.ncclAllReduce(c->memory->at, c->memory->at, n_elements,
                                  STP_TYPE_F32, NCCL_OP_SUM, twin->comm,
                                  stream) == ncclSuccess;
        is_symmetric = p->cuda.end_capture(stream, &graph) == 0 &&
                       is_symmetric && graph_is_symmetric(&p->cuda, graph);
        if (graph != NULL)
            p->cuda.graph_destroy(graph);
        p->cuda.stream_destroy(stream);
    }
    p->cuda.ctx_pop(&popped);
    return is_symmetric;
}

/* Makes memory and twins, step by step with the other ranks; returns the vote
 * that failed, or STP_STAGE_N_VOTES. */
static int comm_make_twins(struct stp_stage_process *p,
                           struct stp_stage_comm *c,
                           struct stp_stage_meeting *meeting, size_t n_bytes,
                           stp_stage_context context)
{
    const unsigned wait_ms = p->patience_ms * STEP_FACTOR;
    int vote = STP_STAGE_VOTE_MEMORY;

    if (!stp_stage_meeting_vote(meeting, vote++,
                                memory_make(p, c, n_bytes, context), wait_ms))
        return vote - 1;
    for (int t = 0; t < c->n_twins; t++) {
        struct stp_stage_twin *twin = &c->twins[t];
        ncclWindow_t window = NULL;

        if (!stp_stage_meeting_vote(meeting, vote++, comm_split(p, c, twin),
                                    wait_ms))
            return vote - 1;
        if (!stp_stage_meeting_vote(
                meeting, vote++,
                p->nccl.ncclCommWindowRegister(
                    twin->comm, c->memory->at, c->memory->n_bytes, &window,
                    NCCL_WIN_SYMMETRIC) == ncclSuccess &&
                    window != NULL && comm_is_symmetric(p, c, twin),
                wait_ms))
            return vote - 1;
    }
    return STP_STAGE_N_VOTES;
}

/* Notes why a communicator is not staged, and says so: a process warns once, of
 * ranks that differ. */
static void comm_step_aside(struct stp_stage_process *p,
                            const struct stp_stage_comm *c, bool is_warning,
                            const char *text)
{
    bool is_silent;

    pthread_mutex_lock(&p->lock);
    is_warning = is_warning && !p->has_warned;
    p->has_warned |= is_warning;
    is_silent = !is_warning && p->n_told++ >= MOST_TOLD;
    if (p->aside_text[0] == '\0' || is_warning)
        snprintf(p->aside_text, sizeof(p->aside_text), "%s", text);
    pthread_mutex_unlock(&p->lock);
    if (!is_silent)
        stp_stage_say(
            is_warning,
            "communicator %016llx, rank %d of %d: no call is staged: %s",
            (unsigned long long)c->key, c->rank, c->n_ranks, text);
}

/* Lets the ranks agree.  Whatever it made is gone again if they do not. */
static void comm_agree(struct stp_stage_process *p, struct stp_stage_comm *c,
                       stp_stage_context context)
{
    const size_t n_bytes =
        c->why == STP_STAGE_STAGED ? comm_take_rules(p, c) : 0;
    struct stp_stage_guest guest = {
        .key = c->key, .n_ranks = c->n_ranks, .rank = c->rank};
    struct stp_stage_meeting *meeting;
    struct stp_error err;
    char text[STP_ERROR_TEXT];
    bool is_warning = false;
    int vote = STP_STAGE_VOTE_HELLO;

    if (c->why == STP_STAGE_STAGED && n_bytes == 0)
        c->why = STP_STAGE_NO_MATCH;
    memcpy(guest.part, p->part, sizeof(guest.part));
    guest.why = c->why;
    if (stp_stage_meeting_join(&guest, &meeting, &err) != STP_OK) {
        c->why = STP_STAGE_NO_MEETING;
        comm_step_aside(p, c, true, err.text);
        return;
    }
    if (stp_stage_meeting_vote(meeting, vote, c->why == STP_STAGE_STAGED,
                               p->was_lonely ? p->patience_ms / LONELY_PART
                                             : p->patience_ms))
        vote = comm_make_twins(p, c, meeting, n_bytes, context);
    if (vote < STP_STAGE_N_VOTES) {
        is_warning =
            stp_stage_meeting_explain(meeting, vote, text, sizeof(text));
        if (c->why == STP_STAGE_STAGED)
            c->why = STP_STAGE_NOT_AGREED;
        for (int t = 0; t < c->n_twins; t++)
            if (c->twins[t].comm != NULL)
                p->nccl.ncclCommAbort(c->twins[t].comm);
        c->n_twins = 0;
        stp_stage_comm_free_memory(c);
        if (is_warning)
            p->was_lonely = true;
        comm_step_aside(p, c, is_warning, text);
    }
    stp_stage_meeting_leave(meeting);
}

void stp_stage_comm_open(const struct stp_stage_birth *birth)
{
    struct stp_stage_process *p = stp_stage_process_open();
    struct stp_stage_comm *c;

    if (!p->is_on || *birth->slot == NULL)
        return;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return; /* the other ranks notice that this one does not come */
    *c = (struct stp_stage_comm){
        .comm = *birth->slot,
        .n_users = 1,
        .key = birth->key,
        .why = p->why != STP_STAGE_STAGED ? p->why : birth->why};
    if (p->nccl.ncclCommCount(c->comm, &c->n_ranks) != ncclSuccess ||
        p->nccl.ncclCommUserRank(c->comm, &c->rank) != ncclSuccess ||
        c->n_ranks < 2) {
        free(c);
        return;
    }
    if (c->why == STP_STAGE_STAGED && birth->context == NULL)
        c->why = STP_STAGE_NO_CONTEXT;
    comm_agree(p, c, birth->context);
    pthread_mutex_lock(&p->lock);
    c->next = *comm_bucket(p, c->comm);
    *comm_bucket(p, c->comm) = c;
    p->n_comms++;
    p->pid = (int)getpid();
    pthread_mutex_unlock(&p->lock);
}
