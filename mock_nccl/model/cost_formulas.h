/* cost_formulas.h - the latency and the bandwidth of NCCL's cost model
 *
 * Every intermediate value has the type that it has in NCCL, float or double:
 * otherwise the tables would differ in the last bits. */
#pragma once

#include <stdbool.h>

#include "model/graphs.h"
#include "versions/versions.h"

/* The input of the formulas. */
struct mock_inputs {
    const struct mock_model_rules *rules;
    const ncclTunerConstants_v7_t *constants;
    const struct mock_graphs *graphs;
    int compcap;
    bool is_unlike; /* the compute capabilities of GPUs differ */
    int compcap_index;
    int scale; /* NCCL_TUNING_SCALE_* */
    int n_ranks;
    int n_nodes;
    int per_node;      /* ranks per node */
    int ll_row;        /* row of llMaxBws: by GPU on one node, else by CPU */
    float overhead_us; /* overhead of posting to the network; 0 on one node */
    bool ll128_near;   /* LL128 does not cross C2C: NCCL_LL128_C2C=0 */
    bool nvls;         /* the GPUs support NVLS */
    bool collnet;      /* see cost_model.h */
    int n_heads;       /* GPUs per node that send for others by CollNet */
    bool heads_chains; /* see graphs.h; for the same heads */
};

/* The search graph of an algorithm. */
const struct mock_graph *mock_graph_of(const struct mock_inputs *in, int algo);

/* True if 'n' is at most 'limit'; a limit of 0 is none. */
bool mock_within(int n, int limit);

/* floor(log2(n)); -1 for 0. */
int mock_log2(size_t n);

/* Algorithm bandwidth in GB/s; 0 if there are too few channels. */
float mock_bandwidth(const struct mock_inputs *in, int coll, int algo,
                     int proto);

/* Latency of one operation, us. */
float mock_latency(const struct mock_inputs *in, int coll, int algo, int proto);
