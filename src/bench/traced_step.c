#include "bench/traced_step.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "launch/take.h"

/* ---- making it ---- */

enum stp_status stp_traced_step_add_time(struct stp_traced_step *step,
                                         double us, struct stp_error *err)
{
    const struct stp_work work = {.kind = STP_WORK_GEMM,
                                  .stream = STP_STREAM_MAIN,
                                  .task = step->n_us + 1};

    STP_TAKE_ROOM(step->us, step->n_us, step->us_capacity);
    step->us[step->n_us++] = us;
    return stp_program_add(&step->program, &work, err);
}

static bool step_same_kind(const struct stp_collective *a,
                           const struct stp_collective *b)
{
    return a->coll == b->coll && a->n_bytes == b->n_bytes &&
           a->type == b->type && a->op == b->op && a->root == b->root &&
           a->groups.size == b->groups.size &&
           a->groups.stride == b->groups.stride;
}

void stp_traced_step_finish(struct stp_traced_step *step)
{
    const size_t n = step->program.n_notes;
    uint64_t *sums = stp_take(n, sizeof(*sums));
    size_t most = 0; /* the kind of the most bytes, which comes first */
    struct stp_collective first;

    STP_TAKE(step->colls, n);
    STP_TAKE(step->kinds, n);
    for (size_t i = 0; i < n; i++) {
        const struct stp_work *note = &step->program.notes[i];
        size_t k = 0;

        if (note->kind != STP_WORK_COLLECTIVE)
            continue;
        step->colls[step->n_colls++] = note->collective;
        while (k < step->n_kinds &&
               !step_same_kind(&step->kinds[k], &note->collective))
            k++;
        if (k == step->n_kinds)
            step->kinds[step->n_kinds++] = note->collective;
        sums[k] += note->collective.n_bytes;
    }
    for (size_t k = 1; k < step->n_kinds; k++)
        if (sums[k] > sums[most])
            most = k;
    first = step->kinds[0];
    step->kinds[0] = step->kinds[most];
    step->kinds[most] = first;
    free(sums);
}

void stp_traced_step_free(struct stp_traced_step *step)
{
    stp_program_free(&step->program);
    free(step->us);
    free(step->colls);
    free(step->kinds);
    *step = (struct stp_traced_step){0};
}

/* ---- noting it ---- */

enum stp_status stp_traced_step_note(const struct stp_device *device,
                                     const struct stp_traced_step *step,
                                     unsigned event, struct stp_error *err)
{
    for (size_t i = 0; i < step->program.n_notes; i++) {
        struct stp_work work = step->program.notes[i];

        work.event += event;
        STP_TRY(stp_device_note(device, &work, err));
    }
    return STP_OK;
}

enum stp_status stp_traced_step_note_compute(const struct stp_device *device,
                                             const struct stp_traced_step *step,
                                             unsigned stream,
                                             struct stp_error *err)
{
    for (size_t i = 0; i < step->program.n_notes; i++)
        if (step->program.notes[i].kind == STP_WORK_GEMM)
            STP_TRY(stp_device_note(
                device,
                &(struct stp_work){.kind = STP_WORK_GEMM,
                                   .stream = stream,
                                   .gemm = step->program.notes[i].gemm},
                err));
    return STP_OK;
}
