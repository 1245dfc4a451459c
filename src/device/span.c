#include "device/span.h"

#include <stdlib.h>
#include <string.h>

#include "core/qsort.h"
#include "core/room.h"

enum stp_status stp_spans_add(struct stp_spans *spans,
                              const struct stp_span *span,
                              struct stp_error *err)
{
    if (!STP_ROOM(spans->all, spans->n, spans->capacity))
        return stp_nomem(err);
    spans->all[spans->n++] = *span;
    return STP_OK;
}

enum stp_status stp_spans_move(struct stp_spans *from, struct stp_spans *to,
                               struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < from->n && status == STP_OK; i++)
        if (from->all[i].end_us > 0)
            status = stp_spans_add(to, &from->all[i], err);
    stp_spans_free(from);
    return status;
}

static int span_compare(const void *left, const void *right)
{
    const struct stp_span *a = left;
    const struct stp_span *b = right;

    STP_RETURN_ORDER(STP_ORDER(a->begin_us, b->begin_us));
    return STP_ORDER(a->stream, b->stream);
}

void stp_spans_sort(struct stp_spans *spans)
{
    STP_SORT(spans->all, spans->n, span_compare);
}

void stp_spans_free(struct stp_spans *spans)
{
    free(spans->all);
    memset(spans, 0, sizeof(*spans));
}

void stp_ranges_mark(struct stp_ranges *ranges, const char *name)
{
    if (name != NULL) {
        ranges->n_opened++;
        if (ranges->n < STP_OPEN_RANGES)
            ranges->open[ranges->n] =
                (struct stp_part){.name = name, .number = ranges->n_opened};
        ranges->n++;
    } else if (ranges->n > 0) {
        ranges->n--;
    }
}

struct stp_part stp_ranges_now(const struct stp_ranges *ranges)
{
    return ranges->n == 0 || ranges->n > STP_OPEN_RANGES
               ? (struct stp_part){0}
               : ranges->open[ranges->n - 1];
}
