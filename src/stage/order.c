#include "stage/order.h"

#include <string.h>

/* ---- captures ---- */

bool stp_capture_read(struct stp_capture *capture,
                      const struct stp_real_cuda *cuda, cudaStream_t stream)
{
    int status = 0;

    capture->id = 0;
    capture->graph = NULL;
    if (cuda->stream_get_capture == NULL)
        return true; /* there are no GPUs, or nothing is staged anyway */
    if (cuda->stream_get_capture(stream, &status, &capture->id, &capture->graph,
                                 NULL, NULL) != 0)
        return false;
    if (status == 0)
        capture->id = 0;
    return status <= CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static struct stp_in_capture *order_find(struct stp_order *order,
                                         unsigned long long id)
{
    for (int i = 0; i < STP_N_CAPTURES; i++)
        if (order->captures[i].id == id)
            return &order->captures[i];
    return NULL;
}

/* ---- the order ---- */

bool stp_order_open(struct stp_order *order, const struct stp_real_cuda *cuda)
{
    cudaStream_t stream = NULL;
    bool is_open;

    memset(order, 0, sizeof(*order));
    is_open = cuda->event_create(&order->done, CU_EVENT_DISABLE_TIMING) == 0;
    for (int i = 0; i < STP_N_CAPTURES && is_open; i++)
        is_open = cuda->event_create(&order->captures[i].last,
                                     CU_EVENT_DISABLE_TIMING) == 0;
    /* Graphs wait only for an event that was recorded once. */
    is_open = is_open &&
              cuda->stream_create(&stream, CU_STREAM_NON_BLOCKING) == 0 &&
              cuda->event_record(order->done, stream) == 0;
    if (stream != NULL)
        cuda->stream_destroy(stream);
    if (!is_open)
        stp_order_close(order, cuda);
    return is_open;
}

void stp_order_close(struct stp_order *order, const struct stp_real_cuda *cuda)
{
    for (int i = 0; i < STP_N_CAPTURES; i++)
        if (order->captures[i].last != NULL)
            cuda->event_destroy(order->captures[i].last);
    if (order->done != NULL)
        cuda->event_destroy(order->done);
    memset(order, 0, sizeof(*order));
}

static bool order_wait_in_capture(struct stp_order *order,
                                  const struct stp_real_cuda *cuda,
                                  unsigned long long id, cudaStream_t stream)
{
    struct stp_in_capture *c = order_find(order, id);

    if (c == NULL) {
        c = &order->captures[order->n_captures++ % STP_N_CAPTURES];
        c->id = id;
        c->record = NULL;
        c->n_ends = 0;
        order->was_captured = true;
    }
    if (c->record == NULL)
        return cuda->stream_wait_event(stream, order->done,
                                       CU_EVENT_WAIT_EXTERNAL) == 0;
    return c->stream == stream ||
           cuda->stream_wait_event(stream, c->last, 0) == 0;
}

bool stp_order_wait(struct stp_order *order, const struct stp_real_cuda *cuda,
                    const struct stp_capture *capture, cudaStream_t stream)
{
    if (capture->id != 0)
        return order_wait_in_capture(order, cuda, capture->id, stream);
    /* A graph may have been launched since, on any stream. */
    return (order->has_stream && order->stream == stream &&
            !order->was_captured) ||
           cuda->stream_wait_event(stream, order->done, 0) == 0;
}

static bool order_add_in_capture(struct stp_order *order,
                                 const struct stp_real_cuda *cuda,
                                 const struct stp_capture *capture,
                                 cudaStream_t stream)
{
    struct stp_in_capture *c = order_find(order, capture->id);
    unsigned long long id;
    const CUgraphNode *nodes;
    CUgraph graph;
    size_t n_nodes;
    int status;

    if (c == NULL ||
        cuda->stream_get_capture(stream, &status, &id, &graph, &nodes,
                                 &n_nodes) != 0 ||
        status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return false;
    if (c->record == NULL) {
        if (cuda->graph_add_record(&c->record, graph, nodes, n_nodes,
                                   order->done) != 0)
            return false;
    } else {
        /* This operation follows the last one, and stands for it. */
        for (size_t i = 0; i < c->n_ends; i++)
            cuda->graph_remove_edges(graph, &c->ends[i], &c->record, 1);
        for (size_t i = 0; i < n_nodes; i++) /* refused where it stands */
            cuda->graph_add_edges(graph, &nodes[i], &c->record, 1);
    }
    c->n_ends = n_nodes <= STP_N_ENDS ? n_nodes : 0;
    memcpy(c->ends, nodes, c->n_ends * sizeof(*nodes));
    c->stream = stream;
    return cuda->event_record(c->last, stream) == 0;
}

bool stp_order_add(struct stp_order *order, const struct stp_real_cuda *cuda,
                   const struct stp_capture *capture, cudaStream_t stream)
{
    if (capture->id != 0)
        return order_add_in_capture(order, cuda, capture, stream);
    order->stream = stream;
    order->has_stream = true;
    return cuda->event_record(order->done, stream) == 0;
}
