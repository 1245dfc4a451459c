/*
 * group_gather.c - broadcasts of several roots in one group, as AllGatherV
 *
 * Follows src/scheduler/allgatherv_sched.cc of NCCL 2.29 and later.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/group_order.h"

enum {
    WORK_BYTES = 48,  /* parts of one broadcast */
    PART_ALIGN = 256, /* bytes */
};

static bool group_gather_has_several_roots(const struct mock_group *g)
{
    int root = -1;

    for (size_t i = 0; i < g->n; i++) {
        const struct mock_call *call = &g->tasks[i].call;

        if (call->coll != ncclFuncBroadcast)
            continue;
        if (root != -1 && call->root != root)
            return true;
        root = call->root;
    }
    return false;
}

/* Broadcasts of a single root are queued after the rest of the group. */
static void group_gather_append(struct mock_group *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->tasks[i].call.coll == ncclFuncBroadcast)
            g->tasks[i].place += g->n;
}

void mock_apart_broadcasts(struct mock_group *g)
{
    size_t n_left = 0;

    if (!g->comm->version->choice.gathers_broadcasts)
        return;
    if (!group_gather_has_several_roots(g)) {
        group_gather_append(g);
        return;
    }
    for (size_t i = 0; i < g->n; i++)
        if (g->tasks[i].call.coll == ncclFuncBroadcast)
            g->broadcasts[g->n_broadcasts++] = g->tasks[i];
        else
            g->tasks[n_left++] = g->tasks[i];
    g->n = n_left;
}

/* The number of collectives in one batch. */
static size_t group_gather_most_at_once(int compute_capability)
{
    size_t bytes = 16 << 10;

    if (compute_capability < 80)
        bytes = 1 << 10;
    else if (compute_capability < 90)
        bytes = 8 << 10;
    return bytes / WORK_BYTES - 1;
}

static int group_gather_compare_root(const void *pa, const void *pb)
{
    const struct mock_task *a = pa;
    const struct mock_task *b = pb;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->call.root - b->call.root;
}

/* Runs rounds: each takes one broadcast of every root that has any left, in the
 * order of roots. */
static void group_gather_order_rounds(struct mock_task *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tasks[i].kind = 0;
        for (size_t j = 0; j < i; j++)
            if (tasks[j].call.root == tasks[i].call.root)
                tasks[i].kind = tasks[j].kind + 1;
    }
    qsort(tasks, n, sizeof(*tasks), group_gather_compare_root);
}

/* The number of the broadcast's 'n' parts that are not empty. */
static int group_gather_parts_with_bytes(size_t n_bytes, size_t n)
{
    size_t part = (n_bytes + n - 1) / n;
    size_t from = 0;
    int n_parts = 0;

    for (size_t i = 1; i <= n; i++) {
        size_t to = (i * part + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;

        if (to > n_bytes)
            to = n_bytes;
        n_parts += to > from;
        from = to;
    }
    return n_parts;
}

static ncclResult_t group_gather_run(struct mock_group *g,
                                     struct mock_task *tasks, size_t n)
{
    const struct mock_model *model = &g->comm->model;
    struct mock_outcome *first = &g->outcomes[tasks[0].number];
    struct mock_call call = {
        .coll = ncclFuncAllGather, .element_size = 1, .n_pipe_ops = 1};
    int n_channels;
    ncclResult_t rc;

    for (size_t i = 0; i < n; i++)
        if (tasks[i].call.n_bytes > call.n_bytes)
            call.n_bytes = tasks[i].call.n_bytes;
    call.n_bytes *= (size_t)model->n_ranks;
    rc = mock_comm_decide(g->comm, &call, MOCK_SCOPE_PLAIN_PROTOCOL, first,
                          &n_channels);
    if (rc != ncclSuccess)
        return rc;
    if (n_channels < 0 || n_channels > model->n_channels)
        return mock_fail(ncclInternalError,
                         "%d channels were chosen for an AllGatherV, and NCCL "
                         "would use those of its %d",
                         n_channels, model->n_channels);
    first->algo = NCCL_ALGO_RING;
    for (size_t i = 0; i < n; i++) {
        struct mock_outcome *outcome = &g->outcomes[tasks[i].number];

        *outcome = *first;
        outcome->asked = i == 0;
        outcome->n_channels = group_gather_parts_with_bytes(
            tasks[i].call.n_bytes, (size_t)n_channels);
    }
    return ncclSuccess;
}

ncclResult_t mock_apart_gather(struct mock_group *g)
{
    size_t most = group_gather_most_at_once(g->comm->model.compute_capability);
    ncclResult_t rc = ncclSuccess;

    for (size_t left = g->n_broadcasts; left > 0 && rc == ncclSuccess;) {
        struct mock_task *tasks = g->broadcasts + (g->n_broadcasts - left);
        size_t n = 1;

        group_gather_order_rounds(tasks, left);
        while (n < left && n < most && tasks[n].kind == 0)
            n++;
        rc = group_gather_run(g, tasks, n);
        left -= n;
    }
    return rc;
}
