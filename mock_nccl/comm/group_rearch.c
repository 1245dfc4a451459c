/* group_rearch.c - collectives one by one, with symmetric kernels and general
 * ones compared together (NCCL_ENQUEUE_REARCH_ENABLE)
 *
 * Follows src/enqueue/task_prep of NCCL 2.31.2. */
#include "comm/comm.h"
#include "model/symmetric.h"
#include "plugins/loader.h"

/* Decides on a task, and sets *is_apart_ret if a symmetric kernel runs it, as
 * NCCL prefers it of equals. */
static ncclResult_t rearch_decide(struct mock_group *g, struct mock_task *task,
                                  bool *is_apart_ret)
{
    const struct mock_model *model = &g->comm->model;
    const struct mock_call *call = &task->call;
    /* NCCL counts the bytes of all ranks here, and knows no average */
    const struct mock_symmetric_work work = {
        .coll = call->coll,
        .fp8 = call->fp8,
        .n_bytes = call->n_bytes,
        .max_bytes = mock_share_bytes(model, call),
        .n_works = 1,
        .windows = call->windows,
    };
    struct mock_outcome *outcome = &g->outcomes[task->number];
    struct mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
    const struct mock_symmetric_kernel *best = NULL;
    ncclResult_t rc;

    if (call->coll == ncclFuncAllGather ||
        call->reduction == MOCK_REDUCTION_SUM)
        best = mock_symmetric_pick(model, kernels,
                                   mock_symmetric_list(model, &work, kernels));
    *is_apart_ret = false;
    task->call.n_pipe_ops = 1;
    rc = mock_comm_decide(g->comm, call, MOCK_SCOPE_ALL, outcome,
                          &task->max_channels);
    if (rc != ncclSuccess || best == NULL ||
        outcome->cost_after[outcome->algo][outcome->proto] < best->charged_us)
        return rc;
    *is_apart_ret = !best->is_ll || call->windows == MOCK_WINDOWS_BOTH;
    if (!*is_apart_ret) { /* NCCL asks again, and this is the answer */
        rc = mock_comm_decide(g->comm, call, MOCK_SCOPE_ALL, outcome,
                              &task->max_channels);
        *is_apart_ret = rc == ncclSuccess && outcome->proto == NCCL_PROTO_LL &&
                        call->windows != MOCK_WINDOWS_NONE;
    }
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

    MOCK_THEN(rc, rearch_decide_some(g, true, g->copies, &n_left));
    for (size_t i = 0; i < n_left; i++)
        g->tasks[i] = g->copies[i];
    g->n = n_left;
    return rc;
}
