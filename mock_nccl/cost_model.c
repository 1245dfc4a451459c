#include "cost_model.h"

#include <string.h>

#include "chunk.h"
#include "cost_parts.h"

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

/* What trees reach of their bandwidth, from 64 B in powers of two; the last one
 * is for NVLS trees. */
enum { N_TREE_CORRECTIONS = 23, N_CORRECTIONS = 24 };
static const float tree_correction[NCCL_NUM_PROTOCOLS][N_CORRECTIONS] = {
    [NCCL_PROTO_LL] = {1, 1, 1, 1, .9f, .8f, .7f, .7f, .7f, .7f, .6f, .5f,
        .4f, .4f, .5f, .6f, .7f, .8f, .9f, 1, 1, 1, 1, 1},
    [NCCL_PROTO_LL128] = {1, 1, 1, 1, 1, .9f, .8f, .8f, .8f, .7f, .6f, .6f,
        .6f, .6f, .6f, .6f, .8f, .9f, .9f, .9f, .9f, 1, 1, 1},
    [NCCL_PROTO_SIMPLE] = {.9f, .9f, .9f, .9f, .9f, .9f, .9f, .8f, .7f, .6f,
        .6f, .5f, .5f, .5f, .5f, .6f, .7f, .8f, .7f, .7f, .8f, .9f, .9f, .9f},
};
// clang-format on

enum {
    MAX_NVLS_RANKS = 32,   /* of a node, for anything but all-reduce */
    MAX_COLLNET_RANKS = 8, /* of a node */
    MAX_BATCH_COLLS = 10,
    MAX_EXACT_FP8_RANKS = 8, /* in a ring; more lose too much of fp8 */
    MIN_PLATEAU = 64,        /* bytes of one rank on one channel */
};

/* ---- what the formulas read ---- */

static int compcap_index(int compute_capability)
{
    if (compute_capability >= 100)
        return NCCL_BLACKWELL_COMPCAP_IDX;
    if (compute_capability >= 90)
        return NCCL_HOPPER_COMPCAP_IDX;
    return compute_capability >= 80 ? NCCL_AMPERE_COMPCAP_IDX
                                    : NCCL_VOLTA_COMPCAP_IDX;
}

static int scale_of(int n_nodes)
{
    if (n_nodes == 1)
        return NCCL_TUNING_SCALE_1NODE;
    return n_nodes == 2 ? NCCL_TUNING_SCALE_2NODES : NCCL_TUNING_SCALE_4NODES;
}

static struct mock_inputs inputs_of(const struct mock_machine_info *info,
                                    const struct mock_graphs *graphs,
                                    const ncclTunerConstants_v5_t *constants)
{
    bool amd = strcmp(info->cpu_vendor, "amd") == 0;
    bool like_amd = amd || strcmp(info->cpu_vendor, "mixed") == 0;
    struct mock_inputs in = {
        .constants = constants,
        .graphs = graphs,
        .compcap = info->compute_capability,
        .compcap_index = compcap_index(info->compute_capability),
        .scale = scale_of(info->n_nodes),
        .n_ranks = info->n_ranks,
        .n_nodes = info->n_nodes,
        .per_node = info->n_ranks / info->n_nodes,
    };

    if (info->n_nodes == 1) {
        in.ll_row = in.compcap_index;
    } else {
        in.ll_row = like_amd ? 1 : 0;
        in.overhead_us = amd ? 2.0f : 1.0f;
    }
    return in;
}

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

int mock_log2(size_t n)
{
    return n == 0 ? -1 : 63 - __builtin_clzll(n);
}

/* ---- what is there ---- */

/* NCCL has no model of broadcasts along a tree, for example. */
static bool is_modelled(const struct mock_inputs *in, int coll, int algo,
                        int proto)
{
    if (proto != NCCL_PROTO_SIMPLE && algo != NCCL_ALGO_RING &&
        algo != NCCL_ALGO_TREE)
        return false;
    switch (coll) {
    case ncclFuncAllReduce:
        return algo != NCCL_ALGO_PAT;
    case ncclFuncAllGather:
    case ncclFuncReduceScatter:
        return algo == NCCL_ALGO_RING || algo == NCCL_ALGO_NVLS ||
               algo == NCCL_ALGO_COLLNET_DIRECT ||
               (algo == NCCL_ALGO_PAT && in->per_node == 1);
    default:
        return algo == NCCL_ALGO_RING;
    }
}

/* LL128 needs stores of 128 bytes to arrive whole, which not all links do. */
static bool ll128_is_safe(const struct mock_inputs *in, int algo)
{
    const struct mock_graph *graph = mock_graph_of(in, algo);
    enum mock_path farthest = in->compcap >= 90 ? MOCK_PATH_PXN : MOCK_PATH_PXB;

    return graph->type_inter <= farthest &&
           graph->type_intra <= MOCK_PATH_NVB && in->compcap >= 70;
}

static bool is_enabled(const struct mock_inputs *in,
                       const struct mock_user_choice *choice, int coll,
                       int algo, int proto)
{
    bool on_collnet = algo == NCCL_ALGO_COLLNET_DIRECT ||
                      algo == NCCL_ALGO_COLLNET_CHAIN ||
                      (algo == NCCL_ALGO_NVLS && in->n_nodes > 1);

    if (choice->algo[coll][algo] == MOCK_USE_NO ||
        choice->proto[coll][proto] == MOCK_USE_NO)
        return false;
    if (choice->proto[coll][proto] == MOCK_USE_IF_SAFE &&
        !ll128_is_safe(in, algo))
        return false;
    if (algo == NCCL_ALGO_NVLS_TREE && in->n_nodes == 1)
        return false;
    return in->collnet || !on_collnet;
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
    model->max_threads[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
    model->thread_threshold[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = 512;
    model->thread_threshold[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = 512;
    model->thread_threshold[NCCL_ALGO_RING][NCCL_PROTO_LL] *= model->n_ranks;
}

static void set_entry(struct mock_model *model, const struct mock_inputs *in,
                      const struct mock_user_choice *choice, int coll, int algo,
                      int proto)
{
    if (!is_modelled(in, coll, algo, proto))
        return;
    model->latency[coll][algo][proto] = mock_latency(in, coll, algo, proto);
    if (is_enabled(in, choice, coll, algo, proto))
        model->bandwidth[coll][algo][proto] =
            mock_bandwidth(in, coll, algo, proto);
}

static bool has_any(const struct mock_model *model, int coll)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (model->bandwidth[coll][a][p] != 0)
                return true;
    return false;
}

/* NCCL_ALGO does not count for rings where it leaves nothing else. */
static void back_rings_up(struct mock_model *model,
                          const struct mock_inputs *in,
                          const struct mock_user_choice *choice)
{
    struct mock_user_choice any_algo = *choice;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        any_algo.algo[c][NCCL_ALGO_RING] = MOCK_USE_YES;
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (is_enabled(in, &any_algo, c, NCCL_ALGO_RING, p))
                model->ring_backup[c][p] =
                    mock_bandwidth(in, c, NCCL_ALGO_RING, p);
        if (!has_any(model, c))
            memcpy(model->bandwidth[c][NCCL_ALGO_RING], model->ring_backup[c],
                   sizeof(model->ring_backup[c]));
    }
}

void mock_model_constants(const struct mock_model_rules *rules,
                          ncclTunerConstants_v5_t *constants_ret)
{
    double *numbers = (double *)constants_ret;

    *constants_ret = mock_default_constants;
    for (size_t i = 0; i < rules->n_constants; i++)
        numbers[rules->constants[i].at] = rules->constants[i].value;
}

void mock_model_build(struct mock_model *model,
                      const struct mock_machine_info *info,
                      const struct mock_graphs *graphs,
                      const struct mock_model_rules *rules,
                      const ncclTunerConstants_v5_t *constants,
                      const struct mock_user_choice *choice)
{
    struct mock_inputs in = inputs_of(info, graphs, constants);

    in.collnet = choice->collnet;
    in.n_heads =
        graphs
            ->graph[info->n_nvls_channels > 0 ? MOCK_GRAPH_NVLS
                                              : MOCK_GRAPH_COLLNET_DIRECT]
            .n_heads;
    memset(model, 0, sizeof(*model));
    model->rules = rules;
    model->n_ranks = info->n_ranks;
    model->n_nodes = info->n_nodes;
    model->compute_capability = info->compute_capability;
    model->is_x86 = strcmp(info->cpu_vendor, "intel") == 0 ||
                    strcmp(info->cpu_vendor, "amd") == 0 ||
                    strcmp(info->cpu_vendor, "mixed") == 0;
    model->all_nvlink =
        info->n_nodes == 1 &&
        graphs->graph[MOCK_GRAPH_RING].type_intra == MOCK_PATH_NVL;
    model->n_channels = info->n_channels;
    model->n_nvls_channels = info->n_nvls_channels;
    model->n_nvls_heads = graphs->graph[MOCK_GRAPH_NVLS].n_channels;
    model->n_collnet_heads = graphs->graph[MOCK_GRAPH_COLLNET_DIRECT].n_heads;
    model->collnet = choice->collnet;
    mock_set_nvls_chunks(model, &graphs->graph[MOCK_GRAPH_NVLS]);
    set_threads(model, &graphs->graph[MOCK_GRAPH_RING]);
    if (info->n_ranks == 1)
        return; /* NCCL never asks */
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                set_entry(model, &in, choice, c, a, p);
    if (rules->ring_backup)
        back_rings_up(model, &in, choice);
}

/* ---- tables ---- */

static bool nvls_allowed(const struct mock_model *model,
                         const struct mock_question *q)
{
    if (model->n_nvls_channels == 0 || q->plain_only ||
        ((q->no_nvls || q->fp8) && q->coll != ncclFuncAllGather))
        return false;
    return q->coll == ncclFuncAllReduce ||
           model->n_ranks / model->n_nodes <= MAX_NVLS_RANKS;
}

/* By the network; a gather leaves nothing to reduce. */
static bool network_can(const struct mock_question *q)
{
    return !q->plain_only && (!q->no_collnet || q->coll == ncclFuncAllGather);
}

static bool is_allowed(const struct mock_model *model,
                       const struct mock_question *q, int algo)
{
    switch (algo) {
    case NCCL_ALGO_NVLS:
        return nvls_allowed(model, q) &&
               (model->n_nodes == 1 || network_can(q));
    case NCCL_ALGO_NVLS_TREE:
        return nvls_allowed(model, q);
    case NCCL_ALGO_COLLNET_DIRECT:
    case NCCL_ALGO_COLLNET_CHAIN:
        return network_can(q) &&
               model->n_ranks / model->n_nodes <= MAX_COLLNET_RANKS;
    case NCCL_ALGO_PAT:
        return !q->no_pat || q->coll != ncclFuncReduceScatter;
    default:
        return true;
    }
}

/* From some size on a ring over several nodes costs more a step. */
static bool on_plateau(const struct mock_model *model,
                       const struct mock_question *q, int algo, int proto)
{
    size_t parts = (size_t)(model->n_channels * model->n_ranks);

    return algo == NCCL_ALGO_RING && proto == NCCL_PROTO_SIMPLE &&
           model->n_nodes > 1 && q->coll == ncclFuncAllReduce &&
           q->n_bytes / parts >= MIN_PLATEAU;
}

static int n_corrections(const struct mock_model *model, int algo)
{
    if (algo == NCCL_ALGO_TREE)
        return N_TREE_CORRECTIONS;
    if (algo == NCCL_ALGO_NVLS_TREE && model->compute_capability >= 100 &&
        model->is_x86)
        return model->rules->n_nvls_tree_corrections;
    return 0;
}

static float entry(const struct mock_model *model,
                   const struct mock_question *q, int algo, int proto, float bw)
{
    float latency = model->latency[q->coll][algo][proto];
    int log_size = mock_log2(q->n_bytes >> 6);
    int n_latencies = q->n_pipe_ops;

    if (bw == 0 || !is_allowed(model, q, algo))
        return NCCL_ALGO_PROTO_IGNORE;
    if (log_size >= 0 && log_size < n_corrections(model, algo))
        bw *= tree_correction[proto][log_size];
    if (on_plateau(model, q, algo, proto))
        latency =
            (float)(latency * (model->compute_capability < 80 ? 1.9 : 1.4));
    if (algo != NCCL_ALGO_RING)
        n_latencies = (n_latencies + MAX_BATCH_COLLS - 1) / MAX_BATCH_COLLS;
    return latency * (float)n_latencies + (float)q->n_bytes / (1000 * bw);
}

/* NCCL moves allgather and broadcast as bytes, whatever the type. */
static bool loses_fp8(const struct mock_model *model,
                      const struct mock_question *q)
{
    return q->fp8 && model->rules->fp8_penalty &&
           model->n_ranks > MAX_EXACT_FP8_RANKS &&
           q->coll != ncclFuncAllGather && q->coll != ncclFuncBroadcast;
}

void mock_model_table(const struct mock_model *model,
                      const struct mock_question *question, mock_table table)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a][p] = entry(model, question, a, p,
                                model->bandwidth[question->coll][a][p]);
    if (loses_fp8(model, question))
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[NCCL_ALGO_RING][p] *= 1024; /* those ruled out, too */
}

void mock_model_backup(const struct mock_model *model,
                       const struct mock_question *question, mock_table table)
{
    const float *ring = model->bandwidth[question->coll][NCCL_ALGO_RING];
    const float *backup = model->ring_backup[question->coll];

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a][p] =
                entry(model, question, a, p,
                      a == NCCL_ALGO_RING && ring[p] == 0 ? backup[p] : 0);
}
