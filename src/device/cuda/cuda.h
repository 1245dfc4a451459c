/* cuda.h - GPUs as engines: shared by the parts of the CUDA module
 *
 * A rank is a GPU, and a thread's; those of a process share struct stp_cuda.
 * Work is launched where it is noted.  A thread that measures may have several
 * ranks; then the calls of a rank that are within a timed region leave the
 * thread's current GPU as it is. */
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "device/cuda/cuda_trace.h"
#include "device/cuda/nccl_api.h"
#include "device/engine.h"
#include "device/module.h"
#include "launch/thread_pool.h"

struct stp_cuda_lt; /* GEMMs, cuda_lt.h */

enum {
    STP_CUDA_N_MEMORIES = 2, /* to send and to receive */
    STP_CUDA_SETUPS = 16,
    STP_CUDA_STAGED = 64, /* staged calls of a group; more run plainly */
};

struct stp_cuda_room {
    void *at;
    uint64_t nbytes;
    int type; /* of the numbers in it */
};

/* A rank of a communicator of another setup, which knows the memory. */
struct stp_cuda_setup {
    struct stp_setup setup;
    ncclComm_t comm;
    void *handles[STP_CUDA_N_MEMORIES]; /* of a window, or of a registration */
};

/* A copy within a GPU. */
struct stp_cuda_copy {
    char *to;
    const char *from;
    uint64_t n_bytes;
    unsigned stream;
};

/* Staged calls whose results are yet to be copied out: those of the open group,
 * whose kernels start at its end. */
struct stp_cuda_staging {
    bool in_group;
    struct stp_cuda_copy due[STP_CUDA_STAGED];
    unsigned n_due;
    uint64_t n_bytes;             /* of each window that are in use */
    void *records[STP_N_STREAMS]; /* NCCL's last ones of a capture, or NULL */
};

/* One GPU, and its rank of the communicator. */
struct stp_cuda_rank {
    struct stp_cuda *cuda;
    int gpu;
    unsigned rank;   /* of all */
    unsigned number; /* among those of this process */
    cudaStream_t stream[STP_N_STREAMS];
    ncclComm_t comm;
    ncclComm_t parts[STP_MAX_SPLITS]; /* of its group in each split */
    unsigned n_parts;
    struct stp_cuda_lt *lt; /* NULL until it is needed */
    cudaEvent_t *events;
    cudaEvent_t *joins; /* in graphs, of events that a stream waits for */
    unsigned *recorded; /* in which run, from 1 */
    unsigned n_events;
    unsigned run; /* synchronise() so far, and 1 */

    /* ---- measuring ---- */
    uint64_t free_bytes; /* next to the buffers, when it was opened */
    struct stp_cuda_room rooms[STP_N_STREAMS][STP_N_ROOMS];
    char captured[STP_KERNEL_NAME]; /* what the last graph runs */
    struct stp_found *found;        /* on the GPU */
    cudaGraphExec_t graph;
    bool captures;

    /* ---- setups ---- */
    struct stp_cuda_room memories[STP_CUDA_N_MEMORIES]; /* ncclMemAlloc()ed: for
                                      measuring when a setup needs them, as
                                      large as rooms, or given by alloc() */
    struct stp_cuda_setup setups[STP_CUDA_SETUPS];
    unsigned n_setups;
    struct stp_cuda_staging staging;

    /* ---- training ---- */
    void *scratch[STP_N_STREAMS]; /* of sums of columns */
    void **memory;                /* given by alloc() */
    size_t n_memory;
    uint64_t taken;       /* bytes of it */
    enum stp_status said; /* to the meeting, and why */
    struct stp_error why;
    atomic_bool aborted; /* its communicator is gone */
    struct stp_cuda_trace trace;
};

enum {
    STP_CUDA_SCRATCH = 8 << 20, /* bytes */
    STP_CUDA_EVENTS = 512,      /* to begin with */
};

/* Where a rank runs. */
struct stp_cuda_place {
    char host[64];  /* what tells NCCL one host from another, not its name */
    char gpu[16];   /* its UUID, the same whatever a process sees of GPUs */
    char line[256]; /* as nccl-tests print it */
};

/* The ranks of this process. */
struct stp_cuda {
    const struct stp_world *world;
    struct stp_nccl_api nccl;
    struct stp_thread_pool *pool; /* opens and closes ranks */
    struct stp_cuda_rank *ranks;
    unsigned n_local;
    unsigned n_gpus; /* ranks of a thread */
    unsigned n_ranks;
    unsigned n_present; /* GPUs that this process sees */
    unsigned n_sharing; /* ranks of a GPU, at most: to divide its memory */
    uint64_t max_bytes;
    bool measures;
    bool has_plugin;
    unsigned time_limit_s; /* for one synchronise(), if training */
    ncclUniqueId id;
    struct stp_device_info info;   /* but for the rank */
    struct stp_cuda_place *places; /* of all ranks */
    struct stp_arm arm;
    unsigned setup; /* of it, in every rank's setups[]; n_setups: none */

    atomic_bool is_abandoned; /* a thread that measures failed */
    atomic_bool failed;       /* one that trains, for good */
    pthread_mutex_t lock;     /* of the members below */
    pthread_cond_t changed;
    unsigned n_open;
    unsigned n_came; /* to the meeting */
    unsigned n_met;  /* meetings so far */
    enum stp_status agreed;
};

/* Takes a step of CUDA, cuBLASLt or NCCL, unless one failed before. */
#define STP_CUDA_THEN(result, step)                                            \
    do {                                                                       \
        if ((result) == 0)                                                     \
            (result) = (step);                                                 \
    } while (0)

/* ---- cuda_call.c ---- */

/* STP_OK, or which call failed on which GPU and why. */
enum stp_status stp_cuda_result(const struct stp_cuda_rank *rank,
                                cudaError_t result, const char *call,
                                struct stp_error *err);
enum stp_status stp_cuda_nccl_result(const struct stp_cuda_rank *rank,
                                     int result, const char *call,
                                     struct stp_error *err);

/* Calls NCCL for one rank, with 'comm' unless a split runs the collective. */
enum stp_status stp_cuda_collective(const struct stp_cuda_rank *rank,
                                    unsigned stream,
                                    const struct stp_transfer *transfer,
                                    ncclComm_t comm, struct stp_error *err);

/* Makes events so that there is one of this number. */
enum stp_status stp_cuda_events(struct stp_cuda_rank *rank, unsigned number,
                                struct stp_error *err);

/* ---- cuda_job.c: ranks together ---- */

/* STP_ERR_STOPPED if a rank of this process failed. */
enum stp_status stp_cuda_job_alive(struct stp_cuda_rank *rank,
                                   struct stp_error *err);

/* As stp_engine_ops.agree. */
enum stp_status stp_cuda_job_agree(void *self, enum stp_status status,
                                   struct stp_error *err);

/* A training rank has failed: other ranks are told, in this process by this and
 * in others by NCCL, and nothing waits for them any more.  A rank that does not
 * notice within seconds, as when it is stuck in a launch, has its communicator
 * taken away.  Returns 'status'. */
enum stp_status stp_cuda_job_fail(struct stp_cuda_rank *rank,
                                  enum stp_status status);

/* Waits for both streams of a rank.  A failure is the process's. */
enum stp_status stp_cuda_wait(struct stp_cuda_rank *rank,
                              struct stp_error *err);

/* ---- cuda_setup.c ---- */

/* Makes the communicators of a setup on all ranks of all processes, unless they
 * are there, and '*number_ret' their place in setups[].  STP_ERR_RANGE for what
 * this NCCL lacks. */
enum stp_status stp_cuda_setup(struct stp_cuda *d,
                               const struct stp_setup *setup,
                               unsigned *number_ret, struct stp_error *err);

/* As struct stp_device_info has them. */
unsigned stp_cuda_find_setups(const struct stp_cuda *d);

/* Where measured collectives send from (0) or receive (1) in the setup of the
 * arm; NULL: in the rank's room. */
void *stp_cuda_setup_memory(const struct stp_cuda_rank *rank, unsigned number);

/* The communicator of the arm. */
ncclComm_t stp_cuda_setup_comm(const struct stp_cuda_rank *rank);

/* Ends all setups and frees their memory, and before them the last graph, for
 * which NCCL waits where one of them is in it.  All ranks call it. */
void stp_cuda_setup_close(struct stp_cuda_rank *rank);

/* Whether the arm stages: its collectives are stp_cuda_stage_call()s. */
bool stp_cuda_setup_stages(const struct stp_cuda_rank *rank);

/* Copies the input into a window, runs the collective there, and copies the
 * result out: at once, or within a group at stp_cuda_stage_end().  A collective
 * without symmetric kernels, or for which there is no place, runs plainly. */
enum stp_status stp_cuda_stage_call(struct stp_cuda_rank *rank, unsigned stream,
                                    const struct stp_transfer *transfer,
                                    struct stp_error *err);
enum stp_status stp_cuda_stage_end(struct stp_cuda_rank *rank,
                                   struct stp_error *err);

/* ---- cuda_graph.c ---- */

/* Names the kernel in NCCL's graph of a collective, as
 * stp_device_run.kernel. */
void stp_cuda_graph_kernel(cudaGraph_t graph, char kernel[STP_KERNEL_NAME]);

/* Sets the event record '*last' aside, behind a call of NCCL that is captured
 * on its stream, as the staging library does (stage/order.h): the call's own
 * record, '*last' from now on, follows it, and its kernel does not.  NULL: the
 * capture begins, or its last record is not known. */
void stp_cuda_graph_ease(cudaStream_t stream, void **last);

/* ---- cuda_rank.c, cuda_open.c ---- */

extern const struct stp_engine_ops stp_cuda_ops;

/* Ends a process's ranks when the last is closed, unless one failed: ranks that
 * hang then go with the process. */
void stp_cuda_close(void *self);
