/*
 * ranks.h - the ranks of a communicator, wherever they live
 */
#ifndef MOCK_RANKS_INTERNAL_H
#define MOCK_RANKS_INTERNAL_H

#include "ranks/rank.h"

/* Ranks that a communicator and its children share. */
struct mock_rank_pool {
    struct mock_rank *ranks;
    int n;
    int n_comms; /* so far, which numbers the next */
    int n_users; /* struct mock_ranks that are left */
};

struct mock_ranks {
    struct mock_rank_pool *pool;
    int comm; /* its number */
    int n;    /* the pool's first ranks */
};

/* Hands an order to a rank and waits for it. */
ncclResult_t mock_rank_run_order(struct mock_rank *rank,
                                 const struct mock_order *order,
                                 struct mock_outcome *outcomes);

#endif /* MOCK_RANKS_INTERNAL_H */
