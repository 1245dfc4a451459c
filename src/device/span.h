/* span.h - spans: the records of a trace */
#pragma once

#include <stddef.h>

#include "core/status.h"

enum stp_span_kind {
    STP_SPAN_COMPUTE,       /* kernels and copies */
    STP_SPAN_COMMUNICATION, /* collectives */
    STP_SPAN_RANGE,         /* the host noted or launched a part of a step */
};

/* A part of a step. */
struct stp_part {
    const char *name; /* static storage; NULL: none */
    unsigned number;  /* of all that were opened, from 1 */
};

enum { STP_SPAN_NAME = 96 };

struct stp_span {
    unsigned stream; /* STP_STREAM_MAIN or _COMM; of a range STP_N_STREAMS */
    enum stp_span_kind kind;
    char name[STP_SPAN_NAME]; /* of the operation or kernel; cut */
    struct stp_part range;    /* the innermost it was noted in */
    double begin_us;          /* as now_us() of the engine */
    double end_us;
};

/* All zero to begin with; free with stp_spans_free(). */
struct stp_spans {
    struct stp_span *all;
    size_t n;
    size_t capacity;
};

/* Appends a copy.  STP_ERR_NOMEM. */
enum stp_status stp_spans_add(struct stp_spans *spans,
                              const struct stp_span *span,
                              struct stp_error *err);

/* Moves the spans that ended to another list; the first is empty then. */
enum stp_status stp_spans_move(struct stp_spans *from, struct stp_spans *to,
                               struct stp_error *err);

/* By begin, then by stream. */
void stp_spans_sort(struct stp_spans *spans);

void stp_spans_free(struct stp_spans *spans);

enum { STP_OPEN_RANGES = 8 };

/* Ranges that are open, one within the other.  All zero to begin with. */
struct stp_ranges {
    struct stp_part open[STP_OPEN_RANGES];
    unsigned n; /* those further in than the last of open[] have no name */
    unsigned n_opened;
};

/* Opens a range, or, for NULL, closes the innermost, if there is one. */
void stp_ranges_mark(struct stp_ranges *ranges, const char *name);

/* The innermost. */
struct stp_part stp_ranges_now(const struct stp_ranges *ranges);
