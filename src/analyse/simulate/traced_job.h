/*
 * traced_job.h - a step of a trace, for a job in virtual time
 */
#ifndef STP_TRACED_JOB_H
#define STP_TRACED_JOB_H

#include "analyse/replay/trace.h"
#include "mock_job.h"

/* Free with stp_traced_job_free(). */
struct stp_traced_job {
    struct mock_job_call *calls;
    struct mock_job_shape step; /* of the calls */
    bool overlapped; /* all collectives are in a stream of their own */
};

/*
 * The step that stp_trace_step_make() takes, on all ranks of the machine; GEMMs
 * last as long as on it (device/mock/mock_compute.h).  STP_ERR_RANGE for groups
 * of fewer ranks: a job has one communicator.
 */
enum stp_status stp_traced_job_make(const struct stp_trace *trace,
                                    const char *machine_path,
                                    struct stp_traced_job *job_ret,
                                    struct stp_error *err);

void stp_traced_job_free(struct stp_traced_job *job);

#endif /* STP_TRACED_JOB_H */
