/* group_gather.c - broadcasts of several roots in one group, as AllGatherV
 *
 * Follows src/scheduler/allgatherv_sched.cc of NCCL 2.29 and later. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/comm.h"
#include "plugins/loader.h"

enum {
    WORK_BYTES = 48,  /* parts of one broadcast */
    PART_ALIGN = 256, /* bytes */
};

void mock_apart_broadcasts(struct mock_group *g)
{
    size_t n_left = 0;
    bool has_several = false;
    int root = -1;

    if (!g->comm->version->choice.gathers_broadcasts ||
        mock_variable_number(
            g->comm->nccl->options.variables[MOCK_ALLGATHERV_ENABLE], 1) == 0)
        return;
    for (size_t i = 0; i < g->n; i++)
        if (g->tasks[i].call.coll == ncclFuncBroadcast) {
            has_several |= root != -1 && g->tasks[i].call.root != root;
            root = g->tasks[i].call.root;
        }
    for (size_t i = 0; i < g->n; i++) {
        bool is_broadcast = g->tasks[i].call.coll == ncclFuncBroadcast;

        /* those of a single root are queued after the rest of the group */
        if (is_broadcast && !has_several)
            g->tasks[i].place += g->n;
        if (is_broadcast && has_several)
            g->broadcasts[g->n_broadcasts++] = g->tasks[i];
        else
            g->tasks[n_left++] = g->tasks[i];
    }
    g->n = n_left;
}

static int group_gather_compare_root(const void *pa, const void *pb)
{
    const struct mock_task *a = pa;
    const struct mock_task *b = pb;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->call.root - b->call.root;
}

static ncclResult_t group_gather_run(struct mock_group *g,
                                     struct mock_task *tasks, size_t n)
{
    const struct mock_model *model = &g->comm->model;
    struct mock_outcome *first = &g->outcomes[tasks[0].number];
    struct mock_call call = {
        .coll = ncclFuncAllGather, .element_size = 1, .n_pipe_ops = 1};
    int n_channels;

    for (size_t i = 0; i < n; i++)
        if (tasks[i].call.n_bytes > call.n_bytes)
            call.n_bytes = tasks[i].call.n_bytes;
    call.n_bytes *= (size_t)model->n_ranks;
    MOCK_TRY(mock_comm_decide(g->comm, &call, MOCK_SCOPE_PLAIN_PROTOCOL, first,
                              &n_channels));
    if (n_channels < 0 || n_channels > model->n_channels)
        return mock_fail(ncclInternalError,
                         "%d channels were chosen for an AllGatherV, and NCCL "
                         "would use those of its %d",
                         n_channels, model->n_channels);
    first->algo = NCCL_ALGO_RING;
    for (size_t i = 0; i < n; i++) {
        struct mock_outcome *outcome = &g->outcomes[tasks[i].number];
        const size_t n_bytes = tasks[i].call.n_bytes;
        const size_t n_parts = (size_t)n_channels;
        size_t from = 0;

        *outcome = *first;
        outcome->asked = i == 0;
        outcome->n_channels = 0; /* parts that are not empty */
        for (size_t j = 1; j <= n_parts; j++) {
            size_t to = j * ((n_bytes + n_parts - 1) / n_parts);

            to = (to + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
            to = to < n_bytes ? to : n_bytes;
            outcome->n_channels += to > from;
            from = to;
        }
    }
    return ncclSuccess;
}

ncclResult_t mock_apart_gather(struct mock_group *g)
{
    const int compcap = g->comm->model.compute_capability;
    const size_t kib = compcap < 80 ? 1 : compcap < 90 ? 8 : 16;
    const size_t most = (kib << 10) / WORK_BYTES - 1; /* in one batch */
    ncclResult_t rc = ncclSuccess;

    for (size_t left = g->n_broadcasts; left > 0 && rc == ncclSuccess;) {
        struct mock_task *tasks = g->broadcasts + (g->n_broadcasts - left);
        size_t n = 1;

        /* rounds: each takes one broadcast of every root that has any left, in
         * the order of roots */
        for (size_t i = 0; i < left; i++) {
            tasks[i].kind = 0;
            for (size_t j = 0; j < i; j++)
                if (tasks[j].call.root == tasks[i].call.root)
                    tasks[i].kind = tasks[j].kind + 1;
        }
        qsort(tasks, left, sizeof(*tasks), group_gather_compare_root);
        while (n < left && n < most && tasks[n].kind == 0)
            n++;
        rc = group_gather_run(g, tasks, n);
        left -= n;
    }
    return rc;
}
