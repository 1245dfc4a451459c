#include "model/symmetric.h"

#include <math.h>

enum {
    CELL = 1024, /* bytes */
    MAX_BLOCKS = 64,
    LL_FACTOR = 9, /* bytes on the links for each byte, by LL */
};

#define LL_LIMIT     ((size_t)2 << 30)
#define KERNEL_LIMIT ((size_t)64 << 30)

/* How the bytes on the links follow from those of a rank. */
enum traffic {
    TRAFFIC_LL,        /* all ranks' bytes, by LL */
    TRAFFIC_OTHERS,    /* those of all other ranks */
    TRAFFIC_TWICE,     /* of a reduction, then a gather */
    TRAFFIC_MULTICAST, /* likewise, by multicast */
};

enum multicast { UNICAST, STORES, LOADS };

/* By TMA, from 2.31 on, on Blackwell: the bytes that one block must have to do,
 * or all of them on all ranks, or all of them together. */
enum tma { NO_TMA, TMA_A_BLOCK, TMA_A_RANK, TMA_ALL };

// clang-format off
static const struct symmetric_kernel {
    const char *name;
    int coll;
    enum traffic traffic;
    enum multicast multicast;
    double multiplier; /* of the bandwidth of a block */
    bool times_ranks;  /* times the number of ranks */
    enum tma tma;
} symmetric_kernels[] = {
    {"AllReduce_AGxLL_R", ncclFuncAllReduce, TRAFFIC_LL, UNICAST, 1, false, NO_TMA},
    {"AllReduce_AGxLLMC_R", ncclFuncAllReduce, TRAFFIC_LL, STORES, 1.1, false, NO_TMA},
    {"AllReduce_RSxTmaLD_AGxTmaST", ncclFuncAllReduce, TRAFFIC_TWICE, UNICAST, 1, false, TMA_A_RANK},
    {"AllReduce_RSxLD_AGxST", ncclFuncAllReduce, TRAFFIC_TWICE, UNICAST, 1, false, NO_TMA},
    {"AllReduce_RSxLDMC_AGxSTMC", ncclFuncAllReduce, TRAFFIC_MULTICAST, LOADS, 1, true, NO_TMA},
    {"AllGather_LL", ncclFuncAllGather, TRAFFIC_LL, UNICAST, 1, false, NO_TMA},
    {"AllGather_LLMC", ncclFuncAllGather, TRAFFIC_LL, STORES, 1.1, false, NO_TMA},
    {"AllGather_TmaST", ncclFuncAllGather, TRAFFIC_OTHERS, UNICAST, 1, false, TMA_A_BLOCK},
    {"AllGather_ST", ncclFuncAllGather, TRAFFIC_OTHERS, UNICAST, 1, false, NO_TMA},
    {"AllGather_TmaSTMC", ncclFuncAllGather, TRAFFIC_OTHERS, STORES, .99 * .55, true, TMA_ALL},
    {"AllGather_STMC", ncclFuncAllGather, TRAFFIC_OTHERS, STORES, .55, true, NO_TMA},
    {"ReduceScatter_LL", ncclFuncReduceScatter, TRAFFIC_LL, UNICAST, 1, false, NO_TMA},
    {"ReduceScatter_TmaLD", ncclFuncReduceScatter, TRAFFIC_OTHERS, UNICAST, 1, false, TMA_A_RANK},
    {"ReduceScatter_LD", ncclFuncReduceScatter, TRAFFIC_OTHERS, UNICAST, 1, false, NO_TMA},
    {"ReduceScatter_LDMC", ncclFuncReduceScatter, TRAFFIC_OTHERS, LOADS, .55, true, NO_TMA},
};
// clang-format on
enum { N_KERNELS = MOCK_N_OF(symmetric_kernels) };

size_t mock_symmetric_round(size_t share_bytes)
{
    return (share_bytes + CELL - 1) / CELL * CELL;
}

/* ---- which kernels can run it ---- */

bool mock_symmetric_has_multicast(const struct mock_model *model)
{
    return model->n_nvls_channels != 0 && model->n_ranks > 2;
}

/* Whether the largest collective is worth TMA on so many blocks. */
static bool symmetric_is_worth_tma(const struct mock_model *model,
                                   const struct mock_symmetric_work *work,
                                   const struct symmetric_kernel *kernel,
                                   int n_blocks)
{
    const size_t blocks = (size_t)n_blocks;

    switch (kernel->tma) {
    case NO_TMA:
        return true;
    case TMA_A_BLOCK:
        return work->max_bytes >= 8 * CELL * blocks;
    case TMA_A_RANK:
        return work->max_bytes >= 16 * CELL * (size_t)model->n_ranks * blocks;
    default:
        return work->max_bytes >= 4 * CELL;
    }
}

static bool symmetric_is_possible(const struct mock_model *model,
                                  const struct mock_symmetric_work *work,
                                  const struct symmetric_kernel *kernel)
{
    const bool is_blackwell = model->compute_capability >= 100;
    size_t sides = work->coll == ncclFuncAllReduce ? 1 : (size_t)model->n_ranks;
    size_t bus = sides * mock_symmetric_round(work->max_bytes);

    if (kernel->coll != work->coll || bus >= KERNEL_LIMIT)
        return false;
    if (kernel->multicast != UNICAST && !mock_symmetric_has_multicast(model))
        return false;
    if (kernel->multicast == LOADS && work->fp8 && !is_blackwell)
        return false;
    if (kernel->tma != NO_TMA &&
        (!model->rules->symmetric_tma || !is_blackwell))
        return false;
    if (kernel->traffic == TRAFFIC_LL)
        return work->n_works == 1 && bus < LL_LIMIT;
    /* others need the buffers that other ranks read or write */
    return work->windows == MOCK_WINDOWS_BOTH ||
           (work->coll == ncclFuncAllGather &&
            work->windows == MOCK_WINDOWS_RECV) ||
           (work->coll == ncclFuncReduceScatter &&
            work->windows == MOCK_WINDOWS_SEND);
}

/* ---- times ---- */

/* Latency in us, bandwidths in bytes per us. */
struct speed {
    double latency;
    double block;
    double peak;
};

static struct speed symmetric_get_speed(const struct mock_model *model,
                                        const struct symmetric_kernel *kernel)
{
    const double unit = (1 << 30) / 1.e6;
    bool is_ll = kernel->traffic == TRAFFIC_LL;
    bool is_twice = kernel->traffic == TRAFFIC_MULTICAST;
    bool gathers = kernel->coll == ncclFuncAllGather;
    bool reduces = kernel->coll == ncclFuncAllReduce;
    bool scatters = kernel->coll == ncclFuncReduceScatter;
    bool apart = model->rules->symmetric_scatters && scatters;
    struct speed speed;

    if (model->compute_capability < 100)
        return (struct speed){is_ll ? 4.5 : 7.8, (reduces ? 65 : 44) * unit,
                              (is_twice ? 480 : 320) * unit};
    speed = (struct speed){is_ll     ? gathers ? 8.5
                                       : apart ? 10.5
                                               : 11
                           : reduces ? 19.5
                                     : 13,
                           55 * unit,
                           (is_twice ? 1000
                            : apart  ? 650
                                     : 600) *
                               unit};
    if (kernel->tma != NO_TMA)
        speed.latency += 4;
    if (kernel->tma == TMA_A_BLOCK) {
        speed.latency += 19;
        speed.peak = 700 * unit;
    }
    if (kernel->tma == TMA_A_BLOCK || kernel->tma == TMA_A_RANK)
        speed.peak *= 1.07;
    return speed;
}

static double symmetric_predict(const struct speed *speed, double bus_bytes,
                                int n_blocks, double multiplier)
{
    /* the soft minimum of the blocks' bandwidth and the peak */
    const double blocks = n_blocks * speed->block * multiplier;
    const double bw =
        speed->peak -
        speed->block * log1p((exp(speed->peak / speed->block) - 1) *
                             exp(-blocks / speed->block));
    const double x = bus_bytes / bw - 1;

    return speed->latency + (x >= 100 ? x : log1p(exp(x)));
}

/* The fewest and the most blocks of a kernel; none if *max_ret is 0. */
static int symmetric_get_blocks(const struct mock_model *model,
                                const struct symmetric_kernel *kernel,
                                const struct mock_symmetric_work *work,
                                int *max_ret)
{
    int max = MAX_BLOCKS;
    int min = model->min_ctas;

    if (kernel->times_ranks)
        max =
            ((model->compute_capability < 100 ? 16 : 32) + model->n_ranks - 1) /
            model->n_ranks;
    if (max > model->max_ctas)
        max = model->max_ctas;
    if (model->rules->symmetric_even) {
        if (min > max)
            min = max;
        if (min != max && min != 1)
            min = (min + 1) / 2 * 2;
        if (min != max && max != 1)
            max = max / 2 * 2;
    }
    if (!symmetric_is_worth_tma(model, work, kernel, min))
        max = 0;
    while (max > min && !symmetric_is_worth_tma(model, work, kernel, max))
        max -= max == 2 ? 1 : 2;
    *max_ret = max;
    return min;
}

/* The fewest blocks that are almost as fast as all; false if there are none. */
static bool symmetric_set_time(const struct mock_model *model,
                               const struct symmetric_kernel *kernel,
                               const struct mock_symmetric_work *work,
                               struct mock_symmetric_kernel *ret)
{
    const struct speed speed = symmetric_get_speed(model, kernel);
    const size_t n_ranks = (size_t)model->n_ranks;
    const size_t all[] = {
        [TRAFFIC_LL] = n_ranks * work->n_bytes * LL_FACTOR,
        [TRAFFIC_OTHERS] = (n_ranks - 1) * work->n_bytes,
        [TRAFFIC_TWICE] = 2 * work->n_bytes * (n_ranks - 1) / n_ranks,
        [TRAFFIC_MULTICAST] = work->n_bytes / n_ranks + work->n_bytes,
    };
    double bus = (double)all[kernel->traffic];
    double multiplier =
        kernel->multiplier * (kernel->times_ranks ? model->n_ranks : 1);
    int max;
    const int min = symmetric_get_blocks(model, kernel, work, &max);

    if (max == 0)
        return false;
    ret->n_blocks = max;
    ret->us = (float)symmetric_predict(&speed, bus, max, multiplier);
    for (int n = min; n < max;
         n += model->rules->symmetric_even && n > 1 ? 2 : 1) {
        double us = symmetric_predict(&speed, bus, n, multiplier);

        if (us <= 1.025 * (double)ret->us) {
            ret->n_blocks = n;
            ret->us = (float)us;
            break;
        }
    }
    return true;
}

size_t mock_symmetric_list(const struct mock_model *model,
                           const struct mock_symmetric_work *work,
                           struct mock_symmetric_kernel *kernels_ret)
{
    size_t n = 0;

    if (!model->all_nvlink || model->no_symmetric[work->coll])
        return 0;
    for (int i = 0; i < N_KERNELS; i++) {
        struct mock_symmetric_kernel *ret = &kernels_ret[n];

        if (!symmetric_is_possible(model, work, &symmetric_kernels[i]) ||
            !symmetric_set_time(model, &symmetric_kernels[i], work, ret))
            continue;
        ret->name = symmetric_kernels[i].name;
        ret->is_ll = symmetric_kernels[i].traffic == TRAFFIC_LL;
        ret->charged_us = ret->us * (1.0f + .025f * (float)ret->n_blocks);
        n++;
    }
    return n;
}

const struct mock_symmetric_kernel *
mock_symmetric_pick(const struct mock_model *model,
                    const struct mock_symmetric_kernel *kernels, size_t n)
{
    const struct mock_symmetric_kernel *best = NULL;

    for (size_t i = 0; i < n; i++)
        if (best == NULL || kernels[i].charged_us < best->charged_us ||
            (model->rules->symmetric_even &&
             kernels[i].charged_us <= best->charged_us))
            best = &kernels[i];
    return best;
}
