/* job_comparison.h - the runs of a job that are compared, as a file, and what
 * they say
 *
 * '#' lines say what was run: the command, where step times come from, and the
 * arms; then a row a run. */
#pragma once

#include <stdio.h>

#include "analyse/jobs/runs.h"
#include "core/status.h"

enum { STP_JOB_TEXT = 4096, STP_JOB_LABEL = 256 };

struct stp_job_runs {
    char command[STP_JOB_TEXT];   /* as stp_job_print_command() has it */
    char step_time[STP_JOB_TEXT]; /* the expression that finds it in what the
                                     job prints; "": it is GPU time */
    char labels[STP_JOB_ARMS][STP_JOB_LABEL]; /* of the arms */
    unsigned n_arms;
    struct stp_job_run *runs; /* to be freed with free() */
    size_t n;
    size_t capacity;
};

enum stp_status stp_job_runs_save(const char *path,
                                  const struct stp_job_runs *runs,
                                  struct stp_error *err);

/* Prints a row an arm, and sentences: of each arm against the baseline, of
 * losses, and of what the times are.  Or one JSON object.  With no complete
 * round only that is said. */
void stp_print_job_comparison(const struct stp_job_runs *runs, bool is_json,
                              FILE *fp);
