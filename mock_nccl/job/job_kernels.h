/*
 * job_kernels.h - what a profiler is told of a job's kernels
 */
#ifndef MOCK_JOB_KERNELS_H
#define MOCK_JOB_KERNELS_H

#include "job/state.h"

/* Tells all ranks of a pass's kernels. */
void mock_job_tell_kernels(struct mock_job *job,
                           const struct mock_job_pass *pass);

#endif /* MOCK_JOB_KERNELS_H */
