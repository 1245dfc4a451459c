/*
 * service.h - the one thread of a process, of all that is done beside its
 * launches
 *
 * It runs from the first task to the last.  A child of fork() has neither: it
 * starts over with its own.
 */
#ifndef STP_SERVICE_H
#define STP_SERVICE_H

#include <stdbool.h>

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

/* After this the task does not run.  Waits for as long as it runs now.  A task
 * that is not there is none of this process: nothing is done. */
void stp_service_remove(struct stp_task *task);

/* At the end of the process: no task runs any more, and each is finished, and
 * stays. */
void stp_service_end(void);

#endif /* STP_SERVICE_H */
