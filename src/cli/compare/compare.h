/* compare.h - parts of `steptune compare`: arms, runs, what a run printed */
#pragma once

#include <regex.h>
#include <stdbool.h>

#include "cli/cli.h"
#include "child/job.h"
#include "report/jobs/job_comparison.h"

enum {
    STP_COMPARE_ENVS = 8,       /* options --env */
    STP_COMPARE_VARIABLES = 20, /* of a run */
    STP_COMPARE_NCCL = 64,
};

/* ---- options ---- */

struct stp_compare_options {
    const char *policies; /* lists; NULL: not given */
    const char *plugins;
    const char *nccls;
    const char *stages;
    const char *envs[STP_COMPARE_ENVS];
    unsigned n_envs;
    unsigned rounds;
    unsigned limit_s;
    const char *step_time; /* NULL: by NCCL's profiler */
    const char *loss;
    const char *output; /* NULL: a temporary folder */
    bool json;
    FILE *fp; /* of the result */
    struct stp_arguments command;
};

/* ---- arms ---- */

/* An environment of the job. */
struct stp_compare_arm {
    const char *label;
    struct stp_job_variable variables[STP_COMPARE_VARIABLES];
    size_t n_variables;
    bool has_policy;   /* of ours: whether the plugin was loaded is said */
    const char *lower; /* " with tuner NAME", without ours; NULL: none */
    const char *stage; /* the stage policy; NULL: nothing is staged */
    char nccl[STP_COMPARE_NCCL]; /* the version that a run printed; "": none */
};

/* All arms; their texts are in 'text'. */
struct stp_compare_arms {
    struct stp_compare_arm all[STP_JOB_ARMS];
    unsigned n;
    size_t used;
    bool is_full; /* a text had no room */
    char text[1 << 16];
};

/* Makes the arms of the options: the first has the first value of every list,
 * and each other one another value of one list.  Complains; the exit status. */
int stp_compare_make_arms(const struct stp_compare_options *o,
                          struct stp_compare_arms *arms);

/* ---- runs ---- */

/* With its arms in memory that children share, which read outcomes of runs. */
struct stp_compare_session {
    const struct stp_compare_options *o;
    struct stp_compare_arms *arms;
    regex_t step_time; /* if there is one */
    regex_t loss;
    struct stp_job_runs runs;
    struct stp_job_run run;       /* the one under way */
    char plugin[STP_CLI_PATH];    /* that records */
    char folder[STP_CLI_PATH];    /* of outputs */
    char path[STP_CLI_PATH];      /* of runs.csv there */
    char temporary[STP_CLI_PATH]; /* of what is read and removed */
    int signal;                   /* that asked to stop; 0: none */
    const struct stp_world *world;
    char port[8];          /* MASTER_PORT of the run; "": as it is */
    struct stp_error lost; /* which process of the world is, or "" */
    bool has_told_steps;   /* that there are none */
    bool has_told_plugin;  /* that it was not loaded */
    bool has_told_stage;   /* that nothing was staged */
};

/* Runs the job once more, or this rank's process of it, and adds the run.
 * Complains and returns the exit status; STP_EXIT_OK after a signal, too,
 * without the run. */
int stp_compare_run(struct stp_compare_session *s, unsigned round,
                    unsigned place);
