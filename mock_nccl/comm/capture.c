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
    struct mock_comm *comm;
    size_t n;
    struct mock_outcome *outcomes; /* outcome of each collective */
    size_t n_launched;
    struct mock_launched launched[]; /* those that a kernel runs */
};

ncclResult_t mock_comm_capture(struct mock_comm *comm,
                               const struct mock_call *calls, size_t n,
                               struct mock_cuda_graph **graph_ret)
{
    struct mock_cuda_graph *graph =
        calloc(1, sizeof(*graph) + n * sizeof(graph->launched[0]));
    ncclResult_t rc;

    if (graph == NULL)
        return mock_fail_memory();
    graph->comm = comm;
    graph->n = n;
    graph->outcomes = calloc(n + 1, sizeof(*graph->outcomes));
    rc = graph->outcomes == NULL
             ? mock_fail_memory()
             : mock_comm_plan(comm, calls, n, graph->outcomes, graph->launched,
                              &graph->n_launched);
    if (rc != ncclSuccess) {
        mock_graph_destroy(graph);
        return rc;
    }
    /* from now on no tuner is asked, and the capture's mask holds */
    for (size_t i = 0; i < n; i++)
        graph->outcomes[i].asked = false;
    for (size_t i = 0; i < graph->n_launched; i++) {
        struct mock_launched *launched = &graph->launched[i];

        launched->is_replay = true;
        graph->outcomes[launched->number].is_timed =
            mock_profile_is_timed(&launched->profiled);
    }
    *graph_ret = graph;
    return ncclSuccess;
}

void mock_graph_launch(const struct mock_cuda_graph *graph,
                       struct mock_outcome *outcomes_ret)
{
    memcpy(outcomes_ret, graph->outcomes,
           graph->n * sizeof(graph->outcomes[0]));
}

/* NCCL adds host functions to the graph for those that are timed. */
void mock_graph_call_back(struct mock_cuda_graph *graph,
                          struct mock_outcome *outcomes)
{
    for (size_t i = 0; i < graph->n_launched; i++)
        if (outcomes[graph->launched[i].number].is_timed) {
            mock_profile_launch(&graph->comm->listener, graph->launched,
                                graph->n_launched, outcomes);
            return;
        }
}

void mock_graph_destroy(struct mock_cuda_graph *graph)
{
    if (graph == NULL)
        return;
    free(graph->outcomes);
    free(graph);
}
