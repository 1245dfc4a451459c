#include "stage/order.h"

enum {
    MOST_SEEN = 256, /* nodes between the end of a group and its kernels */
    MOST_BEHIND = 64 /* nodes that follow a kernel when it was captured */
};

bool stp_order_capture(const struct stp_real_cuda *cuda, cudaStream_t stream,
                       unsigned long long *id)
{
    CUgraph graph;
    int status = 0;

    *id = 0;
    if (cuda->stream_get_capture == NULL)
        return true; /* there are no GPUs, or nothing is staged anyway */
    if (cuda->stream_get_capture(stream, &status, id, &graph, NULL, NULL) != 0)
        return false;
    if (status == 0)
        *id = 0;
    return status <= CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Fills in up to 'most' nodes that the stream's next one will follow, and
 * returns how many there are; 0: it is not captured. */
static size_t order_head(const struct stp_real_cuda *cuda, cudaStream_t stream,
                         CUgraph *graph, CUgraphNode *nodes, size_t most)
{
    const CUgraphNode *head;
    unsigned long long id;
    size_t n = 0;
    int status = 0;

    if (cuda->stream_get_capture(stream, &status, &id, graph, &head, &n) != 0 ||
        status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return 0;
    for (size_t i = 0; i < n && i < most; i++)
        nodes[i] = head[i];
    return n;
}

/* The event that a node waits for, or records; NULL: it does not. */
static CUevent order_event(const struct stp_real_cuda *cuda, CUgraphNode node,
                           int wanted)
{
    CUevent event = NULL;
    int type;

    if (cuda->node_type(node, &type) != 0 || type != wanted)
        return NULL;
    return (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT
                ? cuda->wait_event(node, &event)
                : cuda->record_event(node, &event)) == 0
               ? event
               : NULL;
}

/* NCCL's newest record among what follows a node: nothing follows it yet. */
static CUgraphNode order_record_behind(const struct stp_order *order,
                                       const struct stp_real_cuda *cuda,
                                       CUgraphNode node)
{
    CUgraphNode behind[MOST_BEHIND];
    struct stp_real_edge edges[MOST_BEHIND];
    size_t n = MOST_BEHIND, n_next;

    if (cuda->nodes_behind(node, behind, edges, &n) != 0)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (order_event(cuda, behind[i], CU_GRAPH_NODE_TYPE_EVENT_RECORD) ==
                order->event &&
            cuda->nodes_behind(behind[i], NULL, NULL, &n_next) == 0 &&
            n_next == 0)
            return behind[i];
    return NULL;
}

/* Finds NCCL's nodes around the kernels that it has just captured, from the
 * stream's end on back: the record behind them, and what they follow. */
static bool order_search(const struct stp_order *order,
                         const struct stp_real_cuda *cuda, cudaStream_t stream,
                         CUgraphNode *before, CUgraphNode *record)
{
    CUgraphNode seen[MOST_SEEN];
    struct stp_real_edge edges[MOST_SEEN];
    CUgraph graph;
    size_t n = order_head(cuda, stream, &graph, seen, MOST_SEEN);

    *before = *record = NULL;
    for (size_t i = 0; i < n && n <= MOST_SEEN && *before == NULL; i++) {
        size_t n_more = MOST_SEEN - n;

        if (order_event(cuda, seen[i], CU_GRAPH_NODE_TYPE_WAIT_EVENT) ==
                order->event ||
            order_event(cuda, seen[i], CU_GRAPH_NODE_TYPE_EVENT_RECORD) ==
                order->event)
            *before = seen[i];
        if (*record == NULL)
            *record = order_record_behind(order, cuda, seen[i]);
        if (n_more > 0 &&
            cuda->nodes_before(seen[i], &seen[n], edges, &n_more) != 0)
            return false;
        n += n_more;
    }
    return *before != NULL && *record != NULL;
}

bool stp_order_open(struct stp_order *order, const struct stp_real_cuda *cuda,
                    cudaStream_t stream)
{
    CUgraphNode kernel, before, record, behind[MOST_BEHIND];
    struct stp_real_edge edges[MOST_BEHIND];
    size_t n = MOST_BEHIND, n_before;
    CUgraph graph;

    if (order_head(cuda, stream, &graph, &kernel, 1) != 1 ||
        cuda->nodes_behind(kernel, behind, edges, &n) != 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        order->event =
            order_event(cuda, behind[i], CU_GRAPH_NODE_TYPE_EVENT_RECORD);
        /* A copy that NCCL's first node followed could not follow it. */
        if (order->event != NULL &&
            order_search(order, cuda, stream, &before, &record) &&
            cuda->nodes_before(before, NULL, NULL, &n_before) == 0 &&
            n_before == 0)
            return true;
    }
    return false;
}

bool stp_order_begin(const struct stp_order *order,
                     const struct stp_real_cuda *cuda, unsigned long long id,
                     cudaStream_t stream, const struct stp_copy *copy,
                     CUgraphNode *in)
{
    CUgraph graph;

    *in = NULL;
    return copy->to == NULL ||
           ((id != 0 ||
             cuda->stream_wait_event(stream, order->event, 0) == 0) &&
            cuda->copy(copy->to, copy->from, copy->n_bytes, stream) == 0 &&
            (id == 0 || order_head(cuda, stream, &graph, in, 1) == 1));
}

static bool order_end_in_capture(struct stp_order *order,
                                 const struct stp_real_cuda *cuda,
                                 unsigned long long id, cudaStream_t stream,
                                 const struct stp_copy *copy, CUgraphNode in,
                                 bool between)
{
    const bool is_here = order->id == id;
    const bool is_there = is_here && order->stream == stream;
    const bool follows = is_there && !between;
    CUgraphNode before, record, out;
    CUgraph graph;

    if (!order_search(order, cuda, stream, &before, &record) ||
        (copy->to != NULL &&
         cuda->copy(copy->to, copy->from, copy->n_bytes, stream) != 0) ||
        order_head(cuda, stream, &graph, &out, 1) == 0)
        return false;
    /* Calls of one group have one record. */
    if (is_here && order->record != record)
        before = order->record;
    if (in != NULL && !follows &&
        cuda->graph_add_edges(graph, &before, &in, 1) != 0)
        return false;
    /* This operation follows the last one, and stands for it. */
    if (follows && order->out != NULL &&
        cuda->graph_remove_edges(graph, &order->out, &order->record, 1) != 0)
        return false;
    order->out = copy->to != NULL ? out : NULL;
    order->stream =
        is_here && order->record == record && !is_there ? NULL : stream;
    order->record = record;
    order->id = id;
    return order->out == NULL ||
           cuda->graph_add_edges(graph, &order->out, &record, 1) == 0;
}

bool stp_order_end(struct stp_order *order, const struct stp_real_cuda *cuda,
                   unsigned long long id, cudaStream_t stream,
                   const struct stp_copy *copy, CUgraphNode in, bool between)
{
    bool is_done;

    if (id != 0)
        return order_end_in_capture(order, cuda, id, stream, copy, in, between);
    is_done =
        (!between || cuda->stream_wait_event(stream, order->event, 0) == 0) &&
        (copy->to == NULL ||
         cuda->copy(copy->to, copy->from, copy->n_bytes, stream) == 0);
    /* Whatever failed, memory that is copied into is in use until here. */
    if (cuda->event_record(order->event, stream) == 0)
        return is_done;
    order->is_lost = true;
    return false;
}
