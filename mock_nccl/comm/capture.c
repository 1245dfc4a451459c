/*
 * capture.c - collectives in a CUDA graph
 *
 * NCCL plans a captured collective once, and the graph's launches repeat
 * the plan.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"

struct mock_cuda_graph {
    size_t n;
    struct mock_outcome outcomes[]; /* outcome of each collective */
};

/* Copies of the calls, marked as captured; free them. */
static struct mock_call *capture_copy(const struct mock_call *calls, size_t n)
{
    struct mock_call *copy = calloc(n + 1, sizeof(*copy));

    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = calls[i];
        copy[i].reg_buff = 1;
    }
    return copy;
}

ncclResult_t mock_comm_capture(struct mock_comm *comm,
                               const struct mock_call *calls, size_t n,
                               struct mock_cuda_graph **graph_ret)
{
    struct mock_cuda_graph *graph =
        calloc(1, sizeof(*graph) + n * sizeof(graph->outcomes[0]));
    struct mock_call *copy = capture_copy(calls, n);
    ncclResult_t rc;

    if (graph == NULL || copy == NULL)
        rc = mock_fail_memory();
    else
        rc = mock_comm_plan(comm, copy, n, graph->outcomes);
    free(copy);
    if (rc != ncclSuccess) {
        free(graph);
        return rc;
    }
    for (size_t i = 0; i < n; i++)
        graph->outcomes[i].asked = false; /* from now on */
    graph->n = n;
    *graph_ret = graph;
    return ncclSuccess;
}

void mock_graph_launch(const struct mock_cuda_graph *graph,
                       struct mock_outcome *outcomes_ret)
{
    memcpy(outcomes_ret, graph->outcomes,
           graph->n * sizeof(graph->outcomes[0]));
}

void mock_graph_destroy(struct mock_cuda_graph *graph)
{
    free(graph);
}
