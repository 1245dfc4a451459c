/* state.h - the state of a job and its random numbers */
#pragma once

#include <stdio.h>

#include "support/job/mock_job.h"
#include "mock_kernels.h"
#include "ranks/rank.h"

enum {
    MOCK_JOB_SHAPES = 3,    /* step, warm-up, evaluation */
    MOCK_JOB_LAUNCH_US = 10 /* host time of a launch by default */
};

/* The launches of a call and the compute before it, or of the tail. */
struct mock_job_group {
    uint64_t first; /* number among all launches of the job */
    size_t n;       /* 0: a graph's launch includes them */
};

/* One execution of a shape. */
struct mock_job_pass {
    uint64_t number; /* number among all passes */
    int shape;
    double begin_us;
    double factor;                 /* of the pass's compute */
    struct mock_job_group *groups; /* of each call, and of the tail */
    double *issued_us;             /* times of a group's launches */
    double *asked_us; /* times of a call's last launch on each rank */
    /* outcomes of all calls of rank 0, then of rank 1, ... */
    struct mock_outcome *outcomes;
    struct mock_job_run *runs;
    double *late_us; /* for each rank's calls: its lateness, the time by which
                        it waits less than the first rank */
};

/* A kernel on a rank, until the profiler has received all its events. */
struct mock_job_kernel {
    struct mock_outcome outcome;
    struct mock_cuda_graph *graph; /* the graph that launches it, or NULL */
    uint64_t number;               /* number among all kernels of the job */
    uint64_t pass;
    size_t place;       /* call * n_ranks + rank, in the pass */
    double gpu_us[2];   /* begin and end, when the host's clock shows this */
    double event_us[3]; /* launch by a graph, begin, end */
    int stage;          /* the next event */
    void *handles[MOCK_MAX_CHANNELS]; /* the profiler's */
};

struct mock_job_rank {
    struct mock_comm *comm;
    double host_us; /* the host's last launch has returned */
    struct mock_cuda_graph **graphs[MOCK_JOB_SHAPES]; /* graph of each call */

    /* a ring of kernels with events to come, oldest first */
    struct mock_job_kernel *kernels;
    size_t oldest;
    size_t n_kernels;
    size_t room; /* 0 or a power of 2 */

    double last_event_us; /* time of the last event that was planned */
    uint64_t n_pauses;    /* pauses of the thread that reports, until now */
    double pause_us[2];   /* begin and end of the next */
};

/* Rewards of a pass, which the application writes when the GPUs are through. */
struct mock_job_rewards {
    struct mock_job_rewards *next;
    double us;
    char *text;
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
    struct mock_job_rewards *first_reward, *last_reward;

    double gpu_us; /* the GPUs have done all launches */
    uint64_t n_issued;
    double *ended_us;   /* ends of the last 'ahead' launches, by number */
    uint64_t n_kernels; /* of the job */

    size_t step;
    uint64_t n_passes;
    struct mock_job_pass pass; /* the pass that is being launched */

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
    MOCK_JOB_PAUSE_KIND,
    MOCK_JOB_PAUSE,
    MOCK_JOB_PAUSE_GAP,
    MOCK_JOB_HOST,
};
double mock_job_random(const struct mock_job *job,
                       enum mock_job_purpose purpose, uint64_t pass,
                       uint64_t place);

/* Log-normal with mean 1; 'sigma' of its logarithm. */
double mock_job_draw_factor(const struct mock_job *job,
                            enum mock_job_purpose purpose, double sigma,
                            uint64_t pass, uint64_t place);

/* Sets this thread's clocks. */
void mock_job_clock(double us);

/* ---- the host (job_host.c) ---- */

/* The launches of a call and the compute before it; 'ahead' is at least as
 * many. */
size_t mock_job_count_launches(const struct mock_job_host *host);

/* Issues the launches of call 'i' of the pass, or of the tail behind the last
 * call. The ends of all launches but the last 'ahead' must be known. */
void mock_job_issue(struct mock_job *job, size_t i);

/* The host is through with call 'i' of the pass, whose outcome is known. */
void mock_job_end_call(struct mock_job *job, size_t i);

/* The time at which a rank's host launches call 'i'; that of the rank that is
 * first after its last launch. */
double mock_job_asked_us(const struct mock_job *job, size_t i, int r);
double mock_job_first_us(const struct mock_job *job);

/* The times of launch 'k' and of the last launch of a group, on all ranks. */
double mock_job_issued_us(const struct mock_job *job, size_t i, size_t k);
double mock_job_launched_us(const struct mock_job *job, size_t i);

/* Notes the end of launch 'k' of a group on the GPUs. */
void mock_job_end_launch(struct mock_job *job, size_t i, size_t k, double us);

/* The hosts wait for the GPUs. */
void mock_job_wait(struct mock_job *job);

/* ---- the GPUs (job_time.c) ---- */

/* The GPUs' timeline of a pass: its begin, call by call start and duration of
 * the collective, and its end. The call's launches must be issued, and the
 * outcomes known. */
void mock_job_begin_time(struct mock_job *job);
ncclResult_t mock_job_time(struct mock_job *job, size_t i);
void mock_job_end_time(struct mock_job *job);

/* ---- events (job_kernels.c) ---- */

/* Plans the events of call 'i' of the pass on all ranks. */
ncclResult_t mock_job_plan_kernels(struct mock_job *job, size_t i);

/* Report the events until that time to the profilers of all ranks, in their
 * order, and to that of a rank. */
void mock_job_report_kernels(struct mock_job *job, double until_us);
void mock_job_report_rank(struct mock_job *job, int r, double until_us);

/* ---- ranks (job_ranks.c) ---- */

/* Start and stop the ranks' threads, and their communicators. */
ncclResult_t mock_job_start_ranks(struct mock_job *job);
void mock_job_stop_ranks(struct mock_job *job);

/* Issues and launches the pass on all ranks, plans its events, and reports
 * those of the time. Fails if ranks choose differently. */
ncclResult_t mock_job_launch(struct mock_job *job);
