/* rank.h - the ranks of a communicator, which execute orders in their threads
 * or processes */
#pragma once

#include <stdbool.h>

#include "mock_ranks.h"

/* An order for a rank. Communicators have numbers, the same on all ranks. */
struct mock_order {
    enum {
        MOCK_CREATE,
        MOCK_SPLIT,
        MOCK_SHRINK,
        MOCK_STEP,
        MOCK_RUN,
        MOCK_DESTROY,
    } task;
    int comm;   /* number of the communicator */
    int parent; /* number of a child's parent */
    int color;
    int rank; /* number of the rank in a child by a split */
    uint64_t comm_id;
    const struct mock_machine *machine; /* machine of a new communicator */
    void (*before)(void *user, int rank);
    void (*before_step)(void *user, int rank, size_t step);
    void (*before_call)(void *user, int rank, const struct mock_call *call);
    ncclResult_t (*run)(void *user, int rank);
    void *user;
    size_t step;
    const struct mock_call *calls;
    size_t n_calls;
    bool apart; /* no group */
};

struct mock_rank {
    int number;
    struct mock_nccl *nccl;
    /* by number; NULL if the rank is not in the communicator */
    struct mock_comm **comms;
    int n_comms;
    bool dead; /* takes no further part in scripts */
    /* NULL: the rank runs in the caller's thread */
    struct mock_carrier *carrier;
};

/* Executes an order in the calling thread. 'outcomes' has room for n_calls. */
ncclResult_t mock_rank_execute(struct mock_rank *rank,
                               const struct mock_order *order,
                               struct mock_outcome *outcomes);

/* The attributes of a collective that must be equal on all ranks. */
struct mock_decision {
    int rank; /* rank that made it */
    int algo;
    int proto;
    int n_channels;
    size_t chunk_bytes;
};
struct mock_decision mock_decision_of(int rank,
                                      const struct mock_outcome *outcome);

/* Fails if the decisions of two ranks differ. */
ncclResult_t mock_decision_compare(size_t step, const struct mock_call *call,
                                   const struct mock_decision *first,
                                   const struct mock_decision *other);

/* ---- ranks elsewhere ---- */

struct mock_carrier_ops {
    /* Sends an order; it and its outcomes must stay valid until wait(). */
    ncclResult_t (*post)(struct mock_rank *rank, const struct mock_order *order,
                         struct mock_outcome *outcomes);
    /* Waits for the end of the order; its error becomes this thread's. */
    ncclResult_t (*wait)(struct mock_rank *rank);
    /* Ends a process immediately; a thread cannot be ended. */
    void (*kill)(struct mock_rank *rank);
    /* Ends the idle thread or process, and frees rank->carrier. */
    void (*stop)(struct mock_rank *rank);
};

struct mock_carrier {
    const struct mock_carrier_ops *ops;
};

/* Start a thread or process and set rank->carrier. 'others' are the ranks that
 * run already. */
ncclResult_t mock_thread_start(struct mock_rank *rank);
ncclResult_t mock_process_start(struct mock_rank *rank,
                                const struct mock_rank *others);

/* Sends an order to a rank and waits for its end. */
ncclResult_t mock_rank_run_order(struct mock_rank *rank,
                                 const struct mock_order *order,
                                 struct mock_outcome *outcomes);

/* Waits for the first 'n' ranks, which all have an order. Returns 'rc' if it is
 * a failure, else the failure of the first rank that has one, whose error names
 * the rank. */
ncclResult_t mock_ranks_wait(struct mock_rank *ranks, int n, ncclResult_t rc);

/* ---- all ranks ---- */

/* The ranks that a communicator and its children share. */
struct mock_rank_pool {
    struct mock_rank *ranks;
    int n;
    int n_comms; /* number of communicators so far, which is the next one's
                    number */
    int n_users; /* number of struct mock_ranks that exist */
};

struct mock_ranks {
    struct mock_rank_pool *pool;
    int comm; /* number of the communicator */
    int n;    /* ranks, of all children of a split */
    int n_colors;
    struct mock_member *members; /* the n ranks, by their number in the pool;
                                    NULL: the pool's first n ranks */
};

/* A rank of a child of a split. */
struct mock_member {
    int number; /* in the pool */
    int color;  /* number of the child, from 0 */
};

/* The i-th rank, and the number of its communicator. */
static inline struct mock_rank *mock_ranks_get(const struct mock_ranks *ranks,
                                               int i)
{
    return &ranks->pool
                ->ranks[ranks->members != NULL ? ranks->members[i].number : i];
}

static inline int mock_ranks_color(const struct mock_ranks *ranks, int i)
{
    return ranks->members != NULL ? ranks->members[i].color : 0;
}
