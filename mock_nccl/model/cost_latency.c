#include <math.h>

#include "model/cost_parts.h"

/* What one step costs. */
struct steps {
    float intra;
    float inter;
};

static int intra_hw(const struct mock_inputs *in, int algo)
{
    return mock_graph_of(in, algo)->type_intra == MOCK_PATH_NVL ? NCCL_HW_NVLINK
                                                                : NCCL_HW_PCI;
}

static float hw_latency(const struct mock_inputs *in, int hw, int algo,
                        int proto)
{
    return (float)in->constants->hwLatencies[hw][algo][proto];
}

static struct steps steps_of(const struct mock_inputs *in, int algo, int proto)
{
    float wire = mock_graph_of(in, algo)->latency_inter;
    /* Nothing hides the network's latency with one rank a node. */
    bool like_tree = in->rules->alone_like_tree && in->per_node == 1;
    int like = like_tree ? NCCL_ALGO_TREE : algo;
    struct steps steps = {
        .intra = hw_latency(in, intra_hw(in, algo), algo, proto),
        .inter = hw_latency(in, NCCL_HW_NET, like, proto),
    };

    steps.inter += wire;
    if (proto == NCCL_PROTO_SIMPLE) /* it flushes, too */
        steps.inter += wire;
    return steps;
}

/* Broadcast and reduce: one chain. */
static float chain_latency(const struct mock_inputs *in, int coll, int proto)
{
    int hw = in->n_nodes == 1 ? intra_hw(in, NCCL_ALGO_RING) : NCCL_HW_NET;
    bool same = mock_graph_of(in, NCCL_ALGO_RING)->same_channels != 0;
    bool like_tree = !same && proto == NCCL_PROTO_SIMPLE;
    float step =
        hw_latency(in, hw, like_tree ? NCCL_ALGO_TREE : NCCL_ALGO_RING, proto);

    return same ? step : (float)mock_ring_steps(coll, in->n_ranks) * step;
}

static float ring_latency(const struct mock_inputs *in, int coll, int proto)
{
    struct steps step = steps_of(in, NCCL_ALGO_RING, proto);
    float overhead = in->overhead_us;
    int n_steps = mock_ring_steps(coll, in->n_ranks);
    int n_inter = in->n_nodes - 1;

    if (coll == ncclFuncBroadcast || coll == ncclFuncReduce)
        return chain_latency(in, coll, proto);
    if (coll == ncclFuncAllReduce)
        n_inter = 2 * (in->rules->crosses_twice && in->n_nodes > 1 ? in->n_nodes
                                                                   : n_inter);
    if (proto == NCCL_PROTO_SIMPLE)
        overhead *= 3;
    return (float)(n_steps - n_inter) * fmaxf(step.intra, overhead) +
           (float)n_inter * step.inter;
}

static float tree_latency(const struct mock_inputs *in, int proto)
{
    struct steps step = steps_of(in, NCCL_ALGO_TREE, proto);

    return 2 * ((float)(in->per_node - 1) * step.intra +
                (float)mock_log2((size_t)in->n_nodes) * step.inter);
}

static float collnet_chain_latency(const struct mock_inputs *in, int proto)
{
    struct steps step = steps_of(in, NCCL_ALGO_COLLNET_CHAIN, proto);

    return (float)(2 * (in->per_node - 1)) * step.intra + step.inter;
}

static double collnet_direct_latency(const struct mock_inputs *in, int proto)
{
    struct steps step = steps_of(in, NCCL_ALGO_COLLNET_DIRECT, proto);
    int others = in->per_node - 1;

    return 2 * ((float)(others < 1 ? others : 1) * step.intra + others * 0.4) +
           step.inter;
}

static float nvls_latency(const struct mock_inputs *in, int algo, int proto)
{
    struct steps step = steps_of(in, algo, proto);

    if (algo == NCCL_ALGO_NVLS_TREE)
        return step.intra +
               (float)(2 * mock_log2((size_t)in->n_nodes)) * step.inter;
    return in->n_nodes > 1 ? step.intra + step.inter : step.intra;
}

static double pat_latency(const struct mock_inputs *in, float base, int proto)
{
    struct steps step = steps_of(in, NCCL_ALGO_PAT, proto);
    double waits = mock_log2((size_t)in->n_nodes) * (step.inter / 3.5);
    double work = in->n_ranks * 2.8;

    return in->rules->pat_base_first ? base + waits + work
                                     : base + (waits + work);
}

float mock_latency(const struct mock_inputs *in, int coll, int algo, int proto)
{
    float base = (float)in->constants->baseLatencies[algo][proto];

    switch (algo) {
    case NCCL_ALGO_RING:
        return base + ring_latency(in, coll, proto);
    case NCCL_ALGO_TREE:
        return base + tree_latency(in, proto);
    case NCCL_ALGO_COLLNET_DIRECT:
        return (float)(base + collnet_direct_latency(in, proto));
    case NCCL_ALGO_COLLNET_CHAIN:
        return base + collnet_chain_latency(in, proto);
    case NCCL_ALGO_NVLS: /* without its base: NCCL drops it */
        return nvls_latency(in, algo, proto);
    case NCCL_ALGO_NVLS_TREE:
        return base + nvls_latency(in, algo, proto);
    default:
        return (float)pat_latency(in, base, proto);
    }
}
