/* device_ranks.h - the ranks of a device, within device*.c */
#pragma once

#include "device/engine.h"
#include "launch/thread_pool.h"

/* A rank of this process, used by one thread. */
struct rank {
    struct stp_engine engine;
    unsigned rank; /* of all */
    void *room[STP_N_STREAMS][STP_N_ROOMS];
    struct stp_found found; /* by the last check */
};

struct stp_ranks {
    const struct stp_world *world;
    uint64_t max_bytes;           /* of a collective */
    bool graph;                   /* noted work runs as a graph */
    unsigned time_limit_s;        /* for one run; 0: none */
    struct stp_device_info info;  /* of the first rank here */
    struct stp_thread_pool *pool; /* NULL: the caller's thread alone */
    unsigned n_local;
    unsigned n_per_thread;
    unsigned n_all; /* engines of all processes */
    struct stp_program program;
    struct stp_splits splits;
    enum stp_arm_kind arm; /* that is selected */
    /* The times of the last run: n_times of each engine, first its events' and
     * then that of the host's clock. */
    double *local_us;
    double *all_us; /* in the same memory */
    unsigned n_times;
    struct rank local[]; /* of this process */
};

#define RANK_DO(rank, op, ...)                                                 \
    ((rank)->engine.ops->op((rank)->engine.self, __VA_ARGS__))

/* The part of a rank in the k-th collective in a row. */
struct stp_transfer stp_ranks_place(const struct stp_ranks *d,
                                    const struct rank *r, unsigned stream,
                                    const struct stp_collective *c, unsigned k);

/* Has every thread do the job on its ranks. */
enum stp_status stp_ranks_do(struct stp_ranks *d, stp_thread_pool_job job,
                             void *user, struct stp_error *err);

/* Runs one collective alone, between events 0 and 1; 'captures': and then
 * captures it. */
enum stp_status stp_ranks_run_one(struct stp_ranks *d,
                                  const struct stp_collective *collective,
                                  bool captures, struct stp_error *err);

/* Whether all ranks of this process can run it. */
enum stp_status stp_ranks_check_work(struct stp_ranks *d,
                                     const struct stp_work *work,
                                     struct stp_error *err);
