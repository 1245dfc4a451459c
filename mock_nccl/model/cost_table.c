/* cost_table.c - the cost table of one collective, from a communicator's model,
 * and the entry that NCCL selects */
#include <float.h>
#include <math.h>

#include "model/channels.h"
#include "model/cost_formulas.h"
#include "model/cost_model.h"

enum {
    MAX_EXACT_FP8_RANKS = 8, /* of a ring; with more, fp8 loses precision */
    MIN_PLATEAU = 64,        /* bytes per rank and channel */
    RANKS_OF_ARM = 4,        /* GPUs per node */
    FAST_NETWORK = 96,       /* GB/s of a NIC */
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
static bool cost_table_network_supports(const struct mock_call *q)
{
    return !q->no_collnet || q->coll == ncclFuncAllGather;
}

bool mock_model_nvls(const struct mock_model *model, const struct mock_call *q)
{
    if (model->n_nvls_channels == 0)
        return false;
    if (q->coll == ncclFuncAllGather)
        return !model->rules->allgather_by_type;
    return !q->no_nvls && !q->fp8;
}

bool mock_model_collnet(const struct mock_model *model,
                        const struct mock_call *q)
{
    return model->collnet && cost_table_network_supports(q);
}

static bool cost_table_is_allowed(const struct mock_model *model,
                                  const struct mock_call *q, int algo)
{
    const struct mock_model_rules *rules = model->rules;
    int per_node = model->n_ranks / model->n_nodes;
    bool gathers =
        q->coll == ncclFuncAllGather || q->coll == ncclFuncReduceScatter;

    switch (algo) {
    case NCCL_ALGO_NVLS:
    case NCCL_ALGO_NVLS_TREE:
        if (!mock_model_nvls(model, q) ||
            (gathers && !mock_within(per_node, rules->max_nvls_gather_ranks)))
            return false;
        return algo == NCCL_ALGO_NVLS_TREE || model->n_nodes == 1 ||
               (cost_table_network_supports(q) &&
                !(gathers && rules->nvls_gathers_one_node));
    case NCCL_ALGO_COLLNET_DIRECT:
        return cost_table_network_supports(q) &&
               mock_within(per_node, rules->max_direct_ranks);
    case NCCL_ALGO_COLLNET_CHAIN:
        return cost_table_network_supports(q) &&
               mock_within(per_node, rules->max_chain_ranks);
    case NCCL_ALGO_PAT:
        if (q->coll != ncclFuncReduceScatter)
            return true;
        return mock_pat_is_by_nvls(model) ? mock_model_nvls(model, q)
                                          : !q->no_pat || rules->pat_averages;
    default:
        return true;
    }
}

/* The share of its bandwidth that an algorithm reaches. */
static float cost_table_correction(const struct mock_model *model,
                                   const struct mock_call *q, int algo,
                                   int proto)
{
    const struct mock_model_rules *rules = model->rules;
    int log_size = mock_log2(q->n_bytes >> 6);
    int n = 0;

    if (log_size < 0 && rules->corrects_tiny)
        log_size = 0;
    if (algo == NCCL_ALGO_TREE)
        n = N_TREE_CORRECTIONS;
    else if (algo != NCCL_ALGO_NVLS_TREE || model->compute_capability < 100)
        n = 0;
    else if (model->is_x86)
        n = rules->n_nvls_tree_corrections;
    else if (rules->n_nvls_tree_on_arm != 0 && model->is_arm &&
             model->nvls_network >= FAST_NETWORK &&
             model->n_ranks / model->n_nodes == RANKS_OF_ARM)
        n = model->n_nodes > 2 ? rules->n_nvls_tree_corrections
                               : rules->n_nvls_tree_on_arm;
    return log_size >= 0 && log_size < n ? tree_correction[proto][log_size] : 1;
}

/* The latency of a collective. Above a threshold a step of a ring over several
 * nodes takes longer. */
static float cost_table_latency(const struct mock_model *model,
                                const struct mock_call *q, int algo, int proto)
{
    const struct mock_model_rules *rules = model->rules;
    const float latency = model->latency[q->coll][algo][proto];
    const double factor = model->compute_capability < 80 ? 1.9 : 1.4;
    const bool reduces = q->coll == ncclFuncAllReduce;
    const bool gathers =
        q->coll == ncclFuncAllGather || q->coll == ncclFuncReduceScatter;
    /* Blackwell whose NVLink joins all GPUs, each of which is one rank's */
    const bool is_node = model->all_nvlink && model->ring_leaves_gpu &&
                         model->compute_capability >= 100;
    const bool has_plateau =
        model->n_nodes > 1 ? reduces
                           : is_node && ((gathers && rules->plateau_on_node) ||
                                         (reduces && rules->plateau_by_steps));
    const size_t part =
        q->n_bytes / (size_t)(model->n_channels * model->n_ranks);

    if (algo != NCCL_ALGO_RING || proto != NCCL_PROTO_SIMPLE || !has_plateau ||
        part < MIN_PLATEAU)
        return latency;
    if (!rules->plateau_by_steps)
        return (float)(latency * factor);
    if (is_node) {
        /* one step has none; each step closes three quarters of the gap */
        const float delta = .1f;
        const size_t large = 256 << 10;
        const int n_steps = (reduces ? 2 : 1) * (model->n_ranks - 1);
        const float most = (float)factor - 1;
        const float share = 1 - powf(delta / most, (float)(n_steps - 1));
        float height = most;

        if (part > large)
            height -= delta * fminf(1, (float)(part - large) / (float)large);
        return latency * (1 + share * height);
    }
    return latency * (float)factor;
}

static float cost_table_entry(const struct mock_model *model,
                              const struct mock_call *q, int algo, int proto,
                              float bw)
{
    /* NCCL moves allgather and broadcast as bytes, whatever the type */
    const bool penalizes_fp8 = q->fp8 && algo == NCCL_ALGO_RING &&
                               model->n_ranks > MAX_EXACT_FP8_RANKS &&
                               q->coll != ncclFuncAllGather &&
                               q->coll != ncclFuncBroadcast;
    enum mock_fp8_penalty fp8 =
        penalizes_fp8 ? model->rules->fp8 : MOCK_FP8_FREE;
    int batch = model->rules->batch;
    int n_latencies = algo == NCCL_ALGO_RING
                          ? q->n_pipe_ops
                          : (q->n_pipe_ops + batch - 1) / batch;
    float bytes_us;

    if (bw == 0 || !cost_table_is_allowed(model, q, algo))
        return fp8 == MOCK_FP8_ENTRIES ? NCCL_ALGO_PROTO_IGNORE * FP8_FACTOR
                                       : NCCL_ALGO_PROTO_IGNORE;
    if (algo == NCCL_ALGO_PAT && mock_pat_is_by_nvls(model))
        return FLT_MAX / 2;
    bw *= cost_table_correction(model, q, algo, proto);
    bytes_us = (float)q->n_bytes / (1000 * bw);
    if (fp8 == MOCK_FP8_BYTES)
        bytes_us *= FP8_FACTOR;
    return (cost_table_latency(model, q, algo, proto) * (float)n_latencies +
            bytes_us) *
           (fp8 == MOCK_FP8_TIMES || fp8 == MOCK_FP8_ENTRIES ? FP8_FACTOR : 1);
}

void mock_model_table(const struct mock_model *model,
                      const struct mock_call *call, mock_table table)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a][p] = cost_table_entry(model, call, a, p,
                                           model->bandwidth[call->coll][a][p]);
}

void mock_model_backup(const struct mock_model *model,
                       const struct mock_call *call, mock_table table)
{
    const float *ring = model->bandwidth[call->coll][NCCL_ALGO_RING];
    const float *backup = model->ring_backup[call->coll];

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a][p] = cost_table_entry(
                model, call, a, p,
                a == NCCL_ALGO_RING && ring[p] == 0 ? backup[p] : 0);
}

/* ---- selection ---- */

bool mock_select_first(const mock_table table, int n_algos, float ceiling,
                       int *algo_ret, int *proto_ret, float *time_ret)
{
    bool found = false;

    for (int a = 0; a < n_algos; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (table[a][p] >= 0 && table[a][p] < ceiling) {
                ceiling = table[a][p];
                *algo_ret = a;
                *proto_ret = p;
                found = true;
            }
    if (found && time_ret != NULL)
        *time_ret = ceiling;
    return found;
}

bool mock_select(const struct mock_choice_rules *rules, int n_algos,
                 struct mock_outcome *outcome, float *time)
{
    outcome->algo = NCCL_ALGO_UNDEF;
    outcome->proto = NCCL_PROTO_UNDEF;
    *time = rules->ceiling;
    if (rules->selection != MOCK_SELECT_VALID)
        return mock_select_first(outcome->cost_after, n_algos, rules->ceiling,
                                 &outcome->algo, &outcome->proto, time);
    /* from 2.31 on: the last smallest entry that NCCL itself supports */
    for (int a = n_algos - 1; a >= 0; a--)
        for (int p = NCCL_NUM_PROTOCOLS - 1; p >= 0; p--)
            if (outcome->cost[a][p] > 0 && outcome->cost_after[a][p] < *time) {
                *time = outcome->cost_after[a][p];
                outcome->algo = a;
                outcome->proto = p;
            }
    return outcome->algo != NCCL_ALGO_UNDEF;
}

bool mock_kernel_exists(int coll, int algo, int proto)
{
    if (proto != NCCL_PROTO_SIMPLE && algo != NCCL_ALGO_RING &&
        algo != NCCL_ALGO_TREE)
        return false;
    switch (coll) {
    case ncclFuncAllReduce:
        return algo != NCCL_ALGO_PAT;
    case ncclFuncAllGather:
    case ncclFuncReduceScatter:
        return algo == NCCL_ALGO_RING || algo == NCCL_ALGO_COLLNET_DIRECT ||
               algo == NCCL_ALGO_NVLS || algo == NCCL_ALGO_PAT;
    default:
        return algo == NCCL_ALGO_RING;
    }
}
