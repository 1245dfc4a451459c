/* process_lock.h - a lock of state that a process has once, and that a forked
 * child starts over
 *
 * A child has copies of its parent's variables, but none of its threads: a
 * thread may have held the lock, or be named in what it protects. */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

struct stp_process_lock { /* all 0 at first */
    _Atomic pid_t pid;    /* whose it is; negative: about to be */
    pthread_mutex_t mutex;
};

/* Takes the lock, which pthread_mutex_unlock() gives back. True at first in a
 * process: the protected state is another process's then, or all 0. */
static inline bool stp_process_lock(struct stp_process_lock *lock)
{
    pid_t pid = getpid();
    pid_t owner = atomic_load(&lock->pid);

    if (owner != pid && owner != -pid &&
        atomic_compare_exchange_strong(&lock->pid, &owner, -pid)) {
        pthread_mutex_init(&lock->mutex, NULL);
        pthread_mutex_lock(&lock->mutex);
        atomic_store(&lock->pid, pid);
        return true;
    }
    while (atomic_load(&lock->pid) != pid)
        sched_yield();
    pthread_mutex_lock(&lock->mutex);
    return false;
}
