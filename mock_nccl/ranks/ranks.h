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

#endif /* MOCK_RANKS_INTERNAL_H */
