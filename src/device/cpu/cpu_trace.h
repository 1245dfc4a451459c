/*
 * cpu_trace.h - when the operations of an engine of CPUs ran
 */
#ifndef STP_CPU_TRACE_H
#define STP_CPU_TRACE_H

#include <stdbool.h>

#include "device/cpu/cpu_task.h"
#include "device/span.h"

/* All zero to begin with; free with stp_spans_free(&trace->spans). */
struct stp_cpu_trace {
    bool on;
    struct stp_ranges ranges;
    struct stp_spans spans; /* of the runs since it is on */
    size_t begun;           /* where those of the run under way begin */
};

/* Microseconds of CLOCK_MONOTONIC. */
double stp_cpu_now_us(void);

/* Makes room for a run of these tasks, before it. */
enum stp_status stp_cpu_trace_reserve(struct stp_cpu_trace *trace,
                                      const struct stp_cpu_task *tasks,
                                      size_t n, struct stp_error *err);

/* Task 'task' of the run began and ended.  From the threads of the streams,
 * each task from one. */
void stp_cpu_trace_tell(struct stp_cpu_trace *trace, size_t task,
                        unsigned stream, double begin_us, double end_us);

/* Ends the trace: moves what ran to the end of 'spans'. */
enum stp_status stp_cpu_trace_end(struct stp_cpu_trace *trace,
                                  struct stp_spans *spans,
                                  struct stp_error *err);

#endif /* STP_CPU_TRACE_H */
