#include "bench/choices.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/names.h"
#include "core/room.h"

static enum stp_status choices_fail_unknown(const struct stp_device *device,
                                            const char *what,
                                            struct stp_error *err)
{
    struct stp_device_info info;

    stp_device_get_info(device, &info);
    return stp_fail(err, STP_ERR_DEVICE,
                    "%s%s%s does not tell %s: that takes NCCL 2.27 or later, "
                    "through its tuner and profiler interfaces",
                    info.backend, info.nccl[0] != '\0' ? " " : "", info.nccl,
                    what);
}

static enum stp_status choices_probe(const struct stp_device *device,
                                     const struct stp_collective *what,
                                     struct stp_choices *choices,
                                     struct stp_error *err)
{
    struct stp_nccl_choice row = {.what = *what};
    struct stp_device_run run;

    STP_TRY(stp_device_probe(device, what, &run, &row.question, err));
    if (row.question.n_bytes == 0)
        return choices_fail_unknown(device, "what it asks its tuner", err);
    if (run.algo < 0 || run.proto < 0 || run.n_channels == 0) {
        choices->n_unreported[what->coll]++;
        return STP_OK;
    }
    row.algo = run.algo;
    row.proto = run.proto;
    row.n_channels = run.n_channels;
    if (!STP_ROOM(choices->rows, choices->n_rows, choices->capacity))
        return stp_nomem(err);
    choices->rows[choices->n_rows++] = row;
    return STP_OK;
}

static const struct stp_arm own_choice = {.kind = STP_ARM_AUTO};

enum stp_status stp_choices_record(const struct stp_device *device,
                                   const struct stp_choices_part *parts,
                                   size_t n_parts, stp_sweep_progress progress,
                                   void *user, struct stp_choices *choices,
                                   struct stp_error *err)
{
    size_t total = 0, done = 0;

    STP_TRY(stp_device_select_arm(device, &own_choice, err));
    for (size_t p = 0; p < n_parts; p++)
        total += parts[p].sizes.n;
    for (size_t p = 0; p < n_parts; p++)
        for (size_t i = 0; i < parts[p].sizes.n; i++) {
            const struct stp_collective what = {.coll = parts[p].coll,
                                                .n_bytes =
                                                    parts[p].sizes.size[i],
                                                .type = parts[p].type,
                                                .op = STP_OP_SUM};

            STP_TRY(choices_probe(device, &what, choices, err));
            if (progress != NULL && !progress(user, ++done, total))
                return stp_fail(err, STP_ERR_STOPPED,
                                "stopped after %zu of %zu choices", done,
                                total);
        }
    return choices->n_rows == 0 && total > 0
               ? choices_fail_unknown(device, "what it runs", err)
               : STP_OK;
}

enum stp_status stp_choices_repeat(const struct stp_device *device,
                                   const struct stp_choices *choices,
                                   struct stp_choices *again,
                                   struct stp_error *err)
{
    struct stp_device_info info;

    STP_TRY(stp_device_select_arm(device, &own_choice, err));
    stp_device_get_info(device, &info);
    for (size_t i = 0; i < choices->n_rows; i++) {
        const struct stp_collective *what = &choices->rows[i].what;

        STP_TRY(choices_probe(device, what, again, err));
        if (again->n_rows == i)
            return stp_fail(
                err, STP_ERR_DEVICE,
                "%s%s%s does not tell what it runs for %s of %" PRIu64
                " bytes, which it has to repeat",
                info.backend, info.nccl[0] != '\0' ? " " : "", info.nccl,
                stp_coll_name(what->coll), what->n_bytes);
    }
    return STP_OK;
}

bool stp_choice_equal(const struct stp_nccl_choice *a,
                      const struct stp_nccl_choice *b)
{
    for (int i = 0; i < NCCL_NUM_ALGORITHMS; i++)
        for (int j = 0; j < NCCL_NUM_PROTOCOLS; j++) {
            const float x = a->question.cost[i][j], y = b->question.cost[i][j];

            /* what is ruled out has no cost, whatever is below 0 */
            if (x != y && !(x < 0 && y < 0))
                return false;
        }
    return a->question.n_bytes == b->question.n_bytes &&
           a->question.n_pipe_ops == b->question.n_pipe_ops &&
           a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels;
}

void stp_choices_free(struct stp_choices *choices)
{
    free(choices->rows);
    *choices = (struct stp_choices){0};
}
