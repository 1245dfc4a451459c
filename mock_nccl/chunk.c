#include "chunk.h"

enum {
    N_STEPS = 8, /* that a buffer is cut into */
    LL_BUFFER = 512 << 10,
    LL128_BUFFER = 4915200,
    SIMPLE_BUFFER = 4 << 20,
    NVLS_CHUNK = 128 << 10,
};

/* A ring with Simple moves several steps at once. */
static size_t steps_per_chunk(const struct mock_work *work)
{
    bool pipelined =
        work->coll != ncclFuncBroadcast && work->coll != ncclFuncReduce;

    return work->algo == NCCL_ALGO_RING && pipelined ? N_STEPS / 2 : 1;
}

static size_t buffer_chunk(const struct mock_work *work)
{
    switch (work->proto) {
    case NCCL_PROTO_LL: /* half of a line is flags */
        return LL_BUFFER / N_STEPS / 2;
    case NCCL_PROTO_LL128: /* one word of 16 is */
        return LL128_BUFFER / N_STEPS / 16 * 15;
    default:
        return SIMPLE_BUFFER / N_STEPS * steps_per_chunk(work);
    }
}

static size_t nvls_chunk(const struct mock_model *model, size_t n_bytes)
{
    size_t heads = (size_t)model->n_nvls_heads;
    size_t chunk = NVLS_CHUNK;

    if (n_bytes < 64 * heads * chunk && chunk > 65536)
        chunk = 65536;
    if (n_bytes < 8 * heads * chunk && chunk > 32768)
        chunk = 32768;
    if (n_bytes < 2 * heads * chunk && chunk > 16384)
        chunk = 16384;
    return chunk;
}

static size_t tree_ll128_chunk(const struct mock_model *model, size_t n_bytes,
                               size_t chunk)
{
    float n_ranks = (float)model->n_ranks;
    float n_steps = (float)(1 + 0.1 * n_ranks);

    while ((float)(n_bytes / chunk) < n_steps * 64 / n_ranks && chunk > 131072)
        chunk /= 2;
    while ((float)(n_bytes / chunk) < n_steps * 16 / n_ranks && chunk > 32768)
        chunk /= 2;
    return chunk;
}

size_t mock_default_chunk(const struct mock_model *model,
                          const struct mock_work *work, size_t n_bytes,
                          size_t *max_ret)
{
    *max_ret = buffer_chunk(work);
    if (work->algo == NCCL_ALGO_NVLS)
        return nvls_chunk(model, n_bytes);
    if (work->algo == NCCL_ALGO_TREE && work->proto == NCCL_PROTO_LL128)
        return tree_ll128_chunk(model, n_bytes, *max_ret);
    return *max_ret;
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
