/*
 * engine_cuda.h - GPUs as engines: of the CUDA module, and its parts
 *
 * A rank is a GPU, and a thread's; those of a process share a job.  What is
 * asked for is launched at once.  Nothing is allocated in a step but what a
 * first one needs: events, and plans of matrix products.
 */
#ifndef STP_ENGINE_CUDA_H
#define STP_ENGINE_CUDA_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_lt.h"
#include "device/cuda/cuda_trace.h"
#include "device/engine.h"

struct stp_cuda_engine;

/* The ranks of this process. */
struct stp_cuda_job {
    struct stp_cuda *device; /* GPUs, streams, communicators */
    struct stp_cuda_engine *engines;
    unsigned n;
    unsigned time_limit_s;
    bool has_plugin;
    struct stp_engine_info info; /* but for the rank */

    atomic_bool failed;   /* for good */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    unsigned n_open;
    unsigned n_came; /* to the meeting */
    unsigned n_met;  /* meetings so far */
    enum stp_status agreed;
};

struct stp_cuda_engine {
    struct stp_cuda_job *job;
    struct stp_cuda_rank *rank; /* of the device */
    unsigned number;            /* among those of this process */
    struct stp_cuda_lt *lt;
    void *scratch[STP_N_STREAMS]; /* of sums of columns */
    cudaEvent_t *events;
    unsigned *recorded; /* in which run, from 1 */
    unsigned n_events;
    unsigned run;  /* synchronise() so far, and 1 */
    void **memory; /* what alloc() gave */
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

/* As stp_module.open_engines. */
enum stp_status stp_engine_cuda_open(const struct stp_engine_options *options,
                                     struct stp_engine *engines_ret,
                                     struct stp_error *err);

extern const struct stp_engine_ops stp_engine_cuda_ops;

/* ---- ranks together ---- */

/* STP_ERR_STOPPED if the job failed. */
enum stp_status stp_cuda_job_alive(struct stp_cuda_engine *e,
                                   struct stp_error *err);

/* As stp_engine_ops.agree. */
enum stp_status stp_cuda_job_agree(struct stp_cuda_engine *e,
                                   enum stp_status status,
                                   struct stp_error *err);

/*
 * The job has failed: other ranks are told, in this process by this and in
 * others by NCCL, and nothing waits for them any more.  A rank that does not
 * notice within seconds, as one that is stuck in a launch, has its communicator
 * taken away.  Returns 'status'.
 */
enum stp_status stp_cuda_job_fail(struct stp_cuda_engine *e,
                                  enum stp_status status);

/* Waits for both streams of a rank.  A failure is the job's. */
enum stp_status stp_cuda_engine_wait(struct stp_cuda_engine *e,
                                     struct stp_error *err);

/* Calls NCCL. */
enum stp_status stp_cuda_engine_collective(const struct stp_cuda_engine *e,
                                           unsigned stream,
                                           const struct stp_transfer *transfer,
                                           struct stp_error *err);

/* Makes events so that there is one of this number. */
enum stp_status stp_cuda_engine_events(struct stp_cuda_engine *e,
                                       unsigned number, struct stp_error *err);

/* As stp_engine_ops has them. */
enum stp_status stp_cuda_engine_trace_begin(void *self, struct stp_error *err);
enum stp_status stp_cuda_engine_trace_end(void *self, struct stp_spans *spans,
                                          struct stp_error *err);
void stp_cuda_engine_range(void *self, const char *name);

/* Of the last engine of a job: ends it, unless it failed: what hangs then goes
 * with the process. */
void stp_cuda_engine_close(struct stp_cuda_engine *e);

#endif /* STP_ENGINE_CUDA_H */
