/* plan.c - from options to plans of collectives and of training iterations */
#include "tune/plan.h"

#include <inttypes.h>
#include <string.h>

enum {
    MiB = 1 << 20,
    DEFAULT_ROUNDS = 10,
    DEFAULT_ITERS = 50,
    LIVE_ROUNDS = 5,
    LIVE_ITERS = 20,
    LIVE_TURN_US = 8000,
    LIVE_ITERATION_ROUNDS = 10,
    ITERATIONS = 20,
    LAYERS = 8,
};

static const double live_iterations_us = 20e3;

/* ---- collectives ---- */

uint64_t stp_size_grain(const struct stp_device *device, int coll, int type)
{
    struct stp_device_info info;
    bool is_split = coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;

    stp_device_get_info(device, &info);
    /* recorded sizes are multiples of all ranks */
    return stp_type_size(type) *
           (uint64_t)(is_split || !info.is_live ? info.n_ranks : 1);
}

uint64_t stp_max_bytes(const struct stp_measure_options *measure)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < measure->n_bytes; i++)
        most = measure->bytes[i] > most ? measure->bytes[i] : most;
    if (most > 0)
        return most;
    return measure->end > 0 ? measure->end : (uint64_t)1 << 30;
}

static enum stp_status plan_add_known_sizes(const struct stp_device *device,
                                            int coll, struct stp_sizes *sizes,
                                            struct stp_error *err)
{
    uint64_t known[STP_MAX_SIZES];
    size_t n = stp_device_sizes(device, coll, known, STP_MAX_SIZES);
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < n && i < STP_MAX_SIZES && status == STP_OK; i++)
        status = stp_sizes_add(sizes, known[i], 1, err);
    return status;
}

bool stp_measure_has_sizes(const struct stp_measure_options *m)
{
    return m->begin != 0 || m->end != 0 || m->factor != 0 || m->step != 0 ||
           m->n_bytes != 0;
}

/* A size that was asked for by itself is measured, and no other in its place.
 */
static enum stp_status plan_add_asked_sizes(const struct stp_measure_options *m,
                                            uint64_t grain,
                                            struct stp_sizes *sizes,
                                            struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < m->n_bytes && status == STP_OK; i++)
        status =
            m->bytes[i] % grain == 0
                ? stp_sizes_add(sizes, m->bytes[i], grain, err)
                : stp_fail(err, STP_ERR_RANGE,
                           "--bytes %ju, expected a multiple of %ju: whole "
                           "elements on all ranks",
                           (uintmax_t)m->bytes[i], (uintmax_t)grain);
    return status;
}

/* As all_reduce_perf, -f over -i. */
static enum stp_status plan_choose_sizes(const struct stp_device *device,
                                         const struct stp_measure_options *m,
                                         int coll, int type,
                                         struct stp_sizes *sizes,
                                         struct stp_error *err)
{
    uint64_t begin = m->begin > 0 ? m->begin : 8;
    uint64_t grain = stp_size_grain(device, coll, type);
    enum stp_status status = STP_OK;

    sizes->n = 0;
    if (!stp_measure_has_sizes(m))
        status = plan_add_known_sizes(device, coll, sizes, err);
    else if (m->n_bytes > 0)
        status = plan_add_asked_sizes(m, grain, sizes, err);
    if (status != STP_OK || sizes->n > 0)
        return status;
    if (m->step > 0 && m->factor == 0)
        return stp_sizes_add_steps(sizes, begin, stp_max_bytes(m), m->step,
                                   grain, err);
    return stp_sizes_add_geometric(sizes, begin, stp_max_bytes(m),
                                   m->factor > 0 ? m->factor : 2, grain, err);
}

/* Those asked for; else all-reduce, or of a recorded machine those with times,
 * else all. */
static size_t plan_choose_colls(const struct stp_device *device,
                                const struct stp_measure_options *m,
                                int colls[NCCL_NUM_TUNED_FUNCS])
{
    struct stp_device_info info;
    size_t n = 0;

    stp_device_get_info(device, &info);
    colls[0] = ncclFuncAllReduce;
    if (m->n_colls == 0 && info.is_live)
        return 1;
    if (m->n_colls > 0) {
        memcpy(colls, m->colls, m->n_colls * sizeof(*colls));
        return m->n_colls;
    }
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (stp_device_sizes(device, c, NULL, 0) > 0)
            colls[n++] = c;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && n == 0; c++)
        colls[c] = c;
    return n > 0 ? n : NCCL_NUM_TUNED_FUNCS;
}

/* A real machine drifts, and has no time for iterations without end; what was
 * recorded is there in so many rounds and in bf16. */
static void plan_choose_counts(const struct stp_device_info *info,
                               const struct stp_measure_options *m,
                               struct stp_sweep_plan *plan)
{
    unsigned rounds = info->is_live ? LIVE_ROUNDS : DEFAULT_ROUNDS;

    plan->rounds = m->rounds          ? m->rounds
                   : info->max_rounds ? info->max_rounds
                                      : rounds;
    plan->iters = m->iters        ? m->iters
                  : info->is_live ? LIVE_ITERS
                                  : DEFAULT_ITERS;
    plan->turn_us = info->is_live && m->iters == 0 ? LIVE_TURN_US : 0;
    plan->rotate = info->is_live;
    plan->wake = info->is_live;
    plan->type = m->n_types > 0  ? m->types[0]
                 : info->is_live ? STP_TYPE_F32
                                 : STP_TYPE_BF16;
}

enum stp_status stp_plan_measurements(const struct stp_device *device,
                                      const struct stp_measure_options *measure,
                                      const struct stp_arms *arms,
                                      struct stp_measure_plan *plan_ret,
                                      struct stp_error *err)
{
    struct stp_device_info info;
    enum stp_status status = STP_OK;

    stp_device_get_info(device, &info);
    plan_ret->plan = (struct stp_sweep_plan){
        .colls = plan_ret->colls,
        .n_colls = plan_choose_colls(device, measure, plan_ret->colls),
        .sizes = plan_ret->sizes,
        .arms = arms,
        .warmup = measure->warmup,
        .op = measure->op,
        .root = measure->root,
        .auto_places = STP_OUT_OF_PLACE,
        .arm_places = STP_OUT_OF_PLACE,
    };
    plan_choose_counts(&info, measure, &plan_ret->plan);
    if (measure->root >= info.n_ranks)
        return stp_fail(err, STP_ERR_RANGE,
                        "root %u, expected one of the %u ranks, from 0",
                        measure->root, info.n_ranks);
    for (size_t c = 0; c < plan_ret->plan.n_colls && status == STP_OK; c++)
        status =
            plan_choose_sizes(device, measure, plan_ret->colls[c],
                              plan_ret->plan.type, &plan_ret->sizes[c], err);
    return status;
}

/* ---- training iterations ---- */

/* Where the options leave it open. */
static const struct stp_workload_options one_setting = {
    .modes = {STP_MODE_OVERLAP},
    .n_modes = 1,
    .bytes = {16 * MiB},
    .n_bytes = 1,
    .ratios = {1},
    .n_ratios = 1,
};

static const struct stp_workload_options many_settings = {
    .modes = {STP_MODE_SEQUENTIAL, STP_MODE_OVERLAP, STP_MODE_FSDP},
    .n_modes = 3,
    .bytes = {MiB, 4 * MiB, 16 * MiB, 64 * MiB},
    .n_bytes = 4,
    .ratios = {0.5, 1, 2},
    .n_ratios = 3,
};

static const struct stp_workload_options *
plan_choose_setting_sizes(const struct stp_workload_options *work, bool scan)
{
    return work->n_bytes > 0 ? work : scan ? &many_settings : &one_setting;
}

uint64_t stp_workload_max_bytes(const struct stp_workload_options *work,
                                bool scan)
{
    const struct stp_workload_options *from =
        plan_choose_setting_sizes(work, scan);
    uint64_t most = 0;

    for (size_t i = 0; i < from->n_bytes; i++)
        if (from->bytes[i] > most)
            most = from->bytes[i];
    return most;
}

static void plan_set_layers(const struct stp_workload_options *work,
                            unsigned layers[STP_N_MODES])
{
    for (int mode = 0; mode < STP_N_MODES; mode++)
        layers[mode] = work->layers > 0              ? work->layers
                       : mode == STP_MODE_SEQUENTIAL ? 1
                                                     : LAYERS;
}

/* What is not about the workload. */
static void plan_set_iteration_defaults(const struct stp_device_info *info,
                                        struct stp_iterate_plan *plan)
{
    bool on_gpus = strcmp(info->backend, "nccl") == 0;

    if (plan->type < 0)
        plan->type = on_gpus ? STP_TYPE_BF16 : STP_TYPE_F32;
    plan->turn_us = plan->iters == 0 && info->is_live ? live_iterations_us : 0;
    if (plan->iters == 0)
        plan->iters = ITERATIONS;
    if (plan->rounds == 0)
        plan->rounds =
            info->max_rounds > 0 ? info->max_rounds : LIVE_ITERATION_ROUNDS;
    plan->rotate = info->is_live;
}

enum stp_status stp_plan_iterations(const struct stp_device_info *info,
                                    const struct stp_workload_options *work,
                                    bool scan, struct stp_workload_plan *out,
                                    struct stp_error *err)
{
    const struct stp_workload_options *defaults =
        scan ? &many_settings : &one_setting;
    const struct stp_workload_options *modes =
        work->n_modes > 0 ? work : defaults;
    const struct stp_workload_options *ratios =
        work->n_ratios > 0 ? work : defaults;
    const struct stp_workload_options *sizes =
        plan_choose_setting_sizes(work, scan);
    struct stp_iterate_plan *plan = &out->plan;
    enum stp_status status = STP_OK;

    plan_set_iteration_defaults(info, plan);
    plan->modes = modes->modes;
    plan->n_modes = modes->n_modes;
    plan->ratios = ratios->ratios;
    plan->n_ratios = ratios->n_ratios;
    out->gemm = (struct stp_gemm){work->sides[0], work->sides[1],
                                  work->sides[2], plan->type};
    plan->gemm = work->n_sides > 0 ? &out->gemm : NULL;
    plan->in_place = !work->out_of_place;
    plan->compute = work->compute;
    plan->coll = ncclFuncAllReduce;
    plan->op = STP_OP_SUM;
    plan_set_layers(work, plan->layers);
    plan->arms = &out->arms;
    plan->sizes = &out->sizes;
    out->sizes.n = 0;
    for (size_t i = 0; i < sizes->n_bytes; i++)
        if (sizes->bytes[i] < stp_type_size(plan->type))
            return stp_fail(err, STP_ERR_RANGE,
                            "a collective of %ju bytes, expected %u or more, "
                            "an element",
                            (uintmax_t)sizes->bytes[i],
                            (unsigned)stp_type_size(plan->type));
    for (size_t i = 0; i < sizes->n_bytes && status == STP_OK; i++)
        status = stp_sizes_add(&out->sizes, sizes->bytes[i],
                               stp_type_size(plan->type), err);
    return status;
}
