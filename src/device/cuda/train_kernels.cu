#include "device/cuda/train_numbers.cuh"

namespace
{

/* The first elements N at a time, and then the rest. */
template <unsigned N, typename Work>
__global__ void __launch_bounds__(THREADS)
    ForEach(Work work, uint64_t n, uint64_t n_packs)
{
    for (uint64_t i = First(); i < n_packs; i += Step())
        work.template Do<N>(N * i);
    for (uint64_t i = N * n_packs + First(); i < n; i += Step())
        work.template Do<1>(i);
}

template <unsigned N, typename Work>
cudaError_t Run(const Work &work, uint64_t n, bool packs, cudaStream_t stream)
{
    const uint64_t n_packs = packs ? n / N : 0;
    cudaFuncAttributes unused;

    if (n == 0)
        return cudaFuncGetAttributes(&unused, ForEach<N, Work>);
    ForEach<N, Work>
        <<<Blocks(n - (N - 1) * n_packs, THREADS), THREADS, 0, stream>>>(
            work, n, n_packs);
    return cudaGetLastError();
}

template <typename Use> cudaError_t ByNarrowType(int type, const Use &use)
{
    return type == STP_TYPE_F64 ? cudaErrorNotSupported
                                : ByType(type, [&](auto tag) {
                                      if constexpr (sizeof(tag) == 8)
                                          return cudaErrorNotSupported;
                                      else
                                          return use(tag);
                                  });
}

template <typename T> struct ReluBackward {
    const T *output;
    T *gradient;

    template <unsigned N> __device__ void Do(uint64_t i) const
    {
        const Pack<N, T> y = Load<N>(output, i);
        Pack<N, T> g = Load<N>(gradient, i);

        for (unsigned k = 0; k < N; k++)
            if (Widen(y.at[k]) <= 0)
                g.at[k] = Number<T>::Of(Wide<T>(0));
        Store<N>(gradient, i, g);
    }
};

template <typename T> struct FindNonfinite {
    const T *data;
    float *found;

    template <unsigned N> __device__ void Do(uint64_t i) const
    {
        const Pack<N, T> x = Load<N>(data, i);
        bool finite = true;

        for (unsigned k = 0; k < N; k++)
            finite = finite && isfinite(Widen(x.at[k]));
        if (!finite)
            *found = 1; /* of all threads that write, the same */
    }
};

template <typename From, typename To> struct Cast {
    const From *from;
    To *to;

    template <unsigned N> __device__ void Do(uint64_t i) const
    {
        const Pack<N, From> x = Load<N>(from, i);
        Pack<N, To> y;

        for (unsigned k = 0; k < N; k++)
            y.at[k] = Number<To>::Of(Widen(x.at[k]));
        Store<N>(to, i, y);
    }
};

template <typename T> struct Scale {
    T *x;
    Wide<T> factor;

    template <unsigned N> __device__ void Do(uint64_t i) const
    {
        Pack<N, T> p = Load<N>(x, i);

        for (unsigned k = 0; k < N; k++)
            p.at[k] = Number<T>::Of(Widen(p.at[k]) * factor);
        Store<N>(x, i, p);
    }
};

template <typename T, typename Gradient, typename Copy> struct Update {
    T *w;
    const Gradient *gradient;
    Copy *copy;
    const float *skip;
    T rate;

    template <unsigned N> __device__ void Do(uint64_t i) const
    {
        if (skip != nullptr && *skip != 0)
            return;
        Pack<N, T> x = Load<N>(w, i);
        const Pack<N, Gradient> g = Load<N>(gradient, i);
        Pack<N, Copy> c;

        for (unsigned k = 0; k < N; k++) {
            x.at[k] -= rate * Widen(g.at[k]);
            c.at[k] = Number<Copy>::Of(x.at[k]);
        }
        Store<N>(w, i, x);
        if (copy != nullptr)
            Store<N>(copy, i, c);
    }
};

template <typename T, typename C> struct Epilogue {
    C *c;
    const T *bias;
    unsigned n;
    bool relu;

    template <unsigned N> __device__ void Do(uint64_t i) const
    {
        const uint64_t column = bias != nullptr ? i % n : 0;
        Pack<N, C> x = Load<N>(c, i);

        for (unsigned k = 0; k < N; k++) {
            Wide<C> value = Widen(x.at[k]);

            if (bias != nullptr)
                value += Widen(bias[column + k]);
            if (relu && value < 0) /* NaN is not */
                value = 0;
            x.at[k] = Number<C>::Of(value);
        }
        Store<N>(c, i, x);
    }
};

template <typename T, typename Gradient, typename Copy>
cudaError_t RunUpdate(const stp_update &u, cudaStream_t stream)
{
    const Update<T, Gradient, Copy> work = {
        static_cast<T *>(u.w), static_cast<const Gradient *>(u.gradient),
        static_cast<Copy *>(u.copy), u.skip, static_cast<T>(u.rate * u.scale)};
    constexpr unsigned n = kPack<T>;

    return Run<n>(work, u.n,
                  Packs<n>(work.w) && Packs<n>(work.gradient) &&
                      Packs<n>(work.copy),
                  stream);
}

template <typename T, typename C>
cudaError_t RunEpilogue(const struct stp_train_epilogue &e, cudaStream_t stream)
{
    const Epilogue<T, C> work = {static_cast<C *>(e.c),
                                 static_cast<const T *>(e.bias), e.n, e.relu};
    constexpr unsigned n = kPack<C>;

    return Run<n>(work, uint64_t{e.m} * e.n,
                  (e.n % n == 0 || e.bias == nullptr) && Packs<n>(work.c),
                  stream);
}

} // namespace

static cudaError_t RunCast(const struct stp_kernel *k, cudaStream_t stream)
{
    return ByType(k->type, [&](auto from_tag) {
        return ByType(k->type_to, [&](auto to_tag) {
            using From = decltype(from_tag);
            using To = decltype(to_tag);
            const Cast<From, To> work = {static_cast<const From *>(k->from),
                                         static_cast<To *>(k->to)};

            return Run<4>(work, k->n, Packs<4>(work.from) && Packs<4>(work.to),
                          stream);
        });
    });
}

cudaError_t stp_train_kernel(const struct stp_kernel *k, void *scratch,
                             uint64_t scratch_bytes, cudaStream_t stream)
{
    if (k->kind == STP_KERNEL_CAST)
        return RunCast(k, stream);
    if (k->kind == STP_KERNEL_COLUMN_SUM)
        return stp_train_column_sum(k, scratch, scratch_bytes, stream);
    return ByType(k->type, [&](auto tag) {
        using T = decltype(tag);
        constexpr unsigned n = kPack<T>;
        const T *from = static_cast<const T *>(k->from);
        T *to = static_cast<T *>(k->to);

        if (k->kind == STP_KERNEL_RELU_BACKWARD)
            return Run<n>(ReluBackward<T>{from, to}, k->n,
                          Packs<n>(from) && Packs<n>(to), stream);
        if (k->kind == STP_KERNEL_FIND_NONFINITE)
            return Run<n>(FindNonfinite<T>{from, static_cast<float *>(k->to)},
                          k->n, Packs<n>(from), stream);
        return Run<n>(Scale<T>{to, static_cast<Wide<T>>(k->factor)}, k->n,
                      Packs<n>(to), stream);
    });
}

cudaError_t stp_train_update(const struct stp_update *update,
                             cudaStream_t stream)
{
    const int copy_type = update->copy != nullptr || update->n == 0
                              ? update->copy_type
                              : update->type;

    if (update->type == STP_TYPE_F64)
        return update->gradient_type == STP_TYPE_F64 &&
                       copy_type == STP_TYPE_F64
                   ? RunUpdate<double, double, double>(*update, stream)
                   : cudaErrorNotSupported;
    if (update->type != STP_TYPE_F32)
        return cudaErrorNotSupported;
    return ByNarrowType(update->gradient_type, [&](auto gradient) {
        return ByNarrowType(copy_type, [&](auto copy) {
            return RunUpdate<float, decltype(gradient), decltype(copy)>(*update,
                                                                        stream);
        });
    });
}

cudaError_t stp_train_epilogue(const struct stp_train_epilogue *epilogue,
                               cudaStream_t stream)
{
    return ByType(epilogue->type, [&](auto tag) {
        using T = decltype(tag);

        if (epilogue->type_c == epilogue->type)
            return RunEpilogue<T, T>(*epilogue, stream);
        if constexpr (sizeof(T) == 2)
            if (epilogue->type_c == STP_TYPE_F32)
                return RunEpilogue<T, float>(*epilogue, stream);
        return cudaErrorNotSupported;
    });
}

/* ---- loading ---- */

static cudaError_t LoadType(int type)
{
    static const stp_kernel_kind kinds[] = {
        STP_KERNEL_RELU_BACKWARD, STP_KERNEL_COLUMN_SUM,
        STP_KERNEL_FIND_NONFINITE, STP_KERNEL_SCALE};
    const struct stp_cross_entropy loss = {0, 0, type};
    const struct stp_train_epilogue epilogue = {0, 0, type, type};
    cudaError_t result = stp_train_cross_entropy(&loss, nullptr);

    for (stp_kernel_kind kind : kinds) {
        const struct stp_kernel kernel = {kind, type, type};

        if (result == cudaSuccess)
            result = stp_train_kernel(&kernel, nullptr, 0, nullptr);
    }
    if (result == cudaSuccess)
        result = stp_train_epilogue(&epilogue, nullptr);
    return result;
}

/* Loads kernels of two types; a pair without a kernel needs none. */
static cudaError_t LoadPair(int type, int other)
{
    struct stp_update update = {};
    const struct stp_kernel columns = {STP_KERNEL_COLUMN_SUM, type, other};
    const struct stp_train_epilogue epilogue = {0, 0, type, other};
    const struct stp_kernel cast = {STP_KERNEL_CAST, type, other};
    cudaError_t result = stp_train_kernel(&cast, nullptr, 0, nullptr);
    cudaError_t results[3];

    update.type = type == STP_TYPE_F64 ? STP_TYPE_F64 : STP_TYPE_F32;
    update.gradient_type = type;
    update.copy_type = other;
    results[0] = stp_train_update(&update, nullptr);
    results[1] = stp_train_column_sum(&columns, nullptr, 0, nullptr);
    results[2] = stp_train_epilogue(&epilogue, nullptr);
    for (cudaError_t one : results)
        if (one != cudaSuccess && one != cudaErrorNotSupported &&
            result == cudaSuccess)
            result = one;
    return result;
}

cudaError_t stp_train_kernels_load(void)
{
    static const int types[] = {STP_TYPE_F32, STP_TYPE_F64, STP_TYPE_F16,
                                STP_TYPE_BF16};
    cudaError_t result = cudaSuccess;

    for (int type : types) {
        if (result == cudaSuccess)
            result = LoadType(type);
        for (int other : types)
            if (result == cudaSuccess)
                result = LoadPair(type, other);
    }
    return result;
}
