#include "launch/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { AWAKE_NS = 2000000 };

struct member {
    struct stp_thread_pool *pool;
    unsigned number;
    pthread_t thread;
    enum stp_status status;
    struct stp_error err;
};

struct stp_thread_pool {
    unsigned n;
    struct member *members;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t begin;
    pthread_cond_t end;
    atomic_uint n_jobs; /* given so far; read without the lock, too */
    unsigned n_busy;
    bool quit;
    stp_thread_pool_job job;
    void *user;

    atomic_uint n_met;
    atomic_bool failed;
    atomic_bool lost;
};

/* Waits for the job after 'n_done' of them; false if there is none to come. */
static bool pool_wait_for_job(struct stp_thread_pool *c, unsigned n_done)
{
    struct timespec begin = {0}, now;
    bool is_there;

    /* A thread that slept has a processor that did, too: jobs that follow each
     * other soon find it awake. */
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (atomic_load(&c->n_jobs) == n_done &&
             (now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec -
                     begin.tv_nsec <
                 AWAKE_NS);
    pthread_mutex_lock(&c->lock);
    while (atomic_load(&c->n_jobs) == n_done && !c->quit)
        pthread_cond_wait(&c->begin, &c->lock);
    is_there = atomic_load(&c->n_jobs) != n_done;
    pthread_mutex_unlock(&c->lock);
    return is_there;
}

static void *pool_work(void *arg)
{
    struct member *m = arg;
    struct stp_thread_pool *c = m->pool;

    for (unsigned n_done = 0; pool_wait_for_job(c, n_done); n_done++) {
        m->status = c->job(c->user, m->number, &m->err);
        if (m->status != STP_OK)
            atomic_store(&c->failed, true);
        pthread_mutex_lock(&c->lock);
        if (--c->n_busy == 0)
            pthread_cond_signal(&c->end);
        pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}

enum stp_status stp_thread_pool_create(unsigned n,
                                       struct stp_thread_pool **pool_ret,
                                       struct stp_error *err)
{
    struct stp_thread_pool *c = calloc(1, sizeof(*c));
    pthread_condattr_t monotonic;

    if (c != NULL)
        c->members = calloc(n, sizeof(*c->members));
    if (c == NULL || c->members == NULL) {
        free(c);
        return stp_nomem(err);
    }
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->begin, NULL);
    pthread_cond_init(&c->end, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (c->n = 0; c->n < n; c->n++) {
        struct member *m = &c->members[c->n];

        m->pool = c;
        m->number = c->n;
        if (pthread_create(&m->thread, NULL, pool_work, m) != 0) {
            stp_thread_pool_destroy(c);
            return stp_fail(err, STP_ERR_NOMEM, "cannot start thread %u",
                            m->number);
        }
    }
    *pool_ret = c;
    return STP_OK;
}

static enum stp_status pool_watch(struct stp_thread_pool *c,
                                  const struct stp_world *world,
                                  unsigned time_limit_s, struct stp_error *err)
{
    struct timespec now = {0};
    time_t end;

    clock_gettime(CLOCK_MONOTONIC, &now);
    end = now.tv_sec + (time_t)time_limit_s;
    for (;;) {
        struct timespec until = now; /* 20 ms later */
        bool is_done;

        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&c->lock);
        if (c->n_busy > 0)
            pthread_cond_timedwait(&c->end, &c->lock, &until);
        is_done = c->n_busy == 0;
        pthread_mutex_unlock(&c->lock);
        if (is_done)
            return STP_OK;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!world->ops->alive(world->self, err)) {
            atomic_store(&c->lost, true);
            return STP_ERR_DEVICE;
        }
        if (time_limit_s > 0 && now.tv_sec > end) {
            atomic_store(&c->lost, true);
            return stp_fail(err, STP_ERR_DEVICE, "not done within %u seconds",
                            time_limit_s);
        }
    }
}

enum stp_status stp_thread_pool_run(struct stp_thread_pool *c,
                                    stp_thread_pool_job job, void *user,
                                    const struct stp_world *world,
                                    unsigned time_limit_s,
                                    struct stp_error *err)
{
    const struct member *first = NULL;

    pthread_mutex_lock(&c->lock);
    c->job = job;
    c->user = user;
    c->n_busy = c->n;
    atomic_store(&c->failed, false);
    atomic_store(&c->n_met, 0);
    atomic_fetch_add(&c->n_jobs, 1);
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
    STP_TRY(pool_watch(c, world, time_limit_s, err));
    /* The failure of a thread by itself, if one failed so: those that only
     * stopped for it say nothing of why. */
    for (unsigned i = 0; i < c->n; i++)
        if (c->members[i].status != STP_OK &&
            (first == NULL || first->status == STP_ERR_STOPPED))
            first = &c->members[i];
    if (first == NULL)
        return STP_OK;
    if (err != NULL)
        *err = first->err;
    return first->status;
}

bool stp_thread_pool_failed(const struct stp_thread_pool *c)
{
    return atomic_load(&c->failed) || atomic_load(&c->lost);
}

/* The k-th meeting of a job is over once k times n arrivals are counted. */
bool stp_thread_pool_barrier(struct stp_thread_pool *c)
{
    unsigned arrived = atomic_fetch_add(&c->n_met, 1);
    unsigned all = (arrived / c->n + 1) * c->n;

    for (unsigned spins = 0; atomic_load(&c->n_met) < all; spins++) {
        if (stp_thread_pool_failed(c))
            return false;
        if (spins > 10000)
            sched_yield();
    }
    return !stp_thread_pool_failed(c);
}

bool stp_thread_pool_is_lost(const struct stp_thread_pool *c)
{
    return atomic_load(&c->lost);
}

void stp_thread_pool_destroy(struct stp_thread_pool *c)
{
    if (c == NULL || stp_thread_pool_is_lost(c))
        return;
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->n; i++)
        pthread_join(c->members[i].thread, NULL);
    pthread_cond_destroy(&c->end);
    pthread_cond_destroy(&c->begin);
    pthread_mutex_destroy(&c->lock);
    free(c->members);
    free(c);
}
