#include "device/program.h"

#include <stdlib.h>
#include <string.h>

static bool is_recorded(const struct stp_program *p, unsigned event)
{
    for (size_t i = p->n_notes; i > 0; i--)
        if (p->notes[i - 1].kind == STP_NOTE_RECORD &&
            p->notes[i - 1].event == event)
            return true;
    return false;
}

static void clear(struct stp_program *p)
{
    p->n_notes = 0;
    p->n_events = 0;
    p->ran = false;
}

static bool grow(struct stp_program *p)
{
    size_t n = 2 * p->capacity + 64;
    struct stp_note *more = realloc(p->notes, n * sizeof(*more));

    if (more == NULL)
        return false;
    p->notes = more;
    p->capacity = n;
    return true;
}

enum stp_status stp_program_add(struct stp_program *p,
                                const struct stp_note *note,
                                struct stp_error *err)
{
    if (p->ran)
        clear(p);
    if (note->kind == STP_NOTE_WAIT && !is_recorded(p, note->event))
        return stp_fail(err, STP_ERR_RANGE,
                        "a wait for event %u, which nothing before records",
                        note->event);
    if (p->n_notes == p->capacity && !grow(p))
        return stp_nomem(err);
    p->notes[p->n_notes++] = *note;
    if (note->kind == STP_NOTE_RECORD && note->event >= p->n_events)
        p->n_events = note->event + 1;
    return STP_OK;
}

void stp_program_begin(struct stp_program *p)
{
    if (p->ran)
        clear(p);
    p->ran = true;
}

void stp_program_free(struct stp_program *p)
{
    free(p->notes);
    memset(p, 0, sizeof(*p));
}
