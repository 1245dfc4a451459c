/* rank_thread.c - a rank in a thread of its own */
#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "ranks/rank.h"

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
