/* graphs.h - NCCL's search graphs, as NCCL_GRAPH_DUMP_FILE writes them */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* The ids in the file. */
enum {
    MOCK_GRAPH_RING = 0,
    MOCK_GRAPH_TREE = 1,
    MOCK_GRAPH_COLLNET_CHAIN = 2,
    MOCK_GRAPH_NVLS = 3,
    MOCK_GRAPH_COLLNET_DIRECT = 4,
    MOCK_N_GRAPHS = 5,
};

/* The farthest link type of a path, in NCCL's order from near to far. */
enum mock_path {
    MOCK_PATH_LOC = 0,
    MOCK_PATH_NVL = 1,
    MOCK_PATH_NVB = 2,
    MOCK_PATH_PIX = 4,
    MOCK_PATH_PXB = 5,
    MOCK_PATH_P2C = 6,
    MOCK_PATH_PXN = 7,
    MOCK_PATH_PHB = 8,
    MOCK_PATH_SYS = 9,
};

/* The reason to refuse nodes of unlike sizes. */
#define MOCK_UNEVEN                                                            \
    "NCCL would tune by the mean of the nodes, which is not played"

enum {
    MOCK_PATTERN_BALANCED_TREE = 1, /* what NCCL looks for first */
    MOCK_PATTERN_TREE = 3,          /* not balanced, not split */
};

struct mock_graph {
    int pattern;
    int n_channels; /* number of search channels: half of the communicator's;
                       of rings and trees as many as both have */
    float bw_intra; /* GB/s a channel */
    float bw_inter;
    float latency_inter; /* latency of the network itself, us; 0 if the file has
                            none */
    enum mock_path type_intra;
    enum mock_path type_inter;
    int same_channels; /* all channels visit the GPUs in the same order */
    int n_heads;       /* number of GPUs that are first in some channel */
    /* the heads of CollNet Chain's channels are among them */
    bool heads_chains;
};

struct mock_graphs {
    /* all 0 for graphs that the file lacks */
    struct mock_graph graph[MOCK_N_GRAPHS];
    int per_node; /* number of GPUs in rings and trees: a file describes one
                     node */
    bool assumes_tree; /* the file has rings alone, for which NCCL searches
                          trees: they are assumed to be like the rings */
    bool on_network;   /* rings or trees leave the node through NICs */
};

/* Reads 'path', which must contain rings, and trees if any over the same
 * number of GPUs: 'per_node', unless that is 0. Graphs
 * with an id that was there before are those of another node; up to 2.24 NCCL
 * takes the pattern of trees of each node by itself, and ranks may disagree. */
ncclResult_t mock_graphs_load(const char *path, int per_node,
                              struct mock_graphs *graphs_ret);
