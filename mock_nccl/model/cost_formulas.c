/* cost_formulas.c - the terms of ncclTopoTuneModel(), in NCCL's
 * src/graph/tuning.cc */
#include "model/cost_formulas.h"

#include <float.h>
#include <math.h>

const struct mock_graph *mock_graph_of(const struct mock_inputs *in, int algo)
{
    static const int graphs[NCCL_NUM_ALGORITHMS] = {
        [NCCL_ALGO_TREE] = MOCK_GRAPH_TREE,
        [NCCL_ALGO_RING] = MOCK_GRAPH_RING,
        [NCCL_ALGO_COLLNET_DIRECT] = MOCK_GRAPH_COLLNET_DIRECT,
        [NCCL_ALGO_COLLNET_CHAIN] = MOCK_GRAPH_COLLNET_CHAIN,
        [NCCL_ALGO_NVLS] = MOCK_GRAPH_NVLS,
        [NCCL_ALGO_NVLS_TREE] = MOCK_GRAPH_NVLS,
        [NCCL_ALGO_PAT] = MOCK_GRAPH_TREE,
    };

    return &in->graphs->graph[graphs[algo]];
}

static int cost_ring_steps(int coll, int n_ranks)
{
    if (coll == ncclFuncAllReduce)
        return 2 * (n_ranks - 1);
    if (coll == ncclFuncAllGather || coll == ncclFuncReduceScatter)
        return n_ranks - 1;
    return n_ranks;
}

bool mock_within(int n, int limit)
{
    return limit == 0 || n <= limit;
}

int mock_log2(size_t n)
{
    return n == 0 ? -1 : 63 - __builtin_clzll(n);
}

/* ---- bandwidth ---- */

/* nvlsEfficiency: the share of the graph's bandwidth that NVLS reaches within a
 * node. A tuner cannot edit it. */
static const float nvls_efficiency[NCCL_NUM_COMPCAPS] = {
    [NCCL_HOPPER_COMPCAP_IDX] = .85f,
    [NCCL_BLACKWELL_COMPCAP_IDX] = .74f,
};

static double cost_formulas_limit(const struct mock_inputs *in,
                                  const double (*table)[NCCL_NUM_TUNING_SCALES])
{
    return table[in->compcap_index][in->scale];
}

static double cost_ll_limit(const struct mock_inputs *in)
{
    return in->constants->llMaxBws[in->ll_row][in->scale];
}

/* From three nodes on NCCL takes the bandwidth between nodes. */
static float cost_channel_bw(const struct mock_inputs *in,
                             const struct mock_graph *graph)
{
    return in->n_nodes <= 2 ? graph->bw_intra : graph->bw_inter;
}

static float cost_ring_bus_bw(const struct mock_inputs *in, int proto)
{
    const struct mock_graph *ring = mock_graph_of(in, NCCL_ALGO_RING);
    double ll128 = in->per_node < 2 ? in->rules->ring_ll128_alone : .92;
    bool by_network =
        in->rules->slower_links && in->compcap >= 100 && in->n_nodes == 2;
    float bus = (float)ring->n_channels *
                (by_network ? ring->bw_inter : cost_channel_bw(in, ring));

    if (proto == NCCL_PROTO_LL)
        return (float)fmin(cost_ll_limit(in), bus * .5);
    if (proto == NCCL_PROTO_LL128)
        return (float)fmin(
            bus * ll128,
            ring->n_channels *
                cost_formulas_limit(in, in->constants->perChMaxRingLL128Bws));
    return bus;
}

static float cost_tree_bus_bw(const struct mock_inputs *in, int proto)
{
    const ncclTunerConstants_v7_t *k = in->constants;
    const struct mock_graph *tree = mock_graph_of(in, NCCL_ALGO_TREE);
    bool is_slower = in->rules->slower_links && in->compcap >= 100;
    float bus = (float)tree->n_channels *
                (is_slower ? fminf(tree->bw_inter, tree->bw_intra)
                           : cost_channel_bw(in, tree));
    double ll128 = in->n_nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0;

    bus =
        (float)fmin(bus * .92, tree->n_channels *
                                   cost_formulas_limit(in, k->perChMaxTreeBws));
    if (proto == NCCL_PROTO_LL)
        bus = (float)fmin(bus * 1.0 / 3.8, cost_ll_limit(in));
    if (proto == NCCL_PROTO_LL128)
        bus = (float)fmin(bus * ll128,
                          tree->n_channels *
                              cost_formulas_limit(in, k->perChMaxTreeLL128Bws));
    if (tree->pattern == MOCK_PATTERN_TREE)
        bus = (float)(bus * .85);
    return bus;
}

static float cost_nvls_bus_bw(const struct mock_inputs *in, int coll, int algo)
{
    const struct mock_graph *nvls = mock_graph_of(in, algo);
    bool is_tree = algo == NCCL_ALGO_NVLS_TREE;
    float per_node = (float)in->n_ranks / (float)in->n_nodes;
    float n = (float)nvls->n_channels;
    float most =
        is_tree
            ? (float)cost_formulas_limit(in, in->constants->perChMaxNVLSTreeBws)
            : FLT_MAX;
    float intra = nvls->bw_intra;
    float inter = nvls->bw_inter;

    if (in->rules->nvls != MOCK_NVLS_EFFICIENCY) {
        /* up to 2.27: the bandwidth of the slower links */
        if (is_tree) {
            inter = in->n_nodes <= 2 ? inter : inter / 2;
        } else if (in->rules->nvls == MOCK_NVLS_GATHERS &&
                   coll != ncclFuncAllReduce) {
            intra = intra * (per_node - 1) / per_node;
            inter *= .9f;
        }
        return n * fminf(intra, inter);
    }
    if (nvls->n_channels < 2)
        return 0;
    intra = nvls->bw_intra * nvls_efficiency[in->compcap_index] * (n - 1) / n;
    intra *= coll == ncclFuncAllReduce ? 2.0f : (per_node - 1) / per_node;
    inter = nvls->bw_inter * (in->n_nodes <= 2 && is_tree ? 2.0f : 1.0f);
    return n * fminf(fminf(intra, inter), most);
}

static float cost_collnet_direct_bus_bw(const struct mock_inputs *in, int coll)
{
    const struct mock_graph *graph =
        mock_graph_of(in, NCCL_ALGO_COLLNET_DIRECT);
    float per_node = (float)in->n_ranks / (float)in->n_nodes;
    float bus = (float)graph->n_channels * graph->bw_intra;
    float factor; /* GPUs per NIC, of which NCCL takes the mean
                     with 1: every GPU should have a NIC for full speed */

    if (graph->n_channels == 0)
        return 0;
    if (coll != ncclFuncAllReduce && in->rules->direct_by_ranks) {
        float weight = (per_node - 1) / (8 - 1);

        bus = per_node * graph->bw_intra;
        return (float)(bus * (weight * .85 + (1 - weight) * .95));
    }
    if (coll != ncclFuncAllReduce)
        return per_node * fminf(graph->bw_intra, graph->bw_inter * .9f);
    factor = (float)(per_node / (1.0 * graph->n_channels));
    factor -= (factor - 1) / 2;
    bus /= factor;
    return in->compcap >= 90 ? (float)(bus * .85) : bus;
}

/* The bus bandwidth: NCCL's busBw before its conversion. */
static float cost_bus_bw(const struct mock_inputs *in, int coll, int algo,
                         int proto)
{
    const struct mock_graph *graph = mock_graph_of(in, algo);
    const float n = (float)graph->n_channels;

    switch (algo) {
    case NCCL_ALGO_RING:
        return cost_ring_bus_bw(in, proto);
    case NCCL_ALGO_TREE:
        return cost_tree_bus_bw(in, proto);
    case NCCL_ALGO_NVLS:
    case NCCL_ALGO_NVLS_TREE:
        return cost_nvls_bus_bw(in, coll, algo);
    case NCCL_ALGO_PAT:
        return (float)(n *
                       (in->rules->slower_links
                            ? fminf(graph->bw_inter, graph->bw_intra)
                            : cost_channel_bw(in, graph)) *
                       in->rules->pat_share);
    case NCCL_ALGO_COLLNET_DIRECT:
        return cost_collnet_direct_bus_bw(in, coll);
    default:
        return n * graph->bw_intra;
    }
}

float mock_bandwidth(const struct mock_inputs *in, int coll, int algo,
                     int proto)
{
    const struct mock_model_rules *rules = in->rules;
    const bool is_nvls = algo == NCCL_ALGO_NVLS || algo == NCCL_ALGO_NVLS_TREE;
    const bool is_efficiency = rules->nvls == MOCK_NVLS_EFFICIENCY;
    const bool is_collnet =
        algo == NCCL_ALGO_COLLNET_DIRECT || algo == NCCL_ALGO_COLLNET_CHAIN;
    const bool gathers =
        coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    /* between nodes some need every GPU of a node as a head */
    const bool needs_heads =
        gathers ? algo == NCCL_ALGO_COLLNET_DIRECT ||
                      (algo == NCCL_ALGO_NVLS && rules->heads_for_nvls)
                : is_collnet && rules->collnet_on_heads;
    int n_steps = cost_ring_steps(coll, in->n_ranks);
    float bus;

    if (needs_heads && in->n_nodes > 1 && in->per_node > in->n_heads)
        return 0;
    bus = cost_bus_bw(in, coll, algo, proto);
    /* the ratio of algorithm to bus bandwidth: of rings by their steps */
    if (is_nvls ? is_efficiency && !gathers : algo == NCCL_ALGO_RING)
        return rules->ratio_last ? bus * (float)in->n_ranks / (float)n_steps
                                 : bus * (float)((1.0 * in->n_ranks) / n_steps);
    if (is_nvls && gathers && !rules->scales_nvls_gathers)
        return bus;
    if (is_nvls && !is_efficiency)
        return bus * (float)(5.0 / 6.0);
    return gathers ? bus : bus * .5f;
}

/* ---- latency ---- */

/* The latency of one step. */
struct steps {
    float intra;
    float inter;
};

static int cost_intra_hw(const struct mock_inputs *in, int algo)
{
    return mock_graph_of(in, algo)->type_intra == MOCK_PATH_NVL ? NCCL_HW_NVLINK
                                                                : NCCL_HW_PCI;
}

static float cost_hw_latency(const struct mock_inputs *in, int hw, int algo,
                             int proto)
{
    return (float)in->constants->hwLatencies[hw][algo][proto];
}

static struct steps cost_count_steps(const struct mock_inputs *in, int algo,
                                     int proto)
{
    float wire = mock_graph_of(in, algo)->latency_inter;
    /* With one rank per node NCCL takes the tree's latency of the network. */
    bool like_tree = in->per_node == 1 &&
                     (algo == NCCL_ALGO_RING ? in->rules->alone_like_tree
                                             : in->rules->all_like_tree);
    int like = like_tree ? NCCL_ALGO_TREE : algo;
    struct steps steps = {
        .intra = cost_hw_latency(in, cost_intra_hw(in, algo), algo, proto),
        .inter = cost_hw_latency(in, NCCL_HW_NET, like, proto),
    };

    steps.inter += wire;
    /* the receiver also flushes, which takes as long */
    if (proto == NCCL_PROTO_SIMPLE &&
        (algo != NCCL_ALGO_PAT || in->rules->pat_flushes))
        steps.inter += wire;
    return steps;
}

static float cost_ring_latency(const struct mock_inputs *in, int coll,
                               int proto)
{
    struct steps step = cost_count_steps(in, NCCL_ALGO_RING, proto);
    float overhead = in->overhead_us;
    int n_steps = cost_ring_steps(coll, in->n_ranks);
    int n_inter = in->n_nodes - 1;

    /* One step if all channels visit the GPUs in the same order, else a step
     * per rank, with Simple of the tree's latency. */
    if (coll == ncclFuncBroadcast || coll == ncclFuncReduce) {
        int hw =
            in->n_nodes == 1 ? cost_intra_hw(in, NCCL_ALGO_RING) : NCCL_HW_NET;
        bool same = mock_graph_of(in, NCCL_ALGO_RING)->same_channels != 0;
        bool like_tree = !same && proto == NCCL_PROTO_SIMPLE;
        float each = cost_hw_latency(
            in, hw, like_tree ? NCCL_ALGO_TREE : NCCL_ALGO_RING, proto);

        return same ? each : (float)n_steps * each;
    }
    if (coll == ncclFuncAllReduce)
        n_inter = 2 * (in->rules->crosses_twice && in->n_nodes > 1 ? in->n_nodes
                                                                   : n_inter);
    if (proto == NCCL_PROTO_SIMPLE)
        overhead *= 3;
    return (float)(n_steps - n_inter) * fmaxf(step.intra, overhead) +
           (float)n_inter * step.inter;
}

float mock_latency(const struct mock_inputs *in, int coll, int algo, int proto)
{
    const struct steps step = cost_count_steps(in, algo, proto);
    const int others = in->per_node - 1;
    const int log2_nodes = mock_log2((size_t)in->n_nodes);
    float base = (float)in->constants->baseLatencies[algo][proto];

    switch (algo) {
    case NCCL_ALGO_RING:
        return base + cost_ring_latency(in, coll, proto);
    case NCCL_ALGO_TREE:
        return base + 2 * ((float)others * step.intra +
                           (float)log2_nodes * step.inter);
    case NCCL_ALGO_COLLNET_DIRECT:
        return (float)(base +
                       (2 * ((float)(others < 1 ? others : 1) * step.intra +
                             others * 0.4) +
                        step.inter));
    case NCCL_ALGO_COLLNET_CHAIN:
        return base + ((float)(2 * others) * step.intra + step.inter);
    case NCCL_ALGO_NVLS: /* without its base latency, which NCCL drops */
        return in->n_nodes > 1 ? step.intra + step.inter : step.intra;
    case NCCL_ALGO_NVLS_TREE:
        return base + (step.intra + (float)(2 * log2_nodes) * step.inter);
    default: {
        double waits = log2_nodes * (step.inter / 3.5);
        double work = in->n_ranks * 2.8;

        return (float)(in->rules->pat_base_first ? base + waits + work
                                                 : base + (waits + work));
    }
    }
}
