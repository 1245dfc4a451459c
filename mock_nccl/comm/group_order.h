/*
 * group_order.h - the order in which NCCL decides on the collectives of a group
 */
#ifndef MOCK_GROUP_ORDER_H
#define MOCK_GROUP_ORDER_H

#include "comm/comm.h"
#include "plugins/profiler.h"

struct mock_task {
    struct mock_call call;
    size_t number; /* index in the group */
    size_t place;  /* position in NCCL's input; then in its list */
    size_t traffic;
    bool apart;   /* the task could use symmetric windows (from 2.29 on) */
    unsigned bin; /* grows with the size */
    /* for tasks with 'apart': position of the first task like it */
    size_t list;
    size_t kind;      /* order of the kinds' decisions, from 0 */
    int max_channels; /* set by the decision */
    struct mock_profiled_call profiled;
};

struct mock_group {
    struct mock_comm *comm;
    struct mock_task *tasks; /* in NCCL's order */
    size_t n;
    struct mock_task *broadcasts; /* broadcasts for AllGatherV, in order */
    size_t n_broadcasts;
    struct mock_task *copies; /* allgathers for copy engines, in order; room for
                                 all tasks */
    size_t n_copies;
    struct mock_task *kernels; /* what symmetric kernels run, kernel by kernel,
                                  where NCCL reports that */
    size_t n_kernels;
    struct mock_outcome *outcomes; /* by index in the group */
    bool captured;                 /* the group is captured into a CUDA graph */
};

/* Whether both calls can share a decision: same collective, operation and type.
 */
bool mock_same_kind(const struct mock_call *a, const struct mock_call *b);

/* Sorts tasks by traffic, largest first, and sets their bin. */
void mock_group_sort(struct mock_task *tasks, size_t n);

/* Sorts tasks into NCCL's order and sets their remaining members; call, number,
 * place, traffic and apart must be set. */
void mock_group_order(const struct mock_choice_rules *rules,
                      struct mock_task *tasks, size_t n);

/* The end of the run of tasks from 'i' that share a decision. */
size_t mock_group_run_end(const struct mock_choice_rules *rules,
                          const struct mock_task *tasks, size_t n, size_t i);

/* ---- collectives that NCCL decides one by one ---- */

/* Whether NCCL_ENQUEUE_REARCH_ENABLE takes effect. */
bool mock_group_is_rearch(const struct mock_group *g);

/* Decides on all tasks, and removes those that symmetric kernels run. */
ncclResult_t mock_group_decide_rearch(struct mock_group *g);

/* ---- collectives that NCCL decides separately from runs ---- */

/* Moves broadcasts of several roots from the tasks to g->broadcasts. */
void mock_apart_broadcasts(struct mock_group *g);

/* Decides and schedules these broadcasts, as AllGatherV. */
ncclResult_t mock_apart_gather(struct mock_group *g);

/* Notes that a kernel runs a task, the first or another of its tasks. */
void mock_note_kernel(struct mock_group *g, const struct mock_task *task,
                      const struct mock_symmetric_kernel *kernel,
                      bool is_first);

/* Moves allgathers that copy engines run from the tasks to g->copies. */
void mock_apart_copies(struct mock_group *g);

/* Chooses how they are copied; may call the tuner. */
void mock_run_copies(struct mock_group *g);

/* Removes tasks that run from symmetric windows, and marks those that could;
 * may call the tuner. */
ncclResult_t mock_apart_symmetric(struct mock_group *g);

#endif /* MOCK_GROUP_ORDER_H */
