/*
 * job_ranks.h - the ranks of a job: their threads, launches and agreement
 */
#ifndef MOCK_JOB_RANKS_H
#define MOCK_JOB_RANKS_H

#include "job/state.h"

ncclResult_t mock_job_start_ranks(struct mock_job *job);
void mock_job_stop_ranks(struct mock_job *job);

/* Launches job->pass on all ranks, and reports the kernels of job->reported to
 * their profilers. Fails if ranks choose differently. */
ncclResult_t mock_job_launch(struct mock_job *job);

#endif /* MOCK_JOB_RANKS_H */
