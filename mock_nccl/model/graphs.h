/*
 * graphs.h - NCCL's search graphs, as NCCL_GRAPH_DUMP_FILE writes them
 */
#ifndef MOCK_GRAPHS_H
#define MOCK_GRAPHS_H

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

/* What a path crosses at worst, in NCCL's order from near to far. */
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

enum { MOCK_PATTERN_TREE = 3 }; /* not balanced, not split */

struct mock_graph {
    int pattern;
    int n_channels; /* of the search: half of the communicator's */
    float bw_intra; /* GB/s a channel */
    float bw_inter;
    float latency_inter; /* us of the network itself; 0 if not in the file */
    enum mock_path type_intra;
    enum mock_path type_inter;
    int same_channels; /* all channels visit the GPUs in one order */
    int n_heads;       /* GPUs that come first in some channel */
    bool
        heads_chains; /* and those of CollNet Chain's channels are among them */
};

struct mock_graphs {
    struct mock_graph graph[MOCK_N_GRAPHS]; /* all 0 if not in the file */
    int per_node; /* GPUs that rings and trees visit: a file shows one node */
    bool on_network; /* rings or trees leave the node through NICs */
};

/*
 * Reads 'path', in which rings and trees must be there and must all visit as
 * many GPUs: 'per_node', if that is not 0.
 */
ncclResult_t mock_graphs_load(const char *path, int per_node,
                              struct mock_graphs *graphs_ret);

#endif /* MOCK_GRAPHS_H */
