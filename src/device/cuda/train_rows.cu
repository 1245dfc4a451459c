/* train_rows.cu - kernels on the rows and the columns of a matrix */
#include "device/cuda/train_numbers.cuh"

namespace
{

enum {
    WARP = 32,
    WARPS = THREADS / WARP, /* of a block */
    CHUNKS = 32,            /* of the rows whose columns are added up */
};

/* ---- rows ---- */

template <typename T> __device__ T AddUp(T x)
{
    for (unsigned o = WARP / 2; o > 0; o /= 2)
        x += __shfl_xor_sync(~0u, x, o);
    return x;
}

/* The largest logit, and the first place of it, in all lanes. */
template <typename T>
__device__ void FindLargest(const T *row, unsigned n, Wide<T> *most_ret,
                            unsigned *where_ret)
{
    Wide<T> most = -INFINITY;
    unsigned where = ~0u;

    for (unsigned j = threadIdx.x % WARP; j < n; j += WARP) {
        const Wide<T> x = Widen(row[j]);

        if (x > most || (where == ~0u && x == most)) {
            most = x;
            where = j;
        }
    }
    for (unsigned o = WARP / 2; o > 0; o /= 2) {
        const Wide<T> other = __shfl_xor_sync(~0u, most, o);
        const unsigned there = __shfl_xor_sync(~0u, where, o);

        if (other > most || (other == most && there < where)) {
            most = other;
            where = there;
        }
    }
    *most_ret = most;
    *where_ret = where;
}

/* A row is a warp's.  A lane writes only elements that it reads, but for the
 * label's logit, which all have read by then. */
template <typename T>
__device__ double RowOfCrossEntropy(const stp_cross_entropy &c, uint64_t r,
                                    bool *correct_ret)
{
    const T *row = static_cast<const T *>(c.logits) + r * c.classes;
    T *gradient = static_cast<T *>(c.gradient);
    const unsigned label = static_cast<unsigned>(c.label[r]);
    const Wide<T> at_label = Widen(row[label]);
    Wide<T> most, sum = 0;
    unsigned where;

    FindLargest(row, c.classes, &most, &where);
    for (unsigned j = threadIdx.x % WARP; j < c.classes; j += WARP)
        sum += exp(Widen(row[j]) - most);
    sum = AddUp(sum);
    *correct_ret = where == label;
    __syncwarp();
    if (gradient != nullptr)
        for (unsigned j = threadIdx.x % WARP; j < c.classes; j += WARP) {
            const Wide<T> p = exp(Widen(row[j]) - most) / sum;

            gradient[r * c.classes + j] =
                Number<T>::Of(static_cast<Wide<T>>(c.gradient_scale) *
                              (p - (j == label ? 1 : 0)));
        }
    return static_cast<double>(log(sum)) +
           (static_cast<double>(most) - static_cast<double>(at_label));
}

template <typename T>
__global__ void __launch_bounds__(THREADS) CrossEntropy(stp_cross_entropy c)
{
    __shared__ double losses[WARPS];
    __shared__ unsigned corrects[WARPS];
    const unsigned warp = threadIdx.x / WARP;
    double loss = 0;
    unsigned correct = 0;

    for (uint64_t r = blockIdx.x * uint64_t{WARPS} + warp; r < c.n;
         r += gridDim.x * uint64_t{WARPS}) {
        bool is_correct;

        loss += RowOfCrossEntropy<T>(c, r, &is_correct);
        correct += is_correct;
    }
    if (threadIdx.x % WARP == 0) {
        losses[warp] = loss;
        corrects[warp] = correct;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (unsigned w = 1; w < WARPS; w++) {
        loss += losses[w];
        correct += corrects[w];
    }
    atomicAdd(c.loss, c.loss_scale * loss);
    if (c.correct != nullptr)
        atomicAdd(c.correct, static_cast<double>(correct));
}

/* ---- columns ---- */

/* A block's columns are N of each of a warp's lanes, its rows a chunk, of which
 * each warp has every WARPS-th. */
template <unsigned N, typename T>
__global__ void __launch_bounds__(THREADS)
    SumChunks(const T *matrix, unsigned rows, unsigned columns,
              unsigned rows_of_chunk, Wide<T> *sums)
{
    __shared__ Wide<T> part[WARPS][WARP * N];
    const unsigned lane = threadIdx.x % WARP;
    const unsigned warp = threadIdx.x / WARP;
    const uint64_t column = (blockIdx.x * uint64_t{WARP} + lane) * N;
    const uint64_t first = blockIdx.y * uint64_t{rows_of_chunk};
    const uint64_t last =
        first + rows_of_chunk < rows ? first + rows_of_chunk : rows;
    Wide<T> sum[N] = {};

    if (column < columns) {
#pragma unroll 4
        for (uint64_t r = first + warp; r < last; r += WARPS) {
            const Pack<N, T> x = Load<N>(matrix, r * columns + column);

            for (unsigned k = 0; k < N; k++)
                sum[k] += Widen(x.at[k]);
        }
    }
    for (unsigned k = 0; k < N; k++)
        part[warp][lane * N + k] = sum[k];
    __syncthreads();
    if (warp != 0 || column >= columns)
        return;
    for (unsigned k = 0; k < N; k++) {
        for (unsigned w = 1; w < WARPS; w++)
            sum[k] += part[w][lane * N + k];
        sums[blockIdx.y * uint64_t{columns} + column + k] = sum[k];
    }
}

template <typename T, typename Sum>
__global__ void __launch_bounds__(THREADS)
    AddChunks(const T *sums, unsigned n_chunks, unsigned columns, bool adds,
              Sum *sum)
{
    for (uint64_t j = First(); j < columns; j += Step()) {
        T total = adds ? T(Widen(sum[j])) : T(0);

#pragma unroll 8
        for (unsigned c = 0; c < n_chunks; c++)
            total += sums[c * uint64_t{columns} + j];
        sum[j] = Number<Sum>::Of(total);
    }
}

template <unsigned N, typename T, typename Sum>
cudaError_t SumColumns(const stp_kernel &c, void *scratch,
                       uint64_t scratch_bytes, cudaStream_t stream)
{
    const unsigned lanes = WARP * N;
    const uint64_t room =
        c.columns > 0 ? scratch_bytes / sizeof(Wide<T>) / c.columns : 1;
    Wide<T> *sums = static_cast<Wide<T> *>(scratch);
    Sum *sum = static_cast<Sum *>(c.to);
    unsigned chunks = (c.rows + WARPS - 1) / WARPS;
    cudaFuncAttributes unused;
    cudaError_t result;

    if (c.columns == 0) {
        result = cudaFuncGetAttributes(&unused, SumChunks<N, T>);
        return result != cudaSuccess
                   ? result
                   : cudaFuncGetAttributes(&unused, AddChunks<Wide<T>, Sum>);
    }
    chunks = chunks > CHUNKS ? CHUNKS : chunks > 0 ? chunks : 1;
    chunks = chunks > room ? static_cast<unsigned>(room) : chunks;
    if (chunks == 0)
        return cudaErrorNotSupported;
    const unsigned rows_of_chunk = (c.rows + chunks - 1) / chunks;
    SumChunks<N, T>
        <<<dim3((c.columns + lanes - 1) / lanes, chunks), THREADS, 0, stream>>>(
            static_cast<const T *>(c.from), c.rows, c.columns, rows_of_chunk,
            sums);
    AddChunks<Wide<T>, Sum><<<Blocks(c.columns, THREADS), THREADS, 0, stream>>>(
        sums, chunks, c.columns, c.factor != 0, sum);
    return cudaGetLastError();
}

template <typename T, typename Sum>
cudaError_t ChooseColumns(const stp_kernel &c, void *scratch,
                          uint64_t scratch_bytes, cudaStream_t stream)
{
    constexpr unsigned n = kPack<T>;
    const bool packs =
        c.columns % n == 0 && Packs<n>(static_cast<const T *>(c.from));

    if (c.columns == 0) {
        const cudaError_t result =
            SumColumns<n, T, Sum>(c, scratch, scratch_bytes, stream);

        if (result != cudaSuccess)
            return result;
    }
    return packs && c.columns > 0
               ? SumColumns<n, T, Sum>(c, scratch, scratch_bytes, stream)
               : SumColumns<1, T, Sum>(c, scratch, scratch_bytes, stream);
}

} // namespace

cudaError_t stp_train_cross_entropy(const struct stp_cross_entropy *loss,
                                    cudaStream_t stream)
{
    return ByType(loss->type, [&](auto tag) {
        using T = decltype(tag);
        cudaFuncAttributes unused;

        if (loss->n == 0)
            return cudaFuncGetAttributes(&unused, CrossEntropy<T>);
        CrossEntropy<T><<<Blocks(loss->n, WARPS), THREADS, 0, stream>>>(*loss);
        return cudaGetLastError();
    });
}

cudaError_t stp_train_column_sum(const struct stp_kernel *kernel, void *scratch,
                                 uint64_t scratch_bytes, cudaStream_t stream)
{
    return ByType(kernel->type, [&](auto tag) {
        using T = decltype(tag);

        if (kernel->type_to == kernel->type)
            return ChooseColumns<T, T>(*kernel, scratch, scratch_bytes, stream);
        if constexpr (sizeof(T) == 2)
            if (kernel->type_to == STP_TYPE_F32)
                return ChooseColumns<T, float>(*kernel, scratch, scratch_bytes,
                                               stream);
        return cudaErrorNotSupported;
    });
}
