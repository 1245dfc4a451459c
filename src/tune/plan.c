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

void stp_get_device_facts(const struct stp_device *device,
                          struct stp_device_facts *known_ret)
{
    stp_device_get_info(device, &known_ret->info);
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        struct stp_sizes *sizes = &known_ret->sizes[c];

        sizes->n = stp_device_sizes(device, c, sizes->size, STP_MAX_SIZES);
        if (sizes->n > STP_MAX_SIZES)
            sizes->n = STP_MAX_SIZES;
        for (int mode = 0; mode < STP_N_MODES; mode++)
            known_ret->modes[mode][c] = stp_device_knows_mode(device, mode, c);
    }
}

uint64_t stp_size_grain(const struct stp_device_info *info, int coll, int type)
{
    bool is_split = coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;

    /* recorded sizes are multiples of all ranks */
    return stp_type_size(type) *
           (uint64_t)(is_split || !info->is_live ? info->n_ranks : 1);
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

bool stp_measure_has_sizes(const struct stp_measure_options *m)
{
    return m->begin != 0 || m->end != 0 || m->factor != 0 || m->step != 0 ||
           m->n_bytes != 0;
}

/* Plans the sizes of a collective: those that the device knows, those of a
 * list, measured as they are, or those of all_reduce_perf's options, where -f
 * outdoes -i. */
static enum stp_status plan_choose_sizes(const struct stp_device_facts *known,
                                         const struct stp_measure_options *m,
                                         int coll, int type,
                                         struct stp_sizes *sizes,
                                         struct stp_error *err)
{
    const uint64_t begin = m->begin > 0 ? m->begin : 8;
    const uint64_t end = stp_max_bytes(m);
    const uint64_t grain = stp_size_grain(&known->info, coll, type);

    if (!stp_measure_has_sizes(m) && known->sizes[coll].n > 0) {
        *sizes = known->sizes[coll];
        return STP_OK;
    }
    sizes->n = 0;
    for (unsigned i = 0; i < m->n_bytes; i++) {
        if (m->bytes[i] % grain != 0)
            return STP_REFUSE(err,
                              "--bytes %ju, expected a multiple of %ju: whole "
                              "elements on all ranks",
                              (uintmax_t)m->bytes[i], (uintmax_t)grain);
        STP_TRY(stp_sizes_add(sizes, m->bytes[i], grain, err));
    }
    if (m->n_bytes > 0)
        return STP_OK;
    STP_TRY(m->step > 0 && m->factor == 0
                ? stp_sizes_add_steps(sizes, begin, end, m->step, grain, err)
                : stp_sizes_add_geometric(sizes, begin, end,
                                          m->factor > 0 ? m->factor : 2, grain,
                                          err));
    return m->has_end ? stp_sizes_add(sizes, end, grain, err) : STP_OK;
}

enum stp_status stp_plan_measurements(const struct stp_device_facts *known,
                                      const struct stp_measure_options *m,
                                      const struct stp_arms *arms,
                                      struct stp_measure_plan *plan_ret,
                                      struct stp_error *err)
{
    const struct stp_device_info *info = &known->info;
    const unsigned rounds = info->is_live ? LIVE_ROUNDS : DEFAULT_ROUNDS;
    struct stp_sweep_plan *plan = &plan_ret->plan;

    /* A real machine drifts, and has no time for endless iterations; a
     * recording has its own rounds, in bf16. */
    *plan = (struct stp_sweep_plan){
        .colls = plan_ret->colls,
        .sizes = plan_ret->sizes,
        .arms = arms,
        .warmup = m->warmup,
        .op = m->op,
        .root = m->root,
        .auto_places = STP_OUT_OF_PLACE,
        .arm_places = STP_OUT_OF_PLACE,
        .rounds = m->rounds          ? m->rounds
                  : info->max_rounds ? info->max_rounds
                                     : rounds,
        .iters = m->iters        ? m->iters
                 : info->is_live ? LIVE_ITERS
                                 : DEFAULT_ITERS,
        .turn_us = info->is_live && m->iters == 0 ? LIVE_TURN_US : 0,
        .bits_max = UINT64_MAX,
        .rotate = info->is_live,
        .wake = info->is_live,
        .type = m->n_types > 0  ? m->types[0]
                : info->is_live ? STP_TYPE_F32
                                : STP_TYPE_BF16,
    };
    /* The collectives are those asked for, else all-reduce on a live device,
     * and on a recorded machine those with times, or all if none has. */
    for (unsigned i = 0; i < m->n_colls; i++)
        plan_ret->colls[plan->n_colls++] = m->colls[i];
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && m->n_colls == 0; c++)
        if (info->is_live ? c == ncclFuncAllReduce : known->sizes[c].n > 0)
            plan_ret->colls[plan->n_colls++] = c;
    if (plan->n_colls == 0)
        for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
            plan_ret->colls[plan->n_colls++] = c;
    if (m->root >= info->n_ranks)
        return STP_REFUSE(err, "root %u, expected one of the %u ranks, from 0",
                          m->root, info->n_ranks);
    for (size_t c = 0; c < plan->n_colls; c++)
        STP_TRY(plan_choose_sizes(known, m, plan_ret->colls[c], plan->type,
                                  &plan_ret->sizes[c], err));
    return STP_OK;
}

/* ---- training iterations ---- */

/* The setting where the options leave it open. */
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
    uint64_t grain;

    if (plan->type < 0)
        plan->type =
            strcmp(info->backend, "nccl") == 0 ? STP_TYPE_BF16 : STP_TYPE_F32;
    plan->turn_us = plan->iters == 0 && info->is_live ? live_iterations_us : 0;
    if (plan->iters == 0)
        plan->iters = ITERATIONS;
    if (plan->rounds == 0)
        plan->rounds = info->max_iteration_rounds > 0
                           ? info->max_iteration_rounds
                           : LIVE_ITERATION_ROUNDS;
    else if (info->max_iteration_rounds > 0 &&
             plan->rounds > info->max_iteration_rounds)
        return STP_REFUSE(
            err, "%u rounds of iterations, but machine '%s' has %u",
            plan->rounds, info->machine, info->max_iteration_rounds);
    plan->rotate = info->is_live;
    grain = stp_type_size(plan->type);
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
    for (int mode = 0; mode < STP_N_MODES; mode++)
        plan->layers[mode] = work->layers > 0              ? work->layers
                             : mode == STP_MODE_SEQUENTIAL ? 1
                                                           : LAYERS;
    plan->arms = &out->arms;
    plan->sizes = &out->sizes;
    out->sizes.n = 0;
    for (size_t i = 0; i < sizes->n_bytes; i++)
        STP_TRY(sizes->bytes[i] < grain
                    ? STP_REFUSE(err,
                                 "a collective of %ju bytes, expected %ju or "
                                 "more, an element",
                                 (uintmax_t)sizes->bytes[i], (uintmax_t)grain)
                    : stp_sizes_add(&out->sizes, sizes->bytes[i], grain, err));
    return STP_OK;
}
