/* measure.c - from options to a device, a plan and a progress bar */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "launch/stop.h"

enum {
    DEFAULT_ROUNDS = 10,
    DEFAULT_ITERS = 50,
    LIVE_ROUNDS = 5,
    LIVE_ITERS = 20,
    LIVE_TURN_US = 8000,
};

/* ---- messages ---- */

int stp_complain(const char *command, const char *fmt, ...)
{
    char text[STP_CLI_PATH + STP_ERROR_TEXT];
    va_list va;

    va_start(va, fmt);
    vsnprintf(text, sizeof(text), fmt, va);
    va_end(va);
    fprintf(stderr, "%s: %s\n", command, text); /* of one process in one go */
    return STP_EXIT_FAILED;
}

int stp_complain_error(const char *command, const char *path,
                       const struct stp_error *err)
{
    char text[STP_CLI_PATH + STP_ERROR_TEXT];

    if (path == NULL)
        return stp_complain(command, "%s", err->text);
    stp_error_string(err, path, text, sizeof(text));
    return stp_complain(command, "%s", text);
}

/* ---- the plan ---- */

uint64_t stp_size_grain(const struct stp_device *device, int coll, int type)
{
    struct stp_device_info info;
    bool is_split = coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;

    device->ops->info(device->self, &info);
    /* what was recorded is in multiples of all ranks */
    return stp_type_size(type) *
           (uint64_t)(is_split || !info.is_live ? info.n_ranks : 1);
}

uint64_t stp_max_bytes(const struct stp_measure_options *measure)
{
    return measure->end > 0 ? measure->end : (uint64_t)1 << 30;
}

static enum stp_status add_known_sizes(const struct stp_device *device,
                                       int coll, struct stp_sizes *sizes,
                                       struct stp_error *err)
{
    uint64_t known[STP_MAX_SIZES];
    size_t n = device->ops->sizes(device->self, coll, known, STP_MAX_SIZES);
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < n && i < STP_MAX_SIZES && status == STP_OK; i++)
        status = stp_sizes_add(sizes, known[i], 1, err);
    return status;
}

static bool sizes_given(const struct stp_measure_options *m)
{
    return m->begin != 0 || m->end != 0 || m->factor != 0 || m->step != 0;
}

/* As all_reduce_perf, -f over -i. */
static enum stp_status choose_sizes(const struct stp_device *device,
                                    const struct stp_measure_options *m,
                                    int coll, int type, struct stp_sizes *sizes,
                                    struct stp_error *err)
{
    uint64_t begin = m->begin > 0 ? m->begin : 8;
    uint64_t grain = stp_size_grain(device, coll, type);
    enum stp_status status = STP_OK;

    sizes->n = 0;
    if (!sizes_given(m))
        status = add_known_sizes(device, coll, sizes, err);
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
static size_t choose_colls(const struct stp_device *device,
                           const struct stp_measure_options *m,
                           int colls[NCCL_NUM_TUNED_FUNCS])
{
    struct stp_device_info info;
    size_t n = 0;

    device->ops->info(device->self, &info);
    colls[0] = ncclFuncAllReduce;
    if (m->n_colls == 0 && info.is_live)
        return 1;
    if (m->n_colls > 0) {
        memcpy(colls, m->colls, m->n_colls * sizeof(*colls));
        return m->n_colls;
    }
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (device->ops->sizes(device->self, c, NULL, 0) > 0)
            colls[n++] = c;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && n == 0; c++)
        colls[c] = c;
    return n > 0 ? n : NCCL_NUM_TUNED_FUNCS;
}

/* A real machine drifts, and has no time for iterations without end; what was
 * recorded is there in so many rounds and in bf16. */
static void choose_counts(const struct stp_device_info *info,
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
    plan->type = m->type >= 0    ? m->type
                 : info->is_live ? STP_TYPE_F32
                                 : STP_TYPE_BF16;
}

enum stp_status stp_make_plan(const struct stp_device *device,
                              const struct stp_measure_options *measure,
                              const struct stp_arms *arms,
                              struct stp_cli_plan *plan_ret,
                              struct stp_error *err)
{
    struct stp_device_info info;
    enum stp_status status = STP_OK;

    device->ops->info(device->self, &info);
    plan_ret->plan = (struct stp_sweep_plan){
        .colls = plan_ret->colls,
        .n_colls = choose_colls(device, measure, plan_ret->colls),
        .sizes = plan_ret->sizes,
        .arms = arms,
        .warmup = measure->warmup,
        .op = measure->op,
        .root = measure->root,
        .auto_places = STP_OUT_OF_PLACE,
        .arm_places = STP_OUT_OF_PLACE,
    };
    choose_counts(&info, measure, &plan_ret->plan);
    if (measure->root >= info.n_ranks)
        return stp_fail(err, STP_ERR_RANGE,
                        "root %u, expected one of the %u ranks, from 0",
                        measure->root, info.n_ranks);
    for (size_t c = 0; c < plan_ret->plan.n_colls && status == STP_OK; c++)
        status = choose_sizes(device, measure, plan_ret->colls[c],
                              plan_ret->plan.type, &plan_ret->sizes[c], err);
    return status;
}

/* ---- progress ---- */

void stp_progress_clear(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

bool stp_progress(void *user, size_t done, size_t total)
{
    static const char bar[] = "########################################";
    const int width = (int)sizeof(bar) - 1;
    int filled = (int)((size_t)width * done / total);

    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r[%.*s%*s] %zu of %zu %s%s", filled, bar,
                width - filled, "", done, total,
                user != NULL ? (const char *)user : "sizes",
                done == total ? "\n" : "");
    return !stp_stop_wished();
}
