/*
 * formats.h - the readers of single formats, for traces.c
 */
#ifndef STP_TRACE_FORMATS_H
#define STP_TRACE_FORMATS_H

#include "analyse/replay/trace_build.h"
#include "core/text.h"

/* Append to *b; the caller ends it with stp_trace_finish(). */
enum stp_status stp_read_aicb(struct stp_trace_build *b, const char *text,
                              size_t len, struct stp_error *err);
enum stp_status stp_read_simai(struct stp_trace_build *b, const char *text,
                               size_t len, struct stp_error *err);
/* 'text' has a NUL behind it. */
enum stp_status stp_read_execution(struct stp_trace_build *b, const char *text,
                                   size_t len, struct stp_error *err);

/* A name of a collective in a format. */
struct stp_trace_word {
    const char *name;
    int coll; /* ncclFunc_t; STP_NOT_TUNED for what NCCL asks no tuner about */
};
enum { STP_NOT_TUNED = -1, STP_NO_WORD = -2 };

/* The collective of that name; STP_NO_WORD if there is none.  NULL ends the
 * words. */
int stp_trace_word(const struct stp_trace_word *words, const char *s,
                   size_t len);

/* Appends a GEMM.  STP_ERR_SYNTAX for a side that is 0, or above 2^30. */
enum stp_status stp_trace_add_gemm(struct stp_trace_build *b,
                                   const uint64_t sides[3], int type,
                                   const struct stp_trace_place *place,
                                   struct stp_error *err);

#endif /* STP_TRACE_FORMATS_H */
