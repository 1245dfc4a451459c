#include "report/measurements/nccl_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/text.h"
#include "report/measurements/nccl_text.h"

static enum stp_status run_add_place(const struct stp_nccl_run *run,
                                     const struct stp_nccl_row *row,
                                     bool in_place, struct stp_dataset *data,
                                     struct stp_error *err)
{
    const struct stp_nccl_place *p = &row->places[in_place];
    struct stp_measurement m = {
        .coll = run->coll,
        .n_bytes = row->n_bytes,
        .round = run->round,
        .arm = run->arm,
        .ran_algo = run->ran_algo,
        .ran_proto = run->ran_proto,
        .type = row->type,
        .op = row->op,
        .root = row->root,
        .in_place = in_place,
        .n_wrong = (int64_t)fmin(p->n_wrong, 1e18),
        .n_ranks = run->n_ranks,
        .n_nodes = run->n_nodes > 0 ? run->n_nodes : 1,
        .iters = run->iters,
        .source = STP_SOURCE_MEASURED,
        .us = {.mean = p->us,
               .median = p->median_us > 0 ? p->median_us : p->us,
               .p95 = p->p95_us > 0 ? p->p95_us : p->us,
               .p99 = p->p99_us > 0 ? p->p99_us : p->us,
               .min = p->min_us > 0 ? p->min_us : p->us},
    };

    if (!(p->us > 0) || row->n_bytes == 0)
        return STP_OK;
    if (p->error == 0) /* any other difference may be rounding */
        m.n_wrong = 0;
    return stp_dataset_add(data, &m) == STP_OK ? STP_OK : stp_nomem(err);
}

enum stp_status stp_nccl_run_add(struct stp_nccl_run *run,
                                 const struct stp_nccl_row *row,
                                 struct stp_dataset *data,
                                 struct stp_error *err)
{
    enum stp_status status;

    run->round += run->last_size != UINT64_MAX &&
                  row->n_bytes <= run->last_size && row->n_bytes > 0;
    run->last_size = row->n_bytes;
    status = run_add_place(run, row, false, data, err);
    return status == STP_OK ? run_add_place(run, row, true, data, err) : status;
}

int stp_nccl_program_coll(const char *program, size_t len)
{
    const struct stp_field name = {program, len, 0};

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (stp_field_is(&name, stp_nccl_text_program(c)))
            return c;
    return -1;
}

int stp_nccl_op(const char *word, size_t len)
{
    const struct stp_field f = {word, len, 0};

    return stp_field_is(&f, "none")     ? STP_OP_SUM
           : stp_field_is(&f, "mulsum") ? STP_OP_PREMULSUM
                                        : stp_op_from_name(word, len);
}

struct stp_nccl_version stp_nccl_version(uint64_t code)
{
    const bool is_old = code < 10000;
    struct stp_nccl_version version;

    snprintf(version.text, sizeof(version.text), "%u.%u.%u",
             (unsigned)(code / (is_old ? 1000 : 10000)),
             (unsigned)(code / 100 % (is_old ? 10 : 100)),
             (unsigned)(code % 100));
    return version;
}
