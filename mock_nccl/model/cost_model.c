#include "model/cost_model.h"

#include <string.h>

#include "model/chunk.h"
#include "model/cost_formulas.h"
#include "model/select.h"

/* ---- input of the formulas ---- */

static int cost_model_compcap_index(const struct mock_model_rules *rules,
                                    int compute_capability)
{
    if (compute_capability >= 100)
        return rules->newest_compcap;
    if (compute_capability >= 90)
        return NCCL_HOPPER_COMPCAP_IDX;
    return compute_capability >= 80 ? NCCL_AMPERE_COMPCAP_IDX
                                    : NCCL_VOLTA_COMPCAP_IDX;
}

static int cost_model_get_scale(int n_nodes)
{
    if (n_nodes == 1)
        return NCCL_TUNING_SCALE_1NODE;
    return n_nodes == 2 ? NCCL_TUNING_SCALE_2NODES : NCCL_TUNING_SCALE_4NODES;
}

/* The graph whose heads send for the other GPUs of a node by CollNet. */
static const struct mock_graph *
cost_model_collnet_graph(const struct mock_model_rules *rules,
                         const struct mock_machine_info *info,
                         const struct mock_graphs *graphs)
{
    bool of_nvls = rules->nvls_heads && info->n_nvls_channels > 0;

    return &graphs
                ->graph[of_nvls ? MOCK_GRAPH_NVLS : MOCK_GRAPH_COLLNET_DIRECT];
}

static bool cost_model_has_collnet(const struct mock_model_rules *rules,
                                   const struct mock_machine_info *info,
                                   const struct mock_user_choice *choice)
{
    return choice->collnet &&
           mock_within(info->n_ranks / info->n_nodes, rules->max_collnet_ranks);
}

static struct mock_inputs
cost_model_get_inputs(const struct mock_machine_info *info,
                      const struct mock_graphs *graphs,
                      const struct mock_model_rules *rules,
                      const ncclTunerConstants_v7_t *constants,
                      const struct mock_user_choice *choice)
{
    bool amd = strcmp(info->cpu_vendor, "amd") == 0;
    bool like_amd = amd || (rules->mixed_like_amd &&
                            strcmp(info->cpu_vendor, "mixed") == 0);
    struct mock_inputs in = {
        .rules = rules,
        .constants = constants,
        .graphs = graphs,
        .compcap = info->compute_capability,
        .compcap_index =
            cost_model_compcap_index(rules, info->compute_capability),
        .scale = cost_model_get_scale(info->n_nodes),
        .n_ranks = info->n_ranks,
        .n_nodes = info->n_nodes,
        .per_node = info->n_ranks / info->n_nodes,
        .nvls = info->n_nvls_channels > 0,
        .collnet = cost_model_has_collnet(rules, info, choice),
        .n_heads = cost_model_collnet_graph(rules, info, graphs)->n_heads,
        .heads_chains =
            cost_model_collnet_graph(rules, info, graphs)->heads_chains,
    };

    if (info->n_nodes == 1) {
        in.ll_row = in.compcap_index;
    } else {
        in.ll_row = like_amd ? 1 : 0;
        in.overhead_us = amd ? 2.0f : 1.0f;
    }
    return in;
}

/* ---- supported combinations ---- */

/* PAT has one rank a node, or all of a node's are heads of NVLS. */
static bool cost_model_has_pat(const struct mock_inputs *in)
{
    const struct mock_graph *nvls = mock_graph_of(in, NCCL_ALGO_NVLS);

    if (!in->rules->pat || in->per_node == 1)
        return in->rules->pat;
    return in->rules->pat_by_nvls && in->nvls && in->n_nodes > 1 &&
           nvls->n_channels == in->per_node;
}

/* Whether NCCL models the combination; it does not model broadcasts along a
 * tree, for example. */
static bool cost_model_supports(const struct mock_inputs *in, int coll,
                                int algo, int proto)
{
    if (algo == NCCL_ALGO_PAT && !cost_model_has_pat(in))
        return false;
    return mock_kernel_exists(coll, algo, proto);
}

static bool cost_model_ll128_is_known(const struct mock_inputs *in)
{
    const int *known = in->rules->ll128_on;

    if (known == NULL)
        return in->compcap >= 70;
    while (*known != 0 && *known != in->compcap)
        known++;
    return *known != 0;
}

/* LL128 requires that stores of 128 bytes arrive whole, which some links do not
 * guarantee. */
static bool cost_model_ll128_is_safe(const struct mock_inputs *in, int algo)
{
    const struct mock_graph *graph = mock_graph_of(in, algo);
    enum mock_path farthest = in->compcap >= 90 ? MOCK_PATH_PXN : MOCK_PATH_PXB;

    return graph->type_inter <= farthest &&
           graph->type_intra <= MOCK_PATH_NVB && cost_model_ll128_is_known(in);
}

static bool cost_model_is_there(const struct mock_inputs *in, int algo)
{
    switch (algo) {
    case NCCL_ALGO_COLLNET_DIRECT:
        return in->collnet;
    case NCCL_ALGO_COLLNET_CHAIN:
        return in->collnet && (!in->rules->chain_on_heads || in->heads_chains);
    case NCCL_ALGO_NVLS:
        return in->nvls && (in->collnet || in->n_nodes == 1);
    case NCCL_ALGO_NVLS_TREE:
        return in->nvls && in->n_nodes > 1;
    default:
        return true;
    }
}

static bool cost_model_is_enabled(const struct mock_inputs *in,
                                  const struct mock_user_choice *choice,
                                  int coll, int algo, int proto)
{
    if (choice->algo[coll][algo] == MOCK_USE_NO ||
        choice->proto[coll][proto] == MOCK_USE_NO)
        return false;
    if (choice->proto[coll][proto] == MOCK_USE_IF_SAFE &&
        !cost_model_ll128_is_safe(in, algo))
        return false;
    return cost_model_is_there(in, algo);
}

/* The effective user choice: without CollNet NCCL may ignore NCCL_ALGO if it
 * allows nothing but CollNet and PAT. */
static struct mock_user_choice
cost_model_apply_choice(const struct mock_inputs *in,
                        const struct mock_user_choice *user)
{
    struct mock_user_choice choice = *user;

    if (!in->rules->needs_collnet || in->collnet)
        return choice;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        enum mock_use *use = choice.algo[c];

        /* NVLS within a node is enabled even if the GPUs lack it */
        if (use[NCCL_ALGO_RING] == MOCK_USE_NO &&
            use[NCCL_ALGO_TREE] == MOCK_USE_NO &&
            (use[NCCL_ALGO_NVLS] == MOCK_USE_NO || in->n_nodes > 1) &&
            (use[NCCL_ALGO_NVLS_TREE] == MOCK_USE_NO || in->n_nodes == 1)) {
            use[NCCL_ALGO_RING] = MOCK_USE_YES;
            use[NCCL_ALGO_TREE] = MOCK_USE_YES;
        }
    }
    return choice;
}

/* ---- the model ---- */

static void cost_model_set_threads(struct mock_model *model,
                                   const struct mock_graph *ring)
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
    if (slow && !model->rules->ring_threads)
        model->max_threads[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 256;
    if (!model->rules->pat_threads)
        model->max_threads[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
    model->thread_threshold[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = 512;
    model->thread_threshold[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = 512;
    model->thread_threshold[NCCL_ALGO_RING][NCCL_PROTO_LL] *= model->n_ranks;
}

static void cost_model_set_entry(struct mock_model *model,
                                 const struct mock_inputs *in,
                                 const struct mock_user_choice *choice,
                                 int coll, int algo, int proto)
{
    if (!cost_model_supports(in, coll, algo, proto))
        return;
    model->latency[coll][algo][proto] = mock_latency(in, coll, algo, proto);
    if (cost_model_is_enabled(in, choice, coll, algo, proto))
        model->bandwidth[coll][algo][proto] =
            mock_bandwidth(in, coll, algo, proto);
}

static bool cost_model_has_any(const struct mock_model *model, int coll)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (model->bandwidth[coll][a][p] != 0)
                return true;
    return false;
}

/* NCCL_ALGO does not apply to rings if it leaves nothing else. */
static void
cost_model_enable_ring_fallback(struct mock_model *model,
                                const struct mock_inputs *in,
                                const struct mock_user_choice *choice)
{
    struct mock_user_choice any = *choice;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        any.algo[c][NCCL_ALGO_RING] = MOCK_USE_YES;
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            if (in->rules->ring_keeps_protocols)
                any.proto[c][p] = MOCK_USE_YES;
            if (cost_model_is_enabled(in, &any, c, NCCL_ALGO_RING, p))
                model->ring_backup[c][p] =
                    mock_bandwidth(in, c, NCCL_ALGO_RING, p);
        }
        if (!cost_model_has_any(model, c))
            memcpy(model->bandwidth[c][NCCL_ALGO_RING], model->ring_backup[c],
                   sizeof(model->ring_backup[c]));
    }
}

/* A list of algorithms, which has no symmetric kernel. */
static bool cost_model_is_listed(const struct mock_user_choice *user, int coll)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        if (user->algo[coll][a] == MOCK_USE_NO)
            return true;
    return false;
}

void mock_model_build(struct mock_model *model,
                      const struct mock_machine_info *info,
                      const struct mock_graphs *graphs,
                      const struct mock_model_rules *rules,
                      const ncclTunerConstants_v7_t *constants,
                      const struct mock_user_choice *user)
{
    const struct mock_inputs in =
        cost_model_get_inputs(info, graphs, rules, constants, user);
    const struct mock_user_choice choice = cost_model_apply_choice(&in, user);

    memset(model, 0, sizeof(*model));
    model->rules = rules;
    model->n_ranks = info->n_ranks;
    model->n_nodes = info->n_nodes;
    model->compute_capability = info->compute_capability;
    model->is_x86 = strcmp(info->cpu_vendor, "intel") == 0 ||
                    strcmp(info->cpu_vendor, "amd") == 0 ||
                    strcmp(info->cpu_vendor, "mixed") == 0;
    model->is_arm = strcmp(info->cpu_vendor, "arm") == 0;
    model->all_nvlink =
        info->n_nodes == 1 &&
        graphs->graph[MOCK_GRAPH_RING].type_intra <= MOCK_PATH_NVL;
    model->ring_leaves_gpu =
        graphs->graph[MOCK_GRAPH_RING].type_intra != MOCK_PATH_LOC;
    model->n_channels = info->n_channels;
    model->n_nvls_channels = info->n_nvls_channels;
    model->nvls_network = graphs->graph[MOCK_GRAPH_NVLS].bw_inter;
    model->n_nvls_heads = graphs->graph[MOCK_GRAPH_NVLS].n_channels;
    model->n_collnet_heads = graphs->graph[MOCK_GRAPH_COLLNET_DIRECT].n_heads;
    model->collnet = in.collnet;
    mock_set_nvls_chunks(model, &graphs->graph[MOCK_GRAPH_NVLS]);
    cost_model_set_threads(model, &graphs->graph[MOCK_GRAPH_RING]);
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        model->no_symmetric[c] =
            rules->symmetric_by_algo && cost_model_is_listed(user, c);
    if (info->n_ranks == 1)
        return; /* NCCL never uses the others */
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                cost_model_set_entry(model, &in, &choice, c, a, p);
    if (rules->ring_backup)
        cost_model_enable_ring_fallback(model, &in, &choice);
}
