/*
 * group.c - several collectives in one group
 *
 * As ncclPrepareTasks() of NCCL 2.28.9 does: sorted by traffic into bins a
 * quarter of an octave wide, then by kind, smallest first; equal ones keep the
 * order in which the application made them.
 */
#include <stdlib.h>

#include "comm.h"
#include "error.h"

enum {
    SORT_UNIT_LOG2 = 10, /* all below 1 KiB are alike */
    SORT_MAX_LOG2 = 30,  /* all from 1 GiB on */
    SORT_BITS = 2,       /* bins an octave: 2 to this power */
    RUN_FACTOR = 4,      /* within a run, largest below this times smallest */
};

struct task {
    struct mock_call call;
    size_t number; /* in the group */
    size_t traffic;
    unsigned bin;     /* larger for larger ones */
    size_t kind;      /* 0 for that of the largest, and so on */
    int max_channels; /* once decided */
};

struct group {
    struct mock_comm *comm;
    struct task *tasks; /* in the order in which NCCL handles them */
    size_t n;
    struct mock_outcome *outcomes; /* by number */
};

/* A small float: exponent, and SORT_BITS of mantissa. */
static unsigned bin_of(size_t traffic)
{
    const size_t max = (size_t)1 << SORT_MAX_LOG2;
    unsigned units =
        (unsigned)((traffic < max ? traffic : max) >> SORT_UNIT_LOG2);
    unsigned log2 = 31 - (unsigned)__builtin_clz(units | 1);
    unsigned exponent = 0;

    if (log2 >= SORT_BITS) {
        exponent = log2 - (SORT_BITS - 1);
        units >>= log2 - SORT_BITS;
    }
    return exponent << SORT_BITS | (units & ((1u << SORT_BITS) - 1));
}

static size_t element_size(const struct mock_call *call)
{
    return call->coll == ncclFuncAllGather || call->coll == ncclFuncBroadcast
               ? 1
               : call->element_size;
}

/* What NCCL never mixes: collective, operation and type. */
static bool same_kind(const struct task *a, const struct task *b)
{
    return a->call.coll == b->call.coll &&
           element_size(&a->call) == element_size(&b->call) &&
           a->call.kind == b->call.kind && a->call.no_nvls == b->call.no_nvls &&
           a->call.fp8 == b->call.fp8;
}

/* Largest first, and the later of two alike. */
static int compare_size(const void *pa, const void *pb)
{
    const struct task *a = pa;
    const struct task *b = pb;

    if (a->bin != b->bin)
        return a->bin > b->bin ? -1 : 1;
    return a->number > b->number ? -1 : 1;
}

static int compare_kind(const void *pa, const void *pb)
{
    const struct task *a = pa;
    const struct task *b = pb;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return -compare_size(pa, pb);
}

static void order_tasks(struct group *g)
{
    size_t n_kinds = 0;

    qsort(g->tasks, g->n, sizeof(*g->tasks), compare_size);
    for (size_t i = 0; i < g->n; i++) {
        size_t j = 0;

        while (!same_kind(&g->tasks[i], &g->tasks[j]))
            j++;
        g->tasks[i].kind = j < i ? g->tasks[j].kind : n_kinds++;
    }
    qsort(g->tasks, g->n, sizeof(*g->tasks), compare_kind);
}

/* The end of the run of tasks from 'i' that NCCL decides at once. */
static size_t run_end(const struct group *g, size_t i)
{
    size_t end = i + 1;

    while (end < g->n && g->tasks[end].kind == g->tasks[i].kind &&
           g->tasks[end].traffic < RUN_FACTOR * g->tasks[i].traffic)
        end++;
    return end;
}

static ncclResult_t decide_run(struct group *g, size_t i, size_t end,
                               int n_pipe_ops)
{
    struct mock_call sum = g->tasks[i].call;
    struct mock_outcome *first = &g->outcomes[g->tasks[i].number];
    ncclResult_t rc;

    sum.n_pipe_ops = n_pipe_ops;
    for (size_t j = i + 1; j < end; j++)
        sum.n_bytes += g->tasks[j].call.n_bytes;
    rc = mock_comm_decide(g->comm, &sum, first, &g->tasks[i].max_channels);
    for (size_t j = i + 1; j < end; j++) {
        g->tasks[j].max_channels = g->tasks[i].max_channels;
        g->outcomes[g->tasks[j].number] = *first;
        g->outcomes[g->tasks[j].number].asked = false;
    }
    return rc;
}

static ncclResult_t decide_all(struct group *g)
{
    int n_channels = mock_comm_model(g->comm)->n_channels;
    int n_pipe_ops = ((int)g->n + n_channels - 1) / n_channels;
    ncclResult_t rc = ncclSuccess;

    if (g->n == 1)
        n_pipe_ops = g->tasks[0].call.n_pipe_ops;
    for (size_t i = 0; i < g->n && rc == ncclSuccess;) {
        size_t end = run_end(g, i);

        rc = decide_run(g, i, end, n_pipe_ops);
        i = end;
    }
    return rc;
}

static enum mock_kind kind_of(const struct group *g, const struct task *task)
{
    return mock_kind_of(mock_comm_model(g->comm),
                        g->outcomes[task->number].algo);
}

static void announce(const struct group *g, const struct task *task,
                     struct mock_lane *lane)
{
    mock_comm_announce(g->comm, &task->call, &g->outcomes[task->number],
                       task->max_channels, lane);
}

static ncclResult_t schedule(struct group *g, const struct task *task,
                             struct mock_lane *lane)
{
    struct mock_outcome *outcome = &g->outcomes[task->number];

    if (lane->alone) {
        *lane = mock_lane_of(mock_comm_model(g->comm), outcome->algo);
        announce(g, task, lane);
    }
    return mock_comm_schedule(g->comm, &task->call, lane, outcome);
}

/* Those that share the channels of one kind. */
static ncclResult_t schedule_kind(struct group *g, enum mock_kind kind)
{
    struct mock_lane lane = {0};
    ncclResult_t rc = ncclSuccess;

    for (size_t i = 0; i < g->n; i++) {
        if (kind_of(g, &g->tasks[i]) != kind)
            continue;
        if (lane.limit == 0)
            lane = mock_lane_of(mock_comm_model(g->comm),
                                g->outcomes[g->tasks[i].number].algo);
        announce(g, &g->tasks[i], &lane);
    }
    for (size_t i = 0; i < g->n && rc == ncclSuccess; i++)
        if (kind_of(g, &g->tasks[i]) == kind)
            rc = schedule(g, &g->tasks[i], &lane);
    return rc;
}

/* Takes in the calls that have anything to decide. */
static ncclResult_t take_in(struct group *g, const struct mock_call *calls,
                            size_t n)
{
    const struct mock_model *model = mock_comm_model(g->comm);

    for (size_t i = 0; i < n; i++) {
        struct task *task = &g->tasks[g->n];
        ncclResult_t rc =
            mock_comm_check(&calls[i], &task->call, &g->outcomes[i]);

        if (rc != ncclSuccess)
            return rc;
        if (!mock_comm_asks(g->comm, &task->call))
            continue;
        task->number = i;
        task->traffic = mock_traffic(model, task->call.coll, task->call.n_bytes,
                                     task->call.element_size);
        task->bin = bin_of(task->traffic);
        g->n++;
    }
    return ncclSuccess;
}

ncclResult_t mock_comm_group(struct mock_comm *comm,
                             const struct mock_call *calls, size_t n,
                             struct mock_outcome *outcomes_ret)
{
    struct group g = {.comm = comm, .outcomes = outcomes_ret};
    ncclResult_t rc;

    g.tasks = calloc(n + 1, sizeof(*g.tasks));
    if (g.tasks == NULL)
        return mock_fail_memory();
    rc = take_in(&g, calls, n);
    if (rc == ncclSuccess) {
        order_tasks(&g);
        rc = decide_all(&g);
    }
    for (int k = 0; k < MOCK_N_KINDS && rc == ncclSuccess; k++)
        rc = schedule_kind(&g, (enum mock_kind)k);
    free(g.tasks);
    return rc;
}
