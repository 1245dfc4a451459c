/* mock_job.h - a training job on all ranks of a communicator, in virtual time
 *
 * A job repeats a step: compute and collectives, one after the other on the
 * GPUs, with times of one recorded round for 50 successive steps. Each
 * rank's host launches them ahead of the GPUs, as far as CUDA's queue allows
 * (struct mock_job_host). A collective begins when the compute before it has
 * ended on all ranks, and takes the machine's recorded time for the algorithm,
 * protocol and channels that the ranks chose. If ranks choose differently, the
 * job fails. All clocks of a plugin return the job's virtual time
 * (mock_clock_set()): that of the host when NCCL asks the tuner, and that of a
 * kernel's event when NCCL tells the profiler.
 *
 * The same options and seed give the same noise with any tuner. */
#pragma once

#include "mock_ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mock_job; /* opaque */
struct mock_job_step;

struct mock_job_call {
    double compute_us; /* compute time before the call */
    struct mock_call call;
};

/* The collectives and the compute of a step. */
struct mock_job_shape {
    const struct mock_job_call *calls;
    size_t n;
    double tail_us; /* compute time after the last call */
};

/*
 * How the host launches. It issues CUDA launches one after the other, and is
 * ahead of the GPUs by those that have not ended. Each rank has a host; the
 * GPUs wait for the last. NCCL asks the tuner at the launch of the collective,
 * and the GPUs run it when the compute before it has ended: up to 'ahead'
 * launches later. The tail of a step is launched like the compute before a
 * call.
 */
struct mock_job_host {
    /* Launches that were issued and have not ended, at most: the host then
     * waits in the next launch until the oldest has ended. CUDA's limit is
     * 1024. 0: the host has no limit, and waits for the GPUs after each step.
     */
    size_t ahead;
    size_t launches;  /* launches of a collective and the compute before it;
                         0 means 1, which is both. At most 'ahead' */
    double launch_us; /* host time of a launch; 0 means 10 */
    double timed_us;  /* host time that a call takes longer for each of its
                         channels whose times the profiler requested */
    double noise;     /* variation of a call's host time between calls and
                         ranks: sigma as a share of it, log-normal with mean 1;
                         0: the ranks' launches have the same times */
};

/* A PyTorch job without CUDA graphs, as measured on 2 x H200. */
extern const struct mock_job_host mock_job_torch_host;

/*
 * How the times that a profiler receives differ from those of the kernels; 0
 * turns a difference off. The seed gives each rank a clock and noise of its
 * own. The job's timeline and struct mock_job_run hold the kernels' own times.
 */
struct mock_job_gpu_clocks {
    /* bound of a GPU clock's offset from the host's, in either direction; the
     * clock began as long before the job */
    double offset_us;
    double drift_ppm; /* bound of a GPU clock's drift against the host's, in
                         either direction, in parts per million */

    /* Delay between the begin or end of a kernel and the profiler's event: 1/3
     * to 5/4 of this value for most events, at least 1/12, occasionally up to
     * 25/3. The host's clock then shows the time of the event, and all ranks
     * receive events in that order, between the launches of that time. With 0
     * the profiler receives begin and end when the collective ends. */
    double heard_late_us;

    /* With the tree algorithm a rank's kernel ends when the rank has reduced
     * its part, long before the result is there. */
    bool tree_ends;

    /* Mean time between two pauses of a rank's thread that reports events,
     * in which another thread has its CPU: 0.05 to 0.5 ms, and 3 to 4 ms for 3
     * pauses of 10. The events of a pause come in a burst at its end. NCCL
     * keeps the times of the last 64 kernels: those of an older one are lost
     * then, and the profiler receives those of the kernel that replaced it. */
    double pause_every_us;
};

/* As measured on 4 x H200 with NCCL 2.28.9. */
extern const struct mock_job_gpu_clocks mock_job_h200_clocks;

struct mock_job_options {
    /* MOCK_ONE_THREAD, which repeats exactly, or MOCK_THREADS: the ranks run at
     * the same time, and another thread sends the profiler the events of
     * earlier steps while the ranks launch a step; no launch of a step waits
     * for another one of it. */
    enum mock_layout layout;
    uint64_t comm_id;
    uint64_t seed; /* seed of all noise, losses and orders */

    struct mock_job_shape step;
    /* shape of the first steps; none if n is 0 */
    struct mock_job_shape warm_up;
    size_t n_warm_up;
    struct mock_job_shape evaluation; /* shape of the n_evaluation steps that
                                         run before each step */
    size_t evaluation_every; /* whose number is a multiple of this; 0: no
                                evaluations */
    size_t n_evaluation;
    struct mock_job_host host;

    /* Each step is a CUDA graph, captured when its shape first runs, and
     * launched at once: NCCL asks the tuner at the capture only. A profiler
     * that requested channels' times then receives the launch of each
     * collective at each replay, when the GPU comes to it, as NCCL has CUDA
     * call back; else it receives nothing of replays. */
    bool captured;

    double compute_noise; /* variation of a step's compute between steps: sigma
                             as a share of it, log-normal with mean 1 */
    double jitter_us;     /* bound of the time by which each rank enters a
                             collective late, drawn per rank */
    double lost_events;   /* share of kernels whose events no rank's profiler
                             receives */
    double lost_channels; /* share of channels whose events the profiler does
                             not receive */

    struct mock_job_gpu_clocks gpu_clocks;

    /* NULL, or the file to which rank 0 appends a line per collective after
     * each step: collType,nBytes,nNodes,nRanks,latency_ms. */
    const char *reward_file;

    /* NULL, or a function that is called before each rank's init, in the rank's
     * thread; its changes to the environment hold for that init with
     * MOCK_ONE_THREAD. */
    void (*before_init)(void *user, int rank);

    /* NULL, or a function that is called after each step. */
    void (*done)(void *user, const struct mock_job_step *step);
    void *user;
};

/* A collective that ran. */
struct mock_job_run {
    const struct mock_call *call;
    struct mock_run run;
    double us; /* duration on the GPU after the last rank has entered it */
    double start_us;    /* start, since the job began */
    double launched_us; /* time of its launch on the last rank, when NCCL asked
                           the tuner unless a graph replays it */
};

struct mock_job_step {
    size_t step; /* number of the step, from 0; evaluations are not counted, see
                    below */
    bool is_evaluation; /* the evaluation ran before 'step' */
    double us;
    const struct mock_job_run *runs;
    size_t n;
};

/*
 * Starts a job: creates all ranks' communicators, concurrently if the ranks are
 * threads. 'nccl', 'machine' and everything that the options point to must
 * outlive the job. Returns the errors of mock_comm_create(), and
 * ncclSystemError if the reward file cannot be opened; *job_ret is then
 * untouched. The job alone sets this thread's clocks until mock_job_destroy().
 */
ncclResult_t mock_job_create(struct mock_nccl *nccl,
                             const struct mock_machine *machine,
                             const struct mock_job_options *options,
                             struct mock_job **job_ret);

/* Runs the next n_steps steps; evaluations are not counted. After a failure the
 * job can only be destroyed. */
ncclResult_t mock_job_play(struct mock_job *job, size_t n_steps);

/* Finalizes the ranks in NCCL's order, and restores this thread's clocks. */
void mock_job_destroy(struct mock_job *job);

#ifdef __cplusplus
}
#endif
