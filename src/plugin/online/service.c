#include "plugin/online/service.h"

#include "agree/process_lock.h"
#include "plugin/thread.h"

/* Zero in a new process. */
static struct stp_process_lock lock;

/* Under the lock. */
static struct {
    struct stp_task *tasks;
    struct stp_task *running; /* without the lock meanwhile */
    pthread_cond_t has_run;
    bool is_passing; /* a thread goes through the tasks */
    struct stp_thread *thread;
} service;

static void service_lock(void)
{
    if (!stp_process_lock(&lock))
        return;
    service.tasks = service.running = NULL;
    service.has_run = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    service.is_passing = false;
    stp_thread_stop(service.thread); /* the parent's: only frees */
    service.thread = NULL;
}

static void service_unlock(void)
{
    pthread_mutex_unlock(&lock.mutex);
}

/* In the thread.  One that is about to end may overlap with the next. */
static void service_run_tasks(void *unused)
{
    service_lock();
    if (!service.is_passing) {
        service.is_passing = true;
        for (struct stp_task *t = service.tasks; t != NULL; t = t->next)
            if (t->run != NULL) {
                /* it is not removed meanwhile, so that the next one is found */
                service.running = t;
                service_unlock();
                t->run(t->user);
                service_lock();
                service.running = NULL;
                pthread_cond_broadcast(&service.has_run);
            }
        service.is_passing = false;
    }
    service_unlock();
}

enum stp_status stp_service_add(struct stp_task *task, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    service_lock();
    if (task->run != NULL && service.thread == NULL)
        status = stp_thread_start(service_run_tasks, NULL, STP_SERVICE_MS,
                                  &service.thread, err);
    if (status == STP_OK) {
        task->next = service.tasks;
        service.tasks = task;
    }
    service_unlock();
    return status;
}

void stp_service_remove(struct stp_task *task)
{
    struct stp_thread *idle;
    struct stp_task **link;

    service_lock();
    while (service.running == task)
        pthread_cond_wait(&service.has_run, &lock.mutex);
    for (link = &service.tasks; *link != NULL; link = &(*link)->next)
        if (*link == task) {
            *link = task->next;
            break;
        }
    idle = service.thread;
    for (const struct stp_task *t = service.tasks; t != NULL; t = t->next)
        if (t->run != NULL)
            idle = NULL; /* it is needed */
    if (idle != NULL)
        service.thread = NULL;
    service_unlock();
    stp_thread_stop(idle); /* which may wait for the lock */
}

void stp_service_end(void)
{
    struct stp_thread *thread;

    service_lock();
    thread = service.thread;
    service.thread = NULL;
    service_unlock();
    stp_thread_stop(thread);
    service_lock();
    for (const struct stp_task *t = service.tasks; t != NULL; t = t->next)
        t->finish(t->user);
    service_unlock();
}
