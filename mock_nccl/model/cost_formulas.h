/*
 * cost_formulas.h - the latency and the bandwidth of NCCL's cost model
 *
 * Every intermediate value is a float or a double exactly where NCCL has one:
 * the tables agree to the last bit only so.
 */
#ifndef MOCK_COST_FORMULAS_H
#define MOCK_COST_FORMULAS_H

#include <stdbool.h>

#include "model/graphs.h"
#include "versions/model_rules.h"

/* What the formulas read. */
struct mock_inputs {
    const struct mock_model_rules *rules;
    const ncclTunerConstants_v5_t *constants;
    const struct mock_graphs *graphs;
    int compcap;
    int compcap_index;
    int scale; /* NCCL_TUNING_SCALE_* */
    int n_ranks;
    int n_nodes;
    int per_node;      /* ranks */
    int ll_row;        /* of llMaxBws: by GPU on one node, else by CPU */
    float overhead_us; /* of posting to the network; 0 on one node */
    bool nvls;         /* the GPUs have it */
    bool collnet;      /* see user_choice.h */
    int n_heads;       /* GPUs of a node that send for others by CollNet */
    bool heads_chains; /* see graphs.h; of the same heads */
};

/* The graph that an algorithm runs on. */
const struct mock_graph *mock_graph_of(const struct mock_inputs *in, int algo);

/* The steps of a ring. */
int mock_ring_steps(int coll, int n_ranks);

/* Whether 'n' is within a limit; 0 is none. */
bool mock_within(int n, int limit);

/* floor(log2(n)); -1 for 0. */
int mock_log2(size_t n);

/* GB/s as the caller sees it; 0 if there are too few channels. */
float mock_bandwidth(const struct mock_inputs *in, int coll, int algo,
                     int proto);

/* us for one operation. */
float mock_latency(const struct mock_inputs *in, int coll, int algo, int proto);

#endif /* MOCK_COST_FORMULAS_H */
