/*
 * environment.h - the environment of a job
 */
#ifndef STP_JOB_ENVIRONMENT_H
#define STP_JOB_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

struct stp_job_variable {
    const char *name;
    const char *value; /* NULL: it is not set */
};

/* Whether this process has the variable, and it is not empty. */
bool stp_job_has(const char *name);

/* Sets variables in this process, which the jobs that it starts inherit.
 * STP_ERR_NOMEM. */
enum stp_status stp_job_set(const struct stp_job_variable *variables, size_t n,
                            struct stp_error *err);

#endif /* STP_JOB_ENVIRONMENT_H */
