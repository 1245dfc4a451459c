/* train_numbers.cuh - shared by kernels of several types: numbers, and how
 * they are loaded and stored */
#ifndef STP_TRAIN_NUMBERS_CUH
#define STP_TRAIN_NUMBERS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include "device/cuda/train_kernels.h"
}

namespace
{

enum {
    THREADS = 256,
    MOST_BLOCKS = 4096,
};

unsigned Blocks(uint64_t n, unsigned of_a_block)
{
    const uint64_t blocks = (n + of_a_block - 1) / of_a_block;

    return blocks < MOST_BLOCKS ? static_cast<unsigned>(blocks) : MOST_BLOCKS;
}

__device__ uint64_t First()
{
    return blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
}

__device__ uint64_t Step()
{
    return gridDim.x * static_cast<uint64_t>(blockDim.x);
}

/* ---- numbers ---- */

/* The type that arithmetic on T is in, and the way back. */
template <typename T> struct Number;

template <> struct Number<float> {
    using Wide = float;
    static __device__ float Of(float x)
    {
        return x;
    }
    static __device__ float Of(double x)
    {
        return static_cast<float>(x);
    }
};

template <> struct Number<double> {
    using Wide = double;
    static __device__ double Of(double x)
    {
        return x;
    }
};

template <> struct Number<__half> {
    using Wide = float;
    static __device__ __half Of(float x)
    {
        return __float2half_rn(x);
    }
    static __device__ __half Of(double x)
    {
        return __double2half(x);
    }
};

template <> struct Number<__nv_bfloat16> {
    using Wide = float;
    static __device__ __nv_bfloat16 Of(float x)
    {
        return __float2bfloat16_rn(x);
    }
    static __device__ __nv_bfloat16 Of(double x)
    {
        return __double2bfloat16(x);
    }
};

template <typename T> using Wide = typename Number<T>::Wide;

__device__ float Widen(float x)
{
    return x;
}

__device__ double Widen(double x)
{
    return x;
}

__device__ float Widen(__half x)
{
    return __half2float(x);
}

__device__ float Widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* Calls 'use' with a number of the type. */
template <typename Use> cudaError_t ByType(int type, const Use &use)
{
    switch (type) {
    case STP_TYPE_F32:
        return use(float{});
    case STP_TYPE_F64:
        return use(double{});
    case STP_TYPE_F16:
        return use(__half{});
    case STP_TYPE_BF16:
        return use(__nv_bfloat16{});
    default:
        return cudaErrorNotSupported;
    }
}

/* ---- elements ---- */

template <unsigned N, typename T> struct alignas(N * sizeof(T)) Pack {
    T at[N];
};

template <unsigned N, typename T>
__device__ Pack<N, T> Load(const T *from, uint64_t i)
{
    return *reinterpret_cast<const Pack<N, T> *>(from + i);
}

template <unsigned N, typename T>
__device__ void Store(T *to, uint64_t i, const Pack<N, T> &pack)
{
    *reinterpret_cast<Pack<N, T> *>(to + i) = pack;
}

/* A thread loads so many of T at a time. */
template <typename T> constexpr unsigned kPack = 16 / sizeof(T);

template <unsigned N, typename T> bool Packs(const T *data)
{
    return reinterpret_cast<uintptr_t>(data) % (N * sizeof(T)) == 0;
}

} // namespace

#endif // STP_TRAIN_NUMBERS_CUH
