/* planted_last_in_first_out.c - wants its communicators back in the order in
 * which it did not get them */
#include <pthread.h>

#include "planted.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long long n_alive;

static ncclResult_t init(struct planted *self)
{
    pthread_mutex_lock(&lock);
    self->number = n_alive++;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static void finalize(struct planted *self)
{
    pthread_mutex_lock(&lock);
    if (self->number != --n_alive)
        abort();
    pthread_mutex_unlock(&lock);
    free(self);
}

PLANTED_TUNER("last in, first out", init, planted_ask, finalize);
