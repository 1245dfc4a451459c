#include "analyse/replay/replay_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/qsort.h"
#include "launch/take.h"

static enum stp_status plan_fail(struct stp_error *err, unsigned line)
{
    return stp_fail_at(err, STP_ERR_DEVICE, line, 0, "%s", mock_last_error());
}

/* ---- sizes of communicators ---- */

struct sizing {
    struct stp_replay_plan *plan;
    int *ranks; /* of each communicator; of each of its colors */
    struct stp_error *err;
};

/* The size's place, which is new if no other communicator has it. */
static enum stp_status plan_find_size(const struct sizing *s, int n_ranks,
                                      unsigned line, size_t *place)
{
    struct stp_replay_plan *plan = s->plan;
    struct stp_replay_size *size = &plan->sizes[plan->n_sizes];

    for (size_t i = 0; i < plan->n_sizes; i++)
        if (plan->sizes[i].n_ranks == n_ranks) {
            *place = i;
            return STP_OK;
        }
    size->machine = plan->machine;
    if (n_ranks != mock_machine_get_info(plan->machine)->n_ranks) {
        if (mock_machine_resize(plan->machine, n_ranks, &size->owned) !=
            ncclSuccess)
            return plan_fail(s->err, line);
        size->machine = size->owned;
    }
    size->n_ranks = n_ranks;
    *place = plan->n_sizes++;
    return STP_OK;
}

/* Whether each color is on as many nodes as the machine that is modelled for
 * it, where neighbours share nodes. */
static enum stp_status plan_check_nodes(const struct sizing *s, size_t i,
                                        const int *colors, int n)
{
    const struct stp_trace_comm *comm = &s->plan->trace->comms[i];
    const struct mock_machine_info *parent =
        mock_machine_get_info(stp_replay_machine(s->plan, comm->parent));
    const int want =
        mock_machine_get_info(stp_replay_machine(s->plan, i))->n_nodes;
    const int per_node = parent->n_ranks / parent->n_nodes;
    int *n_nodes = stp_take(2 * (size_t)n, sizeof(*n_nodes)); /* by color */
    int *last = n_nodes + n; /* node of each color, plus 1 */
    bool fits = true;

    for (int r = 0; r < n; r++)
        if (colors[r] >= 0 && last[colors[r]] != r / per_node + 1) {
            last[colors[r]] = r / per_node + 1;
            n_nodes[colors[r]]++;
        }
    for (int c = 0; c < n; c++)
        fits &= n_nodes[c] == 0 || n_nodes[c] == want;
    free(n_nodes);
    return fits ? STP_OK
                : stp_fail_at(s->err, STP_ERR_DEVICE, comm->line, 0,
                              "communicator '%s' of ranks on several nodes "
                              "that do not follow each other: no machine is "
                              "modelled for them, expected one node",
                              comm->name);
}

/* The colors of the parent's ranks, of a communicator that has some. */
static enum stp_status plan_color(const struct sizing *s, size_t i)
{
    const struct stp_trace_comm *comm = &s->plan->trace->comms[i];
    const int n = s->ranks[comm->parent];
    const struct stp_rank_groups asked = {(unsigned)comm->n_ranks,
                                          comm->stride};
    struct stp_rank_groups groups = {0, 0};
    int *colors;

    if (comm->stride == 0 && comm->color == NULL)
        return STP_OK;
    if (comm->n_listed > n)
        return stp_fail_at(s->err, STP_ERR_DEVICE, comm->line, 0,
                           "communicator '%s' with rank %d, expected ranks "
                           "below the %d of its parent",
                           comm->name, comm->n_listed - 1, n);
    s->plan->colors[i] = STP_TAKE(colors, (size_t)n);
    if (comm->stride != 0)
        groups = stp_rank_groups_cut(&asked, (unsigned)n);
    for (int r = 0; r < n; r++)
        colors[r] = comm->stride != 0
                        ? (int)stp_rank_groups_color(&groups, (unsigned)r)
                    : r < comm->n_listed ? comm->color[r]
                                         : -1;
    return plan_check_nodes(s, i, colors, n);
}

/* With 'asked' ranks in the largest communicators, or for 0 the trace's. */
static enum stp_status plan_make_sizes(struct stp_replay_plan *plan, int asked,
                                       struct stp_error *err)
{
    const size_t n = plan->trace->n_comms;
    const struct stp_trace_comm *comms = plan->trace->comms;
    struct sizing s = {.plan = plan, .err = err};
    /* of those that the trace gives no number, or the largest */
    const int world =
        asked != 0 ? asked : mock_machine_get_info(plan->machine)->n_ranks;
    int largest = 0; /* that the trace says */
    enum stp_status status = STP_OK;

    STP_TAKE(s.ranks, n);
    STP_TAKE(plan->sizes, n);
    STP_TAKE(plan->size_of, n);
    STP_TAKE(plan->colors, n);
    for (size_t i = 0; i < n; i++)
        if (comms[i].n_ranks > largest)
            largest = comms[i].n_ranks;
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        const struct stp_trace_comm *comm = &comms[i];
        const struct stp_rank_groups groups = {(unsigned)comm->n_ranks,
                                               comm->stride};
        const int n_parent = s.ranks[comm->parent];
        const int most = comm->creation == STP_SPLIT    ? n_parent
                         : comm->creation == STP_SHRINK ? n_parent - 1
                         : asked != 0                   ? world
                                                        : MOCK_MAX_RANKS;

        s.ranks[i] = comm->n_ranks;
        if (comm->stride != 0)
            s.ranks[i] =
                (int)stp_rank_groups_cut(&groups, (unsigned)n_parent).size;
        else if (comm->n_ranks == 0)
            s.ranks[i] = comm->creation == STP_INIT ? world : n_parent;
        else if (asked != 0 && comm->n_ranks == largest && comm->color == NULL)
            s.ranks[i] = world;
        if (s.ranks[i] > most)
            status = stp_fail_at(
                err, STP_ERR_DEVICE, comm->line, 0,
                "communicator '%s' of %d ranks, expected at most %d",
                comm->name, s.ranks[i], most);
        STP_THEN(status, plan_find_size(&s, s.ranks[i],
                                        comm->n_ranks != 0 ? comm->line : 0,
                                        &plan->size_of[i]));
        STP_THEN(status, plan_color(&s, i));
    }
    free(s.ranks);
    return status;
}

const struct mock_machine *
stp_replay_machine(const struct stp_replay_plan *plan, size_t comm)
{
    return plan->sizes[plan->size_of[comm]].machine;
}

/* ---- steps ---- */

static bool plan_same_group(const struct stp_trace_row *a,
                            const struct stp_trace_row *b)
{
    return a->group != 0 && a->group == b->group;
}

/* A row and the number that it has in its trace. */
struct place {
    size_t comm;
    size_t row;
};

static int plan_compare_places(const void *pa, const void *pb)
{
    const struct place *a = pa;
    const struct place *b = pb;

    STP_RETURN_ORDER(STP_ORDER(a->comm, b->comm));
    return STP_ORDER(a->row, b->row);
}

static void plan_make_steps(struct stp_replay_plan *plan)
{
    const struct stp_trace *t = plan->trace;
    struct place *places = stp_take(t->n_rows, sizeof(*places));
    size_t end;

    for (size_t i = 0; i < t->n_rows; i++)
        places[i] = (struct place){t->rows[i].comm, i};
    /* A group over several communicators is a group on each of them. */
    for (size_t i = 0; i < t->n_rows; i = end) {
        for (end = i + 1; end < t->n_rows; end++)
            if (!plan_same_group(&t->rows[i], &t->rows[end]))
                break;
        STP_SORT(&places[i], end - i, plan_compare_places);
    }
    for (size_t i = 0; i < t->n_rows; i++)
        plan->order[i] = places[i].row;
    free(places);

    for (size_t i = 0; i < t->n_rows; i++) {
        const struct stp_trace_row *row = &t->rows[plan->order[i]];
        const struct stp_trace_row *last =
            i > 0 ? &t->rows[plan->order[i - 1]] : row;
        struct stp_replay_segment *segment = &plan->segments[plan->n_segments];

        plan->calls[i] = row->call;
        if (i == 0 || !plan_same_group(last, row) || last->comm != row->comm) {
            if (plan->n_segments > 0 && segment[-1].comm == row->comm)
                segment[-1].n_steps++;
            else {
                *segment =
                    (struct stp_replay_segment){row->comm, plan->n_steps, 1};
                plan->n_segments++;
            }
            plan->first[plan->n_steps] = i;
            plan->steps[plan->n_steps++].calls = &plan->calls[i];
        }
        plan->steps[plan->n_steps - 1].n++;
    }
}

static enum stp_status plan_check_pipe_ops(const struct stp_replay_plan *plan,
                                           size_t step, struct stp_error *err)
{
    const struct mock_step *s = &plan->steps[step];
    const struct stp_trace_row *row =
        &plan->trace->rows[plan->order[plan->first[step]]];
    int n_channels =
        mock_machine_get_info(stp_replay_machine(plan, row->comm))->n_channels;
    int n_tasks = 0; /* collectives that there is anything to do for */
    int n;

    if (row->group == 0)
        return STP_OK;
    for (size_t i = 0; i < s->n; i++)
        n_tasks += s->calls[i].n_bytes != 0;
    n = (n_tasks + n_channels - 1) / n_channels;
    for (size_t i = 0; i < s->n; i++) {
        row = &plan->trace->rows[plan->order[plan->first[step] + i]];
        if (row->call.n_pipe_ops != 0 && row->call.n_pipe_ops != n)
            return stp_fail_at(
                err, STP_ERR_DEVICE, row->place.line, 0,
                "numPipeOps %d, but NCCL comes to %d for the group",
                row->call.n_pipe_ops, n);
    }
    return STP_OK;
}

/* ---- life ---- */

enum stp_status stp_replay_plan_make(struct stp_replay_plan *plan,
                                     const struct stp_replay_options *options,
                                     const struct stp_trace *trace,
                                     struct stp_error *err)
{
    memset(plan, 0, sizeof(*plan));
    plan->trace = trace;
    if (mock_machine_load(options->machine_path, &plan->machine) != ncclSuccess)
        return plan_fail(err, 0);
    plan->nccl = options->nccl != NULL
                     ? options->nccl
                     : mock_machine_get_info(plan->machine)->nccl;
    STP_TRY(plan_make_sizes(plan, (int)options->n_ranks, err));
    STP_TAKE(plan->order, trace->n_rows);
    STP_TAKE(plan->calls, trace->n_rows);
    STP_TAKE(plan->steps, trace->n_rows);
    STP_TAKE(plan->first, trace->n_rows);
    STP_TAKE(plan->segments, trace->n_rows);
    plan_make_steps(plan);
    for (size_t s = 0; s < plan->n_steps; s++)
        STP_TRY(plan_check_pipe_ops(plan, s, err));
    return STP_OK;
}

void stp_replay_plan_free(struct stp_replay_plan *plan)
{
    for (size_t i = 0; i < plan->n_sizes; i++)
        mock_machine_free(plan->sizes[i].owned);
    for (size_t i = 0; plan->colors != NULL && i < plan->trace->n_comms; i++)
        free(plan->colors[i]);
    free(plan->colors);
    mock_machine_free(plan->machine);
    free(plan->sizes);
    free(plan->size_of);
    free(plan->order);
    free(plan->calls);
    free(plan->steps);
    free(plan->first);
    free(plan->segments);
}

enum stp_status stp_replay_open(const struct stp_replay_plan *plan,
                                const char *plugin, struct mock_nccl **nccl,
                                struct stp_error *err)
{
    const struct mock_nccl_options options = {.version = plan->nccl,
                                              .tuner_plugin = plugin};

    if (mock_nccl_create(&options, nccl) == ncclSuccess)
        return STP_OK;
    return plan_fail(err, 0);
}
