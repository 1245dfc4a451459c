/*
 * state.h - the state of a job and its random numbers
 */
#ifndef MOCK_JOB_STATE_H
#define MOCK_JOB_STATE_H

#include <stdio.h>

#include "mock_job.h"
#include "mock_kernels.h"
#include "ranks/rank.h"

enum {
    MOCK_JOB_SHAPES = 4,    /* step, warm-up, evaluation, changed */
    MOCK_JOB_LAUNCH_US = 10 /* time between two launches of a rank */
};

/* One execution of a shape. */
struct mock_job_pass {
    uint64_t number; /* number among all passes */
    int shape;
    double begin_us;
    /* outcomes of all calls of rank 0, then of rank 1, ... */
    struct mock_outcome *outcomes;
    struct mock_job_run *runs;
    double *late_us; /* for each rank's calls: its lateness, the time by which
                        it waits less than the first rank */
};

struct mock_job_rank {
    struct mock_comm *comm;
    struct mock_cuda_graph **graphs[MOCK_JOB_SHAPES]; /* graph of each call */
    double last_event_us; /* time of the last kernel event that the profiler
                             received */
};

/* The begin or end of a kernel, as a rank's profiler receives it. */
struct mock_job_event {
    double us;    /* time of the event */
    size_t place; /* (call * n_ranks + rank) * 2, and 1 more for the end */
};

struct mock_job {
    struct mock_nccl *nccl;
    const struct mock_machine *machine;
    struct mock_job_options options;
    struct mock_job_shape shapes[MOCK_JOB_SHAPES];
    size_t largest; /* number of calls of the largest shape */
    int n_ranks;
    struct mock_job_rank *ranks;
    FILE *rewards; /* reward file, or NULL */

    double now_us;
    size_t step;
    struct mock_job_pass passes[2]; /* the last two passes */
    struct mock_job_pass *pass;     /* the pass that is being launched */
    /* the pass whose kernels are reported next, or NULL */
    struct mock_job_pass *reported;
    struct mock_job_event *events; /* room for the events of a pass */
    void **handles; /* room for the profiler's handles of a kernel's channels */

    struct mock_rank *threads; /* of the ranks; NULL: they run in turn, in the
                                  caller's thread */
};

/* The purpose of a random number. */
enum mock_job_purpose {
    MOCK_JOB_ROUND,
    MOCK_JOB_ITERATION,
    MOCK_JOB_COMPUTE,
    MOCK_JOB_JITTER,
    MOCK_JOB_ORDER,
    MOCK_JOB_LOST_EVENT,
    MOCK_JOB_LOST_CHANNEL,
    MOCK_JOB_GPU_OFFSET,
    MOCK_JOB_GPU_DRIFT,
    MOCK_JOB_DELAY_KIND,
    MOCK_JOB_DELAY,
};
double mock_job_random(const struct mock_job *job,
                       enum mock_job_purpose purpose, uint64_t pass,
                       uint64_t place);

/* Sets this thread's clocks. */
void mock_job_clock(double us);

/* Computes start and duration of each collective of the pass; *end_us_ret is
 * the end of the pass. */
ncclResult_t mock_job_time(const struct mock_job *job,
                           struct mock_job_pass *pass, double *end_us_ret);

/* Reports the kernels of a pass to the profilers of all ranks. */
void mock_job_report_kernels(struct mock_job *job,
                             const struct mock_job_pass *pass);

/* Start and stop the ranks' threads, and their communicators. */
ncclResult_t mock_job_start_ranks(struct mock_job *job);
void mock_job_stop_ranks(struct mock_job *job);

/* Launches job->pass on all ranks, and reports the kernels of job->reported to
 * their profilers. Fails if ranks choose differently. */
ncclResult_t mock_job_launch(struct mock_job *job);

#endif /* MOCK_JOB_STATE_H */
