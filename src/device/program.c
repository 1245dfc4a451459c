#include "device/program.h"

#include <stdlib.h>
#include <string.h>

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
        return stp_fail(err, STP_ERR_RANGE,
                        p->in_group ? "a group within a group"
                                    : "the end of a group that was not begun");
    if (!p->in_group || note->kind == STP_WORK_GROUP_END)
        return STP_OK;
    if (note->kind != STP_WORK_COLLECTIVE)
        return stp_fail(err, STP_ERR_RANGE,
                        "only collectives can be in a group");
    last = &p->notes[p->n_notes - 1];
    if (last->kind == STP_WORK_COLLECTIVE && last->stream != note->stream)
        return stp_fail(err, STP_ERR_RANGE,
                        "a group in two streams, expected one");
    return STP_OK;
}

enum stp_status stp_program_add(struct stp_program *p,
                                const struct stp_work *note,
                                struct stp_error *err)
{
    bool is_recorded = note->kind != STP_WORK_WAIT;

    if (note->stream >= STP_N_STREAMS)
        return stp_fail(err, STP_ERR_RANGE, "stream %u of %u", note->stream,
                        (unsigned)STP_N_STREAMS);
    if (p->ran)
        program_clear(p);
    STP_TRY(program_check_group(p, note, err));
    for (size_t i = p->n_notes; i-- > 0 && !is_recorded;) /* most are recent */
        is_recorded = p->notes[i].kind == STP_WORK_RECORD &&
                      p->notes[i].event == note->event;
    if (!is_recorded)
        return stp_fail(err, STP_ERR_RANGE,
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

void stp_program_free(struct stp_program *p)
{
    free(p->notes);
    memset(p, 0, sizeof(*p));
}
