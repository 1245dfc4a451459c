/* steps.h - the time of a job's step, out of its trace or out of what it prints
 *
 * The first STP_WARM_UP_PERCENT of the steps are left out.  The others are a
 * mean without its extremes: pauses, as for a checkpoint, belong to no step. */
#pragma once

#include <stddef.h>

#include "analyse/replay/trace.h"
#include "core/status.h"

enum { STP_WARM_UP_PERCENT = 20 };

struct stp_job_step {
    double time;    /* of a step: us on the GPU, or what the job prints */
    size_t n_steps; /* that it is the mean of */
    size_t n_calls; /* collectives of a step in the trace */
};

/* Returns the time in which a communicator repeats a sequence of collectives,
 * from begin to begin on the GPU: a step, or a part of one that repeats. The
 * communicator that repeats most collectives counts. STP_ERR_NOTHING if there
 * is none, or its times are not known. */
enum stp_status stp_job_step_traced(const struct stp_trace *trace,
                                    struct stp_job_step *step_ret,
                                    struct stp_error *err);

/* The step time of the 'n' >= 1 times that a job printed, which it sorts. */
struct stp_job_step stp_job_step_printed(double *times, size_t n);
