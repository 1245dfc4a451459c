#include "ranks/rank.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/names.h"

static ncclResult_t rank_create(struct mock_rank *rank,
                                const struct mock_order *o)
{
    struct mock_comm **comms = rank->comms;
    struct mock_comm **comm;
    ncclResult_t rc;

    if (o->comm >= rank->n_comms) {
        comms = realloc(comms, (size_t)(o->comm + 1) * sizeof(*comms));
        if (comms == NULL)
            return mock_fail_memory();
        rank->comms = comms;
        while (rank->n_comms <= o->comm)
            comms[rank->n_comms++] = NULL;
    }
    comm = &rank->comms[o->comm];
    if (o->before != NULL)
        o->before(o->user, rank->number);
    switch (o->task) {
    case MOCK_SPLIT:
        rc = mock_comm_split(rank->comms[o->parent], o->machine, o->color,
                             o->rank, comm);
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

ncclResult_t mock_rank_execute(struct mock_rank *rank,
                               const struct mock_order *order,
                               struct mock_outcome *outcomes)
{
    const size_t n = order->apart ? 1 : order->n_calls; /* at a time */
    ncclResult_t rc = ncclSuccess;

    switch (order->task) {
    case MOCK_STEP:
        if (order->before_step != NULL)
            order->before_step(order->user, rank->number, order->step);
        for (size_t i = 0; i < order->n_calls && rc == ncclSuccess; i += n) {
            if (order->before_call != NULL)
                order->before_call(order->user, rank->number, &order->calls[i]);
            rc = mock_comm_group(rank->comms[order->comm], &order->calls[i], n,
                                 &outcomes[i]);
        }
        mock_clock_shift(0);
        return rc;
    case MOCK_RUN:
        return order->run(order->user, rank->number);
    case MOCK_DESTROY:
        if (order->comm < rank->n_comms) { /* it may not exist */
            mock_comm_destroy(rank->comms[order->comm]);
            rank->comms[order->comm] = NULL;
        }
        return ncclSuccess;
    default:
        return rank_create(rank, order);
    }
}

struct mock_decision mock_decision_of(int rank,
                                      const struct mock_outcome *outcome)
{
    return (struct mock_decision){.rank = rank,
                                  .algo = outcome->algo,
                                  .proto = outcome->proto,
                                  .n_channels = outcome->n_channels,
                                  .chunk_bytes = outcome->chunk_bytes};
}

static void rank_describe(const struct mock_decision *d, char text[96])
{
    int n = snprintf(text, 96, "%s/%s on %d channels",
                     mock_word(&mock_algos, d->algo),
                     mock_word(&mock_protos, d->proto), d->n_channels);

    if (d->chunk_bytes != 0 && n > 0 && n < 96)
        snprintf(text + n, (size_t)(96 - n), " in chunks of %zu",
                 d->chunk_bytes);
}

ncclResult_t mock_decision_compare(size_t step, const struct mock_call *call,
                                   const struct mock_decision *first,
                                   const struct mock_decision *other)
{
    char a[96], b[96];

    if (first->algo == other->algo && first->proto == other->proto &&
        first->n_channels == other->n_channels &&
        first->chunk_bytes == other->chunk_bytes)
        return ncclSuccess;
    rank_describe(first, a);
    rank_describe(other, b);
    return mock_fail(ncclInternalError,
                     "step %zu, %s of %zu bytes: rank %d runs %s, rank %d %s; "
                     "NCCL would hang or corrupt data",
                     step, mock_word(&mock_colls, call->coll), call->n_bytes,
                     first->rank, a, other->rank, b);
}

ncclResult_t mock_rank_run_order(struct mock_rank *rank,
                                 const struct mock_order *order,
                                 struct mock_outcome *outcomes)
{
    ncclResult_t rc;

    if (rank->carrier == NULL)
        return mock_rank_execute(rank, order, outcomes);
    rc = rank->carrier->ops->post(rank, order, outcomes);
    return rc == ncclSuccess ? rank->carrier->ops->wait(rank) : rc;
}

ncclResult_t mock_ranks_wait(struct mock_rank *ranks, int n, ncclResult_t rc)
{
    struct mock_kept first;

    mock_keep(&first, rc);
    for (int r = 0; r < n; r++) {
        ncclResult_t one = ranks[r].carrier->ops->wait(&ranks[r]);

        if (first.rc == ncclSuccess)
            mock_keep(&first,
                      mock_fail_prefix(one, "rank %d: ", ranks[r].number));
    }
    return mock_restore(&first);
}
