/*
 * job_time.h - when the collectives of a job run
 */
#ifndef MOCK_JOB_TIME_H
#define MOCK_JOB_TIME_H

#include "job/state.h"

/* When each collective of the pass ran, and how long it took; *end_us_ret is
 * when all is done. */
ncclResult_t mock_job_time(const struct mock_job *job,
                           struct mock_job_pass *pass, double *end_us_ret);

#endif /* MOCK_JOB_TIME_H */
