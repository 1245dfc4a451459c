/*
 * cuda.h - what the parts of the CUDA device share
 */
#ifndef STP_CUDA_H
#define STP_CUDA_H

#include <cuda_runtime_api.h>

#include "device/cuda/nccl_api.h"
#include "device/module.h"
#include "device/program.h"
#include "launch/crew.h"

struct stp_cuda_gemm; /* cuBLAS and the matrices of a rank */

/* The two vectors of a stream's elementwise kernels, on the GPU. */
struct stp_cuda_vectors {
    float *x;
    float *y;
    uint64_t n_bytes; /* of each */
};

/* One GPU, and its rank of the communicator.  One thread of the crew has it. */
struct stp_cuda_rank {
    int gpu;
    unsigned rank;
    cudaStream_t stream[STP_N_STREAMS];
    stp_nccl_comm comm;
    char *send; /* max_bytes each */
    char *recv;
    uint64_t free_bytes;         /* beside those, when it was opened */
    float *meeting;              /* a small all-reduce lets ranks meet */
    unsigned long long *n_wrong; /* on the GPU */
    cudaEvent_t *event;          /* of records */
    cudaEvent_t *join;           /* of records that a stream waits for */
    unsigned n_events;
    cudaGraphExec_t graph;
    struct stp_cuda_gemm *gemm;
    struct stp_cuda_vectors vectors[STP_N_STREAMS];
};

enum { STP_RANK_LINE = 256 };

struct stp_cuda {
    const struct stp_world *world;
    struct stp_nccl_api nccl;
    struct stp_crew *crew;
    struct stp_cuda_rank *ranks; /* of this process */
    unsigned n_local;
    unsigned n_gpus; /* ranks of a thread */
    unsigned n_ranks;
    uint64_t max_bytes;
    bool graph;
    unsigned time_limit_s;
    struct stp_nccl_id id;
    struct stp_device_info info;
    char (*rank_lines)[STP_RANK_LINE]; /* of all ranks */
    struct stp_arm arm;

    struct stp_program program;
    /* Of the last run: n_times of each rank, the times of its events and then
     * that of the host's clock. */
    double *local_us; /* ranks here */
    double *all_us;   /* all ranks */
    unsigned n_times;
};

/* Finds the GPUs of this process and connects all ranks.  On failure what is
 * in *d is for the device's close(). */
enum stp_status stp_cuda_set_up(struct stp_cuda *d,
                                const struct stp_device_options *options,
                                struct stp_error *err);

/* Ends it; what hangs in NCCL after a failure is left to the process's end. */
void stp_cuda_close(struct stp_cuda *d);

/* What one job of the crew is about. */
struct stp_cuda_run {
    struct stp_cuda *cuda;
    const struct stp_program *program;
    bool use_graph;
    bool replay; /* the graph is there already */
};

/* Runs the notes on all ranks, and gathers the times of their events. */
enum stp_status stp_cuda_run(struct stp_cuda *d,
                             const struct stp_program *program, bool use_graph,
                             bool replay, struct stp_error *err);

/* Where a rank's data of a collective lies: of the 'k'-th in a row elsewhere
 * than of the one before, as far as the buffers go, so that it is not in the
 * GPU's cache any more. */
struct stp_cuda_place {
    char *send;
    char *recv;
    uint64_t n_send; /* elements */
    uint64_t n_recv;
};
void stp_cuda_place(const struct stp_cuda *d, const struct stp_cuda_rank *rank,
                    const struct stp_collective *what, unsigned k,
                    struct stp_cuda_place *place_ret);

/* Calls NCCL for one rank. */
enum stp_status stp_cuda_collective(const struct stp_cuda *d,
                                    const struct stp_cuda_rank *rank,
                                    unsigned stream,
                                    const struct stp_collective *what,
                                    unsigned k, struct stp_error *err);

/* Waits for both streams of a rank; fails if NCCL or another thread does. */
enum stp_status stp_cuda_wait(const struct stp_cuda *d,
                              const struct stp_cuda_rank *rank,
                              struct stp_error *err);

enum stp_status stp_cuda_check(struct stp_cuda *d,
                               const struct stp_collective *what, uint64_t seed,
                               uint64_t *n_wrong_ret, struct stp_error *err);

/* STP_ERR_RANGE for a type that cuBLAS is not asked to multiply. */
enum stp_status stp_cuda_gemm_check(const struct stp_gemm *gemm,
                                    struct stp_error *err);

/* Opens cuBLAS and makes room for the matrices, if that is not done. */
enum stp_status stp_cuda_gemm_prepare(struct stp_cuda_rank *rank,
                                      const struct stp_gemm *gemm,
                                      struct stp_error *err);
enum stp_status stp_cuda_gemm_run(const struct stp_cuda_rank *rank,
                                  unsigned stream, const struct stp_gemm *gemm,
                                  struct stp_error *err);
void stp_cuda_gemm_free(struct stp_cuda_gemm *gemm);

/* STP_ERR_RANGE for vectors that do not fit beside what is on the GPUs of this
 * process. */
enum stp_status stp_cuda_vectors_check(const struct stp_cuda *d,
                                       uint64_t n_bytes, struct stp_error *err);

/* Makes room for the vectors of a stream, if there is not enough. */
enum stp_status stp_cuda_vectors_prepare(struct stp_cuda_rank *rank,
                                         unsigned stream, uint64_t n_bytes,
                                         struct stp_error *err);
enum stp_status stp_cuda_vectors_run(const struct stp_cuda_rank *rank,
                                     unsigned stream, uint64_t n_bytes,
                                     struct stp_error *err);
void stp_cuda_vectors_free(struct stp_cuda_vectors *vectors);

/* STP_OK, or which call failed on which GPU and why. */
enum stp_status stp_cuda_result(const struct stp_cuda_rank *rank,
                                cudaError_t result, const char *call,
                                struct stp_error *err);
enum stp_status stp_cuda_nccl_result(const struct stp_cuda *d,
                                     const struct stp_cuda_rank *rank,
                                     int result, const char *call,
                                     struct stp_error *err);

#endif /* STP_CUDA_H */
