/*
 * state.h - the state of a job, which its parts share, and its random numbers
 */
#ifndef MOCK_JOB_STATE_H
#define MOCK_JOB_STATE_H

#include <pthread.h>
#include <stdio.h>

#include "mock_job.h"
#include "mock_kernels.h"

enum {
    MOCK_JOB_SHAPES = 4,    /* step, warm-up, evaluation, changed */
    MOCK_JOB_LAUNCH_US = 10 /* between two launches of a rank */
};

/* One pass over a shape. */
struct mock_job_pass {
    uint64_t number; /* of all passes */
    int shape;
    double begin_us;
    struct mock_outcome *outcomes; /* of each rank's calls, rank by rank */
    struct mock_job_run *runs;
    double *late_us; /* of each rank's calls: by how much it waits less than
                        the first rank */
};

struct mock_job_rank {
    struct mock_job *job;
    int number;
    struct mock_comm *comm;
    struct mock_cuda_graph **graphs[MOCK_JOB_SHAPES]; /* of each call */
    double heard_us; /* the last that it heard of its kernels */
    pthread_t thread;
    ncclResult_t rc; /* of its last pass */
    char error[1024];
};

/* A kernel's begin or end, as a rank is told of it. */
struct mock_job_event {
    double us;    /* when */
    size_t place; /* (call * n_ranks + rank) * 2, and 1 more for the end */
};

struct mock_job {
    struct mock_nccl *nccl;
    const struct mock_machine *machine;
    struct mock_job_options options;
    struct mock_job_shape shapes[MOCK_JOB_SHAPES];
    size_t largest; /* calls of a shape */
    int n_ranks;
    struct mock_job_rank *ranks;
    FILE *rewards; /* or NULL */

    double now_us;
    size_t step;
    struct mock_job_pass passes[2]; /* the last two */
    struct mock_job_pass *pass;     /* that is being launched */
    struct mock_job_pass *heard_of; /* NULL, or whose kernels are told next */
    struct mock_job_event *events;  /* room for those of a pass */
    void **handles; /* and for the profiler's of each kernel's channels */

    int n_threads; /* that have been started */
    bool stopping;
    pthread_barrier_t begin; /* of the ranks' threads and the caller's */
    pthread_barrier_t end;
};

/* A random number in [0, 1) for this purpose, pass and place. */
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
    MOCK_JOB_HEARD_KIND,
    MOCK_JOB_HEARD_LATE,
};
double mock_job_random(const struct mock_job *job,
                       enum mock_job_purpose purpose, uint64_t pass,
                       uint64_t place);

/* Sets this thread's clocks. */
void mock_job_clock(double us);

#endif /* MOCK_JOB_STATE_H */
