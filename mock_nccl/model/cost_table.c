/*
 * cost_table.c - the cost table of one collective, from a communicator's model
 */
#include <float.h>
#include <math.h>

#include "model/channels.h"
#include "model/cost_formulas.h"
#include "model/cost_model.h"

enum {
    MAX_EXACT_FP8_RANKS =
        8, /* ranks of a ring; with more, fp8 loses too much precision */
    MIN_PLATEAU = 64,  /* bytes per rank and channel */
    RANKS_OF_ARM = 4,  /* GPUs per node */
    FAST_NETWORK = 96, /* GB/s of a NIC */
    FP8_FACTOR = 1024,
};

// clang-format off
/* The share of their bandwidth that trees reach, by powers of two from 64 B; the last entry is for NVLS trees. */
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

/* Whether the network supports the collective; a gather has no reduction. */
static bool cost_table_network_supports(const struct mock_question *q)
{
    return !q->plain_only && (!q->no_collnet || q->coll == ncclFuncAllGather);
}

bool mock_model_nvls(const struct mock_model *model,
                     const struct mock_question *q)
{
    if (model->n_nvls_channels == 0 || q->plain_only)
        return false;
    if (q->coll == ncclFuncAllGather)
        return !model->rules->allgather_by_type;
    return !q->no_nvls && !q->fp8;
}

bool mock_model_collnet(const struct mock_model *model,
                        const struct mock_question *q)
{
    return model->collnet && cost_table_network_supports(q);
}

static bool cost_table_allows_nvls(const struct mock_model *model,
                                   const struct mock_question *q, int algo)
{
    const struct mock_model_rules *rules = model->rules;
    bool gathers =
        q->coll == ncclFuncAllGather || q->coll == ncclFuncReduceScatter;

    if (!mock_model_nvls(model, q))
        return false;
    if (gathers && !mock_within(model->n_ranks / model->n_nodes,
                                rules->max_nvls_gather_ranks))
        return false;
    if (algo == NCCL_ALGO_NVLS_TREE || model->n_nodes == 1)
        return true;
    return cost_table_network_supports(q) &&
           !(gathers && rules->nvls_gathers_one_node);
}

static bool cost_table_allows_pat(const struct mock_model *model,
                                  const struct mock_question *q)
{
    if (q->coll != ncclFuncReduceScatter)
        return true;
    if (mock_pat_is_by_nvls(model))
        return mock_model_nvls(model, q);
    return !q->no_pat || model->rules->pat_averages;
}

static bool cost_table_is_allowed(const struct mock_model *model,
                                  const struct mock_question *q, int algo)
{
    int per_node = model->n_ranks / model->n_nodes;

    switch (algo) {
    case NCCL_ALGO_NVLS:
    case NCCL_ALGO_NVLS_TREE:
        return cost_table_allows_nvls(model, q, algo);
    case NCCL_ALGO_COLLNET_DIRECT:
        return cost_table_network_supports(q) &&
               mock_within(per_node, model->rules->max_direct_ranks);
    case NCCL_ALGO_COLLNET_CHAIN:
        return cost_table_network_supports(q) &&
               mock_within(per_node, model->rules->max_chain_ranks);
    case NCCL_ALGO_PAT:
        return cost_table_allows_pat(model, q);
    default:
        return true;
    }
}

/* Blackwell whose NVLink joins all GPUs, each of which is one rank's. */
static bool cost_table_is_blackwell_node(const struct mock_model *model)
{
    return model->all_nvlink && model->ring_leaves_gpu &&
           model->compute_capability >= 100;
}

static size_t cost_table_part(const struct mock_model *model,
                              const struct mock_question *q)
{
    return q->n_bytes / (size_t)(model->n_channels * model->n_ranks);
}

/* Above a threshold a step of a ring over several nodes takes longer. */
static bool cost_table_is_on_plateau(const struct mock_model *model,
                                     const struct mock_question *q, int algo,
                                     int proto)
{
    bool reduces = q->coll == ncclFuncAllReduce;
    bool gathers =
        q->coll == ncclFuncAllGather || q->coll == ncclFuncReduceScatter;
    bool has_plateau = model->n_nodes > 1
                           ? reduces
                           : cost_table_is_blackwell_node(model) &&
                                 ((gathers && model->rules->plateau_on_node) ||
                                  (reduces && model->rules->plateau_by_steps));

    return algo == NCCL_ALGO_RING && proto == NCCL_PROTO_SIMPLE &&
           has_plateau && cost_table_part(model, q) >= MIN_PLATEAU;
}

/* A ring of one step has none; each step closes three quarters of the gap. */
static float cost_table_lower_plateau(const struct mock_model *model,
                                      const struct mock_question *q,
                                      float plateau)
{
    const float delta = .1f;
    const size_t large = 256 << 10;
    const size_t part = cost_table_part(model, q);
    const int n_steps =
        (q->coll == ncclFuncAllReduce ? 2 : 1) * (model->n_ranks - 1);
    const float most = plateau - 1;
    const float share = 1 - powf(delta / most, (float)(n_steps - 1));
    float height = most;

    if (part > large)
        height -= delta * fminf(1, (float)(part - large) / (float)large);
    return 1 + share * height;
}

static float cost_table_plateau(const struct mock_model *model,
                                const struct mock_question *q, float latency)
{
    const double factor = model->compute_capability < 80 ? 1.9 : 1.4;

    if (!model->rules->plateau_by_steps)
        return (float)(latency * factor);
    if (cost_table_is_blackwell_node(model))
        return latency * cost_table_lower_plateau(model, q, (float)factor);
    return latency * (float)factor;
}

/* NVLS trees of Blackwell. */
static int cost_table_n_nvls_tree_corrections(const struct mock_model *model)
{
    int n = model->rules->n_nvls_tree_corrections;

    if (model->is_x86)
        return n;
    if (model->rules->n_nvls_tree_on_arm == 0 || !model->is_arm ||
        model->nvls_network < FAST_NETWORK ||
        model->n_ranks / model->n_nodes != RANKS_OF_ARM)
        return 0;
    return model->n_nodes > 2 ? n : model->rules->n_nvls_tree_on_arm;
}

static int cost_table_n_corrections(const struct mock_model *model, int algo)
{
    if (algo == NCCL_ALGO_TREE)
        return N_TREE_CORRECTIONS;
    if (algo == NCCL_ALGO_NVLS_TREE && model->compute_capability >= 100)
        return cost_table_n_nvls_tree_corrections(model);
    return 0;
}

/* NCCL moves allgather and broadcast as bytes, whatever the type. */
static bool cost_table_penalizes_fp8(const struct mock_model *model,
                                     const struct mock_question *q, int algo)
{
    return q->fp8 && algo == NCCL_ALGO_RING &&
           model->n_ranks > MAX_EXACT_FP8_RANKS &&
           q->coll != ncclFuncAllGather && q->coll != ncclFuncBroadcast;
}

static float cost_table_time(const struct mock_model *model,
                             const struct mock_question *q, int algo,
                             float latency, float bw)
{
    enum mock_fp8_penalty fp8 = cost_table_penalizes_fp8(model, q, algo)
                                    ? model->rules->fp8
                                    : MOCK_FP8_FREE;
    int batch = model->rules->batch;
    int n_latencies = algo == NCCL_ALGO_RING
                          ? q->n_pipe_ops
                          : (q->n_pipe_ops + batch - 1) / batch;
    float bytes_us = (float)q->n_bytes / (1000 * bw);

    if (fp8 == MOCK_FP8_BYTES)
        bytes_us *= FP8_FACTOR;
    return (latency * (float)n_latencies + bytes_us) *
           (fp8 == MOCK_FP8_TIMES || fp8 == MOCK_FP8_ENTRIES ? FP8_FACTOR : 1);
}

static float cost_table_ruled_out(const struct mock_model *model,
                                  const struct mock_question *q, int algo)
{
    bool penalizes = model->rules->fp8 == MOCK_FP8_ENTRIES &&
                     cost_table_penalizes_fp8(model, q, algo);

    return penalizes ? NCCL_ALGO_PROTO_IGNORE * FP8_FACTOR
                     : NCCL_ALGO_PROTO_IGNORE;
}

static float cost_table_entry(const struct mock_model *model,
                              const struct mock_question *q, int algo,
                              int proto, float bw)
{
    float latency = model->latency[q->coll][algo][proto];
    int log_size;

    if (bw == 0 || !cost_table_is_allowed(model, q, algo))
        return cost_table_ruled_out(model, q, algo);
    if (algo == NCCL_ALGO_PAT && mock_pat_is_by_nvls(model))
        return FLT_MAX / 2;
    log_size = mock_log2(q->n_bytes >> 6);
    if (log_size < 0 && model->rules->corrects_tiny)
        log_size = 0;
    if (log_size >= 0 && log_size < cost_table_n_corrections(model, algo))
        bw *= tree_correction[proto][log_size];
    if (cost_table_is_on_plateau(model, q, algo, proto))
        latency = cost_table_plateau(model, q, latency);
    return cost_table_time(model, q, algo, latency, bw);
}

void mock_model_table(const struct mock_model *model,
                      const struct mock_question *question, mock_table table)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a][p] = cost_table_entry(
                model, question, a, p, model->bandwidth[question->coll][a][p]);
}

void mock_model_backup(const struct mock_model *model,
                       const struct mock_question *question, mock_table table)
{
    const float *ring = model->bandwidth[question->coll][NCCL_ALGO_RING];
    const float *backup = model->ring_backup[question->coll];

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a][p] = cost_table_entry(
                model, question, a, p,
                a == NCCL_ALGO_RING && ring[p] == 0 ? backup[p] : 0);
}
