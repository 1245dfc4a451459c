/*
 * cpu_streams.h - streams of work on CPUs: a thread each, and events
 *
 * A run of a program starts a thread for each stream that has something in it,
 * all ranks meet, and the threads go through their notes; the caller's thread
 * waits for them and watches whether the other ranks are alive.
 */
#ifndef STP_CPU_STREAMS_H
#define STP_CPU_STREAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "device/program.h"

/* Who does the work. */
struct stp_cpu_worker {
    /* Runs a collective, a product, an elementwise kernel or a task, in the
     * thread of its stream. */
    enum stp_status (*work)(void *self, const struct stp_work *note,
                            struct stp_error *err);

    /* Returns once all ranks are there.  In the thread of 'stream'. */
    enum stp_status (*meet)(void *self, unsigned stream, struct stp_error *err);

    /* Whether all ranks are alive, else *err says who is not; several times a
     * second, in the caller's thread. */
    bool (*alive)(void *self, struct stp_error *err);

    /* Makes all that runs return a failure, soon. */
    void (*abort)(void *self, const char *why);

    void *self;
    unsigned time_limit_s; /* of a run; 0: none */
};

/*
 * Runs the program on this rank.  us_ret[e] is when event 'e' was, in
 * microseconds of CLOCK_MONOTONIC, for all of program->n_events; 0 for those
 * that are not recorded.  After a failure nothing of it runs any more, and *err
 * is the first reason.
 */
enum stp_status stp_cpu_streams_run(const struct stp_program *program,
                                    const struct stp_cpu_worker *worker,
                                    double *us_ret, struct stp_error *err);

#endif /* STP_CPU_STREAMS_H */
