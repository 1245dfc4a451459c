/* job_comparison.h - what whole runs of a job say of their arms */
#pragma once

#include <stdio.h>

#include "core/status.h"
#include "report/jobs/job_runs_csv.h"

/* Prints a row an arm, and sentences: of each arm against the baseline, of
 * losses, and of what the times are.  Or one JSON object.  With no complete
 * round only that is said.  STP_ERR_NOMEM. */
enum stp_status stp_print_job_comparison(const struct stp_job_runs *runs,
                                         bool is_json, FILE *fp,
                                         struct stp_error *err);
