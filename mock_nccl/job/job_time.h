/*
 * job_time.h - start and duration of a job's collectives
 */
#ifndef MOCK_JOB_TIME_H
#define MOCK_JOB_TIME_H

#include "job/state.h"

/* Computes start and duration of each collective of the pass; *end_us_ret is
 * the end of the pass. */
ncclResult_t mock_job_time(const struct mock_job *job,
                           struct mock_job_pass *pass, double *end_us_ret);

#endif /* MOCK_JOB_TIME_H */
