#include "plugin/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "plugin/entry.h"
#include "plugin/old_glibc.h"

/* libc keeps a library while a thread has something of the library to do at its
 * end (glibc 2.18), and finds the library by its handle. */
extern void *__dso_handle __attribute__((visibility("hidden")));
int __cxa_thread_atexit_impl(void (*at_end)(void *), void *user, void *library);

struct stp_thread {
    void (*body)(void *user);
    void *user;
    int ms;
    bool is_alone; /* nobody stops it */
    pid_t pid;
    int stop[2]; /* a pipe: closing its end wakes the thread up */
    pthread_t id;
};

static void thread_free(struct stp_thread *t)
{
    close(t->stop[0]);
    free(t);
}

static void *thread_run(void *arg)
{
    const struct stp_thread *t = arg;
    void (*const body)(void *user) = t->body;
    void *const user = t->user;
    const int ms = t->ms;
    struct pollfd stop = {.fd = t->stop[0], .events = POLLIN};
    struct stp_entry entry;
    int n;

    stp_entry_begin(&entry);
    if (t->is_alone) {
        __cxa_thread_atexit_impl(free, NULL, &__dso_handle);
        n = (int)write(t->stop[1], "", 1); /* frees 't' */
    }
    if (ms == STP_THREAD_ONCE)
        body(user);
    else
        while ((n = poll(&stop, 1, ms)) == 0 || (n < 0 && errno == EINTR))
            body(user);
    stp_entry_end(&entry);
    return NULL;
}

enum stp_status stp_thread_start(void (*body)(void *user), void *user, int ms,
                                 struct stp_thread **thread_ret,
                                 struct stp_error *err)
{
    struct stp_thread *t = calloc(1, sizeof(*t));
    sigset_t all, before;
    pthread_t id;
    int failed;

    if (t == NULL || pipe2(t->stop, O_CLOEXEC) != 0) {
        free(t);
        return stp_fail(err, STP_ERR_NOMEM, "no room for a thread");
    }
    t->body = body;
    t->user = user;
    t->ms = ms;
    t->is_alone = thread_ret == NULL;
    t->pid = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&id, NULL, thread_run, t);
    if (failed == 0 && t->is_alone) {
        pthread_detach(id);
        failed = read(t->stop[0], &(char){0}, 1) != 1; /* it keeps its code */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0 || t->is_alone) {
        close(t->stop[1]);
        thread_free(t);
        return failed == 0
                   ? STP_OK
                   : stp_fail(err, STP_ERR_NOMEM, "no thread to be had");
    }
    t->id = id;
    *thread_ret = t;
    return STP_OK;
}

void stp_thread_stop(struct stp_thread *thread)
{
    if (thread == NULL)
        return;
    close(thread->stop[1]);
    if (thread->pid == getpid())
        pthread_join(thread->id, NULL);
    thread_free(thread);
}
