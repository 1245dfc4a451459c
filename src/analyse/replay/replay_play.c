/* replay_play.c - one random schedule of a replay */
#include <stdio.h>
#include <stdlib.h>

#include "analyse/replay/replay_parts.h"

/* One schedule. */
struct play {
    const struct stp_replay_plan *plan;
    struct mock_nccl *nccl;
    enum mock_layout layout;
    unsigned seed;
    struct mock_ranks **ranks; /* of each communicator; NULL: not now */
    struct stp_replayed *rows; /* NULL: nobody wants to know */
    size_t first;              /* step of the segment that is played */
    struct stp_error *err;
};

enum stp_status stp_replay_open(const struct stp_replay_plan *plan,
                                const char *plugin, struct mock_nccl **nccl,
                                struct stp_error *err)
{
    const struct mock_nccl_options options = {.version = plan->nccl,
                                              .tuner_plugin = plugin};

    if (mock_nccl_create(&options, nccl) == ncclSuccess)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
}

static enum stp_status fail(const struct play *p, size_t comm)
{
    const struct stp_trace_comm *c = &p->plan->trace->comms[comm];
    char where[64] = "";

    if (p->plan->trace->n_comms > 1)
        snprintf(where, sizeof(where), "communicator '%s': ", c->name);
    return stp_fail(p->err, STP_ERR_DEVICE, "schedule %u: %s%s", p->seed, where,
                    mock_last_error());
}

static void note(void *user, size_t step, size_t i,
                 const struct mock_outcome *outcome)
{
    const struct play *p = user;
    const struct stp_replay_plan *plan = p->plan;
    size_t call = plan->first[p->first + step] + i;
    struct stp_replayed *row = &p->rows[plan->order[call]];

    row->algo = outcome->algo;
    row->proto = outcome->proto;
    row->n_channels = outcome->n_channels;
}

/* ---- communicators ---- */

static ncclResult_t create(const struct play *p, size_t i)
{
    const struct stp_trace_comm *comm = &p->plan->trace->comms[i];
    const struct mock_machine *machine = stp_replay_machine(p->plan, i);
    struct mock_ranks *parent = p->ranks[comm->parent];
    const struct mock_ranks_options options = {
        .layout = p->layout,
        .comm_id = mock_new_comm_id(),
    };

    switch (comm->creation) {
    case STP_SPLIT:
        return mock_ranks_split(parent, machine, 0, &p->ranks[i]);
    case STP_SHRINK:
        return mock_ranks_shrink(parent, machine, &p->ranks[i]);
    default:
        return mock_ranks_create(p->nccl, machine, &options, &p->ranks[i]);
    }
}

static void destroy(const struct play *p, size_t i)
{
    mock_ranks_destroy(p->ranks[i]);
    p->ranks[i] = NULL;
}

/* What takes another one's name is created first: that may be its parent. */
static enum stp_status open_comm(const struct play *p, size_t i)
{
    if (p->ranks[i] != NULL)
        return STP_OK;
    if (create(p, i) != ncclSuccess)
        return fail(p, i);
    if (p->plan->trace->comms[i].replaces != i)
        destroy(p, p->plan->trace->comms[i].replaces);
    return STP_OK;
}

/* ---- playing ---- */

static enum stp_status play_segment(struct play *p, size_t number)
{
    const struct stp_replay_segment *segment = &p->plan->segments[number];
    const struct mock_script script = {
        .steps = &p->plan->steps[segment->first],
        .n_steps = segment->n_steps,
        .decided = p->rows != NULL ? note : NULL,
        .user = p,
    };
    /* each its own schedule, far from those of other seeds */
    uint64_t seed = p->seed + ((uint64_t)number << 32);
    enum stp_status status = open_comm(p, segment->comm);

    if (status != STP_OK)
        return status;
    p->first = segment->first;
    if (mock_ranks_play(p->ranks[segment->comm], &script, seed) != ncclSuccess)
        return fail(p, segment->comm);
    return STP_OK;
}

enum stp_status stp_replay_seed(const struct stp_replay_plan *plan,
                                struct mock_nccl *nccl, enum mock_layout layout,
                                unsigned seed, struct stp_replayed *rows,
                                struct stp_error *err)
{
    size_t n = plan->trace->n_comms;
    struct play p = {.plan = plan,
                     .nccl = nccl,
                     .layout = layout,
                     .seed = seed,
                     .ranks = calloc(n, sizeof(struct mock_ranks *)),
                     .rows = rows,
                     .err = err};
    enum stp_status status = STP_OK;

    if (p.ranks == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < plan->n_segments && status == STP_OK; i++)
        status = play_segment(&p, i);
    for (size_t i = n; i-- > 0;)
        destroy(&p, i);
    free(p.ranks);
    return status;
}
