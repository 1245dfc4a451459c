/*
 * group_rearch.c - collectives one by one, with symmetric kernels and general
 * ones compared together (NCCL_ENQUEUE_REARCH_ENABLE)
 *
 * Follows src/enqueue/task_prep of NCCL 2.31.2.
 */
#include "comm/group_order.h"
#include "model/symmetric.h"
#include "plugins/loader.h"

/* NCCL counts the bytes of all ranks here, and knows no average. */
static size_t rearch_list_kernels(const struct mock_comm *comm,
                                  const struct mock_call *call,
                                  struct mock_symmetric_kernel *kernels_ret)
{
    const struct mock_symmetric_work work = {
        .coll = call->coll,
        .fp8 = call->fp8,
        .n_bytes = call->n_bytes,
        .max_bytes = mock_share_bytes(&comm->model, call->coll, call->n_bytes,
                                      call->element_size),
        .n_works = 1,
        .windows = call->windows,
    };

    if (call->coll != ncclFuncAllGather &&
        call->reduction != MOCK_REDUCTION_SUM)
        return 0;
    return mock_symmetric_list(&comm->model, &work, kernels_ret);
}

/* Whether it runs; if not, NCCL asks again, and 'outcome' is the answer. */
static ncclResult_t
rearch_try_kernel(struct mock_group *g, struct mock_task *task,
                  const struct mock_symmetric_kernel *kernel,
                  struct mock_outcome *outcome, bool *runs_ret)
{
    ncclResult_t rc;

    *runs_ret = !kernel->is_ll || task->call.windows == MOCK_WINDOWS_BOTH;
    if (*runs_ret)
        return ncclSuccess;
    rc = mock_comm_decide(g->comm, &task->call, MOCK_SCOPE_ALL, outcome,
                          &task->max_channels);
    *runs_ret = rc == ncclSuccess && outcome->proto == NCCL_PROTO_LL &&
                task->call.windows != MOCK_WINDOWS_NONE;
    return rc;
}

/* Of equals NCCL takes the kernel. */
static ncclResult_t rearch_decide(struct mock_group *g, struct mock_task *task,
                                  bool *is_apart_ret)
{
    struct mock_outcome *outcome = &g->outcomes[task->number];
    struct mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
    const struct mock_symmetric_kernel *best =
        mock_symmetric_pick(&g->comm->model, kernels,
                            rearch_list_kernels(g->comm, &task->call, kernels));
    ncclResult_t rc;

    *is_apart_ret = false;
    task->call.n_pipe_ops = 1;
    rc = mock_comm_decide(g->comm, &task->call, MOCK_SCOPE_ALL, outcome,
                          &task->max_channels);
    if (rc != ncclSuccess || best == NULL ||
        outcome->cost_after[outcome->algo][outcome->proto] < best->charged_us)
        return rc;
    rc = rearch_try_kernel(g, task, best, outcome, is_apart_ret);
    if (*is_apart_ret) {
        mock_note_kernel(g, task, best, true);
        outcome->algo = NCCL_ALGO_UNDEF;
        outcome->proto = NCCL_PROTO_UNDEF;
    }
    return rc;
}

static ncclResult_t rearch_decide_some(struct mock_group *g, bool broadcasts,
                                       struct mock_task *left, size_t *n_left)
{
    ncclResult_t rc = ncclSuccess;

    for (size_t i = 0; i < g->n && rc == ncclSuccess; i++) {
        bool is_apart;

        if ((g->tasks[i].call.coll == ncclFuncBroadcast) != broadcasts)
            continue;
        rc = rearch_decide(g, &g->tasks[i], &is_apart);
        if (!is_apart)
            left[(*n_left)++] = g->tasks[i];
    }
    return rc;
}

bool mock_group_is_rearch(const struct mock_group *g)
{
    return g->comm->nccl->options.rearch && g->comm->version->choice.rearch;
}

ncclResult_t mock_group_decide_rearch(struct mock_group *g)
{
    size_t n_left = 0;
    ncclResult_t rc = rearch_decide_some(g, false, g->copies, &n_left);

    if (rc == ncclSuccess)
        rc = rearch_decide_some(g, true, g->copies, &n_left);
    for (size_t i = 0; i < n_left; i++)
        g->tasks[i] = g->copies[i];
    g->n = n_left;
    return rc;
}
