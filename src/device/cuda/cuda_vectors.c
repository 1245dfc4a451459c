/* cuda_vectors.c - elementwise kernels and what they work on */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

/* Both streams may want as much. */
enum { N_VECTORS = 2 * STP_N_STREAMS };

enum stp_status stp_cuda_vectors_check(const struct stp_cuda *d,
                                       uint64_t n_bytes, struct stp_error *err)
{
    const double gib = 1073741824.0;

    for (unsigned i = 0; i < d->n_local; i++) {
        const struct stp_cuda_rank *r = &d->ranks[i];

        if (n_bytes > r->free_bytes / N_VECTORS)
            return stp_fail(err, STP_ERR_RANGE,
                            "vectors of %.1f GiB, but GPU %d has %.1f GiB for "
                            "%d such: expected at most %.1f GiB",
                            (double)n_bytes / gib, r->gpu,
                            (double)r->free_bytes / gib, (int)N_VECTORS,
                            (double)r->free_bytes / N_VECTORS / gib);
    }
    return STP_OK;
}

/* Random data, as with matrices. */
static cudaError_t fill(const struct stp_cuda_vectors *v, uint64_t n_bytes)
{
    const struct stp_pattern pattern = {.coll = ncclFuncAllReduce,
                                        .type = STP_TYPE_F32,
                                        .ranks = 64,
                                        .block = 1};
    const uint64_t n = n_bytes / sizeof(float);
    cudaError_t result = stp_kernel_fill(&pattern, 0, v->x, n, 0);

    if (result == cudaSuccess)
        result = stp_kernel_fill(&pattern, 1, v->y, n, 0);
    return result == cudaSuccess ? cudaDeviceSynchronize() : result;
}

enum stp_status stp_cuda_vectors_prepare(struct stp_cuda_rank *rank,
                                         unsigned stream, uint64_t n_bytes,
                                         struct stp_error *err)
{
    struct stp_cuda_vectors *v = &rank->vectors[stream];
    cudaError_t result;

    if (n_bytes <= v->n_bytes)
        return STP_OK;
    cudaSetDevice(rank->gpu);
    stp_cuda_vectors_free(v);
    result = cudaMalloc((void **)&v->x, n_bytes);
    if (result == cudaSuccess)
        result = cudaMalloc((void **)&v->y, n_bytes);
    if (result == cudaSuccess)
        result = fill(v, n_bytes);
    if (result == cudaSuccess)
        v->n_bytes = n_bytes;
    return stp_cuda_result(rank, result, "room for vectors", err);
}

enum stp_status stp_cuda_vectors_run(const struct stp_cuda_rank *rank,
                                     unsigned stream, uint64_t n_bytes,
                                     struct stp_error *err)
{
    const struct stp_cuda_vectors *v = &rank->vectors[stream];

    return stp_cuda_result(rank,
                           stp_kernel_elementwise(v->x, v->y,
                                                  n_bytes / sizeof(float),
                                                  rank->stream[stream]),
                           "an elementwise kernel", err);
}

void stp_cuda_vectors_free(struct stp_cuda_vectors *v)
{
    cudaFree(v->x);
    cudaFree(v->y);
    *v = (struct stp_cuda_vectors){0};
}
