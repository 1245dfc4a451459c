/* iterate_plan.c - from options to a plan of iterations */
#include <string.h>

#include "cli/iterate/iterate.h"

enum {
    MiB = 1 << 20,
    LIVE_ROUNDS = 10,
    LAYERS = 8,
    ITERS = 20,
};

static const double live_turn_us = 20e3;

/* Where the options leave it open. */
static const struct stp_workload_options one = {
    .modes = {STP_MODE_OVERLAP},
    .n_modes = 1,
    .bytes = {16 * MiB},
    .n_bytes = 1,
    .ratios = {1},
    .n_ratios = 1,
};

static const struct stp_workload_options many = {
    .modes = {STP_MODE_SEQUENTIAL, STP_MODE_OVERLAP, STP_MODE_FSDP},
    .n_modes = 3,
    .bytes = {MiB, 4 * MiB, 16 * MiB, 64 * MiB},
    .n_bytes = 4,
    .ratios = {0.5, 1, 2},
    .n_ratios = 3,
};

static const struct stp_workload_options *
sizes_of(const struct stp_workload_options *work, bool scan)
{
    return work->n_bytes > 0 ? work : scan ? &many : &one;
}

uint64_t stp_workload_max_bytes(const struct stp_workload_options *work,
                                bool scan)
{
    const struct stp_workload_options *from = sizes_of(work, scan);
    uint64_t most = 0;

    for (size_t i = 0; i < from->n_bytes; i++)
        if (from->bytes[i] > most)
            most = from->bytes[i];
    return most;
}

static void set_layers(const struct stp_workload_options *work,
                       unsigned layers[STP_N_MODES])
{
    for (int mode = 0; mode < STP_N_MODES; mode++)
        layers[mode] = work->layers > 0              ? work->layers
                       : mode == STP_MODE_SEQUENTIAL ? 1
                                                     : LAYERS;
}

/* What is not about the workload. */
static void set_defaults(const struct stp_device_info *info,
                         struct stp_iterate_plan *plan)
{
    bool on_gpus = strcmp(info->backend, "nccl") == 0;

    if (plan->type < 0)
        plan->type = on_gpus ? STP_TYPE_BF16 : STP_TYPE_F32;
    plan->turn_us = plan->iters == 0 && info->is_live ? live_turn_us : 0;
    if (plan->iters == 0)
        plan->iters = ITERS;
    if (plan->rounds == 0)
        plan->rounds = info->max_rounds > 0 ? info->max_rounds : LIVE_ROUNDS;
    plan->rotate = info->is_live;
}

enum stp_status stp_plan_iterations(const struct stp_device_info *info,
                                    const struct stp_workload_options *work,
                                    bool scan, struct stp_iterate_cli_plan *out,
                                    struct stp_error *err)
{
    const struct stp_workload_options *defaults = scan ? &many : &one;
    const struct stp_workload_options *modes =
        work->n_modes > 0 ? work : defaults;
    const struct stp_workload_options *ratios =
        work->n_ratios > 0 ? work : defaults;
    const struct stp_workload_options *sizes = sizes_of(work, scan);
    struct stp_iterate_plan *plan = &out->plan;
    enum stp_status status = STP_OK;

    set_defaults(info, plan);
    plan->modes = modes->modes;
    plan->n_modes = modes->n_modes;
    plan->ratios = ratios->ratios;
    plan->n_ratios = ratios->n_ratios;
    out->gemm = work->gemm;
    out->gemm.type = plan->type;
    plan->gemm = work->gemm.m != 0 ? &out->gemm : NULL;
    plan->in_place = !work->out_of_place;
    plan->compute = work->compute;
    plan->coll = ncclFuncAllReduce;
    plan->op = STP_OP_SUM;
    set_layers(work, plan->layers);
    plan->arms = &out->arms;
    plan->sizes = &out->sizes;
    out->sizes.n = 0;
    for (size_t i = 0; i < sizes->n_bytes && status == STP_OK; i++)
        status = stp_sizes_add(&out->sizes, sizes->bytes[i],
                               stp_type_size(plan->type), err);
    return status;
}
