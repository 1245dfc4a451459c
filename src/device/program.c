#include "device/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/room.h"

static void program_clear(struct stp_program *p)
{
    p->n_notes = 0;
    p->n_events = 0;
    p->in_group = false;
    p->ran = false;
}

/* A group is launched at its end, with all work noted within it. */
static enum stp_status program_check_group(const struct stp_program *p,
                                           const struct stp_work *note,
                                           struct stp_error *err)
{
    const struct stp_work *last;

    if (p->in_group == (note->kind == STP_WORK_GROUP_BEGIN) &&
        (p->in_group || note->kind == STP_WORK_GROUP_END))
        return STP_REFUSE(err, p->in_group
                                   ? "a group within a group"
                                   : "the end of a group that was not begun");
    if (!p->in_group || note->kind == STP_WORK_GROUP_END)
        return STP_OK;
    if (note->kind != STP_WORK_COLLECTIVE)
        return STP_REFUSE(err, "only collectives can be in a group");
    last = &p->notes[p->n_notes - 1];
    if (last->kind == STP_WORK_COLLECTIVE && last->stream != note->stream)
        return STP_REFUSE(err, "a group in two streams, expected one");
    return STP_OK;
}

enum stp_status stp_program_add(struct stp_program *p,
                                const struct stp_work *note,
                                struct stp_error *err)
{
    bool is_recorded = note->kind != STP_WORK_WAIT;

    if (note->stream >= STP_N_STREAMS)
        return STP_REFUSE(err, "stream %u of %u", note->stream,
                          (unsigned)STP_N_STREAMS);
    if (p->ran)
        program_clear(p);
    STP_TRY(program_check_group(p, note, err));
    for (size_t i = p->n_notes; i-- > 0 && !is_recorded;) /* most are recent */
        is_recorded = p->notes[i].kind == STP_WORK_RECORD &&
                      p->notes[i].event == note->event;
    if (!is_recorded)
        return STP_REFUSE(err,
                          "a wait for event %u, which nothing before records",
                          note->event);
    if (!STP_ROOM(p->notes, p->n_notes, p->capacity))
        return stp_nomem(err);
    p->notes[p->n_notes++] = *note;
    if (note->kind == STP_WORK_GROUP_BEGIN || note->kind == STP_WORK_GROUP_END)
        p->in_group = note->kind == STP_WORK_GROUP_BEGIN;
    if (note->kind == STP_WORK_RECORD && note->event >= p->n_events)
        p->n_events = note->event + 1;
    return STP_OK;
}

void stp_program_begin(struct stp_program *p)
{
    if (p->ran)
        program_clear(p);
    p->ran = true;
}

/* Events have no name. */
static void work_name(const struct stp_work *work, char name[STP_SPAN_NAME])
{
    const struct stp_transfer *t = &work->as.transfer;
    const struct stp_gemm *g = &work->as.product.gemm;

    switch (work->kind) {
    case STP_WORK_COLLECTIVE:
        snprintf(name, STP_SPAN_NAME, "%s %s %ju bytes", stp_coll_name(t->coll),
                 stp_type_name(t->type), (uintmax_t)work->collective.n_bytes);
        break;
    case STP_WORK_TRANSFER:
        snprintf(name, STP_SPAN_NAME, "%s %s %ju elements",
                 stp_coll_name(t->coll), stp_type_name(t->type),
                 (uintmax_t)t->n);
        break;
    case STP_WORK_PRODUCT:
        snprintf(name, STP_SPAN_NAME, "product %s %u x %u x %u",
                 work->as.product.tf32 ? "tf32" : stp_type_name(g->type), g->m,
                 g->n, g->k);
        break;
    case STP_WORK_CROSS_ENTROPY:
    case STP_WORK_UPDATE:
    case STP_WORK_KERNEL:
        snprintf(name, STP_SPAN_NAME, "%s",
                 work->kind == STP_WORK_CROSS_ENTROPY ? "cross-entropy"
                 : work->kind == STP_WORK_UPDATE
                     ? "update"
                     : stp_kernel_name(work->as.kernel.kind));
        break;
    default:
        break;
    }
}

enum stp_status stp_program_add_spans(const struct stp_program *p,
                                      struct stp_spans *spans,
                                      struct stp_error *err)
{
    for (size_t i = 0; i < p->n_notes; i++) {
        const struct stp_work *work = &p->notes[i];
        struct stp_span span = {.stream = work->stream,
                                .kind = work->kind >= STP_WORK_PRODUCT
                                            ? STP_SPAN_COMPUTE
                                            : STP_SPAN_COMMUNICATION,
                                .range = work->range};

        work_name(work, span.name);
        STP_TRY(stp_spans_add(spans, &span, err));
    }
    return STP_OK;
}

void stp_program_free(struct stp_program *p)
{
    free(p->notes);
    memset(p, 0, sizeof(*p));
}
