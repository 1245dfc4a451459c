/* execution.h - the reader of PyTorch's execution traces, for traces.c */
#ifndef STP_EXECUTION_H
#define STP_EXECUTION_H

#include "analyse/replay/trace_build.h"

/* Appends to *b; the caller ends it with stp_trace_finish().  'text' has a NUL
 * behind it. */
enum stp_status stp_read_execution(struct stp_trace_build *b, const char *text,
                                   size_t len, struct stp_error *err);

#endif /* STP_EXECUTION_H */
