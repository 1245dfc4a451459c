#include "cost_model.h"

#include <math.h>
#include <string.h>

/* Every intermediate value is a float or a double exactly where NCCL has one:
 * the tables agree to the last bit only so. */

// clang-format off
const ncclTunerConstants_v5_t mock_default_constants = {
    .baseLatencies = {
        [NCCL_ALGO_TREE] = {6.8, 14.0, 8.4},
        [NCCL_ALGO_RING] = {6.6, 14.0, 8.4},
        [NCCL_ALGO_PAT] = {8.0, 8.0, 8.0},
    },
    .hwLatencies = {
        [NCCL_HW_NVLINK] = {
            [NCCL_ALGO_TREE] = {.6, 1.25, 4.0},
            [NCCL_ALGO_RING] = {.6, 1.9, 3.4},
            [NCCL_ALGO_COLLNET_DIRECT] = {0, 0, 3.7},
            [NCCL_ALGO_COLLNET_CHAIN] = {0, 0, 2.8},
            [NCCL_ALGO_NVLS] = {0, 0, 25},
            [NCCL_ALGO_NVLS_TREE] = {0, 0, 25},
            [NCCL_ALGO_PAT] = {0, 0, 4.0},
        },
        [NCCL_HW_PCI] = {
            [NCCL_ALGO_TREE] = {1.0, 1.9, 4.0},
            [NCCL_ALGO_RING] = {1.0, 2.5, 5.7},
            [NCCL_ALGO_COLLNET_DIRECT] = {0, 0, 3.7},
            [NCCL_ALGO_COLLNET_CHAIN] = {0, 0, 2.8},
            [NCCL_ALGO_PAT] = {0, 0, 4.0},
        },
        [NCCL_HW_NET] = {
            [NCCL_ALGO_TREE] = {5.0, 8.5, 14},
            [NCCL_ALGO_RING] = {2.7, 4.0, 14.0},
            [NCCL_ALGO_COLLNET_DIRECT] = {0, 0, 31},
            [NCCL_ALGO_COLLNET_CHAIN] = {0, 0, 30},
            [NCCL_ALGO_NVLS] = {0, 0, 18},
            [NCCL_ALGO_NVLS_TREE] = {0, 0, 20.9},
            [NCCL_ALGO_PAT] = {0, 0, 14},
        },
    },
    .llMaxBws = {
        [NCCL_VOLTA_COMPCAP_IDX] = {39.0, 39.0, 20.4},
        [NCCL_AMPERE_COMPCAP_IDX] = {87.7, 22.5, 19.0},
        [NCCL_HOPPER_COMPCAP_IDX] = {141.0, 45.0, 35.0},
        [NCCL_BLACKWELL_COMPCAP_IDX] = {282.0, 90.0, 70.0},
    },
    .perChMaxRingLL128Bws = {
        [NCCL_VOLTA_COMPCAP_IDX] = {20.0, 20.0, 20.0},
        [NCCL_AMPERE_COMPCAP_IDX] = {20.0, 20.0, 20.0},
        [NCCL_HOPPER_COMPCAP_IDX] = {36.7, 36.7, 36.7},
        [NCCL_BLACKWELL_COMPCAP_IDX] = {73.4, 34.6, 73.4},
    },
    .perChMaxTreeLL128Bws = {
        [NCCL_VOLTA_COMPCAP_IDX] = {20.0, 20.0, 20.0},
        [NCCL_AMPERE_COMPCAP_IDX] = {20.0, 20.0, 20.0},
        [NCCL_HOPPER_COMPCAP_IDX] = {36.7, 36.7, 29.0},
        [NCCL_BLACKWELL_COMPCAP_IDX] = {55.6, 31.67, 20.0},
    },
    .perChMaxTreeBws = {
        [NCCL_VOLTA_COMPCAP_IDX] = {26.5, 18.5, 10.0},
        [NCCL_AMPERE_COMPCAP_IDX] = {24.0, 23.6, 17.8},
        [NCCL_HOPPER_COMPCAP_IDX] = {38.7, 41.4, 36.0},
        [NCCL_BLACKWELL_COMPCAP_IDX] = {70.0, 42.8, 24.0},
    },
    .perChMaxNVLSTreeBws = {
        [NCCL_VOLTA_COMPCAP_IDX] = {26.5, 18.5, 10.0},
        [NCCL_AMPERE_COMPCAP_IDX] = {24.0, 23.6, 17.8},
        [NCCL_HOPPER_COMPCAP_IDX] = {0.0, 57.7, 45.5},
        [NCCL_BLACKWELL_COMPCAP_IDX] = {0.0, 96.0, 43.8},
    },
};

/* The share of NVLink's bandwidth that NVLS reaches; no tuner can edit it. */
static const float nvls_efficiency[NCCL_NUM_COMPCAPS] = {
    [NCCL_HOPPER_COMPCAP_IDX] = .85f,
    [NCCL_BLACKWELL_COMPCAP_IDX] = .74f,
};

/* What trees reach of their bandwidth, from 64 B in powers of two. */
enum { N_TREE_CORRECTIONS = 23 };
static const float tree_correction[NCCL_NUM_PROTOCOLS][N_TREE_CORRECTIONS] = {
    [NCCL_PROTO_LL] = {1, 1, 1, 1, .9f, .8f, .7f, .7f, .7f, .7f, .6f, .5f,
        .4f, .4f, .5f, .6f, .7f, .8f, .9f, 1, 1, 1, 1},
    [NCCL_PROTO_LL128] = {1, 1, 1, 1, 1, .9f, .8f, .8f, .8f, .7f, .6f, .6f,
        .6f, .6f, .6f, .6f, .8f, .9f, .9f, .9f, .9f, 1, 1},
    [NCCL_PROTO_SIMPLE] = {.9f, .9f, .9f, .9f, .9f, .9f, .9f, .8f, .7f, .6f,
        .6f, .5f, .5f, .5f, .5f, .6f, .7f, .8f, .7f, .7f, .8f, .9f, .9f},
};
// clang-format on

enum {
    MAX_NVLS_RANKS = 32, /* for anything but all-reduce */
    MAX_BATCH_COLLS = 10,
};

/* What the formulas read. */
struct inputs {
    const ncclTunerConstants_v5_t *constants;
    const struct mock_graphs *graphs;
    int compcap;
    int compcap_index;
    int n_ranks;
};

static int compcap_index(int compute_capability)
{
    if (compute_capability >= 100)
        return NCCL_BLACKWELL_COMPCAP_IDX;
    if (compute_capability >= 90)
        return NCCL_HOPPER_COMPCAP_IDX;
    return compute_capability >= 80 ? NCCL_AMPERE_COMPCAP_IDX
                                    : NCCL_VOLTA_COMPCAP_IDX;
}

static int n_steps(int coll, int n_ranks)
{
    if (coll == ncclFuncAllReduce)
        return 2 * (n_ranks - 1);
    if (coll == ncclFuncAllGather || coll == ncclFuncReduceScatter)
        return n_ranks - 1;
    return n_ranks;
}

static double limit(const struct inputs *in,
                    const double (*table)[NCCL_NUM_TUNING_SCALES])
{
    return table[in->compcap_index][NCCL_TUNING_SCALE_1NODE];
}

/* ---- bandwidth ---- */

static float ring_bus_bw(const struct inputs *in, int proto)
{
    const struct mock_graph *ring = &in->graphs->graph[MOCK_GRAPH_RING];
    float bus = (float)ring->n_channels * ring->bw_intra;

    if (proto == NCCL_PROTO_LL)
        return (float)fmin(limit(in, in->constants->llMaxBws), bus * .5);
    if (proto == NCCL_PROTO_LL128)
        return (float)fmin(bus * .92,
                           ring->n_channels *
                               limit(in, in->constants->perChMaxRingLL128Bws));
    return bus;
}

static float tree_bus_bw(const struct inputs *in, int proto)
{
    const ncclTunerConstants_v5_t *k = in->constants;
    const struct mock_graph *tree = &in->graphs->graph[MOCK_GRAPH_TREE];
    float bus = (float)tree->n_channels * tree->bw_intra;

    bus = (float)fmin(bus * .92,
                      tree->n_channels * limit(in, k->perChMaxTreeBws));
    if (proto == NCCL_PROTO_LL)
        bus = (float)fmin(bus * 1.0 / 3.8, limit(in, k->llMaxBws));
    if (proto == NCCL_PROTO_LL128)
        bus =
            (float)fmin(bus * (7.0 / 9.0),
                        tree->n_channels * limit(in, k->perChMaxTreeLL128Bws));
    if (tree->pattern == MOCK_PATTERN_TREE)
        bus = (float)(bus * .85);
    return bus;
}

static float nvls_bus_bw(const struct inputs *in, int coll)
{
    const struct mock_graph *nvls = &in->graphs->graph[MOCK_GRAPH_NVLS];
    float n_ranks = (float)in->n_ranks;
    float n = (float)nvls->n_channels;
    float bw;

    if (nvls->n_channels < 2)
        return 0;
    bw = nvls->bw_intra * nvls_efficiency[in->compcap_index] * (n - 1) / n;
    bw *= coll == ncclFuncAllReduce ? 2.0f : (n_ranks - 1) / n_ranks;
    return n * fminf(bw, nvls->bw_inter);
}

/* From what crosses the links to what the caller sees. */
static float to_algorithm_bw(float bus, int coll, int algo, int n_ranks)
{
    float ratio = .5f;

    if (algo == NCCL_ALGO_NVLS && coll != ncclFuncAllReduce)
        return bus;
    if (algo != NCCL_ALGO_TREE)
        ratio = (float)((1.0 * n_ranks) / n_steps(coll, n_ranks));
    return bus * ratio;
}

/* LL128 needs stores of 128 bytes to arrive whole, which not all links do. */
static bool ll128_works(const struct inputs *in, int algo)
{
    const struct mock_graph *graph =
        &in->graphs->graph[algo == NCCL_ALGO_TREE ? MOCK_GRAPH_TREE
                                                  : MOCK_GRAPH_RING];
    enum mock_path farthest = in->compcap >= 90 ? MOCK_PATH_PXN : MOCK_PATH_PXB;

    return graph->type_inter <= farthest &&
           graph->type_intra <= MOCK_PATH_NVB && in->compcap >= 70;
}

/* CollNet and multi-node algorithms are never there on one node; PAT is for
 * one GPU a node. */
static float bandwidth(const struct inputs *in, int coll, int algo, int proto)
{
    float bus = 0;

    if (algo == NCCL_ALGO_RING)
        bus = ring_bus_bw(in, proto);
    else if (algo == NCCL_ALGO_TREE && coll == ncclFuncAllReduce)
        bus = tree_bus_bw(in, proto);
    else if (algo == NCCL_ALGO_NVLS && proto == NCCL_PROTO_SIMPLE &&
             coll >= ncclFuncAllGather)
        bus = nvls_bus_bw(in, coll);
    if (proto == NCCL_PROTO_LL128 && !ll128_works(in, algo))
        bus = 0;
    return to_algorithm_bw(bus, coll, algo, in->n_ranks);
}

/* ---- latency ---- */

static int intra_hw(const struct inputs *in, int graph)
{
    return in->graphs->graph[graph].type_intra == MOCK_PATH_NVL ? NCCL_HW_NVLINK
                                                                : NCCL_HW_PCI;
}

static float ring_latency(const struct inputs *in, int coll, int proto)
{
    const struct mock_graph *ring = &in->graphs->graph[MOCK_GRAPH_RING];
    const double(*hw)[NCCL_NUM_PROTOCOLS] =
        in->constants->hwLatencies[intra_hw(in, MOCK_GRAPH_RING)];
    float latency = (float)in->constants->baseLatencies[NCCL_ALGO_RING][proto];
    float step = (float)hw[NCCL_ALGO_RING][proto];
    float steps = (float)n_steps(coll, in->n_ranks);

    if (coll == ncclFuncBroadcast || coll == ncclFuncReduce) {
        if (ring->same_channels)
            return latency + step;
        if (proto == NCCL_PROTO_SIMPLE)
            step = (float)hw[NCCL_ALGO_TREE][proto];
    }
    return latency + steps * step;
}

static float tree_latency(const struct inputs *in, int proto)
{
    const double(*hw)[NCCL_NUM_PROTOCOLS] =
        in->constants->hwLatencies[intra_hw(in, MOCK_GRAPH_TREE)];
    float latency = (float)in->constants->baseLatencies[NCCL_ALGO_TREE][proto];
    float step = (float)hw[NCCL_ALGO_TREE][proto];

    return latency + 2 * ((float)(in->n_ranks - 1) * step);
}

static float latency(const struct inputs *in, int coll, int algo, int proto)
{
    if (algo == NCCL_ALGO_RING)
        return ring_latency(in, coll, proto);
    if (algo == NCCL_ALGO_TREE)
        return tree_latency(in, proto);
    return (float)in->constants
        ->hwLatencies[intra_hw(in, MOCK_GRAPH_NVLS)][NCCL_ALGO_NVLS][proto];
}

/* ---- the model ---- */

static void set_threads(struct mock_model *model, const struct mock_graph *ring)
{
    /* PCIe 3 x16, in GB/s: a slower ring needs fewer threads */
    bool slow = ring->bw_intra * (float)ring->n_channels <= 12.0f;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++) {
        bool ring_or_tree = a == NCCL_ALGO_RING || a == NCCL_ALGO_TREE;
        int *threads = model->max_threads[a];
        int *threshold = model->thread_threshold[a];

        threads[NCCL_PROTO_LL] = ring_or_tree ? 512 : 0;
        threads[NCCL_PROTO_LL128] = ring_or_tree ? 640 : 0;
        threads[NCCL_PROTO_SIMPLE] = ring_or_tree ? 512 : 640;
        threshold[NCCL_PROTO_LL] = 8;
        threshold[NCCL_PROTO_LL128] = 8;
        threshold[NCCL_PROTO_SIMPLE] = 64;
    }
    if (slow)
        model->max_threads[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 256;
    model->thread_threshold[NCCL_ALGO_RING][NCCL_PROTO_LL] *= model->n_ranks;
}

void mock_model_build(struct mock_model *model,
                      const struct mock_machine_info *info,
                      const struct mock_graphs *graphs,
                      const ncclTunerConstants_v5_t *constants)
{
    struct inputs in = {
        .constants = constants,
        .graphs = graphs,
        .compcap = info->compute_capability,
        .compcap_index = compcap_index(info->compute_capability),
        .n_ranks = info->n_ranks,
    };

    memset(model, 0, sizeof(*model));
    model->n_ranks = info->n_ranks;
    model->n_channels = info->n_channels;
    model->n_nvls_channels = info->n_nvls_channels;
    model->n_nvls_heads = graphs->graph[MOCK_GRAPH_NVLS].n_channels;
    set_threads(model, &graphs->graph[MOCK_GRAPH_RING]);
    if (info->n_ranks == 1)
        return; /* NCCL never asks */
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
                model->bandwidth[c][a][p] = bandwidth(&in, c, a, p);
                model->latency[c][a][p] = latency(&in, c, a, p);
            }
}

/* ---- tables ---- */

static int log2_down(size_t n)
{
    int log = -1;

    for (; n != 0; n >>= 1)
        log++;
    return log;
}

static bool nvls_allowed(const struct mock_model *model,
                         const struct mock_question *q)
{
    if (model->n_nvls_channels == 0 ||
        (q->no_nvls && q->coll != ncclFuncAllGather))
        return false;
    return q->coll == ncclFuncAllReduce || model->n_ranks <= MAX_NVLS_RANKS;
}

static float entry(const struct mock_model *model,
                   const struct mock_question *q, int algo, int proto)
{
    float bw = model->bandwidth[q->coll][algo][proto];
    int log_size = log2_down(q->n_bytes >> 6);
    int n_latencies = q->n_pipe_ops;

    if (bw == 0 || (algo == NCCL_ALGO_NVLS && !nvls_allowed(model, q)))
        return NCCL_ALGO_PROTO_IGNORE;
    if (algo == NCCL_ALGO_TREE && log_size >= 0 &&
        log_size < N_TREE_CORRECTIONS)
        bw *= tree_correction[proto][log_size];
    if (algo != NCCL_ALGO_RING)
        n_latencies = (n_latencies + MAX_BATCH_COLLS - 1) / MAX_BATCH_COLLS;
    return model->latency[q->coll][algo][proto] * (float)n_latencies +
           (float)q->n_bytes / (1000 * bw);
}

void mock_model_table(const struct mock_model *model,
                      const struct mock_question *question, mock_table table)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a][p] = entry(model, question, a, p);
}
