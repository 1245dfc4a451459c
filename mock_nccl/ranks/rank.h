/*
 * rank.h - one rank, told what to do wherever it lives
 */
#ifndef MOCK_RANK_H
#define MOCK_RANK_H

#include <stdbool.h>

#include "mock_ranks.h"

/* A rank's communicators have numbers, the same on all ranks. */
struct mock_order {
    enum {
        MOCK_CREATE,
        MOCK_SPLIT,
        MOCK_SHRINK,
        MOCK_STEP,
        MOCK_DESTROY,
    } task;
    int comm;   /* that it is about */
    int parent; /* of a child */
    int color;
    uint64_t comm_id;
    const struct mock_machine *machine; /* to create on */
    void (*before)(void *user, int rank);
    void (*before_step)(void *user, int rank, size_t step);
    void *user;
    size_t step;
    const struct mock_call *calls;
    size_t n_calls;
};

struct mock_rank {
    int number;
    struct mock_nccl *nccl;
    struct mock_comm **comms; /* by number; NULL where it is in none */
    int n_comms;
    bool dead;                    /* plays no more */
    struct mock_carrier *carrier; /* NULL: in the caller's thread */
};

/* Carries an order out, in the calling thread.  'outcomes' has room for
 * n_calls. */
ncclResult_t mock_rank_execute(struct mock_rank *rank,
                               const struct mock_order *order,
                               struct mock_outcome *outcomes);

/* ---- ranks elsewhere ---- */

struct mock_carrier_ops {
    /* Hands an order over; it and its outcomes must stay until wait(). */
    ncclResult_t (*post)(struct mock_rank *rank, const struct mock_order *order,
                         struct mock_outcome *outcomes);
    /* Waits until it has been carried out; the error is then this thread's. */
    ncclResult_t (*wait)(struct mock_rank *rank);
    /* Ends it at once, as far as it can be. */
    void (*kill)(struct mock_rank *rank);
    /* Ends it when it has nothing to do, and frees rank->carrier. */
    void (*stop)(struct mock_rank *rank);
};

struct mock_carrier {
    const struct mock_carrier_ops *ops;
};

/* Each sets rank->carrier.  'others' are the ranks that have been started
 * before. */
ncclResult_t mock_thread_start(struct mock_rank *rank);
ncclResult_t mock_process_start(struct mock_rank *rank,
                                const struct mock_rank *others);

#endif /* MOCK_RANK_H */
