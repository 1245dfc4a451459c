/* job_log_facts.h - what an NCCL log says, for people and as JSON */
#pragma once

#include "report/job_log.h"
#include "report/results/diagnosis.h"

/* Prints what the log says, in which line of it, and what it lacks; which
 * algorithm ran at which size; then the findings. */
void stp_print_job_log(const struct stp_job_log *log,
                       const struct stp_diagnosis *findings, bool is_json,
                       FILE *fp);
