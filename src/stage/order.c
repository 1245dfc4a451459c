#include "stage/order.h"

#include "core/room.h"

enum { MOST_SEEN = 1024 }; /* nodes before another that are looked at */

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

bool stp_order_join(const struct stp_real_cuda *cuda, cudaStream_t stream,
                    cudaStream_t other)
{
    unsigned long long id = 0, other_id = 0;
    CUevent event;
    bool is_done;

    if (!stp_order_capture(cuda, stream, &id) ||
        !stp_order_capture(cuda, other, &other_id) || id != other_id)
        return true;
    if (cuda->event_create(&event, CU_EVENT_DISABLE_TIMING) != 0)
        return false;
    is_done = cuda->event_record(event, other) == 0 &&
              cuda->stream_wait_event(stream, event, 0) == 0;
    cuda->event_destroy(event);
    return is_done;
}

/* The nodes that the stream's next one will follow, '*n' of them, until the
 * next call of CUDA; NULL: it is not captured. */
static const CUgraphNode *order_head(const struct stp_real_cuda *cuda,
                                     cudaStream_t stream, CUgraph *graph,
                                     size_t *n)
{
    const CUgraphNode *head = NULL;
    unsigned long long id;
    int status = 0;

    *n = 0;
    if (cuda->stream_get_capture(stream, &status, &id, graph, &head, n) == 0 &&
        status == CU_STREAM_CAPTURE_STATUS_ACTIVE && *n > 0)
        return head;
    *n = 0;
    return NULL;
}

/* The type of a node that waits for an event, or records it; -1: of none. */
static int order_role(const struct stp_real_cuda *cuda, CUevent event,
                      CUgraphNode node)
{
    CUevent other = NULL;
    int type;

    return cuda->node_type(node, &type) == 0 &&
                   ((type == CU_GRAPH_NODE_TYPE_WAIT_EVENT &&
                     cuda->wait_event(node, &other) == 0) ||
                    (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD &&
                     cuda->record_event(node, &other) == 0)) &&
                   other == event
               ? type
               : -1;
}

struct order_nodes {
    CUgraphNode *list;
    size_t n, size;
};

static bool order_has(const struct order_nodes *all, CUgraphNode node)
{
    size_t i = 0;

    while (i < all->n && all->list[i] != node)
        i++;
    return i < all->n;
}

/* Adds nodes that are not there; false without memory. */
static bool order_add(struct order_nodes *all, const CUgraphNode *nodes,
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!order_has(all, nodes[i])) {
            if (!STP_ROOM(all->list, all->n, all->size))
                return false;
            all->list[all->n++] = nodes[i];
        }
    return true;
}

/* Adds the nodes before another, or behind it. */
static bool order_add_sides(struct order_nodes *all,
                            int (*get)(CUgraphNode node, CUgraphNode *nodes,
                                       struct stp_real_edge *edges, size_t *n),
                            CUgraphNode node)
{
    CUgraphNode *some = NULL;
    size_t most = 16, n = 16;
    bool is_done = true;

    while (is_done && n == most) { /* there may be more */
        free(some);
        n = most *= 2;
        some = calloc(most, sizeof(*some) + sizeof(struct stp_real_edge));
        is_done = some != NULL && get(node, some, (void *)&some[most], &n) == 0;
    }
    is_done = is_done && order_add(all, some, n);
    free(some);
    return is_done;
}

/* Finds NCCL's newest record behind a node, and what the kernels between them
 * follow that is not behind it.  Communicators that share resources have one
 * event, and a group of their calls a row of records: a copy that followed one
 * behind itself would close a circle. */
static bool order_look(const struct stp_order *order,
                       const struct stp_real_cuda *cuda, CUgraphNode node,
                       CUgraphNode *before, CUgraphNode *record)
{
    struct order_nodes behind = {0}, sides = {0};
    bool is_done = order_add(&behind, &node, 1);
    size_t n;

    *before = *record = NULL;
    for (size_t i = 0; i < behind.n && is_done; i++) {
        is_done =
            order_add_sides(&behind, cuda->nodes_behind, behind.list[i]) &&
            order_add_sides(&sides, cuda->nodes_before, behind.list[i]);
        if (*record == NULL &&
            order_role(cuda, order->event, behind.list[i]) ==
                CU_GRAPH_NODE_TYPE_EVENT_RECORD &&
            cuda->nodes_behind(behind.list[i], NULL, NULL, &n) == 0 && n == 0)
            *record = behind.list[i];
    }
    for (size_t i = 0; i < sides.n && *before == NULL; i++)
        if (!order_has(&behind, sides.list[i]) &&
            order_role(cuda, order->event, sides.list[i]) >= 0)
            *before = sides.list[i];
    free(behind.list);
    free(sides.list);
    return is_done && *before != NULL && *record != NULL;
}

/* Looks behind the copy in, or, if that is NULL, from the stream's end on back,
 * for what NCCL has just captured. */
static bool order_search(const struct stp_order *order,
                         const struct stp_real_cuda *cuda, cudaStream_t stream,
                         CUgraphNode in, CUgraphNode *before,
                         CUgraphNode *record)
{
    struct order_nodes seen = {0};
    const CUgraphNode *head;
    CUgraph graph;
    size_t n;
    bool is_found = false, is_done;

    head = order_head(cuda, stream, &graph, &n);
    is_done = in != NULL ? order_add(&seen, &in, 1) : order_add(&seen, head, n);
    for (size_t i = 0; i < seen.n && i < MOST_SEEN && is_done && !is_found;
         i++) {
        is_found = order_look(order, cuda, seen.list[i], before, record);
        is_done = order_add_sides(&seen, cuda->nodes_before, seen.list[i]);
    }
    free(seen.list);
    return is_found;
}

/* Whether a node follows all that a record does, but for records, also without
 * that one. */
static bool order_follows(const struct stp_real_cuda *cuda, CUgraphNode node,
                          CUgraphNode record)
{
    struct order_nodes due = {0}, seen = {0};
    bool is_done = order_add_sides(&due, cuda->nodes_before, record) &&
                   order_add_sides(&seen, cuda->nodes_before, node);
    size_t n_left = due.n;
    int type;

    for (size_t i = 0; i < due.n && is_done; i++)
        if (cuda->node_type(due.list[i], &type) == 0 &&
            type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
            due.list[i] = record;
            n_left--;
        }
    for (size_t i = 0; i < seen.n && i < MOST_SEEN && n_left > 0 && is_done;
         i++)
        if (seen.list[i] != record) {
            n_left -= order_has(&due, seen.list[i]);
            is_done = order_add_sides(&seen, cuda->nodes_before, seen.list[i]);
        }
    free(due.list);
    free(seen.list);
    return is_done && n_left == 0;
}

/* Puts NCCL's first node, a wait for its event, into the line of a node that
 * follows it: the wait follows what the node followed, and the node follows the
 * wait alone.  It stays where it is if anything else follows it that does not
 * follow the node.  Where CUDA refuses, the node follows both. */
static void order_line_up(const struct stp_real_cuda *cuda, CUgraph graph,
                          CUgraphNode wait, CUgraphNode node)
{
    struct order_nodes last = {0}, next = {0}, behind = {0};
    bool is_done = order_add_sides(&last, cuda->nodes_before, node) &&
                   order_add_sides(&next, cuda->nodes_behind, node) &&
                   order_add(&next, &node, 1) &&
                   order_add_sides(&behind, cuda->nodes_behind, wait);

    for (size_t i = 0; i < behind.n; i++)
        is_done = is_done && order_has(&next, behind.list[i]);
    for (size_t i = 0; i < last.n && is_done; i++)
        if (last.list[i] != wait &&
            cuda->graph_add_edges(graph, &last.list[i], &wait, 1) == 0)
            cuda->graph_remove_edges(graph, &last.list[i], &node, 1);
    for (size_t i = 0; i < behind.n && is_done; i++)
        if (behind.list[i] != node)
            cuda->graph_remove_edges(graph, &wait, &behind.list[i], 1);
    free(last.list);
    free(next.list);
    free(behind.list);
}

/* The kernel of a record that NCCL has just captured, or NULL. */
static CUgraphNode order_kernel(const struct stp_real_cuda *cuda,
                                CUgraphNode record)
{
    struct order_nodes before = {0};
    CUgraphNode kernel = NULL;
    int type;

    if (order_add_sides(&before, cuda->nodes_before, record) && before.n == 1 &&
        cuda->node_type(before.list[0], &type) == 0 &&
        type == CU_GRAPH_NODE_TYPE_KERNEL)
        kernel = before.list[0];
    free(before.list);
    return kernel;
}

/* Sets aside the records of NCCL's event that a kernel follows: its own record
 * follows them in its place.  If 'lines_up', puts a wait for the event that it
 * follows into its line.  Where CUDA refuses, the kernel goes on to wait. */
static void order_ease(const struct stp_real_cuda *cuda, CUgraph graph,
                       CUevent event, CUgraphNode kernel, CUgraphNode record,
                       bool lines_up)
{
    struct order_nodes before = {0};

    if (order_add_sides(&before, cuda->nodes_before, kernel))
        for (size_t i = 0; i < before.n; i++) {
            const CUgraphNode node = before.list[i];
            const int role = order_role(cuda, event, node);

            if (role == CU_GRAPH_NODE_TYPE_EVENT_RECORD &&
                order_follows(cuda, kernel, node) &&
                cuda->graph_add_edges(graph, &node, &record, 1) == 0)
                cuda->graph_remove_edges(graph, &node, &kernel, 1);
            if (role == CU_GRAPH_NODE_TYPE_WAIT_EVENT && lines_up)
                order_line_up(cuda, graph, node, kernel);
        }
    free(before.list);
}

/* NCCL's event, and its kernel and record, if the stream ends in one node that
 * nothing but one record follows; else NULL. */
static CUevent order_event(const struct stp_real_cuda *cuda,
                           cudaStream_t stream, CUgraph *graph,
                           CUgraphNode *kernel, CUgraphNode *record)
{
    struct order_nodes behind = {0};
    CUevent event = NULL;
    const CUgraphNode *head;
    size_t n;
    int type;

    *kernel = *record = NULL;
    head = order_head(cuda, stream, graph, &n);
    if (n == 1) {
        *kernel = *head;
        if (order_add_sides(&behind, cuda->nodes_behind, *kernel) &&
            behind.n == 1) {
            *record = behind.list[0];
            if (cuda->node_type(*record, &type) != 0 ||
                type != CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
                cuda->record_event(*record, &event) != 0)
                event = NULL;
        }
    }
    free(behind.list);
    return event;
}

void stp_order_ease(const struct stp_real_cuda *cuda, cudaStream_t stream,
                    bool between)
{
    CUgraphNode kernel, record;
    CUgraph graph;
    CUevent event = order_event(cuda, stream, &graph, &kernel, &record);

    if (event != NULL)
        order_ease(cuda, graph, event, kernel, record, !between);
}

bool stp_order_open(struct stp_order *order, const struct stp_real_cuda *cuda,
                    cudaStream_t stream)
{
    CUgraphNode before, record;
    CUgraph graph;
    size_t n;

    order->event = order_event(cuda, stream, &graph, &before, &record);
    /* A copy that NCCL's first node followed could not follow it. */
    return order->event != NULL &&
           order_search(order, cuda, stream, NULL, &before, &record) &&
           cuda->nodes_before(before, NULL, NULL, &n) == 0 && n == 0;
}

bool stp_order_begin(const struct stp_order *order,
                     const struct stp_real_cuda *cuda, unsigned long long id,
                     cudaStream_t stream, const struct stp_copy *copy,
                     CUgraphNode *in)
{
    const CUgraphNode *head;
    CUgraph graph;
    size_t n;

    *in = NULL;
    if (copy->to == NULL)
        return true;
    if ((id == 0 && cuda->stream_wait_event(stream, order->event, 0) != 0) ||
        cuda->copy(copy->to, copy->from, copy->n_bytes, stream) != 0)
        return false;
    head = id != 0 ? order_head(cuda, stream, &graph, &n) : NULL;
    if (head != NULL)
        *in = *head;
    return id == 0 || head != NULL;
}

/* Whether a node follows another with none between. */
static bool order_is_next(const struct stp_real_cuda *cuda, CUgraphNode node,
                          CUgraphNode other)
{
    struct order_nodes before = {0};
    const bool is_next = order_add_sides(&before, cuda->nodes_before, node) &&
                         order_has(&before, other);

    free(before.list);
    return is_next;
}

static bool order_end_in_capture(struct stp_order *order,
                                 const struct stp_real_cuda *cuda,
                                 unsigned long long id, cudaStream_t stream,
                                 const struct stp_copy *copy, CUgraphNode in,
                                 bool between)
{
    CUgraphNode before, record, kernel, first, out;
    const CUgraphNode *head;
    CUgraph graph;
    bool follows;
    size_t n;

    if (!order_search(order, cuda, stream, in, &before, &record) ||
        (copy->to != NULL &&
         cuda->copy(copy->to, copy->from, copy->n_bytes, stream) != 0))
        return false;
    head = order_head(cuda, stream, &graph, &n);
    if (head == NULL)
        return false;
    out = *head;
    kernel = order_kernel(cuda, record);
    if (kernel != NULL)
        order_ease(cuda, graph, order->event, kernel, record,
                   in == NULL && !between);
    /* The stream may have been led elsewhere since the last operation. */
    first = in != NULL ? in : kernel;
    follows = order->id == id && !between && first != NULL &&
              order_follows(cuda, first, order->record);
    if (in != NULL && !follows) {
        if (!order_is_next(cuda, in, before) &&
            cuda->graph_add_edges(graph, &before, &in, 1) != 0)
            return false;
        if (!between && order_role(cuda, order->event, before) ==
                            CU_GRAPH_NODE_TYPE_WAIT_EVENT)
            order_line_up(cuda, graph, before, in);
    }
    /* This operation follows the last one, and stands for it. */
    if (follows && order->out != NULL)
        cuda->graph_remove_edges(graph, &order->out, &order->record, 1);
    if (copy->to == NULL) /* without a new record, NCCL has refused the call */
        out =
            !between && order->id == id && order->record == record ? in : NULL;
    order->out = out;
    order->record = record;
    order->id = id;
    return out == NULL || cuda->graph_add_edges(graph, &out, &record, 1) == 0;
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
