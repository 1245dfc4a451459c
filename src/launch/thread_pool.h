/* thread_pool.h - a pool of threads that run the same job at the same time */
#pragma once

#include "core/status.h"
#include "launch/world.h"

struct stp_thread_pool; /* opaque */

/* The job of thread 'thread' of the pool.  On failure *err says why. */
typedef enum stp_status (*stp_thread_pool_job)(void *user, unsigned thread,
                                               struct stp_error *err);

/* Starts 'n' >= 1 threads, which wait for jobs.  STP_ERR_NOMEM. */
enum stp_status stp_thread_pool_create(unsigned n,
                                       struct stp_thread_pool **pool_ret,
                                       struct stp_error *err);

/* Runs the job in every thread, and waits for all.  Returns the first failure.
 * Meanwhile 'world' is watched: if one of its processes dies, or after
 * 'time_limit_s' seconds unless that is 0, it returns without the threads,
 * which may be stuck in a library: the pool is then lost. */
enum stp_status stp_thread_pool_run(struct stp_thread_pool *pool,
                                    stp_thread_pool_job job, void *user,
                                    const struct stp_world *world,
                                    unsigned time_limit_s,
                                    struct stp_error *err);

/* A barrier, for jobs: waits until all threads of the pool have reached it.
 * They spin, so that all leave it within a microsecond.  False if the pool is
 * lost or another thread has failed: the job must then fail, too. */
bool stp_thread_pool_barrier(struct stp_thread_pool *pool);

/* Whether a thread has failed, for jobs that wait for other threads. */
bool stp_thread_pool_failed(const struct stp_thread_pool *pool);

/* Whether stp_thread_pool_run() has returned without its threads. */
bool stp_thread_pool_is_lost(const struct stp_thread_pool *pool);

/* Ends the threads. Threads of a lost pool stay until the process ends. */
void stp_thread_pool_destroy(struct stp_thread_pool *pool);
