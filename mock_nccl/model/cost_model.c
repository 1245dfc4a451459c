#include "model/cost_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "model/channels.h"
#include "model/cost_formulas.h"

/* ---- variables ---- */

int mock_variable_find(const char *name)
{
    static const char *const names[MOCK_N_VARIABLES] = {
        "NCCL_NTHREADS",
        "NCCL_LL128_NTHREADS",
        "NCCL_THREAD_THRESHOLDS",
        "NCCL_PAT_ENABLE",
        "NCCL_LL128_C2C",
        "NCCL_NET_OVERHEAD",
        "NCCL_ALLGATHERV_ENABLE",
        "NCCL_COMM_SPLIT_SHARE_RESOURCES",
        "NCCL_COMM_SHRINK_SHARE_RESOURCES",
        "NCCL_WORK_ARGS_BYTES",
        "NCCL_LL_BUFFSIZE",
        "NCCL_LL128_BUFFSIZE",
        "NCCL_BUFFSIZE"};

    return mock_word_find(&(struct mock_words){names, MOCK_N_VARIABLES}, name);
}

long long mock_variable_number(const char *value, long long unset)
{
    long long n;

    if (value == NULL || value[0] == '\0')
        return unset;
    errno = 0;
    n = strtoll(value, NULL, 0);
    return errno != 0 ? unset : n;
}

/* ---- input of the formulas ---- */

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
    /* the heads of this graph send for the other GPUs of a node by CollNet */
    bool of_nvls = rules->nvls_heads && info->n_nvls_channels > 0;
    const struct mock_graph *heads =
        &graphs->graph[of_nvls ? MOCK_GRAPH_NVLS : MOCK_GRAPH_COLLNET_DIRECT];
    int compcap = info->compute_capability;
    int per_node = info->n_ranks / info->n_nodes;
    struct mock_inputs in = {
        .rules = rules,
        .constants = constants,
        .graphs = graphs,
        .compcap = compcap,
        .is_unlike = info->max_compute_capability > compcap,
        .compcap_index = compcap >= 100  ? rules->newest_compcap
                         : compcap >= 90 ? NCCL_HOPPER_COMPCAP_IDX
                         : compcap >= 80 ? NCCL_AMPERE_COMPCAP_IDX
                                         : NCCL_VOLTA_COMPCAP_IDX,
        .scale = info->n_nodes == 1   ? NCCL_TUNING_SCALE_1NODE
                 : info->n_nodes == 2 ? NCCL_TUNING_SCALE_2NODES
                                      : NCCL_TUNING_SCALE_4NODES,
        .n_ranks = info->n_ranks,
        .n_nodes = info->n_nodes,
        .per_node = per_node,
        .nvls = info->n_nvls_channels > 0,
        .collnet =
            choice->collnet && mock_within(per_node, rules->max_collnet_ranks),
        .n_heads = heads->n_heads,
        .heads_chains = heads->heads_chains,
        .ll128_near =
            rules->ll128_c2c &&
            mock_variable_number(choice->variables[MOCK_LL128_C2C], 1) == 0,
    };
    const long long overhead =
        mock_variable_number(choice->variables[MOCK_NET_OVERHEAD], -2);

    if (info->n_nodes == 1) {
        in.ll_row = in.compcap_index;
    } else {
        in.ll_row = like_amd ? 1 : 0;
        in.overhead_us = amd ? 2.0f : 1.0f;
        if (overhead != -2)
            in.overhead_us = (float)((double)overhead * .001);
    }
    return in;
}

/* ---- supported combinations ---- */

/* LL128 requires that 128 bytes arrive whole, which some links do not do. */
static bool cost_model_ll128_is_safe(const struct mock_inputs *in, int algo)
{
    const struct mock_graph *graph = mock_graph_of(in, algo);
    enum mock_path farthest =
        in->compcap >= 90 && !in->ll128_near ? MOCK_PATH_PXN : MOCK_PATH_PXB;
    const int *known = in->rules->ll128_on;

    if (graph->type_inter > farthest || graph->type_intra > MOCK_PATH_NVB ||
        (in->is_unlike && (!in->rules->ll128_unlike || in->compcap < 90)))
        return false;
    if (known == NULL)
        return in->compcap >= 70;
    while (*known != 0 && *known != in->compcap)
        known++;
    return *known != 0;
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

/* getNthreads(): threads are whole warps. */
static int cost_model_read_threads(const char *value, int min, int max,
                                   int unset)
{
    const int n = (int)mock_variable_number(value, -2);

    if (n <= 0)
        return unset;
    if (n % 32 != 0 || n > max)
        return max;
    return n < min ? min : n;
}

static void cost_model_set_threads(struct mock_model *model,
                                   const struct mock_graph *ring,
                                   const char *const *variables)
{
    const char *all = variables[MOCK_NTHREADS];
    const char *of_ll128 = variables[MOCK_LL128_NTHREADS];
    const char *thresholds = variables[MOCK_THREAD_THRESHOLDS];
    long given[] = {-2, -2, -2, -2, -2, -2}; /* of trees, then rings */
    /* PCIe 3 x16, in GB/s: a slower ring needs fewer threads */
    bool slow = ring->bw_intra * (float)ring->n_channels <= 12.0f;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++) {
        bool ring_or_tree = a == NCCL_ALGO_RING || a == NCCL_ALGO_TREE;
        int *threads = model->max_threads[a];
        int *threshold = model->thread_threshold[a];

        threads[NCCL_PROTO_LL] =
            ring_or_tree ? cost_model_read_threads(all, 64, 512, 512) : 0;
        threads[NCCL_PROTO_LL128] =
            ring_or_tree ? cost_model_read_threads(of_ll128, 160, 640, 640) : 0;
        threads[NCCL_PROTO_SIMPLE] =
            ring_or_tree ? cost_model_read_threads(all, 64, 512, 512) : 640;
        threshold[NCCL_PROTO_LL] = 8;
        threshold[NCCL_PROTO_LL128] = 8;
        threshold[NCCL_PROTO_SIMPLE] = 64;
    }
    if (slow && !model->rules->ring_threads)
        model->max_threads[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] =
            cost_model_read_threads(all, 64, 512, 256);
    if (!model->rules->pat_threads)
        model->max_threads[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
    model->thread_threshold[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = 512;
    model->thread_threshold[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = 512;
    model->thread_threshold[NCCL_ALGO_RING][NCCL_PROTO_LL] *= model->n_ranks;
    if (thresholds != NULL)
        (void)sscanf(thresholds, "%ld %ld %ld %ld %ld %ld", &given[0],
                     &given[1], &given[2], &given[3], &given[4], &given[5]);
    for (int i = 0; i < 6; i++)
        if (given[i] >= 0)
            model->thread_threshold[i / 3][i % 3] = (int)given[i];
}

/* NCCL_ALGO does not apply to rings if it leaves nothing else. */
static void
cost_model_enable_ring_fallback(struct mock_model *model,
                                const struct mock_inputs *in,
                                const struct mock_user_choice *choice)
{
    struct mock_user_choice any = *choice;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        const float *all = model->bandwidth[c][0];
        bool has_any = false;

        any.algo[c][NCCL_ALGO_RING] = MOCK_USE_YES;
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            if (in->rules->ring_keeps_protocols)
                any.proto[c][p] = MOCK_USE_YES;
            if (cost_model_is_enabled(in, &any, c, NCCL_ALGO_RING, p))
                model->ring_backup[c][p] =
                    mock_bandwidth(in, c, NCCL_ALGO_RING, p);
        }
        for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++)
            has_any |= all[i] != 0;
        if (!has_any)
            memcpy(model->bandwidth[c][NCCL_ALGO_RING], model->ring_backup[c],
                   sizeof(model->ring_backup[c]));
    }
}

static int cost_model_limit(int n, int min, int max)
{
    n = max > 0 && max < n ? max : n;
    return n < min ? min : n;
}

/* NCCL first has the fewer channels, then copies them. */
static void cost_model_set_channels(struct mock_model *model,
                                    const struct mock_machine_info *info,
                                    const struct mock_limits *limits)
{
    const int most = model->rules->max_channels;
    const int nvls = limits->nvls_channels > 0 ? limits->nvls_channels
                                               : info->n_nvls_channels;

    model->max_ctas = cost_model_limit(most, 1, limits->max_ctas);
    model->min_ctas = cost_model_limit(limits->min_ctas, 1, model->max_ctas);
    model->n_channels =
        cost_model_limit(info->n_channels, 1, limits->max_channels);
    model->n_channels = cost_model_limit(
        model->n_channels,
        cost_model_limit(limits->min_channels, model->min_ctas, most),
        model->max_ctas);
    if (info->n_nvls_channels > 0)
        model->n_nvls_channels =
            cost_model_limit(nvls, model->min_ctas, model->max_ctas);
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
    const int pat =
        (int)mock_variable_number(user->variables[MOCK_PAT_ENABLE], 2);
    /* PAT has one rank a node, or all of a node's are heads of NVLS */
    const bool has_pat =
        rules->pat && pat != 0 &&
        (in.per_node == 1 || pat != 2 ||
         (rules->pat_by_nvls && in.nvls && in.n_nodes > 1 &&
          graphs->graph[MOCK_GRAPH_NVLS].n_channels == in.per_node));

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
    cost_model_set_channels(model, info, &user->limits);
    model->nvls_network = graphs->graph[MOCK_GRAPH_NVLS].bw_inter;
    model->n_nvls_heads = graphs->graph[MOCK_GRAPH_NVLS].n_channels;
    model->n_collnet_heads = graphs->graph[MOCK_GRAPH_COLLNET_DIRECT].n_heads;
    model->collnet = in.collnet;
    mock_set_chunks(model, &graphs->graph[MOCK_GRAPH_NVLS], user->variables);
    cost_model_set_threads(model, &graphs->graph[MOCK_GRAPH_RING],
                           user->variables);
    memcpy(model->no_symmetric, user->no_symmetric,
           sizeof(model->no_symmetric));
    if (info->n_ranks == 1)
        return; /* NCCL never uses the others */
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
                if (!mock_kernel_exists(c, a, p) ||
                    (a == NCCL_ALGO_PAT && !has_pat))
                    continue;
                model->latency[c][a][p] = mock_latency(&in, c, a, p);
                if (cost_model_is_enabled(&in, &choice, c, a, p))
                    model->bandwidth[c][a][p] = mock_bandwidth(&in, c, a, p);
            }
    if (rules->ring_backup)
        cost_model_enable_ring_fallback(model, &in, &choice);
}
