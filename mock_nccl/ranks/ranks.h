/*
 * ranks.h - the ranks of a communicator in threads or processes
 */
#ifndef MOCK_RANKS_INTERNAL_H
#define MOCK_RANKS_INTERNAL_H

#include "ranks/rank.h"

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
    int n;    /* the communicator has the pool's first n ranks */
};

#endif /* MOCK_RANKS_INTERNAL_H */
