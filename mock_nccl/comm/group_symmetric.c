/* group_symmetric.c - collectives whose buffers are in symmetric windows, and
 * allgathers into them that copy engines run, and collectives one by one
 *
 * Follows src/scheduler/symmetric_sched.cc of NCCL 2.28 and later,
 * ncclPrepareTasks() of 2.27, taskAppend() of src/enqueue.cc, and
 * ncclCeAllGatherUseMulticast() of 2.31.2's src/ce_coll.cc. */
#include "comm/comm.h"
#include "model/symmetric.h"
#include "plugins/loader.h"

#define KERNEL_LIMIT ((size_t)64 << 30) /* bytes that kernels can count */

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
        return call->reduction == MOCK_REDUCTION_SUM ||
               (call->reduction == MOCK_REDUCTION_AVERAGE &&
                rules->symmetric_avg &&
                (call->coll == ncclFuncReduceScatter ||
                 rules->symmetric_avg_everywhere));
    default:
        return false;
    }
}

/* ---- collectives of one kernel ---- */

/* The collectives of one kind and the same windows, in NCCL's order. */
struct batch {
    struct mock_symmetric_work work;
    struct mock_call call; /* as NCCL asks about them */
    size_t first;          /* place of the first */
};

static bool group_symmetric_is_alike(const struct mock_task *a,
                                     const struct mock_task *b)
{
    return b->apart && a->call.windows == b->call.windows &&
           mock_same_kind(&a->call, &b->call);
}

/* The bytes of one rank, which is how NCCL counts them here; the last call says
 * whether buffers are registered. */
static struct batch group_symmetric_gather(const struct mock_group *g, size_t i)
{
    const struct mock_model *model = &g->comm->model;
    const struct mock_call *call = &g->tasks[i].call;
    struct batch batch = {.work = {.coll = call->coll,
                                   .fp8 = call->fp8,
                                   .windows = call->windows},
                          .call = *call,
                          .first = i};

    for (size_t j = i; j < g->n; j++) {
        const struct mock_call *other = &g->tasks[j].call;
        size_t bytes;

        if (!group_symmetric_is_alike(&g->tasks[i], &g->tasks[j]))
            continue;
        bytes = mock_share_bytes(model, other);
        batch.call.reg_buff = other->reg_buff;
        batch.work.n_works++;
        batch.work.n_bytes += mock_symmetric_round(bytes);
        if (bytes > batch.work.max_bytes)
            batch.work.max_bytes = bytes;
    }
    return batch;
}

/* ---- asking ---- */

/* Whether the tuner's answer has LL. */
static ncclResult_t group_symmetric_ask_ll(struct mock_group *g,
                                           const struct batch *batch,
                                           bool *has_ll_ret)
{
    const struct mock_choice_rules *rules = &g->comm->version->choice;
    struct mock_outcome outcome = {0};
    struct mock_call call = batch->call;
    int max_channels;
    ncclResult_t rc;

    call.n_pipe_ops = 1;
    if (rules->symmetric == MOCK_SYMMETRIC_ASKED) {
        call.n_bytes = batch->work.n_bytes;
        call.n_pipe_ops = 0;
    }
    rc = mock_comm_decide(g->comm, &call, MOCK_SCOPE_PROTOCOL, &outcome,
                          &max_channels);
    *has_ll_ret = rc == ncclSuccess && outcome.proto == NCCL_PROTO_LL;
    g->outcomes[g->tasks[batch->first].number].asked = true;
    return rules->ignores_symmetric_error ? ncclSuccess : rc;
}

/* The kernel that runs the batch; '*kernel_ret' is untouched if none does. */
static ncclResult_t
group_symmetric_try(struct mock_group *g, const struct batch *batch,
                    struct mock_symmetric_kernel *kernel_ret)
{
    struct mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
    const struct mock_symmetric_kernel *best;
    bool asks = g->comm->version->choice.symmetric == MOCK_SYMMETRIC_ASKED;
    bool has_ll = false;
    ncclResult_t rc = ncclSuccess;

    if (asks) {
        struct mock_call call = batch->call;

        call.n_bytes = batch->work.n_bytes;
        call.n_pipe_ops = 0;
        MOCK_TRY(mock_comm_preview(g->comm, &call));
    }
    best = mock_symmetric_pick(
        &g->comm->model, kernels,
        mock_symmetric_list(&g->comm->model, &batch->work, kernels));
    if (best != NULL &&
        (batch->work.windows == MOCK_WINDOWS_BOTH || !best->is_ll)) {
        *kernel_ret = *best;
        return ncclSuccess;
    }
    if (asks || (best != NULL && batch->work.windows != MOCK_WINDOWS_NONE))
        rc = group_symmetric_ask_ll(g, batch, &has_ll);
    if (best != NULL && batch->work.windows != MOCK_WINDOWS_NONE && has_ll)
        *kernel_ret = *best;
    return rc;
}

/* Notes that a kernel runs a task, the first or another of its tasks. */
static void group_symmetric_note(struct mock_group *g,
                                 const struct mock_task *task,
                                 const struct mock_symmetric_kernel *kernel,
                                 bool is_first)
{
    struct mock_outcome *outcome = &g->outcomes[task->number];

    outcome->kernel = kernel->name;
    if (!mock_profile_has_symmetric(&g->comm->listener))
        return;
    outcome->n_channels = is_first ? kernel->n_blocks : 0;
    g->kernels[g->n_kernels++] = *task;
}

size_t
mock_comm_kernels(const struct mock_comm *comm, const struct mock_call *call,
                  struct mock_symmetric_kernel kernels_ret[MOCK_MAX_SYMMETRIC])
{
    const struct mock_choice_rules *rules = &comm->version->choice;
    const struct mock_model *model = &comm->model;
    size_t bytes = mock_share_bytes(model, call);
    const struct mock_symmetric_work work = {.coll = call->coll,
                                             .fp8 = call->fp8,
                                             .n_bytes =
                                                 mock_symmetric_round(bytes),
                                             .max_bytes = bytes,
                                             .n_works = 1,
                                             .windows = MOCK_WINDOWS_BOTH};

    if (rules->symmetric < MOCK_SYMMETRIC_ONE || !model->all_nvlink ||
        !mock_comm_asks(comm, call) || !group_symmetric_has_kernel(rules, call))
        return 0;
    return mock_symmetric_list(model, &work, kernels_ret);
}

/* Takes the kernel of the tasks like the i-th, unless an earlier one is like
 * it, and marks those that it runs. */
static ncclResult_t group_symmetric_take(struct mock_group *g, size_t i)
{
    struct mock_symmetric_kernel kernel = {.name = NULL};
    const struct mock_task like = g->tasks[i];
    struct batch batch;
    bool is_first = true;
    ncclResult_t rc;

    for (size_t j = 0; j < i; j++)
        if (group_symmetric_is_alike(&like, &g->tasks[j]))
            return ncclSuccess;
    batch = group_symmetric_gather(g, i);
    rc = group_symmetric_try(g, &batch, &kernel);
    /* NCCL's list of them has the last first */
    for (size_t j = g->n; kernel.name != NULL && j-- > i;)
        if (group_symmetric_is_alike(&like, &g->tasks[j])) {
            g->tasks[j].list = 1;
            group_symmetric_note(g, &g->tasks[j], &kernel, is_first);
            is_first = false;
        }
    return rc;
}

ncclResult_t mock_apart_symmetric(struct mock_group *g)
{
    const struct mock_choice_rules *rules = &g->comm->version->choice;
    ncclResult_t rc = ncclSuccess;
    size_t n_left = 0;

    if (rules->symmetric == MOCK_SYMMETRIC_NEVER || !g->comm->model.all_nvlink)
        return ncclSuccess;
    mock_group_sort(g->tasks, g->n);
    for (size_t i = 0; i < g->n; i++) {
        struct mock_task *task = &g->tasks[i];
        bool has_kernel = group_symmetric_has_kernel(rules, &task->call);

        if (rules->symmetric >= MOCK_SYMMETRIC_ONE)
            task->apart = has_kernel;
        else if (has_kernel && task->call.windows == MOCK_WINDOWS_BOTH)
            task->list = rules->symmetric != MOCK_SYMMETRIC_ALONE || g->n == 1;
    }
    for (size_t i = 0; i < g->n && rc == ncclSuccess; i++)
        if (g->tasks[i].apart)
            rc = group_symmetric_take(g, i);
    for (size_t i = 0; i < g->n; i++)
        if (g->tasks[i].list == 0)
            g->tasks[n_left++] = g->tasks[i];
    g->n = n_left;
    return rc;
}

/* ---- copy engines ---- */

enum {
    MIN_ELEMENTS = 8 << 20, /* of a rank, NCCL_SYM_CE_THRESHOLD */
    WITHOUT_MULTICAST = 4,  /* times that, where TMA moves data */
};

static bool group_copy_runs(const struct mock_comm *comm,
                            const struct mock_call *call)
{
    const struct mock_model *model = &comm->model;
    const enum mock_copies copies = comm->version->choice.copies;
    bool is_into_window =
        call->windows == MOCK_WINDOWS_BOTH ||
        (copies > MOCK_COPIES_BOTH && call->windows == MOCK_WINDOWS_RECV);
    size_t min = MIN_ELEMENTS;

    if (call->coll != ncclFuncAllGather || copies == MOCK_COPIES_NEVER ||
        !model->all_nvlink || !is_into_window)
        return false;
    if (model->rules->symmetric_tma && !mock_symmetric_has_multicast(model))
        min *= WITHOUT_MULTICAST;
    return comm->nccl->options.zero_ctas ||
           (copies > MOCK_COPIES_BOTH && model->compute_capability >= 100 &&
            mock_share_bytes(model, call) / call->element_size > min);
}

void mock_apart_copies(struct mock_group *g)
{
    size_t n_left = 0;

    for (size_t i = 0; i < g->n; i++)
        if (group_copy_runs(g->comm, &g->tasks[i].call))
            g->copies[g->n_copies++] = g->tasks[i];
        else
            g->tasks[n_left++] = g->tasks[i];
    g->n = n_left;
}

void mock_run_copies(struct mock_group *g)
{
    const struct mock_model *model = &g->comm->model;

    for (size_t i = 0; i < g->n_copies; i++) {
        struct mock_outcome *outcome = &g->outcomes[g->copies[i].number];
        const struct mock_call *call = &g->copies[i].call;
        struct mock_copy copies[MOCK_MAX_COPIES];
        struct mock_call question = {
            .coll = call->coll,
            .n_bytes = mock_share_bytes(model, call),
            .element_size = 1,
        };
        size_t n = mock_copy_list(model, question.n_bytes, g->captured, copies);

        outcome->asked =
            g->comm->version->choice.copies == MOCK_COPIES_ASKED && n > 1;
        /* NCCL does not look at the tuner's error, and copies by unicast */
        outcome->kernel =
            outcome->asked &&
                    mock_comm_preview(g->comm, &question) == ncclSuccess
                ? mock_copy_pick(copies, n)->name
                : copies[0].name;
    }
}

size_t mock_comm_copies(const struct mock_comm *comm,
                        const struct mock_call *call,
                        struct mock_copy copies_ret[MOCK_MAX_COPIES])
{
    const struct mock_model *model = &comm->model;

    if (call->coll != ncclFuncAllGather || !model->all_nvlink ||
        !mock_comm_asks(comm, call) ||
        comm->version->choice.copies != MOCK_COPIES_ASKED)
        return 0;
    return mock_copy_list(model, mock_share_bytes(model, call), false,
                          copies_ret);
}

/* ---- collectives one by one, with symmetric kernels and general ones compared
 * together (NCCL_ENQUEUE_REARCH_ENABLE); follows src/enqueue/task_prep of NCCL
 * 2.31.2 ---- */

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
        group_symmetric_note(g, task, best, true);
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
