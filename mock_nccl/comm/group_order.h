/*
 * group_order.h - in which order NCCL decides on the collectives of a group
 */
#ifndef MOCK_GROUP_ORDER_H
#define MOCK_GROUP_ORDER_H

#include "comm/comm.h"
#include "plugins/profiler.h"

struct mock_task {
    struct mock_call call;
    size_t number; /* in the group */
    size_t place;  /* in which NCCL got it; then in its list */
    size_t traffic;
    bool apart;       /* it could use symmetric windows (from 2.29 on) */
    unsigned bin;     /* larger for larger ones */
    size_t list;      /* of those apart: the place of the first like it */
    size_t kind;      /* 0 for the first that is decided, and so on */
    int max_channels; /* once decided */
    struct mock_profiled_call heard;
};

struct mock_group {
    struct mock_comm *comm;
    struct mock_task *tasks; /* in the order in which NCCL handles them */
    size_t n;
    struct mock_task *broadcasts; /* for AllGatherV, in order */
    size_t n_broadcasts;
    struct mock_outcome *outcomes; /* by number */
    bool captured;                 /* into a CUDA graph */
};

/* Whether NCCL may handle both at once: same collective, operation and type. */
bool mock_same_kind(const struct mock_call *a, const struct mock_call *b);

/* Sorts tasks by traffic, largest first, which fills in bin. */
void mock_group_sort(struct mock_task *tasks, size_t n);

/* Puts tasks whose call, number, place, traffic and apart are there in NCCL's
 * order, and fills in the rest. */
void mock_group_order(const struct mock_choice_rules *rules,
                      struct mock_task *tasks, size_t n);

/* The end of the run of tasks from 'i' that NCCL decides at once. */
size_t mock_group_run_end(const struct mock_choice_rules *rules,
                          const struct mock_task *tasks, size_t n, size_t i);

#endif /* MOCK_GROUP_ORDER_H */
