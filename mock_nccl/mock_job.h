/*
 * mock_job.h - a training job on all ranks of a communicator, in virtual time
 *
 * A job repeats a step: compute and collectives on a timeline of the GPUs.
 * Each rank launches its collectives ahead of the GPUs, 10 us apart, and waits
 * for them at the end of the step.  A collective begins when the compute before
 * it is done on all ranks, and takes what the machine was recorded with for
 * what the ranks chose; if they do not choose alike, the job fails.  Plugins
 * see the job's time on all clocks (mock_clock_set()).
 *
 * The same options and seed give the same noise, whatever the tuner does.
 */
#ifndef MOCK_JOB_H
#define MOCK_JOB_H

#include "mock_ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mock_job; /* opaque */
struct mock_job_step;

struct mock_job_call {
    double compute_us; /* before it */
    struct mock_call call;
};

/* What a step consists of. */
struct mock_job_shape {
    const struct mock_job_call *calls;
    size_t n;
    double tail_us; /* compute after the last */
};

/*
 * What stands between a kernel's times and those that a profiler is told, each
 * off if 0.  A rank's clock and noise are its own, and the seed's.  The job's
 * timeline and struct mock_job_run do not know of it.
 */
struct mock_job_gpu_clocks {
    double offset_us; /* GPUs' clocks are off by less than this, either way,
                         from one that began as long before the job */
    double drift_ppm; /* and go faster or slower than the host's by less than
                         this, in parts per million */

    /* By which the host hears later of a kernel's begin and end: of most within
     * 1/3 to 5/4 of it, of all after 1/12, and now and then after up to 25/3.
     * The host's clock is then the time when it hears, and what all ranks hear
     * of a step comes in that order; with 0 begin and end are heard when the
     * collective ends.  The next step can have been launched earlier than the
     * last of it is heard. */
    double heard_late_us;

    /* A rank's kernel ends in the tree algorithm when it has reduced its part,
     * long before the result is there. */
    bool tree_ends;
};

/* As measured on 4 x H200 with NCCL 2.28.9. */
extern const struct mock_job_gpu_clocks mock_job_h200_clocks;

struct mock_job_options {
    /* MOCK_ONE_THREAD, which repeats exactly, or MOCK_THREADS: the ranks run
     * at once, and the profiler hears of a step's kernels from yet another
     * thread while they launch the next one. */
    enum mock_layout layout;
    uint64_t comm_id;
    uint64_t seed; /* of all noise, losses and orders */

    struct mock_job_shape step;
    struct mock_job_shape warm_up; /* of the first steps; n 0: none */
    size_t n_warm_up;
    struct mock_job_shape evaluation; /* n_evaluation steps before each step */
    size_t evaluation_every;          /* that can be divided by this; 0: none */
    size_t n_evaluation;
    struct mock_job_shape changed; /* from this step on; 0: never */
    size_t changed_from;

    bool overlapped; /* collectives run beside the compute that follows them,
                        and launching takes no time; else after one another */
    bool captured;   /* each collective is captured into a CUDA graph when its
                        shape first comes up, and replayed from then on */

    double compute_noise; /* of a step's compute, from step to step: sigma as a
                             share of it, log-normal with mean 1 */
    double jitter_us;     /* by which ranks come late to a collective, each on
                             its own: at most this */
    size_t round_steps;   /* successive steps with the times of one recorded
                             round; 0 means 50 */

    /* From a step on, what runs with an algorithm and protocol takes 'factor'
     * times as long; 0: never. */
    struct {
        size_t from;
        int algo;
        int proto;
        double factor;
    } drift;

    double lost_events;   /* share of kernels no rank's profiler hears of */
    double lost_channels; /* share of channels the profiler does not hear of */

    struct mock_job_gpu_clocks gpu_clocks;

    /* NULL, or: where rank 0 appends a line for each collective after each
     * step: collType,nBytes,nNodes,nRanks,latency_ms. */
    const char *reward_file;

    /* NULL, or: changes what the ranks' choice came to before it is timed. */
    void (*replace)(void *user, const struct mock_call *call,
                    struct mock_run *run);

    /* NULL, or: told of each step. */
    void (*done)(void *user, const struct mock_job_step *step);
    void *user;
};

/* A collective that ran. */
struct mock_job_run {
    const struct mock_call *call;
    struct mock_run run;
    double us;       /* on the GPU, once all ranks are there */
    double start_us; /* since the job began */
    enum mock_time_source source;
};

struct mock_job_step {
    size_t step; /* from 0 on; those of evaluations have none, see below */
    bool is_evaluation; /* it came before 'step' */
    double us;
    const struct mock_job_run *runs;
    size_t n;
};

/*
 * Starts a job: creates all ranks' communicators, at once if they are threads.
 * 'nccl', 'machine' and all that the options point to must outlive it.  Errors
 * as mock_comm_create(), and ncclSystemError if the reward file cannot be
 * opened; *job_ret is untouched then.  Only the job tells this thread's clocks
 * until mock_job_destroy().
 */
ncclResult_t mock_job_create(struct mock_nccl *nccl,
                             const struct mock_machine *machine,
                             const struct mock_job_options *options,
                             struct mock_job **job_ret);

/* Plays the next steps, evaluations not counted.  After a failure the job can
 * only be destroyed. */
ncclResult_t mock_job_play(struct mock_job *job, size_t n_steps);

/* Virtual time since the job began. */
double mock_job_us(const struct mock_job *job);

/* Finalizes in NCCL's order, and gives the clocks back. */
void mock_job_destroy(struct mock_job *job);

#ifdef __cplusplus
}
#endif
#endif /* MOCK_JOB_H */
