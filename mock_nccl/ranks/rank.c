#include "ranks/rank.h"

#include <pthread.h>
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

/* ---- a rank in a thread of its own ---- */

struct thread {
    struct mock_carrier carrier;
    struct mock_rank *rank;
    pthread_t id;
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t changed;
    enum { IDLE, POSTED, DONE, STOPPING } state;
    const struct mock_order *order;
    struct mock_outcome *outcomes;
    struct mock_kept result;
};

static void rank_thread_set_state(struct thread *t, int state)
{
    t->state = state;
    pthread_cond_broadcast(&t->changed);
}

static void *rank_thread_run(void *arg)
{
    struct thread *t = arg;

    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->state == IDLE || t->state == DONE)
            pthread_cond_wait(&t->changed, &t->lock);
        if (t->state == STOPPING)
            break;
        pthread_mutex_unlock(&t->lock);
        mock_keep(&t->result,
                  mock_rank_execute(t->rank, t->order, t->outcomes));
        pthread_mutex_lock(&t->lock);
        rank_thread_set_state(t, DONE);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static ncclResult_t rank_thread_post(struct mock_rank *rank,
                                     const struct mock_order *order,
                                     struct mock_outcome *outcomes)
{
    struct thread *t = (struct thread *)rank->carrier;

    pthread_mutex_lock(&t->lock);
    t->order = order;
    t->outcomes = outcomes;
    rank_thread_set_state(t, POSTED);
    pthread_mutex_unlock(&t->lock);
    return ncclSuccess;
}

static ncclResult_t rank_thread_wait_for(struct mock_rank *rank)
{
    struct thread *t = (struct thread *)rank->carrier;

    pthread_mutex_lock(&t->lock);
    while (t->state != DONE)
        pthread_cond_wait(&t->changed, &t->lock);
    t->state = IDLE;
    pthread_mutex_unlock(&t->lock);
    return mock_restore(&t->result);
}

/* A thread cannot be ended: it just receives no more orders. */
static void rank_thread_kill_it(struct mock_rank *rank)
{
}

static void rank_thread_stop(struct mock_rank *rank)
{
    struct thread *t = (struct thread *)rank->carrier;

    pthread_mutex_lock(&t->lock);
    rank_thread_set_state(t, STOPPING);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->id, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
    rank->carrier = NULL;
}

static const struct mock_carrier_ops ops = {
    rank_thread_post, rank_thread_wait_for, rank_thread_kill_it,
    rank_thread_stop};

ncclResult_t mock_thread_start(struct mock_rank *rank)
{
    struct thread *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return mock_fail_memory();
    t->carrier.ops = &ops;
    t->rank = rank;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    if (pthread_create(&t->id, NULL, rank_thread_run, t) != 0) {
        free(t);
        return mock_fail(ncclSystemError, "no thread for rank %d",
                         rank->number);
    }
    rank->carrier = &t->carrier;
    return ncclSuccess;
}
