/*
 * cost_formulas.c - the terms of ncclTopoTuneModel(), in NCCL's
 * src/graph/tuning.cc
 */
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

int mock_ring_steps(int coll, int n_ranks)
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

static float cost_slower_bw(const struct mock_graph *graph)
{
    return fminf(graph->bw_inter, graph->bw_intra);
}

static bool cost_is_blackwell(const struct mock_inputs *in)
{
    return in->compcap >= 100;
}

static float cost_ring_channel_bw(const struct mock_inputs *in,
                                  const struct mock_graph *ring)
{
    if (in->rules->slower_links && cost_is_blackwell(in) && in->n_nodes == 2)
        return ring->bw_inter;
    return cost_channel_bw(in, ring);
}

static float cost_tree_channel_bw(const struct mock_inputs *in,
                                  const struct mock_graph *tree)
{
    if (in->rules->slower_links && cost_is_blackwell(in))
        return cost_slower_bw(tree);
    return cost_channel_bw(in, tree);
}

static float cost_ring_bus_bw(const struct mock_inputs *in, int proto)
{
    const struct mock_graph *ring = mock_graph_of(in, NCCL_ALGO_RING);
    double ll128 = in->per_node < 2 ? in->rules->ring_ll128_alone : .92;
    float bus = (float)ring->n_channels * cost_ring_channel_bw(in, ring);

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
    float bus = (float)tree->n_channels * cost_tree_channel_bw(in, tree);
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

/* Up to 2.27: the bandwidth of the slower links. */
static float cost_nvls_slowest(const struct mock_inputs *in, int coll, int algo)
{
    const struct mock_graph *nvls = mock_graph_of(in, algo);
    float per_node = (float)in->n_ranks / (float)in->n_nodes;
    float intra = nvls->bw_intra;
    float inter = nvls->bw_inter;

    if (algo == NCCL_ALGO_NVLS_TREE) {
        inter = in->n_nodes <= 2 ? inter : inter / 2;
    } else if (in->rules->nvls == MOCK_NVLS_GATHERS &&
               coll != ncclFuncAllReduce) {
        intra = intra * (per_node - 1) / per_node;
        inter *= .9f;
    }
    return (float)nvls->n_channels * fminf(intra, inter);
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
    float intra;
    float inter;

    if (in->rules->nvls != MOCK_NVLS_EFFICIENCY)
        return cost_nvls_slowest(in, coll, algo);
    if (nvls->n_channels < 2)
        return 0;
    intra = nvls->bw_intra * nvls_efficiency[in->compcap_index] * (n - 1) / n;
    intra *= coll == ncclFuncAllReduce ? 2.0f : (per_node - 1) / per_node;
    inter = nvls->bw_inter * (in->n_nodes <= 2 && is_tree ? 2.0f : 1.0f);
    return n * fminf(fminf(intra, inter), most);
}

static float cost_pat_bus_bw(const struct mock_inputs *in)
{
    const struct mock_graph *graph = mock_graph_of(in, NCCL_ALGO_PAT);
    float bus = (float)graph->n_channels * (in->rules->slower_links
                                                ? cost_slower_bw(graph)
                                                : cost_channel_bw(in, graph));

    return (float)(bus * in->rules->pat_share);
}

/* The bus bandwidth of CollNet Direct for allgather and reducescatter. */
static float cost_collnet_direct_gather_bw(const struct mock_inputs *in)
{
    const struct mock_graph *graph =
        mock_graph_of(in, NCCL_ALGO_COLLNET_DIRECT);
    float per_node = (float)in->n_ranks / (float)in->n_nodes;
    float bus = per_node * graph->bw_intra;
    float weight = (per_node - 1) / (8 - 1);

    if (in->rules->direct_by_ranks)
        return (float)(bus * (weight * .85 + (1 - weight) * .95));
    return per_node * fminf(graph->bw_intra, graph->bw_inter * .9f);
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
    if (coll != ncclFuncAllReduce)
        return cost_collnet_direct_gather_bw(in);
    factor = (float)(per_node / (1.0 * graph->n_channels));
    factor -= (factor - 1) / 2;
    bus /= factor;
    return in->compcap >= 90 ? (float)(bus * .85) : bus;
}

static float cost_collnet_chain_bus_bw(const struct mock_inputs *in)
{
    const struct mock_graph *graph = mock_graph_of(in, NCCL_ALGO_COLLNET_CHAIN);

    return (float)graph->n_channels * graph->bw_intra;
}

/* The bus bandwidth: NCCL's busBw before its conversion. */
static float cost_bus_bw(const struct mock_inputs *in, int coll, int algo,
                         int proto)
{
    switch (algo) {
    case NCCL_ALGO_RING:
        return cost_ring_bus_bw(in, proto);
    case NCCL_ALGO_TREE:
        return cost_tree_bus_bw(in, proto);
    case NCCL_ALGO_NVLS:
    case NCCL_ALGO_NVLS_TREE:
        return cost_nvls_bus_bw(in, coll, algo);
    case NCCL_ALGO_PAT:
        return cost_pat_bus_bw(in);
    case NCCL_ALGO_COLLNET_DIRECT:
        return cost_collnet_direct_bus_bw(in, coll);
    default:
        return cost_collnet_chain_bus_bw(in);
    }
}

static bool cost_gathers(int coll)
{
    return coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
}

/* Between nodes an allgather or reducescatter by CollNet Direct or NVLS needs
 * every GPU of a node as a head. */
static bool cost_lacks_heads(const struct mock_inputs *in, int coll, int algo)
{
    bool is_collnet =
        algo == NCCL_ALGO_COLLNET_DIRECT || algo == NCCL_ALGO_COLLNET_CHAIN;
    bool counts =
        cost_gathers(coll)
            ? algo == NCCL_ALGO_COLLNET_DIRECT ||
                  (algo == NCCL_ALGO_NVLS && in->rules->heads_for_nvls)
            : is_collnet && in->rules->collnet_on_heads;

    return counts && in->n_nodes > 1 && in->per_node > in->n_heads;
}

static bool cost_is_nvls(int algo)
{
    return algo == NCCL_ALGO_NVLS || algo == NCCL_ALGO_NVLS_TREE;
}

/* The ratio of algorithm bandwidth to bus bandwidth; rings apart. */
static float cost_seen(const struct mock_inputs *in, int coll, int algo)
{
    if (cost_is_nvls(algo) && in->rules->nvls != MOCK_NVLS_EFFICIENCY)
        return (float)(5.0 / 6.0);
    return cost_gathers(coll) ? 1 : .5f;
}

static bool cost_is_like_ring(const struct mock_inputs *in, int coll, int algo)
{
    if (cost_is_nvls(algo))
        return in->rules->nvls == MOCK_NVLS_EFFICIENCY && !cost_gathers(coll);
    return algo == NCCL_ALGO_RING;
}

/* Of a ring: n ranks in so many steps. */
static float cost_apply_steps(const struct mock_inputs *in, int coll, float bus)
{
    int n_steps = mock_ring_steps(coll, in->n_ranks);

    if (in->rules->ratio_last)
        return bus * (float)in->n_ranks / (float)n_steps;
    return bus * (float)((1.0 * in->n_ranks) / n_steps);
}

float mock_bandwidth(const struct mock_inputs *in, int coll, int algo,
                     int proto)
{
    float bus;

    if (cost_lacks_heads(in, coll, algo))
        return 0;
    bus = cost_bus_bw(in, coll, algo, proto);
    if (cost_is_like_ring(in, coll, algo))
        return cost_apply_steps(in, coll, bus);
    if (cost_is_nvls(algo) && cost_gathers(coll) &&
        !in->rules->scales_nvls_gathers)
        return bus;
    return bus * cost_seen(in, coll, algo);
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

/* Broadcast and reduce: one step if all channels visit the GPUs in the same
 * order, else a step per rank, with Simple of the tree's latency. */
static float cost_chain_latency(const struct mock_inputs *in, int coll,
                                int proto)
{
    int hw = in->n_nodes == 1 ? cost_intra_hw(in, NCCL_ALGO_RING) : NCCL_HW_NET;
    bool same = mock_graph_of(in, NCCL_ALGO_RING)->same_channels != 0;
    bool like_tree = !same && proto == NCCL_PROTO_SIMPLE;
    float step = cost_hw_latency(
        in, hw, like_tree ? NCCL_ALGO_TREE : NCCL_ALGO_RING, proto);

    return same ? step : (float)mock_ring_steps(coll, in->n_ranks) * step;
}

static float cost_ring_latency(const struct mock_inputs *in, int coll,
                               int proto)
{
    struct steps step = cost_count_steps(in, NCCL_ALGO_RING, proto);
    float overhead = in->overhead_us;
    int n_steps = mock_ring_steps(coll, in->n_ranks);
    int n_inter = in->n_nodes - 1;

    if (coll == ncclFuncBroadcast || coll == ncclFuncReduce)
        return cost_chain_latency(in, coll, proto);
    if (coll == ncclFuncAllReduce)
        n_inter = 2 * (in->rules->crosses_twice && in->n_nodes > 1 ? in->n_nodes
                                                                   : n_inter);
    if (proto == NCCL_PROTO_SIMPLE)
        overhead *= 3;
    return (float)(n_steps - n_inter) * fmaxf(step.intra, overhead) +
           (float)n_inter * step.inter;
}

static float cost_tree_latency(const struct mock_inputs *in, int proto)
{
    struct steps step = cost_count_steps(in, NCCL_ALGO_TREE, proto);

    return 2 * ((float)(in->per_node - 1) * step.intra +
                (float)mock_log2((size_t)in->n_nodes) * step.inter);
}

static float cost_collnet_chain_latency(const struct mock_inputs *in, int proto)
{
    struct steps step = cost_count_steps(in, NCCL_ALGO_COLLNET_CHAIN, proto);

    return (float)(2 * (in->per_node - 1)) * step.intra + step.inter;
}

static double cost_collnet_direct_latency(const struct mock_inputs *in,
                                          int proto)
{
    struct steps step = cost_count_steps(in, NCCL_ALGO_COLLNET_DIRECT, proto);
    int others = in->per_node - 1;

    return 2 * ((float)(others < 1 ? others : 1) * step.intra + others * 0.4) +
           step.inter;
}

static float cost_nvls_latency(const struct mock_inputs *in, int algo,
                               int proto)
{
    struct steps step = cost_count_steps(in, algo, proto);

    if (algo == NCCL_ALGO_NVLS_TREE)
        return step.intra +
               (float)(2 * mock_log2((size_t)in->n_nodes)) * step.inter;
    return in->n_nodes > 1 ? step.intra + step.inter : step.intra;
}

static double cost_pat_latency(const struct mock_inputs *in, float base,
                               int proto)
{
    struct steps step = cost_count_steps(in, NCCL_ALGO_PAT, proto);
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
        return base + cost_ring_latency(in, coll, proto);
    case NCCL_ALGO_TREE:
        return base + cost_tree_latency(in, proto);
    case NCCL_ALGO_COLLNET_DIRECT:
        return (float)(base + cost_collnet_direct_latency(in, proto));
    case NCCL_ALGO_COLLNET_CHAIN:
        return base + cost_collnet_chain_latency(in, proto);
    case NCCL_ALGO_NVLS: /* without its base latency, which NCCL drops */
        return cost_nvls_latency(in, algo, proto);
    case NCCL_ALGO_NVLS_TREE:
        return base + cost_nvls_latency(in, algo, proto);
    default:
        return (float)cost_pat_latency(in, base, proto);
    }
}
