#include "ranks/rank.h"

#include <stdlib.h>

#include "base/error.h"

/* Makes room for a communicator with this number. */
static ncclResult_t rank_reserve(struct mock_rank *rank, int comm)
{
    struct mock_comm **comms;

    if (comm < rank->n_comms)
        return ncclSuccess;
    comms =
        realloc(rank->comms, (size_t)(comm + 1) * sizeof(struct mock_comm *));
    if (comms == NULL)
        return mock_fail_memory();
    rank->comms = comms;
    while (rank->n_comms <= comm)
        rank->comms[rank->n_comms++] = NULL;
    return ncclSuccess;
}

static ncclResult_t rank_create(struct mock_rank *rank,
                                const struct mock_order *o)
{
    struct mock_comm **comm;
    ncclResult_t rc = rank_reserve(rank, o->comm);

    if (rc != ncclSuccess)
        return rc;
    comm = &rank->comms[o->comm];
    if (o->before != NULL)
        o->before(o->user, rank->number);
    switch (o->task) {
    case MOCK_SPLIT:
        rc =
            mock_comm_split(rank->comms[o->parent], o->machine, o->color, comm);
        break;
    case MOCK_SHRINK:
        rc = mock_comm_shrink(rank->comms[o->parent], o->machine, comm);
        break;
    default:
        rc = mock_comm_create_rank(rank->nccl, o->machine, o->comm_id,
                                   rank->number, comm);
    }
    mock_clock_shift(0);
    return rc;
}

static ncclResult_t rank_step(struct mock_rank *rank,
                              const struct mock_order *o,
                              struct mock_outcome *outcomes)
{
    ncclResult_t rc;

    if (o->before_step != NULL)
        o->before_step(o->user, rank->number, o->step);
    rc = mock_comm_group(rank->comms[o->comm], o->calls, o->n_calls, outcomes);
    mock_clock_shift(0);
    return rc;
}

/* The communicator may not exist. */
static void rank_destroy(struct mock_rank *rank, int comm)
{
    if (comm >= rank->n_comms)
        return;
    mock_comm_destroy(rank->comms[comm]);
    rank->comms[comm] = NULL;
}

ncclResult_t mock_rank_execute(struct mock_rank *rank,
                               const struct mock_order *order,
                               struct mock_outcome *outcomes)
{
    switch (order->task) {
    case MOCK_STEP:
        return rank_step(rank, order, outcomes);
    case MOCK_DESTROY:
        rank_destroy(rank, order->comm);
        return ncclSuccess;
    default:
        return rank_create(rank, order);
    }
}
