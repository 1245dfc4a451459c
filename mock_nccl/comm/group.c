/* group.c - several collectives in one group
 *
 * Decides on each run of similar collectives as ncclPrepareTasks() does, then
 * assigns channels kind by kind, as scheduleCollTasksToPlan() does; both are in
 * NCCL's src/enqueue.cc. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"
#include "plugins/loader.h"

/* Decides on the tasks from 'i' to 'end', which share a decision. */
static ncclResult_t group_decide_run(struct mock_group *g, size_t i, size_t end)
{
    const int n_channels = g->comm->model.n_channels;
    struct mock_task *task = &g->tasks[i];
    struct mock_outcome *first = &g->outcomes[task->number];
    struct mock_call sum = task->call;
    ncclResult_t rc;

    if (g->n > 1)
        sum.n_pipe_ops = ((int)g->n + n_channels - 1) / n_channels;
    /* the first of the kind says for all of it what the network can do */
    for (size_t j = i; j > 0 && g->tasks[j - 1].kind == task->kind; j--)
        sum.no_collnet = g->tasks[j - 1].call.no_collnet;
    for (size_t j = i + 1; j < end; j++)
        sum.n_bytes += g->tasks[j].call.n_bytes;
    /* NCCL looks for all the bytes where the smallest buffer is */
    if (end > i + 1)
        sum.reg_buff = task->call.reg_buff > 1;
    rc = mock_comm_decide(g->comm, &sum, MOCK_SCOPE_ALL, first,
                          &task->max_channels);
    for (size_t j = i + 1; j < end; j++) {
        g->tasks[j].max_channels = task->max_channels;
        g->outcomes[g->tasks[j].number] = *first;
        g->outcomes[g->tasks[j].number].asked = false;
    }
    for (size_t j = i; j < end && rc == ncclSuccess; j++)
        rc = mock_comm_decide_own(g->comm, &g->tasks[j].call,
                                  &g->outcomes[g->tasks[j].number],
                                  &g->tasks[j].max_channels);
    return rc;
}

static enum mock_kind group_kind_of(const struct mock_group *g,
                                    const struct mock_task *task)
{
    return mock_kind_of(&g->comm->model, g->outcomes[task->number].algo);
}

/* ---- kernels: a launch has room for some batches of collectives ---- */

enum {
    ARGUMENT_BYTES = 4096,
    HEAD_BYTES = 32,
    BATCH_BYTES = 16,
    EXPECTED = 4, /* collectives in a batch, before any is scheduled */
    REACH = 63,   /* from the first of a batch to the last, before NCCL extends
                     it by another */
    MAX_CHANNELS = 64,
};

/* The batches of a launch: on each channel, collectives of one function. */
struct launch {
    size_t begin; /* of its tasks */
    int n_batches;
    struct channel {
        const struct mock_task *last;
        size_t base; /* the first of the last extension */
        int n;       /* in the last batch */
    } channels[MAX_CHANNELS];
};

static void group_add_batches(const struct mock_group *g, struct launch *launch,
                              const struct mock_task *task)
{
    const struct mock_outcome *outcome = &g->outcomes[task->number];
    const size_t place = (size_t)(task - g->tasks);

    for (int c = 0; c < outcome->n_channels; c++) {
        struct channel *channel = &launch->channels[outcome->first_channel + c];
        const struct mock_task *last = channel->last;
        const bool is_new = last == NULL ||
                            !mock_same_kind(&last->call, &task->call) ||
                            g->outcomes[last->number].algo != outcome->algo ||
                            g->outcomes[last->number].proto != outcome->proto ||
                            channel->n == g->comm->model.rules->batch;

        if (is_new)
            channel->n = 0;
        if (is_new || place - channel->base > REACH) {
            channel->base = place;
            launch->n_batches++;
        }
        channel->n++;
        channel->last = task;
    }
}

/* The channels that the collectives of a kind share from the i-th on. */
static struct mock_lane group_announce(const struct mock_group *g, size_t i,
                                       size_t end)
{
    const enum mock_kind kind = group_kind_of(g, &g->tasks[i]);
    struct mock_lane lane =
        mock_lane_of(&g->comm->model, g->outcomes[g->tasks[i].number].algo);

    if (lane.alone)
        end = i + 1;
    for (; i < end && group_kind_of(g, &g->tasks[i]) == kind; i++) {
        const struct mock_task *task = &g->tasks[i];
        const struct mock_work work =
            mock_comm_work(&task->call, &g->outcomes[task->number]);

        mock_lane_add(&lane, &g->comm->model, &work, task->max_channels);
    }
    return lane;
}

/* Schedules what one kernel runs, and sets *end_ret to what follows it. */
static ncclResult_t group_schedule_launch(struct mock_group *g, int number,
                                          size_t *end_ret)
{
    const bool splits = !g->comm->version->choice.groups_by_count;
    const long long bytes = mock_variable_number(
        g->comm->nccl->options.variables[MOCK_WORK_ARGS_BYTES], ARGUMENT_BYTES);
    const int room =
        ((int)(bytes < ARGUMENT_BYTES ? bytes : ARGUMENT_BYTES) - HEAD_BYTES) /
        BATCH_BYTES;
    const size_t most = (size_t)room * EXPECTED + 1;
    struct launch launch = {.begin = *end_ret};
    size_t end = g->n;
    struct mock_lane lane = {0};

    if (splits && end - launch.begin > most)
        end = launch.begin + most;
    for (size_t i = launch.begin; i < end; i++) {
        struct mock_task *task = &g->tasks[i];
        struct mock_outcome *outcome = &g->outcomes[task->number];
        bool fits;

        if (i == launch.begin || lane.alone ||
            group_kind_of(g, task) != group_kind_of(g, task - 1))
            lane = group_announce(g, i, end);
        MOCK_TRY(mock_comm_schedule(g->comm, &task->call, &lane, outcome,
                                    splits ? room - launch.n_batches : INT_MAX,
                                    &fits));
        if (!fits && i == launch.begin)
            return mock_fail(ncclInternalError,
                             "NCCL_WORK_ARGS_BYTES=%lld has no room for a "
                             "collective on %d channels",
                             bytes, outcome->n_channels);
        if (!fits)
            break;
        group_add_batches(g, &launch, task);
        outcome->launch = number;
        *end_ret = i + 1;
    }
    return ncclSuccess;
}

static int group_compare_kind(const void *pa, const void *pb)
{
    const struct mock_task *a = pa;
    const struct mock_task *b = pb;

    if (a->list != b->list)
        return a->list < b->list ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* ---- broadcasts of several roots, as AllGatherV: follows
 * src/scheduler/allgatherv_sched.cc of NCCL 2.29 and later ---- */

enum {
    WORK_BYTES = 48,  /* parts of one broadcast */
    PART_ALIGN = 256, /* bytes */
};

/* Moves broadcasts of several roots from the tasks to g->broadcasts. */
static void group_part_broadcasts(struct mock_group *g)
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

/* Decides and schedules these broadcasts, as AllGatherV. */
static ncclResult_t group_gather(struct mock_group *g)
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

/* ---- the whole group ---- */

/* Fills in defaults, clears *outcome, and rejects an invalid call. */
static ncclResult_t group_check_call(const struct mock_call *call,
                                     struct mock_call *filled_ret,
                                     struct mock_outcome *outcome)
{
    size_t element =
        call->element_size != 0 ? call->element_size : (call->fp8 ? 1 : 2);

    *filled_ret = *call;
    filled_ret->element_size = element;
    if (call->n_pipe_ops == 0)
        filled_ret->n_pipe_ops = 1;
    *outcome = (struct mock_outcome){.algo = NCCL_ALGO_UNDEF,
                                     .proto = NCCL_PROTO_UNDEF};
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            outcome->cost[a][p] = outcome->cost_after[a][p] =
                NCCL_ALGO_PROTO_IGNORE;
    if ((unsigned)call->coll >= NCCL_NUM_TUNED_FUNCS)
        return mock_refuse("no collective %d", (int)call->coll);
    if (element != 1 && element != 2 && element != 4 && element != 8)
        return mock_refuse("no type of %zu bytes", element);
    if (call->fp8 && element != 1)
        return mock_refuse("no fp8 type of %zu bytes", element);
    if (filled_ret->n_pipe_ops < 1)
        return mock_refuse("%d operations in a group", call->n_pipe_ops);
    return ncclSuccess;
}

/* Adds the calls that need a decision, and reports them to the profiler. */
static ncclResult_t group_take_in(struct mock_group *g,
                                  const struct mock_call *calls, size_t n)
{
    const struct mock_model *model = &g->comm->model;

    for (size_t i = 0; i < n; i++) {
        struct mock_task *task = &g->tasks[g->n];
        struct mock_call *call = &task->call;

        MOCK_TRY(group_check_call(&calls[i], call, &g->outcomes[i]));
        if (!mock_comm_asks(g->comm, call))
            continue;
        if (g->captured)
            call->reg_buff = 2; /* NCCL registers them by itself */
        task->number = i;
        task->place = g->n++;
        task->traffic = mock_traffic(model, call);
        mock_profile_call(&g->comm->listener, call,
                          mock_share_bytes(model, call), n > 1, g->captured,
                          &task->profiled);
    }
    mock_profile_group_end(&g->comm->listener);
    return ncclSuccess;
}

static struct mock_launched group_get_launched(const struct mock_group *g,
                                               const struct mock_task *task)
{
    const struct mock_call *call = &task->call;

    return (struct mock_launched){
        .call = *call,
        .number = task->number,
        .share_bytes = mock_share_bytes(&g->comm->model, call),
        .counts_channels = g->outcomes[task->number].kernel != NULL ||
                           group_kind_of(g, task) < MOCK_KIND_COLLNET,
        .kernel = g->outcomes[task->number].kernel,
        .profiled = task->profiled,
    };
}

static void group_list_launched(const struct mock_group *g,
                                struct mock_launched *launched_ret)
{
    for (size_t i = 0; i < g->n; i++)
        launched_ret[i] = group_get_launched(g, &g->tasks[i]);
}

/* Reports general kernels, of a replay only those that are timed. */
static void group_report_kernels(struct mock_listener *l,
                                 struct mock_launched *launched, size_t n,
                                 struct mock_outcome *outcomes)
{
    for (size_t i = 0, end; i < n; i = end) {
        const int launch = outcomes[launched[i].number].launch;
        bool is_wanted = false;

        for (end = i; end < n; end++) {
            if (outcomes[launched[end].number].launch != launch)
                break;
            is_wanted |= !launched[end].is_replay ||
                         outcomes[launched[end].number].is_timed;
        }
        if (is_wanted)
            mock_profile_launch(l, launched + i, end - i, outcomes);
    }
}

/* Reports the launches to the profiler: symmetric kernels, each by itself, then
 * general ones, then copies. */
static ncclResult_t group_launch(const struct mock_group *g)
{
    struct mock_listener *l = &g->comm->listener;
    struct mock_launched *launched;

    if (l->profiler == NULL)
        return ncclSuccess;
    launched = calloc(g->n + g->n_kernels + 1, sizeof(*launched));
    if (launched == NULL)
        return mock_fail_memory();
    for (size_t i = 0; i < g->n_kernels;) {
        size_t n = 0;

        /* the first task of the next kernel has channels */
        do
            launched[n++] = group_get_launched(g, &g->kernels[i++]);
        while (i < g->n_kernels &&
               g->outcomes[g->kernels[i].number].n_channels == 0);
        mock_profile_launch(l, launched, n, g->outcomes);
    }
    group_list_launched(g, launched);
    group_report_kernels(l, launched, g->n, g->outcomes);
    for (size_t i = 0; i < g->n_copies; i++) {
        const struct mock_launched copy = group_get_launched(g, &g->copies[i]);

        mock_profile_copy(l, &copy);
    }
    free(launched);
    return ncclSuccess;
}

/* Takes the calls in, and decides on all. Tasks are to be freed, or lie in
 * 'one' if there is one. */
static ncclResult_t group_begin(struct mock_group *g,
                                const struct mock_call *calls, size_t n,
                                struct mock_task one[4])
{
    const struct mock_choice_rules *rules = &g->comm->version->choice;

    if (n == 1)
        memset(one, 0, 4 * sizeof(*one));
    g->tasks = n == 1 ? one : calloc(4 * n + 1, sizeof(*g->tasks));
    if (g->tasks == NULL)
        return mock_fail_memory();
    g->broadcasts = &g->tasks[n];
    g->copies = &g->tasks[2 * n];
    g->kernels = &g->tasks[3 * n];
    MOCK_TRY(group_take_in(g, calls, n));
    if (mock_group_is_rearch(g))
        return mock_group_decide_rearch(g);
    mock_apart_copies(g);
    group_part_broadcasts(g);
    MOCK_TRY(mock_apart_symmetric(g));
    mock_group_order(rules, g->tasks, g->n);
    for (size_t i = 0, end; i < g->n; i = end) {
        end = mock_group_run_end(rules, g->tasks, g->n, i);
        MOCK_TRY(group_decide_run(g, i, end));
    }
    return ncclSuccess;
}

/* Up to the launch.  All tasks are scheduled kind by kind. */
static ncclResult_t group_run(struct mock_group *g,
                              const struct mock_call *calls, size_t n,
                              struct mock_task one[4])
{
    int number = 0;

    MOCK_TRY(group_begin(g, calls, n, one));
    for (size_t i = 0; i < g->n; i++) {
        g->tasks[i].list = group_kind_of(g, &g->tasks[i]);
        g->tasks[i].place = i;
    }
    if (g->n > 1)
        qsort(g->tasks, g->n, sizeof(*g->tasks), group_compare_kind);
    for (size_t end = 0; end < g->n; number++)
        MOCK_TRY(group_schedule_launch(g, number, &end));
    MOCK_TRY(group_gather(g));
    mock_run_copies(g);
    return ncclSuccess;
}

static void group_end(struct mock_group *g, const struct mock_task *one)
{
    mock_profile_group_stop(&g->comm->listener);
    if (g->tasks != one)
        free(g->tasks);
}

ncclResult_t mock_comm_group(struct mock_comm *comm,
                             const struct mock_call *calls, size_t n,
                             struct mock_outcome *outcomes_ret)
{
    struct mock_group g = {.comm = comm, .outcomes = outcomes_ret};
    struct mock_task one[4];
    ncclResult_t rc = group_run(&g, calls, n, one);

    MOCK_THEN(rc, group_launch(&g));
    group_end(&g, one);
    return rc;
}

ncclResult_t mock_comm_simulate(struct mock_comm *comm,
                                const struct mock_call *calls, size_t n,
                                float *us_ret)
{
    struct mock_group g = {.comm = comm,
                           .outcomes = calloc(n + 1, sizeof(*g.outcomes))};
    struct mock_task one[4];
    ncclResult_t rc =
        comm->version->choice.groups_by_count
            ? mock_fail(ncclInvalidUsage, "NCCL 2.21 simulates no group")
        : g.outcomes == NULL ? mock_fail_memory()
                             : group_begin(&g, calls, n, one);

    if (rc == ncclSuccess)
        *us_ret = g.n == 0 ? -1 : g.outcomes[g.tasks[g.n - 1].number].us;
    group_end(&g, one);
    free(g.outcomes);
    return rc;
}

ncclResult_t mock_comm_collective(struct mock_comm *comm,
                                  const struct mock_call *call,
                                  struct mock_outcome *outcome_ret)
{
    return mock_comm_group(comm, call, 1, outcome_ret);
}

/* ---- CUDA graphs ---- */

/* NCCL plans a captured collective once; the graph's launches repeat that. */
struct mock_cuda_graph {
    struct mock_comm *comm;
    size_t n;
    struct mock_outcome *outcomes; /* outcome of each collective */
    size_t n_launched;
    struct mock_launched launched[]; /* those that a kernel runs */
};

ncclResult_t mock_comm_capture(struct mock_comm *comm,
                               const struct mock_call *calls, size_t n,
                               struct mock_cuda_graph **graph_ret)
{
    struct mock_cuda_graph *graph =
        calloc(1, sizeof(*graph) + n * sizeof(graph->launched[0]));
    struct mock_group g = {.comm = comm, .captured = true};
    struct mock_task one[4];
    ncclResult_t rc;

    if (graph == NULL ||
        (graph->outcomes = calloc(n + 1, sizeof(*graph->outcomes))) == NULL) {
        free(graph);
        return mock_fail_memory();
    }
    graph->comm = comm;
    graph->n = n;
    g.outcomes = graph->outcomes;
    rc = group_run(&g, calls, n, one);
    graph->n_launched = rc == ncclSuccess ? g.n : 0;
    if (rc == ncclSuccess)
        group_list_launched(&g, graph->launched);
    group_end(&g, one);
    if (rc != ncclSuccess) {
        mock_graph_destroy(graph);
        return rc;
    }
    /* from now on no tuner is asked, and the capture's mask holds */
    for (size_t i = 0; i < n; i++)
        graph->outcomes[i].asked = false;
    for (size_t i = 0; i < graph->n_launched; i++) {
        struct mock_launched *launched = &graph->launched[i];

        launched->is_replay = true;
        graph->outcomes[launched->number].is_timed =
            mock_profile_is_timed(&launched->profiled);
    }
    *graph_ret = graph;
    return ncclSuccess;
}

void mock_graph_launch(const struct mock_cuda_graph *graph,
                       struct mock_outcome *outcomes_ret)
{
    memcpy(outcomes_ret, graph->outcomes,
           graph->n * sizeof(graph->outcomes[0]));
}

/* NCCL adds host functions to the graph for those that are timed. */
void mock_graph_call_back(struct mock_cuda_graph *graph,
                          struct mock_outcome *outcomes)
{
    group_report_kernels(&graph->comm->listener, graph->launched,
                         graph->n_launched, outcomes);
}

void mock_graph_destroy(struct mock_cuda_graph *graph)
{
    if (graph == NULL)
        return;
    free(graph->outcomes);
    free(graph);
}
