/*
 * group_symmetric.c - collectives whose buffers are in symmetric windows
 *
 * Follows src/scheduler/symmetric_sched.cc of NCCL 2.28 and later, and
 * ncclPrepareTasks() of 2.27.
 */
#include "comm/group_order.h"

/* Kernels cannot count more bytes. */
#define LL_LIMIT     ((size_t)2 << 30)
#define KERNEL_LIMIT ((size_t)64 << 30)

static bool group_symmetric_can_reduce(const struct mock_choice_rules *rules,
                                       enum mock_reduction reduction)
{
    return reduction == MOCK_REDUCTION_SUM ||
           (reduction == MOCK_REDUCTION_AVERAGE && rules->symmetric_avg);
}

static bool group_symmetric_has_kernel(const struct mock_choice_rules *rules,
                                       const struct mock_call *call)
{
    if (call->n_bytes >= KERNEL_LIMIT)
        return false;
    switch (call->coll) {
    case ncclFuncAllGather:
        return true;
    case ncclFuncAllReduce:
    case ncclFuncReduceScatter:
        return group_symmetric_can_reduce(rules, call->reduction);
    default:
        return false;
    }
}

/* True if the buffers in windows allow only kernels with LL. */
static bool group_symmetric_needs_ll(const struct mock_call *call)
{
    return !(call->coll == ncclFuncAllGather &&
             call->windows == MOCK_WINDOWS_RECV) &&
           !(call->coll == ncclFuncReduceScatter &&
             call->windows == MOCK_WINDOWS_SEND);
}

static bool group_symmetric_is_alone(const struct mock_group *g, size_t i)
{
    for (size_t j = 0; j < g->n; j++)
        if (j != i && g->tasks[j].apart &&
            g->tasks[j].call.windows == g->tasks[i].call.windows &&
            mock_same_kind(&g->tasks[j].call, &g->tasks[i].call))
            return false;
    return true;
}

/* Whether the tuner's answer has LL. */
static ncclResult_t group_symmetric_ask_ll(struct mock_group *g,
                                           struct mock_task *task,
                                           bool *runs_ret)
{
    struct mock_outcome *outcome = &g->outcomes[task->number];
    const struct mock_outcome before = *outcome;
    struct mock_call call = task->call;
    int max_channels;
    ncclResult_t rc;

    call.n_pipe_ops = 1;
    rc = mock_comm_decide(g->comm, &call, MOCK_SCOPE_PROTOCOL, outcome,
                          &max_channels);
    *runs_ret = rc == ncclSuccess && outcome->proto == NCCL_PROTO_LL;
    *outcome = before;
    outcome->asked = true;
    return g->comm->version->choice.ignores_symmetric_error ? ncclSuccess : rc;
}

/* Whether one buffer is enough for task 'i'. */
static ncclResult_t group_symmetric_try(struct mock_group *g, size_t i,
                                        bool *runs_ret)
{
    struct mock_task *task = &g->tasks[i];

    *runs_ret = false;
    if (task->call.windows == MOCK_WINDOWS_NONE)
        return ncclSuccess;
    if (!group_symmetric_needs_ll(&task->call)) {
        *runs_ret = true;
        return ncclSuccess;
    }
    if (!group_symmetric_is_alone(g, i) || task->call.n_bytes >= LL_LIMIT)
        return ncclSuccess;
    return group_symmetric_ask_ll(g, task, runs_ret);
}

static ncclResult_t group_symmetric_runs(struct mock_group *g, size_t i,
                                         bool *runs_ret)
{
    const struct mock_choice_rules *rules = &g->comm->version->choice;
    struct mock_task *task = &g->tasks[i];

    *runs_ret = task->call.windows == MOCK_WINDOWS_BOTH;
    if (rules->symmetric == MOCK_SYMMETRIC_ALONE)
        *runs_ret = *runs_ret && g->n == 1;
    if (*runs_ret || rules->symmetric != MOCK_SYMMETRIC_ONE)
        return ncclSuccess;
    return group_symmetric_try(g, i, runs_ret);
}

ncclResult_t mock_apart_symmetric(struct mock_group *g)
{
    const struct mock_choice_rules *rules = &g->comm->version->choice;
    bool apart = rules->symmetric == MOCK_SYMMETRIC_ONE;
    size_t n_left = 0;

    if (rules->symmetric == MOCK_SYMMETRIC_NEVER || !g->comm->model.all_nvlink)
        return ncclSuccess;
    mock_group_sort(g->tasks, g->n);
    for (size_t i = 0; i < g->n; i++)
        g->tasks[i].apart =
            apart && group_symmetric_has_kernel(rules, &g->tasks[i].call);
    for (size_t i = 0; i < g->n; i++) {
        bool drop = false;
        ncclResult_t rc = ncclSuccess;

        if (group_symmetric_has_kernel(rules, &g->tasks[i].call))
            rc = group_symmetric_runs(g, i, &drop);
        if (rc != ncclSuccess)
            return rc;
        if (drop)
            g->tasks[i].list = 1;
    }
    for (size_t i = 0; i < g->n; i++)
        if (g->tasks[i].list == 0)
            g->tasks[n_left++] = g->tasks[i];
    g->n = n_left;
    return ncclSuccess;
}
