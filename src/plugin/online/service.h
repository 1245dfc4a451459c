/* service.h - the one thread of a process, for all work outside of launches
 *
 * The thread runs while there are tasks. A child of fork() has no thread and no
 * tasks, and starts its own. */
#pragma once

#include "core/status.h"

/* Lies in memory of the caller's. */
struct stp_task {
    struct stp_task *next;
    void (*run)(void *user); /* called every STP_SERVICE_MS; NULL: no thread is
                                needed */
    void (*finish)(void *user); /* called by stp_service_end() */
    void *user;
};

enum { STP_SERVICE_MS = 10 };

/* Adds a task, whose members but next are set.  STP_ERR_NOMEM: there is no
 * thread to be had, and the task is not added. */
enum stp_status stp_service_add(struct stp_task *task, struct stp_error *err);

/* Removes a task, and waits while it runs. A task that is not there belongs to
 * another process, and nothing is done. */
void stp_service_remove(struct stp_task *task);

/* Finishes all tasks at the end of the process. None runs or is removed. */
void stp_service_end(void);
