/* mock_streams.h - two streams in virtual time
 *
 * Tasks of one stream run in order, the two streams side by side; collectives,
 * which are all of one communicator, run in the order in which they were noted,
 * whatever their stream. */
#pragma once

#include <stddef.h>

enum stp_task_kind {
    STP_TASK_COLLECTIVE,
    STP_TASK_COMPUTE,
    STP_TASK_RECORD, /* of an event */
    STP_TASK_WAIT,   /* for an event recorded earlier in the list */
    STP_TASK_NOTHING,
};

struct stp_task {
    enum stp_task_kind kind;
    unsigned stream; /* STP_STREAM_MAIN or STP_STREAM_COMM */
    unsigned event;  /* of a record or a wait */
    double us;       /* alone; of the others */
};

/* How many times as long compute and a collective, both by their place in the
 * list, take while they run side by side; above 0. */
typedef double (*stp_task_slowdown)(void *user, size_t compute,
                                    size_t collective);

/* When a compute or a collective ran; of all else both are 0. */
struct stp_task_time {
    double begin_us;
    double end_us;
};

/* Runs the 'n' tasks from 'start_us' on: sets event_us[] of those that are
 * recorded, each of which is recorded once, and returns when all is done.
 * Two computes side by
 * side take twice as long each.  times_ret[] is of all tasks; or NULL. */
double stp_run_streams(const struct stp_task *tasks, size_t n, double start_us,
                       stp_task_slowdown slowdown, void *user, double *event_us,
                       struct stp_task_time *times_ret);
