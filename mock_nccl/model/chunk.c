#include "model/channels.h"

#include "model/cost_formulas.h"

enum {
    N_STEPS = 8,            /* number of steps of a buffer */
    LL_BUFFER = 512 << 10,  /* half of each line of 16 bytes is flags */
    LL128_BUFFER = 4915200, /* one word of 8 bytes in 16 is a flag */
    SIMPLE_BUFFER = 4 << 20,
    KIB = 1 << 10,
};

void mock_set_chunks(struct mock_model *model, const struct mock_graph *nvls,
                     const char *const *variables)
{
    static const int sizes[] = {LL_BUFFER, LL128_BUFFER, SIMPLE_BUFFER};

    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
        const int n =
            (int)mock_variable_number(variables[MOCK_LL_BUFFSIZE + p], -2);

        model->buffers[p] = n == -2 ? sizes[p] : n < 8 * KIB ? 8 * KIB : n;
    }
    model->nvls_chunk = 128 * KIB;
    model->nvls_tree_chunk = model->n_nodes >= 4 ? 64 * KIB : 128 * KIB;
    if (model->compute_capability >= 100 && model->n_nodes > 1) {
        /* ncclNvlsTreeSm100Tuning() of src/transport/nvls.cc: by GPUs per node,
         * the bandwidth of the slowest NIC, for which the graph's stands, and
         * the path from GPU to NIC. */
        int per_node = model->n_ranks / model->n_nodes;
        bool near = nvls->type_inter <= MOCK_PATH_PXB;
        bool fast = nvls->bw_inter >= 96;

        if (nvls->bw_inter >= 48) {
            model->nvls_tree_chunk = 128 * KIB;
            if (model->n_nodes == 2 ? per_node <= 4 : fast && per_node <= 8)
                model->nvls_chunk = model->nvls_tree_chunk = 256 * KIB;
            else if (model->n_nodes == 2
                         ? per_node >= 16 || (per_node <= 8 && near && !fast)
                     : fast ? per_node >= 32
                            : near)
                model->nvls_tree_chunk = 64 * KIB;
        }
    }
}

/* If the bytes are fewer than 'n_chunks' chunks for each head and channel, a
 * chunk has at most 'chunk' bytes. */
struct step {
    size_t n_chunks;
    size_t chunk;
};

static size_t chunk_step_down(const struct step *steps, int n, size_t n_bytes,
                              size_t at_once, size_t chunk)
{
    for (int i = 0; i < n; i++)
        if (n_bytes < steps[i].n_chunks * at_once * chunk &&
            chunk > steps[i].chunk)
            chunk = steps[i].chunk;
    return chunk;
}

/* Halves the chunk while it is above 'least' and each of 'at_once' has fewer
 * than 'n_chunks' chunks. */
static size_t chunk_halve(size_t chunk, size_t least, float n_chunks,
                          size_t at_once, size_t n_bytes)
{
    while ((float)(n_bytes / (at_once * chunk)) < n_chunks && chunk > least)
        chunk /= 2;
    return chunk;
}

/* 'depth' is NCCL's: 2 for CollNet Direct, 1 with one GPU per node, and the
 * GPUs per node for CollNet Chain (src/graph/connect.cc). */
static size_t chunk_get_collnet(size_t chunk, int depth, int last,
                                size_t at_once, size_t n_bytes)
{
    chunk =
        chunk_halve(chunk, 128 * KIB, (float)(64 * depth), at_once, n_bytes);
    chunk = chunk_halve(chunk, 64 * KIB, (float)(8 * depth), at_once, n_bytes);
    return chunk_halve(chunk, 32 * KIB, (float)(last * depth), at_once,
                       n_bytes);
}

size_t mock_default_chunk(const struct mock_model *model,
                          const struct mock_work *work, int n_channels,
                          size_t n_bytes, size_t *max_ret)
{
    static const struct step nvls[] = {
        {64, 64 * KIB}, {8, 32 * KIB}, {2, 16 * KIB}};
    static const struct step nvls_tree[] = {
        {32, 256 * KIB}, {16, 128 * KIB}, {4, 64 * KIB}, {1, 32 * KIB}};
    const float per_node = (float)model->n_ranks / (float)model->n_nodes;
    const bool reduces_ring =
        work->algo == NCCL_ALGO_RING && work->proto == NCCL_PROTO_SIMPLE &&
        work->coll != ncclFuncBroadcast && work->coll != ncclFuncReduce;
    size_t n = (size_t)n_channels;
    size_t n_chunks = work->coll == ncclFuncAllGather ? 32 : 16;
    /* chunkSteps: a ring with Simple moves half a buffer at a time, except in a
     * broadcast or a reduce */
    size_t chunk = (size_t)(model->buffers[work->proto] / N_STEPS) *
                   (reduces_ring ? N_STEPS / 2 : 1);
    int depth = model->n_ranks / model->n_nodes == 1 ? 1 : 2;
    float n_steps;
    size_t most;

    *max_ret = chunk;
    if (work->proto == NCCL_PROTO_LL)
        *max_ret = chunk /= 2;
    if (work->proto == NCCL_PROTO_LL128)
        *max_ret = chunk = chunk / 16 * 15;
    switch (work->algo) {
    case NCCL_ALGO_NVLS:
        most = model->n_nodes > 1 &&
                       model->bandwidth[ncclFuncAllReduce][NCCL_ALGO_NVLS]
                                       [NCCL_PROTO_SIMPLE] < 150
                   ? 32 * KIB
                   : model->nvls_chunk;
        return chunk_step_down(nvls, 3, n_bytes,
                               n * (size_t)model->n_nvls_heads,
                               chunk < most ? chunk : most);
    case NCCL_ALGO_NVLS_TREE:
        return chunk_step_down(nvls_tree, 4, n_bytes,
                               n * (size_t)model->n_nvls_heads,
                               model->nvls_chunk < model->nvls_tree_chunk
                                   ? model->nvls_chunk
                                   : model->nvls_tree_chunk);
    case NCCL_ALGO_COLLNET_DIRECT:
        return chunk_get_collnet(chunk, depth, 8,
                                 n * (size_t)model->n_collnet_heads, n_bytes);
    case NCCL_ALGO_COLLNET_CHAIN:
        return chunk_get_collnet(chunk < 256 * KIB ? chunk : 256 * KIB,
                                 model->n_ranks / model->n_nodes, 1, n,
                                 n_bytes);
    case NCCL_ALGO_PAT:
        /* NCCL's product is an int, as that of mock_default_channels() */
        while ((size_t)(int)(unsigned)(chunk * n * n_chunks) > n_bytes &&
               chunk > 64 * KIB)
            chunk /= 2;
        return chunk;
    case NCCL_ALGO_TREE:
        if (work->proto != NCCL_PROTO_LL128)
            return chunk;
        n_steps =
            (float)(1 + mock_log2((size_t)model->n_nodes) + 0.1 * per_node);
        chunk =
            chunk_halve(chunk, 128 * KIB, n_steps * 64 / per_node, n, n_bytes);
        return chunk_halve(chunk, 32 * KIB, n_steps * 16 / per_node, n,
                           n_bytes);
    default:
        return chunk;
    }
}

size_t mock_chunk_grain(int proto)
{
    static const size_t grains[NCCL_NUM_PROTOCOLS] = {
        [NCCL_PROTO_LL] = 16,
        [NCCL_PROTO_LL128] = 1920,
        [NCCL_PROTO_SIMPLE] = 512,
    };

    return grains[proto];
}
