/* traces.h - traces of jobs, in our format and in those of others
 *
 * The text of a file tells its kind of trace, whatever its name; gzip may have
 * compressed it.  Memory grows with the events that matter, not with the file:
 *
 *   steptune CSV      analyse/replay/trace.h
 *   execution trace   PyTorch's ExecutionTraceObserver, JSON, schemas 1.0 and
 *                     1.1 (PARAM and Chakra read it)
 *   profiler's trace  PyTorch's profiler, Chrome's JSON
 *   flight recorder   PyTorch's, JSON, not the pickles that it dumps
 *   NCCL Inspector    lines of JSON, format 4.x
 *
 * A row that cannot be played, since NCCL asks no tuner about it or nobody
 * knows what it is, is counted by its name in 'skips' of the trace. */
#pragma once

#include "analyse/replay/trace_build.h"

/* Reads the file 'path', or of a folder the first trace in the order of the
 * numbers in names, into *trace_ret, to be freed with stp_trace_free(); or
 * leaves it untouched, with line, column and the word in *err. */
enum stp_status stp_traces_load(const char *path, struct stp_trace *trace_ret,
                                struct stp_error *err);
