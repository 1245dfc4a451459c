extern "C" {
#include "device/cuda/kernels.h"
}

namespace
{

enum { THREADS = 256, MOST_BLOCKS = 4096 };

unsigned Blocks(uint64_t n)
{
    const uint64_t blocks = (n + THREADS - 1) / THREADS;

    return blocks < MOST_BLOCKS ? static_cast<unsigned>(blocks) : MOST_BLOCKS;
}

__device__ void Store(void *data, int bits, uint64_t i, uint64_t value)
{
    switch (bits) {
    case 8:
        static_cast<uint8_t *>(data)[i] = static_cast<uint8_t>(value);
        break;
    case 16:
        static_cast<uint16_t *>(data)[i] = static_cast<uint16_t>(value);
        break;
    case 32:
        static_cast<uint32_t *>(data)[i] = static_cast<uint32_t>(value);
        break;
    default:
        static_cast<uint64_t *>(data)[i] = value;
        break;
    }
}

__device__ uint64_t Load(const void *data, int bits, uint64_t i)
{
    switch (bits) {
    case 8:
        return static_cast<const uint8_t *>(data)[i];
    case 16:
        return static_cast<const uint16_t *>(data)[i];
    case 32:
        return static_cast<const uint32_t *>(data)[i];
    default:
        return static_cast<const uint64_t *>(data)[i];
    }
}

__device__ uint64_t First()
{
    return blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
}

__device__ uint64_t Step()
{
    return gridDim.x * static_cast<uint64_t>(blockDim.x);
}

__global__ void Fill(stp_pattern p, unsigned rank, bool poison, void *data,
                     uint64_t n)
{
    const int bits = stp_pattern_bits(p.type);

    for (uint64_t i = First(); i < n; i += Step())
        Store(data, bits, i,
              poison ? stp_pattern_poison(&p, rank, i)
                     : stp_pattern_input(&p, rank, i));
}

__device__ void Add(uint64_t *sum, uint64_t value)
{
    static_assert(sizeof(*sum) == sizeof(unsigned long long), "as atomicAdd()");
    atomicAdd(reinterpret_cast<unsigned long long *>(sum), value);
}

__global__ void Examine(stp_pattern p, unsigned rank, const void *data,
                        uint64_t n, stp_found *found)
{
    const int bits = stp_pattern_bits(p.type);
    stp_found mine = {};

    for (uint64_t i = First(); i < n; i += Step())
        stp_pattern_examine(&p, rank, i, Load(data, bits, i), &mine);
    if (mine.n_wrong > 0)
        Add(&found->n_wrong, mine.n_wrong);
    Add(&found->bits, mine.bits);
}

/* The first 4 * n_fours floats four at a time, and then the rest. */
__global__ void Elementwise(const float *x, float *y, uint64_t n,
                            uint64_t n_fours)
{
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    float4 *y4 = reinterpret_cast<float4 *>(y);

    for (uint64_t i = First(); i < n_fours; i += Step()) {
        const float4 a = x4[i];
        const float4 b = y4[i];

        y4[i] = make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
    }
    for (uint64_t i = 4 * n_fours + First(); i < n; i += Step())
        y[i] = x[i] - y[i];
}

bool TakesFours(const float *data)
{
    return reinterpret_cast<uintptr_t>(data) % sizeof(float4) == 0;
}

} // namespace

cudaError_t stp_kernel_fill(const struct stp_pattern *pattern, unsigned rank,
                            bool poison, void *data, uint64_t n,
                            cudaStream_t stream)
{
    if (n > 0)
        Fill<<<Blocks(n), THREADS, 0, stream>>>(*pattern, rank, poison, data,
                                                n);
    return cudaGetLastError();
}

cudaError_t stp_kernel_examine(const struct stp_pattern *pattern, unsigned rank,
                               const void *data, uint64_t n,
                               struct stp_found *found, cudaStream_t stream)
{
    if (n > 0)
        Examine<<<Blocks(n), THREADS, 0, stream>>>(*pattern, rank, data, n,
                                                   found);
    return cudaGetLastError();
}

cudaError_t stp_kernel_elementwise(const float *x, float *y, uint64_t n,
                                   cudaStream_t stream)
{
    const uint64_t n_fours = TakesFours(x) && TakesFours(y) ? n / 4 : 0;

    if (n > 0)
        Elementwise<<<Blocks(n - 3 * n_fours), THREADS, 0, stream>>>(x, y, n,
                                                                     n_fours);
    return cudaGetLastError();
}
