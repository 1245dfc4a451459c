/* mock_streams.h - two streams in virtual time
 *
 * Tasks of one stream run in order, the two streams side by side; collectives,
 * which are all of one communicator, run in the order in which they were noted,
 * whatever their stream. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum stp_task_kind {
    STP_TASK_COLLECTIVE,
    STP_TASK_COMPUTE,
    STP_TASK_RECORD, /* of an event */
    STP_TASK_WAIT,   /* for an event recorded earlier in the list */
    STP_TASK_NOTHING,
};

struct stp_mock_task {
    enum stp_task_kind kind;
    unsigned stream; /* STP_STREAM_MAIN or STP_STREAM_COMM */
    unsigned event;  /* of a record or a wait */
    double us;       /* alone; of the others */

    /* A compute or a collective ran from then to then; 0 for all else. */
    double begin_us, end_us;
};

struct stp_task_event {
    double us;
    bool is_waited; /* by a task of the list */
};

/* How many times as long compute and a collective, both by their place in the
 * list, take while they run side by side; above 0. */
typedef double (*stp_task_slowdown)(void *user, size_t compute,
                                    size_t collective);

/* Runs the 'n' tasks from 'start_us' on: sets the times of events[] that are
 * recorded, each of which is recorded once, and of tasks; returns when all is
 * done.  Two computes side by side take twice as long each. */
double stp_run_streams(struct stp_mock_task *tasks, size_t n, double start_us,
                       stp_task_slowdown slowdown, void *user,
                       struct stp_task_event *events);
