/*
 * job_kernels.h - the kernel events of a job, for its profilers
 */
#ifndef MOCK_JOB_KERNELS_H
#define MOCK_JOB_KERNELS_H

#include "job/state.h"

/* Reports the kernels of a pass to the profilers of all ranks. */
void mock_job_report_kernels(struct mock_job *job,
                             const struct mock_job_pass *pass);

#endif /* MOCK_JOB_KERNELS_H */
