/* traces.h - traces of jobs, in our format and in those of others
 *
 * The text of a file tells its kind of trace, whatever its name; a text that
 * gzip compressed is read as well:
 *
 *   steptune CSV      analyse/replay/trace.h
 *   execution trace   PyTorch's ExecutionTraceObserver, JSON, schemas 1.0 and
 *                     1.1 (PARAM and Chakra read it)
 *
 * A row that cannot be played, since NCCL asks no tuner about it or nobody
 * knows what it is, is counted by its name in 'skips' of the trace. */
#pragma once

#include "analyse/replay/trace_build.h"

/* Reads the file 'path' into *trace_ret, to be freed with stp_trace_free(); or
 * leaves it untouched, with line, column and the word in *err. */
enum stp_status stp_traces_load(const char *path, struct stp_trace *trace_ret,
                                struct stp_error *err);

/* The same for the 'len' bytes at 'text', with a NUL behind them. */
enum stp_status stp_traces_read(const char *text, size_t len,
                                struct stp_trace *trace_ret,
                                struct stp_error *err);

/* The reader of execution traces: appends to *b; the caller ends it with
 * stp_trace_finish().  'text' has a NUL behind it. */
enum stp_status stp_read_execution(struct stp_trace_build *b, const char *text,
                                   size_t len, struct stp_error *err);
