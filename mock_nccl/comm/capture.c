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

ncclResult_t mock_comm_capture(struct mock_comm *comm,
                               const struct mock_call *calls, size_t n,
                               struct mock_cuda_graph **graph_ret)
{
    struct mock_cuda_graph *graph =
        calloc(1, sizeof(*graph) + n * sizeof(graph->outcomes[0]));
    ncclResult_t rc;

    if (graph == NULL)
        return mock_fail_memory();
    rc = mock_comm_plan(comm, calls, n, graph->outcomes);
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
