/*
 * machine_size.c - what NCCL derives from a machine's graphs, for as many GPUs
 * as they were searched for and for others
 */
#include <stdlib.h>

#include "machine/machine.h"

enum {
    MAX_CHANNELS = 64,
    FEW_CHANNELS = 16, /* too few for a fast ring between nodes */
    NVSWITCH_GPUS = 8, /* of an HGX board */
    NVLS_CHANNELS_HOPPER = 16,
    NVLS_CHANNELS_BLACKWELL = 24, /* within one node */
    NVLS_CHANNELS_BLACKWELL_NODES = 32,
};

static const float fast_ring = 45.0f; /* GB/s a channel */

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* ---- channels ---- */

/* Each search channel twice; and four times where a few fast ones have to feed
 * a network. */
static int count_channels(const struct mock_machine_info *info,
                          const struct mock_graphs *graphs, bool collnet)
{
    const struct mock_graph *chain = &graphs->graph[MOCK_GRAPH_COLLNET_CHAIN];
    const struct mock_graph *ring = &graphs->graph[MOCK_GRAPH_RING];
    const struct mock_graph *tree = &graphs->graph[MOCK_GRAPH_TREE];
    int n = min(MAX_CHANNELS, 2 * min(ring->n_channels, tree->n_channels));

    /* half as many more, to keep up within a node */
    if (collnet && chain->bw_intra > chain->bw_inter &&
        info->n_ranks > info->n_nodes)
        n = min(MAX_CHANNELS, n + n / 2);
    if (info->compute_capability >= 90 && info->n_nodes > 1 &&
        ring->bw_intra > fast_ring && n < FEW_CHANNELS)
        n *= 2;
    return n;
}

int mock_channel_count(const struct mock_machine_info *info,
                       const struct mock_graphs *graphs)
{
    return count_channels(info, graphs, false);
}

bool mock_machine_collnet(const struct mock_machine *machine,
                          struct mock_machine_info *info)
{
    const struct mock_graphs *graphs = &machine->graphs;

    if (info->n_nodes == 1 ||
        graphs->graph[MOCK_GRAPH_COLLNET_CHAIN].n_channels == 0)
        return false;
    if (info->n_channels == mock_channel_count(info, graphs))
        info->n_channels = count_channels(info, graphs, true);
    return true;
}

int mock_nvls_channel_count(const struct mock_machine_info *info,
                            const struct mock_graphs *graphs)
{
    if (graphs->graph[MOCK_GRAPH_NVLS].n_channels == 0 ||
        info->n_ranks / info->n_nodes < 2)
        return 0;
    if (info->compute_capability < 100)
        return NVLS_CHANNELS_HOPPER;
    return info->n_nodes > 1 ? NVLS_CHANNELS_BLACKWELL_NODES
                             : NVLS_CHANNELS_BLACKWELL;
}

ncclResult_t mock_machine_model(struct mock_machine *machine)
{
    struct mock_user_choice choice;
    ncclResult_t rc =
        mock_user_choice_parse(mock_version_find(NULL), NULL, NULL, &choice);

    if (rc == ncclSuccess)
        mock_model_build(&machine->model, &machine->info, &machine->graphs,
                         mock_version_find(NULL)->model,
                         &mock_default_constants, &choice);
    return rc;
}

/* ---- other numbers of GPUs ---- */

/* A count that NCCL did not derive was the user's, for any number of GPUs. */
static void resize_channels(const struct mock_machine *machine,
                            struct mock_machine *resized)
{
    const struct mock_machine_info *from = &machine->info;
    struct mock_machine_info *to = &resized->info;

    if (from->n_channels == mock_channel_count(from, &machine->graphs))
        to->n_channels = mock_channel_count(to, &resized->graphs);
    if (from->n_nvls_channels ==
            mock_nvls_channel_count(from, &machine->graphs) ||
        to->n_ranks / to->n_nodes < 2)
        to->n_nvls_channels = mock_nvls_channel_count(to, &resized->graphs);
}

/* A node of fewer GPUs than its NVSwitch could have. */
static bool has_room(const struct mock_machine *machine, int n_ranks)
{
    const struct mock_graphs *graphs = &machine->graphs;

    return machine->info.n_nodes == 1 && !graphs->on_network &&
           n_ranks <= NVSWITCH_GPUS &&
           graphs->graph[MOCK_GRAPH_RING].type_intra <= MOCK_PATH_NVL;
}

static void resize(const struct mock_machine *machine, int n_ranks,
                   struct mock_machine *resized)
{
    int per_node = has_room(machine, n_ranks)
                       ? n_ranks
                       : min(machine->graphs.per_node, n_ranks);
    struct mock_graph *nvls = &resized->graphs.graph[MOCK_GRAPH_NVLS];

    resized->info = machine->info;
    resized->info.n_ranks = n_ranks;
    resized->info.n_nodes = n_ranks / per_node;
    resized->info.resized = true;
    resized->graphs = machine->graphs;
    resized->graphs.per_node = per_node;
    nvls->n_channels = min(nvls->n_channels, per_node); /* a GPU heads each */
    resize_channels(machine, resized);
}

static ncclResult_t check_size(const struct mock_machine *machine, int n_ranks)
{
    const char *name = machine->info.name;
    int per_node = machine->graphs.per_node;

    if (n_ranks < 1 || n_ranks > MOCK_MAX_RANKS)
        return mock_fail(ncclInvalidArgument,
                         "%s with %d GPUs, expected 1 to %d", name, n_ranks,
                         MOCK_MAX_RANKS);
    if (n_ranks <= per_node || has_room(machine, n_ranks))
        return ncclSuccess;
    if (n_ranks % per_node != 0)
        return mock_fail(ncclInvalidArgument,
                         "%s with %d GPUs, expected at most the %d of a node, "
                         "or a multiple of them",
                         name, n_ranks, per_node);
    if (machine->info.n_nodes == 1 && !machine->graphs.on_network)
        return mock_fail(ncclInvalidArgument,
                         "%s with %d GPUs, but it is one node of %d and its "
                         "search graphs have no network: take a machine of "
                         "several nodes, such as h100n2x8 or a100n2x8",
                         name, n_ranks, per_node);
    return ncclSuccess;
}

ncclResult_t mock_machine_resize(const struct mock_machine *machine,
                                 int n_ranks, struct mock_machine **resized_ret)
{
    struct mock_machine *resized;
    ncclResult_t rc = check_size(machine, n_ranks);

    if (rc != ncclSuccess)
        return rc;
    resized = calloc(1, sizeof(*resized));
    if (resized == NULL)
        return mock_fail_memory();
    resize(machine, n_ranks, resized);
    rc = mock_machine_model(resized);
    if (rc != ncclSuccess) {
        mock_machine_free(resized);
        return rc;
    }
    *resized_ret = resized;
    return ncclSuccess;
}
