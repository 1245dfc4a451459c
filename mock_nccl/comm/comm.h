/* comm.h - the steps of a collective, alone or in a group */
#pragma once

#include "model/channels.h"
#include "model/cost_model.h"
#include "plugins/profiler.h"
#include "plugins/tuner.h"

struct mock_comm {
    struct mock_nccl *nccl;
    const struct mock_version *version;
    const struct mock_machine *machine;
    struct mock_tuner *tuner; /* NULL if there is none */
    bool owns_tuner;          /* see mock_loader_acquire() */
    uint64_t id;
    uint64_t n_splits;
    struct mock_listener listener;
    void *context;
    int top_channels;        /* of the first of those that share resources */
    struct mock_model model; /* with the tuner's edits of its constants */
};

/* False without bytes or other ranks, where NCCL has nothing to decide. */
bool mock_comm_asks(const struct mock_comm *comm, const struct mock_call *call);

/* The part of a decision that its caller uses besides the channels. */
enum mock_scope {
    MOCK_SCOPE_ALL,
    MOCK_SCOPE_PROTOCOL,
    MOCK_SCOPE_PLAIN_PROTOCOL, /* of a table without NVLS and CollNet */
};

/* Runs table, tuner and selection; returns the channel limit. */
ncclResult_t mock_comm_decide(struct mock_comm *comm,
                              const struct mock_call *call,
                              enum mock_scope scope,
                              struct mock_outcome *outcome,
                              int *max_channels_ret);

/* Calls the tuner with a table of nothing to choose (mock_call.windows). */
ncclResult_t mock_comm_preview(struct mock_comm *comm,
                               const struct mock_call *call);

/* 2.21 then asks about each collective of a shared decision, and uses the
 * channels of that answer; other versions keep the decision's. */
ncclResult_t mock_comm_decide_own(struct mock_comm *comm,
                                  const struct mock_call *call,
                                  struct mock_outcome *outcome,
                                  int *max_channels_ret);

/* A decided collective as lanes take it. */
struct mock_work mock_comm_work(const struct mock_call *call,
                                const struct mock_outcome *outcome);

/* Schedules a collective that was announced to the lane of its kind, unless it
 * takes more than 'room' channels, which *fits_ret says. */
ncclResult_t mock_comm_schedule(struct mock_comm *comm,
                                const struct mock_call *call,
                                struct mock_lane *lane,
                                struct mock_outcome *outcome, int room,
                                bool *fits_ret);

/* ---- the order in which NCCL decides on the collectives of a group ---- */

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
    struct mock_task *copies; /* allgathers for copy engines, in order */
    size_t n_copies;
    struct mock_task
        *kernels; /* of symmetric kernels, where NCCL reports them */
    size_t n_kernels;
    struct mock_outcome *outcomes; /* by index in the group */
    bool captured;                 /* the group is captured into a CUDA graph */
};

/* Whether both have the same collective, operation and type. */
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

/* Whether NCCL_ENQUEUE_REARCH_ENABLE takes effect, and the decisions then: one
 * by one; removes tasks that symmetric kernels run. */
bool mock_group_is_rearch(const struct mock_group *g);
ncclResult_t mock_group_decide_rearch(struct mock_group *g);

/* ---- collectives that NCCL decides separately from runs ---- */

/* Moves allgathers that copy engines run from the tasks to g->copies, and
 * chooses how they are copied; may call the tuner. */
void mock_apart_copies(struct mock_group *g);
void mock_run_copies(struct mock_group *g);

/* Removes tasks that run from symmetric windows, and marks those that could;
 * may call the tuner. */
ncclResult_t mock_apart_symmetric(struct mock_group *g);
